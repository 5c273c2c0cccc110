"""Test the self-test on the CPU.

The tests check its parts and its report, and that a failing, crashing, or hanging check does not affect other checks.
Cases and checks that are made to fail show that each part can report failures. The Metal device is tested in
metal/test_selftest.py.
"""

from __future__ import annotations

import functools
import importlib
import io
import json
import plistlib
import re
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import cli, selftest
from mpsgraph.cli import main
from mpsgraph.selftest import checks, shared, supervisor, worker
from mpsgraph.selftest.checks import (
    CRASHED,
    FAILED,
    KNOWN,
    NOTED,
    PASSED,
    RAISED,
    REFUSED,
    UNSUPPORTED,
    WRONG,
    Check,
    Mismatch,
    Options,
    Result,
    difference,
    perform,
)
from mpsgraph.selftest.outcome import Outcome
from mpsgraph.selftest.parts import nodes, repeats, versions
from mpsgraph.selftest.progress import Progress
from mpsgraph.selftest.report import Report
from mpsgraph.selftest.summary import faster
from mpsgraph.selftest.worker import plain


def run(tmp_path: Path, *arguments: str) -> tuple[int, dict]:
    path = tmp_path / "report.json"
    status = main(["selftest", "--device", "cpu", "--quick", "--json", str(path), *arguments])
    return status, json.loads(path.read_text())


# --- the command ------------------------------------------------------------------------------------------------------
def test_selftest_report_contains_all_parts(tmp_path, capsys):
    status, report = run(tmp_path)
    out = capsys.readouterr()
    assert status == 0 and not report["failed"] and not report["interrupted"], out.out
    assert list(report["parts"]) == list(selftest.PARTS)
    kinds = {d["name"] for d in mg._core.definitions() if not d["internal"]}
    assert report["parts"]["operations"]["counts"][PASSED] > 0.9 * len(kinds)
    assert report["parts"]["gradients"]["counts"][PASSED] > 100
    assert set(report["parts"]["nodes"]["counts"]) == {PASSED}
    kinds_of_nodes = {row["family"] for row in mg.nngraph.node_table()} - {"dropout", "yolo_loss"}
    assert report["parts"]["nodes"]["families"].keys() >= kinds_of_nodes
    assert report["parts"]["operations"]["families"]["activation"][PASSED] > 5
    assert report["summary"]["verdict"].startswith("Nothing failed in ") and report["summary"]["wrong"] == "Nothing."
    assert "of unseen digits" in report["summary"]["works"] and "digit network " in report["summary"]["speed"]
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    assert report["parts"]["runtime"]["counts"][PASSED] > 20 and report["parts"]["digits"]["counts"][PASSED] == 2
    assert report["parts"]["speed"]["counts"] == {NOTED: 3}
    assert report["parts"]["probes"]["counts"] == report["parts"]["oracle"]["counts"] == {}
    assert report["parts"]["validation"]["counts"] == {}, "the CPU device does not use Metal"
    assert report["parts"]["repeats"]["counts"] == {PASSED: len(repeats.PROGRAMS)}
    compiled = report["parts"]["operations"]
    assert 0 < compiled["compile seconds"] < compiled["seconds"] and len(compiled["slowest to compile"]) == 10
    speed = [o for o in report["outcomes"] if o["part"] == "speed"]
    assert all(o["numbers"]["mpsgraph cpu"]["median ms"] > 0 for o in speed)
    assert all("MLX CPU" in o["numbers"] and "PyTorch CPU" in o["numbers"] for o in speed[1:])
    (name,) = (name for name in speed[0]["numbers"] if name.startswith("numpy ("))
    assert speed[0]["numbers"][name]["median ms"] > 0
    (training,) = [o for o in report["measured"] if o["name"] == "training"]
    assert training["numbers"]["accuracy"] > 0.5
    assert report["versions"]["mpsgraph"] == mg.__version__ and report["versions"]["numpy"] == np.__version__
    assert report["versions"]["device"].startswith("cpu: ")
    assert all(f"\n{part} " in out.out for part in selftest.PARTS) and str(tmp_path / "report.json") in out.out
    assert all(heading in out.out for heading in report["summary"])
    assert "219 passed" not in out.out and "operations values of every operation" in out.err


