"""Trainer: trains a model in one graph that holds its training step, evaluation, and prediction.

The first batch determines the structure and dtypes for which all operations are built; batches of other sizes only need
additional executables. Steps run asynchronously: at most two are in flight, and a third waits for the first, so the
next batch is prepared while the previous one is computed. `fit` copies arrays that the data source may overwrite while
a step runs. Arrays passed to `train_step` must stay unchanged until the step is done (`result.wait()`, or two steps
later); the trainer holds references to them until then.

A trainer consists of its settings, which are its attributes; a `TrainingState` (`state.py`), which holds what training
changes and checkpoints store; and a `StepBuilder` (`builder.py`), which builds the operations. `objective.py` defines
what a step minimizes, `updates.py` what optimizers do in it, and `fitting.py` the training loop.
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
from .._core import Device, Tensor, float32
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from .._tracking import Tracked
from ..distributed.partnership import DataParallel, Partnership
from ..distributed.processes import everyone
from ..errors import Error, GraphError, UnsupportedError
from ..graph import Graph
from ..model import Model
from ..nn.losses import Loss, cross_entropy
from ..nn.metrics import Accumulated, Metric
from ..nn.module import Module
from ..optim import SGD, Optimizer, optimizer_named
from ..optim.schedules import Schedule
from ..precision.layer_precision import LayerPrecision, as_choices
from ..precision.mixed_precision import POLICIES, global_policy
from ..random import next_seed
from . import checkpoint_state, evaluation, memory, sharded_checkpoint
from .assignments import ReadOnlyMetrics, assigned
from .batch import checked_batch, require_labels
from .builder import StepBuilder
from .callbacks import Callback
from .engine import Engine, Runner
from .fitting import Fit
from .history import History
from .memory import MemoryEstimate
from .network import ImportedNetwork, Network
from .objective import Objective
from .state import TrainingState
from .step_result import StepResult

PRECISIONS = ("float32", "bfloat16", "float16", "auto")
_MODEL = "a module of mpsgraph.nn, such as Sequential(Linear(10)), or a Model"
_SAVE_AVERAGES = (
    "; to save only the averaged weights, use mg.checkpoint.save(path, trainer.model.state_dict()) or "
    "trainer.optimize_for_inference().save(path)"
)


class Trainer(Tracked):
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
        state: State of training, which `save` writes and `load` restores.

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

    _unwatched = frozenset(
        (
            *("state", "builder", "step", "history", "stopped", "learning_rate", "metrics", "loss", "device"),
            "check_finite",
        )
    )
    """Attributes on which built operations do not depend."""

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
            elif hasattr(engine, "on") and engine.process[1] > 1:
                seed = engine.of_first(seed % 2**31)
        ignored = getattr(model, "ignored_label", None)
        if ignored is not None and isinstance(loss, str) and loss == "cross_entropy":
            loss = partial(cross_entropy, ignore_index=ignored)
        self.model, self.objective = model, Objective(loss, loss_weights, metrics)
        self.optimizer: Optimizer = optimizer_named(optimizer or SGD())
        self.dtype, self.ema_decay, self.check_finite = as_dtype(dtype), ema_decay, check_finite
        self.checkpoint_layers = assigned(self, "checkpoint_layers", checkpoint_layers)
        network = ImportedNetwork(model) if isinstance(model, Model) else Network(model, seed)
        self.engine: Engine | None = engine
        accumulation = gradient_accumulation_steps
        runner = None if engine is None else self._runner_on(engine, network.graph, device, precision, accumulation)
        self._joins = engine is not None and engine.share.count > 1
        """Whether processes pass different shares of each batch to the engine."""
        self.stopped: str | None = None
        """Reason why the current or last `fit` was stopped, or None."""
        self.precision, self.precision_error = _precision(precision), precision_error
        self.low_precision_weights = assigned(self, "low_precision_weights", low_precision_weights)
        self.distributed = DataParallel() if distributed is True else distributed
        self.state = TrainingState(network, seed, device, accumulation, _SAVE_AVERAGES)
        self.state.engine = engine
        if engine is not None:
            self.state.steps.limit *= engine.steps_per_dispatch
        custom, measures = type(self).training_step is not Trainer.training_step, self.precision == "auto"
        self.builder = StepBuilder(self, self.state, network, custom=custom, engine=runner, measures=measures)
        if isinstance(precision, Mapping):
            self.builder.take_choices(as_choices(precision))
        if self.precision != "float32" and isinstance(model, Model):
            raise GraphError(
                "Trainer: an imported model computes in the precision of its operations, got "
                f"precision='{self.precision}': pass precision='float32'"
            )
        self._join(device)

    def __setattr__(self, name: str, value: Any) -> None:
        if "builder" in vars(self):  # The constructor checks its arguments itself.
            value = assigned(self, name, value)
        super().__setattr__(name, value)

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
        self.state.partnership = Partnership(self.distributed)
        everyone().at_exit(_waiting(self.state))

    def _runner_on(
        self, engine: Engine, graph: Graph, device: Device | str | None, precision: object, accumulation: int
    ) -> Runner:
        """Return the graph's runner on an engine. Raise GraphError for options that only mpsgraph's devices support."""
        if not callable(getattr(engine, "on", None)):
            raise GraphError(
                f"Trainer: engine must have a method on(graph), as mpsgraph.jax.Engine() has, got {shown(engine)}"
            )
        for what, given in (("a device", device), ("check_finite", self.check_finite)):
            if given:
                raise GraphError(f"Trainer: engine cannot be combined with {what}: pass only one of them")
        if precision == "auto":
            raise GraphError(
                "Trainer: precision='auto' cannot be combined with engine: pass another precision, such as 'float32'"
            )
        if accumulation > 1 and engine.steps_per_dispatch > 1:
            raise GraphError(
                f"Trainer: gradient_accumulation_steps={accumulation} cannot be combined with an engine of "
                f"steps_per_dispatch={engine.steps_per_dispatch}, because each step waits for the previous one: leave "
                "one of them at 1"
            )
        return engine.on(graph)

    # --- settings and state -------------------------------------------------------------------------------------------

    @property
    def loss(self) -> Any:
        """The loss. It can be set at any time."""
        return self.objective.loss

    @loss.setter
    def loss(self, loss: Any) -> None:
        pass  # __setattr__ has made a new objective.

    @property
    def metrics(self) -> dict[str, Metric]:
        """Metrics of the single output, keyed by name. Assign a list of metrics to change them."""
        known = self.builder.program.metrics
        return ReadOnlyMetrics(self.objective.metrics if known is None else known)

    @metrics.setter
    def metrics(self, metrics: Any) -> None:
        pass  # __setattr__ has made a new objective.

    @property
    def graph(self) -> Graph:
        """The graph of the model and of all steps."""
        return self.state.graph

    @property
    def network(self) -> Network:
        """The model, with the interface that modules and imported models share."""
        return self.builder.network

    @property
    def seed(self) -> int:
        """Seed of initial values, dropout, and the order of data."""
        return self.state.seed

    @property
    def device(self) -> Device | str | None:
        """Device to run on; None means the default device. Setting it copies the variables to another device."""
        return self.state.device

    @device.setter
    def device(self, device: Device | str | None) -> None:
        self.state.device = device

    @property
    def history(self) -> History:
        """History of all steps, epochs, and validations."""
        return self.state.history

    @history.setter
    def history(self, history: History) -> None:
        self.state.history = history

    @property
    def precision_choices(self) -> dict[str, LayerPrecision]:
        """Precision of each layer, keyed by path: chosen by measurement for "auto", or passed as `precision`."""
        return self.state.precision_choices

    @property
    def step(self) -> int:
        """Number of training steps made, one per batch. Steps that raised an error are not counted."""
        return self.state.steps.made

    @step.setter
    def step(self, steps: int) -> None:
        self.state.steps.made = steps

    @property
    def accumulation(self) -> int:
        """Number of batches whose mean gradient is used for one optimizer step."""
        return self.state.accumulation

    @accumulation.setter
    def accumulation(self, steps: int) -> None:
        self.state.accumulation = steps

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
        return float(self.optimizer.learning_rate(self.state.updates))

    @learning_rate.setter
    def learning_rate(self, rate: float | Schedule) -> None:
        self.optimizer.learning_rate = rate

    # --- training -----------------------------------------------------------------------------------------------------

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
        state, builder = self.state, self.builder
        if self._joins:
            assert self.engine is not None
            shares = builder.converted(checked_batch(x, y, sample_weight))
            x, y, sample_weight = self.engine.on_device(shares.parts)
        form = builder.forms.get("labels")
        same = form is None or getattr(y, "dtype", None) == form.first
        if type(x) is type(y) is np.ndarray and sample_weight is None and not copy and not wide and same:
            # Skip the structure checks for two plain arrays, because they would slow down small networks.
            arrays, shapes = [x, y], (x.shape, y.shape, None)
        else:
            batch = builder.converted(checked_batch(x, y, sample_weight))
            if copy:
                batch = batch.copy()
            arrays, shapes = batch.arrays(), batch.shapes()
            x, y, sample_weight = batch.parts
        state.steps.make_room(state.accumulation)
        if state.average_blocks:
            state.require_own_weights("Trainer.train_step")
        executable, built = builder.step_for(shapes, x, y, sample_weight, self.check_finite)
        result = StepResult(executable.run_async((*builder.rates(built), *arrays)), built.names)
        if self.check_finite:
            result.wait()
        state.steps.add(result, arrays)
        return result

    def memory_estimate(self, batch: Any, labels: Any = None, sample_weight: Any = None) -> MemoryEstimate:
        """Return the memory that a training step needs for a batch, before the first step.

        The step is built and compiled, but does not run, and no weight changes. The estimate includes variables,
        intermediate values, and constants (see docs/memory.md). It does not include the batch, which belongs to the
        caller, and the interpreter and its libraries. With an engine, it states the bytes of each device; with several
        processes, all of them pass the whole batch.

        Args:
            batch: A tuple (inputs, labels) or (inputs, labels, weights) as in `fit`, or only the inputs.
            labels: Labels, if batch holds only the inputs.
            sample_weight: Factors of the losses, (batch,), if batch holds only the inputs. Defaults to none.

        Returns:
            The MemoryEstimate; print it for a table.

        Raises:
            UnsupportedError: If the trainer runs on a Metal device, or its engine cannot report memory.
            DTypeError: If a value is not a numeric array, or its dtype is not the trainer's or that of earlier batches.
            ShapeError: If the shapes do not match the model, each other, or earlier batches.
            GraphError: If the structures do not match the model, the loss, or earlier batches.

        Example:
            >>> trainer = mg.Trainer(mg.nn.Linear(2))
            >>> estimate = trainer.memory_estimate((np.zeros((8, 4), np.float32), np.zeros(8, np.int32)))
            >>> estimate.batch, estimate.weights
            (160, 128)
        """
        self.state.require_own_weights("Trainer.memory_estimate")
        return memory.estimate(self.builder, batch, labels, sample_weight)

    def wait(self) -> None:
        """Wait for all steps, and the checkpoint written in the background. Raise the error of any that failed."""
        self.state.steps.wait()
        self.state.writer.wait()

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
        return self.builder.forward(inputs)

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
        return self.builder.results(outputs, labels, weights)

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
        self.builder.minimize(loss, parameters, optimizer)

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
        objective = evaluation.objective_with(self.objective, metrics)
        return evaluation.evaluate(self.builder, data, labels, sample_weight, batch_size, objective)

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
        if type(data) is np.ndarray:
            known = self.builder.predictor(data, batch_size)
            if known is not None:
                return known.run((data,))[0].numpy()
        return evaluation.predict(self.builder, data, batch_size)

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
        absent = "there are no averaged weights: create the trainer with ema_decay, and train first"
        with self.state.averages_in_place(absent):
            yield

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
        return self.builder.model().optimize_for_inference()

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
        return self.builder.model().quantize(calibration, **options)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    @checked
    def save(
        self, path: str | os.PathLike[str], *, frozen: bool = True, sharded: bool = False, background: bool = False
    ) -> None:
        """Write a checkpoint of the whole state of training. With several processes, all of them must call this method.

        It contains weights, moving averages, optimizer state, random states, step, history, data order, the state of
        callbacks, and the learning rates and optimizer options that were set after the optimizer was created.

        Args:
            path: Path of the file, or of the folder of a sharded checkpoint.
            frozen: Whether to include frozen parameters. Without them, the checkpoint of a model with adapters is
                small, and can only be loaded by a trainer whose model has the same frozen parameters. Defaults to True.
            sharded: Whether each process of an engine writes the parts of variables that its devices hold, each to a
                file in the folder `path`, which all machines must share. No process then collects the whole state.
                Defaults to False.
            background: Whether to return as soon as the state has been copied, and write it while training continues.
                `wait`, the next `save`, and `load` wait for it and raise its error. Defaults to False.

        Raises:
            CheckpointError: If this checkpoint, or the one written before in the background, cannot be written. The
                previous checkpoint at this path is then still valid.
            GraphError: If there is nothing to save because no step or evaluation has run yet; if called within
                `averaged_weights`; or if sharded is True for a trainer with distributed=True.
        """
        self.state.require_own_weights("Trainer.save")
        checkpoint_state.save(self.builder, path, frozen, sharded, background)

    @checked
    def load(self, path: str | os.PathLike[str], *, missing_ok: bool = False) -> bool:
        """Continue from a checkpoint, bit for bit. The trainer must have the same model, loss, and optimizer.

        With an engine, the number of devices and processes may differ; results are then equal up to rounding.

        Learning rates and optimizer options that were set after the optimizer was created are those of the checkpoint;
        others are those passed to the optimizer's constructor. Set a rate after loading to train with another one.

        Args:
            path: Path of the file, or of the folder of a sharded checkpoint.
            missing_ok: Whether to do nothing if there is no complete checkpoint at the path, as in the first start of a
                program that may be started again. Defaults to False.

        Returns:
            Whether a checkpoint was loaded.

        Raises:
            CheckpointError: If the file is damaged or belongs to another model. The trainer is unchanged in this case.
            GraphError: If called within `averaged_weights`.
        """
        self.state.require_own_weights("Trainer.load")
        if missing_ok and not sharded_checkpoint.exists(path):
            return False
        checkpoint_state.load(self.builder, path, take_seed=not self._seed_chosen)
        return True

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
        self.builder.follow_settings()
        return self.state.weights()

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
        self.state.require_own_weights("Trainer.set_weights")
        self.builder.follow_settings()
        self.state.set_weights("Trainer.set_weights", values)


def _waiting(state: TrainingState) -> Callable[[], None]:
    """Return a function that waits for the steps in flight, unless the state has been garbage-collected.

    The function runs before the process ends, so that other processes still receive the messages of these steps.
    """
    reference = weakref.ref(state)

    def wait() -> None:
        there = reference()
        if there is not None:
            with suppress(Error):
                there.steps.wait()

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
