"""Losses of numbers against numbers: differences, and likelihoods of distributions."""

from __future__ import annotations

import math

from ..._checks import checked
from ..._core import Tensor
from ...errors import GraphError
from ...precision.mixed_precision import in_float32
from ..activations import exponent_minus_one, logarithm_of_one_plus, softplus_parts
from ..module import graph_of
from .reduction import as_dtype_of, like, reduced


@checked
@in_float32
def mean_squared_error(
    outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """(outputs - labels)^2. Args: outputs and labels of one shape; weights and reduction as in `reduced`.

    Errors: ShapeError, GraphError. MPSCNNLossTypeMeanSquaredError; PyTorch's MSELoss.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.mean_squared_error(g.constant([1.0, 2.0]), g.constant([1.0, 4.0]))).item()
    2.0
    """
    return reduced(graph_of(outputs).square(outputs - like(labels, outputs)), reduction, weights)


@checked
@in_float32
def mean_absolute_error(
    outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """|outputs - labels|. Args: outputs and labels of one shape; weights and reduction as in `reduced`.

    Errors: ShapeError, GraphError. MPSCNNLossTypeMeanAbsoluteError; PyTorch's L1Loss.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.mean_absolute_error(g.constant([1.0, 2.0]), g.constant([1.0, 4.0]))).item()
    1.0
    """
    return reduced(abs(outputs - like(labels, outputs)), reduction, weights)


@checked
@in_float32
def huber(
    outputs: Tensor, labels: Tensor, *, delta: float = 1.0, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2), with d = outputs - labels. Huber, 1964.

    Args: outputs and labels of one shape; delta, above 0; weights and reduction as in `reduced`. Errors: ShapeError,
    GraphError. MPSCNNLossTypeHuber; PyTorch's HuberLoss.

    >>> g = mg.Graph()
    >>> loss = mg.nn.losses.huber(g.constant([1.0, 5.0]), g.constant([0.0, 0.0]), reduction="none")
    >>> g.run({}, loss).tolist()
    [0.5, 4.5]
    """
    if delta <= 0:
        raise GraphError(f"huber: delta must be above 0, got {delta}")
    size = abs(outputs - like(labels, outputs))
    near = graph_of(outputs).select(size > delta, graph_of(outputs).constant(delta, dtype=size.dtype), size)
    losses = near * (size - near * 0.5)  # both pieces at once: the square of a large difference is never taken
    return reduced(losses, reduction, weights)


@checked
@in_float32
def smooth_l1(
    outputs: Tensor, labels: Tensor, *, beta: float = 1.0, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """d^2 / (2 beta) where |d| < beta, else |d| - beta / 2: huber / beta. Girshick, arXiv:1504.08083.

    Args: as huber's; beta 0 gives |d|. Errors: ShapeError, GraphError. PyTorch's SmoothL1Loss.

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
def log_cosh(outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """ln(cosh(outputs - labels)), without overflow. Args: as mean_squared_error's. Keras's LogCosh.

    Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> round(g.run({}, mg.nn.losses.log_cosh(g.constant([1000.0]), g.constant([0.0]))).item(), 2)
    999.31
    """
    above, below, _ = softplus_parts(outputs - like(labels, outputs))
    size = above + below
    return reduced(size + logarithm_of_one_plus(exponent_minus_one(size * -2.0) * 0.5), reduction, weights)


@checked
@in_float32
def mean_squared_logarithmic_error(
    outputs: Tensor, labels: Tensor, *, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """(ln(1 + outputs) - ln(1 + labels))^2. Args: as mean_squared_error's, above -1. Keras's of the same name.

    Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.mean_squared_logarithmic_error(g.constant([3.0]), g.constant([3.0]))).item()
    0.0
    """
    g = graph_of(outputs)
    difference = g.logarithm(outputs + 1.0) - g.logarithm(like(labels, outputs) + 1.0)
    return reduced(g.square(difference), reduction, weights)


@checked
@in_float32
def mean_absolute_percentage_error(
    outputs: Tensor, labels: Tensor, *, epsilon: float = 1e-7, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """100 * |(outputs - labels) / max(|labels|, epsilon)|. Args: as mean_squared_error's. Keras's of the same name.

    Errors: ShapeError, GraphError.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.mean_absolute_percentage_error(g.constant([3.0]), g.constant([2.0]))).item()
    50.0
    """
    wanted = like(labels, outputs)
    share = (outputs - wanted) / graph_of(outputs).maximum_with_nan_propagation(abs(wanted), epsilon)
    return reduced(abs(share) * 100.0, reduction, weights)


@checked
@in_float32
def poisson_nll(
    outputs: Tensor,
    labels: Tensor,
    *,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative logarithm of the Poisson probability of labels, counts, without the part that labels alone decide.

    e^outputs - labels * outputs, where outputs are logarithms of rates; outputs - labels * ln(outputs + epsilon) where
    they are rates. Args: outputs and labels of one shape; log_input, which of both; full, whether Stirling's
    approximation of ln(labels!) is added for labels above 1; weights and reduction as in `reduced`. Errors: ShapeError,
    GraphError. PyTorch's PoissonNLLLoss.

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
def gaussian_nll(
    outputs: Tensor,
    labels: Tensor,
    variance: Tensor,
    *,
    full: bool = False,
    epsilon: float = 1e-6,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative logarithm of the normal density of labels, with outputs as means and a variance of each.

    (ln(v) + (outputs - labels)^2 / v) / 2, v = max(variance, epsilon). Args: outputs and labels of one shape; variance,
    of that shape or what broadcasts to it; full, whether ln(2 pi) / 2 is added; weights and reduction as in `reduced`.
    Errors: ShapeError, GraphError. PyTorch's GaussianNLLLoss. Nix and Weigend, 1994.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.gaussian_nll(g.constant([3.0]), g.constant([1.0]), g.constant([1.0]))).item()
    2.0
    """
    g, wanted = graph_of(outputs), like(labels, outputs)
    v = g.maximum_with_nan_propagation(as_dtype_of(variance, outputs), epsilon)
    losses = (g.logarithm(v) + g.square(outputs - wanted) / v) * 0.5
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction, weights)
