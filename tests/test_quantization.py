"""Quantization beside PyTorch's numbers, gradients that pass straight through, and what is refused."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest


def gradient_of(function, *arrays: np.ndarray) -> list[np.ndarray]:
    g = mg.Graph()
    tensors = [g.placeholder(a.shape, a.dtype) for a in arrays]
    gradients = g.gradients(function(g, *tensors), tensors)
    found = g.run(dict(zip(tensors, arrays, strict=True)), list(gradients.values()))
    return [found[gradients[t]].numpy() for t in tensors]


# x, and what torch 2.13 makes of it: fake_quantize_per_tensor_affine(x, 0.1, 10, -128, 127) and its gradient.
X = np.array([-30.0, -13.84, -0.15, -0.05, 0.0, 0.04, 0.26, 11.74, 20.0], np.float32)
FAKE = [-13.8, -13.8, -0.2, 0.0, 0.0, 0.0, 0.3, 11.7, 11.7]
PASSES = [0, 1, 1, 1, 1, 1, 1, 1, 0]


def test_fake_quantization_is_pytorchs():
    g = mg.Graph()
    x = g.placeholder(X.shape)
    y = g.fake_quantize(x, 0.1, 10.0)
    d = g.gradients(y, [x])[x]
    found = g.run({x: X}, [y, d])
    np.testing.assert_allclose(found[y].numpy(), FAKE, atol=1e-6)
    np.testing.assert_array_equal(found[d].numpy(), PASSES)


def test_fake_quantization_is_quantize_and_dequantize():
    g = mg.Graph()
    x = np.random.default_rng(0).normal(0, 5, (7, 3)).astype(np.float32)
    t, scale = g.placeholder(x.shape), np.array([0.05, 0.1, 0.2], np.float32)
    steps = g.constant(scale)
    fake = g.fake_quantize(t, steps, axis=1)
    real = g.dequantize(g.quantize(t, steps, axis=1), steps, axis=1)
    found = g.run({t: x}, [fake, real])
    np.testing.assert_array_equal(found[fake].numpy(), found[real].numpy())


def test_scales_and_zero_points_can_be_learned():
    """LSQ: the gradient for the scale is the rounding error where nothing is clamped, else the end of the range."""
    x, scale, zero = np.array([0.26, -0.9, 100.0, -100.0]), np.array(0.5), np.array(0.0)
    dx, ds, dz = gradient_of(lambda g, x, s, z: g.fake_quantize(x, s, z), x, scale, zero)
    np.testing.assert_array_equal(dx, [1, 1, 0, 0])
    np.testing.assert_allclose(ds, (1 - 0.52) + (-2 + 1.8) + 127 - 128)
    np.testing.assert_allclose(dz, -0.5 * 2)  # of the clamped ones


def test_training_through_a_quantized_weight():
    g = mg.Graph()
    x = g.placeholder((-1, 4))
    w = g.variable(np.full((4, 1), 0.9, np.float32))
    loss = g.reduction_sum(g.square(x @ g.fake_quantize(w, 0.25) - x @ g.constant([[1.0], [-0.5], [0.25], [2.0]])))
    step = g.apply_stochastic_gradient_descent(0.01, w, g.gradients(loss, [w])[w])
    numbers = np.random.default_rng(1).normal(size=(64, 4)).astype(np.float32)
    for _ in range(50):
        g.run({x: numbers}, [], [step])
    assert g.run({x: numbers}, loss).item() < 1e-6, "the weights are multiples of the scale"


def test_what_is_refused():
    g = mg.Graph()
    x, n = g.placeholder((4, 6)), g.placeholder((4, 6), mg.int8)
    with pytest.raises(mg.ShapeError, match="one element for each of the 4"):
        g.quantize(x, g.constant([0.1, 0.2]), axis=0)
    with pytest.raises(mg.ShapeError, match="no groups"):
        g.dequantize(n, g.constant(0.1, (4, 4)))
    with pytest.raises(mg.ShapeError, match="axis 2"):
        g.dequantize(n, g.constant(0.1, (4,)), axis=2)
    with pytest.raises(mg.DTypeError, match="integer type"):
        g.quantize(x, 0.1, dtype=mg.float16)
    with pytest.raises(mg.DTypeError, match="zero_point must be"):
        g.quantize(x, 0.1, g.constant(np.array(3, np.int16)))
    with pytest.raises(mg.DTypeError, match="300"):
        g.quantize(x, 0.1, 300)
    with pytest.raises(mg.DTypeError, match="floating-point"):
        g.quantize(n, g.constant(np.array(1, np.int8)))
    with pytest.raises(mg.DTypeError, match="integer type"):
        g.dequantize(x, 0.1)
    with pytest.raises(mg.ShapeError, match="divides"):
        g.dequantize_lookup_table(n, g.placeholder((3, 6, 16)))
    with pytest.raises(mg.ShapeError, match="rank 2"):
        g.dequantize_lookup_table(n, g.placeholder((16,)), axis=0)
    with pytest.raises(mg.GraphError, match="range of integers"):
        g.fake_quantize(x, 0.1, dtype=mg.float32)
    with pytest.raises(mg.ShapeError, match="one shape"):
        g.straight_through(x, g.placeholder((4, 5)))
