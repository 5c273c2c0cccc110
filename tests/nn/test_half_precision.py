"""Test that bfloat16 and float16 layers and losses compute in float32 and round once at the end.

Expected values are computed by numpy in float64 from inputs rounded to the dtype.
"""

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn
from mpsgraph.nn import losses

pytestmark = [pytest.mark.both_devices, pytest.mark.begins_early]

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # Half a unit in the last place of each dtype.


def normalized(x, axes, epsilon, centred=True):
    x = x - (x.mean(axes, keepdims=True) if centred else 0)
    return x / np.sqrt((x**2).mean(axes, keepdims=True) + epsilon)


NORMS = {
    "LayerNorm": (nn.LayerNorm, lambda x: normalized(x, 1, 1e-5)),
    "RMSNorm": (nn.RMSNorm, lambda x: normalized(x, 1, 1e-6, centred=False)),
    "BatchNorm": (nn.BatchNorm, lambda x: normalized(x, 0, 1e-3)),
    "GroupNorm": (
        lambda: nn.GroupNorm(2),
        lambda x: normalized(x.reshape(len(x), 2, -1), 2, 1e-5).reshape(x.shape),
    ),
    "InstanceNorm": (
        lambda: lambda x: x.graph.squeeze(nn.InstanceNorm()(x.graph.expand_dims(x, -1)), -1),
        lambda x: normalized(x, 1, 1e-5),
    ),
}


