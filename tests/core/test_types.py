"""Test dtypes: which dtypes each operation accepts, rejection of mixed dtypes, Python scalars as operands, and casts.

operations/test_values.py checks the results for every accepted dtype.
"""

from __future__ import annotations

import math
import subprocess
import sys

import cases
import mpsgraph as mg
import numpy as np
import pytest
from harness import dtypes
from harness.case import ALGEBRAIC, ANY, COMPLEX, FLOATS, INTEGERS, Case, typed
from harness.running import build

TYPED = [c for c in cases.ALL if any(typed(x) for x in c.inputs) and c not in cases.BY_FAMILY["control_flow"]]
FIRST = {c.operation: c for c in reversed(TYPED)}
ACCEPTED = {name: {d for c in TYPED if c.operation == name for d in c.dtypes} for name in FIRST}


def refused(operation: str) -> list[str]:
    """Return the dtypes that the operation must reject, in declaration order.

    Operations that accept only bools have no typed cases, and control flow accepts whatever its blocks accept.
    """
    return [d for d in ANY if d not in ACCEPTED[operation]]


@pytest.mark.parametrize("operation", [name for name in sorted(FIRST) if refused(name)])
def test_unsupported_dtypes_raise_when_graph_is_built(operation: str):
    for dtype in refused(operation):
        with pytest.raises(mg.DTypeError, match=rf"\[{operation}\]"):
            build(FIRST[operation], dtype)


BOOLEAN = sorted({c.operation for c in cases.ALL if c.dtypes == ("bool",)})


@pytest.mark.parametrize("operation", BOOLEAN)
def test_logical_operations_reject_dtypes_other_than_bool(operation: str):
    case = next(c for c in cases.ALL if c.operation == operation)
    for dtype in ("float32", "int32", "uint8"):
        g = mg.Graph()
        operands = [g.placeholder(x.shape, dtype) for x in case.inputs]
        with pytest.raises(mg.DTypeError, match=rf"\[{operation}\].*bool"):
            case.tensors(g, *operands)


OF_TWO_TYPES = ("integer_matrix_multiplication",)  # int8 and uint8 in any combination
MIXED = [c for c in FIRST.values() if sum(typed(x) for x in c.inputs) > 1 and c.operation not in OF_TWO_TYPES]


@pytest.mark.parametrize("case", MIXED, ids=lambda case: case.operation)
def test_mixed_dtypes_raise_and_suggest_a_cast(case: Case):
    """No operand is implicitly promoted. Each typed operand in turn gets a different dtype."""
    common, other = ("int32", "int64") if "float32" not in ACCEPTED[case.operation] else ("float32", "float16")
    for odd in [i for i, x in enumerate(case.inputs) if typed(x)]:
        g = mg.Graph()
        operands = [
            g.placeholder(x.shape, (other if i == odd else common) if typed(x) else x.dtype)
            for i, x in enumerate(case.inputs)
        ]
        before = g.operation_count
        with pytest.raises(mg.DTypeError, match=r"cast '.+' to \w+ first"):
            case.tensors(g, *operands)
        assert [o for o in g.operations if o.kind == case.operation] == []
        assert g.operation_count >= before


# --- Python scalars ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ALGEBRAIC)
def test_python_scalars_take_dtype_of_tensor(dtype: str):
    g = mg.Graph()
    x = g.placeholder((2,), dtype)
    results = [x + 2, 2 + x, x * 3, g.power(x, 2), g.division(30, x)]
    assert {str(r.dtype) for r in results} == {dtype}
    fed = dtypes.array(np.array([1.0, 5.0]), dtype)
    if dtype in COMPLEX:
        fed = fed.real.astype(dtype)
    found = [dtypes.read(r).tolist() for r in g.run({x: fed}, results).values()]
    assert found == [[3, 7], [3, 7], [3, 15], [1, 25], [30, 6]]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_float_scalar_with_integer_tensor_suggests_a_cast(dtype: str):
    g = mg.Graph()
    x = g.placeholder((2,), dtype)
    with pytest.raises(mg.DTypeError, match=rf"\[addition\].*0\.5.*{dtype}.*cast"):
        x + 0.5
    with pytest.raises(mg.DTypeError, match="cast"):
        0.5 * x


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_complex_scalar_with_real_tensor_suggests_a_cast(dtype: str):
    g = mg.Graph()
    with pytest.raises(mg.DTypeError, match=r"\[multiplication\].*1j.*cast.*complex64"):
        g.placeholder((2,), dtype) * 1j


