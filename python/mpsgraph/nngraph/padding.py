"""Padding policies: how large the result of a filter with windows is, and where its windows lie. MPSNNPadding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PaddingPolicy:
    """How windows are laid over an image. Source: MPSNNDefaultPadding, MPSNNPaddingMethod.

    Args: size, "valid_only" (windows lie inside), "same" (as many as strides fit) or "full" (each window that touches);
    alignment, where the windows are, "centered", "top_left" or "bottom_right"; remainder, where an odd pixel of padding
    goes, "top_left", "top_right", "bottom_left" or "bottom_right"; padding, instead of all that, [top, bottom, left,
    right].

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
# paddingForTensorflowAveragePooling and its kin: the odd pixel goes to the bottom right.
TENSORFLOW_SAME = PaddingPolicy("same", "centered", "bottom_right")
TENSORFLOW_VALID = PaddingPolicy("valid_only", "centered", "bottom_right")
