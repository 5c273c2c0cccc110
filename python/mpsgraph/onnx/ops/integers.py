"""Exact sums of products of 8-bit integers, computed in float32 because MPSGraph convolves only real numbers.

float32 represents all integers up to 2^24. Each sum is split into blocks that stay below this limit, and the blocks are
added as integers. float64 is not used because not every device supports it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._core import Tensor, int32
from ..building.node import Node
from ._compose import folded

WHOLE = 2**24  # float32 represents every integer up to this limit exactly.
BYTES = (255, 255)  # Maximum absolute values of the two operands, 8-bit integers minus their zero points.


def block_size(limits: tuple[int, int]) -> int:
    """Return the number of products float32 can sum exactly if the operands' absolute values are at most `limits`."""
    return WHOLE // (limits[0] * limits[1])


def in_blocks(node: Node, count: int, block: int, product: Callable[[int, int], Tensor]) -> Tensor:
    """Return the sum of `count` products as int32, computed in blocks of at most `block` products.

    `product(start, length)` returns the sum of one block, which float32 represents exactly.
    """
    blocks = max(1, -(-count // block))
    edges = [count * i // blocks for i in range(blocks + 1)]
    parts = [node.g.cast(product(a, b - a), int32) for a, b in zip(edges, edges[1:], strict=False)]
    return folded(parts, node.g.addition)
