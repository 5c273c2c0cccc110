"""What each workload needs at least on the machine at hand: its multiply-adds, or its bytes, at measured ceilings.

Operations are those of convolutions and matrix products, two a multiply-add; products with padding are not counted,
nor is anything that has to be computed besides. Bytes are those of weights, of optimizer states, of what is fed and
handed out, each moved once. So a bound is below what any engine reaches that adds up plain products; convolutions in
Winograd's tiles take fewer. `PRIMITIVES` is a sum of measured kernels.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import mpsgraph as mg
import numpy as np
import workloads as sizes
from measuring import THREADS
from measuring.machine import copy_bandwidth
from measuring.report import Row

PRIMITIVES = {"W1": 10.7, "W2 float32": 55.0, "W8 batch 1": 1.1, "W8 batch 64": 20.1, "W8 int8 batch 64": 6.6}
"""Milliseconds: all convolutions and matrix products of a step by oneDNN's fastest primitive, layers of few pixels as
matrix products. Measured once, on two cores of a Zen 5 server in its fast state, not with these scripts."""

CACHED = 24 << 20  # bytes that stay in the last cache from step to step
MATRIX = 2048
PRODUCTS = 4  # between the two chains of matrix products whose times are subtracted
ATTEMPTS = 5


@dataclass(frozen=True)
class Ceilings:
    """Rates of this machine: operations per second by precision, bytes per second from memory and within caches."""

    operations: dict[str, float]
    memory: float
    cache: float


@dataclass(frozen=True)
class Work:
    """Operations, and bytes that must move."""

    operations: float = 0.0
    bytes: float = 0.0
    precision: str = "float32"

    def bound(self, ceilings: Ceilings) -> tuple[float, str]:
        """Milliseconds, and by what."""
        rate = ceilings.cache if self.bytes <= CACHED else ceilings.memory
        limits = {
            "operations": 1e3 * self.operations / ceilings.operations[self.precision],
            "bytes": 1e3 * self.bytes / rate,
        }
        by = max(limits, key=limits.__getitem__)
        return limits[by], by


# --- ceilings ---------------------------------------------------------------------------------------------------------


def ceilings() -> Ceilings:
    """Measures them, in a few seconds; the best of some attempts each."""
    rates = {"float32": product_rate(mg.float32), "bfloat16": product_rate(mg.bfloat16)}
    rates["int8"] = 2 * rates["bfloat16"]  # twice the elements in a register
    return Ceilings(rates, 1e9 * copy_bandwidth(THREADS), 1e9 * read_bandwidth(THREADS))


def product_rate(dtype: mg.DType) -> float:
    """Operations per second of a large matrix product."""
    g = mg.Graph()
    rng = np.random.default_rng(0)
    left, right = (g.cast(g.variable(rng.random((MATRIX, MATRIX), np.float32)), dtype) for _ in range(2))
    chains = [left @ right]
    for _ in range(PRODUCTS):
        chains.append(chains[-1] @ right)
    short, long = (g.compile({}, [g.reduction_sum(chain)]) for chain in (chains[0], chains[-1]))
    best = {short: math.inf, long: math.inf}
    for attempt in range(1 + ATTEMPTS):  # in turns: a slow moment must not meet one of them alone
        for executable in best:
            seconds = _seconds(partial(executable.run, []))
            if attempt:
                best[executable] = min(best[executable], seconds)
    return 2 * PRODUCTS * MATRIX**3 / (best[long] - best[short])


def read_bandwidth(threads: int, megabytes: int = 8) -> float:
    """GB/s of reading what lies in the caches, by the largest element of an array for each thread."""
    arrays = [np.ones(megabytes << 18, np.float32) for _ in range(threads)]

    def attempt() -> float:
        repeats = 20
        workers = [threading.Thread(target=lambda x=x: [x.max() for _ in range(repeats)]) for x in arrays]
        return repeats * sum(x.nbytes for x in arrays) / _seconds(lambda: _together(workers)) / 1e9

    return max(attempt() for _ in range(ATTEMPTS))


def _together(workers: list[threading.Thread]) -> None:
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


# --- work -------------------------------------------------------------------------------------------------------------


@dataclass
class Layers:
    """A network's multiply-adds, added layer by layer, and its parameters."""

    batch: int
    forward: float = 0.0
    of_inputs: float = 0.0  # those of the gradient by a layer's input, which the first layer does not need
    parameters: int = field(default=0)
    read: int = field(default=0)  # parameters without those that meet padding only: what inference has to read

    def convolution(
        self, size: int, inputs: int, outputs: int, kernel: int, stride: int = 1, padded: bool = True
    ) -> int:
        """A square one. Result: the result's size."""
        result = math.ceil(size / stride) if padded else (size - kernel) // stride + 1
        before = max(0, (result - 1) * stride + kernel - size) // 2 if padded else 0
        taps = [tap for place in range(result) for tap in range(kernel) if 0 <= place * stride - before + tap < size]
        products, meeting = self.batch * len(taps) ** 2, len(set(taps)) ** 2
        self._add(inputs * outputs * products, inputs * outputs * kernel**2, inputs * outputs * meeting)
        return result

    def dense(self, inputs: int, outputs: int, rows: int = 1) -> None:
        self._add(self.batch * rows * inputs * outputs, inputs * outputs, inputs * outputs)

    def _add(self, products: float, parameters: int, read: int) -> None:
        self.of_inputs += products if self.forward else 0.0
        self.forward += products
        self.parameters += parameters
        self.read += read

    def training(self) -> float:
        """Operations of a step: forward, and the gradients by weights and inputs."""
        return 2 * (2 * self.forward + self.of_inputs)


