"""Test harness/grouped_cases.py: each case runs with its own arguments and is reported under its own name."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = """
import pytest
from harness import grouped_cases

@pytest.fixture
def rng():
    return grouped_cases.random_numbers()

@pytest.fixture
def other():
    return 1

def pytest_configure(config):
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(grouped_cases.OneOfSeveral(config))
    else:
        config.pluginmanager.register(grouped_cases.OverSeveral(config))
"""

TESTS = """
import os, warnings
import pytest

@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("case", ["sin", "cos", "tan"])
def test_values(case, dtype, rng):
    assert rng.integers(1000) == 655, "random numbers must start over for each case"
    assert (case, dtype) != ("cos", "float16"), "a wrong number"
    if case == "tan":
        pytest.skip("no tangent") if dtype == "float32" else pytest.xfail("is open")

@pytest.mark.parametrize("case", range(4))
@pytest.mark.filterwarnings("error")
def test_warnings(case):
    if case == 2:
        warnings.warn("not so")

@pytest.mark.parametrize("case", [0, 1, pytest.param(2, marks=pytest.mark.xfail(strict=True, reason="2")), 3, 4])
def test_marks(case):
    assert case != 2

@pytest.mark.parametrize("case", range(3))
def test_fixtures(case, other):
    assert case + other
"""

CRASH = """
import os
import pytest

@pytest.mark.parametrize("case", ["one", "two", "three"])
def test_crash(case):
    if case == "two":
        os._exit(3)
"""


def run(folder: Path, tests: str, *options: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_some.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-ra", "-n", "1", "-p", "no:cacheprovider", *options, "test_some.py"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_each_grouped_case_is_counted_and_reported_by_name(tmp_path: Path):
    said = run(tmp_path, TESTS)
    # Three grouped tests, and four single cases that have marks or need other fixtures.
    assert "1 worker [7 items]" in said
    assert "FAILED test_some.py::test_values[cos-float16] - AssertionError: a wrong number" in said
    assert "FAILED test_some.py::test_warnings[2] - UserWarning: not so" in said
    assert "XFAIL test_some.py::test_values[tan-float16] - is open" in said
    assert "XFAIL test_some.py::test_marks[2] - 2" in said
    assert "no tangent" in said.split("SKIPPED [1]")[1].split("\n")[0]
    assert "case = 'cos', dtype = 'float16'" in said, "must show the arguments of the case"
    assert "python -m pytest 'test_some.py::test_values[cos-float16]'" in said, (
        "must show the command that runs only this case"
    )
    assert "13 cases passed" in said  # Passed: 3 of 6, 3 of 4, 4 of 5, and 3 of 3.
    assert "2 failed" in said and "1 skipped, 2 xfailed" in said


def test_crash_report_names_the_crashed_case(tmp_path: Path):
    assert "crashed while running 'test_some.py::test_crash', in test_some.py::test_crash[two]" in run(
        tmp_path, CRASH, "--max-worker-restart=0"
    )