def test_selftest_on_unavailable_device_fails_with_empty_report(tmp_path, capsys):
    path = tmp_path / "report.json"
    assert main(["selftest", "--device", "gpu", "--json", str(path)]) == 1
    report = json.loads(path.read_text())
    assert report["parts"] == {} and 'device "gpu" is not available' in capsys.readouterr().out


def test_selftest_runs_only_checks_that_match(tmp_path, capsys):
    status, report = run(tmp_path, "--only", "operations", "--match", "tanh")
    capsys.readouterr()
    assert status == 0 and report["versions"]["device"].startswith("cpu")
    assert 1 <= report["parts"]["operations"]["counts"][PASSED] < 10
    assert all("tanh" in entry["name"] for entry in report["parts"]["operations"]["slowest"])


def test_selftest_runs_only_selected_parts(tmp_path):
    status, report = run(tmp_path, "--only", "probes", "--only", "oracle")
    assert status == 0 and list(report["parts"]) == ["probes", "oracle"]
    with pytest.raises(SystemExit):
        main(["selftest", "--only", "everything"])
    assert tuple(selftest.PARTS) == cli._SELFTEST_PARTS


# --- results of checks ------------------------------------------------------------------------------------------------
def raising(error: Exception):
    def run():
        raise error

    return run


def test_check_status_depends_on_result_or_exception():
    assert perform(Check("fine", lambda: None)) == Result(PASSED)
    assert perform(Check("said", lambda: Result(NOTED, "7"))).message == "7"
    failed = perform(Check("wrong", raising(ValueError("mine"))))
    assert (failed.status, failed.how) == (FAILED, RAISED)
    said, origin = failed.message.splitlines()
    assert said == "ValueError: mine"
    assert re.fullmatch(r"Raised at test_selftest.py:\d+, in run: raise error", origin)
    unknown = perform(Check("unknown", raising(mg.UnsupportedError("no such thing"))))
    assert unknown.status == FAILED, "an unsupported operation without a listed reason must be a failure"
    assert unknown.how == REFUSED
    known = perform(Check("known", raising(mg.UnsupportedError("no such thing")), reason="MPSGraph has none"))
    assert known.status == UNSUPPORTED and known.message == "MPSGraph has none: no such thing"
    older = perform(Check("older", raising(mg.UnsupportedError("needs macOS 14.0 or newer"))))
    assert older.status == UNSUPPORTED


def test_mismatching_checks_report_numbers():
    wrong = perform(Check("wrong", raising(checks.Mismatch("not equal", {"wrong": 3}))))
    assert (wrong.status, wrong.numbers, wrong.how) == (FAILED, {"wrong": 3}, WRONG)
    found = checks.difference(np.array([[1.0, 2.0], [np.nan, 9.0]]), np.array([[1.0, 2.5], [np.nan, 5.0]]))
    assert (found["wrong"], found["of"], found["largest difference"], found["at"]) == (2, 4, 4.0, [1, 1])
    assert checks.difference(np.zeros(2), np.zeros(3)) == {"shape": [2], "expected shape": [3]}
    assert checks.difference(np.array([np.nan]), np.array([1.0]))["largest difference"] == np.inf


@pytest.mark.parametrize("part", ["operations", "gradients"])
def test_inaccurate_results_are_reported_as_failures(part: str, monkeypatch):
    """A small error added to every result is reported."""
    module = importlib.import_module(f"mpsgraph.selftest.parts.{part}")
    made = module.checks(Options("cpu", quick=True))
    check = next(c for c in made if c.name.startswith("sigmoid"))
    assert perform(check).status == PASSED
    running = shared.module("harness.running")
    original = running.run

    def off(*arguments, **how):
        results = original(*arguments, **how)
        if len(arguments) == 5:  # Only the tested run passes options.
            results = [mg.asarray(r.numpy() + np.asarray(0.01, r.numpy().dtype)) for r in results]
        return results

    monkeypatch.setattr(running, "run", off)
    result = perform(check)
    assert result.status == FAILED and 0.009 < result.numbers["largest difference"] < 0.011


# --- repeated runs and versions ---------------------------------------------------------------------------------------
def test_framework_versions_are_read_from_property_lists(tmp_path):
    resources = tmp_path / "MetalPerformanceShadersGraph.framework" / "Resources"
    resources.mkdir(parents=True)
    (resources / "Info.plist").write_bytes(plistlib.dumps({"CFBundleVersion": "6.2.6"}))
    assert versions._frameworks(tmp_path) == {"MetalPerformanceShadersGraph": "6.2.6"}
    found = versions.versions(Options("cpu"))
    assert found["virtual machine"] in ("yes", "no", "unknown") and re.search(r"(gcc|clang) \d+", found["built with"])


