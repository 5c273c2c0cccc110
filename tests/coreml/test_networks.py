"""Compare layers of the older neural network format, written by coremltools' builder, with PyTorch and numpy.

Core ML itself runs only on Apple's systems. Each case builds a network of one or a few layers, either with exact shapes
or with the five axes of the older format, loads the file, and compares results.
"""

import numpy as np
import pytest

ct = pytest.importorskip("coremltools", reason="coremltools is not installed: make test-coreml")
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-coreml")
import mpsgraph as mg  # noqa: E402
from coremltools.models import datatypes  # noqa: E402
from coremltools.models.neural_network import NeuralNetworkBuilder, quantization_utils  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # coremltools and PyTorch warn about each other's versions.
RNG = np.random.default_rng(4)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def loaded(builder, path, **how):
    file = str(path / "net.mlmodel")
    ct.utils.save_spec(builder.spec, file)
    return mg.coreml.load(file, **how)


def built(inputs, outputs, add, exact=True):
    """Build a network.

    Args:
        inputs: Input shapes by name.
        outputs: Output shapes, or None, by name.
        add: Function that calls methods of the builder it receives.
        exact: Whether to use exact shapes instead of the older five axes.
    """
    ins = [(name, datatypes.Array(*shape)) for name, shape in inputs.items()]
    outs = [(name, datatypes.Array(*shape) if shape else None) for name, shape in outputs.items()]
    builder = NeuralNetworkBuilder(ins, outs, disable_rank5_shape_mapping=exact)
    add(builder)
    return builder


