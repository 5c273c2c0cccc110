"""Sums, products, extremes and norms over axes, and where the extremes are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..._core import DType, Tensor, bool_, float32, int32, int64
from .._registry import Node, Results, operator
from ._compose import in_dtype

Reduce = Callable[[Tensor, list[int]], Tensor]


def _reduced(node: Node, x: Tensor, reduce: Reduce) -> Tensor:
    """reduce(x, axes), which keeps the axes; they are then dropped, unless the node keeps them."""
    g = node.g
    in_operand = node.version >= (13 if node.op == "ReduceSum" else 18)
    axes = (node.ints(1) if node.has(1) else None) if in_operand else node.attribute("axes", None)
    if not axes:
        if node.attribute("noop_with_empty_axes", 0):
            return x
        axes = list(range(node.rank(x)))
    axes = node.axes(x, axes)
    if not node.rank(x):
        return g.reshape(reduce(g.reshape(x, (1,)), [0]), ())
    result = reduce(x, axes)
    return result if node.attribute("keepdims", 1) else g.squeeze(result, axes)


def _enter(name: str, upto: int, make: Callable[[Node], Reduce], floats_only: bool = False) -> None:
    """`floats_only`: integers are computed in float32 and rounded towards zero."""

    @operator(name, upto=upto)
    def lower(node: Node) -> Results:
        x, reduce = node.tensor(0), make(node)
        if floats_only and not x.dtype.is_float:
            return in_dtype(node, float32, x, lambda y: _reduced(node, y, reduce))
        return _reduced(node, x, reduce)


_enter("ReduceSum", 13, lambda node: node.g.reduction_sum)
_enter("ReduceProd", 18, lambda node: node.g.reduction_product)
_enter("ReduceMean", 18, lambda node: node.g.mean, floats_only=True)


def _sum_of(node: Node, of: Callable[[Tensor], Tensor]) -> Reduce:
    return lambda x, axes: node.g.reduction_sum(of(x), axes)


def _sum_of_exponents(node: Node) -> Reduce:
    """ln of the sum of e^x, with the largest x taken out first; where all are -inf, nothing is."""

    def reduce(x: Tensor, axes: list[int]) -> Tensor:
        g = node.g
        if 0 in (x.shape or ()):
            return g.logarithm(g.reduction_sum(g.exponent(x), axes))
        largest = g.reduction_maximum_propagate_nan(x, axes)
        largest = g.select(g.is_infinite(largest), 0.0, largest)
        return g.addition(g.logarithm(g.reduction_sum(g.exponent(g.subtraction(x, largest)), axes)), largest)

    return reduce


def _root_of_squares(node: Node) -> Reduce:
    """The 2-norm, with a gradient of zero at zero."""
    return lambda x, axes: norm2(node, x, axes)


def norm2(node: Node, x: Tensor, axes: Sequence[int]) -> Tensor:
    """The root of the sum of squares, differentiable also at zero, where its gradient is zero."""
    g = node.g
    total = g.reduction_sum(g.square(x), axes)
    empty = g.equal(total, 0.0)
    return g.select(empty, 0.0, g.square_root(g.select(empty, 1.0, total)))


_enter("ReduceSumSquare", 18, lambda node: _sum_of(node, node.g.square))
_enter("ReduceL1", 18, lambda node: _sum_of(node, node.g.absolute))
_enter("ReduceL2", 18, _root_of_squares, floats_only=True)
_enter("ReduceLogSum", 18, lambda node: lambda x, axes: node.g.logarithm(node.g.reduction_sum(x, axes)), True)
_enter("ReduceLogSumExp", 18, _sum_of_exponents, floats_only=True)


def _extreme(name: str, upto: int) -> None:
    @operator(name, upto=upto)
    def lower(node: Node) -> Results:
        g, x = node.g, node.tensor(0)
        largest = node.op == "ReduceMax"
        if x.dtype == bool_:
            return _reduced(node, x, g.reduction_or if largest else g.reduction_and)

        def reduce(x: Tensor, axes: list[int]) -> Tensor:
            if any(node.dims(x)[a] == 0 for a in axes):  # of nothing: what any number would replace
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
    method = g.reduction_arg_maximum if node.op == "ArgMax" else g.reduction_arg_minimum
    if node.attribute("select_last_index", 0):  # the first one from behind
        size = node.dim(x, axis)
        last = size - 1 if isinstance(size, int) else g.cast(g.reshape(g.subtraction(size, 1), ()), int32)
        index = g.subtraction(last, method(reversed_along(node, x, [axis]), axis))
    else:
        index = method(x, axis)
    return g.cast(index if node.attribute("keepdims", 1) else g.squeeze(index, [axis]), int64)


def reversed_along(node: Node, x: Tensor, axes: Sequence[int]) -> Tensor:
    """x with the order along some axes turned round."""
    rank = node.rank(x)
    strides = [1] * rank
    for axis in axes:
        strides[axis] = -1
    mask = (1 << rank) - 1
    return node.g.slice(x, [0] * rank, [0] * rank, strides, mask, mask)
