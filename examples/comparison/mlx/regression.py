"""Fit a sine with a small network and print the mean squared error."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

mx.random.seed(0)
x = mx.linspace(-3, 3, 256)[:, None]
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = optim.Adam(1e-2)
step = nn.value_and_grad(model, lambda a, b: nn.losses.mse_loss(model(a), b))
for _ in range(60):
    order = mx.random.permutation(256)
    for first in range(0, 256, 32):
        rows = order[first : first + 32]
        loss, gradients = step(x[rows], mx.sin(x[rows]))
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
print(nn.losses.mse_loss(model(x), mx.sin(x)).item())
