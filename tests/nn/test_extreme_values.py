"""Test activations and losses at NaN, infinities, both zeros, the limits of each dtype, and tiny differences.

The expected values and gradients were computed with torch 2.13 in float64. Where PyTorch's own results differ between
dtypes, the limit is expected. The gradient at NaN is unspecified: piecewise activations return the slope of whichever
piece NaN selects.
"""

import math

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import has
from mpsgraph import nn
from mpsgraph.nn import losses

pytestmark = pytest.mark.both_devices

NAN, INF = math.nan, math.inf
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": float(np.finfo("f4").max)}
if has("float64"):
    LARGEST["float64"] = float(np.finfo("f8").max)
WIDE = "float64" if has("float64") else "float32"
EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
M = 123456.0  # Placeholder for the largest finite number of the dtype.
LN2, SELU, SLOPE = math.log(2), 1.7580993408473766, 1.0507009873554805

# Values and gradients at inf, -inf, M, -M, 0, and -0. At NaN all values are NaN. None means unchecked.
ACTIVATIONS = {
    "ReLU": (nn.ReLU, [INF, 0, M, 0, 0, -0.0], [1, 0, 1, 0, 0, 0]),
    "ReLU6": (nn.ReLU6, [6, 0, 6, 0, 0, -0.0], [0, 0, 0, 0, 0, 0]),
    "LeakyReLU": (nn.LeakyReLU, [INF, -INF, M, -0.01 * M, 0, -0.0], [1, 0.01, 1, 0.01, None, None]),
    "PReLU": (nn.PReLU, [INF, -INF, M, -0.25 * M, 0, -0.0], [1, 0.25, 1, 0.25, 0.25, 0.25]),
    "Sigmoid": (nn.Sigmoid, [1, 0, 1, 0, 0.5, 0.5], [0, 0, 0, 0, 0.25, 0.25]),
    "Tanh": (nn.Tanh, [1, -1, 1, -1, 0, -0.0], [0, 0, 0, 0, 1, 1]),
    "GELU": (nn.GELU, [INF, NAN, M, -0.0, 0, -0.0], [NAN, NAN, 1, 0, 0.5, 0.5]),
    "GELU, tanh": (lambda: nn.GELU("tanh"), [INF, NAN, M, -0.0, 0, -0.0], [NAN, NAN, None, None, 0.5, 0.5]),
    "ELU": (nn.ELU, [INF, -1, M, -1, 0, -0.0], [1, 0, 1, 0, 1, 1]),
    "CELU": (lambda: nn.CELU(2.0), [INF, -2, M, -2, 0, -0.0], [1, 0, 1, 0, 1, 1]),
    "SELU": (nn.SELU, [INF, -SELU, INF, -SELU, 0, -0.0], [SLOPE, 0, SLOPE, 0, SELU, SELU]),
    "SiLU": (nn.SiLU, [INF, NAN, M, -0.0, 0, -0.0], [NAN, NAN, 1, -0.0, 0.5, 0.5]),
    "Mish": (nn.Mish, [INF, NAN, M, -0.0, 0, -0.0], [NAN, NAN, 1, 0, 0.6, 0.6]),
    "Softplus": (nn.Softplus, [INF, 0, M, 0, LN2, LN2], [1, 0, 1, 0, 0.5, 0.5]),
    "Softplus of 2": (lambda: nn.Softplus(2.0), [INF, 0, M, 0, LN2 / 2, LN2 / 2], [1, 0, 1, 0, 0.5, 0.5]),
    "LogSigmoid": (nn.LogSigmoid, [0, -INF, 0, -M, -LN2, -LN2], [0, 1, 0, 1, 0.5, 0.5]),
    "Softsign": (nn.Softsign, [NAN, NAN, 1, -1, 0, -0.0], [NAN, NAN, 0, 0, 1, 1]),
    "Tanhshrink": (nn.Tanhshrink, [INF, -INF, M, -M, 0, 0], [1, 1, 1, 1, 0, 0]),
    "Hardtanh": (nn.Hardtanh, [1, -1, 1, -1, 0, -0.0], [0, 0, 0, 0, 1, 1]),
    "Hardsigmoid": (nn.Hardsigmoid, [1, 0, 1, 0, 0.5, 0.5], [0, 0, 0, 0, 1 / 6, 1 / 6]),
    "Hardswish": (nn.Hardswish, [INF, NAN, M, -0.0, 0, -0.0], [1, 0, 1, 0, 0.5, 0.5]),
    "Hardshrink": (nn.Hardshrink, [INF, -INF, M, -M, 0, 0], [1, 1, 1, 1, 0, 0]),
    "Softshrink": (nn.Softshrink, [INF, -INF, M, -M, 0, 0], [1, 1, 1, 1, 0, 0]),
    "Threshold": (lambda: nn.Threshold(1.0, 20.0), [INF, 20, M, 20, 20, 20], [1, 0, 1, 0, 0, 0]),
}


