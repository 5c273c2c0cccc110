"""Base class of the filters: checks the sources and stores attributes, label, and the line of user code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import FilterNode, ImageNode
from ..._display import shown
from ...errors import GraphError
from ...ops._family import user_location


class Node(FilterNode):
    """Base class of all filters. Subclasses set `kind_name`."""

    kind_name = ""

    def __init__(
        self,
        sources: Sequence[Any],
        attributes: dict[str, Any] | None = None,
        *,
        data_source: Any = None,
        label: str = "",
        kind: str | None = None,
        padding_policy: Any = None,
    ) -> None:
        name = kind or self.kind_name
        for source in sources:
            if not isinstance(source, ImageNode):
                hint = "; pass its result_image" if isinstance(source, FilterNode) else ""
                raise GraphError(f"[{name}] sources must be ImageNodes, got {shown(source)}{hint}")
        super().__init__(name, list(sources), attributes or {}, data_source, label, user_location())
        if padding_policy is not None:
            self.padding_policy = padding_policy


class Sizes(Node):
    """Base class of filters with one source image and numeric keyword arguments."""

    def __init__(self, source: ImageNode, *, label: str = "", **attributes: Any) -> None:
        super().__init__([source], attributes, label=label)
