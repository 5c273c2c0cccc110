"""Test dynamic slice starts: only slice sizes determine shapes, so new start values must not cause a compilation.

Slices and updates of known size read their starts at run time. If ends are given as tensors, every new size compiles
the rest of the graph, but a new start does not. A key-value cache that grows by one row per token depends on this.
"""

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from ml_dtypes import bfloat16

pytestmark = pytest.mark.both_devices

CUBE = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


def starts(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def windows(*sizes: int) -> tuple[mg.Graph, mg.Tensor, mg.Tensor, mg.Tensor]:
    g = mg.Graph()
    x, s = g.placeholder((3, 4, 5), name="x"), g.placeholder((3,), mg.int32, name="s")
    return g, x, s, g.slice(x, s, sizes=sizes, name="y")


def window(at, sizes):
    return tuple(slice(a % n, a % n + size) for a, n, size in zip(at, CUBE.shape, sizes, strict=True))


def test_dynamic_slice_compiles_once_for_all_starts():
    g, x, s, y = windows(2, 1, 3)
    assert y.shape == (2, 1, 3), "the shape must be known when the graph is built"
    for at in ((0, 0, 0), (1, 3, 2), (0, 2, 1), (-2, -1, -3)):
        np.testing.assert_array_equal(g.run({x: CUBE, s: starts(*at)}, y).numpy(), CUBE[window(at, (2, 1, 3))])
    assert (g.cache.count, g.cache.compiles) == (1, 1)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.int64, np.uint8, np.bool_, np.complex64])
def test_dynamic_slices_match_numpy_in_every_dtype(dtype):
    data = (CUBE[:, :, 0] + (2**40 if dtype == np.int64 else 0)).astype(dtype)
    g = mg.Graph()
    x, s = g.placeholder((3, 4), np.dtype(dtype).name), g.placeholder((2,), mg.int64)
    y = g.slice(x, s, sizes=(2, 2))
    z = g.slice_update_data(x, y, s - 1, sizes=(2, 2))
    found = g.run({x: data, s: np.array([1, 1])}, [y, z])
    np.testing.assert_array_equal(np.asarray(found[y]).view(dtype), data[1:3, 1:3])
    wanted = data.copy()
    wanted[0:2, 0:2] = data[1:3, 1:3]
    np.testing.assert_array_equal(np.asarray(found[z]).view(dtype), wanted)


def test_dynamic_slice_accepts_integer_starts_and_squeezes_axes():
    for dtype in (mg.int8, mg.uint8, mg.int16, mg.int32, mg.uint32, mg.int64):
        g = mg.Graph()
        x, s = g.placeholder((3, 4, 5)), g.placeholder((3,), dtype)
        y = g.slice(x, s, sizes=(1, 2, 1), squeeze_mask=0b101)
        found = g.run({x: CUBE, s: np.array([2, 1, 3], dtype.numpy)}, y)
        assert found.tolist() == CUBE[2, 1:3, 3].tolist()


def test_slice_update_changes_only_the_selected_window():
    g = mg.Graph()
    x, u, s = g.placeholder((3, 4, 5)), g.placeholder((1, 4, 2)), g.placeholder((3,), mg.int32)
    y = g.slice_update_data(x, u, s, sizes=(1, 4, 2))
    update = -np.arange(1, 9, dtype=np.float32).reshape(1, 4, 2)
    for at in ((0, 0, 0), (2, 0, 3), (-1, 0, -4)):
        wanted = CUBE.copy()
        wanted[window(at, (1, 4, 2))] = update
        np.testing.assert_array_equal(g.run({x: CUBE, u: update, s: starts(*at)}, y).numpy(), wanted)
    assert g.cache.compiles == 1
    with pytest.raises(
        mg.ShapeError, match=r"update must have the shape \(1,4,3\) of the slice of data \(3,4,5\), got \(1,4,2\)"
    ):
        g.slice_update_data(x, u, s, sizes=(1, 4, 3))


