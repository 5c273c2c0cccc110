"""Test mixed precision: the casts of autocast, float32 weights, precision per layer, and loss scaling."""

import re
from collections import defaultdict
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.clock import clock_that_favours
from mpsgraph import _core

pytestmark = pytest.mark.both_devices

PAGE = Path(__file__).resolve().parents[2] / "docs" / "mixed_precision.md"
HALVES = ["bfloat16", "float16"]
ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}


@pytest.fixture(autouse=True)
def policy_is_put_back():
    yield
    mg.mixed_precision.set_global_policy("float32")


def program_text(g, feeds, targets, updates=(), without=()):
    """Return the text of the program after the compiler passes."""
    seen = {}
    options = mg.CompilationDescriptor(
        disabled_passes=list(without), observe=lambda name, text: seen.update({name: text})
    )
    g.compile(feeds, targets, updates, options=options)
    return list(seen.values())[-1]


# --- the table --------------------------------------------------------------------------------------------------------


def test_mixed_precision_page_lists_autocast_rules_of_core():
    rules = defaultdict(set)
    for definition in _core.definitions():
        if not definition["internal"]:
            rules[definition["autocast"]].add(definition["name"])
    stated = {}
    for rule, operations in re.findall(r"^\| \*\*(\w+)\*\* \|[^|]*\| (.*) \|$", PAGE.read_text(), re.MULTILINE):
        stated[rule] = set(re.findall(r"`(\w+)`", operations))
    assert stated.keys() == rules.keys()
    for rule in rules.keys() - {"widest"}:
        assert stated[rule] == rules[rule]
    assert not stated["widest"], "the table must refer to all operations not listed elsewhere"


@pytest.mark.parametrize("low", HALVES)
def test_autocast_uses_expected_dtype_for_each_kind_of_operation(low):
    g, half = mg.Graph(), mg.DType(low)
    x, w = g.placeholder((3, 4)), g.variable(np.ones((4, 4), np.float32))
    h = g.placeholder((3, 4), half)
    with mg.autocast(low):
        assert (x @ w).dtype == half
        assert (h @ w).dtype == half
        assert g.exponent(h).dtype == g.reduction_sum(h).dtype == g.softmax(h).dtype == mg.float32
        assert g.normalization(h, g.mean(h, 0), g.variance(h, axes=0), epsilon=1e-3).dtype == half
        assert (h + x).dtype == mg.float32
        assert (h + h).dtype == g.relu(h).dtype == half
        assert (h + w[0:1]).dtype == mg.float32, "a slice of a variable must count as a tensor"
        assert (h + g.variable(np.ones(4, np.float32))).dtype == half, "variables must adopt the dtype of the tensor"
        assert (h * 0.1).dtype == (0.1 * h).dtype == half, "scalars must adopt the dtype of the tensor"
        assert (x * 0.1).dtype == mg.float32
        state = g.variable(np.zeros((3, 4), np.float32))
        assert g.assign(state, h).inputs[1].dtype == mg.float32
        doubles = g.placeholder((3, 4), "float64")
        assert (doubles * 2.0).dtype == mg.float64
    assert (x @ w).dtype == mg.float32


def test_autocast_scopes_nest_and_restore_the_outer_scope():
    g = mg.Graph()
    x, w = g.placeholder((3, 4)), g.variable(np.ones((4, 4), np.float32))
    with mg.autocast("bfloat16"):
        with mg.autocast(enabled=False):
            assert (x @ w).dtype == mg.float32
        with mg.autocast("float16"):
            assert (x @ w).dtype == mg.float16
        low = x @ w
        assert low.dtype == mg.bfloat16
        with mg.autocast("float32"):
            assert (low @ w).dtype == mg.float32
        with pytest.raises(RuntimeError), mg.autocast("float16"):
            raise RuntimeError
        assert mg.mixed_precision.autocast_dtype() == mg.bfloat16
    assert mg.mixed_precision.autocast_dtype() is None

    @mg.autocast("bfloat16")
    def product():
        return x @ w

    assert product().dtype == mg.bfloat16
    with pytest.raises(mg.DTypeError, match="bfloat16, float16 or float32"):
        mg.autocast("int8")


