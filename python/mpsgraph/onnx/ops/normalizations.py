"""Normalisations: over a batch, a layer, groups, neighbours; by mean and variance, by norms."""

from __future__ import annotations

from ..._core import Tensor
from ...errors import ShapeError
from .._registry import Node, Results, operator
from ._compose import cast
from .reductions import norm2


def _per_channel(node: Node, parameter: Tensor, x: Tensor) -> Tensor:
    """One number a channel, ready to be broadcast over x (n, channels, ...)."""
    return node.g.reshape(parameter, [1, -1, *[1] * (node.rank(x) - 2)])


def normalized(node: Node, x: Tensor, axes: list[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + epsilon) over axes; mean; 1 / sqrt(variance + epsilon)."""
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
        training = len([o for o in node.outputs if o]) > 1 or (node.version < 7 and not node.attribute("is_test", 0))
    epsilon, momentum = node.attribute("epsilon", 1e-5), node.attribute("momentum", 0.9)
    if not node.attribute("spatial", 1):
        raise ShapeError("spatial=0, a mean for each position, is not read")
    results: list[Tensor | None] = []
    if training:
        axes = [i for i in range(node.rank(x)) if i != 1]
        now = g.reshape(g.mean(x, axes), [-1])
        spread = g.reshape(g.variance(x, None, axes), [-1])
        results = [
            g.addition(g.multiplication(old, momentum), g.multiplication(cast(node, new, old.dtype), 1 - momentum))
            for old, new in ((g.read(mean) if mean.operation.kind == "variable" else mean, now), (variance, spread))
        ]
        if node.version < 14:  # what a backward pass would need; it is derived here
            results += [now, spread]
        mean, variance = now, spread
    kind = x.dtype
    scale, bias, mean, variance = (_per_channel(node, cast(node, t, kind), x) for t in (scale, bias, mean, variance))
    return [g.normalization(x, mean, variance, scale, bias, epsilon), *results]


@operator("InstanceNormalization", upto=22)
def instance_normalization(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    y, _, _ = normalized(node, x, list(range(2, node.rank(x))), node.attribute("epsilon", 1e-5))
    return g.addition(g.multiplication(y, _per_channel(node, node.tensor(1), x)), _per_channel(node, node.tensor(2), x))


@operator("LayerNormalization", upto=17)
def layer_normalization(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    first = node.axis(x, node.attribute("axis", -1))
    stash = node.dtype_attribute("stash_type", 1)
    wide = cast(node, x, stash) if x.dtype.itemsize < stash.itemsize else x
    y, mean, inverse = normalized(node, wide, list(range(first, node.rank(x))), node.attribute("epsilon", 1e-5))
    y = g.multiplication(cast(node, y, x.dtype), node.tensor(1))
    y = g.addition(y, node.tensor(2)) if node.has(2) else y
    return [y, cast(node, mean, stash), cast(node, inverse, stash)]


@operator("RMSNormalization", upto=23)
def rms_normalization(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    first = node.axis(x, node.attribute("axis", -1))
    stash = node.dtype_attribute("stash_type", 1)
    wide = cast(node, x, stash) if x.dtype.itemsize < stash.itemsize else x
    squares = g.mean(g.square(wide), list(range(first, node.rank(x))))
    inverse = g.reciprocal_square_root(g.addition(squares, node.attribute("epsilon", 1e-5)))
    return g.multiplication(cast(node, g.multiplication(wide, inverse), x.dtype), node.tensor(1))


@operator("GroupNormalization", upto=21)
def group_normalization(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    groups = node.attribute("num_groups")
    shape = [node.dim(x, axis) for axis in range(node.rank(x))]
    if groups < 1 or node.size(x, 1) % groups:
        raise ShapeError(f"{node.size(x, 1)} channels cannot be cut into {groups} groups")
    stash = node.dtype_attribute("stash_type", 1)
    grouped = node.reshape(x, [shape[0], groups, -1])
    wide = cast(node, grouped, stash) if x.dtype.itemsize < stash.itemsize else grouped
    y, _, _ = normalized(node, wide, [2], node.attribute("epsilon", 1e-5))
    y = cast(node, y, x.dtype)
    scale, bias = node.tensor(1), node.tensor(2)
    if node.version < 21:  # one number a group
        y = g.addition(g.multiplication(y, g.reshape(scale, [1, -1, 1])), g.reshape(bias, [1, -1, 1]))
        return node.reshape(y, shape)
    y = node.reshape(y, shape)
    return g.addition(g.multiplication(y, _per_channel(node, scale, x)), _per_channel(node, bias, x))


@operator("LRN", upto=13)
def local_response_normalization(node: Node) -> Results:
    """x / (bias + alpha / size * the sum of squares over neighbouring channels) ^ beta."""
    g, x, size = node.g, node.tensor(0), node.attribute("size")
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
    g, x = node.g, node.tensor(0)
    axes = node.axes(x, node.attribute("axes", [0, 2, 3]))
    centred = g.subtraction(x, g.mean(x, axes))
    deviation = g.square_root(g.mean(g.square(centred), axes))
    return g.division(centred, g.addition(deviation, 1e-9))


@operator("LpNormalization", upto=22)
def lp_normalization(node: Node) -> Results:
    """x / its norm along an axis."""
    g, x = node.g, node.tensor(0)
    axes, p = [node.axis(x, node.attribute("axis", -1))], node.attribute("p", 2)
    norm = norm2(node, x, axes) if p == 2 else g.reduction_sum(g.absolute(x), axes)
    return g.division(x, norm)
