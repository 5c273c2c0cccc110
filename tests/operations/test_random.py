"""Random tensors: the very bits of TensorFlow's Philox, states that are fed and read, states that the graph keeps.

The vectors were written by TensorFlow itself. All numbers must be exact but normals on a graphics processor, which has
a logarithm and a sine of its own. The restatement in cases/random.py is held against both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import NormalDist

import mpsgraph as mg
import numpy as np
import pytest
from cases import random as restated
from harness import device
from mpsgraph import _core

pytestmark = pytest.mark.both_devices

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "philox_vectors.json").read_text())
KEYS = VECTORS["by_key_and_counter"]


def words(values: list[str], dtype) -> np.ndarray:
    return np.array([int(v, 16) for v in values], dtype)


def assert_tensorflows(found: np.ndarray, words: np.ndarray, exact: bool = False) -> None:
    wanted = words.view(np.float32)
    if exact or not device.IS_METAL:
        np.testing.assert_array_equal(found, wanted)
    else:  # a graphics processor's sine is as precise near its zeros as elsewhere
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def drawn(vector: dict, **descriptor) -> np.ndarray:
    g = mg.Graph()
    state = g.random_philox_state(
        key=int(vector["key"]), counter_low=int(vector["counter_low"]), counter_high=int(vector["counter_high"])
    )
    return g.run({}, g.random((11,), state, **descriptor)[0]).numpy()


@pytest.mark.parametrize("vector", VECTORS["random123"], ids=lambda v: v["output"][0])
def test_blocks_are_random123s(vector: dict):
    c, k = words(vector["counter"], np.uint64), words(vector["key"], np.uint64)
    low, high, key = (int(a | b << np.uint64(32)) for a, b in (c[:2], c[2:], k))
    wanted = words(vector["output"], np.uint32)
    np.testing.assert_array_equal(_core.philox(key, low, high)[0], wanted)
    np.testing.assert_array_equal(restated.philox(low | high << 64, key, 1)[0], wanted)
    assert mg.random.philox_block([int(v) for v in c], [int(v) for v in k]) == wanted.tolist()


@pytest.mark.parametrize("vector", KEYS, ids=lambda v: v["key"])
def test_bits_are_tensorflows(vector: dict):
    key, low, high = (int(vector[k]) for k in ("key", "counter_low", "counter_high"))
    blocks = _core.philox(key, low, high, 3).reshape(-1)
    np.testing.assert_array_equal(blocks[:11], words(vector["u32"], np.uint32))


@pytest.mark.parametrize("vector", KEYS, ids=lambda v: v["key"])
def test_uniforms_and_integers_are_tensorflows_exactly(vector: dict):
    single = drawn(vector)
    np.testing.assert_array_equal(single.view(np.uint32), words(vector["uniform_f32"], np.uint32))
    half = drawn(vector, dtype="float16")
    np.testing.assert_array_equal(half.view(np.uint16), words(vector["uniform_f16"], np.uint16))
    brain = drawn(vector, dtype="bfloat16")
    np.testing.assert_array_equal(brain.view(np.uint16), words(vector["uniform_bf16"], np.uint16))
    if device.has("float64"):
        double = drawn(vector, dtype="float64")
        np.testing.assert_array_equal(double.view(np.uint64), words(vector["uniform_f64"], np.uint64))
    integers = drawn(vector, dtype="int32", min_integer=0, max_integer=10)
    np.testing.assert_array_equal(integers, vector["uniform_i32_0_10"])


@pytest.mark.parametrize("vector", KEYS, ids=lambda v: v["key"])
def test_normals_are_tensorflows(vector: dict):
    normal = drawn(vector, distribution="normal")
    assert_tensorflows(normal, words(vector["normal_f32"], np.uint32))
    truncated = drawn(vector, distribution="truncated_normal")
    assert_tensorflows(truncated, words(vector["truncated_normal_f32"], np.uint32))


@pytest.mark.parametrize("sequence", VECTORS["generator_sequences"], ids=lambda s: str(s["seed"]))
def test_a_generators_sequence_by_feeding_the_state_back(sequence: dict):
    """tf.random.Generator: draws of six, one after another, with the state carried by the caller."""
    g = mg.Graph()
    state = g.placeholder((7,), mg.int32)
    kinds = {d: g.random((6,), state, distribution=d) for d in ("uniform", "normal", "truncated_normal")}
    current = mg.random.philox_state_from_generator(sequence["seed"])
    for draw in sequence["draws"]:
        values, following = kinds[draw["distribution"]]
        found = g.run({state: current}, [values, following])
        assert_tensorflows(
            found[values].numpy(), words(draw["values"], np.uint32), exact=draw["distribution"] == "uniform"
        )
        current = found[following].numpy().copy()
        assert restated.unpacked(current) == (draw["next_counter"], 0)


@pytest.mark.parametrize("vector", VECTORS["stateless"], ids=lambda v: str(v["seed"]))
def test_stateless_seeds_are_scrambled_as_tensorflow_does(vector: dict):
    """tf.random.stateless_uniform([2, 3], seed, alg="philox") and its family."""
    g = mg.Graph()
    state = g.constant(mg.random.philox_state_from_stateless_seed(*vector["seed"]))
    for kind in ("uniform", "normal", "truncated_normal"):
        values = g.run({}, g.random((2, 3), state, distribution=kind)[0]).numpy().reshape(-1)
        assert_tensorflows(values, words(vector[kind], np.uint32), exact=kind == "uniform")
    integers = g.random_uniform((2, 3), 0, 100, mg.int32, state=state)[0]
    np.testing.assert_array_equal(g.run({}, integers).numpy().reshape(-1), vector["uniform_int_0_100"])


@pytest.mark.parametrize("vector", VECTORS["two_seeds"], ids=lambda v: f"{v['seed']}_{v['seed2']}")
def test_operations_with_two_seeds_draw_what_tensorflows_do(vector: dict):
    """RandomUniform, RandomStandardNormal and TruncatedNormal with seed and seed2, each called twice."""
    for draw in vector["draws"]:
        g = mg.Graph()
        state = g.variable(mg.random.philox_state_from_seeds(vector["seed"], vector["seed2"]))
        values, following = g.random((2, 3), state, distribution=draw["distribution"])
        for call in draw["values"]:
            found = g.run({}, values, [g.assign(state, following)]).numpy().reshape(-1)
            assert_tensorflows(found, words(call, np.uint32), exact=draw["distribution"] == "uniform")


# --- states -----------------------------------------------------------------------------------------------------------
def test_the_same_state_gives_the_same_numbers():
    g = mg.Graph()
    state = g.random_philox_state(5)
    a, b = g.random_uniform((100,), state=state)[0], g.random_uniform((100,), state=state)[0]
    found = g.run({}, [a, b])
    np.testing.assert_array_equal(found[a].numpy(), found[b].numpy())
    again = g.run({}, a).numpy()
    np.testing.assert_array_equal(found[a].numpy(), again)


def test_states_that_follow_one_another_do_not_overlap():
    g = mg.Graph()
    a, state = g.random_uniform((50,), state=g.random_philox_state(5))
    b, _ = g.random_uniform((50,), state=state)
    found = g.run({}, [a, b])
    assert not set(found[a].tolist()) & set(found[b].tolist())


def test_a_state_of_another_form_is_refused():
    g = mg.Graph()
    with pytest.raises(mg.ShapeError, match=r"\[random\].*int32\[7\]"):
        g.random((2,), g.constant(np.zeros(6, np.int32)))
    with pytest.raises(mg.DTypeError, match=r"\[random\].*int32\[7\]"):
        g.random((2,), g.constant(np.zeros(7, np.int64)))
    for number in (2**64, -(2**63) - 1):
        with pytest.raises(mg.ShapeError, match="64 bits"):
            g.random_philox_state(number)


def test_hidden_states_advance_with_each_run():
    g = mg.Graph(seed=7)
    x = g.random_uniform((1000,))
    first, second = g.run({}, x).numpy().copy(), g.run({}, x).numpy().copy()
    assert not set(first.tolist()) & set(second.tolist())
    again = mg.Graph(seed=7)
    y = again.random_uniform((1000,))
    np.testing.assert_array_equal(again.run({}, y).numpy(), first)
    np.testing.assert_array_equal(again.run({}, y).numpy(), second)
    other = mg.Graph(seed=8)
    assert not set(other.run({}, other.random_uniform((1000,))).tolist()) & set(first.tolist())


def test_a_seed_gives_the_same_sequence_to_every_operation_and_graph():
    first, second = mg.Graph(seed=1), mg.Graph(seed=2)
    x, y = first.random_uniform((5,), seed=9), first.random_uniform((5,), seed=9)
    z = second.random_uniform((5,), seed=9)
    runs = [first.run({}, [x, y]) for _ in range(2)]
    others = [second.run({}, z).numpy().copy() for _ in range(2)]
    state = first.random_philox_state(9)
    np.testing.assert_array_equal(others[0], first.run({}, first.random_uniform((5,), state=state)[0]).numpy())
    for run, other in zip(runs, others, strict=True):
        np.testing.assert_array_equal(run[x].numpy(), run[y].numpy())
        np.testing.assert_array_equal(run[x].numpy(), other)
    assert not set(others[0].tolist()) & set(others[1].tolist())
    with pytest.raises(mg.GraphError, match="state and seed are mutually exclusive"):
        first.random((5,), state, seed=9)


def test_a_hidden_state_advances_only_when_it_is_drawn_from():
    g = mg.Graph()
    x, y = g.random_uniform((4,)), g.constant(1.0) + 1
    (state,) = g.variables
    before = g.variable_value(state)
    g.run({}, y)
    np.testing.assert_array_equal(g.variable_value(state), before)
    g.run({}, x)
    assert restated.unpacked(g.variable_value(state))[0] == restated.unpacked(before)[0] + 256 * 4


def test_operations_of_one_graph_draw_different_numbers():
    g = mg.Graph(seed=1)
    a, b = g.random_normal((100,)), g.random_normal((100,))
    found = g.run({}, [a, b])
    assert not set(found[a].tolist()) & set(found[b].tolist())


def test_one_operation_draws_once_a_run():
    """Both uses of a tensor see the same numbers."""
    g = mg.Graph()
    x = g.random_uniform((100,))
    difference = x - g.identity(x)
    assert g.run({}, g.reduction_maximum(g.absolute(difference))).item() == 0


def test_a_shape_that_is_known_when_it_runs():
    g = mg.Graph()
    x = g.placeholder((-1, 2))
    values, following = g.random(g.shape_of(x), g.random_philox_state(3))
    for rows in (3, 5):
        found = g.run({x: np.zeros((rows, 2), np.float32)}, [values, following])
        assert found[values].shape == (rows, 2)
        np.testing.assert_array_equal(
            found[values].numpy(), restated.random(restated.packed(0, 3), shape=(rows, 2))[0].astype(np.float32)
        )
        assert restated.unpacked(found[following].numpy()) == (256 * rows * 2, 3)


# --- distributions ----------------------------------------------------------------------------------------------------
def sample(count: int = 200_000, **descriptor) -> np.ndarray:
    g = mg.Graph(seed=11)
    return g.run({}, g.random((count,), **descriptor)).numpy().astype(np.float64)


def test_moments():
    uniform = sample(min=-1.0, max=3.0)
    assert -1 <= uniform.min() < -0.999 and 2.999 < uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.01 and abs(uniform.var() - 16 / 12) < 0.02
    normal = sample(distribution="normal", mean=2.0, standard_deviation=3.0)
    assert abs(normal.mean() - 2) < 0.03 and abs(normal.std() - 3) < 0.03
    inside = np.mean(np.abs(normal - 2) < 3)
    assert abs(inside - 0.6827) < 0.005
    truncated = sample(distribution="truncated_normal", standard_deviation=0.5)
    assert np.abs(truncated).max() < 1 and abs(truncated.std() - 0.5 * 0.8796) < 0.005
    counts = np.bincount(sample(dtype="int32", min_integer=0, max_integer=6).astype(int), minlength=6)
    assert len(counts) == 6 and np.abs(counts / 200_000 - 1 / 6).max() < 0.005


def test_the_inverse_of_the_distribution_is_a_second_way_to_normals():
    normal = sample(distribution="normal", sampling_method="inverse_cdf")
    assert abs(normal.mean()) < 0.01 and abs(normal.std() - 1) < 0.01
    assert abs(np.mean(np.abs(normal) < 1) - 0.6827) < 0.005
    assert abs(np.mean(np.abs(normal) < 2) - 0.9545) < 0.003
    bounded = sample(distribution="truncated_normal", sampling_method="inverse_cdf")
    assert np.abs(bounded).max() <= 2 and abs(bounded.std() - 0.8796) < 0.01


@pytest.mark.parametrize("method", ["box_muller", "inverse_cdf"])
def test_truncated_normals_have_the_moments_of_their_bounds(method: str):
    """Bounds in the result's units; Johnson, Kotz and Balakrishnan, "Continuous univariate distributions", 13.10."""
    normal = NormalDist()
    count = 20_000 if device.IS_METAL and method == "box_muller" else 200_000  # the mock draws slowly
    how = {"distribution": "truncated_normal", "sampling_method": method}
    for low, high in ((-1.0, 3.0), (0.5, 0.75), (-0.25, 7.0)):
        values = sample(count, mean=1.0, standard_deviation=2.0, min=low, max=high, **how)
        a, b = (low - 1) / 2, (high - 1) / 2
        mean = 1 + 2 * (normal.pdf(a) - normal.pdf(b)) / (normal.cdf(b) - normal.cdf(a))
        assert low <= values.min() and values.max() <= high and abs(values.mean() - mean) < 4.5 / count**0.5


