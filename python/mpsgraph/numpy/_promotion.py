"""Dtypes of the array namespace: promotion, categories, limits, and the namespace's self-description."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .. import _core
from .._core import Device, DType, NDArray, Tensor
from .._display import shown
from .._dtypes import DTypeLike, as_dtype, fits
from ..errors import DeviceError, DTypeError, GraphError

Scalar: TypeAlias = builtins.bool | int | float | complex
SCALARS = (builtins.bool, int, float, complex)

SIGNED = (_core.int8, _core.int16, _core.int32, _core.int64)
UNSIGNED = (_core.uint8, _core.uint16, _core.uint32, _core.uint64)
REAL = (_core.float32, _core.float64)
HALF = (_core.float16, _core.bfloat16)
COMPLEX = (_core.complex64, _core.complex128)
DEFAULT_FLOAT, DEFAULT_INTEGER, DEFAULT_COMPLEX = _core.float32, _core.int32, _core.complex64
INDEX = _core.int32
"""Dtype of indices and counts that functions return."""

# Categories in ascending order. A value of a lower category takes the dtype of an operand of a higher one.
_BOOL, _INTEGER, _FLOAT, _COMPLEX = range(4)


def _category(dtype: DType) -> int:
    if dtype.is_complex:
        return _COMPLEX
    return _FLOAT if dtype.is_float else _INTEGER if dtype.is_integer else _BOOL


def _category_of_number(number: Scalar) -> int:
    return (_BOOL, _INTEGER, _FLOAT, _COMPLEX)[SCALARS.index(type(number))]


def promoted(first: DType, second: DType) -> DType:
    """Return the dtype of an operation on arrays of two dtypes.

    The standard defines pairs of one category. Integers take the dtype of floating-point and complex operands, and
    float64 with complex64 becomes complex128. int64 and uint64 have no common dtype.
    """
    if first == second:
        return first
    low, high = sorted((first, second), key=lambda d: (_category(d), d.itemsize))
    if _category(low) == _category(high):
        if high.is_integer and low.is_signed != high.is_signed:
            if high.is_signed and high.itemsize > low.itemsize:
                return high
            unsigned = first if second.is_signed else second
            if unsigned.itemsize == 8:
                raise DTypeError(f"{first} and {second} have no common dtype: convert one of them with astype")
            return SIGNED[UNSIGNED.index(unsigned) + 1]
        if low.itemsize == high.itemsize:  # float16 and bfloat16
            return _core.float32
        return high
    if high.is_complex and low == _core.float64:
        return _core.complex128
    return high


def with_number(dtype: DType, number: Scalar) -> DType:
    """Return the dtype of an operation on an array and a Python number: the array's, unless its category is lower."""
    category = _category_of_number(number)
    if category <= _category(dtype):
        return dtype
    if category == _COMPLEX:
        return _core.complex128 if dtype == _core.float64 else DEFAULT_COMPLEX
    return DEFAULT_FLOAT if category == _FLOAT else DEFAULT_INTEGER


def dtype_of_number(number: Scalar) -> DType:
    """Return the default dtype of a Python number: bool, int32 (int64 or uint64 if too large), float32, complex64."""
    category = _category_of_number(number)
    if category == _INTEGER:
        wide = (DEFAULT_INTEGER, _core.int64, _core.uint64)
        for dtype in wide:
            if fits(number, dtype):
                return dtype
        raise DTypeError(f"the number {shown(number)} does not fit in 64 bits")
    return (_core.bool_, DEFAULT_INTEGER, DEFAULT_FLOAT, DEFAULT_COMPLEX)[category]


def common(*operands: Any) -> DType:
    """Return the dtype of an operation on arrays, dtypes, and Python numbers."""
    dtypes = [x if isinstance(x, DType) else x.dtype for x in operands if type(x) not in SCALARS]
    numbers = [x for x in operands if type(x) in SCALARS]
    if not dtypes:
        dtypes = [dtype_of_number(x) for x in numbers]
        numbers = []
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = promoted(found, dtype)
    for number in numbers:
        found = with_number(found, number)
    return found


def floating(dtype: DType) -> DType:
    """Return a floating-point or complex dtype as it is, and the default floating-point dtype for any other dtype."""
    return dtype if dtype.is_float or dtype.is_complex else DEFAULT_FLOAT


