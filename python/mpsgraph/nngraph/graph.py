"""NNGraph: nodes that run. MPSNNGraph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._core import CommandBuffer, CommandQueue, Device
from .._display import shown
from ..errors import GraphError
from .images import Image, ImageBatch, LossLabels, give_losses, label_arrays


class NNGraph:
    """Nodes as something that runs on a device. Source: MPSNNGraph.

    Args: device, a Device, its name or None for the default; result_image, the image node that encodes give, or a
    sequence of several; result_image_is_needed, False when only the updates on the way matter: then encodes give None
    for it. Filters that lead to no result are left out. Data sources are loaded and purged here, once. Errors:
    GraphError for images that lead to themselves, and whatever data sources raise; errors of a node name it by its
    label and say where it was made.

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
                raise GraphError(f"NNGraph: a result image is an ImageNode, got {shown(image)}")
        needed = (
            [result_image_is_needed] * len(results)
            if isinstance(result_image_is_needed, bool)
            else list(result_image_is_needed)
        )
        self._core = _core.NNGraphCore(device, results, needed)
        self._queue: CommandQueue | None = None

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._core.device

    @property
    def result_images(self) -> list[Any]:
        """The image nodes whose images encodes give."""
        return self._core.result_images

    @property
    def filter_count(self) -> int:
        """Forward and gradient filters that lead to the results."""
        return len(self._core.filters)

    @property
    def source_image_handles(self) -> list[str]:
        """Handles of the inputs, in the order in which encodes take them."""
        return self._core.source_image_handles

    @property
    def source_state_handles(self) -> list[str]:
        """Labels of the loss nodes, and handles of other graphs' states, in the order in which encodes take them."""
        return self._core.source_state_handles

    @property
    def intermediate_image_handles(self) -> list[str]:
        """Handles of the image nodes that are exported, in the order of intermediate_images."""
        return self._core.intermediate_image_handles

    @property
    def result_state_handles(self) -> list[str]:
        """Handles, or else filters' labels, of the states that are exported, in the order of destination_states."""
        return self._core.result_state_handles

    @property
    def format(self) -> str:
        """How intermediate images are stored: "float32", or "float16", which rounds each filter's result. Apple's
        default is float16; here it is float32 on every device."""
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
        """Encodes a batch; it runs when the command buffer does.

        Args:
            source_images: a batch for each of source_image_handles: an ImageBatch, an array [images, height, width,
                channels] or a list of images.
            source_states: for each of source_state_handles a batch of labels, or a state that another graph gave out.
            intermediate_images, results: lists that exported images and the results are appended to.
            destination_states: a list that exported states are appended to, one of a filter for the whole batch:
                ParameterStates of the gradients of its parameters, of a batch normalization also with the batch's mean
                and variance; of a dropout with its "mask", 1 where it keeps.
        Result: the batch of the first result image, or None if it is not needed; it can be read when the command buffer
        is done, and so can all others. Data sources with an update are called here. Errors: ShapeError, DTypeError,
        GraphError, OutOfRangeError for too few labels, DeviceError for labels of a batch that is still under way or a
        state that another queue has yet to write, and whatever data sources raise; then nothing is encoded and nothing
        updated. Source: encodeBatchToCommandBuffer:sourceImages:sourceStates:intermediateImages:destinationStates:.
        """
        if isinstance(source_images, (ImageBatch, str)) or not isinstance(source_images, Sequence):
            raise GraphError("encode_batch takes a list with a batch for each source image: [batch]")
        batches = [b if isinstance(b, ImageBatch) else ImageBatch(b) for b in source_images]
        count = len(batches[0]) if batches else 0
        labels = [label_arrays(states, count, command_buffer) for states in source_states]
        made, exported, losses, left = self._core.encode_batch(
            command_buffer, [batch._operand() for batch in batches], labels
        )
        for states, loss in zip(source_states, losses, strict=True):
            if loss is not None:
                give_losses(states, ImageBatch._of(loss, command_buffer))
        images = [None if array is None else ImageBatch._of(array, command_buffer) for array in made]
        if intermediate_images is not None:
            intermediate_images += [ImageBatch._of(array, command_buffer) for array in exported]
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
        """Encodes one image of each input. As encode_batch. Source: encodeToCommandBuffer:sourceImages:…."""
        result = self.encode_batch(command_buffer, [[image] for image in source_images], [[s] for s in source_states])
        return None if result is None else result[0]

    def execute_async(
        self,
        source_images: Sequence[Any],
        completion_handler: Callable[[ImageBatch | None, BaseException | None], Any],
        source_states: Sequence[Any] = (),
    ) -> ImageBatch | None:
        """Encodes and commits a batch to a queue of the graph's own; completion_handler(result, error) is called on
        another thread when it is done. Source: executeAsyncWithSourceImages:completionHandler:."""
        if self._queue is None:
            self._queue = CommandQueue(self.device)
        buffer = self._queue.command_buffer()
        result = self.encode_batch(buffer, source_images, source_states)
        buffer.add_completed_handler(lambda done: completion_handler(result, done.error))
        buffer.commit()
        return result

    def __call__(self, *source_images: Any) -> ImageBatch | None:
        """Runs a batch on the device's default queue and waits. For trying things out."""
        buffer = self.device.default_queue.command_buffer()
        result = self.encode_batch(buffer, source_images)
        buffer.commit()
        buffer.wait_until_completed()
        return result

    def reload_from_data_sources(self) -> None:
        """Takes the parameters from the data sources anew. All work of this graph, and of graphs that train the same
        sources, must be finished. Source: reloadFromDataSources."""
        self._core.reload_from_data_sources()

    def __repr__(self) -> str:
        return f"NNGraph({self.filter_count} filters, device {self.device.name})"
