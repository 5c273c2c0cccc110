"""Test Module.summary and repr: shapes, parameters, multiply-adds, and arguments that differ from their defaults."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn


def counted(layer: nn.Module, *shapes: tuple[int, ...], **options: object) -> int:
    return layer.summary(*shapes, **options).multiply_adds


@pytest.mark.parametrize(
    ("layer", "shape", "multiply_adds", "parameters"),
    [
        (nn.Linear(5), (4, 7, 3), 4 * 7 * 3 * 5, 3 * 5 + 5),
        (nn.Conv2d(8, (3, 5)), (2, 10, 12, 4), 2 * 8 * 8 * 8 * 3 * 5 * 4, 3 * 5 * 4 * 8 + 8),
        (nn.Conv2d(8, 3, groups=2, bias=False), (1, 10, 10, 4), 8 * 8 * 8 * 3 * 3 * 2, 3 * 3 * 2 * 8),
        (nn.Conv2d(8, 3, data_layout="NCHW"), (1, 4, 10, 10), 8 * 8 * 8 * 3 * 3 * 4, 3 * 3 * 4 * 8 + 8),
        (nn.Conv1d(6, 3), (-1, 10, 2), 8 * 6 * 3 * 2, 3 * 2 * 6 + 6),
        (nn.ConvTranspose2d(8, 2, strides=2), (1, 5, 5, 4), 5 * 5 * 4 * 2 * 2 * 8, 2 * 2 * 4 * 8 + 8),
        (nn.DepthwiseConv2d(3), (1, 6, 6, 4), 4 * 4 * 4 * 3 * 3, 3 * 3 * 4 + 4),
        (nn.LSTM(16), (2, 7, 5), 2 * 7 * 4 * 16 * (16 + 5), 4 * 16 * (16 + 5) + 4 * 16),
        (nn.Embedding(10, 4), (2, 3), 0, 40),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_summary_counts_match_formulas(layer, shape, multiply_adds, parameters):
    dtype = "int32" if isinstance(layer, nn.Embedding) else "float32"
    summary = layer.summary(shape, dtype=dtype)
    assert summary.multiply_adds == multiply_adds
    own = sum(np.prod(v.shape) for v in built(layer, shape, dtype).parameters())
    assert summary.parameters == own
    if not isinstance(layer, nn.LSTM):  # An LSTM may have one bias per gate or two.
        assert own == parameters


def built(layer: nn.Module, shape: tuple[int, ...], dtype: str) -> nn.Module:
    layer(mg.Graph().placeholder(shape, dtype))
    return layer


def test_summary_counts_attention_matmuls():
    layer = nn.MultiheadAttention(16, 4)
    queries, keys = 5, 7
    per_sample = 16 * 16 * (2 * queries + 2 * keys) + 2 * queries * keys * 16
    assert counted(layer, (-1, queries, 16), (-1, keys, 16), (-1, keys, 16)) == per_sample


def test_summary_leaves_model_unchanged():
    model = nn.Sequential(nn.Linear(4), nn.Dropout(0.5), nn.Linear(2).freeze())
    summary = model.summary((-1, 3))
    with pytest.raises(mg.GraphError):
        model.state_dict()  # The model is not built yet.
    g = mg.Graph()
    model(g.placeholder((-1, 3)))
    before, count = model.state_dict(), g.operation_count
    assert str(model.summary((-1, 3))) == str(summary) and g.operation_count == count and model.training
    assert model.state_dict().keys() == before.keys()
    assert (summary.parameters, summary.trainable_parameters) == (16 + 10, 16)
    assert str(summary).endswith("26 parameters, 10 of them frozen; 20 multiply-adds")
    assert [layer.output for layer in summary.layers] == ["(-1, 2)", "(-1, 4)", "(-1, 4)", "(-1, 2)"]


def test_summary_counts_shared_submodules_once_and_lists_uncalled():
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.shared, self.idle = nn.Linear(3), nn.Linear(9)

        def forward(self, x):
            return self.shared(self.shared(x))

    summary = Twice().summary((-1, 3))
    assert [layer.calls for layer in summary.layers] == [1, 2, 0]
    assert summary.parameters == 12 and summary.multiply_adds == 18
    assert "shared: Linear(3) ×2" in str(summary) and "not called" in str(summary)


def test_summary_accepts_several_inputs_and_rejects_invalid_ones():
    class Sum(nn.Module):
        def forward(self, x, y):
            return {"sum": x + y, "pair": (x, y)}

    assert Sum().summary((-1, 2), (-1, 2)).layers[0].output == "sum: (-1, 2), pair: (-1, 2), (-1, 2)"
    assert "int32" not in str(nn.Embedding(4, 2).summary((-1, 3), dtype="int32"))
    with pytest.raises(mg.GraphError, match="2 input shapes but 3 dtypes"):
        Sum().summary((-1, 2), (-1, 2), dtype=["float32"] * 3)
    with pytest.raises(mg.ShapeError, match="input_shape"):
        nn.Linear(2).summary(("a", 2))


def test_summary_renders_as_html_in_notebooks():
    html = nn.Sequential(nn.Linear(4), nn.ReLU()).summary((-1, 3))._repr_html_()
    assert html.count("<tr>") == 4 and "0: Linear(4)" in html and "16 parameters" in html
    assert "Linear(4)" in nn.Linear(4)._repr_html_()


# --- representations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (nn.Linear(10), "Linear(10)"),
        (nn.Linear(out_features=10, bias=False), "Linear(10, bias=False)"),
        (nn.Dropout(), "Dropout()"),
        (nn.Dropout(0.1), "Dropout(rate=0.1)"),
        (nn.Conv2d(8, (3, 5), strides=2, padding="valid"), "Conv2d(8, (3, 5), strides=2)"),
        (nn.Conv2d(8, 3, padding="same"), "Conv2d(8, 3, padding='TF_SAME')"),
        (nn.LayerNorm(epsilon=1e-3), "LayerNorm(epsilon=0.001)"),
        (nn.LSTM(4, num_layers=2, bidirectional=True), "LSTM(4, num_layers=2, bidirectional=True)"),
        (nn.Linear(2, weight_initialiser=nn.initialisers.HeNormal()), "Linear(2, weight_initialiser=HeNormal())"),
        (mg.optim.Adam(), "Adam()"),
        (mg.optim.Adam(1e-4, beta2=0.9), "Adam(learning_rate=0.0001, beta2=0.9)"),
        (mg.optim.SGD(mg.optim.StepRate(0.1, every=3)), "SGD(learning_rate=StepRate(0.1, 3))"),
        (mg.optim.ClipByNorm(mg.optim.SGD(0.1), 2.0), "ClipByNorm(SGD(0.1), 2.0)"),
        (nn.metrics.Precision(threshold=0.3), "Precision(threshold=0.3)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_repr_shows_only_non_default_arguments(made, text):
    if text.startswith("ClipByNorm"):
        assert "SGD(learning_rate=0.1)" in repr(made) or "SGD(0.1)" in repr(made)
    else:
        assert repr(made) == text


def test_repr_shows_changed_attributes():
    dropout, optimizer = nn.Dropout(0.1), mg.optim.SGD(0.5)
    dropout.rate, optimizer.learning_rate = 0.3, 0.25
    assert repr(dropout) == "Dropout(rate=0.3)" and "0.25" in repr(optimizer)


def test_repr_indents_submodules():
    class Own(nn.Module):
        def __init__(self, size: int, *, scale: float = 1.0) -> None:
            self.inner = nn.Linear(size)

        def forward(self, x):
            return self.inner(x)

    assert repr(nn.Sequential(Own(3, scale=2.0))) == (
        "Sequential(\n  (0): Own(3, scale=2.0\n    (inner): Linear(3)\n  )\n)"
    )
