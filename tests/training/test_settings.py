"""Test that settings changed after the first batch take effect at the next step or raise, and are in checkpoints."""

import warnings

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

pytestmark = pytest.mark.both_devices

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
Y = X @ np.float32([[1], [-2], [3], [-4]]) + 1


def linear(optimizer=None, **options):
    return mg.Trainer(nn.Linear(1), "mse", optimizer or mg.optim.SGD(0.1), **options)


def step(trainer, x=X, y=Y):
    """Make a step. Return the weights before and after it, and the gradients of a linear model, in float64."""
    before = {path: value.astype(np.float64) for path, value in trainer.weights().items()}
    float(trainer.train_step(x, y))
    after = {path: value.astype(np.float64) for path, value in trainer.weights().items()}
    slope = 2 * (x @ before["weight"] + before["bias"] - y) / len(x)
    return before, after, {"weight": x.T @ slope, "bias": slope.sum(0)}


def trained(*arguments, **options):
    trainer = linear(*arguments, **options)
    for _ in range(3):
        float(trainer.train_step(X, Y))
    return trainer


def changed_by_a_step(trainer):
    before = trainer.weights()
    float(trainer.train_step(X, Y))
    return [path for path, value in trainer.weights().items() if (value != before[path]).any()]


# --- optimizers -------------------------------------------------------------------------------------------------------


def test_weight_decay_set_after_the_first_batch_takes_effect():
    trainer = trained(mg.optim.SGD(0.1, weight_decay=0.5))
    for decay in (0.0, 0.25, 0.5):
        trainer.optimizer.weight_decay = decay
        before, after, slope = step(trainer)
        for path in before:
            expected = before[path] - 0.1 * (slope[path] + decay * before[path])
            np.testing.assert_allclose(after[path], expected, rtol=1e-5, atol=1e-6)


def test_momentum_set_after_the_first_batch_keeps_the_velocity():
    trainer = trained(mg.optim.SGD(0.1, momentum=0.9))
    before, middle, first = step(trainer)
    velocity = {path: (before[path] - middle[path]) / 0.1 for path in before}
    trainer.optimizer.momentum = 0.5
    before, after, slope = step(trainer)
    for path in before:
        expected = before[path] - 0.1 * (0.5 * velocity[path] + slope[path])
        np.testing.assert_allclose(after[path], expected, rtol=1e-4, atol=1e-5)


def test_a_replaced_optimizer_takes_effect():
    trainer = trained()
    trainer.optimizer = mg.optim.SGD(0.01, weight_decay=1.0)
    before, after, slope = step(trainer)
    for path in before:
        np.testing.assert_allclose(after[path], before[path] * 0.99 - 0.01 * slope[path], rtol=1e-5, atol=1e-6)
    with pytest.raises(mg.GraphError, match=r"Trainer\.optimizer must be an optimizer"):
        trainer.optimizer = 3


def test_an_option_inside_wrappers_and_groups_takes_effect():
    inner = mg.optim.ParameterGroups(mg.optim.SGD(0.1), {"bias": {"learning_rate": 0.2}})
    clip = mg.optim.ClipByNorm(inner, 1e6)
    trainer = trained(clip)
    inner.groups["bias"].weight_decay = 2.0
    before, after, slope = step(trainer)
    expected = before["bias"] - 0.2 * (slope["bias"] + 2.0 * before["bias"])
    np.testing.assert_allclose(after["bias"], expected, rtol=1e-5)
    clip.maximum = 0.5
    before, after, slope = step(trainer)
    norm = np.sqrt(sum((s**2).sum() for s in slope.values()))
    np.testing.assert_allclose(after["weight"], before["weight"] - 0.1 * slope["weight"] * 0.5 / norm, rtol=1e-4)
    inner.groups["bias"] = None
    assert changed_by_a_step(trainer) == ["weight"]
    inner.groups["bias"] = {"learning_rate": 0.3}
    clip.maximum = 1e6
    before, after, slope = step(trainer)
    np.testing.assert_allclose(after["bias"], before["bias"] - 0.3 * slope["bias"], rtol=1e-5)


def test_aliases_of_options_can_be_set():
    optimizer = mg.optim.Adam(1e-3)
    optimizer.lr, optimizer.betas, optimizer.eps = 0.5, (0.8, 0.9), 1e-6
    assert float(optimizer.learning_rate) == 0.5
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (0.8, 0.9, 1e-6)
    with pytest.raises(mg.GraphError, match="betas must be a tuple of 2 numbers"):
        optimizer.betas = 0.9


