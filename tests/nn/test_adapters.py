"""LoRA and DoRA around layers: values and gradients, selection, and what keeps their parameters."""

import copy
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import lm, nn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 5)).astype(np.float32)
Y = RNG.normal(size=(6, 3)).astype(np.float32)


def network(seed: int = 0) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(4), nn.Tanh(), nn.Linear(3, bias=False))
    model(mg.Graph(seed).placeholder((-1, 5)))
    return model


def filled(model: nn.Module, seed: int = 1) -> nn.Module:
    """Set the parameters of all adapters to random numbers."""
    rng = np.random.default_rng(seed)
    state = model.state_dict()
    for path, value in state.items():
        if ".adapters." in path:
            state[path] = (rng.normal(size=value.shape) * 0.3 + (1.0 if "magnitude" in path else 0.0)).astype(
                np.float32
            )
    model.load_state_dict(state)
    return model


def expected(state: dict[str, np.ndarray], path: str, x: np.ndarray, scale: float, name: str = "default") -> np.ndarray:
    """Return the output of a projection with one adapter, computed in float64."""
    s = {key.removeprefix(path + "."): value.astype(np.float64) for key, value in state.items() if key.startswith(path)}
    weight = s["weight"] + scale * s[f"adapters.{name}.down"] @ s[f"adapters.{name}.up"]
    if f"adapters.{name}.magnitude" in s:
        weight = weight * s[f"adapters.{name}.magnitude"] / np.linalg.norm(weight, axis=0)
    return x.astype(np.float64) @ weight + s.get("bias", 0)


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("rank_stabilized", [False, True])
def test_adapter_output_equals_its_formula(dora: bool, rank_stabilized: bool) -> None:
    model = network()
    before = model(X).numpy()
    paths = lm.add_adapters(
        model, rank=4, alpha=6, targets=["0", "2"], dora=dora, rank_stabilized=rank_stabilized
    )  # fmt: skip
    assert paths == ["0", "2"]
    np.testing.assert_allclose(model(X).numpy(), before, rtol=1e-6, atol=1e-6)
    state = filled(model).state_dict()
    scale = 6 / 2 if rank_stabilized else 6 / 4
    hidden = np.tanh(expected(state, "0", X, scale))
    np.testing.assert_allclose(model(X).numpy(), expected(state, "2", hidden, scale), rtol=1e-5, atol=1e-5)


def test_dora_gradients_treat_the_norm_as_a_constant() -> None:
    model = network()
    lm.add_adapters(model, rank=2, alpha=4, targets=["0"], dora=True)
    state = {path: value.astype(np.float64) for path, value in filled(model).state_dict().items()}
    g = model[0].weight.graph
    x = g.placeholder((6, 5))
    loss = nn.losses.mean_of_all(model[0](x) * g.constant(Y[:, [0, 1, 2, 0]])) * 24
    parameters = [v for _, v in model[0].named_trainable_parameters()]
    found = g.run({x: X}, list(g.gradients(loss, parameters).values()))
    down, up, magnitude = (state[f"0.adapters.default.{name}"] for name in ("down", "up", "magnitude"))
    whole = state["0.weight"] + 2 * down @ up
    norm = np.linalg.norm(whole, axis=0)
    d_whole = X.astype(np.float64).T @ Y[:, [0, 1, 2, 0]] * (magnitude / norm)
    d_magnitude = (X.astype(np.float64) @ whole / norm * Y[:, [0, 1, 2, 0]]).sum(0)
    for value, want in zip(found.values(), (2 * d_whole @ up.T, 2 * down.T @ d_whole, d_magnitude), strict=True):
        np.testing.assert_allclose(value.numpy(), want, rtol=1e-4, atol=1e-5)


def test_only_adapters_have_gradients_and_optimizer_state() -> None:
    model = network()
    lm.add_adapters(model, rank=2, targets=["2"])
    trainer = mg.Trainer(model, "mse", "adam", metrics=())
    before = model.state_dict()
    trainer.fit(X, Y, epochs=3, progress=False)
    after = model.state_dict()
    changed = {path for path in before if not np.array_equal(before[path], after[path])}
    assert changed == {"2.adapters.default.down", "2.adapters.default.up"}
    states = {name for name in trainer.state.variables() if "/" in name}
    assert states == {
        *(f"2.adapters.default.{p}/{s}" for p in ("down", "up") for s in ("momentum", "velocity")), "adam/step"
    }  # fmt: skip


