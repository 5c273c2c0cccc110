"""Test the recurrent training layer: values, gradients, states, accumulation, copied weights, and memory.

Values are compared with float64 numpy code for the equations (harness/recurrent_layers.py), and gradients with central
differences of that code.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import IS_METAL, NAME
from harness.recurrent_layers import (
    ACTIVATIONS,
    SIGMOID,
    TANH,
    Cell,
    Queue,
    compiled,
    differences,
    empty,
    matrices,
    sigmoid,
    weights_of,
)
from mpsgraph import nngraph
from mpsgraph.nngraph import Matrix, MatrixDescriptor, RNNMatrixTrainingLayer, RNNRecurrentMatrixState

pytestmark = pytest.mark.both_devices
CELLS = {
    "single gate": Cell("single_gate"),
    "single gate, sigmoid": Cell("single_gate", activations=[SIGMOID]),
    "single gate, leaky": Cell("single_gate", activations=[("relu", 0.25)]),
    "single gate, no recurrent weights": Cell("single_gate", without=[(0, "recurrent_weights")]),
    "single gate, no bias": Cell("single_gate", without=[(0, "bias_terms")]),
    "single gate, identity": Cell("single_gate", 2, 2, identity=True),
    "single gate, identity, leaky": Cell("single_gate", 2, 2, identity=True, activations=[("relu", 0.25)]),
    "lstm": Cell("lstm"),
    "lstm, one output": Cell("lstm", 1, 1),
    "lstm, identity": Cell("lstm", 2, 2, identity=True),
    "lstm, peepholes": Cell("lstm", memory=[0, 1, 2, 3]),
    "lstm, diagonal peepholes": Cell("lstm", memory=[0, 1, 2, 3], diagonal=True),
    "lstm, diagonal peepholes of three": Cell("lstm", memory=[0, 1, 2], diagonal=True),
    "lstm, diagonal peephole of one": Cell("lstm", memory=[1], diagonal=True),
    "lstm, peephole of the output gate": Cell("lstm", memory=[3]),
    "lstm, other neurons": Cell(
        "lstm", activations=[("hard_sigmoid", 0.2, 0.5), SIGMOID, ("tanh", 1.5, 0.5), SIGMOID], to_output=("softsign",)
    ),
    "lstm, linear output": Cell("lstm", to_output=("none",)),
    "lstm, gates without": Cell(
        "lstm", without=[(0, "input_weights"), (0, "bias_terms"), (1, "recurrent_weights"), (2, "bias_terms")],
        activations=[("none",), SIGMOID, TANH, SIGMOID],
    ),
    "gru": Cell("gru"),
    "gru, flipped": Cell("gru", flip=True),
    "gru, p-norm": Cell("gru", p=2.0),
    "gru, p-norm, flipped": Cell("gru", p=1.5, flip=True),
    "gru, both products": Cell("gru", memory=[2]),
    "gru, gates without": Cell("gru", without=[(1, "recurrent_weights"), (2, "bias_terms")]),
    "mgu": Cell(
        "gru", memory=[2], flip=True,
        without=[(1, "input_weights"), (1, "recurrent_weights"), (1, "bias_terms"), (2, "recurrent_weights")],
        activations=[SIGMOID, ("none",), TANH],
    ),
}  # fmt: skip
CASES = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS.keys())
ROWS, FALLING = [2, 2, 2], [3, 2, 2, 1]


class Trained:
    """A layer trained on a random sequence, with its results and a check against the expected ones."""

    def __init__(
        self, cell: Cell, rng: np.random.Generator, rows=ROWS, states: bool = False, state_gradients: bool = False
    ) -> None:
        self.cell, self.rows = cell.drawn(rng), rows
        self.weights: list[Matrix] = []
        self.layer = RNNMatrixTrainingLayer(NAME, cell.descriptor(), self.weights)
        self.xs = [rng.uniform(-1, 1, (n, cell.inputs)).astype(np.float32) for n in rows]
        self.dys = [rng.uniform(-1, 1, (n, cell.outputs)).astype(np.float32) for n in rows]
        draw = lambda n: rng.uniform(-1, 1, (n, cell.outputs)).astype(np.float32)  # noqa: E731
        self.h = draw(rows[0]) if states else None
        self.c = draw(rows[0]) if states and cell.kind == "lstm" else None
        self.dh = draw(rows[-1]) if state_gradients else None
        self.dc = draw(rows[-1]) if state_gradients and cell.kind == "lstm" else None
        self.ys, self.dxs = empty(rows, cell.outputs), empty(rows, cell.inputs)
        self.gradients: list[Matrix] = []
        self.layer.create_weight_gradient_matrices(self.gradients)
        for matrix in self.gradients:
            matrix.numpy()[:] = 5  # Gradients must replace this value, not add to it.
        self.final: list[RNNRecurrentMatrixState] = []
        self.initial_gradients: list[RNNRecurrentMatrixState] = []

    @staticmethod
    def state(h, c) -> RNNRecurrentMatrixState | None:
        return None if h is None else RNNRecurrentMatrixState([(Matrix(h), None if c is None else Matrix(c))])

    def run(self) -> None:
        states: list = []
        sources = matrices(self.xs)
        with Queue() as buffer:
            self.layer.encode_forward_sequence(
                buffer, sources, matrices(self.ys), states, self.weights,
                recurrent_input_state=self.state(self.h, self.c), recurrent_output_states=self.final,
            )  # fmt: skip
            self.layer.encode_gradient_sequence(
                buffer, sources, matrices(self.dys), matrices(self.dxs), self.gradients, states, self.weights,
                recurrent_input_state=self.state(self.dh, self.dc),
                recurrent_output_states=None if self.dh is None else self.initial_gradients,
            )  # fmt: skip

    def check(self) -> None:
        cell = self.cell
        exact = {key: value.astype(np.float64) for key, value in cell.weights.items()}
        xs = [x.astype(np.float64) for x in self.xs]
        h, c = (None if x is None else x.astype(np.float64) for x in (self.h, self.c))

        def loss() -> float:
            hs, cs = cell.run(xs, h, c, exact)
            total = sum(float((y * d).sum()) for y, d in zip(hs, self.dys, strict=True))
            total += 0 if self.dh is None else float((hs[-1] * self.dh).sum())
            return total + (0 if self.dc is None else float((cs[-1] * self.dc).sum()))

        hs, cs = cell.run(xs, h, c, exact)
        for y, expected in zip(self.ys, hs, strict=True):
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=2e-6)
        last = self.final[0]
        np.testing.assert_allclose(last.recurrent_output_matrix(0).numpy(), hs[-1], rtol=1e-5, atol=2e-6)
        if cell.kind == "lstm":
            np.testing.assert_allclose(last.memory_cell_matrix(0).numpy(), cs[-1], rtol=1e-5, atol=2e-6)
        else:
            assert last.memory_cell_matrix(0) is None
        for x, dx in zip(xs, self.dxs, strict=True):
            np.testing.assert_allclose(dx, differences(loss, x), rtol=2e-5, atol=5e-6)
        found = weights_of(self.layer, cell, self.gradients)
        for key, own in exact.items():
            np.testing.assert_allclose(found[key], differences(loss, own), rtol=2e-5, atol=5e-6, err_msg=str(key))
        if h is not None and self.dh is not None:
            gradient = self.initial_gradients[0]
            np.testing.assert_allclose(
                gradient.recurrent_output_matrix(0).numpy(), differences(loss, h), rtol=2e-5, atol=5e-6
            )
        if c is not None and self.dc is not None:
            np.testing.assert_allclose(
                gradient.memory_cell_matrix(0).numpy(), differences(loss, c), rtol=2e-5, atol=5e-6
            )


@CASES
def test_recurrent_values_and_gradients_of_every_cell_match_numpy(cell: Cell, rng):
    trained = Trained(cell, rng)
    trained.run()
    trained.check()


@CASES
def test_initial_and_final_states_of_every_cell_match_numpy(cell: Cell, rng):
    trained = Trained(cell, rng, states=True)
    trained.run()
    trained.check()


@CASES
def test_gradients_of_recurrent_states_match_numpy(cell: Cell, rng):
    trained = Trained(cell, rng, states=True, state_gradients=True)
    trained.run()
    trained.check()


@CASES
def test_recurrent_batches_shrinking_over_time_match_numpy(cell: Cell, rng):
    trained = Trained(cell, rng, rows=FALLING)
    trained.run()
    trained.check()


@pytest.mark.parametrize("neuron", ACTIVATIONS, ids=str)
def test_recurrent_gradients_of_every_activation_match_numpy(neuron: tuple, rng):
    trained = Trained(Cell("single_gate", activations=[neuron], without=[(0, "recurrent_weights")]), rng)
    trained.run()
    trained.check()


def test_recurrent_relu_has_derivative_one_at_zero():
    cell = Cell("single_gate", 1, 1, activations=[("relu", 0.0)])
    trained = Trained(cell, np.random.default_rng(0), rows=[1])
    trained.xs[0][:], trained.dys[0][:] = 3, 1
    for matrix in trained.weights:
        matrix.numpy()[:] = 0
    trained.run()
    assert trained.ys[0].item() == 0
    assert weights_of(trained.layer, cell, trained.gradients)[0, "input_weights"].item() == 3


def test_lstm_matches_pytorch_equations(rng):
    """Write out PyTorch's equations with its gate order, at a size for which the fast kernels are used."""
    steps, rows, inputs, hidden = 7, 16, 24, 40
    cell = Cell("lstm", inputs, hidden).drawn(rng)
    trained = Trained(cell, rng, rows=[rows] * steps)
    trained.run()
    gates = [trained.cell.weights[gate, part] for part in ("input_weights", "recurrent_weights") for gate in range(4)]
    w_ih, w_hh = np.concatenate(gates[:4]).astype(np.float64), np.concatenate(gates[4:]).astype(np.float64)
    b = np.concatenate([trained.cell.weights[gate, "bias_terms"] for gate in range(4)]).astype(np.float64)
    h = c = np.zeros((rows, hidden))
    for x, y in zip(trained.xs, trained.ys, strict=True):
        i, f, g, o = np.split(x @ w_ih.T + h @ w_hh.T + b, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(y, h, rtol=1e-5, atol=1e-5)


# --- weights ----------------------------------------------------------------------------------------------------------


def test_weight_gradients_accumulate_on_request(rng):
    for cell in (CELLS["lstm"], CELLS["gru, p-norm"]):
        trained = Trained(cell, rng)
        trained.run()
        once = [matrix.numpy().copy() for matrix in trained.gradients]
        trained.layer.accumulate_weight_gradients = True
        trained.run()
        for matrix, before in zip(trained.gradients, once, strict=True):
            np.testing.assert_allclose(matrix.numpy(), 2 * before, rtol=1e-6, atol=1e-6)


@CASES
def test_recurrent_weights_can_be_copied_to_and_from_matrices(cell: Cell, rng):
    trained = Trained(cell, rng)
    for key, found in weights_of(trained.layer, trained.cell, trained.weights).items():
        np.testing.assert_array_equal(found, trained.cell.weights[key])
    other: list[Matrix] = []
    trained.layer.create_weight_matrices(other)
    with Queue() as buffer:
        for (gate, part), own in trained.cell.weights.items():
            larger = np.full((own.shape[0] + 2, own.size + 3), 7, np.float32)
            place = own if own.ndim == 2 else own[None]
            larger[1 : 1 + place.shape[0], 2 : 2 + place.shape[1]] = place
            trained.layer.encode_copy_weights(
                buffer, other, trained.cell.matrix_id(gate, part), Matrix(larger), False, (1, 2)
            )
    for one, two in zip(trained.weights, other, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_weight_changes_between_recurrent_calls_take_effect(rng):
    trained = Trained(CELLS["lstm"], rng)
    for _ in range(3):
        trained.run()
        for weights, gradient in zip(trained.weights, trained.gradients, strict=True):
            weights.numpy()[:] -= 0.1 * gradient.numpy()
        trained.cell.weights = weights_of(trained.layer, trained.cell, trained.weights)
    trained.final.clear()
    trained.run()
    trained.check()
    assert trained.layer.compiled == compiled(2)


def test_created_matrices_are_zero_and_have_layer_dtypes(rng):
    weights: list[Matrix] = []
    layer = RNNMatrixTrainingLayer(NAME, CELLS["lstm"].drawn(rng).descriptor(use_float32_weights=False), weights)
    zeros: list[Matrix] = []
    layer.create_weight_matrices(zeros)
    gradients: list[Matrix] = []
    layer.create_weight_gradient_matrices(gradients, "float16")
    assert {matrix.data_type for matrix in weights + zeros + gradients} == {mg.float16}
    assert not any(matrix.numpy().any() for matrix in zeros + gradients)
    assert [m.numpy().shape for m in weights] == [m.numpy().shape for m in zeros]


def test_float16_recurrent_training_rounds_only_final_results(rng):
    """Weights, sequences, and gradients are float16; the layer computes in float32 and rounds the results."""
    cell = CELLS["lstm"].drawn(rng, "float16")
    weights: list[Matrix] = []
    layer = RNNMatrixTrainingLayer(NAME, cell.descriptor(use_float32_weights=False), weights)
    gradients: list[Matrix] = []
    layer.create_weight_gradient_matrices(gradients, "float16")
    xs = [rng.uniform(-1, 1, (2, cell.inputs)).astype(np.float16) for _ in range(3)]
    dys = [np.ones((2, cell.outputs), np.float16)] * 3
    ys, dxs, states = empty(ROWS, cell.outputs, "float16"), empty(ROWS, cell.inputs, "float16"), []
    sources = matrices(xs)
    with Queue() as buffer:
        layer.encode_forward_sequence(buffer, sources, matrices(ys), states, weights)
        layer.encode_gradient_sequence(buffer, sources, matrices(dys), matrices(dxs), gradients, states, weights)
    exact = [x.astype(np.float64) for x in xs]
    for y, expected in zip(ys, cell.run(exact)[0], strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)
    loss = lambda: float(sum(y.sum() for y in cell.run(exact)[0]))  # noqa: E731
    for x, dx in zip(exact, dxs, strict=True):
        np.testing.assert_allclose(dx, differences(loss, x), rtol=2e-3, atol=1e-3)


# --- memory -----------------------------------------------------------------------------------------------------------


def of_array(array: np.ndarray, batch_first: bool) -> list[Matrix]:
    return [Matrix(array[:, t] if batch_first else array[t]) for t in range(array.shape[1 if batch_first else 0])]


@pytest.mark.parametrize("batch_first", [True, False])
def test_recurrent_views_of_one_array_are_used_in_place(batch_first: bool, rng):
    trained = Trained(CELLS["lstm"], rng)
    trained.run()
    axis = 1 if batch_first else 0
    x, dy = np.stack(trained.xs, axis), np.stack(trained.dys, axis)
    y, dx = np.full_like(dy, np.nan), np.full_like(x, np.nan)
    sources, states = of_array(x, batch_first), []
    copies = mg.copy_count()
    with Queue() as buffer:
        trained.layer.encode_forward_sequence(buffer, sources, of_array(y, batch_first), states, trained.weights)
        trained.layer.encode_gradient_sequence(
            buffer, sources, of_array(dy, batch_first), of_array(dx, batch_first), trained.gradients, states,
            trained.weights,
        )  # fmt: skip
    assert mg.copy_count() == copies
    np.testing.assert_allclose(y, np.stack(trained.ys, axis), rtol=1e-6)
    np.testing.assert_allclose(dx, np.stack(trained.dxs, axis), rtol=1e-6)


def test_recurrent_matrix_with_offsets_is_used_in_place(rng):
    """Pass the same matrix for every step with increasing byte offsets, as Turi Create does."""
    trained = Trained(CELLS["lstm"], rng)
    trained.run()
    steps, rows, cell = len(ROWS), ROWS[0], trained.cell
    x, y = np.stack(trained.xs, 1), np.full((rows, steps, cell.outputs), np.nan, np.float32)
    source = Matrix(x, MatrixDescriptor(rows, cell.inputs, row_bytes=4 * steps * cell.inputs))
    destination = Matrix(y, MatrixDescriptor(rows, cell.outputs, row_bytes=4 * steps * cell.outputs))
    copies = mg.copy_count()
    with Queue() as buffer:
        trained.layer.encode_forward_sequence(
            buffer, [source] * steps, [destination] * steps, [], trained.weights,
            source_offsets=[4 * t * cell.inputs for t in range(steps)],
            destination_offsets=[4 * t * cell.outputs for t in range(steps)],
        )  # fmt: skip
    assert mg.copy_count() == copies
    np.testing.assert_allclose(y, np.stack(trained.ys, 1), rtol=1e-6)


def test_padded_and_interleaved_sequences_are_copied(rng):
    trained = Trained(CELLS["gru"], rng)
    trained.run()
    inputs, outputs = trained.cell.inputs, trained.cell.outputs
    both = np.full((ROWS[0], len(ROWS), inputs + outputs + 1), 9, np.float32)
    both[:, :, :inputs] = np.stack(trained.xs, 1)
    copies = mg.copy_count()
    with Queue() as buffer:
        trained.layer.encode_forward_sequence(
            buffer, of_array(both[:, :, :inputs], True), of_array(both[:, :, inputs : inputs + outputs], True), [],
            trained.weights,
        )  # fmt: skip
    assert mg.copy_count() == copies + (0 if IS_METAL else 2)
    np.testing.assert_allclose(both[:, :, inputs:-1], np.stack(trained.ys, 1), rtol=1e-6)
    np.testing.assert_array_equal(both[:, :, -1], 9)


def test_recurrent_weights_with_padded_rows_are_supported(rng):
    trained = Trained(CELLS["lstm"], rng)
    trained.run()
    expected = [matrix.numpy().copy() for matrix in trained.gradients]

    def padded(matrix: Matrix) -> Matrix:
        wide = np.full((matrix.rows, matrix.columns + 3), 8, np.float32)
        wide[:, : matrix.columns] = matrix.numpy()
        return Matrix(wide[:, : matrix.columns])

    trained.weights = [padded(matrix) for matrix in trained.weights]
    trained.gradients = [padded(matrix) for matrix in trained.gradients]
    trained.run()
    for matrix, wanted in zip(trained.gradients, expected, strict=True):
        np.testing.assert_allclose(matrix.numpy(), wanted, rtol=1e-6)


def test_layer_compiles_once_per_sequence_shape(rng):
    trained = Trained(CELLS["lstm"], rng)
    for _ in range(5):
        trained.run()
    assert trained.layer.compiled == compiled(2)
    for rows in range(1, 40):
        xs = [np.ones((rows, trained.cell.inputs), np.float32)]
        with Queue() as buffer:
            trained.layer.encode_forward_sequence(
                buffer, matrices(xs), matrices(empty([rows], trained.cell.outputs)), [], trained.weights
            )
    assert trained.layer.compiled == compiled(2 + 39)
    assert trained.layer._layer.form_count == compiled(32)


def test_recurrent_work_does_not_run_before_commit(rng):
    trained = Trained(CELLS["lstm"], rng)
    buffer = mg.CommandQueue(NAME).command_buffer()
    trained.layer.encode_forward_sequence(buffer, matrices(trained.xs), matrices(trained.ys), [], trained.weights)
    assert all(np.isnan(y).all() for y in trained.ys)
    for matrix in trained.weights:  # The layer must use the weights as they are when it runs.
        matrix.numpy()[:] = 0
    buffer.commit()
    buffer.wait_until_completed()
    assert not any(y.any() for y in trained.ys)


def test_intermediate_recurrent_states_are_stored_on_request(rng):
    for rows in (ROWS, FALLING):
        trained = Trained(CELLS["lstm"], rng, rows)
        trained.layer.store_all_intermediate_states = True
        trained.run()
        hs, cs = trained.cell.run(trained.xs)
        assert len(trained.final) == len(rows)
        for state, h, c in zip(trained.final, hs, cs, strict=True):
            np.testing.assert_allclose(state.recurrent_output_matrix(0).numpy(), h, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(state.memory_cell_matrix(0).numpy(), c, rtol=1e-5, atol=1e-6)


def test_sequence_split_in_two_equals_whole_sequence(rng):
    trained = Trained(CELLS["gru, p-norm"], rng, rows=[2] * 4)
    trained.run()
    ys, states = empty([2] * 4, trained.cell.outputs), []
    with Queue() as buffer:
        for part in (slice(0, 2), slice(2, 4)):
            trained.layer.encode_forward_sequence(
                buffer, matrices(trained.xs[part]), matrices(ys[part]), [], trained.weights,
                recurrent_input_state=states[-1] if states else None, recurrent_output_states=states,
            )  # fmt: skip
    np.testing.assert_allclose(np.stack(ys), np.stack(trained.ys), rtol=1e-6)


def test_recurrent_training_with_image_batches_matches_numpy(rng):
    """Feed images to an LSTM as in Apple's talk, with the data sources and the optimizer of this package."""
    rows, steps, inputs, hidden = 8, 6, 5, 4
    gates = {"input": "sigmoid", "forget": "sigmoid", "output": "sigmoid", "cell": "tanh"}
    descriptor = nngraph.LSTMDescriptor(inputs, hidden, use_float32_weights=True)
    for gate, neuron in gates.items():
        convolution = nngraph.ConvolutionDescriptor(1, 1, inputs, hidden, neuron=nngraph.NeuronDescriptor(neuron, 1, 1))
        setattr(descriptor, f"{gate}_gate_input_weights", nngraph.TrainableConvolution(convolution, seed=1))
        recurrent = nngraph.ConvolutionDescriptor(1, 1, hidden, hidden)
        source = nngraph.TrainableConvolution(recurrent, bias_terms=False, seed=2)
        setattr(descriptor, f"{gate}_gate_recurrent_weights", source)
    weights: list[Matrix] = []
    layer = RNNMatrixTrainingLayer(NAME, descriptor, weights)
    assert IS_METAL or sorted(m.numpy().shape for m in weights) == [(1, 16), (16, 4), (16, 5)]
    gradients: list[Matrix] = []
    layer.create_weight_gradient_matrices(gradients)
    images = nngraph.ImageBatch(rng.uniform(-1, 1, (rows, 1, steps, inputs)).astype(np.float32))
    wanted = rng.uniform(-0.5, 0.5, (rows, hidden)).astype(np.float32)
    x, y = np.zeros((rows, steps, inputs), np.float32), np.zeros((rows, steps, hidden), np.float32)
    descent = nngraph.StochasticGradientDescent(0.1)
    dy, losses = np.zeros_like(y), []
    sources = of_array(x, True)
    for _ in range(30):
        states: list = []
        with Queue() as buffer:
            nngraph.ImageCopyToMatrix(NAME).encode_batch(buffer, images, Matrix(x.reshape(rows, -1)))
            layer.encode_forward_sequence(buffer, sources, of_array(y, True), states, weights)
        losses.append(float(((y[:, -1] - wanted) ** 2).sum()))
        dy[:, -1] = 2 * (y[:, -1] - wanted)
        with Queue() as buffer:
            layer.encode_gradient_sequence(buffer, sources, of_array(dy, True), None, gradients, states, weights)
            for matrix, gradient in zip(weights, gradients, strict=True):
                descent.encode(buffer, input_gradient_matrix=gradient, input_values_matrix=matrix)
    assert losses[-1] < 0.3 * losses[0]
    assert layer.compiled == compiled(2)
