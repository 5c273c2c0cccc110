"""Run the C++ tests that `make test` has built, one process per file."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "tests" / "cpp").glob("test_*.cpp"))


@pytest.mark.skipif("MPSGRAPH_BUILD_DIR" not in os.environ, reason="requires the C++ tests, run `make test-cpp`")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_cpp_file_passes(source):
    executable = ROOT / os.environ["MPSGRAPH_BUILD_DIR"] / "mpsgraph_tests"
    run = subprocess.run([executable, source.stem], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    passed, _, failed = run.stdout.strip().splitlines()[-1].partition(" passed, ")
    assert int(passed) > 0 and failed == "0 failed", run.stdout


@pytest.mark.skipif("MPSGRAPH_BUILD_DIR" not in os.environ, reason="requires the C++ tests, run `make test-cpp`")
@pytest.mark.parametrize("instruction_set", ["AVX2", "baseline"])
@pytest.mark.parametrize("stem", ["test_kernels", "test_window_kernels", "test_gemm"])
def test_cpp_tests_of_kernels_pass_with_smaller_instruction_sets(stem, instruction_set):
    executable = ROOT / os.environ["MPSGRAPH_BUILD_DIR"] / "mpsgraph_tests"
    environment = os.environ | {"MPSGRAPH_INSTRUCTION_SET": instruction_set}
    run = subprocess.run([executable, stem], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr


def test_cpp_files_are_found():
    assert len(SOURCES) >= 11
