"""Steps of an lstm with 8-bit recurrent weights, beside numpy.

Sums of products are exact, so that each step is right to float32's rounding where it begins with the same states. Every
vector set runs this file.
"""

import os

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import run_again_with
from harness.running import REFERENCE, run

pytestmark = pytest.mark.both_devices

ON_METAL = os.environ.get("MPSGRAPH_TEST_DEVICE") == "metal"
USUAL = [3, 3, 2, 3, 2]  # sigmoid and tanh, as MPSGraph counts them
ONNX = [0, 2, 3, 1]  # of input, forget, cell and output gate


def layer(source, weights, scale, zero, state, cell, constant=True, options=None, **how):
    """States and cells of all steps."""
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
    """Operands of a layer; weights of the whole range, or normal numbers as those of trained layers are."""
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
    """A direction's step, from float32 states; wide from the sums on."""
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
    """Each step from the states that the layer itself gave before it."""
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
def test_steps_of_all_sizes(hidden, batch, dtype):
    check(drawn(1, 3, batch, hidden, dtype))


@pytest.mark.parametrize("spread", [4, 25, None], ids=["narrow", "some wide", "wide"])
@pytest.mark.parametrize("directions, batch", [(1, 1), (2, 2), (1, 5)])
def test_weights_of_all_magnitudes(directions, batch, spread):
    check(drawn(directions, 4, batch, 130, spread=spread))


@pytest.mark.parametrize("ends", [(-128, -128), (127, 127), (127, -128)])
def test_the_largest_sums_do_not_saturate(ends):
    """Where an instruction that adds two products in sixteen bits would."""
    operands = drawn(1, 2, 2, 65)
    operands[1][:, 0::2], operands[1][:, 1::2] = ends
    operands[4][:] = np.abs(operands[4]) + 3
    operands[4][0, 0] = 0.01
    operands[2] /= 100
    check(operands)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_zero_points_of_every_column(dtype):
    operands = drawn(2, 3, 2, 37, dtype)
    info = np.iinfo(dtype)
    operands[3] = np.random.default_rng(1).integers(info.min, info.max, operands[3].shape, dtype, endpoint=True)
    check(operands)
    check(operands, constant=False)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("directions", [1, 2])
def test_directions(directions, reverse):
    check(drawn(directions, 5, 2, 20), reverse=reverse)


def test_shared_hidden_units():
    """Of a layer that is wide enough for several threads."""
    check(drawn(1, 6, 1, 420))
    check(drawn(2, 3, 2, 390), reverse=True)


def test_other_activations_and_orders_of_gates():
    operands = drawn(1, 3, 2, 40)
    check(operands, places=[0, 1, 2, 3])
    check(operands, places=[3, 1, 0, 2], activations=[4, 3, 1, 0, 2])


@pytest.mark.skipif(ON_METAL, reason="the CPU's plain loops")
@pytest.mark.parametrize("constant", [True, False])
def test_plain_loops(constant):
    for dtype in ("int8", "uint8"):
        check(drawn(2, 3, 9, 35, dtype), constant=constant, options=REFERENCE, reverse=True)


def test_states_without_a_range():
    """All zero: the products are zero."""
    operands = drawn(1, 1, 2, 9)
    operands[4][:] = 0
    check(operands)
    operands[4][:] = 0.25  # of one sign and value
    check(operands)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_states_that_are_no_numbers(value):
    """The range of the whole batch is none, and so are all gates."""
    operands = drawn(1, 2, 2, 9)
    operands[4][1, 3] = value
    states, cells = layer(*operands)
    assert np.isnan(states).all() and np.isnan(cells).all()


@pytest.mark.parametrize("steps, batch", [(0, 2), (2, 0)])
@pytest.mark.skipif(ON_METAL, reason="an empty tensor does not reach a device")
def test_nothing_to_do(steps, batch):
    states, cells = layer(*drawn(1, steps, batch, 4))
    assert states.shape == cells.shape == (steps, batch, 4)


def test_what_does_not_fit_is_refused():
    source, weights, scale, zero, state, cell = drawn(1, 2, 1, 4)
    with pytest.raises(mg.ShapeError, match=r"weight_scale must have shape \(1,16\), got \(1,4\)"):
        layer(source, weights, scale[:, :4], zero, state, cell)
    with pytest.raises(mg.ShapeError, match=r"recurrent_weight must have shape \[directions, H, 4 H\]"):
        layer(source, weights[:, :2], scale, zero, state, cell)
    with pytest.raises(mg.DTypeError, match="weight_zero_point must have the dtype of the weights, int8"):
        layer(source, weights, scale, zero.astype(np.uint8), state, cell)
    with pytest.raises(mg.DTypeError, match="recurrent_weight must be int8 or uint8"):
        layer(source, weights.astype(np.int32), scale, zero, state, cell)
    with pytest.raises(mg.GraphError, match="places must be an order of an lstm's 4 gates"):
        layer(source, weights, scale, zero, state, cell, places=[0, 1, 2, 2])


@pytest.mark.skipif(ON_METAL, reason="the CPU's plan")
def test_weights_are_packed_once():
    g = mg.Graph()
    _, weights, scale, zero, state, cell = drawn(1, 2, 1, 40)
    x = g.placeholder((1, -1, 1, 160))
    operands = [x, *(g.constant(a) for a in (weights, scale, zero, state, cell))]
    steps = g.create("quantized_lstm_sequence", operands, {"places": ONNX, "activations": USUAL}).outputs[0]
    for count in (1, 7):
        plan = g.compile({x: (1, count, 1, 160)}, [steps]).plan()
        assert "LSTM steps with 8-bit weights, packed weights" in plan


@pytest.mark.skipif(ON_METAL, reason="the CPU's vector sets")
@pytest.mark.parametrize("instructions", ["AVX2", "baseline"])
def test_other_vector_sets(instructions):
    """The same tests in a process of its own, which has fewer instructions."""
    run_again_with(instructions, __file__)
