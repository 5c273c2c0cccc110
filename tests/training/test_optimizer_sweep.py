"""Compare 400 steps of every optimizer with its published formula in float64, for weights of each floating-point type.

tests/pytorch/test_optimizer_formulas.py compares the same formulas with PyTorch.
"""

import copy

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from harness import optimizer_formulas as formulas
from mpsgraph import optim

RATE, STEPS = 0.01, 400
CASES = {
    "sgd": (optim.SGD(RATE), formulas.sgd(RATE)),
    "momentum": (optim.SGD(RATE, 0.9, weight_decay=0.1), formulas.sgd(RATE, 0.9, decay=0.1)),
    "nesterov": (optim.SGD(RATE, 0.99, True), formulas.sgd(RATE, 0.99, True)),
    "decoupled": (
        optim.SGD(RATE, 0.9, weight_decay=0.1, decoupled=True),
        formulas.sgd(RATE, 0.9, decay=0.1, decoupled=True),
    ),
    "adam": (optim.Adam(RATE), formulas.adam(RATE, corrected=False)),
    "adam, long": (
        optim.Adam(RATE, 0.99, 0.9999, weight_decay=0.1),
        formulas.adam(RATE, 0.99, 0.9999, decay=0.1, corrected=False),
    ),
    "adam, very long": (
        optim.Adam(RATE, 0.999, 0.99999, corrected_epsilon=True),
        formulas.adam(RATE, 0.999, 0.99999),
    ),
    "adam without momentum": (optim.Adam(RATE, 0.0, 0.99), formulas.adam(RATE, 0.0, 0.99, corrected=False)),
    "adamw": (optim.AdamW(RATE, epsilon=1e-2), formulas.adam(RATE, eps=1e-2, decoupled=0.01)),
    "amsgrad": (
        optim.AdamW(RATE, 0.9, 0.9999, amsgrad=True),
        formulas.adam(RATE, 0.9, 0.9999, amsgrad=True, decoupled=0.01),
    ),
    "nadam": (optim.NAdam(RATE), formulas.nadam(RATE)),
    "nadam, long": (
        optim.NAdam(RATE, 0.999, 0.9999, weight_decay=0.1, momentum_decay=1.0),
        formulas.nadam(RATE, 0.999, 0.9999, decay=0.1, momentum_decay=1.0),
    ),
    "radam": (optim.RAdam(RATE), formulas.radam(RATE)),
    "radam, short": (optim.RAdam(RATE, 0.8, 0.9, 1e-3, 0.1), formulas.radam(RATE, 0.8, 0.9, 1e-3, 0.1)),
    "radam, long": (optim.RAdam(RATE, beta2=0.9999), formulas.radam(RATE, b2=0.9999)),
    "radam, very long": (optim.RAdam(RATE, beta2=0.99999), formulas.radam(RATE, b2=0.99999)),
    "adamax": (optim.Adamax(RATE, 0.999), formulas.adamax(RATE, 0.999)),
    "lion": (optim.Lion(RATE, weight_decay=0.1), formulas.lion(RATE, decay=0.1)),
    "rmsprop": (optim.RMSProp(RATE, 0.9999), formulas.rmsprop(RATE, 0.9999)),
    "rmsprop, centered": (
        optim.RMSProp(RATE, 0.9, 1e-3, 0.7, True, 0.1),
        formulas.rmsprop(RATE, 0.9, 1e-3, 0.7, True, 0.1),
    ),
    "adagrad": (optim.Adagrad(RATE, 1e-3, 0.1, 0.2), formulas.adagrad(RATE, 1e-3, 0.1, 0.2)),
    "adadelta": (optim.AdaDelta(decay=0.999, weight_decay=0.1), formulas.adadelta(rho=0.999, decay=0.1)),
    "lamb": (optim.LAMB(RATE, 0.9, 0.9999, weight_decay=0.1), formulas.lamb(RATE, 0.9, 0.9999, decay=0.1)),
    "lars": (
        optim.LARS(1.0, 0.9, True, 0.1, 0.01, 1e-2),
        formulas.lars(1.0, 0.9, True, 0.1, 0.01, 1e-2),
    ),
    "adafactor": (optim.Adafactor(RATE), formulas.adafactor(RATE)),
    "adafactor, slow": (
        optim.Adafactor(0.02, -0.6, 1e-5, 1e-2, 2.0, 0.1),
        formulas.adafactor(0.02, -0.6, 1e-5, 1e-2, 2.0, 0.1),
    ),
    "muon": (optim.Muon(RATE), formulas.muon(RATE)),
    "muon, matched": (
        optim.Muon(RATE, 0.0, 0.8, False, adjustment="match_rms_adamw"),
        formulas.muon(RATE, 0.0, 0.8, False, matched=True),
    ),
}
TYPES = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float64": np.float64,
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_400_steps_match_the_published_formula(name, dtype, rng):
    """Weights of 16 bits are rounded after each step; the state keeps float32's precision."""
    optimizer, update = CASES[name][0].with_options(), CASES[name][1]
    kind = TYPES[dtype]
    start = rng.normal(size=(4, 3)).astype(kind)
    slopes = (rng.normal(size=(STEPS, 4, 3)) * np.float32([0.01, 1, 10]) + 0.1).astype(kind)
    g = mg.Graph()
    v, rate, d = g.variable(start, dtype), g.placeholder((), "float64"), g.placeholder((4, 3), dtype)
    updates = optimizer.updates({v: d}, rate)
    moved = g.read(v)
    values, state, found, wanted = start.astype(float), {}, [start], [start.astype(float)]
    for t in range(1, STEPS + 1):
        found.append(
            g.run({d: slopes[t - 1], rate: np.float64(optimizer.learning_rate(t - 1))}, moved, updates).numpy()
        )
        values = update(t, values, slopes[t - 1].astype(float), state).astype(kind).astype(float)
        wanted.append(values)
    found, wanted = np.array(found).astype(float), np.array(wanted)
    ulp = np.abs(wanted[:-1]) * float(ml_dtypes.finfo(kind).eps)
    steps = np.diff(wanted, axis=0)
    precise = 1e-9 if dtype == "float64" else 2e-5  # of a step
    limit = precise * np.abs(steps) + 3 * ulp + 1e-9
    assert (np.abs(np.diff(found, axis=0) - steps) <= limit).all(), name
    np.testing.assert_allclose(found[-1], wanted[-1], rtol=0, atol=4 * ulp.max() + 1e-4 * np.abs(steps).sum(0).max())


