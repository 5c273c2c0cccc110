"""Training of one recurrent layer over sequences of matrices."""

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
    """A recurrent layer whose weights are matrices that the caller owns and updates.

    A sequence is a list of matrices, one for each time step, in forward time order everywhere: rows are sequences,
    columns feature channels, float32 or float16. Rows may fall with time, the longest sequences first. On device cpu
    matrices that are views of one array [T, N, C] or [N, T, C] are read and written in place, and others pass through
    a copy (mg.copy_count); on metal all are read and written in place, whose memory the device can map. Work is
    encoded; nothing runs before the command buffer is committed. On device cpu each form of a sequence compiles once;
    on metal Apple's own layer runs.

    Args:
        device: "cpu" or a Device. rnn_descriptor: RNNSingleGateDescriptor, LSTMDescriptor or GRUDescriptor; its data
            sources are loaded, read and purged here, and what they raise reaches the caller.
        trainable_weights: an empty list, which is filled with matrices of the sources' weights, float32 when the
            descriptor says use_float32_weights, else float16. Their number and layout are the layer's own affair:
            encode_copy_weights tells them apart.
    Attributes: accumulate_weight_gradients (False): gradients of weights are added to what is there;
    store_all_intermediate_states (False): recurrent_output_states gets the states of all steps, not of the last;
    recurrent_output_is_temporary, training_state_is_temporary (False), which change nothing.
    Errors: GraphError, ShapeError, DTypeError, UnsupportedError for PReLU, and on device metal for what Apple does not
    document: a layer without weights, weights of another type or layout than the layer's own, states of gradients.
    A layer has one direction; layer_sequence_direction is for inference. Cells that the graph's operations cannot say
    (peepholes that are matrices or of the output gate, p-norms, minimally gated units, neurons other than none, sigmoid
    and tanh) are written out step by step and compute the forward pass again for their gradients. Source:
    MPSRNNMatrixTrainingLayer initWithDevice:rnnDescriptor:trainableWeights:.

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
        """Are gradients of weights added to what their matrices hold? Source: accumulateWeightGradients."""
        return self._layer.accumulate_weight_gradients

    @accumulate_weight_gradients.setter
    def accumulate_weight_gradients(self, value: bool) -> None:
        self._layer.accumulate_weight_gradients = value

    @property
    def store_all_intermediate_states(self) -> bool:
        """Does recurrent_output_states get the states of all steps? Source: storeAllIntermediateStates."""
        return self._layer.store_all_intermediate_states

    @store_all_intermediate_states.setter
    def store_all_intermediate_states(self, value: bool) -> None:
        self._layer.store_all_intermediate_states = value

    @property
    def compiled(self) -> int:
        """How many executables have been compiled: one for each form of a sequence and each way through it.

        None on device metal, where the layer is Apple's.
        """
        return self._layer.compiled

    # --- weights ------------------------------------------------------------------------------------------------------

    def create_weight_matrices(self, matrices: list[Matrix]) -> None:
        """Fills an empty list with zeroed matrices that may stand for trainable_weights: of their sizes and type.

        Errors: GraphError when it is not empty. Source: createWeightMatrices:.
        """
        _require_empty(matrices, "matrices")
        matrices.extend(Matrix(array) for array in self._layer.zeros(None))

    def create_weight_gradient_matrices(self, matrices: list[Matrix], data_type: DTypeLike = "float32") -> None:
        """Fills an empty list with zeroed matrices for gradients of the weights, or for moments of an optimizer.

        Args: data_type, float32 or float16. Errors: GraphError when the list is not empty, DTypeError. Source:
        createWeightGradientMatrices:dataType:.
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
        """Copies the weights of one gate out of the layer's matrices, or into them.

        Args: weights, the layer's, or gradients of them; matrix_id, whose; matrix, of the same type, (outputs, inputs),
        1 x H for biases and diagonal memory weights; copy_from_weights_to_matrix, True for out of the weights;
        matrix_offset, the (row, column) in `matrix` from which on. Errors: GraphError when the descriptor has no such
        weights, ShapeError, DTypeError, DeviceError for shared or read-only memory. Source:
        encodeCopyWeightsToCommandBuffer:weights:matrixId:matrix:copyFromWeightsToMatrix:matrixOffset:.
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
        """Encodes the layer over a sequence.

        Args:
            source_matrices: a step's input each, (rows, I). destination_matrices: its output, (rows, H), of other
            memory. training_states: an empty list, which is filled: pass it to encode_gradient_sequence as it is.
            weights: trainable_weights, as they are when the command buffer runs.
            source_offsets, destination_offsets: bytes by which each matrix is moved on within its buffer.
            recurrent_input_state: what the sequence begins with, zeros when None. recurrent_output_states: a list,
                which the state of the last step is appended to, or those of all, see store_all_intermediate_states.
        Errors: ShapeError for sizes and numbers of matrices, DTypeError, GraphError, DeviceError for shared or
        read-only memory and for a committed command buffer; then nothing is encoded or appended. Source:
        encodeForwardSequenceToCommandBuffer:sourceMatrices:sourceOffsets:destinationMatrices:destinationOffsets:
        trainingStates:recurrentInputState:recurrentOutputStates:weights: and its short form.
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
        """Encodes the gradients of a sequence, back through time. All lists are in forward time order.

        Args:
            forward_sources: source_matrices of the forward sequence. source_gradients: of its results, (rows, H).
            destination_gradients: of its sources, (rows, I), to be written; None leaves them out.
            weight_gradients: those of create_weight_gradient_matrices, summed over time and rows; None leaves them out.
            training_states: as the forward sequence filled them; they are used up. weights: the same as there.
            recurrent_input_state: the gradient of the last step's state. recurrent_output_states: a list, which the
                gradient of the state that the sequence began with is appended to.
        Errors: as of encode_forward_sequence; GraphError for states of another layer or sequence, or that have been
        used, and when nothing is asked for; UnsupportedError for a recurrent_input_state where rows fall, and on device
        metal for any recurrent state. Source:
        encodeGradientSequenceToCommandBuffer:forwardSources:forwardSourceOffsets:sourceGradients:sourceGradientOffsets:
        destinationGradients:destinationOffsets:weightGradients:trainingStates:recurrentInputState:
        recurrentOutputStates:weights: and its short form.
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
        raise GraphError(f"recurrent_input_state is {shown(state)} and must be a RNNRecurrentMatrixState")
    return None if state is None else state.arrays()


def _require_empty(items: Any, name: str) -> None:
    if not isinstance(items, list):
        raise GraphError(f"{name} must be a list, which is filled, got {shown(items)}")
    if items:
        raise GraphError(f"{name} must be empty, it holds {len(items)}: pass a new list, or clear it")
