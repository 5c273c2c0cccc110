"""Test attention with padding: fully padded rows give zeros, and no gradient is NaN.

Sequences longer than the table of a positional encoding must raise an error.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import has
from mpsgraph import nn

pytestmark = pytest.mark.both_devices

PADDED = np.array([[False] * 5, [True] * 5, [False, False, True, True, True]])


def added(mask):
    return np.where(mask, -np.inf, 0.0).astype(np.float32)


@pytest.mark.parametrize("dtype", [d for d in ("float32", "float64", "float16", "bfloat16") if has(d)])
@pytest.mark.parametrize("bools", [True, False], ids=["bools", "numbers"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("causal", [False, True])
def test_fully_padded_row_attends_to_nothing_and_has_zero_gradient(causal, dropout, bools, dtype, rng):
    g = mg.Graph(seed=1)
    fed = g.placeholder((3, 5, 8))
    padding = g.placeholder((3, 5), mg.bool_ if bools else "float32")
    layer = nn.MultiheadAttention(8, 2, dropout=dropout)
    x = g.cast(fed, dtype)
    y = layer(x, key_padding_mask=padding, is_causal=causal)
    state = {k: rng.normal(size=v.shape).astype(v.dtype) for k, v in layer.state_dict().items()}
    layer.load_state_dict(state)
    result, weights = layer.eval().with_weights(x, key_padding_mask=padding, is_causal=causal)
    slopes = g.gradients(g.reduction_sum(g.square(y)), [fed, *layer.parameters()])
    values = rng.normal(size=(3, 5, 8)).astype(np.float32)
    feeds = {fed: values, padding: PADDED if bools else added(PADDED)}
    targets = [g.cast(t, "float32") for t in (y, result, weights, *slopes.values())]
    found = [v.numpy() for v in g.run(feeds, targets).values()]
    bias = g.run({}, g.cast(layer.output.bias, "float32")).numpy()
    for given in found[:2]:
        np.testing.assert_array_equal(given[1], np.tile(bias, (5, 1)))
    assert (found[2][1] == 0).all() and (found[2][0].sum(-1) > 0.99).all()
    assert (found[3][1] == 0).all(), "the fully padded row must have zero gradient"
    assert all(np.isfinite(v).all() for v in found)
    assert (found[3][0] != 0).any()


def test_attention_scores_beyond_float16_range_do_not_overflow(rng):
    """Dot products of vectors of 64 features of +-100 and +-200 overflow float16; the best key must still get all the
    weight.
    """
    g = mg.Graph()
    layer = nn.MultiheadAttention(64, 1, bias=False)
    x = g.placeholder((1, 3, 64))
    given = g.cast(x, "float16")
    result, weights = layer.with_weights(given)
    plain = layer(given)
    eye = np.eye(64, dtype=np.float16)
    layer.load_state_dict({f"{part}.weight": eye for part in ("query", "key", "value", "output")})
    fed = np.repeat(np.float32([200, 100, -200]), 64).reshape(1, 3, 64)
    found = [v.numpy() for v in g.run({x: fed}, [g.cast(t, "float32") for t in (result, plain, weights)]).values()]
    np.testing.assert_array_equal(found[2][0], [[1, 0, 0], [1, 0, 0], [0, 0, 1]])
    for y in found[:2]:
        np.testing.assert_array_equal(y[0, :, 0], [200, 200, -200])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_causal_attention_ignores_leading_padding(dtype, rng):
    """The first queries see only padding; the others give the same results as without padding."""
    g = mg.Graph(seed=1)
    x, mask = g.placeholder((-1, -1, 8)), g.placeholder((-1, -1), mg.bool_)
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2)
    y = layer(g.cast(x, dtype), key_padding_mask=mask, is_causal=True)
    loss = g.reduction_sum(g.square(g.slice_axis(y, 1, 3, 2)))
    targets = [g.cast(t, "float32") for t in (y, *g.gradients(loss, layer.parameters()).values())]
    values = rng.normal(size=(1, 5, 8)).astype(np.float32)
    padded = g.run({x: values, mask: [[True] * 3 + [False] * 2]}, targets)
    z = layer(g.cast(x, dtype), is_causal=True)
    short = g.run({x: values[:, 3:]}, g.cast(z, "float32")).numpy()
    rounding = 1e-5 if dtype == "float32" else 5e-2
    np.testing.assert_allclose(padded[targets[0]].numpy()[:, 3:], short, rtol=rounding, atol=rounding)
    assert all(np.isfinite(v.numpy()).all() for v in padded.values())


def test_decoder_with_fully_padded_memory_gives_finite_gradients(rng):
    g = mg.Graph(seed=1)
    x, memory, mask = g.placeholder((2, 3, 8)), g.placeholder((2, 4, 8)), g.placeholder((2, 4), mg.bool_)
    layer = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 2)
    y = layer(x, memory, memory_key_padding_mask=mask, is_causal=True)
    slopes = g.gradients(g.reduction_sum(g.square(y) * 0.5 + y), [memory, *layer.parameters()])
    feeds = {x: rng.normal(size=(2, 3, 8)).astype(np.float32), mask: [[False] * 4, [True] * 4]}
    feeds[memory] = rng.normal(size=(2, 4, 8)).astype(np.float32)
    found = [v.numpy() for v in g.run(feeds, [y, *slopes.values()]).values()]
    assert all(np.isfinite(v).all() for v in found) and (found[1][1] == 0).all() and (found[1][0] != 0).any()


def test_sequence_longer_than_positional_encoding_raises():
    for batch_first in (True, False):
        g = mg.Graph()
        x = g.placeholder((-1, -1, 4))
        y = nn.PositionalEncoding(max_length=8, batch_first=batch_first)(x)
        known = nn.PositionalEncoding(max_length=8, batch_first=batch_first)
        for steps in (1, 8):
            fed = np.zeros((2, steps, 4) if batch_first else (steps, 2, 4), np.float32)
            wanted = g.run({}, known(g.constant(fed))).numpy()
            np.testing.assert_array_equal(g.run({x: fed}, y).numpy(), wanted)
            assert (wanted.reshape(-1, 4)[:, 1] != 0).all()
        fed = np.zeros((2, 10, 4) if batch_first else (10, 2, 4), np.float32)
        with pytest.raises(mg.ShapeError, match=r"10.*\(8,4\)"):
            g.run({x: fed}, y)
    short = nn.PositionalEncoding(max_length=1)(x)
    with pytest.raises(mg.ShapeError, match=r"10.*\(1,4\)"):  # A table with a single row would otherwise be broadcast.
        g.run({x: np.zeros((2, 10, 4), np.float32)}, short)
