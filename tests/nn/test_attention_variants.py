"""Test the variants of MultiheadAttention against float64 numpy: head sizes, normalized queries and keys, sliding
windows, capped scores, sinks, and caches whose entries are not in the order of their positions.
"""

import math

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn
from mpsgraph.nn.rotary import attention_factor, frequencies

pytestmark = pytest.mark.both_devices

BASE = 500.0
VARIANTS = {
    "plain": {},
    "head_dim": {"head_dim": 6},
    "biases": {"qkv_bias": True, "output_bias": False},
    "window": {"window": 3},
    "soft_cap": {"soft_cap": 0.7},
    "scale": {"scale": 0.3},
    "sinks": {"sinks": True},
    "qk_norm": {"qk_norm": nn.RMSNorm()},
    "all": {
        "head_dim": 6, "bias": False, "window": 2, "soft_cap": 1.0, "scale": 0.5, "sinks": True,
        "qk_norm": nn.RMSNorm(),
    },
}  # fmt: skip


def rotated(x, places):
    half = x.shape[-1] // 2
    angles = places[..., None] * BASE ** (-np.arange(half) / half)
    c, s = (np.concatenate([wave(angles)] * 2, -1) for wave in (np.cos, np.sin))
    return x * c + np.concatenate([-x[..., half:], x[..., :half]], -1) * s


def expected(layer, state, x, causal):
    """Compute the attention of a layer with 4 heads and 2 key and value heads in float64."""

    def projected(name):
        y = x @ state[f"{name}.weight"] + state.get(f"{name}.bias", 0.0)
        return y.reshape(*x.shape[:2], -1, layer.head_size).transpose(0, 2, 1, 3)

    q, k, v = (projected(name) for name in ("query", "key", "value"))
    if layer.query_norm is not None:
        q, k = (
            y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6) * state[f"{name}_norm.gamma"]
            for y, name in ((q, "query"), (k, "key"))
        )
    q, k = (rotated(y, np.arange(x.shape[1])) for y in (q, k))
    scores = q @ k.repeat(2, 1).swapaxes(-1, -2) * layer.scale
    if layer.soft_cap:
        scores = layer.soft_cap * np.tanh(scores / layer.soft_cap)
    distance = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
    excluded = (distance < 0) & causal
    if layer.window:
        excluded |= abs(distance) >= layer.window
    powers = np.exp(np.where(excluded, -np.inf, scores))
    total = powers.sum(-1, keepdims=True)
    if layer.sinks:
        total = total + np.exp(state["sink"])[:, None, None]
    y = (powers / total) @ v.repeat(2, 1)
    return y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ state["output.weight"] + state.get("output.bias", 0.0)


def random_layer(variant, rng):
    """Return a layer, its weights, and an input of two sequences of seven steps."""
    layer = nn.MultiheadAttention(16, 4, num_kv_heads=2, positions=nn.RotaryPositions(BASE), **VARIANTS[variant])
    g = mg.Graph()
    x = g.placeholder((2, -1, 16))
    layer(x)
    state = {k: rng.normal(size=v.shape).astype(np.float32) / 4 for k, v in layer.state_dict().items()}
    layer.load_state_dict(state)
    return layer, x, state, rng.normal(size=(2, 7, 16)).astype(np.float32)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_equals_numpy(variant, causal, rng):
    layer, x, state, data = random_layer(variant, rng)
    y = x.graph.run({x: data}, layer(x, is_causal=causal)).numpy()
    np.testing.assert_allclose(y, expected(layer, state, data.astype(float), causal), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_with_cache_equals_full_sequence(variant, rng):
    """The second sequence begins with two steps of padding, and the calls read only the filled entries."""
    layer, x, state, data = random_layer(variant, rng)
    g = x.graph
    start, queries, keys = (g.placeholder(shape, mg.int32) for shape in ((1,), (2, -1), (2, -1)))
    y = layer(x, cache=nn.KeyValueCache(2, 12, start, queries=queries, keys=keys))
    positions = np.stack([np.arange(7), np.maximum(np.arange(7) - 2, -1)]).astype(np.int32)
    parts = []
    for first, end, extent in ((0, 3, 4), (3, 4, 4), (4, 7, 8)):
        held = np.full((2, extent), -1, np.int32)
        held[:, :end] = positions[:, :end]
        fed = {x: data[:, first:end].copy(), start: np.int32([first]), queries: positions[:, first:end].copy()}
        parts.append(g.run({**fed, keys: held}, y).numpy())
    found = np.concatenate(parts, 1)
    close = {"rtol": 1e-5, "atol": 2e-6}
    np.testing.assert_allclose(found[:1], expected(layer, state, data[:1].astype(float), True), **close)
    np.testing.assert_allclose(found[1:, 2:], expected(layer, state, data[1:, 2:].astype(float), True), **close)


def test_windowed_cache_overwrites_its_oldest_entries(rng):
    """A cache of five entries serves a window of three, one step at a time."""
    layer, x, state, data = random_layer("window", rng)
    g = x.graph
    start, queries, keys = (g.placeholder(shape, mg.int32) for shape in ((1,), (2, -1), (2, -1)))
    y = layer(x, cache=nn.KeyValueCache(2, 5, start, queries=queries, keys=keys))
    held, parts = np.full((2, 5), -1, np.int32), []
    for i in range(7):
        held[:, i % 5] = i
        fed = {x: data[:, i : i + 1].copy(), start: np.int32([i % 5]), queries: np.full((2, 1), i, np.int32)}
        parts.append(g.run({**fed, keys: held.copy()}, y).numpy())
    wanted = expected(layer, state, data.astype(float), True)
    np.testing.assert_allclose(np.concatenate(parts, 1), wanted, rtol=1e-5, atol=2e-6)


def test_gradients_of_windows_caps_and_sinks_equal_central_differences(rng):
    layer, x, state, data = random_layer("all", rng)
    g = x.graph
    loss = g.reduction_sum(g.square(layer(x, is_causal=True)))
    variables = dict(layer.named_parameters())
    gradients = g.gradients(loss, list(variables.values()))
    found = g.run({x: data}, list(gradients.values()))
    for name in ("sink", "query.weight", "key_norm.gamma"):
        flat, step = state[name].astype(float).reshape(-1), 1e-5
        for index in (0, flat.size // 2):
            sides = []
            for sign in (1, -1):
                moved = flat.copy()
                moved[index] += sign * step
                changed = {k: v.astype(float) for k, v in state.items()} | {name: moved.reshape(state[name].shape)}
                sides.append((expected(layer, changed, data.astype(float), True) ** 2).sum())
            wanted = (sides[0] - sides[1]) / (2 * step)
            own = found[gradients[variables[name]]].numpy().reshape(-1)[index]
            np.testing.assert_allclose(own, wanted, rtol=2e-4, atol=1e-5)


# --- rotary scalings --------------------------------------------------------------------------------------------------
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 8},
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "longrope": {
        "rope_type": "longrope", "factor": 4.0, "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [2.0, 3.0, 4.0, 5.0], "original_max_position_embeddings": 8,
    },
}  # fmt: skip
# Frequencies for 8 features, base 10000, and a length of 12, and factors of queries and keys, of transformers 5.24.
STORED = {
    "linear": ([0.25, 0.0250000004, 0.00249999994, 0.000250000012], 1.0),
    "dynamic": ([1.0, 0.0793700516, 0.00629960513, 0.000500000024], 1.0),
    "llama3": ([1.0, 0.0130422562, 0.00124999997, 0.000125000006], 1.0),
    "yarn": ([1.0, 0.0625, 0.00249999994, 0.000250000012], 1.138629436111989),
    "longrope": ([0.5, 0.0333333351, 0.00249999994, 0.000199999995], 1.2909944487358056),
}


