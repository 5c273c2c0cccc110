"""Searching, sorting, sets, and selection by indices."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._core import NDArray, Tensor
from .._display import shown
from ..errors import GraphError, ShapeError, UnsupportedError
from ._creation import asarray, full_like
from ._manipulation import axis_of, reshape
from ._operation import cast_to, graph_of, like, operation, shape_of
from ._promotion import INDEX, Scalar

Array = NDArray | Tensor


def _flat(x: Tensor) -> Tensor:
    shape = x.shape
    return graph_of(x).reshape(x, [-1] if shape is None or -1 in shape else [math.prod(shape)])


def _ordered(x: Tensor) -> Tensor:
    """Return x with a dtype that can be sorted: bool becomes int32."""
    return cast_to(x, _core.int32) if x.dtype == _core.bool_ else x


# --- extrema and conditions ----------------------------------------------------------------------------------------
def _position(name: str, word: str, example: str) -> Callable[..., Any]:
    def build(x: Array, /, *, axis: int | None = None, keepdims: builtins.bool = False) -> Any:
        assert isinstance(x, Tensor)
        g, shape = graph_of(x), shape_of(x, name)
        rows = _flat(x) if axis is None else x
        at = 0 if axis is None else axis_of(axis, len(shape), name)
        if shape_of(rows, name)[at] == 0:
            raise ShapeError(f"{name} of no elements is not defined: got shape {shape}")
        found = getattr(g, f"reduction_arg_{word}imum")(rows, at)
        if rows.dtype.is_float:  # The first NaN wins.
            none = g.is_nan(rows)
            first = g.reduction_arg_maximum(g.cast(none, _core.int32), at)
            found = g.select(g.reduction_or(none, at), first, found)
        found = cast_to(found, INDEX)
        if keepdims:
            return found if axis is not None else g.reshape(found, [1] * len(shape))
        return g.squeeze(found, [at])

    build.__name__ = build.__qualname__ = name
    arguments, _, value = example.partition(" -> ")
    build.__doc__ = f"""Return the index of the first {word}imum; NaN counts as {word}imum.

    Args:
        x: Array or tensor, floating-point or integer.
        axis: The axis. None, the default, means the index into the flattened array.
        keepdims: Whether the axis stays, with size 1. Defaults to False.

    Returns:
        An int32 array.

    Raises:
        ShapeError: If the axis is out of range, or there are no elements.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.{name}({arguments}).tolist()
        {value}
    """
    return operation("x")(build)


argmax = _position("argmax", "max", "[1, 5, 2] -> 1")
argmin = _position("argmin", "min", "[4, 5, 2] -> 2")


@operation("x", dynamic=True)
def _nonzero(x: Any) -> Any:
    g = graph_of(x)
    places = g.non_zero_indices(x)
    return [cast_to(g.squeeze(g.slice_axis(places, 1, i, 1), [1]), INDEX) for i in range(len(shape_of(x, "nonzero")))]


def nonzero(x: Array, /) -> tuple[Any, ...]:
    """Return the indices of the elements that are not zero, in row-major order.

    Args:
        x: Array or tensor of any dtype and rank 1 or higher.

    Returns:
        A tuple of int32 arrays, one for each axis.

    Raises:
        ShapeError: If the rank is 0.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> [i.tolist() for i in mnp.nonzero(mnp.asarray([[0, 7], [8, 0]]))]
        [[0, 1], [1, 0]]
    """
    if not shape_of(x, "nonzero"):
        raise ShapeError("nonzero requires an array of rank 1 or higher")
    if isinstance(x, NDArray) and x.size == 0:
        return tuple(NDArray((0,), INDEX) for _ in range(x.ndim))
    return tuple(_nonzero(x))


@operation("condition", "x1", "x2", promote=(1, 2))
def where(condition: Array, x1: Array | Scalar, x2: Array | Scalar, /) -> Any:
    """Select elements of two arrays by a condition.

    Args:
        condition: Bool array or tensor.
        x1: Elements where the condition is True: an array, tensor, or number.
        x2: Elements where the condition is False.

    Returns:
        An array of the broadcast shape with the promoted dtype of x1 and x2.

    Raises:
        ShapeError: If the shapes cannot be broadcast.
        DTypeError: If condition is not bool.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.where(mnp.asarray([True, False]), mnp.asarray([1.0, 2.0]), 0).tolist()
        [1.0, 0.0]
    """
    assert isinstance(condition, Tensor)
    return graph_of(condition).select(condition, x1, x2)


# --- sorting ----------------------------------------------------------------------------------------------------------
_SORTING = """

    Args:
        x: Array or tensor, not complex.
        axis: The axis. Defaults to the last.
        descending: Whether the order is descending. Defaults to False.
        stable: Equal elements always keep their order, whatever this is.

    Returns:
        {result}

    Raises:
        ShapeError: If the axis is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.{name}([3, 1, 2]).tolist()
        {value}
    """


@operation("x")
def argsort(x: Array, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Any:
    assert isinstance(x, Tensor)
    g, shape = graph_of(x), shape_of(x, "argsort")
    if not shape:
        raise ShapeError("argsort requires an array of rank 1 or higher")
    return cast_to(g.arg_sort(_ordered(x), axis_of(axis, len(shape), "argsort"), descending), INDEX)


@operation("x")
def sort(x: Array, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Any:
    assert isinstance(x, Tensor)
    g, shape = graph_of(x), shape_of(x, "sort")
    if not shape:
        raise ShapeError("sort requires an array of rank 1 or higher")
    return cast_to(g.sort(_ordered(x), axis_of(axis, len(shape), "sort"), descending), x.dtype)


argsort.__doc__ = "Return the indices that sort an array." + _SORTING.format(
    result="An int32 array with the shape of x.", name="argsort", value="[1, 2, 0]"
)
sort.__doc__ = "Sort the elements of an array." + _SORTING.format(
    result="An array with the shape and dtype of x.", name="sort", value="[1, 2, 3]"
)


@operation("x1", "x2", "sorter", promote=(0, 1))
def _searchsorted(x1: Any, x2: Any, sorter: Any, right: builtins.bool) -> Any:
    g, count = graph_of(x1), shape_of(x1, "searchsorted")[0]
    x1, x2 = _ordered(x1), _ordered(x2)
    if sorter is not None:
        x1 = g.gather(x1, cast_to(sorter, _core.int32), 0)
    low = g.cast(g.not_equal(x2, x2), INDEX) * 0
    if count <= 0:
        return low
    high = low + count
    for _ in range(count.bit_length()):
        middle = g.bitwise_right_shift(low + high, g.constant(1, (), INDEX))
        value = g.gather(x1, g.minimum(middle, count - 1), 0)
        before = g.less_than_or_equal_to(value, x2) if right else g.less_than(value, x2)
        if x2.dtype.is_float:  # NaN is larger than every number.
            none = g.is_nan(x2)
            before = g.logical_or(before, g.logical_and(none, g.not_(g.is_nan(value)) if not right else none))
        before = g.logical_and(before, g.less_than(low, high))
        low, high = g.select(before, middle + 1, low), g.select(before, high, g.minimum(middle, high))
    return low


def searchsorted(x1: Array, x2: Array | Scalar, /, *, side: str = "left", sorter: Array | None = None) -> Any:
    """Find the indices at which values must be inserted into a sorted array.

    Args:
        x1: Sorted array or tensor of rank 1.
        x2: Values: an array, tensor, or number.
        side: "left" (the default) returns the first suitable index, and "right" the last.
        sorter: Indices that sort x1, or None (the default) if x1 is sorted.

    Returns:
        An int32 array with the shape of x2.

    Raises:
        ShapeError: If the rank of x1 is not 1.
        GraphError: If side is unknown.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.searchsorted(mnp.asarray([1, 3, 5]), mnp.asarray([0, 3, 9])).tolist()
        [0, 1, 3]
    """
    if side not in ("left", "right"):
        raise GraphError(f'side must be "left" or "right", got {side!r}')
    if len(shape_of(x1, "searchsorted")) != 1:
        raise ShapeError("searchsorted requires x1 of rank 1")
    return _searchsorted(x1, x2, sorter, side == "right")


# --- sets -------------------------------------------------------------------------------------------------------------
class UniqueAll(NamedTuple):
    """Result of `unique_all`.

    Args:
        values: Distinct values.
        indices: Index of the first occurrence of each value in the flattened array.
        inverse_indices: For each element, the index of its value.
        counts: Number of occurrences of each value.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.unique_all(mnp.asarray([5, 2, 5])).counts.tolist()
        [1, 2]
    """

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Result of `unique_counts`.

    Args:
        values: Distinct values.
        counts: Number of occurrences of each value.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.unique_counts(mnp.asarray([5, 2, 5])).values.tolist()
        [2, 5]
    """

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Result of `unique_inverse`.

    Args:
        values: Distinct values.
        inverse_indices: For each element, the index of its value.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.unique_inverse(mnp.asarray([5, 2, 5])).inverse_indices.tolist()
        [1, 0, 1]
    """

    values: Any
    inverse_indices: Any


@operation("x", dynamic=True)
def _unique(x: Any) -> Any:
    """Return distinct values in ascending order, first indices, inverse indices, and counts. Each NaN is distinct."""
    g, shape = graph_of(x), shape_of(x, "unique")
    flat = _flat(x)
    count = math.prod(shape)
    if count == 0:
        none = g.constant(0, [0], INDEX)
        return [flat, none, g.reshape(none, shape), none]
    order = cast_to(_lexical(flat), INDEX)
    ordered = g.gather(flat, order, 0)
    new = g.constant(True, [1], _core.bool_)
    if count > 1:
        apart = g.not_equal(g.slice_axis(ordered, 0, 1, count - 1), g.slice_axis(ordered, 0, 0, count - 1))
        new = g.concat([new, apart], 0)
    starts = g.squeeze(g.non_zero_indices(new), [1])
    starts = cast_to(starts, INDEX)
    rank = g.cumulative_sum(g.cast(new, INDEX), 0) - 1
    # The inverse permutation of the order gives the position of each element among the sorted ones.
    inverse = g.reshape(g.gather(rank, g.arg_sort(order, 0), 0), shape)
    ends = g.concat([g.slice(starts, [1], [0], [1], 0, 1), g.constant(count, [1], INDEX)], 0)
    return [g.gather(ordered, starts, 0), g.gather(order, starts, 0), inverse, ends - starts]


def _lexical(x: Tensor) -> Tensor:
    """Return the order of elements; complex numbers are ordered by real, then by imaginary part."""
    g = graph_of(x)
    if not x.dtype.is_complex:
        return g.arg_sort(_ordered(x), 0)
    second = g.arg_sort(g.imaginary_part(x), 0)
    first = g.arg_sort(g.gather(g.real_part(x), second, 0), 0)
    return g.gather(second, first, 0)


_SETS = """

    Values are in ascending order. Each NaN counts as a distinct value.

    Args:
        x: Array or tensor; it is flattened.

    Returns:
        {result}

    Raises:
        ShapeError: If the shape of x is not known.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.{name}(mnp.asarray([5, 2, 5])){attribute}.tolist()
        {value}
    """


def unique_all(x: Array, /) -> UniqueAll:
    return UniqueAll(*_unique(x))


def unique_counts(x: Array, /) -> UniqueCounts:
    found = _unique(x)
    return UniqueCounts(found[0], found[3])


def unique_inverse(x: Array, /) -> UniqueInverse:
    found = _unique(x)
    return UniqueInverse(found[0], found[2])


def unique_values(x: Array, /) -> Any:
    return _unique(x)[0]


for _function, _what, _result, _attribute, _value in (
    (unique_all, "distinct values with indices and counts", "A named tuple of values, indices, inverse_indices, and "
     "counts.", ".indices", "[1, 0]"),
    (unique_counts, "distinct values with their counts", "A named tuple of values and counts.", ".counts", "[1, 2]"),
    (unique_inverse, "distinct values, and their indices for each element", "A named tuple of values and "
     "inverse_indices.", ".inverse_indices", "[1, 0, 1]"),
    (unique_values, "distinct values", "An array of rank 1.", "", "[2, 5]"),
):  # fmt: skip
    _function.__doc__ = f"Return the {_what} of an array." + _SETS.format(
        result=_result, name=_function.__name__, attribute=_attribute, value=_value
    )


@operation("x1", "x2", promote=(0, 1))
def _isin(x1: Any, x2: Any, invert: builtins.bool) -> Any:
    g = graph_of(x1)
    shape = shape_of(x1, "isin")
    there = g.equal(g.expand_dims(x1, [len(shape)]), g.reshape(_flat(x2), [*[1] * len(shape), -1]))
    found = g.squeeze(g.reduction_or(there, len(shape)), [len(shape)])
    return g.not_(found) if invert else found


def isin(x1: Array | Scalar, x2: Array | Scalar, /, *, invert: builtins.bool = False) -> Any:
    """Test which elements are among the elements of another array.

    Args:
        x1: Elements to test: an array, tensor, or number.
        x2: Elements to find: an array, tensor, or number.
        invert: Whether to negate the result. Defaults to False.

    Returns:
        A bool array with the shape of x1.

    Raises:
        DTypeError: If the dtypes have no common dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.isin(mnp.asarray([1, 2, 3]), mnp.asarray([3, 1])).tolist()
        [True, False, True]
    """
    if math.prod(getattr(x2, "shape", ()) or ()) == 0 and getattr(x2, "shape", ()) != ():
        return full_like(asarray(x1), invert, dtype=_core.bool_)
    return _isin(x1, x2, invert)


# --- selection by indices ------------------------------------------------------------------------------------------
def from_zero(indices: Tensor, count: int) -> Tensor:
    """Return indices with negative ones counted from the end."""
    g = graph_of(indices)
    if not indices.dtype.is_signed or count < 0:
        return indices
    return g.select(g.less_than(indices, like(indices, 0)), indices + like(indices, count), indices)


@operation("x", "indices")
def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Any:
    """Return the elements at indices along an axis.

    Args:
        x: Array or tensor.
        indices: Integer array or tensor. Negative indices count from the end.
        axis: The axis. None, the default, is allowed for rank 1.

    Returns:
        An array whose axes are those of x, with the axes of indices in place of the axis.

    Raises:
        ShapeError: If the axis is missing or out of range.
        OutOfRangeError: If an index is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.take(mnp.asarray([10, 20, 30]), mnp.asarray([2, 0])).tolist()
        [30, 10]
    """
    assert isinstance(x, Tensor) and isinstance(indices, Tensor)
    g, shape = graph_of(x), shape_of(x, "take")
    if axis is None and len(shape) != 1:
        raise ShapeError(f"take: axis is required for an array of rank {len(shape)}")
    at = axis_of(axis or 0, len(shape), "take")
    return g.gather(x, from_zero(indices, shape[at]), at, out_of_range="error")


@operation("x", "indices")
def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Any:
    """Return the elements at indices along an axis, with separate indices for each position of the other axes.

    Args:
        x: Array or tensor.
        indices: Integer array or tensor of the rank of x. Negative indices count from the end.
        axis: The axis. Defaults to the last.

    Returns:
        An array of the broadcast shape, with the size of indices along the axis.

    Raises:
        ShapeError: If the ranks differ, or the axis is out of range.
        OutOfRangeError: If an index is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> x = mnp.asarray([[3, 1], [4, 9]])
        >>> mnp.take_along_axis(x, mnp.argsort(x)).tolist()
        [[1, 3], [4, 9]]
    """
    assert isinstance(x, Tensor) and isinstance(indices, Tensor)
    g, shape, wanted = graph_of(x), list(shape_of(x, "take_along_axis")), list(shape_of(indices, "take_along_axis"))
    if len(shape) != len(wanted):
        raise ShapeError(f"take_along_axis: x and indices must have equal ranks, got {len(shape)} and {len(wanted)}")
    at = axis_of(axis, len(shape), "take_along_axis")
    sizes = [m if n == 1 else n for n, m in zip(shape, wanted, strict=True)]
    x = g.broadcast_to(x, [shape[i] if i == at else n for i, n in enumerate(sizes)])
    sizes[at] = wanted[at]
    places = g.broadcast_to(from_zero(indices, shape[at]), sizes)
    return g.gather_along_axis(at, x, places, out_of_range="error")


@operation("x")
def _repeat(x: Any, count: int, axis: int) -> Any:
    g, shape = graph_of(x), list(shape_of(x, "repeat"))
    wide = g.expand_dims(x, [axis + 1])
    wide = g.broadcast_to(wide, [*shape[: axis + 1], count, *shape[axis + 1 :]])
    return g.reshape(wide, [*shape[:axis], shape[axis] * count, *shape[axis + 1 :]])


def repeat(x: Array, repeats: int | NDArray, /, *, axis: int | None = None) -> Any:
    """Repeat each element of an array.

    Args:
        x: Array or tensor.
        repeats: Number of repetitions, or an array with one number for each element along the axis.
        axis: The axis. None, the default, flattens the array first.

    Returns:
        An array with the dtype of x.

    Raises:
        ShapeError: If the number of repetitions does not match the axis, or is negative.
        UnsupportedError: If repeats is a tensor, because the shape of the result would depend on its values.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.repeat(mnp.asarray([1, 2]), 2).tolist(), mnp.repeat(mnp.asarray([1, 2]), mnp.asarray([0, 3])).tolist()
        ([1, 1, 2, 2], [2, 2, 2])
    """
    if isinstance(repeats, Tensor):
        raise UnsupportedError("repeat: repeats must be an int or an array, because a tensor has no value yet")
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    shape = shape_of(x, "repeat")
    axis = axis_of(axis, len(shape), "repeat")
    if isinstance(repeats, (int, np.integer)):
        if repeats < 0:
            raise ShapeError(f"repeat: repeats must not be negative, got {repeats}")
        return _repeat(x, int(repeats), axis)
    counts = np.asarray(repeats)
    if counts.size and counts.min() < 0 or counts.ndim > 1 or counts.size not in (1, shape[axis]):
        raise ShapeError(f"repeat: repeats must have {shape[axis]} numbers that are not negative, got {shown(repeats)}")
    places = np.repeat(np.arange(shape[axis], dtype=np.int32), np.broadcast_to(counts, shape[axis]))
    return take(x, _core.asarray(places), axis=axis)


__all__ = [
    "UniqueAll",
    "UniqueCounts",
    "UniqueInverse",
    "argmax",
    "argmin",
    "argsort",
    "isin",
    "nonzero",
    "repeat",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]
