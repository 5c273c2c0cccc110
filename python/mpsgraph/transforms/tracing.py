"""jit: a Python function becomes a compiled program for each combination of argument types."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._checks import checked
from .._core import NDArray, Tensor
from .._display import shown
from ..errors import DTypeError, GraphError, UnsupportedError
from ..graph import Graph, promote
from ..numpy._creation import asarray
from ..numpy._operation import constant
from ._structures import flattened, is_array, rebuilt

LIMIT = 256
"""Maximum number of programs that one function keeps. When it is reached, the oldest is removed."""


class _State(threading.local):
    graph: Graph | None = None


_state = _State()


def tracing() -> Graph | None:
    """Return the graph to which a function that is being traced adds operations, or None."""
    return _state.graph


def graph_for(leaves: Sequence[Any]) -> Graph | None:
    """Return the graph of the first tensor among leaves, or else the graph that is being traced, or None."""
    found = next((x for x in leaves if isinstance(x, Tensor)), None)
    return _state.graph if found is None else found.graph  # type: ignore[return-value]


def as_tensor(g: Graph, value: Any) -> Tensor:
    """Return a leaf as a tensor of a graph."""
    return constant(g, value if isinstance(value, Tensor) else asarray(value), None)  # type: ignore[no-any-return]


class Program:
    """A compiled trace of a function for one combination of argument types."""

    def __init__(self, function: Callable[..., Any], form: Any, leaves: list[Any], structure: Any) -> None:
        g = Graph()
        promote(g)
        self.places = [g.placeholder(x.shape, x.dtype) for x in leaves]
        arguments, named = rebuilt(form, iter(self.places), structure)
        before, _state.graph = _state.graph, g
        try:
            result = function(*arguments, **named)
        finally:
            _state.graph = before
        self.result: list[Any] = []
        self.like = result
        self.form = flattened(result, self.result)
        # Each call returns new arrays, also for those that do not depend on the arguments.
        self.result = [as_tensor(g, x) if isinstance(x, (NDArray, np.ndarray)) else x for x in self.result]
        self.targets = list(dict.fromkeys(x for x in self.result if isinstance(x, Tensor)))
        for target in self.targets:
            if target.graph is not g:
                raise GraphError(f"jit: the function returned '{target.name}', a tensor of another graph")
        self.graph = g
        places = {target: i for i, target in enumerate(self.targets)}
        self.positions = [places[x] if isinstance(x, Tensor) else None for x in self.result]
        self.single = self.form is None
        if not self.targets:
            self._run: Callable[[list[Any]], list[Any]] = lambda arrays: []
            return
        try:
            compiled = g.compile({p: tuple(p.shape or ()) for p in self.places}, self.targets)
            self._run = compiled.run
        except UnsupportedError:  # The shape of a result depends on values.
            self._run = self._run_graph

    def _run_graph(self, arrays: list[Any]) -> list[Any]:
        results = self.graph.run(dict(zip(self.places, arrays, strict=True)), self.targets)
        return [results[t] for t in self.targets]

    def __call__(self, arrays: list[Any]) -> Any:
        found = self._run(arrays)
        if self.single and self.positions[0] is not None:
            return found[0]
        leaves = [old if at is None else found[at] for at, old in zip(self.positions, self.result, strict=True)]
        return rebuilt(self.form, iter(leaves), self.like)


@checked
def jit(function: Callable[..., Any], *, static: int | str | Sequence[int | str] = ()) -> Callable[..., Any]:
    """Return a function that compiles another one on its first call with given types of arguments.

    The function is traced: it is called with tensors in place of arrays and numbers, in nested tuples, lists, dicts,
    and dataclasses, and the operations that it applies become a program. Later calls with arguments of equal structure,
    shapes, and dtypes run the program. Bools, strings, None, and functions in the arguments are not traced; other
    values of them compile another program. A call with tensors, or while another function is traced, adds the
    operations to that graph.

    Args:
        function: Function of arrays. It must not depend on anything else that changes, because its Python code does
            not run again.
        static: Positions or names of further arguments whose values are not traced, such as sizes. Their values must
            be hashable. They can be passed by position or by name. Defaults to none.

    Returns:
        A function with the same arguments, which returns arrays in the structure that `function` returns.

    Raises:
        GraphError: If the function has no argument that `static` names. From a call, if the function returns a tensor
            of another graph, or an argument cannot be hashed.
        DTypeError: From a call, if an array has an unsupported dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> @mg.jit
        ... def normalized(x):
        ...     return (x - x.mean()) / x.std()
        >>> normalized(np.float32([1, 2, 3])).tolist()
        [-1.2247447967529297, 0.0, 1.2247447967529297]
    """
    programs: dict[Any, Program] = {}
    positions, names = _static_arguments(function, (static,) if isinstance(static, (int, str)) else static)

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        if positions or names:
            arguments = tuple(_Static(a) if i in positions else a for i, a in enumerate(arguments))
            named = {k: _Static(a) if k in names else a for k, a in named.items()}
        leaves: list[Any] = []
        form = flattened((arguments, named), leaves)
        if _state.graph is not None or any(type(x) is Tensor for x in leaves):
            return _plainly(function, arguments, named)
        arrays = [x if type(x) is NDArray else _array(x) for x in leaves]
        key = (form, *[(x.shape, x.dtype) for x in arrays])
        try:
            program = programs.get(key)
        except TypeError:
            raise GraphError("jit: arguments that are not arrays or numbers must be hashable") from None
        if program is None:
            program = Program(_with_plain(function), form, arrays, (arguments, named))
            if len(programs) >= LIMIT:
                programs.pop(next(iter(programs)), None)
            programs[key] = program
        return program(arrays)

    called.programs = programs  # type: ignore[attr-defined]
    return called


def _static_arguments(
    function: Callable[..., Any], static: Sequence[int | str]
) -> tuple[frozenset[int], frozenset[str]]:
    """Return the positions and the names of static arguments: both of each, where the signature is known."""
    positions, names = {s for s in static if isinstance(s, int)}, {s for s in static if isinstance(s, str)}
    if not static:
        return frozenset(), frozenset()
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # A function of C.
        return frozenset(positions), frozenset(names)
    by_position = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    known = [p.name for p in parameters]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for name in names.difference(known):
            raise GraphError(
                f"jit: the function has no argument {name!r} for static: it has {', '.join(known) or 'none'}"
            )
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        for at in positions:
            if not -len(by_position) <= at < len(by_position):
                raise GraphError(f"jit: static position {at} is out of range for {len(by_position)} arguments")
    positions = {at % len(by_position) if at < 0 else at for at in positions}
    names |= {by_position[at] for at in positions if at < len(by_position)}
    positions |= {at for at, name in enumerate(by_position) if name in names}
    return frozenset(positions), frozenset(names)


class _Static:
    """An argument whose value is part of the key of a program."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and type(self.value) is type(other.value) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


def _with_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: _plainly(function, arguments, named)


def _plainly(function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> Any:
    """Call a function with the values of static arguments."""
    plain = [a.value if type(a) is _Static else a for a in arguments]
    return function(*plain, **{k: a.value if type(a) is _Static else a for k, a in named.items()})


def _array(value: Any) -> NDArray:
    if not is_array(value):
        raise DTypeError(f"expected an array or a number, got {shown(value)}")
    if isinstance(value, (np.ndarray, np.generic)):
        return _core.asarray(np.asarray(value))
    return asarray(value)  # type: ignore[no-any-return]


__all__ = ["Program", "as_tensor", "graph_for", "jit", "tracing"]
