"""Turn a self-test report into a maintainer's next steps.

    python tools/from_report.py report.json [--link URL] [--write] [--picture FILE]

Prints expected failures for tests/harness/mac_failures.py (--write adds them) and for unsupported.py, rows for
tests/apple/behaviour.md from the probes' answers, and answers that contradict a row or the code.
tests/apple/probe_answers.py interprets the answers. Nothing from a report is executed, and no Mac is needed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEHAVIOUR = ROOT / "tests/apple/behaviour.md"
FAILURES = ROOT / "tests/harness/mac_failures.py"
sys.path[:0] = [str(ROOT / "tests/apple"), str(ROOT / "tests")]

from probe_answers import AS_THE_TABLE, BETTER, ENDED, NOT_ASKED, RULES, UNFORESEEN, WORSE, Rule  # noqa: E402

DIED = ("ended the process", "hung")
NO_CHECK = ("the start", "the end of the process", "the part")
MOST = 160  # Characters of a message kept in an entry.


@dataclass
class Findings:
    """The actions that a report calls for."""

    where: str
    macos: float
    link: str
    failures: dict[str, str] = field(default_factory=dict)  # Entries for mac_failures.py.
    refused: dict[str, dict[str, str]] = field(default_factory=dict)  # Entries for unsupported.py, by table.
    broken: list[str] = field(default_factory=list)  # Parts that did not finish.
    cured: list[str] = field(default_factory=list)  # Entries of mac_failures.py that pass now.
    contradictions: list[str] = field(default_factory=list)
    simpler: list[str] = field(default_factory=list)  # Probes that show a workaround is not needed.
    answers: dict[str, list[str]] = field(default_factory=dict)  # Answers that contradict a row, by the row's name.
    rows: list[str] = field(default_factory=list)  # Rows for behaviour.md.
    as_expected: list[str] = field(default_factory=list)  # Probes that answered as expected.
    without_rule: list[str] = field(default_factory=list)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 1 if the file is not a report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--link", default="the report", metavar="URL", help="link to the report")
    parser.add_argument("--write", action="store_true", help="add failures to tests/harness/mac_failures.py")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="also draw the report")
    options = parser.parse_args(arguments)
    try:
        report = json.loads(options.report.read_text())
        if report.get("report") != "mpsgraph selftest":
            raise ValueError('"report" is not "mpsgraph selftest"')
    except (OSError, ValueError, AttributeError) as error:
        print(f"{options.report} is not a self-test report: {error}", file=sys.stderr)
        return 1
    found = findings(report, options.link)
    print(text_of(report, found))
    if options.write:
        write_failures(found)
    if options.picture:
        from mpsgraph.selftest import picture

        picture.draw(report, options.picture)
    return 0


# --- findings of a report ---------------------------------------------------------------------------------------------
def findings(report: dict[str, Any], link: str = "the report") -> Findings:
    """Return the findings of a report, given as json.load returns it."""
    versions = report["versions"]
    system = re.search(r"macOS (\d+(?:\.\d+)?)", f"{versions.get('system', '')} {versions.get('device', '')}")
    chip = str(versions.get("chip", "an unknown machine")).split(",")[0]
    name = f"macOS {system[1]}" if system else str(versions.get("system", "an unknown system"))
    found = Findings(f"{chip}, {name}", float(system[1]) if system else 0.0, link)
    for outcome in report["outcomes"]:
        if outcome["status"] == "failed":
            _take_failure(found, outcome)
        elif outcome["part"] == "probes":
            _take_answer(found, outcome)
    found.cured = [f"{o['part']}: {o['name']}" for o in report["measured"] if "listed" in o["numbers"]]
    found.rows[:0] = [_row_with(found, table()[row], answers) for row, answers in found.answers.items()]
    found.rows += _rows_of_failures(found, [o for o in report["outcomes"] if o["status"] == "failed"])
    return found


def _take_failure(found: Findings, outcome: dict[str, Any]) -> None:
    name, how = outcome["name"], outcome["how"] or "failed"
    said = _first_line(outcome["message"])
    if outcome["part"] == "versions" or name in NO_CHECK:
        found.broken.append(f"{outcome['part']}, {name}: {said}")
    elif how == "refused":
        table = {"gradients": "GRADIENTS", "nodes": "NODES"}.get(outcome["part"], "REASONS")
        found.refused.setdefault(table, {})[_key(outcome)] = said
    else:
        found.failures[f"{outcome['part']}: {name}"] = f"{how} on {found.where} ({found.link}): {_numbers(outcome)}"


def _key(outcome: dict[str, Any]) -> str:
    """Return the name of a check in unsupported.py: a case's name or, for nodes, a pattern of their tests' names."""
    name = str(outcome["name"])
    if outcome["part"] == "nodes":
        kind, _, case = name.partition(" of ")
        return f"test_{kind}[[]{case}]"
    return name.removesuffix("-float32").removesuffix("-complex64") if outcome["part"] == "gradients" else name


def _numbers(outcome: dict[str, Any]) -> str:
    """Return the shortest text that identifies a failure."""
    numbers = outcome["numbers"]
    if "largest difference" in numbers:
        return f"{numbers['found']} instead of {numbers['expected']} at {numbers['at']}"
    return _first_line(outcome["message"])


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and lines[0].startswith("the process ") and len(lines) > 1:
        lines = [f"{lines[0]}: {lines[-1]}"]  # keep the last line
    text = lines[0] if lines else "no message"
    return text if len(text) <= MOST else text[: MOST - 3] + "..."


# --- probes and the table ---------------------------------------------------------------------------------------------
def table() -> dict[str, list[str]]:
    """Return the cells of each row of behaviour.md's first table, keyed by the first cell."""
    lines = [line for line in BEHAVIOUR.read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]
    return {row[0]: row for row in rows if len(row) == 5}


