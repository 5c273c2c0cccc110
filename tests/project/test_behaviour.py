"""tests/apple/behaviour.md: each row names a source, and rules and answers that stand where it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALL = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "tests/apple/behaviour.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| what |", "| fault |"))
]
ROWS = [row for row in ALL if len(row) != 3]
NOT_OURS = [row for row in ALL if len(row) == 3]  # fault, evidence, why it cannot concern us
PLACES = {3: ROOT / "tests/mock", 4: ROOT / "src/backends/metal"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_says_what_is_there(row: list[str]):
    assert len(row) == 5
    assert any(word in row[2] for word in ("http", "charon", "jax-mps", "PyTorch"))
    for column, folder in PLACES.items():
        named = re.findall(r"`([^`]+)`", row[column])
        if column == 3 and row[column].startswith("unknown: "):  # a report that does not say what goes wrong
            assert row[4].endswith(" asks"), "then a probe asks"
            continue
        assert named
        file = named[0]
        for word in named[1:]:
            if re.fullmatch(r"[\w/]+\.(mm|h)", word):
                file = word
            else:
                assert word in (folder / file).read_text(), f"{file} does not have {word!r}"


@pytest.mark.parametrize("row", NOT_OURS, ids=lambda row: row[0])
def test_a_fault_that_cannot_concern_us_says_why(row: list[str]):
    _, evidence, reason = row
    assert "https://github.com/pytorch/pytorch/" in evidence
    assert len(reason.split()) >= 8, "say what is never given to MPSGraph, or whose fault it is"


def test_the_tables_are_not_empty():
    assert len(ROWS) >= 35 and len(NOT_OURS) >= 20
    assert len({row[0] for row in ALL}) == len(ALL)
