"""Test that the fuse pass fuses rotary embeddings and their gradients."""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest

PLAIN = mg.CompilationDescriptor(disabled_passes=("fuse",))


def rotated(g, x, axis: int = -1, split: bool = True):
    half = x.shape[axis] // 2
    first, second = g.split(x, 2, axis) if split else (x[..., :half], x[..., half:])
    return g.concat([-second, first], axis)


def compiled(g, feeds, targets):
    """Return the number of fused rotary embeddings, after comparing results with those without the pass."""
    seen: dict[str, str] = {}
    types = {p: v.shape for p, v in feeds.items()}
    options = mg.CompilationDescriptor(observe=seen.__setitem__)
    found, wanted = (
        [r.numpy() for r in executable.run([feeds[f] for f in executable.feeds])]
        for executable in (g.compile(types, targets, options=o) for o in (options, PLAIN))
    )
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    return seen["fuse"].count("= rotary_embedding(")


def numbers(*shapes):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


SHAPES = [
    ((2, 5, 3, 32), (1, 1, 3, 32)),  # batch, heads, positions, features
    ((2, 5, 3, 32), (2, 1, 3, 32)),
    ((7, 10), (7, 10)),
    ((3000, 34), (3000, 34)),  # large enough to be split between threads
    ((7, 500, 34), (500, 34)),
    ((6, 4, 66), (66,)),  # half a row is not a whole number of vectors
    ((6,), (6,)),
    ((3, 0, 8), (1, 8)),
    ((3, 0), (0,)),
]


@pytest.mark.parametrize(("shape", "angles"), SHAPES)
@pytest.mark.parametrize("split", [False, True])
def test_rotary_embedding_and_gradient_are_fused(shape, angles, split):
    """Factors and terms may come in either order."""
    g = mg.Graph()
    x, c, s, start = (g.placeholder(dims) for dims in (shape, angles, angles, shape))
    h = rotated(g, x, split=split)
    y = s * h + c * x if split else x * c + h * s
    feeds = dict(zip((x, c, s, start), numbers(shape, angles, angles, shape), strict=True))
    assert compiled(g, feeds, [y, g.gradients(y, [x], start=start)[x]]) == 2 or 0 in shape


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("order", [(0, 2, 1, 3), (1, 2, 0, 3), (2, 1, 0, 3)])
def test_rotary_embedding_fuses_transpose_of_heads(order, split):
    """Attention computes the features of all heads together, then moves the head axis before the positions."""
    g, stored = mg.Graph(), (2, 7, 3, 16)
    shape = tuple(stored[axis] for axis in order)
    x, c, s, start = (g.placeholder(dims) for dims in (stored, shape[1:], shape[1:], shape))
    heads = g.transpose(x, order)
    y = heads * c + rotated(g, heads, split=split) * s
    gradient = g.gradients(y, [x], start=start)[x]
    feeds = dict(zip((x, c, s, start), numbers(stored, shape[1:], shape[1:], shape), strict=True))
    seen: dict[str, str] = {}
    g.compile(
        {p: v.shape for p, v in feeds.items()},
        [y, gradient],
        options=mg.CompilationDescriptor(observe=seen.__setitem__),
    )
    assert "= transpose(" not in seen["fuse"] and "= slice" not in seen["fuse"], seen["fuse"]
    assert compiled(g, feeds, [y, gradient]) == 2


def test_rotary_embedding_does_not_fuse_transpose_of_features():
    g = mg.Graph()
    x, c, s = g.placeholder((8, 6)), g.placeholder((6, 8)), g.placeholder((6, 8))
    rows = g.transpose(x, (1, 0))
    assert compiled(g, dict(zip((x, c, s), numbers((8, 6), (6, 8), (6, 8)), strict=True)),
                    [rows * c + rotated(g, rows) * s]) == 1  # fmt: skip


def test_rotary_embedding_keeps_intermediate_results_with_other_users():
    g = mg.Graph()
    x, c, s, start = (g.placeholder((4, 6, 8)) for _ in range(4))
    h = rotated(g, x)
    y = x * c + h * s
    gradient = g.gradients(y, [x], start=start)[x]
    feeds = dict(zip((x, c, s, start), numbers(*[(4, 6, 8)] * 4), strict=True))
    assert compiled(g, feeds, [y, h, gradient, g.transpose(gradient, (1, 0, 2))]) == 2


LIKE_IT = {
    "the other half is negative": lambda g, x, c, s: x * c + g.concat([x[:, 4:], -x[:, :4]], -1) * s,
    "halves in their order": lambda g, x, c, s: x * c + g.concat([-x[:, :4], x[:, 4:]], -1) * s,
    "no halves": lambda g, x, c, s: x * c + g.concat([-x[:, 3:], x[:, :3]], -1) * s,
    "another axis": lambda g, x, c, s: x * c + rotated(g, x, 0) * s,
    "another source": lambda g, x, c, s: c * c + rotated(g, x) * s,
    "one number a row": lambda g, x, c, s: x * c[:, :1] + rotated(g, x) * s,
    "a difference": lambda g, x, c, s: x * c - rotated(g, x) * s,
    "every second": lambda g, x, c, s: x * c + g.concat([-x[:, 1::2], x[:, ::2]], -1) * s,
    "turned back, but for the sign's place": lambda g, x, c, s: g.concat([-(x * s)[:, :4], (x * s)[:, 4:]], -1) + x * c,
}


@pytest.mark.parametrize("name", LIKE_IT)
def test_expressions_similar_to_rotary_embedding_are_not_fused(name):
    g = mg.Graph()
    x, c, s = (g.placeholder((6, 8)) for _ in range(3))
    assert compiled(g, dict(zip((x, c, s), numbers(*[(6, 8)] * 3), strict=True)), [LIKE_IT[name](g, x, c, s)]) == 0


def test_float64_rotary_embedding_is_not_fused():
    g = mg.Graph()
    x, c, s = (g.placeholder((6, 8), "float64") for _ in range(3))
    y = x * c + rotated(g, x) * s
    seen: dict[str, str] = {}
    g.compile(
        dict.fromkeys((x, c, s), ((6, 8), "float64")), [y], options=mg.CompilationDescriptor(observe=seen.__setitem__)
    )
    assert "rotary_embedding" not in seen["fuse"]
