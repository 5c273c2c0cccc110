"""Test float32 matmuls with packed operands, and large matmuls that are split so that oneDNN packs the pieces."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.runtime import run_program

DESCRIPTION = mg.Device("cpu").description
WITHOUT_AVX512 = "AVX2" in DESCRIPTION and "oneDNN" in DESCRIPTION  # with AVX-512, oneDNN has other kernels
OURS = "packed in"
# Transposed, inner size, rows, columns. The sizes cover full and partial panels, a last block and a last tile with few
# rows, one and several unequal chunks of the inner dimension, and several column blocks.
SIZES = [
    (True, 300, 512, 128),
    (True, 257, 1024, 49),
    (True, 64, 512, 521),
    (True, 16, 1536, 130),
    (True, 1000, 512, 300),
    (True, 20, 2048, 48),
    (False, 300, 128, 512),
    (False, 16, 64, 512),
    (False, 257, 65, 1024),
    (False, 1100, 9, 2048),
    (False, 600, 215, 1536),
]
ENDS = {
    "nothing": lambda g, product, other: product,
    "residual": lambda g, product, other: product + other,
    "relu": lambda g, product, other: g.relu(product),
    "bias": lambda g, product, other: product + bias(g, product),
    "bias, residual and relu": lambda g, product, other: g.relu(product + bias(g, product) + other),
}


def bias(g, product):
    return g.constant(np.linspace(-20, 20, product.shape[1], dtype=np.float32))


def programs(transposed, steps, rows, columns, end="nothing"):
    """Compile with fast and with reference kernels; return both executables and feeds."""
    made = []
    for reference in (False, True):
        g = mg.Graph()
        left = g.placeholder((steps, rows) if transposed else (rows, steps))
        right, other = g.placeholder((steps, columns)), g.placeholder((rows, columns))
        product = (g.transpose(left, (1, 0)) if transposed else left) @ right
        options = mg.CompilationDescriptor(reference_kernels=reference)
        feeds = {t: t.shape for t in (left, right, other)}
        made.append(g.compile(feeds, [ENDS[end](g, product, other)], options=options))
    rng = np.random.default_rng(0)
    return made, [rng.standard_normal(t.shape).astype(np.float32) for t in made[0].feeds]


def assert_they_agree(made, arrays, steps):
    ours, theirs = (executable.run(arrays)[0].numpy().copy() for executable in made)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=4e-7 * steps)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("transposed, steps, rows, columns", SIZES)
def test_packed_matmul_matches_reference(transposed, steps, rows, columns, end):
    made, arrays = programs(transposed, steps, rows, columns, end)
    assert (OURS in made[0].plan()) == WITHOUT_AVX512 or "avx512" in made[0].plan()
    assert ("transposed, packed" in made[0].plan()) <= transposed
    for _ in range(2):  # the residual must be added once and not modified
        assert_they_agree(made, arrays, steps)


@pytest.mark.parametrize(
    "transposed, steps, rows, columns",
    [
        (True, 15, 512, 128),
        (True, 300, 500, 128),
        (True, 300, 512, 63),
        (True, 300, 1024, 40),
        (False, 300, 63, 512),
        (False, 300, 7, 1024),
        (False, 300, 100, 1000),
        (False, 20, 1100, 1024),
    ],
)
def test_unsupported_sizes_do_not_use_packed_matmul(transposed, steps, rows, columns):
    made, arrays = programs(transposed, steps, rows, columns)
    assert OURS not in made[0].plan()
    assert_they_agree(made, arrays, steps)


@pytest.mark.parametrize("transposed", [True, False])
def test_nan_and_inf_affect_only_their_row_and_column(transposed):
    rows, columns = (512, 130) if transposed else (130, 512)
    made, arrays = programs(transposed, 300, rows, columns, "relu")
    arrays[0][(299, 77) if transposed else (77, 299)], arrays[1][1, 129] = np.nan, np.inf
    ours, theirs = (executable.run(arrays)[0].numpy().copy() for executable in made)
    assert np.isnan(ours[77]).all() and np.isin(np.delete(ours[:, 129], 77), [0, np.inf]).all()
    for axis, at in ((0, 77), (1, 129)):
        ours, theirs = np.delete(ours, at, axis), np.delete(theirs, at, axis)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1.2e-4)


PROGRAM = """
import hashlib, numpy as np, mpsgraph as mg
for rows, columns, transposed in ((1024, 200, True), (200, 1024, False)):
    g, rng = mg.Graph(), np.random.default_rng(0)
    a, b = g.placeholder((700, rows) if transposed else (rows, 700)), g.placeholder((700, columns))
    executable = g.compile({a: a.shape, b: b.shape}, [(g.transpose(a, (1, 0)) if transposed else a) @ b])
    feeds = [rng.standard_normal(t.shape).astype(np.float32) for t in executable.feeds]
    print(len({executable.run(feeds)[0].numpy().tobytes() for _ in range(30)}))
    print(hashlib.sha256(executable.run(feeds)[0].numpy().tobytes()).hexdigest())
"""


@pytest.mark.skipif(not WITHOUT_AVX512, reason="requires oneDNN without AVX-512, which splits matmuls by thread count")
def test_packed_matmul_does_not_depend_on_thread_count():
    runs = [run_program(PROGRAM, OMP_NUM_THREADS=str(threads), ONEDNN_MAX_CPU_ISA="AVX2") for threads in (1, 2, 3, 7)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert len({run.stdout for run in runs}) == 1 and runs[0].stdout.split()[::2] == ["1", "1"]


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


@pytest.mark.skipif(not WITHOUT_AVX512, reason="requires oneDNN without AVX-512")
@pytest.mark.parametrize(
    "threads, cuts",
    [
        # Pieces of 512 x 1024 and of 1001 x 500; 500 x 500 is too small to be packed, so its columns are split. With
        # three threads 1000 x 1000 is too small as well.
        (2, [((1024, 1024, 300), 2), ((2001, 1999, 70), 8), ((500, 500, 500), 8)]),
        (3, [((1000, 1000, 300), 12), ((2001, 1999, 70), 12)]),
        (1, [((1024, 1024, 300), 1)]),
    ],
)
def test_large_matmuls_are_split_so_that_onednn_packs_operands(threads, cuts):
    program = CUTS.replace("SIZES", repr([sizes for sizes, _ in cuts]))
    done = run_program(program, OMP_NUM_THREADS=str(threads), ONEDNN_MAX_CPU_ISA="AVX2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [f"{blocks} True" for _, blocks in cuts]
