"""Compare special functions with scipy in float64 and float32, and their gradients with central differences."""

from __future__ import annotations

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np
import pytest

scipy_special = pytest.importorskip("scipy.special")

ALL = np.linspace(-4.7, 30.3, 83)
POSITIVE = np.linspace(0.1, 30, 83)
OSCILLATING = np.linspace(-20, 20, 83)
UNIT = np.linspace(0.001, 0.999, 41)
ARGUMENTS = {
    **dict.fromkeys("erf erfc ndtr log_ndtr expit".split(), np.linspace(-6, 6, 83)),
    **dict.fromkeys("gammaln digamma gamma i0e i1e".split(), ALL),
    **dict.fromkeys("j0 j1".split(), OSCILLATING),
    **dict.fromkeys("i0 i1".split(), np.linspace(-20, 20, 83)),
    **dict.fromkeys("entr y0 y1 k0 k1 k0e k1e".split(), POSITIVE),
    **dict.fromkeys("ndtri logit".split(), UNIT),
    "erfcx": np.linspace(-2, 30, 83),
    "erfinv": 2 * UNIT - 1,
}
PAIRS = {
    "zeta": (np.linspace(1.5, 9, 41), np.linspace(0.5, 20, 41)),
    "gammainc": (np.linspace(0.5, 20, 41), np.linspace(0.1, 30, 41)),
    "gammaincc": (np.linspace(0.5, 20, 41), np.linspace(0.1, 30, 41)),
    "xlogy": (np.linspace(0, 4, 41), POSITIVE[:41]),
    "xlog1py": (np.linspace(0, 4, 41), POSITIVE[:41]),
    "polygamma": (np.repeat([0.0, 1.0, 2.0, 5.0], 10), np.linspace(0.5, 20, 40)),
}


def agrees(found: mg.NDArray, expected: np.ndarray, tolerance: float) -> None:
    scale = np.maximum(np.abs(expected), np.abs(expected).mean() * 1e-2)
    scale = np.where(np.isfinite(scale), scale, 1)
    same = (found.numpy() == expected) | (np.isnan(found.numpy()) & np.isnan(expected))
    assert np.all(same | (np.abs(found.numpy() - expected) <= tolerance * scale)), np.nanmax(
        np.abs(found.numpy() - expected) / scale
    )


@pytest.mark.parametrize("name", ARGUMENTS)
def test_functions_of_one_operand_match_scipy(name: str):
    x = ARGUMENTS[name]
    expected = getattr(scipy_special, name)(x)
    agrees(getattr(mnp.special, name)(x), expected, 2e-12)
    single = x.astype(np.float32)
    agrees(getattr(mnp.special, name)(single), getattr(scipy_special, name)(single.astype(np.float64)), 3e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_infinities_nan_zeros_and_tails_match_scipy(dtype: str):
    x = np.array([0.0, 1.0, -1.0, 1e-30, 1e-12, np.inf, -np.inf, np.nan], dtype)
    tolerance = 2e-12 if dtype == "float64" else 3e-6
    with np.errstate(all="ignore"):
        for name in "digamma i0e i1e erfc erfcx erfinv ndtri ndtr log_ndtr logit entr".split():
            expected = getattr(scipy_special, name)(x.astype(np.float64)).astype(dtype)
            np.testing.assert_allclose(getattr(mnp.special, name)(x).numpy(), expected, tolerance, err_msg=name)
        q = np.array([np.inf, 1.0, 0.0, np.nan], dtype)
        found = mnp.special.zeta(np.full(4, 2, dtype), q).numpy()
        np.testing.assert_allclose(found, scipy_special.zeta(2, q), tolerance)


@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two_operands_match_scipy(name: str):
    one, two = PAIRS[name]
    expected = getattr(scipy_special, name)(one.astype(int) if name == "polygamma" else one, two)
    agrees(getattr(mnp.special, name)(one, two), expected, 2e-11)


def test_airy_function_matches_scipy():
    x = np.linspace(-15, 15, 121)
    agrees(mnp.special.airy_ai(x), scipy_special.airy(x)[0], 1e-11)


def test_poles_and_infinities_match_scipy():
    for name, x in (
        ("gammaln", [0.0, -1.0, np.inf]),
        ("erfinv", [-1.0, 1.0, 2.0]),
        ("y0", [0.0, -1.0]),
        ("k1", [0.0]),
        ("ndtri", [0.0, 1.0]),
        ("entr", [0.0, -1.0]),
    ):
        np.testing.assert_array_equal(getattr(mnp.special, name)(np.float64(x)), getattr(scipy_special, name)(x))


def test_logsumexp_matches_scipy():
    x = np.float64([[1000, 1001, -np.inf], [-5, 2, 3]])
    np.testing.assert_allclose(mnp.special.logsumexp(x, axis=1), scipy_special.logsumexp(x, axis=1), rtol=1e-14)
    np.testing.assert_allclose(mnp.special.logsumexp(x, keepdims=True), scipy_special.logsumexp(x, keepdims=True))


SLOPES = [n for n in ARGUMENTS if n not in ("log_ndtr", "entr")] + ["xlogy"]


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_match_central_differences(name: str):
    """The points include those at which the pieces of a formula meet."""
    function = getattr(mnp.special, name)
    points = {"erfinv": [-0.5, 0, 0.3], "ndtri": [0.25, 0.5, 0.7], "logit": [0.25, 0.5, 0.7]}
    points |= dict.fromkeys(["erf", "erfc", "erfcx", "ndtr", "expit", "j0", "j1", "i0", "i1"], [-1, 0, 0.5, 1, 2.5, 8])
    x = np.float64(points.get(name, [0.5, 1, 2, 3.3, 8]))
    operands = [np.float64(1.5)] if name == "xlogy" else []
    gradient = mg.grad(lambda x: function(*operands, x).sum())(x).numpy()
    step = 1e-6
    above, below = (function(*operands, x + s).numpy() for s in (step, -step))
    np.testing.assert_allclose(gradient, (above - below) / (2 * step), rtol=1e-6, atol=1e-8)


def test_second_derivatives_match_closed_formulas():
    x = np.float64([0.5, 1, 2, 8])
    second = mg.grad(lambda x: mg.grad(lambda x: mnp.special.gammaln(x).sum())(x).sum())(x)
    np.testing.assert_allclose(second, scipy_special.polygamma(1, x), rtol=1e-10)
    second = mg.grad(lambda x: mg.grad(lambda x: mnp.special.j0(x).sum())(x).sum())(x)
    np.testing.assert_allclose(second, scipy_special.j1(x) / x - scipy_special.j0(x), rtol=1e-10)


def test_half_precision_is_computed_in_float32():
    x = np.float16([0.5, 2.0, 7.5])
    found = mnp.special.gammaln(x)
    assert found.dtype == mg.float16
    np.testing.assert_allclose(found, scipy_special.gammaln(x.astype(np.float64)), rtol=2e-3)
    assert mnp.special.erf(mnp.asarray([0, 1])).dtype == mg.float32
    with pytest.raises(mg.DTypeError, match="real arrays"):
        mnp.special.erf(mnp.asarray([1j]))