def check(path, inputs, expected, add, exact=True, **how):
    """Compare the network's results with the expected ones: arrays by name, or a single array for `y`."""
    expected = expected if isinstance(expected, dict) else {"y": expected}
    shapes = {name: np.shape(value) for name, value in expected.items()}
    model = loaded(built({k: v.shape for k, v in inputs.items()}, shapes, add, exact), path, **how)
    results = model.run(inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(results[name].numpy(), np.asarray(value), rtol=1e-4, atol=1e-5)


def t(x):
    return torch.from_numpy(np.ascontiguousarray(x))


# --- images, channels first -------------------------------------------------------------------------------------------
X = numbers(2, 4, 9, 8)
W, B = numbers(6, 2, 3, 2), numbers(6)
G, S, M = numbers(4), numbers(4), numbers(4)
V = np.abs(numbers(4)) + 0.5


def convolution(**how):
    given = {
        "name": "conv", "kernel_channels": 2, "output_channels": 6, "height": 3, "width": 2, "stride_height": 2,
        "stride_width": 1, "border_mode": "valid", "groups": 2, "W": W.transpose(2, 3, 1, 0), "b": B, "has_bias": True,
        "input_name": "x", "output_name": "y",
    }  # fmt: skip
    return lambda b: b.add_convolution(**{**given, **how})


IMAGES = {
    "convolution": (convolution(), F.conv2d(t(X), t(W), t(B), (2, 1), groups=2)),
    "dilated": (convolution(dilation_factors=[2, 1]), F.conv2d(t(X), t(W), t(B), (2, 1), 0, (2, 1), 2)),
    "padded": (
        convolution(padding_top=1, padding_bottom=2, padding_left=0, padding_right=1),
        F.conv2d(F.pad(t(X), (0, 1, 1, 2)), t(W), t(B), (2, 1), groups=2),
    ),
    "same": (
        convolution(border_mode="same", same_padding_asymmetry_mode="BOTTOM_RIGHT_HEAVY"),
        F.conv2d(F.pad(t(X), (0, 1, 1, 1)), t(W), t(B), (2, 1), groups=2),
    ),
    "same, heavy in front": (
        convolution(border_mode="same", same_padding_asymmetry_mode="TOP_LEFT_HEAVY"),
        F.conv2d(F.pad(t(X), (1, 0, 1, 1)), t(W), t(B), (2, 1), groups=2),
    ),
    "max pooling": (
        lambda b: b.add_pooling("p", 3, 2, 2, 1, "MAX", "VALID", "x", "y"),
        F.max_pool2d(t(X), (3, 2), (2, 1)),
    ),
    "mean pooling": (
        lambda b: b.add_pooling(
            "p", 3, 2, 2, 1, "AVERAGE", "VALID", "x", "y", exclude_pad_area=False, padding_top=1,
            padding_bottom=1, padding_left=1, padding_right=1,
        ),
        F.avg_pool2d(t(np.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)))), (3, 2), (2, 1)),
    ),
    "mean pooling of what is inside": (
        lambda b: b.add_pooling(
            "p", 3, 2, 2, 1, "AVERAGE", "VALID", "x", "y", exclude_pad_area=True, padding_top=1, padding_bottom=1,
            padding_left=1, padding_right=1,
        ),
        F.avg_pool2d(t(X), (3, 2), (2, 1), (1, 1), count_include_pad=False),
    ),
    "pooling that includes the last pixel": (
        lambda b: b.add_pooling(
            "p", 3, 3, 2, 2, "MAX", "INCLUDE_LAST_PIXEL", "x", "y", padding_top=1, padding_bottom=1, padding_left=1,
            padding_right=1,
        ),
        F.max_pool2d(t(X), 3, 2, 1, ceil_mode=True),
    ),
    "l2 pooling": (
        lambda b: b.add_pooling("p", 2, 2, 2, 2, "L2", "VALID", "x", "y"),
        np.sqrt(4 * F.avg_pool2d(t(X) ** 2, 2).numpy()),
    ),
    "global pooling": (
        lambda b: b.add_pooling("p", 1, 1, 1, 1, "AVERAGE", "VALID", "x", "y", is_global=True),
        X.mean((2, 3), keepdims=True),
    ),
    "batch normalization": (
        lambda b: b.add_batchnorm("n", 4, G, S, M, V, "x", "y"),
        F.batch_norm(t(X), t(M), t(V), t(G), t(S)),
    ),
    "instance normalization": (
        lambda b: b.add_batchnorm(
            "n", 4, G, S, input_name="x", output_name="y", compute_mean_var=True, instance_normalization=True
        ),
        F.instance_norm(t(X), weight=t(G), bias=t(S)),
    ),
    "mean and variance": (
        lambda b: b.add_mvn("n", "x", "y", across_channels=True, normalize_variance=True, epsilon=1e-5),
        F.layer_norm(t(X), (4, 9, 8)),
    ),
    "mean alone": (
        lambda b: b.add_mvn("n", "x", "y", across_channels=False, normalize_variance=False),
        X - X.mean((2, 3), keepdims=True),
    ),
    "l2 normalization": (
        lambda b: b.add_l2_normalize("n", "x", "y", 1e-5),
        X / np.sqrt((X**2).sum((1, 2, 3), keepdims=True) + 1e-5),
    ),
    "local response": (
        lambda b: b.add_lrn("n", "x", "y", alpha=2.0, beta=0.7, local_size=3, k=1.5),
        F.local_response_norm(t(X), 3, 2.0, 0.7, 1.5),
    ),
    "softmax": (lambda b: b.add_softmax("n", "x", "y"), F.softmax(t(X), 1)),
    "bias": (lambda b: b.add_bias("n", S, "x", "y", [4]), X + S[:, None, None]),
    "scale": (
        lambda b: b.add_scale("n", G, S, True, "x", "y", [4], [4]),
        X * G[:, None, None] + S[:, None, None],
    ),
    "crop": (lambda b: b.add_crop("n", 1, 2, 3, 0, [0, 0], ["x"], "y"), X[:, :, 3:, 1:-2]),
    "padding": (
        lambda b: b.add_padding("n", 1, 2, 3, 0, 0.5, "x", "y", "constant"),
        F.pad(t(X), (1, 2, 3, 0), value=0.5),
    ),
    "reflection": (
        lambda b: b.add_padding("n", 1, 2, 3, 0, 0, "x", "y", "reflection"),
        F.pad(t(X), (1, 2, 3, 0), mode="reflect"),
    ),
    "replication": (
        lambda b: b.add_padding("n", 1, 2, 3, 0, 0, "x", "y", "replication"),
        F.pad(t(X), (1, 2, 3, 0), mode="replicate"),
    ),
    "nearest": (
        lambda b: b.add_upsample("n", 2, 3, "x", "y", "NN"),
        F.interpolate(t(X), scale_factor=(2, 3), mode="nearest"),
    ),
    "linear, corners": (
        lambda b: b.add_upsample("n", 2, 3, "x", "y", "BILINEAR", "ALIGN_CORNERS_TRUE"),
        F.interpolate(t(X), scale_factor=(2, 3), mode="bilinear", align_corners=True),
    ),
    "linear, centres": (
        lambda b: b.add_upsample("n", 2, 3, "x", "y", "BILINEAR", "ALIGN_CORNERS_FALSE"),
        F.interpolate(t(X), scale_factor=(2, 3), mode="bilinear", align_corners=False),
    ),
    "resized": (
        lambda b: b.add_resize_bilinear("n", "x", "y", 5, 11, "ALIGN_ENDPOINTS_MODE"),
        F.interpolate(t(X), size=(5, 11), mode="bilinear", align_corners=True),
    ),
    "slice": (lambda b: b.add_slice("n", "x", "y", "height", 1, -1, 2), X[:, :, 1:-1:2]),
    "parametric relu": (
        lambda b: b.add_activation("n", "PRELU", "x", "y", S),
        F.prelu(t(X), t(S)),
    ),
    "parametric softplus": (
        lambda b: b.add_activation("n", "PARAMETRICSOFTPLUS", "x", "y", [G, V]),
        G[:, None, None] * np.log1p(np.exp(V[:, None, None] * X)),
    ),
    "sum of squares": (
        lambda b: b.add_reduce("n", "x", "y", "HW", "sumsquare"),
        (X**2).sum((2, 3), keepdims=True),
    ),
    "largest channel": (lambda b: b.add_reduce("n", "x", "y", "C", "argmax"), X.argmax(1)[:, None]),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_network_image_layers_match_pytorch(name, tmp_path):
    add, expected = IMAGES[name]
    check(tmp_path, {"x": X}, expected, add)


