"""Test Adam's 8-bit states against a float64 numpy implementation of the same rule, and against float32 states."""

from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

RANDOM = np.random.default_rng(2)
BETA1, BETA2, EPSILON, RATE = 0.9, 0.999, 1e-8, 0.01


def in_blocks(x):
    flat = np.zeros(-(-x.size // 256) * 256)
    flat[: x.size] = x.ravel()
    return flat.reshape(-1, 256)


def stored(x, levels, signed):
    """Return values as they are after storing them in 8 bits."""
    scale = np.abs(x).max(1, keepdims=True)
    ratio = np.divide(np.abs(x), scale, out=np.zeros_like(x), where=scale > 0)
    codes = np.rint(levels * ratio**0.25)
    if not signed:
        codes = np.where(x > 0, np.maximum(codes, 1), codes)
    return np.sign(x) * scale * (codes / levels) ** 4


def reference(weights, gradients, amsgrad=False, decay=0.0):
    w = in_blocks(weights.astype(np.float64))
    m, v, largest = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    for t, gradient in enumerate(gradients, 1):
        d = in_blocks(gradient.astype(np.float64)) + decay * w
        m, v = BETA1 * m + (1 - BETA1) * d, BETA2 * v + (1 - BETA2) * d * d
        largest = np.maximum(largest, v)
        rate = RATE * np.sqrt(1 - BETA2**t) / (1 - BETA1**t)
        w = w - rate * m / (np.sqrt(largest if amsgrad else v) + EPSILON)
        m, v, largest = stored(m, 127, True), stored(v, 255, False), stored(largest, 255, False)
    return w.ravel()[: weights.size].reshape(weights.shape)


def updated(weights, gradients, **options):
    g = mg.Graph()
    variable, d, rate = g.variable(weights), g.placeholder(weights.shape), g.placeholder(())
    updates = mg.optim.Adam(RATE, state_bits=8, **options).updates({variable: d}, rate)
    for gradient in gradients:
        g.run({d: gradient, rate: np.float32(RATE)}, [], updates)
    return g, g.variable_value(variable)


@pytest.mark.both_devices
@pytest.mark.parametrize("shape", [(64, 80), (4099,), (3, 7, 200)])
@pytest.mark.parametrize("options", [{}, {"amsgrad": True, "weight_decay": 0.1}], ids=["adam", "amsgrad"])
def test_eight_bit_adam_follows_the_rule(shape, options):
    weights = RANDOM.normal(size=shape).astype(np.float32)
    sizes = 10.0 ** RANDOM.uniform(-6, 0, size=shape)
    gradients = [(RANDOM.normal(size=shape) * sizes).astype(np.float32) for _ in range(20)]
    _, found = updated(weights, gradients, **options)
    named = {"decay": options["weight_decay"], "amsgrad": True} if options else {}
    error = np.abs(found - reference(weights, gradients, **named))
    # A value next to the middle between two codes can get either one in float32; such a step differs by a few percent.
    assert np.quantile(error, 0.99) < 5e-6
    assert error.max() < 0.2 * RATE


def test_eight_bit_states_take_a_quarter_of_the_memory():
    g, _ = updated(np.ones((64, 256), np.float32), [np.ones((64, 256), np.float32)])
    states = [v for v in g.variables if "momentum" in v.name or "velocity" in v.name]
    assert sorted(str(v.dtype) for v in states) == ["float32", "float32", "int8", "uint8"]
    assert sum(int(np.prod(v.shape)) * v.dtype.itemsize for v in states) == 2 * 64 * 256 * (1 + 4 / 256)
    g, _ = updated(np.ones((8, 256), np.float32), [np.ones((8, 256), np.float32)])
    assert {str(v.dtype) for v in g.variables} == {"float32"}


def test_zero_gradients_change_no_weight():
    weights = RANDOM.normal(size=5000).astype(np.float32)
    _, found = updated(weights, [np.zeros(5000, np.float32)] * 3)
    np.testing.assert_array_equal(found, weights)


def next_character(optimizer, seed, steps=300):
    """Train a network that predicts characters of a text. Return the mean loss of the last steps."""
    text = (Path(__file__).resolve().parents[2] / "LICENSE").read_bytes()
    codes = np.frombuffer(text, np.uint8).astype(np.int32) % 128
    model = nn.Sequential(nn.Embedding(128, 32), nn.Flatten(), nn.Linear(128), nn.ReLU(), nn.Linear(128))
    trainer, random, losses = mg.Trainer(model, optimizer=optimizer, seed=seed), np.random.default_rng(seed), []
    for _ in range(steps):
        first = random.integers(0, len(codes) - 9, 64)
        losses.append(trainer.train_step(codes[first[:, None] + np.arange(8)], codes[first + 8], copy=True))
    return np.mean([float(loss) for loss in losses[-50:]])


def test_eight_bit_adam_converges_as_float32_adam_on_a_text():
    for seed in (0, 1):
        wide = next_character(mg.optim.AdamW(2e-3), seed)
        narrow = next_character(mg.optim.AdamW(2e-3, state_bits=8), seed)
        assert wide < 2.2
        assert abs(narrow - wide) < 0.03 * wide


def test_checkpoint_restores_eight_bit_states(tmp_path):
    def trainer():
        model = nn.Sequential(nn.Linear(128), nn.ReLU(), nn.Linear(4))
        return mg.Trainer(model, optimizer=mg.optim.AdamW(1e-2, state_bits=8), seed=3)

    batch = RANDOM.normal(size=(16, 64)).astype(np.float32), RANDOM.integers(0, 4, 16).astype(np.int32)
    first = trainer()
    for _ in range(3):
        first.train_step(*batch)
    first.save(tmp_path / "state.npz")
    second = trainer()
    second.load(tmp_path / "state.npz")
    for _ in range(2):
        assert float(first.train_step(*batch)) == float(second.train_step(*batch))
    for path, value in first.weights().items():
        np.testing.assert_array_equal(second.weights()[path], value)


def test_state_bits_must_be_8_or_32_and_cannot_change():
    with pytest.raises(mg.GraphError, match="state_bits must be 8 or 32, got 4"):
        mg.optim.Adam(state_bits=4)
    optimizer = mg.optim.Adam(state_bits=8)
    assert optimizer.with_options(learning_rate=0.1).state_bits == 8
    g = mg.Graph()
    optimizer.updates({g.variable([1.0]): g.constant([1.0])}, g.constant(0.1))
    with pytest.raises(mg.GraphError, match="state_bits cannot be changed"):
        optimizer.state_bits = 32
