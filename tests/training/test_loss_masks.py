"""Test that samples ignored for their weight, label, or length affect neither a loss nor its gradient."""

import functools

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph.nn import losses

BAD = [np.nan, np.inf, -np.inf]
SIGNS, SHARES = np.float32([[1, -1, 1], [-1, 1, 1]]), np.float32([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
INDICES = np.int32([1, 2])
# Each loss with its labels for two samples of three outputs, and whether a sample has one loss instead of three.
ELEMENTWISE = ["mean_squared_error", "mean_absolute_error", "huber", "smooth_l1", "log_cosh"]
ELEMENTWISE += ["mean_squared_logarithmic_error", "mean_absolute_percentage_error", "poisson_nll", "kl_divergence"]
ELEMENTWISE += ["binary_cross_entropy", "binary_cross_entropy_with_logits", "log_loss"]
CASES = {name: (getattr(losses, name), [SHARES], False) for name in ELEMENTWISE}
CASES |= {name: (getattr(losses, name), [SIGNS], False) for name in ("hinge", "squared_hinge", "soft_margin")}
CASES |= {
    "hinge_embedding": (losses.hinge_embedding, [SIGNS], False),
    "rates": (functools.partial(losses.poisson_nll, log_input=False, full=True), [SHARES], False),
    "gaussian_nll": (losses.gaussian_nll, [SIGNS, SHARES + 1], False),
    "margin_ranking": (losses.margin_ranking, [SHARES, SIGNS], False),
    "cross_entropy": (losses.cross_entropy, [INDICES], True),
    "cross_entropy of shares": (losses.cross_entropy, [SHARES], True),
    "nll": (losses.nll, [INDICES], True),
    "categorical_cross_entropy": (losses.categorical_cross_entropy, [SHARES], True),
    "multi_label_soft_margin": (losses.multi_label_soft_margin, [np.float32([[1, 0, 1], [0, 0, 1]])], True),
    "cosine_distance": (losses.cosine_distance, [SHARES], True),
    "cosine_embedding": (losses.cosine_embedding, [SHARES, np.int32([1, -1])], True),
    "triplet_margin": (losses.triplet_margin, [SHARES, SIGNS], True),
}


def value_and_gradient(loss, outputs, others, **options):
    g = mg.Graph()
    x = g.variable(outputs)
    found = loss(g.read(x), *map(g.constant, others), **{k: g.constant(v) for k, v in options.items()})
    both = found, g.gradients(found, [x])[x]
    results = g.run({}, both)
    return results[both[0]].numpy(), results[both[1]].numpy()


@pytest.mark.both_devices
@pytest.mark.parametrize("bad", BAD, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_samples_with_weight_0_do_not_affect_losses(name, bad):
    loss, others, by_sample = CASES[name]
    outputs = np.float32([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]])
    weights = np.float32([0, 2]) if by_sample else np.float32([[0], [2]]) * np.ones(3, np.float32)
    wanted, slope = value_and_gradient(loss, outputs, others, weights=weights)
    outputs[0, 1] = bad
    others = [o.copy() for o in others]
    for other in others:
        if other.dtype == np.float32:
            other[0] = np.nan
    found, gradient = value_and_gradient(loss, outputs, others, weights=weights)
    assert found == wanted and np.isfinite(found) and found != 0
    np.testing.assert_array_equal(gradient, slope)
    assert (gradient[0] == 0).all() and (gradient[1] != 0).any()


@pytest.mark.both_devices
@pytest.mark.parametrize("bad", BAD, ids=str)
@pytest.mark.parametrize("name", ["cross_entropy", "nll"])
def test_logits_of_ignored_labels_do_not_affect_losses(name, bad):
    options = [{}, {"class_weights": [1.0, 2.0, 3.0]}, {"reduction": "sum"}]
    options += [{"label_smoothing": 0.1}] if name == "cross_entropy" else []
    for option in options:
        loss = functools.partial(getattr(losses, name), ignore_index=-100, **option)
        outputs, labels = np.float32([[0.1, 0.7, 0.2], [0.3, 0.3, 0.4]]), np.int32([-100, 2])
        wanted, slope = value_and_gradient(loss, outputs[1:], [labels[1:]])
        outputs[0, 1] = bad
        found, gradient = value_and_gradient(loss, outputs, [labels])
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        np.testing.assert_allclose(gradient[1:], slope, rtol=1e-6)
        assert (gradient[0] == 0).all()


@pytest.mark.both_devices
def test_ctc_propagates_nan_of_real_steps_and_ignores_padding(rng):
    logits, labels = rng.normal(size=(3, 5, 4)).astype(np.float32), np.int32([[1, 2], [3, 3], [2, 1]])
    lengths = {"input_lengths": np.int32([3, 4, 5])}
    wanted, slope = value_and_gradient(losses.ctc, logits, [labels], **lengths)
    logits[0, 3:] = np.nan
    logits[1, 4] = np.inf
    found, gradient = value_and_gradient(losses.ctc, logits, [labels], **lengths)
    assert found == wanted
    np.testing.assert_array_equal(gradient, slope)
    logits[2, 4, 0] = np.nan
    each = functools.partial(losses.ctc, reduction="none")
    g = mg.Graph()
    found = g.run({}, each(g.constant(logits), g.constant(labels), input_lengths=g.constant(lengths["input_lengths"])))
    assert np.isfinite(found.numpy()).tolist() == [True, True, False]
    assert np.isnan(found.numpy()[2])


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_of_labels_with_probability_0_is_infinite(zero_infinity):
    logits = np.zeros((1, 3, 3), np.float32)
    logits[..., 2] = -np.inf
    loss = functools.partial(losses.ctc, zero_infinity=zero_infinity)
    found, gradient = value_and_gradient(loss, logits, [np.int32([[2]])])
    assert found == (0 if zero_infinity else np.inf) and np.isfinite(gradient).all()


def test_trainer_ignores_samples_of_weight_0():
    """Missing labels are often NaN."""
    x, y = np.float32([[1.0, 2.0], [0.3, 1.0], [0.5, 1.0]]), np.float32([[1.0], [np.inf], [np.nan]])
    trainer = mg.Trainer(mg.nn.Linear(1), "mse", mg.optim.SGD(0.1))
    for _ in range(3):
        assert np.isfinite(float(trainer.train_step(x, y, np.float32([1, 0, 0]))))
    assert np.isfinite(trainer.weights()["weight"]).all()


@pytest.mark.parametrize("name", [n for n in losses.LOSSES if n != "ctc"])
def test_losses_propagate_nan(name):
    labels = INDICES if name in ("cross_entropy", "nll") else SIGNS if "hinge" in name else SHARES
    outputs = np.float32([[0.1, np.nan, 0.2], [0.3, 0.3, 0.4]])
    assert np.isnan(value_and_gradient(losses.LOSSES[name], outputs, [labels])[0])
