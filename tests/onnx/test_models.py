"""Test models from ONNX files: names, dynamic dimensions, trainable parameters, functions, subgraphs, and errors.

Operators have their cases in conformance/; this file covers everything else about a model.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.onnx_model import BOOL, FLOAT, INT64, linear, model, node, reshape, value
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper


# --- properties of a model ------------------------------------------------------------------------------------------
def test_onnx_names_and_dynamic_dimensions_are_kept(tmp_path):
    path = tmp_path / "linear.onnx"
    onnx.save(linear(), path)
    loaded = mg.onnx.load(path)
    assert list(loaded.inputs) == ["x"] and list(loaded.outputs) == ["y"]
    assert loaded.inputs["x"].shape == (-1, 3) and loaded.outputs["y"].shape == (-1, 2)
    for rows in (1, 4, 0):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(loaded(x), x @ np.float32([[1, 2], [3, 4], [5, 6]]) + np.float32([0.5, -0.5]))
    np.testing.assert_array_equal(loaded(x=np.eye(3, dtype=np.float32)).numpy()[0], [1.5, 1.5])


def test_unknown_onnx_input_and_output_names_raise():
    loaded = mg.onnx.load(linear())
    with pytest.raises(mg.GraphError, match="no input 'z': its inputs are 'x'"):
        loaded.run({"z": np.zeros((1, 3), np.float32)})
    with pytest.raises(mg.GraphError, match="no output 'z': its outputs are 'y'"):
        loaded.run({"x": np.zeros((1, 3), np.float32)}, ["z"])
    with pytest.raises(mg.GraphError, match="at most 1 arrays, one for each input, got 2"):
        loaded(1, 2)


def test_imported_initializers_are_trained():
    loaded = mg.onnx.load(linear())
    g, (x, y) = loaded.graph, (loaded.inputs["x"], loaded.outputs["y"])
    assert set(loaded.parameters) == {"w", "b"} and set(g.trainable_variables) == set(loaded.parameters.values())
    wanted = g.placeholder((-1, 2), name="wanted")
    loss = mg.nn.losses.mean_of_all(g.square(y - wanted))
    gradients = g.gradients(loss, g.trainable_variables)
    step = [g.assign(v, g.stochastic_gradient_descent(0.05, v, d)) for v, d in gradients.items()]
    feeds = {x: np.float32(np.random.default_rng(0).normal(size=(16, 3)))}
    feeds[wanted] = feeds[x] @ np.float32([[0, 1], [1, 0], [1, 1]])
    losses = [float(g.run(feeds, loss, step)) for _ in range(200)]
    assert losses[-1] < 1e-3 * losses[0]


@pytest.mark.parametrize(
    ("trainable", "names"),
    [(True, {"w", "b"}), (False, set()), (["w"], {"w"}), (lambda name: name == "b", {"b"})],
)
def test_onnx_trainable_argument_selects_the_parameters(trainable, names):
    loaded = mg.onnx.load(linear(), trainable=trainable)
    assert set(loaded.parameters) == names
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(loaded(x), mg.onnx.load(linear())(x))


def test_imported_operations_report_their_onnx_node():
    loaded = mg.onnx.load(linear())
    assert loaded.outputs["y"].operation.location == "Add 'the_add'"
    after = loaded.outputs["y"] * 2
    assert after.operation.location.startswith("test_models.py:")


def test_running_statistics_are_parameters_but_not_trainable():
    names = ("scale", "bias", "mean", "variance")
    numbers = {name: np.float32([1, 2]) for name in names}
    nodes = [node("BatchNormalization", ["x", *names], ["y"])]
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, (4, 2))], [value("y", FLOAT, (4, 2))], numbers))
    assert set(loaded.parameters) == set(names)
    assert {v.name for v in loaded.graph.trainable_variables} == {"scale", "bias"}


# --- inputs that define shapes --------------------------------------------------------------------------------------
def unsqueeze() -> onnx.ModelProto:
    inputs = [value("x", FLOAT, ("n",)), value("axes", INT64, ("some",))]
    return model([node("Unsqueeze", ["x", "axes"], ["y"])], inputs, [value("y", FLOAT, None)])


def test_shape_input_of_reshape_can_be_fed():
    loaded = mg.onnx.load(reshape())
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (3, 2), (-1, 6)):
        result = loaded.run({"x": x, "shape": np.int64(shape)})["y"].numpy()
        np.testing.assert_array_equal(result, x.reshape(shape))
    assert loaded.outputs["y"].shape == (-1, -1)


def test_input_that_determines_a_rank_defers_the_import():
    loaded = mg.onnx.load(unsqueeze())
    x = np.arange(6, dtype=np.float32)
    for axes in ([0], [1], [0, -1]):
        result = loaded.run({"x": x, "axes": np.int64(axes)})["y"].numpy()
        np.testing.assert_array_equal(result, np.expand_dims(x, axes))
    np.testing.assert_array_equal(loaded(x, np.int64([1])), x[:, None])
    for what in (lambda: loaded.graph, lambda: loaded.inputs, lambda: loaded.outputs, lambda: loaded.parameters):
        with pytest.raises(mg.UnsupportedError, match="inputs axes determine shapes.*bind"):
            what()
    with pytest.raises(mg.GraphError, match="inputs that determine shapes inside the model are missing: axes"):
        loaded.run({"x": x})
    with pytest.raises(mg.GraphError, match="no input 'z'; its inputs are 'x', 'axes'"):
        loaded.run({"z": x})
    assert loaded.bind({"axes": np.int64([1])}) is loaded.bind({"axes": np.int64([1])})
    assert repr(loaded) == "<Model (x, axes) -> (y), built on first run>"


def test_values_passed_to_load_replace_inputs():
    loaded = mg.onnx.load(reshape(), values={"shape": np.int64([2, -1])})
    assert list(loaded.inputs) == ["x"] and loaded.outputs["y"].shape == (2, -1)
    assert mg.onnx.load(unsqueeze(), values={"axes": [0]}).outputs["y"].shape == (1, -1)
    assert mg.onnx.load(reshape(), values={"shape": [2, 3]}, shapes={"x": (6,)}).inputs["x"].shape == (6,)


def test_shapes_are_computed_from_dynamic_dimensions():
    """Flatten away the batch and restore it with Shape, Gather, Concat, and Reshape, as exporters write it."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"], axis=0),
        node("Concat", ["batch", "rest"], ["flat"], axis=0),
        node("Reshape", ["x", "flat"], ["y"]),
    ]
    integers = {"zero": np.int64([0]), "rest": np.int64([-1])}
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, ("n", 2, 3))], [value("y", FLOAT, None)], integers))
    assert loaded.outputs["y"].shape is None or loaded.outputs["y"].shape[0] == -1
    for n in (1, 5):
        assert loaded(np.zeros((n, 2, 3), np.float32)).shape == (n, 6)


