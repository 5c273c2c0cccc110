"""Solve u' = -u with u(0) = 1 with a network whose loss contains its derivative, and print the largest error."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn


class Solver(mg.Trainer):
    def training_step(self, x, labels, weights=None):
        u = self.forward(x)
        slope = self.graph.gradients(u, x)[x]
        start = self.forward(x * 0.0)
        loss = nn.losses.mean_of_all((slope + u) ** 2 + (start - 1.0) ** 2)
        self.minimize(loss)
        return {"loss": loss}


x = np.linspace(0, 2, 64, dtype=np.float32)[:, None]
trainer = Solver(nn.Sequential(nn.Linear(32), nn.Tanh(), nn.Linear(1)), optimizer=mg.optim.Adam(1e-2), seed=0)
trainer.fit(x, epochs=800, progress=False)
print(abs(trainer.predict(x) - np.exp(-x)).max())
