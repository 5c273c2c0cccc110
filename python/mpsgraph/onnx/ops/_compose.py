"""Helper functions, each composed of a few graph operations, that several groups of operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..._core import Tensor, int64
from ...errors import ShapeError
from ..building.node import Node

MOST_WHILE_READ = 2**28  # Maximum number of elements of an array whose size is determined by numbers in the file.


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
