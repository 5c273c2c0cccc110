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


# The axis of scales and the block size of weights of shape (64, 96); 0 means one scale per index of the axis, or one
# scale if the axis is None.
LAYOUTS = {
    "rows": (0, 0),
    "columns": (1, 0),
    "tensor": (None, 0),
    "blocks_of_columns": (0, 32),
    "blocks_of_rows": (1, 48),
}


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT8", "UINT8"])
@pytest.mark.parametrize("rows", [1, 5])
def test_products_with_dequantized_weights_match_numpy(rows, kind, layout, zero):
    """Weights of 4 bits, and those in blocks of a multiple of 32, stay packed."""
    bits = int(kind[-1])
    low = 0 if kind[0] == "U" else -(2 ** (bits - 1))
    axis, block = LAYOUTS[layout]
    rng = np.random.default_rng(bits)
    w = rng.integers(low, low + 2**bits, (64, 96))
    shape = () if axis is None else (w.shape[axis],) if not block else (64 // 32, 96) if axis == 0 else (64, 96 // 48)
    scales = rng.uniform(0.5, 2, shape).astype(np.float32)
    zeros = rng.integers(low, low + 2**bits, shape) if zero else np.zeros(shape, np.int64)
    constants = [stored("w", kind, w.shape, packed(w, bits)), scale(scales)]
    names = ["w", "scale"]
    if zero:
        constants.append(stored("z", kind, shape, packed(zeros, bits)))
        names.append("z")
    how = ({} if axis is None else {"axis": axis}) | ({"block_size": block} if block else {})
    nodes = [helper.make_node("DequantizeLinear", names, ["d"], **how),
             helper.make_node("MatMul", ["x", "d"], ["y"])]  # fmt: skip
    loaded = mg.onnx.load(model(nodes, constants, [value("x", FLOAT, (rows, 64))]))

    def spread(v):
        if block:
            return v.repeat(block, axis)
        return v if axis is None else np.expand_dims(v, 1 - axis)

    x = rng.normal(size=(rows, 64)).astype(np.float32)
    dense = (w - spread(zeros)) * spread(scales).astype(np.float64)
    np.testing.assert_allclose(loaded(x), x @ dense, rtol=0, atol=1e-5 * (np.abs(x) @ np.abs(dense)).max())
    kinds = [operation.kind for operation in loaded.graph.operations]
    assert ("dequantize_packed" in kinds) == (bits == 4 and block != 48 or block == 32), kinds


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


# --- export -----------------------------------------------------------------------------------------------------------
def exported(g, y, inputs=None, **options):
    """Return a file with narrow constants, the element types of its initializers, and the result of loading it."""
    proto = mg.onnx.export(g, inputs=inputs or {}, outputs={"y": y}, opset=21, narrow=True, **options)
    types = {TensorProto.DataType.Name(t.data_type) for t in proto.graph.initializer}
    return proto, types, mg.onnx.load(proto, trainable=False)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("INT4", np.arange(-8, 8).repeat(5).astype(np.int8)),
        ("UINT4", np.arange(16).repeat(5)[:-1].astype(np.uint8)),
        ("FLOAT8E4M3FN", np.float32([0.0, -0.0, 448, -0.0625, 2**-9]).repeat(20)),
        ("FLOAT8E5M2", np.float32([np.inf, 57344, -(2**-16)]).repeat(30)),
        ("FLOAT8E4M3FN", np.float16([1.125, -3.5]).repeat(40)),
    ],
)
def test_constants_that_narrow_types_represent_are_exported_in_them(kind, values):
    g = mg.Graph()
    y = g.cast(g.constant(values), "float32")
    _, types, loaded = exported(g, y)
    assert kind in types
    found = loaded.run({})["y"].numpy()
    np.testing.assert_array_equal(found, values.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(values.astype(np.float32)))


@pytest.mark.parametrize(
    "values",
    [
        np.int8([8] * 99), np.int8([-9] * 99), np.uint8([16] * 99), np.float32([1.0625] * 99),
        np.float32([np.nan] * 99), np.float32([449] * 99), np.int8([1] * 9),
    ],
)  # fmt: skip
def test_constants_that_no_narrow_type_represents_are_exported_as_they_are(values):
    g = mg.Graph()
    _, types, loaded = exported(g, g.cast(g.constant(values), "float32"))
    assert not types & {"INT4", "UINT4", *FLOATS}
    np.testing.assert_array_equal(loaded.run({})["y"].numpy(), values.astype(np.float32))


@pytest.mark.parametrize("integer_zeros", [False, True])
def test_packed_weights_are_exported_as_uint4_and_stay_packed_when_they_are_loaded(integer_zeros):
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**32, (24, 16)).astype(np.uint32)
    scale = rng.uniform(0.5, 2, (24, 4)).astype(np.float32)
    bias = -scale * rng.integers(0, 16, scale.shape).astype(np.float32) if integer_zeros else scale * 0.3
    g = mg.Graph()
    x = g.placeholder((-1, 128), name="x")
    w = g.dequantize_packed(g.variable(words, trainable=False), g.constant(scale), g.constant(bias))
    y = x @ g.transpose(w, (1, 0))
    proto, types, loaded = exported(g, y, {"x": x})
    assert "UINT4" in types and "UINT32" not in types
    kinds = [node.op_type for node in proto.graph.node]
    assert ("Add" in kinds) != integer_zeros and "DequantizeLinear" in kinds
    given = rng.normal(size=(3, 128)).astype(np.float32)
    wanted = g.run({x: given}, y).numpy()
    np.testing.assert_allclose(loaded(given), wanted, rtol=1e-5, atol=1e-4)
    assert any(operation.kind == "dequantize_packed" for operation in loaded.graph.operations)


def test_narrow_export_to_an_opset_without_4_bit_integers_raises():
    g = mg.Graph()
    with pytest.raises(mg.UnsupportedError, match="pass opset=21"):
        mg.onnx.export(g, inputs={}, outputs={"y": g.constant(np.ones(3, np.float32))}, narrow=True)


def test_trained_weights_keep_their_names_and_types():
    linear = mg.nn.Linear(32)
    proto = mg.onnx.export(linear, inputs={"x": (-1, 32)}, opset=21, narrow=True)
    assert {t.name: t.data_type for t in proto.graph.initializer} == {"weight": FLOAT, "bias": FLOAT}
