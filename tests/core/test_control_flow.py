"""Test variables, control dependencies, if, while, and for: execution order, side effects, and errors.

The results of branches and loops are covered by the control_flow cases.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness import device

pytestmark = pytest.mark.both_devices


def value(g: mg.Graph, variable: mg.Tensor) -> list:
    return g.variable_value(variable).tolist()


# --- variables --------------------------------------------------------------------------------------------------------
def test_variable_keeps_its_value_between_runs():
    g = mg.Graph()
    v = g.variable([1.0, 2.0])
    add = g.assign(v, v + 1.0)
    for _ in range(3):
        g.run({}, [], [add])
    assert value(g, v) == [4, 5]
    assert g.run({}, v).tolist() == [4, 5], "a variable can be a target"


def test_variable_read_sees_only_earlier_assigns():
    g = mg.Graph()
    v = g.variable([1.0])
    before = g.read(v)
    first = g.assign(v, g.constant([2.0]))
    between = g.read(v)
    second = g.assign(v, v * 10.0)
    after = g.read(v)
    found = g.run({}, [after, between, before], [second, first])
    assert [found[t].tolist() for t in (before, between, after)] == [[1], [2], [20]]
    assert value(g, v) == [20]


def test_assign_does_not_run_unless_requested():
    g = mg.Graph()
    v = g.variable([1.0])
    g.assign(v, g.constant([9.0]))
    assert g.run({}, g.read(v)).tolist() == [1]
    assert value(g, v) == [1]


def test_variable_as_target_is_read_after_all_updates():
    g = mg.Graph()
    v = g.variable([1.0])
    update = g.assign(v, v + 1.0)
    assert g.run({}, v, [update]).tolist() == [2]


def test_later_runs_do_not_change_results_of_earlier_runs():
    """A result that holds the value of a variable is a copy, so later updates must not change it."""
    g = mg.Graph()
    v = g.variable(np.zeros(1000, np.float32))
    update = g.assign(v, v + 1.0)
    first = g.run({}, g.read(v), [update])
    second = g.run({}, v, [update])
    g.run({}, [], [update])
    assert set(first.tolist()) == {1.0} and set(second.tolist()) == {2.0}
    taken = g.variable_value(v)
    g.run({}, [], [update])
    assert set(taken.tolist()) == {3.0}


def test_read_before_in_place_update_returns_old_value():
    g = mg.Graph()
    v = g.variable([1.0, 2.0])
    old = g.read(v)
    update = g.assign(v, v * 2.0)
    swapped = old + g.read(v) * 100.0
    assert g.run({}, swapped, [update]).tolist() == [201, 402]


def test_two_assigns_swap_values_of_variables():
    g = mg.Graph()
    a, b = g.variable([1.0]), g.variable([2.0])
    old_a, old_b = g.read(a), g.read(b)
    g.run({}, [], [g.assign(a, old_b), g.assign(b, old_a)])
    assert (value(g, a), value(g, b)) == ([2], [1])


def test_set_variable_copies_the_given_array():
    g = mg.Graph()
    v = g.variable(np.zeros((2, 3), np.float32))
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    g.set_variable(v, numbers)
    numbers[:] = -1
    assert value(g, v) == [[0, 1, 2], [3, 4, 5]], "set_variable must copy the array"
    g.set_variable(v, np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2])
    assert value(g, v) == [[0, 2, 4], [6, 8, 10]]
    g.variable_value(v)[:] = 7
    assert value(g, v) == [[0, 2, 4], [6, 8, 10]]


def test_variable_in_kernel_layout_is_returned_in_logical_layout():
    """A convolution may store its weights in a blocked layout, which must not be visible to the user."""
    g = mg.Graph()
    numbers = np.random.default_rng(0).standard_normal((3, 3, 16, 32)).astype(np.float32)
    w = g.variable(numbers)
    x = g.placeholder((2, 8, 8, 16))
    y = g.convolution2d(x, w, padding="TF_SAME")
    update = g.assign(w, g.stochastic_gradient_descent(0.5, w, g.constant(1.0, (3, 3, 16, 32))))
    image = np.random.default_rng(1).standard_normal((2, 8, 8, 16)).astype(np.float32)
    first = g.run({x: image}, y, [update]).numpy().copy()
    np.testing.assert_array_equal(g.variable_value(w), numbers - np.float32(0.5))
    g.set_variable(w, numbers)
    np.testing.assert_array_equal(g.variable_value(w), numbers)
    np.testing.assert_array_equal(g.run({x: image}, y).numpy(), first)


# --- control dependencies ---------------------------------------------------------------------------------------------
def test_control_dependency_runs_otherwise_unused_operation():
    g = mg.Graph()
    v = g.variable([1.0])
    assign = g.assign(v, v + 1.0)
    after = g.control_dependency([assign], lambda: g.read(v))
    assert [o.name for o in after.operation.control_dependencies] == [assign.name]
    assert g.run({}, after).tolist() == [2]
    assert g.run({}, after).tolist() == [3]


def test_control_dependency_wraps_outside_tensor_in_identity():
    g = mg.Graph()
    v = g.variable([1.0])
    x = g.constant([5.0])
    y = g.control_dependency([g.assign(v, x)], lambda: x, name="after")
    assert y is not x and y.operation.kind == "identity" and y.name == "after"
    assert g.run({}, x).tolist() == [5] and value(g, v) == [1]
    assert g.run({}, y).tolist() == [5] and value(g, v) == [5]


def test_control_dependency_on_tensor_can_have_multiple_results():
    g = mg.Graph()
    v = g.variable([1.0])
    stepped = g.control_dependency([g.assign(v, v * 2.0)], lambda: g.constant([0.0]) + 1.0)
    a, b = g.control_dependency([stepped], lambda: [g.read(v), g.constant([3.0])])
    found = g.run({}, [a, b])
    assert found[a].tolist() == [2] and found[b].tolist() == [3]


def test_nested_control_dependencies_run_in_order():
    g = mg.Graph()
    v, w = g.variable([0.0]), g.variable([0.0])
    outer = g.assign(v, v + 1.0)

    def block():
        return g.control_dependency([g.assign(w, v * 10.0)], lambda: g.read(w) + 0.5)

    assert g.run({}, g.control_dependency([outer], block)).tolist() == [10.5]
    assert (value(g, v), value(g, w)) == ([1], [10])


def test_exception_in_control_dependency_block_closes_the_block():
    g = mg.Graph()
    assign = g.assign(g.variable([0.0]), g.constant([1.0]))

    def fails():
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        g.control_dependency([assign], fails)
    assert g.constant(1.0).operation.control_dependencies == []


# --- if ---------------------------------------------------------------------------------------------------------------
def test_only_the_taken_branch_has_side_effects():
    g = mg.Graph()
    p, v = g.placeholder((), mg.bool_), g.variable([0.0])

    def add(amount):
        return lambda: g.control_dependency([g.assign(v, v + amount)], lambda: g.read(v))

    y = g.if_(p, add(1.0), add(10.0))[0]
    taken = [g.run({p: np.array(b)}, y).tolist() for b in (True, False, True)]
    assert taken == [[1], [11], [12]]


def test_if_accepts_constant_and_single_element_predicates():
    g = mg.Graph()
    x = g.constant(3.0)
    assert g.run({}, g.if_(g.constant(True), lambda: x * 2, lambda: x)[0]).item() == 6
    assert g.run({}, g.if_(g.constant(False), lambda: x * 2, lambda: x)[0]).item() == 3
    p = g.placeholder((1, 1), mg.bool_)
    assert g.run({p: np.array([[True]])}, g.if_(p, lambda: x + 1, lambda: x)[0]).item() == 4


def test_assign_in_branch_runs_only_if_a_result_depends_on_it():
    """As in the outer graph, an assign in a branch does not run unless a result depends on it."""
    g = mg.Graph()
    p, v = g.placeholder((), mg.bool_), g.variable([0.0])

    def forgotten():
        g.assign(v, g.constant([9.0]))
        return g.read(v)

    (y,) = g.if_(p, forgotten, lambda: g.constant([5.0]))
    assert g.run({p: np.array(True)}, y).tolist() == [0]
    assert g.run({p: np.array(True)}, [], [y.operation]) == {}
    assert value(g, v) == [0]


@pytest.mark.parametrize(
    ("then", "otherwise", "error"),
    [
        (lambda x: x, lambda x: [x, x], mg.GraphError),
        (lambda x: x, lambda x: x.graph.reshape(x, (3, 1)), mg.ShapeError),
        (lambda x: x, lambda x: x.graph.cast(x, "int32"), mg.DTypeError),
        (lambda x: x, lambda x: 5, mg.GraphError),
        (lambda x: None, lambda x: x, mg.GraphError),
    ],
)
def test_branches_with_different_result_types_raise(then, otherwise, error):
    g = mg.Graph()
    p, x = g.placeholder((), mg.bool_), g.placeholder((3,))
    with pytest.raises(error):
        g.if_(p, lambda: then(x), lambda: otherwise(x))
    assert g.run({p: np.array(True), x: np.ones(3, np.float32)}, g.if_(p, lambda: x, lambda: -x)[0]).tolist() == [1] * 3


def test_predicate_must_be_single_bool():
    g = mg.Graph()
    x = g.constant(1.0)
    with pytest.raises(mg.DTypeError, match=r"\[if\].*predicate"):
        g.if_(x, lambda: x, lambda: x)
    with pytest.raises(mg.ShapeError, match=r"\[if\].*predicate"):
        g.if_(g.constant(np.array([True, False])), lambda: x, lambda: x)


def test_exception_in_branch_restores_graph():
    g = mg.Graph()
    p, x = g.placeholder((), mg.bool_), g.placeholder((3,), name="x")
    text = str(g)

    def fails():
        g.identity(x, name="inside")
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        g.if_(p, lambda: x * 2, fails)
    assert str(g) == text
    assert g.identity(x, name="inside").name == "inside", "the name must be free again"
    g.verify()


def test_tensor_created_in_a_block_cannot_be_used_outside():
    g = mg.Graph()
    p, x = g.placeholder((), mg.bool_), g.placeholder((3,))
    inner = []
    g.if_(p, lambda: inner.append(g.sin(x)) or inner[0], lambda: x)
    with pytest.raises(mg.GraphError, match="block"):
        g.square(inner[0])
    with pytest.raises(mg.GraphError):
        g.run({p: np.array(True), x: np.ones(3, np.float32)}, inner[0])
    g.verify()


# --- loops ------------------------------------------------------------------------------------------------------------
def test_loop_updates_variable_every_iteration():
    g = mg.Graph()
    v = g.variable([1.0])

    def body(i, total):
        doubled = g.control_dependency([g.assign(v, v * 2.0)], lambda: g.read(v))
        return total + doubled

    (total,) = g.for_(4, initial=[g.constant([0.0])], body=body)
    assert g.run({}, total).tolist() == [2 + 4 + 8 + 16]
    assert value(g, v) == [16]


def test_nested_loops_can_use_outer_indices():
    g = mg.Graph()
    zero = g.constant(0)

    def outer(i, total):
        return g.for_(0, i + 1, initial=[total], body=lambda j, t: t + i * 10 + j)

    (total,) = g.for_(3, initial=[zero], body=outer)
    assert g.run({}, total).item() == sum(i * 10 + j for i in range(3) for j in range(i + 1))


def test_if_inside_while_inside_if_gives_correct_results():
    g = mg.Graph()
    p, n = g.placeholder((), mg.bool_), g.placeholder((), mg.int32)

    def collatz(x):
        def before(v, steps):
            return g.not_equal(v, 1), [v, steps]

        def after(v, steps):
            even = g.equal(v % 2, 0)
            return [g.if_(even, lambda: v // 2, lambda: v * 3 + 1)[0], steps + 1]

        return g.while_([x, g.constant(0)], before, after)[1]

    y = g.if_(p, lambda: collatz(n), lambda: n)[0]
    assert g.run({p: np.array(True), n: np.array(27, np.int32)}, y).item() == 111
    assert g.run({p: np.array(False), n: np.array(27, np.int32)}, y).item() == 27


def test_while_results_can_differ_from_loop_variables():
    g = mg.Graph()
    x = g.constant(1.0)
    results = g.while_([x], lambda v: (v < 100.0, [v, v * 0.5]), lambda v, half: v * 3)
    assert [g.run({}, r).item() for r in results] == [243, 121.5]


def test_newtons_method_in_a_long_loop_converges():
    g = mg.Graph()
    dtype, precision = ("float64", 1e-15) if device.has("float64") else ("float32", 1e-6)
    x = g.placeholder((3,), dtype)
    (root,) = g.for_(100, initial=[x], body=lambda i, v: (v + x / v) * 0.5)
    found = g.run({x: np.array([2.0, 9.0, 1e6], dtype)}, root).numpy()
    np.testing.assert_allclose(found, [2**0.5, 3, 1e3], rtol=precision)


def test_loop_accepts_dynamic_batch_sizes():
    g = mg.Graph()
    x = g.placeholder((-1, 2))
    (y,) = g.for_(3, initial=[x], body=lambda i, v: v * 2)
    for n in (1, 4):
        assert g.run({x: np.ones((n, 2), np.float32)}, y).tolist() == [[8, 8]] * n


def test_loop_variable_changing_shape_or_dtype_raises():
    g = mg.Graph()
    x, count = g.placeholder((2,)), g.constant(2)
    with pytest.raises(mg.ShapeError, match=r"\[for\].*must keep its shape"):
        g.for_(count, initial=[x], body=lambda i, v: g.concat([v, v], 0))
    with pytest.raises(mg.DTypeError, match=r"\[for\].*cast"):
        g.for_(count, initial=[x], body=lambda i, v: g.cast(v, "int32"))
    with pytest.raises(mg.GraphError, match=r"\[for\].*equal in number to .*, got 3 and 2"):
        g.for_(count, initial=[x], body=lambda i, v: [v, v])
    with pytest.raises(mg.DTypeError, match=r"\[for\].*int32"):
        g.for_(g.constant(2.0), initial=[x], body=lambda i, v: v)
    with pytest.raises(mg.ShapeError, match=r"\[for\].*step must not be 0"):
        g.for_(0, 5, 0, [x], lambda i, v: v)
    with pytest.raises(mg.GraphError, match=r"\[for\] body is missing"):
        g.for_(3, initial=[x])
    with pytest.raises(mg.DTypeError, match=r"\[while\].*condition"):
        g.while_([x], lambda v: (v, v), lambda v: v)
    with pytest.raises(mg.ShapeError, match=r"\[while\].*condition"):
        g.while_([x], lambda v: (v < 1.0, v), lambda v: v)
    with pytest.raises(mg.ShapeError, match=r"\[while\]"):
        g.while_([x], lambda v: (g.constant(True), v), lambda v: g.concat([v, v], 0))
    assert g.run({x: np.ones(2, np.float32)}, g.for_(count, initial=[x], body=lambda i, v: v * 2)[0]).tolist() == [4, 4]
    g.verify()


def test_zero_step_from_a_feed_raises_at_run_time():
    g = mg.Graph()
    step = g.placeholder((), mg.int32)
    (y,) = g.for_(0, 3, step, [g.constant(0)], lambda i, v: v + 1)
    none = np.array(0, np.int32)
    if device.IS_METAL:  # a GPU cannot raise an error here
        assert g.run({step: none}, y).item() == 0
    else:
        with pytest.raises(mg.Error, match="step"):
            g.run({step: none}, y)
    assert g.run({step: np.array(1, np.int32)}, y).item() == 3


def test_int32_limits_as_loop_bounds_do_not_overflow():
    g = mg.Graph()
    lower, upper, step = (g.placeholder((), mg.int32) for _ in range(3))
    (y,) = g.for_(lower, upper, step, [g.constant(0)], lambda i, v: v + 1)

    def rounds(*bounds):
        return g.run(dict(zip((lower, upper, step), map(np.int32, bounds), strict=True)), y).item()

    limit = 2**31
    assert rounds(limit - 4, limit - 1, 2) == 2
    assert rounds(-limit + 3, -limit, -2) == 2
    assert rounds(-limit, limit - 1, limit - 1) == 3
