"""Test the states of filters: exporting states, passing states to another graph, and errors for mismatched batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpsgraph as mg
import numpy as np
import pytest
from harness.nodes import Convolution, Normalization, graph_of, pool, queue, run
from mpsgraph import DeviceError, GraphError, ShapeError
from mpsgraph import nngraph as nn


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return pool(*shape, seed=seed).astype(np.float32)


def left(graph: nn.NNGraph, feeds: dict[str, np.ndarray], states: Any = ()) -> tuple[Any, list[nn.ParameterState]]:
    """Run a batch to completion and return its result and the exported states."""
    buffer, found = mg.CommandQueue(graph.device).command_buffer(), list[nn.ParameterState]()
    batches = [feeds[handle] for handle in graph.source_image_handles]
    result = graph.encode_batch(buffer, batches, states, destination_states=found)
    buffer.commit()
    buffer.wait_until_completed()
    return result, found


def trained(forward: Any, handle: str = "") -> nn.NNGraph:
    """Build a graph of a filter over "x" and its gradient filter over "g" that exports the filter's state."""
    forward.result_state.export_from_graph, forward.result_state.handle = True, handle
    return graph_of(forward.gradient_filter(nn.ImageNode("g")).result_image)


# --- exported states
# ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "node, descriptor, ready_made",
    [
        (nn.ConvolutionNode, nn.ConvolutionDescriptor(3, 2, 2, 4), True),
        (nn.ConvolutionNode, nn.ConvolutionDescriptor(3, 3, 4, 6, groups=2), True),
        (nn.ConvolutionNode, nn.ConvolutionDescriptor(2, 3, 3, 6, depthwise=True), True),
        (nn.ConvolutionNode, nn.ConvolutionDescriptor(3, 3, 2, 4), False),
        (nn.ConvolutionTransposeNode, nn.ConvolutionDescriptor(3, 3, 2, 4, 2, 2), True),
        (nn.FullyConnectedNode, nn.ConvolutionDescriptor(5, 4, 2, 3), True),
        (nn.FullyConnectedNode, nn.ConvolutionDescriptor(5, 4, 2, 3), False),
    ],
)
def test_exported_convolution_gradients_equal_those_of_update(
    node: Any, descriptor: nn.ConvolutionDescriptor, ready_made: bool
):
    """The exported state holds the gradients that update() of a data source receives."""
    weights, biases = floats(*descriptor.weights_shape, seed=1), floats(descriptor.output_feature_channels, seed=2)
    told = Convolution(descriptor, weights, biases)
    x = floats(2, 4, 5, descriptor.input_feature_channels, seed=3)
    forward = node(nn.ImageNode("x"), told)
    (shape,) = (y.shape for y in run(graph_of(forward.result_image), {"x": x}))
    feeds = {"x": x, "g": floats(*shape, seed=4)}
    run(graph_of(forward.gradient_filter(nn.ImageNode("g")).result_image), feeds)
    source = (
        nn.TrainableConvolution(descriptor, weights, biases) if ready_made else Convolution(descriptor, weights, biases)
    )
    graph = trained(node(nn.ImageNode("x"), source), "conv")
    assert graph.result_state_handles == ["conv"]
    _, (state,) = left(graph, feeds)
    assert state.names == ["weights", "biases"]
    for name in state.names:
        assert state.read(name).shape == told.arrays[name].shape
        np.testing.assert_allclose(state.read(name).numpy(), told.state.read(name).numpy(), rtol=1e-5, atol=1e-5)


def test_source_shared_by_two_filters_exports_gradients_of_both():
    descriptor, source = nn.ConvolutionDescriptor(1, 1, 1, 1), None
    source = nn.TrainableConvolution(descriptor, np.float32([2]).reshape(1, 1, 1, 1), False)
    first = nn.ConvolutionNode(nn.ImageNode("x"), source, label="first")
    second = nn.ConvolutionNode(first.result_image, source, label="second")
    for node in (first, second):
        node.result_state.export_from_graph = True
    (end,) = second.training_graph(nn.ImageNode("g"))
    graph = graph_of(end.result_image, False)
    assert graph.result_state_handles == ["first", "second"]
    result, states = left(graph, {"x": np.full((1, 1, 1, 1), 3, np.float32), "g": np.ones((1, 1, 1, 1), np.float32)})
    # Each filter contributes 2 * 3.
    assert result is None and [s.read("weights").numpy().item() for s in states] == [6, 6]


