"""Losses that MPSGraph provides as operations: softmax cross-entropy.

Other losses, such as mean squared error and binary cross-entropy, are compositions in mpsgraph.nn.losses.
"""

from __future__ import annotations

from ._family import Family, Tensor


class Loss(Family):
    """Graph methods for softmax_cross_entropy and its gradient."""

    def softmax_cross_entropy(
        self, source: Tensor, labels: Tensor, axis: int = -1, reduction: str = "sum", name: str | None = None
    ) -> Tensor:
        """Compute the cross-entropy between labels and the softmax of source, in nats.

        loss = -sum along `axis` of labels * log_softmax(source). The result is the losses, their sum, or their mean.

        Args:
            source: Floating-point logits.
            labels: Probabilities or one-hot vectors, with the shape and dtype of source.
            axis: Axis of the classes; negative values count from the end. Defaults to the last axis.
            reduction: "none" (one loss for each vector of logits, keeping the axis with size 1), "sum" (the default),
                or "mean".
            name: Name of the operation.

        Returns:
            A tensor with the dtype of source, of rank 0 unless reduction is "none".

        Raises:
            ShapeError: If the shapes differ or axis is out of range.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If reduction has an unknown value.

        Gradient: computed by softmax_cross_entropy_gradient for source; -incoming gradient * log_softmax(source) for
        labels.

        Source: MPSGraph softMaxCrossEntropyWithSourceTensor:labelsTensor:axis:reductionType:name:.

        Example:
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
        """Compute the gradient of softmax_cross_entropy with respect to its source.

        result = incoming * (softmax(source) * sum(labels) - labels), divided by the number of losses if reduction is
        "mean".

        Args:
            incoming: Gradient with respect to the loss, with the shape of the loss.
            source: The logits given to softmax_cross_entropy.
            labels: The labels given to softmax_cross_entropy.
            axis: Axis of the classes; negative values count from the end. Defaults to the last axis.
            reduction: The reduction given to softmax_cross_entropy. Defaults to "sum".
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of source.

        Raises:
            ShapeError: If the shapes do not match or axis is out of range.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If reduction has an unknown value.

        Gradient: to all operands.

        Source: MPSGraph
        softMaxCrossEntropyGradientWithIncomingGradientTensor:sourceTensor:labelsTensor:axis:reductionType:name:.

        Example:
            >>> g = mg.Graph()
            >>> logits, labels = g.constant([[3.0, 3.0]]), g.constant([[0.0, 1.0]])
            >>> g.run({}, g.softmax_cross_entropy_gradient(g.constant(1.0), logits, labels)).tolist()
            [[0.5, -0.5]]
        """
        kind = "softmax_cross_entropy_gradient"
        return self._tensor(kind, [incoming, source, labels], name, axis=axis, reduction=reduction)
