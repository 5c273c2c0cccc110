"""Compare operators that are imported as MPSGraph's own layers with the same nodes built step by step.

A clip value that no gate reaches makes the importer unroll a recurrent layer. Dynamic dimensions must stay dynamic.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.onnx_model import FLOAT, INT64, model, node, value
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 2, 4


def recurrent(op: str, known: bool, given: str, **attributes) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a model of one recurrent node and its feeds; `given` lists optional operands (B, L for lengths, S for
    states).
    """
    count, gates = 2 if attributes.get("direction") == "bidirectional" else 1, GATES[op]
    rng = np.random.default_rng(7)

    def numbers(*shape: int) -> np.ndarray:
        return np.float32(rng.normal(size=shape) * 0.5)

    batch_first = attributes.get("layout", 0)
    weights = {"W": numbers(count, gates * HIDDEN, INPUTS), "R": numbers(count, gates * HIDDEN, HIDDEN)}
    feeds = {"x": numbers(*((BATCH, STEPS) if batch_first else (STEPS, BATCH)), INPUTS)}
    inputs = [value("x", FLOAT, feeds["x"].shape if known else (None, None, INPUTS))]
    names = ["x", "W", "R", "", "", "", ""]
    if "B" in given:
        weights["B"], names[3] = numbers(count, 2 * gates * HIDDEN), "B"
    if "L" in given:
        feeds["lengths"], names[4] = np.int32([STEPS, 2, 0]), "lengths"
        inputs.append(value("lengths", TensorProto.INT32, (None,)))
    states = {"h": 5, "c": 6} if op == "LSTM" else {"h": 5}
    for name, i in states.items() if "S" in given else ():
        feeds[name], names[i] = numbers(*((BATCH, count) if batch_first else (count, BATCH)), HIDDEN), name
        inputs.append(value(name, FLOAT, feeds[name].shape))
    outputs = ["y", "y_h", "y_c"][: 2 + (op == "LSTM")]
    nodes = [node(op, names, outputs, hidden_size=HIDDEN, **attributes)]
    return model(nodes, inputs, [value(o, FLOAT, None) for o in outputs], weights, 22), feeds


def results_and_gradients(made: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    loaded = mg.onnx.load(made)
    g = loaded.graph
    loss = sum(g.reshape(g.reduction_sum(g.sin(y * 3)), ()) for y in loaded.outputs.values())
    by = {**loaded.parameters, **{name: x for name, x in loaded.inputs.items() if x.dtype.is_float}}
    gradients = g.gradients(loss, list(by.values()))
    wanted = {**loaded.outputs, **{f"d {name}": gradients[x] for name, x in by.items()}}
    results = g.run({x: feeds[name] for name, x in loaded.inputs.items()}, list(wanted.values()))
    return {name: results[x].numpy() for name, x in wanted.items()}


@pytest.mark.parametrize("given", ["", "BS", "BL", "BLS"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("RNN", {}),
        ("GRU", {}),
        ("GRU", {"linear_before_reset": 1}),
        ("GRU", {"layout": 1}),
        ("LSTM", {}),
        ("LSTM", {"layout": 1}),
    ],
)
def test_recurrent_onnx_operators_equal_their_unrolled_steps(op, attributes, direction, given):
    by_steps, feeds = recurrent(op, True, given, direction=direction, clip=1e9, **attributes)
    expected = results_and_gradients(by_steps, feeds)
    for known in (True, False):
        as_layer, _ = recurrent(op, known, given, direction=direction, **attributes)
        loaded = mg.onnx.load(as_layer)
        kinds = {operation.kind for operation in loaded.graph.operations}
        assert {"RNN": "single_gate_rnn", "GRU": "gru", "LSTM": "lstm"}[op] in kinds
        got = results_and_gradients(as_layer, feeds)
        assert got.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def test_recurrent_layer_accepts_sequences_of_any_length():
    made, feeds = recurrent("LSTM", False, "B")
    loaded = mg.onnx.load(made)
    assert loaded.inputs["x"].shape == (-1, -1, INPUTS)
    whole = loaded.run(feeds)["y"].numpy()
    np.testing.assert_allclose(loaded.run({"x": feeds["x"][:2]})["y"].numpy(), whole[:2], rtol=1e-5, atol=1e-6)


# --- images ---------------------------------------------------------------------------------------------------------
def test_resize_of_images_of_any_size_matches_reference():
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode="linear")]
    inputs = [value("x", FLOAT, ("n", 2, "h", "w"))]
    loaded = mg.onnx.load(
        model(nodes, inputs, [value("y", FLOAT, None)], {"scales": np.float32([1, 1, 2, 1.5])}), trainable=False
    )
    assert loaded.outputs["y"].shape == (-1, 2, -1, -1)
    for shape in ((1, 2, 2, 2), (3, 2, 4, 5)):
        x = np.float32(np.random.default_rng(0).normal(size=shape))
        fixed = model(
            nodes, [value("x", FLOAT, shape)], [value("y", FLOAT, None)], {"scales": np.float32([1, 1, 2, 1.5])}
        )
        expected = ReferenceEvaluator(fixed).run(None, {"x": x})[0]
        np.testing.assert_allclose(loaded(x), expected, rtol=1e-4, atol=1e-5)


