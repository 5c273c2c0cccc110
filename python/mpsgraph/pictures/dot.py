"""Graphs as Graphviz text."""

from __future__ import annotations

from collections.abc import Sequence

from .nodes import COLOURS, Node


def to_dot(nodes: Sequence[Node]) -> str:
    """Return Graphviz text with edges from operands down to results and dashed edges for control dependencies."""
    lines = [
        "digraph {",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=8, color="#555555"];',
    ]
    for i, node in enumerate(nodes):
        text = "\\n".join(_escaped(line) for line in node.lines)
        lines.append(f'  n{i} [label="{text}", fillcolor="{COLOURS[node.part]}"];')
    for i, node in enumerate(nodes):
        lines += [f'  n{operand} -> n{i} [label="{_escaped(kind)}"];' for operand, kind in node.operands]
        lines += [f"  n{before} -> n{i} [style=dashed];" for before in node.before]
    return "\n".join([*lines, "}", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
