"""Test matmuls that run as convolutions by taps: grouped convolutions with an epilogue, and bfloat16 matmuls."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import HAS_VECTORS

PLAIN = mg.CompilationDescriptor(reference_kernels=True)


@pytest.mark.parametrize(("inputs", "outputs", "groups"), [(32, 32, 8), (12, 24, 3), (40, 40, 2), (6, 4, 2)])
def test_grouped_convolution_with_epilogue_matches_reference(inputs, outputs, groups):
    rng = np.random.default_rng(0)
    g = mg.Graph()
    x, w = g.placeholder((2, 9, 7, inputs)), g.placeholder((3, 3, inputs // groups, outputs))
    b, r = g.placeholder((outputs,)), g.placeholder((2, 9, 7, outputs))
    y = g.relu(g.convolution2d(x, w, groups=groups, padding="TF_SAME") + b + r)
    feeds = {t: rng.standard_normal(t.shape, np.float32) for t in (x, w, b, r)}
    shapes = {t: t.shape for t in feeds}
    fast, plain = g.compile(shapes, [y]), g.compile(shapes, [y], options=PLAIN)
    assert not HAS_VECTORS or ": grouped_taps: " in fast.plan(), fast.plan()
    found, expected = (e.run([feeds[t] for t in e.feeds])[0].numpy() for e in (fast, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("turned", [(), (0,), (1,)])
@pytest.mark.parametrize(("rows", "steps", "columns"), [(64, 96, 130), (34, 40, 18), (6, 64, 32)])
def test_bfloat16_matmul_matches_float32(rows, steps, columns, turned):
    rng = np.random.default_rng(0)
    g = mg.Graph()
    shapes = [shape[::-1] if i in turned else shape for i, shape in enumerate(((rows, steps), (steps, columns)))]
    fed = [g.placeholder(shape) for shape in shapes]
    a, b = (g.transpose(t, (1, 0)) if i in turned else t for i, t in enumerate(g.cast(t, mg.bfloat16) for t in fed))
    y = g.cast(a @ b, mg.float32)
    # integers of few bits, which are exact in bfloat16
    arrays = [rng.integers(-8, 9, shape).astype(np.float32) for shape in shapes]
    executable = g.compile({t: t.shape for t in fed}, [y])
    if "AVX-512" in mg.Device("cpu").description:
        assert ": bfloat16: " in executable.plan(), executable.plan()
    found = executable.run([dict(zip(fed, arrays, strict=True))[t] for t in executable.feeds])[0].numpy()
    exact = np.matmul(*(array.T if i in turned else array for i, array in enumerate(arrays)))
    np.testing.assert_allclose(found, exact, rtol=2**-8, atol=0)
