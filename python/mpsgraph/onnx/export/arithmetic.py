"""Export of element-wise arithmetic, comparisons, logic, bit operations, and activations to ONNX."""

from __future__ import annotations

import math

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible
from ...interchange.renames import names
from ._writer import Writer, writes

_BOOLEAN = ("And", "Or", "Xor", "Not")
_GROUPS = ("function", "rounding", "comparison", "arithmetic", "extremum", "logic", "inversion", "bits", "test")


@writes.rows(names("onnx", *_GROUPS))
@writes.rows({"select": "Where"})
def same_meaning(w: Writer, name: str, op: Operation) -> str:
    """Export an operation for which ONNX has an equivalent operator."""
    dtype = str(op.inputs[-1].dtype)
    if name in _BOOLEAN and dtype != "bool":
        raise NotExpressible(f"ONNX's {name} supports only bool, got {dtype}: cast the operands to bool")
    if dtype.startswith("complex"):
        raise NotExpressible(f"ONNX's {name} does not support {dtype}")
    if name == "Sqrt" and "int" in dtype:
        raise NotExpressible(f"ONNX's {name} supports only floating-point types, got {dtype}")
    return w.add(name, *w.all(op))


@writes("minimum", "maximum")
def passing_over_nan(w: Writer, op: Operation) -> str:
    """Export a minimum or maximum that ignores NaN. ONNX's Min and Max cannot be used alone, because they propagate
    NaN.
    """
    a, b = w.all(op)
    plain = w.add("Min" if op.kind == "minimum" else "Max", a, b)
    if "int" in str(op.inputs[0].dtype):
        return plain
    return w.add("Where", w.add("IsNaN", a), b, w.add("Where", w.add("IsNaN", b), a, plain))


@writes("clamp")
def clamp(w: Writer, op: Operation) -> str:
    """Export clamping as Clip for scalar bounds, and as Max and Min for tensor bounds. NaN bounds are ignored."""
    x, low, high = w.all(op)
    scalar = op.inputs[1].shape == () and op.inputs[2].shape == ()
    constant = all(t.operation.kind == "constant" for t in op.inputs[1:])
    if scalar and constant:
        bounds = [t.operation.attributes["value"].numpy().item() for t in op.inputs[1:]]
        if not any(math.isnan(bound) for bound in bounds):
            return w.add("Clip", x, low, high)
    if "int" in str(op.inputs[0].dtype):
        return w.add("Min", w.add("Max", x, low), high)
    above = w.add("Where", w.add("Less", x, low), low, x)
    return w.add("Where", w.add("Greater", above, high), high, above)


@writes("not_equal", "logical_nand", "logical_nor", "logical_xnor")
def negated(w: Writer, op: Operation) -> str:
    """Export not_equal, nand, nor, or xnor as the opposite ONNX operator, followed by Not."""
    opposite = {"not_equal": "Equal", "logical_nand": "And", "logical_nor": "Or", "logical_xnor": "Xor"}[op.kind]
    if opposite != "Equal" and str(op.inputs[0].dtype) != "bool":
        raise NotExpressible(f"ONNX's {opposite} supports only bool, got {op.inputs[0].dtype}")
    return w.add("Not", w.add(opposite, *w.all(op)))


@writes("is_finite")
def is_finite(w: Writer, op: Operation) -> str:
    """Export is_finite, a test for values that are neither NaN nor infinite."""
    x = w.name(op.inputs[0])
    return w.add("Not", w.add("Or", w.add("IsNaN", x), w.add("IsInf", x)))


@writes("square")
def square(w: Writer, op: Operation) -> str:
    """Export a square as x * x."""
    x = w.name(op.inputs[0])
    return w.add("Mul", x, x)


@writes("absolute_square")
def absolute_square(w: Writer, op: Operation) -> str:
    """Export an absolute square as x * x, for real numbers only."""
    if str(op.inputs[0].dtype).startswith("complex"):
        raise NotExpressible(f"ONNX's Mul does not support {op.inputs[0].dtype}")
    x = w.name(op.inputs[0])
    return w.add("Mul", x, x)


@writes("reciprocal_square_root", "reverse_square_root")
def reciprocal_square_root(w: Writer, op: Operation) -> str:
    """Export the reciprocal square root as 1 / sqrt(x)."""
    return w.add("Reciprocal", w.add("Sqrt", w.name(op.inputs[0])))


@writes("exponent_base2", "exponent_base10")
def exponent_of_base(w: Writer, op: Operation) -> str:
    """Export an exponential with a constant base as Pow."""
    base = 2.0 if op.kind == "exponent_base2" else 10.0
    return w.add("Pow", w.number(base, op.inputs[0].dtype), w.name(op.inputs[0]))


