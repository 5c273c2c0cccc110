"""Predict the 90 % quantile with a custom loss, and print the fraction of values below the prediction."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, (1024, 1)).astype(np.float32)
y = (x + 0.3 * rng.normal(size=x.shape)).astype(np.float32)


def quantile(outputs, labels):
    error, g = labels - outputs, outputs.graph
    return nn.losses.mean_of_all(g.maximum(0.9 * error, -0.1 * error))


trainer = mg.Trainer(nn.Sequential(nn.Linear(16), nn.Tanh(), nn.Linear(1)), quantile, mg.optim.Adam(1e-2), seed=0)
trainer.fit(x, y, epochs=40, batch_size=128, progress=False)
print((y < trainer.predict(x)).mean())
