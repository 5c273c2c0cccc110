"""Networks of the workloads as ONNX models, built node by node, with int8 versions made by ONNX Runtime's quantizer.

ResNet-50 models are saved to build/bench/onnx, because other engines also read the model that ONNX Runtime quantized.
"""

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import workloads as sizes
from measuring import BENCH
from onnx import TensorProto, helper, numpy_helper

KEPT = BENCH.parent / "build" / "bench" / "onnx"
OPSET, IR_VERSION = 17, 8
CALIBRATION_BATCHES, CALIBRATION_BATCH = 4, 16
RNG = np.random.default_rng(0)


class Nodes:
    """A graph built node by node. Methods that add a node return the names of its outputs."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def all_of(self, kind: str, *inputs: str, results: int, **attributes: Any) -> list[str]:
        names = [f"t{len(self.nodes)}_{index}" for index in range(results)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.all_of(kind, *inputs, results=1, **attributes)[0]

    def model(self, inputs: dict[str, tuple[int, list[Any]]], outputs: dict[str, tuple[int, list[Any]]]) -> bytes:
        described = [
            [helper.make_tensor_value_info(name, *of) for name, of in side.items()] for side in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "workload", *described, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(model)
        return model.SerializeToString()


def uniform(shape: tuple[int, ...], fan: int) -> np.ndarray:
    bound = 1 / math.sqrt(fan)
    return RNG.uniform(-bound, bound, shape).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def images(batch: int) -> np.ndarray:
    return RNG.standard_normal((batch, 3, sizes.W2_IMAGE, sizes.W2_IMAGE), np.float32)


def resnet50() -> bytes:
    """Build W8: input "images" (N, 3, 32, 32), with separate batch normalizations."""
    g = Nodes()

    def convolution(x: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> str:
        weights = g.constant(uniform((outputs, inputs, kernel, kernel), kernel * kernel * inputs))
        pads = [1 if kernel == 3 else 0] * 4
        y = g.add("Conv", x, weights, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)
        gamma, beta = np.ones(outputs, np.float32), zeros(outputs)
        mean = RNG.normal(0, 0.1, outputs).astype(np.float32)
        variance = RNG.uniform(0.5, 1.5, outputs).astype(np.float32)
        return g.add("BatchNormalization", y, *map(g.constant, (gamma, beta, mean, variance)), epsilon=sizes.EPSILON)

    x = g.add("Relu", convolution("images", 3, sizes.W2_STEM, 7, 2))
    x, inputs = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2]), sizes.W2_STEM
    for within, behind, count, strides in sizes.W2_STAGES:
        for first in [True] + [False] * (count - 1):
            stride = strides if first else 1
            shortcut = convolution(x, inputs, behind, 1, stride) if first else x
            h = g.add("Relu", convolution(x, inputs, within, 1, stride))
            h = g.add("Relu", convolution(h, within, within, 3))
            x = g.add("Relu", g.add("Add", convolution(h, within, behind, 1), shortcut))
            inputs = behind
    weights, bias = g.constant(uniform((inputs, sizes.CLASSES), inputs)), g.constant(zeros(sizes.CLASSES))
    y = g.add("Gemm", g.add("Flatten", g.add("GlobalAveragePool", x)), weights, bias)
    shape = ["N", 3, sizes.W2_IMAGE, sizes.W2_IMAGE]
    return g.model({"images": (TensorProto.FLOAT, shape)}, {y: (TensorProto.FLOAT, ["N", sizes.CLASSES])})


def characters() -> bytes:
    """Build W7: (character, h, c) -> (logits / temperature, h, c). The caller draws the character."""
    g = Nodes()
    hidden, kind = sizes.W7_HIDDEN, TensorProto.FLOAT
    axis = g.constant(np.array([0], np.int64))
    table = g.constant(RNG.standard_normal((sizes.W7_CHARACTERS, sizes.W7_EMBEDDING), np.float32))
    x = g.add("Unsqueeze", g.add("Gather", table, "character", axis=0), axis)
    weights = [
        g.constant(uniform(shape, hidden))
        for shape in ((1, 4 * hidden, sizes.W7_EMBEDDING), (1, 4 * hidden, hidden), (1, 8 * hidden))
    ]
    _, h, c = g.all_of("LSTM", x, *weights, "", "h", "c", results=3, hidden_size=hidden)
    dense = g.constant(uniform((hidden, sizes.W7_CHARACTERS), hidden)), g.constant(zeros(sizes.W7_CHARACTERS))
    logits = g.add("Gemm", g.add("Squeeze", h, axis), *dense)
    logits = g.add("Div", logits, g.constant(np.array(sizes.W7_TEMPERATURE, np.float32)))
    state = (kind, [1, 1, hidden])
    return g.model(
        {"character": (TensorProto.INT64, [1]), "h": state, "c": state},
        {logits: (kind, [1, sizes.W7_CHARACTERS]), h: state, c: state},
    )


def gelu() -> bytes:
    """Build the forward pass of W5."""
    g = Nodes()

    def number(value: float) -> str:
        return g.constant(np.array(value, np.float32))

    erf = g.add("Erf", g.add("Mul", "x", number(1 / math.sqrt(2))))
    y = g.add("Mul", g.add("Mul", "x", number(0.5)), g.add("Add", erf, number(1)))
    whole = (TensorProto.FLOAT, list(sizes.W5_SHAPE))
    return g.model({"x": whole}, {y: whole})


def mobile() -> bytes:
    """Build MobileNetV3 small without squeeze-and-excite: input "x" (1, 3, 224, 224), separate batch normalizations."""
    g = Nodes()

    def convolution(x: str, inputs: int, outputs: int, kernel: int, stride: int, group: int = 1) -> str:
        weights = g.constant(uniform((outputs, inputs // group, kernel, kernel), kernel * kernel * inputs // group))
        pads = [kernel // 2] * 4
        y = g.add("Conv", x, weights, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group)
        gamma, beta, mean, variance = np.ones(outputs, np.float32), zeros(outputs), zeros(outputs), np.ones(outputs)
        of_channels = map(g.constant, (gamma, beta, mean, variance.astype(np.float32)))
        return g.add("BatchNormalization", y, *of_channels, epsilon=sizes.EPSILON)

    x, inputs = g.add("HardSwish", convolution("x", 3, sizes.BUSY_STEM, 3, 2)), sizes.BUSY_STEM
    for kernel, expanded, channels, stride, hard in sizes.BUSY_MOBILE:
        activation = "HardSwish" if hard else "Relu"
        h = g.add(activation, convolution(x, inputs, expanded, 1, 1))
        h = g.add(activation, convolution(h, expanded, expanded, kernel, stride, expanded))
        x, inputs = convolution(h, expanded, channels, 1, 1), channels
    x = g.add("HardSwish", convolution(x, inputs, sizes.BUSY_HEAD, 1, 1))
    weights = g.constant(uniform((sizes.BUSY_HEAD, sizes.BUSY_CLASSES), sizes.BUSY_HEAD))
    y = g.add("Gemm", g.add("Flatten", g.add("GlobalAveragePool", x)), weights, g.constant(zeros(sizes.BUSY_CLASSES)))
    image = [1, 3, sizes.BUSY_IMAGE, sizes.BUSY_IMAGE]
    return g.model({"x": (TensorProto.FLOAT, image)}, {y: (TensorProto.FLOAT, [1, sizes.BUSY_CLASSES])})


def text() -> bytes:
    """Build transformer layers as in BERT, but with ReLU: input "x" (1, words, width)."""
    g = Nodes()
    words, width, heads = sizes.BUSY_WORDS, sizes.BUSY_WIDTH, sizes.BUSY_HEADS
    apart = g.constant(np.array([1, words, heads, width // heads], np.int64))
    together = g.constant(np.array([1, words, width], np.int64))
    scale = g.constant(np.array((width // heads) ** -0.5, np.float32))

    def dense(x: str, inputs: int, outputs: int) -> str:
        product = g.add("MatMul", x, g.constant(uniform((inputs, outputs), inputs)))
        return g.add("Add", product, g.constant(zeros(outputs)))

    def normalized(x: str) -> str:
        return g.add("LayerNormalization", x, g.constant(np.ones(width, np.float32)), g.constant(zeros(width)))

    def of_heads(x: str, order: list[int]) -> str:
        return g.add("Transpose", g.add("Reshape", dense(x, width, width), apart), perm=order)

    x = "x"
    for _ in range(sizes.BUSY_LAYERS):
        query, value = of_heads(x, [0, 2, 1, 3]), of_heads(x, [0, 2, 1, 3])
        scores = g.add("Mul", g.add("MatMul", query, of_heads(x, [0, 2, 3, 1])), scale)
        seen = g.add("MatMul", g.add("Softmax", scores, axis=-1), value)
        seen = g.add("Reshape", g.add("Transpose", seen, perm=[0, 2, 1, 3]), together)
        x = normalized(g.add("Add", x, dense(seen, width, width)))
        x = normalized(g.add("Add", x, dense(g.add("Relu", dense(x, width, 4 * width)), 4 * width, width)))
    whole = (TensorProto.FLOAT, [1, words, width])
    return g.model({"x": whole}, {x: whole})


@functools.cache
def kept_resnet50(precision: str) -> Path:
    """Return the path of the model in float32 or int8, writing the file if it does not exist."""
    path = KEPT / f"resnet50_{precision}.onnx"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        if precision == "float32":
            path.write_bytes(resnet50())
        else:
            _quantize(kept_resnet50("float32"), path)
    return path


def _quantize(source: Path, path: Path) -> None:
    """Fold batch normalizations, then quantize statically: symmetric per-channel weights, unsigned activations."""
    import onnxruntime
    from onnxruntime import quantization

    folded = path.with_name("resnet50_folded.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = iter([{"images": images(CALIBRATION_BATCH)} for _ in range(CALIBRATION_BATCHES)])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.batches, None)

    unfinished = path.with_suffix(".part")
    quantization.quantize_static(
        folded,
        unfinished,
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    unfinished.rename(path)
