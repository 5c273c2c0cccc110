"""Test that the time to compile a program is proportional to its size."""

from __future__ import annotations

import time
from collections.abc import Callable

import mpsgraph as mg
import numpy as np
import pytest

Chain = Callable[[mg.Graph, mg.Tensor, int], tuple[mg.Tensor, list[mg.Operation]]]


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


def seconds_to_compile(chain: Chain, length: int) -> float:
    g = mg.Graph()
    x = g.placeholder((4,))
    target, operations = chain(g, x, length)
    begin = time.process_time()
    g.compile({x: (4,)}, [target], operations)
    return time.process_time() - begin


@pytest.mark.parametrize("chain", [unary, constants, assigns, checks_and_assigns])
def test_compile_time_of_a_chain_is_proportional_to_its_length(chain: Chain):
    seconds_to_compile(chain, 200)  # the first compilation in a process is slower
    for _ in range(3):  # other processes slow a compilation down at times
        short, long = seconds_to_compile(chain, 6000), seconds_to_compile(chain, 24000)
        if long < 9 * short + 0.5:  # 4 times the time of the short chain if linear, 16 if quadratic
            return
    pytest.fail(f"compiling 24,000 operations took {long:.2f} s, and 6,000 operations {short:.2f} s")


def test_64_nested_loops_compile_in_less_than_a_second():
    g = mg.Graph()
    x = g.placeholder((4,))

    def nested(depth: int, value: mg.Tensor) -> mg.Tensor:
        if depth == 0:
            return value + x
        (result,) = g.for_(2 if depth <= 3 else 1, initial=[value], body=lambda i, v: [nested(depth - 1, v)])
        return result

    target = nested(64, x)
    begin = time.process_time()
    executable = g.compile({x: (4,)}, [target])
    assert time.process_time() - begin < 1.0
    assert executable.bytes < 1 << 20
    (result,) = executable.run([np.ones(4, np.float32)])
    np.testing.assert_array_equal(np.asarray(result), np.full(4, 9.0, np.float32))
