"""Test that float16 and bfloat16 operations with sums or several steps compute in float32 and round once.

This applies to results and gradients. Each operation runs for sizes from 1 to 100,000 and magnitudes from near the
smallest to near the largest number of the dtype, and is compared with float64 on the same operands. The error may be
half a unit in the last place for rounding the result, plus float32 rounding errors relative to the summed terms. Beyond
the range of the dtype, infinity is correct.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpsgraph as mg
import numpy as np
import pytest
from harness import device, dtypes

pytestmark = pytest.mark.both_devices

Array = np.ndarray
HALVES = ("float16", "bfloat16")
DIGITS = {"float16": 10, "bfloat16": 7}
LEAST_EXPONENT = {"float16": -14, "bfloat16": -126}
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}
NOISE = 2.0**-19  # float32 rounding of 2^-24, amplified by about ten operations and block sums

SIZES = (1, 7, 4096, 70_000) if device.IS_METAL else (1, 7, 4096, 70_000, 100_000)
SMALL = {"float16": 2.0**-14, "bfloat16": 2.0**-50}  # their squares are representable in float32
LARGE = {"float16": 30_000.0, "bfloat16": 2.0**40}


def magnitudes(dtype: str, n: int) -> dict[str, Array]:
    """Return operands of several magnitudes by description."""
    rng = np.random.default_rng(n)
    z = rng.normal(size=n)
    every = {
        "one": z,
        "all alike": np.full(n, 0.5),
        "far from zero": 60 + z,
        "plus and minus 300": np.where(np.arange(n) % 2, -300.0, 300.0),
        "small": z * SMALL[dtype],
        "large": (0.5 + rng.random(n)) * LARGE[dtype],
    }
    return every if n <= 4096 else {name: every[name] for name in ("one", "all alike", "far from zero", "large")}


def unit(x: Array, dtype: str) -> Array:
    """Return the spacing of the dtype's numbers at x."""
    exponent = np.floor(np.log2(np.abs(np.where(np.isfinite(x), x, 1))))
    return np.exp2(np.maximum(exponent, LEAST_EXPONENT[dtype]) - DIGITS[dtype])


def assert_rounded_once(result: mg.NDArray, exact: Array, scale: Any, what: str) -> None:
    dtype = str(result.dtype)
    got, exact = dtypes.read(result), np.broadcast_to(np.asarray(exact, np.float64), result.shape)
    with np.errstate(all="ignore"):
        beyond = np.abs(exact) >= LARGEST[dtype] * (1 + 2.0 ** -(DIGITS[dtype] + 2))
        held = np.where(beyond, np.sign(exact) * np.inf, exact)
        error = np.where(held == got, 0, np.abs(got - held)).ravel()
        allowed = (0.51 * unit(held, dtype) + NOISE * np.broadcast_to(scale, held.shape)).ravel()
        worst = np.argmax(np.where(np.isnan(error), np.inf, error) / allowed)
    assert error[worst] <= allowed[worst], (
        f"{what}: got {got.flat[worst]:.6g}, expected {held.flat[worst]:.6g}, "
        f"the error is {error[worst] / allowed[worst]:.3g} times the limit"
    )


def halves(numbers: Any, dtype: str) -> Array:
    return dtypes.array(np.asarray(numbers, np.float64), dtype)


def run(build: Callable, operands: list[Array], dtype: str, incoming: Array | None) -> list[mg.NDArray]:
    """Return the results, followed by the gradients of the first result with respect to all operands."""
    g = mg.Graph()
    placeholders = [g.placeholder(x.shape, dtype) for x in operands]
    feeds: dict = dict(zip(placeholders, operands, strict=True))
    made = build(g, *placeholders)
    targets = list(made) if isinstance(made, (list, tuple)) else [made]
    if incoming is not None:
        start = g.placeholder(incoming.shape, dtype)
        feeds[start] = incoming
        targets += list(g.gradients(targets[0], placeholders, start).values())
    results = g.run(feeds, targets)
    return [results[t] for t in targets]


