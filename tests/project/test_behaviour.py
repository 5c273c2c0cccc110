"""Check the tables of tests/apple/behaviour.md: each row cites a source and names code that exists."""

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
# Columns: the fault, the evidence, and why it cannot affect this package.
NOT_OURS = [row for row in ALL if len(row) == 3]
PLACES = {3: ROOT / "tests/mock", 4: ROOT / "src/backends/metal"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_behavior_table_row_cites_source_and_existing_code(row: list[str]):
    assert len(row) == 5
    assert any(word in row[2] for word in ("http", "charon", "jax-mps", "PyTorch"))
    for column, folder in PLACES.items():
        named = re.findall(r"`([^`]+)`", row[column])
        if column == 3 and row[column].startswith("unknown: "):  # The report does not say what goes wrong.
            assert row[4].endswith(" asks"), "a row with unknown behavior must name the probe that asks about it"
            continue
        assert named
        file = named[0]
        for word in named[1:]:
            if re.fullmatch(r"[\w/]+\.(mm|h)", word):
                file = word
            else:
                assert word in (folder / file).read_text(), f"{file} does not contain {word!r}"


@pytest.mark.parametrize("row", NOT_OURS, ids=lambda row: row[0])
def test_fault_not_affecting_us_cites_evidence_and_reason(row: list[str]):
    _, evidence, reason = row
    assert "](https://github.com/" in evidence
    assert len(reason.split()) >= 8, "the reason must say which calls MPSGraph never receives, or what causes the fault"


def test_behavior_tables_have_at_least_35_and_20_rows_with_unique_names():
    assert len(ROWS) >= 35 and len(NOT_OURS) >= 20
    assert len({row[0] for row in ALL}) == len(ALL)


def test_metal_tests_run_as_macos_26_on_m5_and_as_macos_27():
    """`make test-metal` uses the mock's defaults; `make test-systems` runs the same tests as other systems."""
    defaults = (ROOT / "tests/mock/foundation/process_info.mm").read_text()
    macos = re.search(r"strtod\(given, nullptr\) : ([\d.]+);", defaults)
    generation = re.search(r"atoi\(given\) : (\d+);", defaults)
    assert macos and 26 <= float(macos[1]) < 27
    assert generation and int(generation[1]) == 10, "10 is the generation of M5"
    systems = re.search(r"^SYSTEMS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert systems and "27.0" in systems[1].split()
