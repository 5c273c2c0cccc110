"""Compare trainers on mpsgraph.jax.Engine, with one device and with two virtual devices, with the CPU device.

Checkpoints written with one engine must load with the other.
"""

import numpy as np
import pytest

pytest.importorskip("jax", reason="JAX is not installed: make test-jax")
import jax
import mpsgraph as mg

pytestmark = pytest.mark.filterwarnings("ignore")
nn = mg.nn
RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 6, 6, 1)).astype(np.float32)
Y = RNG.integers(3, size=8).astype(np.int32)
STEPS = 3


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(4, 3, padding="TF_SAME"), nn.BatchNorm(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(3),
    )  # fmt: skip


def trainer(**options: object) -> mg.Trainer:
    return mg.Trainer(network(), optimizer=mg.optim.SGD(1e-2, momentum=0.9), seed=3, **options)


def trained(**options: object) -> tuple[mg.Trainer, list[float]]:
    made = trainer(**options)
    return made, [float(made.train_step(X, Y)) for _ in range(STEPS)]


@pytest.fixture(scope="module")
def on_cpu() -> tuple[mg.Trainer, list[float]]:
    return trained()


def mesh(count: int, *names: str) -> jax.sharding.Mesh:
    if jax.device_count() < count:
        pytest.skip(f"JAX was imported earlier with {jax.device_count()} devices")
    return jax.sharding.Mesh(np.array(jax.devices()[:count]).reshape([-1] + [1] * (len(names) - 1)), names)


def assert_alike(made: mg.Trainer, losses: list[float], on_cpu: tuple[mg.Trainer, list[float]]) -> None:
    np.testing.assert_allclose(losses, on_cpu[1], rtol=2e-5)
    for name, value in on_cpu[0].weights().items():
        np.testing.assert_allclose(made.weights()[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_engine_on_one_device_matches_cpu(on_cpu):
    made, losses = trained(engine=mg.jax.Engine())
    assert_alike(made, losses, on_cpu)
    np.testing.assert_allclose(made.predict(X), on_cpu[0].predict(X), rtol=1e-3, atol=1e-3)
    assert made.evaluate((X, Y))["loss"] == pytest.approx(on_cpu[0].evaluate((X, Y))["loss"], rel=1e-3)


def test_training_with_sharded_batches_matches_cpu(on_cpu):
    made, losses = trained(engine=mg.jax.Engine(mesh(2, "data")))
    assert_alike(made, losses, on_cpu)


def test_checkpoints_are_interchangeable_between_engines(tmp_path, on_cpu):
    there, back = tmp_path / "there.safetensors", tmp_path / "back.safetensors"
    first, _ = trained()
    first.save(there)
    outside = trainer(engine=mg.jax.Engine())
    outside.load(there)
    losses = [float(outside.train_step(X, Y)) for _ in range(2)]
    outside.save(back)
    inside = trainer()
    inside.load(back)
    expected = [float(first.train_step(X, Y)) for _ in range(3)]
    np.testing.assert_allclose([*losses, float(inside.train_step(X, Y))], expected, rtol=2e-5)


def test_graph_and_jax_engine_share_current_weights():
    made = trainer(engine=mg.jax.Engine())
    made.train_step(X, Y)
    before = made.model.state_dict()["8.bias"]
    made.train_step(X, Y)
    assert not np.array_equal(made.model.state_dict()["8.bias"], before)
    made.set_weights({name: np.zeros_like(value) for name, value in made.weights().items()})
    assert not made.predict(X).any(), "the engine must use the weights that were set"


def test_accumulation_and_weight_averages_match_cpu():
    options = {"gradient_accumulation_steps": 2, "ema_decay": 0.9}
    histories = []
    for engine in (None, mg.jax.Engine()):
        made = trainer(engine=engine, **options)
        made.fit((X, Y), epochs=4, batch_size=4, progress=False, validation=(X, Y))
        histories.append(made.history)
    assert histories[0].validation[-1][1]["loss"] == pytest.approx(histories[1].validation[-1][1]["loss"], rel=1e-3)


def test_out_of_range_label_raises_and_leaves_state_unchanged():
    made = trainer(engine=mg.jax.Engine())
    made.train_step(X, Y).wait()
    before = made.weights()
    with pytest.raises(mg.OutOfRangeError, match="variables were not changed"):
        made.train_step(X, np.full_like(Y, 3)).wait()
    for name, value in made.weights().items():
        np.testing.assert_array_equal(value, before[name])


def test_exported_training_step_function_matches_cpu(on_cpu):
    made = trainer()
    step = mg.jax.function(made, example=(X, Y))
    state, run, losses = step.state(), jax.jit(step, donate_argnums=0), []
    for _ in range(STEPS):
        reported, state = run(state, {"learning_rate": np.float32(1e-2), "inputs": X, "labels": Y})
        losses.append(float(reported["loss"]))
    np.testing.assert_allclose(losses, on_cpu[1], rtol=2e-5)


def test_incompatible_engine_options_raise():
    engine = mg.jax.Engine()
    for options in ({"device": "cpu"}, {"check_finite": True}, {"precision": "auto"}):
        with pytest.raises(mg.GraphError):
            trainer(engine=engine, **options)
    with pytest.raises(mg.GraphError, match="engine must have a method on"):
        trainer(engine="jax")
    with pytest.raises(mg.GraphError, match="Mesh"):
        mg.jax.Engine("data")
    with pytest.raises(mg.GraphError, match="need a mesh"):
        mg.jax.Engine(data_axis="data")


class Attention(nn.Module):
    """Attention with 2 heads of 8 features, and one head for keys and values if they are shared; GELU behind it."""

    def __init__(self, causal: bool, shared: bool) -> None:
        self.causal, self.heads = causal, 1 if shared else 2
        self.query, self.key, self.value = nn.Linear(16), nn.Linear(8 * self.heads), nn.Linear(8 * self.heads)
        self.up, self.out = nn.Linear(32), nn.Linear(1100)

    def forward(self, x: mg.Tensor) -> mg.Tensor:
        g = x.graph
        heads = [
            g.transpose(g.reshape(layer(x), (-1, 12, count, 8)), (0, 2, 1, 3))
            for layer, count in ((self.query, 2), (self.key, self.heads), (self.value, self.heads))
        ]
        seen = g.scaled_dot_product_attention(*heads, causal=self.causal)
        y = g.reshape(g.transpose(seen, (0, 2, 1, 3)), (-1, 12, 16))
        return self.out(nn.GELU()(self.up(y)))


def attention_losses(causal: bool, shared: bool, **options: object) -> tuple[list[float], mg.Trainer]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 12, 16)).astype(np.float32)
    y = rng.integers(1100, size=(4, 12)).astype(np.int32)
    made = mg.Trainer(
        Attention(causal, shared), optimizer=mg.optim.Adam(1e-2), seed=3, precision="bfloat16", metrics=(), **options
    )
    return [float(made.train_step(x, y)) for _ in range(4)], made


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_that_stays_whole_trains_like_composed_attention_and_the_cpu_device(causal, shared):
    whole, made = attention_losses(causal, shared, engine=mg.jax.Engine(attention="xla"))
    (prepared,) = made.builder.engine._prepared.values()
    kinds = [operation.kind for operation in prepared.program.operations]
    assert kinds.count("scaled_dot_product_attention") == kinds.count("scaled_dot_product_attention_gradient") == 1
    composed, _ = attention_losses(causal, shared, engine=mg.jax.Engine(attention="composed"))
    on_cpu, _ = attention_losses(causal, shared)
    np.testing.assert_allclose(whole, composed, rtol=3e-3)
    np.testing.assert_allclose(whole, on_cpu, rtol=3e-3)


