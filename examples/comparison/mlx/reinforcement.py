"""Walk to the right end of a corridor with REINFORCE, and print the mean number of steps of the last episodes."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

mx.random.seed(0)
places = mx.eye(8)
policy = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer, lengths = optim.Adam(2e-2), []
step = nn.value_and_grad(policy, lambda s, a, advantage: (advantage * nn.losses.cross_entropy(policy(s), a)).sum() / 50)
for _ in range(150):
    at, states, actions = 0, [], []
    while at < 7 and len(states) < 50:
        action = mx.random.categorical(policy(places[at])).item()
        states.append(places[at])
        actions.append(action)
        at = max(at + 2 * action - 1, 0)
    lengths.append(len(states))
    advantage = float(np.mean(lengths[-20:]) - len(states)) / 10
    loss, gradients = step(mx.stack(states), mx.array(actions), advantage)
    optimizer.update(policy, gradients)
    mx.eval(policy.parameters(), optimizer.state)
print(np.mean(lengths[-20:]))
