"""Callbacks: when they are told, what they end, save and change."""

import csv

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn
from mpsgraph.training import callbacks

X = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]


def made(rate=0.1):
    return mg.Trainer(nn.Linear(1), "mse", mg.optim.SGD(rate))


def test_the_protocol():
    told = []

    class Told(callbacks.Callback):
        def on_fit_begin(self, trainer):
            told.append("begin")

        def on_epoch_begin(self, trainer, epoch):
            told.append(f"epoch {epoch}")

        def on_step_end(self, trainer, step, values):
            told.append((step, sorted(values)))

        def on_epoch_end(self, trainer, epoch, values):
            told.append((epoch, sorted(values)))

        def on_fit_end(self, trainer):
            told.append("end")

    made().fit(X, X, epochs=2, batch_size=8, validation=(X, X), callbacks=[Told()], progress=False)
    steps = [(i, ["loss"]) for i in range(1, 5)]
    values = ["loss", "val_loss"]
    assert told == ["begin", "epoch 0", *steps[:2], (0, values), "epoch 1", *steps[2:], (1, values), "end"]


def test_early_stopping_gives_the_best_weights_back():
    trainer = made(3.0)  # which diverges
    best = callbacks.EarlyStopping("val_loss", patience=2)
    kept = {}

    class Keep(callbacks.Callback):
        def on_epoch_end(self, trainer, epoch, values):
            kept[epoch] = trainer.weights(), values["val_loss"]

    history = trainer.fit(X, X, epochs=50, validation=(X, X), callbacks=[Keep(), best], progress=False)
    losses = [values["val_loss"] for values in history.epochs]
    where = int(np.argmin(losses))
    assert len(losses) == where + 3 < 50 and trainer.stopped
    for name, value in kept[where][0].items():
        np.testing.assert_array_equal(trainer.weights()[name], value)
    with pytest.raises(mg.GraphError, match="watches 'val_loss', an epoch has loss"):
        made().fit(X, X, callbacks=[callbacks.EarlyStopping()], progress=False)


def test_checkpoints(tmp_path):
    best = callbacks.BestCheckpoint(tmp_path / "best", "loss")
    often = callbacks.PeriodicCheckpoint(tmp_path / "{step}", every_steps=2, keep=2)
    trainer = made()
    trainer.fit(X, X, epochs=6, callbacks=[best, often], progress=False)
    assert len(list(tmp_path.iterdir())) == 3
    other = made()
    other.load(tmp_path / "best")
    assert other.step == 6 and other.history.epochs[:5] == trainer.history.epochs[:5]
    with pytest.raises(mg.GraphError, match="names of their own"):
        callbacks.PeriodicCheckpoint(tmp_path / "same", keep=2)


def test_a_table(tmp_path):
    path = tmp_path / "log.csv"
    for _ in range(2):
        made().fit(X, X, epochs=2, callbacks=[callbacks.CSVLog(path, append=True)], progress=False)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["0", "1", "0", "1"] and float(rows[0]["loss"]) > float(rows[1]["loss"])


def test_events_are_read_back_by_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    trainer = made()
    history = trainer.fit(
        X, X, epochs=3, validation=(X, X), callbacks=[callbacks.TensorBoard(tmp_path)], progress=False
    )
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [e.value for e in events.Scalars("train/loss")] == pytest.approx(history.loss)
    assert [e.step for e in events.Scalars("validation/loss")] == [1, 2, 3]


def test_the_bar_shows_validation(capsys):
    made().fit(X, X, epochs=2, validation=(X, X))
    assert "val_loss=" in capsys.readouterr().err


def test_rates_on_a_plateau_scale_schedules_of_all_groups():
    groups = mg.optim.ParameterGroups(
        mg.optim.SGD(mg.optim.StepRate(0.1, every=100)), {"*.bias": {"learning_rate": 0.2}, "weightless": None}
    )
    with pytest.raises(mg.GraphError, match="no parameter fits the group 'weightless'"):
        mg.Trainer(nn.Sequential(nn.Linear(1)), "mse", groups).train_step(X, X)
    groups = mg.optim.ParameterGroups(
        mg.optim.SGD(mg.optim.StepRate(0.1, every=100)), {"*.bias": {"learning_rate": 0.2}}
    )
    plateau = callbacks.ReduceRateOnPlateau("loss", factor=0.5, patience=1, min_delta=10.0)
    trainer = mg.Trainer(nn.Sequential(nn.Linear(1)), "mse", groups)
    trainer.fit(X, X, epochs=2, callbacks=[plateau], progress=False)
    assert [rate(0) for rate in groups.rates()] == [0.05, 0.1]
