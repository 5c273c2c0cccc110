"""Derivatives of a case in float64 or complex128, from Graph.gradients and from central differences.

The results of a case are multiplied by fixed random weights and summed to one real number. Its derivatives with respect
to all differentiable inputs are computed by Graph.gradients, and numerically by moving each element a little in both
directions, along the real and imaginary axes if it is complex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mpsgraph as mg
import numpy as np

from . import dtypes
from .case import Case, values
from .running import Built, build, feeds, run

STEP = 1e-5


def has_slope(tensor: mg.Tensor) -> bool:
    return tensor.dtype.is_float or tensor.dtype.is_complex


def incoming(shape: Sequence[int], dtype: str, seed: int) -> np.ndarray:
    """Return the gradient of a weighted sum with respect to a tensor of this shape."""
    weights = values(*shape, seed=seed, low=0.5, high=1.5)
    return dtypes.array(weights, "complex128") if dtype.startswith("complex") else weights


def weighed_sum(graph: mg.Graph, tensors: Sequence[mg.Tensor], seed: int) -> mg.Tensor:
    """Return the scalar sum of all floating-point tensors times fixed random weights.

    Complex tensors contribute the real part of their product.
    """
    total = None
    for k, tensor in enumerate(t for t in tensors if has_slope(t)):
        weighed = graph.multiplication(tensor, weights_for(graph, tensor, seed + k))
        weighed = graph.real_part(weighed) if tensor.dtype.is_complex else weighed
        part = graph.reshape(graph.reduction_sum(weighed), ())
        total = part if total is None else total + part
    assert total is not None, "the case has no floating-point result"
    return total


def weights_for(graph: mg.Graph, tensor: mg.Tensor, seed: int) -> mg.Tensor:
    """Return weights of the tensor's shape.

    If the shape is only known at run time, the weights are computed from the element positions.
    """
    if tensor.shape is not None and -1 not in tensor.shape:
        weights = incoming(tensor.shape, str(tensor.dtype), seed)
        return graph.constant(np.conj(weights), dtype=tensor.dtype)
    position = graph.coordinate_along_axis(0, graph.shape_of(graph.reshape(tensor, (-1,))))
    numbers = graph.sin(graph.cast(position, tensor.dtype) * 1.7 + seed) * 0.5 + 1.0
    return graph.reshape(numbers, graph.shape_of(tensor))


def by_differences(function: Callable[..., float], arrays: Sequence[np.ndarray], i: int) -> np.ndarray:
    """Return d function / d arrays[i] by central differences, as d/dx + i d/dy for complex x + iy."""
    result = np.zeros_like(arrays[i])
    moved = [a.copy() for a in arrays]
    flat, out = moved[i].reshape(-1), result.reshape(-1)
    for direction in (1.0, 1j) if result.dtype.kind == "c" else (1.0,):
        for k in range(flat.size):
            kept = flat[k]
            flat[k] = kept + STEP * direction
            above = function(moved)
            flat[k] = kept - STEP * direction
            below = function(moved)
            flat[k] = kept
            out[k] += direction * (above - below) / (2 * STEP)
    return result


def loss_of(case: Case, dtype: str = "") -> tuple[Built, mg.Tensor, list[mg.Tensor], list[np.ndarray]]:
    """Build a case in an exact dtype, by default its first.

    Returns the built case, its weighted sum, the placeholders of its floating-point inputs, and the feeds.
    """
    dtype = dtype or case.exact_dtypes[0]
    built = build(case, dtype)
    loss = weighed_sum(built.graph, built.results, seed=11)
    return built, loss, [built.placeholders[i] for i in case.float_inputs()], feeds(case.inputs, dtype)


def assert_gradients(case: Case, built: Built, of: mg.Tensor, wanted: list[mg.Tensor], gradients, arrays) -> None:
    """Assert that the gradient tensors equal the finite differences of `of`."""
    results = run(built.graph, built.placeholders, arrays, gradients)

    def value(moved: Sequence[np.ndarray]) -> float:
        return float(run(built.graph, built.placeholders, moved, [of])[0])

    for tensor, gradient in zip(wanted, results, strict=True):
        i = next(i for i, placeholder in enumerate(built.placeholders) if placeholder is tensor)
        differences = by_differences(value, arrays, i)
        assert gradient.shape == differences.shape
        np.testing.assert_allclose(
            gradient.numpy(), differences, rtol=2e-6, atol=2e-6, err_msg=f"{case.id}: gradient of input {i}"
        )
