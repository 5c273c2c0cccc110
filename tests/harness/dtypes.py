"""Element types in tests: arrays of them, back to float64, and how exact each must be.

bfloat16 is ml_dtypes' when that is installed; without it an array of it is its bits as uint16, as in the package.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np

# Relative to 1 + |expected|: a few roundings of each type.
TOLERANCE = {
    "float64": 1e-12, "float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2, "complex64": 4e-6, "complex128": 1e-12
}  # fmt: skip
BFLOAT16 = mg.bfloat16.numpy


def from_bits(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bits as float32."""
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def to_bits(array: np.ndarray) -> np.ndarray:
    """Numbers as bfloat16 bits, rounded to nearest even."""
    single = np.asarray(array, np.float32)
    bits = np.atleast_1d(single).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(np.atleast_1d(single)), np.uint16(0x7FC0), rounded).reshape(single.shape)


def array(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers in an element type: rounded for floats, truncated for integers, absolute for unsigned ones.

    Real numbers become complex ones with half of the numbers in reverse as imaginary parts.
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
    """What numpy computes with: floats as float64, complex numbers as complex128, everything else as it is."""
    if dtype == "bfloat16":
        return from_bits(np.ascontiguousarray(numbers)).astype(np.float64).reshape(np.shape(numbers))
    widest = {"f": np.float64, "c": np.complex128}.get(numbers.dtype.kind)
    return numbers if widest is None else numbers.astype(widest)


def read(result: mg.NDArray) -> np.ndarray:
    """A result as plain numbers, whatever its element type."""
    return plain(result.numpy(), str(result.dtype))


def assert_matches(
    result: mg.NDArray, expected: np.ndarray, *, factor: float = 1.0, exact: bool = False, what: str = ""
):
    """The same shape, the same numbers: exactly for integers and bools, to the type's tolerance for all others."""
    assert result.shape == expected.shape, f"{what}: shape {result.shape}, expected {expected.shape}"
    got = read(result)
    if not (result.dtype.is_float or result.dtype.is_complex):
        np.testing.assert_array_equal(got, expected, err_msg=what)
        return
    with np.errstate(all="ignore"):
        expected = plain(array(expected, str(result.dtype)), str(result.dtype))  # what the type can hold
    if exact:
        np.testing.assert_array_equal(got, expected, err_msg=what)
        return
    tolerance = TOLERANCE[str(result.dtype)] * factor
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=what)
