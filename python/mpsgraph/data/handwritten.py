"""Scikit-learn's handwritten digits, resized to the size of MNIST, as demo data that needs no download.

1,797 real scans of 8x8 pixels with 17 gray levels (Alpaydin and Kaynak, "Optical recognition of handwritten digits",
UCI 1998) are resized to 28x28, or another size, by bilinear interpolation. Every fifth scan is in the test set.
"""

from __future__ import annotations

import numpy as np

from .._checks import checked
from .._display import shown
from .._optional import require
from ..errors import ShapeError

SIZE, LARGEST = 28, 1024  # Default and maximum image size, in pixels.


@checked
def digits(size: int = SIZE) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return scikit-learn's handwritten digits, divided into training (1,438) and test (359) samples.

    Args:
        size: Height and width of the images, from 1 to 1024 pixels. Defaults to 28.

    Returns:
        ((images, labels), (images, labels)) for training and test: images float32 (n, size, size, 1) from 0 to 1,
        labels int32 (n,).

    Raises:
        ShapeError: If size is out of range.
        ImportError: If scikit-learn is not installed.

    Example:
        >>> (x, y), (test_x, test_y) = mg.data.digits()
        >>> x.shape, y.dtype, test_x.shape
        ((1438, 28, 28, 1), dtype('int32'), (359, 28, 28, 1))
    """
    if not 1 <= size <= LARGEST:
        raise ShapeError(f"digits: size must be from 1 to {LARGEST} pixels, got {shown(size)}")
    loaded = require("sklearn.datasets", "demo", "the digits dataset").load_digits()
    images = resize_bilinear(loaded.images.astype(np.float32) / np.float32(16), size, size)[..., None]
    labels = loaded.target.astype(np.int32)
    test = np.arange(len(labels)) % 5 == 4
    return (images[~test], labels[~test]), (images[test], labels[test])


@checked
def resize_bilinear(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize images by bilinear interpolation between pixel centers.

    Output pixel i is at (i + 1/2) * h / height - 1/2 in the input, clamped to the image.

    Args:
        images: Floating-point array (n, h, w).
        height: Height of the result.
        width: Width of the result.

    Returns:
        An array (n, height, width) with the dtype of images.

    Example:
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
