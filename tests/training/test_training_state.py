"""Test the numbers that a trainer keeps between steps: averages, accumulated gradients, counters, and rates."""

import functools

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 4, 24).astype(np.int32)
WRONG = np.full(8, 9, np.int32)  # Class indices out of range, which raise OutOfRangeError.


class Two(mg.Trainer):
    """A step with an optimizer for each of two layers."""

    def training_step(self, inputs, labels, weights=None):
        results = self.results(self.forward(inputs), labels, weights)
        first, second = (list(dict(self.model.layers[i].named_parameters()).values()) for i in (0, 1))
        self.minimize(results["loss"], first, mg.optim.SGD(0.1))
        self.minimize(results["loss"], second)
        return results


def test_averages_start_from_weights_after_first_step_of_each_optimizer():
    trainer = Two(nn.Sequential(nn.Linear(3), nn.Linear(4)), optimizer=mg.optim.SGD(0.1), ema_decay=0.9)
    averages = None
    for _ in range(3):
        trainer.train_step(X, Y).wait()
        now = trainer.weights()
        averages = {n: now[n] if averages is None else 0.9 * averages[n] + 0.1 * now[n] for n in now}
    with trainer.averaged_weights():
        for name, value in trainer.weights().items():
            np.testing.assert_allclose(value, averages[name], rtol=1e-5, atol=1e-7)


def test_minimizing_twice_with_one_optimizer_raises():
    class Twice(mg.Trainer):
        def training_step(self, inputs, labels, weights=None):
            results = self.results(self.forward(inputs), labels)
            self.minimize(results["loss"])
            self.minimize(results["loss"])
            return results

    with pytest.raises(mg.GraphError, match=r"only one update in a step.*with_options"):
        Twice(nn.Linear(4)).train_step(X, Y)


def test_average_of_a_layer_starts_from_its_weights_after_first_update():
    class Later(mg.Trainer):
        """Train the first layer only with batches that have weights."""

        def training_step(self, inputs, labels, weights=None):
            results = self.results(self.forward(inputs), labels)
            self.minimize(results["loss"], None if weights is not None else [self.model.layers[1].weight])
            return results

    trainer = Later(nn.Sequential(nn.Linear(3), nn.Linear(4)), optimizer=mg.optim.SGD(0.1), ema_decay=0.9)
    for _ in range(3):
        trainer.train_step(X, Y).wait()
    trainer.train_step(X, Y, np.ones(24, np.float32)).wait()
    now = trainer.weights()
    with trainer.averaged_weights():
        averages = trainer.weights()
    for name in ("0.weight", "0.bias", "1.bias"):
        np.testing.assert_array_equal(averages[name], now[name])
    assert (averages["1.weight"] != now["1.weight"]).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("decay", [0.9, 0.999, 0.9999])
