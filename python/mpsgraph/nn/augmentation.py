"""Augmentation layers, which alter images at random in training mode.

In inference mode images pass unchanged (RandomCrop takes the center). The work is done in the graph. Each sample has
its own random numbers, drawn from the graph's random state. The seed and the step determine this state, and checkpoints
contain it. Images are floating point, (N, H, W, C), or (N, C, H, W) with data_layout "NCHW".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .._checks import Count, NotNegative, Positive, Share, Size, checked
from .._core import Tensor, float32, int32
from .._display import shown
from ..errors import DTypeError, GraphError, ShapeError
from ..ops._family import ints
from .layers import shape_of_sizes, size_in_run
from .module import Module
from .parts import graph_of

_LAYOUTS = ("NHWC", "NCHW")


class _Augmentation(Module):
    """Base class of the augmentation layers.

    It converts images to channels last and chooses a method by mode: `_augmented` in training mode, which subclasses
    define, and `_plain` in inference mode, which they may override.
    """

    def __init__(self, data_layout: str) -> None:
        if data_layout not in _LAYOUTS:
            raise GraphError(f"{type(self).__name__}: data_layout must be NHWC or NCHW, got {shown(data_layout)}")
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        name = type(self).__name__
        if len(x.shape or ()) != 4:
            raise ShapeError(f"{name} needs 4-D images in layout {self.data_layout}, got shape {x.shape}")
        if not x.dtype.is_float:
            raise DTypeError(
                f"{name} needs floating-point images, got {x.dtype}: convert them with x.astype(np.float32) / 255"
            )
        g, turned = graph_of(x), self.data_layout == "NCHW"
        images = g.transpose(x, (0, 2, 3, 1)) if turned else x
        y = self.when_training(x, lambda: self._augmented(images), lambda: self._plain(images))
        return g.transpose(y, (0, 3, 1, 2)) if turned else y

    def _augmented(self, x: Tensor) -> Tensor:
        """Return the randomly altered images for training mode."""
        raise NotImplementedError

    def _plain(self, x: Tensor) -> Tensor:
        """Return the images for inference mode."""
        return x

    def _sizes(self, x: Tensor) -> tuple[int, int]:
        """Return the height and width of the images. Raise ShapeError if they are dynamic."""
        _, height, width, _ = x.shape or ()
        if height < 0 or width < 0:
            raise ShapeError(f"{type(self).__name__} needs images of known height and width, got shape {x.shape}")
        return height, width


def _draws(x: Tensor, minimum: float, maximum: float) -> Tensor:
    """Draw one number for each sample, (N, 1, 1, 1), in x's dtype."""
    g = graph_of(x)
    drawn = g.random_uniform(shape_of_sizes(x, [size_in_run(x, 0), 1, 1, 1]), minimum, maximum)
    return drawn if x.dtype == float32 else g.cast(drawn, x.dtype)


def _whole_draws(x: Tensor, count: int) -> Tensor:
    """Draw a random integer from 0 to count - 1 for each sample, as int32 (N, 1)."""
    shape = shape_of_sizes(x, [size_in_run(x, 0), 1])
    return graph_of(x).random(shape, dtype=int32, min_integer=0, max_integer=count)


class RandomFlip(_Augmentation):
    """Flip random images, like Keras's RandomFlip and PyTorch's RandomHorizontalFlip and RandomVerticalFlip.

    Args:
        horizontal: Whether to flip left to right. Defaults to True.
        vertical: Whether to flip top to bottom. Defaults to False.
        rate: Probability of each flip, from 0 to 1. Defaults to 0.5.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        GraphError: If data_layout is unknown.
        ShapeError: If the input is not 4-D.
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> flip = mg.nn.RandomFlip(rate=1.0).train()
        >>> g.run({}, flip(g.constant([[[[1.0], [2.0], [3.0]]]]))).numpy().ravel().tolist()
        [3.0, 2.0, 1.0]
    """

    def __init__(
        self, horizontal: bool = True, vertical: bool = False, rate: Share = 0.5, *, data_layout: str = "NHWC"
    ) -> None:
        super().__init__(data_layout)
        self.horizontal, self.vertical, self.rate = horizontal, vertical, rate

    def _augmented(self, x: Tensor) -> Tensor:
        g = graph_of(x)
        for axis, wanted in ((2, self.horizontal), (1, self.vertical)):
            if wanted:
                x = g.select(g.less_than(_draws(x, 0.0, 1.0), self.rate), g.reverse(x, (axis,)), x)
        return x

    def describe(self) -> str:
        return f"horizontal={self.horizontal}, vertical={self.vertical}, rate={self.rate}"


