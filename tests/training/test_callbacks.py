"""Test when callbacks are called and what they stop, save, and change."""

import csv
import re
import sys
import time

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn
from mpsgraph.training import callbacks

X = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]


def made(rate=0.1):
    return mg.Trainer(nn.Linear(1), "mse", mg.optim.SGD(rate), seed=0)


def test_callbacks_are_called_in_order():
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


def test_early_stopping_restores_the_best_weights():
    trainer = made(3.0)  # Training diverges at this learning rate.
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
    with pytest.raises(mg.GraphError, match=r"monitor must be one of the epoch's values \(loss.*\), got 'val_loss'"):
        made().fit(X, X, callbacks=[callbacks.EarlyStopping()], progress=False)


def test_best_and_periodic_checkpoints_are_written_and_limited(tmp_path):
    best = callbacks.BestCheckpoint(tmp_path / "best", "loss")
    often = callbacks.PeriodicCheckpoint(tmp_path / "{step}", every_steps=2, keep=2)
    trainer = made()
    trainer.fit(X, X, epochs=6, callbacks=[best, often], progress=False)
    assert len(list(tmp_path.iterdir())) == 3
    other = made()
    other.load(tmp_path / "best")
    assert other.step == 6 and other.history.epochs[:5] == trainer.history.epochs[:5]
    with pytest.raises(mg.GraphError, match="each file has a different name"):
        callbacks.PeriodicCheckpoint(tmp_path / "same", keep=2)


def test_csv_log_appends_rows(tmp_path):
    path = tmp_path / "log.csv"
    for _ in range(2):
        made().fit(X, X, epochs=2, callbacks=[callbacks.CSVLog(path, append=True)], progress=False)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["0", "1", "0", "1"] and float(rows[0]["loss"]) > float(rows[1]["loss"])


def test_tensorboard_can_read_written_events(tmp_path):
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


def test_tensorboard_events_after_resumed_checkpoint_are_hidden(tmp_path):
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    trainer, folder = made(), tmp_path / "events"
    trainer.fit(X, X, epochs=2, callbacks=[callbacks.TensorBoard(folder)], progress=False)
    trainer.save(tmp_path / "saved")
    trainer.fit(X, X, epochs=3, callbacks=[callbacks.TensorBoard(folder)], progress=False)
    other = made()
    other.load(tmp_path / "saved")
    time.sleep(1.1)  # TensorBoard distinguishes and orders event files by their starting time in seconds.
    history = other.fit(X, X, epochs=1, callbacks=[callbacks.TensorBoard(folder)], progress=False)
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    assert [e.value for e in events.Scalars("train/loss")] == pytest.approx(history.loss)
    assert [e.step for e in events.Scalars("train/loss")] == [1, 2, 3]


def test_progress_bar_uses_tqdm_auto_on_terminals(monkeypatch, capsys):
    """tqdm.auto selects the notebook bar in notebooks."""
    shown = []
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    class Bar:
        def __init__(self, total, unit, leave, desc):
            shown.append((total, unit, leave, desc))

        def update(self):
            shown.append("step")

        def set_postfix(self, values, refresh):
            shown.append(sorted(values))

        def close(self):
            shown.append("closed")

    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    made().fit(X, X, epochs=2, batch_size=16)
    step = ["step", ["loss"], "closed"]
    assert shown == [(1, "step", False, "epoch 1/2"), *step, (1, "step", False, "epoch 2/2"), *step]
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize("without", ["terminal", "tqdm", "CI"])
def test_one_plain_line_per_epoch_without_terminal_tqdm_or_in_ci(without, monkeypatch, capsys):
    if without != "terminal":
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    if without == "CI":
        monkeypatch.setenv("CI", "true")
    else:
        monkeypatch.delenv("CI", raising=False)
    if without == "tqdm":
        monkeypatch.setitem(sys.modules, "tqdm", None)
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    trainer = made()
    history = trainer.fit(X, X, epochs=2, batch_size=8, validation=(X, X))
    shown = capsys.readouterr()
    assert "\r" not in shown.out + shown.err and shown.err == ""
    lines = shown.out.splitlines()
    for number, (line, epoch) in enumerate(zip(lines, history.epochs, strict=True), 1):
        time = r"\d+\.\d+s"
        expected = (
            rf"epoch {number}/2 - 2 steps - {time} - loss: {epoch['loss']:.4g} - val_loss: {epoch['val_loss']:.4g}"
        )
        assert re.fullmatch(expected, line), line
    trainer.fit(X, X, iterations=1, batch_size=8)
    assert re.match(r"epoch 3 - 1 step - .*s - loss: ", capsys.readouterr().out)