# --- functions ------------------------------------------------------------------------------------------------------
def scaled_function(body=None):
    nodes = body or [
        helper.make_node("Constant", [], ["factor"]),
        helper.make_node("Mul", ["a", "factor"], ["b"]),
    ]
    if body is None:
        attribute = nodes[0].attribute.add()
        attribute.name, attribute.ref_attr_name, attribute.type = "value_float", "factor", onnx.AttributeProto.FLOAT
    return helper.make_function(
        "own", "Scaled", ["a"], ["b"], nodes, [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)], ["factor"]
    )


def test_onnx_model_functions_are_expanded():
    calls = [
        helper.make_node("Scaled", ["x"], ["y"], domain="own", factor=3.0),
        helper.make_node("Scaled", ["y"], ["z"], domain="own", factor=0.5),
    ]
    loaded = mg.onnx.load(
        model(calls, [value("x", FLOAT, (2,))], [value("z", FLOAT, (2,))], functions=[scaled_function()])
    )
    assert loaded(np.float32([1, 2])).tolist() == [1.5, 3.0]


def test_recursive_onnx_model_functions_raise():
    body = [helper.make_node("Scaled", ["a"], ["b"], domain="own")]
    calls = [helper.make_node("Scaled", ["x"], ["y"], domain="own")]
    endless = model(calls, [value("x", FLOAT, (2,))], [value("y", FLOAT, (2,))], functions=[scaled_function(body)])
    with pytest.raises(mg.GraphError, match="function Scaled calls itself"):
        mg.onnx.load(endless)


# --- subgraphs ------------------------------------------------------------------------------------------------------
def branch(op: str):
    return helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [value(op, FLOAT, (2,))])


