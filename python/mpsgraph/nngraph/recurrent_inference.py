"""Inference of stacks of recurrent layers over matrices and over images, in one direction or both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import CommandBuffer
from .._display import shown
from ..errors import GraphError
from .conversion import array_of
from .matrix import Matrix
from .recurrent import RNNBidirectionalCombineMode, RNNDescriptor, descriptor_checked
from .recurrent_states import RNNRecurrentImageState, RNNRecurrentMatrixState, append_to

Descriptors = RNNDescriptor | Sequence[RNNDescriptor]


class _Inference:
    """What both layers share."""

    def __init__(self, device: Any, rnn_descriptors: Descriptors, float32_weights: bool | None) -> None:
        name = type(self).__name__
        given = [rnn_descriptors] if isinstance(rnn_descriptors, RNNDescriptor) else list(rnn_descriptors)
        descriptors = [descriptor_checked(item, name) for item in given]
        native = [d.native(float32_weights) for d in descriptors]
        self._layer = _core.RecurrentInferenceLayer(name, device, native, float32_weights is not None)
        self.input_feature_channels = descriptors[0].input_feature_channels
        self.output_feature_channels = descriptors[-1].output_feature_channels
        self.recurrent_output_is_temporary = False

    @property
    def number_of_layers(self) -> int:
        """How many layers the stack has. Source: numberOfLayers."""
        return self._layer.layer_count

    @property
    def store_all_intermediate_states(self) -> bool:
        """Does recurrent_output_states get the states of all steps? Source: storeAllIntermediateStates."""
        return self._layer.store_all_intermediate_states

    @store_all_intermediate_states.setter
    def store_all_intermediate_states(self, value: bool) -> None:
        self._layer.store_all_intermediate_states = value

    @property
    def bidirectional_combine_mode(self) -> RNNBidirectionalCombineMode:
        """What becomes of the results of both directions. Source: bidirectionalCombineMode."""
        return RNNBidirectionalCombineMode(self._layer.combine_mode)

    @bidirectional_combine_mode.setter
    def bidirectional_combine_mode(self, value: RNNBidirectionalCombineMode | int) -> None:
        if value not in set(RNNBidirectionalCombineMode):
            raise GraphError(f"bidirectional_combine_mode is {shown(value)} and must be one of its enumeration")
        self._layer.combine_mode = int(value)

    @property
    def compiled(self) -> int:
        """How many executables have been compiled: one for each form of a sequence and each way through it.

        None on device metal, where the layer is Apple's.
        """
        return self._layer.compiled


class RNNMatrixInferenceLayer(_Inference):
    """A stack of recurrent layers over sequences of matrices, with weights that stay as they were loaded.

    Args: device, "cpu" or a Device; rnn_descriptors, a descriptor or one for each layer, from the input on. Their data
    sources are loaded, read and purged here; weights are rounded to float16 unless a descriptor says
    use_float32_weights. Attributes: store_all_intermediate_states, bidirectional_combine_mode,
    recurrent_output_is_temporary (which changes nothing). Errors: GraphError, ShapeError when layers do
    not fit upon each other, DTypeError, UnsupportedError; whatever a data source raises. Sequences are as in
    RNNMatrixTrainingLayer. Source: MPSRNNMatrixInferenceLayer initWithDevice:rnnDescriptors:.

    >>> mg.nngraph.RNNMatrixInferenceLayer("cpu", [mg.nngraph.GRUDescriptor(3, 4), mg.nngraph.GRUDescriptor(4, 5)])
    RNNMatrixInferenceLayer(3 -> 5, 2 layers)
    """

    def __init__(self, device: Any, rnn_descriptors: Descriptors) -> None:
        super().__init__(device, rnn_descriptors, None)

    def __repr__(self) -> str:
        sizes = f"{self.input_feature_channels} -> {self.output_feature_channels}"
        return f"RNNMatrixInferenceLayer({sizes}, {self.number_of_layers} layers)"

    def encode_sequence(
        self,
        command_buffer: CommandBuffer,
        source_matrices: Sequence[Matrix],
        destination_matrices: Sequence[Matrix],
        *,
        source_offsets: Sequence[int] | None = None,
        destination_offsets: Sequence[int] | None = None,
        recurrent_input_state: RNNRecurrentMatrixState | None = None,
        recurrent_output_states: list[RNNRecurrentMatrixState] | None = None,
    ) -> None:
        """Encodes all layers over a sequence, each from the first step to the last.

        Args: source_matrices (rows, I), destination_matrices (rows, H) of the last layer, one for each step; offsets in
        bytes; recurrent_input_state, zeros when None; recurrent_output_states, a list, which the state of the last step
        is appended to, or those of all. Errors: ShapeError, DTypeError, GraphError, DeviceError; then nothing is
        encoded. Source: encodeSequenceToCommandBuffer:sourceMatrices:sourceOffsets:destinationMatrices:
        destinationOffsets:recurrentInputState:recurrentOutputStates: and its short form.
        """
        gives_states = recurrent_output_states is not None
        if gives_states:
            append_to(recurrent_output_states, (), "recurrent_output_states")
        state = _arrays(recurrent_input_state, RNNRecurrentMatrixState)
        found = self._layer.encode_sequence(
            command_buffer, source_matrices, source_offsets, destination_matrices, destination_offsets, state,
            gives_states, False,
        )  # fmt: skip
        if gives_states:
            states = [RNNRecurrentMatrixState.of_arrays(layers) for layers in found]
            append_to(recurrent_output_states, states, "recurrent_output_states")

    def encode_bidirectional_sequence(
        self,
        command_buffer: CommandBuffer,
        source_sequence: Sequence[Matrix],
        destination_forward_matrices: Sequence[Matrix],
        destination_backward_matrices: Sequence[Matrix] | None = None,
    ) -> None:
        """Encodes the layers of the forward direction and those of the backward direction, each stack from zeros.

        Layers of a direction stand upon each other in the descriptors' order; all results are in forward time order.
        Args: source_sequence (rows, I), of equal rows; destination_forward_matrices and destination_backward_matrices,
        (rows, H) of the last layer of each direction; where bidirectional_combine_mode is add or concatenate the first
        get the sum, or both behind each other, (rows, H + H), and there are no second. Errors: as of encode_sequence;
        GraphError when all layers have one direction. Source:
        encodeBidirectionalSequenceToCommandBuffer:sourceSequence:destinationForwardMatrices:
        destinationBackwardMatrices:.
        """
        self._layer.encode_bidirectional_sequence(
            command_buffer, source_sequence, destination_forward_matrices, destination_backward_matrices, False
        )


class RNNImageInferenceLayer(_Inference):
    """A stack of recurrent layers over sequences of images: each pixel is a sequence of its own.

    Args: as of RNNMatrixInferenceLayer; weights are always rounded to float16. A step is an array [N, H, W, C], or what
    has one as `array`, float32 or float16, contiguous. On device metal each pixel is encoded by itself, 4096 at most
    (UnsupportedError), and Apple's states between sequences are float16. Source: MPSRNNImageInferenceLayer
    initWithDevice:rnnDescriptors:.

    >>> layer = mg.nngraph.RNNImageInferenceLayer("cpu", mg.nngraph.RNNSingleGateDescriptor(3, 4))
    >>> images = [np.ones((1, 2, 2, 3), np.float32)] * 2
    >>> results = [np.ones((1, 2, 2, 4), np.float32) for _ in images]
    >>> buffer = mg.CommandQueue("cpu").command_buffer()
    >>> layer.encode_sequence(buffer, images, results)
    >>> buffer.commit(); buffer.wait_until_completed()
    >>> float(results[1].sum())  # there are no weights
    0.0
    """

    def __init__(self, device: Any, rnn_descriptors: Descriptors) -> None:
        super().__init__(device, rnn_descriptors, False)

    def encode_sequence(
        self,
        command_buffer: CommandBuffer,
        source_images: Sequence[Any],
        destination_images: Sequence[Any],
        *,
        recurrent_input_state: RNNRecurrentImageState | None = None,
        recurrent_output_states: list[RNNRecurrentImageState] | None = None,
    ) -> None:
        """Encodes all layers over a sequence, each from the first step to the last.

        Args: source_images [N, H, W, I], destination_images [N, H, W, channels of the last layer], one for each step;
        the states as of RNNMatrixInferenceLayer. Errors: ShapeError, DTypeError, GraphError, DeviceError. Source:
        encodeSequenceToCommandBuffer:sourceImages:destinationImages:recurrentInputState:recurrentOutputStates:.
        """
        gives_states = recurrent_output_states is not None
        if gives_states:
            append_to(recurrent_output_states, (), "recurrent_output_states")
        sources = _images(source_images)
        found = self._layer.encode_sequence(
            command_buffer, sources, None, _images(destination_images), None,
            _arrays(recurrent_input_state, RNNRecurrentImageState), gives_states, True,
        )  # fmt: skip
        if gives_states:
            shapes = [tuple(source.shape[:3]) for source in sources[len(sources) - len(found) :]]
            states = [
                RNNRecurrentImageState([_as_images(layer, shape) for layer in layers])
                for layers, shape in zip(found, shapes, strict=True)
            ]
            append_to(recurrent_output_states, states, "recurrent_output_states")

    def encode_bidirectional_sequence(
        self,
        command_buffer: CommandBuffer,
        source_sequence: Sequence[Any],
        destination_forward_images: Sequence[Any],
        destination_backward_images: Sequence[Any] | None = None,
    ) -> None:
        """As RNNMatrixInferenceLayer's, over images. Source: encodeBidirectionalSequenceToCommandBuffer:sourceSequence:
        destinationForwardImages:destinationBackwardImages:.
        """
        backward = None if destination_backward_images is None else _images(destination_backward_images)
        self._layer.encode_bidirectional_sequence(
            command_buffer, _images(source_sequence), _images(destination_forward_images), backward, True
        )


def _images(steps: Sequence[Any]) -> list[Any]:
    return [array_of(step) for step in steps]


def _as_images(layer: tuple[Any, Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    output, cell = layer
    return _image(output, shape), None if cell is None else _image(cell, shape)


def _image(rows: Any, shape: tuple[int, ...]) -> Any:
    return _core.asarray(rows.numpy().reshape(*shape, -1))


def _arrays(state: Any, kind: type[RNNRecurrentMatrixState | RNNRecurrentImageState]) -> Any:
    if state is None:
        return None
    if not isinstance(state, kind):
        raise GraphError(f"recurrent_input_state is {shown(state)} and must be a {kind.__name__}")
    return state.arrays()
