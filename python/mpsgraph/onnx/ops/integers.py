"""Convolutions of 8-bit integers, which MPSGraph convolves as real numbers only: exact.

float32 holds whole numbers up to 2^24. So the terms of a sum are taken in blocks that stay below that, and the blocks
are added up as integers. No float64, which not every device has.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._core import Tensor, int32
from .._registry import Node
from ._compose import folded

WHOLE = 2**24  # up to here float32 holds every whole number
BYTES = (255, 255)  # the largest absolute values of two operands of 8 bits, less their zero points


def block_size(limits: tuple[int, int]) -> int:
    """How many products of two operands up to these limits float32 sums exactly."""
    return WHOLE // (limits[0] * limits[1])


def in_blocks(node: Node, count: int, block: int, product: Callable[[int, int], Tensor]) -> Tensor:
    """The sum of product(start, length), each of real numbers that are whole, over blocks of `count`, in int32."""
    blocks = max(1, -(-count // block))
    edges = [count * i // blocks for i in range(blocks + 1)]
    parts = [node.g.cast(product(a, b - a), int32) for a, b in zip(edges, edges[1:], strict=False)]
    return folded(parts, node.g.addition)
