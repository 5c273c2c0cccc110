"""Layers that change the size of images: upsampling, pixel shuffling, and padding. None of them has variables.

Inputs are 4-D images, NHWC unless data_layout is "NCHW". Names and results match PyTorch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks import Positive, Size, is_number
from .._core import Tensor
from .._display import shown
from ..errors import GraphError, ShapeError
from ..ops._family import ints
from .module import Module
from .parts import graph_of


def _plane(x: Tensor, data_layout: str, what: str) -> tuple[int, int, int]:
    """Return the axes of height, width, and channels."""
    if data_layout not in ("NHWC", "NCHW"):
        raise GraphError(f'{what}: data_layout must be "NHWC" or "NCHW", got {shown(data_layout)}')
    if x.shape is None or len(x.shape) != 4:
        raise ShapeError(f"{what} needs 4-D images in layout {data_layout}, got shape {x.shape}")
    return (1, 2, 3) if data_layout == "NHWC" else (2, 3, 1)


def _nearest(size: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest source pixel of each output pixel in two arrays: as the graph and as PyTorch computes it.

    PyTorch multiplies in float32 by 1 / scale, which can select a different pixel.
    """
    i = np.arange(size)
    return np.floor(i / np.float64(np.float32(scale))), np.floor(i.astype(np.float32) * np.float32(1 / scale))


