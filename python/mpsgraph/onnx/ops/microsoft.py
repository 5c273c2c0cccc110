"""Translations of com.microsoft operators, which ONNX Runtime's optimizer creates by fusing ONNX operators.

Each fused operator is expanded again, and mpsgraph's compiler applies its own fusion. Attention and 8-bit operators are
in microsoft_attention.py, microsoft_packed.py, and microsoft_quantized.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..._core import Tensor, int32
from ...errors import GraphError, UnsupportedError
from ...interchange import activations as f
from ..building.node import MICROSOFT, Node, Results, operator
from .convolutions import convolution, with_bias
from .linear import matmul, matrices
from .normalizations import normalized


# --- activations ----------------------------------------------------------------------------------------------------
@operator("Gelu", "BiasGelu", upto=1, domain=MICROSOFT)
def gelu(node: Node) -> Results:
    return f.gelu(node.g, _sum(node, 0, 1))


@operator("FastGelu", upto=1, domain=MICROSOFT)
def fast_gelu(node: Node) -> Results:
    return f.gelu(node.g, _sum(node, 0, 1), by_tanh=True)


@operator("QuickGelu", upto=1, domain=MICROSOFT)
def quick_gelu(node: Node) -> Results:
    return f.swish(node.g, node.tensor(0), node.attribute("alpha", 1.702))


@operator("BiasSplitGelu", upto=1, domain=MICROSOFT)
def bias_split_gelu(node: Node) -> Results:
    """Translate BiasSplitGelu: add the bias, and multiply the first half of the channels by GELU of the second half."""
    x = _sum(node, 0, 1)
    left, right = node.g.split(x, 2, node.rank(x) - 1)
    return node.g.multiplication(left, f.gelu(node.g, right))


@operator("BiasAdd", upto=1, domain=MICROSOFT)
def bias_add(node: Node) -> Results:
    return _sum(node, 0, 1, 2)


def _sum(node: Node, *places: int) -> Tensor:
    """Return the sum of the operands at the given indices, leaving out optional operands that are missing."""
    result = node.tensor(places[0])
    for i in places[1:]:
        result = node.g.addition(result, node.tensor(i)) if node.has(i) else result
    return result


def activated(node: Node, x: Tensor, name: str, numbers: Sequence[float]) -> Tensor:
    """Apply the activation named in a fused node's attributes, with its parameters."""
    g = node.g

    def number(i: int, default: float) -> float:
        return float(numbers[i]) if i < len(numbers) else default

    functions: dict[str, Callable[[], Tensor]] = {
        "": lambda: x,
        "Relu": lambda: g.relu(x),
        "Tanh": lambda: g.tanh(x),
        "Sigmoid": lambda: g.sigmoid(x),
        "LeakyRelu": lambda: g.leaky_relu(x, number(0, 0.01)),
        "Clip": lambda: g.clamp(x, number(0, -math.inf), number(1, math.inf)),
        "HardSigmoid": lambda: f.hard_sigmoid(g, x, number(0, 0.2), number(1, 0.5)),
        "HardSwish": lambda: f.hard_swish(g, x, number(0, 1 / 6), number(1, 0.5)),
        "Gelu": lambda: f.gelu(node.g, x),
    }  # fmt: skip
    if name not in functions:
        raise UnsupportedError(f"activation must be one of {', '.join(k for k in functions if k)}, got {name!r}")
    return functions[name]()


# --- matmul and convolutions ----------------------------------------------------------------------------------------
def _turned(node: Node, x: Tensor, last: bool, batch: bool) -> Tensor:
    """Transpose an operand of a matmul: swap its last two axes, or move its first axis before the last one."""
    g, rank = node.g, node.rank(x)
    if batch:
        x = g.transpose(x, [*range(1, rank - 1), 0, rank - 1])
    return g.swap_axes(x, rank - 2, rank - 1) if last and rank > 1 else x


