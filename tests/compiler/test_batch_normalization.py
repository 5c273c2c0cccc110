"""Test the fusion of batch normalization: every form must match the unfused operations in float64.

The pass does not fuse float64, so the same graph in float64 serves as the reference.
"""

import re
from collections import Counter

import mpsgraph as mg
import numpy as np
import pytest
from harness.batch_normalizations import FORMS, SIZES, both_sides, computed, moments, shared_moments, twice_used
from harness.running import REFERENCE

LATE = ("nothing", "gamma", "moments", "computed moments")
COMPOSITES = mg.CompilationDescriptor(disabled_passes=("normalize",))


def check(found, wanted, tolerance=2e-5):
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max()), err_msg=f"{i}")


def normalized_kinds(form):
    """Return the fused operations that the pass creates for a form and its gradients, including those in branches."""
    seen = {}
    computed(form, np.float32, (4, 5, 3, 24), 3, mg.CompilationDescriptor(observe=seen.__setitem__))
    assert "= normalization" not in seen["normalize"]
    return Counter(re.findall(r"= fused_batch_(\w+)\(", seen["normalize"]))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_of_batch_normalization_is_fused(form):
    found, twice = normalized_kinds(form), form in (both_sides, twice_used, shared_moments)
    moments_of = 1 if form is shared_moments else 1 + twice
    assert found == {
        "moments": moments_of, "normalization": 1 + twice, "normalization_sums": 1 + twice,
        "normalization_gradient": 1 + twice,
    }  # fmt: skip


@pytest.mark.both_devices
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_fused_batch_normalization_matches_float64_reference(form, size):
    wanted = computed(form, np.float64, *SIZES[size])
    for options in (None, REFERENCE, COMPOSITES):
        check(computed(form, np.float32, *SIZES[size], options), wanted)


@pytest.mark.parametrize("mean", [1e3, -3e4])
def test_large_mean_does_not_degrade_variance_accuracy(mean):
    """When the mean is thousands of standard deviations from zero, the variance must not suffer from cancellation."""
    shape = (3000, 17)
    x = (np.random.default_rng(1).standard_normal(shape) + mean).astype(np.float32)
    g = mg.Graph()
    p = g.placeholder(shape)
    m, v = moments(g, p, 1)
    executable = g.compile({p: shape}, [m, v, g.normalization(p, m, v)])
    assert any("moments" in name for name in kinds(g, {p: shape}, [m, v, g.normalization(p, m, v)]))
    found = [r.numpy() for r in executable.run([x])]
    exact = x.astype(np.float64)
    np.testing.assert_allclose(found[0][0], exact.mean(0), rtol=1e-7)
    np.testing.assert_allclose(found[1][0], exact.var(0), rtol=2e-6)


def test_outliers_in_first_rows_do_not_degrade_variance_accuracy():
    """Before squaring, the kernel subtracts a mean of the first rows. Here those rows are far from all others."""
    x = np.random.default_rng(2).standard_normal((4096, 16)).astype(np.float32)
    x[:16] += 1e4
    found, exact = batch_variance(x), x.astype(np.float64).var(0)
    np.testing.assert_allclose(found, exact, rtol=1e-4)


def batch_variance(x):
    g = mg.Graph()
    p = g.placeholder(x.shape)
    m, v = moments(g, p, x.ndim - 1)
    return g.run({p: x}, [v, g.normalization(p, m, v)])[v].numpy().ravel()


def test_inf_and_nan_inputs_propagate_to_all_results():
    x = np.ones((40, 16), np.float32)
    x[3, 1], x[5, 2] = np.inf, np.nan
    variance = batch_variance(x)
    assert np.isnan(variance[1:3]).all() and (np.delete(variance, [1, 2]) == 0).all()


def kinds(g, feeds, targets, operations=()):
    seen = {}
    g.compile(feeds, targets, operations, options=mg.CompilationDescriptor(observe=seen.__setitem__))
    return [line.split("= ")[1].split("(")[0] for line in seen["normalize"].splitlines() if "= fused_" in line]


