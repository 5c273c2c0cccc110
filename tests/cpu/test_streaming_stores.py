"""Test that results written with streaming stores are bitwise equal to results computed in small pieces.

Results larger than the caches are written with streaming stores.
"""

import mpsgraph as mg
import numpy as np
import pytest


def run(build, *arrays):
    g = mg.Graph()
    feeds = [g.placeholder(a.shape, a.dtype) for a in arrays]
    return g.run(dict(zip(feeds, arrays, strict=True)), build(g, *feeds)).numpy()


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("channels, pixels", [(32, 232), (48, 190), (24, 270)])
def test_depthwise_convolution_with_streaming_stores_matches_reference(channels, pixels, relu):
    """Channels fill whole vectors or not. Half of the images are too few for streaming stores."""
    x, w, bias = normal(4, pixels, pixels, channels), normal(3, 3, channels, 1), normal(channels)

    def convolved(g, x, w, bias):
        y = g.depthwise_convolution2d(x, w, padding="TF_SAME") + bias
        return g.relu(y) if relu else y

    assert 24 << 20 <= x.nbytes < 48 << 20
    halves = [run(convolved, x[i : i + 2], w, bias) for i in (0, 2)]
    np.testing.assert_array_equal(run(convolved, x, w, bias), np.concatenate(halves))


@pytest.mark.parametrize("runs", [(64, 64), (16, 48), (160, 96), (1000, 24), (20, 44)])
def test_concatenation_with_streaming_stores_matches_numpy(runs):
    """Runs consist of whole cache lines or not, aligned or not."""
    rows = (25 << 20) // (4 * max(runs))
    a, b = (normal(rows, n) for n in runs)
    np.testing.assert_array_equal(run(lambda g, a, b: g.concat([a, b], axis=1), a, b), np.concatenate([a, b], 1))


@pytest.mark.parametrize("start", [0, 16, 5])
def test_slice_and_broadcast_with_streaming_stores_match_numpy(start):
    x = normal(1000, 8192)
    y = run(lambda g, x: g.slice_axis(x, 1, start, 7680), x)
    np.testing.assert_array_equal(y, x[:, start : start + 7680])
    y = run(lambda g, x: g.broadcast_to(x, (900, 7680)), x[:1, start : start + 7680])
    np.testing.assert_array_equal(y, np.broadcast_to(x[:1, start : start + 7680], (900, 7680)))


def placed(values, offset):
    """Return a copy that begins `offset` bytes after a multiple of 4,096."""
    memory = np.zeros(values.nbytes + 4096 + offset, np.uint8)
    begin = -memory.ctypes.data % 4096 + offset
    copy = memory[begin : begin + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[:] = values
    return copy


@pytest.mark.parametrize("offsets", [(0, 0, 0), (0, 64, 64), (64, 64, 128), (16, 2112, 512), (0, 16, 64)])
@pytest.mark.parametrize("results", [1, 2])
@pytest.mark.parametrize("odd", [0, 5])
def test_fused_results_at_any_offset_match_results_of_small_pieces(offsets, results, odd):
    """Where results lie decides whether they are stored directly, or from blocks in the cache."""
    x = placed(normal((25 << 18) + odd), offsets[0])

    def compiled(size):
        g = mg.Graph()
        x = g.placeholder((size,))
        y = g.exponent(-x * x) + 0.5
        return g.compile({x: (size,)}, [*[y, g.tanh(y) * x][:results], g.reduction_sum(x, 0)])

    memory = [placed(np.zeros_like(x), offset) for offset in offsets[1 : 1 + results]]
    total = np.zeros(1, np.float32)
    compiled(x.size).run([x], [*memory, total])
    half = x.size // 2
    pieces = [compiled(part.size).run([part]) for part in (x[:half], x[half:])]
    for i, result in enumerate(memory):
        np.testing.assert_array_equal(result, np.concatenate([piece[i].numpy() for piece in pieces]))
    np.testing.assert_allclose(total, x.sum(dtype=np.float64), rtol=1e-4, atol=1)
