"""Trainer: the training loop over one graph that holds a model's training step, evaluation and prediction.

The first batch fixes the input's type and builds everything; each further batch size is one more executable. Steps run
behind the caller: at most two are in flight, and a third waits for the first, so the next batch is prepared while the
last one is computed. `fit` copies arrays that their source may fill anew meanwhile. What `train_step` is given must
stay unchanged until the step is done (`result.wait()`, or two steps later); the trainer holds references to it so long.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np

from .._checks import Named, NotNegative, Size, checked, is_number, refuse
from .._core import Device, Executable, NDArray, Operation, Tensor, float32
from .._dtypes import DTypeLike, as_dtype, dtype_of
from .._optional import require
from .._shown import shown
from ..data.batches import Batches, batches
from ..errors import CheckpointError, DTypeError, Error, GraphError
from ..graph import Graph
from ..model import Model
from ..nn.losses import Loss, loss_named
from ..nn.metrics import Metric, default_metrics, ignored_label, metric_named, names_classes
from ..nn.module import Module, mode_of
from ..optim import SGD, LossScaling, Optimizer
from ..optim.schedules import Schedule, as_rate
from ..precision.layer_precision import LayerPrecision, Task, as_choices, choose, chosen_precisions, in_precision
from ..precision.mixed_precision import POLICIES, global_policy
from . import checkpoint
from .history import History
from .step_result import StepResult

IN_FLIGHT = 2
PRECISIONS = ("float32", "bfloat16", "float16", "auto")
_AS_PAIR = "inputs and labels are one pair, fit((x, y), epochs=...)"
Data: TypeAlias = Annotated[Iterable[Any], _AS_PAIR]
"""Arrays (inputs, labels) of one length, or an iterable of such batches."""
Epochs: TypeAlias = Annotated[Size, _AS_PAIR]


@dataclass(frozen=True)
class _Built:
    """What the first batch has settled: placeholders, the training step, and its inference form."""

    inputs: Tensor
    labels: Tensor
    targets: list[Tensor]
    updates: list[Operation]
    evaluation: list[Tensor]
    counted: Tensor | None
    """How many labels a batch has that the loss does not ignore, where it ignores some."""


class Trainer:
    """Trains a model.

    Args:
        model: a module, called as model(inputs).
        loss: a name of mpsgraph.nn.losses, or a function (outputs, labels) that gives a tensor of rank 0.
        optimizer: of mpsgraph.optim; None: SGD with learning rate 0.01.
        metrics: names of mpsgraph.nn.metrics, or functions as for loss; None: "accuracy" where the loss is of classes,
            by its kind: of the largest output, or of a probability above 0.5, a logit above 0, without labels that the
            loss ignores; for a function as the loss where labels are the numbers of classes; else nothing.
        device: None for the default one. seed: of first values and of dropout. dtype: of the inputs.
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
        model: Annotated[Module, Named("a module of mpsgraph.nn, such as Sequential(Linear(10))")],
        loss: str | Loss = "cross_entropy",
        optimizer: Annotated[Optimizer, Named("one of mpsgraph.optim, such as Adam(1e-3)")] | None = None,
        metrics: Sequence[str | Metric] | None = None,
        *,
        device: Device | str | None = None,
        seed: int = 0,
        dtype: DTypeLike = "float32",
        precision: str | Mapping[str, str | LayerPrecision] | None = None,
        precision_error: NotNegative = 0.02,
    ) -> None:
        if isinstance(device, str):
            Device(device)  # DeviceError for one that is not here
        self.model, self.loss, self.optimizer = model, loss_named(loss), optimizer or SGD()
        self._metrics_by_labels = metrics is None and default_metrics(self.loss) is None
        metrics = (default_metrics(self.loss) or ()) if metrics is None else metrics
        self.metrics = dict(metric_named(metric, self.loss) for metric in metrics)
        self.device, self.seed, self.dtype = device, seed, as_dtype(dtype)
        self.graph = Graph(seed=seed)
        self.step = 0
        self.history = History()
        self.precision, self.precision_error = _precision(precision), precision_error
        self.precision_choices: dict[str, LayerPrecision] = {}
        """What "auto" has measured and chosen for each layer, by its path; what the argument stated, where it did."""
        self._measures = self.precision == "auto"  # until there are choices, of which there may be none
        if isinstance(precision, Mapping):
            self._take_choices(as_choices(precision))
        self._scaling: LossScaling | None = None
        if self.precision == "float16":
            given = self.optimizer
            self._scaling = given if isinstance(given, LossScaling) else LossScaling(given)
        self._names = ["loss", *self.metrics]
        self._reported = ["loss_scale", "skipped"] if self._scaling else []  # of a step, behind loss and metrics
        self._step_names = self._names + self._reported
        taken = {"loss", *self._reported}
        if len(self.metrics) < len(metrics) or taken & self.metrics.keys():
            raise GraphError(f"each metric needs a name of its own besides {sorted(taken)}, got {list(self.metrics)}")
        self._inputs: Tensor | None = None
        self._prediction: Tensor | None = None
        self._built: _Built | None = None
        self._last_step: tuple[Any, Executable] | None = None  # by shapes and device
        self._last_rate: tuple[float, np.ndarray] | None = None
        self._rate = self.graph.placeholder((), "float32", "learning_rate")
        self._in_flight: deque[tuple[StepResult, tuple[np.ndarray, ...]]] = deque()
        self._data: Batches | None = None
        self._data_state: dict[str, int] | None = None

    # --- the graph -------------------------------------------------------------------------------------------------

    def _inputs_for(self, x: np.ndarray) -> Tensor:
        """The placeholder that takes them. DTypeError for what it does not take, before it is compiled for."""
        _require_array(x, "inputs")
        if dtype_of(x) != self.dtype:
            other = f", or make the trainer with dtype='{dtype_of(x)}'" if dtype_of(x).is_float else ""
            raise DTypeError(
                f"inputs are {dtype_of(x)}, this trainer works in {self.dtype}: "
                f"convert them with x.astype('{self.dtype}'){other}"
            )
        if self._inputs is None:
            self._inputs = self.graph.placeholder((-1, *x.shape[1:]), self.dtype, "inputs")
        return self._inputs

    def _build(self, x: np.ndarray, y: np.ndarray) -> _Built:
        """The training step and its inference form: one graph, the same variables."""
        if self._measures:
            if self._prediction is not None:  # what was made before there were labels was float32
                self._prediction = None
            task = Task(self.model, self.loss, self.seed, self.device, self.precision_error)
            self._take_choices(choose(task, x, y))
        inputs, g = self._inputs_for(x), self.graph
        labels = g.placeholder((-1, *y.shape[1:]), dtype_of(y), "labels")

        outputs, before = self._training_outputs(inputs)
        if self._metrics_by_labels and names_classes(outputs, labels):
            self.metrics = dict([metric_named("accuracy")])
            self._names = ["loss", *self.metrics]
            self._step_names = self._names + self._reported

        def results(outputs: Tensor) -> list[Tensor]:
            wide = g.cast(outputs, float32) if outputs.dtype.itemsize == 2 else outputs
            tensors = [self.loss(outputs, labels), *(metric(wide, labels) for metric in self.metrics.values())]
            for name, tensor in zip(self._names, tensors, strict=True):
                if tensor.shape not in ((), None):
                    raise GraphError(f"{name} must be a tensor of rank 0, it has shape {tensor.shape}")
            return tensors

        targets = results(outputs)
        evaluation = results(self._inference(inputs))
        updates = self._updates(targets, before)
        ignored, counted = ignored_label(self.loss), None
        if ignored is not None:
            counted = g.reshape(g.reduction_sum(g.cast(g.not_equal(labels, ignored), float32)), ())
        self._built = _Built(inputs, labels, targets, updates, evaluation, counted)
        return self._built

    def _built_for(self, x: np.ndarray, y: np.ndarray) -> _Built:
        """What was built at first use. DTypeError for arrays that it does not take, before they are compiled for."""
        self._inputs_for(x)
        _require_array(y, "labels")
        built = self._built or self._build(x, y)
        if dtype_of(y) != built.labels.dtype:
            raise DTypeError(
                f"labels are {dtype_of(y)}, those before were {built.labels.dtype}: "
                f"convert them with y.astype('{built.labels.dtype}')"
            )
        return built

    def _training_outputs(self, inputs: Tensor) -> tuple[Tensor, dict[Tensor, Tensor]]:
        """The outputs in training mode and, for steps that may be left out, what the buffers held before them."""
        if self._scaling is None:
            return self._outputs(inputs, training=True), {}
        self._inference(inputs)  # makes the variables, which can then be read before training changes them
        while True:
            before = {buffer: self.graph.read(buffer) for buffer in self.model.buffers()}
            outputs = self._outputs(inputs, training=True)
            if set(self.model.buffers()) == before.keys():
                return outputs, before  # else a module that only training calls has just been built: read its, too

    def _updates(self, targets: list[Tensor], before: dict[Tensor, Tensor]) -> list[Operation]:
        """The operations of one step; to the targets it adds what else is reported."""
        g, parameters = self.graph, self.model.parameters()
        if self._scaling is None:
            gradients = g.gradients(targets[0], parameters, unconnected="error")
            return self.optimizer.updates(gradients, self._rate)
        scale = self._scaling.start(g)
        gradients = g.gradients(targets[0], parameters, start=scale, unconnected="error")
        updates = self._scaling.updates(gradients, self._rate, before)
        targets += [scale, self._scaling.skipped]
        return updates

    def _inference(self, inputs: Tensor) -> Tensor:
        if self._prediction is None:
            self._prediction = self._outputs(inputs, training=False)
        return self._prediction

    def _outputs(self, inputs: Tensor, training: bool) -> Tensor:
        """The model's outputs; those of mixed precision as float32, in which losses are computed."""
        scopes = in_precision(self.precision), chosen_precisions(self.model, self.precision_choices)
        with scopes[0], scopes[1], mode_of(self.model, training):
            outputs = self.model(inputs)
        mixed = outputs.dtype.itemsize == 2 and self.precision != "float32"
        return self.graph.cast(outputs, float32) if mixed else outputs

    def _take_choices(self, choices: dict[str, LayerPrecision]) -> None:
        """Layers are called in these precisions from now on. GraphError for a path that is no module's."""
        paths = [path for path, _ in self.model.named_modules()]
        unknown = choices.keys() - set(paths)
        if unknown:
            raise GraphError(f"there are no layers {sorted(unknown)}; those of this model are {paths}")
        self.precision_choices, self._measures = choices, False

    # --- training --------------------------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The rate of the next step, by the optimizer's schedule. What it is set to counts from the next step on."""
        return float(self.optimizer.learning_rate(self.step))

    @learning_rate.setter
    def learning_rate(self, rate: float | Schedule) -> None:
        self.optimizer.learning_rate = rate

    def train_step(self, x: np.ndarray, y: np.ndarray, *, copy: bool = False) -> StepResult:
        """One step of training on a batch. Returns at once; `float(result)` waits for the loss.

        Args: x, inputs (batch, ...); y, labels (batch, ...); both must stay unchanged until the step is done, unless
        copy: then the step has arrays of its own, and these may be filled anew at once. Errors: ShapeError, DTypeError,
        GraphError; errors of the run come with the result.
        """
        _require_array(x, "inputs")
        _require_array(y, "labels")
        if not isinstance(copy, bool):
            refuse("Trainer.train_step: copy", bool, copy)
        if copy:
            x, y = x.copy(), y.copy()
        executable = self._step_for(x, y)
        rate = self.learning_rate
        if self._last_rate is None or self._last_rate[0] != rate:  # another array: earlier steps may still read theirs
            as_rate(f"the schedule's rate of step {self.step}", rate)
            self._last_rate = rate, np.array(rate, np.float32)
        while len(self._in_flight) >= IN_FLIGHT:
            self._wait_for_oldest()
        result = StepResult(executable.run_async((self._last_rate[1], x, y)), self._step_names)
        self._in_flight.append((result, (x, y)))
        self.step += 1
        return result

    def _step_for(self, x: np.ndarray, y: np.ndarray) -> Executable:
        """The executable of a step on such a batch; the last one is at hand, others may be in the cache."""
        key = x.shape, y.shape, self.device
        if self._last_step is None or self._last_step[0] != key:
            built = self._built_for(x, y)
            feeds = {
                t: (t.dtype, shape) for t, shape in ((self._rate, ()), (built.inputs, x.shape), (built.labels, y.shape))
            }
            self._last_step = key, self.graph.on(self.device).compile(feeds, built.targets, built.updates)
        return self._last_step[1]

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
        data: Data,
        epochs: Epochs | None = None,
        iterations: Epochs | None = None,
        *,
        validation: Data | None = None,
        batch_size: int = 64,
        progress: bool = True,
        copy: bool | None = None,
    ) -> History:
        """Trains for some epochs (1 by default) or a number of iterations.

        Args: data, mg.data.batches(...), any iterable of (inputs, labels) batches, or arrays (inputs, labels) that are
        shuffled into batches of batch_size; validation, likewise, evaluated after each epoch and at the end; progress,
        a tqdm bar; copy, whether each step gets copies of its arrays, so that it sees them as they were when the data
        gave them, though steps run behind: a generator may fill the same arrays again and again. None: they are copied
        unless they come from arrays, mg.data.batches, a list or a tuple; False: nothing is, and the arrays must stay
        unchanged for two steps more. Result: the history, which also holds what came before. Errors: as train_step;
        ImportError when tqdm is asked for and missing.
        """
        epochs = 1 if epochs is None else epochs
        source = self._resumed(data, batch_size)
        if copy is None:
            copy = not isinstance(source, (Batches, list, tuple))
        total = iterations or (len(source) * epochs if isinstance(source, Sized) else None)
        bar = _progress_bar(total) if progress else None
        pending: deque[StepResult] = deque()

        def record(keep: int) -> None:
            while len(pending) > keep:
                values = pending.popleft().values
                self.history.append(values)
                if bar is not None:
                    bar.update()
                    bar.set_postfix({name: f"{value:.4f}" for name, value in values.items()}, refresh=False)

        try:
            for end_of_epoch, batch in self._schedule(source, epochs, iterations):
                if batch is not None:
                    pending.append(self.train_step(*batch, copy=copy))
                    record(keep=IN_FLIGHT - 1)
                if end_of_epoch and validation is not None:
                    record(keep=0)
                    self.history.append_validation(self.step, self.evaluate(validation))
            record(keep=0)
        finally:
            with suppress(Error):  # what ends the training early, Ctrl-C for one, does not undo the steps in flight
                record(keep=0)
            if bar is not None:
                bar.close()
        return self.history

    def _schedule(self, source: Iterable[Any], epochs: int, iterations: int | None) -> Iterator[tuple[bool, Any]]:
        """(False, batch) for each step to make, (True, None) where an epoch or the whole ends."""
        made = 0
        for _ in range(epochs) if iterations is None else itertools.count():
            before = made
            for batch in source:
                yield False, _pair(batch)
                made += 1
                if made == iterations:
                    break
            if made == before:
                raise GraphError(
                    "the data has no batch left: give something that can be iterated again, as mg.data.batches"
                )
            yield True, None
            if made == iterations:
                return

    def _resumed(self, data: Data, batch_size: int) -> Iterable[Any]:
        """The batches of `data`; after load(), they continue where the checkpoint was saved."""
        source = as_batches(data, batch_size, shuffle=True, seed=self.seed)
        if isinstance(source, Batches):
            if source is not data and self._data is not None and self._data.fits(source):
                source.load_state_dict(self._data.state_dict())  # the same arrays again: go on, do not repeat
            if self._data_state is not None:
                source.load_state_dict(self._data_state)
                self._data_state = None
            self._data = source
        return source

    # --- evaluation ------------------------------------------------------------------------------------------------

    @checked
    def evaluate(self, data: Data, batch_size: int = 256) -> dict[str, float]:
        """Mean loss and metrics over data, in inference mode; of the labels that count, where the loss ignores some.

        Args: data, (inputs, labels) arrays or an iterable of such batches. Errors: as train_step; GraphError without
        data.

        >>> model = mg.nn.Sequential(mg.nn.Linear(2))
        >>> trainer = mg.Trainer(model)
        >>> sorted(trainer.evaluate((np.eye(2, dtype=np.float32), np.array([0, 1], np.int32))))
        ['accuracy', 'loss']
        """
        sums: dict[str, float] = {}
        weights: dict[str, float] = {}
        for x, y in map(_pair, as_batches(data, batch_size, shuffle=False, seed=0)):
            built = self._built_for(x, y)
            targets = built.evaluation + ([] if built.counted is None else [built.counted])
            found = self.graph.on(self.device).run({built.inputs: x, built.labels: y}, targets)
            values = [float(value) for value in found]
            for name, value in zip(self._names, values, strict=False):
                ignores = name == "loss" or ignored_label(self.metrics[name]) is not None
                weight = values[-1] if ignores and built.counted is not None else len(x)
                sums[name] = sums.get(name, 0.0) + weight * value
                weights[name] = weights.get(name, 0.0) + weight
        if not sums:
            raise GraphError("there is no data to evaluate on")
        return {name: total / max(weights[name], 1) for name, total in sums.items()}

    def predict(self, x: np.ndarray, batch_size: int = 256) -> np.ndarray:
        """The model's outputs for inputs, in inference mode: an array (len(x), ...).

        >>> trainer = mg.Trainer(mg.nn.Linear(3))
        >>> trainer.predict(np.zeros((5, 2), np.float32)).shape
        (5, 3)
        """
        inputs = self._inputs_for(x)
        outputs = self._inference(inputs)

        def run(batch: np.ndarray) -> np.ndarray:
            return self.graph.run({inputs: batch}, outputs, device=self.device).numpy()

        parts = [run(batch) for (batch,) in batches((x,), batch_size, shuffle=False)]
        return np.concatenate(parts) if parts else run(x)

    def optimize_for_inference(self) -> Model:
        """The trained model alone, with its weights as constants and batch normalization folded; see
        Model.optimize_for_inference. Its input is "inputs", its output "outputs". Errors: GraphError before the first
        step, evaluation or prediction, when there is no model yet.

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
        return Model(self.graph, {"inputs": self._inputs}, {"outputs": self._inference(self._inputs)})

    # --- checkpoints -----------------------------------------------------------------------------------------------

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes weights, moving averages, optimizer state, random states, step and data order.

        Errors: CheckpointError; GraphError before the first step or evaluation, when there is nothing to save.
        """
        if self._built is None:
            raise GraphError("there is nothing to save yet: train or evaluate first")
        self.wait()
        variables = self._variables()
        metadata = {
            "kind": "trainer",
            "structure": self._structure(),
            "step": str(self.step),
            "signature": json.dumps([_signature(self._built.inputs), _signature(self._built.labels)]),
            "data": json.dumps(self._data.state_dict() if self._data is not None else self._data_state),
            "precision": self.precision,
            "precision_choices": json.dumps({path: asdict(c) for path, c in self.precision_choices.items()}),
        }
        values = {name: self.graph.variable_value(v, device=self.device) for name, v in variables.items()}
        checkpoint.save(path, values, metadata, {name: str(v.dtype) for name, v in variables.items()})

    @checked
    def load(self, path: str | os.PathLike[str]) -> None:
        """Continues from a checkpoint, bit for bit: the same model, loss and optimizer must have been made.

        Errors: CheckpointError for a file that is damaged or of another model; then nothing has changed.
        """
        values, metadata = checkpoint.load(path)
        if metadata.get("kind") != "trainer" or not metadata.keys() >= {"structure", "step", "signature", "data"}:
            raise CheckpointError(f"{path} is not a trainer's checkpoint: read it with mg.checkpoint.load")
        self._load_precision(path, metadata)
        if self._built is None:
            try:
                self._build(*(_example(*signature) for signature in json.loads(metadata["signature"])))
            except Error as error:
                raise CheckpointError(f"{path} belongs to another model: {error}") from error
        variables = self._variables()
        if metadata["structure"] != self._structure() or values.keys() != variables.keys():
            missing, unknown = sorted(variables.keys() - values.keys()), sorted(values.keys() - variables.keys())
            raise CheckpointError(
                f"{path} belongs to another model or optimizer: missing {missing}, unknown {unknown}"
                if missing or unknown
                else f"{path} belongs to another model: shapes or element types differ"
            )
        self.wait()
        for name, variable in variables.items():
            self.graph.set_variable(variable, values[name], device=self.device)
        self.step = int(metadata["step"])
        self._data_state = json.loads(metadata["data"])

    def _load_precision(self, path: str | os.PathLike[str], metadata: Mapping[str, str]) -> None:
        """Goes on in the precision that the checkpoint was written in."""
        precision = metadata.get("precision", "float32")
        if precision != self.precision:
            raise CheckpointError(
                f"{path} was trained in {precision}, this trainer works in {self.precision}: make one with "
                f"precision='{precision}', or take the weights alone with model.load_state_dict"
            )
        choices = as_choices(json.loads(metadata.get("precision_choices", "{}")))
        if self._built is None:
            self._take_choices(choices)
        elif {p: c.precision for p, c in choices.items()} != {
            p: c.precision for p, c in self.precision_choices.items()
        }:
            raise CheckpointError(f"{path} chose other precisions than this trainer: load it before the first step")

    def _variables(self) -> dict[str, Tensor]:
        return {variable.name: variable for variable in self.graph.variables}

    def _structure(self) -> str:
        """A hash of what must agree between a checkpoint and a trainer: names, types and shapes of all variables."""
        described = [[name, str(v.dtype), list(v.shape or ())] for name, v in sorted(self._variables().items())]
        return hashlib.sha256(json.dumps([type(self.optimizer).__name__, described]).encode()).hexdigest()


