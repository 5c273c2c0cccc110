"""Score handling shared by ai.onnx.ml's classifiers and regressors: labels, binary scores, and transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core import Tensor, int64
from ...errors import GraphError, ShapeError, UnsupportedError
from ..building.node import Node

ML = "ai.onnx.ml"
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def transform_of(node: Node) -> str:
    """Return the name of the node's post_transform, or raise GraphError if it is invalid."""
    name: Any = node.attribute("post_transform", "NONE" if node.name != "TreeEnsemble" else 0)
    name = _TRANSFORMS[name] if isinstance(name, int) and 0 <= name < len(_TRANSFORMS) else name
    if name not in _TRANSFORMS:
        raise GraphError(f"post_transform must be one of {', '.join(_TRANSFORMS)}, got {name!r}")
    return str(name)


def transformed(node: Node, x: Tensor, transform: str) -> Tensor:
    """Apply a post_transform to scores of shape (n, classes)."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "NONE": lambda x: x,
        "SOFTMAX": lambda x: node.g.softmax(x, 1),
        "LOGISTIC": node.g.sigmoid,
        "SOFTMAX_ZERO": lambda x: _softmax_of_what_is_not_zero(node, x),
        "PROBIT": lambda x: _probit(node, x),
    }
    return functions[transform](x)


def _softmax_of_what_is_not_zero(node: Node, x: Tensor) -> Tensor:
    """Return a softmax over classes that excludes scores of zero.

    Scores that are zero or close to zero are left out of the sum; each of them is multiplied by exp(-max) instead.
    """
    g = node.g
    top = g.reduction_maximum(x, 1)
    power = g.exponent(g.subtraction(x, top))
    small = g.multiplication(x, g.exponent(g.negative(top)))
    counted = g.greater_than(g.absolute(x), 1e-7)
    return g.division(g.select(counted, power, small), g.reduction_sum(g.select(counted, power, 0.0), 1))


def _probit(node: Node, x: Tensor) -> Tensor:
    """Approximate sqrt(2) erfinv(2 x - 1) to within 0.004 by Winitzki's formula.

    ONNX Runtime and the reference implementation use the same formula.
    """
    g = node.g
    y = g.subtraction(g.multiplication(x, 2.0), 1.0)
    log = g.logarithm(g.multiplication(g.subtraction(1.0, y), g.addition(y, 1.0)))
    a = 0.147
    half = g.addition(g.multiplication(log, 0.5), 2 / (math.pi * a))
    root = g.square_root(g.subtraction(g.square(half), g.multiplication(log, 1 / a)))
    return g.multiplication(g.multiplication(g.sign(y), g.square_root(g.subtraction(root, half))), math.sqrt(2))


def with_other_class(node: Node, score: Tensor, transform: str, complements: bool) -> Tensor:
    """Return the scores (n, 2) of two classes, given the scores (n, 1) of the second class.

    The score of the first class is 1 - score if scores are probabilities (`complements`), and -score otherwise. Softmax
    is not applied to such a pair.
    """
    g = node.g
    if transform == "LOGISTIC":
        return g.sigmoid(g.concat([g.negative(score), score], 1))
    if transform == "PROBIT":
        raise UnsupportedError("post_transform PROBIT is not supported for two classes with a single score")
    return g.concat([g.subtraction(1.0, score) if complements else g.negative(score), score], 1)


def labels_of(node: Node, numbers: str) -> tuple[list[int] | None, list[str] | None]:
    """Return the class labels as integers and as strings, with None for whichever the node lacks."""
    return node.attribute(numbers, None), node.attribute("classlabels_strings", None)


def labelled(node: Node, place: Tensor, numbers: Sequence[int] | None, names: Sequence[str] | None) -> Tensor:
    """Return the labels for class indices of shape (n,).

    Numeric labels are returned as numbers. String labels are returned as indices, and their names are recorded in the
    model's `classes`.
    """
    g = node.g
    if names:
        result = node.cast(place, int64)
        node.importer.enter_classes(result, names)
        return result
    if not numbers:
        return node.cast(place, int64)
    return g.gather(g.constant(np.array(numbers, np.int64)), place, 0)


def rows_of(node: Node, i: int = 0) -> Tensor:
    """Return operand i as a floating-point matrix of features, with shape (n, features). A vector becomes a single
    row.
    """
    g, x = node.g, node.tensor(i)
    x = x if x.dtype.is_float else g.cast(x, "float32")
    if node.rank(x) > 2:
        raise ShapeError(f"features must have rank 1 or 2, got shape {x.shape}")
    return x if node.rank(x) == 2 else g.expand_dims(x, 0)
