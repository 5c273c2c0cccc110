"""Turns a report of the self-test into what a maintainer does next.

    python tools/from_report.py report.json [--link URL] [--write] [--picture FILE]

It prints expected failures for tests/harness/mac_failures.py (which --write puts there) and for unsupported.py, rows
for tests/apple/behaviour.md from the probes' answers, and what contradicts a row or the code. What an answer means is
said by tests/apple/answers.py. Nothing of a report is run, and no Mac is needed.
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

from answers import AS_THE_TABLE, BETTER, ENDED, NOT_ASKED, RULES, UNFORESEEN, WORSE, Rule  # noqa: E402

DIED = ("ended the process", "hung")
NO_CHECK = ("the start", "the end of the process", "the part")
MOST = 160  # characters of a message in an entry


@dataclass
class Findings:
    """What a report asks for."""

    where: str
    macos: float
    link: str
    failures: dict[str, str] = field(default_factory=dict)  # for mac_failures.py
    refused: dict[str, dict[str, str]] = field(default_factory=dict)  # for unsupported.py, by its table
    broken: list[str] = field(default_factory=list)  # parts that did not run to their end
    cured: list[str] = field(default_factory=list)  # of mac_failures.py, which pass now
    contradictions: list[str] = field(default_factory=list)
    simpler: list[str] = field(default_factory=list)  # probes by which code could do without a detour
    answers: dict[str, list[str]] = field(default_factory=dict)  # that contradict a row, by its name
    rows: list[str] = field(default_factory=list)  # for behaviour.md
    as_expected: list[str] = field(default_factory=list)  # probes
    without_rule: list[str] = field(default_factory=list)


def main(arguments: list[str] | None = None) -> int:
    """The command. Result: 0; 1 when the file is no report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--link", default="the report", metavar="URL", help="where the report can be read")
    parser.add_argument("--write", action="store_true", help="put failures into tests/harness/mac_failures.py")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the report, too")
    options = parser.parse_args(arguments)
    try:
        report = json.loads(options.report.read_text())
        if report.get("report") != "mpsgraph selftest":
            raise ValueError('"report" is not "mpsgraph selftest"')
    except (OSError, ValueError, AttributeError) as error:
        print(f"{options.report} is no report of the self-test: {error}", file=sys.stderr)
        return 1
    found = findings(report, options.link)
    print(text_of(report, found))
    if options.write:
        write_failures(found)
    if options.picture:
        from mpsgraph.selftest import picture

        picture.draw(report, options.picture)
    return 0


# --- what a report says -----------------------------------------------------------------------------------------------
def findings(report: dict[str, Any], link: str = "the report") -> Findings:
    """Of a report's file as json.load gives it."""
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
    """How unsupported.py names a check: as cases are, and nodes by a pattern of their tests."""
    name = str(outcome["name"])
    if outcome["part"] == "nodes":
        kind, _, case = name.partition(" of ")
        return f"test_{kind}[[]{case}]"
    return name.removesuffix("-float32").removesuffix("-complex64") if outcome["part"] == "gradients" else name


def _numbers(outcome: dict[str, Any]) -> str:
    """The least that identifies a failure."""
    numbers = outcome["numbers"]
    if "largest difference" in numbers:
        return f"{numbers['found']} instead of {numbers['expected']} at {numbers['at']}"
    return _first_line(outcome["message"])


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and lines[0].startswith("the process ") and len(lines) > 1:
        lines = [f"{lines[0]}: {lines[-1]}"]  # its last words
    text = lines[0] if lines else "no message"
    return text if len(text) <= MOST else text[: MOST - 3] + "..."


# --- probes and the table ---------------------------------------------------------------------------------------------
def table() -> dict[str, list[str]]:
    """The cells of each row of behaviour.md's first table, by the first one; the other is of what cannot concern us."""
    lines = [line for line in BEHAVIOUR.read_text().splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]
    return {row[0]: row for row in rows if len(row) == 5}


def answer_of(outcome: dict[str, Any]) -> str:
    """In one line."""
    return ENDED if outcome["how"] in DIED else str(outcome["numbers"].get("answer", outcome["message"]))


