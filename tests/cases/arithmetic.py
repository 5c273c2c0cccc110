"""Cases of the arithmetic family: element-wise operations with one, two, and three operands.

Inputs are values from the domain of an operation, away from jumps and kinks. The tests arrange them in other shapes.
"""

import math

import numpy as np
from harness.case import (
    ALGEBRAIC,
    ANALYTIC,
    ANY,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    ORDERED,
    Case,
    apart,
    off_zero,
    values,
)

SHAPE = (3, 4)
REAL = apart(*SHAPE)  # distinct and not near 0
POSITIVE = values(*SHAPE, low=0.3, high=3.0)
UNIT = values(*SHAPE, seed=1, low=-0.85, high=0.85)
ABOVE_ONE = values(*SHAPE, seed=2, low=1.15, high=3.0)
ANGLES = values(*SHAPE, seed=3, low=-1.2, high=1.2)
# at least 0.1 away from multiples of 0.5
FRACTIONS = off_zero(*SHAPE, seed=4, least=0.1, most=0.4) + np.arange(-6, 6).reshape(SHAPE)
NUMBERS_AND_NOT = np.array([[1.5, -0.0, np.inf], [-np.inf, np.nan, 0.0]])
BITS = np.random.default_rng(5).integers(-120, 120, SHAPE)
BOOLS = np.array([[True, False, True, False], [False, False, True, True]])
BOOLS2 = np.array([[True, True, False, False], [False, True, False, True]])

erf = np.vectorize(math.erf, otypes=[float])


def half_away_from_zero(x):
    return np.trunc(x + np.copysign(0.5, x))


def unary(operation, oracle, x=REAL, dtypes=FLOATS, label="", **options):
    return Case(operation, [x], oracle, label=label, dtypes=dtypes, elementwise=True, **options)


def halves(operation, oracle):
    """Build a case with values halfway between integers, where rounding modes differ and no derivative exists."""
    x = np.array([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 3.0])
    return unary(operation, oracle, x, label="halves", gradient=False, exact=True)


