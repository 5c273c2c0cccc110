"""Inference with stacks of recurrent layers over matrices and images, in one or both directions."""

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
    """Base of the inference layers."""

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
        """Number of layers in the stack.

        Source: numberOfLayers.
        """
        return self._layer.layer_count

    @property
    def store_all_intermediate_states(self) -> bool:
        """Whether recurrent_output_states receives the states of all steps instead of only the last state. Defaults to
        False.

        Source: storeAllIntermediateStates.
        """
        return self._layer.store_all_intermediate_states

    @store_all_intermediate_states.setter
    def store_all_intermediate_states(self, value: bool) -> None:
        self._layer.store_all_intermediate_states = value

    @property
    def bidirectional_combine_mode(self) -> RNNBidirectionalCombineMode:
        """Combination of the results of both directions. Defaults to none.

        Source: bidirectionalCombineMode.
        """
        return RNNBidirectionalCombineMode(self._layer.combine_mode)

    @bidirectional_combine_mode.setter
    def bidirectional_combine_mode(self, value: RNNBidirectionalCombineMode | int) -> None:
        if value not in set(RNNBidirectionalCombineMode):
            raise GraphError(
                "bidirectional_combine_mode must be an RNNBidirectionalCombineMode "
                f"({', '.join(mode.name for mode in RNNBidirectionalCombineMode)}), got {shown(value)}"
            )
        self._layer.combine_mode = int(value)

    @property
    def compiled(self) -> int:
        """Number of executables compiled so far, one for each combination of sizes, dtypes, and direction.

        None on the Metal device, where Apple's own layer runs.
        """
        return self._layer.compiled


class RNNMatrixInferenceLayer(_Inference):
    """Stack of recurrent layers over sequences of matrices, with fixed weights.

    The data sources are loaded, read, and purged by the constructor. A sequence is a list of matrices, as in
    RNNMatrixTrainingLayer.

    Args:
        device: Device to run on: a Device, its name, or None for the default device.
        rnn_descriptors: Descriptor of the layer, or a sequence of descriptors, one for each layer, starting at the
            input. Weights are rounded to float16 unless a descriptor's use_float32_weights is set.

    Attributes:
        store_all_intermediate_states: Whether encode_sequence returns the states of all steps. Defaults to False.
        bidirectional_combine_mode: Combination of the results of both directions. Defaults to none.
        recurrent_output_is_temporary: Has no effect; exists for compatibility with Apple's API.

    Raises:
        GraphError: If a descriptor is not that of a recurrent layer, or a data source lacks a member or fails to load.
        ShapeError: If the input size of a layer differs from the output size of the previous one, or weights have the
            wrong shape.
        DTypeError: If weights are not float32 or float16.
        UnsupportedError: If an activation function is PReLU, or the device does not support the layer.

    Exceptions raised by data sources propagate unchanged.

    Source: MPSRNNMatrixInferenceLayer initWithDevice:rnnDescriptors:.

    Example:
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
        """Encode all layers over a sequence, from the first step to the last.

        Args:
            command_buffer: Command buffer of the layer's device.
            source_matrices: Inputs, one matrix of shape (rows, I) for each step.
            destination_matrices: Results of the last layer, one matrix of shape (rows, H) for each step.
            source_offsets: Byte offset of each source within its buffer. None (the default) means 0.
            destination_offsets: Byte offset of each destination within its buffer. None (the default) means 0.
            recurrent_input_state: Initial state. None (the default) means zeros.
            recurrent_output_states: List to which the state after the last step is appended, or, with
                store_all_intermediate_states, the states after all steps. None (the default) means that no state is
                needed.

        Raises:
            ShapeError: If the number or sizes of the matrices do not match.
            DTypeError: If a matrix is not float32 or float16.
            GraphError: If recurrent_input_state or recurrent_output_states is invalid.
            DeviceError: If sources and destinations share memory, a destination is read-only, or command_buffer belongs
                to another device or is already committed.

        If a call raises, nothing is encoded.

        Source: encodeSequenceToCommandBuffer:sourceMatrices:sourceOffsets:destinationMatrices:destinationOffsets:
        recurrentInputState:recurrentOutputStates: and its short form.
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
        """Encode the forward and the backward layers over a sequence, both starting from zero states.

        The layers of each direction are stacked in the order of the descriptors. All results are in forward time order.

        Args:
            command_buffer: Command buffer of the layer's device.
            source_sequence: Inputs, one matrix of shape (rows, I) for each step, all with the same number of rows.
            destination_forward_matrices: Results of the forward direction, (rows, H). With
                bidirectional_combine_mode=add they receive the sum of both directions, with concatenate both results
                side by side, (rows, H + H).
            destination_backward_matrices: Results of the backward direction, (rows, H); None (the default) if the
                combine mode is add or concatenate.

        Raises:
            ShapeError: If the number or sizes of the matrices do not match.
            DTypeError: If a matrix is not float32 or float16.
            GraphError: If all layers have the same direction, or destination_backward_matrices is not passed or omitted
                as the combine mode requires.
            UnsupportedError: If the number of rows changes with time.
            DeviceError: If sources and destinations share memory, a destination is read-only, or command_buffer belongs
                to another device or is already committed.

        If a call raises, nothing is encoded.

        Source: encodeBidirectionalSequenceToCommandBuffer:sourceSequence:destinationForwardMatrices:
        destinationBackwardMatrices:.
        """
        self._layer.encode_bidirectional_sequence(
            command_buffer, source_sequence, destination_forward_matrices, destination_backward_matrices, False
        )


