"""Family arithmetic: two images, element by element. MPSNNAdditionNode and its kin, MPSNNComparisonNode."""

from __future__ import annotations

from typing import Any

from ..._core import ImageNode
from ._node import Node


class _Arithmetic(Node):
    """clamp((primary_scale * left op secondary_scale * right) + bias, minimum_value, maximum_value).

    Keywords: these names, and primary_stride and secondary_stride (x, y, channels), where 0 repeats the image along
    that axis. The gradient does not know of the clamp, as Apple's does not.
    """

    def __init__(self, left: ImageNode, right: ImageNode, *, label: str = "", **attributes: Any) -> None:
        super().__init__([left, right], {k: _plain(v) for k, v in attributes.items()}, label=label)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, list)) else float(value)


class AdditionNode(_Arithmetic):
    """left + right, scaled, shifted and clamped as `_Arithmetic` says. Source: MPSNNAdditionNode.

    >>> nn = mg.nngraph
    >>> node = nn.AdditionNode(nn.ImageNode("left"), nn.ImageNode("right"))
    >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
    >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
    [8. 2. 6.]
    """

    kind_name = "addition"


class SubtractionNode(_Arithmetic):
    """left - right, scaled, shifted and clamped as `_Arithmetic` says. Source: MPSNNSubtractionNode.

    >>> nn = mg.nngraph
    >>> node = nn.SubtractionNode(nn.ImageNode("left"), nn.ImageNode("right"))
    >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
    >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
    [ 4.  0. -2.]
    """

    kind_name = "subtraction"


class MultiplicationNode(_Arithmetic):
    """left * right, scaled, shifted and clamped as `_Arithmetic` says. Source: MPSNNMultiplicationNode.

    >>> nn = mg.nngraph
    >>> node = nn.MultiplicationNode(nn.ImageNode("left"), nn.ImageNode("right"))
    >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
    >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
    [12.  1.  8.]
    """

    kind_name = "multiplication"


class DivisionNode(_Arithmetic):
    """left / right, without a gradient; scaled, shifted, clamped as `_Arithmetic` says. Source: MPSNNDivisionNode.

    >>> nn = mg.nngraph
    >>> node = nn.DivisionNode(nn.ImageNode("left"), nn.ImageNode("right"))
    >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
    >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
    [3.  1.  0.5]
    """

    kind_name = "division"


class ComparisonNode(Node):
    """1 where it holds, else 0. comparison_type: "equal", "not_equal", "less", "less_or_equal", "greater" or
    "greater_or_equal". Source: MPSNNComparisonNode.

    >>> nn = mg.nngraph
    >>> node = nn.ComparisonNode(nn.ImageNode("left"), nn.ImageNode("right"), "less_or_equal")
    >>> x, y = np.float32([[[[6, 1, 2]]]]), np.float32([[[[2, 1, 4]]]])
    >>> print(nn.NNGraph(None, node.result_image)(x, y).numpy().ravel())
    [0. 1. 1.]
    """

    kind_name = "comparison"

    def __init__(
        self, left: ImageNode, right: ImageNode, comparison_type: str = "equal", *, label: str = "", **strides: Any
    ) -> None:
        attributes = {"comparison_type": comparison_type, **{k: list(v) for k, v in strides.items()}}
        super().__init__([left, right], attributes, label=label)
