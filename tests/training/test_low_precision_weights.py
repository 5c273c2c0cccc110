"""Test that weights stored in bfloat16 and float16 keep updates that are too small for their dtype."""

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

STEPS, RATE = 400, 1e-4
START = np.linspace(1, 1.9, 1024).astype(np.float32)


def moved(way, dtype=mg.bfloat16, seed=7, optimizer=None, start=START):
    """Apply 400 updates of 1e-4 to weights between 1 and 1.9. Return the changes."""
    g = mg.Graph(seed=seed)
    variable, d, rate = g.variable(start, dtype, "w"), g.placeholder(start.shape), g.placeholder(())
    optimizer = optimizer or mg.optim.SGD(RATE)
    optimizer.low_precision_weights = way
    updates = optimizer.updates({variable: d}, rate)
    before = np.asarray(g.variable_value(variable)).astype(np.float64)
    for _ in range(STEPS):
        g.run({d: -np.ones_like(start), rate: np.float32(RATE)}, [], updates)
    return np.asarray(g.variable_value(variable)).astype(np.float64) - before


@pytest.mark.both_devices
def test_rounding_loses_small_updates_of_bfloat16_weights():
    assert not moved("rounded").any()


@pytest.mark.both_devices
@pytest.mark.parametrize("dtype", [mg.bfloat16, mg.float16], ids=str)
def test_float32_copies_keep_small_updates(dtype):
    change = moved("master", dtype)
    spacing = 2.0**-7 if dtype == mg.bfloat16 else 2.0**-10
    np.testing.assert_allclose(change, STEPS * RATE, atol=spacing / 2 + 1e-5)


@pytest.mark.both_devices
def test_expected_value_of_stochastic_rounding_is_exact():
    change = moved("stochastic")
    # Each step rounds up by one spacing s = 2^-7 with probability p = rate / s, independently for each weight.
    spacing = 2.0**-7
    deviation = spacing * np.sqrt(STEPS * RATE / spacing * (1 - RATE / spacing))
    assert abs(change.mean() - STEPS * RATE) < 4 * deviation / np.sqrt(change.size)
    assert 0.85 * deviation < change.std() < 1.15 * deviation
    downward = -moved("stochastic", start=-START)
    assert abs(downward.mean() + STEPS * RATE) < 4 * deviation / np.sqrt(change.size)


@pytest.mark.both_devices
def test_stochastic_rounding_repeats_with_the_seed():
    np.testing.assert_array_equal(moved("stochastic", seed=3), moved("stochastic", seed=3))
    assert (moved("stochastic", seed=3) != moved("stochastic", seed=4)).any()


def test_stochastic_rounding_keeps_infinities_and_nan():
    start = np.float32([np.inf, -np.inf, np.nan, 3.3895314e38, 1e-40])
    g = mg.Graph(seed=1)
    variable = g.variable(start, mg.bfloat16)
    optimizer = mg.optim.SGD(1.0)
    optimizer.low_precision_weights = "stochastic"
    updates = optimizer.updates({variable: g.constant(np.zeros(5, np.float32))}, g.constant(1.0))
    for _ in range(20):
        g.run({}, [], updates)
    found = np.asarray(g.variable_value(variable)).astype(np.float32)
    np.testing.assert_array_equal(found[:4], start[:4])


def test_stochastic_rounding_refuses_float16_weights():
    with pytest.raises(mg.DTypeError, match="supports bfloat16 weights, but 'w' is float16"):
        moved("stochastic", mg.float16)
    with pytest.raises(mg.GraphError, match="low_precision_weights must be one of rounded, master, stochastic"):
        mg.optim.SGD(0.1).low_precision_weights = "kept"
    with pytest.raises(mg.GraphError, match="low_precision_weights must be one of rounded, master, stochastic"):
        mg.Trainer(nn.Linear(1), low_precision_weights="kept")


class LineOfBfloat16(nn.Module):
    """Line whose weights are stored in bfloat16, for float32 inputs."""

    def build(self, x):
        self.weight = self.add_parameter("weight", x, (2,), nn.initialisers.ones, dtype=mg.bfloat16)

    def forward(self, x):
        weight = x.graph.cast(self.weight, mg.float32)
        return x * weight[0:1] + weight[1:2]


def line(way, steps=600, **options):
    random = np.random.default_rng(0)
    trainer = mg.Trainer(LineOfBfloat16(), "mse", mg.optim.Adam(1e-3), seed=5, low_precision_weights=way, **options)
    for _ in range(steps):
        x = random.normal(size=(64, 1)).astype(np.float32)
        trainer.train_step(x, 1.3 * x + 0.7, copy=True)
    return trainer


def test_trainer_reaches_weights_that_rounding_does_not():
    errors = {}
    for way in ("rounded", "master", "stochastic"):
        weights = np.asarray(line(way).weights()["weight"]).astype(np.float64)
        errors[way] = np.abs(weights - [1.3, 0.7]).max()
    assert errors["rounded"] > 0.1
    assert errors["master"] < 0.02
    assert errors["stochastic"] < 0.02


@pytest.mark.parametrize("way", ["master", "stochastic"])
def test_checkpoint_restores_what_low_precision_weights_keep(way, tmp_path):
    x = np.ones((4, 1), np.float32)
    first = line(way, 50)
    first.save(tmp_path / "state.npz")
    second = line(way, 0)
    second.load(tmp_path / "state.npz")
    for _ in range(30):
        assert float(first.train_step(x, x)) == float(second.train_step(x, x))


def test_set_weights_replaces_float32_copies():
    trainer = line("master", 50)
    value = trainer.weights()["weight"]
    trainer.set_weights({"weight": np.zeros_like(value)})
    trainer.train_step(np.ones((4, 1), np.float32), np.ones((4, 1), np.float32)).wait()
    assert np.abs(np.asarray(trainer.weights()["weight"]).astype(np.float32)).max() < 0.01


@pytest.mark.parametrize("way", ["master", "stochastic"])
def test_setting_low_precision_weights_after_the_first_batch_takes_effect(way):
    trainer = line("rounded", 50)
    trainer.low_precision_weights = way
    random = np.random.default_rng(1)
    for _ in range(600):
        x = random.normal(size=(64, 1)).astype(np.float32)
        trainer.train_step(x, 1.3 * x + 0.7, copy=True)
    weights = np.asarray(trainer.weights()["weight"]).astype(np.float64)
    assert np.abs(weights - [1.3, 0.7]).max() < 0.02