def test_dynamic_slice_gradients_match_numpy():
    g = mg.Graph()
    x, u, s = g.placeholder((3, 4, 5)), g.placeholder((2, 1, 3)), g.placeholder((3,), mg.int32)
    part = g.slice(x, s, sizes=(2, 1, 3))
    whole = g.slice_update_data(x, u * part, s, sizes=(2, 1, 3))
    loss = g.reduction_sum(g.square(whole))
    d = g.gradients(loss, [x, u])
    update = np.linspace(0.5, 1.5, 6, dtype=np.float32).reshape(2, 1, 3)
    for at in ((1, 2, 0), (0, -1, 2)):
        place = window(at, (2, 1, 3))
        seen = CUBE[place]
        wanted = 2 * CUBE
        wanted[place] = 2 * update * update * seen
        found = g.run({x: CUBE, u: update, s: starts(*at)}, [d[x], d[u]])
        np.testing.assert_allclose(found[d[x]].numpy(), wanted, rtol=1e-6)
        np.testing.assert_allclose(found[d[u]].numpy(), 2 * update * seen * seen, rtol=1e-6)
    assert g.cache.compiles == 1
    incoming = g.slice_gradient(u, (3, 4, 5), s, sizes=(2, 1, 3))
    wanted = np.zeros_like(CUBE)
    wanted[1:3, 2:3, 0:3] = update
    np.testing.assert_array_equal(g.run({u: update, s: starts(1, 2, 0)}, incoming).numpy(), wanted)


def test_loop_counter_can_be_slice_start():
    """Rows are read one after the other and written in reverse order."""
    g = mg.Graph()
    x = g.placeholder((5, 2))
    zero = g.constant(0, dtype="int32")

    def body(i, rows):
        row = g.slice(x, g.stack([i, zero]), sizes=(1, 2))
        return g.slice_update_data(rows, row * 2.0, g.stack([4 - i, zero]), sizes=(1, 2))

    (rows,) = g.for_(5, initial=[g.constant(0.0, (5, 2))], body=body)
    data = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.testing.assert_array_equal(g.run({x: data}, rows).numpy(), 2 * data[::-1])
    d = g.gradients(g.reduction_sum(g.square(rows)), [x])[x]
    np.testing.assert_allclose(g.run({x: data}, d).numpy(), 8 * data)


def test_roll_by_concatenation_and_dynamic_slice_matches_numpy():
    g = mg.Graph()
    x, shift = g.placeholder((7,)), g.placeholder((1,), mg.int32)
    rolled = g.slice(g.concat([x, x], 0), g.floor_modulo(-shift, 7), sizes=(7,))
    data = np.arange(7, dtype=np.float32)
    for by in (-9, -1, 0, 3, 7, 20):
        np.testing.assert_array_equal(g.run({x: data, shift: starts(by)}, rolled).numpy(), np.roll(data, by))
    assert g.cache.compiles == 1


# --- out-of-range starts ----------------------------------------------------------------------------------------------


def test_oversized_slice_and_constant_out_of_range_start_raise():
    g, x, s, _ = windows(1, 1, 1)
    with pytest.raises(mg.ShapeError, match=r"size 5 along axis 1 of \(3,4,5\)"):
        g.slice(x, s, sizes=(1, 5, 1))
    for at in (3, -4):
        with pytest.raises(
            mg.OutOfRangeError, match=rf"start {at} of axis 0 is out of range: a slice of size 1 extends beyond"
        ):
            g.slice(x, [at, 0, 0], sizes=(1, 1, 1))
    with pytest.raises(mg.ShapeError, match=r"starts must be a list with one entry per axis \(3\)"):
        g.slice(x, g.constant([0, 0], dtype="int32"), sizes=(1, 1, 1))
    with pytest.raises(mg.DTypeError, match="starts must be integers"):
        g.slice(x, g.placeholder((3,)), sizes=(1, 1, 1))


def test_out_of_range_slice_start_aborts_run_without_side_effects():
    """Neither an assign created before the slice nor the update itself may take effect."""
    g = mg.Graph()
    v, w = (g.variable(np.zeros((4, 3), np.float32), name=n) for n in "vw")
    u, s = g.placeholder((2, 3)), g.placeholder((2,), mg.int32)
    first = g.assign(w, g.read(w) + 1.0)
    second = g.assign(v, g.slice_update_data(g.read(v), u, s, sizes=(2, 3)))
    part = g.slice(g.read(v), s, sizes=(2, 3))
    ones = np.ones((2, 3), np.float32)
    for at in ((3, 0), (-5, 0), (0, 1), (0, -1), (2**31 - 1, 0), (-(2**31), 0)):
        with pytest.raises(mg.OutOfRangeError, match="extend beyond the ends of axis"):
            g.run({u: ones, s: starts(*at)}, [part], [first, second])
    assert not g.variable_value(v).any() and not g.variable_value(w).any()
    found = g.run({u: ones, s: starts(-2, -3)}, [part], [first, second])
    assert found[part].numpy().all() and g.variable_value(v).sum() == 6
    assert g.variable_value(w).all()


