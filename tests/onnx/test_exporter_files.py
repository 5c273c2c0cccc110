"""Test ONNX files in the forms that exporters and converters write.

Hard-coded results are from PyTorch 2.13 for operations that PyTorch has, and otherwise from ONNX Runtime 1.32.
"""

from __future__ import annotations

import gc
import sys

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.device import OLD_SYSTEM, needs_newer
from harness.onnx_model import BOOL, FLOAT, INT64, model, node, value
from mpsgraph.tool import main as tool
from onnx import helper, numpy_helper

LARGEST = 2**63 - 1  # Exporters write this bound to mean the end of the axis.


def constant(name: str, array) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array)))


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


# --- branches -------------------------------------------------------------------------------------------------------
def padding_branch(name: str, columns: int) -> onnx.GraphProto:
    """Return a branch that pads the rows of x on both sides, with the pads computed as PyTorch's exporter does."""
    constants = {
        "pairs": np.int64([columns, columns, 0, 0]),
        "two": np.int64([-1, 2]),
        "last": np.int64([-1]),
        "front": np.int64([-LARGEST]),
        "axis": np.int64([0]),
        "middle": np.int64([columns]),
        "end": np.int64([columns + 5]),
        "one": np.int64([1]),
    }
    n = {key: f"{name}_{key}" for key in (*constants, "rows", "turned", "columns", "flat", "pads", "padded", "y")}
    nodes = [constant(n[key], array) for key, array in constants.items()]
    nodes += [
        helper.make_node("Reshape", [n["pairs"], n["two"]], [n["rows"]]),
        helper.make_node("Slice", [n["rows"], n["last"], n["front"], n["axis"], n["last"]], [n["turned"]]),
        helper.make_node("Transpose", [n["turned"]], [n["columns"]], perm=[1, 0]),
        helper.make_node("Reshape", [n["columns"], n["last"]], [n["flat"]]),
        helper.make_node("Cast", [n["flat"]], [n["pads"]], to=INT64),
        helper.make_node("Pad", ["x", n["pads"]], [n["padded"]], mode="reflect"),
        helper.make_node("Slice", [n["padded"], n["middle"], n["end"], n["one"]], [n["y"]]),
    ]
    return helper.make_graph(nodes, name, [], [value(n["y"], FLOAT, None)])


def test_constants_within_branches_are_folded():
    nodes = [node("If", ["c"], ["y"], then_branch=padding_branch("t", 1), else_branch=padding_branch("e", 2))]
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, ("n", 6)), value("c", BOOL)], [value("y", FLOAT, None)]))
    assert type(loaded) is mg.Model
    x = np.float32(np.arange(12)).reshape(2, 6)
    for c in (True, False):
        np.testing.assert_array_equal(loaded(x, np.array(c)), x[:, :5])


def test_branch_with_invalid_shapes_raises_only_when_taken():
    """PyTorch's squeeze drops axis 0 if its size is 1; the other branch requires the original rank."""
    fits = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["t"])], "then", [], [value("t", FLOAT, None)])
    other = helper.make_graph([helper.make_node("MatMul", ["x", "v"], ["e"])], "else", [], [value("e", FLOAT, None)])
    nodes = [node("If", ["c"], ["y"], then_branch=fits, else_branch=other)]
    weights = {"w": ones(3, 2), "v": ones(4, 2)}
    made = model(nodes, [value("x", FLOAT, (1, 3)), value("c", BOOL)], [value("y", FLOAT, None)], weights)
    loaded = mg.onnx.load(made)
    np.testing.assert_array_equal(loaded(ones(1, 3), np.array(True)), [[3, 3]])
    with pytest.raises(mg.ShapeError):
        loaded(ones(1, 3), np.array(False))


