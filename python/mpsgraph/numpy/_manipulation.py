"""Functions that change shapes and move elements.

On arrays, functions that only change how memory is read (`reshape`, `permute_dims`, `squeeze`, …) return views.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from .. import _core
from .._core import NDArray, Tensor
from .._display import shown
from ..errors import AxisError, ShapeError
from ._creation import asarray
from ._operation import graph_of, like, operation, shape_of
from ._promotion import common

Array = NDArray | Tensor


def axis_of(axis: Any, rank: int, what: str) -> int:
    """Return an axis as an index from 0. Raise ShapeError if it is out of range."""
    if isinstance(axis, builtins.bool) or not isinstance(axis, (int, np.integer)):
        raise ShapeError(f"{what}: axis must be an int, got {shown(axis)}")
    if not -rank <= axis < rank:
        raise AxisError(f"{what}: axis {axis} is out of range for rank {rank}")
    return int(axis) % rank


def axes_of(axes: Any, rank: int, what: str) -> list[int]:
    """Return None, an axis, or several axes as a list of indices from 0."""
    if axes is None:
        return list(range(rank))
    found = [axis_of(a, rank, what) for a in (axes if isinstance(axes, (tuple, list)) else (axes,))]
    if len(set(found)) != len(found):
        raise ShapeError(f"{what}: axes must be different, got {shown(axes)}")
    return found


def view(function: Callable[[np.ndarray], np.ndarray], x: NDArray, what: str) -> NDArray:
    """Return a numpy view of an array's memory as an array."""
    try:
        return _core.asarray(function(x.numpy()), x.dtype)
    except (ValueError, TypeError) as error:
        raise ShapeError(f"{what}: {error}") from None


