"""Run a function of `process_programs.py` in several processes with mpiexec and collect the results."""

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
    """Outcome of a run: exit status, output, duration in seconds, and results of the processes."""

    status: int
    said: str
    seconds: float
    results: list[Any]


def run(processes: int, name: str, *, seconds: float = 120, **arguments: Any) -> Ended:
    """Run a function in several processes. Raises TimeoutExpired if it hangs."""
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
                started.terminate()  # mpiexec then ends its processes.
                raise
        files = [Path(folder, str(rank)) for rank in range(processes)]
        results = [pickle.loads(file.read_bytes()) for file in files if file.is_file()]
        return Ended(started.returncode, said, time.perf_counter() - begin, results)


def results_of(processes: int, name: str, **arguments: Any) -> list[Any]:
    """Return the result of each process. Fails with the output of the processes if one of them fails."""
    ended = run(processes, name, **arguments)
    assert ended.status == 0, ended.said
    assert len(ended.results) == processes, ended.said
    return ended.results
