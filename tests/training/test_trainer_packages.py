"""Test trainer packages: another process continues training bitwise equal, and unsupported trainers raise."""

import json
import re
import subprocess
import sys
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness import trained_package
from mpsgraph.optim.schedules import end_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 48).astype(np.int32)
IMAGES = RNG.normal(size=(32, 8, 8, 2)).astype(np.float32)


def perceptron():
    return mg.nn.Sequential(mg.nn.Linear(16), mg.nn.ReLU(), mg.nn.Dropout(0.3), mg.nn.Linear(3))


def convolutional():
    return mg.nn.Sequential(
        mg.nn.Conv2d(4, 3), mg.nn.BatchNorm(), mg.nn.ReLU(), mg.nn.Flatten(), mg.nn.Dropout(0.2), mg.nn.Linear(3)
    )


class TwoOptimizers(mg.Trainer):
    def training_step(self, inputs, labels, weights=None):
        results = self.results(self.forward(inputs), labels, weights)
        parameters = [v for _, v in self.model.named_parameters()]
        self.other = mg.optim.Adam(mg.optim.ExponentialRate(1e-2, 10, 0.5))
        self.minimize(results["loss"], parameters[:2])
        self.minimize(results["loss"], parameters[2:], self.other)
        return results


def groups():
    return mg.optim.ParameterGroups(mg.optim.AdamW(1e-2), {"0": {"learning_rate": mg.optim.StepRate(1e-3, 3)}})


WARM = mg.optim.WarmUp(mg.optim.CosineRate(0.1, steps=6), steps=3)
TRAINERS = {
    "sgd": lambda: mg.Trainer(perceptron(), optimizer=mg.optim.SGD(0.1, momentum=0.9)),
    "adam_schedule": lambda: mg.Trainer(perceptron(), optimizer=mg.optim.Adam(WARM)),
    "function_as_schedule": lambda: mg.Trainer(perceptron(), optimizer=mg.optim.Lion(lambda n: 1e-2 / (n + 1))),
    "batch_norm": lambda: mg.Trainer(convolutional(), optimizer=mg.optim.AdamW(1e-2), metrics=["accuracy"]),
    "ema": lambda: mg.Trainer(convolutional(), optimizer=mg.optim.Adam(1e-2), ema_decay=0.9),
    "accumulation": lambda: mg.Trainer(
        convolutional(), optimizer=mg.optim.Adam(mg.optim.CosineRate(0.1, steps=4)), gradient_accumulation_steps=3
    ),
    "loss_scaling": lambda: mg.Trainer(
        convolutional(),
        optimizer=mg.optim.LossScaling(mg.optim.Adam(1e-2), initial=2.0**24, interval=2),
        precision="float16",
    ),
    "groups_clipped": lambda: mg.Trainer(perceptron(), optimizer=mg.optim.ClipByNorm(groups(), 0.5)),
    "two_optimizers": lambda: TwoOptimizers(perceptron(), optimizer=mg.optim.SGD(0.1)),
}


def data_of(name):
    return (IMAGES, Y[:32]) if "convolutional" in TRAINERS[name].__code__.co_names else (X, Y)


def batches(name, first, last):
    x, y = data_of(name)
    for step in range(first, last):
        size = 16 if step % 4 != 2 else 11  # Every fourth batch has a different size.
        chosen = np.random.default_rng(step).permutation(len(x))[:size]
        yield x[chosen], y[chosen]


def trained(name, steps=5):
    mg.random.seed(0)
    trainer = TRAINERS[name]()
    for x, y in batches(name, 0, steps):
        trainer.train_step(x, y).wait()
    return trainer


CONTINUE = """
import json, sys
import numpy as np
import mpsgraph as mg
sys.path[:0] = sys.argv[2:]
from test_trainer_packages import TRAINERS, batches, hexadecimal
for name in TRAINERS:
    model = mg.load(f"{sys.argv[1]}/{name}")
    results = [model.train_step(x, y) for x, y in batches(name, 5, 12)]
    print(json.dumps([name, [hexadecimal(result.values) for result in results], model.step]))
    model.save(f"{sys.argv[1]}/{name}")
"""


