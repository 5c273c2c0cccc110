"""Treatment of subnormal numbers by programs on the CPU (decision 0017)."""

import platform

import numpy as np

from harness import device

FLUSHED = platform.machine() in ("x86_64", "AMD64") and not device.IS_METAL


def flushed(values: np.ndarray) -> np.ndarray:
    """Return the values with subnormal numbers replaced by zeros of the same sign, where the device flushes them.

    float16 values are unchanged because they are computed in float32, where they are normal.
    """
    if not FLUSHED or values.dtype.kind != "f" or values.dtype == np.float16:
        return values
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, np.copysign(np.zeros_like(values), values), values)
