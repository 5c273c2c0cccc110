"""Export of element-wise arithmetic, comparisons, logic, and activations to MIL."""

from __future__ import annotations

import math

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array, required_shape
from ...interchange.renames import names
from ._writer import Var, Writer, type_name, writes

_FLAGS = ("logical_and", "logical_or", "logical_xor", "logical_nand", "logical_nor", "logical_xnor", "not")


def _is_float(op: Operation, place: int = 0) -> bool:
    return type_name(op.inputs[place].dtype) in ("fp32", "fp16")


def _require_flags(op: Operation) -> None:
    if op.kind in _FLAGS and str(op.inputs[0].dtype) != "bool":
        raise NotExpressible(f"MIL's logical operations support only bool, got {op.inputs[0].dtype}")


@writes.rows(names("mil", "function", "rounding", "inversion"))
@writes.rows({"absolute_square": "square"})
def function(w: Writer, name: str, op: Operation) -> Var:
    """Export a unary operation for which MIL has an equivalent."""
    _require_flags(op)
    x = w[op.inputs[0]]
    if not _is_float(op) and name not in ("identity", "abs", "sign", "square", "logical_not"):
        raise NotExpressible(f"MIL's {name} supports only floating-point types, got {op.inputs[0].dtype}")
    return getattr(w.mb, name)(x=x)


@writes.rows(names("mil", "comparison", "arithmetic", "extremum", "logic", without=("division",)))
@writes.rows({"minimum": "minimum", "maximum": "maximum"})
def binary(w: Writer, name: str, op: Operation) -> Var:
    """Export a binary operation for which MIL has an equivalent."""
    _require_flags(op)
    x, y = w.all(op)
    if str(op.inputs[0].dtype) == "bool" and op.kind not in _FLAGS:
        x, y = (w.mb.cast(x=v, dtype="int32") for v in (x, y))
    return getattr(w.mb, name)(x=x, y=y)


@writes("logical_nand", "logical_nor", "logical_xnor")
def negated(w: Writer, op: Operation) -> Var:
    """Export nand, nor, or xnor as the MIL operation for and, or, or xor, followed by logical_not."""
    _require_flags(op)
    opposite = {"logical_nand": "logical_and", "logical_nor": "logical_or", "logical_xnor": "logical_xor"}[op.kind]
    x, y = w.all(op)
    return w.mb.logical_not(x=getattr(w.mb, opposite)(x=x, y=y))


@writes("division")
def division(w: Writer, op: Operation) -> Var:
    """Export division as MIL's real_div, for floating-point types only.

    MIL has no integer division that rounds toward zero.
    """
    if not _is_float(op):
        raise NotExpressible(
            "the operation divides integers rounding toward zero, which MIL cannot express: cast to float32"
        )
    x, y = w.all(op)
    return w.mb.real_div(x=x, y=y)


@writes("division_no_nan")
def division_no_nan(w: Writer, op: Operation) -> Var:
    """Export a division whose result is 0 where the divisor is 0."""
    x, y = w.all(op)
    zero = w.number(0, op.inputs[0].dtype)
    return w.mb.select(cond=w.mb.equal(x=y, y=zero), a=zero, b=w.mb.real_div(x=x, y=y))


@writes("negative")
def negative(w: Writer, op: Operation) -> Var:
    """Export negation as a multiplication by -1."""
    return w.mb.mul(x=w[op.inputs[0]], y=w.number(-1, op.inputs[0].dtype))


@writes("reciprocal")
def reciprocal(w: Writer, op: Operation) -> Var:
    """Export the reciprocal as 1 / x."""
    return w.mb.real_div(x=w.number(1, op.inputs[0].dtype), y=w[op.inputs[0]])


@writes("reciprocal_square_root", "reverse_square_root")
def reciprocal_square_root(w: Writer, op: Operation) -> Var:
    """Export 1 / sqrt(x) as MIL's rsqrt with epsilon 0. MIL would otherwise add its default epsilon to x."""
    return w.mb.rsqrt(x=w[op.inputs[0]], epsilon=w.number(0, op.inputs[0].dtype))


@writes("logarithm", "logarithm_base2", "logarithm_base10")
def logarithm(w: Writer, op: Operation) -> Var:
    """Export a logarithm as MIL's log with epsilon 0, divided by the natural logarithm of the base."""
    dtype = op.inputs[0].dtype
    y = w.mb.log(x=w[op.inputs[0]], epsilon=w.number(0, dtype))
    base = {"logarithm": None, "logarithm_base2": 2.0, "logarithm_base10": 10.0}[op.kind]
    return w.mb.mul(x=y, y=w.number(1 / math.log(base), dtype)) if base else y


@writes("exponent_base10")
def exponent_base10(w: Writer, op: Operation) -> Var:
    """Export the exponential to base 10 as MIL's pow."""
    return w.mb.pow(x=w.number(10, op.inputs[0].dtype), y=w[op.inputs[0]])


@writes("asinh", "acosh")
def arcs(w: Writer, op: Operation) -> Var:
    """Export acosh as log(x + sqrt(x^2 - 1)), and asinh as sign(x) log(|x| + sqrt(x^2 + 1))."""
    mb, x, dtype = w.mb, w[op.inputs[0]], op.inputs[0].dtype
    one, nothing = w.number(1 if op.kind == "asinh" else -1, dtype), w.number(0, dtype)
    size = mb.abs(x=x) if op.kind == "asinh" else x
    y = mb.log(x=mb.add(x=size, y=mb.sqrt(x=mb.add(x=mb.square(x=x), y=one))), epsilon=nothing)
    return mb.mul(x=mb.sign(x=x), y=y) if op.kind == "asinh" else y