UNARY = [
    unary("identity", lambda x: x, dtypes=ANY, exact=True),
    unary("conjugate", lambda x: x if x.dtype == bool else np.conj(x), dtypes=ANY, exact=True),
    unary("exponent", np.exp, tolerance=4, dtypes=ANALYTIC),
    unary("exponent_base2", np.exp2, tolerance=4, dtypes=ANALYTIC),
    unary("exponent_base10", lambda x: 10.0**x, UNIT, tolerance=4, dtypes=ANALYTIC),
    unary("logarithm", np.log, POSITIVE, dtypes=ANALYTIC),
    unary("logarithm_base2", np.log2, POSITIVE, dtypes=ANALYTIC),
    unary("logarithm_base10", np.log10, POSITIVE, dtypes=ANALYTIC),
    unary("square", lambda x: x * x, dtypes=ALGEBRAIC),
    unary("absolute_square", lambda x: (x * np.conj(x)).real, dtypes=ALGEBRAIC),
    unary("square_root", np.sqrt, POSITIVE, dtypes=ANALYTIC),
    unary("reciprocal_square_root", lambda x: 1 / np.sqrt(x), POSITIVE, dtypes=ANALYTIC),
    unary("reverse_square_root", lambda x: 1 / np.sqrt(x), POSITIVE, dtypes=ANALYTIC),
    unary("reciprocal", lambda x: 1 / x, POSITIVE, dtypes=ANALYTIC),
    unary("absolute", np.abs, dtypes=ALGEBRAIC),
    unary("negative", np.negative, dtypes=ALGEBRAIC, exact=True),
    unary("sign", np.sign, dtypes=NUMBERS, exact=True),
    unary("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0, dtypes=NUMBERS),
    unary("ceil", np.ceil, FRACTIONS, exact=True),
    unary("floor", np.floor, FRACTIONS, exact=True),
    unary("round", half_away_from_zero, FRACTIONS, exact=True),
    unary("rint", np.rint, FRACTIONS, exact=True),
    unary("truncate", np.trunc, FRACTIONS, exact=True),
    halves("ceil", np.ceil),
    halves("floor", np.floor),
    halves("round", half_away_from_zero),
    halves("rint", np.rint),
    halves("truncate", np.trunc),
    unary("sin", np.sin, dtypes=ANALYTIC),
    unary("cos", np.cos, dtypes=ANALYTIC),
    unary("tan", np.tan, ANGLES, tolerance=4, dtypes=ANALYTIC),
    unary("sinh", np.sinh, tolerance=4, dtypes=ANALYTIC),
    unary("cosh", np.cosh, tolerance=4, dtypes=ANALYTIC),
    unary("tanh", np.tanh, dtypes=ANALYTIC),
    unary("asin", np.arcsin, UNIT, dtypes=ANALYTIC),
    unary("acos", np.arccos, UNIT, dtypes=ANALYTIC),
    unary("atan", np.arctan, dtypes=ANALYTIC),
    unary("asinh", np.arcsinh, dtypes=ANALYTIC),
    unary("acosh", np.arccosh, ABOVE_ONE, tolerance=2, dtypes=ANALYTIC),
    unary("atanh", np.arctanh, UNIT, dtypes=ANALYTIC),
    unary("erf", erf),
    unary("not", np.logical_not, BOOLS, ("bool",)),
    unary("is_infinite", np.isinf, NUMBERS_AND_NOT, dtypes=ANALYTIC),
    unary("is_finite", np.isfinite, NUMBERS_AND_NOT, dtypes=ANALYTIC),
    unary("is_nan", np.isnan, NUMBERS_AND_NOT, dtypes=ANALYTIC),
    unary("bitwise_not", np.invert, BITS, INTEGERS),
    unary("bitwise_population_count", lambda x: population_count(x), BITS, INTEGERS),
]


PARTS = [
    unary("real_part", np.real, dtypes=COMPLEX, exact=True),
    unary("imaginary_part", np.imag, dtypes=COMPLEX, exact=True),
    Case("complex_tensor", [REAL, UNIT], lambda x, y: x + 1j * y, dtypes=("float32", "float64"), elementwise=True),
    Case("planar_tensor", [REAL], lambda x: planar(x), dtypes=ANY, batch=(0,), exact=True),
    Case("planar_tensor", [values(2, 0)], lambda x: planar(x), label="empty", dtypes=COMPLEX, batch=(0,)),
]


def planar(x):
    return np.concatenate([x.real, x.imag], -1) if x.dtype.kind == "c" else x


def population_count(x):
    width = 8 * x.dtype.itemsize
    return np.vectorize(lambda v: (int(v) & (2**width - 1)).bit_count(), otypes=[x.dtype])(x)


# --- two operands -----------------------------------------------------------------------------------------------------
LEFT, RIGHT = apart(*SHAPE, seed=6), off_zero(*SHAPE, seed=7, least=1.1, most=2.9)
WIDE = apart(*SHAPE, seed=8, distance=0.7) * 3
SOME_EQUAL = np.round(REAL)
SOME_EQUAL2 = np.where(np.arange(12).reshape(SHAPE) % 3 == 0, SOME_EQUAL, SOME_EQUAL + np.sign(REAL))
COUNTS = np.random.default_rng(9).integers(0, 7, SHAPE)
ZEROS_AND_NOT = np.array([[0.0, 2.0, 0.0, -1.0]])


def binary(operation, oracle, x=LEFT, y=RIGHT, dtypes=NUMBERS, label="", **options):
    return Case(operation, [x, y], oracle, label=label, dtypes=dtypes, elementwise=True, **options)


def divide(x, y):
    if x.dtype.kind in "fc":
        return x / y
    quotient = np.abs(x.astype(object)) // np.abs(y.astype(object))  # rounded toward zero
    return (quotient * np.sign(x.astype(object)) * np.sign(y.astype(object))).astype(x.dtype)


def away_from_whole_quotients(x, y):
    """Move x such that x / y is not near an integer, where remainders jump."""
    quotient = np.floor(x / y) + 0.2 + 0.6 * np.abs(np.sin(np.arange(x.size))).reshape(x.shape)
    return quotient * y


DIVIDEND = away_from_whole_quotients(WIDE, RIGHT)
WITH_NAN = np.array([[1.0, np.nan, -2.0, np.nan, np.inf]])
WITH_NAN2 = np.array([[np.nan, 3.0, 5.0, np.nan, -np.inf]])

BINARY = [
    binary("addition", np.add, dtypes=ALGEBRAIC),
    binary("subtraction", np.subtract, dtypes=ALGEBRAIC),
    binary("multiplication", np.multiply, dtypes=ALGEBRAIC),
    binary("division", divide, dtypes=ALGEBRAIC),
    binary("division_no_nan", divide, dtypes=ALGEBRAIC),
    binary(
        "division_no_nan",
        lambda x, y: np.where(y == 0, np.zeros_like(x), divide(x, np.where(y == 0, np.ones_like(y), y))),
        np.array([[3.0, 4.0, 0.0, 5.0]]),
        ZEROS_AND_NOT,
        label="by_zero",
        gradient=False,
    ),
    binary("modulo", np.fmod, DIVIDEND, exact=True),
    binary("floor_modulo", np.mod, DIVIDEND),
    binary("power", np.power, POSITIVE, LEFT, ANALYTIC, tolerance=10),
    binary("power", np.power, np.round(LEFT), COUNTS % 4 * 1.0, label="whole", gradient=False, tolerance=4),
    binary("minimum", np.minimum, exact=True),
    binary("maximum", np.maximum, exact=True),
    binary("minimum", np.fmin, WITH_NAN, WITH_NAN2, FLOATS, label="nan", gradient=False, exact=True),
    binary("maximum", np.fmax, WITH_NAN, WITH_NAN2, FLOATS, label="nan", gradient=False, exact=True),
    binary("minimum_with_nan_propagation", np.minimum, exact=True),
    binary("maximum_with_nan_propagation", np.maximum, exact=True),
    binary(
        "minimum_with_nan_propagation", np.minimum, WITH_NAN, WITH_NAN2, FLOATS, label="nan", gradient=False, exact=True
    ),
    binary(
        "maximum_with_nan_propagation", np.maximum, WITH_NAN, WITH_NAN2, FLOATS, label="nan", gradient=False, exact=True
    ),
    binary("atan2", np.arctan2, dtypes=FLOATS),
    binary("equal", np.equal, SOME_EQUAL, SOME_EQUAL2, ANY),
    binary("not_equal", np.not_equal, SOME_EQUAL, SOME_EQUAL2, ANY),
    binary("less_than", np.less, SOME_EQUAL, SOME_EQUAL2, ORDERED),
    binary("less_than_or_equal_to", np.less_equal, SOME_EQUAL, SOME_EQUAL2, ORDERED),
    binary("greater_than", np.greater, SOME_EQUAL, SOME_EQUAL2, ORDERED),
    binary("greater_than_or_equal_to", np.greater_equal, SOME_EQUAL, SOME_EQUAL2, ORDERED),
    binary("equal", np.equal, WITH_NAN, WITH_NAN, FLOATS, label="nan"),
    binary("not_equal", np.not_equal, WITH_NAN, WITH_NAN, FLOATS, label="nan"),
    binary("less_than_or_equal_to", np.less_equal, WITH_NAN, WITH_NAN2, FLOATS, label="nan"),
    binary("logical_and", np.logical_and, BOOLS, BOOLS2, ("bool",)),
    binary("logical_or", np.logical_or, BOOLS, BOOLS2, ("bool",)),
    binary("logical_nand", lambda x, y: ~(x & y), BOOLS, BOOLS2, ("bool",)),
    binary("logical_nor", lambda x, y: ~(x | y), BOOLS, BOOLS2, ("bool",)),
    binary("logical_xor", np.logical_xor, BOOLS, BOOLS2, ("bool",)),
    binary("logical_xnor", lambda x, y: ~(x ^ y), BOOLS, BOOLS2, ("bool",)),
    binary("bitwise_and", np.bitwise_and, BITS, BITS[::-1], INTEGERS),
    binary("bitwise_or", np.bitwise_or, BITS, BITS[::-1], INTEGERS),
    binary("bitwise_xor", np.bitwise_xor, BITS, BITS[::-1], INTEGERS),
    binary("bitwise_left_shift", np.left_shift, BITS, COUNTS, INTEGERS),
    binary("bitwise_right_shift", np.right_shift, BITS, COUNTS, INTEGERS),
]

# --- three operands ---------------------------------------------------------------------------------------------------
PREDICATE = np.random.default_rng(10).random(SHAPE) < 0.5
LOW, HIGH = values(*SHAPE, seed=12, low=-1.2, high=-0.3), values(*SHAPE, seed=13, low=0.3, high=1.2)
CLAMPED = apart(*SHAPE, seed=14) * 1.3 + 0.01

TERNARY = [
    Case("select", [PREDICATE, LEFT, RIGHT], np.where, dtypes=ANY, elementwise=True, exact=True),
    Case(
        "clamp",
        [CLAMPED, LOW, HIGH],
        lambda x, low, high: np.minimum(np.maximum(x, low), high),
        dtypes=NUMBERS,
        elementwise=True,
        exact=True,
    ),
    Case(
        "clamp",
        [CLAMPED, HIGH, LOW],
        lambda x, low, high: np.minimum(np.maximum(x, low), high),
        label="crossed",
        dtypes=NUMBERS,
        elementwise=True,
        exact=True,
    ),
]

CASES = UNARY + PARTS + BINARY + TERNARY