def squeezed(axis: int, *behind: onnx.NodeProto, opset: int = 21, shape=("n", 3, "m")) -> onnx.ModelProto:
    """Return a model that squeezes an axis of x into s if its size is 1, as PyTorch does, and then runs `behind`."""
    axes = {"axes": [axis]} if opset < 13 else {}
    operands = ["x"] if axes else ["x", "t_axis"]
    taken = [constant("t_axis", np.int64([axis])), helper.make_node("Squeeze", operands, ["t"], name="goes", **axes)]
    left = [helper.make_node("Identity", ["x"], ["e"])]
    nodes = [
        constant("axis", np.int64([axis])),
        constant("one", np.int64([1])),
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "axis"], ["size"], axis=0),
        node("Equal", ["size", "one"], ["c"]),
        node(
            "If",
            ["c"],
            ["s"],
            then_branch=helper.make_graph(taken, "then", [], [value("t", FLOAT, None)]),
            else_branch=helper.make_graph(left, "else", [], [value("e", FLOAT, None)]),
        ),
        *behind,
    ]
    return model(nodes, [value("x", FLOAT, shape)], [value("y", FLOAT, None)], {"w": ones(3, 2)}, opset=opset)


@pytest.mark.both_devices
@pytest.mark.parametrize("opset", [11, 21])
def test_conditional_squeeze_is_assumed_if_only_its_branch_is_valid(opset):
    loaded = mg.onnx.load(squeezed(-1, node("Gemm", ["s", "w"], ["y"]), opset=opset))
    assert type(loaded) is mg.Model and loaded.outputs["y"].shape == (-1, 2)
    np.testing.assert_array_equal(loaded(ones(4, 3, 1)), np.full((4, 2), 3))
    with pytest.raises(
        mg.ShapeError, match=r"\[squeeze\] only axes of size 1 can be squeezed, got axis 2 of size 5.*'goes'"
    ):
        loaded(ones(4, 3, 5))


def test_squeeze_that_a_later_node_needs_is_confirmed_in_a_single_import(monkeypatch):
    from mpsgraph.onnx.building.importer import NodeImporter

    imports, run = [], NodeImporter.run
    monkeypatch.setattr(NodeImporter, "run", lambda self: (imports.append(self), run(self))[1])
    loaded = mg.onnx.load(squeezed(-1, node("Gemm", ["s", "w"], ["y"])))
    assert type(loaded) is mg.Model and len(imports) == 1
    assert list(loaded.parameters) == ["w"] and len(loaded.graph.variables) == 1
    kinds = [operation.kind for operation in loaded.graph.operations]
    assert kinds.count("matrix_multiplication") == 1, "the discarded translation must not stay in the graph"


@pytest.mark.both_devices
def test_conditional_squeeze_is_deferred_if_both_branches_are_valid():
    loaded = mg.onnx.load(squeezed(-1, node("Relu", ["s"], ["y"])))
    assert isinstance(loaded, mg.onnx.DeferredModel)
    assert loaded(ones(4, 3, 1)).shape == (4, 3) and loaded(ones(4, 3, 5)).shape == (4, 3, 5)


def test_squeeze_conditional_on_a_different_axis_is_not_assumed():
    """If the condition tests a different axis, the squeezed axis has size 1 only by coincidence."""
    made = squeezed(-1, node("Gemm", ["s", "w"], ["y"]), shape=("n", 3, "m"))
    made.graph.node[0].attribute[0].CopyFrom(constant("", np.int64([0])).attribute[0])
    assert isinstance(mg.onnx.load(made), mg.onnx.DeferredModel)


