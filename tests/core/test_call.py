"""Test calls of other graphs' executables as operations: values, variables, loops, serialization, and errors."""

from __future__ import annotations

import threading

import mpsgraph as mg
import numpy as np
import pytest
from harness import device

pytestmark = pytest.mark.both_devices

FLOAT = mg.float32
X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)


VARIABLES = pytest.mark.xfail(
    device.IS_METAL,
    raises=mg.UnsupportedError,
    strict=True,
    reason="an MPSGraph cannot use the variables of another MPSGraph",
)


def affine() -> mg.Executable:
    """Compile a graph that returns x @ w + 1 and the row sums of x, for x of shape (2, 3) and w of shape (3, 2)."""
    g = mg.Graph()
    x, w = g.placeholder((-1, 3)), g.placeholder((3, -1))
    return g.compile({x: (2, 3), w: (3, 2)}, [x @ w + 1, g.reduction_sum(x, axes=1)])


def caller(**options) -> tuple[mg.Graph, mg.Executable]:
    g = mg.Graph()
    x, w = g.placeholder((-1, 3), name="x"), g.placeholder((3, -1), name="w")
    y, total = g.call("affine", [x * 2, w], [((2, 2), FLOAT), ((2, 1), FLOAT)], name="called")
    descriptor = mg.CompilationDescriptor(callables={"affine": affine()}, **options)
    return g, g.compile({x: (2, 3), w: (3, 2)}, [y * 10, total], options=descriptor)


@pytest.mark.parametrize("reference", [False, True])
def test_call_returns_results_of_called_executable(reference: bool):
    _, executable = caller(reference_kernels=reference)
    w = np.ones((3, 2), np.float32)
    for factor in (1, 3):
        y, total = executable.run([X * factor, w])
        np.testing.assert_allclose(y.numpy(), 10 * (2 * factor * X @ w + 1))
        np.testing.assert_allclose(total.numpy(), 2 * factor * X.sum(1, keepdims=True))


def test_calls_work_inside_loops_and_nested_calls():
    inner = mg.Graph()
    a = inner.placeholder(())
    half = inner.compile({a: ()}, [a / 2])
    middle = mg.Graph()
    b = middle.placeholder(())
    (h,) = middle.call("half", [b], [((), FLOAT)])
    options = mg.CompilationDescriptor(callables={"half": half})
    shifted = middle.compile({b: ()}, [h + 1], options=options)
    outer = mg.Graph()
    x = outer.placeholder(())
    (y,) = outer.for_(3, initial=[x], body=lambda i, v: outer.call("f", [v], [((), FLOAT)]))
    chain = outer.compile({x: ()}, [y], options=mg.CompilationDescriptor(callables={"f": shifted}))
    assert chain.run([np.float32(16)])[0].item() == 3.75


def counter() -> tuple[mg.Graph, mg.Tensor, mg.Executable]:
    g = mg.Graph()
    v, by = g.variable([0.0, 0.0]), g.placeholder((2,))
    count = g.assign(v, v + by)
    return g, v, g.compile({by: (2,)}, [g.control_dependency([count], lambda: g.read(v))], [count])


@VARIABLES
def test_calls_share_variables_of_the_called_graph():
    inner, v, count = counter()
    g = mg.Graph()
    one = g.constant([1.0, 2.0])
    types = [((2,), FLOAT)]
    (first,), (second,) = g.call("count", [one], types), g.call("count", [one], types)
    options = mg.CompilationDescriptor(callables={"count": count})
    executable = g.compile({}, [first, second], options=options)
    for run in range(2):
        a, b = executable.run([])
        assert a.tolist() == [2 * run + 1, 4 * run + 2] and b.tolist() == [2 * run + 2, 4 * run + 4]
    assert inner.variable_value(v).tolist() == [4, 8]
    only_first = g.compile({}, [first], options=options)
    only_first.run([])
    assert inner.variable_value(v).tolist() == [5, 10], "a call whose result is unused must not run"


@VARIABLES
def test_callable_stays_correct_when_variable_layout_changes():
    """A later compilation of the called graph may store its weights in a different layout; the callable must follow."""
    inner = mg.Graph()
    x = inner.placeholder((1, 8, 8, 16))
    w = inner.variable(np.random.default_rng(0).standard_normal((3, 3, 16, 16)).astype(np.float32))
    y = inner.convolution2d(x, w)
    called = inner.compile({x: (1, 8, 8, 16)}, [y])
    outer = mg.Graph()
    p = outer.placeholder((1, 8, 8, 16))
    (z,) = outer.call("f", [p], [(tuple(y.shape), FLOAT)])
    executable = outer.compile({p: p.shape}, [z], options=mg.CompilationDescriptor(callables={"f": called}))
    feed = np.random.default_rng(1).standard_normal((1, 8, 8, 16)).astype(np.float32)
    before = executable.run([feed])[0].numpy().copy()
    inner.set_variable(w, inner.variable_value(w) * 2)
    inner.run({x: feed}, [y, inner.reduction_sum(w)])
    np.testing.assert_allclose(executable.run([feed])[0].numpy(), 2 * before, rtol=1e-5, atol=1e-5)


