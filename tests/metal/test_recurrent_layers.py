"""Test recurrent layers and converters on the Metal device: Apple's classes, execution order, memory, and faults.

Results and gradients are tested in tests/nngraph, which runs on both devices.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.recurrent_layers import Cell, Queue, empty, matrices, part_of, weights_of
from mpsgraph import nngraph as nn

MOCK = device.mock()
MOCK.mock_live_objects.restype = ctypes.c_long
MOCK.mock_live_objects_by_class.restype = ctypes.c_char_p
MOCK.mock_live_buffer_bytes.restype = ctypes.c_size_t
MOCK.mock_autoreleases_without_pool.restype = ctypes.c_long

ROWS = [3, 3, 3]
CELL = Cell("lstm", 3, 2)


@pytest.fixture
def refusing() -> Iterator[None]:
    """Let the mock refuse to map memory of the caller."""
    MOCK.mock_refuse_memory_of_others(1)
    yield
    MOCK.mock_refuse_memory_of_others(0)


class Trained:
    """A training layer with a random sequence in arrays of shape (rows, steps, channels), as in Turi Create."""

    def __init__(self, rng: np.random.Generator, cell: Cell = CELL, rows: int = 3, steps: int = 4) -> None:
        self.cell = cell.drawn(rng)
        self.weights: list[nn.Matrix] = []
        self.layer = nn.RNNMatrixTrainingLayer("metal", self.cell.descriptor(), self.weights)
        self.gradients: list[nn.Matrix] = []
        self.layer.create_weight_gradient_matrices(self.gradients)
        draw = lambda channels: rng.uniform(-1, 1, (rows, steps, channels)).astype(np.float32)  # noqa: E731
        self.x, self.dy = draw(cell.inputs), draw(cell.outputs)
        self.y, self.dx = (np.full_like(array, np.nan) for array in (self.dy, self.x))
        self.states: list = []
        self.sources = self.of(self.x)

    @staticmethod
    def of(array: np.ndarray) -> list[nn.Matrix]:
        return [nn.Matrix(array[:, t]) for t in range(array.shape[1])]

    def forward(self, buffer: mg.CommandBuffer, **how) -> None:
        self.states = []
        self.layer.encode_forward_sequence(buffer, self.sources, self.of(self.y), self.states, self.weights, **how)

    def gradient(self, buffer: mg.CommandBuffer) -> None:
        self.layer.encode_gradient_sequence(
            buffer, self.sources, self.of(self.dy), self.of(self.dx), self.gradients, self.states, self.weights
        )

    def step(self) -> None:
        with Queue() as buffer:
            self.forward(buffer)
            self.gradient(buffer)

    def results(self) -> list[np.ndarray]:
        return [self.y, self.dx, *weights_of(self.layer, self.cell, self.gradients).values()]


def classes() -> set[str]:
    lines = MOCK.mock_live_objects_by_class().decode().splitlines()
    return {line.partition(":")[0] for line in lines}


def close(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# --- Apple's classes --------------------------------------------------------------------------------------------------


def test_recurrent_layers_call_apple_classes(rng):
    trained = Trained(rng)
    stack = nn.RNNMatrixInferenceLayer("metal", CELL.drawn(rng).descriptor())
    images = nn.RNNImageInferenceLayer("metal", CELL.drawn(rng).descriptor())
    buffer = mg.CommandQueue("metal").command_buffer()
    trained.forward(buffer)
    buffer.commit()
    buffer.wait_until_completed()
    assert {
        "MPSRNNMatrixTrainingLayer",
        "MPSRNNMatrixTrainingState",
        "MPSRNNMatrixInferenceLayer",
        "MPSRNNImageInferenceLayer",
    } <= classes()
    assert stack.number_of_layers == images.number_of_layers == 1
    assert trained.layer.compiled == stack.compiled == 0


def test_recurrent_weights_use_apple_layout_in_device_memory(rng):
    """The mock packs weights in an unusual layout with padded rows."""
    trained = Trained(rng)
    assert {matrix.columns for matrix in trained.weights} == {7}
    assert {matrix.row_bytes for matrix in trained.weights + trained.gradients} == {32}
    for key, found in weights_of(trained.layer, trained.cell, trained.weights).items():
        np.testing.assert_array_equal(found, trained.cell.weights[key])


def test_training_layer_without_weights_raises(rng):
    with pytest.raises(mg.UnsupportedError, match="a layer without weights is not supported"):
        nn.RNNMatrixTrainingLayer("metal", nn.LSTMDescriptor(3, 2), [])


def test_recurrent_weights_of_a_different_dtype_raise(rng):
    trained = Trained(rng)
    halves: list[nn.Matrix] = []
    trained.layer.create_weight_gradient_matrices(halves, "float16")
    trained.weights = halves
    with pytest.raises(mg.UnsupportedError, match=r"matrix 0 must be float32 like the layer's weights, got float16"):
        trained.forward(mg.CommandQueue("metal").command_buffer())


# --- order ------------------------------------------------------------------------------------------------------------


def test_recurrent_work_in_one_buffer_runs_in_order(rng):
    """There are more encodes than Metal has command buffers, and each must see the results of the previous one."""
    trained, steps = Trained(rng), 40
    by_hand = Trained(np.random.default_rng(20240911))
    descent = nn.StochasticGradientDescent(0.05)
    with Queue() as buffer:
        for _ in range(steps):
            trained.forward(buffer)
            trained.gradient(buffer)
            for matrix, gradient in zip(trained.weights, trained.gradients, strict=True):
                descent.encode(buffer, input_gradient_matrix=gradient, input_values_matrix=matrix)
    by_hand.weights = [nn.Matrix(matrix.array) for matrix in by_hand.weights]
    for _ in range(steps):
        by_hand.step()
        for matrix, gradient in zip(by_hand.weights, by_hand.gradients, strict=True):
            matrix.numpy()[:] -= np.float32(0.05) * gradient.numpy()
    close(trained.results(), by_hand.results())


def test_gradient_on_another_queue_waits_for_an_event(rng):
    trained, expected = Trained(rng), Trained(np.random.default_rng(20240911))
    expected.step()
    event = mg.SharedEvent()
    first, second = mg.CommandQueue("metal"), mg.CommandQueue("metal")
    one, other = first.command_buffer(), second.command_buffer()
    trained.forward(one)
    one.encode_signal_event(event, 1)
    other.encode_wait_for_event(event, 1)
    trained.gradient(other)
    other.commit()
    one.commit()
    other.wait_until_completed()
    close(trained.results(), expected.results())


def test_gradient_before_its_forward_sequence_raises(rng):
    trained = Trained(rng)
    queue = mg.CommandQueue("metal")
    trained.forward(queue.command_buffer())
    buffer = queue.command_buffer()
    trained.gradient(buffer)
    buffer.commit()
    with pytest.raises(mg.DeviceError, match="has not run: commit its command buffer before"):
        buffer.wait_until_completed()
    trained.step()
    assert np.isfinite(trained.dx).all()


def test_states_pass_between_calls_within_a_buffer(rng):
    trained = Trained(rng, steps=6)
    trained.step()
    y, states = np.full_like(trained.y, np.nan), []
    with Queue() as buffer:
        for t in range(6):
            trained.layer.encode_forward_sequence(
                buffer, trained.sources[t : t + 1], trained.of(y)[t : t + 1], [], trained.weights,
                recurrent_input_state=states[-1] if states else None, recurrent_output_states=states,
            )  # fmt: skip
    np.testing.assert_allclose(y, trained.y, rtol=1e-6)
    assert len(states) == 6


def test_partial_float16_initial_state_is_accepted(rng):
    trained = Trained(rng)
    h = rng.uniform(-1, 1, (3, 2)).astype(np.float16)
    state = nn.RNNRecurrentMatrixState([(nn.Matrix(h), None)])
    with Queue() as buffer:
        trained.forward(buffer, recurrent_input_state=state)
    expected, _ = trained.cell.run([trained.x[:, t] for t in range(4)], h.astype(np.float64))
    np.testing.assert_allclose(trained.y, np.stack(expected, 1), rtol=1e-5, atol=1e-6)


# --- memory -----------------------------------------------------------------------------------------------------------


def test_recurrent_sequences_are_mapped_in_place(rng):
    trained = Trained(rng, Cell("gru", 64, 64), rows=16, steps=8)
    trained.step()
    copies, before = mg.copy_count(), MOCK.mock_live_buffer_bytes()
    trained.step()
    assert mg.copy_count() == copies
    assert MOCK.mock_live_buffer_bytes() <= before


def test_sequences_in_unmappable_memory_are_copied(rng, refusing):
    """Padded rows must be copied back individually, because the memory between them belongs to others."""
    trained, cell = Trained(rng), CELL
    both = np.full((3, 4, cell.inputs + cell.outputs + 2), 9, np.float32)
    both[:, :, : cell.inputs] = trained.x
    y = both[:, :, cell.inputs + 1 : -1]
    trained.step()
    with Queue() as buffer:
        trained.layer.encode_forward_sequence(
            buffer, trained.of(both[:, :, : cell.inputs]), trained.of(y), [], trained.weights
        )
    np.testing.assert_allclose(y, trained.y, rtol=1e-6)
    assert (both[:, :, cell.inputs] == 9).all() and (both[:, :, -1] == 9).all()
    MOCK.mock_refuse_memory_of_others(0)
    expected = Trained(np.random.default_rng(20240911))
    expected.step()
    close(trained.results(), expected.results())


def test_weights_in_unmappable_memory_are_copied(rng, refusing):
    """Gradients are added to existing values, and the layout is preserved."""
    trained = Trained(rng)
    trained.step()
    once = [matrix.numpy().copy() for matrix in trained.gradients]

    def elsewhere(matrix: nn.Matrix) -> nn.Matrix:
        wide = np.zeros((matrix.rows, matrix.row_bytes // 4), np.float32)
        wide[:, : matrix.columns] = matrix.numpy()
        return nn.Matrix(wide[:, : matrix.columns])

    trained.weights = [elsewhere(matrix) for matrix in trained.weights]
    trained.gradients = [elsewhere(matrix) for matrix in trained.gradients]
    trained.layer.accumulate_weight_gradients = True
    trained.step()
    close([matrix.numpy() for matrix in trained.gradients], [2 * matrix for matrix in once])


def test_recurrent_matrices_can_be_in_device_memory(rng):
    """Matrices over the device's own memory, also with a descriptor and an offset."""
    trained = Trained(rng)
    trained.step()
    steps, cell = 4, trained.cell
    x = nn.Matrix("metal", nn.MatrixDescriptor(3, steps * cell.inputs))
    x.numpy()[:] = trained.x.reshape(3, -1)
    y = nn.Matrix("metal", nn.MatrixDescriptor(3, steps * cell.outputs))
    of_x = nn.MatrixDescriptor(3, cell.inputs, row_bytes=4 * steps * cell.inputs)
    of_y = nn.MatrixDescriptor(3, cell.outputs, row_bytes=4 * steps * cell.outputs)
    with Queue() as buffer:
        trained.layer.encode_forward_sequence(
            buffer, [nn.Matrix(x.array, of_x, 4 * t * cell.inputs) for t in range(steps)],
            [nn.Matrix(y.array, of_y)] * steps, [], trained.weights,
            destination_offsets=[4 * t * cell.outputs for t in range(steps)],
        )  # fmt: skip
    np.testing.assert_allclose(y.numpy(), trained.y.reshape(3, -1), rtol=1e-6)


