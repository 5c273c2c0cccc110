"""The registry of translations that every frontend uses, for import and for export.

A format creates one registry and registers a translation function for each name it knows:

    operator = Registry("ONNX operator")

    @operator("Relu", upto=14)
    def relu(node):
        return node.g.relu(node.tensor(0))

Names that differ only in the operation of the graph share one function and are the rows of a table, most often of one
of the tables in `renames`:

    @operator.rows({"Sin": "sin", "Cos": "cos"}, upto=22)
    def unary(node, method):
        return getattr(node.g, method)(node.tensor(0))

The function of a row receives the row's value after the node. A format with several namespaces, such as the domains of
ONNX and the libraries of PyTorch, passes `domain`; a format with versioned operators passes `upto`, the newest version
that the function translates. A name may be registered only once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Entry(NamedTuple, Generic[Function]):
    """A registered translation function, and the newest version of the operator that it translates, if any."""

    function: Function
    upto: int | None


class Registry(Generic[Function]):
    """Translation functions of one format and direction, keyed by domain and name.

    `what` describes a name in errors, for example "ONNX operator".
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._entries: dict[tuple[str, str], Entry[Function]] = {}

    def __call__(self, *names: str, domain: str = "", upto: int | None = None) -> Callable[[Function], Function]:
        """Return a decorator that registers a translation function under one or several names."""

        def enter(function: Function) -> Function:
            for name in names:
                self.enter(name, function, domain, upto)
            return function

        return enter

    def rows(
        self, table: Mapping[str, Any], *, domain: str = "", upto: int | Mapping[str, int] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that registers a function under each name of a table, to be called with the name's value.

        The function receives the node, the value, and all further arguments. `upto` is one version, or a version for
        each name.
        """

        def enter(function: Callable[..., Any]) -> Callable[..., Any]:
            for name, value in table.items():
                version = upto[name] if isinstance(upto, Mapping) else upto
                self.enter(name, _of_row(function, value), domain, version)  # type: ignore[arg-type]
            return function

        return enter

    def enter(self, name: str, function: Function, domain: str = "", upto: int | None = None) -> None:
        """Register a translation function under a name. Raises ValueError if the name is already registered."""
        if (domain, name) in self._entries:
            other = self._entries[domain, name].function
            raise ValueError(
                f"{self._what} {name!r} already has a translation, {other.__module__}.{other.__qualname__}: a name can "
                "be registered only once"
            )
        self._entries[domain, name] = Entry(function, upto)

    def get(self, name: str, domain: str = "", version: int = 0) -> Function | None:
        """Return the function that translates a version of a name, or None if there is none."""
        entry = self._entries.get((domain, name))
        return None if entry is None or (entry.upto is not None and version > entry.upto) else entry.function

    def newest(self, name: str, domain: str = "") -> int:
        """Return the newest version of a name that is translated, or 0 if there is none."""
        entry = self._entries.get((domain, name))
        return 0 if entry is None else entry.upto or 0

    def __contains__(self, name: object) -> bool:
        return ("", name) in self._entries

    def known(self, domain: str = "") -> list[str]:
        """Return the sorted names of a domain."""
        return sorted(name for inside, name in self._entries if inside == domain)

    def versions(self) -> list[tuple[str, str, int]]:
        """Return a sorted list of the domain, name, and newest version of every registered name."""
        return sorted((domain, name, entry.upto or 0) for (domain, name), entry in self._entries.items())


def _of_row(function: Callable[..., Any], value: Any) -> Callable[..., Any]:
    def translate(node: Any, *operands: Any, **named: Any) -> Any:
        return function(node, value, *operands, **named)

    translate.__module__, translate.__qualname__ = function.__module__, function.__qualname__
    return translate
