"""TrainableModel: an opened package of a trainer, which continues training where the trainer was saved, bit for bit.

The package contains the graph but no modules, so the program that created the trainer is not needed. `package.py`
defines the contents of a package.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from .. import _core
from .._checks import Size, checked, refuse
from .._core import Executable, Tensor
from ..errors import GraphError, OutOfRangeError, PackageError, UnsupportedError
from ..graph import Graph
from ..model import Model
from ..nn.state import fitting, slot_of
from ..optim.schedules import as_rate
from . import evaluation
from .batch import Batch, checked_batch, require_labels
from .callbacks import Callback
from .fitting import Fit
from .history import History
from .objective import Term
from .sizes import Sizes, notice_size
from .step import Built, from_json
from .step_result import StepResult
from .steps_in_flight import StepsInFlight
from .structure import mapped, refilled
from .variables import averages_in_place


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
        self._functions: dict[str, Any] = dict(contents.functions(graph))
        self._training: dict[str, Any] = dict(contents.training(graph))
        self.history = History()
        """History of the steps made with this object."""
        self.stopped: str | None = None
        self._last_step: tuple[Any, Executable, Built] | None = None
        self._data: Any = None
        self._partnership = None  # A package trains in a single process.
        self._fit: Any = None
        self._builts: dict[Any, Built] = {}  # The step comes from the package, so nothing is built.
        self._resumed: dict[str, Any] = {}
        self._data_state: dict[str, int] | None = None
        self._sizes = Sizes()
        self._averaged = 0  # Number of nested averaged_weights blocks.
        self._every: int = self._training["every"]
        self._steps = StepsInFlight()
        try:
            self._understand(json.loads(self._training["description"]))
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise PackageError(f"the package's description of its training step is damaged: {error!r}") from error
        self.history.seed = self.seed
        self._read_clock()

    def _understand(self, described: Mapping[str, Any]) -> None:
        """Read the parts of the description that only Python uses, such as the seed and the paths of the weights."""
        self.seed: int = described["seed"]
        variables = self.parameters
        self._weights = {path: variables[path] for path in described["weights"]}
        self._averages = {variables[v]: variables[average] for v, average in described["averages"]}
        inputs, outputs, _ = self._functions["train_step"]
        self._rates: list[Tensor] = [inputs[name] for name in self._training["rates"]]
        placeholders = [tensor for name, tensor in inputs.items() if name not in self._training["rates"]]
        self._built = self._as_built(described, placeholders, outputs)
        self._outputs_structure = refilled(from_json(described["outputs"]), list(self.outputs.values()))

    def _as_built(
        self, described: Mapping[str, Any], placeholders: list[Tensor], outputs: Mapping[str, Tensor]
    ) -> Built:
        """Return the package's step as a Built object, so that the code for trainers can evaluate and fit it."""
        structures = [from_json(part) for part in described["batch"]]
        rest = iter(placeholders)
        inputs, labels, weights = (mapped(lambda _: next(rest), structure) for structure in structures)
        names = list(self._training["results"])
        step_counts = described.get("step_counts", {})
        counts = {name: outputs[count] for name, count in step_counts.items()}
        known = [*names, *step_counts.values()]
        others = [tensor for name, tensor in outputs.items() if name not in known]
        built = Built(inputs, labels, weights, [outputs[name] for name in names], names, others)
        built.counts, built.shares = counts, described.get("step_shares", {})
        if "evaluate" in self._functions:
            found, counts = self._functions["evaluate"][1], described["counts"]
            kept = {name: tensor for name, tensor in found.items() if name not in counts.values()}
            shares = described.get("shares", {})
            built.evaluation = [
                Term(name, tensor, found[counts[name]] if name in counts else None, shares.get(name))
                for name, tensor in kept.items()
            ]
        return built

    # --- step count and learning rates --------------------------------------------------------------------------------

    def _read_clock(self) -> None:
        """Read the step counter and the learning-rate tables from the graph."""
        counts = [self._training[name] for name in ("step", "first_update", "last_row")]
        values = self.graph.variable_values([*counts, *self._training["tables"]])
        self._steps.made, self._first, self._last = map(int, values[:3])
        self._tables = values[3:]

    @property
    def step(self) -> int:
        """Number of batches trained on so far, including those before the package was saved.

        Steps that raised an error are not counted.
        """
        return self._steps.made

    @property
    def accumulation(self) -> int:
        """Number of batches whose mean gradient is used for one update."""
        return self._every

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step. Setting it replaces the rates of all further steps.

        Raises:
            OutOfRangeError: If the package has no rate for the next step.
            UnsupportedError: If it is set although there are several rates.
        """
        return float(self._rates_now()[0].flat[0])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        rate = as_rate("learning_rate", rate)
        if len(self._tables) != 1 or self._tables[0].ndim != 1:
            raise UnsupportedError(
                "learning_rate cannot be set: the package has several rates, for parameter groups or optimizers"
            )
        self.wait()
        table = self._training["tables"][0]
        self.graph.set_variables({table: np.full_like(self._tables[0], rate), self._training["last_row"]: np.int32(0)})
        self._read_clock()

    def _rates_now(self) -> list[np.ndarray]:
        update = self._steps.made // self._every
        row = min(update - self._first, self._last)
        if any(not 0 <= row < len(table) for table in self._tables):
            raise OutOfRangeError(
                f"the package has no learning rate for update {update}: it stores "
                f"{len(self._tables[0])} rates from update {self._first}: set learning_rate, or save the trainer with "
                "a larger number of updates"
            )
        return [table[row] if table.ndim > 1 else np.asarray(table[row]) for table in self._tables]

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
        self._require_own_weights("train_step")
        self._steps.make_room(self._every)
        batch = checked_batch(x, y, sample_weight)
        if copy:
            batch = batch.copy()
        arrays, rates = batch.arrays(), self._rates_now()
        executable = self._step_for(batch)
        result = StepResult(executable.run_async((*rates, *arrays)), self._built.names)
        self._steps.add(result, arrays)
        return result

    def _step_for(self, batch: Batch) -> Executable:
        applying = (self._steps.made + 1) % self._every == 0
        key = batch.shapes(), applying
        if self._last_step is None or self._last_step[0] != key:
            notice_size(self, batch.shapes())
            built = self._built_for(batch)
            inputs, outputs, operations = self._functions["train_step" if applying else "accumulate"]
            feeds: dict[Tensor, tuple[Any, ...]] = {rate: (rate.dtype, tuple(rate.shape or ())) for rate in self._rates}
            feeds |= {t: (t.dtype, a.shape) for t, a in zip(built.placeholders, batch.arrays(), strict=True)}
            executable = self.graph.on().compile(feeds, list(outputs.values()), operations)
            self._last_step = key, executable, built
        return self._last_step[1]

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
        if not self._built.evaluation:
            raise UnsupportedError(
                "the package contains no evaluation: its trainer had a custom training_step and was saved before "
                "evaluating"
            )
        return evaluation.evaluate(self, data, labels, sample_weight, batch_size, None)

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
        return evaluation.predict(self, data, batch_size)

    @property
    def device(self) -> None:
        """None, the default device, on which the graph of a package runs."""
        return None

    @property
    def _has_averages(self) -> bool:
        return bool(self._averages) and self._steps.made >= self._every

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
        if not self._has_averages:
            raise GraphError(
                "there are no averaged weights: the trainer was created without ema_decay, or had not trained yet"
            )
        self.wait()
        self._averaged += 1
        try:
            with averages_in_place(self.graph, self._averages):
                yield
        finally:
            self._averaged -= 1

    def _require_own_weights(self, what: str) -> None:
        """Raise GraphError within a block of averaged_weights, where changes of the state would be lost."""
        if self._averaged:
            raise GraphError(
                f"TrainableModel.{what} cannot be used within averaged_weights(), where the averages replace the "
                "weights that are trained: call it outside of the block"
            )

    def _average_values(self) -> dict[str, np.ndarray]:
        """Return copies of the moving averages, as a dict keyed by the path of the parameter."""
        averages = {path: self._averages[v] for path, v in self._weights.items() if v in self._averages}
        return dict(zip(averages, self.graph.variable_values(averages.values()), strict=True))

    def _set_average_values(self, values: Mapping[str, np.ndarray]) -> None:
        """Set the moving averages of the parameters with the given paths."""
        weights = self._weights.items()
        self.graph.set_variables(
            {self._averages[v]: values[path] for path, v in weights if path in values and v in self._averages}
        )

    # --- saving and restoring -----------------------------------------------------------------------------------------

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of the values of the model's parameters and buffers, as a dict keyed by path."""
        self.wait()
        return dict(zip(self._weights, self.graph.variable_values(self._weights.values()), strict=True))

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
        self._require_own_weights("set_weights")
        if values.keys() != self._weights.keys():
            raise GraphError(
                f"set_weights: values must have the paths {', '.join(self._weights)}, got {', '.join(values) or 'none'}"
            )
        slots = {path: slot_of(variable) for path, variable in self._weights.items()}
        fitted, _ = fitting("set_weights", slots, values, strict=True)
        self.wait()
        self.graph.set_variables({self._weights[path]: value for path, value in fitted.items()})

    @checked
    def save(self, path: str | os.PathLike[str], *, locations: bool = False) -> None:
        """Save the package with its current state; see mpsgraph.save.

        Args:
            path: Path of the package.
            locations: Whether to store where operations were created in the source. Defaults to False.
        """
        self._require_own_weights("save")
        self.wait()
        g = self.graph
        _core.save_package(
            os.fspath(path), g, self.inputs, self.outputs, self.parameters, g.trainable_variables, g.on(),
            locations, self._functions, self._training,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<TrainableModel ({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}), step {self.step}>"

    # --- attributes of a trainer that evaluation uses -----------------------------------------------------------------

    def _undone_by_errors(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _require_model(self) -> None:
        self.wait()

    def _follow_settings(self) -> None:
        """Do nothing: the step of a package is fixed."""

    def _built_for(self, batch: Batch) -> Built:
        own = self._built
        for what, part, known in zip(("inputs", "labels", "weights"), batch.parts, _parts(own), strict=True):
            _require_structure(what, known, part)
        return own

    def _runner(self) -> Any:
        return self.graph.on(self.device)

    def _prediction_inputs_for(self, inputs: Any) -> Any:
        _require_structure("inputs", self._built.inputs, inputs)
        return self._built.inputs

    def _inference(self, inputs: Any) -> Any:
        return self._outputs_structure


def _parts(built: Built) -> tuple[Any, Any, Any]:
    return built.inputs, built.labels, built.weights


def _require_structure(what: str, known: Any, given: Any) -> None:
    """Raise GraphError if a batch does not have the structure of the step's placeholders."""
    if (known is None) != (given is None):
        raise GraphError(
            f"the package's training step {'does not take' if known is None else 'needs'} {what}: pass batches with "
            "the structure of those that the trainer was trained with"
        )
    mapped(
        lambda placeholder, array: None,
        known,
        given,
        what=f"{what} must have the structure of the trainer's batches",
    )
