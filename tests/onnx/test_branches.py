"""Test If nodes whose branches return tensors of different lengths, as in merged decoders that Optimum exports."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.onnx_model import BOOL, FLOAT, INT64, model, node, value
from onnx import helper


def branch(name, nodes, outputs):
    return helper.make_graph(nodes, name, [], [value(output, FLOAT, None) for output in outputs])


def cached(before=(), condition="use_cache"):
    """Return a model that appends x to a cache if a flag is set, and otherwise returns x alone."""
    then = branch("then", [helper.make_node("Concat", ["past", "x"], ["t"], axis=1)], ["t"])
    otherwise = branch("else", [helper.make_node("Identity", ["x"], ["e"])], ["e"])
    nodes = [
        *before,
        node("If", [condition], ["kv"], then_branch=then, else_branch=otherwise),
        node("ReduceSum", ["kv"], ["y"], keepdims=0),
    ]
    inputs = [value("x", FLOAT, ("b", "s", 3)), value("past", FLOAT, ("b", "p", 3)), value("use_cache", BOOL, (1,))]
    return model(nodes, inputs, [value("kv", FLOAT, None), value("y", FLOAT, None)])


CONDITIONS = {
    "fed": ([], "use_cache", lambda flag: flag),
    "negated": ([helper.make_node("Not", ["use_cache"], ["n"])], "n", lambda flag: not flag),
}


@pytest.mark.both_devices
@pytest.mark.parametrize("case", CONDITIONS)
def test_branches_of_different_lengths_are_selected_in_every_run(case):
    before, condition, appends = CONDITIONS[case]
    loaded = mg.onnx.load(cached(before, condition))
    rng = np.random.default_rng(0)
    for flag in (False, True, True, False, True):
        for steps, length in ((4, 2), (1, 5), (3, 3)):
            x, past = (rng.normal(size=(2, n, 3)).astype(np.float32) for n in (steps, length))
            found = loaded.run({"x": x, "past": past, "use_cache": np.array([flag])})
            expected = np.concatenate([past, x], 1) if appends(flag) else x
            np.testing.assert_array_equal(found["kv"], expected)
            np.testing.assert_allclose(found["y"], expected.sum(), rtol=1e-4, atol=1e-4)


def test_fixed_condition_selects_a_branch_of_another_length():
    loaded = mg.onnx.load(cached(), values={"use_cache": [True]})
    assert type(loaded) is mg.Model
    x, past = np.ones((1, 2, 3), np.float32), np.zeros((1, 4, 3), np.float32)
    assert loaded.run({"x": x, "past": past})["kv"].shape == (1, 6, 3)


def test_condition_computed_from_an_integer_input_selects_the_branch():
    then = branch("then", [helper.make_node("Concat", ["x", "x"], ["t"], axis=0)], ["t"])
    otherwise = branch("else", [helper.make_node("Neg", ["x"], ["e"])], ["e"])
    nodes = [helper.make_node("ReduceMax", ["n"], ["largest"], keepdims=0),
             helper.make_node("Greater", ["largest", "zero"], ["c"]),
             node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)]  # fmt: skip
    inputs = [value("x", FLOAT, ("s",)), value("n", INT64, ("k",))]
    loaded = mg.onnx.load(model(nodes, inputs, [value("y", FLOAT, None)], {"zero": np.int64(0)}))
    x = np.float32([1, 2])
    for n, expected in (([0, -1], [-1, -2]), ([3], [1, 2, 1, 2]), ([0], [-1, -2])):
        assert loaded.run({"x": x, "n": np.int64(n)})["y"].tolist() == expected


def test_condition_on_a_length_selects_the_branch_that_shortens_it():
    then = branch("then", [helper.make_node("Slice", ["x", "zero", "limit"], ["t"])], ["t"])
    otherwise = branch("else", [helper.make_node("Identity", ["x"], ["e"])], ["e"])
    nodes = [helper.make_node("Shape", ["x"], ["length"]), helper.make_node("Greater", ["length", "limit"], ["c"]),
             node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)]  # fmt: skip
    constants = {"zero": np.int64([0]), "limit": np.int64([512])}
    loaded = mg.onnx.load(model(nodes, [value("x", FLOAT, ("s",))], [value("y", FLOAT, None)], constants))
    for length in (3, 600, 512, 513, 4):
        x = np.arange(length, dtype=np.float32)
        np.testing.assert_array_equal(loaded(x), x[:512])


@pytest.mark.parametrize("length", [0, 2])
def test_branch_of_constant_length_is_selected_in_every_run(length):
    """The other branch has the length of an input."""
    then = branch("then", [node("Identity", ["empty"], ["t"])], ["t"])
    otherwise = branch("else", [node("Identity", ["x"], ["e"])], ["e"])
    choice = node("If", ["p"], ["y"], then_branch=then, else_branch=otherwise)
    inputs = [value("x", FLOAT, ("s", 4)), value("p", BOOL, ())]
    empty = np.zeros((length, 4), np.float32)
    loaded = mg.onnx.load(model([choice], inputs, [value("y", FLOAT, None)], {"empty": empty}))
    for flag, steps in ((True, 3), (False, 3), (False, 1), (True, 1), (False, length)):
        x = np.ones((steps, 4), np.float32)
        np.testing.assert_array_equal(loaded.run({"x": x, "p": np.array(flag)})["y"], empty if flag else x)


@pytest.mark.parametrize("inner", ["weights", "branch", "loop"])
def test_branches_that_contain_weights_or_control_flow_are_compared(inner):
    """The values concatenated in one branch come from a matmul with weights, another If node, or a loop."""
    nodes = {
        "weights": [node("MatMul", ["x", "w"], ["z"])],
        "branch": [
            node(
                "If", ["p"], ["z"],
                then_branch=branch("yes", [node("Neg", ["x"], ["a"])], ["a"]),
                else_branch=branch("no", [node("MatMul", ["x", "w"], ["b"])], ["b"]),
            )
        ],
        "loop": [
            node(
                "Loop", ["n", ""], ["z"],
                body=helper.make_graph(
                    [node("MatMul", ["v", "w"], ["vw"]), node("Identity", ["c"], ["more"])], "body",
                    [value("i", INT64, ()), value("c", BOOL, ()), value("v", FLOAT, ("s", 4))],
                    [value("more", BOOL, ()), value("vw", FLOAT, ("s", 4))],
                ),
            )
        ],
    }  # fmt: skip
    nodes["loop"][0].input[2:] = ["x"]
    then = branch("then", [*nodes[inner], node("Concat", ["x", "z"], ["t"], axis=0)], ["t"])
    otherwise = branch("else", [node("MatMul", ["x", "w"], ["e"])], ["e"])
    choice = node("If", ["q"], ["y"], then_branch=then, else_branch=otherwise)
    inputs = [value("x", FLOAT, ("s", 4)), value("p", BOOL, ()), value("q", BOOL, ()), value("n", INT64, ())]
    w = np.arange(16, dtype=np.float32).reshape(4, 4)
    loaded = mg.onnx.load(model([choice], inputs, [value("y", FLOAT, None)], {"w": w}))
    for p in (True, False):
        for q, steps in ((True, 3), (False, 3), (True, 1)):
            x = np.ones((steps, 4), np.float32)
            z = {"weights": x @ w, "branch": -x if p else x @ w, "loop": x @ w @ w}[inner]
            feeds = {"x": x, "p": np.array(p), "q": np.array(q), "n": np.int64(2)}
            wanted = np.concatenate([x, z]) if q else x @ w
            np.testing.assert_array_equal(loaded.run(feeds)["y"], wanted)


def test_branches_of_equal_lengths_stay_in_one_graph():
    then = branch("then", [helper.make_node("Neg", ["x"], ["t"])], ["t"])
    otherwise = branch("else", [helper.make_node("Slice", ["xx", "zero", "length"], ["e"])], ["e"])
    nodes = [helper.make_node("Shape", ["x"], ["length"]), helper.make_node("Concat", ["x", "x"], ["xx"], axis=0),
             node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)]  # fmt: skip
    inputs = [value("x", FLOAT, ("s",)), value("c", BOOL, ())]
    loaded = mg.onnx.load(model(nodes, inputs, [value("y", FLOAT, None)], {"zero": np.int64([0])}))
    assert type(loaded) is mg.Model
    for x in (np.float32([1, 2]), np.float32([3])):
        for c in (True, False):
            assert loaded.run({"x": x, "c": np.bool_(c)})["y"].tolist() == (-x if c else x).tolist()


def test_merged_decoder_with_attention_mask_runs_with_and_without_cache():
    """The mask's length has a name of its own, although it equals the sum of two other lengths."""

    def attended(keys, prefix):
        return [
            helper.make_node("Transpose", [keys], [f"{prefix}_k"], perm=[0, 2, 1]),
            helper.make_node("MatMul", ["x", f"{prefix}_k"], [f"{prefix}_s"]),
            helper.make_node("Add", [f"{prefix}_s", "mask"], [f"{prefix}_m"]),
            helper.make_node("Softmax", [f"{prefix}_m"], [f"{prefix}_p"], axis=-1),
            helper.make_node("MatMul", [f"{prefix}_p", keys], [f"{prefix}_y"]),
        ]

    then = branch("then", [helper.make_node("Concat", ["past", "x"], ["t_kv"], axis=1), *attended("t_kv", "t")],
                  ["t_y", "t_kv"])  # fmt: skip
    otherwise = branch("else", [helper.make_node("Identity", ["x"], ["e_kv"]), *attended("e_kv", "e")],
                       ["e_y", "e_kv"])  # fmt: skip
    nodes = [node("If", ["use_cache"], ["y", "kv"], then_branch=then, else_branch=otherwise)]
    inputs = [value("x", FLOAT, ("b", "s", 3)), value("past", FLOAT, ("b", "p", 3))]
    inputs += [value("mask", FLOAT, ("b", 1, "t")), value("use_cache", BOOL, (1,))]
    loaded = mg.onnx.load(model(nodes, inputs, [value("y", FLOAT, None), value("kv", FLOAT, None)]))
    rng = np.random.default_rng(1)
    kv = np.zeros((1, 0, 3), np.float32)
    for step, length in enumerate((4, 1, 1)):
        x = rng.normal(size=(1, length, 3)).astype(np.float32)
        keys = np.concatenate([kv, x], 1)
        mask = np.zeros((1, 1, keys.shape[1]), np.float32)
        past = kv if step else np.zeros((1, 1, 3), np.float32)
        found = loaded.run({"x": x, "past": past, "mask": mask, "use_cache": np.array([step > 0])})
        scores = np.exp(x @ keys.transpose(0, 2, 1))
        np.testing.assert_allclose(found["y"], scores / scores.sum(-1, keepdims=True) @ keys, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(found["kv"], keys)
        kv = keys


def test_branches_nested_too_deeply_raise():
    made = model([], [value("c", BOOL, (1,))], [value("y", BOOL, None)])
    graph = made.graph
    for _ in range(250):
        graph = graph.node.add(op_type="If", input=["c"], output=["y"]).attribute.add(name="then_branch", type=5).g
    with pytest.raises(mg.GraphError, match="must not nest deeper than 200 levels"):
        mg.onnx.load(made)
