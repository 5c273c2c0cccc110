"""Arithmetic and comparison of two images, element by element: MPSNNAdditionNode and similar, MPSNNComparisonNode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import ImageNode
from ._node import Node


class _Arithmetic(Node):
    """Base of the arithmetic nodes.

    result = clamp((primary_scale * left op secondary_scale * right) + bias, minimum_value, maximum_value), where op is
    the operator of the subclass.
    """

    def __init__(self, left: ImageNode, right: ImageNode, *, label: str = "", **attributes: Any) -> None:
        super().__init__([left, right], {k: _plain(v) for k, v in attributes.items()}, label=label)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, list)) else float(value)


class AdditionNode(_Arithmetic):
    """Element-wise sum of two images, optionally scaled, shifted, and clamped.

    result = clamp(primary_scale * left + secondary_scale * right + bias, minimum_value, maximum_value)

    Args:
        left: Image node of the primary image.
        right: Image node of the secondary image.
        label: Name of the filter in error messages. Empty by default.
        primary_scale: Factor of the left image. Defaults to 1.
        secondary_scale: Factor of the right image. Defaults to 1.
        bias: Number added to the result. Defaults to 0.
        minimum_value: Lower limit of the result. Defaults to the smallest finite float32.
        maximum_value: Upper limit of the result. Defaults to the largest finite float32.
        primary_stride: (x, y, channels), each 0 or 1, for the left image; 0 repeats its first column, row, or channel
            along that axis. Defaults to (1, 1, 1).
        secondary_stride: (x, y, channels), each 0 or 1, for the right image; 0 repeats its first column, row, or
            channel along that axis. Defaults to (1, 1, 1).

    Raises:
        GraphError: If left or right is not an ImageNode, a keyword is unknown, or a stride is not 0 or 1.
        ShapeError: From encode_batch, if the images differ in size along an axis that is not repeated.

    Gradient: as in Apple's API, the gradient ignores the clamp.

    Source: MPSNNAdditionNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.AdditionNode(nn.ImageNode("left"), nn.ImageNode("right"))
        >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
        >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
        [8. 2. 6.]
    """

    kind_name = "addition"


class SubtractionNode(_Arithmetic):
    """Element-wise difference of two images, optionally scaled, shifted, and clamped.

    result = clamp(primary_scale * left - secondary_scale * right + bias, minimum_value, maximum_value)

    Args:
        left: Image node of the primary image.
        right: Image node of the secondary image.
        label: Name of the filter in error messages. Empty by default.
        primary_scale: Factor of the left image. Defaults to 1.
        secondary_scale: Factor of the right image. Defaults to 1.
        bias: Number added to the result. Defaults to 0.
        minimum_value: Lower limit of the result. Defaults to the smallest finite float32.
        maximum_value: Upper limit of the result. Defaults to the largest finite float32.
        primary_stride: (x, y, channels), each 0 or 1, for the left image; 0 repeats its first column, row, or channel
            along that axis. Defaults to (1, 1, 1).
        secondary_stride: (x, y, channels), each 0 or 1, for the right image; 0 repeats its first column, row, or
            channel along that axis. Defaults to (1, 1, 1).

    Raises:
        GraphError: If left or right is not an ImageNode, a keyword is unknown, or a stride is not 0 or 1.
        ShapeError: From encode_batch, if the images differ in size along an axis that is not repeated.

    Gradient: as in Apple's API, the gradient ignores the clamp.

    Source: MPSNNSubtractionNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.SubtractionNode(nn.ImageNode("left"), nn.ImageNode("right"))
        >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
        >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
        [ 4.  0. -2.]
    """

    kind_name = "subtraction"


class MultiplicationNode(_Arithmetic):
    """Element-wise product of two images, optionally scaled, shifted, and clamped.

    result = clamp((primary_scale * left) * (secondary_scale * right) + bias, minimum_value, maximum_value)

    Args:
        left: Image node of the primary image.
        right: Image node of the secondary image.
        label: Name of the filter in error messages. Empty by default.
        primary_scale: Factor of the left image. Defaults to 1.
        secondary_scale: Factor of the right image. Defaults to 1.
        bias: Number added to the result. Defaults to 0.
        minimum_value: Lower limit of the result. Defaults to the smallest finite float32.
        maximum_value: Upper limit of the result. Defaults to the largest finite float32.
        primary_stride: (x, y, channels), each 0 or 1, for the left image; 0 repeats its first column, row, or channel
            along that axis. Defaults to (1, 1, 1).
        secondary_stride: (x, y, channels), each 0 or 1, for the right image; 0 repeats its first column, row, or
            channel along that axis. Defaults to (1, 1, 1).

    Raises:
        GraphError: If left or right is not an ImageNode, a keyword is unknown, or a stride is not 0 or 1.
        ShapeError: From encode_batch, if the images differ in size along an axis that is not repeated.

    Gradient: as in Apple's API, the gradient ignores the clamp.

    Source: MPSNNMultiplicationNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.MultiplicationNode(nn.ImageNode("left"), nn.ImageNode("right"))
        >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
        >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
        [12.  1.  8.]
    """

    kind_name = "multiplication"


class DivisionNode(_Arithmetic):
    """Element-wise quotient of two images, optionally scaled, shifted, and clamped; it has no gradient filter.

    result = clamp((primary_scale * left) / (secondary_scale * right) + bias, minimum_value, maximum_value)

    Args:
        left: Image node of the primary image.
        right: Image node of the secondary image.
        label: Name of the filter in error messages. Empty by default.
        primary_scale: Factor of the left image. Defaults to 1.
        secondary_scale: Factor of the right image. Defaults to 1.
        bias: Number added to the result. Defaults to 0.
        minimum_value: Lower limit of the result. Defaults to the smallest finite float32.
        maximum_value: Upper limit of the result. Defaults to the largest finite float32.
        primary_stride: (x, y, channels), each 0 or 1, for the left image; 0 repeats its first column, row, or channel
            along that axis. Defaults to (1, 1, 1).
        secondary_stride: (x, y, channels), each 0 or 1, for the right image; 0 repeats its first column, row, or
            channel along that axis. Defaults to (1, 1, 1).

    Raises:
        GraphError: If left or right is not an ImageNode, a keyword is unknown, or a stride is not 0 or 1.
        ShapeError: From encode_batch, if the images differ in size along an axis that is not repeated.

    Source: MPSNNDivisionNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.DivisionNode(nn.ImageNode("left"), nn.ImageNode("right"))
        >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
        >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
        [3.  1.  0.5]
    """

    kind_name = "division"


class ComparisonNode(Node):
    """Element-wise comparison of two images: 1 where the comparison holds, 0 elsewhere. It has no gradient filter.

    Args:
        left: Image node of the primary image.
        right: Image node of the secondary image.
        comparison_type: "equal" (the default), "not_equal", "less", "less_or_equal", "greater", or "greater_or_equal".
        label: Name of the filter in error messages. Empty by default.
        primary_stride: (x, y, channels), each 0 or 1, for the left image; 0 repeats its first column, row, or channel
            along that axis. Defaults to (1, 1, 1).
        secondary_stride: (x, y, channels), each 0 or 1, for the right image; 0 repeats its first column, row, or
            channel along that axis. Defaults to (1, 1, 1).

    Raises:
        GraphError: If left or right is not an ImageNode, comparison_type or a keyword is unknown, or a stride is not 0
            or 1.
        ShapeError: From encode_batch, if the images differ in size along an axis that is not repeated.

    Source: MPSNNComparisonNode.

    Example:
        >>> nn = mg.nngraph
        >>> node = nn.ComparisonNode(nn.ImageNode("left"), nn.ImageNode("right"), "less_or_equal")
        >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
        >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
        [0. 1. 1.]
    """

    kind_name = "comparison"

    def __init__(
        self,
        left: ImageNode,
        right: ImageNode,
        comparison_type: str = "equal",
        *,
        label: str = "",
        primary_stride: Sequence[int] = (1, 1, 1),
        secondary_stride: Sequence[int] = (1, 1, 1),
    ) -> None:
        strides = {"primary_stride": list(primary_stride), "secondary_stride": list(secondary_stride)}
        super().__init__([left, right], {"comparison_type": comparison_type, **strides}, label=label)
