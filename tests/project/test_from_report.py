"""Test tools/from_report.py on a self-test report with only expected results and on a report with failures.

data/make_selftest_reports.py generates the reports. The tests generate them again to ensure that their format is that
of the current self-test. The rules for probes are checked against the probes and behaviour.md.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from harness.mac_failures import FAILURES
from probe_answers import AS_THE_TABLE, BETTER, ENDED, NOT_ASKED, RULES, UNASKED, UNFORESEEN, WORSE

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data"
LINK = "https://example.org/issues/1"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made  # dataclasses looks up the module by name.
    spec.loader.exec_module(made)
    return made


tool = module(ROOT / "tools/from_report.py")


def found_in(name: str):
    return tool.findings(json.loads((DATA / f"selftest_{name}.json").read_text()), LINK)


@pytest.mark.parametrize("name", ["as_expected", "with_failures"])
def test_stored_reports_have_current_selftest_format(name: str, tmp_path):
    module(DATA / "make_selftest_reports.py").main(tmp_path)
    assert (tmp_path / f"selftest_{name}.json").read_text() == (DATA / f"selftest_{name}.json").read_text()


def test_expected_selftest_report_needs_no_changes(capsys):
    found = found_in("as_expected")
    assert found.where == "Apple M2, macOS 15.5" and len(found.as_expected) == 7
    assert not (found.failures or found.refused or found.broken or found.contradictions or found.rows)
    assert tool.main([str(DATA / "selftest_as_expected.json")]) == 0
    out = capsys.readouterr().out
    assert "Nothing to do." in out and "##" not in out


def test_reported_failures_become_known_failure_entries_with_reasons():
    found = found_in("with_failures")
    assert found.failures["operations: cumulative_sum-reverse-float16"] == (
        f"wrong numbers on Apple M4, macOS 26.1 ({LINK}): 5.0 instead of 6.0 at [1, 0]"
    )
    inverse = found.failures["gradients: matrix_inverse-float32"]
    assert inverse.startswith("ended the process on Apple M4") and "failed assertion" in inverse
    assert found.failures["runtime: a_handler_may_run_graphs"].startswith("hung on Apple M4")
    assert "nodes: gradient of convolution-3x3" in found.failures and len(found.failures) == 5
    assert found.refused == {"REASONS": {"top_k-int8": "no kernel of int8"}}
    assert found.broken == ["digits, the end of the process: the process exited with status 5"]
    assert found.cured == ["runtime: many_threads_run_one_executable"]


def test_probe_answers_contradicting_assumptions_name_the_row_or_code():
    found = found_in("with_failures")
    said = {text.split(":")[0]: text for text in found.contradictions}
    assert said.keys() == {"gathered_integers", "long_products", "indices_of_64_bits", "order_of_many"}
    assert "does not hold on Apple M4" in said["gathered_integers"] and "through_float32" in said["gathered_integers"]
    assert "is contradicted" in said["long_products"] and "require_sound" in said["long_products"]
    assert "unexpected answer" in said["indices_of_64_bits"]
    assert "an assumption of the code is contradicted" in said["order_of_many"]
    assert found.as_expected == ["bounds_with_a_dimension"]
    assert [text.split(":")[0] for text in found.without_rule] == ["a_probe_without_a_rule"]


def test_proposed_rows_extend_the_behavior_table():
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found_in("with_failures").rows]
    table, names = tool.table(), [row[0] for row in rows]
    assert all(len(row) == 5 and LINK in row[2] for row in rows)
    (gathers,) = (row for row in rows if row[0].startswith("gathers and scatters"))
    before = table[gathers[0]]
    assert gathers[3:] == before[3:] and gathers[1].startswith(before[1]) and "on Apple M4, macOS 26.1" in gathers[1]
    assert "the probe `order_of_many`" in names and "`cumulative_sum` in the self-test's operations" in names
    assert (
        "`matrix_inverse` in the self-test's gradients" in names and "`convolution` in the self-test's nodes" in names
    )
    assert len(names) == len(set(names)) == 7


def test_probe_answer_allowing_simpler_code_is_not_a_contradiction():
    report = json.loads((DATA / "selftest_as_expected.json").read_text())
    (probe,) = (o for o in report["outcomes"] if o["name"] == "gathered_integers")
    answer = {**probe["numbers"], "answer": "of [NaN, -1, 1]: [nan, 0, 1]"}
    report["outcomes"].append({**probe, "name": "nan_of_relu", "numbers": answer})
    found = tool.findings(report, LINK)
    (told,) = found.simpler
    assert told.startswith("nan_of_relu: the code might be simpler") and not (found.contradictions or found.rows)
    assert "would simplify the code" in tool.text_of(report, found)


def test_probe_answers_about_the_same_row_are_merged():
    report = json.loads((DATA / "selftest_as_expected.json").read_text())
    (probe,) = (o for o in report["outcomes"] if o["name"] == "gathered_integers")
    answers = {
        "extrema_of_int8": "of [3, 1, 2]: maximum [3], minimum [1]",
        "sum_of_uint32": "16777217 + 1 + 2 = [16777220]",
    }
    for name, answer in answers.items():
        report["outcomes"].append({**probe, "name": name, "numbers": {**probe["numbers"], "answer": answer}})
    found = tool.findings(report, LINK)
    (row,) = found.rows
    assert all(answer in row for answer in answers.values()) and len(found.contradictions) == 2


def test_known_failures_are_added_to_and_removed_from_the_list(tmp_path):
    path = tmp_path / "mac_failures.py"
    path.write_text('"""What it is."""\n\nFAILURES: dict[str, str] = {}\n')
    found = found_in("with_failures")
    tool.write_failures(found, path)
    tool.write_failures(found, path)  # Writing the same failures again must not change the file.
    text = path.read_text()
    assert text.startswith('"""What it is."""\n\nFAILURES') and max(map(len, text.splitlines())) <= 120
    assert ast.literal_eval(text.partition(" = ")[2]) == found.failures
    found.failures, found.cured = {}, list(found.failures)
    tool.write_failures(found, path)
    assert path.read_text() == '"""What it is."""\n\nFAILURES: dict[str, str] = {}\n'


def test_invalid_selftest_report_is_rejected(tmp_path, capsys):
    for content in ("[]", "{", '{"report": "another"}'):
        (tmp_path / "x.json").write_text(content)
        assert tool.main([str(tmp_path / "x.json")]) == 1
        assert "is not a self-test report" in capsys.readouterr().err
    assert tool.main([str(tmp_path / "missing.json")]) == 1


def test_report_is_drawn(tmp_path):
    assert tool.main([str(DATA / "selftest_with_failures.json"), "--picture", str(tmp_path / "x.png")]) == 0
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


# --- rules for probes -------------------------------------------------------------------------------------------------
def probes() -> set[str]:
    """Return the names of all probes in the sources of the Metal backend."""
    text = "".join(path.read_text() for path in (ROOT / "src/backends/metal").glob("probes*.mm"))
    named = re.findall(r'probe\(\s*device, "(\w+)"|^ +\{"(\w+)", "', text, re.MULTILINE)
    return {a or b for a, b in named}


def test_probe_rules_refer_to_existing_probes_and_rows():
    assert len(probes()) > 40 and {rule.probe for rule in RULES} <= probes()
    rows = set(tool.table())
    asked = {rule.row for rule in RULES if rule.row}
    assert asked | UNASKED.keys() == rows, "each row must have a probe or a reason for having none"
    assert asked.isdisjoint(UNASKED)


def test_listed_mac_failures_have_part_name_and_reason():
    assert all(re.fullmatch(r"\w+: .+", name) and what for name, what in FAILURES.items())


@pytest.mark.parametrize(
    ("probe", "answer", "macos", "verdict"),
    [
        ("large_inverse", ENDED, 15.0, AS_THE_TABLE),
        ("large_inverse", "0 of 1050625 numbers are wrong", 15.0, BETTER),
        ("large_inverse", "7 of 1050625 numbers are wrong", 15.0, AS_THE_TABLE),
        ("long_products", "2x40000 by 40000x2 of ones: [0, 0, 0, 0]", 14.0, AS_THE_TABLE),
        ("long_products", "2x40000 by 40000x2 of ones: [0, 0, 0, 0]", 15.0, WORSE),
        ("long_products", "2x40000 by 40000x2 of ones: [40000, 40000, 40000, 40000]", 14.0, BETTER),
        ("long_products", "2x40000 by 40000x2 of ones: [40000, 40000, 40000, 40000]", 14.4, AS_THE_TABLE),
        ("sorted_int64", "0 of 5000 places are wrong", 14.0, AS_THE_TABLE),
        ("sorted_int64", "12 of 5000 places are wrong", 14.0, WORSE),
        ("divided_integers", "16777217 / 1, ...: [16777216, -3, -3, 715827904]", 15.0, WORSE),
        ("nan_of_relu", "of [NaN, -1, 1]: [1, 0, 1]", 15.0, UNFORESEEN),
        ("nan_of_relu", "of [NaN, -1, 1]: [nan, 0, 1]", 15.0, BETTER),
        ("extrema_of_bfloat16", "not asked: this macOS is older than what is asked about", 13.3, NOT_ASKED),
    ],
)
def test_rule_gives_expected_verdict_for_probe_answer(probe: str, answer: str, macos: float, verdict: str):
    (rule,) = (rule for rule in RULES if rule.probe == probe)
    assert rule.judge(answer, macos) == verdict
