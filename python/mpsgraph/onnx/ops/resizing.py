"""Resizing along axes.

A resize is separable: along each axis, every element of the result is a weighted sum of a few of the operand's. Places
and weights are computed here, because sizes are known; the graph gathers and adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..._core import Tensor
from ...errors import GraphError, ShapeError
from .._registry import Node, Results, operator
from ._compose import cast, in_float32

MOST_TAPS = 4  # more are a product with a matrix


@dataclass
class Rule:
    """How places and weights are found."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False


def _coordinates(rule: Rule, size: int, result: int, scale: float, roi: tuple[float, float]) -> np.ndarray:
    """The place in the operand that each element of the result looks at."""
    i = np.arange(result, dtype=np.float64)
    exact = scale * size  # the result's size before it was rounded
    match rule.coordinates:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            return size / 2 * (1 - result / exact) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if result > 1 else np.full(1, -0.5)
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        case "asymmetric":
            return i / scale
        case "align_corners":
            return i * (size - 1) / (exact - 1) if exact != 1 else np.zeros(result)
        case "tf_crop_and_resize":
            start, end = roi
            if exact == 1:
                return np.full(result, (start + end) / 2 * (size - 1))
            return start * (size - 1) + i * (end - start) * (size - 1) / (exact - 1)
    raise GraphError(f"coordinate_transformation_mode {rule.coordinates!r}")


def _nearest(rule: Rule, x: np.ndarray) -> np.ndarray:
    rounded: dict[str, np.ndarray] = {
        "round_prefer_floor": np.ceil(x - 0.5),
        "round_prefer_ceil": np.floor(x + 0.5),
        "floor": np.floor(x),
        "ceil": np.ceil(x),
    }
    if rule.nearest not in rounded:
        raise GraphError(f"nearest_mode {rule.nearest!r}")
    return rounded[rule.nearest]


def _kernel(rule: Rule, distance: np.ndarray) -> np.ndarray:
    """The weight of an element at a distance."""
    d, a = np.abs(distance), rule.cubic
    tent: np.ndarray = np.clip(1 - d, 0, 1)
    near = ((a + 2) * d - (a + 3)) * d**2 + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    curve: np.ndarray = np.where(d <= 1, near, np.where(d < 2, far, 0))
    return tent if rule.mode == "linear" else curve


def places_and_weights(
    rule: Rule, size: int, result: int, scale: float, roi: tuple[float, float] = (0, 1)
) -> tuple[np.ndarray, np.ndarray]:
    """For each element of the result, which elements count and with which weights: two (result, taps) arrays."""
    x = _coordinates(rule, size, result, scale, roi)
    if rule.mode == "nearest":
        place = _nearest(rule, x)[:, None]
        return np.clip(place, 0, size - 1).astype(np.int64), np.ones_like(place)
    if rule.mode not in ("linear", "cubic"):
        raise GraphError(f"mode {rule.mode!r}")
    narrow = min(scale, 1.0) if rule.antialias else 1.0  # smaller results look further
    reach = math.ceil((1 if rule.mode == "linear" else 2) / narrow)
    place = np.floor(x)[:, None] + np.arange(1 - reach, reach + 1)
    weight = _kernel(rule, (place - x[:, None]) * narrow)
    if rule.exclude_outside:
        weight = np.where((place < 0) | (place >= size), 0, weight)
    if rule.exclude_outside or rule.antialias:
        weight = weight / weight.sum(1, keepdims=True)
    return np.clip(place, 0, size - 1).astype(np.int64), weight


def resized_along(node: Node, x: Tensor, axis: int, places: np.ndarray, weights: np.ndarray) -> Tensor:
    """x with an axis replaced by weighted sums of its elements."""
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


