"""Translations of bit operations on integers and bools: logic, shifts, counts, and reinterpretation."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from ..._core import Tensor
from ...interchange.renames import OF_BOOLS, methods
from ._table import Equation, dtype_of, primitive, shape


@primitive.rows(methods("jax", "bits"))
def logic(equation: Equation, method: str, x: Tensor, y: Tensor) -> Tensor:
    """Apply bitwise_and, bitwise_or, or bitwise_xor to bits or bools."""
    return getattr(equation.g, OF_BOOLS[method] if x.dtype.name == "bool" else method)(x, y)  # type: ignore[no-any-return]


@primitive("not")
def not_(equation: Equation, x: Tensor) -> Tensor:
    return equation.g.not_(x) if x.dtype.name == "bool" else equation.g.bitwise_not(x)


def _shifted(equation: Equation, x: Tensor, by: Tensor, left: bool, arithmetic: bool) -> Tensor:
    """Shift x. Counts of at least the bit width clear all bits, or fill them with the sign in an arithmetic shift."""
    g, width = equation.g, 8 * x.dtype.itemsize
    usual = g.less_than(by, equation.constant(width, by.dtype))
    if by.dtype.is_signed:
        usual = g.logical_and(usual, g.greater_than_or_equal_to(by, equation.constant(0, by.dtype)))
    zero = equation.constant(0, by.dtype)
    if left:
        return g.select(usual, g.bitwise_left_shift(x, g.select(usual, by, zero)), equation.constant(0, x.dtype))
    if arithmetic == x.dtype.is_signed:
        if arithmetic:
            return g.bitwise_right_shift(x, g.select(usual, by, equation.constant(width - 1, by.dtype)))
        return g.select(usual, g.bitwise_right_shift(x, g.select(usual, by, zero)), equation.constant(0, x.dtype))
    other = ("int" if arithmetic else "uint") + str(width)
    moved = _shifted(equation, g.reinterpret_cast(x, other), g.reinterpret_cast(by, other), left, arithmetic)
    return g.reinterpret_cast(moved, x.dtype)


@primitive.rows({"shift_left": (True, False), "shift_right_logical": (False, False),
                 "shift_right_arithmetic": (False, True)})  # fmt: skip
def shift(equation: Equation, how: tuple[bool, bool], x: Tensor, by: Tensor) -> Tensor:
    return _shifted(equation, x, by, *how)


@primitive("population_count")
def population_count(equation: Equation, x: Tensor) -> Tensor:
    return equation.cast(equation.g.bitwise_population_count(x), x.dtype)


@primitive("clz")
def clz(equation: Equation, x: Tensor) -> Tensor:
    """Translate clz, which counts leading zeros.

    The highest set bit is copied to all lower bits, and the remaining zeros are counted.
    """
    width = 8 * x.dtype.itemsize
    word = np.dtype(f"uint{width}")

    def function(x: Any) -> Any:
        bits = lax.bitcast_convert_type(x, word)
        step = 1
        while step < width:
            bits = bits | lax.shift_right_logical(bits, word.type(step))
            step *= 2
        return lax.bitcast_convert_type(lax.population_count(~bits), x.dtype)

    return equation.traced(function, x)


@primitive("mulhi")
def mulhi(equation: Equation, x: Tensor, y: Tensor) -> Tensor:
    """Translate mulhi, which returns the upper half of the bits of a product."""
    width = 8 * x.dtype.itemsize
    if width == 64:
        equation.refuse("64-bit operands are not supported")
    g, wide = equation.g, ("int" if x.dtype.is_signed else "uint") + str(2 * width)
    product = g.multiplication(g.cast(x, wide), g.cast(y, wide))
    return g.cast(g.bitwise_right_shift(product, equation.constant(width, wide)), x.dtype)


@primitive("bitcast_convert_type")
def bitcast_convert_type(equation: Equation, x: Tensor, *, new_dtype: Any) -> Tensor:
    """Translate bitcast_convert_type. If the element sizes differ, a last axis is added or removed."""
    g, dtype = equation.g, dtype_of(new_dtype)
    if "bool" in (x.dtype.name, dtype.name) and x.dtype != dtype:
        return g.cast(x, dtype)
    if x.dtype.itemsize == dtype.itemsize:
        return g.reinterpret_cast(x, dtype) if x.dtype != dtype else x
    if not shape(x):
        x = g.reshape(x, (1,))
    return g.reshape(g.reinterpret_cast(x, dtype), equation.shape)
