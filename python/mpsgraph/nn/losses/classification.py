"""Losses for classification: from logits, probabilities, or log-probabilities, and margin losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._checks import NotNegative, Share, checked, is_number
from ..._core import Tensor
from ...errors import DTypeError, GraphError, ShapeError
from ...precision.mixed_precision import in_float32
from ..activations import softplus, softplus_parts
from ..parts import graph_of
from .reduction import (
    as_dtype_of,
    binary_labels,
    like,
    one_hot_labels,
    reduced,
    selecting,
    sum_of_all,
    where_counted,
)


@checked
@in_float32
@selecting("logits", "labels", axis="axis")
def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    axis: int = -1,
    class_weights: Tensor | Sequence[float] | np.ndarray | None = None,
    ignore_index: int | None = None,
    label_smoothing: Share = 0.0,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Softmax cross-entropy in nats: the sum over classes of -p * log_softmax(logits), where p are the labels.

    For integer labels, the mean divides by the total class weight of the labels that are not ignored, as in PyTorch. If
    all labels are ignored, the loss and its gradient are 0, where PyTorch returns NaN.

    Args:
        logits: (..., classes).
        labels: Integer class indices (...), or one-hot vectors or probabilities (..., classes).
        axis: Axis of the classes in logits. Defaults to the last; PyTorch uses axis 1.
        class_weights: Factor of each class, (classes,), as a tensor, array, or list. Defaults to none.
        ignore_index: Integer label that is not counted. Defaults to none.
        label_smoothing: Smoothing s from 0 to 1, which replaces p by (1 - s) * p + s / classes. Defaults to 0.
        weights: Factors of the losses, broadcastable to (...). Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the losses (...) if reduction is "none".

    Raises:
        ShapeError: If the shapes do not match, axis is out of range, or the number of classes is dynamic.
        DTypeError: If class indices are not integers.
        GraphError: If label_smoothing or reduction is invalid, or ignore_index is used with labels that are not
            indices.
        OutOfRangeError: At run time, if a label is not a class index; the message names the label and its position.

    Source: MPSCNNLossTypeSoftMaxCrossEntropy; PyTorch's CrossEntropyLoss.

    Example:
        >>> g = mg.Graph()
        >>> logits = g.constant([[0.0, 100.0], [100.0, 0.0]])
        >>> g.run({}, mg.nn.losses.cross_entropy(logits, g.constant([1, 1]))).item()
        50.0
    """
    g = graph_of(logits)
    if not 0 <= label_smoothing <= 1:
        raise GraphError(f"cross_entropy: label_smoothing must be from 0 to 1, got {label_smoothing}")
    classes, by_index = _classes(logits, labels, axis, "cross_entropy")
    shares = one_hot_labels(labels, classes, axis, logits, ignore_index) if by_index else like(labels, logits)
    if ignore_index is not None and not by_index:
        raise GraphError(
            "cross_entropy: ignore_index needs integer class labels, got labels with the shape of the logits"
        )
    logits = where_counted(logits, labels, ignore_index, axis)
    factors = None if class_weights is None else _along(axis, class_weights, logits, classes)
    used = None  # Weight of each integer label; the mean divides by the sum of these weights.
    if ignore_index is not None and factors is None and not label_smoothing:
        # One-hot labels that stay as they are compile to a kernel that takes indices.
        used = _counts(labels, ignore_index, shares, axis)
        losses = g.squeeze(g.softmax_cross_entropy(logits, shares, axis=axis, reduction="none") * used, axis)
        return _weighed_mean(losses, used, weights, reduction)
    if by_index and not (factors is None and ignore_index is None):
        used = shares if factors is None else shares * factors
        if ignore_index is not None:
            used = used * _counts(labels, ignore_index, shares, axis)
    if label_smoothing:
        shares = shares * (1 - label_smoothing) + label_smoothing / classes
    if factors is not None:
        shares = shares * factors
    if ignore_index is not None:
        shares = shares * _counts(labels, ignore_index, shares, axis)
    if reduction in ("mean", "sum") and used is None and weights is None:
        return g.softmax_cross_entropy(logits, shares, axis=axis, reduction=reduction)
    losses = g.squeeze(g.softmax_cross_entropy(logits, shares, axis=axis, reduction="none"), axis)
    return _weighed_mean(losses, used, weights, reduction)


