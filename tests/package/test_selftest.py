"""The self-test on the CPU: its parts, its report, and that a check which fails, dies or hangs costs no other.

That a part can report a failure is shown by cases and checks that are made to fail. On device metal it is tested in
metal/test_selftest.py.
"""

from __future__ import annotations

import importlib
import json
import signal
import time
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import cli, selftest
from mpsgraph.cli import main
from mpsgraph.selftest import checks, shared, supervisor
from mpsgraph.selftest.checks import FAILED, NOTED, PASSED, UNSUPPORTED, Check, Options, Result, perform
from mpsgraph.selftest.report import Outcome, Report
from mpsgraph.selftest.worker import plain


def run(tmp_path: Path, *arguments: str) -> tuple[int, dict]:
    path = tmp_path / "report.json"
    status = main(["selftest", "--device", "cpu", "--quick", "--json", str(path), *arguments])
    return status, json.loads(path.read_text())


# --- the command ------------------------------------------------------------------------------------------------------
def test_a_report_of_all_parts(tmp_path, capsys):
    status, report = run(tmp_path)
    out = capsys.readouterr()
    assert status == 0 and not report["failed"] and not report["interrupted"], out.out
    assert list(report["parts"]) == list(selftest.PARTS)
    kinds = {d["name"] for d in mg._core.definitions() if not d["internal"]}
    assert report["parts"]["operations"]["counts"][PASSED] > 0.9 * len(kinds)
    assert report["parts"]["gradients"]["counts"][PASSED] > 100
    assert report["parts"]["runtime"]["counts"][PASSED] > 20 and report["parts"]["digits"]["counts"][PASSED] == 2
    assert report["parts"]["speed"]["counts"] == {NOTED: 2}
    assert report["parts"]["probes"]["counts"] == report["parts"]["oracle"]["counts"] == {}
    speed = [o for o in report["outcomes"] if o["part"] == "speed"]
    assert all(o["numbers"]["mpsgraph cpu"]["median ms"] > 0 and o["numbers"]["MLX"] for o in speed)
    (training,) = [o for o in report["measured"] if o["name"] == "training"]
    assert training["numbers"]["accuracy"] > 0.5
    assert report["versions"]["mpsgraph"] == mg.__version__ and report["versions"]["numpy"] == np.__version__
    assert report["versions"]["device"].startswith("cpu: ")
    assert all(f"\n{part} " in out.out for part in selftest.PARTS) and str(tmp_path / "report.json") in out.out
    assert "219 passed" not in out.out and "operations values of every operation" in out.err


def test_a_device_that_is_not_there(tmp_path, capsys):
    path = tmp_path / "report.json"
    assert main(["selftest", "--device", "gpu", "--json", str(path)]) == 1
    report = json.loads(path.read_text())
    assert report["parts"] == {} and "there is no device" in capsys.readouterr().out


def test_the_parts_can_be_chosen(tmp_path):
    status, report = run(tmp_path, "--only", "probes", "--only", "oracle")
    assert status == 0 and list(report["parts"]) == ["probes", "oracle"]
    with pytest.raises(SystemExit):
        main(["selftest", "--only", "everything"])
    assert tuple(selftest.PARTS) == cli._SELFTEST_PARTS


# --- what a check comes to --------------------------------------------------------------------------------------------
def raising(error: Exception):
    def run():
        raise error

    return run


def test_results_of_checks():
    assert perform(Check("fine", lambda: None)) == Result(PASSED)
    assert perform(Check("said", lambda: Result(NOTED, "7"))).message == "7"
    failed = perform(Check("wrong", raising(ValueError("mine"))))
    assert (failed.status, failed.message) == (FAILED, "ValueError: mine")
    unknown = perform(Check("unknown", raising(mg.UnsupportedError("no such thing"))))
    assert unknown.status == FAILED, "what is not known to be missing is a failure"
    known = perform(Check("known", raising(mg.UnsupportedError("no such thing")), reason="MPSGraph has none"))
    assert known.status == UNSUPPORTED and known.message == "MPSGraph has none: no such thing"
    older = perform(Check("older", raising(mg.UnsupportedError("needs macOS 14.0 or newer"))))
    assert older.status == UNSUPPORTED


def test_mismatches_carry_numbers():
    wrong = perform(Check("wrong", raising(checks.Mismatch("not equal", {"wrong": 3}))))
    assert (wrong.status, wrong.numbers) == (FAILED, {"wrong": 3})
    found = checks.difference(np.array([[1.0, 2.0], [np.nan, 9.0]]), np.array([[1.0, 2.5], [np.nan, 5.0]]))
    assert (found["wrong"], found["of"], found["largest difference"], found["at"]) == (2, 4, 4.0, [1, 1])
    assert checks.difference(np.zeros(2), np.zeros(3)) == {"shape": [2], "expected shape": [3]}
    assert checks.difference(np.array([np.nan]), np.array([1.0]))["largest difference"] == np.inf


