"""Classify sequences by the sign of a sum with an LSTM, and print the accuracy."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(512, 12, 3)).astype(np.float32)
y = (x[:, :, 0].sum(1) > 0).astype(np.int32)
x, y = torch.tensor(x), torch.tensor(y).long()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent, self.head = nn.LSTM(3, 16, batch_first=True), nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.recurrent(x)[0][:, -1])


model = Model()
optimizer, loss_of = torch.optim.Adam(model.parameters(), 1e-2), nn.CrossEntropyLoss()
data = torch.utils.data.TensorDataset(x[:400], y[:400])
for _ in range(20):
    for a, b in torch.utils.data.DataLoader(data, 32, shuffle=True):
        optimizer.zero_grad()
        loss_of(model(a), b).backward()
        optimizer.step()
with torch.no_grad():
    print((model(x[400:]).argmax(1) == y[400:]).float().mean().item())
