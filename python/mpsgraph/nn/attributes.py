"""Assignments to attributes of layers after their construction.

Assigning an argument of the constructor, as in `pool.kernel_size = 3`, has the effect of constructing the layer with
it: the value is checked and converted in the same way, and attributes that the constructor computes from the value are
updated. An assignment that cannot take effect raises an error. This applies to attributes from which variables were
created, and to arguments that the constructor passes on to other layers.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from .._core import Tensor
from .._display import given_to, shown
from ..errors import GraphError

Module: TypeAlias = Any
"""A Module of mpsgraph.nn, whose file imports this one."""

ALIASES = {"strides": "stride", "dilations": "dilation", "epsilon": "eps", "padding_index": "padding_idx"}
_ABSENT = object()


class AssignedAttributes:
    """Base class of modules, whose attributes a program may assign after the construction."""

    _computed: frozenset[str] = frozenset()
    """Names of attributes that the constructor computes from its arguments, and that cannot be assigned."""


class _Constructions(threading.local):
    """The layers that a thread is constructing."""

    def __init__(self) -> None:
        self.open: list[Any] = []


_constructions = _Constructions()


def noting_construction(initialise: Callable[..., None]) -> Callable[..., None]:
    """Wrap a constructor so that assignments to attributes within it count as part of the construction."""

    @functools.wraps(initialise)
    def initialised(self: Any, *arguments: Any, **options: Any) -> None:
        _constructions.open.append(self)
        try:
            initialise(self, *arguments, **options)
        finally:
            _constructions.open.pop()

    return initialised


def assignments(module: Module, name: str, value: Any) -> dict[str, Any]:
    """Return the attributes to set when a program assigns a value to an attribute of a layer of this package.

    Args:
        module: The layer.
        name: Name of the attribute.
        value: Its new value.

    Raises:
        GraphError: If the attribute cannot change.
        Error: If the constructor does not accept the value; this is the constructor's own error.
    """
    kind: Any = type(module)
    known = vars(module).get(name, _ABSENT)
    if any(other is module for other in _constructions.open) or known is value:
        return {name: value}
    if name in _unstored_arguments(kind):
        raise GraphError(
            f"{kind.__name__}.{name} cannot be set, because it is only an argument of the constructor: create a new "
            "module, or set another attribute of this one"
        )
    if not isinstance(value, Tensor) and name in _variable_names(kind):
        raise GraphError(
            f"{kind.__name__}.{name} must be a variable, got {shown(value)}: create a new module to change which "
            "variables it has"
        )
    if known is _ABSENT:
        return {name: value}
    if _is_module(known) and not callable(value):
        raise GraphError(f"{kind.__name__}.{name} must be a module, as it is now, got {shown(value)}")
    if name in module._computed and known != value:
        raise GraphError(
            f"{kind.__name__}.{name} cannot be changed, because the constructor has computed it from its arguments: "
            "create a new module"
        )
    if _is_module(known) or isinstance(known, Tensor) or name not in _parameters(kind):
        return {name: value}
    return _as_constructed(module, name, value)


def _as_constructed(module: Module, name: str, value: Any) -> dict[str, Any]:
    """Return the attributes that differ if the layer is constructed with another value of an argument."""
    kind = type(module)
    given = given_to(module)
    bound = inspect.signature(kind).bind(*given.positional, **given.named).arguments
    by_hand = dict(vars(module).get("_by_hand", {}))
    before = _construct(kind, bound, by_hand)
    after = _construct(kind, bound, by_hand | {name: value})
    for (path, part), (_, same) in zip(before.named_modules(), after.named_modules(), strict=False):
        if path and _settings(part) != _settings(same):
            raise GraphError(
                f"{kind.__name__}.{name} cannot be changed, because the constructor passes it on to {path}: change "
                "that layer, or create a new module"
            )
    one, other = _settings(before), _settings(after)
    module.__dict__["_by_hand"] = by_hand | {name: value}
    changed = {key: item for key, item in other.items() if key not in one or one[key] != item}
    return changed | {name: vars(after)[name]}


def _construct(kind: type[Module], given: dict[str, Any], by_hand: dict[str, Any]) -> Module:
    arguments = {key: item for key, item in given.items() if key not in {ALIASES.get(name) for name in by_hand}}
    return kind(**(arguments | by_hand))


def _settings(module: Module) -> dict[str, Any]:
    """Return the attributes of a layer that are plain values."""
    plain = (bool, int, float, str, tuple, list, type(None))
    return {key: item for key, item in vars(module).items() if isinstance(item, plain) and key[0] != "_"}


def _is_module(value: Any) -> bool:
    return hasattr(value, "named_modules")


@cache
def _parameters(kind: type) -> frozenset[str]:
    """Return the names of the constructor's arguments; empty if it takes any number of them."""
    parameters = inspect.signature(kind).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return frozenset()
    return frozenset(each.name for each in parameters)


@cache
def _variable_names(kind: type) -> frozenset[str]:
    """Return the names of a layer's attributes that hold variables."""
    tables = [vars(owner).get("__annotations__", {}) for owner in kind.__mro__]
    return frozenset(name for table in tables for name, hint in table.items() if hint in ("Tensor", Tensor))


@cache
def _unstored_arguments(kind: type) -> frozenset[str]:
    """Return the names of a layer's constructor arguments that are not attributes: setting them has no effect."""
    names = set(_parameters(kind))
    for owner in kind.__mro__:
        names -= {*vars(owner), *vars(owner).get("__annotations__", ())}
        names -= names_in(inspect.unwrap(vars(owner).get("__init__", None)))
    return frozenset(names)


def names_in(function: Any) -> set[str]:
    """Return the names of attributes and globals that a function, and the functions defined in it, use."""
    code = getattr(function, "__code__", function)
    if not hasattr(code, "co_names"):
        return set()
    return set(code.co_names).union(*(names_in(inner) for inner in code.co_consts))
