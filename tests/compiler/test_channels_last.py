"""Test the channels_last pass on channels-first networks: results must match the reference kernels."""

import re
from collections import Counter

import mpsgraph as mg
import numpy as np
import pytest
from harness.passes import has_integer_kernels

PLAIN = mg.CompilationDescriptor(reference_kernels=True)
AS_WRITTEN = mg.CompilationDescriptor(disabled_passes=("channels_last",))
FIRST = {"data_layout": "NCHW"}
ONNX = {**FIRST, "weights_layout": "OIHW"}


def weights(g, *shape, constant=False, seed=0):
    values = np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32) / 4
    return g.constant(values) if constant else g.variable(values)


def normalized(g, x):
    """Batch normalization by batch statistics over all but the second axis."""
    axes, by_channel = [0, 2, 3], (1, x.shape[1], 1, 1)
    mean = g.mean(x, axes)
    gamma, beta = g.variable(np.full(by_channel, 1.5, np.float32)), g.variable(np.full(by_channel, 0.1, np.float32))
    return g.normalization(x, mean, g.variance(x, mean, axes), gamma, beta, epsilon=1e-3)


def residual(g, x):
    """Two convolutions around a normalization, the second with a residual, as in a residual block."""
    h = g.relu(normalized(g, g.convolution2d(x, weights(g, 8, 4, 3, 3), padding="TF_SAME", **ONNX)))
    h = g.convolution2d(h, weights(g, 8, 8, 1, 1), **ONNX) + g.reshape(weights(g, 8), (1, 8, 1, 1))
    return g.relu(h + g.convolution2d(x, weights(g, 8, 4, 1, 1, seed=1), **ONNX))


def pooled(g, x):
    h = g.convolution2d(x, weights(g, 3, 3, 4, 6), padding="TF_SAME", **FIRST)
    h = g.max_pooling2d(h, (2, 2), strides=(2, 2), **FIRST)
    return g.avg_pooling2d(h, (3, 3), padding="TF_SAME", **FIRST)


def grouped(g, x):
    h = g.convolution2d(x, weights(g, 3, 3, 2, 8), groups=2, padding="TF_SAME", **FIRST)
    return g.depthwise_convolution2d(h, weights(g, 3, 3, 8, 1), padding="TF_SAME", **FIRST)


def joined(g, x):
    h = g.convolution2d(g.pad(x, [0, 0, 1, 0], [0, 0, 1, 2]), weights(g, 5, 4, 2, 3), **ONNX)
    h = g.concat([g.tanh(h), h * 0.5], axis=1)
    h = g.pad(h, [0, 2, 0, 1], [0, 0, 3, 0], mode="constant", value=0.5)
    return g.softmax(h, axis=1)


def transposed(g, x):
    h = g.convolution_transpose2d(x, weights(g, 2, 2, 6, 4), (3, 6, 16, 12), strides=(2, 2), **FIRST)
    return g.reduction_maximum(g.sigmoid(h), axes=[-3, 3])


def broadcast(g, x):
    """Operands of lower rank: along the channels, along a row, and with a single element."""
    h = g.convolution2d(x, weights(g, 3, 3, 4, 4), padding="TF_SAME", **FIRST)
    return h * weights(g, 4, 1, 1) + weights(g, 6) - weights(g, 1) * x


def seen_within(g, x):
    """A network whose middle needs a different layout: for a reshape, and for a channels-last convolution."""
    h = g.convolution2d(x, weights(g, 3, 3, 4, 4), padding="TF_SAME", **FIRST)
    flat = g.reshape(h, (3, -1)) @ weights(g, 192, 5)
    back = g.convolution2d(g.transpose(h, [0, 2, 3, 1]), weights(g, 1, 1, 4, 4))
    return g.mean(g.tanh(flat)) + g.relu(g.transpose(back, [0, 3, 1, 2]) + h)


