"""Cases of the random family: Philox 4x32-10 and all distributions, implemented in numpy.

States are int32[7] = [1, c0..c3, k0, k1]. A draw returns values starting at the counter of the state, and the advanced
state.
"""

import math
from statistics import NormalDist

import numpy as np
from harness.case import Case

SHAPE = (3, 5)


def philox(counter: int, key: int, blocks: int) -> np.ndarray:
    """Return uint32[blocks, 4] with ten rounds (Salmon et al. 2011); the 128-bit counter increases by one per block."""
    counters = [(counter + n) % 2**128 for n in range(blocks)]
    c = np.array([[v >> 32 * w & 0xFFFFFFFF for w in range(4)] for v in counters], np.uint64).reshape(blocks, 4).T
    k0, k1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = np.stack([(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & low])
        k0, k1 = k0 + np.uint64(0x9E3779B9) & low, k1 + np.uint64(0xBB67AE85) & low
    return c.T.astype(np.uint32)


def unpacked(state):
    words = [int(w) for w in np.asarray(state).view(np.uint32)]
    return sum(w << 32 * i for i, w in enumerate(words[1:5])), words[5] | words[6] << 32


def packed(counter, key):
    words = [1, *(counter >> 32 * i & 0xFFFFFFFF for i in range(4)), key & 0xFFFFFFFF, key >> 32]
    return np.array(words, np.uint32).view(np.int32)


def unit(words, dtype):
    """Convert random bits to uniform numbers in [0, 1): the bits as mantissa of a number in [1, 2), minus 1."""
    if dtype == "float64":
        high, low = words[:, 0::2].astype(np.uint64), words[:, 1::2].astype(np.uint64)
        mantissa = (high & np.uint64(0xFFFFF)) << np.uint64(32) | low
        return (mantissa | np.uint64(1023 << 52)).view(np.float64) - 1
    if dtype == "float16":
        return ((words & 0x3FF).astype(np.uint16) | np.uint16(15 << 10)).view(np.float16).astype(np.float64) - 1
    if dtype == "bfloat16":
        return (((words & 0x7F) | np.uint32(127 << 7)) << np.uint32(16)).view(np.float32).astype(np.float64) - 1
    return ((words & np.uint32(0x7FFFFF)) | np.uint32(127 << 23)).view(np.float32) - np.float32(1)


def normals(words, dtype):
    """Convert pairs of uniforms to pairs of normals by the Box-Muller method, sine first."""
    u = unit(words, "float64" if dtype == "float64" else "float32")
    first, angle = np.maximum(u[:, 0::2], u.dtype.type(1e-7)), u[:, 1::2]
    radius, turn = np.sqrt(-2 * np.log(first)), (2 * math.pi * angle.astype(np.float64)).astype(u.dtype)
    pairs = np.stack([np.sin(turn) * radius, np.cos(turn) * radius], axis=-1)
    return pairs.reshape(len(words), -1)


def truncated(counter, key, count, dtype, low, high):
    """Draw truncated normals by rejection; each group of results uses its own range of blocks."""
    group, stretch = (2, 128) if dtype == "float64" else (4, 256)
    result = []
    for g in range(-(-count // group)):
        kept = [z for z in normals(philox(counter + g * stretch, key, 64), dtype).reshape(-1) if low < z < high]
        result += kept[:group]
    return np.array(result[:count])


def random(
    state, shape=SHAPE, distribution="uniform", dtype="float32", min=0.0, max=1.0, min_integer=0,
    max_integer=2**31 - 1, mean=0.0, standard_deviation=1.0, advance="tensorflow", inclusive=False,
    sampling_method="box_muller",
):  # fmt: skip
    counter, key = unpacked(state)
    count = int(np.prod(shape))
    per_block = 2 if dtype in ("float64", "int64") else 4
    blocks = -(-count // per_block)
    words = philox(counter, key, blocks)
    if distribution == "truncated_normal":
        low, high = ((b - mean) / standard_deviation for b in (min, max)) if (min, max) != (0, 1) else (-2, 2)
        numbers = truncated(counter, key, count, dtype, low, high) * standard_deviation + mean
        if sampling_method == "inverse_cdf":
            normal = NormalDist()
            below = [normal.cdf(low), normal.cdf(high)]
            u = below[0] + (unit(words, dtype).reshape(-1)[:count] + 2.0**-24) * (below[1] - below[0])
            numbers = np.array([normal.inv_cdf(p) for p in u]) * standard_deviation + mean
    elif distribution == "normal":
        numbers = normals(words, dtype) * standard_deviation + mean
    elif dtype == "int32":
        numbers = min_integer + (words % np.uint64(max_integer + inclusive - min_integer)).astype(np.int64)
    elif dtype == "int64":
        bits = words[:, 0::2].astype(np.uint64) | words[:, 1::2].astype(np.uint64) << np.uint64(32)
        numbers = min_integer + (bits % np.uint64(max_integer - min_integer)).astype(np.int64)
    else:
        numbers = unit(words, dtype) * (max - min) + min
    kind = "float64" if dtype == "bfloat16" else dtype
    moved = counter + (256 * count if advance == "tensorflow" else blocks)
    return [numbers.reshape(-1)[:count].reshape(shape).astype(kind), packed(moved % 2**128, key)]


def build(graph, state, **descriptor):
    return graph.random(descriptor.pop("shape", SHAPE), state, **descriptor)


STATES = {
    "zero": packed(0, 0),
    "keys": packed(2 | 3 << 64, 1),
    "carry": packed(2**64 - 2 | 7 << 64, 42),
    "wrap": packed(2**128 - 1, 2**64 - 1),
}
KINDS = {
    "uniform": [{"dtype": d} for d in ("float32", "float16", "bfloat16", "float64")],
    "range": [{"dtype": d, "min": -2.0, "max": 6.0} for d in ("float32", "float64")],
    "integers": [
        {"dtype": "int32", "min_integer": -5, "max_integer": 12},
        {"dtype": "int64", "min_integer": -(2**40), "max_integer": 2**41},
        {"dtype": "int32", "min_integer": 1, "max_integer": 6, "inclusive": True},
        {"dtype": "int32", "min_integer": -(2**31), "max_integer": 2**31 - 1, "inclusive": True},
    ],
    "normal": [{"distribution": "normal", "dtype": d} for d in ("float32", "float16", "bfloat16", "float64")],
    "scaled": [{"distribution": "normal", "mean": 3.0, "standard_deviation": 0.5}],
    "truncated": [{"distribution": "truncated_normal", "dtype": d} for d in ("float32", "float16", "float64")],
    "bounded": [
        {"distribution": "truncated_normal", "mean": 3.0, "standard_deviation": 0.5, "min": 2.0, "max": 3.25},
        {"distribution": "truncated_normal", "min": -0.5, "max": 3.0, "sampling_method": "inverse_cdf"},
    ],
    "blocks": [{"advance": "blocks"}, {"advance": "blocks", "dtype": "float64"}],
    "nothing": [{"shape": (0, 2)}],
    "one": [{"shape": ()}],
}

CASES = [
    Case(
        "random", [state], random, how, build=build, dtypes=(),
        label=f"{kind}_{n}_{how.get('dtype', 'float32')}_{name}",
        batch=(), gradient=False, unranked=False, tolerance=2,
        exact=how.get("distribution", "uniform") == "uniform",
    )
    for name, state in STATES.items()
    for kind, descriptors in KINDS.items()
    for n, how in enumerate(descriptors)
]  # fmt: skip
