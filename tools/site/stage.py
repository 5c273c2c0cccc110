"""Write the site's pages to build/site/source: docs/, the project's own pages, the reference, and sources.

The pages are Markdown that also reads well without the site. This module adds what only the site has: two code blocks
side by side, the gallery as cards, references to the API, and a page for each file of the repository that a page links
to, so that no link leaves the site. Sphinx turns the result into HTML (conf.py).
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

# Sections of the navigation, in order. Missing pages are skipped; a page of docs/ that no section lists goes to Guides.
NAVIGATION = {
    "Start": ["install.md", "quickstart.md", "from_pytorch.md", "from_keras.md", "examples/README.md"],
    "Guides": [
        *(
            "numpy.md",
            "transforms.md",
            "training.md",
            "data.md",
            "guides/layers.md",
            "guides/losses.md",
            "guides/steps.md",
        ),
        *("guides/checkpoints.md", "weights.md", "language_models.md", "fine_tuning_language_models.md"),
        *("mixed_precision.md", "memory.md", "debugging.md"),
        "profiler.md",
        *("guides/fine_tuning.md", "guides/reinforcement.md", "guides/custom_gradients.md", "guides/sweeps.md"),
        *("guides/deployment.md", "packages.md", "inference.md", "tool.md", "metal.md", "selftest.md"),
        *("custom_operations.md", "distributed.md", "troubleshooting.md"),
    ],
    "Other programs": [
        *(
            "torch.md",
            "jax.md",
            "xla.md",
            "clusters.md",
            "onnx.md",
            "coreml.md",
            "c.md",
            "cpp.md",
            "swift.md",
            "nngraph.md",
        ),
    ],
    "Apple's talks": [
        *("talks/wwdc18.md", "talks/wwdc20.md", "talks/wwdc22.md", "talks/wwdc23.md", "talks/nsspain23.md"),
    ],
    "Reference": ["reference/index.md", "layers.md", "operations.md", "compatibility.md"],
    "Numbers": ["comparison.md", "performance.md", "measurements.md", "metal-steps.md"],
    "Project": [
        *("project/CHANGELOG.md", "project/ARCHITECTURE.md", "project/CONTRIBUTING.md", "project/tests.md"),
        *("decisions/README.md",),
    ],
}
PROJECT = {
    "CHANGELOG.md": "project/CHANGELOG.md",
    "ARCHITECTURE.md": "project/ARCHITECTURE.md",
    "CONTRIBUTING.md": "project/CONTRIBUTING.md",
    "tests/README.md": "project/tests.md",
    "tests/mock/README.md": "project/mock.md",
    "README.md": "index.md",
    "docs/decisions": "decisions/README.md",
    "examples": "examples/README.md",
}
"""Pages outside docs/, and folders, with their paths on the site."""
LANGUAGES = {".py": "python", ".cpp": "cpp", ".h": "cpp", ".c": "c", ".md": "markdown", ".mm": "objective-c"}
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1`*[ ]*$", re.MULTILINE | re.DOTALL)
NAME = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\([^)]*\)|\{[\w:]+\}`[^`\n]+`"  # links and roles stay as they are
    r"|(?<!`)`(?:(?P<name>[A-Za-z_][\w.]*)|[^`\n]+)`(?!`)"
)
FOREIGN = re.compile(r"^from_")
"""Pages whose tables have another library's names in the first column."""
COMPARE = re.compile(r"<!-- compare: (\w+) -->\n+(```.*?^```)\n+(```.*?^```)\n+<!-- end -->", re.MULTILINE | re.DOTALL)


