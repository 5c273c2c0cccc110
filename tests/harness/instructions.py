"""Rerun tests in a process that is limited to fewer instructions than the processor supports."""

import os
import subprocess
import sys

import mpsgraph as mg
import pytest


def is_the_processors(instructions: str) -> bool:
    """Return whether this processor uses the given instruction set by default."""
    words = mg.Device("cpu").description.replace(",", " ").split()
    return instructions in words or (instructions == "baseline" and not {"AVX2", "AVX-512"} & {*words})


def run_again_with(instructions: str, file: str) -> None:
    """Rerun the tests of a file on the CPU with "AVX2" or "baseline" instructions; all of them must pass."""
    if os.environ.get("MPSGRAPH_INSTRUCTION_SET"):
        pytest.skip("MPSGRAPH_INSTRUCTION_SET is already set")
    if is_the_processors(instructions):
        pytest.skip(f"this run already uses {instructions} instructions")
    environment = {**os.environ, "MPSGRAPH_INSTRUCTION_SET": instructions}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