def test_averages_of_400_steps_match_float64(dtype, decay):
    trainer = mg.Trainer(nn.Linear(4), optimizer=mg.optim.SGD(0.3), ema_decay=decay, dtype=dtype)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x, average = X.astype(kind), None
    for _ in range(400):
        trainer.train_step(x, Y).wait()
        now = trainer.weights()["weight"].astype(np.float64)
        average = now if average is None else decay * average + (1 - decay) * now
    with trainer.averaged_weights():
        found = trainer.weights()["weight"].astype(np.float64)
    limit = 2e-6 if dtype == "float32" else 1e-12 if dtype == "float64" else float(ml_dtypes.finfo(kind).eps)
    assert np.abs(average - now).max() > (0.001 if decay == 0.9 else 0.1)
    np.testing.assert_allclose(found, average, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_512_accumulated_gradients_keep_float32_precision(dtype):
    """In 16 bits, a gradient would stop counting once the sum is 256 or 2,048 times as large."""
    trainer = mg.Trainer(
        nn.Linear(1, bias=False),
        lambda outputs, labels: nn.losses.mean_of_all(outputs) * 1.0,
        mg.optim.SGD(1.0),
        metrics=(),
        gradient_accumulation_steps=512,
        dtype=np.dtype(dtype).name,
    )
    x = np.random.default_rng(2).uniform(0.5, 1.5, (512, 4, 2)).astype(dtype)
    trainer.evaluate(x[0], np.zeros((4, 1), dtype))
    before = trainer.weights()["weight"].astype(float)
    for batch in x:
        trainer.train_step(batch, np.zeros((4, 1), dtype))
    moved = before - trainer.weights()["weight"].astype(float)
    rounding = 2 * float(ml_dtypes.finfo(dtype).eps) * np.abs(before).max()
    np.testing.assert_allclose(moved[:, 0], x.astype(float).mean((0, 1)), rtol=1e-3, atol=rounding)


def test_float64_trainers_use_float64_learning_rates(tmp_path):
    rate = 0.1  # float32 rounds it.
    trainer = mg.Trainer(nn.Linear(1, bias=False), "mse", mg.optim.SGD(rate), dtype="float64")
    x, y = X.astype(float), X[:, :1].astype(float)
    trainer.evaluate(x, y)
    before = trainer.weights()["weight"]
    trainer.train_step(x, y)
    wanted = before - rate * 2 * x.T @ (x @ before - y) / 24
    np.testing.assert_allclose(trainer.weights()["weight"], wanted, rtol=1e-13, atol=1e-15)
    mg.save(tmp_path / "trained", trainer)
    loaded = mg.load(tmp_path / "trained")
    assert loaded.learning_rate == rate
    loaded.train_step(x, y)
    trainer.train_step(x, y)
    np.testing.assert_array_equal(loaded.weights()["weight"], trainer.weights()["weight"])


def made(accumulation=1, rate=0.1, **options):
    options = {"optimizer": mg.optim.SGD(rate), "seed": 3} | options
    return mg.Trainer(nn.Sequential(nn.Linear(4)), gradient_accumulation_steps=accumulation, **options)


@pytest.mark.parametrize("packaged", [False, True])
@pytest.mark.parametrize("accumulation", [1, 2, 3])
def test_failed_step_leaves_all_counters_unchanged(tmp_path, accumulation, packaged):
    """The rate differs from update to update, and each update has as many successful batches as without the
    failures.
    """
    rate = mg.optim.ExponentialRate(0.5, every=1, factor=0.5)
    good, trainer = made(accumulation, rate), made(accumulation, rate)
    good.evaluate(X, Y)
    trainer.evaluate(X, Y)
    if packaged:
        good.train_step(X[:8], Y[:8]).wait()
        trainer.train_step(X[:8], Y[:8]).wait()
        mg.save(tmp_path / "trained", trainer, updates=20)
        trainer = mg.load(tmp_path / "trained")
    begun = good.step
    for i in range(6):
        x, y = X[4 * i : 4 * i + 8], Y[4 * i : 4 * i + 8]
        good.train_step(x, y)
        trainer.train_step(x, y)
        if i in (0, 1, 3):
            result = trainer.train_step(x, WRONG[: len(x)])
            with pytest.raises(mg.OutOfRangeError):
                if i == 3:
                    trainer.wait()
                else:
                    float(result)
        assert trainer.step == good.step == begun + i + 1
    assert trainer.learning_rate == pytest.approx(good.learning_rate)
    for name, value in good.weights().items():
        np.testing.assert_array_equal(trainer.weights()[name], value)
    if not packaged:
        mg.save(tmp_path / "saved", trainer, updates=20)
        loaded = mg.load(tmp_path / "saved")
        assert loaded.step == trainer.step and loaded.learning_rate == pytest.approx(trainer.learning_rate)
        loaded.train_step(X, Y).wait()
        trainer.train_step(X, Y).wait()
        for name, value in trainer.weights().items():
            np.testing.assert_array_equal(loaded.weights()[name], value)


def test_failed_step_is_not_counted_if_its_error_is_noticed_later():
    trainer = made()
    trainer.train_step(X[:8], Y[:8])
    trainer.train_step(X[:8], WRONG)
    trainer.train_step(X[:8], Y[:8])
    with pytest.raises(mg.OutOfRangeError):
        trainer.wait()
    trainer.wait()
    assert trainer.step == 2


OFTEN = np.array([-1, -1, -1, 2, 1, -1, 0, 3] * 3, np.int32)
LOSSES = {
    "mean": ("cross_entropy", Y),
    "ignored": (functools.partial(nn.losses.cross_entropy, ignore_index=-1), OFTEN),
    "weighted": (functools.partial(nn.losses.cross_entropy, class_weights=[0.1, 1.0, 5.0, 2.0]), Y),
    "both": (functools.partial(nn.losses.cross_entropy, class_weights=[0.1, 1, 5, 2], ignore_index=-1), OFTEN),
}


@pytest.mark.parametrize("name", LOSSES)
def test_accumulation_equals_one_step_on_all_batches(name):
    loss, labels = LOSSES[name]
    whole, parts = made(loss=loss), made(3, loss=loss)
    whole.train_step(X, labels)
    for part in (slice(0, 3), slice(3, 16), slice(16, 24)):
        parts.train_step(X[part], labels[part])
    for path, value in whole.weights().items():
        np.testing.assert_allclose(parts.weights()[path], value, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("packaged", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_reported_means_do_not_depend_on_the_batch_size(name, packaged, tmp_path):
    loss, labels = LOSSES[name]
    trainer = made(loss=loss, rate=0.0)
    if packaged:
        trainer.train_step(X, labels)
        mg.save(tmp_path / "trained", trainer)
        trainer = mg.load(tmp_path / "trained")
    wanted = trainer.evaluate(X, labels, 24)
    for size in (1, 5, 7):
        found = trainer.evaluate(X, labels, size)
        history = trainer.fit(X, labels, batch_size=size, progress=False)
        for key, value in wanted.items():
            assert found[key] == pytest.approx(value, rel=1e-5)
            assert history.epochs[-1][key] == pytest.approx(value, rel=1e-5)


def test_total_loss_of_outputs_with_ignored_labels_does_not_depend_on_the_batch_size():
    class Heads(nn.Module):
        def __init__(self):
            self.left, self.right = nn.Linear(4), nn.Linear(4)

        def forward(self, x):
            return {"left": self.left(x), "right": self.right(x)}

    losses = {"left": LOSSES["ignored"][0], "right": "cross_entropy"}
    trainer = mg.Trainer(Heads(), losses, mg.optim.SGD(0.0), loss_weights={"left": 2.0, "right": 0.5})
    labels = {"left": OFTEN, "right": Y}
    wanted = trainer.evaluate(X, labels, 24)
    assert wanted["loss"] == pytest.approx(2 * wanted["left_loss"] + 0.5 * wanted["right_loss"])
    found = trainer.evaluate(X, labels, 5)
    history = trainer.fit(X, labels, batch_size=5, progress=False)
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, rel=1e-5)
        assert history.epochs[-1][key] == pytest.approx(value, rel=1e-5)


def test_resumed_epoch_reports_means_over_the_whole_epoch(tmp_path):
    whole, resumed = (made(loss=LOSSES["both"][0]) for _ in range(2))
    save = mg.training.callbacks.PeriodicCheckpoint(tmp_path / "{step}", every_steps=2)
    wanted = whole.fit(X, OFTEN, batch_size=5, callbacks=[save], progress=False).epochs[-1]
    resumed.load(tmp_path / "3")
    assert resumed.fit(X, OFTEN, batch_size=5, progress=False).epochs == [wanted]
    assert resumed.step == whole.step == 5


def test_fit_warns_about_an_incomplete_accumulation():
    trainer = made(4)
    with pytest.warns(UserWarning, match="the last 2 of 4 batches are accumulated but not applied"):
        trainer.fit(X, Y, batch_size=4, progress=False)
    trainer.fit(X, Y, iterations=2, batch_size=4, progress=False)
    assert trainer.step == 8


def test_failed_step_leaves_averages_of_unfrozen_layers_unset():
    x, y = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32), np.arange(8, dtype=np.int32) % 3
    model = nn.Sequential(nn.Linear(5), nn.ReLU(), nn.Linear(3))
    trainer = mg.Trainer(model, "cross_entropy", mg.optim.SGD(0.1), ema_decay=0.9, check_finite=True)
    model[0].freeze()
    trainer.train_step(x, y).wait()
    model[0].unfreeze()
    with pytest.raises(mg.OutOfRangeError):
        trainer.train_step(x, y + 5).wait()
    own = model.state_dict()
    with trainer.averaged_weights():  # The average of the unfrozen layer has not begun.
        np.testing.assert_array_equal(model.state_dict()["0.weight"], own["0.weight"])
    seen = []
    for _ in range(3):
        trainer.train_step(x, y).wait()
        seen.append(model.state_dict()["0.weight"].astype(np.float64))
    expected = seen[0]
    for weight in seen[1:]:
        expected = 0.9 * expected + 0.1 * weight
    with trainer.averaged_weights():
        np.testing.assert_allclose(model.state_dict()["0.weight"], expected, rtol=1e-5, atol=1e-7)


def test_new_trainer_continues_averages_of_weights_that_are_frozen_in_it(tmp_path):
    def created(frozen):
        model = nn.Sequential(nn.Linear(3), nn.Linear(4))
        if frozen:
            model.layers[0].freeze()
        return mg.Trainer(model, optimizer=mg.optim.SGD(0.1), ema_decay=0.9, seed=0)

    trainer = created(frozen=False)
    trainer.train_step(X, Y), trainer.train_step(X, Y).wait()
    trainer.model.layers[0].freeze()
    trainer.train_step(X, Y).wait()
    trainer.save(tmp_path / "c.safetensors")
    other = created(frozen=True)
    other.load(tmp_path / "c.safetensors")
    for each in (trainer, other):
        each.train_step(X, Y).wait()
    with trainer.averaged_weights(), other.averaged_weights():
        expected, found = trainer.weights(), other.weights()
    assert all((found[path] == expected[path]).all() for path in expected)
