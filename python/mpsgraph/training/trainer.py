"""Trainer: trains a model in one graph that holds its training step, evaluation and prediction.

The first batch fixes structure and element types and builds everything; other sizes are further executables. Steps run
behind the caller: at most two are in flight, and a third waits for the first, so the next batch is prepared while the
last one is computed. `fit` copies arrays that their source may fill anew meanwhile. What `train_step` is given must
stay unchanged until the step is done (`result.wait()`, or two steps later); the trainer holds references to it so long.

What a step is stands in `step.py`, what it minimises in `objective.py`, the loop in `fitting.py`, what is saved in
`saved.py`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np

from .._checks import BelowOne, Named, NotNegative, Size, checked, refuse
from .._core import Device, Executable, Operation, Tensor, float32
from .._dtypes import DTypeLike, as_dtype
from .._shown import shown
from ..errors import GraphError, OutOfRangeError
from ..model import Model
from ..nn.losses import Loss
from ..nn.metrics import Accumulated, Metric
from ..nn.module import Module, adopt, is_built
from ..optim import SGD, LossScaling, Optimizer
from ..optim.schedules import Schedule, as_rate
from ..precision.layer_precision import LayerPrecision, Task, as_choices, choose
from ..precision.mixed_precision import POLICIES, global_policy
from . import evaluation, finite, saved
from .batch import Batch, checked_batch
from .callbacks import Callback
from .fitting import Fit
from .history import History
from .network import ImportedNetwork, Network
from .objective import Objective
from .step import Built, Form, Minimized, accumulated, require_dtype, require_trainable
from .step_result import StepResult

IN_FLIGHT = 2
PRECISIONS = ("float32", "bfloat16", "float16", "auto")
_MODEL = "a module of mpsgraph.nn, such as Sequential(Linear(10)), or a Model"


class Trainer:
    """Trains a model.

    Args:
        model: a module, called as model(inputs), model(*inputs) for a tuple and model(**inputs) for a dict; or a
            `Model`, as mpsgraph.onnx.load(path, trainable=True) gives it. A module that another trainer has trained is
            trained on: the variables are the same ones.
        loss: a name of mpsgraph.nn.losses, or a function (outputs, labels) that gives a tensor of rank 0. For several
            outputs a tuple or a dict of them, None for outputs without one; a name alone counts for each output.
        optimizer: of mpsgraph.optim; None: SGD with learning rate 0.01.
        metrics: names of mpsgraph.nn.metrics, metrics that accumulate such as nn.metrics.AUC(), or functions as for
            loss; a dict of such by output; None: "accuracy" where the loss is of classes, by its kind: of the largest
            output, or of a probability above 0.5, a logit above 0, without labels that the loss ignores; for a
            function as the loss where labels are the numbers of classes; else nothing.
        loss_weights: numbers by output, which their losses are multiplied by in the sum.
        gradient_accumulation_steps: after how many batches the optimizer moves, by the mean of their gradients.
        ema_decay: of exponential moving averages of the weights, which `averaged_weights` and `fit`'s validation use.
        check_finite: whether a step that makes a NaN or an infinity stops with GraphError before anything changes, and
            names the first operation that did, with the line that made it. Slow: for looking for a fault.
        device: None for the default one. seed: of first values and of dropout. dtype: of inputs that are floats.
        precision: what products are computed in, "float32", "bfloat16" or "float16", with weights in float32; "auto":
            what is faster of float32 and bfloat16 for each layer on this machine, where bfloat16's relative error stays
            within `precision_error`; or such choices by the layers' paths; None: as the global policy says.

    >>> model = mg.nn.Sequential(mg.nn.Linear(2))
    >>> trainer = mg.Trainer(model, optimizer=mg.optim.SGD(0.5), metrics=())
    >>> x, y = np.eye(2, dtype=np.float32), np.array([0, 1], np.int32)
    >>> first = float(trainer.train_step(x, y))
    >>> float(trainer.train_step(x, y)) < first
    True
    """

    @checked
    def __init__(
        self,
        model: Annotated[Module | Model, Named(_MODEL)],
        loss: str | Loss | Mapping[str, Any] | Sequence[Any] = "cross_entropy",
        optimizer: Annotated[Optimizer, Named("one of mpsgraph.optim, such as Adam(1e-3)")] | None = None,
        metrics: Sequence[str | Metric | Accumulated] | Mapping[str, Any] | None = None,
        *,
        loss_weights: Mapping[str, float] | Sequence[float] | None = None,
        gradient_accumulation_steps: Size = 1,
        ema_decay: BelowOne | None = None,
        check_finite: bool = False,
        device: Device | str | None = None,
        seed: int = 0,
        dtype: DTypeLike = "float32",
        precision: str | Mapping[str, str | LayerPrecision] | None = None,
        precision_error: NotNegative = 0.02,
    ) -> None:
        if isinstance(device, str):
            Device(device)  # DeviceError for one that is not here
        self.objective = Objective(loss, loss_weights, metrics)
        self.model, self.loss, self.optimizer = model, self.objective.loss, optimizer or SGD()
        self.metrics = dict(self.objective.metrics)
        self.device, self.seed, self.dtype = device, seed, as_dtype(dtype)
        self.accumulation, self.ema_decay, self.check_finite = gradient_accumulation_steps, ema_decay, check_finite
        self.network = ImportedNetwork(model) if isinstance(model, Model) else Network(model, seed)
        self.graph = self.network.graph
        self.step = 0
        """Training steps that were made, a batch each."""
        self.history = History()
        self.stopped: str | None = None
        """Why `stop` was called in the present or last `fit`."""
        self.precision, self.precision_error = _precision(precision), precision_error
        self.precision_choices: dict[str, LayerPrecision] = {}
        """What "auto" has measured and chosen for each layer, by its path; what the argument stated, where it did."""
        self._measures = self.precision == "auto"  # until there are choices, of which there may be none
        if isinstance(precision, Mapping):
            self._take_choices(as_choices(precision))
        if self.precision != "float32" and isinstance(model, Model):
            raise GraphError(f"an imported model's operations have their precision: {self.precision} cannot be chosen")
        self._before_us = set(self.graph.variables)
        self._scalings: dict[int, LossScaling] = {}
        self._forms: dict[str, Form] = {}
        self._specs: list[dict[str, Any]] = []  # of all that was built, in order
        self._inputs: Any = None
        self._prediction: Any = None
        self._added: list[Tensor] = []
        self._prediction_losses: list[Tensor] = []
        self._before: dict[Tensor, Tensor] = {}
        self._building: Built | None = None
        self._builts: dict[tuple[bool, bool], Built] = {}  # with labels, with weights
        self._rate_of: dict[int, Tensor] = {}
        self._sums: dict[int, dict[Tensor, Tensor]] = {}
        self._averages: dict[Tensor, Tensor] = {}
        self._averages_begun: Tensor | None = None
        self._random_states: list[Tensor] = []  # of the training form, which each of its buildings uses
        self._last_step: tuple[Any, Executable, Built] | None = None  # by shapes, device and kind of step
        self._last_rates: tuple[list[float], list[np.ndarray]] | None = None
        self._in_flight: deque[tuple[StepResult, list[Any]]] = deque()
        self._data: Any = None
        self._data_state: dict[str, int] | None = None

    # --- what a step is: for subclasses ----------------------------------------------------------------------------

    def training_step(self, inputs: Any, labels: Any, weights: Any = None) -> Mapping[str, Tensor]:
        """Builds a step in the graph: subclasses override it for steps of their own.

        It is called once for each form of batches, not in each step, and adds operations to `self.graph`: losses from
        `self.forward` or from parts of `self.model`, and a `self.minimize` for each optimizer. What is read of a
        variable behind a `minimize` is what that has made of it. Args: placeholders in the structure of the batches;
        labels and weights are None where batches have none. Result: what is reported, tensors of rank 0 by name.

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
        """The model's outputs in training mode, in float32 where products are computed in less."""
        if not self._scales:
            outputs, self._added = self.network.outputs(inputs, True, self.precision, self.precision_choices)
            return outputs
        self._inference(inputs)  # makes the variables, which can then be read before training changes them
        while True:
            self._before = {buffer: self.graph.read(buffer) for buffer in self.network.buffers()}
            outputs, self._added = self.network.outputs(inputs, True, self.precision, self.precision_choices)
            if set(self.network.buffers()) == self._before.keys():
                return outputs  # else a module that only training calls has just been built: read its, too

    def results(self, outputs: Any, labels: Any, weights: Any = None) -> dict[str, Tensor]:
        """The loss, with what modules have added, and the metrics that the trainer was made with, by name."""
        parts = self.objective.parts(outputs, labels)
        if self._building is not None:
            self._building.parts = parts
        if len(parts) == 1 and not parts[0].name:
            self.metrics = dict(parts[0].metrics)
        return {term.name: term.value for term in self.objective.terms(parts, weights, self._added)}

    def minimize(
        self, loss: Tensor, parameters: Sequence[Tensor] | None = None, optimizer: Optimizer | None = None
    ) -> None:
        """Makes an optimizer's step part of the training step.

        Args: loss, of rank 0; parameters, by default all of the model that are not frozen; optimizer, by default the
        trainer's; each has its state and its learning rate. Errors: GraphError outside of `training_step`, where
        nothing trains, and for parameters that the loss does not depend on.
        """
        if self._building is None:
            raise GraphError("minimize is called in training_step, which is where a step is built")
        g, optimizer = self.graph, optimizer or self.optimizer
        self._adopt()
        free = [v for _, v in self.network.named_parameters() if not optimizer.freezes(v)]
        chosen = None if parameters is None else set(parameters)
        variables = [v for v in free if chosen is None or v in chosen]
        require_trainable(variables)
        rate = self._rate_for(optimizer)
        scaling = self._scaling_of(optimizer)
        start = None if scaling is None else scaling.start(g)
        gradients = g.gradients(loss, variables, start=start, unconnected="error")
        made = Minimized(optimizer, rate, [], scale=start)
        emptying: list[Operation] = []
        if self.accumulation > 1:
            sums = self._sums.setdefault(id(optimizer), {})
            gradients, made.accumulating, emptying = accumulated(g, gradients, self.accumulation, sums)
        if scaling is None:
            made.updates = optimizer.updates(gradients, rate)
        else:
            made.updates = scaling.updates(gradients, rate, self._before)
            if made.accumulating:
                made.accumulating += self._restored(scaling, gradients)
        made.updates += emptying + self._averaging(variables)
        self._building.minimized.append(made)

    # --- building --------------------------------------------------------------------------------------------------

    @property
    def _scales(self) -> bool:
        return self.precision == "float16"

    def _scaling_of(self, optimizer: Optimizer) -> LossScaling | None:
        if not self._scales:
            return None
        if id(optimizer) not in self._scalings:
            own = optimizer if isinstance(optimizer, LossScaling) else LossScaling(optimizer)
            self._scalings[id(optimizer)] = own
        return self._scalings[id(optimizer)]

    def _restored(self, scaling: LossScaling, gradients: Mapping[Tensor, Tensor]) -> list[Operation]:
        """Buffers keep what they held where a batch that is only added to the sums overflows."""
        g = self.graph
        finite = g.equal(scaling.not_finite(gradients), 0.0)
        return [g.assign(buffer, g.select(finite, g.read(buffer), old)) for buffer, old in self._before.items()]

    def _rate_for(self, optimizer: Optimizer) -> Tensor:
        """The placeholder of its rates: one number, or as many as it has groups."""
        if id(optimizer) not in self._rate_of:
            count = len(optimizer.rates())
            name = "learning_rate"
            self._rate_of[id(optimizer)] = self.graph.placeholder(() if count == 1 else (count,), "float32", name)
        return self._rate_of[id(optimizer)]

    def _averaging(self, variables: list[Tensor]) -> list[Operation]:
        """The moving averages behind an update. The first one makes them the weights."""
        if self.ema_decay is None:
            return []
        g = self.graph
        if self._averages_begun is None:
            self._averages_begun = g.variable(0.0, float32, "ema/begun", trainable=False)
        decay = g.read(self._averages_begun) * self.ema_decay
        made = []
        for v in variables:
            if v not in self._averages:
                first = np.zeros(v.shape or (), v.dtype.numpy)
                self._averages[v] = g.variable(first, v.dtype, f"{v.name}/average", trainable=False)
            average, new = g.read(self._averages[v]), g.read(v)
            if v.dtype.itemsize == 2:
                average, new = g.cast(average, float32), g.cast(new, float32)
            factor = decay if average.dtype == float32 else g.cast(decay, average.dtype)
            moved = average * factor + new * (1.0 - factor)
            made.append(g.assign(self._averages[v], moved if moved.dtype == v.dtype else g.cast(moved, v.dtype)))
        return [*made, g.assign(self._averages_begun, g.constant(1.0))]

    def _adopt(self) -> None:
        if isinstance(self.model, Module):
            adopt(self.model, self.graph)

    def _take(self, batch: Batch) -> bool:
        """Learns the batch's form; true where what was built does not take it. Errors leave everything as it was."""
        if (self._forms.get("inputs")) is None:
            require_dtype(batch.inputs, self.dtype)
        widened = False
        for what, structure in zip(("inputs", "labels", "weights"), batch.parts, strict=True):
            if structure is None:
                continue
            if what not in self._forms:
                self._forms[what] = Form(what, structure)
            else:
                if what == "inputs":
                    require_dtype(structure, self.dtype)
                widened = self._forms[what].widen(structure) or widened
        return widened

    def _inputs_for(self, inputs: Any) -> Any:
        """The placeholders that take them. DTypeError for what they do not take, before it is compiled for."""
        if self._take(Batch(inputs)):
            self._forget()
        if self._inputs is None:
            own = self.network.placeholders(inputs)
            self._inputs = self._forms["inputs"].placeholders(self.graph) if own is None else own
        return self._inputs

    @contextmanager
    def _undone_by_errors(self) -> Iterator[None]:
        """What was learned of batches and built for them is kept only if there is no error."""
        shapes = {name: form.shapes for name, form in self._forms.items()}
        before = self._inputs, self._prediction, self._last_step, dict(self._builts), list(self._specs)
        try:
            yield
        except BaseException:
            self._forms = {name: self._forms[name] for name in shapes}
            for name, known in shapes.items():
                self._forms[name].shapes = known
            self._inputs, self._prediction, self._last_step, self._builts, self._specs = before
            raise

    def _forget(self) -> None:
        """What was built is for batches of fewer sizes than there are: it is built anew over the same variables."""
        self._inputs = self._prediction = self._last_step = None
        self._builts = {}

    def _built_for(self, batch: Batch, training: bool = True) -> Built:
        """What was built at first use. DTypeError for arrays that it does not take, before they are compiled for."""
        if self._take(batch):
            self._forget()
        key = batch.labels is not None, batch.weights is not None
        if key not in self._builts:
            self._builts[key] = self._build(batch)
        return self._builts[key]

    def _build(self, batch: Batch) -> Built:
        """The training step and its inference form: one graph, the same variables."""
        if self._measures:
            if not isinstance(batch.inputs, np.ndarray) or not callable(self.loss):
                raise GraphError("precision='auto' measures models of one input and one loss")
            self._prediction = None  # what was made before there were labels was float32
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
            reported = dict(self.training_step(built.inputs, built.labels, built.weights))
        finally:
            self._building, g._repeated_states = None, []
        self._random_states += g._own_states[states:]
        if not built.minimized:
            raise GraphError(f"{type(self).__name__}.training_step minimises nothing: call self.minimize(loss) in it")
        for name, value in reported.items():
            if not isinstance(value, Tensor) or value.shape not in ((), None):
                got = f"shape {value.shape}" if isinstance(value, Tensor) else shown(value)
                raise GraphError(f"{name} must be a tensor of rank 0, it has {got}")
        first = built.minimized[0]
        if first.scale is not None:
            reported["loss_scale"] = first.scale
            if self.accumulation == 1:
                reported["skipped"] = self._scalings[id(first.optimizer)].skipped
        built.names, built.targets = list(reported), list(reported.values())
        built.outputs = [p.output for p in built.parts if p.accumulated]
        if type(self).training_step is Trainer.training_step:
            evaluation.build(self, built)
        fed = ("inputs", *kept)
        self._specs.append({name: form.described() for name, form in self._forms.items() if name in fed})
        return built

    def _inference(self, inputs: Any) -> Any:
        if self._prediction is None:
            outputs, added = self.network.outputs(inputs, False, self.precision, self.precision_choices)
            self._prediction, self._prediction_losses = outputs, added
        self._added = self._prediction_losses
        return self._prediction

    def _take_choices(self, choices: dict[str, LayerPrecision]) -> None:
        """Layers are called in these precisions from now on. GraphError for a path that is no module's."""
        paths = [path for path, _ in self.model.named_modules()] if isinstance(self.model, Module) else []
        unknown = choices.keys() - set(paths)
        if unknown:
            raise GraphError(f"there are no layers {sorted(unknown)}; those of this model are {paths}")
        self.precision_choices, self._measures = choices, False

    # --- training --------------------------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The rate of the next step, by the optimizer's schedule. What it is set to counts from the next step on.

        Schedules count updates: with gradient accumulation, a step of several batches is one.
        """
        return float(self.optimizer.learning_rate(self.step // self.accumulation))

    @learning_rate.setter
    def learning_rate(self, rate: float | Schedule) -> None:
        self.optimizer.learning_rate = rate

    def stop(self, reason: str = "asked to") -> None:
        """Ends the present `fit` behind the step that is being made; callbacks call it."""
        self.stopped = reason

    def train_step(self, x: Any, y: Any = None, sample_weight: Any = None, *, copy: bool = False) -> StepResult:
        """One step of training on a batch. Returns at once; `float(result)` waits for the loss.

        Args: x, inputs (batch, ...), or a tuple or dict of such; y, labels (batch, ...), likewise, None where a step of
        your own needs none; sample_weight, (batch,), or one for each output, which losses are multiplied by; all must
        stay unchanged until the step is done, unless copy: then the step has arrays of its own, and these may be filled
        anew at once. Errors: ShapeError, DTypeError, GraphError; errors of the run come with the result.
        """
        if not isinstance(copy, bool):
            refuse("Trainer.train_step: copy", bool, copy)
        batch = checked_batch(x, y, sample_weight)
        if copy:
            batch = batch.copy()
        arrays = batch.arrays()
        executable, built = self._step_for(batch, arrays)
        rates = self._rates(built)
        while len(self._in_flight) >= IN_FLIGHT:
            self._wait_for_oldest()
        result = StepResult(executable.run_async((*rates, *arrays)), built.names)
        if built.finite is not None:
            self._explain(result, built, [*rates, *arrays])
        self._in_flight.append((result, arrays))
        self.step += 1
        return result

    def _explain(self, result: StepResult, built: Built, arrays: list[Any]) -> None:
        """Waits for a step that is looked at. GraphError that names what made the first NaN or infinity."""
        try:
            result.wait()
        except OutOfRangeError as error:
            if built.finite is None or finite.MARK not in str(error):
                raise
            feeds = dict(zip([*(m.rate for m in built.minimized), *built.placeholders], arrays, strict=True))
            raise GraphError(built.finite.explanation(feeds, self.device)) from None

    def _step_for(self, batch: Batch, arrays: list[Any]) -> tuple[Executable, Built]:
        """The executable of a step on such a batch; the last one is at hand, others may be in the cache."""
        applying = (self.step + 1) % self.accumulation == 0
        key = [a.shape for a in arrays], batch.labels is None, batch.weights is None, self.device, applying
        if self._last_step is None or self._last_step[0] != key:
            with self._undone_by_errors():
                built = self._built_for(batch)
                feeds = {m.rate: (m.rate.dtype, tuple(m.rate.shape or ())) for m in built.minimized}
                feeds |= {t: (t.dtype, a.shape) for t, a in zip(built.placeholders, arrays, strict=True)}
                targets, operations = [*built.targets, *built.outputs], built.operations(applying)
                if self.check_finite:
                    if built.finite is None:
                        built.finite = finite.FiniteCheck(self.graph, targets, operations)
                    operations = [*operations, built.finite.guard]
                self._last_step = key, self.graph.on(self.device).compile(feeds, targets, operations), built
        return self._last_step[1:]

    def _rates(self, built: Built) -> list[np.ndarray]:
        """What is fed as learning rates; another array for other rates: earlier steps may still read theirs."""
        update = self.step // self.accumulation
        rates = [rate(update) for m in built.minimized for rate in m.optimizer.rates()]
        if self._last_rates is None or self._last_rates[0] != rates:
            for rate in rates:
                as_rate(f"the schedule's rate of step {update}", rate)
            groups, rest = [], iter(rates)
            for m in built.minimized:
                own = np.array([next(rest) for _ in m.optimizer.rates()], np.float32)
                groups.append(own if m.rate.shape else own.reshape(()))
            self._last_rates = rates, groups
        return self._last_rates[1]

    def wait(self) -> None:
        """Waits until no step is in flight. Errors: whatever a step raised."""
        while self._in_flight:
            self._wait_for_oldest()

    def _wait_for_oldest(self) -> None:
        """The oldest step in flight is over. Errors: what it raised, unless somebody has seen that."""
        oldest = self._in_flight.popleft()[0]
        if not oldest.raised:
            oldest.wait()

    @checked
    def fit(
        self,
        data: Any,
        labels: Any = None,
        epochs: Size | None = None,
        iterations: Size | None = None,
        *,
        validation: Any = None,
        validation_data: Any = None,
        validation_split: BelowOne | None = None,
        steps_per_epoch: Size | None = None,
        batch_size: int = 64,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | np.ndarray | None = None,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
        copy: bool | None = None,
    ) -> History:
        """Trains for some epochs (1 by default) or a number of iterations.

        Args:
            data: arrays, tuples or dicts of arrays, that are shuffled into batches of batch_size: fit(x, y), or both as
                one pair, fit((x, y)); or mg.data.batches(...) or any iterable of batches (inputs, labels) or (inputs,
                labels, weights). labels: beside arrays. A number in their place is that of epochs.
            validation: data likewise, evaluated after each epoch and at the end, or validation_data, Keras's name; or
                validation_split, the last share of the arrays.
            steps_per_epoch: batches that an epoch has, for iterables without an end; the next epoch goes on in them.
            sample_weight: (samples,), or one for each output, beside arrays. class_weight: factors by class number.
            callbacks: of mpsgraph.training.callbacks, told of what happens. progress: a tqdm bar.
            copy: whether each step gets copies of its arrays, so that it sees them as they were when the data gave
                them, though steps run behind: a generator may fill the same arrays again and again. None: they are
                copied unless they come from arrays, mg.data.batches, a list or a tuple; False: nothing is, and the
                arrays must stay unchanged for two steps more.
        Result: the history, which also holds what came before. Errors: as train_step; ImportError when tqdm is asked
        for and missing.

        >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
        >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", mg.optim.SGD(0.3))
        >>> history = trainer.fit(x, 3 * x - 1, epochs=40, validation_split=0.25, progress=False)
        >>> history.validation[-1][1]["loss"] < 0.01
        True
        """
        if isinstance(labels, (int, float)) and not isinstance(labels, bool):
            labels, epochs, iterations = None, labels, epochs  # type: ignore[assignment]
            if not isinstance(epochs, int) or epochs < 1:
                raise GraphError(f"Trainer.fit: epochs must be an int of at least 1, got {shown(epochs)}")
        if validation is not None and validation_data is not None:
            raise GraphError("validation and validation_data are two names for one thing: give one of them")
        fit = Fit(
            self, data, labels, sample_weight, class_weight, batch_size,
            validation if validation is not None else validation_data, validation_split,
        )  # fmt: skip
        return fit.run(epochs or 1, iterations, steps_per_epoch, callbacks, progress, copy)

    # --- evaluation ------------------------------------------------------------------------------------------------

    @checked
    def evaluate(
        self, data: Any, labels: Any = None, batch_size: int = 256, *, sample_weight: Any = None, metrics: Any = None
    ) -> dict[str, float]:
        """Mean loss and metrics over data, in inference mode; of the labels that count, where the loss ignores some.

        Args: data, labels and sample_weight as fit's; a number in the labels' place is the batch size; metrics, others
        than the trainer's. Errors: as train_step; GraphError without data.

        >>> model = mg.nn.Sequential(mg.nn.Linear(2))
        >>> trainer = mg.Trainer(model)
        >>> sorted(trainer.evaluate((np.eye(2, dtype=np.float32), np.array([0, 1], np.int32))))
        ['accuracy', 'loss']
        """
        if isinstance(labels, int):
            labels, batch_size = None, labels
        return evaluation.evaluate(self, data, labels, sample_weight, batch_size, metrics)

    def predict(self, data: Any, batch_size: int = 256) -> Any:
        """The model's outputs, in inference mode: arrays (samples, ...) in the structure of its outputs.

        Args: data, an array, a tuple or a dict of arrays, of which batches are made; or an iterable of batches, of
        which labels are left aside. Errors: as train_step; GraphError for an iterable without a batch.

        >>> trainer = mg.Trainer(mg.nn.Linear(3))
        >>> trainer.predict(np.zeros((5, 2), np.float32)).shape
        (5, 3)
        >>> trainer.predict(np.zeros((n, 2), np.float32) for n in (4, 1)).shape
        (5, 3)
        """
        return evaluation.predict(self, data, batch_size)

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Meanwhile the weights are their moving averages: for evaluation, prediction and saving of the model.

        Errors: GraphError without ema_decay, and before the first update.

        >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", ema_decay=0.9)
        >>> x = np.ones((4, 2), np.float32)
        >>> _ = trainer.fit(x, x[:, :1], progress=False)
        >>> with trainer.averaged_weights():
        ...     found = trainer.evaluate(x, x[:, :1])
        """
        if not self._has_averages:
            raise GraphError("there are no averages of weights: make the trainer with ema_decay, and train first")
        self.wait()
        g = self.graph
        own = {v: g.variable_value(v, device=self.device) for v in self._averages}
        for v, average in self._averages.items():
            g.set_variable(v, g.variable_value(average, device=self.device), device=self.device)
        try:
            yield
        finally:
            for v, value in own.items():
                g.set_variable(v, value, device=self.device)

    def optimize_for_inference(self) -> Model:
        """The trained model alone, with its weights as constants and batch normalization folded; see
        Model.optimize_for_inference. Its input is "inputs", its output "outputs"; of several, their names. Errors:
        GraphError before the first step, evaluation or prediction, when there is no model yet.

        >>> trainer = mg.Trainer(mg.nn.Sequential(mg.nn.Linear(3), mg.nn.Dropout(0.5)))
        >>> x = np.zeros((5, 2), np.float32)
        >>> expected = trainer.predict(x)
        >>> bool((trainer.optimize_for_inference()(x).numpy() == expected).all())
        True
        """
        return self._model().optimize_for_inference()

    def quantize(self, calibration: Iterable[Any], **options: Any) -> Model:
        """The trained model with 8-bit integers inside. Args and errors: Model.quantize."""
        return self._model().quantize(calibration, **options)

    def _model(self) -> Model:
        if self._inputs is None:
            raise GraphError("there is no model yet: train, evaluate or predict first")
        self.wait()
        return evaluation.model_of(self)

    # --- checkpoints -----------------------------------------------------------------------------------------------

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes weights, moving averages, optimizer state, random states, step, history and data order.

        Errors: CheckpointError; GraphError before the first step or evaluation, when there is nothing to save.
        """
        saved.save(self, path)

    @checked
    def load(self, path: str | os.PathLike[str]) -> None:
        """Continues from a checkpoint, bit for bit: the same model, loss and optimizer must have been made.

        Errors: CheckpointError for a file that is damaged or of another model; then nothing has changed.
        """
        saved.load(self, path)

    def weights(self) -> dict[str, np.ndarray]:
        """Copies of the values of the model's parameters and buffers, by path. Errors: GraphError before the first
        batch."""
        variables = self.network.named_variables()
        return {path: self.graph.variable_value(v, device=self.device) for path, v in variables.items()}

    def set_weights(self, values: Mapping[str, np.ndarray]) -> None:
        """Gives the model what `weights` gave. Errors: GraphError for other paths, ShapeError, DTypeError."""
        variables = self.network.named_variables()
        if values.keys() != variables.keys():
            raise GraphError(f"weights are by path: {', '.join(variables)}; got {', '.join(values)}")
        for path, value in values.items():
            self.graph.set_variable(variables[path], value, device=self.device)

    @property
    def _has_averages(self) -> bool:
        return self.ema_decay is not None and bool(self._averages) and self.step >= self.accumulation

    def _require_model(self) -> None:
        """GraphError where the module was taken to another graph meanwhile."""
        if isinstance(self.model, Module) and is_built(self.model) and self.model._graph is not self.graph:
            raise GraphError("the model was built in another graph than this trainer's: make a new Trainer of it")


def _precision(precision: str | Mapping[str, Any] | None) -> str:
    """The name of a precision that was asked for."""
    if precision is None:
        return str(POLICIES[global_policy()] or "float32")
    if isinstance(precision, Mapping):
        return "auto"
    if precision not in PRECISIONS:
        raise GraphError(f"a precision is one of {', '.join(PRECISIONS)}, or choices by layer, got {shown(precision)}")
    return precision
