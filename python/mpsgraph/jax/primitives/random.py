"""Random numbers: JAX's, bit for bit. Keys are words; what JAX defines of a key's implementation is traced."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from ..._core import Tensor
from ._table import Equation, mapped, primitive, shape

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


@primitive("threefry2x32")
def threefry2x32(equation: Equation, *words: Tensor) -> Any:
    """Two words encrypted by a key of two, in 20 rounds."""
    return equation.traced(_threefry2x32, *words)


def _threefry2x32(k1: Any, k2: Any, x1: Any, x2: Any) -> Any:
    x1, x2, k1, k2 = jnp.broadcast_arrays(x1, x2, k1, k2)
    keys = (k1, k2, k1 ^ k2 ^ PARITY)
    x1, x2 = x1 + keys[0], x2 + keys[1]
    for number in range(5):
        for by in ROTATIONS[number % 2]:
            x1 = x1 + x2
            x2 = lax.shift_left(x2, np.uint32(by)) | lax.shift_right_logical(x2, np.uint32(32 - by))
            x2 = x1 ^ x2
        x1 = x1 + keys[(number + 1) % 3]
        x2 = x2 + keys[(number + 2) % 3] + np.uint32(number + 1)
    return x1, x2


@primitive("random_wrap", "random_unwrap")
def random_wrap(equation: Equation, key: Tensor, **_: Any) -> Tensor:
    return key


def _implementation(equation: Equation) -> Any:
    """How the keys among the operands or results are made and used."""
    for aval in (*equation.operands, *equation.results):
        if hasattr(aval.dtype, "_impl"):
            return aval.dtype._impl
    return equation.refuse("without a key")


@primitive("random_seed")
def random_seed(equation: Equation, seeds: Tensor, **_: Any) -> Tensor:
    implementation = _implementation(equation)
    return equation.traced(mapped(implementation.seed, len(shape(seeds))), seeds)


@primitive("random_bits")
def random_bits(equation: Equation, key: Tensor, *, bit_width: int, shape: Any) -> Tensor:
    implementation = _implementation(equation)
    batch = len(equation.operands[0].shape)
    return equation.traced(mapped(lambda k: implementation.random_bits(k, bit_width, shape), batch), key)


@primitive("random_split")
def random_split(equation: Equation, key: Tensor, *, shape: Any) -> Tensor:
    implementation = _implementation(equation)
    return equation.traced(mapped(lambda k: implementation.split(k, shape), len(equation.operands[0].shape)), key)


@primitive("random_fold_in")
def random_fold_in(equation: Equation, key: Tensor, numbers: Tensor) -> Tensor:
    implementation = _implementation(equation)
    return equation.traced(mapped(implementation.fold_in, len(equation.operands[0].shape)), key, numbers)


@primitive("iota_2x32_shape")
def iota_2x32_shape(equation: Equation, *, shape: Any) -> list[Tensor]:
    """The numbers of elements in row-major order, as a high and a low word."""
    count = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    words = ((count >> np.uint64(32)).astype(np.uint32), count.astype(np.uint32))
    return [equation.g.constant(word, dtype="uint32") for word in words]


@primitive("random_gamma")
def random_gamma(equation: Equation, key: Tensor, alpha: Tensor, *, log_space: bool, **_: Any) -> Tensor:
    """By JAX's own definition, which its lowering for the CPU traces, too: Marsaglia and Tsang's rejection."""
    from jax._src.random import core

    implementation, sizes = _implementation(equation), equation.operands[0].shape

    def function(words: Any, a: Any) -> Any:
        keys = jax.random.wrap_key_data(words, impl=_spec(implementation)).reshape(-1)
        flat = a.reshape(math.prod(sizes), -1) if sizes else a.reshape(1, -1)
        each = jax.random.split
        found = []
        for row in range(flat.shape[0]):
            split = each(keys[row], flat.shape[1])
            found.append(jax.vmap(lambda k, v: core._gamma_one(k, v, log_space))(split, flat[row]))
        return jnp.stack(found).reshape(a.shape)

    return equation.traced(function, key, alpha)


def _spec(implementation: Any) -> str:
    return str(implementation.name)