def test_failed_operation_under_autocast_leaves_no_casts():
    g = mg.Graph()
    x, w = g.placeholder((3, 4)), g.variable(np.ones((5, 4), np.float32))
    before = g.operation_count
    with mg.autocast("bfloat16"), pytest.raises(mg.ShapeError):
        x @ w
    assert g.operation_count == before


def test_autocast_does_not_affect_runs_and_gradients_of_existing_operations():
    g = mg.Graph()
    x, w = g.constant(np.eye(4, dtype=np.float32)), g.variable(np.full((4, 4), 1 + 2**-12, np.float32))
    y = x @ w
    with mg.autocast("bfloat16"):
        slope = g.gradients(g.reduction_sum(y), [w])[w]
        assert g.run({}, y).numpy()[0, 0] == np.float32(1 + 2**-12)
    assert "bfloat16" not in str(slope.operation.inputs)


def test_python_scalars_keep_precision_in_float32_operations():
    g = mg.Graph()
    h = g.placeholder((1,), "float16")
    with mg.autocast("float16"):
        y = g.power(h, 0.1)
    value = g.run({h: np.float16([3])}, y).numpy()
    np.testing.assert_allclose(value, 3**0.1, rtol=1e-6)


# --- values and gradients ---------------------------------------------------------------------------------------------


def smooth_model():
    """Build a model without kinks, where rounding could select a different branch."""
    nn = mg.nn
    return nn.Sequential(
        nn.Conv2d(8, 3, padding="TF_SAME"), nn.BatchNorm(), nn.Tanh(), nn.AvgPool2d(2),
        nn.Conv2d(16, 3, padding="TF_SAME", bias=False), nn.LayerNorm(), nn.GELU(), nn.Flatten(), nn.Linear(10),
    )  # fmt: skip


def gradients_of(low, without=()):
    g, model = mg.Graph(seed=3), smooth_model()
    x, y = g.placeholder((-1, 8, 8, 3)), g.placeholder((-1,), "int32")
    with mg.autocast(low or "bfloat16", enabled=low is not None):
        outputs = model(x)
        loss = mg.nn.losses.cross_entropy(outputs, y)
    assert loss.dtype == mg.float32
    slopes = g.gradients(loss, model.parameters())
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal((16, 8, 8, 3)).astype(np.float32), rng.integers(10, size=16, dtype=np.int32)
    types = {x: images.shape, y: labels.shape}
    options = mg.CompilationDescriptor(disabled_passes=list(without))
    executable = g.compile(types, [loss, *slopes.values()], options=options)
    arrays = executable.run([{x: images, y: labels}[p] for p in executable.feeds])
    assert all(v.dtype == mg.float32 for v in model.parameters() + model.buffers())
    return [a.numpy() for a in arrays]


@pytest.mark.parametrize("without", [(), ("simplify", "fuse", "fuse_elementwise", "fold")])
@pytest.mark.parametrize("low", HALVES)
def test_autocast_gradients_are_within_rounding_error(low, without):
    for exact, near in zip(gradients_of(None), gradients_of(low, without), strict=True):
        assert near.dtype == np.float32
        size = np.linalg.norm(exact)
        if size > 1e-5:  # A bias followed by a normalization has no gradient.
            assert np.linalg.norm(near - exact) < 12 * ROUNDING[low] * size


