"""Test quantization: PyTorch's results, straight-through gradients, integer kernels, calibration, and errors."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest


def gradient_of(function, *arrays: np.ndarray) -> list[np.ndarray]:
    g = mg.Graph()
    tensors = [g.placeholder(a.shape, a.dtype) for a in arrays]
    gradients = g.gradients(function(g, *tensors), tensors)
    found = g.run(dict(zip(tensors, arrays, strict=True)), list(gradients.values()))
    return [found[gradients[t]].numpy() for t in tensors]


# x, and the results of fake_quantize_per_tensor_affine(x, 0.1, 10, -128, 127) and its gradient in torch 2.13.
X = np.array([-30.0, -13.84, -0.15, -0.05, 0.0, 0.04, 0.26, 11.74, 20.0], np.float32)
FAKE = [-13.8, -13.8, -0.2, 0.0, 0.0, 0.0, 0.3, 11.7, 11.7]
PASSES = [0, 1, 1, 1, 1, 1, 1, 1, 0]


def test_fake_quantize_matches_pytorch():
    g = mg.Graph()
    x = g.placeholder(X.shape)
    y = g.fake_quantize(x, 0.1, 10.0)
    d = g.gradients(y, [x])[x]
    found = g.run({x: X}, [y, d])
    np.testing.assert_allclose(found[y].numpy(), FAKE, atol=1e-6)
    np.testing.assert_array_equal(found[d].numpy(), PASSES)


def test_fake_quantize_equals_quantize_and_dequantize():
    g = mg.Graph()
    x = np.random.default_rng(0).normal(0, 5, (7, 3)).astype(np.float32)
    t, scale = g.placeholder(x.shape), np.array([0.05, 0.1, 0.2], np.float32)
    steps = g.constant(scale)
    fake = g.fake_quantize(t, steps, axis=1)
    real = g.dequantize(g.quantize(t, steps, axis=1), steps, axis=1)
    found = g.run({t: x}, [fake, real])
    np.testing.assert_array_equal(found[fake].numpy(), found[real].numpy())


def test_fake_quantize_gradients_of_scale_and_zero_point_are_correct():
    """LSQ: the gradient of the scale is the rounding error, or the range limit for clamped elements."""
    x, scale, zero = np.array([0.26, -0.9, 100.0, -100.0]), np.array(0.5), np.array(0.0)
    dx, ds, dz = gradient_of(lambda g, x, s, z: g.fake_quantize(x, s, z), x, scale, zero)
    np.testing.assert_array_equal(dx, [1, 1, 0, 0])
    np.testing.assert_allclose(ds, (1 - 0.52) + (-2 + 1.8) + 127 - 128)
    np.testing.assert_allclose(dz, -0.5 * 2)  # from the clamped elements


def test_training_through_fake_quantized_weight_lowers_the_loss():
    g = mg.Graph()
    x = g.placeholder((-1, 4))
    w = g.variable(np.full((4, 1), 0.9, np.float32))
    loss = g.reduction_sum(g.square(x @ g.fake_quantize(w, 0.25) - x @ g.constant([[1.0], [-0.5], [0.25], [2.0]])))
    step = g.apply_stochastic_gradient_descent(0.01, w, g.gradients(loss, [w])[w])
    numbers = np.random.default_rng(1).normal(size=(64, 4)).astype(np.float32)
    for _ in range(50):
        g.run({x: numbers}, [], [step])
    assert g.run({x: numbers}, loss).item() < 1e-6, "the target weights are multiples of the scale"


def test_invalid_quantization_arguments_raise():
    g = mg.Graph()
    x, n = g.placeholder((4, 6)), g.placeholder((4, 6), mg.int8)
    with pytest.raises(mg.ShapeError, match=r"one element per index \(4\)"):
        g.quantize(x, g.constant([0.1, 0.2]), axis=0)
    with pytest.raises(mg.ShapeError, match="with groups must have the rank"):
        g.dequantize(n, g.constant(0.1, (4, 4)))
    with pytest.raises(mg.ShapeError, match="axis 2"):
        g.dequantize(n, g.constant(0.1, (4,)), axis=2)
    with pytest.raises(mg.DTypeError, match="must be an integer dtype"):
        g.quantize(x, 0.1, dtype=mg.float16)
    with pytest.raises(mg.DTypeError, match="zero_point must have the result's dtype"):
        g.quantize(x, 0.1, g.constant(np.array(3, np.int16)))
    with pytest.raises(mg.DTypeError, match="300"):
        g.quantize(x, 0.1, 300)
    with pytest.raises(mg.DTypeError, match="floating-point"):
        g.quantize(n, g.constant(np.array(1, np.int8)))
    with pytest.raises(mg.DTypeError, match="must be an integer dtype"):
        g.dequantize(x, 0.1)
    with pytest.raises(mg.ShapeError, match="sizes that divide"):
        g.dequantize_lookup_table(n, g.placeholder((3, 6, 16)))
    with pytest.raises(mg.ShapeError, match="rank 2"):
        g.dequantize_lookup_table(n, g.placeholder((16,)), axis=0)
    with pytest.raises(mg.GraphError, match="dtype must be an integer dtype"):
        g.fake_quantize(x, 0.1, dtype=mg.float32)
    with pytest.raises(mg.ShapeError, match="must have the same shape"):
        g.straight_through(x, g.placeholder((4, 5)))


# --- integer kernels created by pass `quantize` -----------------------------------------------------------------------
def bytes_like(shape: tuple[int, ...], dtype: mg.DType, seed: int) -> np.ndarray:
    low, high = (0, 256) if dtype == mg.uint8 else (-128, 128)
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype.numpy)


def both_ways(g: mg.Graph, feeds: dict[mg.Tensor, np.ndarray], y: mg.Tensor) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the results with integer kernels and with float32, and the plan with integer kernels."""
    types = {tensor: array.shape for tensor, array in feeds.items()}
    whole = g.compile(types, [y])
    floats = g.compile(types, [y], options=mg.CompilationDescriptor(disabled_passes=["quantize"]))
    assert "integers" not in floats.plan()
    got, expected = (e.run([feeds[t] for t in types])[0].numpy() for e in (whole, floats))
    return got, expected, whole.plan()


