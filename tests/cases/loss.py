"""Cases of the loss family: softmax cross-entropy with each reduction along any axis, and its gradient."""

import numpy as np
from harness.case import Case, values

from cases.activation import log_softmax, softmax

LOGITS = values(3, 4, seed=80)
LABELS = values(3, 4, seed=81, low=0.0, high=1.0)  # need not sum to 1
CUBE, CUBE_LABELS = values(2, 3, 4, seed=82), values(2, 3, 4, seed=83, low=0.0, high=1.0)


def losses(x, labels, axis):
    return -(labels * log_softmax(x, axis)).sum(axis, keepdims=True)


def cross_entropy(x, labels, axis=-1, reduction="sum"):
    result = losses(x, labels, axis)
    return {"none": result, "sum": result.sum(), "mean": np.divide(result.sum(), result.size)}[reduction]


def cross_entropy_gradient(g, x, labels, axis=-1, reduction="sum"):
    slope = softmax(x, axis) * labels.sum(axis, keepdims=True) - labels
    return slope * g / (x.size / x.shape[axis] if reduction == "mean" else 1)


CASES = []
for axis in (-1, 0, 1):
    for reduction in ("none", "sum", "mean"):
        x, labels = (LOGITS, LABELS) if axis == -1 else (CUBE, CUBE_LABELS)
        how = {
            "attributes": {"axis": axis, "reduction": reduction},
            "label": f"{reduction}_axis_{axis}",
            "tolerance": 4,
        }
        g = values(*np.shape(cross_entropy(x, labels, axis, reduction)), seed=84, low=0.5, high=2.0)
        rows = axis != 0
        with_g = ((0, 1, 2) if reduction == "none" else (1, 2)) if rows else ()
        CASES += [
            Case("softmax_cross_entropy", [x, labels], cross_entropy, batch=(0, 1) if rows else (), **how),
            Case("softmax_cross_entropy_gradient", [g, x, labels], cross_entropy_gradient, batch=with_g, **how),
        ]
ONE_HOT = np.eye(10)[np.random.default_rng(85).integers(0, 10, 64)]
CASES += [
    Case(
        "softmax_cross_entropy", [values(64, 10, seed=86, low=-40, high=40), ONE_HOT], cross_entropy,
        {"reduction": "mean"}, label="digits", batch=(0, 1), gradient=False, tolerance=8,
    ),
    Case("softmax_cross_entropy", [values(5, seed=87), values(5, seed=88, low=0, high=1)], cross_entropy,
         {"reduction": "mean"}, label="one_row", batch=()),
    Case("softmax_cross_entropy", [values(0, 4), values(0, 4)], cross_entropy, {"reduction": "sum"}, label="no_rows",
         batch=()),
]  # fmt: skip
