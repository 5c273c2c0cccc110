"""TrainingGraph, the part of `Trainer` that builds the graph: the step and its variables.

The part that runs the graph is in `trainer.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from weakref import WeakSet

import numpy as np

from .._core import ConstantData, Device, DType, Executable, Operation, Tensor, float32, float64
from .._display import shown
from .._tracking import Snapshot, building, changes
from ..distributed.partnership import Partnership
from ..distributed.weighing import Weighing, in_order, weight_of_batch
from ..errors import DTypeError, GraphError
from ..graph import Graph
from ..model import Model
from ..nn.checkpointing import checkpointed_layers
from ..nn.metrics import Metric
from ..nn.module import Module, adopt, is_built
from ..optim import LossScaling, Optimizer
from ..optim.optimizers import toward
from ..precision.layer_precision import LayerPrecision, Task, choose
from . import evaluation, settings
from .batch import Batch
from .engine import Prepared
from .network import Network
from .objective import Objective, shares_of
from .sizes import Sizes
from .step import (
    SUM,
    Built,
    Form,
    GradientSums,
    Minimized,
    example_of,
    require_dtype,
    require_trainable,
    unset_average,
)
from .structure import leaves
from .variables import variables_of


class TrainingGraph:
    """The graph of a trainer, with the structure and dtypes of the batches and the operations built for them."""

    graph: Graph
    network: Network
    model: Module | Model
    objective: Objective
    optimizer: Optimizer
    loss: Any
    metrics: dict[str, Metric]
    device: Device | str | None
    seed: int
    dtype: DType
    accumulation: int
    ema_decay: float | None
    checkpoint_layers: bool | tuple[str, ...]
    low_precision_weights: str | None
    precision: str
    precision_error: float
    precision_choices: dict[str, LayerPrecision]
    """Precision of each layer, keyed by path: chosen by measurement for "auto", or passed as argument `precision`."""

    def __init__(self) -> None:
        self._before_us = set(self.graph.variables)
        self._scalings: dict[Optimizer, LossScaling] = {}
        self._forms: dict[str, Form] = {}
        self._specs: list[dict[str, Any]] = []  # Descriptions of the forms that were built, in order.
        self._inputs: Any = None
        self._prediction: Any = None
        self._prediction_of: Any = None  # Inputs for which self._prediction was built.
        self._prediction_inputs: Any = None  # Placeholders for predictions; those of batches unless the step is custom.
        self._added: list[Tensor] = []
        self._prediction_losses: list[Tensor] = []
        self._before: dict[Tensor, Tensor] = {}
        self._building: Built | None = None
        # Builds, keyed by whether the batches have labels and whether they have weights.
        self._builts: dict[tuple[bool, bool], Built] = {}
        self._rate_of: dict[tuple[Optimizer, int], Tensor] = {}
        self._sums: dict[tuple[Optimizer | None, int], GradientSums] = {}
        self._averages: dict[Tensor, Tensor] = {}
        self._random_states: list[Tensor] = []  # Random states used in training mode, which all builds share.
        self._partnership: Partnership | None = None
        self._last_step: tuple[Any, Executable | Prepared, Built] | None = None
        """Shapes and kind of the last step, its executable, and the operations built for it."""
        self._measures = False
        self._clock: Any = None  # Counters and tables needed by packages.
        self._settings: Snapshot | None = None
        """The settings on which the built operations depend; see settings.py."""
        self._changes_seen = 0
        self._kept: list[settings.BuiltStep] = []
        self._signature: list[Any] | None = None
        self._used: set[Tensor] | None = None
        self._irrelevant: set[tuple[int, str]] = set()  # Changed settings on which no operation depends.
        self._irrelevant_owners: list[Any] = []  # Keeps the objects of these settings alive.
        self._rebuilds = 0
        self._dormant: dict[str, np.ndarray] = {}
        """Values in a loaded checkpoint for variables that steps do not use yet, such as states of frozen layers."""
        self._dormant_updates = 0  # Number of updates before that checkpoint was saved.
        self._sizes = Sizes()
        self._parts: WeakSet[Module] = WeakSet()  # Parts of the model that are built in this graph.
        self._warned_of_dtype = False
        self._fast: dict[Any, Any] = {}  # Executables of predictions of single arrays; see evaluation.predict_array.

    # --- the step, for subclasses -------------------------------------------------------------------------------------

    def training_step(self, inputs: Any, labels: Any, weights: Any = None) -> Mapping[str, Tensor]:
        """Build a training step in the graph. Override this method for custom steps.

        The method is called when a step is built for a new structure or new dtypes of batches, not for each batch. It
        computes losses from `self.forward` or from parts of `self.model`, and calls `self.minimize` for each optimizer;
        both add operations to `self.graph`. Reading a variable after `minimize` returns the updated value.

        Args:
            inputs: Placeholders in the structure of the batches' inputs.
            labels: Placeholders in the structure of the labels, or None if batches have none.
            weights: Placeholders in the structure of the sample weights, or None if batches have none.

        Returns:
            Results to report: a dict of tensors of rank 0, keyed by name.

        Example:
            >>> class Lazy(mg.Trainer):
            ...     def training_step(self, inputs, labels, weights=None):
            ...         outputs = self.forward(inputs)
            ...         loss = mg.nn.losses.mean_squared_error(outputs, labels)
            ...         slope = self.graph.gradients(loss, inputs)[inputs]
            ...         penalty = mg.nn.losses.mean_of_all(slope * slope)
            ...         self.minimize(loss + 0.1 * penalty)
            ...         return {"loss": loss, "penalty": penalty}
            >>> trainer = Lazy(mg.nn.Linear(1))
            >>> sorted(trainer.train_step(np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)).values)
            ['loss', 'penalty']
        """
        outputs = self.forward(inputs)
        results = self.results(outputs, labels, weights)
        self.minimize(results["loss"])
        return results

    def forward(self, inputs: Any) -> Any:
        """Return the outputs of the model in training mode, for use in `training_step`.

        Args:
            inputs: Inputs of the model.

        Returns:
            The outputs in the model's structure, cast to float32 under mixed precision.

        Raises:
            DTypeError: If the model's layers do not accept the dtype of the inputs.
        """
        if not self._scales:
            return self._outputs(inputs)
        # Build in inference mode first: that creates the variables, whose values must be read before training changes
        # them.
        self._inference(inputs)
        while True:
            self._before = {buffer: self.graph.read(buffer) for buffer in self.network.buffers()}
            outputs = self._outputs(inputs)
            if set(self.network.buffers()) == self._before.keys():
                # If the buffers differ, a module that is only called in training has just been built: repeat to read
                # its buffers, too.
                return outputs

    def _outputs(self, inputs: Any) -> Any:
        """Return the outputs in training mode. Explain the fix in the DTypeError if a layer rejects integer inputs."""
        together = nullcontext() if self._partnership is None else self._partnership.one_batch()
        try:
            with together:
                outputs, self._added = self.network.outputs(inputs, True, self.precision, self.precision_choices)
        except DTypeError as error:
            whole = [tensor.dtype for tensor in leaves(inputs) if not tensor.dtype.is_float]
            if not whole:
                raise
            raise DTypeError(
                f"inputs are {whole[0]}, which the model's layers do not accept: convert them with "
                f"x.astype('{self.dtype}'); {error}"
            ) from error
        return outputs

    def results(self, outputs: Any, labels: Any, weights: Any = None) -> dict[str, Tensor]:
        """Return the loss and metrics that the trainer was created with, for use in `training_step`.

        Args:
            outputs: Outputs of the model.
            labels: Labels of the batch.
            weights: Sample weights, or None, the default.

        Returns:
            A dict of tensors of rank 0, keyed by name. "loss" includes the losses added by modules.

        Raises:
            GraphError: If losses, labels, and outputs do not match.
        """
        parts = self.objective.parts(outputs, labels)
        if self._building is not None:
            self._building.parts = parts
        if len(parts) == 1 and not parts[0].name:
            vars(self)["metrics"] = settings.ReadOnly(parts[0].metrics)
        terms = self.objective.terms(parts, weights, self._added)
        results = {term.name: term.value for term in terms}
        if self._building is not None:
            self._building.counted, self._building.results = terms[0].counted, results
            self._building.terms = terms
        return results

    def minimize(
        self, loss: Tensor, parameters: Sequence[Tensor] | None = None, optimizer: Optimizer | None = None
    ) -> None:
        """Add an optimizer's step to the training step. Call it in `training_step`.

        Args:
            loss: Tensor of rank 0.
            parameters: Variables to update. Defaults to all parameters of the model that are not frozen.
            optimizer: Optimizer to use, with its own state and learning rate. Defaults to the trainer's.

        Raises:
            GraphError: If the method is called outside `training_step`, called twice with the same optimizer, or called
                with nothing to train; or if the loss does not depend on one of the parameters.
        """
        if self._building is None:
            raise GraphError("Trainer.minimize can only be called in training_step, in which the step is built")
        g, optimizer = self.graph, optimizer or self.optimizer
        if any(made.optimizer is optimizer for made in self._building.minimized):
            raise GraphError(
                "Trainer.minimize: an optimizer can make only one update in a step, because it counts updates: pass "
                "another one, such as optimizer.with_options()"
            )
        self._adopt()
        optimizer.know_paths({v: path for path, v in self.network.named_variables().items()})
        free = [v for _, v in self.network.named_parameters() if not optimizer.freezes(v)]
        chosen = None if parameters is None else set(parameters)
        variables = [v for v in free if chosen is None or v in chosen]
        require_trainable(variables)
        if self.low_precision_weights is not None:
            for each in optimizer._innermost():
                each.low_precision_weights = self.low_precision_weights
        rate = self._rate_for(optimizer)
        scaling = self._scaling_of(optimizer)
        start = None if scaling is None else scaling.start(g)
        weighing = self._weighing(self._building)
        seed = start if weighing is None else weighing.seed(loss, start)
        gradients = g.gradients(loss, variables, start=seed, unconnected="error")
        if weighing is not None:
            gradients = in_order(gradients)
        made = Minimized(optimizer, rate, [], scale=start)
        emptying: list[Operation] = []
        whole = None
        if self.accumulation > 1:
            # The trainer's optimizer may be replaced while gradients are accumulated. Each call of `minimize` in a step
            # has its own sums and weight.
            key = None if optimizer is self.optimizer else optimizer, len(self._building.minimized)
            sums = self._sums.setdefault(key, GradientSums())
            weight, factor = self._weight_of(self._building, weighing)
            gradients, whole, made.accumulating, emptying = sums.add(g, gradients, weight, factor)
            emptying += sums.emptying(g, [v for v in sums.sums if v not in set(free)])
        if weighing is not None:
            gradients = weighing.summed(gradients)
        if whole is not None:
            gradients = {
                v: g.division_no_nan(d, whole if d.dtype == whole.dtype else g.cast(whole, d.dtype))
                for v, d in gradients.items()
            }
        elif weighing is not None:
            gradients = weighing.normalized(gradients)
        if scaling is None:
            made.updates = optimizer.updates(gradients, rate)
        else:
            made.updates = scaling.updates(gradients, rate, self._before)
            if made.accumulating:
                made.accumulating += self._restored(scaling, gradients)
        made.updates += emptying + self._averaging(variables)
        made.updates += self._averaging(self._frozen_averages(optimizer), begin=False)
        self._building.minimized.append(made)

    def _frozen_averages(self, optimizer: Optimizer) -> list[Tensor]:
        """Return, once for each build, the frozen parameters whose moving averages still approach the weights."""
        assert self._building is not None
        if not self._averages or self._building.averages_frozen:
            return []
        self._building.averages_frozen = True
        freeze = {self.optimizer, optimizer}
        trained = {v for _, v in self.network.named_parameters() if not all(each.freezes(v) for each in freeze)}
        return [v for v in self.network.named_variables().values() if v in self._averages and v not in trained]

    def _checkpointed(self) -> AbstractContextManager[None]:
        """Checkpoint the layers chosen by `checkpoint_layers` within a `with` block."""
        if not self.checkpoint_layers or not isinstance(self.model, Module):
            return nullcontext()
        return checkpointed_layers(self.model, self.checkpoint_layers)

    # --- building -----------------------------------------------------------------------------------------------------

    def _weighing(self, built: Built) -> Weighing | None:
        """Create the object that adds a step's communication with other processes; None if not distributed."""
        if self._partnership is None:
            return None
        counted = built.counted if isinstance(built.labels, Tensor) else None
        pair = None if counted is None else (counted, built.labels)
        name = f"optimizer {len(built.weighings)}" if built.weighings else "optimizer"
        # Results that count something other than what the loss counts are weighted separately, by samples.
        alike = {term.name for term in built.terms if term.counted is built.counted}
        results = {} if built.weighings else {name: built.results[name] for name in built.results if name in alike}
        made = self._weighing_named(built, name, pair, results, self.network.buffers())
        built.weighings.append(made)
        return made

    def _weighing_named(
        self, built: Built, name: str, counted: Any, results: dict[str, Tensor], buffers: list[Tensor]
    ) -> Weighing:
        assert self._partnership is not None
        wide = float64 if self.dtype == float64 else float32
        samples = leaves(built.inputs)[0]
        return self._partnership.weighing(self.graph, name, samples, wide, counted, results, buffers)

    def _weight_of(self, built: Built, weighing: Weighing | None) -> tuple[Tensor, Tensor | float]:
        """Return a batch's weight in an accumulation, over all processes, and the factor for the batch's gradients.

        The weight is the number of samples times the fraction of labels that count. In distributed training, gradients
        are already multiplied by the weight relative to the reference number of samples, so the factor is that number;
        otherwise, the factor is the weight.
        """
        if weighing is not None:
            assert self._partnership is not None
            reference = float(self._partnership.reference_samples)
            return weighing.total_weight() * reference, reference
        counted = None
        if built.counted is not None and isinstance(built.labels, Tensor):
            counted = built.counted, built.labels
        wide = float64 if self.dtype == float64 else float32
        weight = weight_of_batch(self.graph, leaves(built.inputs)[0], wide, 1, counted)
        return weight, weight

    def _means(self, built: Built, reported: dict[str, Tensor]) -> dict[str, Tensor]:
        """Replace the results of a step by their means, and their counts by the sums, over all processes."""
        known = {number for weighing in built.weighings for number in weighing.averages}
        rest = {name: value for name, value in reported.items() if id(value) not in known}
        if rest:
            made = self._weighing_named(built, "reported", None, rest, [])
            made.hear()
            built.weighings.append(made)
        means = {number: (mean, w) for w in built.weighings for number, mean in w.averages.items()}
        built.counts = {name: means[id(value)][1].total_weight() for name, value in reported.items()}
        built.shares = {}
        return {name: means[id(value)][0] for name, value in reported.items()}

    @property
    def _scales(self) -> bool:
        return self.precision == "float16"

    def _scaling_of(self, optimizer: Optimizer) -> LossScaling | None:
        if not self._scales:
            return None
        if optimizer not in self._scalings:
            own = optimizer if isinstance(optimizer, LossScaling) else LossScaling(optimizer)
            self._scalings[optimizer] = own
        return self._scalings[optimizer]

    def _restored(self, scaling: LossScaling, gradients: Mapping[Tensor, Tensor]) -> list[Operation]:
        """Return operations that restore the buffers' values from before the step if any gradient has overflowed.

        They run in steps that only accumulate gradients.
        """
        g = self.graph
        finite = g.equal(scaling.not_finite(gradients), 0.0)
        return [g.assign(buffer, g.select(finite, g.read(buffer), old)) for buffer, old in self._before.items()]

    def _rate_for(self, optimizer: Optimizer) -> Tensor:
        """Return the placeholder of an optimizer's learning rates: a scalar, or a vector with one rate per parameter
        group.
        """
        count = len(optimizer.rates())
        if (optimizer, count) not in self._rate_of:
            wide = any(v.dtype == float64 for _, v in self.network.named_parameters())
            shape, dtype = () if count == 1 else (count,), float64 if wide else float32
            self._rate_of[optimizer, count] = self.graph.placeholder(shape, dtype, "learning_rate")
        return self._rate_of[optimizer, count]

    def _averaging(self, variables: list[Tensor], begin: bool = True) -> list[Operation]:
        """Return the operations that update the moving averages of the weights, which are float32 or wider.

        An average is the lowest finite number of its dtype until its weight is first updated, and then begins with the
        updated weight. Marking each average with this number costs less than additional variables that record which
        averages have begun.
        """
        if self.ema_decay is None:
            return []
        g, made = self.graph, []
        for v in variables:
            dtype = float32 if v.dtype.itemsize == 2 else v.dtype
            unset = unset_average(dtype.numpy)
            if v not in self._averages:
                nothing = ConstantData.splat(unset, v.shape or (), dtype)
                self._averages[v] = g.variable(nothing, None, f"{v.name}/average", trainable=False)
            average, new = g.read(self._averages[v]), g.read(v)
            new = new if new.dtype == dtype else g.cast(new, dtype)
            begins = g.equal(average, unset)
            # The average of a frozen weight begins only when the weight is updated.
            moved = g.select(begins, new if begin else average, toward(average, new, self.ema_decay))
            made.append(g.assign(self._averages[v], moved))
        return made

    def _adopt(self) -> None:
        if isinstance(self.model, Module):
            adopt(self.model, self.graph)

    def _take(self, batch: Batch) -> bool:
        """Extend the recorded structures, dtypes, and shapes of batches so that they include a batch.

        Return True if a fixed axis size became variable, which requires rebuilding all operations. Raise an error and
        leave the records unchanged if the batch is not compatible with earlier ones.
        """
        require_dtype(batch.inputs, self.dtype)
        widened = False
        for what, structure in zip(("inputs", "labels", "weights"), batch.parts, strict=True):
            if structure is None:
                continue
            if what not in self._forms:
                self._forms[what] = Form(what, structure)
            else:
                widened = self._forms[what].widen(structure) or widened
        return widened

    def _inputs_for(self, inputs: Any) -> Any:
        """Return placeholders for a batch's inputs. Raise DTypeError if the model does not accept its dtypes."""
        if self._take(Batch(inputs)):
            self._forget()
        if self._inputs is None:
            own = self.network.placeholders(inputs)
            self._inputs = self._forms["inputs"].placeholders(self.graph) if own is None else own
        return self._inputs

    def _prediction_inputs_for(self, inputs: Any) -> Any:
        """Return placeholders for the inputs of predictions.

        With a custom step, the inputs of the model may differ from those of the batches, so their structure and dtypes
        are recorded separately. Raises the same errors as _inputs_for.
        """
        if not self._has_own_step:
            self._prediction_inputs = self._inputs_for(inputs)
            return self._prediction_inputs
        require_dtype(inputs, self.dtype)
        if "predictions" not in self._forms:
            self._forms["predictions"] = Form("inputs", inputs)
        elif self._forms["predictions"].widen(inputs):
            self._prediction_inputs = None
        if self._prediction_inputs is None:
            self._prediction_inputs = self._forms["predictions"].placeholders(self.graph)
        return self._prediction_inputs

    @property
    def _has_own_step(self) -> bool:
        return type(self).training_step is not TrainingGraph.training_step

    @contextmanager
    def _undone_by_errors(self) -> Iterator[None]:
        """Within a `with` block, restore the recorded batch structures and the built operations if an error occurs."""
        shapes = {name: form.shapes for name, form in self._forms.items()}
        before = self._inputs, self._prediction, self._last_step, dict(self._builts), list(self._specs)
        predicted, kept = (self._prediction_of, self._prediction_inputs), self._kept
        try:
            yield
        except BaseException:
            self._kept = kept
            self._forms = {name: self._forms[name] for name in shapes}
            for name, known in shapes.items():
                self._forms[name].shapes = known
            self._inputs, self._prediction, self._last_step, self._builts, self._specs = before
            self._prediction_of, self._prediction_inputs = predicted
            raise

    def _forget(self) -> None:
        """Discard the built operations because an axis size became variable. They are built again with the same
        variables.
        """
        self._inputs = self._prediction = self._prediction_inputs = self._last_step = None
        self._builts, self._kept = {}, []

    def _built_for(self, batch: Batch, training: bool = True) -> Built:
        """Return the operations for a batch, building them at first use. Raise DTypeError if a dtype is wrong."""
        if self._take(batch):
            self._forget()
        key = batch.labels is not None, batch.weights is not None
        if key not in self._builts:
            self._builts[key] = self._build(batch)
        return self._builts[key]

    def _build(self, batch: Batch) -> Built:
        """Build the training step and, unless it is custom, its evaluation, which uses the same variables.

        In distributed training, check that all processes build the same step.
        """
        if self._partnership is None:
            return self._build_here(batch)
        facts = {
            "seed": self.seed,
            "model": type(self.model).__name__,
            "optimizer": type(self.optimizer).__name__,
            "precision": self.precision,
            "dtype": self.dtype,
            "gradient_accumulation_steps": self.accumulation,
            "ema_decay": self.ema_decay,
            "distributed options": self._partnership.options,
        }
        with self._partnership.building(facts, len(batch), self._shared_variables):
            return self._build_here(batch)

    def _shared_variables(self) -> tuple[Graph, Any, dict[str, Tensor], list[Tensor]]:
        """Return the graph, its device, the variables that steps use (keyed by name), and the set of random states."""
        return self.graph, self.device, variables_of(self), self._random_states

    def _build_here(self, batch: Batch) -> Built:
        start = self.graph.operation_count
        if self._measures:
            if not isinstance(batch.inputs, np.ndarray) or not callable(self.loss):
                raise GraphError(
                    "Trainer: precision='auto' supports only models with one input array and one loss: pass another "
                    "precision, such as 'float32'"
                )
            self._prediction = None  # Predictions built before labels were known used float32.
            task = Task(self.model, self.loss, self.seed, self.device, self.precision_error)  # type: ignore[arg-type]
            self._take_choices(choose(task, batch.inputs, batch.labels))
        g, inputs = self.graph, self._inputs_for(batch.inputs)
        given = dict(zip(("labels", "weights"), batch.parts[1:], strict=True))
        kept = {name: self._forms[name].placeholders(g) for name, part in given.items() if part is not None}
        built = Built(inputs, kept.get("labels"), kept.get("weights"))
        self._building, states = built, len(g._own_states)
        g._repeated_states = list(self._random_states)
        if isinstance(self.model, Module) and not is_built(self.model):
            self.model._name_children()
        try:
            with building(), self._checkpointed():
                reported = dict(self.training_step(built.inputs, built.labels, built.weights))
        finally:
            self._building, g._repeated_states = None, []
        self._random_states += g._own_states[states:]
        if not built.minimized:
            raise GraphError(f"{type(self).__name__}.training_step minimized nothing: call self.minimize(loss) in it")
        for name, value in reported.items():
            if not isinstance(value, Tensor) or value.shape not in ((), None):
                got = f"shape {value.shape}" if isinstance(value, Tensor) else shown(value)
                raise GraphError(f"training_step: result '{name}' must be a tensor of rank 0, got {got}")
        own = {id(term.value): term for term in built.terms}
        terms = {name: own[id(value)] for name, value in reported.items() if id(value) in own}
        built.counts = {name: term.counted for name, term in terms.items() if term.counted is not None}
        built.shares = shares_of([term for name, term in terms.items() if name == term.name])
        if self._partnership is not None:
            reported = self._means(built, reported)
        first = built.minimized[0]
        if first.scale is not None:
            reported["loss_scale"] = first.scale
            if self.accumulation == 1:
                reported["skipped"] = self._scalings[first.optimizer].skipped
        built.names, built.targets = list(reported), list(reported.values())
        built.outputs = [p.output for p in built.parts if p.accumulated]
        if not self._has_own_step:
            evaluation.build(self, built)
        fed = ("inputs", *kept)
        built.described = {name: form.described() for name, form in self._forms.items() if name in fed}
        self._specs.append(built.described)
        settings.remember(self, start)
        return built

    def _build_again(self, described: Mapping[str, Any]) -> None:
        """Build the step for batches of a described form, as stored in `Built.described` and in checkpoints."""
        batch = Batch(*(example_of(described.get(what)) for what in ("inputs", "labels", "weights")))
        if self._take(batch):
            self._forget()
        for what, form in described.items():
            shapes = [tuple(shape) for shape in form["shapes"]]
            if self._forms[what].shapes != shapes:
                self._forms[what].shapes = shapes
                self._forget()
        self._builts[batch.labels is not None, batch.weights is not None] = self._build(batch)

    def _follow_settings(self) -> None:
        """Build the operations again if a setting, such as a dropout rate, has changed since they were built."""
        known = self._settings
        if known is not None and (changes.latest != self._changes_seen or known.altered_in_place()):
            settings.follow(self)

    def _restore_dormant(self) -> None:
        """Set variables that have just come into use to the values stored in a loaded checkpoint."""
        if not self._dormant:
            return
        self.wait()
        self._drop_stale_sums()
        used = {}
        for name, variable in variables_of(self).items():
            value = self._dormant.get(name)
            if value is not None and value.shape == tuple(variable.shape or ()):
                used[variable] = self._dormant.pop(name)
        self.graph.set_variables(used, device=self.device)

    def _drop_stale_sums(self) -> None:
        """Drop the gradient sums of frozen layers in a loaded checkpoint if an update has been made since."""
        if self._updates_made() != self._dormant_updates:
            self._dormant = {name: value for name, value in self._dormant.items() if SUM not in name}

    def _frozen_sums(self) -> set[Tensor]:
        """Return the gradient sums of parameters that have been frozen since gradients were accumulated."""
        trained = [v for _, v in self.network.named_parameters()]
        frozen = set[Tensor]()
        for (optimizer, _), sums in self._sums.items():
            free = {v for v in trained if not (optimizer or self.optimizer).freezes(v)}
            frozen |= {total for v, total in sums.sums.items() if v not in free}
        return frozen

    def _trained_averages(self) -> list[Tensor]:
        """Return the moving averages of parameters that are not frozen."""
        trained = (v for _, v in self.network.named_parameters() if not self.optimizer.freezes(v))
        return [self._averages[v] for v in trained if v in self._averages]

    def _forget_averages(self) -> None:
        """Forget the moving averages, so that they start again when they are next used."""
        self._averages, self._kept = {}, []

    def wait(self) -> None:
        """Wait for all steps that have been started."""

    def _updates_made(self) -> int:
        """Return the number of updates made so far; defined by subclasses."""
        raise NotImplementedError

    def _inference(self, inputs: Any) -> Any:
        if self._prediction is None or self._prediction_of is not inputs:
            start = self.graph.operation_count
            outputs, added = self.network.outputs(inputs, False, self.precision, self.precision_choices)
            self._prediction, self._prediction_losses, self._prediction_of = outputs, added, inputs
            if self._building is None:
                settings.remember(self, start)
        self._added = self._prediction_losses
        return self._prediction

    def _take_choices(self, choices: dict[str, LayerPrecision]) -> None:
        """Use the given layer precisions from now on. Raise GraphError if a path does not name a module."""
        paths = [path for path, _ in self.model.named_modules()] if isinstance(self.model, Module) else []
        unknown = choices.keys() - set(paths)
        if unknown:
            raise GraphError(
                f"Trainer: precision names layers that the model does not have: {sorted(unknown)}; the model has "
                f"the layers {paths}"
            )
        vars(self)["precision_choices"], self._measures = choices, False
