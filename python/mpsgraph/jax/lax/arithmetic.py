"""Lowerings of element-wise arithmetic.

Operands broadcast as in NumPy and must have equal dtypes. Operations that round several times compute float16 and
bfloat16 in float32, like mpsgraph's own devices.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...interchange.renames import names
from ._table import Lowering, Step, Value, lowers


def in_float32(function: Lowering) -> Lowering:
    """Wrap a lowering so that float16 and bfloat16 are computed in float32 and rounded once at the end."""

    @functools.wraps(function)
    def computed(*operands: Value) -> Value:
        dtype = operands[0].dtype
        if not is_half(dtype):
            return function(*operands)
        result = function(*(lax.convert_element_type(x, np.float32) for x in operands))
        return result.astype(dtype)

    return computed


def is_half(dtype: Any) -> bool:
    """Return whether a dtype is float16 or bfloat16."""
    return dtype.itemsize == 2 and dtype.kind not in "iu"


def is_padded(size: int) -> bool:
    """Return whether half-precision matmuls on NVIDIA GPUs pad an axis of this size; see matrix.py."""
    return size >= 1024 and size % 8 != 0


def is_float(dtype: Any) -> bool:
    """Return whether a dtype is floating point, including ml_dtypes' bfloat16, which has NumPy kind V."""
    return jnp.issubdtype(dtype, jnp.floating)


def is_complex(dtype: Any) -> bool:
    """Return whether a dtype is complex."""
    return bool(np.dtype(dtype).kind == "c")


def _absolute(x: Value) -> Value:
    if is_complex(x.dtype):
        return jnp.hypot(x.real, x.imag)
    return x if x.dtype.kind == "u" else jnp.abs(x)


def _parts(predicate: Lowering, both: Any) -> Lowering:
    """Extend a predicate to complex numbers: apply it to real and imaginary parts, and combine the results with
    `both`.
    """

    def of(x: Value) -> Value:
        return both(predicate(x.real), predicate(x.imag)) if is_complex(x.dtype) else predicate(x)

    return of


def _exponent_base2(x: Value) -> Value:
    return jnp.exp(x * np.log(2).astype(x.dtype)) if is_complex(x.dtype) else jnp.exp2(x)


def _exponent_base10(x: Value) -> Value:
    return jnp.exp(x * np.log(10).astype(x.dtype)) if is_complex(x.dtype) else jnp.power(np.asarray(10, x.dtype), x)


_NAMED_ALIKE = names("jax", "function", without=("abs", "neg", "square", "rsqrt", "exp2", "erf"))
_UNARY: dict[str, Lowering] = {
    **{kind: in_float32(getattr(jnp, name)) for kind, name in _NAMED_ALIKE.items()},
    "identity": jnp.asarray,
    "conjugate": lambda x: jnp.conj(x) if is_complex(x.dtype) else x,
    "exponent_base2": in_float32(_exponent_base2),
    "exponent_base10": in_float32(_exponent_base10),
    "logarithm_base2": in_float32(lambda x: jnp.log(x) / np.log(2).astype(x.dtype)),
    "logarithm_base10": in_float32(lambda x: jnp.log(x) / np.log(10).astype(x.dtype)),
    "square": lambda x: x * x,
    "reciprocal_square_root": in_float32(lax.rsqrt),
    "reciprocal": in_float32(lambda x: jnp.ones((), x.dtype) / x),
    "absolute": _absolute,
    "absolute_square": lambda x: x.real * x.real + x.imag * x.imag if is_complex(x.dtype) else x * x,
    "negative": jnp.negative,
    "sign": jnp.sign,
    "signbit": lambda x: jnp.signbit(x) if is_float(x.dtype) else x < 0,
    "ceil": jnp.ceil,
    "floor": jnp.floor,
    "round": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "rint": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "truncate": jnp.trunc,
    "erf": in_float32(lax.erf),
    "not": jnp.logical_not,
    "is_infinite": _parts(jnp.isinf, jnp.logical_or),
    "is_finite": _parts(jnp.isfinite, jnp.logical_and),
    "is_nan": _parts(jnp.isnan, jnp.logical_or),
    "bitwise_not": jnp.bitwise_not,
    "bitwise_population_count": lax.population_count,
    "real_part": jnp.real,
    "imaginary_part": jnp.imag,
}


def division(x: Value, y: Value) -> Value:
    """Divide x by y. Integer quotients are rounded toward zero, and an integer divided by 0 is 0."""
    if x.dtype.kind not in "iu":
        return x / y
    return jnp.where(y == 0, jnp.zeros((), x.dtype), _rounded_down(lax.div, x, y))


def _rounded_down(function: Lowering, x: Value, y: Value) -> Value:
    x, y = jnp.broadcast_arrays(x, y)
    return function(x, jnp.where(y == 0, jnp.ones((), y.dtype), y))


def _division_no_nan(x: Value, y: Value) -> Value:
    zero = y == 0
    return jnp.where(zero, jnp.zeros((), x.dtype), division(x, jnp.where(zero, jnp.ones((), y.dtype), y)))


