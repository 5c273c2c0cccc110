"""Classify images by the row of a bright line with a convolutional network, and print the accuracy."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

rng = np.random.default_rng(0)
labels = rng.integers(0, 4, 512).astype(np.int32)
images = rng.normal(0, 0.3, (512, 8, 8, 1)).astype(np.float32)
images[np.arange(512), labels * 2, :, 0] += 1
model = nn.Sequential(
    nn.Conv2d(8, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(4)
)
trainer = mg.Trainer(model, optimizer=mg.optim.Adam(1e-2), seed=0)
trainer.fit(images[:400], labels[:400], epochs=10, batch_size=32, progress=False)
print(trainer.evaluate(images[400:], labels[400:])["accuracy"])
