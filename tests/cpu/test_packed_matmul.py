"""Test matmuls with packed operands: transposes, batches, epilogues, constant operands, and any number of threads."""

import os
import subprocess
import sys

import mpsgraph as mg
import numpy as np
import pytest
from harness.runtime import run_program

OURS = "packed matmul"
# Whether each operand is transposed.
TURNS = {"": (False, False), "a": (True, False), "b": (False, True), "ab": (True, True)}
# Rows, inner size, columns: whole and partial tiles and panels, one and several chunks of unequal length, several
# blocks, and an inner size of 1.
SIZES = [(96, 16, 96), (97, 1, 130), (100, 300, 257), (128, 257, 512), (300, 1000, 97), (601, 64, 200)]
ENDS = {
    "nothing": lambda g, product, other: product,
    "residual": lambda g, product, other: product + other,
    "relu": lambda g, product, other: g.relu(product),
    "bias": lambda g, product, other: product + bias(g, product),
    "bias, residual and relu": lambda g, product, other: g.relu(product + bias(g, product) + other),
}


def bias(g, product):
    return g.constant(np.linspace(-20, 20, product.shape[-1], dtype=np.float32))


def turned(array, transposed):
    return np.ascontiguousarray(np.swapaxes(array, -1, -2)) if transposed else array


def matrix(g, tensor, transposed):
    axes = list(range(len(tensor.shape)))
    return g.transpose(tensor, [*axes[:-2], axes[-1], axes[-2]]) if transposed else tensor


def programs(left, right, turn="", end="nothing", constant=False, dtype="float32"):
    """Compile with fast and with reference kernels; return both executables and feeds."""
    rng = np.random.default_rng(0)
    values = [
        turned(rng.standard_normal(shape).astype(dtype), t) for shape, t in zip((left, right), TURNS[turn], strict=True)
    ]
    made, feeds = [], []
    for reference in (False, True):
        g = mg.Graph()
        a = g.placeholder(values[0].shape, dtype)
        b = g.constant(values[1]) if constant else g.placeholder(values[1].shape, dtype)
        product = matrix(g, a, TURNS[turn][0]) @ matrix(g, b, TURNS[turn][1])
        other = g.placeholder(product.shape, dtype)
        arrays = {a: values[0], b: values[1], other: np.full(product.shape, 3, dtype)}
        if constant:
            del arrays[b]
        options = mg.CompilationDescriptor(reference_kernels=reference)
        result = ENDS[end](g, product, other)
        made.append(g.compile({t: array.shape for t, array in arrays.items()}, [result], options=options))
        feeds = [arrays[t] for t in made[0].feeds] if not feeds else feeds
    return made, feeds


def assert_they_agree(made, feeds, steps, tolerance=4e-7):
    ours, theirs = (executable.run(feeds)[0].numpy().copy() for executable in made)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=max(tolerance * steps, 1e-5))


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("rows, steps, columns", SIZES)
def test_packed_matmul_matches_reference(rows, steps, columns, turn):
    made, feeds = programs((rows, steps), (steps, columns), turn)
    assert OURS in made[0].plan()
    assert_they_agree(made, feeds, steps)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("constant", [False, True])
def test_epilogue_is_applied_once(turn, end, constant):
    made, feeds = programs((130, 300), (300, 101), turn, end, constant)
    assert OURS in made[0].plan()
    assert ("packed once" in made[0].plan()) == constant
    for _ in range(2):  # the residual must not be modified
        assert_they_agree(made, feeds, 300)


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize(
    "left, right",
    [((3, 97, 70), (3, 70, 96)), ((2, 1, 97, 20), (3, 20, 130)), ((1, 96, 30), (2, 30, 99)), ((4, 50, 9), (9, 100))],
)
def test_batches_broadcast(left, right, turn):
    made, feeds = programs(left, right, turn, "bias")
    assert_they_agree(made, feeds, left[-1])


@pytest.mark.parametrize("rows, columns", [(5, 8), (33, 70), (300, 200)])
def test_float64(rows, columns):
    made, feeds = programs((rows, 500), (500, columns), dtype="float64")
    assert OURS in made[0].plan()
    assert_they_agree(made, feeds, 500, 1e-13)


def test_large_constants_are_not_packed_once():
    made, feeds = programs((128, 600), (600, 600), constant=True)
    assert OURS in made[0].plan() and "packed once" not in made[0].plan()
    assert_they_agree(made, feeds, 600)


