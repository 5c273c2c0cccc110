"""StepBuilder: builds and compiles the operations of a trainer, and builds them again when settings or forms change.

The builder reads the trainer's settings and its state, and changes neither its values nor its counters. If building
fails, the program that was built before stays in use.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from .._core import CompilationDescriptor, Device, DeviceGraph, Executable, Operation, Tensor, float32
from .._display import shown
from .._tracking import Snapshot, building, changes
from ..errors import DTypeError, GraphError
from ..graph import Graph
from ..model import Model
from ..nn.checkpointing import checkpointed_layers
from ..nn.module import Module
from ..nn.parts import built_graph, is_built, name_children
from ..ops.random import repeated_random_states
from ..optim import Optimizer
from ..optim.schedules import as_rate
from ..precision.layer_precision import LayerPrecision, Task, choose
from .batch import Batch, as_before, checked_batch, is_wide
from .changed_settings import ChangedSettings, PreviousProgram, signature_of, variables_of
from .engine import Prepared, Runner
from .evaluation import key_of_metrics
from .forms import Form, example_of, require_dtype
from .network import Network
from .objective import Objective, Part, Term, shares_of
from .program import LastStep, Program
from .settings import Settings
from .sizes import Sizes
from .state import TrainingState
from .step import Built
from .structure import leaves, mapped, named_leaves
from .updates import StepUpdates

_PREDICTORS = 32
"""Number of shapes of single arrays whose predictions skip all checks."""


class StepBuilder:
    """Builds and compiles the operations of a trainer.

    Args:
        settings: The trainer, which the builder does not keep alive.
        state: The state that steps change.
        network: The model.
        custom: Whether the trainer has its own training_step.
        engine: Runner of an engine, or None for the state's device.
        measures: Whether the precision of each layer still has to be measured.
    """

    def __init__(
        self,
        settings: Settings,
        state: TrainingState,
        network: Network,
        *,
        custom: bool,
        engine: Runner | None,
        measures: bool,
    ) -> None:
        self._settings = weakref.ref(settings)
        self.state, self.network, self.custom, self.engine, self.measures = state, network, custom, engine, measures
        self.forms: dict[str, Form] = {}
        """Forms of the batches so far."""
        self.specs: list[dict[str, Any]] = []
        """Descriptions of the forms that were built, in order, for checkpoints."""
        self.program = Program()
        self.changed = ChangedSettings()
        self.sizes = Sizes()
        self._updates: StepUpdates | None = None  # While a step is being built.
        self._added: list[Tensor] = []  # Losses that modules added to the latest outputs.
        self._buffers_before: dict[Tensor, Tensor] = {}
        self._warned_of_dtype = False

    @property
    def settings(self) -> Settings:
        """The trainer's settings."""
        settings = self._settings()
        assert settings is not None
        return settings

    @property
    def graph(self) -> Graph:
        """The graph in which the operations are built."""
        return self.state.graph

    @property
    def last_built(self) -> Built | None:
        """The operations of the last step, or those built last."""
        return self.program.last_built

    def all_built(self) -> list[Built]:
        """Return the operations built for the different forms of batches."""
        return list(self.program.steps.values())

    # --- parts of a training step, for Trainer.training_step ----------------------------------------------------------

    def forward(self, inputs: Any) -> Any:
        """Return the outputs of the model in training mode; see Trainer.forward."""
        if self.settings.precision != "float16":
            return self._outputs(inputs)
        # Build in inference mode first: that creates the variables, whose values must be read before training changes
        # them.
        self.inference(inputs)
        while True:
            self._buffers_before = {buffer: self.graph.read(buffer) for buffer in self.network.buffers()}
            outputs = self._outputs(inputs)
            if set(self.network.buffers()) == self._buffers_before.keys():
                # If the buffers differ, a module that is only called in training has just been built: repeat to read
                # its buffers, too.
                return outputs

    def _outputs(self, inputs: Any) -> Any:
        """Return the outputs in training mode. Explain the fix in the DTypeError if a layer rejects integer inputs."""
        state, settings = self.state, self.settings
        together = nullcontext() if state.partnership is None else state.partnership.one_batch()
        try:
            with together:
                outputs, self._added = self.network.outputs(inputs, True, settings.precision, state.precision_choices)
        except DTypeError as error:
            whole = [tensor.dtype for tensor in leaves(inputs) if not tensor.dtype.is_float]
            if not whole:
                raise
            raise DTypeError(
                f"inputs are {whole[0]}, which the model's layers do not accept: convert them with "
                f"x.astype('{settings.dtype}'); {error}"
            ) from error
        return outputs

    def results(self, outputs: Any, labels: Any, weights: Any) -> dict[str, Tensor]:
        """Return the loss and metrics; see Trainer.results."""
        objective = self.settings.objective
        parts = objective.parts(outputs, labels)
        if len(parts) == 1 and not parts[0].name:
            self.program.metrics = parts[0].metrics
        terms = objective.terms(parts, weights, self._added)
        results = {term.name: term.value for term in terms}
        if self._updates is not None:
            built = self._updates.built
            built.parts, built.terms, built.counted, built.results = parts, terms, terms[0].counted, results
        return results

    def minimize(self, loss: Tensor, parameters: Sequence[Tensor] | None, optimizer: Optimizer | None) -> None:
        """Add an optimizer's update to the step; see Trainer.minimize."""
        if self._updates is None:
            raise GraphError("Trainer.minimize can only be called in training_step, in which the step is built")
        self._updates.minimize(loss, parameters, optimizer, self._buffers_before)

    # --- steps --------------------------------------------------------------------------------------------------------

    def step_for(
        self, shapes: tuple[Any, ...], x: Any, y: Any, weights: Any, check_finite: bool
    ) -> tuple[Executable | Prepared, Built]:
        """Return the executable of a step for the shapes of a batch, and the operations built for the step.

        If the shapes equal those of the last step, its executable is reused directly; otherwise the graph's cache is
        searched for one. This function runs in every step, so it reads attributes instead of calling properties.
        """
        state, changed = self.state, self.changed
        known, every = changed.known, state.accumulation
        if known is not None and (changes.latest != changed.seen or known.altered_in_place()):
            self.follow_settings()
        applying = every == 1 or (state.steps.made + 1) % every == 0
        key = shapes, state.device, applying, check_finite
        last = self.program.last_step
        if last is None or last[0] != key:
            self.sizes.notice(shapes, self.runner())
            batch = checked_batch(x, y, weights)
            with self.undone_by_errors():
                built, arrays = self.built_for(batch), batch.arrays()
                feeds = {m.rate: (m.rate.dtype, tuple(m.rate.shape or ())) for m in built.minimized}
                feeds |= {t: (t.dtype, a.shape) for t, a in zip(built.placeholders, arrays, strict=True)}
                last = LastStep(key, self._compiled(feeds, built, applying, check_finite), built)
                self.program.last_step = last
        return last[1], last[2]

    def steps_for(self, batch: Batch) -> list[tuple[Any, Built]]:
        """Return the executables of the steps for a batch: with gradient accumulation, with and without an update."""
        steps, every, found = self.state.steps, self.state.accumulation, []
        made = steps.made
        try:
            for number in {made, made - made % every + every - 1}:
                steps.made = number
                executable, built = self.step_for(batch.shapes(), *batch.parts, self.settings.check_finite)
                found.append((executable, built))
        finally:
            steps.made = made
        return found

    def _compiled(self, feeds: dict[Tensor, Any], built: Built, applying: bool, finite: bool) -> Executable | Prepared:
        targets, operations = built.fetched, built.operations(applying)
        if self.engine is not None:
            return self.engine.compile(feeds, targets, operations, built.placeholders)
        partnership = self.state.partnership
        callables = {} if partnership is None else partnership.callables
        options = CompilationDescriptor(callables=callables, check_finite=finite) if finite or callables else None
        return self.graph.on(self.state.device).compile(feeds, targets, operations, options)

    def runner(self) -> DeviceGraph | Runner:
        """Return the object that runs the graph on the state's device or on the engine."""
        return self.graph.on(self.state.device) if self.engine is None else self.engine

    def rates(self, built: Built) -> list[np.ndarray]:
        """Return the learning rates to feed to the next step.

        Changed rates are stored in a new array, because earlier steps may still read the old one.
        """
        state, program = self.state, self.program
        update = state.steps.made // state.accumulation
        rates = [rate(update) for m in built.minimized for rate in m.optimizer.rates()]
        if program.rates is None or program.rates[0] != rates:
            for rate in rates:
                as_rate(f"the schedule's rate for step {update}", rate)
            groups, rest = [], iter(rates)
            for m in built.minimized:
                own = np.array([next(rest) for _ in m.optimizer.rates()], m.rate.dtype.numpy)
                groups.append(own if m.rate.shape else own.reshape(()))
            program.rates = rates, groups
        return program.rates[1]

    def optimizers(self) -> list[Optimizer]:
        """Return the trainer's optimizer, followed by the other optimizers that the trainer's steps use."""
        used = [m.optimizer for built in self.program.steps.values() for m in built.minimized]
        return list({id(each): each for each in [self.settings.optimizer, *used]}.values())

    # --- batches ------------------------------------------------------------------------------------------------------

    def converted(self, batch: Batch) -> Batch:
        """Return the batch with float64 inputs converted to the trainer's dtype, with a warning the first time.

        Labels of another width than those of earlier batches, such as lists after arrays, are converted to their dtype.
        """
        form = self.forms.get("labels")
        if form is not None and batch.labels is not None:
            before = iter(form.dtypes)
            labels = mapped(lambda array: as_before(array, next(before, None)), batch.labels)
            batch = Batch(batch.inputs, labels, batch.weights)
        if self.settings.dtype != float32 or not any(is_wide(array) for array in leaves(batch.inputs)):
            return batch
        if not self._warned_of_dtype:
            self._warned_of_dtype = True
            warnings.warn(
                "inputs are float64, and are converted to the trainer's dtype, float32: convert them once with "
                "x.astype(np.float32), or create the trainer with dtype='float64'",
                stacklevel=4,
            )
        inputs = mapped(lambda array: array.astype(np.float32) if is_wide(array) else array, batch.inputs)
        return Batch(inputs, batch.labels, batch.weights)

    def _take(self, batch: Batch) -> None:
        """Extend the recorded forms so that they include a batch, and discard the program if an axis lost its fixed
        size. Raise an error and leave the records unchanged if the batch is not compatible with earlier ones.
        """
        require_dtype(batch.inputs, self.settings.dtype)
        widened = False
        for what, structure in zip(("inputs", "labels", "weights"), batch.parts, strict=True):
            if structure is None:
                continue
            if what not in self.forms:
                self.forms[what] = Form(what, structure)
            else:
                widened = self.forms[what].widen(structure) or widened
        if widened:
            self._discard()

    def _discard(self) -> None:
        """Discard the built operations because an axis size became variable. They are built again with the same
        variables.
        """
        self.program = Program(metrics=self.program.metrics, rates=self.program.rates)
        self.changed.previous = []

    @contextmanager
    def undone_by_errors(self) -> Iterator[None]:
        """Within a `with` block, restore the recorded forms and the built operations if an error occurs."""
        shapes = {name: form.shapes for name, form in self.forms.items()}
        before = replace(self.program, steps=dict(self.program.steps))
        specs, previous = list(self.specs), self.changed.previous
        try:
            yield
        except BaseException:
            self.forms = {name: self.forms[name] for name in shapes}
            for name, known in shapes.items():
                self.forms[name].shapes = known
            self.program, self.specs, self.changed.previous = before, specs, previous
            raise

    # --- building -----------------------------------------------------------------------------------------------------

    def built_for(self, batch: Batch) -> Built:
        """Return the operations for a batch, building them at first use. Raise DTypeError if a dtype is wrong."""
        self._take(batch)
        key = batch.labels is not None, batch.weights is not None
        if key not in self.program.steps:
            self.program.steps[key] = self._build(batch)
        return self.program.steps[key]

    def build_again(self, described: Mapping[str, Any]) -> None:
        """Build the step for batches of a described form, as stored in `Built.described` and in checkpoints."""
        batch = Batch(*(example_of(described.get(what)) for what in ("inputs", "labels", "weights")))
        self._take(batch)
        for what, form in described.items():
            shapes = [tuple(shape) for shape in form["shapes"]]
            if self.forms[what].shapes != shapes:
                self.forms[what].shapes = shapes
                self._discard()
        self.program.steps[batch.labels is not None, batch.weights is not None] = self._build(batch)

    def _build(self, batch: Batch) -> Built:
        """Build the training step and, unless it is custom, its evaluation, which uses the same variables.

        In distributed training, check that all processes build the same step.
        """
        state, settings = self.state, self.settings
        if state.partnership is None:
            return self._build_here(batch)
        facts = {
            "seed": state.seed,
            "model": type(settings.model).__name__,
            "optimizer": type(settings.optimizer).__name__,
            "precision": settings.precision,
            "dtype": settings.dtype,
            "gradient_accumulation_steps": state.accumulation,
            "ema_decay": settings.ema_decay,
            "distributed options": state.partnership.options,
        }
        with state.partnership.building(facts, len(batch), state):
            return self._build_here(batch)

    def _build_here(self, batch: Batch) -> Built:
        g, state = self.graph, self.state
        start = g.operation_count
        if self.measures:
            self._measure(batch)
        inputs = self._inputs_for(batch.inputs)
        given = dict(zip(("labels", "weights"), batch.parts[1:], strict=True))
        own = {name: self.forms[name].placeholders(g) for name, part in given.items() if part is not None}
        built = Built(inputs, own.get("labels"), own.get("weights"))
        reported = self._reported(built)
        first = built.minimized[0]
        if first.scale is not None:
            reported["loss_scale"] = first.scale
            if state.accumulation == 1:
                reported["skipped"] = state.scalings[first.optimizer].skipped
        built.names, built.targets = list(reported), list(reported.values())
        built.outputs = [p.output for p in built.parts if p.accumulated]
        if not self.custom:
            self._build_evaluation(built)
        fed = ("inputs", *own)
        built.described = {name: form.described() for name, form in self.forms.items() if name in fed}
        self.specs.append(built.described)
        self._record(start)
        return built

    def _reported(self, built: Built) -> dict[str, Tensor]:
        """Call training_step, which fills `built`, and return the results that it reports."""
        g, state, settings = self.graph, self.state, self.settings
        name = type(settings).__name__
        model, layers = settings.model, settings.checkpoint_layers
        self._updates = updates = StepUpdates(settings, state, self.network, built)
        if isinstance(model, Module) and not is_built(model):
            name_children(model)
        checkpointed = checkpointed_layers(model, layers) if layers and isinstance(model, Module) else nullcontext()
        try:
            with building(), checkpointed, repeated_random_states(g, state.random_states):
                reported = dict(settings.training_step(built.inputs, built.labels, built.weights))
        finally:
            self._updates = None
        if not built.minimized:
            raise GraphError(f"{name}.training_step minimized nothing: call self.minimize(loss) in it")
        for result, value in reported.items():
            if not isinstance(value, Tensor) or value.shape not in ((), None):
                got = f"shape {value.shape}" if isinstance(value, Tensor) else shown(value)
                raise GraphError(f"training_step: result '{result}' must be a tensor of rank 0, got {got}")
        own = {id(term.value): term for term in built.terms}
        terms = {result: own[id(value)] for result, value in reported.items() if id(value) in own}
        built.counts = {result: term.counted for result, term in terms.items() if term.counted is not None}
        built.shares = shares_of([term for result, term in terms.items() if result == term.name])
        return updates.means(reported)

    def _measure(self, batch: Batch) -> None:
        """Choose the precision of each layer by measurement."""
        settings, loss = self.settings, self.settings.objective.loss
        if not isinstance(batch.inputs, np.ndarray) or not callable(loss) or not isinstance(settings.model, Module):
            raise GraphError(
                "Trainer: precision='auto' supports only models with one input array and one loss: pass another "
                "precision, such as 'float32'"
            )
        self.program.prediction = None  # Predictions built before labels were known used float32.
        task = Task(settings.model, loss, self.state.seed, self.state.device, settings.precision_error)
        self.take_choices(choose(task, batch.inputs, batch.labels))

    def take_choices(self, choices: dict[str, LayerPrecision]) -> None:
        """Use the given layer precisions from now on. Raise GraphError if a path does not name a module."""
        model = self.settings.model
        paths = [path for path, _ in model.named_modules()] if isinstance(model, Module) else []
        if unknown := choices.keys() - set(paths):
            raise GraphError(
                f"Trainer: precision names layers that the model does not have: {sorted(unknown)}; the model has "
                f"the layers {paths}"
            )
        self.state.precision_choices, self.measures = choices, False

    def _record(self, start: int) -> None:
        """Record the settings, and the variables used by the operations that were built since operation `start`."""
        if self.state.used is not None:
            self.state.used = self.state.used | variables_of(self._operations_since(start))
        self.changed.record(self.settings, self.optimizers(), self.graph)

    def _operations_since(self, start: int) -> list[Operation]:
        return [operation for operation in self.graph.operations if operation.id >= start]

    # --- evaluation and prediction ------------------------------------------------------------------------------------

    def evaluation_of(self, built: Built, objective: Objective | None = None) -> tuple[list[Term], list[Part]]:
        """Return the losses and metrics of a step in inference mode, building them on the first request.

        Args:
            built: The step.
            objective: Losses and metrics to use instead of the trainer's.
        """
        if objective is None:
            if not built.evaluation:
                self._build_evaluation(built)
            return built.evaluation, built.evaluated
        parts = objective.parts(self.inference(built.inputs), built.labels)
        key = key_of_metrics(parts)
        for known, terms in built.others:
            if known == key:
                return terms, parts
        terms = objective.terms(parts, built.weights, self._added)
        built.others.append((key, terms))
        return terms, parts

    def _build_evaluation(self, built: Built) -> None:
        objective = self.settings.objective
        built.evaluated = objective.parts(self.inference(built.inputs), built.labels)
        built.evaluation = objective.terms(built.evaluated, built.weights, self._added)

    def _inputs_for(self, inputs: Any) -> Any:
        """Return placeholders for a batch's inputs. Raise DTypeError if the model does not accept its dtypes."""
        self._take(Batch(inputs))
        if self.program.inputs is None:
            own = self.network.placeholders(inputs)
            self.program.inputs = self.forms["inputs"].placeholders(self.graph) if own is None else own
        return self.program.inputs

    def prediction_inputs_for(self, inputs: Any) -> Any:
        """Return placeholders for the inputs of predictions.

        With a custom step, the inputs of the model may differ from those of the batches, so their structure and dtypes
        are recorded separately. Raises the same errors as _inputs_for.
        """
        if not self.custom:
            placeholders = self._inputs_for(inputs)
            self.program.prediction_inputs = placeholders
            return placeholders
        require_dtype(inputs, self.settings.dtype)
        if "predictions" not in self.forms:
            self.forms["predictions"] = Form("inputs", inputs)
        elif self.forms["predictions"].widen(inputs):
            self.program.prediction_inputs = None
        if self.program.prediction_inputs is None:
            self.program.prediction_inputs = self.forms["predictions"].placeholders(self.graph)
        return self.program.prediction_inputs

    def inference(self, inputs: Any) -> Any:
        """Return the outputs of the model in inference mode."""
        program = self.program
        if program.prediction is None or program.prediction_of is not inputs:
            start, settings = self.graph.operation_count, self.settings
            choices = self.state.precision_choices
            outputs, added = self.network.outputs(inputs, False, settings.precision, choices)
            program.prediction, program.prediction_losses, program.prediction_of = outputs, added, inputs
            if self._updates is None:
                self._record(start)
        self._added = program.prediction_losses
        return program.prediction

    def predictor(self, inputs: np.ndarray, batch_size: int) -> Executable | None:
        """Return the executable for a single array of inputs if one is known and all settings are unchanged."""
        program = self.program
        known = program.predictors.get((inputs.shape, inputs.dtype, batch_size))
        if known is None or known[0] is not program.prediction:
            return None
        return None if self.changed.known is None or self.changed.may_have_changed else known[1]

    def remember_predictor(self, inputs: np.ndarray, placeholder: Tensor, output: Tensor, batch_size: int) -> None:
        """Keep the executable for a single array of inputs."""
        if self.engine is not None or self.state.average_blocks > 0 or len(inputs) > batch_size:
            return
        predictors = self.program.predictors
        if len(predictors) >= _PREDICTORS:
            predictors.clear()
        feeds = {placeholder: (placeholder.dtype, tuple(inputs.shape))}
        executable = self.graph.on(self.state.device).compile(feeds, [output], [])
        predictors[inputs.shape, inputs.dtype, batch_size] = output, executable

    def model(self) -> Model:
        """Return the graph with its inputs and outputs for predictions, each with a name.

        A single input is named "inputs" and a single output "outputs".
        """
        program = self.program
        if program.inputs is None and program.prediction_inputs is None:
            raise GraphError("Trainer: there is no model yet: train, evaluate or predict first")
        self.state.steps.wait()
        self.follow_settings()
        inputs = self.program.inputs if self.program.prediction_inputs is None else self.program.prediction_inputs
        outputs = self.inference(inputs)

        def named(structure: Any, alone: str) -> dict[str, Tensor]:
            return {path or alone: tensor for path, tensor in named_leaves(structure)}

        return Model(self.graph, named(inputs, "inputs"), named(outputs, "outputs"))

    def require_model(self) -> None:
        """Raise GraphError if the module has been built in another graph since the trainer used it."""
        model = self.settings.model
        if isinstance(model, Module) and is_built(model) and built_graph(model) is not self.graph:
            raise GraphError(
                "the model has been built in a graph that is not this trainer's: create a new Trainer for it"
            )

    # --- changed settings ---------------------------------------------------------------------------------------------

    def follow_settings(self) -> None:
        """Build the operations again if a setting, such as a dropout rate, has changed since they were built."""
        if not self.changed.may_have_changed:
            return
        before = self.changed.known
        assert before is not None
        now, changed, latest = self.changed.compare(self.settings, self.optimizers(), self.graph)
        if changed:
            self._change(before, now, changed)
        else:
            self.changed.known = now
        self.changed.compared(latest)

    def _change(self, before: Snapshot, now: Snapshot, changed: set[tuple[int, str]]) -> None:
        watch, state = self.changed, self.state
        if state.used is None:
            state.used = set(self.graph.variables)
        old = PreviousProgram(self.program, before, watch.signature, state.used, len(state.averages))
        previous = watch.take_previous(now, len(state.averages))
        if previous is not None:
            watch.keep(old)
            self._put_back(previous)
            watch.known = now
            return
        start = self.graph.operation_count
        self.rebuild()
        operations = self._operations_since(start)
        signature = signature_of(operations) if self.program.steps else None
        if signature is not None and signature == old.signature:
            # The operations do not depend on the changed attribute, which may be a list that the program appends to.
            self._put_back(old)
            watch.ignore(changed, (before, now))
            watch.known = watch.snapshot(self.settings, self.optimizers())
            return
        watch.count_all_settings()
        watch.signature = signature
        state.used = variables_of(operations) if self.program.steps else None
        watch.keep(old)
        watch.known = watch.snapshot(self.settings, self.optimizers())
        state.claim()
        watch.rebuilt(now.names(changed))

    def rebuild(self) -> None:
        """Build all operations again with the same variables, and keep the current ones if that fails."""
        specs, previous = list(self.specs), list(self.changed.previous)
        described = [built.described for built in self.program.steps.values()]
        with self.undone_by_errors():
            self.program, self.changed.previous = Program(metrics=self.program.metrics), []
            model = self.settings.model
            if isinstance(model, Module):
                name_children(model)
            for each in described:
                self.build_again(each)
        # Loading a checkpoint builds each form once, whatever the settings were.
        self.specs, self.changed.previous = specs, previous

    def _put_back(self, previous: PreviousProgram) -> None:
        self.program, self.changed.signature, self.state.used = previous.program, previous.signature, previous.used

    def forget_averages(self) -> None:
        """Forget the moving averages, so that they start again when they are next used."""
        self.state.averages, self.changed.previous = {}, []

    def move_to(self, device: Device | str | None) -> None:
        """Copy the values of the state's variables to another device, on which the next steps run."""
        new, old = self.graph.on(device), self.graph.on(self.state.device)
        if new.device.name == old.device.name:
            return
        if self.engine is not None or self.state.partnership is not None:
            raise GraphError("Trainer.device cannot be changed with an engine or in distributed training")
        self.state.steps.wait()
        if self.changed.known is not None:
            self.state.move_to(device)
        self.program.last_step, self.program.predictors = None, {}
