"""Attention and transformers give PyTorch's values and gradients with its parameters; masks, modes, training."""

import mpsgraph as mg
import numpy as np
import pytest
from harness.torch_layers import compare
from mpsgraph import nn


def ours(parameters):
    """PyTorch's names and layouts as ours: packed maps apart, weights of maps transposed, gamma and beta."""
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
def test_attention_is_that_of_torch(name, known):
    module, run = CASES[name]()
    compare(name, run, module=module, state=ours, known=known)


@pytest.fixture
def x(rng):
    return rng.normal(size=(2, 5, 8)).astype(np.float32)


def test_with_and_without_weights_are_one(x):
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


def test_dropout_of_the_weights_only_in_training(x):
    g = mg.Graph(seed=1)
    layer, given = nn.MultiheadAttention(8, 2, dropout=0.5), g.constant(x)
    training, inference = layer(given), layer.eval()(given)
    dropped = layer.train().with_weights(given, average=False)[1]
    first, second = (g.run({}, [training, inference, dropped]) for _ in range(2))
    assert (first[training].numpy() != second[training].numpy()).any()
    assert 0.3 < (first[dropped].numpy() == 0).mean() < 0.7
    np.testing.assert_array_equal(first[inference].numpy(), second[inference].numpy())


def test_positions_are_waves(x):
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


def test_layers_of_an_encoder_have_values_of_their_own(x):
    g = mg.Graph(seed=1)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    model(g.constant(x))
    state = model.state_dict()
    assert (state["layers.0.linear1.weight"] != state["layers.1.linear1.weight"]).any()
    assert len(state) == 2 * 16


def test_a_transformer_learns():
    """Which of two tokens comes first in a sequence: order and content both count."""
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


def test_what_does_not_fit_is_said(x):
    g = mg.Graph()
    given = g.constant(x)
    with pytest.raises(mg.ShapeError, match="do not split into 3 heads"):
        nn.MultiheadAttention(8, 3)
    with pytest.raises(mg.GraphError, match="dropout"):
        nn.MultiheadAttention(8, 2, dropout=1.0)
    with pytest.raises(mg.ShapeError, match="MultiheadAttention needs"):
        nn.MultiheadAttention(8, 2)(g.placeholder((5, 8)))
    with pytest.raises(mg.DTypeError, match="mask must be of bools"):
        nn.MultiheadAttention(8, 2)(given, mask=g.constant(np.zeros((5, 5), np.int32)))
    with pytest.raises(mg.GraphError, match="activation"):
        nn.TransformerEncoderLayer(8, 2, activation="tanh")
    with pytest.raises(mg.ShapeError, match="TransformerEncoderLayer"):
        nn.TransformerEncoderLayer(4, 2)(given)
    used = nn.TransformerEncoderLayer(8, 2)
    used(given)
    with pytest.raises(mg.GraphError, match="not called"):
        nn.TransformerEncoder(used, 2)
    with pytest.raises(mg.ShapeError, match="memory"):
        nn.TransformerDecoderLayer(8, 2)(given)
    with pytest.raises(mg.ShapeError, match="at least"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 0)
    with pytest.raises(mg.ShapeError, match="three axes"):
        nn.PositionalEncoding()(g.placeholder((5, 8)))


# --- queries without keys ---------------------------------------------------------------------------------------------

PADDED = np.array([[False] * 5, [True] * 5, [False, False, True, True, True]])


