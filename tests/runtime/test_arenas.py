"""Test that executables share arenas.

Together, executables need no more memory than the largest executable. The memory is released with the last executable.
"""

import gc
import threading

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import _core

WIDTH = 1024
WEIGHTS = np.random.default_rng(0).standard_normal((2, WIDTH, WIDTH)).astype(np.float32) / 32


@pytest.fixture(autouse=True)
def nothing_of_other_tests():
    """Collect garbage, because an executable of another test could otherwise lend its larger arena to a run here."""
    gc.collect()


def layers() -> tuple[mg.Graph, mg.Tensor, mg.Tensor]:
    """Return a graph of two layers for any number of rows, whose intermediate results take 1024 numbers per row."""
    g = mg.Graph()
    x = g.placeholder((-1, WIDTH), name="x")
    first, second = (g.constant(weights) for weights in WEIGHTS)
    return g, x, g.mean(g.relu(g.relu(x @ first) @ second), axes=1)


def wanted(rows: np.ndarray) -> np.ndarray:
    first, second = WEIGHTS
    return np.maximum(np.maximum(rows @ first, 0) @ second, 0).mean(1, keepdims=True)


def in_use() -> int:
    gc.collect()
    return _core.buffer_statistics()["live_bytes"]


def test_executables_share_the_largest_arena():
    g, x, y = layers()
    largest = g.compile({x: (512, WIDTH)}, [y])
    rows = np.random.default_rng(1).standard_normal((512, WIDTH)).astype(np.float32)
    held = [largest]
    largest.run([rows])
    with_largest = in_use()
    for n in range(16, 512, 16):
        held.append(g.compile({x: (n, WIDTH)}, [y]))
        np.testing.assert_allclose(held[-1].run([rows[:n]])[0].numpy(), wanted(rows[:n]), rtol=1e-4, atol=1e-5)
    assert in_use() < with_largest + 2**20, "31 executables that need 4 MB each must not allocate arenas"


def test_concurrent_runs_use_separate_arenas():
    g, x, y = layers()
    sizes = (96, 160, 256)
    executables = [g.compile({x: (n, WIDTH)}, [y]) for n in sizes]
    rows = np.random.default_rng(2).standard_normal((max(sizes), WIDTH)).astype(np.float32)
    expected = [executable.run([rows[:n]])[0].numpy().copy() for n, executable in zip(sizes, executables, strict=True)]
    failures: list[str] = []

    def work(i: int) -> None:
        queue = mg.CommandQueue()
        for _ in range(20):
            run = executables[i].run_async([rows[: sizes[i]]], queue=queue)
            run.wait()
            found = run.results[0].numpy()
            if not np.array_equal(found, expected[i]):
                failures.append(f"{sizes[i]} rows")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(sizes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_arena_is_released_with_the_last_executable_that_needs_it():
    small, x, y = layers()
    kept = small.compile({x: (16, WIDTH)}, [y])
    ones = np.ones((4096, WIDTH), np.float32)
    kept.run([ones[:16]])
    before = in_use()
    large, x, y = layers()
    large.compile({x: (4096, WIDTH)}, [y]).run([ones])
    assert in_use() > before + 2**24
    del large, x, y
    assert in_use() < before + 2**20
    np.testing.assert_allclose(kept.run([ones[:16]])[0].numpy(), wanted(ones[:16]), rtol=1e-4)


def test_unused_arena_is_reused_by_the_next_large_executable():
    g, x, y = layers()
    rows = np.ones((512, WIDTH), np.float32)
    kept = g.compile({x: (300, WIDTH)}, [y])  # needs more than half of the shared arena, which is therefore kept
    held = []
    for _ in range(4):
        large = g.compile({x: (512, WIDTH)}, [y])
        large.run([rows])
        g.clear_cache()
        del large
        kept.run([rows[:300]])
        held.append(in_use())
    assert held[-1] < held[0] + 2**20, held


def test_executable_cache_counts_a_shared_arena_once():
    g, x, y = layers()
    for rows in (400, 500, 600):
        g.run({x: np.ones((rows, WIDTH), np.float32)}, y)
    of_arena = 600 * WIDTH * 4
    three = g.cache.bytes
    g.run({x: np.ones((450, WIDTH), np.float32)}, y)
    assert g.cache.bytes - three < of_arena / 2, "another executable adds only its own memory"
    g.set_cache_limits(64, 3 * of_arena + 4 * WEIGHTS.nbytes)
    g.run({x: np.ones((350, WIDTH), np.float32)}, y)
    assert g.cache.count == 5, "the limit would not hold five arenas"
