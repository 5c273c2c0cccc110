"""Every layer of docs/layers.md as an ONNX file: the checker's consent, ONNX's own numbers, and back again.

Numbers are held against the package onnx's reference evaluator, which knows nothing of ours. Sizes of the batch, and of
the image or the sequence, stay open: each model runs at two of them.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.exports import listed, what_outputs_need, without_description
from mpsgraph import nn
from onnx.reference import ReferenceEvaluator

IMAGES = (-1, -1, -1, 4)
SEQUENCE = (-1, -1, 4)
VOLUME = (-1, -1, -1, -1, 4)


def layer(make, *shapes, sizes=(8, 10), dtype="float32", label=""):
    return pytest.param(make, shapes, sizes, dtype, id=label or type(make()).__name__)


ACTIVATIONS = (
    "ReLU ReLU6 LeakyReLU PReLU ELU CELU SELU GELU SiLU Swish Mish Sigmoid LogSigmoid Tanh Softplus Softsign "
    "Tanhshrink GLU Softmax LogSoftmax Softmin Hardtanh Hardsigmoid Hardswish Hardshrink Softshrink Identity Dropout"
).split()

LAYERS = [
    *(layer(getattr(nn, name), SEQUENCE) for name in ACTIVATIONS),
    layer(lambda: nn.GELU("tanh"), SEQUENCE, label="GELU-tanh"),
    layer(lambda: nn.Threshold(0.1, 2.0), SEQUENCE),
    layer(lambda: nn.Linear(3), SEQUENCE),
    layer(lambda: nn.Conv1d(3, 3), SEQUENCE),
    layer(lambda: nn.Conv2d(3, 3), IMAGES),
    layer(lambda: nn.Conv2d(3, 3, strides=2, padding="TF_SAME"), (-1, 8, 8, 4), sizes=(8,), label="Conv2d-same"),
    layer(lambda: nn.Conv2d(4, 3, groups=2, dilations=2, padding=((2, 1), (0, 2))), IMAGES, label="Conv2d-groups"),
    layer(lambda: nn.Conv2d(3, 3, data_layout="NCHW"), (-1, 4, -1, -1), label="Conv2d-NCHW"),
    layer(lambda: nn.Conv3d(3, 3), VOLUME, sizes=(5, 6)),
    layer(lambda: nn.ConvTranspose1d(3, 3), SEQUENCE),
    layer(lambda: nn.ConvTranspose2d(3, 3), IMAGES),
    layer(lambda: nn.ConvTranspose2d(3, 4, strides=2, padding="TF_SAME"), IMAGES, label="ConvTranspose2d-same"),
    layer(lambda: nn.ConvTranspose2d(3, 3, strides=2), (-1, 8, 8, 4), sizes=(8,), label="ConvTranspose2d-known"),
    layer(lambda: nn.ConvTranspose3d(3, 3), VOLUME, sizes=(3, 4)),
    layer(lambda: nn.DepthwiseConv2d(3), IMAGES),
    layer(lambda: nn.SeparableConv2d(5, 3), IMAGES),
    layer(lambda: nn.Unfold(3), IMAGES),
    layer(lambda: nn.Fold((8, 8), 2), (-1, 49, 16), sizes=(8,)),
    layer(lambda: nn.MaxPool1d(2), SEQUENCE),
    layer(lambda: nn.MaxPool2d(2), IMAGES),
    layer(lambda: nn.MaxPool3d(2), VOLUME, sizes=(4, 6)),
    layer(lambda: nn.AvgPool1d(2), SEQUENCE),
    layer(lambda: nn.AvgPool2d(2), IMAGES),
    layer(lambda: nn.AvgPool3d(2), VOLUME, sizes=(4, 6)),
    layer(lambda: nn.AdaptiveAvgPool2d(3), (-1, 8, 8, 4), sizes=(8,)),
    layer(lambda: nn.GlobalAveragePooling2d(), IMAGES),
    layer(lambda: nn.Upsample(scale_factor=2), (-1, 8, 8, 4), sizes=(8,)),
    layer(lambda: nn.Upsample(16), IMAGES, label="Upsample-open"),
    layer(lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"), (-1, 8, 8, 4), sizes=(8,), label="Upsample-factor"),
    layer(lambda: nn.Upsample(16, mode="bilinear"), IMAGES, label="Upsample-bilinear"),
    layer(lambda: nn.Upsample(15, mode="bilinear", align_corners=True), IMAGES, label="Upsample-corners"),
    layer(lambda: nn.PixelShuffle(2), IMAGES),
    layer(lambda: nn.PixelUnshuffle(2), IMAGES),
    layer(lambda: nn.ZeroPad2d(1), IMAGES),
    layer(lambda: nn.ReflectionPad2d(1), IMAGES),
    layer(lambda: nn.ReplicationPad2d(1), IMAGES),
    layer(lambda: nn.BatchNorm(), IMAGES),
    layer(lambda: nn.LayerNorm(), SEQUENCE),
    layer(lambda: nn.RMSNorm(), SEQUENCE),
    layer(lambda: nn.GroupNorm(2), IMAGES),
    layer(lambda: nn.InstanceNorm(), IMAGES),
    layer(lambda: nn.RNN(3), SEQUENCE),
    layer(lambda: nn.LSTM(3), SEQUENCE),
    layer(lambda: nn.GRU(3), SEQUENCE),
    layer(lambda: nn.RNN(3, bidirectional=True), SEQUENCE, label="RNN-both"),
    layer(lambda: nn.LSTM(3, bidirectional=True), SEQUENCE, label="LSTM-both"),
    layer(lambda: nn.GRU(3, bidirectional=True), SEQUENCE, label="GRU-both"),
    layer(lambda: nn.Embedding(10, 4), (-1, -1), dtype="int32"),
    layer(lambda: nn.MultiheadAttention(4, 2), SEQUENCE),
    layer(lambda: nn.PositionalEncoding(20), SEQUENCE),
    layer(lambda: nn.TransformerEncoderLayer(4, 2, 16), SEQUENCE),
    layer(lambda: nn.TransformerDecoderLayer(4, 2, 16), SEQUENCE, SEQUENCE),
    layer(lambda: nn.SpatialDropout(), IMAGES),
    layer(lambda: nn.RandomFlip(), IMAGES),
    layer(lambda: nn.RandomCrop(6, 1), (-1, 8, 8, 4), sizes=(8,)),
    layer(lambda: nn.RandomRotation(9), IMAGES),
    layer(lambda: nn.ColorJitter(0.1), IMAGES),
    layer(lambda: nn.Cutout(2), IMAGES),
    layer(lambda: nn.Flatten(), (-1, 8, 8, 4), sizes=(8,)),
    layer(lambda: nn.Unflatten((2, 2)), (-1, 4)),
]


def values_like(shapes, size, dtype, batch):
    rng = np.random.default_rng(size)
    filled = [[batch if axis == 0 and n < 0 else size if n < 0 else n for axis, n in enumerate(s)] for s in shapes]
    if dtype == "int32":
        return [rng.integers(0, 10, shape).astype(np.int32) for shape in filled]
    return [rng.normal(size=shape).astype(np.float32) for shape in filled]


def built(make, shapes, dtype):
    """A layer with variables that are not their first values."""
    module, graph = make().eval(), mg.Graph(seed=3)
    module(*(graph.placeholder(shape, dtype) for shape in shapes))
    rng = np.random.default_rng(1)
    state = {path: rng.uniform(0.5, 1.5, v.shape).astype(v.dtype) * 0.4 for path, v in module.state_dict().items()}
    module.load_state_dict(state)
    return module, state


@pytest.mark.parametrize(("make", "shapes", "sizes", "dtype"), LAYERS)
def test_layers(make, shapes, sizes, dtype):
    module, state = built(make, shapes, dtype)
    proto = mg.onnx.export(module, inputs={f"x{i}": (shape, dtype) for i, shape in enumerate(shapes)})
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    for path, value in state.items():
        np.testing.assert_array_equal(stored[path], value, err_msg=path)
    back, plain = mg.onnx.load(proto), mg.onnx.load(without_description(proto))
    for read in (back, plain):
        assert set(state) == set(read.parameters), "weights keep their names"
        assert {t.name for t in read.graph.trainable_variables} == {name for name, _ in module.named_parameters()}
        assert [tuple(t.shape) for t in read.inputs.values()] == [tuple(s) for s in shapes], "unknown sizes stay unknown"
    reference = ReferenceEvaluator(proto)
    both = getattr(module, "directions", 1) == 2
    graph, twin = mg.Graph(), make().eval()
    placeholders = [graph.placeholder(shape, dtype) for shape in shapes]
    twin.load_state_dict(state)
    result = twin(*placeholders)
    for size, batch in zip(sizes, (2, 3), strict=False):
        arrays = values_like(shapes, size, dtype, batch)
        wanted = graph.run(dict(zip(placeholders, arrays, strict=True)), result).numpy()
        feeds = {f"x{i}": array for i, array in enumerate(arrays)}
        if not both:  # onnx's reference has layers of one direction only
            np.testing.assert_allclose(reference.run(None, feeds)[0], wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(plain(*arrays).numpy(), wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(back(*arrays).numpy(), wanted)
    assert listed(back.graph.operations) == what_outputs_need({"output": result})


def test_all_that_cannot_be_said_is_named_and_nothing_is_written(tmp_path):
    g = mg.Graph()
    x = g.placeholder((2, 3), name="x")
    y = g.matrix_inverse(x[:, :2], name="first") + g.bitwise_population_count(x, name="second")
    path = tmp_path / "model.onnx"
    with pytest.raises(mg.errors.UnsupportedError, match="(?s)2 operations.*'first'.*'second'"):
        mg.onnx.export(g, path, inputs={"x": x}, outputs={"y": y})
    assert not list(tmp_path.iterdir())
    with pytest.raises(mg.errors.UnsupportedError, match="'x'.*is no input"):
        mg.onnx.export(g, inputs={}, outputs={"y": x + 1})
    with pytest.raises(mg.errors.UnsupportedError, match="opset 17"):
        mg.onnx.export(g, path, 17, inputs={"x": x}, outputs={"y": x})


@pytest.mark.parametrize("opset", [18, 21, 23])
def test_the_import_of_a_graph_with_channels_in_front_is_the_same_graph(opset, tmp_path):
    g = mg.Graph()
    x = g.placeholder((-1, 3, 8, 8), name="images")
    w = g.variable(np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32), name="weights")
    y = g.relu(g.convolution2d(x, w, data_layout="NCHW", weights_layout="OIHW"))
    mg.onnx.export(mg.Model(g, {"images": x}, {"features": y}), tmp_path / "model.onnx", opset)
    back = mg.onnx.load(tmp_path / "model.onnx")

    def kinds(graph):
        return sorted(operation.kind for operation in graph.operations)

    assert kinds(back.graph) == kinds(g)
    assert (
        list(back.inputs) == ["images"] and list(back.outputs) == ["features"] and list(back.parameters) == ["weights"]
    )
    again = mg.onnx.export(back, opset=opset)
    assert [n.op_type for n in again.graph.node] == [n.op_type for n in onnx.load(tmp_path / "model.onnx").graph.node]


def test_a_branch_sees_what_is_outside():
    g = mg.Graph()
    flag, x = g.placeholder((), "bool", "flag"), g.placeholder((-1,), name="x")
    y = g.if_(flag, lambda: x * g.constant([2.0]), lambda: x - 1.0)[0]
    proto = mg.onnx.export(g, inputs={"flag": flag, "x": x}, outputs={"y": y})
    for value, wanted in ((True, [2, 4]), (False, [0, 1])):
        result = ReferenceEvaluator(proto).run(None, {"flag": np.array(value), "x": np.float32([1, 2])})
        assert result[0].tolist() == wanted


def test_moving_averages_come_back_untrained():
    model = mg.nn.Sequential(mg.nn.BatchNorm())
    back = mg.onnx.load(mg.onnx.export(model, inputs={"x": (-1, 5)}))
    assert len(back.parameters) == 4 and len(back.graph.trainable_variables) == 2
