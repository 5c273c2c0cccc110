"""Losses: functions of a model's outputs and the labels that give the mean over the batch, as a tensor of rank 0.

`Trainer` takes them by name or any function of this form. Sums over the batch, Apple's habit, differ by the factor n.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .._core import Tensor
from ..errors import DTypeError, GraphError, ShapeError
from .activations import softplus

if TYPE_CHECKING:
    from ..graph import Graph

Loss = Callable[[Tensor, Tensor], Tensor]


def _graph(x: Tensor) -> Graph:
    return x.graph  # type: ignore[return-value]


def mean_of_all(x: Tensor) -> Tensor:
    """The mean of all elements, as a tensor of rank 0."""
    return _graph(x).reshape(_graph(x).mean(x), ())


def _as(labels: Tensor, outputs: Tensor) -> Tensor:
    """Labels in the outputs' dtype; their shapes must be equal, so that nothing broadcasts by accident."""
    if labels.shape is not None and outputs.shape is not None:
        same_rank = len(labels.shape) == len(outputs.shape)
        if not same_rank or any(a != b for a, b in zip(labels.shape, outputs.shape, strict=True) if a >= 0 and b >= 0):
            raise ShapeError(f"labels {labels.shape} and outputs {outputs.shape} must have one shape")
    return labels if labels.dtype == outputs.dtype else _graph(labels).cast(labels, outputs.dtype)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Soft-max cross-entropy over the last axis, in nats.

    Args: logits (..., classes); labels, integers (...), or one-hot or probabilities (..., classes).
    Errors: ShapeError, DTypeError.

    >>> g = mg.Graph()
    >>> logits = g.constant([[0.0, 100.0], [100.0, 0.0]])
    >>> g.run({}, mg.nn.losses.cross_entropy(logits, g.constant([1, 1]))).item()
    50.0
    """
    g = _graph(logits)
    if logits.shape is None or labels.shape is None:
        raise ShapeError("cross_entropy needs logits and labels of known rank")
    if len(labels.shape) == len(logits.shape) - 1:
        if not labels.dtype.is_integer:
            raise DTypeError(
                f"labels of shape {labels.shape} name classes and must be integers, they are {labels.dtype}"
            )
        if logits.shape[-1] < 0:
            raise ShapeError(f"cross_entropy needs a known number of classes, the logits are {logits.shape}")
        labels = g.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    return g.softmax_cross_entropy(logits, _as(labels, logits), axis=-1, reduction="mean")


def mean_squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean of (outputs - labels)^2. Args: one shape. Errors: ShapeError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.mean_squared_error(g.constant([1.0, 2.0]), g.constant([1.0, 4.0]))).item()
    2.0
    """
    return mean_of_all(_graph(outputs).square(outputs - _as(labels, outputs)))


def mean_absolute_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean of |outputs - labels|, the L1 loss. Args: one shape. Errors: ShapeError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.mean_absolute_error(g.constant([1.0, 2.0]), g.constant([1.0, 4.0]))).item()
    1.0
    """
    return mean_of_all(abs(outputs - _as(labels, outputs)))


def binary_cross_entropy_with_logits(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean of -labels * ln s - (1 - labels) * ln(1 - s), s = sigmoid(logits), computed without overflow.

    Args: logits, labels, one shape; labels in [0, 1]. Errors: ShapeError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.binary_cross_entropy_with_logits(g.constant([-100.0]), g.constant([1.0]))).item()
    100.0
    """
    return mean_of_all(softplus(logits) - logits * _as(labels, logits))


LOSSES: dict[str, Loss] = {
    "cross_entropy": cross_entropy,
    "mean_squared_error": mean_squared_error,
    "mse": mean_squared_error,
    "mean_absolute_error": mean_absolute_error,
    "l1": mean_absolute_error,
    "binary_cross_entropy_with_logits": binary_cross_entropy_with_logits,
}


def loss_named(loss: str | Loss) -> Loss:
    """The loss of a name, or the function itself. GraphError that lists the names."""
    if callable(loss):
        return loss
    if loss not in LOSSES:
        raise GraphError(f"there is no loss '{loss}': use one of {', '.join(LOSSES)}, or a function (outputs, labels)")
    return LOSSES[loss]


__all__ = [
    "LOSSES",
    "Loss",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "loss_named",
    "mean_absolute_error",
    "mean_of_all",
    "mean_squared_error",
]
