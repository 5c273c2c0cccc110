"""Family dropout: MPSCNNDropoutNode."""

from __future__ import annotations

from collections.abc import Sequence

from ..._core import ImageNode
from ._node import Node


class DropoutNode(Node):
    """x / keep_probability with that probability, else 0; the gradient has the same mask. Source: MPSCNNDropoutNode.

    seed: another for each dropout; masks differ from batch to batch. mask_stride_in_pixels (x, y, channels): 0 draws
    one number for all of that axis. It drops in every graph that has it: build inference graphs without it.
    """

    kind_name = "dropout"

    def __init__(
        self,
        source: ImageNode,
        keep_probability: float = 0.5,
        seed: int = 0,
        mask_stride_in_pixels: Sequence[int] = (1, 1, 1),
        *,
        label: str = "",
    ) -> None:
        attributes = {
            "keep_probability": float(keep_probability),
            "seed": seed,
            "mask_stride_in_pixels": list(mask_stride_in_pixels),
        }
        super().__init__([source], attributes, label=label)
