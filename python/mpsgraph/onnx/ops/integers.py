"""Products of integers, which MPSGraph multiplies as real numbers only: exact, and wrapping as their type does.

float32 holds whole numbers up to 2^24. So the terms of a sum are taken in blocks that stay below that, and the blocks
are added up as integers. Integers of more than 8 bits are cut into bytes, each pair of which is such a product, and put
together again by shifts; few ones are multiplied and summed as they are. No float64, which not every device has.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..._core import DType, Tensor, float32, float64, int32, int64
from .._registry import Node
from ._compose import cast, folded

WHOLE = 2**24  # up to here float32 holds every whole number
BYTES = (255, 255)  # the largest absolute values of two operands of 8 bits, less their zero points
MOST_AT_ONCE = 2**15  # products of elements that are kept before they are summed


def block_size(limits: tuple[int, int]) -> int:
    """How many products of two operands up to these limits float32 sums exactly."""
    return WHOLE // (limits[0] * limits[1])


def largest(dtype: DType) -> int:
    """The largest absolute value of an integer type."""
    return 1 << (8 * dtype.itemsize - int(dtype.is_signed))


def in_blocks(node: Node, count: int, block: int, product: Callable[[int, int], Tensor], sums: DType = int32) -> Tensor:
    """The sum of product(start, length), each of real numbers that are whole, over blocks of `count`, as integers."""
    blocks = max(1, -(-count // block))
    edges = [count * i // blocks for i in range(blocks + 1)]
    parts = [node.g.cast(product(a, b - a), sums) for a, b in zip(edges, edges[1:], strict=False)]
    return folded(parts, node.g.addition)


def matmul_of_integers(node: Node, a: Tensor, b: Tensor, limits: tuple[int, int] | None = None) -> Tensor:
    """a @ b of ranks 2 and more, in their dtype. Args: limits, the largest absolute values where they are known."""
    g, dtype = node.g, a.dtype
    terms = max(node.dims(a)[-1], node.dims(b)[-2])
    bounds = limits or (largest(a.dtype), largest(b.dtype))
    if terms >= 0 and bounds[0] * bounds[1] <= 2**16:
        return cast(node, _product(node, g.cast(a, float32), g.cast(b, float32), terms, bounds), dtype)
    if _count(node, a, b) <= MOST_AT_ONCE:
        products = g.multiplication(g.expand_dims(a, node.rank(a)), g.expand_dims(b, node.rank(b) - 2))
        return g.squeeze(g.reduction_sum(products, [-2]), [-2])
    return _by_pieces(node, a, b, terms)


def _product(node: Node, a: Tensor, b: Tensor, terms: int, limits: tuple[int, int], sums: DType = int32) -> Tensor:
    """a @ b of whole real numbers, as integers that wrap."""
    g, last, rows = node.g, node.rank(a) - 1, node.rank(b) - 2

    def of(start: int, length: int) -> Tensor:
        if length == terms:
            return g.matrix_multiplication(a, b)
        return g.matrix_multiplication(g.slice_axis(a, last, start, length), g.slice_axis(b, rows, start, length))

    return in_blocks(node, terms, block_size(limits), of, sums)


def _count(node: Node, a: Tensor, b: Tensor) -> float:
    """How many products there are; infinitely many when that is not known."""
    sizes, others = node.dims(a), node.dims(b)
    if min(*sizes, *others) < 0:
        return math.inf
    return max(math.prod(sizes[:-2]), math.prod(others[:-2]), 1) * sizes[-2] * sizes[-1] * others[-1]


def _by_pieces(node: Node, a: Tensor, b: Tensor, terms: int) -> Tensor:
    """Pieces i of a and j of b count for 2^(width (i + j)); from the type's width on, nothing is left of them.

    Of an unknown number of terms, pieces of 16 bits in float64: exact up to 2^21 terms.
    """
    g, bits = node.g, 8 * a.dtype.itemsize
    width, wide = (8, float32) if terms >= 0 else (16, float64)
    sums = int64 if bits == 64 else int32
    left, right = (_pieces(node, x, width, wide) for x in (a, b))
    total: Tensor | None = None
    for place in range(-(-bits // width)):  # all pairs that count alike
        for i in range(place + 1):
            if terms >= 0:
                product = _product(node, left[i], right[place - i], terms, BYTES, sums)
            else:
                product = g.cast(g.cast(g.matrix_multiplication(left[i], right[place - i]), int64), sums)
            product = g.bitwise_left_shift(product, g.constant(width * place, dtype=sums)) if place else product
            total = product if total is None else g.addition(total, product)
    assert total is not None
    return cast(node, total, a.dtype)


def _pieces(node: Node, x: Tensor, width: int, wide: DType) -> list[Tensor]:
    """x's bits, so many in a piece, the lowest first, as real numbers."""
    g = node.g
    mask = g.constant(2**width - 1, dtype=x.dtype)
    pieces = []
    for low in range(0, 8 * x.dtype.itemsize, width):
        part = g.bitwise_right_shift(x, g.constant(low, dtype=x.dtype)) if low else x
        pieces.append(g.cast(g.bitwise_and(part, mask), wide))
    return pieces