def test_plateau_scales_schedules_of_all_parameter_groups():
    groups = mg.optim.ParameterGroups(
        mg.optim.SGD(mg.optim.StepRate(0.1, every=100)), {"*.bias": {"learning_rate": 0.2}, "weightless": None}
    )
    with pytest.raises(mg.GraphError, match="no parameter matches the pattern 'weightless'"):
        mg.Trainer(nn.Sequential(nn.Linear(1)), "mse", groups).train_step(X, X)
    groups = mg.optim.ParameterGroups(
        mg.optim.SGD(mg.optim.StepRate(0.1, every=100)), {"*.bias": {"learning_rate": 0.2}}
    )
    plateau = callbacks.ReduceRateOnPlateau("loss", factor=0.5, patience=1, min_delta=10.0)
    trainer = mg.Trainer(nn.Sequential(nn.Linear(1)), "mse", groups)
    trainer.fit(X, X, epochs=2, callbacks=[plateau], progress=False)
    assert [rate(0) for rate in groups.rates()] == [0.05, 0.1]


def phases(tmp_path, callbacks_of, epochs, metrics=(), at=5, optimizer=lambda: mg.optim.Adam(0.1)):
    """Train once without interruption and once with a save and resume at a step within an epoch.

    Returns:
        A pair (trainer, callbacks) for each of the two runs.
    """

    class Interrupt(callbacks.Callback):
        saves = True

        def on_step_end(self, trainer, step, values):
            if step == at:
                trainer.save(tmp_path / "saved")
                raise KeyboardInterrupt

    def trainer():
        return mg.Trainer(nn.Linear(1), "binary_cross_entropy_with_logits", optimizer(), metrics, seed=0)

    options = {"batch_size": 4, "validation": (X, Y), "progress": False}
    whole, own = trainer(), callbacks_of()
    whole.fit(X, Y, epochs=epochs, callbacks=own, **options)
    first = trainer()
    with pytest.raises(KeyboardInterrupt):
        first.fit(X, Y, epochs=epochs, callbacks=[Interrupt(), *callbacks_of()], **options)
    second, again = trainer(), callbacks_of()
    second.load(tmp_path / "saved")
    left = epochs - second.history.epoch
    second.fit(X, Y, epochs=left, callbacks=again, **options)
    return (whole, own), (second, again)


Y = (X > 0.3).astype(np.float32)


def test_history_and_metrics_survive_resume_within_epoch(tmp_path):
    metrics = [nn.metrics.AUC(), nn.metrics.MAE()]
    for at in (1, 5, 6, 8):  # Step 8 ends an epoch.
        (whole, _), (second, _) = phases(tmp_path, lambda: [], 4, metrics, at)
        assert whole.history.steps == second.history.steps and len(whole.history.loss) == 16
        assert whole.history.epochs == second.history.epochs and len(whole.history.epochs) == 4
        assert whole.history.validation == second.history.validation
        for name, value in whole.weights().items():
            np.testing.assert_array_equal(value, second.weights()[name])


def test_early_stopping_state_survives_resume(tmp_path):
    stopping = lambda: [callbacks.EarlyStopping("val_loss", patience=3, min_delta=0.2)]  # noqa: E731
    for at in (5, 9):
        (whole, (own,)), (second, (again,)) = phases(tmp_path, stopping, 20, at=at)
        assert whole.stopped == second.stopped and len(whole.history.epochs) < 20
        assert whole.history.epochs == second.history.epochs
        for name, value in whole.weights().items():
            np.testing.assert_array_equal(value, second.weights()[name])
        assert own.waited == again.waited == 0, "a callback that ended a fit must start over in the next one"
        assert "best" in mg.checkpoint.load(tmp_path / "saved")[1]["fit"]


