"""Family loss: MPSCNNLossNode, MPSNNForwardLossNode, MPSNNInitialGradientNode."""

from __future__ import annotations

from typing import Any

from ..._core import ImageNode
from ._node import Node, Sizes


class LossDescriptor:
    """How a loss is computed. Source: MPSCNNLossDescriptor.

    Args: loss_type, "mean_absolute_error", "mean_squared_error", "softmax_cross_entropy" (over logits),
    "sigmoid_cross_entropy", "categorical_cross_entropy", "hinge", "huber", "cosine_distance", "log" or
    "kullback_leibler_divergence"; reduction_type, "none", "sum", "mean" or "sum_by_nonzero_weights", of the loss that
    is shown: the gradient is that of the sum, as Apple's is, so that a mean over the batch is a weight of 1 / images;
    weight; label_smoothing of the two cross entropies, with number_of_classes; epsilon of log; delta of huber;
    reduce_across_batch.

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
    """A loss by labels that come with each batch as source states. Its result_image is the gradient already, where the
    gradient filters begin. Source: MPSCNNLossNode.

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
    """A loss whose labels, and perhaps weights, are images: its result is the loss, and it has a gradient filter.
    Source: MPSNNForwardLossNode, MPSNNLossGradientNode.

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
    """Ones like the source: where gradients of a loss that is an image begin. Source: MPSNNInitialGradientNode.

    >>> nn = mg.nngraph
    >>> node = nn.InitialGradientNode(nn.ImageNode("x"))
    >>> x = np.float32([-1, 0, 2]).reshape(1, 1, 1, 3)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [1. 1. 1.]
    """

    kind_name = "initial_gradient"