def test_onnx_if_runs_one_branch_and_is_differentiable():
    nodes = [node("If", ["p"], ["y"], then_branch=branch("Exp"), else_branch=branch("Neg"))]
    loaded = mg.onnx.load(model(nodes, [value("p", BOOL), value("x", FLOAT, (2,))], [value("y", FLOAT, (2,))]))
    x = np.float32([0, 1])
    assert loaded(np.array(False), x).tolist() == [0, -1]
    np.testing.assert_allclose(loaded(np.array(True), x), np.exp(x), rtol=1e-6)
    g = loaded.graph
    gradient = g.gradients(loaded.outputs["y"], loaded.inputs["x"])[loaded.inputs["x"]]
    feeds = {loaded.inputs["p"]: np.array(False), loaded.inputs["x"]: x}
    assert g.run(feeds, gradient).tolist() == [-1, -1]


def doubling(more_nodes=(), more_outputs=()):
    nodes = [helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("Less", ["w", "limit"], ["go"]), *more_nodes]
    inputs = [value("i", INT64), value("c", BOOL), value("v")]
    return helper.make_graph(nodes, "body", inputs, [value("go", BOOL), value("w"), *more_outputs])


def test_onnx_loop_ends_when_its_condition_is_false():
    nodes = [node("Loop", ["", "", "start"], ["y"], body=doubling())]
    loaded = mg.onnx.load(model(nodes, [value("start"), value("limit")], [value("y")]))
    assert loaded(np.float32(1), np.float32(20)).item() == 32
    assert loaded(np.float32(3), np.float32(1)).item() == 6


def test_onnx_loop_stacks_values_of_each_iteration():
    body = doubling([helper.make_node("Identity", ["w"], ["kept"])], [value("kept")])
    nodes = [node("Loop", ["count", "", "start"], ["y", "all"], body=body)]
    loaded = mg.onnx.load(
        model(
            nodes, [value("start"), value("limit")], [value("y"), value("all", FLOAT, ("n",))], {"count": np.int64(9)}
        )
    )
    y, all_of_them = loaded(np.float32(1), np.float32(20))
    assert y.item() == 32 and all_of_them.tolist() == [2, 4, 8, 16, 32]


def test_onnx_loop_with_constant_count_is_differentiable():
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Mul", ["v", "x"], ["w"])],
        "body",
        [value("i", INT64), value("c", BOOL), value("v")],
        [value("go", BOOL), value("w")],
    )
    nodes = [node("Loop", ["count", "", "one"], ["y"], body=body)]
    numbers = {"count": np.int64(4), "one": np.float32(1)}
    loaded = mg.onnx.load(model(nodes, [value("x")], [value("y")], numbers))
    x, y = loaded.inputs["x"], loaded.outputs["y"]
    gradient = loaded.graph.gradients(y, x)[x]
    assert loaded.graph.run({x: np.float32(3)}, [y, gradient])[gradient].item() == 4 * 27


# --- errors ---------------------------------------------------------------------------------------------------------
def test_error_lists_all_unsupported_operators():
    inner = helper.make_graph(
        [helper.make_node("StringNormalizer", ["x"], ["a"], "deep")], "b", [], [value("a", FLOAT, (2,))]
    )
    nodes = [
        node("Unheard", ["x"], ["y"]),
        helper.make_node("Unheard", ["y"], ["z"]),
        helper.make_node("Foreign", ["z"], ["v"], "abroad", domain="elsewhere"),
        node("If", ["p"], ["w"], then_branch=inner, else_branch=branch("Neg")),
    ]
    with pytest.raises(mg.UnsupportedError) as error:
        mg.onnx.load(model(nodes, [value("p", BOOL), value("x", FLOAT, (2,))], [value("w", FLOAT, (2,))]))
    for part in (
        "Unheard",
        "'the_unheard'",
        "'z'",
        "Foreign",
        "'abroad'",
        "does not import",
        "StringNormalizer",
        "'deep'",
    ):
        assert part in str(error.value)


