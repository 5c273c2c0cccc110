"""The talks' programs in C++ (examples/native) must return the same bits as the same programs in Python."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.native_programs import STRICTER, build, run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "native"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="builds programs against libmpsgraph.so")


# --- numbers of examples/native/noise.h -------------------------------------------------------------------------------
def noise(count: int, seed: int) -> np.ndarray:
    bits = np.arange(count, dtype=np.uint32) + np.uint32(seed * 0x9E3779B9 % 2**32)
    bits = (bits ^ (bits >> 16)) * np.uint32(0x7FEB352D)
    bits = (bits ^ (bits >> 15)) * np.uint32(0x846CA68B)
    return ((bits ^ (bits >> 16)) >> 8).astype(np.float32) * np.float32(2**-24)


def uniform(shape: tuple[int, ...], limit: float, seed: int) -> np.ndarray:
    return ((noise(int(np.prod(shape)), seed) * 2 - 1) * np.float32(limit)).reshape(shape)


def full(shape: tuple[int, ...], value: float) -> np.ndarray:
    return np.full(shape, value, np.float32)


Results = list[tuple[str, list[float]]]


def printed(output: str) -> Results:
    """Return the names and numbers that a program printed."""
    rows = [line.split() for line in output.splitlines()]
    return [(name, [float.fromhex(n) if "x" in n else float(n) for n in numbers]) for name, *numbers in rows]


def rows(**arrays: mg.NDArray | np.ndarray) -> Results:
    return [(name, np.asarray(array).astype(np.float64).ravel().tolist()) for name, array in arrays.items()]


def evaluate(
    g: mg.Graph, feeds: dict, targets: list[mg.Tensor], operations: Sequence[mg.Operation] = ()
) -> list[mg.NDArray]:
    values = g.run(feeds, targets, operations)
    return [values[target] for target in targets]


# --- WWDC20 -----------------------------------------------------------------------------------------------------------
def activate() -> Results:
    g = mg.Graph()
    x = g.placeholder((-1, 3), name="x")
    one, half = g.constant(1.0), g.constant(0.5)
    scaled, halved = x * g.square_root(half), x * half
    y = halved * (g.erf(scaled) + one)
    out = evaluate(g, {x: uniform((2, 3), 3, 1)}, [y, g.gradients(y, x)[x]])
    return rows(gelu=out[0], gelu_slope=out[1])


def write_text() -> Results:
    letters, units = 12, 16
    g = mg.Graph()
    letter, inverse = g.placeholder((1,), "int32"), g.placeholder(())
    embedding = g.constant(uniform((letters, 8), 1, 2))
    state, cell = (g.variable(full((1, units), 0)) for _ in range(2))
    h, c = g.lstm(
        g.reshape(g.gather(embedding, letter), (1, 1, 8)),
        g.constant(uniform((4 * units, units), 0.5, 3)),
        g.constant(uniform((4 * units, 8), 0.5, 4)),
        initial_state=state,
        initial_cell=cell,
        produce_cell=True,
    )
    last = g.reshape(h, (1, units))
    keep = [g.assign(state, last), g.assign(cell, g.reshape(c, (1, units)))]
    logits = g.matrix_multiplication(last, g.constant(uniform((units, letters), 2, 5)))
    chances = g.softmax(logits * inverse, -1)
    chosen = g.placeholder((1, 1))
    reached = g.cast(g.less_than_or_equal_to(g.cumulative_sum(chances, 1), chosen), "int32")
    following = g.minimum(g.reshape(g.reduction_sum(reached, 1), (1,)), letters - 1)
    current, text = np.int32([3]), []
    for number in noise(20, 6):
        feeds = {letter: current, inverse: np.float32(2), chosen: full((1, 1), number)}
        current = evaluate(g, feeds, [following], keep)[0].numpy()
        text.append(float(current[0]))
    return [("text", text)]


def train_digits() -> Results:
    batch = 8
    g = mg.Graph()
    images, labels = g.placeholder((batch, 28, 28, 1)), g.placeholder((batch, 10))
    variables: list[mg.Tensor] = []

    def layer(shape: tuple[int, ...], bias: tuple[int, ...]) -> tuple[mg.Tensor, mg.Tensor]:
        made = g.variable(uniform(shape, 0.2, 10 + len(variables))), g.variable(full(bias, 0.1))
        variables.extend(made)
        return made

    x = images
    for inputs, outputs in ((1, 8), (8, 16)):
        weights, bias = layer((5, 5, inputs, outputs), (1, 1, 1, outputs))
        x = g.max_pooling2d(g.relu(g.convolution2d(x, weights, padding="TF_SAME") + bias), 2, 2)
    x = g.reshape(x, (batch, 7 * 7 * 16))
    weights, bias = layer((7 * 7 * 16, 64), (64,))
    x = g.relu(g.matrix_multiplication(x, weights) + bias)
    weights, bias = layer((64, 10), (10,))
    x = g.matrix_multiplication(x, weights) + bias
    loss = g.softmax_cross_entropy(x, labels, -1, "sum") / float(batch)
    updates = descent(g, loss, variables, 0.01)
    found = []
    for step in range(6):
        one_hot = np.eye(10, dtype=np.float32)[(np.arange(batch) + step) % 10]
        feeds = {images: uniform((batch, 28, 28, 1), 1, 100 + step), labels: one_hot}
        found += rows(digits_loss=evaluate(g, feeds, [loss], updates)[0])
    return found + rows(digits_bias=g.variable_value(variables[-1]))


def descent(g: mg.Graph, loss: mg.Tensor, variables: list[mg.Tensor], rate: float) -> list[mg.Operation]:
    slopes = g.gradients(loss, variables)
    return [g.assign(v, g.stochastic_gradient_descent(rate, v, slopes[v])) for v in variables]


def train_adversaries() -> Results:
    batch = 4
    g = mg.Graph()
    real, seeds = g.placeholder((batch, 28, 28, 1)), g.placeholder((batch, 10))
    dense = g.variable(uniform((10, 7 * 7 * 8), 0.3, 40))
    upscale1 = g.variable(uniform((5, 5, 8, 8), 0.1, 41))
    gamma, beta = g.variable(full((1, 1, 1, 8), 1)), g.variable(full((1, 1, 1, 8), 0))
    upscale2 = g.variable(uniform((5, 5, 1, 8), 0.1, 42))
    convolution = g.variable(uniform((5, 5, 1, 8), 0.2, 43))
    verdict = g.variable(uniform((14 * 14 * 8, 1), 0.05, 44))
    state = g.random_philox_state(2020)
    how = {"strides": 2, "padding": "TF_SAME"}

    x = g.reshape(g.matrix_multiplication(seeds, dense), (batch, 7, 7, 8))
    x = g.convolution_transpose2d(x, upscale1, (batch, 14, 14, 8), **how)
    mean = g.mean(x, (0, 1, 2))
    x = g.leaky_relu(g.normalization(x, mean, g.variance(x, mean, (0, 1, 2)), gamma, beta, 0.001), 0.2)
    fake = g.tanh(g.convolution_transpose2d(x, upscale2, (batch, 28, 28, 1), **how))

    def realness(images: mg.Tensor) -> mg.Tensor:
        x = g.leaky_relu(g.convolution2d(images, convolution, **how), 0.2)
        x = g.dropout(x, 0.3, state=state)[0]
        return g.sigmoid(g.matrix_multiplication(g.reshape(x, (batch, 14 * 14 * 8)), verdict))

    def cross_entropy(probability: mg.Tensor) -> mg.Tensor:
        return -g.mean(g.logarithm(g.maximum(probability, 1e-6)))

    real_chance, fooled = realness(real), realness(fake)
    detective = cross_entropy(real_chance) + cross_entropy(1 - fooled)
    artist = cross_entropy(fooled)
    updates = descent(g, detective, [convolution, verdict], 0.05)
    updates += descent(g, artist, [dense, upscale1, gamma, beta, upscale2], 0.05)
    found = []
    for step in range(3):
        feeds = {real: uniform((batch, 28, 28, 1), 1, 200 + step), seeds: uniform((batch, 10), 1, 300 + step)}
        losses = evaluate(g, feeds, [detective, artist], updates)
        found += rows(detective_loss=losses[0], artist_loss=losses[1])
    return found


# --- WWDC22 -----------------------------------------------------------------------------------------------------------
def synchronize_queues() -> Results:
    a, b = uniform((4, 4), 1, 1), uniform((4, 4), 1, 2)
    g, h = mg.Graph(), mg.Graph()
    x, y = g.placeholder((4, 4)), g.placeholder((4, 4))
    image = h.placeholder((4, 4))
    between = evaluate(g, {x: a, y: b}, [g.matrix_multiplication(x, y) + y])[0]
    return rows(post_processed=evaluate(h, {image: between}, [h.clamp(image, -0.5, 0.5)])[0])


def apply_lstm() -> Results:
    g = mg.Graph()
    x = g.placeholder((5, 2, 3))
    recurrent, weight = g.variable(uniform((16, 4), 0.5, 3)), g.variable(uniform((16, 3), 0.5, 4))
    h = g.lstm(x, recurrent, weight, training=True)[0]
    slope = g.gradients(g.reduction_sum(h), recurrent)[recurrent]
    out = evaluate(g, {x: uniform((5, 2, 3), 1, 5)}, [h, slope])
    return rows(lstm=out[0], lstm_slope=out[1])


def pool_with_indices() -> Results:
    g = mg.Graph()
    x = g.placeholder((1, 2, 6, 6))
    window = mg.Pooling4DDescriptor((1, 1, 3, 3), padding="TF_SAME")
    pooled, indices = g.max_pooling4d_return_indices(x, window)
    slope = g.max_pooling4d_gradient_from_indices(pooled, indices, g.shape_of(x), window)
    out = evaluate(g, {x: uniform((1, 2, 6, 6), 1, 6)}, [pooled, indices, slope])
    return rows(pooled=out[0], pooled_indices=out[1], pooled_slope=out[2])


def draw_random_numbers() -> Results:
    g = mg.Graph()
    numbers, state = g.random_truncated_normal(
        (3, 4), -1, 2.5, minimum=-6, maximum=4, state=g.random_philox_state(2022)
    )
    out = evaluate(g, {}, [numbers, state])
    return rows(random=out[0], random_state=out[1])


def count_bits() -> Results:
    g = mg.Graph()
    x, y = g.placeholder((3, 4), "uint32"), g.placeholder((1, 4), "uint32")
    feeds = {x: np.arange(12, dtype=np.uint32).reshape(3, 4), y: np.uint32([[0, 1, 2, 12]])}
    return rows(hamming=evaluate(g, feeds, [g.hamming_distance(x, y, "uint16")])[0])


def change_shapes() -> Results:
    g = mg.Graph()
    x = g.placeholder((4, 2))
    parts = g.split(g.squeeze(g.expand_dims(x, 1), 1), 2, 1)
    stacked = evaluate(g, {x: uniform((4, 2), 1, 7)}, [g.stack(parts, 0)])[0]
    return [*rows(stacked=stacked), ("range", [3, 7, 11, 15, 19, 23])]


# --- NSSpain ----------------------------------------------------------------------------------------------------------
class ResNet:
    """The network of examples/native/nsspain.cpp."""

    def __init__(self, g: mg.Graph, is_training: mg.Tensor) -> None:
        self.g, self.is_training, self.weights = g, is_training, []

    def glorot(self, shape: tuple[int, ...], fan_in: int, fan_out: int) -> mg.Tensor:
        limit = np.sqrt(np.float32(6) / np.float32(fan_in + fan_out))
        self.weights.append(self.g.variable(uniform(shape, limit, len(self.weights))))
        return self.weights[-1]

    def conv(self, x: mg.Tensor, filters: int, size: int, stride: int = 1, padding: str = "TF_SAME") -> mg.Tensor:
        channels = x.shape[3]
        weights = self.glorot((size, size, channels, filters), size * size * channels, size * size * filters)
        return self.g.convolution2d(x, weights, strides=stride, padding=padding)

    def norm(self, x: mg.Tensor) -> mg.Tensor:
        g, features, axes = self.g, x.shape[3], (0, 1, 2)
        beta, gamma = g.variable(full((features,), 0)), g.variable(full((features,), 1))
        self.weights += [beta, gamma]
        moving_mean = g.variable(full((1, 1, 1, features), 0))
        moving_variance = g.variable(full((1, 1, 1, features), 1))

        def training() -> mg.Tensor:
            mean = g.mean(x, axes)
            variance = g.variance(x, mean, axes)
            updates = [
                g.assign(moving_mean, moving_mean * 0.99 + mean * 0.01),
                g.assign(moving_variance, moving_variance * 0.99 + variance * 0.01),
            ]
            return g.control_dependency(updates, lambda: g.normalization(x, mean, variance, gamma, beta, 0.001))

        def inference() -> mg.Tensor:
            return g.normalization(x, moving_mean, moving_variance, gamma, beta, 0.001)

        return g.if_(self.is_training, training, inference)[0]

    def bottleneck(self, x: mg.Tensor, filters: int, stride: int) -> mg.Tensor:
        x = self.g.relu(self.norm(self.conv(x, filters, 1, stride, "TF_VALID")))
        x = self.g.relu(self.norm(self.conv(x, filters, 3)))
        return self.norm(self.conv(x, 4 * filters, 1, 1, "TF_VALID"))


def resnet(batch: int, width: int, steps: int) -> Results:
    g = mg.Graph()
    images, labels = g.placeholder((batch, 32, 32, 3)), g.placeholder((batch, 10))
    is_training = g.placeholder((1,), "bool")
    net = ResNet(g, is_training)
    x = g.relu(net.norm(net.conv(images, width, 7, 2)))
    x = g.max_pooling2d(x, 3, 2, padding="TF_SAME")
    for stage, blocks in enumerate((3, 4, 6, 3)):
        filters, stride = width << stage, 1 if stage == 0 else 2
        shortcut = x
        x = net.bottleneck(x, filters, stride)
        x = g.relu(x + net.norm(net.conv(shortcut, 4 * filters, 1, stride, "TF_VALID")))
        for _ in range(1, blocks):
            x = g.relu(net.bottleneck(x, filters, 1) + x)
    x = g.avg_pooling2d(x, 2, padding="TF_SAME")
    size = int(np.prod(x.shape[1:]))
    weights = net.glorot((size, 10), size, 10)
    bias = g.variable(full((10,), 0))
    net.weights.append(bias)
    x = g.matrix_multiplication(g.reshape(x, (batch, size)), weights) + bias
    output = g.softmax(x, -1)
    loss = g.softmax_cross_entropy(x, labels, -1, "sum") / float(batch)
    updates = descent(g, loss, net.weights, 0.01)
    one_hot, found = np.eye(10, dtype=np.float32)[np.arange(batch) % 10], []
    for step in range(steps):
        batch_images = uniform((batch, 32, 32, 3), 1, 1000 + step)
        feeds = {images: batch_images, is_training: np.array([True]), labels: one_hot}
        found += rows(loss=evaluate(g, feeds, [loss, output], updates)[0])
    feeds = {images: uniform((batch, 32, 32, 3), 1, 999), is_training: np.array([False])}
    return found + rows(inference=evaluate(g, feeds, [output])[0])


WWDC20 = [activate, write_text, train_digits, train_adversaries]
WWDC22 = [synchronize_queues, apply_lstm, pool_with_indices, draw_random_numbers, count_bits, change_shapes]


@pytest.mark.parametrize(("name", "programs"), [("wwdc20", WWDC20), ("wwdc22", WWDC22)])
def test_programs_of_wwdc_talks_match_python_bitwise(name: str, programs: list[Callable[[], Results]], tmp_path: Path):
    program = build(EXAMPLES / f"{name}.cpp", tmp_path / name, strict=STRICTER)
    assert printed(run(program)) == [row for part in programs for row in part()]


def test_resnet_of_nsspain_talk_matches_python_bitwise(tmp_path: Path):
    """A ResNet-50 with 4 instead of 64 channels and a batch of 4."""
    program = build(EXAMPLES / "nsspain.cpp", tmp_path / "nsspain", strict=STRICTER)
    found = printed(run(program, 4, 4, 2))
    assert [name for name, _ in found] == ["loss", "loss", "inference"]
    assert found == resnet(4, 4, 2)
