"""Translations of normalizations: batch, layer, group, and local response normalization, and division by norms."""

from __future__ import annotations

from ..._core import DType, Tensor
from ...errors import GraphError, ShapeError
from ..building.node import Node, Results, operator
from .reductions import norm2


def _wide(node: Node, x: Tensor, stash: DType) -> Tensor:
    """Convert x to the dtype of the computation, which is at least float32."""
    x = node.in_float32(x)
    return node.cast(x, stash) if x.dtype.itemsize < stash.itemsize else x


def normalized(node: Node, x: Tensor, axes: list[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize x over axes. Return the result, the mean, and 1 / sqrt(variance + epsilon)."""
    g = node.g
    mean = g.mean(x, axes)
    centred = g.subtraction(x, mean)
    variance = g.mean(g.square(centred), axes)
    inverse = g.reciprocal_square_root(g.addition(variance, epsilon))
    return g.multiplication(centred, inverse), mean, inverse


@operator("BatchNormalization", upto=15)
def batch_normalization(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    scale, bias = node.tensor(1), node.tensor(2)
    mean, variance = node.buffer(3), node.buffer(4)
    if node.version >= 14:
        training = bool(node.attribute("training_mode", 0))
    else:
        tested = node.attribute("is_test", 0)
        training = len([o for o in node.outputs if o]) > 1 or (node.version < 7 and not tested)
    epsilon, momentum = node.attribute("epsilon", 1e-5), node.attribute("momentum", 0.9)
    if not node.attribute("spatial", 1):
        raise ShapeError("spatial=0, with separate statistics per position, is not supported: use spatial=1")
    results: list[Tensor | None] = []
    if training:
        axes = [i for i in range(node.rank(x)) if i != 1]
        wide = node.in_float32(x)
        now = g.reshape(g.mean(wide, axes), [-1])
        spread = g.reshape(g.variance(wide, None, axes), [-1])
        for old, new in ((g.read(mean) if mean.operation.kind == "variable" else mean, now), (variance, spread)):
            moved = g.addition(g.multiplication(node.in_float32(old), momentum), g.multiplication(new, 1 - momentum))
            results.append(node.cast(moved, old.dtype))
        # These results are statistics saved for a backward pass, which mpsgraph's automatic differentiation does not
        # need.
        if node.version < 14:
            results += [node.cast(now, mean.dtype), node.cast(spread, variance.dtype)]
        mean, variance = now, spread
    kind = x.dtype
    # The statistics may be float32 with a float16 or bfloat16 input.
    if any(t.dtype != kind for t in (mean, variance, scale, bias)):
        x = node.in_float32(x)
    mean, variance, scale, bias = (node.by_channel(node.cast(t, x.dtype), x) for t in (mean, variance, scale, bias))
    return [node.cast(g.normalization(x, mean, variance, scale, bias, epsilon), kind), *results]


@operator("InstanceNormalization", upto=22)
def instance_normalization(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    wide = node.in_float32(x)
    y, _, _ = normalized(node, wide, list(range(2, node.rank(x))), node.attribute("epsilon", 1e-5))
    scale, bias = (node.by_channel(node.in_float32(node.tensor(i)), x) for i in (1, 2))
    return node.cast(g.addition(g.multiplication(y, scale), bias), x.dtype)


@operator("LayerNormalization", upto=17)
def layer_normalization(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    first = node.axis(x, node.attribute("axis", -1))
    stash = node.dtype_attribute("stash_type", 1)
    wide = _wide(node, x, stash)
    y, mean, inverse = normalized(node, wide, list(range(first, node.rank(x))), node.attribute("epsilon", 1e-5))
    y = g.multiplication(y, node.cast(node.tensor(1), y.dtype))
    y = g.addition(y, node.cast(node.tensor(2), y.dtype)) if node.has(2) else y
    return [node.cast(y, x.dtype), node.cast(mean, stash), node.cast(inverse, stash)]


@operator("RMSNormalization", upto=23)
def rms_normalization(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    first = node.axis(x, node.attribute("axis", -1))
    wide = _wide(node, x, node.dtype_attribute("stash_type", 1))
    squares = g.mean(g.square(wide), list(range(first, node.rank(x))))
    inverse = g.reciprocal_square_root(g.addition(squares, node.attribute("epsilon", 1e-5)))
    y = g.multiplication(g.multiplication(wide, inverse), node.cast(node.tensor(1), wide.dtype))
    return node.cast(y, x.dtype)


@operator("GroupNormalization", upto=21)
def group_normalization(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    groups = node.attribute("num_groups")
    shape = [node.dim(x, axis) for axis in range(node.rank(x))]
    if groups < 1 or node.size(x, 1) % groups:
        raise ShapeError(f"the number of channels must be divisible by num_groups={groups}, got {node.size(x, 1)}")
    wide = _wide(node, node.reshape(x, [shape[0], groups, -1]), node.dtype_attribute("stash_type", 1))
    y, _, _ = normalized(node, wide, [2], node.attribute("epsilon", 1e-5))
    scale, bias = (node.cast(node.tensor(i), wide.dtype) for i in (1, 2))
    if node.version < 21:  # Before version 21, there is one scale and bias per group instead of per channel.
        y = g.addition(g.multiplication(y, g.reshape(scale, [1, -1, 1])), g.reshape(bias, [1, -1, 1]))
        return node.cast(node.reshape(y, shape), x.dtype)
    y = node.reshape(y, shape)
    y = g.addition(g.multiplication(y, node.by_channel(scale, x)), node.by_channel(bias, x))
    return node.cast(y, x.dtype)


@operator("LRN", upto=13)
def local_response_normalization(node: Node) -> Results:
    """Translate LRN: x / (bias + alpha / size * s)^beta, where s is the sum of squares over neighboring channels."""
    return node.widely(node.tensor(0), lambda x: _with_neighbours(node, x))


def _with_neighbours(node: Node, x: Tensor) -> Tensor:
    g, size = node.g, node.attribute("size")
    channels, rank = node.size(x, 1), node.rank(x)
    squares = g.square(x)
    before = (size - 1) // 2
    wide = g.pad(squares, [0, before, *[0] * (rank - 2)], [0, size - 1 - before, *[0] * (rank - 2)])
    total = g.slice_axis(wide, 1, 0, channels)
    for i in range(1, size):
        total = g.addition(total, g.slice_axis(wide, 1, i, channels))
    scaled = g.addition(g.multiplication(total, node.attribute("alpha", 1e-4) / size), node.attribute("bias", 1.0))
    return g.multiplication(x, g.power(scaled, -node.attribute("beta", 0.75)))


@operator("MeanVarianceNormalization", upto=13)
def mean_variance_normalization(node: Node) -> Results:
    g, axes = node.g, node.axes(node.tensor(0), node.attribute("axes", [0, 2, 3]))

    def of(x: Tensor) -> Tensor:
        centred = g.subtraction(x, g.mean(x, axes))
        deviation = g.square_root(g.mean(g.square(centred), axes))
        return g.division(centred, g.addition(deviation, 1e-9))

    return node.widely(node.tensor(0), of)


@operator("LpNormalization", upto=22)
def lp_normalization(node: Node) -> Results:
    """Translate LpNormalization, which divides x by its norm along an axis, or returns zeros for a zero norm."""
    g, axes, p = node.g, [node.axis(node.tensor(0), node.attribute("axis", -1))], node.attribute("p", 2)
    if p not in (1, 2):
        raise GraphError(f"p must be 1 or 2, got {p}")

    def of(x: Tensor) -> Tensor:
        norm = norm2(node, x, axes) if p == 2 else g.reduction_sum(g.absolute(x), axes)
        none = g.equal(norm, 0.0)
        return g.select(none, 0.0, g.division(x, g.select(none, 1.0, norm)))

    return node.widely(node.tensor(0), of)
