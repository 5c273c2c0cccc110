"""Predict the 90 % quantile with a custom loss, and print the fraction of values below the prediction."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (1024, 1)).astype(np.float32)
y = (x + 0.3 * rng.normal(size=x.shape)).astype(np.float32)
x, y = torch.tensor(x), torch.tensor(y)


def quantile(outputs, labels):
    error = labels - outputs
    return torch.maximum(0.9 * error, -0.1 * error).mean()


model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(40):
    for a, b in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 128, shuffle=True):
        optimizer.zero_grad()
        quantile(model(a), b).backward()
        optimizer.step()
with torch.no_grad():
    print((y < model(x)).float().mean().item())