def test_attention_is_not_cudnns_without_a_gpu_and_unknown_kinds_raise():
    if jax.devices()[0].platform == "cpu":
        assert mg.jax.Engine().attention_implementation is None
    with pytest.raises(mg.GraphError, match="attention must be one of auto, cudnn, xla, composed, got 'flash'"):
        mg.jax.Engine(attention="flash")


def test_backward_pass_computes_gelu_again_instead_of_storing_it_in_float32():
    _, made = attention_losses(True, False, engine=mg.jax.Engine())
    (prepared,) = made.builder.engine._prepared.values()
    kinds = [operation.kind for operation in prepared.program.operations]
    arguments = prepared.arguments([np.float32(1e-2), np.zeros((4, 12, 16), np.float32), np.zeros((4, 12), np.int32)])
    text = str(prepared.step.trace(*arguments).jaxpr)
    assert text.count("= erf ") == 2 * kinds.count("erf") > 0
    assert text.count("optimization_barrier") > 0


def test_backward_pass_reads_the_statistics_of_normalized_rows_instead_of_computing_them_again():
    made = mg.Trainer(
        nn.Sequential(nn.Linear(16), nn.LayerNorm(), nn.Linear(3)), optimizer="sgd", engine=mg.jax.Engine()
    )
    made.train_step(X.reshape(8, -1), Y)
    (prepared,) = made.builder.engine._prepared.values()
    arguments = prepared.arguments([np.float32(1e-2), X.reshape(8, -1), Y])
    equations = prepared.step.trace(*arguments).jaxpr.jaxpr.eqns
    barriers = [e for e in equations if e.primitive.name == "optimization_barrier"]
    shapes = [value.aval.shape for barrier in barriers for value in barrier.invars]
    assert shapes == [(8, 1)] * 2, "the mean and the variance of the layer normalization"


