"""Compare losses with formulas in numpy for all combinations of type, reduction, weights, and label smoothing.

reduce_across_batch is set and unset. The gradient is weighted but not divided, because the reduction applies only to
the reported loss.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness.node_cases import log_softmax, softmax
from harness.nodes import close, graph_of, pool, run
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

Array = np.ndarray
SHAPE = (3, 2, 2, 4)
CLASSES, EPSILON, DELTA = 4, 1e-3, 0.75


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def absolute_error(y: Array, t: Array) -> tuple[Array, Array]:
    return np.abs(y - t), np.sign(y - t)


def squared_error(y: Array, t: Array) -> tuple[Array, Array]:
    return (y - t) ** 2, 2 * (y - t)


def softmax_cross_entropy(y: Array, t: Array) -> tuple[Array, Array]:
    return -t * log_softmax(y), softmax(y) - t


def sigmoid_cross_entropy(y: Array, t: Array) -> tuple[Array, Array]:
    return np.maximum(y, 0) - y * t + np.log1p(np.exp(-np.abs(y))), sigmoid(y) - t


def categorical_cross_entropy(y: Array, t: Array) -> tuple[Array, Array]:
    return -t * np.log(y), -t / y


def hinge(y: Array, t: Array) -> tuple[Array, Array]:
    s = 1 - 2 * t
    return np.maximum(1 + s * y, 0), np.where(1 + s * y > 0, s, 0)


def huber(y: Array, t: Array) -> tuple[Array, Array]:
    d = y - t
    far = 0.5 * DELTA**2 + DELTA * (np.abs(d) - DELTA)
    return np.where(np.abs(d) <= DELTA, 0.5 * d * d, far), np.clip(d, -DELTA, DELTA)


def cosine(y: Array, t: Array) -> tuple[Array, Array]:
    return -y * t, -t  # The reduced loss adds the constant 1 to this sum.


def logarithmic(y: Array, t: Array) -> tuple[Array, Array]:
    e = EPSILON
    return -t * np.log(y + e) - (1 - t) * np.log(1 - y + e), (-2 * e * t - t + y + e) / (y * (1 - y) + e * (e + 1))


def kullback_leibler(y: Array, t: Array) -> tuple[Array, Array]:
    return t * (np.log(t) - y), -t


def onehot(seed: int) -> Array:
    return np.eye(CLASSES)[np.random.default_rng(seed).integers(0, CLASSES, SHAPE[:3])]


# type: (formula, predictions, labels)
LOSSES: dict[str, tuple[Any, Array, Array]] = {
    "mean_absolute_error": (absolute_error, pool(*SHAPE, seed=1), pool(*SHAPE, seed=2)),
    "mean_squared_error": (squared_error, pool(*SHAPE, seed=1), pool(*SHAPE, seed=2)),
    "softmax_cross_entropy": (softmax_cross_entropy, pool(*SHAPE, seed=1), onehot(2)),
    "sigmoid_cross_entropy": (sigmoid_cross_entropy, 3 * pool(*SHAPE, seed=1), onehot(2)),
    "categorical_cross_entropy": (categorical_cross_entropy, pool(*SHAPE, seed=1, low=0.1), onehot(2)),
    "hinge": (hinge, pool(*SHAPE, seed=1), onehot(2)),
    "huber": (huber, pool(*SHAPE, seed=1), pool(*SHAPE, seed=2)),
    "cosine_distance": (cosine, pool(*SHAPE, seed=1), pool(*SHAPE, seed=2)),
    "log": (logarithmic, pool(*SHAPE, seed=1, low=0.05, high=0.95), onehot(2)),
    "kullback_leibler_divergence": (kullback_leibler, -pool(*SHAPE, seed=1, low=0.1), pool(*SHAPE, seed=2, low=0.1)),
}
REDUCTIONS = ("none", "sum", "mean", "sum_by_nonzero_weights")
some = pool(*SHAPE, seed=5)
some[0, 0] = 0
WEIGHTS: dict[str, Any] = {
    "one": 1.0,
    "number": 0.3,
    "elements": some,
    "images": np.array([[[[2.0]]], [[[0]]], [[[-1]]]]),
}


def descriptor(loss: str, reduction: str, weights: Any, smoothing: float, across: bool) -> nn.LossDescriptor:
    return nn.LossDescriptor(
        loss,
        reduction,
        weight=weights if isinstance(weights, float) else 1.0,
        label_smoothing=smoothing,
        number_of_classes=CLASSES,
        epsilon=EPSILON,
        delta=DELTA,
        reduce_across_batch=across,
    )


def by_hand(loss: str, reduction: str, weights: Any, smoothing: float, across: bool) -> tuple[Array, Array]:
    """Return the loss images and the gradient images, computed in numpy."""
    formula, y, t = LOSSES[loss]
    if loss == "softmax_cross_entropy":
        t = t * (1 - smoothing) + smoothing / CLASSES
    if loss == "sigmoid_cross_entropy":
        t = t * (1 - smoothing) + smoothing / 2
    each, slope = formula(y, t)
    w = np.broadcast_to(weights, SHAPE)
    each, slope = w * each, w * slope
    if reduction == "none":
        return each, slope
    axes = (0, 1, 2, 3) if across else (1, 2, 3)
    total = each.sum(axes, keepdims=True)
    if loss == "cosine_distance":
        total = total + (SHAPE[0] if across else 1)
    if reduction == "mean":
        total = total / (np.prod(SHAPE[1:3]) * (1 if loss == "softmax_cross_entropy" else SHAPE[3]))
        total = total / (SHAPE[0] if across else 1)
    if reduction == "sum_by_nonzero_weights":
        number = (w != 0).sum(axes, keepdims=True)
        total = np.divide(total, number, out=np.zeros_like(total), where=number > 0)
    if across:
        total = np.concatenate([total, np.zeros((SHAPE[0] - 1, 1, 1, 1))])
    return total, slope


def all_of() -> list[Any]:
    result = []
    for loss, reduction, weights, across in itertools.product(LOSSES, REDUCTIONS, WEIGHTS, (False, True)):
        if loss == "cosine_distance" and reduction != "sum":
            continue
        for smoothing in (0.0, 0.2) if "cross_entropy" in loss or loss == "huber" else (0.0,):
            result.append((loss, reduction, weights, smoothing, across))
    return result


@pytest.mark.parametrize(("loss", "reduction", "weights", "smoothing", "across"), all_of())
def test_loss_node_and_gradient_match_formula(loss: str, reduction: str, weights: str, smoothing: float, across: bool):
    given = (loss, reduction, WEIGHTS[weights], smoothing, across)
    wanted, slope = by_hand(*given)
    _, y, t = LOSSES[loss]
    node = nn.LossNode(nn.ImageNode("y"), descriptor(*given), label="loss")
    w = WEIGHTS[weights]
    labels = nn.LossLabelsBatch(t.astype(np.float32), None if isinstance(w, float) else w.astype(np.float32))
    (found,) = run(graph_of(node.result_image), {"y": y.astype(np.float32)}, [labels])
    close(found, slope, 2e-5, "gradient")
    close(labels.losses.numpy(), wanted, 2e-5, "loss")


@pytest.mark.parametrize("weights", ["number", "elements"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_forward_loss_and_its_gradient_match_formula(loss: str, reduction: str, weights: str, across: bool):
    if loss == "cosine_distance" and reduction != "sum":
        pytest.skip("cosine_distance supports only the reduction 'sum'")
    given = (loss, reduction, WEIGHTS[weights], 0.0, across)
    wanted, slope = by_hand(*given)
    _, y, t = LOSSES[loss]
    images = [nn.ImageNode("y"), nn.ImageNode("t")]
    feeds = {"y": y.astype(np.float32), "t": t.astype(np.float32), "g": pool(*wanted.shape, seed=7).astype(np.float32)}
    if not isinstance(WEIGHTS[weights], float):
        images.append(nn.ImageNode("w"))
        feeds["w"] = WEIGHTS[weights].astype(np.float32)
    node = nn.ForwardLossNode(*images, loss_descriptor=descriptor(*given))
    backward = node.gradient_filters(nn.ImageNode("g"))
    found, gradient = run(graph_of([node.result_image, backward[0].result_image]), feeds)
    incoming = feeds["g"][:1] if across and reduction != "none" else feeds["g"]
    close(found, wanted, 2e-5, "loss")
    close(gradient, slope * incoming, 2e-5, "gradient")


@pytest.mark.parametrize("loss", ["mean_squared_error", "softmax_cross_entropy", "sigmoid_cross_entropy", "log"])
def test_loss_gradients_of_labels_and_weights_match_formula(loss: str):
    """Compare with central differences of the summed loss."""
    rng = np.random.default_rng(5)
    feeds = {name: rng.uniform(0.2, 0.8, (2, 2, 3, 4)).astype(np.float32) for name in ("y", "t", "w")}
    feeds["t"] /= feeds["t"].sum(-1, keepdims=True)  # The softmax formula assumes that the labels sum to 1.
    feeds["w"][...] = feeds["w"][..., :1]  # The softmax formula uses one weight for all channels of a pixel.
    images = [nn.ImageNode(name) for name in feeds]
    node = nn.ForwardLossNode(*images, loss_descriptor=nn.LossDescriptor(loss, "sum"))
    backward = node.gradient_filters(nn.InitialGradientNode(node.result_image).result_image)
    found = run(graph_of([filter.result_image for filter in backward]), feeds)
    forward = graph_of(node.result_image)
    for source, gradient in zip(feeds, found, strict=True):
        for at in ((0, 0, 0, 0), (1, 1, 2, 3)):
            sums = []
            for step in (1e-2, -1e-2):
                moved = {**feeds, source: feeds[source].copy()}
                moved[source][at] += np.float32(step)
                sums.append(float(run(forward, moved)[0].sum()))
            assert gradient[at] == pytest.approx((sums[0] - sums[1]) / 2e-2, rel=5e-3, abs=5e-3), (source, at)
        assert np.abs(gradient).max() > 1e-3, source


def test_losses_match_pytorch():
    """Expected values are from cross_entropy, binary_cross_entropy_with_logits, huber_loss, and mse_loss of PyTorch
    2.13.
    """
    y = np.float32([[[[1, 2, 3, 0.5]]]])
    t = np.float32([[[[0, 0, 1, 0]]]])

    def loss_of(name: str, reduction: str = "sum", **options: Any) -> float:
        labels = nn.LossLabelsBatch(t)
        node = nn.LossNode(nn.ImageNode("y"), nn.LossDescriptor(name, reduction, **options))
        run(graph_of(node.result_image), {"y": y}, [labels])
        return float(labels.losses.numpy().sum())

    assert loss_of("softmax_cross_entropy") == pytest.approx(0.46077350, rel=1e-5)
    assert loss_of("softmax_cross_entropy", label_smoothing=0.2, number_of_classes=4) == pytest.approx(
        0.73577350, rel=1e-5
    )
    assert loss_of("sigmoid_cross_entropy") == pytest.approx(4.46285439, rel=1e-5)
    assert loss_of("huber") == pytest.approx(3.625, rel=1e-6)
    assert loss_of("mean_squared_error", "mean") == pytest.approx(2.3125, rel=1e-6)


def test_losses_of_large_predictions_are_finite():
    y = np.float32([[[[1e4, -1e4, 88, -88]]]])
    t = np.float32([[[[0, 1, 1, 0]]]])
    for name, wanted in {"softmax_cross_entropy": 2e4 + 9912, "sigmoid_cross_entropy": 2e4}.items():
        labels = nn.LossLabelsBatch(t)
        node = nn.LossNode(nn.ImageNode("y"), nn.LossDescriptor(name))
        (gradient,) = run(graph_of(node.result_image), {"y": y}, [labels])
        assert np.isfinite(gradient).all()
        assert float(labels.losses.numpy().sum()) == pytest.approx(wanted, rel=1e-6)


def test_logarithmic_losses_with_label_zero_are_finite():
    y, t = np.float32([[[[0, 1]]]]), np.float32([[[[0, 1]]]])
    for name in ("categorical_cross_entropy", "kullback_leibler_divergence"):
        labels = nn.LossLabelsBatch(t)
        node = nn.LossNode(nn.ImageNode("y"), nn.LossDescriptor(name))
        (gradient,) = run(graph_of(node.result_image), {"y": y}, [labels])
        assert np.isfinite(gradient).all()
        assert np.isfinite(labels.losses.numpy()).all()


def test_surplus_label_channels_are_ignored():
    """The labels have twelve channels for ten classes, as in Apple's MNIST sample."""
    y = pool(2, 1, 1, 10).astype(np.float32)
    t = np.zeros((2, 12), np.float32)
    t[[0, 1], [3, 7]] = 1
    labels = nn.LossLabelsBatch(t)
    node = nn.LossNode(nn.ImageNode("y"), nn.LossDescriptor("softmax_cross_entropy"))
    (gradient,) = run(graph_of(node.result_image), {"y": y}, [labels])
    wanted = softmax_cross_entropy(y.astype(float), t[:, None, None, :10])
    close(gradient, wanted[1], 2e-6, "gradient")
    close(labels.losses.numpy(), wanted[0].sum((1, 2, 3), keepdims=True), 2e-6, "loss")


def test_default_loss_options_equal_apple_defaults():
    d = nn.LossDescriptor("log")
    assert (d.weight, d.label_smoothing, d.number_of_classes, d.epsilon, d.delta) == (1, 0, 1, 1e-7, 1)
    assert d.reduce_across_batch is False
