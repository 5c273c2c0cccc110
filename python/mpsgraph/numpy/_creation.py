"""Creation of arrays. The arrays are filled by the CPU, without a program; the other functions convert and copy."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import DType, NDArray, Tensor
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..errors import DTypeError, GraphError, ShapeError
from ._operation import cast_to, graph_of, like, operation, shape_of
from ._promotion import (
    DEFAULT_COMPLEX,
    DEFAULT_FLOAT,
    SCALARS,
    Scalar,
    check_device,
    common,
    dtype_of_number,
    floating,
)

Array = NDArray | Tensor
Shape = int | Sequence[int]


def _array(values: np.ndarray, dtype: DType) -> NDArray:
    """Return numpy values as an array of a dtype, sharing the memory if the dtype is the same."""
    if dtype == _core.bfloat16:
        return _core.asarray(values.astype(np.float32).tolist(), dtype)
    return _core.asarray(values.astype(dtype.numpy, copy=False), dtype)


def _wanted(dtype: DTypeLike | None, otherwise: DType) -> DType:
    return otherwise if dtype is None else as_dtype(dtype)


def asarray(
    obj: Any, /, *, dtype: DTypeLike | None = None, device: Any = None, copy: builtins.bool | None = None
) -> Any:
    """Convert an object to an array, sharing its memory if possible.

    Arrays of other libraries keep their dtype. Python numbers and lists become bool, int32, float32, or complex64;
    integers that need 64 bits become int64 or uint64.

    Args:
        obj: An array of any library that numpy or DLPack can read, a number, or nested lists. A tensor of a graph is
            returned as it is, or converted to the dtype.
        dtype: dtype of the result. None, the default, keeps the dtype of the array.
        device: None, the default, or the default device.
        copy: True always copies, and False raises an error if a copy is needed. None, the default, copies only if the
            memory cannot be shared.

    Returns:
        An NDArray, or a tensor for a tensor.

    Raises:
        ShapeError: If the lists do not have a rectangular shape, or copy is False and a copy is needed.
        DTypeError: If the values cannot be represented in the dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.asarray([1, 2]), mnp.asarray([1, 2], dtype=mnp.float64)
        (NDArray([1, 2], int32(2)), NDArray([1., 2.], float64(2)))
    """
    check_device(device)
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, Tensor):
        return obj if wanted is None else cast_to(obj, wanted)
    if isinstance(obj, NDArray):
        return _of_array(obj, wanted, copy)
    if isinstance(obj, (np.ndarray, np.generic)):
        return _of_array(_core.asarray(np.asarray(obj), copy=False if copy is False else None), wanted, copy)
    if type(obj) not in SCALARS and not isinstance(obj, (list, tuple)):
        if hasattr(obj, "__dlpack__") or hasattr(obj, "__array__") or isinstance(obj, (memoryview, bytearray)):
            given = np.asarray(obj) if isinstance(obj, (memoryview, bytearray)) else obj
            return _of_array(_core.asarray(given), wanted, copy)
        raise DTypeError(f"asarray requires an array, a number, or nested lists of numbers, got {shown(obj)}")
    if copy is False:
        raise ShapeError("asarray cannot share the memory of Python numbers: pass copy=None")
    return _of_numbers(obj, wanted)


def _of_array(x: NDArray, wanted: DType | None, copy: builtins.bool | None) -> Any:
    if wanted is None or x.dtype == wanted:
        return x.copy() if copy else x
    if copy is False:
        raise ShapeError(f"converting {x.dtype} to {wanted} requires a copy, and copy is False: pass copy=None")
    return astype(x, wanted)


def _of_numbers(obj: Any, wanted: DType | None) -> NDArray:
    try:
        if wanted is not None and wanted != _core.bfloat16:
            return _core.asarray(np.asarray(obj, wanted.numpy))
        plain = np.asarray(obj)
    except (OverflowError, TypeError) as error:
        raise DTypeError(f"{shown(obj)} cannot be represented in {wanted or 'an array'}: {error}") from None
    except ValueError as error:
        raise ShapeError(f"asarray requires nested lists of equal lengths, got {shown(obj)}: {error}") from None
    if plain.dtype.kind not in "biufc":
        raise DTypeError(f"asarray requires numbers of at most 64 bits, got {shown(obj)}")
    if wanted is None:
        wanted = {"f": DEFAULT_FLOAT, "c": DEFAULT_COMPLEX}.get(plain.dtype.kind)
        if plain.dtype.kind in "iu":
            bounds = (int(plain.min()), int(plain.max())) if plain.size else (0, 0)
            wanted = max((dtype_of_number(n) for n in bounds), key=lambda d: (d.itemsize, not d.is_signed))
    return _core.asarray(plain) if wanted is None else _array(plain, wanted)


def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> NDArray:
    """Create an array from an array of another library through DLPack.

    Args:
        x: An object with a method __dlpack__.
        device: None, the default, or the default device.
        copy: True copies the memory. None, the default, and False share it.

    Returns:
        An NDArray.

    Raises:
        DTypeError: If the object does not support DLPack, or its dtype is not supported.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.from_dlpack(np.float32([1, 2])).tolist()
        [1.0, 2.0]
    """
    check_device(device)
    shared = _core.from_dlpack(x)
    return shared.copy() if copy else shared


def _sizes(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if any(isinstance(s, builtins.bool) or not isinstance(s, (int, np.integer)) or s < 0 for s in sizes):
        raise ShapeError(f"shape must be an int or a tuple of ints that are not negative, got {shown(shape)}")
    return tuple(int(s) for s in sizes)


def full(shape: Shape, fill_value: Scalar, *, dtype: DTypeLike | None = None, device: Any = None) -> NDArray:
    """Create an array whose elements all have one value.

    Args:
        shape: Sizes of the axes.
        fill_value: The value.
        dtype: dtype of the result. None, the default, means the default dtype of the value.
        device: None, the default, or the default device.

    Returns:
        An NDArray.

    Raises:
        ShapeError: If shape is invalid.
        DTypeError: If the value cannot be represented in the dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.full((2, 2), 7.0).tolist()
        [[7.0, 7.0], [7.0, 7.0]]
    """
    check_device(device)
    value = fill_value if type(fill_value) in SCALARS else asarray(fill_value)
    one = asarray(value, dtype=_wanted(dtype, common(value)))
    return _core.asarray(np.broadcast_to(one.numpy(), _sizes(shape)).copy(), one.dtype)


def zeros(shape: Shape, *, dtype: DTypeLike | None = None, device: Any = None) -> NDArray:
    """Create an array of zeros.

    Args:
        shape: Sizes of the axes.
        dtype: dtype of the result. None, the default, means float32.
        device: None, the default, or the default device.

    Returns:
        An NDArray.

    Raises:
        ShapeError: If shape is invalid.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.zeros((2, 2), dtype=mnp.int32).tolist()
        [[0, 0], [0, 0]]
    """
    check_device(device)
    return NDArray(_sizes(shape), _wanted(dtype, DEFAULT_FLOAT))


def empty(shape: Shape, *, dtype: DTypeLike | None = None, device: Any = None) -> NDArray:
    """Create an array without specified values; they are zeros.

    Args:
        shape: Sizes of the axes.
        dtype: dtype of the result. None, the default, means float32.
        device: None, the default, or the default device.

    Returns:
        An NDArray.

    Raises:
        ShapeError: If shape is invalid.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.empty((2, 3)).shape
        (2, 3)
    """
    return zeros(shape, dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: DTypeLike | None = None, device: Any = None) -> NDArray:
    """Create an array of ones.

    Args:
        shape: Sizes of the axes.
        dtype: dtype of the result. None, the default, means float32.
        device: None, the default, or the default device.

    Returns:
        An NDArray.

    Raises:
        ShapeError: If shape is invalid.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.ones(3).tolist()
        [1.0, 1.0, 1.0]
    """
    return full(shape, 1, dtype=_wanted(dtype, DEFAULT_FLOAT), device=device)


@operation("x")
def _filled(x: Any, value: Scalar, dtype: DType) -> Any:
    g = graph_of(x)
    one = cast_to(g.select(g.equal(x, x), like(x, 0), like(x, 0)), dtype)
    return g.select(g.equal(one, like(one, 0)), like(one, value), one)


def full_like(x: Array, /, fill_value: Scalar, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
    """Create an array with the shape and dtype of another array, whose elements all have one value.

    Args:
        x: Array or tensor.
        fill_value: The value.
        dtype: dtype of the result. None, the default, means the dtype of x.
        device: None, the default, or the default device.

    Returns:
        An array, or a tensor for a tensor.

    Raises:
        DTypeError: If the value cannot be represented in the dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.full_like(mnp.zeros((1, 2)), 3).tolist()
        [[3.0, 3.0]]
    """
    check_device(device)
    if not isinstance(x, (NDArray, Tensor)):
        x = asarray(x)
    wanted = _wanted(dtype, x.dtype)
    if isinstance(x, Tensor):
        return _filled(x, fill_value, wanted)
    return full(x.shape, fill_value, dtype=wanted)


def zeros_like(x: Array, /, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
    """Create an array of zeros with the shape and dtype of another array.

    Args:
        x: Array or tensor.
        dtype: dtype of the result. None, the default, means the dtype of x.
        device: None, the default, or the default device.

    Returns:
        An array, or a tensor for a tensor.

    Raises:
        DTypeError: If the dtype is unknown.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.zeros_like(mnp.ones(2)).tolist()
        [0.0, 0.0]
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
    """Create an array of ones with the shape and dtype of another array.

    Args:
        x: Array or tensor.
        dtype: dtype of the result. None, the default, means the dtype of x.
        device: None, the default, or the default device.

    Returns:
        An array, or a tensor for a tensor.

    Raises:
        DTypeError: If the dtype is unknown.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.ones_like(mnp.zeros(2)).tolist()
        [1.0, 1.0]
    """
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Array, /, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
    """Create an array with the shape and dtype of another array, without specified values; they are zeros.

    Args:
        x: Array or tensor.
        dtype: dtype of the result. None, the default, means the dtype of x.
        device: None, the default, or the default device.

    Returns:
        An array, or a tensor for a tensor.

    Raises:
        DTypeError: If the dtype is unknown.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.empty_like(mnp.ones(2)).shape
        (2,)
    """
    return full_like(x, 0, dtype=dtype, device=device)


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
) -> NDArray:
    """Create an array of evenly spaced numbers of a half-open interval.

    Args:
        start: First number, or the end of the interval if stop is None.
        stop: End of the interval, which is not included.
        step: Difference of consecutive numbers. Defaults to 1.
        dtype: dtype of the result. None, the default, means int32 if all arguments are ints, and otherwise float32.
        device: None, the default, or the default device.

    Returns:
        An NDArray of rank 1.

    Raises:
        GraphError: If step is 0.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.arange(3).tolist(), mnp.arange(1.0, 2.0, 0.5).tolist()
        ([0, 1, 2], [1.0, 1.5])
    """
    check_device(device)
    first, end = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise GraphError("step must not be 0")
    whole = all(isinstance(v, (int, np.integer)) for v in (first, end, step))
    count = max(0, -(-(end - first) // step) if whole else math.ceil((end - first) / step))
    wanted = DEFAULT_FLOAT
    if dtype is not None:
        wanted = as_dtype(dtype)
    elif whole:
        wanted = max((dtype_of_number(int(v)) for v in (first, first + step * count)), key=lambda d: d.itemsize)
    if whole and wanted.is_integer:  # Unsigned arithmetic wraps around, so negative steps are correct, too.
        places = np.arange(count, dtype=np.uint64)
        bits = places * np.uint64(step % 2**64) + np.uint64(first % 2**64)
        return _core.asarray(bits.astype(wanted.numpy))
    return _array(first + step * np.arange(count, dtype=np.float64), wanted)


def linspace(
    start: Scalar,
    stop: Scalar,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: Any = None,
    endpoint: builtins.bool = True,
) -> NDArray:
    """Create an array of a number of evenly spaced values of an interval.

    Args:
        start: First value.
        stop: End of the interval.
        num: Number of values.
        dtype: dtype of the result. None, the default, means float32, or complex64 for complex bounds.
        device: None, the default, or the default device.
        endpoint: Whether stop is the last value. Defaults to True.

    Returns:
        An NDArray of rank 1.

    Raises:
        ShapeError: If num is negative.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.linspace(0, 1, 3).tolist()
        [0.0, 0.5, 1.0]
    """
    check_device(device)
    if num < 0:
        raise ShapeError(f"num must not be negative, got {num}")
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    wanted = _wanted(dtype, DEFAULT_COMPLEX if is_complex else DEFAULT_FLOAT)
    return _array(np.linspace(start, stop, num, endpoint=endpoint), wanted)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None, device: Any = None
) -> NDArray:
    """Create a matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n_rows: Number of rows.
        n_cols: Number of columns. None, the default, means n_rows.
        k: Index of the diagonal; positive values are above the main diagonal. Defaults to 0.
        dtype: dtype of the result. None, the default, means float32.
        device: None, the default, or the default device.

    Returns:
        An NDArray of shape (n_rows, n_cols).

    Raises:
        ShapeError: If a size is negative.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.eye(2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    check_device(device)
    sizes = _sizes((n_rows, n_rows if n_cols is None else n_cols))
    return _array(np.eye(sizes[0], sizes[1], k=k), _wanted(dtype, DEFAULT_FLOAT))


@operation()
def _meshgrid(*arrays: Any, indexing: str = "xy") -> Any:
    g, rank = graph_of(arrays[0]), len(arrays)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = 1, 0
    sizes = [shape_of(x, "meshgrid")[0] if x.shape else 1 for x in arrays]
    shape = [sizes[i] for i in order]
    return [
        g.broadcast_to(g.reshape(x, [n if order[axis] == i else 1 for axis in range(rank)]), shape)
        for i, (x, n) in enumerate(zip(arrays, sizes, strict=True))
    ]


def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Any, ...]:
    """Return coordinate matrices from coordinate vectors.

    Args:
        *arrays: Arrays of rank 1, all of one dtype.
        indexing: "xy" (the default) exchanges the first two axes of the result; "ij" does not.

    Returns:
        A tuple of arrays, one for each argument, with one axis for each argument.

    Raises:
        GraphError: If indexing is unknown.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> rows, columns = mnp.meshgrid(mnp.arange(2), mnp.arange(3), indexing="ij")
        >>> rows.tolist(), columns.tolist()
        ([[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [0, 1, 2]])
    """
    if indexing not in ("xy", "ij"):
        raise GraphError(f'indexing must be "xy" or "ij", got {shown(indexing)}')
    return tuple(_meshgrid(*arrays, indexing=indexing)) if arrays else ()


def _triangle(name: str, keeps: Any, summary: str, shown_result: str) -> Any:
    def build(x: Array, /, *, k: int = 0) -> Any:
        assert isinstance(x, Tensor)
        g, shape = graph_of(x), shape_of(x, name)
        if len(shape) < 2:
            raise ShapeError(f"{name} requires an array of rank 2 or higher, got shape {shape}")
        rows, columns = np.indices(shape[-2:])
        return g.select(g.constant(keeps(columns, rows + k)), x, like(x, 0))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""{summary}

    Args:
        x: Array or tensor of shape (..., m, n).
        k: Index of the diagonal; positive values are above the main diagonal. Defaults to 0.

    Returns:
        An array with the shape and dtype of x.

    Raises:
        ShapeError: If the rank is less than 2.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.{name}(mnp.asarray([[1, 2], [3, 4]])).tolist()
        {shown_result}
    """
    return operation("x")(build)


tril = _triangle(
    "tril", np.less_equal, "Return the elements on and below a diagonal, and zeros elsewhere.", "[[1, 0], [3, 4]]"
)
triu = _triangle(
    "triu", np.greater_equal, "Return the elements on and above a diagonal, and zeros elsewhere.", "[[1, 2], [0, 4]]"
)


@operation("x")
def _astype(x: Any, dtype: DType) -> Any:
    return graph_of(x).cast(x, dtype)


def astype(x: Array, dtype: DTypeLike, /, *, copy: builtins.bool = True, device: Any = None) -> Any:
    """Convert an array to another dtype.

    Args:
        x: Array or tensor.
        dtype: dtype of the result.
        copy: Whether to copy an array that already has the dtype. Defaults to True.
        device: None, the default, or the default device.

    Returns:
        An array with the shape of x.

    Raises:
        DTypeError: If x is complex and the dtype is not: use `real` or `abs` first.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.astype(mnp.asarray([1.7, -1.7]), mnp.int32).tolist()
        [1, -1]
    """
    check_device(device)
    wanted = as_dtype(dtype)
    if not isinstance(x, (NDArray, Tensor)):
        x = asarray(x)
    if x.dtype == wanted:
        return x if isinstance(x, Tensor) or not copy else x.copy()
    if x.dtype.is_complex and not wanted.is_complex:
        raise DTypeError(f"astype cannot convert {x.dtype} to {wanted}: use real, imag, or abs first")
    return _astype(x, wanted)


def as_floating(x: Any) -> Any:
    """Return an array with a floating-point or complex dtype; other dtypes become the default floating-point dtype."""
    return astype(x, floating(x.dtype), copy=False)


__all__ = [
    "arange",
    "asarray",
    "astype",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]
