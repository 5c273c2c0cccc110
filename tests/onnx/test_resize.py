"""Test nearest-neighbor Resize against ONNX Runtime's rounding, where a coordinate's last bit selects the element."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.onnx_model import FLOAT, INT64, model, node, value
from harness.onnx_resize import Case, cases, expected, resizing
from onnx import helper, numpy_helper

CASES = list(cases())


def resized(size, *, scale=None, result=None, shape=None, **attributes):
    """Return arange(size) resized by a loaded model."""
    names = ["x", "", "s"] if scale is not None else ["x", "", "", "s"]
    constant = np.float32([scale]) if scale is not None else np.int64([result])
    made = model([node("Resize", names, ["y"], **attributes)], [value("x", FLOAT, shape or (size,))],
                 [value("y", FLOAT, None)], {"s": constant})  # fmt: skip
    return mg.onnx.load(made)(np.arange(size, dtype=np.float32)).tolist()


@pytest.mark.parametrize("shape", [(20,), ("n",)], ids=["static", "dynamic"])
@pytest.mark.parametrize("size", [{"result": 6}, {"scale": 0.3}], ids=["size", "scale"])
def test_resize_coordinate_just_below_the_middle_counts_as_a_tie(size, shape):
    """Element 4 is at 4.5 / 0.3 - 0.5, which is 14.499999 in float32."""
    how = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    assert resized(20, **size, shape=shape, **how) == [1, 5, 8, 11, 15, 18]


@pytest.mark.parametrize("shape", [(10,), ("n",)], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_output_size_is_the_float32_product_of_size_and_scale(mode, shape):
    """As a float64 number, 10 times 0.7 in float32 is just below 7."""
    y = resized(10, scale=0.7, mode=mode, shape=shape)
    assert len(y) == 7
    assert mode != "nearest" or y == [0, 2, 3, 4, 6, 7, 9]


@pytest.mark.parametrize("rank", [1, 4])
def test_nearest_resize_matches_float32_reference_in_random_sizes(rank):
    for start in range(0, len(CASES), 400):
        group = CASES[start : start + 400]
        made, feeds = resizing(group, rank)
        found = mg.onnx.load(made).run(feeds)
        for i, case in enumerate(group):
            assert found[f"y{i}"].numpy().ravel().tolist() == expected(case), case


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_resize_to_fed_sizes_matches_float32_reference(coordinates, rounding):
    how = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    inputs = [value("x", FLOAT, ("a", "b", "h", "w")), value("sizes", INT64, (4,))]
    made = model([node("Resize", ["x", "", "", "sizes"], ["y"], **how)], inputs, [value("y", FLOAT, None)])
    loaded = mg.onnx.load(made)
    for case in CASES[1:400:8]:
        x = np.arange(case.size, dtype=np.float32).reshape(1, 1, 1, -1)
        result = case.result or 2 * case.size
        found = loaded.run({"x": x, "sizes": np.int64([1, 1, 1, result])})["y"].numpy()
        assert found.ravel().tolist() == expected(Case(case.size, result, None, coordinates, rounding)), case


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_aspect_ratio_policy_rounds_float32_sizes(policy):
    made = model([node("Resize", ["x", "", "", "s"], ["y"], keep_aspect_ratio_policy=policy)],
                 [value("x", FLOAT, (10, 20))], [value("y", FLOAT, None)], {"s": np.int64([7, 15])})  # fmt: skip
    y = mg.onnx.load(made)(np.zeros((10, 20), np.float32))
    assert y.shape == ((7, 14) if policy == "not_larger" else (8, 15))


@pytest.mark.parametrize(
    ("scale", "expected_indices"),
    [
        (0.6, [0, 2, 4, 5, 7, 9]),
        (0.7, [0, 2, 3, 5, 6, 8, 9]),
        (1.5, [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9]),
    ],
)
def test_opset_10_resize_rounds_up_when_shrinking_an_axis(scale, expected_indices):
    nodes = [helper.make_node("Resize", ["x", "s"], ["y"], mode="nearest")]
    graph = helper.make_graph(nodes, "g", [value("x", FLOAT, (2, 10))], [value("y", FLOAT, None)],
                              [numpy_helper.from_array(np.float32([2, scale]), "s")])  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=5)
    x = np.float32(np.arange(10)) + np.float32([[0], [100]])
    y = mg.onnx.load(made)(x).numpy()
    np.testing.assert_array_equal(y, x[[0, 0, 1, 1]][:, expected_indices])