def hexadecimal(values):
    return {name: value.hex() for name, value in values.items()}


@pytest.fixture(scope="module")
def continued(tmp_path_factory):
    """Continue all packages in another process.

    Returns:
        The trainers by name, the results of the other process by name, and the directory of the packages, which the
        other process has saved again.
    """
    directory = tmp_path_factory.mktemp("packages")
    trainers = {name: trained(name) for name in TRAINERS}
    for name, trainer in trainers.items():
        mg.save(directory / name, trainer)
    here = Path(__file__).parent
    command = [sys.executable, "-c", CONTINUE, directory, here, here.parent]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    found = {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}
    return trainers, found, directory


@pytest.mark.parametrize("name", TRAINERS)
def test_another_process_continues_training_bitwise_equal(name, continued):
    trainers, found, directory = continued
    trainer, (results, step) = trainers[name], found[name]
    assert results == [hexadecimal(trainer.train_step(x, y).values) for x, y in batches(name, 5, 12)]
    assert step == trainer.step == 12
    again = mg.load(directory / name)  # Load the package as the other process saved it.
    theirs = again.weights()
    for path, value in trainer.weights().items():
        np.testing.assert_array_equal(theirs[path], value)
    x, y = data_of(name)
    assert again.learning_rate == np.float32(trainer.learning_rate)
    assert float(again.train_step(x, y)) == float(trainer.train_step(x, y))


@pytest.mark.parametrize("name", ["batch_norm", "ema", "sgd"])
def test_loaded_package_trains_and_predicts_like_its_trainer(name, tmp_path):
    trainer, (x, y) = trained(name), data_of(name)
    mg.save(tmp_path / "p.mpsgraph", trainer)
    model = mg.load(tmp_path / "p.mpsgraph")
    np.testing.assert_array_equal(model.predict(x, batch_size=10), trainer.predict(x, batch_size=10))
    assert model.evaluate(x, y, batch_size=10) == trainer.evaluate(x, y, batch_size=10)
    assert list(model.inputs) == ["inputs"] and list(model.outputs) == ["outputs"]
    np.testing.assert_array_equal(model(x), trainer.predict(x))
    options = {"epochs": 2, "batch_size": 8, "validation": (x, y), "progress": False}
    assert model.fit(x, y, **options).state_dict() == trainer.fit(x, y, **options).state_dict()
    if name == "ema":
        with model.averaged_weights(), trainer.averaged_weights():
            np.testing.assert_array_equal(model.predict(x), trainer.predict(x))
    frozen = model.optimize_for_inference()
    np.testing.assert_allclose(frozen(x), model.predict(x), rtol=1e-4, atol=1e-5)


def test_early_stopping_works_on_a_package(tmp_path):
    mg.save(tmp_path / "p.mpsgraph", trained("sgd"))
    model = mg.load(tmp_path / "p.mpsgraph")
    stopping = mg.training.callbacks.EarlyStopping(patience=1)
    model.fit(X, Y, epochs=30, validation=(X[::-1].copy(), Y), callbacks=[stopping], progress=False)
    assert model.stopped and model.history.epoch < 30


