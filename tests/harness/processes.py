"""Running a function of `process_programs.py` in several processes, by mpiexec, and what each of them gave."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
MPIEXEC = Path(sys.executable).parent / "mpiexec"
PROGRAM = """
import pickle, sys
sys.path.insert(0, {tests!r})
name, arguments = pickle.load(open({folder!r} + "/arguments", "rb"))
from harness import process_programs
result = getattr(process_programs, name)(**arguments)
import mpsgraph as mg
with open(f"{folder}/{{mg.distributed.rank()}}", "wb") as file:
    pickle.dump(result, file)
"""


@dataclass
class Ended:
    """How a run ended: its status, what it said, and how long it took."""

    status: int
    said: str
    seconds: float
    results: list[Any]


def run(processes: int, name: str, *, seconds: float = 120, **arguments: Any) -> Ended:
    """Runs it. TimeoutExpired where it hangs."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "arguments").write_bytes(pickle.dumps((name, arguments)))
        program = Path(folder, "program.py")
        program.write_text(PROGRAM.format(tests=str(TESTS), folder=folder))
        command = [MPIEXEC, "-n", str(processes), sys.executable, program]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        begin = time.perf_counter()
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as started:
            try:
                said, _ = started.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                started.terminate()  # mpiexec ends its processes
                raise
        files = [Path(folder, str(rank)) for rank in range(processes)]
        results = [pickle.loads(file.read_bytes()) for file in files if file.is_file()]
        return Ended(started.returncode, said, time.perf_counter() - begin, results)


def results_of(processes: int, name: str, **arguments: Any) -> list[Any]:
    """What each process gave; the test fails with what they said otherwise."""
    ended = run(processes, name, **arguments)
    assert ended.status == 0, ended.said
    assert len(ended.results) == processes, ended.said
    return ended.results
