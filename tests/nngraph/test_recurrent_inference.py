"""Compare the recurrent inference layers with float64 numpy: stacks, both directions, states, and images."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import IS_METAL, NAME
from harness.recurrent_layers import TANH, Cell, Queue, compiled, empty, matrices
from mpsgraph.nngraph import (
    Matrix,
    RNNBidirectionalCombineMode,
    RNNImageInferenceLayer,
    RNNMatrixInferenceLayer,
    RNNRecurrentImageState,
    RNNRecurrentMatrixState,
    RNNSequenceDirection,
)

pytestmark = pytest.mark.both_devices
BACKWARD = {"layer_sequence_direction": RNNSequenceDirection.backward}
STACKS = {
    "one": [Cell("lstm", 3, 2)],
    "three kinds": [Cell("single_gate", 3, 4), Cell("lstm", 4, 5, memory=[0, 3]), Cell("gru", 5, 2, p=2.0)],
    "operations": [Cell("lstm", 3, 4, memory=[1], diagonal=True), Cell("gru", 4, 2), Cell("single_gate", 2, 2)],
}
ROWS = [2, 2, 2, 2]


def drawn(rng, rows, columns) -> list[np.ndarray]:
    return [rng.uniform(-1, 1, (n, columns)).astype(np.float32) for n in rows]


def through(cells, xs, starts=None):
    """Return the results, and the outputs and memory cells of all layers, computed in float64 numpy."""
    found = []
    for i, cell in enumerate(cells):
        h, c = starts[i] if starts else (None, None)
        xs, cs = cell.run(xs, h, c)
        found.append((xs, cs))
    return xs, found


def check(results, expected, rtol: float = 1e-5) -> None:
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=rtol, atol=rtol / 10)


@pytest.mark.parametrize("rows", [ROWS, [3, 2, 2, 1], [1]], ids=str)
@pytest.mark.parametrize("cells", STACKS.values(), ids=STACKS.keys())
def test_stacked_recurrent_layers_match_numpy(cells, rows, rng):
    layer = RNNMatrixInferenceLayer(NAME, [cell.drawn(rng).descriptor() for cell in cells])
    assert layer.number_of_layers == len(cells)
    assert (layer.input_feature_channels, layer.output_feature_channels) == (3, 2)
    xs, ys = drawn(rng, rows, 3), empty(rows, 2)
    for _ in range(3):
        with Queue() as buffer:
            layer.encode_sequence(buffer, matrices(xs), matrices(ys))
    check(ys, through(cells, xs)[0])
    assert layer.compiled == compiled(1)


@pytest.mark.parametrize("store_all", [False, True])
@pytest.mark.parametrize("cells", STACKS.values(), ids=STACKS.keys())
def test_initial_and_final_states_of_stacked_layers_match_numpy(cells, store_all, rng):
    layer = RNNMatrixInferenceLayer(NAME, [cell.drawn(rng).descriptor() for cell in cells])
    layer.store_all_intermediate_states = store_all
    xs, ys = drawn(rng, ROWS, 3), empty(ROWS, 2)
    starts = [
        (*drawn(rng, [2], cell.outputs), *(drawn(rng, [2], cell.outputs) if cell.kind == "lstm" else [None]))
        for cell in cells
    ]
    begin = RNNRecurrentMatrixState([(Matrix(h), None if c is None else Matrix(c)) for h, c in starts])
    states: list[RNNRecurrentMatrixState] = []
    with Queue() as buffer:
        layer.encode_sequence(
            buffer, matrices(xs), matrices(ys), recurrent_input_state=begin, recurrent_output_states=states
        )
    expected, found = through(cells, xs, starts)
    check(ys, expected)
    steps = list(range(len(ROWS))) if store_all else [len(ROWS) - 1]
    assert len(states) == len(steps)
    for state, step in zip(states, steps, strict=True):
        for i, cell in enumerate(cells):
            check([state.recurrent_output_matrix(i).numpy()], [found[i][0][step]])
            if cell.kind == "lstm":
                check([state.memory_cell_matrix(i).numpy()], [found[i][1][step]])
            else:
                assert state.memory_cell_matrix(i) is None
    with pytest.raises(mg.GraphError, match=r"layer index [0-9]+ is out of range"):
        states[0].recurrent_output_matrix(len(cells))


def directions(rng, outputs=(2, 2)):
    """Build two layers per direction, ordered forward, backward, forward, backward.

    Returns:
        The layer, its forward cells, and its backward cells.
    """
    ahead = [Cell("lstm", 3, 4).drawn(rng), Cell("gru", 4, outputs[0]).drawn(rng)]
    back = [Cell("single_gate", 3, 5, activations=[("relu", 0.25)]).drawn(rng), Cell("lstm", 5, outputs[1]).drawn(rng)]
    descriptors = [
        ahead[0].descriptor(), back[0].descriptor(**BACKWARD), ahead[1].descriptor(), back[1].descriptor(**BACKWARD)
    ]  # fmt: skip
    return RNNMatrixInferenceLayer(NAME, descriptors), ahead, back


@pytest.mark.parametrize("mode", RNNBidirectionalCombineMode)
def test_bidirectional_layers_match_numpy_in_each_combine_mode(mode, rng):
    outputs = (2, 3) if mode == RNNBidirectionalCombineMode.concatenate else (2, 2)
    layer, ahead, back = directions(rng, outputs)
    layer.bidirectional_combine_mode = mode
    assert layer.bidirectional_combine_mode is mode
    xs = drawn(rng, ROWS, 3)
    one, other = through(ahead, xs)[0], through(back, xs[::-1])[0][::-1]
    if mode == RNNBidirectionalCombineMode.none:
        first, second = empty(ROWS, 2), empty(ROWS, 2)
        with Queue() as buffer:
            layer.encode_bidirectional_sequence(buffer, matrices(xs), matrices(first), matrices(second))
        check(first, one)
        check(second, other)
        return
    adds = mode == RNNBidirectionalCombineMode.add
    ys = empty(ROWS, 2 if adds else 5)
    with Queue() as buffer:
        layer.encode_bidirectional_sequence(buffer, matrices(xs), matrices(ys))
    check(ys, [a + b if adds else np.concatenate([a, b], 1) for a, b in zip(one, other, strict=True)])


def test_layer_direction_is_ignored_in_unidirectional_calls(rng):
    cell = Cell("lstm", 3, 2).drawn(rng)
    layer = RNNMatrixInferenceLayer(NAME, cell.descriptor(**BACKWARD))
    xs, ys = drawn(rng, ROWS, 3), empty(ROWS, 2)
    with Queue() as buffer:
        layer.encode_sequence(buffer, matrices(xs), matrices(ys))
    check(ys, through([cell], xs)[0])


def test_inference_weights_are_float16_by_default(rng):
    cell = Cell("lstm", 3, 2).drawn(rng)
    layer = RNNMatrixInferenceLayer(NAME, cell.descriptor(use_float32_weights=False))
    xs, ys = drawn(rng, ROWS, 3), empty(ROWS, 2)
    with Queue() as buffer:
        layer.encode_sequence(buffer, matrices(xs), matrices(ys))
    exact = through([cell], xs)[0]
    cell.weights = {key: value.astype(np.float16) for key, value in cell.weights.items()}
    check(ys, through([cell], xs)[0])
    assert np.abs(np.stack(ys) - np.stack(exact)).max() > 1e-5


def test_invalid_stacks_and_sequences_raise(rng):
    stack = [cell.drawn(rng).descriptor() for cell in (Cell("lstm", 3, 2), Cell("gru", 4, 2))]
    with pytest.raises(
        mg.ShapeError, match=r"layer 1 must have 2 input feature channel\(s\), like the output .* layer 0; got 4"
    ):
        RNNMatrixInferenceLayer(NAME, stack)
    with pytest.raises(mg.GraphError, match="needs at least one descriptor"):
        RNNMatrixInferenceLayer(NAME, [])
    with pytest.raises(mg.GraphError, match="expected an RNNSingleGateDescriptor"):
        RNNMatrixInferenceLayer(NAME, ["lstm"])

    one_way = RNNMatrixInferenceLayer(NAME, Cell("lstm", 3, 2).drawn(rng).descriptor())
    both, *_ = directions(rng, (2, 3))
    xs, ys = matrices(drawn(rng, ROWS, 3)), matrices(empty(ROWS, 2))
    buffer = mg.CommandQueue(NAME).command_buffer()
    with pytest.raises(mg.GraphError, match="needs layers of both directions"):
        one_way.encode_bidirectional_sequence(buffer, xs, ys, ys)
    with pytest.raises(mg.GraphError, match="pass backward destinations, too"):
        both.encode_bidirectional_sequence(buffer, xs, ys)
    with pytest.raises(mg.DeviceError, match="shares memory with"):
        same, *_ = directions(rng)
        same.encode_bidirectional_sequence(buffer, xs, ys, ys)
    both.bidirectional_combine_mode = RNNBidirectionalCombineMode.add
    with pytest.raises(mg.GraphError, match="pass no backward destinations"):
        both.encode_bidirectional_sequence(buffer, xs, ys, ys)
    with pytest.raises(mg.ShapeError, match="can only be added"):
        both.encode_bidirectional_sequence(buffer, xs, ys)
    with pytest.raises(mg.GraphError, match="must be an RNNBidirectionalCombineMode"):
        both.bidirectional_combine_mode = 3
    falling = matrices(drawn(rng, [2, 1], 3))
    both.bidirectional_combine_mode = RNNBidirectionalCombineMode.concatenate
    with pytest.raises(mg.UnsupportedError, match="all steps must have the same number of rows"):
        both.encode_bidirectional_sequence(buffer, falling, matrices(empty([2, 1], 5)))
    with pytest.raises(mg.GraphError, match=r"one entry per layer \(1\), got 2"):
        one_way.encode_sequence(buffer, xs, ys, recurrent_input_state=RNNRecurrentMatrixState([(None, None)] * 2))
    with pytest.raises(mg.ShapeError, match=r"layer 1 must have [0-9]+ input feature channel\(s\), .* got 3"):
        both.encode_sequence(buffer, xs, ys)
    assert not buffer.done


# --- images -----------------------------------------------------------------------------------------------------------


class Batch:
    """An object counts as an image batch if it has an `array`."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


