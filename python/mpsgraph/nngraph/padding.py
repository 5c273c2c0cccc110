"""Padding policies, which determine result size and window positions of filters with windows: MPSNNPadding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PaddingPolicy:
    """Padding of an image for a filter with windows.

    Args:
        size: Size of the result: "valid_only" (only windows inside the image), "same" (the image size divided by the
            stride, rounded up), or "full" (all windows that overlap the image). Defaults to "same".
        alignment: Alignment of the windows: "centered" (padding on both sides, the default), "top_left" (padding only
            at the bottom right), or "bottom_right" (padding only at the top left).
        remainder: Corner that gets the odd pixel of padding: "top_left" (the default), "top_right", "bottom_left", or
            "bottom_right".
        padding: Explicit padding [top, bottom, left, right], which replaces the other settings. None (the default)
            means no explicit padding.

    The values are checked when the policy is assigned to a filter.

    Source: MPSNNDefaultPadding, MPSNNPaddingMethod.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.PoolingMaxNode(nn.ImageNode("x"), 2, 2, padding_policy=nn.VALID)
        >>> nn.NNGraph(None, node.result_image)(np.ones((1, 5, 5, 1), np.float32)).shape
        (1, 2, 2, 1)
        >>> nn.VALID == nn.PaddingPolicy("valid_only"), nn.TENSORFLOW_SAME.remainder
        (True, 'bottom_right')
    """

    size: str = "same"
    alignment: str = "centered"
    remainder: str = "top_left"
    padding: Sequence[int] | None = None


SAME = PaddingPolicy()
VALID = PaddingPolicy("valid_only")
FULL = PaddingPolicy("full")
# As in paddingForTensorflowAveragePooling and similar methods, the odd pixel is at the bottom right.
TENSORFLOW_SAME = PaddingPolicy("same", "centered", "bottom_right")
TENSORFLOW_VALID = PaddingPolicy("valid_only", "centered", "bottom_right")
