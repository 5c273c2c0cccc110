"""Test the accuracy of float64 functions in ulps (units in the last place) relative to the C library's long double.

The bounds are those stated in the comments of double_math.h and double_functions.simd.cpp. On processors with AVX2, the
functions in both files run as generated code. The reference uses compiled loops, or the C library on processors without
AVX2.
"""

import math

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import SMALLER_SETS, run_again_with
from harness.running import REFERENCE
from harness.subnormal import flushed

N = 100_000
ERF = np.vectorize(math.erf, otypes=[np.longdouble])  # computed in double, so it has an error of half an ulp itself


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def exp10(x):
    return np.power(x.dtype.type(10), x)


def multiples_of_a_quarter_turn(rng):
    return rng.integers(1, 300_000, N) * (np.pi / 2)


def near_zero(rng):
    return np.exp(rng.uniform(-600, 1, N)) * rng.choice([-1, 1], N)


def uniform(low, high):
    return lambda rng: rng.uniform(low, high, N)


ANGLES = [uniform(-8, 8), uniform(-6e5, 6e5), uniform(-1e15, 1e15), multiples_of_a_quarter_turn]
POSITIVE = [lambda rng: np.exp(rng.uniform(-700, 700, N)), uniform(0.4, 2), uniform(0.999, 1.001)]
FUNCTIONS = {
    "exponent": (np.exp, [uniform(-708, 709.7), uniform(-1, 1)], 2),
    "exponent_base2": (np.exp2, [uniform(-1021, 1023.9), uniform(-1, 1)], 2),
    "exponent_base10": (exp10, [uniform(-307, 308.2), uniform(-1, 1)], 2),
    "logarithm": (np.log, POSITIVE, 1),
    "logarithm_base2": (np.log2, POSITIVE, 2),
    "logarithm_base10": (np.log10, POSITIVE, 2),
    "tanh": (np.tanh, [uniform(-20, 20), uniform(-1, 1), near_zero], 3),
    "sigmoid": (sigmoid, [uniform(-700, 40), uniform(-3, 3)], 3),
    "sin": (np.sin, [*ANGLES, near_zero], 1),
    "cos": (np.cos, ANGLES, 1),
    "sinh": (np.sinh, [uniform(-709, 709), uniform(-2, 2), near_zero], 4),
    "cosh": (np.cosh, [uniform(-709, 709), uniform(-2, 2)], 4),
    "asin": (np.arcsin, [uniform(-1, 1), uniform(0.49, 0.51), uniform(-0.01, 0.01)], 3),
    "acos": (np.arccos, [uniform(-1, 1), uniform(0.49, 0.51), uniform(0.999, 1)], 3),
    "atan": (np.arctan, [uniform(-5, 5), uniform(-0.5, 0.5), near_zero, lambda rng: np.exp(rng.uniform(0, 600, N))], 2),
    "erf": (ERF, [uniform(-6.5, 6.5), uniform(-1, 1), uniform(0.99, 1.01), near_zero], 2),
}
CASES = [(name, draw) for name, (_, draws, _) in FUNCTIONS.items() for draw in range(len(draws))]


def computed(name, x, options=None):
    g = mg.Graph()
    feed = g.placeholder(x.shape, x.dtype)
    return g.compile({feed: (x.shape, x.dtype)}, [getattr(g, name)(feed)], options=options).run([x])[0].numpy()


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="long double is not wider than double")
@pytest.mark.parametrize("options", [None, REFERENCE], ids=["code", "reference"])
@pytest.mark.parametrize("name, draw", CASES)
def test_float64_function_errors_are_within_ulp_bounds(name, draw, options):
    exact, draws, bound = FUNCTIONS[name]
    x = draws[draw](np.random.default_rng(0))
    expected = exact(x.astype(np.longdouble))
    errors = np.abs(computed(name, x, options) - expected) / np.spacing(np.abs(expected.astype(np.float64)))
    assert errors.max() <= bound, x[errors.argmax()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_functions_of_special_values_match_c_library(name):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 709.78, 710, -745, -1000])
    x = np.append(x, [1e308, -1e308, 20, -20, 6, -6, 2e19])
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name][0](x).astype(np.float64)
    expected[np.abs(expected) < 2.3e-308] *= 0  # subnormal results are flushed to zero
    found = computed(name, x)
    np.testing.assert_array_max_ulp(np.nan_to_num(found), np.nan_to_num(expected), 3)
    assert np.array_equal(np.isnan(found), np.isnan(expected)) and np.array_equal(np.isinf(found), np.isinf(expected))
    number = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float64_result_does_not_depend_on_position_in_array(name):
    x = np.random.default_rng(1).uniform(0.1, 30, 67)
    x[::5] *= 1e6  # beyond the range of the vectorized trigonometry
    whole = computed(name, x)
    for begin in range(0, 17, 3):
        for length in (1, 3, 7, 8, 9, 15, 31, 50):
            part = slice(begin, begin + length)
            assert np.array_equal(computed(name, x[part].copy()), whole[part], equal_nan=True)


POWERS = [(1, 5), (700, 1), (0.01, 60_000), (0.35, 1900), (2, 300)]
"""Bounds of |ln x| and of |y|. All powers are within the range of float64, some of them close to its limits."""


def powered(x, y, options=None):
    g = mg.Graph()
    a, b = g.placeholder(x.shape, "float64"), g.placeholder(y.shape, "float64")
    return g.compile({a: x.shape, b: y.shape}, [g.power(a, b)], options=options).run([x, y])[0].numpy()


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="long double is not wider than double")
@pytest.mark.parametrize("logarithm, exponent", POWERS)
def test_float64_power_errors_are_within_two_ulps(logarithm, exponent):
    rng = np.random.default_rng(3)
    x, y = np.exp(rng.uniform(-logarithm, logarithm, N)), rng.uniform(-exponent, exponent, N)
    expected = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    errors = np.abs(powered(x, y) - expected) / np.spacing(expected.astype(np.float64))
    assert errors.max() <= 2, (x[errors.argmax()], y[errors.argmax()])


def test_float64_powers_of_special_values_match_c_library():
    edges = [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, np.inf, -np.inf, np.nan, 3, -3, 1e308, -1e308, 1e-300, 1e-310, 0.1]
    x, y = (a.ravel() for a in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        expected = flushed(np.power(flushed(x), flushed(y)))
    found = powered(x, y)
    np.testing.assert_allclose(found, expected, rtol=4e-16, atol=0)
    number = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found[number]), np.signbit(expected[number]))


def test_power_of_scalars_and_short_arrays_equals_long_array_result():
    x, y = np.random.default_rng(4).uniform(0.1, 30, (2, 67))
    whole = powered(x, y)
    for length in (1, 3, 7, 8, 9, 50):
        assert np.array_equal(powered(x[:length].copy(), y[:length].copy()), whole[:length])
    one = np.array(2.5)
    assert np.array_equal(powered(x, one), powered(x, np.full_like(x, 2.5)))
    assert np.array_equal(powered(one, y), powered(np.full_like(y, 2.5), y))


@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    run_again_with(instructions, __file__)
