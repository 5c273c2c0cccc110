"""Run all cases of a test as one pytest item when several processes share the tests, as in `make test`.

pytest spends more time on an item than a short case takes, so a test with a thousand cases is a single item there. Each
case still runs with its own arguments, even if others fail. A case that does not pass is reported under its own name,
with a command that runs it alone, as if it were an item. The summary shows how many cases passed.

In a single process (`pytest tests/nn/test_losses.py`, or a case selected by its name in brackets), each case is an item
as usual. Cases that need more from pytest than arguments are never grouped: those with fixtures other than FRESH, or
with one of the marks in SINGLE, which are also set on cases that device metal does not support.
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
    """Return a generator of random numbers that are the same in every run of a test."""
    return np.random.default_rng(20240911)


# Fixtures of conftest.py that do not depend on pytest. Each case gets its own value.
FRESH = {"rng": random_numbers, "repository": lambda: REPOSITORY}
SINGLE = {"skip", "skipif", "xfail", "usefixtures"}


def needs_only_arguments(item: pytest.Item) -> bool:
    return (
        isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and set(item.fixturenames) <= {*item.callspec.params, *FRESH}
        and not any(mark.name in SINGLE for mark in item.iter_markers())
        and not hasattr(item.obj, "hypothesis")  # The plugin of hypothesis must see the item itself.
    )


def alone(name: str) -> str:
    return f"MPSGRAPH_TEST_DEVICE={device.NAME} .venv/bin/python -m pytest '{name}'"


class Running:
    """A file that names the case a process is running, for reports of crashes."""

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
    """The cases of one test function as an item. It counts the cases that pass and keeps the reports of the others."""

    def __init__(self, *, cases: list[pytest.Function], running: Running, **kwargs: Any):
        super().__init__(**kwargs)
        self.cases, self.running = cases, running
        self.own_markers = list(cases[0].own_markers)
        self.passed, self.reports = 0, []

    def runtest(self) -> None:
        for case in self.cases:
            self.running.say(case.nodeid)
            device.mg.random.seed(0)
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
                report.sections.append(("Run only this case", alone(case.nodeid)))
                self.reports.append(report)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        path, line, _ = self.cases[0].reportinfo()
        return path, line, self.name


class OneOfSeveral:
    """Pytest plugin of a worker process that groups the cases of each test.

    It sends a single report for an item that passes instead of three reports and two messages.
    """

    def __init__(self, config: pytest.Config):
        self.running = Running(Running.file(config.workerinput))

    @pytest.hookimpl(trylast=True)  # After the items have been selected and marked.
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # Also groups cases that are not adjacent: pytest-xdist runs only one of several items with the same name.
        groups: dict[tuple[Any, ...], list[pytest.Item]] = {}
        for item in items:
            groups.setdefault(self.group(item), []).append(item)
        items[:] = [self.one(cases) for cases in groups.values()]
        assert len({item.nodeid for item in items}) == len(items), (
            "item names must be unique, or pytest-xdist skips some"
        )

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
    """Pytest plugin of the main process.

    It reports cases that did not pass as if they were items, and counts those that passed.
    """

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

    @pytest.hookimpl(optionalhook=True)  # Hook of pytest-xdist.
    def pytest_handlecrashitem(self, report: pytest.TestReport) -> None:
        file = Running.file(report.node.workerinput)
        report.longrepr = f"{report.longrepr}, in {file.read_text().strip()}"
        file.unlink()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"{self.passed} cases passed; the cases of one test count as one item above")
