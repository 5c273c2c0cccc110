"""Translations of non_maximum_suppression and crop_resize.

The results of non_maximum_suppression have a fixed size of `max_boxes` boxes. Unused entries are 0, or -1 for indices.
"""

from __future__ import annotations

import numpy as np

from ..._core import Tensor, float32, int32
from ...errors import ShapeError
from ...ops._family import add_tensors
from .._operation import Call, Results, mil

_LAST = 2**31 - 1  # A rank that sorts discarded boxes after all others.
_LOWEST = float(np.finfo(np.float32).min)


@mil("non_maximum_suppression")
def non_maximum_suppression(call: Call) -> Results:
    """Translate non_maximum_suppression.

    The iOS15 version has a score threshold and returns the number of boxes kept. The iOS17 version has neither, and its
    boxes are along the last axis.
    """
    g, boxes, scores = call.g, call.tensor("boxes"), call.tensor("scores")
    older = call.has("score_threshold")
    iou, most = call.number("iou_threshold"), call.integer("max_boxes")
    lowest, of_class = call.number("score_threshold", _LOWEST), call.flag("per_class_suppression", False)
    if most < 1:
        call.refuse(f"max_boxes must be at least 1, got {most}")
    if not older:
        boxes, scores = g.swap_axes(boxes, 1, 2), g.swap_axes(scores, 1, 2)
    if call.rank(boxes) != 3 or call.rank(scores) != 3:
        raise ShapeError(
            f"boxes and scores must have rank 3 (images, boxes, values per box), got {boxes.shape} and {scores.shape}"
        )
    wide_boxes, wide = call.cast(boxes, float32), call.cast(scores, float32)
    best = g.reduction_maximum(wide, [2])  # The best score of each box, with shape (images, boxes, 1).
    taken = g.greater_than_or_equal_to(best, lowest)
    top = g.reduction_maximum(best, [1])
    alone = g.less_than(top, lowest)  # If no score reaches the threshold, the best box is kept anyway.
    taken = g.logical_or(taken, g.logical_and(alone, g.equal(best, top)))
    kinds = [call.cast(g.squeeze(g.reduction_arg_maximum(wide, 2), axes=[2]), int32)] if of_class else []
    (places,) = add_tensors(
        g, "non_maximum_suppression", [wide_boxes, g.select(taken, best, -np.inf), *kinds],
        iou_threshold=iou, score_threshold=_LOWEST, per_class_suppression=of_class,
        coordinate_mode="centers_width_first",
    )  # fmt: skip
    # Ranks of shape (images, boxes), counted across all images, with -1 for discarded boxes.
    places = g.squeeze(places, axes=[2])
    kept = g.greater_than_or_equal_to(places, 0)
    count = g.reduction_sum(g.cast(kept, "int32"), [1])
    count = g.minimum(g.select(g.squeeze(alone, axes=[2]), g.minimum(count, 1), count), most)
    first = g.arg_sort(_padded(call, g.select(kept, places, _LAST), most, _LAST), 1)
    first = g.slice_axis(call.cast(first, int32), 1, 0, most)
    there = g.less_than(g.coordinate_along_axis(1, g.shape_of(first)), count)
    indices = g.select(there, first, 0)
    each = g.expand_dims(there, axes=[2])
    results = [_chosen(call, x, indices, each) for x in (boxes, scores)]
    if not older:
        results = [g.swap_axes(x, 1, 2) for x in results]
    results.append(g.select(there, first, -1))
    return [*results, g.squeeze(count, axes=[1])] if older else results


def _padded(call: Call, x: Tensor, more: int, value: int) -> Tensor:
    """Append `more` columns, filled with a constant value, to each matrix."""
    g = call.g
    rows = g.broadcast_to(g.constant([[value]], dtype=x.dtype), call.joined([call.dim(x, 0), more]))
    return g.concat([x, rows], 1)


def _chosen(call: Call, x: Tensor, indices: Tensor, there: Tensor) -> Tensor:
    """Return rows of each image's matrix, selected by index, with zeros where the mask `there` is false."""
    return call.g.select(there, call.g.gather(x, indices, 1, 1), 0.0)