@pytest.mark.parametrize(("name", "value"), [("momentum", 1.0), ("weight_decay", -1), ("nesterov", "yes"), ("lr", -1)])
def test_invalid_options_raise_when_they_are_set(name, value):
    trainer = trained(mg.optim.SGD(0.1, momentum=0.5))
    with pytest.raises(mg.GraphError):
        setattr(trainer.optimizer, name, value)
    assert trainer.optimizer.momentum == 0.5
    float(trainer.train_step(X, Y))


def test_options_that_initialize_states_cannot_change_after_the_first_batch():
    optimizer = mg.optim.Adagrad(0.1)
    optimizer.initial_sum = 0.5
    trainer = trained(optimizer)
    with pytest.raises(mg.GraphError, match="initial_sum cannot be changed"):
        trainer.optimizer.initial_sum = 0.1


def test_a_replaced_optimizer_keeps_accumulated_gradients():
    trainer = linear(gradient_accumulation_steps=2)
    float(trainer.train_step(X[:4], Y[:4]))
    before = trainer.weights()
    trainer.optimizer = mg.optim.SGD(0.5)
    float(trainer.train_step(X[4:], Y[4:]))
    other = linear(mg.optim.SGD(0.5))
    other.evaluate(X, Y)
    other.set_weights(before)
    float(other.train_step(X, Y))
    for path, value in trainer.weights().items():
        np.testing.assert_allclose(value, other.weights()[path], rtol=1e-5)


# --- freezing and modules ---------------------------------------------------------------------------------------------


def perceptron(**options):
    model = nn.Sequential(nn.Linear(6), nn.Tanh(), nn.Dropout(0.0), nn.Linear(1))
    trainer = mg.Trainer(model, "mse", mg.optim.SGD(0.05, momentum=0.9), **options)
    float(trainer.train_step(X, Y))
    return trainer, model


@pytest.mark.parametrize("unlike", [False, True])
def test_freeze_and_unfreeze_take_effect_at_the_next_step(unlike):
    trainer, model = perceptron()
    if unlike:
        trainer.train_step(X[:5], Y[:5]).wait()
    both, last = ["0.weight", "0.bias", "3.weight", "3.bias"], ["3.weight", "3.bias"]
    for _ in range(3):
        model[0].freeze()
        assert changed_by_a_step(trainer) == last
        model[0].unfreeze()
        assert changed_by_a_step(trainer) == both
    operations = trainer.graph.operation_count
    model[0].freeze()
    assert changed_by_a_step(trainer) == last
    assert trainer.graph.operation_count == operations, "settings used before must not be built again"


def test_freezing_everything_raises_until_a_layer_is_unfrozen():
    trainer, model = perceptron()
    model.freeze()
    for _ in range(2):
        with pytest.raises(mg.GraphError, match="nothing to train"):
            trainer.train_step(X, Y)
    model[3].unfreeze()
    assert changed_by_a_step(trainer) == ["3.weight", "3.bias"]


def test_attributes_of_layers_take_effect():
    trainer, model = perceptron()
    model[2].rate = 0.999
    assert float(trainer.train_step(X, Y)) != pytest.approx(trainer.evaluate(X, Y)["loss"], rel=1e-3)
    with pytest.raises(mg.GraphError, match="rate must be a number from 0"):
        model[2].rate = 1.5
    model[2].rate = 0.0
    expected = trainer.evaluate(X, Y)["loss"]
    assert float(trainer.train_step(X, Y)) == pytest.approx(expected, rel=1e-5)


def test_attributes_of_other_objects_in_a_module_take_effect():
    class Settings:
        scale = 1.0

        def __init__(self):
            self.factors = [1.0]

    class Scaled(nn.Module):
        def __init__(self):
            self.layer, self.config, self.table = nn.Linear(1), Settings(), np.ones(1, np.float32)

        def forward(self, x):
            g = x.graph
            return self.layer(x) * (self.config.scale * self.config.factors[0]) * g.constant(self.table)

    model = Scaled()
    trainer = mg.Trainer(model, "mse")
    before = trainer.predict(X)
    model.config.scale = 2.0
    np.testing.assert_allclose(trainer.predict(X), 2 * before, rtol=1e-6)
    model.config.factors[0] = 3.0
    np.testing.assert_allclose(trainer.predict(X), 6 * before, rtol=1e-6)
    model.table[0] = -1.0
    np.testing.assert_allclose(trainer.predict(X), -6 * before, rtol=1e-6)


