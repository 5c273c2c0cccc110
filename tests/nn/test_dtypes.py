"""Test layers in every floating-point dtype, in training and inference mode, and with any batch size, including 0."""

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

LAYERS = {
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(4, 3),
    "GRU": lambda: nn.GRU(4, bidirectional=True),
    "GroupNorm": lambda: nn.GroupNorm(2),
    "InstanceNorm": lambda: nn.InstanceNorm(scale=True, center=True),
    "LSTM": lambda: nn.LSTM(4, num_layers=2, dropout=0.2),
    "LayerNorm": nn.LayerNorm,
    "MultiheadAttention": lambda: nn.MultiheadAttention(8, 2, dropout=0.1),
    "PositionalEncoding": lambda: nn.PositionalEncoding(dropout=0.1),
    "RMSNorm": nn.RMSNorm,
    "SpatialDropout": nn.SpatialDropout,
    "Transformer": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 1),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_run_in_every_dtype_mode_and_batch_size(name, dtype):
    g = mg.Graph(seed=1)
    x, mode = g.placeholder((-1, -1, 8)), g.placeholder((), mg.bool_)
    layer = LAYERS[name]().train(mode)
    y = layer(g.cast(x, dtype))
    assert str(y.dtype) == dtype and all(str(p.dtype) == dtype for p in layer.parameters())
    slopes = g.gradients(g.reduction_sum(g.square(y)), [x, *layer.parameters()])
    targets = [g.cast(t, "float32") for t in (y, *slopes.values())]
    for batch, length in ((2, 3), (0, 3), (3, 1)):
        fed = np.random.default_rng(0).normal(size=(batch, length, 8)).astype(np.float32)
        for training in (True, False):
            found = g.run({x: fed, mode: np.array(training)}, targets)
            assert found[targets[0]].shape[0] == batch
            assert all(np.isfinite(value.numpy()).all() for value in found.values())


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_spatial_dropout_drops_whole_channels(layout):
    ones = np.ones((40, 3, 4, 50) if layout == "NHWC" else (40, 50, 3, 4), np.float32)
    g = mg.Graph(seed=1)
    x = g.placeholder((-1, -1, -1, 50) if layout == "NHWC" else (-1, 50, -1, -1))
    layer = nn.SpatialDropout(0.25, data_layout=layout)
    y = g.run({x: ones}, layer(x)).numpy()
    plane = (1, 2) if layout == "NHWC" else (2, 3)
    np.testing.assert_array_equal(y.min(plane), y.max(plane))
    assert set(np.unique(y)) == {0, np.float32(1 / 0.75)} and abs((y == 0).mean() - 0.25) < 0.03
    np.testing.assert_array_equal(g.run({x: ones}, layer.eval()(x)).numpy(), ones)


def test_unflatten_inverts_flatten():
    g = mg.Graph()
    x = g.placeholder((-1, 2, 3, 4))
    flat = nn.Flatten()(x)
    assert nn.Unflatten((2, -1, 4))(flat).shape == (-1, 2, 3, 4)
    back = nn.Sequential(nn.Identity(), nn.Unflatten((2, 3, 4)))(flat)
    fed = np.arange(48, dtype=np.float32).reshape(2, 2, 3, 4)
    np.testing.assert_array_equal(g.run({x: fed}, back).numpy(), fed)
    for wrong in ((5, 5), (5, -1)):
        with pytest.raises(mg.ShapeError):
            nn.Unflatten(wrong)(g.placeholder((2, 24)))
    with pytest.raises(mg.ShapeError, match="above 0"):
        nn.Unflatten((-1, -1))