@mil("crop_resize")
def crop_resize(call: Call) -> Results:
    """Translate crop_resize.

    Up to iOS16, parameter `roi` holds the regions, either for all images or each preceded by an image index. Since
    iOS17, parameter `boxes` holds the regions.
    """
    g, x = call.g, call.tensor("x")
    height, width = call.integer("target_height", 1), call.integer("target_width", 1)
    outside = call.number("pad_value", 0.0)
    if call.has("boxes"):
        boxes, images = call.tensor("boxes"), call.optional("box_indices")
        if images is None:
            images = g.coordinate_along_axis(0, call.joined([call.dim(boxes, 0)]))
        return _crops(call, x, boxes, call.cast(images, int32), height, width, outside)
    roi = call.tensor("roi")
    numbers = call.size(roi, 2) if call.rank(roi) == 5 else 0
    if numbers not in (4, 5):
        raise ShapeError(f"roi must have shape (boxes, 1, 4 or 5, 1, 1), got {roi.shape}")
    count, batch = call.dim(roi, 0), call.dim(x, 0)
    rows = call.reshape(roi, [count, numbers])
    if numbers == 5:
        images = call.cast(g.reshape(g.slice_axis(rows, 1, 0, 1), [-1]), int32)
        made = _crops(call, x, g.slice_axis(rows, 1, 1, 4), images, height, width, outside)
        return g.expand_dims(made, axes=[1])
    all_pairs = call.joined([count, batch])  # Without image indices, every box is cropped from every image.
    images = g.reshape(g.coordinate_along_axis(1, all_pairs), [-1])
    each = g.broadcast_to(g.expand_dims(rows, axes=[1]), call.joined([count, batch, 4]))
    made = _crops(call, x, g.reshape(each, [-1, 4]), images, height, width, outside)
    return call.reshape(made, [count, batch, call.dim(x, 1), height, width])


def _crops(call: Call, x: Tensor, boxes: Tensor, images: Tensor, height: int, width: int, outside: float) -> Tensor:
    """Return crops of shape (boxes, channels, height, width), interpolated bilinearly.

    Samples beyond the image have the value `outside`.
    """
    g, dtype = call.g, x.dtype
    mode, corners = call.text("sampling_mode", "DEFAULT"), call.text("box_coordinate_mode", "CORNERS_HEIGHT_FIRST")
    scale, normalized = call.number("spatial_scale", 1.0), call.flag("normalized_coordinates", False)
    columns = [g.slice_axis(call.cast(boxes, float32), 1, i, 1) for i in range(4)]
    if corners.endswith("WIDTH_FIRST"):
        columns = [columns[1], columns[0], columns[3], columns[2]]
    if corners.startswith("CENTER_SIZE"):
        centers, halves = columns[:2], [size * 0.5 for size in columns[2:]]
        columns = [c - h for c, h in zip(centers, halves, strict=True)]
        columns += [c + h for c, h in zip(centers, halves, strict=True)]
    elif not corners.startswith("CORNERS"):
        call.refuse(f"box_coordinate_mode {corners!r} is not supported")
    rows = g.reshape(g.transpose(call.cast(x, float32), [0, 2, 3, 1]), call.joined([-1, call.dim(x, 1)]))
    sizes = [s if isinstance(s, int) else g.cast(s, "int32") for s in (call.dim(x, 2), call.dim(x, 3))]
    inside, lower, upper, part = [], [], [], []
    for axis, (size, number) in enumerate(zip(sizes, (height, width), strict=True)):
        last = g.cast(size - 1, "float32") if isinstance(size, Tensor) else float(size - 1)
        start, end = (edge * (last * scale if normalized else scale) for edge in (columns[axis], columns[axis + 2]))
        points = _points(call, start, end, number, mode)
        inside.append(g.logical_and(points >= 0.0, points <= last))
        points = g.clamp(points, 0.0, last)
        part.append(points - g.floor(points))
        lower.append(g.cast(g.floor(points), "int32"))
        upper.append(g.cast(g.ceil(points), "int32"))

    def row_of(y: Tensor, x: Tensor) -> Tensor:
        image, down, along = (g.expand_dims(i, axes=axes) for i, axes in ((images, [1, 2]), (y, [2]), (x, [1])))
        return g.gather(rows, (image * sizes[0] + down) * sizes[1] + along, 0, out_of_range="error")

    down, along = g.expand_dims(part[0], axes=[2, 3]), g.expand_dims(part[1], axes=[1, 3])
    above = row_of(lower[0], lower[1]) * (1.0 - along) + row_of(lower[0], upper[1]) * along
    below = row_of(upper[0], lower[1]) * (1.0 - along) + row_of(upper[0], upper[1]) * along
    seen = g.logical_and(g.expand_dims(inside[0], axes=[2, 3]), g.expand_dims(inside[1], axes=[1, 3]))
    made = g.select(seen, above * (1.0 - down) + below * down, outside)
    return call.cast(g.transpose(made, [0, 3, 1, 2]), dtype)


def _points(call: Call, start: Tensor, end: Tensor, number: int, mode: str) -> Tensor:
    """Return, for each box, the positions of `number` samples between its edges along one axis.

    The result has shape (boxes, number).
    """
    g, length, i = call.g, end - start, np.arange(number, dtype=np.float32)[None]
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        if number == 1:
            return (start + end) * 0.5 if mode == "ALIGN_CORNERS" else start
        return start + length * g.constant(i / (number - 1))
    if mode == "DEFAULT":
        steps = (length + 1.0) * g.constant(i / number)
    elif mode == "UNALIGN_CORNERS":
        steps = g.maximum((length + 1.0) * g.constant((i + 0.5) / number) - 0.5, 0.0)
    elif mode == "OFFSET_CORNERS":
        steps = g.maximum(length, 1.0) * g.constant((i + 0.5) / number)
    else:
        call.refuse(f"sampling_mode {mode!r} is not supported")
    return start + g.minimum(steps, length)
