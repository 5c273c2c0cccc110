"""Translations of com.microsoft operators on 8-bit integers, which ONNX Runtime's quantizer writes.

Products of integers are summed exactly and multiplied by the scale once. All other operations are computed in float32
between dequantization and quantization, which the compiler fuses into integer kernels where possible.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._core import DType, Tensor, float32, int32, uint8
from ...errors import GraphError, UnsupportedError
from ..building.node import MICROSOFT, Node, Results, operator
from ._operands import WithOperands
from .linear import matmul_of_bytes
from .pooling import average_pool
from .quantization import dequantize_linear, quantize_linear, quantized_convolution
from .recurrent import known_activations
from .recurrent_integers import LayersOfIntegers


def _real(node: Node, x: Tensor, scale: int, zero: int) -> Tensor:
    """Dequantize x with the scale and zero point in the operands at indices `scale` and `zero`, which are scalars."""
    g = node.g
    point = g.reshape(node.tensor(zero), ()) if node.has(zero) else 0
    return g.dequantize(x, g.reshape(node.tensor(scale), ()), point)


def _integers(node: Node, x: Tensor, scale: int, zero: int, dtype: DType) -> Tensor:
    """Quantize x with the scale and zero point in the operands at indices `scale` and `zero`, which are scalars.

    Ties are rounded to even, and results saturate.
    """
    g = node.g
    point = g.reshape(node.tensor(zero), ()) if node.has(zero) else 0
    return g.quantize(node.cast(x, float32), g.reshape(node.tensor(scale), ()), point, dtype=dtype)


def _with_one(node: Node, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function to the dequantized operand 0 and quantize the result.

    Operands 1 and 2 are the scale and zero point of operand 0, and operands 3 and 4 those of the result.
    """
    x = node.tensor(0)
    return _integers(node, function(_real(node, x, 1, 2)), 3, 4, x.dtype)


@operator("QLinearSigmoid", upto=1, domain=MICROSOFT)
def quantized_sigmoid(node: Node) -> Results:
    return _with_one(node, node.g.sigmoid)


@operator("QLinearLeakyRelu", upto=1, domain=MICROSOFT)
def quantized_leaky_relu(node: Node) -> Results:
    return _with_one(node, lambda x: node.g.leaky_relu(x, node.attribute("alpha", 0.01)))


