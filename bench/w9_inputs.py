"""Input arrays of the operations of W9, shared by mpsgraph and all peers. Imports only numpy."""

from collections.abc import Callable

import numpy as np
import workloads as sizes

INT32 = np.iinfo(np.int32)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def floats() -> list[np.ndarray]:
    return [_rng().standard_normal(sizes.W9_SORT, np.float32)]


def integers() -> list[np.ndarray]:
    return [_rng().integers(INT32.min, INT32.max, sizes.W9_SORT, np.int32)]


def complexes(*shape: int) -> list[np.ndarray]:
    return [_rng().standard_normal((*shape, 2), np.float32).view(np.complex64)[..., 0]]


def images_and_places() -> list[np.ndarray]:
    """Return images (N, H, W, C) and sampling coordinates (N, H, W, 2) between -1 and 1, x before y."""
    rng = _rng()
    places = rng.uniform(-1, 1, (*sizes.W9_IMAGES[:3], 2)).astype(np.float32)
    return [rng.standard_normal(sizes.W9_IMAGES, np.float32), places]


INPUTS: dict[str, Callable[[], list[np.ndarray]]] = {
    "sort float32": floats,
    "sort int32": integers,
    "arg-sort float32": floats,
    "arg-sort int32": integers,
    "cumulative sum": lambda: [_rng().standard_normal(sizes.W9_SUMS, np.float32)],
    "FFT of rows": lambda: complexes(*sizes.W9_WAVES),
    "FFT of a plane": lambda: complexes(*sizes.W9_PLANE),
    "grid sample": images_and_places,
}


def operation(workload: str) -> str:
    """Return the operation, a key of INPUTS, that a workload's name contains."""
    return workload.removeprefix("W9 ")
