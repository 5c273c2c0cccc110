"""Translations of random-number primitives, whose results are bitwise identical to JAX's.

Keys are represented by their words. Operations that JAX defines per key implementation are traced.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from ..._core import Tensor
from ._table import Equation, mapped, primitive
from ._table import shape as shape_of_tensor

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


@primitive("threefry2x32")
def threefry2x32(equation: Equation, *words: Tensor) -> Any:
    """Translate threefry2x32, which encrypts two words with a two-word key in 20 rounds."""
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
    """Return the implementation of the random keys among the operands or results."""
    for aval in (*equation.operands, *equation.results):
        if hasattr(aval.dtype, "_impl"):
            return aval.dtype._impl
    return equation.refuse("a typed key is required")


@primitive("random_seed")
def random_seed(equation: Equation, seeds: Tensor, **_: Any) -> Tensor:
    implementation = _implementation(equation)
    return equation.traced(mapped(implementation.seed, len(shape_of_tensor(seeds))), seeds)


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
    """Return the row-major number of each element of a shape, as high and low 32-bit words."""
    count = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    words = ((count >> np.uint64(32)).astype(np.uint32), count.astype(np.uint32))
    return [equation.g.constant(word, dtype="uint32") for word in words]


@primitive("random_gamma")
def random_gamma(equation: Equation, key: Tensor, alpha: Tensor, *, log_space: bool, **_: Any) -> Tensor:
    """Translate random_gamma by tracing JAX's definition for CPU, which uses Marsaglia and Tsang's rejection method."""
    from jax._src.random import core

    name = _implementation(equation).name

    def function(words: Any, a: Any) -> Any:
        keys = jax.random.wrap_key_data(words, impl=name)
        return core._gamma_impl(keys, a, log_space=log_space, use_vmap=True)

    return equation.traced(function, key, alpha)


PHILOX_MULTIPLIERS = (np.uint32(0xD2511F53), np.uint32(0xCD9E8D57))
PHILOX_STEPS = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))


@primitive("rng_bit_generator")
def rng_bit_generator(
    equation: Equation, key: Tensor, *, shape: Any, dtype: Any, algorithm: Any, **_: Any
) -> list[Tensor]:
    """Translate rng_bit_generator with Philox or Threefry, in XLA's order of bits.

    The default algorithm is Philox, as in XLA on CPU. The first half of the key is the generator's key, and the second
    half is a counter, which is advanced in the returned key.
    """
    g = equation.g
    words = g.reinterpret_cast(key, "uint32") if key.dtype.itemsize == 8 else key
    words = g.reshape(words, (4,))
    sizes = [int(size) for size in shape]
    double = np.dtype(dtype).itemsize == 8 and np.dtype(dtype).kind == "u"
    three_fry = getattr(algorithm, "name", str(algorithm)) == "RNG_THREE_FRY"
    function = _threefry_bits if three_fry else _philox_bits
    state, *bits = equation.traced(lambda w: function(w, sizes, double), words)
    wanted = equation.results[1].dtype.name
    if double:
        low, high = (g.cast(b, "uint64") for b in bits)
        found = g.bitwise_or(low, g.bitwise_left_shift(high, equation.constant(32, "uint64")))
    else:
        found = equation.cast(bits[0], wanted)
    state = g.reinterpret_cast(g.reshape(state, (2, 2)), "uint64") if key.dtype.itemsize == 8 else state
    return [g.reshape(state, equation.shape), found]


def _counted(low: Any, high: Any, count: Any) -> Any:
    """Add a count to a two-word counter, given as low and high words. Return both words and whether the sum
    overflows.
    """
    more = low + count
    carried = more < low
    top = high + carried.astype(np.uint32)
    return more, top, carried & (top == 0)


def _philox_bits(words: Any, sizes: list[int], double: bool) -> Any:
    count = math.prod(sizes) * (2 if double else 1)
    blocks = -(-count // 4)
    k0, k1, low, high = words
    c0, c1, over = _counted(low, high, jnp.arange(blocks, dtype=np.uint32))
    c2 = k0 + over.astype(np.uint32)
    c3 = k1 + (over & (c2 == 0)).astype(np.uint32)
    keys = [k0, k1]
    for _ in range(10):
        (h0, l0), (h1, l1) = (
            (lax.mulhi(c, jnp.full_like(c, m)), c * m) for c, m in zip((c0, c2), PHILOX_MULTIPLIERS, strict=True)
        )
        c0, c1, c2, c3 = h1 ^ c1 ^ keys[0], l1, h0 ^ c3 ^ keys[1], l0
        keys = [k + step for k, step in zip(keys, PHILOX_STEPS, strict=True)]
    low, high, _ = _counted(low, high, np.uint32(blocks))
    state = jnp.stack([k0, k1, low, high])
    numbers = jnp.stack([c0, c1, c2, c3], axis=1).reshape(-1)
    if not double:
        return state, numbers[:count].reshape(sizes)
    pairs = numbers.reshape(-1, 2)[: math.prod(sizes)]
    return state, pairs[:, 0].reshape(sizes), pairs[:, 1].reshape(sizes)


def _threefry_bits(words: Any, sizes: list[int], double: bool) -> Any:
    k0, k1, low, high = words
    even = [axis for axis, size in enumerate(sizes) if size % 2 == 0]
    split = even[0] if even else int(np.argmax(sizes)) if sizes else 0
    half = list(sizes) if sizes else [1]
    if not double and sizes:
        half[split] = -(-sizes[split] // 2)
    count = math.prod(half)
    c0, c1, _ = _counted(low, high, jnp.arange(count, dtype=np.uint32).reshape(half))
    x, y = _threefry2x32(k0, k1, c0, c1)
    low, high, _ = _counted(low, high, np.uint32(count))
    state = jnp.stack([k0, k1, low, high])
    if double:
        return state, x.reshape(sizes), y.reshape(sizes)
    if not sizes:
        return state, x.reshape(())
    joined = jnp.stack([x, y], axis=split + 1)
    joined = joined.reshape([*sizes[:split], 2 * half[split], *sizes[split + 1 :]])
    return state, lax.slice_in_dim(joined, 0, sizes[split], axis=split)
