"""Conversion of Python values to constants, and of numpy dtypes to DTypes.

numpy has no bfloat16. Arrays of bfloat16 numbers have the bfloat16 dtype of ml_dtypes if that package is installed, and
otherwise dtype uint16 with the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ._core import ConstantData, DType, NDArray, bfloat16, bool_, complex64, float32, int32
from ._display import shown
from .errors import DTypeError, ShapeError

DTypeLike: TypeAlias = DType | str | type | np.dtype[Any]


def as_dtype(dtype: DTypeLike) -> DType:
    """Return a DType for a DType, a name, or a numpy dtype. Raise DTypeError for anything else."""
    return dtype if isinstance(dtype, DType) else DType(dtype)


def dtype_of(array: Any) -> DType:
    """Return the DType of a numpy array or an NDArray."""
    return as_dtype(array.dtype)


def constant_data(value: Any, shape: Sequence[int] | None, dtype: DTypeLike | None) -> ConstantData:
    """Return the data of a constant, or of the initial value of a variable.

    An array keeps its dtype unless `dtype` is given; Python numbers and lists become float32, int32, bool, or
    complex64. If `shape` is given, the result has that shape and is filled with the number `value`. ConstantData is
    returned unchanged.
    """
    if isinstance(value, ConstantData):
        return value
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, (int, float, complex)) and not isinstance(value, bool):
        filled = wanted or dtype_of_number(value)
        number = value.item() if isinstance(value, np.generic) else value
        if filled.is_integer and isinstance(number, float) and number.is_integer() and fits(int(number), filled):
            value = number = int(number)  # A whole number, as in Apple's constant(4.0, dataType: .int32).
        if (filled.is_float or filled.is_complex) and not fits(number, filled):
            raise DTypeError(
                f"the number {shown(number)} cannot be represented in {filled}: pass dtype=mg.{dtype_for(number)}"
            )
    if shape is not None:
        return ConstantData.splat(value, list(shape), wanted or dtype_of_number(value))
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value) if wanted is None else _converted(np.asarray(value), wanted)
    return ConstantData(value, wanted)


def constant_of_array(kind: str, value: Any, dtype: DType | None) -> Any:
    """Return a list or an array as the value of a constant with the dtype of another operand.

    As for numbers, floating-point dtypes accept floating-point and integer arrays, and integer dtypes accept integer
    arrays in their range. Without a dtype, an array keeps its own.
    """
    if isinstance(value, (list, tuple)):
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise ShapeError(f"[{kind}] a list must have a rectangular shape, got {shown(value)}: {error}") from None
        if dtype is None and value.dtype.kind in "fic":
            dtype = {"f": float32, "i": int32, "c": complex64}[value.dtype.kind]
    if dtype is None or value.dtype == dtype:
        return ConstantData(value)
    array = value.numpy() if isinstance(value, NDArray) else value
    if array.dtype.kind not in "biufc" or (array.dtype.kind == "b") != (dtype == bool_):
        raise DTypeError(
            f"[{kind}] an array of {array.dtype} is not converted to {dtype}, the dtype of the tensor operand: convert "
            "it with astype first"
        )
    with np.errstate(over="ignore"):
        converted = _converted(array, dtype)
        if dtype.is_float and dtype != bfloat16 and np.any(np.isinf(converted) & np.isfinite(array)):
            raise DTypeError(
                f"[{kind}] the array has numbers that cannot be represented in {dtype}, the dtype of the tensor "
                "operand: cast the tensor first"
            )
    return ConstantData(np.ascontiguousarray(converted), dtype)


def dtype_of_number(value: Any) -> DType:
    """Return the default dtype of a number: float32, int32, bool, or complex64; a numpy scalar keeps its dtype."""
    if isinstance(value, (np.ndarray, np.generic)):
        return dtype_of(value)
    if isinstance(value, bool):
        return bool_
    if isinstance(value, (int, float)):
        return int32 if isinstance(value, int) else float32
    if isinstance(value, complex):
        return complex64
    raise ShapeError(f"value must be a single number if a shape is given, got {shown(value)}")


def fits(number: bool | int | float | complex, dtype: DType) -> bool:
    """Return whether a Python number can be a scalar of this dtype.

    A bool fits bool; an int fits integer dtypes whose range includes it; a real number fits floating-point and complex
    dtypes in which it does not become infinite; a complex number fits complex dtypes.
    """
    if isinstance(number, bool):
        return dtype == bool_
    if isinstance(number, int) and dtype.is_integer:
        count: int = 2 ** (8 * dtype.itemsize)
        lowest = -(count // 2) if dtype.is_signed else 0
        return lowest <= number < lowest + count
    if isinstance(number, complex):
        return dtype.is_complex and fits(number.real, dtype) and fits(number.imag, dtype)
    if not (dtype.is_float or dtype.is_complex):
        return False
    infinite = isinstance(number, float) and not math.isfinite(number)
    return infinite or abs(number) < _FIRST_INFINITE[dtype.name]


def dtype_for(number: bool | int | float | complex) -> str:
    """Return the name of the narrowest common dtype that can represent the number, for advice in messages."""
    if isinstance(number, bool):
        return "bool_"
    candidates = {int: ["int32", "int64", "float64"], float: ["float32", "float64"]}
    names = candidates.get(type(number), ["complex64", "complex128"])
    return next((name for name in names if fits(number, as_dtype(name))), names[-1])


def _first_infinite(digits: int, exponent: int) -> int:
    """Return the smallest number that rounds to infinity in a floating-point format. It is half a unit in the last
    place above the largest finite number, which has `digits` binary digits.
    """
    return ((1 << digits + 1) - 1) << exponent - digits - 1


_FIRST_INFINITE = {
    "float16": _first_infinite(11, 16),
    "bfloat16": _first_infinite(8, 128),
    "float32": _first_infinite(24, 128),
    "float64": _first_infinite(53, 1024),
    "complex64": _first_infinite(24, 128),
    "complex128": _first_infinite(53, 1024),
}


def _converted(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the array converted to a requested dtype. Raise DTypeError for a conversion to another kind of number,
    such as from float to int.
    """
    if array.dtype == dtype.numpy:
        return array
    if not (dtype.is_float and array.dtype.kind in "fiu") and not np.can_cast(array.dtype, dtype.numpy, "same_kind"):
        raise DTypeError(
            f"value has dtype {array.dtype}, which is not converted to {dtype} implicitly: convert it with astype first"
        )
    if dtype.is_integer and array.size and not (fits(int(array.min()), dtype) and fits(int(array.max()), dtype)):
        raise DTypeError(
            f"values from {array.min()} to {array.max()} are out of range for {dtype}: convert them with astype first"
        )
    if dtype == bfloat16 and dtype.numpy == np.uint16:
        return array if array.dtype == np.uint16 else _bfloat16_bits(array.astype(np.float32))
    return array.astype(dtype.numpy, copy=False)


def _bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Return the upper 16 bits of float32 values, rounded to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype(np.uint16)