@pytest.mark.parametrize("low", HALVES)
def test_each_weight_is_cast_once_per_step(low):
    g, model = mg.Graph(), mg.nn.Sequential(mg.nn.Linear(32), mg.nn.ReLU(), mg.nn.Linear(32), mg.nn.ReLU())
    x = g.placeholder((-1, 32))
    with mg.autocast(low):
        loss = g.mean(model(model(x)))  # Each weight is used twice in the forward pass, and again in the backward pass.
    loss = g.reshape(loss, ())
    slopes = g.gradients(loss, model.parameters())
    updates = [g.assign(v, v - 0.1 * d) for v, d in slopes.items()]
    text = program_text(g, {x: (8, 32)}, [loss], updates, without=["fuse_elementwise", "fuse"])
    weights = [v.name for v in model.parameters() if len(v.shape) == 2]
    for name in weights:
        read = re.findall(rf"%(\S+) = read\(%{re.escape(name)}\)", text)
        assert len(read) == 1
        assert len(re.findall(rf"= cast\(%{re.escape(read[0])}\)", text)) == 1
    assert len(re.findall(rf": {low}\[32,32\]", text)) >= len(weights)


def test_upcast_followed_by_downcast_is_removed():
    g = mg.Graph()
    h = g.placeholder((4,), "bfloat16")
    y = g.negative(g.cast(g.cast(h, "float32"), "bfloat16"))
    assert "cast" not in program_text(g, {h: ((4,), "bfloat16")}, [y])
    x = g.placeholder((4,))
    rounded = g.negative(g.cast(g.cast(x, "bfloat16"), "float32"))
    assert "cast" in program_text(g, {x: (4,)}, [rounded])
    assert g.run({x: np.float32([1 + 2**-10] * 4)}, rounded).tolist() == [-1.0] * 4


def test_float16_sum_cast_to_float32_is_not_rounded():
    g = mg.Graph()
    h = g.placeholder((1000,), "float16")
    total = g.cast(g.reduction_sum(h), "float32")
    assert g.run({h: np.full(1000, 66.1, np.float16)}, total).item() == pytest.approx(66.125 * 1000)


def test_bfloat16_dropout_drops_the_given_fraction():
    g = mg.Graph()
    x = g.constant(1.0, (200_000,), "bfloat16")
    values = g.run({}, g.cast(g.dropout(x, 0.3), "float32")).numpy()
    assert (values == 0).mean() == pytest.approx(0.3, abs=0.005)
    assert values.max() == pytest.approx(1 / 0.7, rel=2**-8)


# --- modules and the global policy
# --------------------------------------------------------------------------------------


def test_layers_follow_the_global_precision_policy():
    mg.mixed_precision.set_global_policy("mixed_bfloat16")
    g = mg.Graph()
    x, layer = g.placeholder((-1, 8)), mg.nn.Linear(4)
    assert layer(x).dtype == mg.bfloat16
    assert layer.weight.dtype == mg.float32
    with mg.autocast(enabled=False):
        assert layer(x).dtype == mg.float32
    assert mg.nn.Linear(4)(layer(x)).dtype == mg.bfloat16
    assert mg.nn.losses.mean_squared_error(layer(x), g.placeholder((-1, 4))).dtype == mg.float32
    mg.mixed_precision.set_global_policy("float32")
    assert layer(x).dtype == mg.float32
    with pytest.raises(mg.GraphError, match="mixed_bfloat16"):
        mg.mixed_precision.set_global_policy("bf16")


def test_precision_of_one_layer_overrides_autocast():
    g, model = mg.Graph(), mg.nn.Sequential(mg.nn.Linear(8), mg.nn.Linear(8), mg.nn.Linear(8))
    model[1].precision = "float32"
    with mg.autocast("bfloat16"):
        model(g.placeholder((-1, 8)))
    products = [o.outputs[0].dtype.name for o in g.operations if o.kind == "matrix_multiplication"]
    assert products == ["bfloat16", "float32", "bfloat16"]
    assert all(v.dtype == mg.float32 for v in model.parameters())


