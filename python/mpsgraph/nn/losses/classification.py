"""Losses of classes: by logits, probabilities or their logarithms, of one class or of several at once, and margins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._checks import checked, is_number
from ..._core import Tensor
from ...errors import DTypeError, GraphError, ShapeError
from ...precision.mixed_precision import in_float32
from ..activations import softplus, softplus_parts
from ..module import graph_of
from .reduction import as_dtype_of, binary_labels, like, one_hot_labels, reduced, sum_of_all


@checked
@in_float32
def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    axis: int = -1,
    class_weights: Tensor | Sequence[float] | np.ndarray | None = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Soft-max cross-entropy, in nats: -sum over classes of p * log_softmax(logits).

    Args: logits (..., classes); labels, integers (...), or one-hot or probabilities (..., classes); axis, that of the
    classes, 1 in PyTorch; class_weights (classes), factors of the classes' parts, as a tensor, an array or a list;
    ignore_index, a label that stands for none; label_smoothing s, in [0, 1]: (1 - s) * p + s / classes is taken for p;
    weights and reduction as in `reduced`. Another integer that is no class's number raises OutOfRangeError when it
    runs, which names it and its place. As in PyTorch, the mean of integer labels is weighed by the classes' weights and
    leaves the ignored ones out; where no label counts it is 0, as is its gradient, where PyTorch's is NaN. Errors:
    ShapeError, DTypeError, GraphError, OutOfRangeError. MPSCNNLossTypeSoftMaxCrossEntropy; PyTorch's CrossEntropyLoss.

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
        raise GraphError("cross_entropy: ignore_index is for labels that are integers")
    factors = None if class_weights is None else _along(axis, class_weights, logits, classes)
    used = None  # how much each label counts, which the mean of integers divides by
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
    """How many classes there are, and whether labels are their numbers."""
    if logits.shape is None or labels.shape is None:
        raise ShapeError(f"{what} needs logits and labels of known rank")
    if not -len(logits.shape) <= axis < len(logits.shape):
        raise ShapeError(f"{what}: there is no axis {axis} in logits of shape {logits.shape}")
    if logits.shape[axis] < 0:
        raise ShapeError(f"{what} needs a known number of classes, the logits are {logits.shape}")
    by_index = len(labels.shape) == len(logits.shape) - 1
    if by_index and not labels.dtype.is_integer:
        raise DTypeError(f"labels of shape {labels.shape} name classes and must be integers, they are {labels.dtype}")
    return logits.shape[axis], by_index


def _along(axis: int, class_weights: Any, logits: Tensor, classes: int) -> Tensor:
    """One number a class, lying along the axis of the classes."""
    class_weights = as_dtype_of(class_weights, logits)
    if class_weights.shape != (classes,):
        raise ShapeError(f"class_weights {class_weights.shape} must be one number for each of {classes} classes")
    rank = len(logits.shape or ())
    shape = [classes if i == axis % rank else 1 for i in range(rank)]
    return graph_of(logits).reshape(class_weights, shape)


def _counts(labels: Tensor, ignore_index: int, like_this: Tensor, axis: int) -> Tensor:
    """1 where a label is one, 0 where it is the one to ignore."""
    g = graph_of(labels)
    return g.expand_dims(g.cast(g.not_equal(labels, ignore_index), like_this.dtype), axis)


def _weighed_mean(losses: Tensor, used: Tensor | None, weights: Tensor | None, reduction: str) -> Tensor:
    if reduction == "mean" and used is not None:
        total = reduced(losses, "sum", weights)
        return graph_of(losses).division_no_nan(total, sum_of_all(used))  # 0 where no label counts
    return reduced(losses, reduction, weights)


@checked
@in_float32
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
    """Negative logarithm of the likelihood: -log_probabilities at the label.

    Args: log_probabilities (..., classes), as of log_softmax; labels, integers (...); the others as cross_entropy's,
    which is this of log_softmax(logits). Errors: ShapeError, DTypeError, GraphError, OutOfRangeError. PyTorch's
    NLLLoss.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.nll(g.constant([[-3.0, -0.5]]), g.constant([1]))).item()
    0.5
    """
    g = graph_of(log_probabilities)
    classes, by_index = _classes(log_probabilities, labels, axis, "nll")
    if not by_index:
        raise ShapeError(f"nll: labels {labels.shape} must be integers, one for each of {log_probabilities.shape}")
    used = one_hot_labels(labels, classes, axis, log_probabilities, ignore_index)
    if class_weights is not None:
        used = used * _along(axis, class_weights, log_probabilities, classes)
    if ignore_index is not None:
        used = used * _counts(labels, ignore_index, used, axis)
    parts = g.select(g.equal(used, 0.0), g.constant(0.0, dtype=used.dtype), -log_probabilities * used)  # 0 ln 0 = 0
    losses = g.squeeze(g.reduction_sum(parts, axis), axis)
    return _weighed_mean(losses, used, weights, reduction)


@checked
@in_float32
def categorical_cross_entropy(
    outputs: Tensor,
    labels: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-7,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-sum over classes of labels * ln(max(outputs, epsilon)), for outputs that are probabilities.

    Args: outputs and labels of one shape; axis, that of the classes; weights and reduction as in `reduced`. Errors:
    ShapeError, GraphError. MPSCNNLossTypeCategoricalCrossEntropy; Keras's CategoricalCrossentropy.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.categorical_cross_entropy(g.constant([[1.0, 0.0]]), g.constant([[1.0, 0.0]]))).item()
    0.0
    """
    g = graph_of(outputs)
    parts = like(labels, outputs) * g.logarithm(g.maximum_with_nan_propagation(outputs, epsilon))
    return reduced(-g.squeeze(g.reduction_sum(parts, axis), axis), reduction, weights)