def test_model_of_a_newer_opset_raises():
    with pytest.raises(mg.UnsupportedError, match="opset 99"):
        mg.onnx.load(model([node("Abs", ["x"], ["y"])], [value("x")], [value("y")], opset=99))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Abs", ["z"], ["y"])], r"Abs 'the_abs': 'z' is neither an input"),
        ([node("Abs", ["y"], ["y"])], r"'y' is neither an input"),
        ([node("Abs", ["x"], ["x"]), node("Neg", ["x"], ["y"])], r"must be unique, got 'x' twice"),
        ([node("Abs", [], ["y"])], r"operand 0 is missing"),
        ([node("Transpose", ["x"], ["y"], perm=[5, 5])], r"the_transpose"),
        ([node("Transpose", ["x"], ["y"], perm="oops")], r"the_transpose"),
        ([node("Softmax", ["x"], ["y"], axis=7)], r"axis .*got 7"),
        ([node("Concat", ["x", "x"], ["y"])], r"the_concat"),
        ([node("Gemm", ["x", "x"], ["y"], alpha="big")], r"alpha"),
        ([node("If", ["x"], ["y"])], r"then_branch is missing"),
    ],
)
def test_invalid_nodes_raise(nodes, message):
    with pytest.raises(mg.Error, match=message):
        mg.onnx.load(model(nodes, [value("x", FLOAT, (2, 3))], [value("y", FLOAT, None)])).run(
            {"x": np.zeros((2, 3), np.float32)}
        )


def test_loop_with_excessive_iteration_count_raises():
    body = doubling([helper.make_node("Identity", ["w"], ["kept"])], [value("kept")])
    numbers = {"count": np.int64(2**62), "start": np.float32(0), "limit": np.float32(1)}
    nodes = [node("Loop", ["count", "", "start"], ["y", "all"], body=body)]
    with pytest.raises(mg.UnsupportedError, match="iterations"):
        mg.onnx.load(model(nodes, [], [value("y"), value("all", FLOAT, ("n",))], numbers))


def tensor(dims, raw: bytes, dtype: int = FLOAT) -> TensorProto:
    result = TensorProto(name="w", data_type=dtype, raw_data=raw)
    result.dims.extend(dims)
    return result


@pytest.mark.parametrize(
    "wrong",
    [
        tensor([2], b"\0" * 7),
        tensor([-1], b""),
        tensor([2**40, 2**40], b"\0" * 8),
        tensor([2**62, 4], b"\0" * 8),
        tensor([1] * 40, b"\0" * 4),
        tensor([2], b"\0\2", BOOL),
        TensorProto(name="w", data_type=FLOAT, dims=[3], float_data=[1, 2]),
        TensorProto(name="w", data_type=TensorProto.INT8, dims=[1], int32_data=[300]),
        TensorProto(name="w", data_type=77, dims=[1]),
    ],
)
def test_invalid_initializers_raise(wrong):
    damaged = linear()
    damaged.graph.initializer[0].CopyFrom(wrong)
    with pytest.raises(mg.Error, match="'w'"):
        mg.onnx.load(damaged)


# --- files ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [0, 1, 10, 100, -1])
def test_truncated_files_raise(tmp_path, size):
    data = linear().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[:size])
    with pytest.raises(mg.GraphError, match="cut.onnx"):
        mg.onnx.load(path)


def test_names_that_are_not_utf8_raise(tmp_path):
    path = tmp_path / "names.onnx"
    path.write_bytes(linear().SerializeToString().replace(b"\x01x", b"\x01\xff"))
    with pytest.raises(mg.GraphError, match="not a valid UTF-8 string"):
        mg.onnx.load(path)


def test_missing_and_irregular_files_raise(tmp_path):
    with pytest.raises(mg.GraphError, match="cannot read"):
        mg.onnx.load(tmp_path / "absent.onnx")
    with pytest.raises(mg.GraphError, match="not a regular file"):
        mg.onnx.load(tmp_path)
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(mg.GraphError, match="not a regular file"):
        mg.onnx.load(tmp_path / "pipe.onnx")


def test_file_beyond_protobuf_size_limit_raises(tmp_path):
    path = tmp_path / "large.onnx"
    with open(path, "wb") as file:
        file.truncate(2**31)
    with pytest.raises(mg.GraphError, match="external data"):
        mg.onnx.load(path)


DATA = linear().SerializeToString()


