"""Lower bounds on the time of each workload, from its multiply-adds or bytes and the machine's peak rates.

Operations are those of convolutions and matmuls, two per multiply-add. Products with padding and all other computation
are not counted. Bytes are those of weights, optimizer states, inputs, and outputs, each moved once. An engine that
computes every product cannot be faster than the bound, but Winograd convolutions need fewer products and can be.
`PRIMITIVES` holds sums of measured kernel times.
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
"""Milliseconds of all convolutions and matmuls of a step with oneDNN's fastest primitives (layers with few pixels run
as matmuls). Measured once, on two cores of a Zen 5 server in its fast state, with a program that is not in this
repository.
"""

CACHED = 24 << 20  # Bytes that stay in the last-level cache from step to step.
MATRIX = 2048
PRODUCTS = 4  # Difference in length between the two chains of matmuls whose times are subtracted.
ATTEMPTS = 5


@dataclass(frozen=True)
class Ceilings:
    """Peak rates of this machine: operations/s for each dtype, and bytes/s from memory and from the caches."""

    operations: dict[str, float]
    memory: float
    cache: float


@dataclass(frozen=True)
class Work:
    """Work of one step: the number of operations and the bytes that must be moved."""

    operations: float = 0.0
    bytes: float = 0.0
    precision: str = "float32"

    def bound(self, ceilings: Ceilings) -> tuple[float, str]:
        """Return the lower bound in milliseconds and what limits it, "operations" or "bytes"."""
        rate = ceilings.cache if self.bytes <= CACHED else ceilings.memory
        limits = {
            "operations": 1e3 * self.operations / ceilings.operations[self.precision],
            "bytes": 1e3 * self.bytes / rate,
        }
        by = max(limits, key=limits.__getitem__)
        return limits[by], by


# --- ceilings ---------------------------------------------------------------------------------------------------------


def ceilings() -> Ceilings:
    """Measure the rates in a few seconds, each as the best of several attempts."""
    rates = {"float32": product_rate(mg.float32), "bfloat16": product_rate(mg.bfloat16)}
    rates["int8"] = 2 * rates["bfloat16"]  # A register holds twice as many int8 elements.
    return Ceilings(rates, 1e9 * copy_bandwidth(THREADS), 1e9 * read_bandwidth(THREADS))


def product_rate(dtype: mg.DType) -> float:
    """Return the operations per second of a large matmul."""
    g = mg.Graph()
    rng = np.random.default_rng(0)
    left, right = (g.cast(g.variable(rng.random((MATRIX, MATRIX), np.float32)), dtype) for _ in range(2))
    chains = [left @ right]
    for _ in range(PRODUCTS):
        chains.append(chains[-1] @ right)
    short, long = (g.compile({}, [g.reduction_sum(chain)]) for chain in (chains[0], chains[-1]))
    best = {short: math.inf, long: math.inf}
    for attempt in range(1 + ATTEMPTS):  # Alternate the two, so that a slow moment does not affect only one of them.
        for executable in best:
            seconds = _seconds(partial(executable.run, []))
            if attempt:
                best[executable] = min(best[executable], seconds)
    return 2 * PRODUCTS * MATRIX**3 / (best[long] - best[short])


def read_bandwidth(threads: int, megabytes: int = 8) -> float:
    """Return the cache read rate in GB/s: each thread takes the maximum of a separate array."""
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
    """The multiply-adds and parameters of a network, accumulated layer by layer."""

    batch: int
    forward: float = 0.0
    of_inputs: float = 0.0  # Multiply-adds of the gradients with respect to layer inputs; the first layer needs none.
    parameters: int = field(default=0)
    # Parameters that inference has to read: all except those that are only multiplied by padding.
    read: int = field(default=0)

    def convolution(
        self, size: int, inputs: int, outputs: int, kernel: int, stride: int = 1, padded: bool = True
    ) -> int:
        """Add a square convolution and return its output size."""
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
        """Return the operations of a training step: the forward pass and the gradients of weights and inputs."""
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
    """Return the operations of a GAN training step.

    The discriminator runs on real and on generated images, and once more for the generator's loss. A transposed
    convolution takes as many products as the convolution that it transposes.
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
    """Return the operations of a step; each distinct token is multiplied by the input weights only once."""
    places = sizes.W12_BATCH * sizes.W12_STEPS
    inputs = min(tokens, places) * embedding * 4 * hidden
    return 2 * 3 * (inputs + places * hidden * (4 * hidden + tokens))


def work() -> dict[str, Work]:
    """Return the work of one step of each workload."""
    w5 = 2 * 4 * math.prod(sizes.W5_SHAPE)
    # The input contributes one row of (embeddings x input weights) to the gates, which needs no product.
    character = Layers(1)
    character.dense(sizes.W7_HIDDEN, 4 * sizes.W7_HIDDEN)
    character.dense(sizes.W7_HIDDEN, sizes.W7_CHARACTERS)
    token = Layers(1)
    for _ in range(sizes.W10_LAYERS):
        # The query, key, value, and output projections count as one 1:4 layer, followed by the two dense layers.
        for inputs, outputs in ((1, 4), (1, 4), (4, 1)):
            token.dense(inputs * sizes.W10_WIDTH, outputs * sizes.W10_WIDTH)
    token.dense(sizes.W10_WIDTH, sizes.W10_VOCABULARY)
    # Elements of the key/value cache; each is read and multiplied once.
    cached = 2 * sizes.W10_LAYERS * sizes.W10_POSITIONS * sizes.W10_WIDTH
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
    """Return the work of the W9 operations: bytes read and written, plus 5 n log2(n) operations for an FFT."""

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
    """Return the rows with the bound of their workload, where one is known."""
    known, result = work(), []
    for row in rows:
        if row.unit == "ms" and row.workload in known:
            milliseconds, by = known[row.workload].bound(at)
            row = replace(row, bound=milliseconds, bound_by=by, primitives=PRIMITIVES.get(row.workload))
        result.append(row)
    return result
