"""Test Image, ImageBatch, and LossLabels: shared memory, counted copies, layouts, and when a result can be read."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from harness.device import mg
from harness.nodes import graph_of, pool, queue, run
from mpsgraph import DeviceError, DTypeError, GraphError, OutOfRangeError, ShapeError
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

FORMATS = {"unorm8": np.uint8, "unorm16": np.uint16, "float16": np.float16, "float32": np.float32}


def copies(action: Any) -> int:
    before = mg.copy_count()
    action()
    return mg.copy_count() - before


class TestImage:
    @pytest.mark.parametrize("name", FORMATS)
    def test_image_reports_its_format_and_size(self, name: str):
        image = nn.Image(np.zeros((2, 3, 4), FORMATS[name]))
        assert (image.height, image.width, image.feature_channels, image.format) == (2, 3, 4, name)
        assert repr(image) == f"Image(2 x 3 x 4, {name})"
        empty = nn.Image.empty(2, 3, 4, name)
        assert empty.numpy().dtype == FORMATS[name] and not empty.numpy().any()

    def test_image_shares_memory_with_its_array(self):
        array = np.zeros((2, 3), np.float32)
        image = nn.Image(array)
        array[1, 2] = 5
        assert image.numpy()[1, 2, 0] == 5
        assert np.shares_memory(np.asarray(image), array)
        assert not np.shares_memory(np.array(image), array)

    def test_image_bytes_are_read_and_written_in_each_layout(self):
        array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        image = nn.Image(array.copy())
        planar = image.read_bytes("feature_channels_x_height_x_width")
        np.testing.assert_array_equal(planar, array.transpose(2, 0, 1))
        assert planar.flags.c_contiguous and not np.shares_memory(planar, image.numpy())
        np.testing.assert_array_equal(image.read_bytes(), array)
        image.write_bytes(planar + 1, "feature_channels_x_height_x_width")
        np.testing.assert_array_equal(image.numpy(), array + 1)
        with pytest.raises(ShapeError):
            image.write_bytes(planar)
        with pytest.raises(DTypeError):
            image.write_bytes(array.astype(np.float64))
        with pytest.raises(GraphError, match="data_layout"):
            image.read_bytes("planar")

    @pytest.mark.parametrize("shape", [(3,), (2, 3, 4, 5), (0, 3), (2, 3, 0)])
    def test_invalid_image_shapes_raise(self, shape: tuple[int, ...]):
        with pytest.raises(ShapeError):
            nn.Image(np.zeros(shape, np.float32))

    @pytest.mark.parametrize("dtype", [np.float64, np.int8, np.int32, bool])
    def test_invalid_image_dtypes_raise(self, dtype: Any):
        with pytest.raises(DTypeError):
            nn.Image(np.zeros((2, 3), dtype))
        with pytest.raises(GraphError, match="format"):
            nn.Image.empty(1, 1, 1, "float64")


class TestBatch:
    def test_image_batch_shares_memory_with_its_array(self):
        array = pool(4, 2, 3, 1).astype(np.float32)
        batch = nn.ImageBatch(array)
        assert np.shares_memory(batch.numpy(), array)
        assert np.shares_memory(batch[2].numpy(), array)
        assert (len(batch), batch.shape, batch.format) == (4, (4, 2, 3, 1), "float32")
        assert repr(batch) == "ImageBatch(4 of 2 x 3 x 1, float32)"
        assert len(batch[1:3]) == 2 and np.shares_memory(batch[1:3].numpy(), array)
        np.testing.assert_array_equal(batch[-1].numpy(), array[3])
        for bad in (4, -5):
            with pytest.raises(IndexError):
                batch[bad]

    def test_adjacent_images_are_batched_without_a_copy(self):
        array = pool(4, 2, 3, 1).astype(np.float32)
        images = list(nn.ImageBatch(array))
        made: list[Any] = []
        assert copies(lambda: made.append(nn.ImageBatch(images[1:]))) == 0
        assert np.shares_memory(made[0].numpy(), array)
        np.testing.assert_array_equal(made[0].numpy(), array[1:])

    @pytest.mark.parametrize("order", [[1, 0], [0, 2], [0, 0]])
    def test_images_out_of_memory_order_are_batched_with_one_copy(self, order: list[int]):
        array = pool(4, 2, 3, 1).astype(np.float32)
        images = list(nn.ImageBatch(array))
        made: list[Any] = []
        assert copies(lambda: made.append(nn.ImageBatch([images[i] for i in order]))) == 1
        np.testing.assert_array_equal(made[0].numpy(), array[order])

    def test_separately_allocated_images_are_batched_with_one_copy(self):
        images = [nn.Image(pool(2, 3, 1, seed=i).astype(np.float32)) for i in range(3)]
        made: list[Any] = []
        assert copies(lambda: made.append(nn.ImageBatch(images))) == 1
        np.testing.assert_array_equal(made[0].numpy(), [i.numpy() for i in images])

    def test_batching_images_of_different_sizes_or_formats_raises(self):
        one = nn.Image(np.zeros((2, 3, 1), np.float32))
        with pytest.raises(ShapeError, match=r"image 1 has \(2, 4, 1\)"):
            nn.ImageBatch([one, nn.Image(np.zeros((2, 4, 1), np.float32))])
        with pytest.raises(DTypeError, match="image 1 has uint8"):
            nn.ImageBatch([one, nn.Image(np.zeros((2, 3, 1), np.uint8))])
        for bad in (np.zeros((2, 3, 1), np.float32), np.zeros((0, 2, 3, 1), np.float32), []):
            with pytest.raises(ShapeError):
                nn.ImageBatch(bad)

    @pytest.mark.parametrize("name", FORMATS)
    def test_graph_reads_dense_batches_without_a_copy(self, name: str):
        array = np.ones((3, 16, 16, 4), FORMATS[name])
        graph = graph_of(nn.NeuronLinearNode(nn.ImageNode("x"), 2.0).result_image)
        run(graph, {"x": array})
        assert copies(lambda: run(graph, {"x": nn.ImageBatch(array)})) == 0

    def test_graph_reads_strided_batches_with_one_copy(self):
        array = pool(3, 4, 6, 8).astype(np.float32)
        graph = graph_of(nn.NeuronLinearNode(nn.ImageNode("x"), 1.0).result_image)
        for view in (array[:, ::2], array[..., ::-1], array.transpose(0, 2, 1, 3), array[::-1]):
            found: list[Any] = []
            assert copies(lambda view=view, found=found: found.append(run(graph, {"x": view})[0])) == 1
            np.testing.assert_array_equal(found[0], view)

    def test_chained_graphs_pass_results_without_a_copy(self):
        first = graph_of(nn.NeuronLinearNode(nn.ImageNode("x"), 2.0).result_image)
        second = graph_of(nn.NeuronLinearNode(nn.ImageNode("x"), 3.0).result_image)
        x = np.ones((2, 8, 8, 4), np.float32)
        found: list[Any] = []

        def both() -> None:
            buffer = queue().command_buffer()
            middle = first.encode_batch(buffer, [x])
            # The result is not computed yet; the second graph is encoded to the same command buffer.
            found.append(second.encode_batch(buffer, [middle]))
            buffer.commit()
            buffer.wait_until_completed()
            found[-1].numpy()

        both()
        assert copies(both) == 0
        assert (found[-1].numpy() == 6).all()


class TestReading:
    def graph(self) -> nn.NNGraph:
        return graph_of(nn.NeuronLinearNode(nn.ImageNode("x"), 2.0).result_image)

    def test_reading_results_before_completion_raises(self):
        buffer = queue().command_buffer()
        batch = self.graph().encode_batch(buffer, [np.ones((2, 1, 1, 1), np.float32)])
        readers = [batch.numpy, batch[0].numpy, batch[:1].numpy, batch[1].read_bytes, lambda: np.asarray(batch)]
        for read in readers:
            with pytest.raises(DeviceError, match="has not completed"):
                read()
        with pytest.raises(DeviceError, match="has not completed"):
            nn.ImageBatch([batch[0], batch[1]])
        buffer.commit()
        buffer.wait_until_completed()
        for read in readers:
            read()

    def test_reading_losses_before_completion_raises(self):
        loss = nn.LossNode(nn.ImageNode("y"), nn.LossDescriptor("mean_squared_error"))
        states = [nn.LossLabels([0.0]), nn.LossLabels([3.0])]
        with pytest.raises(GraphError, match="have no loss yet"):
            _ = states[0].loss_image
        buffer = queue().command_buffer()
        graph_of(loss.result_image).encode_batch(buffer, [np.ones((2, 1, 1, 1), np.float32)], [states])
        with pytest.raises(DeviceError, match="has not completed"):
            states[0].loss_image.numpy()
        buffer.commit()
        buffer.wait_until_completed()
        assert [float(s.loss_image.numpy().item()) for s in states] == [1, 4]

    def test_encode_accepts_a_single_image(self):
        image = nn.Image(np.ones((2, 3, 4), np.float32))
        buffer = queue().command_buffer()
        result = self.graph().encode(buffer, [image])
        buffer.commit()
        buffer.wait_until_completed()
        assert (result.numpy() == 2).all() and result.numpy().shape == (2, 3, 4)

    def test_execute_async_calls_handler_and_returns_result(self):
        done, seen = threading.Event(), []

        def handler(result: Any, error: Any) -> None:
            seen.append((result.numpy().copy(), error))
            done.set()

        result = self.graph().execute_async([np.ones((2, 1, 1, 1), np.float32)], handler)
        assert done.wait(60)
        ((array, error),) = seen
        assert error is None and (array == 2).all()
        assert (result.numpy() == 2).all()

    def test_calling_a_node_graph_returns_its_result(self):
        assert self.graph()(np.ones((1, 1, 1, 1), np.float32)).numpy().item() == 2


class TestLabels:
    def test_label_shapes_are_expanded_to_images(self):
        assert nn.LossLabels([1.0, 2.0]).labels.shape == (1, 1, 2)
        assert nn.LossLabels(np.zeros((2, 3, 4), np.float32), 2.0).weights.shape == (1, 1, 1)
        batch = nn.LossLabelsBatch(np.zeros((5, 3), np.float32), np.ones(5, np.float32))
        assert batch.labels.shape == (5, 1, 1, 3) and batch.weights.shape == (5, 1, 1, 1)
        assert len(batch) == 5 and len(batch[1:4]) == 3
        assert batch[2].labels.shape == (1, 1, 3)

    def test_label_batch_shares_memory_with_its_array(self):
        array = np.zeros((5, 3), np.float32)
        assert np.shares_memory(nn.LossLabelsBatch(array).labels, array)

    def test_invalid_labels_raise(self):
        with pytest.raises(DTypeError, match="float32"):
            nn.LossLabelsBatch(np.zeros((5, 3), np.int64))
        with pytest.raises(DTypeError, match="float32"):
            nn.LossLabels(np.zeros(3))
        with pytest.raises(ShapeError):
            nn.LossLabels(np.zeros((1, 2, 3, 4), np.float32))
        with pytest.raises(ShapeError):
            nn.LossLabelsBatch(np.zeros((2, 2, 2), np.float32))
        with pytest.raises(ShapeError, match="5 labels and 4 weights"):
            nn.LossLabelsBatch(np.zeros((5, 3), np.float32), np.ones(4, np.float32))

    def test_lists_of_labels_match_images_or_raise(self):
        loss = nn.LossNode(nn.ImageNode("y"), nn.LossDescriptor("mean_squared_error"), label="loss")
        graph = graph_of(loss.result_image)
        y = np.ones((2, 1, 1, 1), np.float32)
        one, weighted, wide = nn.LossLabels([1.0]), nn.LossLabels([1.0], 2.0), nn.LossLabels([1.0, 2.0])
        for error, states in [
            (OutOfRangeError, [one]),
            (OutOfRangeError, []),
            (GraphError, [one, weighted]),
            (ShapeError, [one, wide]),
            (GraphError, [1, 2]),
            (OutOfRangeError, nn.LossLabelsBatch(np.zeros((3, 1), np.float32))),
        ]:
            with pytest.raises(error):
                run(graph, {"y": y}, [states])
