"""Check all relative links of the pages, including their headings, and all links of the site.

The site is staged as in `make site` but not built, so its build tools are not needed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from harness.pages import ROOT, pages

sys.path.insert(0, str(ROOT / "tools" / "site"))
import stage

LINK = re.compile(r"\]\((?!\w+:)([^()\s#]*)(#[^()\s]*)?\)")
WRITTEN = [*pages(), *ROOT.glob("*.md"), *sorted((ROOT / "tests").rglob("*.md"))]


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]+`", "", stage.FENCE.sub("", text))


def headings(text: str) -> set[str]:
    """Return the anchors that GitHub and MyST generate for the headings."""
    titles = re.findall(r"^#+ (.+)$", stage.FENCE.sub("", text), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", dict.fromkeys(WRITTEN), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_links_have_targets(page: Path):
    for target, heading in LINK.findall(without_code(page.read_text())):
        path = (page.parent / target) if target else page
        assert path.exists(), f"link target {target} does not exist"
        if heading and path.suffix == ".md":
            assert heading[1:] in headings(path.read_text()), f"{target or page.name} has no heading {heading}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    stage.stage(folder, {"index.md": "# API reference\n"})
    return folder


def test_site_links_have_targets(site: Path):
    found = sorted(site.rglob("*.md"))
    assert len(found) > 60
    wrong = [
        f"{page.relative_to(site)}: {target}"
        for page in found
        if "sources" not in page.relative_to(site).parts[:1]
        for target, _ in LINK.findall(without_code(page.read_text()))
        if target and not (page.parent / target).exists()
    ]
    assert not wrong


def test_every_page_is_in_the_navigation(site: Path):
    listed = set()
    for page in site.rglob("*.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            lines = [line for line in tree.splitlines() if line and not line.startswith(":")]
            names = [re.sub(r".*<(.*)>", r"\1", line) for line in lines]  # "Gallery <examples/README>"
            listed |= {(page.parent / name).relative_to(site).as_posix() for name in names}
    orphans = {
        p.relative_to(site).with_suffix("").as_posix() for p in site.rglob("*.md") if "orphan" in p.read_text()[:20]
    }
    there = {p.relative_to(site).with_suffix("").as_posix() for p in site.rglob("*.md")}
    assert there - orphans - {"index"} == listed


def test_gallery_has_a_picture_for_each_example(site: Path):
    page = (site / "examples" / "README.md").read_text()
    pictures = re.findall(r":img-top: (\S+)", page)
    assert len(pictures) == len(list((ROOT / "examples").glob("*.py")))
    assert all((site / "examples" / picture).is_file() for picture in pictures)