OPTIMIZERS = {
    "descent": (nn.StochasticGradientDescent(0.1), []),
    "momentum": (nn.StochasticGradientDescent(0.1, momentum_scale=0.9), ["input_momentum_vectors"]),
    "rms": (nn.RMSProp(0.1), ["input_velocity_vectors"]),
    "adam": (nn.Adam(0.1), ["input_momentum_vectors", "input_velocity_vectors"]),
    "amsgrad": (
        nn.Adam(0.1, amsgrad=True),
        ["input_momentum_vectors", "input_velocity_vectors", "maximum_velocity_vectors"],
    ),
}


@pytest.mark.parametrize(("optimizer", "moments"), OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_optimizers_leave_padding_between_rows_unchanged(optimizer, moments, rng):
    values, gradient = (rng.uniform(-1, 1, (5, 3)).astype(np.float32) for _ in range(2))

    def step(values, gradient, kept) -> None:
        given = dict(zip(moments, kept, strict=True))
        with Queue() as buffer:
            optimizer.encode(
                buffer, input_gradient_matrix=nn.Matrix(gradient), input_values_matrix=nn.Matrix(values), **given
            )

    before = optimizer.time_step
    step(dense := values.copy(), gradient, [np.zeros((5, 3), np.float32) for _ in moments])
    optimizer.time_step = before
    wide = np.full((5, 8), 7, np.float32)
    wide[:, 2:5] = values
    step(wide[:, 2:5], gradient, [np.zeros((5, 4), np.float32)[:, :3] for _ in moments])
    np.testing.assert_allclose(wide[:, 2:5], dense, rtol=1e-6)
    assert (wide[:, :2] == 7).all() and (wide[:, 5:] == 7).all()
    with pytest.raises(mg.UnsupportedError, match="must be adjacent in memory"):
        optimizer.encode_arrays(
            mg.CommandQueue("metal").command_buffer(), [mg.asarray(gradient.T, copy=False)],
            [mg.asarray(values.T, copy=False)],
            [[mg.asarray(np.zeros((5, 3), np.float32).T, copy=False)] for _ in moments],
            [mg.asarray(values.T, copy=False)],
        )  # fmt: skip


# --- converters and images --------------------------------------------------------------------------------------------


def test_converters_reject_dtypes_other_than_float32():
    images, rows = np.zeros((2, 2, 2, 3), np.int32), np.zeros((2, 12), np.int32)
    buffer = mg.CommandQueue("metal").command_buffer()
    with pytest.raises(mg.UnsupportedError, match="images must be float32 or float16 on the Metal device, got int32"):
        nn.ImageCopyToMatrix("metal").encode_batch(buffer, images, nn.Matrix(rows))
    with pytest.raises(mg.UnsupportedError, match="must be float32 or float16 .* got int32"):
        nn.MatrixCopyToImage("metal").encode_batch(buffer, nn.Matrix(rows), images)
    wide = np.zeros((1, 1, 1, 9000), np.float32)
    with pytest.raises(mg.UnsupportedError, match="9000 channels"):
        nn.ImageCopyToMatrix("metal").encode_batch(buffer, wide, nn.Matrix(np.zeros((1, 9000), np.float32)))
    none = np.zeros((0, 2, 2, 3), np.float32)
    nn.ImageCopyToMatrix("metal").encode_batch(buffer, none, nn.Matrix(np.zeros((1, 12), np.float32)))
    nn.MatrixCopyToImage("metal").encode_batch(buffer, nn.Matrix(np.zeros((1, 12), np.float32)), none)
    with pytest.raises(mg.DeviceError, match="must belong to the layer's device cpu, got one of device metal"):
        nn.ImageCopyToMatrix("cpu").encode_batch(buffer, images, nn.Matrix(rows))


@pytest.mark.parametrize("mapped", [True, False])
def test_strided_images_convert_to_matrices_and_back(mapped: bool, rng):
    images = rng.uniform(-1, 1, (2, 4, 4, 3)).astype(np.float32)
    rows, back = np.full((3, 30), 7, np.float32), np.full((2, 2, 8, 3), 7, np.float32)
    MOCK.mock_refuse_memory_of_others(0 if mapped else 1)
    try:
        there, again = nn.ImageCopyToMatrix("metal"), nn.MatrixCopyToImage("metal")
        there.destination_matrix_origin = again.source_matrix_origin = (1, 2)
        with Queue() as buffer:
            there.encode_batch(buffer, images[:, ::2], nn.Matrix(rows))
            again.encode_batch(buffer, nn.Matrix(rows), back[:, :, ::2])
    finally:
        MOCK.mock_refuse_memory_of_others(0)
    np.testing.assert_array_equal(rows[1:, 2:26], images[:, ::2].reshape(2, -1))
    np.testing.assert_array_equal(back[:, :, ::2], images[:, ::2])
    assert (rows[0] == 7).all() and (rows[:, :2] == 7).all() and (rows[:, 26:] == 7).all()
    assert (back[:, :, 1::2] == 7).all()


def test_images_with_too_many_pixels_raise(rng):
    layer = nn.RNNImageInferenceLayer("metal", CELL.drawn(rng).descriptor())
    images, results = [np.zeros((1, 65, 64, 3), np.float32)], [np.zeros((1, 65, 64, 2), np.float32)]
    with pytest.raises(mg.UnsupportedError, match="at most 4096 pixels, .* got 4160"):
        layer.encode_sequence(mg.CommandQueue("metal").command_buffer(), images, results)
    with pytest.raises(mg.UnsupportedError, match="at most 4096 pixels, .* got 4160"):
        both = nn.RNNImageInferenceLayer(
            "metal",
            [CELL.descriptor(), CELL.descriptor(layer_sequence_direction=nn.RNNSequenceDirection.backward)],
        )
        others = [np.zeros_like(results[0])]
        both.encode_bidirectional_sequence(mg.CommandQueue("metal").command_buffer(), images, results, others)


# --- leaks ------------------------------------------------------------------------------------------------------------


def test_failed_command_buffer_raises_and_next_buffer_works(rng):
    trained = Trained(rng)
    MOCK.mock_fail_next_command_buffer(b"page fault at 0x10")
    buffer = mg.CommandQueue("metal").command_buffer()
    trained.forward(buffer)
    trained.gradient(buffer)
    buffer.commit()
    with pytest.raises(mg.DeviceError, match="page fault"):
        buffer.wait_until_completed()
    trained.step()
    expected = Trained(np.random.default_rng(20240911))
    expected.step()
    close(trained.results(), expected.results())


def test_thousand_recurrent_steps_do_not_leak_memory():
    rng = np.random.default_rng(0)

    def work(steps: int) -> None:
        trained = Trained(rng)
        cell = Cell("gru", 2, 2).drawn(rng)
        images = nn.RNNImageInferenceLayer("metal", cell.descriptor())
        stack = nn.RNNMatrixInferenceLayer("metal", [cell.descriptor(), cell.descriptor()])
        adam = nn.Adam(1e-3)
        kept: list[nn.Matrix] = []
        trained.layer.create_weight_gradient_matrices(kept)
        moments = [np.zeros_like(matrix.numpy()) for matrix in kept]
        y, z = trained.of(trained.y), empty([3] * 4, 2)
        pixels = [np.zeros((1, 1, 1, 2), np.float32) for _ in range(4)]
        for _ in range(steps):
            states, others, of_images = [], [], []
            with Queue() as buffer:
                nn.ImageCopyToMatrix("metal").encode_batch(
                    buffer, trained.x.reshape(3, 1, 4, 3).copy(), nn.Matrix(trained.x.reshape(3, -1))
                )
                trained.forward(buffer, recurrent_output_states=states)
                trained.gradient(buffer)
                for matrix, gradient, moment in zip(trained.weights, trained.gradients, moments, strict=True):
                    adam.encode(
                        buffer, input_gradient_matrix=gradient, input_values_matrix=matrix,
                        input_momentum_vectors=moment, input_velocity_vectors=[np.zeros_like(moment)],
                    )  # fmt: skip
                stack.encode_sequence(buffer, y, matrices(z), recurrent_output_states=others)
                stack.encode_sequence(buffer, y, matrices(z), recurrent_input_state=others[0])
                images.encode_sequence(buffer, pixels, [p + 1 for p in pixels], recurrent_output_states=of_images)
                images.encode_sequence(buffer, pixels, [p + 1 for p in pixels], recurrent_input_state=of_images[0])
            abandoned = mg.CommandQueue("metal").command_buffer()
            trained.forward(abandoned)

    work(3)
    gc.collect()
    before, without = MOCK.mock_live_objects(), MOCK.mock_autoreleases_without_pool()
    work(250)  # encodes of four layers each
    gc.collect()
    MOCK.mock_wait_until_idle(ctypes.c_double(10))
    assert MOCK.mock_live_objects() <= before + 5, MOCK.mock_live_objects_by_class().decode()
    assert MOCK.mock_autoreleases_without_pool() == without


def test_copied_weights_take_effect_in_the_next_sequence(rng):
    trained = Trained(rng)
    other = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
    with Queue() as buffer:
        trained.layer.encode_copy_weights(
            buffer, trained.weights, nn.RNNMatrixId.lstm_input_gate_input_weights, nn.Matrix(other), False
        )
        trained.forward(buffer)
    identity = nn.RNNMatrixId.lstm_input_gate_input_weights
    np.testing.assert_array_equal(part_of(trained.layer, trained.weights, identity, other), other)
    trained.cell.weights[0, "input_weights"] = other
    expected, _ = trained.cell.run([trained.x[:, t] for t in range(4)])
    np.testing.assert_allclose(trained.y, np.stack(expected, 1), rtol=1e-5, atol=1e-6)