def _classes(logits: Tensor, labels: Tensor, axis: int, what: str) -> tuple[int, bool]:
    """Return the number of classes, and whether labels are class indices."""
    if logits.shape is None or labels.shape is None:
        raise ShapeError(f"{what} needs logits and labels of known rank, got shapes {logits.shape} and {labels.shape}")
    if not -len(logits.shape) <= axis < len(logits.shape):
        raise ShapeError(f"{what}: axis {axis} is out of range for logits of shape {logits.shape}")
    if logits.shape[axis] < 0:
        raise ShapeError(f"{what} needs a known number of classes on axis {axis}, got logits of shape {logits.shape}")
    by_index = len(labels.shape) == len(logits.shape) - 1
    if by_index and not labels.dtype.is_integer:
        raise DTypeError(
            f"{what}: labels of shape {labels.shape} are class indices and must be integers, got {labels.dtype}: "
            "convert them with labels.astype(np.int32)"
        )
    return logits.shape[axis], by_index


def _along(axis: int, class_weights: Any, logits: Tensor, classes: int) -> Tensor:
    """Reshape class_weights (classes,) so that it broadcasts along the class axis of the logits."""
    class_weights = as_dtype_of(class_weights, logits)
    if class_weights.shape != (classes,):
        raise ShapeError(
            f"class_weights must have one entry for each of the {classes} classes, got shape {class_weights.shape}"
        )
    rank = len(logits.shape or ())
    shape = [classes if i == axis % rank else 1 for i in range(rank)]
    return graph_of(logits).reshape(class_weights, shape)


def _counts(labels: Tensor, ignore_index: int, like_this: Tensor, axis: int) -> Tensor:
    """Return a tensor that is 1 for each label that counts and 0 for each label that equals ignore_index."""
    g = graph_of(labels)
    return g.expand_dims(g.cast(g.not_equal(labels, ignore_index), like_this.dtype), axis)


def _weighed_mean(losses: Tensor, used: Tensor | None, weights: Tensor | None, reduction: str) -> Tensor:
    if reduction == "mean" and used is not None:
        total = reduced(losses, "sum", weights)
        return graph_of(losses).division_no_nan(total, sum_of_all(used))  # The loss is 0 if no label counts.
    return reduced(losses, reduction, weights)


