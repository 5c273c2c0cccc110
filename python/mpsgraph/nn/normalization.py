"""Normalization layers: batch, layer, RMS, group, and instance normalization.

They differ in the axes over which statistics are computed; the graph's `normalization` operation does the rest. gamma
and beta are PyTorch's weight and bias. Defaults of epsilon (alias eps) are Keras's for BatchNorm and RMSNorm, and
PyTorch's for the others; the moving averages of BatchNorm follow Keras. Half-precision inputs are normalized in
float32, including the statistics, and the result is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from .._checks import NotNegative, Share, Size
from .._core import Tensor, bfloat16, float16
from ..errors import ShapeError
from ..ops._family import ints
from .arguments import either
from .initialisers import ones, zeros
from .layers import along_channels, channel_axis, size_of
from .module import Module
from .parts import graph_of


def _wide(x: Tensor) -> Tensor:
    """Cast half-precision tensors to float32; return others unchanged."""
    return graph_of(x).cast(x, "float32") if x.dtype in (float16, bfloat16) else x


def _narrow(y: Tensor, x: Tensor) -> Tensor:
    """Cast y to x's dtype."""
    return y if y.dtype == x.dtype else graph_of(y).cast(y, x.dtype)


def _normalization(
    x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor | None, beta: Tensor | None, epsilon: float
) -> Tensor:
    """Normalize x, which is at least float32, with parameters that may be half precision."""
    gamma, beta = (None if p is None else _wide(p) for p in (gamma, beta))
    return graph_of(x).normalization(x, mean, variance, gamma, beta, epsilon)


def _along(parameter: Tensor | None, x: Tensor, axis: int) -> Tensor | None:
    """Reshape a per-channel parameter, if there is one, so that it broadcasts to x."""
    return None if parameter is None else along_channels(parameter, x, axis)


_sum_over_all: ContextVar[Callable[[Tensor], Tensor] | None] = ContextVar("sum_over_all", default=None)


