"""The cases of one test together, where several processes share the tests, as `make test` has it.

A test of a thousand cases is one item there: what pytest does around an item takes longer than a short case. Each case
runs on arguments of its own all the same, whatever became of the others, and one that does not pass is reported under
its own name, by which it can be run alone, as if it had been an item. The end of the run says how many cases passed.

In one process (`pytest tests/nn/test_losses.py`, a name with its case in brackets) each case is an item as ever. What
needs more of pytest than arguments stays one everywhere: other fixtures than those in FRESH, and marks in SINGLE, which
stand at what device metal refuses, too.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

from . import device

REPOSITORY = Path(__file__).resolve().parents[2]


def random_numbers() -> np.random.Generator:
    """Random numbers that are the same in every run of a test."""
    return np.random.default_rng(20240911)


# Fixtures of conftest.py that need nothing of pytest: what each case is given for its own.
FRESH = {"rng": random_numbers, "repository": lambda: REPOSITORY}
SINGLE = {"skip", "skipif", "xfail", "usefixtures"}


def needs_only_arguments(item: pytest.Item) -> bool:
    return (
        isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and set(item.fixturenames) <= {*item.callspec.params, *FRESH}
        and not any(mark.name in SINGLE for mark in item.iter_markers())
        and not hasattr(item.obj, "hypothesis")  # whose plugin must see the item
    )


def alone(name: str) -> str:
    return f"MPSGRAPH_TEST_DEVICE={device.NAME} .venv/bin/python -m pytest '{name}'"


class Running:
    """A file that says which case a process runs, for when it crashes."""

    LENGTH = 400

    @staticmethod
    def file(worker: dict[str, Any]) -> Path:
        return Path(tempfile.gettempdir()) / f"mpsgraph-test-{worker['testrunuid']}-{worker['workerid']}"

    def __init__(self, path: Path):
        self.path, self.handle = path, os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

    def say(self, name: str) -> None:
        os.pwrite(self.handle, name.encode()[: self.LENGTH].ljust(self.LENGTH), 0)

    def close(self) -> None:
        os.close(self.handle)
        self.path.unlink(missing_ok=True)


class Cases(pytest.Item):
    """The cases of one test function. Of those that passed it keeps the number, of the others the reports."""

    def __init__(self, *, cases: list[pytest.Function], running: Running, **kwargs: Any):
        super().__init__(**kwargs)
        self.cases, self.running = cases, running
        self.own_markers = list(cases[0].own_markers)
        self.passed, self.reports = 0, []

    def runtest(self) -> None:
        for case in self.cases:
            self.running.say(case.nodeid)
            case.funcargs.update(case.callspec.params)
            case.funcargs.update({name: FRESH[name]() for name in FRESH if name in case.fixturenames})
            call = pytest.CallInfo.from_call(
                case.runtest, when="call", reraise=(pytest.exit.Exception, KeyboardInterrupt)
            )
            case.funcargs.clear()
            if call.excinfo is None:
                self.passed += 1
            else:
                report = case.ihook.pytest_runtest_makereport(item=case, call=call)
                report.sections.append(("This case alone", alone(case.nodeid)))
                self.reports.append(report)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        path, line, _ = self.cases[0].reportinfo()
        return path, line, self.name


class OneOfSeveral:
    """In a process that shares the tests: puts cases together, and sends one report of an item that passed instead of
    three and two messages around them."""

    def __init__(self, config: pytest.Config):
        self.running = Running(Running.file(config.workerinput))

    @pytest.hookimpl(trylast=True)  # when the items are chosen and marked
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # Not only neighbours: two items of one name would be one to pytest-xdist, which then runs one of them.
        groups: dict[tuple[Any, ...], list[pytest.Item]] = {}
        for item in items:
            groups.setdefault(self.group(item), []).append(item)
        items[:] = [self.one(cases) for cases in groups.values()]
        assert len({item.nodeid for item in items}) == len(items), "some would not run"

    def one(self, cases: list[pytest.Item]) -> pytest.Item:
        if len(cases) == 1:
            return cases[0]
        parent, name = cases[0].parent, cases[0].originalname
        return Cases.from_parent(parent, name=name, cases=cases, running=self.running)

    @staticmethod
    def group(item: pytest.Item) -> tuple[Any, ...]:
        return (item.parent, item.originalname) if needs_only_arguments(item) else (item.nodeid,)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        self.running.say(item.nodeid)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        passed = all(report.passed for report in reports)
        for report in reports:
            if isinstance(item, Cases) and report.when == "call":
                serializable = item.ihook.pytest_report_to_serializable
                report.cases_passed = item.passed
                report.cases = [serializable(config=item.config, report=case) for case in item.reports]
            if report.when == "call" or not passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True

    def pytest_unconfigure(self) -> None:
        self.running.close()


class OverSeveral:
    """In the process above these: reports the cases that did not pass as items, and counts those that did."""

    def __init__(self, config: pytest.Config):
        self.config, self.passed = config, 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed += getattr(report, "cases_passed", 1)
        for data in getattr(report, "cases", ()):
            case = self.config.hook.pytest_report_from_serializable(config=self.config, data=data)
            case.node = report.node
            self.config.hook.pytest_runtest_logreport(report=case)

    @pytest.hookimpl(optionalhook=True)  # of pytest-xdist
    def pytest_handlecrashitem(self, report: pytest.TestReport) -> None:
        file = Running.file(report.node.workerinput)
        report.longrepr = f"{report.longrepr}, in {file.read_text().strip()}"
        file.unlink()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"{self.passed} cases passed; those of a test are one item here")
