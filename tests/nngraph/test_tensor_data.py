"""Test core graphs whose feeds and results are in buffers, image batches, matrices, and vectors.

MPSGraphTensorData accepts the same kinds of memory.
"""

from __future__ import annotations

from typing import Any

import mpsgraph as mg
import numpy as np
import pytest
from harness.nodes import graph_of, queue
from mpsgraph import DeviceError, DTypeError, GraphError, ShapeError
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices


def counting(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def plus_one(shape: tuple[int, ...], dtype: Any = mg.float32) -> tuple[mg.Graph, mg.Tensor, mg.Tensor]:
    g = mg.Graph()
    x = g.placeholder(shape, dtype)
    return g, x, x + 1


# --- buffers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytearray, memoryview, np.array, mg.asarray])
def test_tensor_data_views_a_buffer_with_shape_and_dtype(kind: Any):
    numbers = counting(2, 3)
    buffer = kind(bytearray(numbers)) if kind in (bytearray, memoryview) else kind(numbers)
    seen = mg.tensor_data(buffer, (3, 2), "float32")
    assert seen.tolist() == [[0, 1], [2, 3], [4, 5]] and seen.dtype is mg.float32 and seen.writable
    seen[0, 0] = 9
    assert np.frombuffer(memoryview(buffer.numpy() if kind is mg.asarray else buffer).cast("B"), "f4")[0] == 9


def test_tensor_data_reinterprets_the_bytes_of_a_buffer():
    bits = counting(4, dtype=np.uint16)
    assert mg.tensor_data(bits, (2,), mg.uint32).tolist() == [0x10000, 0x30002]
    assert mg.tensor_data(np.uint16([0x3F80, 0x4000]), (2,), mg.bfloat16).numpy().astype(float).tolist() == [1, 2]
    assert not mg.tensor_data(b"\0" * 4, (1,), mg.float32).writable
    assert mg.tensor_data(bits, (0, 3), mg.float32).shape == (0, 3)


def test_tensor_data_supports_padded_rows():
    buffer = counting(2, 2, 4)
    rows = mg.tensor_data(buffer, (2, 2, 3), "float32", row_bytes=16)
    np.testing.assert_array_equal(rows.numpy(), buffer[:, :, :3])
    assert mg.tensor_data(buffer.ravel()[:7], (2, 3), "float32", row_bytes=16).shape == (2, 3), (
        "the last row must not need its padding"
    )
    g, x, y = plus_one((2, 2, 3))
    before = mg.copy_count()
    np.testing.assert_array_equal(g.run({x: rows}, y).numpy(), buffer[:, :, :3] + 1)
    assert mg.copy_count() == before + 1
    with pytest.raises(ShapeError, match="not contiguous"):
        g.run({x: rows}, y, copy=False)
    with pytest.raises(ShapeError, match="contiguous"):
        g.run({x: buffer[:, :, :3].copy()}, y, results=rows)


@pytest.mark.parametrize(
    "buffer, shape, options, message",
    [
        (bytearray(11), (3,), {}, "need 12 bytes, but the buffer has 11"),
        (bytearray(27), (2, 3), {"row_bytes": 16}, "need 28 bytes, but the buffer has 27"),
        (bytearray(64), (2, 3), {"row_bytes": 8}, "multiple of 4 and at least 12 .*got 8"),
        (bytearray(64), (2, 3), {"row_bytes": 14}, "got 14"),
        (bytearray(64), (), {"row_bytes": 4}, "row_bytes"),
        (bytearray(64), (-1,), {}, "ints of at least 0"),
        (np.zeros((4, 4))[:, :2], (2,), {}, "must be a buffer of contiguous bytes"),
        (3.5, (1,), {}, "contiguous bytes, got 3.5"),
    ],
)
def test_invalid_buffers_raise(buffer: Any, shape: tuple, options: dict, message: str):
    with pytest.raises(ShapeError, match=message):
        mg.tensor_data(buffer, shape, "float32", **options)


def test_inconsistent_tensor_data_arguments_raise():
    for arguments in (
        {"shape": (1,)},
        {"dtype": "float32"},
        {"shape": (1,), "dtype": "float32", "rank": 1},
        {"row_bytes": 4},
        {"rank": 2},
    ):
        with pytest.raises(GraphError):
            mg.tensor_data(bytearray(4), **arguments)


def test_tensor_data_of_array_shares_its_memory():
    array = counting(3)
    assert np.shares_memory(mg.tensor_data(array).numpy(), array)
    with pytest.raises(ShapeError, match="copy=False"):
        mg.tensor_data([1.0, 2.0])


# --- batches of images ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_float_image_batches_are_fed_and_written_without_copies(dtype: Any):
    batch, out = nn.ImageBatch(counting(2, 2, 3, 1, dtype=dtype)), nn.ImageBatch(np.zeros((2, 2, 3, 1), dtype))
    assert np.shares_memory(mg.tensor_data(batch).numpy(), batch.numpy())
    g, x, y = plus_one((2, 2, 3, 1), dtype)
    before = mg.copy_count()
    g.run({x: batch}, [y], results={y: out})
    np.testing.assert_array_equal(out.numpy(), batch.numpy() + 1)
    g.compile({x: mg.tensor_data(batch)}, [y]).run([out], [batch])
    np.testing.assert_array_equal(batch.numpy(), out.numpy() + 1)
    assert mg.copy_count() == before


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_integer_image_batches_are_scaled_to_unit_range(dtype: Any):
    top = np.iinfo(dtype).max
    batch = nn.ImageBatch(np.array([0, top // 5, top], dtype).reshape(1, 1, 3, 1))
    g, x, y = plus_one((1, 1, 3, 1))
    before = mg.copy_count()
    np.testing.assert_allclose(g.run({x: batch}, y).numpy().ravel(), [1, 1.2, 2], rtol=1e-6)
    assert mg.copy_count() == before + 1
    assert mg.tensor_data(batch).dtype is mg.float32
    with pytest.raises(DTypeError, match="cannot write floating-point results into an ImageBatch of format unorm"):
        g.run({x: batch}, [y], results={y: batch})
    assert batch.numpy().ravel().tolist() == [0, top // 5, top]


def test_core_graph_runs_between_node_graphs_in_one_command_buffer():
    """All are encoded before anything has run: the core graph reads what nodes write, and nodes read what the core
    graph writes.
    """
    relu = graph_of(nn.NeuronReLUNode(nn.ImageNode("x")).result_image)
    g, x, y = plus_one((1, 1, 1, 2))
    executable = g.compile({x: ((1, 1, 1, 2), "float32")}, [y])
    on = queue()
    buffer, out, last = on.command_buffer(), nn.ImageBatch(np.zeros((1, 1, 1, 2), np.float32)), None
    found = relu.encode_batch(buffer, [np.float32([[[[-3, 2]]]])])
    g.encode(buffer, {x: found}, [y], results={y: out})
    executable.encode(buffer, [out], [last := nn.ImageBatch(np.zeros((1, 1, 1, 2), np.float32))])
    again = relu.encode_batch(buffer, [last])
    for early in (out, last):
        with pytest.raises(DeviceError, match="has not completed"):
            early.numpy()
    for refused in (lambda: g.run({x: found}, y), lambda: executable.run([found]), lambda: mg.tensor_data(found)):
        with pytest.raises(DeviceError, match="has not completed"):
            refused()
    with pytest.raises(DeviceError, match="has not completed"):
        # This command buffer belongs to another queue, which does not wait.
        g.encode(queue().command_buffer(), {x: found}, [y])
    buffer.commit()
    buffer.wait_until_completed()
    assert [b.numpy().ravel().tolist() for b in (out, last, again)] == [[1, 3], [2, 4], [2, 4]]
    assert g.run({x: found}, y).tolist() == [[[[1, 3]]]]


@pytest.mark.parametrize("compiled", [False, True])
def test_reading_results_of_pending_runs_raises(compiled: bool):
    g, x, y = plus_one((1, 1, 1, 2))
    ones, out = np.ones((1, 1, 1, 2), np.float32), nn.ImageBatch(np.zeros((1, 1, 1, 2), np.float32))
    event, descriptor = mg.SharedEvent(), mg.ExecutionDescriptor()
    descriptor.wait_for_event(event, 1)
    if compiled:
        execution = g.compile({x: (1, 1, 1, 2)}, [y]).run_async([ones], [out], descriptor)
    else:
        execution = g.run_async({x: ones}, [y], results={y: out}, descriptor=descriptor)
    with pytest.raises(DeviceError, match="has not completed"):
        out.numpy()
    event.signal(1)
    execution.wait()
    assert out.numpy().ravel().tolist() == [2, 2]


def test_failed_encode_leaves_result_batch_unchanged():
    g, x, y = plus_one((1, 1, 1, 2))
    out = nn.ImageBatch(np.zeros((1, 1, 1, 2), np.float32))
    with pytest.raises(ShapeError):
        g.encode(queue().command_buffer(), {x: np.zeros((1, 1, 1, 3), np.float32)}, [y], results={y: out})
    assert out.numpy().sum() == 0


# --- matrices and vectors ---------------------------------------------------------------------------------------------


def test_matrices_and_vectors_are_fed_and_written():
    memory = counting(2, 3)
    matrix, vector = nn.Matrix(memory), nn.Vector(np.zeros(3, np.float32))
    g = mg.Graph()
    x = g.placeholder((2, 3))
    y, total = x * 2, g.reduction_sum(x, [0])
    total = g.reshape(total, (3,))
    before = mg.copy_count()
    g.run({x: np.ones((2, 3), np.float32)}, [y, total], results={y: matrix, total: vector})
    assert memory.tolist() == [[2, 2, 2], [2, 2, 2]] and vector.numpy().tolist() == [2, 2, 2]
    g.compile({x: matrix.array}, [total]).run([matrix], [vector])
    assert vector.numpy().tolist() == [4, 4, 4] and mg.copy_count() == before
    with pytest.raises(DeviceError, match="shares memory"):
        g.run({x: matrix}, [y], results={y: matrix})


def test_matrix_with_padded_rows_is_copied_as_feed_only():
    sequence = counting(2, 4, 3)
    step = nn.Matrix(sequence[:, 1])
    g, x, y = plus_one((2, 3))
    before = mg.copy_count()
    assert g.run({x: step}, y).tolist() == [[4, 5, 6], [16, 17, 18]] and mg.copy_count() == before + 1
    with pytest.raises(ShapeError, match="contiguous"):
        g.run({x: step}, y, results=step)
    assert sequence[0, 1].tolist() == [3, 4, 5]


def test_tensor_data_of_matrix_has_requested_rank():
    matrix, several = nn.Matrix(counting(2, 3)), nn.Matrix(counting(2, 2, 3))
    shapes = [mg.tensor_data(matrix, rank=rank).shape for rank in (1, 2, 3, 5)]
    assert shapes == [(6,), (2, 3), (1, 2, 3), (1, 1, 1, 2, 3)]
    assert [mg.tensor_data(several, rank=rank).shape for rank in (1, 2, 3)] == [(12,), (4, 3), (2, 2, 3)]
    assert mg.tensor_data(several).shape == (2, 2, 3)
    assert mg.tensor_data(nn.Vector(counting(2, 3)), rank=1).shape == (6,)
    flat = mg.tensor_data(matrix, rank=1)
    flat[0] = 7
    assert matrix.numpy()[0, 0] == 7
    bits = nn.Matrix("cpu", nn.MatrixDescriptor(1, 2, data_type=mg.float16))
    assert mg.tensor_data(bits, rank=3).dtype is mg.float16
    for rank in (0, 17):
        with pytest.raises(ShapeError, match="from 1 to 16"):
            mg.tensor_data(matrix, rank=rank)
    with pytest.raises(mg.GraphError, match="rank must be an int"):
        mg.tensor_data(matrix, rank=1.5)
    with pytest.raises(ShapeError, match="would join rows that have padding between them"):
        mg.tensor_data(nn.Matrix(counting(2, 4, 3)[:, 1]), rank=1)


def test_core_graph_runs_between_image_and_matrix_converters():
    """Convert images to a matrix, run a core graph on it, and convert back, in one command buffer."""
    images, out = counting(2, 1, 2, 2), np.zeros((2, 1, 2, 2), np.float32)
    rows, doubled = (nn.Matrix(np.zeros((2, 4), np.float32)) for _ in range(2))
    g = mg.Graph()
    x = g.placeholder((2, 4))
    buffer = mg.CommandQueue("cpu").command_buffer()
    nn.ImageCopyToMatrix("cpu").encode_batch(buffer, images, rows)
    g.encode(buffer, {x: rows}, y := x * 2, results=doubled)
    nn.MatrixCopyToImage("cpu").encode_batch(buffer, doubled, out)
    assert y.shape == (2, 4) and not out.any()
    buffer.commit()
    buffer.wait_until_completed()
    np.testing.assert_array_equal(out, images * 2)