def test_clamped_slice_starts_need_no_range_check():
    g = mg.Graph()
    x, s = g.placeholder((3, 4)), g.placeholder((2,), mg.int32)
    for high, checked in (([1, 2], False), ([2, 2], True), ([1, 3], True)):
        inside = g.clamp(s, g.constant([0, 0], dtype="int32"), g.constant(high, dtype="int32"))
        y = g.slice(x, inside, sizes=(2, 2))
        if not device.IS_METAL:
            assert ("check_indices" in g.compile({x: (3, 4), s: (2,)}, [y]).plan()) == checked
        found = g.run({x: CUBE[:, :, 0], s: starts(-5, 1)}, y)
        np.testing.assert_array_equal(found.numpy(), CUBE[0:2, 1:3, 0])


def test_empty_slice_accepts_any_start():
    g, x, s, y = windows(0, 4, 5)
    assert g.run({x: CUBE, s: starts(99, 0, 0)}, y).shape == (0, 4, 5)


# --- ends given as tensors --------------------------------------------------------------------------------------------


def test_slice_recompiles_for_new_sizes_but_not_new_starts():
    g = mg.Graph()
    x, at = g.placeholder((-1, 3), name="x"), g.placeholder((1,), mg.int32)
    zero, all_ = g.constant([0], dtype="int32"), g.constant([3], dtype="int32")
    y = g.slice(x, g.concat([at, zero], 0), g.concat([at + 2, all_], 0))
    data = np.arange(300, dtype=np.float32).reshape(100, 3)
    for first in range(98):
        np.testing.assert_array_equal(g.run({x: data, at: starts(first)}, y).numpy(), data[first : first + 2])
    assert g.cache.compiles == 2, "one program up to the slice, and one for the rest"
    for first in (99, -50, 100, 1000):
        np.testing.assert_array_equal(g.run({x: data, at: starts(first)}, y).numpy(), data[first : first + 2])
    assert g.cache.compiles == 4, "two new sizes: one row, and no rows"


@pytest.mark.parametrize("mask", [0, 1, 2, 4])
@pytest.mark.parametrize("strides", [(1, 1, 1), (2, -1, 3), (-2, 3, -1)])
def test_slices_with_fed_ranges_match_constant_ranges(strides, mask):
    """Compare slices by fed ranges with slices by the same ranges as constants: values and gradients must be equal."""
    rng = np.random.default_rng([3, mask, *np.abs(strides)])
    g = mg.Graph()
    x, a, b = g.placeholder((3, 4, 5)), g.placeholder((3,), mg.int32), g.placeholder((3,), mg.int64)
    masks = {"start_mask": mask, "end_mask": mask * 2 % 7}
    y = g.slice(x, a, b, strides, **masks)
    d = g.gradients(g.reduction_sum(g.square(y)), [x])[x]
    for _ in range(12):
        first, last = rng.integers(-7, 8, 3).astype(np.int32), rng.integers(-7, 8, 3)
        other = mg.Graph()
        z = other.placeholder((3, 4, 5))
        w = other.slice(z, first.tolist(), last.tolist(), strides, **masks)
        e = other.gradients(other.reduction_sum(other.square(w)), [z])[z]
        found, wanted = g.run({x: CUBE, a: first, b: last}, [y, d]), other.run({z: CUBE}, [w, e])
        assert found[y].shape == wanted[w].shape
        np.testing.assert_array_equal(found[y].numpy(), wanted[w].numpy())
        np.testing.assert_array_equal(found[d].numpy(), wanted[e].numpy())


