"""Compress vectors to two numbers with an autoencoder, and print the mean squared error and the shape of the codes."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

mx.random.seed(0)
rng = np.random.default_rng(0)
x = np.tanh(rng.normal(size=(512, 2)) @ rng.normal(size=(2, 16))).astype(np.float32)
x = mx.array(x)
encoder = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 2))
decoder = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 16))
model, optimizer = nn.Sequential(encoder, decoder), optim.Adam(1e-2)
step = nn.value_and_grad(model, lambda a: nn.losses.mse_loss(model(a), a))
for _ in range(40):
    order = mx.random.permutation(512)
    for first in range(0, 512, 64):
        loss, gradients = step(x[order[first : first + 64]])
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
print(nn.losses.mse_loss(model(x), x).item(), encoder(x).shape)
