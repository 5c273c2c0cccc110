"""Compare optimizers with float64 over 50 steps, both in a graph and through encode() on vectors and states."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness.nodes import graph_of, pool, queue, run
from mpsgraph import DeviceError, GraphError, ShapeError
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

Array = np.ndarray
STEPS = 50
RATE = 0.03
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "clip": {"gradient_clip": (-0.4, 0.25)},
    "rescale": {"gradient_rescale": 1.5},
    "l1": {"regularization_type": "l1", "regularization_scale": 0.1},
    "l2": {"regularization_type": "l2", "regularization_scale": 0.2},
    "all": {
        "gradient_clip": (-0.4, 0.25),
        "gradient_rescale": -0.5,
        "regularization_type": "l2",
        "regularization_scale": 0.05,
    },
}
RULES: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (nn.StochasticGradientDescent, {}),
    "momentum": (nn.StochasticGradientDescent, {"momentum_scale": 0.8}),
    "nesterov": (nn.StochasticGradientDescent, {"momentum_scale": 0.8, "use_nesterov_momentum": True}),
    "rmsprop": (nn.RMSProp, {"decay": 0.85, "epsilon": 1e-3}),
    "adam": (nn.Adam, {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4}),
    "adam from 7": (nn.Adam, {"time_step": 7}),
    "amsgrad": (nn.Adam, {"amsgrad": True, "beta2": 0.7, "epsilon": 1e-3}),
}


def make(rule: str, options: str) -> Any:
    kind, own = RULES[rule]
    return kind(RATE, **own, **OPTIONS[options])


class ByHand:
    """Reference optimizers that follow MPSNNOptimizers.h in float64."""

    def __init__(self, rule: str, options: str) -> None:
        self.rule, self.own, self.options = rule, RULES[rule][1], OPTIONS[options]
        self.rate, self.t, self.kept = RATE, self.own.get("time_step", 0), [0.0, 0.0, 0.0]

    def step(self, v: Array, g: Array) -> Array:
        if "gradient_clip" in self.options:
            g = np.clip(g, *self.options["gradient_clip"])
        g = g * self.options.get("gradient_rescale", 1)
        scale = self.options.get("regularization_scale", 0)
        g = g + scale * {"l1": np.sign(v), "l2": v}.get(self.options.get("regularization_type"), 0)
        m, s, x = self.kept
        self.t += 1
        if self.rule == "sgd":
            return v - self.rate * g
        if self.rule == "momentum":
            m = 0.8 * m + self.rate * g
            v = v - m
        elif self.rule == "nesterov":
            m = 0.8 * m + g
            v = v - self.rate * (g + 0.8 * m)
        elif self.rule == "rmsprop":
            s = 0.85 * s + 0.15 * g * g
            v = v - self.rate * g / (np.sqrt(s) + 1e-3)
        else:
            b1, b2 = self.own.get("beta1", 0.9), self.own.get("beta2", 0.999)
            m, s = b1 * m + (1 - b1) * g, b2 * s + (1 - b2) * g * g
            x = np.maximum(x, s)
            rate = self.rate * np.sqrt(1 - b2**self.t) / (1 - b1**self.t)
            v = v - rate * m / (np.sqrt(x if self.rule == "amsgrad" else s) + self.own.get("epsilon", 1e-8))
        self.kept = [m, s, x]
        return v


def gradient_at(step: int) -> Array:
    """Return gradients that shrink and grow over time, so that AMSGrad's maximum and the clipping have an effect."""
    return pool(6, seed=step) * (2.0 if step < 10 else 0.3)


def moments(optimizer: Any, like: Array) -> dict[str, Any]:
    names = {
        "momentum": "input_momentum_vectors",
        "velocity": "input_velocity_vectors",
        "sum_of_squares": "input_velocity_vectors",
        "maximum_velocity": "maximum_velocity_vectors",
    }
    return {names[n]: np.zeros_like(like) for n in optimizer.moments}


@pytest.mark.parametrize(("rule", "options"), list(itertools.product(RULES, OPTIONS)))
def test_vector_optimizers_match_float64_over_50_steps(rule: str, options: str):
    optimizer, reference = make(rule, options), ByHand(rule, options)
    values = pool(6, seed=99).astype(np.float32)
    wanted, kept, on = values.astype(float), moments(optimizer, values), queue()
    for step in range(STEPS):
        if step == 30:  # The learning rate can change between steps.
            optimizer.learning_rate = reference.rate = 0.01
        buffer = on.command_buffer()
        g = gradient_at(step).astype(np.float32)
        optimizer.encode(buffer, input_gradient_vector=g, input_values_vector=values, **kept)
        buffer.commit()
        buffer.wait_until_completed()
        wanted = reference.step(wanted, g.astype(float))
        np.testing.assert_allclose(values, wanted, rtol=2e-5, atol=2e-6, err_msg=f"step {step}")
    assert optimizer.time_step == (reference.t if "adam" in rule or rule == "amsgrad" else 0)


