"""Translations of Fourier transforms.

PyTorch selects the scaling by a number: 0 means none, 1 divides by the square root of the number of points, and 2 by
the number of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Tensor
from ._table import Call, aten, prims, shape_of

SCALINGS = ("none", "unitary", "size")
MOST = 4
"""Maximum number of axes that one Fourier transform operation of the graph supports."""


def _whole(call: Call, x: Tensor, axes: Sequence[int], how: str, inverse: bool) -> Tensor:
    for first in range(0, len(axes), MOST):
        part = list(axes[first : first + MOST])
        x = call.g.fast_fourier_transform(x, part, inverse=inverse, scaling=how)  # type: ignore[arg-type]
    return x


def _places(x: Tensor, axes: Sequence[int]) -> list[int]:
    return [axis % len(shape_of(x)) for axis in axes]


@aten("_fft_c2c")
def fft_c2c(call: Call, x: Tensor, axes: Sequence[int], scaling: int, forward: bool) -> Tensor:
    return _whole(call, x, _places(x, axes), SCALINGS[scaling], not forward)


@aten("_fft_r2c")
def fft_r2c(call: Call, x: Tensor, axes: Sequence[int], scaling: int, onesided: bool) -> Tensor:
    """Translate _fft_r2c. A one-sided transform returns only the first half of the points along the last axis."""
    *others, last = _places(x, axes)
    how: Any = SCALINGS[scaling]
    if not onesided:
        return _whole(call, x, [*others, last], how, False)
    return _whole(call, call.g.real_to_hermitean_fft(x, last, scaling=how), others, how, False)


@aten("_fft_c2r")
def fft_c2r(call: Call, x: Tensor, axes: Sequence[int], scaling: int, size: int) -> Tensor:
    *others, last = _places(x, axes)
    how: Any = SCALINGS[scaling]
    half = _whole(call, x, others, how, True)
    if shape_of(x)[last] != size // 2 + 1:
        call.refuse(f"the last axis must have {size // 2 + 1} points for a result of {size}, got {shape_of(x)[last]}")
    odd = size % 2 == 1
    return call.g.hermitean_to_real_fft(half, last, inverse=True, scaling=how, round_to_odd_hermitean=odd)


@prims("fft_c2c")
def prims_c2c(call: Call, x: Tensor, *, dim: Sequence[int], forward: bool) -> Tensor:
    return fft_c2c(call, x, dim, 0, forward)


@prims("fft_r2c")
def prims_r2c(call: Call, x: Tensor, *, dim: Sequence[int], onesided: bool) -> Tensor:
    return fft_r2c(call, x, dim, 0, onesided)


@prims("fft_c2r")
def prims_c2r(call: Call, x: Tensor, *, dim: Sequence[int], last_dim_size: int) -> Tensor:
    return fft_c2r(call, x, dim, 0, last_dim_size)
