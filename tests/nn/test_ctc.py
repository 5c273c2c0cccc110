"""Test the CTC loss: PyTorch's values and gradients, impossible alignments, extreme logits, and invalid arguments."""

from functools import cache
from itertools import product
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from harness.device import has
from mpsgraph.nn.losses import ctc

pytestmark = pytest.mark.both_devices

WIDE = "float64" if has("float64") else "float32"
CLOSE = {"rtol": 1e-9, "atol": 1e-12} if has("float64") else {"rtol": 1e-4, "atol": 1e-5}


@cache
def golden():
    """Return the data written by tests/data/make_torch_ctc.py.

    Row 3 has fewer steps than labels, row 5 has neither steps nor labels, and row 6 has no labels.
    """
    with np.load(Path(__file__).parents[1] / "data" / "torch_ctc.npz") as numbers:
        return dict(numbers)


def losses_and_slopes(logits, labels, open_sizes=False, dtype=None, **options):
    g = mg.Graph()
    dtype = dtype or WIDE
    shape = (-1, logits.shape[1], logits.shape[2]) if open_sizes == "rows" else logits.shape
    fed = g.placeholder((-1, -1, logits.shape[2]) if open_sizes is True else shape, dtype)
    named = g.placeholder((-1, -1) if open_sizes else labels.shape, mg.int64)
    loss = ctc(fed, named, **options)
    slope = g.gradients(g.reduction_sum(loss), [fed])[fed]
    found = g.run({fed: logits.astype(dtype), named: labels}, [loss, slope])
    return found[loss].numpy(), found[slope].numpy()


def lengths():
    return {name: golden()[name] for name in ("input_lengths", "label_lengths")}


@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_ctc_losses_and_gradients_match_pytorch(open_sizes, batch_first):
    if open_sizes and WIDE == "float32":
        pytest.skip("the Metal device has no gradients of loops with a dynamic trip count")
    data = golden()
    logits = data["logits"] if batch_first else data["logits"].swapaxes(0, 1)
    options = {**lengths(), "zero_infinity": True, "batch_first": batch_first}
    losses, slopes = losses_and_slopes(logits, data["labels"], open_sizes, reduction="none", **options)
    np.testing.assert_allclose(losses, data["zeroed"], **CLOSE)
    np.testing.assert_allclose(slopes if batch_first else slopes.swapaxes(0, 1), data["d_zeroed"], **CLOSE)
    mean, slopes = losses_and_slopes(logits, data["labels"], open_sizes, **options)
    np.testing.assert_allclose(mean, data["mean"], **CLOSE)
    np.testing.assert_allclose(slopes if batch_first else slopes.swapaxes(0, 1), data["d_mean"], **CLOSE)


def test_any_class_index_can_be_the_ctc_blank():
    data = golden()
    options = {**lengths(), "zero_infinity": True, "blank": 4, "reduction": "sum"}
    total, slopes = losses_and_slopes(data["logits"], data["labels"] - 1, **options)
    np.testing.assert_allclose(total, data["last_blank"], **CLOSE)
    np.testing.assert_allclose(slopes, data["d_last_blank"], **CLOSE)


def test_impossible_ctc_alignment_has_infinite_loss_and_zero_gradient():
    data = golden()
    losses, slopes = losses_and_slopes(data["logits"], data["labels"], reduction="none", **lengths())
    np.testing.assert_allclose(losses, data["losses"], **CLOSE)
    assert np.isinf(losses[3]) and np.isfinite(losses[[0, 1, 2, 4, 5, 6]]).all()
    np.testing.assert_allclose(slopes, data["d_zeroed"], **CLOSE)


