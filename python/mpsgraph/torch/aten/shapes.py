"""Translations of operations on shapes: views, permutations, slices, concatenation and constants.

Views are separate values in the graph, which never alias other tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ... import numpy as mnp
from ..._core import Tensor
from ._table import Call, aten, composed, dtype_of, prims, shape_of


@aten("view", "_unsafe_view", "reshape", "view_copy", "flatten", "unflatten", "expand_as_view")
def view(call: Call, x: Tensor, *_: Any, **__: Any) -> Tensor:
    dtype = dtype_of(call.result.dtype)
    if dtype == x.dtype:
        return call.g.reshape(x, call.sizes)
    ratio = dtype.itemsize // x.dtype.itemsize
    if not shape_of(x) or ratio < 2:
        return call.g.reinterpret_cast(x, dtype)
    return call.g.reshape(call.g.reinterpret_cast(x, dtype), call.sizes)


@aten("unsqueeze", "squeeze", "squeeze_copy", "unsqueeze_copy", "expand", "expand_copy", "expand_as", "broadcast_to")
def of_shape(call: Call, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x  # Every result is reshaped or broadcast to the shape that PyTorch reports.


@aten("broadcast_tensors")
def broadcast_tensors(call: Call, tensors: Sequence[Tensor]) -> list[Tensor]:
    return list(tensors)


@aten("permute", "permute_copy")
def permute(call: Call, x: Tensor, order: Sequence[int]) -> Tensor:
    rank = len(shape_of(x))
    return call.g.transpose(x, [axis % max(rank, 1) for axis in order])


@aten("transpose", "transpose_copy", "swapaxes")
def transpose(call: Call, x: Tensor, a: int, b: int) -> Tensor:
    return call.g.swap_axes(x, a, b) if x.shape else x


@aten("t", "numpy_T", "mT")
def t(call: Call, x: Tensor) -> Tensor:
    return call.g.swap_axes(x, -2, -1) if len(shape_of(x)) > 1 else x


@aten("movedim", "moveaxis")
def movedim(call: Call, x: Tensor, source: int | Sequence[int], target: int | Sequence[int]) -> Tensor:
    return mnp.moveaxis(x, source, target)


Ranges = tuple[list[int], list[int], list[int]]
"""A slice of a tensor as a tuple of starts, ends and strides, each with one entry per axis."""


def _range(call: Call, sizes: Sequence[int], axis: int, start: Any, end: Any, step: int) -> Ranges:
    """Return a slice along one axis as starts, ends and strides for all axes. The other axes are kept whole."""
    axis %= max(len(sizes), 1)
    begin, stop, _ = slice(start, end, 1).indices(sizes[axis])
    starts, ends, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    starts[axis], ends[axis], strides[axis] = begin, max(begin, stop), step
    return starts, ends, strides


@aten("slice", "slice_copy")
def slice_(call: Call, x: Tensor, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    sizes = shape_of(x)
    starts, ends, strides = _range(call, sizes, axis, start, end, step)
    whole = not any(starts) and ends == sizes and max(strides, default=1) == 1
    return x if whole else call.g.slice(x, starts, ends, strides)


def _position(call: Call, sizes: Sequence[int], axis: int, index: int) -> tuple[list[int], Ranges]:
    """Return the shape and the slice (starts, ends and strides) of the elements at one index of an axis."""
    axis %= max(len(sizes), 1)
    first = index % sizes[axis]
    shape = [1 if i == axis else size for i, size in enumerate(sizes)]
    return shape, _range(call, sizes, axis, first, first + 1, 1)


# These four gradients are translated here, because PyTorch would decompose each of them into coordinate comparisons and
# gathers: ten operations instead of one copy.
@aten("slice_backward")
def slice_backward(call: Call, incoming: Tensor, sizes: Sequence[int], axis: int, *places: Any) -> Tensor:
    return call.g.slice_gradient(incoming, sizes, *_range(call, sizes, axis, *places))


@aten("select_backward")
def select_backward(call: Call, incoming: Tensor, sizes: Sequence[int], axis: int, index: int) -> Tensor:
    shape, place = _position(call, sizes, axis, index)
    return call.g.slice_gradient(call.g.reshape(incoming, shape), sizes, *place)


@aten("slice_scatter")
def slice_scatter(
    call: Call, x: Tensor, source: Tensor, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    return call.g.slice_update_data(x, source, *_range(call, shape_of(x), axis, start, end, step))


@aten("select_scatter")
def select_scatter(call: Call, x: Tensor, source: Tensor, axis: int, index: int) -> Tensor:
    shape, place = _position(call, shape_of(x), axis, index)
    return call.g.slice_update_data(x, call.g.reshape(source, shape), *place)


@aten("narrow")
def narrow(call: Call, x: Tensor, axis: int, start: int, length: int) -> Tensor:
    return call.g.slice_axis(x, axis, start % max(shape_of(x)[axis], 1) if start < 0 else start, length)


@aten("select", "select_copy")
def select(call: Call, x: Tensor, axis: int, index: int) -> Tensor:
    size = shape_of(x)[axis]
    return call.g.slice_axis(x, axis, index % size, 1)


def _sizes(call: Call, axis: int) -> list[int]:
    return [int(part.shape[axis]) for part in call.result]


@aten("split", "split_with_sizes", "chunk", "tensor_split", "split_copy", "split_with_sizes_copy")
def split(call: Call, x: Tensor, _: Any, axis: int = 0) -> list[Tensor]:
    sizes = _sizes(call, axis)
    return call.g.split(x, sizes, axis) if len(sizes) > 1 else [x]


@aten("unbind", "unbind_copy")
def unbind(call: Call, x: Tensor, axis: int = 0) -> list[Tensor]:
    return call.g.split(x, [1] * len(call.result), axis) if len(call.result) > 1 else [x]


@aten("cat", "concat", "concatenate")
def cat(call: Call, tensors: Sequence[Tensor], axis: int = 0, **_: Any) -> Tensor:
    # As in PyTorch, vectors without elements are ignored.
    parts = [call.cast(x, call.dtype) for x in tensors if shape_of(x) != [0]]
    if not parts:
        return call.cast(tensors[0], call.dtype)
    return call.g.concat(parts, axis) if len(parts) > 1 else parts[0]


@aten("stack")
def stack(call: Call, tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    return call.g.stack([call.cast(x, call.dtype) for x in tensors], axis)


@aten("flip")
def flip(call: Call, x: Tensor, axes: Sequence[int]) -> Tensor:
    rank = len(shape_of(x))
    turned = {axis % max(rank, 1) for axis in axes}
    if not rank or not turned:
        return x
    return x[tuple(slice(None, None, -1 if axis in turned else None) for axis in range(rank))]


@aten("repeat")
def repeat(call: Call, x: Tensor, counts: Sequence[int]) -> Tensor:
    sizes = shape_of(x)
    wide = call.g.reshape(x, [1] * (len(counts) - len(sizes)) + sizes)
    return call.g.tile(wide, list(counts)) if counts else x


@aten("constant_pad_nd")
def constant_pad(call: Call, x: Tensor, pads: Sequence[int], value: float = 0) -> Tensor:
    rank = len(shape_of(x))
    left, right = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        left[rank - 1 - i], right[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    if min(left + right, default=0) < 0:
        starts = [max(-a, 0) for a in left]
        ends = [size - max(-b, 0) for size, b in zip(shape_of(x), right, strict=True)]
        x = call.g.slice(x, starts, ends)
        left, right = [max(a, 0) for a in left], [max(b, 0) for b in right]
    return call.g.pad(x, left, right, value=value) if any(left + right) else x


def filled(call: Call, value: Any) -> Tensor:
    """Return a constant with the shape and dtype of the call's result, filled with a value."""
    return call.constant(value, call.dtype, call.sizes)