def test_a_layer_in_inference_mode_takes_effect():
    model = nn.Sequential(nn.BatchNorm(), nn.Linear(1))
    trainer = mg.Trainer(model, "mse")
    float(trainer.train_step(X, Y))
    model[0].eval()
    before = trainer.weights()["0.moving_mean"]
    float(trainer.train_step(X, Y))
    np.testing.assert_array_equal(trainer.weights()["0.moving_mean"], before)
    model[0].train()
    float(trainer.train_step(X, Y))
    assert (trainer.weights()["0.moving_mean"] != before).any()


def test_switching_the_mode_of_the_whole_model_adds_no_operations():
    trainer, model = perceptron()
    trainer.predict(X)
    operations = trainer.graph.operation_count
    for _ in range(3):
        model.eval()
        trainer.predict(X)
        model.train()
        float(trainer.train_step(X, Y))
    assert trainer.graph.operation_count == operations


def test_replaced_and_added_layers_are_used_trained_and_saved(tmp_path):
    trainer, model = perceptron()
    old = model[0]
    model.layers[0], model.layers[1] = nn.Linear(6), nn.ReLU()
    model.layers.append(nn.Linear(1))
    kept = old.state_dict()
    assert len(changed_by_a_step(trainer)) == 6
    np.testing.assert_equal(old.state_dict(), kept)
    trainer.save(tmp_path / "c.safetensors")
    new = nn.Sequential(nn.Linear(6), nn.ReLU(), nn.Dropout(0.0), nn.Linear(1), nn.Linear(1))
    other = mg.Trainer(new, "mse", mg.optim.SGD(0.05, momentum=0.9))
    other.load(tmp_path / "c.safetensors")
    assert float(other.train_step(X, Y)) == float(trainer.train_step(X, Y))
    np.testing.assert_equal(other.weights(), trainer.weights())


def test_tied_parameters_are_shared_from_the_next_step_on():
    model = nn.Sequential(nn.Linear(4), nn.Linear(4))
    trainer = mg.Trainer(model, "mse")
    target = np.repeat(Y, 4, 1)
    trainer.train_step(X, target).wait()
    model[1].weight = model[0].weight
    trainer.train_step(X, target).wait()
    weights = trainer.weights()
    assert list(weights) == ["0.weight", "0.bias", "1.bias"]
    outputs = X @ weights["0.weight"] + weights["0.bias"]
    expected = outputs @ weights["0.weight"] + weights["1.bias"]
    np.testing.assert_allclose(trainer.predict(X), expected, rtol=1e-4, atol=1e-5)


def test_attributes_that_variables_were_created_from_cannot_change():
    trainer, model = perceptron()
    with pytest.raises(mg.GraphError, match=r"Linear\.out_features cannot be changed"):
        model[0].out_features = 7
    model[0].out_features = 6  # Setting the same value again is not a change.

    class Sized(nn.Module):
        def __init__(self):
            self.size = 3

        def build(self, x):
            self.w = self.add_parameter("w", x, (x.shape[-1], self.size), nn.initialisers.ones)

        def forward(self, x):
            return x @ self.w

    own = Sized()
    own.size = 5
    own(mg.Graph().placeholder((-1, 4)))
    assert own.state_dict()["w"].shape == (4, 5)
    with pytest.raises(mg.GraphError, match=r"Sized\.size cannot be changed"):
        own.size = 3


def test_changed_attributes_without_effect_rebuild_the_step_at_most_once():
    trainer, model = perceptron()
    model.notes = []
    counts = set()
    for i in range(5):
        model.notes.append(i)
        float(trainer.train_step(X, Y))
        counts.add(trainer.graph.operation_count)
    assert len(counts) <= 3, "a list that the program appends to must not build the step again and again"


def test_attributes_assigned_in_forward_are_not_settings():
    class Remembers(nn.Module):
        def __init__(self):
            self.layer, self.calls, self.last = nn.Linear(1), 0, None

        def forward(self, x):
            self.calls += 1
            self.last = self.layer(x)
            return self.last

    trainer = mg.Trainer(Remembers(), "mse")
    trainer.train_step(X, Y).wait()
    trainer.predict(X)
    operations = trainer.graph.operation_count
    for _ in range(3):
        trainer.train_step(X, Y).wait()
        trainer.predict(X)
    assert trainer.graph.operation_count == operations


