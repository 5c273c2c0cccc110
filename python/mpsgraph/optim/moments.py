"""Optimizers related to Adam: NAdam, RAdam, Adamax, and Lion.

They are composed of basic operations, which are fused into one kernel for each variable. Conventions and defaults are
PyTorch's; those of Lion are its authors'.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from .._checks import BelowOne, NotNegative, Positive
from .._core import DType, Operation, Tensor
from .counting import Counting
from .optimizers import Optimizer, toward
from .schedules import Schedule

# Coefficients of x^2, x^4, ... in x / (e^x - 1) - 1 + x / 2.
_SERIES = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)


class Moments(Counting):
    """Base class of optimizers with running means of gradients and of their squares."""

    beta1: float
    beta2: float
    weight_decay: float

    def _decayed(self, values: Tensor, gradient: Tensor) -> Tensor:
        return gradient + values * self.weight_decay if self.weight_decay else gradient

    def _means(self, variable: Tensor, values: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor, list[Operation]]:
        g = self.graph
        momentum, velocity = (self.state(variable, values, name) for name in ("momentum", "velocity"))
        first, second = toward(momentum, gradient, self.beta1), toward(velocity, g.square(gradient), self.beta2)
        return first, second, [g.assign(momentum, first), g.assign(velocity, second)]


class NAdam(Moments):
    """NAdam: Adam with Nesterov momentum, as in PyTorch's NAdam.

    With mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2), values -= rate * (mu_t+1 * m / (1 - product of mu up to
    t+1) + (1 - mu_t) * d / (1 - product of mu up to t)) / (sqrt(v / (1 - beta2^t)) + epsilon).

    Args:
        learning_rate: Number or schedule. Defaults to 2e-3.
        beta1: Decay of the mean of gradients, in [0, 1). Defaults to 0.9.
        beta2: Decay of the mean of squared gradients, in [0, 1). Defaults to 0.999.
        epsilon: Added to the root, above 0. Defaults to 1e-8.
        weight_decay: The values times this factor are added to the gradient. Defaults to 0.
        momentum_decay: Rate at which the momentum approaches beta1. Defaults to 4e-3.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Dozat, 2016.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> steps = mg.optim.NAdam(0.5).updates({v: g.constant([4.0])}, g.constant(0.5))
        >>> _ = g.run({}, [], steps)
        >>> round(float(g.variable_value(v)[0]), 3)
        0.472
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 2e-3,
        beta1: BelowOne = 0.9,
        beta2: BelowOne = 0.999,
        epsilon: Positive = 1e-8,
        weight_decay: NotNegative = 0.0,
        momentum_decay: NotNegative = 4e-3,
    ) -> None:
        super().__init__(learning_rate)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.weight_decay, self.momentum_decay = weight_decay, momentum_decay

    def _mu(self, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return mu and 1 - mu of a step."""
        falling = self._power(0.96, count * self.momentum_decay) * (0.5 * self.beta1)
        return self.beta1 - falling, falling + (1 - self.beta1)

    def _with_next(self, missing: Tensor, count: Tensor) -> Tensor:
        """Return 1 - p * mu, where p is the product of mu over earlier steps and `missing` is 1 - p."""
        mu, rest = self._mu(count)
        return missing * mu + rest

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g, dtype = self.graph, values.dtype
        gradient = self._decayed(values, gradient)
        first, second, assigns = self._means(variable, values, gradient)
        now, after = self._shares(dtype)
        spread = g.square_root(second / self._correction(self.beta2, dtype)) + self.epsilon
        return values - learning_rate * (gradient * now + first * after) / spread, assigns

    def _shares(self, dtype: DType) -> tuple[Tensor, Tensor]:
        """Return the factors of the gradient and of its mean in a step."""
        if dtype not in self._factors:
            count, missing = self._count(dtype), self.graph.read(self.common_state("mu_product_missing", dtype))
            whole = self._with_next(missing, count)
            (_, rest), (following, _) = self._mu(count), self._mu(count + 1.0)
            self._factors[dtype] = rest / whole, following / self._with_next(whole, count + 1.0)
        return self._factors[dtype]

    def updates(self, gradients: Mapping[Tensor, Tensor], learning_rate: Tensor) -> list[Operation]:
        self._factors: dict[DType, tuple[Tensor, Tensor]] = {}
        return super().updates(gradients, learning_rate)

    def finish(self) -> list[Operation]:
        g, made = self.graph, []
        for (variable, name), state in list(self._states.items()):
            if variable is None and name.startswith("mu_product_missing"):
                made.append(g.assign(state, self._with_next(g.read(state), self._count(state.dtype))))
        return [*made, *super().finish()]


class RAdam(Moments):
    """RAdam: Adam that divides by the root of mean squares only once these cover enough steps, as in PyTorch's RAdam.

    Args:
        learning_rate: Number or schedule. Defaults to 1e-3.
        beta1: Decay of the mean of gradients, in [0, 1). Defaults to 0.9.
        beta2: Decay of the mean of squared gradients, in [0, 1). Defaults to 0.999.
        epsilon: Added to the root, above 0. Defaults to 1e-8.
        weight_decay: The values times this factor are added to the gradient. Defaults to 0.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Liu et al., arXiv:1908.03265.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> steps = mg.optim.RAdam(0.125).updates({v: g.constant([4.0])}, g.constant(0.125))
        >>> _ = g.run({}, [], steps)
        >>> g.variable_value(v).round(3).tolist()
        [0.5]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        beta1: BelowOne = 0.9,
        beta2: BelowOne = 0.999,
        epsilon: Positive = 1e-8,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        self.beta1, self.beta2, self.epsilon, self.weight_decay = beta1, beta2, epsilon, weight_decay

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g, dtype = self.graph, values.dtype
        first, second, assigns = self._means(variable, values, self._decayed(values, gradient))
        enough, rectified = self._rectification(dtype)
        divided = rectified / (g.square_root(second) + self.epsilon)
        factor = g.select(enough, divided, 1.0)
        return values - learning_rate / self._correction(self.beta1, dtype) * first * factor, assigns

    def _rectification(self, dtype: DType) -> tuple[Tensor, Tensor]:
        """Return whether the mean square covers enough steps, and the factor to apply in that case, including the bias
        correction.

        The mean square after t steps covers l = 2 / (1 - b) - 1 - 2 t b^t / (1 - b^t) steps. With r = -ln(b) and x = r
        t, l is coth(r / 2) - (2 / r) x / (e^x - 1), a difference of large numbers while x is small. For x below 1, the
        series of x / (e^x - 1) = 1 - x / 2 + x^2 / 12 - ... is used, whose first two terms give -2 / r + t.
        """
        if dtype in self._rectified:
            return self._rectified[dtype]
        g, beta = self.graph, self.beta2
        if not beta:
            return g.constant(False), g.constant(1.0, dtype=dtype)
        rate, longest, count = -math.log(beta), 2 / (1 - beta) - 1, self._count(dtype)
        x = count * rate
        square = g.minimum(x * x, 1.0)
        series = square * _SERIES[-1]
        for term in reversed(_SERIES[:-1]):
            series = square * (series + term)
        early = count + (1 / math.tanh(rate / 2) - 2 / rate) - series * (2 / rate)
        correction = self._correction(self.beta2, dtype)
        late = longest - count * 2.0 * g.exponent(-x) / correction
        length = g.select(x < 1.0, early, late)
        enough = length > 5.0
        safe = g.select(enough, length, 6.0)
        scale = (longest - 4) * (longest - 2) / longest
        rectified = g.square_root((safe - 4.0) * (safe - 2.0) / (safe * scale) * correction)
        self._rectified[dtype] = enough, rectified
        return self._rectified[dtype]

    def updates(self, gradients: Mapping[Tensor, Tensor], learning_rate: Tensor) -> list[Operation]:
        self._rectified: dict[DType, tuple[Tensor, Tensor]] = {}
        return super().updates(gradients, learning_rate)


class Adamax(Moments):
    """Adamax: Adam with the largest recent gradient in place of the mean square, as in PyTorch's Adamax.

    With u = max(beta2 * u, |d| + epsilon), values -= rate / (1 - beta1^t) * m / u.

    Args:
        learning_rate: Number or schedule. Defaults to 2e-3.
        beta1: Decay of the mean of gradients, in [0, 1). Defaults to 0.9.
        beta2: Decay of the largest gradient, in [0, 1). Defaults to 0.999.
        epsilon: Added to the magnitude of gradients, above 0. Defaults to 1e-8.
        weight_decay: The values times this factor are added to the gradient. Defaults to 0.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Kingma and Ba, arXiv:1412.6980.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> steps = mg.optim.Adamax(0.5).updates({v: g.constant([4.0])}, g.constant(0.5))
        >>> _ = g.run({}, [], steps)
        >>> g.variable_value(v).round(4).tolist()
        [0.5]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 2e-3,
        beta1: BelowOne = 0.9,
        beta2: BelowOne = 0.999,
        epsilon: Positive = 1e-8,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        self.beta1, self.beta2, self.epsilon, self.weight_decay = beta1, beta2, epsilon, weight_decay

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g = self.graph
        gradient = self._decayed(values, gradient)
        momentum, largest = (self.state(variable, values, name) for name in ("momentum", "largest"))
        first = toward(momentum, gradient, self.beta1)
        bound = g.maximum_with_nan_propagation(largest * self.beta2, g.absolute(gradient) + self.epsilon)
        moved = values - learning_rate / self._correction(self.beta1, values.dtype) * first / bound
        return moved, [g.assign(momentum, first), g.assign(largest, bound)]


class Lion(Optimizer):
    """Lion: the sign of a mean of gradients, with decoupled weight decay.

    values -= rate * (sign(beta1 * m + (1 - beta1) * d) + weight_decay * values), then m = beta2 * m + (1 - beta2) * d.

    Args:
        learning_rate: Number or schedule. Defaults to 1e-4.
        beta1: Weight of the mean in the sign, in [0, 1). Defaults to 0.9.
        beta2: Decay of the mean of gradients, in [0, 1). Defaults to 0.99.
        weight_decay: Decoupled weight decay. Defaults to 0.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Chen et al., arXiv:2302.06675.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> steps = mg.optim.Lion(0.25).updates({v: g.constant([4.0])}, g.constant(0.25))
        >>> _ = g.run({}, [], steps)
        >>> g.variable_value(v).tolist()
        [0.75]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-4,
        beta1: BelowOne = 0.9,
        beta2: BelowOne = 0.99,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        self.beta1, self.beta2, self.weight_decay = beta1, beta2, weight_decay

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g, momentum = self.graph, self.state(variable, values, "momentum")
        slope = g.sign(momentum * self.beta1 + gradient * (1 - self.beta1))
        if self.weight_decay:
            slope = slope + values * self.weight_decay
        moved = g.stochastic_gradient_descent(learning_rate, values, slope)
        return moved, [g.assign(momentum, toward(momentum, gradient, self.beta2))]
