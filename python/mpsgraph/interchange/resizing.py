"""Resizing of images as every format states it: input positions, sizes, and weights, for import and for export.

The group "positions" of the table of names lists what each format calls the graph's three rules for the input position
of element i of the result, along an axis of m elements that is resized to n: "top_left" means i * m / n, "centers"
means (i + 1/2) * m / n - 1/2, and "corners" means i * (m - 1) / (n - 1).
"""

from __future__ import annotations

import numpy as np

from .._core import Operation, Tensor, float32
from .export import NotExpressible, known_array, required_shape
from .node_view import SizedNode

_FLAGS = {"top_left": (False, False), "centers": (True, False), "corners": (False, True)}
_SHIFTS = {"centers": 0.5, "top_left": 0.0}


# --- import ---------------------------------------------------------------------------------------------------------
def flags(positions: str) -> tuple[bool, bool]:
    """Return the arguments `center_result` and `align_corners` of the graph's operations for a rule of positions."""
    return _FLAGS[positions]


def scaled_size(node: SizedNode, size: int | Tensor, scale: float) -> int | Tensor:
    """Return a size, as returned by `dim`, times a scale, computed in float32 and rounded down."""
    g = node.g
    if isinstance(size, int):
        return int(np.floor(np.float32(size) * np.float32(scale)))
    if scale.is_integer():
        return size if scale == 1 else g.multiplication(size, int(scale))
    return g.cast(g.floor(g.multiplication(g.cast(size, float32), scale)), size.dtype)


def cubic(a: float, near: bool) -> tuple[float, float, float, float]:
    """Return the coefficients of the weight of cubic interpolation in a distance d, from that of d**3 to the constant.

    The weight is (a+2) d**3 - (a+3) d**2 + 1 for distances up to 1, if `near` is set, and a (d**3 - 5 d**2 + 8 d - 4)
    for distances from 1 to 2.

    Source: R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
    """
    return (a + 2, -(a + 3), 0.0, 1.0) if near else (a, -5 * a, 8 * a, -4 * a)


def cubic_weights(distance: np.ndarray, a: float) -> np.ndarray:
    """Return the weights of cubic interpolation at distances of either sign, which are 0 beyond 2."""
    d = np.abs(distance)
    near, far = (np.polyval(cubic(a, near), d) for near in (True, False))
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def cubic_tensor(node: SizedNode, distance: Tensor, a: float, near: bool) -> Tensor:
    """Return the weights of cubic interpolation at distances that are all at most 1, or all between 1 and 2."""
    g, coefficients = node.g, cubic(a, near)
    value = g.addition(g.multiplication(distance, coefficients[0]), coefficients[1])
    for coefficient in coefficients[2:]:
        value = g.addition(g.multiplication(value, distance), coefficient)
    return value


# --- export ---------------------------------------------------------------------------------------------------------
def positions_of(operation: Operation) -> tuple[str, np.ndarray | None]:
    """Return the rule of positions of a resize operation, and its explicit scales, or None if sizes determine them.

    Raises NotExpressible for scales and offsets that no rule describes.
    """
    if len(operation.inputs) <= 2:
        a = operation.attributes
        given = bool(a["center_result"]) and not a["align_corners"], bool(a["align_corners"])
        return next(name for name, rule in _FLAGS.items() if rule == given), None
    scale, offset = (known_array(tensor) for tensor in operation.inputs[2:4])
    if scale is None or offset is None:
        raise NotExpressible("the scales and offsets for resizing must be constants in the exported file")
    for positions, shift in _SHIFTS.items():
        if np.allclose(offset, shift * (scale - 1), rtol=0, atol=1e-7):
            return positions, scale.reshape(-1)
    raise NotExpressible(
        "the offsets for resizing must be those of half-pixel or asymmetric coordinates, "
        f"got {[float(v) for v in offset.reshape(-1)]}"
    )


def axes_last(images: Tensor, layout: str) -> tuple[list[int], list[int]]:
    """Return the axes of images that a resize operation with a layout changes, and the order that moves them last."""
    rank = len(required_shape(images))
    plane = [layout.index(letter) for letter in "HW"] if layout else []
    return plane, [axis for axis in range(rank) if axis not in plane] + plane


def require_even_ties(operation: Operation, what: str) -> None:
    """Raise NotExpressible if an operation samples the nearest elements without rounding ties to even, as `what`."""
    rounding = operation.attributes["nearest_rounding_mode"]
    if operation.attributes["sampling_mode"] == "nearest" and rounding != "round_to_even":
        raise NotExpressible(f"{what} rounds ties to even, got nearest_rounding_mode '{rounding}'")
