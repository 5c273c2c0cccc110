"""Lowerings of gather operations; out-of-range indices read zero, and gradients for them are dropped."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from ._windows import adjoint


def as_indices(indices: Value) -> Value:
    """Convert indices to a type that XLA accepts. Unsigned indices too large for that type stay out of range."""
    indices = jnp.asarray(indices)
    if indices.dtype == np.uint32 or indices.dtype == np.uint64:
        largest = np.iinfo(np.int32).max
        return jnp.minimum(indices, np.asarray(largest, indices.dtype)).astype(np.int32)
    return indices if indices.dtype == np.int64 else indices.astype(np.int32)


def along(rank: int, axis: int, indices_rank: int, batch: int) -> lax.GatherDimensionNumbers:
    """Return JAX's dimension numbers for a gather along one axis.

    The result has the batch axes, the axes before the gathered axis, the index axes, and the axes after it, in this
    order.
    """
    inner = indices_rank - batch
    return lax.GatherDimensionNumbers(
        offset_dims=(*range(batch, axis), *range(axis + inner, rank - 1 + inner)),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
    )


def of_vectors(rank: int, depth: int, indices_rank: int, batch: int) -> lax.GatherDimensionNumbers:
    """Return JAX's dimension numbers for a gather by index vectors.

    The vectors index the axes that follow the batch axes. The result has the batch axes, the index axes, and the
    remaining axes, in this order.
    """
    leading, rest = indices_rank - 1, rank - batch - depth
    picked = tuple(range(batch, batch + depth))
    return lax.GatherDimensionNumbers(
        offset_dims=tuple(range(leading, leading + rest)),
        collapsed_slice_dims=picked,
        start_index_map=picked,
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
    )


def one_for_one(rank: int, axis: int) -> lax.GatherDimensionNumbers:
    """Return JAX's dimension numbers for a gather along an axis with a separate index for each element of the
    result.
    """
    others = tuple(i for i in range(rank) if i != axis)
    return lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
    )


def pick(x: Value, indices: Value, numbers: lax.GatherDimensionNumbers) -> Value:
    """Gather elements or slices of x. The last axis of `indices` holds index vectors; out-of-range ones read zero."""
    alone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    sizes = [1 if axis in alone else size for axis, size in enumerate(x.shape)]
    if 0 in x.shape:  # Without elements, there is nothing to gather from.
        kept = [sizes[axis] for axis in range(x.ndim) if axis not in alone]
        return jnp.zeros(_picked_shape(indices.shape[:-1], kept, numbers.offset_dims), x.dtype)
    return lax.gather(x, indices, numbers, sizes, mode=lax.GatherScatterMode.FILL_OR_DROP, fill_value=0)


def _picked_shape(indices: Sequence[int], kept: Sequence[int], offsets: Sequence[int]) -> list[int]:
    rest, own = iter(indices), iter(kept)
    return [next(own) if axis in offsets else next(rest) for axis in range(len(indices) + len(kept))]


def numbers_of(step: Step, data: Sequence[int], indices: Sequence[int]) -> lax.GatherDimensionNumbers:
    """Return JAX's dimension numbers for an operation, which may be any kind of gather or scatter."""
    rank = len(data)
    kind = step.kind.removesuffix("_gradient")
    if kind.endswith("_nd"):
        return of_vectors(rank, indices[-1], len(indices), int(step["batch_dimensions"]))
    axis = int(step["axis"]) % max(rank, 1)
    if kind.endswith("_along_axis"):
        return one_for_one(rank, axis)
    return along(rank, axis, len(indices), int(step.attributes.get("batch_dimensions", 0)))


def with_vectors(step: Step, indices: Value) -> Value:
    """Return indices as index vectors along the last axis, adding an axis of size 1 if the operation has plain
    indices.
    """
    indices = as_indices(indices)
    return indices if step.kind.removesuffix("_gradient").endswith("_nd") else indices[..., None]


@lowers("gather", "gather_nd", "gather_along_axis")
def gather(step: Step, updates: Value, indices: Value) -> Value:
    """Gather the elements or slices at the indices."""
    numbers = numbers_of(step, updates.shape, indices.shape)
    return pick(jnp.asarray(updates), with_vectors(step, indices), numbers)


@lowers("gather_gradient")
def gather_gradient(step: Step, incoming: Value, indices: Value, _: Value) -> Value:
    """Return the gradient of a gather: the sum of the incoming gradients of all results that read the same element."""
    if 0 in step.shape or incoming.size == 0:
        return jnp.zeros(step.shape, step.dtype)
    numbers = numbers_of(step, step.shape, indices.shape)
    vectors = with_vectors(step, indices)
    if np.dtype(incoming.dtype).kind in "iu":
        scatter = scatter_numbers(numbers)
        return lax.scatter_add(
            jnp.zeros(step.shape, step.dtype), vectors, incoming, scatter, mode=lax.GatherScatterMode.FILL_OR_DROP
        )
    return adjoint(lambda x: pick(x, vectors, numbers), step.shape, incoming)


def scatter_numbers(numbers: lax.GatherDimensionNumbers) -> lax.ScatterDimensionNumbers:
    """Return the dimension numbers of the scatter that is the transpose of a gather with the given dimension
    numbers.
    """
    return lax.ScatterDimensionNumbers(
        update_window_dims=numbers.offset_dims,
        inserted_window_dims=numbers.collapsed_slice_dims,
        scatter_dims_to_operand_dims=numbers.start_index_map,
        operand_batching_dims=numbers.operand_batching_dims,
        scatter_indices_batching_dims=numbers.start_indices_batching_dims,
    )


@lowers("one_hot")
def one_hot(step: Step, indices: Value) -> Value:
    """Return one-hot vectors along a new axis: on_value at each index, and off_value elsewhere."""
    shape = step.shape
    axis = int(step["axis"]) % len(shape)
    wanted = jnp.expand_dims(as_indices(indices), axis)
    places = lax.broadcasted_iota(wanted.dtype, shape, axis)
    on, off = (np.asarray(step[key]).astype(step.dtype) for key in ("on_value", "off_value"))
    return jnp.where(places == wanted, on, off)


@lowers("check_indices")
def check_indices(step: Step, indices: Value) -> tuple[Value, ...]:
    """Set a flag in the state if an index is out of range.

    The caller of the program then discards the results.
    """
    lengths = np.asarray(step["lengths"])
    index = as_indices(indices)
    if index.size:
        limits = np.asarray(np.minimum(lengths, np.iinfo(np.int32).max), index.dtype)
        outside = (index < 0) | (index >= (limits if limits.size > 1 else limits[0]))
        for ignored in step["ignored"]:
            outside &= index != np.asarray(ignored, index.dtype)
        trace = step.trace
        trace.state[-1] = trace.state[-1] | jnp.any(outside)
    return ()
