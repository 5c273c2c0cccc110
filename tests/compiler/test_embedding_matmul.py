"""Test matmuls of embeddings: a table with fewer rows than lookups is multiplied before its rows are gathered."""

import re

import mpsgraph as mg
import numpy as np
import pytest
from harness import device

PLAIN = mg.CompilationDescriptor(disabled_passes=("simplify", "fuse"))
ROWS, WIDTH, RESULTS = 11, 48, 40
SHAPE = (6, 30)  # shape of the indices, 180 lookups


def numbers(shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def indices(shape=SHAPE, rows=ROWS):
    return np.random.default_rng(2).integers(0, rows, shape).astype(np.int32)


def steps_of(text):
    """Return the row counts of all matmul results, and the lengths of the sums in weight gradients."""
    products = re.findall(r"matrix_multiplication\((%\w+(?::\d)?), .*\) (?:{.*} )?: \w+\[(\d+),", text)
    types = dict(re.findall(r"(%\w+) = .* : \w+\[([\d,]+)\]", text))
    return sorted(
        {int(rows) for _, rows in products} | {int(types[a].split(",")[-1]) for a, _ in products if a in types}
    )


class Model:
    """tanh(table[i] · w + b), and its gradients for a random incoming gradient."""

    def __init__(self, dtype=np.float32, shape=SHAPE, rows=ROWS, out_of_range="error", turned=None, table=None, w=None):
        self.g = g = mg.Graph()
        self.table = g.variable(numbers((rows, WIDTH), dtype) if table is None else table, name="table")
        self.w = g.variable(numbers((WIDTH, RESULTS), dtype, 3) if w is None else w, name="w")
        self.b = g.variable(numbers((RESULTS,), dtype, 4), name="b")
        self.i = g.placeholder(shape, mg.int32, "i")
        e = g.gather(self.table, self.i, axis=0, out_of_range=out_of_range)
        if turned:
            e = g.transpose(e, turned)
        self.y = g.tanh(g.matrix_multiplication(e, self.w) + self.b)
        start = g.constant(numbers(self.y.shape, dtype, 5))
        gradients = g.gradients(self.y, [self.table, self.w, self.b], start=start)
        self.targets = [self.y, *(gradients[v] for v in (self.table, self.w, self.b))]

    def results(self, i, options=None):
        seen: dict[str, str] = {}
        options = options or mg.CompilationDescriptor(observe=seen.__setitem__)
        executable = self.g.compile({self.i: (i.shape, mg.int32)}, self.targets, options=options)
        return [r.numpy() for r in executable.run([i])], seen.get("simplify", "")


def compare(model, i, tolerance=3e-5):
    found, text = model.results(i)
    wanted, _ = model.results(i, PLAIN)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())
    return text


@pytest.mark.both_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float64] if device.has("float64") else [np.float32])
@pytest.mark.parametrize(("shape", "turned"), [(SHAPE, None), (SHAPE, (1, 0, 2)), ((6, 5, 6), (1, 2, 0, 3))])
def test_embedding_matmul_multiplies_table_instead_of_gathered_rows(dtype, shape, turned):
    """No matmul may have as many rows as there are lookups, or sum over them."""
    text = compare(Model(dtype, shape, turned=turned), indices(shape), 3e-5 if dtype is np.float32 else 1e-13)
    assert steps_of(text) == [ROWS, RESULTS, WIDTH] == sorted({ROWS, RESULTS, WIDTH}), text
    assert f"[180,{WIDTH}]" not in text and f"[6,30,{WIDTH}]" not in text, text


def test_embedding_matmul_with_large_table_is_not_rewritten():
    """Tables with as many rows as lookups, or with rows too short for a benefit, are left unchanged."""
    text = compare(Model(rows=180), indices(rows=180))
    assert "gather_gradient(%matrix" in text or "[180,48]" in text
    g = mg.Graph()
    table, i = g.variable(numbers((11, 16))), g.placeholder((180,), mg.int32)
    y = g.matrix_multiplication(g.gather(table, i, axis=0, out_of_range="error"), g.variable(numbers((16, 40))))
    seen: dict[str, str] = {}
    g.compile({i: ((180,), mg.int32)}, [y], options=mg.CompilationDescriptor(observe=seen.__setitem__))
    assert steps_of(seen["simplify"]) == [16, 180]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_unused_table_row_does_not_affect_gradients(value):
    table, i = numbers((ROWS, WIDTH)), indices()
    table[4] = value
    model = Model(table=table)
    i[i == 4] = 5
    text = compare(model, i)
    assert "select" in text and all(np.isfinite(r).all() for r in model.results(i)[0])
    assert not model.results(i)[0][1][4].any()


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_non_finite_used_table_row_propagates_as_without_rewrite(value):
    table, i = numbers((ROWS, WIDTH)), indices()
    table[4, 7] = value
    model = Model(table=table)
    (found, _), (wanted, _) = model.results(i), model.results(i, PLAIN)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))


def test_program_with_zero_fill_lookups_is_not_rewritten():
    """An out-of-range lookup gives zeros, and zero times an infinite weight is NaN. No row of the multiplied table
    would contain this NaN.
    """
    w = numbers((WIDTH, RESULTS), seed=3)
    w[0, 0] = np.inf
    model, i = Model(out_of_range="zeros", w=w), indices()
    i[0, :5] = [-1, ROWS, 2**31 - 1, -(2**31), 0]
    found, text = model.results(i)
    assert steps_of(text)[-1] == 180 and np.isnan(found[0][0, :4, 0]).all()
    for a, b in zip(found, model.results(i, PLAIN)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=3e-4)