@given(st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_corrupted_file_raises_or_loads(changes):
    data = bytearray(DATA)
    for place, byte in changes:
        data[place] = byte
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "altered.onnx"
        path.write_bytes(data)
        try:
            model = mg.onnx.load(path)
        except mg.Error as error:
            assert str(error)  # Any other exception, including those of protobuf, fails the test.
        else:
            assert model.outputs


# --- external data --------------------------------------------------------------------------------------------------
def with_external_data(directory, **entries) -> os.PathLike:
    changed = linear()
    weights = changed.graph.initializer[0]
    (directory / "weights.bin").write_bytes(b"????" + weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, text in ({"location": "weights.bin", "offset": "4", "length": "24"} | entries).items():
        weights.external_data.add(key=key, value=text)
    path = directory / "model.onnx"
    path.write_bytes(changed.SerializeToString())
    return path


def test_external_onnx_data_is_loaded(tmp_path):
    x = np.eye(3, dtype=np.float32)
    np.testing.assert_array_equal(mg.onnx.load(with_external_data(tmp_path))(x), mg.onnx.load(linear())(x))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../weights.bin"}, "below the model's directory"),
        ({"location": "/etc/hostname"}, "below the model's directory"),
        ({"location": ""}, "below the model's directory"),
        ({"location": "absent.bin"}, "cannot read"),
        ({"location": "."}, "not a regular file"),
        ({"offset": "8"}, "weights.bin"),
        ({"offset": "-4"}, "weights.bin"),
        ({"offset": "x"}, "must be integers"),
        ({"length": "23"}, "weights.bin"),
        ({"offset": str(2**63)}, "weights.bin"),
    ],
)
def test_invalid_external_data_raises(tmp_path, entries, message):
    directory = tmp_path / "inside"
    directory.mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 64)
    with pytest.raises(mg.GraphError, match=message):
        mg.onnx.load(with_external_data(directory, **entries))


def test_external_data_path_outside_model_directory_raises(tmp_path):
    directory = tmp_path / "inside"
    directory.mkdir()
    path = with_external_data(directory, location="link.bin")
    (tmp_path / "secret").write_bytes(b"\0" * 64)
    (directory / "link.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(mg.GraphError, match="below the model's directory"):
        mg.onnx.load(path)


def test_external_data_with_several_hard_links_raises(tmp_path):
    directory = tmp_path / "inside"
    directory.mkdir()
    path = with_external_data(directory)
    os.link(directory / "weights.bin", tmp_path / "elsewhere.bin")
    with pytest.raises(mg.GraphError, match="has 2 hard links"):
        mg.onnx.load(path)


# --- versions of operators ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("opset", "whole"), [(11, True), (13, False)])
def test_softmax_before_opset_13_normalizes_over_all_trailing_axes(opset, whole):
    shape = (2, 3, 4)
    nodes = [node("Softmax", ["x"], ["y"], axis=1)]
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, shape)], [value("y", FLOAT, shape)], opset=opset))
    x = np.float32(np.random.default_rng(0).normal(size=shape))
    axes = (1, 2) if whole else (1,)
    expected = np.exp(x) / np.exp(x).sum(axes, keepdims=True)
    np.testing.assert_allclose(loaded(x), expected, rtol=1e-5)


def test_add_before_opset_7_broadcasts_along_its_axis_attribute():
    nodes = [node("Add", ["x", "b"], ["y"], axis=1, broadcast=1)]
    b = np.float32([1, 2, 3])
    loaded = mg.onnx.load(
        model(nodes, [value("x", FLOAT, (2, 3, 4))], [value("y", FLOAT, (2, 3, 4))], {"b": b}, opset=6)
    )
    x = np.zeros((2, 3, 4), np.float32)
    np.testing.assert_array_equal(loaded(x), x + b[:, None])


def test_known_onnx_operators_include_common_operators():
    known = {name for _, name, _ in mg.onnx.known_operators()}
    assert {"Conv", "MatMul", "Loop", "LSTM"} <= known and len(known) > 150


# --- models that would exhaust memory or time -----------------------------------------------------------------------
def doubled_functions(depth: int) -> onnx.ModelProto:
    """Return a model in which each function calls the next one twice."""
    functions = []
    for i in range(depth):
        name, domain = (f"F{i + 1}", "own") if i + 1 < depth else ("Neg", "")
        body = [helper.make_node(name, [a], [b], domain=domain) for a, b in (("a", "t"), ("t", "b"))]
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], body, imports))
    calls = [helper.make_node("F0", ["x"], ["y"], domain="own")]
    return model(calls, [value("x", FLOAT, (2,))], [value("y", FLOAT, (2,))], functions=functions)


