"""Test how matmuls are divided into blocks for oneDNN: the number of blocks, and that every element is covered."""

import mpsgraph as mg
import pytest
from harness.runtime import run_program

DESCRIPTION = mg.Device("cpu").description
# otherwise small matmuls are tiled, or split to be packed
AVX512 = "AVX-512" in DESCRIPTION and "oneDNN" in DESCRIPTION
# Rows, inner size, columns: blocks of the usual size, one block of rows per thread, blocks of the smallest size, a
# smaller last block, and a single block.
PROGRAM = """
    import re
    import mpsgraph as mg
    import numpy as np

    for rows, steps, columns in [
        (512, 512, 512), (256, 512, 128), (64, 512, 128), (40, 700, 100), (72, 512, 64), (520, 128, 67), (23, 900, 63),
        (8, 16, 8),
    ]:
        rng = np.random.default_rng(0)
        one, two = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, steps), (steps, columns)))
        for turned in ("", "a", "b"):
            g = mg.Graph()
            stored = [np.ascontiguousarray(x.T) if name == turned else x for name, x in (("a", one), ("b", two))]
            a, b = (g.placeholder(x.shape) for x in stored)
            y = (g.transpose(a, (1, 0)) if turned == "a" else a) @ (g.transpose(b, (1, 0)) if turned == "b" else b)
            made = g.compile({a: a.shape, b: b.shape}, [y])
            result = made.run([dict(zip((a, b), stored))[t] for t in made.feeds])[0].numpy()
            np.testing.assert_allclose(result, one.astype(np.float64) @ two, rtol=0, atol=4e-7 * steps)
            blocks = re.search(r"(\\d+) blocks", made.plan())
            print(blocks[1] if blocks else 1)
"""


# Block counts by number of threads, for each of the sizes above; with two threads, counts are even.
BLOCKS = {1: [1] * 8, 2: [8, 2, 2, 1, 2, 2, 1, 1], 3: [12, 3, 4, 1, 3, 3, 1, 1], 4: [16, 4, 4, 1, 3, 4, 1, 1]}


@pytest.mark.parametrize("threads", BLOCKS)
def test_matmul_blocks_cover_result_and_occupy_all_threads(threads):
    done = run_program(PROGRAM, OMP_NUM_THREADS=str(threads))
    assert done.returncode == 0, done.stderr
    found = [int(word) for word in done.stdout.split()]
    assert len(found) == 24
    assert not AVX512 or found == [count for count in BLOCKS[threads] for _ in range(3)]


# Transposed operand, rows, columns. Integers make the sums exact in any order.
LARGE = """
    import re
    import mpsgraph as mg
    import numpy as np

    for turned, rows, columns in SIZES:
        rng = np.random.default_rng(0)
        one, two = (rng.integers(-4, 4, shape).astype(np.float32) for shape in ((rows, 64), (64, columns)))
        g = mg.Graph()
        stored = [np.ascontiguousarray(x.T) if name == turned else x for name, x in (("a", one), ("b", two))]
        a, b = (g.placeholder(x.shape) for x in stored)
        bias = np.arange(columns, dtype=np.float32)
        y = (g.transpose(a, (1, 0)) if turned == "a" else a) @ (g.transpose(b, (1, 0)) if turned == "b" else b)
        made = g.compile({a: a.shape, b: b.shape}, [y + g.constant(bias)])
        result = made.run([dict(zip((a, b), stored))[t] for t in made.feeds])[0].numpy()
        blocks = "tiles" if "packed in" in made.plan() else re.search(r"(\\d+) blocks", made.plan() + " 1 blocks")[1]
        print(blocks, (result == one @ two + bias).all())
"""
CUTS = {
    2: {
        ("a", 2048, 1024): "2",  # 1,024 rows each, packed
        ("a", 3072, 768): "2",
        ("a", 2048, 3072): "6",  # 1,024 rows and columns each
        ("a", 2048, 512): "tiles",  # too few columns for packing, and rows 8 KB apart
        ("a", 2048, 250): "2",  # more pieces would have too little work each
        ("a", 2000, 512): "6",
        ("a", 1024, 512): "4",
        ("b", 2048, 1024): "8",
        ("", 4096, 1000): "8",
    },
    3: {("a", 3072, 1024): "3", ("a", 2048, 1024): "12", ("a", 2048, 512): "tiles", ("", 2048, 768): "12"},
    1: {("a", 2048, 1024): "1"},
}


@pytest.mark.parametrize("threads", CUTS)
def test_large_matmuls_are_packed_or_minimize_reads(threads):
    done = run_program(LARGE.replace("SIZES", repr(list(CUTS[threads]))), OMP_NUM_THREADS=str(threads))
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[1::2] == ["True"] * len(CUTS[threads])
    assert not AVX512 or words[::2] == list(CUTS[threads].values())
