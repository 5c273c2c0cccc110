"""Lowering of non-maximum suppression, which keeps boxes in order of decreasing score.

The candidates are the pairs of boxes and classes. A loop processes one candidate per iteration.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers


def _corners(boxes: Value, mode: str) -> Value:
    if mode.endswith("width_first"):
        boxes = boxes[..., np.array([1, 0, 3, 2])]
    first, second = boxes[..., :2], boxes[..., 2:]
    if mode.startswith("centers"):
        return jnp.concatenate([first - second / 2, first + second / 2], -1)
    return jnp.concatenate([jnp.minimum(first, second), jnp.maximum(first, second)], -1)


def _overlaps(corners: Value) -> Value:
    """Return the intersection over union of all pairs of boxes in an image."""
    a, b = corners[:, None], corners[None]
    sides = jnp.minimum(a[..., 2:], b[..., 2:]) - jnp.maximum(a[..., :2], b[..., :2])
    both = jnp.where((sides > 0).all(-1), sides[..., 0] * sides[..., 1], 0)
    area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    either = area[:, None] + area[None] - both
    return jnp.where(either > 0, both / jnp.where(either > 0, either, 1), 0)


@lowers("non_maximum_suppression")
def non_maximum_suppression(step: Step, boxes: Value, scores: Value, *class_indices: Value) -> Value:
    """Return the rank of each (box, class) pair among all kept pairs, or -1 if the pair is suppressed."""
    images, count, classes = step.shape
    if 0 in step.shape:
        return jnp.full(step.shape, -1, np.int32)
    per_class = bool(step["per_class_suppression"])
    threshold, least = np.float32(step["iou_threshold"]), np.float32(step["score_threshold"])
    pairs = count * classes

    def of_image(corners: Value, scores: Value, kinds: Value) -> Value:
        flat = scores.reshape(-1)
        candidate = flat > least
        key = jnp.where(candidate, -flat, np.inf)
        if per_class and not class_indices:
            order = jnp.lexsort((key, ~candidate, kinds))
        else:
            order = jnp.argsort(key, stable=True)
        box = np.arange(pairs) // classes
        covers = _overlaps(corners)[box][:, box] > threshold
        if per_class:
            covers &= kinds[:, None] == kinds[None]

        def take(turn: Value, carried: tuple[Value, Value]) -> tuple[Value, Value]:
            places, kept = carried
            pair = order[turn]
            free = candidate[pair] & ~jnp.any(covers[:, pair] & (places >= 0))
            places = places.at[pair].set(jnp.where(free, kept, places[pair]))
            return places, kept + free.astype(np.int32)

        start = (jnp.full(pairs, -1, np.int32), jnp.zeros((), np.int32))
        places, kept = lax.fori_loop(0, pairs, take, start)
        return places, kept

    corners = _corners(jnp.asarray(boxes).astype(np.float32), step["coordinate_mode"])
    if class_indices:
        kinds = jnp.asarray(class_indices[0])
    else:
        kinds = jnp.broadcast_to(np.arange(pairs) % classes, (images, pairs))
    places, kept = jax.vmap(of_image)(corners, jnp.asarray(scores).astype(np.float32), kinds)
    before = jnp.cumsum(kept) - kept
    moved = jnp.where(places >= 0, places + before[:, None], -1)
    return moved.reshape(step.shape).astype(np.int32)
