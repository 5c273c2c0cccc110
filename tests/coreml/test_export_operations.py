"""Export operations that no layer uses and import them again: loops, branches, scatters, and attention of dynamic
length.
"""

import mpsgraph as mg
import numpy as np
import pytest

ct = pytest.importorskip("coremltools", reason="coremltools is not installed: make test-coreml")
pytestmark = pytest.mark.filterwarnings("default")  # coremltools warns about untested versions of other packages.
RNG = np.random.default_rng(1)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def check(path, inputs, outputs, feeds, **options):
    """Compare the results of the graph with those of its exported and imported model, for each of the feeds."""
    g = next(iter(inputs.values())).graph
    mg.coreml.export(g, path / "net.mlpackage", inputs=inputs, outputs=outputs, **options)
    back = mg.coreml.load(path / "net.mlpackage")
    for arrays in feeds:
        wanted = g.run({inputs[name]: array for name, array in arrays.items()}, list(outputs.values()))
        found = back.run(arrays)
        for name, tensor in outputs.items():
            np.testing.assert_allclose(found[name].numpy(), wanted[tensor].numpy(), rtol=1e-5, atol=1e-5, err_msg=name)


def test_exported_branches_match_graph(tmp_path):
    """Branches capture outer values, are nested, and return values of the outer scope unchanged."""
    g = mg.Graph()
    x, y = g.placeholder((3,), name="x"), g.placeholder((3,), name="y")
    total = g.reduction_sum(x, 0)

    def inner():
        return g.if_(g.reshape(total > 5.0, (1,)), lambda: [x * y, y], lambda: [x - y, x + 1.0])

    first, second = g.if_(total > 0.0, inner, lambda: [y, g.exponent(x) * 2.0])
    feeds = [{"x": np.float32(v), "y": numbers(3)} for v in ([1, 1, 0], [3, 3, 3], [-1, -2, 0])]
    check(tmp_path, {"x": x, "y": y}, {"first": first, "second": second}, feeds)


@pytest.mark.parametrize(("lower", "upper", "step"), [(0, 4, 1), (7, 1, -2), (3, 3, 1)])
def test_exported_counted_loop_matches_graph(lower, upper, step, tmp_path):
    g = mg.Graph()
    x = g.placeholder((-1, 2), name="x")
    last, sums = g.for_(lower, upper, step, initial=[x, x * 0.0], body=lambda i, a, b: [
        a * 0.5 + g.cast(i, "float32"), b + a,
    ])  # fmt: skip
    check(tmp_path, {"x": x}, {"last": last, "sums": sums}, [{"x": numbers(n, 2)} for n in (1, 3)])


def test_exported_while_loops_match_graph(tmp_path):
    """The loop runs several times or not at all; its results are the values before the failing condition."""
    g = mg.Graph()
    x = g.placeholder((2,), name="x")
    count, value = g.while_(
        [g.constant([0], dtype="int32"), x],
        lambda n, a: (g.reduction_maximum(a, [0]) < 50.0, [n, a + 1.0]),
        lambda n, a: [n + 1, a * 2.0],
    )
    feeds = [{"x": np.float32(v)} for v in ([0, 1], [20, 3], [90, 0])]
    check(tmp_path, {"x": x}, {"count": count, "value": value}, feeds)


def test_export_error_names_unsupported_operation_in_a_block(tmp_path):
    g = mg.Graph()
    x = g.placeholder((3,), name="x")
    made = g.for_(3, initial=[x], body=lambda i, a: [g.cast(g.cast(a, "int32") // 2, "float32")])[0]
    with pytest.raises(
        mg.UnsupportedError, match="for 'for'.*in its block: the operation divides integers rounding toward zero"
    ):
        mg.coreml.export(g, tmp_path / "net.mlpackage", outputs={"y": made})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", ["add", "sub", "mul", "div", "min", "max", "set"])
@pytest.mark.parametrize("rule", ["drop", "clip", "error"])
def test_exported_scatters_match_graph(rule, mode, tmp_path):
    """The scatter indices are in and out of range, in each mode."""
    g = mg.Graph()
    data, rows = g.placeholder((4, 3), name="data"), g.placeholder((5, 3), name="rows")
    at = g.placeholder((5,), "int32", "at")
    cells = g.placeholder((4, 2), "int32", "cells")
    inside = np.int32([2, 0, 3, 1, 2])
    outside = inside if rule == "error" else np.int32([2, -1, 4, 1, 9])
    outputs = {
        "rows_put": g.scatter(rows, at, 0, mode, data=data, out_of_range=rule),
        "rows_put_nd": g.scatter_nd(rows, g.expand_dims(at, axes=1), 0, mode, data=data, out_of_range=rule),
        "cells_put": g.scatter_along_axis(1, rows[:4, :2], cells, mode, data=data, out_of_range=rule),
    }
    feeds = []
    for places in (inside, outside):
        columns = np.stack([places[:4] % 3, places[1:] % 3], 1) if places is inside or rule == "error" else None
        columns = np.int32([[0, 5], [-2, 1], [2, 0], [3, 1]]) if columns is None else columns.astype(np.int32)
        feeds.append({"data": numbers(4, 3), "rows": numbers(5, 3) + 3.0, "at": places, "cells": columns})
    check(tmp_path, {"data": data, "rows": rows, "at": at, "cells": cells}, outputs, feeds, target="iOS17")


def test_exported_causal_attention_accepts_dynamic_lengths(tmp_path):
    g = mg.Graph()
    q, k, v = (g.placeholder((2, -1, 4), name=name) for name in "qkv")
    y = g.scaled_dot_product_attention(q, k, v, causal=True)
    feeds = [{"q": numbers(2, n, 4), "k": numbers(2, m, 4), "v": numbers(2, m, 4)} for n, m in ((3, 3), (2, 5), (4, 1))]
    check(tmp_path, {"q": q, "k": k, "v": v}, {"y": y}, feeds)


def test_exported_non_zero_indices_match_graph(tmp_path):
    g = mg.Graph()
    x = g.placeholder((3, 4), name="x")
    places = g.non_zero_indices(x > 0.5)
    check(tmp_path, {"x": x}, {"places": places}, [{"x": numbers(3, 4)}, {"x": np.ones((3, 4), np.float32)}])
    padded = g._tensor("non_zero_indices", [x, g.constant([5, 2], dtype="int32")])
    with pytest.raises(mg.UnsupportedError, match="number of rows must be the number of non-zero elements"):
        mg.coreml.export(g, tmp_path / "other.mlpackage", outputs={"places": padded})
