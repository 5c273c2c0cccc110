"""Test errors for invalid use of node graphs.

Each error has a specific type and names the node and its source line. After an error, weights are unchanged and no
memory has leaked.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness.device import mg
from harness.nodes import Convolution, Normalization, graph_of, pool, queue, run
from mpsgraph import DeviceError, DTypeError, GraphError, OutOfRangeError, ShapeError, UnsupportedError, _core
from mpsgraph import nngraph as nn

pytestmark = pytest.mark.both_devices

HERE = r"made at .*test_bad_input\.py:\d+"


def source(ins: int = 2, outs: int = 2, size: int = 1, **changes: Any) -> Convolution:
    d = nn.ConvolutionDescriptor(size, size, ins, outs)
    made = Convolution(d, pool(*d.weights_shape).astype(np.float32), np.zeros(outs, np.float32))
    made.arrays |= changes
    return made


def images(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def x() -> Any:
    return nn.ImageNode("x")


def result_of(node: Any, *shape: int) -> None:
    graph = graph_of(node.result_image)
    run(graph, dict.fromkeys(graph.source_image_handles, images(*shape)))


SIZES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "channels of a convolution": (lambda: nn.ConvolutionNode(x(), source(3), label="me"), (1, 2, 2, 2)),
    "channels of a transposed one": (lambda: nn.ConvolutionTransposeNode(x(), source(3), label="me"), (1, 2, 2, 2)),
    "channels of a normalization": (
        lambda: nn.InstanceNormalizationNode(x(), Normalization(3), label="me"),
        (1, 2, 2, 2),
    ),
    "groups": (lambda: nn.GroupNormalizationNode(x(), Normalization(4, groups=3), label="me"), (1, 2, 2, 4)),
    "fully connected": (lambda: nn.FullyConnectedNode(x(), source(2, 2, 3), label="me"), (1, 2, 3, 2)),
    "no window": (lambda: nn.ConvolutionNode(x(), source(2, 2, 5), padding_policy="valid", label="me"), (1, 3, 3, 2)),
    "windows outside": (
        lambda: nn.PoolingMaxNode(x(), 2, padding_policy=nn.PaddingPolicy(padding=(3, 0, 0, 0)), label="me"),
        (1, 4, 4, 1),
    ),
    "slopes": (lambda: nn.NeuronPReLUNode(x(), [1, 2, 3], label="me"), (1, 2, 2, 2)),
    "reshape": (
        lambda: nn.ReshapeNode(x(), result_width=3, result_height=1, result_feature_channels=1, label="me"),
        (1, 2, 2, 1),
    ),
    "sizes of a sum": (lambda: nn.AdditionNode(x(), nn.PoolingMaxNode(x(), 2).result_image, label="me"), (1, 4, 4, 1)),
    "sizes of a concatenation": (
        lambda: nn.ConcatenationNode([x(), nn.PoolingMaxNode(x(), 2).result_image], label="me"),
        (1, 4, 4, 1),
    ),
    "an incoming gradient": (
        lambda: nn.PoolingMaxNode(x(), 2, label="me").gradient_filter(x()),
        (1, 4, 4, 1),
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_mismatched_size_errors_name_the_node_and_its_source_line(name: str):
    make, shape = SIZES[name]
    with pytest.raises(ShapeError, match=rf"'me'.*{HERE}"):
        result_of(make(), *shape)


MADE: dict[str, Callable[[], Any]] = {
    "a filter as source": lambda: nn.NeuronTanHNode(nn.NeuronTanHNode(x())),
    "an array as source": lambda: nn.NeuronTanHNode(images(1, 1, 1, 1)),
    "no sources": lambda: nn.ConcatenationNode([]),
    "no data source": lambda: nn.ConvolutionNode(x(), None),
    "a data source without load": lambda: nn.ConvolutionNode(x(), object()),
    "another kind of data source": lambda: nn.ConvolutionNode(x(), nn.TrainableNormalization(2)),
    "an unknown attribute": lambda: nn.SpatialNormalizationNode(x(), kernel=3),
    "a missing attribute": lambda: nn.UpsamplingNearestNode(x(), integer_scale_factor_x=2),
    "a factor of zero": lambda: nn.UpsamplingNearestNode(x(), integer_scale_factor_x=2, integer_scale_factor_y=0),
    "a stride of zero": lambda: nn.PoolingMaxNode(x(), 2, 0),
    "a kernel of zero": lambda: nn.CrossChannelNormalizationNode(x(), kernel_size=0),
    "strides of two": lambda: nn.AdditionNode(x(), x(), primary_stride=(2, 1, 1)),
    "negative padding": lambda: nn.PadNode(x(), (-1, 0, 0), (0, 0, 0)),
    "an edge mode": lambda: nn.PadNode(x(), (1, 0, 0), (0, 0, 0), "wrap"),
    "a comparison": lambda: nn.ComparisonNode(x(), x(), "about"),
    "a loss type": lambda: nn.LossNode(x(), nn.LossDescriptor("squared")),
    "a reduction": lambda: nn.LossNode(x(), nn.LossDescriptor("log", "max")),
    "a mean of cosine distances": lambda: nn.LossNode(x(), nn.LossDescriptor("cosine_distance", "mean")),
    "smoothing of one": lambda: nn.LossNode(x(), nn.LossDescriptor("log", label_smoothing=1.0)),
    "no classes": lambda: nn.LossNode(x(), nn.LossDescriptor("log", number_of_classes=0)),
    "flags": lambda: nn.BatchNormalizationNode(x(), nn.TrainableNormalization(2), flags="sometimes"),
    "a precision": lambda: nn.ConvolutionNode(x(), source(), accumulator_precision="float8"),
}


@pytest.mark.parametrize("name", MADE)
def test_invalid_node_arguments_raise(name: str):
    with pytest.raises(GraphError) as raised:
        MADE[name]()
    if "source" not in name and "unknown" not in name:
        assert "test_bad_input.py:" in str(raised.value)


def test_errors_name_gradient_filters_by_own_or_forward_label():
    gradient = nn.NeuronReLUNode(x(), label="me").gradient_filter(x())
    for label, title in (("mine", "'mine'"), ("", "'me'")):
        gradient.label = label
        with pytest.raises(UnsupportedError, match=rf"\[neuron_relu gradient {title}\]"):
            gradient.gradient_filter(x())


POLICIES: dict[str, tuple[type[Exception], Any]] = {
    "a name": (GraphError, "symmetric"),
    "a size": (GraphError, nn.PaddingPolicy("larger")),
    "an alignment": (GraphError, nn.PaddingPolicy("same", "left")),
    "a remainder": (GraphError, nn.PaddingPolicy("same", "centered", "left")),
    "three numbers": (ShapeError, nn.PaddingPolicy(padding=(1, 1, 1))),
    "a negative number": (ShapeError, nn.PaddingPolicy(padding=(1, 1, -1, 1))),
}


@pytest.mark.parametrize("name", POLICIES)
def test_invalid_padding_policies_raise(name: str):
    error, policy = POLICIES[name]
    with pytest.raises(error):
        nn.PoolingMaxNode(x(), 2, padding_policy=policy)
    node = nn.NeuronTanHNode(x(), label="me")
    with pytest.raises(GraphError, match="'me'.*no windows"):
        node.padding_policy = "same"


PARAMETERS: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "too many": (ShapeError, "weights must have shape", {"weights": np.zeros((2, 1, 1, 3), np.float32)}),
    "flat": (ShapeError, "weights must have shape", {"weights": np.zeros(4, np.float32)}),
    "of another type": (
        DTypeError,
        "weights must be float32 or float16, got int32",
        {"weights": np.zeros((2, 1, 1, 2), np.int32)},
    ),
    "float64": (DTypeError, "weights must be float32 or float16, got float64", {"weights": np.zeros((2, 1, 1, 2))}),
    "none": (GraphError, "must provide weights", {"weights": None}),
    "biases": (ShapeError, "biases must have shape", {"biases": np.zeros(3, np.float32)}),
    "half biases": (DTypeError, "biases must be float32, got float16", {"biases": np.zeros(2, np.float16)}),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_wrong_size_or_dtype_raise(name: str):
    error, message, changes = PARAMETERS[name]
    node = nn.ConvolutionNode(x(), source(**changes), label="me")
    with pytest.raises(error, match=rf"'me'.*{HERE}.*{message}"):
        graph_of(node.result_image)
    fine = source()
    graph = graph_of(nn.ConvolutionNode(x(), fine, label="me").result_image)
    (before,) = run(graph, {"x": images(1, 1, 1, 2)})
    fine.arrays |= changes
    with pytest.raises(error, match=rf"'me'.*{message}"):
        graph.reload_from_data_sources()
    np.testing.assert_array_equal(run(graph, {"x": images(1, 1, 1, 2)})[0], before)


@pytest.mark.parametrize("answer", [False, None, 1, "yes"])
def test_load_method_not_returning_true_raises(answer: Any):
    refuses = source()
    refuses.load = lambda: answer
    with pytest.raises(GraphError, match=r"load\(\)"):
        graph_of(nn.ConvolutionNode(x(), refuses, label="me").result_image)


def test_missing_convolution_descriptor_raises():
    nothing = source()
    nothing.given = None
    with pytest.raises(GraphError, match="must be a ConvolutionDescriptor, got None"):
        graph_of(nn.ConvolutionNode(x(), nothing).result_image)


@pytest.mark.parametrize(
    "options", [{"groups": 2}, {"kernel_width": 0}, {"stride_in_pixels_x": 0}, {"depthwise": True, "groups": 1}]
)
def test_inconsistent_convolution_descriptors_raise(options: dict[str, Any]):
    given = {
        "kernel_width": 1,
        "kernel_height": 1,
        "input_feature_channels": 3,
        "output_feature_channels": 2,
        **options,
    }
    with pytest.raises((ShapeError, GraphError)):
        nn.TrainableConvolution(nn.ConvolutionDescriptor(**given), np.zeros((2, 1, 1, 3), np.float32))


class TestGraphs:
    def test_invalid_graph_results_raise(self):
        for result, message in [
            (None, "ImageNode"),
            ([], "needs at least one result image"),
            (x(), "produced by a filter"),
        ]:
            with pytest.raises(GraphError, match=message):
                graph_of(result)
        node = nn.NeuronTanHNode(x())
        with pytest.raises(GraphError, match=r"one entry per result image \(1\), got 2"):
            graph_of(node.result_image, [True, False])
        with pytest.raises(GraphError):
            graph_of(node)

    def test_training_graph_without_trainable_layer_raises(self):
        frozen = nn.TrainableConvolution(nn.ConvolutionDescriptor(1, 1, 2, 2))
        loss = nn.LossNode(nn.ConvolutionNode(x(), frozen).result_image, nn.LossDescriptor("log"))
        ends = [f.result_image for f in loss.training_graph(None)]
        with pytest.raises(GraphError, match=f"no layer.*trains.*{HERE}"):
            graph_of(ends, False)
        graph_of(ends, True)  # This graph requests the gradients.
        graph_of(loss.result_image, False)  # This graph requests the losses.

    def test_mismatched_image_batches_raise(self):
        left, right = nn.ImageNode("left"), nn.ImageNode("right")
        graph = graph_of(nn.AdditionNode(left, right, label="sum").result_image)
        buffer = queue().command_buffer()
        one = images(1, 2, 2, 1)
        for error, batches in [
            (GraphError, [one]),
            (GraphError, [one, one, one]),
            (GraphError, one),
            (ShapeError, [one, images(2, 2, 2, 1)]),
            (ShapeError, [one, images(1, 2, 3, 1)]),
            (ShapeError, [one, images(2, 2, 1)]),
            (ShapeError, [one, images(0, 2, 2, 1)]),
            (DTypeError, [one, one.astype(np.float64)]),
            (DTypeError, [one, one.astype(np.int32)]),
        ]:
            with pytest.raises(error):
                graph.encode_batch(buffer, batches)
        with pytest.raises(GraphError, match="batches of labels"):
            graph.encode_batch(buffer, [one, one], [nn.LossLabelsBatch(images(1, 1))])
        with pytest.raises(TypeError):
            graph.encode_batch(None, [one, one])

    def test_encoding_to_committed_command_buffer_raises(self):
        graph = graph_of(nn.NeuronTanHNode(x()).result_image)
        buffer = queue().command_buffer()
        buffer.commit()
        with pytest.raises(mg.Error):
            graph.encode_batch(buffer, [images(1, 1, 1, 1)])
        buffer.wait_until_completed()

    def test_mismatched_labels_raise(self):
        loss = nn.LossNode(x(), nn.LossDescriptor("mean_squared_error"), label="me")
        graph = graph_of(loss.result_image)
        y = images(3, 2, 2, 2)
        with pytest.raises(GraphError, match="number of batches of labels or source states must be 1"):
            run(graph, {"x": y})
        with pytest.raises(OutOfRangeError, match="labels for 3 images, got labels for 2"):
            run(graph, {"x": y}, [nn.LossLabelsBatch(images(2, 2, 2, 2))])
        for bad in (images(3, 2, 2, 3), images(3, 1, 2, 2), images(3, 2)):
            with pytest.raises(ShapeError, match=f"'me'.*labels must have the shape of the images.*{HERE}"):
                run(graph, {"x": y}, [nn.LossLabelsBatch(bad)])
        with pytest.raises(ShapeError, match=f"'me'.*weights must have the shape of the images.*{HERE}"):
            run(graph, {"x": y}, [nn.LossLabelsBatch(y, images(3, 2, 1, 2))])

    def test_batch_larger_than_memory_raises(self):
        graph = graph_of(nn.NeuronTanHNode(x()).result_image)
        many = np.broadcast_to(np.float32(1), (2**40, 1024, 1, 1))
        with pytest.raises((mg.Error, MemoryError)):
            run(graph, {"x": many})

    def test_reading_state_before_completion_raises(self):
        layer = source()
        node = nn.ConvolutionNode(x(), layer)
        gradient = node.gradient_filter(nn.ImageNode("g"))
        graph = graph_of(gradient.result_image)
        buffer = queue().command_buffer()
        graph.encode_batch(buffer, [images(1, 1, 1, 2)] * 2)
        with pytest.raises(DeviceError, match="has not completed"):
            layer.state.read("weights")
        buffer.commit()
        buffer.wait_until_completed()
        layer.state.read("weights")


class Fails(Convolution):
    def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> None:
        raise ValueError("on purpose")


def training(layer: Any, optimizer: Any) -> nn.NNGraph:
    first = nn.ConvolutionNode(x(), nn.TrainableConvolution(nn.ConvolutionDescriptor(1, 1, 2, 2), optimizer=optimizer))
    last = nn.ConvolutionNode(first.result_image, layer)
    loss = nn.LossNode(last.result_image, nn.LossDescriptor("mean_squared_error"))
    return graph_of([f.result_image for f in loss.training_graph(None)])


def live() -> int:
    gc.collect()
    return int(_core.buffer_statistics()["live_bytes"])


def test_failing_batches_do_not_leak_memory():
    optimizer = nn.Adam()
    graph = training(Fails(nn.ConvolutionDescriptor(1, 1, 2, 2), np.ones((2, 1, 1, 2), np.float32)), optimizer)
    on, labels = queue(), nn.LossLabelsBatch(images(2, 4, 4, 2))

    def batch() -> None:
        buffer = on.command_buffer()
        with pytest.raises(ValueError, match="on purpose"):
            graph.encode_batch(buffer, [images(2, 4, 4, 2)], [labels])
        buffer.commit()
        buffer.wait_until_completed()

    for _ in range(3):
        batch()
    before = live()
    for _ in range(1000):
        batch()
    assert live() <= before
    assert optimizer.time_step == 0


def test_thousand_batches_do_not_leak_memory():
    optimizer = nn.Adam()
    layer = nn.TrainableConvolution(nn.ConvolutionDescriptor(1, 1, 2, 2), optimizer=optimizer)
    graph = training(layer, optimizer)
    on, labels = queue(), nn.LossLabelsBatch(images(2, 4, 4, 2))

    def batch() -> None:
        buffer = on.command_buffer()
        graph.encode_batch(buffer, [images(2, 4, 4, 2)], [labels])
        buffer.commit()
        buffer.wait_until_completed()

    for _ in range(3):
        batch()
    before = live()
    for _ in range(1000):
        batch()
    assert live() <= before
    assert optimizer.time_step == 1003


def test_unreferenced_graphs_and_nodes_are_freed():
    def make() -> None:
        graph = training(nn.TrainableConvolution(nn.ConvolutionDescriptor(1, 1, 2, 2)), nn.Adam())
        run(graph, {"x": images(2, 4, 4, 2)}, [nn.LossLabelsBatch(images(2, 4, 4, 2))])

    for _ in range(3):
        make()
    before = live()
    for _ in range(20):
        make()
    assert live() <= before
