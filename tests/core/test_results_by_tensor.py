"""Test results that targets index, constants of whole numbers, pooling descriptors, and optimizers' own moments."""

import threading

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nngraph

X = np.float32([1, 2, 3])


def graph():
    g = mg.Graph()
    x = g.placeholder((3,))
    return g, x, x * 2, g.reduction_sum(x, 0)


def test_completion_handler_indexes_results_by_tensor_and_position():
    g, x, doubled, total = graph()
    seen, done = [], threading.Event()

    def handler(results, error):
        seen.extend(
            [results[total].item(), results[doubled].tolist(), results[0].tolist(), dict(results.items()).keys()]
        )
        seen.extend([error, x in results, total in results, len(list(results))])
        done.set()

    descriptor = mg.ExecutionDescriptor(completed_handler=handler)
    g.run_async({x: X}, [doubled, total], descriptor=descriptor).wait()
    assert done.wait(60)
    assert seen == [6, [2, 4, 6], [2, 4, 6], {doubled: 0, total: 0}.keys(), None, False, True, 2]
    assert descriptor.completed_handler is handler


def test_handlers_of_encoded_runs_index_results_by_tensor():
    g, x, doubled, total = graph()
    seen, buffer = [], mg.CommandQueue().command_buffer()
    descriptor = mg.ExecutionDescriptor(completed_handler=lambda results, error: seen.append(results[total].item()))
    g.encode(buffer, {x: X}, [doubled, total], descriptor=descriptor)
    buffer.commit()
    buffer.wait_until_completed()
    for _ in range(1000):
        if seen:
            break
        threading.Event().wait(0.01)
    assert seen == [6]


def test_execution_is_indexed_by_tensor():
    g, x, doubled, total = graph()
    run = g.run_async({x: X}, [doubled, total])
    pending = run[doubled]
    run.wait()
    assert pending.tolist() == [2, 4, 6] and run[total].item() == 6 == run.results[total].item()
    alone = g.run_async({x: X}, total)
    assert alone.wait()[total].item() == 6
    with pytest.raises(mg.GraphError, match="is not a target of this run"):
        run[x]
    executable = g.compile({x: (3,)}, [total])
    with pytest.raises(mg.GraphError, match="not started with Graph.run_async"):
        executable.run_async([X])[total]


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_whole_numbers_become_integer_constants(dtype):
    g = mg.Graph()
    assert g.run({}, [g.constant(4.0, dtype=dtype), g.constant(4.0, (2,), dtype)])
    assert g.run({}, g.constant(4.0, (2,), dtype)).tolist() == [4, 4]
    for wrong in (4.5, float("nan"), 1e30):
        with pytest.raises(mg.DTypeError):
            g.constant(wrong, dtype=dtype)


def test_pooling_descriptor_is_shared_by_forward_and_gradient():
    g, rng = mg.Graph(), np.random.default_rng(0)
    values = rng.normal(size=(1, 2, 5, 6)).astype(np.float32)
    x, ones = g.constant(values), g.constant(1.0, (1, 2, 5, 6))
    window = mg.Pooling4DDescriptor((1, 1, 3, 3), padding="TF_SAME")
    window.return_indices_mode = "global_flatten_4d"
    pooled, indices = g.max_pooling4d_return_indices(x, window)
    gradients = [
        g.max_pooling4d_gradient_from_indices(ones, indices, g.shape_of(x), window),
        g.max_pooling4d_gradient(ones, x, window),
        g.gradients(pooled, [x])[x],
    ]
    found = [array.numpy() for array in g.run({}, [pooled, *gradients]).values()]
    padded = np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_array_equal(found[0], views.max((-1, -2)))
    expected = np.zeros_like(values).ravel()
    np.add.at(expected, g.run({}, indices).numpy().ravel(), 1)
    for gradient in found[1:]:
        np.testing.assert_array_equal(gradient.ravel(), expected)
    images = mg.Pooling2DDescriptor(2, 1, data_layout="NCHW", include_zero_pad_to_average=True)
    np.testing.assert_allclose(
        g.run({}, g.avg_pooling2d(x, images)).numpy(),
        np.lib.stride_tricks.sliding_window_view(values, (2, 2), (2, 3)).mean((-1, -2)), rtol=1e-5, atol=1e-6,
    )  # fmt: skip
    with pytest.raises(mg.GraphError, match="padding is an option of the descriptor"):
        g.max_pooling4d(x, window, padding="TF_SAME")
    with pytest.raises(mg.GraphError, match="needs a Pooling2DDescriptor"):
        g.max_pooling2d(x, window)


def test_default_strides_of_4d_pooling_are_ones():
    g = mg.Graph()
    x = g.placeholder((1, 2, 6, 6))
    for pool in (g.max_pooling4d, g.avg_pooling4d, g.l2_norm_pooling4d):
        assert pool(x, (1, 1, 3, 3)).shape == (1, 2, 4, 4)
    assert g.max_pooling2d(x, 3, data_layout="NCHW").shape == (1, 2, 2, 2)


def test_optimizer_without_momentum_vectors_keeps_its_own():
    def steps(**moments):
        values = nngraph.Vector(np.float32([1, 2]))
        optimizer, queue = nngraph.Adam(0.1), mg.CommandQueue(mg.Device.default())
        for gradient in ([1, -1], [0.5, 2], [-3, 1]):
            buffer = queue.command_buffer()
            optimizer.encode(
                buffer,
                input_gradient_vector=nngraph.Vector(np.float32(gradient)),
                input_values_vector=values,
                **moments,
            )
            buffer.commit()
            buffer.wait_until_completed()
        return values.numpy().copy()

    zeros = {
        name: nngraph.Vector(np.zeros(2, np.float32)) for name in ("input_momentum_vectors", "input_velocity_vectors")
    }
    np.testing.assert_array_equal(steps(), steps(**zeros))


def test_convolution_descriptor_is_mutable():
    descriptor = nngraph.ConvolutionDescriptor(3, 3, 1, 4)
    descriptor.kernel_width, descriptor.stride_in_pixels_x = 5, 2
    assert descriptor.weights_shape == (4, 3, 5, 1) and descriptor.stride_in_pixels_x == 2
