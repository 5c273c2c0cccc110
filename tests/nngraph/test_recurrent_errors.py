"""Test errors of the recurrent training layer: descriptors, data sources, sequences, states, and weights.

A call that raises must have no effect.
"""

from inspect import isfunction

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import NAME
from harness.recurrent_layers import Cell, ConvolutionDescriptor, Queue, Source, empty, matrices, part_of
from mpsgraph.nngraph import (
    GRUDescriptor,
    LSTMDescriptor,
    Matrix,
    MatrixDescriptor,
    RNNMatrixId,
    RNNMatrixTrainingLayer,
    RNNRecurrentMatrixState,
    RNNSingleGateDescriptor,
)

pytestmark = pytest.mark.both_devices
ROWS = [2, 2, 2]


def zeros(*shape, dtype="float32") -> np.ndarray:
    return np.zeros(shape, dtype)


# --- descriptors and data sources -------------------------------------------------------------------------------------


def single_gate(source, **how) -> RNNSingleGateDescriptor:
    return RNNSingleGateDescriptor(3, 2, input_weights=source, **how)


class Broken(Source):
    """A source with some attributes or results replaced by invalid ones."""

    def __init__(self, **answers) -> None:
        super().__init__(zeros(2, 3))
        for name, answer in answers.items():
            setattr(self, name, (lambda value: lambda: value)(answer))


DESCRIPTORS = [
    (lambda: RNNSingleGateDescriptor(0, 2), mg.ShapeError, "must be integers of at least 1"),
    (
        lambda: RNNSingleGateDescriptor(3, 2, use_layer_input_unit_transform_mode=True),
        mg.ShapeError,
        "as many feature channels",
    ),
    (
        lambda: single_gate(Source(zeros(2, 4))),
        mg.ShapeError,
        "input_feature_channels in the data source's descriptor must be 3, got 4",
    ),
    (
        lambda: single_gate(Source(zeros(2, 3), descriptor=ConvolutionDescriptor(3, 2, kernel_width=3))),
        mg.ShapeError,
        "kernel_width in the data source's descriptor must be 1, got 3",
    ),
    (
        lambda: single_gate(Source(zeros(2, 4), descriptor=ConvolutionDescriptor(3, 2))),
        mg.ShapeError,
        r"'test source' must have shape \(2, 3\) or \(2, 1, 1, 3\), got shape \(2, 4\)",
    ),
    (lambda: single_gate(Source(zeros(2, 3), zeros(3))), mg.ShapeError, r"bias_terms .* got \(3,\)"),
    (
        lambda: single_gate(Source(zeros(2, 3, dtype="float64"))),
        mg.DTypeError,
        "must be float32 or float16, got float64",
    ),
    (lambda: single_gate(Broken(data_type=mg.float16)), mg.DTypeError, "data_type .* is float16, but"),
    (lambda: single_gate(Broken(weights=None)), mg.GraphError, "'test source' returned None for its weights"),
    (lambda: single_gate(Broken(descriptor=None)), mg.GraphError, "returned None for its descriptor"),
    (lambda: single_gate(Broken(load=False)), mg.GraphError, "returned False"),
    (lambda: single_gate(object()), mg.GraphError, "has no method 'load'"),
    (lambda: single_gate(Source(zeros(2, 3), neuron=("tan", 1))), mg.GraphError, "type is one of none, relu"),
    (lambda: single_gate(Source(zeros(2, 3), neuron=(16, 1))), mg.GraphError, "type is one of none, relu"),
    (lambda: GRUDescriptor(3, 2, gate_pnorm_value=0), mg.GraphError, "gate_pnorm_value must be positive"),
    (lambda: LSTMDescriptor(3, 2, cell_to_output_neuron_type="tan"), mg.GraphError, "type is one of none, relu"),
    (
        lambda: LSTMDescriptor(3, 2, input_gate_memory_weights=Source(zeros(3)), memory_weights_are_diagonal=True),
        mg.ShapeError,
        "must have 2 elements",
    ),
    (lambda: "lstm", mg.GraphError, "expected an RNNSingleGateDescriptor"),
]


@pytest.mark.parametrize(("make", "error", "says"), DESCRIPTORS, ids=[says for *_, says in DESCRIPTORS])
def test_invalid_recurrent_descriptors_raise(make, error, says):
    weights: list[Matrix] = []
    with pytest.raises(error, match=says):
        RNNMatrixTrainingLayer(NAME, make(), weights)
    assert weights == []


