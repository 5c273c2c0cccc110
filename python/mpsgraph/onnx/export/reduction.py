"""Reductions, means and variances, normalizations, cumulative sums, order."""

from __future__ import annotations

import numpy as np

from ..._core import Operation, Tensor
from ...interchange.leaving import Unsaid, attribute, axis_of, required_shape
from ._writer import Writer, type_number, writes

_REDUCTIONS = {
    "reduction_sum": "ReduceSum",
    "reduction_product": "ReduceProd",
    "reduction_maximum": "ReduceMax",
    "reduction_maximum_propagate_nan": "ReduceMax",
    "reduction_minimum": "ReduceMin",
    "reduction_minimum_propagate_nan": "ReduceMin",
    "mean": "ReduceMean",
}


def _axes(w: Writer, op: Operation) -> str:
    """The axes as an operand; all of them when there are none."""
    axes = [int(axis) for axis in op.attributes["axes"]]
    return w.ints(axes or list(range(len(required_shape(op.inputs[0])))))


@writes(*_REDUCTIONS)
def reduction(w: Writer, op: Operation) -> str:
    """Reductions that keep their axes with size 1."""
    if op.inputs[0].shape == ():
        return w.add("Identity", w.name(op.inputs[0]))
    return w.add(_REDUCTIONS[op.kind], w.name(op.inputs[0]), _axes(w, op), keepdims=1)


@writes("reduction_and", "reduction_or")
def of_flags(w: Writer, op: Operation) -> str:
    """All and any: extrema of integers."""
    if str(op.inputs[0].dtype) != "bool":
        raise Unsaid(f"ONNX's reductions have no bits; the operand is {op.inputs[0].dtype}")
    numbers = w.add("Cast", w.name(op.inputs[0]), to=6)  # int32
    kind = "ReduceMin" if op.kind == "reduction_and" else "ReduceMax"
    extremum = w.add(kind, numbers, _axes(w, op), keepdims=1)  # of nothing the largest or the smallest int32
    return w.add("Greater", extremum, w.constant(np.asarray(0, np.int32)))


@writes("reduction_arg_maximum", "reduction_arg_minimum")
def place_of_extremum(w: Writer, op: Operation) -> str:
    """ArgMax and ArgMin, whose int64 becomes int32."""
    kind = "ArgMax" if op.kind == "reduction_arg_maximum" else "ArgMin"
    places = w.add(kind, w.name(op.inputs[0]), axis=int(op.attributes["axis"]), keepdims=1)
    return w.cast(places, op.outputs[0].dtype)


@writes("variance")
def variance(w: Writer, op: Operation) -> str:
    """The mean of the squares of what lies between x and its mean."""
    x, axes = w.name(op.inputs[0]), _axes(w, op)
    mean = w.name(op.inputs[1]) if len(op.inputs) > 1 else w.add("ReduceMean", x, axes, keepdims=1)
    centred = w.add("Sub", x, mean)
    return w.add("ReduceMean", w.add("Mul", centred, centred), axes, keepdims=1)


@writes("normalization")
def normalization(w: Writer, op: Operation) -> str:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta; BatchNormalization where it says the same."""
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
    """BatchNormalization, if all four are there with an element for each channel of the last axis."""
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
    """CumSum."""
    flags = {key: int(op.attributes[key]) for key in ("exclusive", "reverse")}
    return w.add("CumSum", w.name(op.inputs[0]), w.ints(axis_of(op)), **flags)


@writes("top_k", "bottom_k")
def top_k(w: Writer, op: Operation) -> list[str]:
    """TopK, whose int64 places become int32."""
    axis, k = axis_of(op), attribute(op, "k", 2)
    k = int(k[0] if isinstance(k, list) else k)
    values, places = w.add_several(
        "TopK", [w.name(op.inputs[0]), w.ints([k])], 2, axis=axis, largest=int(op.kind == "top_k")
    )
    return [values, w.cast(places, op.outputs[1].dtype)]


@writes("sort", "arg_sort")
def sort(w: Writer, op: Operation) -> str:
    """TopK of all there is."""
    x, axis = w.name(op.inputs[0]), axis_of(op)
    size = w.add("Slice", w.add("Shape", x), w.ints([axis]), w.ints([axis + 1]))
    largest = int(op.attributes["descending"])
    values, places = w.add_several("TopK", [x, size], 2, axis=axis, largest=largest)
    return values if op.kind == "sort" else w.add("Cast", places, to=type_number(op.outputs[0].dtype))


@writes("softmax_cross_entropy")
def softmax_cross_entropy(w: Writer, op: Operation) -> str:
    """-sum of labels log(softmax), its sum or mean over the losses."""
    source, labels = w.inputs(op)
    axis = axis_of(op, place=2)
    product = w.add("Mul", labels, w.add("LogSoftmax", source, axis=axis))
    losses = w.add("Neg", w.add("ReduceSum", product, w.ints([axis]), keepdims=1))
    kinds = {"none": None, "sum": "ReduceSum", "mean": "ReduceMean"}
    kind = kinds[op.attributes["reduction"]]
    return w.add(kind, losses, keepdims=0) if kind else losses