def signals(g, x):
    """1-D convolutions in the layout of ONNX and mpsgraph.nn: dilated, depthwise, and with element-wise operations
    between.
    """

    def along(signal, *shape, seed=0, **how):
        images = g.expand_dims(signal, 2)
        bias = g.reshape(weights(g, shape[0], seed=seed), (shape[0], 1))
        return g.squeeze(g.convolution2d(images, weights(g, *shape, seed=seed), **ONNX, **how), 2) + bias

    signal = g.reshape(x, (-1, 4, 48))
    h = g.relu(along(signal, 8, 4, 1, 3, padding="TF_SAME"))
    h = h + g.leaky_relu(along(g.pad(h, [0, 0, 4], [0, 0, 0]), 8, 1, 1, 3, groups=8, dilations=(1, 2)), 0.1)
    h = g.concat([g.tanh(h), along(h, 8, 8, 1, 1, seed=1)], axis=1)
    return h / (1 + g.reduction_maximum(g.absolute(h), axes=[1, 2]))


def resized(g, x):
    """Upsampling by nearest neighbor and by explicit scales and offsets, then downsampling, as in multi-scale
    detectors.
    """
    h = g.convolution2d(x, weights(g, 6, 4, 3, 3), padding="TF_SAME", **ONNX)
    large = g.resize_nearest(h, (16, 12), "floor", layout="NCHW")
    places = {"scale": (2.0, 2.0), "offset": (0.5, 0.5)}
    h = g.concat([large, g.resize_bilinear(h, (16, 12), layout="NCHW", **places)], axis=1)
    h = g.convolution2d(h, weights(g, 5, 12, 1, 1), **ONNX)
    return g.relu(g.resize_bilinear(h, (5, 7), align_corners=True, center_result=False, layout="NCHW"))


def volumes(g, x):
    """3-D convolutions with normalization, pooling, padding, and a residual between them."""
    first = {"data_layout": "NCDHW", "weights_layout": "OIDHW"}
    v = g.reshape(x, (-1, 4, 4, 4, 3))
    h = g.convolution3d(v, weights(g, 9, 4, 3, 3, 3), padding="TF_SAME", **first) + weights(g, 9, 1, 1, 1)
    axes = [0, 2, 3, 4]
    mean = g.mean(h, axes)
    h = g.relu(g.normalization(h, mean, g.variance(h, mean, axes), epsilon=1e-3))
    h = h + g.convolution3d(h, weights(g, 9, 9, 1, 1, 1), **first)
    h = g.pad(h, [0, 0, 1, 0, 2], [0, 0, 0, 1, 0])
    h = g.max_pooling4d(h, (1, 2, 1, 3), strides=(1, 1, 2, 1), padding=((0, 0), (1, 0), (0, 0), (0, 1)))
    h = g.concat([g.tanh(h), g.avg_pooling4d(h, (1, 3, 2, 1), strides=1, padding="TF_SAME")], axis=1)
    h = g.convolution3d(h, weights(g, 5, 18, 2, 2, 2, constant=True), strides=(2, 1, 1), **first)
    return g.softmax(h, axis=1)


NETWORKS = [residual, pooled, grouped, joined, transposed, broadcast, seen_within, signals, resized, volumes]
IMAGES = np.random.default_rng(0).standard_normal((3, 4, 8, 6)).astype(np.float32)


def trained(network, options, dtype=None):
    """Return loss, output, and input gradient of training steps 1 and 3, and the final variables."""
    g = mg.Graph()
    x = g.placeholder((-1, *IMAGES.shape[1:]))
    y = network(g, g.cast(x, dtype) if dtype else x)
    loss = g.mean(g.square(y - 0.3))
    gradients = g.gradients(loss, [x, *g.trainable_variables])
    steps = [g.assign(v, v - 0.1 * gradients[v]) for v in g.trainable_variables]
    executable = g.compile({x: IMAGES.shape}, [loss, y, gradients[x]], steps, options=options)
    results = [[np.array(r) for r in executable.run([IMAGES])] for _ in range(3)]
    return [*results[0], *results[-1], *(g.variable_value(v) for v in g.trainable_variables)]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_channels_last_training_matches_unconverted_training(network):
    expected, found, kept = (trained(network, options) for options in (PLAIN, None, AS_WRITTEN))
    for x, *others in zip(expected, found, kept, strict=True):
        for y in others:
            np.testing.assert_allclose(y, x, rtol=2e-4, atol=2e-5 * max(1, np.abs(x).max()))


def compiled_text(network, constant=True, results=lambda y: [y]):
    """Return the program after all passes, and its plan."""
    g, seen = mg.Graph(), {}
    x = g.placeholder(IMAGES.shape, name="x")
    options = mg.CompilationDescriptor(observe=seen.__setitem__)
    executable = g.compile({x: IMAGES.shape}, results(network(g, x)), options=options)
    return seen["schedule"], executable.plan()


