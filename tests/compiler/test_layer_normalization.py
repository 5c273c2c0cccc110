"""Test the fusion of layer normalization: every form must match the unfused operations in float64.

The unfused operations in float64 are the reference for every dtype. The last test repeats this file with smaller
instruction sets.
"""

import re
from collections import Counter

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from harness.device import has
from harness.instructions import SMALLER_SETS, run_again_with
from harness.running import REFERENCE

COMPOSITES = mg.CompilationDescriptor(disabled_passes=("normalize",))
SIZES = {
    "tokens": ((3, 70, 48), 1), "rows": ((130, 37), 1), "short": ((9, 3), 1), "one_row": ((1, 600), 1),
    "one_element": ((5, 1), 1), "long": ((6, 5000), 1), "planes": ((5, 6, 1, 7), 3), "ones_in_front": ((1, 11, 20), 1),
}  # fmt: skip
"""A shape and the number of its last axes that are normalized."""


class Network:
    """A graph whose variables get random values representable in bfloat16, in creation order, so that all dtypes get
    the same values.
    """

    def __init__(self, g, dtype, shape, axes, half=None):
        self.g, self.dtype, self.shape, self.half = g, dtype, shape, half
        self.axes = list(range(len(shape) - axes, len(shape)))
        self.rng, self.wanted = np.random.default_rng(3), []

    def value(self, shape, mean=0.0):
        numbers = (self.rng.standard_normal(shape) + mean).astype(ml_dtypes.bfloat16)
        self.wanted.append(self.g.variable(numbers.astype(self.dtype)))
        return self.g.read(self.wanted[-1])

    def source(self):
        x = self.value(self.shape)
        return self.g.cast(x, self.half) if self.half else x

    def norm(self, x, gamma=True, beta=True, epsilon=1e-3, given=True):
        own = [self.shape[axis] for axis in self.axes]
        mean = self.g.mean(x, self.axes)
        variance = self.g.variance(x, mean, self.axes) if given else self.g.variance(x, axes=self.axes)
        parameters = [self.value(own, 1.0) if gamma else None, self.value(own) if beta else None]
        parameters = [self.g.cast(p, x.dtype) if p is not None and self.half else p for p in parameters]
        return self.g.normalization(x, mean, variance, *parameters, epsilon)


def plain(n):
    return n.norm(n.source())


def own_mean(n):
    return n.norm(n.source(), given=False)


def bare(n):
    return n.norm(n.source(), gamma=False, beta=False)


def without_beta(n):
    return n.norm(n.source(), beta=False)


def without_gamma(n):
    return n.norm(n.source(), gamma=False)


def before_a_sum(n):
    """A transformer block, in which the residual's gradient is available before that of the normalization."""
    x = n.source()
    return x + n.g.sin(n.norm(x))


def beside_another(n):
    """A normalization next to a branch whose gradient is computed later and added separately."""
    x = n.source()
    return n.g.sin(x) + n.norm(x)


def two_of_one(n):
    x = n.source()
    return n.norm(x) * n.norm(x, epsilon=0.1)


def one_behind_the_other(n):
    return n.norm(n.norm(n.source()) + n.source())


def statistics_used(n):
    x, axes = n.source(), n.axes
    mean = n.g.mean(x, axes)
    early = mean * 2.0
    variance = n.g.variance(x, mean, axes)
    return n.g.normalization(x, mean, variance) + early + n.g.square(variance)


def in_a_branch(n):
    x = n.source()
    training = n.g.read(n.g.variable(np.array(True)))
    return n.g.if_(training, lambda: n.norm(x), lambda: n.g.tanh(x))[0] + x


FORMS = [plain, own_mean, bare, without_beta, without_gamma, before_a_sum, beside_another, two_of_one,
         one_behind_the_other, statistics_used, in_a_branch]  # fmt: skip


def computed(form, dtype, size, options=None, half=None):
    """Return the result and all gradients for a random incoming gradient."""
    shape, axes = SIZES[size]
    g = mg.Graph()
    network = Network(g, dtype, shape, axes, half)
    y = form(network)
    wanted = list(network.wanted)
    start = g.cast(network.value(shape), y.dtype)
    results = [g.cast(t, dtype) for t in (y, *g.gradients(y, wanted, start=start).values())]
    device = None if has(np.dtype(dtype).name) else "cpu"
    return [r.numpy() for r in g.compile({}, results, device=device, options=options).run([])]


def check(found, wanted, tolerance):
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max()), err_msg=f"{i}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_of_layer_normalization_is_fused(form, dtype):
    seen = {}
    computed(form, dtype, "tokens", mg.CompilationDescriptor(observe=seen.__setitem__))
    assert not re.search(r"= normalization(_gradient|_gamma_gradient)?\(", seen["normalize"])
    found = Counter(re.findall(r"= fused_layer_(\w+)\(", seen["normalize"]))
    count = 1 + (form in (two_of_one, one_behind_the_other))
    assert found == {"normalization": count, "normalization_gradient": count}


