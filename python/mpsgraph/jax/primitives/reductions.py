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
    return getattr(equation.g, method)(x, _axes(axes))  # type: ignore[no-any-return]


@primitive.rows({"reduce_sum": ("reduction_sum", 0), "reduce_prod": ("reduction_product", 1)})
def reduce_plain(equation: Equation, how: tuple[str, int], x: Tensor, *, axes: Any, **_: Any) -> Tensor:
    return _reduced(equation, x, axes, *how)


@primitive.rows({"reduce_max": True, "reduce_min": False})
def reduce_extremum(equation: Equation, largest: bool, x: Tensor, *, axes: Any, **_: Any) -> Tensor:
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
    return x


@primitive.rows({"reduce_and": "and", "reduce_or": "or", "reduce_xor": "xor"})
def reduce_logical(equation: Equation, word: str, x: Tensor, *, axes: Any, **_: Any) -> Tensor:
    if 0 in shape(x):
        ones = -1 if x.dtype.is_integer and x.dtype.is_signed else highest(x.dtype)
        return equation.constant(ones if word == "and" else 0, x.dtype, equation.shape)
    if x.dtype.name == "bool" and word != "xor":
        return _reduced(equation, x, axes, f"reduction_{word}", word == "and")
    return _by_halves(equation, x, axes, lambda a, b: logic(equation, f"bitwise_{word}", a, b))


@primitive.rows({"argmax": ("maximum", lowest), "argmin": ("minimum", highest)})
def arg_extremum(
    equation: Equation, how: tuple[str, Callable[..., Any]], x: Tensor, *, axes: Any, index_dtype: Any, **_: Any
) -> Tensor:
    """Return the index of the first extremum, where NaN is more extreme than every number."""
    g, (axis,), (word, worst) = equation.g, _axes(axes), how
    if x.dtype.name == "bool":
        x = g.cast(x, "int32")
    if x.dtype.is_complex:
        equation.refuse("complex numbers are not supported")
    place_of = getattr(g, f"reduction_arg_{word}")
    if x.dtype.is_float:
        # Find the first NaN; if there is none, the first extremum.
        nan = g.is_nan(x)
        best = place_of(g.select(nan, equation.constant(worst(x.dtype), x.dtype), x), axis)
        first = g.reduction_arg_maximum(g.cast(nan, "int32"), axis)
        found = g.select(g.reduction_or(nan, axis), first, best)
    else:
        found = place_of(x, axis)
    return equation.cast(found, dtype_of(index_dtype))
