"""Compare learning-rate schedules with PyTorch's schedulers over 400 steps."""

import mpsgraph as mg
import pytest

# PyTorch is optional: `make test-torch` creates an environment with it.
torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
from torch.optim import lr_scheduler  # noqa: E402

RATE, STEPS = 0.1, 400
CASES = {
    "step": (mg.optim.StepRate(RATE, 30, 0.5), lambda o: lr_scheduler.StepLR(o, 30, 0.5)),
    "exponential": (mg.optim.ExponentialRate(RATE, 1, 0.99), lambda o: lr_scheduler.ExponentialLR(o, 0.99)),
    "cosine": (mg.optim.CosineRate(RATE, STEPS, 0.01), lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, 0.01)),
    "polynomial": (mg.optim.PolynomialRate(RATE, 300, 2.0), lambda o: lr_scheduler.PolynomialLR(o, 300, 2.0)),
    "restarts": (
        mg.optim.CosineRestartsRate(RATE, 30, 2, 0.01),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 30, 2, 0.01),
    ),
    "one cycle": (
        mg.optim.OneCycleRate(RATE, STEPS),
        lambda o: lr_scheduler.OneCycleLR(o, RATE, STEPS, cycle_momentum=False),
    ),
    "warm-up": (
        mg.optim.WarmUp(RATE, 50),
        lambda o: lr_scheduler.LinearLR(o, start_factor=1 / 50, total_iters=49),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_schedules_match_pytorch(name):
    schedule, make = CASES[name]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler = make(optimizer)
    for step in range(STEPS):
        # PyTorch computes some schedules step by step, which accumulates rounding errors.
        assert schedule(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9, abs=1e-12)
        optimizer.step()
        scheduler.step()
