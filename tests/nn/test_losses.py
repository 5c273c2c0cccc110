"""Compare losses with PyTorch's values and gradients or, for Keras and MPSCNNLoss, with their formulas."""

from functools import partial

import mpsgraph as mg
import numpy as np
import pytest
from harness.torch_layers import compare
from mpsgraph.nn import losses


def weighed(function, **how):
    """Return the loss function with class weights as its third operand."""
    return lambda x, labels, weights, **more: function(x, labels, class_weights=weights, **how, **more)


REDUCED = {
    "cross_entropy": losses.cross_entropy,
    "cross_entropy_images": partial(losses.cross_entropy, axis=1),
    "cross_entropy_weighed": weighed(losses.cross_entropy, label_smoothing=0.25),
    "cross_entropy_ignored": weighed(losses.cross_entropy, label_smoothing=0.25, ignore_index=-100),
    "cross_entropy_shares": weighed(losses.cross_entropy, label_smoothing=0.25),
    "nll": weighed(losses.nll, ignore_index=-100),
    "mse": losses.mean_squared_error,
}
LOSSES = {f"{name}_{how}": partial(REDUCED[name], reduction=how) for name in REDUCED for how in ("mean", "sum", "none")}
LOSSES |= {
    "l1": losses.mean_absolute_error,
    "huber": partial(losses.huber, delta=0.75),
    "smooth_l1": partial(losses.smooth_l1, beta=0.5),
    "poisson": losses.poisson_nll,
    "poisson_full": partial(losses.poisson_nll, full=True),
    "poisson_rates": partial(losses.poisson_nll, log_input=False),
    "gaussian": losses.gaussian_nll,
    "gaussian_full": partial(losses.gaussian_nll, full=True),
    "bce": losses.binary_cross_entropy,
    "bce_logits": losses.binary_cross_entropy_with_logits,
    "bce_weighed": lambda x, t, p: losses.binary_cross_entropy_with_logits(x, t, positive_weight=p),
    "kl": partial(losses.kl_divergence, reduction="batch_mean"),
    "kl_log": partial(losses.kl_divergence, log_labels=True),
    "soft_margin": losses.soft_margin,
    "hinge_embedding": partial(losses.hinge_embedding, margin=0.5),
    "multi_label": weighed(losses.multi_label_soft_margin),
    "cosine_similarity": losses.cosine_similarity,
    "cosine_embedding": partial(losses.cosine_embedding, margin=0.25),
    "margin_ranking": partial(losses.margin_ranking, margin=0.5),
    "triplet": partial(losses.triplet_margin, swap=True),
    "triplet_p": partial(losses.triplet_margin, margin=0.5, p=3.0, reduction="sum"),
}


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_match_pytorch(name, known):
    compare(name, LOSSES[name], known=known or "images" in name)


def value(function, *arrays, **how):
    g = mg.Graph()
    return g.run({}, function(*(g.constant(a) for a in arrays), **how)).numpy()


@pytest.fixture
def x(rng):
    return rng.normal(size=(4, 3)).astype(np.float32)


@pytest.fixture
def y(rng):
    return rng.normal(size=(4, 3)).astype(np.float32)


def test_keras_and_mps_losses_match_their_formulas(x, y):
    signs, p, q = np.sign(y), 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-y))
    unit = [a / np.linalg.norm(a, axis=-1, keepdims=True) for a in (x, y)]
    wanted = {
        "hinge": (x, signs, np.maximum(0, 1 - x * signs).mean()),
        "squared_hinge": (x, signs, (np.maximum(0, 1 - x * signs) ** 2).mean()),
        "log_cosh": (x, y, np.log(np.cosh(x - y)).mean()),
        "mean_squared_logarithmic_error": (p, q, ((np.log1p(p) - np.log1p(q)) ** 2).mean()),
        "mean_absolute_percentage_error": (x, y, (100 * np.abs((x - y) / y)).mean()),
        "log_loss": (p, q, -(q * np.log(p + 1e-7) + (1 - q) * np.log(1 - p + 1e-7)).mean()),
        "categorical_cross_entropy": (p, q, -(q * np.log(p)).sum(-1).mean()),
        "cosine_distance": (*unit, (1 - (unit[0] * unit[1]).sum(-1)).mean()),
    }
    for name, (outputs, labels, expected) in wanted.items():
        np.testing.assert_allclose(value(getattr(losses, name), outputs, labels), expected, rtol=1e-5, err_msg=name)


