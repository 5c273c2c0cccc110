"""Test that compiled programs grow in proportion to the graph, and that very long graphs compile.

These tests measure no times; bench/compile_time.py does.
"""

from __future__ import annotations

from collections.abc import Callable

import mpsgraph as mg
import numpy as np
import pytest

Chain = Callable[[mg.Graph, mg.Tensor, int], tuple[mg.Tensor, list[mg.Operation]]]
LONG = 200_000


def unary(g: mg.Graph, x: mg.Tensor, length: int):
    for i in range(length):
        x = g.tanh(x) if i % 2 else -x
    return x, []


def constants(g: mg.Graph, x: mg.Tensor, length: int):
    for i in range(length):
        x = x + g.constant(np.float32(i))
    return x, []


def assigns(g: mg.Graph, x: mg.Tensor, length: int):
    variable = g.variable(np.zeros(4, np.float32))
    return x, [g.assign(variable, variable + 1.0) for _ in range(length // 2)]


def checks_and_assigns(g: mg.Graph, x: mg.Tensor, length: int):
    variables = [g.variable(np.zeros(4, np.float32)) for _ in range(length // 12)]
    operations = []
    for i in range(length // 6):
        x = g.tanh(x)
        operations.append(g.check(g.reduction_and(x < 5.0), "too large"))
        if i % 2:
            operations.append(g.assign(variables[i // 2], x))
    return x, operations


def compiled(chain: Chain, length: int) -> mg.Executable:
    g = mg.Graph()
    x = g.placeholder((4,))
    target, operations = chain(g, x, length)
    return g.compile({x: (4,)}, [target], operations)


@pytest.mark.parametrize("chain", [unary, constants, assigns, checks_and_assigns])
def test_program_of_a_chain_grows_in_proportion_to_its_length(chain: Chain):
    short, middle, long = (compiled(chain, length) for length in (1200, 2400, 3600))

    kernels = [len(executable.kernel_names()) for executable in (short, middle, long)]
    assert kernels[2] - kernels[1] == pytest.approx(kernels[1] - kernels[0], abs=4)
    assert long.bytes - middle.bytes == pytest.approx(middle.bytes - short.bytes, abs=1024)


def test_chain_of_200000_operations_compiles_and_runs():
    g = mg.Graph()
    x = g.placeholder((4,))
    y = x
    for _ in range(LONG // 2):
        y = -(y + x)
    executable = g.compile({x: (4,)}, [y, g.reduction_sum(y, 0)])
    values, total = executable.run([np.float32([0, 1, 2, 3])])
    # Two steps compute -(-(y + x) + x), which equals y.
    assert np.asarray(values).tolist() == [0, 1, 2, 3]
    assert np.asarray(total).tolist() == [6]


def test_64_nested_loops_compile_to_a_small_program():
    g = mg.Graph()
    x = g.placeholder((4,))

    def nested(depth: int, value: mg.Tensor) -> mg.Tensor:
        if depth == 0:
            return value + x
        (result,) = g.for_(2 if depth <= 3 else 1, initial=[value], body=lambda i, v: [nested(depth - 1, v)])
        return result

    executable = g.compile({x: (4,)}, [nested(64, x)])
    assert executable.bytes < 1 << 20
    (result,) = executable.run([np.ones(4, np.float32)])
    np.testing.assert_array_equal(np.asarray(result), np.full(4, 9.0, np.float32))
