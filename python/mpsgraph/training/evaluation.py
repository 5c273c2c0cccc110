"""Evaluation and prediction: running a trainer's model in inference mode over data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._core import NDArray, Tensor
from .._display import shown
from ..errors import GraphError
from ..model import Model
from .batch import Batch, as_batch, as_source, checked_batch, is_whole
from .objective import Objective, Part, Term
from .step import Built
from .structure import leaves, mapped, named_leaves, refilled
from .trainer_type import Trainer


def build(trainer: Trainer, built: Built, objective: Objective | None = None) -> tuple[list[Term], list[Part]]:
    """Build the losses and metrics of the model in inference mode.

    Return them with the outputs that they are computed from. Results for the trainer's own objective are also stored in
    `built`.
    """
    outputs = trainer._inference(built.inputs)
    objective = objective or trainer.objective
    parts = objective.parts(outputs, built.labels)
    terms = objective.terms(parts, built.weights, trainer._added)
    if objective is trainer.objective:
        built.evaluation, built.evaluated = terms, parts
    return terms, parts


def evaluate(trainer: Trainer, data: Any, labels: Any, weights: Any, batch_size: int, metrics: Any) -> dict[str, float]:
    """Evaluate a trainer; see Trainer.evaluate."""
    trainer._require_model()
    objective = None
    if metrics is not None:
        if not isinstance(metrics, (Sequence, Mapping)) or isinstance(metrics, str):
            raise GraphError(
                "Trainer.evaluate: metrics must be a list of metrics, or a dict of metrics keyed by output name, got "
                f"{shown(metrics)}"
            )
        objective = Objective(trainer.loss, trainer.objective.loss_weights, metrics)
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    accumulated: dict[str, Any] = {}
    found: dict[int, tuple[list[Term], list[Part]]] = {}
    for value in as_source(data, labels, weights, batch_size, shuffle=False, seed=0):
        batch = as_batch(value)
        with trainer._undone_by_errors():
            built = trainer._built_for(batch)
        if objective is not None:
            if id(built) not in found:
                found[id(built)] = build(trainer, built, objective)
            terms, parts = found[id(built)]
        else:
            if not built.evaluation:
                build(trainer, built)
            terms, parts = built.evaluation, built.evaluated
        _add(trainer, batch, built, terms, parts, sums, counts, accumulated)
    if not sums:
        raise GraphError("Trainer.evaluate: data contains no batches")
    means = {name: total / max(counts[name], 1) for name, total in sums.items()}
    return means | {name: metric.result() for name, metric in accumulated.items()}


def _add(
    trainer: Trainer,
    batch: Batch,
    built: Built,
    terms: list[Term],
    parts: list[Part],
    sums: dict[str, float],
    counts: dict[str, float],
    accumulated: dict[str, Any],
) -> None:
    """Add the results of one batch to the running sums, and update the accumulated metrics."""
    counted = list({id(t.counted): t.counted for t in terms if t.counted is not None}.values())
    given = [(f"{p.name}_" if p.name else "", p) for p in parts if p.accumulated]
    targets = [*(t.value for t in terms), *counted, *(p.output for _, p in given)]
    feeds = dict(zip(built.placeholders, batch.arrays(), strict=True))
    results = trainer._runner().run(feeds, targets)
    in_all = {id(t): float(r) for t, r in zip(counted, results[len(terms) :], strict=False)}
    for term, result in zip(terms, results, strict=False):
        weight = len(batch) if term.counted is None else in_all[id(term.counted)]
        sums[term.name] = sums.get(term.name, 0.0) + (weight * float(result) if weight else 0.0)
        counts[term.name] = counts.get(term.name, 0.0) + weight
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
    if not isinstance(part.labels, Tensor):
        raise GraphError("accumulated metrics need labels in a single array for each output, got a structure of arrays")
    return np.asarray(arrays[id(part.labels)])


def predict(trainer: Trainer, data: Any, batch_size: int) -> Any:
    """Predict with a trainer; see Trainer.predict."""
    trainer._require_model()
    outputs: Any = None
    parts: list[list[np.ndarray]] = []

    def run(inputs: Any) -> None:
        nonlocal outputs
        with trainer._undone_by_errors():
            placeholders = trainer._prediction_inputs_for(inputs)
            outputs = trainer._inference(placeholders)
        feeds = dict(zip(leaves(placeholders), leaves(inputs), strict=True))
        results = trainer._runner().run(feeds, leaves(outputs))
        parts.append([result.numpy() for result in results])

    whole = is_whole(data)
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


def _is_numbers(data: Any) -> bool:
    return isinstance(data, Sequence) and bool(data) and not isinstance(data[0], (np.ndarray, NDArray, tuple, dict))


def model_of(trainer: Trainer) -> Model:
    """Return the model with names for its inputs and outputs."""
    inputs = trainer._inputs if trainer._prediction_inputs is None else trainer._prediction_inputs
    outputs = trainer._inference(inputs)

    def named(structure: Any, alone: str) -> dict[str, Tensor]:
        return {path or alone: tensor for path, tensor in named_leaves(structure)}

    return Model(trainer.graph, named(inputs, "inputs"), named(outputs, "outputs"))
