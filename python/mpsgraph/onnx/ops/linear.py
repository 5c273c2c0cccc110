"""Translations of matmul, Gemm, einsum, and determinants."""

from __future__ import annotations

from collections.abc import Callable

from ..._core import Tensor
from ...errors import ShapeError, UnsupportedError
from ...numpy._einsum import contracted
from ..building.node import Node, Results, operator

MOST_ROWS = 1024  # Maximum number of rows of a matrix whose determinant is computed.


def matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Multiply a and b like numpy.matmul: a vector a is treated as a row, and a vector b as a column."""
    return _as_matrices(node, a, b, node.g.matrix_multiplication)


def matmul_of_bytes(node: Node, a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None) -> Tensor:
    """Multiply 8-bit integers minus their zero points, with exact int32 results.

    A zero point is a scalar, or has one element per row of a or per column of b.
    """
    g = node.g

    def zero_point(zero: Tensor | None, of_rows: bool) -> Tensor | int:
        if zero is None:
            return 0
        if zero.shape == (1,):
            return g.reshape(zero, ())
        return g.expand_dims(zero, 1) if of_rows and node.rank(zero) == 1 else zero

    zeros = zero_point(a_zero, True), zero_point(b_zero, False)
    return _as_matrices(node, a, b, lambda x, y: g.integer_matrix_multiplication(x, y, *zeros))


def _as_matrices(node: Node, a: Tensor, b: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    g = node.g
    rows, columns = node.rank(a) == 1, node.rank(b) == 1
    product = multiply(g.expand_dims(a, 0) if rows else a, g.expand_dims(b, 1) if columns else b)
    rank = node.rank(product)
    drop = ([rank - 2] if rows else []) + ([rank - 1] if columns else [])
    return g.squeeze(product, drop) if drop else product


@operator("MatMul", upto=13)
def matrix_multiplication(node: Node) -> Results:
    return matmul(node, node.tensor(0), node.tensor(1))


def matrices(node: Node) -> tuple[Tensor, Tensor]:
    """Return operands 0 and 1.

    Raises ShapeError if one of them is not a matrix, because Gemm does not support batches.
    """
    a, b = node.tensor(0), node.tensor(1)
    for x in (a, b):
        if x.shape is not None and len(x.shape) != 2:
            raise ShapeError(f"operands of {node.name} must have rank 2, got '{x.name}' of shape {x.shape}")
    return a, b


@operator("Gemm", upto=13)
def general_product(node: Node) -> Results:
    g, (a, b) = node.g, matrices(node)
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    node.without_effect("broadcast")  # Before version 7, Gemm has this attribute, but mpsgraph always broadcasts C.
    if node.attribute("transA", 0):
        a = g.swap_axes(a, 0, 1)
    if node.attribute("transB", 0):
        b = g.swap_axes(b, 0, 1)
    result = matmul(node, a, b)
    result = _scaled(node, result, alpha)
    return g.addition(result, _scaled(node, node.tensor(2), beta)) if node.has(2) else result


def _scaled(node: Node, x: Tensor, factor: float) -> Tensor:
    if factor == 1:
        return x
    if not x.dtype.is_float and factor != int(factor):
        raise UnsupportedError(f"alpha and beta must be integers for operands of type {x.dtype}, got {factor}")
    return node.g.multiplication(x, factor if x.dtype.is_float else int(factor))


@operator("Einsum", upto=28)
def einsum(node: Node) -> Results:
    return contracted(node, node.attribute("equation", ""), node.tensors())


@operator("MatMulInteger", upto=10)
def matmul_integer(node: Node) -> Results:
    return matmul_of_bytes(node, node.tensor(0), node.optional(2), node.tensor(1), node.optional(3))


@operator("Det", upto=22)
def determinant(node: Node) -> Results:
    """Translate Det: apply Gaussian elimination with partial pivoting, and multiply the pivots."""
    g, x = node.g, node.tensor(0)
    n = node.size(x, -1)
    if node.size(x, -2) != n:
        raise ShapeError(f"the last two axes must form square matrices, got shape {x.shape}")
    if n > MOST_ROWS:
        raise UnsupportedError(f"determinants are supported for matrices of at most {MOST_ROWS} rows, got {n}")
    result: Tensor | None = None
    for left in range(n, 0, -1):
        column = g.slice_axis(x, -1, 0, 1)
        chosen = g.one_hot(g.squeeze(g.reduction_arg_maximum(g.absolute(column), -2), [-2, -1]), left, -1, x.dtype)
        chosen = g.expand_dims(chosen, node.rank(chosen))
        pivot_row = g.reduction_sum(g.multiplication(chosen, x), -2)
        pivot = g.slice_axis(pivot_row, -1, 0, 1)
        signed = g.multiplication(pivot, g.subtraction(g.multiplication(g.slice_axis(chosen, -2, 0, 1), 2.0), 1.0))
        result = signed if result is None else g.multiplication(result, signed)
        if left > 1:  # Overwrite the pivot row with the first row, and drop the first row.
            first = g.slice_axis(x, -2, 0, 1)
            x = g.addition(x, g.multiplication(chosen, g.subtraction(first, pivot_row)))
            rest = g.slice_axis(x, -2, 1, left - 1)
            factors = g.division_no_nan(g.slice_axis(rest, -1, 0, 1), pivot)
            x = g.slice_axis(g.subtraction(rest, g.multiplication(factors, pivot_row)), -1, 1, left - 1)
    return g.constant(1, shape=node.shape(x)[:-2], dtype=x.dtype) if result is None else g.squeeze(result, [-2, -1])
