"""Export of matmul, attention, band_part, and quantization to ONNX."""

from __future__ import annotations

import math

import numpy as np

from ..._core import Operation
from ...interchange.export import NotExpressible, known_array, required_shape
from ._writer import Writer, writes
from .packed import packed_product


@writes("matrix_multiplication")
def matrix_multiplication(w: Writer, op: Operation) -> str:
    """Export a matrix product as MatMul, or as MatMulNBits if its right operand is packed."""
    return packed_product(w, op) or w.add("MatMul", *w.all(op))


@writes("integer_matrix_multiplication")
def integer_matrix_multiplication(w: Writer, op: Operation) -> str:
    """Export a matrix product of quantized integers as MatMulInteger."""
    return w.add("MatMulInteger", *w.all(op))


@writes("scaled_dot_product_attention")
def attention(w: Writer, op: Operation) -> str:
    """Export attention as softmax(scale Q Kᵀ + mask) V, with zeros for a query whose keys are all masked."""
    if op.attributes["dropout"] > 0:
        raise NotExpressible(
            "the operation applies dropout to the attention weights: export the model in inference mode"
        )
    query, key, value, *mask = op.inputs
    rank, dtype = len(required_shape(key)), query.dtype
    scale = op.attributes["scale"]
    if scale is None:
        width = required_shape(query)[-1]
        if width < 0:
            raise NotExpressible(
                "the head size, which determines the scale, is dynamic: pass scale, or make the size static"
            )
        scale = 1 / math.sqrt(width)
    permutation = [*range(rank - 2), rank - 1, rank - 2]
    scaled = w.add("Mul", w.name(query), w.number(scale, dtype))
    scores = w.add("MatMul", scaled, w.transpose(w.name(key), permutation))
    if op.attributes["causal"]:
        scores = w.add("Add", scores, _causal_mask(w, op))
    if mask:
        scores = w.add("Add", scores, w.name(mask[0]))
    weights = w.add("Softmax", scores, axis=-1)
    if mask:  # Softmax is NaN if all scores are -infinity.
        largest = w.add("ReduceMax", scores, w.ints([-1]), keepdims=1)
        none = w.add("Equal", largest, w.number(-math.inf, dtype))
        weights = w.add("Where", none, w.number(0, dtype), weights)
    return w.add("MatMul", weights, w.name(value))


def _causal_mask(w: Writer, op: Operation) -> str:
    """Add nodes for a causal attention mask: 0 for keys up to the query's own position, and -infinity for later
    keys.
    """
    dtype = op.inputs[0].dtype
    places = []
    for tensor, axis in ((op.inputs[0], 1), (op.inputs[1], 0)):
        rank = len(required_shape(tensor))
        size = w.add("Gather", w.add("Shape", w.name(tensor)), w.ints(rank - 2), axis=0)
        places.append(w.add("Unsqueeze", w.add("Range", w.ints(0), size, w.ints(1)), w.ints([axis])))
    behind = w.add("Greater", places[1], places[0])
    return w.add("Where", behind, w.number(-math.inf, dtype), w.number(0, dtype))


@writes("band_part")
def band_part(w: Writer, op: Operation) -> str:
    """Export band_part, which zeros elements far from the diagonal, with one Trilu node for each bounded side of the
    band.
    """
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
        raise NotExpressible(f"argument '{key}' must be a constant, but is computed at run time")
    return int(known.reshape(-1)[0])


@writes("quantize", "dequantize")
def quantization(w: Writer, op: Operation) -> str:
    """Export quantization or dequantization of int8 or uint8 as QuantizeLinear or DequantizeLinear."""
    if op.attributes["grouped"]:
        raise NotExpressible("quantization scales per group of elements cannot be exported to ONNX")
    small = op.outputs[0].dtype if op.kind == "quantize" else op.inputs[0].dtype
    if str(small) not in ("int8", "uint8"):
        raise NotExpressible(f"the quantized type must be int8 or uint8, got {small}")
    kind = "QuantizeLinear" if op.kind == "quantize" else "DequantizeLinear"
    if len(op.inputs) > 2 and op.inputs[1].shape != op.inputs[2].shape:
        raise NotExpressible(
            f"ONNX needs one zero point per scale, got scales of shape {op.inputs[1].shape} and zero points of shape "
            f"{op.inputs[2].shape}"
        )
    operands = w.all(op)
    if len(operands) == 2:
        zero = np.zeros((), small.numpy)
        operands.append(
            w.add("Expand", w.constant(zero), w.add("Shape", operands[1])) if op.inputs[1].shape else w.constant(zero)
        )
    vector = op.inputs[1].shape != ()
    return w.add(kind, *operands, axis=int(op.attributes["axis"]) if vector else None)
