"""Test the YOLO loss against a formula in numpy, and its gradient against finite differences with fixed overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness.node_cases import log_softmax
from harness.nodes import close, graph_of, pool, run
from mpsgraph import GraphError, ShapeError
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

Array = np.ndarray
ANCHORS = [(1.0, 2.0), (2.0, 1.0)]
SCALES = {"scale_xy": 3.0, "scale_wh": 2.0, "scale_no_object": 0.5, "scale_object": 4.0, "scale_class": 1.5}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def overlap(y: Array, t: Array) -> Array:
    """Return the intersection over union of predicted and true boxes; 0 where there is no object."""
    size = np.exp(y[..., 2:4]) * np.array(ANCHORS)
    centre = sigmoid(y[..., :2])
    right = np.minimum(centre + size / 2, t[..., :2] + t[..., 2:4] / 2)
    left = np.maximum(centre - size / 2, t[..., :2] - t[..., 2:4] / 2)
    common = np.prod(np.maximum(right - left, 0), -1)
    union = np.prod(size, -1) + np.prod(t[..., 2:4], -1) - common
    return common / union * t[..., 4]


def cross_entropy(y: Array, t: Array) -> Array:
    return np.maximum(y, 0) - y * t + np.log1p(np.exp(-np.abs(y)))


def loss(y: Array, t: Array, iou: Array, rescore: bool, most: float, least: float) -> Array:
    """Return the loss of each image; the arrays have shape [N, H, W, anchors, 5 + classes]."""
    answers = ((iou == iou.max(3, keepdims=True)) | (iou > most)) * t[..., 4]
    nothing = (iou < least) * (1 - answers)
    xy = ((sigmoid(y[..., :2]) - t[..., :2]) ** 2).sum(-1)
    ratio = t[..., 2:4] / np.array(ANCHORS)
    d = np.abs(y[..., 2:4] - np.log(np.where(ratio > 0, ratio, 1)))
    wh = np.where(d <= 1, d * d / 2, d - 0.5).sum(-1)
    target = iou if rescore else t[..., 4]
    parts = answers * (SCALES["scale_xy"] * xy + SCALES["scale_wh"] * wh)
    parts += SCALES["scale_object"] * answers * cross_entropy(y[..., 4], target)
    parts += SCALES["scale_no_object"] * nothing * cross_entropy(y[..., 4], np.zeros_like(target))
    if y.shape[-1] > 5:
        parts += SCALES["scale_class"] * answers * (-t[..., 5:] * log_softmax(y[..., 5:])).sum(-1)
    return parts.sum((1, 2, 3))


def scene(classes: int) -> Array:
    """Return labels with objects in two of six cells; every anchor of a cell has the same label."""
    t = np.zeros((2, 2, 3, 2, 5 + classes))
    if classes:
        t[..., 5:] = 1 / classes
    for n, i, j, box in [(0, 1, 2, (0.3, 0.8, 1.0, 1.5)), (1, 0, 0, (0.5, 0.5, 2.5, 0.75))]:
        t[n, i, j, :, :4], t[n, i, j, :, 4] = box, 1
        t[n, i, j, :, 5:] = np.eye(classes)[0] if classes else 0
    return t


@pytest.mark.parametrize("thresholds", [(0.7, 0.3), (0.05, 0.01)])
@pytest.mark.parametrize("rescore", [False, True])
@pytest.mark.parametrize("classes", [0, 1, 3])
def test_yolo_loss_and_gradient_match_formula(classes: int, rescore: bool, thresholds: tuple[float, float]):
    t = scene(classes)
    y = pool(*t.shape, seed=3)
    flat = (2, 2, 3, 2 * (5 + classes))
    descriptor = nn.YOLOLossDescriptor(
        ANCHORS,
        rescore=rescore,
        weight=0.5,
        min_iou_for_object_presence=thresholds[0],
        max_iou_for_object_absence=thresholds[1],
        **SCALES,
    )
    labels = nn.LossLabelsBatch(t.reshape(flat).astype(np.float32))
    node = nn.YOLOLossNode(nn.ImageNode("y"), descriptor)
    (gradient,) = run(graph_of(node.result_image), {"y": y.reshape(flat).astype(np.float32)}, [labels])
    iou = overlap(y, t)
    close(labels.losses.numpy().ravel(), 0.5 * loss(y, t, iou, rescore, *thresholds), 1e-5, "loss")
    wanted = np.zeros(y.size)
    for k in range(y.size):
        step = np.zeros(y.size)
        step[k] = 1e-5
        step = step.reshape(y.shape)
        above, below = (loss(y + s * step, t, iou, rescore, *thresholds).sum() for s in (1, -1))
        wanted[k] = 0.5 * (above - below) / 2e-5
    close(gradient.ravel(), wanted, 1e-4, "gradient")


@pytest.mark.parametrize("anchors", [[], [1, 2], [(1, 0)], [(1, 2, 3)]])
def test_invalid_yolo_anchors_raise(anchors: Any):
    with pytest.raises(GraphError):
        nn.YOLOLossDescriptor(anchors)


def test_mismatched_yolo_channels_raise():
    node = nn.YOLOLossNode(nn.ImageNode("y"), nn.YOLOLossDescriptor(ANCHORS), label="me")
    for channels in (11, 8):
        y = np.zeros((1, 2, 2, channels), np.float32)
        with pytest.raises(ShapeError, match="'me'.*anchor.*test_yolo_loss.py"):
            run(graph_of(node.result_image), {"y": y}, [nn.LossLabelsBatch(y)])
