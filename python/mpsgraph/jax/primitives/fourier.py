"""Translation of Fourier transforms."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ...numpy import fft as f
from ._table import Equation, primitive, shape


@primitive("fft")
def fft(equation: Equation, x: Tensor, *, fft_type: Any, fft_lengths: Any) -> Tensor:
    g = equation.g
    axes = list(range(len(shape(x)) - len(fft_lengths), len(shape(x))))
    kind = getattr(fft_type, "name", str(fft_type)).upper().removeprefix("FFTTYPE.")
    if 0 in shape(x):
        return equation.constant(0, equation.dtype, equation.shape)
    if not axes:
        return x
    if kind == "RFFT":
        return f.real_transform(g, x, axes, "none")
    if kind == "IRFFT":
        return f.real_inverse(g, x, axes, "size", int(fft_lengths[-1]))
    return f.transform(g, x, axes, "size" if kind == "IFFT" else "none", kind == "IFFT")
