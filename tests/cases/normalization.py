"""Cases of the normalization family: moments, normalization with and without scale and shift, and its gradients."""

import numpy as np
from harness.case import ANALYTIC, Case, values

X = values(3, 2, 4, seed=70)
G = values(3, 2, 4, seed=71)
MEAN, VARIANCE = values(1, 2, 4, seed=72), values(1, 2, 4, seed=73, low=0.4, high=2.0)
GAMMA, BETA = values(4, seed=74, low=0.5, high=2.0), values(4, seed=75)
AXES = {"all": None, "first": 0, "last": -1, "outer": (0, 2), "inner": (1, 2)}


def reduced(axes):
    return tuple(axes) if isinstance(axes, (list, tuple)) else axes


def mean(x, axes=None):
    return x.mean(reduced(axes), keepdims=True)


def variance(x, given=None, axes=None):
    return mean(np.square(x - (mean(x, axes) if given is None else given)), axes)


def normalization(x, m, v, gamma=1.0, beta=0.0, epsilon=1e-5):
    return (x - m) / np.sqrt(v + epsilon) * gamma + beta


def gamma_gradient(g, x, m, v, axes=None, epsilon=1e-5):
    return (g * normalization(x, m, v, epsilon=epsilon)).sum(reduced(axes), keepdims=True)


def beta_gradient(g, x, axes=None):
    return g.sum(reduced(axes), keepdims=True) + 0 * mean(x, axes)


def normalization_gradient(g, x, m, v, gamma=1.0, axes=None, epsilon=1e-5):
    n, h = normalization(x, m, v, epsilon=epsilon), g * gamma
    return (h - mean(h, axes) - n * mean(h * n, axes)) / np.sqrt(v + epsilon)


def with_sums(g, x, m, v, gamma, d_gamma, d_beta, axes=0, epsilon=1e-5):
    n, count = normalization(x, m, v, epsilon=epsilon), x.shape[0]
    return gamma / np.sqrt(v + epsilon) * (g - d_beta / count - n * d_gamma / count)


def beta_only(graph, x, m, v, beta, **attributes):
    return graph.normalization(x, m, v, None, beta, **attributes)


def gradient_with_sums(graph, g, x, m, v, d_gamma, d_beta, **attributes):
    return graph.normalization_gradient(g, x, m, v, None, d_gamma, d_beta, **attributes)


STATISTICS = [X, MEAN, VARIANCE]
CASES = [
    Case("normalization", STATISTICS, normalization, batch=(0,), tolerance=4),
    Case(
        "normalization", [*STATISTICS, GAMMA], normalization, {"epsilon": 0.1}, label="gamma", batch=(0,), tolerance=4,
    ),
    Case(
        "normalization", [*STATISTICS, BETA], lambda x, m, v, b: normalization(x, m, v, beta=b), build=beta_only,
        label="beta", batch=(0,), tolerance=4,
    ),
    Case("normalization", [*STATISTICS, GAMMA, BETA], normalization, label="both", batch=(0,), tolerance=4),
    Case("variance", [X, MEAN], variance, {"axes": 0}, label="given_mean", batch=(0,), tolerance=4),
    Case(
        "normalization_gradient",
        [G, *STATISTICS, GAMMA.reshape(1, 1, 4), values(1, 2, 4, seed=76), values(1, 2, 4, seed=77)],
        with_sums, {"axes": 0}, label="with_sums", batch=(0, 1), tolerance=4,
    ),
    Case(
        "normalization_gradient", [G, *STATISTICS, values(1, 2, 4, seed=76), values(1, 2, 4, seed=77)],
        lambda g, x, m, v, d_gamma, d_beta, axes: with_sums(g, x, m, v, 1.0, d_gamma, d_beta, axes), {"axes": 0},
        build=gradient_with_sums, label="with_sums_of_ones", batch=(0, 1), tolerance=4,
    ),
    Case("variance", [X, MEAN[:, :1]], variance, {"axes": 0}, label="shared_mean", batch=(0,), tolerance=4),
]  # fmt: skip
for label, axes in AXES.items():
    along = {"attributes": {"axes": axes}, "label": label, "tolerance": 4}
    rows = (0,) if label in ("last", "inner") else ()
    m, v = mean(X, axes), variance(X, axes=axes) + 0.2
    shared = rows if np.shape(m)[0] == 1 else (0, 1)
    CASES += [
        Case("mean", [X], mean, batch=rows, dtypes=ANALYTIC, **along),
        Case("variance", [X], lambda x, axes: variance(x, axes=axes), batch=rows, **along),
        Case("normalization_beta_gradient", [G, X], beta_gradient, batch=(), **along),
        Case("normalization_gamma_gradient", [G, X, m, v], gamma_gradient, batch=(), **along),
        Case("normalization_gradient", [G, X, m, v], normalization_gradient, batch=(), **along),
        Case(
            "normalization_gradient", [G, X, m, v, GAMMA], normalization_gradient, batch=(),
            **along | {"label": f"{label}_gamma"},
        ),
    ]  # fmt: skip
CASES += [
    Case("mean", [values(70, 300, seed=78)], mean, {"axes": 0}, label="long", batch=(0,), gradient=False),
    Case(
        "variance", [values(70, 300, seed=79)], lambda x, axes: variance(x, axes=axes), {"axes": 1}, label="long",
        batch=(0,), gradient=False, tolerance=4,
    ),
]  # fmt: skip
