"""Test the functions that users supply for operators of an ONNX model."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.onnx_model import FLOAT, INT64, linear, value
from onnx import TensorProto, helper, numpy_helper

X = np.float32([[1, -2, 3], [4, 5, -6]])


def model(nodes, outputs=("y",), constants=None, domains=("com.example",), inputs=None, functions=()):
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()]
    inputs = inputs or [value("x", FLOAT, ("n", 3))]
    graph = helper.make_graph(nodes, "g", inputs, [value(name, FLOAT, None) for name in outputs], tensors)
    opsets = [helper.make_opsetid(d, v) for d, v in (("", 21), *((d, 1) for d in domains))]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def custom(inputs=("x",), outputs=("y",), op="Own", domain="com.example", **attributes):
    return helper.make_node(op, inputs, outputs, name="the_node", domain=domain, **attributes)


@pytest.mark.both_devices
def test_operator_function_receives_operands_and_attributes():
    seen = {}

    def own(x, nothing, w, *, factor, axes, mode, table):
        seen.update(nothing=nothing, axes=axes, mode=mode, table=table)
        return x.graph.matrix_multiplication(x, w) * factor

    weights = np.float32(np.arange(6).reshape(3, 2))
    attributes = {"factor": 2.5, "axes": [0, 1], "mode": "fast", "table": numpy_helper.from_array(np.int64([7, 8]))}
    made = model([custom(["x", "", "w"], **attributes)], constants={"w": weights})
    loaded = mg.onnx.load(made, operators={"com.example::Own": own})
    np.testing.assert_allclose(loaded(X), X @ weights * 2.5)
    assert list(loaded.parameters) == ["w"]  # A floating-point initializer is a trainable weight here, too.
    assert seen["nothing"] is None and seen["axes"] == [0, 1] and seen["mode"] == "fast"
    assert seen["table"].tolist() == [7, 8]


@pytest.mark.parametrize("key", ["Own", "com.example::Own"])
def test_operator_key_may_omit_the_domain(key):
    assert mg.onnx.load(model([custom()]), operators={key: lambda x: x + 1.0})(X).tolist() == (X + 1).tolist()


def test_key_with_domain_takes_precedence_over_key_without():
    functions = {"Own": lambda x: x + 1.0, "com.example::Own": lambda x: x + 2.0}
    assert mg.onnx.load(model([custom()]), operators=functions)(X).tolist() == (X + 2).tolist()
    elsewhere = {"Own": lambda x: x + 1.0, "org.other::Own": lambda x: x + 2.0}
    assert mg.onnx.load(model([custom()]), operators=elsewhere)(X).tolist() == (X + 1).tolist()


@pytest.mark.parametrize("key", ["Relu", "ai.onnx::Relu", "::Relu"])
def test_operator_function_replaces_builtin_translation(key):
    made = model([helper.make_node("Relu", ["x"], ["y"])])
    assert mg.onnx.load(made, operators={key: lambda x: x * 3.0})(X).tolist() == (X * 3).tolist()


def test_operator_function_replaces_function_of_the_model():
    body = helper.make_function("com.example", "Own", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])],
                                [helper.make_opsetid("", 21)])  # fmt: skip
    made = model([custom()], functions=[body])
    assert mg.onnx.load(made)(X).tolist() == (-X).tolist()
    assert mg.onnx.load(made, operators={"Own": lambda x: x * 3.0})(X).tolist() == (X * 3).tolist()


def test_operator_function_also_applies_to_files_exported_by_mpsgraph():
    g = mg.Graph()
    x = g.placeholder((2, 3), name="x")
    made = mg.onnx.export(g, inputs={"x": x}, outputs={"y": g.relu(x)})
    assert mg.onnx.load(made, operators={"Relu": lambda x: x * 3.0})(X).tolist() == (X * 3).tolist()


def test_operator_function_returns_several_results():
    def split(x):
        return [x.graph.relu(x), -x, x * 2.0]

    loaded = mg.onnx.load(model([custom(outputs=["a", "", "c"])], ["a", "c"]), operators={"Own": split})
    a, c = loaded(X)
    assert a.tolist() == np.maximum(X, 0).tolist() and c.tolist() == (X * 2).tolist()


def test_operator_function_applies_in_branches_and_functions():
    branches = {
        f"{name}_branch": helper.make_graph([custom(["x"], [f"{name}_y"], op)], name, [], [value(f"{name}_y")])
        for name, op in (("then", "Own"), ("else", "Other"))
    }
    body = helper.make_function("com.example", "Body", ["a"], ["b"], [custom(["a"], ["b"], "Own")],
                                [helper.make_opsetid("com.example", 1)])  # fmt: skip
    nodes = [helper.make_node("If", ["c"], ["z"], **branches), custom(["z"], ["y"], "Body")]
    inputs = [value("x", FLOAT, (2, 3)), value("c", TensorProto.BOOL)]
    functions = {"Own": lambda x: x + 1.0, "Other": lambda x: x * 2.0}
    loaded = mg.onnx.load(model(nodes, inputs=inputs, functions=[body]), operators=functions)
    assert loaded.run({"x": X, "c": True})["y"].tolist() == (X + 2).tolist()
    assert loaded.run({"x": X, "c": False})["y"].tolist() == (X * 2 + 1).tolist()


def test_operator_function_can_call_a_subgraph_attribute():
    body = helper.make_graph([helper.make_node("Neg", ["a"], ["b"])], "body", [value("a", FLOAT, None)],
                             [value("b", FLOAT, None)])  # fmt: skip
    loaded = mg.onnx.load(model([custom(body=body)]), operators={"Own": lambda x, body: body(body(x)[0])[0] + 1.0})
    assert loaded(X).tolist() == (X + 1).tolist()


def repeated(x, times):
    return x.graph.tile(x, [1, int(mg.onnx.value_of(times))])


def test_value_of_returns_constants_and_defers_for_inputs():
    times = {"times": np.int64(2)}
    loaded = mg.onnx.load(model([custom(["x", "times"])], constants=times), operators={"Own": repeated})
    assert type(loaded) is mg.Model and loaded(X).tolist() == np.tile(X, (1, 2)).tolist()
    inputs = [value("x", FLOAT, ("n", 3)), value("times", INT64, ())]
    loaded = mg.onnx.load(model([custom(["x", "times"])], inputs=inputs), operators={"Own": repeated})
    assert isinstance(loaded, mg.onnx.DeferredModel)
    for n in (3, 2):
        assert loaded.run({"x": X, "times": np.int64(n)})["y"].tolist() == np.tile(X, (1, n)).tolist()
    with pytest.raises(mg.GraphError, match="must be called by a function in the operators= argument"):
        mg.onnx.value_of(mg.Graph().constant(1.0))


def test_missing_operator_error_names_the_remedy():
    with pytest.raises(mg.UnsupportedError, match=r'com.example.Own.*operators=\{"domain::Name": function\}'):
        mg.onnx.load(model([custom()]))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: 3, "the function for operator Own must return a tensor of the graph.*got int"),
        (lambda x: None, "Own 'the_node'.*must return a tensor of the graph.*got NoneType"),
        (lambda x: mg.Graph().constant(1.0), "got a tensor of another graph"),
        (lambda x: [], "got 0 results"),
        (lambda x: x.graph.reshape(x, (5, 5)), "Own 'the_node'"),
    ],
)
def test_wrong_results_of_operator_functions_raise(function, words):
    fixed = model([custom()], inputs=[value("x", FLOAT, (2, 3))])
    with pytest.raises((mg.GraphError, mg.ShapeError, mg.UnsupportedError), match=words):
        mg.onnx.load(fixed, operators={"Own": function})


def test_exceptions_of_operator_functions_reach_the_caller():
    class OwnError(KeyError):
        pass

    def fails(x):
        raise OwnError("reason")

    with pytest.raises(OwnError, match="reason"):
        mg.onnx.load(model([custom()]), operators={"Own": fails})
    with pytest.raises(TypeError, match="unexpected keyword argument 'factor'"):
        mg.onnx.load(model([custom(factor=1.0)]), operators={"Own": lambda x: x})


@pytest.mark.parametrize("operators", [3, {"Own": 3}, {3: abs}, ["Own"]])
def test_operators_argument_of_wrong_type_raises(operators):
    with pytest.raises(mg.Error, match="operators"):
        mg.onnx.load(linear(), operators=operators)


def test_operators_of_other_models_are_ignored():
    x = np.float32([[1, 2, 3]])
    assert mg.onnx.load(linear(), operators={"com.example::Own": abs})(x).tolist() == mg.onnx.load(linear())(x).tolist()
