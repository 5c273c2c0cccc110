"""Support for pickle and copy of NDArray, which the compiled core defines."""

from __future__ import annotations

import copyreg
from typing import Any

import numpy as np

from ._core import NDArray, asarray


def _array(values: np.ndarray, dtype: str) -> NDArray:
    """Return an unpickled array, which owns its memory."""
    return asarray(values, dtype=dtype)


def _reduced(array: NDArray) -> tuple[Any, ...]:
    values = np.ascontiguousarray(array.numpy()).reshape(array.shape)
    if str(array.dtype) == "bfloat16":
        values = values.view(np.uint16)  # Only programs with ml_dtypes can unpickle a bfloat16 array of numpy.
    return _array, (values.copy(), str(array.dtype))


def install() -> None:
    """Register how pickle and copy treat NDArrays."""
    copyreg.pickle(NDArray, _reduced)
