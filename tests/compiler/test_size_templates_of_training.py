"""Training steps and networks for new sizes have the bits of complete compilations, whatever sizes came before."""

import importlib
import os
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

BENCH = Path(__file__).resolve().parents[2] / "bench"
CHANNELS = 3
LOSSES = ("cross_entropy", "mse", "binary_cross_entropy_with_logits", "huber")


def compiled_completely(run):
    """Run a function. Return its result, and whether the compiler's passes ran."""
    with mg.profiler.profile() as p:
        result = run()
    return result, any(r.name == "simplify" and r.category == "pass" for r in p.records)


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


def random_network(seed, outputs, flattens):
    """Build a network of random convolutions, normalizations, activations, and poolings."""
    rng = np.random.default_rng(seed)

    def pick(*values):
        return values[rng.integers(len(values))]

    def convolution(channels):
        kernel, strides = pick((1, 1), (3, 1), (3, 2), (5, 1))
        how = {"strides": strides, "padding": "TF_SAME", "bias": bool(rng.integers(2))}
        return nn.Conv2d(channels, kernel, groups=pick(1, 1, 4) if layers else 1, **how)

    def shaped(channels):
        return [
            [nn.BatchNorm(), nn.ReLU()],
            [nn.ReLU()],
            [nn.BatchNorm()],
            [Residual(nn.DepthwiseConv2d(3, padding="TF_SAME"), nn.BatchNorm(), nn.ReLU6())],
            [Residual(nn.Conv2d(channels, 3, padding="TF_SAME", bias=False), nn.GroupNorm(4))],
            [nn.MaxPool2d(2, padding="TF_SAME")],
            [nn.MaxPool2d(3, strides=2, padding="TF_SAME")],
            [nn.AvgPool2d(2, padding="TF_SAME")],
            [nn.GELU()],
        ]

    layers = []
    for _ in range(3):
        channels = pick(8, 16, 24)
        layers.append(convolution(channels))
        for _ in range(2):
            layers += pick(*shaped(channels))
    ending = nn.Flatten() if flattens else nn.GlobalAveragePooling2d()
    return nn.Sequential(*layers, ending, nn.Linear(outputs))


def trainer(seed, loss):
    optimizer = (mg.optim.SGD(0.05, momentum=0.9), mg.optim.Adam(1e-2))[seed % 2]
    network = random_network(seed, 10, flattens=seed % 3 == 0)
    return mg.Trainer(network, loss=loss, optimizer=optimizer, metrics=(), seed=3)


def labels(rng, loss, batch):
    if loss == "cross_entropy":
        return rng.integers(10, size=batch, dtype=np.int32)
    return rng.uniform(size=(batch, 10)).astype(np.float32)


def assert_same_weights(one, other):
    for name, weight in one.weights().items():
        np.testing.assert_array_equal(weight, other.weights()[name], err_msg=name)


@pytest.mark.parametrize("seed", range(12))
def test_training_steps_of_random_image_networks_equal_complete_compilations_to_the_bit(seed):
    """Batches include the numbers of channels, the size of the images, and powers of 2."""
    rng, loss = np.random.default_rng(seed), LOSSES[seed % len(LOSSES)]
    one, other = trainer(seed, loss), trainer(seed, loss)
    complete = []
    for batch in (36, 5, 13, 8, 24, 16, 31, 20, 41, 38, 33, 37, 39, 35):
        x, y = rng.standard_normal((batch, 20, 20, CHANNELS), np.float32), labels(rng, loss, batch)
        found, passes = compiled_completely(lambda x=x, y=y: float(one.train_step(x, y)))
        complete.append(passes)
        other.graph.clear_cache()
        assert found == float(other.train_step(x, y)), batch
    assert_same_weights(one, other)
    assert complete.count(False) >= 3, complete


def inference(seed):
    """Return a graph, its input, and its output, for images of any size."""
    g, network = mg.Graph(seed=7), random_network(seed, 10, flattens=False)
    x = g.placeholder((-1, -1, -1, CHANNELS), name="x")
    return g, x, network.eval()(x)


