"""Weights that are turned, packed or widened for a kernel are there once, for all sizes of the data."""

import mpsgraph as mg
import numpy as np
import pytest


def resident():
    """Bytes in memory."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_new_size_needs_no_new_weights(dtype):
    """Channels second: the weights are turned before they are packed. 9 MB of them, in float32."""
    g = mg.Graph()
    x = g.placeholder((1, 512, -1, -1), dtype)
    weights = g.constant(np.zeros((512, 512, 3, 3), dtype) + np.arange(3, dtype=dtype))
    y = g.convolution2d(x, weights, data_layout="NCHW", weights_layout="OIHW", padding="TF_SAME")
    kept, before = [], 0
    for i, size in enumerate(range(8, 20)):
        images = np.zeros((1, 512, size, size), dtype)
        kept.append(g.compile({x: images}, [y]))
        kept[-1].run([images])
        before = resident() if i == 3 else before
    one = 512 * 512 * 9 * 4
    assert resident() - before < 8 * one  # of eight more sizes: less than one copy for each; there were two
