"""Batches and learning rates of the two training steps that the self-test measures, and matrices, for all libraries.

The training steps are those of benchmarks W1 (digit network, batch 64) and W6 (perceptron with Adam, batch 32).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

Step: TypeAlias = Callable[[], float]
CLASSES = 10
DIGIT_BATCH, DIGIT_RATE = 64, 0.01
PERCEPTRON_BATCH, PERCEPTRON_RATE = 32, 1e-3
MATRIX = 1024  # rows and columns


def digits_batch() -> tuple[np.ndarray, np.ndarray]:
    """Return NHWC images and labels for the digit network."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((DIGIT_BATCH, 28, 28, 1), np.float32)
    return images, rng.integers(0, CLASSES, DIGIT_BATCH).astype(np.int32)


def perceptron_batch() -> tuple[np.ndarray, np.ndarray]:
    """Return vectors and labels for the perceptron."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((PERCEPTRON_BATCH, 784), np.float32)
    return inputs, rng.integers(0, CLASSES, PERCEPTRON_BATCH).astype(np.int32)


def matrices() -> tuple[np.ndarray, np.ndarray]:
    """Return the two square matrices of the matmul."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((MATRIX, MATRIX), np.float32), rng.standard_normal((MATRIX, MATRIX), np.float32)
