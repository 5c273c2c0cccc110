"""What is chosen at run time is tested at run time: vectorised kernels once more with lesser instruction sets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TESTS = [
    f"{HERE / 'test_operations.py'}::{test}"
    for test in ("test_elementwise_sizes", "test_broadcasting", "test_special_values")
]
TESTS += [
    f"{HERE / 'test_fourier.py'}::{test}" for test in ("test_every_length_is_numpys", "test_many_signals_are_numpys")
]
TESTS.append(str(HERE / "test_vector_kernels.py"))


def with_set(name: str, *command: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"MPSGRAPH_INSTRUCTION_SET": name}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("name", ["AVX2", "baseline"])
def test_vectorised_kernels(name):
    run = with_set(name, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr
    assert int(run.stdout.split(" passed")[0].split()[-1]) > 200


def test_what_runs_says_its_set():
    plan = (
        "import mpsgraph as mg; g = mg.Graph(); x = g.placeholder((64,)); y = g.exponent(x) * x;"
        "print(g.compile({x: (64,)}, y).plan())"
    )
    run = with_set("baseline", "-c", plan)
    assert "tile functions" in run.stdout, run.stdout + run.stderr
    assert "generated code" not in run.stdout


def test_an_unknown_set_is_an_error():
    run = with_set("SSE9", "-c", "import mpsgraph as mg; g = mg.Graph(); print(g.run({}, g.constant(1.0) + 1.0))")
    assert run.returncode != 0
    assert "DeviceError: MPSGRAPH_INSTRUCTION_SET is 'SSE9'; it may be AVX-512, AVX2 or baseline" in run.stderr