def test_losses_and_gradients_are_finite_at_extreme_values():
    """Probabilities of 0 and 1, zero vectors, and huge differences give finite losses and gradients."""
    g = mg.Graph()
    cases = {
        losses.binary_cross_entropy: ([0.0, 1.0, 0.0], [0.0, 1.0, 1.0]),
        losses.kl_divergence: ([-1.0, -2.0, -3.0], [0.0, 1.0, 0.5]),
        losses.cosine_similarity: ([0.0, 0.0, 0.0], [1.0, 2.0, 0.0]),
        losses.binary_cross_entropy_with_logits: ([1e4, -1e4, 0.0], [0.0, 1.0, 1.0]),
        losses.log_cosh: ([1e30, 0.0, -1e30], [0.0, 0.0, 0.0]),
    }
    for function, (outputs, labels) in cases.items():
        fed = g.constant(outputs)
        loss = function(fed, g.constant(labels))
        found = g.run({}, [loss, g.gradients(loss, [fed])[fed]])
        assert all(np.isfinite(v.numpy()).all() for v in found.values()), function.__name__


@pytest.mark.parametrize("name", [n for n in losses.LOSSES if n != "ctc"])  # CTC takes sequences; test_ctc covers it.
def test_nan_output_gives_nan_loss(name):
    g = mg.Graph()
    outputs = g.constant([[0.5, np.nan], [0.5, 0.5]])
    by_index = name in ("nll", "cross_entropy")
    labels = g.constant([1, 0]) if by_index else g.constant([[0.0, 1.0], [1.0, 0.0]])
    assert np.isnan(g.run({}, losses.LOSSES[name](outputs, labels)).numpy())


def test_nan_variance_gives_nan_gaussian_loss():
    assert np.isnan(value(losses.gaussian_nll, *np.array([[1.0, 1.0], [2.0, 2.0], [1.0, np.nan]], np.float32)))