LAYERS = {
    "Conv1d": (lambda nn: nn.Conv1d(4, 3), (2, 6, 4)),
    "Conv2d": (lambda nn: nn.Conv2d(4, 3, data_layout="NCHW"), (2, 4, 6, 6)),
    "Conv3d": (lambda nn: nn.Conv3d(4, 3), (2, 4, 4, 4, 4)),
    "ConvTranspose2d": (lambda nn: nn.ConvTranspose2d(4, 3), (2, 4, 4, 4)),
    "BatchNorm": (lambda nn: nn.BatchNorm(), (4, 4)),
    "GroupNorm": (lambda nn: nn.GroupNorm(2), (2, 3, 3, 4)),
    "InstanceNorm": (lambda nn: nn.InstanceNorm(scale=True), (2, 3, 3, 4)),
    "LayerNorm": (lambda nn: nn.LayerNorm(), (2, 4)),
    "RMSNorm": (lambda nn: nn.RMSNorm(), (2, 4)),
    "LSTM": (lambda nn: nn.LSTM(4), (2, 3, 4)),
    "GRU": (lambda nn: nn.GRU(4), (2, 3, 4)),
    "Dropout": (lambda nn: nn.Dropout(0.5), (2, 4)),
    "AvgPool2d": (lambda nn: nn.AvgPool2d(2), (2, 4, 4, 4)),
    "MultiheadAttention": (lambda nn: nn.MultiheadAttention(8, 2), (2, 3, 8)),
    "PReLU": (lambda nn: nn.PReLU(), (2, 4)),
    "Softmax": (lambda nn: nn.Softmax(), (2, 4)),
}


def cotangent(shape):
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("low", HALVES)
def test_layers_under_autocast_keep_float32_weights(name, low):
    make, shape = LAYERS[name]
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    results = []
    for wanted in (None, low):
        g, layer = mg.Graph(seed=1), make(mg.nn)
        x = g.constant(values)
        with mg.autocast(wanted or "float32"):
            y = g.cast(layer(g.cast(x, wanted or "float32")), "float32")
        assert all(v.dtype == mg.float32 for v in layer.parameters() + layer.buffers())
        slopes = g.gradients(g.reduction_sum(y * g.constant(cotangent(y.shape))), [x, *layer.parameters()])
        results.append([g.run({}, t).numpy() for t in (y, *slopes.values())])
    largest = max(np.linalg.norm(exact) for exact in results[0])
    for exact, near in zip(*results, strict=True):
        assert np.linalg.norm(near - exact) <= 12 * ROUNDING[low] * max(np.linalg.norm(exact), largest / 10)


# --- training ---------------------------------------------------------------------------------------------------------


def blobs(count=512, classes=4, features=16):
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((classes, features)) * 2
    labels = rng.integers(classes, size=count, dtype=np.int32)
    return (centres[labels] + rng.standard_normal((count, features))).astype(np.float32), labels


def perceptron():
    return mg.nn.Sequential(mg.nn.Linear(64), mg.nn.ReLU(), mg.nn.Linear(4))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_training_is_as_accurate_as_float32(precision):
    data = blobs()
    losses = {}
    for p in ("float32", precision):
        trainer = mg.Trainer(perceptron(), optimizer=mg.optim.Adam(0.01), precision=p)
        trainer.fit(data, epochs=4, progress=False)
        losses[p] = trainer.evaluate(data)
        assert all(v.dtype != mg.DType(precision) for v in trainer.graph.variables)
        assert trainer.predict(data[0][:8]).dtype == np.float32
    assert losses[precision]["accuracy"] >= losses["float32"]["accuracy"] - 0.02
    assert losses[precision]["loss"] == pytest.approx(losses["float32"]["loss"], rel=0.1, abs=0.01)


