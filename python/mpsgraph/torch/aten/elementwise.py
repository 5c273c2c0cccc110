"""Translations of element-wise operations: arithmetic, comparisons and activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._core import Tensor
from ...interchange.renames import OF_BOOLS, methods
from ...numpy import _formulas as f
from ._table import Call, aten, stopped


@aten.rows(methods("aten", "function", without=("abs", "relu")))
def function(call: Call, method: str, x: Tensor) -> Tensor:
    return getattr(call.g, method)(call.cast(x, call.dtype))  # type: ignore[no-any-return]


@aten("abs")
def absolute(call: Call, x: Tensor) -> Tensor:
    return call.g.absolute(x)  # The absolute values of complex numbers are real.


@aten("relu")
def relu(call: Call, x: Tensor) -> Tensor:
    return call.g.relu(x) if x.dtype.is_float else call.g.maximum(x, 0)


@aten.rows(methods("aten", "rounding"))
def rounding(call: Call, method: str, x: Tensor, *, decimals: int = 0) -> Tensor:
    rounded = getattr(call.g, method)
    if not x.dtype.is_float:
        return call.g.identity(x)
    if not decimals:
        return rounded(x)  # type: ignore[no-any-return]
    scale = 10.0 ** abs(decimals)
    return rounded(x * scale) / scale if decimals > 0 else rounded(x / scale) * scale


@aten.rows(methods("aten", "comparison"))
def comparison(call: Call, method: str, x: Tensor, y: Any) -> Tensor:
    return getattr(call.g, method)(*call.promoted(x, y))  # type: ignore[no-any-return]


@aten.rows(methods("aten", "test"))
def test(call: Call, method: str, x: Tensor) -> Tensor:
    if x.dtype.is_float or method == "signbit" and str(x.dtype) != "bool":
        return getattr(call.g, method)(x)  # type: ignore[no-any-return]
    return call.g.constant(method == "is_finite", call.sizes, call.dtype)


BINARY = methods("aten", "logic", "bits", "extremum", "arithmetic", without=("add", "sub", "div", "pow")) | {
    "fmod": "modulo",
    "atan2": "atan2",
    "bitwise_left_shift": "bitwise_left_shift",
    "__lshift__": "bitwise_left_shift",
    "bitwise_right_shift": "bitwise_right_shift",
    "__rshift__": "bitwise_right_shift",
}


@aten.rows(BINARY)
def binary(call: Call, method: str, x: Any, y: Any) -> Tensor:
    method = OF_BOOLS.get(method, method) if str(call.dtype) == "bool" else method
    return getattr(call.g, method)(*call.casts(x, y))  # type: ignore[no-any-return]


@aten.rows({"log1p": f.log1p, "expm1": f.expm1, "copysign": f.copysign, "nextafter": f.nextafter})
@aten.rows({"cbrt": f.cbrt, "hypot": f.hypot}, domain="prims")
def by_formula(call: Call, formula: Callable[..., Tensor], *operands: Any) -> Tensor:
    return formula(call.g, *call.casts(*operands))


@aten("logical_not")
def logical_not(call: Call, x: Tensor) -> Tensor:
    return call.g.not_(x) if str(x.dtype) == "bool" else call.g.equal(x, 0)


@aten("bitwise_not")
def bitwise_not(call: Call, x: Tensor) -> Tensor:
    return logical_not(call, x) if str(x.dtype) == "bool" else call.g.bitwise_not(x)


@aten("sign")
def sign(call: Call, x: Tensor) -> Tensor:
    return x if str(x.dtype) == "bool" else call.g.sign(x)


@aten("detach")
def detach(call: Call, x: Tensor) -> Tensor:
    return stopped(call, x) if x.dtype.is_float else x


@aten("positive", "alias", "clone", "lift_fresh_copy", "lift_fresh", "contiguous")
def same(call: Call, x: Tensor, **_: Any) -> Tensor:
    return x


@aten("_to_copy", "to", "type_as", "_assert_tensor_metadata")
def to_copy(call: Call, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return call.cast(x, call.dtype) if call.result is not None else x


@aten.rows(methods("aten", "arithmetic", without=("mul", "div", "remainder", "pow")))
def scaled_sum(call: Call, method: str, x: Any, y: Any, *, alpha: Any = 1) -> Tensor:
    x, y = call.casts(x, y)
    if str(call.dtype) == "bool":
        return call.g.logical_or(x, y)
    y = y if alpha == 1 else call.g.multiplication(y, call.cast(alpha, call.dtype))
    return getattr(call.g, method)(x, y)  # type: ignore[no-any-return]


@aten("rsub")
def rsub(call: Call, x: Any, y: Any, alpha: Any = 1) -> Tensor:
    return scaled_sum(call, "subtraction", y, x, alpha=alpha)


@aten("div", "true_divide")
def div(call: Call, x: Any, y: Any, *, rounding_mode: str | None = None) -> Tensor:
    g, (x, y) = call.g, call.casts(x, y)
    if rounding_mode is None:
        return g.division(x, y)
    if call.dtype.is_float:
        return (g.floor if rounding_mode == "floor" else g.truncate)(g.division(x, y))
    # Without the remainder, the division of integers is exact.
    return g.division(x - (g.floor_modulo if rounding_mode == "floor" else g.modulo)(x, y), y)


@aten("floor_divide")
def floor_divide(call: Call, x: Any, y: Any) -> Tensor:
    return div(call, x, y, rounding_mode="floor")


@aten("pow")
def power(call: Call, x: Any, y: Any) -> Tensor:
    if isinstance(y, (int, float)) and y in (2, 0.5):
        return (call.g.square if y == 2 else call.g.square_root)(call.cast(x, call.dtype))
    return call.g.power(*call.casts(x, y))


@aten("clamp", "clamp_min", "clamp_max", "clip")
def clamp(call: Call, x: Tensor, low: Any = None, high: Any = None, **named: Any) -> Tensor:
    low, high = named.get("min", low), named.get("max", high)
    if call.name == "clamp_max":
        low, high = None, low
    x = call.cast(x, call.dtype)
    if low is not None:
        x = call.g.maximum_with_nan_propagation(x, call.cast(low, call.dtype))
    return x if high is None else call.g.minimum_with_nan_propagation(x, call.cast(high, call.dtype))


@aten("where")
def where(call: Call, condition: Tensor, x: Any = None, y: Any = None) -> Tensor:
    if x is None or y is None:
        call.refuse("a condition without values to select is not supported: the result size is known only at run time")
    return call.g.select(condition, *call.casts(x, y))


@aten("masked_fill")
def masked_fill(call: Call, x: Tensor, mask: Tensor, value: Any) -> Tensor:
    return call.g.select(mask, call.cast(value, call.dtype), x)


@aten("lerp")
def lerp(call: Call, start: Tensor, end: Tensor, weight: Any) -> Tensor:
    return start + call.cast(weight, call.dtype) * (end - start)


@aten.rows({"addcmul": "multiplication", "addcdiv": "division"})
def add_combined(call: Call, method: str, x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    combined = getattr(call.g, method)(a, b)
    return x + (combined if value == 1 else combined * call.cast(value, call.dtype))


# --- activations ------------------------------------------------------------------------------------------------------
@aten("gelu")
def gelu(call: Call, x: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (call.g.tanh(inner) + 1.0)
    return x * 0.5 * (call.g.erf(x * math.sqrt(0.5)) + 1.0)


@aten("silu")
def silu(call: Call, x: Tensor) -> Tensor:
    return x * call.g.sigmoid(x)


@aten("leaky_relu")
def leaky_relu(call: Call, x: Tensor, slope: float = 0.01) -> Tensor:
    return call.g.select(call.g.greater_than(x, 0.0), x, x * float(slope))


@aten("hardtanh")
def hardtanh(call: Call, x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    return clamp(call, x, low, high)


@aten("relu6")
def relu6(call: Call, x: Tensor) -> Tensor:
    return clamp(call, x, 0, 6)


@aten("hardsigmoid")
def hardsigmoid(call: Call, x: Tensor) -> Tensor:
    return clamp(call, x + 3.0, 0.0, 6.0) / 6.0


@aten("hardswish")
def hardswish(call: Call, x: Tensor) -> Tensor:
    return x * hardsigmoid(call, x)


@aten("elu")
def elu(call: Call, x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    below = f.expm1(call.g, call.g.minimum(x * float(input_scale), 0.0)) * float(alpha)
    return call.g.select(call.g.greater_than(x, 0.0), x, below) * float(scale)


@aten("softplus")
def softplus(call: Call, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    g, scaled = call.g, x * float(beta)
    above = g.greater_than(scaled, float(threshold))
    bounded = g.select(above, call.cast(0.0, call.dtype), scaled)
    return g.select(above, x, f.log1p(g, g.exponent(bounded)) / float(beta))


@aten("log_sigmoid")
def log_sigmoid(call: Call, x: Tensor) -> Tensor:
    return call.g.minimum(x, 0.0) - f.log1p(call.g, call.g.exponent(-call.g.absolute(x)))


@aten("mish")
def mish(call: Call, x: Tensor) -> Tensor:
    return x * call.g.tanh(softplus(call, x))


@aten("threshold")
def threshold(call: Call, x: Tensor, limit: float, value: float) -> Tensor:
    return call.g.select(call.g.greater_than(x, call.cast(limit, x.dtype)), x, call.cast(value, x.dtype))


@aten("_safe_softmax")
def safe_softmax(call: Call, x: Tensor, axis: int, *_: Any, **__: Any) -> Tensor:
    """Translate _safe_softmax, whose result is 0 in rows in which all elements are -infinity."""
    g = call.g
    found = softmax(call, "softmax", x, axis)
    if not x.shape:
        return found
    none = g.reduction_and(g.equal(call.cast(x, call.dtype), -math.inf), axis)
    return g.select(none, call.cast(0.0, call.dtype), found)


@aten.rows({"softmax": "softmax", "_softmax": "softmax", "log_softmax": "log_softmax", "_log_softmax": "log_softmax"})
def softmax(call: Call, method: str, x: Tensor, axis: int, *_: Any, **__: Any) -> Tensor:
    if not x.shape:
        return call.cast(float(method == "softmax"), call.dtype)  # type: ignore[no-any-return]
    return getattr(call.g, method)(call.cast(x, call.dtype), axis)  # type: ignore[no-any-return]
