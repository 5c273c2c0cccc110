"""Classify sequences by the sign of a sum with an LSTM, and print the accuracy."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

mx.random.seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(512, 12, 3)).astype(np.float32)
y = (x[:, :, 0].sum(1) > 0).astype(np.int32)
x, y = mx.array(x), mx.array(y)
model = nn.Sequential(nn.LSTM(3, 16), lambda states: states[0][:, -1], nn.Linear(16, 2))
optimizer = optim.Adam(1e-2)
step = nn.value_and_grad(model, lambda a, b: nn.losses.cross_entropy(model(a), b, reduction="mean"))
for _ in range(20):
    order = mx.random.permutation(400)
    for first in range(0, 400, 32):
        rows = order[first : first + 32]
        loss, gradients = step(x[rows], y[rows])
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
print((model(x[400:]).argmax(1) == y[400:]).mean().item())
