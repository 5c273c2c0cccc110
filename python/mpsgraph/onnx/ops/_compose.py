"""Small compositions that several groups of operators use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..._core import DType, Tensor, float32, int64
from ...errors import ShapeError
from .._registry import Node

NARROW = ("float16", "bfloat16")
MOST_WHILE_READ = 2**28  # of an array that is made while a file is read, from numbers in it


def cast(node: Node, x: Tensor, dtype: DType) -> Tensor:
    """x in another dtype, or itself."""
    return x if x.dtype == dtype else node.g.cast(x, dtype)


def in_float32(node: Node, x: Tensor) -> Tensor:
    """Half types as float32; others as they are."""
    return cast(node, x, float32) if str(x.dtype) in NARROW else x


def widely(node: Node, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """function(x), of half types with everything in between in float32."""
    return cast(node, function(in_float32(node, x)), x.dtype)


def in_dtype(node: Node, dtype: DType, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """function(x) computed in another dtype, the result in x's own."""
    return cast(node, function(cast(node, x, dtype)), x.dtype)


def folded(tensors: Sequence[Tensor], function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """function over several operands, from the left."""
    return reduce(function, tensors)


def require_few(count: int) -> None:
    """ShapeError when nobody can mean so many elements, before their memory is taken: some systems give it and end the
    process that uses it."""
    if count > MOST_WHILE_READ:
        raise ShapeError(f"{count} elements are computed while the file is read; at most {MOST_WHILE_READ} are taken")


def counted(count: int, dtype: Any = np.float64) -> np.ndarray:
    """0 to count - 1, of a number in the file. Errors: ShapeError when it is too large."""
    require_few(count)
    return np.arange(count, dtype=dtype)


def sizes(node: Node, x: Tensor) -> Tensor | list[int]:
    """x's shape: as ints when it is known, else as an int64 tensor."""
    if x.shape is not None and min(x.shape, default=0) >= 0:
        return list(x.shape)
    return node.g.cast(node.g.shape_of(x), int64)


def as_vectors(node: Node, *operands: Tensor) -> tuple[Tensor, ...]:
    """Operands of rank 0 as vectors of one element, as torch takes them along an axis; others as they are."""
    return tuple(x if node.rank(x) else node.g.reshape(x, (1,)) for x in operands)