def test_network_transposed_convolution_matches_pytorch(tmp_path):
    weight, bias = numbers(4, 3, 3, 2), numbers(6)

    def add(b):
        b.add_convolution(
            "c", 4, 6, 3, 2, 2, 1, "valid", 2, weight.transpose(2, 3, 0, 1), bias, True, True, None, "x", "y",
            padding_top=1, padding_bottom=0,
        )  # fmt: skip

    expected = F.conv_transpose2d(t(X), t(weight), t(bias), (2, 1), groups=2).numpy()[:, :, 1:]
    check(tmp_path, {"x": X}, expected, add)


def test_network_3d_layers_match_pytorch(tmp_path):
    x, w, b = numbers(1, 2, 6, 7, 8), numbers(4, 2, 2, 3, 3), numbers(4)

    def add(builder):
        builder.add_convolution3d(
            "c", 2, 4, 2, 3, 3, w, b, True, stride_width=2, input_name="x", output_name="c", padding_mode="custom",
            padding_top=1, padding_bottom=1,
        )  # fmt: skip
        builder.add_pooling3d("p", "c", "y", "average", 2, 2, 2, 1, 1, 1, "valid")
        builder.add_global_pooling3d("g", "y", "z", "max")

    y = F.avg_pool3d(F.conv3d(t(x), t(w), t(b), (1, 1, 2), (0, 1, 0)), 2, 1)
    check(tmp_path, {"x": x}, {"y": y, "z": y.amax((2, 3, 4), keepdim=True)}, add)


# --- any rank ---------------------------------------------------------------------------------------------------------
A, C = numbers(2, 3, 4), numbers(3, 1)
I = np.float32([[2, 0], [1, 2]])  # noqa: E741
T = torch.from_numpy