def test_package_supports_structured_inputs_and_several_outputs(tmp_path):
    class Two(mg.nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = mg.nn.Linear(3), mg.nn.Linear(1)

        def forward(self, a, b):
            return {"kind": self.left(a), "size": self.right(b)}

    loss = {"kind": "cross_entropy", "size": "mse"}
    trainer = mg.Trainer(Two(), loss, mg.optim.Adam(1e-2))
    inputs, labels = {"b": X[:, 1:], "a": X}, {"size": X[:, :1], "kind": Y}
    weights = np.linspace(0, 1, len(X), dtype=np.float32)
    trainer.train_step(inputs, labels, weights).wait()
    mg.save(tmp_path / "p.mpsgraph", trainer)
    model = mg.load(tmp_path / "p.mpsgraph")
    assert list(model.inputs) == ["a", "b"] and list(model.outputs) == ["kind", "size"]
    for _ in range(3):
        ours, theirs = (one.train_step(inputs, labels, weights).values for one in (model, trainer))
        assert ours == theirs and set(ours) == {"loss", "kind_loss", "size_loss", "kind_accuracy"}
    predicted = model.predict(inputs)
    for name, value in trainer.predict(inputs).items():
        np.testing.assert_array_equal(predicted[name], value)
    with pytest.raises(mg.GraphError, match="needs weights"):
        model.train_step(inputs, labels)
    with pytest.raises(mg.GraphError, match="inputs must have the structure of the trainer"):
        model.train_step(X, labels, weights)
    assert model.step == trainer.step


def test_package_keeps_varying_dimensions_dynamic(tmp_path):
    class Mean(mg.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = mg.nn.Linear(3)

        def forward(self, x):
            return self.out(x.graph.squeeze(x.graph.mean(x, [1]), [1]))

    def sequences(length):
        rng = np.random.default_rng(length)
        return rng.normal(size=(4, length, 5)).astype(np.float32), rng.integers(0, 3, 4).astype(np.int32)

    trainer = mg.Trainer(Mean())
    for length in (3, 7):
        trainer.train_step(*sequences(length)).wait()
    mg.save(tmp_path / "p.mpsgraph", trainer)
    model = mg.load(tmp_path / "p.mpsgraph")
    assert model.inputs["inputs"].shape == (-1, -1, 5)
    for length in (7, 2, 11):
        assert float(model.train_step(*sequences(length))) == float(trainer.train_step(*sequences(length)))
    with pytest.raises(mg.ShapeError):
        model.train_step(np.zeros((4, 3, 6), np.float32), np.zeros(4, np.int32))
    assert model.step == trainer.step == 5


def test_package_of_imported_model_can_be_saved_in_second_training_phase(tmp_path):
    g = mg.Graph()
    x = g.placeholder((-1, 6), name="x")
    scores = x @ g.variable(np.float32(RNG.normal(size=(6, 3))), name="w")
    trainer = mg.Trainer(mg.Model(g, {"x": x}, {"scores": scores}), optimizer=mg.optim.SGD(0.1))
    trainer.train_step(X, Y).wait()
    second = mg.Trainer(trainer.model, optimizer=mg.optim.Adam(0.01))
    second.train_step(X, Y).wait()
    mg.save(tmp_path / "p.mpsgraph", second)
    model = mg.load(tmp_path / "p.mpsgraph")
    assert (list(model.inputs), list(model.outputs)) == (["x"], ["scores"])
    assert float(model.train_step(X, Y)) == float(second.train_step(X, Y))
    np.testing.assert_array_equal(model.predict(X), second.predict(X))


def test_saving_a_package_does_not_affect_its_trainer(tmp_path):
    """Saving repeatedly changes neither training steps nor checkpoints."""
    saved, other = trained("adam_schedule"), trained("adam_schedule")
    for place in range(3):
        mg.save(tmp_path / f"{place}.mpsgraph", saved)
    operations = saved.graph.operation_count
    assert float(saved.train_step(X, Y)) == float(other.train_step(X, Y))
    mg.save(tmp_path / "again.mpsgraph", saved)
    assert saved.graph.operation_count == operations
    assert float(saved.train_step(X, Y)) == float(other.train_step(X, Y))
    saved.save(tmp_path / "checkpoint")
    fresh = TRAINERS["adam_schedule"]()
    fresh.load(tmp_path / "checkpoint")
    mg.save(tmp_path / "fresh.mpsgraph", fresh)
    assert float(mg.load(tmp_path / "fresh.mpsgraph").train_step(X, Y)) == float(other.train_step(X, Y))


def test_package_step_beyond_stored_rates_raises_without_explicit_rate(tmp_path):
    trainer = trained("function_as_schedule", 2)
    mg.save(tmp_path / "p.mpsgraph", trainer, updates=2)
    model = mg.load(tmp_path / "p.mpsgraph")
    for _ in range(2):
        assert float(model.train_step(X, Y)) == float(trainer.train_step(X, Y))
    before = model.weights()
    with pytest.raises(mg.OutOfRangeError, match="no learning rate for update 4"):
        model.train_step(X, Y)
    assert model.step == 4 and all((before[k] == v).all() for k, v in model.weights().items())
    model.learning_rate = 0.5
    trainer.learning_rate = 0.5
    assert model.learning_rate == 0.5
    for _ in range(3):
        assert float(model.train_step(X, Y)) == float(trainer.train_step(X, Y))


@pytest.mark.parametrize(
    "schedule",
    [
        mg.optim.ConstantRate(0.1),
        mg.optim.CosineRate(0.1, 7),
        mg.optim.PolynomialRate(0.1, 7, 2.0),
        mg.optim.OneCycleRate(0.1, 7),
        mg.optim.OneCycleRate(0.1, 1),
        mg.optim.WarmUp(mg.optim.ScaledRate(mg.optim.CosineRate(0.1, 5, 0.01), 0.3), 4),
    ],
)
def test_schedule_ends_where_its_learning_rate_becomes_constant(schedule):
    end = end_of(schedule)
    assert {schedule(step) for step in range(end, end + 50)} == {schedule(end + 10**6)}


def test_unsupported_trainers_cannot_be_packaged(tmp_path):
    class Own(mg.Trainer):
        def train_step(self, x, y=None, sample_weight=None, *, copy=False):
            return super().train_step(x, y, sample_weight, copy=copy)

    with pytest.raises(mg.GraphError, match="no training step to save"):
        mg.save(tmp_path / "p", mg.Trainer(perceptron()))
    own = Own(perceptron())
    own.train_step(X, Y).wait()
    with pytest.raises(mg.UnsupportedError, match=r"Own\.train_step"):
        mg.save(tmp_path / "p", own)
    trainer = mg.Trainer(perceptron(), metrics=[mg.nn.metrics.ConfusionMatrix(3)], check_finite=True)
    trainer.train_step(X, Y).wait()
    with pytest.raises(mg.UnsupportedError, match="confusion_matrix.*leave_out"):
        mg.save(tmp_path / "p", trainer)
    with pytest.raises(mg.UnsupportedError, match="check_finite"):
        mg.save(tmp_path / "p", trainer, leave_out=["confusion_matrix"])
    with pytest.raises(mg.GraphError, match="leave_out must name parts .*got 'history'"):
        mg.save(tmp_path / "p", trainer, leave_out=["history"])
    with pytest.raises(mg.GraphError, match="inputs and outputs do not apply to a trainer"):
        mg.save(tmp_path / "p", trainer, [])
    assert not (tmp_path / "p").exists()
    mg.save(tmp_path / "p", trainer, leave_out=["confusion_matrix", "check_finite"])
    assert float(mg.load(tmp_path / "p").train_step(X, Y)) == float(trainer.train_step(X, Y))


def test_failed_package_step_changes_nothing(tmp_path):
    embedding = mg.nn.Embedding(5, 4, out_of_range="error")
    trainer = mg.Trainer(mg.nn.Sequential(embedding, mg.nn.Flatten(), mg.nn.Linear(2)))
    tokens, labels = np.array([[0, 1], [2, 3]], np.int32), np.array([0, 1], np.int32)
    trainer.train_step(tokens, labels).wait()
    mg.save(tmp_path / "p", trainer)
    model = mg.load(tmp_path / "p")
    with pytest.raises(mg.OutOfRangeError):
        model.train_step(tokens + 4, labels).wait()
        model.wait()
    assert float(model.train_step(tokens, labels)) == float(trainer.train_step(tokens, labels))
    model.wait()
    assert model.step == trainer.step == 2


def test_package_with_training_step_has_newer_format_version(tmp_path):
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    mg.save(tmp_path / "plain", g, [x], {"y": x * 2})
    mg.save(tmp_path / "trained", trained("sgd"))
    versions = [json.loads((tmp_path / p / "package.json").read_text())["format_version"] for p in ("plain", "trained")]
    assert versions == [1, 2]  # A package that older versions can read keeps the old format version.
    assert type(mg.load(tmp_path / "plain")) is mg.Model
    manifest = (tmp_path / "trained" / "package.json").read_text()
    (tmp_path / "trained" / "package.json").write_text(manifest.replace('"format_version": 2', '"format_version": 3'))
    with pytest.raises(mg.PackageError, match="format version 3, but this mpsgraph reads versions 1 and 2; update"):
        mg.load(tmp_path / "trained")


def test_packages_page_code_runs():
    page = Path(__file__).parents[2] / "docs" / "packages.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile("\n".join(blocks), str(page), "exec"), {})


def test_stored_trainer_package_continues_training():
    """The package was written by the first version with this feature. On another processor its results differ by
    rounding.
    """
    model = mg.load(Path(__file__).parents[1] / "data" / "trained.mpsgraph")
    trainer = trained_package.trained()
    assert model.step == trainer.step == 3 and model.learning_rate == np.float32(trainer.learning_rate)
    for x, y in trained_package.batches(3, 9):
        assert float(model.train_step(x, y)) == pytest.approx(float(trainer.train_step(x, y)), rel=1e-3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"every": 1', '"every": 0'),
        ('"every": 1', '"every": 2'),
        ('"name": "rates"', '"name": "hates"'),
        ('"results": [', '"results": ["nothing",'),
        ('"step": "training/step"', '"step": "learning_rate/table"'),
        ('"rates": [', '"rates": ["none",'),
        ('\\"seed\\": ', '\\"need\\": '),
        ('\\"weights\\": [', '\\"weights\\": 0, \\"others\\": ['),
        ('\\"batch\\": [0', '\\"batch\\": [{\\"list\\": [0, 0, 0]}'),
    ],
)
def test_damaged_training_metadata_raises(old, new, tmp_path):
    mg.save(tmp_path / "p", trained("sgd"))
    path = tmp_path / "p" / "package.json"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(with_checksum(text.replace(old, new)))
    with pytest.raises(mg.PackageError, match="training step"):
        mg.load(tmp_path / "p")


def with_checksum(text: str) -> str:
    """Return the manifest with the checksum that its reader expects."""
    stated = re.search(r'"checksum": "(\w+)"', text)[1]
    return text.replace(stated, f"{xxh64(text.replace(stated, '0' * 16).encode()):016x}")


def xxh64(data: bytes) -> int:
    """Return the XXH64 hash with seed 0, following its specification."""
    p1, p2, p3, p4, p5 = (
        *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
        *(0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
    )
    whole = 2**64 - 1

    def turned(value: int, by: int) -> int:
        return (value << by | value >> (64 - by)) & whole

    def mixed(lane: int, word: int) -> int:
        return turned((lane + word * p2) & whole, 31) * p1 & whole

    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data) // 8 * 8, 8)]
    value, used = p5, len(data) // 32 * 4
    if used:
        lanes = [(p1 + p2) & whole, p2, 0, -p1 & whole]
        for i in range(used):
            lanes[i % 4] = mixed(lanes[i % 4], words[i])
        value = sum(turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & whole
        for lane in lanes:
            value = ((value ^ mixed(0, lane)) * p1 + p4) & whole
    value = (value + len(data)) & whole
    for word in words[used:]:
        value = (turned(value ^ mixed(0, word), 27) * p1 + p4) & whole
    rest = data[len(words) * 8 :]
    if len(rest) >= 4:
        value = (turned(value ^ int.from_bytes(rest[:4], "little") * p1 & whole, 23) * p2 + p3) & whole
        rest = rest[4:]
    for byte in rest:
        value = turned(value ^ byte * p5 & whole, 11) * p1 & whole
    for shift, by in ((33, p2), (29, p3), (32, 1)):
        value = (value ^ value >> shift) * by & whole
    return value


def test_checksum_helper_matches_package_checksums(tmp_path):
    mg.save(tmp_path / "p", trained("sgd", 1))
    text = (tmp_path / "p" / "package.json").read_text()
    assert with_checksum(text) == text
