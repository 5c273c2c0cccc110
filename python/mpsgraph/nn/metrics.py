"""Metrics: functions of a model's outputs and the labels that give a mean over the batch, as a tensor of rank 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .._checks import checked
from .._core import Tensor
from .._shown import shown
from ..errors import GraphError
from .losses import mean_absolute_error, mean_of_all, mean_squared_error

if TYPE_CHECKING:
    from ..graph import Graph

Metric = Callable[[Tensor, Tensor], Tensor]


@checked
def accuracy(outputs: Tensor, labels: Tensor) -> Tensor:
    """The share of samples whose largest output is at the label. Args: outputs (..., classes); labels as cross_entropy.

    >>> g = mg.Graph()
    >>> outputs = g.constant([[0.1, 0.9], [0.8, 0.2]])
    >>> g.run({}, mg.nn.metrics.accuracy(outputs, g.constant([1, 1]))).item()
    0.5
    """
    g: Graph = outputs.graph  # type: ignore[assignment]
    predicted = g.reduction_arg_maximum(outputs, -1)
    if labels.shape is not None and outputs.shape is not None and len(labels.shape) == len(outputs.shape):
        expected = g.reduction_arg_maximum(labels, -1)
    else:
        expected = g.expand_dims(g.cast(labels, "int32"), -1)
    return mean_of_all(g.cast(g.equal(predicted, expected), "float32"))


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "mean_squared_error": mean_squared_error,
    "mean_absolute_error": mean_absolute_error,
}


@checked
def metric_named(metric: str | Metric) -> tuple[str, Metric]:
    """Name and function of a metric. GraphError that lists the names."""
    if callable(metric):
        return getattr(metric, "__name__", "metric"), metric
    if metric not in METRICS:
        raise GraphError(
            f"there is no metric {shown(metric)}: use one of {', '.join(METRICS)}, or a function (outputs, labels)"
        )
    return metric, METRICS[metric]
