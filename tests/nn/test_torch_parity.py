"""Compare the remaining layers with PyTorch's values and gradients, in both layouts, with static and dynamic sizes."""

from functools import partial

import mpsgraph as mg
import numpy as np
import pytest
from harness.torch_layers import compare, names
from mpsgraph import nn
from nn import test_attention, test_losses, test_recurrent

ACTIVATIONS = {
    "CELU": lambda: nn.CELU(0.7),
    "ELU": lambda: nn.ELU(0.7),
    "GELU": nn.GELU,
    "GELU_tanh": lambda: nn.GELU("tanh"),
    "GLU": nn.GLU,
    "Hardshrink": nn.Hardshrink,
    "Hardsigmoid": nn.Hardsigmoid,
    "Hardswish": nn.Hardswish,
    "Hardtanh": lambda: nn.Hardtanh(-1.0, 3.0),
    "LogSigmoid": nn.LogSigmoid,
    "Mish": nn.Mish,
    "PReLU": nn.PReLU,
    "PReLU_channels": lambda: nn.PReLU(6),
    "ReLU6": nn.ReLU6,
    "SELU": nn.SELU,
    "SiLU": nn.Swish,
    "Softmin": nn.Softmin,
    "Softplus": lambda: nn.Softplus(2.0),
    "Softshrink": nn.Softshrink,
    "Softsign": nn.Softsign,
    "Tanhshrink": nn.Tanhshrink,
    "Threshold": lambda: nn.Threshold(0.5, 2.0),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_match_pytorch(name):
    module = ACTIVATIONS[name]()
    compare(name, module, module=module if "PReLU" in name else None)


@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n not in ("GLU", "PReLU_channels")])
def test_activations_propagate_nan_and_keep_float_dtypes(name):
    for dtype in ("float16", "bfloat16", "float32"):
        g = mg.Graph()
        y = ACTIVATIONS[name]()(g.constant([[float("nan")], [1.0]], dtype=dtype))
        assert str(y.dtype) == dtype
        assert np.isnan(g.run({}, g.cast(y, "float32")).numpy()[:, 0]).tolist() == [True, False]


# Normalizations over trailing features are the same in both layouts; those over channels take the data layout.
NORMS = {
    "LayerNorm": nn.LayerNorm,
    "LayerNorm_two_axes": lambda: nn.LayerNorm((-2, -1), epsilon=1e-3),
    "LayerNorm_plain": lambda: nn.LayerNorm(scale=False, center=False),
    "RMSNorm": nn.RMSNorm,
}
CHANNEL_NORMS = {
    "BatchNorm_1": lambda layout: nn.BatchNorm(data_layout=layout),
    "BatchNorm_3": lambda layout: nn.BatchNorm(data_layout=layout),
    "GroupNorm": lambda layout: nn.GroupNorm(2, data_layout=layout),
    "GroupNorm_rank_2": lambda layout: nn.GroupNorm(3, data_layout=layout),
    "InstanceNorm_1": lambda layout: nn.InstanceNorm(scale=True, center=True, data_layout=layout),
    "InstanceNorm_2": lambda layout: nn.InstanceNorm(data_layout=layout),
    "InstanceNorm_3": lambda layout: nn.InstanceNorm(scale=True, center=True, data_layout=layout),
}


def gamma_and_beta(parameters):
    named = {"weight": "gamma", "bias": "beta"}
    return {named[key]: value for key, value in parameters.items()}


@pytest.mark.parametrize("name", NORMS)
def test_feature_normalization_layers_match_pytorch(name):
    layer = NORMS[name]()
    compare(name, layer, module=layer, state=gamma_and_beta, known="two" in name)


@pytest.mark.parametrize("last", [False, True], ids=["channels_first", "channels_last"])
@pytest.mark.parametrize("name", CHANNEL_NORMS)
def test_channel_normalization_layers_match_pytorch(name, last):
    layer = CHANNEL_NORMS[name]("NHWC" if last else "NCHW")

    def arrange(x):
        return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x

    compare(name, layer, module=layer, state=gamma_and_beta, arrange=arrange, known=not last)


_TRANSPOSED = {"strides": 2, "output_padding": 1, "dilations": 2}
TRANSPOSED = {
    "ConvTranspose1d": partial(nn.ConvTranspose1d, 6, 3, groups=2, padding=(1, 1), **_TRANSPOSED),
    "ConvTranspose2d": partial(nn.ConvTranspose2d, 3, (3, 2), padding=((1, 1), (1, 1)), **_TRANSPOSED),
    "ConvTranspose3d": partial(
        nn.ConvTranspose3d, 2, 2, strides=(1, 2, 3), padding=((0, 0), (1, 1), (0, 0)), bias=False
    ),
}