@pytest.mark.parametrize("kind", SCALINGS)
def test_scaled_frequencies_equal_stored_values(kind):
    wanted, factor = STORED[kind]
    np.testing.assert_allclose(frequencies(10000.0, 8, SCALINGS[kind], 12), wanted, rtol=1e-6)
    assert attention_factor(SCALINGS[kind]) == pytest.approx(factor, rel=1e-6)


@pytest.mark.parametrize("length", [6, 12])
@pytest.mark.parametrize("kind", SCALINGS)
def test_scaled_rotation_equals_numpy(kind, length, rng):
    x = rng.normal(size=(1, 2, length, 10)).astype(np.float32)
    g = mg.Graph()
    fed = g.placeholder((1, 2, -1, 10))
    y = g.run({fed: x}, nn.RotaryPositions(dimensions=8, scaling=SCALINGS[kind])(fed)).numpy()
    angles = np.arange(length)[:, None] * frequencies(10000.0, 8, SCALINGS[kind], length)
    c, s = (np.concatenate([wave(angles)] * 2, -1) * attention_factor(SCALINGS[kind]) for wave in (np.cos, np.sin))
    wanted = x[..., :8] * c + np.concatenate([-x[..., 4:8], x[..., :4]], -1) * s
    np.testing.assert_allclose(y[..., :8], wanted, rtol=1e-5, atol=2e-6)
    np.testing.assert_array_equal(y[..., 8:], x[..., 8:])


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"rope_type": "cubic"}, '"linear"'),
        ({"rope_type": "linear"}, 'requires the entry "factor"'),
        ({"rope_type": "linear", "factor": 2.0, "beta": 1}, "does not have the entry 'beta'"),
        ({"rope_type": "linear", "factor": math.nan}, "finite"),
        ({"rope_type": "linear", "factor": 0.0}, "above 0"),
    ],
)
def test_invalid_scalings_raise_graph_error(scaling, message):
    with pytest.raises(mg.GraphError, match=message):
        nn.RotaryPositions(scaling=scaling)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"window": 0}, mg.ShapeError, "window"),
        ({"soft_cap": 0.0}, mg.GraphError, "soft_cap"),
        ({"scale": -1.0}, mg.GraphError, "scale"),
        ({"head_dim": 0}, mg.ShapeError, "head_dim"),
    ],
)
def test_invalid_variants_raise_typed_errors(options, error, message):
    with pytest.raises(error, match=message):
        nn.MultiheadAttention(16, 4, **options)


@pytest.mark.parametrize("name", ["queries", "keys", "length"])
def test_cache_rejects_positions_of_wrong_shape(name):
    g = mg.Graph()
    with pytest.raises(mg.ShapeError, match=name):
        nn.KeyValueCache(2, 8, g.placeholder((1,), mg.int32), **{name: g.placeholder((3, 4), mg.int32)})
