"""Classify images by the row of a bright line with a convolutional network, and print the accuracy."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
labels = rng.integers(0, 4, 512).astype(np.int32)
images = rng.normal(0, 0.3, (512, 8, 8, 1)).astype(np.float32)
images[np.arange(512), labels * 2, :, 0] += 1
images, labels = torch.tensor(images).permute(0, 3, 1, 2), torch.tensor(labels).long()
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 4)
)
optimizer, loss_of = torch.optim.Adam(model.parameters(), 1e-2), nn.CrossEntropyLoss()
data = torch.utils.data.TensorDataset(images[:400], labels[:400])
for _ in range(10):
    for a, b in torch.utils.data.DataLoader(data, 32, shuffle=True):
        optimizer.zero_grad()
        loss_of(model(a), b).backward()
        optimizer.step()
model.eval()
with torch.no_grad():
    print((model(images[400:]).argmax(1) == labels[400:]).float().mean().item())
