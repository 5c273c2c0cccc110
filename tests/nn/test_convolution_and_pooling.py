"""Test convolution and pooling layers against results of torch 2.13, in both layouts; also sizes, weights, and
training.
"""

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn


def pattern(*shape, modulo=5, less=2):
    return (np.arange(np.prod(shape)) % modulo - less).astype(np.float32).reshape(shape)


def fed(*shape):
    return pattern(*shape, modulo=7, less=3)


def applied(layer, x, known=True, state=None):
    """Return the layer's value at x; unless known, only the rank and channel count are static."""
    g = mg.Graph(seed=3)
    channels = x.ndim - 1 if layer_is_last(layer) else 1
    shape = x.shape if known else tuple(n if i == channels else -1 for i, n in enumerate(x.shape))
    placeholder = g.placeholder(shape)
    y = layer(placeholder)
    if state is not None:
        layer.load_state_dict(state)
    return g.run({placeholder: x}, y).numpy()


def layer_is_last(layer):
    return layer.data_layout.endswith("C")


def to_last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def weights_to_last(w):
    return np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2)))


# name: (layer, arguments, input, weight, bias size, output shape, output of torch); data and weights have channels
# first.
TORCH = {
    "Conv1d": (
        nn.Conv1d, {"out_channels": 4, "kernel_size": 3, "strides": 2, "padding": (1, 1), "dilations": 2, "groups": 2},
        fed(1, 4, 7), pattern(4, 2, 3), 4, (1, 4, 3), [-2, -2, 2, 5, -1, -3, 2, 10, 2, -4, -2, 4],
    ),
    "Conv3d": (
        nn.Conv3d,
        {"out_channels": 2, "kernel_size": 2, "strides": (1, 2, 1), "padding": ((0, 0), (1, 1), (0, 0))},
        fed(1, 2, 2, 3, 3), pattern(2, 2, 2, 2, 2), 2, (1, 2, 1, 2, 2), [7, -10, -14, 12, -10, 4, -20, -14],
    ),
    "ConvTranspose2d": (
        nn.ConvTranspose2d,
        {
            "out_channels": 2, "kernel_size": (3, 2), "strides": 2, "padding": ((1, 1), (1, 1)), "output_padding": 1,
            "groups": 2,
        },
        fed(1, 4, 2, 3), pattern(4, 1, 3, 2), 2, (1, 2, 4, 5),
        [3, -3, -8, -2, -5, 3, 0, 6, -3, 2, -2, 0, 1, 1, 4, 1, 2, -2, 2, -5, -4, 3, -7, -11, 4, -6, -4, -2, 3, 2, 8, 3,
         5, 3, 2, -2, 2, -1, 1, 0],
    ),
    "DepthwiseConv2d": (
        nn.DepthwiseConv2d, {"kernel_size": 2, "channel_multiplier": 2},
        fed(1, 3, 3, 3), pattern(2, 3, 2, 2), 6, (1, 6, 2, 2),
        [9, 7, -4, -6, -3, -2, 14, 1, -2, -3, 2, 15, 9, -3, -6, -4, 14, 14, -7, -7, -4, -6, 11, 9],
    ),
}  # fmt: skip


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("last", [False, True], ids=["channels_first", "channels_last"])
@pytest.mark.parametrize("name", TORCH)
def test_convolutions_match_pytorch(name, last, known):
    make, arguments, x, weight, channels, shape, numbers = TORCH[name]
    layout = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}[x.ndim][last]
    layer = make(**arguments, data_layout=layout)
    bias = pattern(channels, modulo=3, less=0)
    if last:
        state = {"weight": weights_to_last(weight), "bias": bias}
    else:
        state = {"weight": weight, "bias": bias}
    result = applied(layer, to_last(x) if last else x, known, state)
    wanted = np.array(numbers, np.float32).reshape(shape)
    np.testing.assert_allclose(result, to_last(wanted) if last else wanted, rtol=1e-5, atol=1e-5)


