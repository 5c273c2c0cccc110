"""Images in folders, one a class, as a dataset for `loaded`: Pillow opens a file when its sample is asked for."""

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
    """Images by number: (image, class), float32 (height, width, channels) in 0..1 and an int32; `classes` has names.

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
            raise DataError(f"image_folder: {folder} is no folder")
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
                f"image_folder: {folder} has no images in folders of their classes, such as {root / 'cat' / '1.png'}"
            )
        self.labels = np.array(numbers, np.int32)

    def __len__(self) -> int:
        """How many images there are."""
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
        except (OSError, ValueError, SyntaxError) as error:  # SyntaxError is what Pillow raises for broken PNGs
            raise DataError(f"{path} cannot be read as an image: {error}") from error
        return pixels.reshape(*pixels.shape[:2], self.channels), self.labels[index]


@checked
def image_folder(
    folder: str | Path, size: Size | tuple[Size, Size] | None = None, channels: Literal["L", "RGB", "RGBA"] = "RGB"
) -> ImageFolder:
    """A dataset of the images in a folder's folders, whose names are the classes, in the order of the alphabet.

    Args: folder; size, height and width that images are brought to, None: they stay, and must be equal in a batch;
    channels, "L" for grey, "RGB" or "RGBA". Samples are (image, class), float32 (height, width, channels) in 0..1 and
    int32. Give it to `loaded`, whose workers open the files. PyTorch's ImageFolder, Keras's
    image_dataset_from_directory. Errors: DataError for a folder without images, and where a file is none; ImportError
    without Pillow.

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
