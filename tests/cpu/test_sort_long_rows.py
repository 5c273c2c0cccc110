"""Compare bucket sorts of long rows with numpy for many distributions of elements."""

import mpsgraph as mg
import numpy as np
import pytest

LENGTHS = {"sort": 1 << 18, "arg_sort": 1 << 15}  # shortest length with buckets
INT32, INT64 = np.iinfo(np.int32), np.iinfo(np.int64)


def crowded(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return numbers clustered around two distant values, so that few leading bits differ."""
    near = np.where(rng.random(n) < 0.9, 1.0, -1e30).astype(np.float32)
    return near * (1 + 1e-4 * rng.random(n, np.float32))


def with_ends(rng: np.random.Generator, n: int) -> np.ndarray:
    x = rng.standard_normal(n, np.float32)
    x[rng.integers(n, size=9)] = [np.nan, np.inf, -np.inf, 0.0, -0.0, np.nan, -0.0, 3e38, -3e38]
    return x


ROWS = {
    "whole range": lambda rng, n: rng.integers(INT32.min, INT32.max, n, np.int32, endpoint=True),
    "long integers": lambda rng, n: rng.integers(INT64.min, INT64.max, n, np.int64, endpoint=True),
    "unsigned": lambda rng, n: rng.integers(0, 2**32, n, np.uint32),
    "few values": lambda rng, n: rng.integers(0, 1000, n, np.int32),
    "one value": lambda rng, n: np.full(n, -3, np.int32),
    "two values": lambda rng, n: rng.integers(0, 2, n).astype(np.float32),
    "ascending": lambda rng, n: np.arange(n, dtype=np.int32),
    "descending": lambda rng, n: np.arange(n, dtype=np.float32)[::-1].copy(),
    "mostly zeros": lambda rng, n: np.maximum(rng.standard_normal(n, np.float32) - 1, 0),
    "one apart": lambda rng, n: np.where(np.arange(n) == n // 3, INT32.min, INT32.max).astype(np.int32),
    "normal": lambda rng, n: rng.standard_normal(n, np.float32),
    "orders of magnitude": lambda rng, n: np.exp(9 * rng.standard_normal(n)).astype(np.float32),
    "crowded": crowded,
    "with ends": with_ends,
    "float64": lambda rng, n: rng.standard_normal(n),
    "float16": lambda rng, n: rng.standard_normal(n).astype(np.float16),
}


def row(name: str, n: int, seed: int = 0) -> np.ndarray:
    return ROWS[name](np.random.default_rng(seed), n)


def check(operation: str, x: np.ndarray, descending: bool) -> None:
    g = mg.Graph()
    p = g.placeholder(x.shape, x.dtype)
    result = g.run({p: x}, getattr(g, operation)(p, axis=-1, descending=descending)).numpy()
    # NaN ranks above all numbers; zeros of both signs are equal
    rank = np.unique(x, return_inverse=True)[1].reshape(x.shape)
    order = np.argsort(-rank if descending else rank, axis=-1, kind="stable")
    np.testing.assert_array_equal(result, order if operation == "arg_sort" else np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("descending", [False, True], ids=["smaller first", "greater first"])
@pytest.mark.parametrize("operation", LENGTHS)
@pytest.mark.parametrize("name", ROWS)
def test_sort_of_single_row(name: str, operation: str, descending: bool):
    check(operation, row(name, 2 * LENGTHS[operation] + 11), descending)


@pytest.mark.parametrize("operation", LENGTHS)
@pytest.mark.parametrize("longer", [-1, 0, 1])
def test_sort_around_shortest_bucketed_length_matches_numpy(longer: int, operation: str):
    check(operation, row("normal", LENGTHS[operation] + longer), False)


@pytest.mark.parametrize("operation", LENGTHS)
@pytest.mark.parametrize("name", ["few values", "normal", "one value", "mostly zeros"])
def test_sort_with_one_row_per_thread_matches_numpy(name: str, operation: str):
    check(operation, np.stack([row(name, LENGTHS[operation] + 5, seed) for seed in range(3)]), False)
