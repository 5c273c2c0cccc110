"""Test which kernels multiply packed weights, and that the dense matrix is not written."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest


@pytest.mark.parametrize(("rows", "kernel"), [(1, ": registers: "), (16, ": registers: "), (17, ": unpacked_blocks: ")])
def test_kernel_depends_on_number_of_rows(rows, kernel):
    g = mg.Graph()
    parameter = g.variable(np.ones((512, 8), np.float32))
    w = g.dequantize_packed(g.variable(np.zeros((512, 64), np.uint32)), parameter, parameter)
    x = g.placeholder((rows, 512))
    plan = g.compile({x: x.shape}, [x @ g.transpose(w, (1, 0))]).plan()
    assert kernel in plan, plan
    assert "dequantize_packed" not in plan and "transpose" not in plan, plan