@checked
@in_float32
@selecting("log_probabilities", axis="axis")
def nll(
    log_probabilities: Tensor,
    labels: Tensor,
    *,
    axis: int = -1,
    class_weights: Tensor | Sequence[float] | np.ndarray | None = None,
    ignore_index: int | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood: -log_probabilities at the labels.

    cross_entropy(logits, labels) equals nll(log_softmax(logits), labels).

    Args:
        log_probabilities: (..., classes), such as the result of log_softmax.
        labels: Integer class indices (...).
        axis: Axis of the classes. Defaults to the last.
        class_weights: Factor of each class, (classes,), as a tensor, array, or list. Defaults to none.
        ignore_index: Label that is not counted. Defaults to none.
        weights: Factors of the losses, broadcastable to (...). Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the losses (...) if reduction is "none".

    Raises:
        ShapeError: If the shapes do not match, axis is out of range, or the number of classes is dynamic.
        DTypeError: If labels are not integers.
        GraphError: If reduction is unknown.
        OutOfRangeError: At run time, if a label is not a class index.

    Source: PyTorch's NLLLoss.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.nll(g.constant([[-3.0, -0.5]]), g.constant([1]))).item()
        0.5
    """
    g = graph_of(log_probabilities)
    classes, by_index = _classes(log_probabilities, labels, axis, "nll")
    if not by_index:
        raise ShapeError(
            "nll: labels must be class indices with one axis less than log_probabilities, got labels of shape "
            f"{labels.shape} and log_probabilities of shape {log_probabilities.shape}"
        )
    used = one_hot_labels(labels, classes, axis, log_probabilities, ignore_index)
    if class_weights is not None:
        used = used * _along(axis, class_weights, log_probabilities, classes)
    if ignore_index is not None:
        used = used * _counts(labels, ignore_index, used, axis)
    # Count 0 * ln 0 as 0 instead of NaN.
    parts = g.select(g.equal(used, 0.0), g.constant(0.0, dtype=used.dtype), -log_probabilities * used)
    losses = g.squeeze(g.reduction_sum(parts, axis), axis)
    return _weighed_mean(losses, used, weights, reduction)


@checked
@in_float32
@selecting("outputs", "labels", axis="axis")
def categorical_cross_entropy(
    outputs: Tensor,
    labels: Tensor,
    *,
    axis: int = -1,
    epsilon: NotNegative = 1e-7,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross-entropy of probabilities: the sum over classes of -labels * ln(max(outputs, epsilon)).

    Args:
        outputs: Probabilities.
        labels: Probabilities or one-hot vectors, with the shape of outputs, or integer class indices, with one axis
            less.
        axis: Axis of the classes. Defaults to the last.
        epsilon: Lower bound of outputs in the logarithm. Defaults to 1e-7.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each sample if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: MPSCNNLossTypeCategoricalCrossEntropy; Keras's CategoricalCrossentropy.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.categorical_cross_entropy(g.constant([[1.0, 0.0]]), g.constant([[1.0, 0.0]]))).item()
        0.0
    """
    g = graph_of(outputs)
    classes, by_index = _classes(outputs, labels, axis, "categorical_cross_entropy")
    shares = one_hot_labels(labels, classes, axis, outputs, None) if by_index else like(labels, outputs)
    parts = shares * g.logarithm(g.maximum_with_nan_propagation(outputs, epsilon))
    return reduced(-g.squeeze(g.reduction_sum(parts, axis), axis), reduction, weights)


@checked
@in_float32
@selecting("logits", "labels")
def binary_cross_entropy_with_logits(
    logits: Tensor,
    labels: Tensor,
    *,
    positive_weight: Tensor | float | Sequence[float] | np.ndarray = 1.0,
    label_smoothing: Share = 0.0,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross-entropy of logits: -w * labels * ln s - (1 - labels) * ln(1 - s) with s = sigmoid(logits).

    The computation does not overflow.

    Args:
        logits: Logits of class 1.
        labels: Numbers from 0 to 1, with the shape of logits.
        positive_weight: Weight w of positive labels: a number, or a tensor, array, or list that broadcasts to the
            logits. Defaults to 1.
        label_smoothing: Smoothing s, which replaces labels by (1 - s) * labels + s / 2. Defaults to 0.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If logits and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction or label_smoothing is invalid.
        OutOfRangeError: At run time, if an integer label is neither 0 nor 1.

    Source: MPSCNNLossTypeSigmoidCrossEntropy; PyTorch's BCEWithLogitsLoss.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.binary_cross_entropy_with_logits(g.constant([-100.0]), g.constant([1.0]))).item()
        100.0
    """
    wanted = binary_labels(labels, logits)
    if label_smoothing:
        wanted = wanted * (1 - label_smoothing) + label_smoothing / 2
    above, below, rest = softplus_parts(logits)
    other = 1.0 - wanted
    factor: Any = positive_weight if is_number(positive_weight) else as_dtype_of(positive_weight, logits)
    if isinstance(factor, Tensor) or factor != 1:
        wanted = wanted * factor
        losses = other * above + wanted * below + (wanted + other) * rest
    else:
        losses = other * above + wanted * below + rest
    return reduced(losses, reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def binary_cross_entropy(
    outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Binary cross-entropy of probabilities: -labels * ln(outputs) - (1 - labels) * ln(1 - outputs).

    Logarithms are clamped to at least -100. For logits, binary_cross_entropy_with_logits is more accurate.

    Args:
        outputs: Probabilities of class 1.
        labels: Numbers from 0 to 1, with the shape of outputs.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.
        OutOfRangeError: At run time, if an integer label is neither 0 nor 1.

    Source: PyTorch's BCELoss.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.binary_cross_entropy(g.constant([1.0, 0.0]), g.constant([1.0, 1.0]))).item()
        50.0
    """
    g, wanted = graph_of(outputs), binary_labels(labels, outputs)

    def logarithm(p: Tensor) -> Tensor:
        # For p <= 0, the derivative of the logarithm would turn a zero gradient into NaN, so compute ln(1) there. A NaN
        # in p is kept.
        nothing = p <= 0.0
        found = g.logarithm(g.select(nothing, g.constant(1.0, dtype=p.dtype), p))
        least = g.constant(-100.0, dtype=p.dtype)
        return g.select(nothing, least, g.maximum_with_nan_propagation(found, least))

    losses = -(wanted * logarithm(outputs) + (1.0 - wanted) * logarithm(1.0 - outputs))
    return reduced(losses, reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def log_loss(
    outputs: Tensor,
    labels: Tensor,
    *,
    epsilon: NotNegative = 1e-7,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Log loss: -labels * ln(outputs + epsilon) - (1 - labels) * ln(1 - outputs + epsilon).

    Differs from binary_cross_entropy only near 0 and 1.

    Args:
        outputs: Probabilities of class 1.
        labels: Numbers from 0 to 1, with the shape of outputs.
        epsilon: Added in the logarithms. Defaults to 1e-7.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.
        OutOfRangeError: At run time, if an integer label is neither 0 nor 1.

    Source: MPSCNNLossTypeLog.

    Example:
        >>> g = mg.Graph()
        >>> loss = mg.nn.losses.log_loss(g.constant([0.5]), g.constant([1.0]), epsilon=0.5)
        >>> g.run({}, loss).item()
        0.0
    """
    g, wanted = graph_of(outputs), binary_labels(labels, outputs)
    losses = -wanted * g.logarithm(outputs + epsilon) - (1.0 - wanted) * g.logarithm(1.0 - outputs + epsilon)
    return reduced(losses, reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def kl_divergence(
    outputs: Tensor,
    labels: Tensor,
    *,
    log_labels: bool = False,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Kullback-Leibler divergence: labels * (ln(labels) - outputs), for outputs that are log-probabilities.

    Args:
        outputs: Log-probabilities.
        labels: Probabilities, or log-probabilities if log_labels, with the shape of outputs.
        log_labels: Whether labels are log-probabilities. Defaults to False.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: A reduction of `reduced`, or "batch_mean" for the sum divided by the size of the first axis, which is
            the divergence proper. Defaults to "mean".

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: MPSCNNLossTypeKullbackLeiblerDivergence; PyTorch's KLDivLoss; Kullback and Leibler, 1951.

    Example:
        >>> g = mg.Graph()
        >>> outputs, labels = g.constant([[-1.0, -2.0]]), g.constant([[1.0, 0.0]])
        >>> g.run({}, mg.nn.losses.kl_divergence(outputs, labels, reduction="batch_mean")).item()
        1.0
    """
    g, wanted = graph_of(outputs), like(labels, outputs)
    if log_labels:
        losses = g.exponent(wanted) * (wanted - outputs)
    else:
        # Count 0 * ln 0 as 0 instead of NaN.
        positive = g.select(wanted > 0.0, wanted, g.constant(1.0, dtype=wanted.dtype))
        losses = wanted * (g.logarithm(positive) - outputs)
    if reduction != "batch_mean":
        return reduced(losses, reduction, weights)
    sizes = g.cast(g.slice_axis(g.shape_of(outputs), 0, 0, 1), outputs.dtype)
    return reduced(losses, "sum", weights) / g.reshape(sizes, ())


@checked
@in_float32
@selecting("outputs", "labels")
def hinge(outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Hinge loss: max(0, 1 - labels * outputs).

    Args:
        outputs: Scores.
        labels: -1 or 1, with the shape of outputs. Keras also accepts 0 for -1; this function does not.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: MPSCNNLossTypeHinge; Keras's Hinge.

    Example:
        >>> g = mg.Graph()
        >>> loss = mg.nn.losses.hinge(g.constant([0.5, 0.5, 3.0]), g.constant([1, -1, 1]), reduction="none")
        >>> g.run({}, loss).tolist()
        [0.5, 1.5, 0.0]
    """
    return reduced(graph_of(outputs).relu(1.0 - outputs * like(labels, outputs)), reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def squared_hinge(outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Squared hinge loss: max(0, 1 - labels * outputs)^2.

    Args:
        outputs: Scores.
        labels: -1 or 1, with the shape of outputs.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: Keras's SquaredHinge.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.squared_hinge(g.constant([-2.0]), g.constant([1]))).item()
        9.0
    """
    return reduced(graph_of(outputs).square(hinge(outputs, labels, reduction="none")), reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def soft_margin(outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Soft margin loss: ln(1 + e^(-labels * outputs)).

    Args:
        outputs: Scores.
        labels: -1 or 1, with the shape of outputs.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: PyTorch's SoftMarginLoss.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.soft_margin(g.constant([-100.0]), g.constant([1]))).item()
        100.0
    """
    return reduced(softplus(-outputs * like(labels, outputs)), reduction, weights)


@checked
@in_float32
@selecting("logits", "labels", axis=-1)
def multi_label_soft_margin(
    logits: Tensor,
    labels: Tensor,
    *,
    class_weights: Tensor | Sequence[float] | np.ndarray | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Multi-label soft margin loss: the mean over classes of binary_cross_entropy_with_logits.

    Each sample may belong to several classes.

    Args:
        logits: (..., classes).
        labels: 0 or 1, with the shape of logits.
        class_weights: Factor of each class, (classes,), as a tensor, array, or list. Defaults to none.
        weights: Factors of the samples, broadcastable to (...). Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each sample if reduction is "none".

    Raises:
        ShapeError: If logits and labels differ in shape, or weights or class_weights has the wrong shape.
        GraphError: If reduction is unknown.
        OutOfRangeError: At run time, if an integer label is neither 0 nor 1.

    Source: PyTorch's MultiLabelSoftMarginLoss.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.multi_label_soft_margin(g.constant([[100.0, -50.0]]), g.constant([[0, 1]]))).item()
        75.0
    """
    g = graph_of(logits)
    losses = binary_cross_entropy_with_logits(logits, labels, reduction="none")
    if class_weights is not None:
        classes, _ = _classes(logits, labels, -1, "multi_label_soft_margin")
        losses = losses * _along(-1, class_weights, logits, classes)
    return reduced(g.squeeze(g.mean(losses, -1), -1), reduction, weights)
