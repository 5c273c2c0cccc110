"""Test which layers create, propagate, use, and drop sequence masks."""

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

pytestmark = pytest.mark.both_devices
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
TOKENS = np.array([[3, 1, 2, 0, 0], [4, 0, 0, 0, 0], [1, 2, 3, 4, 5]], np.int32)


def embedded(g):
    return nn.Embedding(6, 8, mask_zero=True)(g.constant(TOKENS))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(8), lambda: nn.LayerNorm(), lambda: nn.RMSNorm(), lambda: nn.BatchNorm(), nn.ReLU,
        lambda: nn.Dropout(0.5), lambda: nn.SpatialDropout(0.5), nn.Identity, nn.GELU, nn.Softmax, nn.PReLU,
        lambda: nn.LSTM(4), lambda: nn.GRU(4, bidirectional=True), lambda: nn.MultiheadAttention(8, 2),
        lambda: nn.TransformerEncoderLayer(8, 2, 8), nn.PositionalEncoding, nn.Hardswish,
        lambda: nn.Sequential(nn.Linear(4), nn.ReLU(), lambda x: x * 2.0 + 1.0),
    ],
)  # fmt: skip
def test_layers_that_act_on_each_step_propagate_the_mask(make):
    g = mg.Graph()
    mask = nn.mask_of(make()(embedded(g)))
    np.testing.assert_array_equal(g.run({}, mask).numpy(), TOKENS != 0)


def test_layers_that_combine_steps_drop_the_mask():
    g = mg.Graph()
    x = embedded(g)
    for y in (nn.Conv1d(4, 3)(x), nn.Flatten()(x), g.swap_axes(x, 0, 1), g.reduction_sum(x, 1)):
        assert nn.mask_of(y) is None
    assert nn.mask_of(nn.Embedding(6, 8)(g.constant(TOKENS))) is None


def test_masks_of_several_inputs_are_combined_with_and():
    g = mg.Graph()
    x, y = embedded(g), nn.Embedding(6, 8, mask_zero=True)(g.constant(TOKENS[::-1].copy()))
    both = g.run({}, nn.mask_of(x + nn.Linear(8)(y))).numpy()
    np.testing.assert_array_equal(both, (TOKENS != 0) & (TOKENS[::-1] != 0))


@pytest.mark.parametrize(
    "make", [lambda: nn.LSTM(4, num_layers=2, bidirectional=True), lambda: nn.GRU(4), lambda: nn.RNN(4)]
)
def test_recurrent_layers_ignore_masked_steps(make):
    g = mg.Graph()
    x, layer = embedded(g), make()
    y, _ = layer.with_state(x)
    said = layer(x, lengths=[3, 1, 5])
    found = g.run({}, [y, layer(x), said])
    for got in (y, said):
        np.testing.assert_allclose(found[got].numpy(), list(found.values())[1].numpy(), **CLOSE)
    assert not found[y].numpy()[0, 3:].any()


def test_attention_layers_ignore_masked_steps():
    g = mg.Graph()
    x, layer = embedded(g), nn.MultiheadAttention(8, 2)
    wanted = layer(x, key_padding_mask=g.constant(TOKENS == 0))
    weights = layer.with_weights(x)[1]
    found = g.run({}, [layer(x), wanted, weights])
    np.testing.assert_array_equal(*(found[t].numpy() for t in list(found)[:2]))
    assert not found[weights].numpy()[0, :, 3:].any()


def test_padding_does_not_change_transformer_outputs(rng):
    """Residual sums propagate the mask, so each row equals the result of that row alone."""
    g = mg.Graph()
    tokens = g.placeholder((-1, -1), mg.int32)
    embedding = nn.Embedding(6, 8, mask_zero=True)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, 0.0), 2)
    y = encoder(embedding(tokens) * 2.0)
    padded = g.run({tokens: TOKENS}, y).numpy()
    for row, length in zip(range(3), (3, 1, 5), strict=True):
        alone = g.run({tokens: TOKENS[row : row + 1, :length].copy()}, y).numpy()
        np.testing.assert_allclose(padded[row, :length], alone[0], rtol=1e-4, atol=1e-5)


def test_masking_layer_masks_steps_equal_to_the_mask_value():
    g = mg.Graph()
    x = np.array([[[1, 2], [7, 7], [7, 3]]], np.float32)
    y = nn.Masking(7.0)(g.constant(x))
    np.testing.assert_array_equal(g.run({}, nn.mask_of(y)).numpy(), [[True, False, True]])
    np.testing.assert_array_equal(g.run({}, y).numpy(), [[[1, 2], [0, 0], [7, 3]]])


def test_masked_loss_averages_over_unmasked_steps(rng):
    g, labels = mg.Graph(), rng.integers(0, 4, (3, 5)).astype(np.int32)
    logits = nn.Linear(4)(embedded(g))
    options = {"weights": nn.mask_of(logits), "reduction": "sum_by_nonzero_weights"}
    loss = nn.losses.cross_entropy(logits, g.constant(labels), **options)
    each = nn.losses.cross_entropy(logits, g.constant(labels), reduction="none")
    found = g.run({}, [loss, each])
    assert found[loss].item() == pytest.approx(found[each].numpy()[TOKENS != 0].mean(), rel=1e-5)


def test_invalid_masks_raise():
    g = mg.Graph()
    x = g.placeholder((-1, 5, 8))
    with pytest.raises(mg.DTypeError, match="mask must be bool"):
        nn.set_mask(x, g.placeholder((-1, 5)))
    with pytest.raises(mg.ShapeError, match="first two axes"):
        nn.set_mask(x, g.placeholder((-1, 6), mg.bool_))
    with pytest.raises(mg.ShapeError, match="batch, time"):
        nn.Masking()(g.placeholder((-1, 5)))
    with pytest.raises(mg.ShapeError, match="mask_zero"):
        nn.Embedding(6, 8, mask_zero=True)(g.placeholder((-1,), mg.int32))
    assert nn.mask_of(x) is None


def test_graph_with_masks_is_garbage_collected():
    import gc
    import weakref

    g = mg.Graph()
    embedded(g)
    watched = weakref.ref(g)
    del g
    gc.collect()
    assert watched() is None