@pytest.mark.both_devices
def test_branches_for_other_input_sizes_are_ignored_at_run_time():
    """Each branch expects signals of one length, as in models for two sampling rates."""

    def of_length(name: str, length: int) -> onnx.GraphProto:
        nodes = [
            constant(f"{name}_shape", np.int64([1, length])),
            helper.make_node("Reshape", ["x", f"{name}_shape"], [f"{name}_r"]),
            helper.make_node("ReduceSum", [f"{name}_r"], [f"{name}_y"]),
        ]
        return helper.make_graph(nodes, name, [], [value(f"{name}_y", FLOAT, None)])

    nodes = [
        constant("rate", np.int64(16)),
        node("Equal", ["sr", "rate"], ["c"]),
        node("If", ["c"], ["y"], then_branch=of_length("t", 6), else_branch=of_length("e", 3)),
    ]
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, (1, "n")), value("sr", INT64)], [value("y", FLOAT, None)]))
    assert type(loaded) is mg.Model
    for _ in range(2):
        assert float(loaded(ones(1, 6), np.array(16)).numpy().item()) == 6
        assert float(loaded(ones(1, 3), np.array(8)).numpy().item()) == 3
        with pytest.raises(mg.ShapeError, match="reshape"):
            loaded(ones(1, 6), np.array(8))


# --- limits ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("most", [LARGEST, 2**32, 2**31, 1])
def test_non_max_suppression_accepts_huge_output_limit(most, fed):
    boxes = np.float32([[[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3], [5, 5, 6, 6]]])
    scores = np.float32([[[0.5, 0.9, 0.8, 0.1]]])
    names = ["boxes", "scores", "most", "iou", "score"]
    constants = {"iou": np.float32([0.5]), "score": np.float32([0.2])}
    inputs = [value("boxes", FLOAT, (1, "n", 4)), value("scores", FLOAT, (1, 1, "n"))]
    inputs += [value("most", INT64, (1,))] if fed else []
    constants |= {} if fed else {"most": np.int64([most])}
    loaded = mg.onnx.load(
        model([node("NonMaxSuppression", names, ["y"])], inputs, [value("y", INT64, None)], constants)
    )
    feeds = {"boxes": boxes, "scores": scores} | ({"most": np.int64([most])} if fed else {})
    assert loaded.run(feeds)["y"].tolist() == [[0, 0, 1], [0, 0, 2]][:most]


@pytest.mark.parametrize("how", ["known", "unknown size", "fed"])
@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, LARGEST, 1, [0, 1, 2, 3, 4]),
        (-LARGEST, LARGEST, 2, [0, 2, 4]),
        (LARGEST, -LARGEST, -1, [4, 3, 2, 1, 0]),
        (LARGEST, LARGEST, 1, []),
        (2**31, 2**33, 1, []),
        (-9, 2, 1, [0, 1]),
        # Backward from before the start: the first element, where Python would return nothing.
        (-9, -LARGEST, -1, [0]),
        (-5, -9, -2, [0]),
        (1, -LARGEST, -LARGEST, [1]),
    ],
)
def test_slices_with_extreme_bounds_match_numpy(start, end, step, expected, how):
    numbers = {"start": np.int64([start]), "end": np.int64([end]), "axis": np.int64([0]), "step": np.int64([step])}
    fed = {k: numbers.pop(k) for k in ("start", "end", "step")} if how == "fed" else {}
    inputs = [value("x", FLOAT, (5,) if how == "known" else ("n",)), *(value(name, INT64, (1,)) for name in fed)]
    nodes = [node("Slice", ["x", "start", "end", "axis", "step"], ["y"])]
    loaded = mg.onnx.load(model(nodes, inputs, [value("y", FLOAT, None)], numbers))
    assert loaded.run({"x": np.float32(np.arange(5)), **fed})["y"].tolist() == expected