def test_image_sequences_are_processed_pixel_by_pixel(rng):
    cells = [Cell("lstm", 3, 4, memory=[2]).drawn(rng), Cell("gru", 4, 2).drawn(rng)]
    layer = RNNImageInferenceLayer(NAME, [cell.descriptor() for cell in cells])
    images = [rng.uniform(-1, 1, (2, 3, 5, 3)).astype(np.float32) for _ in range(4)]
    results = [np.full((2, 3, 5, 2), np.nan, np.float32) for _ in images]
    states: list = []
    with Queue() as buffer:
        layer.encode_sequence(buffer, images[:2], results[:2], recurrent_output_states=states)
        layer.encode_sequence(
            buffer, [Batch(image) for image in images[2:]], [Batch(image) for image in results[2:]],
            recurrent_input_state=states[0], recurrent_output_states=states,
        )  # fmt: skip
    for cell in cells:  # Image layers always round weights to float16.
        cell.weights = {key: value.astype(np.float16) for key, value in cell.weights.items()}
    expected, found = through(cells, [image.reshape(-1, 3) for image in images])
    near = 2e-3 if IS_METAL else 1e-5  # Apple keeps the states of image layers in float16.
    check([result.reshape(-1, 2) for result in results[:2]], expected[:2])
    check([result.reshape(-1, 2) for result in results[2:]], expected[2:], near)
    assert states[1].recurrent_output_image(0).shape == (2, 3, 5, 4)
    check([states[1].memory_cell_image(0).numpy().reshape(-1, 4)], [found[0][1][-1]], near)
    check([states[0].recurrent_output_image(1).numpy().reshape(-1, 2)], [found[1][0][1]], near)
    assert states[0].memory_cell_image(1) is None


