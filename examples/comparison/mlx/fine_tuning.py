"""Train a backbone on one task, freeze it under a new head for another task, and print the accuracy."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

mx.random.seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(512, 8)).astype(np.float32)
first, second = (x[:, :4].sum(1) > 0).astype(np.int32), np.digitize(x[:, :4].sum(1), [-1, 1]).astype(np.int32)
x, first, second = mx.array(x), mx.array(first), mx.array(second)


def fit(model, x, y, epochs):
    optimizer = optim.Adam(1e-2)
    step = nn.value_and_grad(model, lambda a, b: nn.losses.cross_entropy(model(a), b, reduction="mean"))
    for _ in range(epochs):
        order = mx.random.permutation(len(x))
        for start in range(0, len(x), 64):
            rows = order[start : start + 64]
            loss, gradients = step(x[rows], y[rows])
            optimizer.update(model, gradients)
            mx.eval(model.parameters(), optimizer.state)


layers = [nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2)]
fit(nn.Sequential(*layers), x, first, 20)
backbone = nn.Sequential(*layers[:-1])
backbone.freeze()
tuned = nn.Sequential(backbone, nn.Linear(16, 3))
fit(tuned, x[:400], second[:400], 30)
print((tuned(x[400:]).argmax(1) == second[400:]).mean().item())
