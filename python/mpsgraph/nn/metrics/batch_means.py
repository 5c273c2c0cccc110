"""Metrics: functions of a model's outputs and the labels that give a mean over the batch, as a tensor of rank 0.

What "accuracy" means depends on the loss: `metric_named` chooses by it, and refuses what does not fit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..._checks import checked
from ..._core import Tensor
from ..._display import shown
from ...errors import GraphError, ShapeError
from .. import losses
from ..losses import Loss, mean_absolute_error, mean_of_all, mean_squared_error
from ..losses.reduction import class_numbers, like, require_one_shape, sum_of_all

if TYPE_CHECKING:
    from ...graph import Graph

Metric = Callable[[Tensor, Tensor], Tensor]
"""A function of outputs and labels that gives a tensor of rank 0: a mean over the batch."""

__all__ = ["METRICS", "Metric", "accuracy", "binary_accuracy", "metric_named"]


@checked
def accuracy(outputs: Tensor, labels: Tensor, *, axis: int = -1, ignore_index: int | None = None) -> Tensor:
    """The share of samples whose largest output is at the label.

    Args: outputs (..., classes), two classes or more; labels, axis and ignore_index as cross_entropy's: labels of that
    number are left out, and where there is no other the accuracy is 0. Errors: ShapeError, GraphError, OutOfRangeError
    for a label that is no class's number.

    >>> g = mg.Graph()
    >>> outputs = g.constant([[0.1, 0.9], [0.8, 0.2], [0.8, 0.2]])
    >>> g.run({}, mg.nn.metrics.accuracy(outputs, g.constant([1, 1, -1]), ignore_index=-1)).item()
    0.5
    """
    g: Graph = outputs.graph  # type: ignore[assignment]
    if outputs.shape is None or labels.shape is None or not -len(outputs.shape) <= axis < len(outputs.shape):
        raise ShapeError(f"accuracy: there is no axis {axis} of classes in outputs of shape {outputs.shape}")
    if outputs.shape[axis] == 1:
        raise ShapeError(
            f"accuracy needs two classes or more, the outputs are {outputs.shape}: a number for a class or its "
            "opposite is for binary_accuracy, other numbers for mean_absolute_error"
        )
    predicted = g.squeeze(g.reduction_arg_maximum(outputs, axis), axis)
    by_number = len(labels.shape) != len(outputs.shape)
    if not by_number:
        if ignore_index is not None:
            raise GraphError("accuracy: ignore_index is for labels that are integers")
        expected = g.squeeze(g.reduction_arg_maximum(like(labels, outputs), axis), axis)
    elif not labels.dtype.is_integer:
        raise ShapeError(f"accuracy: labels {labels.shape} that are not integers must have the shape {outputs.shape}")
    else:
        require_one_shape(labels, predicted)
        expected = class_numbers(labels, outputs.shape[axis], ignore_index)
    right = g.cast(g.equal(predicted, expected), "float32")
    if ignore_index is None:
        return mean_of_all(right)
    counted = g.cast(g.not_equal(labels, ignore_index), "float32")
    return g.division_no_nan(sum_of_all(right * counted), sum_of_all(counted))


@checked
def binary_accuracy(outputs: Tensor, labels: Tensor, *, threshold: float = 0.5, label_threshold: float = 0.5) -> Tensor:
    """The share of outputs that are above a threshold just where their labels are above theirs.

    Args: outputs and labels of one shape; threshold, 0.5 for probabilities, 0 for logits; label_threshold, 0.5 for
    labels 0 and 1, 0 for -1 and 1. An output that is NaN is wrong. Errors: ShapeError.

    >>> g = mg.Graph()
    >>> logits, labels = g.constant([[-3.0], [0.2], [4.0], [5.0]]), g.constant([[0], [1], [1], [0]])
    >>> g.run({}, mg.nn.metrics.binary_accuracy(logits, labels, threshold=0.0)).item()
    0.75
    """
    g: Graph = outputs.graph  # type: ignore[assignment]
    agree = g.logical_xnor(outputs > threshold, like(labels, outputs) > label_threshold)
    return mean_of_all(g.cast(g.logical_and(agree, g.equal(outputs, outputs)), "float32"))


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "binary_accuracy": binary_accuracy,
    "mean_squared_error": mean_squared_error,
    "mean_absolute_error": mean_absolute_error,
}
"""The metrics that have a name, by it."""

_OF_CLASSES = {losses.cross_entropy, losses.nll, losses.categorical_cross_entropy}
# The thresholds of outputs and labels.
_BINARY: dict[Any, tuple[float, float]] = {
    losses.binary_cross_entropy: (0.5, 0.5),
    losses.log_loss: (0.5, 0.5),
    losses.binary_cross_entropy_with_logits: (0.0, 0.5),
    losses.multi_label_soft_margin: (0.0, 0.5),
    losses.hinge: (0.0, 0.0),
    losses.squared_hinge: (0.0, 0.0),
    losses.soft_margin: (0.0, 0.0),
}
_OF_DISTRIBUTIONS = {losses.kl_divergence}
_OF_NUMBERS = set(losses.LOSSES.values()) - _OF_CLASSES - _BINARY.keys() - _OF_DISTRIBUTIONS


def _parts(loss: Loss) -> tuple[Any, Mapping[str, Any]]:
    """The function within functools.partial, and what it binds."""
    options: dict[str, Any] = {}
    while isinstance(loss, functools.partial):
        options, loss = {**loss.keywords, **options}, loss.func
    return loss, options


def ignored_label(loss: Loss) -> int | None:
    """The label that a loss, with its options bound by functools.partial, takes for none."""
    found = _parts(loss)[1].get("ignore_index")
    return None if found is None else int(found)


def default_metrics(loss: Loss) -> tuple[str, ...] | None:
    """What a trainer reports beside a loss unless told: the accuracy of classes; None: the loss does not tell."""
    function, _ = _parts(loss)
    if function in _OF_CLASSES or function in _BINARY:
        return ("accuracy",)
    return () if function in _OF_NUMBERS or function in _OF_DISTRIBUTIONS else None


def names_classes(outputs: Tensor, labels: Tensor) -> bool:
    """Are labels the numbers of classes, of which the outputs have one number each?"""
    if outputs.shape is None or labels.shape is None or not labels.dtype.is_integer or not outputs.shape:
        return False
    return len(labels.shape) == len(outputs.shape) - 1 and outputs.shape[-1] > 1


@checked
def metric_named(metric: str | Metric, loss: Loss | None = None) -> tuple[str, Metric]:
    """Name and function of a metric, as the loss wants it. GraphError that lists the names, or for one that does not
    fit the loss.

    >>> name, metric = mg.nn.metrics.metric_named("mean_absolute_error")
    >>> g = mg.Graph()
    >>> name, g.run({}, metric(g.constant([1.0, 2.0]), g.constant([1.0, 5.0]))).item()
    ('mean_absolute_error', 1.5)
    """
    if callable(metric):
        return getattr(metric, "__name__", "metric"), metric
    if metric not in METRICS:
        raise GraphError(
            f"there is no metric {shown(metric)}: use one of {', '.join(METRICS)}, or a function (outputs, labels)"
        )
    if loss is None or metric not in ("accuracy", "binary_accuracy"):
        return metric, METRICS[metric]
    function, options = _parts(loss)
    if function in _OF_NUMBERS:
        raise GraphError(
            f"'{metric}' does not fit the loss {function.__name__}, whose labels are no classes: use "
            f"'mean_absolute_error', or, where they are, the function mg.nn.metrics.{metric}"
        )
    if function in _BINARY:
        threshold, label_threshold = _BINARY[function]
        return metric, functools.partial(binary_accuracy, threshold=threshold, label_threshold=label_threshold)
    if function in _OF_CLASSES and metric == "binary_accuracy":
        raise GraphError(f"'binary_accuracy' does not fit the loss {function.__name__}: use 'accuracy'")
    if function in _OF_CLASSES:
        return metric, functools.partial(
            accuracy, axis=options.get("axis", -1), ignore_index=options.get("ignore_index")
        )
    return metric, METRICS[metric]
