"""Test tiled matmuls whose operands are packed once, packed in every run, or read in place."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import HAS_VECTORS
from harness.runtime import run_program

# Full and partial tiles in rows and columns, a few rows, which read whole panels in place, and an inner size of 1.
SIZES = [(2, 64, 64), (7, 33, 50), (12, 100, 37), (13, 64, 16), (61, 70, 49), (64, 1, 15), (5, 40, 7), (301, 33, 30)]


def product(shape_a, shape_b, *, constant=False, transposed=False, end=lambda g, y: y):
    """Return an executable, its feeds, and a @ b in float64."""
    g, rng = mg.Graph(), np.random.default_rng(0)
    one, two = (rng.standard_normal(shape).astype(np.float32) for shape in (shape_a, shape_b))
    stored = np.ascontiguousarray(np.swapaxes(two, -1, -2)) if transposed else two
    a = g.placeholder(shape_a)
    b = g.constant(stored) if constant else g.placeholder(stored.shape)
    axes = [*range(two.ndim - 2), two.ndim - 1, two.ndim - 2]
    y = end(g, a @ (g.transpose(b, axes) if transposed else b))
    feeds = {a: one} if constant else {a: one, b: stored}
    made = g.compile({t: array.shape for t, array in feeds.items()}, [y])
    return made, [feeds[t] for t in made.feeds], one.astype(np.float64) @ two.astype(np.float64)


def is_tiled(made):
    """Return whether the matmul is tiled, or large enough for the packed kernel."""
    plan = made.plan()
    return "tiled matmul" in plan or ": packed: " in plan


@pytest.mark.parametrize("rows, steps, columns", SIZES)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_tiled_matmul_matches_float64(rows, steps, columns, constant, transposed):
    made, feeds, exact = product((rows, steps), (steps, columns), constant=constant, transposed=transposed)
    fits = constant or not transposed or rows >= 12
    assert not HAS_VECTORS or is_tiled(made) or not fits
    assert fits or "tiled matmul" not in made.plan()
    for _ in range(2):
        np.testing.assert_allclose(made.run(feeds)[0].numpy(), exact, rtol=0, atol=1e-6 * steps)


@pytest.mark.parametrize(
    "a, b", [((3, 7, 5), (3, 5, 11)), ((2, 3, 14, 20), (3, 20, 17)), ((4, 6, 9), (9, 33)), ((1, 15, 8), (5, 8, 16))]
)
@pytest.mark.parametrize("constant", [True, False])
def test_batches_broadcast(a, b, constant):
    made, feeds, exact = product(a, b, constant=constant)
    assert not HAS_VECTORS or is_tiled(made)
    np.testing.assert_allclose(made.run(feeds)[0].numpy(), exact, rtol=0, atol=2e-5)


@pytest.mark.parametrize("rows, columns", [(9, 40), (40, 40), (40, 32)])
@pytest.mark.parametrize("constant", [True, False])
def test_tiled_matmul_fuses_bias_residual_and_relu(rows, columns, constant):
    bias = np.linspace(-3, 3, columns, dtype=np.float32)
    other = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float32)

    def end(g, y):
        return g.relu(y + g.constant(bias) + g.constant(other))

    made, feeds, exact = product((rows, 24), (24, columns), constant=constant, end=end)
    assert not HAS_VECTORS or is_tiled(made)
    wanted = np.maximum(exact + bias + other, 0)
    np.testing.assert_allclose(made.run(feeds)[0].numpy(), wanted, rtol=0, atol=3e-5)


@pytest.mark.parametrize("rows", [30, 200, 1500])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tiled_half_precision_constants_are_readable_by_other_kernels(rows, dtype):
    """A kernel that packs a constant promises not to read the original; one that passes the matmul on to another kernel
    must not promise that.
    """
    g, rng = mg.Graph(), np.random.default_rng(0)
    weights = rng.integers(-4, 5, (34, 60)).astype(np.float32)
    a = g.placeholder((rows, 34), dtype)
    y = g.cast(a @ g.cast(g.constant(weights), dtype), mg.float32)
    given = rng.integers(-4, 5, (rows, 34)).astype(np.float32)  # all sums are exact
    cast = mg.Graph()
    x = cast.placeholder(given.shape)
    halves = cast.run({x: given}, cast.cast(x, dtype))
    np.testing.assert_allclose(g.run({a: halves}, y).numpy(), given @ weights, rtol=2**-8)


def test_nan_and_inf_affect_only_their_row_and_column():
    made, feeds, exact = product((20, 30), (30, 35))
    feeds[0][19, 29], feeds[1][0, 34] = np.nan, np.inf
    got = made.run(feeds)[0].numpy()
    assert np.isnan(got[19]).all() and np.isinf(got[:19, 34]).all()
    np.testing.assert_allclose(got[:19, :34], exact[:19, :34], rtol=0, atol=3e-5)


@pytest.mark.skipif(not HAS_VECTORS, reason="requires vectors")
@pytest.mark.parametrize(
    "rows, steps, columns, constant",
    [
        (256, 256, 256, False),
        (128, 256, 128, False),
        (200, 600, 600, True),
        (1100, 300, 1200, True),
        (8, 600, 600, True),
    ],
)
def test_unsupported_sizes_do_not_use_tiled_matmul(rows, steps, columns, constant):
    made, feeds, exact = product((rows, steps), (steps, columns), constant=constant)
    assert "tiled matmul" not in made.plan()
    np.testing.assert_allclose(made.run(feeds)[0].numpy(), exact, rtol=0, atol=1e-6 * steps)


PROGRAM = """
import hashlib, numpy as np, mpsgraph as mg
g, rng = mg.Graph(), np.random.default_rng(0)
a = g.placeholder((60, 300))
w = rng.standard_normal((300, 700)).astype(np.float32)
executable = g.compile({a: a.shape}, [a @ g.constant(w)])
assert "tiled matmul" in executable.plan()
feed = [rng.standard_normal(a.shape).astype(np.float32)]
print({hashlib.sha256(executable.run(feed)[0].numpy().tobytes()).hexdigest() for _ in range(30)})
"""


@pytest.mark.skipif(not HAS_VECTORS, reason="requires vectors")
def test_tiled_matmul_does_not_depend_on_thread_count():
    runs = [run_program(PROGRAM, OMP_NUM_THREADS=str(threads)) for threads in (1, 2, 3, 7)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert len({run.stdout for run in runs}) == 1 and runs[0].stdout.count(",") == 0
