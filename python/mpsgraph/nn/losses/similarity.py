"""Losses of vectors against vectors: angles, distances, and which is nearer."""

from __future__ import annotations

from ..._checks import checked
from ..._core import Tensor
from ...errors import GraphError
from ...precision.mixed_precision import in_float32
from ..module import graph_of
from .reduction import as_dtype_of, like, reduced


@checked
@in_float32
def cosine_similarity(x: Tensor, y: Tensor, *, axis: int = -1, epsilon: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors: x . y / (max(|x|, epsilon) * max(|y|, epsilon)).

    Args: x and y, which broadcast; axis, that of the vectors, which is taken away. No loss by itself: it grows with the
    likeness. PyTorch's of the same name.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.cosine_similarity(g.constant([3.0, 0.0]), g.constant([2.0, 0.0]))).item()
    1.0
    """
    g = graph_of(x)

    def direction(v: Tensor) -> Tensor:
        # of the squares, because the root of 0 has no slope; each by itself, because products of long ones overflow
        squares = g.maximum_with_nan_propagation(g.reduction_sum(g.square(v), axis), epsilon * epsilon)
        return v / g.square_root(squares)

    return g.squeeze(g.reduction_sum(direction(x) * direction(y), axis), axis)


@checked
@in_float32
def cosine_distance(
    outputs: Tensor, labels: Tensor, *, axis: int = -1, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """1 - sum along the axis of outputs * labels, which are taken to be of length 1.

    Args: outputs and labels of one shape; axis, that of the vectors, which is taken away; weights and reduction as in
    `reduced`. Errors: ShapeError, GraphError. MPSCNNLossTypeCosineDistance.

    >>> g = mg.Graph()
    >>> g.run({}, mg.nn.losses.cosine_distance(g.constant([[0.5, 0.5]]), g.constant([[0.0, 1.0]]))).item()
    0.5
    """
    g = graph_of(outputs)
    return reduced(1.0 - g.squeeze(g.reduction_sum(outputs * like(labels, outputs), axis), axis), reduction, weights)


@checked
@in_float32
def cosine_embedding(
    x: Tensor, y: Tensor, labels: Tensor, *, margin: float = 0.0, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """1 - cos(x, y) where the label is 1, max(0, cos(x, y) - margin) where it is -1.

    Args: x and y (..., features); labels (...), 1 for what shall be alike, -1 for what shall not; margin; weights and
    reduction as in `reduced`. Errors: ShapeError, GraphError. PyTorch's CosineEmbeddingLoss.

    >>> g = mg.Graph()
    >>> x, y = g.constant([[1.0, 0.0]] * 2), g.constant([[0.0, 2.0]] * 2)
    >>> g.run({}, mg.nn.losses.cosine_embedding(x, y, g.constant([1, -1]), reduction="none")).tolist()
    [1.0, 0.0]
    """
    g, cosine = graph_of(x), cosine_similarity(x, y)
    losses = g.select(like(labels, cosine) > 0.0, 1.0 - cosine, g.relu(cosine - margin))
    return reduced(losses, reduction, weights)


@checked
@in_float32
def hinge_embedding(
    outputs: Tensor, labels: Tensor, *, margin: float = 1.0, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """outputs, distances, where the label is 1, max(0, margin - outputs) where it is -1.

    Args: outputs and labels of one shape; weights and reduction as in `reduced`. Errors: ShapeError, GraphError.
    PyTorch's HingeEmbeddingLoss.

    >>> g = mg.Graph()
    >>> distances, labels = g.constant([0.25, 0.25]), g.constant([1, -1])
    >>> g.run({}, mg.nn.losses.hinge_embedding(distances, labels, reduction="none")).tolist()
    [0.25, 0.75]
    """
    losses = graph_of(outputs).select(like(labels, outputs) > 0.0, outputs, graph_of(outputs).relu(margin - outputs))
    return reduced(losses, reduction, weights)


@checked
@in_float32
def margin_ranking(
    x: Tensor, y: Tensor, labels: Tensor, *, margin: float = 0.0, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - labels * (x - y)): x shall be above y where the label is 1, below where it is -1.

    Args: x, y and labels of one shape; weights and reduction as in `reduced`. Errors: ShapeError, GraphError. PyTorch's
    MarginRankingLoss.

    >>> g = mg.Graph()
    >>> x, y, labels = g.constant([1.0, 1.0]), g.constant([3.0, 3.0]), g.constant([1, -1])
    >>> g.run({}, mg.nn.losses.margin_ranking(x, y, labels, reduction="none")).tolist()
    [2.0, 0.0]
    """
    return reduced(graph_of(x).relu(margin - like(labels, x) * (x - like(y, x))), reduction, weights)


@checked
@in_float32
def triplet_margin(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-6,
    swap: bool = False,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin): the anchor shall be nearer to the positive.

    Args: three tensors (..., features); p, of the norm, at least 1; epsilon, added to each difference; swap, whether
    the negative's distance to the positive counts instead where that is less; weights and reduction as in `reduced`.
    Errors: ShapeError, GraphError. PyTorch's TripletMarginLoss. Balntas et al., 2016.

    >>> g = mg.Graph()
    >>> anchor, near, far = g.constant([[0.0]]), g.constant([[1.0]]), g.constant([[5.0]])
    >>> [g.run({}, mg.nn.losses.triplet_margin(anchor, *pair)).item() for pair in ((near, far), (far, near))]
    [0.0, 5.0]
    """
    if p < 1:
        raise GraphError(f"triplet_margin: p must be at least 1, got {p}")
    g = graph_of(anchor)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        difference = a - as_dtype_of(b, a) + epsilon
        if p == 1:
            return g.squeeze(g.reduction_sum(abs(difference), -1), -1)
        powers = g.squeeze(g.reduction_sum(g.square(difference) if p == 2 else abs(difference) ** p, -1), -1)
        nothing = g.equal(powers, 0.0)  # where a root has no slope, and PyTorch's is 0
        some = g.select(nothing, g.constant(1.0, dtype=powers.dtype), powers)
        root = g.square_root(some) if p == 2 else some ** (1 / p)
        return g.select(nothing, g.constant(0.0, dtype=powers.dtype), root)

    far = distance(anchor, negative)
    if swap:
        far = g.minimum_with_nan_propagation(far, distance(positive, negative))
    return reduced(g.relu(distance(anchor, positive) - far + margin), reduction, weights)
