"""Classify sequences by the sign of a sum with an LSTM, and print the accuracy."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

rng = np.random.default_rng(0)
x = rng.normal(size=(512, 12, 3)).astype(np.float32)
y = (x[:, :, 0].sum(1) > 0).astype(np.int32)
model = nn.Sequential(nn.LSTM(16), lambda states: states[:, -1], nn.Linear(2))
trainer = mg.Trainer(model, optimizer=mg.optim.Adam(1e-2), seed=0)
trainer.fit(x[:400], y[:400], epochs=20, batch_size=32, progress=False)
print(trainer.evaluate(x[400:], y[400:])["accuracy"])
