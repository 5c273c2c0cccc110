"""Matrix products of integers, which MPSGraph multiplies as real numbers only: exact, and wrapping as their type does.

Where every sum fits the 24 bits of float32 or the 53 of float64, one such product is exact. Of wider integers small
ones are multiplied and summed as they are; large ones are cut into pieces so narrow that the products of pieces fit,
and put together again in integers, which wrap.
"""

from __future__ import annotations

import math

from ..._core import DType, Tensor, float32, float64, int64
from .._registry import Node
from ._compose import cast

MOST_AT_ONCE = 2**15  # products of elements that are kept before they are summed
_EXACT = {24: float32, 53: float64}


def exact_float(terms: int, *limits: int) -> DType | None:
    """The narrower of float32 and float64 that holds sums of so many products of operands up to these limits."""
    largest = terms * math.prod(limits)
    return next((dtype for bits, dtype in _EXACT.items() if 0 <= largest <= 2**bits), None)


def largest(dtype: DType) -> int:
    """The largest absolute value of an integer type."""
    return 1 << (8 * dtype.itemsize - int(dtype.is_signed))


def matmul_of_integers(node: Node, a: Tensor, b: Tensor, limits: tuple[int, int] | None = None) -> Tensor:
    """a @ b of ranks 2 and more, in their dtype. Args: limits, the largest absolute values where they are known."""
    g, dtype = node.g, a.dtype
    terms = node.dims(a)[-1]
    bounds = limits or (largest(a.dtype), largest(b.dtype))
    wide = exact_float(terms, *bounds) if terms >= 0 else None
    if wide is None and 8 * (a.dtype.itemsize + b.dtype.itemsize) <= 32:
        wide = float64  # of 16 bits each: 2^21 terms
    if wide is not None:
        product = g.matrix_multiplication(cast(node, a, wide), cast(node, b, wide))
        fits = terms >= 0 and terms * math.prod(bounds) < largest(dtype)
        return cast(node, product if fits else cast(node, product, int64), dtype)
    if _count(node, a, b) <= MOST_AT_ONCE:
        products = g.multiplication(g.expand_dims(a, node.rank(a)), g.expand_dims(b, node.rank(b) - 2))
        return g.squeeze(g.reduction_sum(products, [-2]), [-2])
    return _by_pieces(node, a, b)


def _count(node: Node, a: Tensor, b: Tensor) -> float:
    """How many products there are; infinitely many when that is not known."""
    sizes, others = node.dims(a), node.dims(b)
    if min(*sizes, *others) < 0:
        return math.inf
    return max(math.prod(sizes[:-2]), math.prod(others[:-2]), 1) * sizes[-2] * sizes[-1] * others[-1]


def _by_pieces(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Pieces i of a and j of b count for 2^(width (i + j)); from the type's width on, nothing is left of them."""
    g, dtype, bits = node.g, a.dtype, 8 * a.dtype.itemsize
    terms = node.dims(a)[-1]
    width = 22 if bits == 64 and 0 <= terms <= 512 else 16  # 53 - 2 width bits for the sum; 16: 2^21 terms
    left, right = _pieces(node, a, width), _pieces(node, b, width)
    total: Tensor | None = None
    for i, piece in enumerate(left):
        for j, other in enumerate(right):
            if width * (i + j) >= bits:
                continue
            product = g.cast(g.matrix_multiplication(piece, other), int64)
            shift = g.constant(width * (i + j), dtype=int64)
            product = g.bitwise_left_shift(product, shift) if i + j else product
            total = product if total is None else g.addition(total, product)
    assert total is not None
    return cast(node, total, dtype)


def _pieces(node: Node, x: Tensor, width: int) -> list[Tensor]:
    """x's bits, so many in a piece, the lowest first, as float64."""
    g, bits = node.g, 8 * x.dtype.itemsize
    x = cast(node, x, int64)
    mask = g.constant(2**width - 1, dtype=int64)
    pieces = []
    for low in range(0, bits, width):
        part = g.bitwise_right_shift(x, g.constant(low, dtype=int64)) if low else x
        pieces.append(g.cast(g.bitwise_and(part, mask), float64))
    return pieces
