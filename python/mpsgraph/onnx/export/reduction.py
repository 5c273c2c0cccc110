"""Export of reductions, moments, normalizations, cumulative operations, and sorting to ONNX."""

from __future__ import annotations

import numpy as np
from onnx import helper

from ..._core import Operation, Tensor
from ...interchange.export import NotExpressible, attribute, axis_of, known_array, required_shape
from ...interchange.renames import names
from ...ops.scatter_nd import neutral
from ._writer import Writer, type_number, writes

_CUMULATIVE = {"cumulative_product": "Mul", "cumulative_minimum": "Min", "cumulative_maximum": "Max"}


def _axes(w: Writer, op: Operation) -> str:
    """Return the operand that lists the axes of a reduction. All axes are listed if the operation specifies none."""
    axes = [int(axis) for axis in op.attributes["axes"]]
    return w.ints(axes or list(range(len(required_shape(op.inputs[0])))))


@writes.rows(names("onnx", "reduction"))
@writes.rows({"reduction_maximum": "ReduceMax", "reduction_minimum": "ReduceMin"})
def reduction(w: Writer, name: str, op: Operation) -> str:
    """Export a reduction. The reduced axes are kept with size 1."""
    if op.inputs[0].shape == ():
        return w.add("Identity", w.name(op.inputs[0]))
    return w.add(name, w.name(op.inputs[0]), _axes(w, op), keepdims=1)


@writes("reduction_and", "reduction_or")
def of_flags(w: Writer, op: Operation) -> str:
    """Export reduction_and or reduction_or of bools as a minimum or maximum of integers."""
    if str(op.inputs[0].dtype) != "bool":
        raise NotExpressible(f"ONNX has no bitwise reductions; the operand must be bool, got {op.inputs[0].dtype}")
    numbers = w.add("Cast", w.name(op.inputs[0]), to=6)  # Element type 6 is int32.
    kind = "ReduceMin" if op.kind == "reduction_and" else "ReduceMax"
    # An empty reduction yields the largest or smallest int32, and the comparison turns it into true or false.
    extremum = w.add(kind, numbers, _axes(w, op), keepdims=1)
    return w.add("Greater", extremum, w.constant(np.asarray(0, np.int32)))


@writes("reduction_arg_maximum", "reduction_arg_minimum")
def place_of_extremum(w: Writer, op: Operation) -> str:
    """Export argmax or argmin as ArgMax or ArgMin, with the int64 result converted to int32."""
    kind = "ArgMax" if op.kind == "reduction_arg_maximum" else "ArgMin"
    places = w.add(kind, w.name(op.inputs[0]), axis=int(op.attributes["axis"]), keepdims=1)
    return w.cast(places, op.outputs[0].dtype)


@writes("variance")
def variance(w: Writer, op: Operation) -> str:
    """Export a variance as the mean of (x - mean)^2."""
    x, axes = w.name(op.inputs[0]), _axes(w, op)
    mean = w.name(op.inputs[1]) if len(op.inputs) > 1 else w.add("ReduceMean", x, axes, keepdims=1)
    centred = w.add("Sub", x, mean)
    return w.add("ReduceMean", w.add("Mul", centred, centred), axes, keepdims=1)


@writes("normalization")
def normalization(w: Writer, op: Operation) -> str:
    """Export a normalization, gamma (x - mean) / sqrt(variance + epsilon) + beta, as BatchNormalization if possible."""
    x, mean, variance, *more = op.inputs
    gamma = more.pop(0) if op.attributes["has_gamma"] else None
    beta = more.pop(0) if op.attributes["has_beta"] else None
    whole = _batch_normalization(w, op, x, mean, variance, gamma, beta)
    if whole:
        return whole
    spread = w.add("Add", w.name(variance), w.number(op.attributes["epsilon"], x.dtype))
    result = w.add("Div", w.add("Sub", w.name(x), w.name(mean)), w.add("Sqrt", spread))
    if gamma is not None:
        result = w.add("Mul", result, w.name(gamma))
    return result if beta is None else w.add("Add", result, w.name(beta))


