"""SGD, and the base classes of all optimizers.

An optimizer belongs to one graph: `updates` creates its state variables there and returns the operations of one step.
The learning rate is an input tensor; the schedule `learning_rate(step)` returns the value to feed.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from .._checks import BelowOne, Contract, NotNegative, check_methods, checked
from .._core import ConstantData, DType, Operation, Tensor, float32, float64
from .._display import ShowsArguments
from .._tracking import Tracked, is_building
from ..errors import GraphError
from . import low_precision
from .aliases import options_of_alias, taking_aliases
from .schedules import Schedule, as_schedule, scaled_rate

if TYPE_CHECKING:
    from ..graph import Graph


_OWN = __name__.rsplit(".", 1)[0] + "."


@cache
def _contract(kind: type) -> Contract:
    """Return the arguments that the constructor of an optimizer accepts."""
    return Contract(kind.__init__)  # type: ignore[misc]


@checked
class Optimizer(Tracked, ShowsArguments):
    """Base class of optimizers.

    Subclasses define `step`, which updates one variable, or override `updates`. float16 and bfloat16 variables are
    updated in float32, where small rates and momenta do not vanish, and then stored as low_precision_weights states.

    Options can be changed at any time, also under their aliases, as in `optimizer.weight_decay = 0`: a trainer uses the
    new value from its next step on, keeps the state, and saves the change in its checkpoints.

    Attributes:
        low_precision_weights: How float16 and bfloat16 weights keep updates that are too small for their dtype:
            "rounded" loses them, "master" keeps a float32 copy of each weight, and "stochastic" rounds bfloat16 weights
            up or down at random. Defaults to "rounded".

    Args:
        learning_rate: Number of at least 0, or a schedule: a function from the step number, counted from 0, to the
            rate.

    Raises:
        GraphError: If learning_rate is neither a finite number of at least 0 nor callable.

    Example:
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

    low_precision_weights: str = "rounded"
    """How float16 and bfloat16 weights keep updates too small for their dtype: see `Trainer`."""
    _schedule: Schedule
    _unscaled: Schedule
    _constructed: Schedule
    _unwatched = frozenset(
        (
            "learning_rate",
            "_schedule",
            "_unscaled",
            "_constructed",
            "_rate_factors",
            "_graph",
            "_states",
            "_corrections",
        )
    )
    _fixed: frozenset[str] = frozenset()
    """Options that cannot be changed once the optimizer has its state, which they initialize."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(_OWN):
            check_methods(cls)
            if "__init__" in vars(cls):
                cls.__init__ = taking_aliases(cls.__init__)  # type: ignore[method-assign]

    def __init__(self, learning_rate: float | Schedule) -> None:
        self.learning_rate = as_schedule(learning_rate)
        self._constructed = self._unscaled
        self._graph: Graph | None = None
        self._states: dict[tuple[Tensor | None, str], Tensor] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if type(self).__module__.startswith(_OWN) and not is_building():
            if (options := options_of_alias(type(self), name, value)) is not None:
                for option, each in options.items():
                    setattr(self, option, each)
                return
            self._require_changeable(name, value)
        if name == "low_precision_weights":
            low_precision.checked_way(type(self).__name__, value)
        super().__setattr__(name, value)

    def _require_changeable(self, name: str, value: Any) -> None:
        """Raise GraphError if a value is not valid for an option, or an option can no longer be changed."""
        known = vars(self).get(name, value)
        if name in self._fixed and vars(self).get("_graph") is not None and known != value:
            raise GraphError(
                f"{type(self).__name__}.{name} cannot be changed, because the optimizer has initialized its state with "
                "it: create a new optimizer with with_options()"
            )
        contract = _contract(type(self))  # type: ignore[arg-type]
        if name in contract.named and not contract.named[name].accepts(value):
            contract.refuse(contract.named[name], value, (self,))

    def rates(self) -> list[Schedule]:
        """Return the schedules of the rates fed to each step: one, or one for each group with its own rate."""
        return [self.learning_rate]

    def scale_learning_rate(self, factor: float) -> None:
        """Multiply all rates from the next step on by a factor. Schedules continue and are scaled.

        Args:
            factor: Factor of the rates.

        Example:
            >>> optimizer = mg.optim.SGD(mg.optim.StepRate(1.0, every=10))
            >>> optimizer.scale_learning_rate(0.5)
            >>> optimizer.learning_rate(0), optimizer.learning_rate(10)
            (0.5, 0.05)
        """
        self._rate_factors.append(factor)
        self._schedule = scaled_rate(self._schedule, factor)

    def _innermost(self) -> list[Optimizer]:
        """Return the optimizers that have their own rates: this optimizer, or those that it wraps."""
        return [self]

    def freezes(self, variable: Tensor) -> bool:
        """Return whether the optimizer leaves a parameter unchanged. Clipping ignores the gradients of such parameters.

        Args:
            variable: The parameter.
        """
        return False

    def know_paths(self, paths: Mapping[Tensor, str]) -> None:
        """Receive the paths of the parameters in the model; trainers call this before each build.

        The names of variables differ from their paths if the model was part of another one when it was built.

        Args:
            paths: Dict of paths, keyed by variable.
        """

    def with_options(self, **options: Any) -> Optimizer:
        """Create an optimizer of the same kind with some options changed.

        Args:
            **options: Options to change, with their new values.

        Returns:
            A new optimizer without state.

        Raises:
            GraphError: If the optimizer has no such option.

        Example:
            >>> mg.optim.AdamW(1e-3).with_options(weight_decay=0.0).weight_decay
            0.0
        """
        names = list(inspect.signature(type(self)).parameters)
        if unknown := [name for name in options if name not in names]:
            raise GraphError(
                f"{type(self).__name__} has no option {', '.join(unknown)}: its options are {', '.join(names)}"
            )
        return type(self)(**({name: getattr(self, name) for name in names} | options))

    @property
    def learning_rate(self) -> Schedule:
        """Schedule that gives the rate of the next step. It can be set to a schedule or a number at any time.

        Example:
            >>> optimizer = mg.optim.SGD(0.5)
            >>> optimizer.learning_rate = 1e-4
            >>> optimizer.learning_rate(7), optimizer.learning_rate * 10
            (0.0001, 0.001)
        """
        return self._schedule

    @learning_rate.setter
    def learning_rate(self, rate: float | Schedule) -> None:
        self._schedule = self._unscaled = as_schedule(rate)
        self._rate_factors: list[float] = []  # Factors passed to scale_learning_rate since the rate was set.

    def updates(self, gradients: Mapping[Tensor, Tensor], learning_rate: Tensor) -> list[Operation]:
        """Return the operations of one step, to pass to a run as target operations.

        Calling it again in the same graph, for example for batches of other sizes, builds another step over the same
        state.

        Args:
            gradients: Dict of gradients, keyed by variable.
            learning_rate: Rate of the step: a tensor of rank 0, or, if `rates()` returns several schedules, a vector
                with one rate for each.

        Returns:
            The operations that update variables and state.

        Raises:
            GraphError: If gradients is empty, or the optimizer has its state in another graph.
        """
        if not gradients:
            raise GraphError("there is nothing to train: gradients is empty")
        graph = next(iter(gradients)).graph
        if self._graph is not None and self._graph is not graph:
            raise GraphError(
                f"this {type(self).__name__} already has its state in another graph: create a new one with "
                "with_options()"
            )
        self._graph = graph  # type: ignore[assignment]
        operations = []
        for variable, gradient in gradients.items():
            dtype = float64 if variable.dtype == float64 else float32
            way = self.low_precision_weights if variable.dtype.itemsize == 2 else None
            values = low_precision.values_of(self, variable, way) if way else self.graph.read(variable)
            moved, assigns = self.step(variable, values, self._in(dtype, gradient), self._in(dtype, learning_rate))
            operations += assigns
            if way:
                operations += low_precision.stored(self, self._states, variable, moved, way)
            else:
                operations.append(self.graph.assign(variable, moved))
        return operations + self.finish()

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        """Return the new values of a variable and the operations that update its state.

        Subclasses must override this method.

        Args:
            variable: The variable, for use with `state`.
            values: Its values, in the dtype to compute in.
            gradient: Its gradient, in the same dtype.
            learning_rate: Rate of the step, in the same dtype.

        Returns:
            The new values, and a list of operations.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step(variable, values, gradient, learning_rate)")

    def finish(self) -> list[Operation]:
        """Return operations to run once per step, after the updates of all variables. The base class returns none."""
        return []

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle and copies. Raise GraphError if the optimizer has its state in a graph."""
        if self._graph is not None:
            raise GraphError(
                f"this {type(self).__name__} has its state in a graph and cannot be copied: save and load the trainer, "
                "or create a new optimizer with with_options()"
            )
        return dict(vars(self))

    @property
    def graph(self) -> Graph:
        """Graph that holds the state.

        Raises:
            GraphError: If `updates` has not been called yet.
        """
        if self._graph is None:
            raise GraphError(f"this {type(self).__name__} has no graph yet: call updates() first")
        return self._graph

    def state(self, variable: Tensor, values: Tensor, name: str, initial: float = 0.0) -> Tensor:
        """Return a state variable of a parameter, creating it when first requested.

        Args:
            variable: The parameter.
            values: Tensor whose dtype the state takes.
            name: Name of the state.
            initial: Initial value of all elements. Defaults to 0.

        Returns:
            A variable with the shape of the parameter, which checkpoints store as "<variable>/<name>".
        """
        return self.state_of_shape(variable, variable.shape or (), values.dtype, name, initial)

    def state_of_shape(
        self, variable: Tensor, shape: tuple[int, ...], dtype: DType, name: str, initial: float = 0.0
    ) -> Tensor:
        """Return a state variable of a given shape, such as one number per row. Created when first requested.

        Args:
            variable: The parameter.
            shape: Shape of the state.
            dtype: Element type of the state.
            name: Name of the state.
            initial: Initial value of all elements. Defaults to 0.

        Returns:
            The variable, which checkpoints store as "<variable>/<name>".
        """
        if (variable, name) not in self._states:
            numbers = ConstantData.splat(initial, shape, dtype)
            made = self.graph.variable(numbers, None, f"{variable.name}/{name}", trainable=False)
            self._states[variable, name] = made
        return self._states[variable, name]

    def common_state(self, name: str, dtype: DType, initial: float = 0.0) -> Tensor:
        """Return a scalar state variable shared by all parameters, one for each dtype. Created when first requested.

        Args:
            name: Name of the state.
            dtype: Element type of the state.
            initial: Initial value. Defaults to 0.

        Returns:
            The variable, which checkpoints store as "<optimizer>/<name>".
        """
        key = (None, f"{name} {dtype}")
        if key not in self._states:
            full = f"{type(self).__name__.lower()}/{name}"
            self._states[key] = self.graph.variable(initial, dtype, full, trainable=False)
        return self._states[key]

    def _in(self, dtype: DType, x: Tensor) -> Tensor:
        return x if x.dtype == dtype else self.graph.cast(x, dtype)


def innermost(optimizer: Optimizer) -> list[Optimizer]:
    """Return the optimizers that have their own rates: the optimizer itself, or those that it wraps."""
    return optimizer._innermost()


def states_of(optimizer: Optimizer) -> dict[tuple[Tensor | None, str], Tensor]:
    """Return the state variables of an optimizer, keyed by parameter and name. New ones can be added to the dict."""
    return optimizer._states


@dataclass(frozen=True)
class Rate:
    """The learning rate of an optimizer and the changes made to it by hand."""

    constructed: Schedule
    """Schedule that the constructor received."""
    unscaled: Schedule
    """Schedule that was set last."""
    factors: list[float]
    """Factors passed to scale_learning_rate since the schedule was set."""


def rate_of(optimizer: Optimizer) -> Rate | None:
    """Return the learning rate of an optimizer, or None if it uses that of an optimizer that it wraps."""
    if "_constructed" not in vars(optimizer):
        return None
    return Rate(optimizer._constructed, optimizer._unscaled, optimizer._rate_factors)


def toward(mean: Tensor, x: Tensor, decay: float) -> Tensor:
    """Return decay * mean + (1 - decay) * x.

    The form mean + (1 - decay) * (x - mean) rounds only 1 - decay. A rounded decay changes 1 - decay much more: for
    0.9999 in float32, by 3e-4 of its value.
    """
    return mean + (x - mean) * (1 - decay)


class Around(Optimizer):
    """Base class of optimizers that wrap another one and change its gradients or steps.

    Args:
        optimizer: Optimizer to wrap, which provides the learning rate.
    """

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

    def know_paths(self, paths: Mapping[Tensor, str]) -> None:
        self.optimizer.know_paths(paths)

    @property
    def learning_rate(self) -> Schedule:
        return self.optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float | Schedule) -> None:
        self.optimizer.learning_rate = rate


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum, Nesterov momentum, and weight decay.

    With d = gradient + weight_decay * values and v = momentum * v + d, values -= rate * v, or rate * (d + momentum * v)
    with nesterov. Without momentum it is MPSGraph's stochasticGradientDescent. Conventions are PyTorch's.
    MPSNNOptimizerStochasticGradientDescent includes the rate in v (except with Nesterov momentum), which is equivalent
    as long as the rate is constant.

    Args:
        learning_rate: Number or schedule. Defaults to 0.01.
        momentum: Decay of the accumulated gradients, in [0, 1). Defaults to 0, no momentum.
        nesterov: Whether to use Nesterov momentum. Defaults to False.
        weight_decay: The values times this factor are added to the gradient. Defaults to 0.
        decoupled: Whether weight decay instead shrinks the values by rate * weight_decay and stays out of the momentum,
            as in AdamW. Defaults to False.

    Raises:
        GraphError: If an option is out of range or passed under two names, or nesterov is set without momentum.

    Example:
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
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self._require_momentum()

    def _require_momentum(self) -> None:
        """Raise GraphError if nesterov is set without momentum; both may have been set after construction."""
        if self.nesterov and self.momentum <= 0:
            raise GraphError(f"SGD: nesterov needs momentum above 0, got momentum={self.momentum}")

    def step(
        self, variable: Tensor, values: Tensor, gradient: Tensor, learning_rate: Tensor
    ) -> tuple[Tensor, list[Operation]]:
        g = self.graph
        self._require_momentum()
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
