"""Basic layers (dense, dropout, reshaping) and helpers that check or compute input sizes.

Defaults follow Keras (Glorot initialization, channels last); names follow PyTorch. Input sizes are inferred from the
first call. If a size is stated explicitly, a mismatch is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._checks import BelowOne, Size
from .._core import Tensor
from .._display import shown
from ..errors import GraphError, ShapeError
from ..ops._family import ints
from .initialisers import GlorotUniform, Initialiser, zeros
from .module import Module
from .parts import graph_of

CHANNELS_LAST, CHANNELS_FIRST = ("NWC", "NHWC", "NDHWC"), ("NCW", "NCHW", "NCDHW")


def size_of(x: Tensor, axis: int, stated: int | None, what: str) -> int:
    """Return the size of an axis, checking that it is known and equals the stated size, if any."""
    if x.shape is None or not -len(x.shape) <= axis < len(x.shape):
        raise ShapeError(f"{what}: the input has no axis {axis}, got shape {x.shape}")
    size = x.shape[axis]
    if size < 0 or (stated is not None and stated != size):
        expected = f"size {stated}" if stated else "a known size"
        raise ShapeError(f"{what}: axis {axis} of the input must have {expected}, got shape {x.shape}")
    return int(size)


def size_in_run(x: Tensor, axis: int) -> int | Tensor:
    """Return the size of an axis: an int if known, otherwise a one-element int32 tensor computed at run time."""
    size = (x.shape or ())[axis]
    return size if size >= 0 else graph_of(x).slice_axis(graph_of(x).shape_of(x), 0, axis, 1)


def shape_of_sizes(x: Tensor, sizes: Sequence[int | Tensor]) -> list[int] | Tensor:
    """Build a shape from ints and one-element int32 tensors. Return a tensor only if at least one size is a tensor."""
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) == len(sizes):
        return numbers
    g = graph_of(x)
    return g.concat([g.constant([s], dtype="int32") if isinstance(s, int) else s for s in sizes], 0)


def channel_axis(x: Tensor, data_layout: str, what: str) -> int:
    """Return the index of the channel axis of an input with at least two axes.

    It is axis 1 for channels-first layouts and the last axis otherwise.
    """
    if data_layout not in (*CHANNELS_LAST, *CHANNELS_FIRST):
        layouts = ", ".join((*CHANNELS_LAST, *CHANNELS_FIRST))
        raise GraphError(f"{what}: data_layout must be one of {layouts}, got {shown(data_layout)}")
    rank = 0 if x.shape is None else len(x.shape)
    if rank < 2:
        raise ShapeError(f"{what} needs an input with at least 2 axes, got shape {x.shape}")
    return 1 if data_layout in CHANNELS_FIRST else rank - 1


def along_channels(parameter: Tensor, x: Tensor, axis: int) -> Tensor:
    """Reshape a per-channel parameter (C,) so that it broadcasts to x, whose channels are on `axis`."""
    behind = len(x.shape or ()) - 1 - axis
    return graph_of(parameter).reshape(parameter, (-1, *[1] * behind)) if behind else parameter


class Linear(Module):
    """Fully connected layer: x @ weight + bias.

    Maps an input of shape (..., in_features), rank 2 or higher, to (..., out_features).

    Args:
        out_features: Number of outputs.
        bias: Whether to add a bias. Defaults to True.
        in_features: Expected number of inputs. Inferred from the first input if None, the default.
        weight_initialiser: Initializer of the weight. Glorot uniform if None, the default.
        bias_initialiser: Initializer of the bias. Defaults to zeros.

    Attributes:
        weight: (in_features, out_features).
        bias: (out_features,); absent if bias is False.

    Raises:
        ShapeError: If the last axis of the input is dynamic or differs from in_features.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.Linear(10)(g.placeholder((-1, 784))).shape
        (-1, 10)
    """

    weight: Tensor
    bias: Tensor
    passes_mask = True

    _input_size = 0

    def __init__(
        self,
        out_features: Size,
        *,
        bias: bool = True,
        in_features: Size | None = None,
        weight_initialiser: Initialiser | None = None,
        bias_initialiser: Initialiser = zeros,
    ) -> None:
        self.out_features, self.in_features, self.has_bias = out_features, in_features, bias
        self.weight_initialiser = weight_initialiser or GlorotUniform()
        self.bias_initialiser = bias_initialiser

    def build(self, x: Tensor) -> None:
        inputs = size_of(x, -1, self.in_features, "Linear")
        self.weight = self.add_parameter("weight", x, (inputs, self.out_features), self.weight_initialiser)
        if self.has_bias:
            self.bias = self.add_parameter("bias", x, (self.out_features,), self.bias_initialiser)

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        return y + self.bias if self.has_bias else y


class Dropout(Module):
    """Dropout: in training mode, zero random elements and scale the others by 1 / (1 - rate).

    In inference mode the input is returned unchanged. Each Dropout has its own random state in the graph, which
    advances with every run and is part of checkpoints.

    Args:
        rate: Probability that an element is dropped, in [0, 1). Defaults to 0.5.

    Raises:
        GraphError: If rate is outside [0, 1).

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.Dropout(0.5).eval()(g.constant([1.0, 2.0])).name
        'constant'
    """

    passes_mask = True

    def __init__(self, rate: BelowOne = 0.5) -> None:
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return self.when_training(x, lambda: graph_of(x).dropout(x, self.rate), lambda: x)


class SpatialDropout(Dropout):
    """Dropout of whole channels: each channel of a sample is dropped everywhere or nowhere.

    Takes an input of rank 2 or higher. Corresponds to PyTorch's Dropout1d, Dropout2d, and Dropout3d.

    Args:
        rate: Probability that a channel is dropped, in [0, 1). Defaults to 0.5.
        data_layout: "NCW", "NCHW", or "NCDHW" if the channels are on axis 1; any other layout, such as "NHWC" (the
            default), means channels last.

    Raises:
        GraphError: If rate is outside [0, 1), or data_layout is unknown.
        ShapeError: If the input has fewer than 2 axes.

    Source: Tompson et al., arXiv:1411.4280.

    Example:
        >>> g = mg.Graph()
        >>> y = g.run({}, mg.nn.SpatialDropout(0.5)(g.constant(1.0, (2, 5, 8)))).numpy()
        >>> bool((y == y[:, :1]).all())
        True
    """

    def __init__(self, rate: BelowOne = 0.5, *, data_layout: str = "NHWC") -> None:
        super().__init__(rate)
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        channels = channel_axis(x, self.data_layout, "SpatialDropout")

        def dropped() -> Tensor:
            g = graph_of(x)
            sizes = [size_in_run(x, axis) if axis in (0, channels) else 1 for axis in range(len(x.shape or ()))]
            kept = g.broadcast_to(g.constant(1.0, dtype=x.dtype), shape_of_sizes(x, sizes))
            return x * g.dropout(kept, self.rate)

        return self.when_training(x, dropped, lambda: x)


class Identity(Module):
    """Return the input unchanged; a placeholder for a layer.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.Identity()(g.constant([1.0, 2.0]))).tolist()
        [1.0, 2.0]
    """

    passes_mask = True

    def forward(self, x: Tensor) -> Tensor:
        return x


class Flatten(Module):
    """Flatten each sample into one axis: (N, a, b, ...) to (N, a * b * ...).

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.Flatten()(g.placeholder((-1, 7, 7, 64))).shape
        (-1, 3136)
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).flatten2d(x, 1)


class Unflatten(Module):
    """Reshape each sample: (N, a * b * ...) to (N, a, b, ...), like Keras's Reshape.

    Args:
        shape: Shape of a sample. One size may be -1, which is inferred.

    Raises:
        ShapeError: If a size is 0 or below -1, more than one size is -1, or the number of elements does not match.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.Unflatten((7, 7, -1))(g.placeholder((-1, 3136))).shape
        (-1, 7, 7, 64)
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = ints(shape, "Unflatten: shape")
        if min(self.shape, default=1) < -1 or 0 in self.shape or self.shape.count(-1) > 1:
            raise ShapeError(
                f"Unflatten: sizes in shape must be above 0, except one that may be -1, got {shown(tuple(self.shape))}"
            )

    def forward(self, x: Tensor) -> Tensor:
        sizes, shape = (x.shape or ())[1:], list(self.shape)
        if -1 in shape and min(sizes, default=-1) >= 0:
            shape[shape.index(-1)] = math.prod(sizes) // -math.prod(shape)
        return graph_of(x).reshape(x, shape_of_sizes(x, [size_in_run(x, 0), *shape]))
