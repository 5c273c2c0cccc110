"""Translations of element-wise arithmetic, comparisons, logic, casts, and quantization."""

from __future__ import annotations

from ..._core import DType, Tensor, bool_, float32
from ...interchange.renames import methods, options
from .._operation import Call, Results, mil

_OF_INTEGERS = ("abs", "identity", "logical_not", "sign", "square", "relu")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_TYPES = options("mil", "dtype")
SMALLEST = 1.2e-38  # A smaller epsilon is omitted because Core ML flushes subnormal numbers to zero.


@mil.rows(methods("mil", "function", "rounding", "inversion"))
def function(call: Call, method: str) -> Results:
    """Translate a function of one operand. Integers are computed in float32, except by operations that keep them."""
    x, compute = call.tensor("x"), getattr(call.g, method)
    return compute(x) if x.dtype.is_float or call.name in _OF_INTEGERS else call.in_dtype(float32, x, compute)


@mil.rows(methods("mil", "comparison", "arithmetic", "extremum", "logic", without=("real_div",)))
def binary(call: Call, method: str) -> Results:
    x, y = together(call, "x", "y")
    if call.name in _LOGICAL:
        x, y = call.cast(x, bool_), call.cast(y, bool_)
    made: Tensor = getattr(call.g, method)(x, y)
    return made


def together(call: Call, *names: str) -> list[Tensor]:
    """Convert operands to a common dtype, preferring floating point and then the widest integer."""
    given = [call.weight(name) for name in names]
    common = max((x.dtype for x in given), key=lambda dtype: (dtype.is_float, dtype.itemsize, str(dtype) != "bool"))
    return [call.cast(x, common) for x in given]


@mil("real_div")
def real_div(call: Call) -> Results:
    x, y = together(call, "x", "y")
    if x.dtype.is_float:
        return call.g.division(x, y)
    return call.g.division(call.cast(x, float32), call.cast(y, float32))


@mil("floor_div")
def floor_div(call: Call) -> Results:
    g = call.g
    x, y = together(call, "x", "y")
    if x.dtype.is_float:
        return g.floor(g.division(x, y))
    # The division is exact, because the remainder has been subtracted.
    return g.division(g.subtraction(x, g.floor_modulo(x, y)), y)


def raised(call: Call, x: Tensor, default: float) -> Tensor:
    """Return x plus the operation's epsilon, or x itself if epsilon is negligibly small."""
    epsilon = call.number("epsilon", default)
    return call.g.addition(x, epsilon) if abs(epsilon) >= SMALLEST else x


@mil("log")
def log(call: Call) -> Results:
    return call.widely(call.tensor("x"), lambda x: call.g.logarithm(raised(call, x, 1e-45)))


@mil("rsqrt")
def rsqrt(call: Call) -> Results:
    return call.widely(call.tensor("x"), lambda x: call.g.reciprocal_square_root(raised(call, x, 1e-12)))


@mil("inverse")
def inverse(call: Call) -> Results:
    return call.widely(call.tensor("x"), lambda x: call.g.reciprocal(raised(call, x, 1e-4)))


@mil("clip")
def clip(call: Call) -> Results:
    return call.g.clamp(call.tensor("x"), call.number("alpha"), call.number("beta"))


@mil("threshold")
def threshold(call: Call) -> Results:
    x, alpha = together(call, "x", "alpha")
    return call.g.maximum_with_nan_propagation(x, alpha)


@mil("select")
def select(call: Call) -> Results:
    a, b = together(call, "a", "b")
    return call.g.select(call.cast(call.tensor("cond"), bool_), a, b)


@mil("cast")
def cast(call: Call) -> Results:
    """Translate cast, which rounds toward zero. Conversion to bool compares with zero."""
    name = call.text("dtype")
    if name == "string":
        call.refuse("conversion to strings is not supported")
    return converted(call, call.tensor("x"), DType(_TYPES.get(name, name)))


def converted(call: Call, x: Tensor, dtype: DType) -> Tensor:
    """Convert x to another dtype. Conversion to bool compares with zero."""
    if dtype == bool_ and x.dtype != bool_:
        return call.g.not_equal(x, call.g.constant(0, dtype=x.dtype))
    return call.cast(x, dtype)


@mil("quantize")
def quantize(call: Call) -> Results:
    x = call.tensor("input")
    call.has("output_dtype")
    scale, zero, axis = _steps(call, x)
    return call.g.quantize(x, scale, zero, dtype=call.text("output_dtype"), axis=axis)


@mil("dequantize")
def dequantize(call: Call) -> Results:
    x = call.tensor("input")
    scale, zero, axis = _steps(call, x)
    return call.g.dequantize(x, scale, zero, dtype=scale.dtype, axis=axis)


def _steps(call: Call, x: Tensor) -> tuple[Tensor, Tensor | int, int | None]:
    scale = call.tensor("scale")
    zero = call.optional("zero_point")
    axis: int | None = call.integer("axis", None)
    if call.rank(scale) == 0:
        axis = None
    elif axis is None:
        call.refuse("axis is required for a vector of scales")
    return scale, 0 if zero is None else zero, axis
