"""SGD, Adam and AdamW, built from the graph's optimizer operations.

An optimizer belongs to one graph: `updates` makes its state variables there and returns the assigns of one step. The
learning rate comes in as a tensor; `learning_rate(step)` is the schedule that says what to feed.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._checks import BelowOne, NotNegative, Positive, check_methods, checked
from .._core import ConstantData, DType, Operation, Tensor, float32, float64
from .._display import ShowsArguments
from ..errors import GraphError
from .aliases import taking_aliases
from .schedules import Schedule, as_schedule, scaled_rate

if TYPE_CHECKING:
    from ..graph import Graph


_OWN = __name__.rsplit(".", 1)[0] + "."


@checked
class Optimizer(ShowsArguments):
    """The base: write `step`, which moves one variable.

    float16 and bfloat16 variables are moved in float32, where small rates and momenta do not vanish, and rounded.

    >>> class Sign(mg.optim.Optimizer):
    ...     def updates(self, gradients, learning_rate):
    ...         g = learning_rate.graph
    ...         return [g.assign(v, v - learning_rate * g.sign(d)) for v, d in gradients.items()]
    >>> x = np.float32([[1], [2]])
    >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", Sign(0.01))
    >>> history = trainer.fit(x, 3 * x, epochs=2, progress=False)
    >>> history.loss[1] < history.loss[0]
    True
    """

    _schedule: Schedule
    _unscaled: Schedule

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(_OWN):
            check_methods(cls)
            if "__init__" in vars(cls):
                cls.__init__ = taking_aliases(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, learning_rate: float | Schedule) -> None:
        self.learning_rate = as_schedule(learning_rate)
        self._graph: Graph | None = None
        self._states: dict[tuple[Tensor | None, str], Tensor] = {}

    def rates(self) -> list[Schedule]:
        """The schedules whose rates a step is fed, in order: one, unless groups of parameters have their own."""
        return [self.learning_rate]

    def scale_learning_rate(self, factor: float) -> None:
        """All rates, from the next step on, times a factor; schedules go on beneath it.

        >>> optimizer = mg.optim.SGD(mg.optim.StepRate(1.0, every=10))
        >>> optimizer.scale_learning_rate(0.5)
        >>> optimizer.learning_rate(0), optimizer.learning_rate(10)
        (0.5, 0.05)
        """
        self._rate_factors.append(factor)
        self._schedule = scaled_rate(self._schedule, factor)

    def _rescale(self, factors: Sequence[float]) -> None:
        """The rate that was set, scaled by these, which a checkpoint has kept, and by nothing else."""
        self.learning_rate = self._unscaled
        for factor in factors:
            self.scale_learning_rate(factor)

    def _innermost(self) -> list[Optimizer]:
        """The optimizers that have rates of their own: itself, or what it stands around."""
        return [self]

    def freezes(self, variable: Tensor) -> bool:
        """Is it a parameter that the optimizer leaves alone? Those have no gradients that clipping would see."""
        return False

    def with_options(self, **options: Any) -> Optimizer:
        """A new optimizer of the same kind and options but these.

        Errors: GraphError for an option that it does not have.

        >>> mg.optim.AdamW(1e-3).with_options(weight_decay=0.0).weight_decay
        0.0
        """
        names = list(inspect.signature(type(self)).parameters)
        if unknown := [name for name in options if name not in names]:
            raise GraphError(f"{type(self).__name__} has no option {', '.join(unknown)}; it has {', '.join(names)}")
        return type(self)(**({name: getattr(self, name) for name in names} | options))

    @property
    def learning_rate(self) -> Schedule:
        """The schedule, by which the next step's rate is fed. It may be set at any time, to a schedule or a number.

        >>> optimizer = mg.optim.SGD(0.5)
        >>> optimizer.learning_rate = 1e-4
        >>> optimizer.learning_rate(7), optimizer.learning_rate * 10
        (0.0001, 0.001)
        """
        return self._schedule

    @learning_rate.setter
    def learning_rate(self, rate: float | Schedule) -> None:
        self._schedule = self._unscaled = as_schedule(rate)
        self._rate_factors: list[float] = []  # what scale_learning_rate was given since then

    def updates(self, gradients: Mapping[Tensor, Tensor], learning_rate: Tensor) -> list[Operation]:
        """The operations of one step: give them to `run` as target operations.

        Args: gradients by variable; learning_rate, a tensor of rank 0, or of `rates()`'s length where that is more
        than one. Called again in the same graph, as for batches of other dimensions, it makes another step over the
        same state. Errors: GraphError without gradients, or when the optimizer has its state in another graph.
        """
        if not gradients:
            raise GraphError("there is nothing to train: no gradients were given")
        graph = next(iter(gradients)).graph
        if self._graph is not None and self._graph is not graph:
            raise GraphError(f"this {type(self).__name__} has its state in a graph already: make a new one")
        self._graph = graph  # type: ignore[assignment]
        operations = []
        for variable, gradient in gradients.items():
            dtype = float64 if variable.dtype == float64 else float32
            values, slope, rate = (self._in(dtype, x) for x in (self.graph.read(variable), gradient, learning_rate))
            moved, assigns = self.step(variable, values, slope, rate)
            operations += [*assigns, self.graph.assign(variable, self._in(variable.dtype, moved))]
        return operations + self.finish()

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        """The new values of a variable, and the assigns of its state.

        Args: variable, to name states by; values, gradient and learning_rate in the dtype to work in.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step(variable, values, gradient, learning_rate)")

    def finish(self) -> list[Operation]:
        """The assigns that a step needs once, after those of all variables."""
        return []

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copies: an optimizer that has no state in a graph yet. GraphError for another."""
        if self._graph is not None:
            raise GraphError(
                f"this {type(self).__name__} has its state in a graph, and cannot be copied alone: a trainer's "
                "save and load carry it, and with_options() makes a new one of the same options"
            )
        return dict(vars(self))

    @property
    def graph(self) -> Graph:
        """The graph that holds the state. GraphError before `updates`."""
        if self._graph is None:
            raise GraphError(f"this {type(self).__name__} is in no graph yet: call updates() first")
        return self._graph

    def state(self, variable: Tensor, values: Tensor, name: str, initial: float = 0.0) -> Tensor:
        """A state variable like `values`, at first one number, that checkpoints carry as "<variable>/<name>"."""
        return self.state_of_shape(variable, variable.shape or (), values.dtype, name, initial)

    def state_of_shape(
        self, variable: Tensor, shape: tuple[int, ...], dtype: DType, name: str, initial: float = 0.0
    ) -> Tensor:
        """The same of another shape, such as one number for a row."""
        if (variable, name) not in self._states:
            numbers = ConstantData.splat(initial, shape, dtype)
            made = self.graph.variable(numbers, None, f"{variable.name}/{name}", trainable=False)
            self._states[variable, name] = made
        return self._states[variable, name]

    def common_state(self, name: str, dtype: DType, initial: float = 0.0) -> Tensor:
        """A state of one number that all variables share, "<optimizer>/<name>"; one for each dtype."""
        key = (None, f"{name} {dtype}")
        if key not in self._states:
            full = f"{type(self).__name__.lower()}/{name}"
            self._states[key] = self.graph.variable(initial, dtype, full, trainable=False)
        return self._states[key]

    def _in(self, dtype: DType, x: Tensor) -> Tensor:
        return x if x.dtype == dtype else self.graph.cast(x, dtype)


class Around(Optimizer):
    """The base of what changes another optimizer's gradients or steps: it has that one's rate."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self._graph = None
        self._states = {}

    def rates(self) -> list[Schedule]:
        return self.optimizer.rates()

    def scale_learning_rate(self, factor: float) -> None:
        self.optimizer.scale_learning_rate(factor)

    def _innermost(self) -> list[Optimizer]:
        return self.optimizer._innermost()

    def freezes(self, variable: Tensor) -> bool:
        return self.optimizer.freezes(variable)

    @property
    def learning_rate(self) -> Schedule:
        return self.optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float | Schedule) -> None:
        self.optimizer.learning_rate = rate


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum, Nesterov's momentum and weight decay where asked for.

    d = gradient + weight_decay * values; v = momentum * v + d; values -= rate * v, or rate * (d + momentum * v) for
    Nesterov. Without momentum it is MPSGraph's stochasticGradientDescent. Conventions are PyTorch's; MPSNNOptimizer-
    StochasticGradientDescent has the rate in v unless for Nesterov, which is the same as long as the rate stays. Args:
    decoupled, whether weight decay shrinks the values by rate * weight_decay and stays out of the momentum, as AdamW's.

    >>> g = mg.Graph()
    >>> v = g.variable([1.0])
    >>> steps = mg.optim.SGD(0.5).updates({v: g.constant([4.0])}, g.constant(0.5))
    >>> _ = g.run({}, [], steps)
    >>> g.variable_value(v).tolist()
    [-1.0]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.01,
        momentum: BelowOne = 0.0,
        nesterov: bool = False,
        weight_decay: NotNegative = 0.0,
        *,
        decoupled: bool = False,
    ) -> None:
        super().__init__(learning_rate)
        self.decoupled = decoupled
        if nesterov and momentum <= 0:
            raise GraphError("SGD: nesterov needs a momentum above 0")
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g = self.graph
        if self.weight_decay and self.decoupled:
            values = values * (1.0 - learning_rate * self.weight_decay)
        elif self.weight_decay:
            gradient = gradient + values * self.weight_decay
        if not self.momentum:
            return g.stochastic_gradient_descent(learning_rate, values, gradient), []
        momentum = self.state(variable, values, "momentum")
        velocity = momentum * self.momentum + gradient
        slope = gradient + velocity * self.momentum if self.nesterov else velocity
        return g.stochastic_gradient_descent(learning_rate, values, slope), [g.assign(momentum, velocity)]


