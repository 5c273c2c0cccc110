"""Test how the self-test survives and reports crashing and hanging checks, and how it repeats failed checks."""

from __future__ import annotations

import json
import signal
import time

import numpy as np
import pytest
from mpsgraph import selftest
from mpsgraph.selftest import checks, crashes, supervisor
from mpsgraph.selftest.checks import CRASHED, FAILED, HUNG, NOTED, PASSED, WRONG, Options
from mpsgraph.selftest.outcome import Outcome
from mpsgraph.selftest.report import Report

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
    """Return a function that runs a program as a part of the self-test.

    The program is in a separate directory, which worker processes can import from, too.
    """
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


def test_crashing_and_hanging_checks_do_not_affect_other_checks(part):
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
    assert [found[name].how for name in ("dies", "hangs", "noted when it dies", "after")] == [
        CRASHED,
        HUNG,
        CRASHED,
        "",
    ]
    assert signal.SIGKILL.name in found["dies"].message and "the last words" in found["dies"].message
    assert "hung" in found["hangs"].message and time.monotonic() - started < 50 and report.failed
    second = {name: o.second_run for name, o in found.items() if o.second_run}
    assert second == {"dies": "the same result", "hangs": "the same result"}


def test_crash_and_hang_are_reported_with_python_frames(part):
    report = part("""
import ctypes, sys, time
from mpsgraph.selftest.checks import Check

def dereferences_null():
    print("/Library/x.m:71: failed assertion `rank > 0'", *map(str, range(100)), sep="\\n", file=sys.stderr, flush=True)
    ctypes.string_at(0)

def waits():
    time.sleep(60)

def checks(options):
    return [Check("crashes", dereferences_null), Check("hangs", waits, limit=0.5)]
""")
    crashed, hung = report._outcomes
    assert (crashed.how, hung.how) == (CRASHED, HUNG)
    assert any("dereferences_null" in line for line in crashed.numbers["python frames"])
    assert any("waits" in line for line in hung.numbers["python frames"])
    output = crashed.numbers["output"]
    assert "failed assertion `rank > 0'" in output[0] and output[-1] == "99"
    assert not any("dereferences_null" in line for line in output), "frames must not push the output out of the report"


def test_failed_checks_run_twice_and_the_report_says_whether_the_result_was_the_same(part, tmp_path):
    report = part(f"""
import os, time
from pathlib import Path
import numpy as np
from mpsgraph.selftest.checks import Check, Mismatch, Result, described

def times(name):
    with (Path({str(tmp_path)!r}) / name).open("a") as file:
        file.write("x")
    return len((Path({str(tmp_path)!r}) / name).read_text())

def wrong(name, by=lambda count: 1.0):
    def run():
        raise Mismatch("wrong", {{"largest difference": by(times(name))}})
    return run

def fails_first(name, fail):
    return lambda: fail() if times(name) == 1 else None

def fails_then(name, fail):
    return lambda: fail() if times(name) == 2 else wrong(name + " first")()

def asserts():
    assert False, "only once"

def checks(options):
    return [
        Check("always wrong", wrong("a"), about=lambda: described([("float32", np.ones((2, 3)))])),
        Check("wrong in another way", wrong("b", float)),
        Check("wrong once", fails_first("c", asserts), about=lambda: 1 / 0),
        Check("crashes once", fails_first("d", lambda: os._exit(3)), about=lambda: "float16 [7]"),
        Check("hangs once", fails_first("e", lambda: time.sleep(60)), limit=0.5),
        Check("crashes in the second run", fails_then("f", lambda: os._exit(4))),
        Check("right", lambda: None, about=lambda: "not in the report"),
    ]
""")
    found = {o.name: o for o in report._outcomes}
    assert {name: o.second_run for name, o in found.items()} == {
        "always wrong": "the same result",
        "wrong in another way": "failed with another result: wrong",
        "wrong once": PASSED,
        "crashes once": PASSED,
        "hangs once": PASSED,
        "crashes in the second run": "the process exited with status 4",
        "right": "",
    }
    assert [o.status for o in found.values()] == 6 * [FAILED] + [PASSED]
    assert (found["crashes once"].how, found["crashes in the second run"].how) == (CRASHED, WRONG)
    assert found["always wrong"].text().splitlines()[1:] == [
        "check: inputs float32 [2, 3] [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]",
        "second run: the same result",
    ]
    assert found["wrong once"].about == "not described: ZeroDivisionError: division by zero"
    assert found["crashes once"].about == "float16 [7]" and found["right"].about == ""