def test_prelu_activation_of_recurrent_layer_raises():
    weights: list[Matrix] = []
    with pytest.raises(mg.UnsupportedError, match="cannot be PReLU"):
        RNNMatrixTrainingLayer(NAME, single_gate(Source(zeros(2, 3), neuron=("prelu",))), weights)
    with pytest.raises(mg.UnsupportedError, match="cannot be PReLU"):
        RNNMatrixTrainingLayer(NAME, LSTMDescriptor(3, 2, cell_to_output_neuron_type="prelu"), weights)
    assert weights == []


@pytest.mark.parametrize("asked", ["load", "descriptor", "weights", "bias_terms", "data_type"])
def test_exceptions_of_data_sources_reach_the_caller(asked):
    class Disk(Exception):
        pass

    def fail():
        raise Disk(asked)

    good, bad = Source(zeros(2, 2)), Source(zeros(2, 3))
    setattr(bad, asked, fail)
    weights: list[Matrix] = []
    with pytest.raises(Disk, match=asked):
        RNNMatrixTrainingLayer(NAME, single_gate(bad, recurrent_weights=good), weights)
    assert weights == []
    assert bad.calls.count("purge") == bad.calls.count("load")


def test_recurrent_data_sources_are_loaded_first_and_purged_last():
    """Source itself asserts that weights are requested after load. Changing its array later must have no effect."""
    array, weights = np.ones((2, 3), np.float32), []
    source = Source(array)
    layer = RNNMatrixTrainingLayer(NAME, single_gate(source, use_float32_weights=True), weights)
    assert source.calls[0] == "load" and source.calls[-1] == "purge" and source.calls.count("load") == 1
    array[:] = 5
    assert (part_of(layer, weights, RNNMatrixId.single_gate_input_weights, array) == 1).all()


def test_data_source_attributes_can_replace_methods():
    class Plain:
        descriptor = ConvolutionDescriptor(3, 2, (3, 0, 0, 0))
        weights = np.ones((2, 1, 1, 3), np.float16)
        bias_terms = None

        def load(self) -> None:
            pass

    held: list[Matrix] = []
    layer = RNNMatrixTrainingLayer(NAME, single_gate(Plain()), held)
    found = part_of(layer, held, RNNMatrixId.single_gate_input_weights, np.zeros((2, 3), np.float16))
    np.testing.assert_array_equal(found, np.ones((2, 3)))


# --- sequences --------------------------------------------------------------------------------------------------------


class Layer:
    """A layer with valid arguments for a call.

    `forward` and `gradient` take replacements for them; a function is called with the Layer and returns one.
    """

    def __init__(self, rng, cell: Cell | None = None) -> None:
        self.cell = (cell or Cell("lstm")).drawn(rng)
        self.weights: list[Matrix] = []
        self.layer = RNNMatrixTrainingLayer(NAME, self.cell.descriptor(), self.weights)
        self.gradients: list[Matrix] = []
        self.layer.create_weight_gradient_matrices(self.gradients)
        self.xs, self.dys = matrices(empty(ROWS, 3)), matrices(empty(ROWS, 2))
        self.ys, self.dxs = matrices(empty(ROWS, 2)), matrices(empty(ROWS, 3))
        for matrix in self.xs + self.dys:
            matrix.numpy()[:] = 0.5
        self.states: list = []
        self.buffer = mg.CommandQueue(NAME).command_buffer()

    def forward(self, **other) -> None:
        given = {
            "command_buffer": self.buffer, "source_matrices": self.xs, "destination_matrices": self.ys,
            "training_states": self.states, "weights": self.weights,
        }  # fmt: skip
        self.layer.encode_forward_sequence(**given | self.made(other))

    def gradient(self, **other) -> None:
        given = {
            "command_buffer": self.buffer, "forward_sources": self.xs, "source_gradients": self.dys,
            "destination_gradients": self.dxs, "weight_gradients": self.gradients, "training_states": self.states,
            "weights": self.weights,
        }  # fmt: skip
        self.layer.encode_gradient_sequence(**given | self.made(other))

    def made(self, other: dict) -> dict:
        return {name: value(self) if isfunction(value) else value for name, value in other.items()}

    def still_works(self) -> None:
        if not self.states:
            self.forward()
        self.gradient()
        self.buffer.commit()
        self.buffer.wait_until_completed()
        assert all(np.isfinite(m.numpy()).all() for m in self.ys + self.dxs + self.gradients)


@pytest.fixture
def layer(rng) -> Layer:
    return Layer(rng)


def of(*shapes, dtype="float32") -> list[Matrix]:
    return matrices([zeros(*shape, dtype=dtype) for shape in shapes])


