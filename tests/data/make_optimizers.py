"""Write optimizers.json: the results of six steps of PyTorch's and optax's optimizers from the same starting points.

Run in an environment with torch 2.13 and optax 0.2.8: python tests/data/make_optimizers.py > tests/data/optimizers.json
The gradient is 2 w + 0.3 and the rate 0.05. PyTorch receives matrices transposed, as its rows are outputs.
"""

import json
import sys

import numpy as np
import optax
import torch

STEPS, RATE = 6, 0.05
rng = np.random.default_rng(7)
STARTS = {
    "vector": np.array([-1.5, 0.25, 2.0]),
    "tall": rng.normal(size=(5, 3)),
    "wide": rng.normal(size=(2, 4)),
    "kernel": rng.normal(size=(2, 3, 2, 4)),
}
JAX = {
    "lamb": lambda: optax.lamb(RATE),
    "lamb in full": lambda: optax.lamb(RATE, 0.8, 0.9, 1e-3, weight_decay=0.1),
    "lars": lambda: optax.lars(RATE),
    "lars in full": lambda: optax.lars(
        RATE, weight_decay=0.1, trust_coefficient=0.02, eps=1e-2, momentum=0.7, nesterov=True
    ),
    "muon": lambda: optax.contrib.muon(RATE, weight_decay=0.1, eps=1e-7, nesterov=False),
}
TORCH = {
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=RATE),
    "adafactor in full": lambda p: torch.optim.Adafactor(
        p, lr=RATE, beta2_decay=-0.6, eps=(1e-5, 1e-2), d=2.0, weight_decay=0.1
    ),
    "muon by torch": lambda p: torch.optim.Muon(p, lr=RATE),
    "muon by torch in full": lambda p: torch.optim.Muon(
        p, lr=RATE, weight_decay=0.0, momentum=0.8, nesterov=False, ns_steps=3, adjust_lr_fn="match_rms_adamw"
    ),
}


def by_torch(make, start):
    """Run PyTorch's optimizer; Muon orthogonalizes in bfloat16."""
    turn = start.ndim == 2 and "Muon" in make.__code__.co_names
    w = torch.tensor(start.T.copy() if turn else start, requires_grad=True)
    optimizer = make([w])
    for _ in range(STEPS):
        w.grad = 2 * w.detach() + 0.3
        optimizer.step()
    return w.detach().numpy().T if turn else w.detach().numpy()


def by_optax(make, start):
    """Run optax's optimizer in float32, the default of JAX."""
    optimizer, w = make(), {"w": start.astype(np.float32)}
    state = optimizer.init(w)
    for _ in range(STEPS):
        moves, state = optimizer.update({"w": 2 * w["w"] + 0.3}, state, w)
        w = optax.apply_updates(w, moves)
    return np.asarray(w["w"], np.float64)


found = {"starts": {name: start.tolist() for name, start in STARTS.items()}, "ends": {}}
for which, ends in ((JAX, by_optax), (TORCH, by_torch)):
    for name, make in which.items():
        shapes = [s for s in STARTS if not name.startswith("muon") or s in ("tall", "wide")]
        found["ends"][name] = {shape: ends(make, STARTS[shape]).round(9).tolist() for shape in shapes}
json.dump(found, sys.stdout)
print()