@operator("QLinearSoftmax", upto=1, domain=MICROSOFT)
def quantized_softmax(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    axis = node.axis(x, node.attribute("axis", -1))
    # Before opset 13, softmax covers the axes from `axis` to the last one.
    if node.attribute("opset", 13) < 13 and axis != node.rank(x) - 1:
        shape = [node.dim(x, a) for a in range(node.rank(x))]
        flat = g.softmax(g.flatten2d(_real(node, x, 1, 2), axis), 1)
        return _integers(node, node.reshape(flat, shape), 3, 4, x.dtype)
    return _with_one(node, lambda x: g.softmax(x, axis))


@operator("QLinearReduceMean", upto=1, domain=MICROSOFT)
def quantized_mean(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    axes = node.axes(x, node.attribute("axes", list(range(node.rank(x)))))
    y = g.mean(_real(node, x, 1, 2), axes)
    y = y if node.attribute("keepdims", 1) else g.squeeze(y, axes)
    return _integers(node, y, 3, 4, x.dtype)


def _channels_second(node: Node, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function that expects channels first. If the node has channels last, x and the result are transposed."""
    if not node.attribute("channels_last", 0):
        return function(x)
    g, rank = node.g, node.rank(x)
    y = function(g.transpose(x, [0, rank - 1, *range(1, rank - 1)]))
    return g.transpose(y, [0, *range(2, rank), 1])


@operator("QLinearAveragePool", upto=1, domain=MICROSOFT)
def quantized_average_pool(node: Node) -> Results:
    def pooled(x: Tensor) -> Tensor:
        y = average_pool(WithOperands(node, {0: x}, 1, "AveragePool"))
        assert isinstance(y, Tensor)
        return y

    return _with_one(node, lambda x: _channels_second(node, pooled, x))


@operator("QLinearGlobalAveragePool", upto=1, domain=MICROSOFT)
def quantized_global_average_pool(node: Node) -> Results:
    def pooled(x: Tensor) -> Tensor:
        return node.g.mean(x, list(range(2, node.rank(x))))

    return _with_one(node, lambda x: _channels_second(node, pooled, x))


@operator("QLinearAdd", "QLinearMul", upto=1, domain=MICROSOFT)
def quantized_arithmetic(node: Node) -> Results:
    g, a, b = node.g, node.tensor(0), node.tensor(3)
    method = g.addition if node.name == "QLinearAdd" else g.multiplication
    return _integers(node, method(_real(node, a, 1, 2), _real(node, b, 4, 5)), 6, 7, a.dtype)


@operator("QLinearWhere", upto=1, domain=MICROSOFT)
def quantized_where(node: Node) -> Results:
    x, y = node.tensor(1), node.tensor(4)
    chosen = node.g.select(node.tensor(0), _real(node, x, 2, 3), _real(node, y, 5, 6))
    return _integers(node, chosen, 7, 8, x.dtype)


@operator("QLinearConcat", upto=1, domain=MICROSOFT)
def quantized_concat(node: Node) -> Results:
    """Translate QLinearConcat. From index 2 on, its operands are triples of a tensor, its scale, and its zero point."""
    places = range(2, len(node.inputs), 3)
    parts = [_real(node, node.tensor(i), i + 1, i + 2) for i in places]
    joined = node.g.concat(parts, node.axis(parts[0], node.attribute("axis")))
    return _integers(node, joined, 0, 1, node.tensor(1).dtype)


@operator("QuantizeLinear", upto=1, domain=MICROSOFT)
def quantize(node: Node) -> Results:
    return quantize_linear(node)


@operator("DequantizeLinear", upto=1, domain=MICROSOFT)
def dequantize(node: Node) -> Results:
    return dequantize_linear(node)


@operator("QLinearConv", upto=1, domain=MICROSOFT)
def quantized_convolution_of_either_layout(node: Node) -> Results:
    def convolved(x: Tensor) -> Tensor:
        y = quantized_convolution(WithOperands(node, {0: x}, 9))
        assert isinstance(y, Tensor)
        return y

    return _channels_second(node, convolved, node.tensor(0))


# --- matmul ---------------------------------------------------------------------------------------------------------
def _one_or_columns(node: Node, x: Tensor) -> Tensor:
    return node.g.reshape(x, ()) if x.shape == (1,) else x


@operator("QGemm", upto=1, domain=MICROSOFT)
def quantized_gemm(node: Node) -> Results:
    """Translate QGemm: alpha A B + C. The integers in C are in units of alpha times the scales of A and B.

    Without an output scale, the result is float32.
    """
    g = node.g
    a, b = node.tensor(0), node.tensor(3)
    a = g.swap_axes(a, 0, 1) if node.attribute("transA", 0) else a
    b = g.swap_axes(b, 0, 1) if node.attribute("transB", 0) else b
    sums = matmul_of_bytes(node, a, node.optional(2), b, node.optional(5))
    sums = g.addition(sums, node.tensor(6)) if node.has(6) else sums
    factor = g.multiplication(g.reshape(node.tensor(1), ()), _one_or_columns(node, node.tensor(4)))
    factor = g.multiplication(factor, node.attribute("alpha", 1.0))
    y = g.multiplication(g.cast(sums, float32), factor)
    return _integers(node, y, 7, 8, node.tensor(8).dtype if node.has(8) else uint8) if node.has(7) else y


@operator("MatMulIntegerToFloat", upto=1, domain=MICROSOFT)
def integer_product_to_real(node: Node) -> Results:
    g = node.g
    sums = matmul_of_bytes(node, node.tensor(0), node.optional(4), node.tensor(1), node.optional(5))
    factor = g.multiplication(_one_or_columns(node, node.tensor(2)), _one_or_columns(node, node.tensor(3)))
    y = g.multiplication(node.cast(sums, factor.dtype), factor)
    return g.addition(y, node.tensor(6)) if node.has(6) else y


@operator("DynamicQuantizeMatMul", upto=1, domain=MICROSOFT)
def dynamically_quantized_product(node: Node) -> Results:
    """Translate DynamicQuantizeMatMul, which quantizes A to uint8 like DynamicQuantizeLinear, by the range of its
    values.
    """
    g = node.g
    quantize = operator.get("DynamicQuantizeLinear", version=11)
    if quantize is None:
        raise UnsupportedError("DynamicQuantizeLinear is not supported by mpsgraph")
    results = quantize(WithOperands(node, {}, 1, "DynamicQuantizeLinear"))
    a, scale, zero = (t for t in results if isinstance(t, Tensor))  # type: ignore[union-attr]
    sums = matmul_of_bytes(node, a, zero, node.tensor(1), node.optional(3))
    factor = g.multiplication(scale, _one_or_columns(node, node.tensor(2)))
    y = g.multiplication(g.cast(sums, float32), factor)
    return g.addition(y, node.tensor(4)) if node.has(4) else y


@operator("DynamicQuantizeLSTM", upto=1, domain=MICROSOFT)
def dynamically_quantized_lstm(node: Node) -> Results:
    """Translate DynamicQuantizeLSTM, an LSTM with 8-bit weights.

    If the graph's integer LSTM supports the node, the products are computed on integers. With peepholes, clipping,
    coupled gates, or other activations, the weights are dequantized and everything is computed in float32.
    """
    g = node.g
    of_lstm = WithOperands(node, {}, 8, "LSTM")
    activations = known_activations(of_lstm)
    if activations is not None:
        return LayersOfIntegers(WithOperands(node, {}, 12, "LSTM"), activations).outputs()
    lstm = operator.get("LSTM", version=22)
    if lstm is None:
        raise GraphError("LSTM is not supported by mpsgraph")
    weights = {}
    for i, scale in ((1, 8), (2, 10)):
        shape = node.shape(node.tensor(scale))
        wide = [shape[0], 1, shape[1] if len(shape) == 2 else 1]
        whole = node.cast(node.tensor(i), int32)
        if node.has(scale + 1):
            whole = g.subtraction(whole, g.reshape(node.cast(node.tensor(scale + 1), int32), wide))
        real = g.multiplication(g.cast(whole, float32), g.reshape(node.tensor(scale), wide))
        weights[i] = g.swap_axes(real, 1, 2)  # LSTM expects the gates on the first axis after the directions.
    return lstm(WithOperands(node, weights, 8, "LSTM"))
