"""Test com.microsoft operators of language models: packed weights and grouped attention.

Results are compared with numpy, and with results of ONNX Runtime 1.32 for the same inputs, which are stored below.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

TYPES = {"float32": 1, "int32": 6, "int64": 7, "uint8": 2}


def numbers(*shape: int) -> np.ndarray:
    """Return numbers that any program can compute."""
    return np.sin(np.arange(np.prod(shape), dtype=np.float64) * 1.7 + len(shape)).reshape(shape).astype(np.float32)


def bytes_of(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)) * 37 % 251).reshape(shape).astype(np.uint8)


def made(op: str, feeds: dict, constants: dict, outputs=("y",), names=None, **attributes):
    """Return a model of one node. `constants` may contain TensorProtos."""
    node = helper.make_node(op, names or [*feeds, *constants], list(outputs), domain="com.microsoft", **attributes)
    inputs = [helper.make_tensor_value_info(k, TYPES[str(a.dtype)], a.shape) for k, a in feeds.items()]
    tensors = [t if isinstance(t, TensorProto) else numpy_helper.from_array(t, k) for k, t in constants.items()]
    results = [helper.make_tensor_value_info(o, 1, None) for o in outputs]
    graph = helper.make_graph([node], "g", inputs, results, tensors)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run(*args, **more) -> list[np.ndarray]:
    model = made(*args, **more)
    results = mg.onnx.load(model, trainable=False).run(args[1])
    return [result.numpy() for result in results.values()]


def integers(packed: np.ndarray, bits: int) -> np.ndarray:
    """Return the elements of rows of bytes, one by one from the bits."""
    rows = packed.reshape(len(packed), -1)
    whole = [int.from_bytes(row.tobytes(), "little") for row in rows]
    return np.array([[n >> bits * i & 2**bits - 1 for i in range(rows.shape[1] * 8 // bits)] for n in whole])


# --- packed weights ---------------------------------------------------------------------------------------------------
PRODUCTS = {  # bits, block size, columns, rows, kind of zero points
    "four_bits": (4, 32, 64, 4, None),
    "padded_block": (4, 32, 80, 3, "bytes"),
    "small_blocks": (4, 16, 64, 3, None),
    "eight_bits": (8, 64, 128, 3, "bytes"),
    "two_bits": (2, 32, 64, 3, None),
    "real_zero_points": (4, 128, 256, 3, "real"),
}
OF_RUNTIME: dict[str, list[float]] = {
    "four_bits": [-12.697, -14.4035, 57.5695, -21.254, 19.2189, 20.6477, -51.2054, 6.55562],
    "padded_block": [-20.2558, -0.620946, -20.2155, 1.41156, -28.0518, 11.8645],
    "small_blocks": [25.7998, 8.87498, -44.9878, 32.2241, 5.1409, 36.8872],
    "eight_bits": [-190.506, -723.715, -460.343, -554.977, 518.927, 659.351],
    "two_bits": [-3.61525, -3.53942, 3.96766, 3.38646, 8.61369, 0.563529],
    "real_zero_points": [1.19925, 13.3991, -14.1766, -18.3909, 14.9506, -9.5388],
}


def product_inputs(name: str):
    bits, block, columns, rows, kind = PRODUCTS[name]
    blocks = -(-columns // block)
    constants = {"b": bytes_of(rows, blocks, block * bits // 8), "s": numbers(rows, blocks)}
    if kind is not None:
        constants["z"] = bytes_of(rows, -(-blocks * bits // 8)) if kind == "bytes" else numbers(rows, blocks) * 4
    return {"a": numbers(1, 2, columns)}, constants, {"K": columns, "N": rows, "bits": bits, "block_size": block}


@pytest.mark.parametrize("name", PRODUCTS)
def test_matmul_of_packed_weights_matches_numpy_and_onnx_runtime(name):
    feeds, constants, attributes = product_inputs(name)
    bits, block, columns, rows, kind = PRODUCTS[name]
    (y,) = run("MatMulNBits", feeds, constants, **attributes)
    q = integers(constants["b"], bits)
    blocks = q.shape[1] // block
    zeros = {None: np.full((rows, blocks), 2 ** (bits - 1)), "real": constants.get("z")}.get(kind)
    zeros = integers(constants["z"], bits)[:, :blocks] if kind == "bytes" else zeros
    weights = (q.reshape(rows, blocks, block) - zeros[..., None]) * constants["s"][..., None].astype(np.float64)
    exact = feeds["a"].astype(np.float64) @ weights.reshape(rows, -1)[:, :columns].T
    np.testing.assert_allclose(y, exact, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(y.ravel(), OF_RUNTIME[name], rtol=1e-4, atol=1e-4)


def test_matmul_keeps_the_weights_packed():
    feeds, constants, attributes = product_inputs("four_bits")
    model = mg.onnx.load(made("MatMulNBits", feeds, constants, **attributes), trainable=False)
    kinds = [operation.kind for operation in model.graph.operations]
    assert "dequantize_packed" in kinds and "dequantize" not in kinds


def test_matmul_adds_the_bias():
    feeds, constants, attributes = product_inputs("four_bits")
    (plain,) = run("MatMulNBits", feeds, constants, **attributes)
    constants["bias"] = numbers(4)
    (y,) = run("MatMulNBits", feeds, constants, names=["a", "b", "s", "", "", "bias"], **attributes)
    np.testing.assert_allclose(y, plain + constants["bias"], rtol=1e-5)


@pytest.mark.parametrize("kind", ["uint4", "int4", "bytes"])
def test_gather_of_packed_rows_matches_numpy(kind):
    """ONNX Runtime's results are equal: the zero point is 0 for 4-bit types, and 8 for bytes that hold two elements."""
    q = bytes_of(10, 64) % 16
    packed = q[:, 0::2] | (q[:, 1::2] << 4)
    scales, index = numbers(10, 2), np.int64([[3, 9], [0, 7]])
    number = {"uint4": TensorProto.UINT4, "int4": TensorProto.INT4}.get(kind)
    data = packed if number is None else helper.make_tensor("d", number, (10, 64), packed.tobytes(), raw=True)
    feeds, names = {"i": index}, ["d", "i", "s"]
    (y,) = run("GatherBlockQuantized", feeds, {"d": data, "s": scales}, names=names, block_size=32, bits=4)
    signed = q.astype(np.int64) - 16 * (q > 7) if kind == "int4" else q.astype(np.int64) - 8 * (kind == "bytes")
    table = signed * np.repeat(scales, 32, 1)
    np.testing.assert_allclose(y, table[index], rtol=1e-6, atol=1e-6)


