"""Test the accuracy of float32 element-wise functions in ulps (units in the last place) relative to float64.

The bounds are those stated in the comments of vector_math.h and tile_functions_guarded.h. They apply to both
implementations: generated code, and the tile functions that the reference kernels use.
"""

import math

import mpsgraph as mg
import numpy as np
import pytest
from harness.subnormal import flushed

N = 200_000


def uniform(low, high):
    return lambda rng: rng.uniform(low, high, N)


def logarithmic(low, high, negative=True):
    def draw(rng):
        x = np.exp(rng.uniform(np.log(low), np.log(high), N))
        return np.where(rng.random(N) < 0.5, -x, x) if negative else x

    return draw


FUNCTIONS = {
    "exponent": (np.exp, [uniform(-87, 88.5)], 2),
    "exponent_base2": (np.exp2, [uniform(-126, 127.9)], 2),
    "exponent_base10": (lambda x: np.power(10.0, x), [uniform(-37.9, 38.5)], 3),
    "logarithm": (np.log, [logarithmic(1e-37, 3e38, False)], 2),
    "logarithm_base2": (np.log2, [logarithmic(1e-37, 3e38, False)], 3),
    "logarithm_base10": (np.log10, [logarithmic(1e-37, 3e38, False)], 3),
    "erf": (np.vectorize(math.erf, otypes=[float]), [uniform(-4, 4)], 6),
    "tanh": (np.tanh, [uniform(-12, 12)], 3),
    "sin": (np.sin, [uniform(-1000, 1000)], 2),
    "cos": (np.cos, [uniform(-1000, 1000)], 2),
    "tan": (np.tan, [uniform(-1000, 1000)], 4),
    "sinh": (np.sinh, [uniform(-89, 89)], 4),
    "cosh": (np.cosh, [uniform(-89, 89)], 4),
    "asin": (np.arcsin, [uniform(-1, 1)], 3),
    "acos": (np.arccos, [uniform(-1, 1)], 3),
    "atan": (np.arctan, [logarithmic(1e-5, 1e6)], 3),
    "asinh": (np.arcsinh, [logarithmic(1e-5, 1e30)], 5),
    "acosh": (np.arccosh, [lambda rng: 1 + logarithmic(1e-5, 1e30, False)(rng)], 5),
    "atanh": (np.arctanh, [uniform(-0.9999, 0.9999)], 5),
    "atan2": (np.arctan2, [logarithmic(1e-3, 1e3), logarithmic(1e-3, 1e3)], 4),
    "power": (np.power, [logarithmic(1e-3, 1e3, False), uniform(-10, 10)], 1),
    "modulo": (np.fmod, [logarithmic(1e-2, 1e5), logarithmic(1e-1, 1e3)], 0),
    "floor_modulo": (np.mod, [logarithmic(1e-2, 1e5), logarithmic(1e-1, 1e3)], 1),
}
"""For each operation: the exact function, a generator for each argument, and the bound in ulps."""

FAR = {"sin": np.sin, "cos": np.cos, "tan": np.tan}


def computed(name, arguments, reference):
    g = mg.Graph()
    placeholders = [g.placeholder(x.shape) for x in arguments]
    result = getattr(g, name)(*placeholders)
    options = mg.CompilationDescriptor(reference_kernels=reference)
    executable = g.compile({p: p.shape for p in placeholders}, result, options=options)
    assert ("generated code" in executable.plan()) <= (not reference)
    return np.array(executable.run(arguments)[0])


def ulps(found, exact):
    rounded = exact.astype(np.float32)
    return np.abs(found - exact) / np.spacing(np.abs(rounded)).astype(np.float64)


