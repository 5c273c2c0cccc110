"""Compare attention with float64 numpy: tile sizes, masks, causal order, dropout, shared key heads, and extreme values.

Results and gradients of the tiled kernels are also compared with the decomposed operations, and their memory use is
checked. cpu/test_instruction_sets.py runs this file with every instruction set.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.running import REFERENCE

EXACT = device.has("float64")


def attention(q, k, v, mask, scale, causal, factor=1.0):
    """Return the attention in float64, and a function for the gradients of query, key, value, and mask."""
    q, k, v, mask = (np.asarray(x, np.float64) for x in (q, k, v, 0.0 if mask is None else mask))
    given = q, k, v, mask
    scores = scale * q @ k.swapaxes(-1, -2)
    added = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, scores.shape[-2:]))
    if causal:
        added = added + np.where(np.tri(*scores.shape[-2:], dtype=bool), 0.0, -np.inf)
    blind = (added == -np.inf).all(-1, keepdims=True)
    scores = scores + np.where(blind, 0.0, added)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = np.where(blind, 0.0, weights / weights.sum(-1, keepdims=True))
    dropped = weights * factor
    result = dropped @ v

    def summed(x, like):
        x = x.sum(tuple(range(x.ndim - like.ndim)))
        return x.sum(tuple(i for i, n in enumerate(like.shape) if n == 1 and x.shape[i] != 1), keepdims=True)

    def gradients(incoming):
        d_weights = factor * (incoming @ v.swapaxes(-1, -2))
        d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdims=True))
        found = (
            scale * d_scores @ k,
            scale * d_scores.swapaxes(-1, -2) @ q,
            dropped.swapaxes(-1, -2) @ incoming,
            d_scores,
        )
        return [summed(x, like) for x, like in zip(found, given, strict=True)]

    return result, gradients


def operands(rng, queries, keys, features=16, values=16, heads=(2, 3), key_heads=None, dtype="float32"):
    key_heads = heads if key_heads is None else key_heads
    shapes = ((*heads, queries, features), (*key_heads, keys, features), (*key_heads, keys, values))
    return [rng.normal(size=shape).astype("float32") for shape in shapes], rng.normal(
        size=(*heads, queries, values)
    ).astype("float32")


def ours(given, incoming, mask=None, scale=0.3, causal=False, dtype="float32", options=None, learns_mask=False, **how):
    g = mg.Graph(seed=3)
    feeds = [g.placeholder(x.shape, "float32") for x in given]
    typed = [g.cast(x, dtype) for x in feeds]
    extra = []
    if mask is not None:
        feeds.append(g.placeholder(np.shape(mask), "float32"))
        extra, given = [g.cast(feeds[-1], dtype)], [*given, np.asarray(mask, "float32")]
    y = g.scaled_dot_product_attention(*typed, *(extra or [None]), scale, causal=causal, **how)
    wanted = [*typed, *(extra if learns_mask else [])]
    gradients = g.gradients(y, wanted, g.cast(g.constant(incoming), dtype))
    results = [g.cast(t, "float32") for t in (y, *(gradients[t] for t in wanted))]
    executable = g.compile({p: p.shape for p in feeds}, results, options=options)
    fed = dict(zip(feeds, given, strict=True))
    found = executable.run([fed[p] for p in executable.feeds])
    return [x.numpy() for x in found], executable


def in_tiles(executable):
    """Return the number of kernels in the CPU's plan that compute attention in tiles."""
    return executable.plan().count("in tiles of")


def close(found, wanted, tolerance=3e-6):
    for name, x, y in zip(("result", "query", "key", "value", "mask"), found, wanted, strict=False):
        size = max(1.0, np.abs(y).max(initial=0))
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * size, err_msg=name)


def check(rng, *sizes, mask=None, scale=0.3, causal=False, tiles=True, tolerance=3e-6, dtype="float32", **how):
    given, incoming = operands(rng, *sizes, **how)
    found, executable = ours(given, incoming, mask, scale, causal, dtype)
    value, gradients = attention(*given, mask, scale, causal)
    close(found, [value, *gradients(incoming.astype(np.float64))[:3]], tolerance)
    if mg.Device.default().name == "cpu":
        assert in_tiles(executable) == (2 if tiles else 0)


SIZES = [
    (128, 128), (131, 127, 16, 33), (191, 257, 64, 64), (193, 255, 7, 1), (16, 1025, 1, 65), (385, 43, 80, 8),
    (97, 513, 130, 30),
]  # fmt: skip