def test_exported_normalization_state_has_gradients_and_statistics():
    x, g = floats(2, 3, 3, 2), floats(2, 3, 3, 2, seed=1)
    told = Normalization(2, gamma=np.float32([1, 2]), beta=np.float32([0, 1]))
    run(graph_of(nn.BatchNormalizationNode(nn.ImageNode("x"), told).gradient_filter(nn.ImageNode("g")).result_image),
        {"x": x, "g": g})  # fmt: skip
    source = nn.TrainableNormalization(2, gamma=np.float32([1, 2]), beta=np.float32([0, 1]))
    _, (state,) = left(trained(nn.BatchNormalizationNode(nn.ImageNode("x"), source)), {"x": x, "g": g})
    assert set(state.names) == {"gamma", "beta", "mean", "variance"}
    np.testing.assert_allclose(state.read("mean").numpy(), x.mean((0, 1, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state.read("variance").numpy(), x.var((0, 1, 2)), rtol=1e-4)
    for name in ("gamma", "beta"):
        np.testing.assert_allclose(state.read(name).numpy(), told.state.read(name).numpy(), rtol=1e-5, atol=1e-6)


def test_optimizer_accepts_exported_gradient_state():
    """Encode the update by hand to the same command buffer; the state can be read once that has completed."""
    weights = np.ones((1, 1, 1, 1), np.float32)
    graph = trained(
        nn.ConvolutionNode(nn.ImageNode("x"), nn.TrainableConvolution(nn.ConvolutionDescriptor(1, 1, 1, 1)))
    )
    buffer, states, own = queue().command_buffer(), [], nn.ConvolutionWeightsAndBiasesState(weights)
    ones = np.ones((3, 1, 1, 1), np.float32)
    graph.encode_batch(buffer, [ones, ones], destination_states=states)
    nn.StochasticGradientDescent(0.5).encode(buffer, convolution_gradient_state=states[0], convolution_source_state=own)
    with pytest.raises(DeviceError, match="has not completed"):
        states[0].read("weights")
    # Another queue would not wait for the pending command buffer.
    with pytest.raises(DeviceError, match="has not completed"):
        nn.StochasticGradientDescent(0.5).encode(
            queue().command_buffer(), convolution_gradient_state=states[0], convolution_source_state=own
        )
    buffer.commit()
    buffer.wait_until_completed()
    assert weights.item() == 1 - 0.5 * 3


def test_filters_without_readable_state_export_none():
    x = nn.ImageNode("x")
    assert nn.NeuronReLUNode(x).result_state is None and nn.PoolingMaxNode(x, 2).result_state is None
    dropout = nn.DropoutNode(x)
    assert "left by dropout" in repr(dropout.result_state)
    assert dropout.gradient_filter(nn.ImageNode("g")).result_state is None
    graph = graph_of(dropout.result_image)
    assert graph.result_state_handles == [] and left(graph, {"x": floats(1, 2, 2, 1)})[1] == []


def test_exporting_gradient_state_without_gradient_filter_raises():
    node = nn.ConvolutionNode(
        nn.ImageNode("x"), nn.TrainableConvolution(nn.ConvolutionDescriptor(1, 1, 1, 1)), label="me"
    )
    node.result_state.export_from_graph = True
    with pytest.raises(GraphError, match=r"convolution 'me'\] cannot export its state: .* made at .*test_states"):
        graph_of(node.result_image)


# --- states within a graph
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(5, 6), (6, 5), (7, 8)])
@pytest.mark.parametrize(
    "policy", [nn.SAME, nn.VALID, nn.FULL, nn.TENSORFLOW_SAME, nn.PaddingPolicy(padding=(1, 0, 0, 2))]
)
def test_transposed_convolution_restores_size_from_forward_state(size: tuple[int, int], policy: nn.PaddingPolicy):
    """With a flipped kernel it equals the convolution's gradient, for every input size that the stride maps to one
    output size.
    """
    d, back = nn.ConvolutionDescriptor(2, 3, 2, 4, 3, 2), nn.ConvolutionDescriptor(2, 3, 4, 2, 3, 2)
    weights = floats(*d.weights_shape, seed=1)
    convolution = nn.ConvolutionNode(nn.ImageNode("x"), Convolution(d, weights), padding_policy=policy)
    turned = np.ascontiguousarray(weights[:, ::-1, ::-1].transpose(3, 1, 2, 0))
    undoing = nn.ConvolutionTransposeNode(
        nn.ImageNode("g"), Convolution(back, turned), convolution_gradient_state=convolution.result_state
    )
    x = floats(2, *size, 2, seed=2)
    (y,) = run(graph_of(convolution.result_image), {"x": x})
    feeds = {"x": x, "g": floats(*y.shape, seed=3)}
    (dx,) = run(graph_of(convolution.gradient_filter(nn.ImageNode("g")).result_image), feeds)
    graph = graph_of(undoing.result_image)
    (found,) = run(graph, {h: feeds[h] for h in graph.source_image_handles})
    assert found.shape == x.shape
    np.testing.assert_allclose(found, dx, rtol=1e-5, atol=1e-5)


