"""A custom reinforcement learning loss: proximal policy optimization of a walk along a corridor.

The agent starts in the middle of a corridor, and the episode ends at either end, with a reward of 1 at the right one.
The best policy always walks right. `mg.stop_gradient` keeps the advantages constant, and the clipped objective is a few
lines of `mpsgraph.numpy`. Schulman et al., arXiv:1707.06347.
Run: python examples/transforms/ppo.py; page: docs/transforms.md.
"""

from __future__ import annotations

from typing import Any

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np

CELLS, DISCOUNT, CLIP = 7, 0.9, 0.2
Agent = dict[str, Any]


def new_agent() -> Agent:
    """Return the logits of both actions (left, right) and the value of each cell."""
    return {"logits": np.zeros((CELLS, 2), np.float32), "values": np.zeros(CELLS, np.float32)}


def log_probabilities(agent: Agent, cells: Any, actions: Any) -> Any:
    logits = agent["logits"][cells]
    normalized = logits - mnp.special.logsumexp(logits, axis=1, keepdims=True)
    return mnp.take_along_axis(normalized, mnp.expand_dims(actions, 1), axis=1)[:, 0]


def loss(agent: Agent, cells: Any, actions: Any, returns: Any, old: Any) -> Any:
    """Return the clipped policy loss, plus the error of the values, minus a little entropy."""
    values = agent["values"][cells]
    advantages = mg.stop_gradient(returns - values)
    ratio = mnp.exp(log_probabilities(agent, cells, actions) - old)
    policy = mnp.minimum(ratio * advantages, mnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantages)
    logits = agent["logits"][cells]
    logs = logits - mnp.special.logsumexp(logits, axis=1, keepdims=True)
    entropy = -mnp.sum(mnp.exp(logs) * logs, axis=1)
    return mnp.mean(-policy + 0.5 * (returns - values) ** 2 - 0.01 * entropy)


@mg.jit
def update(agent: Agent, *data: Any) -> Agent:
    slopes = mg.grad(loss)(agent, *data)
    return {name: part - 2.0 * slopes[name] for name, part in agent.items()}


@mg.jit
def probabilities(agent: Agent) -> Any:
    logits = agent["logits"]
    return mnp.exp(logits - mnp.special.logsumexp(logits, axis=1, keepdims=True))


def episodes(right: np.ndarray, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Walk with the given probabilities of stepping right. Return cells, actions, and discounted returns."""
    found: list[tuple[int, int, float]] = []
    for _ in range(count):
        cell = CELLS // 2
        path: list[tuple[int, int]] = []
        while 0 < cell < CELLS - 1 and len(path) < 100:
            action = int(rng.random() < right[cell])
            path.append((cell, action))
            cell += 2 * action - 1
        reward = float(cell == CELLS - 1)
        found += [(c, a, reward * DISCOUNT ** (len(path) - 1 - i)) for i, (c, a) in enumerate(path)]
    cells, actions, returns = zip(*found, strict=True)
    return [np.array(cells, np.int32), np.array(actions, np.int32), np.array(returns, np.float32)]


def train(rounds: int = 60, walks: int = 40, size: int = 256) -> Agent:
    agent, rng = new_agent(), np.random.default_rng(0)
    for _ in range(rounds):
        right = probabilities(agent).numpy()[:, 1]
        cells, actions, returns = episodes(right, walks, rng)
        chosen = rng.integers(0, len(cells), size)  # A fixed size, so that one program serves all rounds.
        data = cells[chosen], actions[chosen], returns[chosen]
        old = log_probabilities({name: mnp.asarray(part) for name, part in agent.items()}, *data[:2])
        for _ in range(4):
            agent = update(agent, *data, old)
    return agent


if __name__ == "__main__":
    trained = train()
    print("probability of walking right:", probabilities(trained).numpy()[1:-1, 1].round(2))
    print("values:", trained["values"].numpy()[1:-1].round(2))