@pytest.mark.parametrize("last", [False, True], ids=["channels_first", "channels_last"])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution_layers_match_pytorch(name, last):
    axes = int(name[-2])
    layer = TRANSPOSED[name](data_layout={1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[axes][last])

    def state(parameters):
        weight, *bias = parameters.values()
        if last:
            return {"weight": np.moveaxis(weight, (0, 1), (-1, -2)).copy(), **({"bias": bias[0]} if bias else {})}
        return {"weight": weight, **({"bias": bias[0]} if bias else {})}

    def arrange(x):
        return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x

    compare(name, layer, module=layer, state=state, arrange=arrange, known=not last)


def test_every_stored_torch_case_is_used():
    used = {
        *ACTIVATIONS,
        *NORMS,
        *CHANNEL_NORMS,
        *TRANSPOSED,
        *test_recurrent.LAYERS,
        *test_attention.CASES,
        *test_losses.LOSSES,
    }
    assert used == set(names())


@pytest.mark.parametrize("layer", [nn.LayerNorm(), nn.RMSNorm(), nn.GroupNorm(2), nn.InstanceNorm(scale=True)])
def test_half_precision_normalizations_match_float32(layer, rng):
    x = rng.normal(2, 3, size=(2, 5, 6, 8)).astype(np.float16)
    g = mg.Graph()
    y = layer(g.constant(x))
    assert y.dtype == mg.float16
    wide = type(layer)(2) if isinstance(layer, nn.GroupNorm) else type(layer)()
    wanted = wide(g.constant(x.astype(np.float32)))
    found = g.run({}, [y, wanted])
    np.testing.assert_allclose(found[y].numpy(), found[wanted].numpy(), atol=5e-3)


def test_network_of_normalizations_and_activations_learns():
    """Combine normalizations and trainable PReLU slopes in one model with channels last."""
    g = mg.Graph(seed=2)
    x, target = g.placeholder((-1, 6, 6, 2)), g.placeholder((-1, 3))
    model = nn.Sequential(
        nn.Conv2d(8, 3), nn.GroupNorm(4), nn.PReLU(8), nn.Conv2d(8, 3), nn.InstanceNorm(scale=True), nn.Mish(),
        nn.Flatten(), nn.LayerNorm(), nn.Linear(8), nn.RMSNorm(), nn.Hardswish(), nn.Linear(3),
    )  # fmt: skip
    loss = nn.losses.mean_squared_error(model(x), target)
    rate = g.constant(0.01)
    steps = mg.optim.Adam(0.01).updates(g.gradients(loss, model.parameters()), rate)
    rng = np.random.default_rng(2)
    images = rng.normal(size=(32, 6, 6, 2)).astype(np.float32)
    wanted = np.stack([images[:, 1, 2, 0], images[:, 3, 3, 1], images[:, 2, 4, 0]], 1)
    losses = [float(g.run({x: images, target: wanted}, loss, steps)) for _ in range(60)]
    assert losses[-1] < 0.3 * losses[0]


def test_invalid_layer_arguments_and_shapes_raise():
    g = mg.Graph()
    with pytest.raises(mg.ShapeError, match="LayerNorm: axes must be the last"):
        nn.LayerNorm(1)(g.placeholder((2, 3, 4)))
    with pytest.raises(mg.ShapeError, match="LayerNorm"):
        nn.LayerNorm()(g.placeholder((2, -1)))
    with pytest.raises(mg.ShapeError, match="divisible by groups, got 6 channels and groups=4"):
        nn.GroupNorm(4)(g.placeholder((2, 3, 6)))
    with pytest.raises(mg.ShapeError, match="at least 3 axes"):
        nn.InstanceNorm()(g.placeholder((2, 3)))
    with pytest.raises(mg.GraphError, match="data_layout"):
        nn.BatchNorm(data_layout="CHW")(g.placeholder((2, 3)))
    with pytest.raises(mg.ShapeError, match="PReLU"):
        nn.PReLU(4)(g.placeholder((2, 3)))
    with pytest.raises(mg.GraphError, match="approximate"):
        nn.GELU("erf")(g.placeholder((2, 3)))
    with pytest.raises(mg.GraphError, match="below"):
        nn.Hardtanh(1.0, 1.0)