def test_selected_adapters_are_weighted_and_switched_off() -> None:
    model = network()
    plain = model(X).numpy()
    for name in ("one", "two"):
        lm.add_adapters(model, rank=2, alpha=2, targets=["2"], name=name)
    state = filled(model).state_dict()
    hidden = np.tanh(X.astype(np.float64) @ state["0.weight"] + state["0.bias"])
    change = {n: hidden @ state[f"2.adapters.{n}.down"] @ state[f"2.adapters.{n}.up"] for n in ("one", "two")}
    assert [path for path, _ in model.named_trainable_parameters()] == ["2.adapters.two.down", "2.adapters.two.up"]
    np.testing.assert_allclose(model(X).numpy(), plain + change["two"], rtol=1e-5, atol=1e-5)
    lm.select_adapters(model, "one", "two", weights=(0.25, -2.0))
    np.testing.assert_allclose(model(X).numpy(), plain + 0.25 * change["one"] - 2 * change["two"], rtol=1e-5, atol=1e-5)
    lm.select_adapters(model)
    np.testing.assert_array_equal(model(X).numpy(), plain)
    lm.remove_adapters(model, "one")
    assert lm.adapter_names(model) == ["two"]
    lm.remove_adapters(model)
    assert lm.adapter_names(model) == []
    assert [path for path, _ in model.named_trainable_parameters()] == ["0.weight", "0.bias", "2.weight"]


def test_trainer_trains_the_adapter_that_is_selected_later() -> None:
    model = network()
    for name in ("one", "two"):
        lm.add_adapters(model, rank=2, targets=["2"], name=name)
    trainer = mg.Trainer(model, "mse", mg.optim.SGD(0.1), metrics=())
    for name in ("two", "one"):
        lm.select_adapters(model, name)
        before = model.state_dict()
        for _ in range(2):
            trainer.train_step(X, Y).wait()
        after = model.state_dict()
        changed = {path for path in before if not np.array_equal(before[path], after[path])}
        assert changed == {f"2.adapters.{name}.down", f"2.adapters.{name}.up"}


@pytest.mark.parametrize("dora", [False, True])
def test_merged_weights_are_the_rounded_sum(dora: bool) -> None:
    model = network()
    lm.add_adapters(model, rank=2, alpha=3, targets=["0", "2"], dora=dora)
    state = filled(model).state_dict()
    with_adapters = model(X).numpy()
    lm.merge_adapters(model)
    merged = model.state_dict()
    assert list(merged) == ["0.weight", "0.bias", "2.weight"]
    for path in ("0", "2"):
        bias = state.get(f"{path}.bias", np.zeros(1))
        whole = expected(state, path, np.eye(len(state[f"{path}.weight"])), 1.5) - bias
        np.testing.assert_array_max_ulp(merged[f"{path}.weight"], whole.astype(np.float32), 1)
    np.testing.assert_allclose(model(X).numpy(), with_adapters, rtol=1e-5, atol=1e-6)