def require_equal_up_to_ties(got: np.ndarray, expected: np.ndarray) -> None:
    """Assert equality up to one step in rare cases.

    Integer kernels scale sums in one operation instead of several, which may round differently close to half a step.
    """
    assert got.dtype == expected.dtype
    if got.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
        return
    assert len(np.unique(expected)) > 50, "the test needs results that spread over the range"
    differences = np.abs(got.astype(int) - expected.astype(int))
    assert differences.max() <= 1 and (differences > 0).mean() < 0.002


PLACES = [  # image size, channels, outputs, kernel, stride
    (7, 8, 32, 3, 1),
    (5, 4, 10, 1, 1),  # fewer columns than a tile
    (2, 64, 48, 3, 1),  # some pixels do not see all taps
    (1, 32, 70, 3, 1),  # no pixel sees some of the taps
    (9, 12, 33, 5, 2),
    (8, 128, 64, 1, 1),  # contiguous rows
    (4, 36, 40, 1, 1),  # contiguous rows that do not fill a cache line
]


@pytest.mark.parametrize("source", [mg.uint8, mg.int8], ids=str)
@pytest.mark.parametrize("result", [mg.uint8, mg.int8, mg.float32], ids=str)
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_integer_convolution_matches_float32(place: tuple[int, ...], source: mg.DType, result: mg.DType):
    size, channels, outputs, kernel, stride = place
    g = mg.Graph()
    x = g.placeholder((3, size, size, channels), source, name="x")
    w = g.constant(bytes_like((kernel, kernel, channels, outputs), mg.int8, 1))
    scales = np.random.default_rng(2).uniform(0.5, 1.5, outputs).astype(np.float32) / (127 * channels**0.5 * kernel)
    zero = 7 if source == mg.int8 else 131
    y = g.convolution2d(g.dequantize(x, 0.02, zero), g.dequantize(w, g.constant(scales), axis=3), strides=stride,
                        padding="TF_SAME")  # fmt: skip
    y = y + g.constant(np.linspace(-0.5, 0.5, outputs, dtype=np.float32))
    if result != mg.float32:
        y = g.quantize(y, 0.017, -5 if result == mg.int8 else 120, dtype=result)
    got, expected, plan = both_ways(g, {x: bytes_like((3, size, size, channels), source, 3)}, y)
    require_equal_up_to_ties(got, expected)
    if "integers" not in plan:
        pytest.skip("this processor has no int8 dot product")


