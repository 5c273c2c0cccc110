"""Test key-value caches: incremental results must equal full-sequence results.

Positions, shared key and value heads, and invalid arguments are also tested.
"""

import math

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn
from mpsgraph.nn.positions import linear_shares

pytestmark = pytest.mark.both_devices

CLOSE = {"rtol": 1e-5, "atol": 2e-6}
POSITIONS = {
    "none": lambda: None,
    "rotary": nn.RotaryPositions,
    "rotary_interleaved": lambda: nn.RotaryPositions(interleaved=True),
    "relative": lambda: nn.RelativePositions(8, 6, bidirectional=False),
    "linear": nn.LinearPositions,
}


def weighed(layer, rng):
    """Set every weight of the layer to a distinct random value."""
    layer.load_state_dict({k: rng.normal(size=v.shape).astype(v.dtype) / 2 for k, v in layer.state_dict().items()})


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("positions", POSITIONS)
def test_incremental_encoding_equals_full_sequence(positions, kv_heads, batch_first, rng):
    g = mg.Graph()
    layer = nn.TransformerEncoderLayer(
        16, 4, 8, 0.0, batch_first=batch_first, num_kv_heads=kv_heads, positions=POSITIONS[positions]()
    )
    model = nn.TransformerEncoder(layer, 2, nn.LayerNorm())
    x = g.placeholder((2, -1, 16) if batch_first else (-1, 2, 16))
    position = g.placeholder((1,), mg.int32)
    whole = model(x, is_causal=True)
    cached = model(x, cache=nn.KeyValueCache(2, 12, position))
    weighed(model, rng)
    data = rng.normal(size=(2, 9, 16)).astype(np.float32)

    def run(target, first, end, feeds):
        fed = data[:, first:end] if batch_first else data[:, first:end].swapaxes(0, 1)
        y = g.run({x: np.ascontiguousarray(fed)} | feeds, target).numpy()
        return y if batch_first else y.swapaxes(0, 1)

    wanted = run(whole, 0, 9, {})
    for cuts in ((0, 4, 5, 6, 9), (0, 1, 9)):  # The second pass overwrites the cache entries of the first.
        parts = [run(cached, a, b, {position: np.int32([a])}) for a, b in zip(cuts, cuts[1:], strict=False)]
        np.testing.assert_allclose(np.concatenate(parts, 1), wanted, **CLOSE)


def test_incremental_decoding_equals_full_sequence(rng):
    g = mg.Graph()
    model = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 8, 0.0), 2)
    x, memory, position = g.placeholder((1, -1, 8)), g.placeholder((1, 3, 8)), g.placeholder((1,), mg.int32)
    whole = model(x, memory, is_causal=True)
    cached = model(x, memory, cache=nn.KeyValueCache(1, 8, position))
    data, seen = rng.normal(size=(1, 5, 8)).astype(np.float32), rng.normal(size=(1, 3, 8)).astype(np.float32)
    wanted = g.run({x: data, memory: seen}, whole).numpy()
    steps = [g.run({x: data[:, i : i + 1], memory: seen, position: np.int32([i])}, cached).numpy() for i in range(5)]
    np.testing.assert_allclose(np.concatenate(steps, 1), wanted, **CLOSE)


def test_cached_steps_at_new_positions_do_not_recompile(rng):
    g = mg.Graph()
    x, position = g.placeholder((1, 1, 8)), g.placeholder((1,), mg.int32)
    y = nn.MultiheadAttention(8, 2, positions=nn.RotaryPositions())(x, cache=nn.KeyValueCache(1, 64, position))
    step = rng.normal(size=(1, 1, 8)).astype(np.float32)
    g.run({x: step, position: np.int32([0])}, y)
    compiled = g.cache.compiles
    for place in range(1, 20):
        g.run({x: step, position: np.int32([place])}, y)
    assert g.cache.compiles == compiled


def test_step_beyond_cache_capacity_raises_and_changes_nothing(rng):
    g = mg.Graph()
    x, position = g.placeholder((1, 2, 8)), g.placeholder((1,), mg.int32)
    cache = nn.KeyValueCache(1, 4, position)
    y = nn.MultiheadAttention(8, 2)(x, cache=cache)
    fed = rng.normal(size=(1, 2, 8)).astype(np.float32)
    g.run({x: fed, position: np.int32([0])}, y)
    before = [g.variable_value(v) for v in cache.variables]
    with pytest.raises(mg.OutOfRangeError):
        g.run({x: fed, position: np.int32([3])}, y)
    for old, variable in zip(before, cache.variables, strict=True):
        np.testing.assert_array_equal(old, g.variable_value(variable))
    assert np.abs(before[0][:, :, :2]).min() > 0 and not before[0][:, :, 2:].any()