READ_ONLY = zeros(2, 2)
READ_ONLY.flags.writeable = False
FORWARD = [
    ({"source_matrices": []}, mg.ShapeError, "needs one matrix per time step"),
    (
        {"source_matrices": of((2, 3), (2, 3))},
        mg.ShapeError,
        r"one matrix per time step like source_matrices \(2\), got 3",
    ),
    (
        {"source_matrices": of((2, 3), (2, 3), (2, 4))},
        mg.ShapeError,
        "step 2 must have shape 1 or more x 3 .* got 2 x 4",
    ),
    ({"source_matrices": of((2, 3), (2, 3), (3, 3))}, mg.ShapeError, "number of rows must not increase"),
    (
        {"source_matrices": of((2, 3), (2, 3), (0, 3))},
        mg.ShapeError,
        "step 2 must have shape 1 or more x 3 .* got 0 x 3",
    ),
    ({"destination_matrices": of((2, 2), (2, 2), (1, 2))}, mg.ShapeError, "step 2 must have shape 2 x 2 .* got 1 x 2"),
    (
        {"source_matrices": of((2, 3), (2, 3), (2, 3), dtype="int32")},
        mg.DTypeError,
        "source_matrices. must be float32 or float16, got int32",
    ),
    (
        {"source_matrices": of((2, 3), (2, 3)) + of((2, 3), dtype="float16")},
        mg.DTypeError,
        "all steps must have the same dtype",
    ),
    ({"source_matrices": [zeros(2, 3)] * 3}, mg.GraphError, "must be a Matrix, got .*: pass Matrix"),
    ({"source_matrices": 3}, mg.GraphError, "must be a list of Matrix"),
    ({"source_offsets": [0]}, mg.ShapeError, r"one offset per matrix \(3\) or none, got 1"),
    ({"source_offsets": [0, 0, 4]}, mg.ShapeError, "must lie within its buffer of 24 bytes"),
    ({"source_offsets": [0, 0, -4]}, mg.ShapeError, "must lie within its buffer"),
    ({"destination_matrices": matrices([zeros(2, 2), zeros(2, 2), READ_ONLY])}, mg.DeviceError, "step 2 is read-only"),
    ({"destination_matrices": of((2, 2)) * 3}, mg.DeviceError, "step 1 shares memory with step 0"),
    ({"weights": []}, mg.GraphError, "number of weight matrices must be [23], got 0"),
    (
        {"weights": lambda own: [*own.weights[:-1], *of((9, 1))]},
        mg.ShapeError,
        "matrix [12] must have shape [0-9]+ x .* got 9 x 1",
    ),
    (
        {"weights": lambda own: of(*(m.numpy().shape for m in own.weights), dtype="int32")},
        mg.DTypeError,
        "matrix 0. must be float32 or float16, got int32",
    ),
    ({"training_states": [1]}, mg.GraphError, "training_states must be empty"),
    ({"training_states": None}, mg.GraphError, "training_states must be an empty list"),
    ({"recurrent_output_states": ()}, mg.GraphError, "must be a list to append states to"),
    ({"recurrent_input_state": 3}, mg.GraphError, "must be an RNNRecurrentMatrixState"),
    (
        {"recurrent_input_state": RNNRecurrentMatrixState([(Matrix(zeros(3, 2)), None)])},
        mg.ShapeError,
        r"the state's output must have shape \(2,2\) .* got \(3,2\)",
    ),
    (
        {"recurrent_input_state": RNNRecurrentMatrixState([(None, Matrix(zeros(2, 2, dtype="int32")))])},
        mg.DTypeError,
        "memory cell. must be float32 or float16, got int32",
    ),
    ({"recurrent_input_state": RNNRecurrentMatrixState([(None, None)] * 2)}, mg.GraphError, "must have 1 layer, got 2"),
]


@pytest.mark.parametrize(("other", "error", "says"), FORWARD, ids=[says for *_, says in FORWARD])
def test_invalid_forward_arguments_raise_and_change_nothing(other, error, says, layer):
    with pytest.raises(error, match=says):
        layer.forward(**other)
    assert layer.states == []
    layer.still_works()


