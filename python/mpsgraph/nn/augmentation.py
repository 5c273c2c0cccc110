"""Augmentation: pictures changed at random in training mode, in the graph; in inference mode they pass as they are.

Each sample has draws of its own. They come of the graph's random state, so that a seed and a step decide them, and
checkpoints carry them; nothing is drawn on the host. Images are floats, (n, height, width, channels) or, with
data_layout "NCHW", (n, channels, height, width).
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
from .module import Module, graph_of

_LAYOUTS = ("NHWC", "NCHW")


class _Augmentation(Module):
    """The base: write `_augmented`, of images with the channels last, and what inference has in its place."""

    def __init__(self, data_layout: str) -> None:
        if data_layout not in _LAYOUTS:
            raise GraphError(f"{type(self).__name__}: data_layout must be NHWC or NCHW, got {shown(data_layout)}")
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        name = type(self).__name__
        if len(x.shape or ()) != 4:
            raise ShapeError(f"{name} needs images of rank 4, {self.data_layout}, their shape is {x.shape}")
        if not x.dtype.is_float:
            raise DTypeError(f"{name} needs images of floats, these are {x.dtype}: x.astype(np.float32) / 255")
        g, turned = graph_of(x), self.data_layout == "NCHW"
        images = g.transpose(x, (0, 2, 3, 1)) if turned else x
        y = self.when_training(x, lambda: self._augmented(images), lambda: self._plain(images))
        return g.transpose(y, (0, 3, 1, 2)) if turned else y

    def _augmented(self, x: Tensor) -> Tensor:
        """What training has."""
        raise NotImplementedError

    def _plain(self, x: Tensor) -> Tensor:
        """What inference has."""
        return x

    def _sizes(self, x: Tensor) -> tuple[int, int]:
        """Height and width. ShapeError where they are not known."""
        _, height, width, _ = x.shape or ()
        if height < 0 or width < 0:
            raise ShapeError(f"{type(self).__name__} needs to know height and width, the images' shape is {x.shape}")
        return height, width


def _draws(x: Tensor, minimum: float, maximum: float) -> Tensor:
    """A number for each sample, (n, 1, 1, 1), of x's dtype."""
    g = graph_of(x)
    drawn = g.random_uniform(shape_of_sizes(x, [size_in_run(x, 0), 1, 1, 1]), minimum, maximum)
    return drawn if x.dtype == float32 else g.cast(drawn, x.dtype)


def _whole_draws(x: Tensor, count: int) -> Tensor:
    """One of 0 to count - 1 for each sample, int32 (n, 1)."""
    shape = shape_of_sizes(x, [size_in_run(x, 0), 1])
    return graph_of(x).random(shape, dtype=int32, min_integer=0, max_integer=count)


class RandomFlip(_Augmentation):
    """Mirrors some of the images. Keras's RandomFlip; PyTorch's RandomHorizontalFlip and RandomVerticalFlip.

    Args: horizontal, vertical, along which axes; rate, how likely each is; data_layout. Errors: GraphError, ShapeError,
    DTypeError.

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
    """A piece of each image from anywhere; in inference mode the one in the middle. PyTorch's and Keras's RandomCrop.

    Args: size, height and width of the piece; padding, zeros around the image first, as in PyTorch; data_layout.
    Errors: ShapeError for a piece larger than the padded image, DTypeError, GraphError.

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
                f"RandomCrop: pieces of {tuple(self.size)} of images of {height} x {width} with a padding of "
                f"{self.padding}: they do not fit"
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
    """Turns each image about its middle by an angle of its own; what comes from outside is `fill`.

    Args: degrees, the largest angle to either side; mode, "bilinear" or "nearest"; fill; data_layout. PyTorch's
    RandomRotation; Keras's has a share of a whole turn. Errors: ShapeError, DTypeError, GraphError.

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
    """Brightness, contrast and saturation of each image times factors of its own, in this order.

    A factor f lies in max(0, 1 - v)..1 + v: x * f; (x - the mean grey) * f + the mean grey; (x - grey) * f + grey.
    Args: brightness, contrast, saturation, the v; value_range, within which the result is held, None: nothing is;
    data_layout. Grey is 0.299 r + 0.587 g + 0.114 b of three channels, and the image of one. PyTorch's ColorJitter, in
    a fixed order and without hue. Errors: ShapeError, DTypeError, GraphError.

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
            raise GraphError(f"ColorJitter: value_range must be (lowest, highest), got {shown(value_range)}")
        self.brightness, self.contrast, self.saturation = brightness, contrast, saturation
        self.value_range = value_range

    def _augmented(self, x: Tensor) -> Tensor:
        g = graph_of(x)

        def held(y: Tensor) -> Tensor:
            return y if self.value_range is None else g.clamp(y, *self.value_range)

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
            raise ShapeError(f"ColorJitter: images have 1 or 3 channels, these have the shape {x.shape}")
        shares = g.constant(np.array([0.299, 0.587, 0.114]), dtype=x.dtype)
        return g.reduction_sum(x * shares, -1)

    def describe(self) -> str:
        return f"{self.brightness}, {self.contrast}, {self.saturation}"


