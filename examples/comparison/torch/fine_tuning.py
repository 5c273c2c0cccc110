"""Train a backbone on one task, freeze it under a new head for another task, and print the accuracy."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(512, 8)).astype(np.float32)
first, second = (x[:, :4].sum(1) > 0).astype(np.int32), np.digitize(x[:, :4].sum(1), [-1, 1]).astype(np.int32)
x, first, second = torch.tensor(x), torch.tensor(first).long(), torch.tensor(second).long()


def fit(model, x, y, epochs):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-2)
    for _ in range(epochs):
        for a, b in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 64, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            optimizer.step()


model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))
fit(model, x, first, 20)
tuned = nn.Sequential(model[:-1].requires_grad_(False), nn.Linear(16, 3))
fit(tuned, x[:400], second[:400], 30)
with torch.no_grad():
    print((tuned(x[400:]).argmax(1) == second[400:]).float().mean().item())
