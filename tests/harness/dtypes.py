"""Dtypes in tests: converting arrays to a dtype and back to float64, and the tolerance of each dtype.

bfloat16 arrays use the ml_dtypes type if that is installed, and otherwise hold the bits as uint16, as in the package.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np

# Relative to 1 + |expected|. Allows a few rounding errors of each dtype.
TOLERANCE = {
    "float64": 1e-12, "float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2, "complex64": 4e-6, "complex128": 1e-12
}  # fmt: skip
BFLOAT16 = mg.bfloat16.numpy


def from_bits(bits: np.ndarray) -> np.ndarray:
    """Convert bfloat16 bits to float32."""
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def to_bits(array: np.ndarray) -> np.ndarray:
    """Convert numbers to bfloat16 bits, rounding to nearest even."""
    single = np.asarray(array, np.float32)
    bits = np.atleast_1d(single).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(np.atleast_1d(single)), np.uint16(0x7FC0), rounded).reshape(single.shape)


def array(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Convert numbers to a dtype.

    Floats are rounded, integers truncated, and unsigned integers get absolute values. Real numbers become complex by
    using half of the reversed array as imaginary parts.
    """
    if dtype.startswith("complex") and numbers.dtype.kind != "c":
        with np.errstate(invalid="ignore"):
            numbers = numbers + 0.5j * numbers.ravel()[::-1].reshape(numbers.shape)
    if dtype == "bfloat16":
        return to_bits(numbers).view(BFLOAT16)
    if dtype.startswith("uint"):
        numbers = np.abs(numbers)
    if "int" in dtype:
        numbers = np.trunc(numbers)
    return np.asarray(numbers).astype(dtype)


def plain(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Convert floats to float64 and complex numbers to complex128, and leave all others unchanged."""
    if dtype == "bfloat16":
        return from_bits(np.ascontiguousarray(numbers)).astype(np.float64).reshape(np.shape(numbers))
    widest = {"f": np.float64, "c": np.complex128}.get(numbers.dtype.kind)
    return numbers if widest is None else numbers.astype(widest)


def read(result: mg.NDArray) -> np.ndarray:
    """Return a result as a numpy array of plain numbers, for any dtype."""
    return plain(result.numpy(), str(result.dtype))


def assert_matches(
    result: mg.NDArray, expected: np.ndarray, *, factor: float = 1.0, exact: bool = False, what: str = ""
):
    """Assert equal shape and values: exact for integers and bools, within the dtype's tolerance for all others."""
    assert result.shape == expected.shape, f"{what}: got shape {result.shape}, expected {expected.shape}"
    got = read(result)
    if not (result.dtype.is_float or result.dtype.is_complex):
        np.testing.assert_array_equal(got, expected, err_msg=what)
        return
    with np.errstate(all="ignore"):
        expected = plain(array(expected, str(result.dtype)), str(result.dtype))  # Rounded to the dtype of the result.
    if exact:
        np.testing.assert_array_equal(got, expected, err_msg=what)
        return
    tolerance = TOLERANCE[str(result.dtype)] * factor
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=what)
