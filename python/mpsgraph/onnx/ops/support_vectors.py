"""Translations of ai.onnx.ml's support vector machines, with all kernel values computed in one matmul.

A classifier compares classes in pairs and counts the votes. Class probabilities are computed from pairwise
probabilities by the second method of Wu, Lin, and Weng (2004), with LIBSVM's stopping rule, so that results agree with
LIBSVM even where the iteration has not converged.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ..._core import Tensor, float32, int32
from ...errors import GraphError, ShapeError, UnsupportedError
from ..building.node import Node, Results, operator
from ._compose import folded
from ._scores import ML, labelled, labels_of, rows_of, transform_of, transformed
from .linear import matmul

MOST_ROUNDS = 100  # Maximum number of iterations to compute class probabilities.


def _numbers(node: Node, name: str) -> np.ndarray:
    return np.array(node.attribute(name, []), np.float32)


def _kernels(node: Node, x: Tensor, vectors: np.ndarray) -> Tensor:
    """Return the values of the SVM kernel function for each pair of a row and a support vector, with shape (rows,
    vectors).
    """
    g, kind = node.g, node.attribute("kernel_type", "LINEAR")
    gamma, constant, degree = [*node.attribute("kernel_params", []), 0.0, 0.0, 0.0][:3]
    product = matmul(node, x, g.constant(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return product
    # Shift the origin to the center of the vectors, so that squared distances are differences of small numbers.
    if kind == "RBF":
        middle = vectors.mean(0)
        vectors, x = vectors - middle, g.subtraction(x, g.constant(middle))
        product = matmul(node, x, g.constant(np.ascontiguousarray(vectors.T)))
        lengths = g.constant((vectors**2).sum(1))
        squares = g.addition(g.subtraction(g.reduction_sum(g.square(x), 1), g.multiplication(product, 2.0)), lengths)
        return g.exponent(g.multiplication(g.maximum(squares, 0.0), -gamma))
    affine = g.addition(g.multiplication(product, gamma), constant)
    if kind == "POLY":
        return g.power(affine, degree)
    if kind == "SIGMOID":
        return g.tanh(affine)
    raise GraphError(f"kernel_type must be LINEAR, RBF, POLY, or SIGMOID, got {kind!r}")


def _vectors(node: Node, count: int) -> np.ndarray:
    """Return the support vectors, with shape (count, features)."""
    vectors = _numbers(node, "support_vectors")
    if count < 1 or vectors.size % count:
        raise ShapeError(
            f"support_vectors must have a number of elements divisible by the {count} vectors, got {vectors.size}"
        )
    return vectors.reshape(count, -1)


@operator("SVMRegressor", upto=1, domain=ML)
def support_vector_regressor(node: Node) -> Results:
    g, x = node.g, node.cast(rows_of(node), float32)
    coefficients, rho, count = _numbers(node, "coefficients"), _numbers(node, "rho"), node.attribute("n_supports", 0)
    near = _kernels(node, x, _vectors(node, count)) if count else x  # Without support vectors, the model is linear.
    if not count:
        node.attribute("kernel_type", "LINEAR"), node.attribute("kernel_params", [])
    y = g.addition(matmul(node, near, g.constant(coefficients.reshape(-1, 1))), float(rho[0]))
    if node.attribute("one_class", 0):
        y = g.select(g.greater_than(y, 0.0), 1.0, g.constant(-1.0))
    return transformed(node, y, transform_of(node))


@operator("SVMClassifier", upto=1, domain=ML)
def support_vector_classifier(node: Node) -> Results:
    g, x, transform = node.g, node.cast(rows_of(node), float32), transform_of(node)
    numbers, names = labels_of(node, "classlabels_ints")
    sizes: list[int] = node.attribute("vectors_per_class", [])
    classes = len(sizes)
    if classes < 2 or classes != len(names or numbers or ()):
        raise UnsupportedError(
            "SVMClassifier needs vectors_per_class and labels for the same two or more classes, "
            f"got {classes} and {len(names or numbers or ())}"
        )
    pairs = list(combinations(range(classes), 2))
    rho, slopes, offsets = _numbers(node, "rho"), _numbers(node, "prob_a"), _numbers(node, "prob_b")
    coefficients = _numbers(node, "coefficients").reshape(classes - 1, -1)
    if len(rho) != len(pairs) or coefficients.shape[1] != sum(sizes) or len(slopes) not in (0, len(pairs)):
        raise ShapeError(
            f"for {classes} classes with {sum(sizes)} vectors, rho must have {len(pairs)} values (got {len(rho)}), "
            f"coefficients must have shape {(classes - 1, sum(sizes))} (got {coefficients.shape}), and prob_a must "
            f"have 0 or {len(pairs)} values (got {len(slopes)})"
        )
    owner = np.repeat(np.arange(classes), sizes)
    of_pairs = np.zeros((sum(sizes), len(pairs)), np.float32)
    for p, (i, j) in enumerate(pairs):
        of_pairs[owner == i, p], of_pairs[owner == j, p] = coefficients[j - 1, owner == i], coefficients[i, owner == j]
    near = _kernels(node, x, _vectors(node, sum(sizes)))
    scores = g.addition(matmul(node, near, g.constant(of_pairs)), g.constant(rho))
    votes = _votes(node, scores, pairs, classes)
    if len(slopes):
        scores = _coupled(node, scores, pairs, slopes, offsets, classes)
    place = g.squeeze(g.reduction_arg_maximum(votes, 1), [1])
    if not len(slopes) and classes == 2:
        scores = g.concat([g.negative(scores), scores], 1)
    return [labelled(node, place, numbers, names), transformed(node, scores, transform)]


def _votes(node: Node, scores: Tensor, pairs: list[tuple[int, int]], classes: int) -> Tensor:
    """Return the number of pairwise comparisons won by each class, with shape (rows, classes)."""
    g = node.g
    first = g.cast(g.greater_than(scores, 0.0), float32)
    ways = [np.zeros((len(pairs), classes), np.float32) for _ in range(2)]
    for p, pair in enumerate(pairs):
        ways[0][p, pair[0]], ways[1][p, pair[1]] = 1, 1
    won = matmul(node, first, g.constant(ways[0]))
    return g.addition(won, matmul(node, g.subtraction(1.0, first), g.constant(ways[1])))


def _coupled(
    node: Node, scores: Tensor, pairs: list[tuple[int, int]], slopes: np.ndarray, offsets: np.ndarray, classes: int
) -> Tensor:
    """Compute class probabilities from pairwise probabilities, with shape (rows, classes)."""
    g = node.g
    margin = g.addition(g.multiplication(scores, g.constant(slopes)), g.constant(offsets))
    wins = g.clamp(g.sigmoid(g.negative(margin)), 1e-7, 1 - 1e-7)
    columns = {pair: g.slice_axis(wins, 1, p, 1) for p, pair in enumerate(pairs)}

    def chance(i: int, j: int) -> Tensor:
        return columns[i, j] if i < j else g.subtraction(1.0, columns[j, i])

    rows = []
    for i in range(classes):
        others = [g.square(chance(j, i)) for j in range(classes) if j != i]
        mixed = {j: g.negative(g.multiplication(chance(j, i), chance(i, j))) for j in range(classes) if j != i}
        rows.append(g.concat([folded(others, g.addition) if j == i else mixed[j] for j in range(classes)], 1))
    # `matrix` has shape (rows, classes, classes). The class probabilities p minimize p' matrix p.
    matrix = g.stack(rows, 1)
    start = g.addition(g.multiplication(rows[0], 0.0), 1 / classes)

    def products(p: Tensor) -> tuple[Tensor, Tensor]:
        each = g.squeeze(g.matrix_multiplication(matrix, g.expand_dims(p, 2)), [2])
        return each, g.reduction_sum(g.multiplication(p, each), 1)

    def going(p: Tensor) -> Tensor:
        """Return a mask of the rows whose class probabilities have not converged, with shape (rows, 1)."""
        each, whole = products(p)
        error = g.reduction_maximum(g.absolute(g.subtraction(each, whole)), 1)
        return g.greater_than_or_equal_to(error, 0.005 / classes)

    def before(number: Tensor, p: Tensor) -> tuple[Tensor, list[Tensor]]:
        some = g.reshape(g.reduction_or(going(p), [0, 1]), ())
        return g.logical_and(some, g.less_than(number, MOST_ROUNDS)), [number, p]

    def after(number: Tensor, p: Tensor) -> list[Tensor]:
        open_ = going(p)
        each, whole = products(p)
        moved = p
        for t in range(classes):  # Update one class at a time.
            diagonal = g.slice_axis(rows[t], 1, t, 1)
            at = g.slice_axis(each, 1, t, 1)
            step = g.division(g.subtraction(whole, at), diagonal)
            sum_ = g.addition(step, 1.0)
            hot = g.constant(np.eye(classes, dtype=np.float32)[t : t + 1])
            gained = g.multiplication(step, g.addition(g.multiplication(step, diagonal), g.multiplication(at, 2.0)))
            whole = g.division(g.addition(whole, gained), g.square(sum_))
            each = g.division(g.addition(each, g.multiplication(step, rows[t])), sum_)
            moved = g.division(g.addition(moved, g.multiplication(step, hot)), sum_)
        return [g.addition(number, 1), g.select(open_, moved, p)]

    return g.while_([g.constant(0, dtype=int32), start], before, after)[1]