@aten("full", "full_like", "new_full")
def full(call: Call, *arguments: Any, **_: Any) -> Tensor:
    return filled(call, arguments[-1])


@aten("fill")
def fill(call: Call, x: Tensor, value: Any) -> Tensor:
    return call.cast(value, call.dtype)  # type: ignore[no-any-return]


@aten("copy")
def copy(call: Call, x: Tensor, source: Tensor, *_: Any) -> Tensor:
    return source


@aten("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided", "_efficientzerotensor",
      "empty_permuted", "new_empty_strided")  # fmt: skip
def zeros(call: Call, *_: Any, **__: Any) -> Tensor:
    return filled(call, 0)


@aten("ones", "ones_like", "new_ones")
def ones(call: Call, *_: Any, **__: Any) -> Tensor:
    return filled(call, 1)


@aten("scalar_tensor")
def scalar_tensor(call: Call, value: Any, **_: Any) -> Tensor:
    return filled(call, value)


def _places(call: Call, sizes: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    """Return the positions of a strided view's elements in the flattened base tensor.

    Base tensors that are not contiguous are not supported.
    """
    if not call.arguments[0].is_contiguous():
        call.refuse("the base tensor must be contiguous in memory")
    grid = np.indices(tuple(sizes)).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), int)
    return (offset + (np.array(strides).reshape(-1, 1) * grid).sum(0)).astype(np.int64)


