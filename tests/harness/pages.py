"""Code blocks in README.md and docs/, and what is needed to run them.

The Python blocks of a page form one program, which runs from top to bottom in a separate folder. HTML comments, which
are not visible on the rendered page, control how blocks run:

- `<!-- unseen: ... -->` contains code of the program that would only distract readers.
- `<!-- needs: torch -->` before a block: it runs only where that package is installed (tests/pytorch). Elsewhere it is
  only compiled.
- `<!-- compare: PyTorch -->` ... `<!-- end -->` contains two blocks, one for the other library and one for ours. The
  blocks of the other library form a separate program, which runs where that library is installed.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"PyTorch": "torch", "Keras": "keras"}
"""Import names of the libraries that pages compare ours with."""
_PART = re.compile(
    r"<!-- unseen:\n(?P<unseen>.*?)-->\n"
    r"|<!-- needs: (?P<needs>\w+) -->\n"
    r"|<!-- compare: (?P<peer>\w+) -->\n"
    r"|^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    page: Path
    line: int  # Line of the first line of code.
    language: str
    code: str
    needs: str = ""  # A package that the regular test environment does not include.
    of_others: bool = False  # Whether the block shows the other library in a comparison.

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    def compiled(self) -> object:
        """Compile the code with the line numbers of the page, which a SyntaxError then shows."""
        return compile("\n" * (self.line - 1) + self.code, str(self.page), "exec")


def pages() -> list[Path]:
    """Return README.md and all pages in docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """Return all code blocks of a page in order."""
    text, found, needs, peer, first = page.read_text(), list[Block](), "", "", False
    for match in _PART.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        if match["unseen"] is not None:
            found.append(Block(page, line, "python", match["unseen"]))
        elif match["needs"]:
            needs = match["needs"]
        elif match["peer"]:
            peer, first = PACKAGES[match["peer"]], True
        else:
            found.append(Block(page, line, match["language"].strip(), match["code"], peer if first else needs, first))
            needs, first = "", False
    return found


def run(program: list[Block]) -> str:
    """Run blocks one after the other in one namespace and return what they print."""
    names: dict[str, object] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for block in program:
            exec(block.compiled(), names)
    return printed.getvalue()