@pytest.mark.both_devices
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_fused_layer_normalization_matches_float64_reference(form, size):
    wanted = computed(form, np.float64, size, COMPOSITES)
    for options in (None, REFERENCE, COMPOSITES):
        check(computed(form, np.float32, size, options), wanted, 5e-5 if size == "long" else 2e-5)
    for options in (None, REFERENCE):
        check(computed(form, np.float64, size, options), wanted, 1e-13)


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("form", [plain, bare, before_a_sum], ids=lambda form: form.__name__)
def test_half_precision_layer_normalization_matches_float64_reference(form, half):
    """Data are stored in half precision but computed in float32: within one or two roundings of float64."""
    seen = {}
    options = mg.CompilationDescriptor(observe=seen.__setitem__)
    found, wanted = (
        computed(form, np.float32, "tokens", options, half),
        computed(form, np.float64, "tokens", COMPOSITES),
    )
    assert re.search(rf"fused_layer_normalization_gradient\(.*: {half}\[", seen["normalize"])
    check(found, wanted, 0.03 if half == "bfloat16" else 0.004)


def test_layer_norm_gradient_kernel_absorbs_residual_and_sums():
    seen = {}
    computed(before_a_sum, np.float32, "tokens", mg.CompilationDescriptor(observe=seen.__setitem__))
    gradient = next(line for line in seen["normalize"].splitlines() if "fused_layer_normalization_gradient" in line)
    assert "has_residual" in gradient and "has_sums" in gradient


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_normalization_of_half_precision_cast_to_float64_uses_float64(half):
    x = np.random.default_rng(4).standard_normal((7, 40)).astype(half)
    g = mg.Graph()
    p = g.placeholder(x.shape, half)
    wide = g.cast(p, "float64")
    y = g.normalization(wide, g.mean(wide, -1), g.variance(wide, axes=-1), epsilon=0.0)
    exact = x.astype(np.float64)
    expected = (exact - exact.mean(1, keepdims=True)) / exact.std(1, keepdims=True)
    np.testing.assert_allclose(g.run({p: x}, y).numpy(), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mean", [1e3, -3e4])
def test_large_mean_does_not_degrade_layer_norm_variance(mean):
    x = (np.random.default_rng(1).standard_normal((20, 1000)) + mean).astype(np.float32)
    g = mg.Graph()
    p = g.placeholder(x.shape)
    m = g.mean(p, -1)
    v = g.variance(p, m, -1)
    found = g.run({p: x}, [m, v, g.normalization(p, m, v, epsilon=0.0)])
    exact = x.astype(np.float64)
    np.testing.assert_allclose(found[v].numpy()[:, 0], exact.var(1), rtol=1e-4)
    np.testing.assert_allclose(found[m].numpy()[:, 0], exact.mean(1), rtol=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("place", [0, 21])
def test_non_finite_element_affects_only_its_row(bad, place):
    """The row and its gradients become NaN, or match the unfused operations after an overflow. Other rows do not
    change.
    """
    x = np.random.default_rng(2).standard_normal((7, 22)).astype(np.float32)
    x[3, place] = bad
    g = mg.Graph()
    p, start = g.placeholder(x.shape), g.placeholder(x.shape)
    y = g.normalization(p, g.mean(p, -1), g.variance(p, axes=-1))
    targets = [y, g.gradients(y, [p], start=start)[p]]
    feeds = [x, np.ones_like(x) + x[::-1]]
    one, other = (g.compile({p: x.shape, start: x.shape}, targets, options=o).run(feeds) for o in (None, COMPOSITES))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5)
        assert np.isfinite(np.delete(a.numpy(), 3, 0)).all()


@pytest.mark.parametrize("shape", [(0, 8), (4, 0), (0, 3, 5)])
def test_layer_normalization_of_empty_tensor_keeps_its_shape(shape):
    g = mg.Graph()
    p = g.placeholder(shape)
    y = g.normalization(p, g.mean(p, -1), g.variance(p, axes=-1))
    assert g.run({p: np.zeros(shape, np.float32)}, y).shape == shape


def test_results_do_not_depend_on_thread_count():
    before = mg.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            mg.set_num_threads(threads)
            found.append(computed(before_a_sum, np.float32, "tokens"))
    finally:
        mg.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("instructions", SMALLER_SETS)
def test_tests_of_this_file_pass_with_smaller_instruction_sets(instructions):
    run_again_with(instructions, __file__)
