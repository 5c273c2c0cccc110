"""Train five networks from different seeds, and print the error of their mean and the spread outside the data."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

x = np.linspace(-2, 2, 128, dtype=np.float32)[:, None]
members = [
    mg.Trainer(nn.Sequential(nn.Linear(32), nn.Tanh(), nn.Linear(1)), "mse", mg.optim.Adam(1e-2)) for _ in range(5)
]
for trainer in members:
    trainer.fit(x, np.sin(x), epochs=100, batch_size=128, progress=False)
inside, outside = (np.stack([trainer.predict(s * x) for trainer in members]) for s in (np.float32(1), np.float32(3)))
print(((inside.mean(0) - np.sin(x)) ** 2).mean(), inside.std(0).mean(), outside.std(0).mean())
