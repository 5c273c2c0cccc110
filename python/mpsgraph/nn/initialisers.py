"""First values of variables: Glorot's and He's as Keras defines them, and the plain ones.

An initialiser is called with a shape, a numpy generator and the fans, and returns float32. Fans are (inputs, outputs)
of one unit: for a convolution the kernel's area times its input channels, and times its output channels. (A talk about
MPSGraph takes the whole source tensor, batch included, for the fan-in; that is not Glorot's rule and not done here.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..errors import ShapeError

Fans = tuple[float, float]
# The standard deviation of a standard normal that is cut at two: Keras divides by it.
_TRUNCATED_DEVIATION = 0.87962566103423978


class Initialiser(Protocol):
    """What layers call for a first value."""

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray: ...


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
    return generator if isinstance(generator, np.random.Generator) else np.random.default_rng(generator)


class Constant:
    """One number everywhere."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        return np.full(shape, self.value, np.float32)


zeros = Constant(0.0)
ones = Constant(1.0)


class Uniform:
    """Uniform in [minimum, maximum)."""

    def __init__(self, minimum: float = -0.05, maximum: float = 0.05) -> None:
        self.minimum, self.maximum = minimum, maximum

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        values = _random(generator).random(shape, np.float32)
        values *= np.float32(self.maximum - self.minimum)
        values += np.float32(self.minimum)
        return values


class Normal:
    """Normal with a mean and a standard deviation."""

    def __init__(self, mean: float = 0.0, standard_deviation: float = 0.05) -> None:
        self.mean, self.standard_deviation = mean, standard_deviation

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        values = _random(generator).standard_normal(shape, np.float32)
        return values * np.float32(self.standard_deviation) + np.float32(self.mean)


class TruncatedNormal(Normal):
    """Normal, drawn again beyond two standard deviations of the mean."""

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        random = _random(generator)
        values = random.standard_normal(shape, np.float32)
        while (outside := np.abs(values) > 2).any():
            values[outside] = random.standard_normal(int(outside.sum()), np.float32)
        return values * np.float32(self.standard_deviation) + np.float32(self.mean)


class _Scaled:
    """Variance gain / fan, with the fan-in or the mean of both fans."""

    gain: float
    mean_of_fans: bool
    uniform: bool

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        fan_in, fan_out = fans or fans_of(shape)
        variance = self.gain / max(1.0, (fan_in + fan_out) / 2 if self.mean_of_fans else fan_in)
        if self.uniform:
            limit = math.sqrt(3 * variance)
            return Uniform(-limit, limit)(shape, generator)
        return TruncatedNormal(0.0, math.sqrt(variance) / _TRUNCATED_DEVIATION)(shape, generator)


class GlorotUniform(_Scaled):
    """Uniform within sqrt(6 / (fan_in + fan_out)): Keras's default. Glorot and Bengio, 2010.

    >>> weight = mg.nn.initialisers.GlorotUniform()((784, 10), 0)
    >>> bool(abs(weight).max() < (6 / 794) ** 0.5)
    True
    """

    gain, mean_of_fans, uniform = 1.0, True, True


class GlorotNormal(_Scaled):
    """Truncated normal of variance 2 / (fan_in + fan_out)."""

    gain, mean_of_fans, uniform = 1.0, True, False


class HeUniform(_Scaled):
    """Uniform within sqrt(6 / fan_in), for layers before ReLU. He et al., 2015."""

    gain, mean_of_fans, uniform = 2.0, False, True


class HeNormal(_Scaled):
    """Truncated normal of variance 2 / fan_in, for layers before ReLU."""

    gain, mean_of_fans, uniform = 2.0, False, False
