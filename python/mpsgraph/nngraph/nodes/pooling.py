"""Pooling: MPSCNNPoolingMaxNode, MPSCNNPoolingAverageNode, MPSCNNPoolingL2NormNode, and MPSCNNDilatedPoolingMaxNode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import ImageNode
from ._node import Node


def _two(value: int | Sequence[int]) -> tuple[int, int]:
    """Return a pair (x, y). A single number is used for both."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class _Pooling(Node):
    """Base of the pooling nodes; filter_size and stride are one number or (x, y), and stride defaults to
    filter_size.
    """

    def __init__(
        self,
        source: ImageNode,
        filter_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        *,
        padding_policy: Any = None,
        label: str = "",
        **attributes: Any,
    ) -> None:
        (width, height), (x, y) = _two(filter_size), _two(filter_size if stride is None else stride)
        sizes = {"kernel_width": width, "kernel_height": height, "stride_in_pixels_x": x, "stride_in_pixels_y": y}
        super().__init__([source], {**sizes, **attributes}, label=label, padding_policy=padding_policy)


class PoolingMaxNode(_Pooling):
    """Max pooling: the largest value in each window.

    Args:
        source: Image node that the filter reads.
        filter_size: Size of the window, in pixels; one number or (x, y).
        stride: Distance between windows, in pixels; one number or (x, y). None (the default) means filter_size.
        padding_policy: PaddingPolicy, or "same", "valid" or "full". None (the default) means PaddingPolicy(), which is
            "same" with an odd pixel of padding at the top left.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Sizes by Apple's names (kernel_width, kernel_height, stride_in_pixels_x, stride_in_pixels_y),
            which override filter_size and stride.

    Raises:
        GraphError: If source is not an ImageNode, a size is less than 1, or a keyword is unknown.
        ShapeError: From encode_batch, if a window does not fit into the images or lies entirely in the padding.

    Gradient: to the first maximum of each window.

    Source: MPSCNNPoolingMaxNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.PoolingMaxNode(nn.ImageNode("x"), 2)
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [6.]
    """

    kind_name = "pooling_max"


class PoolingAverageNode(_Pooling):
    """Average pooling: the mean of the pixels of each window that are inside the image.

    Args:
        source: Image node that the filter reads.
        filter_size: Size of the window, in pixels; one number or (x, y).
        stride: Distance between windows, in pixels; one number or (x, y). None (the default) means filter_size.
        padding_policy: PaddingPolicy, or "same", "valid" or "full". None (the default) means PaddingPolicy(), which is
            "same" with an odd pixel of padding at the top left.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Sizes by Apple's names (kernel_width, kernel_height, stride_in_pixels_x, stride_in_pixels_y),
            which override filter_size and stride.

    Raises:
        GraphError: If source is not an ImageNode, a size is less than 1, or a keyword is unknown.
        ShapeError: From encode_batch, if no window fits into the images.

    Source: MPSCNNPoolingAverageNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.PoolingAverageNode(nn.ImageNode("x"), 2)
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [3.]
    """

    kind_name = "pooling_average"


class PoolingL2NormNode(_Pooling):
    """L2-norm pooling: the square root of the sum of squares in each window.

    Args:
        source: Image node that the filter reads.
        filter_size: Size of the window, in pixels; one number or (x, y).
        stride: Distance between windows, in pixels; one number or (x, y). None (the default) means filter_size.
        padding_policy: PaddingPolicy, or "same", "valid" or "full". None (the default) means PaddingPolicy(), which is
            "same" with an odd pixel of padding at the top left.
        label: Name of the filter in error messages. Empty by default.
        **attributes: Sizes by Apple's names (kernel_width, kernel_height, stride_in_pixels_x, stride_in_pixels_y),
            which override filter_size and stride.

    Raises:
        GraphError: If source is not an ImageNode, a size is less than 1, or a keyword is unknown.
        ShapeError: From encode_batch, if a window does not fit into the images or lies entirely in the padding.

    Source: MPSCNNPoolingL2NormNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.PoolingL2NormNode(nn.ImageNode("x"), 2)
        >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
        [7.071]
    """

    kind_name = "pooling_l2_norm"


class DilatedPoolingMaxNode(_Pooling):
    """Max pooling with dilated windows, whose pixels are dilation_rate pixels apart.

    A window whose pixels are all outside the image has the result -infinity.

    Args:
        source: Image node that the filter reads.
        filter_size: Number of pixels in the window along each axis; one number or (x, y).
        stride: Distance between windows, in pixels; one number or (x, y). Defaults to 1.
        dilation_rate: Distance between the pixels of a window; one number or (x, y). Defaults to 1.
        padding_policy: PaddingPolicy, or "same", "valid" or "full". None (the default) means PaddingPolicy(), which is
            "same" with an odd pixel of padding at the top left.
        label: Name of the filter in error messages. Empty by default.

    Raises:
        GraphError: If source is not an ImageNode, or a size is less than 1.
        ShapeError: From encode_batch, if a window does not fit into the images or lies entirely in the padding.

    Source: MPSCNNDilatedPoolingMaxNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.DilatedPoolingMaxNode(nn.ImageNode("x"), 2, 1, 2)
        >>> x = np.float32([[1, 2, 3], [6, 4, 5], [9, 7, 8]]).reshape(1, 3, 3, 1)
        >>> print(nn.NNGraph(None, node.result_image)(x).numpy()[0, :, :, 0])
        [[4. 6. 4.]
         [7. 9. 7.]
         [4. 6. 4.]]
    """

    kind_name = "dilated_pooling_max"

    def __init__(
        self,
        source: ImageNode,
        filter_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        dilation_rate: int | Sequence[int] = 1,
        *,
        padding_policy: Any = None,
        label: str = "",
    ) -> None:
        x, y = _two(dilation_rate)
        super().__init__(
            source,
            filter_size,
            stride,
            padding_policy=padding_policy,
            label=label,
            dilation_rate_x=x,
            dilation_rate_y=y,
        )
