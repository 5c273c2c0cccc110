"""TrainableModel: an opened package of a trainer, which continues training where the trainer was saved, bit for bit.

The package contains the graph but no modules, so the program that created the trainer is not needed. `package.py`
defines the contents of a package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import _core
from .._checks import Size, checked, refuse
from ..errors import PackageError, UnsupportedError
from ..graph import Graph
from ..model import Model
from ..optim.schedules import as_rate
from . import evaluation
from .batch import checked_batch, require_labels
from .callbacks import Callback
from .fitting import Fit
from .history import History
from .packaged_step import PackagedStep
from .state import TrainingState
from .step_result import StepResult


class TrainableModel(Model):
    """A model with its training step, returned by mpsgraph.load for the package of a Trainer.

    Inputs and outputs are those of the model in inference mode. As with Trainer, steps run asynchronously; the arrays
    passed to a step must stay unchanged until it is done. The package contains the step count, learning rates,
    optimizer state, random states, and moving averages; the order of data and the training history are only in
    checkpoints.

    Attributes:
        history: History of the steps made with this object.
        stopped: Reason why the current or last `fit` was stopped, or None.

    Example:
        >>> import os, tempfile
        >>> x, y = np.eye(2, dtype=np.float32), np.array([0, 1], np.int32)
        >>> trainer = mg.Trainer(mg.nn.Sequential(mg.nn.Linear(4), mg.nn.Dropout(0.5), mg.nn.Linear(2)))
        >>> _ = trainer.fit(x, y, iterations=3, progress=False)
        >>> path = os.path.join(tempfile.mkdtemp(), "trained.mpsgraph")
        >>> mg.save(path, trainer)
        >>> model = mg.load(path)
        >>> [float(model.train_step(x, y)) for _ in range(3)] == [float(trainer.train_step(x, y)) for _ in range(3)]
        True
    """

    def __init__(self, graph: Graph, contents: _core.PackageContents) -> None:
        super().__init__(graph, contents.inputs(graph), contents.outputs(graph), contents.parameters(graph))
        functions, training = dict(contents.functions(graph)), dict(contents.training(graph))
        try:
            step = PackagedStep(self, functions, training)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise PackageError(f"the package's description of its training step is damaged: {error!r}") from error
        self.builder = step
        """The training step, evaluation, and prediction in the package."""
        self.state: TrainingState = step.state
        """State of training, which the package contains."""
        self.stopped: str | None = None
        self._functions, self._training = functions, training

    # --- step count and learning rates --------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        """History of the steps made with this object."""
        return self.state.history

    @history.setter
    def history(self, history: History) -> None:
        self.state.history = history

    @property
    def seed(self) -> int:
        """Seed of the trainer."""
        return self.state.seed

    @property
    def step(self) -> int:
        """Number of batches trained on so far, including those before the package was saved.

        Steps that raised an error are not counted.
        """
        return self.state.steps.made

    @property
    def accumulation(self) -> int:
        """Number of batches whose mean gradient is used for one update."""
        return self.state.accumulation

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step. Setting it replaces the rates of all further steps.

        Raises:
            OutOfRangeError: If the package has no rate for the next step.
            UnsupportedError: If it is set although there are several rates.
        """
        return float(self.builder.rates()[0].flat[0])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.builder.set_rate(as_rate("learning_rate", rate))

    # --- training -----------------------------------------------------------------------------------------------------

    def train_step(self, x: Any, y: Any = None, sample_weight: Any = None, *, copy: bool = False) -> StepResult:
        """Train on one batch, like Trainer.train_step. Returns at once; `float(result)` waits for the loss.

        Args:
            x: Inputs, an array (batch, ...) or a structure of arrays, in the form in which the trainer accepted them.
            y: Labels, an array (batch, ...) or a structure of arrays. Defaults to none.
            sample_weight: Weights (batch,), or a structure with weights for each output. Defaults to none.
            copy: Whether to copy the arrays; otherwise, they must stay unchanged until the step is done. Defaults to
                False.

        Returns:
            The StepResult.

        Raises:
            GraphError: If the structure differs from that of the trainer's batches.
            ShapeError: If an axis that always had the same size has a different size.
            DTypeError: If a dtype differs.
            OutOfRangeError: If the package has no learning rate for the step.
        """
        if not isinstance(copy, bool):
            refuse("TrainableModel.train_step: copy", bool, copy)
        state, builder = self.state, self.builder
        state.require_own_weights("TrainableModel.train_step")
        state.steps.make_room(state.accumulation)
        batch = checked_batch(x, y, sample_weight)
        if copy:
            batch = batch.copy()
        arrays, rates = batch.arrays(), builder.rates()
        executable, built = builder.step_for(batch)
        result = StepResult(executable.run_async((*rates, *arrays)), built.names)
        state.steps.add(result, arrays)
        return result

    def wait(self) -> None:
        """Wait for all steps that have been started. Raise the error of any step that failed."""
        self.state.steps.wait()

    @checked
    def fit(
        self,
        data: Any,
        labels: Any = None,
        *,
        epochs: Size | None = None,
        iterations: Size | None = None,
        validation: Any = None,
        steps_per_epoch: Size | None = None,
        batch_size: Size = 64,
        sample_weight: Any = None,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
        copy: bool | None = None,
    ) -> History:
        """Train for some epochs or iterations, like Trainer.fit.

        Data is shuffled with the trainer's seed; the order starts from its beginning, not where the trainer stopped.

        Args:
            data: Arrays of inputs, with labels in the next argument; a tuple (inputs, labels) or (inputs, labels,
                weights); or an iterable of such batches, for example mg.data.batches(...). Inputs, labels, and weights
                may be tuples or dicts of arrays.
            labels: Labels, if data are arrays.
            epochs: Number of epochs. Defaults to 1.
            iterations: Number of steps, instead of epochs.
            validation: Data to evaluate after each epoch, in the same forms. Defaults to none.
            steps_per_epoch: Number of batches per epoch, for iterables without an end.
            batch_size: Number of samples per batch, for arrays. Defaults to 64.
            sample_weight: Weights (samples,), if data are arrays. Defaults to none.
            callbacks: Callbacks of mpsgraph.training.callbacks.
            progress: Whether to print a line per epoch; see Trainer.fit. Defaults to True.
            copy: Whether each step gets copies of its arrays; see Trainer.fit.

        Returns:
            The history, including earlier steps made with this object.

        Raises:
            GraphError: If the structure differs from that of the trainer's batches, or there is no data.
            ShapeError: If an axis that always had the same size has a different size.
            DTypeError: If a dtype differs.
            OutOfRangeError: If the package has no learning rate for a step.
        """
        require_labels("TrainableModel.fit", labels)
        fit = Fit(self, data, labels, sample_weight, None, batch_size, validation, None)
        return fit.run(epochs or 1, iterations, steps_per_epoch, callbacks, progress, copy)

    @checked
    def stop(self, reason: str = "asked to") -> None:
        """Stop the current `fit` after the current step. Callbacks call this.

        Args:
            reason: Reason, stored in `stopped`. Defaults to "asked to".
        """
        self.stopped = reason

    @property
    def optimizer(self) -> Any:
        """Raises UnsupportedError: a package contains an optimizer's operations, but no optimizer object."""
        raise UnsupportedError("a package contains no optimizer object to change: set learning_rate instead")

    # --- evaluation ---------------------------------------------------------------------------------------------------

    @checked
    def evaluate(
        self, data: Any, labels: Any = None, batch_size: Size = 256, *, sample_weight: Any = None
    ) -> dict[str, float]:
        """Return the mean loss and metrics over data, in inference mode.

        Args:
            data: Arrays of inputs, with labels in the next argument; a tuple (inputs, labels) or (inputs, labels,
                weights); or an iterable of such batches, for example mg.data.batches(...). Inputs, labels, and weights
                may be tuples or dicts of arrays.
            labels: Labels, if data are arrays.
            batch_size: Number of samples per batch, for arrays. Defaults to 256.
            sample_weight: Weights (samples,), if data are arrays. Defaults to none.

        Returns:
            A dict of numbers, keyed by name.

        Raises:
            UnsupportedError: If the trainer had a custom training step and was saved before it had evaluated.
            GraphError: If there is no data, or its structure differs from that of the trainer's batches.
        """
        if not self.builder.last_built.evaluation:
            raise UnsupportedError(
                "the package contains no evaluation: its trainer had a custom training_step and was saved before "
                "evaluating"
            )
        return evaluation.evaluate(self.builder, data, labels, sample_weight, batch_size)

    @checked
    def predict(self, data: Any, batch_size: Size = 256) -> Any:
        """Return the outputs of the model in inference mode.

        Args:
            data: Inputs as an array, or a tuple or dict of arrays; or an iterable of batches, whose labels are ignored.
            batch_size: Number of samples per batch, for arrays. Defaults to 256.

        Returns:
            Arrays (samples, ...) in the structure of the model's outputs.

        Raises:
            GraphError: If there is no data, or its structure differs from that of the trainer's batches.
        """
        return evaluation.predict(self.builder, data, batch_size)

    @property
    def device(self) -> None:
        """None, the default device, on which the graph of a package runs."""
        return None

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Replace the weights by their moving averages within a `with` block, like Trainer.averaged_weights.

        Within the block, the model cannot train or be saved, and weights cannot be set.

        Raises:
            GraphError: If the trainer had no ema_decay, or had not trained before it was saved; at the end of the
                block, if weights have been set in it.

        Example:
            >>> import os, tempfile
            >>> trainer, x = mg.Trainer(mg.nn.Linear(1), "mse", ema_decay=0.5), np.ones((4, 2), np.float32)
            >>> _ = trainer.fit(x, x[:, :1], progress=False)
            >>> path = os.path.join(tempfile.mkdtemp(), "trained.mpsgraph")
            >>> mg.save(path, trainer)
            >>> model = mg.load(path)
            >>> with model.averaged_weights():
            ...     found = model.evaluate(x, x[:, :1])
        """
        absent = "there are no averaged weights: the trainer was created without ema_decay, or had not trained yet"
        with self.state.averages_in_place(absent):
            yield

    # --- saving and restoring -----------------------------------------------------------------------------------------

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of the values of the model's parameters and buffers, as a dict keyed by path."""
        self.wait()
        return self.state.weights()

    @checked
    def set_weights(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the values of the model's parameters and buffers.

        Args:
            values: Dict of arrays, keyed by path, as returned by `weights`.

        Raises:
            GraphError: If the paths differ from the model's.
            ShapeError: If a shape differs.
            DTypeError: If a dtype differs.
        """
        self.state.require_own_weights("TrainableModel.set_weights")
        self.state.set_weights("set_weights", values)

    @checked
    def save(self, path: str | os.PathLike[str], *, locations: bool = False) -> None:
        """Save the package with its current state; see mpsgraph.save.

        Args:
            path: Path of the package.
            locations: Whether to store where operations were created in the source. Defaults to False.
        """
        self.state.require_own_weights("TrainableModel.save")
        self.wait()
        g = self.graph
        _core.save_package(
            os.fspath(path), g, self.inputs, self.outputs, self.parameters, g.trainable_variables, g.on(),
            locations, self._functions, self._training,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<TrainableModel ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}), step {self.step}>"
