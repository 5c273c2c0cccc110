"""Trainer: trains a model in one graph that holds its training step, evaluation, and prediction.

The first batch determines the structure and dtypes for which all operations are built; batches of other sizes only need
additional executables. Steps run asynchronously: at most two are in flight, and a third waits for the first, so the
next batch is prepared while the previous one is computed. `fit` copies arrays that the data source may overwrite while
a step runs. Arrays passed to `train_step` must stay unchanged until the step is done (`result.wait()`, or two steps
later); the trainer holds references to them until then.

`step.py` defines what a step consists of, `objective.py` what it minimizes, `fitting.py` the training loop, and
`checkpoint_state.py` what is saved.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated, Any

import numpy as np

from .._checks import BelowOne, Named, NotNegative, Size, checked, refuse
from .._core import CompilationDescriptor, Device, DeviceGraph, Executable, float32
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from .._tracking import changes, note
from ..distributed.partnership import DataParallel, Partnership
from ..distributed.processes import everyone
from ..errors import Error, GraphError, UnsupportedError
from ..model import Model
from ..nn.losses import Loss, cross_entropy
from ..nn.metrics import Accumulated, Metric
from ..nn.module import Module, is_built
from ..nn.state import fitting, slot_of
from ..optim import SGD, Optimizer, optimizer_named
from ..optim.schedules import Schedule, as_rate
from ..precision.layer_precision import LayerPrecision, as_choices
from ..precision.mixed_precision import POLICIES, global_policy
from ..random import next_seed
from . import checkpoint_state, evaluation, memory, settings
from .batch import Batch, checked_batch, in_dtype_of, require_labels
from .callbacks import Callback
from .engine import Engine, Prepared, Runner
from .fitting import Fit
from .graph import TrainingGraph
from .history import History
from .memory import MemoryEstimate
from .network import ImportedNetwork, Network
from .objective import Objective
from .sizes import notice_size
from .step import Built
from .step_result import StepResult
from .steps_in_flight import StepsInFlight
from .variables import averages_in_place, dormant_of, variables_of

PRECISIONS = ("float32", "bfloat16", "float16", "auto")
_MODEL = "a module of mpsgraph.nn, such as Sequential(Linear(10)), or a Model"


class Trainer(TrainingGraph):
    """Trains, evaluates, and runs a model.

    Args:
        model: Module, called as model(inputs), model(*inputs) for a tuple, or model(**inputs) for a dict; or a `Model`,
            as returned by mpsgraph.onnx.load(path, trainable=True). If another trainer has already trained the module,
            training continues with the same variables.
        loss: Name of a loss in mpsgraph.nn.losses, also Keras's or PyTorch's name as in "mae" or "MSELoss"; or a
            function (outputs, labels) that returns a tensor of rank 0. For several outputs, a tuple or dict of these,
            with None for outputs without a loss; a single name applies to each output. Defaults to "cross_entropy",
            which ignores the label -100 for language models.
        optimizer: Optimizer of mpsgraph.optim, or the name of one with default options, such as "adam". None, the
            default, means SGD with a learning rate of 0.01.
        metrics: List of names of mpsgraph.nn.metrics, such as "mae", "auc", or "top_5_accuracy", accumulated metrics
            such as nn.metrics.AUC(), or functions (outputs, labels); or a dict of such lists, keyed by output name.
            None, the default, means "accuracy" for classification losses (in the form that matches the loss, without
            the labels it ignores) and for custom losses whose labels are class indices; otherwise none.
        loss_weights: Factors of the losses in the total loss: a dict keyed by output name, or a sequence in the order
            of the outputs. Defaults to 1 for each.
        gradient_accumulation_steps: Number of batches whose mean gradient is used for one optimizer step. Batches are
            weighted by their number of samples, or of labels that the loss does not ignore. If a fit ends before the
            last accumulated gradients are applied, `fit` warns, and the next step continues the accumulation. Defaults
            to 1.
        ema_decay: Decay of exponential moving averages of the weights, used by `averaged_weights` and the validation in
            `fit`. Each average begins with the weight's first update. None, the default, means no averages.
        checkpoint_layers: Layers whose activations the backward pass computes again instead of keeping them, as
            nn.checkpoint does: True for all repeated blocks, such as the layers of a TransformerEncoder, or patterns of
            layer paths, such as "blocks.*". Results are the same. Defaults to False.
        check_finite: Whether a step that produces NaN or infinity raises CheckError before it changes anything. The
            error names the first operation that did so and the source line that created it. Slow; for debugging.
            Defaults to False.
        device: Device to run on. None, the default, means the default device.
        engine: Engine to run steps on instead of a device, such as mpsgraph.jax.Engine(mesh); see
            mpsgraph.training.engine. Defaults to none.
        seed: Seed of initial values, dropout, and the order of data. None, the default, means a new seed for each
            trainer, which is in `history.seed` (see mpsgraph.random.seed).
        dtype: Element type of floating-point inputs. Defaults to "float32".
        precision: Precision of matrix products and convolutions, "float32", "bfloat16", or "float16", with weights in
            float32; "auto" to measure, for each layer, which of float32 and bfloat16 is faster within precision_error;
            or a dict of these choices, keyed by layer path. None, the default, follows the global policy.
        low_precision_weights: How the optimizer stores weights whose own dtype is float16 or bfloat16: "rounded" loses
            updates that are too small for the dtype, "master" keeps a float32 copy of each weight, and "stochastic"
            rounds bfloat16 weights up or down at random, so that expected values are exact. None, the default, leaves
            the optimizer's setting, which is "rounded".
        precision_error: Largest relative error of bfloat16 that "auto" accepts. Defaults to 0.02.
        distributed: Whether to train together with the other MPI processes. A DataParallel means True, with options.
            Defaults to False.

    Attributes:
        model: The model.
        optimizer: The optimizer.
        step: Number of training steps made, one per batch. Steps that raised an error are not counted.
        history: History of all steps, epochs, and validations.
        stopped: Reason why the current or last `fit` was stopped, or None.

    Raises:
        GraphError: If an argument is invalid, or arguments cannot be combined.
        DeviceError: If the device does not exist.
        UnsupportedError: If distributed training is requested on a device other than the CPU.

    Example:
        >>> model = mg.nn.Sequential(mg.nn.Linear(2))
        >>> trainer = mg.Trainer(model, optimizer=mg.optim.SGD(0.5), metrics=())
        >>> x, y = np.eye(2, dtype=np.float32), np.array([0, 1], np.int32)
        >>> first = float(trainer.train_step(x, y))
        >>> float(trainer.train_step(x, y)) < first
        True
    """

    _internal: Any = settings.Everything()
    """Names of attributes that are not settings; all of them, until the constructor has finished."""

    @checked
    def __init__(
        self,
        model: Annotated[Module | Model, Named(_MODEL)],
        loss: str | Loss | Mapping[str, Any] | Sequence[Any] = "cross_entropy",
        optimizer: Annotated[Optimizer, Named("an optimizer of mpsgraph.optim, such as Adam(1e-3)")]
        | str
        | None = None,
        metrics: Sequence[str | Metric | Accumulated] | Mapping[str, Any] | None = None,
        *,
        loss_weights: Mapping[str, float] | Sequence[float] | None = None,
        gradient_accumulation_steps: Size = 1,
        ema_decay: BelowOne | None = None,
        checkpoint_layers: bool | str | Sequence[str] = False,
        check_finite: bool = False,
        device: Device | str | None = None,
        engine: Annotated[Any, Named("an engine, such as mpsgraph.jax.Engine()")] = None,
        seed: int | None = None,
        dtype: DTypeLike = "float32",
        precision: str | Mapping[str, str | LayerPrecision] | None = None,
        precision_error: NotNegative = 0.02,
        low_precision_weights: str | None = None,
        distributed: bool | DataParallel = False,
    ) -> None:
        if isinstance(device, str):
            Device(device)  # Device() raises DeviceError if the device does not exist.
        self._seed_chosen = seed is not None
        if seed is None:
            seed = next_seed()
            if distributed:  # All processes use the seed of the first one.
                seed = int(everyone().exchanged(seed, "the trainers' seed")[0])
        ignored = getattr(model, "ignored_label", None)
        if ignored is not None and isinstance(loss, str) and loss == "cross_entropy":
            loss = partial(cross_entropy, ignore_index=ignored)
        self.objective = Objective(loss, loss_weights, metrics)
        self.model, self.loss = model, self.objective.loss
        self.optimizer: Optimizer = optimizer_named(optimizer or SGD())
        self.metrics: dict[str, Metric] = settings.ReadOnly(self.objective.metrics)
        self.device, self.seed, self.dtype = device, seed, as_dtype(dtype)
        self.accumulation, self.ema_decay, self.check_finite = gradient_accumulation_steps, ema_decay, check_finite
        self.checkpoint_layers = settings.assigned(self, "checkpoint_layers", checkpoint_layers)
        self.network = ImportedNetwork(model) if isinstance(model, Model) else Network(model, seed)
        self.graph = self.network.graph
        super().__init__()
        self.engine = engine
        self._on_engine = None if engine is None else self._elsewhere(engine, precision)
        self.history = History(seed)
        self.stopped: str | None = None
        """Reason why the current or last `fit` was stopped, or None."""
        self.precision, self.precision_error = _precision(precision), precision_error
        self.low_precision_weights = settings.assigned(self, "low_precision_weights", low_precision_weights)
        self.precision_choices = {}
        # Whether layers still have to be measured. Empty choices do not tell, because measuring may choose no layer.
        self._measures = self.precision == "auto"
        if isinstance(precision, Mapping):
            self._take_choices(as_choices(precision))
        if self.precision != "float32" and isinstance(model, Model):
            raise GraphError(
                "Trainer: an imported model computes in the precision of its operations, got "
                f"precision='{self.precision}': pass precision='float32'"
            )
        self.distributed = DataParallel() if distributed is True else distributed
        self._join(device)
        self._last_rates: tuple[list[float], list[np.ndarray]] | None = None
        self._steps = StepsInFlight()
        self._data: Any = None
        self._data_state: dict[str, int] | None = None
        self._fit: Fit | None = None  # The current or last fit.
        self._resumed: dict[str, Any] = {}  # State of the fit in a loaded checkpoint, until the next fit starts.
        self._averaged = 0  # Number of nested averaged_weights blocks.
        self._internal = frozenset(name for name in vars(self) if name.startswith("_")) | {"_internal", "step"}

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._internal:
            object.__setattr__(self, name, value)
            return
        object.__setattr__(self, name, settings.assigned(self, name, value))
        note(self, name)

    @property
    def _unwatched(self) -> frozenset[str]:
        own: frozenset[str] = self._internal
        return settings.UNWATCHED | own

    def _join(self, device: Device | str | None) -> None:
        """Connect this trainer with those of the other processes, if distributed training uses several processes."""
        if not isinstance(self.distributed, DataParallel) or everyone().size == 1:
            return
        if self.engine is not None:
            raise GraphError(
                "Trainer: distributed and engine cannot be combined, because an engine distributes the work itself: "
                "pass only one of them"
            )
        if self.check_finite:
            raise GraphError(
                "Trainer: check_finite cannot be combined with distributed: train in one process to find the operation"
            )
        if self.precision == "auto":
            raise GraphError(
                "Trainer: precision='auto' cannot be combined with distributed, because processes might choose "
                "different precisions: pass another precision, such as 'float32'"
            )
        used = Device.default() if device is None else device if isinstance(device, Device) else Device(device)
        if used.name != "cpu":
            raise UnsupportedError("Trainer: distributed training runs only on the CPU: pass device='cpu'")
        self._partnership = Partnership(self.distributed)
        everyone().at_exit(_waiting(self))

    # --- training -----------------------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Number of training steps made, one per batch. Steps that raised an error are not counted."""
        return self._steps.made

    @step.setter
    def step(self, steps: int) -> None:
        self._steps.made = steps

    @property
    def gradient_accumulation_steps(self) -> int:
        """Number of batches whose mean gradient is used for one optimizer step. Can be set before the first batch."""
        return self.accumulation

    @gradient_accumulation_steps.setter
    def gradient_accumulation_steps(self, steps: int) -> None:
        self.accumulation = steps

    @property
    def loss_weights(self) -> Any:
        """Factors of the losses in the total loss, as passed to the constructor. They can be set at any time."""
        return self.objective.loss_weights

    @loss_weights.setter
    def loss_weights(self, weights: Mapping[str, float] | Sequence[float] | None) -> None:
        pass  # __setattr__ has made a new objective.

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step, according to the optimizer's schedule. Setting it affects all further steps.

        Schedules count updates: with gradient accumulation, several batches make one update.
        """
        return float(self.optimizer.learning_rate(self.step // self.accumulation))

    @learning_rate.setter
    def learning_rate(self, rate: float | Schedule) -> None:
        self.optimizer.learning_rate = rate

    @checked
    def stop(self, reason: str = "asked to") -> None:
        """Stop the current `fit` after the current step. Callbacks call this.

        Args:
            reason: Reason, stored in `stopped`. Defaults to "asked to".
        """
        self.stopped = reason

    def train_step(self, x: Any, y: Any = None, sample_weight: Any = None, *, copy: bool = False) -> StepResult:
        """Train on one batch. Returns at once; `float(result)` waits for the loss.

        Args:
            x: Inputs, an array (batch, ...), or a tuple or dict of arrays. Lists of numbers and columns of tables are
                converted to arrays, and float64 inputs to the trainer's dtype, with a warning the first time.
            y: Labels in the same forms. None, the default, is for custom steps that need no labels.
            sample_weight: Factors of the losses, (batch,), or a structure with weights for each output. Defaults to
                none.
            copy: Whether to copy the arrays. Otherwise, they must stay unchanged until the step is done. Defaults to
                False.

        Returns:
            The StepResult, which raises errors that occur during the run.

        Raises:
            DTypeError: If a value is not a numeric array, or its dtype is not the trainer's or that of earlier batches.
            ShapeError: If the shapes do not match the model, each other, or earlier batches.
            GraphError: If the structures do not match the model, the loss, or earlier batches.
        """
        if not isinstance(copy, bool):
            refuse("Trainer.train_step: copy", bool, copy)
        wide = self.dtype == float32 and getattr(x, "dtype", None) == np.float64
        form = self._forms.get("labels")
        same = form is None or getattr(y, "dtype", None) == form.first
        if type(x) is type(y) is np.ndarray and sample_weight is None and not copy and not wide and same:
            # Skip the structure checks for two plain arrays, because they would slow down small networks.
            arrays, shapes = [x, y], (x.shape, y.shape, None)
        else:
            batch = in_dtype_of(self, checked_batch(x, y, sample_weight))
            if copy:
                batch = batch.copy()
            arrays, shapes = batch.arrays(), batch.shapes()
            x, y, sample_weight = batch.parts
        steps = self._steps
        steps.make_room(self.accumulation)
        executable, built = self._step_for(shapes, x, y, sample_weight)
        result = StepResult(executable.run_async((*self._rates(built), *arrays)), built.names)
        if self.check_finite:
            result.wait()
        steps.add(result, arrays)
        return result

    def _step_for(self, shapes: tuple[Any, ...], x: Any, y: Any, weights: Any) -> tuple[Executable | Prepared, Built]:
        """Return the executable of a step for the shapes of a batch, and the operations built for the step.

        If the shapes equal those of the last step, its executable is reused directly; otherwise the graph's cache is
        searched for one.
        """
        if self._averaged:
            self._require_own_weights("train_step")
        self._follow_settings()
        applying = self.accumulation == 1 or (self._steps.made + 1) % self.accumulation == 0
        key = shapes, self.device, applying, self.check_finite
        if self._last_step is None or self._last_step[0] != key:
            notice_size(self, shapes)
            batch = checked_batch(x, y, weights)
            with self._undone_by_errors():
                built, arrays = self._built_for(batch), batch.arrays()
                feeds = {m.rate: (m.rate.dtype, tuple(m.rate.shape or ())) for m in built.minimized}
                feeds |= {t: (t.dtype, a.shape) for t, a in zip(built.placeholders, arrays, strict=True)}
                targets, operations = built.fetched, built.operations(applying)
                self._last_step = key, self._compiled(feeds, targets, operations, built), built
        return self._last_step[1:]

    def _steps_for(self, batch: Batch) -> list[tuple[Executable, Built]]:
        """Return the executables of the steps for a batch: with gradient accumulation, with and without an update."""
        made, steps = self._steps.made, []
        try:
            for number in {made, made - made % self.accumulation + self.accumulation - 1}:
                self._steps.made = number
                steps.append(self._step_for(batch.shapes(), *batch.parts))
        finally:
            self._steps.made = made
        return steps  # type: ignore[return-value]  # An engine is refused before.

    def memory_estimate(self, batch: Any, labels: Any = None, sample_weight: Any = None) -> MemoryEstimate:
        """Return the memory that a training step needs for a batch, before the first step.

        The step is built and compiled, but does not run, and no weight changes. The estimate includes variables,
        intermediate values, and constants (see docs/memory.md). It does not include the batch, which belongs to the
        caller, and the interpreter and its libraries.

        Args:
            batch: A tuple (inputs, labels) or (inputs, labels, weights) as in `fit`, or only the inputs.
            labels: Labels, if batch holds only the inputs.
            sample_weight: Factors of the losses, (batch,), if batch holds only the inputs. Defaults to none.

        Returns:
            The MemoryEstimate; print it for a table.

        Raises:
            UnsupportedError: If the trainer does not run on the CPU.
            DTypeError: If a value is not a numeric array, or its dtype is not the trainer's or that of earlier batches.
            ShapeError: If the shapes do not match the model, each other, or earlier batches.
            GraphError: If the structures do not match the model, the loss, or earlier batches.

        Example:
            >>> trainer = mg.Trainer(mg.nn.Linear(2))
            >>> estimate = trainer.memory_estimate((np.zeros((8, 4), np.float32), np.zeros(8, np.int32)))
            >>> estimate.batch, estimate.weights
            (160, 128)
        """
        return memory.estimate(self, batch, labels, sample_weight)

    def _compiled(self, feeds: Any, targets: Any, operations: Any, built: Built) -> Executable | Prepared:
        if self._on_engine is not None:
            return self._on_engine.compile(feeds, targets, operations, built.placeholders)
        callables = {} if self._partnership is None else self._partnership.callables
        options = None
        if self.check_finite or callables:
            options = CompilationDescriptor(callables=callables, check_finite=self.check_finite)
        return self.graph.on(self.device).compile(feeds, targets, operations, options)

    def _runner(self) -> DeviceGraph | Runner:
        """Return the object that runs the graph on the trainer's device or engine."""
        return self.graph.on(self.device) if self._on_engine is None else self._on_engine

    def _elsewhere(self, engine: Engine, precision: Any) -> Runner:
        """Return the graph's runner on an engine. Raise GraphError for options that only mpsgraph's devices support."""
        if not callable(getattr(engine, "on", None)):
            raise GraphError(
                f"Trainer: engine must have a method on(graph), as mpsgraph.jax.Engine() has, got {shown(engine)}"
            )
        for what, given in (("a device", self.device), ("check_finite", self.check_finite)):
            if given:
                raise GraphError(f"Trainer: engine cannot be combined with {what}: pass only one of them")
        if precision == "auto":
            raise GraphError(
                "Trainer: precision='auto' cannot be combined with engine: pass another precision, such as 'float32'"
            )
        return engine.on(self.graph)

    def _move_to(self, device: Device | str | None) -> None:
        """Copy the values of the trainer's variables to another device."""
        new, old = self.graph.on(device), self.graph.on(self.device)
        if new.device.name == old.device.name:
            return
        if self._on_engine is not None or self._partnership is not None:
            raise GraphError("Trainer.device cannot be changed with an engine or in distributed training")
        self.wait()
        if self._settings is not None:
            variables = list(dict.fromkeys([*variables_of(self).values(), *dormant_of(self).values()]))
            values = self.graph.variable_values(variables, device=self.device)
            self.graph.set_variables(dict(zip(variables, values, strict=True)), device=device)
        self._last_step = None
        self._fast = {}

    def _rates(self, built: Built) -> list[np.ndarray]:
        """Return the learning rates to feed.

        Changed rates are stored in a new array, because earlier steps may still read the old one.
        """
        update = self._steps.made // self.accumulation
        rates = [rate(update) for m in built.minimized for rate in m.optimizer.rates()]
        if self._last_rates is None or self._last_rates[0] != rates:
            for rate in rates:
                as_rate(f"the schedule's rate for step {update}", rate)
            groups, rest = [], iter(rates)
            for m in built.minimized:
                own = np.array([next(rest) for _ in m.optimizer.rates()], m.rate.dtype.numpy)
                groups.append(own if m.rate.shape else own.reshape(()))
            self._last_rates = rates, groups
        return self._last_rates[1]

    def wait(self) -> None:
        """Wait for all steps that have been started. Raise the error of any step that failed."""
        self._steps.wait()

    @checked
    def fit(
        self,
        data: Any,
        labels: Any = None,
        *,
        epochs: Size | None = None,
        iterations: Size | None = None,
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
        """Train for some epochs or a number of steps.

        Args:
            data: Arrays of inputs, which are shuffled into batches, with labels in the next argument; a tuple (inputs,
                labels) or (inputs, labels, weights); or an iterable of such batches, for example mg.data.batches(...).
                Inputs, labels, and weights may be tuples or dicts of arrays. Lists of numbers, and columns and tables
                of pandas, are converted to arrays, and float64 inputs to the trainer's dtype, with a warning.
            labels: Labels, if data are arrays. Labels (n,) match outputs (n, 1), and the reverse.
            epochs: Number of epochs. Defaults to 1.
            iterations: Number of steps, instead of epochs.
            validation: Data to evaluate after each epoch, in the same forms. Defaults to none.
            validation_data: Alias of validation, as in Keras.
            validation_split: Fraction at the end of the arrays to use for validation instead. Defaults to none.
            steps_per_epoch: Number of batches per epoch, for iterables without an end; the next epoch continues with
                the next batch. Defaults to all batches.
            batch_size: Number of samples per batch, for arrays. Defaults to 64.
            sample_weight: Factors of the losses, (samples,), or a structure with weights for each output, if data are
                arrays. Defaults to none.
            class_weight: Factor of each class, as a dict keyed by class index, which may omit classes with factor 1, or
                as an array. Defaults to none.
            callbacks: Callbacks of mpsgraph.training.callbacks.
            progress: Whether to print a line per epoch and, on terminals and in notebooks, show a bar within the epoch
                if tqdm is installed. Defaults to True.
            copy: Whether each step gets copies of its arrays, which is needed if the data source may overwrite them
                while the step runs, as a generator that reuses its arrays does. None, the default, copies unless data
                are arrays, mg.data.batches, a list, or a tuple. If False, arrays must stay unchanged for two more
                steps.

        Returns:
            The history, including earlier fits.

        Raises:
            DTypeError: If a value is not a numeric array, or its dtype is not the trainer's or that of earlier batches.
            ShapeError: If the shapes do not match the model, each other, or earlier batches.
            GraphError: If the structures do not match the model, the loss, or earlier batches; arguments cannot be
                combined; or there is no data.

        Example:
            >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
            >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", mg.optim.SGD(0.3))
            >>> history = trainer.fit(x, 3 * x - 1, epochs=40, validation_split=0.25, progress=False)
            >>> history.validation[-1][1]["loss"] < 0.01
            True
        """
        require_labels("Trainer.fit", labels)
        if validation is not None and validation_data is not None:
            raise GraphError("Trainer.fit: validation_data is an alias of validation: pass only one of them")
        fit = Fit(
            self, data, labels, sample_weight, class_weight, batch_size,
            validation if validation is not None else validation_data, validation_split,
        )  # fmt: skip
        return fit.run(epochs or 1, iterations, steps_per_epoch, callbacks, progress, copy)

    def _updates_made(self) -> int:
        return self.step // self.accumulation

    # --- evaluation ---------------------------------------------------------------------------------------------------

    @checked
    def evaluate(
        self, data: Any, labels: Any = None, batch_size: Size = 256, *, sample_weight: Any = None, metrics: Any = None
    ) -> dict[str, float]:
        """Return the mean loss and metrics over data, in inference mode. Labels that the loss ignores are not counted.

        Args:
            data: Arrays of inputs, with labels in the next argument; a tuple (inputs, labels) or (inputs, labels,
                weights); or an iterable of such batches, for example mg.data.batches(...). Inputs, labels, and weights
                may be tuples or dicts of arrays.
            labels: Labels, if data are arrays. A number is taken as batch_size.
            batch_size: Number of samples per batch, for arrays. Defaults to 256.
            sample_weight: Factors of the losses, (samples,), if data are arrays. Defaults to none.
            metrics: Metrics to use instead of the trainer's. They are compiled once for each list of metrics. Defaults
                to the trainer's.

        Returns:
            A dict of numbers, keyed by name.

        Raises:
            DTypeError: If a value is not a numeric array, or its dtype is not the trainer's or that of earlier batches.
            ShapeError: If the shapes do not match the model, each other, or earlier batches.
            GraphError: If the structures do not match the model, the loss, or earlier batches, or there is no data.

        Example:
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
        """Return the outputs of the model in inference mode.

        Args:
            data: Inputs as an array, or a tuple or dict of arrays, which are divided into batches; or an iterable of
                batches, whose labels are ignored. With a custom training_step, these are the inputs of the model, which
                may differ from those of the step.
            batch_size: Number of samples per batch, for arrays. Defaults to 256.

        Returns:
            Arrays (samples, ...) in the structure of the model's outputs.

        Raises:
            DTypeError: If a value is not a numeric array, or its dtype is not the trainer's or that of earlier batches.
            ShapeError: If the shapes do not match the model or earlier batches.
            GraphError: If the structure does not match the model or earlier batches, or there is no data.

        Example:
            >>> trainer = mg.Trainer(mg.nn.Linear(3))
            >>> trainer.predict(np.zeros((5, 2), np.float32)).shape
            (5, 3)
            >>> trainer.predict(np.zeros((n, 2), np.float32) for n in (4, 1)).shape
            (5, 3)
        """
        if type(data) is np.ndarray and self._fast:
            known = self._fast.get((data.shape, data.dtype, batch_size))
            if known is not None and known[0] is self._prediction and self._is_current():
                return known[1].run((data,))[0].numpy()
        return evaluation.predict(self, data, batch_size)

    def _is_current(self) -> bool:
        """Return whether the operations match all settings, so that they can run without further checks."""
        known = self._settings
        return known is not None and changes.latest == self._changes_seen and not known.altered_in_place()

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Replace the weights by their moving averages within a `with` block, for evaluation or saving the model.

        Within the block, the trainer cannot train, save, or load, and weights cannot be set.

        Raises:
            GraphError: If the trainer has no ema_decay, or has not made an update yet; at the end of the block, if
                weights have been set in it.

        Example:
            >>> trainer = mg.Trainer(mg.nn.Linear(1), "mse", ema_decay=0.9)
            >>> x = np.ones((4, 2), np.float32)
            >>> _ = trainer.fit(x, x[:, :1], progress=False)
            >>> with trainer.averaged_weights():
            ...     found = trainer.evaluate(x, x[:, :1])
        """
        if not self._has_averages:
            raise GraphError("there are no averaged weights: create the trainer with ema_decay, and train first")
        self.wait()
        self._averaged += 1
        try:
            with averages_in_place(self.graph, self._averages, self.device):
                yield
        finally:
            self._averaged -= 1

    def _require_own_weights(self, what: str) -> None:
        """Raise GraphError within a block of averaged_weights, where changes of the state would be lost."""
        if self._averaged:
            raise GraphError(
                f"Trainer.{what} cannot be used within averaged_weights(), where the averages replace the weights "
                "that are trained: call it outside of the block; to save only the averaged weights, use "
                "mg.checkpoint.save(path, trainer.model.state_dict()) or trainer.optimize_for_inference().save(path)"
            )

    def optimize_for_inference(self) -> Model:
        """Return the trained model with its weights as constants and batch normalization folded.

        See Model.optimize_for_inference. A single input is named "inputs" and a single output "outputs"; several inputs
        or outputs keep their own names.

        Returns:
            The model, without the operations that are only used in training.

        Raises:
            GraphError: If the model has not been built yet, which the first step, evaluation, or prediction does.

        Example:
            >>> trainer = mg.Trainer(mg.nn.Sequential(mg.nn.Linear(3), mg.nn.Dropout(0.5)))
            >>> x = np.zeros((5, 2), np.float32)
            >>> expected = trainer.predict(x)
            >>> bool((trainer.optimize_for_inference()(x).numpy() == expected).all())
            True
        """
        return self._model().optimize_for_inference()

    def quantize(self, calibration: Iterable[Any], **options: Any) -> Model:
        """Return the trained model with 8-bit integer arithmetic; see Model.quantize.

        Args:
            calibration: Inputs from which value ranges are measured.
            **options: Options of Model.quantize.

        Returns:
            The quantized model.

        Raises:
            GraphError: If the model has not been built yet, which the first step, evaluation, or prediction does.
        """
        return self._model().quantize(calibration, **options)

    def _model(self) -> Model:
        if self._inputs is None and self._prediction_inputs is None:
            raise GraphError("Trainer: there is no model yet: train, evaluate or predict first")
        self.wait()
        self._follow_settings()
        return evaluation.model_of(self)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    @checked
    def save(self, path: str | os.PathLike[str], *, frozen: bool = True) -> None:
        """Write a checkpoint of the whole state of training.

        It contains weights, moving averages, optimizer state, random states, step, history, data order, the state of
        callbacks, and the learning rates and optimizer options that were set after the optimizer was created.

        Args:
            path: Path of the file.
            frozen: Whether to include frozen parameters. Without them, the checkpoint of a model with adapters is
                small, and can only be loaded by a trainer whose model has the same frozen parameters. Defaults to True.

        Raises:
            CheckpointError: If the file cannot be written.
            GraphError: If there is nothing to save because no step or evaluation has run yet, or if called within
                `averaged_weights`.
        """
        self._require_own_weights("save")
        checkpoint_state.save(self, path, frozen)

    @checked
    def load(self, path: str | os.PathLike[str]) -> None:
        """Continue from a checkpoint, bit for bit. The trainer must have the same model, loss, and optimizer.

        Learning rates and optimizer options that were set after the optimizer was created are those of the checkpoint;
        others are those passed to the optimizer's constructor. Set a rate after loading to train with another one.

        Args:
            path: Path of the file.

        Raises:
            CheckpointError: If the file is damaged or belongs to another model. The trainer is unchanged in this case.
            GraphError: If called within `averaged_weights`.
        """
        self._require_own_weights("load")
        checkpoint_state.load(self, path)

    def __repr__(self) -> str:
        model, loss = type(self.model).__name__, self.loss if isinstance(self.loss, str) else shown(self.loss)
        return f"<{type(self).__name__} of a {model}, loss {loss}, {self.optimizer!r}, step {self.step}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise GraphError(
            "a trainer cannot be pickled or copied, because it has steps in flight and compiled programs: use "
            "save(path) and load(path) for its state, and copy.deepcopy(trainer.model) for its model"
        )

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of the values of the model's parameters and buffers, as a dict keyed by path.

        Raises:
            GraphError: If the model has no variables because no batch has been processed yet.
        """
        self._follow_settings()
        variables = self.network.named_variables()
        values = self.graph.variable_values(variables.values(), device=self.device)
        return dict(zip(variables, values, strict=True))

    @checked
    def set_weights(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the values of the model's parameters and buffers. If any path, shape, or dtype is wrong, nothing changes.

        Args:
            values: Dict of arrays, keyed by path, as returned by `weights`.

        Raises:
            GraphError: If the paths differ from the model's.
            ShapeError: If a shape differs.
            DTypeError: If a dtype differs.
        """
        self._require_own_weights("set_weights")
        self._follow_settings()
        variables = self.network.named_variables()
        if values.keys() != variables.keys():
            raise GraphError(
                f"Trainer.set_weights: values must have the paths {', '.join(variables)}, got "
                f"{', '.join(values) or 'none'}"
            )
        slots = {path: slot_of(variable) for path, variable in variables.items()}
        fitted, _ = fitting("Trainer.set_weights", slots, values, strict=True)
        self.wait()
        self.graph.set_variables({variables[path]: value for path, value in fitted.items()}, device=self.device)

    def _average_values(self) -> dict[str, np.ndarray]:
        """Return copies of the moving averages, as a dict keyed by the path of the parameter."""
        variables = self.network.named_variables()
        averages = {path: self._averages[v] for path, v in variables.items() if v in self._averages}
        values = self.graph.variable_values(averages.values(), device=self.device)
        return dict(zip(averages, values, strict=True))

    def _set_average_values(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the moving averages of the parameters with the given paths."""
        variables = self.network.named_variables()
        given = {
            self._averages[v]: values[path] for path, v in variables.items() if path in values and v in self._averages
        }
        self.graph.set_variables(given, device=self.device)

    @property
    def _has_averages(self) -> bool:
        return self.ema_decay is not None and bool(self._averages) and self.step >= self.accumulation

    def _require_model(self) -> None:
        """Raise GraphError if the module has been built in another graph since the trainer used it."""
        if isinstance(self.model, Module) and is_built(self.model) and self.model._graph is not self.graph:
            raise GraphError(
                "the model has been built in a graph that is not this trainer's: create a new Trainer for it"
            )


def _waiting(trainer: Trainer) -> Callable[[], None]:
    """Return a function that waits for a trainer's steps, unless the trainer has been garbage-collected.

    The function runs before the process ends, so that other processes still receive the messages of these steps.
    """
    reference = weakref.ref(trainer)

    def wait() -> None:
        there = reference()
        if there is not None:
            with suppress(Error):
                there.wait()

    return wait


def _precision(precision: str | Mapping[str, Any] | None) -> str:
    """Return the name of the requested precision."""
    if precision is None:
        return str(POLICIES[global_policy()] or "float32")
    if isinstance(precision, Mapping):
        return "auto"
    if precision not in PRECISIONS:
        raise GraphError(
            f"Trainer: precision must be one of {', '.join(PRECISIONS)}, or a dict of these keyed by layer path, got "
            f"{shown(precision)}"
        )
    return precision
