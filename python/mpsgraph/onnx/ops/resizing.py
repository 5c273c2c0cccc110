"""Translations of Resize and Upsample.

Where possible, images are resized by MPSGraph's nearest and linear resize operations. All other cases are separable:
along each axis, every output element is a weighted sum of a few input elements. Indices and weights are computed at
import time if sizes are known, and by graph operations otherwise.

Coordinates are computed in float32 by ONNX Runtime's formulas, because the rounding of a coordinate decides which
element is nearest. The scale is the float32 quotient of the sizes if the sizes are given. The rounding modes treat a
coordinate within 1e-6 of the middle between two elements as a tie, also as in ONNX Runtime.

With align_corners and tf_crop_and_resize, coordinates follow from the integer output size, as in PyTorch and ONNX
Runtime. The reference implementation in the onnx package uses the unrounded scale * size, which would not align the
last element with the corner when length 3 is resized by 2.5.

Nearest and linear resizing without a change of size return the operand, even for a scale of 1.2 whose output size is
rounded down. PyTorch and ONNX Runtime do the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._core import Tensor, float32, int32, int64
from ...errors import GraphError, ShapeError
from ...interchange.renames import options
from ...interchange.resizing import cubic_tensor, cubic_weights, flags, scaled_size
from ..building.node import Node, Results, operator
from ._compose import counted, folded

TIE = 1e-6  # Coordinates this close to the middle between two elements are ties in the rounding modes.
LONGEST = 2**24  # Maximum size of an axis whose coordinates are computed at import time.
MOST_TAPS = 4  # With more filter taps than this, the weighted sums are computed by a matmul.
BY_SCALE = "by_scale"  # Opset 10, as in its tests and in ONNX Runtime: round down, but up along an axis that shrinks.
_POSITIONS = options("onnx", "positions")
_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass
class Rule:
    """Attributes of Resize that determine coordinates and weights."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False


def _coordinates(rule: Rule, size: int, result: int, scale: float, roi: tuple[float, float]) -> np.ndarray:
    """Return the input coordinate of each output element in float32, rounded step by step like ONNX Runtime's."""
    i, step, last = counted(result, np.float32), np.float32(scale), np.float32(size - 1)
    half, one = np.float32(0.5), np.float32(1)
    places: np.ndarray
    match rule.coordinates:
        case "half_pixel":
            places = (i + half) / step - half
        # This mode keeps equal distances from both borders even if the output size was rounded.
        case "half_pixel_symmetric":
            offset = np.float32(size) / np.float32(2) * (one - np.float32(result) / (step * np.float32(size)))
            places = np.float64(offset) + (i + np.float64(0.5)) / np.float64(step) - 0.5
        case "pytorch_half_pixel":
            places = (i + half) / step - half if result > 1 else np.zeros(1, np.float32)
        case "tf_half_pixel_for_nn":
            places = (i + half) / step
        case "asymmetric":
            places = i / step
        case "align_corners":  # Like PyTorch, use the output size instead of the scale that it was computed from.
            places = i * last / np.float32(result - 1) if result > 1 else np.zeros(1, np.float32)
        case "tf_crop_and_resize":
            start, end = (np.float32(place) for place in roi)
            if result == 1:
                places = np.full(1, 0.5 * np.float64(start + end) * np.float64(last))
            else:
                places = start * last + i * (end - start) * last / np.float32(result - 1)
        case _:
            raise GraphError(f"coordinate_transformation_mode {rule.coordinates!r} is not an ONNX mode")
    return places.astype(np.float32)


def _nearest(rule: Rule, x: np.ndarray, near: float = TIE) -> np.ndarray:
    """Return the indices nearest to coordinates. Coordinates within `near` of the middle of two elements are ties."""
    x = x.astype(np.float64)
    below = np.floor(x)
    tie = np.abs(x - below - 0.5) < near
    rounded: dict[str, np.ndarray] = {
        "round_prefer_floor": np.where(tie, below, np.ceil(x - 0.5)),
        "round_prefer_ceil": np.where(tie, below + 1, np.floor(x + 0.5)),
        "floor": below,
        "ceil": np.ceil(x),
    }
    if rule.nearest not in rounded:
        raise GraphError(f"nearest_mode must be one of {', '.join(_ROUNDING)}, got {rule.nearest!r}")
    return rounded[rule.nearest]


def _scale(size: int, result: int, scale: float | None) -> float:
    """Return the scale of an axis as a float32 number."""
    return float(np.float32(result) / np.float32(size) if scale is None else np.float32(scale))


