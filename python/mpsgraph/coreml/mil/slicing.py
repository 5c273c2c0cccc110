"""Translations of slicing, slice updates, and reversal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Tensor, int32
from ...interchange.data_dependent import DataDependent
from .._operation import Call, Results, mil


def _bits(flags: Any) -> int:
    return sum(1 << i for i, flag in enumerate(np.asarray(flags).reshape(-1)) if flag)


def _range(call: Call, x: Tensor) -> tuple[list[Any], dict[str, Any]]:
    """Return the starts, ends, strides, and masks as arguments for the graph's slicing methods."""
    g, rank = call.g, call.rank(x)
    strides = call.ints("stride", [1] * rank)
    masks = {name: _bits(call.value(name, [False] * rank)) for name in ("begin_mask", "end_mask", "squeeze_mask")}
    begin, end = call.shape_operand("begin"), call.shape_operand("end")
    squeezed = masks["squeeze_mask"]
    if squeezed:  # A squeezed axis takes the one element at `begin` and ignores `end`.
        if isinstance(begin, list):
            ones = [_after(begin[i]) if squeezed >> i & 1 else None for i in range(rank)]
            masks["end_mask"] = (masks["end_mask"] & ~squeezed) | _bits(
                [squeezed >> i & 1 and begin[i] == -1 for i in range(rank)]
            )
            if isinstance(end, list):
                end = [e if one is None else one for e, one in zip(end, ones, strict=True)]
            else:
                flags = g.constant(np.array([one is not None for one in ones]))
                end = g.select(flags, g.constant(np.array([one or 0 for one in ones], np.int32)), end)
        else:
            flags = g.constant(np.array([bool(squeezed >> i & 1) for i in range(rank)]))
            given = g.constant(np.array(end, np.int32)) if isinstance(end, list) else call.cast(end, int32)
            end = g.select(flags, g.addition(call.cast(begin, int32), 1), given)
            masks["end_mask"] &= ~squeezed
        masks["begin_mask"] &= ~squeezed
        strides = [1 if squeezed >> i & 1 else s for i, s in enumerate(strides)]
    how = {"start_mask": masks["begin_mask"], "end_mask": masks["end_mask"], "squeeze_mask": squeezed}
    return [begin, end, strides], how


def _after(begin: int) -> int:
    return begin + 1


@mil("slice_by_index")
def slice_by_index(call: Call) -> Results:
    x = call.tensor("x")
    ranges, how = _range(call, x)
    return call.g.slice(x, *ranges, **how)


@mil("slice_update")
def slice_update(call: Call) -> Results:
    x = call.tensor("x")
    ranges, how = _range(call, x)
    return call.g.slice_update_data(x, call.tensor("update"), *ranges, **how)


@mil("slice_by_size")
def slice_by_size(call: Call) -> Results:
    """Translate slice_by_size. A size of -1 extends to the end of the axis."""
    g, x = call.g, call.tensor("x")
    sizes = call.shape_operand("size")
    if not isinstance(sizes, list):
        return g.slice(x, call.shape_operand("begin"), sizes=sizes)
    begin = call.shape_operand("begin")
    if -1 not in sizes:
        return g.slice(x, begin, sizes=sizes)
    if not isinstance(begin, list):
        raise DataDependent() if x.shape is None else call.data_dependent_shape(call.tensor("begin"))
    ends = [b + n for b, n in zip(begin, sizes, strict=True)]
    return g.slice(x, begin, ends, None, 0, _bits([n == -1 for n in sizes]))


@mil("reverse")
def reverse(call: Call) -> Results:
    return call.g.reverse(call.tensor("x"), call.ints("axes", None))


@mil("reverse_sequence")
def reverse_sequence(call: Call) -> Results:
    """Translate reverse_sequence, which reverses the first lengths[i] elements of entry i and keeps the others in
    place.
    """
    g, x = call.g, call.tensor("x")
    along, batch = call.axis(x, call.integer("seq_axis", 0)), call.axis(x, call.integer("batch_axis", 0))
    rank = call.rank(x)
    places = call.cast(g.coordinate_along_axis(along, call.joined(call.dim(x, i) for i in range(rank))), int32)
    lengths = g.reshape(call.cast(call.tensor("lengths"), int32), [-1 if i == batch else 1 for i in range(rank)])
    turned = g.subtraction(g.subtraction(lengths, 1), places)
    return g.gather_along_axis(along, x, g.select(g.less_than(places, lengths), turned, places))
