"""Optimizers against numpy written out, over several steps; schedules; what they refuse."""

import math

import mpsgraph as mg
import numpy as np
import pytest

STEPS, RATE = 6, 0.05


def run(optimizer, start, gradients_of):
    """Values after each step of an optimizer on loss with gradient gradients_of(values)."""
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
    """The same with update(t, values, gradient, state) in float64."""
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


def adam(amsgrad=False, decay=0.0, decoupled=0.0, b1=0.9, b2=0.999, epsilon=1e-8):
    def update(t, w, g, s):
        g = g + decay * w
        w = w * (1 - RATE * decoupled)
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
        s["top"] = np.maximum(s.get("top", 0), s["v"])
        rate = RATE * math.sqrt(1 - b2**t) / (1 - b1**t)
        return w - rate * s["m"] / (np.sqrt(s["top"] if amsgrad else s["v"]) + epsilon)

    return update


OPTIMIZERS = {
    "sgd": (lambda: mg.optim.SGD(RATE), sgd()),
    "momentum": (lambda: mg.optim.SGD(RATE, momentum=0.9), sgd(0.9)),
    "nesterov": (lambda: mg.optim.SGD(RATE, momentum=0.9, nesterov=True), sgd(0.9, True)),
    "sgd with decay": (lambda: mg.optim.SGD(RATE, momentum=0.5, weight_decay=0.1), sgd(0.5, decay=0.1)),
    "adam": (lambda: mg.optim.Adam(RATE), adam()),
    "adam with decay": (lambda: mg.optim.Adam(RATE, weight_decay=0.1), adam(decay=0.1)),
    "amsgrad": (lambda: mg.optim.Adam(RATE, beta2=0.5, amsgrad=True), adam(amsgrad=True, b2=0.5)),
    "adamw": (lambda: mg.optim.AdamW(RATE, weight_decay=0.2), adam(decoupled=0.2)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name, rng):
    make, update = OPTIMIZERS[name]
    start = rng.normal(size=(3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(make(), start, gradient), reference(update, start), rtol=3e-5, atol=1e-6)


def test_all_variables_move_from_the_same_point(rng):
    """The second variable's gradient uses the first one as it was before the step."""
    g = mg.Graph()
    a, b = g.variable([2.0], name="a"), g.variable([3.0], name="b")
    gradients = g.gradients(g.reduction_sum(a * b), [a, b])
    updates = mg.optim.SGD(0.1).updates(gradients, g.constant(0.1))
    g.run({}, [], updates)
    assert g.variable_value(a)[0] == pytest.approx(2 - 0.1 * 3) and g.variable_value(b)[0] == pytest.approx(3 - 0.1 * 2)


def test_variables_of_several_dtypes():
    g = mg.Graph()
    wide, narrow = g.variable([1.0], "float64"), g.variable([1.0], "bfloat16")
    gradients = {wide: g.constant([1.0], dtype="float64"), narrow: g.constant([1.0], dtype="bfloat16")}
    updates = mg.optim.Adam(0.25).updates(gradients, g.constant(0.25))
    out = g.run({}, [], updates)
    assert out == {}
    assert g.variable_value(wide)[0] == pytest.approx(0.75, abs=1e-6)
    assert g.run({}, g.cast(narrow, "float32")).tolist() == [0.75]


def test_the_schedules():
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


def test_what_optimizers_refuse():
    g = mg.Graph()
    v, rate = g.variable([1.0]), g.constant(0.1)
    with pytest.raises(mg.GraphError, match="nothing to train"):
        mg.optim.SGD().updates({}, rate)
    with pytest.raises(mg.GraphError, match="nesterov"):
        mg.optim.SGD(0.1, nesterov=True)
    used = mg.optim.Adam()
    used.updates({v: g.constant([1.0])}, rate)
    with pytest.raises(mg.GraphError, match="already"):
        used.updates({v: g.constant([1.0])}, rate)
