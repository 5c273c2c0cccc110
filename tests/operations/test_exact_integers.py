"""Test that integers stay exact where floating point, signedness, or constant folding could corrupt them.

The tests cover 64-bit attributes, Python scalars as operands, folded uint64 constants, and divisions at the limits of a
dtype. test_constant_folding compares folding and execution for every operation. Expected values are hard-coded here.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest

pytestmark = pytest.mark.both_devices

ODD = 2**53 + 1  # the first integer that float64 cannot represent
EXACT = [("int64", ODD), ("int64", -ODD), ("int64", 2**63 - 1), ("int64", -(2**63)), ("uint64", 2**64 - 1),
         ("uint64", 2**63), ("uint64", 2**63 + 1), ("int32", 2**31 - 1), ("int8", -128), ("uint8", 255)]  # fmt: skip


@pytest.mark.parametrize(("dtype", "value"), EXACT)
def test_64_bit_integer_attributes_are_exact(dtype: str, value: int):
    """Attributes must also be exact after a round trip through text."""
    g = mg.Graph()
    x = g.placeholder((2,), dtype, name="x")
    padded = g.pad(x, [1], [0], value=value)
    hot = g.one_hot(g.constant(np.int32([1])), 2, dtype=dtype, on_value=value, off_value=value - (value > 0))
    fed = np.array([value, 3], dtype)
    results = g.run({x: fed}, [padded, hot])
    assert results[padded].numpy().tolist() == [value, value, 3]
    assert results[hot].numpy().tolist() == [[value - (value > 0), value]]
    text = str(g)
    again = mg.parse(text)
    assert str(again) == text
    (place,) = [o.outputs[0] for o in again.operations if o.kind == "placeholder"]
    (pad,) = [o.outputs[0] for o in again.operations if o.kind == "pad"]
    assert again.run({place: fed}, pad).numpy().tolist() == [value, value, 3]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int8", 300), ("uint8", -1), ("uint64", -1), ("int64", 2**63), ("int32", ODD), ("uint64", 2**64), ("int32", 0.5),
     ("int64", float("nan"))],
)  # fmt: skip
def test_attributes_out_of_dtype_range_raise(dtype: str, value: float):
    g = mg.Graph()
    x = g.placeholder((2,), dtype)
    with pytest.raises(mg.DTypeError, match=r"\[pad\] value: .* (does not fit into |is not an integer)"):
        g.pad(x, [1], [0], value=value)
    with pytest.raises(mg.DTypeError, match=r"\[one_hot\] on_value: .* (does not fit into |is not an integer)"):
        g.one_hot(g.constant(np.int32([1])), 2, dtype=dtype, on_value=value)


def test_python_integer_operands_are_exact():
    g = mg.Graph()
    x = g.placeholder((1,), "int64")
    results = g.run({x: np.int64([-1])}, [x + ODD, g.clamp(x, ODD, 2**63 - 1), g.maximum(x, ODD), x * ODD])
    assert [r.numpy().tolist() for r in results.values()] == [[ODD - 1], [ODD], [ODD], [-ODD]]


BIG = 2**64 - 1
UNSIGNED = [
    ("maximum", [BIG, 9]), ("minimum", [9, 5]), ("division", [BIG // 9, 0]), ("modulo", [BIG % 9, 5]),
    ("floor_modulo", [BIG % 9, 5]), ("less_than", [False, True]), ("less_than_or_equal_to", [False, True]),
    ("greater_than", [True, False]), ("greater_than_or_equal_to", [True, False]), ("equal", [False, False]),
    ("maximum_with_nan_propagation", [BIG, 9]), ("addition", [8, 14]), ("multiplication", [2**64 - 9, 45]),
]  # fmt: skip


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(("kind", "wanted"), UNSIGNED)
def test_uint64_operations_are_unsigned(kind: str, wanted: list, fed: bool):
    """Combine [2^64 - 1, 5] with 9, as constants and as feeds."""
    g = mg.Graph()
    numbers = np.array([BIG, 5], np.uint64)
    x = g.placeholder((2,), "uint64") if fed else g.constant(numbers)
    y = getattr(g, kind)(x, g.constant(np.uint64(9)))
    assert g.run({x: numbers} if fed else {}, y).numpy().tolist() == wanted


def test_uint64_unary_operations_and_clamp_are_unsigned():
    g = mg.Graph()
    x = g.constant(np.array([BIG, 2**63, 5], np.uint64))
    bounds = g.constant(np.uint64(7)), g.constant(np.uint64(2**63 + 5))
    results = g.run({}, [g.sign(x), g.absolute(x), g.clamp(x, *bounds), g.reduction_maximum(x), g.reduction_minimum(x)])
    assert [r.numpy().tolist() for r in results.values()] == [
        [1, 1, 1], [BIG, 2**63, 5], [2**63 + 5, 2**63, 7], [BIG], [5]
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integer_divisions_at_dtype_limits_match_numpy(dtype: str):
    """The minimum divided by -1 wraps around, and a remainder has the documented sign."""
    limits = np.iinfo(dtype)
    a = np.array([limits.min, -3, 3, limits.max, limits.min], dtype)
    b = np.array([-1, -limits.max, -limits.max, limits.min, limits.max], dtype)
    wanted = {
        "division": [limits.min, 0, 0, 0, -1],
        "modulo": [0, -3, 3, limits.max, -1],
        "floor_modulo": [0, -3, 3 - limits.max, -1, limits.max - 1],
    }
    for kind, numbers in wanted.items():
        for fed in (False, True):
            g = mg.Graph()
            x, y = (g.placeholder((5,), dtype) if fed else g.constant(v) for v in (a, b))
            result = g.run({x: a, y: b} if fed else {}, getattr(g, kind)(x, y))
            assert result.numpy().tolist() == numbers, (kind, fed)
