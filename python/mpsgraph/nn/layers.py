"""The plainest layers: dense, dropout, shapes; and what layers ask of their inputs.

Defaults follow Keras (Glorot's initialiser, channels last), names follow PyTorch. Input sizes are inferred at the first
call; stating them makes a mismatch an error there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._core import Tensor
from .._display import shown
from ..errors import GraphError, ShapeError
from ..ops._family import ints
from .initialisers import GlorotUniform, Initialiser, zeros
from .module import Module, graph_of

CHANNELS_LAST, CHANNELS_FIRST = ("NWC", "NHWC", "NDHWC"), ("NCW", "NCHW", "NCDHW")


def size_of(x: Tensor, axis: int, stated: int | None, what: str) -> int:
    """The size of an axis of the input, which must be known and as stated."""
    if x.shape is None or not -len(x.shape) <= axis < len(x.shape):
        raise ShapeError(f"{what}: axis {axis} of the input is needed, its shape is {x.shape}")
    size = x.shape[axis]
    if size < 0 or (stated is not None and stated != size):
        raise ShapeError(
            f"{what}: the input's axis {axis} is {size}, {stated or 'a known size'} was expected: {x.shape}"
        )
    return int(size)


def size_in_run(x: Tensor, axis: int) -> int | Tensor:
    """The size of an axis, as a number if it is known, else as int32 tensor of one element that the run fills in."""
    size = (x.shape or ())[axis]
    return size if size >= 0 else graph_of(x).slice_axis(graph_of(x).shape_of(x), 0, axis, 1)


def shape_of_sizes(x: Tensor, sizes: Sequence[int | Tensor]) -> list[int] | Tensor:
    """A shape of numbers and int32 tensors of one element, in x's graph; a tensor only when it must be."""
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) == len(sizes):
        return numbers
    g = graph_of(x)
    return g.concat([g.constant([s], dtype="int32") if isinstance(s, int) else s for s in sizes], 0)


def channel_axis(x: Tensor, data_layout: str, what: str) -> int:
    """The axis of the channels, for any number of axes between it and the batch: the last, or the one on axis 1."""
    if data_layout not in (*CHANNELS_LAST, *CHANNELS_FIRST):
        layouts = ", ".join((*CHANNELS_LAST, *CHANNELS_FIRST))
        raise GraphError(f"{what}: data_layout must be one of {layouts}, got {shown(data_layout)}")
    rank = 0 if x.shape is None else len(x.shape)
    if rank < 2:
        raise ShapeError(f"{what} needs an input of rank 2 or more, its shape is {x.shape}")
    return 1 if data_layout in CHANNELS_FIRST else rank - 1


def along_channels(parameter: Tensor, x: Tensor, axis: int) -> Tensor:
    """One number a channel, (C,), in a shape that broadcasts to x, whose channels are on an axis."""
    behind = len(x.shape or ()) - 1 - axis
    return graph_of(parameter).reshape(parameter, (-1, *[1] * behind)) if behind else parameter


class Linear(Module):
    """Fully connected: x @ weight + bias.

    Args: out_features; bias, whether there is one; in_features, inferred when None; initialisers. Input (..., in),
    rank 2 or more; result (..., out); weight (in, out), bias (out,). Errors: ShapeError.

    >>> g = mg.Graph()
    >>> mg.nn.Linear(10)(g.placeholder((-1, 784))).shape
    (-1, 10)
    """

    weight: Tensor
    bias: Tensor
    passes_mask = True

    def __init__(
        self,
        out_features: int,
        *,
        bias: bool = True,
        in_features: int | None = None,
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
    """In training mode, drops elements at random and raises the others so that the expectation stays.

    Args: rate, the share that is dropped, in [0, 1). Each Dropout has its own random state in the graph, which advances
    with every run and is part of checkpoints. Errors: GraphError for another rate.

    >>> g = mg.Graph()
    >>> mg.nn.Dropout(0.5).eval()(g.constant([1.0, 2.0])).name
    'constant'
    """

    passes_mask = True

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return self.when_training(x, lambda: graph_of(x).dropout(x, self.rate), lambda: x)


class SpatialDropout(Dropout):
    """Dropout of whole channels: each is dropped everywhere or nowhere. Tompson et al., arXiv:1411.4280.

    Args: rate, as Dropout's; data_layout, "NCW", "NCHW" and "NCDHW" put the channels on axis 1, else they are last.
    Input of rank 2 or more. What PyTorch calls Dropout1d to Dropout3d. Errors: GraphError, ShapeError.

    >>> g = mg.Graph()
    >>> y = g.run({}, mg.nn.SpatialDropout(0.5)(g.constant(1.0, (2, 5, 8)))).numpy()
    >>> bool((y == y[:, :1]).all())
    True
    """

    def __init__(self, rate: float = 0.5, *, data_layout: str = "NHWC") -> None:
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
    """The input as it is: what stands where a layer could.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.Identity()(g.constant([1.0, 2.0]))).tolist()
    [1.0, 2.0]
    """

    passes_mask = True

    def forward(self, x: Tensor) -> Tensor:
        return x


class Flatten(Module):
    """Everything but the batch in one axis: (n, a, b, ...) to (n, a * b * ...).

    >>> g = mg.Graph()
    >>> mg.nn.Flatten()(g.placeholder((-1, 7, 7, 64))).shape
    (-1, 3136)
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).flatten2d(x, 1)


class Unflatten(Module):
    """Everything but the batch in another shape: (n, a * b * ...) to (n, a, b, ...). Keras's Reshape.

    Args: shape, that of a sample; one size may be -1, which is worked out. Errors: ShapeError.

    >>> g = mg.Graph()
    >>> mg.nn.Unflatten((7, 7, -1))(g.placeholder((-1, 3136))).shape
    (-1, 7, 7, 64)
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = ints(shape, "Unflatten: shape")
        if min(self.shape, default=1) < -1 or 0 in self.shape or self.shape.count(-1) > 1:
            raise ShapeError(f"Unflatten: sizes must be above 0, but for one -1, got {shown(tuple(self.shape))}")

    def forward(self, x: Tensor) -> Tensor:
        sizes, shape = (x.shape or ())[1:], list(self.shape)
        if -1 in shape and min(sizes, default=-1) >= 0:
            shape[shape.index(-1)] = math.prod(sizes) // -math.prod(shape)
        return graph_of(x).reshape(x, shape_of_sizes(x, [size_in_run(x, 0), *shape]))