@pytest.mark.parametrize("kinds", [(mg.uint8, mg.uint8), (mg.int8, mg.int8), (mg.uint8, mg.int8)], ids=str)
@pytest.mark.parametrize("relu", [False, True])
def test_residual_is_fused_into_integer_convolution(kinds: tuple[mg.DType, mg.DType], relu: bool):
    source, other = kinds
    g = mg.Graph()
    x, r = g.placeholder((2, 4, 4, 16), source, name="x"), g.placeholder((2, 4, 4, 24), other, name="r")
    w = g.dequantize(g.constant(bytes_like((1, 1, 16, 24), mg.int8, 1)), 0.004)
    y = g.convolution2d(g.dequantize(x, 0.02, 3), w) + g.constant(0.1)
    y = g.dequantize(r, 0.03, 11) + y
    y = g.quantize(g.relu(y) if relu else y, 0.031, 0 if relu else 100, dtype=mg.uint8)
    feeds = {x: bytes_like((2, 4, 4, 16), source, 4), r: bytes_like((2, 4, 4, 24), other, 5)}
    got, expected, plan = both_ways(g, feeds, y)
    require_equal_up_to_ties(got, expected)
    assert "integers" not in plan or plan.startswith("1 kernels"), "everything must be fused into one kernel"


@pytest.mark.parametrize("shape", [(5, 64), (2, 3, 64), (1, 64)])
def test_integer_matmul_matches_float32(shape: tuple[int, ...]):
    g = mg.Graph()
    x = g.placeholder(shape, mg.int8, name="x")
    w = g.dequantize(g.constant(bytes_like((64, 130), mg.int8, 1)), g.constant(np.full(130, 0.002, np.float32)), axis=1)
    y = g.quantize(g.relu(g.dequantize(x, 0.05, -3) @ w + g.constant(0.5, (130,))), 0.03, dtype=mg.uint8)
    got, expected, plan = both_ways(g, {x: bytes_like(shape, mg.int8, 2)}, y)
    require_equal_up_to_ties(got, expected)
    assert got.shape == (*shape[:-1], 130)


def test_largest_integer_sums_are_exact():
    g = mg.Graph()
    x = g.placeholder((1, 4096), mg.int8, name="x")
    w = g.dequantize(g.constant(np.full((4096, 4), -127, np.int8)), 1.0)
    got, expected, plan = both_ways(g, {x: np.full((1, 4096), -128, np.int8)}, g.dequantize(x, 1.0, 127) @ w)
    if "integers" not in plan:
        pytest.skip("without int8 dot products, this processor computes in float32")
    np.testing.assert_array_equal(got, np.full((1, 4), 255 * 127 * 4096, np.float32))
    np.testing.assert_allclose(expected, got, rtol=1e-4, err_msg="the float32 result must be close to the exact sum")


def test_patterns_without_integer_kernel_run_in_float32():
    g = mg.Graph()
    x = g.placeholder((1, 4, 4, 8), mg.uint8, name="x")
    bytes_of = lambda *shape: g.constant(bytes_like(shape, mg.int8, 1))  # noqa: E731
    floats = g.dequantize(x, 0.1)
    cases = [
        g.convolution2d(floats, g.dequantize(bytes_of(1, 1, 4, 8), 0.1), groups=2),
        g.convolution2d(
            g.dequantize(g.slice(x, (0, 0, 0, 0), (1, 4, 4, 3)), 0.1), g.dequantize(bytes_of(1, 1, 3, 8), 0.1)
        ),
        g.convolution2d(floats, g.dequantize(bytes_of(1, 1, 8, 8), g.constant(0.1, (8,)), axis=2)),
        g.convolution2d(floats, g.dequantize(bytes_of(1, 1, 8, 8), 0.1, 3)),
        g.convolution2d(g.dequantize(x, g.constant(0.1, (8,)), axis=3), g.dequantize(bytes_of(1, 1, 8, 8), 0.1)),
    ]
    for y in cases:
        got, expected, plan = both_ways(g, {x: bytes_like((1, 4, 4, 8), mg.uint8, 6)}, y)
        assert "integers" not in plan
        np.testing.assert_array_equal(got, expected)


