"""States of the Philox 4x32-10 generator, as int32[7] arrays: [1, counter words c0..c3, key words k0, k1].

`Graph.random` and its family take such a state and return the next one. The functions here make the states that
TensorFlow's entry points start from, so that the same seeds give the same numbers. Low words stand first; element 0 is
the algorithm's number, as in Apple's own state tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._checks import checked
from ._display import shown
from .errors import ShapeError

_WORD = 0xFFFFFFFF


@checked
def philox_state(key: int, counter_low: int = 0, counter_high: int = 0) -> np.ndarray:
    """The state of a 64-bit key and a 128-bit counter in two halves.

    Args: integers of 64 bits; negative ones stand for their two's complement. Result: int32[7]. Errors: ShapeError.

    >>> mg.random.philox_state(1, 2, 3).tolist()
    [1, 2, 0, 3, 0, 1, 0]
    """
    words = [1]
    for number in (counter_low, counter_high, key):
        if not -(2**63) <= number < 2**64:
            raise ShapeError(f"philox_state: keys, seeds and counter halves have 64 bits, {shown(number)} has more")
        words += [number & _WORD, number >> 32 & _WORD]
    return np.array(words, np.uint32).view(np.int32)


@checked
def philox_state_from_seeds(seed: int, seed2: int = 0) -> np.ndarray:
    """The state of TensorFlow's operations that take two seeds: RandomUniform(seed, seed2) and its family.

    They are what `tf.random.set_seed(seed)` with `tf.random.uniform(shape, seed=seed2)` calls first. The key is seed,
    the counter's high half seed2. (Both 0 mean seeds of the clock there, and the numbers of seed 0 here.)

    >>> mg.random.philox_state_from_seeds(7, 17).tolist()
    [1, 0, 0, 17, 0, 7, 0]
    """
    return philox_state(seed, 0, seed2)


@checked
def philox_state_from_generator(seed: int) -> np.ndarray:
    """The state of `tf.random.Generator.from_seed(seed, alg="philox")`: key 0, counter seed.

    >>> mg.random.philox_state_from_generator(1234).tolist()
    [1, 1234, 0, 0, 0, 0, 0]
    """
    return philox_state(0, seed, 0)


@checked
def philox_state_from_stateless_seed(seed0: int, seed1: int) -> np.ndarray:
    """The state of `tf.random.stateless_uniform(shape, seed=[seed0, seed1], alg="philox")` and its family.

    TensorFlow scrambles the seed by one block of the generator with a fixed key: the first two words become the key,
    the others the counter's high half.

    >>> mg.random.philox_state_from_stateless_seed(1, 2).tolist()[5:]
    [1831829434, -1870331191]
    """
    counter = [word for seed in (seed0, seed1) for word in (seed & _WORD, seed >> 32 & _WORD)]
    k0, k1, c2, c3 = philox_block(counter, [0x3EC8F720, 0x02461E29])
    return philox_state(k0 | k1 << 32, 0, c2 | c3 << 32)


@checked
def philox_block(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """The four 32-bit words that Philox 4x32-10 makes of a counter of four words and a key of two.

    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011. The runtime has its own; this one is for seeds.

    >>> [hex(word) for word in mg.random.philox_block((0, 0, 0, 0), (0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    if len(counter) != 4 or len(key) != 2:
        raise ShapeError(f"philox_block: counter is four words and key two, got {shown(counter)} and {shown(key)}")
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k0, p1 & _WORD, p0 >> 32 ^ c[3] ^ k1, p0 & _WORD]
        k0, k1 = k0 + 0x9E3779B9 & _WORD, k1 + 0xBB67AE85 & _WORD
    return c
