"""Test shapes that depend on run-time values: the graph is split, and the rest is compiled at run time.

Cases with `late` results check every operation. The tests here check the order of side effects in split graphs, the
caching of programs, and the errors that are raised.
"""

import threading

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.running import run

pytestmark = pytest.mark.both_devices

X = np.arange(6, dtype=np.float32)


def shape(*sizes: int) -> np.ndarray:
    return np.array(sizes, np.int32)


def reshaping() -> tuple[mg.Graph, mg.Tensor, mg.Tensor, mg.Tensor]:
    g = mg.Graph()
    x, s = g.placeholder((-1,), name="x"), g.placeholder((2,), mg.int32, name="s")
    return g, x, s, g.reshape(x * 2, s, name="y")


def test_reshape_to_fed_shape_gives_run_time_shape():
    g, x, s, y = reshaping()
    assert y.shape == (-1, -1)
    for sizes in ((2, 3), (6, 1), (2, 3), (-1, 2)):
        np.testing.assert_array_equal(g.run({x: X, s: shape(*sizes)}, y).numpy(), (X * 2).reshape(sizes))
    assert g.cache.count == 1, "one executable must serve all values"
    assert g.cache.compiles == 4, "the first part, and the rest for three shapes"


def test_consumers_and_gradients_use_run_time_shape():
    g, x, s, y = reshaping()
    loss = g.reduction_sum(g.square(g.reduction_sum(y, 0)))
    d = g.gradients(loss, [x])[x]
    for sizes in ((2, 3), (3, 2)):
        found = g.run({x: X, s: shape(*sizes)}, [loss, d])
        columns = (2 * X).reshape(sizes).sum(0)
        np.testing.assert_allclose(found[loss].numpy(), np.square(columns).sum())
        np.testing.assert_allclose(found[d].numpy(), np.tile(4 * columns, sizes[0]))


def test_shape_depending_on_value_dependent_shape_splits_graph_again():
    g, x, s, y = reshaping()
    rows = g.cast(g.reduction_sum(g.reduction_maximum(y, 1)) / 4, mg.int32)  # (4 + 10) / 4 = 3 for (2, 3)
    z = g.broadcast_to(g.constant([1.0]), g.reshape(rows, (1,)))
    late = g.shape_of(z)
    found = g.run({x: X, s: shape(2, 3)}, [y, z, late])
    assert found[y].shape == (2, 3) and found[z].shape == (3,) and found[late].tolist() == [3]


@pytest.mark.parametrize("dtype", [mg.float32, mg.float64] if device.has("float64") else [mg.float32])
def test_sizes_scaled_by_constant_floats_do_not_split_graph(dtype: mg.DType):
    """Resizing by factors scales sizes in floating point. The result is known as soon as the shape is."""
    g = mg.Graph()
    x = g.placeholder((-1, 3, -1, -1))
    y = g.relu(x)
    sizes = g.cast(g.shape_of(y), dtype)
    sizes = g.cast(g.floor(g.slice(sizes, (2,), (4,), (1,)) * g.constant([2.5, 1.75], dtype=dtype) + 0.25), mg.int64)
    z = g.resize_nearest(y, sizes, layout="NCHW", nearest_rounding_mode="floor")
    for rows, columns in ((4, 4), (5, 7)):
        image = np.random.default_rng(rows).normal(size=(2, 3, rows, columns)).astype(np.float32)
        found = g.run({x: image}, [z, sizes])
        wanted = [int(2.5 * rows + 0.25), int(1.75 * columns + 0.25)]
        assert found[sizes].tolist() == wanted and found[z].shape == (2, 3, *wanted)
    assert g.cache.compiles == 2, "one program for each shape"


