"""Test matmuls of a few rows with a large matrix, whose rows are divided among the threads."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import HAS_VECTORS
from harness.runtime import run_program

FEW, TURNED = "skinny matmul, in", "skinny matmul, transposed"


def programs(rows, inputs, outputs, build, transposed=False):
    """Compile build(graph, product, other) with fast and with reference kernels; return both executables and feeds.

    The product is x @ variable, or x @ transpose(variable).
    """
    made = []
    for reference in (False, True):
        g, rng = mg.Graph(), np.random.default_rng(0)
        x = g.placeholder((*np.atleast_1d(rows), inputs))
        shape = (outputs, inputs) if transposed else (inputs, outputs)
        w = g.variable((rng.standard_normal(shape) / np.sqrt(inputs)).astype(np.float32))
        other = g.placeholder((*np.atleast_1d(rows), outputs))
        feeds = {x: x.shape, other: other.shape}
        options = mg.CompilationDescriptor(reference_kernels=reference)
        product = x @ g.transpose(w, (1, 0)) if transposed else x @ w
        made.append(g.compile(feeds, [build(g, product, other)], options=options))
    return made, [rng.standard_normal(t.shape).astype(np.float32) for t in made[0].feeds]


def assert_they_agree(made, arrays):
    ours, theirs = (executable.run(arrays)[0].numpy().copy() for executable in made)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=3e-6 * np.nanmax(np.abs(theirs)))


ENDS = {
    "nothing": lambda g, product, other: product,
    "bias and relu": lambda g, product, other: g.relu(
        product + g.constant(np.linspace(-1, 1, product.shape[-1], dtype=np.float32))
    ),
    "residual": lambda g, product, other: product + other,
    "residual and relu": lambda g, product, other: g.relu(product + other),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("rows, inputs, outputs", [(32, 784, 512), (8, 257, 1024), (13, 1000, 320), (25, 4096, 256)])
def test_skinny_matmul_matches_reference(rows, inputs, outputs, end):
    made, arrays = programs(rows, inputs, outputs, ENDS[end])
    assert (FEW in made[0].plan()) == HAS_VECTORS and FEW not in made[1].plan()
    assert_they_agree(made, arrays)


def test_skinny_matmul_kernel_accepts_rank_3_input():
    made, arrays = programs((4, 7), 600, 800, ENDS["residual"])
    assert (FEW in made[0].plan()) == HAS_VECTORS
    assert_they_agree(made, arrays)


@pytest.mark.parametrize(
    "rows, inputs, outputs", [(7, 784, 512), (33, 784, 512), (32, 255, 2048), (32, 784, 500), (32, 2048, 1024)]
)
def test_unsupported_sizes_do_not_use_skinny_matmul(rows, inputs, outputs):
    made, arrays = programs(rows, inputs, outputs, ENDS["nothing"])
    assert FEW not in made[0].plan()
    assert_they_agree(made, arrays)


@pytest.mark.parametrize("rows, inputs, outputs", [(32, 512, 512), (32, 300, 1000), (32, 257, 1021), (32, 2048, 256)])
def test_skinny_matmul_with_transposed_matrix_matches_reference(rows, inputs, outputs):
    """Sizes are whole blocks, or end within a vector or a block of the inner dimension."""
    made, arrays = programs(rows, inputs, outputs, ENDS["nothing"], transposed=True)
    assert (TURNED in made[0].plan()) == HAS_VECTORS and TURNED not in made[1].plan()
    assert_they_agree(made, arrays)


def test_unsupported_transposed_sizes_do_not_use_skinny_matmul():
    for rows, inputs, outputs, end in [
        (33, 512, 512, "nothing"),
        (30, 512, 512, "nothing"),
        (32, 512, 512, "residual"),
        (32, 512, 512, "bias and relu"),
        (32, 255, 2048, "nothing"),
        (32, 2048, 1024, "nothing"),
    ]:
        made, arrays = programs(rows, inputs, outputs, ENDS[end], transposed=True)
        assert TURNED not in made[0].plan()
        assert_they_agree(made, arrays)


@pytest.mark.parametrize("transposed", [False, True])
def test_nan_and_inf_in_skinny_matmul_propagate_as_in_reference(transposed):
    made, arrays = programs(32, 784, 512, ENDS["nothing" if transposed else "bias and relu"], transposed)
    assert ((TURNED if transposed else FEW) in made[0].plan()) == HAS_VECTORS
    arrays[0][3, 5], arrays[0][30, 700] = np.nan, np.inf
    ours, theirs = (executable.run(arrays)[0].numpy() for executable in made)
    assert np.isnan(ours[3]).all() and np.isnan(theirs[3]).all()
    assert (np.isinf(ours[30]) == np.isinf(theirs[30])).all() and np.isinf(ours[30]).any()
    assert np.isfinite(np.delete(ours, [3, 30], axis=0)).all()


PROGRAM = """
import os, numpy as np, mpsgraph as mg
g, rng = mg.Graph(), np.random.default_rng(0)
turned = "TURNED" in os.environ
x, shape = g.placeholder((32 if turned else 30, 1100)), (416, 1100) if turned else (1100, 416)
w = g.variable(rng.integers(-8, 8, shape).astype(np.float32))
executable = g.compile({x: x.shape}, [x @ g.transpose(w, (1, 0)) if turned else x @ w])
several = [rng.integers(-8, 8, x.shape).astype(np.float32) for _ in range(3)]
matrix = g.variable_value(w)
expected = [fed @ (matrix.T if turned else matrix) for fed in several]  # small integers: every order of sums is exact
right = True
for i in range(300):  # others than before: a sum that is not there yet is a wrong one
    right &= executable.run([several[i % 3]])[0].numpy().tobytes() == expected[i % 3].tobytes()
print(executable.plan().split("skinny matmul, in ")[-1].split()[0], right)
"""


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_skinny_matmul_uses_one_part_per_thread(threads):
    done = run_program(PROGRAM, OMP_NUM_THREADS=str(threads))
    assert done.returncode == 0, done.stderr
    parts, right = done.stdout.split()
    assert right == "True" and (not HAS_VECTORS or parts == str(threads))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_transposed_skinny_matmul_is_correct_with_any_thread_count(threads):
    done = run_program(PROGRAM, OMP_NUM_THREADS=str(threads), TURNED="yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "True"


def test_skinny_matmul_results_are_bitwise_reproducible():
    made, arrays = programs(32, 784, 512, ENDS["bias and relu"])
    assert len({made[0].run(arrays)[0].numpy().tobytes() for _ in range(50)}) == 1
