"""Translations of layers for matmul, embeddings, gather, scatter, and sorting."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from ..._core import Tensor
from ._layer import Layer, applies, layer


def _mode(mode: str) -> str:
    return mode.removeprefix("SCATTER_").lower()


_SCATTERED = "data indices# updates"
for _name, _translation in {
    "argSort": applies("argsort", axis=(int, "axis"), ascending=(operator.not_, "descending")),
    "gather": applies("gather", "x indices#", axis=(int, "axis")),
    "gatherAlongAxis": applies("gather_along_axis", "x indices#", axis=(int, "axis")),
    "gatherND": applies("gather_nd", "x indices#"),
    "oneHot": applies(
        "one_hot", "indices#", one_hot_vector_size=(int, "oneHotVectorSize"), axis=(int, "axis"),
        on_value=(float, "onValue"), off_value=(float, "offValue"),
    ),
    "scatter": applies("scatter", _SCATTERED, axis=(int, "axis"), mode=(_mode, "mode")),
    "scatterAlongAxis": applies("scatter_along_axis", _SCATTERED, axis=(int, "axis"), mode=(_mode, "mode")),
    "scatterND": applies("scatter_nd", _SCATTERED, mode=(_mode, "mode")),
    "whereNonZero": applies("non_zero"),
}.items():  # fmt: skip
    layer.enter(_name, _translation)


@layer("innerProduct")
def inner_product(n: Layer) -> Tensor:
    """Translate innerProduct. For inputs of rank 4 or 5, the last three axes are treated as one vector."""
    p, rank = n.p, n.rank(n.x)
    given, out = int(p.inputChannels), int(p.outputChannels)
    w = n.weight(p.weights, [out, given], "weight")
    bias = n.weight(p.bias, [out], "bias") if p.hasBias else None
    if rank < 4:
        return n.mil("linear", x=n.x, weight=w, bias=bias)
    lead: list[int | Tensor] = [n.dim(n.x, i) for i in range(rank - 3)]
    y = n.mil("linear", x=n.reshape(n.x, [*lead, given]), weight=w, bias=bias)
    return n.reshape(y, [*lead, out, 1, 1])


def _embedded(n: Layer, indices: Tensor, words: int, width: int) -> Tensor:
    """Return rows of an embedding table, which the file stores with one column per word."""
    w = n.g.transpose(n.importer.weight(n.weight(n.p.weights, [width, words], "weight"), True), [1, 0])
    y = n.g.gather(w, n.ints(indices), 0, out_of_range="error")
    return n.mil("add", x=y, y=n.importer.weight(n.weight(n.p.bias, [width], "bias"), True)) if n.p.hasBias else y


@layer("embedding")
def embedding(n: Layer) -> Tensor:
    """Translate embedding, which maps indices of shape (..., 1, 1, 1) to vectors of shape (..., width, 1, 1)."""
    lead: list[int | Tensor] = [n.dim(n.x, i) for i in range(n.rank(n.x) - 3)]
    width = int(n.p.outputChannels)
    y = _embedded(n, n.reshape(n.x, lead), int(n.p.inputDim), width)
    return n.reshape(y, [*lead, width, 1, 1])


@layer("embeddingND")
def embedding_nd(n: Layer) -> Tensor:
    """Translate embeddingND, which maps indices of shape (..., 1) to vectors of shape (..., width)."""
    return _embedded(n, n.g.squeeze(n.x, [-1]), int(n.p.vocabSize), int(n.p.embeddingSize))


@layer("batchedMatmul")
def batched_matmul(n: Layer) -> Tensor:
    p = n.p
    if len(n.xs) > 1:
        return n.mil("matmul", x=n.x, y=n.xs[1], transpose_x=bool(p.transposeA), transpose_y=bool(p.transposeB))
    given, out = int(p.weightMatrixFirstDimension), int(p.weightMatrixSecondDimension)
    w = n.weight(p.weights, [out, given], "weight")  # The file stores the weights column by column.
    return n.mil("linear", x=n.x, weight=w, bias=n.weight(p.bias, [out], "bias") if p.hasBias else None)


@layer("dot")
def dot(n: Layer) -> Tensor:
    g, (a, b) = n.g, n.xs
    product = g.reduction_sum(g.multiplication(a, b), [-3])
    if not n.p.cosineSimilarity:
        return product
    one, other = (g.reduction_sum(g.square(x), [-3]) for x in (a, b))
    return g.multiplication(product, g.reciprocal_square_root(g.multiplication(one, other)))


@layer("topK")
def top_k(n: Layer) -> Sequence[Tensor]:
    k = n.ints(n.xs[1]) if len(n.xs) > 1 else int(n.p.K)
    values, places = n.several("topk", 2, x=n.x, k=k, axis=int(n.p.axis), ascending=bool(n.p.useBottomK))
    return [values, n.floats(places)][: n.results]
