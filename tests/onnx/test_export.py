"""Export every layer of docs/layers.md to ONNX, run the checker, compare values, and import the file again.

Values are compared with the reference evaluator of the onnx package, which is independent of mpsgraph. Batch, image,
and sequence sizes are dynamic, and each model runs at two sizes.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.exported_layers import LAYERS, built, values_like
from harness.exports import listed, what_outputs_need, without_description
from onnx.reference import ReferenceEvaluator


@pytest.mark.parametrize(("make", "shapes", "sizes", "dtype"), LAYERS)
def test_exported_onnx_layers_match_reference_and_reimport(make, shapes, sizes, dtype):
    module, state = built(make, shapes, dtype)
    proto = mg.onnx.export(module, inputs={f"x{i}": (shape, dtype) for i, shape in enumerate(shapes)})
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    for path, value in state.items():
        np.testing.assert_array_equal(stored[path], value, err_msg=path)
    back, plain = mg.onnx.load(proto), mg.onnx.load(without_description(proto))
    for read in (back, plain):
        assert set(state) == set(read.parameters), "weights must keep their names"
        assert {t.name for t in read.graph.trainable_variables} == {name for name, _ in module.named_parameters()}
        assert [tuple(t.shape) for t in read.inputs.values()] == [tuple(s) for s in shapes], (
            "dynamic dimensions must stay dynamic"
        )
    reference = ReferenceEvaluator(proto)
    both = getattr(module, "directions", 1) == 2
    graph, twin = mg.Graph(), make().eval()
    placeholders = [graph.placeholder(shape, dtype) for shape in shapes]
    twin.load_state_dict(state)
    result = twin(*placeholders)
    for size, batch in zip(sizes, (2, 3), strict=False):
        arrays = values_like(shapes, size, dtype, batch)
        wanted = graph.run(dict(zip(placeholders, arrays, strict=True)), result).numpy()
        feeds = {f"x{i}": array for i, array in enumerate(arrays)}
        if not both:  # The reference evaluator supports recurrent layers of one direction only.
            np.testing.assert_allclose(reference.run(None, feeds)[0], wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(plain(*arrays).numpy(), wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(back(*arrays).numpy(), wanted)
    assert listed(back.graph.operations) == what_outputs_need({"output": result})


def test_export_error_lists_all_unsupported_operations_and_writes_no_file(tmp_path):
    g = mg.Graph()
    x = g.placeholder((2, 3), name="x")
    bits = g.bitwise_population_count(g.cast(x[:, :2], "int32"), name="second")
    y = g.matrix_inverse(x[:, :2], name="first") + g.cast(bits, "float32")
    path = tmp_path / "model.onnx"
    with pytest.raises(mg.errors.UnsupportedError, match="(?s)2 operations.*'second'.*'first'"):
        mg.onnx.export(g, path, inputs={"x": x}, outputs={"y": y})
    assert not list(tmp_path.iterdir())
    shrunk = mg.python_operation("own.softshrink", lambda x: x)(x, name="shrunk")
    (inside,) = g.if_(g.reduction_or(x > 0), lambda: mg.python_operation("own.hidden", lambda x: x)(x), lambda: x)
    with pytest.raises(mg.errors.UnsupportedError, match="(?s)2 operations.*own.softshrink 'shrunk'.*own.hidden"):
        mg.onnx.export(g, path, inputs={"x": x}, outputs={"y": shrunk + 1, "z": inside})
    assert not list(tmp_path.iterdir())
    with pytest.raises(mg.errors.UnsupportedError, match="'x'.*is not an input"):
        mg.onnx.export(g, inputs={}, outputs={"y": x + 1})
    with pytest.raises(mg.errors.UnsupportedError, match="opset must be between 18 and 23, got 17"):
        mg.onnx.export(g, path, 17, inputs={"x": x}, outputs={"y": x})


@pytest.mark.parametrize("opset", [18, 21, 23])
def test_channels_first_graph_round_trips_unchanged(opset, tmp_path):
    g = mg.Graph()
    x = g.placeholder((-1, 3, 8, 8), name="images")
    w = g.variable(np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32), name="weights")
    y = g.relu(g.convolution2d(x, w, data_layout="NCHW", weights_layout="OIHW"))
    mg.onnx.export(mg.Model(g, {"images": x}, {"features": y}), tmp_path / "model.onnx", opset)
    back = mg.onnx.load(tmp_path / "model.onnx")

    def kinds(graph):
        return sorted(operation.kind for operation in graph.operations)

    assert kinds(back.graph) == kinds(g)
    assert (
        list(back.inputs) == ["images"] and list(back.outputs) == ["features"] and list(back.parameters) == ["weights"]
    )
    again = mg.onnx.export(back, opset=opset)
    assert [n.op_type for n in again.graph.node] == [n.op_type for n in onnx.load(tmp_path / "model.onnx").graph.node]


def test_exported_branch_can_use_outer_tensors():
    g = mg.Graph()
    flag, x = g.placeholder((), "bool", "flag"), g.placeholder((-1,), name="x")
    y = g.if_(flag, lambda: x * g.constant([2.0]), lambda: x - 1.0)[0]
    proto = mg.onnx.export(g, inputs={"flag": flag, "x": x}, outputs={"y": y})
    for value, wanted in ((True, [2, 4]), (False, [0, 1])):
        result = ReferenceEvaluator(proto).run(None, {"flag": np.array(value), "x": np.float32([1, 2])})
        assert result[0].tolist() == wanted


def test_moving_averages_are_not_trainable_after_import():
    model = mg.nn.Sequential(mg.nn.BatchNorm())
    back = mg.onnx.load(mg.onnx.export(model, inputs={"x": (-1, 5)}))
    assert len(back.parameters) == 4 and len(back.graph.trainable_variables) == 2


@pytest.mark.parametrize("align_corners", [False, True])
def test_export_of_resize_with_explicit_scales_ignores_align_corners_like_the_operation(align_corners):
    g = mg.Graph()
    x = g.placeholder((2, 3), name="x")
    y = g.resize_bilinear(x, (3, 4), align_corners=align_corners, layout="HW", scale=[1.5, 1.5], offset=[0.25, 0.25])
    images = np.float32([[0, 1, 3], [2, 7, 4]])
    proto = mg.onnx.export(g, inputs={"x": x}, outputs={"y": y})
    result = ReferenceEvaluator(proto).run(None, {"x": images})[0]
    np.testing.assert_allclose(result, g.run({x: images}, y).numpy(), atol=1e-6)