def test_batch_of_resized_images_stays_dynamic():
    """Exporters write the target sizes as the operand's batch and channels followed by constants."""
    nodes = [
        node("Shape", ["x"], ["n_c"], start=0, end=2),
        node("Concat", ["n_c", "h_w"], ["sizes"], axis=0),
        node(
            "Resize", ["x", "", "", "sizes"], ["y"], coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        ),
    ]
    made = model(nodes, [value("x", FLOAT, ("n", 1, 2, 2))], [value("y", FLOAT, None)], {"h_w": np.int64([3, 4])})
    loaded = mg.onnx.load(made)
    assert loaded.outputs["y"].shape == (-1, 1, 3, 4)
    for n in (1, 2):
        x = np.float32(np.arange(n * 4)).reshape(n, 1, 2, 2)
        np.testing.assert_array_equal(loaded(x), x[:, :, [0, 0, 1]][..., [0, 0, 1, 1]])


def test_resize_accepts_fed_sizes():
    nodes = [node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")]
    inputs = [value("x", FLOAT, (1, 1, 2, 2)), value("sizes", INT64, (4,))]
    loaded = mg.onnx.load(model(nodes, inputs, [value("y", FLOAT, None)]))
    x = np.float32([[[[0, 4], [8, 12]]]])
    np.testing.assert_array_equal(loaded(x, np.int64([1, 1, 2, 4])).numpy()[0, 0, 0], [0, 1, 3, 4])
    np.testing.assert_array_equal(loaded(x, np.int64([2, 1, 2, 2])), np.concatenate([x, x]))  # Any axis can be resized.


# --- results of data-dependent size ---------------------------------------------------------------------------------
def test_non_zero_indices_have_dynamic_size():
    nodes = [node("NonZero", ["x"], ["places"]), node("Transpose", ["places"], ["rows"], perm=[1, 0])]
    nodes.append(node("GatherND", ["x", "rows"], ["y"]))
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, ("a", "b"))], [value("y", FLOAT, None)]))
    for x in (np.float32([[1, 0], [0, 2]]), np.zeros((2, 3), np.float32), np.float32([[0, 5, 6]])):
        np.testing.assert_array_equal(loaded(x), x[x != 0])
    x, y = loaded.inputs["x"], loaded.outputs["y"]
    gradient = loaded.graph.gradients(y * y, [x])[x]
    np.testing.assert_array_equal(loaded.graph.run({x: np.float32([[3, 0, -1]])}, gradient), [[6, 0, -2]])