# --- sizes that are not integer multiples of the scale --------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "placed", "scale", "expected"),
    [
        ("linear", "align_corners", 2.5, [1, 4 / 3, 5 / 3, 2, 8 / 3, 10 / 3, 4]),
        ("cubic", "align_corners", 2.5, [1, 1.2037, 1.46296, 2, 2.74074, 3.42593, 4]),
        ("nearest", "align_corners", 2.5, [1, 1, 2, 2, 2, 4, 4]),
        ("linear", "align_corners", 0.75, [1, 4]),
        ("linear", "half_pixel", 2.5, [1, 1.1, 1.5, 1.9, 2.6, 3.4, 4]),
        ("linear", "half_pixel", 1.3, [1, 2, 4]),  # The size of the output equals that of the input.
        ("cubic", "pytorch_half_pixel", 0.4, [1]),
    ],
)
def test_resize_by_a_fractional_scale_matches_reference(mode, placed, scale, expected):
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode=mode, coordinate_transformation_mode=placed)]
    made = model(nodes, [value("x", FLOAT, (1, 1, 1, 3))], [value("y", FLOAT, None)],
                 {"scales": np.float32([1, 1, 1, scale])})  # fmt: skip
    result = mg.onnx.load(made, trainable=False)(np.float32([1, 2, 4]).reshape(1, 1, 1, 3)).numpy()
    np.testing.assert_allclose(result.ravel(), expected, atol=2e-5)


def test_nearest_resize_rounds_positions_in_float32():
    """Element 6 is at 6.5 / 1.3 - 0.5, slightly above 4.5 in exact arithmetic but 4.5 in float32, which rounds down."""
    nodes = [node("Resize", ["x", "", "scales"], ["y"], mode="nearest")]
    made = model(nodes, [value("x", FLOAT, (1, 1, 1, 7))], [value("y", FLOAT, None)],
                 {"scales": np.float32([1, 1, 1, 1.3])})  # fmt: skip
    result = mg.onnx.load(made, trainable=False)(np.float32(np.arange(7)).reshape(1, 1, 1, 7)).numpy()
    assert result.ravel().tolist() == [0, 1, 1, 2, 3, 4, 4, 5, 6]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"output_shape": [9]}, [100, 2, 20, 200, 3, 30, 300, 4, 40]),
        ({"output_shape": [9], "auto_pad": "SAME_LOWER"}, [100, 2, 20, 200, 3, 30, 300, 4, 40]),
        ({"output_shape": [9], "auto_pad": "SAME_UPPER"}, [10, 100, 2, 20, 200, 3, 30, 300, 4]),
        ({"output_shape": [10]}, [10, 100, 2, 20, 200, 3, 30, 300, 4, 40]),
        ({"output_shape": [11], "output_padding": [1]}, [10, 100, 2, 20, 200, 3, 30, 300, 4, 40, 400]),
    ],
)
def test_transposed_convolution_with_asymmetric_padding_is_correct(attributes, expected):
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[3], **attributes)]
    weights = {"w": np.float32([[[1, 10, 100]]])}
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, (1, 1, 4))], [value("y", FLOAT, None)], weights))
    assert loaded(np.float32([[[1, 2, 3, 4]]])).numpy().ravel().tolist() == expected