@writes("logarithm_base2", "logarithm_base10")
def logarithm_of_base(w: Writer, op: Operation) -> str:
    """Export a logarithm with a constant base as log(x) / log(base)."""
    base = 2.0 if op.kind == "logarithm_base2" else 10.0
    return w.add("Div", w.add("Log", w.name(op.inputs[0])), w.number(math.log(base), op.inputs[0].dtype))


@writes("truncate")
def truncate(w: Writer, op: Operation) -> str:
    """Export truncation as sign(x) floor(|x|)."""
    x = w.name(op.inputs[0])
    return w.add("Mul", w.add("Sign", x), w.add("Floor", w.add("Abs", x)))


@writes("round")
def round_half_away(w: Writer, op: Operation) -> str:
    """Export rounding with ties away from zero as sign(x) floor(|x| + 1/2)."""
    x = w.name(op.inputs[0])
    moved = w.add("Add", w.add("Abs", x), w.number(0.5, op.inputs[0].dtype))
    return w.add("Mul", w.add("Sign", x), w.add("Floor", moved))


@writes("modulo", "floor_modulo")
def modulo(w: Writer, op: Operation) -> str:
    """Export a remainder as Mod, with attribute fmod if the result has the sign of the dividend.

    For results with the sign of the divisor, ONNX supports only integers.
    """
    a, b = w.all(op)
    if op.kind == "modulo":
        return w.add("Mod", a, b, fmod=1)
    if "int" in str(op.inputs[0].dtype):
        return w.add("Mod", a, b)
    return w.add("Sub", a, w.add("Mul", b, w.add("Floor", w.add("Div", a, b))))


@writes("division_no_nan")
def division_no_nan(w: Writer, op: Operation) -> str:
    """Export a division whose result is 0 where the divisor is 0."""
    a, b = w.all(op)
    zero = w.number(0, op.inputs[0].dtype)
    return w.add("Where", w.add("Equal", b, zero), zero, w.add("Div", a, b))


@writes("bitwise_left_shift", "bitwise_right_shift")
def shift(w: Writer, op: Operation) -> str:
    """Export a bit shift as BitShift, which ONNX supports only for unsigned integers."""
    if not str(op.inputs[0].dtype).startswith("uint"):
        raise NotExpressible(f"ONNX's BitShift supports only unsigned integers, got {op.inputs[0].dtype}")
    return w.add("BitShift", *w.all(op), direction="LEFT" if op.kind == "bitwise_left_shift" else "RIGHT")


@writes("leaky_relu")
def leaky_relu(w: Writer, op: Operation) -> str:
    """Export leaky ReLU as LeakyRelu for a constant slope, and as PRelu otherwise."""
    x, slope = op.inputs
    if slope.operation.kind == "constant" and slope.shape == () and str(slope.dtype) != "bfloat16":
        return w.add("LeakyRelu", w.name(x), alpha=float(slope.operation.attributes["value"].numpy()))
    return w.add("PRelu", w.name(x), w.name(slope))


@writes("softmax", "log_softmax")
def softmax(w: Writer, op: Operation) -> str:
    """Export softmax along one axis, or its logarithm, as Softmax or LogSoftmax."""
    return w.add("Softmax" if op.kind == "softmax" else "LogSoftmax", *w.all(op), axis=int(op.attributes["axis"]))


@writes("relu_gradient", "sigmoid_gradient")
def activation_gradient(w: Writer, op: Operation) -> str:
    """Export the gradient of relu or sigmoid, which is the incoming gradient times the derivative."""
    incoming, x = w.all(op)
    dtype = op.inputs[1].dtype
    if op.kind == "relu_gradient":
        positive = w.add("Greater", x, w.number(0, dtype))
        return w.add("Where", positive, incoming, w.number(0, dtype))
    s = w.add("Sigmoid", x)
    return w.add("Mul", incoming, w.add("Mul", s, w.add("Sub", w.number(1, dtype), s)))


@writes("atan2")
def atan2(w: Writer, op: Operation) -> str:
    """Export atan2 as atan(y / x), plus pi with the sign of y where x is negative."""
    y, x = w.all(op)
    dtype = op.inputs[0].dtype
    zero, turn = w.number(0, dtype), w.number(np.pi, dtype)
    principal = w.add("Atan", w.add("Div", y, x))
    upper = w.add("GreaterOrEqual", y, zero)
    left = w.add("Add", principal, w.add("Where", upper, turn, w.add("Neg", turn)))
    upright = w.number(np.pi / 2, dtype)
    on_axis = w.add("Where", w.add("Greater", y, zero), upright, w.add("Neg", upright))
    at_zero = w.add("Where", w.add("Equal", y, zero), zero, on_axis)
    return w.add(
        "Where",
        w.add("Equal", x, zero),
        at_zero,
        w.add("Where", w.add("Less", x, zero), left, principal),
    )
