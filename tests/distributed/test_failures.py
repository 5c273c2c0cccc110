"""Test failures in distributed training.

Processes with different settings raise at the start. A process that dies ends the other processes and leaves a usable
checkpoint.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mpi4py", reason="mpi4py is not installed: make test-distributed")
from harness import process_programs
from harness.processes import results_of, run


@pytest.mark.parametrize("processes", [2, 4])
def test_setting_that_differs_between_processes_raises_in_all(processes: int):
    results = results_of(processes, "disagreeing")
    assert all(told == results[0][0] for told, _ in results), "all processes must report the same error"
    model, seed, optimizer, variables = results[0][0]
    last = processes - 1
    at_start = "differs between processes at the start of training"
    assert model.startswith(f"model {at_start}: process {last} has Sequential, process 0 has Linear")
    assert seed.startswith(f"seed {at_start}: process {last} has 1, process 0 has 0")
    assert optimizer.startswith(f"optimizer {at_start}: process {last} has Adam")
    assert variables.startswith("variable") and "after the first step was built" in variables and "7" in variables
    assert max(seconds for _, seconds in results) < 20


def test_build_failure_on_one_rank_aborts_step():
    told = results_of(3, "failing_build")
    assert told[1] == "ValueError: no such step"
    for other in (told[0], told[2]):
        assert other == "GraphError: process 1 could not build its training step: ValueError: no such step"


@pytest.mark.parametrize("how", ["killed", "raises", "exit"])
def test_process_death_stops_other_processes_and_keeps_checkpoint(how: str, tmp_path):
    path, ready = tmp_path / "last.safetensors", tmp_path / "ready"
    ended = run(3, "dying", how=how, path=str(path), ready=str(ready), seconds=60)
    assert time.time() - float(ready.read_text()) < 15, "the other processes must end within seconds"
    assert ended.status != 0 and ended.results == []
    if how == "raises":
        assert "ValueError: the disk is on fire" in ended.said
        assert "process 1 of 3 ended with this error; the other processes are terminated" in ended.said
    elif how == "killed":
        assert "Killed" in ended.said or "EXIT CODE: 9" in ended.said
    else:
        assert "process 1 of 3 has ended while process" in ended.said

    if how != "killed":
        return
    # Training resumed from the checkpoint must equal uninterrupted training bit for bit.
    common = {"dropout": 0.2, "dtype": "float32", "steps": 12}
    whole = results_of(3, "fitted", **common)
    resumed = results_of(3, "fitted", resume=str(path), **common | {"steps": 12 - process_programs.SAVED_AT})
    for a, b in zip(whole, resumed, strict=True):
        # The losses include the history before the checkpoint.
        assert a["losses"] == b["losses"] and a["step"] == b["step"] == 12
        for name, value in a["weights"].items():
            np.testing.assert_array_equal(value, b["weights"][name])


ENDLESS = """
import os, signal, sys
from pathlib import Path
import mpsgraph as mg
import numpy as np
rank, folder = mg.distributed.rank(), Path(sys.argv[2])
trainer = mg.Trainer(mg.nn.Linear(5), distributed=True, device="cpu")
x, y = np.zeros((8, 12), np.float32), np.zeros(8, np.int32)
for step in range(10**9):
    trainer.train_step(x, y)
    if step == 3:
        trainer.wait()
        (folder / str(rank)).write_text(str(os.getpid()))
        if rank == 1 and sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1 and sys.argv[1] == "raises":
            raise ValueError("the disk is on fire")
"""


def left_over() -> set[str]:
    """Return the files that MPI and the package use while processes run."""
    patterns = {"/dev/shm": ("mpich*", "mpsgraph-*", "ucx*"), "/tmp": ("hydra*", "mpsgraph-*")}
    return {str(path) for folder, names in patterns.items() for name in names for path in Path(folder).glob(name)}


@pytest.mark.parametrize("how", ["killed", "raises", "interrupted", "launcher killed"])
def test_abnormal_end_leaves_no_files_and_no_processes(how: str, tmp_path):
    program, before = tmp_path / "train.py", left_over()
    program.write_text(ENDLESS)
    command = [sys.executable, "-m", "mpsgraph", "launch", "-n", "3", "--threads", "1", program, how, tmp_path]
    started = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while len(list(tmp_path.glob("?"))) < 3 and started.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    numbers = [int(path.read_text() or 0) for path in tmp_path.glob("?")]
    if how == "interrupted":
        os.killpg(started.pid, signal.SIGINT)
    elif how == "launcher killed":
        started.kill()
    said, _ = started.communicate(timeout=60)
    assert started.returncode != 0, said
    assert how == "raises" or "Traceback" not in said, said
    end = time.monotonic() + 15
    while any(is_running(number) for number in numbers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [number for number in numbers if is_running(number)], said
    assert left_over() <= before, said


def is_running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_launcher_starts_mpi_processes_again_after_a_failure(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import os, sys, mpsgraph as mg\nfrom pathlib import Path\nmarker = Path(sys.argv[1], 'failed')\n"
        "is_first = not marker.exists()\nmg.distributed.barrier()\n"
        "if is_first and mg.distributed.rank() == 1:\n    marker.touch()\n    os.kill(os.getpid(), 9)\n"
        "mg.distributed.barrier()\nPath(sys.argv[1], str(mg.distributed.rank())).touch()\n"
    )
    command = [sys.executable, "-m", "mpsgraph", "launch", "-n", "2", "--restarts", "2", str(program), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and {path.name for path in tmp_path.glob("?")} == {"0", "1"}, run.stderr
    assert "(restart 1 of 2)" in run.stderr and "restart 2" not in run.stderr
