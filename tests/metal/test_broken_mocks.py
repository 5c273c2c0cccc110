"""Test that the self-test's report names each fault of the mock and shows the evidence (tests/mock/README.md)."""

from __future__ import annotations

import json
import re

import pytest
from harness import device
from metal.broken_mocks import FAULTS, HANGS_AFTER, Fault, arguments, environment
from mpsgraph.cli import main
from mpsgraph.selftest import supervisor
from mpsgraph.selftest.checks import CRASHED


def test_every_fault_of_the_mock_is_tested_and_described():
    mock = device.TESTS / "mock"
    text = (mock / "foundation/faults.mm").read_text()
    names = re.findall(r'"(\w+)"', text[text.index("names[]") : text.index("};")])
    described = re.findall(r"^\| `(\w+)` \|", (mock / "README.md").read_text(), re.MULTILINE)
    assert sorted(names) == sorted(fault.name for fault in FAULTS) == sorted(described)
    assert len(names) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_report_names_fault_and_shows_evidence(fault: Fault, tmp_path, monkeypatch, capsys):
    for name, value in environment(fault, device.LIBRARY).items():
        monkeypatch.setenv(name, value)
    if fault.hangs:
        monkeypatch.setattr(supervisor, "LONGEST_CHECK", HANGS_AFTER)
    path = tmp_path / "report.json"
    status = main(arguments(fault, path))
    printed, report = capsys.readouterr().out, json.loads(path.read_text())
    flat = " ".join(printed.split())
    assert status == (0 if "Nothing failed" in fault.verdict else 1), printed
    for text in fault.verdict:
        assert text in report["summary"]["verdict"] and text in flat
    messages = "\n".join(o["message"] for o in report["outcomes"] if o["status"] == "failed")
    for text in fault.evidence:
        assert text in messages and text in printed
    if fault.name == "slow_compilation":
        assert "convolution2d" in report["summary"]["compile"] and "longer to compile: convolution2d" in flat
        slowest = report["parts"]["operations"]["slowest to compile"][0]
        assert "convolution2d" in slowest["name"] and slowest["seconds"] > 3
    if fault.name == "abort_of_large_tensors":
        ended = [o for o in report["outcomes"] if o["how"] == CRASHED]
        assert ended[0]["name"] == "elements_beyond_2_31" and f"{len(ended)} of them by a crash" in flat
        assert all("total bytes of NDArray > 2**32" in outcome["message"] for outcome in ended)
