"""Non-maximum suppression: selecting the best of many overlapping boxes."""

from __future__ import annotations

from typing import Any

from ._family import Family, Tensor
from .non_zero import NonZero


class NonMaximumSuppression(NonZero, Family):
    """Graph methods for non-maximum suppression."""

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
        """Select pairs of a box and a class by descending score, dropping boxes that overlap a selected box.

        A pair with a score above score_threshold is selected unless the intersection over union of its box with that of
        an already selected pair is above iou_threshold. With per_class_suppression, only pairs of the same class are
        compared.

        Args:
            boxes: Floating-point tensor of shape (images, boxes, 4).
            scores: Tensor of shape (images, boxes, classes), with the dtype of boxes.
            iou_threshold: Intersection over union above which a box is dropped.
            score_threshold: Score that a pair must exceed.
            per_class_suppression: Whether boxes are dropped only in favor of boxes of the same class. Defaults to
                False.
            coordinate_mode: "corners_height_first" (y, x, y, x of opposite corners, the default),
                "corners_width_first", "centers_height_first" (center y, center x, height, width), or
                "centers_width_first".
            class_indices: Integer tensor of shape (images, boxes) with the class of each box, if scores has one score
                for each box. Defaults to None.
            name: Name of the operation.

        Returns:
            An int32 tensor of shape (selected, 3) with rows of image, class, and box. Rows are ordered by image; within
            an image by class if per_class_suppression is True and there are several scores for each box; then by
            descending score. The number of rows is known only when the graph runs.

        Raises:
            ShapeError: If the shapes do not match.
            DTypeError: If boxes and scores do not share one floating-point dtype, or class_indices are not integers.
            GraphError: If coordinate_mode has an unknown value.

        Gradient: none, because the result is a tensor of indices.

        Source: MPSGraph nonMaximumSuppressionWithBoxesTensor:scoresTensor:IOUThreshold:scoreThreshold:
        perClassSuppression:coordinateMode:name: and with classIndicesTensor:.

        Example:
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
