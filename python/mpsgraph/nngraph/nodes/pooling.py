"""Family pooling: MPSCNNPoolingMaxNode, …AverageNode, …L2NormNode, MPSCNNDilatedPoolingMaxNode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import ImageNode
from ._node import Node


def _two(value: int | Sequence[int]) -> tuple[int, int]:
    """(x, y) of one number or two."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


class _Pooling(Node):
    """filter_size and stride: one number, or (x, y); a stride of None is the filter's size."""

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
    """The largest of each window; the gradient goes to the first of them. Source: MPSCNNPoolingMaxNode.

    >>> nn = mg.nngraph
    >>> node = nn.PoolingMaxNode(nn.ImageNode("x"), 2)
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [6.]
    """

    kind_name = "pooling_max"


class PoolingAverageNode(_Pooling):
    """The mean of the pixels of each window that lie in the image. Source: MPSCNNPoolingAverageNode.

    >>> nn = mg.nngraph
    >>> node = nn.PoolingAverageNode(nn.ImageNode("x"), 2)
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [3.]
    """

    kind_name = "pooling_average"


class PoolingL2NormNode(_Pooling):
    """The root of the sum of squares of each window. Source: MPSCNNPoolingL2NormNode.

    >>> nn = mg.nngraph
    >>> node = nn.PoolingL2NormNode(nn.ImageNode("x"), 2)
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 2, 2, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [7.071]
    """

    kind_name = "pooling_l2_norm"


class DilatedPoolingMaxNode(_Pooling):
    """The largest of every dilation_rate-th pixel of each window. Source: MPSCNNDilatedPoolingMaxNode.

    >>> nn = mg.nngraph
    >>> node = nn.DilatedPoolingMaxNode(nn.ImageNode("x"), 2, 1, 2)
    >>> x = np.float32([1, 2, 3, 6]).reshape(1, 1, 4, 1)
    >>> print(nn.NNGraph(None, node.result_image)(x).numpy().ravel().round(3))
    [-inf -inf -inf -inf]
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