def test_check_whose_second_run_does_not_fit_into_the_time_limit_is_reported(part, tmp_path):
    program = """
import os, time
from mpsgraph.selftest.checks import Check
def slow_death():
    time.sleep(1)
    os._exit(3)
def checks(options):
    return [Check("dies", slow_death), Check("other", lambda: None)]
"""
    part("def checks(options): return []")
    (tmp_path / "made.py").write_text(program)
    report = Report(Options("cpu"))
    supervisor.run_part("made", Options("cpu", seconds=0.5), report, "made for a test")
    assert [(o.name, o.second_run) for o in report._outcomes] == [("dies", "none, because the part ended")]
    assert report.content(False)["parts"]["made"]["left out"] == 1


def test_only_twenty_failed_checks_of_a_process_run_again(part):
    report = part("""
from mpsgraph.selftest.checks import Check
def fails():
    raise ValueError("always")
def checks(options):
    return [Check(str(i), fails) for i in range(22)]
""")
    expected = 20 * ["the same result"] + 2 * ["none, because 20 other checks have run again"]
    assert [o.second_run for o in report._outcomes] == expected


def test_report_of_a_hang_names_the_stage_and_native_stacks(part, tmp_path, monkeypatch):
    command = tmp_path / "bin" / "sample"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\necho Sampling process $1\necho Call graph:\necho '  10 Thread_1  mach_msg'\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=":")
    report = part("""
import mpsgraph as mg
from mpsgraph.selftest.checks import Check
def waits():
    mg.SharedEvent().wait(1, 60.0)
def checks(options):
    return [Check("hangs", waits, limit=0.5)]
""")
    (hung,) = report._outcomes
    assert "it was waiting for work or an event, at made.py:5: mg.SharedEvent().wait(1, 60.0)" in hung.message
    assert hung.numbers["native stacks"] == ["Call graph:", "  10 Thread_1  mach_msg"]


def test_stage_is_read_from_the_innermost_line_that_tells():
    def frame(code: str) -> str:
        return f'  File "/x/running.py", line 7 in run: {code}'

    assert crashes.stage([frame("pass"), frame("g.compile(x)"), frame("e.run(y)")]) == (
        "it was compiling a program, at running.py:7: g.compile(x)"
    )
    assert crashes.stage([frame("e.run([x])"), frame("g.compile(x)")]).startswith("it was running a program")
    assert crashes.stage(['  File "/x/a.py", line 7 in f', "Thread 0x1 (most recent call first):"]) == ""


def test_inputs_are_described_by_shape_and_values_or_range():
    small, large = np.array([1.5, -2.0]), np.arange(12.0).reshape(3, 4)
    assert checks.described([("float16", small), ("int32", large.astype(int))], {"axis": 1}) == (
        "inputs float16 [2] [1.5, -2.0]; int32 [3, 4] from 0 to 11; axis=1"
    )
    many = {"weights": np.zeros(100), "text": "x" * 200}
    text = checks.described([("float32", np.zeros(())), ("float32", large * np.nan), ("bool", np.zeros((0, 2)))], many)
    assert (
        text == f"inputs float32 [] 0.0; float32 [3, 4]; bool [0, 2]; weights=array of shape (100,), text={'x' * 77}..."
    )


def test_excerpt_keeps_first_last_and_error_lines():
    lines = [f"line {i}" for i in range(100)]
    lines[50] = "-[MTLDebugDevice x]:12: failed assertion `Buffer Validation'"
    lines[70] = "error: 'mps.matmul' op requires the same element type"
    kept = crashes.excerpt("\n".join(lines))
    assert kept[: crashes.FIRST] == lines[: crashes.FIRST] and kept[-crashes.LAST :] == lines[-crashes.LAST :]
    assert lines[50] in kept and lines[70] in kept and "... (46 lines left out)" in kept
    assert crashes.excerpt("only one line") == ["only one line"] and crashes.excerpt("") == []