def resize(
    node: Node, x: Tensor, rule: Rule, sizes: Sequence[int], scales: Sequence[float], roi: Sequence[float], fill: float
) -> Tensor:
    """x with all axes resized; with tf_crop_and_resize, `fill` where the place lies outside."""
    g, dtype = node.g, x.dtype
    shape = node.shape(x)
    crops = rule.coordinates == "tf_crop_and_resize"
    if min(sizes, default=1) < 1 or min(scales, default=1) <= 0:
        raise ShapeError(f"{shape} cannot be resized to {tuple(sizes)} by {tuple(scales)}")
    y = in_float32(node, x) if rule.mode != "nearest" else x
    if rule.mode != "nearest" and not y.dtype.is_float:
        y = g.cast(y, "float32")
    for axis, (size, result, scale) in enumerate(zip(shape, sizes, scales, strict=True)):
        part = (roi[axis], roi[axis + len(shape)])
        if size == result and scale == 1 and not (crops and part != (0, 1)):
            continue
        y = resized_along(node, y, axis, *places_and_weights(rule, size, result, scale, part))
        if crops:
            x_at = _coordinates(rule, size, result, scale, part)
            outside = ((x_at < 0) | (x_at > size - 1)).reshape(-1, *[1] * (len(shape) - 1 - axis))
            y = g.select(g.constant(outside), g.constant(fill, dtype=y.dtype), y)
    return cast(node, y, dtype)


@operator("Resize", upto=19)
def resize_(node: Node) -> Results:
    x = node.tensor(0)
    shape = node.shape(x)
    rank = len(shape)
    axes = node.axes(x, node.attribute("axes", list(range(rank))))
    first = 1 if node.version == 10 else 2
    roi = _spread([float(v) for v in node.value(1)], axes, rank) if node.version > 10 and node.has(1) else []
    roi = roi if len(roi) == 2 * rank else [0.0] * rank + [1.0] * rank
    scales = [float(v) for v in node.value(first).reshape(-1)] if node.has(first) else []
    sizes = node.ints(first + 1) if node.has(first + 1) else []
    if (not scales and not sizes) or len(scales or sizes) != len(axes):
        raise ShapeError(f"scales {scales} or sizes {sizes} must be given, one for each of {len(axes)} axes")
    all_scales, all_sizes = [1.0] * rank, list(shape)
    if sizes:
        wanted = [size / shape[a] for size, a in zip(sizes, axes, strict=True)]
        policy = node.attribute("keep_aspect_ratio_policy", "stretch")
        for i, a in enumerate(axes):
            if policy == "stretch":
                all_scales[a], all_sizes[a] = wanted[i], sizes[i]
            else:
                all_scales[a] = min(wanted) if policy == "not_larger" else max(wanted)
                all_sizes[a] = int(all_scales[a] * shape[a] + 0.5)
    else:
        for scale, a in zip(scales, axes, strict=True):
            all_scales[a], all_sizes[a] = scale, int(math.floor(scale * shape[a]))
    rule = Rule(
        node.attribute("mode", "nearest"),
        node.attribute("coordinate_transformation_mode", "half_pixel" if node.version > 10 else "asymmetric"),
        node.attribute("nearest_mode", "round_prefer_floor" if node.version > 10 else "floor"),
        node.attribute("cubic_coeff_a", -0.75),
        bool(node.attribute("antialias", 0)),
        bool(node.attribute("exclude_outside", 0)),
    )
    return resize(node, x, rule, all_sizes, all_scales, roi, node.attribute("extrapolation_value", 0.0))


def _spread(roi: list[float], axes: list[int], rank: int) -> list[float]:
    """A region given for some axes as one for all."""
    if len(roi) != 2 * len(axes):
        return roi
    result = [0.0] * rank + [1.0] * rank
    for i, a in enumerate(axes):
        result[a], result[rank + a] = roi[i], roi[len(axes) + i]
    return result


@operator("Upsample", upto=10)
def upsample(node: Node) -> Results:
    x = node.tensor(0)
    if node.version == 1:
        scales = [1.0, 1.0, node.attribute("height_scale"), node.attribute("width_scale")]
    else:
        scales = node.attribute("scales") if node.version < 9 else [float(v) for v in node.value(1)]
    mode = {"nearest": "nearest", "linear": "linear", "bilinear": "linear"}[node.attribute("mode", "nearest")]
    shape = node.shape(x)
    sizes = [int(math.floor(size * scale)) for size, scale in zip(shape, scales, strict=True)]
    whole = [0.0] * len(shape) + [1.0] * len(shape)
    return resize(node, x, Rule(mode, "asymmetric", "floor"), sizes, scales, whole, 0.0)
