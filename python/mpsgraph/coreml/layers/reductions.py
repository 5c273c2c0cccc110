"""Translations of reduction layers: older layers with named axes, and newer layers with arbitrary axes."""

from __future__ import annotations

from ..._core import Tensor
from ...interchange.renames import between
from ._layer import Layer, layer

OLDER = {
    "SUM": "reduce_sum", "AVG": "reduce_mean", "PROD": "reduce_prod", "SUMSQUARE": "reduce_sum_square",
    "L1": "reduce_l1_norm", "L2": "reduce_l2_norm", "MAX": "reduce_max", "MIN": "reduce_min",
}  # fmt: skip
_AXES = {"CHW": [-3, -2, -1], "HW": [-2, -1], "C": [-3], "H": [-2], "W": [-1]}


@layer("reduce")
def reduce(n: Layer) -> Tensor:
    axes, mode = _AXES[n.p.axis], n.p.mode
    if mode == "LOGSUM":
        raised = n.mil("add", x=n.x, y=float(n.p.epsilon) or 1e-6)
        return n.mil("reduce_sum", x=n.mil("log", x=raised), axes=axes, keep_dims=True)
    if mode == "ARGMAX":
        return n.mil("reduce_argmax", x=n.x, axis=axes[0], keep_dims=True)
    return n.mil(OLDER[mode], x=n.x, axes=axes, keep_dims=True)


@layer.rows(between("layer", "mil", "reduction"))
@layer.rows({"reduceL1": "reduce_l1_norm", "reduceL2": "reduce_l2_norm", "reduceLogSum": "reduce_log_sum"})
@layer.rows({"reduceSumSquare": "reduce_sum_square", "reduceLogSumExp": "reduce_log_sum_exp"})
def newer(n: Layer, op: str) -> Tensor:
    axes = None if n.p.reduceAll or not n.p.axes.size else [int(v) for v in n.p.axes]
    return n.mil(op, x=n.floats(n.x), axes=axes, keep_dims=bool(n.p.keepDims))


@layer("argMax", "argMin")
def arg(n: Layer) -> Tensor:
    op = "reduce_argmax" if n.name == "argMax" else "reduce_argmin"
    return n.mil(op, x=n.x, axis=int(n.p.axis), keep_dims=not n.p.removeDim)


@layer("cumSum")
def cum_sum(n: Layer) -> Tensor:
    axis = n.ints(n.xs[1]) if len(n.xs) > 1 else int(n.p.axis)
    return n.mil("cumsum", x=n.x, axis=axis, exclusive=bool(n.p.excludeFinalSum), reverse=bool(n.p.reverse))
