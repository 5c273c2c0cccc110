"""Translations of matmul, einsum, attention, and classify."""

from __future__ import annotations

import math

import numpy as np

from ..._core import Tensor, bool_, float32
from ...errors import GraphError
from .._operation import Call, Results, mil


@mil("linear")
def linear(call: Call) -> Results:
    """Translate linear: x Wᵀ + b."""
    g, x, w = call.g, call.tensor("x"), call.weight("weight")
    y = product(call, x, g.transpose(w, [1, 0]))
    bias = call.optional_weight("bias")
    return y if bias is None else g.addition(y, bias)


@mil("matmul")
def matmul(call: Call) -> Results:
    g = call.g
    given = [(call.weight("x"), call.flag("transpose_x", False)), (call.weight("y"), call.flag("transpose_y", False))]
    x, y = (g.swap_axes(t, -1, -2) if turned and call.rank(t) > 1 else t for t, turned in given)
    return product(call, x, y)


def product(call: Call, x: Tensor, y: Tensor) -> Tensor:
    """Multiply x and y like numpy.matmul: a vector x is treated as a row, and a vector y as a column."""
    g = call.g
    rows, columns = call.rank(x) == 1, call.rank(y) == 1
    x, y = g.expand_dims(x, [0]) if rows else x, g.expand_dims(y, [1]) if columns else y
    if not x.dtype.is_float:  # Integers are multiplied in float32, which is exact below 2^24.
        made = call.cast(g.matrix_multiplication(call.cast(x, float32), call.cast(y, float32)), x.dtype)
    else:
        made = g.matrix_multiplication(x, y)
    gone = [axis for axis, one in ((-2, rows), (-1, columns)) if one]
    return g.squeeze(made, gone) if gone else made


@mil("einsum")
def einsum(call: Call) -> Results:
    """Translate einsum of two operands to one matmul. Letters must not be repeated within a term."""
    g, operands = call.g, call.tensors("values")
    equation = call.text("equation").replace(" ", "")
    terms, arrow, result = equation.partition("->")
    letters = terms.split(",")
    if len(letters) != 2 or len(operands) != 2 or not arrow or any(len(set(t)) != len(t) for t in (*letters, result)):
        call.refuse(f"equation {equation!r} is not supported")
    a, b = letters
    if set(result) - set(a + b) or any(c not in result and (c not in a or c not in b) for c in a + b):
        call.refuse(f"equation {equation!r} is not supported")
    if any(len(term) != call.rank(x) for term, x in zip(letters, operands, strict=True)):
        raise GraphError(
            f"equation {equation!r} does not match the ranks of operands of shapes {[x.shape for x in operands]}"
        )
    batch = [c for c in result if c in a and c in b]
    inner = [c for c in a if c in b and c not in result]
    left, right = [c for c in result if c not in b], [c for c in result if c not in a]
    x = g.transpose(operands[0], [a.index(c) for c in (*batch, *left, *inner)])
    y = g.transpose(operands[1], [b.index(c) for c in (*batch, *inner, *right)])
    sizes = {c: call.dim(t, i) for term, t in zip(letters, operands, strict=True) for i, c in enumerate(term)
             if c not in batch or call.dims(t)[i] != 1}  # fmt: skip

    def folded(t: Tensor, own: list[str], groups: list[list[str]]) -> Tensor:
        lead = [call.dim(t, i) for i in range(len(batch))]
        return call.reshape(t, [*lead, *(call.product(sizes.get(c, 1) for c in group) for group in groups)])

    made = g.matrix_multiplication(folded(x, left, [left, inner]), folded(y, right, [inner, right]))
    lead = [call.dim(made, i) for i in range(len(batch))]
    made = call.reshape(made, [*lead, *(sizes.get(c, 1) for c in (*left, *right))])
    order = [*batch, *left, *right]
    return g.transpose(made, [order.index(c) for c in result])


@mil("scaled_dot_product_attention")
def attention(call: Call) -> Results:
    g = call.g
    query, key, value = (call.tensor(name) for name in ("query", "key", "value"))
    mask = call.optional("attn_mask")
    if mask is not None and mask.dtype == bool_:
        nothing, out = g.constant(0.0, dtype=query.dtype), g.constant(-math.inf, dtype=query.dtype)
        mask = g.select(mask, nothing, out)
    return g.scaled_dot_product_attention(query, key, value, mask)


@mil("classify")
def classify(call: Call) -> Results:
    """Translate classify, which returns the index of the most probable class and the probabilities."""
    g, scores, classes = call.g, call.tensor("probabilities"), call.value("classes")
    rank = call.rank(scores)
    flat = scores if rank == 1 else g.reshape(scores, [-1])
    best = g.squeeze(g.reduction_arg_maximum(flat, 0), [0])
    same = g.identity(flat)
    for tensor in (best, same):
        call.importer.enter_classes(tensor, [v.item() if isinstance(v, np.generic) else v for v in classes])
    return [best, same]