def test_results_that_change_from_run_to_run_are_reported(monkeypatch):
    program = repeats.PROGRAMS[0]
    assert repeats.repeat(program, "float32", "cpu", 3) is None
    original = repeats.run_on

    def run_on(*given, change=lambda results: None):
        results = original(*given)
        if len(results) > 1:
            change(results)
        return results

    def one_bit(results):
        results[2][0, 0] = np.nextafter(results[2][0, 0], 1e9)

    def far_off(results):
        results[1] *= 1.5

    monkeypatch.setattr(repeats, "run_on", functools.partial(run_on, change=one_bit))
    changed = repeats.repeat(program, "float32", "cpu", 4)
    assert (changed.status, changed.how, changed.numbers["runs that differ from the first"]) == (FAILED, WRONG, 1)
    monkeypatch.setattr(repeats, "run_on", functools.partial(run_on, change=far_off))
    wrong = perform(Check("wrong", lambda: repeats.repeat(program, "float32", "cpu", 4)))
    assert (wrong.how, wrong.numbers["runs with wrong results"]) == (WRONG, 1)


# --- known failures ---------------------------------------------------------------------------------------------------
def test_listed_mac_failure_is_reported_as_known(monkeypatch):
    monkeypatch.setitem(shared.module("harness.mac_failures").FAILURES, "operations: sine", "wrong on M9")
    check = Check("sine", lambda: None)
    failed, passed = Result(FAILED, "off", {"wrong": 1}, WRONG), Result(PASSED)
    assert worker.judged("operations", check, failed) == failed, "listed failures must count as known only on macOS"
    monkeypatch.setattr(shared.sys, "platform", "darwin")
    known = worker.judged("operations", check, failed)
    assert (known.status, known.how, known.numbers) == (KNOWN, WRONG, {"wrong": 1}) and "wrong on M9" in known.message
    assert worker.judged("gradients", check, failed) == failed
    again = worker.judged("operations", check, passed)
    assert again.status == PASSED and again.numbers == {"listed": "wrong on M9"}


# --- nodes ------------------------------------------------------------------------------------------------------------
def test_inaccurate_nodes_are_reported_as_failures(monkeypatch):
    made = {c.name: c for c in nodes.checks(Options("cpu", quick=True))}
    check = made["value of neuron_sigmoid-default"]
    assert perform(check).status == PASSED and check.family == "neuron"
    harness = shared.module("harness.nodes")
    original = harness.run
    monkeypatch.setattr(harness, "run", lambda *given: [r * 1.01 for r in original(*given)])
    assert (perform(check).status, perform(check).how) == (FAILED, WRONG)


def test_node_network_with_wrong_losses_is_reported_as_failure(monkeypatch):
    assert perform(Check("as", lambda: nodes.as_a_graph("cpu"))).status == PASSED
    monkeypatch.setattr(nodes.Network, "train", lambda self: nodes.graph_losses() + 0.01)
    assert perform(Check("as", lambda: nodes.as_a_graph("cpu"))).how == WRONG
    monkeypatch.setattr(nodes.Network, "train", lambda self: np.linspace(1.4, 1.3, nodes.STEPS))
    assert perform(Check("learns", lambda: nodes.learns("cpu"))).how == WRONG


# --- progress ---------------------------------------------------------------------------------------------------------
class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_printed_differently_to_terminal_and_log(monkeypatch):
    now = iter(range(0, 1000, 20))
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    shown, log, silent = Terminal(), io.StringIO(), io.StringIO()
    for title, stream in (("operations", shown), ("operations", log), ("", silent)):
        progress = Progress(title, stream)
        progress.total = 1200
        for failed in (False, True):
            progress.begin("tanh-float32")
            progress.end(failed)
        progress.close()
    assert "1 of 1,200" in shown.getvalue() and "tanh-float32" in shown.getvalue() and "1 failed" in shown.getvalue()
    assert shown.getvalue().endswith(" \r"), "the progress line must be cleared"
    assert 1 <= log.getvalue().count("\n") < shown.getvalue().count("\r") and "\r" not in log.getvalue()
    assert silent.getvalue() == ""