def test_trainers_follow_the_global_precision_policy():
    mg.mixed_precision.set_global_policy("mixed_bfloat16")
    assert mg.Trainer(perceptron()).precision == "bfloat16"
    assert mg.Trainer(perceptron(), precision="float32").precision == "float32"
    with pytest.raises(mg.GraphError, match="float32, bfloat16, float16, auto"):
        mg.Trainer(perceptron(), precision="half")


def test_overflowing_step_is_skipped_and_training_recovers():
    x, y = blobs()
    optimizer = mg.optim.LossScaling(mg.optim.Adam(0.01), initial=2.0**15, interval=3)
    trainer = mg.Trainer(perceptron(), optimizer=optimizer, precision="float16")
    steps = [trainer.train_step(x[:64], y[:64]).values for _ in range(2)]
    assert [s["skipped"] for s in steps] == [0, 0] and steps[1]["loss_scale"] == 2.0**15
    before = {v.name: trainer.graph.variable_value(v) for v in trainer.graph.variables}
    # These inputs exceed the float16 range, so activations become infinite.
    huge = trainer.train_step(x[:64] * 3e4, y[:64]).values
    assert huge["skipped"] == 1
    for v in trainer.graph.variables:
        if not v.name.startswith("loss_scale/"):
            np.testing.assert_array_equal(trainer.graph.variable_value(v), before[v.name], v.name)
    after = [trainer.train_step(x[:64], y[:64]).values for _ in range(5)]
    assert [s["loss_scale"] for s in after] == [2.0**14] * 3 + [2.0**15] * 2
    assert not any(s["skipped"] for s in after)
    assert after[-1]["loss"] < steps[0]["loss"]


@pytest.mark.parametrize("factor", [1.0, 1e6], ids=["gradients alone", "activations"])
def test_overflow_leaves_moving_averages_unchanged(factor):
    """At the largest scale the gradients overflow; large inputs also make the batch statistics infinite."""
    x, y = blobs()
    model = mg.nn.Sequential(mg.nn.Linear(64), mg.nn.BatchNorm(), mg.nn.ReLU(), mg.nn.Linear(4))
    optimizer = mg.optim.LossScaling(mg.optim.SGD(0.01), initial=2.0 ** (24 if factor == 1 else 10))
    trainer = mg.Trainer(model, optimizer=optimizer, precision="float16")
    trainer.evaluate((x, y))
    before = model.state_dict()
    assert trainer.train_step(x[:64] * np.float32(factor), y[:64]).values["skipped"] == 1
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name], name)
    while trainer.train_step(x[:64], y[:64]).values["skipped"]:
        pass
    assert (model.state_dict()["1.moving_mean"] != before["1.moving_mean"]).all()
    assert np.isfinite(trainer.evaluate((x, y))["loss"])


class HeadForTraining(mg.nn.Module):
    """A model with a normalization that is called only in training, so that inference does not create its averages."""

    def __init__(self):
        self.body, self.head = mg.nn.Linear(4), mg.nn.BatchNorm()

    def forward(self, x):
        y = self.body(x)
        return self.head(y) if self.training else y


def test_overflow_leaves_averages_of_training_only_layers_unchanged():
    x, y = blobs()
    model = HeadForTraining()
    trainer = mg.Trainer(
        model, optimizer=mg.optim.LossScaling(mg.optim.SGD(0.01), initial=2.0**10), precision="float16"
    )
    trainer.train_step(x[:64], y[:64]).wait()
    before = model.state_dict()
    assert trainer.train_step(x[:64] * np.float32(1e6), y[:64]).values["skipped"] == 1
    assert len(before) == 6
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name], name)


