"""Export of image resizing and grid sampling to ONNX."""

from __future__ import annotations

import math

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array, required_shape
from ...interchange.renames import names
from ...interchange.resizing import axes_last, positions_of, require_even_ties
from ._writer import Writer, writes

_ROUNDINGS = ("floor", "ceil", "round_prefer_ceil", "round_prefer_floor")
_POSITIONS = names("onnx", "positions")


@writes("resize_nearest", "resize_bilinear")
def resize(w: Writer, op: Operation) -> str:
    """Export image resizing as Resize, with output sizes or scales."""
    a, images = op.attributes, op.inputs[0]
    positions, scales = positions_of(op)
    rounding = a.get("nearest_rounding_mode", "floor")
    if rounding not in _ROUNDINGS:
        raise NotExpressible(f"ONNX's Resize does not support rounding mode '{rounding}'")
    rank, layout = len(required_shape(images)), str(a["layout"])
    plane, order = axes_last(images, layout)
    if scales is not None:
        _require_floor(op, plane, scales)
    sizes = w.shape_operand(op.inputs[1])
    turned = w.transpose(w.name(images), order)
    mode = {"mode": "nearest", "nearest_mode": rounding} if op.kind == "resize_nearest" else {"mode": "linear"}
    count = required_shape(op.inputs[1])[0]
    if count not in (-1, 2 if layout else rank):
        raise NotExpressible(f"resizing needs {2 if layout else rank} sizes, one per resized axis, got {count}")
    # Pass sizes for all axes, because ONNX Runtime fails if attribute axes selects some of them.
    if plane and rank > 2:
        sizes = w.add("Concat", w.add("Shape", turned, start=0, end=rank - 2), sizes, axis=0)
    wanted = ["", sizes] if scales is None else [w.constant(np.asarray([1] * (rank - 2) + scales.tolist(), np.float32))]
    result = w.add("Resize", turned, "", *wanted, coordinate_transformation_mode=_POSITIONS[positions], **mode)
    return w.transpose(result, [order.index(axis) for axis in range(rank)])


def _require_floor(op: Operation, plane: list[int], scales: np.ndarray) -> None:
    """Raise NotExpressible unless the new sizes are those that Resize computes from scales."""
    size, shape = known_array(op.inputs[1]), required_shape(op.inputs[0])
    if size is None or not plane:
        raise NotExpressible("resizing with scales needs constant sizes, and images that have a layout")
    old = [shape[axis] for axis in plane]
    if min(old) < 0 or [math.floor(n * float(v)) for n, v in zip(old, scales, strict=True)] != size.tolist():
        raise NotExpressible(
            "ONNX's Resize computes sizes as floor(size * scale), but the sizes of this operation differ from these"
        )


_OUTSIDE = {"zero": "zeros", "constant": "zeros", **names("onnx", "sampling padding")}


@writes("sample_grid")
def sample_grid(w: Writer, op: Operation) -> str:
    """Export grid sampling as GridSample."""
    a = op.attributes
    mode = "nearest" if a["sampling_mode"] == "nearest" else "linear" if w.opset >= 20 else "bilinear"
    outside = _OUTSIDE.get(a["padding_mode"])
    if outside is None or not a["normalize_coordinates"] or a["relative_coordinates"]:
        raise NotExpressible(
            "ONNX's GridSample needs absolute coordinates from -1 to 1 and padding with zeros, border, or reflection"
        )
    if (a["padding_mode"] == "constant" and a["constant_value"] != 0) or a["padding_mode"] == "symmetric":
        raise NotExpressible(
            f"ONNX's GridSample supports padding with zeros or the border only, got '{a['padding_mode']}'"
        )
    require_even_ties(op, "ONNX's GridSample")
    source, grid = w.all(op)
    last = a["layout"] == "NHWC"
    source = w.transpose(source, [0, 3, 1, 2]) if last else source
    sampled = w.add("GridSample", source, grid, mode=mode, padding_mode=outside, align_corners=int(a["align_corners"]))
    return w.transpose(sampled, [0, 2, 3, 1]) if last else sampled
