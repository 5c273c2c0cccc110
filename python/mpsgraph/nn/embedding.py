"""Embedding, a trained table indexed by integers, and Masking, which marks time steps as padding."""

from __future__ import annotations

from .._checks import Size
from .._core import Tensor
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..errors import DTypeError, GraphError, ShapeError
from .arguments import either
from .initialisers import Initialiser, Normal
from .masks import set_mask
from .module import Module
from .parts import graph_of


class Embedding(Module):
    """Look up a trained vector for each index: output[..., :] = weight[indices[...], :].

    Maps integers of shape (...) from 0 to num_embeddings - 1 to (..., embedding_dim).

    Args:
        num_embeddings: Number of rows of the table.
        embedding_dim: Length of each row.
        padding_index: Index whose vector is always zeros, or None, the default.
        dtype: Element type of the table. Defaults to "float32".
        weight_initialiser: Initializer of the table. Standard normal, as in PyTorch, if None, the default.
        out_of_range: What to do with indices outside the table: "error" (the default) raises, "zeros" returns zeros,
            and "clip" uses the nearest valid index.
        mask_zero: Whether index 0 marks padding for the following layers, as in Keras; the output then carries a mask
            (see nn.masks). Defaults to False.
        padding_idx: Alias of padding_index.

    Attributes:
        weight: (num_embeddings, embedding_dim).

    Raises:
        ShapeError: If padding_index is outside the table, or the input is not 2-D although mask_zero is set.
        DTypeError: If the indices are not integers.
        GraphError: If out_of_range is unknown, or padding_index is passed under both of its names.
        OutOfRangeError: At run time, if an index is outside the table; the message names the index and its position.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.Embedding(1000, 64)(g.placeholder((-1, 20), mg.int32)).shape
        (-1, 20, 64)
    """

    weight: Tensor

    def __init__(
        self,
        num_embeddings: Size,
        embedding_dim: Size,
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
            raise ShapeError(
                f"Embedding: padding_index must be from {-num_embeddings} to {num_embeddings - 1}, got {padding_index}"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_index = None if padding_index is None else padding_index % num_embeddings
        if out_of_range not in ("error", "zeros", "clip"):
            raise GraphError(f'Embedding: out_of_range must be "error", "zeros" or "clip", got {shown(out_of_range)}')
        self.mask_zero = mask_zero
        self.dtype, self.out_of_range = as_dtype(dtype), out_of_range
        self.weight_initialiser = weight_initialiser or Normal(0.0, 1.0)

    def build(self, x: Tensor) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        self.weight = self.add_parameter(
            "weight", x, shape, self.weight_initialiser, dtype=self.dtype, outputs_first=True
        )

    def forward(self, x: Tensor) -> Tensor:
        if not x.dtype.is_integer:
            raise DTypeError(f"Embedding: indices must be integers, got {x.dtype}: cast them to int32 first")
        if self.mask_zero and (x.shape is None or len(x.shape) != 2):
            raise ShapeError(f"Embedding: mask_zero needs 2-D indices (batch, time), got shape {x.shape}")
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
    """Mark time steps as padding where all features equal a given value, like Keras's Masking.

    Takes an input (N, T, ...) of rank 3 or higher and returns it with zeros in these steps and a mask attached (see
    nn.masks).

    Args:
        mask_value: Value that marks padding. Defaults to 0.

    Raises:
        ShapeError: If the input has fewer than 3 axes.

    Example:
        >>> g = mg.Graph()
        >>> y = mg.nn.Masking(-1.0)(g.constant([[[1.0, 2.0], [-1.0, -1.0]]]))
        >>> g.run({}, y).tolist(), g.run({}, mg.nn.mask_of(y)).tolist()
        ([[[1.0, 2.0], [0.0, 0.0]]], [[True, False]])
    """

    def __init__(self, mask_value: float = 0.0) -> None:
        self.mask_value = mask_value

    def forward(self, x: Tensor) -> Tensor:
        if x.shape is None or len(x.shape) < 3:
            raise ShapeError(f"Masking needs at least 3 axes (batch, time, features), got shape {x.shape}")
        g, rank = graph_of(x), len(x.shape)
        differs = g.reduction_or(g.not_equal(x, g.constant(self.mask_value, dtype=x.dtype)), list(range(2, rank)))
        kept = g.select(differs, x, g.constant(0.0, dtype=x.dtype))
        return set_mask(kept, g.squeeze(differs, list(range(2, rank))))
