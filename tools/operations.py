"""Write docs/operations.md: each operation with its derivatives, element types, kernels, and Apple's selectors.

    python tools/operations.py [--check]

The operations come from the installed package, element types and second derivatives from the test cases, kernels from
the source code of the CPU engine, and selectors from apple_operations.txt. Support on device metal is determined by
compiling the test cases over the mock of Apple's frameworks, which must be built first with `make mock`.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "operations.md"
sys.path.insert(0, str(ROOT / "tests"))
os.environ["MPSGRAPH_TEST_DEVICE"] = "metal"

from harness import device  # noqa: E402, I001 (before all that imports mpsgraph)
import cases  # noqa: E402
from harness.case import ANY, COMPLEX, FLOATS, INTEGERS, Case, typed  # noqa: E402
from harness.running import build, feeds  # noqa: E402
from harness.unsupported import GRADIENTS, REASONS  # noqa: E402
from mpsgraph import Graph, UnsupportedError, _core  # noqa: E402

GROUPS = {"floats": FLOATS, "integers": INTEGERS, "bool": ("bool",), "complex": COMPLEX}
COLUMNS = ["operation", "gradient", "second order", "element types", "CPU", "Metal", "MPSGraph", "macOS"]
INTRODUCTION = """# Operations

This page lists all operations of a graph with their gradients, dtypes, and support on each device. `make docs`
generates the page from the operation table, so do not edit it. The columns are:

- **gradient**: *rule* if the operation defines its derivative, *composition* if the derivative follows from the
  operations that it is composed of, *zero* if the operation is constant almost everywhere, or – if it lacks a
  floating-point result or a floating-point operand.
- **second order**: whether the tests compare second derivatives with central differences.
- **element types**: the dtypes of operands that accept more than one dtype. *floats* are float32, float16, bfloat16,
  and float64; *complex* is complex64 and complex128. float64 and complex128 are only available on the CPU.
- **CPU**: *kernel*, *fused* (element-wise; shares one loop with neighboring operations), *composition*, or *built in*
  (memory layout, views, control flow).
