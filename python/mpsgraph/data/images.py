"""Images in one folder per class as a dataset for `loaded`. Pillow opens each file when its sample is requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._checks import Size, checked
from .._optional import require
from ..ops._family import ints
from .files import DataError

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"))


@checked
class ImageFolder:
    """Dataset of the images in one folder per class, as returned by `image_folder`.

    Sample i is (image, class): float32 (height, width, channels) from 0 to 1, and int32.

    Args:
        folder: Folder that contains one folder per class.
        size: Height and width to resize images to, or None.
        channels: Number of channels: 1, 3, or 4.

    Attributes:
        classes: Names of the classes.
        paths: Paths of the images.
        labels: Class index of each image, int32.

    Raises:
        DataError: If folder is not a folder, contains no images, or a file cannot be read as an image.

    Example:
        >>> import os, tempfile
        >>> from PIL import Image
        >>> folder = tempfile.mkdtemp()
        >>> os.mkdir(os.path.join(folder, "cat"))
        >>> Image.new("RGB", (6, 4), "red").save(os.path.join(folder, "cat", "1.png"))
        >>> images = mg.data.image_folder(folder)
        >>> len(images), images.classes, images[0][0].shape
        (1, ['cat'], (4, 6, 3))
    """

    def __init__(self, folder: str | Path, size: list[int] | None, channels: int) -> None:
        root = Path(folder)
        if not root.is_dir():
            raise DataError(f"image_folder: {folder} is not a folder")
        self.size, self.channels = size, channels
        self.classes = sorted(path.name for path in root.iterdir() if path.is_dir())
        self.paths: list[Path] = []
        numbers: list[int] = []
        for number, name in enumerate(self.classes):
            found = sorted(path for path in (root / name).rglob("*") if path.suffix.lower() in SUFFIXES)
            self.paths += found
            numbers += [number] * len(found)
        if not self.paths:
            raise DataError(
                f"image_folder: {folder} has no images in folders named after their classes, such as "
                f"{root / 'cat' / '1.png'}"
            )
        self.labels = np.array(numbers, np.int32)

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.int32]:
        pillow: Any = require("PIL.Image", "data", "image_folder")
        path = self.paths[index]
        try:
            with pillow.open(path) as file:
                image = file.convert("L" if self.channels == 1 else "RGB" if self.channels == 3 else "RGBA")
                if self.size is not None:
                    image = image.resize((self.size[1], self.size[0]), pillow.Resampling.BILINEAR)
                pixels = np.asarray(image, np.float32) / np.float32(255)
        except (OSError, ValueError, SyntaxError) as error:  # Pillow raises SyntaxError for broken PNGs.
            raise DataError(f"{path} cannot be read as an image: {error}") from error
        return pixels.reshape(*pixels.shape[:2], self.channels), self.labels[index]


@checked
def image_folder(
    folder: str | Path, size: Size | tuple[Size, Size] | None = None, channels: Literal["L", "RGB", "RGBA"] = "RGB"
) -> ImageFolder:
    """Create a dataset of images stored in one folder per class, for use with `loaded`.

    The names of the folders, in alphabetical order, are the classes. Sample i is (image, class): float32 (height,
    width, channels) from 0 to 1, and int32. Corresponds to PyTorch's ImageFolder and Keras's
    image_dataset_from_directory.

    Args:
        folder: Folder that contains one folder per class.
        size: Height and width to resize images to; an int means a square. None, the default, keeps the sizes, which
            must be equal within a batch.
        channels: "L" for grayscale, "RGB" (the default), or "RGBA".

    Returns:
        The dataset.

    Raises:
        DataError: If folder is not a folder, contains no images, or, when a sample is read, a file is not an image.
        ImportError: If Pillow is not installed.

    Example:
        >>> import os, tempfile
        >>> from PIL import Image
        >>> folder = tempfile.mkdtemp()
        >>> for name in ("cat", "dog"):
        ...     os.mkdir(os.path.join(folder, name))
        ...     Image.new("RGB", (6, 4), "red").save(os.path.join(folder, name, "1.png"))
        >>> data = mg.data.image_folder(folder, size=(2, 3))
        >>> x, y = next(iter(mg.data.loaded(data, 2, shuffle=False)))
        >>> data.classes, x.shape, y.tolist()
        (['cat', 'dog'], (2, 2, 3, 3), [0, 1])
    """
    require("PIL.Image", "data", "image_folder")
    height_and_width = None if size is None else ints(size, "image_folder: size", 2)
    return ImageFolder(folder, height_and_width, {"L": 1, "RGB": 3, "RGBA": 4}[channels])
