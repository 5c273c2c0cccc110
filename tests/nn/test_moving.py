"""Test that modules move: between models, graphs, and positions of a Sequential, and that calls with arrays run."""

import copy

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
Y = (X[:, 0] > 0).astype(np.int32)


def backbone(**options):
    model = nn.Sequential(nn.Linear(6), nn.BatchNorm(), nn.Tanh(), nn.Linear(2))
    trainer = mg.Trainer(model, optimizer=mg.optim.Adam(0.05), **options)
    trainer.fit(X, Y, epochs=3, progress=False)
    return model, trainer


def forward(model, x=X):
    """Return the first three layers of a backbone's outputs in inference mode, in float64."""
    state = {path: value.astype(np.float64) for path, value in model.state_dict().items()}
    h = x @ state["0.weight"] + state["0.bias"]
    h = (h - state["1.moving_mean"]) / np.sqrt(state["1.moving_variance"] + 1e-3)
    return np.tanh(h * state["1.gamma"] + state["1.beta"])


def test_trained_backbone_under_new_head_keeps_its_weights_and_trains():
    model, first = backbone()
    before, features = model.state_dict(), forward(model)
    new = nn.Sequential(model[:-1].freeze().eval(), nn.Linear(3))
    trainer = mg.Trainer(new, optimizer=mg.optim.SGD(0.1))
    labels = np.arange(8, dtype=np.int32) % 3
    trainer.evaluate(X, labels)
    head = {path: value.astype(np.float64) for path, value in new[1].state_dict().items()}
    scores = features @ head["weight"] + head["bias"]
    np.testing.assert_allclose(trainer.predict(X), scores, rtol=1e-4, atol=1e-5)
    trainer.train_step(X, labels).wait()
    share = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    slope = (share - np.eye(3)[labels]) / 8
    np.testing.assert_allclose(
        new[1].state_dict()["weight"], head["weight"] - 0.1 * features.T @ slope, rtol=1e-4, atol=1e-6
    )
    np.testing.assert_equal(model.state_dict(), before)
    assert [path for path, _ in new.named_parameters()][:2] == ["0.0.weight", "0.0.bias"]
    np.testing.assert_allclose(first.predict(X), mg.Trainer(model).predict(X))  # The old model still works.


def test_old_and_new_model_share_variables_of_one_graph():
    model, first = backbone()
    trainer = mg.Trainer(nn.Sequential(model[:-1], nn.Linear(2)))
    trainer.fit(X, Y, progress=False)
    np.testing.assert_allclose(
        first.predict(X),
        forward(model) @ model[-1].state_dict()["weight"] + model[-1].state_dict()["bias"],
        rtol=1e-4,
        atol=1e-5,
    )