def _take_answer(found: Findings, outcome: dict[str, Any]) -> None:
    probe, answer = outcome["name"], answer_of(outcome)
    rules = [rule for rule in RULES if rule.probe == probe]
    if not rules:
        meaning = outcome["numbers"].get("meaning", "the report does not have its meaning, as the process ended")
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
    row = f'the row "{rule.row}"' if rule.row else "what the code goes by"
    cells = table().get(rule.row, [])
    places = f"; the mock's rule: {cells[3]}; ours: {cells[4]}" if cells else ""
    better = f"{row} does not hold on {found.where}: the detour is not needed there{places}"
    what = {
        BETTER: better if rule.row else f"the code might be simpler, going by {found.where}",
        WORSE: f"{row} is contradicted on {found.where}: our numbers may be wrong there{places}",
        UNFORESEEN: f"nobody foresaw this answer about {row} on {found.where}{places}",
    }[verdict]
    meaning = outcome["numbers"].get("meaning")
    return f"{rule.probe}: {what}\n  answer: {answer}" + (f"\n  meaning: {meaning}" if meaning else "")


def _row_with(found: Findings, cells: list[str], answers: list[str]) -> str:
    """The row of the table with the answers in it: a person decides what of it stays."""
    told = f"{cells[1]}; on {found.where}: {'; '.join(_cell(answer) for answer in answers)}"
    return _joined([cells[0], told, f"{cells[2]}, {_evidence(found)}", *cells[3:]])


def _new_row(found: Findings, what: str, told: str) -> str:
    return _joined([what, f"on {found.where}: {_cell(told)}", _evidence(found), "not there", "not there"])


def _rows_of_failures(found: Findings, failed: list[dict[str, Any]]) -> Iterator[str]:
    """One for each operation or node that gave wrong numbers or ended a process, with its first failure."""
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


# --- what is said and written -----------------------------------------------------------------------------------------
def text_of(report: dict[str, Any], found: Findings) -> str:
    """For the terminal."""
    lines = [f"# {found.where}", "", *(f"{heading}: {text}" for heading, text in report["summary"].items())]

    def section(title: str, entries: list[str]) -> None:
        if entries:
            lines.extend(["", f"## {title}", "", *entries])

    section(
        "Expected failures: entries of FAILURES in tests/harness/mac_failures.py (--write puts them there)",
        [_entry(name, what) for name, what in found.failures.items()],
    )
    for name, entries in found.refused.items():
        title = f"Refused, which nobody expects: cure them, or enter them in {name} of tests/harness/unsupported.py"
        section(title, [_entry(*entry) for entry in entries.items()])
    section("Parts that did not run to their end: look at the report", found.broken)
    section("Listed in tests/harness/mac_failures.py, but passes here: take the entry out", found.cured)
    section("Answers that contradict a row of tests/apple/behaviour.md, or the code", found.contradictions)
    section("Answers by which the code might become simpler, once Macs agree", found.simpler)
    section(
        "Proposed rows of tests/apple/behaviour.md; a row of the same name replaces the one that is there", found.rows
    )
    section("Probes without a rule in tests/apple/answers.py: read what they mean", found.without_rule)
    expected = f"Rules of tests/apple/answers.py that hold as they stand: {len(found.as_expected)}."
    nothing = not (found.failures or found.refused or found.broken or found.contradictions or found.without_rule)
    lines += ["", f"{expected} Nothing to do." if nothing else expected]
    return "\n".join(lines)


def _entry(name: str, what: str) -> str:
    """As the formatter would write it."""
    key, value = _quoted(name), _quoted(what)
    if len(key) + len(value) + 7 <= 120:
        return f"    {key}: {value},"
    pieces = re.findall(r".{1,100}(?:\s+|$)|.{100}", what)
    return "\n".join([f"    {key}: (", *(f"        {_quoted(piece)}" for piece in pieces), "    ),"])


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return repr(text) if '"' in text and "'" not in text else quoted


def write_failures(found: Findings, path: Path = FAILURES) -> None:
    """Adds the failures to the file and takes out what passes now."""
    head, start, listed = path.read_text().partition("FAILURES: dict[str, str] = ")
    kept = {name: what for name, what in ast.literal_eval(listed).items() if name not in found.cured}
    merged = dict(sorted({**kept, **found.failures}.items()))
    entries = "".join(_entry(*entry) + "\n" for entry in merged.items())
    body = f"{{\n{entries}}}" if merged else "{}"
    path.write_text(f"{head}{start}{body}\n")
    print(f"\n{path}: {len(merged)} failures")


if __name__ == "__main__":
    sys.exit(main())
