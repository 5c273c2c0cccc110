"""Initializers: variance scaling as Keras defines it, orthogonal, identity, constant, uniform, and normal.

An initializer is called with a shape, a numpy generator, and the fans, and returns a float32 array. Fans are the number
of inputs and outputs of one unit: for a convolution, the kernel area times the number of input channels, and the kernel
area times the number of output channels. (A talk about MPSGraph uses the whole source tensor, including the batch, as
the fan-in; that is not Glorot's rule and not what is done here.)
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
from ._orthogonal import orthonormal_columns

Fans = tuple[float, float]
# An initial value with at least this many elements is redrawn when needed instead of being stored a second time.
_LARGE = 1 << 14
# Standard deviation of a standard normal truncated at two standard deviations; Keras divides by it.
_TRUNCATED_DEVIATION = 0.87962566103423978


class Initialiser(Protocol):
    """Protocol of initializers, which layers call for the first values of their variables.

    An initializer is called with the shape, a numpy generator or seed (None for entropy from the system), and the fans
    (inputs, outputs), and returns a float32 array.

    Example:
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
    """Return the fans of a weight whose last two axes are inputs and outputs, after the axes of the kernel window.

    Args:
        shape: Shape of the weight, of rank 2 or higher.

    Returns:
        The fan-in and the fan-out, each multiplied by the window size.

    Raises:
        ShapeError: If shape has fewer than two axes.

    Example:
        >>> mg.nn.initialisers.fans_of((5, 5, 32, 64))
        (800.0, 1600.0)
    """
    if len(shape) < 2:
        raise ShapeError(f"fans_of: shape must have at least two axes, got {tuple(shape)}")
    window = math.prod(shape[:-2])
    return float(window * shape[-2]), float(window * shape[-1])


def _random(generator: np.random.Generator | int | None) -> np.random.Generator:
    """Return `generator` if it is a numpy generator; otherwise, create one from a seed.

    Negative seeds are taken as two's complement. None means a seed from the operating system.
    """
    if isinstance(generator, np.random.Generator):
        return generator
    return np.random.default_rng(None if generator is None else generator % 2**64)


@checked
class Constant(ShowsArguments):
    """Initializer that fills a variable with one number.

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Args:
        value: The number.

    Example:
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
    """Initializer that draws from the uniform distribution on [minimum, maximum).

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Args:
        minimum: Lower bound. Defaults to -0.05.
        maximum: Upper bound. Defaults to 0.05.

    Example:
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
    """Initializer that draws from a normal distribution.

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Args:
        mean: Mean of the distribution. Defaults to 0.
        standard_deviation: Standard deviation of the distribution. Defaults to 0.05.

    Example:
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
    """Initializer that draws from a normal distribution truncated at two standard deviations.

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Args:
        mean: Mean before truncation. Defaults to 0.
        standard_deviation: Standard deviation before truncation. Defaults to 0.05.

    Example:
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
    """Initializer with variance gain / fan, which preserves the scale of signals through layers.

    Corresponds to Keras's VarianceScaling, where gain is called `scale`. For the result of PyTorch's kaiming and xavier
    functions, pass the square of their gain, and distribution "normal" or "uniform".

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Args:
        gain: Variance before division by the fan: 1 for Glorot's rule, 2 before ReLU. Defaults to 1.
        mode: Fan to divide by, "fan_in" (the default), "fan_out", or "fan_avg" for their mean.
        distribution: "truncated_normal" (the default), "normal", or "uniform".

    Raises:
        GraphError: If mode or distribution is unknown, or gain is not above 0.
        ShapeError: When called, if no fans are passed and the shape has fewer than two axes.

    Example:
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
    """Glorot uniform initializer: uniform within sqrt(6 / (fan_in + fan_out)).

    This is Keras's default, and corresponds to PyTorch's xavier_uniform.

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Source: Glorot and Bengio, 2010.

    Example:
        >>> weight = mg.nn.initialisers.GlorotUniform()((784, 10), 0)
        >>> bool(abs(weight).max() < (6 / 794) ** 0.5)
        True
    """

    def __init__(self) -> None:
        super().__init__(1.0, "fan_avg", "uniform")


@checked
class GlorotNormal(VarianceScaling):
    """Glorot normal initializer: truncated normal with variance 2 / (fan_in + fan_out).

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Example:
        >>> first = mg.nn.initialisers.GlorotNormal()((256, 64), 0)
        >>> first.shape, str(first.dtype), round(float(first.std()), 2)
        ((256, 64), 'float32', 0.08)
    """

    def __init__(self) -> None:
        super().__init__(1.0, "fan_avg")


@checked
class HeUniform(VarianceScaling):
    """He uniform initializer, for layers before ReLU: uniform within sqrt(6 / fan_in), like PyTorch's kaiming_uniform.

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Source: He et al., arXiv:1502.01852.

    Example:
        >>> first = mg.nn.initialisers.HeUniform()((256, 64), 0)
        >>> first.shape, str(first.dtype), round(float(first.std()), 2)
        ((256, 64), 'float32', 0.09)
    """

    def __init__(self) -> None:
        super().__init__(2.0, "fan_in", "uniform")


@checked
class HeNormal(VarianceScaling):
    """He normal initializer, for layers before ReLU: truncated normal with variance 2 / fan_in.

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Example:
        >>> first = mg.nn.initialisers.HeNormal()((256, 64), 0)
        >>> first.shape, str(first.dtype), round(float(first.std()), 2)
        ((256, 64), 'float32', 0.09)
    """

    def __init__(self) -> None:
        super().__init__(2.0, "fan_in")


@checked
class LecunUniform(VarianceScaling):
    """LeCun uniform initializer, for layers before SELU: uniform within sqrt(3 / fan_in).

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Source: LeCun et al., 1998.

    Example:
        >>> first = mg.nn.initialisers.LecunUniform()((256, 64), 0)
        >>> first.shape, str(first.dtype), round(float(first.std()), 2)
        ((256, 64), 'float32', 0.06)
    """

    def __init__(self) -> None:
        super().__init__(1.0, "fan_in", "uniform")


@checked
class LecunNormal(VarianceScaling):
    """LeCun normal initializer, for layers before SELU: truncated normal with variance 1 / fan_in.

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Example:
        >>> first = mg.nn.initialisers.LecunNormal()((256, 64), 0)
        >>> first.shape, str(first.dtype), round(float(first.std()), 2)
        ((256, 64), 'float32', 0.06)
    """

    def __init__(self) -> None:
        super().__init__(1.0, "fan_in")


@checked
class Orthogonal(ShowsArguments):
    """Orthogonal initializer: gain times a matrix with orthonormal rows or columns, whichever are fewer.

    The last axis of the shape forms the columns of the matrix and all others its rows, as in Keras.

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Args:
        gain: Factor of the matrix. Defaults to 1.

    Raises:
        ShapeError: When called, if the shape has fewer than two axes.

    Source: Saxe et al., arXiv:1312.6120.

    Example:
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
            raise ShapeError(f"Orthogonal: shape must have at least two axes, got {tuple(shape)}")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        q = orthonormal_columns(max(rows, columns), min(rows, columns), _random(generator))
        q *= np.float32(self.gain)
        return np.ascontiguousarray((q if rows >= columns else q.T).reshape(shape))


