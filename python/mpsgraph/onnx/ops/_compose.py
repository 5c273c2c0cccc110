"""Helper functions, each composed of a few graph operations, that several groups of operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..._core import DType, Tensor, float32, int64
from ...errors import ShapeError
from .._registry import Node

NARROW = ("float16", "bfloat16")
MOST_WHILE_READ = 2**28  # Maximum number of elements of an array whose size is determined by numbers in the file.


def cast(node: Node, x: Tensor, dtype: DType) -> Tensor:
    """Return x converted to a dtype, or x itself if it already has that dtype."""
    return x if x.dtype == dtype else node.g.cast(x, dtype)


def in_float32(node: Node, x: Tensor) -> Tensor:
    """Convert a float16 or bfloat16 tensor to float32, and return other tensors unchanged."""
    return cast(node, x, float32) if str(x.dtype) in NARROW else x


def widely(node: Node, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function to x. For float16 and bfloat16, the function is computed in float32 and the result converted
    back.
    """
    return cast(node, function(in_float32(node, x)), x.dtype)


def in_dtype(node: Node, dtype: DType, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Convert x to a dtype, apply a function, and convert the result back to the dtype of x."""
    return cast(node, function(cast(node, x, dtype)), x.dtype)


def folded(tensors: Sequence[Tensor], function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Combine tensors from left to right with a binary function, as in ((a + b) + c)."""
    return reduce(function, tensors)


def require_few(count: int) -> None:
    """Raise ShapeError if the file requires an array of more than MOST_WHILE_READ elements.

    The check precedes the allocation, because systems that overcommit memory would kill the process later instead of
    raising an error.
    """
    if count > MOST_WHILE_READ:
        raise ShapeError(
            f"importing the file requires an array of {count} elements, but the maximum is {MOST_WHILE_READ}"
        )


def counted(count: int, dtype: Any = np.float64) -> np.ndarray:
    """Return the integers from 0 to count - 1, or raise ShapeError if count is unreasonably large."""
    require_few(count)
    return np.arange(count, dtype=dtype)


def sizes(node: Node, x: Tensor) -> Tensor | list[int]:
    """Return the shape of x, as a list if it is known and as an int64 tensor otherwise."""
    if x.shape is not None and min(x.shape, default=0) >= 0:
        return list(x.shape)
    return node.g.cast(node.g.shape_of(x), int64)


def as_vectors(node: Node, *operands: Tensor) -> tuple[Tensor, ...]:
    """Reshape operands of rank 0 to shape (1,), as torch does for operations along an axis."""
    return tuple(x if node.rank(x) else node.g.reshape(x, (1,)) for x in operands)
