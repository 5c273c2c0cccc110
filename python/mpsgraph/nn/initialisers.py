"""First values of variables: scaled ones as Keras defines them, orthogonal and identical maps, and the plain ones.

An initialiser is called with a shape, a numpy generator and the fans, and returns float32. Fans are (inputs, outputs)
of one unit: for a convolution the kernel's area times its input channels, and times its output channels. (A talk about
MPSGraph takes the whole source tensor, batch included, for the fan-in; that is not Glorot's rule and not done here.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from .._checks import Positive, checked
from .._core import ConstantData, DType, float32
from .._display import ShowsArguments, shown
from ..errors import GraphError, ShapeError

Fans = tuple[float, float]
_LARGE = 1 << 14  # elements from which on a first value is drawn again, rather than kept beside the variable
# The standard deviation of a standard normal that is cut at two: Keras divides by it.
_TRUNCATED_DEVIATION = 0.87962566103423978


class Initialiser(Protocol):
    """What layers call for a first value.

    >>> class Alternating:
    ...     def __call__(self, shape, generator=None, fans=None):
    ...         return np.resize(np.float32([1, -1]), shape)
    >>> layer = mg.nn.Linear(2, weight_initialiser=Alternating())
    >>> _ = layer(mg.Graph().placeholder((-1, 2)))
    >>> layer.state_dict()["weight"].tolist()
    [[1.0, -1.0], [1.0, -1.0]]
    """

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray: ...


@checked
def fans_of(shape: Sequence[int]) -> Fans:
    """Fans of a weight whose last two axes are inputs and outputs, those before them the kernel's window.

    >>> mg.nn.initialisers.fans_of((5, 5, 32, 64))
    (800.0, 1600.0)
    """
    if len(shape) < 2:
        raise ShapeError(f"fans need at least two axes, got shape {tuple(shape)}")
    window = math.prod(shape[:-2])
    return float(window * shape[-2]), float(window * shape[-1])


def _random(generator: np.random.Generator | int | None) -> np.random.Generator:
    """A generator as it is, one of a seed (a negative one by its two's complement), or of chance."""
    if isinstance(generator, np.random.Generator):
        return generator
    return np.random.default_rng(None if generator is None else generator % 2**64)


@checked
class Constant(ShowsArguments):
    """One number everywhere.

    >>> mg.nn.initialisers.Constant(0.5)((2,)).tolist()
    [0.5, 0.5]
    """

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        return np.full(shape, self.value, np.float32)


zeros = Constant(0.0)
ones = Constant(1.0)


@checked
class Uniform(ShowsArguments):
    """Uniform in [minimum, maximum).

    >>> first = mg.nn.initialisers.Uniform(-0.5, 0.5)((256, 64), 0)
    >>> first.shape, str(first.dtype), round(float(first.std()), 2)
    ((256, 64), 'float32', 0.29)
    """

    def __init__(self, minimum: float = -0.05, maximum: float = 0.05) -> None:
        self.minimum, self.maximum = minimum, maximum

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        values = _random(generator).random(shape, np.float32)
        values *= np.float32(self.maximum - self.minimum)
        values += np.float32(self.minimum)
        return values


@checked
class Normal(ShowsArguments):
    """Normal with a mean and a standard deviation.

    >>> first = mg.nn.initialisers.Normal(0.0, 0.1)((256, 64), 0)
    >>> first.shape, str(first.dtype), round(float(first.std()), 2)
    ((256, 64), 'float32', 0.1)
    """

    def __init__(self, mean: float = 0.0, standard_deviation: float = 0.05) -> None:
        self.mean, self.standard_deviation = mean, standard_deviation

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        values = _random(generator).standard_normal(shape, np.float32)
        return values * np.float32(self.standard_deviation) + np.float32(self.mean)


@checked
class TruncatedNormal(Normal):
    """Normal, drawn again beyond two standard deviations of the mean.

    >>> first = mg.nn.initialisers.TruncatedNormal(0.0, 0.1)((256, 64), 0)
    >>> first.shape, str(first.dtype), round(float(first.std()), 2)
    ((256, 64), 'float32', 0.09)
    """

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        random = _random(generator)
        values = random.standard_normal(shape, np.float32)
        while (outside := np.abs(values) > 2).any():
            values[outside] = random.standard_normal(int(outside.sum()), np.float32)
        return values * np.float32(self.standard_deviation) + np.float32(self.mean)


_MODES, _DISTRIBUTIONS = ("fan_in", "fan_out", "fan_avg"), ("truncated_normal", "normal", "uniform")


@checked
class VarianceScaling(ShowsArguments):
    """Variance gain / fan, so that signals keep their size through layers.

    Args: gain, 1 for Glorot's rule, 2 before ReLU; mode, "fan_in", "fan_out" or "fan_avg", the mean of both;
    distribution, "truncated_normal", "normal" or "uniform". What Keras calls so with its `scale`; PyTorch's kaiming and
    xavier functions are gain = their gain squared, with "normal" or "uniform". Errors: GraphError, ShapeError.

    >>> weight = mg.nn.initialisers.VarianceScaling(2.0, "fan_in", "uniform")((50, 10), 0)
    >>> bool(abs(weight).max() < (6 / 50) ** 0.5)
    True
    """

    def __init__(self, gain: Positive = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal") -> None:
        for name, value, known in (("mode", mode, _MODES), ("distribution", distribution, _DISTRIBUTIONS)):
            if value not in known:
                raise GraphError(f"VarianceScaling: {name} must be one of {', '.join(known)}, got {shown(value)}")
        self.gain, self.mode, self.distribution = gain, mode, distribution

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        fan_in, fan_out = fans or fans_of(shape)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        deviation = math.sqrt(self.gain / max(1.0, fan))
        if self.distribution == "uniform":
            limit = math.sqrt(3) * deviation
            return Uniform(-limit, limit)(shape, generator)
        if self.distribution == "normal":
            return Normal(0.0, deviation)(shape, generator)
        return TruncatedNormal(0.0, deviation / _TRUNCATED_DEVIATION)(shape, generator)


@checked
class GlorotUniform(VarianceScaling):
    """Uniform within sqrt(6 / (fan_in + fan_out)): Keras's default, PyTorch's xavier. Glorot and Bengio, 2010.

    >>> weight = mg.nn.initialisers.GlorotUniform()((784, 10), 0)
    >>> bool(abs(weight).max() < (6 / 794) ** 0.5)
    True
    """

    def __init__(self) -> None:
        super().__init__(1.0, "fan_avg", "uniform")


@checked
class GlorotNormal(VarianceScaling):
    """Truncated normal of variance 2 / (fan_in + fan_out).

    >>> first = mg.nn.initialisers.GlorotNormal()((256, 64), 0)
    >>> first.shape, str(first.dtype), round(float(first.std()), 2)
    ((256, 64), 'float32', 0.08)
    """

    def __init__(self) -> None:
        super().__init__(1.0, "fan_avg")


@checked
class HeUniform(VarianceScaling):
    """Uniform within sqrt(6 / fan_in), for layers before ReLU: PyTorch's kaiming. He et al., arXiv:1502.01852.

    >>> first = mg.nn.initialisers.HeUniform()((256, 64), 0)
    >>> first.shape, str(first.dtype), round(float(first.std()), 2)
    ((256, 64), 'float32', 0.09)
    """

    def __init__(self) -> None:
        super().__init__(2.0, "fan_in", "uniform")


@checked
class HeNormal(VarianceScaling):
    """Truncated normal of variance 2 / fan_in, for layers before ReLU.

    >>> first = mg.nn.initialisers.HeNormal()((256, 64), 0)
    >>> first.shape, str(first.dtype), round(float(first.std()), 2)
    ((256, 64), 'float32', 0.09)
    """

    def __init__(self) -> None:
        super().__init__(2.0, "fan_in")


@checked
class LecunUniform(VarianceScaling):
    """Uniform within sqrt(3 / fan_in), for layers before SELU. LeCun et al., 1998.

    >>> first = mg.nn.initialisers.LecunUniform()((256, 64), 0)
    >>> first.shape, str(first.dtype), round(float(first.std()), 2)
    ((256, 64), 'float32', 0.06)
    """

    def __init__(self) -> None:
        super().__init__(1.0, "fan_in", "uniform")


@checked
class LecunNormal(VarianceScaling):
    """Truncated normal of variance 1 / fan_in, for layers before SELU.

    >>> first = mg.nn.initialisers.LecunNormal()((256, 64), 0)
    >>> first.shape, str(first.dtype), round(float(first.std()), 2)
    ((256, 64), 'float32', 0.06)
    """

    def __init__(self) -> None:
        super().__init__(1.0, "fan_in")


@checked
class Orthogonal(ShowsArguments):
    """gain times a matrix whose rows, or columns if there are fewer, are orthonormal. Saxe et al., arXiv:1312.6120.

    The matrix has the last axis as its columns and all others as its rows, as in Keras. Errors: ShapeError.

    >>> q = mg.nn.initialisers.Orthogonal()((4, 2), 0)
    >>> abs(q.T @ q).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        if len(shape) < 2:
            raise ShapeError(f"Orthogonal needs at least two axes, got shape {tuple(shape)}")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        drawn = _random(generator).standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(drawn)
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # so that every such matrix is equally likely
        return np.ascontiguousarray(self.gain * (q if rows >= columns else q.T).reshape(shape), np.float32)


@checked
class Identity(ShowsArguments):
    """gain at equal indices of the last two axes, in the middle of the window that stands before them; else 0.

    A layer that passes its input on: PyTorch's eye, and its dirac for weights (window..., in, out). Errors: ShapeError.

    >>> mg.nn.initialisers.Identity()((2, 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        if len(shape) < 2:
            raise ShapeError(f"Identity needs at least two axes, got shape {tuple(shape)}")
        values = np.zeros(shape, np.float32)
        values[tuple(size // 2 for size in shape[:-2])] = self.gain * np.eye(shape[-2], shape[-1])
        return values


_DRAWN_ALIKE = (
    Uniform,
    Normal,
    TruncatedNormal,
    VarianceScaling,
    GlorotUniform,
    GlorotNormal,
    HeUniform,
    HeNormal,
    LecunUniform,
    LecunNormal,
)
"""Of which the generator's state alone decides the values, to the last bit."""


def first_value(
    initialiser: Initialiser, shape: tuple[int, ...], generator: np.random.Generator, fans: Fans | None, dtype: DType
) -> np.ndarray | ConstantData:
    """A variable's first value, in memory that the variable takes over where the value can be drawn again.

    Else a graph would hold the weights twice: as they are, and as they were at first, in case anybody asks, such as a
    second device. Here the generator's state is kept instead. The generator goes on as if the initialiser was called.

    >>> zeros = mg.nn.initialisers.zeros
    >>> data = mg.nn.initialisers.first_value(zeros, (2,), np.random.default_rng(0), None, mg.float32)
    >>> type(data).__name__
    'ConstantData'
    """
    if type(initialiser) is Constant:
        return ConstantData.splat(initialiser.value, shape, dtype)
    if type(initialiser) not in _DRAWN_ALIKE or dtype != float32 or math.prod(shape) < _LARGE:
        return initialiser(shape, generator, fans)
    kind, state, own = type(generator.bit_generator), generator.bit_generator.state, copy.copy(initialiser)
    drawing: list[np.random.Generator] = [generator]  # the first time; later draws leave it alone

    def draw() -> np.ndarray:
        if drawing:
            return own(shape, drawing.pop(), fans)
        bits = kind()
        bits.state = state
        return own(shape, np.random.Generator(bits), fans)

    return ConstantData.drawn(draw)
