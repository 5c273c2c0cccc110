"""Scikit-learn's handwritten digits, brought to the size of MNIST: the data of the demo, without a download.

1,797 real scans of 8x8 pixels and 17 grey levels (Alpaydin and Kaynak, "Optical recognition of handwritten digits", UCI
1998) become 28x28, or another size, by bilinear interpolation. Every fifth one is the test set, always the same.
"""

from __future__ import annotations

import numpy as np

from .._checks import checked
from .._display import shown
from .._optional import require
from ..errors import ShapeError

SIZE, LARGEST = 28, 1024  # pixels


@checked
def digits(size: int = SIZE) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The digits as ((images, labels), (images, labels)) for training (1,438) and test (359).

    Args: size in pixels, height and width. Result: images float32 (n, size, size, 1) in 0..1, labels int32 (n,).
    Errors: ShapeError for a size below 1 or above 1024; ImportError without scikit-learn.

    >>> (x, y), (test_x, test_y) = mg.data.digits()
    >>> x.shape, y.dtype, test_x.shape
    ((1438, 28, 28, 1), dtype('int32'), (359, 28, 28, 1))
    """
    if not 1 <= size <= LARGEST:
        raise ShapeError(f"digits need a size of 1 to {LARGEST} pixels, got {shown(size)}")
    loaded = require("sklearn.datasets", "demo", "the digits dataset").load_digits()
    images = resize_bilinear(loaded.images.astype(np.float32) / np.float32(16), size, size)[..., None]
    labels = loaded.target.astype(np.int32)
    test = np.arange(len(labels)) % 5 == 4
    return (images[~test], labels[~test]), (images[test], labels[test])


@checked
def resize_bilinear(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """Images (n, h, w) brought to (n, height, width) by bilinear interpolation between pixel centres.

    Output pixel i lies at (i + 1/2) * h / height - 1/2 in the input, held inside the image.

    >>> mg.data.handwritten.resize_bilinear(np.array([[[0.0, 1.0]]]), 1, 4).tolist()
    [[[0.0, 0.25, 0.75, 1.0]]]
    """

    def weights(size: int, target: int) -> np.ndarray:
        position = np.clip((np.arange(target) + 0.5) * size / target - 0.5, 0, size - 1)
        distance = np.abs(position[:, None] - np.arange(size))
        return np.asarray(np.maximum(0, 1 - distance), images.dtype)

    rows, columns = weights(images.shape[1], height), weights(images.shape[2], width)
    resized: np.ndarray = np.einsum("yh,nhw,xw->nyx", rows, images, columns, optimize=True)
    return np.ascontiguousarray(resized)
