"""PackagedStep: the training step, evaluation, and prediction that a package contains, in the role of a builder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from .._core import DeviceGraph, Executable, Operation, Tensor
from ..errors import GraphError, OutOfRangeError, UnsupportedError
from ..graph import Graph
from ..model import Model
from .batch import Batch
from .forms import from_json
from .objective import Objective, Part, Term
from .sizes import Sizes
from .state import TrainingState
from .step import Built
from .structure import mapped, refilled

Function = tuple[Mapping[str, Tensor], Mapping[str, Tensor], list[Operation]]
"""Inputs, outputs, and operations of a function of the package."""


class PackagedWeights:
    """The weights of the model in a package, keyed by their paths in the trainer's model."""

    def __init__(self, graph: Graph, weights: dict[str, Tensor]) -> None:
        self.graph, self._weights = graph, weights

    def named_variables(self) -> dict[str, Tensor]:
        """Return parameters and buffers, keyed by path."""
        return self._weights

    def named_parameters(self) -> Iterable[tuple[str, Tensor]]:
        """Yield the trainable parameters, with their paths."""
        trainable = set(self.graph.trainable_variables)
        return ((path, v) for path, v in self._weights.items() if v in trainable)


class PackagedStep:
    """The fixed operations of a package.

    Args:
        model: The package as a model, with inputs and outputs for predictions.
        functions: The package's functions, keyed by name.
        training: The package's description of the training.
    """

    def __init__(self, model: Model, functions: Mapping[str, Function], training: dict[str, Any]) -> None:
        described = json.loads(training["description"])
        variables = model.parameters
        self._graph, self._functions, self._training = model.graph, functions, training
        weights = PackagedWeights(model.graph, {path: variables[path] for path in described["weights"]})
        self.state = TrainingState(weights, described["seed"], accumulation=training["every"])
        self.state.averages = {variables[v]: variables[average] for v, average in described["averages"]}
        self.sizes = Sizes()
        self._last: tuple[Any, Executable] | None = None  # Shapes and kind of the last step, and its executable.
        inputs, outputs, _ = functions["train_step"]
        self._rates: list[Tensor] = [inputs[name] for name in training["rates"]]
        placeholders = [tensor for name, tensor in inputs.items() if name not in training["rates"]]
        self._built = self._as_built(described, placeholders, outputs)
        self._outputs = refilled(from_json(described["outputs"]), list(model.outputs.values()))
        self._read_clock()

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
        values = self.state.values([*counts, *self._training["tables"]])
        self.state.steps.made, self._first_update, self._last_row = (int(value) for value in values[:3])
        self._tables = values[3:]

    def rates(self) -> list[np.ndarray]:
        """Return the learning rates to feed to the next step."""
        update = self.state.updates
        row = min(update - self._first_update, self._last_row)
        if any(not 0 <= row < len(table) for table in self._tables):
            raise OutOfRangeError(
                f"the package has no learning rate for update {update}: it stores {len(self._tables[0])} rates from "
                f"update {self._first_update}: set learning_rate, or save the trainer with a larger number of updates"
            )
        return [table[row] if table.ndim > 1 else np.asarray(table[row]) for table in self._tables]

    def set_rate(self, rate: float) -> None:
        """Replace the learning rates of all further steps."""
        if len(self._tables) != 1 or self._tables[0].ndim != 1:
            raise UnsupportedError(
                "learning_rate cannot be set: the package has several rates, for parameter groups or optimizers"
            )
        self.state.steps.wait()
        table = self._training["tables"][0]
        self.state.set_values({table: np.full_like(self._tables[0], rate), self._training["last_row"]: np.int32(0)})
        self._read_clock()

    # --- the role of a builder ----------------------------------------------------------------------------------------

    @property
    def last_built(self) -> Built:
        """The operations of the step."""
        return self._built

    def all_built(self) -> list[Built]:
        """Return an empty list: the step comes from the package, so nothing is built."""
        return []

    def step_for(self, batch: Batch) -> tuple[Executable, Built]:
        """Return the executable of a step for a batch, and the operations of the step."""
        applying, built = self.state.applies_next, self._built
        key = batch.shapes(), applying
        if self._last is None or self._last[0] != key:
            self.sizes.notice(batch.shapes(), self.runner())
            self.built_for(batch)
            _, outputs, operations = self._functions["train_step" if applying else "accumulate"]
            feeds: dict[Tensor, tuple[Any, ...]] = {rate: (rate.dtype, tuple(rate.shape or ())) for rate in self._rates}
            feeds |= {t: (t.dtype, a.shape) for t, a in zip(built.placeholders, batch.arrays(), strict=True)}
            self._last = key, self._graph.on().compile(feeds, list(outputs.values()), operations)
        return self._last[1], built

    def require_model(self) -> None:
        """Wait for the steps in flight, and raise the error of one that failed."""
        self.state.steps.wait()

    def follow_settings(self) -> None:
        """Do nothing: the step of a package is fixed."""

    def undone_by_errors(self) -> AbstractContextManager[None]:
        """Return a context manager that does nothing: the step of a package is fixed."""
        return nullcontext()

    def converted(self, batch: Batch) -> Batch:
        """Return the batch as it is: packages accept only the dtypes that the trainer was trained with."""
        return batch

    def built_for(self, batch: Batch) -> Built:
        """Return the operations of the step. Raise GraphError if a batch does not have their structure."""
        built = self._built
        for what, part, known in zip(
            ("inputs", "labels", "weights"), batch.parts, (built.inputs, built.labels, built.weights), strict=True
        ):
            _require_structure(what, known, part)
        return built

    def evaluation_of(self, built: Built, objective: Objective | None = None) -> tuple[list[Term], list[Part]]:
        """Return the losses and metrics in inference mode."""
        return built.evaluation, built.evaluated

    def prediction_inputs_for(self, inputs: Any) -> Any:
        """Return placeholders for the inputs of predictions."""
        _require_structure("inputs", self._built.inputs, inputs)
        return self._built.inputs

    def inference(self, inputs: Any) -> Any:
        """Return the outputs of the model in inference mode."""
        return self._outputs

    def remember_predictor(self, inputs: np.ndarray, placeholder: Tensor, output: Tensor, batch_size: int) -> None:
        """Do nothing: predictions of packages check their arguments each time."""

    def runner(self) -> DeviceGraph:
        """Return the object that runs the graph on the default device."""
        return self._graph.on()


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