POOLS = {
    "MaxPool1d": (
        nn.MaxPool1d, {"kernel_size": 3, "strides": 2, "padding": (1, 1), "ceil_mode": True}, fed(1, 2, 7), (1, 2, 4),
        [-2, 0, 2, 3, -2, 0, 2, 3],
    ),
    "AvgPool1d_with_zeros": (
        nn.AvgPool1d,
        {
            "kernel_size": 3, "strides": 2, "padding": (1, 1), "ceil_mode": True, "include_zero_pad_to_average": True,
        },
        fed(1, 2, 7), (1, 2, 4), [-5 / 3, -1, 1, 5 / 3] * 2,
    ),
    "AvgPool1d": (
        nn.AvgPool1d, {"kernel_size": 3, "strides": 2, "padding": (1, 1)}, fed(1, 2, 7), (1, 2, 4),
        [-2.5, -1, 1, 2.5] * 2,
    ),
    "MaxPool3d": (
        nn.MaxPool3d, {"kernel_size": (2, 3, 2), "strides": (1, 2, 1), "padding": ((0, 0), (1, 1), (1, 1))},
        fed(1, 2, 3, 4, 3), (1, 2, 2, 2, 4),
        [2, 3, 3, 2, 3, 3, 3, 3, 3, 3, 3, 2, 3, 3, 3, 3, 3, 3, 3, 3, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2],
    ),
    "AvgPool3d": (
        nn.AvgPool3d, {"kernel_size": (2, 3, 2), "strides": (1, 2, 1), "padding": ((0, 0), (1, 1), (1, 1))},
        fed(1, 1, 3, 4, 3), (1, 1, 2, 2, 4),
        [-0.75, -0.25, -0.125, -0.5, -1 / 3, -5 / 12, 0, 0.5, 0.75, 0.375, -0.375, -0.75, 0, -1 / 12, -0.25, -1 / 3],
    ),
}  # fmt: skip


@pytest.mark.parametrize("last", [False, True], ids=["channels_first", "channels_last"])
@pytest.mark.parametrize("name", POOLS)
def test_pooling_layers_match_pytorch(name, last):
    make, arguments, x, shape, numbers = POOLS[name]
    layout = {3: ("NCW", "NWC"), 5: ("NCDHW", "NDHWC")}[x.ndim][last]
    result = applied(make(**arguments, data_layout=layout), to_last(x) if last else x)
    wanted = np.array(numbers, np.float32).reshape(shape)
    np.testing.assert_allclose(result, to_last(wanted) if last else wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "NHWC"])
def test_adaptive_average_pooling_matches_pytorch(last):
    layout = "NHWC" if last else "NCHW"

    def of(layer, x):
        y = applied(layer, to_last(x) if last else x)
        return np.moveaxis(y, -1, 1) if last and y.ndim == 4 else y

    def adaptive(size):
        return nn.AdaptiveAvgPool2d(size, data_layout=layout)

    torch = np.array([-1, 11 / 12, -2 / 3, 1, 0, -1, -2 / 3, -0.5, 11 / 9, -1, 11 / 12, -2 / 3]).reshape(1, 2, 2, 3)
    np.testing.assert_allclose(of(adaptive((2, 3)), fed(1, 2, 5, 8)), torch, atol=1e-4)
    divided = np.array([-1.25, -1, 1, 2, -1.25, -1]).reshape(1, 1, 2, 3)
    np.testing.assert_allclose(of(adaptive((2, 3)), fed(1, 1, 4, 6)), divided, rtol=1e-6)
    x = fed(3, 2, 5, 4)
    mean = x.mean((2, 3))
    np.testing.assert_allclose(of(adaptive(1), x)[:, :, 0, 0], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of(nn.GlobalAveragePooling2d(data_layout=layout), x), mean, rtol=1e-5, atol=1e-6)


