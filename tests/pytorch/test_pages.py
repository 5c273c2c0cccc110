"""Run the code on documentation pages that needs PyTorch, or Keras on top of PyTorch.

Where a page compares two libraries, each library's code is a separate program. tests/pages runs the remaining code and
compiles this code.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"  # The variable must be set before Keras is imported.

from pathlib import Path

import pytest
from harness.pages import PACKAGES, ROOT, Block, blocks, pages, run

pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")


def programs() -> list[tuple[str, list[Block]]]:
    """Return the programs of all pages by page and package.

    The other library's side runs alone; a page's own blocks run with those that need the package.
    """
    found = []
    for page in pages():
        own = [block for block in blocks(page) if block.language == "python"]
        name = page.relative_to(ROOT).as_posix()
        for package in {block.needs for block in own if block.of_others}:
            found.append((f"{name}, {package}", [b for b in own if b.of_others and b.needs == package]))
        if any(block.needs in PACKAGES.values() and not block.of_others for block in own):
            found.append((name, [block for block in own if not block.of_others]))
    return found


def test_pytorch_and_keras_pages_contain_programs():
    names = {name for name, _ in programs()}
    assert {"docs/torch.md", "docs/from_pytorch.md, torch", "docs/from_keras.md, keras"} <= names


@pytest.mark.filterwarnings("ignore")  # Warnings of other libraries are not tested here.
@pytest.mark.parametrize(("name", "program"), programs(), ids=[name for name, _ in programs()])
def test_program_runs(name: str, program: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for package in {block.needs for block in program if block.needs}:
        pytest.importorskip(package, reason=f"{package} is not installed: make test-torch")
    monkeypatch.chdir(tmp_path)
    assert program
    run(program)
