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
- **Metal**: *yes*: Apple's class, checked over the mock of Apple's frameworks; a number: with a limit, below.
- **macOS**: the first that has Apple's class.
"""


# What device metal refuses of a node, by its name: tests/harness/unsupported.py expects it.
LIMITS = {
    "dropout_gradient": "Not yet: states go from graph to graph on device cpu only.",
    "concatenation": "Takes images whose channels are multiples of four. What fills up others is not zero on a Mac.",
    "convolution": "Groups have a multiple of four input channels each; a depthwise convolution has as many outputs as "
    "inputs.",
    "convolution_transpose": "Takes centred padding policies, and `same` with odd kernels only: where the windows of "
    "others lie is not documented. No groups and no dilation, on any device.",
    "lanczos_scale": "Does not shrink: whether Apple's kernel widens then is not documented.",
    "loss": "Not the Kullback-Leibler divergence, of which Apple states a gradient that is not its derivative.",
    "forward_loss": "As a loss node; images are not reduced across the batch; labels and weights have a number for "
    "each of the images'; weights have no gradient.",
    "yolo_loss": "Boxes have one class at least.",
}


def metal(row: dict[str, str]) -> str:
    """What device metal can do with a node."""
    return f"yes, {list(LIMITS).index(row['name']) + 1}" if row["name"] in LIMITS else "yes"


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
    numbered = [f"{i}. `{named[name]}`: {text}" for i, (name, text) in enumerate(LIMITS.items(), 1)]
    limits = ["### Limits on device metal", "", "What goes beyond raises UnsupportedError.", "", *numbered]
    parts.append("\n".join(limits) + "\n")
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
