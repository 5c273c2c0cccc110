"""tests/apple/behaviour.md: each row names a source, and rules and answers that stand where it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "tests/apple/behaviour.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| what |")
]
PLACES = {3: ROOT / "tests/standin", 4: ROOT / "src/backends/metal"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_says_what_is_there(row: list[str]):
    assert len(row) == 5
    assert any(word in row[2] for word in ("http", "charon", "jax-mps", "PyTorch"))
    for column, folder in PLACES.items():
        named = re.findall(r"`([^`]+)`", row[column])
        assert named
        file = named[0]
        for word in named[1:]:
            if re.fullmatch(r"[\w/]+\.(mm|h)", word):
                file = word
            else:
                assert word in (folder / file).read_text(), f"{file} does not have {word!r}"


def test_the_table_is_not_empty():
    assert len(ROWS) >= 20
