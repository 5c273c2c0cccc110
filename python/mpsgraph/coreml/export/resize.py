"""Export of image resizing and grid sampling to MIL."""

from __future__ import annotations

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array, required_shape
from ...interchange.renames import names
from ._writer import Var, Writer, writes

_ROUNDED = ("round_prefer_ceil", "round_prefer_floor")


@writes("resize_bilinear", "resize_nearest")
def resize(w: Writer, op: Operation) -> Var:
    """Export resizing to constant sizes as MIL's resize_bilinear or resize_nearest_neighbor."""
    a, size = op.attributes, known_array(op.inputs[1])
    layout, rank = str(a["layout"]), len(required_shape(op.inputs[0]))
    if size is None or layout not in ("NHWC", "NCHW", "HWC", "CHW"):
        raise NotExpressible("resizing needs constant sizes and a layout of NHWC, NCHW, HWC, or CHW")
    plane = [layout.index(letter) for letter in "HW"]
    forth = [axis for axis in range(rank) if axis not in plane] + plane
    x = w.turned(w[op.inputs[0]], forth)
    height, width = (int(v) for v in size.reshape(-1))
    targets = {"target_size_height": height, "target_size_width": width}
    old = [required_shape(op.inputs[0])[axis] for axis in plane]
    centred = _is_centred(op, old, [height, width])
    if op.kind == "resize_nearest":
        _require_floor(op, centred, old, [height, width])
        y = w.mb.resize_nearest_neighbor(x=x, **targets)
    else:
        mode = "STRICT_ALIGN_CORNERS" if a["align_corners"] else "UNALIGN_CORNERS" if centred else "DEFAULT"
        y = w.mb.resize_bilinear(x=x, sampling_mode=mode, **targets)
    return w.turned(y, [forth.index(axis) for axis in range(rank)])


def _is_centred(op: Operation, old: list[int], new: list[int]) -> bool:
    """Return whether the operation uses half-pixel coordinates.

    Raises NotExpressible for scales and offsets that MIL cannot express.
    """
    if len(op.inputs) <= 2:
        return bool(op.attributes["center_result"])
    scale, offset = (known_array(tensor) for tensor in op.inputs[2:4])
    if scale is None or offset is None or not np.allclose(scale * old, new, rtol=1e-6) or min(old) < 1:
        raise NotExpressible(
            "the scales for resizing must be constants equal to the new sizes divided by the old sizes"
        )
    for centred, shift in ((True, 0.5), (False, 0.0)):
        if np.allclose(offset, shift * (scale - 1), rtol=0, atol=1e-7):
            return centred
    raise NotExpressible(
        "the offsets for resizing must be those of half-pixel or asymmetric coordinates, "
        f"got {[float(v) for v in offset.reshape(-1)]}"
    )


def _require_floor(op: Operation, centred: bool, old: list[int], new: list[int]) -> None:
    """Raise NotExpressible unless nearest-neighbor resizing selects the same elements as in MIL.

    For element i of the result, MIL selects element floor(i * old / new) of the input, where `old` and `new` are sizes.
    """
    rounding = op.attributes["nearest_rounding_mode"]
    whole = min(old) > 0 and all(n % o == 0 for o, n in zip(old, new, strict=True))
    fits = whole and rounding in _ROUNDED if centred else rounding == "floor"
    if op.attributes["align_corners"] or not fits:
        raise NotExpressible(
            "for element i, MIL's nearest resizing selects element floor(i * old / new), but this operation rounds "
            "differently"
        )


_OUTSIDE = {"zero": "constant", **names("mil", "sampling padding")}


@writes("sample_grid")
def sample_grid(w: Writer, op: Operation) -> Var:
    """Export grid sampling as MIL's resample."""
    a = op.attributes
    if a["padding_mode"] not in _OUTSIDE or a["relative_coordinates"]:
        raise NotExpressible(
            f"sampling with padding mode '{a['padding_mode']}' or relative coordinates cannot be expressed in MIL"
        )
    nearest = a["sampling_mode"] == "nearest"
    if nearest and a["nearest_rounding_mode"] != "round_to_even":
        raise NotExpressible(
            f"MIL's resample rounds ties to even, got nearest_rounding_mode '{a['nearest_rounding_mode']}'"
        )
    if not a["normalize_coordinates"] and not a["align_corners"]:
        raise NotExpressible("unnormalized coordinates need align_corners=True")
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