def test_loss_scale_is_saved_in_checkpoints_and_history(tmp_path):
    data = blobs()

    def made():
        optimizer = mg.optim.LossScaling(mg.optim.SGD(0.1), interval=2)
        return mg.Trainer(perceptron(), optimizer=optimizer, precision="float16", metrics=())

    first = made()
    first.fit(data, iterations=5, progress=False)
    assert first.history.steps["loss_scale"] == [2.0**15, 2.0**15, 2.0**16, 2.0**16, 2.0**17]
    first.save(tmp_path / "a.safetensors")
    second = made()
    second.load(tmp_path / "a.safetensors")
    batch = (data[0][:64], data[1][:64])
    assert first.train_step(*batch).values == second.train_step(*batch).values
    with pytest.raises(mg.CheckpointError, match="was trained with precision='float16'"):
        mg.Trainer(perceptron(), metrics=()).load(tmp_path / "a.safetensors")


def test_invalid_loss_scaling_arguments_raise():
    for arguments in ({"initial": 1000.0}, {"growth": 1.0}, {"backoff": 0.3}, {"interval": 0}):
        with pytest.raises(mg.GraphError, match="LossScaling"):
            mg.optim.LossScaling(mg.optim.SGD(0.1), **arguments)


# --- precision by layer -----------------------------------------------------------------------------------------------


class Cancelling(mg.nn.Module):
    """A product whose large terms cancel, so that bfloat16 loses the remaining digits."""

    def build(self, x):
        self.weight = self.add_parameter("weight", x, (x.shape[-1], 256), mg.nn.initialisers.GlorotUniform())

    def forward(self, x):
        g = x.graph
        return (g.concat([x + 1000.0, x * 0 - 1000.0], -1)) @ g.concat([self.weight, self.weight], 0)


def test_auto_precision_picks_the_fastest_dtype_within_the_error_bound(monkeypatch, tmp_path):
    data = blobs()

    def made(**more):
        model = mg.nn.Sequential(mg.nn.Linear(256), mg.nn.ReLU(), Cancelling(), mg.nn.Linear(4))
        return mg.Trainer(model, optimizer=mg.optim.SGD(1e-4), metrics=(), precision="auto", **more)

    clock_that_favours("bfloat16", monkeypatch)
    trainer = made()
    trainer.fit(data, iterations=2, progress=False)
    choices = trainer.precision_choices
    assert {p: c.precision for p, c in choices.items()} == {"0": "bfloat16", "2": "float32", "3": "bfloat16"}
    assert choices["0"].error < 0.02 < choices["2"].error
    assert choices["0"].seconds == {"float32": 2.0, "bfloat16": 1.0}
    trainer.save(tmp_path / "auto.safetensors")

    clock_that_favours("float32", monkeypatch)
    again = made()
    again.load(tmp_path / "auto.safetensors")
    assert again.precision_choices == choices
    batch = (data[0][:64], data[1][:64])
    assert float(again.train_step(*batch)) == float(trainer.train_step(*batch))

    slower = made()
    slower.train_step(*batch).wait()
    assert {c.precision for c in slower.precision_choices.values()} == {"float32"}
    with pytest.raises(mg.CheckpointError, match="layer precisions that differ"):
        slower.load(tmp_path / "auto.safetensors")

    clock_that_favours("bfloat16", monkeypatch)
    strict = made(precision_error=1e-6)
    strict.train_step(*batch).wait()
    assert {c.precision for c in strict.precision_choices.values()} == {"float32"}


class Branches(mg.nn.Module):
    """Two matmuls of one shape on different data, stored in a dictionary, and a third one applied to both inputs."""

    def __init__(self):
        self.branches = {"near": mg.nn.Linear(64, bias=False), "far": mg.nn.Linear(64, bias=False)}
        self.shared = mg.nn.Linear(64, bias=False)

    def forward(self, x):
        near, far = self.branches["near"](x), self.branches["far"](x * 0 + 100.0 + 0.01 * x)
        return self.shared(near) + self.shared(x + 100.0) + far


