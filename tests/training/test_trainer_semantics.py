"""Test the semantics of Trainer.

The tests cover metrics that match the loss, frozen layers, reused arrays, states loaded before the first batch, and
ignored labels.
"""

from functools import partial

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import has
from mpsgraph import nn
from mpsgraph.nn import losses

pytestmark = pytest.mark.both_devices

IGNORED = -100
PROBABILITY = [[0.9], [0.4], [0.6], [0.1]]
LOGITS = [[2.0], [-0.1], [0.1], [-4.0]]
HALF_RIGHT = [[1], [1], [0], [0]]


def identity(width):
    """Build a model that returns its input."""
    model = nn.Linear(width, bias=False)
    model.load_state_dict({"weight": np.eye(width, dtype=np.float32)})
    return model


@pytest.mark.parametrize(
    "loss, outputs, labels, right",
    [
        ("cross_entropy", [[1, 2, 0], [3, 0, 0]], [1, 2], 0.5),
        ("nll", [[-1, -2, -9], [-3, -1, -9]], [1, 1], 0.5),
        ("categorical_cross_entropy", [[0.2, 0.8], [0.9, 0.1]], [[1, 0], [1, 0]], 0.5),
        ("binary_cross_entropy", PROBABILITY, HALF_RIGHT, 0.5),
        ("log", PROBABILITY, HALF_RIGHT, 0.5),
        ("binary_cross_entropy_with_logits", LOGITS, HALF_RIGHT, 0.5),
        ("binary_cross_entropy_with_logits", LOGITS, [[1], [0], [1], [1]], 0.75),
        ("multi_label_soft_margin", [[2.0, -1.0], [3.0, 0.2]], [[1, 0], [0, 1]], 0.75),
        ("hinge", LOGITS, [[1], [-1], [-1], [-1]], 0.75),
        ("squared_hinge", LOGITS, [[1], [-1], [-1], [-1]], 0.75),
        ("soft_margin", LOGITS, [[1], [-1], [-1], [1]], 0.5),
        (partial(losses.cross_entropy, ignore_index=IGNORED), [[1, 2], [3, 0], [3, 0]], [1, IGNORED, 1], 0.5),
        (partial(losses.nll, ignore_index=0), [[-1, -2], [-3, -1], [-3, -2]], [0, 1, 1], 1.0),
        (lambda outputs, labels: losses.cross_entropy(outputs, labels), [[1, 2], [3, 0]], [1, 1], 0.5),
    ],
)
def test_accuracy_metric_matches_the_kind_of_loss(loss, outputs, labels, right):
    x = np.array(outputs, np.float32)
    y = np.array(labels, np.float32 if np.ndim(labels) == 2 else np.int32)
    trainer = mg.Trainer(identity(x.shape[1]), loss)
    found = trainer.evaluate((x, y))
    assert found["accuracy"] == right
    step = mg.Trainer(identity(x.shape[1]), loss).train_step(x, y)
    assert step.values == pytest.approx(found, rel=1e-6)


REGRESSION = [
    "mean_squared_error", "mse", "mean_absolute_error", "l1", "huber", "smooth_l1", "log_cosh", "poisson_nll",
    "mean_absolute_percentage_error", "mean_squared_logarithmic_error", "cosine_distance", "hinge_embedding",
]  # fmt: skip


@pytest.mark.parametrize("loss", [*REGRESSION, partial(losses.huber, delta=2.0), "kl_divergence"])
def test_regression_losses_report_no_accuracy(loss):
    x = np.random.default_rng(0).uniform(0.1, 1, (8, 3)).astype(np.float32)
    y = np.ones((8, 1), np.float32)
    trainer = mg.Trainer(nn.Linear(1), loss)
    assert trainer.train_step(x, y).values.keys() == {"loss"} == trainer.evaluate((x, y)).keys()
    if loss != "kl_divergence":
        for metric in ("accuracy", "binary_accuracy"):
            with pytest.raises(mg.GraphError, match=f"'{metric}' does not fit the loss"):
                mg.Trainer(nn.Linear(1), loss, metrics=(metric,))