def test_unsupported_packed_weights_raise():
    feeds, constants, attributes = product_inputs("four_bits")
    with pytest.raises(mg.UnsupportedError, match="g_idx is not supported"):
        names = ["a", "b", "s", "", "g"]
        run("MatMulNBits", feeds, {**constants, "g": np.zeros(64, np.int32)}, names=names, **attributes)
    data = {"d": bytes_of(10, 32), "s": numbers(10, 2)}
    with pytest.raises(mg.UnsupportedError, match="gather_axis=1"):
        run("GatherBlockQuantized", {"i": np.int64([1])}, data, names=["d", "i", "s"], block_size=32, gather_axis=1)


# --- grouped attention ------------------------------------------------------------------------------------------------
HEADS, GROUPS, SIZE = 4, 2, 16
ATTENTION = {  # past keys, attributes
    "prompt": (0, {}),
    "next_token": (5, {}),
    "rotary": (5, {"do_rotary": 1}),
    "interleaved": (0, {"do_rotary": 1, "rotary_interleaved": 1}),
    "window": (5, {"local_window_size": 3}),
    "soft_cap": (5, {"softcap": 2.0, "scale": 0.4}),
}
ATTENTION_OF_RUNTIME: dict[str, list[float]] = {
    "prompt": [0.64112, -0.499923, 0.616549, 1.46989, 0.133521, -0.375452],
    "next_token": [0.0972284, -0.393587, 0.39911, 0.685656, -0.180881, -0.24413],
    "rotary": [0.334323, -0.116726, 0.208139, 0.575474, 0.155951, -0.103278],
    "interleaved": [0.64112, -0.499923, 0.616549, 1.46989, 0.133521, -0.375452],
    "window": [0.167742, -0.448959, 0.599089, 0.94572, -0.191651, -0.245194],
    "soft_cap": [0.0719829, -0.393637, 0.387664, 0.651951, -0.197453, -0.242858],
}


