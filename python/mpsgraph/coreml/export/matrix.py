"""Export of matmul, attention, lookups, one-hot, band_part, and quantization to MIL."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._core import Operation, Tensor
from ...interchange.export import NotExpressible, attribute, axis_of, known_array, required_shape
from ._writer import Var, Writer, type_name, writes


@writes("matrix_multiplication")
def matrix_multiplication(w: Writer, op: Operation) -> Var:
    """Export a matrix product as MIL's matmul, for float16 and float32 only."""
    if type_name(op.inputs[0].dtype) not in ("fp32", "fp16"):
        raise NotExpressible(f"MIL's matmul supports only float16 and float32, got {op.inputs[0].dtype}")
    x, y = w.all(op)
    return w.mb.matmul(x=x, y=y)


@writes("scaled_dot_product_attention")
def attention(w: Writer, op: Operation) -> Var:
    """Export attention as softmax(scale Q Kᵀ + mask) V, with zeros for a query whose keys are all masked."""
    if op.attributes["dropout"] > 0:
        raise NotExpressible(
            "the operation applies dropout to the attention weights: export the model in inference mode"
        )
    mb, dtype = w.mb, op.inputs[0].dtype
    query, key, value, *mask = w.all(op)
    scaled = mb.mul(x=query, y=w.number(float(op.attributes["scale"]), dtype))
    scores = mb.matmul(x=scaled, y=key, transpose_y=True)
    if op.attributes["causal"]:
        sizes, rank = mb.shape(x=scores), len(required_shape(op.inputs[0]))
        lengths = (mb.gather(x=sizes, indices=np.int32(rank - i), axis=0) for i in (2, 1))
        rows, columns = (mb.range_1d(start=np.int32(0), end=n, step=np.int32(1)) for n in lengths)
        behind = mb.greater(x=mb.expand_dims(x=columns, axes=[0]), y=mb.expand_dims(x=rows, axes=[1]))
        scores = mb.select(cond=behind, a=w.number(-math.inf, dtype), b=scores)
    if mask:
        scores = mb.add(x=scores, y=mask[0])
    weights = mb.softmax(x=scores, axis=-1)
    if mask:  # Softmax is NaN if all scores are -infinity.
        largest = mb.reduce_max(x=scores, axes=[-1], keep_dims=True)
        none = mb.equal(x=largest, y=w.number(-math.inf, dtype))
        weights = mb.select(cond=none, a=w.number(0, dtype), b=weights)
    return mb.matmul(x=weights, y=value)


def _inside(w: Writer, op: Operation, axis: int) -> Any:
    """Return the indices of a gather operation, clamped to the valid range if the operation clips out-of-range indices.

    If the operation does not clip, out-of-range indices are run-time errors in Core ML.
    """
    indices, rule = w[op.inputs[1]], op.attributes["out_of_range"]
    if rule == "error":
        return indices
    size, known = required_shape(op.inputs[0])[axis], known_array(op.inputs[1])
    if known is not None and size >= 0 and (known.size == 0 or (known.min() >= 0 and known.max() < size)):
        return indices
    if rule == "zeros":
        raise NotExpressible("out_of_range='zeros' cannot be expressed in MIL: use 'error' or 'clip'")
    if size < 0:
        raise NotExpressible("out_of_range='clip' needs an axis of static size, but the size is dynamic")
    return w.mb.minimum(x=w.mb.maximum(x=indices, y=np.int32(0)), y=np.int32(size - 1))


@writes("gather")
def gather(w: Writer, op: Operation) -> Var:
    """Export a gather along one axis as MIL's gather."""
    axis, batch = axis_of(op, place=9), int(op.attributes["batch_dimensions"])
    more = {"batch_dims": batch} if batch else {}
    return w.mb.gather(x=w[op.inputs[0]], indices=_inside(w, op, axis), axis=axis, **more)


@writes("gather_along_axis")
def gather_along_axis(w: Writer, op: Operation) -> Var:
    """Export a gather with a separate index per element as MIL's gather_along_axis."""
    axis = axis_of(op, place=2)
    return w.mb.gather_along_axis(x=w[op.inputs[0]], indices=_inside(w, op, axis), axis=axis)


@writes("gather_nd")
def gather_nd(w: Writer, op: Operation) -> Var:
    """Export a gather by index vectors as MIL's gather_nd.

    Raises NotExpressible unless out-of-range indices are errors or the indices are known to be in range.
    """
    if op.attributes["out_of_range"] != "error" and not _found_in(*op.inputs[:2]):
        raise NotExpressible(
            f"out_of_range must be 'error' unless the indices are known to be in range, got "
            f"'{op.attributes['out_of_range']}'"
        )
    batch = int(op.attributes["batch_dimensions"])
    more = {"batch_dims": batch} if batch else {}
    return w.mb.gather_nd(x=w[op.inputs[0]], indices=w[op.inputs[1]], **more)


def _found_in(x: Tensor, indices: Tensor) -> bool:
    """Return whether the indices were computed as the non-zero indices of x, or of a comparison of x with a scalar.

    Such indices are always in range for x.
    """
    if indices.operation.kind != "non_zero_indices":
        return False
    looked_at = indices.operation.inputs[0]
    others = looked_at.operation.inputs[1:]
    return looked_at is x or (
        any(t is x for t in looked_at.operation.inputs[:1])
        and looked_at.shape == x.shape
        and all(t.shape == () for t in others)
    )


@writes("one_hot")
def one_hot(w: Writer, op: Operation) -> Var:
    """Export one-hot encoding as a comparison of the indices with all class numbers.

    An out-of-range index matches no class, so the encoding of such an index has no "on" value.
    """
    if op.attributes["out_of_range"] != "zeros":
        raise NotExpressible(
            f"out_of_range must be 'zeros' for a one-hot encoding, got '{op.attributes['out_of_range']}'"
        )
    rank = len(required_shape(op.outputs[0]))
    axis, depth, dtype = int(op.attributes["axis"]) % rank, int(op.attributes["depth"]), op.outputs[0].dtype
    classes = np.arange(depth, dtype=np.int32).reshape([-1 if i == axis else 1 for i in range(rank)])
    found = w.mb.equal(x=w.spread(w[op.inputs[0]], [axis]), y=classes)
    on, off = (op.attributes[key] for key in ("on_value", "off_value"))
    if type_name(dtype) == "bool":
        return found if on and not off else w.mb.logical_not(x=found)
    if (on, off) == (1, 0):
        return w.mb.cast(x=found, dtype=type_name(dtype))
    return w.mb.select(cond=found, a=w.number(on, dtype), b=w.number(off, dtype))


@writes("band_part")
def band_part(w: Writer, op: Operation) -> Var:
    """Export a band matrix operation, which zeros elements far from the diagonal, as MIL's band_part."""
    lower, upper = (attribute(op, key, 1 + i) for i, key in enumerate(("num_lower", "num_upper")))
    edges = [int(v[0] if isinstance(v, list) else v) for v in (lower, upper)]
    return w.mb.band_part(x=w[op.inputs[0]], lower=edges[0], upper=edges[1])