def test_early_stopping_restores_bfloat16_weights(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng(0).normal(size=(16, 4)).astype(ml_dtypes.bfloat16)

    def made():
        return mg.Trainer(nn.LayerNorm(), "mse", mg.optim.SGD(0.1), dtype="bfloat16")

    trainer, stopping = made(), callbacks.EarlyStopping("loss", patience=9)
    trainer.fit(x, 2 * x, epochs=2, callbacks=[stopping], progress=False)
    trainer.save(tmp_path / "saved")
    other, again = made(), callbacks.EarlyStopping("loss", patience=9, min_delta=1e9)
    other.load(tmp_path / "saved")
    other.fit(x, 2 * x, epochs=1, callbacks=[again], progress=False)
    for path, value in trainer.weights().items():
        np.testing.assert_array_equal(other.weights()[path], value, err_msg="the best weights must be restored")


def test_plateau_state_and_rates_survive_resume(tmp_path):
    def plateau():
        return [callbacks.ReduceRateOnPlateau("val_loss", 0.3, patience=2, min_delta=0.05, cooldown=1)]

    for at in (5, 17, 26):
        (whole, _), (second, _) = phases(tmp_path, plateau, 12, at=at)
        assert whole.learning_rate == second.learning_rate < 0.01
        assert whole.history.steps == second.history.steps
    groups = lambda: mg.optim.ParameterGroups(  # noqa: E731
        mg.optim.SGD(mg.optim.StepRate(0.5, every=9)), {"bias": {"learning_rate": 0.25}}
    )
    (whole, _), (second, _) = phases(tmp_path, plateau, 12, at=26, optimizer=groups)
    rates = [[rate(7) for rate in trainer.optimizer.rates()] for trainer in (whole, second)]
    assert rates[0] == rates[1] and rates[0][1] < 0.25 and whole.history.steps == second.history.steps
    second.load(tmp_path / "saved")
    third = [rate(7) for rate in second.optimizer.rates()]
    assert third[1] > rates[0][1], "loading must replace the current rates, not scale them"


def test_csv_log_and_checkpoints_continue_after_resume(tmp_path):
    def made():
        return [
            callbacks.CSVLog(tmp_path / "log.csv"),
            callbacks.PeriodicCheckpoint(tmp_path / "{epoch}.st", keep=2),
            callbacks.BestCheckpoint(tmp_path / "best.st"),
        ]

    (_, (_, _, best)), (_, (_, _, again)) = phases(tmp_path, made, 5, at=13)
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["0", "1", "2", "3", "4"] and best.best == again.best
    assert sorted(path.name for path in tmp_path.glob("?.st")) == ["3.st", "4.st"]


def test_state_of_custom_callback_survives_resume(tmp_path):
    class Counter(callbacks.Callback):
        seen, table = 0, np.zeros(2)

        def on_step_end(self, trainer, step, values):
            self.seen, self.table = self.seen + 1, self.table + [1, step]

        def state_dict(self):
            return {"seen": self.seen, "table": self.table}

        def load_state_dict(self, state):
            self.seen, self.table = state["seen"], state["table"]

    trainer = mg.Trainer(nn.Linear(1), "mse")
    trainer.fit(X, X, batch_size=4, callbacks=[Counter(), Counter()], progress=False)
    trainer.save(tmp_path / "saved")
    other = mg.Trainer(nn.Linear(1), "mse")
    other.load(tmp_path / "saved")
    other.save(tmp_path / "again")  # Save the checkpoint before fit has started.
    third = mg.Trainer(nn.Linear(1), "mse")
    third.load(tmp_path / "again")
    counters = [Counter(), callbacks.TerminateOnNaN(), Counter(), Counter()]
    third.fit(X, X, batch_size=4, callbacks=counters, progress=False)
    assert [c.seen for c in counters if isinstance(c, Counter)] == [8, 8, 4]
    assert counters[0].table.tolist() == [8.0, 36.0]

    class Wrong(Counter):
        def state_dict(self):
            return {"what": self}

    with pytest.raises(mg.CheckpointError, match=r"cannot store fit/callbacks/0/state/what, got"):
        trainer.fit(X, X, callbacks=[Wrong()], progress=False)
        trainer.save(tmp_path / "saved")
