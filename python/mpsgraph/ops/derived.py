"""Graph methods that are derived from the schema of operations.

A method takes the operands of its operation, then its attributes, then `name`. Its signature, checks, and docstring
come from the C++ definition; derived.pyi has the signatures for type checkers, which `make stubs` generates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Tensor
from ._documentation import docstring
from ._family import Family
from .schema import Schema, method_name, schema


class Derived(Family):
    """Graph methods for the operations whose definition has a documentation text."""


class _Unmade:
    """A method before its first use. Making all methods at once would take a third of the import of this package."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __get__(self, graph: Any, owner: type | None = None) -> Any:
        made = _method(schema(self._kind))
        setattr(Derived, made.__name__, made)
        return made if graph is None else made.__get__(graph, owner)

    @property
    def __doc__(self) -> str | None:
        return self.__get__(None).__doc__


def _method(schema: Schema) -> Callable[..., Any]:
    """Return the Graph method that builds an operation.

    Calls that pass only tensors, one for each operand, take a short path: there is nothing to check or convert.
    """
    kind, count = schema.name, schema.short_count()

    def method(self: Family, *args: Any, **options: Any) -> Any:
        if not options and len(args) == count:
            for value in args:
                if type(value) is not Tensor:
                    break
            else:
                return self.create_tensor(kind, args, {}, None, self._noted())
        return schema.build(self, args, options)

    method.__name__, method.__qualname__, method.__module__ = schema.__name__, schema.__qualname__, __name__
    method.__doc__ = docstring(schema)
    method.__wrapped__ = schema
    return method


for _kind in _core.documented_kinds():
    setattr(Derived, method_name(_kind), _Unmade(_kind))
