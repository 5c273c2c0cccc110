"""Translations of losses over class indices."""

from __future__ import annotations

from ..._core import Tensor
from ...errors import GraphError
from ..building.node import Node, Results, operator


def _negative_log_likelihood(node: Node, scores: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """Return the negative log-likelihood loss -w[label] * score[label] of each label, or the sum or weighted mean of
    losses.
    """
    g, weights = node.g, None if weights is None else node.in_float32(weights)
    ignored = node.attribute("ignore_index", None)
    # Replace ignored labels with class 0; their losses are masked later. Other out-of-range labels raise an error.
    classes = labels if ignored is None else g.select(g.equal(labels, ignored), 0, labels)
    taken = g.gather_along_axis(1, scores, g.expand_dims(classes, 1), out_of_range="error")
    losses = g.negative(g.squeeze(taken, [1]))
    counted = None if weights is None else g.gather(weights, classes, 0, out_of_range="error")
    if ignored is not None:
        kept = g.cast(g.not_equal(labels, ignored), scores.dtype)
        counted = kept if counted is None else g.multiplication(counted, kept)
    if counted is not None:
        losses = g.multiplication(losses, counted)
    reduction = node.attribute("reduction", "mean")
    if reduction == "none":
        return losses
    if reduction not in ("sum", "mean"):
        raise GraphError(f"reduction must be none, sum, or mean, got {reduction!r}")
    if reduction == "mean" and counted is None:
        return g.reshape(g.mean(losses), ())
    total = g.reshape(g.reduction_sum(losses), ())
    if reduction == "sum" or counted is None:
        return total
    return g.division(total, g.reshape(g.reduction_sum(counted), ()))


@operator("NegativeLogLikelihoodLoss", upto=22)
def negative_log_likelihood(node: Node) -> Results:
    return node.widely(node.tensor(0), lambda x: _negative_log_likelihood(node, x, node.tensor(1), node.optional(2)))


@operator("SoftmaxCrossEntropyLoss", upto=13)
def softmax_cross_entropy(node: Node) -> Results:
    x = node.tensor(0)
    scores = node.g.log_softmax(node.in_float32(x), 1)
    loss = _negative_log_likelihood(node, scores, node.tensor(1), node.optional(2))
    return [node.cast(loss, x.dtype), node.cast(scores, x.dtype)]
