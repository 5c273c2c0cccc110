"""The rows of witnesses.txt.

For each name of Apple's frameworks that the Metal backend uses, a row lists code that uses it on Macs, or a probe of
the self-test, or the reason why there is neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).parent / "witnesses.txt"
PROBES = Path(__file__).resolve().parents[2] / "src" / "backends" / "metal"


@dataclass(frozen=True)
class Row:
    name: str
    of: str  # classes and protocols, or "constant" or "function"
    witnesses: tuple[str, ...]
    remark: str

    @property
    def is_selector(self) -> bool:
        return self.of not in ("constant", "function")

    @property
    def kind(self) -> str:
        """Return "witness", "probe", "ours", "unsent", or "open"."""
        first = self.witnesses[0].split()[0]
        return first if first in ("probe", "ours", "unsent", "open") else "witness"

    @property
    def probes(self) -> list[str]:
        """Return the probes that the row names, including those in its remark for some of its classes."""
        return re.findall(r"\bprobe (\w+)", "; ".join([*self.witnesses, self.remark]))


def rows(path: Path = PATH) -> list[Row]:
    found = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, of, witnesses, *remark = line.split(" | ")
            found.append(Row(name, of, tuple(witnesses.split("; ")), *(remark or [""])))
    return found


def sources(path: Path = PATH) -> dict[str, str]:
    """Return the descriptions of the sources by their short names."""
    return dict(re.findall(r"^#   ([\w-]+): (.+)$", path.read_text(), re.MULTILINE))


def probes() -> set[str]:
    """Return the names of the self-test's probes in the sources of the backend."""
    text = "".join(path.read_text() for path in PROBES.glob("probes*.mm"))
    named = re.findall(r'probe\(\s*device, "(\w+)"|^ +\{"(\w+)", "', text, re.MULTILINE)
    return {a or b for a, b in named}
