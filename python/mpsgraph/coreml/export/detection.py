"""Export of non-maximum suppression and non-zero indices to MIL."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Operation, Tensor
from ...interchange.export import NotExpressible, required_shape
from ._writer import Var, Writer, writes

_NONE = np.iinfo(np.int32).max  # A rank that sorts discarded boxes after all others.
_ORDERS = {
    "corners_height_first": (1, 0, 3, 2), "corners_width_first": (0, 1, 2, 3),
    "centers_height_first": (1, 0, 3, 2), "centers_width_first": (0, 1, 2, 3),
}  # fmt: skip


@writes("non_maximum_suppression")
def non_maximum_suppression(w: Writer, op: Operation) -> Var:
    """Export non-maximum suppression.

    MIL returns a list of the boxes it keeps. The list is converted to the rank of each (box, class) pair among all kept
    pairs, or -1 for pairs that are not kept. To MIL, each pair is a separate box, with its score in the column of its
    class. MIL keeps at least one box per image, whatever its score, so the score threshold is applied to MIL's result.
    """
    mb, a, dtype = w.mb, op.attributes, op.inputs[0].dtype
    images, boxes, classes = required_shape(op.outputs[0])
    if min(boxes, classes) < 1:
        raise NotExpressible(f"the numbers of boxes and classes must be static and positive, got {boxes} and {classes}")
    of_class = bool(a["per_class_suppression"])
    if len(op.inputs) > 2 and of_class:
        raise NotExpressible(
            "per-class suppression with one class index per box cannot be exported: MIL needs a score for each class"
        )
    pairs, grouped = boxes * classes, of_class and classes > 1
    # Shape (images, classes, boxes), so that flattening orders pairs by class, as in MIL's list.
    scores = mb.transpose(x=w[op.inputs[1]], perm=[0, 2, 1])
    single = mb.reshape(x=scores, shape=[images, pairs, 1])
    corners = mb.tile(x=_centers(w, op), reps=[1, classes, 1])
    given = mb.reshape(x=single, shape=[images, pairs, 1])
    if grouped:
        own = np.repeat(np.eye(classes, dtype=bool), boxes, axis=0)[None]
        given = mb.select(cond=own, a=mb.tile(x=single, reps=[1, 1, classes]), b=w.number(_lowest(dtype), dtype))
    iou = w.number(float(a["iou_threshold"]), dtype)
    if w.target >= 17:
        turned = (mb.transpose(x=x, perm=[0, 2, 1]) for x in (corners, given))
        listed = mb.non_maximum_suppression(
            **dict(zip(("boxes", "scores"), turned, strict=True)), iou_threshold=iou, max_boxes=np.int32(pairs),
            per_class_suppression=grouped,
        )[2]  # fmt: skip
    else:
        listed = mb.non_maximum_suppression(
            boxes=corners, scores=given, iou_threshold=iou, score_threshold=w.number(_lowest(dtype), dtype),
            max_boxes=np.int32(pairs), per_class_suppression=grouped,
        )[2]  # fmt: skip
    # `listed` holds the pairs that MIL keeps. Find each pair's position in this list, and from it the pair's rank among
    # all kept pairs.
    same = mb.equal(x=mb.expand_dims(x=listed, axes=[1]), y=np.arange(pairs, dtype=np.int32)[None, :, None])
    counted = mb.mul(x=mb.cast(x=same, dtype="int32"), y=np.arange(1, pairs + 1, dtype=np.int32)[None, None])
    # The position is -1 for pairs that are not in the list.
    place = mb.sub(x=mb.reduce_sum(x=counted, axes=[2], keep_dims=False), y=np.int32(1))
    high = mb.greater(x=mb.squeeze(x=single, axes=[2]), y=w.number(float(a["score_threshold"]), dtype))
    kept = mb.logical_and(x=mb.greater_equal(x=place, y=np.int32(0)), y=high)
    groups = [images, classes, boxes] if grouped else [images, 1, pairs]  # The number of images is -1 if it is dynamic.
    place, kept = (mb.reshape(x=x, shape=groups) for x in (mb.select(cond=kept, a=place, b=np.int32(_NONE)), kept))
    rank = mb.argsort(x=mb.argsort(x=place, axis=-1, ascending=True), axis=-1, ascending=True)
    count = mb.reduce_sum(x=mb.cast(x=kept, dtype="int32"), axes=[2], keep_dims=True)
    before = mb.cumsum(x=mb.reshape(x=count, shape=[-1]), axis=0, exclusive=True)
    before = mb.reshape(x=before, shape=[*groups[:2], 1])
    found = mb.select(cond=kept, a=mb.add(x=rank, y=before), b=np.int32(-1))
    return mb.transpose(x=mb.reshape(x=found, shape=[images, classes, boxes]), perm=[0, 2, 1])


def _lowest(dtype: Any) -> float:
    return float(np.finfo(dtype.numpy).min)


def _centers(w: Writer, op: Operation) -> Var:
    """Convert boxes to MIL's format: center x and y, width, height."""
    mb, mode, dtype = w.mb, op.attributes["coordinate_mode"], op.inputs[0].dtype
    columns = mb.split(x=w[op.inputs[0]], num_splits=4, axis=2)
    columns = [columns[i] for i in _ORDERS[mode]]
    if mode.startswith("corners"):
        low, high = columns[:2], columns[2:]
        half = w.number(0.5, dtype)
        centers = [mb.mul(x=mb.add(x=x, y=y), y=half) for x, y in zip(low, high, strict=True)]
        columns = [*centers, *(mb.abs(x=mb.sub(x=y, y=x)) for x, y in zip(low, high, strict=True))]
    return mb.concat(values=columns, axis=2)


@writes("non_zero_indices")
def non_zero_indices(w: Writer, op: Operation) -> Var:
    """Export the indices of non-zero elements as MIL's non_zero.

    MIL counts the non-zero elements itself, so the number of rows that the graph requests must be this count.
    """
    x, shape = op.inputs
    if not _counts(shape, x):
        raise NotExpressible(
            "the number of rows must be the number of non-zero elements, because MIL's non_zero computes it itself"
        )
    return w.mb.non_zero(x=w[x])


def _counts(shape: Tensor, x: Tensor) -> bool:
    """Return whether the shape operand of a non-zero indices operation is a count of the non-zero elements of x."""
    at = shape
    for kind in ("concat", "reshape", "reduction_sum", "cast"):
        if at.operation.kind != kind:
            return False
        at = at.operation.inputs[0]
    return at is x or (at.operation.kind == "not_equal" and at.operation.inputs[0] is x)
