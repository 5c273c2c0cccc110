"""Walk to the right end of a corridor with REINFORCE, and print the mean number of steps of the last episodes."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
places = torch.eye(8)
policy = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer, lengths = torch.optim.Adam(policy.parameters(), 2e-2), []
for _ in range(150):
    at, states, actions = 0, [], []
    while at < 7 and len(states) < 50:
        with torch.no_grad():
            action = torch.distributions.Categorical(logits=policy(places[at])).sample().item()
        states.append(places[at])
        actions.append(action)
        at = max(at + 2 * action - 1, 0)
    lengths.append(len(states))
    advantage = (np.mean(lengths[-20:]) - len(states)) / 10
    losses = nn.functional.cross_entropy(policy(torch.stack(states)), torch.tensor(actions), reduction="none")
    optimizer.zero_grad()
    (advantage * losses).sum().div(50).backward()
    optimizer.step()
print(np.mean(lengths[-20:]))