def _scaled(node: Node, x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else node.g.multiplication(x, factor)


@operator("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", upto=1, domain=MICROSOFT)
def fused_matmul(node: Node) -> Results:
    a, b = (
        _turned(
            node, node.tensor(i), bool(node.attribute(f"trans{name}", 0)), bool(node.attribute(f"transBatch{name}", 0))
        )
        for i, name in enumerate("AB")
    )
    y = _scaled(node, matmul(node, a, b), node.attribute("alpha", 1.0))
    return activated(node, y, *_activation(node)) if node.name == "FusedMatMulActivation" else y


def _activation(node: Node) -> tuple[str, list[float]]:
    """Return the name and parameters of FusedGemm's activation."""
    names = [f"activation_{name}" for name in ("alpha", "beta", "gamma")]
    return node.attribute("activation", ""), [node.attribute(name) for name in names if node.has_attribute(name)]


@operator("FusedGemm", upto=1, domain=MICROSOFT)
def fused_gemm(node: Node) -> Results:
    g = node.g
    turned = zip(matrices(node), ("transA", "transB"), strict=True)
    a, b = (_turned(node, x, bool(node.attribute(name, 0)), False) for x, name in turned)
    y = _scaled(node, matmul(node, a, b), node.attribute("alpha", 1.0))
    beta = node.attribute("beta", 1.0)
    y = g.addition(y, _scaled(node, node.tensor(2), beta)) if node.has(2) else y
    return activated(node, y, *_activation(node))


@operator("FusedConv", upto=1, domain=MICROSOFT)
def fused_convolution(node: Node) -> Results:
    """Translate FusedConv: convolve, add the bias, add the last operand, and apply the activation."""
    y = with_bias(node, convolution(node, node.tensor(0), node.tensor(1)), 2)
    y = node.g.addition(y, node.tensor(3)) if node.has(3) else y
    return activated(node, y, node.attribute("activation", ""), node.attribute("activation_params", []))


# --- normalizations -------------------------------------------------------------------------------------------------
def _layer_normalized(node: Node, x: Tensor, gamma: int, beta: int | None, simplified: bool) -> list[Tensor]:
    """Normalize x over its last axis in float32.

    Returns the result, the mean, and the inverse standard deviation. The simplified normalization does not subtract a
    mean, and returns the inverse root mean square in place of both statistics.
    """
    g, wide, axes = node.g, node.in_float32(x), [node.rank(x) - 1]
    epsilon = node.attribute("epsilon", 1e-12)
    if simplified:
        inverse = g.reciprocal_square_root(g.addition(g.mean(g.square(wide), axes), epsilon))
        y, mean = g.multiplication(wide, inverse), inverse
    else:
        y, mean, inverse = normalized(node, wide, axes, epsilon)
    y = g.multiplication(y, node.cast(node.tensor(gamma), y.dtype))
    if beta is not None and node.has(beta):
        y = g.addition(y, node.cast(node.tensor(beta), y.dtype))
    return [node.cast(y, x.dtype), mean, inverse]


@operator("SkipLayerNormalization", upto=1, domain=MICROSOFT)
def skip_layer_normalization(node: Node) -> Results:
    x = _sum(node, 0, 1, 4)
    return [*_layer_normalized(node, x, 2, 3, False), x]


@operator("SkipSimplifiedLayerNormalization", upto=1, domain=MICROSOFT)
def skip_simplified_layer_normalization(node: Node) -> Results:
    x = _sum(node, 0, 1, 3)
    return [*_layer_normalized(node, x, 2, None, True), x]


# ONNX Runtime adds this operator to the standard ONNX domain, without com.microsoft.
@operator("SimplifiedLayerNormalization", upto=1)
@operator("SimplifiedLayerNormalization", upto=1, domain=MICROSOFT)
def simplified_layer_normalization(node: Node) -> Results:
    x = node.tensor(0)
    if node.axis(x, node.attribute("axis", -1)) != node.rank(x) - 1:
        raise UnsupportedError(
            f"SimplifiedLayerNormalization is supported only over the last axis, got axis={node.attribute('axis', -1)}"
        )
    node.attribute("stash_type", 1)
    node.attribute("epsilon", 1e-5)
    y, _, inverse = _layer_normalized(node, x, 1, None, True)
    return [y, inverse]


@operator("EmbedLayerNormalization", upto=1, domain=MICROSOFT)
def embed_layer_normalization(node: Node) -> Results:
    """Translate EmbedLayerNormalization, which normalizes the sum of word, position, and segment embeddings.

    The other results are the number of unmasked words per row and the sum before normalization.
    """
    g, ids = node.g, node.tensor(0)
    x = g.gather(node.tensor(2), ids, 0, out_of_range="error")
    table = node.tensor(3)
    if node.has(8):
        positions = g.gather(table, node.tensor(8), 0, out_of_range="error")
    else:
        length = node.dim(ids, 1)
        positions = g.slice(table, [0, 0], node.joined([length, node.size(table, 1)]))
    x = g.addition(x, positions)
    if node.has(1) != node.has(4):
        raise GraphError("segment_ids and segment_embedding must be given together, but one of them is missing")
    if node.has(1):
        x = g.addition(x, g.gather(node.tensor(4), node.tensor(1), 0, out_of_range="error"))
    y = _layer_normalized(node, x, 5, 6, False)[0]
    node.attribute("mask_index_type", 0)
    count: Tensor | None = None
    if node.has(7):
        count = g.squeeze(g.reduction_sum(node.cast(node.tensor(7), int32), 1), [1])
    elif node.wants(1):
        count = g.squeeze(g.slice_axis(node.cast(g.multiplication(ids, 0), int32), 1, 0, 1), [1])
    return [y, count, x]
