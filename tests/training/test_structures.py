"""Test the data and options that a Trainer accepts.

The tests cover structures, several outputs and losses, sample weights, varying sizes, gradient accumulation, weight
averages, and training phases.
"""

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

pytestmark = pytest.mark.both_devices

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).astype(np.float32)
Y = (X @ np.float32([[1], [-2], [0.5]])).astype(np.float32)


class Two(nn.Module):
    """A module with two named inputs and two outputs."""

    def __init__(self):
        self.left, self.right = nn.Linear(1), nn.Linear(2)

    def forward(self, a, b):
        return {"sum": self.left(a + b), "classes": self.right(a)}


def two(**options):
    return mg.Trainer(Two(), {"sum": "mse", "classes": "cross_entropy"}, mg.optim.SGD(0.1), seed=3, **options)


def mse():
    return mg.Trainer(nn.Linear(1), "mse", mg.optim.SGD(0.1), seed=3)


@pytest.mark.parametrize("as_tuple", [False, True])
def test_trainer_supports_several_inputs_outputs_and_losses(as_tuple):
    classes = (X[:, 0] > 0).astype(np.int32)
    inputs = (X, X[::-1].copy()) if as_tuple else {"a": X, "b": X[::-1].copy()}
    labels = {"sum": Y, "classes": classes}
    trainer = two(loss_weights={"classes": 0.5})
    found = trainer.evaluate(inputs, labels)
    assert found.keys() == {"loss", "sum_loss", "classes_loss", "classes_accuracy"}
    assert found["loss"] == pytest.approx(found["sum_loss"] + 0.5 * found["classes_loss"], rel=1e-6)
    outputs = trainer.predict(inputs, batch_size=7)
    assert found["sum_loss"] == pytest.approx(((outputs["sum"] - Y) ** 2).mean(), rel=1e-5)
    assert found["classes_accuracy"] == pytest.approx((outputs["classes"].argmax(1) == classes).mean())
    trainer.fit(inputs, labels, epochs=20, batch_size=8, progress=False)
    assert trainer.evaluate(inputs, labels)["loss"] < found["loss"]


def test_mismatched_inputs_labels_and_losses_raise():
    trainer = two()
    with pytest.raises(mg.GraphError, match="labels are needed for sum, classes"):
        trainer.train_step({"a": X, "b": X}, {"sum": Y})
    with pytest.raises(mg.GraphError, match=r"Two.forward takes a, b, but the inputs also contain c"):
        two().train_step({"a": X, "b": X, "c": X}, {"sum": Y, "classes": Y})
    with pytest.raises(mg.GraphError, match="loss has entries for other"):
        mg.Trainer(Two(), {"other": "mse"}).train_step((X, X), {"other": Y})
    with pytest.raises(mg.DTypeError, match="labels 'sum' must be an array, got str"):
        trainer.train_step((X, X), {"sum": "text", "classes": Y})


def test_input_dictionary_order_does_not_affect_training():
    """Arrays of equal shape are matched by name in each step."""
    a, b = X, (3 * X[::-1]).copy()
    labels = {"sum": Y, "classes": (X[:, 0] > 0).astype(np.int32)}
    steps = []
    for later in ({"a": a, "b": b}, {"b": b, "a": a}):
        trainer = two()
        trainer.train_step({"a": a, "b": b}, labels)
        losses = [float(trainer.train_step(later, dict(reversed(labels.items())))) for _ in range(2)]
        steps.append((losses, trainer.evaluate(later, labels), trainer.predict(later)["sum"].tolist()))
    assert steps[0] == steps[1]


def test_changed_input_structure_raises():
    labels = {"sum": Y, "classes": (X[:, 0] > 0).astype(np.int32)}
    trainer = two()
    before = float(trainer.train_step({"a": X, "b": X}, labels))
    for other in ({"a": X, "c": X}, (X, X), [X, X]):
        with pytest.raises(
            mg.GraphError,
            match="inputs must have the structure of earlier batches: expected a dict with keys 'a', 'b'",
        ):
            trainer.train_step(other, labels)
    assert float(trainer.train_step({"a": X, "b": X}, labels)) < before
    alone = mse()
    alone.train_step(X, Y)
    with pytest.raises(mg.GraphError, match="labels must have the structure of earlier batches"):
        alone.train_step(X, (Y,))
    with pytest.raises(mg.DTypeError, match="float16"):
        alone.train_step(X.astype(np.float16), Y)


