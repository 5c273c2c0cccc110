"""Test origins: the placeholders and block arguments that an operation depends on.

Importers use the origins of a size to find the input that determines it.
"""

import mpsgraph as mg
import pytest
from mpsgraph import _core


def origins(g, tensor):
    return [operation.name for operation in _core.Origins(g).of(tensor.operation)]


def test_origins_are_all_ancestors_in_graph_order():
    g = mg.Graph()
    x, y, z = (g.placeholder((2,), name=name) for name in "xyz")
    y_and_x = g.multiplication(y, g.square(x))
    assert origins(g, y_and_x) == ["x", "y"]
    assert origins(g, g.square(y_and_x)) == ["x", "y"]
    assert origins(g, g.concat([y_and_x, g.addition(z, y)], 0)) == ["x", "y", "z"]
    assert origins(g, g.addition(z, y_and_x)) == origins(g, g.addition(y_and_x, z)) == ["x", "y", "z"]
    assert origins(g, x) == ["x"] and origins(g, g.constant(1.0)) == []


def test_origins_of_if_result_include_both_branches_and_predicate():
    g = mg.Graph()
    x, y = (g.placeholder((), name=name) for name in "xy")
    p = g.placeholder((), mg.bool_, name="p")
    (taken,) = g.if_(p, lambda: [g.square(x)], lambda: [g.negative(y)])
    assert origins(g, taken) == ["x", "y", "p"]


def test_origins_of_loop_result_include_inputs_of_its_body():
    g = mg.Graph()
    x = g.placeholder((), name="x")
    (last,) = g.for_(3, initial=[g.constant(0.0)], body=lambda i, s: s + g.square(x))
    found = _core.Origins(g).of(last.operation)
    assert "x" in {operation.name for operation in found}
    assert "argument" in {operation.kind for operation in found}


def test_origins_are_cached_until_the_graph_changes():
    g = mg.Graph()
    x, y = (g.placeholder((2,), name=name) for name in "xy")
    known = _core.Origins(g)
    first = g.square(x)
    assert [o.name for o in known.of(first.operation)] == ["x"]
    assert [o.name for o in known.of(g.addition(first, y).operation)] == ["x", "y"]


def test_origins_of_operation_in_another_graph_raise():
    with pytest.raises(mg.GraphError, match="another graph"):
        _core.Origins(mg.Graph()).of(mg.Graph().placeholder((2,)).operation)