class Cutout(_Augmentation):
    """Sets a square of each image to `fill`; its middle is anywhere, so that a part may lie outside.

    Args: size, its side; fill; data_layout. DeVries and Taylor, arXiv:1708.04552. Errors: ShapeError, DTypeError,
    GraphError.

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


_TRIES = 32  # of which one fits but once in 2^32


@checked
def mixup(x: Tensor, y: Tensor, alpha: Positive = 0.2) -> tuple[Tensor, Tensor]:
    """Each sample mixed with the one before it in the batch, and so are their labels: for a `training_step`.

    share * x + (1 - share) * x of the other, share of a Beta(alpha, alpha) distribution, one for each sample. Args: x,
    floats (n, ...); y, floats (n, ...), such as one_hot gives; alpha, up to 1. Result: both, mixed. Zhang et al.,
    arXiv:1710.09412. Errors: GraphError for another alpha, DTypeError, ShapeError.

    >>> g = mg.Graph()
    >>> x, y = mg.nn.mixup(g.placeholder((-1, 8, 8, 1)), g.placeholder((-1, 10)))
    >>> x.shape, y.shape
    ((-1, 8, 8, 1), (-1, 10))
    """
    if alpha > 1:
        raise GraphError(f"mixup: alpha must be above 0 and at most 1, got {alpha}")
    for what, tensor in (("x", x), ("y", y)):
        if not tensor.dtype.is_float:
            raise DTypeError(f"mixup: {what} must be of floats, it is {tensor.dtype}: classes by g.one_hot(y, classes)")
        if not tensor.shape:
            raise ShapeError(f"mixup: {what} must have the batch as its first axis, its shape is {tensor.shape}")
    g, share = graph_of(x), _beta(x, alpha)

    def mixed(tensor: Tensor) -> Tensor:
        other = g.concat((tensor[-1:], tensor[:-1]), 0)
        own = g.reshape(share, (-1, *[1] * (len(tensor.shape or ()) - 1)))
        own = own if tensor.dtype == float32 else g.cast(own, tensor.dtype)
        return other + (tensor - other) * own

    return mixed(x), mixed(y)


def _beta(x: Tensor, alpha: float) -> Tensor:
    """Shares (n, 1) of Beta(alpha, alpha) by Jöhnk: a / (a + b) of a = u^(1/alpha), b = v^(1/alpha), if a + b <= 1.

    It is worked out by logarithms, for such powers leave float32's range; of several tries the first that fits counts.
    """
    g = graph_of(x)
    shape = shape_of_sizes(x, [size_in_run(x, 0), _TRIES])
    first, second = (g.logarithm(1.0 - g.random_uniform(shape)) * (1 / alpha) for _ in range(2))
    fits = g.less_than_or_equal_to(g.exponent(first) + g.exponent(second), 1.0)
    chosen = g.reduction_arg_maximum(g.cast(fits, float32), 1)
    return g.gather_along_axis(1, g.sigmoid(first - second), g.cast(chosen, int32))
