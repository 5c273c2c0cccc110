"""Learn a normal distribution with mean 3 with a generator and a discriminator, and print the mean of the samples."""

import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
judge = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
of_judge, of_generator = (torch.optim.Adam(m.parameters(), 5e-3) for m in (judge, generator))
for _ in range(1500):
    real, made = 3 + 0.5 * torch.randn(64, 1), generator(torch.randn(64, 4))
    of_judge.zero_grad()
    (softplus(-judge(real)) + softplus(judge(made.detach()))).mean().backward()
    of_judge.step()
    of_generator.zero_grad()
    softplus(-judge(made)).mean().backward()
    of_generator.step()
with torch.no_grad():
    print(generator(torch.randn(1000, 4)).mean().item())