@pytest.mark.parametrize(("rule", "options"), list(itertools.product(RULES, OPTIONS)))
def test_graph_optimizers_match_float64_over_50_steps(rule: str, options: str):
    """Train a fully connected layer on half its squared error, whose gradient is known."""
    optimizer, reference = make(rule, options), ByHand(rule, options)
    start = pool(2, 1, 1, 3, seed=98)
    source = nn.TrainableConvolution(
        nn.ConvolutionDescriptor(1, 1, 3, 2), start.astype(np.float32), optimizer=optimizer
    )
    node = nn.FullyConnectedNode(nn.ImageNode("x"), source)
    loss = nn.LossNode(node.result_image, nn.LossDescriptor("mean_squared_error", weight=0.5))
    graph = graph_of([f.result_image for f in loss.training_graph(None)], False)
    wanted = np.concatenate([start.ravel(), [0, 0]])
    on = queue()
    for step in range(STEPS):
        x, t = pool(4, 1, 1, 3, seed=step), pool(4, 2, seed=100 + step)
        buffer = on.command_buffer()
        graph.encode_batch(buffer, [x.astype(np.float32)], [nn.LossLabelsBatch(t.astype(np.float32))])
        buffer.commit()
        weights, biases = wanted[:6].reshape(2, 3), wanted[6:]
        e = x[:, 0, 0] @ weights.T + biases - t
        wanted = reference.step(wanted, np.concatenate([(e.T @ x[:, 0, 0]).ravel(), e.sum(0)]))
    buffer.wait_until_completed()
    source.load()
    found = np.concatenate([source.weights().ravel(), source.bias_terms()])
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    assert optimizer.time_step == (reference.t if "adam" in rule or rule == "amsgrad" else 0)


@pytest.mark.parametrize("rule", RULES)
def test_optimizer_writes_new_values_to_result_state(rule: str):
    """Update a state with weights and biases into another state; the source state keeps its values."""
    optimizer, reference = make(rule, "all"), ByHand(rule, "all")
    weights, biases = pool(2, 1, 1, 3, seed=1).astype(np.float32), pool(2, seed=2).astype(np.float32)
    source = nn.ConvolutionWeightsAndBiasesState(weights, biases)
    result = nn.ConvolutionWeightsAndBiasesState(np.zeros_like(weights), np.zeros_like(biases))
    slopes = [pool(2, 1, 1, 3, seed=3).astype(np.float32), pool(2, seed=4).astype(np.float32)]
    kept = {k: [np.zeros_like(weights), np.zeros(2, np.float32)] for k in moments(optimizer, weights)}
    buffer = queue().command_buffer()
    optimizer.encode(
        buffer,
        convolution_gradient_state=nn.ParameterState({"weights": slopes[0], "biases": slopes[1]}),
        convolution_source_state=source,
        result_state=result,
        **kept,
    )
    buffer.commit()
    buffer.wait_until_completed()
    wanted = reference.step(np.concatenate([weights.ravel(), biases]), np.concatenate([slopes[0].ravel(), slopes[1]]))
    found = np.concatenate([np.array(result.array("weights")).ravel(), np.array(result.array("biases"))])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(weights, pool(2, 1, 1, 3, seed=1).astype(np.float32))


def test_optimizer_updates_matrices_with_momentum_in_a_vector():
    optimizer = nn.StochasticGradientDescent(0.5, momentum_scale=0.5)
    values, momentum = np.ones((2, 3), np.float32), np.zeros(6, np.float32)
    on = queue()
    for _ in range(2):
        buffer = on.command_buffer()
        optimizer.encode(
            buffer,
            input_gradient_matrix=np.ones((2, 3), np.float32),
            input_values_matrix=values,
            input_momentum_vectors=momentum,
        )
        buffer.commit()
    buffer.wait_until_completed()
    np.testing.assert_allclose(momentum, 0.75)  # 0.5 * 0.5 + 0.5
    np.testing.assert_allclose(values, 1 - 0.5 - 0.75)


