"""Write the tables of nodes at the end of docs/nngraph.md: gradient filters, devices, macOS versions, and limits.

    python tools/nngraph.py [--check]

The list of nodes comes from the installed package. The text above the marker is written by hand and is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mpsgraph import _core, nngraph

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "nngraph.md"
MARK = "<!-- Made by `make docs` from the table of nodes; do not edit below. -->\n"
COLUMNS = ["node", "gradient filter", "CPU", "Metal", "Apple's class", "macOS"]
INTRODUCTION = """## All nodes

- **gradient filter**: *yes* or *none*; the reasons are [below](#nodes-without-a-gradient-filter).
- **CPU**: *yes* if the node is lowered to operations of the core graph, together with its gradient.
- **Metal**: *yes* if Apple's class is used, tested against the mock of Apple's frameworks. A number refers to the
  [limits](#limits-on-device-metal) below.
- **macOS**: the first version that has Apple's class.
"""


# What device metal does not support, by node name; tests/harness/unsupported.py expects the same limits.
LIMITS = {
    "dropout_gradient": "Not supported: states can only be passed between graphs on device cpu.",
    "concatenation": "The channel count of every image must be a multiple of four, because the channels that Apple "
    "adds to other images are not zero on a Mac.",
    "convolution": "In grouped convolutions, each group needs a multiple of four input channels. Depthwise "
    "convolutions need as many outputs as inputs.",
    "convolution_transpose": "Only centered padding policies, and `same` with odd kernel sizes: Apple does not "
    "document the window positions for other cases. Groups and dilation are not supported on any device.",
    "lanczos_scale": "No downscaling: Apple does not document whether the filter kernel widens when an image shrinks.",
    "loss": "No Kullback-Leibler divergence: the gradient that Apple documents is not its derivative.",
    "forward_loss": "The same losses as `LossNode`. No reduction across the batch. Labels and weights must have the "
    "shape of the images. Weights have no gradient.",
    "yolo_loss": "Boxes need at least one class.",
}


def metal(row: dict[str, str]) -> str:
    """Return the cell of the Metal column, with the number of the node's limit if it has one."""
    return f"yes, {list(LIMITS).index(row['name']) + 1}" if row["name"] in LIMITS else "yes"


def classes() -> dict[str, str]:
    """Return the public class names by node kind."""
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
        title = family.replace("_", " ").capitalize().replace("Yolo", "YOLO")
        parts.append("\n".join([f"### {title}", "", *lines]) + "\n")
    numbered = [f"{i}. `{named[name]}`: {text}" for i, (name, text) in enumerate(LIMITS.items(), 1)]
    limits = [
        "### Limits on device metal",
        "",
        "Nodes that exceed these limits raise UnsupportedError on the Metal device.",
        "",
        *numbered,
    ]
    parts.append("\n".join(limits) + "\n")
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if not row["apple_gradient"]:
            reasons.setdefault(row["without"], []).append(f"`{named[row['name']]}`")
    head = [
        "### Nodes without a gradient filter",
        "",
        "For these nodes, `gradient_filter` raises UnsupportedError with the reason.",
        "",
    ]
    table = ["| reason | nodes |", "|---|---|", *(f"| {why} | {', '.join(who)} |" for why, who in reasons.items())]
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