def test_embedding_matmul_with_clipped_or_constant_indices_is_rewritten():
    i = indices()
    i[0, :4] = [-1, ROWS, 2**31 - 1, -(2**31)]
    assert 180 not in steps_of(compare(Model(out_of_range="clip"), i))
    g = mg.Graph()
    table, w = g.variable(numbers((ROWS, WIDTH))), g.variable(numbers((WIDTH, RESULTS)))
    y = g.matrix_multiplication(g.gather(table, g.constant(indices()), axis=0), w)
    seen: dict[str, str] = {}
    executable = g.compile({}, [y], options=mg.CompilationDescriptor(observe=seen.__setitem__))
    assert steps_of(seen["simplify"]) == [ROWS, WIDTH]
    expected = numbers((ROWS, WIDTH))[indices()] @ numbers((WIDTH, RESULTS))
    np.testing.assert_allclose(executable.run([])[0].numpy(), expected, rtol=1e-4, atol=1e-4)


def test_invalid_embedding_index_raises_and_leaves_variables_unchanged():
    model = Model()
    assigned = model.g.assign(model.table, model.table - 0.1 * model.targets[1])
    i = indices()
    i[3, 3] = ROWS
    before = model.g.run({}, model.table).numpy().copy()
    with pytest.raises(mg.OutOfRangeError, match=r"index 11 at \(3,3\) of 'i'"):
        model.g.run({model.i: i}, model.y, [assigned])
    np.testing.assert_array_equal(model.g.run({}, model.table).numpy(), before)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_embedding_gradients_are_not_rewritten(dtype):
    """Rows of the product are exact, but rewritten gradient sums would be rounded twice, so they are not rewritten."""
    g = mg.Graph()
    table, w = (g.cast(g.variable(numbers(s, seed=k)), dtype) for s, k in (((ROWS, WIDTH), 1), ((WIDTH, RESULTS), 3)))
    i = g.placeholder(SHAPE, mg.int32)
    y = g.matrix_multiplication(g.gather(table, i, axis=0, out_of_range="error"), w)
    wide = g.cast(y, mg.float32)
    gradients = g.gradients(wide, [table, w], start=g.constant(numbers(y.shape, seed=5)))
    results = []
    for options in (None, PLAIN):
        executable = g.compile({i: (SHAPE, mg.int32)}, [wide, *(gradients[v] for v in (table, w))], options=options)
        results.append([r.numpy().astype(np.float32) for r in executable.run([indices()])])
    np.testing.assert_array_equal(results[0][0], results[1][0])
    for a, b in zip(results[0][1:], results[1][1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=0.02, atol=0.02 * np.abs(b).max())


@pytest.mark.both_devices
@pytest.mark.parametrize("layer", [mg.nn.LSTM, mg.nn.GRU, mg.nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers_after_embedding_are_rewritten(layer, bidirectional):
    g = mg.Graph()
    embedding, recurrent = mg.nn.Embedding(ROWS, 64), layer(24, bidirectional=bidirectional)
    i = g.placeholder((5, 40), mg.int32)
    y = recurrent(embedding(i))
    parameters = [*embedding.parameters(), *recurrent.parameters()]
    gradients = g.gradients(g.reduction_sum(y * g.constant(numbers(y.shape))), parameters)
    seen: dict[str, str] = {}
    targets = [y, *(gradients[v] for v in parameters)]
    results = []
    for options in (mg.CompilationDescriptor(observe=seen.__setitem__), PLAIN):
        executable = g.compile({i: ((5, 40), mg.int32)}, targets, options=options)
        results.append([r.numpy() for r in executable.run([indices((5, 40))])])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
    text = seen["simplify"]
    assert "float32[200,64]" not in text and "float32[40,5,64]" not in text and "float32[5,40,64]" not in text, text


def test_embedding_matmul_second_derivative_matches_finite_differences():
    """Compare the gradient of a gradient with finite differences."""
    g = mg.Graph()
    table, w = g.variable(numbers((ROWS, WIDTH), np.float64)), g.variable(numbers((WIDTH, 3), np.float64, 3))
    i = g.constant(indices((180,)))
    y = g.tanh(g.matrix_multiplication(g.gather(table, i, axis=0), w) * 0.1)
    first = g.gradients(g.reduction_sum(y), [table])[table]
    of = g.reduction_sum(g.square(first))
    second = g.gradients(of, [w])[w]
    found, value = (result.numpy() for result in g.run({}, [second, w]).values())
    value, step = value.copy(), 1e-5
    for place in ((0, 0), (20, 2)):
        sides = []
        for sign in (1, -1):
            moved = value.copy()
            moved[place] += sign * step
            g.set_variable(w, moved)
            sides.append(float(g.run({}, of)))
        assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(found[place], rel=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_weights_do_not_affect_unused_table_rows(value):
    """The gradient of an unused row is an empty sum, which is zero, whereas zero times infinity would be NaN."""
    w, i = numbers((WIDTH, RESULTS), seed=3), indices()
    w[7, 7] = value
    i[i == 4] = 5
    model = Model(w=w)
    (found, text), (wanted, _) = model.results(i), model.results(i, PLAIN)
    assert steps_of(text)[-1] < 180 and not found[1][4].any()
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
