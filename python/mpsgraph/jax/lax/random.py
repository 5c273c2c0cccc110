"""Lowering of random numbers with Philox 4x32-10 in 32-bit arithmetic, as in src/backends/cpu/random.

Uniform numbers and integers are bitwise identical on every device. Normal numbers may differ in the last rounding of
the logarithm, sine, and cosine. The state is int32[7]: the number 1, four counter words, and two key words.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._table import Step, Value, lowers
from .arithmetic import is_half

_U = np.uint32
Words = tuple[Value, Value, Value, Value]


def _multiplied(a: int, x: Value) -> tuple[Value, Value]:
    """Return the high and low words of the product of two 32-bit words, using 16-bit halves."""
    low, high, mask, shift = _U(a & 0xFFFF), _U(a >> 16), _U(0xFFFF), _U(16)
    x_low, x_high = x & mask, x >> shift
    first = low * x_low
    second = high * x_low + (first >> shift)
    third = low * x_high + (second & mask)
    return high * x_high + (second >> shift) + (third >> shift), _U(a) * x


def _philox(counter: Words, key: tuple[Value, Value]) -> Words:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = _multiplied(0xD2511F53, c0)
        high1, low1 = _multiplied(0xCD9E8D57, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _U(0x9E3779B9), k1 + _U(0xBB67AE85)
    return c0, c1, c2, c3


def _moved(counter: Words, high: Value, low: Value) -> Words:
    """Advance a four-word Philox counter by a 64-bit number, given as its high and low words."""
    c0 = counter[0] + low
    carry = (c0 < low).astype(_U)
    c1 = counter[1] + high
    over = c1 < high
    c1 = c1 + carry
    over = (over | (c1 < carry)).astype(_U)
    c2 = counter[2] + over
    return c0, c1, c2, counter[3] + (c2 < over).astype(_U)


class _Stream:
    """The sequence of random words that follows a state of the Philox generator."""

    def __init__(self, state: Value) -> None:
        words = lax.bitcast_convert_type(jnp.asarray(state), np.uint32)
        self.counter: Words = (words[1], words[2], words[3], words[4])
        self.key = words[5], words[6]
        self.zero = words[0] - _U(1)  # Always zero, but the compiler cannot know that.

    def blocks(self, count: int, every: int = 1, behind: Value = 0) -> Value:
        """Return `count` blocks of four random words each, with shape [count, 4].

        Consecutive blocks of the result are `every` blocks apart in the sequence. The first block is `behind` blocks
        after the position of the state.
        """
        high, low = _multiplied(every, lax.iota(np.uint32, count))
        low_behind = low + jnp.asarray(behind, np.uint32)
        high = high + (low_behind < low).astype(_U)
        return jnp.stack(_philox(_moved(self.counter, high, low_behind), self.key), 1)

    def advanced(self, blocks: int) -> Value:
        """Return the generator state after a number of blocks has been drawn."""
        words = _moved(self.counter, _U(blocks >> 32 & 0xFFFFFFFF), _U(blocks & 0xFFFFFFFF))
        made = jnp.stack([jnp.ones((), np.uint32), *words, *self.key])
        return lax.bitcast_convert_type(made, np.int32)


# --- conversion of words to numbers -----------------------------------------------------------------------------------


def _uniform_float(x: Value) -> Value:
    bits = (x & _U(0x7FFFFF)) | _U(0x3F800000)
    return lax.bitcast_convert_type(bits, np.float32) - np.float32(1)


def _uniform_double(x0: Value, x1: Value) -> Value:
    """Convert two random words to a float64 number in [0, 1). 64-bit types must be enabled in JAX."""
    high = (x0 & _U(0xFFFFF)).astype(np.uint64) << np.uint64(32)
    bits = high | x1.astype(np.uint64) | (np.uint64(1023) << np.uint64(52))
    return lax.bitcast_convert_type(bits, np.float64) - np.float64(1)


def _uniform(words: Value, dtype: np.dtype) -> Value:
    """Convert random words to numbers in [0, 1). Numbers for float16 and bfloat16 are returned as float32."""
    if dtype == np.float64:
        return jnp.stack([_uniform_double(words[:, 0], words[:, 1]), _uniform_double(words[:, 2], words[:, 3])], 1)
    if dtype == np.float16:
        return (words & _U(0x3FF)).astype(np.float32) * np.float32(2**-10)
    if is_half(dtype):
        return (words & _U(0x7F)).astype(np.float32) * np.float32(2**-7)
    return _uniform_float(words)


def _box_muller(words: Value, dtype: np.dtype) -> Value:
    """Convert blocks of random words to pairs of standard normal numbers by the Box-Muller method.

    The number computed with the sine comes first in each pair. Numbers for float16 and bfloat16 are returned as
    float32.
    """
    if dtype == np.float64:
        u, turn = _uniform_double(words[:, 0], words[:, 1]), _uniform_double(words[:, 2], words[:, 3])
        angle = np.float64(2 * math.pi) * turn
        radius = jnp.sqrt(-2 * jnp.log(jnp.maximum(u, 1e-7)))
        return jnp.stack([jnp.sin(angle) * radius, jnp.cos(angle) * radius], 1)
    u, bits = _uniform_float(words[:, 0::2]), words[:, 1::2]
    # Multiply 2π by a 23-bit number with full float32 accuracy: split both factors so that the large product is exact.
    head = (bits >> _U(11) & _U(0xFFF)).astype(np.float32) * np.float32(2.0**-12)
    tail = (bits & _U(0x7FF)).astype(np.float32) * np.float32(2.0**-23)
    large = np.float32(6.28125)
    small = np.float32(2 * math.pi - 6.28125)
    angle = large * head + (large * tail + small * (head + tail))
    radius = jnp.sqrt(np.float32(-2) * jnp.log(jnp.maximum(u, np.float32(1e-7))))
    pairs = jnp.stack([jnp.sin(angle) * radius, jnp.cos(angle) * radius], 2)
    return pairs.reshape(words.shape)


def _scaled(values: Value, factor: Any, offset: Any, dtype: np.dtype, zero: Value) -> Value:
    """Compute values * factor + offset, with separate roundings to the element type after the product and after the
    sum.

    An integer operation after the product keeps compilers from fusing both into one multiply-add.
    """
    kind = np.dtype(np.float32) if is_half(dtype) else dtype
    factor, offset = (np.asarray(np.asarray(x, kind).astype(dtype), kind) for x in (factor, offset))

    def rounded(x: Value) -> Value:
        if not is_half(dtype):
            return x
        bits = (5, 10) if dtype == np.float16 else (8, 7)
        return lax.reduce_precision(x, *bits)

    values = rounded(values.astype(kind))
    if factor != 1:
        values = rounded(values * factor)
        if offset != 0:
            bits = np.dtype(f"u{kind.itemsize}")
            whole = lax.bitcast_convert_type(values, bits) ^ zero.astype(bits)
            values = lax.bitcast_convert_type(whole, kind)
    if offset != 0:
        values = rounded(values + offset)
    return values.astype(dtype)


def _normals_by_inversion(words: Value, step: Step, dtype: np.dtype) -> Value:
    """Convert random words to normal numbers with the inverse of the normal distribution function.

    The function is evaluated at midpoints of a uniform grid, in the widest floating-point type that is available.
    """
    lower, upper = -math.inf, math.inf
    if step["distribution"] == "truncated_normal":
        lower, upper = float(step["lower"]), float(step["upper"])
    mirrored = lower > 0
    if mirrored:
        lower, upper = -upper, -lower

    def below(z: float) -> float:
        return 0.5 * math.erfc(-z * math.sqrt(0.5))

    begin, length = below(lower), below(upper) - below(lower)
    wide = np.float64 if jax.config.jax_enable_x64 else np.float32
    if dtype == np.float64:
        u = _uniform(words, dtype) + 2.0**-53
    else:
        u = _uniform_float(words).astype(wide) + wide(2.0**-24)
    z = jax.scipy.special.ndtri(wide(begin) + u * wide(length))
    z = jnp.clip(z, wide(lower), wide(upper))
    return -z if mirrored else z


def _truncated(stream: _Stream, step: Step, dtype: np.dtype, count: int) -> Value:
    """Draw standard normal numbers between two bounds by rejection: numbers outside are drawn again.

    Each group of outputs draws from its own sequence of blocks until all of its numbers are within the bounds.
    """
    group = 2 if dtype == np.float64 else 4
    groups = -(-count // group)
    kind = np.dtype(np.float32) if is_half(dtype) else dtype
    lower, upper = np.asarray(step["lower"], kind), np.asarray(step["upper"], kind)

    def draw(carried: tuple[Value, Value, Value]) -> tuple[Value, Value, Value]:
        turn, made, out = carried
        z = _box_muller(stream.blocks(groups, group * 64, turn), dtype)
        for i in range(group):
            fits = (z[:, i] > lower) & (z[:, i] < upper) & (made < group)
            here = fits[:, None] & (lax.broadcasted_iota(np.int32, (groups, group), 1) == made[:, None])
            out = jnp.where(here, z[:, i : i + 1], out)
            made = made + fits.astype(np.int32)
        return turn + _U(1), made, out

    start = (jnp.zeros((), np.uint32), jnp.zeros(groups, np.int32), jnp.zeros((groups, group), kind))
    return lax.while_loop(lambda carried: jnp.any(carried[1] < group), draw, start)[2]


def _integers(words: Value, step: Step, dtype: np.dtype) -> Value:
    low, high = int(step["min_integer"]), int(step["max_integer"])
    if dtype == np.int32:
        span = (high - low) % 2**32
        bits = words % _U(span) if span else words
        return lax.bitcast_convert_type(bits + _U(low % 2**32), np.int32)
    span = (high - low) % 2**64
    pairs = words.reshape(-1, 2, 2).astype(np.uint64)
    bits = pairs[..., 0] | pairs[..., 1] << np.uint64(32)
    bits = bits % np.uint64(span) if span else bits
    return lax.bitcast_convert_type(bits + np.uint64(low % 2**64), np.int64)


@lowers("random")
def random(step: Step, _: Value, state: Value) -> tuple[Value, Value]:
    """Return random numbers with the shape of the operation's first result, and the generator state after them."""
    dtype, count = step.dtype, math.prod(step.shape)
    stream = _Stream(state)
    each = 2 if dtype.itemsize == 8 else 4
    blocks = -(-count // each)
    distribution, method = step["distribution"], step["sampling_method"]
    rejects = distribution == "truncated_normal" and method == "box_muller"
    if count == 0:
        values = jnp.zeros(0, dtype)
    elif dtype.kind in "iu":
        values = _integers(stream.blocks(blocks), step, dtype)
    elif distribution == "uniform":
        kind = np.dtype(np.float32) if is_half(dtype) else dtype
        low, high = (np.asarray(np.asarray(step[key], kind).astype(dtype), kind) for key in ("min", "max"))
        values = _scaled(_uniform(stream.blocks(blocks), dtype), high - low, low, dtype, stream.zero)
    else:
        if method == "inverse_cdf":
            normal = _normals_by_inversion(stream.blocks(blocks), step, dtype)
        elif rejects:
            normal = _truncated(stream, step, dtype, count)
        else:
            normal = _box_muller(stream.blocks(blocks), dtype)
        values = _scaled(normal, step["standard_deviation"], step["mean"], dtype, stream.zero)
    advanced = 256 * count
    if step["advance"] == "blocks":
        advanced = blocks * (each * 64 if rejects else 1)
    return values.reshape(-1)[:count].reshape(step.shape), stream.advanced(advanced)