def real_of(dtype: DType) -> DType:
    """Return the dtype of the parts of a complex dtype; any other dtype is returned as it is."""
    return {"complex64": _core.float32, "complex128": _core.float64}.get(dtype.name, dtype)


def complex_of(dtype: DType) -> DType:
    """Return the complex dtype whose parts have a floating-point dtype; a complex dtype is returned as it is."""
    return dtype if dtype.is_complex else _core.complex128 if dtype == _core.float64 else _core.complex64


def accumulated(dtype: DType) -> DType:
    """Return the dtype of a sum or product: the default integer dtype for narrower integers and bool."""
    if dtype == _core.bool_ or dtype.is_integer and dtype.is_signed and dtype.itemsize < DEFAULT_INTEGER.itemsize:
        return DEFAULT_INTEGER
    if dtype.is_integer and dtype.itemsize < DEFAULT_INTEGER.itemsize:
        return _core.uint32
    return dtype


# --- public functions ---------------------------------------------------------------------------------------------
def result_type(*arrays_and_dtypes: NDArray | Tensor | Scalar | DTypeLike) -> DType:
    """Return the dtype that an operation on arrays, dtypes, and Python numbers would have.

    Args:
        *arrays_and_dtypes: Arrays, tensors, dtypes, and Python numbers.

    Returns:
        A DType.

    Raises:
        DTypeError: If the dtypes have no common dtype, as int64 and uint64.
        GraphError: If there are no arguments.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.result_type(mnp.int8, mnp.uint8), mnp.result_type(mnp.ones(2), 1), mnp.result_type(mnp.int32, 1.5)
        (int16, float32, float32)
    """
    if not arrays_and_dtypes:
        raise GraphError("result_type requires at least one array, dtype, or number")
    return common(*(_operand(x) for x in arrays_and_dtypes))


def _operand(value: Any) -> Any:
    if type(value) in SCALARS or isinstance(value, (DType, NDArray, Tensor)):
        return value
    return as_dtype(value.dtype if isinstance(value, (np.ndarray, np.generic)) else value)


def can_cast(from_: NDArray | Tensor | DTypeLike, to: DTypeLike, /) -> bool:
    """Return whether type promotion can convert a dtype to another one.

    Args:
        from_: A dtype, array, or tensor.
        to: The dtype to convert to.

    Returns:
        True if the promotion of both dtypes is `to`.

    Raises:
        DTypeError: If a dtype is unknown.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.can_cast(mnp.int8, mnp.int32), mnp.can_cast(mnp.float64, mnp.float32)
        (True, False)
    """
    source = _operand(from_)
    source, target = source if isinstance(source, DType) else source.dtype, as_dtype(to)
    if source == target:
        return True
    try:
        return promoted(source, target) == target
    except DTypeError:
        return False


_KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (_core.bool_,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED),
    "real floating": (*REAL, *HALF),
    "complex floating": COMPLEX,
    "numeric": (*SIGNED, *UNSIGNED, *REAL, *HALF, *COMPLEX),
}


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Return whether a dtype is of a kind.

    Args:
        dtype: The dtype.
        kind: A dtype; "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", or
            "numeric"; or a tuple of these, of which one must match.

    Returns:
        A bool.

    Raises:
        DTypeError: If the kind is unknown.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.isdtype(mnp.int8, "integral"), mnp.isdtype(mnp.float32, ("bool", mnp.float64))
        (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return as_dtype(dtype) in _KINDS[kind]
    if isinstance(kind, str) and " " in kind:
        raise DTypeError(f"kind must be a dtype or one of {', '.join(_KINDS)}, got {shown(kind)}")
    return as_dtype(dtype) == as_dtype(kind)


@dataclass(frozen=True)
class FloatLimits:
    """Limits of a floating-point dtype, as `finfo` returns them.

    Args:
        bits: Number of bits.
        eps: Distance from 1 to the next larger number.
        max: Largest number.
        min: Smallest number, which is negative.
        smallest_normal: Smallest positive number that is not subnormal.
        dtype: The dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.finfo(mnp.float32).bits
        32
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerLimits:
    """Limits of an integer dtype, as `iinfo` returns them.

    Args:
        bits: Number of bits.
        max: Largest number.
        min: Smallest number.
        dtype: The dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.iinfo(mnp.int8).max
        127
    """

    bits: int
    max: int
    min: int
    dtype: DType


_DIGITS = {"float16": (10, 15), "bfloat16": (7, 127), "float32": (23, 127), "float64": (52, 1023)}


def finfo(type: NDArray | Tensor | DTypeLike, /) -> FloatLimits:
    """Return the limits of a floating-point dtype, or of the parts of a complex dtype.

    Args:
        type: A dtype, array, or tensor.

    Returns:
        FloatLimits, with the attributes bits, eps, max, min, smallest_normal, and dtype.

    Raises:
        DTypeError: If the dtype is not floating-point or complex.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.finfo(mnp.float32).eps, mnp.finfo(mnp.bfloat16).eps
        (1.1920928955078125e-07, 0.0078125)
    """
    source = _operand(type)
    dtype = real_of(source if isinstance(source, DType) else source.dtype)
    if not dtype.is_float:
        raise DTypeError(f"finfo requires a floating-point or complex dtype, got {dtype}: use iinfo for integers")
    digits, exponent = _DIGITS[dtype.name]
    largest = (2.0 - 2.0**-digits) * 2.0**exponent
    return FloatLimits(8 * dtype.itemsize, 2.0**-digits, largest, -largest, 2.0 ** (1 - exponent), dtype)


def iinfo(type: NDArray | Tensor | DTypeLike, /) -> IntegerLimits:
    """Return the limits of an integer dtype.

    Args:
        type: A dtype, array, or tensor.

    Returns:
        IntegerLimits, with the attributes bits, max, min, and dtype.

    Raises:
        DTypeError: If the dtype is not an integer dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.iinfo(mnp.uint8).max
        255
    """
    source = _operand(type)
    dtype = source if isinstance(source, DType) else source.dtype
    if not dtype.is_integer:
        raise DTypeError(f"iinfo requires an integer dtype, got {dtype}: use finfo for floating-point dtypes")
    bits = 8 * dtype.itemsize
    low = -(2 ** (bits - 1)) if dtype.is_signed else 0
    return IntegerLimits(bits, low + 2**bits - 1, low, dtype)


def check_device(device: Any) -> None:
    """Raise DeviceError unless a device argument is None or the default device, on which eager operations run."""
    if device is None:
        return
    default = Device.default()
    if (device.name if isinstance(device, Device) else device) != default.name:
        raise DeviceError(
            f"device must be None or the default device {default.name!r}, on which eager operations run, got "
            f"{shown(device)}: run a graph with g.run(..., device=...) to use another device"
        )


class NamespaceInfo:
    """Description of the namespace, as `__array_namespace_info__` returns it.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.__array_namespace_info__().default_dtypes()["real floating"]
        float32
    """

    def capabilities(self) -> dict[str, Any]:
        """Return a dict of optional features and limits."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 16}

    def default_device(self) -> Device:
        """Return the device on which eager operations run."""
        return Device.default()

    def devices(self) -> tuple[Device, ...]:
        """Return the devices of arrays. Arrays are in memory that all devices share, so there is only one."""
        return (Device.default(),)

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the default dtype of each kind.

        Args:
            device: None, the default, or the default device.
        """
        check_device(device)
        return {
            "real floating": DEFAULT_FLOAT,
            "complex floating": DEFAULT_COMPLEX,
            "integral": DEFAULT_INTEGER,
            "indexing": INDEX,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """Return the dtypes of the standard by name, or those of one or several kinds.

        Args:
            device: None, the default, or the default device.
            kind: A kind as for `isdtype`, or None (the default) for all dtypes.
        """
        check_device(device)
        names = ("bool", *(d.name for d in (*SIGNED, *UNSIGNED, *REAL, *COMPLEX)))
        dtypes = {name: as_dtype(name) for name in names}
        return {name: d for name, d in dtypes.items() if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """Return a description of the namespace: its dtypes, defaults, devices, and capabilities.

    Returns:
        A NamespaceInfo.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.__array_namespace_info__().capabilities()["boolean indexing"]
        True
    """
    return NamespaceInfo()
