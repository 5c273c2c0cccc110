"""Model-agnostic meta-learning: find weights from which one gradient step fits a new sine wave from ten points.

The meta-gradient differentiates through the inner gradient step: `mg.grad` inside a function that `mg.value_and_grad`
differentiates, mapped over tasks by `mg.vmap`. Finn, Abbeel, and Levine, arXiv:1703.03400.
Run: python examples/transforms/maml.py; page: docs/transforms.md.
"""

from __future__ import annotations

from typing import Any

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np

RATE = 0.02
Weights = dict[str, Any]


def new_weights(width: int = 40, seed: int = 0) -> Weights:
    rng = np.random.default_rng(seed)
    sizes = {"w1": (1, width), "w2": (width, width), "w3": (width, 1)}
    weights = {name: np.float32(rng.normal(0, s[0] ** -0.5, s)) for name, s in sizes.items()}
    return weights | {f"b{i}": np.zeros(sizes[f"w{i}"][1], np.float32) for i in (1, 2, 3)}


def tasks(count: int, rng: np.random.Generator, points: int = 10) -> list[np.ndarray]:
    """Return points of sine waves for the inner step (x, y) and for the meta-loss (x, y), by task."""
    size, phase = rng.uniform(0.5, 2, (count, 1, 1)), rng.uniform(0, np.pi, (count, 1, 1))
    inputs = [rng.uniform(-3, 3, (count, points, 1)) for _ in range(2)]
    return [part.astype(np.float32) for x in inputs for part in (x, size * np.sin(x + phase))]


def loss(weights: Weights, x: Any, y: Any) -> Any:
    hidden = mnp.tanh(x @ weights["w1"] + weights["b1"])
    hidden = mnp.tanh(hidden @ weights["w2"] + weights["b2"])
    return mnp.mean((hidden @ weights["w3"] + weights["b3"] - y) ** 2)


def adapted(weights: Weights, x: Any, y: Any) -> Weights:
    """Return the weights after one gradient step on a task."""
    slopes = mg.grad(loss)(weights, x, y)
    return {name: w - RATE * slopes[name] for name, w in weights.items()}


def meta_loss(weights: Weights, x: Any, y: Any, x_new: Any, y_new: Any) -> Any:
    def of_task(x: Any, y: Any, x_new: Any, y_new: Any) -> Any:
        return loss(adapted(weights, x, y), x_new, y_new)

    return mnp.mean(mg.vmap(of_task)(x, y, x_new, y_new))


@mg.jit
def step(weights: Weights, velocity: Weights, *data: Any) -> tuple[Any, Weights, Weights]:
    value, slopes = mg.value_and_grad(meta_loss)(weights, *data)
    velocity = {name: 0.9 * v - 0.01 * slopes[name] for name, v in velocity.items()}
    return value, {name: w + velocity[name] for name, w in weights.items()}, velocity


def train(steps: int = 1500, batch: int = 16) -> tuple[Weights, list[float]]:
    weights, rng, losses = new_weights(), np.random.default_rng(1), []
    velocity = {name: np.zeros_like(w) for name, w in weights.items()}
    for _ in range(steps):
        value, weights, velocity = step(weights, velocity, *tasks(batch, rng))
        losses.append(value.item())
    return weights, losses


if __name__ == "__main__":
    trained, values = train()
    x, y, x_new, y_new = tasks(200, np.random.default_rng(2))
    before = mnp.mean(mg.vmap(loss, (None, 0, 0))(trained, x_new, y_new)).item()
    print(f"meta-loss {np.mean(values[:50]):.3f} -> {np.mean(values[-50:]):.3f}")
    print(f"new tasks: {before:.3f} before the step, {meta_loss(trained, x, y, x_new, y_new).item():.3f} after it")
