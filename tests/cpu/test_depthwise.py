"""Depthwise convolutions whose taps lie apart, beside plain loops: bias, residual and relu, strides, odd channels."""

import mpsgraph as mg
import numpy as np
import pytest

PLAIN = mg.CompilationDescriptor(reference_kernels=True)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("channels", [3, 16, 70])
@pytest.mark.parametrize("dilations, strides", [((1, 16), (1, 1)), ((2, 3), (1, 2))])
def test_taps_that_lie_apart(dtype, channels, dilations, strides):
    rng = np.random.default_rng(channels)
    images = rng.standard_normal((2, 5, 40, channels)).astype(dtype)
    g = mg.Graph()
    x = g.placeholder(images.shape, dtype)
    weights = g.constant(rng.standard_normal((3, 3, 1, channels)).astype(dtype))
    how = {"groups": channels, "dilations": dilations, "strides": strides, "padding": "TF_SAME"}
    y = g.convolution2d(x, weights, **how)
    y = g.relu(y + g.constant(rng.standard_normal(channels).astype(dtype)) + g.square(y))
    kept = g.compile({x: images}, [y])
    assert "depthwise, a pixel at a time" in kept.plan()
    [found], [expected] = kept.run([images]), g.compile({x: images}, [y], options=PLAIN).run([images])
    tolerance = 1e-5 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=tolerance, atol=4 * tolerance)
