"""Test out-of-range indices, labels, and lengths: errors name them, and a failed run has no effect.

The results of modes "zeros", "drop", and "clip" are covered by tests/cases/gather.py and scatter_nd.py.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn

pytestmark = pytest.mark.both_devices

TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)


def gathered(g, table, i):
    return g.gather(table, i, out_of_range="error")


def along(g, table, i):
    return g.gather_along_axis(0, table, i, out_of_range="error")


def vectors(g, table, i):
    return g.gather_nd(table, i, out_of_range="error")


def classes(g, table, i):
    return g.one_hot(i, 5, out_of_range="error")


def scattered(g, table, i):
    return g.scatter(table[:2], i, 0, shape=(5, 3), out_of_range="error")


def scattered_nd(g, table, i):
    return g.scatter_nd(table[:2, 0], i, shape=(5, 3), out_of_range="error")


def scattered_along(g, table, i):
    return g.scatter_along_axis(0, table[:2], i, shape=(5, 3), out_of_range="error")


def of_gradient(g, table, i):
    return g.gather_gradient(table[:2], i, (5, 3), out_of_range="error")


GOOD = np.array([[0, 2, 1], [4, 0, 2]])
# Function that builds the operation, valid indices, invalid indices, and the error for these.
REFUSED = [
    (gathered, [0, 4], [1, 5], r"\[gather\] index 5 at \(1\) of 'ids' is out of range for axis 0 of length 5"),
    (gathered, [0, 4], [-1, 5], r"\[gather\] index -1 at \(0\) of 'ids' is out of range for axis 0"),
    (gathered, 4, 5, r"\[gather\] index 5 at 'ids' is out of range for axis 0"),
    (
        along,
        GOOD,
        GOOD - 1,
        r"\[gather_along_axis\] index -1 at \(0,0\) of 'ids' is out of range for axis 0 of length 5",
    ),
    (vectors, [[4, 2]], [[4, 3]], r"\[gather_nd\] index 3 at \(0,1\) of 'ids' is out of range for axis 1 of length 3"),
    (vectors, [[4], [0]], [[4], [5]], r"\[gather_nd\] index 5 at \(1,0\) of 'ids' is out of range for axis 0"),
    (
        classes,
        [0, 4],
        [0, 7],
        r"\[one_hot\] class index 7 at \(1\) of 'ids' is out of range for 5 classes.*from 0 to 4",
    ),
    (scattered, [0, 4], [0, -2], r"\[scatter\] index -2 at \(1\) of 'ids' is out of range for axis 0 of length 5"),
    (
        scattered_nd,
        [[4, 2], [0, 0]],
        [[4, 2], [0, 3]],
        r"\[scatter_nd\] index 3 at \(1,1\) of 'ids' is out of range for axis 1",
    ),
    (scattered_along, GOOD, GOOD + 1, r"\[scatter_along_axis\] index 5 at \(1,0\) of 'ids' is out of range for axis 0"),
    (of_gradient, [0, 4], [9, 4], r"\[gather_gradient\] index 9 at \(0\) of 'ids' is out of range for axis 0"),
]


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint16"])
@pytest.mark.parametrize(("build", "good", "bad", "message"), REFUSED)
def test_invalid_fed_indices_raise_and_are_named(build, good, bad, message, dtype):
    if dtype == "uint16" and np.min(bad) < 0:
        bad, message = np.where(np.asarray(bad) < 0, 2**16 - 1, bad), message.split(" of 'ids'")[0].split(" index ")[0]
    g = mg.Graph()
    table, ids = g.placeholder((5, 3), name="table"), g.placeholder(np.shape(good), dtype, "ids")
    result = build(g, table, ids)
    assert np.all(np.isfinite(g.run({table: TABLE, ids: np.array(good, dtype)}, result)))
    with pytest.raises(mg.OutOfRangeError, match=message) as caught:
        g.run({table: TABLE, ids: np.array(bad, dtype)}, result)
    assert isinstance(caught.value, IndexError) and "test_out_of_range.py" in str(caught.value)
    assert np.all(np.isfinite(g.run({table: TABLE, ids: np.array(good, dtype)}, result))), "the next run must succeed"


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
@pytest.mark.parametrize(("build", "good", "bad", "message"), REFUSED)
def test_invalid_computed_indices_raise_and_are_named(build, good, bad, message, dtype):
    g = mg.Graph()
    table, fed = g.placeholder((5, 3), name="table"), g.placeholder(np.shape(good), dtype)
    ids = g.addition(fed, g.placeholder((), dtype, "moved"), name="ids")
    moved = g.placeholders[-1]
    result = build(g, table, ids)
    for by in (0, 3):
        feeds = {table: TABLE, moved: np.array(by, dtype)}
        assert np.all(np.isfinite(g.run({**feeds, fed: np.array(good, dtype) - np.array(by, dtype)}, result)))
        with pytest.raises(mg.OutOfRangeError, match=message):
            g.run({**feeds, fed: np.array(bad, dtype) - np.array(by, dtype)}, result)


@pytest.mark.parametrize(("build", "good", "bad", "message"), REFUSED)
def test_invalid_constant_indices_raise_at_build_time(build, good, bad, message):
    g = mg.Graph()
    table = g.placeholder((5, 3), name="table")
    build(g, table, g.constant(np.array(good, np.int32)))
    count = len(g.operations)
    with pytest.raises(mg.OutOfRangeError, match=message.replace("'ids'", "'bad'")):
        build(g, table, g.constant(np.array(bad, np.int32), name="bad"))
    assert len(g.operations) <= count + 5, "operands may have been added, but not the operation"


def test_indices_are_checked_against_axis_length_of_the_feed():
    g = mg.Graph()
    table, ids = g.placeholder((-1, 3), name="table"), g.constant(np.array([0, 4], np.int32), name="ids")
    rows = g.gather(table, ids, out_of_range="error")
    assert g.run({table: TABLE}, rows)[1, 0] == 12
    with pytest.raises(mg.OutOfRangeError, match=r"index 4 at \(1\) of 'ids' is out of range for axis 0 of length 4"):
        g.run({table: TABLE[:4]}, rows)


def program_of(g, *targets):
    """Return the program after pass indices, which inserts checks."""
    seen = {}
    options = mg.CompilationDescriptor(observe=lambda name, text: seen.update({name: text}))
    g.compile({t: (t.shape, t.dtype) for t in g.placeholders}, list(targets), options=options)
    return seen["indices"]


def test_provably_valid_indices_are_not_checked():
    g = mg.Graph()
    table, ids = g.placeholder((256, 2)), g.placeholder((3,), mg.uint8)
    rows = g.gather(table, ids, out_of_range="error")
    longer = g.gather(g.placeholder((255, 2)), ids, out_of_range="error")
    assert "= check_indices(" not in program_of(g, rows) and program_of(g, longer).count("= check_indices(") == 1
    assert (
        program_of(g, longer, g.gather(g.placeholder((255, 3)), ids, out_of_range="error")).count("= check_indices(")
        == 1
    )


def test_unknown_out_of_range_mode_raises():
    g = mg.Graph()
    x, ids = g.placeholder((5, 3)), g.placeholder((2,), mg.int32)
    for build, allowed in (
        (lambda mode: g.gather(x, ids, out_of_range=mode), "zeros, clip or error"),
        (lambda mode: g.one_hot(ids, 3, out_of_range=mode), "zeros, clip or error"),
        (lambda mode: g.scatter(x[:2], ids, 0, shape=(5, 3), out_of_range=mode), "drop, clip or error"),
    ):
        with pytest.raises(mg.GraphError, match=f"out_of_range must be {allowed}, got 'wrap'"):
            build("wrap")
    with pytest.raises(mg.GraphError, match='Embedding: out_of_range must be "error", "zeros" or "clip", got .drop.'):
        nn.Embedding(3, 2, out_of_range="drop")
    with pytest.raises(mg.ShapeError, match="got axis 0 of length 0"):
        g.gather(g.placeholder((0, 3)), ids, out_of_range="clip")


# --- after a failed run -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("computed", [False, True])
def test_failed_index_check_leaves_variables_unchanged(computed):
    """Checks run before all side effects, including those of assigns created earlier."""
    g = mg.Graph()
    before, behind = (g.variable(np.zeros(3, np.float32), name=name) for name in ("before", "behind"))
    fed, zero = g.placeholder((2,), mg.int32, name="fed"), g.placeholder((), mg.int32)
    ids = fed + zero if computed else fed
    first = g.assign(before, g.read(before) + 1.0)
    rows = g.gather(g.constant(TABLE), ids, out_of_range="error")
    second = g.assign(behind, g.read(behind) + g.squeeze(g.reduction_sum(rows, 0), 0))
    for indices, well in (([0, 5], False), ([0, 1], True), ([-1, 0], False)):
        feeds = {fed: np.array(indices, np.int32)} | ({zero: np.array(0, np.int32)} if computed else {})
        if well:
            g.run(feeds, [], [first, second])
            continue
        values = [g.run({}, v).numpy().copy() for v in (before, behind)]
        with pytest.raises(mg.OutOfRangeError):
            g.run(feeds, [], [first, second])
        for variable, value in zip((before, behind), values, strict=True):
            np.testing.assert_array_equal(g.run({}, variable), value)
    np.testing.assert_array_equal(g.run({}, before), [1, 1, 1])
    np.testing.assert_array_equal(g.run({}, behind), TABLE[0] + TABLE[1])


def test_asynchronous_run_reports_invalid_index_when_awaited():
    g = mg.Graph()
    fed, moved = g.placeholder((2,), mg.int32), g.placeholder((), mg.int32)
    rows = g.gather(g.constant(TABLE), fed + moved, out_of_range="error")
    ids, one = np.array([0, 4], np.int32), np.array(1, np.int32)
    failing, well = g.run_async({fed: ids, moved: one}, rows), g.run_async({fed: ids, moved: 0 * one}, rows)
    with pytest.raises(mg.OutOfRangeError, match="index 5"):
        failing.wait()
    np.testing.assert_array_equal(well.results, TABLE[[0, 4]])


def test_gradient_uses_out_of_range_mode_of_its_operation():
    g = mg.Graph()
    w, ids = g.variable(TABLE), g.placeholder((3,), mg.int32, name="ids")
    fed = np.array([-3, 1, 7], np.int32)
    for mode, rows in (("zeros", [1]), ("clip", [0, 1, 4])):
        loss = g.reduction_sum(g.gather(g.read(w), ids, out_of_range=mode))
        expected = np.zeros_like(TABLE)
        expected[rows] = 1
        np.testing.assert_array_equal(g.run({ids: fed}, g.gradients(loss, [w])[w]), expected)
    loss = g.reduction_sum(g.gather(g.read(w), ids, out_of_range="error"))
    gradient = g.gradients(loss, [w])[w]
    with pytest.raises(mg.OutOfRangeError, match=r"index -3 at \(0\) of 'ids'"):
        g.run({ids: fed}, gradient)


# --- control flow, calls, text ----------------------------------------------------------------------------------------
def test_indices_in_branch_not_taken_are_not_checked():
    g = mg.Graph()
    flag, fed, zero = g.placeholder((1,), mg.int32), g.placeholder((2,), mg.int32), g.placeholder((), mg.int32)
    table = g.constant(TABLE)
    ids = g.addition(fed, zero, name="ids")
    (rows,) = g.if_(
        g.greater_than(g.reshape(flag, ()), 0),
        lambda: g.gather(table, ids, out_of_range="error"),
        lambda: g.gather(table, ids, out_of_range="zeros"),
    )
    feeds = {fed: np.array([1, 9], np.int32), zero: np.array(0, np.int32)}
    np.testing.assert_array_equal(g.run({**feeds, flag: np.array([0], np.int32)}, rows)[1], [0, 0, 0])
    with pytest.raises(mg.OutOfRangeError, match=r"index 9 at \(1\) of 'ids'"):
        g.run({**feeds, flag: np.array([1], np.int32)}, rows)


def test_indices_in_loops_are_checked_every_iteration():
    g = mg.Graph()
    steps, table = g.placeholder((), mg.int32), g.constant(TABLE)
    total = g.variable(np.zeros(3, np.float32))

    def body(i, x):
        return x + g.squeeze(g.gather(table, g.reshape(i, (1,)), out_of_range="error"), 0)

    (result,) = g.for_(steps, initial=[g.constant(np.zeros(3, np.float32))], body=body)
    add = g.assign(total, g.read(total) + result)
    np.testing.assert_array_equal(g.run({steps: np.array(5, np.int32)}, result, [add]), TABLE.sum(0))
    with pytest.raises(mg.OutOfRangeError, match=r"index 5 at \(0\) of .* out of range for axis 0 of length 5"):
        g.run({steps: np.array(7, np.int32)}, result, [add])
    np.testing.assert_array_equal(g.run({}, total), TABLE.sum(0)), "the assign is behind the loop"


def test_out_of_range_mode_round_trips_through_text_and_packages(tmp_path):
    g = mg.Graph()
    ids = g.placeholder((2,), mg.int32, name="ids")
    rows = g.gather(g.constant(TABLE), ids, out_of_range="error", name="rows")
    assert 'out_of_range="error"' in str(g)
    again = mg.parse(str(g))
    with pytest.raises(mg.OutOfRangeError, match="index 5"):
        again.run({again.find("ids").outputs[0]: np.array([0, 5], np.int32)}, again.find("rows").outputs[0])
    assert "out_of_range" not in str(mg.parse(str(g).replace(', out_of_range="error"', "")))
    mg.save(tmp_path / "rows.mpsgraph", g, [ids], [rows])
    with pytest.raises(mg.OutOfRangeError, match="index 5"):
        mg.load(tmp_path / "rows.mpsgraph")(np.array([0, 5], np.int32))


# --- labels -----------------------------------------------------------------------------------------------------------
X = np.random.default_rng(5).normal(size=(8, 3)).astype(np.float32)


@pytest.mark.parametrize("bad", [2, 5, 8, -1, 255])
def test_training_with_invalid_labels_raises(bad):
    labels = np.array([0, 1, 0, 1, bad, 1, 0, bad])
    trainer = mg.Trainer(nn.Sequential(nn.Linear(4), nn.BatchNorm(), nn.Linear(2)))
    float(trainer.train_step(X, labels % 2))
    before = [trainer.graph.run({}, v).numpy().copy() for v in trainer.model.parameters() + trainer.model.buffers()]
    message = rf"class index {bad} at \(4\) of 'labels' is out of range for 2 classes.*from 0 to 1"
    with pytest.raises(mg.OutOfRangeError, match=message):
        float(trainer.train_step(X, labels))
    after = [trainer.graph.run({}, v) for v in trainer.model.parameters() + trainer.model.buffers()]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(mg.OutOfRangeError, match=message):
        trainer.evaluate((X, labels))
    with pytest.raises(mg.OutOfRangeError, match=f"class index {bad} "):
        trainer.fit((X, labels), progress=False)
    for _ in range(4):  # an error of an earlier step must not be reported again
        assert np.isfinite(float(trainer.train_step(X, labels % 2)))


def test_invalid_uint8_labels_raise():
    trainer = mg.Trainer(nn.Linear(2))
    with pytest.raises(mg.OutOfRangeError, match=r"class index 255 at \(1\)"):
        float(trainer.train_step(X, np.array([0, 255] * 4, np.uint8)))


@pytest.mark.parametrize("loss", [nn.losses.cross_entropy, nn.losses.nll])
@pytest.mark.parametrize("axis", [-1, 1])
def test_class_index_losses_reject_invalid_labels(loss, axis):
    g = mg.Graph()
    logits = g.placeholder((2, 4, 3) if axis == -1 else (2, 3, 4))
    labels = g.placeholder((2, 4), mg.int64, name="labels")
    values = np.random.default_rng(6).normal(size=logits.shape).astype(np.float32)
    good = np.array([[0, 1, 2, 0], [2, 2, 1, -100]])
    plain, ignoring = loss(logits, labels, axis=axis), loss(logits, labels, axis=axis, ignore_index=-100)
    assert np.isfinite(g.run({logits: values, labels: good}, ignoring))
    with pytest.raises(
        mg.OutOfRangeError, match=r"class index -100 at \(1,3\) of 'labels' is out of range for 3 classes"
    ):
        g.run({logits: values, labels: good}, plain)
    bad = np.where(good == 1, 3, good)
    with pytest.raises(mg.OutOfRangeError, match=r"class index 3 at \(0,1\) of 'labels' is out of range for 3 classes"):
        g.run({logits: values, labels: bad}, ignoring)


@pytest.mark.parametrize("loss", ["binary_cross_entropy_with_logits", "binary_cross_entropy", "log_loss"])
def test_binary_losses_reject_invalid_labels(loss):
    g = mg.Graph()
    outputs, labels = g.constant([[0.25], [0.5], [0.75]]), g.placeholder((3, 1), mg.int32, name="labels")
    result = getattr(nn.losses, loss)(outputs, labels)
    floats = getattr(nn.losses, loss)(outputs, g.constant([[1.0], [0.0], [1.0]]))
    found = g.run({labels: np.array([[1], [0], [1]], np.int32)}, result)
    np.testing.assert_allclose(found, g.run({}, floats), rtol=3e-7)  # folded, with another summation order
    for bad in (2, -1):
        with pytest.raises(mg.OutOfRangeError, match=rf"index {bad} at \(2,0\) of 'labels'.*of length 2"):
            g.run({labels: np.array([[1], [0], [bad]], np.int32)}, result)


def test_accuracy_rejects_invalid_labels():
    g = mg.Graph()
    outputs, labels = g.constant([[0.0, 1.0], [1.0, 0.0]]), g.placeholder((2,), mg.int64, name="labels")
    for ignored, good, expected in ((None, [1, 1], 0.5), (-1, [1, -1], 1.0)):
        accuracy = nn.metrics.accuracy(outputs, labels, ignore_index=ignored)
        assert float(g.run({labels: np.array(good)}, accuracy)) == expected
        for bad in (2, 2**32 + 1):  # the second one is 1 in 32 bits
            with pytest.raises(mg.OutOfRangeError, match=rf"index {bad} at \(1\) of 'labels'"):
                g.run({labels: np.array([1, bad])}, accuracy)


def test_embedding_error_names_invalid_index():
    g = mg.Graph()
    tokens = g.placeholder((2, -1), mg.int32, name="tokens")
    outside = np.array([[0, 4], [10, 1]], np.int32)
    with pytest.raises(
        mg.OutOfRangeError, match=r"index 10 at \(1,0\) of 'tokens' is out of range for axis 0 of length 10"
    ):
        g.run({tokens: outside}, nn.Embedding(10, 4)(tokens))
    zeros, clip = nn.Embedding(10, 4, out_of_range="zeros"), nn.Embedding(10, 4, out_of_range="clip")
    np.testing.assert_array_equal(g.run({tokens: outside}, zeros(tokens))[1, 0], np.zeros(4))
    np.testing.assert_array_equal(g.run({tokens: outside}, clip(tokens))[1, 0], g.run({}, clip.weight)[9])
