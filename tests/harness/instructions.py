"""Tests run again in a process that is told to use fewer instructions than the processor has."""

import os
import subprocess
import sys

import mpsgraph as mg
import pytest


def is_the_processors(instructions: str) -> bool:
    """Whether every test runs with this set here, without being told to."""
    words = mg.Device("cpu").description.replace(",", " ").split()
    return instructions in words or (instructions == "baseline" and not {"AVX2", "AVX-512"} & {*words})


def run_again_with(instructions: str, file: str) -> None:
    """A file's tests on the CPU with "AVX2" or "baseline"; all of them must pass."""
    if os.environ.get("MPSGRAPH_INSTRUCTION_SET"):
        pytest.skip("one has been chosen")
    if is_the_processors(instructions):
        pytest.skip(f"this run is with {instructions}")
    environment = {**os.environ, "MPSGRAPH_INSTRUCTION_SET": instructions}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
