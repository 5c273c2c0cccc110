"""Normalizations: to mean 0 and variance 1 over the batch, a sample's features, or groups of its channels.

They differ in the axes that statistics are of; what is computed is the graph's `normalization`. gamma and beta are what
PyTorch calls weight and bias. Epsilon, or eps, is Keras's for BatchNorm, whose moving averages are Keras's too, and
PyTorch's for the others. An input of halves is computed with in float32, statistics included, and the result is rounded
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from .._core import Tensor, bfloat16, float16
from ..errors import ShapeError
from ..ops._family import ints
from .arguments import either
from .initialisers import ones, zeros
from .layers import along_channels, channel_axis, size_of
from .module import Module, graph_of


def _wide(x: Tensor) -> Tensor:
    """x in float32 where it is of halves."""
    return graph_of(x).cast(x, "float32") if x.dtype in (float16, bfloat16) else x


def _narrow(y: Tensor, x: Tensor) -> Tensor:
    """y in x's dtype."""
    return y if y.dtype == x.dtype else graph_of(y).cast(y, x.dtype)


def _normalization(
    x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor | None, beta: Tensor | None, epsilon: float
) -> Tensor:
    """The graph's `normalization` of what is wide already, by parameters that may be halves."""
    gamma, beta = (None if p is None else _wide(p) for p in (gamma, beta))
    return graph_of(x).normalization(x, mean, variance, gamma, beta, epsilon)


def _along(parameter: Tensor | None, x: Tensor, axis: int) -> Tensor | None:
    """A parameter of one number a channel, if it exists, as it broadcasts to x."""
    return None if parameter is None else along_channels(parameter, x, axis)


_sum_over_all: ContextVar[Callable[[Tensor], Tensor] | None] = ContextVar("sum_over_all", default=None)


