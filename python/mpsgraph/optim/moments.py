"""Adam's relatives: NAdam, RAdam, Adamax and Lion, as compositions; each variable's is fused into one kernel.

Conventions and defaults are PyTorch's, of Lion its authors'.
"""

from __future__ import annotations

from .._checks import BelowOne, NotNegative, Positive
from .._core import Operation, Tensor
from .optimizers import Optimizer
from .schedules import Schedule


class Counting(Optimizer):
    """The base of those that know the number of the step, a state that all parameters share."""

    def _count(self, values: Tensor) -> Tensor:
        """The number of the step that is being made, from 1 on."""
        return self.graph.read(self.common_state("step", values.dtype)) + 1.0

    def finish(self) -> list[Operation]:
        g = self.graph
        counts = [state for (variable, _), state in self._states.items() if variable is None]
        return [g.assign(state, g.read(state) + 1.0) for state in counts if state.name.split("/")[-1][:4] == "step"]

    def _power(self, base: float, exponent: Tensor) -> Tensor:
        return self.graph.power(self.graph.constant(base, dtype=exponent.dtype), exponent)


class Moments(Counting):
    """The base of those with the means of gradients and of their squares."""

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
    """Adam with Nesterov's momentum. Dozat, 2016.

    mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2); values -= rate * (mu_t+1 * m / (1 - prod of mu to t+1) + (1 -
    mu_t) * d / (1 - prod of mu to t)) / (sqrt(v / (1 - beta2^t)) + epsilon). PyTorch's NAdam.

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
    """Adam whose division waits until the mean of squares is of enough steps. Liu et al., arXiv:1908.03265.

    PyTorch's RAdam.

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
    """Adam by the largest gradient of late in place of the mean of squares. Kingma and Ba, arXiv:1412.6980.

    u = max(beta2 * u, |d| + epsilon); values -= rate / (1 - beta1^t) * m / u. PyTorch's Adamax.

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
    """The sign of a mean of gradients, with decoupled weight decay. Chen et al., arXiv:2302.06675.

    values -= rate * (sign(beta1 * m + (1 - beta1) * d) + weight_decay * values); m = beta2 * m + (1 - beta2) * d.

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
