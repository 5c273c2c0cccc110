"""Learn a normal distribution with mean 3 with a generator and a discriminator, and print the mean of the samples."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

generator = nn.Sequential(nn.Linear(16), nn.ReLU(), nn.Linear(1))
judge = nn.Sequential(nn.Linear(16), nn.ReLU(), nn.Linear(1))


class Adversaries(mg.Trainer):
    def training_step(self, real, labels, weights=None):
        made, softplus = generator(self.graph.random_normal((64, 4))), nn.Softplus()
        loss = nn.losses.mean_of_all(softplus(-judge(real)) + softplus(judge(made)))
        self.minimize(loss, judge.parameters())
        self.minimize(nn.losses.mean_of_all(softplus(-judge(made))), generator.parameters(), mg.optim.Adam(5e-3))
        return {"loss": loss}


rng = np.random.default_rng(0)
trainer = Adversaries(nn.Sequential(generator, judge), optimizer=mg.optim.Adam(5e-3), seed=0)
trainer.fit(rng.normal(3, 0.5, (6400, 1)).astype(np.float32), iterations=1500, batch_size=64, progress=False)
print(generator(rng.normal(size=(1000, 4))).numpy().mean())
