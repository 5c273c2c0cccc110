"""Updates of float16 and bfloat16 weights that are smaller than the distance of two numbers of the dtype.

bfloat16 has 8 significant bits: rounding loses every update that is smaller than 0.2% to 0.4% of a weight. A float32
copy of the weight, or random rounding, keeps their sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import Operation, Tensor, bfloat16, float32, int16, int32
from .._display import shown
from ..errors import DTypeError, GraphError
from ..random import philox_state

States = dict[tuple[Tensor | None, str], Tensor]
WAYS = ("rounded", "master", "stochastic")


def checked_way(owner: str, way: Any) -> str:
    """Return a way to store weights in low precision. Raise GraphError if it is unknown."""
    if way not in WAYS:
        raise GraphError(f"{owner}.low_precision_weights must be one of {', '.join(WAYS)}, got {shown(way)}")
    return str(way)


def values_of(optimizer: Any, variable: Tensor, way: str) -> Tensor:
    """Return the float32 values of a float16 or bfloat16 weight, for its update.

    The float32 copy counts as long as it rounds to the weight. It is 0 before the first update, and out of date after
    the weight has been set, for example by load_state_dict; the weight itself then counts.
    """
    g = optimizer.graph
    weight = g.read(variable)
    if way != "master":
        rounded: Tensor = g.cast(weight, float32)
        return rounded
    copy = g.read(_copy_of(optimizer, variable))
    # The bits are compared, because the compiler computes a comparison of half-precision values in float32, and then
    # leaves out the rounding of a cast.
    same = g.equal(*(g.reinterpret_cast(x, int16) for x in (g.cast(copy, variable.dtype), weight)))
    values: Tensor = g.select(same, copy, g.cast(weight, float32))
    return values


def stored(optimizer: Any, states: States, variable: Tensor, moved: Tensor, way: str) -> list[Operation]:
    """Return the operations that store the updated float32 values of a float16 or bfloat16 weight.

    The state of random rounding is added to the optimizer's states.
    """
    g = optimizer.graph
    if way == "stochastic":
        return _stored_stochastically(optimizer.graph, states, variable, moved)
    made = [g.assign(variable, g.cast(moved, variable.dtype))]
    return [*made, g.assign(_copy_of(optimizer, variable), moved)] if way == "master" else made


def _copy_of(optimizer: Any, variable: Tensor) -> Tensor:
    return optimizer.state_of_shape(variable, tuple(variable.shape or ()), float32, "master")  # type: ignore[no-any-return]


def _stored_stochastically(g: Any, states: States, variable: Tensor, moved: Tensor) -> list[Operation]:
    """Round up or down to bfloat16 at random, with probabilities for which the expected value is exact.

    A bfloat16 number consists of the upper 16 bits of a float32 number. Adding a random 16-bit number to the bits
    carries into the upper ones with the probability of rounding away from zero.
    """
    if variable.dtype != bfloat16:
        raise DTypeError(
            f"low_precision_weights='stochastic' supports bfloat16 weights, but '{variable.name}' is "
            f"{variable.dtype}: use low_precision_weights='master'"
        )
    key = variable, "rounding"
    if key not in states:
        number = int(g.generator.integers(np.iinfo(np.int64).max))
        states[key] = g.variable(philox_state(number), None, f"{variable.name}/rounding", trainable=False)
    state = states[key]
    noise, after = g.random(
        variable.shape, g.read(state), distribution="uniform", dtype=int32, min_integer=0, max_integer=1 << 16
    )
    bits = g.bitwise_and(g.reinterpret_cast(moved, int32) + noise, -(1 << 16))
    rounded = g.cast(g.reinterpret_cast(bits, float32), bfloat16)
    # Adding to the bits of an infinity or a NaN could change them into another number.
    rounded = g.select(g.is_finite(moved), rounded, g.cast(moved, bfloat16))
    return [g.assign(variable, rounded), g.assign(state, after)]