def resnet50(batch: int) -> Layers:
    layers = Layers(batch)
    size = layers.convolution(sizes.W2_IMAGE, 3, sizes.W2_STEM, 7, 2, padded=False)
    size, inputs = (size - 3) // 2 + 1, sizes.W2_STEM
    for within, behind, count, strides in sizes.W2_STAGES:
        for first in [True] + [False] * (count - 1):
            stride = strides if first else 1
            if first:
                layers.convolution(size, inputs, behind, 1, stride)
            size = layers.convolution(size, inputs, within, 1, stride)
            layers.convolution(size, within, within, 3)
            layers.convolution(size, within, behind, 1)
            inputs = behind
    layers.dense(inputs, sizes.CLASSES)
    return layers


def digits() -> Layers:
    layers = Layers(sizes.W1_BATCH)
    first, second = sizes.W1_CHANNELS
    layers.convolution(sizes.W1_IMAGE, 1, first, 5)
    layers.convolution(sizes.W1_IMAGE // 2, first, second, 5)
    layers.dense(sizes.W1_FLAT, sizes.W1_HIDDEN)
    layers.dense(sizes.W1_HIDDEN, sizes.CLASSES)
    return layers


def activity() -> Layers:
    layers = Layers(sizes.W3_BATCH)
    layers.dense(sizes.W3_KERNEL * sizes.W3_AXES, sizes.W3_FEATURES, sizes.W3_STEPS)
    layers.dense(sizes.W3_FEATURES + sizes.W3_HIDDEN, 4 * sizes.W3_HIDDEN, sizes.W3_STEPS)
    layers.dense(sizes.W3_HIDDEN, sizes.W3_DENSE)
    layers.dense(sizes.W3_DENSE, sizes.W3_CLASSES)
    return layers


def adversarial() -> float:
    """Operations of a step: the discriminator runs on real and made images; the generator's loss goes through it, too.

    A transposed convolution multiplies what the convolution the other way does.
    """
    first, second = sizes.W4_CHANNELS
    half, kernel = sizes.W4_IMAGE // 2, sizes.W4_KERNEL
    makes, tells = Layers(sizes.W4_BATCH), Layers(sizes.W4_BATCH)
    makes.dense(sizes.W4_LATENT, sizes.W4_FLAT)
    makes.convolution(half, second, first, kernel, 2)
    makes.convolution(sizes.W4_IMAGE, 1, second, kernel, 2)
    tells.convolution(sizes.W4_IMAGE, 1, second, kernel, 2)
    tells.convolution(half, second, first, kernel, 2)
    tells.dense(sizes.W4_FLAT, 1)
    return makes.training() + 2 * tells.training() + 2 * tells.forward


def perceptron() -> Layers:
    layers = Layers(sizes.W6_BATCH)
    for pair in zip(sizes.W6_SIZES, sizes.W6_SIZES[1:], strict=False):
        layers.dense(*pair)
    return layers


def language_model(tokens: int, embedding: int, hidden: int) -> float:
    """Operations of a step. Each token's row meets the input weights once, however often a batch has that token."""
    places = sizes.W12_BATCH * sizes.W12_STEPS
    inputs = min(tokens, places) * embedding * 4 * hidden
    return 2 * 3 * (inputs + places * hidden * (4 * hidden + tokens))


def work() -> dict[str, Work]:
    """Of each workload."""
    w5 = 2 * 4 * math.prod(sizes.W5_SHAPE)
    character = Layers(1)  # what it adds to the gates is one row of the embeddings times the input weights
    character.dense(sizes.W7_HIDDEN, 4 * sizes.W7_HIDDEN)
    character.dense(sizes.W7_HIDDEN, sizes.W7_CHARACTERS)
    token = Layers(1)
    for _ in range(sizes.W10_LAYERS):
        for inputs, outputs in ((1, 4), (1, 4), (4, 1)):  # all four maps of attention as one, and the dense layers
            token.dense(inputs * sizes.W10_WIDTH, outputs * sizes.W10_WIDTH)
    token.dense(sizes.W10_WIDTH, sizes.W10_VOCABULARY)
    cached = 2 * sizes.W10_LAYERS * sizes.W10_POSITIONS * sizes.W10_WIDTH  # each is read, and multiplied once
    training = resnet50(sizes.W2_BATCH)
    result = {
        "W1": Work(digits().training(), 8 * digits().parameters),
        "W2 float32": Work(training.training(), 8 * training.parameters),
        "W2 bfloat16": Work(training.training(), 8 * training.parameters, "bfloat16"),
        "W3": Work(activity().training(), 24 * activity().parameters),
        "W4": Work(adversarial()),
        "W5 forward": Work(bytes=w5),
        "W5 forward+backward": Work(bytes=w5),
        "W6": Work(perceptron().training(), 24 * perceptron().parameters),
        "W7": Work(2 * character.forward, 4 * character.parameters),
        "W10": Work(2 * (token.forward + cached), 4 * (token.parameters + cached)),
    }
    for name, model in sizes.W12_MODELS.items():
        result[f"W12 {name}"] = Work(language_model(*model))
    for name, batch, precision, size in (
        ("W8 batch 1", 1, "float32", 4),
        ("W8 batch 64", 64, "float32", 4),
        ("W8 bfloat16 batch 1", 1, "bfloat16", 2),
        ("W8 bfloat16 batch 64", 64, "bfloat16", 2),
        ("W8 int8 batch 64", 64, "int8", 1),
    ):
        layers = resnet50(batch)
        result[name] = Work(2 * layers.forward, size * layers.read, precision)
    return result | {f"W9 {name}": each for name, each in single_operations().items()}


def single_operations() -> dict[str, Work]:
    """W9: what is read and written; of Fourier transforms also 5 n log2 n operations."""

    def transform(shape: tuple[int, int], length: int) -> Work:
        count = math.prod(shape)
        return Work(5 * count * math.log2(length), 16 * count)

    images = math.prod(sizes.W9_IMAGES)
    places = 2 * math.prod(sizes.W9_IMAGES[:3])
    sort = Work(bytes=8 * sizes.W9_SORT)
    return {
        "sort float32": sort,
        "sort int32": sort,
        "arg-sort float32": sort,
        "arg-sort int32": sort,
        "cumulative sum": Work(bytes=8 * math.prod(sizes.W9_SUMS)),
        "FFT of rows": transform(sizes.W9_WAVES, sizes.W9_WAVES[1]),
        "FFT of a plane": transform(sizes.W9_PLANE, math.prod(sizes.W9_PLANE)),
        "grid sample": Work(bytes=4 * (2 * images + places)),
    }


def bounded(rows: list[Row], at: Ceilings) -> list[Row]:
    """Rows with their workload's bound, where one is known."""
    known, result = work(), []
    for row in rows:
        if row.unit == "ms" and row.workload in known:
            milliseconds, by = known[row.workload].bound(at)
            row = replace(row, bound=milliseconds, bound_by=by, primitives=PRIMITIVES.get(row.workload))
        result.append(row)
    return result
