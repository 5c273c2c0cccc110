"""Translations of matrix products."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ._table import Call, aten, shape_of


def product(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Return the matrix product of x and y."""
    return call.g.matrix_multiplication(x, y)


@aten("mm", "bmm")
def mm(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return product(call, x, y)


@aten("matmul")
def matmul(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Translate matmul. A vector x is treated as a row, and a vector y as a column."""
    rows = call.g.reshape(x, [1, *shape_of(x)]) if len(shape_of(x)) == 1 else x
    columns = call.g.reshape(y, [*shape_of(y), 1]) if len(shape_of(y)) == 1 else y
    return call.g.reshape(product(call, rows, columns), call.shape)


@aten("mv", "dot", "vdot")
def mv(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return matmul(call, x, y)


@aten("addmm", "baddbmm")
def addmm(call: Call, bias: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    result = product(call, x, y)
    if alpha != 1:
        result = result * call.cast(alpha, call.dtype)
    if beta == 0:
        return result
    return result + (bias if beta == 1 else bias * call.cast(beta, call.dtype))


@aten("linear")
def linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    sizes = shape_of(x)
    matrix = (
        call.g.swap_axes(weight, 0, 1)
        if len(shape_of(weight)) == 2
        else call.refuse("weights must be a matrix, got a vector")
    )
    rows = x if len(sizes) == 2 else call.g.reshape(x, [-1, sizes[-1]])
    result = product(call, rows, matrix)
    if bias is not None:
        result = result + bias
    return result if len(sizes) == 2 else call.g.reshape(result, call.shape)