ONE = {
    "elementwise": (
        [("add_ceil", "c1"), ("add_exp2", "c2"), ("add_sin", "c3"), ("add_atan", "c4"), ("add_erf", "y")],
        torch.erf(torch.atan(torch.sin(torch.exp2(torch.ceil(T(A)))))),
    ),
    "asinh, cosh": ([("add_asinh", "c1"), ("add_cosh", "y")], torch.cosh(torch.asinh(T(A)))),
    "gelu": ([("add_gelu", "y", {"mode": "TANH_APPROXIMATION"})], F.gelu(T(A), approximate="tanh")),
    "clip": ([("add_clip", "y", {"min_value": -0.5, "max_value": 0.7})], A.clip(-0.5, 0.7)),
    "clamped relu": (
        [("add_clamped_relu", "y", {"alpha": 0.2, "beta": 0.5})],
        np.minimum(0.5, np.where(A >= 0, A, 0.2 * A)),
    ),
    "softmax": ([("add_softmax_nd", "y", {"axis": 1})], F.softmax(T(A), 1)),
    "sum": ([("add_reduce_sum", "y", {"axes": [0, -1], "keepdims": False, "reduce_all": False})], A.sum((0, 2))),
    "log of sum of exponents": (
        [("add_reduce_logsumexp", "y", {"axes": [1], "keepdims": True, "reduce_all": False})],
        torch.logsumexp(T(A), 1, keepdim=True),
    ),
    "l2": (
        [("add_reduce_l2", "y", {"axes": None, "keepdims": True, "reduce_all": True})],
        np.sqrt((A**2).sum(keepdims=True)),
    ),
    "argmax": ([("add_argmax", "y", {"axis": -1, "keepdims": False})], A.argmax(-1)),
    "transposed": ([("add_transpose", "y", {"axes": [2, 0, 1]})], A.transpose(2, 0, 1)),
    "expanded": ([("add_expand_dims", "y", {"axes": [0, -1]})], A[None, ..., None]),
    "flattened": ([("add_flatten_to_2d", "y", {"axis": 2})], A.reshape(6, 4)),
    "reshaped": ([("add_reshape_static", "y", {"output_shape": [4, -1]})], A.reshape(4, 6)),
    "reshaped in place": (
        [("add_rank_preserving_reshape", "y", {"output_shape": [0, 2, -1]})],
        A.reshape(2, 2, 6),
    ),
    "sliced": (
        [
            (
                "add_slice_static",
                "y",
                {
                    "begin_ids": [0, -1, 3], "end_ids": [2, 0, 0], "strides": [1, -1, -2],
                    "begin_masks": [False, False, False], "end_masks": [False, True, True],
                    "squeeze_masks": [True, False, False],
                },
            )
        ],
        A[0, ::-1, 3::-2],
    ),
    "reversed": ([("add_reverse", "y", {"reverse_dim": [True, False, True]})], A[::-1, :, ::-1]),
    "windows": (
        [("add_sliding_windows", "y", {"axis": 2, "window_size": 2, "step": 2})],
        np.stack([A[..., 0:2], A[..., 2:4]], 2),
    ),
    "band": ([("add_matrix_band_part", "y", {"num_lower": 1, "num_upper": 0})], np.tril(A) - np.tril(A, -2)),
    "triangle": ([("add_upper_triangular", "y", {"k": 1})], np.triu(A, 1)),
    "filled": ([("add_fill_like", "y", {"value": 3.0})], np.full_like(A, 3)),
    "normalized": (
        [("add_layer_normalization", "y", {"normalized_shape": [4], "gamma": numbers(4) * 0 + 2,
                                           "beta": numbers(4) * 0 + 1, "eps": 1e-5})],
        F.layer_norm(T(A), (4,)) * 2 + 1,
    ),
    "product with weights": (
        [("add_inner_product", "y", {"W": np.eye(4, dtype=np.float32)[:3] * 2, "b": np.float32([1, 2, 3]),
                                     "input_channels": 4, "output_channels": 3, "has_bias": True})],
        A[..., :3] * 2 + np.float32([1, 2, 3]),
    ),
    "sorted": ([("add_argsort", "y", {"axis": 1, "descending": True})], np.argsort(-A, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_network_layers_with_one_operand_match_numpy(name, tmp_path):
    steps, expected = ONE[name]

    def add(b):
        source = "a"
        for i, (method, result, *how) in enumerate(steps):
            given = how[0] if how else {}
            getattr(b, method)(name=f"n{i}", input_name=source, output_name=result, **given)
            source = result

    check(tmp_path, {"a": A}, expected, add)


TWO = {
    "add_add_broadcastable": A + C,
    "add_subtract_broadcastable": A - C,
    "add_multiply_broadcastable": A * C,
    "add_divide_broadcastable": A / C,
    "add_mod_broadcastable": np.mod(A, C),
    "add_floor_div_broadcastable": np.floor_divide(A, C),
    "add_max_broadcastable": np.maximum(A, C),
    "add_min_broadcastable": np.minimum(A, C),
    "add_less_than": A < C,
    "add_greater_than": A > C,
    "add_equal": A == C,
}


@pytest.mark.parametrize("method", TWO)
def test_network_layers_with_two_operands_match_numpy(method, tmp_path):
    check(
        tmp_path,
        {"a": A, "c": C},
        TWO[method].astype(np.float32),
        lambda b: getattr(b, method)(name="n", input_names=["a", "c"], output_name="y"),
    )


def test_network_lookup_and_scatter_layers_match_numpy(tmp_path):
    embedded = numbers(5, 3)  # The layer's sizes are its width and the number of words.

    def add(b):
        b.add_gather("g", ["a", "i"], "g", axis=1)
        b.add_expand_dims("e0", "i", "i1", [-1])
        b.add_embedding_nd("e", "i1", "e", 3, 5, embedded)
        b.add_one_hot("o", ["i"], "o", one_hot_vector_size=3, axis=-1, on_value=2.0, off_value=-1.0)
        b.add_topk("t", ["a"], ["t", "ti"], k=2, axis=-1)
        b.add_where_broadcastable("w", ["i", "c2", "i"], "w")
        b.add_concat_nd("k", ["a", "a"], "k", axis=1)
        b.add_stack("s", ["a", "a"], "s", axis=1)
        b.add_split_nd("p", "a", ["p1", "p2"], axis=2, split_sizes=[1, 3])
        b.add_batched_mat_mul("m", ["a", "a"], "m", transpose_b=True)
        b.add_tile("l", "c2", "l", [2, 1])
        b.add_cumsum("u", ["a"], "u", axis=1, reverse=True, exclusive=True)
        b.add_constant_pad("d", ["a"], "d", 2.0, False, [0, 1, 2, 0, 0, 0])

    index, c2 = I.astype(int), numbers(2, 2)
    values, places = torch.topk(T(A), 2)
    one_hot = np.where(np.arange(3) == index[..., None], 2, -1)
    check(
        tmp_path,
        {"a": A, "i": I, "c2": c2},
        {
            "g": A[:, index], "e": embedded.T[index], "o": one_hot, "t": values, "ti": places,
            "w": np.where(I != 0, c2, I), "k": np.concatenate([A, A], 1), "s": np.stack([A, A], 1), "p1": A[..., :1],
            "p2": A[..., 1:], "m": A @ A.transpose(0, 2, 1), "l": np.tile(c2, (2, 1)),
            "u": np.cumsum(A[:, ::-1], 1)[:, ::-1] - A,
            "d": np.pad(A, ((0, 1), (2, 0), (0, 0)), constant_values=2.0),
        },
        add,
    )  # fmt: skip


# --- the older five axes ----------------------------------------------------------------------------------------------
def gates(rows, columns, count=4):
    return [numbers(rows, columns) for _ in range(count)]


def in_torch(module, order, inner, outer, bias):
    """Return PyTorch's layer with the same weights; order[i] is the index of PyTorch's gate i among the builder's."""
    with torch.no_grad():
        module.weight_ih_l0.copy_(T(np.concatenate([inner[i] for i in order])))
        module.weight_hh_l0.copy_(T(np.concatenate([outer[i] for i in order])))
        module.bias_ih_l0.copy_(T(np.concatenate([bias[i] for i in order])))
        module.bias_hh_l0.zero_()
    return module


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
def test_network_lstm_matches_pytorch(whole, backwards, tmp_path):
    # The gates are ordered input, forget, output, cell.
    inner, outer, bias = gates(4, 3), gates(4, 4), [numbers(4) for _ in range(4)]

    def add(b):
        b.add_unilstm("l", outer, inner, bias, 4, 3, ["x"], ["y"], output_all=whole, reverse_input=backwards)

    x = numbers(6, 2, 3)
    module = in_torch(torch.nn.LSTM(3, 4), (0, 1, 3, 2), inner, outer, bias)
    y = module(T(x).flip(0) if backwards else T(x))[0].detach()
    y = y.flip(0) if whole and backwards else y if whole else y[-1:]
    model = loaded(built({"x": (3,)}, {"y": None}, add, exact=False), tmp_path, shapes={"x": (-1, -1, 3)})
    np.testing.assert_allclose(model(x).numpy()[..., 0, 0], y, rtol=1e-4, atol=1e-5)


def test_network_bidirectional_lstm_matches_pytorch(tmp_path):
    forth, back = ((gates(4, 3), gates(4, 4), [numbers(4) for _ in range(4)]) for _ in range(2))

    def add(b):
        b.add_bidirlstm(
            "l", forth[1], forth[0], forth[2], back[1], back[0], back[2], 4, 3, ["x"], ["y"], output_all=True
        )

    x = numbers(5, 1, 3)
    one, other = (in_torch(torch.nn.LSTM(3, 4), (0, 1, 3, 2), *w) for w in (forth, back))
    y = torch.cat([one(T(x))[0], other(T(x).flip(0))[0].flip(0)], -1).detach()
    model = loaded(built({"x": (3,)}, {"y": None}, add, exact=False), tmp_path, shapes={"x": (5, 1, 3)})
    np.testing.assert_allclose(model(x).numpy()[..., 0, 0], y, rtol=1e-4, atol=1e-5)


def test_network_gru_and_simple_rnn_layers_match_numpy(tmp_path):
    # The gates are ordered update, reset, output.
    inner, outer, bias = gates(4, 3, 3), gates(4, 4, 3), [numbers(4) for _ in range(3)]
    w, r, c = numbers(2, 4), numbers(2, 2), numbers(2)

    def add(b):
        b.add_gru("g", outer, inner, bias, 4, 3, ["x"], ["g"], inner_activation="SIGMOID", output_all=True)
        b.add_simple_rnn("s", r, w, c, 2, 4, "RELU", ["g"], ["y"], output_all=True)

    x = numbers(5, 1, 3)
    h, s, ys = np.zeros((1, 4), np.float32), np.zeros((1, 2), np.float32), []
    for step in x:  # Unlike in PyTorch, the reset gate is applied before the matmul.
        z, u = (1 / (1 + np.exp(-(step @ inner[i].T + h @ outer[i].T + bias[i]))) for i in (0, 1))
        o = np.tanh(step @ inner[2].T + (h * u) @ outer[2].T + bias[2])
        h = (1 - z) * o + z * h
        s = np.maximum(h @ w.T + s @ r.T + c, 0)
        ys.append(s)
    model = loaded(built({"x": (3,)}, {"y": None}, add, exact=False), tmp_path, shapes={"x": (-1, 1, 3)})
    np.testing.assert_allclose(model(x).numpy()[..., 0, 0], np.stack(ys), rtol=1e-4, atol=1e-5)


def test_network_image_classifier_matches_pytorch(tmp_path):
    """The network uses scale and bias per color channel, five axes, 8-bit weights, and labels."""
    w, v = numbers(4, 3, 3, 3), numbers(5, 4 * 6 * 6)
    builder = NeuralNetworkBuilder([("image", datatypes.Array(3, 8, 8))], [("scores", None)], mode="classifier")
    builder.add_convolution(
        "c", 3, 4, 3, 3, 1, 1, "valid", 1, w.transpose(2, 3, 1, 0), None, False, False, None, "image", "c"
    )
    builder.add_activation("a", "LEAKYRELU", "c", "a", [0.1])
    builder.add_flatten("f", 0, "a", "f")
    builder.add_inner_product("i", v, None, 4 * 6 * 6, 5, False, "f", "i")
    builder.add_softmax("s", "i", "scores")
    builder.set_pre_processing_parameters(["image"], True, 1.0, 2.0, 3.0, image_scale=0.5)
    builder.set_class_labels(["a", "b", "c", "d", "e"], "label", "scores")
    spec = quantization_utils.quantize_weights(ct.models.MLModel(builder.spec, skip_model_load=True), 8, "linear")
    spec = spec if not isinstance(spec, ct.models.MLModel) else spec.get_spec()
    whole = {}
    for held in spec.neuralNetworkClassifier.layers:
        kind = held.WhichOneof("layer")
        if kind in ("convolution", "innerProduct"):
            p = getattr(held, kind).weights
            scale, bias = (np.array(f) for f in (p.quantization.linearQuantization.scale,
                                                 p.quantization.linearQuantization.bias))  # fmt: skip
            q = np.frombuffer(p.rawValue, np.uint8).reshape(len(scale), -1)
            whole[kind] = (q * scale[:, None] + bias[:, None]).astype(np.float32)
    file = str(tmp_path / "net.mlmodel")
    ct.utils.save_spec(spec, file)
    model = mg.coreml.load(file)
    image = RNG.integers(0, 256, (1, 3, 8, 8)).astype(np.float32)
    y = F.conv2d(T(image * np.float32(0.5) + np.float32([3, 2, 1]).reshape(3, 1, 1)),
                 T(whole["convolution"].reshape(w.shape)))  # fmt: skip
    y = torch.softmax(F.leaky_relu(y, 0.1).flatten(1) @ T(whole["innerProduct"]).T, 1)[0]
    results = model.run({"image": image})
    np.testing.assert_allclose(results["scores"].numpy(), y, rtol=1e-4, atol=1e-5)
    assert model.classes["label"][results["label"].item()] == "abcde"[int(y.argmax())]


@pytest.mark.parametrize(
    "bits, mode", [(8, "linear"), (8, "linear_lut"), (4, "linear"), (3, "linear_lut"), (16, "linear")]
)
def test_quantized_network_weights_are_dequantized_on_import(bits, mode, tmp_path):
    w = numbers(6, 5)
    inputs, outputs = [("x", datatypes.Array(5))], [("y", datatypes.Array(6))]
    builder = NeuralNetworkBuilder(inputs, outputs, disable_rank5_shape_mapping=True)
    builder.add_inner_product("i", w, None, 5, 6, False, "x", "y")
    spec = quantization_utils.quantize_weights(ct.models.MLModel(builder.spec, skip_model_load=True), bits, mode)
    spec = spec if not isinstance(spec, ct.models.MLModel) else spec.get_spec()
    file = str(tmp_path / "net.mlmodel")
    ct.utils.save_spec(spec, file)
    x, step = numbers(5), np.abs(w).max() * 2 / 2 ** min(bits, 8)
    y = mg.coreml.load(file)(x).numpy()
    assert np.abs(y - w @ x).max() < step * np.abs(x).sum()


def test_network_import_error_lists_all_unsupported_layers(tmp_path):
    def add(b):
        b.add_categorical_distribution("d1", "x", "d", 3)
        b.add_random_bernoulli_static("d2", "y", (1, 3))

    with pytest.raises(mg.UnsupportedError, match="2 layers.*categoricalDistribution 'd1'.*randomBernoulli.* 'd2'"):
        loaded(built({"x": (1, 3, 4)}, {"y": None}, add), tmp_path)
