"""Translations of element-wise arithmetic, comparisons, elementary functions, and conversions.

Bit operations are in integers.py and special functions in special.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp

from ..._core import DType, Tensor
from ...interchange.renames import OF_BOOLS, methods
from ...numpy import _formulas as f
from ._table import Equation, dtype_of, primitive, shape

PLAIN = methods("jax", "function", "rounding", "test", "comparison") | {"real": "real_part", "imag": "imaginary_part"}


@primitive.rows(PLAIN)
def plain(equation: Equation, method: str, *operands: Tensor, **_: Any) -> Tensor:
    return getattr(equation.g, method)(*operands)  # type: ignore[no-any-return]


@primitive.rows(methods("jax", "arithmetic", without=("div", "pow")))
def arithmetic(equation: Equation, method: str, x: Tensor, y: Tensor, **_: Any) -> Tensor:
    method = OF_BOOLS[method] if x.dtype.name == "bool" else method
    return getattr(equation.g, method)(x, y)  # type: ignore[no-any-return]


@primitive("sign")
def sign(equation: Equation, x: Tensor) -> Tensor:
    g = equation.g
    if x.dtype.is_complex:
        return f.sign_of_complex(g, x)
    found = g.sign(x)
    return g.select(g.is_nan(x), x, found) if x.dtype.is_float else found


@primitive("round")
def round_(equation: Equation, x: Tensor, *, rounding_method: Any) -> Tensor:
    return equation.g.rint(x) if rounding_method == lax.RoundingMethod.TO_NEAREST_EVEN else equation.g.round(x)


@primitive("div")
def div(equation: Equation, x: Tensor, y: Tensor) -> Tensor:
    """Translate div. As in XLA, integer quotients are rounded toward zero, and an integer divided by zero is -1."""
    g = equation.g
    if not x.dtype.is_integer:
        return g.division(x, y)
    zero = g.equal(y, equation.constant(0, y.dtype))
    safe = g.select(zero, equation.constant(1, y.dtype), y)
    ones = equation.constant(-1 if x.dtype.is_signed else np.iinfo(x.dtype.numpy).max, x.dtype)
    return g.select(zero, ones, g.division(x, safe))


@primitive("rem")
def rem(equation: Equation, x: Tensor, y: Tensor) -> Tensor:
    """Translate rem, whose result has the sign of x. For integers, the result is x where y is 0."""
    g = equation.g
    if x.dtype.is_float:
        return g.modulo(x, y)
    zero = g.equal(y, equation.constant(0, y.dtype))
    safe = g.select(zero, equation.constant(1, y.dtype), y)
    return g.select(zero, x, g.subtraction(x, g.multiplication(g.division(x, safe), safe)))


def extremum(equation: Equation, x: Tensor, y: Tensor, largest: bool) -> Tensor:
    """Return the maximum or minimum, propagating NaN.

    For bools, these are "or" and "and". Complex numbers are compared by their real parts, then by their imaginary
    parts.
    """
    g = equation.g
    if x.dtype.is_complex:
        parts = [(g.real_part(v), g.imaginary_part(v)) for v in (x, y)]
        before = g.greater_than if largest else g.less_than
        (a, b), (c, d) = parts
        first = g.logical_or(before(a, c), g.logical_and(g.equal(a, c), before(b, d)))
        return g.select(first, x, y)
    method = f"{'maximum' if largest else 'minimum'}_with_nan_propagation"
    return getattr(g, OF_BOOLS[method] if x.dtype.name == "bool" else method)(x, y)  # type: ignore[no-any-return]


@primitive.rows({"max": True, "min": False})
def extremum_of_two(equation: Equation, largest: bool, x: Tensor, y: Tensor) -> Tensor:
    return extremum(equation, x, y, largest)


@primitive("clamp")
def clamp(equation: Equation, low: Tensor, x: Tensor, high: Tensor) -> Tensor:
    return extremum(equation, extremum(equation, x, low, True), high, False)


@primitive("select_n")
def select_n(equation: Equation, which: Tensor, *cases: Tensor) -> Tensor:
    g = equation.g
    if len(cases) == 1:
        return cases[0]
    rank = len(equation.shape)
    if len(shape(which)) < rank:
        which = g.reshape(which, shape(which) + (1,) * (rank - len(shape(which))))
    if which.dtype.name == "bool":
        return g.select(which, cases[1], cases[0])
    found = cases[-1]
    for place in range(len(cases) - 2, -1, -1):
        here = g.less_than_or_equal_to(which, equation.constant(place, which.dtype))
        found = g.select(here, cases[place], found)
    return found


@primitive("integer_pow")
def integer_pow(equation: Equation, x: Tensor, *, y: int) -> Tensor:
    """Translate integer_pow by repeated squaring. A negative power is the reciprocal of the positive power."""
    g = equation.g
    if y == 0:
        return equation.constant(1, x.dtype, shape(x))
    found, square, left = None, x, abs(y)
    while left:
        if left & 1:
            found = square if found is None else g.multiplication(found, square)
        left >>= 1
        if left:
            square = g.multiplication(square, square)
    assert found is not None
    return found if y > 0 else g.division(equation.constant(1, x.dtype), found)


@primitive("pow")
def pow_(equation: Equation, x: Tensor, y: Tensor) -> Tensor:
    g = equation.g
    if x.dtype.is_complex:
        return equation.traced(_complex_power, x, equation.cast(y, x.dtype))
    if x.dtype.itemsize == 2:
        wide = g.power(equation.cast(x, "float32"), equation.cast(y, "float32"))
        return equation.cast(wide, x.dtype)
    if y.dtype.is_integer and (y.dtype.itemsize >= x.dtype.itemsize):
        # Test y as an integer, because converting a large integer to float would lose its low bits, including its
        # parity.
        odd = g.equal(g.bitwise_and(y, equation.constant(1, y.dtype)), equation.constant(1, y.dtype))
        size = g.power(g.absolute(x), equation.cast(y, x.dtype))
        return g.select(g.logical_and(odd, g.signbit(x)), g.negative(size), size)
    return g.power(x, equation.cast(y, x.dtype))


def _complex_power(x: Any, y: Any) -> Any:
    found = lax.exp(y * lax.log(x))
    zero = x == 0
    return lax.select(y == 0, jnp.ones_like(x), lax.select(zero, jnp.zeros_like(x), found))


@primitive("logistic")
def logistic(equation: Equation, x: Tensor, **_: Any) -> Tensor:
    if x.dtype.is_float:
        return equation.g.sigmoid(x)
    g, one = equation.g, equation.constant(1, x.dtype)
    return g.division(one, g.addition(one, g.exponent(g.negative(x))))


@primitive("cbrt", "expm1", "log1p")
def by_formula(equation: Equation, x: Tensor, **_: Any) -> Tensor:
    if x.dtype.is_complex:
        return equation.traced({"expm1": _complex_expm1, "log1p": _complex_log1p}[equation.name], x)
    return equation.widely(x, lambda x: getattr(f, equation.name)(equation.g, x))


def _complex_expm1(x: Any) -> Any:
    a, b = lax.real(x), lax.imag(x)
    half = lax.sin(b * 0.5)
    real = lax.expm1(a) * lax.cos(b) - 2 * half * half
    return lax.complex(real, lax.exp(a) * lax.sin(b))


def _complex_log1p(x: Any) -> Any:
    a, b = lax.real(x), lax.imag(x)
    near = (lax.abs(a) < 0.5) & (lax.abs(b) < 0.5)
    small = 0.5 * lax.log1p(lax.select(near, a * (2 + a) + b * b, jnp.zeros_like(a)))
    far = lax.log(lax.abs(lax.complex(1 + a, b)))
    return lax.complex(lax.select(near, small, far), lax.atan2(b, 1 + a))


@primitive("atan2")
def atan2(equation: Equation, y: Tensor, x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        equation.refuse("complex numbers are not supported")
    return equation.g.atan2(y, x)


@primitive("complex")
def complex_(equation: Equation, x: Tensor, y: Tensor) -> Tensor:
    return equation.g.complex_tensor(x, y)


@primitive("conj")
def conj(equation: Equation, x: Tensor, **_: Any) -> Tensor:
    return equation.g.conjugate(x) if x.dtype.is_complex else equation.cast(x, equation.dtype)


@primitive("nextafter")
def nextafter(equation: Equation, x: Tensor, y: Tensor) -> Tensor:
    return f.nextafter(equation.g, x, y)


@primitive("reduce_precision")
def reduce_precision(equation: Equation, x: Tensor, *, exponent_bits: int, mantissa_bits: int) -> Tensor:
    """Translate reduce_precision, which rounds to the given numbers of exponent and mantissa bits, ties to even.

    Overflow becomes infinity, and underflow becomes 0.
    """
    if x.dtype.itemsize == 2:
        wide = equation.traced(_reduced(np.float32, exponent_bits, mantissa_bits), equation.cast(x, "float32"))
        return equation.cast(wide, x.dtype)
    return equation.traced(_reduced(x.dtype.numpy, exponent_bits, mantissa_bits), x)


def _reduced(dtype: Any, exponent_bits: int, mantissa_bits: int) -> Callable[[Any], Any]:
    info = np.finfo(dtype)
    width = np.dtype(dtype).itemsize * 8
    word = np.dtype(f"uint{width}")

    def function(x: Any) -> Any:
        bits = lax.bitcast_convert_type(x, word)
        if (dropped := info.nmant - mantissa_bits) > 0:
            last = (bits >> word.type(dropped)) & word.type(1)
            bias = last + word.type((1 << dropped - 1) - 1)
            bits = (bits + bias) & word.type(~((1 << dropped) - 1) & (1 << width) - 1)
        if exponent_bits < info.nexp:
            exponent = (bits >> word.type(info.nmant)) & word.type((1 << info.nexp) - 1)
            middle, reach = (1 << info.nexp - 1) - 1, (1 << exponent_bits - 1) - 1
            sign = bits & word.type(1 << width - 1)
            infinity = sign | word.type(((1 << info.nexp) - 1) << info.nmant)
            bits = lax.select(exponent > word.type(middle + reach), infinity, bits)
            bits = lax.select(exponent <= word.type(middle - reach), sign, bits)
        return lax.select(x != x, x, lax.bitcast_convert_type(bits, np.dtype(dtype)))

    return function


@primitive("convert_element_type")
def convert_element_type(equation: Equation, x: Tensor, *, new_dtype: Any, **_: Any) -> Tensor:
    return converted(equation, x, dtype_of(new_dtype))


def converted(equation: Equation, x: Tensor, dtype: DType) -> Tensor:
    """Convert x to another dtype. Floats are clamped to the range of an integer dtype."""
    g = equation.g
    if x.dtype == dtype:
        return x
    if x.dtype.is_complex and not dtype.is_complex:
        if dtype.name == "bool":
            return g.not_equal(x, equation.constant(0, x.dtype))
        return converted(equation, g.real_part(x), dtype)
    if x.dtype.is_float and dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        if x.dtype.itemsize == 2:
            x = g.cast(x, "float32")
        low = equation.constant(limits.min, x.dtype)
        # If the largest integer is not representable as a float, it is rounded up here, and this float is already out
        # of range.
        top = float(limits.max) if x.dtype.itemsize == 8 else float(np.float32(limits.max))
        above = g.greater_than_or_equal_to(x, equation.constant(top, x.dtype))
        usual = g.logical_and(g.greater_than_or_equal_to(x, low), g.not_(above))
        inside = g.cast(g.select(usual, x, equation.constant(0, x.dtype)), dtype)
        below = g.select(g.less_than(x, low), equation.constant(limits.min, dtype), inside)
        return g.select(above, equation.constant(limits.max, dtype), below)
    return g.cast(x, dtype)
