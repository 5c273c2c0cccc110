"""Train a backbone on one task, freeze it under a new head for another task, and print the accuracy."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

rng = np.random.default_rng(0)
x = rng.normal(size=(512, 8)).astype(np.float32)
first, second = (x[:, :4].sum(1) > 0).astype(np.int32), np.digitize(x[:, :4].sum(1), [-1, 1]).astype(np.int32)
model = nn.Sequential(nn.Linear(32), nn.ReLU(), nn.Linear(16), nn.ReLU(), nn.Linear(2))
mg.Trainer(model, optimizer=mg.optim.Adam(1e-2), seed=0).fit(x, first, epochs=20, progress=False)
tuned = nn.Sequential(model[:-1].freeze(), nn.Linear(3))
trainer = mg.Trainer(tuned, optimizer=mg.optim.Adam(1e-2), seed=0)
trainer.fit(x[:400], second[:400], epochs=30, progress=False)
print(trainer.evaluate(x[400:], second[400:])["accuracy"])