@pytest.mark.both_devices
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "x".join(map(str, sizes)))
def test_attention_of_various_sizes_matches_reference(rng, sizes, causal):
    check(rng, *sizes, causal=causal)


@pytest.mark.both_devices
def test_attention_supports_negative_zero_and_positive_scales(rng):
    for scale in (-0.4, 0.0, 2.0):
        check(rng, 130, 140, scale=scale, tolerance=1e-5)


MASKS = [(130, 150), (150,), (130, 1), (1,), (), (2, 1, 1, 150), (2, 3, 130, 150), (1, 3, 130, 1)]


@pytest.mark.both_devices
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_attention_masks_of_every_broadcast_shape_match_reference(rng, shape, causal):
    check(rng, 130, 150, mask=rng.normal(size=shape), causal=causal)
    if shape and shape[-1] == 150:
        mask = np.where(rng.random(shape) < 0.5, 0.0, -np.inf)
        mask[..., 0] = 0
        check(rng, 130, 150, mask=mask, causal=causal)


@pytest.mark.both_devices
@pytest.mark.parametrize("key_heads", [(2, 1), (1, 3), (1, 1), (3,), ()], ids=str)
def test_attention_heads_can_share_keys(rng, key_heads):
    check(rng, 140, 150, key_heads=key_heads)
    check(rng, 140, 150, key_heads=key_heads, causal=True, mask=rng.normal(size=(2, 1, 140, 150)))


@pytest.mark.both_devices
def test_grouped_attention_heads_share_keys_and_values(rng):
    check(rng, 130, 140, heads=(2, 3, 2), key_heads=(2, 3, 1), causal=True)


@pytest.mark.both_devices
def test_single_attention_head_is_split_between_threads(rng):
    check(rng, 700, 900, heads=(), causal=True)
    check(rng, 300, 1100, heads=(1,), features=20)


@pytest.mark.both_devices
def test_fully_masked_queries_give_zero_results_and_gradients(rng):
    mask = np.where(np.tri(140, 150, dtype=bool), 0.0, -np.inf)
    mask[[0, 5, 139]] = -np.inf
    given, incoming = operands(rng, 140, 150)
    found, _ = ours(given, incoming, mask)
    value, gradients = attention(*given, mask, 0.3, False)
    close(found, [value, *gradients(incoming.astype(np.float64))[:3]])
    for x in found[:2]:  # including those of the queries
        assert (x[..., [0, 5, 139], :] == 0).all()
    for all_of_it in (np.full((140, 150), -np.inf), -np.inf):
        assert all((x == 0).all() for x in ours(given, incoming, all_of_it, causal=True)[0])


@pytest.mark.both_devices
@pytest.mark.parametrize("form", ["causal", "window", "padding", "blocks"])
def test_masks_that_exclude_whole_tiles_match_numpy(rng, form):
    rows, columns = np.ogrid[:420, :700]
    seen = {
        "causal": columns <= rows + 37,
        "window": abs(columns - rows - 150) < 40,
        "padding": np.broadcast_to((columns >= 300) & (columns < 411), (420, 700)),
        "blocks": columns // 100 == rows // 60,
    }[form]
    check(rng, 420, 700, mask=np.where(seen, rng.normal(size=(420, 700)), -np.inf))


@pytest.mark.both_devices
def test_large_attention_scores_do_not_overflow(rng):
    given, incoming = operands(rng, 130, 140, features=4)
    for size in (1e4, -1e4):
        integers = [np.round(given[0]) * 100, np.round(given[1]) * 100, given[2]]  # products are exact
        found, _ = ours(integers, incoming, scale=size / 1e4)
        value, gradients = attention(*integers, None, size / 1e4, False)
        assert np.abs(np.matmul(integers[0], integers[1].swapaxes(-1, -2))).max() > 1e4
        close(found, [value, *gradients(incoming.astype(np.float64))[:3]], 1e-5)
    mask = np.where(rng.random((130, 140)) < 0.5, -1e4, 1e4)
    check(rng, 130, 140, mask=mask, tolerance=2e-3)


