"""Test operators on inputs of dynamic size: for all sizes, one graph must give the results of models with static sizes.

Operators on static sizes have their cases in conformance/.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.device import MISSING
from harness.onnx_model import BOOL, FLOAT, INT64, model, node, value
from onnx import helper, numpy_helper

pytestmark = pytest.mark.both_devices

IMAGE = ("n", 2, "h", "w")


def open_and_known(nodes, shapes, fed, initialisers=None, opset=22):
    """Return the results of a model with dynamic shapes, which must not be deferred, and of a model with the shapes of
    the feeds.
    """
    results = []
    for known in (False, True):
        inputs = []
        for name, array in fed.items():
            integer = array.dtype == np.int64
            constant = known and integer
            if not constant:
                shape = array.shape if known else shapes[name]
                inputs.append(value(name, INT64 if integer else FLOAT, shape))
        constants = {name: a for name, a in fed.items() if known and a.dtype == np.int64}
        made = model(nodes, inputs, [value("y", FLOAT, None)], {**(initialisers or {}), **constants}, opset)
        loaded = mg.onnx.load(made)
        assert type(loaded) is mg.Model
        results.append(loaded.run({name: fed[name] for name in loaded.inputs})["y"].numpy())
    return results


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def same(nodes, shapes, fed, initialisers=None, opset=22):
    got, expected = open_and_known(nodes, shapes, fed, initialisers, opset)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [(1, 2, 6, 7), (2, 2, 9, 8), (1, 2, 3, 4)])
@pytest.mark.parametrize(
    ("op", "more"),
    [
        ("MaxPool", {}),
        ("AveragePool", {}),
        ("AveragePool", {"pads": [1, 0, 1, 1]}),
        ("AveragePool", {"pads": [1, 0, 1, 1], "count_include_pad": 1}),
        ("LpPool", {"pads": [1, 1, 1, 1]}),
        ("MaxPool", {"dilations": [1, 2], "pads": [0, 2, 1, 2]}),
    ],
)
def test_onnx_pooling_with_ceil_mode_matches_reference(op, more, size):
    nodes = [node(op, ["x"], ["y"], **{"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, **more})]
    same(nodes, {"x": IMAGE}, {"x": image(*size)})


def test_pooling_window_starting_in_padding_defers_the_import():
    nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[3, 3], pads=[0, 0, 1, 1], ceil_mode=1)]
    made = model(nodes, [value("x", FLOAT, IMAGE)], [value("y", FLOAT, None)])
    assert isinstance(mg.onnx.load(made), mg.onnx.DeferredModel)


def test_max_pooling_indices_of_dynamic_sizes_match_reference():
    nodes = [
        node("MaxPool", ["x"], ["values", "places"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Cast", ["places"], ["y"], to=FLOAT),
    ]
    same(nodes, {"x": IMAGE}, {"x": image(2, 2, 5, 6)})


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [(0, 0, 2, 1, 0, 0, 1, 3), (0, 0, -1, 2, 0, 0, 2, -1), (0, 1, 0, 0, 0, 0, 0, 0)])
def test_fed_pads_match_static_pads(mode, pads):
    x = image(1, 2, 4, 5)
    fed = {"x": x, "pads": np.int64(pads)}
    same([node("Pad", ["x", "pads"], ["y"], mode=mode)], {"x": IMAGE, "pads": (8,)}, fed)


@pytest.mark.parametrize("mode", ["reflect", "edge"])
@pytest.mark.parametrize("size", [(5, 7), (8, 4), (3, 3)])
def test_pads_computed_from_dynamic_shape_match_reference(mode, size):
    constants = {"four": np.int64([4, 4]), "none": np.int64([0] * 6)}
    nodes = [
        node("Shape", ["x"], ["size"], start=2),
        node("Mod", ["size", "four"], ["rest"]),
        node("Sub", ["four", "rest"], ["missing"]),
        node("Mod", ["missing", "four"], ["behind"]),
        node("Concat", ["none", "behind"], ["pads"], axis=0),
        node("Pad", ["x", "pads"], ["y"], mode=mode),
    ]
    x = image(1, 2, *size)
    got, expected = open_and_known(nodes, {"x": IMAGE}, {"x": x}, constants)
    np.testing.assert_array_equal(got, expected)
    behind = [-n % 4 for n in size]
    np.testing.assert_array_equal(got, np.pad(x, ((0, 0), (0, 0), (0, behind[0]), (0, behind[1])), mode))


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align_of_dynamic_image_size_matches_reference(mode, ratio):
    regions = {"r": np.float32([[0, 0, 4, 5], [1, 2, 6.5, 9], [-3, -1, 2, 30]]), "b": np.int64([0, 1, 1])}
    nodes = [node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=3, mode=mode, sampling_ratio=ratio)]
    same(nodes, {"x": IMAGE}, {"x": image(2, 2, 7, 9)}, regions)


def test_deformable_convolution_of_dynamic_image_size_matches_reference():
    w = {"w": image(3, 2, 3, 3)}
    offsets = 2 * image(1, 18, 4, 5)
    shapes = {"x": IMAGE, "o": ("n", 18, "a", "b")}
    same([node("DeformConv", ["x", "w", "o"], ["y"])], shapes, {"x": image(1, 2, 6, 7), "o": offsets}, w)


def test_reverse_sequence_of_dynamic_length_matches_reference():
    nodes = [node("ReverseSequence", ["x", "lengths"], ["y"], time_axis=1, batch_axis=0)]
    fed = {"x": image(2, 4, 3)}
    same(nodes, {"x": ("n", "t", 3)}, fed, {"lengths": np.int64([3, 2])})


# --- loops --------------------------------------------------------------------------------------------------------
def body(condition: str = "Identity", grows: bool = False) -> onnx.GraphProto:
    """Return a loop body that computes a = 2 a + i in iteration i and stacks the squares."""
    ends = [helper.make_node("Constant", [], ["on"], value=numpy_helper.from_array(np.array(False)))]
    nodes = [
        *(ends if condition == "ends" else [helper.make_node("Identity", ["going"], ["on"])]),
        helper.make_node("Cast", ["i"], ["number"], to=FLOAT),
        helper.make_node("Add", ["a", "a"], ["twice"]),
        helper.make_node("Add", ["twice", "number"], ["sum"]),
        helper.make_node("Mul", ["sum", "sum"], ["kept"]),
        helper.make_node("Concat", ["sum", "sum"], ["next"], axis=0) if grows
        else helper.make_node("Identity", ["sum"], ["next"]),
    ]  # fmt: skip
    inputs = [value("i", INT64), value("going", BOOL), value("a", FLOAT, (None,))]
    return helper.make_graph(nodes, "body", inputs, [value("on", BOOL), value("next"), value("kept")])


def looped(**of_body):
    nodes = [
        node("Shape", ["x"], ["size"], start=0, end=1),
        node("Squeeze", ["size"], ["times"]),
        node("Loop", ["times", "yes", "a"], ["last", "y"], body=body(**of_body)),
    ]
    inputs, constants = [value("x", FLOAT, ("n",))], {"yes": np.array(True), "a": np.float32([1, 2])}
    return mg.onnx.load(model(nodes, inputs, [value("last", FLOAT, None), value("y", FLOAT, None)], constants))


def iterations(times: int):
    a, kept = np.float32([1, 2]), []
    for i in range(times):
        a = 2 * a + i
        kept.append(a * a)
    return a, np.reshape(kept, (times, 2))


@pytest.mark.parametrize("times", [3, 1, 0, 6])
def test_loop_count_can_be_the_length_of_an_input(times):
    loaded = looped()
    assert type(loaded) is mg.Model and loaded.outputs["y"].shape == (-1, 2)
    for got, expected in zip(loaded(np.zeros(times, np.float32)), iterations(times), strict=True):
        np.testing.assert_array_equal(got.numpy(), expected)


def test_loop_ends_when_the_body_sets_its_condition():
    last, kept = looped(condition="ends")(np.zeros(5, np.float32))
    assert last.tolist() == [2, 4] and kept.tolist() == [[4, 16]]


def test_loop_with_growing_values_is_unrolled_at_run_time():
    nodes = [node("Loop", ["times", "yes", "a"], ["y", "kept"], body=body(grows=True))]
    nodes[0].attribute[0].g.output.pop()  # Without stacked values, shapes may differ between iterations.
    nodes[0].output.pop()
    nodes.insert(0, node("Squeeze", ["size"], ["times"]))
    nodes.insert(0, node("Shape", ["x"], ["size"], start=0, end=1))
    made = model(nodes, [value("x", FLOAT, ("n",))], [value("y", FLOAT, None)],
                 {"yes": np.array(True), "a": np.float32([1])})  # fmt: skip
    loaded = mg.onnx.load(made)
    assert loaded(np.zeros(2, np.float32)).tolist() == [5, 5, 5, 5]


@pytest.mark.parametrize("steps", [4, 1])
def test_scan_of_dynamic_length_matches_reference(steps):
    inner = helper.make_graph(
        [helper.make_node("Add", ["a", "e"], ["b"]), helper.make_node("Mul", ["b", "e"], ["k"])],
        "sum", [value("a", FLOAT, (2,)), value("e", FLOAT, (2,))], [value("b", FLOAT, (2,)), value("k", FLOAT, (2,))],
    )  # fmt: skip
    how = {"scan_input_axes": [1], "scan_output_axes": [-1]}
    how |= {"scan_input_directions": [1], "scan_output_directions": [1]}
    nodes = [node("Scan", ["a", "x"], ["last", "y"], body=inner, num_scan_inputs=1, **how)]
    x = image(2, steps)
    same(nodes, {"x": (2, "t")}, {"x": x}, {"a": np.float32([1, 2])})


# --- signals ------------------------------------------------------------------------------------------------------
# Transforms use float64, which device metal does not support.
WHOLE = pytest.mark.skipif("float64" in MISSING, reason="signal transforms use float64")


@WHOLE
@pytest.mark.parametrize("samples", [16, 19])
@pytest.mark.parametrize("onesided", [0, 1])
def test_short_time_fourier_transform_matches_reference(onesided, samples):
    constants = {"step": np.int64(4), "window": np.float32(np.hanning(8))}
    nodes = [node("STFT", ["x", "step", "window"], ["y"], onesided=onesided)]
    same(nodes, {"x": ("n", "t", 1)}, {"x": image(2, samples, 1)}, constants)


@WHOLE
def test_fourier_transform_of_dynamic_length_matches_reference():
    nodes = [node("DFT", ["x", "", "axis"], ["y"], onesided=1)]
    same(nodes, {"x": ("n", "t", 1)}, {"x": image(2, 9, 1)}, {"axis": np.int64(1)})
