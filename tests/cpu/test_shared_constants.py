"""Test that weights transposed, packed, or converted for a kernel exist once for all input sizes."""

import mpsgraph as mg
import numpy as np
import pytest


def resident():
    """Return the resident memory of the process in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_new_input_size_does_not_duplicate_packed_weights(dtype):
    """The weights are channels first, so they are transposed before packing. They take 9 MB in float32."""
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
    assert resident() - before < 8 * one  # eight more sizes must not add a copy of the weights each