class RNNImageInferenceLayer(_Inference):
    """Stack of recurrent layers over sequences of images, in which each pixel is an independent sequence.

    A step is a contiguous array of shape (N, H, W, C), float32 or float16, or an object with such an array as its
    `array` attribute. On the Metal device, pixels are encoded one by one, and states that are carried over between
    sequences are float16.

    Args:
        device: Device to run on: a Device, its name, or None for the default device.
        rnn_descriptors: Descriptor of the layer, or a sequence of descriptors, one for each layer, starting at the
            input. Weights are always rounded to float16.

    Attributes:
        store_all_intermediate_states: Whether encode_sequence returns the states of all steps. Defaults to False.
        bidirectional_combine_mode: Combination of the results of both directions. Defaults to none.
        recurrent_output_is_temporary: Has no effect; exists for compatibility with Apple's API.

    Raises:
        GraphError: If a descriptor is not that of a recurrent layer, or a data source lacks a member or fails to load.
        ShapeError: If the input size of a layer differs from the output size of the previous one, or weights have the
            wrong shape.
        DTypeError: If weights are not float32 or float16.
        UnsupportedError: If an activation function is PReLU, or the device does not support the layer.

    Exceptions raised by data sources propagate unchanged.

    Source: MPSRNNImageInferenceLayer initWithDevice:rnnDescriptors:.

    Example:
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
        """Encode all layers over a sequence, from the first step to the last.

        Args:
            command_buffer: Command buffer of the layer's device.
            source_images: Inputs, one array of shape (N, H, W, input channels) for each step.
            destination_images: Results of the last layer, one writable array of shape (N, H, W, output channels) for
                each step.
            recurrent_input_state: Initial state. None (the default) means zeros.
            recurrent_output_states: List to which the state after the last step is appended, or, with
                store_all_intermediate_states, the states after all steps. None (the default) means that no state is
                needed.

        Raises:
            ShapeError: If the number or shapes of the images do not match, or an array is not contiguous.
            DTypeError: If an image is not float32 or float16.
            GraphError: If recurrent_input_state or recurrent_output_states is invalid.
            DeviceError: If sources and destinations share memory, a destination is read-only, or command_buffer belongs
                to another device or is already committed.
            UnsupportedError: On the Metal device, if a step has more than 4096 pixels.

        If a call raises, nothing is encoded.

        Source: encodeSequenceToCommandBuffer:sourceImages:destinationImages:recurrentInputState:recurrentOutputStates:.
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
        """Encode the forward and the backward layers over a sequence of images, both starting from zero states.

        The layers of each direction are stacked in the order of the descriptors. All results are in forward time order.

        Args:
            command_buffer: Command buffer of the layer's device.
            source_sequence: Inputs, one array of shape (N, H, W, input channels) for each step.
            destination_forward_images: Results of the forward direction, (N, H, W, output channels). With
                bidirectional_combine_mode=add they receive the sum of both directions, with concatenate both results
                along the channels.
            destination_backward_images: Results of the backward direction; None (the default) if the combine mode is
                add or concatenate.

        Raises:
            ShapeError: If the number or shapes of the images do not match, or an array is not contiguous.
            DTypeError: If an image is not float32 or float16.
            GraphError: If all layers have the same direction, or destination_backward_images is not passed or omitted
                as the combine mode requires.
            DeviceError: If sources and destinations share memory, a destination is read-only, or command_buffer belongs
                to another device or is already committed.
            UnsupportedError: On the Metal device, if a step has more than 4096 pixels.

        If a call raises, nothing is encoded.

        Source:
        encodeBidirectionalSequenceToCommandBuffer:sourceSequence:destinationForwardImages:destinationBackwardImages:.
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
        raise GraphError(f"recurrent_input_state must be an {kind.__name__}, got {shown(state)}")
    return state.arrays()