class Adam(Optimizer):
    """Adam, and AMSGrad where asked for; weight decay is added to the gradient. Kingma and Ba, arXiv:1412.6980.

    The bias corrections are folded into the rate, as MPSGraph does: rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m /
    (sqrt(v) + epsilon). PyTorch adds epsilon after correcting v, rate / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) +
    epsilon), which shows where gradients are tiny in the first steps. Args: corrected_epsilon, whether epsilon is
    PyTorch's.

    >>> g = mg.Graph()
    >>> v = g.variable([1.0])
    >>> steps = mg.optim.Adam(0.5).updates({v: g.constant([4.0])}, g.constant(0.5))
    >>> _ = g.run({}, [], steps)
    >>> g.variable_value(v).round(4).tolist()
    [0.5]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        beta1: BelowOne = 0.9,
        beta2: BelowOne = 0.999,
        epsilon: Positive = 1e-8,
        amsgrad: bool = False,
        weight_decay: NotNegative = 0.0,
        *,
        corrected_epsilon: bool = False,
    ) -> None:
        super().__init__(learning_rate)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.amsgrad, self.weight_decay, self.corrected_epsilon = amsgrad, weight_decay, corrected_epsilon
        self._powers: dict[DType, tuple[Tensor, Tensor]] = {}

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        values, gradient = self.decayed(values, gradient, learning_rate)
        names = ["momentum", "velocity"] + (["maximum_velocity"] if self.amsgrad else [])
        states = [self.state(variable, values, name) for name in names]
        epsilon, powers = self._epsilon_in(values.dtype), self._beta_powers(values.dtype)
        scalars = (learning_rate, self.beta1, self.beta2, epsilon, *powers)
        maximum = states[2] if self.amsgrad else None
        moved, *new = self.graph.adam(*scalars, values, states[0], states[1], gradient, maximum)
        return moved, [self.graph.assign(state, value) for state, value in zip(states, new, strict=True)]

    def decayed(self, values: Tensor, gradient: Tensor, learning_rate: Tensor) -> tuple[Tensor, Tensor]:
        """Values and gradient after weight decay."""
        return values, gradient + values * self.weight_decay if self.weight_decay else gradient

    def _beta_powers(self, dtype: DType) -> tuple[Tensor, Tensor]:
        """beta1^t and beta2^t for the step t that is being made, one pair for each dtype."""
        if dtype not in self._powers:
            self._powers[dtype] = (
                self.graph.variable(self.beta1, dtype, "adam/beta1_power", trainable=False),
                self.graph.variable(self.beta2, dtype, "adam/beta2_power", trainable=False),
            )
        return self._powers[dtype]

    def _epsilon_in(self, dtype: DType) -> Tensor | float:
        """What is added to the root of the velocity that is not corrected."""
        if not self.corrected_epsilon:
            return self.epsilon
        _, power = self._beta_powers(dtype)
        return self.graph.square_root(1.0 - power) * self.epsilon

    def finish(self) -> list[Operation]:
        g = self.graph
        return [
            g.assign(power, power * beta)
            for pair in self._powers.values()
            for power, beta in zip(pair, (self.beta1, self.beta2), strict=True)
        ]


class AdamW(Adam):
    """Adam with decoupled weight decay: values shrink by rate * weight_decay before Adam's step.

    Loshchilov and Hutter, arXiv:1711.05101. Conventions and defaults are PyTorch's, the place of epsilon, too. Args:
    corrected_epsilon, False for Adam's place, which is MPSGraph's.

    >>> g = mg.Graph()
    >>> v = g.variable([1.0])
    >>> steps = mg.optim.AdamW(0.5, weight_decay=0.5).updates({v: g.constant([4.0])}, g.constant(0.5))
    >>> _ = g.run({}, [], steps)
    >>> g.variable_value(v).round(4).tolist()
    [0.25]
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 1e-3,
        beta1: BelowOne = 0.9,
        beta2: BelowOne = 0.999,
        epsilon: Positive = 1e-8,
        amsgrad: bool = False,
        weight_decay: NotNegative = 0.01,
        *,
        corrected_epsilon: bool = True,
    ) -> None:
        super().__init__(
            learning_rate, beta1, beta2, epsilon, amsgrad, weight_decay, corrected_epsilon=corrected_epsilon
        )

    def decayed(self, values: Tensor, gradient: Tensor, learning_rate: Tensor) -> tuple[Tensor, Tensor]:
        return values * (1.0 - learning_rate * self.weight_decay), gradient
