"""Compare values and gradients of every loss with its formula in float64, for outputs of each floating-point type.

Gradients are compared with finite differences of the formula. tests/nn/test_losses.py compares losses with PyTorch's.
"""

import ml_dtypes
import mpsgraph as mg
import numpy as np
import pytest
from harness import loss_formulas as formulas
from mpsgraph.nn import losses

TYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float64": np.float64}
SIGNED = ("hinge", "squared_hinge", "soft_margin", "hinge_embedding")
ALL = formulas.ELEMENTWISE | formulas.OF_PROBABILITIES | formulas.BY_SAMPLE


def data(name, kind, rng):
    """Return outputs away from the kinks of the losses, labels, and weights, as numbers that the type can hold."""
    x, y = rng.normal(size=(6, 5)) * 2, rng.uniform(0.1, 1, (6, 5))
    if name in formulas.OF_PROBABILITIES:
        x = rng.uniform(0.1, 0.9, (6, 5))
    if name in SIGNED:
        y = np.sign(rng.normal(size=(6, 5)))
    if name == "multi_label_soft_margin":
        y = (y > 0.5).astype(float)
    x, y = x.astype(kind).astype(float), y.astype(kind).astype(float)
    if name in ("cross_entropy", "nll"):
        y = rng.integers(0, 5, 6)
    weights = rng.uniform(0.5, 2, 6 if name in formulas.BY_SAMPLE else (6, 1)).astype(kind).astype(float)
    return x, y, weights


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ALL)
def test_losses_and_gradients_match_float64_formulas(name, dtype, rng):
    kind, formula = TYPES[dtype], ALL[name]
    x, y, weights = data(name, kind, rng)
    g = mg.Graph()
    v = g.variable(x.astype(kind), dtype)
    labels = g.constant(y.astype(np.int32) if y.dtype.kind == "i" else y.astype(kind))
    options = {"mean": {}, "sum": {"reduction": "sum"}, "weighted": {"weights": g.constant(weights.astype(kind))}}
    each = formula(x, y)
    wanted = {"mean": each.mean(), "sum": each.sum(), "weighted": (each * weights).mean()}
    factors = {"mean": 1 / each.size, "sum": 1.0, "weighted": weights / each.size}
    step = 1e-6
    slope = np.zeros_like(x)
    for column in range(5):
        moved = x.copy()
        moved[:, column] += step
        back = x.copy()
        back[:, column] -= step
        change = (formula(moved, y) - formula(back, y)) / (2 * step)
        slope[:, column] = change if change.ndim == 1 else change[:, column]
    eps = float(ml_dtypes.finfo(kind).eps) if dtype != "float64" else 1e-9
    for how, option in options.items():
        loss = getattr(losses, name)(g.read(v), labels, **option)
        results = g.run({}, [loss, g.gradients(loss, [v])[v]])
        value, gradient = (results[t].numpy().astype(float) for t in results)
        factor = factors[how]
        if isinstance(factor, np.ndarray):
            factor = np.broadcast_to(factor.reshape(6, 1), (6, 5))
        limit = 4 * eps if dtype != "float32" else 1e-5
        np.testing.assert_allclose(value, wanted[how], rtol=limit, atol=limit)
        np.testing.assert_allclose(gradient, slope * factor, rtol=limit, atol=max(limit * np.abs(factor).max(), 1e-9))


SCHEDULES = {
    "step": (mg.optim.StepRate(0.1, 30, 0.5), lambda s: 0.1 * 0.5 ** (s // 30)),
    "exponential": (mg.optim.ExponentialRate(0.1, 7, 0.9), lambda s: 0.1 * 0.9 ** (s / 7)),
    "cosine": (mg.optim.CosineRate(0.1, 300, 0.01), lambda s: 0.01 + 0.09 * np.cos(np.pi / 2 * min(s / 300, 1)) ** 2),
    "polynomial": (mg.optim.PolynomialRate(0.1, 300, 2.0, 0.01), lambda s: 0.01 + 0.09 * (1 - min(s / 300, 1)) ** 2),
    "restarts": (mg.optim.CosineRestartsRate(0.1, 50), lambda s: 0.1 * np.cos(np.pi / 2 * (s % 50) / 50) ** 2),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_match_their_formulas_at_large_step_counts(name):
    schedule, formula = SCHEDULES[name]
    for step in (*range(400), 10**4, 10**6 + 1, 2**24 + 1, 2**31 + 1, 10**12):
        assert schedule(step) == pytest.approx(formula(step), rel=1e-9, abs=1e-12)
    warm = mg.optim.WarmUp(schedule, 10)
    assert warm(4) == pytest.approx(formula(0) / 2) and warm(2**24 + 11) == pytest.approx(formula(2**24 + 1))


def test_trainer_follows_schedules_after_2_to_the_24_steps():
    """float32 cannot represent 2^24 + 1."""
    trainer = mg.Trainer(mg.nn.Linear(1), "mse", mg.optim.SGD(lambda step: float(step % 2)), metrics=())
    x = np.ones((2, 1), np.float32)
    trainer.evaluate(x, x)
    trainer.step = 2**24 + 1
    before = trainer.weights()["weight"]
    assert trainer.learning_rate == 1
    trainer.train_step(x, 3 * x).wait()
    assert trainer.step == 2**24 + 2 and (trainer.weights()["weight"] != before).all()