def test_metrics_incompatible_with_the_loss_raise():
    x = np.zeros((4, 3), np.float32)
    with pytest.raises(mg.ShapeError, match="at least two classes"):
        mg.Trainer(nn.Linear(1)).evaluate((x, np.zeros(4, np.int32)))
    with pytest.raises(mg.GraphError, match="'binary_accuracy' does not fit the loss cross_entropy"):
        mg.Trainer(nn.Linear(2), metrics=("binary_accuracy",))
    g = mg.Graph()
    outputs = g.placeholder((-1, 3))
    for labels in (g.placeholder((-1, 4)), g.placeholder((5, 2), mg.int32), g.placeholder((-1,))):
        with pytest.raises(mg.ShapeError):
            nn.metrics.accuracy(outputs, labels)
    with pytest.raises(mg.ShapeError, match="labels must have the shape of outputs"):
        nn.metrics.binary_accuracy(outputs, g.placeholder((-1,), mg.int32))
    custom = mg.Trainer(nn.Linear(2), lambda o, y: losses.mean_squared_error(o, y))
    assert custom.evaluate((x, np.zeros((4, 2), np.float32))).keys() == {"loss"}


def test_nan_output_counts_as_wrong_in_binary_accuracy():
    g = mg.Graph()
    outputs, labels = g.constant([[np.nan], [np.nan], [1.0]]), g.constant([[0], [1], [1]])
    assert g.run({}, nn.metrics.binary_accuracy(outputs, labels)).item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_metrics_of_half_precision_outputs_use_float32(dtype):
    """The square of 3 - (-300) overflows float16, and 257 is not representable in bfloat16."""
    g = mg.Graph()
    cast = partial(g.cast, dtype=dtype)
    x, y = g.placeholder((-1, 1)), g.placeholder((-1, 1))
    mean = nn.losses.mean_absolute_error(cast(x), cast(y))
    fed = {x: np.full((70_000, 1), 0.5, np.float32), y: np.zeros((70_000, 1), np.float32)}
    assert g.run(fed, g.cast(mean, "float32")).item() == 0.5
    square = nn.losses.mean_squared_error(cast(x), cast(y), reduction="none")
    part = g.cast(g.reduction_sum(square * cast(g.constant(2.0**-6))), "float32")
    assert g.run({x: np.float32([[1000.0]]), y: np.float32([[872.0]])}, part).item() == 256.0  # 128^2 / 2^6


def test_evaluation_weights_batches_by_their_number_of_valid_labels():
    x = np.float32([[1, 0], [1, 0], [1, 0], [1, 0]])
    y = np.int32([0, 1, 1, IGNORED])  # The second batch has a single label that counts.
    trainer = mg.Trainer(identity(2), partial(losses.cross_entropy, ignore_index=IGNORED))
    parts, whole = trainer.evaluate((x, y), batch_size=2), trainer.evaluate((x, y))
    assert parts == pytest.approx(whole, rel=1e-6) and parts["accuracy"] == pytest.approx(1 / 3)
    nothing = trainer.evaluate((x, np.full(4, IGNORED, np.int32)))
    assert nothing == {"loss": 0.0, "accuracy": 0.0}


# --- ignored labels and zero weights
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", [None, "bfloat16", "float16"])
def test_batch_with_only_ignored_labels_changes_no_weights(precision):
    trainer = mg.Trainer(
        nn.Sequential(nn.Linear(4), nn.ReLU(), nn.Linear(3)),
        partial(losses.cross_entropy, ignore_index=IGNORED),
        precision=precision,
    )
    x = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    trainer.evaluate((x, np.zeros(5, np.int32)))
    before = trainer.model.state_dict()
    assert trainer.train_step(x, np.full(5, IGNORED, np.int32)).values["loss"] == 0.0
    after = trainer.model.state_dict()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)
    assert float(trainer.train_step(x, np.int32([0, IGNORED, 1, 2, IGNORED]))) > 0