def test_invalid_convolution_states_raise():
    x, source = nn.ImageNode("x"), Convolution(nn.ConvolutionDescriptor(3, 3, 1, 1), floats(1, 3, 3, 1))
    other = nn.ConvolutionNode(x, source, label="other")
    for state in (nn.StateNode("given"), nn.DropoutNode(x).result_state):
        with pytest.raises(
            GraphError, match="must be the result_state of the convolution node that it reverses; made at"
        ):
            nn.ConvolutionTransposeNode(x, source, convolution_gradient_state=state)
    with pytest.raises(GraphError, match="reads no source state"):
        nn.NeuronReLUNode(x).source_state = nn.StateNode()
    node = nn.ConvolutionTransposeNode(nn.ImageNode("g"), source, convolution_gradient_state=other.result_state)
    graph = graph_of(node.result_image)
    feeds = {"x": floats(1, 4, 4, 1), "g": floats(1, 3, 4, 1)}
    with pytest.raises(
        ShapeError,
        match=r"convolution 'other', which this node reverses: .* an axis of size 4 gives 4 pixel\(s\), got 3",
    ):
        run(graph, feeds)


# --- states from one graph to another
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [(1, 1, 1), (0, 1, 0)])
def test_dropout_mask_state_is_accepted_by_another_graph(stride: tuple[int, int, int]):
    node = nn.DropoutNode(nn.ImageNode("x"), 0.6, 5, stride)
    node.result_state.export_from_graph = True
    x, g = np.abs(floats(3, 4, 5, 2)) + 1, floats(3, 4, 5, 2, seed=1)
    y, (state,) = left(graph_of(node.result_image), {"x": x})
    mask = state.read("mask").numpy()
    assert state.names == ["mask"] and mask.shape == (
        3,
        4 if stride[1] else 1,
        5 if stride[0] else 1,
        2 if stride[2] else 1,
    )
    assert set(np.unique(mask)) == {0, 1}
    np.testing.assert_allclose(y.numpy(), x * mask / 0.6, rtol=1e-6)
    gradient = nn.DropoutGradientNode(nn.ImageNode("g"), nn.ImageNode("x"), nn.StateNode("mask"), 0.6, 5, stride)
    back = graph_of(gradient.result_image)
    assert back.source_state_handles == ["mask"]
    result, _ = left(back, {"x": x, "g": g}, [state])
    np.testing.assert_allclose(result.numpy(), g * mask / 0.6, rtol=1e-6)


def test_labels_and_mask_states_work_in_one_command_buffer():
    """Run forward in one graph, and loss and gradients in another that is encoded before the mask exists."""
    x, labels = floats(2, 1, 1, 4), nn.LossLabelsBatch(np.zeros((2, 4), np.float32))
    dropout = nn.DropoutNode(nn.ImageNode("x"), 0.5, 3)
    dropout.result_state.export_from_graph = True
    loss = nn.LossNode(nn.ImageNode("dropped"), nn.LossDescriptor("mean_squared_error"), label="loss")
    back = nn.DropoutGradientNode(loss.result_image, nn.ImageNode("x"), nn.StateNode("mask"), 0.5, 3)
    forward, backward = graph_of(dropout.result_image), graph_of(back.result_image)
    buffer, states = queue().command_buffer(), []
    dropped = forward.encode_batch(buffer, [x], destination_states=states)
    feeds, given = {"x": x, "dropped": dropped}, {"loss": labels, "mask": states[0]}
    result = backward.encode_batch(
        buffer, [feeds[h] for h in backward.source_image_handles], [given[h] for h in backward.source_state_handles]
    )
    buffer.commit()
    buffer.wait_until_completed()
    mask = states[0].read("mask").numpy()
    np.testing.assert_allclose(result.numpy(), 2 * (x * mask / 0.5) * mask / 0.5, rtol=1e-6)
    np.testing.assert_allclose(labels.losses.numpy().ravel(), (dropped.numpy() ** 2).sum((1, 2, 3)), rtol=1e-6)


def test_dropout_mask_of_graph_run_in_parts_is_exported(tmp_path: Path):
    """Stored weights are loaded one after another, so the graph runs in parts; the mask belongs to the first part."""
    from safetensors.numpy import save_file

    save_file({"w": np.eye(4, dtype=np.float32).reshape(4, 1, 1, 4)}, tmp_path / "w.safetensors")
    stored = [nn.StoredWeights(tmp_path / "w.safetensors", nn.ConvolutionDescriptor(1, 1, 4, 4), "w") for _ in range(2)]
    dropout = nn.DropoutNode(nn.FullyConnectedNode(nn.ImageNode("x"), stored[0]).result_image, 0.5)
    dropout.result_state.export_from_graph = True
    graph = graph_of(nn.FullyConnectedNode(dropout.result_image, stored[1]).result_image)
    x = np.ones((8, 1, 1, 4), np.float32)
    y, (state,) = left(graph, {"x": x})
    np.testing.assert_array_equal(y.numpy(), 2 * state.read("mask").numpy())
    assert 0 < y.numpy().sum() < 64


