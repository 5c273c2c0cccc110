"""Write sharded checkpoints, in the background too, and resume on another number of devices to the same losses."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
import mpsgraph as mg  # noqa: E402
from mpsgraph.training import checkpoint, sharded_checkpoint  # noqa: E402
from mpsgraph.training.checkpoint_files import header_of  # noqa: E402

nn = mg.nn
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 16)).astype(np.float32), RNG.integers(4, size=40).astype(np.int32)


def trainer(devices: int, **options: object) -> mg.Trainer:
    if devices > jax.device_count():
        pytest.skip(f"JAX was imported earlier with {jax.device_count()} devices")
    engine = None
    if devices:
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("data",))
        engine = mg.jax.Engine(mesh, fully_sharded=True)
    model = nn.Sequential(nn.Linear(128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4))
    return mg.Trainer(model, optimizer="adam", seed=2, engine=engine, **options)


def fit(made: mg.Trainer, steps: int, **options: object) -> list[float]:
    return made.fit(X, Y, iterations=steps, batch_size=8, progress=False, **options).loss


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """Return a checkpoint that eight devices wrote in the middle of an epoch, and the losses of the whole training."""
    folder = tmp_path_factory.mktemp("checkpoint") / "last"
    made = trainer(8)
    fit(made, 7)
    made.save(folder, sharded=True)
    assert made.builder.engine._values, "saving must leave the values on the devices"
    return folder, list(fit(made, 5))


def test_each_variable_is_stored_in_parts(saved):
    folder, _ = saved
    assert {path.name.split("-", 2)[2] for path in folder.glob("*.safetensors")} == {"00001-of-00001.safetensors"}
    (file,) = folder.glob("*.safetensors")
    tensors, _ = checkpoint.load(file)
    assert tensors["0.weight@0,16"].shape == (16, 16), "an eighth of the weight"
    assert tensors["0.weight/velocity@0,112"].shape == (16, 16) and tensors["3.bias"].shape == (4,)


def test_saving_again_deletes_the_previous_files_and_no_others(tmp_path):
    foreign = tmp_path / "model-00001-of-00001.safetensors"
    foreign.write_bytes(b"weights of another program")
    made = trainer(1)
    fit(made, 1)
    for _ in range(2):
        made.save(tmp_path, sharded=True)
    assert len(list(tmp_path.glob("checkpoint-*.safetensors"))) == 1
    assert foreign.exists()


@pytest.mark.parametrize("devices", [0, 1, 2, 8])
def test_training_resumes_on_another_number_of_devices(devices, saved):
    folder, losses = saved
    made = trainer(devices)
    assert made.load(folder) is True
    assert made.step == 7
    np.testing.assert_allclose(fit(made, 5), losses, rtol=1e-5)


def test_sharded_checkpoint_of_the_cpu_device_resumes_on_eight_devices(tmp_path):
    alone = trainer(0)
    fit(alone, 3)
    alone.save(tmp_path / "one", sharded=True)
    made = trainer(8)
    made.load(tmp_path / "one")
    np.testing.assert_allclose(fit(made, 4), fit(alone, 4), rtol=1e-5)


def test_parts_of_bfloat16_variables_are_stored_as_bfloat16(tmp_path):
    g = mg.Graph()
    v = g.variable(np.arange(2048, dtype=np.float32).reshape(16, 128), "bfloat16", "v")
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
    parts = mg.jax.Engine(mesh, fully_sharded=True).on(g).parts({"v": v})
    assert [(part.start, part.value.shape, part.value.dtype) for part in parts] == [
        ((0, start), (16, 64), np.uint16) for start in (0, 64)
    ]
    sharded_checkpoint.write_parts(tmp_path, "token", 0, 1, parts, {"v": "bfloat16"})
    sharded_checkpoint.write_index(tmp_path, "token", 1, {})
    values, _ = sharded_checkpoint.load(tmp_path)
    np.testing.assert_array_equal(values["v"], g.variable_value(v).view(np.uint16))
    (file,) = tmp_path.glob("*.safetensors")
    assert header_of(file)["v@0,64"]["dtype"] == "BF16"


def test_background_save_holds_the_state_of_the_call_while_training_continues(tmp_path, monkeypatch):
    begun, go = threading.Event(), threading.Event()
    real = sharded_checkpoint.write_parts

    def slow(*arguments: object) -> None:
        begun.set()
        assert go.wait(60)
        real(*arguments)

    monkeypatch.setattr(sharded_checkpoint, "write_parts", slow)
    made = trainer(8)
    fit(made, 3)
    before = {name: np.array(value) for name, value in made.weights().items()}
    made.save(tmp_path / "last", sharded=True, background=True)
    assert begun.wait(60)
    fit(made, 3)
    assert not (tmp_path / "last" / sharded_checkpoint.INDEX).exists(), "the checkpoint must not be complete yet"
    go.set()
    made.wait()
    other = trainer(2)
    other.load(tmp_path / "last")
    assert other.step == 3
    for name, value in other.weights().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("sharded", [False, True])
def test_error_of_a_background_save_is_raised_by_the_next_call(tmp_path, sharded):
    (tmp_path / "file").write_text("")
    made = trainer(2)
    fit(made, 1)
    made.save(tmp_path / "file" / "checkpoint", sharded=sharded, background=True)
    with pytest.raises(mg.CheckpointError, match="cannot be written"):
        made.wait()
    made.wait()


@pytest.mark.parametrize("where", ["before", "parts", "index"])
def test_crash_during_a_save_leaves_the_previous_checkpoint(tmp_path, monkeypatch, where):
    folder, made = tmp_path / "last", trainer(2)
    fit(made, 2)
    made.save(folder, sharded=True)
    losses = fit(made, 2)

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    target = {"before": (os, "fsync"), "parts": (os, "replace"), "index": (sharded_checkpoint, "write_index")}[where]
    with monkeypatch.context() as patched:
        patched.setattr(*target, crash)
        with pytest.raises(KeyboardInterrupt):
            made.save(folder, sharded=True)
    resumed = trainer(8)
    resumed.load(folder)
    assert resumed.step == 2
    np.testing.assert_allclose(fit(resumed, 2), losses, rtol=1e-5)
    resumed.save(folder, sharded=True)
    index = json.loads((folder / sharded_checkpoint.INDEX).read_text())
    assert {path.name for path in folder.iterdir()} == {*index["files"], sharded_checkpoint.INDEX}, (
        "no file is left over"
    )


def test_damaged_sharded_checkpoints_raise(tmp_path):
    made = trainer(2)
    fit(made, 1)
    folder = tmp_path / "last"
    made.save(folder, sharded=True)
    (file,), index = folder.glob("*.safetensors"), folder / sharded_checkpoint.INDEX
    data, text = file.read_bytes(), index.read_text()
    damages = {
        "checksum does not match": lambda: file.write_bytes(data[:-1] + bytes([data[-1] ^ 1])),
        "cannot be read": file.unlink,
        "altered": lambda: index.write_text(text.replace('"step": "1"', '"step": "2"')),
        "is not the index": lambda: index.write_text("[]"),
        "holds no complete checkpoint": index.unlink,
        "belongs to another checkpoint": lambda: _change_tensor(file),
    }
    for match, damage in damages.items():
        file.write_bytes(data)
        index.write_text(text)
        damage()
        with pytest.raises(mg.CheckpointError, match=match):
            trainer(2).load(folder)
    assert trainer(2).load(tmp_path / "missing", missing_ok=True) is False
    index.unlink()
    assert trainer(2).load(folder, missing_ok=True) is False


def _change_tensor(file: Path) -> None:
    """Write a valid file that differs from the one that the index lists."""
    tensors, metadata = checkpoint.load(file)
    checkpoint.save(file, tensors | {"3.bias": tensors["3.bias"] + 1}, {"parts": metadata["parts"]})


def test_periodic_checkpoints_in_the_background_keep_the_latest(tmp_path):
    made = trainer(2)
    saves = mg.training.callbacks.PeriodicCheckpoint(
        str(tmp_path / "{step}"), every_steps=2, keep=2, sharded=True, background=True
    )
    fit(made, 9, callbacks=[saves])
    kept = sorted(int(path.name) for path in tmp_path.iterdir())
    assert len(kept) == 2 and kept[-1] >= 8
    other = trainer(8)
    other.load(tmp_path / str(kept[-1]))
    assert other.step == kept[-1]


def test_sharded_checkpoints_of_mpi_processes_raise():
    made = trainer(0)
    fit(made, 1)
    made.state.partnership = object()
    with pytest.raises(mg.GraphError, match="pass sharded=False"):
        made.save("unused", sharded=True)
