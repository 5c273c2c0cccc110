"""Compare attention and transformer layers with PyTorch's outputs and gradients; test masks, modes, and training."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.torch_layers import compare
from mpsgraph import nn


def ours(parameters):
    """Rename and lay out PyTorch's parameters as this package does.

    Packed projections are split, projection weights are transposed, and normalization parameters become gamma and beta.
    """
    found = {}
    for path, value in parameters.items():
        *owner, name = path.split(".")
        prefix = "".join(f"{part}." for part in owner)
        if name in ("in_proj_weight", "in_proj_bias"):
            for part, rows in zip(("query", "key", "value"), np.split(value, 3), strict=True):
                found[f"{prefix}{part}.{name.removeprefix('in_proj_')}"] = rows.T
        elif name.endswith("_proj_weight"):
            found[prefix + {"q": "query", "k": "key", "v": "value"}[name[0]] + ".weight"] = value.T
        elif owner and owner[-1].startswith("norm"):
            found[prefix + {"weight": "gamma", "bias": "beta"}[name]] = value
        else:
            found[prefix.replace("out_proj", "output") + name] = value.T
    return found


def attention(layer, **options):
    def run(query, key, value, mask=None, key_padding_mask=None):
        return layer.with_weights(query, key, value, mask=mask, key_padding_mask=key_padding_mask, **options)

    return layer, run


def encoder_layer():
    layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0)
    return layer, lambda x, mask, padding: layer(x, mask=mask, key_padding_mask=padding)


def encoder():
    layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, activation="gelu", norm_first=True)
    model = nn.TransformerEncoder(layer, 2, nn.LayerNorm())
    return model, lambda x, mask: model(x, is_causal=True) + 0.0 * mask[0, 0]


def encoder_plain():
    layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, bias=False, batch_first=False)
    return layer, layer


def decoder():
    model = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 5, dropout=0.0), 2)
    return model, lambda x, memory, mask: model(x, memory, mask=mask)


CASES = {
    "Attention": lambda: attention(nn.MultiheadAttention(4, 2)),
    "Attention_cross": lambda: attention(nn.MultiheadAttention(4, 2), average=False),
    "Attention_time_first": lambda: attention(nn.MultiheadAttention(4, 2, bias=False, batch_first=False)),
    "Encoder_layer": encoder_layer,
    "Encoder": encoder,
    "Encoder_plain": encoder_plain,
    "Decoder": decoder,
}


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("name", CASES)
def test_attention_matches_pytorch(name, known):
    module, run = CASES[name]()
    compare(name, run, module=module, state=ours, known=known)


@pytest.fixture
def x(rng):
    return rng.normal(size=(2, 5, 8)).astype(np.float32)


def test_attention_output_does_not_depend_on_returning_weights(x):
    g = mg.Graph(seed=1)
    layer, given = nn.MultiheadAttention(8, 2), g.constant(x)
    y, causal = layer(given), layer(given, is_causal=True)
    same, weights = layer.with_weights(given)
    by_weights, seen = layer.with_weights(given, is_causal=True)
    found = g.run({}, [y, causal, same, by_weights, weights, seen])
    np.testing.assert_allclose(found[y].numpy(), found[same].numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[causal].numpy(), found[by_weights].numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[weights].numpy().sum(-1), 1, rtol=1e-5)
    assert (np.triu(found[seen].numpy(), 1) == 0).all()


def test_attention_weight_dropout_applies_only_in_training(x):
    g = mg.Graph(seed=1)
    layer, given = nn.MultiheadAttention(8, 2, dropout=0.5), g.constant(x)
    training, inference = layer(given), layer.eval()(given)
    dropped = layer.train().with_weights(given, average=False)[1]
    first, second = (g.run({}, [training, inference, dropped]) for _ in range(2))
    assert (first[training].numpy() != second[training].numpy()).any()
    assert 0.3 < (first[dropped].numpy() == 0).mean() < 0.7
    np.testing.assert_array_equal(first[inference].numpy(), second[inference].numpy())


def test_positional_encoding_adds_sines_and_cosines(x):
    angles = np.arange(5)[:, None] / 10000 ** (np.arange(4) * 2 / 8)
    wanted = x.copy()
    wanted[..., 0::2] += np.sin(angles)
    wanted[..., 1::2] += np.cos(angles)
    for first in (True, False):
        for shape in ((2, 5, 8), (-1, -1, 8)):
            g = mg.Graph()
            fed = x if first else np.ascontiguousarray(x.swapaxes(0, 1))
            given = g.placeholder(shape if first or shape[0] < 0 else (5, 2, 8))
            y = g.run({given: fed}, nn.PositionalEncoding(batch_first=first)(given)).numpy()
            np.testing.assert_allclose(y if first else y.swapaxes(0, 1), wanted, rtol=1e-5, atol=1e-6)


def test_encoder_layers_have_independent_initial_weights(x):
    g = mg.Graph(seed=1)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    model(g.constant(x))
    state = model.state_dict()
    assert (state["layers.0.linear1.weight"] != state["layers.1.linear1.weight"]).any()
    assert len(state) == 2 * 16


def test_transformer_learns_a_task_that_depends_on_token_order():
    """Learn which of two tokens comes first in a sequence; solving this takes both content and order."""
    g = mg.Graph(seed=3)
    tokens, label = g.placeholder((-1, 6), mg.int32), g.placeholder((-1,), mg.int32)
    model = nn.Sequential(
        nn.Embedding(4, 16), nn.PositionalEncoding(),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, norm_first=True), 2, nn.LayerNorm()),
        lambda y: y[:, 0, :], nn.Linear(2),
    )  # fmt: skip
    loss = nn.losses.cross_entropy(model(tokens), label)
    steps = mg.optim.Adam(3e-3).updates(g.gradients(loss, model.parameters()), g.constant(3e-3))
    rng = np.random.default_rng(5)
    rows = rng.integers(2, 4, (64, 6))
    places = np.array([rng.permutation(6)[:2] for _ in range(64)])
    rows[np.arange(64), places[:, 0]], rows[np.arange(64), places[:, 1]] = 0, 1
    feeds = {tokens: rows.astype(np.int32), label: (places[:, 0] < places[:, 1]).astype(np.int32)}
    losses = [float(g.run(feeds, loss, steps)) for _ in range(80)]
    assert losses[-1] < 0.3 * losses[0]


def test_invalid_attention_arguments_and_shapes_raise(x):
    g = mg.Graph()
    given = g.constant(x)
    with pytest.raises(mg.ShapeError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(8, 3)
    with pytest.raises(mg.GraphError, match="dropout"):
        nn.MultiheadAttention(8, 2, dropout=1.0)
    with pytest.raises(mg.ShapeError, match="MultiheadAttention needs"):
        nn.MultiheadAttention(8, 2)(g.placeholder((5, 8)))
    with pytest.raises(mg.DTypeError, match="mask must be bool"):
        nn.MultiheadAttention(8, 2)(given, mask=g.constant(np.zeros((5, 5), np.int32)))
    with pytest.raises(mg.GraphError, match="activation"):
        nn.TransformerEncoderLayer(8, 2, activation="tanh")
    with pytest.raises(mg.ShapeError, match="TransformerEncoderLayer"):
        nn.TransformerEncoderLayer(4, 2)(given)
    used = nn.TransformerEncoderLayer(8, 2)
    used(given)
    with pytest.raises(mg.GraphError, match="has not been called"):
        nn.TransformerEncoder(used, 2)
    with pytest.raises(mg.ShapeError, match="memory"):
        nn.TransformerDecoderLayer(8, 2)(given)
    with pytest.raises(mg.ShapeError, match="at least"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 0)
    with pytest.raises(mg.ShapeError, match="needs a 3-D input"):
        nn.PositionalEncoding()(g.placeholder((5, 8)))