# --- regions of interest --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("opset", "mode", "ratio", "expected"),
    [
        (10, "avg", 0, [10.25, 12.75, 12.125, 13.375, 6.6504, 1.7812]),
        (10, "avg", 2, [10.25, 12.75, 12.125, 13.375, 10.875, 0]),
        (10, "max", 0, [9.1667, 9.625, 11.4844, 10.6641, 23, 23]),
        (16, "avg", 0, [6.7778, 9.25, 8.625, 9.875, 8.375, 2.3125]),
        (16, "avg", 2, [6.75, 9.25, 8.625, 9.875, 9.125, 5]),
        (16, "max", 2, [7.875, 10.5, 6.6016, 8.2031, 9.625, 11.5]),
    ],
)
def test_roi_align_matches_onnx_runtime(opset, mode, ratio, expected):
    nodes = [node("RoiAlign", ["x", "regions", "images"], ["y"], mode=mode, sampling_ratio=ratio, output_width=2)]
    inputs = [value("x", FLOAT, ("n", 1, 4, 6)), value("regions", FLOAT, ("r", 4)), value("images", INT64, ("r",))]
    loaded = mg.onnx.load(model(nodes, inputs, [value("y", FLOAT, None)], opset=opset))
    x = np.float32(np.arange(24)).reshape(1, 1, 4, 6)
    regions = np.float32([[0, 0, 5, 3], [1, 1, 3.5, 2.5], [2, 1, 9, 9]])  # The last region extends beyond the image.
    y = loaded(np.concatenate([x + 100, x]), regions, np.int64([1, 1, 1])).numpy()
    assert y.shape == (3, 1, 1, 2)
    np.testing.assert_allclose(y.ravel(), expected, atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_deformable_convolution_matches_numpy(masked):
    """Offsets are multiples of one half, and pixels outside the image are zero."""
    rng = np.random.default_rng(2)
    x, w = np.float32(rng.normal(size=(2, 2, 4, 5))), np.float32(rng.normal(size=(3, 2, 2, 2)))
    offsets = np.float32(rng.integers(-4, 5, (2, 8, 3, 4))) / 2
    mask = np.float32(rng.uniform(size=(2, 4, 3, 4))) if masked else ones(2, 4, 3, 4)
    names, feeds = ["x", "w", "offsets"], {"x": x, "offsets": offsets}
    inputs = [value("x", FLOAT, ("n", 2, 4, 5)), value("offsets", FLOAT, ("n", 8, "h", "w"))]
    if masked:
        names, feeds["mask"] = [*names, "", "mask"], mask
        inputs.append(value("mask", FLOAT, ("n", 4, "h", "w")))
    loaded = mg.onnx.load(model([node("DeformConv", names, ["y"])], inputs, [value("y", FLOAT, None)], {"w": w}))
    # Pad with zeros as far as any filter tap reaches.
    padded = np.pad(np.float64(x), ((0, 0), (0, 0), (9, 9), (9, 9)))
    expected = np.zeros((2, 3, 3, 4))
    for n, tap, i, j in np.ndindex(2, 4, 3, 4):
        row, column = i + tap // 2 + offsets[n, 2 * tap, i, j] + 9, j + tap % 2 + offsets[n, 2 * tap + 1, i, j] + 9
        top, left = int(row), int(column)
        weights = np.outer([top + 1 - row, row - top], [left + 1 - column, column - left])
        seen = (padded[n, :, top : top + 2, left : left + 2] * weights).sum((1, 2)) * mask[n, tap, i, j]
        expected[n, :, i, j] += w[:, :, tap // 2, tap % 2] @ seen
    np.testing.assert_allclose(loaded.run(feeds)["y"], expected, rtol=1e-4, atol=1e-5)


# --- operators that need no static sizes ----------------------------------------------------------------------------
def test_transposed_convolution_accepts_dynamic_image_sizes():
    weights = {"w": np.float32(np.random.default_rng(0).normal(size=(2, 3, 4, 4)))}
    for attributes in (
        {"pads": [1, 1, 1, 1]},
        {"auto_pad": "SAME_UPPER"},
        {"pads": [0, 0, 1, 1], "output_padding": [1, 1]},
    ):
        nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], **attributes)]
        any_size = mg.onnx.load(
            model(nodes, [value("x", FLOAT, ("n", 2, "h", "w"))], [value("y", FLOAT, None)], weights)
        )
        assert any_size.outputs["y"].shape == (-1, 3, -1, -1)
        x = np.float32(np.random.default_rng(1).normal(size=(2, 2, 3, 5)))
        one_size = mg.onnx.load(model(nodes, [value("x", FLOAT, x.shape)], [value("y", FLOAT, None)], weights))
        np.testing.assert_allclose(any_size(x), one_size(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("placed", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("how", ["scales", "sizes", "fed"])
def test_resize_accepts_dynamic_image_sizes(how, mode, placed):
    """Compare with images of static size: resized by scales, to constant sizes after batch and channels, and to fed
    sizes.
    """
    for width, scale in ((5, 2.5), (7, 0.6), (3, 2.0)):
        x = np.float32(np.random.default_rng(width).normal(size=(2, 3, 4, width)))
        sizes, scales = np.int64([2, 3, 8, int(width * scale)]), np.float32([1, 1, 2, scale])
        nodes, names, inputs, feeds = [], ["x", "", "", "sizes"], [value("x", FLOAT, ("n", 3, "h", "w"))], {"x": x}
        constants = {"scales": scales} if how == "scales" else {"plane": sizes[2:]}
        if how == "scales":
            names = ["x", "", "scales"]
        elif how == "fed":
            feeds["sizes"], constants = sizes, {}
            inputs.append(value("sizes", INT64, (4,)))
        else:
            nodes = [helper.make_node("Shape", ["x"], ["lead"], end=2)]
            nodes.append(helper.make_node("Concat", ["lead", "plane"], ["sizes"], axis=0))
        attributes = {"mode": mode, "coordinate_transformation_mode": placed, "nearest_mode": "floor"}
        nodes.append(node("Resize", names, ["y"], **attributes))
        loaded = mg.onnx.load(model(nodes, inputs, [value("y", FLOAT, None)], constants))
        assert type(loaded) is mg.Model
        known = {"scales": scales} if how == "scales" else {"sizes": sizes}
        whole = model(nodes[-1:], [value("x", FLOAT, x.shape)], [value("y", FLOAT, None)], known)
        np.testing.assert_allclose(loaded.run(feeds)["y"], mg.onnx.load(whole)(x), rtol=1e-4, atol=1e-5)


def test_split_accepts_an_axis_of_dynamic_size():
    nodes = [node("Split", ["x"], ["a", "b", "c"], num_outputs=3)]
    outputs = [value(name, FLOAT, None) for name in "abc"]
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, ("n",))], outputs))
    assert [part.tolist() for part in loaded(np.float32(np.arange(7)))] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [part.tolist() for part in loaded(np.float32(np.arange(3)))] == [[0], [1], [2]]


