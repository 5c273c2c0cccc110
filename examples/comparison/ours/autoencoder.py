"""Compress vectors to two numbers with an autoencoder, and print the mean squared error and the shape of the codes."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

rng = np.random.default_rng(0)
x = np.tanh(rng.normal(size=(512, 2)) @ rng.normal(size=(2, 16))).astype(np.float32)
encoder = nn.Sequential(nn.Linear(32), nn.Tanh(), nn.Linear(2))
decoder = nn.Sequential(nn.Linear(32), nn.Tanh(), nn.Linear(16))
trainer = mg.Trainer(nn.Sequential(encoder, decoder), "mse", mg.optim.Adam(1e-2), seed=0)
trainer.fit(x, x, epochs=40, batch_size=64, progress=False)
print(trainer.evaluate(x, x)["loss"], encoder(x).shape)
