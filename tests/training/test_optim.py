"""Compare optimizers with update rules in numpy, and test schedules, clipping, and invalid arguments."""

import math

import mpsgraph as mg
import numpy as np
import pytest

STEPS, RATE = 6, 0.05


def run(optimizer, start, gradients_of):
    """Return the values after each step of an optimizer whose gradient is gradients_of(values)."""
    g = mg.Graph()
    v = g.variable(start, name="v")
    rate = g.placeholder((), name="rate")
    updates = optimizer.updates({v: gradients_of(g.read(v))}, rate)
    values = []
    for step in range(STEPS):
        g.run({rate: np.float32(optimizer.learning_rate(step))}, [], updates)
        values.append(g.variable_value(v))
    return np.array(values)


def reference(update, start):
    """Return the values after each step of update(t, values, gradient, state) in float64."""
    values, state, result = start.astype(float), {}, []
    for t in range(1, STEPS + 1):
        values = update(t, values, 2 * values + 0.3, state)
        result.append(values)
    return np.array(result)


def gradient(values):
    return values * 2.0 + 0.3


def sgd(momentum=0.0, nesterov=False, decay=0.0):
    def update(t, w, g, s):
        g = g + decay * w
        s["v"] = momentum * s.get("v", 0) + g
        return w - RATE * (g + momentum * s["v"] if nesterov else s["v"])

    return update


def adam(amsgrad=False, decay=0.0, decoupled=0.0, b1=0.9, b2=0.999, epsilon=1e-8, corrected=False):
    def update(t, w, g, s):
        g = g + decay * w
        w = w * (1 - RATE * decoupled)
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
        s["top"] = np.maximum(s.get("top", 0), s["v"])
        rate = RATE * math.sqrt(1 - b2**t) / (1 - b1**t)
        added = epsilon * (math.sqrt(1 - b2**t) if corrected else 1)
        return w - rate * s["m"] / (np.sqrt(s["top"] if amsgrad else s["v"]) + added)

    return update


def rmsprop(decay, momentum=0.0, centered=False, weight_decay=0.0, epsilon=1e-8):
    def update(t, w, g, s):
        g = g + weight_decay * w
        s["v"] = decay * s.get("v", 0) + (1 - decay) * g * g
        s["m"] = decay * s.get("m", 0) + (1 - decay) * g
        slope = g / (np.sqrt(s["v"] - (s["m"] ** 2 if centered else 0)) + epsilon)
        s["b"] = momentum * s.get("b", 0) + slope
        return w - RATE * s["b"]

    return update


def adagrad(initial=0.0, weight_decay=0.0, epsilon=1e-10):
    def update(t, w, g, s):
        g = g + weight_decay * w
        s["s"] = s.get("s", initial) + g * g
        return w - RATE * g / (np.sqrt(s["s"]) + epsilon)

    return update


def adadelta(decay=0.9, weight_decay=0.0, epsilon=1e-6):
    def update(t, w, g, s):
        g = g + weight_decay * w
        s["v"] = decay * s.get("v", 0) + (1 - decay) * g * g
        step = g * np.sqrt(s.get("u", 0) + epsilon) / np.sqrt(s["v"] + epsilon)
        s["u"] = decay * s.get("u", 0) + (1 - decay) * step * step
        return w - RATE * step

    return update