@pytest.mark.both_devices
def test_squeeze_without_axes_accepts_dynamic_sizes():
    nodes = [node("Squeeze", ["x"], ["s"]), node("Sigmoid", ["s"], ["y"])]
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, ("n", 1, 2))], [value("y", FLOAT, None)]))
    assert type(loaded) is mg.Model and loaded.outputs["y"].shape is None
    for n in (1, 3):
        np.testing.assert_array_equal(loaded(np.zeros((n, 1, 2), np.float32)), np.full((n, 2) if n > 1 else 2, 0.5))


@pytest.mark.both_devices
def test_pads_computed_from_static_sizes_are_static():
    """PyTorch's pads: reversed pairs starting at the last axis. The batch is dynamic, but the padded axes are not."""
    constants = {
        "two": np.int64(2),
        "axis": np.int64([0]),
        "last": np.int64([-1]),
        "front": np.int64([-LARGEST]),
        "pairs": np.int64([-1, 2]),
        "zeros": np.int64([0, 0, 0, 0]),
    }
    nodes = [
        *(constant(name, array) for name, array in constants.items()),
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "two"], ["height"], axis=0),
        node("Div", ["height", "two"], ["half"]),
        node("Unsqueeze", ["half", "axis"], ["half_1"]),
        node("Concat", ["last", "half_1", "half_1", "axis", "zeros"], ["flat"], axis=0),
        node("Reshape", ["flat", "pairs"], ["rows"]),
        node("Slice", ["rows", "last", "front", "axis", "last"], ["turned"]),
        node("Transpose", ["turned"], ["columns"], perm=[1, 0]),
        node("Reshape", ["columns", "last"], ["pads"]),
        node("Pad", ["x", "pads"], ["y"], mode="edge"),
    ]
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, ("n", 1, 2, 3))], [value("y", FLOAT, None)]))
    assert type(loaded) is mg.Model and loaded.outputs["y"].shape == (-1, 1, 3, 3)
    x = np.float32(np.arange(6)).reshape(1, 1, 2, 3)
    expected = np.pad(x[..., 1:], ((0, 0), (0, 0), (1, 0), (0, 1)), "edge")
    np.testing.assert_array_equal(loaded(x), expected)


