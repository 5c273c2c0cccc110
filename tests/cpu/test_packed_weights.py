"""Test which kernels multiply packed weights, and that they agree with plain loops."""

from __future__ import annotations

import os
import subprocess
import sys

import mpsgraph as mg
import numpy as np
import pytest

# The dtypes that each candidate computes. amx_digits needs large matrices: tests/cpp/test_packed_products.cpp tests it.
CANDIDATES = {
    "registers": ("float32", "bfloat16"),
    "bfloat16_blocks": ("bfloat16",),
    "float_blocks": ("float32", "bfloat16"),
}


def packed(g, outputs: int, columns: int, bits: int = 4, group: int = 64):
    """Return packed weights of a graph."""
    random = np.random.default_rng(bits)
    words = random.integers(0, 2**32, (outputs, columns * bits // 32)).astype(np.uint32)
    scale, bias = random.normal(size=(2, outputs, columns // group)).astype(np.float32)
    return g.dequantize_packed(g.variable(words), g.variable(scale), g.variable(bias), bits=bits)


def plan_of(rows: int, dtype: str = "float32") -> str:
    g = mg.Graph()
    w = g.cast(packed(g, 512, 512), dtype)
    x = g.placeholder((rows, 512), dtype)
    return g.compile({x: x.shape}, [x @ g.transpose(w, (1, 0))]).plan()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("rows", "kernels"),
    [(1, ["registers"]), (16, ["registers"]), (17, ["float_blocks", "bfloat16_blocks"])],
)
def test_kernel_depends_on_number_of_rows(rows, kernels, dtype):
    plan = plan_of(rows, dtype)
    assert any(f": {kernel}: " in plan for kernel in kernels), plan
    assert "dequantize_packed" not in plan and "transpose" not in plan, plan


FORCED = """
import sys
import numpy as np
import mpsgraph as mg
sys.path.insert(0, {folder!r})
from test_packed_weights import packed
for dtype in {dtypes!r}:
    tolerance = 1e-5 if dtype == "float32" else 2e-2
    for bits, rows, columns, outputs, group in {sizes!r}:
        g = mg.Graph()
        w = g.cast(packed(g, outputs, columns, bits, group), dtype)
        x = g.placeholder((rows, columns), dtype)
        y = g.cast(x @ g.transpose(w, (1, 0)), "float32")
        given = g.run({{}}, g.cast(g.constant(np.random.default_rng(0).normal(size=x.shape).astype("f4")), dtype))
        wide, dense = (g.run({{}}, g.cast(t, "float32")).numpy().astype(float) for t in (g.constant(given), w))
        found, exact = g.run({{x: given}}, y).numpy(), wide @ dense.T
        most = np.abs(wide) @ np.abs(dense).T
        error = np.max(np.abs(found - exact) / most)
        assert error <= tolerance, (dtype, bits, rows, error)
"""
SIZES = [
    (bits, rows, columns, outputs, group)
    for bits in (2, 4, 8)
    for rows, columns, outputs, group in [
        *((1, 96, 41, 32), (1, 640, 70, 64), (1, 512, 130, 512), (2, 224, 9, 32), (3, 256, 9, 128)),
        *((9, 192, 41, 32), (16, 256, 33, 64), (16, 640, 64, 128)),
    ]
]


@pytest.mark.parametrize("candidate", CANDIDATES)
def test_each_candidate_agrees_with_float64(candidate):
    code = FORCED.format(folder=os.path.dirname(__file__), sizes=SIZES, dtypes=CANDIDATES[candidate])
    setting = {"MPSGRAPH_KERNELS": f"quantized_matrix_multiplication={candidate}"}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | setting, capture_output=True, text=True)
    if "no products of bfloat16" in done.stderr:
        pytest.skip("this processor has no products of bfloat16")
    assert done.returncode == 0, done.stderr