OPTIMIZERS = {
    "sgd": (lambda: mg.optim.SGD(RATE), sgd()),
    "momentum": (lambda: mg.optim.SGD(RATE, momentum=0.9), sgd(0.9)),
    "nesterov": (lambda: mg.optim.SGD(RATE, momentum=0.9, nesterov=True), sgd(0.9, True)),
    "sgd with decay": (lambda: mg.optim.SGD(RATE, momentum=0.5, weight_decay=0.1), sgd(0.5, decay=0.1)),
    "adam": (lambda: mg.optim.Adam(RATE), adam()),
    "adam with decay": (lambda: mg.optim.Adam(RATE, weight_decay=0.1), adam(decay=0.1)),
    "amsgrad": (lambda: mg.optim.Adam(RATE, beta2=0.5, amsgrad=True), adam(amsgrad=True, b2=0.5)),
    "adamw": (lambda: mg.optim.AdamW(RATE, weight_decay=0.2), adam(decoupled=0.2, corrected=True)),
    "rmsprop": (lambda: mg.optim.RMSProp(RATE), rmsprop(0.99)),
    "rmsprop in full": (lambda: mg.optim.RMSProp(RATE, 0.9, 1e-3, 0.7, True, 0.1), rmsprop(0.9, 0.7, True, 0.1, 1e-3)),
    "adagrad": (lambda: mg.optim.Adagrad(RATE), adagrad()),
    "adagrad in full": (lambda: mg.optim.Adagrad(RATE, 1e-3, 0.1, 0.2), adagrad(0.1, 0.2, 1e-3)),
    "adadelta": (lambda: mg.optim.AdaDelta(RATE), adadelta()),
    "adadelta in full": (lambda: mg.optim.AdaDelta(RATE, 0.5, 1e-2, 0.2), adadelta(0.5, 0.2, 1e-2)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_steps_match_numpy(name, rng):
    make, update = OPTIMIZERS[name]
    start = rng.normal(size=(3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(make(), start, gradient), reference(update, start), rtol=3e-5, atol=1e-6)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0, 1e-40], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_non_finite_gradients_affect_only_their_own_weights(name, special):
    """33 weights cover full vectors and the remainder. Subnormal gradients count as zero (decision 0017)."""
    make, update = OPTIMIZERS[name]
    slopes, start = np.full(33, 0.5), np.linspace(-1, 1, 33)
    slopes[[0, 16, 32]] = special if special != 1e-40 else 0.0
    values, state = start, {}
    with np.errstate(all="ignore"):
        for t in range(1, STEPS + 1):
            values = update(t, values, slopes, state)
    slopes[[0, 16, 32]] = special
    g = mg.Graph()
    v, d, rate = g.variable(start.astype(np.float32)), g.placeholder((33,)), g.placeholder(())
    updates = make().updates({v: d}, rate)
    for _ in range(STEPS):
        g.run({d: slopes.astype(np.float32), rate: np.float32(RATE)}, [], updates)
    found, finite = g.variable_value(v), np.isfinite(values)
    # Whether the result is NaN or infinite depends on the 0 * w in the reference.
    np.testing.assert_array_equal(np.isfinite(found), finite)
    np.testing.assert_allclose(found[finite], values[finite], rtol=3e-5, atol=1e-6)
    assert not np.isnan(special) or np.isnan(found[~finite]).all()


# Values after six steps from -1.5, 0.25, and 2 with the gradient 2 w + 0.3 and rate 0.05, from torch 2.13 in float64.
TORCH = {
    "sgd": (lambda: mg.optim.SGD(RATE, 0.9, weight_decay=0.1), [0.2580732131, -0.2589159301, -0.7759050733]),
    "nesterov": (lambda: mg.optim.SGD(RATE, 0.9, True), [0.1940932469, -0.2519535546, -0.6980003561]),
    "rmsprop": (
        lambda: mg.optim.RMSProp(RATE, 0.9, 1e-3, 0.7, True, 0.1),
        [-0.1925588122, -0.2236577319, 0.5525472625],
    ),
    "adagrad": (lambda: mg.optim.Adagrad(RATE, 1e-3, 0.1, 0.2), [-1.3232333142, 0.0917363466, 1.821185511]),
    "adadelta": (lambda: mg.optim.AdaDelta(RATE, 0.5, 1e-2, 0.2), [-1.4452000853, 0.1970938839, 1.9450183539]),
    "adamw": (lambda: mg.optim.AdamW(RATE, amsgrad=True), [-1.1976549568, -0.0398991947, 1.6954034166]),
    "nadam": (lambda: mg.optim.NAdam(RATE), [-1.2663113095, 0.0364093105, 1.763583686]),
    "nadam in full": (
        lambda: mg.optim.NAdam(RATE, 0.8, 0.9, 1e-3, 0.1, 0.01),
        [-1.2363158153, 0.0111872246, 1.733260789],
    ),
    "radam": (lambda: mg.optim.RAdam(RATE), [-0.8944700553, 0.0697240701, 1.0363614114]),
    "radam in full": (lambda: mg.optim.RAdam(RATE, 0.8, 0.9, 1e-3, 0.1), [-0.860183043, 0.056311581, 0.996684279]),
    "adamax": (lambda: mg.optim.Adamax(RATE), [-1.2142972291, -0.0021927533, 1.708764126]),
    "adamax in full": (
        lambda: mg.optim.Adamax(RATE, 0.8, 0.9, 1e-3, 0.1),
        [-1.1869786862, -0.0585055734, 1.6923255495],
    ),
    # Expected values are from optax.
    "lion": (lambda: mg.optim.Lion(RATE, weight_decay=0.1), [-1.1592838576, -0.0536817791, 1.6444701123]),
}


@pytest.mark.parametrize("name", TORCH)
def test_optimizers_match_pytorch(name):
    make, wanted = TORCH[name]
    start = np.array([-1.5, 0.25, 2.0])
    np.testing.assert_allclose(run(make(), start, gradient)[-1], wanted, rtol=3e-6)


# Optimizers with gradients scaled by 0.01, so that their epsilon of 1e-2 is significant.
EPSILON = {
    "adamw": (
        lambda: mg.optim.AdamW(RATE, epsilon=1e-2, weight_decay=0.1),
        [-1.2428451679, 0.1175589051, 1.7025368343],
    ),
    "amsgrad": (
        lambda: mg.optim.AdamW(RATE, epsilon=1e-2, weight_decay=0.1, amsgrad=True),
        [-1.2428451679, 0.1175589051, 1.7025368343],
    ),
    "adam": (
        lambda: mg.optim.Adam(RATE, epsilon=1e-2, weight_decay=0.1, corrected_epsilon=True),
        [-1.2180531361, 0.0385945866, 1.7131848327],
    ),
}


@pytest.mark.parametrize("name", EPSILON)
def test_optimizer_epsilon_is_applied_as_in_pytorch(name):
    make, wanted = EPSILON[name]
    start = np.array([-1.5, 0.25, 2.0])
    np.testing.assert_allclose(run(make(), start, lambda v: gradient(v) * 1e-2)[-1], wanted, rtol=3e-6)


def test_adamw_with_uncorrected_epsilon_equals_adam():
    start = np.array([-1.5, 0.25, 2.0])
    adam = run(mg.optim.Adam(RATE, epsilon=1e-2), start, lambda v: gradient(v) * 1e-2)
    adamw = mg.optim.AdamW(RATE, epsilon=1e-2, weight_decay=0.0, corrected_epsilon=False)
    np.testing.assert_array_equal(run(adamw, start, lambda v: gradient(v) * 1e-2), adam)


# (gradients, clipped by norm, clipped by value), each with limit 1, from torch 2.13.
NAN, INF = math.nan, math.inf
NOT_FINITE = [
    ([NAN, 1000.0, -2.0], [NAN, NAN, NAN], [NAN, 1.0, -1.0]),
    ([INF, 1.0, -2.0], [NAN, 0.0, 0.0], [1.0, 1.0, -1.0]),
    ([-INF, INF, 0.0], [NAN, NAN, 0.0], [-1.0, 1.0, 0.0]),
    ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("slopes, by_norm, by_value", NOT_FINITE)
def test_clipping_non_finite_gradients_matches_pytorch(slopes, by_norm, by_value, dtype):
    for clip, wanted in ((mg.optim.ClipByNorm, by_norm), (mg.optim.ClipByValue, by_value)):
        g = mg.Graph()
        # One norm is computed over all variables.
        variables = [g.variable([0.0], dtype, name=f"v{i}") for i in range(3)]
        given = {v: g.constant([d], dtype=dtype) for v, d in zip(variables, slopes, strict=True)}
        g.run({}, [], clip(mg.optim.SGD(1.0), 1.0).updates(given, g.constant(1.0)))
        found = [g.run({}, g.cast(v, "float64")).item() for v in variables]
        np.testing.assert_array_equal(found, -np.array(wanted))


def test_clipping_by_value_and_by_norm_match_numpy():
    start = np.array([3.0, -4.0, 0.1], np.float32)
    slopes = start.astype(float) * 2 + 0.3
    by_value = run(mg.optim.ClipByValue(mg.optim.SGD(RATE), 1.0, -0.5), start, gradient)[0]
    np.testing.assert_allclose(by_value, start - RATE * np.clip(slopes, -0.5, 1.0), rtol=1e-6)
    norm = np.sqrt((slopes**2).sum())
    by_norm = run(mg.optim.ClipByNorm(mg.optim.SGD(RATE), 2.0), start, gradient)[0]
    np.testing.assert_allclose(by_norm, start - RATE * slopes * 2 / (norm + 1e-6), rtol=1e-6)
    short = run(mg.optim.ClipByNorm(mg.optim.SGD(RATE), 1e3), start, gradient)[0]
    np.testing.assert_allclose(short, start - RATE * slopes, rtol=1e-6)


@pytest.mark.parametrize("slope", [NAN, INF, -INF])
def test_clip_by_norm_raises_for_non_finite_norm_on_request(slope):
    g = mg.Graph()
    a, b, d = g.variable([1.0], name="a"), g.variable([2.0], name="b"), g.placeholder((1,))
    optimizer = mg.optim.ClipByNorm(mg.optim.SGD(1.0, 0.9), 5.0, error_if_nonfinite=True)
    updates = optimizer.updates({a: d, b: g.constant([4.0])}, g.constant(1.0))
    with pytest.raises(mg.OutOfRangeError, match="norm_is_not_finite"):
        g.run({d: np.float32([slope])}, [], updates)
    assert g.variable_value(a).tolist() == [1.0] and g.variable_value(b).tolist() == [2.0]
    g.run({d: np.float32([3.0])}, [], updates)
    np.testing.assert_allclose([g.variable_value(a)[0], g.variable_value(b)[0]], [-2.0, -2.0], rtol=1e-6)


def test_clip_by_norm_uses_the_norm_over_all_gradients():
    g = mg.Graph()
    a, b = g.variable([0.0], name="a"), g.variable([[0.0]], "float64", name="b")
    gradients = {a: g.constant([3.0]), b: g.constant([[4.0]], dtype="float64")}
    optimizer = mg.optim.ClipByNorm(mg.optim.SGD(1.0), 1.0)
    g.run({}, [], optimizer.updates(gradients, g.constant(1.0)))
    assert g.variable_value(a)[0] == pytest.approx(-0.6, rel=1e-5)
    assert g.variable_value(b)[0, 0] == pytest.approx(-0.8, rel=1e-5)


def test_updates_use_gradients_from_before_the_step(rng):
    """The gradient of the second variable uses the first one's value before the step."""
    g = mg.Graph()
    a, b = g.variable([2.0], name="a"), g.variable([3.0], name="b")
    gradients = g.gradients(g.reduction_sum(a * b), [a, b])
    updates = mg.optim.SGD(0.1).updates(gradients, g.constant(0.1))
    g.run({}, [], updates)
    assert g.variable_value(a)[0] == pytest.approx(2 - 0.1 * 3) and g.variable_value(b)[0] == pytest.approx(3 - 0.1 * 2)


def test_optimizers_update_variables_of_several_dtypes():
    g = mg.Graph()
    wide, narrow = g.variable([1.0], "float64"), g.variable([1.0], "bfloat16")
    gradients = {wide: g.constant([1.0], dtype="float64"), narrow: g.constant([1.0], dtype="bfloat16")}
    updates = mg.optim.Adam(0.25).updates(gradients, g.constant(0.25))
    out = g.run({}, [], updates)
    assert out == {}
    assert g.variable_value(wide)[0] == pytest.approx(0.75, abs=1e-6)
    assert g.run({}, g.cast(narrow, "float32")).tolist() == [0.75]


def test_learning_rate_schedules_match_their_formulas():
    optim = mg.optim
    np.testing.assert_allclose([optim.StepRate(1, 3, 0.5)(s) for s in range(7)], [1, 1, 1, 0.5, 0.5, 0.5, 0.25])
    np.testing.assert_allclose([optim.ExponentialRate(2, 4, 0.5)(s) for s in (0, 2, 4)], [2, 2**0.5, 1])
    np.testing.assert_allclose([optim.CosineRate(1, 4, 0.2)(s) for s in (0, 2, 4, 9)], [1, 0.6, 0.2, 0.2])
    warm = optim.WarmUp(optim.StepRate(1, 2, 0.1), steps=2)
    np.testing.assert_allclose([warm(s) for s in range(6)], [0.5, 1, 1, 1, 0.1, 0.1])
    assert optim.SGD(lambda step: 1 / (step + 1)).learning_rate(3) == 0.25
    for make in (optim.StepRate, optim.ExponentialRate, optim.CosineRate, optim.WarmUp):
        with pytest.raises(mg.GraphError, match="at least 1"):
            make(1.0, 0, 0.5) if make is not optim.WarmUp else make(1.0, 0)


def test_invalid_optimizer_arguments_raise():
    g = mg.Graph()
    v, rate = g.variable([1.0]), g.constant(0.1)
    with pytest.raises(mg.GraphError, match="nothing to train"):
        mg.optim.SGD().updates({}, rate)
    with pytest.raises(mg.GraphError, match="nesterov"):
        mg.optim.SGD(0.1, nesterov=True)
    with pytest.raises(mg.GraphError, match="nothing to train"):
        mg.optim.ClipByNorm(mg.optim.SGD(), 1.0).updates({}, rate)
    for wrong in (
        lambda: mg.optim.RMSProp(decay=1.0),
        lambda: mg.optim.AdaDelta(decay=-0.1),
        lambda: mg.optim.Adagrad(initial_sum=-1.0),
        lambda: mg.optim.ClipByNorm(mg.optim.SGD(), 0.0),
        lambda: mg.optim.ClipByValue(mg.optim.SGD(), 0.0),
    ):
        with pytest.raises(mg.GraphError, match="must be|cannot be"):
            wrong()
    used = mg.optim.Adam()
    used.updates({v: g.constant([1.0])}, rate)
    other = mg.Graph()
    with pytest.raises(mg.GraphError, match="already"):
        used.updates({other.variable([1.0]): other.constant([1.0])}, other.constant(0.1))


# From torch 2.13: OneCycleLR(max_lr=1, total_steps=20), and the formula of CosineAnnealingWarmRestarts.
ONE_CYCLE = [
    *(0.04, 0.131671843, 0.371671843, 0.668328157, 0.908328157, 1.0, 0.987464006, 0.950484632, 0.890916178),
    *(0.811745654, 0.716943002, 0.611262022, 0.500002, 0.388741978, 0.283060998, 0.188258346, 0.109087822),
    *(0.049519368, 0.012539994, 4e-06),
]


def test_one_cycle_rate_matches_pytorch():
    rate = mg.optim.OneCycleRate(1.0, 20)
    np.testing.assert_allclose([rate(step) for step in range(20)], ONE_CYCLE, rtol=1e-6, atol=1e-9)


def test_clip_by_norm_ignores_frozen_variables():
    """The frozen variable's gradient of 1e6 does not scale down the other gradient."""
    g = mg.Graph()
    kept, moved = g.variable([1.0], name="kept"), g.variable([1.0], name="moved")
    groups = mg.optim.ParameterGroups(mg.optim.SGD(1.0), {"kept": None})
    optimizer = mg.optim.ClipByNorm(groups, 5.0)
    steps = optimizer.updates({kept: g.constant([1e6]), moved: g.constant([0.5])}, g.constant(1.0))
    g.run({}, [], steps)
    assert g.variable_value(kept).tolist() == [1.0] and g.variable_value(moved).tolist() == [0.5]


def test_sgd_decoupled_weight_decay_matches_formula():
    """Values are multiplied by (1 - rate * decay) before the step, and the momentum contains no decay."""
    decoupled = run(mg.optim.SGD(RATE, 0.9, weight_decay=0.2, decoupled=True), np.array([2.0]), lambda v: 0 * v + 1)
    value, momentum = 2.0, 0.0
    for found in decoupled:
        momentum = 0.9 * momentum + 1
        value = value * (1 - RATE * 0.2) - RATE * momentum
        np.testing.assert_allclose(found, [value], rtol=1e-6)


def test_first_matching_group_applies_and_merged_groups_combine():
    options = {"0": {"learning_rate": 0.5}, "*.bias": {"learning_rate": 0.25, "weight_decay": 0.1}}
    x, y = np.eye(2, dtype=np.float32), np.float32([[1], [2]])
    for merge, decay in ((False, 0.0), (True, 0.1)):
        model = mg.nn.Sequential(mg.nn.Linear(1, bias_initialiser=mg.nn.initialisers.ones))
        groups = mg.optim.ParameterGroups(mg.optim.SGD(1.0), options, merge=merge)
        trainer = mg.Trainer(model, "mse", groups)
        before = trainer.evaluate(x, y) and {k: v.astype(np.float64) for k, v in trainer.weights().items()}
        slope = 2 * (x @ before["0.weight"] + before["0.bias"] - y) / 2
        trainer.train_step(x, y).wait()
        after = trainer.weights()
        np.testing.assert_allclose(after["0.weight"], before["0.weight"] - 0.5 * x.T @ slope, rtol=1e-5)
        expected = before["0.bias"] - 0.5 * (slope.sum(0) + decay * before["0.bias"])
        np.testing.assert_allclose(after["0.bias"], expected, rtol=1e-5)
        assert groups.optimizer_of("0.bias").weight_decay == decay


def test_merged_groups_freeze_and_follow_changed_options():
    model = mg.nn.Sequential(mg.nn.Linear(2), mg.nn.Linear(1))
    groups = mg.optim.ParameterGroups(mg.optim.SGD(0.5), {"*.bias": {"weight_decay": 0.5}, "0": None}, merge=True)
    trainer = mg.Trainer(model, "mse", groups)
    x, y = np.eye(2, dtype=np.float32), np.float32([[1], [2]])
    start = trainer.evaluate(x, y) and trainer.weights()
    trainer.train_step(x, y).wait()
    changed = [path for path, value in trainer.weights().items() if (value != start[path]).any()]
    assert changed == ["1.weight", "1.bias"]
    groups.groups["*.bias"]["learning_rate"] = 0.0
    before = trainer.weights()
    trainer.train_step(x, y).wait()
    assert [p for p, v in trainer.weights().items() if (v != before[p]).any()] == ["1.weight"]
    with pytest.raises(mg.GraphError, match="merge=True, groups must be dicts"):
        mg.optim.ParameterGroups(mg.optim.SGD(0.5), {"0": mg.optim.Adam()}, merge=True)
