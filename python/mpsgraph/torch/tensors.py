"""Tensors of PyTorch as arrays of ours, and back: memory is shared, not copied, where it is contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .._core import from_dlpack

_TOKEN = np.zeros(0, np.float32)


def as_array(tensor: torch.Tensor | None) -> Any:
    """The tensor's memory, shared; numbers that lie apart are copied together first. bfloat16, which numpy has not,
    goes by DLPack."""
    if tensor is None:  # the token of effects' order, which nobody reads
        return _TOKEN
    plain = tensor.detach().contiguous()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return from_dlpack(plain) if plain.dtype == torch.bfloat16 else plain.numpy()


def as_tensor(array: Any) -> torch.Tensor:
    """A tensor over an array's memory."""
    found: torch.Tensor = torch.from_dlpack(array.__dlpack__())  # a capsule: PyTorch asks no more
    return found
