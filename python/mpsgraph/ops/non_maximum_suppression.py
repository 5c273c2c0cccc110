"""Which of many overlapping boxes are kept."""

from __future__ import annotations

from typing import Any

from ._family import Family, Tensor
from .non_zero import NonZero


class NonMaximumSuppression(NonZero, Family):
    """non_maximum_suppression."""

    def non_maximum_suppression(
        self,
        boxes: Tensor,
        scores: Tensor,
        iou_threshold: float,
        score_threshold: float,
        per_class_suppression: bool = False,
        coordinate_mode: str = "corners_height_first",
        *,
        class_indices: Tensor | None = None,
        name: str | None = None,
    ) -> Tensor:
        """The pairs of a box and a class that are kept, by falling score, without what overlaps a better one.

        A pair with a score above score_threshold is taken unless its box and that of one taken before it have an
        intersection over union above iou_threshold; with per_class_suppression only pairs of the same class count.

        Args:
            boxes: (images, boxes, 4), a float dtype. scores: its dtype, (images, boxes, classes).
            class_indices: with one score for each box, the boxes' classes, integers (images, boxes).
            coordinate_mode: "corners_height_first" (y, x, y, x of opposite corners), "corners_width_first",
                "centers_height_first" (centre y, x, height, width) or "centers_width_first".
        Result: int32 (kept, 3), rows of image, class and box; image by image, with per_class_suppression over several
        scores class by class, then by falling score. The number of rows is known only when the graph runs.
        Errors: ShapeError, DTypeError, GraphError. Gradient: none, indices are integers.
        Source: MPSGraph nonMaximumSuppressionWithBoxesTensor:scoresTensor:IOUThreshold:scoreThreshold:
        perClassSuppression:coordinateMode:name: and with classIndicesTensor:.

        >>> g = mg.Graph()
        >>> boxes = g.constant([[[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]]])
        >>> scores = g.constant([[[0.8], [0.9], [0.3]]])
        >>> g.run({}, g.non_maximum_suppression(boxes, scores, iou_threshold=0.5, score_threshold=0.1)).tolist()
        [[0, 0, 1], [0, 0, 2]]
        """
        settings: dict[str, Any] = {
            "iou_threshold": float(iou_threshold),
            "score_threshold": float(score_threshold),
            "per_class_suppression": per_class_suppression,
            "coordinate_mode": coordinate_mode,
        }
        classes = [] if class_indices is None else [class_indices]
        order = self._tensor("non_maximum_suppression", [boxes, scores, *classes], **settings)
        taken = self.non_zero_indices(self._tensor("greater_than_or_equal_to", [order, 0]))
        place = self._tensor("gather_nd", [order, taken])
        image, box, kind = self._tensors("split", [taken], sizes=[1, 1, 1], axis=1)
        if class_indices is not None:
            of_box = self._tensor("concat", [image, box], axis=1)
            kind = self._tensor("expand_dims", [self._tensor("gather_nd", [class_indices, of_box])], axes=[1])
            kind = self._tensor("cast", [kind], dtype=order.dtype)
        rows = self._tensor("concat", [image, kind, box], axis=1)
        places = self._tensor("expand_dims", [place], axes=[1])
        return self._tensor("scatter_nd", [rows, rows, places], name, mode="set")
