"""Test float64 matmuls in packed blocks, and the convolutions that use them.

The sizes are around those of tiles, blocks, and chunks of the inner dimension. Batches, thread counts, and every
instruction set are also tested.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import SMALLER_SETS, run_again_with
from harness.runtime import run_program

SIZES = [
    (1, 4, 4, 4), (1, 1, 7, 1), (3, 7, 127, 15), (2, 8, 128, 16), (2, 9, 129, 17), (1, 95, 256, 511),
    (1, 97, 300, 513), (5, 33, 64, 31), (1, 700, 13, 7), (1, 7, 1000, 13), (1, 3, 5, 1100),
    (2, 1, 300, 700), (2, 500, 77, 1), (1, 1, 9, 1), (3, 1, 1, 257),
    (1, 200, 192, 300), (1, 193, 193, 257), (1, 25, 385, 600), (3, 130, 384, 70), (1, 600, 100, 40),
]  # fmt: skip


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def product(a, b):
    g = mg.Graph()
    x, y = g.placeholder(a.shape, a.dtype), g.placeholder(b.shape, b.dtype)
    return g.run({x: a, y: b}, g.matrix_multiplication(x, y)).numpy()


@pytest.mark.parametrize("batch, rows, steps, columns", SIZES)
def test_float64_matmul_errors_are_within_rounding_bound(batch, rows, steps, columns):
    a, b = drawn(batch, rows, steps), drawn(batch, steps, columns)
    bound = np.abs(a) @ np.abs(b) * (steps + 1) * np.finfo(np.float64).eps  # Higham's bound for any summation order
    assert np.all(np.abs(product(a, b) - a.astype(np.longdouble) @ b.astype(np.longdouble)) <= bound)


@pytest.mark.parametrize("a, b", [((3, 7, 5), (5, 11)), ((7, 5), (3, 5, 11)), ((4, 1, 6, 9), (3, 9, 33))])
def test_batches_broadcast(a, b):
    np.testing.assert_allclose(product(drawn(*a), drawn(*b)), drawn(*a) @ drawn(*b), rtol=0, atol=1e-13)


def test_complex_matmul_matches_numpy():
    a, b = drawn(20, 31) + 1j * drawn(31, 20).T, drawn(31, 18) - 1j * drawn(18, 31).T
    np.testing.assert_allclose(product(a, b), a @ b, rtol=0, atol=1e-13)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_float64_convolution_and_input_gradient_match_numpy(layout):
    """With 3x3 taps, patches are longer than a chunk of the inner dimension and do not fill whole panels."""
    x, w, dy = drawn(2, 9, 11, 40), drawn(3, 3, 40, 35), drawn(2, 9, 11, 35)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected, back = np.zeros(dy.shape), np.zeros(padded.shape)
    for r in range(3):
        for c in range(3):
            expected += padded[:, r : r + 9, c : c + 11] @ w[r, c]
            back[:, r : r + 9, c : c + 11] += dy @ w[r, c].T
    order = (0, 3, 1, 2) if layout == "NCHW" else (0, 1, 2, 3)
    g = mg.Graph()
    source, weights, incoming = (g.placeholder(a.shape, a.dtype) for a in (x.transpose(order), w, dy.transpose(order)))
    y = g.convolution2d(source, weights, padding="TF_SAME", data_layout=layout)
    (dx,) = g.gradients(y, [source], incoming).values()
    results = g.run({source: x.transpose(order), weights: w, incoming: dy.transpose(order)}, [y, dx])
    np.testing.assert_allclose(results[y], expected.transpose(order), rtol=0, atol=1e-12)
    np.testing.assert_allclose(results[dx], back[:, 1:-1, 1:-1].transpose(order), rtol=0, atol=1e-12)


PROGRAM = """
    import hashlib
    import mpsgraph as mg, numpy as np

    rng = np.random.default_rng(0)
    for rows, steps, columns in ((150, 270, 90), (40, 300, 700), (8, 2000, 8), (1, 2000, 600), (600, 2000, 1)):
        a, b = rng.standard_normal((rows, steps)), rng.standard_normal((steps, columns))
        g = mg.Graph()
        x, y = g.placeholder(a.shape, a.dtype), g.placeholder(b.shape, b.dtype)
        print(hashlib.sha256(g.run({x: a, y: b}, g.matrix_multiplication(x, y)).numpy().tobytes()).hexdigest())
"""


def test_float64_matmul_does_not_depend_on_thread_count():
    runs = [run_program(PROGRAM, OMP_NUM_THREADS=str(threads)) for threads in (1, 2, 3, 7)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert len({run.stdout for run in runs}) == 1 and runs[0].stdout.count("\n") == 5


@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    run_again_with(instructions, __file__)
