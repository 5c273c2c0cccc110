"""Evaluation and prediction: running a trainer's model over data in inference mode."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from .._core import NDArray, Tensor
from .._display import shown
from ..errors import GraphError
from ..model import Model
from .batch import Batch, as_batch, as_source, checked_batch, in_dtype_of, is_whole
from .means import Means
from .objective import Objective, Part, Term, shares_of
from .sizes import notice_size
from .step import Built
from .structure import leaves, mapped, named_leaves, refilled
from .trainer_type import Trainer


def build(trainer: Trainer, built: Built) -> None:
    """Build the losses and metrics of the model in inference mode, and store them in `built`."""
    outputs = trainer._inference(built.inputs)
    built.evaluated = trainer.objective.parts(outputs, built.labels)
    built.evaluation = trainer.objective.terms(built.evaluated, built.weights, trainer._added)


def _with_metrics(trainer: Trainer, built: Built, objective: Objective) -> tuple[list[Term], list[Part]]:
    """Return the losses and metrics of another objective, building them on the first request."""
    outputs = trainer._inference(built.inputs)
    parts = objective.parts(outputs, built.labels)
    key = [[(name, _identity(metric)) for name, metric in part.metrics.items()] for part in parts]
    for known, terms in built.others:
        if known == key:
            return terms, parts
    terms = objective.terms(parts, built.weights, trainer._added)
    built.others.append((key, terms))
    return terms, parts


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


def evaluate(trainer: Trainer, data: Any, labels: Any, weights: Any, batch_size: int, metrics: Any) -> dict[str, float]:
    """Evaluate a trainer; see Trainer.evaluate."""
    trainer._require_model()
    trainer._follow_settings()
    objective = None
    if metrics is not None:
        if not isinstance(metrics, (Sequence, Mapping)) or isinstance(metrics, str):
            raise GraphError(
                "Trainer.evaluate: metrics must be a list of metrics, or a dict of metrics keyed by output name, got "
                f"{shown(metrics)}"
            )
        objective = Objective(trainer.loss, trainer.objective.loss_weights, metrics)
    means = Means()
    accumulated: dict[str, Any] = {}
    for value in as_source(data, labels, weights, batch_size, shuffle=False, seed=0, trainer=trainer):
        batch = in_dtype_of(trainer, as_batch(value))
        with trainer._undone_by_errors():
            built = trainer._built_for(batch)
        if objective is not None:
            terms, parts = _with_metrics(trainer, built, objective)
        else:
            if not built.evaluation:
                build(trainer, built)
            terms, parts = built.evaluation, built.evaluated
        _add(trainer, batch, built, terms, parts, means, accumulated)
    if not means.sums:
        raise GraphError("Trainer.evaluate: data contains no batches")
    return means.result() | {name: metric.result() for name, metric in accumulated.items()}


def _add(
    trainer: Trainer,
    batch: Batch,
    built: Built,
    terms: list[Term],
    parts: list[Part],
    means: Means,
    accumulated: dict[str, Any],
) -> None:
    """Add the results of one batch to the means, and update the accumulated metrics."""
    counted = list({id(t.counted): t.counted for t in terms if t.counted is not None}.values())
    given = [(f"{p.name}_" if p.name else "", p) for p in parts if p.accumulated]
    targets = [*(t.value for t in terms), *counted, *(p.output for _, p in given)]
    notice_size(trainer, ("evaluate", batch.shapes()))
    feeds = dict(zip(built.placeholders, batch.arrays(), strict=True))
    results = trainer._runner().run(feeds, targets)
    in_all = {id(t): float(r) for t, r in zip(counted, results[len(terms) :], strict=False)}
    values = {term.name: float(result) for term, result in zip(terms, results, strict=False)}
    counts = {term.name: in_all[id(term.counted)] for term in terms if term.counted is not None}
    means.add(values, counts, len(batch), shares_of(terms))
    arrays = {id(t): a for t, a in zip(built.placeholders, batch.arrays(), strict=True)}
    for (before, part), output in zip(given, results[len(terms) + len(counted) :], strict=True):
        own = labels_of(part, arrays)
        for name, metric in part.accumulated.items():
            if before + name not in accumulated:
                metric.reset()
                accumulated[before + name] = metric
            metric.update(output.numpy(), own)


def labels_of(part: Part, arrays: Mapping[int, Any]) -> np.ndarray:
    """Return the label array of one output. Raise GraphError if the labels are several arrays."""
    if not isinstance(part.given, Tensor):
        raise GraphError("accumulated metrics need labels in a single array for each output, got a structure of arrays")
    return np.asarray(arrays[id(part.given)])


def predict(trainer: Trainer, data: Any, batch_size: int) -> Any:
    """Predict with a trainer; see Trainer.predict."""
    trainer._require_model()
    trainer._follow_settings()
    outputs: Any = None
    parts: list[list[np.ndarray]] = []

    def run(inputs: Any) -> None:
        nonlocal outputs
        inputs = in_dtype_of(trainer, Batch(inputs)).inputs
        with trainer._undone_by_errors():
            placeholders = trainer._prediction_inputs_for(inputs)
            outputs = trainer._inference(placeholders)
        arrays = leaves(inputs)
        notice_size(trainer, [array.shape for array in arrays])
        feeds = dict(zip(leaves(placeholders), arrays, strict=True))
        if len(arrays) == 1 and isinstance(inputs, np.ndarray) and isinstance(outputs, Tensor):
            _remember(trainer, inputs, placeholders, outputs, batch_size)
        results = trainer._runner().run(feeds, leaves(outputs))
        parts.append([result.numpy() for result in results])

    whole = is_whole(data) or hasattr(data, "to_numpy")
    if whole or not hasattr(data, "__iter__") or _is_numbers(data):
        data = checked_batch(data).inputs
        length = leaves(data)[0].shape[0]
        data = mapped(lambda a: a.numpy() if isinstance(a, NDArray) else a, data)
        for start in range(0, max(length, 1), batch_size):
            run(mapped(lambda a, s=start: a[s : s + batch_size], data))
    else:
        for value in data:
            run(as_batch(value).inputs)
    if not parts:
        raise GraphError("Trainer.predict: data contains no batches")
    joined = [np.concatenate(arrays) if len(arrays) > 1 else arrays[0] for arrays in zip(*parts, strict=True)]
    return refilled(outputs, joined)


_FAST = 32
"""Number of shapes of single arrays whose predictions skip all checks."""


def _remember(trainer: Trainer, inputs: np.ndarray, placeholder: Tensor, output: Tensor, batch_size: int) -> None:
    """Store the executable for a single array of inputs, with which Trainer.predict begins."""
    fast = getattr(trainer, "_fast", None)
    if fast is None or trainer._on_engine is not None or trainer._averaged or len(inputs) > batch_size:
        return
    if len(fast) >= _FAST:
        fast.clear()
    feeds = {placeholder: (placeholder.dtype, tuple(inputs.shape))}
    executable = trainer.graph.on(trainer.device).compile(feeds, [output], [])
    fast[inputs.shape, inputs.dtype, batch_size] = output, executable


def _is_numbers(data: Any) -> bool:
    return isinstance(data, Sequence) and bool(data) and not isinstance(data[0], (np.ndarray, NDArray, tuple, dict))


def model_of(trainer: Trainer) -> Model:
    """Return the trainer's graph with its inputs and outputs for predictions, each with a name."""
    inputs = trainer._inputs if trainer._prediction_inputs is None else trainer._prediction_inputs
    outputs = trainer._inference(inputs)

    def named(structure: Any, alone: str) -> dict[str, Tensor]:
        return {path or alone: tensor for path, tensor in named_leaves(structure)}

    return Model(trainer.graph, named(inputs, "inputs"), named(outputs, "outputs"))
