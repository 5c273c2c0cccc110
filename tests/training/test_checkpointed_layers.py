"""Test that checkpointed layers, whose activations the backward pass computes again, change no result and need less
memory.

Results are compared to the bit with those of the same network without checkpointing.
"""

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np
import pytest
from mpsgraph import nn
from mpsgraph.transforms import checkpoint

RANDOM = np.random.default_rng(5)
STEPS = 3


class Blocks(nn.Module):
    """Network with a list of equal blocks between two linear layers."""

    def __init__(self, block, count=3):
        self.first, self.blocks, self.last = nn.Linear(8), [block() for _ in range(count)], nn.Linear(3)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def mlp():
    return nn.Sequential(nn.LayerNorm(), nn.Linear(16), nn.GELU(), nn.Dropout(0.3), nn.Linear(8))


def residual():
    return Residual(mlp())


class Residual(nn.Module):
    def __init__(self, inner):
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Shared(nn.Module):
    """Blocks that share one linear layer, and whose input is used again after the last block."""

    def __init__(self):
        self.common, self.blocks = nn.Linear(8), []
        self.blocks = [nn.Sequential(self.common, nn.Tanh(), nn.Dropout(0.2)) for _ in range(3)]

    def forward(self, x):
        first = x = self.common(x)
        for block in self.blocks:
            x = block(x) + 0.5 * first
        return self.common(x * first)


class Printing(nn.Module):
    """Layer with an operation that has an effect, which must run once."""

    def __init__(self):
        self.before, self.after = nn.Sequential(nn.Linear(8), nn.Tanh()), nn.Sequential(nn.Linear(8), nn.Tanh())

    def forward(self, x):
        y = self.before(x)
        return self.after(x.graph.print(y, "seen")) * y


class Switched(nn.Module):
    """Layer with an `if`, and a loop, in its forward pass."""

    def __init__(self):
        self.linear = nn.Linear(8)

    def forward(self, x):
        g, y = x.graph, self.linear(x)
        positive = g.greater_than(y.sum(), 0.0)
        y = g.if_(positive, lambda: [g.tanh(y)], lambda: [g.sin(y * 2.0)])[0]
        return g.for_(3, initial=[y], body=lambda i, s: [g.tanh(s * 1.1) + x])[0]


def text(count, shape=(6, 5)):
    tokens = RANDOM.integers(0, 11, shape).astype(np.int32)
    return tokens, np.roll(tokens, -1, 1)


def transformer():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, activation="gelu", norm_first=True)
    return nn.Sequential(nn.Embedding(11, 8), nn.TransformerEncoder(layer, 3, nn.LayerNorm()), nn.Linear(11))


def images():
    block = lambda: Residual(  # noqa: E731
        nn.Sequential(nn.Conv2d(4, 3, padding="same"), nn.BatchNorm(), nn.ReLU(), nn.SpatialDropout(0.2))
    )
    return nn.Sequential(nn.Conv2d(4, 3, padding="same"), block(), block(), nn.Flatten(), nn.Linear(3))


def classes(x):
    return x, RANDOM.integers(0, 3, len(x)).astype(np.int32)


FLAT = classes(RANDOM.normal(size=(6, 4)).astype(np.float32))
PICTURES = classes(RANDOM.normal(size=(4, 6, 6, 3)).astype(np.float32))
SERIES = classes(RANDOM.normal(size=(4, 7, 3)).astype(np.float32))
NETWORKS = {
    "residual": (lambda: Blocks(residual), FLAT, True),
    "nested": (lambda: Blocks(lambda: nn.Sequential(residual(), residual())), FLAT, ("blocks.?", "blocks.?.?")),
    "transformer": (transformer, text(6), True),
    "convolutions": (images, PICTURES, True),
    "recurrent": (lambda: nn.Sequential(nn.LSTM(5), nn.GRU(4), nn.Flatten(), nn.Linear(3)), SERIES, ("0", "1")),
    "shared": (lambda: nn.Sequential(nn.Linear(8), Shared(), nn.Linear(3)), FLAT, "1.blocks.*"),
    "whole": (lambda: nn.Sequential(Blocks(mlp)), FLAT, "0"),
    "overlapping": (lambda: nn.Sequential(Blocks(mlp)), FLAT, ("0", "0.blocks.?", "0.blocks.1.1")),
    "control flow": (lambda: nn.Sequential(nn.Linear(8), Switched(), Switched(), nn.Linear(3)), FLAT, ("1", "2")),
}