# --- states of other batches
# --------------------------------------------------------------------------------------------


def back_of(**options: Any) -> nn.NNGraph:
    return graph_of(
        nn.DropoutGradientNode(
            nn.ImageNode("g"), nn.ImageNode("x"), nn.StateNode("mask"), label="me", **options
        ).result_image
    )


def mask(*shape: int) -> nn.ParameterState:
    return nn.ParameterState({"mask": np.ones(shape, np.float32)})


def test_mask_of_a_different_batch_raises():
    images = {name: floats(2, 3, 3, 1) for name in "xg"}
    with pytest.raises(
        ShapeError, match=r"'me'\] source state must have as many images .*\(2\), got 3; .* belongs to another batch"
    ):
        left(back_of(), images, [mask(3, 3, 3, 1)])
    with pytest.raises(ShapeError, match="the state belongs to another batch or another dropout node; made at"):
        left(back_of(), images, [mask(2, 3, 1, 1)])
    with pytest.raises(ShapeError, match="the dropout's source image"):
        left(back_of(), {**images, "g": floats(2, 3, 2, 1)}, [mask(2, 3, 3, 1)])
    with pytest.raises(GraphError, match=r"a dropout's state with a 'mask', got a state with the arrays \['weights'\]"):
        left(back_of(), images, [nn.ConvolutionWeightsAndBiasesState(np.zeros((1, 1, 1, 1), np.float32))])
    with pytest.raises(GraphError, match="number of batches of labels or source states must be 1"):
        left(back_of(), images)


def test_mask_pending_on_another_queue_raises():
    node = nn.DropoutNode(nn.ImageNode("x"))
    node.result_state.export_from_graph = True
    x, states, buffer = floats(2, 3, 3, 1), [], queue().command_buffer()
    graph_of(node.result_image).encode_batch(buffer, [x], destination_states=states)
    with pytest.raises(DeviceError, match="has not completed"):
        left(back_of(), {"x": x, "g": x}, states)
    buffer.commit()
    buffer.wait_until_completed()
    left(back_of(), {"x": x, "g": x}, states)


def test_labels_in_use_by_pending_batch_raise():
    """Feeding the labels again would lose the losses of the pending batch."""
    loss = nn.LossNode(nn.ImageNode("x"), nn.LossDescriptor("mean_squared_error"))
    graph, on, x = graph_of(loss.result_image), queue(), floats(2, 1, 1, 3)
    for labels in (
        nn.LossLabelsBatch(np.zeros((2, 3), np.float32)),
        [nn.LossLabels(np.zeros(3, np.float32)) for _ in range(2)],
    ):
        first, second = on.command_buffer(), on.command_buffer()
        graph.encode_batch(first, [x], [labels])
        with pytest.raises(DeviceError, match="are in use by another batch"):
            graph.encode_batch(second, [x], [labels])
        first.commit()
        first.wait_until_completed()
        graph.encode_batch(second, [x], [labels])
        second.commit()
        second.wait_until_completed()


def test_update_returning_a_gradient_state_raises():
    """update() returns a state produced by this batch or by an earlier one."""
    kept: list[Any] = []

    class Wrong(Convolution):
        def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
            kept.append(gradient_state)
            return kept[0]

    source = Wrong(nn.ConvolutionDescriptor(1, 1, 1, 1), np.ones((1, 1, 1, 1), np.float32))
    node = nn.ConvolutionNode(nn.ImageNode("x"), source)
    graph = graph_of(node.gradient_filter(nn.ImageNode("g")).result_image)
    one = np.ones((1, 1, 1, 1), np.float32)
    for _ in range(2):
        with pytest.raises(GraphError, match=r"update\(\) returned a state computed by a batch"):
            run(graph, {"x": one, "g": one})


def test_passing_state_of_a_node_in_the_same_graph_raises():
    dropout = nn.DropoutNode(nn.ImageNode("x"))
    with pytest.raises(GraphError, match="create the gradient filter with gradient_filter"):
        nn.DropoutGradientNode(nn.ImageNode("g"), nn.ImageNode("x"), dropout.result_state)
    with pytest.raises(GraphError, match="gradient_state must be a StateNode"):
        nn.DropoutGradientNode(nn.ImageNode("g"), nn.ImageNode("x"), "mask")
