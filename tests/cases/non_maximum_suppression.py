"""Cases of the non_maximum_suppression family: every coordinate mode, classes from scores and from indices,
thresholds.
"""

import itertools

import numpy as np
from harness.case import Case

RNG = np.random.default_rng(240)
CORNERS = np.round(RNG.uniform(0, 8, (2, 12, 4)) * 16) / 16
CENTERS = np.concatenate([CORNERS[..., :2], 1 + CORNERS[..., 2:] / 2], -1)
SCORES = RNG.permutation(np.arange(72) / 128.0).reshape(2, 12, 3)
KINDS = RNG.integers(0, 3, (2, 12)).astype(np.int32)


def corners(box, mode):
    a, b, c, d = box
    if mode.startswith("centers"):
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    return min(a, c), min(b, d), max(a, c), max(b, d)


def iou(one, other):
    shared = [min(one[i + 2], other[i + 2]) - max(one[i], other[i]) for i in (0, 1)]
    if min(shared) <= 0:
        return 0.0
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (one, other)]
    return shared[0] * shared[1] / (sum(areas) - shared[0] * shared[1])


def suppressed(boxes, scores, class_indices=None, iou_threshold=0.3, score_threshold=0.1, per_class_suppression=False,
               coordinate_mode="corners_height_first"):  # fmt: skip
    """Select boxes one at a time in order of score. Swapping the axes of all boxes does not change overlaps."""
    rows = []
    for image in range(boxes.shape[0]):
        pairs = itertools.product(range(boxes.shape[1]), range(scores.shape[2]))
        candidates = [(b, k) for b, k in pairs if scores[image, b, k] > score_threshold]

        def kind(pair, image=image):
            return int(class_indices[image, pair[0]]) if class_indices is not None else pair[1]

        def rank(pair, image=image, kind=kind):
            first = kind(pair) if per_class_suppression and class_indices is None else 0
            return first, -float(scores[image, pair[0], pair[1]])

        taken = []
        for pair in sorted(candidates, key=rank):
            box = corners(boxes[image, pair[0]].astype(float), coordinate_mode)
            rivals = (p for p in taken if not per_class_suppression or kind(p) == kind(pair))
            if all(
                iou(corners(boxes[image, p[0]].astype(float), coordinate_mode), box) <= iou_threshold for p in rivals
            ):
                taken.append(pair)
        rows += [(image, kind(pair), pair[0]) for pair in taken]
    return np.array(rows, np.int32).reshape(-1, 3)


def build(g, boxes, scores, *kinds, iou_threshold=0.3, score_threshold=0.1, **how):
    how = how | ({"class_indices": kinds[0]} if kinds else {})
    return g.non_maximum_suppression(boxes, scores, iou_threshold, score_threshold, **how)


def case(label, *inputs, **how):
    return Case("non_maximum_suppression", list(inputs), suppressed, how, build=build, label=label, late=True,
                dtypes=("float32", "float16", "bfloat16", "float64"), batch=(0, 1, 2)[: len(inputs)])  # fmt: skip


MODES = ("corners_height_first", "corners_width_first", "centers_height_first", "centers_width_first")
CASES = [
    *(case(mode, CENTERS if "centers" in mode else CORNERS, SCORES, coordinate_mode=mode) for mode in MODES),
    case("per_class", CORNERS, SCORES, per_class_suppression=True),
    case("indices", CORNERS, SCORES[..., :1], KINDS),
    case("indices_per_class", CORNERS, SCORES[..., :1], KINDS, per_class_suppression=True),
    case("low_threshold", CORNERS, SCORES, iou_threshold=0.0, score_threshold=-1.0),
    case("high_threshold", CORNERS, SCORES, iou_threshold=1.0, score_threshold=0.3),
    case("none", CORNERS, SCORES, score_threshold=2.0),
    case("nothing", np.zeros((2, 0, 4)), np.zeros((2, 0, 3))),
]
