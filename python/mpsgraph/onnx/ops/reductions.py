"""Translations of reductions over axes, ArgMax, and ArgMin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..._core import DType, Tensor, bool_, float64, int32, int64, uint64
from ..building.node import Node, Results, operator

Reduce = Callable[[Tensor, list[int]], Tensor]


def _reduced(node: Node, x: Tensor, reduce: Reduce, each: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Apply a reduction method, and remove the reduced axes from the result unless the attribute keepdims is set.

    If the node reduces over no axes, `each` is applied to every element instead.
    """
    g = node.g
    in_operand = node.version >= (13 if node.name == "ReduceSum" else 18)
    axes = (node.ints(1) if node.has(1) else None) if in_operand else node.attribute("axes", None)
    none, keeps = node.attribute("noop_with_empty_axes", 0), node.attribute("keepdims", 1)
    if not axes:
        if none:
            return g.identity(x) if each is None else each(x)
        axes = list(range(node.rank(x)))
    axes = node.axes(x, axes)
    if not node.rank(x):
        return g.reshape(reduce(g.reshape(x, (1,)), [0]), ())
    result = reduce(x, axes)
    return result if keeps else g.squeeze(result, axes)


def _unchanged(node: Node, x: Tensor) -> Tensor:
    return x


def _enter(
    name: str,
    upto: int,
    reduce: Callable[[Node, Tensor, list[int]], Tensor],
    each: Callable[[Node, Tensor], Tensor] = _unchanged,
    real: bool = False,
) -> None:
    """Register the translation of a reduction. float16 and bfloat16 are reduced in float32.

    With `real`, integers are converted to float64 first, and the result is rounded toward zero.
    """

    @operator(name, upto=upto)
    def lower(node: Node) -> Results:
        def compute(x: Tensor) -> Tensor:
            return _reduced(node, x, lambda y, axes: reduce(node, y, axes), lambda y: each(node, y))

        x = node.tensor(0)
        return node.in_dtype(float64, x, compute) if real and not x.dtype.is_float else node.widely(x, compute)


def _sum(node: Node, x: Tensor, axes: Sequence[int]) -> Tensor:
    return node.g.reduction_sum(x, axes)


def _mean(node: Node, x: Tensor, axes: list[int]) -> Tensor:
    """Return the mean. For integers, sum in int64, divide by the count, and round toward zero."""
    g = node.g
    if x.dtype.is_float:
        return g.mean(x, axes)
    wide = int64 if x.dtype.is_signed else uint64
    count = node.product(node.dim(x, axis) for axis in axes)
    count = g.reshape(g.cast(count, wide), ()) if isinstance(count, Tensor) else g.constant(count, dtype=wide)
    return node.cast(g.division(g.reduction_sum(node.cast(x, wide), axes), count), x.dtype)


def _log(node: Node, x: Tensor) -> Tensor:
    return node.g.logarithm(x)


def _absolute(node: Node, x: Tensor) -> Tensor:
    return x if x.dtype.is_integer and not x.dtype.is_signed else node.g.absolute(x)


def _square(node: Node, x: Tensor) -> Tensor:
    return node.g.multiplication(x, x)


def _log_of_sum_of_exponents(node: Node, x: Tensor, axes: list[int]) -> Tensor:
    """Return ln(sum(exp(x))), subtracting the maximum first unless it is -inf."""
    g = node.g
    if 0 in (x.shape or ()):
        return g.logarithm(g.reduction_sum(g.exponent(x), axes))
    largest = g.reduction_maximum_propagate_nan(x, axes)
    largest = g.select(g.is_infinite(largest), 0.0, largest)
    return g.addition(g.logarithm(g.reduction_sum(g.exponent(g.subtraction(x, largest)), axes)), largest)


def norm2(node: Node, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the square root of the sum of squares, with a gradient of zero at zero."""
    g = node.g
    total = g.reduction_sum(g.square(x), axes)
    empty = g.equal(total, 0.0)
    return g.select(empty, 0.0, g.square_root(g.select(empty, 1.0, total)))


_enter("ReduceSum", 13, _sum)
_enter("ReduceProd", 18, lambda node, x, axes: node.g.reduction_product(x, axes))
_enter("ReduceMean", 18, _mean)
_enter("ReduceSumSquare", 18, lambda node, x, axes: _sum(node, _square(node, x), axes), _square)
_enter("ReduceL1", 18, lambda node, x, axes: _sum(node, _absolute(node, x), axes), _absolute)
_enter("ReduceL2", 18, norm2, _absolute, real=True)
_enter("ReduceLogSum", 28, lambda node, x, axes: _log(node, _sum(node, x, axes)), _log, real=True)
_enter("ReduceLogSumExp", 28, _log_of_sum_of_exponents, real=True)


def _extreme(name: str, upto: int) -> None:
    @operator(name, upto=upto)
    def lower(node: Node) -> Results:
        g, x = node.g, node.tensor(0)
        largest = node.name == "ReduceMax"
        if x.dtype == bool_:
            return _reduced(node, x, g.reduction_or if largest else g.reduction_and)

        def reduce(x: Tensor, axes: list[int]) -> Tensor:
            if any(node.dims(x)[a] == 0 for a in axes):  # An empty reduction yields the neutral element.
                return _filled(node, x, axes, _lowest(x.dtype) if largest else _highest(x.dtype))
            return (g.reduction_maximum_propagate_nan if largest else g.reduction_minimum_propagate_nan)(x, axes)

        return _reduced(node, x, reduce)


def _filled(node: Node, x: Tensor, axes: list[int], value: float) -> Tensor:
    shape = [1 if i in axes else size for i, size in enumerate(node.shape(x))]
    return node.g.constant(value, shape=shape, dtype=x.dtype)


def _lowest(dtype: DType) -> float:
    return -math.inf if dtype.is_float else int(np.iinfo(str(dtype)).min)


def _highest(dtype: DType) -> float:
    return math.inf if dtype.is_float else int(np.iinfo(str(dtype)).max)


_extreme("ReduceMax", 20)
_extreme("ReduceMin", 20)


@operator("ArgMax", "ArgMin", upto=13)
def arg_extreme(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    axis = node.axis(x, node.attribute("axis", 0))
    method = g.reduction_arg_maximum if node.name == "ArgMax" else g.reduction_arg_minimum
    if node.attribute("select_last_index", 0):  # The last maximum is the first one in reverse order.
        size = node.dim(x, axis)
        last = size - 1 if isinstance(size, int) else g.cast(g.reshape(g.subtraction(size, 1), ()), int32)
        index = g.subtraction(last, method(reversed_along(node, x, [axis]), axis))
    else:
        index = method(x, axis)
    return g.cast(index if node.attribute("keepdims", 1) else g.squeeze(index, [axis]), int64)


def reversed_along(node: Node, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Reverse x along axes."""
    rank = node.rank(x)
    strides = [1] * rank
    for axis in axes:
        strides[axis] = -1
    mask = (1 << rank) - 1
    return node.g.slice(x, [0] * rank, [0] * rank, strides, mask, mask)
