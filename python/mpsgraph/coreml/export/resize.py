"""Images in other sizes, and sampled at coordinates."""

from __future__ import annotations

from ..._core import Operation
from ...interchange.leaving import Unsaid, known_array, required_shape
from ._writer import Var, Writer, writes

_ROUNDED = ("round_prefer_ceil", "round_prefer_floor")


@writes("resize_bilinear", "resize_nearest")
def resize(w: Writer, op: Operation) -> Var:
    """resize_bilinear and resize_nearest_neighbor, to known sizes."""
    a, size = op.attributes, known_array(op.inputs[1])
    layout, rank = str(a["layout"]), len(required_shape(op.inputs[0]))
    if len(op.inputs) > 2:
        raise Unsaid("scales and offsets of its own")
    if size is None or layout not in ("NHWC", "NCHW", "HWC", "CHW"):
        raise Unsaid("the sizes must be known, and those of height and width")
    plane = [layout.index(letter) for letter in "HW"]
    forth = [axis for axis in range(rank) if axis not in plane] + plane
    x = w.turned(w[op.inputs[0]], forth)
    height, width = (int(v) for v in size.reshape(-1))
    targets = {"target_size_height": height, "target_size_width": width}
    if op.kind == "resize_nearest":
        _require_floor(op, [required_shape(op.inputs[0])[axis] for axis in plane], [height, width])
        y = w.mb.resize_nearest_neighbor(x=x, **targets)
    else:
        mode = "STRICT_ALIGN_CORNERS" if a["align_corners"] else "UNALIGN_CORNERS" if a["center_result"] else "DEFAULT"
        y = w.mb.resize_bilinear(x=x, sampling_mode=mode, **targets)
    return w.turned(y, [forth.index(axis) for axis in range(rank)])


def _require_floor(op: Operation, old: list[int], new: list[int]) -> None:
    """Unsaid unless an element i is that at floor(i old / new), which is all that MIL has."""
    a = op.attributes
    whole = min(old) > 0 and all(n % o == 0 for o, n in zip(old, new, strict=True))
    centred = a["center_result"] and whole and a["nearest_rounding_mode"] in _ROUNDED
    plain = not a["center_result"] and a["nearest_rounding_mode"] == "floor"
    if a["align_corners"] or not (centred or plain):
        raise Unsaid("MIL's nearest element is that at floor(i old / new)")


_OUTSIDE = {"zero": "constant", "constant": "constant", "clamp_to_edge": "border", "reflect": "reflection",
            "symmetric": "symmetric"}  # fmt: skip


@writes("sample_grid")
def sample_grid(w: Writer, op: Operation) -> Var:
    """resample."""
    a = op.attributes
    if a["padding_mode"] not in _OUTSIDE or a["relative_coordinates"]:
        raise Unsaid(f"samples outside by '{a['padding_mode']}', or at relative coordinates")
    nearest = a["sampling_mode"] == "nearest"
    if nearest and a["nearest_rounding_mode"] != "round_to_even":
        raise Unsaid("MIL's resample rounds halves to even")
    if not a["normalize_coordinates"] and not a["align_corners"]:
        raise Unsaid("coordinates in elements that are not their centres")
    source, grid = w.all(op)
    last = a["layout"] == "NHWC"
    value = float(a["constant_value"]) if a["padding_mode"] == "constant" else 0.0
    y = w.mb.resample(
        x=w.turned(source, [0, 3, 1, 2]) if last else source, coordinates=grid,
        sampling_mode="nearest" if nearest else "bilinear", padding_mode=_OUTSIDE[a["padding_mode"]],
        padding_value=w.number(value, op.inputs[0].dtype), align_corners=bool(a["align_corners"]),
        coordinates_mode="normalized_minus_one_to_one" if a["normalize_coordinates"] else "unnormalized",
    )  # fmt: skip
    return w.turned(y, [0, 2, 3, 1]) if last else y
