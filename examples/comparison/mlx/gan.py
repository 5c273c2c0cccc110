"""Learn a normal distribution with mean 3 with a generator and a discriminator, and print the mean of the samples."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

mx.random.seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
judge = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
of_judge, of_generator = optim.Adam(5e-3), optim.Adam(5e-3)


def loss_of_judge(real, made):
    return (nn.softplus(-judge(real)) + nn.softplus(judge(made))).mean()


judging = nn.value_and_grad(judge, loss_of_judge)
fooling = nn.value_and_grad(generator, lambda noise: nn.softplus(-judge(generator(noise))).mean())
for _ in range(1500):
    real, noise = 3 + 0.5 * mx.random.normal((64, 1)), mx.random.normal((64, 4))
    loss, gradients = judging(real, generator(noise))
    of_judge.update(judge, gradients)
    loss, gradients = fooling(noise)
    of_generator.update(generator, gradients)
    mx.eval(judge.parameters(), generator.parameters(), of_judge.state, of_generator.state)
print(generator(mx.random.normal((1000, 4))).mean().item())
