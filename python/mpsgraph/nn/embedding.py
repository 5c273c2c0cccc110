"""Embedding: rows of a trained table, picked by index; Masking: steps that hold a given number are none."""

from __future__ import annotations

from .._core import Tensor
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..errors import DTypeError, GraphError, ShapeError
from .arguments import either
from .initialisers import Initialiser, Normal
from .masks import set_mask
from .module import Module, graph_of


class Embedding(Module):
    """A vector for each index: result[..., :] = weight[indices[...], :].

    Args: num_embeddings, the rows of the table; embedding_dim, their length; padding_index, or padding_idx, an index
    whose vector is zeros and stays so; dtype, the table's; weight_initialiser, standard normal as in PyTorch when None;
    out_of_range, what becomes of indices outside of the table, as for Graph.gather: "error", "zeros" or "clip";
    mask_zero, whether steps of index 0 are none for the layers that follow, as in Keras: the result has a mask
    (nn.masks). Input integers from 0 to num_embeddings - 1; result (..., embedding_dim); weight (num_embeddings,
    embedding_dim). Errors: ShapeError, DTypeError, GraphError, OutOfRangeError, which names the index and its position.

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
        mask_zero: bool = False,
        padding_idx: int | None = None,
    ) -> None:
        padding_index = either("Embedding", "padding_index", padding_index, None, "padding_idx", padding_idx)
        if padding_index is not None and not -num_embeddings <= padding_index < num_embeddings:
            raise ShapeError(f"Embedding: padding_index {padding_index} is outside of {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_index = None if padding_index is None else padding_index % num_embeddings
        if out_of_range not in ("error", "zeros", "clip"):
            raise GraphError(f"Embedding: out_of_range is one of error, zeros, clip, got {shown(out_of_range)}")
        self.mask_zero = mask_zero
        self.dtype, self.out_of_range = as_dtype(dtype), out_of_range
        self.weight_initialiser = weight_initialiser or Normal(0.0, 1.0)

    def build(self, x: Tensor) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        self.weight = self.add_parameter("weight", x, shape, self.weight_initialiser, dtype=self.dtype)

    def forward(self, x: Tensor) -> Tensor:
        if not x.dtype.is_integer:
            raise DTypeError(f"Embedding: indices must be integers, came {x.dtype}; cast them to int32 first")
        if self.mask_zero and (x.shape is None or len(x.shape) != 2):
            raise ShapeError(f"Embedding: with mask_zero indices are (batch, time), their shape is {x.shape}")
        found = self._rows_of(x)
        return set_mask(found, graph_of(x).not_equal(x, 0)) if self.mask_zero else found

    def _rows_of(self, x: Tensor) -> Tensor:
        g = graph_of(x)
        rows = g.gather(self.weight, x, axis=0, out_of_range=self.out_of_range)
        if self.padding_index is None:
            return rows
        used = g.cast(g.expand_dims(g.not_equal(x, self.padding_index), -1), rows.dtype)
        return rows * used


class Masking(Module):
    """Steps whose features all equal a number are none for the layers that follow: Keras's Masking.

    Args: mask_value, the number. Input (N, T, ...), rank 3 or more; the result is the input with zeros in these steps,
    and has a mask (nn.masks). Errors: ShapeError.

    >>> g = mg.Graph()
    >>> y = mg.nn.Masking(-1.0)(g.constant([[[1.0, 2.0], [-1.0, -1.0]]]))
    >>> g.run({}, y).tolist(), g.run({}, mg.nn.mask_of(y)).tolist()
    ([[[1.0, 2.0], [0.0, 0.0]]], [[True, False]])
    """

    def __init__(self, mask_value: float = 0.0) -> None:
        self.mask_value = mask_value

    def forward(self, x: Tensor) -> Tensor:
        if x.shape is None or len(x.shape) < 3:
            raise ShapeError(f"Masking needs an input (batch, time, features), its shape is {x.shape}")
        g, rank = graph_of(x), len(x.shape)
        differs = g.reduction_or(g.not_equal(x, g.constant(self.mask_value, dtype=x.dtype)), list(range(2, rank)))
        kept = g.select(differs, x, g.constant(0.0, dtype=x.dtype))
        return set_mask(kept, g.squeeze(differs, list(range(2, rank))))