# --- models
def small_network() -> tuple[mg.Trainer, np.ndarray, np.ndarray, np.ndarray]:
    """Train a network that finds the brightest stripe of an image; return the trainer, test images and labels,
    and calibration images.
    """
    rng = np.random.default_rng(0)

    def images(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(0, 4, count).astype(np.int32)
        x = rng.normal(0, 0.7, (count, 8, 8, 4)).astype(np.float32)
        for i, label in enumerate(labels):
            x[i, 2 * label : 2 * label + 2] += 0.6
        return x, labels

    model = mg.nn.Sequential(
        mg.nn.Conv2d(16, 3, padding="TF_SAME"), mg.nn.BatchNorm(momentum=0.8), mg.nn.ReLU(), mg.nn.MaxPool2d(2),
        mg.nn.Conv2d(16, 3, padding="TF_SAME"), mg.nn.BatchNorm(momentum=0.8), mg.nn.ReLU(), mg.nn.Flatten(),
        mg.nn.Linear(4),
    )  # fmt: skip
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(3e-3))
    trainer.fit(images(1024), epochs=4, progress=False)
    x, labels = images(1000)
    return trainer, x, labels, images(128)[0]


def test_quantized_network_keeps_accuracy():
    trainer, x, labels, calibration = small_network()
    expected = trainer.predict(x)
    accuracy = (expected.argmax(1) == labels).mean()
    assert accuracy > 0.85
    for options in ({}, {"scheme": "asymmetric"}, {"range": "percentile", "percentile": 99.9}, {"per_channel": False}):
        model = trainer.quantize([calibration[:64], calibration[64:]], **options)
        kinds = [operation.kind for operation in model.graph.operations]
        assert kinds.count("quantize") == 3 and kinds.count("dequantize") == 6 and "normalization" not in kinds
        got = model(x).numpy()
        assert accuracy - (got.argmax(1) == labels).mean() < 0.005, options
        assert np.abs(got - expected).max() < 0.1 * np.abs(expected).max(), options


