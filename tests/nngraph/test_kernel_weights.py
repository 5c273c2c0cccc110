"""Test kernel_weights_data_type: filters compute with weights rounded to float16, and updates use float32 weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.nodes import Convolution, graph_of, pool, run
from mpsgraph import DTypeError
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

ONE = nn.ConvolutionDescriptor(1, 1, 1, 1)
NEAR_ONE = np.full((1, 1, 1, 1), 1 + 2**-13, np.float32)  # This value rounds to 1 in float16.


class Own(Convolution):
    def __init__(self, dtype: Any, descriptor: Any = ONE, weights: Any = NEAR_ONE) -> None:
        super().__init__(descriptor, weights.copy())
        self.kernel_weights_data_type = dtype  # An attribute is accepted in place of the method.


def value(source: Any) -> float:
    (y,) = run(graph_of(nn.ConvolutionNode(nn.ImageNode("x"), source).result_image), {"x": np.ones((1, 1, 1, 1), "f4")})
    return float(y.item())


@pytest.mark.parametrize(
    "dtype, expected", [("float16", 1), ("float32", 1 + 2**-13), (np.float16, 1), (None, 1 + 2**-13)]
)
def test_filters_compute_with_rounded_weights(dtype: Any, expected: float):
    assert value(Own(dtype)) == expected
    if dtype is not None:
        assert value(nn.TrainableConvolution(ONE, NEAR_ONE, kernel_weights_data_type=dtype)) == expected


def test_default_kernel_weight_dtype_is_float32():
    assert value(Convolution(ONE, NEAR_ONE)) == value(nn.TrainableConvolution(ONE, NEAR_ONE)) == 1 + 2**-13


@pytest.mark.parametrize("dtype, expected", [("float16", 1), ("float32", 1 + 2**-13)])
def test_stored_weights_are_rounded_to_kernel_weight_dtype(tmp_path: Path, dtype: str, expected: float):
    from safetensors.numpy import save_file

    save_file({"w": NEAR_ONE}, tmp_path / "w.safetensors")
    assert value(nn.StoredWeights(tmp_path / "w.safetensors", ONE, "w", kernel_weights_data_type=dtype)) == expected


@pytest.mark.parametrize("node", [nn.ConvolutionNode, nn.FullyConnectedNode])
def test_training_keeps_float32_weights(node: Any):
    """Each step is half a unit in the last place of float16, so it would be lost if the stored weights were rounded."""
    weights = np.ones((1, 1, 1, 1), np.float32)
    source = nn.TrainableConvolution(
        ONE, weights, False, optimizer=nn.StochasticGradientDescent(2**-12), kernel_weights_data_type="float16"
    )
    filter = node(nn.ImageNode("x"), source)
    back = filter.gradient_filter(nn.ImageNode("g"))
    graph = graph_of([filter.result_image, back.result_image])
    seen = []
    for _ in range(6):
        y, dx = run(graph, {"x": np.ones((1, 1, 1, 1), np.float32), "g": -np.ones((1, 1, 1, 1), np.float32)})
        seen.append(y.item())
        assert dx.item() == -y.item(), "the source gradient must use the rounded weights, too"
    kept = 1 + 2.0**-12 * np.arange(6)
    assert seen == np.float16(kept).astype(float).tolist() and seen[-1] > 1
    source.load()
    assert source.weights().item() == 1 + 6 * 2.0**-12


def test_update_of_custom_source_receives_float32_weights():
    told = []

    class Updating(Own):
        def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> None:
            told.append((gradient_state, source_state.array("weights").numpy().item()))

    back = nn.ConvolutionNode(nn.ImageNode("x"), Updating("float16")).gradient_filter(nn.ImageNode("g"))
    x, g = pool(2, 3, 3, 1).astype(np.float32), pool(2, 3, 3, 1, seed=1).astype(np.float32)
    (dx,) = run(graph_of(back.result_image), {"x": x, "g": g})
    np.testing.assert_array_equal(dx, g)  # The rounded weight is 1.
    (gradients, weight) = told[0]
    assert weight == 1 + 2**-13
    np.testing.assert_allclose(gradients.read("weights").numpy().item(), (x.astype(float) * g).sum(), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "uint8"])
def test_invalid_kernel_weight_dtypes_raise(dtype: str):
    with pytest.raises(DTypeError, match=f"kernel_weights_data_type .* float32 or float16, got {dtype}"):
        value(Own(dtype))
    with pytest.raises(DTypeError, match="kernel_weights_data_type"):
        nn.TrainableConvolution(ONE, kernel_weights_data_type=dtype)
