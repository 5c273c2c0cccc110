"""Tensors of PyTorch as arrays of ours, and back: memory is shared, not copied, where it is contiguous.

A run of an executable takes and gives them all at once, by DLPack's functions in C, where PyTorch has those; and short
ones use PyTorch's threads, which would keep the processors from ours.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._core import Executable, TensorExchange, from_dlpack
from ..errors import UnsupportedError

_OPENMP = ("GOMP_parallel", "omp_get_max_threads")
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


def _team() -> tuple[int, int] | None:
    """How PyTorch's loops get their threads, which wait busily for the next one; None where that is not GNU OpenMP."""
    bundled = sorted(str(path) for path in Path(torch.__file__).parent.joinpath("lib").glob("libgomp*"))
    for name in [*bundled, "libgomp.so.1"] if sys.platform == "linux" else []:
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
            found = [ctypes.cast(getattr(library, f), ctypes.c_void_p).value for f in _OPENMP]
        except (OSError, AttributeError):
            continue
        if all(found):
            return found[0] or 0, found[1] or 0
    return None


def _exchange() -> TensorExchange | None:
    """None where PyTorch has no functions of DLPack's in C, before 2.10."""
    try:
        return TensorExchange((torch.Tensor, torch.nn.Parameter), ["is_conj", "is_neg"], as_array, _team())
    except UnsupportedError:
        return None


_EXCHANGE = _exchange()


def run(executable: Executable, tensors: Sequence[Any], places: list[int]) -> list[torch.Tensor]:
    """What an executable gives, as tensors over its buffers. Args: tensors; places, which of them each feed takes."""
    if _EXCHANGE is not None:
        found: list[torch.Tensor] = _EXCHANGE.run(executable, tensors, places)
        return found
    return [as_tensor(array) for array in executable.run([as_array(tensors[place]) for place in places])]