def answer_of(outcome: dict[str, Any]) -> str:
    """Return a probe's answer in one line."""
    return ENDED if outcome["how"] in DIED else str(outcome["numbers"].get("answer", outcome["message"]))


def _take_answer(found: Findings, outcome: dict[str, Any]) -> None:
    probe, answer = outcome["name"], answer_of(outcome)
    rules = [rule for rule in RULES if rule.probe == probe]
    if not rules:
        meaning = outcome["numbers"].get("meaning", "the report does not explain it, because the process crashed")
        found.without_rule.append(f"{probe}: {answer}\n  {meaning}")
    for rule in rules:
        verdict = rule.judge(answer, found.macos)
        if verdict in (AS_THE_TABLE, NOT_ASKED):
            found.as_expected.append(probe)
            continue
        chance = verdict == BETTER and not rule.row
        (found.simpler if chance else found.contradictions).append(_told(found, rule, verdict, answer, outcome))
        if rule.row:
            found.answers.setdefault(rule.row, []).append(answer)
        elif not chance:
            found.rows.append(_new_row(found, f"the probe `{probe}`", _first_line(answer)))


def _told(found: Findings, rule: Rule, verdict: str, answer: str, outcome: dict[str, Any]) -> str:
    row = f'the row "{rule.row}"' if rule.row else "an assumption of the code"
    cells = table().get(rule.row, [])
    places = f"; the mock's rule: {cells[3]}; our workaround: {cells[4]}" if cells else ""
    better = f"{row} does not hold on {found.where}: the workaround is not needed there{places}"
    what = {
        BETTER: better if rule.row else f"the code might be simpler, judging by {found.where}",
        WORSE: f"{row} is contradicted on {found.where}: our results may be wrong there{places}",
        UNFORESEEN: f"unexpected answer about {row} on {found.where}{places}",
    }[verdict]
    meaning = outcome["numbers"].get("meaning")
    return f"{rule.probe}: {what}\n  answer: {answer}" + (f"\n  meaning: {meaning}" if meaning else "")


