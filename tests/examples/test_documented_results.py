"""Test that the examples' pages state the range of results of docs/measurements.md, and that results lie within it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from example_results import RESULTS, run  # noqa: E402

ROW = re.compile(r"^\| \[[^]]*\]\(examples/(\w+)\.md\)[^|]*\| (([\d.]+)–([\d.]+))", re.MULTILINE)
RANGES = {
    name: (text, float(low), float(high))
    for name, text, low, high in ROW.findall((ROOT / "docs" / "measurements.md").read_text())
}


def test_every_measured_example_has_a_range():
    assert set(RANGES) == set(RESULTS)


@pytest.mark.parametrize("name", RESULTS)
def test_page_states_the_measured_range(name):
    assert RANGES[name][0] in (ROOT / "docs" / "examples" / f"{name}.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_result_lies_in_the_documented_range(name):
    _, low, high = RANGES[name]
    value, _ = run(name, seed=0, threads=2)
    assert low <= value <= high