GRADIENT = [
    ({"destination_gradients": None, "weight_gradients": None}, mg.GraphError, "would compute nothing"),
    (
        {"source_gradients": of((2, 2), (2, 2))},
        mg.ShapeError,
        r"source_gradients. must have one matrix per time step like forward_sources \(3\), got 2",
    ),
    ({"source_gradients": of((2, 3), (2, 3), (2, 3))}, mg.ShapeError, "step 0 must have shape 2 x 2 .* got 2 x 3"),
    ({"destination_gradients": of((2, 2), (2, 2), (2, 2))}, mg.ShapeError, "step 0 must have shape 2 x 3 .* got 2 x 2"),
    ({"weight_gradients": []}, mg.GraphError, "weight_gradients. the number of weight matrices must be [23], got 0"),
    ({"training_states": []}, mg.GraphError, "needs the training states"),
    ({"forward_sources": of((2, 3), (2, 3), (2, 3))}, mg.GraphError, "must be the matrices that the forward"),
    (
        {
            "forward_sources": of((1, 3), (1, 3), (1, 3)),
            "source_gradients": of((1, 2), (1, 2), (1, 2)),
            "destination_gradients": None,
        },
        mg.GraphError,
        r"3 step\(s\) with 2 row\(s\) in the first step, but forward_sources has 3 step\(s\) with 1 row\(s\)",
    ),
    (
        {"recurrent_input_state": RNNRecurrentMatrixState([(Matrix(zeros(1, 2)), None)])},
        mg.ShapeError,
        r"output must have shape \(2,2\) .* got \(1,2\)",
    ),
]


@pytest.mark.parametrize(("other", "error", "says"), GRADIENT, ids=[says for *_, says in GRADIENT])
def test_invalid_gradient_arguments_raise_and_change_nothing(other, error, says, layer):
    layer.forward()
    with pytest.raises(error, match=says):
        layer.gradient(**other)
    layer.still_works()


def test_gradient_with_invalid_training_states_raises(layer, rng):
    layer.forward()
    others: list = []
    layer.forward(training_states=others)
    with pytest.raises(mg.GraphError, match="belong to several sequences or are out of order"):
        layer.gradient(training_states=layer.states[:2] + others[2:])
    with pytest.raises(mg.GraphError, match="out of order"):
        layer.gradient(training_states=layer.states[::-1])
    with pytest.raises(mg.GraphError, match=r"one training state per step \(3\), got 2"):
        layer.gradient(training_states=layer.states[:2])
    with pytest.raises(mg.GraphError, match="belong to another layer"):
        Layer(rng).gradient(training_states=layer.states)
    layer.still_works()
    layer.buffer = mg.CommandQueue(NAME).command_buffer()
    with pytest.raises(mg.GraphError, match="have already been used"):
        layer.gradient()


def test_results_sharing_memory_with_inputs_raise(layer):
    array = np.zeros((2, 3, 3), np.float32)
    layer.cell = Cell("lstm", 3, 3).drawn(np.random.default_rng(0))
    layer.weights = []
    layer.layer = RNNMatrixTrainingLayer(NAME, layer.cell.descriptor(), layer.weights)
    views = [Matrix(array[:, t]) for t in range(3)]
    with pytest.raises(mg.DeviceError, match="destination_matrices. step 0 shares memory with source_matrices"):
        layer.forward(source_matrices=views, destination_matrices=views)
    with pytest.raises(mg.DeviceError, match="step 1 shares memory with source_matrices of step 1"):
        layer.forward(source_matrices=layer.xs, destination_matrices=[Matrix(zeros(2, 3)), layer.xs[1], layer.xs[2]])
    layer.forward(source_matrices=views, destination_matrices=of((2, 3), (2, 3), (2, 3)))
    layer.layer.create_weight_gradient_matrices(gradients := [])
    with pytest.raises(mg.DeviceError, match="destination_gradients. step 0 shares memory with forward_sources"):
        layer.gradient(
            forward_sources=views, source_gradients=of((2, 3), (2, 3), (2, 3)), destination_gradients=views,
            weight_gradients=gradients,
        )  # fmt: skip
    with pytest.raises(mg.DeviceError, match="shares memory"):
        layer.gradient(
            forward_sources=views, source_gradients=of((2, 3), (2, 3), (2, 3)), destination_gradients=None,
            weight_gradients=layer.weights,
        )  # fmt: skip