def test_scalars_out_of_dtype_range_raise():
    g = mg.Graph()
    for dtype, number in (("int8", 128), ("uint8", -1), ("int32", 2**31), ("uint64", 2**64)):
        with pytest.raises(mg.DTypeError, match=str(number)):
            g.placeholder((2,), dtype) + number
    with pytest.raises(mg.DTypeError, match="True"):
        g.placeholder((2,), mg.float32) + True
    with pytest.raises(mg.DTypeError, match="2"):
        g.logical_and(g.placeholder((2,), mg.bool_), 2)


FIRST_INFINITE = {
    "float16": 65520.0,
    "bfloat16": 2.0**128 - 2.0**119,
    "float32": 2.0**128 - 2.0**103,
    "complex64": 1e39,
}


@pytest.mark.parametrize("dtype", FIRST_INFINITE)
def test_scalars_that_overflow_to_infinity_raise(dtype: str):
    g, number = mg.Graph(), FIRST_INFINITE[dtype]
    x = g.placeholder((2,), dtype)
    for large in (number, -number):
        with pytest.raises(
            mg.DTypeError, match=f"cannot be represented in {dtype}, the dtype of the tensor operand: cast"
        ):
            x * large
        with pytest.raises(mg.DTypeError, match=f"cannot be represented in {dtype}"):
            g.constant(large, (2,), dtype)
    with pytest.raises(mg.DTypeError, match="float64"):
        x + 2**2000
    for held in (math.nextafter(number, 0) if dtype != "complex64" else 1e38, math.inf, math.nan):
        assert (x * held).dtype == g.constant(held, dtype=dtype).dtype == x.dtype


def test_suggested_cast_dtype_can_represent_the_scalar():
    g = mg.Graph()
    whole, flags = g.placeholder((2,), mg.int32), g.placeholder((2,), mg.bool_)
    advised = {(whole, 0.5): "float32", (whole, True): "bool_", (whole, 2**40): "int64", (whole, 1e300): "float64"}
    for (tensor, number), dtype in (advised | {(flags, 3): "int32"}).items():
        with pytest.raises(mg.DTypeError, match=rf"mg\.{dtype}\)"):
            g.addition(tensor, number)
        assert hasattr(mg, dtype)


def test_numpy_scalars_act_as_python_scalars():
    g = mg.Graph()
    x = g.placeholder((2,), mg.float32)
    assert (np.float64(2.0) * x).dtype == mg.float32
    assert (x - np.int64(3)).dtype == mg.float32


