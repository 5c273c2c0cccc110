"""Test Trainer: it learns, steps are asynchronous, evaluation does not change the state, and resuming is exact.

The demo's network is trained in test_digits.
"""

import gc
import struct
import sys
import weakref

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from mpsgraph import nn

pytestmark = pytest.mark.both_devices


def network():
    """Build a network with every kind of state: batch normalization, dropout, and biases."""
    return nn.Sequential(
        nn.Conv2d(6, 3, padding="TF_SAME", bias=False),
        nn.BatchNorm(),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(3),
    )


@pytest.fixture(scope="module")
def dataset():
    """Return 8x8 images of three classes; the class is the third of the image that is bright."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 150).astype(np.int32)
    images = rng.normal(0, 0.5, size=(150, 8, 8, 1)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        image[:, 3 * label : 3 * label + 2] += 1
    return images, labels


def make(optimizer=None, **options):
    return mg.Trainer(network(), optimizer=optimizer or mg.optim.Adam(0.01), seed=7, **options)


def values_of(trainer):
    return {v.name: trainer.graph.variable_value(v) for v in trainer.graph.variables}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# --- training ---------------------------------------------------------------------------------------------------------
def test_trainer_learns(dataset):
    trainer = make()
    before = trainer.evaluate(dataset)
    history = trainer.fit(dataset, epochs=8, batch_size=32, validation=dataset, progress=False)
    after = trainer.evaluate(dataset)
    assert after["loss"] < 0.5 * before["loss"] and after["accuracy"] > 0.9
    assert len(history.loss) == len(history.steps["accuracy"]) == trainer.step == 8 * 5
    assert [step for step, _ in history.validation] == list(range(5, 41, 5))
    assert history.validation[-1][1] == after


def test_training_with_equal_seed_is_reproducible(dataset):
    runs = [make().fit(dataset, iterations=8, progress=False).loss for _ in range(2)]
    assert runs[0] == runs[1]
    other = mg.Trainer(network(), optimizer=mg.optim.Adam(0.01), seed=8).fit(dataset, iterations=8, progress=False)
    assert other.loss != runs[0]


def test_train_step_returns_before_the_step_has_run(dataset):
    trainer, x, y = make(), dataset[0][:32], dataset[1][:32]
    float(trainer.train_step(x, y))
    gate = mg.SharedEvent()
    waiting = mg.Device.default().default_queue.command_buffer()
    waiting.encode_wait_for_event(gate, 1)
    waiting.commit()
    result = trainer.train_step(x, y)  # The step is queued behind the waiting command buffer.
    assert not result.done
    gate.signal(1)
    value = float(result)
    assert result.done and result.loss == value == result.values["loss"] and f"{result:.3f}" == f"{value:.3f}"


def test_trainer_keeps_at_most_two_steps_and_their_arrays_in_flight(dataset):
    trainer = make()
    results, arrays = [], []
    for _ in range(6):
        x, y = dataset[0][:32].copy(), dataset[1][:32].copy()
        arrays.append(weakref.ref(x))
        results.append(trainer.train_step(x, y))
        assert sum(not r.done for r in results) <= 2
    del x, y
    assert arrays[-1]() is not None and arrays[-2]() is not None
    trainer.wait()
    assert all(r.done for r in results)
    gc.collect()
    assert not [a for a in arrays if a() is not None], "arrays must be released after their step"


def test_changing_trainer_device_to_an_unknown_one_raises(dataset):
    images, labels = dataset
    trainer = make()
    first = float(trainer.train_step(images, labels))
    with pytest.raises(mg.DeviceError, match="nowhere"):
        trainer.device = "nowhere"
    assert float(trainer.train_step(images, labels)) != first


def test_evaluate_and_predict_leave_the_state_unchanged(dataset):
    trainer = make()
    trainer.fit(dataset, iterations=3, progress=False)
    before = values_of(trainer)
    assert trainer.evaluate(dataset) == trainer.evaluate(dataset)
    outputs = trainer.predict(dataset[0], batch_size=64)
    assert outputs.shape == (150, 3) and outputs.dtype == np.float32
    assert_same(before, values_of(trainer))
    np.testing.assert_allclose(outputs, trainer.predict(dataset[0], batch_size=150), rtol=1e-4, atol=1e-5)
    accuracy = (outputs.argmax(1) == dataset[1]).mean()
    assert trainer.evaluate(dataset, batch_size=64)["accuracy"] == pytest.approx(accuracy)


def test_predict_needs_neither_labels_nor_training(dataset):
    trainer = make()
    assert trainer.predict(dataset[0][:5]).shape == (5, 3)
    trainer.fit(dataset, iterations=2, progress=False)
    assert trainer.step == 2


def test_trainer_accepts_one_hot_labels_regression_and_custom_losses(dataset):
    images, labels = dataset
    one_hot = np.eye(3, dtype=np.float32)[labels]
    integers, vectors = make(), make()
    a = integers.fit((images, labels), iterations=4, progress=False).steps
    b = vectors.fit((images, one_hot), iterations=4, progress=False).steps
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-5)
    np.testing.assert_allclose(a["accuracy"], b["accuracy"])

    def worst(outputs, targets):
        g = outputs.graph
        return g.reshape(g.reduction_maximum(abs(outputs - targets)), ())

    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    line = mg.Trainer(nn.Linear(1), "mse", mg.optim.SGD(0.3), metrics=("mean_absolute_error", worst))
    line.fit((x, 3 * x - 1), epochs=60, batch_size=16, progress=False)
    results = line.evaluate((x, 3 * x - 1))
    assert results.keys() == {"loss", "mean_absolute_error", "worst"}
    assert results["loss"] < 1e-4 and results["worst"] < 0.05


def test_learning_rate_follows_its_schedule(dataset):
    trainer = mg.Trainer(
        nn.Sequential(nn.Flatten(), nn.Linear(3)), optimizer=mg.optim.SGD(mg.optim.StepRate(0.1, 2, 0.0))
    )
    before = []
    for _ in range(4):
        trainer.train_step(dataset[0], dataset[1])
        before.append(trainer.model.state_dict()["1.weight"])
    assert (before[0] != before[1]).any()
    np.testing.assert_array_equal(before[1], before[3], err_msg="the learning rate is 0 from step 2 on")


def test_each_batch_size_compiles_once_within_cache_limits(dataset):
    trainer = make()
    for size in (8, 9, 10, 8, 9, 10):
        trainer.train_step(dataset[0][:size], dataset[1][:size])
    trainer.wait()
    assert trainer.graph.cache.misses == 3 and trainer.graph.cache.hits >= 3
    trainer.graph.set_cache_limits(2, 1 << 30)
    for size in range(11, 20):
        trainer.train_step(dataset[0][:size], dataset[1][:size])
    trainer.wait()
    assert trainer.graph.cache.count <= 2


# --- invalid arguments
# --------------------------------------------------------------------------------------------------
def test_trainer_remains_usable_after_errors(dataset):
    images, labels = dataset
    trainer = make()
    with pytest.raises(mg.DTypeError, match=r"astype\('float32'\)"):
        trainer.train_step(images.astype(np.float16), labels)
    with pytest.raises(mg.GraphError, match="nothing to save"):
        trainer.save("never.safetensors")
    float(trainer.train_step(images[:10], labels[:10]))
    before = values_of(trainer)
    with pytest.raises(mg.ShapeError):
        trainer.train_step(images[:10, :4], labels[:10])
    with pytest.raises(mg.Error):
        trainer.train_step(images[:10], labels[:9])
    with pytest.raises(mg.DTypeError):
        trainer.train_step(images[:10], labels[:10].astype(np.float32))
    assert_same(before, values_of(trainer))
    assert trainer.step == 1
    assert np.isfinite(float(trainer.train_step(images[:10], labels[:10])))
    for counts in ({"epochs": 0}, {"iterations": 0}):
        with pytest.raises(mg.GraphError, match="at least 1"):
            trainer.fit(dataset, **counts, progress=False)
    with pytest.raises(mg.GraphError, match="data contains no batches"):
        trainer.evaluate(iter(()))
    with pytest.raises(mg.GraphError, match="data contains no more batches"):
        trainer.fit(iter([(images, labels)]), epochs=2, progress=False)
    with pytest.raises(mg.GraphError, match="there is no loss named 'hubris'"):
        mg.Trainer(network(), loss="hubris")
    with pytest.raises(mg.GraphError, match="rank 0"):
        mg.Trainer(network(), loss=lambda outputs, labels: outputs).train_step(images, labels)


def test_trainer_accepts_lists_of_numbers_and_rejects_invalid_epoch_counts(dataset):
    x, y = dataset[0][:8], dataset[1][:8]
    trainer = make()
    assert trainer.evaluate([(x.tolist(), y)]) == trainer.evaluate([(x, y)])
    np.testing.assert_array_equal(trainer.predict(x.tolist()), trainer.predict(x))
    with pytest.raises(mg.DTypeError, match=r"inputs '0' must be an array, got str: convert it with np\.asarray"):
        trainer.train_step(["a"], y)
    for wrong in ({"epochs": 1.5}, {"epochs": 0}, {"iterations": 0}, {"iterations": "many"}):
        with pytest.raises(mg.GraphError, match=f"{next(iter(wrong))} must be an int of at least 1"):
            trainer.fit(dataset, progress=False, **wrong)
    assert trainer.step == 0


def test_wrong_dtype_raises_before_compiling_a_new_batch_size(dataset):
    images, labels = dataset
    trainer = make()
    trainer.train_step(images[:10], labels[:10]).wait()
    compiled = trainer.graph.cache.compiles
    for use in (trainer.predict, lambda x: trainer.train_step(x, labels[:12])):
        with pytest.raises(mg.DTypeError, match=r"inputs must have the trainer.s dtype, float32, got float16"):
            use(images[:12].astype(np.float16))
    with pytest.raises(mg.DTypeError, match=rf"labels are float32, but were {labels.dtype} in earlier batches"):
        trainer.train_step(images[:12], labels[:12].astype(np.float32))
    with pytest.raises(mg.DTypeError, match="labels are float32"):
        trainer.evaluate((images, labels.astype(np.float32)))
    assert trainer.graph.cache.compiles == compiled and trainer.step == 1


def test_invalid_data_models_optimizers_and_metrics_raise(dataset):
    images, labels = dataset
    for data in ((images, labels, labels, labels), images, [(images,)], [(images, labels, labels, labels)]):
        with pytest.raises(mg.GraphError, match=r"pair of arrays \(inputs, labels\)"):
            make().fit(data, iterations=1, progress=False)
    with pytest.raises(mg.GraphError, match="pair of arrays.*4"):
        make().evaluate([(images, labels, labels, labels)])
    with pytest.raises(mg.GraphError, match=r"model must be a module of mpsgraph\.nn"):
        mg.Trainer(lambda x: x)
    with pytest.raises(
        mg.GraphError, match=r"optimizer must be an optimizer of mpsgraph\.optim.* a string or None, got 3"
    ):
        mg.Trainer(network(), optimizer=3)

    def loss(outputs, labels):
        return mg.nn.losses.mean_of_all(outputs)

    for metrics in ((loss,), ("accuracy", "accuracy")):
        with pytest.raises(mg.GraphError, match="different names"):
            mg.Trainer(network(), metrics=metrics)


def test_interrupted_fit_records_every_completed_step(dataset):
    def data():
        for batch in mg.data.batches(dataset, 20, seed=0):
            yield batch
            if trainer.step == 5:
                raise KeyboardInterrupt

    trainer = make()
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(data(), progress=False)
    assert trainer.step == len(trainer.history.loss) == 5
    trainer.fit(dataset, iterations=2, progress=False)
    assert trainer.step == len(trainer.history.loss) == 7


def test_predict_of_empty_batch_returns_an_empty_array(dataset):
    trainer = make()
    assert trainer.predict(dataset[0][:0]).shape == (0, *trainer.predict(dataset[0][:2]).shape[1:])


def test_negative_seeds_are_valid_and_distinct(dataset):
    losses = [
        mg.Trainer(network(), seed=seed).fit(dataset, iterations=2, progress=False).loss for seed in (-1, -1, -2, 1)
    ]
    assert losses[0] == losses[1] and losses[0] != losses[2] and losses[0] != losses[3]


# --- checkpoints ------------------------------------------------------------------------------------------------------
OPTIMIZERS = {
    "sgd": lambda: mg.optim.SGD(0.05),
    "nesterov": lambda: mg.optim.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam with a schedule": lambda: mg.optim.Adam(mg.optim.WarmUp(mg.optim.CosineRate(0.01, 30), 4)),
    "amsgrad": lambda: mg.optim.Adam(0.01, amsgrad=True),
    "adamw": lambda: mg.optim.AdamW(0.01),
    "rmsprop": lambda: mg.optim.RMSProp(0.01, momentum=0.5, centered=True),
    "adagrad": lambda: mg.optim.Adagrad(0.05, initial_sum=0.1),
    "adadelta": lambda: mg.optim.AdaDelta(0.5),
    "clipped": lambda: mg.optim.ClipByNorm(mg.optim.ClipByValue(mg.optim.Adam(0.01), 0.1), 1.0),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_resumed_training_is_bitwise_equal(name, dataset, tmp_path):
    """Training stops within an epoch; weights, momenta, moving averages, dropout, learning rate, and data order are
    restored.
    """
    path = tmp_path / "half.safetensors"
    data = lambda: mg.data.batches(dataset, 32, seed=3)  # noqa: E731
    whole = make(OPTIMIZERS[name]())
    losses = whole.fit(data(), iterations=13, progress=False).loss
    half = make(OPTIMIZERS[name]())
    half.fit(data(), iterations=7, progress=False)
    half.save(path)
    other_seed = mg.Trainer(network(), optimizer=OPTIMIZERS[name](), seed=99)
    other_seed.load(path)
    assert other_seed.step == 7
    assert other_seed.history.loss == losses[:7], "the history must continue as well"
    assert other_seed.fit(data(), iterations=6, progress=False).loss == losses
    assert_same(values_of(whole), values_of(other_seed))
    half.load(path)
    assert half.fit(data(), iterations=6, progress=False).loss[7:] == losses[7:]


@pytest.mark.parametrize("first", [2, 3, 4])
def test_consecutive_fits_equal_one_longer_fit(first, dataset):
    """The first fit ends before, at, or after the last of the three batches of an epoch."""
    data = mg.data.batches(dataset, 50, seed=3)
    whole = make().fit(mg.data.batches(dataset, 50, seed=3), iterations=8, progress=False).loss
    trainer = make()
    trainer.fit(data, iterations=first, progress=False)
    assert trainer.fit(data, iterations=8 - first, progress=False).loss == whole


def test_loading_checkpoint_of_another_model_changes_nothing(dataset, tmp_path):
    path = tmp_path / "model.safetensors"
    trainer = make()
    trainer.fit(dataset, iterations=2, progress=False)
    trainer.save(path)
    others = {
        "unexpected": mg.Trainer(nn.Sequential(nn.Flatten(), nn.Linear(3)), optimizer=mg.optim.Adam(0.01)),
        "optimizer": mg.Trainer(network(), optimizer=mg.optim.SGD(0.01)),
        "shapes": mg.Trainer(nn.Sequential(*network().layers[:-1], nn.Linear(4)), optimizer=mg.optim.Adam(0.01)),
        "belongs": mg.Trainer(nn.Linear(3), optimizer=mg.optim.Adam(0.01)),
    }
    for message, other in others.items():
        with pytest.raises(mg.CheckpointError, match=message):
            other.load(path)
        assert other.step == 0
    trainer.fit(dataset, iterations=2, progress=False)
    before, step = values_of(trainer), trainer.step
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(mg.CheckpointError):
        trainer.load(path)
    mg.checkpoint.save(path, trainer.model.state_dict())
    with pytest.raises(mg.CheckpointError, match="not a trainer's"):
        trainer.load(path)
    mg.checkpoint.save(path, trainer.model.state_dict(), {"kind": "trainer"})
    with pytest.raises(mg.CheckpointError, match="not a trainer's"):
        trainer.load(path)
    assert_same(before, values_of(trainer))
    assert trainer.step == step


@pytest.mark.parametrize("dtype", [d for d in ("bfloat16", "float16", "float64") if device.has(d)])
def test_checkpoints_load_into_trainers_of_other_dtypes(tmp_path, dtype):
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    y = np.arange(8, dtype=np.int32) % 3
    trainers = [mg.Trainer(mg.nn.Linear(3), metrics=(), dtype=dtype) for _ in range(2)]
    trainers[0].train_step(x, y).wait()
    trainers[0].save(tmp_path / "weights.safetensors")
    trainers[1].load(tmp_path / "weights.safetensors")
    assert float(trainers[0].train_step(x, y)) == float(trainers[1].train_step(x, y))


# --- progress, history, demo ------------------------------------------------------------------------------------------
def test_fit_shows_progress_and_history_plots(dataset, capsys):
    trainer = make()
    history = trainer.fit(dataset, iterations=5, validation=dataset)
    assert " - val_loss: " in capsys.readouterr().out
    figure_module = pytest.importorskip("matplotlib.figure")
    axes = history.plot(figure_module.Figure().subplots())
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["training loss", "validation loss", "training accuracy", "validation accuracy"]
    assert axes.get_xlabel() == "step" and len(axes.lines[0].get_xdata()) == 5


def test_history_plot_includes_all_losses():
    history = mg.History()
    for loss in (1.0, 0.5, 0.2):
        history.append({"loss": loss})
    for step, loss in ((1, 1.6), (2, 2.4), (3, 3.5)):
        history.append_validation(step, {"loss": loss})
    figure_module = pytest.importorskip("matplotlib.figure")
    low, high = history.plot(figure_module.Figure().subplots()).get_ylim()
    assert low == 0 and high > 3.5


def test_missing_extra_error_names_the_package_to_install(monkeypatch):
    from mpsgraph._optional import require

    with pytest.raises(ImportError, match=r"pip install mpsgraph\[demo\]"):
        require("mpsgraph_no_such_module", "demo", "the digits")


def test_demo_rejects_invalid_data_and_output_paths_before_training(tmp_path, capsys):
    from mpsgraph.cli import main

    for part, count in (("train", 50), ("t10k", 10)):
        images, labels = np.zeros((count, 28, 28), np.uint8), np.full(count, 10, np.uint8)
        for array, name in ((images, "images-idx3"), (labels, "labels-idx1")):
            header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (tmp_path / f"{part}-{name}-ubyte").write_bytes(header + array.tobytes())
    assert main(["demo", "digits", "--data", str(tmp_path), "--output", str(tmp_path / "out")]) == 1
    assert "labels above 9" in capsys.readouterr().err
    taken = tmp_path / "taken"
    taken.touch()
    assert main(["demo", "digits", "--output", str(taken)]) == 1
    printed = capsys.readouterr()
    assert "taken" in printed.err and "Trained" not in printed.out


# --- several processes (tests/distributed has what needs MPI) ---------------------------------------------------------
def test_distributed_training_without_mpi4py_raises(monkeypatch):
    from mpsgraph.distributed.processes import everyone

    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    everyone.cache_clear()
    for use in (lambda: mg.Trainer(mg.nn.Linear(1), distributed=True), mg.distributed.rank):
        with pytest.raises(
            ImportError, match=r"several processes requires mpi4py: pip install mpsgraph\[distributed\]"
        ):
            use()
    with pytest.raises(mg.GraphError, match="Trainer: distributed must be"):
        mg.Trainer(mg.nn.Linear(1), distributed="yes")
    with pytest.raises(mg.GraphError, match="wire must be .* got int32"):
        mg.distributed.DataParallel(wire="int32")
