"""Test pictures and summary tables of graphs: their contents, overlap of nodes, and errors."""

from __future__ import annotations

import itertools
import re

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph.pictures.layout import Layout, rows_of
from mpsgraph.pictures.nodes import nodes_of


def network() -> tuple[mg.Graph, mg.Tensor]:
    g = mg.Graph()
    x, y = g.placeholder((-1, 2), name="x"), g.placeholder((-1, 1), name='the "labels"')
    out = mg.nn.Sequential(mg.nn.Linear(3), mg.nn.Tanh(), mg.nn.Linear(1))(x)
    loss = mg.nn.losses.mean_squared_error(out, y)
    g.gradients(loss, g.trainable_variables)
    return g, loss


def test_dot_contains_every_operation_and_operand():
    g, loss = network()
    text = g.to_dot()
    kept = [o for o in g.operations if o.kind != "constant" or o.outputs[0].shape != ()]
    assert len(re.findall(r"^  n\d+ \[", text, re.MULTILINE)) == len(kept)
    assert text.startswith("digraph {\n") and text.endswith("}\n") and r"the \"labels\"" in text
    edges = sum(any(t.operation is o for o in kept) for user in kept for t in user.inputs)
    assert text.count(" -> ") == edges
    assert len(g.to_dot([loss])) < len(text) and "#d5efd5" in g.to_dot([loss])


def test_dot_shows_control_dependencies_blocks_and_constants():
    g = mg.Graph()
    x = g.placeholder((), name="x")
    v = g.variable(1.0, name="v")
    y = g.control_dependency([g.assign(v, x)], lambda: g.read(v)) * 2.5
    z = g.for_(3, initial=[y], body=lambda i, value: value + x)[0]
    text = g.to_dot([z])
    assert "style=dashed" in text and "operand 1: 2.5" in text and "block of" in text
    names = [node.lines[0] for node in nodes_of(g, [z], 100)]
    loop, fed = names.index("for"), names.index("x")
    assert f"n{fed} -> n{loop}" in text  # the loop body uses it


def test_drawing_large_graph_or_foreign_tensor_raises():
    g, loss = network()
    with pytest.raises(mg.GraphError, match="more than limit=3"):
        g.to_dot(limit=3)
    with pytest.raises(mg.GraphError, match="must be tensors or operations of this graph"):
        mg.Graph().to_dot([loss])
    assert mg.Graph().to_dot().count("\n") == 4


@pytest.mark.parametrize("seed", range(5))
def test_laid_out_nodes_do_not_overlap_and_edges_point_down(seed):
    rng = np.random.default_rng(seed)
    widths = rng.uniform(0.5, 2, 30).tolist()
    edges = sorted({(int(a), int(b)) for a, b in np.sort(rng.integers(0, 30, (50, 2)), axis=1) if a < b})
    layout = Layout(widths, edges)
    for row in layout.order:
        for left, right in itertools.pairwise(row):
            room = (layout.widths[left] + layout.widths[right]) / 2
            assert layout.x[right] - layout.x[left] >= room - 1e-6
    assert all(layout.rows[start] < layout.rows[end] for start, end in edges)
    assert set(layout.paths) == set(edges)


def test_graph_layout_rows_follow_longest_paths():
    assert rows_of(4, [(0, 1), (1, 3), (2, 3)]) == [0, 1, 1, 2]
    assert rows_of(0, []) == []


def test_draw_writes_png_and_svg(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    g, loss = network()
    for name in ("graph.png", "graph.svg"):
        axes = g.draw(tmp_path / name, [loss])
        assert (tmp_path / name).stat().st_size > 5000
    said = [text.get_text() for text in axes.texts]
    assert {"x", 'the "labels"', loss.name} <= set(said)
    figure, given = pyplot.subplots()
    assert g.draw(axes=given) is given and len(given.texts) > len(said)
    pyplot.close("all")
    assert mg.Graph().draw() is not None
    pyplot.close("all")


def test_html_of_graph_and_model_lists_operations_and_parameters():
    g, loss = network()
    html = g._repr_html_()
    assert "2 placeholders" in html and "4 variables" in html and "matrix_multiplication" in html
    assert "the &quot;labels&quot;" in html
    model = mg.Model(g, {"x": g.placeholders[0]}, {"loss": loss})._repr_html_()
    assert "1 inputs" in model and "1 outputs" in model and "4 parameters" in model
    for _ in range(30):
        g.placeholder((1,))
    assert "… and 12 more" in g._repr_html_()
    assert "<table" in mg.History()._repr_html_()