def test_image_sequences_with_shrinking_batches_match_numpy(rng):
    """The batch shrinks over time, states of all steps are stored, and only one layer has an initial output."""
    cells = [Cell("lstm", 3, 2).drawn(rng), Cell("gru", 2, 4).drawn(rng)]
    layer = RNNImageInferenceLayer(NAME, [cell.descriptor() for cell in cells])
    layer.store_all_intermediate_states = True
    rows = [3, 2, 1]
    images = [rng.uniform(-1, 1, (n, 1, 1, 3)).astype(np.float16) for n in rows]
    results, states = [np.full((n, 1, 1, 4), np.nan, np.float32) for n in rows], []
    h = rng.uniform(-1, 1, (3, 1, 1, 2)).astype(np.float16).astype(np.float32)
    with Queue() as buffer:
        layer.encode_sequence(
            buffer, images, results, recurrent_output_states=states,
            recurrent_input_state=RNNRecurrentImageState([(h, None), (None, None)]),
        )  # fmt: skip
    for cell in cells:
        cell.weights = {key: value.astype(np.float16) for key, value in cell.weights.items()}
    first, cs = cells[0].run([image.reshape(-1, 3) for image in images], h.reshape(3, 2))
    second, _ = cells[1].run(first)
    for i, n in enumerate(rows):
        check([results[i].reshape(n, 4)], [second[i]])
        check([states[i].memory_cell_image(0).numpy().reshape(n, -1)], [cs[i]], 2e-3 if IS_METAL else 1e-5)