def test_crash_report_of_the_process_is_read(tmp_path):
    body = {
        "pid": 4711,
        "exception": {"type": "EXC_CRASH", "signal": "SIGABRT"},
        "asi": {"libsystem_c.dylib": ["abort() called"], "MPSGraph": ["failed assertion `rank mismatch'"]},
        "termination": {"indicator": "Abort trap: 6"},
        "osVersion": {"build": "25E123"},
        "faultingThread": 1,
        "threads": [{}, {"queue": "q", "frames": [{"imageIndex": 0, "symbol": "abort"}, {"imageIndex": 9}]}],
        "usedImages": [{"name": "libsystem_c.dylib", "path": "/usr/lib/system/libsystem_c.dylib"}],
    }
    header = json.dumps({"app_name": "python3.13"})
    (tmp_path / "python3.13-2.ips").write_text(f"{header}\n{json.dumps(body)}")
    (tmp_path / "python3.13-3.ips").write_text(f"{header}\n{json.dumps({**body, 'pid': 1})}")
    (tmp_path / "python3.13-4.ips").write_text("not a crash report")
    found = crashes.crash_report(4711, since=0.0, folder=tmp_path)
    assert found["exception"] == "EXC_CRASH SIGABRT" and found["system"] == "25E123"
    assert found["application"] == ["abort() called", "failed assertion `rank mismatch'"]
    assert found["stack"] == ["libsystem_c.dylib: abort", "?: 0x0"]
    assert crashes.crash_report(4712, since=0.0, folder=tmp_path) == {}
    assert crashes.crash_report(4711, since=time.time() + 60, folder=tmp_path) == {}
    assert crashes.crash_report(4711, since=0.0, folder=tmp_path / "missing") == {}


def test_crash_reports_are_attached_to_failed_checks(monkeypatch):
    report = Report(Options("metal"))
    report.add(Outcome("operations", "dies", FAILED, "crashed", {"process": 4711}, how=CRASHED))
    report.add(Outcome("operations", "is wrong", FAILED, "wrong", {"wrong": 1}, how=WRONG))
    monkeypatch.setattr("mpsgraph.selftest.report.sys.platform", "darwin")
    monkeypatch.setattr(crashes, "crash_report", lambda process, since: {"exception": f"of {process}"})
    report.attach_crash_reports(wait=0.0)
    died, wrong = report.content(interrupted=False)["outcomes"]
    assert died["numbers"]["crash report"] == {"exception": "of 4711"} and "crash report" not in wrong["numbers"]


def test_part_runs_with_its_environment_variables(part, monkeypatch):
    assert supervisor.ENVIRONMENTS["validation"]["MTL_DEBUG_LAYER"] == "1"
    monkeypatch.setitem(supervisor.ENVIRONMENTS, "made", {"MTL_DEBUG_LAYER": "7"})
    report = part("""
import os
from mpsgraph.selftest.checks import Check, Result
def checks(options):
    return [Check("reads", lambda: Result(message=os.environ["MTL_DEBUG_LAYER"]))]
""")
    assert report._outcomes[0].message == "7"


def test_part_that_fails_to_start_is_reported_as_one_failure(part):
    report = part("raise RuntimeError('no such luck')")
    (outcome,) = report._outcomes
    assert (outcome.name, outcome.status) == ("the start", FAILED) and "no such luck" in outcome.message


def test_part_that_crashes_repeatedly_is_abandoned(part, monkeypatch):
    monkeypatch.setattr(supervisor, "MOST_DEATHS", 4)
    dying = """
import os
from mpsgraph.selftest.checks import Check
def checks(options):
    return [Check(str(i), lambda: os._exit(3)) for i in range(1000)]
"""
    report = part(dying)
    assert len(report._outcomes) == supervisor.MOST_DEATHS + 1 and "given up" in report._outcomes[-1].message


def test_crash_skips_the_rest_of_its_group(part):
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


def test_crash_at_process_exit_is_reported_as_failure(part):
    report = part("""
import atexit, os
from mpsgraph.selftest.checks import Check
def checks(options):
    return [Check("fine", lambda: atexit.register(os._exit, 5) and None)]
""")
    assert [(o.name, o.status) for o in report._outcomes] == [("fine", PASSED), ("the end of the process", FAILED)]


