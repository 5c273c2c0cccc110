"""Test print and check: printed text, order, control flow, derivatives, and the state after a failed check."""

from __future__ import annotations

import re

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from mpsgraph import _core

pytestmark = pytest.mark.both_devices

X = np.float32([[1, 2, 3], [4, 5, 6]])


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output captured since the last call."""
    return capsys.readouterr().out


# --- print -----------------------------------------------------------------------------------------------------------


def test_print_operation_returns_and_prints_its_input(capsys):
    g = mg.Graph()
    x = g.placeholder((-1, 3), name="x")
    y = g.print(x * 2, "twice") + 1
    result = g.run({x: X}, y).numpy()
    assert printed(capsys) == "twice: float32[2,3]\n[[2, 4, 6],\n [8, 10, 12]]\n"
    np.testing.assert_array_equal(result, 2 * X + 1)
    g.run({x: X[:1]}, g.print(x, name="given") * 1)
    assert printed(capsys) == "given: float32[1,3] [[1, 2, 3]]\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1), "float32[] 0.1"),
        (np.float32([np.nan, np.inf, -np.inf, -0.0]), "float32[4] [nan, inf, -inf, -0]"),
        (np.float16([0.1]), "float16[1] [0.099976]"),
        (np.array([True, False]), "bool[2] [true, false]"),
        (np.int8([-128, 127]), "int8[2] [-128, 127]"),
        (np.uint64([2**64 - 1]), "uint64[1] [18446744073709551615]"),
        (np.int64([-(2**62)]), "int64[1] [-4611686018427387904]"),
        (np.zeros((2, 0), np.float32), "float32[2,0]\n[[],\n []]"),
        (np.arange(9, dtype=np.int32), "int32[9] [0, 1, 2, ..., 6, 7, 8]"),
    ],
)
def test_print_formats_values_of_every_dtype_and_rank(value, text, capsys):
    g = mg.Graph()
    x = g.placeholder(value.shape, mg.DType(str(value.dtype)))
    g.run({x: value}, g.print(x, "v"))
    assert printed(capsys) == f"v: {text}\n"


def test_print_summarize_elides_middle_values(capsys):
    g = mg.Graph()
    x = g.placeholder((5, 8), mg.int32)
    value = np.arange(40, dtype=np.int32).reshape(5, 8)
    g.run({x: value}, g.print(x, "v", summarize=1))
    assert printed(capsys) == "v: int32[5,8]\n[[0, ..., 7],\n ...,\n [32, ..., 39]]\n"
    g.run({x: value}, g.print(x, "v", summarize=-1))
    assert re.findall(r"\d+", printed(capsys).partition("\n")[2]) == [str(n) for n in range(40)]
    for wrong in (0, -2):
        with pytest.raises(mg.GraphError, match="summarize"):
            g.print(x, summarize=wrong)
    with pytest.raises(mg.GraphError, match="message requires a tensor"):
        g.print(message="nothing")


def test_prints_appear_in_creation_order(capsys):
    g = mg.Graph()
    x = g.placeholder((), name="x")
    first = g.print(x + 1, "first")
    second = g.print(x + 2, "second")
    third = g.print(first * second, "third")
    g.run({x: np.float32(1)}, [third, second * 2])
    assert re.findall(r"(\w+):", printed(capsys)) == ["first", "second", "third"]
    executions = [g.run_async({x: np.float32(n)}, third) for n in range(4)]
    for execution in executions:
        execution.wait()
    # a queue executes its runs one after another
    assert re.findall(r"first: float32\[\] (\d)", printed(capsys)) == list("1234")


def test_print_runs_only_if_needed(capsys):
    g = mg.Graph()
    x = g.placeholder(())
    unused = g.print(x, "unused")
    g.run({x: np.float32(3)}, x + 1)
    assert printed(capsys) == ""
    g.run({x: np.float32(3)}, [], [unused.operation])
    assert printed(capsys) == "unused: float32[] 3\n"
    g.run({}, g.print(g.constant(2.0), "constant") + 1)
    assert printed(capsys) == "constant: float32[] 2\n"


def test_gradients_pass_through_print(capsys):
    g = mg.Graph()
    x = g.placeholder((2,))
    y = g.reduction_sum(g.square(g.print(x, "x")))
    dx = g.gradients(y, [x])[x]
    second = g.gradients(g.reduction_sum(g.print(dx, "dx") * dx), [x])[x]
    results = g.run({x: np.float32([1, -2])}, [dx, second])
    assert results[dx].tolist() == [2.0, -4.0] and results[second].tolist() == [8.0, -16.0]
    assert printed(capsys) == "x: float32[2] [1, -2]\ndx: float32[2] [2, -4]\n"


def test_print_inside_branches_runs_only_in_taken_branch(capsys):
    g = mg.Graph()
    flag, x = g.placeholder((), mg.bool_), g.placeholder((2,))
    chosen = g.reduction_sum(x) > 0
    y = g.if_(chosen, lambda: g.print(x * 2, "then"), lambda: g.print(x, "otherwise") - 1)[0]
    z = g.if_(flag, lambda: g.print(x, "flag") * 1, lambda: x)[0]
    assert g.run({flag: np.bool_(True), x: np.float32([1, 2])}, [y, z])[y].tolist() == [2.0, 4.0]
    assert printed(capsys) == "then: float32[2] [2, 4]\nflag: float32[2] [1, 2]\n"
    assert g.run({flag: np.bool_(False), x: np.float32([-1, 0])}, [y, z])[y].tolist() == [-2.0, -1.0]
    assert printed(capsys) == "otherwise: float32[2] [-1, 0]\n"


def test_print_inside_nested_loops_prints_every_iteration(capsys):
    g = mg.Graph()
    x = g.placeholder(())

    def inner(i, v):
        return g.print(v + 1, "inner")

    def outer(i, v):
        g.print(i, "turn")  # unused, but part of the loop body
        return g.print(g.for_(2, initial=[v], body=inner)[0] * 2, "outer")

    y = g.for_(2, initial=[x], body=outer)[0]
    assert g.run({x: np.float32(0)}, y).item() == 12.0
    assert re.findall(r"(\w+): \w+\[\] (\d+)", printed(capsys)) == [
        *[("turn", "0"), ("inner", "1"), ("inner", "2"), ("outer", "4")],
        *[("turn", "1"), ("inner", "5"), ("inner", "6"), ("outer", "12")],
    ]


def test_print_inside_while_condition_and_body_prints_every_iteration(capsys):
    g = mg.Graph()
    x = g.placeholder((), mg.int32)
    y = g.while_([x], lambda v: (g.print(v, "asked") < 3, [v]), lambda v: g.print(v, "body") + 1)[0]
    assert g.run({x: np.int32(1)}, y).item() == 3
    assert re.findall(r"(\w+): \w+\[\] (\d+)", printed(capsys)) == [
        *[("asked", "1"), ("body", "1"), ("asked", "2"), ("body", "2"), ("asked", "3")],
    ]


def test_gradient_of_loop_with_print_prints_values_once(capsys):
    g = mg.Graph()
    x = g.placeholder(())
    y = g.for_(3, initial=[x], body=lambda i, v: g.print(v, "v") * v)[0]
    dx = g.gradients(y, [x])[x]
    assert g.run({x: np.float32(2)}, dx).item() == 8 * 2.0**7
    assert re.findall(r"v: float32\[\] (\d+)", printed(capsys)) == ["2", "4", "16"]


def test_print_in_long_loop_keeps_last_values_on_metal(capsys):
    """On device metal, the host receives printed values only after the loop ends, and only the last 32 of them."""
    g = mg.Graph()
    x = g.placeholder(())
    g.run({x: np.float32(0)}, g.for_(40, initial=[x], body=lambda i, v: g.print(v + 1, "v"))[0])
    lines = printed(capsys).splitlines()
    if device.IS_METAL:
        assert lines.pop(0) == "[print] the Metal device kept the last 32 of 40 values printed in 'for'"
    assert lines == [f"v: float32[] {n}" for n in range(9 if device.IS_METAL else 1, 41)]


def test_print_of_variable_respects_assign_order(capsys):
    g = mg.Graph()
    v = g.variable([1.0])
    before = g.print(g.read(v), "before")
    update = g.assign(v, before + 1)
    after = g.print(g.read(v), "after")
    g.run({}, after, [update])
    assert printed(capsys) == "before: float32[1] [1]\nafter: float32[1] [2]\n"
    assert g.variable_value(v).tolist() == [2.0]


def test_compiled_print_prints_on_every_run(capsys):
    g = mg.Graph()
    x = g.placeholder((2,))
    executable = g.compile({x: (2,)}, [g.print(x, "x") + 1])
    for n in (1, 2):
        executable.run([np.float32([n, n])])
    assert printed(capsys) == "x: float32[2] [1, 1]\nx: float32[2] [2, 2]\n"


def test_print_and_check_round_trip_through_text(capsys):
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    y = g.print(g.check(x > 0, 'x "must" be positive', on=x), "y", summarize=5)
    again = mg.parse(str(g))
    assert str(again) == str(g)
    target = again.find(y.operation.name).outputs[0]
    again.run({again.find("x").outputs[0]: np.float32([1, 2])}, target)
    assert printed(capsys) == "y: float32[2] [1, 2]\n"
    with pytest.raises(mg.CheckError, match='x "must" be positive'):
        again.run({again.find("x").outputs[0]: np.float32([1, -2])}, target)


def test_plan_without_print_or_check_mentions_neither():
    g = mg.Graph()
    x = g.placeholder((2,))
    plan = g.compile({x: (2,)}, [g.square(x) + 1]).plan()
    assert "print" not in plan and "check" not in plan


# --- check -----------------------------------------------------------------------------------------------------------


def test_failed_check_aborts_run_before_variable_updates(capsys):
    g = mg.Graph()
    x = g.placeholder((-1, 2), name="x")
    v = g.variable([0.0, 0.0])
    update = g.assign(v, g.read(v) + g.reduction_sum(x, axes=0)[0])
    seen = g.print(x, "seen")
    checked = g.check(seen > 0, "x must be positive")
    g.run({x: np.float32([[1, 2]])}, [], [update, checked])
    assert g.variable_value(v).tolist() == [1.0, 2.0] and printed(capsys) == "seen: float32[1,2] [[1, 2]]\n"
    pattern = r"^\[check\] x must be positive; false at \(1,0\); built at test_debugging\.py:\d+$"
    with pytest.raises(mg.CheckError, match=pattern) as caught:
        g.run({x: np.float32([[1, 2], [-3, 4]])}, [], [update, checked])
    assert isinstance(caught.value, mg.Error) and isinstance(caught.value, AssertionError)
    assert g.variable_value(v).tolist() == [1.0, 2.0] and "-3" in printed(capsys)
    g.run({x: np.float32([[1, 2]])}, [], [update, checked])
    assert g.variable_value(v).tolist() == [2.0, 4.0]


def test_check_runs_when_its_tensor_is_used():
    g = mg.Graph()
    x = g.placeholder((2,))
    y = g.logarithm(g.check(g.reduction_minimum(x) > 0, "not positive", on=x))
    dx = g.gradients(y, [x])[x]
    np.testing.assert_allclose(g.run({x: np.float32([1, 2])}, dx).numpy(), [1, 0.5])
    for target in (y, dx):
        with pytest.raises(mg.CheckError, match=r"not positive"):
            g.run({x: np.float32([1, 0])}, target)
    assert g.run({x: np.float32([1, 0])}, x * 2).tolist() == [2.0, 0.0]  # does not depend on the check


def test_check_fails_inside_loops_and_branches():
    g = mg.Graph()
    x, v = g.placeholder((), mg.float32), g.variable(0.0)

    def body(i, value):
        g.check(value < 10, "grew too large")
        return value * 2

    y = g.for_(4, initial=[x], body=body)[0]
    update = g.assign(v, y)
    assert g.run({x: np.float32(1)}, y, [update]).item() == 16.0
    with pytest.raises(mg.CheckError, match="grew too large"):
        g.run({x: np.float32(3)}, y, [update])
    assert g.variable_value(v).item() == 16.0
    z = g.if_(x > 0, lambda: g.check(x < 5, "too large", on=x), lambda: -x)[0]
    assert [g.run({x: np.float32(n)}, z).item() for n in (4, -7)] == [4.0, 7.0]
    with pytest.raises(mg.CheckError, match="too large"):
        g.run({x: np.float32(6)}, z)


def test_check_fails_as_control_dependency_and_in_async_run():
    g = mg.Graph()
    x = g.placeholder((1,))
    y = g.control_dependency([g.check(x > 0, "not positive")], lambda: x * 2)
    execution = g.run_async({x: np.float32([-1])}, y)
    with pytest.raises(mg.CheckError, match="not positive"):
        execution.wait()
    assert isinstance(execution.error, mg.CheckError)
    assert g.run({x: np.float32([1])}, y).tolist() == [2.0]


def test_first_failing_check_is_reported_and_later_prints_are_skipped(capsys):
    g = mg.Graph()
    x = g.placeholder((2,))
    g.check(x > 100, "never evaluated")
    first = g.check(x > 0, "first", on=g.print(x, "before"))
    second = g.print(g.check(x > 1, "second", on=first), "behind")
    with pytest.raises(mg.CheckError, match=r"\[check\] first"):
        g.run({x: np.float32([2, 0])}, second)
    assert printed(capsys) == "before: float32[2] [2, 0]\n"
    with pytest.raises(mg.CheckError, match=r"\[check\] second"):
        g.run({x: np.float32([1, 2])}, second)


def test_check_rejects_non_bool_and_accepts_empty_conditions():
    g = mg.Graph()
    x = g.placeholder((0,))
    with pytest.raises(mg.DTypeError, match="the condition .* must be bool"):
        g.check(x, "x")
    y = g.check(x > 0, "of nothing all is true", on=x)
    assert g.run({x: np.zeros(0, np.float32)}, y).shape == (0,)
    z = g.check(g.constant(False), "never", on=g.constant(1.0))
    with pytest.raises(mg.CheckError, match="never"):
        g.run({}, z)


def test_check_of_assigned_variable_runs_after_assign():
    """As the docstring of check states, the variable has already changed when such a check fails."""
    g = mg.Graph()
    v = g.variable([1.0])
    update = g.assign(v, g.read(v) - 2)
    checked = g.check(g.read(v) > 0, "went below zero")
    with pytest.raises(mg.CheckError, match="went below zero"):
        g.run({}, [], [update, checked])


def test_print_and_check_definitions_declare_side_effects():
    of = {d["name"]: d for d in _core.definitions()}
    assert of["print"]["has_effect"] and of["check"]["has_effect"]
    assert of["print"]["family"] == of["check"]["family"] == "debugging"
