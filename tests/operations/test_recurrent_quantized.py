"""Compare LSTM steps with 8-bit recurrent weights with numpy.

Sums of products are exact, so each step matches numpy up to float32 rounding if it starts from equal states. The last
test repeats this file with smaller instruction sets.
"""

import os

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import SMALLER_SETS, run_again_with
from harness.running import REFERENCE, run

pytestmark = pytest.mark.both_devices

ON_METAL = os.environ.get("MPSGRAPH_TEST_DEVICE") == "metal"
USUAL = [3, 3, 2, 3, 2]  # sigmoid and tanh, in MPSGraph's numbering
ONNX = [0, 2, 3, 1]  # positions of input, forget, cell, and output gate


def layer(source, weights, scale, zero, state, cell, constant=True, options=None, **how):
    """Return the states and cells of all steps."""
    g = mg.Graph()
    feeds, operands = {}, []
    for i, array in enumerate((source, weights, scale, zero, state, cell)):
        if constant and 1 <= i <= 3:
            operands.append(g.constant(array))
        else:
            operands.append(g.placeholder(array.shape, array.dtype.name))
            feeds[operands[-1]] = array
    results = list(g.create("quantized_lstm_sequence", operands, {"places": ONNX, "activations": USUAL} | how).outputs)
    return [result.numpy() for result in run(g, list(feeds), list(feeds.values()), results, options)]


def drawn(directions=1, steps=3, batch=1, hidden=5, dtype="int8", spread=None, seed=0):
    """Return the operands of a layer, with weights of the whole range, or normally distributed as in trained layers."""
    rng = np.random.default_rng([seed, directions, steps, batch, hidden])
    info = np.iinfo(dtype)
    shape = (directions, hidden, 4 * hidden)
    weights = rng.integers(info.min, info.max, shape, endpoint=True)
    if spread:
        weights = np.clip(rng.normal((int(info.min) + info.max) / 2, spread, shape).round(), info.min, info.max)
    scale = rng.uniform(0.5, 1.5, (directions, 4 * hidden)) / (100 * np.sqrt(hidden))
    zero = np.zeros((directions, 4 * hidden)) if dtype == "int8" else np.full((directions, 4 * hidden), 128)
    shapes = ((directions, steps, batch, 4 * hidden), *2 * [(batch, directions * hidden)])
    source, state, cell = (rng.normal(size=s).astype(np.float32) for s in shapes)
    return [source, weights.astype(dtype), scale.astype(np.float32), zero.astype(dtype), state, cell]


FUNCTIONS = [lambda x: x, lambda x: np.maximum(x, 0), np.tanh, lambda x: 1 / (1 + np.exp(-x)),
             lambda x: np.clip(0.2 * x + 0.5, 0, 1)]  # fmt: skip


def one_step(source, weights, scale, zero, h, c, places, activations):
    """Compute one step of a direction from float32 states, in float64 after the integer sums."""
    low, high = min(h.min(), 0), max(h.max(), 0)
    step = np.float32(np.float32(high - low) / np.float32(255))
    q, point = np.zeros(h.shape, int), 0
    if step > 0:
        point = int(np.rint(np.float32(-low) / step))
        q = np.clip(np.rint(h / step) + point, 0, 255).astype(int)
    sums = (q - point) @ (weights.astype(int) - zero.astype(int))
    gates = source.astype(np.float64) + np.int32(sums) * np.float64(step) * scale
    values = [FUNCTIONS[activations[k]](part) for k, part in enumerate(
        np.split(gates, 4, axis=1)[place] for place in places
    )]  # fmt: skip
    cell = values[1] * c + values[0] * values[2]
    return values[3] * FUNCTIONS[activations[4]](cell), cell


def check(operands, places=ONNX, activations=USUAL, reverse=False, tolerance=2e-6, **given):
    """Compare every step with one_step from the layer's own previous states."""
    source, weights, scale, zero, state, cell = operands
    how = {"places": places, "activations": activations, "reverse": reverse}
    states, cells = layer(*operands, **given, **how)
    directions, steps, batch, hidden = source.shape[0], source.shape[1], source.shape[2], weights.shape[1]
    assert states.shape == cells.shape == (steps, batch, directions * hidden)
    for d in range(directions):
        own = slice(d * hidden, (d + 1) * hidden)
        h, c = state[:, own], cell[:, own]
        backward = reverse != (d == 1)
        for t in reversed(range(steps)) if backward else range(steps):
            expected = one_step(source[d, t], weights[d], scale[d], zero[d], h, c, places, activations)
            h, c = states[t, :, own], cells[t, :, own]
            for got, right in zip((h, c), expected, strict=True):
                np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance, err_msg=f"{d} {t}")


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("hidden", [1, 3, 8, 31, 32, 33, 70])
@pytest.mark.parametrize("batch", [1, 3, 9])
def test_quantized_lstm_steps_of_various_sizes_match_numpy(hidden, batch, dtype):
    check(drawn(1, 3, batch, hidden, dtype))


