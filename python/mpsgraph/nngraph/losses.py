"""Where gradients begin: losses by labels, which are states or images, and their descriptors. MPSCNNLoss.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core import ImageNode
from .._shown import shown
from ..errors import GraphError
from .nodes import _Node, _Sizes


class LossDescriptor:
    """How a loss is computed. Source: MPSCNNLossDescriptor.

    Args: loss_type, "mean_absolute_error", "mean_squared_error", "softmax_cross_entropy" (over logits),
    "sigmoid_cross_entropy", "categorical_cross_entropy", "hinge", "huber", "cosine_distance", "log" or
    "kullback_leibler_divergence"; reduction_type, "none", "sum", "mean" or "sum_by_nonzero_weights", of the loss that
    is shown: the gradient is that of the sum, as Apple's is, so that a mean over the batch is a weight of 1 / images;
    weight; label_smoothing of the two cross entropies, with number_of_classes; epsilon of log; delta of huber;
    reduce_across_batch.
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


class LossNode(_Node):
    """A loss by labels that come with each batch as source states. Its result_image is the gradient already, where the
    gradient filters begin. Source: MPSCNNLossNode."""

    kind_name = "loss"

    def __init__(self, source: ImageNode, loss_descriptor: LossDescriptor, *, label: str = "") -> None:
        super().__init__([source], loss_descriptor._attributes(), label=label)


class YOLOLossDescriptor:
    """How the loss of a YOLO network is computed. Source: MPSCNNYOLOLossDescriptor.

    Args: anchor_boxes, (width, height) of each in cells of the grid; the scales of the loss's parts; thresholds
    of the overlap; rescore, whether the confidence to learn is the overlap of predicted and true box; weight, of the
    whole; delta, of the Huber loss of sizes; xy_loss_type and wh_loss_type. docs/nngraph.md says the formula.
    """

    def __init__(
        self,
        anchor_boxes: Sequence[tuple[float, float]] | np.ndarray,
        *,
        rescore: bool = True,
        xy_loss_type: str = "mean_squared_error",
        wh_loss_type: str = "huber",
        delta: float = 1.0,
        weight: float = 1.0,
        scale_xy: float = 10.0,
        scale_wh: float = 10.0,
        scale_no_object: float = 5.0,
        scale_object: float = 100.0,
        scale_class: float = 2.0,
        min_iou_for_object_presence: float = 0.7,
        max_iou_for_object_absence: float = 0.3,
    ) -> None:
        boxes = np.asarray(anchor_boxes, np.float32)
        if boxes.ndim != 2 or boxes.shape[1] != 2 or not (boxes > 0).all():
            raise GraphError(f"anchor_boxes are (width, height) above 0, got {shown(anchor_boxes)}")
        self.anchor_boxes = boxes
        self._values: dict[str, Any] = {
            "rescore": rescore,
            "xy_loss_type": xy_loss_type,
            "wh_loss_type": wh_loss_type,
            "delta": float(delta),
            "weight": float(weight),
            "scale_xy": float(scale_xy),
            "scale_wh": float(scale_wh),
            "scale_no_object": float(scale_no_object),
            "scale_object": float(scale_object),
            "scale_class": float(scale_class),
            "min_iou_for_object_presence": float(min_iou_for_object_presence),
            "max_iou_for_object_absence": float(max_iou_for_object_absence),
        }

    def _attributes(self) -> dict[str, Any]:
        boxes = {"anchor_boxes": self.anchor_boxes.ravel(), "number_of_anchor_boxes": len(self.anchor_boxes)}
        return {**boxes, **self._values}


class YOLOLossNode(_Node):
    """The loss of a YOLO network, by labels of the source's size that come as source states. Its result_image is the
    gradient already. Channels and labels: anchor by anchor x, y, w, h, confidence, classes. Source: YOLOLossNode."""

    kind_name = "yolo_loss"

    def __init__(self, source: ImageNode, loss_descriptor: YOLOLossDescriptor, *, label: str = "") -> None:
        super().__init__([source], loss_descriptor._attributes(), label=label)


class ForwardLossNode(_Node):
    """A loss whose labels, and perhaps weights, are images: its result is the loss, and it has a gradient filter.
    Source: MPSNNForwardLossNode, MPSNNLossGradientNode."""

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


class InitialGradientNode(_Sizes):
    """Ones like the source: where gradients of a loss that is an image begin. Source: MPSNNInitialGradientNode."""

    kind_name = "initial_gradient"


__all__ = [
    "ForwardLossNode",
    "InitialGradientNode",
    "LossDescriptor",
    "LossNode",
    "YOLOLossDescriptor",
    "YOLOLossNode",
]
