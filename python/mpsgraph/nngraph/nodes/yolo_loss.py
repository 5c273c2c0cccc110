"""Loss of YOLO object detectors: MPSCNNYOLOLossNode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import ImageNode
from ..._display import shown
from ...errors import GraphError
from ._node import Node


class YOLOLossDescriptor:
    """Anchor boxes and parameters of the loss of a YOLO network.

    docs/nngraph.md contains the formula.

    Args:
        anchor_boxes: (width, height) of each anchor box, in grid cells.
        rescore: Whether the target of the confidence is the overlap of the predicted and the true box, instead of 1.
            Defaults to True.
        xy_loss_type: Loss of the box centers: "mean_squared_error" (the default), "mean_absolute_error", or "huber".
        wh_loss_type: Loss of the box sizes: "huber" (the default), "mean_squared_error", or "mean_absolute_error".
        delta: Threshold of the Huber loss. Defaults to 1.
        weight: Factor of the whole loss. Defaults to 1.
        scale_xy: Factor of the loss of the centers. Defaults to 10.
        scale_wh: Factor of the loss of the sizes. Defaults to 10.
        scale_no_object: Factor of the confidence loss where there is no object. Defaults to 5.
        scale_object: Factor of the confidence loss where there is an object. Defaults to 100.
        scale_class: Factor of the classification loss. Defaults to 2.
        min_iou_for_object_presence: Overlap above which an anchor is responsible for the object of its cell. Defaults
            to 0.7.
        max_iou_for_object_absence: Overlap below which an anchor that is not responsible for an object learns
            confidence 0. Defaults to 0.3.

    Raises:
        GraphError: If anchor_boxes are not pairs of positive numbers. The loss node raises it for unknown loss types.

    Source: MPSCNNYOLOLossDescriptor.

    Example:
        >>> descriptor = mg.nngraph.YOLOLossDescriptor([(1.0, 1.0), (2.0, 0.5)])
        >>> len(descriptor.anchor_boxes)
        2
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
            raise GraphError(
                "YOLOLossDescriptor: anchor_boxes must be (width, height) pairs of positive numbers, got "
                f"{shown(anchor_boxes)}"
            )
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


class YOLOLossNode(Node):
    """Loss of a YOLO network, whose labels are passed with each batch as source states.

    The result_image of this node is already the gradient of the loss. Channels of images and labels are, for each
    anchor: x, y, w, h, confidence, and one score per class.

    Args:
        source: Image node that the filter reads.
        loss_descriptor: Anchor boxes and parameters of the loss.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode, or loss_descriptor has an unknown loss type.
        ShapeError: From encode_batch, if the number of channels does not match the number of anchors, or the labels do
            not have the shape of the images.

    Source: MPSCNNYOLOLossNode.

    Example:
        >>> nn = mg.nngraph
        >>> loss = nn.YOLOLossNode(nn.ImageNode("x"), nn.YOLOLossDescriptor([(1.0, 1.0)]))
        >>> graph = nn.NNGraph(None, loss.result_image)
        >>> labels = nn.LossLabelsBatch(np.zeros((1, 2, 2, 7), np.float32))
        >>> buffer = mg.CommandQueue(mg.Device.default()).command_buffer()
        >>> gradient = graph.encode_batch(buffer, [np.zeros((1, 2, 2, 7), np.float32)], [labels])
        >>> buffer.commit()
        >>> buffer.wait_until_completed()
        >>> gradient.shape
        (1, 2, 2, 7)
    """

    kind_name = "yolo_loss"

    def __init__(self, source: ImageNode, loss_descriptor: YOLOLossDescriptor, *, label: str = "") -> None:
        super().__init__([source], loss_descriptor._attributes(), label=label)
