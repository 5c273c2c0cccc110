"""Translations of RoiAlign and DeformConv, which sample images at fractional positions.

Samples are interpolated bilinearly from the four surrounding pixels. Each of these pixels is fetched from the flattened
image with a gather.
"""

from __future__ import annotations

import numpy as np

from ..._core import DType, Tensor, float32, int32, int64
from ...errors import GraphError, ShapeError, UnsupportedError
from ..building.node import Node, Results, operator
from ._compose import folded
from ._windows import window_of
from .convolutions import with_bias


def _number(node: Node, size: int | Tensor, dtype: DType) -> float | Tensor:
    """Return an image size as an operand for arithmetic in the given dtype: a number if it is static, else a scalar
    tensor.
    """
    if not isinstance(size, Tensor):
        return float(size) if dtype.is_float else size
    return node.g.reshape(node.g.cast(size, dtype), ())


def _elements(node: Node, height: int | Tensor, width: int | Tensor) -> float | Tensor:
    """Return the number of pixels in an image with the given height and width, as int32."""
    return _number(node, node.product([height, width]), int32)


# --- regions of interest --------------------------------------------------------------------------------------------
@operator("RoiAlign", upto=22)
def roi_align(node: Node) -> Results:
    """Translate RoiAlign, which divides each region into bins and reduces each bin's regularly spaced samples.

    The number of samples per bin is fixed or, if sampling_ratio is 0, depends on the size of the region. If it depends
    on the size, all bins get the number needed by the largest region, which is known only at run time, and surplus
    samples are ignored. In mode max, the maximum is over weighted pixels rather than interpolated samples, as in ONNX
    Runtime and the reference implementation.
    """
    g, x, regions = node.g, node.in_float32(node.tensor(0)), node.in_float32(node.tensor(1))
    height, width = (node.dim(x, axis) for axis in (2, 3))
    out_height, out_width = node.attribute("output_height", 1), node.attribute("output_width", 1)
    mode = node.attribute("mode", "avg")
    aligned = node.version >= 16 and node.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    if mode not in ("avg", "max") or min(out_height, out_width) < 1:
        raise GraphError(
            f"mode must be avg or max and output sizes positive, got mode {mode!r} and sizes {out_height} x {out_width}"
        )
    scaled = g.multiplication(regions, node.attribute("spatial_scale", 1.0))
    scaled = g.subtraction(scaled, 0.5) if aligned else scaled
    left, top, right, bottom = (g.slice_axis(scaled, 1, i, 1) for i in range(4))
    ratio = node.attribute("sampling_ratio", 0)
    rows = _Samples(node, top, bottom, out_height, height, ratio, aligned)
    columns = _Samples(node, left, right, out_width, width, ratio, aligned)
    batch = node.tensor(2)
    count, channels = node.dim(regions, 0), node.size(x, 1)
    flat = g.reshape(g.transpose(x, [0, 2, 3, 1]), (-1, channels))
    image = g.reshape(node.cast(batch, int32), (-1, 1, 1))
    terms = []
    for row, row_weight in rows.neighbours:
        for column, column_weight in columns.neighbours:
            line = g.multiplication(row, _number(node, width, int32))
            place = g.addition(g.expand_dims(line, 2), g.expand_dims(column, 1))
            place = g.addition(place, g.multiplication(image, _elements(node, height, width)))
            weight = g.multiplication(g.expand_dims(row_weight, 2), g.expand_dims(column_weight, 1))
            terms.append(g.multiplication(g.gather(flat, place, 0), g.expand_dims(weight, 3)))
    bins = [count, out_height, rows.samples, out_width, columns.samples, channels]
    used = g.logical_and(g.expand_dims(rows.used, 2), g.expand_dims(columns.used, 1))
    if mode == "max":
        kept = [g.select(g.expand_dims(used, 3), term, -np.inf) for term in terms]
        y = g.squeeze(g.reduction_maximum(node.reshape(folded(kept, g.maximum), bins), [2, 4]), [2, 4])
        y = g.select(g.equal(y, -np.inf), 0.0, y)  # An empty region has no samples.
    else:
        kept = [g.select(g.expand_dims(used, 3), folded(terms, g.addition), 0.0)]
        total = g.squeeze(g.reduction_sum(node.reshape(kept[0], bins), [2, 4]), [2, 4])
        number = g.multiplication(rows.number, columns.number)
        y = g.division(total, g.reshape(g.maximum(number, 1.0), (-1, 1, 1, 1)))
    return node.cast(g.transpose(y, [0, 3, 1, 2]), node.tensor(0).dtype)


class _Samples:
    """The positions at which RoiAlign samples all regions along one axis, with shape (regions, bins * samples)."""

    def __init__(
        self, node: Node, first: Tensor, last: Tensor, bins: int, size: int | Tensor, ratio: int, aligned: bool
    ) -> None:
        g = node.g
        span = g.subtraction(last, first)
        span = span if aligned else g.maximum(span, 1.0)
        each = g.division(span, float(bins))
        self.samples: int | Tensor = ratio
        if ratio > 0:
            # The number of samples per bin, with shape (regions, 1).
            self.number = g.addition(g.multiplication(each, 0.0), float(ratio))
        else:
            self.number = g.ceil(each)
            most = g.maximum(g.reduction_maximum(self.number, [0, 1]), 1.0)
            self.samples = g.cast(g.reshape(most, (1,)), int64)
        shape = node.joined([1, node.product([bins, self.samples])])
        i, samples = g.cast(g.coordinate_along_axis(1, shape), int64), self.samples
        whole = g.cast(g.division(i, samples), float32)
        within = g.cast(g.floor_modulo(i, samples), float32)
        self.used = g.less_than(within, self.number)
        inside = g.division(g.multiplication(g.addition(within, 0.5), each), g.maximum(self.number, 1.0))
        place = g.addition(g.addition(first, g.multiplication(whole, each)), inside)
        self.neighbours = _neighbours(node, place, size, clamped=True)


