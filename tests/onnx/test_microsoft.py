"""Test com.microsoft: the fused and quantized operators that ONNX Runtime's optimizers and quantizer write.

Most operators are compared with the same computation in numpy. Hard-coded results are from ONNX Runtime 1.32.
"""

from __future__ import annotations

import math

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.onnx_model import FLOAT, value
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(0)
TYPES = {"float32": FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8}
TYPES |= {"int8": TensorProto.INT8, "bool": TensorProto.BOOL}


def numbers(*shape: int) -> np.ndarray:
    return np.float32(RNG.normal(size=shape))


def bytes_of(dtype: str, *shape: int) -> np.ndarray:
    return RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def made(op: str, names: list[str], feeds: dict, constants: dict, outputs=("y",), domain=MICROSOFT, **attributes):
    """Return a model of one node; only the last size of each input is static."""
    node = helper.make_node(op, names, list(outputs), domain=domain, name="the_node", **attributes)
    inputs = [
        value(k, TYPES[str(a.dtype)], [*(f"{k}{i}" for i in range(a.ndim - 1)), a.shape[-1]] if a.ndim else ())
        for k, a in feeds.items()
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), k) for k, a in constants.items()]
    graph = helper.make_graph([node], "g", inputs, [value(o) for o in outputs if o], tensors)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports)


def run(op: str, feeds: dict, constants: dict | None = None, names: list[str] | None = None, outputs=("y",), **more):
    constants = constants or {}
    proto: onnx.ModelProto = made(op, names or [*feeds, *constants], feeds, constants, outputs, **more)
    results = mg.onnx.load(proto, trainable=False).run(feeds)
    arrays = [results[o].numpy() for o in outputs if o]
    return arrays[0] if len(arrays) == 1 else arrays