def trained(make, data, layers, steps=STEPS, **options):
    """Return the losses of some steps, and all variables after them."""
    optimizer = options.pop("optimizer", mg.optim.Adam)
    trainer = mg.Trainer(make(), optimizer=optimizer(), seed=4, checkpoint_layers=layers, **options)
    losses = [float(trainer.train_step(*data)) for _ in range(steps)]
    kinds = [operation.kind for operation in trainer.graph.operations]
    assert ("optimization_barrier" in kinds) == bool(layers)
    return losses, trainer.weights()


def assert_same(found, expected):
    assert found[0] == expected[0]
    assert found[1].keys() == expected[1].keys()
    for path, value in expected[1].items():
        np.testing.assert_array_equal(found[1][path], value, err_msg=path)


@pytest.mark.both_devices
@pytest.mark.parametrize("name", NETWORKS)
def test_checkpointed_layers_change_no_bit(name):
    make, data, layers = NETWORKS[name]
    assert_same(trained(make, data, layers), trained(make, data, False))


@pytest.mark.both_devices
@pytest.mark.parametrize(
    "options",
    [
        {"precision": "bfloat16"},
        {"precision": "float16"},
        {"gradient_accumulation_steps": 2},
        {"ema_decay": 0.9},
        {"optimizer": lambda: mg.optim.ClipByNorm(mg.optim.AdamW(1e-2), 0.1)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_checkpointed_layers_change_no_bit_with_options_of_the_trainer(options):
    data = text(6)
    assert_same(trained(transformer, data, True, 4, **options), trained(transformer, data, False, 4, **options))


@pytest.mark.both_devices
def test_running_statistics_are_updated_once():
    rate = nn.BatchNorm().momentum
    make = lambda: nn.Sequential(nn.BatchNorm(), nn.Flatten(), nn.Linear(3))  # noqa: E731
    _, weights = trained(make, PICTURES, "0", 1)
    mean = PICTURES[0].astype(np.float64).mean((0, 1, 2))
    np.testing.assert_allclose(weights["0.moving_mean"], mean * (1 - rate), rtol=1e-4, atol=1e-6)


def test_operation_with_effect_in_a_checkpointed_layer_runs_once(capfd):
    make = lambda: nn.Sequential(nn.Linear(8), Printing(), nn.Linear(3))  # noqa: E731
    found = trained(make, FLAT, ("1",), 1)
    assert capfd.readouterr().out.count("seen") == 1
    assert_same(found, trained(make, FLAT, False, 1))


def test_checkpointed_flag_of_modules_and_trainer_setting_rebuild_the_step():
    data = text(6)
    trainer = mg.Trainer(transformer(), seed=4, optimizer="adam")
    plain = [float(trainer.train_step(*data)) for _ in range(6)]
    trainer = mg.Trainer(transformer(), seed=4, optimizer="adam")
    losses = [float(trainer.train_step(*data)) for _ in range(2)]
    operations = trainer.graph.operation_count
    nn.checkpoint(trainer.model[1].layers[0])
    losses += [float(trainer.train_step(*data)) for _ in range(2)]
    assert trainer.graph.operation_count > operations
    nn.checkpoint(trainer.model[1].layers[0], False)
    trainer.checkpoint_layers = True
    losses += [float(trainer.train_step(*data)) for _ in range(2)]
    assert not trainer.model[1].layers[0].checkpointed
    assert losses == plain


def test_arguments_of_checkpoint_layers_are_checked():
    with pytest.raises(mg.GraphError, match="no repeated blocks in a list|has none in a list"):
        mg.Trainer(nn.Sequential(nn.Linear(3), nn.ReLU(), nn.Linear(3)), checkpoint_layers=True)
    with pytest.raises(mg.GraphError, match="'trunk' matches no layer, the layers are"):
        mg.Trainer(transformer(), checkpoint_layers="trunk")
    with pytest.raises(mg.GraphError, match="checkpoint_layers"):
        mg.Trainer(transformer(), checkpoint_layers=[3])


def deep(count, width):
    return nn.Sequential(nn.Linear(width), *[Residual(wide(width)) for _ in range(count)], nn.Linear(3))


def wide(width):
    return nn.Sequential(nn.LayerNorm(), nn.Linear(4 * width), nn.GELU(), nn.Linear(width))


def intermediate_bytes(layers):
    trainer = mg.Trainer(deep(10, 32), optimizer="sgd", checkpoint_layers=layers)
    x, y = classes(RANDOM.normal(size=(1024, 32)).astype(np.float32))
    float(trainer.train_step(x, y))
    return trainer.builder.program.last_step.executable.shared_bytes


def test_checkpointed_layers_free_their_activations():
    plain, checkpointed, nested = (intermediate_bytes(layers) for layers in (False, True, ("?", "[1-9].inner")))
    # 10 layers keep about 11 values of 1024 x 32 floats each; then one value each, and one layer at a time all.
    assert checkpointed < 0.35 * plain
    assert nested < 0.4 * plain


@pytest.mark.both_devices
def test_gradient_of_a_checkpointed_function_equals_the_plain_gradient():
    def layer(x, w):
        return mnp.tanh(x @ w) * mnp.sin(x)

    def loss(f, x, w):
        for _ in range(4):
            x = f(x, w)
        return (x * x).sum()

    x, w = RANDOM.normal(size=(5, 4)).astype(np.float32), RANDOM.normal(size=(4, 4)).astype(np.float32)
    plain = mg.grad(lambda x, w: loss(layer, x, w), argnums=(0, 1))(x, w)
    found = mg.grad(lambda x, w: loss(checkpoint(layer), x, w), argnums=(0, 1))(x, w)
    # Fused kernels round a product and a sum once if both are in the same kernel, which can differ here.
    for ours, expected in zip(found, plain, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=3e-6, atol=1e-8)
    slope = lambda f: mg.grad(lambda x: (mg.grad(lambda x: loss(f, x, w))(x) ** 2).sum())(x)  # noqa: E731
    np.testing.assert_allclose(slope(checkpoint(layer)), slope(layer), rtol=1e-4, atol=1e-4)
    each = lambda f: mg.vmap(mg.grad(lambda x: loss(f, x, w)))(x)  # noqa: E731
    np.testing.assert_allclose(each(checkpoint(layer)), each(layer), rtol=3e-6, atol=1e-8)
    batch = lambda f: mg.grad(lambda x: mg.vmap(lambda x: loss(f, x, w))(x).sum())(x)  # noqa: E731
    np.testing.assert_allclose(batch(checkpoint(layer)), batch(layer), rtol=3e-6, atol=1e-8)


@pytest.mark.both_devices
def test_checkpointed_function_in_a_loop_changes_no_bit():
    x, w = RANDOM.normal(size=(4, 5)).astype(np.float32), RANDOM.normal(size=(5, 5)).astype(np.float32)
    found = []
    for wrap in (checkpoint, lambda f: f):
        g = mg.Graph()
        start, weight = g.placeholder((4, 5)), g.variable(w)
        layer = wrap(lambda s, weight=weight: mnp.tanh(mnp.sin(s @ weight) @ weight) + s)
        (end,) = g.for_(4, initial=[start], body=lambda i, s, layer=layer: [layer(s)])
        gradients = g.gradients((end * end).sum(), [weight, start])
        inside = [o.kind for whole in g.operations for block in whole.blocks for o in block.operations]
        assert ("optimization_barrier" in inside) == (wrap is checkpoint)
        results = g.run({start: x}, [gradients[weight], gradients[start]])
        found.append([results[gradients[weight]].numpy(), results[gradients[start]].numpy()])
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_gradient_with_respect_to_a_value_inside_a_checkpointed_layer():
    g = mg.Graph()
    x = g.placeholder((3,))
    g.create("recomputation_begin", ())
    inner = g.tanh(x)
    y = g.sin(inner * x)
    g.create("recomputation_end", ())
    loss = (y * inner).sum()
    found = g.gradients(loss, [inner, x])
    value = np.float32([0.3, -1.0, 2.0])
    results = g.run({x: value}, [found[inner], found[x]])
    v = value.astype(np.float64)
    t = np.tanh(v)
    d_inner = np.cos(t * v) * v * t + np.sin(t * v)
    np.testing.assert_allclose(results[found[inner]], d_inner, rtol=1e-5)
    np.testing.assert_allclose(results[found[x]], d_inner * (1 - t * t) + np.cos(t * v) * t * t, rtol=1e-5)


def test_copied_and_parsed_graphs_keep_the_marks():
    g = mg.Graph()
    x = g.placeholder((3,), name="x")
    g.create("recomputation_begin", ())
    y = g.tanh(g.sin(x))
    g.create("recomputation_end", ())
    (y * y).sum()
    parsed = mg.parse(str(g))
    found = parsed.find("reduction_sum").outputs[0]
    parsed.gradients(found, [parsed.find("x").outputs[0]])
    assert "optimization_barrier" in [operation.kind for operation in parsed.operations]