class RandomCrop(_Augmentation):
    """Crop each image at a random position; in inference mode, crop the center.

    Corresponds to PyTorch's and Keras's RandomCrop.

    Args:
        size: Height and width of the crop; an int means a square.
        padding: Number of zero pixels to add on each side of the image before cropping, as in PyTorch. Defaults to 0.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        GraphError: If data_layout is unknown.
        ShapeError: If the input is not 4-D with known height and width, or the crop is larger than the padded image.
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.RandomCrop(32, padding=4).train()(g.placeholder((-1, 32, 32, 3))).shape
        (-1, 32, 32, 3)
    """

    def __init__(self, size: Size | Sequence[Size], padding: Count = 0, *, data_layout: str = "NHWC") -> None:
        super().__init__(data_layout)
        self.size, self.padding = ints(size, "RandomCrop: size", 2), padding

    def _padded(self, x: Tensor) -> tuple[Tensor, int, int]:
        height, width = self._sizes(x)
        rows, columns = height + 2 * self.padding - self.size[0], width + 2 * self.padding - self.size[1]
        if rows < 0 or columns < 0:
            raise ShapeError(
                f"RandomCrop: size {tuple(self.size)} is larger than images of {height} x {width} pixels with "
                f"padding={self.padding}: use a smaller size or more padding"
            )
        border = [0, self.padding, self.padding, 0]
        return (graph_of(x).pad(x, border, border, "zero") if self.padding else x), rows, columns

    def _augmented(self, x: Tensor) -> Tensor:
        g, (padded, rows, columns) = graph_of(x), self._padded(x)
        for axis, more, size in ((1, rows, self.size[0]), (2, columns, self.size[1])):
            places = _whole_draws(x, more + 1) + g.constant(np.arange(size, dtype=np.int32)[None])
            padded = g.gather(padded, places, axis, 1)
        return padded

    def _plain(self, x: Tensor) -> Tensor:
        padded, rows, columns = self._padded(x)
        top, left = rows // 2, columns // 2
        return padded[:, top : top + self.size[0], left : left + self.size[1]]

    def describe(self) -> str:
        return f"{tuple(self.size)}, padding={self.padding}"


class RandomRotation(_Augmentation):
    """Rotate each image about its center by a random angle.

    Corresponds to PyTorch's RandomRotation. Keras's RandomRotation takes a fraction of a full turn instead of degrees.

    Args:
        degrees: Maximum angle in either direction, in degrees.
        mode: Interpolation, "bilinear" (the default) or "nearest".
        fill: Value of pixels that come from outside the image. Defaults to 0.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        GraphError: If mode or data_layout is unknown.
        ShapeError: If the input is not 4-D with known height and width.
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.RandomRotation(15).train()(g.placeholder((-1, 28, 28, 1))).shape
        (-1, 28, 28, 1)
    """

    def __init__(
        self, degrees: NotNegative, mode: str = "bilinear", fill: float = 0.0, *, data_layout: str = "NHWC"
    ) -> None:
        super().__init__(data_layout)
        if mode not in ("bilinear", "nearest"):
            raise GraphError(f'RandomRotation: mode must be "bilinear" or "nearest", got {shown(mode)}')
        self.degrees, self.mode, self.fill = degrees, mode, fill

    def _augmented(self, x: Tensor) -> Tensor:
        g, (height, width) = graph_of(x), self._sizes(x)
        angle = _draws(x, -1.0, 1.0) * math.radians(self.degrees)
        down, right = np.mgrid[:height, :width].astype(np.float64)
        middle = (height - 1) / 2, (width - 1) / 2
        up, across = (g.constant(v[None, ..., None], dtype=x.dtype) for v in (down - middle[0], right - middle[1]))
        columns = g.cos(angle) * across + g.sin(angle) * up + middle[1]
        rows = g.cos(angle) * up - g.sin(angle) * across + middle[0]
        return g.sample_grid(
            x, g.concat((columns, rows), -1), normalize_coordinates=False, align_corners=True, padding_mode="constant",
            sampling_mode=self.mode, constant_value=self.fill,
        )  # fmt: skip

    def describe(self) -> str:
        return f"{self.degrees}"


