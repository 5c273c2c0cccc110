"""Test that arithmetic on x86 flushes subnormal numbers to zero (decision 0017).

This applies to every thread, because results must not depend on which thread computes them. Other processors keep
subnormal numbers, at no cost.
"""

from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.runtime import run_program
from harness.subnormal import FLUSHED, flushed

SMALLEST = np.float32(2.0**-126)  # the smallest normal number
ON = {"generated": False, "reference": True}


def compiled(g: mg.Graph, feeds, targets, kernels: str) -> mg.Executable:
    return g.compile(feeds, targets, options=mg.CompilationDescriptor(reference_kernels=ON[kernels]))


@pytest.mark.parametrize("kernels", ON)
@pytest.mark.parametrize("size", [1, 100, 300_000])
@pytest.mark.parametrize("factor", [2.0**-1, 2.0**40], ids=["results", "operands"])
def test_fused_kernels_flush_subnormals_to_zero(factor: float, size: int, kernels: str):
    x = SMALLEST * np.linspace(0.5, 4, size, dtype=np.float32)
    g = mg.Graph()
    p = g.placeholder(x.shape)
    scale = compiled(g, {p: x.shape}, [p * np.float32(factor)], kernels)
    wanted = flushed(flushed(x) * np.float32(factor))
    np.testing.assert_array_equal(scale.run([x])[0].numpy(), wanted)


@pytest.mark.parametrize("kernels", ON)
@pytest.mark.parametrize("rows", [1, 7, 256])
def test_matmul_flushes_subnormals_to_zero(rows: int, kernels: str):
    """With a diagonal matrix, each result is a single product. 256 rows are split between threads."""
    diagonal = SMALLEST * np.linspace(0, 2, 256, dtype=np.float32)
    factors = np.full((rows, 256), 2.0**40, np.float32)
    g = mg.Graph()
    a, b = g.placeholder(factors.shape), g.placeholder((256, 256))
    multiply = compiled(g, {a: factors.shape, b: (256, 256)}, [a @ b], kernels)
    result = multiply.run([factors, np.diag(diagonal)])[0].numpy()
    np.testing.assert_array_equal(result, np.tile(flushed(diagonal) * np.float32(2.0**40), (rows, 1)))


def test_copies_keep_subnormals():
    x = SMALLEST * np.linspace(0, 2, 600, dtype=np.float32).reshape(20, 30)
    g = mg.Graph()
    p = g.placeholder(x.shape)
    v = g.variable(x)
    for y in (g.transpose(p, [1, 0]), g.reshape(g.transpose(v, [1, 0]), (30, 20))):
        np.testing.assert_array_equal(g.run({p: x}, y).numpy(), x.T)


HALVES = {
    "cast": (lambda g, x: g.cast(x, mg.float32), lambda x: x.astype(np.float32)),
    "negative": (lambda g, x: -x, np.negative),
    "sum": (lambda g, x: g.reduction_sum(x, axes=[1]), lambda x: x.sum(1, dtype=np.float32, keepdims=True)),
    "maximum": (lambda g, x: g.reduction_maximum(x, axes=[1]), lambda x: x.max(1, keepdims=True)),
    "cumulative sum": (lambda g, x: g.cumulative_sum(x, axis=1), lambda x: np.cumsum(x, 1, dtype=np.float32)),
    "sort": (lambda g, x: g.sort(x, axis=1), lambda x: np.sort(x, 1)),
    "arg-sort": (lambda g, x: g.arg_sort(x, axis=1), lambda x: np.argsort(x, 1, kind="stable")),
    "product": (lambda g, x: x @ g.constant(np.eye(32, dtype=np.float16)), lambda x: x),
}


@pytest.mark.parametrize("kernels", ON)
@pytest.mark.parametrize("name", HALVES)
def test_float16_subnormals_are_kept(name: str, kernels: str):
    """Subnormal float16 numbers are normal in float32, in which they are computed."""
    x = np.random.default_rng(0).permutation(np.arange(-512, 512)).reshape(32, 32).astype(np.float16) * 2.0**-24
    x = x.astype(np.float16)
    build, wanted = HALVES[name]
    g = mg.Graph()
    p = g.placeholder(x.shape, mg.float16)
    result = compiled(g, {p: x.shape}, [build(g, p)], kernels).run([x])[0].numpy()
    np.testing.assert_array_equal(result, wanted(x).astype(result.dtype))


def test_decaying_variable_reaches_zero():
    g = mg.Graph()
    v = g.variable(np.full(1000, 1.0, np.float32))
    decay = g.compile({}, [], [g.assign(v, v * np.float32(0.9))])
    for _ in range(900):
        decay.run([])
    assert (g.variable_value(v) == 0).all() == FLUSHED


def test_run_restores_floating_point_mode_of_calling_thread():
    g = mg.Graph()
    p = g.placeholder((512, 512))
    multiply, x = g.compile({p: p.shape}, [p @ p]), np.ones((512, 512), np.float32)
    for _ in range(5):
        multiply.run([x])  # after the first runs, on this thread
    assert SMALLEST * np.float32(0.5) > 0


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="requires Linux to find libgomp in /proc/self/maps")
def test_openmp_threads_started_by_another_library_flush_subnormals():
    """OpenMP threads inherit the floating-point mode of the thread that creates them, which may be the caller's."""
    done = run_program(
        """
        import ctypes, re
        import mpsgraph as mg
        import numpy as np
        libraries = set(re.findall(r"/\\S*libgomp\\S*", open("/proc/self/maps").read()))
        body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
        for library in libraries:
            ctypes.CDLL(library).GOMP_parallel(body, None, 2, 0)
        g = mg.Graph()
        a, b = g.placeholder((512, 256)), g.placeholder((256, 256))
        multiply = g.compile({a: a.shape, b: b.shape}, [a @ b])
        small, large = np.eye(256, dtype=np.float32) * 2.0**-130, np.full(a.shape, 2.0**40, np.float32)
        for _ in range(5):  # the later ones on this thread
            result = multiply.run([large, small])[0].numpy()
        print(np.count_nonzero(result))
        """
    )
    assert done.stdout.strip() == ("0" if FLUSHED else str(512 * 256)), done.stderr