@pytest.mark.parametrize("sort", [0, 1])
@pytest.mark.parametrize("x", [[], [3], [2, 2, 2], [3, 1, 3, 2, 1]])
def test_unique_supports_a_dynamic_number_of_elements(x, sort):
    names = ["y", "indices", "inverse", "counts"]
    loaded = mg.onnx.load(
        model(
            [node("Unique", ["x"], names, sorted=sort)],
            [value("x", INT64, ("n",))],
            [value("y", INT64, None), *(value(name, INT64, None) for name in names[1:])],
        )
    )
    x = np.int64(x)
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    if not sort:
        order = np.argsort(first)
        values, first, counts, inverse = values[order], first[order], counts[order], np.argsort(order)[inverse]
    for got, expected in zip(loaded(x), (values, first, inverse, counts), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("most", [0, 1, 2, 3, 10])
def test_non_max_suppression_limits_boxes_per_class(most):
    rng = np.random.default_rng(3)
    corner = rng.uniform(0, 1, (2, 8, 2))
    boxes = np.float32(np.concatenate([corner, corner + rng.uniform(0.1, 0.6, (2, 8, 2))], -1))
    scores = np.float32(rng.uniform(0, 1, (2, 3, 8)))
    constants = {"iou": np.float32([0.3]), "score": np.float32([0.2])}
    names = ["boxes", "scores", "most", "iou", "score"]
    inputs = [value("boxes", FLOAT, ("n", "b", 4)), value("scores", FLOAT, ("n", "c", "b")), value("most", INT64, (1,))]
    made = model([node("NonMaxSuppression", names, ["y"])], inputs, [value("y", INT64, None)], constants)
    feeds = {"boxes": boxes, "scores": scores, "most": np.int64([most])}
    expected = ReferenceEvaluator(made).run(None, feeds)[0]
    np.testing.assert_array_equal(mg.onnx.load(made).run(feeds)["y"].numpy(), expected.reshape(-1, 3))
    fixed = mg.onnx.load(made, values={"most": feeds.pop("most")})
    np.testing.assert_array_equal(fixed.run(feeds)["y"].numpy(), expected.reshape(-1, 3))


# --- indices smaller than the data ----------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(3, 4), ("a", "b")])
def test_gather_elements_accepts_indices_smaller_than_the_data(shape):
    x, index = np.float32(np.arange(12)).reshape(3, 4), np.int64([[0, -1, 2]])
    inputs = [value("x", FLOAT, shape), value("i", INT64, index.shape if shape == (3, 4) else ("c", "d"))]
    gathered = mg.onnx.load(model([node("GatherElements", ["x", "i"], ["y"])], inputs, [value("y", FLOAT, None)]))
    np.testing.assert_array_equal(gathered(x, index), [[0, 9, 10]])
    nodes = [node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add")]
    inputs.append(value("u", FLOAT, (None, None)))
    scattered = mg.onnx.load(model(nodes, inputs, [value("y", FLOAT, None)]))
    expected = x.copy()
    expected[[0, 2, 2], [0, 1, 2]] += 100
    np.testing.assert_array_equal(scattered(x, index, np.full((1, 3), 100, np.float32)), expected)


# --- sequences ------------------------------------------------------------------------------------------------------
def test_tensor_sequences_are_resolved_during_import():
    nodes = [
        node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=0),
        helper.make_node("SequenceInsert", ["parts", "x0", "zero"], ["more"]),
        helper.make_node("SequenceErase", ["more"], ["fewer"]),
        helper.make_node("SequenceLength", ["fewer"], ["n"]),
        helper.make_node("ConcatFromSequence", ["fewer"], ["y"], axis=-1, new_axis=1),
    ]
    made = model(
        nodes,
        [value("x", FLOAT, (3, 2)), value("x0", FLOAT, (2,))],
        [value("y", FLOAT, None), value("n", INT64)],
        {"zero": np.int64(0)},
    )
    loaded = mg.onnx.load(made)
    x, first = np.float32([[1, 2], [3, 4], [5, 6]]), np.float32([7, 8])
    y, count = loaded(x, first)
    assert y.tolist() == [[7, 1, 3], [8, 2, 4]] and count.item() == 3
    gradient = loaded.graph.gradients(loaded.outputs["y"], loaded.inputs["x"])[loaded.inputs["x"]]
    feeds = {loaded.inputs["x"]: x, loaded.inputs["x0"]: first}
    assert loaded.graph.run(feeds, gradient).tolist() == [[1, 1], [1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        ("Abs", ["parts"], "'parts' must be a tensor here, got a sequence"),
        ("SequenceAt", ["x", "far"], "'x', must be a sequence"),
        ("SequenceAt", ["parts", "far"], "index 9 is out of range for a sequence of length 3"),
        ("SequenceInsert", ["parts", "x", "far"], "insertion index 9 is out of range"),
        ("ConcatFromSequence", ["none"], "got an empty one"),
    ],
)
def test_invalid_sequence_operations_raise(op, inputs, message):
    attributes = {"axis": 0} if op == "ConcatFromSequence" else {}
    nodes = [node("SplitToSequence", ["x"], ["parts"]), node("SequenceEmpty", [], ["none"])]
    nodes.append(node(op, inputs, ["y"], **attributes))
    with pytest.raises(mg.Error, match=f"the_{op.lower()}.*{message}"):
        mg.onnx.load(model(nodes, [value("x", FLOAT, (3,))], [value("y", FLOAT, None)], {"far": np.int64(9)}))


def test_sequence_as_model_output_raises():
    nodes = [node("SplitToSequence", ["x"], ["parts"])]
    with pytest.raises(mg.UnsupportedError, match="'parts' must be a tensor here, got a sequence"):
        mg.onnx.load(model(nodes, [value("x", FLOAT, (3,))], [value("parts", FLOAT, None)]))


# --- forms written by PyTorch ---------------------------------------------------------------------------------------
def test_scalar_operands_are_treated_as_one_element_vectors():
    nodes = [
        node("TopK", ["x", "one"], ["best", "at"], axis=0),
        node("GatherElements", ["x", "zero"], ["gathered"]),
        node("ScatterElements", ["x", "zero", "x"], ["doubled"], reduction="add"),
        node("ReduceProd", ["x", "axis"], ["product"], keepdims=0),
    ]
    constants = {"one": np.int64([1]), "zero": np.int64(0), "axis": np.int64([0])}
    names = ("best", "gathered", "doubled", "product")
    loaded = mg.onnx.load(model(nodes, [value("x")], [value(name) for name in names], constants))
    results = loaded(np.float32(3))
    assert [r.shape for r in results] == [()] * 4 and [r.item() for r in results] == [3, 3, 6, 3]


def test_wrap_padding_excludes_elements_cropped_by_negative_pads():
    nodes = [node("Pad", ["x", "pads"], ["y"], mode="wrap")]
    made = model(nodes, [value("x", FLOAT, (4,))], [value("y", FLOAT, None)], {"pads": np.int64([-2, 1])})
    assert mg.onnx.load(made)(np.float32([1, 2, 3, 4])).tolist() == [3, 4, 3]