@pytest.mark.parametrize("seed", range(12))
def test_random_image_networks_for_new_image_sizes_equal_fresh_ones_to_the_bit(seed):
    rng, complete = np.random.default_rng(seed), []
    (g, x, y), (other, other_x, other_y) = inference(seed), inference(seed)
    of_one_batch = [(2, size) for size in (64, 40, 56, 44, 53, 60, 48, 52, 47, 61)]
    for batch, size in (*of_one_batch, (13, 60), (4, 60), (9, 60), (6, 60), (11, 60)):
        fed = rng.standard_normal((batch, size, size, CHANNELS), np.float32)
        found, passes = compiled_completely(lambda fed=fed: g.run({x: fed}, y).numpy())
        complete.append(passes)
        other.clear_cache()
        np.testing.assert_array_equal(found, other.run({other_x: fed}, other_y).numpy(), f"{batch} images of {size}")
    assert complete.count(False) >= 3, complete


def test_power_of_two_batches_do_not_decide_how_other_batches_divide():
    """The compiler multiplies by the reciprocal of a power of 2, and divides by any other number."""
    g = mg.Graph()
    x = g.placeholder((-1, 7))
    y = g.mean(g.tanh(x), 0)
    rng = np.random.default_rng(0)
    for rows in (32, 64, 49, 128, 57, 100, 64, 61):
        fed = rng.standard_normal((rows, 7), np.float32)
        other = mg.Graph()
        fresh = other.placeholder((-1, 7))
        expected = other.run({fresh: fed}, other.mean(other.tanh(fresh), 0)).numpy()
        np.testing.assert_array_equal(g.run({x: fed}, y).numpy(), expected, str(rows))


@pytest.mark.parametrize("sizes", [(80, 40, 60, 30, 50), (40, 60, 30, 80, 50)])
def test_training_with_two_changing_dimensions_does_not_depend_on_earlier_sizes(sizes):
    """The batch and the length change independently of each other."""
    rng = np.random.default_rng(0)

    def made():
        model = nn.Sequential(nn.Embedding(50, 16), nn.GRU(24), nn.LayerNorm(), nn.Linear(50))
        return mg.Trainer(model, loss="cross_entropy", optimizer="sgd", metrics=(), seed=3)

    one, other = made(), made()
    for i, length in enumerate(sizes):
        x, y = rng.integers(50, size=(2, (6, 9, 7)[i % 3], length), dtype=np.int32)
        other.graph.clear_cache()
        assert float(one.train_step(x, y)) == float(other.train_step(x, y)), (x.shape, sizes)
    assert_same_weights(one, other)


# ---- the networks of the benchmarks


def classifier(module, *image):
    def made(rng):
        trainer = benchmark(module).training(seed=3)
        classes = 6 if module == "w3_conv_lstm" else 10

        def batch(size):
            return rng.standard_normal((size, *image), np.float32), rng.integers(classes, size=size, dtype=np.int32)

        return trainer, batch

    return made


def residual_network(rng):
    network = benchmark("w2_resnet50").network()
    trainer = mg.Trainer(network, loss="cross_entropy", optimizer=mg.optim.SGD(0.01), metrics=(), seed=3)
    return trainer, lambda n: (
        rng.standard_normal((n, 32, 32, 3), np.float32),
        rng.integers(10, size=n, dtype=np.int32),
    )


def language_model(shape):
    def made(rng):
        trainer = benchmark("w12_language_model").training("characters", seed=3)
        return trainer, lambda size: rng.integers(96, size=(2, *shape(size)), dtype=np.int32)

    return made


def benchmark(name):
    """Import a module of bench/. Benchmarks set the number of threads, which must not affect other tests."""
    environment = dict(os.environ)
    sys.path.insert(0, str(BENCH))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCH))
        os.environ.clear()
        os.environ.update(environment)


NETWORKS = {
    "W1": classifier("w1_digits", 28, 28, 1),
    "W2": residual_network,
    "W3": classifier("w3_conv_lstm", 2000, 6),
    "W6": classifier("w6_mlp", 784),
    "W12 batch": language_model(lambda size: (size, 20)),
    "W12 length": language_model(lambda size: (8, 20 + size)),
}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(40, 18, 32, 20, 28, 37), (28, 18, 37, 20, 40, 32)])
@pytest.mark.parametrize("name", NETWORKS)
def test_training_of_benchmark_networks_does_not_depend_on_earlier_sizes(name, sizes):
    rng = np.random.default_rng(0)
    (one, batch), (other, _) = NETWORKS[name](rng), NETWORKS[name](rng)
    complete = []
    for size in sizes:
        x, y = batch(size)
        found, passes = compiled_completely(lambda x=x, y=y: float(one.train_step(x, y)))
        complete.append(passes)
        other.graph.clear_cache()
        assert found == float(other.train_step(x, y)), size
    assert_same_weights(one, other)
    assert not all(complete), complete