class Site:
    """The pages by their path in the site."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.pages: dict[str, str] = {}
        self.sources: set[Path] = set()
        self.names = {alias: name for name in names for alias in _aliases(name)}
        bare = Counter(name.rpartition(".")[2] for name in names)
        self.names |= {own: name for name in names if bare[own := name.rpartition(".")[2]] == 1 and own[0].isupper()}

    def add(self, page: Path, to: str) -> None:
        """Add a page of the repository, with its links adapted to the site."""
        text, fences = page.read_text(), []

        def kept(match: re.Match[str]) -> str:
            fences.append(match[0])
            return f"\0{len(fences) - 1}\0"

        def led(match: re.Match[str]) -> str:
            target = (page.parent / match[2]).resolve()
            return match[1] + _between(to, self.place(page, target)) + (match[3] or "")

        text = self._referenced(LINK.sub(led, FENCE.sub(kept, text)), foreign=bool(FOREIGN.match(to)))
        text = re.sub("\0(\\d+)\0", lambda match: fences[int(match[1])], text)
        self.pages[to] = COMPARE.sub(_beside, text)

    def _referenced(self, text: str, foreign: bool) -> str:
        """Turn public names in backticks into references, except in headings and in the text of links."""

        def referenced(match: re.Match[str]) -> str:
            name = self.names.get(match["name"]) if match["name"] else None
            return f"{{py:obj}}`{match['name']} <{name}>`" if name else match[0]

        lines = text.split("\n")
        for i, line in enumerate(lines):
            start = line.find("|", 1) if foreign and line.startswith("|") else 0
            if not line.startswith("#"):
                lines[i] = line[:start] + NAME.sub(referenced, line[start:])
        return "\n".join(lines)

    def place(self, page: Path, target: Path) -> str:
        """Return the site's path of a file or folder of the repository; a file that has no page gets one."""
        if not target.exists():
            raise LookupError(f"{page.relative_to(ROOT)} links to {target.relative_to(ROOT)}, which does not exist")
        name = target.relative_to(ROOT).as_posix()
        if name in PROJECT:
            return PROJECT[name]
        if target.is_relative_to(DOCS) and target.is_file():
            return target.relative_to(DOCS).as_posix()
        self.sources.add(target)
        return f"sources/{name}.md"

    def add_sources(self) -> None:
        """Add a page for each file that a page links to, and for each folder a list of its files."""
        for target in sorted(self.sources):
            name = target.relative_to(ROOT).as_posix()
            title = f"---\norphan: true\n---\n\n# {target.name}\n\n`{name}`\n\n"
            if target.is_dir():
                files = sorted(p for p in target.iterdir() if p.is_file() and p.suffix in LANGUAGES)
                lines = [f"| `{p.name}` | {_sentence(p)} |" for p in files]
                text = "\n".join(["| file | |", "|---|---|", *lines])
            else:
                text = f"``````{LANGUAGES.get(target.suffix, 'text')}\n{target.read_text().rstrip()}\n``````"
            self.pages[f"sources/{name}.md"] = title + text + "\n"

    def add_navigation(self) -> None:
        """Add the toctrees for the sidebar to the start page and to pages that have subpages."""
        named = {name for names in NAVIGATION.values() for name in names}
        below = ("decisions/", "examples/", "reference/", "sources/", "project/")
        others = [n for n in self.pages if n not in named and n != "index.md" and not n.startswith(below)]
        for caption, names in NAVIGATION.items():
            there = [name for name in names if name in self.pages]
            there += sorted(others) if caption == "Guides" else []
            self.pages["index.md"] += _toctree(there, caption)
        for folder in ("decisions", "examples"):
            index = (DOCS / folder / "README.md").read_text()
            own = [Path(n).name for n in self.pages if n.startswith(folder + "/") and not n.endswith("/README.md")]
            self.pages[f"{folder}/README.md"] += _toctree(sorted(own, key=lambda name: index.index(f"({name})")), "")
        for name in ("project/mock.md",):
            self.pages[name] = "---\norphan: true\n---\n\n" + self.pages[name]

    def write(self, into: Path) -> None:
        """Write the pages and delete stale files. Unchanged files keep their time stamps, so Sphinx skips them."""
        wanted = {into / name: text for name, text in self.pages.items()}
        for path, text in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_file() or path.read_text() != text:
                path.write_text(text)
        for path in into.rglob("*.md"):
            if path not in wanted:
                path.unlink()
        for picture in DOCS.rglob("*.png"):
            to = into / picture.relative_to(DOCS)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(picture, to)


def stage(into: Path, reference: dict[str, str], names: Collection[str] = ()) -> None:
    """Write everything that Sphinx reads.

    Args:
        into: Folder to write to.
        reference: Pages of the API reference, by path below reference/.
        names: Public names that the reference describes, such as "mpsgraph.nn.Conv2d"; pages link to them.
    """
    site = Site(names)
    for page in sorted(DOCS.rglob("*.md")):
        site.add(page, page.relative_to(DOCS).as_posix())
    for name, to in PROJECT.items():
        if name.endswith(".md") and to != "index.md":
            site.add(ROOT / name, to)
    site.pages |= {f"reference/{name}": text for name, text in reference.items()}
    site.pages["index.md"] = _cards(site.pages["index.md"])
    site.pages["examples/README.md"] = _gallery(site.pages["examples/README.md"])
    site.add_sources()
    site.add_navigation()
    site.write(into)


