"""Depthwise convolutions with channels last: two rows of results at once, edges, and the gradient without strides.

Beside sums in double by numpy; and with each set of vectors.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import run_again_with
from harness.runtime import run_program

# images, rows, columns, channels, kernel, and what else: strides, dilations and padding of rows and columns
SAME = ((1, 1), (1, 1))
SIZES = {
    "pairs_of_rows": (2, 14, 14, 64, (3, 3), 1, 1, SAME),
    "an_odd_number_of_inner_rows": (1, 9, 20, 32, (3, 3), 1, 1, SAME),
    "one_inner_row": (2, 3, 13, 48, (3, 3), 1, 1, SAME),
    "no_inner_row": (1, 2, 13, 16, (3, 3), 1, 1, SAME),
    "one_row": (3, 1, 30, 16, (3, 3), 1, 1, SAME),
    "one_column": (3, 30, 1, 16, (3, 3), 1, 1, SAME),
    "no_padding": (1, 12, 11, 32, (3, 3), 1, 1, ((0, 0), (0, 0))),
    "uneven_padding": (2, 7, 9, 32, (3, 3), 1, 1, ((2, 0), (0, 2))),
    "more_padding_than_taps": (1, 5, 6, 16, (3, 3), 1, 1, ((4, 3), (5, 3))),
    "channels_of_half_a_vector": (1, 10, 16, 24, (3, 3), 1, 1, SAME),
    "channels_of_no_vector": (1, 10, 16, 21, (3, 3), 1, 1, SAME),
    "few_channels": (1, 11, 12, 3, (3, 3), 1, 1, SAME),
    "strides_and_dilations_of_two": (2, 19, 23, 32, (3, 3), 2, 2, ((2, 2), (2, 2))),
    "strides_of_two": (2, 15, 18, 32, (3, 3), 2, 1, SAME),
    "dilations_of_two": (2, 15, 18, 32, (3, 3), 1, 2, ((2, 2), (2, 2))),
    "five_taps": (1, 12, 17, 32, (5, 5), 1, 1, ((2, 2), (2, 2))),
    "three_rows_of_five": (1, 12, 17, 16, (3, 5), 1, 1, ((1, 1), (2, 2))),
    "a_row_of_taps": (1, 6, 17, 16, (1, 3), 1, 1, ((0, 0), (1, 1))),
    "one_tap": (1, 6, 17, 16, (1, 1), 1, 1, ((0, 0), (0, 0))),
}


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def taps(result, kernel, strides, dilations):
    """For each tap which elements of the padded source it sees."""
    (rows, columns), (_, h, w, _) = kernel, result
    for y in range(rows):
        for x in range(columns):
            first_y, first_x = y * dilations, x * dilations
            yield (
                (y, x),
                (
                    slice(None),
                    slice(first_y, first_y + (h - 1) * strides + 1, strides),
                    slice(first_x, first_x + (w - 1) * strides + 1, strides),
                ),
            )


def sums(x, w, strides, dilations, padding):
    padded = np.pad(x.astype(np.float64), ((0, 0), *padding, (0, 0)))
    sizes = [(padded.shape[1 + i] - (w.shape[i] - 1) * dilations - 1) // strides + 1 for i in (0, 1)]
    y = np.zeros((x.shape[0], *sizes, x.shape[3]))
    for tap, where in taps(y.shape, w.shape[:2], strides, dilations):
        y += padded[where] * w[tap][:, 0].astype(np.float64)
    return y


def gradient_sums(dy, w, shape, strides, dilations, padding):
    padded = np.zeros((shape[0], shape[1] + sum(padding[0]), shape[2] + sum(padding[1]), shape[3]))
    for tap, where in taps(dy.shape, w.shape[:2], strides, dilations):
        padded[where] += dy.astype(np.float64) * w[tap][:, 0]
    (top, _), (left, _) = padding
    return padded[:, top : top + shape[1], left : left + shape[2]]


@pytest.mark.parametrize("name", SIZES)
def test_sums_and_gradients_for_the_source(name):
    n, h, width, c, kernel, strides, dilations, padding = SIZES[name]
    x, w = drawn(n, h, width, c), drawn(*kernel, c, 1, seed=1)
    g = mg.Graph()
    source, weights = g.placeholder(x.shape), g.placeholder(w.shape)
    how = {"strides": strides, "dilations": dilations, "padding": padding}
    y = g.depthwise_convolution2d(source, weights, **how)
    incoming = g.placeholder(y.shape)
    dy = drawn(*y.shape, seed=2)
    (dx,) = g.gradients(y, [source], incoming).values()
    results = g.run({source: x, weights: w, incoming: dy}, [y, dx])
    size = np.abs(w).sum((0, 1, 3)).max()  # of a sum of products of numbers about 1
    np.testing.assert_allclose(results[y].numpy(), sums(x, w, strides, dilations, padding), rtol=0, atol=2e-6 * size)
    expected = gradient_sums(dy, w, x.shape, strides, dilations, padding)
    np.testing.assert_allclose(results[dx].numpy(), expected, rtol=0, atol=2e-6 * size)


def test_bias_residual_and_relu():
    x, w, bias = drawn(2, 13, 19, 40), drawn(3, 3, 40, 1, seed=1), drawn(40, seed=2)
    added = drawn(2, 13, 19, 40, seed=3)
    g = mg.Graph()
    source, other = g.placeholder(x.shape), g.placeholder(x.shape)
    y = g.depthwise_convolution2d(source, g.constant(w), padding=SAME)
    result = g.run({source: x, other: added}, g.relu(y + g.constant(bias) + other))
    expected = np.maximum(sums(x, w, 1, 1, SAME) + bias + added, 0)
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=3e-5)


def test_nan_and_infinity_reach_what_sees_them():
    x, w = np.zeros((1, 12, 14, 16), np.float32), np.ones((3, 3, 16, 1), np.float32)
    x[0, 5, 6, 3], x[0, 8, 2, 9] = np.nan, np.inf
    g = mg.Graph()
    source = g.placeholder(x.shape)
    y = g.run({source: x}, g.depthwise_convolution2d(source, g.constant(w), padding=SAME)).numpy()
    assert np.argwhere(np.isnan(y)).tolist() == [[0, r, c, 3] for r in (4, 5, 6) for c in (5, 6, 7)]
    assert np.argwhere(np.isinf(y)).tolist() == [[0, r, c, 9] for r in (7, 8, 9) for c in (1, 2, 3)]


def test_a_result_beyond_the_caches():
    """25 MB and more, and as much again: written past the caches, where these are not larger."""
    x, w = drawn(1, 56, 56, 64), drawn(3, 3, 64, 1, seed=1)
    g = mg.Graph()
    source = g.placeholder((-1, 56, 56, 64))
    y = g.depthwise_convolution2d(source, g.constant(w), padding=SAME)
    many = np.concatenate([x, 2 * x] * 40)
    one, all_of_them = g.run({source: x}, y).numpy(), g.run({source: many}, y).numpy()
    np.testing.assert_array_equal(all_of_them, np.concatenate([one, 2 * one] * 40))


PROGRAM = """
    import hashlib
    import mpsgraph as mg, numpy as np

    rng = np.random.default_rng(0)
    for shape in ((1, 7, 50, 64), (3, 20, 9, 33)):
        x = rng.standard_normal(shape, np.float32)
        g = mg.Graph()
        source = g.placeholder(shape)
        w = g.constant(rng.standard_normal((3, 3, shape[3], 1), np.float32))
        y = g.depthwise_convolution2d(source, w, padding="TF_SAME")
        for result in g.run({source: x}, [y, *g.gradients(y, [source]).values()]).values():
            print(hashlib.sha256(result.numpy().tobytes()).hexdigest())
"""


def test_the_same_bits_with_any_number_of_threads():
    runs = [run_program(PROGRAM, OMP_NUM_THREADS=str(threads)) for threads in (1, 2, 5)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    assert len({run.stdout for run in runs}) == 1 and runs[0].stdout.count("\n") == 4


@pytest.mark.parametrize("instructions", ["AVX2", "baseline"])
def test_other_instruction_sets_agree(instructions):
    run_again_with(instructions, __file__)
