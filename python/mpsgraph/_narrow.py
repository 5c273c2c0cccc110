"""Exact conversion of stored numbers of 8 bits or fewer, whose types numpy and mpsgraph lack, to wider types.

All floating-point types here except float8_e8m0 convert exactly to every floating-point dtype of mpsgraph. They are
converted to float16, the smallest of these.
"""

from __future__ import annotations

from functools import cache

import numpy as np

FLOATS = {
    "float8_e4m3fn": (4, 3, 7),
    "float8_e4m3fnuz": (4, 3, 8),
    "float8_e5m2": (5, 2, 15),
    "float8_e5m2fnuz": (5, 2, 16),
    "float4_e2m1fn": (2, 1, 1),
}
"""Number of exponent bits, number of mantissa bits, and exponent bias of each floating-point type."""


def widened(codes: np.ndarray, kind: str) -> np.ndarray:
    """Return the numbers of a type that is listed in FLOATS, or of float8_e8m0fnu, given an array of their bits.

    The result is float16, or float32 for float8_e8m0fnu.
    """
    return np.asarray(_table(kind)[codes])


@cache
def _table(kind: str) -> np.ndarray:
    """Return the numbers of a type, in the order of their bit patterns."""
    if kind == "float8_e8m0fnu":
        return np.append(np.ldexp(np.float32(1), np.arange(255) - 127), np.float32(np.nan))
    exponents, mantissas, bias = FLOATS[kind]
    codes = np.arange(1 << (1 + exponents + mantissas))
    exponent, mantissa = codes >> mantissas & (1 << exponents) - 1, codes & (1 << mantissas) - 1
    normal = exponent > 0
    magnitude = np.ldexp(mantissa + normal * float(1 << mantissas), np.maximum(exponent, 1) - bias - mantissas)
    sign_bit = 1 << exponents + mantissas
    numbers = np.where(codes & sign_bit, -magnitude, magnitude)
    rest = codes & ~sign_bit
    if kind.endswith("fnuz"):  # The bits of a negative zero are NaN.
        numbers[sign_bit] = np.nan
    elif kind == "float8_e4m3fn":
        numbers[rest == sign_bit - 1] = np.nan
    elif kind == "float8_e5m2":
        numbers[rest == 0b11111_00] = np.inf
        numbers[codes == 0b1_11111_00] = -np.inf
        numbers[rest > 0b11111_00] = np.nan
    return np.asarray(numbers, np.float16)


def unpacked(data: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Return `count` unsigned integers of 2 or 4 bits, which are packed into bytes from the lowest bit up."""
    each = data[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & np.uint8((1 << bits) - 1)
    return np.asarray(each.reshape(-1)[:count])


def signed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Reinterpret unsigned integers of `bits` bits as signed integers, and return them as int8."""
    return np.asarray((codes << np.uint8(8 - bits)).view(np.int8) >> np.int8(8 - bits))
