"""Derivatives of a case in float64, and the same by central differences.

The results of a case are weighed with fixed random numbers and summed to one number; its derivatives by all float
inputs come from Graph.gradients, and from moving each element a little both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mpsgraph as mg
import numpy as np

from .case import Case, values
from .running import Built, build, feeds, run

STEP = 1e-5


def weighed_sum(graph: mg.Graph, tensors: Sequence[mg.Tensor], seed: int) -> mg.Tensor:
    """Sum over all float tensors of tensor * fixed random numbers; rank 0."""
    total = None
    for k, tensor in enumerate(t for t in tensors if t.dtype.is_float):
        weighed = graph.multiplication(tensor, weights_for(graph, tensor, seed + k))
        part = graph.reshape(graph.reduction_sum(weighed), ())
        total = part if total is None else total + part
    assert total is not None, "the case has no float result"
    return total


def weights_for(graph: mg.Graph, tensor: mg.Tensor, seed: int) -> mg.Tensor:
    """Numbers of the tensor's shape; where that is known only when it runs, made of the positions."""
    if tensor.shape is not None and -1 not in tensor.shape:
        return graph.constant(values(*tensor.shape, seed=seed, low=0.5, high=1.5), dtype=tensor.dtype)
    position = graph.coordinate_along_axis(0, graph.shape_of(graph.reshape(tensor, (-1,))))
    numbers = graph.sin(graph.cast(position, tensor.dtype) * 1.7 + seed) * 0.5 + 1.0
    return graph.reshape(numbers, graph.shape_of(tensor))


def by_differences(function: Callable[..., float], arrays: Sequence[np.ndarray], i: int) -> np.ndarray:
    """d function / d arrays[i] by central differences."""
    result = np.zeros(arrays[i].shape)
    moved = [a.copy() for a in arrays]
    flat, out = moved[i].reshape(-1), result.reshape(-1)
    for k in range(flat.size):
        kept = flat[k]
        flat[k] = kept + STEP
        above = function(moved)
        flat[k] = kept - STEP
        below = function(moved)
        flat[k] = kept
        out[k] = (above - below) / (2 * STEP)
    return result


def loss_of(case: Case) -> tuple[Built, mg.Tensor, list[mg.Tensor], list[np.ndarray]]:
    """The case in float64, its weighed sum, its float placeholders, its feeds."""
    built = build(case, "float64")
    loss = weighed_sum(built.graph, built.results, seed=11)
    return built, loss, [built.placeholders[i] for i in case.float_inputs()], feeds(case.inputs, "float64")


def assert_gradients(case: Case, built: Built, of: mg.Tensor, wanted: list[mg.Tensor], gradients, arrays) -> None:
    """The gradient tensors have the values that differences of `of` give."""
    results = run(built.graph, built.placeholders, arrays, gradients)

    def value(moved: Sequence[np.ndarray]) -> float:
        return float(run(built.graph, built.placeholders, moved, [of])[0])

    for tensor, gradient in zip(wanted, results, strict=True):
        i = built.placeholders.index(tensor)
        differences = by_differences(value, arrays, i)
        assert gradient.shape == differences.shape
        np.testing.assert_allclose(
            gradient.numpy(), differences, rtol=2e-6, atol=2e-6, err_msg=f"{case.id}: gradient of input {i}"
        )
