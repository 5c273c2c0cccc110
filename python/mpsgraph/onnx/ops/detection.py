"""Choosing boxes: non-maximum suppression.

How many boxes remain depends on the values, so they must be known while the graph is built.
"""

from __future__ import annotations

import numpy as np

from .._registry import Node, Results, operator


@operator("NonMaxSuppression", upto=11)
def non_max_suppression(node: Node) -> Results:
    boxes, scores = node.value(0).astype(np.float64), node.value(1)
    most, overlap = int(node.scalar(2, 0)), float(node.scalar(3, 0.0))
    threshold = float(node.scalar(4, -np.inf))
    corners = _corners(boxes, bool(node.attribute("center_point_box", 0)))
    chosen = [
        (batch, kind, box)
        for batch in range(scores.shape[0])
        for kind in range(scores.shape[1])
        for box in _kept(corners[batch], scores[batch, kind], most, overlap, threshold)
    ]
    return node.g.constant(np.array(chosen, np.int64).reshape(-1, 3))


def _corners(boxes: np.ndarray, centred: bool) -> np.ndarray:
    """Lower and upper corners: boxes state two opposite corners, or their centre and size."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:
        return np.concatenate([first - second / 2, first + second / 2], -1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _kept(corners: np.ndarray, scores: np.ndarray, most: int, overlap: float, threshold: float) -> list[int]:
    """The best box, then the best of those that do not overlap it too much, and so on."""
    kept: list[int] = []
    for box in np.argsort(-scores, kind="stable"):
        if len(kept) >= most or not scores[box] > threshold:
            break
        if all(_shared(corners[box], corners[other]) <= overlap for other in kept):
            kept.append(int(box))
    return kept


def _shared(a: np.ndarray, b: np.ndarray) -> float:
    """The area that two boxes share, over the area that they cover together."""
    common = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    together = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common
    return float(common / together) if together > 0 else 0.0