def test_size_scaled_by_a_fed_float_splits_graph():
    g = mg.Graph()
    x, by = g.placeholder((-1,)), g.placeholder((), mg.float32)
    count = g.cast(g.floor(g.cast(g.shape_of(x), mg.float32) * by), mg.int64)
    y = g.broadcast_to(g.constant([3.0]), count)
    for factor, wanted in ((0.5, 3), (1.5, 9), (0.5, 3)):
        assert g.run({x: X, by: np.float32(factor)}, y).tolist() == [3] * wanted
    assert g.cache.compiles == 3, "the first part, and the rest for two counts"


def test_side_effects_keep_their_order_in_split_graph():
    """A read before the split must see the old value, and a read after the split must see the assigned value."""
    g, x, s, y = reshaping()
    v = g.variable(np.zeros(6, np.float32))
    before = g.read(v)
    first = g.assign(v, before + 1.0)
    between = g.reshape(g.read(v), s)
    second = g.assign(v, g.reshape(between, (6,)) * 10.0)
    after = g.reshape(g.read(v), s)
    found = g.run({x: X, s: shape(3, 2)}, [before, between, after, v, y], [first, second])
    for tensor, wanted in ((before, 0), (between, 1), (after, 10), (v, 10)):
        assert set(found[tensor].numpy().ravel()) == {wanted}
    assert found[after].shape == (3, 2) and g.variable_value(v).tolist() == [10] * 6


def test_variable_can_determine_a_shape():
    g = mg.Graph()
    x, v = g.placeholder((6,)), g.variable(shape(2, 3))
    y = g.reshape(x, v)
    assert g.run({x: X}, y).shape == (2, 3)
    g.set_variable(v, shape(3, 2))
    assert g.run({x: X}, y).shape == (3, 2)


def test_branches_and_loops_accept_outer_value_dependent_shapes():
    g, x, s, _ = reshaping()
    y = g.if_(
        g.constant(True), lambda: g.reduction_sum(g.reshape(x, s), 0), lambda: g.reduction_sum(g.reshape(-x, s), 0)
    )
    assert g.run({x: X, s: shape(2, 3)}, y[0]).tolist() == [[3, 5, 7]]
    (total,) = g.for_(3, initial=[g.constant(0.0, (1,))], body=lambda i, a: a + g.reduction_sum(g.reshape(x, s)[0]))
    assert g.run({x: X, s: shape(2, 3)}, total).item() == 9


def test_value_dependent_shape_inside_branch_raises():
    g = mg.Graph()
    x = g.placeholder((6,))
    y = g.if_(
        g.constant(True),
        lambda: g.reshape(g.reduction_maximum(g.reshape(x, g.cast(x, mg.int32)[:2])), (1,)),
        lambda: g.constant(0.0, (1,)),
    )
    with pytest.raises(mg.UnsupportedError, match=r"\[reshape\].*within a block of control flow"):
        g.run({x: X}, y[0])


def test_preallocated_results_must_match_run_time_shape():
    g, x, s, y = reshaping()
    result = mg.NDArray((2, 3), mg.float32)
    assert g.run({x: X, s: shape(2, 3)}, y, results=result).numpy() is not None
    np.testing.assert_array_equal(result.numpy(), (X * 2).reshape(2, 3))
    with pytest.raises(mg.ShapeError, match=r"target y must have shape \(3,2\), got \(2,3\)"):
        g.run({x: X, s: shape(3, 2)}, y, results=result)
    with pytest.raises(mg.DTypeError):
        g.run({x: X, s: shape(3, 2)}, y, results=mg.NDArray((3, 2), mg.int32))


def test_asynchronous_run_allocates_results_of_run_time_shape():
    g, x, s, y = reshaping()
    seen = []
    descriptor = mg.ExecutionDescriptor(completed_handler=lambda results, error: seen.append(results[0].shape))
    running = g.run_async({x: X, s: shape(2, 3)}, y, descriptor=descriptor)
    assert running.results.shape == (2, 3) and seen == [(2, 3)]


