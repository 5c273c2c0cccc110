"""Export of non-maximum suppression for object detection to ONNX."""

from __future__ import annotations

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible
from ._writer import Writer, writes

_LARGEST = 2**31 - 1


@writes("non_maximum_suppression")
def non_maximum_suppression(w: Writer, op: Operation) -> str:
    """Export non-maximum suppression as NonMaxSuppression.

    The rank of each kept box is scattered into a tensor filled with -1. ONNX compares only boxes of the same class. To
    compare all boxes, each pair of a box and a class becomes a separate box.
    """
    a, (boxes, scores) = op.attributes, op.inputs[:2]
    single = not a["per_class_suppression"]
    if len(op.inputs) > 2 and not single:
        raise NotExpressible(
            "per-class suppression with one class index per box cannot be exported: ONNX needs a score for each class"
        )
    given, found = w.name(boxes), w.name(scores)
    if single:  # Reshape the boxes to (images, boxes * classes, 4) and the scores to (images, 1, boxes * classes).
        wide = w.add("Unsqueeze", given, w.ints([2]))
        pairs = w.add("Expand", wide, w.sizes(1, 1, (scores, 2), 1))
        given = w.reshape(pairs, [0, -1, 4])
        found = w.add("Unsqueeze", w.reshape(found, [0, -1]), w.ints([1]))
    else:
        found = w.transpose(found, [0, 2, 1])
    limits = [w.constant(np.asarray([a[key]], np.float32)) for key in ("iou_threshold", "score_threshold")]
    rows = w.add(
        "NonMaxSuppression", given, found, w.ints([_LARGEST]), *limits,
        center_point_box=int(str(a["coordinate_mode"]).startswith("centers")),
    )  # fmt: skip
    image, kind, box = w.add_several("Split", [rows, w.ints([1, 1, 1])], 3, axis=1)
    if single:
        classes = w.sizes((scores, 2))
        box, kind = w.add("Div", box, classes), w.add("Mod", box, classes)
    number = w.add("Squeeze", w.add("Shape", rows, start=0, end=1), w.ints([0]))
    places = w.cast(w.add("Range", w.ints(0), number, w.ints(1)), op.outputs[0].dtype)
    nowhere = w.constant(np.asarray(-1, op.outputs[0].dtype.numpy))
    none = w.add("Expand", nowhere, w.sizes((scores, 0), (scores, 1), (scores, 2)))
    return w.add("ScatterND", none, w.add("Concat", image, box, kind, axis=1), places)
