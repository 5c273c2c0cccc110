"""Translations of Fourier transforms.

PyTorch selects the scaling by a number: 0 means none, 1 divides by the square root of the number of points, and 2 by
the number of points.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import Tensor
from ...numpy import fft as f
from ._table import Call, aten, prims, shape_of

SCALINGS = ("none", "unitary", "size")


def _places(x: Tensor, axes: Sequence[int]) -> list[int]:
    return [axis % len(shape_of(x)) for axis in axes]


@aten("_fft_c2c")
def fft_c2c(call: Call, x: Tensor, axes: Sequence[int], scaling: int, forward: bool) -> Tensor:
    return f.transform(call.g, x, _places(x, axes), SCALINGS[scaling], not forward)


@aten("_fft_r2c")
def fft_r2c(call: Call, x: Tensor, axes: Sequence[int], scaling: int, onesided: bool) -> Tensor:
    """Translate _fft_r2c. A one-sided transform returns only the first half of the points along the last axis."""
    places = _places(x, axes)
    if not onesided:
        return f.transform(call.g, x, places, SCALINGS[scaling], False)
    return f.real_transform(call.g, x, places, SCALINGS[scaling])


@aten("_fft_c2r")
def fft_c2r(call: Call, x: Tensor, axes: Sequence[int], scaling: int, size: int) -> Tensor:
    places = _places(x, axes)
    last = places[-1]
    if shape_of(x)[last] != size // 2 + 1:
        call.refuse(f"the last axis must have {size // 2 + 1} points for a result of {size}, got {shape_of(x)[last]}")
    return f.real_inverse(call.g, x, places, SCALINGS[scaling], size)


@prims("fft_c2c")
def prims_c2c(call: Call, x: Tensor, *, dim: Sequence[int], forward: bool) -> Tensor:
    return fft_c2c(call, x, dim, 0, forward)


@prims("fft_r2c")
def prims_r2c(call: Call, x: Tensor, *, dim: Sequence[int], onesided: bool) -> Tensor:
    return fft_r2c(call, x, dim, 0, onesided)


@prims("fft_c2r")
def prims_c2r(call: Call, x: Tensor, *, dim: Sequence[int], last_dim_size: int) -> Tensor:
    return fft_c2r(call, x, dim, 0, last_dim_size)
