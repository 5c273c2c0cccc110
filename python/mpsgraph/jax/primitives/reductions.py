"""Translations of reductions by arbitrary binary functions, and of argmax and argmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend import core

from ..._core import Tensor
from ._table import Equation, dtype_of, highest, lowest, mapped, primitive, shape
from .elementwise import extremum
from .integers import logic
from .shapes import sliced


def halved(equation: Equation, combine: Callable[..., Any], operands: Sequence[Tensor], axis: int) -> list[Tensor]:
    """Reduce operands along an axis with an associative function.

    The function combines the two halves of the axis element by element, and this is repeated until one element is left.
    """
    size = shape(operands[0])[axis]
    parts = list(operands)
    while size > 1:
        half = size // 2

        def part(x: Tensor, first: int, last: int) -> Tensor:
            starts, ends = [0] * len(shape(x)), list(shape(x))
            starts[axis], ends[axis] = first, last
            return sliced(equation, x, starts, ends)

        left = [part(x, 0, half) for x in parts]
        right = [part(x, half, 2 * half) for x in parts]
        found = combine(left, right)
        if size % 2:
            odd = [part(x, size - 1, size) for x in parts]
            found = [equation.g.concat([f, o], axis) for f, o in zip(found, odd, strict=True)]
        parts, size = list(found), half + size % 2
    return parts


def combination(equation: Equation, jaxpr: Any, consts: Any = ()) -> Callable[..., list[Tensor]]:
    """Return a function combine(left, right) that applies a scalar jaxpr element by element.

    The jaxpr is, for example, the body of a reduction. `left` and `right` are lists of tensors.
    """
    closed = jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else core.ClosedJaxpr(jaxpr, tuple(consts))
    function = core.jaxpr_as_fun(closed)

    def combine(left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
        found = equation.traced(mapped(function, len(shape(left[0]))), *left, *right)
        return list(found) if isinstance(found, (list, tuple)) else [found]

    return combine


@primitive("reduce")
def reduce(equation: Equation, *operands: Tensor, jaxpr: Any, dimensions: Any, consts: Any = (), **_: Any) -> Any:
    """Translate reduce: reduce each axis by repeated halving, and combine the result with the initial values.

    As in XLA, the function must be associative.
    """
    count = len(operands) // 2
    parts, firsts = list(operands[:count]), operands[count:]
    combine = combination(equation, jaxpr, consts)
    for axis in sorted(int(axis) for axis in dimensions):
        if shape(parts[0])[axis] == 0:
            return [equation.g.broadcast_to(first, equation.shape) for first in firsts]
        parts = halved(equation, combine, parts, axis)
    parts = [equation.g.reshape(x, equation.shape) for x in parts]
    return combine([equation.g.broadcast_to(first, equation.shape) for first in firsts], parts)


def _axes(axes: Any) -> list[int]:
    return [int(axis) for axis in axes]


def _reduced(equation: Equation, x: Tensor, axes: Any, method: str, neutral: Any) -> Tensor:
    if not _axes(axes):
        return x
    if 0 in shape(x):
        return equation.constant(neutral, x.dtype, equation.shape)
    result: Tensor = equation.g.reshape(getattr(equation.g, method)(x, _axes(axes)), equation.shape)
    return result


@primitive("reduce_sum")
def reduce_sum(equation: Equation, x: Tensor, *, axes: Any, **_: Any) -> Tensor:
    return _reduced(equation, x, axes, "reduction_sum", 0)


@primitive("reduce_prod")
def reduce_prod(equation: Equation, x: Tensor, *, axes: Any, **_: Any) -> Tensor:
    return _reduced(equation, x, axes, "reduction_product", 1)


def _extreme(equation: Equation, x: Tensor, axes: Any, largest: bool) -> Tensor:
    if x.dtype.name == "bool":
        return _reduced(equation, x, axes, "reduction_or" if largest else "reduction_and", not largest)
    if x.dtype.is_complex:
        return _by_halves(equation, x, axes, lambda a, b: extremum(equation, a, b, largest))
    neutral = lowest(x.dtype) if largest else highest(x.dtype)
    method = "reduction_maximum" if largest else "reduction_minimum"
    return _reduced(equation, x, axes, method + ("_propagate_nan" if x.dtype.is_float else ""), neutral)


def _by_halves(equation: Equation, x: Tensor, axes: Any, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    for axis in _axes(axes):
        (x,) = halved(equation, lambda left, right: [function(left[0], right[0])], [x], axis)
    return equation.g.reshape(x, equation.shape)


@primitive("reduce_max")
def reduce_max(equation: Equation, x: Tensor, *, axes: Any, **_: Any) -> Tensor:
    return _extreme(equation, x, axes, True)


@primitive("reduce_min")
def reduce_min(equation: Equation, x: Tensor, *, axes: Any, **_: Any) -> Tensor:
    return _extreme(equation, x, axes, False)


def _logical(equation: Equation, x: Tensor, axes: Any, word: str) -> Tensor:
    if 0 in shape(x):
        ones = True if x.dtype.name == "bool" else -1
        return equation.constant(ones if word == "and" else 0, x.dtype, equation.shape)
    if x.dtype.name == "bool" and word != "xor":
        return _reduced(equation, x, axes, f"reduction_{word}", word == "and")
    return _by_halves(equation, x, axes, lambda a, b: logic(equation, word, a, b))


@primitive("reduce_and")
def reduce_and(equation: Equation, x: Tensor, *, axes: Any, **_: Any) -> Tensor:
    return _logical(equation, x, axes, "and")


@primitive("reduce_or")
def reduce_or(equation: Equation, x: Tensor, *, axes: Any, **_: Any) -> Tensor:
    return _logical(equation, x, axes, "or")


@primitive("reduce_xor")
def reduce_xor(equation: Equation, x: Tensor, *, axes: Any, **_: Any) -> Tensor:
    return _logical(equation, x, axes, "xor")


def _place(equation: Equation, x: Tensor, axes: Any, index_dtype: Any, largest: bool) -> Tensor:
    """Return the index of the first extremum, where NaN is more extreme than every number."""
    g, (axis,) = equation.g, _axes(axes)
    if x.dtype.name == "bool":
        x = g.cast(x, "int32")
    if x.dtype.is_complex:
        equation.refuse("complex numbers are not supported")
    if x.dtype.is_float:
        # Find the first NaN; if there is none, the first extremum.
        nan = g.is_nan(x)
        extreme = lowest(x.dtype) if largest else highest(x.dtype)
        numbers = g.select(nan, equation.constant(extreme, x.dtype), x)
        best = (g.reduction_arg_maximum if largest else g.reduction_arg_minimum)(numbers, axis)
        some = g.reduction_or(nan, axis)
        first = g.reduction_arg_maximum(g.cast(nan, "int32"), axis)
        found = g.select(some, first, best)
    else:
        found = (g.reduction_arg_maximum if largest else g.reduction_arg_minimum)(x, axis)
    return g.reshape(equation.cast(found, dtype_of(index_dtype)), equation.shape)


@primitive("argmax")
def argmax(equation: Equation, x: Tensor, *, axes: Any, index_dtype: Any, **_: Any) -> Tensor:
    return _place(equation, x, axes, index_dtype, True)


@primitive("argmin")
def argmin(equation: Equation, x: Tensor, *, axes: Any, index_dtype: Any, **_: Any) -> Tensor:
    return _place(equation, x, axes, index_dtype, False)