class Upsample(Module):
    """Resize images by nearest-neighbor or bilinear interpolation.

    Maps an input of shape (N, H, W, C) to (N, H_out, W_out, C); with data_layout "NCHW" the channels are on axis 1.
    Output sizes computed from scale_factor are rounded down. Sampling positions are computed from the factor itself, or
    from the sizes if size is given or align_corners is set.

    Args:
        size: Output height and width; an int means a square. Pass either size or scale_factor.
        scale_factor: Ratio of output to input size, a number or (y, x).
        mode: "nearest" (the default) or "bilinear".
        align_corners: Whether bilinear interpolation keeps the corner pixels in place. Defaults to False.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        ShapeError: If size and scale_factor are both given or both missing, scale_factor is not positive, the input is
            not 4-D, or scale_factor is given and the input's height or width is dynamic.
        GraphError: If mode or data_layout is unknown.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.Upsample(scale_factor=2)(g.placeholder((-1, 7, 7, 16))).shape
        (-1, 14, 14, 16)
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: Positive | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
        *,
        data_layout: str = "NHWC",
    ) -> None:
        if (size is None) == (scale_factor is None):
            raise ShapeError(
                "Upsample: pass exactly one of size and scale_factor, got "
                f"size={shown(size)} and scale_factor={shown(scale_factor)}"
            )
        if mode not in ("nearest", "bilinear"):
            raise GraphError(f'Upsample: mode must be "nearest" or "bilinear", got {shown(mode)}')
        self.size = None if size is None else ints(size, "Upsample: size", 2)
        given: Any = () if scale_factor is None else scale_factor
        factors: tuple[float, ...] = (given,) * 2 if is_number(given) else tuple(given)
        if scale_factor is not None and (len(factors) != 2 or min(factors) <= 0):
            raise ShapeError(
                f"Upsample: scale_factor must be a positive number or a pair of them, got {shown(scale_factor)}"
            )
        self.factors, self.mode, self.align_corners, self.data_layout = factors, mode, align_corners, data_layout

    def forward(self, x: Tensor) -> Tensor:
        height, width, _ = _plane(x, self.data_layout, "Upsample")
        size, scales, old = self.size, self.factors, [(x.shape or ())[axis] for axis in (height, width)]
        if size is None:
            if min(old) < 0:
                raise ShapeError(f"Upsample: scale_factor needs images of known height and width, got shape {x.shape}")
            size = [int(n * factor) for n, factor in zip(old, self.factors, strict=True)]
            scales = tuple(self._scale(*case) for case in zip(old, size, self.factors, strict=True))
        g, places = graph_of(x), [_nearest(n, scale) for n, scale in zip(size, scales, strict=False)]
        if self.mode == "nearest" and any((exact != rounded).any() for exact, rounded in places):
            for axis, n, (_, rounded) in zip((height, width), old, places, strict=True):
                x = g.gather(x, g.constant(np.minimum(rounded, n - 1).astype(np.int32)), axis)
            return x
        how: dict[str, Any] = {"center_result": self.mode == "bilinear", "layout": self.data_layout}
        if scales and not self.align_corners:
            shift = 0.5 if self.mode == "bilinear" else 0.0
            how |= {"scale": scales, "offset": [shift * (scale - 1) for scale in scales]}
        if self.mode == "nearest":
            return g.resize_nearest(x, size, "floor", **how)
        return g.resize_bilinear(x, size, align_corners=self.align_corners, **how)

    def _scale(self, old: int, new: int, factor: float) -> float:
        """Return the scale that determines sampling positions.

        The scale is the factor itself, because output sizes are rounded but sampling positions are not. As in PyTorch,
        it is the ratio of the sizes if the size stays the same, or if it doubles in nearest mode.
        """
        return new / old if new == old or (new == 2 * old and self.mode == "nearest") else factor


class PixelShuffle(Module):
    """Rearrange channels into blocks of pixels: (N, H, W, C * r * r) to (N, H * r, W * r, C).

    Args:
        upscale_factor: Side r of the blocks.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        ShapeError: If the input is not 4-D, or its channels are not divisible by r * r.
        GraphError: If data_layout is unknown.

    Source: Shi et al., 2016.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.PixelShuffle(2)(g.placeholder((-1, 4, 4, 12))).shape
        (-1, 8, 8, 3)
    """

    def __init__(self, upscale_factor: Size, *, data_layout: str = "NHWC") -> None:
        self.factor, self.data_layout = upscale_factor, data_layout

    def forward(self, x: Tensor) -> Tensor:
        height, width, channels = _plane(x, self.data_layout, "PixelShuffle")
        return graph_of(x).depth_to_space2d(x, width, height, channels, self.factor, use_pixel_shuffle_order=True)


class PixelUnshuffle(PixelShuffle):
    """Rearrange blocks of pixels into channels: (N, H * r, W * r, C) to (N, H, W, C * r * r).

    The inverse of PixelShuffle.

    Args:
        downscale_factor: Side r of the blocks.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        ShapeError: If the input is not 4-D, or its height or width is not divisible by r.
        GraphError: If data_layout is unknown.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.PixelUnshuffle(2)(g.placeholder((-1, 8, 8, 3))).shape
        (-1, 4, 4, 12)
    """

    def __init__(self, downscale_factor: Size, *, data_layout: str = "NHWC") -> None:
        super().__init__(downscale_factor, data_layout=data_layout)

    def forward(self, x: Tensor) -> Tensor:
        height, width, channels = _plane(x, self.data_layout, "PixelUnshuffle")
        return graph_of(x).space_to_depth2d(x, width, height, channels, self.factor, use_pixel_shuffle_order=True)


class ZeroPad2d(Module):
    """Pad images with zeros.

    Args:
        padding: Number of pixels to add on each side, an int or (left, right, top, bottom), as in PyTorch.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        ShapeError: If the input is not 4-D, or padding is neither one nor four ints.
        GraphError: If data_layout is unknown.

    Example:
        >>> g = mg.Graph()
        >>> mg.nn.ZeroPad2d((1, 2, 0, 0))(g.placeholder((-1, 4, 4, 3))).shape
        (-1, 4, 7, 3)
    """

    mode = "zero"

    def __init__(self, padding: int | Sequence[int], *, data_layout: str = "NHWC") -> None:
        self.padding = ints(padding, f"{type(self).__name__}: padding", 4)
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        height, width, _ = _plane(x, self.data_layout, type(self).__name__)
        before, after = [0] * 4, [0] * 4
        before[width], after[width], before[height], after[height] = self.padding
        return graph_of(x).pad(x, before, after, self.mode)


class ReflectionPad2d(ZeroPad2d):
    """Pad images with their reflection, without repeating the edge pixels.

    Args:
        padding: Number of pixels to add on each side, an int or (left, right, top, bottom), as in PyTorch.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        ShapeError: If the input is not 4-D, or padding is neither one nor four ints.
        GraphError: If data_layout is unknown.

    Example:
        >>> g = mg.Graph()
        >>> row = g.constant([[[[1.0], [2.0], [3.0]]]])
        >>> g.run({}, mg.nn.ReflectionPad2d((2, 1, 0, 0))(row)).numpy().ravel().tolist()
        [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]
    """

    mode = "reflect"


class ReplicationPad2d(ZeroPad2d):
    """Pad images by repeating their edge pixels.

    Args:
        padding: Number of pixels to add on each side, an int or (left, right, top, bottom), as in PyTorch.
        data_layout: "NHWC" (channels last, the default) or "NCHW".

    Raises:
        ShapeError: If the input is not 4-D, or padding is neither one nor four ints.
        GraphError: If data_layout is unknown.

    Example:
        >>> g = mg.Graph()
        >>> row = g.constant([[[[1.0], [2.0], [3.0]]]])
        >>> g.run({}, mg.nn.ReplicationPad2d((2, 1, 0, 0))(row)).numpy().ravel().tolist()
        [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]
    """

    mode = "clamp_to_edge"
