"""Translations of resizing, resampling, and cropping along the last two axes.

MIL's sampling modes determine which input position output element i of an axis reads. DEFAULT reads position
i * (input size) / (output size). UNALIGN_CORNERS aligns the centers of elements, ALIGN_CORNERS aligns the first and
last elements, and OFFSET_CORNERS reads positions half a sampling step inside the corners.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Tensor, float32
from ...interchange.renames import options
from ...interchange.resizing import flags, scaled_size
from .._operation import Call, Results, mil

_POSITIONS = options("mil", "positions")


def resized(call: Call, x: Tensor, sizes: list[int | Tensor], mode: str, nearest: bool = False) -> Tensor:
    """Resize the last two axes of x. For float16, the interpolation is computed in float32."""
    g, rank = call.g, call.rank(x)
    if rank < 3:
        call.refuse(f"x must have at least rank 3, got shape {x.shape}")
    lead: list[int | Tensor] = [call.dim(x, i) for i in range(rank - 2)]
    images = x if rank == 4 else call.reshape(x, [1, call.product(lead), call.dim(x, -2), call.dim(x, -1)])
    size = call.joined(sizes)
    if nearest:
        if mode != "DEFAULT":
            call.refuse(f"nearest interpolation supports only sampling_mode 'DEFAULT', got {mode!r}")
        y = g.resize_nearest(images, size, "floor", False, False, "NCHW")
    else:
        y = call.widely(images, lambda images: _linear(call, images, sizes, mode))
    return y if rank == 4 else call.reshape(y, [*lead, *sizes])


def _linear(call: Call, images: Tensor, sizes: list[int | Tensor], mode: str) -> Tensor:
    g = call.g
    if mode == "ALIGN_CORNERS":  # If the output has a single element, it samples the center.
        for axis, size in ((2, sizes[0]), (3, sizes[1])):
            if isinstance(size, Tensor):
                raise call.data_dependent_shape(size)
            if size == 1 and call.size(images, axis) > 1:
                images = _middle(call, images, axis)
    shape = call.joined(sizes)
    if mode in _POSITIONS:
        return g.resize_bilinear(images, shape, *flags(_POSITIONS[mode]), "NCHW")
    if mode != "OFFSET_CORNERS":
        call.refuse(f"sampling_mode {mode!r} is not supported")
    new = [s if isinstance(s, int) else _undecided(call, s) for s in sizes]
    old = [call.size(images, 2), call.size(images, 3)]
    scales = [n / max(1, o - 1) for n, o in zip(new, old, strict=True)]
    return g.resize_bilinear(images, new, layout="NCHW", scale=scales, offset=[-0.5, -0.5])


def _undecided(call: Call, size: Tensor) -> int:
    raise call.data_dependent_shape(size)


def _middle(call: Call, x: Tensor, axis: int) -> Tensor:
    """Return the middle element of an axis, or the mean of the two middle elements if the size is even."""
    size = call.size(x, axis)
    return call.g.mean(call.g.slice_axis(x, axis, (size - 1) // 2, 2 - size % 2), [axis])


def _scaled(call: Call, x: Tensor) -> list[int | Tensor]:
    """Return the new sizes of the last two axes: the old sizes times the scale factors, rounded down."""
    names = {-2: "scale_factor_height", -1: "scale_factor_width"}
    return [scaled_size(call, call.dim(x, axis), call.number(name, 1.0)) for axis, name in names.items()]


@mil("upsample_nearest_neighbor")
def upsample_nearest_neighbor(call: Call) -> Results:
    x = call.tensor("x")
    return resized(call, x, _scaled(call, x), "DEFAULT", nearest=True)


@mil("upsample_bilinear")
def upsample_bilinear(call: Call) -> Results:
    x = call.tensor("x")
    aligned = call.flag("align_corners", True)
    centred = call.flag("half_pixel_centers", not aligned)
    if aligned and centred:
        call.refuse("align_corners and half_pixel_centers must not both be true")
    mode = "STRICT_ALIGN_CORNERS" if aligned else "UNALIGN_CORNERS" if centred else "DEFAULT"
    return resized(call, x, _scaled(call, x), mode)


def _targets(call: Call) -> list[int | Tensor]:
    return [call.integer("target_size_height", 1), call.integer("target_size_width", 1)]


@mil("resize_nearest_neighbor")
def resize_nearest_neighbor(call: Call) -> Results:
    return resized(call, call.tensor("x"), _targets(call), "DEFAULT", nearest=True)


@mil("resize_bilinear")
def resize_bilinear(call: Call) -> Results:
    return resized(call, call.tensor("x"), _targets(call), call.text("sampling_mode", "DEFAULT"))


@mil("resize")
def resize(call: Call) -> Results:
    """Translate resize, given the new sizes of the last axes. A size of 0 keeps the old size."""
    x, count, mode = call.tensor("x"), call.integer("resized_dims"), call.text("sampling_mode", "DEFAULT")
    if count > 2 or count < 1:
        call.refuse(f"resized_dims must be 1 or 2, got {count}")
    parts = call.partly_known("shape")
    wanted: list[int | Tensor] = []
    for i in range(len(parts) - count, len(parts)):
        part = parts[i]
        kept = call.dim(x, i - len(parts)) if part == 0 else part
        wanted.append(kept if kept is not None else call.g.slice_axis(call.tensor("shape"), 0, i, 1))
    if count == 1:
        wanted.insert(0, call.dim(x, -2))
    kind = call.text("interpolation_mode", "LINEAR")
    if kind not in ("LINEAR", "NEAREST_NEIGHBOR"):
        call.refuse(f"interpolation_mode must be LINEAR or NEAREST_NEIGHBOR, got {kind!r}")
    return resized(call, x, wanted, mode, kind == "NEAREST_NEIGHBOR")


@mil("crop")
def crop(call: Call) -> Results:
    g, y = call.g, call.tensor("x")
    for axis, name in ((-2, "crop_height"), (-1, "crop_width")):
        before, after = call.ints(name)
        y = g.slice_axis(y, axis, before, call.size(y, axis) - before - after)
    return y


_OUTSIDE = options("mil", "sampling padding")


def _sampled(call: Call, x: Tensor, places: Tensor, normalized: bool) -> Tensor:
    g, outside, mode = call.g, call.text("padding_mode"), call.text("sampling_mode")
    aligned = call.flag("align_corners", True) or not normalized
    if outside not in _OUTSIDE or mode not in ("bilinear", "nearest"):
        call.refuse(f"sampling_mode {mode!r} with padding_mode {outside!r} is not supported")
    value = call.number("padding_value", 0.0)
    how: dict[str, Any] = {
        "layout": "NCHW",
        "normalize_coordinates": normalized,
        "align_corners": aligned,
        "sampling_mode": mode,
    }
    return g.sample_grid(
        x, call.cast(places, x.dtype), padding_mode=_OUTSIDE[outside], constant_value=value,
        nearest_rounding_mode="round_to_even" if mode == "nearest" else None, **how,
    )  # fmt: skip


@mil("resample")
def resample(call: Call) -> Results:
    g, places, kind = call.g, call.tensor("coordinates"), call.text("coordinates_mode")
    if kind not in ("unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one"):
        call.refuse(f"coordinates_mode {kind!r} is not supported")
    if kind == "normalized_zero_to_one":
        places = g.subtraction(g.multiplication(places, 2.0), 1.0)
    x = call.tensor("x")
    return call.widely(x, lambda x: _sampled(call, x, places, kind != "unnormalized"))


@mil("affine")
def affine(call: Call) -> Results:
    """Translate affine, which maps coordinates in [-1, 1] with one matrix per image.

    The mapping is x' = a0 x + a1 y + a2 and y' = b0 x + b1 y + b2.
    """
    g, x, matrix = call.g, call.tensor("x"), call.tensor("transform_matrix")
    height, width = call.integer("output_height"), call.integer("output_width")
    if call.text("coordinates_mode") != "normalized_minus_one_to_one":
        call.refuse(f"coordinates_mode must be 'normalized_minus_one_to_one', got {call.text('coordinates_mode')!r}")
    down, along = (np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in (height, width))
    grid = np.stack([*np.meshgrid(along, down), np.ones((height, width))], -1).reshape(-1, 3)
    rows = call.reshape(call.cast(matrix, float32), [call.dim(matrix, 0), 2, 3])
    places = g.matrix_multiplication(g.constant(grid.astype(np.float32)), g.swap_axes(rows, -1, -2))
    places = g.reshape(places, [-1, height, width, 2])
    if call.dims(matrix)[0] == 1 and call.dims(x)[0] != 1:
        places = g.broadcast_to(places, call.joined([call.dim(x, 0), height, width, 2]))
    return call.widely(x, lambda x: _sampled(call, x, places, True))
