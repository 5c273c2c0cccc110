"""Translations of operators that create values: constants, ranges, masks, and shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._core import Tensor, float64, int64
from ...errors import GraphError, ShapeError, UnsupportedError
from ...interchange.data_dependent import DataDependent
from ..building.node import Node, Results, operator
from ._compose import counted

MOST_ELEMENTS = 2**31  # Maximum number of elements of a value whose size is stored in the file.


@operator("Constant", upto=25)
def constant(node: Node) -> Results:
    g = node.g
    if node.has_attribute("value"):
        # The attribute is an initializer, which the importer turns into a tensor on first use.
        value: Results = node.attribute("value")
        return value
    if node.has_attribute("value_float") or node.has_attribute("value_floats"):
        values: Any = node.attribute("value_float", None)
        values = node.attribute("value_floats") if values is None else values
        return g.constant(np.array(values, np.float32))
    if node.has_attribute("value_int") or node.has_attribute("value_ints"):
        values = node.attribute("value_int", None)
        values = node.attribute("value_ints") if values is None else values
        return g.constant(np.array(values, np.int64))
    raise UnsupportedError(
        "Constant must hold a dense numeric tensor, got strings or a sparse tensor: encode strings as integers, and "
        "store the tensor as dense"
    )


@operator("ConstantOfShape", upto=25)
def constant_of_shape(node: Node) -> Results:
    g = node.g
    if node.has_attribute("value"):
        array, dtype = node.attribute("value").elements
        if array.size != 1:
            raise ShapeError(f"attribute 'value' must have one element, got {array.size}")
        one = g.constant(array.reshape(()), dtype=dtype)
    else:
        one = g.constant(0.0)
    shape = node.known_ints(0)
    if shape is not None and (min(shape, default=0) < 0 or math.prod(shape) > MOST_ELEMENTS):
        raise ShapeError(f"the shape must be non-negative with at most {MOST_ELEMENTS} elements, got {tuple(shape)}")
    return g.broadcast_to(one, node.tensor(0) if shape is None else shape)


@operator("Shape", upto=25)
def shape(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    rank = node.rank(x)
    start, end = (
        min(max(v + rank if v < 0 else v, 0), rank) for v in (node.attribute("start", 0), node.attribute("end", rank))
    )
    sizes = node.dims(x)[start : max(start, end)]
    if min(sizes, default=0) >= 0:
        return g.constant(np.array(sizes, np.int64))
    return g.cast(g.slice(g.shape_of(x), [start], [end]), int64)


@operator("Size", upto=25)
def size(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    if x.shape is not None and min(x.shape, default=0) >= 0:
        return g.constant(np.array(math.prod(x.shape), np.int64))
    return g.reshape(g.reduction_product(g.cast(g.shape_of(x), int64)), ())


@operator("Range", upto=27)
def range_(node: Node) -> Results:
    g = node.g
    node.without_effect("stash_type")  # float16 and bfloat16 are always computed in at least float32.
    try:
        start, limit, delta = (node.value(i).reshape(()) for i in range(3))
    except DataDependent:
        return _range_as_told(node)
    if delta == 0:
        raise GraphError("delta of Range must not be 0")
    dtype = node.tensor(0).dtype
    kind: type[int] | type[float] = int if dtype.is_integer else float
    first, last, step = (kind(v) for v in (start, limit, delta))
    steps = -((first - last) // step) if dtype.is_integer else math.ceil((last - first) / step)
    count = max(0, int(steps))
    if dtype.is_integer:
        return g.constant(counted(count, np.int64) * step + first, dtype=dtype)
    return g.constant(first + counted(count, np.int64) * step, dtype=dtype)


def _range_as_told(node: Node) -> Tensor:
    """Build a range whose length is known only at run time."""
    g = node.g
    start, limit, delta = (g.reshape(node.tensor(i), ()) for i in range(3))
    if start.dtype.is_integer:
        # With back = start - limit, the number of elements is -floor(back / step).
        back, step = (g.cast(x, int64) for x in (g.subtraction(start, limit), delta))
        steps = g.negative(g.division(g.subtraction(back, g.floor_modulo(back, step)), step))
        count = g.reshape(g.maximum(steps, 0), (1,))
        index = g.cast(g.coordinate_along_axis(0, count), start.dtype)
        return g.addition(start, g.multiplication(index, delta))
    wide = [g.cast(x, float64) for x in (start, limit, delta)]
    steps = g.ceil(g.division(g.subtraction(wide[1], wide[0]), wide[2]))
    count = g.reshape(g.cast(g.maximum(steps, 0.0), int64), (1,))
    index = g.cast(g.coordinate_along_axis(0, count), node.in_float32(start).dtype)
    values = g.addition(node.in_float32(start), g.multiplication(index, node.in_float32(delta)))
    return node.cast(values, start.dtype)


@operator("EyeLike", upto=22)
def eye_like(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    dtype = node.dtype_attribute("dtype") if node.has_attribute("dtype") else x.dtype
    shape = node.joined([node.dim(x, 0), node.dim(x, 1)])
    distance = g.subtraction(g.coordinate_along_axis(1, shape), g.coordinate_along_axis(0, shape))
    # Clamp k to the range of int32. A clamped k is beyond all diagonals.
    k = max(-(2**31), min(node.attribute("k", 0), 2**31 - 1))
    return g.cast(g.equal(distance, k), dtype)
