"""Metrics that are functions of a model's outputs and the labels and return a mean over the batch, of rank 0.

The meaning of "accuracy" depends on the loss: `metric_named` chooses the function accordingly, and rejects metrics that
do not suit the loss.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..._checks import checked
from ..._core import Tensor
from ..._display import shown, suggested
from ...errors import GraphError, ShapeError
from .. import losses
from ..losses import Loss, mean_absolute_error, mean_of_all, mean_squared_error
from ..losses.reduction import class_numbers, like, require_one_shape, sum_of_all

if TYPE_CHECKING:
    from ...graph import Graph

Metric = Callable[[Tensor, Tensor], Tensor]
"""A function of outputs and labels that returns a tensor of rank 0, a mean over the batch."""

__all__ = ["METRICS", "Metric", "accuracy", "binary_accuracy", "metric_named"]


@checked
def accuracy(outputs: Tensor, labels: Tensor, *, axis: int = -1, ignore_index: int | None = None) -> Tensor:
    """Fraction of samples whose largest output is that of the label. NaN outputs and labels count as wrong.

    Args:
        outputs: (..., classes), with at least two classes.
        labels: Integer class indices (...), or one-hot vectors or probabilities (..., classes).
        axis: Axis of the classes. Defaults to the last.
        ignore_index: Integer label that is not counted; if all labels are ignored, the accuracy is 0. Defaults to none.

    Returns:
        A tensor of rank 0.

    Raises:
        ShapeError: If the shapes do not match, axis is out of range, or there is one class only.
        GraphError: If ignore_index is used with labels that are not class indices.
        OutOfRangeError: At run time, if a label is not a class index.

    Example:
        >>> g = mg.Graph()
        >>> outputs = g.constant([[0.1, 0.9], [0.8, 0.2], [0.8, 0.2]])
        >>> g.run({}, mg.nn.metrics.accuracy(outputs, g.constant([1, 1, -1]), ignore_index=-1)).item()
        0.5
    """
    g: Graph = outputs.graph  # type: ignore[assignment]
    if outputs.shape is None or labels.shape is None or not -len(outputs.shape) <= axis < len(outputs.shape):
        raise ShapeError(
            f"accuracy: outputs must have a known rank with the classes on axis {axis}, got shape {outputs.shape}"
        )
    if outputs.shape[axis] == 1:
        raise ShapeError(
            f"accuracy needs at least two classes, got outputs of shape {outputs.shape}: use binary_accuracy for one "
            "score per sample, or mean_absolute_error for other numbers"
        )
    place = g.reduction_arg_maximum(outputs, axis)  # The index of a NaN, if there is one.
    predicted, best = (g.squeeze(x, axis) for x in (place, g.gather_along_axis(axis, outputs, place)))
    valid = g.equal(best, best)
    by_number = len(labels.shape) != len(outputs.shape)
    if not by_number:
        if ignore_index is not None:
            raise GraphError(
                "accuracy: ignore_index needs integer class labels, got labels with the shape of the outputs"
            )
        wanted = like(labels, outputs)
        index = g.reduction_arg_maximum(wanted, axis)
        expected, largest = (g.squeeze(x, axis) for x in (index, g.gather_along_axis(axis, wanted, index)))
        if not labels.dtype.is_integer:
            valid = g.logical_and(valid, g.equal(largest, largest))
    elif not labels.dtype.is_integer:
        raise ShapeError(
            f"accuracy: labels must be integers, or have the shape of outputs {outputs.shape}, got {labels.dtype} of "
            f"shape {labels.shape}"
        )
    else:
        require_one_shape(labels, predicted)
        expected = class_numbers(labels, outputs.shape[axis], ignore_index)
    right = g.cast(g.logical_and(g.equal(predicted, expected), valid), "float32")
    if ignore_index is None:
        return mean_of_all(right)
    counted = g.cast(g.not_equal(labels, ignore_index), "float32")
    return g.division_no_nan(sum_of_all(right * counted), sum_of_all(counted))


@checked
def binary_accuracy(outputs: Tensor, labels: Tensor, *, threshold: float = 0.5, label_threshold: float = 0.5) -> Tensor:
    """Fraction of outputs that are on the same side of a threshold as their labels.

    An output or label that is NaN counts as wrong.

    Args:
        outputs: Scores, one for each label.
        labels: Labels, with the shape of outputs.
        threshold: Threshold of outputs: 0.5 (the default) for probabilities, 0 for logits.
        label_threshold: Threshold of labels: 0.5 (the default) for labels 0 and 1, 0 for -1 and 1.

    Returns:
        A tensor of rank 0.

    Raises:
        ShapeError: If outputs and labels differ in shape.

    Example:
        >>> g = mg.Graph()
        >>> logits, labels = g.constant([[-3.0], [0.2], [4.0], [5.0]]), g.constant([[0], [1], [1], [0]])
        >>> g.run({}, mg.nn.metrics.binary_accuracy(logits, labels, threshold=0.0)).item()
        0.75
    """
    g: Graph = outputs.graph  # type: ignore[assignment]
    expected = like(labels, outputs)
    agree = g.logical_xnor(outputs > threshold, expected > label_threshold)
    valid = g.equal(outputs, outputs)
    if not labels.dtype.is_integer:
        valid = g.logical_and(valid, g.equal(expected, expected))
    return mean_of_all(g.cast(g.logical_and(agree, valid), "float32"))


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "binary_accuracy": binary_accuracy,
    "mean_squared_error": mean_squared_error,
    "mean_absolute_error": mean_absolute_error,
}
"""The metrics that can be selected by name."""

_ALIASES = {
    "acc": "accuracy",
    "categoricalaccuracy": "accuracy",
    "sparsecategoricalaccuracy": "accuracy",
    "mae": "mean_absolute_error",
    "mse": "mean_squared_error",
}
"""Keras's names of metrics, in lower case without underscores."""