def kinds(text):
    return Counter(re.findall(r" = (\w+)\(", text))


def test_channels_last_conversion_transposes_only_network_inputs_and_outputs():
    text, plan = compiled_text(lambda g, x: g.mean(residual(g, x), [2, 3]))
    assert kinds(text)["transpose"] == 1 and "NCHW" not in text, text
    assert "patches" not in plan, plan


def test_resize_between_convolutions_stays_channels_last():
    text, _ = compiled_text(lambda g, x: g.mean(resized(g, x), [2, 3]))
    assert kinds(text)["transpose"] == 1 and "NCHW" not in text, text


def test_channels_last_conversion_transposes_volumes_once():
    text, plan = compiled_text(lambda g, x: g.mean(volumes(g, x), [2, 3, 4]))
    assert kinds(text)["transpose"] == 1 and "NCDHW" not in text, text
    assert kinds(text)["convolution3d"] + kinds(text)["fused_convolution3d"] == 3 and "patches" not in plan, plan


def test_channels_last_conversion_transposes_signals_once_and_fuses_biases():
    text, plan = compiled_text(signals)
    assert kinds(text)["transpose"] <= 2 and "NCHW" not in text, text
    assert kinds(text)["fused_convolution2d"] == 3, text


def test_fetched_intermediate_tensor_keeps_its_layout():
    text, _ = compiled_text(residual, results=lambda y: [y, y.operation.inputs[0]])
    assert kinds(text)["transpose"] == 3, text


def test_channels_first_program_with_narrow_pooling_only_is_unchanged():
    text, _ = compiled_text(lambda g, x: g.softmax(g.max_pooling2d(x, (2, 2), **FIRST), axis=1))
    assert kinds(text)["transpose"] == 0 and "NCHW" in text


def test_max_pooling_over_many_channels_is_converted_to_channels_last():
    """Max pooling is vectorized over channels, so it is worth converting even without a convolution."""

    def network(g, x):
        wide = g.concat([x, x * 2, x - 1, x], 1)
        pooled = g.max_pooling2d(g.max_pooling2d(wide, (2, 2), **FIRST), (3, 3), strides=1, **FIRST)
        return g.mean(g.square(pooled), [2, 3])

    text, _ = compiled_text(network)
    assert "NCHW" not in text and kinds(text)["transpose"] == 1, text  # the reshape of the means
    found, expected = [], []
    for options, results in ((None, found), (PLAIN, expected)):
        g = mg.Graph()
        x = g.placeholder(IMAGES.shape)
        y = network(g, x)
        (slope,) = g.gradients(y, [x]).values()
        results += [np.array(r) for r in g.compile({x: IMAGES.shape}, [y, slope], options=options).run([IMAGES])]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_single_depthwise_convolution_stays_channels_first(layout):
    """A single depthwise convolution stays channels first. Explicit transposes around a second one, here in a loop,
    must not change which axis holds the channels.
    """
    g = mg.Graph()
    x, count = g.placeholder((2, 6, 6, 6)), g.placeholder((), mg.int32)
    kernel = weights(g, 3, 3, 1, 6, constant=True)
    how = {"groups": 6, "padding": "TF_SAME"}

    def body(_, state):
        last = g.convolution2d(g.transpose(state, [0, 2, 3, 1]), kernel, data_layout=layout, **how)
        return [g.transpose(last, [0, 3, 1, 2])]

    targets = [g.convolution2d(x, kernel, **how, **FIRST), *g.for_(count, initial=[x], body=body)]
    images = np.random.default_rng(0).standard_normal(x.shape).astype(np.float32)
    fast, plain = (g.compile({x: x.shape, count: ()}, targets, options=options) for options in (None, PLAIN))
    feeds = {x: images, count: np.int32(2)}
    results = [[y.numpy() for y in made.run([feeds[f] for f in made.feeds])] for made in (fast, plain)]
    assert "rows of planes" in fast.plan()
    for ours, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)


