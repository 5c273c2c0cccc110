"""Training of a recurrent layer over sequences of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import CommandBuffer, RNNMatrixTrainingState
from .._display import shown
from .._dtypes import DTypeLike
from ..errors import GraphError
from .matrix import Matrix
from .recurrent import RNNDescriptor, RNNMatrixId, descriptor_checked
from .recurrent_states import RNNRecurrentMatrixState, append_to

Offsets = Sequence[int] | None
State = RNNRecurrentMatrixState | None


class RNNMatrixTrainingLayer:
    """Recurrent layer for training, whose weights are matrices that the caller owns and updates.

    A sequence is a list with one matrix per time step, always in forward time order. Rows are sequences, columns are
    feature channels, and the dtype is float32 or float16. The number of rows may decrease with time if the longest
    sequences come first. On the CPU device, matrices that are views of one array [T, N, C] or [N, T, C] are used in
    place, and others are copied (counted by mg.copy_count). On the Metal device, all matrices whose memory the device
    can map are used in place.

    Work is only encoded; nothing runs before the command buffer is committed. On the CPU device, the layer is compiled
    once for each combination of sequence length, matrix sizes, and dtypes. On the Metal device, Apple's own layer runs.

    A layer has one direction; layer_sequence_direction is for inference. Some cells cannot be expressed as recurrent
    operations of the graph: those with matrix peepholes or peepholes of the output gate, p-norms, minimally gated
    units, and activation functions other than none, sigmoid, and tanh. They are unrolled step by step, and their
    gradients recompute the forward pass.

    Args:
        device: Device to run on: a Device, its name, or None for the default device.
        rnn_descriptor: RNNSingleGateDescriptor, LSTMDescriptor, or GRUDescriptor. Its data sources are loaded, read,
            and purged by the constructor.
        trainable_weights: Empty list, to which matrices with the data sources' weights are appended. They are float32
            if the descriptor's use_float32_weights is set, otherwise float16. Their number and layout depend on the
            device; use encode_copy_weights to access the weights of a gate.

    Attributes:
        accumulate_weight_gradients: Whether weight gradients are added to their matrices. Defaults to False.
        store_all_intermediate_states: Whether recurrent_output_states receives the states of all steps. Defaults to
            False.
        recurrent_output_is_temporary: Has no effect; exists for compatibility with Apple's API.
        training_state_is_temporary: Has no effect; exists for compatibility with Apple's API.

    Raises:
        GraphError: If trainable_weights is not an empty list, rnn_descriptor is not that of a recurrent layer, or a
            data source lacks a member or fails to load.
        ShapeError: If weights have the wrong shape.
        DTypeError: If weights are not float32 or float16.
        UnsupportedError: If an activation function is PReLU. On the Metal device, also for a layer without weights.

    Exceptions raised by data sources propagate unchanged.

    Source: MPSRNNMatrixTrainingLayer initWithDevice:rnnDescriptor:trainableWeights:.

    Example:
        >>> weights = []
        >>> layer = mg.nngraph.RNNMatrixTrainingLayer("cpu", mg.nngraph.RNNSingleGateDescriptor(2, 2), weights)
        >>> len(weights)  # without data sources all weights are zeros, and there is none to train
        0
    """

    def __init__(self, device: Any, rnn_descriptor: RNNDescriptor, trainable_weights: list[Matrix]) -> None:
        _require_empty(trainable_weights, "trainable_weights")
        descriptor = descriptor_checked(rnn_descriptor, "RNNMatrixTrainingLayer")
        self.input_feature_channels = descriptor.input_feature_channels
        self.output_feature_channels = descriptor.output_feature_channels
        self._layer = _core.RecurrentTrainingLayer(device, descriptor.native())
        self.recurrent_output_is_temporary = False
        self.training_state_is_temporary = False
        trainable_weights.extend(Matrix(array) for array in self._layer.initial_weights())

    @property
    def accumulate_weight_gradients(self) -> bool:
        """Whether weight gradients are added to the contents of their matrices. Defaults to False.

        Source: accumulateWeightGradients.
        """
        return self._layer.accumulate_weight_gradients

    @accumulate_weight_gradients.setter
    def accumulate_weight_gradients(self, value: bool) -> None:
        self._layer.accumulate_weight_gradients = value

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
    def compiled(self) -> int:
        """Number of executables compiled so far, one for each combination of sizes and dtypes and each pass.

        None on the Metal device, where Apple's own layer runs.
        """
        return self._layer.compiled

    # --- weights ------------------------------------------------------------------------------------------------------

    def create_weight_matrices(self, matrices: list[Matrix]) -> None:
        """Append zero matrices with the sizes and dtype of trainable_weights to an empty list.

        Args:
            matrices: Empty list.

        Raises:
            GraphError: If matrices is not an empty list.

        Source: createWeightMatrices:.
        """
        _require_empty(matrices, "matrices")
        matrices.extend(Matrix(array) for array in self._layer.zeros(None))

    def create_weight_gradient_matrices(self, matrices: list[Matrix], data_type: DTypeLike = "float32") -> None:
        """Append zero matrices for weight gradients, or for an optimizer's moments, to an empty list.

        Args:
            matrices: Empty list.
            data_type: float32 (the default) or float16.

        Raises:
            GraphError: If matrices is not an empty list.
            DTypeError: If data_type is not float32 or float16.

        Source: createWeightGradientMatrices:dataType:.
        """
        _require_empty(matrices, "matrices")
        matrices.extend(Matrix(array) for array in self._layer.zeros(data_type))

    def encode_copy_weights(
        self,
        command_buffer: CommandBuffer,
        weights: Sequence[Matrix],
        matrix_id: RNNMatrixId | int,
        matrix: Matrix,
        copy_from_weights_to_matrix: bool,
        matrix_offset: tuple[int, int] = (0, 0),
    ) -> None:
        """Encode a copy of one gate's weights from the layer's matrices or into them.

        Args:
            command_buffer: Command buffer of the layer's device.
            weights: The layer's weight matrices, or their gradients.
            matrix_id: Which weights to copy.
            matrix: Matrix of the same dtype, (outputs, inputs), or 1 x H for biases and diagonal memory weights.
            copy_from_weights_to_matrix: True to copy from weights to matrix, False to copy from matrix to weights.
            matrix_offset: (row, column) in matrix at which the copied part starts. Defaults to (0, 0).

        Raises:
            GraphError: If the layer has no such weights, or the number of matrices in weights is wrong.
            ShapeError: If the weights do not fit into matrix.
            DTypeError: If the dtypes of weights and matrix differ.
            DeviceError: If weights and matrix share memory, or the destination is read-only.

        Source: encodeCopyWeightsToCommandBuffer:weights:matrixId:matrix:copyFromWeightsToMatrix:matrixOffset:.
        """
        row, column = matrix_offset
        self._layer.encode_copy_weights(
            command_buffer, weights, int(matrix_id), matrix, copy_from_weights_to_matrix, row, column
        )

    # --- sequences ----------------------------------------------------------------------------------------------------

    def encode_forward_sequence(
        self,
        command_buffer: CommandBuffer,
        source_matrices: Sequence[Matrix],
        destination_matrices: Sequence[Matrix],
        training_states: list[RNNMatrixTrainingState],
        weights: Sequence[Matrix],
        *,
        source_offsets: Offsets = None,
        destination_offsets: Offsets = None,
        recurrent_input_state: State = None,
        recurrent_output_states: list[RNNRecurrentMatrixState] | None = None,
    ) -> None:
        """Encode the forward pass over a sequence.

        Args:
            command_buffer: Command buffer of the layer's device.
            source_matrices: Inputs, one matrix of shape (rows, I) for each step.
            destination_matrices: Outputs, one matrix of shape (rows, H) for each step, in separate memory.
            training_states: Empty list, to which the states for encode_gradient_sequence are appended.
            weights: trainable_weights. Their values are read when the command buffer runs.
            source_offsets: Byte offset of each source within its buffer. None (the default) means 0.
            destination_offsets: Byte offset of each destination within its buffer. None (the default) means 0.
            recurrent_input_state: Initial state. None (the default) means zeros.
            recurrent_output_states: List to which the state after the last step is appended, or, with
                store_all_intermediate_states, the states after all steps. None (the default) means that no state is
                needed.

        Raises:
            ShapeError: If the number or sizes of the matrices do not match.
            DTypeError: If a matrix has an unsupported dtype.
            GraphError: If training_states is not an empty list, or a state or the number of weights is invalid.
            DeviceError: If sources and destinations share memory, a destination is read-only, or command_buffer belongs
                to another device or is already committed.
            UnsupportedError: On the Metal device, if weights do not have the layer's own dtype and layout.

        If a call raises, nothing is encoded and no list is changed.

        Source: encodeForwardSequenceToCommandBuffer:sourceMatrices:sourceOffsets:destinationMatrices:
        destinationOffsets:trainingStates:recurrentInputState:recurrentOutputStates:weights: and its short form.
        """
        _require_empty(training_states, "training_states")
        gives_states = recurrent_output_states is not None
        if gives_states:
            append_to(recurrent_output_states, (), "recurrent_output_states")
        states, found = self._layer.encode_forward(
            command_buffer,
            source_matrices,
            source_offsets,
            destination_matrices,
            destination_offsets,
            weights,
            _arrays(recurrent_input_state),
            gives_states,
        )
        training_states.extend(states)
        if gives_states:
            last = [RNNRecurrentMatrixState.of_arrays([layer]) for layer in found]
            append_to(recurrent_output_states, last, "recurrent_output_states")

    def encode_gradient_sequence(
        self,
        command_buffer: CommandBuffer,
        forward_sources: Sequence[Matrix],
        source_gradients: Sequence[Matrix],
        destination_gradients: Sequence[Matrix] | None,
        weight_gradients: Sequence[Matrix] | None,
        training_states: Sequence[RNNMatrixTrainingState],
        weights: Sequence[Matrix],
        *,
        forward_source_offsets: Offsets = None,
        source_gradient_offsets: Offsets = None,
        destination_offsets: Offsets = None,
        recurrent_input_state: State = None,
        recurrent_output_states: list[RNNRecurrentMatrixState] | None = None,
    ) -> None:
        """Encode the gradients of a sequence by backpropagation through time.

        All lists are in forward time order.

        Args:
            command_buffer: Command buffer of the layer's device.
            forward_sources: source_matrices of the forward pass.
            source_gradients: Gradients of the forward pass's outputs, (rows, H).
            destination_gradients: Matrices for the gradients of the inputs, (rows, I). None omits them.
            weight_gradients: Matrices from create_weight_gradient_matrices for the weight gradients, which are summed
                over time and rows. None omits them.
            training_states: List filled by the forward pass. The states can be used once.
            weights: The same weights as in the forward pass.
            forward_source_offsets: Byte offset of each forward source within its buffer. None (the default) means 0.
            source_gradient_offsets: Byte offset of each source gradient within its buffer. None (the default) means 0.
            destination_offsets: Byte offset of each destination gradient within its buffer. None (the default) means 0.
            recurrent_input_state: Gradient of the state after the last step. None (the default) means zeros.
            recurrent_output_states: List to which the gradient of the initial state is appended. None (the default)
                means that the gradient is not needed.

        Raises:
            ShapeError: If the number or sizes of the matrices do not match.
            DTypeError: If a matrix has an unsupported dtype.
            GraphError: If the training states are those of another layer or sequence or have been used, or there is
                nothing to compute.
            DeviceError: If inputs and results share memory, a result is read-only, or command_buffer belongs to another
                device or is already committed.
            UnsupportedError: If recurrent_input_state is passed for a sequence whose number of rows decreases. On the
                Metal device, also if any recurrent state is passed.

        If a call raises, nothing is encoded.

        Source: encodeGradientSequenceToCommandBuffer:forwardSources:forwardSourceOffsets:sourceGradients:
        sourceGradientOffsets:destinationGradients:destinationOffsets:weightGradients:trainingStates:
        recurrentInputState:recurrentOutputStates:weights: and its short form.
        """
        gives_states = recurrent_output_states is not None
        if gives_states:
            append_to(recurrent_output_states, (), "recurrent_output_states")
        found = self._layer.encode_gradient(
            command_buffer,
            forward_sources,
            forward_source_offsets,
            source_gradients,
            source_gradient_offsets,
            destination_gradients,
            destination_offsets,
            weight_gradients,
            list(training_states),
            weights,
            _arrays(recurrent_input_state),
            gives_states,
        )
        if gives_states:
            state = RNNRecurrentMatrixState.of_arrays([found])
            append_to(recurrent_output_states, [state], "recurrent_output_states")


def _arrays(state: State) -> list[tuple[Any, Any]] | None:
    if state is not None and not isinstance(state, RNNRecurrentMatrixState):
        raise GraphError(f"recurrent_input_state must be an RNNRecurrentMatrixState, got {shown(state)}")
    return None if state is None else state.arrays()


def _require_empty(items: Any, name: str) -> None:
    if not isinstance(items, list):
        raise GraphError(f"{name} must be an empty list, to which results are appended, got {shown(items)}")
    if items:
        raise GraphError(f"{name} must be empty, got {len(items)} items; pass a new list or clear it")
