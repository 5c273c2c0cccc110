"""Translations of convolutions and transposed convolutions over one to three spatial axes, with channels first."""

from __future__ import annotations

from typing import Any

from ..._core import Tensor
from ...errors import ShapeError
from .._operation import Call, Results, mil
from .activations import per_channel

STYLES = {"same": "TF_SAME", "same_lower": "ONNX_SAME_LOWER"}


def planar(call: Call, x: Tensor) -> Tensor:
    """Return x with at least two spatial axes: if it has only one, an additional axis of size 1 is inserted."""
    return call.g.expand_dims(x, [2]) if call.rank(x) == 3 else x


def like_before(call: Call, y: Tensor, count: int) -> Tensor:
    """Remove the spatial axis that `planar` added."""
    return call.g.squeeze(y, [2]) if count == 1 else y


def pairs_of(call: Call, count: int) -> list[tuple[int, int]]:
    """Return the explicit padding per spatial axis, which is zero unless pad_type is custom."""
    pad = call.ints("pad", [0] * (2 * count))
    if call.text("pad_type", "valid") != "custom":
        return [(0, 0)] * count
    if len(pad) != 2 * count:
        raise ShapeError(f"pad must have {2 * count} elements for {count} spatial axes, got {len(pad)}")
    return [(pad[2 * i], pad[2 * i + 1]) for i in range(count)]


def padding_of(call: Call, count: int) -> Any:
    """Return the padding argument for Graph methods, for at least two spatial axes."""
    kind = call.text("pad_type", "valid")
    if kind in STYLES:
        call.ints("pad", None)
        return STYLES[kind]
    if kind not in ("valid", "custom"):
        call.refuse(f"pad_type {kind!r} is not supported")
    pairs = pairs_of(call, count)
    return tuple([(0, 0), *pairs] if count == 1 else pairs)


def steps(call: Call, name: str, count: int) -> list[int]:
    """Return strides or dilations for at least two spatial axes."""
    found = call.ints(name, [1] * count)
    if len(found) != count:
        raise ShapeError(f"{name} must have {count} elements for {count} spatial axes, got {len(found)}")
    return [1, *found] if count == 1 else found


def _with_bias(call: Call, y: Tensor) -> Tensor:
    bias = call.optional_weight("bias")
    return y if bias is None else call.g.addition(y, per_channel(call, bias, y))


@mil("conv")
def conv(call: Call) -> Results:
    g, x, w = call.g, call.tensor("x"), call.weight("weight")
    count = call.rank(x) - 2
    how = {
        "strides": steps(call, "strides", count),
        "dilations": steps(call, "dilations", count),
        "groups": call.integer("groups", 1),
        "padding": padding_of(call, count),
    }
    if count in (1, 2):
        y = g.convolution2d(planar(call, x), planar(call, w), data_layout="NCHW", weights_layout="OIHW", **how)
    elif count == 3:
        y = g.convolution3d(x, w, data_layout="NCDHW", weights_layout="OIDHW", **how)
    else:
        call.refuse(f"1 to 3 spatial axes are supported, got {count}")
    return _with_bias(call, like_before(call, y, count))


@mil("conv_transpose")
def conv_transpose(call: Call) -> Results:
    """Translate conv_transpose to the gradient of a convolution with respect to the convolution's input.

    The padding follows from the size of the result, which is the convolution's input.
    """
    g, x, w = call.g, call.tensor("x"), call.weight("weight")
    count, kernel, groups = call.rank(x) - 2, call.shape(w)[2:], call.integer("groups", 1)
    strides, dilations = steps(call, "strides", count)[-count:], steps(call, "dilations", count)[-count:]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    # Along each axis, all windows together cover size * stride + span elements.
    spans = [r - s for r, s in zip(reach, strides, strict=True)]
    kind, pairs = call.text("pad_type", "valid"), pairs_of(call, count)
    sizes = [call.dim(x, 2 + i) for i in range(count)]
    if kind in STYLES:
        totals = [max(span, 0) for span in spans]
        lower = [n // 2 if kind == "same" else n - n // 2 for n in totals]
        pairs = [(b, n - b) for b, n in zip(lower, totals, strict=True)]
        growths = [0] * count
    else:
        growths = [span - b - a for span, (b, a) in zip(spans, pairs, strict=True)]
    if call.has("output_shape"):
        wanted = call.ints("output_shape")[-count:]
        known = [call.size(x, 2 + i) for i in range(count)]
        growths = [out - n * s for out, n, s in zip(wanted, known, strides, strict=True)]
        if kind in STYLES:
            totals = [max(span - more, 0) for span, more in zip(spans, growths, strict=True)]
            pairs = [(n // 2 if kind == "same" else n - n // 2, 0) for n in totals]
    after = [span - b - more for span, (b, _), more in zip(spans, pairs, growths, strict=True)]
    # The gradient operation computes only elements that windows reach. The remaining elements are appended as zeros.
    reached = [more + min(0, a) for more, a in zip(growths, after, strict=True)]
    made = [grown(call, n, s, more) for n, s, more in zip(sizes, strides, reached, strict=True)]
    lead = [1] if count == 1 else []
    shape = call.joined([call.dim(x, 0), call.size(w, 1) * groups, *lead, *made])
    padding = [(b, max(0, a)) for (b, _), a in zip(pairs, after, strict=True)]
    how: dict[str, Any] = {
        "strides": [*lead, *strides],
        "dilations": [*lead, *dilations],
        "padding": (*[(0, 0) for _ in lead], *padding),
        "groups": groups,
    }
    if count in (1, 2):
        how |= {"data_layout": "NCHW", "weights_layout": "OIHW"}
        y = g.convolution2d_data_gradient(planar(call, x), planar(call, w), shape, **how)
    elif count == 3:
        how |= {"data_layout": "NCDHW", "weights_layout": "OIDHW"}
        y = g.convolution3d_data_gradient(x, w, shape, **how)
    else:
        call.refuse(f"1 to 3 spatial axes are supported, got {count}")
    behind = [max(0, -a) for a in after]
    y = like_before(call, y, count)
    if any(behind):
        y = g.pad(y, [0] * call.rank(y), [0, 0, *behind])
    return _with_bias(call, y)


def grown(call: Call, size: int | Tensor, stride: int, more: int) -> int | Tensor:
    """Return size * stride + more, as an int if the size is an int and as a tensor if it is dynamic."""
    if isinstance(size, int):
        return size * stride + more
    return call.g.addition(call.g.multiplication(size, stride), more)
