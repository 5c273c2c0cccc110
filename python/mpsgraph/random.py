"""The seeds of trainers that are created without one, and states of the Philox 4x32-10 generator.

A state is an int32[7] array: [1, counter words c0..c3, key words k0, k1].

`Graph.random` and similar methods take such a state and return the next one. The functions in this module create the
states from which TensorFlow's functions start, so that the same seeds give the same numbers. Low words come first;
element 0 identifies the algorithm, as in Apple's own state tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ._checks import checked
from ._display import shown
from .errors import ShapeError

_WORD = 0xFFFFFFFF


def _seeds(first: int | None) -> Iterator[int]:
    """Yield seeds: `first` and numbers derived from it, or, if it is None, numbers from the operating system."""
    if first is not None:
        yield first
    for number in itertools.count(1):
        entropy = None if first is None else [first % 2**64, number]
        yield int(np.random.SeedSequence(entropy).generate_state(1)[0])


_next_seeds = _seeds(None)


@checked
def seed(seed: int | None) -> None:
    """Determine the seeds of the trainers that are created from now on without a seed.

    The first one gets this seed, and each further one another seed that is derived from it. Without a call of this
    function, seeds come from the operating system, so that the members of an ensemble differ. A trainer's seed is in
    `history.seed`.

    Args:
        seed: The seed, or None for seeds from the operating system.

    Example:
        >>> def seeds():
        ...     mg.random.seed(7)
        ...     return [mg.Trainer(mg.nn.Linear(1)).history.seed for _ in range(3)]
        >>> seeds() == seeds(), seeds()[0], len(set(seeds()))
        (True, 7, 3)
    """
    global _next_seeds
    _next_seeds = _seeds(seed)


def next_seed() -> int:
    """Return the next seed for a trainer or model that is created without one.

    Example:
        >>> mg.random.seed(7)
        >>> mg.random.next_seed(), mg.Trainer(mg.nn.Linear(1)).seed == mg.random.next_seed()
        (7, False)
    """
    return next(_next_seeds)


@checked
def philox_state(key: int, counter_low: int = 0, counter_high: int = 0) -> np.ndarray:
    """Return the state with a 64-bit key and a 128-bit counter.

    Args:
        key: 64-bit key; a negative int stands for its two's complement.
        counter_low: Low 64 bits of the counter. Defaults to 0.
        counter_high: High 64 bits of the counter. Defaults to 0.

    Returns:
        An int32 array of shape (7,).

    Raises:
        ShapeError: If an argument does not fit in 64 bits.

    Example:
        >>> mg.random.philox_state(1, 2, 3).tolist()
        [1, 2, 0, 3, 0, 1, 0]
    """
    words = [1]
    for number in (counter_low, counter_high, key):
        if not -(2**63) <= number < 2**64:
            raise ShapeError(
                f"philox_state: key, counter_low and counter_high must fit in 64 bits, got {shown(number)}"
            )
        words += [number & _WORD, number >> 32 & _WORD]
    return np.array(words, np.uint32).view(np.int32)


@checked
def philox_state_from_seeds(seed: int, seed2: int = 0) -> np.ndarray:
    """Return the state of TensorFlow's operations that take two seeds, such as RandomUniform(seed, seed2).

    After `tf.random.set_seed(seed)`, the first call of `tf.random.uniform(shape, seed=seed2)` runs such an operation.
    The key is seed, and the high 64 bits of the counter are seed2. If both are 0, TensorFlow draws the seeds from the
    clock; this function returns the state for two seeds of 0 instead.

    Args:
        seed: The global seed.
        seed2: The seed of the operation. Defaults to 0.

    Returns:
        An int32 array of shape (7,).

    Raises:
        ShapeError: If a seed does not fit in 64 bits.

    Example:
        >>> mg.random.philox_state_from_seeds(7, 17).tolist()
        [1, 0, 0, 17, 0, 7, 0]
    """
    return philox_state(seed, 0, seed2)


@checked
def philox_state_from_generator(seed: int) -> np.ndarray:
    """Return the state of `tf.random.Generator.from_seed(seed, alg="philox")`: key 0 and counter seed.

    Args:
        seed: The seed.

    Returns:
        An int32 array of shape (7,).

    Raises:
        ShapeError: If seed does not fit in 64 bits.

    Example:
        >>> mg.random.philox_state_from_generator(1234).tolist()
        [1, 1234, 0, 0, 0, 0, 0]
    """
    return philox_state(0, seed, 0)


@checked
def philox_state_from_stateless_seed(seed0: int, seed1: int) -> np.ndarray:
    """Return the state of `tf.random.stateless_uniform(shape, seed=[seed0, seed1], alg="philox")` and similar
    functions.

    TensorFlow scrambles the seed with one block of the generator and a fixed key: the first two words of the block
    become the key, and the other two become the high 64 bits of the counter.

    Args:
        seed0: First element of the seed.
        seed1: Second element of the seed.

    Returns:
        An int32 array of shape (7,).

    Raises:
        ShapeError: If an element does not fit in 64 bits.

    Example:
        >>> mg.random.philox_state_from_stateless_seed(1, 2).tolist()[5:]
        [1831829434, -1870331191]
    """
    counter = [word for seed in (seed0, seed1) for word in (seed & _WORD, seed >> 32 & _WORD)]
    k0, k1, c2, c3 = philox_block(counter, [0x3EC8F720, 0x02461E29])
    return philox_state(k0 | k1 << 32, 0, c2 | c3 << 32)


@checked
def philox_block(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Return the block of four 32-bit words that Philox 4x32-10 generates from a counter and a key.

    This implementation is only for seeds; the runtime has its own implementation. See Salmon et al., "Parallel random
    numbers: as easy as 1, 2, 3", 2011.

    Args:
        counter: Four 32-bit words.
        key: Two 32-bit words.

    Returns:
        A list of four 32-bit words.

    Raises:
        ShapeError: If counter does not have four words or key does not have two.

    Example:
        >>> [hex(word) for word in mg.random.philox_block((0, 0, 0, 0), (0, 0))]
        ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    if len(counter) != 4 or len(key) != 2:
        raise ShapeError(
            f"philox_block: counter must have four words and key two, got {shown(counter)} and {shown(key)}"
        )
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k0, p1 & _WORD, p0 >> 32 ^ c[3] ^ k1, p0 & _WORD]
        k0, k1 = k0 + 0x9E3779B9 & _WORD, k1 + 0xBB67AE85 & _WORD
    return c
