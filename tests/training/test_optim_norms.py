"""Compare LAMB, LARS, Adafactor, and Muon with results of optax and PyTorch, and test them in a Trainer."""

import json
from pathlib import Path

import mpsgraph as mg
import numpy as np
import pytest
from mpsgraph import nn, optim

STEPS, RATE = 6, 0.05
RECORDED = json.loads((Path(__file__).parents[1] / "data" / "optimizers.json").read_text())
MADE = {
    "lamb": lambda: optim.LAMB(RATE),
    "lamb in full": lambda: optim.LAMB(RATE, 0.8, 0.9, 1e-3, 0.1),
    "lars": lambda: optim.LARS(RATE),
    "lars in full": lambda: optim.LARS(RATE, 0.7, True, 0.1, 0.02, 1e-2),
    "adafactor": lambda: optim.Adafactor(RATE),
    "adafactor in full": lambda: optim.Adafactor(RATE, -0.6, 1e-5, 1e-2, 2.0, 0.1),
    "muon": lambda: optim.Muon(RATE, 0.1, nesterov=False),
    "muon by torch": lambda: optim.Muon(RATE),
    "muon by torch in full": lambda: optim.Muon(
        RATE, 0.0, 0.8, False, iterations=3, adjustment="match_rms_adamw"
    ),
}  # fmt: skip
CASES = [(name, shape) for name, ends in RECORDED["ends"].items() for shape in ends]


def moved(optimizer, start, dtype, steps=STEPS):
    g = mg.Graph()
    v, rate = g.variable(start, dtype, name="v"), g.placeholder(len(optimizer.rates()) > 1 and (-1,) or ())
    d = g.read(v) * 2.0 + 0.3
    updates = optimizer.updates({v: d}, rate)
    for step in range(steps):
        g.run({rate: np.float32(optimizer.learning_rate(step))}, [], updates)
    return g.run({}, g.cast(g.read(v), "float64")).numpy()


@pytest.mark.parametrize("name, shape", CASES)
def test_norm_based_optimizers_match_optax_and_pytorch(name, shape):
    start, wanted = np.array(RECORDED["starts"][shape]), np.array(RECORDED["ends"][name][shape])
    found = moved(MADE[name](), start, "float64")
    bfloat16 = name.startswith("muon by torch")  # PyTorch orthogonalizes the update in bfloat16.
    np.testing.assert_allclose(found, wanted, rtol=2e-2 if bfloat16 else 1e-5, atol=5e-3 if bfloat16 else 1e-6)
    assert np.abs(wanted - start).max() > (1e-4 if name == "lars" else 0.02), "steps must be large enough to compare"
    assert np.abs(found - start - (wanted - start)).max() < 0.1 * np.abs(wanted - start).max()
    np.testing.assert_allclose(moved(MADE[name](), start, "float32"), found, rtol=2e-5, atol=1e-5)


def muon(w, rate, steps, decay, momentum, nesterov, factor):
    """Compute the update as in Muon's paper and reference code, in float64, for a matrix of outputs by inputs."""
    m = np.zeros_like(w)
    for _ in range(steps):
        d = 2 * w + 0.3
        m = momentum * m + (1 - momentum) * d
        u = momentum * m + (1 - momentum) * d if nesterov else m
        x = u / np.linalg.norm(u)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        w = w * (1 - rate * decay) - rate * factor * x
    return w


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (1, 6)])
def test_muon_matches_its_formula(shape, rng):
    start = rng.normal(size=shape)
    factors = {None: np.sqrt(max(1, shape[1] / shape[0])), "match_rms_adamw": 0.2 * max(shape) ** 0.5}
    for adjustment, factor in factors.items():
        for nesterov in (True, False):
            wanted = muon(start.T, RATE, STEPS, 0.3, 0.9, nesterov, factor).T
            optimizer = optim.Muon(RATE, 0.3, 0.9, nesterov, adjustment=adjustment)
            np.testing.assert_allclose(moved(optimizer, start, "float64"), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["lamb", "lars"])
def test_zero_norm_scales_norm_based_updates_by_one(name):
    """For zero weights, the first step equals that of Adam or SGD; for zero gradients, nothing changes."""
    g = mg.Graph()
    v, d = g.variable(np.zeros(3, np.float32)), g.placeholder((3,))
    optimizer = MADE[name]()
    updates = optimizer.updates({v: d}, g.constant(RATE))
    g.run({d: np.zeros(3, np.float32)}, [], updates)
    assert g.variable_value(v).tolist() == [0, 0, 0]
    g.run({d: np.float32([2, -2, 0])}, [], updates)
    found = g.variable_value(v)
    assert found[0] == -found[1] < 0 == found[2]
    if name == "lars":
        assert found[0] == pytest.approx(-RATE * 2)
    g.run({d: np.float32([np.nan, 0, 0])}, [], updates)
    assert np.isnan(g.variable_value(v)).all(), "the norm must include all gradients"


def test_adafactor_keeps_row_and_column_statistics():
    g = mg.Graph()
    v = g.variable(np.ones((2, 5, 7), np.float32), name="v")
    optim.Adafactor(0.1).updates({v: g.read(v)}, g.constant(0.1))
    shapes = {s.name: tuple(s.shape) for s in g.variables}
    assert shapes == {"v": (2, 5, 7), "v/rows": (2, 5, 1), "v/columns": (2, 1, 7), "adafactor/step": ()}


def network():
    return nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(3))


