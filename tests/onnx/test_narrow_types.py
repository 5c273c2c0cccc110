"""Test stored ONNX tensors of types that mpsgraph lacks: 2-bit and 4-bit integers, and floats of 8 bits or fewer."""

import ml_dtypes
import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.onnx_model import FLOAT, value
from onnx import TensorProto, external_data_helper, helper

FLOATS = {"FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E4M3FNUZ": "float8_e4m3fnuz", "FLOAT8E5M2": "float8_e5m2",
          "FLOAT8E5M2FNUZ": "float8_e5m2fnuz", "FLOAT8E8M0": "float8_e8m0fnu"}  # fmt: skip
INTEGERS = {"INT4": (4, -8), "UINT4": (4, 0), "INT2": (2, -2), "UINT2": (2, 0)}


def packed(numbers, bits: int) -> bytes:
    """Pack integers into bytes from the lowest bit up."""
    codes = np.asarray(numbers, np.int64).reshape(-1) & (1 << bits) - 1
    codes = np.pad(codes, (0, -codes.size % (8 // bits))).reshape(-1, 8 // bits)
    return (codes << np.arange(0, 8, bits)).sum(1).astype(np.uint8).tobytes()


def stored(name: str, kind: str, shape, raw: bytes, listed: bool = False) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.DataType.Value(kind), dims=shape)
    if listed:
        tensor.int32_data.extend(raw)
    else:
        tensor.raw_data = raw
    return tensor


def model(nodes, constants, inputs=(), kind=FLOAT, opset=25):
    graph = helper.make_graph(nodes, "g", list(inputs), [value("y", kind, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13)


def scale(array, name="scale"):
    return onnx.numpy_helper.from_array(np.float32(array), name)


needs_type = {kind: kind in TensorProto.DataType.keys() for kind in (*FLOATS, *INTEGERS)}


@pytest.mark.parametrize("listed", [False, True], ids=["raw", "listed"])
@pytest.mark.parametrize("kind", FLOATS)
def test_stored_float8_tensors_are_exact(kind, listed):
    if not needs_type[kind]:
        pytest.skip("the installed onnx package lacks this type")
    every = np.arange(256, dtype=np.uint8)
    w = stored("w", kind, (256,), every.tobytes(), listed)
    loaded = mg.onnx.load(model([helper.make_node("Cast", ["w"], ["y"], to=FLOAT)], [w]))
    exact = every.view(np.dtype(getattr(ml_dtypes, FLOATS[kind]))).astype(np.float32)
    found = loaded.run({})["y"].numpy()
    subnormal = (exact != 0) & (np.abs(exact) < 2.0**-126)  # The CPU device flushes subnormal float32 numbers to zero.
    np.testing.assert_array_equal(found[~subnormal], exact[~subnormal])
    assert not loaded.parameters  # Quantized weights are not trainable.


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("where", ["raw", "listed", "external", "Constant"])
def test_stored_integers_of_fewer_than_8_bits_are_unpacked(kind, where, tmp_path):
    if not needs_type[kind]:
        pytest.skip("the installed onnx package lacks this type")
    bits, low = INTEGERS[kind]
    numbers = np.arange(low, low + 2**bits).repeat(3)[:-1].reshape(-1)  # An odd count leaves padding in the last byte.
    w = stored("w", kind, numbers.shape, packed(numbers, bits), where == "listed")
    nodes = [helper.make_node("Cast", ["w"], ["y"], to=FLOAT)]
    if where == "Constant":
        made = model([helper.make_node("Constant", [], ["w"], value=w), *nodes], [])
    else:
        made = model(nodes, [w])
    if where == "external":
        external_data_helper.convert_model_to_external_data(made, location="weights", size_threshold=0)
        onnx.save(made, tmp_path / "net.onnx")
        made = tmp_path / "net.onnx"
    assert mg.onnx.load(made).run({})["y"].numpy().tolist() == numbers.tolist()


@pytest.mark.both_devices
@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
@pytest.mark.parametrize("blocks", [0, 2])
def test_dequantized_int4_weights_match_reference(kind, blocks):
    rng = np.random.default_rng(0)
    low = INTEGERS[kind][1]
    w = rng.integers(low, low + 16, (4, 3))
    scales = rng.uniform(0.5, 2, (2, 3) if blocks else (3,)).astype(np.float32)
    zeros = rng.integers(low, low + 16, scales.shape)
    constants = [
        stored("w", kind, w.shape, packed(w, 4)),
        scale(scales),
        stored("z", kind, zeros.shape, packed(zeros, 4)),
    ]
    how = {"axis": 0, "block_size": blocks} if blocks else {"axis": 1}
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale", "z"], ["d"], **how),
             helper.make_node("MatMul", ["x", "d"], ["y"])]  # fmt: skip
    x = rng.normal(size=(2, 4)).astype(np.float32)
    loaded = mg.onnx.load(model(nodes, constants, [value("x", FLOAT, ("n", 4))]))
    by_row = (scales.repeat(2, 0), zeros.repeat(2, 0)) if blocks else (scales, zeros)
    np.testing.assert_allclose(loaded(x), x @ ((w - by_row[1]) * by_row[0]).astype(np.float32), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_dequantized_float8_weights_match_reference(kind):
    w = np.float32([[0.1, -2, 300], [0, 1e-3, -7]]).astype(np.dtype(getattr(ml_dtypes, FLOATS[kind])))
    zero = stored("z", kind, (), bytes(1))
    constants = [stored("w", kind, w.shape, w.tobytes()), scale([2, 3, 0.5]), zero]
    nodes = [helper.make_node("Transpose", ["w"], ["t"], perm=[0, 1]),
             helper.make_node("DequantizeLinear", ["t", "scale", "z"], ["y"], axis=1)]  # fmt: skip
    found = mg.onnx.load(model(nodes, constants)).run({})["y"].numpy()
    np.testing.assert_array_equal(found, w.astype(np.float32) * np.float32([2, 3, 0.5]))


def test_dequantized_float4_weights_match_reference():
    codes = np.arange(16)
    w = stored("w", "FLOAT4E2M1", (16,), packed(codes, 4))
    loaded = mg.onnx.load(model([helper.make_node("DequantizeLinear", ["w", "scale"], ["y"])], [w, scale(2)]))
    half = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    np.testing.assert_array_equal(loaded.run({})["y"].numpy(), np.float32(half + [-v for v in half]) * 2)


def test_quantizing_to_int4_saturates_at_its_limits():
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "scale", "z"], ["y"])]  # fmt: skip
    constants = [scale(0.5), stored("z", "INT4", (), packed([1], 4))]
    loaded = mg.onnx.load(model(nodes, constants, [value("x", FLOAT, (5,))]))
    assert loaded(np.float32([-100, -4.5, 0.3, 3, 100])).tolist() == [-4.5, -4.5, 0.5, 3, 3]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (
            [helper.make_node("QuantizeLinear", ["x", "scale", "z"], ["y"])],
            "quantizing to float8e4m3fn is not supported",
        ),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4)], "element type int4, which mpsgraph does not"),
        ([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)], "string.*encode strings as integers"),
    ],
)
def test_conversions_to_narrow_types_and_strings_raise(nodes, words):
    constants = [scale(0.5), stored("z", "FLOAT8E4M3FN", (), bytes(1))]
    with pytest.raises(mg.UnsupportedError, match=words):
        mg.onnx.load(model(nodes, constants, [value("x", FLOAT, (5,))]))


def test_narrow_inputs_and_truncated_tensors_raise():
    with pytest.raises(mg.UnsupportedError, match="tensors of int4 \\('x'\\)"):
        nodes = [helper.make_node("Cast", ["x"], ["y"], to=FLOAT)]
        mg.onnx.load(model(nodes, [], [value("x", TensorProto.INT4, (5,))]))
    with pytest.raises(mg.GraphError, match="type int4 must have 3 bytes, got 2"):
        nodes = [helper.make_node("Cast", ["w"], ["y"], to=FLOAT)]
        mg.onnx.load(model(nodes, [stored("w", "INT4", (5,), bytes(2))]))
