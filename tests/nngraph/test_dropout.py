"""Test dropout: the fraction of elements it keeps, the seeding of its mask, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness.nodes import graph_of, run
from mpsgraph import GraphError
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

ONES = np.ones((4, 16, 16, 8), np.float32)


def graph(*arguments: Any, **options: Any) -> nn.NNGraph:
    return graph_of(nn.DropoutNode(nn.ImageNode("x"), *arguments, **options).result_image)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.7, 0.95])
def test_dropout_keeps_the_given_fraction_of_elements(keep: float):
    (found,) = run(graph(keep, 3), {"x": ONES})
    assert set(np.unique(found)) == {np.float32(0), np.float32(1 / keep)}
    share = np.count_nonzero(found) / found.size
    assert abs(share - keep) < 5 * np.sqrt(keep * (1 - keep) / found.size)


def test_dropout_masks_differ_per_batch_and_depend_on_seed():
    a, b, c = graph(0.5, 1), graph(0.5, 1), graph(0.5, 2)
    first, second = run(a, {"x": ONES})[0], run(a, {"x": ONES})[0]
    assert 0.4 < np.mean(first != second) < 0.6
    np.testing.assert_array_equal(run(b, {"x": ONES})[0], first)
    np.testing.assert_array_equal(run(b, {"x": ONES})[0], second)
    assert 0.4 < np.mean(run(c, {"x": ONES})[0] != first) < 0.6


def test_images_in_a_batch_have_different_dropout_masks():
    (found,) = run(graph(0.5, 1), {"x": ONES})
    assert 0.4 < np.mean(found[0] != found[1]) < 0.6


@pytest.mark.parametrize("stride", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 1), (0, 0, 0)])
def test_mask_stride_of_zero_shares_the_mask_along_its_axis(stride: tuple[int, int, int]):
    (found,) = run(graph(0.5, 1, stride), {"x": ONES})
    for axis, step in zip((2, 1, 3), stride, strict=True):
        same = (found == found.take([0], axis)).all()
        assert same == (step == 0)


def test_dropout_gradient_uses_the_forward_mask():
    node = nn.DropoutNode(nn.ImageNode("x"), 0.6, 1)
    gradient = node.gradient_filter(nn.ImageNode("g"))
    both = graph_of([node.result_image, gradient.result_image])
    for _ in range(2):
        value, slope = run(both, {"x": 2 * ONES, "g": 3 * ONES})
        np.testing.assert_array_equal(value * 1.5, slope)


@pytest.mark.parametrize("keep", [0.0, 1.0, -0.1, float("nan")])
def test_invalid_keep_probabilities_raise(keep: float):
    with pytest.raises(GraphError, match="keep_probability.*test_dropout.py"):
        nn.DropoutNode(nn.ImageNode("x"), keep)


def test_invalid_mask_strides_raise():
    for stride in [(1, 1), (1, 1, 2), (-1, 1, 1)]:
        with pytest.raises(GraphError, match="mask_stride_in_pixels"):
            nn.DropoutNode(nn.ImageNode("x"), 0.5, 0, stride)
