"""Programs for new sizes made from two complete compilations equal programs that are compiled completely."""

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

LAST = 12
SIZES = (70, 71, 72, 90, 75, 101, 100, 130, 260)


def compiled_completely(run):
    """Run a function. Return its result, and whether the compiler's passes ran."""
    with mg.profiler.profile() as p:
        result = run()
    return result, any(r.name == "simplify" and r.category == "pass" for r in p.records)


def random_graph(seed, batch):
    """Build a graph of random operations on a sequence of open length."""
    rng = np.random.default_rng(seed)
    g = mg.Graph()
    x = g.placeholder((batch, -1, LAST), name="x")
    values, targets = [x], []

    def any_value():
        return values[rng.integers(len(values))]

    def weights(*shape):
        return g.constant(rng.standard_normal(shape).astype(np.float32))

    def rows():  # the length as a vector of one element
        return g.slice_axis(g.shape_of(x), 0, 1, 1)

    def flattened(a):
        flat = g.reshape(a, g.concat([g.constant([-1], dtype="int32"), g.constant([LAST], dtype="int32")], 0))
        return g.reshape(flat @ weights(LAST, LAST), g.shape_of(x))

    def masked(a):
        scores = a @ g.transpose(any_value(), (0, 2, 1))
        square = g.concat([rows(), rows()], 0)
        keep = g.coordinate_along_axis(1, square) <= g.coordinate_along_axis(0, square)
        return g.softmax(g.select(keep, scores, -1e9), axis=-1) @ any_value()

    def halves(a):
        return g.concat([g.slice_axis(a, 2, LAST // 2, LAST // 2), g.slice_axis(a, 2, 0, LAST // 2)], 2)

    def longer(a):
        doubled = g.concat([a, any_value()], 1)
        return g.slice(doubled, (0, 0, 0), g.shape_of(x), (1, 1, 1))

    def scaled(a):
        return a / g.cast(g.reshape(rows(), ()), "float32")

    choices = (
        lambda a: g.tanh(a),
        lambda a: a + any_value(),
        lambda a: a * weights(LAST),
        lambda a: a @ weights(LAST, LAST),
        lambda a: a - g.mean(a, (1,)),
        lambda a: g.softmax(a, axis=1),
        lambda a: g.reverse(a, (1,)),
        lambda a: g.cumulative_sum(a, 1),
        lambda a: g.broadcast_to(g.reduction_maximum(a, 1), g.shape_of(x)),
        flattened,
        masked,
        halves,
        longer,
        scaled,
    )
    for _ in range(12):
        values.append(choices[rng.integers(len(choices))](any_value()))
    targets += [values[-1], g.mean(values[-2], None)]
    loss = g.mean(g.tanh(values[-1]), None)
    targets += [g.gradients(loss, [x])[x]]
    return g, x, targets


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_for_new_sizes_equal_fresh_ones_to_the_bit(seed):
    batch = (1, 3, -1)[seed % 3]
    g, x, targets = random_graph(seed, batch)
    rng = np.random.default_rng(seed + 1000)
    complete = []
    for length in SIZES:
        fed = rng.standard_normal((2 if batch < 0 else batch, length, LAST)).astype(np.float32)
        found, passes = compiled_completely(lambda fed=fed: g.run({x: fed}, targets))
        fresh, x_fresh, targets_fresh = random_graph(seed, batch)
        expected = fresh.run({x_fresh: fed}, targets_fresh)
        for a, b in zip(targets, targets_fresh, strict=True):
            np.testing.assert_array_equal(found[a].numpy(), expected[b].numpy())
        complete.append(passes)
    assert complete[0] and complete[1]
    assert complete.count(False) >= 4, complete


def decoder(words=50, width=32):
    layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, norm_first=True)

    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x, is_causal=True)

    return nn.Sequential(nn.Embedding(words, width), Causal(), nn.LayerNorm(), nn.Linear(words))


def trainer():
    return mg.Trainer(decoder(), loss="cross_entropy", optimizer=mg.optim.AdamW(1e-2), metrics=(), seed=3)


def test_training_steps_of_new_lengths_equal_those_of_complete_compilations():
    rng = np.random.default_rng(0)
    one, other = trainer(), trainer()
    complete = []
    for length in (70, 90, 72, 76, 89, 95, 92):
        x, y = rng.integers(50, size=(2, 4, length), dtype=np.int32)
        loss, passes = compiled_completely(lambda x=x, y=y: float(one.train_step(x, y)))
        complete.append(passes)
        other.graph.clear_cache()
        assert loss == float(other.train_step(x, y))
    assert complete[3:] == [False, False, True, False], "lengths between two compiled ones need no passes"


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(12), nn.Linear(10)

    def forward(self, x):
        return self.head(self.lstm(x).mean(axis=1))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_does_not_depend_on_the_batch_sizes_that_came_before(precision):
    """The compiler adds the bias elsewhere for larger batches, which changes the rounding."""
    rng = np.random.default_rng(0)
    one, other = (
        mg.Trainer(Recurrent(), loss="cross_entropy", optimizer="sgd", metrics=(), seed=3, precision=precision)
        for _ in range(2)
    )
    for batch in (20, 22, 21, 24, 30, 40, 25):
        x, y = rng.standard_normal((batch, 9, 6)).astype(np.float32), rng.integers(10, size=batch, dtype=np.int32)
        other.graph.clear_cache()
        assert float(one.train_step(x, y)) == float(other.train_step(x, y)), batch
    for name, weight in one.weights().items():
        np.testing.assert_array_equal(weight, other.weights()[name], err_msg=name)


def test_slice_that_covered_the_whole_axis_is_kept_for_longer_inputs():
    g = mg.Graph()
    x = g.placeholder((-1,))
    y = g.slice(x, (0,), (100,), (1,)) * 2.0
    for length in (50, 60, 70, 100, 120, 130, 140):
        fed = np.arange(length, dtype=np.float32)
        np.testing.assert_array_equal(g.run({x: fed}, y).numpy(), 2 * fed[:100])


def test_branches_chosen_by_sizes():
    g = mg.Graph()
    x = g.placeholder((-1,))
    long = g.reshape(g.shape_of(x), ()) > 80
    y = g.if_(long, lambda: [x + 1.0], lambda: [x - 1.0])[0]
    for length in (70, 71, 72, 90, 91, 92, 73):
        fed = np.zeros(length, np.float32)
        assert g.run({x: fed}, y).numpy()[0] == (1 if length > 80 else -1)


def test_errors_of_new_sizes_are_those_of_a_complete_compilation():
    g = mg.Graph()
    x, y = g.placeholder((-1,)), g.placeholder((-1,))
    total = x + y
    for length in (20, 21, 22):
        g.run({x: np.zeros(length, np.float32), y: np.zeros(length, np.float32)}, total)
    with pytest.raises(mg.ShapeError, match="addition"):
        g.run({x: np.zeros(23, np.float32), y: np.zeros(24, np.float32)}, total)
    assert g.run({x: np.ones(25, np.float32), y: np.ones(25, np.float32)}, total).numpy().sum() == 50
