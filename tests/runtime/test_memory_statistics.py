"""Test memory_statistics: arrays, arenas, and packed weights are counted on their device, and peak values persist."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness import device

pytestmark = pytest.mark.both_devices

NAME = "metal" if device.IS_METAL else "cpu"
KINDS = ("arrays", "arenas", "packed_weights", "total")


def now(kind: str, name: str = NAME) -> int:
    return mg.memory_statistics()[name][kind]["current"]


def test_memory_statistics_rise_and_fall_with_arrays():
    g = mg.Graph()
    x = g.placeholder((1 << 20,))
    fed = np.zeros(1 << 20, np.float32)
    g.run({x: fed}, x + 1)
    before = now("arrays")
    result = g.run({x: fed}, x + 2)
    assert now("arrays") - before >= 4 << 20
    peak = mg.memory_statistics()[NAME]["arrays"]["peak"]
    del result
    assert now("arrays") - before < 1 << 20
    assert mg.memory_statistics()[NAME]["arrays"]["peak"] == peak >= before + (4 << 20)


def test_memory_statistics_by_kind_add_up_to_total():
    for of in mg.memory_statistics().values():
        assert of.keys() == {*KINDS, "cached"}
        for kind in KINDS:
            assert 0 <= of[kind]["current"] <= of[kind]["peak"]
        assert sum(of[kind]["current"] for kind in KINDS[:3]) == of["total"]["current"]


@pytest.mark.skipif(device.IS_METAL, reason="MPSGraph does not report its memory")
def test_memory_statistics_include_arenas_and_packed_constants():
    g = mg.Graph()
    x = g.placeholder((512, 1024))
    w = g.constant(np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32))
    packed, arenas = now("packed_weights"), now("arenas")
    executable = g.compile({x: (512, 1024)}, [g.reduction_sum((x @ w) @ (w + 1.0))])
    executable.run([np.zeros((512, 1024), np.float32)])
    assert now("arenas") - arenas >= 0 and now("arenas") >= 4 * 512 * 1024
    assert now("packed_weights") >= packed


def test_optimizing_an_unused_model_copies_no_weights():
    g = mg.Graph()
    x = g.placeholder((2, 1024), name="x")
    w = g.variable(np.ones((1024, 1024), np.float32))
    model = mg.Model(g, {"x": x}, {"y": x @ w}, {"w": w})
    before = now("total")
    first = model.optimize_for_inference()
    assert now("total") - before < 1 << 20
    g.run({}, [], [g.assign(w, w * 3.0)])  # from now on, the device holds the value
    second, fed = model.optimize_for_inference(), np.ones((2, 1024), np.float32)
    assert first(fed).numpy().max() == 1024 and second(fed).numpy().min() == 3 * 1024
