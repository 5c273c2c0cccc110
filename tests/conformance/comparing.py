"""Compare two arrays of a conformance suite by shape, dtype, and values within the suite's tolerance."""

from __future__ import annotations

import numpy as np


def difference(got: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> str | None:
    """Describe the difference between two arrays; return None if there is none.

    NaN equals NaN, and the tolerance applies only to floating-point values.
    """
    if got.shape != expected.shape:
        return f"shape {got.shape}, expected {expected.shape}"
    if got.dtype != expected.dtype:
        return f"dtype {got.dtype}, expected {expected.dtype}"
    if expected.dtype.kind in "iub":
        wrong = got != expected
        return None if not wrong.any() else f"{wrong.sum()} of {wrong.size} values"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), expected.astype(wide)
    if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        return None
    far = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    return f"{far.sum()} of {far.size} values, e.g. {a[far][0]:.8g}, expected {b[far][0]:.8g}"
