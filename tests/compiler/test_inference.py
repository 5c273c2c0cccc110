"""Test optimize_for_inference: which operations are folded or removed, and that results do not change."""

from __future__ import annotations

import textwrap
from collections import Counter

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import has

pytestmark = pytest.mark.both_devices


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def kinds(model: mg.Model) -> Counter:
    return Counter(operation.kind for operation in model.graph.operations)


def steps(model: mg.Model) -> list[str]:
    return [o.kind for o in model.graph.operations if o.kind not in ("constant", "placeholder")]


def same_results(model: mg.Model, optimized: mg.Model, x: np.ndarray, tolerance: float = 2e-5) -> None:
    expected, got = model(x).numpy(), optimized(x).numpy()
    assert np.abs(expected).max() > 0.1, "results must not be trivially small"
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


# --- batch normalization in every spelling ----------------------------------------------------------------------------
CHANNELS = 6


def statistics(g: mg.Graph, shape: tuple[int, ...] = (CHANNELS,)):
    rng = np.random.default_rng(1)
    draw = lambda low, high: g.variable(rng.uniform(low, high, shape).astype(np.float32))  # noqa: E731
    return draw(-1, 1), draw(0.5, 2), draw(0.5, 2), draw(-1, 1)


def as_float64(source: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute a TF_SAME convolution with 3x3 weights, normalization by the statistics above, and ReLU, in float64."""
    rng = np.random.default_rng(1)
    mean, variance, gamma, beta = (rng.uniform(*ends, CHANNELS) for ends in ((-1, 1), (0.5, 2), (0.5, 2), (-1, 1)))
    padded = np.pad(source.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = source.shape[1:3]
    y = sum(padded[:, i : i + height, j : j + width] @ weights[i, j] for i in range(3) for j in range(3))
    return np.maximum(gamma * (y - mean) / np.sqrt(variance + 1e-3) + beta, 0)


def as_normalization(g: mg.Graph, y: mg.Tensor, shape: tuple[int, ...] = (CHANNELS,)) -> mg.Tensor:
    return g.normalization(y, *statistics(g, shape), 1e-3)


def in_basic_operations(g: mg.Graph, y: mg.Tensor) -> mg.Tensor:
    mean, variance, gamma, beta = statistics(g)
    return gamma * ((y - mean) / g.square_root(variance + 1e-3)) + beta


def by_the_inverse_deviation(g: mg.Graph, y: mg.Tensor) -> mg.Tensor:
    mean, variance, gamma, beta = statistics(g)
    inverse = g.reverse_square_root(g.reshape(variance, (1, 1, 1, CHANNELS)) + 1e-3)
    return -(mean - y) * inverse * g.reshape(gamma, (1, 1, CHANNELS)) + beta


WAYS = [as_normalization, in_basic_operations, by_the_inverse_deviation]


@pytest.mark.parametrize("way", WAYS)
def test_batch_normalization_folds_into_convolution(way):
    g = mg.Graph()
    x = g.placeholder((-1, 7, 7, 3), name="x")
    y = g.convolution2d(x, g.variable(numbers(3, 3, 3, CHANNELS)), padding="TF_SAME") + g.variable(numbers(CHANNELS))
    model = mg.Model(g, {"x": x}, {"y": g.relu(way(g, y))})
    optimized = model.optimize_for_inference()
    assert steps(optimized) == ["convolution2d", "addition", "relu"]
    assert not optimized.parameters and model.parameters
    same_results(model, optimized, numbers(2, 7, 7, 3, seed=5))


@pytest.mark.parametrize("dtype", [dtype for dtype in ("float16", "bfloat16") if has(dtype)])
@pytest.mark.parametrize("goes_back", [True, False])
def test_batch_normalization_under_autocast_folds_into_convolution(dtype: str, goes_back: bool):
    """The normalization is folded if its result is cast back to half precision; otherwise, it stays in float32."""
    g = mg.Graph()
    x = g.placeholder((-1, 7, 7, 3), name="x")
    w = g.variable(numbers(3, 3, 3, CHANNELS))
    y = g.convolution2d(g.cast(x, dtype), g.cast(w, dtype), padding="TF_SAME")
    y = as_normalization(g, g.cast(y, "float32"))
    y = g.relu(g.cast(y, dtype) if goes_back else y)
    model = mg.Model(g, {"x": x}, {"y": g.cast(y, "float32")})
    optimized = model.optimize_for_inference()
    if goes_back:
        assert steps(optimized) == ["cast", "convolution2d", "addition", "relu", "cast"]
    else:
        assert steps(optimized)[:3] == ["cast", "convolution2d", "cast"] and "multiplication" in steps(optimized)
    source = numbers(2, 7, 7, 3, seed=5)
    exact = as_float64(source, numbers(3, 3, 3, CHANNELS))
    for made in (model, optimized):
        error = np.abs(made(source).numpy() - exact).max() / np.abs(exact).max()
        assert error < {"float16": 2e-3, "bfloat16": 0.02}[dtype]


def linear(kind: str):
    """Return the shape of x, the operation, and the shape of gamma, for one kind of linear operation."""

    def convolution_nchw(g, x):
        return g.convolution2d(x, g.variable(numbers(CHANNELS, 3, 3, 3)), data_layout="NCHW", weights_layout="OIHW")

    def grouped(g, x):
        return g.convolution2d(x, g.variable(numbers(3, 3, 2, CHANNELS)), groups=2)

    def depthwise(g, x):
        return g.depthwise_convolution2d(x, g.variable(numbers(3, 3, 3, 2)))

    def depthwise_oihw(g, x):
        return g.depthwise_convolution2d(x, g.variable(numbers(2, 3, 3, 3)), weights_layout="OIHW")

    def volume(g, x):
        return g.convolution3d(x, g.variable(numbers(2, 2, 2, 3, CHANNELS)))

    def transposed(g, x):
        return g.convolution_transpose2d(x, g.variable(numbers(3, 3, CHANNELS, 3)), (2, 13, 13, CHANNELS), strides=2)

    def product(g, x):
        return x @ g.variable(numbers(4, CHANNELS))

    def transposed_product(g, x):
        return x @ g.transpose(g.variable(numbers(CHANNELS, 4)), (1, 0))

    return {
        "NCHW": ((2, 3, 6, 6), convolution_nchw, (CHANNELS, 1, 1)),
        "grouped": ((2, 6, 6, 4), grouped, (CHANNELS,)),
        "depthwise": ((2, 6, 6, 3), depthwise, (CHANNELS,)),
        "depthwise OIHW": ((2, 6, 6, 3), depthwise_oihw, (CHANNELS,)),
        "three axes": ((2, 4, 4, 4, 3), volume, (CHANNELS,)),
        "transposed": ((2, 6, 6, 3), transposed, (CHANNELS,)),
        "product": ((5, 4), product, (CHANNELS,)),
        "product with a transpose": ((5, 4), transposed_product, (CHANNELS,)),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "NCHW",
        "grouped",
        "depthwise",
        "depthwise OIHW",
        "three axes",
        "transposed",
        "product",
        "product with a transpose",
    ],
)
def test_batch_normalization_folds_into_linear_operation(kind: str):
    shape, make, along = linear(kind)
    g = mg.Graph()
    x = g.placeholder(shape, name="x")
    model = mg.Model(g, {"x": x}, {"y": as_normalization(g, make(g, x), along)})
    optimized = model.optimize_for_inference()
    assert steps(optimized)[1:] == ["addition"], kinds(optimized)
    same_results(model, optimized, numbers(*shape, seed=3))


@pytest.mark.parametrize("dtype", [dtype for dtype in ("float64", "float16", "bfloat16") if has(dtype)])
def test_constant_scale_folds_into_matmul_in_every_dtype(dtype: str):
    g = mg.Graph()
    x = g.placeholder((4, 3), dtype, name="x")
    w, gamma = g.variable(numbers(3, CHANNELS), dtype), g.variable(numbers(CHANNELS, seed=2), dtype)
    model = mg.Model(g, {"x": x}, {"y": g.cast(x @ w * gamma, "float32")})
    optimized = model.optimize_for_inference()
    assert steps(optimized) == ["matrix_multiplication", "cast"]
    given = g.run({}, g.cast(g.constant(numbers(4, 3, seed=4)), dtype))
    expected = numbers(4, 3, seed=4) @ numbers(3, CHANNELS) * numbers(CHANNELS, seed=2)
    tolerance = {"float64": 1e-6, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    np.testing.assert_allclose(optimized(given).numpy(), expected, rtol=0, atol=tolerance * np.abs(expected).max())


def unfolded(make) -> tuple[mg.Model, mg.Model]:
    g = mg.Graph()
    x = g.placeholder((2, 5, 5, 3), name="x")
    y = g.convolution2d(x, g.variable(numbers(3, 3, 3, CHANNELS)))
    model = mg.Model(g, {"x": x}, make(g, y))
    return model, model.optimize_for_inference()


def test_unfoldable_scales_are_kept():
    scale = numbers(CHANNELS, seed=1)
    along_rows = unfolded(lambda g, y: {"y": y * g.constant(numbers(3, 1, seed=1))})
    used_twice = unfolded(lambda g, y: {"y": y * g.constant(scale) + g.relu(y)})
    a_result_itself = unfolded(lambda g, y: {"y": y * g.constant(scale), "before": y})
    divided = unfolded(lambda g, y: {"y": g.constant(scale) / (y * y + 1.0)})
    for model, optimized in (along_rows, used_twice, a_result_itself, divided):
        assert kinds(optimized)["multiplication"] + kinds(optimized)["square"] >= 1
        x = numbers(2, 5, 5, 3, seed=5)
        for name, value in model.run({"x": x}).items():
            np.testing.assert_allclose(optimized.run({"x": x})[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-5)


def test_infinite_scales_are_not_folded_into_weights():
    """0 · inf is NaN, whereas (0 + finite) · inf is inf, so folding the scale would introduce a NaN."""
    model, optimized = unfolded(lambda g, y: {"y": y / g.constant(np.float32([0, 1, 1, 1, 1, 1]))})
    assert kinds(optimized)["division"] == 1
    x = numbers(2, 5, 5, 3, seed=5)
    np.testing.assert_array_equal(optimized(x).numpy(), model(x).numpy())


# --- what becomes constant --------------------------------------------------------------------------------------------
def network() -> mg.nn.Sequential:
    return mg.nn.Sequential(
        mg.nn.Conv2d(8, 3), mg.nn.BatchNorm(), mg.nn.ReLU(), mg.nn.MaxPool2d(2), mg.nn.Flatten(), mg.nn.Dropout(0.5),
        mg.nn.Linear(16), mg.nn.BatchNorm(), mg.nn.ReLU(), mg.nn.Linear(3),
    )  # fmt: skip


def trained() -> tuple[mg.Trainer, np.ndarray]:
    trainer = mg.Trainer(network(), optimizer=mg.optim.SGD(0.1))
    x, labels = numbers(32, 8, 8, 1), np.random.default_rng(0).integers(0, 3, 32).astype(np.int32)
    for _ in range(5):
        trainer.train_step(x, labels)
    return trainer, x


def test_optimized_trained_model_has_no_training_operations():
    trainer, x = trained()
    expected = trainer.predict(x)
    model = trainer.optimize_for_inference()
    assert steps(model) == [
        "convolution2d", "addition", "relu", "max_pooling2d", "flatten2d",
        "matrix_multiplication", "addition", "relu", "matrix_multiplication", "addition",
    ]  # fmt: skip
    assert not model.graph.variables
    np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    trainer.train_step(x, np.zeros(32, np.int32)).wait()
    np.testing.assert_allclose(
        model(x).numpy(), expected, rtol=1e-4, atol=1e-5, err_msg="the optimized model must be a copy"
    )


def test_inference_optimization_removes_training_branches():
    """Moving averages are assigned inside `if_` on a placeholder, as in Apple's samples."""
    g = mg.Graph()
    x, is_training = g.placeholder((-1, 8, 8, 1), name="x"), g.placeholder((), mg.bool_, name="is_training")
    y = network().train(is_training)(x)
    model = mg.Model(g, {"x": x, "is_training": is_training}, {"y": y})
    images = numbers(4, 8, 8, 1)
    for _ in range(3):
        model(images, True)
    expected = model(images, False).numpy()
    optimized = model.optimize_for_inference({"is_training": False})
    assert list(optimized.inputs) == ["x"] and not optimized.graph.variables
    assert not {"if", "assign", "random", "normalization"} & set(kinds(optimized))
    np.testing.assert_allclose(optimized(images).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_inference_optimization_removes_dropout():
    g = mg.Graph()
    x = g.placeholder((-1, 4), name="x")
    model = mg.Model(g, {"x": x}, {"y": g.dropout(x, 0.5) * 2.0})
    optimized = model.optimize_for_inference()
    assert steps(optimized) == ["multiplication"] and not optimized.graph.variables
    np.testing.assert_array_equal(optimized(np.ones((3, 4), np.float32)).numpy(), np.full((3, 4), 2.0))


def test_inference_optimization_keeps_assigned_variables():
    g = mg.Graph()
    x = g.placeholder((), name="x")
    total, step = g.variable(10.0, name="total"), g.variable(2.0, name="step")
    update = g.assign(total, total + x * step)
    y = g.control_dependency([update], lambda: g.read(total))
    model = mg.Model(g, {"x": x}, {"y": y})
    assert model(np.float32(1)).item() == 12
    optimized = model.optimize_for_inference()
    assert list(optimized.parameters) == ["total"], (
        "the assigned variable is copied with its value, and the other variable becomes a constant"
    )
    assert [optimized(np.float32(1)).item() for _ in range(2)] == [14, 16]
    assert model(np.float32(0)).item() == 12, "the original model must be independent of the copy"


def test_operations_on_large_constants_are_folded():
    g = mg.Graph()
    x = g.placeholder((-1, 300), name="x")
    w = g.square(g.transpose(g.variable(numbers(400, 300)), (1, 0)))
    optimized = mg.Model(g, {"x": x}, {"y": x @ w}).optimize_for_inference()
    assert steps(optimized) == ["matrix_multiplication"]


def test_slices_of_large_constants_are_folded():
    """Importers reorder the gates of recurrent weights this way."""
    g, w = mg.Graph(), numbers(300, 400)
    x = g.placeholder((-1, 300), name="x")
    first, second, third = g.split(g.variable(w), [100, 50, 250], axis=-1)
    model = mg.Model(g, {"x": x}, {"y": x @ g.concat([third, first, second], -1)})
    optimized = model.optimize_for_inference()
    assert steps(optimized) == ["matrix_multiplication"]
    fed = numbers(3, 300)
    found = optimized.run({"x": fed})["y"].numpy()
    np.testing.assert_allclose(found, fed @ w[:, [*range(150, 400), *range(150)]], rtol=1e-4, atol=1e-4)


def test_inference_optimization_keeps_weights_quantized():
    g = mg.Graph()
    x = g.placeholder((-1, 4), name="x")
    w = g.dequantize(g.quantize(g.variable(numbers(4, 3)), 0.05), 0.05)
    optimized = mg.Model(g, {"x": x}, {"y": x @ w}).optimize_for_inference()
    assert steps(optimized) == ["dequantize", "matrix_multiplication"]
    assert "int8[4,3]" in str(optimized.graph)


def test_inference_optimization_dequantizes_int32_biases():
    """ONNX Runtime's quantizer stores biases as int32 with a scale per channel; integer kernels then absorb them."""
    g = mg.Graph()
    x = g.placeholder((-1, 4), name="x")
    bias = g.dequantize(g.constant(np.array([3, -5, 700], np.int32)), g.constant([0.5, 0.25, 0.01]), axis=0)
    optimized = mg.Model(g, {"x": x}, {"y": x + g.reduction_sum(bias)}).optimize_for_inference()
    assert steps(optimized) == ["addition"]
    np.testing.assert_allclose(optimized(np.zeros((1, 4), np.float32)).numpy(), 7.25, rtol=1e-6)


def test_optimized_model_round_trips_through_file(tmp_path):
    trainer, x = trained()
    model = trainer.optimize_for_inference()
    model.save(tmp_path / "network.mpsgraph")
    loaded = mg.load(tmp_path / "network.mpsgraph")
    np.testing.assert_array_equal(loaded(x).numpy(), model(x).numpy())
    assert list(loaded.inputs) == ["inputs"] and list(loaded.outputs) == ["outputs"]


def test_inference_optimization_keeps_dimensions_dynamic():
    g = mg.Graph()
    x = g.placeholder((-1, -1, -1, 3), name="x")
    y = as_normalization(g, g.convolution2d(x, g.variable(numbers(3, 3, 3, CHANNELS))))
    model = mg.Model(g, {"x": x}, {"y": y})
    optimized = model.optimize_for_inference()
    assert optimized.outputs["y"].shape == (-1, -1, -1, CHANNELS)
    for shape in ((1, 5, 6, 3), (2, 9, 4, 3)):
        same_results(model, optimized, numbers(*shape))


def test_batch_normalization_of_onnx_model_folds_into_convolution():
    onnx = pytest.importorskip("onnx")
    o = onnx.helper
    arrays = {"w": numbers(4, 3, 3, 3), "scale": numbers(4, seed=1), "bias": numbers(4, seed=2),
              "mean": numbers(4, seed=3), "variance": np.float32([0.5, 1, 2, 3])}  # fmt: skip
    nodes = [
        o.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        o.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["n"]),
        o.make_node("Relu", ["n"], ["y"]),
    ]
    image = lambda name, c: o.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", c, 6, 6])  # noqa: E731
    weights = [onnx.numpy_helper.from_array(a, name) for name, a in arrays.items()]
    graph = o.make_graph(nodes, "g", [image("x", 3)], [image("y", 4)], weights)
    model = mg.onnx.load(o.make_model(graph, opset_imports=[o.make_opsetid("", 17)]))
    optimized = model.optimize_for_inference()
    assert steps(optimized) == ["convolution2d", "addition", "relu"]
    same_results(model, optimized, numbers(2, 3, 6, 6))


# --- errors -----------------------------------------------------------------------------------------------------------
def test_invalid_models_raise():
    g = mg.Graph()
    x, flag = g.placeholder((-1, 2), name="x"), g.placeholder((), mg.bool_, name="flag")
    y = g.if_(flag, lambda: x * 2.0, lambda: x)[0]
    with pytest.raises(mg.GraphError, match="placeholder 'flag', which is not an input"):
        mg.Model(g, {"x": x}, {"y": y}).optimize_for_inference()
    model = mg.Model(g, {"x": x, "flag": flag}, {"y": y})
    with pytest.raises(mg.GraphError, match="no input 'training'"):
        model.optimize_for_inference({"training": False})
    with pytest.raises(mg.ShapeError, match="'flag'"):
        model.optimize_for_inference({"flag": [True, False]})
    with pytest.raises(mg.GraphError, match="no model yet"):
        mg.Trainer(mg.nn.Linear(2)).optimize_for_inference()
    assert str(g).count("placeholder") == 2, "the model must be unchanged"


# --- packed weights ---------------------------------------------------------------------------------------------------
def big_convolution() -> tuple[mg.Model, np.ndarray]:
    g = mg.Graph()
    x, w = g.placeholder((-1, 2, 2, 256), name="x"), numbers(3, 3, 256, 512)
    y = g.relu(g.convolution2d(x, g.variable(w), padding="TF_SAME") + g.variable(numbers(512)))
    return mg.Model(g, {"x": x}, {"y": y}), w


def test_constant_weights_are_packed_once_for_all_batch_sizes():
    model, w = big_convolution()
    optimized = model.optimize_for_inference()
    x, y = optimized.inputs["x"], optimized.outputs["y"]
    in_use = lambda: mg._core.buffer_statistics()["live_bytes"]  # noqa: E731
    first = optimized.graph.compile({x: (1, 2, 2, 256)}, [y])
    if "one matmul per tap" not in first.plan():
        pytest.skip("this processor's vectors are too short for packed weights")
    assert "packed weights" in first.plan()
    before = in_use()
    second = optimized.graph.compile({x: (8, 2, 2, 256)}, [y])
    assert "packed weights" in second.plan() and in_use() - before < w.nbytes / 4
    images = numbers(8, 2, 2, 256, seed=1)
    expected = model(images).numpy()
    np.testing.assert_allclose(second.run([images])[0].numpy(), expected, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(first.run([images[:1]])[0].numpy(), expected[:1], rtol=1e-4, atol=1e-3)


def test_packed_weights_are_not_reused_for_another_model():
    """A new model may get the memory of a deleted one; it must not use the weights packed for the old one."""
    for seed in range(20):
        g = mg.Graph()
        x, w = g.placeholder((1, 64), name="x"), numbers(1, 1, 64, 128, seed=seed)
        y = g.convolution2d(g.reshape(x, (1, 1, 1, 64)), g.constant(w))
        got = g.run({x: np.ones((1, 64), np.float32)}, y).numpy()
        np.testing.assert_allclose(got.ravel(), w.sum((0, 1, 2)), rtol=1e-4, atol=1e-4)


# --- embeddings followed by matmuls -----------------------------------------------------------------------------------
CHARACTERS, EMBEDDED = 20, 12
TABLE, WEIGHTS = (CHARACTERS, EMBEDDED), (EMBEDDED, CHANNELS)


def lookups(between=lambda g, x: x, table=TABLE, weights=WEIGHTS, **options) -> mg.Model:
    """Build a model of an embedding lookup, the operations of `between`, and a matmul."""
    g = mg.Graph()
    i = g.placeholder((2, 4), "int32", name="i")
    y = between(g, g.gather(g.variable(numbers(*table)), i, **options)) @ g.variable(numbers(*weights, seed=1))
    return mg.Model(g, {"i": i}, {"y": y})


INDICES = np.int32([[3, 19, 0, 3], [7, 7, 12, 1]])

MOVING_ROWS = {
    "nothing": lambda g, x: x,
    "transpose": lambda g, x: g.transpose(x, (1, 0, 2)),
    "reshape": lambda g, x: g.reshape(x, (-1, EMBEDDED)),
    "reshape to an open width": lambda g, x: g.reshape(x, (2, 2, 2, -1)),
    "expand_dims": lambda g, x: g.expand_dims(x, 1),
    "squeeze": lambda g, x: g.squeeze(g.reshape(x, (1, 8, 1, EMBEDDED)), (0, 2)),
    "all of them": lambda g, x: g.transpose(g.reshape(g.expand_dims(x, 2), (2, 4, EMBEDDED)), (1, 0, 2)),
}


@pytest.mark.parametrize("between", MOVING_ROWS.values(), ids=MOVING_ROWS)
def test_matmul_after_embedding_becomes_a_gather(between):
    model = lookups(between)
    optimized = model.optimize_for_inference()
    assert not kinds(optimized)["matrix_multiplication"] and kinds(optimized)["gather"] == 1
    same_results(model, optimized, INDICES)


def require_text(graph: mg.Graph, golden: str) -> None:
    assert str(graph).strip() == textwrap.dedent(golden).strip()


def test_folded_embedding_matmul_has_expected_program_text():
    """Both constants are replaced by a table that contains the products: 1 · 1 + 2 · 0.5 = 2, 1 · 0 - 2 · 1 = -2, and
    so on.
    """
    g = mg.Graph()
    i = g.placeholder((-1,), "int32", name="i")
    table = g.variable(np.float32([[1, 2], [3, 4], [5, 6]]), name="t")
    w = g.variable(np.float32([[1, 0], [0.5, -1]]), name="w")
    y = g.relu(g.matrix_multiplication(g.gather(table, i, name="e"), w, name="y"), name="r")
    model = mg.Model(g, {"i": i}, {"r": y})
    require_text(
        g,
        """
        graph {
          %i = placeholder() {type=int32[-1]} : int32[-1]
          %t = variable() {value=float32[3,2] [0x3f800000,0x40000000,0x40400000,0x40800000,0x40a00000,0x40c00000]} : float32[3,2]
          %w = variable() {value=float32[2,2] [0x3f800000,0x00000000,0x3f000000,0xbf800000]} : float32[2,2]
          %read = read(%t) : float32[3,2]
          %e = gather(%read, %i) {axis=0} : float32[-1,2]
          %read_1 = read(%w) : float32[2,2]
          %y = matrix_multiplication(%e, %read_1) : float32[-1,2]
          %r = relu(%y) : float32[-1,2]
        }
        """,  # noqa: E501
    )
    require_text(
        model.optimize_for_inference().graph,
        """
        graph {
          %i = placeholder() {type=int32[-1]} : int32[-1]
          %constant = constant() {value=float32[3,2] [0x40000000,0xc0000000,0x40a00000,0xc0800000,0x41000000,0xc0c00000]} : float32[3,2]
          %gather = gather(%constant, %i) {axis=0} : float32[-1,2]
          %r = relu(%gather) : float32[-1,2]
        }
        """,  # noqa: E501
    )


def test_out_of_range_indices_return_zeros_after_folding():
    model = lookups()
    optimized, outside = model.optimize_for_inference(), np.int32([[0, CHARACTERS, -CHARACTERS - 1, 5], [1, 2, 3, 4]])
    same_results(model, optimized, outside)
    assert not optimized(outside).numpy()[0, 1].any()


STAYING = {
    "elements are moved": lambda: lookups(lambda g, x: g.transpose(x, (0, 2, 1)), weights=(4, CHANNELS)),
    "rows are cut": lambda: lookups(lambda g, x: g.reshape(x, (-1, EMBEDDED // 2)), weights=(EMBEDDED // 2, CHANNELS)),
    "columns are gathered": lambda: lookups(
        lambda g, x: g.transpose(x, (1, 2, 0)), table=(EMBEDDED, CHARACTERS), axis=1
    ),
    "a larger table": lambda: lookups(weights=(EMBEDDED, 100)),
    "something between": lambda: lookups(lambda g, x: g.tanh(x)),
}


@pytest.mark.parametrize("make", STAYING.values(), ids=STAYING)
def test_unfoldable_embedding_matmuls_are_kept(make):
    model = make()
    optimized = model.optimize_for_inference()
    assert kinds(optimized)["matrix_multiplication"] == 1
    same_results(model, optimized, INDICES)


def test_assigned_embedding_table_is_not_folded():
    g = mg.Graph()
    i, table = g.placeholder((4,), "int32", name="i"), g.variable(numbers(*TABLE))
    y = g.gather(table, i) @ g.variable(numbers(*WEIGHTS, seed=1))
    kept = g.assign(table, table * 0.5)
    model = mg.Model(g, {"i": i}, {"y": g.control_dependency([kept], lambda: g.identity(y))})
    optimized = model.optimize_for_inference()
    assert kinds(optimized)["matrix_multiplication"] == 1
    first, second = (optimized(INDICES[0]).numpy() for _ in range(2))
    np.testing.assert_allclose(second, first / 2, rtol=1e-6)


RECURRENT = {"lstm", "gru", "single_gate_rnn"}


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("layer", [mg.nn.LSTM, mg.nn.GRU, mg.nn.RNN])
def test_recurrent_input_matmuls_after_embedding_become_a_gather(layer, batch_first: bool):
    g, hidden = mg.Graph(), 3
    i = g.placeholder((2, 4), "int32", name="i")
    embedding, recurrent = mg.nn.Embedding(CHARACTERS, EMBEDDED), layer(hidden, batch_first=batch_first)
    model = mg.Model(g, {"i": i}, {"y": recurrent(embedding(i))})
    optimized = model.optimize_for_inference()
    (before,), (after,) = ([o for o in m.graph.operations if o.kind in RECURRENT] for m in (model, optimized))
    assert before.attributes["has_input_weight"] and not after.attributes["has_input_weight"]
    same_results(model, optimized, INDICES)


def test_recurrent_layer_after_embedding_has_expected_program_text():
    """The table is multiplied by the transposed input weights, and the layer keeps its recurrent weights."""
    g = mg.Graph()
    i = g.placeholder((4, 1), "int32", name="i")
    table = g.variable(np.float32([[1, 2], [3, 4], [5, 6]]), name="t")
    r = g.variable(np.float32([[1, 0], [0, 1]]), name="r")
    w = g.variable(np.float32([[1, 0.5], [0, -1]]), name="w")
    h = g.single_gate_rnn(g.gather(table, i, name="e"), r, w, name="h")[0]
    require_text(
        g,
        """
        graph {
          %i = placeholder() {type=int32[4,1]} : int32[4,1]
          %t = variable() {value=float32[3,2] [0x3f800000,0x40000000,0x40400000,0x40800000,0x40a00000,0x40c00000]} : float32[3,2]
          %r = variable() {value=float32[2,2] [0x3f800000,0x00000000,0x00000000,0x3f800000]} : float32[2,2]
          %w = variable() {value=float32[2,2] [0x3f800000,0x3f000000,0x00000000,0xbf800000]} : float32[2,2]
          %read = read(%t) : float32[3,2]
          %e = gather(%read, %i) {axis=0} : float32[4,1,2]
          %read_1 = read(%r) : float32[2,2]
          %read_2 = read(%w) : float32[2,2]
          %h = single_gate_rnn(%e, %read_1, %read_2) {has_input_weight=true} : float32[4,1,2]
        }
        """,  # noqa: E501
    )
    require_text(
        mg.Model(g, {"i": i}, {"h": h}).optimize_for_inference().graph,
        """
        graph {
          %i = placeholder() {type=int32[4,1]} : int32[4,1]
          %r = constant() {value=float32[2,2] [0x3f800000,0x00000000,0x00000000,0x3f800000]} : float32[2,2]
          %constant = constant() {value=float32[3,2] [0x40000000,0xc0000000,0x40a00000,0xc0800000,0x41000000,0xc0c00000]} : float32[3,2]
          %gather = gather(%constant, %i) {axis=0} : float32[4,1,2]
          %h = single_gate_rnn(%gather, %r) : float32[4,1,2]
        }
        """,  # noqa: E501
    )


@pytest.mark.parametrize("dtype", [dtype for dtype in ("float64", "float16", "bfloat16") if has(dtype)])
def test_embedding_matmul_folds_into_gather_in_every_dtype(dtype: str):
    g = mg.Graph()
    i = g.placeholder((4,), "int32", name="i")
    y = g.gather(g.variable(numbers(*TABLE), dtype), i) @ g.variable(numbers(*WEIGHTS, seed=1), dtype)
    model = mg.Model(g, {"i": i}, {"y": g.cast(y, "float32")})
    optimized = model.optimize_for_inference()
    assert steps(optimized) == ["gather", "cast"]
    same_results(model, optimized, INDICES[0], {"float64": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype])
