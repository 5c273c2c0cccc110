"""Walk to the right end of a corridor with REINFORCE, and print the mean number of steps of the last episodes."""

import mpsgraph as mg
import numpy as np
from mpsgraph import nn

rng, places = np.random.default_rng(0), np.eye(8, dtype=np.float32)
policy = nn.Sequential(nn.Linear(16), nn.Tanh(), nn.Linear(2))
trainer = mg.Trainer(policy, "cross_entropy", mg.optim.Adam(2e-2), (), seed=0)
lengths = []
for _ in range(150):
    at, states, actions = 0, [], []
    while at < 7 and len(states) < 50:
        scores = trainer.predict(places[at : at + 1])[0]
        action = int(rng.random() < 1 / (1 + np.exp(scores[0] - scores[1])))
        states.append(places[at])
        actions.append(action)
        at = max(at + 2 * action - 1, 0)
    lengths.append(len(states))
    advantage = np.float32(np.mean(lengths[-20:]) - len(states)) / 10
    pad = 50 - len(states)
    weights = np.pad(np.full(len(states), advantage, np.float32), (0, pad))
    trainer.train_step(np.stack(states + [places[0]] * pad), np.int32(actions + [0] * pad), weights)
print(np.mean(lengths[-20:]))
