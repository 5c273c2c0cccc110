"""HTML tables of graphs and models, for notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape

from .._core import Graph, Tensor
from .nodes import type_of

MOST = 20


def graph_table(graph: Graph) -> str:
    """Return a table of placeholders, variables, and the number of operations of each kind."""
    operations = graph.operations
    kinds = Counter(o.kind for o in operations if o.kind not in ("placeholder", "variable", "constant"))
    common = [(kind, str(count), "") for kind, count in kinds.most_common()]
    parts = [
        _section("placeholders", _types(graph.placeholders)),
        _section("variables", _types(graph.variables)),
        _section("operations", common),
    ]
    return _table(f"Graph of {graph.operation_count} operations", parts)


def model_table(inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> str:
    """Return a table of inputs, outputs, and parameters with their types."""
    named = {"inputs": inputs, "outputs": outputs, "parameters": parameters}
    parts = [_section(what, [(n, type_of(t), t.operation.kind) for n, t in ts.items()]) for what, ts in named.items()]
    return _table("Model", parts)


def _types(tensors: Iterable[Tensor]) -> list[tuple[str, str, str]]:
    return [(tensor.name, type_of(tensor), tensor.operation.location) for tensor in tensors]


def _section(title: str, rows: list[tuple[str, str, str]]) -> str:
    """Return a heading and its rows as HTML. Rows after the first MOST are only counted."""
    if not rows:
        return ""
    left = ' style="text-align: left"'
    shown = "".join("<tr>" + "".join(f"<td{left}>{escape(c)}</td>" for c in row) + "</tr>" for row in rows[:MOST])
    more = f"<tr><td{left} colspan=3>… and {len(rows) - MOST} more</td></tr>" if len(rows) > MOST else ""
    return f"<tr><th{left} colspan=3>{len(rows)} {escape(title)}</th></tr>{shown}{more}"


def _table(title: str, parts: Iterable[str]) -> str:
    return f'<table><caption style="caption-side: top">{escape(title)}</caption><tbody>{"".join(parts)}</tbody></table>'
