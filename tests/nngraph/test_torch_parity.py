"""Compare filters with hard-coded results of PyTorch 2.13, independent of this package's own numpy formulas."""

from __future__ import annotations

import numpy as np
import pytest
from harness.nodes import Convolution, Normalization, close, graph_of, run
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

Array = np.ndarray


def nhwc(planar: Array) -> Array:
    return planar.transpose(0, 2, 3, 1)


Z = nhwc((np.arange(12) / 4 - 1).reshape(1, 3, 2, 2)).astype(np.float32)


def planar_of(node: object) -> Array:
    (found,) = run(graph_of(node.result_image), {"x": Z})
    return found.transpose(0, 3, 1, 2).ravel()


def test_convolution_with_stride_2_and_padding_1_matches_pytorch():
    x = (np.arange(1, 19) / 10).reshape(1, 2, 3, 3)
    w = (np.arange(1, 37) / 20 - 0.9).reshape(2, 2, 3, 3)
    d = nn.ConvolutionDescriptor(3, 3, 2, 2, stride_in_pixels_x=2, stride_in_pixels_y=2)
    source = Convolution(d, w.transpose(0, 2, 3, 1).astype(np.float32))
    node = nn.ConvolutionNode(nn.ImageNode("x"), source, padding_policy=nn.PaddingPolicy(padding=(1, 1, 1, 1)))
    gradient = node.gradient_filter(nn.ImageNode("g"))
    feeds = {"x": nhwc(x).astype(np.float32), "g": np.ones((1, 2, 2, 2), np.float32)}
    value, dx = run(graph_of([node.result_image, gradient.result_image]), feeds)
    dw = np.array(source.state.read("weights"))
    out = [-1.04, -1.64, -3.08, -3.92, 4.36, 4.48, 4.48, 4.36]
    close(value.transpose(0, 3, 1, 2).ravel(), np.array(out), 1e-5, "value")
    wanted = np.array([-0.4, -0.8, -0.4, -0.8, -1.6, -0.8, -0.4, -0.8, -0.4, 0.5, 1, 0.5, 1, 2, 1, 0.5, 1, 0.5])
    close(dx.transpose(0, 3, 1, 2).ravel(), wanted, 1e-5, "data")
    planes = [0.5, 1, 0.5, 1, 2, 1, 0.5, 1, 0.5, 1.4, 2.8, 1.4, 2.8, 5.6, 2.8, 1.4, 2.8, 1.4] * 2
    close(dw.transpose(0, 3, 1, 2).ravel(), np.array(planes), 1e-5, "weights")


def test_node_normalizations_match_pytorch():
    instance = nn.InstanceNormalizationNode(nn.ImageNode("x"), Normalization(3, gamma=np.ones(3, np.float32)))
    row = [-1.3415549297, -0.4471849766, 0.4471849766, 1.3415549297]
    close(planar_of(instance), np.array(row * 3), 1e-5, "instance")
    group = nn.GroupNormalizationNode(nn.ImageNode("x"), Normalization(3, gamma=np.ones(3, np.float32)))
    half = [0.1448403925, 0.4345211776, 0.7242019626, 1.0138827477, 1.3035635327, 1.5932443178]
    close(planar_of(group), np.array([-v for v in half[::-1]] + half), 1e-5, "group")


def test_avg_pool2d_excluding_padding_matches_pytorch():
    policy = nn.PaddingPolicy(padding=(1, 1, 1, 1))
    node = nn.PoolingAverageNode(nn.ImageNode("x"), 2, 1, padding_policy=policy)
    first = np.array([-1, -0.875, -0.75, -0.75, -0.625, -0.5, -0.5, -0.375, -0.25])
    close(planar_of(node), np.concatenate([first, first + 1, first + 2]), 1e-6, "average")


def test_node_gelu_and_softplus_match_pytorch():
    gelu = [-0.15865525393, -0.16997051428, -0.15426876937, -0.10032341858, 0, 0.14967658142, 0.34573123064,
            0.58002948572, 0.84134474607, 1.11793778292, 1.39978919810, 1.67989647549]  # fmt: skip
    close(planar_of(nn.NeuronGeLUNode(nn.ImageNode("x"))), np.array(gelu), 2e-6, "gelu")
    softplus = [0.31326168752, 0.38687100611, 0.47407698418, 0.57593941988, 0.69314718056, 0.82593941988, 0.97407698418,
                1.13687100611, 1.31326168752, 1.50192908135, 1.70141327798, 1.91022415044]  # fmt: skip
    close(planar_of(nn.NeuronSoftPlusNode(nn.ImageNode("x"))), np.array(softplus), 2e-6, "softplus")


def test_bilinear_upsampling_with_aligned_corners_matches_pytorch():
    node = nn.UpsamplingBilinearNode(
        nn.ImageNode("x"), integer_scale_factor_x=2, integer_scale_factor_y=2, align_corners=True
    )
    # The values rise by 1/6 per row and 1/12 per column.
    first = np.add.outer(np.arange(4) / 6, np.arange(4) / 12).ravel() - 1
    close(planar_of(node), np.concatenate([first, first + 1, first + 2]), 1e-6, "bilinear")
