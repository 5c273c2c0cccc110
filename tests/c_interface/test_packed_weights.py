"""Test that a package with packed weights, written in Python, runs in C, with the weights mapped from its file."""

from __future__ import annotations

import sys

import mpsgraph as mg
import numpy as np
import pytest
from c_interface.test_c_interface import HERE, build, run
from mpsgraph.nn.quantized import quantized, unpack

SIZE, LAYERS = 2048, 4
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_c_program_runs_a_package_with_mapped_packed_weights(tmp_path):
    g = mg.Graph()
    x = g.placeholder((-1, SIZE), name="x")
    y, random = x, np.random.default_rng(0)
    expected = (np.arange(SIZE) % 7 - 3).astype(np.float64)[None]
    for _ in range(LAYERS):
        layer = mg.nn.QuantizedLinear(SIZE, bits=4, group_size=64, bias=False)
        y = layer(y)
        words, scales, biases = quantized(random.normal(0, 0.02, (SIZE, SIZE)).astype(np.float32), 4, 64)
        layer.load_state_dict({"weight": words, "scales": scales, "biases": biases})
        matrix = np.repeat(scales, 64, -1) * unpack(words, 4) + np.repeat(biases, 64, -1)
        expected = expected @ matrix.T.astype(np.float64)
    mg.save(tmp_path / "packed", g, [x], {"y": y})
    program = build(HERE / "packed.c", tmp_path / "program")
    first, *numbers = run(program, tmp_path / "packed", SIZE).splitlines()
    mapped, grown = map(int, first.split())
    assert mapped == 1
    assert grown < SIZE * SIZE * LAYERS // 2 // 1024, "the packed weights must not be copied"
    found = np.array(numbers, np.float64)
    np.testing.assert_allclose(found, expected[0], rtol=1e-4, atol=1e-4 * np.abs(expected).max())