def test_separable_convolution_equals_depthwise_then_pointwise():
    layer = nn.SeparableConv2d(5, 3, channel_multiplier=2, strides=2, padding="TF_SAME")
    x = np.random.default_rng(0).normal(size=(2, 7, 6, 4)).astype(np.float32)
    g = mg.Graph()
    result = g.run({}, layer(g.constant(x))).numpy()
    state = layer.state_dict()
    assert {name: value.shape for name, value in state.items()} == {
        "depthwise.weight": (3, 3, 4, 2), "pointwise.weight": (1, 1, 8, 5), "pointwise.bias": (5,),
    }  # fmt: skip
    between = g.depthwise_convolution2d(
        g.constant(x), g.constant(state["depthwise.weight"]), strides=2, padding="TF_SAME"
    )
    wanted = g.run({}, between).numpy() @ state["pointwise.weight"][0, 0]
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("batch", [2, -1])
def test_fold_sums_overlapping_unfolded_patches(layout, batch):
    how = {"strides": 2, "padding": ((1, 1), (0, 1)), "dilations": (1, 2), "data_layout": layout}
    shape = (5, 6, 3) if layout == "NHWC" else (3, 5, 6)
    g = mg.Graph()
    x = g.placeholder((batch, *shape))
    taken = nn.Unfold(2, **how)(x)
    back = nn.Fold((5, 6), 2, **how)(taken)
    assert back.shape == (batch, *shape)
    ones = np.ones((2, *shape), np.float32)
    counts = g.run({x: ones}, back).numpy()
    numbers = np.random.default_rng(1).normal(size=(2, *shape)).astype(np.float32)
    np.testing.assert_allclose(g.run({x: numbers}, back).numpy(), numbers * counts, rtol=1e-5)
    assert counts.max() > counts.min()


def test_small_convolutional_network_learns():
    """Combine upsampling and downsampling layers: transposed, separable, and strided convolutions and overlapping
    pooling.
    """
    g = mg.Graph(seed=5)
    x, target = g.placeholder((-1, 8, 8, 2)), g.placeholder((-1, 4))
    model = nn.Sequential(
        nn.ConvTranspose2d(6, 3, strides=2, padding="TF_SAME"), nn.ReLU(), nn.SeparableConv2d(8, 3), nn.ReLU(),
        nn.MaxPool2d(3, 2), nn.Conv2d(8, 3, strides=2), nn.ReLU(), nn.GlobalAveragePooling2d(), nn.Linear(4),
    )  # fmt: skip
    loss = g.mean(g.square(model(x) - target))
    gradients = g.gradients(loss, model.parameters())
    steps = [g.apply_stochastic_gradient_descent(0.1, p, gradients[p]) for p in model.parameters()]
    rng = np.random.default_rng(2)
    images = rng.normal(size=(16, 8, 8, 2)) + rng.normal(size=(16, 1, 1, 2))
    wanted = images.mean((1, 2)) @ rng.normal(size=(2, 4))  # The network can represent this target.
    feeds = {x: images.astype(np.float32), target: wanted.astype(np.float32)}
    losses = [float(g.run(feeds, loss, steps)) for _ in range(60)]
    assert losses[-1] < 0.8 * losses[0]


def test_invalid_convolution_and_pooling_arguments_raise():
    g = mg.Graph()
    with pytest.raises(mg.GraphError, match="NWC or NCW"):
        nn.Conv1d(4, 3, data_layout="NHWC")
    with pytest.raises(mg.ShapeError, match="groups"):
        nn.Conv3d(4, 3, groups=3)(g.placeholder((-1, 8, 8, 8, 4)))
    with pytest.raises(mg.ShapeError, match="padding"):
        nn.MaxPool1d(2, padding=(1, 1, 1))(g.placeholder((-1, 8, 4)))
    with pytest.raises(mg.ShapeError, match="divisible by the number of elements in a window"):
        nn.Fold((4, 4), 2)(g.placeholder((-1, 9, 5)))
    with pytest.raises(mg.ShapeError, match="AdaptiveAvgPool2d"):
        nn.AdaptiveAvgPool2d(2)(g.placeholder((-1, -1, 8, 4)))
    with pytest.raises(mg.ShapeError, match="kernel_size"):
        nn.ConvTranspose2d(4, (3, 3, 3))