- **Metal**: *MPSGraph* (uses MPSGraph's own operation), *composition*, *built in*, or – if the operation is not
  supported, for the reason [below](#not-supported-on-metal). The first macOS version with full support follows if it is
  newer than 13.3.
- **MPSGraph**, **macOS**: the first corresponding MPSGraph selector, the number of further selectors, and the first
  macOS version that has the first selector.
"""


def apple() -> dict[str, tuple[str, list[str]]]:
    """Return the first macOS version and the selectors of each operation kind."""
    lines = (ROOT / "tools" / "apple_operations.txt").read_text().splitlines()
    parts = [line.split() for line in lines if line and not line.startswith("#")]
    return {kind: (version, selectors) for kind, version, *selectors in parts}


def kernels() -> set[str]:
    """Return every operation kind named in the source code of the CPU engine."""
    files = [path for pattern in ("*.cpp", "*.h") for path in (ROOT / "src/backends/cpu").rglob(pattern)]
    texts = [re.sub(r'^const Kernels \w+\("\w+"', "", path.read_text(), flags=re.MULTILINE) for path in files]
    return {name for text in texts for name in re.findall(r'"(\w+)"', text)}


def element_types(kind: str) -> str:
    of_kind = [c for c in cases.ALL if c.operation == kind and any(typed(x) for x in c.inputs)]
    taken = {d for c in of_kind for d in c.dtypes}
    if taken >= set(ANY):
        return "all"
    whole = [name for name, members in GROUPS.items() if taken >= set(members)]
    single = [d for d in ANY if d in taken and not any(d in GROUPS[name] for name in whole)]
    return ", ".join(whole + single) or "–"


SYSTEMS = (13.3, 14.0, 14.4, 15.0, 15.2, 26.0, 26.4)  # macOS versions that added MPSGraph features


def compiled(case: Case, dtype: str) -> list[str] | None:
    """Return the kernel names of a case compiled for device metal, or None if the device does not support it."""
    try:
        built, arrays = build(case, dtype), feeds(case.inputs, dtype)
        feed_types = {p: a.shape for p, a in zip(built.placeholders, arrays, strict=True)}
        return built.graph.compile(feed_types, built.results).kernel_names()
    except UnsupportedError:
        return None


def metal(kind: str) -> str:
    of_kind = [c for c in cases.ALL if c.operation == kind and c.id not in REASONS and kind not in REASONS]
    if not of_kind:
        return "–" if kind in REASONS else "built in"
    case = of_kind[0]
    dtype = (
        next((d for d in case.dtypes if device.has(d)), "float32") if any(typed(x) for x in case.inputs) else "float32"
    )
    mock = device.mock()
    for system in SYSTEMS:
        mock.mock_set_macos_version(ctypes.c_double(system))
        names = compiled(case, dtype)
        if names is not None:
            native = any(re.sub(r"_\d+$", "", name) == kind for name in names)
            return ("MPSGraph" if native else "composition") + ("" if system == SYSTEMS[0] else f", {system}")
    return "–"


def gradient(d: dict[str, Any]) -> str:
    if d["has_gradient"]:
        return "rule"
    return "zero" if d["gradient_is_zero"] else "composition" if d["is_composite"] else "–"


def twice() -> set[str]:
    """Return the operation kinds whose second derivatives are tested."""
    return {c.operation for c in cases.ALL if c.gradient and c.exact_dtypes and c.float_inputs()}


def row(d: dict[str, Any], known: set[str], again: set[str], selectors: dict[str, tuple[str, list[str]]]) -> str:
    kind = d["name"]
    engine = (
        "fused"
        if d["elementwise"]
        else "kernel"
        if kind in known
        else "composition"
        if d["is_composite"]
        else "built in"
    )
    version, names = selectors.get(kind, ("–", []))
    source = f"`{names[0]}`" + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else "–"
    derived = gradient(d)
    second = "yes" if kind in again and derived in ("rule", "composition") else "–"
    return (
        "| "
        + " | ".join([f"`{kind}`", derived, second, element_types(kind), engine, metal(kind), source, version])
        + " |"
    )


def of_several(kinds: set[str], selectors: dict[str, tuple[str, list[str]]]) -> str:
    """Return the table of MPSGraph operations that are Graph methods which create several operations."""
    lines = [
        f"| `{name}` | `{names[0]}`" + (f" and {len(names) - 1} more" if len(names) > 1 else "") + f" | {version} |"
        for name, (version, names) in selectors.items()
        if name not in kinds and hasattr(Graph, name)
    ]
    return "\n".join(
        ["## Methods that create several operations", "", "| method | MPSGraph | macOS |", "|---|---|---|", *lines]
    )


def refused() -> str:
    """Return the table of reasons for refusals on device metal, with the operations that have such cases."""
    by_reason: dict[str, set[str]] = {}
    for name, reason in REASONS.items():
        by_reason.setdefault(reason, set()).add(name.split("-")[0])
    for name, reason in GRADIENTS.items():
        by_reason.setdefault(reason, set()).add("derivative of " + name.split("-")[0])
    lines = [
        f"| {reason} | " + ", ".join(f"`{kind}`" if " " not in kind else kind for kind in sorted(kinds)) + " |"
        for reason, kinds in by_reason.items()
    ]
    head = ["## Not supported on Metal", "", "The following cases raise an UnsupportedError on the Metal device.", ""]
    return "\n".join([*head, "| reason | in some cases of |", "|---|---|", *lines])


def document() -> str:
    definitions = [d for d in _core.definitions() if not d["internal"]]
    known, again, selectors = kernels(), twice(), apple()
    parts = [INTRODUCTION]
    for family in sorted({d["family"] for d in definitions}):
        rows = [row(d, known, again, selectors) for d in definitions if d["family"] == family]
        head = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
        parts.append("\n".join([f"## {family.replace('_', ' ').capitalize()}", "", *head, *rows]) + "\n")
    parts.append(of_several({d["name"] for d in definitions}, selectors) + "\n")
    parts.append(refused() + "\n")
    return "\n".join(parts)


def main() -> None:
    text = document()
    if "--check" not in sys.argv:
        DOCUMENT.write_text(text)
    elif not DOCUMENT.exists() or DOCUMENT.read_text() != text:
        sys.exit("docs/operations.md is out of date: make docs")


if __name__ == "__main__":
    main()
