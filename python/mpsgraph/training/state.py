"""TrainingState: everything that training changes, as one object, which is stepped, saved, packaged, and distributed.

It consists of the variables (weights, optimizer states, moving averages, gradient sums, loss scales, random states),
counters, learning rates, history, and the position in the data. What does not change with training, such as the
operations of a step, belongs to the builder (`builder.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from .._core import ConstantData, Device, Operation, Tensor, float32, float64
from ..data.batches import Batches
from ..distributed.partnership import Partnership
from ..errors import GraphError
from ..graph import Graph
from ..nn.state import fitting, slot_of
from ..optim import LossScaling, Optimizer
from ..optim.optimizers import toward
from ..precision.layer_precision import LayerPrecision
from .background import Writer
from .clock import Clock
from .engine import Engine
from .gradient_sums import SUM, GradientSums
from .history import History
from .steps_in_flight import StepsInFlight


class HasVariables(Protocol):
    """Protocol of the models of a state: `Network`, and the model in a package."""

    graph: Graph

    def named_variables(self) -> dict[str, Tensor]:
        """Return parameters and buffers, keyed by path."""

    def named_parameters(self) -> Iterable[tuple[str, Tensor]]:
        """Yield the parameters that are not frozen, with their paths."""


class Resumable(Protocol):
    """Protocol of a fit, whose progress is saved with the state."""

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the callbacks and the progress of the current epoch."""