# --- the report -------------------------------------------------------------------------------------------------------
def test_interrupted_selftest_writes_its_report(tmp_path, monkeypatch):
    original = supervisor.run_part

    def interrupted(part, *arguments, **how):
        original(part, *arguments, **how)
        if part == "probes":
            raise KeyboardInterrupt

    monkeypatch.setattr(selftest, "run_part", interrupted)
    status, report = run(tmp_path, "--only", "probes", "--only", "oracle")
    assert status == 130 and report["interrupted"] and list(report["parts"]) == ["probes"]


def test_printed_selftest_table_lists_failures(capsys, tmp_path):
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


def test_mismatch_names_the_worst_element_a_common_factor_and_infinities():
    wanted = np.float32([1, -2, 4])
    said = str(Mismatch("wrong", difference(wanted * 1.25, wanted)))
    assert said.splitlines() == [
        "wrong",
        "Worst element [2]: found 5.0, expected 4.0",
        "All elements are the expected ones times 1.25",
    ]
    assert "times 0" in str(Mismatch("", difference(wanted * np.float32(-0.0), wanted)))
    said = str(Mismatch("wrong", difference(np.float32([1, np.inf, np.nan]), wanted)))
    assert "2 of 3 elements are infinite or NaN instead of finite" in said and "times" not in said
    assert "times" not in str(Mismatch("", difference(np.float32([1, -2, 5]), wanted)))
    assert "times" not in str(Mismatch("", difference(np.float32([1.25, 3]), np.float32([1, 0]))))
    assert "times" not in str(Mismatch("", difference(np.complex64([1.25 + 1j, 2.5 - 1j]), np.complex64([1, 2]))))
    assert str(Mismatch("a value is missing", {})) == "a value is missing"


def test_selftest_verdict_states_an_error_of_several_operations_once():
    report = Report(Options("cpu"))
    for name in ("sine", "cosine"):
        report.add(Outcome("operations", f"{name}-x", FAILED, "DeviceError: timeout\nmore", how=RAISED, family="a"))
    report.add(Outcome("operations", "tanh-x", FAILED, "TypeError: no", how=RAISED, family="a"))
    verdict = report.summary()["verdict"]
    assert 'the same error in 2 checks: "DeviceError: timeout"; an error in tanh.' in verdict


def test_selftest_summary_describes_failures_in_plain_words():
    report = Report(Options("cpu"))
    report.add(Outcome("versions", "versions", PASSED, numbers={"chip": "Apple M9", "system": "macOS 30.0"}))
    for dtype in ("float32", "int8"):
        report.add(Outcome("operations", f"sine-large-{dtype}", FAILED, "off", how=WRONG, family="arithmetic"))
    report.add(Outcome("nodes", "gradient of convolution-3x3", FAILED, "died", how=CRASHED, family="convolution"))
    report.add(Outcome("operations", "cosine-float32", PASSED, family="arithmetic"))
    report.add(Outcome("runtime", "graphs_are_released", KNOWN, "known: grows"))
    report.add(Outcome("probes", "rank_0", NOTED, "ended", how=CRASHED))
    said = report.summary()
    assert said["verdict"] == (
        "3 of 6 checks failed on Apple M9, macOS 30.0: wrong numbers in sine; a crash in convolution."
    )
    assert said["works"] == "Operation values in 1 family (1 of 3)."
    assert said["wrong"] == "wrong numbers: 2 (sine 2); ended the process: 1 (convolution)."
    assert (
        said["known"].startswith("1 check fails in the same way as on an earlier Mac")
        and said["speed"] == "Not measured."
    )
    assert said["questions"].startswith("1 question about MPSGraph answered")
    assert report.summary(interrupted=True)["verdict"].endswith("so this covers only a part.")


def test_verdict_of_a_device_that_cannot_be_opened_names_the_error(capsys):
    report = Report(Options("metal"))
    message = "the process exited with status 1\nTraceback:\n  File x\nmpsgraph.errors.DeviceError: no Metal device\n^"
    report.add(Outcome("versions", "the start", FAILED, message, {"process": 7, "output": ["long"]}))
    verdict = report.summary()["verdict"]
    assert verdict.startswith("The device could not be opened: the process exited with status 1: mpsgraph.errors.Devi")
    report.print()
    assert "\noutput" not in capsys.readouterr().out


