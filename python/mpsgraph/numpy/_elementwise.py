"""Element-wise functions of the array API, each a line of a table unless it needs several operations."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import NDArray, Tensor
from ..errors import DTypeError
from . import _formulas as f
from ._operation import cast_to, graph_of, like, operation
from ._promotion import Scalar, floating

Array = NDArray | Tensor
Formula = Callable[..., Tensor]


def _documented(function: Any, name: str, summary: str, parameters: str, result: str, example: str) -> Any:
    """Give a function made from a table its name and docstring."""
    arguments, _, shown = example.partition(" -> ")
    pieces = "\n".join(f"    {line}" for line in parameters.split("; "))
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{summary}\n\nArgs:\n{pieces}\n\nReturns:\n    {result}\n\nRaises:\n"
        "    DTypeError: If a dtype is not supported.\n"
        + ("    ShapeError: If the shapes cannot be broadcast.\n" if ";" in parameters else "")
        + f"\nExample:\n    >>> import mpsgraph.numpy as mnp\n    >>> mnp.{name}({arguments}).tolist()\n    {shown}\n"
    )
    return function


def _require(name: str, x: Tensor, allowed: str) -> None:
    """Raise DTypeError unless the dtype of x is in one of the categories: b(ool), i(nteger), f(loat), c(omplex)."""
    d = x.dtype
    category = "c" if d.is_complex else "f" if d.is_float else "i" if d.is_integer else "b"
    if category not in allowed:
        words = {"b": "bool", "i": "integer", "f": "floating-point", "c": "complex"}
        raise DTypeError(
            f"{name} requires {' or '.join(words[c] for c in allowed)} arrays, got {d}: convert with astype first"
        )


def _unary(name: str, formula: Formula | str, allowed: str, summary: str, example: str) -> Callable[..., Any]:
    """Create a function of one array. Integers become floating-point if only `f` and `c` are allowed."""

    def build(x: Array, /) -> Any:
        assert isinstance(x, Tensor)
        g = graph_of(x)
        if "i" not in allowed and "f" in allowed:
            x = cast_to(x, floating(x.dtype))
        _require(name, x, allowed)
        return getattr(g, formula)(x) if isinstance(formula, str) else formula(g, x)

    words = f"x: Array or tensor. dtype: {_kinds(allowed)}."
    _documented(build, name, summary, words, "An array of the same shape.", example)
    return operation("x")(build)


def _binary(
    name: str, formula: Formula | str, allowed: str, summary: str, example: str, widen: bool = False
) -> Callable[..., Any]:
    """Create a function of two arrays with broadcasting and type promotion."""

    def build(x1: Array | Scalar, x2: Array | Scalar, /) -> Any:
        assert isinstance(x1, Tensor) and isinstance(x2, Tensor)
        g = graph_of(x1)
        if widen:
            x1, x2 = (cast_to(x, floating(x.dtype)) for x in (x1, x2))
        _require(name, x1, allowed)
        return getattr(g, formula)(x1, x2) if isinstance(formula, str) else formula(g, x1, x2)

    words = "x1: First operand, an array, tensor, or number; x2: Second operand."
    result = f"An array of the broadcast shape. dtypes of the operands: {_kinds(allowed)}."
    _documented(build, name, summary, words, result, example)
    return operation("x1", "x2", promote=(0, 1))(build)


def _kinds(allowed: str) -> str:
    words = {"b": "bool", "i": "integer", "f": "floating-point", "c": "complex"}
    return ", ".join(words[c] for c in allowed)


def _parts(method: str) -> Formula:
    """Return a formula that applies a rounding method; integers stay as they are, and complex parts are separate."""

    def formula(g: Any, x: Tensor) -> Any:
        if x.dtype.is_complex:
            return g.complex_tensor(getattr(g, method)(g.real_part(x)), getattr(g, method)(g.imaginary_part(x)))
        return getattr(g, method)(x) if x.dtype.is_float else g.identity(x)

    return formula


def _test(method: str, otherwise: builtins.bool) -> Formula:
    """Return a formula that tests floating-point numbers and has one result for all integers."""

    def formula(g: Any, x: Tensor) -> Any:
        if x.dtype.is_float or x.dtype.is_complex:
            return getattr(g, method)(x)
        return g.equal(x, x) if otherwise else g.not_equal(x, x)

    return formula


def _logical_or_bitwise(word: str) -> Formula:
    def formula(g: Any, x: Tensor, y: Tensor) -> Any:
        return getattr(g, f"{'logical' if x.dtype == _core.bool_ else 'bitwise'}_{word}")(x, y)

    return formula


def _as_bool(method: str) -> Formula:
    return lambda g, x, y: getattr(g, method)(x, y)


def _absolute(g: Any, x: Tensor) -> Any:
    return g.identity(x) if x.dtype.is_integer and not x.dtype.is_signed else g.absolute(x)


def _log1p(g: Any, x: Tensor) -> Any:
    return g.logarithm(x + like(x, 1)) if x.dtype.is_complex else f.log1p(g, x)


def _expm1(g: Any, x: Tensor) -> Any:
    return g.exponent(x) - like(x, 1) if x.dtype.is_complex else f.expm1(g, x)


def _sign(g: Any, x: Tensor) -> Any:
    if x.dtype.is_complex:
        return f.sign_of_complex(g, x)
    if x.dtype.is_integer and not x.dtype.is_signed:
        return g.cast(g.not_equal(x, 0), x.dtype)
    if not x.dtype.is_float:
        return g.sign(x)
    return g.select(g.is_nan(x), x, g.select(g.equal(x, 0.0), like(x, 0), g.sign(x)))


def _signbit(g: Any, x: Tensor) -> Any:
    return g.signbit(x)


def _divide(g: Any, x: Tensor, y: Tensor) -> Any:
    return g.division(x, y)


def _floor_divide(g: Any, x: Tensor, y: Tensor) -> Any:
    if x.dtype.is_integer:  # Without the remainder, the division is exact.
        return g.division(g.subtraction(x, g.floor_modulo(x, y)), y)
    return g.floor(g.division(x, y))


def _imag(g: Any, x: Tensor) -> Any:
    return g.imaginary_part(x) if x.dtype.is_complex else x * like(x, 0)


def _real(g: Any, x: Tensor) -> Any:
    return g.real_part(x) if x.dtype.is_complex else g.identity(x)


def _conj(g: Any, x: Tensor) -> Any:
    return g.conjugate(x) if x.dtype.is_complex else g.identity(x)


def _bitwise_invert(g: Any, x: Tensor) -> Any:
    return g.not_(x) if x.dtype == _core.bool_ else g.bitwise_not(x)


abs = _unary("abs", _absolute, "ifc", "Compute the absolute value of each element.", "[-1.0, 2.0] -> [1.0, 2.0]")
acos = _unary("acos", "acos", "fc", "Compute the inverse cosine of each element, in radians.", "[1.0] -> [0.0]")
acosh = _unary("acosh", "acosh", "fc", "Compute the inverse hyperbolic cosine of each element.", "[1.0] -> [0.0]")
asin = _unary("asin", "asin", "fc", "Compute the inverse sine of each element, in radians.", "[0.0] -> [0.0]")
asinh = _unary("asinh", "asinh", "fc", "Compute the inverse hyperbolic sine of each element.", "[0.0] -> [0.0]")
atan = _unary("atan", "atan", "fc", "Compute the inverse tangent of each element, in radians.", "[0.0] -> [0.0]")
atanh = _unary("atanh", "atanh", "fc", "Compute the inverse hyperbolic tangent of each element.", "[0.0] -> [0.0]")
bitwise_invert = _unary(
    "bitwise_invert", _bitwise_invert, "bi", "Invert the bits of each element.", "[0, 5] -> [-1, -6]"
)
ceil = _unary("ceil", _parts("ceil"), "if", "Round each element up to an integer.", "[1.2, -1.2] -> [2.0, -1.0]")
conj = _unary("conj", _conj, "ifc", "Return the complex conjugate of each element.", "[1 + 2j] -> [(1-2j)]")
cos = _unary("cos", "cos", "fc", "Compute the cosine of each element, in radians.", "[0.0] -> [1.0]")
cosh = _unary("cosh", "cosh", "fc", "Compute the hyperbolic cosine of each element.", "[0.0] -> [1.0]")
exp = _unary("exp", "exponent", "fc", "Compute e to the power of each element.", "[0.0] -> [1.0]")
expm1 = _unary(
    "expm1", _expm1, "fc", "Compute exp(x) - 1 of each element without losing digits near 0.", "[0.0] -> [0.0]"
)
floor = _unary("floor", _parts("floor"), "if", "Round each element down to an integer.", "[1.8, -1.2] -> [1.0, -2.0]")
imag = _unary("imag", _imag, "ifc", "Return the imaginary part of each element.", "[1 + 2j] -> [2.0]")
isfinite = _unary(
    "isfinite", _test("is_finite", True), "bifc", "Test each element for being finite.",
    "[1.0, float('inf')] -> [True, False]",
)  # fmt: skip
isinf = _unary(
    "isinf", _test("is_infinite", False), "bifc", "Test each element for being an infinity.",
    "[1.0, float('inf')] -> [False, True]",
)  # fmt: skip
isnan = _unary(
    "isnan", _test("is_nan", False), "bifc", "Test each element for being NaN.", "[1.0, float('nan')] -> [False, True]"
)
log = _unary("log", "logarithm", "fc", "Compute the natural logarithm of each element.", "[1.0] -> [0.0]")
log1p = _unary("log1p", _log1p, "fc", "Compute log(1 + x) of each element without losing digits.", "[0.0] -> [0.0]")
log2 = _unary("log2", "logarithm_base2", "fc", "Compute the logarithm to base 2 of each element.", "[8.0] -> [3.0]")
log10 = _unary("log10", "logarithm_base10", "fc", "Compute the logarithm to base 10 of each element.", "[1.0] -> [0.0]")
logical_not = _unary("logical_not", "not_", "b", "Negate each element.", "[True, False] -> [False, True]")
negative = _unary("negative", "negative", "ifc", "Negate each element.", "[1, -2] -> [-1, 2]")
positive = _unary("positive", "identity", "ifc", "Return a copy of the array.", "[1, -2] -> [1, -2]")
real = _unary("real", _real, "ifc", "Return the real part of each element.", "[1 + 2j] -> [1.0]")
reciprocal = _unary("reciprocal", "reciprocal", "fc", "Compute 1 / x of each element.", "[4.0] -> [0.25]")
round = _unary(
    "round", _parts("rint"), "ifc", "Round each element to the nearest integer, and ties to even.",
    "[0.5, 1.5, 2.6] -> [0.0, 2.0, 3.0]",
)  # fmt: skip
sign = _unary("sign", _sign, "ifc", "Return the sign of each element: -1, 0, or 1; x / |x| if complex.",
              "[-3, 0, 2] -> [-1, 0, 1]")  # fmt: skip
signbit = _unary("signbit", _signbit, "f", "Test whether the sign bit of each element is set.",
                 "[-0.0, 1.0] -> [True, False]")  # fmt: skip
sin = _unary("sin", "sin", "fc", "Compute the sine of each element, in radians.", "[0.0] -> [0.0]")
sinh = _unary("sinh", "sinh", "fc", "Compute the hyperbolic sine of each element.", "[0.0] -> [0.0]")
sqrt = _unary("sqrt", "square_root", "fc", "Compute the principal square root of each element.", "[4.0] -> [2.0]")
square = _unary("square", "square", "ifc", "Compute the square of each element.", "[3, -2] -> [9, 4]")
tan = _unary("tan", "tan", "fc", "Compute the tangent of each element, in radians.", "[0.0] -> [0.0]")
tanh = _unary("tanh", "tanh", "fc", "Compute the hyperbolic tangent of each element.", "[0.0] -> [0.0]")
trunc = _unary("trunc", _parts("truncate"), "if", "Round each element toward zero.", "[1.8, -1.8] -> [1.0, -1.0]")

add = _binary("add", "addition", "ifc", "Add two arrays.", "[1, 2], 3 -> [4, 5]")
atan2 = _binary("atan2", "atan2", "f", "Compute the angle of the points (x2, x1), in radians.",
                "[0.0], [1.0] -> [0.0]", True)  # fmt: skip
bitwise_and = _binary("bitwise_and", _logical_or_bitwise("and"), "bi", "Compute the bitwise AND.", "[6], [3] -> [2]")
bitwise_left_shift = _binary(
    "bitwise_left_shift", "bitwise_left_shift", "i", "Shift the bits of x1 left by x2.", "[1], [3] -> [8]"
)
bitwise_or = _binary("bitwise_or", _logical_or_bitwise("or"), "bi", "Compute the bitwise OR.", "[6], [3] -> [7]")
bitwise_right_shift = _binary(
    "bitwise_right_shift", "bitwise_right_shift", "i", "Shift the bits of x1 right by x2.", "[8], [3] -> [1]"
)
bitwise_xor = _binary("bitwise_xor", _logical_or_bitwise("xor"), "bi", "Compute the bitwise XOR.", "[6], [3] -> [5]")
copysign = _binary("copysign", f.copysign, "f", "Return the magnitude of x1 with the sign of x2.",
                   "[1.0], [-0.0] -> [-1.0]", True)  # fmt: skip
divide = _binary("divide", _divide, "fc", "Divide two arrays.", "[1.0], [4.0] -> [0.25]", True)
equal = _binary("equal", "equal", "bifc", "Test elements for equality.", "[1, 2], 2 -> [False, True]")
floor_divide = _binary(
    "floor_divide", _floor_divide, "if", "Divide two arrays and round down.", "[7, -7], 2 -> [3, -4]"
)
greater = _binary("greater", "greater_than", "bif", "Test whether x1 > x2.", "[1, 3], 2 -> [False, True]")
greater_equal = _binary(
    "greater_equal", "greater_than_or_equal_to", "bif", "Test whether x1 >= x2.", "[1, 2], 2 -> [False, True]"
)
hypot = _binary("hypot", f.hypot, "f", "Compute sqrt(x1^2 + x2^2) without overflow.", "[3.0], [4.0] -> [5.0]", True)
less = _binary("less", "less_than", "bif", "Test whether x1 < x2.", "[1, 3], 2 -> [True, False]")
less_equal = _binary(
    "less_equal", "less_than_or_equal_to", "bif", "Test whether x1 <= x2.", "[1, 3], 2 -> [True, False]"
)
logaddexp = _binary("logaddexp", f.logaddexp, "f", "Compute log(exp(x1) + exp(x2)) without overflow.",
                    "[1000.0], [float('-inf')] -> [1000.0]", True)  # fmt: skip
logical_and = _binary("logical_and", "logical_and", "b", "Compute the logical AND.", "[True], [False] -> [False]")
logical_or = _binary("logical_or", "logical_or", "b", "Compute the logical OR.", "[True], [False] -> [True]")
logical_xor = _binary("logical_xor", "logical_xor", "b", "Compute the logical XOR.", "[True], [True] -> [False]")
maximum = _binary("maximum", "maximum_with_nan_propagation", "if", "Return the larger elements; NaN propagates.",
                  "[1, 5], 3 -> [3, 5]")  # fmt: skip
minimum = _binary("minimum", "minimum_with_nan_propagation", "if", "Return the smaller elements; NaN propagates.",
                  "[1, 5], 3 -> [1, 3]")  # fmt: skip
multiply = _binary("multiply", "multiplication", "ifc", "Multiply two arrays.", "[1, 2], 3 -> [3, 6]")
nextafter = _binary("nextafter", f.nextafter, "f", "Return the next number after x1 in the direction of x2.",
                    "[1.0], [2.0] -> [1.0000001192092896]", True)  # fmt: skip
not_equal = _binary("not_equal", "not_equal", "bifc", "Test elements for inequality.", "[1, 2], 2 -> [True, False]")
pow = _binary("pow", "power", "ifc", "Compute x1 to the power of x2.", "[2, 3], 2 -> [4, 9]")
remainder = _binary("remainder", f.remainder, "if", "Compute the remainder of x1 / x2, with the sign of x2.",
                    "[7, -7], 3 -> [1, 2]")  # fmt: skip
subtract = _binary("subtract", "subtraction", "ifc", "Subtract x2 from x1.", "[1, 2], 3 -> [-2, -1]")


@operation("x", "min", "max", promote=(0,), cast=False)
def _clip(x: Any, min: Any, max: Any, /) -> Any:
    g = graph_of(x)
    if min is not None:
        x = g.maximum_with_nan_propagation(x, cast_to(min, x.dtype))
    if max is not None:
        x = g.minimum_with_nan_propagation(x, cast_to(max, x.dtype))
    return x


def clip(x: Array, /, min: Array | Scalar | None = None, max: Array | Scalar | None = None) -> Any:
    """Limit each element to a range.

    Args:
        x: Array or tensor, floating-point or integer.
        min: Lower limit: an array, number, or None for no limit.
        max: Upper limit: an array, number, or None for no limit.

    Returns:
        An array of the broadcast shape with the dtype of x.

    Raises:
        DTypeError: If a dtype is not supported.
        ShapeError: If the shapes cannot be broadcast.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.clip(mnp.asarray([-2.0, 0.5, 3.0]), 0, 1).tolist()
        [0.0, 0.5, 1.0]
    """
    if min is None and max is None:
        return positive(x)
    return _clip(x, min, max)


__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]