@pytest.mark.parametrize("dtype", [d for d in ("float32", "float64", "float16", "bfloat16") if has(d)])
def test_losses_with_weights_summing_to_zero_are_zero(dtype):
    g = mg.Graph()
    fed = g.placeholder((3, 2))
    x = g.cast(fed, dtype)
    labels, zeros = g.constant([0, 1, 1]), g.constant([0.0, 0.0], dtype=dtype)
    ones, none = g.constant([[1.0, 0.0]] * 3, dtype=dtype), g.constant([0.0] * 3, dtype=dtype)
    means = [
        losses.cross_entropy(x, labels, class_weights=zeros),
        losses.nll(x, labels, class_weights=zeros),
        losses.nll(x, labels, ignore_index=1, class_weights=g.constant([0.0, 1.0], dtype=dtype)),
        losses.cross_entropy(x, labels, weights=none),
        losses.cross_entropy(x, labels, weights=none, reduction="sum_by_nonzero_weights"),
        losses.mean_squared_error(x, ones, weights=g.expand_dims(none, -1), reduction="sum_by_nonzero_weights"),
        losses.binary_cross_entropy_with_logits(x, ones, weights=g.expand_dims(none, -1)),
    ]
    for mean in means:
        targets = [g.cast(mean, "float32"), g.gradients(mean, [fed])[fed]]
        found = g.run({fed: np.float32([[1, 2], [-3, 5], [0, 0]])}, targets)
        assert all((value.numpy() == 0).all() for value in found.values())


# --- modes ------------------------------------------------------------------------------------------------------------


class Backbone(nn.Sequential):
    """The PyTorch idiom for frozen batch normalization: train() keeps it in inference mode."""

    def train(self, mode=True):
        super().train(mode)
        for _, module in self.named_modules():
            if isinstance(module, nn.BatchNorm):
                module.training = False
        return self


def data_of_norms():
    x = np.random.default_rng(0).normal(5, 3, (64, 4)).astype(np.float32)
    return x, (x[:, 0] > 5).astype(np.int32)


def moving(model):
    return {name: value for name, value in model.state_dict().items() if "moving" in name}


@pytest.mark.parametrize("precision", [None, "bfloat16", "float16"])
def test_frozen_batch_normalization_keeps_its_statistics(precision):
    x, y = data_of_norms()
    model = nn.Sequential(Backbone(nn.Linear(4), nn.BatchNorm()), nn.ReLU(), nn.BatchNorm(), nn.Linear(2))
    trainer = mg.Trainer(model, optimizer=mg.optim.SGD(1e-3), precision=precision)
    before = trainer.evaluate((x, y)) and model.state_dict()
    for _ in range(3):
        trainer.train_step(x, y)
    after = model.state_dict()
    assert all((before[name] == after[name]).all() == name.startswith("0.1") for name in moving(model))
    assert (before["0.1.gamma"] != after["0.1.gamma"]).any(), "gamma must still be trained"


def test_frozen_batch_normalization_uses_its_moving_averages():
    g = mg.Graph()
    model = Backbone(nn.BatchNorm(epsilon=0.0)).train()
    x = g.placeholder((-1, 1))
    y = model(x)
    model.load_state_dict(model.state_dict() | {"0.moving_mean": np.float32([2]), "0.moving_variance": np.float32([4])})
    assert g.run({x: np.float32([[2], [6]])}, y).tolist() == [[0.0], [2.0]]
    assert moving(model)["0.moving_mean"].tolist() == [2.0]


def test_fit_keeps_submodules_in_inference_mode():
    x, y = data_of_norms()
    model = nn.Sequential(nn.BatchNorm(), nn.Linear(4), nn.BatchNorm(), nn.Linear(2))
    model.train()
    model[0].eval()
    trainer = mg.Trainer(model)
    trainer.predict(x)  # predict runs in inference mode but does not change the mode of the model.
    assert model.training is True and model[0].training is False and model[2].training is True
    trainer.fit((x, y), progress=False)
    found = moving(model)
    assert (found["0.moving_mean"] == 0).all() and (found["2.moving_mean"] != 0).any()
    # A model entirely in inference mode is trained as a whole.
    whole = mg.Trainer(nn.Sequential(nn.BatchNorm(), nn.Linear(2)).eval())
    whole.train_step(x, y)
    assert (moving(whole.model)["0.moving_mean"] != 0).all()


