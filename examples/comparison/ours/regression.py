"""Fit a sine with a small network and print the mean squared error."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

x = np.linspace(-3, 3, 256, dtype=np.float32)[:, None]
model = nn.Sequential(nn.Linear(32), nn.Tanh(), nn.Linear(32), nn.Tanh(), nn.Linear(1))
trainer = mg.Trainer(model, "mse", mg.optim.Adam(1e-2), seed=0)
trainer.fit(x, np.sin(x), epochs=60, batch_size=32, progress=False)
print(trainer.evaluate(x, np.sin(x))["loss"])