def attention_inputs(name: str):
    past, attributes = ATTENTION[name]
    steps = 1 if past else 3
    feeds = {"q": numbers(2, steps, HEADS * SIZE), "k": numbers(2, steps, GROUPS * SIZE) * 0.8,
             "v": numbers(2, steps, GROUPS * SIZE) + 0.5, "pk": numbers(2, GROUPS, past, SIZE),
             "pv": numbers(2, GROUPS, past, SIZE) * 0.7, "n": np.full(2, past + steps - 1, np.int32),
             "t": np.int32([past + steps])}  # fmt: skip
    angles = numbers(16, SIZE // 2) * 3
    constants = {"c": np.cos(angles), "s": np.sin(angles)} if "do_rotary" in attributes else {}
    return feeds, constants, {"num_heads": HEADS, "kv_num_heads": GROUPS, **attributes}


def heads(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64).reshape(*x.shape[:2], -1, SIZE).transpose(0, 2, 1, 3)


def rotated(x: np.ndarray, constants: dict, first: int, interleaved: bool) -> np.ndarray:
    turn = (constants["c"] + 1j * constants["s"])[first : first + x.shape[2]]
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
    y = (a + 1j * b) * turn
    return np.stack([y.real, y.imag], -1).reshape(x.shape) if interleaved else np.concatenate([y.real, y.imag], -1)


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, past: int, attributes: dict) -> np.ndarray:
    """Return the attention (batch, steps, heads * size) of heads; the first query follows `past` keys."""
    k, v = (np.repeat(t, HEADS // GROUPS, 1) for t in (k, v))
    scores = q @ k.swapaxes(2, 3) * attributes.get("scale", SIZE**-0.5)
    if cap := attributes.get("softcap"):
        scores = cap * np.tanh(scores / cap)
    row, column = np.arange(q.shape[2])[:, None] + past, np.arange(k.shape[2])
    seen = (column <= row) & (column > row - attributes.get("local_window_size", 99))
    weights = np.exp(scores) * seen
    y = (weights / weights.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)
    return y.reshape(*y.shape[:2], -1)


@pytest.mark.parametrize("name", ATTENTION)
def test_group_query_attention_matches_numpy_and_onnx_runtime(name):
    feeds, constants, attributes = attention_inputs(name)
    past, _ = ATTENTION[name]
    y, keys, values = run("GroupQueryAttention", feeds, constants, ("y", "pk2", "pv2"), **attributes)
    q, k, v = (heads(feeds[part]) for part in "qkv")
    if constants:
        q, k = (rotated(t, constants, past, bool(attributes.get("rotary_interleaved"))) for t in (q, k))
    k, v = np.concatenate([feeds["pk"], k], 2), np.concatenate([feeds["pv"], v], 2)
    np.testing.assert_allclose(keys, k, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values, v, rtol=1e-5, atol=1e-6)
    exact = attended(q, k, v, past, attributes)
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(y.ravel()[:6], ATTENTION_OF_RUNTIME[name], rtol=1e-4, atol=1e-5)


ROWS = {  # past keys, queries, total length, keys of each row, attributes
    "growing_cache": (5, 1, 6, [3, 6], {"do_rotary": 1}),
    "fixed_cache": (8, 1, 6, [6, 4], {"local_window_size": 3}),
    "full_fixed_cache": (8, 1, 8, [4, 8], {"softcap": 2.0}),
    "padded_prompt": (0, 4, 4, [4, 2], {"do_rotary": 1}),
    "prompt_in_fixed_cache": (8, 3, 3, [2, 3], {"do_rotary": 1, "rotary_interleaved": 1}),
    "several_queries": (5, 2, 7, [7, 4], {}),
}
ROWS_OF_RUNTIME = {  # the last query of each row; ONNX Runtime does not support several queries after past keys
    "growing_cache": [[0.361624, -0.223807, 0.474092], [0.0631705, 0.242732, -0.0467417]],
    "fixed_cache": [[0.167742, -0.448959, 0.599089], [0.129798, -0.223512, 0.159908]],
    "full_fixed_cache": [[0.271104, -0.378478, 0.304492], [-0.336014, 0.383036, 0.268022]],
    "padded_prompt": [[0.490666, 0.0505025, 0.625165], [0.239011, 0.938328, 0.648037]],
    "prompt_in_fixed_cache": [[0.826582, -0.0274956, 0.309348], [0.502301, 0.238983, 0.56496]],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_group_query_attention_of_rows_with_different_lengths_matches_numpy(name, dynamic):
    """Each row equals the attention of that row alone, without padding."""
    past, steps, total, lengths, attributes = ROWS[name]
    feeds, constants = row_inputs(name)
    y, keys, values = run_rows(feeds, constants, dynamic, attributes)
    q, k, v = (heads(feeds[part]) for part in "qkv")
    assert keys.shape[2] == max(past, total)
    for row, length in enumerate(lengths):
        before, new = (0, length) if steps == total else (length - steps, steps)
        one_q, one_k, one_v = (t[row : row + 1, :, :new] for t in (q, k, v))
        if constants:
            turned = (rotated(t, constants, before, bool(attributes.get("rotary_interleaved"))) for t in (one_q, one_k))
            one_q, one_k = turned
        one_k, one_v = (
            np.concatenate([feeds[p][row : row + 1, :, :before], t], 2) for p, t in (("pk", one_k), ("pv", one_v))
        )
        np.testing.assert_allclose(keys[row, :, :length], one_k[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(values[row, :, :length], one_v[0], rtol=1e-5, atol=1e-5)
        exact = attended(one_q, one_k, one_v, before, attributes)[0]
        np.testing.assert_allclose(y[row, :new], exact, rtol=1e-5, atol=1e-5)
        if name in ROWS_OF_RUNTIME:
            np.testing.assert_allclose(y[row, new - 1, :3], ROWS_OF_RUNTIME[name][row], rtol=1e-4, atol=1e-5)


def row_inputs(name: str) -> tuple[dict, dict]:
    past, steps, total, lengths, attributes = ROWS[name]
    feeds = {"q": numbers(2, steps, HEADS * SIZE), "k": numbers(2, steps, GROUPS * SIZE) * 0.8,
             "v": numbers(2, steps, GROUPS * SIZE) + 0.5, "pk": numbers(2, GROUPS, past, SIZE),
             "pv": numbers(2, GROUPS, past, SIZE) * 0.7, "n": np.int32(lengths) - 1,
             "t": np.int32([total])}  # fmt: skip
    angles = numbers(16, SIZE // 2) * 3
    return feeds, {"c": np.cos(angles), "s": np.sin(angles)} if "do_rotary" in attributes else {}


def run_rows(feeds: dict, constants: dict, dynamic: bool, attributes: dict) -> list[np.ndarray]:
    names = ("y", "pk2", "pv2")
    proto = made("GroupQueryAttention", feeds, constants, names, num_heads=HEADS, kv_num_heads=GROUPS, **attributes)
    for entry in proto.graph.input:
        axis = {"q": 1, "k": 1, "v": 1, "pk": 2, "pv": 2}.get(entry.name)
        if dynamic and axis is not None:
            entry.type.tensor_type.shape.dim[axis].dim_param = f"size_{axis}"
    found = mg.onnx.load(proto).run(feeds)
    return [found[name].numpy() for name in names]


@pytest.mark.parametrize(("lengths", "total"), [([7, 2], 6), ([6, 0], 6)])
def test_group_query_attention_refuses_rows_longer_than_the_cache_or_shorter_than_the_queries(lengths, total):
    feeds, constants, attributes = attention_inputs("next_token")
    feeds["n"], feeds["t"] = np.int32(lengths) - 1, np.int32([total])
    with pytest.raises(mg.CheckError, match="seqlens_k"):
        run("GroupQueryAttention", feeds, constants, ("y", "pk2", "pv2"), **attributes)


# --- export -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_exported_packed_weights_load_with_equal_results(bits):
    """4-bit matmuls become MatMulNBits; everything else is unpacked by standard operators."""
    g = mg.Graph()
    x = g.placeholder((-1, 3), mg.int32, name="x")
    table, layer = mg.nn.QuantizedEmbedding(20, 64, bits=bits, group_size=32), mg.nn.QuantizedLinear(5, bits=bits)
    y = layer(table(x))
    random = np.random.default_rng(bits)
    for part in (table, layer):
        state = {}
        for name, value in part.state_dict().items():
            drawn = random.integers(0, 2**32, value.shape) if name == "weight" else random.normal(size=value.shape)
            state[name] = drawn.astype(value.dtype)
        part.load_state_dict(state)
    index = np.int32([[3, 19, 0], [7, 7, 1]])
    wanted = g.run({x: index}, y).numpy()
    proto = mg.onnx.export(g, inputs={"x": x}, outputs={"y": y})
    kinds = [node.op_type for node in proto.graph.node]
    assert ("MatMulNBits" in kinds) == (bits == 4) and "BitShift" in kinds
    del proto.metadata_props[:]  # They would restore the graph without its nodes.
    found = mg.onnx.load(proto, trainable=False).run({"x": index})["y"].numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