def test_branches_and_loops_are_converted_to_channels_last_independently():
    """One branch must not use tensors transposed in the other; outer tensors are transposed once for both."""
    g = mg.Graph()
    x, flag, count = g.placeholder(IMAGES.shape), g.placeholder((), mg.bool_), g.placeholder((), mg.int32)
    w, seen = weights(g, 3, 3, 4, 4, constant=True), {}

    def convolved(t):
        return g.relu(g.convolution2d(t, w, padding="TF_SAME", **FIRST) + weights(g, 4, 1, 1, constant=True))

    h = convolved(x)
    y = convolved(g.if_(flag, lambda: convolved(h) + convolved(x * 2), lambda: convolved(g.negative(x)) - h)[0])
    y = g.for_(count, initial=[y], body=lambda _, state: [convolved(convolved(state)) * 0.25])[0]
    for choice in (True, False):
        feeds = {x: IMAGES, flag: np.array(choice), count: np.int32(2)}
        observed = mg.CompilationDescriptor(observe=seen.__setitem__)
        made = [g.compile(feeds, [y], options=options) for options in (observed, PLAIN)]
        results = [np.array(e.run([feeds[feed] for feed in e.feeds])[0]) for e in made]
        np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)
    text = seen["schedule"]
    assert "NCHW" not in text and kinds(text)["fused_convolution2d"] == 7, text


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_channels_last_half_precision_training_matches_reference(dtype):
    def network(g, x):
        w = g.cast(weights(g, 3, 3, 4, 8), dtype)
        return g.cast(g.relu(g.convolution2d(x, w, padding="TF_SAME", **FIRST)), "float32")

    for x, y in zip(trained(network, PLAIN, dtype), trained(network, None, dtype), strict=True):
        np.testing.assert_allclose(y, x, atol=0.02 * max(1, np.abs(x).max()))


@pytest.mark.parametrize("scales", [(), (8,), (8, 1, 1, 1), (8, 2, 1, 1)], ids=str)
def test_channels_last_quantized_weights_match_reference(scales):
    """Scales may apply to the whole tensor, to a channel, or to a group of weights, in the original layout of the
    weights.
    """
    integers = (np.arange(288) % 17 - 8).reshape(8, 4, 3, 3).astype(np.int8)
    steps = np.linspace(0.1, 1, int(np.prod(scales)), dtype=np.float32).reshape(scales)
    groups = [size // n for size, n in zip(integers.shape, scales, strict=True)] if len(scales) == 4 else None
    factors = steps.reshape(*scales, *[1] * (4 - len(scales)))
    if groups:
        for axis, size in enumerate(groups):
            factors = factors.repeat(size, axis)
    g = mg.Graph()
    x = g.placeholder(IMAGES.shape)
    w = g.dequantize(g.constant(integers), g.constant(steps), **({"axis": 0} if len(scales) == 1 else {}))
    y = g.convolution2d(x, w, padding="TF_SAME", **ONNX)
    expected = g.convolution2d(x, g.constant(integers * factors), padding="TF_SAME", **ONNX)
    found, exact = (np.array(t) for t in g.compile({x: IMAGES.shape}, [y, expected]).run([IMAGES]))
    np.testing.assert_allclose(found, exact, atol=1e-5 * np.abs(exact).max())


def test_integer_kernels_apply_after_channels_last_conversion():
    """Constant quantized weights must be transposed together with their scales, so that integer kernels still apply."""

    def network(g, x):
        h = g.convolution2d(x, weights(g, 8, 4, 3, 3, constant=True), padding="TF_SAME", **ONNX)
        h = g.relu(h + weights(g, 8, 1, 1, constant=True))
        return g.convolution2d(h, weights(g, 8, 8, 1, 1, constant=True), **ONNX) + weights(g, 1, 8, 1, 1, constant=True)

    g = mg.Graph()
    x = g.placeholder((-1, *IMAGES.shape[1:]), name="x")
    model = mg.Model(g, {"x": x}, {"y": network(g, x)})
    exact, quantized = model(IMAGES).numpy(), model.quantize(IMAGES)
    found = quantized(IMAGES).numpy()
    assert 0 < np.abs(found - exact).max() < 0.05 * np.abs(exact).max()
    plan = quantized.graph.compile({quantized.inputs["x"]: IMAGES}, [quantized.outputs["y"]]).plan()
    if has_integer_kernels():
        assert plan.count("integers, one matmul per tap") == 2, plan