def test_far_tails_are_drawn_by_inversion():
    """The tail beyond z has mean near z + 1 / z; the mirror image is as precise."""
    g = mg.Graph()
    for sign in (1, -1):
        bounds = sorted((10.0 * sign, 20.0 * sign))
        tail = g.random_truncated_normal(
            (50_000,), minimum=bounds[0], maximum=bounds[1], sampling_method="inverse_cdf", seed=4
        )
        values = g.run({}, tail).numpy() * sign
        assert 10 <= values.min() and abs(values.mean() - 10.098) < 0.002
    with pytest.raises(mg.GraphError, match="inverse_cdf"):
        g.random_truncated_normal((2,), minimum=10.0, maximum=20.0)


@pytest.mark.parametrize(
    "descriptor",
    [
        {"distribution": "poisson"},
        {"sampling_method": "ziggurat"},
        {"advance": "never"},
        {"dtype": "int32", "min_integer": 3, "max_integer": 3},
        {"dtype": "int32", "min_integer": 0, "max_integer": 2**40},
        {"min": float("nan")},
        {"max": float("inf")},
        {"distribution": "normal", "standard_deviation": -1.0},
        {"min": 2.0, "max": 1.0},
        {"distribution": "truncated_normal", "min": 2.0, "max": 2.0},
        {"distribution": "truncated_normal", "min": 2.0, "max": 3.0, "standard_deviation": 0.0},
        {"dtype": "int32", "min_integer": 0, "max_integer": 2**31, "inclusive": True},
    ],
    ids=str,
)
def test_impossible_descriptions_are_refused(descriptor: dict):
    g = mg.Graph()
    with pytest.raises(mg.GraphError, match=r"\[random\]"):
        g.random((2,), **descriptor)
    assert g.run({}, g.random_uniform((2,))).shape == (2,)