@pytest.mark.parametrize("spread", [4, 25, None], ids=["narrow", "some wide", "wide"])
@pytest.mark.parametrize("directions, batch", [(1, 1), (2, 2), (1, 5)])
def test_quantized_lstm_weights_of_various_magnitudes_match_numpy(directions, batch, spread):
    check(drawn(directions, 4, batch, 130, spread=spread))


@pytest.mark.parametrize("ends", [(-128, -128), (127, 127), (127, -128)])
def test_largest_quantized_lstm_sums_do_not_saturate(ends):
    """An instruction that adds two products in 16 bits would saturate."""
    operands = drawn(1, 2, 2, 65)
    operands[1][:, 0::2], operands[1][:, 1::2] = ends
    operands[4][:] = np.abs(operands[4]) + 3
    operands[4][0, 0] = 0.01
    operands[2] /= 100
    check(operands)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantized_lstm_supports_zero_points_per_column(dtype):
    operands = drawn(2, 3, 2, 37, dtype)
    info = np.iinfo(dtype)
    operands[3] = np.random.default_rng(1).integers(info.min, info.max, operands[3].shape, dtype, endpoint=True)
    check(operands)
    check(operands, constant=False)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("directions", [1, 2])
def test_quantized_lstm_supports_reverse_and_bidirectional_layers(directions, reverse):
    check(drawn(directions, 5, 2, 20), reverse=reverse)


def test_quantized_lstm_splits_hidden_units_between_threads():
    """The layers are wide enough for several threads."""
    check(drawn(1, 6, 1, 420))
    check(drawn(2, 3, 2, 390), reverse=True)


def test_quantized_lstm_supports_other_activations_and_gate_orders():
    operands = drawn(1, 3, 2, 40)
    check(operands, places=[0, 1, 2, 3])
    check(operands, places=[3, 1, 0, 2], activations=[4, 3, 1, 0, 2])


@pytest.mark.skipif(ON_METAL, reason="tests the CPU's reference kernels")
@pytest.mark.parametrize("constant", [True, False])
def test_quantized_lstm_reference_kernels_match_numpy(constant):
    for dtype in ("int8", "uint8"):
        check(drawn(2, 3, 9, 35, dtype), constant=constant, options=REFERENCE, reverse=True)


def test_quantized_lstm_with_zero_states_matches_numpy():
    """If all states are zero, the products are zero."""
    operands = drawn(1, 1, 2, 9)
    operands[4][:] = 0
    check(operands)
    operands[4][:] = 0.25  # all equal and positive
    check(operands)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_quantized_lstm_state_makes_all_results_nan(value):
    """The quantization range of the whole batch becomes NaN, and with it all gates."""
    operands = drawn(1, 2, 2, 9)
    operands[4][1, 3] = value
    states, cells = layer(*operands)
    assert np.isnan(states).all() and np.isnan(cells).all()


@pytest.mark.parametrize("steps, batch", [(0, 2), (2, 0)])
@pytest.mark.skipif(ON_METAL, reason="empty tensors do not reach the device")
def test_quantized_lstm_accepts_empty_sequence_or_batch(steps, batch):
    states, cells = layer(*drawn(1, steps, batch, 4))
    assert states.shape == cells.shape == (steps, batch, 4)


def test_invalid_quantized_lstm_operands_raise():
    source, weights, scale, zero, state, cell = drawn(1, 2, 1, 4)
    with pytest.raises(mg.ShapeError, match=r"weight_scale must have shape \(1,16\), got \(1,4\)"):
        layer(source, weights, scale[:, :4], zero, state, cell)
    with pytest.raises(mg.ShapeError, match=r"recurrent_weight must have shape \[directions, H, 4 H\]"):
        layer(source, weights[:, :2], scale, zero, state, cell)
    with pytest.raises(mg.DTypeError, match="weight_zero_point must have the dtype int8 of the weights"):
        layer(source, weights, scale, zero.astype(np.uint8), state, cell)
    with pytest.raises(mg.DTypeError, match="recurrent_weight must be int8 or uint8"):
        layer(source, weights.astype(np.int32), scale, zero, state, cell)
    with pytest.raises(mg.GraphError, match="places must be a permutation of an lstm's 4 gates"):
        layer(source, weights, scale, zero, state, cell, places=[0, 1, 2, 2])


@pytest.mark.skipif(ON_METAL, reason="tests the CPU's plan")
def test_constant_quantized_lstm_weights_are_packed_once():
    g = mg.Graph()
    _, weights, scale, zero, state, cell = drawn(1, 2, 1, 40)
    x = g.placeholder((1, -1, 1, 160))
    operands = [x, *(g.constant(a) for a in (weights, scale, zero, state, cell))]
    steps = g.create("quantized_lstm_sequence", operands, {"places": ONNX, "activations": USUAL}).outputs[0]
    for count in (1, 7):
        plan = g.compile({x: (1, count, 1, 160)}, [steps]).plan()
        assert "LSTM steps with 8-bit weights, packed weights" in plan


@pytest.mark.skipif(ON_METAL, reason="tests the CPU's instruction sets")
@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    """Run this file in another process with a smaller instruction set."""
    run_again_with(instructions, __file__)
