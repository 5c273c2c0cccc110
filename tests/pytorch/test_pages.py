"""Code on the pages that needs PyTorch, or Keras on top of it: each library's side of two is a program of its own, and
so is what of a page needs PyTorch beside ours. tests/pages runs the rest and compiles this.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"  # before anybody imports Keras

from pathlib import Path

import pytest
from harness.pages import PACKAGES, ROOT, Block, blocks, pages, run

pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")


def programs() -> list[tuple[str, list[Block]]]:
    """By page and package: the other side alone, and a page's own blocks with those that need the package."""
    found = []
    for page in pages():
        own = [block for block in blocks(page) if block.language == "python"]
        name = page.relative_to(ROOT).as_posix()
        for package in {block.needs for block in own if block.of_others}:
            found.append((f"{name}, {package}", [b for b in own if b.of_others and b.needs == package]))
        if any(block.needs in PACKAGES.values() and not block.of_others for block in own):
            found.append((name, [block for block in own if not block.of_others]))
    return found


def test_there_are_such_pages():
    names = {name for name, _ in programs()}
    assert {"docs/torch.md", "docs/from_pytorch.md, torch", "docs/from_keras.md, keras"} <= names


@pytest.mark.filterwarnings("ignore")  # what other libraries warn of is theirs
@pytest.mark.parametrize(("name", "program"), programs(), ids=[name for name, _ in programs()])
def test_program_runs(name: str, program: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for package in {block.needs for block in program if block.needs}:
        pytest.importorskip(package, reason=f"{package} is not installed: make test-torch")
    monkeypatch.chdir(tmp_path)
    assert program
    run(program)
