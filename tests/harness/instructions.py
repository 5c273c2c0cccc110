"""Rerun tests in a process that is limited to fewer instructions than the processor supports."""

import os
import subprocess
import sys

import mpsgraph as mg
import pytest

WORDS = mg.Device("cpu").description.replace(",", " ").split()
IS_ARM = any(word.startswith("NEON") for word in WORDS)
HAS_VECTORS = IS_ARM or not {"AVX2", "AVX-512"}.isdisjoint(WORDS)
"""Whether this run uses kernels that need vectors; the baseline of x86 lacks some of them."""
SMALLER_SETS = ("NEON",) if IS_ARM else ("AVX2", "baseline")
"""Instruction sets of this architecture that have fewer instructions than others."""


def is_the_processors(instructions: str) -> bool:
    """Return whether this processor uses the given instruction set by default."""
    return instructions in WORDS or (instructions == "baseline" and not HAS_VECTORS)


def run_again_with(instructions: str, file: str) -> None:
    """Rerun the tests of a file on the CPU with one of the SMALLER_SETS; all of them must pass."""
    if os.environ.get("MPSGRAPH_INSTRUCTION_SET"):
        pytest.skip("MPSGRAPH_INSTRUCTION_SET is already set")
    if is_the_processors(instructions):
        pytest.skip(f"this run already uses {instructions} instructions")
    environment = {**os.environ, "MPSGRAPH_INSTRUCTION_SET": instructions}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", file]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