def test_default_optimizer_options_equal_apple_defaults():
    sgd, rmsprop, adam = nn.StochasticGradientDescent(), nn.RMSProp(), nn.Adam()
    assert (sgd.learning_rate, rmsprop.learning_rate, adam.learning_rate) == (1e-3, 1e-3, 1e-3)
    assert (adam.beta1, adam.beta2, adam.epsilon, adam.time_step) == (0.9, 0.999, 1e-8, 0)
    assert sgd.moments == [] and adam.moments == ["momentum", "velocity"]


def test_shared_optimizer_counts_one_step_per_encode():
    optimizer = nn.Adam()
    d = nn.ConvolutionDescriptor(1, 1, 2, 2)
    layers = [nn.TrainableConvolution(d, seed=i, optimizer=optimizer) for i in range(2)]
    first = nn.ConvolutionNode(nn.ImageNode("x"), layers[0])
    second = nn.ConvolutionNode(first.result_image, layers[1])
    loss = nn.LossNode(second.result_image, nn.LossDescriptor("mean_squared_error"))
    graph = graph_of([f.result_image for f in loss.training_graph(None)])
    for step in range(3):
        run(graph, {"x": np.ones((1, 1, 1, 2), np.float32)}, [nn.LossLabelsBatch(np.ones((1, 2), np.float32))])
        assert optimizer.time_step == step + 1


class TestBadInput:
    def encode(self, optimizer: Any, buffer: Any, **changes: Any) -> None:
        state = nn.ConvolutionWeightsAndBiasesState(self.weights, self.biases)
        given = {
            "convolution_gradient_state": nn.ParameterState(
                {"weights": np.ones((2, 1, 1, 3), np.float32), "biases": np.ones(2, np.float32)}
            ),
            "convolution_source_state": state,
            "input_momentum_vectors": [np.zeros(6, np.float32), np.zeros(2, np.float32)],
        }
        optimizer.encode(buffer, **{**given, **changes})

    @pytest.mark.parametrize(
        ("error", "changes"),
        [
            (GraphError, {"convolution_source_state": None}),
            (GraphError, {"input_momentum_vectors": [np.zeros(6, np.float32)]}),
            (ShapeError, {"input_momentum_vectors": [np.zeros(6, np.float32), np.zeros(3, np.float32)]}),
            (GraphError, {"result_state": nn.ParameterState({"weights": np.zeros((2, 1, 1, 3), np.float32)})}),
            (
                ShapeError,
                {
                    "result_state": nn.ParameterState(
                        {"weights": np.zeros((2, 1, 1, 3), np.float32), "biases": np.zeros(5, np.float32)}
                    )
                },
            ),
            (
                ShapeError,
                {
                    "convolution_gradient_state": nn.ParameterState(
                        {"weights": np.ones((2, 1, 1, 3), np.float32), "biases": np.ones(3, np.float32)}
                    )
                },
            ),
            (GraphError, {"convolution_gradient_state": nn.ParameterState({"gamma": np.ones(2, np.float32)})}),
        ],
    )
    def test_invalid_optimizer_states_raise_and_encode_nothing(self, error: Any, changes: dict[str, Any]):
        self.weights, self.biases = np.ones((2, 1, 1, 3), np.float32), np.ones(2, np.float32)
        optimizer = nn.StochasticGradientDescent(1.0, momentum_scale=0.5)
        buffer = queue().command_buffer()
        with pytest.raises(error):
            self.encode(optimizer, buffer, **changes)
        buffer.commit()
        buffer.wait_until_completed()
        assert (self.weights == 1).all() and (self.biases == 1).all()
        assert optimizer.time_step == 0

    def test_encoding_optimizer_without_values_raises(self):
        with pytest.raises(GraphError, match="gradients and values"):
            nn.Adam().encode(queue().command_buffer())

    def test_read_only_values_raise(self):
        values = np.ones(3, np.float32)
        values.flags.writeable = False
        with pytest.raises(DeviceError, match="writable"):
            nn.StochasticGradientDescent().encode(
                queue().command_buffer(), input_gradient_vector=np.ones(3, np.float32), input_values_vector=values
            )

    @pytest.mark.parametrize(
        "make",
        [
            lambda: nn.StochasticGradientDescent(momentum_scale=-1),
            lambda: nn.RMSProp(decay=1.0),
            lambda: nn.Adam(beta1=1.0),
            lambda: nn.Adam(beta2=-0.1),
            lambda: nn.Adam(time_step=-1),
            lambda: nn.Adam(gradient_clip=(1, -1)),
            lambda: nn.Adam(regularization_type="l3"),
        ],
    )
    def test_invalid_optimizer_options_raise(self, make: Any):
        with pytest.raises(GraphError):
            make()
