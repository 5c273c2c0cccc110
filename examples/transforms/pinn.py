"""A physics-informed network: solve u'' = -pi^2 sin(pi x) with u(0) = u(1) = 0, whose solution is sin(pi x).

The second derivative of the network with respect to its input is two nested `mg.grad`, mapped over points by `mg.vmap`.
Raissi, Perdikaris, and Karniadakis, arXiv:1711.10561.
Run: python examples/transforms/pinn.py; page: docs/transforms.md.
"""

from __future__ import annotations

from typing import Any

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np

Network = list[tuple[Any, Any]]


def new_network(sizes: tuple[int, ...] = (1, 24, 24, 1), seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    pairs = zip(sizes[:-1], sizes[1:], strict=True)
    return [(np.float32(rng.normal(0, m**-0.5, (m, n))), np.zeros(n, np.float32)) for m, n in pairs]


def solution(network: Network, x: Any) -> Any:
    """Return u at one point. The factor x (1 - x) satisfies the boundary conditions."""
    y = mnp.reshape(x, (1,))
    for weight, bias in network[:-1]:
        y = mnp.tanh(y @ weight + bias)
    weight, bias = network[-1]
    return mnp.sum(y @ weight + bias) * x * (1 - x)


def residual(network: Network, x: Any) -> Any:
    second = mg.grad(mg.grad(solution, 1), 1)
    return second(network, x) + np.pi**2 * mnp.sin(np.pi * x)


def loss(network: Network, points: Any) -> Any:
    return mnp.mean(mg.vmap(residual, (None, 0))(network, points) ** 2)


@mg.jit
def step(network: Network, moments: list[Any], points: Any, count: Any) -> tuple[Any, Network, list[Any]]:
    """Return the loss, and the network and the moments after an update by Adam."""
    value, gradient = mg.value_and_grad(loss)(network, points)
    new_network, new_moments = [], []
    for layer, slopes, kept in zip(network, gradient, moments, strict=True):
        m = [0.9 * m + 0.1 * g for (m, _), g in zip(kept, slopes, strict=True)]
        v = [0.999 * v + 0.001 * g * g for (_, v), g in zip(kept, slopes, strict=True)]
        scale = 3e-3 * mnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        new_network.append(tuple(w - scale * a / (mnp.sqrt(b) + 1e-8) for w, a, b in zip(layer, m, v, strict=True)))
        new_moments.append(list(zip(m, v, strict=True)))
    return value, new_network, new_moments


def train(steps: int = 1000) -> tuple[Network, list[float]]:
    network, points, losses = new_network(), np.linspace(0, 1, 33, dtype=np.float32), []
    moments = [[(np.zeros_like(w), np.zeros_like(w)) for w in layer] for layer in network]
    for count in range(1, steps + 1):
        value, network, moments = step(network, moments, points, float(count))
        losses.append(value.item())
    return network, losses


if __name__ == "__main__":
    trained, values = train()
    x = np.linspace(0, 1, 101, dtype=np.float32)
    found = mg.vmap(solution, (None, 0))(trained, x).numpy()
    print(f"loss {values[0]:.2f} -> {values[-1]:.2e}, largest error {np.abs(found - np.sin(np.pi * x)).max():.1e}")
