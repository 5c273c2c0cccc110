"""Test that variables and modules in attributes are trained, saved, loaded, and exported, or else rejected."""

import copy

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

pytestmark = pytest.mark.both_devices

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
Y = X[:, :1]


class Scaled(nn.Module):
    """A module that creates its variables without add_parameter."""

    def build(self, x):
        g = x.graph
        self.w = g.variable(np.ones((4, 1), np.float32))
        self.more = {"bias": [g.variable(np.zeros(1, np.float32)), g.variable(np.float32([3]), trainable=False)]}

    def forward(self, x):
        return x @ self.w + self.more["bias"][0] + self.more["bias"][1]


def test_variables_in_attributes_are_trained_and_saved(tmp_path):
    model = Scaled()
    trainer = mg.Trainer(model, "mse", mg.optim.SGD(0.1))
    before = trainer.evaluate(X, Y) and trainer.weights()
    assert list(before) == ["w", "more.bias.0", "more.bias.1"]
    slope = 2 * (X @ np.ones((4, 1)) + 3 - Y) / len(X)  # Derivative of the loss with respect to the outputs.
    trainer.fit([(X, Y)], progress=False)
    after = model.state_dict()
    np.testing.assert_allclose(after["w"], before["w"] - 0.1 * X.T @ slope, rtol=1e-5)
    np.testing.assert_allclose(after["more.bias.0"], -0.1 * slope.sum(0), rtol=1e-5)
    assert after["more.bias.1"] == 3
    trainer.save(tmp_path / "c.safetensors")
    other = mg.Trainer(Scaled(), "mse", mg.optim.SGD(0.1))
    other.load(tmp_path / "c.safetensors")
    np.testing.assert_equal(other.weights(), after)
    np.testing.assert_equal(copy.deepcopy(model).state_dict(), after)


def test_frozen_modules_freeze_variables_in_attributes():
    model = nn.Sequential(nn.Linear(4), Scaled().freeze())
    trainer = mg.Trainer(model, "mse")
    before = trainer.evaluate(X, Y) and trainer.weights()
    trainer.fit([(X, Y)], progress=False)
    changed = [path for path, value in trainer.weights().items() if (value != before[path]).any()]
    assert changed == ["0.weight", "0.bias"]


def test_variable_shared_by_several_modules_is_named_after_its_owner():
    class Tied(nn.Module):
        def __init__(self):
            self.reference = None
            self.layer = nn.Linear(4)

        def forward(self, x):
            y = self.layer(x)
            self.reference = [self.layer.weight]
            return y @ self.layer.weight

    model = Tied()
    model(mg.Graph().placeholder((-1, 4)))
    assert [path for path, _ in model.named_parameters()] == ["layer.weight", "layer.bias"]
    assert list(nn.to_torch(model, arrays=True)) == ["layer.weight", "layer.bias"]


def test_modules_in_nested_containers_belong_to_the_model():
    class Nested(nn.Module):
        def __init__(self):
            self.blocks = [[nn.Linear(4)], {"last": (nn.Linear(1),)}]

        def forward(self, x):
            return self.blocks[1]["last"][0](self.blocks[0][0](x))

    model = Nested()
    assert "parameters" in str(model.summary((-1, 4)))
    mg.Trainer(model, "mse").fit(X, Y, progress=False)
    paths = ["blocks.0.0.weight", "blocks.0.0.bias", "blocks.1.last.0.weight", "blocks.1.last.0.bias"]
    assert list(model.state_dict()) == paths
    assert list(copy.deepcopy(model).state_dict()) == paths


@pytest.mark.parametrize("reader", ["state", "torch"])
def test_weights_in_attributes_round_trip(reader):
    model = Scaled()
    model(mg.Graph().placeholder((-1, 4)))
    read, write = {
        "state": (model.load_state_dict, model.state_dict),
        "torch": (lambda state: nn.load_torch(model, state), lambda: nn.to_torch(model, arrays=True)),
    }[reader]
    state = {name: np.full(value.shape, i + 5, np.float32) for i, (name, value) in enumerate(write().items())}
    assert len(state) == 3
    read(state)
    np.testing.assert_equal(write(), state)
    with pytest.raises(mg.GraphError, match=r"more\.bias\.0"):
        read({name: value for name, value in state.items() if name != "more.bias.0"})


def test_variables_not_held_by_any_module_raise():
    class Lost(nn.Module):
        def forward(self, x):
            return x @ x.graph.variable(np.ones((4, 1), np.float32), name="lost")

    hidden = nn.Linear(1)
    for model in (Lost(), nn.Sequential(lambda x: hidden(x))):
        with pytest.raises(mg.GraphError, match="would not be trained or saved"):
            mg.Trainer(model, "mse").train_step(X, Y)


def test_creating_variables_in_every_call_raises():
    class Renewed(nn.Module):
        def forward(self, x):
            self.w = x.graph.variable(np.ones((4, 1), np.float32))
            return x @ self.w

    with pytest.raises(mg.GraphError, match="create variables in build"):
        mg.Trainer(Renewed(), "mse").train_step(X, Y)