@VARIABLES
def test_threads_call_one_executable_concurrently():
    inner, v, count = counter()
    options = mg.CompilationDescriptor(callables={"count": count})
    callers = []
    for _ in range(4):
        g = mg.Graph()
        (y,) = g.call("count", [g.constant([1.0, 1.0])], [((2,), FLOAT)])
        callers.append(g.compile({}, [y], options=options))
    threads = [threading.Thread(target=lambda e=e: [e.run([]) for _ in range(25)]) for e in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert inner.variable_value(v).tolist() == [100, 100]


def test_calls_round_trip_through_text():
    g, _ = caller()
    text = str(g)
    assert "types=(float32[2,2],float32[2,1])" in text and str(mg.parse(text)) == text
    empty = mg.Graph()
    empty.call_operation("nothing", [])
    assert "types=()" in str(empty) and str(mg.parse(str(empty))) == str(empty)


def test_replaced_callable_recompiles_the_caller():
    g = mg.Graph()
    x = g.placeholder(())
    (y,) = g.call("f", [x], [((), FLOAT)])
    for factor in (2, 3):
        inner = mg.Graph()
        a = inner.placeholder(())
        f = inner.compile({a: ()}, [a * factor])
        options = mg.CompilationDescriptor(callables={"f": f})
        assert g.compile({x: ()}, [y], options=options).run([np.float32(5)])[0].item() == 5 * factor


def test_invalid_calls_raise():
    g = mg.Graph()
    x = g.placeholder((-1, 3))
    (y,) = g.call("f", [x], [((2, 2), FLOAT)])
    with pytest.raises(mg.GraphError, match="'f'.*none"):
        g.run({x: X}, y)
    own = g.compile({x: (2, 3)}, [x * 2])
    with pytest.raises(mg.GraphError, match="same graph"):
        g.compile({x: (2, 3)}, [y], options=mg.CompilationDescriptor(callables={"f": own}))
    other = mg.Graph()
    a = other.placeholder((4, 3))
    for feed, error in (((4, 3), "takes"), ((2, 3), "returns")):
        b = other.placeholder(feed)
        wrong = other.compile({b: feed}, [b])
        with pytest.raises(mg.ShapeError, match=rf"'f' {error} \(float32"):
            g.compile({x: (2, 3)}, [y], options=mg.CompilationDescriptor(callables={"f": wrong}))
    with pytest.raises(mg.GraphError, match="'f'.*'h'"):
        right = other.compile({a: (4, 3)}, [a])
        g.compile({x: (2, 3)}, [y], options=mg.CompilationDescriptor(callables={"h": right}))
    with pytest.raises(mg.ShapeError, match="must have a static shape"):
        g.call("f", [x], [((-1, 2), FLOAT)])
    with pytest.raises(mg.GraphError, match="empty"):
        g.call("", [x], [((2, 2), FLOAT)])
    with pytest.raises(mg.GraphError, match="'call' has no gradient"):
        g.gradients(y, [x])


def test_mutually_calling_graphs_raise():
    """Each call alone would terminate, but two concurrent runs would deadlock, each waiting for the other's graph."""
    first, second = mg.Graph(), mg.Graph()
    x, a = first.placeholder(()), second.placeholder(())
    plain_first, plain_second = first.compile({x: ()}, [x + 1]), second.compile({a: ()}, [a + 1])
    (y,), (b,) = first.call("f", [x], [((), FLOAT)]), second.call("f", [a], [((), FLOAT)])
    there = first.compile({x: ()}, [y], options=mg.CompilationDescriptor(callables={"f": plain_second}))
    with pytest.raises(mg.GraphError, match="calls that graph"):
        second.compile({a: ()}, [b], options=mg.CompilationDescriptor(callables={"f": plain_first}))
    assert there.run([np.float32(1)])[0].item() == 2


def test_recursive_call_raises():
    """An executable that calls back into its caller, even through a third graph, would wait for itself."""
    outer, inner = mg.Graph(), mg.Graph()
    x, a = outer.placeholder(()), inner.placeholder(())
    base = outer.compile({x: ()}, [x + 1])
    (z,) = inner.call("base", [a], [((), FLOAT)])
    back = inner.compile({a: ()}, [z], options=mg.CompilationDescriptor(callables={"base": base}))
    (y,) = outer.call("f", [x], [((), FLOAT)])
    with pytest.raises(mg.GraphError, match="same graph"):
        outer.compile({x: ()}, [y], options=mg.CompilationDescriptor(callables={"f": back}))
