"""Optimizers related to Adam: NAdam, RAdam, Adamax, and Lion.

They are composed of basic operations, which are fused into one kernel for each variable. Conventions and defaults are
PyTorch's; those of Lion are its authors'.
"""

from __future__ import annotations

from .._checks import BelowOne, NotNegative, Positive
from .._core import Operation, Tensor
from .optimizers import Optimizer
from .schedules import Schedule


class Counting(Optimizer):
    """Base class of optimizers that count steps, in a state shared by all parameters."""

    def _count(self, values: Tensor) -> Tensor:
        """Return the number of the current step, counted from 1."""
        return self.graph.read(self.common_state("step", values.dtype)) + 1.0

    def finish(self) -> list[Operation]:
        g = self.graph
        counts = [state for (variable, _), state in self._states.items() if variable is None]
        return [g.assign(state, g.read(state) + 1.0) for state in counts if state.name.split("/")[-1][:4] == "step"]

    def _power(self, base: float, exponent: Tensor) -> Tensor:
        return self.graph.power(self.graph.constant(base, dtype=exponent.dtype), exponent)


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
        first = momentum * self.beta1 + gradient * (1 - self.beta1)
        second = velocity * self.beta2 + gradient * (1 - self.beta2) * gradient
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
        weight_decay: Factor of the values added to the gradient. Defaults to 0.
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

    def _mu(self, count: Tensor) -> Tensor:
        return (1.0 - self._power(0.96, count * self.momentum_decay) * 0.5) * self.beta1

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g, count = self.graph, self._count(values)
        gradient = self._decayed(values, gradient)
        first, second, assigns = self._means(variable, values, gradient)
        product = self.common_state("mu_product", values.dtype, 1.0)
        mu, following = self._mu(count), self._mu(count + 1.0)
        whole = g.read(product) * mu
        spread = g.square_root(second / (1.0 - self._power(self.beta2, count))) + self.epsilon
        slope = gradient * ((1.0 - mu) / (1.0 - whole)) + first * (following / (1.0 - whole * following))
        return values - learning_rate * slope / spread, assigns

    def finish(self) -> list[Operation]:
        g, made = self.graph, []
        for (variable, name), state in list(self._states.items()):
            if variable is None and name.startswith("mu_product"):
                count = g.read(self.common_state("step", state.dtype)) + 1.0
                made.append(g.assign(state, g.read(state) * self._mu(count)))
        return [*made, *super().finish()]


class RAdam(Moments):
    """RAdam: Adam that divides by the root of mean squares only once these cover enough steps, as in PyTorch's RAdam.

    Args:
        learning_rate: Number or schedule. Defaults to 1e-3.
        beta1: Decay of the mean of gradients, in [0, 1). Defaults to 0.9.
        beta2: Decay of the mean of squared gradients, in [0, 1). Defaults to 0.999.
        epsilon: Added to the root, above 0. Defaults to 1e-8.
        weight_decay: Factor of the values added to the gradient. Defaults to 0.

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
        g, count = self.graph, self._count(values)
        first, second, assigns = self._means(variable, values, self._decayed(values, gradient))
        longest = 2 / (1 - self.beta2) - 1
        power = self._power(self.beta2, count)
        length = longest - count * 2.0 * power / (1.0 - power)
        enough = length > 5.0
        safe = g.select(enough, length, 6.0)
        scale = (longest - 4) * (longest - 2) / longest
        rectified = g.square_root((safe - 4.0) * (safe - 2.0) / (safe * scale))
        divided = rectified * g.square_root(1.0 - power) / (g.square_root(second) + self.epsilon)
        factor = g.select(enough, divided, 1.0)
        return values - learning_rate * first / (1.0 - self._power(self.beta1, count)) * factor, assigns


class Adamax(Moments):
    """Adamax: Adam with the largest recent gradient in place of the mean square, as in PyTorch's Adamax.

    With u = max(beta2 * u, |d| + epsilon), values -= rate / (1 - beta1^t) * m / u.

    Args:
        learning_rate: Number or schedule. Defaults to 2e-3.
        beta1: Decay of the mean of gradients, in [0, 1). Defaults to 0.9.
        beta2: Decay of the largest gradient, in [0, 1). Defaults to 0.999.
        epsilon: Added to the magnitude of gradients, above 0. Defaults to 1e-8.
        weight_decay: Factor of the values added to the gradient. Defaults to 0.

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
        g, count = self.graph, self._count(values)
        gradient = self._decayed(values, gradient)
        momentum, largest = (self.state(variable, values, name) for name in ("momentum", "largest"))
        first = momentum * self.beta1 + gradient * (1 - self.beta1)
        bound = g.maximum_with_nan_propagation(largest * self.beta2, g.absolute(gradient) + self.epsilon)
        moved = values - learning_rate / (1.0 - self._power(self.beta1, count)) * first / bound
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
        return moved, [g.assign(momentum, momentum * self.beta2 + gradient * (1 - self.beta2))]
