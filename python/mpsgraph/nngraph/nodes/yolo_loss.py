"""Family yolo_loss: MPSCNNYOLOLossNode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import ImageNode
from ..._display import shown
from ...errors import GraphError
from ._node import Node


class YOLOLossDescriptor:
    """How the loss of a YOLO network is computed. Source: MPSCNNYOLOLossDescriptor.

    Args: anchor_boxes, (width, height) of each in cells of the grid; the scales of the loss's parts; thresholds
    of the overlap; rescore, whether the confidence to learn is the overlap of predicted and true box; weight, of the
    whole; delta, of the Huber loss of sizes; xy_loss_type and wh_loss_type. docs/nngraph.md says the formula.

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


class YOLOLossNode(Node):
    """The loss of a YOLO network, by labels of the source's size that come as source states. Its result_image is the
    gradient already. Channels and labels: anchor by anchor x, y, w, h, confidence, classes. Source: YOLOLossNode.

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
