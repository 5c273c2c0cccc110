"""Train five networks from different seeds, and print the error of their mean and the spread outside the data."""

import torch
from torch import nn

x = torch.linspace(-2, 2, 128)[:, None]
members = [nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)) for _ in range(5)]
for model in members:
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), torch.sin(x)).backward()
        optimizer.step()
with torch.no_grad():
    inside, outside = (torch.stack([model(s * x) for model in members]) for s in (1, 3))
print(((inside.mean(0) - torch.sin(x)) ** 2).mean().item(), inside.std(0).mean().item(), outside.std(0).mean().item())