def _kernel(rule: Rule, distance: np.ndarray) -> np.ndarray:
    """Return the interpolation weights of input elements at the given distances from an output element's coordinate."""
    tent: np.ndarray = np.clip(1 - np.abs(distance), 0, 1)
    return tent if rule.mode == "linear" else cubic_weights(distance, rule.cubic)


def places_and_weights(
    rule: Rule, size: int, result: int, scale: float, roi: tuple[float, float] = (0, 1)
) -> tuple[np.ndarray, np.ndarray]:
    """Return the input indices and weights of each output element, as two arrays of shape (result, taps)."""
    if result > LONGEST:
        raise ShapeError(f"Resize supports at most {LONGEST} elements along an axis, got {result}")
    x = _coordinates(rule, size, result, scale, roi)
    if rule.mode == "nearest":
        place = _nearest(rule, x)[:, None]
        return np.clip(place, 0, size - 1).astype(np.int64), np.ones_like(place)
    if rule.mode not in ("linear", "cubic"):
        raise GraphError(f"mode must be nearest, linear, or cubic, got {rule.mode!r}")
    narrow = min(scale, 1.0) if rule.antialias else 1.0  # Antialiasing widens the filter when downsampling.
    reach = math.ceil((1 if rule.mode == "linear" else 2) / narrow)
    place = np.floor(x)[:, None] + np.arange(1 - reach, reach + 1)
    weight = _kernel(rule, (place - x[:, None]) * narrow)
    if rule.exclude_outside:
        weight = np.where((place < 0) | (place >= size), 0, weight)
    if rule.exclude_outside or rule.antialias:
        weight = weight / weight.sum(1, keepdims=True)
    return np.clip(place, 0, size - 1).astype(np.int64), weight


def resized_along(node: Node, x: Tensor, axis: int, places: np.ndarray, weights: np.ndarray) -> Tensor:
    """Return x with each element along an axis replaced by a weighted sum of the elements at the given indices."""
    g = node.g
    if places.shape[1] == 1 and (weights == 1).all():
        return g.gather(x, g.constant(places[:, 0].astype(np.int32)), axis)
    if places.shape[1] > MOST_TAPS:
        matrix = np.zeros((node.size(x, axis), len(places)))
        np.add.at(matrix, (places, np.arange(len(places))[:, None]), weights)
        last = node.rank(x) - 1
        turned = g.swap_axes(x, axis, last) if axis != last else x
        product = g.matrix_multiplication(turned, g.constant(matrix, dtype=x.dtype))
        return g.swap_axes(product, axis, last) if axis != last else product
    behind = [1] * (node.rank(x) - 1 - axis)
    result: Tensor | None = None
    for place, weight in zip(places.T, weights.T, strict=True):
        if (weight == 0).all():
            continue
        taken = g.gather(x, g.constant(place.astype(np.int32)), axis)
        term = g.multiplication(taken, g.constant(weight.reshape(-1, *behind), dtype=x.dtype))
        result = term if result is None else g.addition(result, term)
    return result if result is not None else g.multiplication(x, 0.0)


@dataclass
class Change:
    """How one axis is resized: its old size, the scale, its new size, and the region of it to use."""

    size: int | None  # None if the size is known only at run time.
    scale: float | None  # None if the old and new sizes determine the scale.
    result: int | Tensor  # The new size, as a tensor if it is known only at run time.
    region: tuple[float, float] = (0.0, 1.0)

    @property
    def exact(self) -> bool:
        """Whether the scale equals the ratio of the new and old sizes."""
        if self.scale is None or (self.size is None and self.scale.is_integer()):
            return True
        return self.size is not None and isinstance(self.result, int) and self.scale * self.size == self.result

    @property
    def same(self) -> bool:
        """Whether the old and new sizes are known and equal."""
        return self.size is not None and isinstance(self.result, int) and self.size == self.result

    @property
    def nothing(self) -> bool:
        """Whether the axis is unchanged."""
        unchanged = self.scale == 1 if self.scale is not None else self.same
        return unchanged and self.region == (0.0, 1.0)


