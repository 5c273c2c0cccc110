"""Layers with variables or with a mode: dense, batch normalization, dropout, flatten.

Defaults follow Keras (Glorot's initialiser, channels last), names follow PyTorch. Input sizes are inferred at the first
call; stating them makes a mismatch an error there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._core import Tensor
from ..errors import ShapeError
from .initialisers import GlorotUniform, Initialiser, ones, zeros
from .module import Module

if TYPE_CHECKING:
    from ..graph import Graph


def graph_of(x: Tensor) -> Graph:
    return x.graph  # type: ignore[return-value]


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

    def describe(self) -> str:
        return f"{self.out_features}" + ("" if self.has_bias else ", bias=False")


class BatchNorm(Module):
    """Normalization of each channel to mean 0 and variance 1 over the batch, then scaled and shifted.

    result = gamma * (x - mean) / sqrt(variance + epsilon) + beta. In training mode the statistics are the batch's, and
    the moving averages advance: moving = momentum * moving + (1 - momentum) * batch; in inference mode they are used.
    Args: momentum, Keras's meaning and default; epsilon; scale and center, whether gamma and beta exist; data_layout,
    "NCHW" puts the channels on axis 1, else they are last. Input of any rank from 2. Ioffe and Szegedy, 2015.

    >>> g = mg.Graph()
    >>> norm = mg.nn.BatchNorm()
    >>> g.run({}, norm(g.constant([[0.0], [2.0]]))).numpy().round(2).tolist()
    [[-1.0], [1.0]]
    >>> norm.state_dict()["moving_mean"].round(2)
    array([0.01], dtype=float32)
    """

    gamma: Tensor | None = None
    beta: Tensor | None = None
    moving_mean: Tensor
    moving_variance: Tensor

    def __init__(
        self,
        *,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        scale: bool = True,
        center: bool = True,
        data_layout: str = "NHWC",
    ) -> None:
        self.momentum, self.epsilon, self.scale, self.center = momentum, epsilon, scale, center
        self.data_layout = data_layout

    def _channel_axis(self, x: Tensor) -> int:
        rank = 0 if x.shape is None else len(x.shape)
        if rank < 2:
            raise ShapeError(f"BatchNorm needs an input of rank 2 or more, its shape is {x.shape}")
        return 1 if self.data_layout == "NCHW" else rank - 1

    def build(self, x: Tensor) -> None:
        axis = self._channel_axis(x)
        shape = [size_of(x, axis, None, "BatchNorm")] + [1] * (len(x.shape or ()) - 1 - axis)
        self.gamma = self.add_parameter("gamma", x, shape, ones) if self.scale else None
        self.beta = self.add_parameter("beta", x, shape, zeros) if self.center else None
        self.moving_mean = self.add_buffer("moving_mean", x, shape, zeros)
        self.moving_variance = self.add_buffer("moving_variance", x, shape, ones)

    def forward(self, x: Tensor) -> Tensor:
        return self.when_training(x, lambda: self._by_batch(x), lambda: self._by_moving_averages(x))

    def _by_batch(self, x: Tensor) -> Tensor:
        g, axis = graph_of(x), self._channel_axis(x)
        axes = [i for i in range(len(x.shape or ())) if i != axis]
        mean = g.mean(x, axes)
        variance = g.variance(x, mean, axes)

        def advance(moving: Tensor, batch: Tensor) -> Tensor:
            return moving * self.momentum + g.reshape(batch, moving.shape or ()) * (1 - self.momentum)

        updates = [
            g.assign(self.moving_mean, advance(self.moving_mean, mean)),
            g.assign(self.moving_variance, advance(self.moving_variance, variance)),
        ]
        return g.control_dependency(
            updates, lambda: g.normalization(x, mean, variance, self.gamma, self.beta, self.epsilon)
        )

    def _by_moving_averages(self, x: Tensor) -> Tensor:
        return graph_of(x).normalization(x, self.moving_mean, self.moving_variance, self.gamma, self.beta, self.epsilon)


class Dropout(Module):
    """In training mode, drops elements at random and raises the others so that the expectation stays.

    Args: rate, the share that is dropped, in [0, 1). Each Dropout has its own random state in the graph, which advances
    with every run and is part of checkpoints. Errors: GraphError for another rate.

    >>> g = mg.Graph()
    >>> mg.nn.Dropout(0.5).eval()(g.constant([1.0, 2.0])).name
    'constant'
    """

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return self.when_training(x, lambda: graph_of(x).dropout(x, self.rate), lambda: x)

    def describe(self) -> str:
        return f"{self.rate}"


class Flatten(Module):
    """Everything but the batch in one axis: (n, a, b, ...) to (n, a * b * ...).

    >>> g = mg.Graph()
    >>> mg.nn.Flatten()(g.placeholder((-1, 7, 7, 64))).shape
    (-1, 3136)
    """

    def forward(self, x: Tensor) -> Tensor:
        return graph_of(x).flatten2d(x, 1)
