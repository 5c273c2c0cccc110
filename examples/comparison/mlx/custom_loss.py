"""Predict the 90 % quantile with a custom loss, and print the fraction of values below the prediction."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

mx.random.seed(0)
rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (1024, 1)).astype(np.float32)
y = (x + 0.3 * rng.normal(size=x.shape)).astype(np.float32)
x, y = mx.array(x), mx.array(y)


def quantile(outputs, labels):
    error = labels - outputs
    return mx.maximum(0.9 * error, -0.1 * error).mean()


model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = optim.Adam(1e-2)
step = nn.value_and_grad(model, lambda a, b: quantile(model(a), b))
for _ in range(40):
    order = mx.random.permutation(1024)
    for first in range(0, 1024, 128):
        rows = order[first : first + 128]
        loss, gradients = step(x[rows], y[rows])
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
print((y < model(x)).mean().item())