def test_sample_weights_are_applied_as_in_keras():
    """The sum of the weighted losses is divided by the number of samples."""
    weights = RNG.uniform(0, 2, len(X)).astype(np.float32)
    trainer = mse()
    outputs = trainer.predict(X)
    expected = (((outputs - Y) ** 2).mean(1) * weights).mean()
    assert trainer.evaluate(X, Y, sample_weight=weights)["loss"] == pytest.approx(expected, rel=1e-5)
    assert float(trainer.train_step(X, Y, weights)) == pytest.approx(expected, rel=1e-5)
    plain, ones = mse(), mse()
    np.testing.assert_allclose(
        plain.fit((X, Y), progress=False).loss,
        ones.fit(X, Y, sample_weight=np.ones(len(X), np.float32), progress=False).loss,
        rtol=1e-6,
    )
    with pytest.raises(mg.GraphError, match="need a loss with the argument `reduction`"):
        mg.Trainer(nn.Linear(1), lambda o, y: nn.losses.mean_of_all(o - y)).train_step(X, Y, weights)


def test_class_weights_equal_sample_weights():
    classes = (X[:, 0] > 0).astype(np.int32)
    losses = []
    for options in ({"class_weight": {1: 3.0}}, {"sample_weight": np.where(classes == 1, 3, 1).astype(np.float32)}):
        trainer = mg.Trainer(nn.Linear(2), optimizer=mg.optim.SGD(0.1), seed=1)
        losses.append(trainer.fit(X, classes, epochs=3, batch_size=6, progress=False, **options).loss)
    assert losses[0] == losses[1]


def test_image_sizes_can_vary_between_steps():
    model = nn.Sequential(
        nn.Conv2d(4, 3, padding="TF_SAME"), nn.ReLU(), nn.Dropout(0.1), nn.GlobalAveragePooling2d(), nn.Linear(2)
    )
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(0.01))
    for size in (8, 12, 8, 10):
        x = RNG.normal(size=(4, size, size, 1)).astype(np.float32)
        assert np.isfinite(float(trainer.train_step(x, np.int32([0, 1, 0, 1]))))
        assert trainer.predict(x).shape == (4, 2)
    names = [v.name for v in trainer.graph.variables]
    assert len(names) == len({n.rstrip("_0123456789") for n in names}), "no variable may be created twice"
    with pytest.raises(mg.ShapeError):
        trainer.train_step(x[:, :, 0], np.int32([0, 1, 0, 1]))


def test_training_with_varying_image_sizes_resumes(tmp_path):
    def made():
        model = nn.Sequential(nn.Conv2d(2, 3), nn.Dropout(0.3), nn.GlobalAveragePooling2d(), nn.Linear(2))
        return mg.Trainer(model, optimizer=mg.optim.Adam(0.01), seed=2)

    batches = [(RNG.normal(size=(4, n, n, 1)).astype(np.float32), np.int32([0, 1, 0, 1])) for n in (8, 9, 7, 9, 11)]
    whole = [float(trainer.train_step(*b)) for trainer in [made()] for b in batches]
    first = made()
    assert [float(first.train_step(*b)) for b in batches[:3]] == whole[:3]
    first.save(tmp_path / "half")
    second = made()
    second.load(tmp_path / "half")
    assert [float(second.train_step(*b)) for b in batches[3:]] == whole[3:]


def test_gradient_accumulation_equals_the_whole_batch():
    whole, parts = mse(), mg.Trainer(nn.Linear(1), "mse", mg.optim.SGD(0.1), seed=3, gradient_accumulation_steps=3)
    for _ in range(2):
        whole.train_step(X, Y)
        before = None
        for i in range(3):
            parts.train_step(X[8 * i : 8 * i + 8], Y[8 * i : 8 * i + 8])
            if i < 2:
                now = parts.weights()
                assert before is None or all((now[k] == before[k]).all() for k in now)
                before = now
    for name, value in whole.weights().items():
        np.testing.assert_allclose(parts.weights()[name], value, rtol=1e-5, atol=1e-7)
    assert parts.step == 6 and whole.step == 2


def test_float16_gradient_accumulation_resumes_between_updates(tmp_path):
    def made():
        options = {"precision": "float16", "gradient_accumulation_steps": 2}
        return mg.Trainer(nn.Sequential(nn.Linear(8), nn.BatchNorm(), nn.Linear(1)), "mse", seed=1, **options)

    whole, first, second = made(), made(), made()
    losses = [float(whole.train_step(X, Y)) for _ in range(6)]
    assert [float(first.train_step(X, Y)) for _ in range(3)] == losses[:3]
    first.save(tmp_path / "half")
    second.load(tmp_path / "half")
    assert [float(second.train_step(X, Y)) for _ in range(3)] == losses[3:]


