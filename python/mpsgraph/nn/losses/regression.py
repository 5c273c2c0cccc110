"""Losses for regression: differences, and likelihoods of distributions."""

from __future__ import annotations

import math

from ..._checks import NotNegative, Positive, checked
from ..._core import Tensor
from ...errors import GraphError
from ...precision.mixed_precision import in_float32
from ..activations import exponent_minus_one, logarithm_of_one_plus, softplus_parts
from ..parts import graph_of
from .reduction import as_dtype_of, like, reduced, selecting


@checked
@in_float32
@selecting("outputs", "labels")
def mean_squared_error(
    outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Squared error: (outputs - labels)^2.

    Args:
        outputs: Outputs of the model.
        labels: Targets, with the shape of outputs.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: MPSCNNLossTypeMeanSquaredError; PyTorch's MSELoss.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.mean_squared_error(g.constant([1.0, 2.0]), g.constant([1.0, 4.0]))).item()
        2.0
    """
    return reduced(graph_of(outputs).square(outputs - like(labels, outputs)), reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def mean_absolute_error(
    outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Absolute error: |outputs - labels|.

    Args:
        outputs: Outputs of the model.
        labels: Targets, with the shape of outputs.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: MPSCNNLossTypeMeanAbsoluteError; PyTorch's L1Loss.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.mean_absolute_error(g.constant([1.0, 2.0]), g.constant([1.0, 4.0]))).item()
        1.0
    """
    return reduced(abs(outputs - like(labels, outputs)), reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def huber(
    outputs: Tensor, labels: Tensor, *, delta: Positive = 1.0, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Huber loss: d^2 / 2 where |d| <= delta, otherwise delta * (|d| - delta / 2), with d = outputs - labels.

    Args:
        outputs: Outputs of the model.
        labels: Targets, with the shape of outputs.
        delta: Difference at which the loss turns linear, above 0. Defaults to 1.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If delta is not above 0, or reduction is unknown.

    Source: MPSCNNLossTypeHuber; PyTorch's HuberLoss; Huber, 1964.

    Example:
        >>> g = mg.Graph()
        >>> loss = mg.nn.losses.huber(g.constant([1.0, 5.0]), g.constant([0.0, 0.0]), reduction="none")
        >>> g.run({}, loss).tolist()
        [0.5, 4.5]
    """
    if delta <= 0:
        raise GraphError(f"huber: delta must be above 0, got {delta}")
    size = abs(outputs - like(labels, outputs))
    near = graph_of(outputs).select(size > delta, graph_of(outputs).constant(delta, dtype=size.dtype), size)
    losses = near * (size - near * 0.5)  # This formula covers both pieces and never squares a large difference.
    return reduced(losses, reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def smooth_l1(
    outputs: Tensor, labels: Tensor, *, beta: float = 1.0, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Smooth L1 loss: d^2 / (2 beta) where |d| < beta, otherwise |d| - beta / 2, with d = outputs - labels.

    Equals the Huber loss with delta = beta, divided by beta.

    Args:
        outputs: Outputs of the model.
        labels: Targets, with the shape of outputs.
        beta: Difference at which the loss turns linear; 0 gives |d|. Defaults to 1.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If beta is negative, or reduction is unknown.

    Source: PyTorch's SmoothL1Loss; Girshick, arXiv:1504.08083.

    Example:
        >>> g = mg.Graph()
        >>> loss = mg.nn.losses.smooth_l1(g.constant([1.0, 5.0]), g.constant([0.0, 0.0]), beta=2.0, reduction="none")
        >>> g.run({}, loss).tolist()
        [0.25, 4.0]
    """
    if beta == 0:
        return mean_absolute_error(outputs, labels, weights=weights, reduction=reduction)
    losses = huber(outputs, labels, delta=beta, reduction="none") * (1 / beta)
    return reduced(losses, reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def log_cosh(outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Log-cosh loss: ln(cosh(outputs - labels)), computed without overflow.

    Args:
        outputs: Outputs of the model.
        labels: Targets, with the shape of outputs.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: Keras's LogCosh.

    Example:
        >>> g = mg.Graph()
        >>> round(g.run({}, mg.nn.losses.log_cosh(g.constant([1000.0]), g.constant([0.0]))).item(), 2)
        999.31
    """
    above, below, _ = softplus_parts(outputs - like(labels, outputs))
    size = above + below
    return reduced(size + logarithm_of_one_plus(exponent_minus_one(size * -2.0) * 0.5), reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def mean_squared_logarithmic_error(
    outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Squared logarithmic error: (ln(1 + outputs) - ln(1 + labels))^2.

    Args:
        outputs: Outputs of the model, above -1.
        labels: Targets above -1, with the shape of outputs.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: Keras's MeanSquaredLogarithmicError.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.mean_squared_logarithmic_error(g.constant([3.0]), g.constant([3.0]))).item()
        0.0
    """
    g = graph_of(outputs)
    difference = g.logarithm(outputs + 1.0) - g.logarithm(like(labels, outputs) + 1.0)
    return reduced(g.square(difference), reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def mean_absolute_percentage_error(
    outputs: Tensor,
    labels: Tensor,
    *,
    epsilon: NotNegative = 1e-7,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Absolute percentage error: 100 * |(outputs - labels) / max(|labels|, epsilon)|.

    Args:
        outputs: Outputs of the model.
        labels: Targets, with the shape of outputs.
        epsilon: Lower bound of the denominator. Defaults to 1e-7.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: Keras's MeanAbsolutePercentageError.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.mean_absolute_percentage_error(g.constant([3.0]), g.constant([2.0]))).item()
        50.0
    """
    wanted = like(labels, outputs)
    share = (outputs - wanted) / graph_of(outputs).maximum_with_nan_propagation(abs(wanted), epsilon)
    return reduced(abs(share) * 100.0, reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels")
def poisson_nll(
    outputs: Tensor,
    labels: Tensor,
    *,
    log_input: bool = True,
    full: bool = False,
    epsilon: NotNegative = 1e-8,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Poisson negative log-likelihood of counts, without the term that depends on the labels alone.

    Computes e^outputs - labels * outputs if outputs are logarithms of rates, and outputs - labels * ln(outputs +
    epsilon) if they are rates.

    Args:
        outputs: Logarithms of rates, or rates.
        labels: Counts, with the shape of outputs.
        log_input: Whether outputs are logarithms of rates. Defaults to True.
        full: Whether to add Stirling's approximation of ln(labels!) for labels above 1. Defaults to False.
        epsilon: Added to rates in the logarithm. Defaults to 1e-8.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: PyTorch's PoissonNLLLoss.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.poisson_nll(g.constant([0.0]), g.constant([3]))).item()
        1.0
    """
    g, counts = graph_of(outputs), like(labels, outputs)
    if log_input:
        losses = g.exponent(outputs) - counts * outputs
    else:
        losses = outputs - counts * g.logarithm(outputs + epsilon)
    if full:
        above = g.maximum_with_nan_propagation(counts, 1.0)
        stirling = above * g.logarithm(above) - above + g.logarithm(above * (2 * math.pi)) * 0.5
        losses = losses + g.select(counts > 1.0, stirling, g.constant(0.0, dtype=outputs.dtype))
    return reduced(losses, reduction, weights)


@checked
@in_float32
@selecting("outputs", "labels", "variance")
def gaussian_nll(
    outputs: Tensor,
    labels: Tensor,
    variance: Tensor,
    *,
    full: bool = False,
    epsilon: NotNegative = 1e-6,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Gaussian negative log-likelihood of the labels, with outputs as means and a variance for each.

    Computes (ln(v) + (outputs - labels)^2 / v) / 2 with v = max(variance, epsilon).

    Args:
        outputs: Means.
        labels: Targets, with the shape of outputs.
        variance: Variances, broadcastable to outputs.
        full: Whether to add the constant ln(2 pi) / 2. Defaults to False.
        epsilon: Lower bound of the variance. Defaults to 1e-6.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: PyTorch's GaussianNLLLoss; Nix and Weigend, 1994.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.gaussian_nll(g.constant([3.0]), g.constant([1.0]), g.constant([1.0]))).item()
        2.0
    """
    g, wanted = graph_of(outputs), like(labels, outputs)
    v = g.maximum_with_nan_propagation(as_dtype_of(variance, outputs), epsilon)
    losses = (g.logarithm(v) + g.square(outputs - wanted) / v) * 0.5
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction, weights)
