"""The view of a node that every import translation receives: the graph to add operations to, the name, and refusals.

Each format derives its own view, which adds access to the operands and attributes in the form that the format stores
them. A translation that does not support a node calls `refuse`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from .._core import DType, Tensor, float32
from .._dtypes import as_dtype
from ..errors import UnsupportedError
from ..graph import Graph
from ..numpy._sizes import Sizes


class NodeView:
    """A node of a model in some format, as passed to its translation function.

    Attributes:
        g: The graph that the translation adds operations to.
        name: The name of the node's operation in its format, such as "Relu".
    """

    prefix: ClassVar[str | None] = ""
    """Text before the name in refusals, such as "aten.", or None if the importer names the node in every error."""

    def __init__(self, g: Graph, name: str) -> None:
        self.g, self.name = g, name
        self._read: set[str] = set()

    def refuse(self, why: str) -> NoReturn:
        """Raise an UnsupportedError that names the operation and states why it is not supported."""
        raise UnsupportedError(why if self.prefix is None else f"{self.prefix}{self.name}: {why}")

    # --- attributes ------------------------------------------------------------------------------------------------

    def without_effect(self, *names: str) -> None:
        """Mark attributes as read, because they have no effect in combination with the node's other attributes."""
        self._read.update(names)

    def unread(self, names: Iterable[str]) -> list[str]:
        """Return the attributes among `names` that the translation has neither read nor marked as without effect."""
        return [name for name in names if name not in self._read]

    # --- helpers ---------------------------------------------------------------------------------------------------

    def cast(self, x: Tensor, dtype: DType | str) -> Tensor:
        """Return x converted to a dtype, or x itself if it already has that dtype."""
        dtype = as_dtype(dtype)
        return x if x.dtype == dtype else self.g.cast(x, dtype)

    def constant(self, value: Any, dtype: DType | str, shape: Sequence[int] = ()) -> Tensor:
        """Return a constant of the given dtype and shape whose elements all equal a number."""
        dtype = as_dtype(dtype)
        if dtype.is_complex:
            return self.g.constant(np.full(tuple(shape), value, dtype.numpy))
        kind = float if dtype.is_float else bool if str(dtype) == "bool" else int
        return self.g.constant(kind(value), tuple(shape), dtype)

    def in_float32(self, x: Tensor) -> Tensor:
        """Convert a float16 or bfloat16 tensor to float32, and return other tensors unchanged."""
        return self.g.cast(x, float32) if x.dtype.itemsize == 2 and x.dtype.is_float else x

    def widely(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a function to x. For float16 and bfloat16, the function is computed in float32 and the result converted
        back.
        """
        return self.cast(function(self.in_float32(x)), x.dtype)

    def in_dtype(self, dtype: DType, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Convert x to a dtype, apply a function, and convert the result back to the dtype of x."""
        return self.cast(function(self.cast(x, dtype)), x.dtype)


class SizedNode(NodeView, Sizes):
    """A node of a format whose models can have dynamic dimensions, with queries for the shapes of its operands."""