def _of_array(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of an array or tensor accept numpy arrays, lists, and numbers in its place."""

    @wraps(function)
    def called(x: Any, /, *arguments: Any, **named: Any) -> Any:
        if type(x) is not NDArray and not isinstance(x, Tensor):
            x = asarray(x)
        return function(x, *arguments, **named)

    return called


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which arrays of several shapes are broadcast.

    Args:
        *shapes: The shapes.

    Returns:
        A tuple of sizes.

    Raises:
        ShapeError: If the shapes cannot be broadcast.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.broadcast_shapes((3, 1), (4,))
        (3, 4)
    """
    result: list[int] = []
    rank = max((len(s) for s in shapes), default=0)
    for axis in range(-rank, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1 and -1 not in sizes:
            raise ShapeError(f"shapes cannot be broadcast: {', '.join(str(tuple(s)) for s in shapes)}")
        result.append(max(sizes) if sizes else 1)
    return tuple(result)


@_of_array
def broadcast_to(x: Array, /, shape: Sequence[int]) -> Any:
    """Repeat an array along axes of size 1 and new leading axes.

    Args:
        x: Array or tensor.
        shape: Sizes of the result.

    Returns:
        A read-only view of the array, or a tensor.

    Raises:
        ShapeError: If the shape of x cannot be broadcast to `shape`.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.broadcast_to(mnp.asarray([1, 2]), (2, 2)).tolist()
        [[1, 2], [1, 2]]
    """
    if isinstance(x, Tensor):
        return graph_of(x).broadcast_to(x, list(shape))
    return view(lambda a: np.broadcast_to(a, tuple(shape)), x, "broadcast_to")


def broadcast_arrays(*arrays: Array) -> tuple[Any, ...]:
    """Broadcast arrays against each other.

    Args:
        *arrays: Arrays or tensors.

    Returns:
        A tuple of arrays of one shape.

    Raises:
        ShapeError: If the shapes cannot be broadcast.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> [x.shape for x in mnp.broadcast_arrays(mnp.zeros((2, 1)), mnp.zeros(3))]
        [(2, 3), (2, 3)]
    """
    shape = broadcast_shapes(*(tuple(x.shape or ()) for x in arrays))
    return tuple(broadcast_to(x, shape) for x in arrays)


@_of_array
def reshape(x: Array, /, shape: int | Sequence[int], *, copy: builtins.bool | None = None) -> Any:
    """Return the elements in another shape.

    Args:
        x: Array or tensor.
        shape: Sizes of the result. One size may be -1 and is then inferred.
        copy: For arrays: True copies, and False raises an error if a copy is needed. None, the default, copies only if
            it is needed.

    Returns:
        An array with as many elements as x.

    Raises:
        ShapeError: If the number of elements changes, or copy is False and a copy is needed.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.reshape(mnp.arange(4), (2, -1)).tolist()
        [[0, 1], [2, 3]]
    """
    sizes = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if isinstance(x, Tensor):
        return graph_of(x).reshape(x, sizes)
    if copy:
        x = x.copy()
    elif copy is False and not x.contiguous:
        raise ShapeError("reshape: the array is not contiguous, and copy is False: pass copy=None")
    return view(lambda a: a.reshape(sizes), x, "reshape")


@_of_array
def permute_dims(x: Array, /, axes: Sequence[int]) -> Any:
    """Permute the axes of an array.

    Args:
        x: Array or tensor.
        axes: For each axis of the result, the axis of x.

    Returns:
        A view of the array, or a tensor.

    Raises:
        ShapeError: If axes is not a permutation.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.permute_dims(mnp.zeros((2, 3, 4)), (2, 0, 1)).shape
        (4, 2, 3)
    """
    rank = len(shape_of(x, "permute_dims"))
    order = axes_of(tuple(axes), rank, "permute_dims")
    if len(order) != rank:
        raise ShapeError(f"permute_dims: axes must list all {rank} axes, got {shown(tuple(axes))}")
    if isinstance(x, Tensor):
        return graph_of(x).transpose(x, order) if order else x
    return view(lambda a: a.transpose(order), x, "permute_dims")


@_of_array
def matrix_transpose(x: Array, /) -> Any:
    """Exchange the last two axes of an array.

    Args:
        x: Array or tensor of shape (..., m, n).

    Returns:
        An array of shape (..., n, m).

    Raises:
        ShapeError: If the rank is less than 2.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.matrix_transpose(mnp.asarray([[1, 2], [3, 4]])).tolist()
        [[1, 3], [2, 4]]
    """
    rank = len(shape_of(x, "matrix_transpose"))
    if rank < 2:
        raise ShapeError(f"matrix_transpose requires an array of rank 2 or higher, got rank {rank}")
    return permute_dims(x, (*range(rank - 2), rank - 1, rank - 2))


@_of_array
def moveaxis(x: Array, source: int | Sequence[int], destination: int | Sequence[int], /) -> Any:
    """Move axes of an array to other positions. The other axes keep their order.

    Args:
        x: Array or tensor.
        source: The axis or axes to move.
        destination: Their new positions.

    Returns:
        A view of the array, or a tensor.

    Raises:
        ShapeError: If an axis is out of range, or the numbers of axes differ.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.moveaxis(mnp.zeros((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    rank = len(shape_of(x, "moveaxis"))
    one, two = axes_of(source, rank, "moveaxis"), axes_of(destination, rank, "moveaxis")
    if len(one) != len(two):
        raise ShapeError(f"moveaxis: source and destination must have equal lengths, got {len(one)} and {len(two)}")
    order = [axis for axis in range(rank) if axis not in one]
    for to, axis in sorted(zip(two, one, strict=True)):
        order.insert(to, axis)
    return permute_dims(x, order)


@_of_array
def expand_dims(x: Array, /, axis: int | Sequence[int]) -> Any:
    """Insert axes of size 1.

    Args:
        x: Array or tensor.
        axis: Index or indices of the new axes in the result.

    Returns:
        A view of the array, or a tensor.

    Raises:
        ShapeError: If an axis is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.expand_dims(mnp.zeros(3), 0).shape
        (1, 3)
    """
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    rank = len(shape_of(x, "expand_dims")) + count
    axes = tuple(axes_of(axis, rank, "expand_dims"))
    if isinstance(x, Tensor):
        return graph_of(x).expand_dims(x, sorted(axes)) if axes else x
    return view(lambda a: np.expand_dims(a, axes), x, "expand_dims")


@_of_array
def squeeze(x: Array, /, axis: int | Sequence[int]) -> Any:
    """Remove axes of size 1.

    Args:
        x: Array or tensor.
        axis: Index or indices of the axes.

    Returns:
        A view of the array, or a tensor.

    Raises:
        ShapeError: If an axis is out of range or its size is not 1.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.squeeze(mnp.zeros((1, 3)), 0).shape
        (3,)
    """
    shape = shape_of(x, "squeeze")
    axes = axes_of(axis, len(shape), "squeeze")
    if any(shape[a] not in (1, -1) for a in axes):
        raise ShapeError(f"squeeze: the sizes of axes {shown(axis)} must be 1, got shape {shape}")
    if isinstance(x, Tensor):
        return graph_of(x).squeeze(x, axes) if axes else x
    return view(lambda a: a.squeeze(tuple(axes)), x, "squeeze")


@operation("x")
def flip(x: Array, /, *, axis: int | Sequence[int] | None = None) -> Any:
    """Reverse the order of elements along axes.

    Args:
        x: Array or tensor.
        axis: The axis or axes. None, the default, means all.

    Returns:
        An array with the shape and dtype of x.

    Raises:
        ShapeError: If an axis is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.flip(mnp.asarray([1, 2, 3])).tolist()
        [3, 2, 1]
    """
    assert isinstance(x, Tensor)
    g, axes = graph_of(x), axes_of(axis, len(shape_of(x, "flip")), "flip")
    return g.reverse(x, axes) if axes else g.identity(x)


@operation("x")
def roll(x: Array, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Any:
    """Shift elements along axes, and reinsert those beyond the end at the start.

    Args:
        x: Array or tensor.
        shift: Number of positions, or one number for each axis.
        axis: The axis or axes. None, the default, shifts the flattened array.

    Returns:
        An array with the shape and dtype of x.

    Raises:
        ShapeError: If an axis is out of range, or the numbers of shifts and axes differ.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.roll(mnp.asarray([1, 2, 3]), 1).tolist()
        [3, 1, 2]
    """
    assert isinstance(x, Tensor)
    g, shape = graph_of(x), shape_of(x, "roll")
    if axis is None:
        shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
        flat = g.reshape(x, [-1] if math.prod(shape) else [0])
        return g.reshape(_rolled(flat, sum(shifts), 0), shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: shift must have one value for each axis, got {len(shifts)} for {len(axes)} axes")
    for by, each in zip(shifts, axes, strict=True):
        x = _rolled(x, by, axis_of(each, len(shape), "roll"))
    return g.identity(x)


def _rolled(x: Tensor, by: int, axis: int) -> Tensor:
    g, count = graph_of(x), shape_of(x, "roll")[axis]
    by = int(by) % count if count else 0
    if not by:
        return x
    return g.concat([g.slice_axis(x, axis, count - by, by), g.slice_axis(x, axis, 0, count - by)], axis)


@operation()
def _concat(*arrays: Any, axis: int | None) -> Any:
    g = graph_of(arrays[0])
    dtype = common(*arrays)
    parts = [x if x.dtype == dtype else g.cast(x, dtype) for x in arrays]
    if axis is None:
        parts = [g.reshape(x, [math.prod(shape_of(x, "concat"))]) for x in parts]
    ranks = {len(shape_of(x, "concat")) for x in parts}
    if len(ranks) > 1 or 0 in ranks:
        raise ShapeError(f"concat requires arrays of equal rank, 1 or higher, got ranks {sorted(ranks)}")
    return g.concat(parts, axis_of(axis or 0, ranks.pop(), "concat")) if len(parts) > 1 else g.identity(parts[0])


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Any:
    """Join arrays along an axis.

    Args:
        arrays: Sequence of arrays or tensors, whose shapes agree except along the axis.
        axis: The axis. None flattens the arrays first. Defaults to 0.

    Returns:
        An array with the promoted dtype.

    Raises:
        ShapeError: If the shapes do not agree, or there are no arrays.
        DTypeError: If the arrays have no common dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.concat([mnp.asarray([1, 2]), mnp.asarray([3])]).tolist()
        [1, 2, 3]
    """
    if not arrays:
        raise ShapeError("concat requires at least one array")
    return _concat(*arrays, axis=axis)


@operation()
def _stack(*arrays: Any, axis: int) -> Any:
    g = graph_of(arrays[0])
    dtype = common(*arrays)
    rank = len(shape_of(arrays[0], "stack"))
    return g.stack([x if x.dtype == dtype else g.cast(x, dtype) for x in arrays], axis_of(axis, rank + 1, "stack"))


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Any:
    """Join arrays along a new axis.

    Args:
        arrays: Sequence of arrays or tensors of one shape.
        axis: Index of the new axis in the result. Defaults to 0.

    Returns:
        An array with the promoted dtype.

    Raises:
        ShapeError: If the shapes differ, or there are no arrays.
        DTypeError: If the arrays have no common dtype.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.stack([mnp.asarray([1, 2]), mnp.asarray([3, 4])]).tolist()
        [[1, 2], [3, 4]]
    """
    if not arrays:
        raise ShapeError("stack requires at least one array")
    return _stack(*arrays, axis=axis)


@_of_array
def unstack(x: Array, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices of an array along an axis.

    Args:
        x: Array or tensor of rank 1 or higher.
        axis: The axis. Defaults to 0.

    Returns:
        A tuple of arrays without this axis.

    Raises:
        ShapeError: If the axis is out of range.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> [row.tolist() for row in mnp.unstack(mnp.asarray([[1, 2], [3, 4]]))]
        [[1, 2], [3, 4]]
    """
    shape = shape_of(x, "unstack")
    if not shape:
        raise ShapeError("unstack requires an array of rank 1 or higher")
    at = axis_of(axis, len(shape), "unstack")
    return tuple(x[(slice(None),) * at + (i,)] for i in range(shape[at]))


@operation("x")
def tile(x: Array, repetitions: Sequence[int], /) -> Any:
    """Repeat an array along its axes.

    Args:
        x: Array or tensor.
        repetitions: Number of repetitions for each axis. Missing leading numbers are 1, and missing axes are added.

    Returns:
        An array with the dtype of x.

    Raises:
        ShapeError: If a number is negative.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.tile(mnp.asarray([1, 2]), (2, 2)).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    assert isinstance(x, Tensor)
    g, shape = graph_of(x), shape_of(x, "tile")
    rank = max(len(shape), len(repetitions))
    counts = [1] * (rank - len(repetitions)) + [int(r) for r in repetitions]
    sizes = [1] * (rank - len(shape)) + list(shape)
    if any(c < 0 for c in counts):
        raise ShapeError(f"tile: repetitions must not be negative, got {shown(tuple(repetitions))}")
    if 0 in counts or 0 in sizes:
        return g.broadcast_to(like(x, 0), [c * n for c, n in zip(counts, sizes, strict=True)])
    x = g.reshape(x, sizes) if sizes != list(shape) else x
    return g.tile(x, counts) if any(c != 1 for c in counts) else g.identity(x)


__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]