def test_averaged_weights_replace_weights_within_their_block():
    trainer = mg.Trainer(nn.Linear(1), "mse", mg.optim.SGD(0.1), seed=3, ema_decay=0.75)
    with pytest.raises(mg.GraphError, match="there are no averaged weights"), trainer.averaged_weights():
        pass
    average = None
    for _ in range(4):
        trainer.train_step(X, Y).wait()
        now = trainer.weights()["weight"]
        average = now if average is None else 0.75 * average + 0.25 * now
    with trainer.averaged_weights():
        np.testing.assert_allclose(trainer.weights()["weight"], average, rtol=1e-5)
    np.testing.assert_array_equal(trainer.weights()["weight"], now)


def test_second_phase_trains_with_frozen_layers_and_new_optimizer(tmp_path):
    model = nn.Sequential(nn.Linear(4), nn.ReLU(), nn.Linear(1))
    first = mg.Trainer(model, "mse", mg.optim.Adam(0.01))
    first.fit(X, Y, epochs=2, progress=False)
    model[0].freeze()
    second = mg.Trainer(model, "mse", mg.optim.SGD(0.1, momentum=0.9))
    before = model.state_dict()
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    second.fit(X[:12], Y[:12], epochs=2, progress=False)
    after = model.state_dict()
    moved = {name for name in after if (after[name] != before[name]).any()}
    assert moved == {"2.weight", "2.bias"}
    second.save(tmp_path / "second")
    alone = mg.Trainer(nn.Sequential(nn.Linear(4).freeze(), nn.ReLU(), nn.Linear(1)), "mse", mg.optim.SGD(0.1, 0.9))
    alone.load(tmp_path / "second")
    assert alone.train_step(X, Y).values == second.train_step(X, Y).values
    model.freeze()
    with pytest.raises(mg.GraphError, match="all of them are frozen"):
        mg.Trainer(model, "mse").train_step(X, Y)


def test_trainer_trains_an_imported_model():
    g = mg.Graph()
    x, w = g.placeholder((-1, 3), name="x"), g.variable(np.zeros((3, 1), np.float32), name="w")
    trainer = mg.Trainer(mg.Model(g, {"x": x}, {"y": x @ w}), "mse", mg.optim.SGD(0.3))
    trainer.fit({"x": X}, Y, epochs=60, batch_size=8, progress=False)
    np.testing.assert_allclose(g.variable_value(w), [[1], [-2], [0.5]], atol=1e-3)


def test_losses_added_by_modules_are_minimized():
    class Decayed(nn.Linear):
        def forward(self, x):
            self.add_loss(0.5 * nn.losses.mean_of_all(self.weight * self.weight))
            return super().forward(x)

    trainer = mg.Trainer(nn.Sequential(Decayed(1)), "mse", mg.optim.SGD(0.1), seed=3)
    plain = ((trainer.predict(X) - Y) ** 2).mean()
    added = 0.5 * (trainer.weights()["0.weight"] ** 2).mean()
    assert trainer.evaluate(X, Y)["loss"] == pytest.approx(plain + added, rel=1e-5)
    assert float(trainer.train_step(X, Y)) == pytest.approx(plain + added, rel=1e-5)


def test_fit_accepts_keras_argument_names():
    trainer = mse()
    history = trainer.fit(X, Y, epochs=2, validation_split=0.25, batch_size=6, progress=False)
    assert trainer.step == 6 and [step for step, _ in history.validation] == [3, 6]
    assert history.epochs[1]["val_loss"] == history.validation[1][1]["loss"]

    def endless():
        while True:
            yield X[:4], Y[:4]

    trainer.fit(endless(), epochs=3, steps_per_epoch=5, validation_data=(X, Y), progress=False)
    assert trainer.step == 6 + 15 and history.epoch == 5
    with pytest.raises(mg.GraphError, match="validation_data is an alias of validation"):
        trainer.fit(X, Y, validation=(X, Y), validation_data=(X, Y), progress=False)
    with pytest.raises(mg.GraphError, match="empty: use a different fraction"):
        trainer.fit(X[:1], Y[:1], validation_split=0.5, progress=False)