def _neighbours(node: Node, place: Tensor, size: int | Tensor, clamped: bool) -> list[tuple[Tensor, Tensor]]:
    """Return the indices and weights of the two elements around each fractional position.

    With `clamped`, positions up to one element outside the image are moved to its edge, and positions farther away have
    weight zero. Without `clamped`, all elements outside the image count as zeros.
    """
    g, end = node.g, _number(node, size, float32)
    last = g.subtraction(end, 1.0) if isinstance(end, Tensor) else end - 1.0
    inside = g.logical_and(g.greater_than_or_equal_to(place, -1.0), g.less_than_or_equal_to(place, end))
    place = g.clamp(place, 0.0, last) if clamped else place
    low = g.floor(place)
    share = g.subtraction(place, low)
    result = []
    for offset, weight in ((0.0, g.subtraction(1.0, share)), (1.0, share)):
        at = g.addition(low, offset)
        if not clamped:
            inside = g.logical_and(g.greater_than_or_equal_to(at, 0.0), g.less_than_or_equal_to(at, last))
        index = g.cast(g.clamp(at, 0.0, last), int32)
        result.append((index, g.select(inside, weight, 0.0)))
    return result


# --- deformable convolution -------------------------------------------------------------------------------------------
@operator("DeformConv", upto=22)
def deformable_convolution(node: Node) -> Results:
    """Translate DeformConv, a convolution whose filter taps are shifted per output position and optionally masked.

    The sampled inputs of the taps are gathered into channels, followed by a 1x1 convolution. Pixels outside the image
    are zeros.
    """
    g, x, w, offsets = node.g, node.tensor(0), node.tensor(1), node.in_float32(node.tensor(2))
    if node.rank(x) != 4:
        raise UnsupportedError(f"DeformConv supports only images with two spatial axes, got shape {x.shape}")
    window = window_of(node, x, node.attribute("kernel_shape", list(node.shape(w)[2:])))
    groups, sets = node.attribute("group", 1), node.attribute("offset_group", 1)
    batch, channels, height, width = node.dim(x, 0), node.size(x, 1), node.dim(x, 2), node.dim(x, 3)
    out_height, out_width = node.dim(offsets, 2), node.dim(offsets, 3)
    taps = window.kernel[0] * window.kernel[1]
    if channels % sets or node.size(offsets, 1) != 2 * taps * sets:
        raise ShapeError(
            f"offset_group={sets} must divide the {channels} channels of the image, and offsets must have "
            f"{2 * taps * sets} channels for {taps} taps, got offsets of shape {offsets.shape}"
        )
    rows, columns = np.divmod(np.arange(taps), window.kernel[1])
    moved = node.reshape(offsets, [batch, sets, taps, 2, out_height, out_width])
    per_axis = []
    for axis, tap in ((0, rows), (1, columns)):
        length = node.joined([out_height if axis == 0 else out_width])
        steps = g.multiplication(g.cast(g.coordinate_along_axis(0, length), float32), float(window.strides[axis]))
        steps = g.reshape(steps, (-1, 1) if axis == 0 else (1, -1))
        start = tap * window.dilations[axis] - window.before[axis]
        first = g.constant(start.astype(np.float32).reshape(-1, 1, 1))
        place = g.addition(g.squeeze(g.slice_axis(moved, 3, axis, 1), [3]), g.addition(first, steps))
        per_axis.append(_neighbours(node, place, height if axis == 0 else width, clamped=False))
    images = node.reshape(x, [batch, sets, channels // sets, height, width])
    flat = g.reshape(g.transpose(images, [0, 1, 3, 4, 2]), (-1, channels // sets))
    image = g.cast(g.coordinate_along_axis(0, node.joined([node.product([batch, sets])])), int32)
    image = node.reshape(g.multiplication(image, _elements(node, height, width)), [batch, sets, 1, 1, 1])
    terms = []
    for row, row_weight in per_axis[0]:
        for column, column_weight in per_axis[1]:
            line = g.multiplication(row, _number(node, width, int32))
            at = g.addition(g.addition(line, column), image)
            weight = g.expand_dims(g.multiplication(row_weight, column_weight), 5)
            terms.append(g.multiplication(node.in_float32(g.gather(flat, at, 0)), weight))
    seen = folded(terms, g.addition)
    if node.has(4):
        mask = node.reshape(node.in_float32(node.tensor(4)), [batch, sets, taps, out_height, out_width, 1])
        seen = g.multiplication(seen, mask)
    seen = g.transpose(seen, [0, 1, 5, 2, 3, 4])
    seen = node.cast(node.reshape(seen, [batch, channels * taps, out_height, out_width]), x.dtype)
    weights = g.reshape(w, (node.size(w, 0), node.size(w, 1) * taps, 1, 1))
    y = g.convolution2d(seen, weights, groups=groups, data_layout="NCHW", weights_layout="OIHW")
    return with_bias(node, y, 3)
