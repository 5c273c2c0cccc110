"""Embedding: rows of a trained table, picked by index."""

from __future__ import annotations

from .._core import Tensor
from .._dtypes import DTypeLike, as_dtype
from .._shown import shown
from ..errors import DTypeError, GraphError, ShapeError
from .initialisers import Initialiser, Normal
from .module import Module, graph_of


class Embedding(Module):
    """A vector for each index: result[..., :] = weight[indices[...], :].

    Args: num_embeddings, the rows of the table; embedding_dim, their length; padding_index, an index whose vector is
    zeros and stays so; dtype, the table's; weight_initialiser, standard normal as in PyTorch when None; out_of_range,
    what becomes of indices outside of the table, as for Graph.gather: "error", "zeros" or "clip". Input integers from 0
    to num_embeddings - 1; result (..., embedding_dim); weight (num_embeddings, embedding_dim). Errors: ShapeError,
    DTypeError, GraphError, OutOfRangeError, which names the index and its position.

    >>> g = mg.Graph()
    >>> mg.nn.Embedding(1000, 64)(g.placeholder((-1, 20), mg.int32)).shape
    (-1, 20, 64)
    """

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        padding_index: int | None = None,
        dtype: DTypeLike = "float32",
        weight_initialiser: Initialiser | None = None,
        out_of_range: str = "error",
    ) -> None:
        if padding_index is not None and not -num_embeddings <= padding_index < num_embeddings:
            raise ShapeError(f"Embedding: padding_index {padding_index} is outside of {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_index = None if padding_index is None else padding_index % num_embeddings
        if out_of_range not in ("error", "zeros", "clip"):
            raise GraphError(f"Embedding: out_of_range is one of error, zeros, clip, got {shown(out_of_range)}")
        self.dtype, self.out_of_range = as_dtype(dtype), out_of_range
        self.weight_initialiser = weight_initialiser or Normal(0.0, 1.0)

    def build(self, x: Tensor) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        self.weight = self.add_parameter("weight", x, shape, self.weight_initialiser, dtype=self.dtype)

    def forward(self, x: Tensor) -> Tensor:
        if not x.dtype.is_integer:
            raise DTypeError(f"Embedding: indices must be integers, came {x.dtype}; cast them to int32 first")
        g = graph_of(x)
        rows = g.gather(self.weight, x, axis=0, out_of_range=self.out_of_range)
        if self.padding_index is None:
            return rows
        used = g.cast(g.expand_dims(g.not_equal(x, self.padding_index), -1), rows.dtype)
        return rows * used

    def describe(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