def test_normals_of_integers_are_refused():
    g = mg.Graph()
    with pytest.raises(mg.DTypeError, match=r"\[random\]"):
        g.random((2,), distribution="normal", dtype="int32")
    with pytest.raises(mg.DTypeError, match=r"\[random\]"):
        g.random((2,), dtype="bool")


# --- dropout ----------------------------------------------------------------------------------------------------------
def test_dropout_keeps_the_expectation_and_draws_anew():
    g = mg.Graph()
    x = g.placeholder((-1, 100))
    y = g.dropout(x, 0.25)
    ones = np.ones((100, 100), np.float32)
    first, second = g.run({x: ones}, y).numpy().copy(), g.run({x: ones}, y).numpy()
    assert set(np.unique(first)) == {0, np.float32(1 / 0.75)}
    assert abs((first == 0).mean() - 0.25) < 0.02 and abs(first.mean() - 1) < 0.03
    assert (first != second).any()


def test_dropouts_gradient_has_the_mask_of_its_run():
    g = mg.Graph()
    x = g.placeholder((1000,))
    y = g.dropout(x, 0.5)
    d = g.gradients(y, [x])[x]
    found = g.run({x: np.ones(1000, np.float32)}, [y, d])
    np.testing.assert_array_equal(found[y].numpy(), found[d].numpy())
    assert 300 < np.count_nonzero(found[d].numpy()) < 700


def test_dropout_with_a_state_and_a_fed_rate():
    g = mg.Graph()
    x, rate = g.constant(1.0, (1000,)), g.placeholder(())
    y, state = g.dropout(x, rate, state=g.random_philox_state(1))
    for share in (0.0, 0.5, 0.9):
        found = g.run({rate: np.array(share, np.float32)}, [y, state])
        assert abs(np.mean(found[y].numpy() == 0) - share) < 0.06
    for share in (1.0, -0.1, float("nan")):
        with pytest.raises(mg.GraphError, match=r"\[dropout\]"):
            g.dropout(x, share)


def test_numbers_do_not_depend_on_the_number_of_threads():
    program = """
import sys, numpy as np, mpsgraph as mg
g = mg.Graph(seed=3)
kinds = [g.random((100_003,), distribution=d) for d in ("uniform", "normal", "truncated_normal")]
sys.stdout.buffer.write(b"".join(v.numpy().tobytes() for v in g.run({}, kinds).values()))
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            timeout=60,
            env={**os.environ, "OMP_NUM_THREADS": threads},
        ).stdout
        for threads in ("1", "2")
    ]
    assert runs[0] == runs[1] and len(runs[0]) == 3 * 4 * 100_003
