"""Losses in float64: each function returns the losses before reduction, from outputs x and labels y."""

import math

import numpy as np


def log_softmax(x):
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def picked(x, y):
    return np.take_along_axis(x, y[:, None], -1)[:, 0]


def huber(x, y, delta=1.0):
    d = np.abs(x - y)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


def kl_divergence(x, y):
    return np.where(y > 0, y * np.log(np.where(y > 0, y, 1)), 0) - y * x


ELEMENTWISE = {
    "mean_squared_error": lambda x, y: (x - y) ** 2,
    "mean_absolute_error": lambda x, y: np.abs(x - y),
    "huber": huber,
    "smooth_l1": huber,
    "log_cosh": lambda x, y: softplus(2 * (x - y)) - (x - y) - math.log(2),
    "mean_absolute_percentage_error": lambda x, y: 100 * np.abs(x - y) / np.maximum(np.abs(y), 1e-7),
    "poisson_nll": lambda x, y: np.exp(x) - y * x,
    "kl_divergence": kl_divergence,
    "binary_cross_entropy_with_logits": lambda x, y: softplus(x) - x * y,
    "hinge": lambda x, y: np.maximum(0, 1 - x * y),
    "squared_hinge": lambda x, y: np.maximum(0, 1 - x * y) ** 2,
    "soft_margin": lambda x, y: softplus(-x * y),
    "hinge_embedding": lambda x, y: np.where(y > 0, x, np.maximum(0, 1 - x)),
}
"""Losses of each output for any real outputs."""
OF_PROBABILITIES = {
    "binary_cross_entropy": lambda x, y: -y * np.log(x) - (1 - y) * np.log1p(-x),
    "log_loss": lambda x, y: -y * np.log(x + 1e-7) - (1 - y) * np.log(1 - x + 1e-7),
    "mean_squared_logarithmic_error": lambda x, y: (np.log1p(x) - np.log1p(y)) ** 2,
}
"""Losses of each output for outputs between 0 and 1."""
BY_SAMPLE = {
    "cross_entropy": lambda x, y: -picked(log_softmax(x), y),
    "nll": lambda x, y: -picked(x, y),
    "multi_label_soft_margin": lambda x, y: (softplus(x) - x * y).mean(-1),
    "cosine_distance": lambda x, y: 1 - (x * y).sum(-1),
}
"""Losses of each row of outputs."""
