"""Translation of non-maximum suppression for object detection."""

from __future__ import annotations

import math

from ..._core import Tensor, int32, int64
from ..building.node import Node, Results, operator

LARGEST = 2**31 - 1  # Maximum number of boxes to keep per class.


@operator("NonMaxSuppression", upto=11)
def non_max_suppression(node: Node) -> Results:
    """Translate NonMaxSuppression, whose number of results is known only at run time."""
    g, boxes = node.g, node.tensor(0)
    scores = g.swap_axes(node.tensor(1), 1, 2)
    most: int | Tensor = 0
    if node.has(2):
        known = node.known_ints(2)
        if known is not None:  # Exporters write the largest int64 to keep all boxes.
            most = min(known[0], LARGEST)
        else:
            most = g.reshape(g.cast(g.minimum(node.cast(node.tensor(2), int64), LARGEST), int32), ())
    kept = g.non_maximum_suppression(
        boxes,
        scores,
        float(node.scalar(3, 0.0)),
        float(node.scalar(4, -math.inf)),
        per_class_suppression=True,
        coordinate_mode="centers_width_first" if node.attribute("center_point_box", 0) else "corners_height_first",
    )
    count = node.dims(boxes)[1]
    if not (isinstance(most, int) and 0 <= count <= most):
        kept = _first_of_each_class(node, kept, most, scores)
    return g.cast(kept, int64)


def _first_of_each_class(node: Node, kept: Tensor, most: int | Tensor, scores: Tensor) -> Tensor:
    """Keep the first `most` rows of each image and class.

    The rows of `kept` are (image, class, box), grouped by image and class.
    """
    g, classes = node.g, node.dim(scores, 2)
    image, kind = (g.squeeze(g.slice_axis(kept, 1, i, 1), [1]) for i in (0, 1))
    per_image = classes if isinstance(classes, int) else g.reshape(g.cast(classes, int32), ())
    group = g.addition(g.multiplication(image, per_image), kind)
    before = g.slice(g.concat([g.constant([-1], dtype=int32), group], 0), [0], [-1])
    row = g.coordinate_along_axis(0, g.shape_of(group))
    first = g.cumulative_maximum(g.select(g.not_equal(group, before), row, 0), 0)
    chosen = g.non_zero_indices(g.less_than(g.subtraction(row, first), most))
    return g.gather(kept, g.squeeze(chosen, [1]), 0)