@aten("as_strided", "as_strided_copy")
@prims("as_strided")
def as_strided(
    call: Call, x: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Tensor:
    begin = call.arguments[0].storage_offset() if offset is None else offset
    places = _places(call, sizes, strides, begin)
    return call.g.reshape(call.g.gather(call.g.reshape(x, [-1]), call.g.constant(places), 0), call.sizes)


@prims("as_strided_scatter")
def as_strided_scatter(
    call: Call, x: Tensor, source: Tensor, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None
) -> Tensor:
    g, places = call.g, _places(call, sizes, strides, offset or 0)
    flat = g.scatter(g.reshape(source, [-1]), g.constant(places), 0, "set", data=g.reshape(x, [-1]))
    return g.reshape(flat, call.sizes)


@aten("arange")
def arange(call: Call, *bounds: Any, **_: Any) -> Tensor:
    start, step = (bounds[0] if len(bounds) > 1 else 0), (bounds[2] if len(bounds) > 2 else 1)
    values = start + step * np.arange(call.sizes[0])
    return call.g.constant(values.astype(call.dtype.numpy))


@aten.rows({"tril": mnp.tril, "triu": mnp.triu})
def triangle(call: Call, function: Callable[..., Tensor], x: Tensor, diagonal: int = 0) -> Tensor:
    return function(x, k=diagonal)


# --- diagonals, whose two axes are first moved to the end -------------------------------------------------------------
def _to_the_end(call: Call, x: Tensor, a: int, b: int) -> tuple[Tensor, list[int]]:
    """Move axes a and b of a tensor to the end. Return the tensor and its new axis order."""
    rank = len(shape_of(x))
    order = [axis for axis in range(rank) if axis not in (a % rank, b % rank)] + [a % rank, b % rank]
    return (x if order == list(range(rank)) else call.g.transpose(x, order)), order


def _on_diagonal(rows: int, columns: int, offset: int) -> np.ndarray:
    """Return the positions of a diagonal's elements in a matrix that is flattened in row-major order."""
    i, j = np.nonzero(np.eye(rows, columns, offset))
    return (i * columns + j).astype(np.int32)


@aten("diagonal", "diagonal_copy", "linalg_diagonal")
def diagonal(call: Call, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    g, (last, _) = call.g, _to_the_end(call, x, dim1, dim2)
    *front, rows, columns = shape_of(last)
    places = _on_diagonal(rows, columns, offset)
    return g.gather(g.reshape(last, [*front, rows * columns]), g.constant(places), len(front))


@aten("diagonal_scatter")
def diagonal_scatter(call: Call, x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    g, (last, order) = call.g, _to_the_end(call, x, dim1, dim2)
    *front, rows, columns = shape_of(last)
    places = _on_diagonal(rows, columns, offset)
    flat = g.reshape(last, [*front, rows * columns])
    flat = g.scatter(source, g.constant(places), len(front), "set", data=flat)
    found = g.reshape(flat, [*front, rows, columns])
    return g.transpose(found, [order.index(axis) for axis in range(len(order))])


@aten("diagonal_backward")
def diagonal_backward(call: Call, incoming: Tensor, sizes: Sequence[int], offset: int, dim1: int, dim2: int) -> Tensor:
    return diagonal_scatter(call, filled(call, 0), incoming, offset, dim1, dim2)


@aten("diag_embed")
def diag_embed(call: Call, x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    return diagonal_scatter(call, filled(call, 0), x, offset, dim1, dim2)


@composed("diag")
def diag(x: Any, diagonal: int = 0) -> Any:
    return torch.diag_embed(x, diagonal) if x.dim() == 1 else torch.diagonal_copy(x, diagonal)
