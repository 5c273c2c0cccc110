"""Test that no state is lost by early stopping with moving averages, rates set by hand, and malformed checkpoints."""

import json
import warnings

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn
from mpsgraph.training import checkpoint
from mpsgraph.training.callbacks import Callback, EarlyStopping

pytestmark = pytest.mark.both_devices

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
Y = X @ np.float32([[1], [-2], [3], [-4]]) + 1


def perceptron(optimizer=None, **options):
    model = nn.Sequential(nn.Linear(6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(1))
    return mg.Trainer(model, "mse", optimizer or mg.optim.Adam(0.05), **options)


def state_of(trainer):
    return {v.name: trainer.graph.variable_value(v) for v in trainer.graph.variables}


# --- moving averages --------------------------------------------------------------------------------------------------


class Records(Callback):
    """Records averages, weights, and values after each epoch; a huge rate spoils the weights after the second epoch."""

    def __init__(self):
        self.averages, self.weights, self.values = [], [], []

    def on_epoch_end(self, trainer, epoch, values):
        with trainer.averaged_weights():
            self.averages.append(trainer.weights())
        self.weights.append(trainer.weights())
        self.values.append(values)
        if epoch == 1:
            trainer.learning_rate = 30.0


@pytest.mark.parametrize("packaged", [False, True])
def test_early_stopping_restores_the_averages_that_it_monitored(tmp_path, packaged):
    trainer = mg.Trainer(nn.Linear(1), "mse", mg.optim.SGD(0.05), ema_decay=0.5)
    trainer.train_step(X, Y).wait()
    if packaged:
        mg.save(tmp_path / "p", trainer)
        trainer = mg.load(tmp_path / "p")
    records = Records()
    stopping = EarlyStopping("val_loss", patience=2)
    trainer.fit([(X, Y)], epochs=9, validation=[(X, Y)], callbacks=[records, stopping], progress=False)
    losses = [values["val_loss"] for values in records.values]
    best = int(np.argmin(losses))
    assert trainer.stopped and best < len(losses) - 1
    np.testing.assert_equal(trainer.weights(), records.averages[best])
    assert trainer.evaluate([(X, Y)])["loss"] == losses[best]
    with trainer.averaged_weights():
        assert trainer.evaluate([(X, Y)])["loss"] == losses[best]


def test_early_stopping_on_training_loss_restores_the_weights_of_its_minimum():
    trainer = mg.Trainer(nn.Linear(1), "mse", mg.optim.SGD(0.05), ema_decay=0.5)
    records = Records()
    trainer.fit([(X, Y)], epochs=9, callbacks=[records, EarlyStopping("loss", patience=2)], progress=False)
    best = int(np.argmin([values["loss"] for values in records.values]))
    np.testing.assert_equal(trainer.weights(), records.weights[best])
    with trainer.averaged_weights():
        np.testing.assert_equal(trainer.weights(), records.averages[best])


@pytest.mark.parametrize("packaged", [False, True])
def test_changes_that_averaged_weights_would_discard_raise(tmp_path, packaged):
    trainer = perceptron(ema_decay=0.5)
    trainer.train_step(X, Y).wait()
    trainer.save(tmp_path / "c.safetensors")
    if packaged:
        mg.save(tmp_path / "p", trainer)
        trainer = mg.load(tmp_path / "p")
    before = trainer.weights()
    operations = {
        "save": lambda: trainer.save(tmp_path / "other"),
        "train_step": lambda: trainer.train_step(X, Y),
        "fit": lambda: trainer.fit([(X, Y)], progress=False),
        "package": lambda: mg.save(tmp_path / "other", trainer),
        "set_weights": lambda: trainer.set_weights(before),
    }
    if not packaged:
        operations["load"] = lambda: trainer.load(tmp_path / "c.safetensors")
    for operation in operations.values():
        with trainer.averaged_weights():
            with pytest.raises(mg.GraphError, match=r"cannot be used within averaged_weights\(\)"):
                operation()
            trainer.evaluate([(X, Y)])
            with trainer.averaged_weights():
                trainer.predict(X)
        np.testing.assert_equal(trainer.weights(), before)
    assert not (tmp_path / "other").exists()
    trainer.train_step(X, Y).wait()


def test_setting_weights_within_averaged_weights_raises_at_the_end_of_the_block():
    trainer = perceptron(ema_decay=0.5)
    trainer.train_step(X, Y).wait()
    before = trainer.weights()
    with pytest.raises(mg.GraphError, match="are lost at its end"), trainer.averaged_weights():
        trainer.model.load_state_dict({path: value + 1 for path, value in before.items()})
    np.testing.assert_equal(trainer.weights(), before)


# --- rates and options set by hand ------------------------------------------------------------------------------------

SCHEDULES = [
    0.125,
    mg.optim.StepRate(0.5, every=3, factor=0.5),
    mg.optim.WarmUp(mg.optim.CosineRate(0.25, steps=10), steps=3),
    mg.optim.OneCycleRate(0.1, 20),
]


@pytest.mark.parametrize("rate", SCHEDULES, ids=lambda rate: type(rate).__name__)
@pytest.mark.parametrize("scaled", [False, True])
def test_checkpoint_contains_learning_rate_set_by_hand(tmp_path, rate, scaled):
    trainer = perceptron(mg.optim.ClipByNorm(mg.optim.SGD(0.1), 10.0))
    trainer.train_step(X, Y).wait()
    trainer.learning_rate = rate
    if scaled:
        trainer.optimizer.scale_learning_rate(0.5)
    trainer.train_step(X, Y).wait()
    trainer.save(tmp_path / "c.safetensors")
    other = perceptron(mg.optim.ClipByNorm(mg.optim.SGD(0.1), 10.0))
    other.load(tmp_path / "c.safetensors")
    for _ in range(4):
        assert other.learning_rate == trainer.learning_rate
        assert float(other.train_step(X, Y)) == float(trainer.train_step(X, Y))
    other.save(tmp_path / "again.safetensors")
    third = perceptron(mg.optim.ClipByNorm(mg.optim.SGD(0.1), 10.0))
    third.load(tmp_path / "again.safetensors")
    assert third.learning_rate == trainer.learning_rate


def test_constructor_rate_applies_if_checkpoint_has_no_rate_set_by_hand(tmp_path):
    trainer = perceptron(mg.optim.SGD(0.1))
    trainer.train_step(X, Y).wait()
    trainer.save(tmp_path / "c.safetensors")
    other = perceptron(mg.optim.SGD(0.01))
    other.load(tmp_path / "c.safetensors")
    assert other.learning_rate == 0.01
    trainer.learning_rate = 0.5
    trainer.load(tmp_path / "c.safetensors")
    assert trainer.learning_rate == pytest.approx(0.1), "loading undoes rates set since"


def test_loading_checkpoint_without_its_rate_function_warns(tmp_path):
    trainer = perceptron()
    trainer.train_step(X, Y).wait()
    trainer.learning_rate = lambda step: 0.5 / (step + 1)
    trainer.save(tmp_path / "c.safetensors")
    with pytest.warns(UserWarning, match=r"set trainer\.learning_rate to it again"):
        perceptron().load(tmp_path / "c.safetensors")
    other = perceptron()
    other.learning_rate = lambda step: 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.load(tmp_path / "c.safetensors")
    assert other.learning_rate == 0.25


@pytest.mark.parametrize("built", [False, True])
def test_checkpoint_contains_options_set_by_hand(tmp_path, built):
    def make():
        return perceptron(mg.optim.ClipByValue(mg.optim.SGD(0.1), 5.0))

    trainer = make()
    trainer.train_step(X, Y).wait()
    trainer.optimizer.optimizer.weight_decay, trainer.optimizer.optimizer.momentum = 0.5, 0.75
    trainer.optimizer.maximum = 0.5
    trainer.train_step(X, Y).wait()
    trainer.save(tmp_path / "c.safetensors")
    other = make()
    if built:
        other.train_step(X, Y).wait()
    other.load(tmp_path / "c.safetensors")
    assert (other.optimizer.maximum, other.optimizer.optimizer.momentum) == (0.5, 0.75)
    assert float(other.train_step(X, Y)) == float(trainer.train_step(X, Y))
    np.testing.assert_equal(other.weights(), trainer.weights())


@pytest.mark.parametrize("frozen_before_loading", [False, True])
def test_states_of_frozen_layers_survive_a_checkpoint(tmp_path, frozen_before_loading):
    def make():
        return perceptron(mg.optim.SGD(0.05, momentum=0.9), ema_decay=0.5)

    trainer = make()
    for _ in range(2):
        trainer.train_step(X, Y).wait()
    trainer.model[0].freeze()
    trainer.train_step(X, Y).wait()
    trainer.save(tmp_path / "c.safetensors")
    other = make()
    if frozen_before_loading:
        other.model[0].freeze()
    other.load(tmp_path / "c.safetensors")
    other.save(tmp_path / "again.safetensors")
    other = make()
    if frozen_before_loading:
        other.model[0].freeze()
    other.load(tmp_path / "again.safetensors")
    for each in (trainer, other):
        each.model[0].unfreeze()
    for _ in range(2):
        assert float(other.train_step(X, Y)) == float(trainer.train_step(X, Y))
    np.testing.assert_equal(other.weights(), trainer.weights())


@pytest.mark.parametrize("frozen_before_loading", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_gradient_sums_of_layers_frozen_while_accumulating_survive_a_checkpoint(tmp_path, steps, frozen_before_loading):
    """They are part of the next update if the layer is unfrozen before it; the next update resets them."""

    def make(path=None):
        trainer = mg.Trainer(
            nn.Sequential(nn.Linear(6), nn.Tanh(), nn.Linear(1)),
            "mse",
            mg.optim.SGD(0.05, momentum=0.9),
            gradient_accumulation_steps=3,
            seed=0,
        )
        if path is not None:
            if frozen_before_loading:
                trainer.model[0].freeze()
            trainer.load(path)
            trainer.model[0].freeze()
        return trainer

    trainer, path = make(), tmp_path / "c.safetensors"
    for _ in range(4):
        trainer.train_step(X, Y).wait()
    trainer.model[0].freeze()
    trainer.save(path)
    other = make(path)
    for each in (trainer, other):
        for _ in range(steps):
            each.train_step(X, Y).wait()
    other.save(path)
    third = make(path)
    for each in (trainer, other, third):
        each.model[0].unfreeze()
        for _ in range(4):
            each.train_step(X, Y).wait()
    np.testing.assert_equal(other.weights(), trainer.weights())
    np.testing.assert_equal(third.weights(), trainer.weights())


def test_checkpoint_contains_the_replacement_optimizer(tmp_path):
    trainer = perceptron(mg.optim.SGD(0.05, momentum=0.9))
    trainer.train_step(X, Y).wait()
    trainer.optimizer = mg.optim.Adam(0.01)
    trainer.train_step(X, Y).wait()
    trainer.save(tmp_path / "c.safetensors")
    other = perceptron(mg.optim.Adam(0.01))
    other.load(tmp_path / "c.safetensors")
    assert float(other.train_step(X, Y)) == float(trainer.train_step(X, Y))
    np.testing.assert_equal(other.weights(), trainer.weights())
    with pytest.raises(mg.CheckpointError, match="another model or optimizer"):
        perceptron(mg.optim.SGD(0.05, momentum=0.9)).load(tmp_path / "c.safetensors")


# --- malformed checkpoints --------------------------------------------------------------------------------------------

DAMAGE = {
    "step is not a number": {"step": "many"},
    "step is negative": {"step": "-1"},
    "forms are cut": {"forms": '[{"inputs": {"structure": 0'},
    "forms are a number": {"forms": "3"},
    "forms without dtypes": {"forms": '[{"inputs": {"structure": 0, "shapes": [[-1, 4]]}}]'},
    "forms of another model": {
        "forms": json.dumps(
            [
                {
                    "inputs": {"structure": 0, "dtypes": ["float32"], "shapes": [[-1, 9]]},
                    "labels": {"structure": 0, "dtypes": ["float32"], "shapes": [[-1, 1]]},
                }
            ]
        )
    },
    "data is a list": {"data": "[1]"},
    "data is cut": {"data": "{"},
    "history is a list": {"history": "[]"},
    "history without numbers": {"history": '{"steps": 3}'},
    "validations are no pairs": {"history": '{"validation": [1]}'},
    "fit is a list": {"fit": "[]"},
    "fit refers to a missing array": {"fit": '{"epoch": {"array of the checkpoint": "fit/none"}}'},
    "fit has half an epoch": {"fit": '{"epoch": {"sums": {}}}'},
    "callbacks without states": {"fit": '{"callbacks": [{"kind": "EarlyStopping"}]}'},
    "optimizers are a dict": {"optimizers": "{}"},
    "optimizers with invalid factors": {"optimizers": '[{"kind": "Adam", "options": {}, "factors": ["x"]}]'},
    "optimizers with an unknown schedule": {
        "optimizers": '[{"kind": "Adam", "options": {}, "factors": [], "rate": {"schedule": "Other"}}]'
    },
    "optimizers with invalid options": {"optimizers": '[{"kind": "Adam", "options": {"beta1": 7}, "factors": []}]'},
    "another optimizer": {"optimizer": "SGD"},
    "another precision": {"precision": "bfloat16"},
    "precision choices are a list": {"precision_choices": "[1]"},
    "dormant is a number": {"dormant": "1"},
}


def damaged(path, target, metadata=None, edit=None):
    tensors, known = checkpoint.load(path)
    tensors = dict(tensors)
    if edit:
        edit(tensors)
    checkpoint.save(target, tensors, {**known, **(metadata or {})})


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("name", DAMAGE)
def test_malformed_checkpoint_changes_nothing(tmp_path, name, built):
    _require_refused(tmp_path, built, DAMAGE[name], None)


EDITS = {
    "a shape differs": lambda t: t.update({"3.weight": t["3.weight"][:-1]}),
    "a dtype differs": lambda t: t.update({"3.weight": t["3.weight"].astype(np.float64)}),
    "a variable is missing": lambda t: t.pop("3.weight"),
    "a state is missing": lambda t: t.pop(next(name for name in t if name.startswith("3.weight/"))),
    "a variable is unexpected": lambda t: t.update(other=np.zeros(1, np.float32)),
}


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("name", EDITS)
def test_checkpoint_of_another_model_changes_nothing(tmp_path, name, built):
    _require_refused(tmp_path, built, None, EDITS[name])


def _require_refused(tmp_path, built, metadata, edit):
    trainer = perceptron(ema_decay=0.5)
    for _ in range(3):
        trainer.train_step(X, Y).wait()
    trainer.save(tmp_path / "good.safetensors")
    damaged(tmp_path / "good.safetensors", tmp_path / "bad.safetensors", metadata, edit)
    victim, witness = perceptron(ema_decay=0.5, seed=1), perceptron(ema_decay=0.5, seed=1)
    if built:
        for each in (victim, witness):
            each.fit([(X, Y)], epochs=2, progress=False)
    with pytest.raises(mg.CheckpointError):
        victim.load(tmp_path / "bad.safetensors")
    assert victim.step == witness.step and victim.history.loss == witness.history.loss
    assert victim.learning_rate == witness.learning_rate and repr(victim.optimizer) == repr(witness.optimizer)
    if built:
        np.testing.assert_equal(victim.weights(), witness.weights())
    for _ in range(2):  # Training continues, or begins, as if nothing had been loaded.
        assert float(victim.train_step(X, Y)) == float(witness.train_step(X, Y))
    np.testing.assert_equal(victim.weights(), witness.weights())
    victim.save(tmp_path / "after.safetensors")
    witness.load(tmp_path / "after.safetensors")
    victim.load(tmp_path / "good.safetensors")
    assert float(victim.train_step(X, Y)) == float(trainer.train_step(X, Y))
