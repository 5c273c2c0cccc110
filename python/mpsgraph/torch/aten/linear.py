"""Translations of matrix products."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ...numpy._products import product
from ._table import Call, aten, shape_of


@aten("mm", "bmm")
def mm(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return call.g.matrix_multiplication(x, y)


@aten("matmul", "mv", "dot", "vdot")
def matmul(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return product(x, y)


@aten("addmm", "baddbmm")
def addmm(call: Call, bias: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    result = call.g.matrix_multiplication(x, y)
    if alpha != 1:
        result = result * call.cast(alpha, call.dtype)
    if beta == 0:
        return result
    return result + (bias if beta == 1 else bias * call.cast(beta, call.dtype))


@aten("linear")
def linear(call: Call, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    sizes = shape_of(x)
    if len(shape_of(weight)) != 2:
        call.refuse("weights must be a matrix, got a vector")
    rows = x if len(sizes) == 2 else call.g.reshape(x, [-1, sizes[-1]])
    result = call.g.matrix_multiplication(rows, call.g.swap_axes(weight, 0, 1))
    return result if bias is None else result + bias
