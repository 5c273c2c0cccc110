"""Test reading and writing several variables at once."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest

pytestmark = pytest.mark.both_devices


def variables() -> tuple[mg.Graph, list[mg.Tensor]]:
    g = mg.Graph()
    return g, [
        g.variable([1.0, 2.0]),
        g.variable(np.arange(6, dtype=np.int32).reshape(2, 3)),
        g.variable(np.zeros((0, 4), np.float32)),
        g.variable(True),
    ]


def test_variable_values_are_in_the_requested_order():
    g, (floats, integers, empty, flag) = variables()
    g.run({}, [], [g.assign(floats, floats + 1), g.assign(flag, g.constant(False))])
    found = g.variable_values(v for v in (flag, integers, empty, floats))
    assert [value.tolist() for value in found] == [False, [[0, 1, 2], [3, 4, 5]], [], [2.0, 3.0]]
    assert [str(value.dtype) for value in found] == ["bool", "int32", "float32", "float32"]
    assert found[2].shape == (0, 4)


def test_variable_values_are_copies_even_of_a_repeated_variable():
    g, (floats, *_) = variables()
    first, second = g.variable_values([floats, floats])
    first[:] = 7
    assert second.tolist() == g.variable_value(floats).tolist() == [1.0, 2.0]


def test_no_variables_are_read_or_written():
    g, _ = variables()
    assert g.variable_values([]) == []
    g.set_variables({})


def test_set_variables_copies_all_values():
    g, (floats, integers, empty, flag) = variables()
    doubled = g.compile({}, [floats * 2, integers * 2])
    given = np.float32([8, 0, 9, 0])
    g.set_variables({integers: np.full((2, 3), 5, np.int32), floats: given[::2], flag: False, empty: empty_array()})
    given[:] = 0
    assert [value.tolist() for value in g.variable_values([floats, integers, flag])] == [[8, 9], [[5] * 3] * 2, False]
    assert [result.tolist() for result in doubled.run([])] == [[16, 18], [[10] * 3] * 2]


def empty_array() -> np.ndarray:
    return np.zeros((0, 4), np.float32)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (np.zeros(3, np.int32), mg.ShapeError, r"must have shape \(2,3\), got \(3\)"),
        (np.zeros((2, 3), np.float32), mg.DTypeError, "must be int32, got float32"),
    ],
)
def test_no_variable_changes_if_one_value_does_not_fit(value: np.ndarray, error: type[Exception], words: str):
    g, (floats, integers, *_) = variables()
    with pytest.raises(error, match=words):
        g.set_variables({floats: np.float32([3, 4]), integers: value})
    assert g.variable_value(floats).tolist() == [1.0, 2.0]


def test_tensors_that_are_not_variables_of_the_graph_raise():
    g, (floats, *_) = variables()
    other = mg.Graph().variable([1.0], name="stranger")
    for tensor in (other, floats + 1):
        with pytest.raises(mg.GraphError, match="must be a variable of this graph"):
            g.variable_values([floats, tensor])
        with pytest.raises(mg.GraphError, match="must be a variable of this graph"):
            g.set_variables({floats: np.float32([3, 4]), tensor: np.float32([1])})
    with pytest.raises(mg.GraphError, match="must map variables to arrays, got the key 'v'"):
        g.set_variables({"v": np.float32([1])})
    assert g.variable_value(floats).tolist() == [1.0, 2.0]