class ColorJitter(_Augmentation):
    """Change brightness, contrast, and saturation of each image, in this order, by random factors.

    Each factor f is drawn from max(0, 1 - v) to 1 + v, where v is the argument. Brightness computes x * f, contrast (x
    - mean gray) * f + mean gray, and saturation (x - gray) * f + gray, with gray = 0.299 r + 0.587 g + 0.114 b for
    three channels, or the image itself for one. Corresponds to PyTorch's ColorJitter, in a fixed order and without hue.

    Args:
        brightness: Spread of the brightness factor. Defaults to 0.
        contrast: Spread of the contrast factor. Defaults to 0.
        saturation: Spread of the saturation factor. Defaults to 0.
        value_range: (lowest, highest) to clamp results to, or None for no clamping. Defaults to (0.0, 1.0).
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        GraphError: If value_range is not increasing, or data_layout is unknown.
        ShapeError: If the input is not 4-D, or has neither 1 nor 3 channels.
        DTypeError: If the input is not floating-point.

    Example:
        >>> g = mg.Graph()
        >>> jitter = mg.nn.ColorJitter(brightness=0.5)
        >>> g.run({}, jitter.eval()(g.constant(0.25, (1, 1, 1, 3)))).numpy().ravel().tolist()
        [0.25, 0.25, 0.25]
    """

    def __init__(
        self,
        brightness: NotNegative = 0.0,
        contrast: NotNegative = 0.0,
        saturation: NotNegative = 0.0,
        value_range: tuple[float, float] | None = (0.0, 1.0),
        *,
        data_layout: str = "NHWC",
    ) -> None:
        super().__init__(data_layout)
        if value_range is not None and not value_range[0] < value_range[1]:
            raise GraphError(
                "ColorJitter: value_range must be (lowest, highest) with lowest below highest, "
                f"got {shown(value_range)}"
            )
        self.brightness, self.contrast, self.saturation = brightness, contrast, saturation
        self.value_range = value_range

    def _augmented(self, x: Tensor) -> Tensor:
        g = graph_of(x)

        def held(y: Tensor) -> Tensor:
            if self.value_range is None:
                return y
            lowest, highest = self.value_range  # `clamp` would replace NaN with a bound.
            return g.minimum_with_nan_propagation(g.maximum_with_nan_propagation(y, lowest), highest)

        def factor(spread: float) -> Tensor:
            return _draws(x, max(0.0, 1 - spread), 1 + spread)

        y = x
        if self.brightness:
            y = held(y * factor(self.brightness))
        if self.contrast:
            mean = g.mean(self._grey(y), (1, 2))
            y = held(mean + (y - mean) * factor(self.contrast))
        if self.saturation:
            grey = self._grey(y)
            y = held(grey + (y - grey) * factor(self.saturation))
        return y

    def _grey(self, x: Tensor) -> Tensor:
        g, channels = graph_of(x), (x.shape or ())[3]
        if channels == 1:
            return x
        if channels != 3:
            raise ShapeError(f"ColorJitter needs images with 1 or 3 channels, got shape {x.shape}")
        shares = g.constant(np.array([0.299, 0.587, 0.114]), dtype=x.dtype)
        return g.reduction_sum(x * shares, -1)

    def describe(self) -> str:
        return f"{self.brightness}, {self.contrast}, {self.saturation}"


