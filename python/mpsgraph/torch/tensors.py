"""Exchange of tensors with PyTorch. Contiguous memory is shared instead of copied.

If PyTorch provides DLPack functions in C, one call exchanges all tensors of a run through them. Short runs borrow
PyTorch's OpenMP threads. These threads spin between parallel loops, so they would otherwise occupy the cores that
mpsgraph needs.
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
    """Return an array that shares the tensor's memory. A tensor that is not contiguous is copied.

    NumPy has no bfloat16, so bfloat16 tensors are exchanged through DLPack.
    """
    if tensor is None:  # None is the token that orders side effects, whose value is never read.
        return _TOKEN
    plain = tensor.detach().contiguous()
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return from_dlpack(plain) if plain.dtype == torch.bfloat16 else plain.numpy()


def as_tensor(array: Any) -> torch.Tensor:
    """Return a tensor that shares an array's memory."""
    # PyTorch calls no other methods if it is given a capsule.
    found: torch.Tensor = torch.from_dlpack(array.__dlpack__())
    return found


def _team() -> tuple[int, int] | None:
    """Return the addresses of the OpenMP functions that start PyTorch's threads, or None if PyTorch does not use GNU
    OpenMP.

    Between loops, these threads spin instead of sleeping.
    """
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
    """Return a TensorExchange that uses PyTorch's DLPack functions in C, or None if PyTorch is older than 2.10."""
    try:
        return TensorExchange((torch.Tensor, torch.nn.Parameter), ["is_conj", "is_neg"], as_array, _team())
    except UnsupportedError:
        return None


_EXCHANGE = _exchange()


def run(executable: Executable, tensors: Sequence[Any], places: list[int]) -> list[torch.Tensor]:
    """Run an executable on PyTorch tensors. Return tensors that share the memory of its results.

    `places` holds, for each feed, the index of its tensor in `tensors`.
    """
    if _EXCHANGE is not None:
        found: list[torch.Tensor] = _EXCHANGE.run(executable, tensors, places)
        return found
    return [as_tensor(array) for array in executable.run([as_array(tensors[place]) for place in places])]
