"""Translations of convolutions and transposed convolutions over one to three spatial axes, with channels first."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import Tensor
from ...errors import ShapeError
from ...interchange.renames import options
from ...interchange.windows import Window, convolved, halves, transposed_convolution
from .._operation import Call, Results, mil
from .activations import per_channel

_STYLES, _STEPS = options("mil", "padding style"), ("strides", "dilations")


def window_of(call: Call, kernel: Sequence[int]) -> Window:
    """Return the window specified by the operation's parameters, or raise ShapeError if they are inconsistent."""
    count = len(kernel)
    strides, dilations = (call.ints(name, [1] * count) for name in _STEPS)
    for name, found in zip(_STEPS, (strides, dilations), strict=True):
        if len(found) != count:
            raise ShapeError(f"{name} must have {count} elements for {count} spatial axes, got {len(found)}")
    window = Window(list(kernel), strides, dilations, [0] * count, [0] * count)
    kind, pad = call.text("pad_type", "valid"), call.ints("pad", [0] * (2 * count))
    if kind not in _STYLES:
        call.refuse(f"pad_type {kind!r} is not supported")
    if kind == "custom":
        if len(pad) != 2 * count:
            raise ShapeError(f"pad must have {2 * count} elements for {count} spatial axes, got {len(pad)}")
        window.before, window.after = pad[0::2], pad[1::2]
    elif kind != "valid":
        window.style = _STYLES[kind]
    return window


def _with_bias(call: Call, y: Tensor) -> Tensor:
    bias = call.optional_weight("bias")
    return y if bias is None else call.g.addition(y, per_channel(call, bias, y))


@mil("conv")
def conv(call: Call) -> Results:
    x, w = call.tensor("x"), call.weight("weight")
    window = window_of(call, call.shape(w)[2:])
    return _with_bias(call, convolved(call, x, w, window, call.integer("groups", 1)))


@mil("conv_transpose")
def conv_transpose(call: Call) -> Results:
    """Translate conv_transpose to the gradient of a convolution with respect to the convolution's input.

    The padding follows from the size of the result, which is the convolution's input.
    """
    x, w = call.tensor("x"), call.weight("weight")
    window = window_of(call, call.shape(w)[2:])
    growths = [span - b - a for span, b, a in zip(window.spans, window.before, window.after, strict=True)]
    if window.style:
        growths = [0] * len(growths)
    if call.has("output_shape"):
        wanted = call.ints("output_shape")[-len(growths) :]
        growths = [out - call.size(x, 2 + i) * s for i, (out, s) in enumerate(zip(wanted, window.strides, strict=True))]
    if window.style:
        totals = [max(span - more, 0) for span, more in zip(window.spans, growths, strict=True)]
        window.before, window.after = halves(totals, window.style)
    return _with_bias(call, transposed_convolution(call, x, w, window, growths, call.integer("groups", 1)))