def test_ctc_loss_equals_sum_over_all_alignments(rng):
    logits, labels = rng.normal(size=(1, 4, 3)), np.array([[1, 1]])
    odds = np.exp(logits[0]) / np.exp(logits[0]).sum(-1, keepdims=True)

    def written(way):
        return [c for i, c in enumerate(way) if c and (i == 0 or way[i - 1] != c)]

    total = sum(np.prod(odds[range(4), way]) for way in product(range(3), repeat=4) if written(way) == [1, 1])
    np.testing.assert_allclose(losses_and_slopes(logits, labels, reduction="sum")[0], -np.log(total), **CLOSE)


def test_ctc_labels_without_lengths_end_at_the_first_blank(rng):
    logits, labels = rng.normal(size=(3, 8, 4)), np.array([[1, 2, 0, 0], [3, 0, 2, 0], [0, 0, 0, 0]])
    alone, slopes = losses_and_slopes(logits, labels, reduction="none")
    counted, other = losses_and_slopes(logits, labels, reduction="none", label_lengths=[2, 1, 0])
    np.testing.assert_array_equal(alone, counted)
    np.testing.assert_array_equal(slopes, other)


@pytest.mark.parametrize("size", [1e3, 1e30, np.inf])
def test_extreme_logits_give_finite_ctc_gradients(size, rng):
    """One class has all the probability at every step. The loss is zero for its labels and large for other labels, or
    infinite if their probability is 0. Nothing is NaN.
    """
    logits = np.full((2, 6, 3), -size)
    logits[0, :, :], logits[1, :, 0] = [-size, 0, -size], 0
    losses, slopes = losses_and_slopes(logits, np.array([[1], [1]]), reduction="none", dtype="float32")
    assert losses[0] == pytest.approx(0, abs=1e-6) and losses[1] > 990 and np.isfinite(losses[1]) == np.isfinite(size)
    assert np.isfinite(slopes).all() and np.abs(slopes).max() <= 6.001


def test_float16_ctc_loss_matches_float32_accuracy(rng):
    logits, labels = rng.normal(size=(2, 9, 4)), rng.integers(1, 4, (2, 3))
    half, slopes = losses_and_slopes(logits, labels, dtype="float16")
    wide, other = losses_and_slopes(logits.astype(np.float16), labels, dtype="float32")
    np.testing.assert_allclose(half, wide, rtol=2e-3)
    np.testing.assert_allclose(slopes, other, atol=2e-3)


def test_loss_lookup_by_name_finds_ctc_loss():
    assert mg.nn.losses.loss_named("ctc") is ctc


def test_invalid_ctc_labels_and_lengths_raise(rng):
    logits = rng.normal(size=(2, 6, 4))
    with pytest.raises(mg.OutOfRangeError, match="4"):
        losses_and_slopes(logits, np.array([[1], [4]]))
    with pytest.raises(mg.OutOfRangeError, match="from 0 to 6, .*got 7"):
        losses_and_slopes(logits, np.array([[1], [3]]), input_lengths=[6, 7])
    with pytest.raises(mg.OutOfRangeError, match="from 0 to 1, .*got 2"):
        losses_and_slopes(logits, np.array([[1], [3]]), label_lengths=[1, 2])
    with pytest.raises(mg.ShapeError, match=r"one entry for each sequence, shape \(2,\)"):
        losses_and_slopes(logits, np.array([[1], [3]]), label_lengths=[1])
    with pytest.raises(mg.ShapeError, match="labels must be"):
        losses_and_slopes(logits, np.array([[1], [3], [2]]))
    with pytest.raises(mg.ShapeError, match="blank must be .* got 4"):
        losses_and_slopes(logits, np.array([[1], [3]]), blank=4)
    with pytest.raises(mg.ShapeError, match="time"):
        losses_and_slopes(logits[0][None, None], np.array([[1]]))
    with pytest.raises(mg.GraphError, match="reduction"):
        losses_and_slopes(logits, np.array([[1], [3]]), reduction="all")
    g = mg.Graph()
    with pytest.raises(mg.DTypeError, match="integer class indices"):
        ctc(g.constant(0.0, (2, 3, 4)), g.constant(1.0, (2, 1)))
