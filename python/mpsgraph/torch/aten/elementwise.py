"""Translations of element-wise operations: arithmetic, comparisons and activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._core import Tensor
from ...numpy import _formulas as f
from ._table import Call, aten, stopped

# Maps unary operations to graph methods with other names. They are computed in the dtype of the result.
UNARY = {
    "abs": "absolute",
    "neg": "negative",
    "exp": "exponent",
    "exp2": "exponent_base2",
    "log": "logarithm",
    "log2": "logarithm_base2",
    "log10": "logarithm_base10",
    "sqrt": "square_root",
    "rsqrt": "reciprocal_square_root",
    "reciprocal": "reciprocal",
    "square": "square",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "erf": "erf",
    "sigmoid": "sigmoid",
    "relu": "relu",
}
ROUNDING = {"ceil": "ceil", "floor": "floor", "trunc": "truncate", "fix": "truncate", "round": "rint"}
COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less_than",
    "le": "less_than_or_equal_to",
    "gt": "greater_than",
    "ge": "greater_than_or_equal_to",
}
TESTS = {"isnan": "is_nan", "isinf": "is_infinite", "isfinite": "is_finite", "signbit": "signbit"}
LOGICAL = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}
BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def _unary(method: str) -> Callable[..., Tensor]:
    def function(call: Call, x: Tensor) -> Tensor:
        # abs of complex numbers has a real result, so its operand is not cast.
        x = x if method == "absolute" else call.cast(x, call.dtype)
        if method == "relu" and not x.dtype.is_float:
            return call.g.maximum(x, 0)
        result: Tensor = getattr(call.g, method)(x)
        return result

    return function


for _name, _method in UNARY.items():
    aten(_name)(_unary(_method))


def _rounding(method: str) -> Callable[..., Tensor]:
    def function(call: Call, x: Tensor, *, decimals: int = 0) -> Tensor:
        if decimals and x.dtype.is_float:
            scale = 10.0 ** abs(decimals)
            moved = x * scale if decimals > 0 else x / scale
            moved = getattr(call.g, method)(moved)
            return moved / scale if decimals > 0 else moved * scale
        return getattr(call.g, method)(x) if x.dtype.is_float else call.g.identity(x)

    return function


for _name, _method in ROUNDING.items():
    aten(_name)(_rounding(_method))


def _comparison(method: str) -> Callable[..., Tensor]:
    def function(call: Call, x: Tensor, y: Any) -> Tensor:
        result: Tensor = getattr(call.g, method)(*call.promoted(x, y))
        return result

    return function


for _name, _method in COMPARISONS.items():
    aten(_name)(_comparison(_method))


def _test(method: str) -> Callable[..., Tensor]:
    def function(call: Call, x: Tensor) -> Tensor:
        if x.dtype.is_float or method == "signbit" and str(x.dtype) != "bool":
            return getattr(call.g, method)(x)
        return call.g.constant(method == "is_finite", call.shape, call.dtype)

    return function


for _name, _method in TESTS.items():
    aten(_name)(_test(_method))


def _logical(method: str) -> Callable[..., Tensor]:
    def function(call: Call, x: Tensor, y: Tensor) -> Tensor:
        result: Tensor = getattr(call.g, method)(*(call.cast(v, call.dtype) for v in (x, y)))
        return result

    return function


for _name, _method in LOGICAL.items():
    aten(_name)(_logical(_method))


def _bitwise(word: str) -> Callable[..., Tensor]:
    def function(call: Call, x: Any, y: Any) -> Tensor:
        operands = (call.cast(v, call.dtype) for v in (x, y))
        result: Tensor = getattr(call.g, f"{'logical' if str(call.dtype) == 'bool' else 'bitwise'}_{word}")(*operands)
        return result

    return function


for _name, _method in BITWISE.items():
    aten(_name)(_bitwise(_method))


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


@aten("positive", "alias", "lift_fresh_copy", "lift_fresh", "contiguous")
def same(call: Call, x: Tensor, **_: Any) -> Tensor:
    return x


@aten("clone")
def clone(call: Call, x: Tensor, *, memory_format: Any = None) -> Tensor:
    return x


@aten("_to_copy", "to", "type_as", "_assert_tensor_metadata")
def to_copy(call: Call, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return call.cast(x, call.dtype) if call.result is not None else x


def _sum(call: Call, x: Any, y: Any, alpha: Any, method: str) -> Tensor:
    x, y = (call.cast(v, call.dtype) for v in (x, y))
    if str(call.dtype) == "bool":
        return call.g.logical_or(x, y)
    if alpha != 1:
        y = call.g.multiplication(y, call.cast(alpha, call.dtype))
    result: Tensor = getattr(call.g, method)(x, y)
    return result


@aten("add")
def add(call: Call, x: Any, y: Any, *, alpha: Any = 1) -> Tensor:
    return _sum(call, x, y, alpha, "addition")


@aten("sub")
def sub(call: Call, x: Any, y: Any, *, alpha: Any = 1) -> Tensor:
    return _sum(call, x, y, alpha, "subtraction")


@aten("rsub")
def rsub(call: Call, x: Any, y: Any, alpha: Any = 1) -> Tensor:
    return _sum(call, y, x, alpha, "subtraction")


@aten("mul")
def mul(call: Call, x: Any, y: Any) -> Tensor:
    x, y = (call.cast(v, call.dtype) for v in (x, y))
    return call.g.logical_and(x, y) if str(call.dtype) == "bool" else call.g.multiplication(x, y)


@aten("div", "true_divide")
def div(call: Call, x: Any, y: Any, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode is not None and not call.dtype.is_float:
        return _whole_ratio(call, call.cast(x, call.dtype), call.cast(y, call.dtype), rounding_mode)
    ratio = call.g.division(*(call.cast(v, call.dtype) for v in (x, y)))
    if rounding_mode == "floor":
        return call.g.floor(ratio)
    return call.g.truncate(ratio) if rounding_mode == "trunc" else ratio


def _whole_ratio(call: Call, x: Tensor, y: Tensor, rounding_mode: str) -> Tensor:
    """Divide integers with the requested rounding: subtract the remainder first, so that the division is exact."""
    g = call.g
    rest = g.floor_modulo(x, y) if rounding_mode == "floor" else g.modulo(x, y)
    return g.division(x - rest, y)


@aten("floor_divide")
def floor_divide(call: Call, x: Any, y: Any) -> Tensor:
    return div(call, x, y, rounding_mode="floor")


@aten("remainder")
def remainder(call: Call, x: Any, y: Any) -> Tensor:
    return call.g.floor_modulo(*(call.cast(v, call.dtype) for v in (x, y)))


@aten("fmod")
def fmod(call: Call, x: Any, y: Any) -> Tensor:
    return call.g.modulo(*(call.cast(v, call.dtype) for v in (x, y)))


@aten("pow")
def power(call: Call, x: Any, y: Any) -> Tensor:
    if isinstance(y, (int, float)) and y == 2:
        return call.g.square(call.cast(x, call.dtype))
    if isinstance(y, (int, float)) and y == 0.5:
        return call.g.square_root(call.cast(x, call.dtype))
    return call.g.power(*(call.cast(v, call.dtype) for v in (x, y)))


@aten("atan2")
def atan2(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return call.g.atan2(*(call.cast(v, call.dtype) for v in (x, y)))


@aten("maximum")
def maximum(call: Call, x: Tensor, y: Tensor) -> Tensor:
    x, y = (call.cast(v, call.dtype) for v in (x, y))
    return call.g.logical_or(x, y) if str(call.dtype) == "bool" else call.g.maximum_with_nan_propagation(x, y)


@aten("minimum")
def minimum(call: Call, x: Tensor, y: Tensor) -> Tensor:
    x, y = (call.cast(v, call.dtype) for v in (x, y))
    return call.g.logical_and(x, y) if str(call.dtype) == "bool" else call.g.minimum_with_nan_propagation(x, y)


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
    return call.g.select(condition, call.cast(x, call.dtype), call.cast(y, call.dtype))


@aten("masked_fill")
def masked_fill(call: Call, x: Tensor, mask: Tensor, value: Any) -> Tensor:
    return call.g.select(mask, call.cast(value, call.dtype), x)


@aten("lerp")
def lerp(call: Call, start: Tensor, end: Tensor, weight: Any) -> Tensor:
    return start + call.cast(weight, call.dtype) * (end - start)


@aten("addcmul")
def addcmul(call: Call, x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    product = call.g.multiplication(a, b)
    return x + (product if value == 1 else product * call.cast(value, call.dtype))


@aten("addcdiv")
def addcdiv(call: Call, x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    ratio = call.g.division(a, b)
    return x + (ratio if value == 1 else ratio * call.cast(value, call.dtype))


# --- functions whose plain formula loses digits -----------------------------------------------------------------------
@aten("log1p")
def log1p(call: Call, x: Tensor) -> Tensor:
    return f.log1p(call.g, call.cast(x, call.dtype))


@aten("expm1")
def expm1(call: Call, x: Tensor) -> Tensor:
    return f.expm1(call.g, call.cast(x, call.dtype))


@aten("copysign")
def copysign(call: Call, x: Any, y: Any) -> Tensor:
    return f.copysign(call.g, *(call.cast(v, call.dtype) for v in (x, y)))


@aten("nextafter")
def nextafter(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return f.nextafter(call.g, x, y)


@aten("bitwise_left_shift", "__lshift__")
def left_shift(call: Call, x: Any, y: Any) -> Tensor:
    x, y = (call.cast(v, call.dtype) for v in (x, y))
    return call.g.bitwise_left_shift(x, y)


@aten("bitwise_right_shift", "__rshift__")
def right_shift(call: Call, x: Any, y: Any) -> Tensor:
    x, y = (call.cast(v, call.dtype) for v in (x, y))
    return call.g.bitwise_right_shift(x, y)


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
    below = expm1(call, call.g.minimum(x * float(input_scale), 0.0)) * float(alpha)
    return call.g.select(call.g.greater_than(x, 0.0), x, below) * float(scale)


@aten("softplus")
def softplus(call: Call, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    g, scaled = call.g, x * float(beta)
    above = g.greater_than(scaled, float(threshold))
    bounded = g.select(above, call.cast(0.0, call.dtype), scaled)
    return g.select(above, x, log1p(call, g.exponent(bounded)) / float(beta))


@aten("log_sigmoid")
def log_sigmoid(call: Call, x: Tensor) -> Tensor:
    return call.g.minimum(x, 0.0) - log1p(call, call.g.exponent(-call.g.absolute(x)))


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
    found = softmax(call, x, axis)
    if not x.shape:
        return found
    none = g.reduction_and(g.equal(call.cast(x, call.dtype), -math.inf), axis)
    return g.select(none, call.cast(0.0, call.dtype), found)


@aten("softmax", "_softmax")
def softmax(call: Call, x: Tensor, axis: int, *_: Any, **__: Any) -> Tensor:
    return call.g.softmax(call.cast(x, call.dtype), axis) if x.shape else call.g.constant(1.0, (), call.dtype)


@aten("log_softmax", "_log_softmax")
def log_softmax(call: Call, x: Tensor, axis: int, *_: Any, **__: Any) -> Tensor:
    if not x.shape:
        return call.g.constant(0.0, (), call.dtype)
    return call.g.log_softmax(call.cast(x, call.dtype), axis)
