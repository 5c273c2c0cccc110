"""Writes the table of nodes at the end of docs/nngraph.md: node, gradient, devices, first macOS; reasons below.

    python tools/nngraph.py [--check]

What nodes there are comes from the installed package. The text above the mark is written by hand and stays.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mpsgraph import _core, nngraph

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "nngraph.md"
MARK = "<!-- Made by `make docs` from the table of nodes; do not edit below. -->\n"
COLUMNS = ["node", "gradient filter", "CPU", "Metal", "Apple's class", "macOS"]
INTRODUCTION = """## All nodes

- **gradient filter**: *yes*, or *none* with the reason below.
- **CPU**: *yes*: lowered to operations of the core graph, with their gradients.
- **Metal**: *by MPSGraph*: so far as operations of MPSGraph; Apple's own nodes are to come.
- **macOS**: the first that has Apple's class.
"""


def metal(row: dict[str, str]) -> str:
    """What device metal can do with a node: to be answered by the Metal backend when it has nodes."""
    return "by MPSGraph"


def classes() -> dict[str, str]:
    """The public class of each kind."""
    public = {name: getattr(nngraph, name) for name in nngraph.__all__ if name.endswith("Node")}
    return {c.kind_name: name for name, c in public.items() if getattr(c, "kind_name", "")}


def gradient(row: dict[str, str]) -> str:
    return "yes" if row["apple_gradient"] else "none"


def document() -> str:
    rows, named = _core.nn_node_definitions(), classes()
    parts = [INTRODUCTION]
    for family in dict.fromkeys(row["family"] for row in rows):
        of_family = [row for row in rows if row["family"] == family]
        lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
        for row in of_family:
            cells = [f"`{named[row['name']]}`", gradient(row), "yes", metal(row), f"`{row['apple']}`"]
            lines.append("| " + " | ".join([*cells, row["first_macos"]]) + " |")
        parts.append("\n".join([f"### {family.replace('_', ' ').capitalize()}", "", *lines]) + "\n")
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if not row["apple_gradient"]:
            reasons.setdefault(row["without"], []).append(f"`{named[row['name']]}`")
    head = [
        "### Why some have no gradient filter",
        "",
        "Asked for one they raise UnsupportedError with this reason.",
        "",
    ]
    table = ["| why | nodes |", "|---|---|", *(f"| {why} | {', '.join(who)} |" for why, who in reasons.items())]
    parts.append("\n".join([*head, *table]) + "\n")
    return "\n".join(parts)


def main() -> None:
    written = DOCUMENT.read_text()
    by_hand, mark, _ = written.partition(MARK)
    text = by_hand.rstrip("\n") + "\n\n" + MARK + "\n" + document()
    if "--check" not in sys.argv:
        DOCUMENT.write_text(text)
    elif not mark or written != text:
        sys.exit("docs/nngraph.md is out of date: make docs")


if __name__ == "__main__":
    main()