def test_losses_apply_reductions_and_sample_weights(x, y):
    weights = np.array([[0.0], [2.0], [0.0], [0.5]], np.float32)
    each = (x - y) ** 2 * weights
    for reduction, wanted in {
        "mean": each.mean(), "sum": each.sum(), "none": each, "sum_by_nonzero_weights": each.sum() / 6,
    }.items():  # fmt: skip
        found = value(
            lambda a, b, w, how=reduction: losses.mean_squared_error(a, b, weights=w, reduction=how), x, y, weights
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert value(losses.reduced, x, reduction="sum_by_nonzero_weights") == pytest.approx(x.mean(), rel=1e-5)
    zero = value(lambda a, w: losses.reduced(a, "sum_by_nonzero_weights", w), x, 0 * weights)
    assert zero == 0
    per_sample = np.array([1.0, 0.0, 2.0, 0.0], np.float32)
    labels = np.array([0, 1, 2, 1])
    found = value(lambda a, t, w: losses.cross_entropy(a, t, weights=w), x, labels, per_sample)
    logs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    np.testing.assert_allclose(found, -(logs[np.arange(4), labels] * per_sample).mean(), rtol=1e-5)


def test_binary_label_smoothing_equals_smoothed_labels(x):
    labels = (x > 0).astype(np.float32)
    smooth = labels * 0.8 + 0.1
    found = value(losses.binary_cross_entropy_with_logits, x, labels, label_smoothing=0.2)
    wanted = value(losses.binary_cross_entropy_with_logits, x, smooth)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_half_precision_losses_match_float32(x, y):
    for dtype in ("float16", "bfloat16"):
        g = mg.Graph()
        outputs, labels = g.cast(g.constant(x), dtype), g.constant(np.abs(y) % 1)
        for name in ("binary_cross_entropy_with_logits", "cross_entropy", "huber", "kl_divergence", "cosine_distance"):
            loss = losses.LOSSES[name](outputs, labels)
            assert str(loss.dtype) == dtype
            wide = losses.LOSSES[name](g.constant(x), labels)
            found = g.run({}, [g.cast(loss, "float32"), wide])
            narrow, wanted = (float(v) for v in found.values())
            assert narrow == pytest.approx(wanted, rel=3e-2, abs=1e-2), name


@pytest.mark.parametrize("name", [n for n in losses.LOSSES if n not in ("nll", "ctc")])
def test_models_train_with_losses_given_by_name(name):
    """Fitting a single layer lowers each loss."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(32, 5)).astype(np.float32)
    hidden = inputs @ rng.normal(size=(5, 3)).astype(np.float32)
    labels = {
        "hinge": np.sign(hidden), "squared_hinge": np.sign(hidden), "soft_margin": np.sign(hidden),
        "hinge_embedding": np.sign(hidden), "cross_entropy": hidden.argmax(1),
        "categorical_cross_entropy": np.eye(3)[hidden.argmax(1)], "kl_divergence": np.eye(3)[hidden.argmax(1)],
        "mean_absolute_percentage_error": (hidden > 0) + 1.0,
        "cosine_distance": hidden / np.linalg.norm(hidden, axis=1, keepdims=True),
    }.get(name, (hidden > 0) + 0.0)  # fmt: skip
    g = mg.Graph(seed=1)
    fed = g.placeholder((-1, 5))
    outputs = mg.nn.Linear(3)(fed)
    if name in ("binary_cross_entropy", "log", "mean_squared_logarithmic_error", "categorical_cross_entropy"):
        outputs = g.sigmoid(outputs)
    if name == "kl_divergence":
        outputs = g.log_softmax(outputs)
    target = g.constant(labels.astype(np.int32 if name == "cross_entropy" else np.float32))
    loss = losses.loss_named(name)(outputs, target)
    variables = g.trainable_variables
    steps = mg.optim.Adam(0.01).updates(g.gradients(loss, variables), g.constant(0.01))
    values = [float(g.run({fed: inputs}, loss, steps)) for _ in range(20)]
    assert values[-1] < values[0]


def test_invalid_loss_arguments_raise(x):
    g = mg.Graph()
    given, labels = g.constant(x), g.constant(np.array([0, 1, 2, 0]))
    with pytest.raises(mg.GraphError, match="one of mean, sum, none"):
        losses.huber(given, given, reduction="average")
    with pytest.raises(mg.GraphError, match="delta"):
        losses.huber(given, given, delta=0)
    with pytest.raises(mg.ShapeError, match="class_weights"):
        losses.cross_entropy(given, labels, class_weights=g.constant([1.0, 2.0]))
    with pytest.raises(mg.GraphError, match="ignore_index"):
        losses.cross_entropy(given, given, ignore_index=0)
    with pytest.raises(mg.GraphError, match="label_smoothing"):
        losses.cross_entropy(given, labels, label_smoothing=2.0)
    with pytest.raises(mg.ShapeError, match="axis 2 is out of range"):
        losses.cross_entropy(given, labels, axis=2)
    with pytest.raises(mg.ShapeError, match="nll"):
        losses.nll(given, given)
    with pytest.raises(mg.GraphError, match="p must be"):
        losses.triplet_margin(given, given, given, p=0.5)
    with pytest.raises(mg.ShapeError, match="labels must have the shape of outputs"):
        losses.hinge(given, labels)
    with pytest.raises(mg.ShapeError, match="weights must broadcast"):
        losses.hinge(given, given, weights=g.constant(np.ones((1, 4, 3), np.float32)))