def test_key_value_cache_is_not_part_of_model_state(rng):
    g = mg.Graph()
    layer = nn.MultiheadAttention(8, 2)
    layer(g.placeholder((1, -1, 8)), cache=nn.KeyValueCache(1, 4, g.placeholder((1,), mg.int32)))
    assert len(layer.state_dict()) == 8 and all(not v.name.endswith("cache") for v in layer.parameters())


def test_cached_sequences_can_be_reordered(rng):
    g = mg.Graph()
    x, position = g.placeholder((3, 1, 8)), g.placeholder((1,), mg.int32)
    cache = nn.KeyValueCache(3, 4, position)
    nn_y = nn.MultiheadAttention(8, 2)(x, cache=cache)
    g.run({x: rng.normal(size=(3, 1, 8)).astype(np.float32), position: np.int32([0])}, nn_y)
    before = [g.variable_value(v) for v in cache.variables]
    g.run({}, [], cache.reordered(g.constant([2, 2, 0])))
    for old, variable in zip(before, cache.variables, strict=True):
        np.testing.assert_array_equal(old[[2, 2, 0]], g.variable_value(variable))


def test_shared_key_value_heads_equal_repeated_heads(rng):
    """Results with a mask and gradients must be equal; the gradient of a shared weight is the sum over its copies."""
    g = mg.Graph()
    x, mask = g.placeholder((2, 5, 8)), g.constant(np.triu(np.ones((5, 5), bool), 1))
    shared, apart = nn.MultiheadAttention(8, 4, num_kv_heads=2), nn.MultiheadAttention(8, 4)
    results = [layer(x, mask=mask) for layer in (shared, apart)]
    weights = [layer.with_weights(x, mask=mask, average=False) for layer in (shared, apart)]
    weighed(shared, rng)
    state = shared.state_dict()

    def copied(a):
        return np.repeat(a.reshape(*a.shape[:-1], 2, 1, 2), 2, -2).reshape(*a.shape[:-1], 8)

    apart.load_state_dict({k: copied(v) if k.startswith(("key", "value")) else v for k, v in state.items()})
    slopes = [
        g.gradients(g.reduction_sum(g.square(y)), layer.parameters())
        for y, layer in zip(results, (shared, apart), strict=True)
    ]
    named = [dict(layer.named_parameters()) for layer in (shared, apart)]
    feeds = {x: rng.normal(size=(2, 5, 8)).astype(np.float32)}
    found = g.run(feeds, [*results, *weights[0], *weights[1], *slopes[0].values(), *slopes[1].values()])
    np.testing.assert_allclose(found[results[0]].numpy(), found[results[1]].numpy(), **CLOSE)
    for ours, other in zip(weights[0], weights[1], strict=True):
        np.testing.assert_allclose(found[ours].numpy(), found[other].numpy(), **CLOSE)
    np.testing.assert_allclose(found[weights[0][0]].numpy(), found[results[0]].numpy(), **CLOSE)
    for path in named[0]:
        ours, other = (found[slopes[i][named[i][path]]].numpy() for i in (0, 1))
        if path.startswith(("key", "value")):
            other = other.reshape(*other.shape[:-1], 2, 2, 2).sum(-2).reshape(ours.shape)
        np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-4, err_msg=path)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding_rotates_complex_pairs_by_position(interleaved, rng):
    """As in the paper (arXiv:2104.09864), each pair of features is a complex number, multiplied by e^(i m theta)."""
    g, x = mg.Graph(), rng.normal(size=(2, 3, 7, 6)).astype(np.float32)
    got = g.run({}, nn.RotaryPositions(100.0, interleaved=interleaved)(g.constant(x))).numpy()
    real, imaginary = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :3], x[..., 3:])
    angles = np.arange(7)[:, None] * 100.0 ** (-2 * np.arange(3) / 6)
    turned = (real + 1j * imaginary) * np.exp(1j * angles)
    parts = [turned.real, turned.imag]
    wanted = np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_relative_position_buckets_match_t5(bidirectional):
    """Compare each distance with the published formula, for 32 buckets and a maximum distance of 128."""

    def bucket(distance):
        own, result = (16, 16 * (distance > 0)) if bidirectional else (32, 0)
        distance = abs(distance) if bidirectional else max(-distance, 0)
        single = own // 2
        if distance < single:
            return result + distance
        far = single + int(math.log(distance / single) / math.log(128 / single) * (own - single) + 1e-6)
        return result + min(far, own - 1)

    g, distances = mg.Graph(), np.arange(-300, 301, dtype=np.int32)
    got = g.run({}, nn.RelativePositions(bidirectional=bidirectional).buckets(g.constant(distances))).tolist()
    # Distances at bucket boundaries are skipped, because float32 may round either way there.
    exact = {8 * 2**k for k in range(5)} | {16 * 2**k for k in range(4)}
    wrong = [d for d, b in zip(distances, got, strict=True) if b != bucket(int(d)) and abs(d) not in exact]
    assert not wrong and len(set(got)) == (31 if bidirectional else 32)


