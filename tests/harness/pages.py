"""Code on the pages: what stands in fences of README.md and docs/, and what it takes to run it.

A page's Python blocks are one program, read from top to bottom, in a folder of its own. Comments in a page,
which nobody sees who reads it, say what else there is to know:

- `<!-- unseen: ... -->` is code that belongs to the program and would only keep readers from the point;
- `<!-- needs: torch -->` before a block: it runs where that package is installed (tests/pytorch), and is compiled here;
- `<!-- beside: PyTorch -->` ... `<!-- end -->` holds two blocks, the other library's and ours; the former are a program
  of their own, which runs where that library is.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"PyTorch": "torch", "Keras": "keras"}
"""What a library that stands beside ours is imported as."""
_PART = re.compile(
    r"<!-- unseen:\n(?P<unseen>.*?)-->\n"
    r"|<!-- needs: (?P<needs>\w+) -->\n"
    r"|<!-- beside: (?P<beside>\w+) -->\n"
    r"|^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A piece of code on a page."""

    page: Path
    line: int  # of its first line of code
    language: str
    code: str
    needs: str = ""  # a package that is no part of what tests are run with
    of_others: bool = False  # the other library's side of two

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    def compiled(self) -> object:
        """Errors: SyntaxError with the page's own line numbers."""
        return compile("\n" * (self.line - 1) + self.code, str(self.page), "exec")


def pages() -> list[Path]:
    """README.md and everything in docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """All code of a page in its order."""
    text, found, needs, peer, first = page.read_text(), list[Block](), "", "", False
    for match in _PART.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        if match["unseen"] is not None:
            found.append(Block(page, line, "python", match["unseen"]))
        elif match["needs"]:
            needs = match["needs"]
        elif match["beside"]:
            peer, first = PACKAGES[match["beside"]], True
        else:
            found.append(Block(page, line, match["language"].strip(), match["code"], peer if first else needs, first))
            needs, first = "", False
    return found


def run(program: list[Block]) -> str:
    """Runs blocks one after the other in one namespace. Result: what they print."""
    names: dict[str, object] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for block in program:
            exec(block.compiled(), names)
    return printed.getvalue()