def resize(node: Node, x: Tensor, rule: Rule, changes: Sequence[Change], fill: float = 0.0) -> Tensor:
    """Resize a tensor along its axes, given one Change for each. With tf_crop_and_resize, coordinates outside x
    yield `fill`.
    """
    modes = {_for_axis(rule, c).nearest for c in changes if not c.nothing}
    rule = replace(rule, nearest=modes.pop()) if len(modes) == 1 else rule
    if any(c.scale is not None and c.scale <= 0 or isinstance(c.result, int) and c.result < 1 for c in changes):
        raise ShapeError(f"scales and sizes for resizing an operand of shape {x.shape} must be positive")
    kept = rule.mode != "cubic" and rule.coordinates != "tf_crop_and_resize" and not rule.antialias
    if kept and all(c.same for c in changes):
        return node.g.identity(x)  # Scales do not matter if the rounded sizes are unchanged.
    y = x if rule.mode == "nearest" else node.cast(x, float32) if x.dtype.itemsize < 4 else x
    y = y if rule.mode == "nearest" or y.dtype.is_float else node.g.cast(y, float32)
    planes = _of_planes(node, y, rule, changes)
    return node.cast(_separably(node, y, rule, changes, fill) if planes is None else planes, x.dtype)


def _of_planes(node: Node, x: Tensor, rule: Rule, changes: Sequence[Change]) -> Tensor | None:
    """Resize the last two axes with the graph's own resize operation. Return None if that would not be equivalent."""
    g, rank = node.g, len(changes)
    fits = rank in (3, 4) and rule.mode in ("nearest", "linear") and not (rule.antialias or rule.exclude_outside)
    if not fits or rule.coordinates not in _POSITIONS or rule.nearest not in _ROUNDING:
        return None
    last = list(changes[2:]) if rank == 4 else [Change(1, 1.0, 1), changes[2]]
    exact = all(c.exact for c in last)
    if not all(c.nothing or (c.size is None and c.scale is None) for c in changes[:2]):
        return None
    center, aligned = flags(_POSITIONS[rule.coordinates])
    exact = exact or aligned  # With align_corners, coordinates depend only on sizes, so the scale does not matter.
    if not exact and any(c.scale is None for c in last):
        return None
    if rule.mode == "nearest" and not all(_agrees_on_nearest(rule, c) for c in last):
        return None
    how: dict[str, Any] = {"center_result": center, "align_corners": aligned, "layout": "NCHW"}
    if not exact:  # The output sizes were rounded, but coordinates use the exact scales.
        scales = [float(c.scale or 1.0) for c in last]
        how |= {"scale": scales, "offset": [s / 2 - 0.5 if center else 0.0 for s in scales]}
    size = node.joined(c.result for c in last)
    images = x if rank == 4 else g.expand_dims(x, [2])
    if rule.mode == "nearest":
        y = g.resize_nearest(images, size, rule.nearest, **how)
    else:
        y = g.resize_bilinear(images, size, **how)
    y = y if rank == 4 else g.squeeze(y, [2])
    if all(c.nothing for c in changes[:2]):
        return y
    # This reshape fails at run time if the sizes operand changes an axis other than the last two.
    return node.reshape(y, (c.result for c in changes))


def _agrees_on_nearest(rule: Rule, change: Change) -> bool:
    """Return whether the graph's resize operation finds the same nearest neighbors as `_nearest`."""
    size, result = change.size, change.result
    if size is None or isinstance(result, Tensor) or result > LONGEST:
        # Rounding errors depend on the sizes. Integer scales and powers of two round no coordinate near a tie.
        scale = change.scale
        return scale is not None and (scale.is_integer() or math.frexp(scale)[0] == 0.5)
    expected = _nearest(rule, _coordinates(rule, size, result, _scale(size, result, change.scale), change.region))
    i = counted(result)
    if rule.coordinates == "align_corners":
        found = i * (size - 1) / max(result - 1, 1)
    else:
        half = 0.5 if rule.coordinates == "half_pixel" else 0.0
        found = (i + half) * size / result - half if change.exact else (i + half) / float(change.scale or 1.0) - half
    edges = 0, size - 1
    return bool((np.clip(_nearest(rule, found, near=0.0), *edges) == np.clip(expected, *edges)).all())


def _for_axis(rule: Rule, change: Change) -> Rule:
    """Return the rule with the rounding mode for one axis, which in opset 10 depends on the axis's scale."""
    if rule.nearest != BY_SCALE:
        return rule
    return replace(rule, nearest="ceil" if change.scale is not None and change.scale < 1 else "floor")


