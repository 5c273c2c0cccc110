"""Compress vectors to two numbers with an autoencoder, and print the mean squared error and the shape of the codes."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = np.tanh(rng.normal(size=(512, 2)) @ rng.normal(size=(2, 16))).astype(np.float32)
x = torch.tensor(x)
encoder = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 2))
decoder = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 16))
model = nn.Sequential(encoder, decoder)
optimizer, loss_of = torch.optim.Adam(model.parameters(), 1e-2), nn.MSELoss()
for _ in range(40):
    for a in torch.utils.data.DataLoader(x, 64, shuffle=True):
        optimizer.zero_grad()
        loss_of(model(a), a).backward()
        optimizer.step()
with torch.no_grad():
    print(loss_of(model(x), x).item(), tuple(encoder(x).shape))