@pytest.mark.parametrize("part", ["operations", "gradients"])
def test_wrong_numbers_are_failures(part: str, monkeypatch):
    """Results that are off by a little."""
    module = importlib.import_module(f"mpsgraph.selftest.parts.{part}")
    made = module.checks(Options("cpu", quick=True))
    check = next(c for c in made if c.name.startswith("sigmoid"))
    assert perform(check).status == PASSED
    running = shared.module("harness.running")
    original = running.run

    def off(*arguments, **how):
        results = original(*arguments, **how)
        if len(arguments) == 5:  # with options: the run that is tested
            results = [mg.asarray(r.numpy() + np.asarray(0.01, r.numpy().dtype)) for r in results]
        return results

    monkeypatch.setattr(running, "run", off)
    result = perform(check)
    assert result.status == FAILED and 0.009 < result.numbers["largest difference"] < 0.011


# --- processes that die -----------------------------------------------------------------------------------------------
PART = """
import os, signal, sys, time
from mpsgraph.selftest.checks import Check

def die():
    print("the last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def checks(options):
    return [
        Check("before", lambda: None),
        Check("dies", die),
        Check("between", lambda: print("to standard output")),
        Check("hangs", lambda: time.sleep(60), limit=0.5),
        Check("noted when it dies", die, died="noted"),
        Check("after", lambda: None),
    ]
"""


@pytest.fixture
def part(tmp_path, monkeypatch):
    """A part that stands in a folder of its own, which workers see, too."""
    (tmp_path / "sitecustomize.py").write_text(
        "import mpsgraph.selftest.parts as parts; parts.__path__.append(" + repr(str(tmp_path)) + ")"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(program: str) -> Report:
        (tmp_path / "made.py").write_text(program)
        report = Report(Options("cpu"))
        supervisor.run_part("made", Options("cpu"), report, "made for a test")
        return report

    return write


def test_a_check_that_dies_or_hangs_costs_no_other(part):
    started = time.monotonic()
    report = part(PART)
    found = {o.name: o for o in report._outcomes}
    assert {name: o.status for name, o in found.items()} == {
        "before": PASSED,
        "dies": FAILED,
        "between": PASSED,
        "hangs": FAILED,
        "noted when it dies": NOTED,
        "after": PASSED,
    }
    assert signal.SIGKILL.name in found["dies"].message and "the last words" in found["dies"].message
    assert "hung" in found["hangs"].message and time.monotonic() - started < 50 and report.failed


def test_a_part_that_does_not_start(part):
    report = part("raise RuntimeError('no such luck')")
    (outcome,) = report._outcomes
    assert (outcome.name, outcome.status) == ("the start", FAILED) and "no such luck" in outcome.message


def test_a_part_that_dies_all_the_time_ends(part, monkeypatch):
    monkeypatch.setattr(supervisor, "MOST_DEATHS", 4)
    dying = """
import os
from mpsgraph.selftest.checks import Check
def checks(options):
    return [Check(str(i), lambda: os._exit(3)) for i in range(1000)]
"""
    report = part(dying)
    assert len(report._outcomes) == supervisor.MOST_DEATHS + 1 and "given up" in report._outcomes[-1].message


def test_of_an_operation_that_ends_processes_not_every_case_is_tried(part):
    report = part("""
import os
from mpsgraph.selftest.checks import Check
def checks(options):
    bad = [Check(f"bad {i}", lambda: os._exit(3), died="differs", group="bad") for i in range(100)]
    return [*bad, Check("good", lambda: None, group="good")]
""")
    found = [o.message.split(":")[0] for o in report._outcomes]
    assert len(found) == 101 and found.count("not run") == 100 - supervisor.MOST_OF_A_GROUP
    assert report._outcomes[-1].status == PASSED and not report.failed


def test_a_process_that_dies_at_its_end_is_a_failure(part):
    report = part("""
import atexit, os
from mpsgraph.selftest.checks import Check
def checks(options):
    return [Check("fine", lambda: atexit.register(os._exit, 5) and None)]
""")
    assert [(o.name, o.status) for o in report._outcomes] == [("fine", PASSED), ("the end of the process", FAILED)]


# --- the report -------------------------------------------------------------------------------------------------------
def test_an_interrupted_report_is_written(tmp_path, monkeypatch):
    original = supervisor.run_part

    def interrupted(part, *arguments, **how):
        original(part, *arguments, **how)
        if part == "probes":
            raise KeyboardInterrupt

    monkeypatch.setattr(selftest, "run_part", interrupted)
    status, report = run(tmp_path, "--only", "probes", "--only", "oracle")
    assert status == 130 and report["interrupted"] and list(report["parts"]) == ["probes"]


def test_the_table_shows_what_failed(capsys, tmp_path):
    report = Report(Options("cpu"))
    for i in range(20):
        report.add(Outcome("operations", f"case {i}", FAILED, f"off by {i}", {"largest difference": i}))
    report.add(Outcome("oracle", "tanh", "differs", "Apple differs"))
    report.finish("operations", "", 1.5)
    report.finish("oracle", "", 0.5)
    report.print()
    out = capsys.readouterr().out
    assert "off by 3" in out and "case 19" not in out and "8 more" in out and "differs: oracle: tanh" in out
    report.write(tmp_path / "new" / "report.json", False)
    written = json.loads((tmp_path / "new" / "report.json").read_text())
    assert len(written["outcomes"]) == 21 and written["parts"]["operations"]["counts"] == {FAILED: 20}
    assert "attach" in report.advice(tmp_path / "report.json") and "--json" in report.advice(None)


def test_workers_write_numbers_that_are_none():
    assert json.dumps(plain({"a": [float("nan"), 1.0, (2, {"b": float("inf")})]}), allow_nan=False)