@contextmanager
def moments_of_all(sum_over_all: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Meanwhile BatchNorm's statistics are of a batch of which others have parts: sums come from a function that adds
    theirs, and that can be differentiated."""
    token = _sum_over_all.set(sum_over_all)
    try:
        yield
    finally:
        _sum_over_all.reset(token)


def _moments(x: Tensor, axes: list[int]) -> tuple[Tensor, Tensor]:
    """Mean and variance over axes, which stay with length 1."""
    g, sum_over_all = graph_of(x), _sum_over_all.get()
    if sum_over_all is None:
        mean = g.mean(x, axes)
        return mean, g.variance(x, mean, axes)
    sums = g.reduction_sum(x, axes)
    shape = tuple(sums.shape or ())
    sizes = g.cast(g.gather(g.shape_of(x), g.constant(axes)), x.dtype)
    count = g.reshape(g.reduction_product(sizes, 0), (1,))
    total = sum_over_all(g.concat([g.reshape(sums, (-1,)), count], 0))
    count = total[-1:]
    mean = g.reshape(total[:-1] / count, shape)
    squares = sum_over_all(g.reshape(g.reduction_sum(g.square(x - mean), axes), (-1,)))
    return mean, g.reshape(squares / count, shape)


class BatchNorm(Module):
    """Normalization of each channel to mean 0 and variance 1 over the batch, then scaled and shifted.

    result = gamma * (x - mean) / sqrt(variance + epsilon) + beta. In training mode the statistics are the batch's, and
    the moving averages advance: moving = momentum * moving + (1 - momentum) * batch; in inference mode they are used.
    Args: momentum, Keras's meaning and default; epsilon; scale and center, whether gamma and beta exist; data_layout:
    "NCW", "NCHW" and "NCDHW" put the channels on axis 1, else they are last. Input of any rank from 2. Errors:
    ShapeError, GraphError. Ioffe and Szegedy, arXiv:1502.03167.

    >>> g = mg.Graph()
    >>> norm = mg.nn.BatchNorm()
    >>> g.run({}, norm(g.constant([[0.0], [2.0]]))).numpy().round(2).tolist()
    [[-1.0], [1.0]]
    >>> norm.state_dict()["moving_mean"].round(2)
    array([0.01], dtype=float32)
    """

    passes_mask = True

    gamma: Tensor | None = None
    beta: Tensor | None = None
    moving_mean: Tensor
    moving_variance: Tensor
    batches_tracked = 0  # PyTorch's num_batches_tracked, of weights that came from there: kept for the way back

    def __init__(
        self,
        *,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        scale: bool = True,
        center: bool = True,
        data_layout: str = "NHWC",
        eps: float | None = None,
    ) -> None:
        self.epsilon = either("BatchNorm", "epsilon", epsilon, 1e-3, "eps", eps)
        self.momentum, self.scale, self.center = momentum, scale, center
        self.data_layout = data_layout

    def build(self, x: Tensor) -> None:
        axis = channel_axis(x, self.data_layout, "BatchNorm")
        shape = [size_of(x, axis, None, "BatchNorm")]
        self.gamma = self.add_parameter("gamma", x, shape, ones) if self.scale else None
        self.beta = self.add_parameter("beta", x, shape, zeros) if self.center else None
        self.moving_mean = self.add_buffer("moving_mean", _wide(x), shape, zeros)
        self.moving_variance = self.add_buffer("moving_variance", _wide(x), shape, ones)

    def forward(self, x: Tensor) -> Tensor:
        return self.when_training(x, lambda: self._by_batch(x), lambda: self._by_moving_averages(x))

    def _by_batch(self, x: Tensor) -> Tensor:
        g, axis, wide = graph_of(x), channel_axis(x, self.data_layout, "BatchNorm"), _wide(x)
        axes = [i for i in range(len(x.shape or ())) if i != axis]
        mean, variance = _moments(wide, axes)

        def advance(moving: Tensor, batch: Tensor) -> Tensor:
            return moving * self.momentum + g.reshape(batch, moving.shape or ()) * (1 - self.momentum)

        updates = [
            g.assign(self.moving_mean, advance(self.moving_mean, mean)),
            g.assign(self.moving_variance, advance(self.moving_variance, variance)),
        ]
        result = g.control_dependency(
            updates, lambda: _normalization(wide, mean, variance, *self._scale(x, axis), self.epsilon)
        )
        return _narrow(result, x)

    def _by_moving_averages(self, x: Tensor) -> Tensor:
        axis = channel_axis(x, self.data_layout, "BatchNorm")
        mean, variance = (along_channels(moving, x, axis) for moving in (self.moving_mean, self.moving_variance))
        return _narrow(_normalization(_wide(x), mean, variance, *self._scale(x, axis), self.epsilon), x)

    def _scale(self, x: Tensor, axis: int) -> tuple[Tensor | None, Tensor | None]:
        return _along(self.gamma, x, axis), _along(self.beta, x, axis)


class _Norm(Module):
    """What normalizations without a memory share: epsilon, gamma and beta, and the statistics over `axes`."""

    passes_mask = True

    gamma: Tensor | None = None
    beta: Tensor | None = None

    def __init__(self, epsilon: float, scale: bool, center: bool) -> None:
        self.epsilon, self.scale, self.center = epsilon, scale, center

    def _add_scale(self, x: Tensor, shape: Sequence[int]) -> None:
        self.gamma = self.add_parameter("gamma", x, shape, ones) if self.scale else None
        self.beta = self.add_parameter("beta", x, shape, zeros) if self.center else None

    def _normalized(self, x: Tensor, axes: Sequence[int], gamma: Tensor | None, beta: Tensor | None) -> Tensor:
        """x by its own statistics over axes, by gamma and beta as they broadcast to it."""
        g, wide = graph_of(x), _wide(x)
        mean = g.mean(wide, axes)
        variance = g.variance(wide, mean, axes)
        return _narrow(_normalization(wide, mean, variance, gamma, beta, self.epsilon), x)


class LayerNorm(_Norm):
    """Normalization of each sample over its last axes. Ba et al., arXiv:1607.06450.

    result = gamma * (x - mean) / sqrt(variance + epsilon) + beta, mean and variance over `axes`. Args: axes, one or
    several that are the last ones; their sizes are gamma's and beta's shape, PyTorch's normalized_shape; epsilon;
    scale and center, whether gamma and beta exist. Input of a floating-point dtype, which its shape and the result's
    are. Errors: ShapeError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.LayerNorm()(g.constant([[0.0, 2.0], [3.0, 7.0]]))).numpy().round(2).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """

    def __init__(
        self,
        axes: int | Sequence[int] = -1,
        *,
        epsilon: float = 1e-5,
        scale: bool = True,
        center: bool = True,
        eps: float | None = None,
    ) -> None:
        super().__init__(either(type(self).__name__, "epsilon", epsilon, 1e-5, "eps", eps), scale, center)
        self.axes = ints(axes, "LayerNorm: axes")

    def build(self, x: Tensor) -> None:
        self._add_scale(x, [size_of(x, axis, None, "LayerNorm") for axis in self._last_axes(x)])

    def forward(self, x: Tensor) -> Tensor:
        return self._normalized(x, self._last_axes(x), self.gamma, self.beta)

    def _last_axes(self, x: Tensor) -> list[int]:
        rank, name = len(x.shape or ()), type(self).__name__
        axes = sorted(axis + rank if axis < 0 else axis for axis in self.axes)
        if not axes or axes != list(range(rank - len(axes), rank)) or rank == len(axes) == 0:
            raise ShapeError(f"{name}: axes {tuple(self.axes)} must be the last of an input of shape {x.shape}")
        return axes


class RMSNorm(LayerNorm):
    """Each sample divided by the root of its mean square over its last axes. Zhang and Sennrich, arXiv:1910.07467.

    result = gamma * x / sqrt(mean(x^2) + epsilon). Args: axes as LayerNorm's; epsilon, Keras's default; scale, whether
    gamma exists. Errors: ShapeError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.RMSNorm()(g.constant([[3.0, 4.0]]))).numpy().round(2)
    array([[0.85, 1.13]], dtype=float32)
    """

    def __init__(
        self, axes: int | Sequence[int] = -1, *, epsilon: float = 1e-6, scale: bool = True, eps: float | None = None
    ) -> None:
        super().__init__(
            axes, epsilon=either("RMSNorm", "epsilon", epsilon, 1e-6, "eps", eps), scale=scale, center=False
        )

    def forward(self, x: Tensor) -> Tensor:
        g, wide = graph_of(x), _wide(x)
        mean_square = g.mean(g.square(wide), self._last_axes(x))
        y = wide * g.reciprocal_square_root(mean_square + self.epsilon)
        return _narrow(y if self.gamma is None else y * _wide(self.gamma), x)


class GroupNorm(_Norm):
    """Normalization of each sample over groups of its channels and all between. Wu and He, arXiv:1803.08494.

    result = gamma * (x - mean) / sqrt(variance + epsilon) + beta, mean and variance over a group's channels and all
    axes but the batch's. Args: groups, which divide the channels; epsilon; scale and center, whether gamma and beta,
    one number a channel, exist; data_layout as BatchNorm's. Input of rank 2 or more. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.GroupNorm(2)(g.constant([[0.0, 2.0, 3.0, 7.0]]))).numpy().round(2).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """

    def __init__(
        self,
        groups: int,
        *,
        epsilon: float = 1e-5,
        scale: bool = True,
        center: bool = True,
        data_layout: str = "NHWC",
        eps: float | None = None,
    ) -> None:
        super().__init__(either("GroupNorm", "epsilon", epsilon, 1e-5, "eps", eps), scale, center)
        if groups < 1:
            raise ShapeError(f"GroupNorm: there must be a group at least, got {groups}")
        self.groups, self.data_layout = groups, data_layout

    def build(self, x: Tensor) -> None:
        axis = channel_axis(x, self.data_layout, "GroupNorm")
        channels = size_of(x, axis, None, "GroupNorm")
        if channels % self.groups:
            raise ShapeError(f"GroupNorm: {channels} channels do not split into {self.groups} groups")
        self._add_scale(x, [channels])

    def forward(self, x: Tensor) -> Tensor:
        """By each channel's statistics first, so that what is done with all of x is done along its rows."""
        g, channels, wide = graph_of(x), channel_axis(x, self.data_layout, "GroupNorm"), _wide(x)
        between = [axis for axis in range(1, len(x.shape or ())) if axis != channels]
        mean = self._over_groups(g.mean(wide, between) if between else wide)
        variance = self._over_groups(g.variance(wide, mean, between) if between else g.square(wide - mean))
        gamma, beta = _along(self.gamma, x, channels), _along(self.beta, x, channels)
        return _narrow(_normalization(wide, mean, variance, gamma, beta, self.epsilon), x)

    def _over_groups(self, statistics: Tensor) -> Tensor:
        """The mean over a group's channels, at each of them."""
        g, sizes = graph_of(statistics), list(statistics.shape or ())[1:]
        members = math.prod(sizes) // self.groups
        means = g.mean(g.reshape(statistics, [-1, self.groups, members]), 2)
        return g.reshape(g.tile(means, [1, 1, members]), [-1, *sizes])


