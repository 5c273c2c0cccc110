"""Translation of Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from ..._core import Tensor
from ._table import Equation, primitive, shape


@primitive("fft")
def fft(equation: Equation, x: Tensor, *, fft_type: Any, fft_lengths: Any) -> Tensor:
    g = equation.g
    axes = list(range(len(shape(x)) - len(fft_lengths), len(shape(x))))
    kind = getattr(fft_type, "name", str(fft_type)).upper().removeprefix("FFTTYPE.")
    if math.prod(equation.shape) == 0 or math.prod(shape(x)) == 0:
        return equation.constant(0, equation.dtype, equation.shape)
    if not axes:
        return x
    if kind == "RFFT":
        return g.real_to_hermitean_fft(x, axes)
    if kind == "IRFFT":
        odd = bool(int(fft_lengths[-1]) % 2)
        return g.hermitean_to_real_fft(x, axes, inverse=True, scaling="size", round_to_odd_hermitean=odd)
    inverse = kind == "IFFT"
    return g.fast_fourier_transform(x, axes, inverse=inverse, scaling="size" if inverse else "none")