class LowRank(nn.Module):
    """A hand-written LoRA around a layer."""

    def __init__(self, base, rank=2):
        self.base, self.rank = base.freeze(), rank

    def build(self, x):
        self.down = self.add_parameter("down", x, (x.shape[-1], self.rank), nn.initialisers.GlorotUniform())
        self.up = self.add_parameter("up", x, (self.rank, self.base.out_features), nn.initialisers.zeros)

    def forward(self, x):
        return self.base(x) + x @ self.down @ self.up


class Extended(nn.Linear):
    """A subclass of Linear with a variable of its own."""

    def build(self, x):
        super().build(x)
        self.gain = self.add_parameter("gain", x, (self.out_features,), nn.initialisers.ones)

    def forward(self, x):
        return super().forward(x) * self.gain


@pytest.mark.parametrize("projection", ["query", "key", "value", "output"])
@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("kind", ["low rank", "subclass"])
def test_replaced_projections_of_attention_are_loaded_reported_and_exported(projection, kv_heads, kind):
    model = nn.MultiheadAttention(8, 2, num_kv_heads=kv_heads)
    layer = getattr(model, projection)
    setattr(model, projection, LowRank(layer) if kind == "low rank" else Extended(layer.out_features))
    model(mg.Graph().placeholder((-1, 5, 8)))
    exported = nn.to_torch(model, arrays=True)
    assert sum(v.size for v in exported.values()) == sum(v.size for v in model.state_dict().values())
    numbers = np.random.default_rng(0)
    state = {name: numbers.random(value.shape, np.float32) for name, value in exported.items()}
    assert nn.load_torch(model, state) == ([], [])
    np.testing.assert_equal(nn.to_torch(model, arrays=True), state)
    own = "down" if kind == "low rank" else "gain"
    (name,) = [name for name in state if name.endswith(f".{own}")]
    expected = state[name]
    np.testing.assert_equal(
        getattr(getattr(model, projection), own).graph.variable_value(getattr(getattr(model, projection), own)),
        expected,
    )
    for missing in state:
        left = {other: value for other, value in state.items() if other != missing}
        assert missing in nn.load_torch(model, left, strict=False).missing_keys


def test_load_torch_accepts_both_names_of_a_replaced_output_projection():
    model = nn.MultiheadAttention(8, 2)
    model.output = LowRank(model.output)
    model(mg.Graph().placeholder((-1, 5, 8)))
    state = nn.to_torch(model, arrays=True)
    assert "out_proj.down" in state
    renamed = {name.replace("out_proj", "output"): value for name, value in state.items()}
    assert nn.load_torch(model, renamed) == ([], [])


@pytest.mark.parametrize("arguments", [(3,), (True,)])
@pytest.mark.parametrize("kind", [nn.ReLU, nn.Sigmoid, nn.Tanh, nn.Flatten])
def test_layers_without_parameters_reject_arguments(kind, arguments):
    with pytest.raises(mg.GraphError, match=f"{kind.__name__} takes no arguments, got {arguments[0]}"):
        kind(*arguments)
    with pytest.raises(mg.GraphError, match="takes no arguments, got inplace=True"):
        kind(inplace=True)


def test_every_class_rejects_unknown_arguments():
    """Every class whose repr shows its arguments raises for an argument that it does not have."""
    kinds = [each for where in (nn, mg.optim) for each in vars(where).values() if isinstance(each, type)]
    kinds = [each for each in kinds if hasattr(each, "_arguments")]
    assert len(kinds) > 80
    for kind in kinds:
        with pytest.raises((TypeError, mg.Error)):
            kind(no_such_argument=1)


def test_model_with_self_containing_list_can_be_trained():
    model = nn.Sequential(nn.Linear(1))
    model.notes = [1, 2]
    model.notes.append(model.notes)
    trainer = mg.Trainer(model, "mse")
    trainer.train_step(X, Y).wait()
    assert list(trainer.weights()) == ["0.weight", "0.bias"]


def test_variable_assigned_before_a_layer_is_built_is_shared():
    class Tied(nn.Module):
        def __init__(self, outputs: int = 3):
            self.first, self.second = nn.Linear(3), nn.Linear(outputs)

        def forward(self, x):
            h = self.first(x)
            if self.second._graph is None:
                self.second.weight = self.first.weight
            return self.second(h)

    x, y = np.ones((8, 3), np.float32), np.arange(8, dtype=np.int32) % 3
    model = Tied()
    mg.Trainer(model, optimizer="adam").fit(x, y, epochs=2, progress=False)
    assert [path for path, _ in model.named_parameters()] == ["first.weight", "first.bias", "second.bias"]
    state = model.state_dict()
    expected = (x @ state["first.weight"] + state["first.bias"]) @ state["first.weight"] + state["second.bias"]
    np.testing.assert_allclose(model(x), expected, rtol=1e-5)
    with pytest.raises(mg.ShapeError, match=r"second.weight must have shape \(3, 4\), got .* of shape \(3, 3\)"):
        Tied(4)(x)
