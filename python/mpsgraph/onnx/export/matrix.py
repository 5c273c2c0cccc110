"""Matrix products, attention, lookups, one-hot vectors, bands."""

from __future__ import annotations

import math

import numpy as np

from ..._core import Operation
from ...interchange.leaving import Unsaid, axis_of, known_array, required_shape
from ._writer import Writer, writes


@writes("matrix_multiplication")
def matrix_multiplication(w: Writer, op: Operation) -> str:
    """MatMul."""
    return w.add("MatMul", *w.inputs(op))


@writes("scaled_dot_product_attention")
def attention(w: Writer, op: Operation) -> str:
    """softmax(scale Q Kᵀ + mask) V, with zeros for a query without keys."""
    if op.attributes["dropout"] > 0:
        raise Unsaid("drops weights at random: export the model in inference mode")
    query, key, value, *mask = op.inputs
    rank, dtype = len(required_shape(key)), query.dtype
    scale = op.attributes["scale"]
    if scale is None:
        width = required_shape(query)[-1]
        if width < 0:
            raise Unsaid("the query's last size must be known, or a scale be given")
        scale = 1 / math.sqrt(width)
    permutation = [*range(rank - 2), rank - 1, rank - 2]
    scaled = w.add("Mul", w.name(query), w.number(scale, dtype))
    scores = w.add("MatMul", scaled, w.transpose(w.name(key), permutation))
    if op.attributes["causal"]:
        scores = w.add("Add", scores, _causal_mask(w, op))
    if mask:
        scores = w.add("Add", scores, w.name(mask[0]))
    weights = w.add("Softmax", scores, axis=-1)
    if mask:  # where all scores are -infinity there is no soft-max
        largest = w.add("ReduceMax", scores, w.ints([-1]), keepdims=1)
        none = w.add("Equal", largest, w.number(-math.inf, dtype))
        weights = w.add("Where", none, w.number(0, dtype), weights)
    return w.add("MatMul", weights, w.name(value))


def _causal_mask(w: Writer, op: Operation) -> str:
    """0 up to the query's own place, -infinity behind it."""
    dtype = op.inputs[0].dtype
    places = []
    for tensor, axis in ((op.inputs[0], 1), (op.inputs[1], 0)):
        rank = len(required_shape(tensor))
        size = w.add("Gather", w.add("Shape", w.name(tensor)), w.ints(rank - 2), axis=0)
        places.append(w.add("Unsqueeze", w.add("Range", w.ints(0), size, w.ints(1)), w.ints([axis])))
    behind = w.add("Greater", places[1], places[0])
    return w.add("Where", behind, w.number(-math.inf, dtype), w.number(0, dtype))


def _inside(w: Writer, op: Operation, axis: int) -> str:
    """The indices, held inside where the operation clips; indices outside are the runtime's own error elsewhere."""
    indices = w.name(op.inputs[1])
    rule = op.attributes["out_of_range"]
    if rule == "error":
        return indices
    size = required_shape(op.inputs[0])[axis]
    known = known_array(op.inputs[1])
    if known is not None and size >= 0 and (known.size == 0 or (known.min() >= 0 and known.max() < size)):
        return indices
    if rule == "zeros":
        raise Unsaid("gives zeros for indices outside (out_of_range='zeros'); ONNX has an error: use 'error' or 'clip'")
    if size < 0:
        raise Unsaid("clips indices along an axis whose size must be known")
    dtype = op.inputs[1].dtype.numpy
    limits = [w.constant(np.asarray(min(v, np.iinfo(dtype).max), dtype)) for v in (0, size - 1)]
    return w.add("Min", w.add("Max", indices, limits[0]), limits[1])


@writes("gather")
def gather(w: Writer, op: Operation) -> str:
    """Gather."""
    if op.attributes["batch_dimensions"]:
        raise Unsaid("ONNX's Gather has no batch dimensions")
    axis = axis_of(op, place=9)
    return w.add("Gather", w.name(op.inputs[0]), _inside(w, op, axis), axis=axis)


@writes("gather_along_axis")
def gather_along_axis(w: Writer, op: Operation) -> str:
    """GatherElements."""
    axis = axis_of(op, place=2)
    return w.add("GatherElements", w.name(op.inputs[0]), _inside(w, op, axis), axis=axis)


@writes("gather_nd")
def gather_nd(w: Writer, op: Operation) -> str:
    """GatherND."""
    if op.attributes["out_of_range"] != "error":
        raise Unsaid(f"indices outside: ONNX has an error, not out_of_range='{op.attributes['out_of_range']}'")
    indices = w.shape_operand(op.inputs[1])
    return w.add("GatherND", w.name(op.inputs[0]), indices, batch_dims=int(op.attributes["batch_dimensions"]))


@writes("one_hot")
def one_hot(w: Writer, op: Operation) -> str:
    """1 where the class is, by comparison: classes outside get zeros, also -1, which OneHot counts from behind."""
    if op.attributes["out_of_range"] != "zeros":
        raise Unsaid(f"ONNX has no one-hot vectors with out_of_range='{op.attributes['out_of_range']}'")
    rank = len(required_shape(op.outputs[0]))
    axis = int(op.attributes["axis"]) % rank
    depth = int(op.attributes["depth"])
    classes = np.arange(depth, dtype=op.inputs[0].dtype.numpy).reshape([-1 if i == axis else 1 for i in range(rank)])
    given = w.add("Unsqueeze", w.name(op.inputs[0]), w.ints([axis]))
    dtype = op.outputs[0].dtype
    on, off = (w.number(op.attributes[key], dtype) for key in ("on_value", "off_value"))
    return w.add("Where", w.add("Equal", given, w.constant(classes)), on, off)


@writes("band_part")
def band_part(w: Writer, op: Operation) -> str:
    """Trilu, once for each side that has an edge."""
    lower, upper = (_edge(op, key, 1 + i) for i, key in enumerate(("num_lower", "num_upper")))
    result = w.name(op.inputs[0])
    if lower >= 0:
        result = w.add("Trilu", result, w.ints(-lower), upper=1)
    if upper >= 0:
        result = w.add("Trilu", result, w.ints(upper), upper=0)
    return result if lower >= 0 or upper >= 0 else w.add("Identity", result)


def _edge(op: Operation, key: str, place: int) -> int:
    if len(op.inputs) <= place:
        return int(op.attributes[key])
    known = known_array(op.inputs[place])
    if known is None:
        raise Unsaid(f"'{key}' is computed in the run")
    return int(known.reshape(-1)[0])


@writes("quantize", "dequantize")
def quantization(w: Writer, op: Operation) -> str:
    """QuantizeLinear and DequantizeLinear of 8 bits."""
    if op.attributes["grouped"]:
        raise Unsaid("scales for groups of elements")
    small = op.outputs[0].dtype if op.kind == "quantize" else op.inputs[0].dtype
    if str(small) not in ("int8", "uint8"):
        raise Unsaid(f"ONNX quantizes to int8 and uint8, this is {small}")
    kind = "QuantizeLinear" if op.kind == "quantize" else "DequantizeLinear"
    if len(op.inputs) > 2 and op.inputs[1].shape != op.inputs[2].shape:
        raise Unsaid("ONNX wants as many zero points as scales")
    operands = w.inputs(op)
    if len(operands) == 2:
        zero = np.zeros((), small.numpy)
        operands.append(
            w.add("Expand", w.constant(zero), w.add("Shape", operands[1])) if op.inputs[1].shape else w.constant(zero)
        )
    vector = op.inputs[1].shape != ()
    return w.add(kind, *operands, axis=int(op.attributes["axis"]) if vector else None)
