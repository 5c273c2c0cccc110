"""Images in other sizes, and sampled at coordinates."""

from __future__ import annotations

from ..._core import Operation
from ._writer import Unsaid, Writer, required_shape, writes

_PLACES = {(False, False): "asymmetric", (True, False): "half_pixel", (False, True): "align_corners"}
_ROUNDINGS = ("floor", "ceil", "round_prefer_ceil", "round_prefer_floor")


@writes("resize_nearest", "resize_bilinear")
def resize(w: Writer, op: Operation) -> str:
    """Resize to sizes."""
    if len(op.inputs) > 2:
        raise Unsaid("scales and offsets of its own, which ONNX's Resize does not have")
    a = op.attributes
    places = _PLACES.get((bool(a["center_result"]), bool(a["align_corners"])))
    rounding = a.get("nearest_rounding_mode", "floor")
    if places is None or rounding not in _ROUNDINGS:
        raise Unsaid(f"ONNX's Resize has no places like center_result and align_corners together, or '{rounding}'")
    images = op.inputs[0]
    rank, layout = len(required_shape(images)), str(a["layout"])
    axes = [layout.index("H"), layout.index("W")] if layout else list(range(rank))
    sizes = w.shape_operand(op.inputs[1])
    turned = w.name(images)
    back = None
    if layout == "NHWC":
        turned, back, axes = w.transpose(turned, [0, 3, 1, 2]), [0, 2, 3, 1], [2, 3]
    mode = {"mode": "nearest", "nearest_mode": rounding} if op.kind == "resize_nearest" else {"mode": "linear"}
    count = required_shape(op.inputs[1])[0]
    if count not in (-1, len(axes)):
        raise Unsaid(f"{count} sizes for {len(axes)} axes")
    result = w.add("Resize", turned, "", "", sizes, coordinate_transformation_mode=places, axes=axes, **mode)
    return w.transpose(result, back) if back else result


_OUTSIDE = {"zero": "zeros", "constant": "zeros", "clamp_to_edge": "border", "symmetric": "reflection"}


@writes("sample_grid")
def sample_grid(w: Writer, op: Operation) -> str:
    """GridSample."""
    a = op.attributes
    mode = "nearest" if a["sampling_mode"] == "nearest" else "linear" if w.opset >= 20 else "bilinear"
    outside = _OUTSIDE.get(a["padding_mode"])
    if outside is None or not a["normalize_coordinates"] or a["relative_coordinates"]:
        raise Unsaid("GridSample has coordinates from -1 to 1, and zeros, the border or its reflection outside")
    if (a["padding_mode"] == "constant" and a["constant_value"] != 0) or a["padding_mode"] == "symmetric":
        raise Unsaid(f"GridSample has zeros or the border outside, not '{a['padding_mode']}'")
    if mode == "nearest" and a["nearest_rounding_mode"] != "round_to_even":
        raise Unsaid("GridSample rounds halves to even")
    source, grid = w.inputs(op)
    last = a["layout"] == "NHWC"
    source = w.transpose(source, [0, 3, 1, 2]) if last else source
    sampled = w.add("GridSample", source, grid, mode=mode, padding_mode=outside, align_corners=int(a["align_corners"]))
    return w.transpose(sampled, [0, 2, 3, 1]) if last else sampled