@pytest.mark.both_devices
def test_non_finite_inputs_affect_only_dependent_results(rng):
    for place, bad in ((0, np.nan), (0, np.inf), (1, np.nan), (2, np.nan)):
        given, incoming = operands(rng, 130, 140)
        given[place][0, 0, 17, 3] = bad
        found, _ = ours(given, incoming)
        with np.errstate(invalid="ignore"):
            value, gradients = attention(*given, None, 0.3, False)
            wanted = [value, *gradients(incoming.astype(np.float64))[:3]]
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.isnan(x), np.isnan(y), err_msg=str((place, bad)))


@pytest.mark.both_devices
def test_attention_accepts_empty_sequences_and_features(rng):
    for sizes in ((0, 200), (200, 0), (200, 200, 0), (200, 200, 16, 0)):
        given, incoming = operands(rng, *sizes)
        found, _ = ours(given, incoming)
        assert [x.shape for x in found] == [incoming.shape, *(x.shape for x in given)]
        if 0 in sizes[:2]:
            assert all((x == 0).all() for x in found)


@pytest.mark.both_devices
def test_attention_gradient_of_mask_matches_numpy(rng):
    given, incoming = operands(rng, 130, 140)
    mask = rng.normal(size=(2, 1, 130, 140))
    found, _ = ours(given, incoming, mask, causal=True, learns_mask=True)
    value, gradients = attention(*given, mask, 0.3, True)
    close(found, [value, *gradients(incoming.astype(np.float64))])


HALVES = [(150, 300, 64, 48), (131, 127, 16, 34), (97, 513, 130, 30), (301, 333, 21, 7), (1, 17, 2, 2)]


@pytest.mark.both_devices
@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("sizes", HALVES, ids=lambda sizes: "x".join(map(str, sizes)))
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_attention_results_are_rounded_once(rng, dtype, sizes, masked):
    """Only results are rounded, as well as attention weights and score gradients that are multiplied in bfloat16."""
    queries, keys = sizes[:2]
    given, incoming = operands(rng, *sizes)
    rounded = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    mask = np.where(rng.random((queries, keys)) < 0.3, -np.inf, 0.0) if masked else None

    def half(x):
        g = mg.Graph()
        return g.run({}, g.cast(g.cast(g.constant(x), dtype), "float32")).numpy()

    given, incoming = [half(x) for x in given], half(incoming)
    found, _ = ours(given, incoming, mask, dtype=dtype, causal=not masked)
    value, gradients = attention(*given, mask, 0.3, not masked)
    # delta is computed from a rounded result
    for x, y, slack in zip(found, [value, *gradients(incoming.astype(np.float64))], (1, 8, 8, 2), strict=False):
        np.testing.assert_allclose(x, y, rtol=rounded, atol=slack * rounded * np.abs(y).max() / 4)


@pytest.mark.both_devices
@pytest.mark.parametrize("sizes", [(10, 12), (130, 139), (257, 300)], ids=str)
def test_attention_dropout_uses_the_given_random_state(rng, sizes):
    given, incoming = operands(rng, *sizes)
    rate = 0.3
    g = mg.Graph()
    state = g.random_philox_state(5)
    uniform = g.random((2, 3, *sizes), state)[0]
    factor = np.where(g.run({}, uniform).numpy() >= np.float32(rate), 1 / (1 - rate), 0.0)
    p = [g.placeholder(x.shape) for x in given]
    y = g.scaled_dot_product_attention(*p, scale=0.3, causal=True, dropout=rate, state=state)
    gradients = g.gradients(y, p, g.constant(incoming))
    targets = [y, *(gradients[x] for x in p)]
    results = g.run(dict(zip(p, given, strict=True)), targets)
    value, slopes = attention(*given, None, 0.3, True, factor)
    close([results[t].numpy() for t in targets], [value, *slopes(incoming.astype(np.float64))[:3]])