def test_auto_precision_measures_the_error_of_each_call(monkeypatch):
    """The columns of `far` and `shared` sum to zero, so bfloat16 loses what remains of large inputs."""
    x, y = blobs(features=64)
    model = Branches()
    trainer = mg.Trainer(model, metrics=(), precision="auto")
    trainer.predict(x[:1])
    state = model.state_dict()
    assert set(state) == {"branches.near.weight", "branches.far.weight", "shared.weight"}
    level = {name: w - w.mean(0, keepdims=True) for name, w in state.items() if "near" not in name}
    model.load_state_dict(state | level)
    clock_that_favours("bfloat16", monkeypatch)
    trainer.train_step(x[:64], y[:64]).wait()
    choices = trainer.precision_choices
    assert {p: c.precision for p, c in choices.items()} == {
        "branches.near": "bfloat16",
        "branches.far": "float32",
        "shared": "float32",
    }
    assert choices["branches.near"].error < 0.02 < choices["branches.far"].error
    assert choices["branches.far"].seconds == {"float32": 2.0, "bfloat16": 1.0}
    assert choices["shared"].seconds == {"float32": 4.0, "bfloat16": 2.0}, "times of both calls must be added"
    assert choices["shared"].error > 0.02, "the larger error of the two calls must count"


def test_auto_precision_accepts_float16_and_rejects_empty_batch():
    x, y = blobs()
    trainer = mg.Trainer(perceptron(), precision="auto", dtype="float16")
    with pytest.raises(mg.GraphError, match="first batch, which is empty"):
        trainer.train_step(x[:0].astype(np.float16), y[:0])
    trainer.train_step(x[:64].astype(np.float16), y[:64]).wait()
    assert set(trainer.precision_choices) == {"0", "2"}
    for wrong in (-1, float("nan"), "x"):
        with pytest.raises(mg.GraphError, match="precision_error must be a number of at least 0"):
            mg.Trainer(perceptron(), precision="auto", precision_error=wrong)


def test_auto_precision_without_choices_resumes_from_checkpoint(tmp_path):
    x, y = blobs()
    trainers = [mg.Trainer(mg.nn.LayerNorm(), metrics=(), precision="auto") for _ in range(2)]
    trainers[0].train_step(x[:64], y[:64]).wait()
    assert trainers[0].precision_choices == {}
    trainers[0].save(tmp_path / "auto.safetensors")
    trainers[1].load(tmp_path / "auto.safetensors")
    assert float(trainers[0].train_step(x[:64], y[:64])) == float(trainers[1].train_step(x[:64], y[:64]))


def test_auto_precision_trains_on_this_machine():
    data = blobs()
    model = mg.nn.Sequential(
        mg.nn.Linear(64), mg.nn.BatchNorm(), mg.nn.ReLU(), mg.nn.Linear(64), mg.nn.Dropout(0.1), mg.nn.Linear(4)
    )
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(0.01), precision="auto")
    before = trainer.predict(data[0][:4])
    trainer.fit(data, epochs=3, progress=False)
    assert before.shape == (4, 4)
    assert set(trainer.precision_choices) == {"0", "3", "5"}, "the normalization must not have its own choice"
    assert all(c.error < 0.05 for c in trainer.precision_choices.values())
    assert trainer.evaluate(data)["accuracy"] > 0.9


def test_precision_can_be_set_per_layer():
    trainer = mg.Trainer(perceptron(), precision={"0": "bfloat16"})
    x, y = blobs()
    trainer.train_step(x[:8], y[:8]).wait()
    kinds = [o.outputs[0].dtype.name for o in trainer.graph.operations if o.kind == "matrix_multiplication"]
    assert kinds[:2] == ["bfloat16", "float32"]
    assert trainer.model[0].precision is None, (
        "the model itself must not store the precision, as other trainers may use it"
    )
    with pytest.raises(mg.GraphError, match="precision names layers that the model does not have"):
        mg.Trainer(perceptron(), precision={"7": "bfloat16"})
    with pytest.raises(mg.GraphError, match="must be 'float32' or 'bfloat16'"):
        mg.Trainer(perceptron(), precision={"0": "float16"})
