"""An ONNX file of ResNet-50 as other tools publish it: torchvision's network as exported by PyTorch.

It has channels first, strides in the 3 x 3 convolutions, batch normalization folded into weights and biases, and a
dynamic batch size. Weights are random, because they do not affect the start-up time.
"""

from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

OPSET, IR_VERSION, CLASSES = 17, 8, 1000
# Inner channels, number of blocks, stride of the first block.
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


def published_resnet50(image: int) -> bytes:
    """Return the bytes of the file. Input "input" is (N, 3, image, image), output "output" (N, 1000)."""
    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    initializers: list[Any] = []

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"/{kind}_{len(nodes)}_output_0"], **attributes))
        return nodes[-1].output[0]

    def drawn(shape: tuple[int, ...], scale: float, name: str) -> str:
        initializers.append(numpy_helper.from_array((rng.standard_normal(shape) * scale).astype(np.float32), name))
        return name

    def convolution(x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, scale: float = 1.0) -> str:
        name = f"onnx::Conv_{len(initializers)}"
        weights = drawn((outputs, inputs, kernel, kernel), scale * np.sqrt(2 / (inputs * kernel**2)), name)
        biases = drawn((outputs,), 0.1, f"{name}_bias")
        return add(
            "Conv", x, weights, biases, dilations=[1, 1], group=1, kernel_shape=[kernel] * 2,
            pads=[kernel // 2] * 4, strides=[stride] * 2,
        )  # fmt: skip

    x, inputs = add("Relu", convolution("input", 3, 64, 7, 2)), 64
    x = add("MaxPool", x, ceil_mode=0, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    for within, count, first_stride in STAGES:
        for block in range(count):
            stride = 1 if block else first_stride
            y = add("Relu", convolution(x, inputs, within, 1))
            y = add("Relu", convolution(y, within, within, 3, stride))
            y = convolution(y, within, 4 * within, 1, scale=0.25)
            x = add("Relu", add("Add", y, x if block else convolution(x, inputs, 4 * within, 1, stride)))
            inputs = 4 * within
    x = add("Flatten", add("GlobalAveragePool", x), axis=1)
    weights, biases = drawn((CLASSES, inputs), 0.02, "fc.weight"), drawn((CLASSES,), 0.1, "fc.bias")
    nodes.append(helper.make_node("Gemm", [x, weights, biases], ["output"], alpha=1.0, beta=1.0, transB=1))
    described = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])]
        for name, shape in (("input", [3, image, image]), ("output", [CLASSES]))
    ]
    graph = helper.make_graph(nodes, "main_graph", *described, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    checker.check_model(model)
    return model.SerializeToString()