@pytest.mark.both_devices
def test_attention_dropout_changes_between_runs(rng):
    given, _ = operands(rng, 130, 140, heads=())
    g = mg.Graph(seed=1)
    p = [g.placeholder(x.shape) for x in given]
    y = g.scaled_dot_product_attention(*p, dropout=0.5)
    slope = g.gradients(y, p)[p[2]]
    feeds = dict(zip(p, given, strict=True))
    runs = [g.run(feeds, [y, slope]) for _ in range(2)]
    assert (runs[0][y].numpy() != runs[1][y].numpy()).any()
    for run in runs:  # Result and gradient must use the same dropout weights: both sum the remaining ones.
        left = run[y].numpy().sum(-1).astype(np.float64).sum()
        assert left == pytest.approx((run[slope].numpy()[:, 0].astype(np.float64) * given[2].sum(-1)).sum(), rel=1e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_tiled_attention_matches_decomposed_attention(rng, causal):
    given, incoming = operands(rng, 200, 300, 40, 24)
    mask = rng.normal(size=(200, 300))
    found, _ = ours(given, incoming, mask, causal=causal)
    composed, executable = ours(given, incoming, mask, causal=causal, options=REFERENCE)
    assert in_tiles(executable) == 0
    close(found, composed)


@pytest.mark.skipif(not EXACT, reason="finite differences of second derivatives require float64")
def test_attention_second_derivatives_match_finite_differences(rng):
    """The second derivative uses the decomposed operations, in float64, where central differences are accurate."""
    q, k, v = rng.normal(size=(3, 4, 2))
    g = mg.Graph()
    p = [g.placeholder((4, 2), "float64") for _ in range(3)]
    y = g.scaled_dot_product_attention(*p, scale=0.7, causal=True)
    first = g.gradients(g.reduction_sum(y * y), p)
    total = g.reduction_sum(first[p[0]] * first[p[1]] + first[p[2]])
    second = g.gradients(total, p)

    def value(*arrays):
        return float(g.run(dict(zip(p, arrays, strict=True)), total))

    for i, at in enumerate(p):
        found = g.run(dict(zip(p, (q, k, v), strict=True)), second[at]).numpy()
        for place in ((0, 0), (3, 1), (2, 0)):
            step = np.zeros((4, 2))
            step[place] = 1e-5
            arrays = [[x + sign * step * (j == i) for j, x in enumerate((q, k, v))] for sign in (1, -1)]
            assert found[place] == pytest.approx((value(*arrays[0]) - value(*arrays[1])) / 2e-5, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_memory_grows_linearly_with_sequence_length(dtype):
    sizes = []
    for length in (1024, 2048, 4096):
        g = mg.Graph()
        q, k, v = (g.placeholder((1, 8, length, 64), dtype) for _ in range(3))
        gradients = g.gradients(g.scaled_dot_product_attention(q, k, v, causal=True, dropout=0.1), [q, k, v])
        sizes.append(g.compile({x: x.shape for x in (q, k, v)}, list(gradients.values())).bytes)
    assert sizes[0] < 4 * 8 * 1024**2  # one copy of the scores
    assert sizes[2] - sizes[1] == pytest.approx(2 * (sizes[1] - sizes[0]), rel=0.1)


def test_small_attention_is_decomposed(rng):
    check(rng, 8, 4000, tiles=False)
    check(rng, 12, 60, tiles=False)


@pytest.mark.both_devices
def test_invalid_attention_arguments_raise(rng):
    g = mg.Graph()
    x = g.constant(0.0, (3, 4))
    with pytest.raises(mg.GraphError, match=r"must be in \[0, 1\)"):
        g.scaled_dot_product_attention(x, x, x, dropout=1.0)
    with pytest.raises(mg.GraphError, match=r"state of the dropout must be int32\[7\]"):
        g.scaled_dot_product_attention(x, x, x, dropout=0.5, state=g.constant(0, (3,), dtype="int32"))


@pytest.mark.both_devices
def test_attention_gradient_round_trips_through_package(rng, tmp_path):
    """The text format must preserve the extra results that the gradient uses."""
    given, _ = operands(rng, 130, 140)
    g = mg.Graph()
    p = {name: g.placeholder(x.shape, name=name) for x, name in zip(given, "qkv", strict=True)}
    y = g.scaled_dot_product_attention(*p.values(), causal=True, name="y")
    results = {"y": y} | {f"d{x.name}": slope for x, slope in g.gradients(y, list(p.values())).items()}
    found = g.run(dict(zip(p.values(), given, strict=True)), list(results.values()))
    mg.save(tmp_path / "attention.mpsgraph", g, p, results)
    again = mg.load(tmp_path / "attention.mpsgraph").run(dict(zip(p, given, strict=True)))
    for name, tensor in results.items():
        np.testing.assert_array_equal(again[name], found[tensor])


def test_plan_describes_attention_kernels(rng):
    given, incoming = operands(rng, 130, 140)
    plan = ours(given, incoming, rng.normal(size=(140,)), causal=True, dropout=0.1)[1].plan()
    assert plan.count("attention of 6 x 130 queries to 140 keys in tiles of") == 2
    assert plan.count("causal, masked, dropout") == 2
