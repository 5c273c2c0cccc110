"""Numbers too small for a full mantissa are zero in a program's arithmetic, on x86 (decision 0017).

On every thread: what a product or a region computes of them must not depend on who computes it. Other processors keep
them at no cost.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.subnormal import FLUSHED, flushed

SMALLEST = np.float32(2.0**-126)  # with a full mantissa
ON = {"generated": False, "reference": True}


def compiled(g: mg.Graph, feeds, targets, kernels: str) -> mg.Executable:
    return g.compile(feeds, targets, options=mg.CompilationDescriptor(reference_kernels=ON[kernels]))


@pytest.mark.parametrize("kernels", ON)
@pytest.mark.parametrize("size", [1, 100, 300_000])
def test_results_of_a_region(size: int, kernels: str):
    x = SMALLEST * np.linspace(1, 4, size, dtype=np.float32)
    g = mg.Graph()
    p = g.placeholder(x.shape)
    halve = compiled(g, {p: x.shape}, [p * np.float32(0.5)], kernels)
    np.testing.assert_array_equal(halve.run([x])[0].numpy(), flushed(x * np.float32(0.5)))


@pytest.mark.parametrize("kernels", ON)
@pytest.mark.parametrize("size", [1, 100, 300_000])
def test_operands_of_a_region(size: int, kernels: str):
    x = SMALLEST * np.linspace(0, 2, size, dtype=np.float32)
    g = mg.Graph()
    p = g.placeholder(x.shape)
    enlarge = compiled(g, {p: x.shape}, [p * np.float32(2.0**40)], kernels)
    np.testing.assert_array_equal(enlarge.run([x])[0].numpy(), flushed(x) * np.float32(2.0**40))


@pytest.mark.parametrize("kernels", ON)
@pytest.mark.parametrize("rows", [1, 7, 256])
def test_products(rows: int, kernels: str):
    """Of a diagonal matrix, so that each result is one product. 256 rows are shared out."""
    diagonal = SMALLEST * np.linspace(0, 2, 256, dtype=np.float32)
    factors = np.full((rows, 256), 2.0**40, np.float32)
    g = mg.Graph()
    a, b = g.placeholder(factors.shape), g.placeholder((256, 256))
    multiply = compiled(g, {a: factors.shape, b: (256, 256)}, [a @ b], kernels)
    result = multiply.run([factors, np.diag(diagonal)])[0].numpy()
    np.testing.assert_array_equal(result, np.tile(flushed(diagonal) * np.float32(2.0**40), (rows, 1)))


def test_copies_keep_them():
    x = SMALLEST * np.linspace(0, 2, 600, dtype=np.float32).reshape(20, 30)
    g = mg.Graph()
    p = g.placeholder(x.shape)
    v = g.variable(x)
    for y in (g.transpose(p, [1, 0]), g.reshape(g.transpose(v, [1, 0]), (30, 20))):
        np.testing.assert_array_equal(g.run({p: x}, y).numpy(), x.T)


def test_a_variable_that_decays_becomes_zero():
    g = mg.Graph()
    v = g.variable(np.full(1000, 1.0, np.float32))
    decay = g.compile({}, [], [g.assign(v, v * np.float32(0.9))])
    for _ in range(900):
        decay.run([])
    assert (g.variable_value(v) == 0).all() == FLUSHED


def test_the_threads_own_arithmetic_stays_as_it_was():
    g = mg.Graph()
    p = g.placeholder((512, 512))
    multiply, x = g.compile({p: p.shape}, [p @ p]), np.ones((512, 512), np.float32)
    for _ in range(5):
        multiply.run([x])  # the later ones on this thread
    assert SMALLEST * np.float32(0.5) > 0