def test_slice_update_with_fed_ends_must_match_update_shape():
    g = mg.Graph()
    x, u, a = g.placeholder((6,)), g.placeholder((2,)), g.placeholder((1,), mg.int32)
    y = g.slice_update_data(x, u, a, a + 2)
    data, update = np.arange(6, dtype=np.float32), np.array([7, 8], np.float32)
    for at in (0, 3, 4):
        assert g.run({x: data, u: update, a: starts(at)}, y).tolist()[at : at + 2] == [7, 8]
    assert g.cache.compiles == 2
    with pytest.raises(mg.ShapeError, match=r"update must have the shape \(1\) of the slice of data \(6\), got \(2\)"):
        g.run({x: data, u: update, a: starts(5)}, y)


def test_band_part_with_fed_bandwidths_matches_numpy():
    g = mg.Graph()
    x, low, high = g.placeholder((2, 4, 5)), g.placeholder((), mg.int32), g.placeholder((1,), mg.int64)
    y = g.band_part(x, low, high)
    data = np.arange(1, 41, dtype=np.float32).reshape(2, 4, 5)
    row, column = np.indices((4, 5))
    for a in (-1, 0, 2):
        for b in (-1, 0, 3):
            keep = ((a < 0) | (row - column <= a)) & ((b < 0) | (column - row <= b))
            found = g.run({x: data, low: np.int32(a), high: np.array([b])}, y)
            np.testing.assert_array_equal(found.numpy(), np.where(keep, data, 0))
    assert g.cache.compiles == 1


# --- key-value cache --------------------------------------------------------------------------------------------------


def decoder(length: int, width: int = 8, vocabulary: int = 11) -> tuple[mg.Graph, mg.Tensor, list[mg.Operation]]:
    """Build one attention head that processes a token per run and keeps keys and values in variables."""
    rng = np.random.default_rng(11)
    g = mg.Graph()
    weights = {name: g.constant(rng.normal(size=(width, width)).astype(np.float32) / 3) for name in "qkvo"}
    table = g.variable(rng.normal(size=(vocabulary, width)).astype(np.float32))
    places = g.variable(rng.normal(size=(length, width)).astype(np.float32))
    token, position = g.placeholder((1,), mg.int32, name="token"), g.placeholder((1,), mg.int32, name="position")
    keys, values = (g.variable(np.zeros((length, width), np.float32), name=n, trainable=False) for n in ("k", "v"))
    zero = g.constant([0], dtype="int32")
    start = g.concat([position, zero], 0)
    x = g.gather(table, token, axis=0) + g.slice(places, start, sizes=(1, width))
    q, k, v = (x @ weights[name] for name in "qkv")
    all_keys = g.slice_update_data(g.read(keys), k, start, sizes=(1, width))
    all_values = g.slice_update_data(g.read(values), v, start, sizes=(1, width))
    seen = g.coordinate_along_axis(1, (1, length)) <= position
    scores = g.select(seen, q @ g.transpose(all_keys, (1, 0)), -1e30)
    out = (g.softmax(scores, axis=-1) @ all_values) @ weights["o"] + x
    logits = out @ g.transpose(table, (1, 0))
    return g, logits, [g.assign(keys, all_keys), g.assign(values, all_values)]


def expected(tokens: np.ndarray, length: int, width: int = 8, vocabulary: int = 11) -> np.ndarray:
    """Return the last logits of the same decoder without a cache."""
    rng = np.random.default_rng(11)
    weights = {name: rng.normal(size=(width, width)).astype(np.float32) / 3 for name in "qkvo"}
    table, places = rng.normal(size=(vocabulary, width)), rng.normal(size=(length, width))
    x = table[tokens] + places[: len(tokens)]
    q, k, v = (x @ weights[name] for name in "qkv")
    scores = q[-1] @ k.T
    p = np.exp(scores - scores.max())
    return ((p / p.sum()) @ v @ weights["o"] + x[-1]) @ table.T


def test_decoding_ten_thousand_tokens_compiles_once():
    length = 10_000 if not device.IS_METAL else 300
    g, logits, updates = decoder(length)
    token, position = g.placeholders
    tokens = np.random.default_rng(5).integers(0, 11, length).astype(np.int32)
    for i in range(length):
        found = g.run({token: tokens[i : i + 1], position: starts(i)}, [logits], updates)
        if i in (0, 1, 17, 255, length - 1):
            np.testing.assert_allclose(
                found[logits].numpy()[0], expected(tokens[: i + 1], length), rtol=2e-3, atol=1e-4
            )
    assert (g.cache.compiles, g.cache.misses, g.cache.count) == (1, 1, 1)
    assert g.cache.hits == length - 1
