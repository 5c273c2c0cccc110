"""Classify images by the row of a bright line with a convolutional network, and print the accuracy."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

mx.random.seed(0)
rng = np.random.default_rng(0)
labels = rng.integers(0, 4, 512).astype(np.int32)
images = rng.normal(0, 0.3, (512, 8, 8, 1)).astype(np.float32)
images[np.arange(512), labels * 2, :, 0] += 1
images, labels = mx.array(images), mx.array(labels)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2), lambda x: x.reshape(len(x), -1), nn.Dropout(0.2),
    nn.Linear(128, 4),
)  # fmt: skip
optimizer = optim.Adam(1e-2)
step = nn.value_and_grad(model, lambda a, b: nn.losses.cross_entropy(model(a), b, reduction="mean"))
for _ in range(10):
    order = mx.random.permutation(400)
    for first in range(0, 400, 32):
        rows = order[first : first + 32]
        loss, gradients = step(images[rows], labels[rows])
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
model.eval()
print((model(images[400:]).argmax(1) == labels[400:]).mean().item())