@writes("is_nan", "is_infinite", "is_finite")
def is_finite(w: Writer, op: Operation) -> Var:
    """Export tests for NaN, infinite, and finite values.

    NaN is detected by x != x. The other tests compare |x| with infinity, and such comparisons are false for NaN.
    """
    mb, x, dtype = w.mb, w[op.inputs[0]], op.inputs[0].dtype
    if op.kind == "is_nan":
        return mb.not_equal(x=x, y=x)
    compare = mb.equal if op.kind == "is_infinite" else mb.less
    return compare(x=mb.abs(x=x), y=w.number(math.inf, dtype))


@writes("truncate", "round")
def towards_zero(w: Writer, op: Operation) -> Var:
    """Export truncation as sign(x) floor(|x|), or rounding with ties away from zero as sign(x) floor(|x| + 1/2)."""
    mb, x, dtype = w.mb, w[op.inputs[0]], op.inputs[0].dtype
    size = mb.abs(x=x)
    size = mb.add(x=size, y=w.number(0.5, dtype)) if op.kind == "round" else size
    return mb.mul(x=mb.sign(x=x), y=mb.floor(x=size))


@writes("modulo")
def modulo(w: Writer, op: Operation) -> Var:
    """Export the remainder with the sign of the dividend as a - b trunc(a / b)."""
    if not _is_float(op):
        raise NotExpressible(
            "the operation computes integer remainders with the sign of the dividend, but MIL's remainders have the "
            "sign of the divisor"
        )
    mb, (a, b) = w.mb, w.all(op)
    rest = mb.mod(x=mb.abs(x=a), y=mb.abs(x=b))
    return mb.mul(x=mb.sign(x=a), y=rest)


@writes("clamp")
def clamp(w: Writer, op: Operation) -> Var:
    """Export clamping as MIL's clip if the bounds are constant scalars, and as minimum and maximum otherwise."""
    low, high = (known_array(tensor) for tensor in op.inputs[1:])
    if _is_float(op) and all(v is not None and v.shape == () and np.isfinite(v) for v in (low, high)):
        dtype = op.inputs[0].dtype
        alpha, beta = w.number(low.item(), dtype), w.number(high.item(), dtype)  # type: ignore[union-attr]
        return w.mb.clip(x=w[op.inputs[0]], alpha=alpha, beta=beta)
    x, a, b = w.all(op)
    return w.mb.minimum(x=w.mb.maximum(x=x, y=a), y=b)


@writes("select")
def select(w: Writer, op: Operation) -> Var:
    """Export element-wise selection as MIL's select."""
    condition, a, b = w.all(op)
    return w.mb.select(cond=condition, a=a, b=b)


@writes("cast")
def cast(w: Writer, op: Operation) -> Var:
    """Export a type conversion as MIL's cast, or as a comparison with zero for conversion to bool."""
    x, wanted = w[op.inputs[0]], type_name(op.outputs[0].dtype)
    if type_name(op.inputs[0].dtype) == wanted:
        return w.mb.identity(x=x)
    return w.mb.cast(x=x, dtype=wanted)


@writes("leaky_relu")
def leaky_relu(w: Writer, op: Operation) -> Var:
    """Export leaky ReLU as MIL's leaky_relu for a constant slope, and as MIL's select otherwise."""
    mb, (x, slope) = w.mb, w.all(op)
    known = known_array(op.inputs[1])
    if known is not None and known.shape == ():
        return mb.leaky_relu(x=x, alpha=w.number(known.item(), op.inputs[0].dtype))
    zero = w.number(0, op.inputs[0].dtype)
    return mb.select(cond=mb.less(x=x, y=zero), a=mb.mul(x=x, y=slope), b=x)


@writes("softmax", "log_softmax")
def softmax(w: Writer, op: Operation) -> Var:
    """Export softmax, or log softmax as x minus the logarithm of the sum of exponentials."""
    x, axis = w[op.inputs[0]], int(op.attributes["axis"])
    if op.kind == "softmax":
        return w.mb.softmax(x=x, axis=axis)
    return w.mb.sub(x=x, y=w.mb.reduce_log_sum_exp(x=x, axes=[axis], keep_dims=True))


@writes("softmax_cross_entropy")
def softmax_cross_entropy(w: Writer, op: Operation) -> Var:
    """Export softmax cross-entropy as -sum(labels * log_softmax(source)), optionally reduced to the sum or mean of the
    losses.
    """
    mb, (x, labels) = w.mb, w.all(op)[:2]
    rank = len(required_shape(op.inputs[0]))
    axis = int(op.attributes["axis"]) if "axis" in op.attributes else rank - 1
    logs = mb.sub(x=x, y=mb.reduce_log_sum_exp(x=x, axes=[axis], keep_dims=True))
    losses = mb.mul(x=mb.reduce_sum(x=mb.mul(x=labels, y=logs), axes=[axis], keep_dims=True),
                    y=w.number(-1, op.inputs[0].dtype))  # fmt: skip
    kind = op.attributes["reduction"]
    if kind == "none":
        return losses
    whole = mb.reduce_sum if kind == "sum" else mb.reduce_mean
    return whole(x=losses, keep_dims=False)