def test_parts_of_several_graphs_move_and_their_old_trainer_refuses():
    (one, _), (other, old) = backbone(seed=1), backbone(seed=2)
    expected = np.concatenate([forward(one), forward(other)], axis=1)

    class Both(nn.Module):
        def __init__(self):
            self.one, self.other = one[:-1], other[:-1]

        def forward(self, x):
            return x.graph.concat([self.one(x), self.other(x)], 1)

    np.testing.assert_allclose(mg.Trainer(Both(), "mse").predict(X), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(mg.GraphError, match="has moved to another graph, because another model uses it"):
        old.train_step(X, Y)
    np.testing.assert_allclose(forward(other), expected[:, 6:], rtol=1e-6)


def test_copied_part_leaves_the_original_where_it_is():
    other, old = backbone()
    twin = copy.deepcopy(other)
    mg.Trainer(nn.Sequential(twin[:-1], nn.Linear(2))).fit(X, Y, progress=False)
    before = other.state_dict()["0.weight"]
    assert (twin.state_dict()["0.weight"] != before).any()
    float(old.train_step(X, Y))
    assert (other.state_dict()["0.weight"] != before).any()


def test_replaced_head_of_a_trained_model_trains_in_the_same_trainer():
    model, trainer = backbone()
    kept = model[0].state_dict()["weight"]
    model[-1] = nn.Linear(2)
    trainer.train_step(X, Y).wait()
    assert model[-1].state_dict()["weight"].shape == (6, 2)
    assert (model[0].state_dict()["weight"] != kept).any()
    other, _ = backbone(seed=9)
    model[0] = other[0]
    expected = other[0].state_dict()["weight"]
    np.testing.assert_array_equal(trainer.weights()["0.weight"], expected)


def test_module_moves_to_a_graph_with_its_values():
    layer = nn.LSTM(3, num_layers=2)
    before = layer(X[None]).numpy()
    g = mg.Graph()
    with pytest.raises(mg.GraphError, match=r"move it with module.move_to\(graph\)"):
        layer(g.constant(X[None]))
    layer.move_to(g)
    np.testing.assert_array_equal(g.run({}, layer.eval()(g.constant(X[None]))).numpy(), before)
    assert set(g.trainable_variables) == set(layer.parameters())


def test_variable_assigned_in_a_constructor_moves_to_the_trainer():
    class Scaled(nn.Module):
        def __init__(self):
            self.scale = mg.Graph().variable(np.float32([1, 2, 3, 4]))

        def forward(self, x):
            return x * self.scale

    trainer = mg.Trainer(Scaled(), "mse", mg.optim.SGD(0.5))
    trainer.train_step(X, 0 * X).wait()
    scale = np.array([1, 2, 3, 4.0])
    np.testing.assert_allclose(trainer.weights()["scale"], scale - 0.5 * (2 * X * scale * X).sum(0) / X.size, rtol=1e-5)


def test_groups_match_paths_of_the_new_model():
    model, _ = backbone()
    new = nn.Sequential(model[:-1], nn.Linear(2))
    trainer = mg.Trainer(new, optimizer=mg.optim.ParameterGroups(mg.optim.SGD(0.1), {"0": None}))
    before = trainer.evaluate(X, Y) and trainer.weights()
    trainer.train_step(X, Y).wait()
    changed = {path for path, value in trainer.weights().items() if (value != before[path]).any()}
    assert changed - {"0.1.moving_mean", "0.1.moving_variance"} == {"1.weight", "1.bias"}


def test_checkpoint_of_new_head_loads_in_a_new_program(tmp_path):
    def make():
        model, _ = backbone(seed=1)
        return mg.Trainer(nn.Sequential(model[:-1], nn.Linear(2)), optimizer=mg.optim.Adam(0.01), seed=5)

    trainer, other = make(), make()
    trainer.fit(X, Y, epochs=2, progress=False)
    trainer.save(tmp_path / "c")
    other.load(tmp_path / "c")
    np.testing.assert_equal(other.weights(), trainer.weights())
    assert float(other.train_step(X, Y)) == float(trainer.train_step(X, Y))


def test_sequential_is_a_list_of_layers():
    a, b, c, d = nn.Linear(1), nn.ReLU(), nn.Linear(3), nn.Tanh()
    model = nn.Sequential(a, b)
    assert model.append(c) is model and model.insert(1, d) is model and list(model) == [a, d, b, c]
    assert list(model[1:3]) == [d, b] and isinstance(model[1:3], nn.Sequential) and model[-1] is c
    model[0] = c
    model[1:3] = [b]
    assert list(model) == [c, b, c] and len(model.extend([a, d])) == 5
    del model[0]
    assert model.pop() is d and list(model) == [b, c, a]
    with pytest.raises(mg.OutOfRangeError, match="index 3 is out of range for 3 layers"):
        model[3]
    with pytest.raises(mg.GraphError, match=r"pass an instance, ReLU\(\.\.\.\)"):
        model.append(nn.ReLU)
    with pytest.raises(mg.GraphError, match="modules or functions"):
        model[0] = 3


def test_slice_of_a_trained_model_has_its_weights_at_once():
    model, _ = backbone()
    part = model[:2]
    assert list(part.state_dict())[0] == "0.weight"
    part.load_state_dict({path: value + 1 for path, value in part.state_dict().items()})
    np.testing.assert_array_equal(part.state_dict()["0.bias"], model.state_dict()["0.bias"])


# --- calls with arrays ------------------------------------------------------------------------------------------------


def test_calls_with_arrays_match_predictions_and_follow_training():
    model, trainer = backbone()
    for _ in range(2):
        np.testing.assert_array_equal(model(X).numpy(), trainer.predict(X))
        np.testing.assert_array_equal(model(X[:3]).numpy(), trainer.predict(X[:3]))
        trainer.train_step(X, Y)
    operations = trainer.graph.operation_count
    model(X), model(X[:1]), model(X.astype(np.float64)), model(X.tolist())
    assert trainer.graph.operation_count == operations
    model[-1] = nn.Linear(5)
    assert model(X).shape == (8, 5)


def test_calls_with_arrays_build_untrained_modules_in_inference_mode():
    model = nn.Sequential(nn.Linear(3), nn.Dropout(0.9))
    state = (model(X), model.state_dict())[1]
    expected = X.astype(np.float64) @ state["0.weight"] + state["0.bias"]
    np.testing.assert_allclose(model(X).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert model.training is True
    trainer = mg.Trainer(model, "mse")
    np.testing.assert_allclose(trainer.predict(X), expected, rtol=1e-5, atol=1e-6)


def test_calls_with_arrays_take_further_arguments_and_return_structures():
    class Pair(nn.Module):
        def forward(self, x, y=None, *, scale=1.0):
            return {"sum": x + y, "scaled": (x * scale, None)} if y is not None else x

    model = Pair()
    found = model(X, y=2 * X, scale=3.0)
    np.testing.assert_allclose(found["sum"].numpy(), 3 * X)
    np.testing.assert_allclose(found["scaled"][0].numpy(), 3 * X)
    assert found["scaled"][1] is None
    np.testing.assert_allclose(model(X, X, scale=2.0)["scaled"][0].numpy(), 2 * X)
    assert nn.Embedding(5, 2)([[1, 2]]).shape == (1, 2, 2)
    with pytest.raises(mg.DTypeError, match="tensors or numeric arrays"):
        model(["a"])
    with pytest.raises(mg.GraphError, match="all tensors or all arrays"):
        model(X, mg.Graph().constant(X))


def test_calls_take_structures_of_arrays_or_tensors():
    class Both(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2)

        def forward(self, parts):
            return self.layer(parts["left"]) - self.layer(parts["right"][0])

    model = Both()
    left, right = np.ones((3, 4), np.float32), np.zeros((3, 4), np.float32)
    found = model({"left": left, "right": [right]}).numpy()
    np.testing.assert_allclose(found, left @ model.state_dict()["layer.weight"], rtol=1e-5)
    g = model.layer.weight.graph
    tensors = {"left": g.constant(left), "right": (g.constant(right),)}
    np.testing.assert_allclose(g.run({}, model(tensors)), found, rtol=1e-6)
    for wrong in (None, {}, ()):
        with pytest.raises(mg.DTypeError, match="needs a tensor or an array, got"):
            model(wrong)