def test_a_setting_that_changes_at_each_step_warns():
    trainer, _ = perceptron()
    with pytest.warns(UserWarning, match=r"SGD\.weight_decay.*pass values that change at each step as inputs"):
        for i in range(40):
            trainer.optimizer.weight_decay = i * 1e-3
            float(trainer.train_step(X, Y))


# --- the trainer ------------------------------------------------------------------------------------------------------


def test_loss_metrics_and_loss_weights_take_effect():
    trainer = trained()
    trainer.loss = "l1"
    assert float(trainer.train_step(X, Y)) == pytest.approx(np.abs(trainer.predict(X) - Y).mean(), rel=0.2)
    outputs = trainer.predict(X)
    assert trainer.evaluate(X, Y)["loss"] == pytest.approx(np.abs(outputs - Y).mean(), rel=1e-5)
    trainer.metrics = ["mean_squared_error", nn.metrics.R2()]
    assert trainer.evaluate(X, Y).keys() == {"loss", "mean_squared_error", "r2"}
    assert trainer.train_step(X, Y).values.keys() == {"loss", "mean_squared_error"}
    with pytest.raises(mg.GraphError, match="assign a new list of metrics"):
        trainer.metrics["other"] = print
    trainer.loss_weights = {"": 3.0}
    assert trainer.evaluate(X, Y)["loss"] == pytest.approx(3 * np.abs(trainer.predict(X) - Y).mean(), rel=1e-5)
    trainer.loss_weights[""] = 5.0
    assert trainer.evaluate(X, Y)["loss"] == pytest.approx(5 * np.abs(trainer.predict(X) - Y).mean(), rel=1e-5)
    for name, value in (("loss", "none"), ("metrics", ["none"]), ("metrics", 3), ("loss_weights", 3)):
        with pytest.raises(mg.GraphError):
            setattr(trainer, name, value)


def test_ema_decay_takes_effect():
    trainer = trained(ema_decay=0.5)
    trainer.ema_decay = 0.75
    with trainer.averaged_weights():
        average = trainer.weights()
    float(trainer.train_step(X, Y))
    now = trainer.weights()
    with trainer.averaged_weights():
        for path, value in trainer.weights().items():
            np.testing.assert_allclose(value, 0.75 * average[path] + 0.25 * now[path], rtol=1e-5)
    trainer.ema_decay = None
    with pytest.raises(mg.GraphError, match="no averaged weights"), trainer.averaged_weights():
        pass
    trainer.ema_decay = 0.5
    float(trainer.train_step(X, Y))
    with trainer.averaged_weights():
        first = trainer.weights()
    np.testing.assert_equal(first, trainer.weights(), "new averages start at the weights")


def test_averages_of_frozen_layers_approach_their_weights():
    trainer, model = perceptron(ema_decay=0.5)
    float(trainer.train_step(X, Y))
    model[0].freeze()
    for _ in range(30):
        float(trainer.train_step(X, Y))
    weights = trainer.weights()
    with trainer.averaged_weights():
        np.testing.assert_allclose(trainer.weights()["0.weight"], weights["0.weight"], rtol=1e-5)


def frozen_from_the_start():
    model = nn.Sequential(nn.Linear(6), nn.Tanh(), nn.Linear(1))
    model[0].freeze()
    trainer = mg.Trainer(model, "mse", mg.optim.SGD(0.05), ema_decay=0.5)
    float(trainer.train_step(X, Y))
    return trainer, model


def weight_and_average(trainer):
    now = trainer.weights()["0.weight"]
    with trainer.averaged_weights():
        return now, trainer.weights()["0.weight"]


def test_average_of_a_layer_that_is_frozen_again_approaches_its_weights():
    """The step that was built while the layer was frozen for the first time knew no average of it."""
    trainer, model = frozen_from_the_start()
    model[0].unfreeze()
    for _ in range(2):
        float(trainer.train_step(X, Y))
    model[0].freeze()
    weight, before = weight_and_average(trainer)
    float(trainer.train_step(X, Y))
    np.testing.assert_allclose(weight_and_average(trainer)[1], (weight + before) / 2, rtol=1e-6)
    assert np.abs(weight - before).max() > 1e-6


