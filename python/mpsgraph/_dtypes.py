"""Python values as constant data, and what numpy's element types are called here.

bfloat16 has no type in numpy itself: its arrays are ml_dtypes' where that is installed, else uint16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ._core import ConstantData, DType, bfloat16, bool_, complex64, float32, int32
from .errors import DTypeError, ShapeError

DTypeLike: TypeAlias = DType | str | type | np.dtype[Any]


def as_dtype(dtype: DTypeLike) -> DType:
    """A DType from a DType, a name, or what numpy takes for a dtype. DTypeError for anything else."""
    return dtype if isinstance(dtype, DType) else DType(dtype)


def dtype_of(array: Any) -> DType:
    """The element type of an array of numpy's or ours."""
    return as_dtype(array.dtype)


def constant_data(value: Any, shape: Sequence[int] | None, dtype: DTypeLike | None) -> ConstantData:
    """The data of a constant or of a variable's first value.

    An array keeps its own dtype unless another is asked for; Python's numbers and lists become float32, int32, bool or
    complex64.
    With a shape, `value` is the one number that fills it.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if shape is not None:
        return ConstantData.splat(value, list(shape), wanted or dtype_of_number(value))
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value) if wanted is None else _converted(np.asarray(value), wanted)
    return ConstantData(value, wanted)


def dtype_of_number(value: Any) -> DType:
    """What a number is when nothing else says it: float32, int32, bool or complex64; a numpy scalar keeps its type."""
    if isinstance(value, (np.ndarray, np.generic)):
        return dtype_of(value)
    if isinstance(value, bool):
        return bool_
    if isinstance(value, (int, float)):
        return int32 if isinstance(value, int) else float32
    if isinstance(value, complex):
        return complex64
    raise ShapeError(f"a shape is filled with one number, not with {value!r}")


def _converted(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The array in a dtype that was asked for; what would lose the kind of its numbers is refused."""
    if not (dtype.is_float and array.dtype.kind in "fiu") and not np.can_cast(array.dtype, dtype.numpy, "same_kind"):
        raise DTypeError(f"{array.dtype} values do not become {dtype} silently: convert them with astype first")
    if dtype == bfloat16 and dtype.numpy == np.uint16:
        return array if array.dtype == np.uint16 else _bfloat16_bits(array.astype(np.float32))
    return array.astype(dtype.numpy, copy=False)


def _bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """The upper halves of float32, rounded to the nearest even; a NaN stays one."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype(np.uint16)