@checked
@in_float32
def binary_cross_entropy_with_logits(
    logits: Tensor,
    labels: Tensor,
    *,
    positive_weight: Tensor | float | Sequence[float] | np.ndarray = 1.0,
    label_smoothing: float = 0.0,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-w * labels * ln s - (1 - labels) * ln(1 - s), s = sigmoid(logits), computed without overflow.

    Args: logits, labels, one shape; labels in [0, 1]; positive_weight w, a number, or a tensor, an array or a list that
    broadcasts to the logits; label_smoothing s: (1 - s) * labels + s / 2 is taken for the labels; weights and reduction
    as in `reduced`. Errors: ShapeError, GraphError, OutOfRangeError for integers other than 0 and 1.
    MPSCNNLossTypeSigmoidCrossEntropy; PyTorch's BCEWithLogitsLoss.

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
def binary_cross_entropy(
    outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-labels * ln(outputs) - (1 - labels) * ln(1 - outputs), with logarithms of at least -100.

    Args: outputs, probabilities, and labels in [0, 1], one shape; weights and reduction as in `reduced`. From logits
    use binary_cross_entropy_with_logits, which loses no digits. Errors: as there. PyTorch's BCELoss.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.binary_cross_entropy(g.constant([1.0, 0.0]), g.constant([1.0, 1.0]))).item()
    50.0
    """
    g, wanted = graph_of(outputs), binary_labels(labels, outputs)

    def logarithm(p: Tensor) -> Tensor:
        nothing = p <= 0.0  # where the slope of the logarithm would make NaN of 0; a NaN is not, and stays
        found = g.logarithm(g.select(nothing, g.constant(1.0, dtype=p.dtype), p))
        least = g.constant(-100.0, dtype=p.dtype)
        return g.select(nothing, least, g.maximum_with_nan_propagation(found, least))

    losses = -(wanted * logarithm(outputs) + (1.0 - wanted) * logarithm(1.0 - outputs))
    return reduced(losses, reduction, weights)


@checked
@in_float32
def log_loss(
    outputs: Tensor, labels: Tensor, *, epsilon: float = 1e-7, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-labels * ln(outputs + epsilon) - (1 - labels) * ln(1 - outputs + epsilon): MPSCNNLossTypeLog.

    Args: as binary_cross_entropy's, which differs at 0 and 1. Errors: ShapeError, GraphError.

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
def kl_divergence(
    outputs: Tensor,
    labels: Tensor,
    *,
    log_labels: bool = False,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """labels * (ln(labels) - outputs), for outputs that are logarithms of probabilities. Kullback and Leibler, 1951.

    Args: outputs and labels of one shape; log_labels, whether labels are logarithms, too; weights and reduction as in
    `reduced`, or "batch_mean": the sum divided by the size of the first axis, which is the divergence. Errors:
    ShapeError, GraphError. MPSCNNLossTypeKullbackLeiblerDivergence; PyTorch's KLDivLoss.

    >>> g = mg.Graph()
    >>> outputs, labels = g.constant([[-1.0, -2.0]]), g.constant([[1.0, 0.0]])
    >>> g.run({}, mg.nn.losses.kl_divergence(outputs, labels, reduction="batch_mean")).item()
    1.0
    """
    g, wanted = graph_of(outputs), like(labels, outputs)
    if log_labels:
        losses = g.exponent(wanted) * (wanted - outputs)
    else:
        positive = g.select(wanted > 0.0, wanted, g.constant(1.0, dtype=wanted.dtype))  # 0 ln 0 = 0
        losses = wanted * (g.logarithm(positive) - outputs)
    if reduction != "batch_mean":
        return reduced(losses, reduction, weights)
    sizes = g.cast(g.slice_axis(g.shape_of(outputs), 0, 0, 1), outputs.dtype)
    return reduced(losses, "sum", weights) / g.reshape(sizes, ())


@checked
@in_float32
def hinge(outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """max(0, 1 - labels * outputs), for labels -1 and 1.

    Args: outputs and labels of one shape; weights and reduction as in `reduced`. Errors: ShapeError, GraphError.
    MPSCNNLossTypeHinge; Keras's Hinge, which makes -1 of labels 0.

    >>> g = mg.Graph()
    >>> loss = mg.nn.losses.hinge(g.constant([0.5, 0.5, 3.0]), g.constant([1, -1, 1]), reduction="none")
    >>> g.run({}, loss).tolist()
    [0.5, 1.5, 0.0]
    """
    return reduced(graph_of(outputs).relu(1.0 - outputs * like(labels, outputs)), reduction, weights)


@checked
@in_float32
def squared_hinge(outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """max(0, 1 - labels * outputs)^2. Args: as hinge's. Keras's SquaredHinge. Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.squared_hinge(g.constant([-2.0]), g.constant([1]))).item()
    9.0
    """
    return reduced(graph_of(outputs).square(hinge(outputs, labels, reduction="none")), reduction, weights)


@checked
@in_float32
def soft_margin(outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """ln(1 + e^(-labels * outputs)), for labels -1 and 1. Args: as hinge's. PyTorch's SoftMarginLoss.

    Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.soft_margin(g.constant([-100.0]), g.constant([1]))).item()
    100.0
    """
    return reduced(softplus(-outputs * like(labels, outputs)), reduction, weights)


@checked
@in_float32
def multi_label_soft_margin(
    logits: Tensor,
    labels: Tensor,
    *,
    class_weights: Tensor | Sequence[float] | np.ndarray | None = None,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of binary_cross_entropy_with_logits: each sample may be of several classes.

    Args: logits and labels, 0 or 1, of shape (..., classes); class_weights (classes), as cross_entropy's; weights, of
    the samples, and reduction as in `reduced`. Errors: ShapeError, GraphError. PyTorch's MultiLabelSoftMarginLoss.

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