def _separably(node: Node, y: Tensor, rule: Rule, changes: Sequence[Change], fill: float) -> Tensor:
    """Resize a tensor one axis at a time."""
    g, crops, told, whole = node.g, rule.coordinates == "tf_crop_and_resize", False, rule
    for axis, change in enumerate(changes):
        if change.nothing or (change.exact and change.same and not crops):
            continue
        result = change.result
        rule = _for_axis(whole, change)
        if change.size is None or isinstance(result, Tensor):
            if change.size is None and change.scale is None and axis < len(changes) - 2:
                told = True  # A sizes operand includes the batch and channel axes, whose sizes must not change.
            else:
                y = _as_told(node, y, axis, rule, change)
            continue
        size = change.size
        scale = _scale(size, result, change.scale)
        y = resized_along(node, y, axis, *places_and_weights(rule, size, result, scale, change.region))
        if crops:
            x_at = _coordinates(rule, size, result, scale, change.region)
            outside = ((x_at < 0) | (x_at > size - 1)).reshape(-1, *[1] * (len(changes) - 1 - axis))
            y = g.select(g.constant(outside), g.constant(fill, dtype=y.dtype), y)
    # This reshape fails at run time if the sizes differ.
    return node.reshape(y, (c.result for c in changes)) if told else y


def _as_told(node: Node, x: Tensor, axis: int, rule: Rule, change: Change) -> Tensor:
    """Resize an axis with a dynamic size, computing indices and weights with graph operations."""
    g = node.g
    placements = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
    if rule.mode not in ("nearest", "linear", "cubic"):
        raise GraphError(f"mode must be nearest, linear, or cubic, got {rule.mode!r}")
    if rule.antialias or rule.coordinates not in placements:
        raise node.importer.data_dependent_shape(change.result if isinstance(change.result, Tensor) else x)
    size, result = (
        g.cast(g.reshape(n, ()), float32) if isinstance(n, Tensor) else g.constant(float(n))
        for n in (node.dim(x, axis), change.result)
    )
    i = g.cast(g.coordinate_along_axis(0, node.joined([change.result])), float32)
    scale = g.division(result, size) if change.scale is None else g.constant(float(change.scale))
    if rule.coordinates == "align_corners":
        steps = g.maximum(g.subtraction(result, 1.0), 1.0)
        place = g.division(g.multiplication(i, g.subtraction(size, 1.0)), steps)
    elif rule.coordinates == "asymmetric":
        place = g.division(i, scale)
    else:
        place = g.subtraction(g.division(g.addition(i, 0.5), scale), 0.5)
        if rule.coordinates == "pytorch_half_pixel":
            place = g.select(g.greater_than(result, 1.0), place, 0.0)
    last = g.subtraction(size, 1.0)
    if rule.mode == "nearest":
        nearest = g.maximum(g.minimum(_nearest_as_told(node, rule, place), last), 0.0)
        return g.gather(x, g.cast(nearest, int32), axis)
    low = g.floor(place)
    share = g.subtraction(place, low)
    taps = range(2) if rule.mode == "linear" else range(-1, 3)
    distances = [g.absolute(g.subtraction(share, float(tap))) for tap in taps]
    if rule.mode == "linear":
        weights = [g.subtraction(1.0, distance) for distance in distances]
    else:
        weights = [
            cubic_tensor(node, distance, rule.cubic, tap in (0, 1))
            for tap, distance in zip(taps, distances, strict=True)
        ]
    places = [g.addition(low, float(tap)) for tap in taps]
    if rule.exclude_outside:
        inside = [g.logical_and(g.greater_than_or_equal_to(p, 0.0), g.less_than(p, size)) for p in places]
        weights = [g.select(within, weight, 0.0) for within, weight in zip(inside, weights, strict=True)]
        total = folded(weights, g.addition)
        weights = [g.division(weight, total) for weight in weights]
    behind = [1] * (node.rank(x) - 1 - axis)
    indices = [g.cast(g.maximum(g.minimum(p, last), 0.0), int32) for p in places]
    terms = [
        g.multiplication(g.gather(x, index, axis), node.cast(g.reshape(weight, (-1, *behind)), x.dtype))
        for index, weight in zip(indices, weights, strict=True)
    ]
    return folded(terms, g.addition)


def _nearest_as_told(node: Node, rule: Rule, place: Tensor) -> Tensor:
    """Return the indices nearest to coordinates, by the same rules as `_nearest`."""
    g = node.g
    match rule.nearest:
        case "round_prefer_floor" | "round_prefer_ceil":
            below = g.floor(place)  # The subtraction is exact, so it does not move a coordinate across a tie.
            above_middle = g.subtraction(g.subtraction(place, below), 0.5)
            up = (
                g.greater_than_or_equal_to(above_middle, TIE)
                if rule.nearest == "round_prefer_floor"
                else g.greater_than(above_middle, -TIE)
            )
            return g.addition(below, g.cast(up, float32))
        case "floor":
            return g.floor(place)
        case "ceil":
            return g.ceil(place)
    raise GraphError(f"nearest_mode must be one of {', '.join(_ROUNDING)}, got {rule.nearest!r}")


