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
    """left + right, scaled, shifted and clamped as `_Arithmetic` says. Source: MPSNNAdditionNode."""

    kind_name = "addition"


class SubtractionNode(_Arithmetic):
    """left - right, scaled, shifted and clamped as `_Arithmetic` says. Source: MPSNNSubtractionNode."""

    kind_name = "subtraction"


class MultiplicationNode(_Arithmetic):
    """left * right, scaled, shifted and clamped as `_Arithmetic` says. Source: MPSNNMultiplicationNode."""

    kind_name = "multiplication"


class DivisionNode(_Arithmetic):
    """left / right, without a gradient; scaled, shifted, clamped as `_Arithmetic` says. Source: MPSNNDivisionNode."""

    kind_name = "division"


class ComparisonNode(Node):
    """1 where it holds, else 0. comparison_type: "equal", "not_equal", "less", "less_or_equal", "greater" or
    "greater_or_equal". Source: MPSNNComparisonNode."""

    kind_name = "comparison"

    def __init__(
        self, left: ImageNode, right: ImageNode, comparison_type: str = "equal", *, label: str = "", **strides: Any
    ) -> None:
        attributes = {"comparison_type": comparison_type, **{k: list(v) for k, v in strides.items()}}
        super().__init__([left, right], attributes, label=label)