def test_read_only_weight_gradients_raise(layer):
    layer.forward()
    own = layer.gradients[0]
    fixed = zeros(own.rows, own.row_bytes // 4)[:, : own.columns]
    fixed.flags.writeable = False
    with pytest.raises(mg.DeviceError, match="a matrix of weight_gradients is read-only"):
        layer.gradient(weight_gradients=[Matrix(fixed), *layer.gradients[1:]])
    layer.still_works()


def test_gradient_of_final_state_with_shrinking_batch_raises(rng):
    layer = Layer(rng)
    xs, ys = of((2, 3), (1, 3)), of((2, 2), (1, 2))
    layer.forward(source_matrices=xs, destination_matrices=ys)
    with pytest.raises(
        mg.UnsupportedError,
        match="same number of rows in all steps; add the gradient of the last state to source_gradients",
    ):
        layer.gradient(
            forward_sources=xs, source_gradients=of((2, 2), (1, 2)), destination_gradients=None,
            recurrent_input_state=RNNRecurrentMatrixState([(Matrix(zeros(1, 2)), None)]),
        )  # fmt: skip


def test_memory_cell_state_for_gru_raises(rng):
    layer = Layer(rng, Cell("gru"))
    state = RNNRecurrentMatrixState([(None, Matrix(zeros(2, 2)))])
    with pytest.raises(mg.GraphError, match="the layer is not an LSTM"):
        layer.forward(recurrent_input_state=state)
    layer.still_works()


def test_committed_or_invalid_command_buffers_raise(layer):
    layer.buffer.commit()
    for call in (layer.forward, layer.gradient):
        with pytest.raises(mg.DeviceError, match="has already been committed"):
            call()
    with pytest.raises(mg.Error, match="command_buffer"):
        layer.forward(command_buffer="buffer")
    assert layer.states == []
    layer.buffer = mg.CommandQueue(NAME).command_buffer()
    layer.still_works()


def test_non_empty_output_lists_raise(layer):
    full = [Matrix(zeros(1, 1))]
    for call in (
        layer.layer.create_weight_matrices,
        layer.layer.create_weight_gradient_matrices,
        lambda items: RNNMatrixTrainingLayer(NAME, layer.cell.descriptor(), items),
    ):
        with pytest.raises(mg.GraphError, match="must be empty, got 1"):
            call(full)
        with pytest.raises(mg.GraphError, match="must be an empty list"):
            call(None)
    with pytest.raises(mg.DTypeError, match="float32 or float16, got float64"):
        layer.layer.create_weight_gradient_matrices([], "float64")
    assert len(full) == 1


def test_copying_missing_or_mismatched_weights_raises(layer):
    def copy(identity, matrix, **how) -> None:
        layer.layer.encode_copy_weights(layer.buffer, layer.weights, identity, matrix, True, **how)

    whole = Matrix(zeros(2, 3))
    with pytest.raises(mg.GraphError, match="has no lstm_input_gate_memory_weights; it has lstm_input_gate_input_"):
        copy(RNNMatrixId.lstm_input_gate_memory_weights, whole)
    with pytest.raises(mg.GraphError, match="has no gru_input_gate_input_weights"):
        copy(RNNMatrixId.gru_input_gate_input_weights, whole)
    with pytest.raises(mg.GraphError, match="must be a value of RNNMatrixId, got 29"):
        copy(29, whole)
    with pytest.raises(
        mg.ShapeError, match="needs 2 x 3 elements starting at row 1, column 0, but the matrix is only 2 x 3"
    ):
        copy(RNNMatrixId.lstm_input_gate_input_weights, whole, matrix_offset=(1, 0))
    with pytest.raises(mg.DTypeError, match="must have the same dtype"):
        copy(RNNMatrixId.lstm_input_gate_input_weights, Matrix(zeros(2, 3, dtype="float16")))
    with pytest.raises(mg.DeviceError, match="share memory"):
        copy(RNNMatrixId.lstm_input_gate_input_weights, layer.weights[0])
    with pytest.raises(mg.DeviceError, match="the matrix is read-only"):
        copy(RNNMatrixId.lstm_input_gate_recurrent_weights, Matrix(READ_ONLY))
    with pytest.raises(mg.GraphError, match="number of weight matrices must be [23]"):
        layer.layer.encode_copy_weights(layer.buffer, [], 3, whole, True)
    layer.still_works()


def test_rnn_matrix_ids_match_names_in_the_core():
    assert [item.name for item in RNNMatrixId] == mg._core.rnn_matrix_ids()
    assert [int(item) for item in RNNMatrixId] == list(range(29))


def test_weight_matrix_holding_several_matrices_raises(layer):
    several = Matrix(NAME, MatrixDescriptor(8, 3, matrices=2))
    with pytest.raises(mg.ShapeError, match="matrix 0"):
        layer.forward(weights=[several, *layer.weights[1:]])


def test_unreferenced_layers_are_freed(rng):
    """A layer with unused sequences and states returns all its memory."""

    def once() -> None:
        layer = Layer(rng, Cell("lstm", 64, 64))
        xs, ys = of(*[(32, 64)] * 8), of(*[(32, 64)] * 8)
        with Queue() as buffer:
            layer.forward(command_buffer=buffer, source_matrices=xs, destination_matrices=ys)

    once()
    before = mg._core.buffer_statistics()["live_bytes"]
    for _ in range(5):
        once()
    assert mg._core.buffer_statistics()["live_bytes"] <= before