@pytest.mark.parametrize("count", [None, 2])
def test_steps_of_one_dispatch_train_like_single_steps(on_cpu, count):
    engine = mg.jax.Engine(None if count is None else mesh(count, "data"), steps_per_dispatch=3)
    made = trainer(engine=engine)
    results = [made.train_step(X, Y) for _ in range(2)]
    runner = made.builder.engine
    assert len(runner._queue) == 2, "the steps must wait for the third"
    results.append(made.train_step(X, Y))
    assert not runner._queue
    (prepared,) = runner._prepared.values()
    assert prepared.step._cache_size() == 0, "the steps must be one program"
    assert_alike(made, [float(result) for result in results], on_cpu)


def test_queued_steps_start_when_their_result_or_a_variable_is_read():
    single, queued = trainer(engine=mg.jax.Engine()), trainer(engine=mg.jax.Engine(steps_per_dispatch=4))
    expected = [float(single.train_step(X, Y)) for _ in range(2)]
    results = [queued.train_step(X, Y) for _ in range(2)]
    np.testing.assert_allclose(float(results[1]), expected[1], rtol=1e-6)
    assert results[0].done
    queued.train_step(X, Y), single.train_step(X, Y)
    for name, value in single.weights().items():
        np.testing.assert_allclose(queued.weights()[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    for made in (single, queued):
        made.fit((X, Y), epochs=1, iterations=None)
    assert queued.step == single.step == 4
    assert queued.history.loss[-1] == pytest.approx(single.history.loss[-1], rel=1e-5)


def test_fit_with_several_steps_per_dispatch_matches_single_steps():
    class Steps(mg.training.callbacks.Callback):
        def __init__(self) -> None:
            self.seen: list[int] = []

        def on_step_end(self, trainer, step, values) -> None:
            self.seen.append(step)

    histories = []
    for count in (1, 3):
        made, told = trainer(engine=mg.jax.Engine(steps_per_dispatch=count)), Steps()
        made.fit(mg.data.batches((X, Y), 2, seed=1), epochs=2, callbacks=[told])
        assert told.seen == list(range(1, 9))
        histories.append(made.history.loss)
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-5)


def test_failed_step_of_a_dispatch_leaves_the_variables_to_the_next():
    def made(count: int) -> mg.Trainer:
        model = nn.Sequential(nn.Embedding(5, 4, out_of_range="error"), nn.Flatten(), nn.Linear(3))
        return mg.Trainer(model, optimizer="sgd", seed=1, engine=mg.jax.Engine(steps_per_dispatch=count))

    good, bad, y = np.zeros((4, 2), np.int32), np.full((4, 2), 7, np.int32), np.zeros(4, np.int32)
    together, single = made(3), made(1)
    results = [together.train_step(x, y) for x in (good, bad, good)]
    with pytest.raises(mg.OutOfRangeError):
        results[1].wait()
    expected = [float(single.train_step(good, y)) for _ in range(2)]
    np.testing.assert_allclose([float(results[0]), float(results[2])], expected, rtol=1e-6)
    assert together.step == 2


def test_steps_per_dispatch_that_cannot_apply_raise():
    for count in (0, True, 1.5):
        with pytest.raises(mg.GraphError, match="steps_per_dispatch must be a positive int"):
            mg.jax.Engine(steps_per_dispatch=count)
    with pytest.raises(
        mg.GraphError, match=r"gradient_accumulation_steps=2 cannot be combined .* steps_per_dispatch=4"
    ):
        trainer(engine=mg.jax.Engine(steps_per_dispatch=4), gradient_accumulation_steps=2)


@pytest.mark.parametrize("count", [None, 2])
def test_batches_on_the_device_train_like_batches_on_the_host(on_cpu, count):
    engine = mg.jax.Engine(None if count is None else mesh(count, "data"))
    made = trainer(engine=engine)
    inputs, labels = engine.on_device((X, Y))
    assert (inputs.shape, inputs.dtype, len(labels)) == (X.shape, X.dtype, len(Y))
    assert_alike(made, [float(made.train_step(inputs, labels)) for _ in range(STEPS)], on_cpu)
    there = made.builder.engine._prepared
    assert len(there) == 1, "the same step must serve both"
    with pytest.raises(mg.Error):
        trainer().train_step(inputs, labels)


def test_compiled_steps_are_kept_in_a_folder(tmp_path):
    before = jax.config.jax_compilation_cache_dir
    try:
        trained(engine=mg.jax.Engine(cache=tmp_path / "steps"))
        assert any((tmp_path / "steps").iterdir())
        assert mg.jax.Engine().device in jax.devices()
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "steps"), "JAX's own setting must stay"
        mg.jax.Engine(cache=None)
        assert jax.config.jax_compilation_cache_dir is None
    finally:
        mg.jax.Engine(cache=before)
