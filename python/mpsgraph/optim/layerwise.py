"""LAMB and LARS, optimizers for large batches, which scale the step of each parameter by a ratio of norms.

The ratio of the norm of the values to that of the step limits each parameter's change to a fraction of its size; the
ratio is 1 if either norm is 0. As in the papers, it is better to exclude biases and scales by putting them into a
separate parameter group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._checks import BelowOne, NotNegative, Positive
from .._core import Operation, Tensor
from ..errors import GraphError
from .moments import Moments
from .optimizers import Optimizer
from .schedules import Schedule

if TYPE_CHECKING:
    from ..graph import Graph


def trust_ratio(values: Tensor, slope: Tensor, coefficient: float = 1.0, epsilon: float = 0.0) -> Tensor:
    """Return coefficient * |values| / (|slope| + epsilon), or 1 if either norm is 0, as a tensor of rank 0."""
    g: Graph = values.graph  # type: ignore[assignment]
    length, step = (g.square_root(g.reshape(g.reduction_sum(g.square(x)), ())) for x in (values, slope))
    nothing = g.logical_or(g.equal(length, 0.0), g.equal(step, 0.0))
    return g.select(nothing, 1.0, length * coefficient / (g.select(nothing, 1.0, step) + epsilon))


class LAMB(Moments):
    """LAMB: Adam's step with decoupled weight decay, scaled to the norm of each parameter.

    With u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * values, values -= rate * |values|
    / |u| * u, with norms over the whole parameter. Conventions and defaults are optax's, including a weight decay of 0.

    Args:
        learning_rate: Number or schedule. Defaults to 1e-3.
        beta1: Decay of the mean of gradients, in [0, 1). Defaults to 0.9.
        beta2: Decay of the mean of squared gradients, in [0, 1). Defaults to 0.999.
        epsilon: Added to the root, above 0. Defaults to 1e-6.
        weight_decay: The values times this factor are added to the step. Defaults to 0.

    Raises:
        GraphError: If an option is out of range or passed under two names.

    Source: You et al., arXiv:1904.00962.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([3.0, 4.0])
        >>> steps = mg.optim.LAMB(0.5).updates({v: g.constant([2.0, 0.0])}, g.constant(0.5))
        >>> _ = g.run({}, [], steps)
        >>> g.variable_value(v).round(3).tolist()
        [0.5, 4.0]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        beta1: BelowOne = 0.9,
        beta2: BelowOne = 0.999,
        epsilon: Positive = 1e-6,
        weight_decay: NotNegative = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        self.beta1, self.beta2, self.epsilon, self.weight_decay = beta1, beta2, epsilon, weight_decay

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g, dtype = self.graph, values.dtype
        first, second, assigns = self._means(variable, values, gradient)
        spread = g.square_root(second / self._correction(self.beta2, dtype)) + self.epsilon
        slope = first / self._correction(self.beta1, dtype) / spread
        if self.weight_decay:
            slope = slope + values * self.weight_decay
        return values - learning_rate * trust_ratio(values, slope) * slope, assigns


class LARS(Optimizer):
    """LARS: SGD with momentum, with steps scaled to the norm of each parameter.

    With d = gradient + weight_decay * values, v = momentum * v + rate * trust_coefficient * |values| / (|d| + epsilon)
    * d and values -= v. With nesterov, momentum * v plus the last term is subtracted instead. The rate is part of v, as
    in the paper, so lowering the rate does not reduce momentum that has already accumulated. Conventions and defaults
    are optax's.

    Args:
        learning_rate: Number or schedule. Defaults to 0.01.
        momentum: Decay of the accumulated steps, in [0, 1). Defaults to 0.9.
        nesterov: Whether to use Nesterov momentum. Defaults to False.
        weight_decay: The values times this factor are added to the gradient. Defaults to 0.
        trust_coefficient: Factor of the ratio of norms, above 0. Defaults to 0.001.
        epsilon: Added to the norm of the gradient, at least 0. Defaults to 0.

    Raises:
        GraphError: If an option is out of range or passed under two names, or nesterov is set without momentum.

    Source: You et al., arXiv:1708.03888.

    Example:
        >>> g = mg.Graph()
        >>> v = g.variable([3.0, 4.0])
        >>> optimizer = mg.optim.LARS(1.0, trust_coefficient=0.1)
        >>> _ = g.run({}, [], optimizer.updates({v: g.constant([2.0, 0.0])}, g.constant(1.0)))
        >>> g.variable_value(v).round(3).tolist()
        [2.5, 4.0]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.01,
        momentum: BelowOne = 0.9,
        nesterov: bool = False,
        weight_decay: NotNegative = 0.0,
        trust_coefficient: Positive = 0.001,
        epsilon: NotNegative = 0.0,
    ) -> None:
        super().__init__(learning_rate)
        if nesterov and momentum <= 0:
            raise GraphError(f"LARS: nesterov needs momentum above 0, got momentum={momentum}")
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self.trust_coefficient, self.epsilon = trust_coefficient, epsilon

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g = self.graph
        if self.weight_decay:
            gradient = gradient + values * self.weight_decay
        trust = trust_ratio(values, gradient, self.trust_coefficient, self.epsilon)
        moved = learning_rate * trust * gradient
        if not self.momentum:
            return values - moved, []
        momentum = self.state(variable, values, "momentum")
        velocity = momentum * self.momentum + moved
        step = velocity * self.momentum + moved if self.nesterov else velocity
        return values - step, [g.assign(momentum, velocity)]
