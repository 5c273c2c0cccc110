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
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import numpy as np

from .._checks import BelowOne, Named, NotNegative, Size, checked, refuse
from .._core import CompilationDescriptor, Device, DeviceGraph, Executable
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..distributed.partnership import DataParallel, Partnership
from ..distributed.processes import everyone
from ..errors import Error, GraphError, UnsupportedError
from ..model import Model
from ..nn.losses import Loss
from ..nn.metrics import Accumulated, Metric
from ..nn.module import Module, is_built
from ..optim import SGD, Optimizer
from ..optim.schedules import Schedule, as_rate
from ..precision.layer_precision import LayerPrecision, as_choices
from ..precision.mixed_precision import POLICIES, global_policy
from . import checkpoint_state, evaluation
from .batch import checked_batch
from .callbacks import Callback
from .engine import Engine, Prepared, Runner
from .fitting import Fit
from .graph import TrainingGraph
from .history import History
from .network import ImportedNetwork, Network
from .objective import Objective
from .step import Built
from .step_result import StepResult

IN_FLIGHT = 2
PRECISIONS = ("float32", "bfloat16", "float16", "auto")
_MODEL = "a module of mpsgraph.nn, such as Sequential(Linear(10)), or a Model"


class Trainer(TrainingGraph):
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
        check_finite: whether a step that makes a NaN or an infinity stops with CheckError before anything changes, and
            names the first operation that did, with the line that made it. Slow: for looking for a fault.
        device: None for the default one. seed: of first values and of dropout. dtype: of inputs that are floats.
        engine: what steps run on instead of a device, such as mpsgraph.jax.Engine(mesh); see mpsgraph.training.engine.
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
        engine: Annotated[Any, Named("an engine, such as mpsgraph.jax.Engine()")] = None,
        seed: int = 0,
        dtype: DTypeLike = "float32",
        precision: str | Mapping[str, str | LayerPrecision] | None = None,
        precision_error: NotNegative = 0.02,
        distributed: bool | DataParallel = False,
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
        super().__init__()
        self.engine = engine
        self._on_engine = None if engine is None else self._elsewhere(engine, precision)
        self.step = 0
        """Training steps that were made, a batch each."""
        self.history = History()
        self.stopped: str | None = None
        """Why `stop` was called in the present or last `fit`."""
        self.precision, self.precision_error = _precision(precision), precision_error
        self.precision_choices = {}
        self._measures = self.precision == "auto"  # until there are choices, of which there may be none
        if isinstance(precision, Mapping):
            self._take_choices(as_choices(precision))
        if self.precision != "float32" and isinstance(model, Model):
            raise GraphError(f"an imported model's operations have their precision: {self.precision} cannot be chosen")
        self.distributed = DataParallel() if distributed is True else distributed
        self._join(device)
        self._last_rates: tuple[list[float], list[np.ndarray]] | None = None
        self._in_flight: deque[tuple[StepResult, list[Any]]] = deque()
        self._data: Any = None
        self._data_state: dict[str, int] | None = None
        self._fit: Fit | None = None  # the present or last one
        self._resumed: dict[str, Any] = {}  # what a checkpoint knows of its fit, until the next one begins

    def _join(self, device: Device | str | None) -> None:
        """Becomes a partner of the other processes' trainers, where there are any."""
        if not isinstance(self.distributed, DataParallel) or everyone().size == 1:
            return
        if self.engine is not None:
            raise GraphError("a trainer is distributed by MPI or has an engine, which distributes by itself, not both")
        if self.check_finite:
            raise GraphError(
                "check_finite looks at the steps of one process: train without distributed to find a fault"
            )
        if self.precision == "auto":
            raise GraphError(
                "precision='auto' measures one process, and others might choose otherwise: name a precision"
            )
        used = Device.default() if device is None else device if isinstance(device, Device) else Device(device)
        if used.name != "cpu":
            raise UnsupportedError("several processes train on Device('cpu'): make the trainer with device='cpu'")
        self._partnership = Partnership(self.distributed)
        everyone().at_exit(_waiting(self))

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

    @checked
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
        if type(x) is type(y) is np.ndarray and sample_weight is None and not copy:
            arrays, shapes = [x, y], (x.shape, y.shape, None)  # a small network's step would wait for a look into both
        else:
            batch = checked_batch(x, y, sample_weight)
            if copy:
                batch = batch.copy()
            arrays, shapes = batch.arrays(), batch.shapes()
            x, y, sample_weight = batch.parts
        executable, built = self._step_for(shapes, x, y, sample_weight)
        rates = self._rates(built)
        while len(self._in_flight) >= IN_FLIGHT:
            self._wait_for_oldest()
        result = StepResult(executable.run_async((*rates, *arrays)), built.names)
        if self.check_finite:
            result.wait()
        self._in_flight.append((result, arrays))
        self.step += 1
        return result

    def _step_for(self, shapes: tuple[Any, ...], x: Any, y: Any, weights: Any) -> tuple[Executable | Prepared, Built]:
        """The executable of a step on a batch of these shapes, in their structure; the last one is at hand, others may
        be in the cache."""
        applying = (self.step + 1) % self.accumulation == 0
        key = shapes, self.device, applying
        if self._last_step is None or self._last_step[0] != key:
            batch = checked_batch(x, y, weights)
            with self._undone_by_errors():
                built, arrays = self._built_for(batch), batch.arrays()
                feeds = {m.rate: (m.rate.dtype, tuple(m.rate.shape or ())) for m in built.minimized}
                feeds |= {t: (t.dtype, a.shape) for t, a in zip(built.placeholders, arrays, strict=True)}
                targets, operations = [*built.targets, *built.outputs], built.operations(applying)
                self._last_step = key, self._compiled(feeds, targets, operations, built), built
        return self._last_step[1:]

    def _compiled(self, feeds: Any, targets: Any, operations: Any, built: Built) -> Executable | Prepared:
        if self._on_engine is not None:
            return self._on_engine.compile(feeds, targets, operations, built.placeholders)
        callables = {} if self._partnership is None else self._partnership.callables
        options = None
        if self.check_finite or callables:
            options = CompilationDescriptor(callables=callables, check_finite=self.check_finite)
        return self.graph.on(self.device).compile(feeds, targets, operations, options)

    def _runner(self) -> DeviceGraph | Runner:
        """The graph where its steps run."""
        return self.graph.on(self.device) if self._on_engine is None else self._on_engine

    def _elsewhere(self, engine: Engine, precision: Any) -> Runner:
        """The graph on an engine. GraphError for what only devices of the package do."""
        if not callable(getattr(engine, "on", None)):
            raise GraphError(f"Trainer: engine must be an engine, such as mpsgraph.jax.Engine(), got {shown(engine)}")
        for what, given in (("a device", self.device), ("check_finite", self.check_finite)):
            if given:
                raise GraphError(f"a trainer has an engine or {what}, not both")
        if precision == "auto":
            raise GraphError("precision='auto' measures devices of the package, not engines: state the precision")
        return engine.on(self.graph)

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
        batch_size: Size = 64,
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
            labels, epochs, iterations = None, labels, epochs
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
        self, data: Any, labels: Any = None, batch_size: Size = 256, *, sample_weight: Any = None, metrics: Any = None
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

    @checked
    def predict(self, data: Any, batch_size: Size = 256) -> Any:
        """The model's outputs, in inference mode: arrays (samples, ...) in the structure of its outputs.

        Args: data, an array, a tuple or a dict of arrays, of which batches are made; or an iterable of batches, of
        which labels are left aside. With a training_step of your own they are what the model takes, which may be
        something else than the batches of the step. Errors: as train_step; GraphError for an iterable without a batch.

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
        if self._inputs is None and self._prediction_inputs is None:
            raise GraphError("there is no model yet: train, evaluate or predict first")
        self.wait()
        return evaluation.model_of(self)

    # --- checkpoints -----------------------------------------------------------------------------------------------

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes weights, moving averages, optimizer state, random states, step, history, data order, and what
        callbacks know.

        Errors: CheckpointError; GraphError before the first step or evaluation, when there is nothing to save.
        """
        checkpoint_state.save(self, path)

    @checked
    def load(self, path: str | os.PathLike[str]) -> None:
        """Continues from a checkpoint, bit for bit: the same model, loss and optimizer must have been made.

        Errors: CheckpointError for a file that is damaged or of another model; then nothing has changed.
        """
        checkpoint_state.load(self, path)

    def __repr__(self) -> str:
        model, loss = type(self.model).__name__, self.loss if isinstance(self.loss, str) else shown(self.loss)
        return f"<{type(self).__name__} of a {model}, loss {loss}, {self.optimizer!r}, step {self.step}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise GraphError(
            "a trainer cannot be pickled or copied, as it has steps in flight and a graph for each form of batches: "
            "save(path) and load(path) carry its state, copy.deepcopy(trainer.model) its model"
        )

    def weights(self) -> dict[str, np.ndarray]:
        """Copies of the values of the model's parameters and buffers, by path. Errors: GraphError before the first
        batch."""
        variables = self.network.named_variables()
        return {path: self.graph.variable_value(v, device=self.device) for path, v in variables.items()}

    @checked
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


def _waiting(trainer: Trainer) -> Callable[[], None]:
    """Waits for a trainer's steps, if it is still there: what they say to others must be said before this one ends."""
    reference = weakref.ref(trainer)

    def wait() -> None:
        there = reference()
        if there is not None:
            with suppress(Error):
                there.wait()

    return wait


def _precision(precision: str | Mapping[str, Any] | None) -> str:
    """The name of a precision that was asked for."""
    if precision is None:
        return str(POLICIES[global_policy()] or "float32")
    if isinstance(precision, Mapping):
        return "auto"
    if precision not in PRECISIONS:
        raise GraphError(f"a precision is one of {', '.join(PRECISIONS)}, or choices by layer, got {shown(precision)}")
    return precision
