"""Products whose first factor is transposed, which oneDNN would read in place, in tiles; and large products, which are
cut so that oneDNN packs the pieces.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.runtime import run_program

DESCRIPTION = mg.Device("cpu").description
TURNED = "AVX2" in DESCRIPTION and "oneDNN" in DESCRIPTION  # as far as AVX2 goes: with AVX-512 oneDNN packs
OURS = "transposed, packed in"
# Columns that fill panels and such that do not; a last block and a last tile of few rows; one chunk of steps, unequal
# ones; several blocks of columns.
SIZES = [(300, 512, 128), (257, 1024, 49), (64, 512, 521), (16, 1536, 130), (1000, 512, 300), (20, 2048, 48)]


def products(steps, rows, columns, build=lambda g, product, other: product):
    """The executable, what to feed in its order, and left^T x right in float64."""
    g, rng = mg.Graph(), np.random.default_rng(0)
    left, right = g.placeholder((steps, rows)), g.placeholder((steps, columns))
    other = g.placeholder((rows, columns))
    feeds = {t: t.shape for t in (left, right, other)}
    made = g.compile(feeds, [build(g, g.transpose(left, (1, 0)) @ right, other)])
    arrays = {t: rng.standard_normal(t.shape).astype(np.float32) for t in made.feeds}
    exact = arrays[left].astype(np.float64).T @ arrays[right].astype(np.float64)
    return made, [arrays[t] for t in made.feeds], exact, arrays[other]


def chosen(made):
    plan = made.plan()
    return OURS in plan or "avx512" in plan  # what oneDNN has where processors know more than is asked for


@pytest.mark.parametrize("steps, rows, columns", SIZES)
def test_products_are_exact_within_rounding(steps, rows, columns):
    made, arrays, exact, _ = products(steps, rows, columns)
    assert not TURNED or chosen(made)
    np.testing.assert_allclose(made.run(arrays)[0].numpy(), exact, rtol=0, atol=4e-7 * steps)


@pytest.mark.parametrize("steps, rows, columns", SIZES)
def test_a_residual_is_added_once(steps, rows, columns):
    """A momentum's: other stays what it was."""
    made, arrays, exact, other = products(steps, rows, columns, lambda g, product, other: product + other)
    assert not TURNED or chosen(made)
    for _ in range(2):
        np.testing.assert_allclose(made.run(arrays)[0].numpy(), exact + other, rtol=0, atol=4e-7 * steps)


@pytest.mark.parametrize(
    "end",
    [
        lambda g, product, other: g.relu(product),
        lambda g, product, other: product + g.constant(np.linspace(-1, 1, product.shape[1], dtype=np.float32)),
    ],
)
def test_other_ends_are_another_kernels(end):
    assert OURS not in products(300, 512, 128, end)[0].plan()


@pytest.mark.parametrize("steps, rows, columns", [(15, 512, 128), (300, 500, 128), (300, 512, 120), (300, 1024, 40)])
def test_other_sizes_are_another_kernels(steps, rows, columns):
    made, arrays, exact, _ = products(steps, rows, columns)
    assert OURS not in made.plan()
    np.testing.assert_allclose(made.run(arrays)[0].numpy(), exact, rtol=0, atol=4e-7 * steps)


def test_nan_and_infinity_stay_in_their_row_and_column():
    made, arrays, exact, _ = products(300, 512, 130)
    arrays[0][299, 511], arrays[1][1, 129] = np.nan, np.inf
    got = made.run(arrays)[0].numpy()
    assert np.isnan(got[511]).all() and np.isinf(got[:511, 129]).all()
    np.testing.assert_allclose(got[:511, :129], exact[:511, :129], rtol=0, atol=1.2e-4)


PROGRAM = """
import hashlib, numpy as np, mpsgraph as mg
g, rng = mg.Graph(), np.random.default_rng(0)
a, b = g.placeholder((700, 1024)), g.placeholder((700, 200))
executable = g.compile({a: a.shape, b: b.shape}, [g.transpose(a, (1, 0)) @ b])
feeds = [rng.standard_normal(t.shape).astype(np.float32) for t in executable.feeds]
print({hashlib.sha256(executable.run(feeds)[0].numpy().tobytes()).hexdigest() for _ in range(30)})
"""


@pytest.mark.skipif(not TURNED, reason="oneDNN's product, which is cut by the number of threads")
def test_the_same_bits_with_any_number_of_threads():
    runs = [run_program(PROGRAM, OMP_NUM_THREADS=str(threads), ONEDNN_MAX_CPU_ISA="AVX2") for threads in (1, 2, 3, 7)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert len({run.stdout for run in runs}) == 1 and runs[0].stdout.count(",") == 0


CUTS = """
import numpy as np, mpsgraph as mg
for rows, columns, steps in SIZES:
    g, rng = mg.Graph(), np.random.default_rng(0)
    a, b = g.placeholder((rows, steps)), g.placeholder((steps, columns))
    executable = g.compile({a: a.shape, b: b.shape}, [a @ b])
    feeds = {t: rng.integers(-4, 4, t.shape).astype(np.float32) for t in (a, b)}  # every order of sums is exact
    right = (executable.run([feeds[t] for t in executable.feeds])[0].numpy() == feeds[a] @ feeds[b]).all()
    blocks = executable.plan().split(" blocks")[0].split()[-1] if " blocks" in executable.plan() else 1
    print(blocks, right)
"""


@pytest.mark.skipif(not TURNED, reason="how oneDNN's products without AVX-512 are cut")
@pytest.mark.parametrize(
    "threads, cuts",
    [
        # Of 512 x 1024; of 1001 x 500; too small to be packed: columns. Of three threads 1024 x 1024 is too small, too.
        (2, [((1024, 1024, 300), 2), ((2001, 1999, 70), 8), ((512, 512, 512), 8)]),
        (3, [((1024, 1024, 300), 16), ((2001, 1999, 70), 12)]),
        (1, [((1024, 1024, 300), 1)]),
    ],
)
def test_large_products_are_cut_so_that_oneDNN_packs(threads, cuts):
    program = CUTS.replace("SIZES", repr([sizes for sizes, _ in cuts]))
    done = run_program(program, OMP_NUM_THREADS=str(threads), ONEDNN_MAX_CPU_ISA="AVX2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [f"{blocks} True" for _, blocks in cuts]