def test_true_division_of_integers_raises():
    g = mg.Graph()
    x = g.constant([7, -7])
    with pytest.raises(mg.DTypeError, match="//"):
        x / 2
    assert g.run({}, x // 2).tolist() == [3, -4]
    assert g.run({}, x % 4).tolist() == [3, 1]
    assert g.run({}, g.division(x, 2)).tolist() == [3, -3]
    assert g.run({}, g.modulo(x, 4)).tolist() == [3, -3]


# --- constants and variables ------------------------------------------------------------------------------------------
def test_constants_of_python_values_get_default_dtypes():
    g = mg.Graph()
    kinds = {0.5: mg.float32, 3: mg.int32, True: mg.bool_, 2j: mg.complex64}
    for value, dtype in kinds.items():
        assert g.constant(value).dtype == dtype
        assert g.constant([value, value]).dtype == dtype
        assert g.constant(value, (2, 2)).dtype == dtype
    assert g.constant(np.float64(0.5)).dtype == mg.float64
    assert g.constant(np.array([1], np.int16)).dtype == mg.int16


@pytest.mark.parametrize("dtype", ANY)
def test_constants_and_variables_preserve_every_dtype(dtype: str):
    g = mg.Graph()
    numbers = np.array([0.0, 1.0, 3.0])
    array = dtypes.array(numbers, dtype)
    wanted = dtypes.plain(array, dtype)
    one = True if dtype == "bool" else 1
    constant, filled, variable = g.constant(array, dtype=dtype), g.constant(one, (2,), dtype), g.variable(array, dtype)
    found = g.run({}, [constant, filled, g.read(variable)])
    for tensor in (constant, variable):
        assert str(tensor.dtype) == dtype
    values = [dtypes.read(v) for v in found.values()]
    np.testing.assert_array_equal(values[0], wanted)
    np.testing.assert_array_equal(values[1], [1, 1])
    np.testing.assert_array_equal(values[2], wanted)


def test_constant_not_representable_in_dtype_raises():
    g = mg.Graph()
    with pytest.raises(mg.DTypeError):
        g.constant(np.array([0.5]), dtype=mg.int32)
    with pytest.raises(mg.DTypeError):
        g.constant([0.5], dtype=mg.int32)
    with pytest.raises(mg.DTypeError):
        g.constant(np.array([1 + 2j]), dtype=mg.float32)
    with pytest.raises(mg.DTypeError):
        g.constant(np.array(["text"]))
    for array in (np.array([300]), np.array([-129])):
        with pytest.raises(mg.DTypeError, match="out of range for int8"):
            g.constant(array, dtype=mg.int8)
    with pytest.raises(mg.ShapeError):
        g.constant([[1.0], [1.0, 2.0]])
    with pytest.raises(mg.ShapeError, match="has no value until") as tensor:
        g.constant(g.placeholder(()))
    assert "At:" not in str(tensor.value), "the message must not contain a traceback"
    with pytest.raises(mg.DTypeError, match="the dtypes are float32"):
        g.placeholder((2,), "float8")


def test_only_float_variables_are_trainable():
    g = mg.Graph()
    weights, frozen, count = g.variable([1.0]), g.variable([1.0], trainable=False), g.variable([1])
    assert g.trainable_variables == [weights]
    assert set(g.variables) == {weights, frozen, count}


# --- casts ------------------------------------------------------------------------------------------------------------
def test_casts_from_float_to_integer_truncate_and_saturate():
    g = mg.Graph()
    x = g.constant(np.array([1.9, -1.9, 300.0, -300.0, np.nan, np.inf, -np.inf], np.float32))
    assert g.run({}, g.cast(x, mg.int8)).tolist() == [1, -1, 127, -128, 0, 127, -128]
    assert g.run({}, g.cast(x, mg.uint8)).tolist() == [1, 0, 255, 0, 0, 255, 0]


def test_casts_between_integer_dtypes_wrap_around():
    g = mg.Graph()
    x = g.constant(np.array([300, -1, 127], np.int32))
    assert g.run({}, g.cast(x, mg.uint8)).tolist() == [44, 255, 127]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_casts_to_half_precision_round_to_nearest_even(dtype: str):
    digits = 10 if dtype == "float16" else 7
    step = 2.0**-digits
    numbers = np.array([1 + step / 2, 1 + step * 1.5, 1 + step * 0.51, -1 - step / 2, 1e-40, np.nan, np.inf, 1e39])
    with np.errstate(over="ignore"):
        fed = numbers.astype(np.float32)
    g = mg.Graph()
    found = dtypes.read(g.run({}, g.cast(g.constant(fed), dtype)))
    np.testing.assert_array_equal(found[:4], [1, 1 + 2 * step, 1 + step, -1])
    assert abs(found[4]) < 1e-39 and np.isnan(found[5]) and found[6] == np.inf and found[7] == np.inf


def test_every_float16_value_round_trips_through_float32():
    bits = np.arange(2**16, dtype=np.uint16)
    g = mg.Graph()
    x = g.placeholder((2**16,), mg.float16)
    halves = bits.view(np.float16)
    wide = g.run({x: halves}, g.cast(x, mg.float32)).numpy()
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    back = g.run({x: halves}, g.cast(g.cast(x, mg.float32) * 1.0, mg.float16)).numpy()
    numbers = ~np.isnan(halves)
    assert (back.view(np.uint16)[numbers] == bits[numbers]).all()
    assert np.isnan(back[~numbers]).all()


# --- bfloat16 without ml_dtypes ---------------------------------------------------------------------------------------
def test_bfloat16_without_ml_dtypes_uses_uint16_bit_patterns():
    program = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, mpsgraph as mg
assert mg.bfloat16.numpy == np.uint16
g = mg.Graph()
x = g.placeholder((3,), mg.bfloat16)
bits = np.array([0x3F80, 0xC000, 0x3F00], np.uint16)  # 1, -2, 0.5
assert g.run({x: bits}, g.cast(x + x, mg.float32)).tolist() == [2.0, -4.0, 1.0]
assert g.run({x: bits}, x).numpy().tolist() == bits.tolist()
v = g.variable([1.5], mg.bfloat16)
assert g.variable_value(v).tolist() == [0x3FC0]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_dtypes_compare_and_hash_by_value():
    assert mg.DType("float32") == mg.float32 == mg.DType(np.float32) == mg.DType(np.dtype("f4"))
    assert mg.float32 != mg.float64 and len({mg.float32, mg.DType("float32"), mg.int8}) == 2
    assert str(mg.bool_) == "bool" and mg.bool_.numpy == np.bool_
    assert [d for d in ANY if mg.DType(d).is_float] == list(FLOATS)
    assert [d for d in ANY if mg.DType(d).is_complex] == list(COMPLEX)
    with pytest.raises(mg.DTypeError):
        mg.DType("complex32")
