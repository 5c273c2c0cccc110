"""Test the series coefficients that the exporters share, against Python's math module and exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpsgraph.numpy.special import _approximations as known


@pytest.mark.parametrize("x", np.linspace(1, 20, 39))
def test_erfc_coefficients_match_math_erfc(x):
    above, below = (known.ERFC_P, known.ERFC_Q) if x < 8 else (known.ERFC_R, known.ERFC_S)
    found = np.polyval(above, x) / np.polyval(below, x)
    assert found == pytest.approx(math.erfc(x) * math.exp(x * x), rel=2e-13 if x > 5 else 3e-14)


@pytest.mark.parametrize("x", [0.1, 0.5, 0.9, 0.99, 0.999, 0.9999])
def test_inverse_erf_coefficients_invert_math_erf(x):
    w = -math.log1p(-x * x)
    found = x * (np.polyval(known.INVERSE_NEAR, w - 2.5) if w < 5 else np.polyval(known.INVERSE_FAR, w**0.5 - 3))
    assert math.erf(found) == pytest.approx(x, rel=3e-7)


@pytest.mark.parametrize("x", [0.5, 1.0, 2.5, 10.0, 100.0])
def test_lanczos_coefficients_match_math_lgamma(x):
    z, t = x - 1, x + 6.5
    total = known.LANCZOS_BASE + sum(c / (z + i + 1) for i, c in enumerate(known.LANCZOS))
    found = 0.5 * math.log(2 * math.pi) + (z + 0.5) * math.log(t) - t + math.log(total)
    assert found == pytest.approx(math.lgamma(x), rel=1e-13, abs=1e-13)


def test_bernoulli_numbers_match_exact_fractions():
    numbers = [Fraction(1)]
    for n in range(1, 17):
        numbers.append(-sum(math.comb(n + 1, k) * b for k, b in enumerate(numbers)) / (n + 1))
    exact = [float(numbers[2 * k] / math.factorial(2 * k)) for k in range(1, 9)]
    assert list(known.BERNOULLI) == pytest.approx(exact, rel=1e-15)
