"""Translations of element-wise arithmetic, comparison, logic, selection, and casts."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ..._core import DType, Tensor, float32, float64
from ...errors import DTypeError, GraphError
from ...interchange.data_dependent import DataDependent
from ...interchange.renames import methods, versions
from ..building.node import Node, Results, operator
from ..reading.files import dtype_of
from ._compose import folded


# --- one operand ----------------------------------------------------------------------------------------------------
@operator.rows(
    methods("onnx", "function", "inversion", "test", without=("Abs", "Erf", "Relu", "IsInf")), upto=versions("onnx")
)
def function(node: Node, method: str) -> Results:
    result: Tensor = getattr(node.g, method)(node.tensor(0))
    return result


@operator("Abs", upto=13)
def absolute(node: Node) -> Results:
    x = node.tensor(0)
    return x if x.dtype.is_integer and not x.dtype.is_signed else node.g.absolute(x)


@operator.rows(methods("onnx", "rounding"), upto=versions("onnx"))
def rounding(node: Node, method: str) -> Results:
    """Round floating-point numbers, and return integers unchanged."""
    x = node.tensor(0)
    return getattr(node.g, method)(x) if x.dtype.is_float else x


@operator("Erf", upto=13)
def erf(node: Node) -> Results:
    x = node.tensor(0)
    return node.g.erf(x) if x.dtype.is_float else node.in_dtype(float32, x, node.g.erf)


@operator("IsInf", upto=20)
def is_infinite(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    result = g.is_infinite(x)
    if not node.attribute("detect_negative", 1):
        result = g.logical_and(result, g.greater_than(x, 0.0))
    if not node.attribute("detect_positive", 1):
        result = g.logical_and(result, g.less_than(x, 0.0))
    return result


# --- two operands ---------------------------------------------------------------------------------------------------
def pair(node: Node, one_dtype: bool = True) -> tuple[Tensor, Tensor]:
    """Return both operands, aligned for broadcasting.

    Before version 7, broadcasting is optional, and attribute `axis` is the axis of A that B's first axis corresponds
    to.
    """
    g, a, b = node.g, node.tensor(0), node.tensor(1)
    if one_dtype and a.dtype != b.dtype:
        raise DTypeError(f"operands must have the same dtype, got {a.dtype} and {b.dtype}")
    broadcast, placed = node.attribute("broadcast", 0), node.has_attribute("axis")
    if not placed or not broadcast:
        return a, b
    behind = node.rank(a) - node.axis(a, node.attribute("axis")) - node.rank(b)
    if behind < 0:
        raise GraphError(
            f"B has too many axes to be aligned with A from axis {node.attribute('axis')} on: got shapes {b.shape} and "
            f"{a.shape}"
        )
    return a, g.expand_dims(b, [node.rank(b) + i for i in range(behind)]) if behind else b


@operator.rows(methods("onnx", "comparison", "arithmetic", "logic", "bits", without=("Pow",)), upto=versions("onnx"))
def binary(node: Node, method: str) -> Results:
    result: Tensor = getattr(node.g, method)(*pair(node))
    return result


@operator("BitShift", upto=28)
def bit_shift(node: Node) -> Results:
    """Translate BitShift.

    Negative counts and counts beyond the bit width shift out all bits but the sign.
    """
    g, (x, count) = node.g, pair(node)
    directions = {"LEFT": g.bitwise_left_shift, "RIGHT": g.bitwise_right_shift}
    direction, bits = node.attribute("direction"), 8 * x.dtype.itemsize
    if direction not in directions:
        raise GraphError(f"direction must be LEFT or RIGHT, got {direction!r}")
    inside = g.less_than(count, bits)
    if x.dtype.is_signed:
        inside = g.logical_and(inside, g.greater_than_or_equal_to(count, 0))
    zero = g.constant(0, dtype=x.dtype)
    beyond = g.select(g.less_than(x, 0), -1, zero) if x.dtype.is_signed and direction == "RIGHT" else zero
    return g.select(inside, directions[direction](x, g.select(inside, count, 0)), beyond)


@operator("Mod", upto=28)
def modulo(node: Node) -> Results:
    a, b = pair(node)
    if node.attribute("fmod", 0):
        return node.g.modulo(a, b)
    if a.dtype.is_float and node.version < 28:
        raise DTypeError(f"Mod supports {a.dtype} only with fmod=1, got fmod=0: set fmod or use integer operands")
    result = node.g.floor_modulo(a, b)
    if not a.dtype.is_float:
        return result
    # A zero result takes the sign of the divisor.
    zero = node.g.select(node.g.less_than(b, 0.0), -0.0, node.g.constant(0.0, dtype=b.dtype))
    return node.g.select(node.g.equal(result, 0.0), zero, result)


@operator("Pow", upto=15)
def power(node: Node) -> Results:
    """Translate Pow in the dtype of the base.

    A power of an integer with a floating-point exponent is rounded toward zero.
    """
    g, (base, exponent) = node.g, pair(node, one_dtype=False)
    if base.dtype == exponent.dtype:
        return g.power(base, exponent)
    if not base.dtype.is_float and exponent.dtype.is_float:
        whole = _whole_exponent(node, base.dtype)
        if whole is not None:
            return g.power(base, whole)
        wide = float64 if float64 in (base.dtype, exponent.dtype) or base.dtype.itemsize > 2 else float32
        return g.cast(g.power(g.cast(base, wide), g.cast(exponent, wide)), base.dtype)
    if not base.dtype.is_float:
        return g.power(base, g.cast(exponent, base.dtype))
    try:  # Converting integer exponents of 2^24 and above to float32 would lose their parity.
        large = exponent.dtype.itemsize >= 4 and bool((np.abs(node.value(1).astype(np.float64)) >= 2**24).any())
    except DataDependent:
        large = False
    wide = float64 if large or float64 in (base.dtype, exponent.dtype) else float32
    return node.cast(g.power(node.cast(base, wide), node.cast(exponent, wide)), base.dtype)


def _whole_exponent(node: Node, dtype: DType) -> Tensor | None:
    """Return a constant exponent as integers of the given dtype, or None unless all its elements are integers."""
    try:
        value = node.value(1)
    except DataDependent:
        return None
    limits = np.iinfo(str(dtype))
    whole = value.dtype.kind == "f" and bool(((value == np.rint(value)) & (value >= 0) & (value < limits.max)).all())
    return node.g.constant(value.astype(str(dtype)), dtype=dtype) if whole else None


# --- several operands -----------------------------------------------------------------------------------------------
@operator.rows(methods("onnx", "extremum"), upto=versions("onnx"))
def extremum(node: Node, method: str) -> Results:
    return folded(node.tensors(), getattr(node.g, method))


@operator("Sum", upto=13)
def total(node: Node) -> Results:
    tensors = node.tensors()
    return node.cast(folded([node.in_float32(x) for x in tensors], node.g.addition), tensors[0].dtype)


@operator("Mean", upto=13)
def mean(node: Node) -> Results:
    tensors = node.tensors()
    sums = folded([node.in_float32(x) for x in tensors], node.g.addition)
    return node.cast(node.g.division(sums, float(len(tensors))), tensors[0].dtype)


@operator("Where", upto=16)
def where(node: Node) -> Results:
    condition, x, y = node.tensors()
    return node.g.select(condition, x, y)


@operator("Clip", upto=13)
def clip(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    if node.version < 11:
        low: Tensor | float | None = node.attribute("min", -3.4028234663852886e38)
        high: Tensor | float | None = node.attribute("max", 3.4028234663852886e38)
    else:
        low, high = node.optional(1), node.optional(2)
    if low is not None and high is not None:
        return g.clamp(x, low, high)
    if low is not None:
        return g.select(g.less_than(x, low), low, x)
    if high is not None:
        return g.select(g.greater_than(x, high), high, x)
    return x


@operator("Cast", upto=28)
def cast_to(node: Node) -> Results:
    # These attributes affect only 8-bit floats, which the importer rejects.
    node.without_effect("saturate", "round_mode")
    to = node.attribute("to")
    if isinstance(to, str):  # Version 1 gives the type by name.
        return _cast(node, dtype_of(TensorProto.DataType.Value(to), "'to'"))
    return _cast(node, node.dtype_attribute("to"))


@operator("CastLike", upto=25)
def cast_like(node: Node) -> Results:
    node.without_effect("saturate", "round_mode")
    return _cast(node, node.tensor(1).dtype)


@operator("BitCast", upto=26)
def bit_cast(node: Node) -> Results:
    """Translate BitCast, which reinterprets bits as another dtype of the same size."""
    x, dtype = node.tensor(0), node.dtype_attribute("to")
    if x.dtype.itemsize != dtype.itemsize:
        raise DTypeError(f"bits of {x.dtype} cannot be reinterpreted as {dtype}, which has a different size")
    if node.rank(x):
        return node.g.reinterpret_cast(x, dtype)
    return node.g.reshape(node.g.reinterpret_cast(node.g.reshape(x, (1,)), dtype), ())


def _cast(node: Node, dtype: DType) -> Tensor:
    return node.g.cast(node.tensor(0), dtype)
