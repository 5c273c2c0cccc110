"""Losses: MPSCNNLossNode, MPSNNForwardLossNode, and MPSNNInitialGradientNode."""

from __future__ import annotations

from typing import Any

from ..._core import ImageNode
from ._node import Node, Sizes


class LossDescriptor:
    """Kind and parameters of a loss.

    Args:
        loss_type: "mean_absolute_error", "mean_squared_error", "softmax_cross_entropy" (of logits),
            "sigmoid_cross_entropy" (of logits), "categorical_cross_entropy", "hinge", "huber", "cosine_distance",
            "log", or "kullback_leibler_divergence".
        reduction_type: Reduction of the reported loss: "none", "sum" (the default), "mean", or
            "sum_by_nonzero_weights". As in Apple's API, the gradient is always that of the sum; for the mean over a
            batch, set weight to 1 / images.
        weight: Factor of the loss and its gradient. Defaults to 1.
        label_smoothing: Label smoothing of the softmax and sigmoid cross-entropies, from 0 up to but not including 1.
            Defaults to 0.
        number_of_classes: Number of classes, for label_smoothing. Defaults to 1.
        epsilon: Constant added to the arguments of the logarithms in the "log" loss. Defaults to 1e-7.
        delta: Threshold of the "huber" loss. Defaults to 1.
        reduce_across_batch: Whether the loss is reduced over the whole batch instead of per image. Defaults to False.

    The loss node checks the values and raises GraphError for invalid ones.

    Source: MPSCNNLossDescriptor.

    Example:
        >>> descriptor = mg.nngraph.LossDescriptor("softmax_cross_entropy", weight=1 / 64)
        >>> descriptor.loss_type, descriptor.weight
        ('softmax_cross_entropy', 0.015625)
    """

    def __init__(
        self,
        loss_type: str,
        reduction_type: str = "sum",
        *,
        weight: float = 1.0,
        label_smoothing: float = 0.0,
        number_of_classes: int = 1,
        epsilon: float = 1e-7,
        delta: float = 1.0,
        reduce_across_batch: bool = False,
    ) -> None:
        self.loss_type, self.reduction_type, self.weight = loss_type, reduction_type, weight
        self.label_smoothing, self.number_of_classes = label_smoothing, number_of_classes
        self.epsilon, self.delta, self.reduce_across_batch = epsilon, delta, reduce_across_batch

    def _attributes(self) -> dict[str, Any]:
        return {
            "loss_type": self.loss_type,
            "reduction_type": self.reduction_type,
            "weight": float(self.weight),
            "label_smoothing": float(self.label_smoothing),
            "number_of_classes": self.number_of_classes,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "reduce_across_batch": self.reduce_across_batch,
        }


class LossNode(Node):
    """Loss whose labels are passed with each batch as source states.

    The result_image of this node is already the gradient of the loss, so gradient filters start at this node. After the
    run, the labels contain the loss.

    Args:
        source: Image node that the filter reads.
        loss_descriptor: Kind and parameters of the loss.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode, or loss_descriptor has an invalid value.
        ShapeError: From encode_batch, if labels or weights do not match the images.

    Source: MPSCNNLossNode.

    Example:
        >>> nn = mg.nngraph
        >>> loss = nn.LossNode(nn.ImageNode("x"), nn.LossDescriptor("mean_squared_error", "none"))
        >>> graph = nn.NNGraph(None, loss.result_image)
        >>> labels = nn.LossLabelsBatch(np.float32([[[[1, 2]]]]))
        >>> buffer = mg.CommandQueue(mg.Device.default()).command_buffer()
        >>> gradient = graph.encode_batch(buffer, [np.float32([[[[2, 2]]]])], [labels])
        >>> buffer.commit()
        >>> buffer.wait_until_completed()
        >>> print(gradient.numpy().ravel())
        [2. 0.]
    """

    kind_name = "loss"

    def __init__(self, source: ImageNode, loss_descriptor: LossDescriptor, *, label: str = "") -> None:
        super().__init__([source], loss_descriptor._attributes(), label=label)


class ForwardLossNode(Node):
    """Loss whose labels, and optionally weights, are images.

    The result of this node is the loss, and the node has a gradient filter.

    Args:
        source: Image node that the filter reads.
        labels: Image node of the labels.
        weights: Image node of the weights. None (the default) means the weight of the descriptor.
        loss_descriptor: Kind and parameters of the loss.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If a source is not an ImageNode, or loss_descriptor has an invalid value.
        ShapeError: From encode_batch, if labels or weights do not match the images.

    Source: MPSNNForwardLossNode, MPSNNLossGradientNode.

    Example:
        >>> nn = mg.nngraph
        >>> descriptor = nn.LossDescriptor("mean_squared_error", "none")
        >>> loss = nn.ForwardLossNode(nn.ImageNode("x"), nn.ImageNode("labels"), loss_descriptor=descriptor)
        >>> x = np.float32([[[[2, 2]]]])
        >>> print(nn.NNGraph(None, loss.result_image)(x, x - 1).numpy().ravel())
        [1. 1.]
    """

    kind_name = "forward_loss"

    def __init__(
        self,
        source: ImageNode,
        labels: ImageNode,
        weights: ImageNode | None = None,
        *,
        loss_descriptor: LossDescriptor,
        label: str = "",
    ) -> None:
        sources = [source, labels] if weights is None else [source, labels, weights]
        super().__init__(sources, loss_descriptor._attributes(), label=label)


class InitialGradientNode(Sizes):
    """Image of ones in the shape of the source: the initial gradient of a loss that is an image.

    Args:
        source: Image node that the filter reads.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Must be empty; this node has no attributes.

    Raises:
        GraphError: If source is not an ImageNode, or a keyword is passed.

    Source: MPSNNInitialGradientNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.InitialGradientNode(nn.ImageNode("x"))
        >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [1. 1. 1.]
    """

    kind_name = "initial_gradient"
