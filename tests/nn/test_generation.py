"""Test text generation.

Sampling must follow the model's probabilities, beam search must find the best sequence, and prompts may differ in
length.
"""

from itertools import product

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

CLASSES = 5


class Model(nn.Module):
    """A one-layer transformer whose wide output weights give clearly separated probabilities."""

    def __init__(self) -> None:
        self.embedding, self.next = (
            nn.Embedding(CLASSES, 8),
            nn.Linear(CLASSES, weight_initialiser=nn.initialisers.Normal(0, 1)),
        )
        self.layer = nn.TransformerEncoderLayer(8, 2, 8, 0.0, positions=nn.RotaryPositions())

    def forward(self, x, cache=None):
        return self.next(self.layer(self.embedding(x), is_causal=True, cache=cache))


@pytest.fixture(scope="module")
def model():
    made = Model()
    made(mg.Graph(4).placeholder((1, -1), mg.int32))
    return made


def log_odds(model, tokens):
    """Return the log probabilities of each next token, computed from the whole sequence at once."""
    g = mg.Graph()
    twin = Model()
    x = g.constant(np.asarray(tokens, np.int32)[None])
    y = g.log_softmax(twin(x), -1)
    twin.load_state_dict(model.state_dict())
    return g.run({}, y).numpy()[0]


def test_zero_temperature_picks_the_most_likely_token(model):
    written = nn.generate(model, [1, 2, 3], 12, temperature=0.0)
    assert written.shape == (15,) and written.dtype == np.int32
    np.testing.assert_array_equal(log_odds(model, written)[2:-1].argmax(-1), written[3:])


def test_batched_generation_matches_separate_generation(model):
    prompts = [[1], [2, 3, 4, 1, 2], [4, 4, 0]]
    together = nn.generate(model, prompts, 6, temperature=0.0)
    assert together.shape == (3, 11)
    for row, prompt in zip(together, prompts, strict=True):
        alone = nn.generate(model, prompt, 11 - len(prompt), temperature=0.0)
        np.testing.assert_array_equal(row, alone)


def test_generator_does_not_recompile_per_step_and_can_restart(model):
    generator = nn.Generator(model, max_length=40)
    first = generator.generate([[1, 2]], 20, temperature=0.0)
    compiled = generator.graph.cache.compiles
    second = generator.generate([[1, 2]], 30, temperature=0.0)
    assert generator.graph.cache.compiles == compiled
    np.testing.assert_array_equal(first[0], second[0, :22])
    # The prompt is processed in chunks of 4, 2, and 1 tokens.
    generator.generate([[1, 2, 3, 4, 0, 1, 2]], 5, temperature=0.0)
    assert generator.graph.cache.compiles <= compiled + 1


def test_generation_does_not_change_the_training_graph(model):
    g = model.next.weight.graph
    before = g.operation_count, len(g.variables)
    nn.generate(model, [1], 3, temperature=0.0)
    assert before == (g.operation_count, len(g.variables))


def test_generator_load_updates_weights(model):
    other = Model()
    other(mg.Graph(9).placeholder((1, -1), mg.int32))
    generator = nn.Generator(other, max_length=12)
    generator.load(model)
    np.testing.assert_array_equal(
        generator.generate([[1, 2]], 10, temperature=0.0)[0], nn.generate(model, [1, 2], 10, temperature=0.0)
    )


def test_sampled_tokens_depend_only_on_seed(model):
    one, two, three = (nn.generate(model, [1, 2], 30, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != three).any()


ODDS = np.array([0.4, 0.05, 0.3, 0.2, 0.05])


@pytest.mark.both_devices
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ODDS),
        ({"temperature": 0.5}, ODDS**2),
        ({"top_k": 2}, ODDS * [1, 0, 1, 0, 0]),
        ({"top_k": 50}, ODDS),
        ({"top_p": 0.65}, ODDS * [1, 0, 1, 0, 0]),
        ({"top_p": 0.75}, ODDS * [1, 0, 1, 1, 0]),
        ({"top_p": 0.01}, ODDS * [1, 0, 0, 0, 0]),
        # The two most likely of the three tokens, 0.4 and 0.3 out of 0.9, together exceed 0.7.
        ({"top_k": 3, "top_p": 0.7}, ODDS * [1, 0, 1, 0, 0]),
        ({"temperature": 0.0}, ODDS * [1, 0, 0, 0, 0]),
        ({"temperature": 1e-30}, ODDS * [1, 0, 0, 0, 0]),
    ],
)
def test_generated_tokens_follow_predicted_probabilities(options, wanted):
    count = 40000
    g = mg.Graph(7)
    logits = g.broadcast_to(g.constant(np.log(ODDS)[None].astype(np.float32)), (count, 5))
    drawn = g.run({}, nn.sampled(logits, **options)).numpy()
    wanted = wanted / wanted.sum()
    deviation = np.sqrt(wanted * (1 - wanted) / count)
    share = np.bincount(drawn, minlength=5) / count
    assert (np.abs(share - wanted) <= 5 * deviation).all(), share


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}])
def test_tokens_with_infinite_negative_logit_are_never_sampled(options):
    g = mg.Graph(7)
    logits = np.full((2000, 4), -np.inf, np.float32)
    logits[:, 2], logits[:, 0] = 3e38, 3e38
    assert set(g.run({}, nn.sampled(g.constant(logits), **options)).tolist()) == {0, 2}


