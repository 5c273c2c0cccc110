"""Conversion of GGUF's tensors to float32, or to packed weights where those express the blocks exactly.

Source: the format's description in github.com/ggml-org/ggml, docs/gguf.md, and the layouts in ggml-common.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..nn.quantized import Packed, pack
from ..nn.state import wide_of


@dataclass(frozen=True)
class Block:
    """A type of tensors.

    Attributes:
        name: Name of the type.
        elements: Number of elements in a block.
        bytes: Size of a block in bytes.
        read: Function from blocks, uint8 (blocks, bytes), to float32 (blocks, elements).
    """

    name: str
    elements: int
    bytes: int
    read: Callable[[np.ndarray], np.ndarray]


def _half(data: np.ndarray) -> np.ndarray:
    """Return the float16 numbers in the first two bytes of each row as float32 (rows, 1)."""
    return np.ascontiguousarray(data[:, :2]).view(np.float16).astype(np.float32)


def _nibbles(data: np.ndarray) -> np.ndarray:
    """Return the low halves of all bytes of a row, followed by the high halves."""
    return np.concatenate([data & 15, data >> 4], -1)


def _q8_0(data: np.ndarray) -> np.ndarray:
    return _half(data) * data[:, 2:].view(np.int8)


def _q4_0(data: np.ndarray) -> np.ndarray:
    return _half(data) * (_nibbles(data[:, 2:]).astype(np.int8) - 8)


def _parts_of_q4_k(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the numbers (blocks, 8, 32), and the factors and offsets (blocks, 8) of their groups.

    Each group has a scale and a minimum of 6 bits, which the first 12 bytes pack.
    """
    scale, least = _half(data), _half(data[:, 2:])
    packed = data[:, 4:16].reshape(-1, 3, 4)
    low, high, rest = packed[:, 0], packed[:, 1], packed[:, 2]
    scales = np.concatenate([low & 63, (rest & 15) | (low >> 6 << 4)], 1)
    minima = np.concatenate([high & 63, (rest >> 4) | (high >> 6 << 4)], 1)
    numbers = _nibbles(data[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return numbers, scale * scales, least * minima


def _q4_k(data: np.ndarray) -> np.ndarray:
    numbers, factors, offsets = _parts_of_q4_k(data)
    return np.asarray(factors[..., None] * numbers - offsets[..., None]).reshape(len(data), 256)


def _q6_k(data: np.ndarray) -> np.ndarray:
    """Sixteen groups of 16 numbers of 6 bits, each with a signed scale."""
    low = data[:, :128].reshape(-1, 2, 2, 32)  # Halves of the block, then low and high 32 bytes of each.
    high = data[:, 128:192].reshape(-1, 2, 32)
    quarters = [(low[:, :, i % 2] >> 4 * (i // 2) & 15) | ((high >> 2 * i & 3) << 4) for i in range(4)]
    numbers = np.stack(quarters, 2).astype(np.int8) - 32  # (blocks, halves, quarters, 32)
    scales = data[:, 192:208].view(np.int8).reshape(-1, 16, 1)
    return np.asarray(_half(data[:, 208:])[..., None] * scales * numbers.reshape(-1, 16, 16)).reshape(len(data), 256)


def _plain(dtype: type) -> Callable[[np.ndarray], np.ndarray]:
    return lambda data: data.view(dtype).astype(np.float32)


BLOCKS = {
    0: Block("F32", 1, 4, _plain(np.float32)),
    1: Block("F16", 1, 2, _plain(np.float16)),
    2: Block("Q4_0", 32, 18, _q4_0),
    8: Block("Q8_0", 32, 34, _q8_0),
    12: Block("Q4_K", 256, 144, _q4_k),
    14: Block("Q6_K", 256, 210, _q6_k),
    30: Block("BF16", 1, 2, lambda data: wide_of(data.view(np.uint16))),
}
"""Supported types by their number. Files of the kind Q4_K_M contain Q6_K as well."""


def dequantized(kind: int, shape: tuple[int, ...], data: np.ndarray) -> np.ndarray:
    """Return a tensor as float32.

    Args:
        kind: Number of the type.
        shape: Shape of the tensor.
        data: Bytes of the tensor, uint8.
    """
    block = BLOCKS[kind]
    return block.read(np.ascontiguousarray(data).reshape(-1, block.bytes)).reshape(shape)


def _packed_q4_0(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _nibbles(data[:, 2:]), _half(data), -8 * _half(data)


def _packed_q8_0(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return data[:, 2:] ^ np.uint8(128), _half(data), -128 * _half(data)  # Adds 128 to a signed byte.


def _packed_q4_k(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    numbers, factors, offsets = _parts_of_q4_k(data)
    return numbers, factors, -offsets


GROUP = 32
"""Number of elements that share a scale and a bias in packed weights."""
PACKED = {2: (4, _packed_q4_0), 8: (8, _packed_q8_0), 12: (4, _packed_q4_k)}
"""Number of bits, and function from blocks to integers, scales, and biases, of the types that can stay packed."""


def packed(kind: int, shape: tuple[int, ...], data: np.ndarray) -> Packed:
    """Return a matrix as packed weights with groups of 32.

    Args:
        kind: Number of the type, one of PACKED.
        shape: Shape of the matrix.
        data: Bytes of the tensor, uint8.
    """
    bits, read = PACKED[kind]
    elements, scales, biases = read(np.ascontiguousarray(data).reshape(-1, BLOCKS[kind].bytes))
    groups = (shape[0], shape[1] // GROUP)
    return Packed(pack(elements.reshape(shape), bits), scales.reshape(groups), biases.reshape(groups))
