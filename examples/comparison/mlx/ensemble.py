"""Train five networks from different seeds, and print the error of their mean and the spread outside the data."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

x = mx.linspace(-2, 2, 128)[:, None]
members = [nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)) for _ in range(5)]
for model in members:
    optimizer = optim.Adam(1e-2)
    step = nn.value_and_grad(model, lambda a, b, model=model: nn.losses.mse_loss(model(a), b))
    for _ in range(100):
        loss, gradients = step(x, mx.sin(x))
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
inside, outside = (mx.stack([model(s * x) for model in members]) for s in (1, 3))
print(((inside.mean(0) - mx.sin(x)) ** 2).mean().item(), inside.std(0).mean().item(), outside.std(0).mean().item())