def repository() -> dict[str, str]:
    """Return Furo's options for links to the repository: from GitHub's environment, or from git's remote."""
    url = f"{os.environ.get('GITHUB_SERVER_URL', '')}/{os.environ.get('GITHUB_REPOSITORY', '')}".strip("/")
    if not url:
        asked = subprocess.run(["git", "remote", "get-url", "origin"], cwd=ROOT, capture_output=True, text=True)
        url = re.sub(r"^git@([\w.-]+):", r"https://\1/", asked.stdout.strip()).removesuffix(".git")
    if not url.startswith("https://"):
        return {}
    return {"source_repository": url, "source_branch": "main", "source_directory": "docs/"}


def _aliases(name: str) -> Iterator[str]:
    """Return the ways in which pages write a public name: in full, with `mg`, and from its module on (`nn.Linear`)."""
    yield name
    yield name.replace("mpsgraph", "mg", 1)
    room, _, own = name.rpartition(".")
    if room != "mpsgraph":
        yield name.removeprefix("mpsgraph.")
        yield f"{room.rpartition('.')[2]}.{own}"


def _between(here: str, there: str) -> str:
    """Return the relative path from one page to another."""
    ups, down = here.split("/")[:-1], there.split("/")
    while ups and len(down) > 1 and ups[0] == down[0]:
        ups, down = ups[1:], down[1:]
    return "/".join([*[".."] * len(ups), *down])


def _beside(match: re.Match[str]) -> str:
    """Lay out the other library's code on the left and ours on the right; one below the other on a narrow screen."""
    columns = "\n".join(
        f"::::{{grid-item}}\n:class: compare\n\n**{name}**\n\n{code}\n::::" for name, code in
        ((match[1], match[2]), ("mpsgraph", match[3]))
    )  # fmt: skip
    return f":::::{{grid}} 1 1 2 2\n:gutter: 2\n\n{columns}\n:::::"


CARDS = re.compile(r"<!-- cards -->\n(.*?)<!-- end -->", re.DOTALL)


def _cards(text: str) -> str:
    """Turn a list of links with a sentence each into cards."""

    def cards(match: re.Match[str]) -> str:
        found = re.findall(r"^- \[(.+?)\]\((.+?)\.md\): (.+)$", match[1], re.MULTILINE)
        made = [f"::::{{grid-item-card}} {t}\n:link: {to}\n:link-type: doc\n\n{about}\n::::" for t, to, about in found]
        return ":::::{grid} 1 2 2 3\n:gutter: 3\n\n" + "\n".join(made) + "\n:::::"

    return CARDS.sub(cards, text)


ROW = re.compile(r"^\| \[([\w.]+)\]\((\w+)\.md\) \| (.*?) \| (.*?) \|$", re.MULTILINE)


def _gallery(text: str) -> str:
    """Turn the table of examples into cards with pictures."""
    cards = [
        f"::::{{grid-item-card}} {name}\n:link: {stem}\n:link-type: doc\n:img-top: ../images/{stem}.png\n\n{about}\n"
        + (f"\n*{talk}*\n" if talk != "–" else "") + "::::"
        for name, stem, about, talk in ROW.findall(text)
    ]  # fmt: skip
    before = text[: text.index("| example |")]
    return f"{before}:::::{{grid}} 1 2 2 3\n:gutter: 3\n:class-container: gallery\n\n" + "\n".join(cards) + "\n:::::\n"


def _toctree(names: list[str], caption: str) -> str:
    head = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"\n\n```{{toctree}}\n{head}\n" + "\n".join(_named(n) for n in names) + "\n```\n"


def _named(page: str) -> str:
    """Return a page's entry in a toctree, with a short title for the gallery."""
    name = page.removesuffix(".md")
    return f"Gallery <{name}>" if page == "examples/README.md" else name


def _sentence(path: Path) -> str:
    """Return the first sentence of a Python file's docstring."""
    if path.suffix != ".py":
        return ""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