def run(make, x, dtype):
    """Return the values and gradients of make at the numbers x, computed in dtype."""
    g = mg.Graph()
    fed = g.placeholder((-1,), WIDE)
    given = g.cast(fed, dtype)
    y = make(g, given)
    slope = g.gradients(g.reduction_sum(y), [given])[given]
    assert y.dtype == slope.dtype == given.dtype
    return [v.numpy() for v in g.run({fed: np.array(x, WIDE)}, [g.cast(y, WIDE), g.cast(slope, WIDE)]).values()]


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_at_infinities_and_dtype_limits_match_reference(name, dtype):
    make, values, slopes = ACTIVATIONS[name]
    largest = LARGEST[dtype]
    y, d = run(lambda g, x: make()(x), [NAN, INF, -INF, largest, -largest, 0.0, -0.0], dtype)
    assert math.isnan(y[0])
    for found, wanted in ((y[1:], values), (d[1:], slopes)):
        for a, b in zip(found, wanted, strict=True):
            if b is not None:
                b = b / M * largest if abs(b) > 1000 else b
                np.testing.assert_allclose(a, b, rtol=16 * EPSILON[dtype], err_msg=f"got {found}, expected {wanted}")
    if dtype == "float32":  # Test each value once alone, and once among enough numbers to use the vectorized kernels.
        again, _ = run(lambda g, x: make()(x), [NAN, INF, -INF, largest, -largest, 0.0, -0.0] * 100, dtype)
        np.testing.assert_array_equal(again, np.tile(y, 100))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_propagate_nan_elementwise(name):
    x = np.zeros((3, 70))
    for place in range(70):
        x[1, place] = NAN
    y, _ = run(lambda g, t: g.reshape(ACTIVATIONS[name][0]()(g.reshape(t, (3, 70))), (-1,)), x.ravel(), "float32")
    np.testing.assert_array_equal(np.isnan(y.reshape(3, 70)), np.isnan(x))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_layer_with_fused_activation_propagates_nan(name, dtype):
    """Where possible, the compiler fuses the layer and its activation into one kernel."""
    g = mg.Graph()
    x = g.placeholder((-1, 3))
    y = nn.Sequential(nn.Linear(5), ACTIVATIONS[name][0]())(g.cast(x, dtype))
    y = g.cast(y, "float32")
    for rows in (1, 4, 40):
        fed = np.ones((rows, 3), np.float32)
        fed[rows // 2, 1] = NAN
        found = np.isnan(g.run({x: fed}, y).numpy())
        assert found[rows // 2].all() and found.sum() == 5


# Values for which adding 1 in the textbook formula would lose all precision.
SMALL = {
    "Softplus": (nn.Softplus, lambda x: np.log1p(np.exp(x)), [-12.0, -20.0, -60.0]),
    "LogSigmoid": (nn.LogSigmoid, lambda x: -np.log1p(np.exp(-x)), [12.0, 20.0, 60.0]),
    "ELU": (nn.ELU, np.expm1, [-5e-4, -1e-6, -1e-20, -0.5, -0.99, -1.01, -5.0]),
    "SELU": (nn.SELU, lambda x: SELU * np.expm1(x), [-5e-4, -1e-6, -1e-20]),
    "CELU": (lambda: nn.CELU(0.5), lambda x: 0.5 * np.expm1(x * 2), [-2e-4, -1e-6, -1e-20]),
    "Mish": (nn.Mish, lambda x: x * np.tanh(np.log1p(np.exp(x))), [-12.0, -20.0, 1e-6, 3.0, 30.0]),
}


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("name", SMALL)
def test_activations_keep_precision_for_tiny_results(name, dtype):
    make, exact, x = SMALL[name]
    g = mg.Graph()
    given = (
        g.run({}, g.cast(g.cast(g.constant(np.array(x, WIDE)), dtype), WIDE)).numpy().astype(float)
    )  # The expected values are rounded to dtype.
    y, _ = run(lambda g, t: make()(t), x, dtype)
    np.testing.assert_allclose(y, exact(given), rtol=8 * EPSILON[dtype], atol=2.0**-25 if dtype == "float16" else 0)


# --- losses -----------------------------------------------------------------------------------------------------------

L32, TINY = LARGEST["float32"], 4.24835413113866e-18
# (output, label): (value, gradient with respect to the output).
LOSSES = {
    "binary_cross_entropy_with_logits": [
        ((INF, 0), (INF, 1)), ((-INF, 1), (INF, -1)), ((-INF, 0), (NAN, None)), ((NAN, 1), (NAN, None)),
        ((L32, 0), (L32, 1)), ((-L32, 1), (L32, -1)), ((L32, 1), (0, 0)), ((-L32, 0), (0, 0)), ((0, 1), (LN2, -0.5)),
        ((40, 1), (TINY, -TINY)), ((-40, 0), (TINY, TINY)),
    ],
    "mean_squared_error": [((INF, 0), (INF, INF)), ((L32, 0), (INF, INF)), ((NAN, 0), (NAN, NAN)), ((0, 0), (0, 0))],
    "mean_absolute_error": [((INF, 0), (INF, 1)), ((-L32, 0), (L32, -1)), ((NAN, 0), (NAN, None)), ((1, 1), (0, 0))],
    "huber": [
        ((INF, 0), (INF, 1)), ((-INF, 0), (INF, -1)), ((L32, 0), (L32, 1)), ((NAN, 0), (NAN, NAN)),
        ((1, 0), (0.5, 1)), ((0, 0), (0, 0)), ((0.5, 0), (0.125, 0.5)), ((-3, 0), (2.5, -1)),
    ],
    "smooth_l1": [((INF, 0), (INF, 1)), ((-L32, 0), (L32, -1)), ((NAN, 0), (NAN, NAN)), ((0.5, 0), (0.125, 0.5))],
    "log_cosh": [
        ((INF, 0), (INF, 1)), ((-INF, 0), (INF, -1)), ((-L32, 0), (L32, -1)), ((NAN, 0), (NAN, NAN)), ((0, 0), (0, 0)),
    ],
    "soft_margin": [
        ((INF, -1), (INF, 1)), ((INF, 1), (0, 0)), ((-L32, 1), (L32, -1)), ((NAN, 1), (NAN, NAN)),
        ((0, 1), (LN2, -0.5)),
    ],
    "hinge": [((INF, -1), (INF, 1)), ((INF, 1), (0, 0)), ((-L32, 1), (L32, -1)), ((NAN, 1), (NAN, None))],
    "binary_cross_entropy": [((0, 1), (100, 0)), ((1, 0), (100, 0)), ((1, 1), (0, -1)), ((NAN, 1), (NAN, NAN))],
    "kl_divergence": [((-INF, 0.5), (INF, -0.5)), ((0, 0), (0, 0)), ((NAN, 0.5), (NAN, -0.5)), ((-INF, 0), (NAN, 0))],
    "poisson_nll": [((INF, 0), (NAN, INF)), ((-INF, 0), (NAN, 0)), ((0, 1), (1, 0)), ((NAN, 1), (NAN, NAN))],
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses_at_infinities_and_dtype_limits_match_reference(name):
    pairs, wanted = zip(*LOSSES[name], strict=True)
    outputs, labels = np.float32(pairs).T
    g = mg.Graph()
    x, y = g.placeholder((-1,)), g.placeholder((-1,))
    loss = losses.LOSSES[name](x, y, reduction="none")
    found = g.run({x: outputs, y: labels}, [loss, g.gradients(g.reduction_sum(loss), [x])[x]])
    for (value, slope), a, b in zip(wanted, *(v.numpy() for v in found.values()), strict=True):
        np.testing.assert_allclose(a, value, rtol=1e-6)
        if slope is not None:
            np.testing.assert_allclose(b, slope, rtol=1e-6)


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("name", sorted(set(losses.LOSSES) - {"mse", "l1", "log", "nll", "ctc"}))
def test_nan_in_outputs_or_labels_gives_nan_loss(name, dtype):
    for which in (0, 1):
        fed = [np.full((5, 3), 0.4, WIDE), np.full((5, 3), 1.0, WIDE)]
        fed[which][3, 1] = NAN
        g = mg.Graph()
        wide = [g.placeholder((-1, 3), WIDE) for _ in fed]
        x, y = (g.cast(w, dtype) for w in wide)
        if name == "hinge_embedding" and which:
            continue  # Any label other than 1 counts as -1, so a NaN label goes unnoticed.
        loss = g.cast(losses.LOSSES[name](x, y), WIDE)
        assert math.isnan(g.run(dict(zip(wide, fed, strict=True)), loss).item()), which


def test_logits_of_minus_infinity_have_zero_probability():
    """A logit of -infinity is a probability of 0. Expected values are from torch 2.13."""
    x = np.float32([[0, -INF, 1], [0, 0, -INF]])
    for labels, wanted, slopes in (
        ([0, 1], [1.31326162815094, LN2], [[-0.7310586, 0, 0.7310586], [0.5, -0.5, 0]]),
        ([2, 2], [0.31326166, INF], [[0.26894143, 0, -0.26894143], [0.5, 0.5, -1]]),
    ):
        g = mg.Graph()
        logits = g.placeholder((2, 3))
        given = g.constant(labels)
        for loss in (
            losses.cross_entropy(logits, given, reduction="none"),
            losses.nll(g.log_softmax(logits), given, reduction="none"),
        ):
            d = g.gradients(g.reduction_sum(loss), [logits])[logits]
            found = g.run({logits: x}, [loss, d])
            np.testing.assert_allclose(found[loss].numpy(), wanted, rtol=1e-6)
            np.testing.assert_allclose(found[d].numpy(), slopes, rtol=1e-6)


def test_cosine_losses_of_zero_and_huge_vectors_match_pytorch():
    """Expected values and gradients are those of torch 2.13's cosine_similarity and triplet_margin_loss."""
    g = mg.Graph()
    x, y = g.placeholder((4, 3)), g.placeholder((4, 3))
    cosine = losses.cosine_similarity(x, y)
    slope = g.gradients(g.reduction_sum(cosine), [x])[x]
    a = np.float32([[0, 0, 0], [1, 0, 0], [3e38, 0, 0], [2e18, 0, 0]])
    b = np.float32([[1, 0, 0], [0, 0, 0], [3e38, 1, 0], [2e18, 0, 0]])
    found = g.run({x: a, y: b}, [cosine, slope])
    np.testing.assert_allclose(found[cosine].numpy(), [0, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(found[slope].numpy()[:2], [[1e8, 0, 0], [0, 0, 0]], rtol=1e-6)
    for p in (1.0, 2.0, 3.0):
        anchor = g.placeholder((1, 2))
        near = g.constant(np.full((1, 2), 1e-6, np.float32))  # The distance of these vectors equals epsilon.
        loss = losses.triplet_margin(anchor, near, near, p=p)
        d = g.gradients(loss, [anchor])[anchor]
        found = g.run({anchor: np.zeros((1, 2), np.float32)}, [loss, d])
        assert found[loss].item() == 1.0 and (found[d].numpy() == 0).all()


def test_triplet_swap_propagates_nan_distance():
    g = mg.Graph()
    anchor, far, lost = (g.constant([[value]]) for value in (0.0, 5.0, NAN))
    for negative, positive in ((far, lost), (lost, far)):
        assert math.isnan(g.run({}, losses.triplet_margin(anchor, positive, negative, swap=True)).item())
