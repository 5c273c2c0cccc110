"""Test that the examples' pages state the range of results of docs/measurements.md, and that results lie within it."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("example_results", ROOT / "bench" / "example_results.py")
assert _SPEC is not None and _SPEC.loader is not None
example_results = importlib.util.module_from_spec(_SPEC)
sys.modules["example_results"] = example_results
_SPEC.loader.exec_module(example_results)
RESULTS = example_results.RESULTS

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
    value, _ = example_results.run(name, seed=0, threads=2)
    assert low <= value <= high