@checked
class Identity(ShowsArguments):
    """Identity initializer, which fills the diagonal of the last two axes with a number and all else with zeros.

    For convolution weights (window..., in, out), only the center of the kernel window has this diagonal. A layer
    initialized this way returns its input unchanged. Corresponds to PyTorch's eye_ or, for convolutions, to its dirac_.

    Call it with a shape and, optionally, a numpy generator or a seed, and the fan-in and fan-out; it returns a float32
    array.

    Args:
        gain: Value on the diagonal. Defaults to 1.

    Raises:
        ShapeError: When called, if the shape has fewer than two axes.

    Example:
        >>> mg.nn.initialisers.Identity()((2, 3)).tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(
        self, shape: Sequence[int], generator: np.random.Generator | int | None = None, fans: Fans | None = None
    ) -> np.ndarray:
        if len(shape) < 2:
            raise ShapeError(f"Identity: shape must have at least two axes, got {tuple(shape)}")
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
"""Initializers that draw bitwise the same values whenever the generator is in the same state."""


def first_value(
    initialiser: Initialiser, shape: tuple[int, ...], generator: np.random.Generator, fans: Fans | None, dtype: DType
) -> np.ndarray | ConstantData:
    """Return the first value of a variable, in memory that the variable takes over if the value can be redrawn.

    A graph would otherwise store large weights twice: their current values, and their first values in case, for
    example, a second device needs them. Instead, the state of the generator is kept. The generator advances as if the
    initializer had been called.

    Args:
        initialiser: Initializer to call.
        shape: Shape of the variable.
        generator: Random generator, which advances.
        fans: Number of inputs and outputs of one unit, or None.
        dtype: Element type of the variable.

    Returns:
        The value, as an array or as data that is drawn when needed.

    Example:
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
    # Only the first draw uses the caller's generator; later draws leave it alone.
    drawing: list[np.random.Generator] = [generator]

    def draw() -> np.ndarray:
        if drawing:
            return own(shape, drawing.pop(), fans)
        bits = kind()
        bits.state = state
        return own(shape, np.random.Generator(bits), fans)

    return ConstantData.drawn(draw)
