"""Train in two processes of two virtual devices each, started by `mpsgraph launch --engine jax`, and let one fail."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
import mpsgraph as mg  # noqa: E402
from mpsgraph.distributed.launch import Machines, machines_of  # noqa: E402

STEPS = 8
PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
import jax, numpy as np
import mpsgraph as mg

def trained(mesh, folder, how=None):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(42, 12)).astype(np.float32), rng.integers(5, size=42).astype(np.int32)
    nn = mg.nn
    model = nn.Sequential(nn.Linear(96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(5))
    trainer = mg.Trainer(model, optimizer="adam", seed=3, engine=mg.jax.Engine(mesh, fully_sharded=True))
    trainer.load(folder / "last", missing_ok=True)

    class Fails(mg.training.callbacks.Callback):
        def on_step_end(self, trainer, step, values):
            if step == 5 and how and jax.process_index() == 1 and not (folder / "failed").exists():
                trainer.state.writer.wait()
                (folder / "failed").write_text(str(time.time()))
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                elif how == "exit":
                    sys.exit(3)
                raise ValueError("the disk is on fire")

    saves = mg.training.callbacks.PeriodicCheckpoint(folder / "last", every_steps=2, sharded=True, background=True)
    trainer.fit(x, y, iterations=8 - trainer.step, batch_size=16, callbacks=[saves, Fails()], progress=False)
    return {"losses": trainer.history.loss, "loss": trainer.evaluate((x, y))["loss"],
            "outputs": trainer.predict(x).tolist()}, trainer

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    found, trainer = trained(mesh, folder, sys.argv[2])
    trainer.save(folder / "one.safetensors")
    found |= {"devices": jax.device_count(), "local": jax.local_device_count()}
    (folder / f"{jax.process_index()}.json").write_text(json.dumps(found))
"""


