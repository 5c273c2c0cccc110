"""Translations of GridSample and AffineGrid."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from ..._core import Tensor, int32
from ...errors import GraphError, ShapeError
from ...interchange.renames import options
from ...interchange.resizing import cubic_tensor
from ..building.node import Node, Results, operator
from ._compose import counted, folded, require_few

CUBIC = -0.75
# The positions of a filter tap as integer-valued floats, and its weights, or None for weights of 1.
Tap = tuple[Tensor, "Tensor | None"]


@operator("GridSample", upto=22)
def grid_sample(node: Node) -> Results:
    """Translate GridSample, which interpolates between the elements around each grid position."""
    g, source, grid = node.g, node.tensor(0), node.tensor(1)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(*[node.attribute("mode", "linear")] * 2)
    if node.rank(source) == 4 and mode in ("linear", "nearest"):
        return _sampled_plane(node, source, grid, mode == "nearest")
    batch, channels, *sizes = node.shape(source)
    places = node.shape(grid)[1:-1]
    if node.size(grid, -1) != len(sizes) or not sizes:
        raise ShapeError(
            f"the last axis of the grid must have {len(sizes)} coordinates for an operand of shape {source.shape}, "
            f"got grid shape {grid.shape}"
        )
    padding, aligned = node.attribute("padding_mode", "zeros"), bool(node.attribute("align_corners", 0))
    if mode not in ("nearest", "linear", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise GraphError(
            "mode must be nearest, linear, or cubic and padding_mode zeros, border, or reflection, "
            f"got {mode!r} and {padding!r}"
        )
    x = g.reshape(node.in_float32(source), [batch, channels, -1])
    at = g.reshape(node.in_float32(grid), [batch, -1, len(sizes)])
    taps = []
    for axis, size in enumerate(sizes):  # The last grid coordinate refers to the first spatial axis.
        unit = g.squeeze(g.slice_axis(at, 2, len(sizes) - 1 - axis, 1), [2])
        place = _in_elements(node, unit, size, aligned)
        if mode != "cubic":
            place = _padded(node, place, size, padding, aligned)
        taps.append([_placed(node, tap, size, padding, aligned) for tap in _taps(node, place, mode)])
    terms = []
    for combination in product(*taps):
        flat, weight = combination[0]
        for (index, factor), size in zip(combination[1:], sizes[1:], strict=True):
            flat = g.addition(g.multiplication(flat, size), index)
            if factor is not None:
                weight = factor if weight is None else g.multiplication(weight, factor)
        term = g.gather(x, flat, 2, 1)
        if weight is not None:
            term = g.multiplication(term, g.expand_dims(node.cast(weight, term.dtype), 1))
        terms.append(term)
    return node.cast(g.reshape(folded(terms, g.addition), [batch, channels, *places]), source.dtype)


def _sampled_plane(node: Node, source: Tensor, grid: Tensor, nearest: bool) -> Tensor:
    """Sample images with two spatial axes, using the graph's own operation."""
    padding, aligned = node.attribute("padding_mode", "zeros"), bool(node.attribute("align_corners", 0))
    modes = {"zeros": "zero", **options("onnx", "sampling padding"), **({"reflection": "reflect"} if aligned else {})}
    if padding not in modes:
        raise GraphError(f"padding_mode must be one of {', '.join(modes)}, got {padding!r}")
    result = node.g.sample_grid(
        node.in_float32(source),
        node.in_float32(grid),
        "NCHW",
        align_corners=aligned,
        padding_mode=modes[padding],
        sampling_mode="nearest" if nearest else "bilinear",
        nearest_rounding_mode="round_to_even" if nearest else None,
    )
    return node.cast(result, source.dtype)


def _in_elements(node: Node, unit: Tensor, size: int, aligned: bool) -> Tensor:
    """Convert coordinates in [-1, 1] to element positions.

    The interval extends from the center of the first element to the center of the last if `aligned`, and between the
    outer borders of these elements otherwise.
    """
    g = node.g
    up = g.addition(unit, 1.0)
    if aligned:
        return g.multiplication(up, (size - 1) / 2)
    return g.multiplication(g.subtraction(g.multiplication(up, float(size)), 1.0), 0.5)


def _padded(node: Node, place: Tensor, size: int, padding: str, aligned: bool) -> Tensor:
    """Move positions outside the range to the border, or reflect them."""
    g = node.g
    if padding == "zeros":
        return place
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
        span = high - low
        if span == 0:
            place = g.multiplication(place, 0.0)
        # Reflection has a period of twice the span. Map positions in the second half of the period back to the first.
        else:
            d = g.floor_modulo(g.subtraction(place, low), 2 * span)
            place = g.addition(g.minimum(d, g.subtraction(2 * span, d)), low)
    return g.clamp(place, 0.0, size - 1.0)


def _taps(node: Node, place: Tensor, mode: str) -> list[Tap]:
    """Return the integer positions around fractional positions, with interpolation weights."""
    g = node.g
    if mode == "nearest":
        return [(g.rint(place), None)]
    below = g.floor(place)
    part = g.subtraction(place, below)
    if mode == "linear":
        return [(below, g.subtraction(1.0, part)), (g.addition(below, 1.0), part)]

    rest = g.subtraction(1.0, part)
    distances = (g.addition(part, 1.0), part, rest, g.addition(rest, 1.0))
    weights = [cubic_tensor(node, distance, CUBIC, i in (1, 2)) for i, distance in enumerate(distances)]
    return [(g.addition(below, float(i - 1)), weight) for i, weight in enumerate(weights)]


def _placed(node: Node, tap: Tap, size: int, padding: str, aligned: bool) -> Tap:
    """Convert integer positions to valid indices. With zero padding, positions out of range get weight 0."""
    g, (place, weight) = node.g, tap
    if padding == "zeros":
        inside = g.logical_and(g.greater_than_or_equal_to(place, 0.0), g.less_than(place, float(size)))
        weight = g.cast(inside, place.dtype) if weight is None else g.select(inside, weight, 0.0)
        place = g.clamp(place, 0.0, size - 1.0)
    else:
        place = _padded(node, place, size, padding, aligned)
    safe = g.select(g.is_finite(place), place, 0.0)
    return g.cast(safe, int32), weight


@operator("AffineGrid", upto=20)
def affine_grid(node: Node) -> Results:
    """Translate AffineGrid, which transforms a regular grid by each batch entry's affine map."""
    g, theta = node.g, node.tensor(0)
    batch, _, *sizes = node.ints(1)
    aligned = bool(node.attribute("align_corners", 0))
    require_few(math.prod(sizes))
    lines = []
    for size in sizes:
        step = counted(size)
        lines.append((2 * step / max(size - 1, 1) - 1) if aligned else (2 * step + 1) / size - 1)
    grids = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*grids[::-1], np.ones(sizes)], -1).reshape(1, -1, len(sizes) + 1)
    moved = g.matrix_multiplication(g.constant(points, dtype=theta.dtype), g.swap_axes(theta, 1, 2))
    return g.reshape(moved, [batch, *sizes, len(sizes)])
