"""Compare trainers on mpsgraph.jax.Engine, with one device and with two virtual devices, with the CPU device.

Checkpoints written with one engine must load with the other.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
import jax
import mpsgraph as mg

pytestmark = pytest.mark.filterwarnings("ignore")
nn = mg.nn
RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 6, 6, 1)).astype(np.float32)
Y = RNG.integers(3, size=8).astype(np.int32)
STEPS = 3


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(4, 3, padding="TF_SAME"), nn.BatchNorm(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(3),
    )  # fmt: skip


def trainer(**options: object) -> mg.Trainer:
    return mg.Trainer(network(), optimizer=mg.optim.SGD(1e-2, momentum=0.9), seed=3, **options)


def trained(**options: object) -> tuple[mg.Trainer, list[float]]:
    made = trainer(**options)
    return made, [float(made.train_step(X, Y)) for _ in range(STEPS)]


@pytest.fixture(scope="module")
def on_cpu() -> tuple[mg.Trainer, list[float]]:
    return trained()


def mesh(count: int, *names: str) -> jax.sharding.Mesh:
    if jax.device_count() < count:
        pytest.skip(f"JAX was imported earlier with {jax.device_count()} devices")
    return jax.sharding.Mesh(np.array(jax.devices()[:count]).reshape([-1] + [1] * (len(names) - 1)), names)


def assert_alike(made: mg.Trainer, losses: list[float], on_cpu: tuple[mg.Trainer, list[float]]) -> None:
    np.testing.assert_allclose(losses, on_cpu[1], rtol=2e-5)
    for name, value in on_cpu[0].weights().items():
        np.testing.assert_allclose(made.weights()[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_engine_on_one_device_matches_cpu(on_cpu):
    made, losses = trained(engine=mg.jax.Engine())
    assert_alike(made, losses, on_cpu)
    np.testing.assert_allclose(made.predict(X), on_cpu[0].predict(X), rtol=1e-3, atol=1e-3)
    assert made.evaluate((X, Y))["loss"] == pytest.approx(on_cpu[0].evaluate((X, Y))["loss"], rel=1e-3)


def test_training_with_sharded_batches_matches_cpu(on_cpu):
    made, losses = trained(engine=mg.jax.Engine(mesh(2, "data")))
    assert_alike(made, losses, on_cpu)


def test_training_with_sharded_weights_matches_cpu(on_cpu):
    parts = jax.sharding.PartitionSpec
    engine = mg.jax.Engine(
        mesh(2, "model", "data"), data_axis="data", shardings={"*": parts()} | {"5.weight*": parts(None, "model")}
    )
    engine.shardings = {"5.weight*": parts(None, "model")}
    made, losses = trained(engine=engine)
    value = made._on_engine._values["5.weight"]
    assert not value.is_fully_replicated, "the weight must be sharded"
    assert_alike(made, losses, on_cpu)


def test_checkpoints_are_interchangeable_between_engines(tmp_path, on_cpu):
    there, back = tmp_path / "there.safetensors", tmp_path / "back.safetensors"
    first, _ = trained()
    first.save(there)
    outside = trainer(engine=mg.jax.Engine())
    outside.load(there)
    losses = [float(outside.train_step(X, Y)) for _ in range(2)]
    outside.save(back)
    inside = trainer()
    inside.load(back)
    expected = [float(first.train_step(X, Y)) for _ in range(3)]
    np.testing.assert_allclose([*losses, float(inside.train_step(X, Y))], expected, rtol=2e-5)


def test_graph_and_jax_engine_share_current_weights():
    made = trainer(engine=mg.jax.Engine())
    made.train_step(X, Y)
    before = made.model.state_dict()["8.bias"]
    made.train_step(X, Y)
    assert not np.array_equal(made.model.state_dict()["8.bias"], before)
    made.set_weights({name: np.zeros_like(value) for name, value in made.weights().items()})
    assert not made.predict(X).any(), "the engine must use the weights that were set"


def test_accumulation_and_weight_averages_match_cpu():
    options = {"gradient_accumulation_steps": 2, "ema_decay": 0.9}
    histories = []
    for engine in (None, mg.jax.Engine()):
        made = trainer(engine=engine, **options)
        made.fit((X, Y), epochs=4, batch_size=4, progress=False, validation=(X, Y))
        histories.append(made.history)
    assert histories[0].validation[-1][1]["loss"] == pytest.approx(histories[1].validation[-1][1]["loss"], rel=1e-3)


def test_out_of_range_label_raises_and_leaves_state_unchanged():
    made = trainer(engine=mg.jax.Engine())
    made.train_step(X, Y).wait()
    before = made.weights()
    with pytest.raises(mg.OutOfRangeError, match="variables were not changed"):
        made.train_step(X, np.full_like(Y, 3)).wait()
    for name, value in made.weights().items():
        np.testing.assert_array_equal(value, before[name])


def test_exported_training_step_function_matches_cpu(on_cpu):
    made = trainer()
    step = mg.jax.function(made, example=(X, Y))
    state, run, losses = step.state(), jax.jit(step, donate_argnums=0), []
    for _ in range(STEPS):
        reported, state = run(state, {"learning_rate": np.float32(1e-2), "inputs": X, "labels": Y})
        losses.append(float(reported["loss"]))
    np.testing.assert_allclose(losses, on_cpu[1], rtol=2e-5)


def test_incompatible_engine_options_raise():
    engine = mg.jax.Engine()
    for options in ({"device": "cpu"}, {"check_finite": True}, {"precision": "auto"}):
        with pytest.raises(mg.GraphError):
            trainer(engine=engine, **options)
    with pytest.raises(mg.GraphError, match="engine must have a method on"):
        trainer(engine="jax")
    with pytest.raises(mg.GraphError, match="Mesh"):
        mg.jax.Engine("data")
    with pytest.raises(mg.GraphError, match="need a mesh"):
        mg.jax.Engine(data_axis="data")


HOST = """
import sys
import jax
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
import numpy as np
import mpsgraph as mg
nn = mg.nn
x = np.arange(32, dtype=np.float32).reshape(8, 4) / 16 - 1
y = np.arange(8, dtype=np.int32) % 3
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
trainer = mg.Trainer(nn.Sequential(nn.Linear(3)), optimizer=mg.optim.SGD(0.5), seed=1, engine=mg.jax.Engine(mesh))
half = slice(4 * int(sys.argv[2]), 4 * int(sys.argv[2]) + 4)
print("losses", *(float(trainer.train_step(x[half], y[half])) for _ in range(3)), flush=True)
"""


def test_two_host_training_matches_cpu(tmp_path: Path):
    program = tmp_path / "host.py"
    program.write_text(HOST)
    environment = {**os.environ, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}
    address = f"localhost:{20000 + os.getpid() % 20000}"
    started = [
        subprocess.Popen(
            [sys.executable, str(program), address, str(i)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment,
        )
        for i in range(2)
    ]  # fmt: skip
    ended = [process.communicate(timeout=300) for process in started]
    lines = [next((line for line in out.splitlines() if line.startswith("losses")), err) for out, err in ended]
    x = np.arange(32, dtype=np.float32).reshape(8, 4) / 16 - 1
    y = np.arange(8, dtype=np.int32) % 3
    alone = mg.Trainer(nn.Sequential(nn.Linear(3)), optimizer=mg.optim.SGD(0.5), seed=1)
    expected = [float(alone.train_step(x, y)) for _ in range(3)]
    for line in lines:
        np.testing.assert_allclose([float(number) for number in line.split()[1:]], expected, rtol=1e-5)