class TrainingState:
    """State of training.

    Args:
        network: The model.
        seed: Seed of the training.
        device: Device whose values of the variables count; None means the default device.
        accumulation: Number of batches whose mean gradient is used for one update.
        save_instead: Advice for callers who want to save the moving averages alone.
    """

    def __init__(
        self,
        network: HasVariables,
        seed: int,
        device: Device | str | None = None,
        accumulation: int = 1,
        save_instead: str = "",
    ) -> None:
        self.network, self.seed, self.device, self.accumulation = network, seed, device, accumulation
        self.history = History(seed)
        self.steps = StepsInFlight()
        self.writer = Writer()
        """Writes checkpoints in the background."""
        self.engine: Engine | None = None
        """Engine that runs the steps instead of a device."""
        self.partnership: Partnership | None = None
        """Connection to the other processes in distributed training."""

        # Variables, apart from those of the network and of the optimizers.
        self.averages: dict[Tensor, Tensor] = {}
        """Moving averages of the weights."""
        self.sums: dict[tuple[Optimizer | None, int], GradientSums] = {}
        """Accumulated gradients; None means the trainer's optimizer, which may be replaced."""
        self.scalings: dict[Optimizer, LossScaling] = {}
        self.random_states: list[Tensor] = []
        """Random states used in training mode, which all builds share."""
        self.rates: dict[tuple[Optimizer, int], Tensor] = {}
        """Placeholders of learning rates."""
        self.precision_choices: dict[str, LayerPrecision] = {}
        """Precision of each layer, keyed by path: chosen by measurement, or passed to the trainer."""
        self.used: set[Tensor] | None = None
        """Variables that the built operations use, or None if all of them do."""
        self.foreign = set(network.graph.variables)
        """Variables of the graph that do not belong to this state."""
        self.unclaimed: dict[str, np.ndarray] = {}
        """Values in a loaded checkpoint for variables that steps do not use yet, such as states of frozen layers."""
        self.unclaimed_since = 0
        """Number of updates before that checkpoint was saved."""

        self.clock: Clock | None = None
        """Counters and tables in the graph, once a package has been saved."""

        # Position in the data and in the current fit.
        self.data: Batches | None = None
        self.data_position: dict[str, int] | None = None
        """Position in a loaded checkpoint, until the next fit starts."""
        self.fit: Resumable | None = None
        """The current or last fit."""
        self.resumed: dict[str, Any] = {}
        """State of the fit in a loaded checkpoint, until the next fit starts."""

        self.average_blocks = 0
        """Number of nested blocks in which the moving averages replace the weights."""
        self._save_instead = save_instead

    @property
    def graph(self) -> Graph:
        """The graph of the variables."""
        return self.network.graph

    @property
    def updates(self) -> int:
        """Number of updates made, each from one or several steps."""
        return self.steps.made // self.accumulation

    @property
    def applies_next(self) -> bool:
        """Whether the next step makes an update, rather than only accumulating gradients."""
        return (self.steps.made + 1) % self.accumulation == 0

    # --- variables ----------------------------------------------------------------------------------------------------

    def variables(self) -> dict[str, Tensor]:
        """Return the variables that steps use, under names that do not depend on the other contents of the graph.

        The model's variables are keyed by path, and all others by name, in order of creation. A graph makes names
        unique by appending a number; here, the numbers only count the variables of this state.
        """
        found = dict(self.network.named_variables())
        self._name(found, lambda variable: self.used is None or variable in self.used)
        return found

    def dormant(self) -> dict[str, Tensor]:
        """Return the variables that steps have used but do not use with the current settings, keyed by name.

        Examples are optimizer states of frozen layers, which steps use again once the layers are unfrozen.
        """
        used = self.used
        if used is None:
            return {}
        known = self.variables()
        found = dict(known)
        self._name(found, lambda variable: variable not in used)
        return {name: variable for name, variable in found.items() if name not in known}

    def _name(self, found: dict[str, Tensor], wanted: Callable[[Tensor], bool]) -> None:
        """Add to `found` the wanted variables that belong to no module, unless the name is taken.

        States of a parameter are named after its path, which differs from its name in the graph if that name was taken.
        """
        own, counts = set(found.values()), dict[str, int]()
        paths = {v.name: path for path, v in found.items()}
        for variable in self.graph.variables:
            if variable in own or variable in self.foreign or not wanted(variable):
                continue
            parameter, slash, state = variable.name.partition("/")
            name = paths[parameter] + slash + state if parameter in paths else variable.name
            stem = re.sub(r"_\d+$", "", name)
            number = counts.get(stem, 0)
            counts[stem] = number + 1
            found.setdefault(stem if number == 0 else f"{stem}_{number}", variable)

    def values(self, variables: Iterable[Tensor]) -> list[np.ndarray]:
        """Return copies of the values of variables."""
        return self.graph.variable_values(variables, device=self.device)

    def set_values(self, values: Mapping[Tensor, Any]) -> None:
        """Set the values of variables."""
        self.graph.set_variables(values, device=self.device)

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of the values of the model's parameters and buffers, keyed by path."""
        return self._named_values(self.network.named_variables())

    def set_weights(self, where: str, values: Mapping[str, np.ndarray]) -> None:
        """Set the values of the model's parameters and buffers. If any path, shape, or dtype is wrong, nothing changes.

        Args:
            where: Start of error messages.
            values: Dict of arrays, keyed by path.
        """
        variables = self.network.named_variables()
        if values.keys() != variables.keys():
            raise GraphError(
                f"{where}: values must have the paths {', '.join(variables)}, got {', '.join(values) or 'none'}"
            )
        slots = {path: slot_of(variable) for path, variable in variables.items()}
        fitted, _ = fitting(where, slots, values, strict=True)
        self.steps.wait()
        self.set_values({variables[path]: value for path, value in fitted.items()})

    def _named_values(self, variables: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
        return dict(zip(variables, self.values(variables.values()), strict=True))

    def move_to(self, device: Device | str | None) -> None:
        """Copy the values of the variables to another device."""
        variables = list(dict.fromkeys([*self.variables().values(), *self.dormant().values()]))
        values = self.values(variables)
        self.graph.set_variables(dict(zip(variables, values, strict=True)), device=device)

    def scaling_of(self, optimizer: Optimizer) -> LossScaling:
        """Return the loss scaling of an optimizer, creating it on first use."""
        if optimizer not in self.scalings:
            own = optimizer if isinstance(optimizer, LossScaling) else LossScaling(optimizer)
            self.scalings[optimizer] = own
        return self.scalings[optimizer]

    def rate_for(self, optimizer: Optimizer) -> Tensor:
        """Return the placeholder of an optimizer's learning rates: a scalar, or a vector with one rate per parameter
        group.
        """
        count = len(optimizer.rates())
        if (optimizer, count) not in self.rates:
            wide = any(v.dtype == float64 for _, v in self.network.named_parameters())
            shape, dtype = () if count == 1 else (count,), float64 if wide else float32
            self.rates[optimizer, count] = self.graph.placeholder(shape, dtype, "learning_rate")
        return self.rates[optimizer, count]

    # --- moving averages ----------------------------------------------------------------------------------------------

    @property
    def has_averages(self) -> bool:
        """Whether there are moving averages of the weights, which the first update begins."""
        return bool(self.averages) and self.steps.made >= self.accumulation

    def averaging(self, variables: Iterable[Tensor], decay: float, begin: bool = True) -> list[Operation]:
        """Return the operations that update the moving averages of the weights, which are float32 or wider.

        An average is the lowest finite number of its dtype until its weight is first updated, and then begins with the
        updated weight. Marking each average with this number costs less than additional variables that record which
        averages have begun. The average of a frozen weight does not begin (`begin`) until the weight is updated.
        """
        g, made = self.graph, []
        for v in variables:
            average, new = g.read(self._average_of(v)), g.read(v)
            new = new if new.dtype == average.dtype else g.cast(new, average.dtype)
            begins = g.equal(average, unset_average(average.dtype.numpy))
            moved = g.select(begins, new if begin else average, toward(average, new, decay))
            made.append(g.assign(self.averages[v], moved))
        return made

    def _average_of(self, weight: Tensor) -> Tensor:
        if weight not in self.averages:
            dtype = float32 if weight.dtype.itemsize == 2 else weight.dtype
            nothing = ConstantData.splat(unset_average(dtype.numpy), weight.shape or (), dtype)
            self.averages[weight] = self.graph.variable(nothing, None, f"{weight.name}/average", trainable=False)
        return self.averages[weight]

    def add_averages(self, names: Collection[str]) -> bool:
        """Create the moving averages that have the given names in a checkpoint, which frozen weights may have.

        Return whether there are new ones, which steps that have been built do not update yet.
        """
        weights = self.network.named_variables().items()
        new = [v for path, v in weights if v not in self.averages and f"{path}/average" in names]
        for weight in new:
            self._average_of(weight)
        return bool(new)

    @contextmanager
    def averages_in_place(self, absent: str = "there are no averaged weights") -> Iterator[None]:
        """Replace the weights by their moving averages within a `with` block. Raise GraphError(absent) without any."""
        if not self.has_averages:
            raise GraphError(absent)
        self.steps.wait()
        weights = list(self.averages)
        self.average_blocks += 1
        try:
            found = self.values([*weights, *self.averages.values()])
            own = dict(zip(weights, found, strict=False))
            means = {v: averaged(own[v], mean) for v, mean in zip(weights, found[len(weights) :], strict=True)}
            self.set_values(means)
            try:
                yield
                now = dict(zip(weights, self.values(weights), strict=True))
            finally:
                self.set_values(own)
        finally:
            self.average_blocks -= 1
        if changed := [v.name for v, value in now.items() if value.tobytes() != means[v].tobytes()]:
            raise GraphError(
                "weights that are set within averaged_weights() are lost at its end, got new values of "
                f"'{changed[0]}': set them outside of the block"
            )

    def require_own_weights(self, method: str) -> None:
        """Raise GraphError within a block of `averages_in_place`, where changes of the state would be lost."""
        if self.average_blocks:
            raise GraphError(
                f"{method} cannot be used within averaged_weights(), where the averages replace the weights that are "
                f"trained: call it outside of the block{self._save_instead}"
            )

    def average_values(self) -> dict[str, np.ndarray]:
        """Return copies of the moving averages, keyed by the path of the weight; empty if there are none."""
        if not self.has_averages:
            return {}
        variables = self.network.named_variables()
        return self._named_values({path: self.averages[v] for path, v in variables.items() if v in self.averages})

    def set_average_values(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the moving averages of the weights with the given paths."""
        weights = self.network.named_variables().items()
        own = {self.averages[v]: values[path] for path, v in weights if path in values and v in self.averages}
        self.set_values(own)

    # --- variables that steps do not use, and checkpoints -------------------------------------------------------------

    def optional_variables(self, optimizer: Optimizer) -> set[Tensor]:
        """Return the variables that a checkpoint may lack: averages and gradient sums of frozen parameters."""
        trained = [v for _, v in self.network.named_parameters()]
        moving = {self.averages[v] for v in trained if v in self.averages and not optimizer.freezes(v)}
        frozen = set(self.averages.values()) - moving
        for (own, _), sums in self.sums.items():
            free = {v for v in trained if not (own or optimizer).freezes(v)}
            frozen |= {total for v, total in sums.sums.items() if v not in free}
        return frozen

    def of_random_states(self, variables: Mapping[str, Tensor]) -> list[str]:
        """Return the names of those variables that are random states."""
        own = set(self.random_states)
        return [name for name, v in variables.items() if v in own]

    def of_gradient_sums(self, variables: Mapping[str, Tensor]) -> list[str]:
        """Return the names of those variables that accumulate gradients. Each process has sums of its own."""
        own = {v for sums in self.sums.values() for v in sums.sums.values()}
        return [name for name, v in variables.items() if v in own]

    def drop_stale_sums(self) -> None:
        """Drop the gradient sums of frozen layers in a loaded checkpoint if an update has been made since."""
        if self.updates != self.unclaimed_since:
            self.unclaimed = {name: value for name, value in self.unclaimed.items() if SUM not in name}

    def claim(self) -> None:
        """Set variables that have just come into use to their values in a loaded checkpoint."""
        if not self.unclaimed:
            return
        self.steps.wait()
        self.drop_stale_sums()
        used = {}
        for name, variable in self.variables().items():
            value = self.unclaimed.get(name)
            if value is not None and value.shape == tuple(variable.shape or ()):
                used[variable] = self.unclaimed.pop(name)
        self.set_values(used)

    def forget(self, variables: set[Tensor]) -> None:
        """Forget variables that a loaded checkpoint does not contain, so that new ones are created when needed."""
        self.averages = {v: average for v, average in self.averages.items() if average not in variables}
        for sums in self.sums.values():
            sums.sums = {v: total for v, total in sums.sums.items() if total not in variables}
        self.foreign |= variables

    def take_seed(self, seed: int, keep_graph: bool) -> None:
        """Continue with the seed of a checkpoint. A graph that is still empty starts again with it."""
        self.seed = seed
        if not self.graph.operation_count and not keep_graph:
            self.network.graph = Graph(seed=seed)


def unset_average(dtype: Any) -> float:
    """Return the number that marks a moving average of a numpy dtype as not yet begun: the lowest finite number.

    NaN would serve the same purpose, but `check_finite` would report it.
    """
    return float(np.finfo(dtype).min)


def averaged(own: np.ndarray, average: np.ndarray) -> np.ndarray:
    """Return a weight's moving average in the weight's dtype, or the weight itself where the average has not begun."""
    return np.where(average == unset_average(average.dtype), own, average.astype(own.dtype))