def test_encode_requires_preallocated_result():
    g, x, s, y = reshaping()
    buffer = mg.CommandQueue().command_buffer()
    with pytest.raises(mg.UnsupportedError, match=r"\[encode\] the shape of target y"):
        g.encode(buffer, {x: X, s: shape(2, 3)}, y)
    result = g.encode(buffer, {x: X, s: shape(2, 3)}, y, results=mg.NDArray((2, 3), mg.float32))
    buffer.commit()
    buffer.wait_until_completed()
    np.testing.assert_array_equal(result.numpy(), (X * 2).reshape(2, 3))


def test_failed_run_of_split_graph_raises_and_next_run_succeeds():
    g, x, s, y = reshaping()
    with pytest.raises(mg.ShapeError, match=r"\[reshape\] cannot reshape 6 elements to \(4,2\)"):
        g.run({x: X, s: shape(4, 2)}, y)
    assert g.run({x: X, s: shape(3, 2)}, y).shape == (3, 2)


def test_number_of_programs_cached_for_run_time_shapes_is_bounded():
    g, x, s, y = reshaping()
    for n in range(1, 40):
        assert g.run({x: np.zeros(n, np.float32), s: shape(n, 1)}, y).shape == (n, 1)
    executable = g.compile({x: (0,), s: (2,)}, [y])
    for n in range(40):
        assert executable.run([np.zeros(0, np.float32), shape(0, n)])[0].shape == (0, n)
    assert executable.plan().count("then, when") == 16
    assert executable.target_types == [(mg.float32, (-1, -1))]


def test_threads_share_an_executable_of_a_split_graph():
    g, x, s, y = reshaping()
    executable = g.compile({x: (6,), s: (2,)}, [y])
    failures = []

    def work(sizes: tuple[int, int]) -> None:
        for _ in range(50):
            (result,) = executable.run([X, shape(*sizes)])
            if not np.array_equal(result.numpy(), (X * 2).reshape(sizes)):
                failures.append(sizes)

    threads = [threading.Thread(target=work, args=[sizes]) for sizes in ((2, 3), (3, 2), (1, 6), (6, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_convolution_weights_in_split_graph_remain_correct_after_update():
    """Compiling the rest of the graph converts the weights to the kernel's layout; every later run must find them
    there.
    """
    g = mg.Graph()
    x, s = g.placeholder((-1,)), g.placeholder((4,), mg.int32)
    w = g.variable(np.random.default_rng(0).normal(size=(3, 3, 16, 32)).astype(np.float32))
    plain = g.reduction_sum(g.read(w))
    y = g.convolution2d(g.reshape(x, s), w)
    loss = g.reduction_sum(y)
    step = g.assign(w, g.read(w) - g.gradients(loss, [w])[w] * 0.01)
    numbers = np.random.default_rng(1).normal(size=8 * 8 * 16).astype(np.float32)
    sizes = shape(1, 8, 8, 16)
    value = g.variable_value(w)
    for _ in range(3):
        found = g.run({x: numbers, s: sizes}, [loss, plain], [step])
        np.testing.assert_allclose(found[plain].item(), value.sum(), rtol=1e-3, atol=1e-2)
        patches = np.lib.stride_tricks.sliding_window_view(numbers.reshape(8, 8, 16), (3, 3), (0, 1))
        per_weight = patches.sum((0, 1)).transpose(1, 2, 0)[..., None]
        np.testing.assert_allclose(found[loss].item(), (per_weight * value).sum(), rtol=1e-3, atol=1e-2)
        value = value - 0.01 * per_weight
        np.testing.assert_allclose(g.variable_value(w), value, rtol=1e-3, atol=1e-4)


def test_split_graph_runs_after_text_round_trip():
    g, x, s, y = reshaping()
    again = mg.parse(str(g))
    x2, s2 = again.placeholders
    (result,) = run(again, [x2, s2], [X, shape(2, 3)], [again.find("y").outputs[0]])
    np.testing.assert_array_equal(result.numpy(), (X * 2).reshape(2, 3))