def _batch_normalization(w: Writer, op: Operation, x: Tensor, *operands: Tensor | None) -> str | None:
    """Export a normalization as BatchNormalization and return the name of its result.

    Returns None unless the mean, variance, gamma, and beta have one element per channel, where the last axis of x holds
    the channels.
    """
    shape = required_shape(x)
    if len(shape) < 2 or any(t is None or t.shape != shape[-1:] or shape[-1] < 1 for t in operands):
        return None
    mean, variance, gamma, beta = (w.name(t) for t in operands if t is not None)
    last = len(shape) - 1
    forth = [0, last, *range(1, last)]
    back = [0, *range(2, last + 1), 1]
    turned = w.transpose(w.name(x), forth)
    epsilon = float(op.attributes["epsilon"])
    return w.transpose(w.add("BatchNormalization", turned, gamma, beta, mean, variance, epsilon=epsilon), back)


@writes("cumulative_sum")
def cumulative_sum(w: Writer, op: Operation) -> str:
    """Export a cumulative sum as CumSum."""
    flags = {key: int(op.attributes[key]) for key in ("exclusive", "reverse")}
    return w.add("CumSum", w.name(op.inputs[0]), w.ints(axis_of(op)), **flags)


@writes("cumulative_product", "cumulative_minimum", "cumulative_maximum")
def cumulative(w: Writer, op: Operation) -> str:
    """Export a cumulative product, minimum, or maximum as Scan along the axis, starting from the operation's
    identity element.
    """
    x, dtype, axis, shape = op.inputs[0], op.inputs[0].dtype, axis_of(op), required_shape(op.inputs[0])
    backwards, kind = int(op.attributes["reverse"]), _CUMULATIVE[op.kind]
    if 0 in shape:
        return w.identity(w.name(x))
    sizes = w.sizes(*((x, i) for i in range(len(shape)) if i != axis))
    first = w.add("Expand", w.number(neutral(kind.lower(), dtype), dtype), sizes)
    body, before, one = Writer(w.opset, w), w.fresh("before"), w.fresh("one")
    after = body.add(kind, before, one)
    kept = body.identity(before if op.attributes["exclusive"] else after)
    rest = [size if size >= 0 else None for i, size in enumerate(shape) if i != axis]
    infos = [
        helper.make_tensor_value_info(name, type_number(dtype), rest)
        for name in (before, one, body.identity(after), kept)
    ]
    graph = helper.make_graph(body.nodes, w.fresh("steps"), infos[:2], infos[2:])
    how = {
        key: [value]
        for key, value in {
            "scan_input_axes": axis, "scan_output_axes": axis,
            "scan_input_directions": backwards, "scan_output_directions": backwards,
        }.items()
    }  # fmt: skip
    return w.add_several("Scan", [first, w.name(x)], 2, body=graph, num_scan_inputs=1, **how)[1]


@writes("top_k", "bottom_k")
def top_k(w: Writer, op: Operation) -> list[str]:
    """Export top_k or bottom_k as TopK, with the int64 indices converted to int32."""
    if len(op.inputs) > 2 and known_array(op.inputs[2]) is None:
        k = w.reshape(w.shape_operand(op.inputs[2]), [1])
    else:
        k = w.ints(np.asarray(attribute(op, "k", 2)).reshape(-1)[:1].tolist())
    largest = int(op.kind == "top_k")
    values, places = w.add_several("TopK", [w.name(op.inputs[0]), k], 2, axis=axis_of(op), largest=largest)
    return [values, w.cast(places, op.outputs[1].dtype)]


@writes("sort", "arg_sort")
def sort(w: Writer, op: Operation) -> str:
    """Export sorting as TopK with k equal to the size of the axis."""
    x, axis = w.name(op.inputs[0]), axis_of(op)
    size = w.add("Slice", w.add("Shape", x), w.ints([axis]), w.ints([axis + 1]))
    largest = int(op.attributes["descending"])
    values, places = w.add_several("TopK", [x, size], 2, axis=axis, largest=largest)
    return values if op.kind == "sort" else w.add("Cast", places, to=type_number(op.outputs[0].dtype))


@writes("softmax_cross_entropy")
def softmax_cross_entropy(w: Writer, op: Operation) -> str:
    """Export softmax cross-entropy as -sum(labels * log_softmax(source)), optionally reduced to the sum or mean of
    the losses.
    """
    source, labels = w.all(op)
    axis = axis_of(op, place=2)
    product = w.add("Mul", labels, w.add("LogSoftmax", source, axis=axis))
    losses = w.add("Neg", w.add("ReduceSum", product, w.ints([axis]), keepdims=1))
    kinds = {"none": None, "sum": "ReduceSum", "mean": "ReduceMean"}
    kind = kinds[op.attributes["reduction"]]
    return w.add(kind, losses, keepdims=0) if kind else losses