def test_convert_command_errors_name_command_line_options(tmp_path, capsys):
    inputs = [value("x", FLOAT, ("n",)), value("axes", INT64, ("some",))]
    path = tmp_path / "m.onnx"
    onnx.save(model([node("Unsqueeze", ["x", "axes"], ["y"])], inputs, [value("y", FLOAT, None)]), path)
    assert tool(["convert", "--onnx", str(path), "--output", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "--value axes=N,N,..." in said and "values=" not in said
    assert tool(["convert", "--onnx", str(path), "--output", str(tmp_path), "--value", "axes=0"]) == 0
    np.testing.assert_array_equal(mg.load(tmp_path / "m.mpsgraph")(ones(2)), ones(1, 2))


@pytest.mark.both_devices
def test_command_line_tool_writes_apple_package_on_metal(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    onnx.save(model([node("Relu", ["x"], ["y"])], [value("x", FLOAT, (2,))], [value("y", FLOAT, (2,))]), path)
    arguments = ["convert", "--onnx", str(path), "--output", str(tmp_path), "--minimum-os", "14.0"]
    assert tool(arguments) == 1
    assert "--minimum-os requires --target-platform" in capsys.readouterr().err
    status, made = tool([*arguments, "--target-platform", "macOS"]), tmp_path / "m.mpsgraphpackage"
    said = capsys.readouterr()
    is_too_old = bool(OLD_SYSTEM) and needs_newer(said.err)
    if "metal" in mg.Device.names() and not is_too_old:
        assert status == 0 and made.exists() and said.out.strip() == str(made)
    else:
        assert status == 1 and (is_too_old or "metal" in said.err) and not made.exists()


def blocks(count: int) -> onnx.ModelProto:
    """Return a chain of reshapes to shapes computed from their operands, as PyTorch writes `x.view(x.size(0), -1)`."""
    nodes, x = [], "x"
    for i in range(count):
        nodes += [
            helper.make_node("Shape", [x], [f"shape{i}"]),
            helper.make_node("Gather", [f"shape{i}", "zero"], [f"rows{i}"]),
            helper.make_node("Concat", [f"rows{i}", "rest"], [f"to{i}"], axis=0),
            helper.make_node("Reshape", [x, f"to{i}"], [f"reshaped{i}"]),
            helper.make_node("Relu", [f"reshaped{i}"], [f"x{i}"]),
        ]
        x = f"x{i}"
    constants = {"zero": np.int64([0]), "rest": np.int64([-1])}
    return model(nodes, [value("x", FLOAT, ("n", 4))], [value(x, FLOAT, None)], constants)


def test_import_time_is_linear_in_the_number_of_nodes():
    """Eight times as many nodes must take about eight times as many calls, not 60 times as many, as when each node
    searches all others.
    """

    def calls(count: int) -> int:
        made, seen = blocks(count), 0

        def look(frame, event, argument):
            nonlocal seen
            seen += event in ("call", "c_call")

        sys.setprofile(look)
        try:
            loaded = mg.onnx.load(made)
        finally:
            sys.setprofile(None)
        assert type(loaded) is mg.Model
        return seen

    calls(10)  # This call fills the caches.
    assert calls(800) < 9 * calls(100)


# --- weights --------------------------------------------------------------------------------------------------------
def in_constants() -> onnx.ModelProto:
    nodes = [
        constant("w", ones(3, 2)),
        constant("b", np.float32([1, 2])),
        constant("turned", np.float32([[5], [6]])),
        constant("flat", np.int64([2])),
        constant("one", np.float32([1])),
        constant("whole", np.int64([[1, 2], [3, 4]])),
        constant("twice", np.float32([2, 3])),
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Add", ["xw", "b"], ["h"]),
        helper.make_node("Reshape", ["turned", "flat"], ["c"]),
        helper.make_node("Add", ["h", "c"], ["h2"]),
        helper.make_node("Mul", ["h2", "one"], ["y"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["sizes"], to=FLOAT),
        helper.make_node("Mul", ["sizes", "twice"], ["z"]),
    ]
    return model(nodes, [value("x", FLOAT, ("n", 3))], [value("y", FLOAT, None), value("z", FLOAT, None)])


def test_weights_in_constant_nodes_are_trainable():
    loaded = mg.onnx.load(in_constants())
    assert set(loaded.parameters) == {"w", "b", "turned"}  # Neither scalars nor factors of sizes are weights.
    assert set(loaded.graph.trainable_variables) == set(loaded.parameters.values())
    assert [a.tolist() for a in loaded(ones(2, 3))] == [[[9, 11]] * 2, [4, 9]]
    assert set(mg.onnx.load(in_constants(), trainable=["w"]).parameters) == {"w"}
    assert not mg.onnx.load(in_constants(), trainable=False).parameters


def test_shared_transposed_weight_is_folded_once(tmp_path):
    """A weight that many nodes transpose is one constant in the model optimized for inference, and in its package."""
    nodes, x = [], "x"
    for i in range(6):
        nodes += [
            helper.make_node("Transpose", ["w"], [f"t{i}"], perm=[1, 0]),
            helper.make_node("MatMul", [x, f"t{i}"], [f"x{i}"]),
        ]
        x = f"x{i}"
    w = np.float32(np.random.default_rng(0).normal(size=(128, 128)) * 0.1)
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, ("n", 128))], [value(x, FLOAT, None)], {"w": w}))
    ready = loaded.optimize_for_inference()
    constants = [o for o in ready.graph.operations if o.kind == "constant" and o.outputs[0].shape == (128, 128)]
    assert len(constants) == 1
    ready.save(tmp_path / "m.mpsgraph")
    x = ones(2, 128)
    np.testing.assert_allclose(ready(x), x @ np.linalg.matrix_power(w.T, 6), rtol=1e-3, atol=1e-4)


