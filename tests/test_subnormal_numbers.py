"""Numbers too small for a full mantissa: exact in what a graph computes, zero in what updates its variables.

An average that decays ends among them, and an x86 core needs some hundred cycles for each (decision 0017).
"""

import platform

import mpsgraph as mg
import numpy as np
import pytest

SMALLEST = np.float32(2.0**-126)  # with a full mantissa
FLUSHED = platform.machine() in ("x86_64", "AMD64")


def halving(start: np.ndarray, reference: bool) -> tuple[mg.Graph, mg.Tensor, mg.Executable]:
    g = mg.Graph()
    v = g.variable(start)
    update = g.assign(v, v * np.float32(0.5))
    return g, v, g.compile({}, [], [update], options=mg.CompilationDescriptor(reference_kernels=reference))


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("size", [1, 100, 300_000])
def test_a_variable_that_decays_becomes_zero(size: int, reference: bool):
    start = SMALLEST * np.float32(2) ** (np.arange(size, dtype=np.float32) % 5)
    g, v, halve = halving(start, reference)
    expected = start
    for _ in range(8):
        halve.run([])
        expected = expected * np.float32(0.5)
        if FLUSHED:
            expected = np.where(expected < SMALLEST, np.float32(0), expected)
        np.testing.assert_array_equal(g.run({}, v).numpy(), expected)
    assert (expected == 0).all() == FLUSHED


def test_what_is_not_a_variable_keeps_them():
    x = SMALLEST * np.linspace(0, 1, 1000, dtype=np.float32)
    g = mg.Graph()
    p = g.placeholder(x.shape)
    y = g.run({p: x}, p * np.float32(0.5)).numpy()
    np.testing.assert_array_equal(y, x * np.float32(0.5))
    assert 0 < y[1] < SMALLEST


def test_the_threads_own_arithmetic_stays_as_it_was():
    _, _, halve = halving(np.full(10, SMALLEST), False)
    for _ in range(5):
        halve.run([])  # the later ones on this thread
    assert SMALLEST * np.float32(0.5) > 0
