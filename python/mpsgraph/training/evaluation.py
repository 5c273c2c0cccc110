"""Evaluation and prediction: running a trainer's model over data in inference mode."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from .._core import NDArray, Tensor
from .._display import shown
from ..errors import GraphError
from ..nn.metrics import Accumulated
from .batch import Batch, as_batch, as_source, checked_batch, is_whole
from .means import Means
from .objective import Objective, Part, Term, shares_of
from .roles import Evaluates
from .step import Built
from .structure import leaves, mapped, refilled


class Evaluation:
    """The losses and metrics of one evaluation, accumulated over batches."""

    def __init__(self, builder: Evaluates) -> None:
        self._builder, self._means = builder, Means()
        self._accumulated: dict[str, Accumulated] = {}

    def add(self, batch: Batch, built: Built, terms: list[Term], parts: list[Part]) -> None:
        """Add the results of one batch to the means, and update the accumulated metrics."""
        builder = self._builder
        counted = list({id(t.counted): t.counted for t in terms if t.counted is not None}.values())
        given = [(f"{p.name}_" if p.name else "", p) for p in parts if p.accumulated]
        targets = [*(t.value for t in terms), *counted, *(p.output for _, p in given)]
        runner = builder.runner()
        builder.sizes.notice(("evaluate", batch.shapes()), runner)
        results = runner.run(dict(zip(built.placeholders, batch.arrays(), strict=True)), targets)
        in_all = {id(t): float(r) for t, r in zip(counted, results[len(terms) :], strict=False)}
        values = {term.name: float(result) for term, result in zip(terms, results, strict=False)}
        counts = {term.name: in_all[id(term.counted)] for term in terms if term.counted is not None}
        self._means.add(values, counts, len(batch), shares_of(terms))
        arrays = {id(t): a for t, a in zip(built.placeholders, batch.arrays(), strict=True)}
        for (before, part), output in zip(given, results[len(terms) + len(counted) :], strict=True):
            own = labels_of(part, arrays)
            for name, metric in part.accumulated.items():
                if before + name not in self._accumulated:
                    metric.reset()
                    self._accumulated[before + name] = metric
                metric.update(output.numpy(), own)

    def results(self) -> dict[str, float]:
        """Return the results, keyed by name. Raise GraphError if there were no batches."""
        if not self._means.sums:
            raise GraphError("Trainer.evaluate: data contains no batches")
        return self._means.result() | {name: metric.result() for name, metric in self._accumulated.items()}


def evaluate(
    builder: Evaluates, data: Any, labels: Any, weights: Any, batch_size: int, objective: Objective | None = None
) -> dict[str, float]:
    """Evaluate a trainer; see Trainer.evaluate.

    Args:
        builder: The trainer's builder.
        data: Inputs, or batches.
        labels: Labels, if data are arrays.
        weights: Sample weights, if data are arrays.
        batch_size: Number of samples per batch, for arrays.
        objective: Loss and metrics to use instead of the trainer's.
    """
    builder.require_model()
    builder.follow_settings()
    evaluation = Evaluation(builder)
    for value in as_source(data, labels, weights, batch_size, shuffle=False, seed=0, converted=builder.converted):
        batch = builder.converted(as_batch(value))
        with builder.undone_by_errors():
            built = builder.built_for(batch)
        terms, parts = builder.evaluation_of(built, objective)
        evaluation.add(batch, built, terms, parts)
    return evaluation.results()


def objective_with(objective: Objective, metrics: Any) -> Objective | None:
    """Return an objective with other metrics, or None if `metrics` is None."""
    if metrics is None:
        return None
    if not isinstance(metrics, (Sequence, Mapping)) or isinstance(metrics, str):
        raise GraphError(
            "Trainer.evaluate: metrics must be a list of metrics, or a dict of metrics keyed by output name, got "
            f"{shown(metrics)}"
        )
    return Objective(objective.loss, objective.loss_weights, metrics)


def labels_of(part: Part, arrays: Mapping[int, Any]) -> np.ndarray:
    """Return the label array of one output. Raise GraphError if the labels are several arrays."""
    if not isinstance(part.given, Tensor):
        raise GraphError("accumulated metrics need labels in a single array for each output, got a structure of arrays")
    return np.asarray(arrays[id(part.given)])


def predict(builder: Evaluates, data: Any, batch_size: int) -> Any:
    """Predict with a trainer; see Trainer.predict."""
    builder.require_model()
    builder.follow_settings()
    outputs: Any = None
    parts: list[list[np.ndarray]] = []
    for value in _inputs(data, batch_size):
        inputs = builder.converted(Batch(value)).inputs
        with builder.undone_by_errors():
            placeholders = builder.prediction_inputs_for(inputs)
            outputs = builder.inference(placeholders)
        arrays, runner = leaves(inputs), builder.runner()
        builder.sizes.notice([array.shape for array in arrays], runner)
        if len(arrays) == 1 and isinstance(inputs, np.ndarray) and isinstance(outputs, Tensor):
            builder.remember_predictor(inputs, placeholders, outputs, batch_size)
        results = runner.run(dict(zip(leaves(placeholders), arrays, strict=True)), leaves(outputs))
        parts.append([result.numpy() for result in results])
    if not parts:
        raise GraphError("Trainer.predict: data contains no batches")
    joined = [np.concatenate(arrays) if len(arrays) > 1 else arrays[0] for arrays in zip(*parts, strict=True)]
    return refilled(outputs, joined)


def _inputs(data: Any, batch_size: int) -> Iterable[Any]:
    """Yield the inputs of each batch. Whole arrays are divided into batches."""
    numbers = isinstance(data, Sequence) and bool(data) and not isinstance(data[0], (np.ndarray, NDArray, tuple, dict))
    if not (is_whole(data) or hasattr(data, "to_numpy") or not hasattr(data, "__iter__") or numbers):
        for value in data:
            yield as_batch(value).inputs
        return
    data = checked_batch(data).inputs
    length = leaves(data)[0].shape[0]
    data = mapped(lambda a: a.numpy() if isinstance(a, NDArray) else a, data)
    for start in range(0, max(length, 1), batch_size):
        yield mapped(lambda a, s=start: a[s : s + batch_size], data)


# --- metrics of an evaluation -----------------------------------------------------------------------------------------


def key_of_metrics(parts: Sequence[Part]) -> list[Any]:
    """Return a key that is equal for parts whose metrics compute the same results."""
    return [[(name, _identity(metric)) for name, metric in part.metrics.items()] for part in parts]


def _identity(metric: Any) -> Any:
    """Return a key that is equal for metrics that compute the same result.

    A function that each call of its enclosing function defines again, such as a lambda, has the same key if its code,
    its defaults, and the captured values are the same.
    """
    if isinstance(metric, functools.partial):
        return _identity(metric.func), metric.args, metric.keywords
    if isinstance(metric, FunctionType):
        cells = [cell.cell_contents for cell in metric.__closure__ or ()]
        return metric.__code__, metric.__defaults__, metric.__kwdefaults__, [_Same(value) for value in cells]
    return _Same(metric)


class _Same:
    """Key of a value: equal to keys of the same object and, for plain values, of equal values of the same type."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return False
        plain = isinstance(self.value, (bool, int, float, str)) and type(self.value) is type(other.value)
        return self.value is other.value or (plain and self.value == other.value)

    __hash__ = None  # type: ignore[assignment]
