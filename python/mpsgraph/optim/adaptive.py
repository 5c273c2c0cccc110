"""RMSProp, Adagrad, and AdaDelta, which adapt the step of each element to the size of its past gradients.

MPSGraph has no operations for these optimizers. They are composed of basic operations, which are fused into one kernel
for each variable.
"""

from __future__ import annotations

from .._checks import BelowOne, NotNegative, Positive
from .._core import Operation, Tensor
from ..errors import GraphError
from .optimizers import Optimizer, toward
from .schedules import Schedule


class RMSProp(Optimizer):
    """RMSProp: divide gradients by the root of their running mean square.

    With d = gradient + weight_decay * values, v = decay * v + (1 - decay) * d^2 and values -= rate * d / (sqrt(v) +
    epsilon). With momentum, b = momentum * b + d / (sqrt(v) + epsilon) and values -= rate * b. If centered, v - m^2
    replaces v, where m = decay * m + (1 - decay) * d. The formulas are those of PyTorch, where decay is called alpha,
    and, without momentum and centering, those of MPSNNOptimizerRMSProp. Keras adds epsilon inside the root.

    Args:
        learning_rate: Number or schedule. Defaults to 0.01.
        decay: Decay of the running means, in [0, 1). Defaults to 0.99.
        epsilon: Added to the root, above 0. Defaults to 1e-8.
        momentum: Decay of the accumulated steps, in [0, 1). Defaults to 0, no momentum.
        centered: Whether to subtract the squared running mean of the gradients. Defaults to False.
        weight_decay: The values times this factor are added to the gradient. Defaults to 0.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Tieleman and Hinton, 2012; Graves, arXiv:1308.0850 for centered.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> steps = mg.optim.RMSProp(0.5, decay=0.75).updates({v: g.constant([4.0])}, g.constant(0.5))
        >>> _ = g.run({}, [], steps)
        >>> g.variable_value(v).round(4).tolist()
        [0.0]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.01,
        decay: BelowOne = 0.99,
        epsilon: Positive = 1e-8,
        momentum: BelowOne = 0.0,
        centered: bool = False,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        if not 0 <= decay < 1:
            raise GraphError(f"RMSProp: decay must be at least 0 and below 1, got {decay}")
        self.decay, self.epsilon, self.momentum = decay, epsilon, momentum
        self.centered, self.weight_decay = centered, weight_decay

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g = self.graph
        if self.weight_decay:
            gradient = gradient + values * self.weight_decay
        velocity = self.state(variable, values, "variance" if self.centered else "velocity")
        if self.centered:
            # v - m^2 itself follows a recursion without subtraction, so that rounding cannot make it negative.
            mean = self.state(variable, values, "mean")
            change = gradient - mean
            spread = toward(velocity, change * self.decay * change, self.decay)
            assigns = [g.assign(mean, toward(mean, gradient, self.decay)), g.assign(velocity, spread)]
        else:
            spread = toward(velocity, g.square(gradient), self.decay)
            assigns = [g.assign(velocity, spread)]
        slope = gradient / (g.square_root(spread) + self.epsilon)
        if self.momentum:
            momentum = self.state(variable, values, "momentum")
            slope = momentum * self.momentum + slope
            assigns.append(g.assign(momentum, slope))
        return g.stochastic_gradient_descent(learning_rate, values, slope), assigns


class Adagrad(Optimizer):
    """Adagrad: divide gradients by the root of the sum of all their squares.

    With d = gradient + weight_decay * values, s += d^2 and values -= rate * d / (sqrt(s) + epsilon). Conventions and
    defaults are PyTorch's; Keras starts with s = 0.1 (initial_sum) and adds an epsilon of 1e-7 inside the root. For a
    decaying rate, pass a schedule.

    Args:
        learning_rate: Number or schedule. Defaults to 0.01.
        epsilon: Added to the root, above 0. Defaults to 1e-10.
        initial_sum: Initial sum of squares, at least 0. Defaults to 0.
        weight_decay: The values times this factor are added to the gradient. Defaults to 0.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Duchi et al., 2011.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> steps = mg.optim.Adagrad(0.5).updates({v: g.constant([4.0])}, g.constant(0.5))
        >>> _ = g.run({}, [], steps)
        >>> g.variable_value(v).tolist()
        [0.5]
    """

    _fixed = frozenset(("initial_sum",))

    def __init__(
        self,
        learning_rate: float | Schedule = 0.01,
        epsilon: Positive = 1e-10,
        initial_sum: NotNegative = 0.0,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        if initial_sum < 0:
            raise GraphError(f"Adagrad: initial_sum must be at least 0, got {initial_sum}")
        self.epsilon, self.initial_sum, self.weight_decay = epsilon, initial_sum, weight_decay

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g = self.graph
        if self.weight_decay:
            gradient = gradient + values * self.weight_decay
        total = self.state(variable, values, "sum", self.initial_sum)
        raised = total + g.square(gradient)
        slope = gradient / (g.square_root(raised) + self.epsilon)
        return g.stochastic_gradient_descent(learning_rate, values, slope), [g.assign(total, raised)]


class AdaDelta(Optimizer):
    """AdaDelta: scale gradients by running means of past steps and past gradients, so that no rate has to be chosen.

    With d = gradient + weight_decay * values, v = decay * v + (1 - decay) * d^2, s = d * sqrt(u + epsilon) / sqrt(v +
    epsilon), u = decay * u + (1 - decay) * s^2, and values -= rate * s. Conventions and defaults are those of PyTorch,
    where decay is called rho.

    Args:
        learning_rate: Number or schedule that scales the steps. Defaults to 1.
        decay: Decay of the running means, in [0, 1). Defaults to 0.9.
        epsilon: Added inside the roots, above 0. Defaults to 1e-6.
        weight_decay: The values times this factor are added to the gradient. Defaults to 0.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: Zeiler, arXiv:1212.5701.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([1.0])
        >>> steps = mg.optim.AdaDelta(epsilon=0.25, decay=0.0).updates({v: g.constant([0.0])}, g.constant(1.0))
        >>> _ = g.run({}, [], steps)
        >>> g.variable_value(v).tolist()
        [1.0]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1.0,
        decay: BelowOne = 0.9,
        epsilon: Positive = 1e-6,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        if not 0 <= decay < 1:
            raise GraphError(f"AdaDelta: decay must be at least 0 and below 1, got {decay}")
        self.decay, self.epsilon, self.weight_decay = decay, epsilon, weight_decay

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g = self.graph
        if self.weight_decay:
            gradient = gradient + values * self.weight_decay
        velocity, steps = (self.state(variable, values, name) for name in ("velocity", "steps"))
        spread = toward(velocity, g.square(gradient), self.decay)
        slope = gradient * g.square_root((steps + self.epsilon) / (spread + self.epsilon))
        travelled = toward(steps, g.square(slope), self.decay)
        moved = g.stochastic_gradient_descent(learning_rate, values, slope)
        return moved, [g.assign(velocity, spread), g.assign(steps, travelled)]
