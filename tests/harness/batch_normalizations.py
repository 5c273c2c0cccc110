"""Small graphs with a batch normalization that the normalize pass combines or must leave unchanged."""

import ml_dtypes
import mpsgraph as mg
import numpy as np

from .device import has

SIZES = {
    "images": ((4, 5, 3, 24), 3), "many_rows": ((2000, 20), 1), "few_rows": ((3, 130), 1), "one_row": ((1, 5), 1),
    "planes": ((3, 6, 5, 7), 1), "volumes": ((2, 3, 2, 3, 17), 4),
}  # fmt: skip


def moments(g, x, axis):
    axes = [i for i in range(len(x.shape)) if i != axis]
    mean = g.mean(x, axes)
    return mean, g.variance(x, mean, axes)


class Network:
    """Creates the variables of a form in the order in which they are requested, with the same values for all dtypes.

    All values are representable in bfloat16. With low=True the data is bfloat16 in the graph and the variables are
    float32.
    """

    def __init__(self, g, dtype, shape, axis, mean=0.0, low=False):
        self.g, self.dtype, self.shape, self.axis, self.mean, self.low = g, dtype, shape, axis, mean, low
        self.rng, self.wanted = np.random.default_rng(7), []

    def value(self, shape, scale=1.0, mean=0.0):
        numbers = (self.rng.standard_normal(shape) * scale + mean).astype(ml_dtypes.bfloat16)
        self.wanted.append(self.g.variable(numbers.astype(self.dtype)))
        return self.wanted[-1]

    def source(self):
        # Read only once, because each use of a variable is a separate read.
        x = self.g.read(self.value(self.shape, mean=self.mean))
        return self.g.cast(x, "bfloat16") if self.low else x

    def norm(self, x, gamma=True, beta=True, epsilon=1e-3):
        channels = [self.shape[self.axis]] + [1] * (len(self.shape) - 1 - self.axis)
        parameters = [self.value(channels, 0.5, 1.0) if gamma else None, self.value(channels) if beta else None]
        return self.g.normalization(x, *moments(self.g, x, self.axis), *parameters, epsilon)


def plain(n):
    return n.norm(n.source())


def bare(n):
    return n.norm(n.source(), gamma=False, beta=False)


def relu(n):
    return n.g.relu(n.norm(n.source()))


def relu_without_beta(n):
    return n.g.relu(n.norm(n.source(), beta=False))


def residual(n):
    return n.g.relu(n.source() + n.norm(n.source()))


def sum_only(n):
    return n.norm(n.source()) + n.source()


def two_sums(n):
    return n.g.relu(n.norm(n.source()) + n.source() + n.source())


def both_sides(n):
    return n.g.relu(n.norm(n.source()) + n.norm(n.source(), beta=False))


def twice_used(n):
    """The result of the ReLU has two uses, so its gradient is a sum."""
    y = n.g.relu(n.norm(n.source()) + n.source())
    return n.g.sin(y) + n.norm(y)


def result_used(n):
    """The result of the normalization is needed itself, so the ReLU cannot be fused into it."""
    y = n.norm(n.source())
    return n.g.relu(y) * y


def moments_used(n):
    x = n.source()
    mean, variance = moments(n.g, x, n.axis)
    return n.g.relu(n.g.normalization(x, mean, variance)) + mean * 2.0 + n.g.square(variance)


def shared_moments(n):
    x = n.source()
    mean, variance = moments(n.g, x, n.axis)
    return n.g.relu(n.g.normalization(x, mean, variance)) * n.g.normalization(x, mean, variance, epsilon=0.1)


def in_a_branch(n):
    x, g = n.source(), n.g
    training = g.variable(np.array(True))

    def by_batch():
        return n.g.relu(n.norm(x))

    return g.if_(g.read(training), by_batch, lambda: g.tanh(x))[0] + n.source()


FORMS = [plain, bare, relu, relu_without_beta, residual, sum_only, two_sums, both_sides, twice_used, result_used,
         moments_used, shared_moments, in_a_branch]  # fmt: skip


def computed(form, dtype, shape, axis, options=None, mean=0.0, low=False):
    """Return the result and all gradients for a random incoming gradient.

    With low=True the graph is built under autocast to bfloat16.
    """
    g = mg.Graph()
    network = Network(g, dtype, shape, axis, mean, low)
    with mg.autocast("bfloat16", enabled=low):
        y = form(network)
    start = g.cast(g.read(network.value(shape)), y.dtype)
    gradients = g.gradients(y, network.wanted[:-1], start=start).values()
    results = [g.cast(t, "float32") if low else t for t in (y, *gradients)]
    device = None if has(np.dtype(dtype).name) else "cpu"
    return [r.numpy() for r in g.compile({}, results, device=device, options=options).run([])]
