"""Losses that compare vectors: angles, distances, and rankings."""

from __future__ import annotations

from ..._checks import Finite, NotNegative, checked
from ..._core import Tensor
from ...errors import GraphError
from ...precision.mixed_precision import in_float32
from ..parts import graph_of
from .reduction import as_dtype_of, like, reduced, selecting


@checked
@in_float32
def cosine_similarity(x: Tensor, y: Tensor, *, axis: int = -1, epsilon: NotNegative = 1e-8) -> Tensor:
    """Cosine of the angle between vectors: x . y / (max(|x|, epsilon) * max(|y|, epsilon)).

    It grows with similarity, so it is not a loss by itself.

    Args:
        x: Vectors.
        y: Vectors, broadcastable with x.
        axis: Axis of the vectors, which is removed. Defaults to the last.
        epsilon: Lower bound of the norms. Defaults to 1e-8.

    Returns:
        The similarities, with the broadcast shape of x and y without axis.

    Raises:
        ShapeError: If the shapes do not broadcast or axis is out of range.

    Source: PyTorch's cosine_similarity.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.cosine_similarity(g.constant([3.0, 0.0]), g.constant([2.0, 0.0]))).item()
        1.0
    """
    g = graph_of(x)

    def direction(v: Tensor) -> Tensor:
        # Bound the square, because the root is not differentiable at 0. Normalize each vector separately, because
        # products of long vectors overflow.
        squares = g.maximum_with_nan_propagation(g.reduction_sum(g.square(v), axis), epsilon * epsilon)
        return v / g.square_root(squares)

    return g.squeeze(g.reduction_sum(direction(x) * direction(y), axis), axis)


@checked
@in_float32
@selecting("outputs", "labels", axis="axis")
def cosine_distance(
    outputs: Tensor, labels: Tensor, *, axis: int = -1, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Cosine distance of unit vectors: 1 - sum along the axis of outputs * labels. The vectors are not normalized.

    Args:
        outputs: Vectors of length 1.
        labels: Vectors of length 1, with the shape of outputs.
        axis: Axis of the vectors, which is removed. Defaults to the last.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the distance of each pair if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: MPSCNNLossTypeCosineDistance.

    Example:
        >>> g = mg.Graph()
        >>> g.run({}, mg.nn.losses.cosine_distance(g.constant([[0.5, 0.5]]), g.constant([[0.0, 1.0]]))).item()
        0.5
    """
    g = graph_of(outputs)
    return reduced(1.0 - g.squeeze(g.reduction_sum(outputs * like(labels, outputs), axis), axis), reduction, weights)


@checked
@in_float32
@selecting("x", "y", "labels", axis=-1)
def cosine_embedding(
    x: Tensor,
    y: Tensor,
    labels: Tensor,
    *,
    margin: Finite = 0.0,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cosine embedding loss: 1 - cos(x, y) where the label is 1, max(0, cos(x, y) - margin) where it is -1.

    Args:
        x: Vectors (..., features).
        y: Vectors (..., features).
        labels: (...), 1 for pairs that should be similar, -1 for pairs that should not.
        margin: Similarity up to which dissimilar pairs have no loss. Defaults to 0.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each pair if reduction is "none".

    Raises:
        ShapeError: If the shapes do not match, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: PyTorch's CosineEmbeddingLoss.

    Example:
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
@selecting("outputs", "labels")
def hinge_embedding(
    outputs: Tensor, labels: Tensor, *, margin: Finite = 1.0, weights: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Hinge embedding loss: outputs where the label is 1, max(0, margin - outputs) where it is -1.

    Args:
        outputs: Distances.
        labels: 1 or -1, with the shape of outputs.
        margin: Distance from which dissimilar pairs have no loss. Defaults to 1.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If outputs and labels differ in shape, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: PyTorch's HingeEmbeddingLoss.

    Example:
        >>> g = mg.Graph()
        >>> distances, labels = g.constant([0.25, 0.25]), g.constant([1, -1])
        >>> g.run({}, mg.nn.losses.hinge_embedding(distances, labels, reduction="none")).tolist()
        [0.25, 0.75]
    """
    losses = graph_of(outputs).select(like(labels, outputs) > 0.0, outputs, graph_of(outputs).relu(margin - outputs))
    return reduced(losses, reduction, weights)


@checked
@in_float32
@selecting("x", "y", "labels")
def margin_ranking(
    x: Tensor,
    y: Tensor,
    labels: Tensor,
    *,
    margin: Finite = 0.0,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Margin ranking loss: max(0, margin - labels * (x - y)).

    x should exceed y where the label is 1, and y should exceed x where it is -1.

    Args:
        x: Scores.
        y: Scores, with the shape of x.
        labels: 1 or -1, with the shape of x.
        margin: Difference from which there is no loss. Defaults to 0.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each element if reduction is "none".

    Raises:
        ShapeError: If the shapes differ, or weights do not broadcast to the losses.
        GraphError: If reduction is unknown.

    Source: PyTorch's MarginRankingLoss.

    Example:
        >>> g = mg.Graph()
        >>> x, y, labels = g.constant([1.0, 1.0]), g.constant([3.0, 3.0]), g.constant([1, -1])
        >>> g.run({}, mg.nn.losses.margin_ranking(x, y, labels, reduction="none")).tolist()
        [2.0, 0.0]
    """
    return reduced(graph_of(x).relu(margin - like(labels, x) * (x - like(y, x))), reduction, weights)


@checked
@in_float32
@selecting("anchor", "positive", "negative", axis=-1)
def triplet_margin(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    margin: Finite = 1.0,
    p: float = 2.0,
    epsilon: NotNegative = 1e-6,
    swap: bool = False,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Triplet margin loss: max(0, |anchor - positive| - |anchor - negative| + margin).

    The anchor should be nearer to the positive than to the negative.

    Args:
        anchor: Vectors (..., features).
        positive: Vectors (..., features).
        negative: Vectors (..., features).
        margin: Difference of distances from which there is no loss. Defaults to 1.
        p: Order of the norm, at least 1. Defaults to 2.
        epsilon: Added to each difference. Defaults to 1e-6.
        swap: Whether to use the distance from positive to negative where it is smaller than the one from the anchor.
            Defaults to False.
        weights: Factors of the losses, broadcastable to them. Defaults to none.
        reduction: "mean" (the default), "sum", "none", or "sum_by_nonzero_weights"; see `reduced`.

    Returns:
        A tensor of rank 0, or the loss of each triplet if reduction is "none".

    Raises:
        ShapeError: If the shapes do not match, or weights do not broadcast to the losses.
        GraphError: If p is below 1, or reduction is unknown.

    Source: PyTorch's TripletMarginLoss; Balntas et al., 2016.

    Example:
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
        # The root is not differentiable at 0; as in PyTorch, its derivative there is defined as 0.
        nothing = g.equal(powers, 0.0)
        some = g.select(nothing, g.constant(1.0, dtype=powers.dtype), powers)
        root = g.square_root(some) if p == 2 else some ** (1 / p)
        return g.select(nothing, g.constant(0.0, dtype=powers.dtype), root)

    far = distance(anchor, negative)
    if swap:
        far = g.minimum_with_nan_propagation(far, distance(positive, negative))
    return reduced(g.relu(distance(anchor, positive) - far + margin), reduction, weights)