def test_bidirectional_image_sequences_match_numpy(rng):
    cells = [Cell("single_gate", 3, 2, activations=[TANH]).drawn(rng) for _ in range(2)]
    layer = RNNImageInferenceLayer(NAME, [cells[0].descriptor(), cells[1].descriptor(**BACKWARD)])
    layer.bidirectional_combine_mode = RNNBidirectionalCombineMode.concatenate
    images = [rng.uniform(-1, 1, (1, 2, 2, 3)).astype(np.float32) for _ in range(3)]
    results = [np.full((1, 2, 2, 4), np.nan, np.float32) for _ in images]
    with Queue() as buffer:
        layer.encode_bidirectional_sequence(buffer, images, results)
    for cell in cells:
        cell.weights = {key: value.astype(np.float16) for key, value in cell.weights.items()}
    xs = [image.reshape(-1, 3) for image in images]
    one, other = through(cells[:1], xs)[0], through(cells[1:], xs[::-1])[0][::-1]
    check(
        [result.reshape(-1, 4) for result in results],
        [np.concatenate(pair, 1) for pair in zip(one, other, strict=True)],
    )


def test_invalid_image_sequences_raise(rng):
    layer = RNNImageInferenceLayer(NAME, Cell("lstm", 3, 2).drawn(rng).descriptor())
    buffer = mg.CommandQueue(NAME).command_buffer()
    good = [np.zeros((1, 2, 2, 2), np.float32)]
    with pytest.raises(mg.ShapeError, match=r"must be images of shape \[N, H, W, C\]"):
        layer.encode_sequence(buffer, [np.zeros((2, 3), np.float32)], good)
    with pytest.raises(mg.ShapeError, match="make a contiguous copy"):
        layer.encode_sequence(buffer, [np.zeros((1, 2, 4, 3), np.float32)[:, :, ::2]], good)
    with pytest.raises(mg.DTypeError, match="must be float32 or float16"):
        layer.encode_sequence(buffer, [np.zeros((1, 2, 2, 3), np.float64)], good)
