"""Export of branches and loops to MIL's cond and while_loop, whose blocks can use outer variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array
from ._writer import Var, Writer, writes


def _single(w: Writer, x: Var) -> Var:
    """Return a one-element bool tensor as a scalar of rank 0."""
    return w.mb.squeeze(x=x) if x.rank else x


@writes("if")
def if_(w: Writer, op: Operation) -> list[Var]:
    """Export an `if` operation as MIL's cond."""
    then, otherwise = op.blocks
    made = w.mb.cond(
        pred=_single(w, w[op.inputs[0]]), _true_fn=lambda: w.block(then, []), _false_fn=lambda: w.block(otherwise, [])
    )
    return list(made) if isinstance(made, (list, tuple)) else [made]


@writes("for")
def for_(w: Writer, op: Operation) -> list[Var]:
    """Export a `for` loop as MIL's while_loop. The index and the carried values become loop variables."""
    mb, (lower, upper) = w.mb, (w[tensor] for tensor in op.inputs[:2])
    known = known_array(op.inputs[2])
    if known is None:
        raise NotExpressible("the step of the loop must be constant, but is computed at run time")
    goes_on = mb.less if int(known) > 0 else mb.greater

    def body(index: Var, *values: Var) -> list[Var]:
        return [mb.add(x=index, y=np.int32(int(known))), *w.block(op.blocks[0], [index, *values])]

    made = mb.while_loop(
        _cond=lambda index, *_: goes_on(x=index, y=upper), _body=body,
        loop_vars=(mb.identity(x=lower), *(w[tensor] for tensor in op.inputs[3:])),
    )  # fmt: skip
    return list(made)[1:]


@writes("while")
def while_(w: Writer, op: Operation) -> list[Var]:
    """Export a `while` loop, which has one block before the condition and one block after it.

    MIL's while_loop has no place for the block before the condition, so this block is written three times: in the
    condition, in the body, and after the loop to compute the results.
    """
    before, after = op.blocks
    made: Any = w.mb.while_loop(
        _cond=lambda *values: _single(w, w.block(before, values)[0]),
        _body=lambda *values: w.block(after, w.block(before, values)[1:]),
        loop_vars=tuple(w.all(op)),
    )
    return w.block(before, list(made) if isinstance(made, (list, tuple)) else [made])[1:]