def test_train_and_eval_are_called_on_each_submodule():
    asked = []

    class Told(nn.Identity):
        def train(self, mode=True):
            asked.append(mode)
            return super().train(mode)

    model = nn.Sequential(nn.Sequential(Told()), Told())
    model.train()
    model.eval()
    assert asked == [True, True, False, False]


# --- arrays -----------------------------------------------------------------------------------------------------------


def refilled(batches, array=np.asarray):
    """Yield the same two arrays for every batch, refilled each time."""
    x, y = np.zeros_like(batches[0][0]), np.zeros_like(batches[0][1])
    for new_x, new_y in batches:
        x[:], y[:] = new_x, new_y
        yield array(x), array(y)


@pytest.mark.parametrize("array", [np.asarray, mg.asarray], ids=["numpy", "NDArray"])
def test_train_step_uses_array_contents_at_the_time_of_the_call(array):
    rng = np.random.default_rng(0)
    batches = [(rng.normal(size=(256, 64)).astype(np.float32), rng.integers(0, 3, 256)) for _ in range(12)]
    losses_of = []
    for data in (batches, refilled(batches, array), list(batches)):
        trainer = mg.Trainer(nn.Sequential(nn.Linear(256), nn.ReLU(), nn.Linear(3)), metrics=(), seed=1)
        losses_of.append(trainer.fit(data, iterations=12, progress=False).loss)
    assert losses_of[0] == losses_of[1] == losses_of[2]
    trainer = mg.Trainer(nn.Sequential(nn.Linear(256), nn.ReLU(), nn.Linear(3)), metrics=(), seed=1)
    steps = [trainer.train_step(x, y, copy=True) for x, y in refilled(batches, array)]
    assert [float(step) for step in steps] == losses_of[0]


def test_fit_copies_batches_from_iterators_only(monkeypatch):
    x, y = np.zeros((8, 2), np.float32), np.zeros(8, np.int32)
    seen = []
    step = mg.Trainer.train_step
    monkeypatch.setattr(mg.Trainer, "train_step", lambda self, *batch, copy: seen.append(copy) or step(self, *batch))
    own = mg.data.batches((x, y), 4)
    for data, copy in (((x, y), None), (own, None), ([(x, y)], None), (iter([(x, y)]), None), (iter([(x, y)]), False)):
        mg.Trainer(nn.Linear(2)).fit(data, iterations=1, progress=False, copy=copy)
    assert seen == [False, False, False, True, False]


# --- states -----------------------------------------------------------------------------------------------------------


def test_state_can_be_loaded_before_the_first_batch(tmp_path):
    x, y = data_of_norms()
    first = mg.Trainer(nn.Sequential(nn.Linear(8), nn.BatchNorm(), nn.Linear(2)))
    first.fit((x, y), progress=False)
    model = nn.Sequential(nn.Linear(8), nn.BatchNorm(), nn.Linear(2))
    state = first.model.state_dict()
    model.load_state_dict(state)
    for value in state.values():
        value[...] = 0  # The model must have copied the values.
    second = mg.Trainer(model)
    np.testing.assert_array_equal(first.predict(x), second.predict(x))
    for name, value in first.model.state_dict().items():
        np.testing.assert_array_equal(model.state_dict()[name], value)
    for recurrent in (nn.LSTM(2), nn.GRU(2)):
        g = mg.Graph()
        twin = type(recurrent)(2)
        given = g.constant(np.ones((1, 3, 2), np.float32))
        twin.with_state(given)
        recurrent.load_state_dict(twin.state_dict())
        recurrent.with_state(given)
        for name, value in twin.state_dict().items():
            np.testing.assert_array_equal(recurrent.state_dict()[name], value)


def test_mismatched_loaded_state_raises_on_first_call():
    g = mg.Graph()
    x = g.placeholder((-1, 2))
    for state, error in (
        ({"weight": np.zeros((2, 3), np.float32)}, mg.GraphError),
        ({"weight": np.zeros((2, 4), np.float32), "bias": np.zeros(3, np.float32)}, mg.ShapeError),
        ({"weight": np.zeros((2, 3)), "bias": np.zeros(3)}, mg.DTypeError),
    ):
        layer = nn.Linear(3)
        layer.load_state_dict(state)
        with pytest.raises(error):
            layer(x)
