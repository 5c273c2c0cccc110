"""Everything in the repository that a person reads: paragraphs of pages, docstrings, messages, comments, test names."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CXX = (".cpp", ".h", ".mm", ".inc", ".hpp", ".c", ".swift")
HASH = (".cmake", ".yml", ".yaml", ".toml", ".sh")
_CXX_TOKEN = re.compile(
    r'R"(\w*)\((?P<raw>.*?)\)\1"|"(?P<text>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)\'|//(?P<line>[^\n]*)|/\*(?P<block>.*?)\*/',
    re.DOTALL,
)


@dataclass(frozen=True)
class Passage:
    """A piece of prose and its position."""

    path: str
    line: int
    kind: str  # "page", "docstring", "message", "comment", or "test name"
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}"


def tracked() -> list[str]:
    """Return the paths of all tracked text files, relative to the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def passages(name: str) -> Iterator[Passage]:
    """Yield the prose of one file.

    Args:
        name: Path relative to the repository.
    """
    path = ROOT / name
    if path.suffix == ".md":
        yield from _of_page(name, path.read_text(encoding="utf-8"))
    elif path.suffix in (".py", ".pyi"):
        yield from _of_python(name, path.read_text(encoding="utf-8"))
    elif path.suffix in CXX:
        yield from _of_cxx(name, path.read_text(encoding="utf-8"))
    elif path.suffix in HASH or path.name in ("Makefile", "CMakeLists.txt"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := re.match(r"\s*#\s*(.*)", line):
                yield Passage(name, number, "comment", match[1])


def _of_page(name: str, text: str) -> Iterator[Passage]:
    """Yield a page's lines outside code blocks, without code in backticks, link targets, and markers."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*(`{3,})", line):
            fence = "" if fence and match[1].startswith(fence) else fence or match[1]
        elif not fence:
            yield Passage(name, number, "page", re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", " ", line))


def _of_python(name: str, text: str) -> Iterator[Passage]:
    tree = ast.parse(text)
    docstrings = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for part in body if isinstance(body, list) else []:
            if (
                isinstance(part, ast.Expr)
                and isinstance(part.value, ast.Constant)
                and isinstance(part.value.value, str)
            ):
                docstrings.add(part.value)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Passage(name, node.lineno, "test name", node.name.replace("_", " "))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            kind = "docstring" if node in docstrings else "message"
            prose = re.sub(r"^\s*(>>>|\.\.\.) .*$|`[^`]*`", "", node.value, flags=re.MULTILINE)
            yield Passage(name, node.lineno, kind, " ".join(prose.split()))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(name, token.start[0], "comment", token.string.lstrip("# "))


def _of_cxx(name: str, text: str) -> Iterator[Passage]:
    for match in _CXX_TOKEN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["line"] or match["block"]:
            yield Passage(name, line, "comment", " ".join((match["line"] or match["block"]).split()))
        elif " " in (words := match["text"] or match["raw"] or ""):
            yield Passage(name, line, "message", " ".join(words.split()))
