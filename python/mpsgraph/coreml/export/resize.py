"""Export of image resizing and grid sampling to MIL."""

from __future__ import annotations

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array, required_shape
from ...interchange.renames import names
from ...interchange.resizing import axes_last, positions_of, require_even_ties
from ._writer import Var, Writer, writes

_ROUNDED = ("round_prefer_ceil", "round_prefer_floor")
_POSITIONS = names("mil", "positions")


@writes("resize_bilinear", "resize_nearest")
def resize(w: Writer, op: Operation) -> Var:
    """Export resizing to constant sizes as MIL's resize_bilinear or resize_nearest_neighbor."""
    a, size = op.attributes, known_array(op.inputs[1])
    layout, rank = str(a["layout"]), len(required_shape(op.inputs[0]))
    if size is None or layout not in ("NHWC", "NCHW", "HWC", "CHW"):
        raise NotExpressible("resizing needs constant sizes and a layout of NHWC, NCHW, HWC, or CHW")
    plane, order = axes_last(op.inputs[0], layout)
    x = w.turned(w[op.inputs[0]], order)
    height, width = (int(v) for v in size.reshape(-1))
    targets = {"target_size_height": height, "target_size_width": width}
    old = [required_shape(op.inputs[0])[axis] for axis in plane]
    positions, scales = positions_of(op)
    if scales is not None and (min(old) < 1 or not np.allclose(scales * old, [height, width], rtol=1e-6)):
        raise NotExpressible("the scales for resizing must equal the new sizes divided by the old sizes")
    if op.kind == "resize_nearest":
        _require_floor(op, positions, old, [height, width])
        y = w.mb.resize_nearest_neighbor(x=x, **targets)
    else:
        y = w.mb.resize_bilinear(x=x, sampling_mode=_POSITIONS[positions], **targets)
    return w.turned(y, [order.index(axis) for axis in range(rank)])


def _require_floor(op: Operation, positions: str, old: list[int], new: list[int]) -> None:
    """Raise NotExpressible unless nearest-neighbor resizing selects the same elements as in MIL.

    For element i of the result, MIL selects element floor(i * old / new) of the input, where `old` and `new` are sizes.
    """
    rounding = op.attributes["nearest_rounding_mode"]
    whole = min(old) > 0 and all(n % o == 0 for o, n in zip(old, new, strict=True))
    fits = whole and rounding in _ROUNDED if positions == "centers" else rounding == "floor"
    if positions == "corners" or not fits:
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
    require_even_ties(op, "MIL's resample")
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