def test_two_normalizations_with_residual_compile_to_fused_kernels():
    """Two normalizations with a ReLU in between and a residual at the end compile to one kernel each for moments,
    normalization, sums, and gradient.
    """
    g = mg.Graph()
    x = g.placeholder((4, 6, 6, 8), name="x")
    first, second = mg.nn.BatchNorm(), mg.nn.BatchNorm()
    y = g.relu(second(g.relu(first(x)) * 2.0) + x)
    gradients = g.gradients(g.reduction_sum(y * y), [x, *first.parameters(), *second.parameters()])
    found = kinds(g, {x: (4, 6, 6, 8)}, [y, *gradients.values()])
    assert sorted(found) == sorted(
        2 * ["fused_batch_moments", "fused_batch_normalization", "fused_batch_normalization_sums",
             "fused_batch_normalization_gradient"]
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(7, 1, 1, 8), (1, 5, 1, 8)])
def test_gradients_of_full_rank_parameters_reduce_over_unit_axes(shape):
    """With gamma of shape (1, 1, 1, 8), as in an Apple talk, its gradient must be reduced over the axes of the moments,
    even where the input has a size of 1.
    """
    g = mg.Graph()
    x, start = g.placeholder(shape), g.placeholder(shape)
    gamma, beta = (g.variable(np.full((1, 1, 1, 8), value, np.float32)) for value in (1.5, 0.5))
    m = g.mean(x, (0, 1, 2))
    y = g.relu(g.normalization(x, m, g.variance(x, m, (0, 1, 2)), gamma, beta))
    gradients = g.gradients(y, [x, gamma, beta], start=start)
    found = kinds(g, {x: shape, start: shape}, list(gradients.values()))
    assert "fused_batch_normalization_sums" in found and "fused_batch_normalization_gradient" in found
    rng = np.random.default_rng(4)
    feeds = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    executables = [
        g.compile({x: shape, start: shape}, list(gradients.values()), options=options) for options in (None, COMPOSITES)
    ]
    check(*([r.numpy() for r in executable.run(feeds)] for executable in executables))


def test_gradient_with_respect_to_mean_is_computed_in_float64():
    """The gradient of the mean must be available and, for float64 feeds, computed in float64."""
    g = mg.Graph()
    x = g.placeholder((5, 3), mg.float64)
    m, v = moments(g, x, 1)
    y = g.normalization(x, m, v, epsilon=0.0)
    for_mean, for_x = g.gradients(g.reduction_sum(y * y), [m, x]).values()
    numbers = np.random.default_rng(3).standard_normal((5, 3))
    found = g.run({x: numbers}, [for_mean, for_x])
    normalized = (numbers - numbers.mean(0)) / numbers.std(0)
    np.testing.assert_allclose(found[for_mean].numpy()[0], (-2 * normalized / numbers.std(0)).sum(0), atol=1e-12)
    # the sum of the squared normalized values is constant
    np.testing.assert_allclose(found[for_x].numpy(), np.zeros((5, 3)), atol=1e-12)


def test_results_are_bitwise_reproducible():
    first, second = (computed(twice_used, np.float32, (64, 8, 8, 32), 3) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    "first, late",
    [*(("gamma", x) for x in LATE[:2]), *(("beta", x) for x in LATE)],  # the gradient of gamma uses the moments
)
def test_fused_gradient_sums_with_late_transposed_operand_are_correct(first: str, late: str):
    """Both gradient sums are fused at the position of the first one. An operand of the second sum that is transposed
    later must be moved before this position, or the sums must stay separate.
    """
    rng = np.random.default_rng(0)
    g = mg.Graph()
    x, incoming = (g.placeholder((4, 6, 6, 5)) for _ in range(2))
    gamma = g.variable(np.linspace(0.5, 2, 5, dtype=np.float32).reshape(1, 5, 1, 1))
    planes = g.transpose(x, [0, 3, 1, 2])
    mean = g.mean(planes, [0, 2, 3])
    variance = g.variance(planes, mean, axes=[0, 2, 3])
    turned = {"gamma": gamma, "mean": mean, "variance": variance}
    after = {"nothing": (), "gamma": ("gamma",)}.get(late, ("mean", "variance"))

    def turn(names) -> None:
        for name in names:
            again = turned[name] * 1.0 if late == "computed moments" else turned[name]
            turned[name] = g.transpose(again, [0, 2, 3, 1])

    def sum_of(what: str) -> mg.Tensor:
        if what == "beta":
            return g.normalization_beta_gradient(incoming, x, [0, 1, 2])
        return g.normalization_gamma_gradient(incoming, x, turned["mean"], turned["variance"], [0, 1, 2])

    turn(name for name in turned if name not in after)
    sums = {first: sum_of(first)}
    turn(after)
    sums |= {what: sum_of(what) for what in ("gamma", "beta") if what != first}
    dx = g.normalization_gradient(
        incoming, x, turned["mean"], turned["variance"], turned["gamma"], sums["gamma"], sums["beta"], [0, 1, 2]
    )
    fed = [rng.standard_normal(x.shape).astype(np.float32) for _ in range(2)]
    results = []
    for off in ([], ["normalize"]):
        options = mg.CompilationDescriptor(disabled_passes=off)
        made = g.compile({x: x.shape, incoming: x.shape}, [dx, sums["gamma"], sums["beta"]], options=options)
        results.append([r.numpy().copy() for r in made.run(fed)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=np.abs(theirs).max() * 3e-6)