def test_dropout_of_an_adapter_acts_only_in_training_mode() -> None:
    model = network()
    lm.add_adapters(model, rank=2, targets=["0", "2"], dropout=0.5)
    filled(model)
    g = model[0].weight.graph
    x = g.constant(X)
    training, inference = model.train()(x), model.eval()(x)
    first, second = (g.run({}, training).numpy() for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(g.run({}, inference).numpy(), g.run({}, inference).numpy())


# --- nothing of an adapter is lost ------------------------------------------------------------------------------------


def adapted(seed: int = 1) -> nn.Module:
    model = network(seed)
    lm.add_adapters(model, rank=2, targets=["0"], dora=True)
    lm.add_adapters(model, rank=3, targets=["2"], name="other")
    lm.select_adapters(model, "default", "other")
    return filled(model, seed)


def test_state_dict_and_copies_keep_adapters() -> None:
    model = adapted()
    twin = copy.deepcopy(model)
    np.testing.assert_array_equal(twin(X).numpy(), model(X).numpy())
    other = adapted(2)
    assert np.abs(other(X).numpy() - model(X).numpy()).max() > 1e-2
    other.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(other(X).numpy(), model(X).numpy())


def test_torch_state_has_the_names_of_peft_and_loads_back() -> None:
    model, other = adapted(), adapted(2)
    state = nn.to_torch(model, arrays=True)
    assert sorted(state) == [
        "0.base_layer.bias", "0.base_layer.weight", "0.lora_A.default.weight", "0.lora_B.default.weight",
        "0.lora_magnitude_vector.default.weight", "2.base_layer.weight", "2.lora_A.other.weight",
        "2.lora_B.other.weight",
    ]  # fmt: skip
    np.testing.assert_array_equal(state["0.lora_A.default.weight"], model.state_dict()["0.adapters.default.down"].T)
    nn.load_torch(other, state)
    np.testing.assert_array_equal(other(X).numpy(), model(X).numpy())


def test_torch_state_without_adapters_reports_them_as_missing() -> None:
    model, plain = adapted(), network(3)
    state = nn.to_torch(plain, arrays=True)
    with pytest.raises(mg.errors.GraphError, match=r"missing 0\.lora_A"):
        nn.load_torch(model, state)
    before = model.state_dict()
    keys = nn.load_torch(model, state, strict=False)
    assert keys is not None and all("lora_" in name for name in keys.missing_keys) and not keys.unexpected_keys
    after = model.state_dict()
    np.testing.assert_array_equal(after["2.weight"], plain.state_dict()["2.weight"])
    np.testing.assert_array_equal(after["2.adapters.other.up"], before["2.adapters.other.up"])


def test_attention_with_adapters_reads_both_kinds_of_torch_names() -> None:
    layer = nn.MultiheadAttention(8, 2)
    layer(mg.Graph().placeholder((-1, 3, 8)))
    plain = layer.state_dict()
    lm.add_adapters(layer, rank=2)
    state = nn.to_torch(layer, arrays=True)
    assert "query.lora_A.default.weight" in state and "query.base_layer.weight" in state
    nn.load_torch(layer, state)
    separate = {key: value.T if value.ndim == 2 else value for key, value in plain.items()}
    keys = nn.load_torch(layer, separate, strict=False)
    assert keys is not None and keys.unexpected_keys == []
    np.testing.assert_array_equal(layer.state_dict()["query.weight"], plain["query.weight"])


@pytest.mark.parametrize("layout", ["torch", "mpsgraph"])
def test_safetensors_files_keep_adapters(tmp_path: Path, layout: str) -> None:
    model, other = adapted(), adapted(2)
    state = nn.to_torch(model, arrays=True) if layout == "torch" else model.state_dict()
    mg.checkpoint.save(tmp_path / "model.safetensors", state)
    nn.load_safetensors(other, tmp_path / "model.safetensors", layout=layout)
    np.testing.assert_array_equal(other(X).numpy(), model(X).numpy())


def test_checkpoints_keep_adapters_and_continue_to_the_bit(tmp_path: Path) -> None:
    def trainer() -> mg.Trainer:
        return mg.Trainer(adapted(), "mse", mg.optim.Adam(0.05), metrics=(), seed=3)

    whole = trainer()
    for _ in range(6):
        whole.train_step(X, Y).wait()
    first = trainer()
    for _ in range(3):
        first.train_step(X, Y).wait()
    first.save(tmp_path / "state")
    second = trainer()
    second.load(tmp_path / "state")
    for _ in range(3):
        second.train_step(X, Y).wait()
    for path, value in whole.weights().items():
        np.testing.assert_array_equal(second.weights()[path], value, err_msg=path)


def test_packages_contain_adapters(tmp_path: Path) -> None:
    model = adapted()
    trainer = mg.Trainer(model, "mse", mg.optim.SGD(0.1), metrics=())
    trainer.train_step(X, Y).wait()
    want = trainer.predict(X)
    trainer.optimize_for_inference().save(tmp_path / "inference.mpsgraph")
    found = mg.load(tmp_path / "inference.mpsgraph")(X)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6, atol=1e-6)
    mg.save(tmp_path / "training.mpsgraph", trainer)
    again = mg.load(tmp_path / "training.mpsgraph")
    for _ in range(3):
        want_loss = float(trainer.train_step(X, Y))
        assert float(again.train_step(X, Y)) == want_loss


# --- errors -----------------------------------------------------------------------------------------------------------


def test_patterns_that_match_nothing_are_errors() -> None:
    model = network()
    with pytest.raises(mg.errors.GraphError, match=r"'9' in targets matches no layer"):
        lm.add_adapters(model, targets=["0", "9"])
    with pytest.raises(mg.errors.GraphError, match=r"targets='x\.\*' matches no projection; the model has 0, 2"):
        lm.add_adapters(model, targets="x.*")
    with pytest.raises(mg.errors.GraphError, match=r"'7' in ranks matches no layer"):
        lm.add_adapters(model, targets=["0"], ranks={"7": 2})
    with pytest.raises(mg.errors.UnsupportedError, match=r"'1' is <Tanh>"):
        lm.add_adapters(model, targets=["1"])
    assert [path for path, _ in model.named_trainable_parameters()] == ["0.weight", "0.bias", "2.weight"]


def test_names_of_adapters_are_checked() -> None:
    model = network()
    lm.add_adapters(model, targets=["0"], name="style")
    with pytest.raises(mg.errors.GraphError, match="has an adapter 'style'"):
        lm.add_adapters(model, targets=["2"], name="style")
    with pytest.raises(mg.errors.GraphError, match="no adapter 'styles', only style: did you mean 'style'"):
        lm.select_adapters(model, "styles")
    with pytest.raises(mg.errors.GraphError, match="must be an identifier"):
        lm.add_adapters(network(), targets=["0"], name="a.b")
    with pytest.raises(mg.errors.GraphError, match="already has adapters"):
        nn.LoRA(model[0])


def test_layer_with_lora_works_before_its_first_call() -> None:
    model = nn.Sequential(nn.LoRA(nn.Linear(4), rank=2), nn.ReLU(), nn.Linear(3))
    trainer = mg.Trainer(model, "mse", mg.optim.SGD(0.1), metrics=())
    before = float(trainer.train_step(X, Y))
    for _ in range(20):
        last = float(trainer.train_step(X, Y))
    assert last < before
    assert [path for path, _ in model.named_trainable_parameters()] == [
        "0.adapters.default.down", "0.adapters.default.up", "2.weight", "2.bias"
    ]  # fmt: skip