def run(make, x, dtype):
    """Return the result, and the gradient of the sum over the first half of its rows, computed in dtype."""
    g = mg.Graph()
    fed = g.placeholder(x.shape)
    given = g.cast(fed, dtype)
    y = make(given)
    weights = np.zeros(x.shape, np.float32)
    weights[: len(x) // 2] = 1
    slope = g.gradients(g.reduction_sum(g.cast(y, "float32") * g.constant(weights)), [given])[given]
    assert str(y.dtype) == str(slope.dtype) == dtype
    return [v.numpy() for v in g.run({fed: x}, [g.cast(y, "float32"), g.cast(slope, "float32")]).values()]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mean, deviation", [(0, 300), (60, 1), (0, 1e-3), (0, 1.2e4), (1000, 1)])
@pytest.mark.parametrize("shape", [(6, 4096), (2, 100_000)], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_half_precision_normalizations_match_numpy(name, shape, mean, deviation, dtype, rng):
    make, exact = NORMS[name]
    rows = shape[::-1] if name == "BatchNorm" else shape
    x = rng.normal(mean, deviation, rows).astype(TYPES[dtype]).astype(np.float64)
    y, slope = run(make(), x.astype(np.float32), dtype)
    wanted = exact(x)
    resolution = 2.0**-22 * (4 + abs(mean) / deviation)  # Resolution of a mean computed in float32.
    np.testing.assert_allclose(y, wanted, rtol=2 * ROUNDING[dtype], atol=resolution)
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NORMS)
def test_normalization_does_not_overflow_float16(name, dtype):
    """The squares of the inputs overflow float16."""
    x = np.tile(np.float32([[300, -300], [-300, 300]]), (2, 2))
    y, _ = run(NORMS[name][0](), x, dtype)
    np.testing.assert_array_equal(y, np.sign(x))


@pytest.mark.parametrize("precision", TYPES)
@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm"])
def test_normalization_after_matmul_under_autocast_is_accurate(name, precision):
    g = mg.Graph()
    linear, norm = nn.Linear(4, bias=False), NORMS[name][0]()
    x = g.placeholder((-1, 4))
    with mg.autocast(precision):
        y = norm(linear(x))
    linear.load_state_dict({"weight": np.eye(4, dtype=np.float32)})
    slopes = g.gradients(g.reduction_sum(g.square(y)), [x, *linear.parameters()])
    fed = np.tile(np.float32([[300, -300, 300, -300], [-300, 300, -300, 300]]), (3, 1))
    found = g.run({x: fed}, [g.cast(y, "float32"), *slopes.values()])
    values = [v.numpy() for v in found.values()]
    np.testing.assert_array_equal(values[0], np.sign(fed))
    assert all(np.isfinite(v).all() for v in values)


@pytest.mark.parametrize("dtype", TYPES)
def test_moving_averages_are_kept_in_float32(dtype):
    """In half precision, updates with momentum 0.99 would round away, and a variance of 90,000 overflows float16."""
    g = mg.Graph()
    norm = nn.BatchNorm()
    x = g.placeholder((-1, 1))
    y = norm(g.cast(x, dtype))
    for _ in range(200):
        g.run({x: np.float32([[-296], [304]])}, y)
    state = norm.state_dict()
    assert state["moving_mean"].dtype == np.float32 and state["gamma"].dtype != np.float32
    np.testing.assert_allclose(state["moving_mean"], 4 * (1 - 0.9**200), rtol=1e-4)
    np.testing.assert_allclose(state["moving_variance"], 90_000 * (1 - 0.9**200) + 0.9**200, rtol=1e-2)
    frozen = g.run({x: np.float32([[304]])}, g.cast(norm.eval()(g.cast(x, dtype)), "float32")).item()
    assert frozen == pytest.approx(300.5 / np.sqrt(state["moving_variance"][0]), rel=2e-2)


MEANS = {
    "mean_squared_error": lambda x, y: (x - y) ** 2,
    "mean_absolute_error": lambda x, y: np.abs(x - y),
    "huber": lambda x, y: np.where(np.abs(x - y) <= 1, (x - y) ** 2 / 2, np.abs(x - y) - 0.5),
    "log_cosh": lambda x, y: np.abs(x - y) + np.log1p(np.exp(-2 * np.abs(x - y))) - np.log(2),
    "binary_cross_entropy_with_logits": lambda x, y: np.logaddexp(0, x) - x * y,
    "soft_margin": lambda x, y: np.logaddexp(0, -x * y),
    "hinge": lambda x, y: np.maximum(0, 1 - x * y),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("count", [1000, 100_000])
@pytest.mark.parametrize("name", MEANS)
def test_half_precision_losses_over_many_elements_match_numpy(name, count, scale, dtype, rng):
    x, y = (rng.normal(0, scale, count) for _ in range(2))
    if name in ("soft_margin", "hinge", "binary_cross_entropy_with_logits"):
        y = np.sign(y) if "binary" not in name else (y > 0) * 1.0
    x, y = (a.astype(TYPES[dtype]).astype(np.float64) for a in (x, y))
    g = mg.Graph()
    fed = [g.placeholder((-1,)) for _ in range(2)]
    given = [g.cast(a, dtype) for a in fed]
    loss = losses.LOSSES[name](*given)
    slope = g.gradients(loss, given[:1])[given[0]]
    targets = [g.cast(loss, "float32"), g.cast(slope, "float32")]
    found = g.run(dict(zip(fed, (x.astype(np.float32), y.astype(np.float32)), strict=True)), targets)
    assert loss.dtype == given[0].dtype
    exact = MEANS[name](x, y).mean()
    np.testing.assert_allclose(found[targets[0]].item(), exact, rtol=2 * ROUNDING[dtype], atol=2.0**-25)
    step = 1e-4 * scale
    wanted = (MEANS[name](x + step, y) - MEANS[name](x - step, y)) / (2 * step) / count
    close = np.abs(found[targets[1]].numpy() - wanted) <= 4 * ROUNDING[dtype] * np.abs(wanted) + 2.0**-24
    assert close.mean() > 0.99  # Inputs at a kink of the loss may differ.


@pytest.mark.parametrize("dtype", TYPES)
def test_optimizer_state_of_half_precision_weights_is_float32(dtype):
    """Momenta and averages are float32, so the average of 300 equal gradients of 2^-12 is exact."""
    for optimizer, name in ((mg.optim.Adam(0.0), "momentum"), (mg.optim.SGD(0.0, 0.9), "momentum")):
        g = mg.Graph()
        v = g.variable([1.0], dtype, name="v")
        updates = optimizer.updates({v: g.constant([2.0**-12], dtype=dtype)}, g.constant(0.0))
        for _ in range(300):
            g.run({}, [], updates)
        state = next(s for s in g.variables if s.name == f"v/{name}")
        assert state.dtype == mg.float32
        wanted = 2.0**-12 if isinstance(optimizer, mg.optim.Adam) else 2.0**-12 * 10
        np.testing.assert_allclose(g.variable_value(state), wanted, rtol=1e-5)