@operator("Resize", upto=19)
def resize_(node: Node) -> Results:
    x = node.tensor(0)
    axes = node.axes(x, node.attribute("axes", list(range(node.rank(x)))))
    first = 1 if node.version == 10 else 2
    rule = Rule(
        node.attribute("mode", "nearest"),
        node.attribute("coordinate_transformation_mode", "half_pixel" if node.version > 10 else "asymmetric"),
        node.attribute("nearest_mode", "round_prefer_floor" if node.version > 10 else BY_SCALE),
        node.attribute("cubic_coeff_a", -0.75),
        bool(node.attribute("antialias", 0)),
        bool(node.attribute("exclude_outside", 0)),
    )
    by_scale = node.has(first) and node.operand_shape(first) != (0,)
    if by_scale:
        node.without_effect("keep_aspect_ratio_policy")
        changes = _by_scales(node, x, axes, [float(v) for v in node.value(first).reshape(-1)])
    elif node.has(first + 1):
        changes = _by_sizes(node, x, axes, first + 1)
    else:
        raise ShapeError("Resize needs scales or sizes, but both are missing")
    if rule.coordinates == "tf_crop_and_resize" and node.has(1):
        _enter_regions(changes, axes, [float(v) for v in node.value(1)])
    return resize(node, x, rule, changes, node.attribute("extrapolation_value", 0.0))


def _as_they_are(node: Node, x: Tensor) -> list[Change]:
    return [Change(size if size >= 0 else None, 1.0, node.dim(x, a)) for a, size in enumerate(node.dims(x))]


def _by_scales(node: Node, x: Tensor, axes: Sequence[int], scales: Sequence[float]) -> list[Change]:
    """Return how each axis is resized when it is multiplied by a scale in float32 and rounded down."""
    changes = _as_they_are(node, x)
    if len(scales) != len(axes):
        raise ShapeError(f"scales must have {len(axes)} elements, one per axis, got {len(scales)}")
    for axis, scale in zip(axes, scales, strict=True):
        change = changes[axis]
        changes[axis] = Change(change.size, scale, scaled_size(node, change.result, scale))
    return changes


def _by_sizes(node: Node, x: Tensor, axes: Sequence[int], operand: int) -> list[Change]:
    g, changes, told = node.g, _as_they_are(node, x), node.partly_known_ints(operand)
    sizes = told if told is not None else [None] * node.size(node.tensor(operand), 0)
    if len(sizes) != len(axes):
        raise ShapeError(f"sizes must have {len(axes)} elements, one per axis, got {len(sizes)}")
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        for i, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
            fed = g.slice(g.cast(node.tensor(operand), int64), [i], [i + 1]) if size is None else size
            changes[axis] = Change(changes[axis].size, None, fed)
        return changes
    wanted = [_scale(node.size(x, axis), size, None) for size, axis in zip(node.ints(operand), axes, strict=True)]
    scale = min(wanted) if policy == "not_larger" else max(wanted)
    for axis in axes:
        size = node.size(x, axis)
        changes[axis] = Change(size, scale, math.floor(float(np.float32(scale) * np.float32(size)) + 0.5))
    return changes


def _enter_regions(changes: Sequence[Change], axes: Sequence[int], regions: Sequence[float]) -> None:
    """Store the region of interest of each axis in its Change.

    `regions` lists the starts of all axes, followed by the ends, as in ONNX.
    """
    if len(regions) == 2 * len(axes):
        for i, axis in enumerate(axes):
            changes[axis].region = (regions[i], regions[len(axes) + i])


@operator("Upsample", upto=10)
def upsample(node: Node) -> Results:
    x = node.tensor(0)
    if node.version == 1:
        scales = [1.0, 1.0, node.attribute("height_scale"), node.attribute("width_scale")]
    else:
        scales = node.attribute("scales") if node.version < 9 else [float(v) for v in node.value(1)]
    mode = {"nearest": "nearest", "linear": "linear", "bilinear": "linear"}[node.attribute("mode", "nearest")]
    return resize(node, x, Rule(mode, "asymmetric", "floor"), _by_scales(node, x, range(node.rank(x)), scales))