def test_relative_position_bias_is_added_to_scores(rng):
    g, x = mg.Graph(), rng.normal(size=(1, 4, 8)).astype(np.float32)
    positions = nn.RelativePositions(8, 8)
    layer, plain = nn.MultiheadAttention(8, 2, positions=positions), nn.MultiheadAttention(8, 2)
    fed = g.constant(x)
    y = layer(fed)
    weighed(layer, rng)
    state = layer.state_dict()
    table = state.pop("positions.weight")
    distance = np.arange(4)[None, :] - np.arange(4)[:, None]
    ranges = g.run({}, positions.buckets(g.constant(distance.astype(np.int32)))).numpy()
    other = plain(fed, mask=g.constant(table[ranges].transpose(2, 0, 1).copy()))
    plain.load_state_dict(state)
    np.testing.assert_allclose(g.run({}, y).numpy(), g.run({}, other).numpy(), **CLOSE)


def test_linear_position_bias_penalizes_distance_per_head(rng):
    assert linear_shares(8) == [2.0**-k for k in range(1, 9)]
    assert linear_shares(3) == [2.0**-4, 2.0**-8, 2.0**-2]
    g, x = mg.Graph(), rng.normal(size=(1, 4, 8)).astype(np.float32)
    layer, plain = nn.MultiheadAttention(8, 2, positions=nn.LinearPositions()), nn.MultiheadAttention(8, 2)
    y = layer(g.constant(x))
    distance = np.abs(np.arange(4)[None, :] - np.arange(4)[:, None])
    added = -np.array([2.0**-4, 2.0**-8], np.float32)[:, None, None] * distance
    other = plain(g.constant(x), mask=g.constant(added.astype(np.float32)))
    plain.load_state_dict(layer.state_dict())
    np.testing.assert_allclose(g.run({}, y).numpy(), g.run({}, other).numpy(), **CLOSE)


def test_invalid_cache_and_position_arguments_raise():
    g = mg.Graph()
    x, position = g.placeholder((2, 3, 8)), g.placeholder((1,), mg.int32)
    with pytest.raises(mg.ShapeError, match="num_heads must be divisible by num_kv_heads"):
        nn.MultiheadAttention(8, 4, num_kv_heads=3)
    with pytest.raises(mg.ShapeError, match="features per head must be even"):
        nn.MultiheadAttention(6, 2, positions=nn.RotaryPositions())
    with pytest.raises(mg.GraphError, match="self-attention only"):
        nn.MultiheadAttention(8, 2)(x, x, cache=nn.KeyValueCache(2, 4, position))
    with pytest.raises(mg.ShapeError, match="with rows=1"):
        nn.MultiheadAttention(8, 2)(x, cache=nn.KeyValueCache(1, 4, position))
    with pytest.raises(mg.ShapeError, match="position must be int32"):
        nn.KeyValueCache(1, 4, g.placeholder((2,), mg.int32))
    with pytest.raises(mg.GraphError, match="another graph"):
        nn.MultiheadAttention(8, 2)(mg.Graph().placeholder((2, 3, 8)), cache=nn.KeyValueCache(2, 4, position))
    with pytest.raises(mg.ShapeError, match="num_buckets"):
        nn.RelativePositions(3)
    with pytest.raises(mg.GraphError, match="base"):
        nn.RotaryPositions(1.0)