def test_summary_states_the_scope():
    def scope(**options) -> str:
        return Report(Options("cpu", **options)).summary()["scope"]

    assert scope() == "All parts; every dtype, within the time limits."
    assert scope(quick=True, match="tanh", only=("operations", "repeats")) == (
        "Only operations, repeats (--only); one case per operation and shorter measurements (--quick); "
        'only checks whose name contains "tanh" (--match).'
    )
    assert scope(everything=True) == "All parts; every check, without time limits (--all)."


def test_report_names_passed_checks_of_parts_with_failures(capsys):
    report = Report(Options("cpu"))
    for name in ("tanh-float32", "tanh-float16", "sine-float32", "sine-float16"):
        status = FAILED if name == "tanh-float16" else PASSED
        report.add(Outcome("operations", name, status, family="activation", how=WRONG))
    for number in range(40):
        report.add(Outcome("gradients", f"x{number}-float32", PASSED, family="x"))
    report.add(Outcome("runtime", "queues", PASSED))
    for part in ("operations", "gradients", "runtime"):
        report.finish(part, "", 1.0)
    report.print()
    out = capsys.readouterr().out
    assert "passed in operations: tanh-float32, sine\n" in out and "passed in runtime: queues\n" in out
    assert "passed in gradients" not in out
    parts = report.content(interrupted=False)["parts"]
    assert parts["operations"]["passed"] == ["tanh-float32", "sine-float32", "sine-float16"]
    assert len(parts["gradients"]["passed"]) == 40


def test_selftest_verdict_names_operations_and_the_only_dtype():
    report = Report(Options("cpu"))
    for dtype in ("float32", "float16", "bfloat16"):
        for name in ("tanh", "sine", "sigmoid"):
            status = FAILED if dtype == "bfloat16" else PASSED
            report.add(Outcome("operations", f"{name}-small-{dtype}", status, how=RAISED, family="activation"))
        report.add(Outcome("repeats", f"matmul plus bias, one row, {dtype}", FAILED, how=WRONG, family="repeats"))
    verdict = report.summary()["verdict"]
    assert verdict.startswith("6 of 12 checks failed on this machine, unknown system: ")
    assert "wrong numbers in matmul plus bias, one row" in verdict
    assert "an error in tanh, sine and 1 more (bfloat16 only)" in verdict


def test_selftest_summary_names_operations_that_compile_slowly():
    report = Report(Options("cpu"))
    for name, seconds in (("convolution2d-a-float32", 4.0), ("convolution2d-b-float32", 5.0), ("tanh-float32", 1.9)):
        report.add(Outcome("operations", name, PASSED, family="x", compile_seconds=seconds))
    assert report.summary()["compile"] == "2 checks took 2 s or longer to compile: convolution2d 5.0 s."


def test_selftest_summary_omits_measurements_cut_by_the_time_limit():
    report = Report(Options("cpu"))
    report.add(Outcome("speed", "digit network", NOTED, "the run reached its time limit"))
    assert report.summary()["speed"] == "Not measured."
    report.add(Outcome("speed", "matmul, 512", NOTED, numbers={"mpsgraph": {"median ms": 1.5}}))
    assert report.summary()["speed"] == "Times: matmul 1.50 ms."


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(0.5, "2.0 times as fast as"), (0.97, "as fast as"), (1.04, "as fast as"), (1.5, "1.5 times slower than")],
)
def test_speed_ratios_are_described_in_words(ratio: float, words: str):
    assert faster(ratio) == words


def test_saved_selftest_report_can_be_drawn(tmp_path, capsys, monkeypatch):
    _, report = run(tmp_path, "--only", "probes")
    picture = tmp_path / "report.png"
    picture.unlink()
    assert main(["selftest", "--draw", str(tmp_path / "report.json")]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    (tmp_path / "other.json").write_text("[]")
    assert main(["selftest", "--draw", str(tmp_path / "other.json")]) == 1
    assert "is not a self-test report" in capsys.readouterr().err
    picture.unlink()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(tmp_path, "--only", "probes")[0] == 0 and not picture.exists()
    out = capsys.readouterr().out
    assert "pip install matplotlib" in out and f"mpsgraph selftest --draw {tmp_path / 'report.json'}" in out


def test_selftest_workers_write_valid_json_for_nan_and_inf():
    assert json.dumps(plain({"a": [float("nan"), 1.0, (2, {"b": float("inf")})]}), allow_nan=False)
