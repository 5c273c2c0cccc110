"""Compare the gradient of gather with numpy's add.at.

The kernel sorts the indices if rows are long, and adds directly if rows are short.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.runtime import run_program

TYPES = ["float32", "float64", "float16", "bfloat16", "int32", "uint8", "complex64"]
ROWS, PICKS = 23, 90


def numbers(shape, dtype):
    """Return small integers, for which all sums are exact, even in bfloat16."""
    x = np.random.default_rng(int(np.prod(shape))).integers(-2, 3, shape)
    return (x + 2).astype(np.uint8) if dtype == "uint8" else x.astype(np.float32 if dtype == "bfloat16" else dtype)


def gradient(incoming, i, shape, dtype, axis=0, batch_dimensions=0):
    g = mg.Graph()
    given, at = g.placeholder(incoming.shape, dtype), g.placeholder(i.shape, i.dtype)
    if dtype == "bfloat16":
        given = g.placeholder(incoming.shape, mg.float32)
    source = g.cast(given, dtype)
    total = g.gather_gradient(source, at, shape, axis=axis, batch_dimensions=batch_dimensions)
    result = g.cast(total, mg.float32) if dtype == "bfloat16" else total
    return g.run({given: incoming, at: i}, result).numpy()


def expected(incoming, i, rows):
    inside = (i >= 0) & (i < rows)
    wanted = np.zeros((rows, *incoming.shape[1:]), incoming.dtype)
    np.add.at(wanted, i[inside], incoming[inside])
    return wanted


def draws(kind, picks=PICKS, rows=ROWS):
    rng = np.random.default_rng(7)
    return {
        "even": rng.integers(0, rows, picks),
        "as words come": np.minimum(rng.zipf(1.3, picks) - 1, rows - 1),
        "one row": np.full(picks, rows - 1),
        "outside": rng.integers(-rows, 2 * rows, picks),
        "none": np.full(picks, -1),
    }[kind]


@pytest.mark.parametrize("kind", ["even", "as words come", "one row", "outside", "none"])
@pytest.mark.parametrize("dtype", TYPES)
def test_gather_gradient_matches_numpy(kind, dtype):
    """The widths are on both sides of the switch to sorted indices and of the block size for long rows."""
    for width in (1, 5, 31, 32, 33, 200, 1023, 1025, 2500):
        for index in (np.int32, np.int64, np.int16):
            i, incoming = draws(kind).astype(index), numbers((PICKS, width), dtype)
            found = gradient(incoming, i, (ROWS, width), dtype)
            np.testing.assert_array_equal(found, expected(incoming, i, ROWS), err_msg=f"width {width}")


@pytest.mark.parametrize("dtype", TYPES)
def test_gather_gradient_of_few_indices_into_many_rows_matches_numpy(dtype):
    """Long runs of zeros are written first; the indexed rows lie between them."""
    i, incoming = draws("even", 12, 900).astype(np.int32), numbers((12, 40), dtype)
    i[:3] = [0, 899, 899]
    np.testing.assert_array_equal(gradient(incoming, i, (900, 40), dtype), expected(incoming, i, 900))


@pytest.mark.parametrize("width", [3, 64])
@pytest.mark.parametrize("outer", [1, 2, 7])
def test_gather_gradient_with_outer_axes_matches_numpy(width, outer):
    """Axes before the gathered one are separate tables, and batch axes have their own indices."""
    i = draws("outside").astype(np.int32)
    incoming = numbers((outer, PICKS, width), "float32")
    found = gradient(incoming, i, (outer, ROWS, width), "float32", axis=1)
    for row in range(outer):
        np.testing.assert_array_equal(found[row], expected(incoming[row], i, ROWS))
    i = np.stack([np.roll(i, k) for k in range(outer)])
    found = gradient(incoming, i, (outer, ROWS, width), "float32", axis=1, batch_dimensions=1)
    for row in range(outer):
        np.testing.assert_array_equal(found[row], expected(incoming[row], i[row], ROWS))


@pytest.mark.parametrize("picks", [0, 1])
def test_gather_gradient_with_zero_or_one_index_matches_numpy(picks):
    i, incoming = np.zeros(picks, np.int32), numbers((picks, 48), "float32")
    np.testing.assert_array_equal(gradient(incoming, i, (ROWS, 48), "float32"), expected(incoming, i, ROWS))
    assert gradient(incoming[:, :0], i, (ROWS, 0), "float32").shape == (ROWS, 0)


PROGRAM = """
import hashlib, numpy as np, mpsgraph as mg
rng = np.random.default_rng(1)
i, x = np.minimum(rng.zipf(1.3, 3000) - 1, 199).astype(np.int32), rng.standard_normal((3000, 1100)).astype(np.float32)
for rows, width in ((200, 1100), (20000, 50), (200, 9)):
    g = mg.Graph()
    incoming, at = g.placeholder((3000, width)), g.placeholder((3000,), mg.int32)
    found = g.run({incoming: x[:, :width], at: i}, g.gather_gradient(incoming, at, (rows, width)))
    wanted = np.zeros((rows, width))
    np.add.at(wanted, i, x[:, :width])
    print(hashlib.sha256(found.numpy().tobytes()).hexdigest(), abs(found.numpy() - wanted).max() < 1e-3)
"""


def test_gather_gradient_does_not_depend_on_thread_count():
    runs = [run_program(PROGRAM, OMP_NUM_THREADS=str(threads)) for threads in (1, 2, 3, 7)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert len({run.stdout for run in runs}) == 1 and runs[0].stdout.split()[1::2] == ["True"] * 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_gather_gradient_accumulates_in_float32(dtype):
    """In half precision, adding 1 to 2048 (float16) or 256 (bfloat16) has no effect; here every 1 must count."""
    for width in (8, 40):
        incoming = np.ones((5001, width), np.float32)
        found = gradient(
            incoming.astype(np.float16) if dtype == "float16" else incoming, np.zeros(5001, np.int32), (2, width), dtype
        )
        wanted = np.float32(np.float16(5001)) if dtype == "float16" else 4992  # the nearest bfloat16
        np.testing.assert_array_equal(found[0].astype(np.float32), np.full(width, wanted))
        assert not found[1].any()
