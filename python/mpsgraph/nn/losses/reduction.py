"""Helpers shared by the losses: conversion of labels, weights, and reductions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..._checks import checked
from ..._core import Tensor, bool_
from ..._display import shown
from ...errors import GraphError, ShapeError
from ..parts import graph_of

Loss = Callable[[Tensor, Tensor], Tensor]
"""A function of outputs and labels that returns a tensor of rank 0."""
REDUCTIONS = ("mean", "sum", "none", "sum_by_nonzero_weights")


Function = TypeVar("Function", bound=Callable[..., Tensor])


def selecting(*names: str, axis: int | str | None = None) -> Callable[[Function], Function]:
    """Decorate a loss so that samples whose weight is 0 do not affect it, even if their inputs are infinite or NaN.

    Multiplying a loss by 0 would not be enough, because 0 * NaN is NaN, in the loss and in its gradient. The inputs of
    such samples are therefore replaced by 0.

    Args:
        *names: Names of the loss's tensors.
        axis: Axis of these tensors that the losses and their weights do not have, or the name of the argument that
            specifies it. Defaults to none.
    """

    def decorate(loss: Function) -> Function:
        signature = inspect.signature(loss)

        @functools.wraps(loss)
        def selected(*args: Any, **options: Any) -> Tensor:
            if options.get("weights") is None:
                return loss(*args, **options)
            bound = signature.bind(*args, **options)
            bound.apply_defaults()
            given = bound.arguments
            removed = given[axis] if isinstance(axis, str) else axis
            given |= _where_used(given["weights"], {name: given[name] for name in names}, removed)
            return loss(*bound.args, **bound.kwargs)

        return selected  # type: ignore[return-value]

    return decorate


def _where_used(weights: Any, tensors: dict[str, Any], axis: int | None) -> dict[str, Any]:
    """Replace floating-point tensors by 0 where the weight is 0.

    Weights of the wrong shape change nothing, so that the loss reports them.
    """
    first = next(iter(tensors.values()))
    if not isinstance(weights, Tensor):
        if np.all(np.asarray(weights) != 0):
            return tensors
        weights = graph_of(first).constant(weights, dtype=first.dtype)
    if first.shape is None or weights.shape is None or not -len(first.shape) <= (axis or 0) < max(len(first.shape), 1):
        return tensors
    sizes = list(first.shape)
    after = 0  # Number of axes after the removed one.
    if axis is not None:
        after = len(sizes) - 1 - axis % len(sizes)
        del sizes[axis]
    pairs = zip(reversed(weights.shape), reversed(sizes), strict=False)
    if len(weights.shape) > len(sizes) or any(n not in (1, m) and min(n, m) >= 0 for n, m in pairs):
        return tensors
    g = graph_of(first)
    used = weights if weights.dtype == bool_ else g.not_equal(weights, 0)
    whole = used
    if axis is not None and len(weights.shape) > after:
        whole = g.expand_dims(used, len(weights.shape) - after)
    return {
        name: x
        if not isinstance(x, Tensor) or not x.dtype.is_float
        else g.select(whole if x.shape is None or len(x.shape) == len(first.shape) else used, x, _zero(x))
        for name, x in tensors.items()
    }


def _zero(x: Tensor) -> Tensor:
    return graph_of(x).constant(0, dtype=x.dtype)


def where_counted(x: Tensor, labels: Tensor, ignore_index: int | None, axis: int) -> Tensor:
    """Replace the rows of x whose label is ignore_index by 0, so that their values and gradients do not matter."""
    if ignore_index is None:
        return x
    g = graph_of(x)
    return g.select(g.expand_dims(g.not_equal(labels, ignore_index), axis), x, _zero(x))


@checked
def mean_of_all(x: Tensor) -> Tensor:
    """Return the mean of all elements as a tensor of rank 0.

    Args:
        x: Floating-point tensor of any shape.

    Returns:
        A tensor of rank 0 with the dtype of x.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.mean_of_all(g.constant([[1.0, 2.0], [3.0, 6.0]]))).item()
        3.0
    """
    return graph_of(x).reshape(graph_of(x).mean(x), ())


def sum_of_all(x: Tensor) -> Tensor:
    """Return the sum of all elements as a tensor of rank 0."""
    return graph_of(x).reshape(graph_of(x).reduction_sum(x), ())


def like(labels: Tensor, outputs: Tensor) -> Tensor:
    """Return labels in the outputs' dtype. Raise ShapeError unless both have the same shape, which prevents
    broadcasting.
    """
    require_one_shape(labels, outputs)
    return as_dtype_of(labels, outputs)


def binary_labels(labels: Tensor, outputs: Tensor) -> Tensor:
    """Return binary labels in the outputs' dtype. Integers other than 0 and 1 raise OutOfRangeError at run time."""
    if not labels.dtype.is_integer:
        return like(labels, outputs)
    require_one_shape(labels, outputs)
    g = graph_of(outputs)
    return g.gather(g.constant([0, 1], dtype=outputs.dtype), labels, out_of_range="error")