def close(got, expected, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


# --- activations ----------------------------------------------------------------------------------------------------
def gelu(x):
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def by_tanh(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_microsoft_activations_match_numpy():
    x, bias = numbers(2, 3, 8), numbers(8)
    close(run("Gelu", {"x": x}), gelu(x))
    close(run("BiasGelu", {"x": x}, {"b": bias}), gelu(x + bias))
    close(run("FastGelu", {"x": x}), by_tanh(x))
    close(run("FastGelu", {"x": x}, {"b": bias}), by_tanh(x + bias))
    close(run("QuickGelu", {"x": x}), x * sigmoid(1.702 * x))
    close(run("QuickGelu", {"x": x}, alpha=1.0), x * sigmoid(x))
    wide = x + bias
    close(run("BiasSplitGelu", {"x": x}, {"b": bias}), wide[..., :4] * gelu(wide[..., 4:]))


# --- matmuls and convolutions ---------------------------------------------------------------------------------------
def test_fused_matmuls_match_numpy():
    a, b = numbers(2, 3, 4), numbers(2, 5, 4)
    close(run("FusedMatMul", {"a": a, "b": b}, transB=1, alpha=0.5), a @ b.transpose(0, 2, 1) / 2)
    a, b = numbers(3, 2, 4), numbers(2, 4, 5)
    close(run("FusedMatMul", {"a": a, "b": b}, transBatchA=1), a.transpose(1, 0, 2) @ b)
    a, b, c = numbers(4, 3), numbers(4, 5), numbers(5)
    whole = a.T @ b * 2 + c
    leaky = {"activation": "LeakyRelu", "activation_alpha": 0.2}
    close(
        run("FusedGemm", {"a": a}, {"b": b, "c": c}, transA=1, alpha=2.0, **leaky),
        np.where(whole > 0, whole, whole / 5),
    )


@pytest.mark.parametrize(
    ("activation", "given", "function"),
    [
        ("Relu", [], lambda x: np.maximum(x, 0)),
        ("Tanh", [], np.tanh),
        ("Sigmoid", [], sigmoid),
        ("LeakyRelu", [0.1], lambda x: np.where(x > 0, x, x / 10)),
        ("Clip", [-0.5, 0.5], lambda x: np.clip(x, -0.5, 0.5)),
        ("HardSigmoid", [0.2, 0.5], lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    ],
)
def test_fused_sum_and_activation_of_convolution_match_numpy(activation, given, function):
    x, w, b, z = numbers(1, 2, 4, 5), numbers(3, 2, 3, 3), numbers(3), numbers(1, 3, 4, 5)
    plain = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1] * 4)
    inputs = [value(k, FLOAT, a.shape) for k, a in (("x", x), ("w", w), ("b", b))]
    graph = helper.make_graph([plain], "g", inputs, [value("y")])
    (expected,) = ReferenceEvaluator(helper.make_model(graph)).run(None, {"x": x, "w": w, "b": b})
    attributes = {"activation": activation, "pads": [1] * 4} | ({"activation_params": given} if given else {})
    close(run("FusedConv", {"x": x}, {"w": w, "b": b}, **attributes), function(expected), 1e-4)
    close(
        run("FusedConv", {"x": x, "z": z}, {"w": w, "b": b}, ["x", "w", "b", "z"], **attributes),
        function(expected + z),
        1e-4,
    )


def test_unknown_fused_activation_raises():
    with pytest.raises(mg.UnsupportedError, match="FusedConv 'the_node'.*activation must be one of Relu.*got 'Cube'"):
        run("FusedConv", {"x": numbers(1, 2, 4, 4)}, {"w": numbers(1, 2, 1, 1)}, activation="Cube")


# --- normalizations -------------------------------------------------------------------------------------------------
def normalized(x, gamma, beta=0.0, epsilon=1e-12):
    centred = np.float64(x) - np.mean(x, -1, keepdims=True, dtype=np.float64)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma + beta


def test_skip_normalizations_match_numpy():
    x, skip, gamma, beta, bias = numbers(2, 3, 8), numbers(2, 3, 8), numbers(8), numbers(8), numbers(8)
    given = {"g": gamma, "b": beta, "bias": bias}
    y, total = run("SkipLayerNormalization", {"x": x, "s": skip}, given, outputs=("y", "", "", "t"), epsilon=1e-5)
    close(total, x + skip + bias)
    close(y, normalized(x + skip + bias, gamma, beta, 1e-5))
    close(run("SkipLayerNormalization", {"x": x}, {"s": skip[0], "g": gamma}), normalized(x + skip[0], gamma))
    y, total = run("SkipSimplifiedLayerNormalization", {"x": x, "s": skip}, {"g": gamma}, outputs=("y", "", "", "t"))
    close(y, total / np.sqrt((total**2).mean(-1, keepdims=True)) * gamma)
    y = run("SimplifiedLayerNormalization", {"x": x}, {"g": gamma}, domain="", epsilon=1e-5)
    close(y, x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma)


def test_embedding_layer_normalization_matches_numpy():
    words, places, kinds, gamma, beta = numbers(6, 8), numbers(4, 8), numbers(2, 8), numbers(8), numbers(8)
    ids, segments, mask = (
        np.int32([[1, 2, 0], [3, 4, 5]]),
        np.int32([[0, 0, 1], [1, 1, 0]]),
        np.int32([[1, 1, 0], [1, 0, 0]]),
    )
    tables = {"w": words, "p": places, "k": kinds, "g": gamma, "b": beta}
    y, counts, total = run("EmbedLayerNormalization", {"i": ids, "s": segments, "m": mask}, tables,
                           ["i", "s", "w", "p", "k", "g", "b", "m"], ("y", "counts", "total"))  # fmt: skip
    close(total, words[ids] + places[:3] + kinds[segments])
    close(y, normalized(total, gamma, beta))
    assert counts.tolist() == [2, 1]


# --- attention ------------------------------------------------------------------------------------------------------
def attended(q, k, v, added=0.0, scale=None):
    """Compute attention for operands of shape (batch, heads, steps, size)."""
    scores = np.float64(q) @ np.swapaxes(k, 2, 3) * (scale or 1 / math.sqrt(q.shape[3])) + added
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    y = powers / powers.sum(-1, keepdims=True) @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def heads(x, count=2):
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


MASKS = {
    "none": (None, np.ones((2, 5))),
    "lengths": (np.int32([2, 5]), np.arange(5) < [[2], [5]]),
    "ends and starts": (np.int32([3, 5, 1, 0]), (np.arange(5) < [[3], [5]]) & (np.arange(5) >= [[1], [0]])),
    "flags": (np.int32([[1, 1, 0, 0, 1], [1] * 5]), np.array([[1, 1, 0, 0, 1], [1] * 5])),
}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", list(MASKS))
def test_microsoft_attention_matches_numpy(mask, causal):
    x, w, b = numbers(2, 5, 8), numbers(8, 24), numbers(24)
    given, kept = MASKS[mask]
    feeds, names = {"x": x}, ["x", "w", "b"]
    if given is not None:
        feeds["m"], names = given, [*names, "m"]
    q, k, v = (heads(part) for part in np.split(x @ w + b, 3, 2))
    added = np.where(np.asarray(kept, bool), 0, -1e4)[:, None, None, :]
    added = added + (np.where(np.tri(5, dtype=bool), 0, -np.inf) if causal else 0)
    constants = {"w": w, "b": b}
    proto = made("Attention", names, feeds, constants, num_heads=2, unidirectional=causal)
    for i, size in enumerate((2, 5)):
        proto.graph.input[0].type.tensor_type.shape.dim[i].dim_value = size
    if given is not None:
        proto.graph.input[1].type.tensor_type.shape.dim[0].dim_value = len(given)
    close(mg.onnx.load(proto).run(feeds)["y"].numpy(), attended(q, k, v, added), 1e-4)


def test_attention_with_past_keys_and_values_matches_numpy():
    x, w, b, past = numbers(2, 1, 8), numbers(8, 24), numbers(24), numbers(2, 2, 2, 3, 4)
    names, outputs = ["x", "w", "b", "", "past"], ("y", "present")
    given = {"w": w, "b": b}
    y, present = run("Attention", {"x": x, "past": past}, given, names, outputs, num_heads=2, unidirectional=1)
    q, k, v = (heads(part) for part in np.split(x @ w + b, 3, 2))
    k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    close(present, np.stack([k, v]))
    close(y, attended(q, k, v), 1e-4)


def test_multi_head_attention_with_separate_operands_matches_numpy():
    q, k, v, b = numbers(2, 3, 8), numbers(2, 5, 8), numbers(2, 5, 8), numbers(24)
    sums = [heads(t + part) for t, part in zip((q, k, v), np.split(b, 3), strict=True)]
    close(run("MultiHeadAttention", {"q": q, "k": k, "v": v}, {"b": b}, num_heads=2), attended(*sums), 1e-4)
    bias = numbers(1, 2, 3, 5)
    y = run("MultiHeadAttention", {"q": q, "k": k, "v": v, "a": bias}, names=["q", "k", "v", "", "", "a"], num_heads=2,
            scale=0.2)  # fmt: skip
    close(y, attended(heads(q), heads(k), heads(v), bias, 0.2), 1e-4)
    mask = np.int32([[1, 1, 0, 1, 0], [1, 0, 1, 1, 1]])
    y = run("MultiHeadAttention", {"q": q, "k": k, "v": v, "m": mask}, names=["q", "k", "v", "", "m"], num_heads=2)
    close(y, attended(heads(q), heads(k), heads(v), np.where(mask, 0, -1e4)[:, None, None, :]), 1e-4)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_microsoft_rotary_embedding_rotates_complex_pairs(interleaved):
    x, angles = numbers(2, 3, 8), np.float32(np.random.default_rng(1).uniform(0, 6, (9, 2)))
    positions = np.int64([[0, 1, 2], [4, 2, 3]])
    tables = {"c": np.cos(angles), "s": np.sin(angles)}
    y = run("RotaryEmbedding", {"x": x, "p": positions}, tables, interleaved=interleaved)
    h = heads(x).astype(np.float64)  # The attention has two heads of four channels each.
    first, second = (slice(0, 4, 2), slice(1, 4, 2)) if interleaved else (slice(0, 2), slice(2, 4))
    turned = (h[..., first] + 1j * h[..., second]) * np.exp(1j * angles[positions])[:, None]
    expected = np.empty_like(h)
    expected[..., first], expected[..., second] = turned.real, turned.imag
    close(y, expected.transpose(0, 2, 1, 3).reshape(2, 3, 8))


# --- 8-bit integers -------------------------------------------------------------------------------------------------
def real(x, scale, zero):
    return (x.astype(np.float64) - zero) * scale


def quantized(x, scale, zero, dtype):
    limits = np.iinfo(dtype)
    return np.clip(np.rint(x / scale) + zero, limits.min, limits.max)


def within_one(got, expected, dtype) -> None:
    """Require integers within one step, as values halfway between may round either way in float32."""
    assert str(got.dtype) == dtype
    assert np.abs(got.astype(np.int32) - expected).max() <= 1 and (got == expected).mean() > 0.9


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantized_add_and_multiply_match_numpy(dtype):
    a, b = bytes_of(dtype, 2, 3, 4), bytes_of(dtype, 3, 4)
    numbers_of = {"sa": np.float32(0.1), "za": 3, "sb": np.float32(0.2), "zb": 5, "sc": np.float32(0.3), "zc": 7}
    constants = {k: v if k[0] == "s" else np.array(v, dtype) for k, v in numbers_of.items()}
    left, right = real(a, 0.1, 3), real(b, 0.2, 5)
    names = ["a", "sa", "za", "b", "sb", "zb", "sc", "zc"]
    within_one(run("QLinearAdd", {"a": a, "b": b}, constants, names), quantized(left + right, 0.3, 7, dtype), dtype)
    within_one(run("QLinearMul", {"a": a, "b": b}, constants, names), quantized(left * right, 0.3, 7, dtype), dtype)
    joined = np.concatenate([left, np.stack([right, right])], 1)
    got = run("QLinearConcat", {"a": a, "b": np.stack([b, b])}, constants, ["sc", "zc", *names[:6]], axis=1)
    within_one(got, quantized(joined, 0.3, 7, dtype), dtype)
    one = {k: constants[k] for k in ("sa", "za", "sc", "zc")}
    got = run("QLinearLeakyRelu", {"a": a}, one, alpha=0.2)
    within_one(got, quantized(np.where(left > 0, left, left / 5), 0.3, 7, dtype), dtype)
    fine = one | {"sc": np.float32(0.01)}
    within_one(run("QLinearSigmoid", {"a": a}, fine), quantized(sigmoid(left), 0.01, 7, dtype), dtype)
    got = run("QLinearGlobalAveragePool", {"a": bytes_of(dtype, 1, 5, 5, 2)}, one, channels_last=1)
    assert got.shape == (1, 1, 1, 2)


def test_quantized_average_pooling_matches_numpy():
    a = bytes_of("uint8", 1, 2, 5, 5)
    # At this scale, a mean of nine values is halfway between two integers only by coincidence.
    given = {"sa": np.float32(0.03), "za": np.uint8(3), "sc": np.float32(0.0217), "zc": np.uint8(7)}
    windows = np.lib.stride_tricks.sliding_window_view(real(a, 0.03, 3), (3, 3), (2, 3)).mean((4, 5))
    got = run("QLinearAveragePool", {"a": a}, given, kernel_shape=[3, 3])
    within_one(got, quantized(windows, 0.0217, 7, "uint8"), "uint8")
    turned = run("QLinearAveragePool", {"a": a.transpose(0, 2, 3, 1)}, given, kernel_shape=[3, 3], channels_last=1)
    np.testing.assert_array_equal(turned.transpose(0, 3, 1, 2), got)
    mean = run("QLinearGlobalAveragePool", {"a": a}, given)
    within_one(mean, quantized(real(a, 0.03, 3).mean((2, 3), keepdims=True), 0.0217, 7, "uint8"), "uint8")


def test_quantized_matmuls_match_numpy():
    a, b = np.uint8([[0, 10, 200], [255, 3, 128]]), np.int8([[1, -2], [3, 4], [-128, 127]])
    given = {"sa": np.float32(0.1), "za": np.uint8(3), "b": b, "sb": np.float32(0.2), "zb": np.int8(2)}
    given |= {"c": np.int32([100, -200]), "sy": np.float32(9), "zy": np.uint8(128)}
    names = ["a", "sa", "za", "b", "sb", "zb", "c"]
    assert run("QGemm", {"a": a}, given, [*names, "sy", "zy"]).tolist() == [[71, 182], [92, 160]]
    sums = (a.astype(int) - 3) @ (b.astype(int) - 2) + [100, -200]
    close(run("QGemm", {"a": a}, given, names), sums * 0.02)
    columns = {"sb": np.float32([0.2, 0.1]), "zb": np.int8([2, -1])}
    names = ["a", "b", "sa", "sb", "za", "zb"]
    expected = (a.astype(int) - 3) @ (b.astype(int) - [2, -1]) * 0.1 * columns["sb"]
    close(run("MatMulIntegerToFloat", {"a": a}, given | columns, names), expected)
    x = np.float32([[0.5, -1, 2], [0, 0.25, -0.3]])
    got = run("DynamicQuantizeMatMul", {"x": x}, {"b": b} | columns)
    close(got, [[-52.2988, 25.0506], [8.0024, -3.7918]], 1e-4)


def as_bytes(x):
    """Return the result of DynamicQuantizeLinear for x minus its zero point, and the scale."""
    low, high = min(x.min(), 0), max(x.max(), 0)
    step = np.float32(np.float32(high - low) / np.float32(255))
    zero = np.rint(np.float32(-low) / step) if step > 0 else 0
    return (np.clip(np.rint(x / step) + zero, 0, 255) - zero if step > 0 else np.zeros(x.shape)), np.float64(step)


def lstm_of_bytes(x, w, r, bias, state, cell, backward):
    """Run one direction of an LSTM in ONNX's gate order; w and r are (integers minus zero points, scales)."""
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    q, step = as_bytes(x)
    source = q @ w[0] * step * w[1] + bias[: len(bias) // 2] + bias[len(bias) // 2 :]
    states = np.zeros((len(x), *state.shape))
    for t in reversed(range(len(x))) if backward else range(len(x)):
        q, step = as_bytes(np.float32(state))
        i, o, f, z = np.split(source[t] + q @ r[0] * step * r[1], 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(z)
        state = states[t] = sigmoid(o) * np.tanh(cell)
    return states, state, cell


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("zero", [0, 2])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lstm_with_8_bit_weights_matches_numpy(direction, dtype, zero, per_column):
    """Inputs are quantized once for all steps, states in each step."""
    count, inputs, hidden = 1 + (direction == "bidirectional"), 3, 5
    x, bias = numbers(4, 2, inputs), numbers(count, 8 * hidden)
    w, r = bytes_of(dtype, count, inputs, 4 * hidden), bytes_of(dtype, count, hidden, 4 * hidden)
    wide = (count, 4 * hidden) if per_column else (count,)
    scales = np.linspace(0.002, 0.005, int(np.prod(wide)), dtype=np.float32).reshape(wide)
    zeros = np.full(wide, zero, dtype)
    h, c = numbers(count, 2, hidden), numbers(count, 2, hidden)
    given = {"w": w, "r": r, "b": bias, "h": h, "c": c, "sw": scales, "zw": zeros, "sr": scales, "zr": zeros}
    names = ["x", "w", "r", "b", "", "h", "c", "", "sw", "zw", "sr", "zr"]
    outputs = ("y", "last", "cell")
    got = run("DynamicQuantizeLSTM", {"x": x}, given, names, outputs, hidden_size=hidden, direction=direction)
    parts = []
    for d in range(count):
        whole = [(m[d].astype(np.float64) - zeros[d], scales[d].astype(np.float64)) for m in (w, r)]
        parts.append(lstm_of_bytes(x, *whole, bias[d], h[d], c[d], direction == "reverse" or d == 1))
    close(got[0], np.stack([part[0] for part in parts], 1))
    for k in (1, 2):
        close(got[k], np.stack([part[k] for part in parts]))


def test_8_bit_lstm_with_sequence_lengths_matches_numpy():
    """Each row has its own number of steps, but the quantization range covers all rows."""
    inputs, hidden = 3, 5
    x, bias = numbers(4, 2, inputs), numbers(2, 8 * hidden)
    w, r = bytes_of("int8", 2, inputs, 4 * hidden), bytes_of("int8", 2, hidden, 4 * hidden)
    scales = np.full(2, 0.004, np.float32)
    given = {"w": w, "r": r, "b": bias, "n": np.int32([4, 2]), "sw": scales, "sr": scales}
    names = ["x", "w", "r", "b", "n", "", "", "", "sw", "", "sr", ""]
    how = {"hidden_size": hidden, "direction": "bidirectional"}
    y, last, cell = run("DynamicQuantizeLSTM", {"x": x}, given, names, ("y", "last", "cell"), **how)
    names[4] = ""
    whole = run("DynamicQuantizeLSTM", {"x": x}, given, names, ("y", "last", "cell"), **how)
    assert not y[2:, :, 1].any() and y.shape == whole[0].shape
    close(y[:2, 0], whole[0][:2, 0])  # In the first two steps, both rows are still running.
    close(last[0, 1], y[1, 0, 1])
    close(last[1], y[0, 1])
    assert cell.shape == last.shape


def test_8_bit_lstm_with_clipped_gates_equals_dequantized_lstm():
    """No layer of the graph clips, so the expected result is a clipped LSTM with dequantized weights."""
    inputs, hidden = 3, 5
    x, bias = numbers(4, 2, inputs), numbers(1, 8 * hidden)
    w, r = bytes_of("int8", 1, inputs, 4 * hidden), bytes_of("int8", 1, hidden, 4 * hidden)
    scales, zeros = np.full(1, 0.004, np.float32), np.full(1, 2, np.int8)
    given = {"w": w, "r": r, "b": bias, "sw": scales, "zw": zeros, "sr": scales, "zr": zeros}
    names = ["x", "w", "r", "b", "", "", "", "", "sw", "zw", "sr", "zr"]
    outputs = ("y", "h", "c")
    got = run("DynamicQuantizeLSTM", {"x": x}, given, names, outputs, hidden_size=hidden, clip=0.5)
    weights = {k: np.float32(real(t, 0.004, 2)).transpose(0, 2, 1) for k, t in (("w", w), ("r", r))} | {"b": bias}
    plain = made("LSTM", ["x", "w", "r", "b"], {"x": x}, weights, outputs, "", hidden_size=hidden, clip=0.5)
    expected = mg.onnx.load(plain).run({"x": x})
    for array, name in zip(got, outputs, strict=True):
        close(array, expected[name].numpy())
