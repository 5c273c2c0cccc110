"""Translations of cond and while_loop.

If the condition of cond is known at import time, only the selected branch is imported.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import Tensor, bool_
from ...errors import GraphError
from ...interchange.data_dependent import DataDependent
from .._importer import TensorList, Value
from .._operation import Call, Results, mil


@mil("cond")
def cond(call: Call) -> Results:
    g, condition = call.g, call.tensor("pred")
    if len(call.blocks) != 2:
        raise GraphError(f"cond must have 2 branches, got {len(call.blocks)}")
    try:
        return call.importer.nested(call.blocks[0 if call.flag("pred") else 1], [])
    except DataDependent:
        if condition.shape is None:
            raise

    def branch(i: int) -> list[Tensor]:
        with call.importer.block():
            return [call.importer.tensor(value) for value in call.importer.nested(call.blocks[i], [])]

    made = g.if_(g.reshape(call.cast(condition, bool_), ()), lambda: branch(0), lambda: branch(1))
    return list(made)


@mil("while_loop")
def while_loop(call: Call) -> Results:
    """Translate while_loop. MIL lists among the loop variables are carried as tensors."""
    g = call.g
    if len(call.blocks) != 2 or not call.has("loop_vars"):
        raise GraphError("while_loop needs a condition block, a body block, and loop_vars")
    given = call.operands["loop_vars"]
    lists = [isinstance(value, TensorList) for value in given]

    def opened(tensors: Sequence[Tensor]) -> list[Value]:
        return [TensorList(t) if is_list else t for t, is_list in zip(tensors, lists, strict=True)]

    def plain(values: Sequence[Value]) -> list[Tensor]:
        return [v.tensor if isinstance(v, TensorList) else call.importer.tensor(v) for v in values]

    def before(*carried: Tensor) -> tuple[Tensor, list[Tensor]]:
        with call.importer.block():
            (goes_on,) = plain(call.importer.nested(call.blocks[0], opened(carried)))
            return g.reshape(call.cast(goes_on, bool_), ()), list(carried)

    def after(*carried: Tensor) -> list[Tensor]:
        with call.importer.block():
            made = plain(call.importer.nested(call.blocks[1], opened(carried)))
            return [call.cast(t, c.dtype) for t, c in zip(made, carried, strict=True)]

    return opened(list(g.while_(plain(given), before, after)))
