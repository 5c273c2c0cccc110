"""Test recurrent layers on padded sequences, with lengths or a mask.

Each row must have the results and gradients of the same row without padding. Invalid lengths and masks must raise.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import has
from mpsgraph import nn

pytestmark = pytest.mark.both_devices

WIDE = "float64" if has("float64") else "float32"
CLOSE = {"rtol": 1e-9, "atol": 1e-12} if has("float64") else {"rtol": 1e-4, "atol": 1e-5}
LAYERS = {
    "RNN": lambda **o: nn.RNN(3, **o),
    "RNN_relu": lambda **o: nn.RNN(3, activation="relu", **o),
    "LSTM": lambda **o: nn.LSTM(3, **o),
    "GRU": lambda **o: nn.GRU(3, **o),
}
LENGTHS = [5, 2, 0, 7, 1]
STEPS = 7


def mask_of(kind, rng):
    """Return a mask of real steps: the first ones ("front"), the last ones ("back"), or scattered ones."""
    ahead = np.arange(STEPS) < np.array(LENGTHS)[:, None]
    if kind == "front":
        return ahead
    return ahead[:, ::-1] if kind == "back" else rng.permuted(ahead, axis=1)


def states_of(states):
    return list(states) if isinstance(states, tuple) else [states]


def results(layer, x, batch_first, initial, **options):
    """Return the outputs, their gradients with respect to inputs and initial states, and those with respect to the
    weights.

    Outputs are the sequence and the final states; the gradients are those of a sum that weights each output
    differently.
    """
    g = mg.Graph(seed=3)
    shape = (-1, -1, x.shape[2])
    fed = g.placeholder(shape, WIDE)
    starts = [g.placeholder(s.shape, WIDE) for s in initial]
    feeds = {fed: x} | dict(zip(starts, initial, strict=True))
    given = {}
    for name, value in options.items():
        given[name] = g.placeholder(value.shape, mg.int64 if name == "lengths" else mg.bool_)
        feeds[given[name]] = value
    state = None if not starts else tuple(starts) if isinstance(layer, nn.LSTM) else starts[0]
    y, last = layer.with_state(fed, state, **given)
    alone = layer(fed, state, **given)
    outputs = [y, *states_of(last)]
    loss = None
    for i, output in enumerate(outputs):
        axis = 0 if batch_first and i == 0 else 1  # Axis of the rows, because the loss is computed per row.
        part = g.reduction_sum(g.square(output) * (i + 1.0) + g.sin(output), [a for a in range(3) if a != axis])
        loss = g.reshape(part, (-1,)) if loss is None else loss + g.reshape(part, (-1,))
    slopes = g.gradients(g.reduction_sum(loss), [fed, *starts, *layer.parameters()])
    found = g.run(feeds, [alone, *outputs, *slopes.values()])
    np.testing.assert_array_equal(found[alone].numpy(), found[y].numpy())
    values = [found[t].numpy() for t in (*outputs, *slopes.values())]
    ends = len(outputs), len(outputs) + 1 + len(starts)
    return values[: ends[0]], values[ends[0] : ends[1]], values[ends[1] :]


@pytest.mark.parametrize("where", ["front", "back", "anywhere"])
@pytest.mark.parametrize("batch_first", [True, False], ids=["batch_first", "time_first"])
@pytest.mark.parametrize("form", ["plain", "both ways", "two layers both ways, with first states"])
@pytest.mark.parametrize("name", LAYERS)
def test_padded_sequences_give_the_same_results_as_unpadded(name, form, batch_first, where, rng):
    options = {"batch_first": batch_first, "bidirectional": "both" in form, "num_layers": 2 if "two" in form else 1}
    directions = 2 if "both" in form else 1
    mask = mask_of(where, rng)
    x = rng.normal(size=(len(LENGTHS), STEPS, 4)).astype(WIDE)
    x[~mask] = np.nan  # Padding values must be ignored.
    kinds = 0 if "states" not in form else 2 if name == "LSTM" else 1
    initial = [rng.normal(size=(2 * directions, len(LENGTHS), 3)).astype(WIDE) for _ in range(kinds)]

    def turned(a):
        return a if batch_first else np.swapaxes(a, 0, 1)

    ways = {"mask": turned(mask)} if where != "front" else {"lengths": np.array(LENGTHS)}
    padded, slopes, by_weights = results(LAYERS[name](**options), turned(x), batch_first, initial, **ways)
    total = [np.zeros_like(w) for w in by_weights]
    for row, length in enumerate(LENGTHS):
        real = mask[row]
        y, d = turned(padded[0])[row], turned(slopes[0])[row]
        assert (y[~real] == 0).all() and (d[~real] == 0).all()
        own = [s[:, row : row + 1] for s in initial]
        if not length:  # An empty sequence cannot run alone; its states must stay at their initial values.
            for state, before in zip(padded[1:], own or [0.0] * len(padded[1:]), strict=True):
                np.testing.assert_array_equal(state[:, row : row + 1], before + np.zeros((len(state), 1, 3)))
            continue
        alone, own_slopes, own_weights = results(
            LAYERS[name](**options), turned(x[row : row + 1, real]), batch_first, own
        )
        np.testing.assert_allclose(y[real], turned(alone[0])[0], **CLOSE)
        for state, wanted in zip(padded[1:], alone[1:], strict=True):
            np.testing.assert_allclose(state[:, row : row + 1], wanted, **CLOSE)
        np.testing.assert_allclose(d[real], turned(own_slopes[0])[0], **CLOSE)
        for slope, wanted in zip(slopes[1:], own_slopes[1:], strict=True):
            np.testing.assert_allclose(slope[:, row : row + 1], wanted, **CLOSE)
        total = [t + w for t, w in zip(total, own_weights, strict=True)]
    for found, wanted in zip(by_weights, total, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=10 * CLOSE["rtol"], atol=10 * CLOSE["atol"])


def test_recurrent_states_do_not_overflow_during_long_padding():
    """The ReLU state doubles at each step; over the padding it would overflow float32 and turn gradients into NaN."""
    g = mg.Graph()
    layer = nn.RNN(1, activation="relu", bias=False)
    x = g.placeholder((1, 400, 1))
    y = layer(x, lengths=[3])
    loss = g.reduction_sum(y)
    layer.load_state_dict({"weight_ih_l0": np.float32([[1]]), "weight_hh_l0": np.float32([[2]])})
    slopes = g.gradients(loss, layer.parameters())
    found = g.run({x: np.ones((1, 400, 1), np.float32)}, [y, *slopes.values()])
    np.testing.assert_array_equal(found[y].numpy()[0, :5, 0], [1, 3, 7, 0, 0])
    # The derivatives of w (3 + 2 r + r^2) at w = 1, r = 2.
    assert [found[d].item() for d in slopes.values()] == [11.0, 6.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_sequence_lengths_are_accepted_in_every_dtype(dtype, rng):
    g = mg.Graph()
    x = g.placeholder((-1, -1, 4))
    n = g.placeholder((-1,), mg.int32)
    fed = rng.normal(size=(2, 5, 4)).astype(np.float32)
    plain, mixed = nn.GRU(3, bidirectional=True), nn.GRU(3, bidirectional=True)
    whole = [plain(g.cast(x, dtype)), plain(g.cast(x, dtype), lengths=n)]
    with mg.autocast("bfloat16"):
        whole += [mixed(x), mixed(x, lengths=n)]
    found = g.run({x: fed, n: np.int32([5, 5])}, [g.cast(t, "float32") for t in whole])
    a, b, c, d = (v.numpy() for v in found.values())
    np.testing.assert_allclose(a, b, rtol=2e-2, atol=1e-2 if dtype != "float32" else 1e-6)
    np.testing.assert_allclose(c, d, rtol=2e-2, atol=1e-2)


def test_invalid_sequence_lengths_and_masks_raise():
    g = mg.Graph()
    x = g.placeholder((3, 5, 2))
    layer = nn.LSTM(4)
    with pytest.raises(mg.GraphError, match="exactly one of lengths and mask"):
        layer(x, lengths=[1, 2, 3], mask=g.placeholder((3, 5), mg.bool_))
    with pytest.raises(mg.OutOfRangeError, match="from 0 to 5, .*got 6"):
        layer(x, lengths=[1, 6, 3])
    with pytest.raises(mg.OutOfRangeError, match="from 0 to 5, .*got -1"):
        layer(x, lengths=np.array([1, -1, 3]))
    with pytest.raises(mg.ShapeError, match=r"one entry for each sequence, shape \(3,\)"):
        layer(x, lengths=[1, 2])
    with pytest.raises(mg.ShapeError, match="lengths must be a tensor, an array, ints or None"):
        layer(x, lengths=[1.0, 2.0, 3.0])
    with pytest.raises(mg.DTypeError, match="lengths must be integers"):
        layer(x, lengths=g.placeholder((3,)))
    for wrong in (g.placeholder((3, 5)), [[True] * 5] * 3):
        with pytest.raises(mg.DTypeError, match="mask must be a tensor or None|mask must be a bool tensor"):
            layer(x, mask=wrong)
    for shape in ((5, 3), (3,), (3, 4)):
        with pytest.raises(mg.ShapeError, match=r"mask must have shape \(batch, time\)"):
            layer(x, mask=g.placeholder(shape, mg.bool_))


@pytest.mark.parametrize("wrong", [6, -1])
def test_out_of_range_fed_sequence_lengths_raise(wrong):
    g = mg.Graph()
    x, n = g.placeholder((-1, -1, 2)), g.placeholder((-1,), mg.int64, "lengths")
    y = nn.GRU(4)(x, lengths=n)
    g.run({x: np.zeros((2, 5, 2), np.float32), n: np.array([0, 5])}, y)
    with pytest.raises(mg.OutOfRangeError, match=f"index {wrong} at \\(1\\) of 'lengths'.*from 0 to 5"):
        g.run({x: np.zeros((2, 5, 2), np.float32), n: np.array([0, wrong])}, y)


def test_single_bias_recurrent_layer_equals_two_bias_layer(rng):
    """The result equals that of the layer with two biases whose recurrent bias is zero."""
    fed = rng.normal(size=(2, 3, 4)).astype(np.float32)
    for make, gates in ((nn.LSTM, 4), (nn.RNN, 1), (nn.GRU, 3)):
        g = mg.Graph(seed=1)
        one, two = make(3, bidirectional=True, recurrent_bias=False), make(3, bidirectional=True)
        x = g.placeholder((-1, -1, 4))
        y = [one(x), two(x)]
        assert sorted(dict(one.named_parameters())) == sorted(
            name for name in dict(two.named_parameters()) if "bias_hh" not in name
        )
        state = {k: rng.normal(size=v.shape).astype(np.float32) for k, v in one.state_dict().items()}
        assert state["bias_ih_l0"].shape == (3 * gates,)
        one.load_state_dict(state)
        zeros = {f"bias_hh_l0{way}": np.zeros(3 * gates, np.float32) for way in ("", "_reverse")}
        two.load_state_dict(state | zeros)
        found = g.run({x: fed}, y)
        np.testing.assert_allclose(found[y[0]].numpy(), found[y[1]].numpy(), rtol=1e-5, atol=1e-6)
