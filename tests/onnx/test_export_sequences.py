"""Test that importing an exported file restores the graph, for layers with masks, lengths, caches, states, and loops.

With mpsgraph's description in the file, the import equals the original operation by operation. Without the description,
as in a file of another program, the values are equal. tests/onnx_runtime runs the same models in ONNX Runtime.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness.exports import MODELS, SIZES, listed, what_outputs_need, without_description


@pytest.mark.parametrize("name", MODELS)
def test_importing_exported_onnx_restores_the_graph(name):
    model = MODELS[name]
    graph, inputs, outputs = model.build()
    proto = mg.onnx.export(graph, inputs=inputs, outputs=outputs)
    back, plain = mg.onnx.load(proto), mg.onnx.load(without_description(proto))
    assert listed(back.graph.operations) == what_outputs_need(outputs)
    assert list(back.inputs) == list(plain.inputs) == list(inputs)
    assert [t.shape for t in back.inputs.values()] == [t.shape for t in inputs.values()], (
        "dynamic dimensions must stay dynamic"
    )
    kept = {v.name for v in graph.variables if v.name != "random_state"}
    assert set(back.parameters) == kept
    assert {v.name for v in back.graph.trainable_variables} == {v.name for v in graph.trainable_variables}
    for batch, steps in SIZES[: 1 if name.startswith("attention") else 2]:
        arrays = model.arrays(inputs, batch, steps)
        wanted = graph.run({inputs[key]: array for key, array in arrays.items()}, list(outputs.values()))
        same, close = back.run(arrays), plain.run(arrays)
        for key, tensor in outputs.items():
            np.testing.assert_array_equal(same[key].numpy(), wanted[tensor].numpy(), err_msg=key)
            np.testing.assert_allclose(close[key].numpy(), wanted[tensor].numpy(), rtol=1e-5, atol=1e-5, err_msg=key)


def test_exported_cache_becomes_input_output_and_is_imported_as_state():
    graph, inputs, outputs = MODELS["cache-grouped"].build()
    proto = mg.onnx.export(graph, inputs=inputs, outputs=outputs)
    caches = [v.name for v in graph.variables if "cache" in v.name]
    assert [i.name for i in proto.graph.input] == ["x", "position", *caches]
    assert [o.name for o in proto.graph.output] == ["y", *(f"{name}_next" for name in caches)]
    steps = np.random.default_rng(0).normal(size=(2, 6, 8)).astype(np.float32)
    whole = graph.run({inputs["x"]: steps, inputs["position"]: np.int32([0])}, outputs["y"]).numpy()
    for model in (mg.onnx.load(proto), mg.onnx.load(without_description(proto))):
        assert list(model.outputs) == ["y"]
        first, then = (
            model(x=steps[:, at], position=np.int32([p])).numpy() for at, p in ((slice(4), 0), (slice(4, 6), 4))
        )
        np.testing.assert_allclose(np.concatenate([first, then], 1), whole, rtol=1e-5, atol=1e-6)
    again = mg.onnx.export(mg.onnx.load(proto))
    assert [n.op_type for n in again.graph.node] == [n.op_type for n in proto.graph.node]


def test_updates_are_exported():
    g = mg.Graph()
    x, total = g.placeholder((2,), name="x"), g.variable(np.float32([1, 2]), name="total", trainable=False)
    y = total * 2.0
    proto = mg.onnx.export(g, inputs={"x": x}, outputs={"y": y}, updates=[g.assign(total, total + x)])
    for model in (mg.onnx.load(proto), mg.onnx.load(without_description(proto))):
        assert model(np.float32([1, 1])).tolist() == [2, 4] and model(np.float32([1, 1])).tolist() == [4, 6]


def test_edited_onnx_file_is_imported_with_its_edits():
    g = mg.Graph()
    x = g.placeholder((-1, 2), name="x")
    proto = mg.onnx.export(
        g, inputs={"x": x}, outputs={"y": g.relu(x @ g.variable(np.eye(2, dtype=np.float32), name="w"))}
    )
    proto.graph.initializer[0].raw_data = np.float32([[2, 0], [0, 2]]).tobytes()
    assert mg.onnx.load(proto)(np.float32([[1, -1]])).tolist() == [[2, 0]], "edited weights must take effect"
    proto.graph.node[-1].op_type = "Neg"
    assert mg.onnx.load(proto)(np.float32([[1, -1]])).tolist() == [[-2, 2]]


def test_inconsistent_graph_description_raises():
    g = mg.Graph()
    x = g.placeholder((-1, 2), name="x")
    proto = mg.onnx.export(g, inputs={"x": x}, outputs={"y": g.relu(x)})
    (entry,) = (entry for entry in proto.metadata_props if entry.key == "mpsgraph.graph")
    text = entry.value
    for wrong, error in (
        (text.replace('"relu"', '"fused_elementwise"'), "unknown operation kind 'fused_elementwise'"),
        (text.replace('"inputs":[0]', '"inputs":[7]'), "is malformed"),
        (text.replace('"outputs":{"y":1}', '"outputs":{"y":"?"}'), "is malformed"),
    ):
        assert wrong != text
        entry.value = wrong
        with pytest.raises(mg.errors.GraphError, match=error):
            mg.onnx.load(proto)
    entry.value = "no JSON"
    assert mg.onnx.load(proto)(np.float32([[1, -1]])).tolist() == [[1, 0]]


def test_exported_module_names_its_lengths_cache_and_states():
    layer = mg.nn.LSTM(3)
    inputs = {"x": (-1, -1, 4), "state": ((1, -1, 3), (1, -1, 3)), "lengths": ((-1,), "int32")}
    back = mg.onnx.load(mg.onnx.export(layer, inputs=inputs, method="with_state"))
    assert list(back.inputs) == ["x", "state_0", "state_1", "lengths"]
    assert list(back.outputs) == ["output_0", "output_1_0", "output_1_1"]
    attention = mg.nn.MultiheadAttention(8, 2)
    like = mg.nn.KeyValueCache(1, 16, mg.Graph().placeholder((1,), mg.int32))
    back = mg.onnx.load(mg.onnx.export(attention, inputs={"x": (1, -1, 8), "cache": like}))
    assert list(back.inputs) == ["x", "position"]
    with pytest.raises(mg.errors.GraphError, match="no method 'nothing'"):
        mg.onnx.export(layer, inputs=inputs, method="nothing")


def test_called_graphs_are_inlined_on_export():
    inner, outer = mg.Graph(), mg.Graph()
    a, x = inner.placeholder((2,), name="a"), outer.placeholder((2,), name="x")
    model = mg.Model(inner, {"a": a}, {"b": a * inner.variable(np.float32([3, 4]), name="weights")})
    (once,) = outer.call("scaled", [x], [((2,), mg.float32)])
    (twice,) = outer.call("scaled", [once], [((2,), mg.float32)])
    with pytest.raises(mg.errors.UnsupportedError, match="callables="):
        mg.onnx.export(outer, inputs={"x": x}, outputs={"y": twice})
    proto = mg.onnx.export(outer, inputs={"x": x}, outputs={"y": twice}, callables={"scaled": model})
    assert [t.name for t in proto.graph.initializer] == ["scaled/weights"]
    assert mg.onnx.load(proto)(np.float32([1, 1])).tolist() == [9, 16]


def test_variable_assigned_in_a_branch_cannot_be_exported():
    g = mg.Graph()
    flag, v = g.placeholder((), mg.bool_, "flag"), g.variable(np.float32([1]), name="v")
    y = g.if_(flag, lambda: g.control_dependency([g.assign(v, v + 1)], lambda: g.read(v)), lambda: g.read(v))[0]
    with pytest.raises(mg.errors.UnsupportedError, match="in a branch"):
        mg.onnx.export(g, inputs={"flag": flag}, outputs={"y": y})


def test_random_operations_round_trip_through_onnx():
    g = mg.Graph(seed=5)
    x = g.placeholder((-1, 3), name="x")
    y = x + g.random_normal(g.shape_of(x), 1.0, 0.5) + g.random_uniform((3,), 2.0, 3.0)
    proto = mg.onnx.export(g, inputs={"x": x}, outputs={"y": y})
    assert {"RandomNormalLike", "RandomUniform"} <= {n.op_type for n in proto.graph.node}
    zeros = np.zeros((1000, 3), np.float32)
    wanted = g.run({x: zeros}, y).numpy()
    np.testing.assert_array_equal(mg.onnx.load(proto)(zeros).numpy(), wanted)
    drawn = mg.onnx.load(without_description(proto))(zeros).numpy()
    assert not np.array_equal(drawn, wanted) and np.abs(drawn.std(0) - 0.5).max() < 0.05
    with pytest.raises(mg.errors.UnsupportedError, match="truncated normal"):
        mg.onnx.export(g, outputs={"y": g.random_truncated_normal((3,))})
