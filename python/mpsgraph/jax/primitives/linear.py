"""Translation of dot_general to one batched matmul."""

from __future__ import annotations

import math
from typing import Any

from ..._core import Tensor
from ._table import Equation, primitive, shape
from .elementwise import converted
from .shapes import transposed


@primitive("dot_general")
def dot_general(equation: Equation, x: Tensor, y: Tensor, *, dimension_numbers: Any, **_: Any) -> Tensor:
    """Translate dot_general by merging operand axes to (batch, free, contracted) and (batch, contracted, free)."""
    (over_x, over_y), (batch_x, batch_y) = (
        [[int(axis) for axis in axes] for axes in pair] for pair in dimension_numbers
    )
    g = equation.g
    x, y = (converted(equation, v, equation.dtype) for v in (x, y))
    free_x = [axis for axis in range(len(shape(x))) if axis not in over_x and axis not in batch_x]
    free_y = [axis for axis in range(len(shape(y))) if axis not in over_y and axis not in batch_y]
    batch = [shape(x)[axis] for axis in batch_x]
    rows, columns = [shape(x)[axis] for axis in free_x], [shape(y)[axis] for axis in free_y]
    inner = math.prod(shape(x)[axis] for axis in over_x)
    if inner == 0:
        return equation.constant(0, equation.dtype, equation.shape)
    lead = [math.prod(batch)] if batch else []
    left = g.reshape(transposed(equation, x, [*batch_x, *free_x, *over_x]), [*lead, math.prod(rows), inner])
    right = g.reshape(transposed(equation, y, [*batch_y, *over_y, *free_y]), [*lead, inner, math.prod(columns)])
    return g.matrix_multiplication(left, right)