X = np.random.default_rng(3).normal(size=(32, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32) + (X[:, 1] > 0)
TRAINERS = {
    "lamb": lambda: optim.LAMB(0.02, weight_decay=0.01),
    "lars": lambda: optim.LARS(1.0, trust_coefficient=0.02),
    "adafactor": lambda: optim.Adafactor(0.05),
    "muon": lambda: optim.Muon(0.02, others=optim.AdamW(0.02)),
}


@pytest.mark.parametrize("name", TRAINERS)
def test_training_with_norm_based_optimizer_resumes_bitwise_equal(name, tmp_path):
    def made(precision):
        return mg.Trainer(network(), optimizer=TRAINERS[name](), ema_decay=0.9, precision=precision)

    for precision in ("float32", "float16"):
        trainer = made(precision)
        history = trainer.fit(X, Y, epochs=30, batch_size=16, progress=False)
        assert history.loss[-1] < 0.5 * history.loss[0]
        trainer.save(tmp_path / precision)
        other = made(precision)
        other.load(tmp_path / precision)
        wanted = trainer.fit(X, Y, epochs=2, batch_size=16, progress=False).loss
        assert other.fit(X, Y, epochs=2, batch_size=16, progress=False).loss == wanted
        for path, value in trainer.weights().items():
            np.testing.assert_array_equal(other.weights()[path], value)


@pytest.mark.parametrize("name", TRAINERS)
def test_norm_based_optimizers_support_parameter_groups(name):
    groups = optim.ParameterGroups(TRAINERS[name](), {"0.weight": {"learning_rate": 0.0}, "2": None})
    trainer = mg.Trainer(network(), optimizer=optim.ClipByNorm(groups, 1.0))
    trainer.evaluate(X, Y)
    before = trainer.weights()
    trainer.train_step(X, Y).wait()
    changed = [path for path, value in trainer.weights().items() if (value != before[path]).any()]
    assert changed == ["0.bias"]


def test_muon_updates_matrices_and_delegates_other_variables():
    with pytest.raises(mg.ShapeError, match=r"Muon updates only matrices, but 0.bias has shape \(8,\): pass others="):
        mg.Trainer(network(), optimizer=optim.Muon(0.02)).train_step(X, Y)
    both = optim.Muon(0.5, 0.0, others=optim.SGD(0.25))
    assert [rate(0) for rate in both.rates()] == [0.5, 0.25]
    both.scale_learning_rate(0.5)
    assert [rate(0) for rate in both.rates()] == [0.25, 0.125]
    other = both.with_options(learning_rate=1.0)
    assert other.others is not both.others and other.others.learning_rate(0) == 0.125
    g = mg.Graph()
    matrix, vector = g.variable(np.eye(2, dtype=np.float32)), g.variable([1.0])
    updates = other.updates({vector: g.constant([1.0]), matrix: g.read(matrix)}, g.placeholder((2,), name="rates"))
    g.run({g.placeholders[0]: np.float32([0.0, 0.5])}, [], updates)
    assert g.variable_value(vector).tolist() == [0.5] and (g.variable_value(matrix) == np.eye(2)).all()


def test_optimizers_accept_pytorch_and_keras_argument_names():
    adam = optim.Adam(lr=0.5, betas=(0.8, 0.9), eps=1e-3)
    assert (adam.learning_rate, adam.beta1, adam.beta2, adam.epsilon) == (0.5, 0.8, 0.9, 1e-3)
    assert optim.AdamW(0.5, beta_1=0.7).beta1 == 0.7  # The argument is spelled as in Keras.
    assert optim.RMSProp(alpha=0.5).decay == optim.AdaDelta(rho=0.5).decay == 0.5
    assert optim.Adagrad(initial_accumulator_value=0.1).initial_sum == 0.1
    factor = optim.Adafactor(lr=0.1, eps=(None, 1e-2), d=2.0)
    assert (factor.epsilon1, factor.epsilon2, factor.clip_threshold) == (None, 1e-2, 2.0)
    muon = optim.Muon(lr=0.1, ns_steps=3, adjust_lr_fn="match_rms_adamw")
    assert muon.iterations == 3 and muon.adjustment == "match_rms_adamw"
    assert optim.SGD(lr=optim.StepRate(1.0, every=2)).learning_rate(2) == pytest.approx(0.1)
    assert optim.ParameterGroups(optim.SGD(0.1), {"a": {"learning_rate": 0.2}}).groups["a"].learning_rate(0) == 0.2
    for wrong in (
        lambda: optim.SGD(0.1, lr=0.2),
        lambda: optim.Adam(learning_rate=0.1, lr=0.1),
        lambda: optim.Adam(0.1, 0.8, betas=(0.8, 0.9)),
        lambda: optim.Adam(beta1=0.8, beta_1=0.8),
    ):
        with pytest.raises(mg.GraphError, match="is an alias of"):
            wrong()
    for pair in (0.9, (0.9,), (0.9, 0.99, 0.999)):
        with pytest.raises(mg.GraphError, match=r"betas must be a tuple of 2 numbers \(beta1 and beta2\), got"):
            optim.Adam(betas=pair)
    with pytest.raises(mg.GraphError, match="beta2 must be a number from 0"):
        optim.Adam(betas=(0.9, 1.0))
    with pytest.raises(TypeError, match="betas"):
        optim.SGD(betas=(0.9, 0.99))


def test_invalid_norm_based_optimizer_arguments_raise():
    for wrong in (
        lambda: optim.LARS(nesterov=True, momentum=0.0),
        lambda: optim.Adafactor(beta2_decay=0.5),
        lambda: optim.Adafactor(clip_threshold=0.0),
        lambda: optim.LAMB(beta2=1.0),
        lambda: optim.Muon(iterations=0),
        lambda: optim.Muon(adjustment="other"),
        lambda: optim.Muon(coefficients=(1.0, 2.0)),
    ):
        with pytest.raises(mg.GraphError, match="must be|needs"):
            wrong()
