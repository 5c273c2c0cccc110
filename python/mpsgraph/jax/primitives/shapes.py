"""Translations of broadcast, transpose, static slices, concatenation, padding, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Tensor
from ._table import Equation, dtype_of, primitive, shape


@primitive("broadcast_in_dim")
def broadcast_in_dim(equation: Equation, x: Tensor, *_: Tensor, broadcast_dimensions: Any, **__: Any) -> Tensor:
    sizes = [1] * len(equation.shape)
    words = len(equation.words)
    places = [*broadcast_dimensions, *range(len(sizes) - words, len(sizes))]
    for axis, size in zip(places, shape(x), strict=True):
        sizes[int(axis)] = size
    x = equation.g.reshape(x, sizes) if list(shape(x)) != sizes else x
    return equation.g.broadcast_to(x, equation.shape) if tuple(sizes) != equation.shape else x


@primitive("reshape")
def reshape(equation: Equation, x: Tensor, *_: Tensor, dimensions: Any = None, **__: Any) -> Tensor:
    """Translate reshape, optionally permuting axes first."""
    if dimensions is not None:
        x = transposed(equation, x, [int(axis) for axis in dimensions])
    return equation.g.reshape(x, equation.shape)


@primitive("squeeze", "expand_dims")
def squeeze(_: Equation, x: Tensor, *__: Tensor, **___: Any) -> Tensor:
    return x  # Every result is reshaped to the shape that JAX expects.


@primitive("transpose")
def transpose(equation: Equation, x: Tensor, *, permutation: Any) -> Tensor:
    behind = range(len(permutation), len(shape(x)))
    return transposed(equation, x, [*(int(axis) for axis in permutation), *behind])


def transposed(equation: Equation, x: Tensor, permutation: Sequence[int]) -> Tensor:
    """Permute axes, or return x if the order is unchanged."""
    return x if list(permutation) == list(range(len(permutation))) else equation.g.transpose(x, permutation)


@primitive("rev")
def rev(equation: Equation, x: Tensor, *, dimensions: Any) -> Tensor:
    axes = [int(axis) for axis in dimensions]
    return equation.g.reverse(x, axes) if axes else x


@primitive("slice")
def slice_(equation: Equation, x: Tensor, *, start_indices: Any, limit_indices: Any, strides: Any) -> Tensor:
    words = equation.words
    ones = None if strides is None else [*strides, *[1] * len(words)]
    return sliced(equation, x, [*start_indices, *[0] * len(words)], [*limit_indices, *words], ones)


def sliced(equation: Equation, x: Tensor, starts: Any, ends: Any, strides: Any = None) -> Tensor:
    """Slice x from starts to ends, or return x if the slice covers all of x."""
    starts, ends = [int(v) for v in starts], [int(v) for v in ends]
    strides = [1] * len(starts) if strides is None else [int(v) for v in strides]
    if not any(v for v in starts) and tuple(ends) == shape(x) and all(v == 1 for v in strides):
        return x
    return equation.g.slice(x, starts, ends, strides)


@primitive("concatenate")
def concatenate(equation: Equation, *operands: Tensor, dimension: int) -> Tensor:
    return operands[0] if len(operands) == 1 else equation.g.concat(list(operands), dimension)


@primitive("stack")
def stack(equation: Equation, *operands: Tensor, axis: int = 0, **_: Any) -> Tensor:
    return equation.g.stack(list(operands), axis)


@primitive("unstack")
def unstack(equation: Equation, x: Tensor, *, axis: int = 0, **_: Any) -> list[Tensor]:
    return equation.g.split(x, [1] * shape(x)[axis], axis)


@primitive("split")
def split(equation: Equation, x: Tensor, *, sizes: Any, axis: int) -> list[Tensor]:
    return equation.g.split(x, [int(size) for size in sizes], axis)


@primitive("tile")
def tile(equation: Equation, x: Tensor, *, reps: Any = None, **_: Any) -> Tensor:
    if reps is None:
        equation.refuse("reps is required")
    return equation.g.tile(x, [int(n) for n in reps])


@primitive("pad")
def pad(equation: Equation, x: Tensor, value: Tensor, *, padding_config: Any) -> Tensor:
    return padded(equation, x, value, padding_config)


def padded(equation: Equation, x: Tensor, value: Tensor, config: Sequence[Any]) -> Tensor:
    """Pad x at the borders and between elements. Negative padding crops."""
    g = equation.g
    config = [tuple(int(v) for v in one) for one in config]
    sizes = [size + max(size - 1, 0) * between for size, (_, _, between) in zip(shape(x), config, strict=True)]
    whole = [size + max(low, 0) + max(high, 0) for size, (low, high, _) in zip(sizes, config, strict=True)]
    if list(shape(x)) != whole:
        room = g.broadcast_to(value, whole)
        starts = [max(low, 0) for low, _, _ in config]
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
        empty = 0 in shape(x)
        x = room if empty else g.slice_update_data(room, x, starts, ends, [between + 1 for _, _, between in config])
    starts = [max(-low, 0) for low, _, _ in config]
    ends = [size - max(-high, 0) for size, (_, high, _) in zip(whole, config, strict=True)]
    return sliced(equation, x, starts, [max(end, start) for start, end in zip(starts, ends, strict=True)])


@primitive("iota")
def iota(equation: Equation, *_: Tensor, dtype: Any, shape: Any, dimension: int, **__: Any) -> Tensor:
    return counted(equation, equation.shape, dimension, dtype)


def counted(equation: Equation, sizes: Sequence[int], axis: int, dtype: Any) -> Tensor:
    """Return indices 0, 1, ... along an axis of a shape."""
    kind = dtype_of(dtype)
    line = [1] * len(sizes)
    line[axis] = sizes[axis]
    numbers = np.arange(sizes[axis]).astype(kind.numpy).reshape(line)
    found = equation.g.constant(numbers, dtype=kind)
    return found if list(sizes) == line else equation.g.broadcast_to(found, list(sizes))


@primitive("empty", "empty2")
def empty(equation: Equation, *_: Tensor, **__: Any) -> Tensor:
    return equation.constant(0, equation.dtype, equation.shape)
