"""Test integers that float32 cannot represent: the Metal device must move, order, and sum them exactly.

MPSGraph's gathers and scatters convert integers to float32, and so do those of the mock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpsgraph as mg
import numpy as np
import pytest

# Numbers above 2^24, bit patterns of NaN, infinity, and subnormal floats, and the limits of the range.
PATTERNS = [2**24 + 1, 0x7FC00001, 0x7F800000, 1, 2, 3, 0x00400000, 1832780943, 2**31 - 1, 0, 5, 2**30 + 7]


def wide(dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    numbers = np.array(PATTERNS, np.int64)
    if info.bits == 64:
        numbers = numbers * np.int64(2**31 + 1)
    signed = numbers * np.where(np.arange(12) % 3 == 1, -1, 1) if info.min < 0 else numbers
    return signed.astype(dtype).reshape(3, 4)


def columns(g: mg.Graph) -> Any:
    """Column indices for each of three rows: two equal ones and one out of range."""
    return g.constant(np.int32([[3, 3, 9, 1]] * 3))


Build = Callable[[mg.Graph, Any], Any]
MOVES: dict[str, Build] = {
    "gather": lambda g, x: g.gather(x, g.constant(np.int32([2, 0, 5])), 0),
    "gather_nd": lambda g, x: g.gather_nd(x, g.constant(np.int32([[2, 3], [0, 1]]))),
    "gather_along_axis": lambda g, x: g.gather_along_axis(1, x, g.constant(np.int32([[3], [0], [9]]))),
    "scatter set": lambda g, x: g.scatter(x, g.constant(np.int32([1, 1, 2])), 0, mode="set", data=x),
    "scatter_along_axis set": lambda g, x: g.scatter_along_axis(1, x, columns(g), mode="set", data=x),
    "scatter add": lambda g, x: g.scatter(x, g.constant(np.int32([1, 1, 9])), 0, data=x),
    "scatter sub": lambda g, x: g.scatter(x, g.constant(np.int32([1, 1, 0])), 0, mode="sub", data=x),
    "scatter max": lambda g, x: g.scatter(x, g.constant(np.int32([1, 1, 0])), 0, mode="max", data=x),
    "scatter min": lambda g, x: g.scatter(x, g.constant(np.int32([1, 1, 7])), 0, mode="min", data=x),
    "scatter_along_axis max": lambda g, x: g.scatter_along_axis(1, x, columns(g), mode="max", data=x),
    "sort": lambda g, x: g.sort(x, 1),
    "sort descending": lambda g, x: g.sort(x, 0, descending=True),
    "arg_sort": lambda g, x: g.arg_sort(x, 1),
    "top_k": lambda g, x: g.top_k(x, 2)[0],
    "pad": lambda g, x: g.pad(x, (1, 5), (0, 3), mode="periodic"),
    "resize": lambda g, x: g.resize_nearest(g.reshape(x, (1, 1, 3, 4)), (2, 7), layout="NCHW"),
}


def result(build: Build, x: np.ndarray, device: str) -> np.ndarray:
    g = mg.Graph()
    fed = g.placeholder(x.shape, x.dtype.name)
    return np.asarray(g.run({fed: x}, build(g, fed), device=device))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("kind", MOVES)
def test_64_bit_integers_on_metal_match_the_cpu(kind: str, dtype: str):
    x = wide(dtype)
    found, wanted = result(MOVES[kind], x, "metal"), result(MOVES[kind], x, "cpu")
    assert found.dtype == wanted.dtype
    assert found.tolist() == wanted.tolist()


def test_scattering_too_many_integers_to_one_element_raises():
    g = mg.Graph()
    x, place = g.placeholder((70_000,), "int32"), g.placeholder((70_000,), "int32")
    counts = g.scatter(x, place, 0, data=g.constant(np.zeros(3, np.int32)))
    with pytest.raises(mg.UnsupportedError, match="up to 65536 values at one index, got 70000 of int32"):
        g.run({x: np.ones(70_000, np.int32), place: np.zeros(70_000, np.int32)}, counts)
