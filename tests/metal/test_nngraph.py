"""Test the parts of the legacy MPSNNGraph API that apply only to the Metal device: classes, order, faults, and leaks.

Results and gradients of all nodes are tested in tests/nngraph, which runs on both devices.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from harness.nodes import Convolution, close, graph_of, pool, queue, run
from mpsgraph import nngraph as nn

MOCK = device.mock()
MOCK.mock_live_objects.restype = ctypes.c_long
MOCK.mock_live_objects_by_class.restype = ctypes.c_char_p
MOCK.mock_live_buffer_bytes.restype = ctypes.c_size_t
MOCK.mock_autoreleases_without_pool.restype = ctypes.c_long

DESCRIPTOR = nn.ConvolutionDescriptor(3, 3, 4, 4)


def images(seed: int = 0, count: int = 2) -> np.ndarray:
    return pool(count, 5, 4, 4, seed=seed).astype(np.float32)


def trained(optimizer: Any, seed: int = 1) -> nn.TrainableConvolution:
    weights = pool(4, 3, 3, 4, seed=seed).astype(np.float32)
    return nn.TrainableConvolution(DESCRIPTOR, weights, bias_terms=False, optimizer=optimizer)


def training_graph(source: Any) -> nn.NNGraph:
    node = nn.ConvolutionNode(nn.ImageNode("x"), source)
    loss = nn.LossNode(node.result_image, nn.LossDescriptor("mean_squared_error", "sum"))
    last = loss.training_graph(None)[-1]
    return graph_of(last.result_image, False)


def classes() -> set[str]:
    lines = MOCK.mock_live_objects_by_class().decode().splitlines()
    return {line.partition(":")[0] for line in lines}


def test_node_graphs_call_apple_classes():
    graph = training_graph(trained(nn.Adam(1e-3)))
    labels = nn.LossLabelsBatch(images(3))
    buffer = queue().command_buffer()
    graph.encode_batch(buffer, [images()], [labels])
    alive = classes()
    assert {
        "MPSNNGraph",
        "MPSCNNConvolutionNode",
        "MPSCNNConvolutionGradientNode",
        "MPSCNNLossNode",
        "MpsgraphTrainedConvolutionSource",
    } <= alive
    buffer.commit()
    buffer.wait_until_completed()
    assert labels.losses.numpy().shape == (2, 1, 1, 1)


class Chained:
    """Two graphs with a convolution each, and their expected result."""

    def __init__(self) -> None:
        self.sources = [trained(None, seed) for seed in (1, 2)]
        nodes = [nn.ConvolutionNode(nn.ImageNode("x"), s) for s in self.sources]
        self.graphs = [graph_of(node.result_image) for node in nodes]

    def expected(self, x: np.ndarray) -> np.ndarray:
        for graph in self.graphs:
            (x,) = run(graph, {"x": x})
        return x


def test_pending_batch_can_be_input_of_the_next_graph():
    chain, x = Chained(), images()
    wanted = chain.expected(x)
    buffer = queue().command_buffer()
    middle = chain.graphs[0].encode_batch(buffer, [x])
    last = chain.graphs[1].encode_batch(buffer, [middle])
    buffer.commit()
    buffer.wait_until_completed()
    close(last.numpy(), wanted, 1e-6, "the second graph read what the first one wrote")


def test_node_graphs_and_core_graphs_run_in_encoding_order():
    """A compiled graph, nodes, and the compiled graph again: each reads what the previous one wrote."""
    chain, x = Chained(), images()
    g = mg.Graph()
    fed = g.placeholder(x.shape)
    twice = g.compile({fed: x.shape}, [fed * 2.0])
    buffer = queue().command_buffer()
    (doubled,) = twice.encode(buffer, [x])
    made = chain.graphs[0].encode_batch(buffer, [np.from_dlpack(doubled)])
    (again,) = twice.encode(buffer, [made.array])
    buffer.commit()
    buffer.wait_until_completed()
    (wanted,) = run(chain.graphs[0], {"x": 2 * x})
    close(np.from_dlpack(again), 2 * wanted, 1e-6, "in order")


def test_too_many_uncommitted_batches_raise():
    chain, x = Chained(), images(count=1)
    q = queue()
    held = [q.command_buffer() for _ in range(60)]
    with pytest.raises(mg.DeviceError, match="before encoding more"):
        for buffer in held:
            chain.graphs[0].encode_batch(buffer, [x])
    held.clear()
    gc.collect()
    buffer = q.command_buffer()
    result = chain.graphs[0].encode_batch(buffer, [x])
    buffer.commit()
    buffer.wait_until_completed()
    assert np.isfinite(result.numpy()).all()


def test_waiting_completes_batches_committed_behind_a_blocked_queue():
    """The caller has committed them, but the thread of the queue has not yet."""
    chain, x = Chained(), images(count=1)
    (wanted,) = run(chain.graphs[0], {"x": x})
    q, event = queue(), mg.SharedEvent()
    held = q.command_buffer()
    held.encode_wait_for_event(event, 1)
    held.commit()
    goes_on = threading.Timer(0.3, event.signal, [1])
    goes_on.start()
    made = []
    for _ in range(60):
        buffer = q.command_buffer()
        made.append(chain.graphs[0].encode_batch(buffer, [x]))
        buffer.commit()
    buffer.wait_until_completed()
    goes_on.join()
    for result in made:
        close(result.numpy(), wanted, 1e-6, "each batch")


def test_custom_update_can_only_encode_optimizers():
    g = mg.Graph()
    fed = g.placeholder((4, 3, 3, 4))
    half = g.compile({fed: (4, 3, 3, 4)}, [fed * 0.5])

    class Halves(Convolution):
        def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
            (made,) = half.encode(command_buffer, [gradient_state.array("weights").numpy()])
            return nn.ConvolutionWeightsAndBiasesState(np.from_dlpack(made))

    source = Halves(DESCRIPTOR, pool(4, 3, 3, 4).astype(np.float32))
    graph = training_graph(source)
    buffer = queue().command_buffer()
    with pytest.raises(mg.UnsupportedError, match="may only encode optimizer steps"):
        graph.encode_batch(buffer, [images()], [nn.LossLabelsBatch(images(3))])


class Descending(Convolution):
    """A custom update by plain gradient descent in memory of the caller, which the device does not own."""

    def __init__(self, rate: float) -> None:
        super().__init__(DESCRIPTOR, pool(4, 3, 3, 4, seed=1).astype(np.float32))
        self.optimizer = nn.StochasticGradientDescent(rate)
        self.mine = nn.ConvolutionWeightsAndBiasesState(self.arrays["weights"].copy())

    def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
        self.optimizer.encode(
            command_buffer,
            convolution_gradient_state=gradient_state,
            convolution_source_state=self.mine,
            result_state=self.mine,
        )
        return self.mine


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "staged"])
def test_custom_update_works_with_weights_in_caller_memory(shared: bool):
    """Three batches are encoded before the first has run; each must continue from the result of the previous one."""
    MOCK.mock_refuse_memory_of_others(0 if shared else 1)
    try:
        theirs, ours = Descending(1e-2), trained(nn.StochasticGradientDescent(1e-2))
        losses = []
        for source in (theirs, ours):
            graph, q = training_graph(source), queue()
            labels = [nn.LossLabelsBatch(images(3)) for _ in range(3)]
            buffers = [q.command_buffer() for _ in range(3)]
            for buffer, batch in zip(buffers, labels, strict=True):
                graph.encode_batch(buffer, [images()], [batch])
            for buffer in buffers:
                buffer.commit()
            buffers[-1].wait_until_completed()
            losses.append([batch.losses.numpy().sum() for batch in labels])
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
        assert losses[0][0] > losses[0][1] > losses[0][2]
        ours.load()
        close(theirs.mine.read("weights").numpy(), ours.weights(), 1e-5, "the weights")
    finally:
        MOCK.mock_refuse_memory_of_others(0)


def test_failed_encode_leaves_node_weights_unchanged():
    """The optimizer of the first source has already been encoded when the second source throws."""

    class Failing(Convolution):
        fails = True

        def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
            if self.fails:
                raise KeyError("no update")

    first, second = Descending(1e-5), Failing(DESCRIPTOR, pool(4, 3, 3, 4, seed=2).astype(np.float32))
    one = nn.ConvolutionNode(nn.ImageNode("x"), second)
    two = nn.ConvolutionNode(one.result_image, first)
    loss = nn.LossNode(two.result_image, nn.LossDescriptor("mean_squared_error", "sum"))
    graph = graph_of(loss.training_graph(None)[-1].result_image, False)

    def step() -> float:
        labels, buffer = nn.LossLabelsBatch(images(3)), queue().command_buffer()
        graph.encode_batch(buffer, [images()], [labels])
        buffer.commit()
        buffer.wait_until_completed()
        return float(labels.losses.numpy().sum())

    before = first.mine.array("weights").numpy().copy()
    with pytest.raises(KeyError, match="no update"):
        step()
    assert np.array_equal(first.mine.array("weights").numpy(), before)
    Failing.fails = False
    untrained = step()
    assert step() < untrained


def test_images_too_large_for_a_texture_raise():
    graph = graph_of(nn.NeuronReLUNode(nn.ImageNode("x")).result_image)
    buffer = queue().command_buffer()
    with pytest.raises(
        mg.UnsupportedError, match="8196 channels, but images on the Metal device have at most 16384x16384"
    ):
        graph.encode_batch(buffer, [np.zeros((1, 1, 1, 8196), np.float32)])
    with pytest.raises(mg.UnsupportedError, match="source image 'x' is 1x16385"):
        graph.encode_batch(buffer, [np.zeros((1, 1, 16385, 1), np.float32)])


def test_float16_images_round_intermediate_results():
    """Intermediate and input images are stored in float16."""
    x = nn.ImageNode("x")
    first = nn.NeuronLinearNode(x, a=1.0, b=1e-4)
    graph = graph_of([nn.NeuronLinearNode(first.result_image, a=1.0, b=0.0).result_image])
    graph.format = "float16"
    (found,) = run(graph, {"x": np.float16([[[[1.0, 2.0]]]])})
    assert found.dtype == np.float16
    assert found.ravel().tolist() == [1.0, 2.0], "float16 rounds 1.0001 to 1"


def test_node_graph_returns_exported_images_and_several_results():
    x = nn.ImageNode("x")
    plain, twice = nn.NeuronLinearNode(x, a=1.0, b=3.0), nn.NeuronLinearNode(x, a=2.0, b=0.0)
    both = nn.AdditionNode(plain.result_image, twice.result_image)
    twice.result_image.export_from_graph = True
    twice.result_image.handle = "twice"
    both.result_image.export_from_graph = True
    graph = graph_of([plain.result_image, both.result_image, twice.result_image], [False, True, True])
    buffer = queue().command_buffer()
    between: list[Any] = []
    results: list[Any] = []
    assert graph.encode_batch(buffer, [images()], (), between, results) is None
    buffer.commit()
    buffer.wait_until_completed()
    assert results[0] is None and len(between) == 2
    close(results[1].numpy(), 3 * images() + 3, 1e-6, "the sum")
    close(results[2].numpy(), 2 * images(), 1e-6, "twice")
    named = dict(zip(graph.intermediate_image_handles, between, strict=True))
    close(named["twice"].numpy(), 2 * images(), 1e-6, "the export")


@pytest.mark.parametrize("kind", ["optimizer", "update"])
def test_thousand_node_batches_do_not_leak_memory(kind: str):
    def train(steps: int) -> None:
        source = trained(nn.Adam(1e-4)) if kind == "optimizer" else Descending(1e-4)
        graph, q, free = training_graph(source), queue(), mg.Semaphore(2)
        x, y, losses = images(count=1), images(3, count=1), []
        for _ in range(steps):
            free.wait(10)
            labels, buffer = nn.LossLabelsBatch(y), q.command_buffer()
            graph.encode_batch(buffer, [x], [labels])
            buffer.add_completed_handler(lambda done: free.signal())
            buffer.commit()
            if not losses:
                buffer.wait_until_completed()
                losses.append(labels.losses.numpy().sum())
        buffer.wait_until_completed()
        assert labels.losses.numpy().sum() < losses[0]

    train(5)
    gc.collect()
    MOCK.mock_wait_until_idle(ctypes.c_double(10))
    objects, buffers = MOCK.mock_live_objects(), MOCK.mock_live_buffer_bytes()
    train(1000)
    gc.collect()
    MOCK.mock_wait_until_idle(ctypes.c_double(10))
    assert MOCK.mock_live_objects() <= objects + 5, MOCK.mock_live_objects_by_class().decode()
    assert MOCK.mock_live_buffer_bytes() <= buffers + 4096
    assert MOCK.mock_autoreleases_without_pool() == 0


def test_exporting_states_to_another_graph_raises():
    x, g = nn.ImageNode("x"), nn.ImageNode("g")
    dropout, convolution = nn.DropoutNode(x), nn.ConvolutionNode(x, trained(None))
    for node in (dropout, convolution):
        node.result_state.export_from_graph = True
    with pytest.raises(mg.UnsupportedError, match="cannot export states yet"):
        graph_of(dropout.result_image)
    with pytest.raises(mg.UnsupportedError, match="cannot export states yet"):
        graph_of(convolution.gradient_filter(g).result_image)
    with pytest.raises(mg.UnsupportedError, match="cannot read states yet"):
        graph_of(nn.DropoutGradientNode(g, x, nn.StateNode("mask")).result_image)
    convolution.result_state.export_from_graph = False
    undoing = nn.ConvolutionTransposeNode(g, trained(None), convolution_gradient_state=convolution.result_state)
    with pytest.raises(mg.UnsupportedError, match="cannot read states yet"):
        graph_of(undoing.result_image)
