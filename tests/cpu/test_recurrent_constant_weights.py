"""Compare recurrent layers whose constant weights are packed once with layers whose weights are fed."""

import os

import mpsgraph as mg
import numpy as np
import pytest
from harness.instructions import SMALLER_SETS, run_again_with

STEPS = 7
GATES = {"lstm": 4, "gru": 3, "single_gate_rnn": 1}
ROUNDING = 2e-6  # for states of magnitude about 1, summed in a different order


def layer(kind, batch, weights, *, constant, directions=1, steps=STEPS, **how):
    """Return an executable and its feeds: the projected input, and the weights unless they are constant."""
    wide = weights.size // weights.shape[-1]
    source = np.random.default_rng([batch, wide]).normal(size=(steps, batch, wide)).astype(np.float32)
    g = mg.Graph()
    x = g.placeholder(source.shape)
    r = g.constant(weights) if constant else g.placeholder(weights.shape)
    if directions == 2:
        how["bidirectional"] = True
    state = getattr(g, kind)(x, r, **how)[0]
    feeds = {x: source} if constant else {x: source, r: weights}
    made = g.compile({t: value.shape for t, value in feeds.items()}, [state])
    return made, [feeds[t] for t in made.feeds]


def weights_of(kind, hidden, directions=1):
    shape = (GATES[kind] * hidden, hidden) if directions == 1 else (2, GATES[kind] * hidden, hidden)
    return np.random.default_rng(hidden).normal(size=shape).astype(np.float32) / np.float32(np.sqrt(hidden))


@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("batch, directions", [(1, 1), (1, 2), (3, 1), (3, 2)])
def test_recurrent_layers_with_constant_and_fed_weights_agree(kind, batch, directions):
    if kind == "gru" and directions == 2:
        ways = [{"reset_after": True}]
    else:
        ways = [{}, {"reset_after": True}] if kind == "gru" else [{}]
    for hidden in (1, 4, 8, 13, 33, 100):
        for how in ways:
            weights = weights_of(kind, hidden, directions)
            once, once_fed = layer(kind, batch, weights, constant=True, directions=directions, **how)
            each, each_fed = layer(kind, batch, weights, constant=False, directions=directions, **how)
            assert hidden == 1 or "packed weights" in once.plan()
            assert "packed weights" not in each.plan()
            wanted = each.run(each_fed)[0].numpy()
            assert np.abs(wanted).max() > 0.1
            for _ in range(2):
                np.testing.assert_allclose(once.run(once_fed)[0].numpy(), wanted, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("hidden", [5, 16, 21])
def test_non_finite_constant_weights_propagate_like_fed_weights(value, hidden):
    for unit in (0, hidden - 1):
        weights = weights_of("lstm", hidden)
        weights[2 * hidden + unit, hidden - 1] = value
        for batch in (1, 2):
            layers = (layer("lstm", batch, weights, constant=which) for which in (True, False))
            found = [made.run(fed)[0].numpy() for made, fed in layers]
            np.testing.assert_allclose(*found, rtol=ROUNDING, atol=ROUNDING)
            if np.isnan(value):
                assert np.isnan(found[0][0]).sum() == np.isnan(found[0][0, :, unit]).sum() == batch  # 0 x NaN
                assert np.isnan(found[0][2]).all()  # all units, two steps later


def test_large_recurrent_weights_and_single_steps_are_not_packed():
    made, _ = layer("lstm", 1, weights_of("lstm", 300), constant=True)
    assert "packed weights" not in made.plan()
    made, _ = layer("lstm", 1, weights_of("lstm", 16), constant=True, steps=1)
    assert "packed weights" not in made.plan()


@pytest.mark.skipif(bool(os.environ.get("MPSGRAPH_INSTRUCTION_SET")), reason="an instruction set is already selected")
@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    run_again_with(instructions, __file__)
