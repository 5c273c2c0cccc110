"""Translations of ai.onnx.ml operators: linear models, feature preprocessing, and labels. Trees are in trees.py.

Tensors cannot hold strings. A classifier with string labels therefore returns class indices, and the loaded model's
`classes` lists their labels. ZipMap returns scores with one column per class instead of dictionaries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import DType, Tensor, float32, int64
from ...errors import GraphError, ShapeError, UnsupportedError
from ..building.node import Node, Results, operator
from ._scores import ML, labelled, labels_of, rows_of, transform_of, transformed, with_other_class
from .linear import matmul

MOST_KEYS = 100_000  # Maximum number of keys of an encoder. Each element is compared with each key.


# --- linear models --------------------------------------------------------------------------------------------------
def _linear(node: Node, results: int) -> Tensor:
    """Return a linear model's results: rows of features times the coefficients, plus the intercepts if the node has
    any.
    """
    g, x = node.g, node.cast(rows_of(node), float32)
    coefficients = np.array(node.attribute("coefficients"), np.float32)
    if results < 1 or coefficients.size % results:
        raise ShapeError(f"the number of coefficients must be a multiple of {results} results, got {coefficients.size}")
    y = matmul(node, x, g.constant(np.ascontiguousarray(coefficients.reshape(results, -1).T)))
    intercepts = node.attribute("intercepts", None)
    return y if not intercepts else g.addition(y, g.constant(np.array(intercepts, np.float32)))


@operator("LinearRegressor", upto=1, domain=ML)
def linear_regressor(node: Node) -> Results:
    return transformed(node, _linear(node, node.attribute("targets", 1)), transform_of(node))


@operator("LinearClassifier", upto=1, domain=ML)
def linear_classifier(node: Node) -> Results:
    g, transform = node.g, transform_of(node)
    node.attribute("multi_class", 0)  # multi_class describes how the model was trained, and has no effect on inference.
    numbers, names = labels_of(node, "classlabels_ints")
    labels = len(names or numbers or ())
    intercepts = node.attribute("intercepts", None)
    classes = len(intercepts) if intercepts else labels
    scores = _linear(node, classes)
    if classes > 1:
        place = g.squeeze(g.reduction_arg_maximum(scores, 1), [1])
        return [labelled(node, place, numbers, names), transformed(node, scores, transform)]
    if labels not in (0, 2):
        raise ShapeError(f"a classifier with a single score needs two class labels, got {labels}")
    place = g.squeeze(g.cast(g.greater_than(scores, 0.0), int64), [1])
    if not labels:
        return [place, scores if transform != "PROBIT" else transformed(node, scores, transform)]
    return [labelled(node, place, numbers, names), with_other_class(node, scores, transform, True)]


# --- features -------------------------------------------------------------------------------------------------------
@operator("Scaler", upto=1, domain=ML)
def scaler(node: Node) -> Results:
    """Translate Scaler: (x - offset) * scale."""
    g, x = node.g, node.tensor(0)
    x = node.cast(x, float32)
    offset, scale = (
        np.array(node.attribute(name, default), np.float32) for name, default in (("offset", [0.0]), ("scale", [1.0]))
    )
    return g.multiplication(g.subtraction(x, g.constant(offset)), g.constant(scale))


@operator("Normalizer", upto=1, domain=ML)
def normalizer(node: Node) -> Results:
    """Translate Normalizer, which divides rows by their maximum, L1 norm, or L2 norm; rows of zeros stay unchanged."""
    g, norm = node.g, node.attribute("norm", "MAX")
    x = node.cast(node.tensor(0), float32)
    axis = node.rank(x) - 1
    if norm == "MAX":
        size = g.reduction_maximum(x, axis)
    elif norm == "L1":
        size = g.reduction_sum(g.absolute(x), axis)
    elif norm == "L2":
        # Divide by the largest element first, so that squares do not overflow or underflow.
        largest = g.reduction_maximum(g.absolute(x), axis)
        safe = g.select(g.equal(largest, 0.0), 1.0, largest)
        size = g.multiplication(g.square_root(g.reduction_sum(g.square(g.division(x, safe)), axis)), safe)
    else:
        raise GraphError(f"norm must be MAX, L1, or L2, got {norm!r}")
    return g.select(g.equal(size, 0.0), x, g.division(x, size))


@operator("Binarizer", upto=1, domain=ML)
def binarizer(node: Node) -> Results:
    x = node.tensor(0)
    limit: Any = node.attribute("threshold", 0.0)
    if not x.dtype.is_float:
        limit = int(np.floor(limit))
    return node.g.cast(node.g.greater_than(x, limit), x.dtype)


@operator("ArrayFeatureExtractor", upto=1, domain=ML)
def array_feature_extractor(node: Node) -> Results:
    """Translate ArrayFeatureExtractor, which gathers along the last axis; a vector is treated as one row."""
    g, x = node.g, node.tensor(0)
    x = x if node.rank(x) > 1 else g.expand_dims(x, 0)
    return g.gather(x, g.reshape(node.tensor(1), (-1,)), node.rank(x) - 1, out_of_range="error")


@operator("FeatureVectorizer", upto=1, domain=ML)
def feature_vectorizer(node: Node) -> Results:
    """Translate FeatureVectorizer, which concatenates features after cropping or zero-padding each to its
    inputdimensions.
    """
    g, parts = node.g, []
    sizes = node.attribute("inputdimensions", None)
    for i in range(len(node.inputs)):
        x = node.cast(rows_of(node, i), float32)
        if sizes is not None and sizes[i] < node.size(x, 1):
            x = g.slice_axis(x, 1, 0, sizes[i])
        elif sizes is not None and sizes[i] > node.size(x, 1):
            x = g.pad(x, [0, 0], [0, sizes[i] - node.size(x, 1)])
        parts.append(x)
    return g.concat(parts, 1)


@operator("Imputer", upto=1, domain=ML)
def imputer(node: Node) -> Results:
    """Translate Imputer, which replaces NaN or a given value with one value for all columns, or with one value per
    column.
    """
    g, x = node.g, node.tensor(0)
    suffix = "floats" if x.dtype.is_float else "int64s"
    given = np.array(node.attribute(f"imputed_value_{suffix}"), x.dtype.numpy)
    wanted: Any = (
        node.attribute("replaced_value_float", 0.0) if x.dtype.is_float else node.attribute("replaced_value_int64", 0)
    )
    missing = g.is_nan(x) if x.dtype.is_float and np.isnan(wanted) else g.equal(x, wanted)
    return g.select(missing, g.constant(given.reshape(()) if given.size == 1 else given), x)


@operator("OneHotEncoder", upto=1, domain=ML)
def one_hot_encoder(node: Node) -> Results:
    """Translate OneHotEncoder; elements outside the categories are encoded as zeros."""
    g, x = node.g, node.tensor(0)
    categories = node.attribute("cats_int64s", None)
    if not categories:
        raise UnsupportedError("cats_strings is not supported: encode categories as integers and use cats_int64s")
    node.attribute("zeros", 1)
    x = node.cast(x, int64)
    return g.cast(g.equal(g.expand_dims(x, node.rank(x)), g.constant(np.array(categories, np.int64))), float32)


# --- labels ---------------------------------------------------------------------------------------------------------
def _entries(node: Node, what: str) -> np.ndarray:
    """Return the keys or values of a LabelEncoder from whichever of the typed attributes the node has."""
    if node.attribute(f"{what}_strings", None) is not None:
        raise UnsupportedError(
            f"{what}_strings is not supported: encode labels as integers before the model and decode them after it"
        )
    tensor = node.attribute(f"{what}_tensor", None)
    if tensor is not None:
        array: np.ndarray = tensor.elements[0].reshape(-1)
        return array
    floats = node.attribute(f"{what}_floats", None)
    return np.array(floats, np.float32) if floats is not None else np.array(node.attribute(f"{what}_int64s"), np.int64)


@operator("LabelEncoder", upto=4, domain=ML)
def label_encoder(node: Node) -> Results:
    """Translate LabelEncoder, which maps each key to its value and all other elements to a default.

    From version 4 on, NaN can be a key.
    """
    g, x = node.g, node.tensor(0)
    if node.version < 2:
        raise UnsupportedError("classes_strings is not supported: encode labels as integers")
    keys, values = _entries(node, "keys"), _entries(node, "values")
    if len(keys) != len(values) or not 0 < len(keys) <= MOST_KEYS:
        raise ShapeError(
            f"keys and values must have the same length, between 1 and {MOST_KEYS}, got {len(keys)} and {len(values)}"
        )
    node.attribute("default_string", "")  # default_string is unused because the values are numeric.
    default: Any = (
        node.attribute("default_float", 0.0) if values.dtype.kind == "f" else node.attribute("default_int64", -1)
    )
    tensor = node.attribute("default_tensor", None)
    default = default if tensor is None else tensor.elements[0].reshape(()).item()
    table = g.constant(keys, dtype=x.dtype)
    beside = g.expand_dims(x, node.rank(x))
    same = g.equal(beside, table)
    if node.version >= 4 and x.dtype.is_float and np.isnan(keys).any():
        same = g.logical_or(same, g.logical_and(g.is_nan(beside), g.constant(np.isnan(keys))))
    last = node.rank(x)
    hits = g.cast(same, float32)
    place = g.squeeze(g.reduction_arg_maximum(hits, last), [last])  # The index of the first matching key.
    found = g.squeeze(g.greater_than(g.reduction_maximum(hits, last), 0.0), [last])
    return g.select(found, g.gather(g.constant(values), place, 0), g.constant(default, dtype=DType(str(values.dtype))))


@operator("ZipMap", upto=1, domain=ML)
def zip_map(node: Node) -> Results:
    """Translate ZipMap to its scores, with one column per class listed in the loaded model's `classes`."""
    scores = node.g.identity(rows_of(node))
    numbers, names = labels_of(node, "classlabels_int64s")
    labels: list[Any] = list(names or numbers or ())
    columns = node.dims(scores)[1]
    if columns >= 0 and columns != len(labels):
        raise ShapeError(
            f"scores of shape {scores.shape} need {columns} class labels, one per column, got {len(labels)}"
        )
    node.importer.enter_classes(scores, labels)
    return scores