def test_predict_accepts_iterables_and_evaluate_accepts_other_metrics():
    trainer = mse()
    whole = trainer.predict(X)
    np.testing.assert_array_equal(trainer.predict(part for part in (X[:8], X[8:])).shape, whole.shape)
    np.testing.assert_allclose(trainer.predict([(X[:8], Y[:8]), (X[8:], Y[8:])]), whole, rtol=1e-6)
    found = trainer.evaluate(X, Y, metrics=["mean_absolute_error", nn.metrics.R2()])
    assert found.keys() == {"loss", "mean_absolute_error", "r2"}
    assert found["r2"] == pytest.approx(1 - ((whole - Y) ** 2).sum() / ((Y - Y.mean()) ** 2).sum(), rel=1e-5)
    with pytest.raises(mg.GraphError, match="no batch"):
        trainer.predict(iter(()))


def test_custom_step_trains_two_adversarial_networks():
    class Pair(nn.Module):
        def __init__(self):
            self.artist, self.critic = nn.Linear(3), nn.Linear(1)

    class Game(mg.Trainer):
        def training_step(self, inputs, labels, weights=None):
            g, judged = self.graph, nn.losses.binary_cross_entropy_with_logits
            fake = self.model.artist(g.random_normal((8, 2)))
            real_scores, fake_scores = self.model.critic(inputs), self.model.critic(fake)
            critic = judged(real_scores, real_scores * 0 + 1) + judged(fake_scores, fake_scores * 0)
            artist = judged(fake_scores, fake_scores * 0 + 1)
            self.minimize(critic, self.model.critic.parameters())
            self.minimize(artist, self.model.artist.parameters(), self.artist_optimizer)
            return {"loss": critic, "artist_loss": artist}

    trainer = Game(Pair(), optimizer=mg.optim.Adam(1e-2))
    trainer.artist_optimizer = mg.optim.SGD(0.0)
    before = None
    for _ in range(2):
        values = trainer.train_step(X[:8]).values
        now = trainer.weights()
        if before is not None:
            assert all((now[n] != before[n]).any() == n.startswith("critic") for n in now)
        before = now
    assert values.keys() == {"loss", "artist_loss"} and set(now) >= {"artist.weight", "critic.bias"}


def test_check_finite_names_the_first_operation_producing_nan():
    class Broken(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return y.graph.logarithm(y - 1e6, name="the_culprit")  # This takes the logarithm of a negative number.

    trainer = mg.Trainer(nn.Sequential(Broken(1)), "mse", mg.optim.SGD(0.1), check_finite=True)
    with pytest.raises(mg.CheckError, match=r"'the_culprit' produced a NaN.*test_structures\.py"):
        trainer.train_step(X, Y)
    assert trainer.step == 0 and all(np.isfinite(w).all() for w in trainer.weights().values())
    good = mg.Trainer(nn.Linear(1), "mse", mg.optim.SGD(0.1), seed=3, check_finite=True)
    assert float(good.train_step(X, Y)) == float(mse().train_step(X, Y))
    with pytest.raises(mg.CheckError, match="'inputs' was fed a NaN"):
        good.train_step(np.full_like(X, np.nan), Y)


def test_predict_and_custom_step_can_take_different_inputs(tmp_path):
    """Each training batch consists of labels only; the model's inputs are random numbers drawn in the step."""

    class Drawn(mg.Trainer):
        def training_step(self, inputs, labels=None, weights=None):
            g = self.graph
            seeds = g.random_normal(g.concat((g.shape_of(inputs)[:1], g.constant(np.int32([3]))), 0))
            outputs = self.forward(seeds)
            loss = nn.losses.mean_squared_error(outputs, inputs)
            self.minimize(loss)
            return {"loss": loss}

    for precision in ("float32", "float16"):
        trainer = Drawn(nn.Sequential(nn.Linear(8), nn.BatchNorm(), nn.Linear(1)), precision=precision)
        trainer.fit(Y, epochs=2, progress=False)
        found = trainer.predict(X)
        assert found.shape == (24, 1) and (trainer.predict(X) == found).all(), "predictions must not draw random inputs"
        with pytest.raises(mg.ShapeError, match="must have 2 axes as in earlier batches"):
            trainer.predict(X[None])
        trainer.fit(Y[:5], progress=False)
        assert np.isfinite(trainer.predict(X[:7])).all()
        np.testing.assert_allclose(trainer.optimize_for_inference()(X).numpy(), trainer.predict(X), atol=2e-3)
        trainer.save(tmp_path / precision)
        again = Drawn(nn.Sequential(nn.Linear(8), nn.BatchNorm(), nn.Linear(1)), precision=precision)
        again.load(tmp_path / precision)
        np.testing.assert_array_equal(again.predict(X), trainer.predict(X))