def _precision(precision: str | Mapping[str, Any] | None) -> str:
    """The name of a precision that was asked for."""
    if precision is None:
        return str(POLICIES[global_policy()] or "float32")
    if isinstance(precision, Mapping):
        return "auto"
    if precision not in PRECISIONS:
        raise GraphError(f"a precision is one of {', '.join(PRECISIONS)}, or choices by layer, got {shown(precision)}")
    return precision


def _progress_bar(total: int | None) -> Any:
    tqdm = require("tqdm.auto", "train", "the progress bar (progress=False does without)")
    return tqdm.tqdm(total=total, unit="step")


def as_batches(data: Data, batch_size: int, shuffle: bool, seed: int) -> Iterable[Any]:
    """Arrays become batches; anything else is taken as batches."""
    if isinstance(data, (tuple, list)) and all(isinstance(array, np.ndarray) for array in data):
        return batches(data, batch_size, shuffle, seed)
    if isinstance(data, (np.ndarray, NDArray)):
        raise GraphError(f"data are a pair of arrays (inputs, labels), got one {shown(data)}")
    if isinstance(data, tuple) and any(_is_list_of_numbers(array) for array in data):
        raise DTypeError(f"data are a pair of arrays, got {shown(data)}: convert them with np.asarray(..., dtype)")
    return data


def _is_list_of_numbers(value: Any) -> bool:
    """Or of such lists? Its first items tell."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
        if is_number(value):
            return True
    return False


def _require_array(array: Any, name: str) -> None:
    """DTypeError for what is no array: a list says nothing of its dtype."""
    if not isinstance(array, (np.ndarray, NDArray)):
        raise DTypeError(f"{name} are an array, got a {type(array).__name__}: convert them with np.asarray(..., dtype)")


def _pair(batch: Any) -> tuple[np.ndarray, np.ndarray]:
    """A batch as (inputs, labels)."""
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        what = f"{len(batch)} values" if isinstance(batch, (tuple, list)) else shown(batch)
        raise GraphError(f"a batch is a pair of arrays (inputs, labels), the data gave {what}")
    return batch[0], batch[1]


def _signature(placeholder: Tensor) -> list[Any]:
    return [str(placeholder.dtype), list(placeholder.shape or ())[1:]]


def _example(dtype: str, shape: list[int]) -> Any:
    """An empty batch, from which the graph learns its input types."""
    return NDArray((0, *shape), dtype)
