"""Translations of batch, instance, layer, L2, and local response normalization."""

from __future__ import annotations

from ..._core import Tensor
from .._operation import Call, Results, mil
from .activations import per_channel


def _optional(call: Call, name: str, x: Tensor) -> Tensor | None:
    weight = call.optional_weight(name)
    return None if weight is None else per_channel(call, weight, x)


@mil("batch_norm")
def batch_norm(call: Call) -> Results:
    x = call.tensor("x")
    mean, variance = (per_channel(call, call.weight(name, trained=False), x) for name in ("mean", "variance"))
    gamma, beta = _optional(call, "gamma", x), _optional(call, "beta", x)
    return call.g.normalization(x, mean, variance, gamma, beta, call.number("epsilon", 1e-5))


def _normalized(call: Call, x: Tensor, axes: list[int], gamma: Tensor | None, beta: Tensor | None) -> Tensor:
    g, epsilon = call.g, call.number("epsilon", 1e-5)

    def of(x: Tensor) -> Tensor:
        mean = g.mean(x, axes)
        scale, shift = (None if t is None else call.cast(t, x.dtype) for t in (gamma, beta))
        return g.normalization(x, mean, g.variance(x, mean, axes), scale, shift, epsilon)

    return call.widely(x, of)


@mil("instance_norm")
def instance_norm(call: Call) -> Results:
    x = call.tensor("x")
    axes = list(range(2, call.rank(x)))
    return _normalized(call, x, axes, _optional(call, "gamma", x), _optional(call, "beta", x))


@mil("layer_norm")
def layer_norm(call: Call) -> Results:
    x = call.tensor("x")
    rank = call.rank(x)
    axes = sorted(call.axes(x, call.ints("axes", list(range(rank)))))

    def placed(name: str) -> Tensor | None:
        weight = call.optional_weight(name)
        if weight is None or axes == list(range(rank - len(axes), rank)):
            return weight
        sizes = iter(call.shape(weight))
        return call.g.reshape(weight, [next(sizes) if axis in axes else 1 for axis in range(rank)])

    return _normalized(call, x, axes, placed("gamma"), placed("beta"))


@mil("l2_norm")
def l2_norm(call: Call) -> Results:
    """Translate l2_norm: x / sqrt(s + epsilon), where s is the sum of squares over the last three axes."""
    g, epsilon = call.g, call.number("epsilon", 1e-6)
    axes = [-3, -2, -1]

    def of(x: Tensor) -> Tensor:
        total = g.addition(g.reduction_sum(g.square(x), axes), epsilon)
        return g.multiplication(x, g.reciprocal_square_root(total))

    return call.widely(call.tensor("x"), of)


@mil("local_response_norm")
def local_response_norm(call: Call) -> Results:
    """Translate local_response_norm: x / (k + alpha / size * s)^beta, where s sums squares over `size` neighboring
    channels.
    """
    g, size = call.g, call.integer("size")
    alpha, beta, k = call.number("alpha", 1e-4), call.number("beta", 0.75), call.number("k", 1.0)

    def of(x: Tensor) -> Tensor:
        rank = call.rank(x)
        before = (size - 1) // 2
        edge = [0] * rank
        wide = g.pad(g.square(x), [0, before, *edge[2:]], [0, size - 1 - before, *edge[2:]])
        channels = call.size(x, 1)
        total = g.slice_axis(wide, 1, 0, channels)
        for i in range(1, size):
            total = g.addition(total, g.slice_axis(wide, 1, i, channels))
        return g.division(x, g.power(g.addition(g.multiplication(total, alpha / size), k), beta))

    return call.widely(call.tensor("x"), of)
