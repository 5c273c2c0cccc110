"""Compare the formulas of tests/harness/optimizer_formulas.py with PyTorch's optimizers in float64."""

import numpy as np
import pytest
from harness import optimizer_formulas as formulas

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")

RATE, STEPS = 0.01, 400
ours, theirs = formulas, torch.optim
CASES = {
    "momentum": (ours.sgd(RATE, 0.9, decay=0.1), lambda p: theirs.SGD(p, RATE, 0.9, weight_decay=0.1)),
    "nesterov": (ours.sgd(RATE, 0.9, True), lambda p: theirs.SGD(p, RATE, 0.9, nesterov=True)),
    "adam": (
        ours.adam(RATE, 0.99, 0.9999, decay=0.1),
        lambda p: theirs.Adam(p, RATE, (0.99, 0.9999), weight_decay=0.1),
    ),
    "amsgrad": (ours.adam(RATE, amsgrad=True, decoupled=0.01), lambda p: theirs.AdamW(p, RATE, amsgrad=True)),
    "nadam": (ours.nadam(RATE), lambda p: theirs.NAdam(p, RATE)),
    "radam": (ours.radam(RATE), lambda p: theirs.RAdam(p, RATE)),
    "radam, long": (ours.radam(RATE, b2=0.9999), lambda p: theirs.RAdam(p, RATE, (0.9, 0.9999))),
    "adamax": (ours.adamax(RATE, 0.99), lambda p: theirs.Adamax(p, RATE, (0.99, 0.999))),
    "rmsprop": (
        ours.rmsprop(RATE, 0.9, 1e-3, 0.7, True, 0.1),
        lambda p: theirs.RMSprop(p, RATE, 0.9, 1e-3, 0.1, 0.7, True),
    ),
    "adagrad": (
        ours.adagrad(RATE, 1e-3, 0.1, 0.2),
        lambda p: theirs.Adagrad(p, RATE, weight_decay=0.2, initial_accumulator_value=0.1, eps=1e-3),
    ),
    "adadelta": (ours.adadelta(decay=0.1), lambda p: theirs.Adadelta(p, 1.0, weight_decay=0.1)),
    "adafactor": (
        ours.adafactor(RATE, eps1=1e-5, decay=0.1),
        lambda p: theirs.Adafactor(p, RATE, eps=(1e-5, 1e-3), weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_optimizer_formulas_match_pytorch(name):
    update, make = CASES[name]
    rng = np.random.default_rng(0)
    values, state = rng.normal(size=(4, 3)), {}
    slopes = rng.normal(size=(STEPS, 4, 3)) * [0.01, 1, 10] + 0.1
    parameter = torch.nn.Parameter(torch.from_numpy(values.copy()))
    optimizer = make([parameter])
    for t in range(1, STEPS + 1):
        parameter.grad = torch.from_numpy(slopes[t - 1].copy())
        optimizer.step()
        values = update(t, values, slopes[t - 1], state)
        # PyTorch keeps NAdam's product of momenta in float32.
        limit = 1e-5 if name == "nadam" else 1e-9
        np.testing.assert_allclose(parameter.detach().numpy(), values, rtol=limit, atol=limit)


@pytest.mark.parametrize("adjustment", ["original", "match_rms_adamw"])
@pytest.mark.parametrize("shape", [(16, 4), (4, 16)])
def test_muon_formula_matches_pytorch(shape, adjustment):
    """PyTorch computes the orthogonal matrix in bfloat16."""
    rng = np.random.default_rng(0)
    start, slope = rng.normal(size=shape), rng.normal(size=shape)
    parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
    parameter.grad = torch.from_numpy(slope.copy())
    torch.optim.Muon([parameter], lr=1.0, weight_decay=0.0, adjust_lr_fn=adjustment).step()
    update = formulas.muon(1.0, 0.0, matched=adjustment != "original", outputs_first=True)
    moved, wanted = parameter.detach().numpy() - start, update(1, start, slope, {}) - start
    assert np.linalg.norm(moved - wanted) < 0.06 * np.linalg.norm(wanted)
