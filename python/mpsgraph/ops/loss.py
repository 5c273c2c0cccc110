"""Losses that MPSGraph has as operations: soft-max cross-entropy.

Others (mean squared error, binary cross-entropy, ...) are compositions in mpsgraph.nn.losses.
"""

from __future__ import annotations

from ._family import Family, Tensor


class Loss(Family):
    """softmax_cross_entropy and its gradient."""

    def softmax_cross_entropy(
        self, source: Tensor, labels: Tensor, axis: int = -1, reduction: str = "sum", name: str | None = None
    ) -> Tensor:
        """Cross-entropy of labels against the soft-max of source, in nats.

        loss = -sum along `axis` of labels * log_softmax(source); result = the losses, their sum, or their mean.
        Args: source, logits; labels, source's shape and dtype, probabilities or one-hot; axis, that of the classes;
        reduction, "none" (the axis stays with size 1), "sum" or "mean" over the losses (rank 0). Errors: ShapeError,
        DTypeError, GraphError for another reduction.
        Gradient: softmax_cross_entropy_gradient to source, -incoming * log_softmax(source) to labels.
        Source: MPSGraph softMaxCrossEntropyWithSourceTensor:labelsTensor:axis:reductionType:name:.

        >>> g = mg.Graph()
        >>> logits, labels = g.constant([[100.0, 0.0]]), g.constant([[0.0, 1.0]])
        >>> g.run({}, g.softmax_cross_entropy(logits, labels, reduction="mean")).item()
        100.0
        """
        return self._tensor("softmax_cross_entropy", [source, labels], name, axis=axis, reduction=reduction)

    def softmax_cross_entropy_gradient(
        self,
        incoming: Tensor,
        source: Tensor,
        labels: Tensor,
        axis: int = -1,
        reduction: str = "sum",
        name: str | None = None,
    ) -> Tensor:
        """Gradient of softmax_cross_entropy with respect to its source.

        result = incoming * (softmax(source) * sum(labels) - labels), divided by the number of losses for "mean".
        Args: incoming, shaped as the loss; the rest as given to softmax_cross_entropy. Result: source's shape and
        dtype. Errors: ShapeError, DTypeError, GraphError. Gradient: to all operands. Source: MPSGraph
        softMaxCrossEntropyGradientWithIncomingGradientTensor:sourceTensor:labelsTensor:axis:reductionType:name:.

        >>> g = mg.Graph()
        >>> logits, labels = g.constant([[3.0, 3.0]]), g.constant([[0.0, 1.0]])
        >>> g.run({}, g.softmax_cross_entropy_gradient(g.constant(1.0), logits, labels)).tolist()
        [[0.5, -0.5]]
        """
        kind = "softmax_cross_entropy_gradient"
        return self._tensor(kind, [incoming, source, labels], name, axis=axis, reduction=reduction)
