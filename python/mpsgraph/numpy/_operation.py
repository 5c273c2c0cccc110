"""Calls of the namespace's functions: on tensors they add operations to a graph, on arrays they run a compiled program.

`@operation` wraps a function of tensors. Called with at least one tensor, the wrapper turns arrays and numbers into
constants and calls the function. Called with arrays alone, it looks up a program by the function, the types of the
arrays, and the other arguments. The first call with new types builds a graph with a placeholder for each array and
compiles it. Python numbers are fed as arrays of rank 0, so that one program serves all numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from .. import _core
from .._core import DType, NDArray, Tensor
from .._display import shown
from .._dtypes import fits
from ..errors import DTypeError, GraphError, ShapeError
from ..graph import Graph
from ._promotion import SCALARS, common, with_number

LIMIT = 4096
"""Maximum number of programs that are kept. When it is reached, the older half is removed."""
_programs: dict[Any, tuple[Callable[..., Any], tuple[DType | None, ...], bool]] = {}
_NUMBERS = frozenset(SCALARS)
Function = Callable[..., Any]


def clear_programs() -> None:
    """Remove all compiled programs of eager operations.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.clear_programs()
    """
    _programs.clear()


def operation(
    *arrays: str, promote: Sequence[int] = (), cast: bool = True, dynamic: bool = False
) -> Callable[[Function], Function]:
    """Return a decorator that makes a function of tensors callable with tensors, arrays, and Python numbers.

    Args:
        *arrays: Names of the leading parameters that are arrays. No names mean that all positional arguments are.
        promote: Positions of the arrays that are converted to a common dtype, from which Python numbers get theirs.
        cast: Whether these arrays are converted. If False, only numbers get the common dtype.
        dynamic: Whether the shape of a result depends on the values of the arrays.
    """

    def enter(build: Function) -> Function:
        count = len(arrays)
        signature = inspect.signature(build)
        group = frozenset(promote)

        @wraps(build)
        def called(*arguments: Any, **named: Any) -> Any:
            split = count or len(arguments)
            key: list[Any] = [build]
            scalars = False
            for x in arguments[:split]:
                kind = type(x)
                if kind is NDArray:
                    key.append(x.shape)
                    key.append(x.dtype)
                elif kind in _NUMBERS:
                    key.append(kind)
                    scalars = True
                elif x is None:
                    key.append(None)
                else:
                    return slow(arguments, named)
            if len(arguments) > split:
                key.append(arguments[split:])
            if named:
                key.append(tuple(named.items()))
            try:
                found = _programs.get(tuple(key))
            except TypeError:  # An argument is a list.
                return slow(arguments, named)
            if found is None:
                return slow(arguments, named, tuple(key))
            run, dtypes, single = found
            feeds: Any = arguments[:split]
            if scalars or None in feeds:
                feeds = fed(feeds, dtypes)
            return run(feeds)[0] if single else tuple(run(feeds))

        def slow(arguments: tuple[Any, ...], named: dict[str, Any], key: Any = None) -> Any:
            if count and (len(arguments) < count or not named.keys().isdisjoint(arrays)):
                bound = signature.bind(*arguments, **named)
                bound.apply_defaults()
                arguments, named = bound.args, bound.kwargs
            split = count or len(arguments)
            given = [x if x is None or type(x) in SCALARS else as_operand(x, build.__name__) for x in arguments[:split]]
            rest = [tuple(a) if isinstance(a, list) else a for a in arguments[split:]]
            named = {k: tuple(a) if isinstance(a, list) else a for k, a in named.items()}
            promotes = [x for i, x in enumerate(given) if i in group and x is not None]
            dtype = common(*promotes) if promotes else None
            symbolic = next((x for x in given if isinstance(x, Tensor)), None)
            if symbolic is not None:
                g = graph_of(symbolic)
                tensors = [constant(g, x, dtype) for x in given]
                return build(*converted(tensors, dtype), *rest, **named)
            dtypes = tuple(None if x is None else dtype or common(x) if type(x) in SCALARS else x.dtype for x in given)
            for x, own in zip(given, dtypes, strict=True):
                if isinstance(x, SCALARS) and own is not None and with_number(own, x) != own:
                    raise DTypeError(f"{build.__name__} cannot convert the number {shown(x)} to {own}")
            feeds = fed(given, dtypes)
            g = Graph()
            g.place = ""
            places = {
                i: g.placeholder(x.shape if isinstance(x, NDArray) else (), dtypes[i] or x.dtype)
                for i, x in enumerate(given)
                if x is not None
            }
            inputs = [places.get(i) for i in range(len(given))]
            made = build(*converted(inputs, dtype), *rest, **named)
            single = isinstance(made, Tensor)
            targets = [made] if single else list(made)
            if dynamic:
                results = g.run(dict(zip(places.values(), feeds, strict=True)), targets)
                return results[made] if single else tuple(results[t] for t in targets)
            run = g.compile({p: tuple(p.shape or ()) for p in places.values()}, targets).run
            if key is None:
                key = _key(build, given, rest, named)
            if key is not None:
                if len(_programs) >= LIMIT:
                    for old in list(_programs)[: LIMIT // 2]:
                        _programs.pop(old, None)
                _programs[key] = run, dtypes, single
            return run(feeds)[0] if single else tuple(run(feeds))

        def converted(tensors: list[Any], dtype: DType | None) -> list[Any]:
            if dtype is None or not cast:
                return tensors
            return [cast_to(t, dtype) if i in group and t is not None else t for i, t in enumerate(tensors)]

        return called

    return enter


def _key(build: Function, given: Sequence[Any], rest: Sequence[Any], named: dict[str, Any]) -> Any:
    key: list[Any] = [build]
    for x in given:
        key += [x.shape, x.dtype] if isinstance(x, NDArray) else [None if x is None else type(x)]
    if rest:
        key.append(tuple(rest))
    if named:
        key.append(tuple(named.items()))
    try:
        hash(tuple(key))
    except TypeError:
        return None
    return tuple(key)


def fed(given: Sequence[Any], dtypes: Sequence[DType | None]) -> list[Any]:
    """Return the arrays to feed: without None, and with each number as an array of rank 0."""
    feeds = []
    for x, dtype in zip(given, dtypes, strict=True):
        if type(x) in _NUMBERS:
            feeds.append(number_array(x, dtype))  # type: ignore[arg-type]
        elif x is not None:
            feeds.append(x)
    return feeds


def number_array(number: Any, dtype: DType) -> Any:
    """Return an array of rank 0. Raise DTypeError if the dtype cannot represent the number."""
    try:
        if type(number) is float and abs(number) >= 65504.0 and not fits(number, dtype):
            raise OverflowError
        return _core.asarray(float(number), dtype) if dtype == _core.bfloat16 else np.array(number, dtype.numpy)
    except (OverflowError, TypeError):
        raise DTypeError(
            f"the number {shown(number)} cannot be represented in {dtype}, the dtype of the array"
        ) from None


def as_operand(value: Any, what: str) -> NDArray | Tensor:
    """Return an array or tensor as it is, and anything that numpy can read as an array."""
    if isinstance(value, (NDArray, Tensor)):
        return value
    if isinstance(value, (str, bytes, dict, set)):
        raise DTypeError(f"{what} requires arrays, tensors, or numbers, got {shown(value)}")
    if isinstance(value, np.generic):
        value = np.asarray(value)
    return _core.asarray(value)


def graph_of(x: Tensor) -> Graph:
    return x.graph  # type: ignore[return-value]


def constant(g: Graph, x: Any, dtype: DType | None) -> Any:
    """Return an array or number as a constant of a graph; tensors and None are returned as they are."""
    if x is None or isinstance(x, Tensor):
        if x is not None and x.graph is not g:
            raise GraphError(f"{x.name} belongs to another graph: all tensors of an operation must be in one graph")
        return x
    if type(x) in SCALARS:
        dtype = dtype or common(x)
        if not fits(x, dtype) and not (isinstance(x, bool) and dtype != _core.bool_):
            raise DTypeError(f"the number {shown(x)} cannot be represented in {dtype}, the dtype of the tensor")
        return number(g, x, dtype)
    return g.constant(x if x.dtype != _core.bfloat16 else x.numpy(), dtype=x.dtype)


def number(g: Graph, value: Any, dtype: DType) -> Tensor:
    """Return a constant of rank 0."""
    if dtype.is_complex:
        return g.constant(np.array(value, dtype.numpy))
    kind = float if dtype.is_float else bool if dtype == _core.bool_ else int
    return g.constant(kind(value), (), dtype)


def like(x: Tensor, value: Any) -> Tensor:
    """Return a number as a constant of rank 0 with the dtype of a tensor."""
    return number(graph_of(x), value, x.dtype)


def cast_to(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype == dtype else graph_of(x).cast(x, dtype)


def shape_of(x: Any, what: str) -> tuple[int, ...]:
    """Return the shape of a tensor, whose rank must be known. Unknown sizes are -1."""
    if x.shape is None:
        raise ShapeError(f"{what} requires a tensor of known rank, but the rank of {x.name} is unknown")
    return tuple(x.shape)
