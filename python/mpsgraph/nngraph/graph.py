"""Executable graphs of filter nodes: MPSNNGraph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._core import CommandBuffer, CommandQueue, Device
from .._display import shown
from ..errors import GraphError
from .images import Image, ImageBatch, LossLabels, batch_written_by, give_losses, label_arrays, operand_of


class NNGraph:
    """Executable graph of the filter nodes that lead to a result image.

    Filters that do not lead to a result are left out. The constructor loads each data source, copies its parameters,
    and purges it. Errors about a node contain its label and the source line that created it.

    Args:
        device: Device to run on: a Device, its name, or None for the default device.
        result_image: Image node whose images encode_batch returns, or a sequence of several.
        result_image_is_needed: Whether encode_batch returns the result image; one bool, or one per result image. Pass
            False if only weight updates are wanted; encode_batch then returns None. Defaults to True.

    Raises:
        GraphError: If a result image is not an ImageNode made by a filter, the nodes form a cycle, the graph has
            nothing to do, or a data source fails to load.
        ShapeError: If parameters do not have the shapes that their data source describes.
        DTypeError: If parameters have an unsupported dtype.
        UnsupportedError: If the device does not support a node.

    Exceptions raised by data sources propagate unchanged.

    Source: MPSNNGraph.

    Example:
        >>> nn = mg.nngraph
        >>> graph = nn.NNGraph(None, nn.NeuronReLUNode(nn.ImageNode("x")).result_image)
        >>> graph(np.float32([[[[-1.0, 2.0]]]])).numpy().ravel().tolist()
        [0.0, 2.0]
    """

    def __init__(
        self,
        device: Device | str | None,
        result_image: Any,
        result_image_is_needed: bool | Sequence[bool] = True,
    ) -> None:
        results = list(result_image) if isinstance(result_image, (list, tuple)) else [result_image]
        for image in results:
            if not isinstance(image, _core.ImageNode):
                raise GraphError(f"NNGraph: result_image must be an ImageNode or a list of them, got {shown(image)}")
        needed = (
            [result_image_is_needed] * len(results)
            if isinstance(result_image_is_needed, bool)
            else list(result_image_is_needed)
        )
        self._core = _core.NNGraphCore(device, results, needed)
        self._queue: CommandQueue | None = None

    @property
    def device(self) -> Device:
        """Device that the graph runs on."""
        return self._core.device

    @property
    def result_images(self) -> list[Any]:
        """Image nodes whose images encode_batch returns."""
        return self._core.result_images

    @property
    def filter_count(self) -> int:
        """Number of forward and gradient filters that lead to the results."""
        return len(self._core.filters)

    @property
    def source_image_handles(self) -> list[str]:
        """Handles of the input image nodes, in the order of the batches in source_images."""
        return self._core.source_image_handles

    @property
    def source_state_handles(self) -> list[str]:
        """Labels of the loss nodes and handles of states from other graphs, in the order of source_states."""
        return self._core.source_state_handles

    @property
    def intermediate_image_handles(self) -> list[str]:
        """Handles of the exported image nodes, in the order of intermediate_images."""
        return self._core.intermediate_image_handles

    @property
    def result_state_handles(self) -> list[str]:
        """Names of the exported states, in the order of destination_states.

        A name is the handle of the state, or the label of its filter if the state has no handle.
        """
        return self._core.result_state_handles

    @property
    def format(self) -> str:
        """Storage format of intermediate images: "float32", or "float16" to round the result of each filter.

        The default is float32 on every device; Apple's default is float16.
        """
        return self._core.format

    @format.setter
    def format(self, format: str) -> None:
        self._core.format = format

    def encode_batch(
        self,
        command_buffer: CommandBuffer,
        source_images: Sequence[Any],
        source_states: Sequence[Any] = (),
        intermediate_images: list[ImageBatch] | None = None,
        results: list[ImageBatch | None] | None = None,
        *,
        destination_states: list[_core.NNParameterState] | None = None,
    ) -> ImageBatch | None:
        """Encode a batch, which runs when the command buffer runs.

        The `update` methods of data sources are called during this call. If one of them raises an exception, nothing is
        encoded and no parameters are updated.

        Args:
            command_buffer: Command buffer of the graph's device.
            source_images: One batch for each of source_image_handles: an ImageBatch, an array of shape (images, height,
                width, channels), or a list of images.
            source_states: For each of source_state_handles, a batch of labels or a state exported by another graph.
                Empty by default.
            intermediate_images: List to which the exported images are appended, or None (the default).
            results: List to which the batches of all result images are appended, or None (the default).
            destination_states: List to which the exported states are appended, or None (the default). Each is a
                ParameterState of one filter for the whole batch: gradients of its parameters (for batch normalization
                also the batch's mean and variance), or the "mask" of a dropout, which is 1 where a value is kept.

        Returns:
            The batch of the first result image, or None if it is not needed. Results can be read once the command
            buffer has completed.

        Raises:
            ShapeError: If an image or label has the wrong shape, or batches differ in size.
            DTypeError: If images have an unsupported dtype, or labels or weights are not float32.
            GraphError: If the number of batches or states is wrong.
            OutOfRangeError: If there are more or fewer labels than images.
            DeviceError: If command_buffer belongs to another device, the labels belong to a batch in flight, or another
                queue has not written a state yet.

        Exceptions raised by data sources propagate unchanged.

        Source: encodeBatchToCommandBuffer:sourceImages:sourceStates:intermediateImages:destinationStates:.
        """
        if isinstance(source_images, (ImageBatch, str)) or not isinstance(source_images, Sequence):
            raise GraphError(
                "encode_batch: source_images must be a list with one batch per input, such as [batch], "
                f"got {shown(source_images)}"
            )
        batches = [b if isinstance(b, ImageBatch) else ImageBatch(b) for b in source_images]
        count = len(batches[0]) if batches else 0
        labels = [label_arrays(states, count, command_buffer) for states in source_states]
        made, exported, losses, left = self._core.encode_batch(
            command_buffer, [operand_of(batch) for batch in batches], labels
        )
        for states, loss in zip(source_states, losses, strict=True):
            if loss is not None:
                give_losses(states, batch_written_by(loss, command_buffer))
        images = [None if array is None else batch_written_by(array, command_buffer) for array in made]
        if intermediate_images is not None:
            intermediate_images += [batch_written_by(array, command_buffer) for array in exported]
        if results is not None:
            results += images
        if destination_states is not None:
            destination_states += left
        return images[0]

    def encode(
        self,
        command_buffer: CommandBuffer,
        source_images: Sequence[Image],
        source_states: Sequence[LossLabels] = (),
    ) -> Image | None:
        """Encode a batch with one image for each input.

        Args:
            command_buffer: Command buffer of the graph's device.
            source_images: One image for each of source_image_handles.
            source_states: One LossLabels for each of source_state_handles. Empty by default.

        Returns:
            The first result image, or None if it is not needed.

        Raises:
            ShapeError: If an image or label has the wrong shape.
            DTypeError: If images have an unsupported dtype, or labels or weights are not float32.
            GraphError: If the number of images or states is wrong.
            DeviceError: If command_buffer belongs to another device, or the labels belong to a batch in flight.

        Source: encodeToCommandBuffer:sourceImages:….
        """
        result = self.encode_batch(command_buffer, [[image] for image in source_images], [[s] for s in source_states])
        return None if result is None else result[0]

    def execute_async(
        self,
        source_images: Sequence[Any],
        completion_handler: Callable[[ImageBatch | None, BaseException | None], Any],
        source_states: Sequence[Any] = (),
    ) -> ImageBatch | None:
        """Encode a batch and commit it to a queue that the graph owns.

        Args:
            source_images: One batch for each of source_image_handles, as in encode_batch.
            completion_handler: Function called with (result, error) on another thread when the batch has completed;
                error is None on success.
            source_states: One batch of labels or one state for each of source_state_handles. Empty by default.

        Returns:
            The batch of the first result image, or None if it is not needed. The result can be read once the run has
            completed.

        Raises:
            ShapeError: If an image or label has the wrong shape, or batches differ in size.
            DTypeError: If images have an unsupported dtype, or labels or weights are not float32.
            GraphError: If the number of batches or states is wrong.
            OutOfRangeError: If there are more or fewer labels than images.
            DeviceError: If the labels belong to a batch in flight, or another queue has not written a state yet.

        Source: executeAsyncWithSourceImages:completionHandler:.
        """
        if self._queue is None:
            self._queue = CommandQueue(self.device)
        buffer = self._queue.command_buffer()
        result = self.encode_batch(buffer, source_images, source_states)
        buffer.add_completed_handler(lambda done: completion_handler(result, done.error))
        buffer.commit()
        return result

    def __call__(self, *source_images: Any) -> ImageBatch | None:
        """Run a batch on the device's default queue and wait for it; meant for experiments.

        Args:
            *source_images: One batch for each of source_image_handles, as in encode_batch.

        Returns:
            The batch of the first result image, or None if it is not needed.

        Raises:
            ShapeError: If an image has the wrong shape, or batches differ in size.
            DTypeError: If images have an unsupported dtype.
            GraphError: If the number of batches is wrong, or the graph needs source states.
        """
        buffer = self.device.default_queue.command_buffer()
        result = self.encode_batch(buffer, source_images)
        buffer.commit()
        buffer.wait_until_completed()
        return result

    def reload_from_data_sources(self) -> None:
        """Read the parameters from the data sources again.

        All work of this graph, and of graphs that train the same data sources, must have completed.

        Raises:
            GraphError: If a data source fails to load.
            ShapeError: If parameters do not have the shapes that their data source describes.
            DTypeError: If parameters have an unsupported dtype.

        Source: reloadFromDataSources.
        """
        self._core.reload_from_data_sources()

    def __repr__(self) -> str:
        return f"NNGraph({self.filter_count} filters, device {self.device.name})"


def core_of(graph: NNGraph) -> _core.NNGraphCore:
    """Return the part of an NNGraph that C++ implements."""
    return graph._core