def _row_with(found: Findings, cells: list[str], answers: list[str]) -> str:
    """Return the table's row with the answers added; a person decides what to keep."""
    told = f"{cells[1]}; on {found.where}: {'; '.join(_cell(answer) for answer in answers)}"
    return _joined([cells[0], told, f"{cells[2]}, {_evidence(found)}", *cells[3:]])


def _new_row(found: Findings, what: str, told: str) -> str:
    return _joined([what, f"on {found.where}: {_cell(told)}", _evidence(found), "not there", "not there"])


def _rows_of_failures(found: Findings, failed: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a row for each operation or node that gave wrong results or crashed a process, with its first failure."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for outcome in failed:
        if outcome["family"] and outcome["how"] in ("wrong numbers", *DIED):
            kind = str(outcome["name"]).split(" of ")[-1].split("-")[0]
            groups.setdefault((kind, outcome["how"]), []).append(outcome)
    for (kind, how), some in groups.items():
        also = f", and {len(some) - 1} more" if len(some) > 1 else ""
        what = f"`{kind}` in the self-test's {some[0]['part']}"
        yield _new_row(found, what, f"{how}: {some[0]['name']}{also}; {_numbers(some[0])}")


def _evidence(found: Findings) -> str:
    return f"[a report]({found.link})" if found.link.startswith("http") else f"self-test: {found.link}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())


def _joined(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


# --- output -----------------------------------------------------------------------------------------------------------
def text_of(report: dict[str, Any], found: Findings) -> str:
    """Return the findings as text for the terminal."""
    lines = [f"# {found.where}", "", *(f"{heading}: {text}" for heading, text in report["summary"].items())]

    def section(title: str, entries: list[str]) -> None:
        if entries:
            lines.extend(["", f"## {title}", "", *entries])

    section(
        "Expected failures: entries of FAILURES in tests/harness/mac_failures.py (--write adds them)",
        [_entry(name, what) for name, what in found.failures.items()],
    )
    for name, entries in found.refused.items():
        title = f"Refused unexpectedly: fix these, or enter them in {name} of tests/harness/unsupported.py"
        section(title, [_entry(*entry) for entry in entries.items()])
    section("Parts that did not finish: see the report", found.broken)
    section("Listed in tests/harness/mac_failures.py but passing here: remove the entry", found.cured)
    section("Answers that contradict a row of tests/apple/behaviour.md, or the code", found.contradictions)
    section("Answers that would simplify the code if more Macs agree", found.simpler)
    section("Proposed rows of tests/apple/behaviour.md; a row of the same name replaces the present one", found.rows)
    section("Probes without a rule in tests/apple/probe_answers.py: read their meaning", found.without_rule)
    expected = f"Rules of tests/apple/probe_answers.py that hold: {len(found.as_expected)}."
    nothing = not (found.failures or found.refused or found.broken or found.contradictions or found.without_rule)
    lines += ["", f"{expected} Nothing to do." if nothing else expected]
    return "\n".join(lines)


def _entry(name: str, what: str) -> str:
    """Format an entry as ruff would."""
    key, value = _quoted(name), _quoted(what)
    if len(key) + len(value) + 7 <= 120:
        return f"    {key}: {value},"
    pieces = re.findall(r".{1,100}(?:\s+|$)|.{100}", what)
    return "\n".join([f"    {key}: (", *(f"        {_quoted(piece)}" for piece in pieces), "    ),"])


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return repr(text) if '"' in text and "'" not in text else quoted


def write_failures(found: Findings, path: Path = FAILURES) -> None:
    """Add the failures to the file and remove entries that pass now."""
    head, start, listed = path.read_text().partition("FAILURES: dict[str, str] = ")
    kept = {name: what for name, what in ast.literal_eval(listed).items() if name not in found.cured}
    merged = dict(sorted({**kept, **found.failures}.items()))
    entries = "".join(_entry(*entry) + "\n" for entry in merged.items())
    body = f"{{\n{entries}}}" if merged else "{}"
    path.write_text(f"{head}{start}{body}\n")
    print(f"\n{path}: {len(merged)} failures")


if __name__ == "__main__":
    sys.exit(main())
