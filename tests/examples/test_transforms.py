"""Test the programs of examples/transforms against known solutions, and their losses against numpy."""

import mpsgraph as mg
import mpsgraph.numpy as mnp
import numpy as np
import pytest
from transforms import maml, pinn, ppo


def test_physics_informed_network_finds_the_sine():
    network, losses = pinn.train(400)
    x = np.linspace(0, 1, 51, dtype=np.float32)
    found = mg.vmap(pinn.solution, (None, 0))(network, x).numpy()
    np.testing.assert_allclose(found, np.sin(np.pi * x), atol=5e-3)
    assert losses[-1] < losses[0] / 500


def test_second_derivative_of_the_network_matches_central_differences():
    network = [tuple(np.float64(part) for part in layer) for layer in pinn.new_network()]
    for x in (0.2, 0.7):
        found = pinn.residual(network, mnp.asarray(np.float64(x))) - np.pi**2 * np.sin(np.pi * x)
        values = [pinn.solution(network, mnp.asarray(np.float64(x + s))).item() for s in (-1e-4, 0, 1e-4)]
        assert found.item() == pytest.approx((values[0] - 2 * values[1] + values[2]) / 1e-8, rel=1e-5)


def test_meta_gradient_matches_central_differences():
    """The gradient includes the derivative of the inner gradient step."""
    weights = {name: np.float64(w) for name, w in maml.new_weights(6).items()}
    data = [np.float64(part) for part in maml.tasks(3, np.random.default_rng(0))]
    slopes = mg.grad(maml.meta_loss)(weights, *data)
    direction = {name: np.random.default_rng(1).normal(size=w.shape) for name, w in weights.items()}
    sides = [
        maml.meta_loss({name: w + s * direction[name] for name, w in weights.items()}, *data).item()
        for s in (1e-5, -1e-5)
    ]
    along = sum((slopes[name].numpy() * d).sum() for name, d in direction.items())
    assert along == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-6)


def test_meta_learned_weights_adapt_in_one_step():
    weights, losses = maml.train(300)
    x, y, x_new, y_new = maml.tasks(100, np.random.default_rng(2))
    before = mg.vmap(maml.loss, (None, 0, 0))(weights, x_new, y_new).mean().item()
    after = maml.meta_loss(weights, x, y, x_new, y_new).item()
    assert after < 0.5 * before and np.mean(losses[-20:]) < 0.6 * np.mean(losses[:20])


def test_policy_loss_matches_numpy():
    rng = np.random.default_rng(0)
    agent = {"logits": rng.normal(size=(ppo.CELLS, 2)), "values": rng.normal(size=ppo.CELLS)}
    cells, actions = rng.integers(1, 6, 50).astype(np.int32), rng.integers(0, 2, 50).astype(np.int32)
    returns, old = rng.normal(size=50), np.log(rng.uniform(0.2, 0.8, 50))
    logs = agent["logits"] - np.log(np.exp(agent["logits"]).sum(1, keepdims=True))
    ratio = np.exp(logs[cells, actions] - old)
    gain = returns - agent["values"][cells]
    policy = np.minimum(ratio * gain, np.clip(ratio, 1 - ppo.CLIP, 1 + ppo.CLIP) * gain)
    entropy = -(np.exp(logs) * logs).sum(1)[cells]
    expected = np.mean(-policy + 0.5 * gain**2 - 0.01 * entropy)
    arguments = [mg.asarray(part) for part in (cells, actions, returns, old)]
    value, slopes = mg.value_and_grad(ppo.loss)(agent, *arguments)
    assert value.item() == pytest.approx(expected, rel=1e-12)
    counts = np.bincount(cells, -gain, ppo.CELLS) / 50
    np.testing.assert_allclose(slopes["values"], counts, atol=1e-12, err_msg="the policy must not move the values")


def test_trained_agent_walks_right_and_knows_the_discounted_rewards():
    agent = ppo.train()
    middle = ppo.CELLS // 2
    assert (ppo.probabilities(agent).numpy()[middle:-1, 1] > 0.9).all()
    best = ppo.DISCOUNT ** np.arange(ppo.CELLS - 2 - middle, -1, -1)
    np.testing.assert_allclose(agent["values"].numpy()[middle:-1], best, atol=0.05)