def require_one_shape(labels: Tensor, outputs: Tensor) -> None:
    if labels.shape is not None and outputs.shape is not None:
        same_rank = len(labels.shape) == len(outputs.shape)
        if not same_rank or any(a != b for a, b in zip(labels.shape, outputs.shape, strict=True) if a >= 0 and b >= 0):
            raise ShapeError(
                f"labels must have the shape of outputs, got labels of shape {labels.shape} and outputs of shape "
                f"{outputs.shape}"
            )


def as_dtype_of(x: Any, other: Tensor) -> Tensor:
    """Return x in the dtype of another tensor. An array or list becomes a constant."""
    if not isinstance(x, Tensor):
        return graph_of(other).constant(x, dtype=other.dtype)
    return x if x.dtype == other.dtype else graph_of(x).cast(x, other.dtype)


def one_hot_labels(labels: Tensor, classes: int, axis: int, outputs: Tensor, ignore_index: int | None = None) -> Tensor:
    """Convert class indices to one-hot vectors in the outputs' dtype.

    An index out of range raises OutOfRangeError at run time, except ignore_index, whose vector is meaningless.
    """
    g, numbers = graph_of(outputs), _used(labels, ignore_index)
    return g.one_hot(numbers, classes, axis=axis, dtype=outputs.dtype, out_of_range="error")


def class_numbers(labels: Tensor, classes: int, ignore_index: int | None = None) -> Tensor:
    """Return class indices as int32, with 0 for ignore_index.

    Any other index out of range raises OutOfRangeError at run time.
    """
    g, numbers = graph_of(labels), _used(labels, ignore_index)
    if classes < 0:  # The number of classes is dynamic.
        return g.cast(numbers, "int32")
    return g.gather(g.constant(np.arange(classes, dtype=np.int32)), numbers, out_of_range="error")


def _used(labels: Tensor, ignore_index: int | None) -> Tensor:
    if ignore_index is None:
        return labels
    g = graph_of(labels)
    return g.select(g.equal(labels, ignore_index), 0, labels)


@checked
def reduced(losses: Tensor, reduction: str, weights: Tensor | None = None) -> Tensor:
    """Multiply losses by weights and reduce them.

    A loss whose weight is 0 does not count even if it is infinite or NaN. The losses of this package also replace the
    inputs of such a loss by 0, so that the gradients of these inputs are 0.

    Args:
        losses: Losses of any shape.
        reduction: "mean", which divides by the number of losses whatever their weights; "sum"; "none"; or
            "sum_by_nonzero_weights", the sum divided by the number of nonzero weights (0 if all are zero).
        weights: Factors, broadcastable to the losses. Defaults to none.

    Returns:
        A tensor of rank 0, or the weighted losses if reduction is "none".

    Raises:
        GraphError: If reduction is unknown.
        ShapeError: If weights do not broadcast to the losses.

    Source: MPSCNNLossReductionTypeSumByNonZeroWeights for "sum_by_nonzero_weights".

    Example:
        >>> g = mg.Graph()
        >>> losses, weights = g.constant([4.0, 6.0, 8.0]), g.constant([0.0, 1.0, 1.0])
        >>> how = ("mean", "sum", "sum_by_nonzero_weights")
        >>> [round(g.run({}, mg.nn.losses.reduced(losses, name, weights)).item(), 3) for name in how]
        [4.667, 14.0, 7.0]
    """
    if reduction not in REDUCTIONS:
        raise GraphError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {shown(reduction)}")
    g, weighted = graph_of(losses), losses
    if weights is not None:
        weights = as_dtype_of(weights, losses)
        used = g.not_equal(weights, 0)
        weighted = g.select(used, losses * weights, _zero(losses))
        if losses.shape is not None and weighted.shape is not None and len(weighted.shape) != len(losses.shape):
            raise ShapeError(
                f"weights must broadcast to the losses, got weights of shape {weights.shape} and losses of shape "
                f"{losses.shape}"
            )
    if reduction == "none":
        return weighted
    if reduction == "mean" or (reduction == "sum_by_nonzero_weights" and weights is None):
        return mean_of_all(weighted)
    total = sum_of_all(weighted)
    if reduction == "sum" or weights is None:
        return total
    used = g.broadcast_to(g.cast(g.not_equal(weights, 0), losses.dtype), g.shape_of(losses))
    return g.division_no_nan(total, sum_of_all(used))