# --- along an axis: the exact result, the exact gradient for an incoming gradient, and the scale of their errors ------


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def mean(x: Array) -> Array:
    return x.mean(-1, keepdims=True)


def d_normalization(x: Array, u: Array, epsilon: float) -> Array:
    deviation = np.sqrt(x.var(-1, keepdims=True) + epsilon)
    n = (x - mean(x)) / deviation
    return (u - mean(u) - n * mean(u * n)) / deviation


def normalized(g: mg.Graph, x: mg.Tensor) -> mg.Tensor:
    m = g.mean(x, -1)
    return g.normalization(x, m, g.variance(x, m, -1))


def spread(x: Array) -> Array:
    """Return how much the float32 rounding of the mean affects values divided by the standard deviation."""
    return 1 + np.abs(mean(x)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def steepness(x: Array, u: Array, epsilon: float = 1e-5) -> Array:
    return np.abs(u).max(-1, keepdims=True) * spread(x) ** 2 / np.sqrt(x.var(-1, keepdims=True) + epsilon)


def ties(x: Array) -> Array:
    return x == x.max(-1, keepdims=True)


def d_cumulative_sum(x: Array, u: Array) -> Array:
    return u[..., ::-1].cumsum(-1)[..., ::-1]


def rms(x: Array) -> Array:
    return np.sqrt(mean(x * x) + 1e-6)


ALONG = {
    "sum": (
        lambda g, x: g.reduction_sum(x, -1),
        lambda x: x.sum(-1, keepdims=True),
        lambda x, u: u + 0 * x,
        lambda x, u: (np.abs(x).sum(-1, keepdims=True), 0),
    ),
    "mean": (
        lambda g, x: g.mean(x, -1),
        mean,
        lambda x, u: u / x.shape[-1] + 0 * x,
        lambda x, u: (mean(np.abs(x)), 0),
    ),
    "variance": (
        lambda g, x: g.variance(x, axes=-1),
        lambda x: x.var(-1, keepdims=True),
        lambda x, u: u * 2 * (x - mean(x)) / x.shape[-1],
        lambda x, u: (x.var(-1, keepdims=True) + np.abs(mean(x)) ** 2 * 2.0**-24, np.abs(u * mean(x)) / x.shape[-1]),
    ),
    "deviation": (
        lambda g, x: g.square_root(g.variance(x, axes=-1)),
        lambda x: x.std(-1, keepdims=True),
        None,
        lambda x, u: (x.std(-1, keepdims=True) + np.abs(mean(x)), 0),
    ),
    "norm": (
        lambda g, x: g.square_root(g.reduction_sum(g.square(x), -1)),
        lambda x: np.sqrt((x * x).sum(-1, keepdims=True)),
        lambda x, u: u * x / np.sqrt((x * x).sum(-1, keepdims=True)),
        lambda x, u: (np.sqrt((x * x).sum(-1, keepdims=True)), np.abs(u)),
    ),
    "maximum": (
        lambda g, x: g.reduction_maximum(x, -1),
        lambda x: x.max(-1, keepdims=True),
        lambda x, u: u * ties(x) / ties(x).sum(-1, keepdims=True),
        lambda x, u: (0, 0),
    ),
    "softmax": (
        lambda g, x: g.softmax(x, -1),
        softmax,
        lambda x, u: softmax(x) * (u - (u * softmax(x)).sum(-1, keepdims=True)),
        lambda x, u: (softmax(x), softmax(x) * np.abs(u).max()),
    ),
    "log_softmax": (
        lambda g, x: g.log_softmax(x, -1),
        lambda x: x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)),
        lambda x, u: u - softmax(x) * u.sum(-1, keepdims=True),
        lambda x, u: (np.abs(x - x.max()) + 12, np.abs(u) + softmax(x) * np.abs(u).sum(-1, keepdims=True)),
    ),
    "cumulative_sum": (
        lambda g, x: g.cumulative_sum(x, -1),
        lambda x: x.cumsum(-1),
        d_cumulative_sum,
        lambda x, u: (np.abs(x).cumsum(-1), d_cumulative_sum(x, np.abs(u))),
    ),
    "normalization": (
        normalized,
        lambda x: (x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
        lambda x, u: d_normalization(x, u, 1e-5),
        lambda x, u: (spread(x), steepness(x, u)),
    ),
    "LayerNorm": (
        lambda g, x: mg.nn.LayerNorm()(x),
        lambda x: (x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
        lambda x, u: d_normalization(x, u, 1e-5),
        lambda x, u: (spread(x), steepness(x, u)),
    ),
    "RMSNorm": (
        lambda g, x: mg.nn.RMSNorm()(x),
        lambda x: x / rms(x),
        lambda x, u: (u - x * mean(u * x) / rms(x) ** 2) / rms(x),
        lambda x, u: (np.abs(x) / rms(x), np.abs(u).max() * (1 + np.abs(x) / rms(x)) / rms(x)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ALONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # from numpy, where the exact result has no gradient
def test_half_precision_axis_operations_round_once(name: str, dtype: str):
    build, forward, backward, scales = ALONG[name]
    for n in SIZES:
        for what, numbers in magnitudes(dtype, n).items():
            operand = halves(numbers[None], dtype)
            x = dtypes.plain(operand, dtype)
            exact = forward(x)
            incoming = halves(np.random.default_rng(1).normal(size=exact.shape), dtype)
            u = dtypes.plain(incoming, dtype)
            results = run(build, [operand], dtype, incoming if backward else None)
            forward_scale, backward_scale = scales(x, u)
            assert_rounded_once(results[0], exact, forward_scale, f"{name} of {n} {dtype}, {what}")
            if backward:
                told = f"gradient of {name} of {n} {dtype}, {what}"
                assert_rounded_once(results[1], backward(x, u), backward_scale, told)


# --- images, classes, windows, and several operands -------------------------------------------------------------------


def moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


def by_axes(x: Array, axes: tuple[int, ...]) -> tuple[Array, Callable[[Array], Array], Array]:
    """Return x normalized over axes, a function for its gradient, and the scale of float32 rounding errors."""
    m, v = moments(x, axes)
    deviation = np.sqrt(v + 1e-5)
    n = (x - m) / deviation

    def gradient(u: Array) -> Array:
        return (u - u.mean(axes, keepdims=True) - n * (u * n).mean(axes, keepdims=True)) / deviation

    return n, gradient, 1 + np.abs(m) / deviation


def in_groups(x: Array) -> Array:
    return x.reshape(x.shape[0], 4, x.shape[1] // 4, *x.shape[2:])


NORMALIZATIONS = {
    "BatchNorm": (lambda: mg.nn.BatchNorm(epsilon=1e-5, data_layout="NCHW"), lambda x: by_axes(x, (0, 2, 3))),
    "InstanceNorm": (lambda: mg.nn.InstanceNorm(data_layout="NCHW"), lambda x: by_axes(x, (2, 3))),
    "GroupNorm": (lambda: mg.nn.GroupNorm(4, data_layout="NCHW"), lambda x: by_axes(in_groups(x), (2, 3, 4))),
    "LayerNorm": (lambda: mg.nn.LayerNorm(axes=(1, 2, 3)), lambda x: by_axes(x, (1, 2, 3))),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_half_precision_image_normalizations_round_once(name: str, dtype: str):
    module, exactly = NORMALIZATIONS[name]
    shape = (2, 8, 5, 5)
    for what, numbers in magnitudes(dtype, 400).items():
        operand, incoming = (
            halves(x.reshape(shape), dtype) for x in (numbers, np.random.default_rng(2).normal(size=400))
        )
        exact, gradient, scale = exactly(dtypes.plain(operand, dtype))
        u = dtypes.plain(incoming, dtype).reshape(exact.shape)
        result, slope = run(lambda g, x: module()(x), [operand], dtype, incoming)
        spread = np.broadcast_to(scale, exact.shape).reshape(shape)
        assert_rounded_once(result, exact.reshape(shape), spread, f"{name} of {dtype}, {what}")
        largest = np.abs(gradient(u)).max() + np.abs(gradient(np.sign(u) * 3)).max()
        assert_rounded_once(slope, gradient(u).reshape(shape), spread**2 * largest, f"gradient of {name}, {what}")


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_moving_averages_advance_in_float32(dtype: str):
    """In bfloat16, 0.99 and 0.01 do not add up to 1, so the average would tend to 0.85 of the true value."""
    norm, g = mg.nn.BatchNorm(momentum=0.99), mg.Graph()
    x = g.placeholder((6, 1), dtype)
    y = norm(x)
    for _ in range(100):
        g.run({x: halves([[8.0]] * 6, dtype)}, y)
    moving = dtypes.read(g.run({}, norm.moving_mean))
    np.testing.assert_allclose(moving, 8 * (1 - 0.99**100), rtol=1e-5)


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_normalization_with_given_moments_rounds_once(dtype: str):
    rng = np.random.default_rng(3)
    shapes = [(64, 9)] + [(9,)] * 4
    operands = [halves(rng.normal(size=s) * 40, dtype) for s in shapes]
    operands[2] = halves(rng.random(9) + 0.01, dtype)
    x, m, v, gamma, beta = (dtypes.plain(o, dtype) for o in operands)
    incoming = halves(rng.normal(size=(64, 9)), dtype)
    u, r = dtypes.plain(incoming, dtype), 1 / np.sqrt(v + 1e-5)
    results = run(lambda g, *operands: g.normalization(*operands), operands, dtype, incoming)
    n = (x - m) * r
    exact = [n * gamma + beta, u * gamma * r, -(u * gamma * r).sum(0)]
    exact += [-0.5 * (u * gamma * (x - m)).sum(0) * r**3, (u * n).sum(0), u.sum(0)]
    for i, (result, value) in enumerate(zip(results, exact, strict=True)):
        scale = np.abs(value).max() + 40 * np.abs(gamma).max() * r.max() if i else np.abs(n * gamma).max()
        assert_rounded_once(result, value, scale, f"{dtype}, result {i}")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_half_precision_cross_entropy_rounds_once(reduction: str, dtype: str):
    for rows, factor in ((1, 1.0), (7, 300.0), (4096, 1.0), (70_000, 1.0)):
        rng = np.random.default_rng(rows)
        operand = halves(rng.normal(size=(rows, 3)) * factor, dtype)
        labels = halves(np.eye(3)[rng.integers(3, size=rows)], dtype)
        x, t = dtypes.plain(operand, dtype), dtypes.plain(labels, dtype)
        p = softmax(x)
        losses = -(
            t * (x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)))
        )
        losses = losses.sum(-1, keepdims=True)
        exact = {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
        incoming = halves(np.ones(np.shape(exact)), dtype)
        share = rows if reduction == "mean" else 1
        result, slope, _ = run(
            lambda g, x, t: g.softmax_cross_entropy(x, t, reduction=reduction), [operand, labels], dtype, incoming
        )
        assert_rounded_once(result, exact, np.abs(exact) + factor / share, f"{reduction} of {rows} {dtype}")
        assert_rounded_once(slope, (p - t) / share, 1 / share, f"gradient of {reduction} of {rows} {dtype}")


def averages(g: mg.Graph, x: mg.Tensor) -> mg.Tensor:
    return g.avg_pooling2d(x, (40, 40))


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_window_scatter_and_matmul_sums_round_once(dtype: str):
    rng = np.random.default_rng(4)
    top = LARGE[dtype]
    image = halves(top + 0 * rng.normal(size=(1, 40, 80, 2)), dtype)
    assert_rounded_once(run(averages, [image], dtype, None)[0], dtypes.plain(image, dtype)[:, :1, :2], 0, "averages")
    ones = halves(np.ones((1, 1, 2, 2)), dtype)
    _, slope = run(averages, [image], dtype, ones)
    assert_rounded_once(slope, np.full(image.shape, 1 / 1600), 0, "gradient of averages")

    values, factors = (halves(rng.normal(size=s), dtype) for s in ((5000, 3), (3,)))
    _, _, slope = run(lambda g, x, b: x * b, [values, factors], dtype, halves(np.full((5000, 3), 0.5), dtype))
    x = dtypes.plain(values, dtype) / 2
    assert_rounded_once(slope, x.sum(0), np.abs(x).sum(0), "gradient of a broadcast factor")

    table = halves(rng.normal(size=(3, 2)), dtype)
    rows = np.zeros(5000, np.int32)
    _, slope = run(lambda g, t: g.gather(t, g.constant(rows)), [table], dtype, halves(np.full((5000, 2), 0.5), dtype))
    assert_rounded_once(slope, np.array([[2500, 2500], [0, 0], [0, 0]]), 0, "gradient of rows that are all the first")

    a, b = (halves(rng.normal(size=s), dtype) for s in ((2, 30_000), (30_000, 3)))
    x, y = dtypes.plain(a, dtype), dtypes.plain(b, dtype)
    product = run(lambda g, a, b: g.matrix_multiplication(a, b), [a, b], dtype, None)[0]
    assert_rounded_once(product, x @ y, 8 * np.sqrt((x * x) @ (y * y)), "product")

    many = halves(1 + rng.normal(size=(2, 30)) / 8, dtype)
    x = dtypes.plain(many, dtype)
    result, slope = run(lambda g, x: g.reduction_product(x, -1), [many], dtype, halves(np.ones((2, 1)), dtype))
    assert_rounded_once(result, x.prod(-1, keepdims=True), np.abs(x.prod(-1, keepdims=True)), "product of all")
    assert_rounded_once(slope, x.prod(-1, keepdims=True) / x, np.abs(x.prod(-1, keepdims=True) / x), "its gradient")
    _, slope = run(lambda g, x: g.cumulative_product(x, -1), [many], dtype, halves(np.ones((2, 30)), dtype))
    exact = np.cumsum(np.cumprod(x, -1)[:, ::-1], -1)[:, ::-1] / x
    assert_rounded_once(slope, exact, np.abs(exact) + 1, "gradient of running products")


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_optimizer_steps_round_once(dtype: str):
    rng = np.random.default_rng(5)
    coefficients = [halves(x, dtype) for x in (0.01, 0.9, 0.999, 1e-3)]
    for magnitude in (SMALL[dtype], 1.0, 300.0, LARGE[dtype] / 2):
        states = [halves(rng.normal(size=50) * magnitude, dtype) for _ in range(3)]
        velocity = halves(rng.random(50), dtype)
        values, momentum, gradient = (dtypes.plain(s, dtype) for s in states)
        rate, beta1, beta2, epsilon = (dtypes.plain(c, dtype) for c in coefficients)
        result = run(
            lambda g, *a: g.stochastic_gradient_descent(*a), [coefficients[0], states[0], states[2]], dtype, None
        )
        assert_rounded_once(
            result[0], values - rate * gradient, np.abs(values) + np.abs(gradient), f"{dtype} {magnitude}"
        )
        m = beta1 * momentum + (1 - beta1) * gradient
        v = beta2 * dtypes.plain(velocity, dtype) + (1 - beta2) * gradient**2
        moved = values - rate * m / (np.sqrt(v) + epsilon)
        results = run(
            lambda g, *a: g.adam_with_current_learning_rate(*a),
            [*coefficients, states[0], states[1], velocity, states[2]], dtype, None,
        )  # fmt: skip
        terms = np.abs(momentum) + np.abs(gradient)
        for result, exact, scale in zip(
            results, (moved, m, v), (np.abs(values) + np.abs(moved - values) + terms * 0.01, terms, v), strict=True
        ):
            assert_rounded_once(result, exact, scale, f"Adam of {dtype}, {magnitude}")


# --- regressions ------------------------------------------------------------------------------------------------------


def of(build: Callable, numbers: Any, dtype: str = "float16") -> Array:
    return dtypes.read(run(build, [halves(numbers, dtype)], dtype, None)[0])


def test_half_precision_means_neither_overflow_nor_underflow():
    assert of(lambda g, x: g.mean(x), [60_000.0] * 4) == 60_000
    assert of(lambda g, x: g.mean(x), [0.5] * 70_000) == 0.5
    g = mg.Graph()
    x = g.placeholder((70_000,), "float16")
    slope = g.run({x: np.zeros(70_000, np.float16)}, g.gradients(g.mean(x), [x])[x]).numpy()
    assert np.all(slope == np.float16(1 / 70_000)), "the gradient must be subnormal, not 0"
    g = mg.Graph()
    x = g.placeholder((-1,), "float16")
    slope = g.run({x: np.zeros(70_000, np.float16)}, g.gradients(g.mean(x), [x])[x]).numpy()
    assert np.all(slope == np.float16(1 / 70_000)), "also if the count is known only at run time"


@pytest.mark.parametrize("size", [128.0, 300.0, 60_000.0])
def test_layer_norms_of_extreme_opposite_values_return_signs(size: float):
    row = np.array([[size, -size, size, -size]])
    for numbers, norm in [(row, mg.nn.LayerNorm), (row, mg.nn.RMSNorm), (row.T, mg.nn.BatchNorm)]:
        result = of(lambda g, x, norm=norm: norm()(x), numbers)
        np.testing.assert_array_equal(result, np.sign(numbers), err_msg=norm.__name__)
    chain = of(lambda g, x: g.normalization(x, g.mean(x), g.variance(x)), row)
    np.testing.assert_array_equal(chain, np.sign(row))
    np.testing.assert_array_equal(of(lambda g, x: g.square_root(g.variance(x)), row), [[size]])


def test_rms_norm_after_linear_under_autocast_does_not_overflow():
    g, linear = mg.Graph(), mg.nn.Linear(4, bias=False)
    x = g.placeholder((1, 4))
    with mg.autocast("float16"):
        y = mg.nn.RMSNorm()(linear(x))
    g.run({}, [], [g.assign(linear.weight, g.constant(np.eye(4, dtype=np.float32)))])
    result = g.run({x: np.float32([[300, -300, 300, -300]])}, y).numpy()
    np.testing.assert_array_equal(result, [[1, -1, 1, -1]])


def test_layer_norm_of_long_row_far_from_zero_is_accurate():
    """A mean of 60 rounded to bfloat16 is off by up to 1/8, which once caused errors of 0.06 to 0.08."""
    numbers = 60 + np.random.default_rng(6).normal(size=(2, 4096))
    x = dtypes.plain(halves(numbers, "bfloat16"), "bfloat16")
    exact = (x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    result = of(lambda g, x: mg.nn.LayerNorm()(x), numbers, "bfloat16")
    inside = np.abs(exact) < 4  # where half a unit is 2^-7
    assert np.abs(result - exact)[inside].max() <= 0.008


# --- intermediate precision -------------------------------------------------------------------------------------------


def test_half_precision_statistics_stay_float32_unless_fetched():
    seen: dict[str, str] = {}
    g = mg.Graph()
    x = g.placeholder((3, 8), "bfloat16", name="x")
    m = g.mean(x, -1, name="m")
    n = g.normalization(x, m, g.variance(x, m, -1), name="n")
    options = mg.CompilationDescriptor(observe=seen.__setitem__)
    g.compile({x: (3, 8)}, [n], options=options)
    text = seen["widen"]
    assert text.count("cast(") == 2 and "%n = cast(" in text, text
    seen.clear()
    g.compile({x: (3, 8)}, [n, m], options=options)
    assert seen["widen"].count("cast(") == 3 and "%m = cast(" in seen["widen"], (
        "only the fetched copy of the mean may be rounded"
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_casts_to_half_precision_round_before_comparisons_and_arithmetic(dtype: str):
    """Each cast has a single user, so a fused kernel might omit the rounding."""
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    y = x * np.float32(1 + 2.0 ** -(DIGITS[dtype] + 1))
    narrow = lambda z: dtypes.plain(dtypes.array(z, dtype), dtype)  # noqa: E731
    a, b = narrow(x), narrow(y)
    assert 100 < (a == b).sum() < 900
    g = mg.Graph()
    t, u = g.placeholder(x.shape), g.placeholder(y.shape)
    halves = lambda: (g.cast(t, dtype), g.cast(u, dtype))  # noqa: E731
    for compare, expected in ((g.equal, a == b), (g.not_equal, a != b), (g.less_than, a < b)):
        np.testing.assert_array_equal(g.run({t: x, u: y}, compare(*halves())).numpy(), expected)
    difference = g.run({t: x, u: y}, g.cast(g.subtraction(*halves()), "float32")).numpy()
    np.testing.assert_array_equal(difference, narrow(a - b))


def test_explicit_casts_round():
    """Casts to float16 must round even if a fused kernel keeps values in registers: midpoints, neighbors, and
    limits.
    """
    bits = np.arange(0, 0x7C00, 3, dtype=np.uint16)
    exact = bits.view(np.float16).astype(np.float32)
    above = (bits + 1).view(np.float16).astype(np.float32)
    halfway = np.where(np.isinf(above), 65520, (exact + above) / 2).astype(np.float32)
    numbers = [exact, halfway, np.nextafter(halfway, np.float32(0)), np.nextafter(halfway, np.float32(np.inf))]
    numbers = np.concatenate(
        [*numbers, [65519.996, 65520, 1e9, np.inf, np.nan, 0, 2.0**-25, 2.0**-26]], dtype=np.float32
    )
    numbers = np.concatenate([numbers, -numbers])
    with np.errstate(over="ignore"):
        expected = numbers.astype(np.float16).astype(np.float32)
    g = mg.Graph()
    x = g.placeholder(numbers.shape)
    low = g.cast(x, "float16")
    once, twice = g.cast(low, "float32"), g.negative(g.cast(g.negative(low), "float32"))
    results = g.run({x: numbers}, [once, twice, low])
    for result in (once, twice, low):
        np.testing.assert_array_equal(results[result].numpy(), expected)
        sign = np.signbit(results[result].numpy()) == np.signbit(expected)
        assert np.all(sign | np.isnan(expected))


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_normalization_inside_loop_rounds_once(dtype: str):
    """Loop variables are saved in half precision, but moments must be recomputed from the input, not from
    saved values.
    """
    rng = np.random.default_rng(7)
    operand, incoming = halves(60 + rng.normal(size=(2, 64)), dtype), halves(rng.normal(size=(2, 64)), dtype)

    def build(g: mg.Graph, x: mg.Tensor) -> mg.Tensor:
        return g.for_(1, initial=[x], body=lambda _, value: [normalized(g, value)])[0]

    x, u = dtypes.plain(operand, dtype), dtypes.plain(incoming, dtype)
    _, slope = run(build, [operand], dtype, incoming)
    assert_rounded_once(slope, d_normalization(x, u, 1e-5), steepness(x, u), dtype)
