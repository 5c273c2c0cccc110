"""Fit a sine with a small network and print the mean squared error."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-3, 3, 256)[:, None]
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer, loss_of = torch.optim.Adam(model.parameters(), 1e-2), nn.MSELoss()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, torch.sin(x)), 32, shuffle=True)
for _ in range(60):
    for a, b in loader:
        optimizer.zero_grad()
        loss_of(model(a), b).backward()
        optimizer.step()
with torch.no_grad():
    print(loss_of(model(x), torch.sin(x)).item())