@pytest.fixture(scope="module")
def digits() -> tuple[mg.Trainer, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return a trained digit classifier, calibration images, and held-out images and labels.

    Some activations are negative, so that the two schemes give different integers.
    """
    train, test = mg.data.digits(14)
    convolution = lambda channels: (  # noqa: E731
        mg.nn.Conv2d(channels, 3, padding="TF_SAME"), mg.nn.BatchNorm(momentum=0.8), mg.nn.LeakyReLU(0.1),
        mg.nn.MaxPool2d(2),
    )  # fmt: skip
    dense = mg.nn.Flatten(), mg.nn.Linear(64), mg.nn.LeakyReLU(0.1), mg.nn.Linear(10)
    model = mg.nn.Sequential(*convolution(16), *convolution(32), *dense)
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(3e-3), seed=0)
    trainer.fit(mg.data.batches(train, 64, shuffle=True, seed=0, drop_last=True), epochs=6, progress=False)
    return trainer, train[0][:512], test


@pytest.mark.parametrize("scheme", ["symmetric", "asymmetric"])
def test_quantized_digit_classifier_keeps_accuracy(digits, scheme: str):
    """The allowed loss of half a percentage point on 359 held-out digits is one more error."""
    trainer, calibration, (x, labels) = digits
    expected = trainer.predict(x)
    before = (expected.argmax(1) == labels).mean()
    assert before > 0.95
    model = trainer.quantize([calibration[:256], calibration[256:]], scheme=scheme, per_channel=True)
    got = model(x).numpy()
    after = (got.argmax(1) == labels).mean()
    assert before - after < 0.005, (before, after)
    assert np.abs(got - expected).max() < 0.04 * np.abs(expected).max(), (
        "accuracy alone would not reveal 4-bit precision"
    )
    made = model.graph.operations
    wanted = mg.int8 if scheme == "symmetric" else mg.uint8
    assert [o.outputs[0].dtype for o in made if o.kind == "quantize"] == [wanted] * 3
    weights = [o for o in made if o.kind == "dequantize" and o.inputs[0].operation.kind == "constant"]
    assert [o.inputs[1].shape for o in weights] == [(32,), (64,), (10,)], "each output channel must have its own scale"
    passes = []
    options = mg.CompilationDescriptor(observe=lambda name, _: passes.append(name))
    types = {model.inputs["inputs"]: x.shape}
    plan = model.graph.compile(types, [model.outputs["outputs"]], options=options).plan()
    if "quantize" not in passes:
        pytest.skip("this processor has no int8 dot product")
    assert plan.count(": 8-bit integers, one matmul per tap") == 3, "the second convolution and both dense layers"


def test_residual_network_uses_integer_kernels():
    g = mg.Graph()
    x = g.placeholder((-1, 6, 6, 8), name="x")
    rng = np.random.default_rng(0)
    weights = lambda *shape: g.variable(rng.normal(0, 0.2, shape).astype(np.float32))  # noqa: E731
    convolve = lambda t, i, o: g.convolution2d(t, weights(3, 3, i, o), padding="TF_SAME") + weights(o)  # noqa: E731
    h = g.relu(convolve(x, 8, 16))
    h = g.relu(convolve(g.relu(convolve(h, 16, 16)), 16, 16) + convolve(x, 8, 16))
    h = g.relu(convolve(g.relu(convolve(h, 16, 16)), 16, 16) + h)
    model = mg.Model(g, {"x": x}, {"y": g.mean(h, (1, 2))})
    images = rng.normal(size=(8, 6, 6, 8)).astype(np.float32)
    expected = model(images).numpy()
    quantized = model.quantize(images)
    assert np.abs(quantized(images).numpy() - expected).max() < 0.05 * np.abs(expected).max()
    plan = quantized.graph.compile({quantized.inputs["x"]: images.shape}, [quantized.outputs["y"]]).plan()
    if "integers" not in plan:
        pytest.skip("this processor has no int8 dot product")
    kernels = [line for line in plan.splitlines() if line.startswith("  ") and "slot" not in line]
    assert sum("integers" in line for line in kernels) == 6
    assert len(kernels) == 10, plan  # quantizing the input, the last float sum, and two for the mean


def test_quantized_model_can_be_saved_loaded_and_exported(tmp_path):
    trainer, x, _, calibration = small_network()
    model = trainer.quantize(calibration)
    model.save(tmp_path / "small.mpsgraph")
    loaded = mg.load(tmp_path / "small.mpsgraph")
    np.testing.assert_array_equal(loaded(x).numpy(), model(x).numpy())
    assert "int8[3,3,16,16]" in str(loaded.graph)


def test_invalid_calibration_arguments_raise():
    g = mg.Graph()
    x = g.placeholder((-1, 8), name="x")
    model = mg.Model(g, {"x": x}, {"y": x @ g.variable(np.ones((8, 3), np.float32))})
    data = np.ones((2, 8), np.float32)
    with pytest.raises(mg.GraphError, match="'symmetric' or 'asymmetric'"):
        model.quantize(data, scheme="sideways")
    with pytest.raises(mg.GraphError, match="'minmax' or 'percentile'"):
        model.quantize(data, range="all")
    with pytest.raises(mg.GraphError, match="calibration must contain at least one batch"):
        model.quantize([])
    with pytest.raises(mg.GraphError, match="must lead to finite values"):
        model.quantize(data * np.inf)
    for kind in ("minmax", "percentile"):
        with pytest.raises(mg.GraphError, match="batches of calibration data must not be empty"):
            model.quantize(data[:0], range=kind)
    with pytest.raises(mg.GraphError, match="calibration must be an iterable, got 5"):
        model.quantize(5)
    with pytest.raises(mg.GraphError, match="nothing to quantize"):
        mg.Model(g, {"x": x}, {"y": g.relu(x)}).quantize(data)


def test_mixed_precision_model_supports_weight_quantization():
    """bfloat16 matmuls have no integer kernels. The error suggests quantizing only the weights, which must work."""
    data = np.random.default_rng(0).standard_normal((64, 8), np.float32)
    trainer = mg.Trainer(mg.nn.Linear(4), precision="bfloat16")
    trainer.predict(data)
    with pytest.raises(
        mg.GraphError, match="nothing to quantize.* load its weights into a trainer with precision='flo"
    ):
        trainer.quantize(data)
    plain = mg.Trainer(mg.nn.Linear(4), precision="float32")
    expected = plain.predict(data)
    plain.model.load_state_dict(trainer.model.state_dict())
    quantized = plain.quantize(data)(data).numpy()
    assert abs(quantized - plain.predict(data)).max() < 0.02 * abs(expected).max()
