"""Train a GPT and a convolutional network on eight virtual devices, and compare losses and memory with one device."""

from functools import lru_cache

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
import mpsgraph as mg  # noqa: E402

nn, P = mg.nn, jax.sharding.PartitionSpec
STEPS, WIDTH, WORDS, POSITIONS = 3, 64, 256, 32
RNG = np.random.default_rng(0)
TOKENS = RNG.integers(WORDS, size=(16, POSITIONS + 1), dtype=np.int32)
TEXT = np.ascontiguousarray(TOKENS[:, :-1]), np.ascontiguousarray(TOKENS[:, 1:])
IMAGES = RNG.normal(size=(16, 12, 12, 3)).astype(np.float32), RNG.integers(5, size=16).astype(np.int32)
GPT_RULES = {
    "*.query.weight": P(None, "model"), "*.key.weight": P(None, "model"), "*.value.weight": P(None, "model"),
    "*.attention.output.weight": P("model"), "*.up.*": P(), "*.down.weight": P("model"), "embedding.weight": P("model"),
}  # fmt: skip
GPT_RULES |= {"*.up.weight": P(None, "model")}
NETWORK_RULES = {"0.weight": P(None, None, None, "model"), "*.gamma": P("model"), "9.weight": P(None, "model")}


@pytest.fixture(autouse=True)
def eight_devices() -> None:
    if jax.device_count() < 8:
        pytest.skip(f"JAX was imported earlier with {jax.device_count()} devices")


def mesh(data: int, model: int = 1) -> jax.sharding.Mesh:
    devices = np.array(jax.devices()[: data * model]).reshape(data, model)
    return jax.sharding.Mesh(devices, ("data", "model"))


def gpt(layers: int = 2) -> nn.Module:
    sizes = {"vocab_size": WORDS, "n_embd": WIDTH, "n_head": 4, "n_layer": layers, "n_positions": POSITIONS}
    model = mg.lm.create({"model_type": "gpt2", **sizes, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "attn_pdrop": 0.0})
    return model.train()


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(16, 3, padding="TF_SAME"), nn.BatchNorm(), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 3),
        nn.BatchNorm(), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(64), nn.ReLU(), nn.Linear(5),
    )  # fmt: skip


MODELS = {"gpt": (gpt, TEXT, mg.optim.AdamW), "network": (network, IMAGES, mg.optim.Adam)}


def trained(name: str, engine: mg.jax.Engine, **options: object) -> tuple[mg.Trainer, list[float]]:
    model, batch, optimizer = MODELS[name]
    made = mg.Trainer(model(), optimizer=optimizer(1e-3), metrics=(), seed=1, engine=engine, **options)
    return made, [float(made.train_step(*batch)) for _ in range(STEPS)]


@lru_cache
def alone(name: str) -> list[float]:
    return trained(name, mg.jax.Engine())[1]


CASES = {
    "data parallel": {},
    "fully sharded": {"fully_sharded": True},
    "fully sharded along both axes": {"fully_sharded": True, "data_axis": ("data", "model")},
    "tensor parallel": {"rules": True},
    "all of it": {"rules": True, "fully_sharded": True, "recomputed": True},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", MODELS)
def test_eight_devices_train_like_one(name, case):
    options = dict(CASES[case])
    rules = {"gpt": GPT_RULES, "network": NETWORK_RULES}[name] if options.pop("rules", False) else None
    layers = {"gpt": True, "network": ["4", "5", "6"]}[name] if options.pop("recomputed", False) else False
    engine = mg.jax.Engine(mesh(4, 2) if rules or "data_axis" in options else mesh(8), shardings=rules, **options)
    _, losses = trained(name, engine, checkpoint_layers=layers)
    np.testing.assert_allclose(losses, alone(name), rtol=1e-5)


def test_states_of_the_optimizer_are_divided_like_their_parameter():
    made, _ = trained("gpt", mg.jax.Engine(mesh(4, 2), shardings=GPT_RULES, fully_sharded=True))
    shardings = made.builder.engine.shardings()
    spec = {name: stored.spec for name, (stored, _) in shardings.items()}
    for state in ("", "/momentum", "/velocity"):
        assert spec[f"layers.0.attention.query.weight{state}"] == P("data", "model")
        assert spec[f"layers.0.feed_forward.down.weight{state}"] == P("model", "data")
        assert spec[f"norm.gamma{state}"] == P(), "small variables stay whole"
    for value in made.builder.engine.values(made.graph.variables):
        assert value.sharding.is_equivalent_to(shardings[_name_of(made, value)][0], value.ndim)


def _name_of(trainer: mg.Trainer, value: object) -> str:
    return next(name for name, known in trainer.builder.engine._values.items() if known is value)


def memory(**options: object) -> mg.training.memory.MemoryEstimate:
    engine = mg.jax.Engine(mesh(8), **options.pop("engine", {})) if "engine" in options else mg.jax.Engine()
    made = mg.Trainer(gpt(3), optimizer="adamw", metrics=(), seed=1, engine=engine, **options)
    return made.memory_estimate(TEXT)


def test_memory_of_each_device_falls_with_every_kind_of_sharding():
    one, parallel = memory(), memory(engine={})
    assert (parallel.weights, parallel.optimizer) == (one.weights, one.optimizer), "each device has all variables"
    assert parallel.intermediates < one.intermediates / 4
    sharded = memory(engine={"fully_sharded": True})
    assert sharded.weights < one.weights / 7 and sharded.optimizer < one.optimizer / 7
    assert sharded.intermediates < parallel.intermediates * 1.05, "variables must not be collected all at once"
    recomputed = memory(engine={"fully_sharded": True}, checkpoint_layers=True)
    assert recomputed.intermediates < sharded.intermediates * 0.6, "layers must not keep their activations"
    assert recomputed.total < one.total / 10


def test_checkpointed_layers_save_memory_on_one_device():
    assert memory(checkpoint_layers=True).intermediates < 0.5 * memory().intermediates


def test_invalid_shardings_raise_with_a_remedy():
    def refused(error: type, match: str, rules: dict | None = None, name: str = "gpt", **options: object) -> None:
        with pytest.raises(error, match=match):
            trained(name, mg.jax.Engine(mesh(4, 2), shardings=rules, **options))

    refused(mg.GraphError, r"shardings\['blocks.*'\] matches no variable: use a pattern of the names embedding.weight",
            {"blocks.*": P("model")})  # fmt: skip
    refused(
        mg.GraphError, r"names the axis 'tensor', but the mesh has the axes \('data', 'model'\)", {"*": P("tensor")}
    )
    refused(mg.GraphError, "names the axis 'model' twice", {"*": P("model", "model")})
    refused(mg.GraphError, "must be a jax.sharding.PartitionSpec, such as", {"*": "model"})
    refused(mg.GraphError, "data_axis must be one of the mesh axes", data_axis="batch")
    refused(mg.GraphError, "fully_sharded must be one of the mesh axes", fully_sharded="zero")
    refused(mg.GraphError, "fully_sharded must be a bool or a mesh axis", fully_sharded=3)
    refused(mg.ShapeError, r"divides axis 1 of '11.weight', of shape \(64, 5\), into 2 parts: divide another axis",
            {"11.weight": P(None, "model")}, "network")  # fmt: skip
    refused(mg.ShapeError, r"divides 4 axes, but '0.bias' has shape \(16,\): use a pattern that does not match it",
            {"0.*": P(None, None, None, "model")}, "network")  # fmt: skip
    with pytest.raises(mg.GraphError, match="need a mesh"):
        mg.jax.Engine(fully_sharded=True)
