"""Branches."""

from __future__ import annotations

import numpy as np

from ..._core import Operation
from ._graphs import branch
from ._writer import Writer, writes


@writes("if")
def branches(w: Writer, op: Operation) -> list[str]:
    """If, each branch a graph that sees the names outside."""
    condition = w.name(op.inputs[0])
    if op.inputs[0].shape != ():
        condition = w.add("Reshape", condition, w.constant(np.zeros(0, np.int64)))
    then, otherwise = (branch(w, block, name) for block, name in zip(op.blocks, ("then", "else"), strict=True))
    return w.add_several("If", [condition], len(op.outputs), then_branch=then, else_branch=otherwise)
