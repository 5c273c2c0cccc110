"""Export of image resizing and grid sampling to ONNX."""

from __future__ import annotations

import math

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array, required_shape
from ...interchange.renames import names
from ._writer import Writer, writes

_ROUNDINGS = ("floor", "ceil", "round_prefer_ceil", "round_prefer_floor")


@writes("resize_nearest", "resize_bilinear")
def resize(w: Writer, op: Operation) -> str:
    """Export image resizing as Resize, with output sizes or scales."""
    a = op.attributes
    scales, centered = _scales(op) if len(op.inputs) > 2 else (None, bool(a["center_result"]))
    places = "align_corners" if a["align_corners"] else "half_pixel" if centered else "asymmetric"
    rounding = a.get("nearest_rounding_mode", "floor")
    if rounding not in _ROUNDINGS:
        raise NotExpressible(f"ONNX's Resize does not support rounding mode '{rounding}'")
    images = op.inputs[0]
    rank, layout = len(required_shape(images)), str(a["layout"])
    sizes = w.shape_operand(op.inputs[1])
    turned = w.name(images)
    plane = [layout.index(letter) for letter in "HW"] if layout else []
    forth = [axis for axis in range(rank) if axis not in plane] + plane
    turned = w.transpose(turned, forth)
    mode = {"mode": "nearest", "nearest_mode": rounding} if op.kind == "resize_nearest" else {"mode": "linear"}
    count = required_shape(op.inputs[1])[0]
    if count not in (-1, 2 if layout else rank):
        raise NotExpressible(f"resizing needs {2 if layout else rank} sizes, one per resized axis, got {count}")
    # Pass sizes for all axes, because ONNX Runtime fails if attribute axes selects some of them.
    if plane and rank > 2:
        sizes = w.add("Concat", w.add("Shape", turned, start=0, end=rank - 2), sizes, axis=0)
    wanted = ["", sizes] if scales is None else [w.constant(np.asarray([1] * (rank - 2) + scales, np.float32))]
    result = w.add("Resize", turned, "", *wanted, coordinate_transformation_mode=places, **mode)
    return w.transpose(result, [forth.index(axis) for axis in range(rank)])


def _scales(op: Operation) -> tuple[list[float], bool]:
    """Return the scales for Resize and whether Resize uses half-pixel coordinates.

    Both are derived from the operation's explicit scales and offsets.
    """
    images, size, scale, offset = (op.inputs[0], *(known_array(tensor) for tensor in op.inputs[1:4]))
    layout = str(op.attributes["layout"])
    if size is None or scale is None or offset is None or not layout:
        raise NotExpressible(
            "the sizes, scales, and offsets for resizing must be constants, and the images must have a layout"
        )
    scales = [float(v) for v in scale.reshape(-1)]
    old = [required_shape(images)[layout.index(letter)] for letter in "HW"]
    if min(old) < 0 or [math.floor(n * v) for n, v in zip(old, scales, strict=True)] != size.tolist():
        raise NotExpressible(
            "ONNX's Resize computes sizes as floor(size * scale), but the sizes of this operation differ from these"
        )
    for centered, shift in ((True, 0.5), (False, 0.0)):
        if np.allclose(offset, [shift * (v - 1) for v in scales], rtol=0, atol=1e-7):
            return scales, centered
    raise NotExpressible(
        "ONNX's Resize supports only the offsets of half-pixel and asymmetric coordinates, "
        f"got {[float(v) for v in offset.reshape(-1)]}"
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
    if mode == "nearest" and a["nearest_rounding_mode"] != "round_to_even":
        raise NotExpressible(
            f"ONNX's GridSample rounds ties to even, got nearest_rounding_mode '{a['nearest_rounding_mode']}'"
        )
    source, grid = w.all(op)
    last = a["layout"] == "NHWC"
    source = w.transpose(source, [0, 3, 1, 2]) if last else source
    sampled = w.add("GridSample", source, grid, mode=mode, padding_mode=outside, align_corners=int(a["align_corners"]))
    return w.transpose(sampled, [0, 2, 3, 1]) if last else sampled