@pytest.mark.parametrize("reference", [False, True], ids=["fast", "reference"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_function_errors_are_within_ulp_bounds(name, reference):
    function, draws, bound = FUNCTIONS[name]
    rng = np.random.default_rng(len(name))
    arguments = [draw(rng).astype(np.float32) for draw in draws]
    exact = function(*(x.astype(np.float64) for x in arguments))
    errors = ulps(computed(name, arguments, reference), exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound + 0.5, ([x[worst] for x in arguments], errors[worst])


@pytest.mark.parametrize("name", FAR)
def test_trigonometry_of_large_float32_angles_is_accurate(name):
    """Beyond a million radians, vectorized code falls back to the standard library, even for single lanes."""
    rng = np.random.default_rng(3)
    x = np.where(rng.random(1000) < 0.1, rng.uniform(1e6, 1e30, 1000), rng.uniform(-3, 3, 1000)).astype(np.float32)
    assert ulps(computed(name, [x], False), FAR[name](x.astype(np.float64))).max() < 4.5


BOTH = pytest.mark.parametrize("reference", [False, True], ids=["fast", "reference"])


@BOTH
def test_square_root_fused_with_division_is_accurate_to_rounding(reference):
    """If the expression contains a quotient, as Adam's update does, AVX-512 code approximates the root but not the
    divisor.
    """
    g, rng = mg.Graph(), np.random.default_rng(0)
    special = [0, -0.0, 1, 4, 1.1754944e-38, 3.4028235e38, np.inf, -np.inf, -1, -1e-30, np.nan]
    far, near, squares = np.exp(rng.uniform(-87.3, 88.7, 200_000)), rng.uniform(1, 4, 200_000), np.arange(4096.0) ** 2
    x = np.concatenate([special, squares, far, near]).astype(np.float32)
    source = g.placeholder(x.shape)
    root = g.square_root(source)
    targets = [root, source / (root + 1e-8), g.reciprocal_square_root(source)]
    options = mg.CompilationDescriptor(reference_kernels=reference)
    executable = g.compile({source: x.shape}, targets, options=options)
    assert ("generated code" in executable.plan()) <= (not reference)
    roots, _, reciprocals = (np.array(result) for result in executable.run([x]))
    with np.errstate(invalid="ignore"):
        exact = np.sqrt(x.astype(np.float64))
    np.testing.assert_array_equal(roots[:4], [0, -0.0, 1, 2])
    assert np.signbit(roots[:2]).tolist() == [False, True] and roots[6] == np.inf and np.isnan(roots[7:11]).all()
    np.testing.assert_array_equal(roots[11 : 11 + 4096], np.arange(4096))
    finite = np.isfinite(exact) & (exact > 0)
    assert ulps(roots[finite], exact[finite]).max() <= 0.8
    assert ulps(reciprocals[finite], 1 / exact[finite]).max() <= 1.5


@BOTH
def test_erf_saturates_at_one(reference):
    """Beyond 3.95, where erf rounds to 1, results must stay within [-1, 1], and NaN must stay NaN."""
    x = np.array([3.9499, 3.95, 3.9501, 4, 10, 1e10, 3e38, np.inf, np.nan] * 4, np.float32)
    for sign in (1, -1):
        found = computed("erf", [sign * x], reference)
        assert np.isnan(found[8::9]).all()
        known = found[~np.isnan(x)] * sign
        assert known.max() == 1 and known.min() >= 1 - 2**-23 and (known[7::8] == 1).all()


@BOTH
@pytest.mark.parametrize("form", ["minus a square", "minus a product"])
def test_exponential_of_negated_square_matches_numpy(form, reference):
    """Generated code omits the overflow check for exp(-x²) but must keep it for other negated products."""
    x = np.array([0, -0.0, 1e-20, 0.5, -3, 9, -9.4, 11, 1e10, -1e30, np.inf, -np.inf, np.nan] * 3, np.float32)
    y = x if form == "minus a square" else -x
    g = mg.Graph()
    a, b = g.placeholder(x.shape), g.placeholder(x.shape)
    result = g.exponent(-(a * a) if form == "minus a square" else -(a * b))
    options = mg.CompilationDescriptor(reference_kernels=reference)
    feeds = {a: x} if form == "minus a square" else {a: x, b: y}
    executable = g.compile({p: p.shape for p in feeds}, result, options=options)
    found = np.array(executable.run([feeds[p] for p in executable.feeds])[0])
    with np.errstate(over="ignore"):
        exact = flushed(np.exp((-x * y).astype(np.float64)).astype(np.float32))
    np.testing.assert_allclose(found, exact, rtol=4e-7)
