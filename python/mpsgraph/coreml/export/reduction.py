"""Export of reductions, moments, normalizations, cumulative sums, and sorting to MIL."""

from __future__ import annotations

from ..._core import Operation
from ...interchange.export import NotExpressible, attribute, axis_of, required_shape
from ...interchange.renames import names
from ._writer import Var, Writer, writes


def _axes(op: Operation) -> list[int]:
    axes = [int(axis) for axis in op.attributes["axes"]]
    return axes or list(range(len(required_shape(op.inputs[0]))))


@writes.rows(names("mil", "reduction"))
@writes.rows({"reduction_maximum": "reduce_max", "reduction_minimum": "reduce_min"})
def reduction(w: Writer, name: str, op: Operation) -> Var:
    """Export a reduction. The reduced axes are kept with size 1."""
    x = w[op.inputs[0]]
    if op.inputs[0].shape == ():
        return w.mb.identity(x=x)
    return getattr(w.mb, name)(x=x, axes=_axes(op), keep_dims=True)


@writes("reduction_and", "reduction_or")
def of_flags(w: Writer, op: Operation) -> Var:
    """Export reduction_and or reduction_or of bools as a minimum or maximum of integers."""
    if str(op.inputs[0].dtype) != "bool":
        raise NotExpressible(f"MIL has no bitwise reductions; the operand must be bool, got {op.inputs[0].dtype}")
    numbers = w.mb.cast(x=w[op.inputs[0]], dtype="int32")
    reduce = w.mb.reduce_min if op.kind == "reduction_and" else w.mb.reduce_max
    return w.mb.cast(x=reduce(x=numbers, axes=_axes(op), keep_dims=True), dtype="bool")


@writes("reduction_arg_maximum", "reduction_arg_minimum")
def place_of_extremum(w: Writer, op: Operation) -> Var:
    """Export argmax or argmin as MIL's reduce_argmax or reduce_argmin."""
    reduce = w.mb.reduce_argmax if op.kind == "reduction_arg_maximum" else w.mb.reduce_argmin
    return reduce(x=w[op.inputs[0]], axis=int(op.attributes["axis"]), keep_dims=True)


@writes("variance")
def variance(w: Writer, op: Operation) -> Var:
    """Export a variance as the mean of (x - mean)^2."""
    mb, x, axes = w.mb, w[op.inputs[0]], _axes(op)
    mean = w[op.inputs[1]] if len(op.inputs) > 1 else mb.reduce_mean(x=x, axes=axes, keep_dims=True)
    return mb.reduce_mean(x=mb.square(x=mb.sub(x=x, y=mean)), axes=axes, keep_dims=True)


@writes("normalization")
def normalization(w: Writer, op: Operation) -> Var:
    """Export a normalization: gamma (x - mean) / sqrt(variance + epsilon) + beta.

    If mean and variance are constants, this becomes one multiplication and one addition.
    """
    mb, dtype = w.mb, op.inputs[0].dtype
    x, mean, spread, *more = w.all(op)
    gamma = more.pop(0) if op.attributes["has_gamma"] else None
    beta = more.pop(0) if op.attributes["has_beta"] else None
    raised = mb.add(x=spread, y=w.number(op.attributes["epsilon"], dtype))
    scale = mb.rsqrt(x=raised, epsilon=w.number(0, dtype))
    scale = scale if gamma is None else mb.mul(x=scale, y=gamma)
    result = mb.mul(x=mb.sub(x=x, y=mean), y=scale)
    return result if beta is None else mb.add(x=result, y=beta)


@writes("cumulative_sum")
def cumulative_sum(w: Writer, op: Operation) -> Var:
    """Export a cumulative sum as MIL's cumsum."""
    flags = {key: bool(op.attributes[key]) for key in ("exclusive", "reverse")}
    return w.mb.cumsum(x=w[op.inputs[0]], axis=axis_of(op), **flags)


@writes("top_k", "bottom_k")
def top_k(w: Writer, op: Operation) -> list[Var]:
    """Export top_k or bottom_k as MIL's topk."""
    k = attribute(op, "k", 2)
    k = int(k[0] if isinstance(k, list) else k)
    return list(w.mb.topk(x=w[op.inputs[0]], k=k, axis=axis_of(op), ascending=op.kind == "bottom_k"))


@writes("sort", "arg_sort")
def sort(w: Writer, op: Operation) -> Var:
    """Export sorting as MIL's argsort, followed by a gather if the sorted values are wanted rather than the indices."""
    x, axis = w[op.inputs[0]], axis_of(op)
    places = w.mb.argsort(x=x, axis=axis, ascending=not op.attributes["descending"])
    return places if op.kind == "arg_sort" else w.mb.gather_along_axis(x=x, indices=places, axis=axis)