def test_constants_that_define_shapes_are_not_parameters():
    nodes = [node("Resize", ["x", "", "scales"], ["y"])]
    made = model(nodes, [value("x", FLOAT, (1, 1, 2, 2))], [value("y", FLOAT, None)],
                 {"scales": np.float32([1, 1, 2, 2])})  # fmt: skip
    loaded = mg.onnx.load(made)
    assert not loaded.parameters
    assert loaded(np.float32([[[[1, 2], [3, 4]]]])).numpy()[0, 0, 0].tolist() == [1, 1, 2, 2]


def test_gather_of_one_element_of_a_shape_gives_a_scalar_size():
    """Exporters write `x.size(0)` as a gather with a scalar index, whose result is a scalar, too."""
    nodes = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "last"], ["size"])]
    nodes.append(node("Unsqueeze", ["size", "axis"], ["y"]))
    constants = {"last": np.int64(-1), "axis": np.int64([0])}
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, ("n", "m"))], [value("y", INT64, (1,))], constants))
    assert loaded.outputs["y"].shape == (1,) and loaded(ones(2, 3)).tolist() == [3]


def test_import_restores_garbage_collection_setting():
    made = model([node("Relu", ["x"], ["y"])], [value("x", FLOAT, (1,))], [value("y", FLOAT, (1,))])
    before = gc.isenabled()
    try:
        for enabled in (True, False):
            (gc.enable if enabled else gc.disable)()
            mg.onnx.load(made)
            assert gc.isenabled() is enabled
            with pytest.raises(mg.GraphError):
                mg.onnx.load("/no such file.onnx")
            assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