def test_checkpoint_saved_before_an_average_began_loads_after_it_has(tmp_path):
    trainer, model = frozen_from_the_start()
    trainer.save(tmp_path / "saved.safetensors")
    saved = trainer.weights()["0.weight"]
    model[0].unfreeze()
    for _ in range(2):
        float(trainer.train_step(X, Y))
    trainer.load(tmp_path / "saved.safetensors")
    np.testing.assert_array_equal(weight_and_average(trainer), [saved, saved])
    float(trainer.train_step(X, Y))
    weight, average = weight_and_average(trainer)
    np.testing.assert_array_equal(average, weight)
    assert np.abs(weight - saved).max() > 1e-6


def test_check_finite_takes_effect():
    trainer = trained()
    trainer.check_finite = True
    with pytest.raises(mg.CheckError):
        trainer.train_step(X * np.float32(np.nan), Y)
    trainer.check_finite = False
    assert np.isnan(float(trainer.train_step(X * np.float32(np.nan), Y)))


def test_attributes_of_a_trainer_subclass_take_effect():
    class Penalized(mg.Trainer):
        factor = 1.0

        def training_step(self, inputs, labels, weights=None):
            results = self.results(self.forward(inputs), labels, weights)
            self.minimize(results["loss"])
            return {"loss": results["loss"] * self.factor}

    trainer = Penalized(nn.Linear(1), "mse", mg.optim.SGD(0.0))
    first = float(trainer.train_step(X, Y))
    trainer.factor = 2.0
    assert float(trainer.train_step(X, Y)) == pytest.approx(2 * first)


@pytest.mark.parametrize(
    "name", ["model", "graph", "network", "objective", "seed", "dtype", "engine", "distributed", "precision",
             "precision_error", "precision_choices"],
)  # fmt: skip
def test_assigning_constructor_only_options_raises(name):
    trainer = trained()
    with pytest.raises(mg.GraphError, match=f"{name} cannot be changed: create a new Trainer"):
        setattr(trainer, name, "other")
    float(trainer.train_step(X, Y))


def test_accumulation_can_change_only_before_the_first_batch():
    trainer = linear()
    trainer.gradient_accumulation_steps = 2
    before = None
    trainer.train_step(X[:4], Y[:4]).wait()
    before = trainer.weights()
    trainer.train_step(X[4:], Y[4:]).wait()
    assert trainer.accumulation == 2 and any((v != before[p]).any() for p, v in trainer.weights().items())
    with pytest.raises(mg.GraphError, match="after the first batch"):
        trainer.accumulation = 4
    with pytest.raises(mg.GraphError, match="at least 1"):
        trainer.gradient_accumulation_steps = 0


def test_package_contains_the_current_settings(tmp_path):
    trainer = trained(mg.optim.SGD(0.1, weight_decay=1.0))
    trainer.optimizer.weight_decay = 0.0
    mg.save(tmp_path / "p", trainer)
    package = mg.load(tmp_path / "p")
    assert float(package.train_step(X, Y)) == float(trainer.train_step(X, Y))
    np.testing.assert_equal(package.weights(), trainer.weights())


# --- sizes and metrics of evaluations ---------------------------------------------------------------------------------


def test_more_batch_sizes_than_cached_programs_warn_once():
    trainer = linear()
    trainer.graph.set_cache_limits(40, 1 << 30)
    x, y = np.zeros((64, 4), np.float32), np.zeros((64, 1), np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in range(1, 61):
            trainer.train_step(x[:size], y[:size]).wait()
    messages = [str(each.message) for each in caught]
    assert len(messages) == 1 and "more than 40 different sizes" in messages[0] and "bucketed" in messages[0]


def test_too_many_prediction_batch_sizes_warn():
    trainer = linear()
    trainer.graph.set_cache_limits(33, 1 << 30)
    x = np.zeros((64, 4), np.float32)
    with pytest.warns(UserWarning, match="more than 33 different sizes"):
        for size in range(1, 36):
            trainer.predict(x[:size])


def test_custom_metrics_of_evaluations_are_compiled_once():
    trainer = linear()

    def evaluate(power):
        metrics = ["mean_squared_error", nn.metrics.R2(), lambda o, t: nn.losses.mean_of_all((o - t) ** power)]
        return trainer.evaluate(X, Y, metrics=metrics)

    first = evaluate(2)
    operations, compiles = trainer.graph.operation_count, trainer.graph.cache.compiles
    for _ in range(3):
        assert evaluate(2) == first
    assert (trainer.graph.operation_count, trainer.graph.cache.compiles) == (operations, compiles)
    other = [value for name, value in evaluate(4).items() if name not in first or value != first[name]]
    assert other, "a different closure is a different metric"