def _modulo(x: Value, y: Value) -> Value:
    """Return the remainder of integer or floating-point division, with the sign of the dividend."""
    x, y = jnp.broadcast_arrays(x, y)
    if x.dtype.kind in "iu":
        return jnp.where(y == 0, jnp.zeros((), x.dtype), _rounded_down(lax.rem, x, y))
    return lax.rem(x, y)


def _floor_modulo(x: Value, y: Value) -> Value:
    """Return the remainder of integer or floating-point division, with the sign of the divisor."""
    remainder = _modulo(x, y)
    moved = (remainder != 0) & ((remainder < 0) != (y < 0))
    return jnp.where(moved, remainder + y, remainder)


def passing_over_nan(function: Lowering) -> Lowering:
    """Wrap a minimum or maximum so that it ignores NaN: where one operand is NaN, the result is the other operand."""

    def other(x: Value, y: Value) -> Value:
        result = function(x, y)
        if not is_float(x.dtype):
            return result
        return jnp.where(jnp.isnan(x), y, jnp.where(jnp.isnan(y), x, result))

    return other


minimum, maximum = passing_over_nan(jnp.minimum), passing_over_nan(jnp.maximum)


def _broadcast(function: Lowering) -> Lowering:
    return lambda *operands: function(*jnp.broadcast_arrays(*operands))


def _right_shift(x: Value, y: Value) -> Value:
    return (lax.shift_right_logical if x.dtype.kind == "u" else lax.shift_right_arithmetic)(x, y)


_BINARY: dict[str, Lowering] = {
    "addition": jnp.add,
    "subtraction": jnp.subtract,
    "multiplication": jnp.multiply,
    "division": division,
    "division_no_nan": _division_no_nan,
    "modulo": _modulo,
    "floor_modulo": _floor_modulo,
    "power": in_float32(jnp.power),
    "minimum": minimum,
    "maximum": maximum,
    "minimum_with_nan_propagation": jnp.minimum,
    "maximum_with_nan_propagation": jnp.maximum,
    "atan2": in_float32(jnp.arctan2),
    "equal": jnp.equal,
    "not_equal": jnp.not_equal,
    "less_than": jnp.less,
    "less_than_or_equal_to": jnp.less_equal,
    "greater_than": jnp.greater,
    "greater_than_or_equal_to": jnp.greater_equal,
    "logical_and": jnp.logical_and,
    "logical_or": jnp.logical_or,
    "logical_nand": lambda x, y: ~(x & y),
    "logical_nor": lambda x, y: ~(x | y),
    "logical_xor": jnp.logical_xor,
    "logical_xnor": lambda x, y: ~(x ^ y),
    "bitwise_and": jnp.bitwise_and,
    "bitwise_or": jnp.bitwise_or,
    "bitwise_xor": jnp.bitwise_xor,
    "bitwise_left_shift": _broadcast(lax.shift_left),
    "bitwise_right_shift": _broadcast(_right_shift),
    "complex_tensor": _broadcast(lax.complex),
}


@lowers.rows(_UNARY | _BINARY)
def elementwise(_: Step, function: Lowering, *operands: Value) -> Value:
    """Apply an operation to each element."""
    return function(*operands)


@lowers("select")
def select(_: Step, predicate: Value, x: Value, y: Value) -> Value:
    """Return x where the predicate is true, and y elsewhere."""
    return jnp.where(predicate, x, y)


@lowers("clamp")
def clamp(_: Step, x: Value, low: Value, high: Value) -> Value:
    """Compute minimum(maximum(x, low), high), ignoring NaN bounds."""
    return minimum(maximum(x, low), high)


@lowers("optimization_barrier")
def _barrier(step: Step, x: Value, *after: Value) -> Value:
    return lax.optimization_barrier((x, *after))[0]


@lowers("recomputation_begin", "recomputation_end")
def _mark(step: Step) -> tuple[Value, ...]:
    return ()


@lowers("cast")
def cast(step: Step, x: Value) -> Value:
    """Convert to another dtype, truncating fractions and dropping imaginary parts.

    An operand of a matmul is stored in half precision: without the barrier, XLA stores it in float32 if other
    operations read it, too. If its size is padded for the matmul, the padding stores it.
    """
    x = jnp.asarray(x)
    before = step.inputs[0].operation
    if before.kind == "cast" and is_half(step.dtype) and before.inputs[0].dtype == step.outputs[0].dtype:
        return step.trace.value(before.inputs[0])  # bfloat16 to float32 and back
    if is_complex(x.dtype) and not is_complex(step.dtype):
        x = x != 0 if step.dtype == np.bool_ else x.real
    if step.dtype == np.bool_:
        return x != 0
    result = lax.convert_element_type(x, step.dtype)
    is_narrowed = is_half(step.dtype) and x.dtype.itemsize > 2 and x.ndim > 1 and not is_padded(x.shape[-1])
    return lax.optimization_barrier(result) if is_narrowed and step.trace.is_multiplied(step.outputs[0]) else result