class InstanceNorm(_Norm):
    """Normalization of each channel of each sample over what lies between. Ulyanov et al., arXiv:1607.08022.

    result = gamma * (x - mean) / sqrt(variance + epsilon) + beta, mean and variance over all axes but the batch's and
    the channels'. Args: epsilon; scale and center, whether gamma and beta, one number a channel, exist: PyTorch's
    affine, which is off there by default, too; data_layout as BatchNorm's. Input of rank 3 or more. Errors:
    ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.InstanceNorm()(g.constant([[[0.0], [2.0]]]))).numpy().round(2).tolist()
    [[[-1.0], [1.0]]]
    """

    def __init__(
        self,
        *,
        epsilon: float = 1e-5,
        scale: bool = False,
        center: bool = False,
        data_layout: str = "NHWC",
        eps: float | None = None,
    ) -> None:
        super().__init__(either("InstanceNorm", "epsilon", epsilon, 1e-5, "eps", eps), scale, center)
        self.data_layout = data_layout

    def _channels(self, x: Tensor) -> int:
        axis = channel_axis(x, self.data_layout, "InstanceNorm")
        if len(x.shape or ()) < 3:
            raise ShapeError(f"InstanceNorm needs an input of rank 3 or more, its shape is {x.shape}")
        return axis

    def build(self, x: Tensor) -> None:
        axis = self._channels(x)
        if self.scale or self.center:
            self._add_scale(x, [size_of(x, axis, None, "InstanceNorm")])

    def forward(self, x: Tensor) -> Tensor:
        channels = self._channels(x)
        between = [axis for axis in range(1, len(x.shape or ())) if axis != channels]
        return self._normalized(x, between, _along(self.gamma, x, channels), _along(self.beta, x, channels))
