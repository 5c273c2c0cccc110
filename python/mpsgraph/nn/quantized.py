"""QuantizedLinear and QuantizedEmbedding: layers whose weights are packed at 2 to 8 bits, and the packing itself.

A row of a weight is divided into groups of consecutive inputs, each with a scale and a bias: w = scale * q + bias. The
integers q are packed into words of 32 bits without gaps, the first one in the lowest bits. This is the format of MLX.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._checks import Size
from .._core import Tensor, bfloat16, uint32
from .._display import shown
from .._dtypes import DTypeLike, as_dtype
from ..errors import DTypeError, GraphError, ShapeError
from .embedding import Embedding
from .initialisers import Constant, zeros
from .layers import Linear, size_of
from .module import Module
from .parts import graph_of
from .state import bits_of, wide_of

BITS = (2, 3, 4, 5, 6, 8)
"""Numbers of bits to which an element can be quantized."""
GROUP_SIZES = (32, 64, 128)
"""Numbers of elements that can share a scale and a bias."""


class Packed(NamedTuple):
    """A quantized matrix.

    Attributes:
        words: Packed integers, uint32 (rows, columns * bits / 32).
        scales: Scale of each group, (rows, columns / group_size).
        biases: Bias of each group, with the shape of scales.
    """

    words: np.ndarray
    scales: np.ndarray
    biases: np.ndarray


def check_format(where: str, bits: int, group_size: int) -> None:
    """Raise GraphError if there is no such format."""
    if bits not in BITS or group_size not in GROUP_SIZES:
        raise GraphError(
            f"{where}: bits must be one of {BITS} and group_size one of {GROUP_SIZES}, got {shown(bits)} and "
            f"{shown(group_size)}"
        )


def pack(elements: np.ndarray, bits: int) -> np.ndarray:
    """Pack integers into words.

    Args:
        elements: Integers from 0 to 2^bits - 1, (..., columns). columns must be a multiple of 32.
        bits: Number of bits of an element.

    Returns:
        uint32 (..., columns * bits / 32).

    Example:
        >>> from mpsgraph.nn.quantized import pack
        >>> [hex(word) for word in pack(np.arange(32) % 16, 4)]
        ['0x76543210', '0xfedcba98', '0x76543210', '0xfedcba98']
    """
    each = elements.astype(np.uint8)
    if 8 % bits == 0:  # Bytes hold whole elements.
        count = 8 // bits
        joined = each[..., ::count].copy()
        for i in range(1, count):
            joined |= each[..., i::count] << np.uint8(i * bits)
        return joined.view("<u4").astype(np.uint32, copy=False)
    single = (each[..., None] >> np.arange(bits, dtype=np.uint8)) & np.uint8(1)
    flat = single.reshape(*elements.shape[:-1], elements.shape[-1] * bits)
    return np.packbits(flat, -1, bitorder="little").view("<u4").astype(np.uint32, copy=False)


def unpack(words: np.ndarray, bits: int) -> np.ndarray:
    """Return the integers in words: uint8 (..., columns), the inverse of `pack`.

    Example:
        >>> from mpsgraph.nn.quantized import pack, unpack
        >>> bool((unpack(pack(np.arange(64) % 8, 3), 3) == np.arange(64) % 8).all())
        True
    """
    single = np.unpackbits(np.ascontiguousarray(words, "<u4").view(np.uint8), axis=-1, bitorder="little")
    single = single.reshape(*words.shape[:-1], words.shape[-1] * 32 // bits, bits)
    return np.asarray((single << np.arange(bits, dtype=np.uint8)).sum(-1, dtype=np.uint8))


def quantized(weight: np.ndarray, bits: int, group_size: int, dtype: DTypeLike = "float32") -> Packed:
    """Quantize a matrix, with the scales and biases that MLX chooses.

    The end of a group's range that is farther from 0 is represented exactly, and so is 0.

    Args:
        weight: float32 (rows, columns). columns must be a multiple of group_size.
        bits: Number of bits of an element.
        group_size: Number of elements that share a scale and a bias.
        dtype: Element type of scales and biases; bfloat16 is returned as bits in uint16. Defaults to "float32".

    Returns:
        The words, scales, and biases. The elements are rounded with the scales and biases that are returned.

    Example:
        >>> from mpsgraph.nn.quantized import quantized
        >>> words, scales, biases = quantized(np.linspace(-1, 1, 64, dtype=np.float32)[None], 4, 64)
        >>> words.shape, round(float(scales[0, 0]), 4), float(biases[0, 0])
        ((1, 8), -0.1429, 1.0)
    """
    most = 2**bits - 1
    groups = weight.astype(np.float32).reshape(len(weight), -1, group_size)
    low, high = groups.min(-1), groups.max(-1)
    far = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / most, np.float32(1e-7))
    scale = np.where(far, scale, -scale)
    edge = np.where(far, low, high)
    steps = np.rint(edge / scale)
    scale = np.where(steps != 0, edge / np.where(steps != 0, steps, 1), scale)
    bias = np.where(steps != 0, edge, 0)
    given = as_dtype(dtype)
    if given == bfloat16:
        kept = [bits_of(x.astype(np.float32)) for x in (scale, bias)]
        wide = [wide_of(x) for x in kept]
    else:
        kept = [x.astype(given.numpy) for x in (scale, bias)]
        wide = [x.astype(np.float32) for x in kept]
    divisor = np.where(wide[0] == 0, 1, wide[0])[..., None]
    integers = np.clip(np.rint((groups - wide[1][..., None]) / divisor), 0, most)
    return Packed(pack(integers.reshape(weight.shape), bits), kept[0], kept[1])


class QuantizedLinear(Module):
    """Fully connected layer with a packed weight: x @ dequantized(weight).T + bias.

    Maps an input of shape (..., in_features), rank 2 or higher, to (..., out_features). The packed weight, its scales,
    and its biases are buffers, which are not trained; the gradient passes to the input. A new layer has zero weights:
    load a state, or use `lm.quantize`.

    Args:
        out_features: Number of outputs.
        bias: Whether to add a bias. Defaults to True.
        in_features: Expected number of inputs, a multiple of group_size. Inferred from the first input if None, the
            default.
        bits: Number of bits of an element: 2, 3, 4, 5, 6, or 8. Defaults to 4.
        group_size: Number of inputs that share a scale and a bias: 32, 64, or 128. Defaults to 64.
        dtype: Element type of scales, biases, and bias. None, the default, means the dtype of the first input.

    Attributes:
        weight: Packed elements, uint32 (out_features, in_features * bits / 32).
        scales: (out_features, in_features / group_size).
        biases: (out_features, in_features / group_size), added to the scaled elements.
        bias: (out_features,); absent if bias is False.

    Raises:
        GraphError: If bits or group_size has another value.
        ShapeError: If the last axis of the input is dynamic, differs from in_features, or is not a multiple of
            group_size.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.QuantizedLinear(10, bits=4)(g.placeholder((-1, 128))).shape
        (-1, 10)
    """

    weight: Tensor
    scales: Tensor
    biases: Tensor
    bias: Tensor
    passes_mask = True

    def __init__(
        self,
        out_features: Size,
        *,
        bias: bool = True,
        in_features: Size | None = None,
        bits: int = 4,
        group_size: int = 64,
        dtype: DTypeLike | None = None,
    ) -> None:
        check_format("QuantizedLinear", bits, group_size)
        self.out_features, self.in_features, self.has_bias = out_features, in_features, bias
        self.bits, self.group_size = bits, group_size
        self.dtype = None if dtype is None else as_dtype(dtype)

    def build(self, x: Tensor) -> None:
        inputs = size_of(x, -1, self.in_features, "QuantizedLinear")
        _add_packed(self, x, (self.out_features, inputs), self.dtype)
        if self.has_bias:
            self.bias = self.add_parameter("bias", x, (self.out_features,), zeros, dtype=self.dtype)

    def forward(self, x: Tensor) -> Tensor:
        g = graph_of(x)
        dense = g.dequantize_packed(self.weight, self.scales, self.biases, bits=self.bits, dtype=x.dtype)
        y = x @ g.transpose(dense, (1, 0))
        return y + self.bias if self.has_bias else y


class QuantizedEmbedding(Module):
    """Look up a vector for each index in a packed table. Only the rows that are looked up are unpacked.

    The table, its scales, and its biases are buffers, which are not trained. A new layer has a table of zeros: load a
    state, or use `lm.quantize`.

    Args:
        num_embeddings: Number of rows of the table.
        embedding_dim: Length of each row, a multiple of group_size.
        bits: Number of bits of an element: 2, 3, 4, 5, 6, or 8. Defaults to 4.
        group_size: Number of elements that share a scale and a bias: 32, 64, or 128. Defaults to 64.
        dtype: Element type of the scales, the biases, and the result. Defaults to "float32".
        out_of_range: What to do with indices outside the table: "error" (the default) raises, "zeros" returns zeros,
            and "clip" uses the nearest valid index.

    Attributes:
        weight: Packed elements, uint32 (num_embeddings, embedding_dim * bits / 32).
        scales: (num_embeddings, embedding_dim / group_size).
        biases: (num_embeddings, embedding_dim / group_size), added to the scaled elements.

    Raises:
        GraphError: If bits, group_size, or out_of_range has another value.
        ShapeError: If embedding_dim is not a multiple of group_size.
        DTypeError: If the indices are not integers.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.QuantizedEmbedding(1000, 64)(g.placeholder((-1, 20), mg.int32)).shape
        (-1, 20, 64)
    """

    weight: Tensor
    scales: Tensor
    biases: Tensor

    def __init__(
        self,
        num_embeddings: Size,
        embedding_dim: Size,
        *,
        bits: int = 4,
        group_size: int = 64,
        dtype: DTypeLike = "float32",
        out_of_range: str = "error",
    ) -> None:
        check_format("QuantizedEmbedding", bits, group_size)
        if out_of_range not in ("error", "zeros", "clip"):
            raise GraphError(
                f'QuantizedEmbedding: out_of_range must be "error", "zeros" or "clip", got {shown(out_of_range)}'
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.bits, self.group_size, self.dtype, self.out_of_range = bits, group_size, as_dtype(dtype), out_of_range

    def build(self, x: Tensor) -> None:
        _add_packed(self, x, (self.num_embeddings, self.embedding_dim), self.dtype)

    def forward(self, x: Tensor) -> Tensor:
        if not x.dtype.is_integer:
            raise DTypeError(f"QuantizedEmbedding: indices must be integers, got {x.dtype}: cast them to int32 first")
        g = graph_of(x)
        words = g.gather(self.weight, x, axis=0, out_of_range=self.out_of_range)
        rest = "zeros" if self.out_of_range == "error" else self.out_of_range  # The first gather checks the indices.
        scales, biases = (g.gather(table, x, axis=0, out_of_range=rest) for table in (self.scales, self.biases))
        return g.dequantize_packed(words, scales, biases, bits=self.bits)

    def dense(self) -> Tensor:
        """Return the table as floating-point numbers, (num_embeddings, embedding_dim).

        A matrix product with its transpose, as in a language model's tied head, reads the packed elements.

        Example:
            >>> table = mg.nn.QuantizedEmbedding(100, 64)
            >>> x = table(mg.Graph().placeholder((-1, 20), mg.int32))
            >>> (x @ x.graph.transpose(table.dense(), (1, 0))).shape
            (-1, 20, 100)
        """
        g = graph_of(self.weight)
        return g.dequantize_packed(self.weight, self.scales, self.biases, bits=self.bits)


def _add_packed(layer: QuantizedLinear | QuantizedEmbedding, x: Tensor, shape: tuple[int, int], dtype: object) -> None:
    """Create the buffers of a layer for a weight of the given shape."""
    rows, columns = shape
    if columns % layer.group_size:
        raise ShapeError(
            f"{type(layer).__name__}: rows of {columns} elements cannot be divided into groups of {layer.group_size}: "
            "choose a group_size that divides them, or keep this layer in floating point"
        )
    layer.weight = layer.add_buffer("weight", x, (rows, columns * layer.bits // 32), Constant(0), uint32)
    groups = (rows, columns // layer.group_size)
    kind = x.dtype if dtype is None else as_dtype(dtype)  # type: ignore[arg-type]
    layer.scales = layer.add_buffer("scales", x, groups, zeros, kind)
    layer.biases = layer.add_buffer("biases", x, groups, zeros, kind)


def quantized_like(layer: Module, bits: int, group_size: int) -> QuantizedLinear | QuantizedEmbedding:
    """Return an unbuilt quantized layer that takes the position of an unbuilt Linear or Embedding.

    Raises:
        GraphError: If the layer has an option that quantized layers lack.
    """
    if isinstance(layer, Linear):
        return QuantizedLinear(
            layer.out_features, bias=layer.has_bias, in_features=layer.in_features, bits=bits, group_size=group_size
        )
    assert isinstance(layer, Embedding)
    if layer.padding_index is not None or layer.mask_zero:
        raise GraphError("quantized embeddings have no padding_index and no mask_zero: keep this layer unquantized")
    return QuantizedEmbedding(
        layer.num_embeddings, layer.embedding_dim, bits=bits, group_size=group_size, dtype=layer.dtype,
        out_of_range=layer.out_of_range,
    )  # fmt: skip
