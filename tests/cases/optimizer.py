"""Cases of the optimizer family: one step of each optimizer, with the learning rate as a rank-0 tensor."""

import numpy as np
from harness.case import ANALYTIC, Case, apart, values

W = values(2, 3, seed=140)
G = apart(2, 3, seed=141)
M = values(2, 3, seed=142, low=-0.5, high=0.5)
V = values(2, 3, seed=143, low=0.3, high=1.0)
MAXIMUM = np.where(np.arange(6).reshape(2, 3) % 2 == 0, V + 1.0, V * 0.2)
RATE, BETA1, BETA2, EPSILON = (np.array(v) for v in (0.1, 0.8, 0.7, 0.05))
POWERS = [np.array(0.8**3), np.array(0.7**3)]


def sgd(rate, w, g):
    return w - rate * g


def step(rate, beta1, beta2, epsilon, w, m, v, g, maximum=None):
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    scale = v if maximum is None else np.maximum(maximum, v)
    w = w - rate * m / (np.sqrt(scale) + epsilon)
    return [w, m, v] if maximum is None else [w, m, v, scale]


def adam(rate, beta1, beta2, epsilon, power1, power2, *rest):
    return step(rate * np.sqrt(1 - power2) / (1 - power1), beta1, beta2, epsilon, *rest)


SCALARS = [RATE, BETA1, BETA2, EPSILON]
RATES, ROW = np.array([0.1, 0.2, 0.05]), G[0]  # one per column
CASES = [
    Case("stochastic_gradient_descent", [RATE, W, G], sgd, batch=(1, 2), dtypes=ANALYTIC),
    Case("adam", [*SCALARS, *POWERS, W, M, V, G], adam, batch=(6, 7, 8, 9), tolerance=4),
    Case("adam", [*SCALARS, *POWERS, W, M, V, G, MAXIMUM], adam, label="amsgrad", batch=(6, 7, 8, 9, 10), tolerance=4),
    Case("adam_with_current_learning_rate", [*SCALARS, W, M, V, G], step, batch=(4, 5, 6, 7), tolerance=4),
    Case(
        "adam_with_current_learning_rate", [*SCALARS, W, M, V, G, MAXIMUM], step, label="amsgrad",
        batch=(4, 5, 6, 7, 8), tolerance=4,
    ),
    Case("stochastic_gradient_descent", [RATES, W, ROW], sgd, label="rates", batch=(1,), dtypes=ANALYTIC),
    Case("adam", [RATES, *SCALARS[1:], *POWERS, W, M, V, ROW], adam, label="rates", batch=(6, 7, 8), tolerance=4),
    Case(
        "adam_with_current_learning_rate", [RATES, *SCALARS[1:], W, M, V, ROW, MAXIMUM], step, label="amsgrad_rates",
        batch=(4, 5, 6, 8), tolerance=4,
    ),
]  # fmt: skip
