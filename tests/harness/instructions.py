"""Tests run again in a process that is told to use fewer instructions than the processor has."""

import os
import subprocess
import sys

import pytest


def run_again_with(instructions: str, file: str) -> None:
    """A file's tests on the CPU with "AVX2" or "baseline"; all of them must pass."""
    if os.environ.get("MPSGRAPH_INSTRUCTION_SET"):
        pytest.skip("one has been chosen")
    environment = {**os.environ, "MPSGRAPH_INSTRUCTION_SET": instructions}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
