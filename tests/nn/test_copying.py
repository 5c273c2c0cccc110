"""Test pickling and copying of built modules, graphs, and models: values are kept and nothing is shared."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

WAYS: list[Callable[[Any], Any]] = [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
ways = pytest.mark.parametrize("way", WAYS, ids=["deepcopy", "pickle"])
X = np.random.default_rng(3).normal(size=(8, 6, 6, 2)).astype(np.float32)
Y = (np.arange(8) % 3).astype(np.int32)


def small_model() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(4, 3), nn.BatchNorm(), nn.ReLU(), nn.Flatten(), nn.Linear(3))


def trained(model: nn.Module, steps: int = 2, rate: float = 0.1) -> mg.Trainer:
    trainer = mg.Trainer(model, "cross_entropy", mg.optim.SGD(rate))
    for _ in range(steps):
        trainer.train_step(X, Y)
    trainer.wait()
    return trainer


@ways
def test_deep_copies_train_independently(way):
    model = small_model()
    trainer = trained(model)
    before = model.state_dict()
    twin = way(model)
    assert repr(twin) == repr(model)
    for name, value in twin.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    np.testing.assert_array_equal(mg.Trainer(twin).predict(X), trainer.predict(X))
    other = trained(twin, rate=0.5)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    trained_on = trained(model, steps=1).weights()
    assert any((trained_on[name] != value).any() for name, value in other.weights().items())


@ways
def test_copied_module_has_its_own_graph_and_variables(way):
    model = small_model()
    trained(model)
    twin = way(model)
    (graph,) = {id(v.graph) for v in twin.parameters()}
    assert graph != id(model[0].weight.graph)
    own = twin[0].weight.graph
    assert twin[0].weight is twin[0]._parameters["weight"] and len(own.variables) == len(twin.state_dict())
    assert [v.name for v in own.trainable_variables] == [v.name for v in twin.parameters()]
    assert twin[1].buffers() and not any(v is b for v in own.trainable_variables for b in twin[1].buffers())


@ways
def test_copy_keeps_shared_submodules_shared(way):
    shared = nn.Linear(3)
    model = nn.Sequential(nn.Flatten(), shared, nn.ReLU(), shared)
    model(mg.Graph().placeholder((-1, 3)))
    twin = way(model)
    assert twin[1] is twin[3] and len(list(twin.named_parameters())) == 2


@ways
def test_unbuilt_modules_can_be_copied(way):
    model = small_model()
    twin = way(model)
    trained(model), trained(twin)
    with pytest.raises(mg.GraphError, match="another graph"):
        twin(mg.Graph().placeholder((1, 6, 6, 2)))


@ways
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_copied_modules_keep_dtype_and_values(way, dtype):
    layer = nn.Linear(2)
    g = mg.Graph()
    layer(g.placeholder((-1, 3), dtype))
    twin = way(layer)
    assert str(twin.weight.dtype) == dtype
    for name, value in twin.state_dict().items():
        np.testing.assert_array_equal(value, layer.state_dict()[name])


def test_shallow_copy_shares_parameters():
    layer = nn.Linear(2)
    layer(mg.Graph().placeholder((-1, 3)))
    twin = copy.copy(layer)
    assert twin is not layer and twin.weight is layer.weight


def test_deep_copy_takes_current_parameter_values():
    layer = nn.Linear(2, bias=False)
    layer(mg.Graph().placeholder((-1, 3)))
    first = copy.deepcopy(layer)
    layer.load_state_dict({"weight": np.ones((3, 2), np.float32)})
    assert (copy.deepcopy(layer).state_dict()["weight"] == 1).all() and (first.state_dict()["weight"] != 1).any()


@ways
def test_copies_after_a_failed_copy_have_current_values(way):
    """An exception that is kept keeps what a copy had read before it failed."""
    model = nn.Sequential(nn.Linear(2), nn.Linear(2))
    model(mg.Graph().placeholder((-1, 3)))
    model.unsupported = iter([1])  # type: ignore[attr-defined]
    vars(model)["unsupported"] = (i for i in ())
    with pytest.raises(TypeError) as failed:
        way(model)
    assert failed.value is not None
    for layer in model:
        layer.load_state_dict({name: np.full_like(value, 5) for name, value in layer.state_dict().items()})
    assert all((value == 5).all() for layer in model for value in way(layer).state_dict().values())


def test_modules_pickled_together_share_the_new_graph_and_read_each_value_once():
    first, second = nn.Linear(2), nn.Linear(2)
    x = mg.Graph().placeholder((-1, 3))
    first(x), second(x)
    twins = pickle.loads(pickle.dumps((first, second)))
    assert twins[0].weight.graph is twins[1].weight.graph is not first.weight.graph
    for twin, original in zip(twins, (first, second), strict=True):
        np.testing.assert_array_equal(twin.state_dict()["weight"], original.state_dict()["weight"])
    again = pickle.loads(pickle.dumps(first))
    assert len(again.weight.graph.variables) == 2, "the other module's variables are not pickled"


@ways
def test_graphs_and_models_can_be_copied(way):
    g = mg.Graph(seed=5)
    x, v = g.placeholder((-1, 2), name="x"), g.variable([1.0, 2.0], name="v")
    model = mg.Model(g, {"x": x}, {"y": x * v}, {"v": v})
    update = g.assign(v, v + 1)
    g.run({}, [], [update])
    twin = way(model)
    assert str(twin.graph) == str(g) and twin.graph.seed == 5 and twin.parameters.keys() == {"v"}
    assert twin(np.float32([[1, 1]])).tolist() == [[2.0, 3.0]]
    twin.graph.set_variable(twin.parameters["v"], np.float32([7, 7]))
    assert model(np.float32([[1, 1]])).tolist() == [[2.0, 3.0]]


def test_copying_unsupported_objects_raises_with_advice():
    model = small_model()
    trainer = trained(model)
    for value, advice in [
        (trainer, r"save\(path\)"),
        (trainer.optimizer, "state in a graph"),
        (model[0].weight, "symbol"),
    ]:
        for way in WAYS:
            with pytest.raises(mg.GraphError, match=advice):
                way(value)
    assert repr(pickle.loads(pickle.dumps(mg.optim.Adam(0.1)))) == "Adam(learning_rate=0.1)"
    model.extra = model[0].weight * 2
    with pytest.raises(mg.GraphError, match="symbol of its graph"):
        copy.deepcopy(model)