def plain(name: str) -> str:
    """Return a name in lower case without underscores, hyphens, and spaces."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def known_name(name: str) -> str | None:
    """Return our name of a metric that may have another library's name or spelling, or None if there is none."""
    return _ALIASES.get(plain(name)) or next((each for each in METRICS if plain(each) == plain(name)), None)


_OF_CLASSES = {losses.cross_entropy, losses.nll, losses.categorical_cross_entropy}
# Thresholds of outputs and labels for each binary loss.
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
    """Return the function that nested functools.partial objects wrap, and the keyword arguments that they bind."""
    options: dict[str, Any] = {}
    while isinstance(loss, functools.partial):
        options, loss = {**loss.keywords, **options}, loss.func
    return loss, options


def ignored_label(loss: Loss) -> int | None:
    """Return the label that a loss ignores, according to arguments bound by functools.partial, or None."""
    found = _parts(loss)[1].get("ignore_index")
    return None if found is None else int(found)


def output_threshold(loss: Loss, default: float) -> float:
    """Return the threshold between the classes of a binary loss's outputs, or the default for other losses."""
    return _BINARY.get(_parts(loss)[0], (default, 0.0))[0]


def class_weights_of(loss: Loss) -> Any:
    """Return the class weights of a loss of class indices, according to arguments bound by functools.partial, or
    None.
    """
    function, options = _parts(loss)
    return options.get("class_weights") if function in (losses.cross_entropy, losses.nll) else None


def default_metrics(loss: Loss) -> tuple[str, ...] | None:
    """Return the default metrics for a loss: accuracy for classification losses, or None if the loss is unknown."""
    function, _ = _parts(loss)
    if function in _OF_CLASSES or function in _BINARY:
        return ("accuracy",)
    return () if function in _OF_NUMBERS or function in _OF_DISTRIBUTIONS else None


def names_class_indices(loss: Loss) -> bool:
    """Return whether the labels of a loss may be class indices, with one axis less than the outputs."""
    return _parts(loss)[0] in _OF_CLASSES


def names_classes(outputs: Tensor, labels: Tensor) -> bool:
    """Return whether labels are class indices into the last axis of outputs."""
    if outputs.shape is None or labels.shape is None or not labels.dtype.is_integer or not outputs.shape:
        return False
    return len(labels.shape) == len(outputs.shape) - 1 and outputs.shape[-1] > 1


@checked
def metric_named(metric: str | Metric, loss: Loss | None = None) -> tuple[str, Metric]:
    """Return the name and the function of a metric, adapted to a loss.

    Args:
        metric: A name in `METRICS`, Keras's name of such a metric, as in "mae" or "acc", or a function (outputs,
            labels), which is returned unchanged.
        loss: Loss that determines thresholds, class axis, and ignored label. Defaults to none.

    Returns:
        The name and the function.

    Raises:
        GraphError: If there is no metric of that name, or it does not fit the loss.

    Example:
        >>> name, metric = mg.nn.metrics.metric_named("mean_absolute_error")
        >>> g = mg.Graph()
        >>> name, g.run({}, metric(g.constant([1.0, 2.0]), g.constant([1.0, 5.0]))).item()
        ('mean_absolute_error', 1.5)
    """
    if callable(metric):
        return getattr(metric, "__name__", "metric"), metric
    given, metric = metric, known_name(metric) or ""
    if not metric:
        raise GraphError(
            f"there is no metric named {shown(given)}: {suggested(given, (*METRICS, *_ALIASES))}pass one of "
            f"{', '.join(METRICS)}, or a function (outputs, labels)"
        )
    if loss is None or metric not in ("accuracy", "binary_accuracy"):
        return given, METRICS[metric]
    function, options = _parts(loss)
    if function in _OF_NUMBERS:
        raise GraphError(
            f"metric '{metric}' does not fit the loss {function.__name__}, whose labels are not classes: use "
            f"'mean_absolute_error' or, if they are classes, the function mg.nn.metrics.{metric}"
        )
    if function in _BINARY:
        threshold, label_threshold = _BINARY[function]
        return given, functools.partial(binary_accuracy, threshold=threshold, label_threshold=label_threshold)
    if function in _OF_CLASSES and metric == "binary_accuracy":
        raise GraphError(f"metric 'binary_accuracy' does not fit the loss {function.__name__}: use 'accuracy'")
    if function in _OF_CLASSES:
        return given, functools.partial(
            accuracy, axis=options.get("axis", -1), ignore_index=options.get("ignore_index")
        )
    return given, METRICS[metric]