def test_part_over_time_limit_skips_remaining_checks(tmp_path, part):
    program = """
import time
from mpsgraph.selftest.checks import Check
def checks(options):
    return [Check(str(i), lambda: time.sleep(0.05)) for i in range(1000)]
"""
    part(program.replace("1000", "3"))
    (tmp_path / "made.py").write_text(program)
    report = Report(Options("cpu"))
    supervisor.run_part("made", Options("cpu", seconds=0.5), report, "made for a test")
    content = report.content(interrupted=False)
    done, left = content["parts"]["made"]["counts"][PASSED], content["parts"]["made"]["left out"]
    assert 1 <= done <= 10 and done + left == 1000 and not report.failed
    assert f"{left} of made" in content["summary"]["left out"]


def test_run_over_its_time_ends_within_a_check_with_a_report(tmp_path, monkeypatch, part, capsys):
    """Parts and checks after the deadline are skipped, and the report says so; a hanging check does not delay it."""
    part("def checks(options): return []")
    program = """
import time
from mpsgraph.selftest.checks import Check
def waits():
    time.sleep(60)
def checks(options):
    return [Check("first", lambda: None), Check("waits", waits), *(Check(str(i), lambda: None) for i in range(7))]
"""
    (tmp_path / "made.py").write_text(program)
    monkeypatch.setattr(selftest, "PARTS", {"made": "made for a test", "later": "is not begun"})
    monkeypatch.setattr(selftest, "SECONDS", {"made": 60.0, "later": 60.0})
    monkeypatch.setattr(selftest, "LONGEST_RUN", 6.0)
    started = time.monotonic()
    path = tmp_path / "report.json"
    assert selftest.main("cpu", path, quick=False, only=None) == 0
    assert time.monotonic() - started < 6 + 10
    content = json.loads(path.read_text())
    assert content["parts"]["made"]["passed"] == ["first"] and content["parts"]["made"]["left out"] == 7
    assert content["parts"]["later"]["left out"] is None and not content["failed"]
    assert content["summary"]["left out"].startswith("Skipped for lack of time: 7 of made, all of later;")
    (cut,) = [o for o in content["outcomes"] if o["part"] == "made"]
    assert (cut["name"], cut["status"]) == ("waits", NOTED) and "when the time of the run was over" in cut["message"]
    assert any("waits" in line for line in cut["numbers"]["python frames"])
    printed = capsys.readouterr()
    assert "made: waits" in printed.out and "later      is not begun: all skipped" in printed.err


HANGS_AT_EXIT = """
import atexit, time
from mpsgraph.selftest.checks import Check
def checks(options):
    return [Check("fine", lambda: atexit.register(time.sleep, 60) and None)]
"""


def test_process_that_hangs_at_its_exit_is_reported_as_failure(part, monkeypatch):
    monkeypatch.setattr(supervisor, "LONGEST_CHECK", 1.0)
    report = part(HANGS_AT_EXIT)
    assert [(o.name, o.how) for o in report._outcomes] == [("fine", ""), ("the end of the process", HUNG)]


def test_time_of_the_run_ends_processes_that_exit_or_repeat_a_check(tmp_path, part):
    part("def checks(options): return []")
    (tmp_path / "made.py").write_text(HANGS_AT_EXIT)
    report = Report(Options("cpu"))
    supervisor.run_part("made", Options("cpu"), report, "made for a test", time.perf_counter() + 5)
    assert [(o.name, o.status) for o in report._outcomes] == [("fine", PASSED), ("the end of the process", NOTED)]
    (tmp_path / "made.py").write_text("""
import os, time
from mpsgraph.selftest.checks import Check
def fails(seconds=[0, 60]):
    time.sleep(seconds.pop(0))
    raise ValueError("always")
def checks(options):
    return [Check("fails", fails), Check("other", lambda: None)]
""")
    report = Report(Options("cpu"))
    supervisor.run_part("made", Options("cpu"), report, "made for a test", time.perf_counter() + 5)
    ended = [(o.name, o.status, o.second_run) for o in report._outcomes]
    assert ended == [("fails", FAILED, "none, because the part ended")]
    assert report.content(False)["parts"]["made"]["left out"] == 1


def test_parts_fit_into_the_time_of_a_run():
    """Ten minutes are promised; the margins are for starting processes, and for writing the report."""
    assert sum(selftest.SECONDS.values()) + 15 <= selftest.LONGEST_RUN <= 600 - 15
    assert selftest.SECONDS.keys() == selftest.PARTS.keys()