def test_centered_rmsprop_of_constant_gradients_stays_finite():
    """The variance falls below the rounding error of v - m^2 after 23 steps."""
    g = mg.Graph()
    v, d = g.variable(np.ones(3, np.float32)), g.constant([0.5, 1.5, 100.0])
    updates = optim.RMSProp(1e-6, decay=0.5, centered=True).updates({v: d}, g.constant(1e-6))
    update, values, state = formulas.rmsprop(1e-6, 0.5, centered=True), np.ones(3), {}
    for t in range(1, 41):
        g.run({}, [], updates)
        values = update(t, values, np.array([0.5, 1.5, 100.0]), state)
        if t <= 25:  # After that, the float64 formula has no correct digits.
            np.testing.assert_allclose(g.variable_value(v), values, rtol=2e-5)
    assert np.isfinite(g.variable_value(v)).all()


@pytest.mark.parametrize("layer", ["lstm", "embedding", "linear", "copy"])
def test_muon_scales_steps_by_outputs_over_inputs(layer, rng):
    """Recurrent weights and embeddings are (outputs, inputs), as in PyTorch; others are (inputs, outputs)."""
    g = mg.Graph()
    if layer == "embedding":
        module = mg.nn.Embedding(16, 4)
        module(g.constant([[1, 2]]))
        weight = module.weight
    elif layer == "linear":
        module = mg.nn.Linear(16)
        module(g.constant(1.0, (2, 4)))
        weight = module.weight
    else:
        module = mg.nn.LSTM(8)
        module(g.constant(1.0, (2, 3, 2)))
        module = copy.deepcopy(module) if layer == "copy" else module
        weight = dict(module.named_parameters())["weight_ih_l0"]
    g, shape = weight.graph, tuple(weight.shape)
    slope = rng.normal(size=shape)
    start = g.variable_value(weight)
    g.run({}, [], optim.Muon(1.0, 0.0).updates({weight: g.constant(slope.astype(np.float32))}, g.constant(1.0)))
    wanted = formulas.muon(1.0, 0.0, outputs_first=layer != "linear")(1, start.astype(float), slope, {})
    np.testing.assert_allclose(g.variable_value(weight), wanted, atol=2e-5)