class Cutout(_Augmentation):
    """Fill a random square of each image with one value.

    The center of the square is anywhere in the image, so part of the square may lie outside.

    Args:
        size: Side of the square, in pixels.
        fill: Value of the filled pixels. Defaults to 0.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        GraphError: If data_layout is unknown.
        ShapeError: If the input is not 4-D with known height and width.
        DTypeError: If the input is not floating-point.

    Source: DeVries and Taylor, arXiv:1708.04552.

    Example:
        >>> g = mg.Graph()
        >>> y = g.run({}, mg.nn.Cutout(2).train()(g.constant(1.0, (8, 6, 6, 1)))).numpy()
        >>> set((y == 0).sum((1, 2, 3)).tolist()) <= {1, 2, 4}
        True
    """

    def __init__(self, size: Size, fill: float = 0.0, *, data_layout: str = "NHWC") -> None:
        super().__init__(data_layout)
        self.size, self.fill = size, fill

    def _augmented(self, x: Tensor) -> Tensor:
        g, hidden = graph_of(x), None
        for count, shape in zip(self._sizes(x), ((1, -1, 1, 1), (1, 1, -1, 1)), strict=True):
            first = g.expand_dims(_whole_draws(x, count), (2, 3)) - self.size // 2
            place = g.constant(np.arange(count, dtype=np.int32).reshape(shape))
            within = g.logical_and(g.greater_than_or_equal_to(place, first), g.less_than(place, first + self.size))
            hidden = within if hidden is None else g.logical_and(hidden, within)
        assert hidden is not None
        return g.select(hidden, self.fill, x)

    def describe(self) -> str:
        return f"{self.size}"


# Number of candidate draws per sample. A draw is accepted with probability at least 1/2, so all are rejected with
# probability at most 2^-32.
_TRIES = 32


@checked
def mixup(x: Tensor, y: Tensor, alpha: Positive = 0.2) -> tuple[Tensor, Tensor]:
    """Mix each sample and its label with the previous sample and label of the batch, for use in a `training_step`.

    Returns share * a + (1 - share) * b for each sample a and the sample b before it, with a share drawn from
    Beta(alpha, alpha) for each sample.

    Args:
        x: Inputs, floating point (N, ...).
        y: Labels, floating point (N, ...), such as one-hot vectors.
        alpha: Parameter of the Beta distribution, above 0 and at most 1. Defaults to 0.2.

    Returns:
        The mixed inputs and the mixed labels.

    Raises:
        GraphError: If alpha is out of range.
        DTypeError: If x or y is not floating-point.
        ShapeError: If x or y has no batch axis.

    Source: Zhang et al., arXiv:1710.09412.

    Example:
        >>> g = mg.Graph()
        >>> x, y = mg.nn.mixup(g.placeholder((-1, 8, 8, 1)), g.placeholder((-1, 10)))
        >>> x.shape, y.shape
        ((-1, 8, 8, 1), (-1, 10))
    """
    if alpha > 1:
        raise GraphError(f"mixup: alpha must be above 0 and at most 1, got {alpha}")
    for what, tensor in (("x", x), ("y", y)):
        if not tensor.dtype.is_float:
            raise DTypeError(
                f"mixup: {what} must be floating-point, got {tensor.dtype}: encode class labels with "
                "g.one_hot(y, classes)"
            )
        if not tensor.shape:
            raise ShapeError(f"mixup: {what} must have the batch as its first axis, got shape {tensor.shape}")
    g, share = graph_of(x), _beta(x, alpha)

    def mixed(tensor: Tensor) -> Tensor:
        other = g.concat((tensor[-1:], tensor[:-1]), 0)
        own = g.reshape(share, (-1, *[1] * (len(tensor.shape or ()) - 1)))
        own = own if tensor.dtype == float32 else g.cast(own, tensor.dtype)
        return other + (tensor - other) * own

    return mixed(x), mixed(y)


def _beta(x: Tensor, alpha: float) -> Tensor:
    """Draw shares (N, 1) from Beta(alpha, alpha) by Jöhnk's method.

    The share is a / (a + b) for a = u^(1/alpha) and b = v^(1/alpha), accepted if a + b <= 1. The computation uses
    logarithms because such powers leave float32's range. Several pairs are drawn, and the first accepted one is used.
    """
    g = graph_of(x)
    shape = shape_of_sizes(x, [size_in_run(x, 0), _TRIES])
    first, second = (g.logarithm(1.0 - g.random_uniform(shape)) * (1 / alpha) for _ in range(2))
    fits = g.less_than_or_equal_to(g.exponent(first) + g.exponent(second), 1.0)
    chosen = g.reduction_arg_maximum(g.cast(fits, float32), 1)
    return g.gather_along_axis(1, g.sigmoid(first - second), g.cast(chosen, int32))