def started(folder: Path, how: str, *options: str, processes: int = 2) -> subprocess.Popen:
    program = folder / "train.py"
    program.write_text(PROGRAM)
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={4 // processes}", "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    command = [sys.executable, "-m", "mpsgraph", "launch", "--engine", "jax", "-n", str(processes), *options]
    return subprocess.Popen(
        [*command, str(program), str(folder), how], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen, seconds: float = 240) -> tuple[int, str]:
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        raise
    return process.returncode, said


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Return the results of one process with four devices."""
    if jax.device_count() < 4:
        pytest.skip(f"JAX was imported earlier with {jax.device_count()} devices")
    names: dict = {"__name__": "train"}
    exec(compile(PROGRAM, "train.py", "exec"), names)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("data",))
    return names["trained"](mesh, tmp_path_factory.mktemp("alone"))[0]


def assert_alike(folder: Path, alone: dict, processes: int = 2) -> None:
    for process in range(processes):
        found = json.loads((folder / f"{process}.json").read_text())
        assert (found["devices"], found["local"]) == (4, 4 // processes)
        np.testing.assert_allclose(found["losses"], alone["losses"], rtol=1e-5)
        np.testing.assert_allclose(found["loss"], alone["loss"], rtol=1e-5)
        np.testing.assert_allclose(found["outputs"], alone["outputs"], rtol=1e-3, atol=1e-4)


def test_two_processes_of_two_devices_train_like_one_process(tmp_path, alone):
    """The data are divided among the processes, except for the last batch of an epoch, which has 10 samples."""
    status, said = ended(started(tmp_path, ""))
    assert status == 0, said
    assert_alike(tmp_path, alone)
    values, metadata = mg.training.sharded_checkpoint.load(tmp_path / "last")
    assert metadata["step"] == str(STEPS)
    for name, value in mg.checkpoint.load(tmp_path / "one.safetensors")[0].items():
        np.testing.assert_array_equal(value, values[name], err_msg=name)
    assert len(list((tmp_path / "last").glob("*.safetensors"))) == 2, "each process writes a file"


@pytest.mark.parametrize("how", ["killed", "raises", "exit"])
def test_launcher_restarts_from_the_last_checkpoint_after_a_process_fails(how, tmp_path, alone):
    process = started(tmp_path, how, "--restarts", "1")
    status, said = ended(process)
    assert status == 0, said
    reason = {
        "killed": "ended with status -9 (terminated by SIGKILL)", "raises": "ended with status 1",
        "exit": "ended with status 3",
    }[how]  # fmt: skip
    assert "mpsgraph launch: process 1 of 2 on " in said and f"{reason}; the other processes were terminated" in said
    assert "(restart 1 of 1)" in said
    if how == "raises":
        assert "ValueError: the disk is on fire" in said and "process 1 of 2 ended with this error" in said
    assert_alike(tmp_path, alone)


def test_killed_process_ends_the_others_within_seconds(tmp_path):
    status, said = ended(started(tmp_path, "killed"))
    seconds = time.time() - float((tmp_path / "failed").read_text())
    assert status == 137 and seconds < 15, (status, seconds, said)
    assert "process 1 of 2 on " in said and "Trainer.load resumes from it" in said and "restart 1" not in said
    assert not list(tmp_path.glob("*.json"))


def test_launchers_of_two_machines_restart_together(tmp_path):
    port = 20000 + os.getpid() % 20000
    options = ("--restarts", "1", "--coordinator", f"localhost:{port}", "--nodes", "2", "--node")
    both = [started(tmp_path, "killed", *options, str(node), processes=1) for node in range(2)]
    for node, process in enumerate(both):
        status, said = ended(process)
        assert status == 0, said
        assert f"mpsgraph launch: process {node} of 2 on " in said and "(restart 1 of 1)" in said
    for process in range(2):
        found = json.loads((tmp_path / f"{process}.json").read_text())
        assert (found["devices"], found["local"], len(found["losses"])) == (8, 4, STEPS)


@pytest.mark.parametrize(
    ("processes", "data_axes", "expected"),
    [
        ([[0, 0], [0, 0], [1, 1], [1, 1]], ("data",), [(0, 2, 4), (1, 2, 4)]),
        ([[1, 1], [1, 1], [0, 0], [0, 0]], ("data",), [(1, 2, 4), (0, 2, 4)]),
        ([[0, 1], [0, 1], [0, 1], [0, 1]], ("data",), [(0, 1, 4), (0, 1, 4)]),
        ([[0, 1], [0, 1], [0, 1], [0, 1]], ("model",), [(0, 2, 2), (1, 2, 2)]),
        ([[0, 0], [0, 0], [1, 1], [1, 1]], ("data", "model"), [(0, 2, 8), (1, 2, 8)]),
        ([[0, 0], [1, 1], [0, 0], [1, 1]], ("data",), [(0, 1, 4), (0, 1, 4)]),
    ],
)
def test_share_of_a_process_follows_the_mesh(processes, data_axes, expected, monkeypatch):
    """Processes whose devices do not hold blocks of the batch, or hold the same samples, pass whole batches."""
    from mpsgraph.jax.placement import Placement

    devices = np.array([[SimpleNamespace(process_index=i) for i in row] for row in processes])
    for process, share in enumerate(expected):
        monkeypatch.setattr(jax, "process_index", lambda process=process: process)
        placement = Placement(None, None, None, False)
        placement.data_axes = data_axes
        placement.mesh = SimpleNamespace(axis_names=("data", "model"), devices=devices, shape={"data": 4, "model": 2})
        found = placement.share
        assert (found.index, found.count, found.parts) == share


def test_shares_are_converted_before_they_are_copied_to_the_devices():
    made = mg.Trainer(mg.nn.Linear(2), "mse", engine=mg.jax.Engine())
    made._joins = True  # As in a process that passes a share of each batch.
    with pytest.warns(UserWarning, match="inputs are float64"):
        loss = float(made.train_step(np.ones((4, 3)), np.ones((4, 2), np.float32)))
    alone = mg.Trainer(mg.nn.Linear(2), "mse", seed=made.seed)
    assert loss == pytest.approx(float(alone.train_step(np.ones((4, 3), np.float32), np.ones((4, 2), np.float32))))


def test_slurm_describes_the_machines():
    slurm = {
        "SLURM_NNODES": "3",
        "SLURM_NODEID": "1",
        "SLURM_JOB_ID": "2007",
        "SLURM_JOB_NODELIST": "gpu[08-09,12],login",
    }
    assert machines_of(None, None, None, slurm) == Machines("gpu08:24707", 3, 1)
    for nodes, first in (("a,b", "a"), ("a1", "a1"), ("x-[3,5]-y", "x-3-y"), ("n1,m[2-3]", "n1")):
        assert machines_of(None, None, None, slurm | {"SLURM_STEP_NODELIST": nodes}).coordinator == f"{first}:24707"
    assert machines_of(None, None, None, slurm | {"SLURM_NNODES": "1"}) == Machines()
    assert machines_of("h:1", 2, 0, slurm) == Machines("h:1", 2, 0)


def test_invalid_launch_options_are_refused(tmp_path):
    for given, match in (
        ((None, 2, 0), "need --coordinator HOST:PORT"), (("host", 2, 0), "got 'host'"),
        (("host:1", 2, 2), "--node must be from 0 to 1"),
    ):  # fmt: skip
        with pytest.raises(mg.GraphError, match=match):
            machines_of(*given, {})
    script = tmp_path / "train.py"
    script.write_text("")
    for options, match in (
        (["--engine", "jax", "--threads", "2"], "--threads is an option of --engine mpi"),
        (["-n", "2", "--coordinator", "a:1"], "--coordinator is an option of --engine jax"),
        ([], "MPI needs the number of processes: pass -n N"),
    ):
        run = subprocess.run(
            [sys.executable, "-m", "mpsgraph", "launch", *options, str(script)], capture_output=True, text=True
        )
        assert run.returncode == 2 and match in run.stderr