def test_onnx_functions_expanding_exponentially_raise(monkeypatch):
    monkeypatch.setattr("mpsgraph.interchange.importer.MOST_NODES", 1000)
    with pytest.raises(mg.GraphError, match="must expand to at most 1000 nodes"):
        mg.onnx.load(doubled_functions(40))
    assert mg.onnx.load(doubled_functions(5))(np.float32([1, 2])).tolist() == [1, 2]


def test_exponentially_growing_functions_are_rejected_before_translation():
    begin = time.process_time()
    with pytest.raises(mg.GraphError, match="must expand to at most 300000 nodes"):
        mg.onnx.load(doubled_functions(60))
    assert time.process_time() - begin < 2


def test_loop_too_long_to_unroll_is_rejected_immediately():
    inputs = [value("i", INT64, ()), value("going", BOOL, ()), value("a", FLOAT, None)]
    outputs = [value("more", BOOL, ()), value("b", FLOAT, None)]
    nodes = [node("Identity", ["going"], ["more"]), node("Concat", ["a", "a"], ["b"], axis=0)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    count, yes = np.array(10**9), np.array(True)
    proto = model(
        [node("Loop", ["count", "yes", "x"], ["y"], body=body)],
        [value("x", FLOAT, (1,))],
        [value("y", FLOAT, None)],
        {"count": count, "yes": yes},
    )
    begin = time.process_time()
    with pytest.raises(mg.Error, match="must be unrolled, but has more than"):
        mg.onnx.load(proto)
    assert time.process_time() - begin < 2


def test_export_to_unwritable_path_raises_graph_error(tmp_path):
    layer = mg.nn.Linear(2)
    for path in (tmp_path / "missing" / "m.onnx", tmp_path, tmp_path / ("a" * 300)):
        with pytest.raises(mg.GraphError, match="cannot be written"):
            mg.onnx.export(layer, path, inputs={"x": (1, 2)})
    assert not list(tmp_path.iterdir())


EDGES = {"low": np.float32(0), "high": np.float32(4)}


@pytest.mark.parametrize(
    ("op", "shape", "constants", "attributes"),
    [
        ("ConstantOfShape", None, {"s": np.int64([2**20, 2**20])}, {}),
        ("Expand", (), {"s": np.int64([2**20, 2**20])}, {}),
        ("Tile", (1,), {"s": np.int64([2**42])}, {}),
        ("Pad", (1,), {"s": np.int64([2**41, 2**41])}, {}),
        ("Range", None, {"a": np.int64(0), "b": np.int64(2**42), "c": np.int64(1)}, {}),
        ("RandomNormal", None, {}, {"shape": [2**20, 2**20]}),
        ("HannWindow", None, {"n": np.int64(2**31)}, {}),
        ("MelWeightMatrix", None, {"b": np.int64(8), "l": np.int64(2**40), "r": np.int64(8), **EDGES}, {}),
        ("AffineGrid", (1, 2, 3), {"s": np.int64([1, 1, 2**16, 2**16])}, {}),
        ("Resize", (1, 1, 2, 2), {"": None, " ": None, "s": np.int64([1, 1, 2**30, 2**30])}, {}),
        ("Split", (2**30,), {}, {"num_outputs": 2**30}),
        ("SplitToSequence", (2**30,), {}, {}),
        ("MaxPool", (1, 1, 2, 2), {}, {"kernel_shape": [2**40, 2**40]}),
    ],
)
def test_small_onnx_files_requesting_huge_results_raise(op, shape, constants, attributes):
    """The error is raised before the memory is allocated."""
    inputs = [] if shape is None else ["x"]
    nodes = [node(op, [*inputs, *(name.strip() for name in constants)], ["y"], **attributes)]
    constants = {name: array for name, array in constants.items() if array is not None}
    made = model(nodes, [value("x", FLOAT, shape) for _ in inputs], [value("y", FLOAT, None)], constants)
    with pytest.raises(mg.Error):
        mg.onnx.load(made).run({"x": np.ones(shape, np.float32)} if inputs else {})