@contextmanager
def moments_of_all(sum_over_all: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Compute BatchNorm's statistics over the batches of all processes within a `with` block.

    Args:
        sum_over_all: Differentiable function that adds up a tensor over all processes.
    """
    token = _sum_over_all.set(sum_over_all)
    try:
        yield
    finally:
        _sum_over_all.reset(token)


def _moments(x: Tensor, axes: list[int]) -> tuple[Tensor, Tensor]:
    """Return mean and variance over `axes`, which keep size 1 in the result."""
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
    """Batch normalization: normalize each channel over the batch, then scale and shift it.

    Computes gamma * (x - mean) / sqrt(variance + epsilon) + beta. In training mode, the statistics are those of the
    batch, and the moving averages are updated: moving = momentum * moving + (1 - momentum) * batch. In inference mode,
    the moving averages are used. Takes an input of rank 2 or higher and keeps its shape.

    Args:
        momentum: Weight of the old value in the moving averages, with Keras's meaning. Defaults to 0.9, which is
            PyTorch's momentum of 0.1; Keras's default of 0.99 needs hundreds of steps until the averages are usable.
        epsilon: Added to the variance. Defaults to 1e-3.
        scale: Whether to learn a per-channel factor, gamma. Defaults to True.
        center: Whether to learn a per-channel offset, beta. Defaults to True.
        data_layout: "NCW", "NCHW", or "NCDHW" if the channels are on axis 1; any other layout, such as "NHWC" (the
            default), means channels last.
        eps: Alias of epsilon.

    Attributes:
        gamma: (C,), or None if scale is False.
        beta: (C,), or None if center is False.
        moving_mean: (C,), not trained.
        moving_variance: (C,), not trained.

    Raises:
        ShapeError: If the input has fewer than 2 axes or a dynamic number of channels.
        GraphError: If data_layout is unknown, or both epsilon and eps are passed.

    Source: Ioffe and Szegedy, arXiv:1502.03167.

    Example:
        >>> g = mg.Graph()
        >>> norm = mg.nn.BatchNorm()
        >>> g.run({}, norm(g.constant([[0.0], [2.0]]))).numpy().round(2).tolist()
        [[-1.0], [1.0]]
        >>> norm.state_dict()["moving_mean"].round(2)
        array([0.1], dtype=float32)
    """

    passes_mask = True

    gamma: Tensor | None = None
    beta: Tensor | None = None
    moving_mean: Tensor
    moving_variance: Tensor
    # PyTorch's num_batches_tracked, if weights were loaded from PyTorch; kept for exporting them again.
    batches_tracked = 0

    _input_size = 0

    def __init__(
        self,
        *,
        momentum: Share = 0.9,
        epsilon: NotNegative = 1e-3,
        scale: bool = True,
        center: bool = True,
        data_layout: str = "NHWC",
        eps: NotNegative | None = None,
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
    """Base class of the normalizations without moving averages."""

    passes_mask = True

    gamma: Tensor | None = None
    beta: Tensor | None = None

    def __init__(self, epsilon: NotNegative, scale: bool, center: bool) -> None:
        self.epsilon, self.scale, self.center = epsilon, scale, center

    def _add_scale(self, x: Tensor, shape: Sequence[int]) -> None:
        self.gamma = self.add_parameter("gamma", x, shape, ones) if self.scale else None
        self.beta = self.add_parameter("beta", x, shape, zeros) if self.center else None

    def _normalized(self, x: Tensor, axes: Sequence[int], gamma: Tensor | None, beta: Tensor | None) -> Tensor:
        """Normalize x by its own statistics over `axes`, with gamma and beta that broadcast to x."""
        g, wide = graph_of(x), _wide(x)
        mean = g.mean(wide, axes)
        variance = g.variance(wide, mean, axes)
        return _narrow(_normalization(wide, mean, variance, gamma, beta, self.epsilon), x)


class LayerNorm(_Norm):
    """Layer normalization: normalize each sample over its last axes.

    Computes gamma * (x - mean) / sqrt(variance + epsilon) + beta, with mean and variance over `axes`. Takes a
    floating-point input and keeps its shape and dtype.

    Args:
        axes: Axis or axes to normalize over, which must be the last ones. Defaults to -1.
        epsilon: Added to the variance. Defaults to 1e-5.
        scale: Whether to learn a factor, gamma. Defaults to True.
        center: Whether to learn an offset, beta. Defaults to True.
        eps: Alias of epsilon.

    Attributes:
        gamma: The sizes of the normalized axes (PyTorch's normalized_shape), or None if scale is False.
        beta: The same shape, or None if center is False.

    Raises:
        ShapeError: If axes are not the last axes of the input, or one of them has a dynamic size.
        GraphError: If both epsilon and eps are passed.

    Source: Ba et al., arXiv:1607.06450.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.LayerNorm()(g.constant([[0.0, 2.0], [3.0, 7.0]]))).numpy().round(2).tolist()
        [[-1.0, 1.0], [-1.0, 1.0]]
    """

    def __init__(
        self,
        axes: int | Sequence[int] = -1,
        *,
        epsilon: NotNegative = 1e-5,
        scale: bool = True,
        center: bool = True,
        eps: NotNegative | None = None,
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
            raise ShapeError(
                f"{name}: axes must be the last axes of the input, got axes {tuple(self.axes)} and shape {x.shape}: "
                f"sizes are inferred, so write {name}() for the last axis, or {name}((-2, -1)) for two axes"
            )
        return axes


class RMSNorm(LayerNorm):
    """RMS normalization: divide each sample by the root mean square over its last axes.

    Computes gamma * x / sqrt(mean(x^2) + epsilon). Keeps shape and dtype of the floating-point input.

    Args:
        axes: Axis or axes to normalize over, which must be the last ones. Defaults to -1.
        epsilon: Added to the mean square. Defaults to 1e-6, as in Keras.
        scale: Whether to learn a factor, gamma. Defaults to True.
        eps: Alias of epsilon.

    Attributes:
        gamma: The sizes of the normalized axes, or None if scale is False.

    Raises:
        ShapeError: If axes are not the last axes of the input, or one of them has a dynamic size.
        GraphError: If both epsilon and eps are passed.

    Source: Zhang and Sennrich, arXiv:1910.07467.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.RMSNorm()(g.constant([[3.0, 4.0]]))).numpy().round(2)
        array([[0.85, 1.13]], dtype=float32)
    """

    def __init__(
        self,
        axes: int | Sequence[int] = -1,
        *,
        epsilon: NotNegative = 1e-6,
        scale: bool = True,
        eps: NotNegative | None = None,
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
    """Group normalization: normalize groups of channels of each sample over all positions.

    Computes gamma * (x - mean) / sqrt(variance + epsilon) + beta, with mean and variance over the channels of a group
    and all axes but the batch. Takes an input of rank 2 or higher and keeps its shape.

    Args:
        groups: Number of groups, a divisor of the number of channels.
        epsilon: Added to the variance. Defaults to 1e-5.
        scale: Whether to learn a per-channel factor, gamma. Defaults to True.
        center: Whether to learn a per-channel offset, beta. Defaults to True.
        data_layout: "NCW", "NCHW", or "NCDHW" if the channels are on axis 1; any other layout, such as "NHWC" (the
            default), means channels last.
        eps: Alias of epsilon.

    Attributes:
        gamma: (C,), or None if scale is False.
        beta: (C,), or None if center is False.

    Raises:
        ShapeError: If groups does not divide the number of channels, or that number is dynamic.
        GraphError: If data_layout is unknown, or both epsilon and eps are passed.

    Source: Wu and He, arXiv:1803.08494.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.GroupNorm(2)(g.constant([[0.0, 2.0, 3.0, 7.0]]))).numpy().round(2).tolist()
        [[-1.0, 1.0, -1.0, 1.0]]
    """

    _input_size = 1

    def __init__(
        self,
        groups: Size,
        *,
        epsilon: NotNegative = 1e-5,
        scale: bool = True,
        center: bool = True,
        data_layout: str = "NHWC",
        eps: NotNegative | None = None,
    ) -> None:
        super().__init__(either("GroupNorm", "epsilon", epsilon, 1e-5, "eps", eps), scale, center)
        if groups < 1:
            raise ShapeError(f"GroupNorm: groups must be at least 1, got {groups}")
        self.groups, self.data_layout = groups, data_layout

    def build(self, x: Tensor) -> None:
        axis = channel_axis(x, self.data_layout, "GroupNorm")
        channels = size_of(x, axis, None, "GroupNorm")
        if channels % self.groups:
            raise ShapeError(
                f"GroupNorm: the number of channels must be divisible by groups, got {channels} channels and "
                f"groups={self.groups}"
            )
        self._add_scale(x, [channels])

    def forward(self, x: Tensor) -> Tensor:
        # Reduce over the positions of each channel first and over groups of channels afterwards, so that every pass
        # reads x in memory order.
        g, channels, wide = graph_of(x), channel_axis(x, self.data_layout, "GroupNorm"), _wide(x)
        between = [axis for axis in range(1, len(x.shape or ())) if axis != channels]
        mean = self._over_groups(g.mean(wide, between) if between else wide)
        variance = self._over_groups(g.variance(wide, mean, between) if between else g.square(wide - mean))
        gamma, beta = _along(self.gamma, x, channels), _along(self.beta, x, channels)
        return _narrow(_normalization(wide, mean, variance, gamma, beta, self.epsilon), x)

    def _over_groups(self, statistics: Tensor) -> Tensor:
        """Replace each channel's statistic by the average over the channel's group."""
        g, sizes = graph_of(statistics), list(statistics.shape or ())[1:]
        members = math.prod(sizes) // self.groups
        means = g.mean(g.reshape(statistics, [-1, self.groups, members]), 2)
        return g.reshape(g.tile(means, [1, 1, members]), [-1, *sizes])


class InstanceNorm(_Norm):
    """Instance normalization: normalize each channel of each sample over all positions.

    Computes gamma * (x - mean) / sqrt(variance + epsilon) + beta, with mean and variance over all axes but the batch
    and the channels. Takes an input of rank 3 or higher and keeps its shape.

    Args:
        epsilon: Added to the variance. Defaults to 1e-5.
        scale: Whether to learn a per-channel factor, gamma. Defaults to False, like PyTorch's affine.
        center: Whether to learn a per-channel offset, beta. Defaults to False, like PyTorch's affine.
        data_layout: "NCW", "NCHW", or "NCDHW" if the channels are on axis 1; any other layout, such as "NHWC" (the
            default), means channels last.
        eps: Alias of epsilon.

    Attributes:
        gamma: (C,), or None if scale is False.
        beta: (C,), or None if center is False.

    Raises:
        ShapeError: If the input has fewer than 3 axes, or a dynamic number of channels that gamma or beta needs.
        GraphError: If data_layout is unknown, or both epsilon and eps are passed.

    Source: Ulyanov et al., arXiv:1607.08022.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.InstanceNorm()(g.constant([[[0.0], [2.0]]]))).numpy().round(2).tolist()
        [[[-1.0], [1.0]]]
    """

    _input_size = 0

    def __init__(
        self,
        *,
        epsilon: NotNegative = 1e-5,
        scale: bool = False,
        center: bool = False,
        data_layout: str = "NHWC",
        eps: NotNegative | None = None,
    ) -> None:
        super().__init__(either("InstanceNorm", "epsilon", epsilon, 1e-5, "eps", eps), scale, center)
        self.data_layout = data_layout

    def _channels(self, x: Tensor) -> int:
        axis = channel_axis(x, self.data_layout, "InstanceNorm")
        if len(x.shape or ()) < 3:
            raise ShapeError(f"InstanceNorm needs an input with at least 3 axes, got shape {x.shape}")
        return axis

    def build(self, x: Tensor) -> None:
        axis = self._channels(x)
        if self.scale or self.center:
            self._add_scale(x, [size_of(x, axis, None, "InstanceNorm")])

    def forward(self, x: Tensor) -> Tensor:
        channels = self._channels(x)
        between = [axis for axis in range(1, len(x.shape or ())) if axis != channels]
        return self._normalized(x, between, _along(self.gamma, x, channels), _along(self.beta, x, channels))
