"""What a program on the CPU makes of numbers that are too small for a full mantissa (decision 0017)."""

import platform

import numpy as np

from harness import device

FLUSHED = platform.machine() in ("x86_64", "AMD64") and not device.IS_METAL


def flushed(values: np.ndarray) -> np.ndarray:
    """Zeros of the same sign for subnormal numbers, where they are flushed; the values as they are elsewhere.

    Those of float16 are computed in float32, where they are not too small.
    """
    if not FLUSHED or values.dtype.kind != "f" or values.dtype == np.float16:
        return values
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, np.copysign(np.zeros_like(values), values), values)