def test_full_width_beam_search_finds_the_most_likely_sequence(model):
    prompt, length = [1, 3], 4
    ways = {way: log_odds(model, [*prompt, *way]) for way in product(range(CLASSES), repeat=length)}
    sums = {
        way: sum(float(odds[len(prompt) - 1 + i, token]) for i, token in enumerate(way)) for way, odds in ways.items()
    }
    best = max(sums, key=sums.__getitem__)
    found, score = nn.Generator(model, rows=CLASSES**3, max_length=8).beam_search(prompt, length)
    assert tuple(found[2:]) == best and score == pytest.approx(sums[best], abs=1e-4)
    _, narrow = nn.Generator(model, rows=2, max_length=8).beam_search(prompt, length)
    greedy = nn.generate(model, prompt, length, temperature=0.0)
    assert sums[tuple(greedy[2:])] - 1e-4 <= narrow <= sums[best] + 1e-4


def test_beam_search_of_width_one_equals_greedy_search(model):
    np.testing.assert_array_equal(
        nn.generate(model, [1, 2], 10, beams=1), nn.generate(model, [1, 2], 10, temperature=0.0)
    )


def test_generation_stops_at_end_token(model):
    free = nn.generate(model, [1, 2, 3], 20, temperature=0.0)
    end = int(free[5])
    place = 3 + list(free[3:]).index(end)
    ended = nn.generate(model, [1, 2, 3], 20, temperature=0.0, end=end)
    np.testing.assert_array_equal(ended, free[: place + 1])
    rows = nn.generate(model, [[1, 2, 3], [4, 4, 0]], 20, temperature=0.0, end=end)
    for row in rows:
        places = np.flatnonzero(row[3:] == end)
        assert not len(places) or (row[3 + places[0] :] == end).all()


def test_beam_search_length_penalty_normalizes_scores(model):
    """With every sequence kept, the best one has the highest mean log probability, or without a penalty the highest
    sum.
    """
    prompt, length, end = [1, 3], 3, 2
    for penalty in (0.0, 1.0):
        best = -np.inf
        for size in range(1, length + 1):
            for way in product(range(CLASSES), repeat=size):
                if end in way[:-1] or (size < length and way[-1] != end):
                    continue
                odds = log_odds(model, [*prompt, *way])
                best = max(best, sum(float(odds[1 + i, t]) for i, t in enumerate(way)) / size**penalty)
        generator = nn.Generator(model, rows=CLASSES**2, max_length=8)
        found, score = generator.beam_search(prompt, length, end=end, length_penalty=penalty)
        assert score / (len(found) - 2) ** penalty == pytest.approx(best, abs=1e-4)


def test_invalid_generation_arguments_raise(model):
    generator = nn.Generator(model, max_length=8, rows=2)
    with pytest.raises(mg.ShapeError, match="exceeds max_length=8"):
        generator.generate([[1], [2]], 8)
    with pytest.raises(mg.ShapeError, match="2 rows of at least 1 token each"):
        generator.generate([[1]], 2)
    with pytest.raises(mg.ShapeError, match="2 rows of at least 1 token each"):
        generator.generate([[1], []], 2)
    with pytest.raises(mg.OutOfRangeError, match="token 5"):
        generator.generate([[1], [5]], 2)
    with pytest.raises(mg.DTypeError, match="integers"):
        generator.generate(np.array([[1.0], [2.0]]), 2)
    with pytest.raises(mg.Error, match="temperature"):
        generator.generate([[1], [2]], 2, temperature=-1.0)
    with pytest.raises(mg.Error, match="top_p"):
        generator.generate([[1], [2]], 2, top_p=0.0)
    with pytest.raises(mg.ShapeError, match="one prompt"):
        nn.generate(model, [[1], [2]], 2, beams=2)
    with pytest.raises(mg.ShapeError, match="logits"):
        nn.sampled(mg.Graph().placeholder((2, 3, 4)))


def test_recurrent_layer_trains_after_unbuilt_copy_of_it():
    """A copy for another graph has its own weights."""
    from mpsgraph.nn.module import unbuilt_copy

    g, layer = mg.Graph(), nn.LSTM(3)
    x = g.placeholder((1, 4, 2))
    layer(x)
    unbuilt_copy(layer)(mg.Graph().placeholder((1, 4, 2)))
    assert g.run({x: np.ones((1, 4, 2), np.float32)}, layer(x)).shape == (1, 4, 3)