def added(mask):
    return np.where(mask, -np.inf, 0.0).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("bools", [True, False], ids=["bools", "numbers"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("causal", [False, True])
def test_a_row_of_padding_gives_the_output_bias_and_no_gradient(causal, dropout, bools, dtype, rng):
    g = mg.Graph(seed=1)
    fed = g.placeholder((3, 5, 8))
    padding = g.placeholder((3, 5), mg.bool_ if bools else "float32")
    layer = nn.MultiheadAttention(8, 2, dropout=dropout)
    x = g.cast(fed, dtype)
    y = layer(x, key_padding_mask=padding, is_causal=causal)
    state = {k: rng.normal(size=v.shape).astype(v.dtype) for k, v in layer.state_dict().items()}
    layer.load_state_dict(state)
    result, weights = layer.eval().with_weights(x, key_padding_mask=padding, is_causal=causal)
    slopes = g.gradients(g.reduction_sum(g.square(y)), [fed, *layer.parameters()])
    values = rng.normal(size=(3, 5, 8)).astype(np.float32)
    feeds = {fed: values, padding: PADDED if bools else added(PADDED)}
    targets = [g.cast(t, "float64") for t in (y, result, weights, *slopes.values())]
    found = [v.numpy() for v in g.run(feeds, targets).values()]
    bias = g.run({}, g.cast(layer.output.bias, "float64")).numpy()
    for given in found[:2]:
        np.testing.assert_array_equal(given[1], np.tile(bias, (5, 1)))
    assert (found[2][1] == 0).all() and (found[2][0].sum(-1) > 0.99).all()
    assert (found[3][1] == 0).all(), "nothing comes back to the row of padding"
    assert all(np.isfinite(v).all() for v in found)
    assert (found[3][0] != 0).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_padding_in_front_of_causal_attention(dtype, rng):
    """The first queries see padding alone; the others what they would see without it."""
    g = mg.Graph(seed=1)
    x, mask = g.placeholder((-1, -1, 8)), g.placeholder((-1, -1), mg.bool_)
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2)
    y = layer(g.cast(x, dtype), key_padding_mask=mask, is_causal=True)
    loss = g.reduction_sum(g.square(g.slice_axis(y, 1, 3, 2)))
    targets = [g.cast(t, "float32") for t in (y, *g.gradients(loss, layer.parameters()).values())]
    values = rng.normal(size=(1, 5, 8)).astype(np.float32)
    padded = g.run({x: values, mask: [[True] * 3 + [False] * 2]}, targets)
    z = layer(g.cast(x, dtype), is_causal=True)
    short = g.run({x: values[:, 3:]}, g.cast(z, "float32")).numpy()
    rounding = 1e-5 if dtype == "float32" else 5e-2
    np.testing.assert_allclose(padded[targets[0]].numpy()[:, 3:], short, rtol=rounding, atol=rounding)
    assert all(np.isfinite(v.numpy()).all() for v in padded.values())


def test_a_decoder_whose_memory_is_padding(rng):
    g = mg.Graph(seed=1)
    x, memory, mask = g.placeholder((2, 3, 8)), g.placeholder((2, 4, 8)), g.placeholder((2, 4), mg.bool_)
    layer = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 2)
    y = layer(x, memory, memory_key_padding_mask=mask, is_causal=True)
    slopes = g.gradients(g.reduction_sum(g.square(y) * 0.5 + y), [memory, *layer.parameters()])
    feeds = {x: rng.normal(size=(2, 3, 8)).astype(np.float32), mask: [[False] * 4, [True] * 4]}
    feeds[memory] = rng.normal(size=(2, 4, 8)).astype(np.float32)
    found = [v.numpy() for v in g.run(feeds, [y, *slopes.values()]).values()]
    assert all(np.isfinite(v).all() for v in found) and (found[1][1] == 0).all() and (found[1][0] != 0).any()


def test_positions_beyond_the_table_are_an_error():
    for batch_first in (True, False):
        g = mg.Graph()
        x = g.placeholder((-1, -1, 4))
        y = nn.PositionalEncoding(max_length=8, batch_first=batch_first)(x)
        known = nn.PositionalEncoding(max_length=8, batch_first=batch_first)
        for steps in (1, 8):
            fed = np.zeros((2, steps, 4) if batch_first else (steps, 2, 4), np.float32)
            wanted = g.run({}, known(g.constant(fed))).numpy()
            np.testing.assert_array_equal(g.run({x: fed}, y).numpy(), wanted)
            assert (wanted.reshape(-1, 4)[:, 1] != 0).all()
        fed = np.zeros((2, 10, 4) if batch_first else (10, 2, 4), np.float32)
        with pytest.raises(mg.ShapeError, match=r"10,4.*8,4"):
            g.run({x: fed}, y)
    short = nn.PositionalEncoding(max_length=1)(x)
    with pytest.raises(mg.ShapeError, match=r"10,4.*1,4"):  # a single row would broadcast
        g.run({x: np.zeros((2, 10, 4), np.float32)}, short)
