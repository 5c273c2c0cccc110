"""Test which systems dequantize packed weights with MPSGraph's own operation, and that all compute the same numbers."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.runtime import run_program
from mpsgraph import nn
from mpsgraph.nn.quantized import quantized, unpack

MOCK = device.mock()
MOCK.mock_set_macos_version.argtypes = [ctypes.c_double]
MOCK.mock_macos_version.restype = ctypes.c_double
MOCK.mock_added_operations.argtypes = [ctypes.c_char_p]
MOCK.mock_added_operations.restype = ctypes.c_uint64

NATIVE = b"dequantizeGroups"
SYSTEMS = (14.0, 15.0, 26.4, 27.0)
ROWS, COLUMNS, GROUP = 3, 128, 32


@pytest.fixture
def system() -> Iterator[Callable[[float], None]]:
    """Set the macOS version that the mock simulates, for one test."""
    before = MOCK.mock_macos_version()
    yield lambda version: MOCK.mock_set_macos_version(version)
    MOCK.mock_set_macos_version(before)


def weights(bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(bits)
    words = random.integers(0, 2**32, (ROWS, COLUMNS * bits // 32)).astype(np.uint32)
    scale, bias = random.normal(size=(2, ROWS, COLUMNS // GROUP)).astype(np.float32)
    return words, scale, bias


def dense(bits: int, dtype: str, source: str) -> tuple[np.ndarray, int]:
    """Dequantize in a new graph. Return the result, and how many native operations were added."""
    words, scale, bias = weights(bits)
    g = mg.Graph()
    feeds: dict[mg.Tensor, np.ndarray] = {}
    if source == "constant":
        packed = g.constant(words)
    elif source == "variable":
        packed = g.variable(words)
    else:
        packed = g.placeholder(words.shape, "uint32")
        feeds[packed] = words
    # Parameters in variables, because the compiler computes constant expressions itself.
    narrow = [g.cast(g.variable(x), dtype) for x in (scale, bias)]
    before = MOCK.mock_added_operations(NATIVE)
    result = g.run(feeds, g.cast(g.dequantize_packed(packed, *narrow, bits=bits, dtype=dtype), "float32")).numpy()
    return result, MOCK.mock_added_operations(NATIVE) - before


@pytest.mark.parametrize("source", ["constant", "variable", "feed"])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_packed_weights_are_dequantized_natively_since_macos_15(bits: int, source: str, system):
    """Both ways compute in float32 and round once per operation, so their results are equal bit by bit."""
    words, scale, bias = weights(bits)
    elements = unpack(words, bits).reshape(ROWS, -1, GROUP).astype(np.float32)
    expected = (elements * scale[..., None] + bias[..., None]).reshape(ROWS, COLUMNS)
    system(SYSTEMS[-1])
    dense(4, "float32", "variable")  # On the first use, the backend tests whether MPSGraph reads elements of 4 bits.
    for macos in SYSTEMS:
        system(macos)
        for dtype in ("float32", "float16", "bfloat16"):
            found, native = dense(bits, dtype, source)
            assert native == (macos >= 15 and bits in (4, 8)), (macos, dtype)
            if dtype == "float32":
                np.testing.assert_array_equal(found, expected)
                continue
            system(14.0)
            composed, native = dense(bits, dtype, source)
            assert native == 0
            np.testing.assert_array_equal(found, composed)
            system(macos)


@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_layer_computes_the_same_on_macos_14_and_15(bits: int, system):
    """The weights of a language model are variables, which the host has written before the first run."""
    random = np.random.default_rng(1)
    matrix, x = random.normal(size=(24, 64)).astype(np.float32), random.normal(size=(5, 64)).astype(np.float32)
    found = []
    for macos in SYSTEMS:
        system(macos)
        words, scales, biases = quantized(matrix, bits, 32)
        layer, g = nn.QuantizedLinear(24, bits=bits, group_size=32, bias=False), mg.Graph()
        t = g.placeholder((-1, 64))
        y = layer(t)
        layer.load_state_dict({"weight": words, "scales": scales, "biases": biases})
        found.append(g.run({t: x}, y).numpy())
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    error = np.abs(found[0] - x @ matrix.T).max()
    assert error < (3 if bits == 4 else 0.2)


PROGRAM = """
import ctypes, json
import numpy as np, mpsgraph as mg
from harness import device
mock = device.mock()
mock.mock_added_operations.argtypes = [ctypes.c_char_p]
mock.mock_added_operations.restype = ctypes.c_uint64
words = np.arange(12, dtype=np.uint32).reshape(3, 4) * np.uint32(0x12345678)
found, counts = [], []
for source in ("constant", "variable"):
    g = mg.Graph()
    ones = g.variable(np.ones((3, 1), np.float32))
    before = mock.mock_added_operations(b"dequantizeGroups")
    found.append(g.run({}, g.dequantize_packed(getattr(g, source)(words), ones, ones, bits=4)).tolist())
    counts.append(mock.mock_added_operations(b"dequantizeGroups") - before)
print(json.dumps([counts, found[0] == found[1]]))
"""


@pytest.mark.parametrize(
    ("environment", "variable"),
    [({}, 2), ({"MPSGRAPH_MOCK_FOUR_BITS": "refused"}, 0), ({"MPSGRAPH_METAL_PACKED": "composed"}, 0)],
    ids=["accepted", "refused", "by choice"],
)
def test_words_in_variables_are_read_natively_only_if_mpsgraph_accepts_four_bits(environment, variable: int):
    """The backend's own test adds one operation more. Constants need no conversion, so they are always native."""
    run = run_program(PROGRAM, MPSGRAPH_MOCK_MACOS="15.0", **environment)
    assert run.returncode == 0, run.stderr
    (constant, found), equal = json.loads(run.stdout)
    assert constant == 1 and found == variable and equal


def test_unknown_way_for_packed_weights_raises():
    run = run_program(PROGRAM, MPSGRAPH_MOCK_MACOS="15.0", MPSGRAPH_METAL_PACKED="native")
    assert "MPSGRAPH_METAL_PACKED must be 'composed' or unset, got 'native'" in run.stderr