@pytest.mark.parametrize("turn", TURNS)
def test_nan_and_inf_affect_only_their_row_and_column(turn):
    made, feeds = programs((130, 300), (300, 200), turn, "relu")
    of_a = next(i for i, array in enumerate(feeds) if 130 in array.shape and 300 in array.shape)
    of_b = next(i for i, array in enumerate(feeds) if 200 in array.shape and 300 in array.shape)
    feeds[of_a][(299, 77) if TURNS[turn][0] else (77, 299)] = np.nan
    feeds[of_b][(129, 1) if TURNS[turn][1] else (1, 129)] = np.inf
    ours, theirs = (executable.run(feeds)[0].numpy().copy() for executable in made)
    assert np.isnan(ours[77]).all() and np.isin(np.delete(ours[:, 129], 77), [0, np.inf]).all()
    for axis, at in ((0, 77), (1, 129)):
        ours, theirs = np.delete(ours, at, axis), np.delete(theirs, at, axis)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1.2e-4)


PROGRAM = """
import hashlib, numpy as np, mpsgraph as mg
for rows, steps, columns, constant in ((1024, 700, 200, False), (97, 300, 1000, False), (500, 300, 700, True)):
    for turn in ("", "a", "b"):
        g, rng = mg.Graph(), np.random.default_rng(0)
        shapes = (steps, rows) if turn == "a" else (rows, steps), (columns, steps) if turn == "b" else (steps, columns)
        values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        a, b = g.placeholder(values[0].shape), g.constant(values[1]) if constant else g.placeholder(values[1].shape)
        y = (g.transpose(a, (1, 0)) if turn == "a" else a) @ (g.transpose(b, (1, 0)) if turn == "b" else b)
        feeds = {a: values[0]} if constant else {a: values[0], b: values[1]}
        executable = g.compile({t: t.shape for t in feeds}, [y])
        assert "packed matmul" in executable.plan()
        arrays = [feeds[t] for t in executable.feeds]
        np.testing.assert_allclose(executable.run(arrays)[0].numpy(), (values[0].T if turn == "a" else values[0]) @
                                   (values[1].T if turn == "b" else values[1]), rtol=0, atol=3e-4)
        results = {executable.run(arrays)[0].numpy().tobytes() for _ in range(10)}
        print(len(results), hashlib.sha256(results.pop()).hexdigest())
"""


def test_packed_matmul_does_not_depend_on_thread_count():
    runs = [run_program(PROGRAM, OMP_NUM_THREADS=str(threads)) for threads in (1, 2, 3, 7)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert len({run.stdout for run in runs}) == 1
    assert all(line.startswith("1 ") for line in runs[0].stdout.splitlines())


# Several parts of the inner dimension, several parts of the columns, and both, with a last part that is smaller.
PARTS = """
import hashlib, itertools, sys, numpy as np, mpsgraph as mg
sizes = (200, 1700, 900), (70, 300, 4500), (65, 1100, 4500)
cases = [*itertools.product(sizes, ["float32"], ["", "a", "b"]), ((200, 1100, 700), "float64", "")]
for (rows, steps, columns), dtype, turn in cases:
    g, rng = mg.Graph(), np.random.default_rng(0)
    shapes = (steps, rows) if turn == "a" else (rows, steps), (columns, steps) if turn == "b" else (steps, columns)
    values = [rng.standard_normal(shape).astype(dtype) for shape in (*shapes, columns)]
    a, b, bias = (g.placeholder(value.shape, dtype) for value in values)
    y = (g.transpose(a, (1, 0)) if turn == "a" else a) @ (g.transpose(b, (1, 0)) if turn == "b" else b)
    executable = g.compile({t: t.shape for t in (a, b, bias)}, [g.relu(y + bias)])
    print("shared by all threads" in executable.plan(), file=sys.stderr)
    given = dict(zip((a, b, bias), values))
    found = executable.run([given[t] for t in executable.feeds])[0].numpy()
    left, right = values[0].T if turn == "a" else values[0], values[1].T if turn == "b" else values[1]
    expected = np.maximum(left.astype(np.float64) @ right + values[2], 0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-4 if dtype == "float32" else 1e-12)
    print(hashlib.sha256(found.tobytes()).hexdigest())
"""


def test_shared_panels_give_the_same_bits_as_panels_of_each_thread():
    settings = [(4, "off"), (2, "on"), (9, "on")]
    runs = [
        run_program(PARTS, OMP_NUM_THREADS=str(threads), MPSGRAPH_KERNELS=f"shared_panels={value}")
        for threads, value in settings
    ]
    for (_, value), run in zip(settings, runs, strict=True):
        assert run.returncode == 0, run.stderr
        assert set(run.stderr.split()) == {str(value == "on")}
    assert len({run.stdout for run in runs}) == 1


def test_other_tests_pass_with_shared_panels():
    """Epilogues, NaN, batches, and sizes around tiles."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "not shared and not count"],
        env=os.environ | {"OMP_NUM_THREADS": "3", "MPSGRAPH_KERNELS": "shared_panels=on"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 50
