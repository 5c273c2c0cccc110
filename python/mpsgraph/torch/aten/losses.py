"""Translations of losses.

PyTorch numbers the reductions: 0 means no reduction, 1 the mean, and 2 the sum.
"""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ...numpy._formulas import log1p
from ._table import Call, aten, shape_of


def _reduced(call: Call, x: Tensor, reduction: int) -> Tensor:
    if reduction == 0:
        return x
    total = call.g.mean(x) if reduction == 1 else call.g.reduction_sum(x)
    return call.g.reshape(total, ())


def _picked(
    call: Call, logarithms: Tensor, labels: Tensor, axis: int, weight: Tensor | None, reduction: int, ignored: int
) -> tuple[Tensor, Tensor]:
    """Return the negative log-likelihood loss of class labels, weighted and reduced, and the total weight of the
    labels.
    """
    g = call.g
    counts = g.not_equal(labels, ignored)
    safe = g.select(counts, labels, call.cast(0, labels.dtype))
    if axis < 0:
        found = g.gather_along_axis(0, logarithms, g.reshape(safe, [1]), out_of_range="error")
        found = g.reshape(found, ())
    else:
        found = g.gather_along_axis(axis, logarithms, g.expand_dims(safe, axis), out_of_range="error")
        found = g.reshape(found, shape_of(labels))
    shares = call.cast(counts, logarithms.dtype)
    if weight is not None:
        shares = shares * g.reshape(g.gather(weight, g.reshape(safe, [-1])), shape_of(labels))
    found = g.select(counts, -found, call.cast(0.0, logarithms.dtype))
    if weight is not None:
        found = found * shares
    total = g.reshape(g.reduction_sum(shares), ()) if shares.shape else shares
    if reduction == 0:
        return found, total
    result = g.reshape(g.reduction_sum(found), ()) if found.shape else found
    return (result / total if reduction == 1 else result), total


@aten("cross_entropy_loss")
def cross_entropy_loss(
    call: Call, x: Tensor, labels: Tensor, weight: Tensor | None = None, reduction: int = 1, ignored: int = -100,
    smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    g, rank = call.g, len(shape_of(x))
    axis = 0 if rank == 1 else 1
    logarithms = g.log_softmax(x, axis)
    if labels.dtype.is_float:
        if weight is not None or smoothing:
            call.refuse("class probabilities are supported only without class weights and label smoothing")
        sizes = [size for i, size in enumerate(shape_of(x)) if i != axis]
        losses = g.reshape(-g.reduction_sum(logarithms * labels, axis), sizes)
        if reduction != 1:
            return _reduced(call, losses, reduction)
        return g.reshape(g.mean(losses), ()) if losses.shape else losses
    if smoothing:
        call.refuse("label smoothing is not supported: use label_smoothing=0")
    return _picked(call, logarithms, labels, axis if rank > 1 else -1, weight, reduction, ignored)[0]


@aten("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss_nd", "nll_loss2d")
def nll_loss(
    call: Call, x: Tensor, labels: Tensor, weight: Tensor | None = None, reduction: int = 1, ignored: int = -100
) -> Any:
    found, total = _picked(call, x, labels, 1 if len(shape_of(x)) > 1 else -1, weight, reduction, ignored)
    if not isinstance(call.result, (tuple, list)):
        return found
    return [found, total if reduction else call.cast(0.0, x.dtype)]


@aten("mse_loss")
def mse_loss(call: Call, x: Tensor, y: Tensor, reduction: int = 1) -> Tensor:
    return _reduced(call, call.g.square(x - y), reduction)


@aten("l1_loss")
def l1_loss(call: Call, x: Tensor, y: Tensor, reduction: int = 1) -> Tensor:
    return _reduced(call, call.g.absolute(x - y), reduction)


@aten("smooth_l1_loss")
def smooth_l1_loss(call: Call, x: Tensor, y: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    if beta == 0:
        return l1_loss(call, x, y, reduction)
    g, away = call.g, call.g.absolute(x - y)
    near = g.less_than(away, float(beta))
    return _reduced(call, g.select(near, g.square(away) * (0.5 / beta), away - 0.5 * beta), reduction)


@aten("huber_loss")
def huber_loss(call: Call, x: Tensor, y: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    g, away = call.g, call.g.absolute(x - y)
    near = g.less_than_or_equal_to(away, float(delta))
    return _reduced(call, g.select(near, g.square(away) * 0.5, (away - 0.5 * delta) * float(delta)), reduction)


@aten("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    call: Call, x: Tensor, y: Tensor, weight: Tensor | None = None, positive: Tensor | None = None, reduction: int = 1
) -> Tensor:
    g = call.g
    # This expression is -log(sigmoid(x)), computed without overflow.
    softened = log1p(g, g.exponent(-g.absolute(x))) + g.maximum(-x, 0.0)
    if positive is None:
        losses = (1.0 - y) * x + softened
    else:
        losses = (1.0 - y) * x + ((positive - 1.0) * y + 1.0) * softened
    return _reduced(call, losses if weight is None else losses * weight, reduction)


@aten("binary_cross_entropy")
def binary_cross_entropy(call: Call, x: Tensor, y: Tensor, weight: Tensor | None = None, reduction: int = 1) -> Tensor:
    """Translate binary_cross_entropy. Logarithms are clamped to at least -100, as in PyTorch."""
    g = call.g
    inside, outside = (g.maximum(g.logarithm(v), -100.0) for v in (x, 1.0 - x))
    losses = (y - 1.0) * outside - y * inside
    return _reduced(call, losses if weight is None else losses * weight, reduction)
