"""Translations of random-number operators.

The numbers come from Philox, MPSGraph's generator, so they differ from those of other libraries for the same seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import DType, Tensor, bool_, float32
from ...ops._family import ShapeLike
from ..building.node import Node, Results, operator
from ._compose import sizes


def _drawn(node: Node, like: ShapeLike | Tensor, dtype: DType, **distribution: Any) -> Tensor:
    """Return random numbers drawn from a hidden generator state.

    If the node has attribute seed, return constants instead, equal to those of ONNX's reference implementation. `like`
    is a shape, or a tensor of the desired shape.
    """
    g = node.g
    if node.has_attribute("seed"):
        state = np.random.RandomState(int(node.attribute("seed")))
        shape = node.shape(like) if isinstance(like, Tensor) else like
        if distribution["distribution"] == "normal":
            values = state.normal(distribution["mean"], distribution["standard_deviation"], shape)
        else:
            values = state.uniform(distribution.get("min", 0.0), distribution.get("max", 1.0), shape)
        return g.constant(values, dtype=dtype)
    wanted = sizes(node, like) if isinstance(like, Tensor) else like
    return node.cast(g.random(wanted, dtype=float32, **distribution), dtype)


def _dtype(node: Node, like: Tensor | None) -> DType:
    if node.has_attribute("dtype") or like is None:
        return node.dtype_attribute("dtype", 1)
    return like.dtype


def _normal(node: Node) -> dict[str, Any]:
    return {
        "distribution": "normal",
        "mean": node.attribute("mean", 0.0),
        "standard_deviation": node.attribute("scale", 1.0),
    }


def _uniform(node: Node) -> dict[str, Any]:
    return {"distribution": "uniform", "min": node.attribute("low", 0.0), "max": node.attribute("high", 1.0)}


@operator("RandomNormal", upto=22)
def random_normal(node: Node) -> Results:
    return _drawn(node, node.attribute("shape"), _dtype(node, None), **_normal(node))


@operator("RandomUniform", upto=22)
def random_uniform(node: Node) -> Results:
    return _drawn(node, node.attribute("shape"), _dtype(node, None), **_uniform(node))


@operator("RandomNormalLike", upto=22)
def random_normal_like(node: Node) -> Results:
    x = node.tensor(0)
    return _drawn(node, x, _dtype(node, x), **_normal(node))


@operator("RandomUniformLike", upto=22)
def random_uniform_like(node: Node) -> Results:
    x = node.tensor(0)
    return _drawn(node, x, _dtype(node, x), **_uniform(node))


@operator("Bernoulli", upto=22)
def bernoulli(node: Node) -> Results:
    x = node.tensor(0)
    drawn = _drawn(node, x, x.dtype, distribution="uniform")
    return node.g.cast(node.g.less_than(drawn, x), _dtype(node, x))


@operator("Dropout", upto=22)
def dropout(node: Node) -> Results:
    g, x = node.g, node.tensor(0)
    if node.version >= 12:
        ratio, training = node.scalar(1, 0.5), bool(node.scalar(2, False))
    else:
        ratio, training = node.attribute("ratio", 0.5), node.version < 7 and not node.attribute("is_test", 0)
    mask_dtype = bool_ if node.version >= 10 else x.dtype
    node.without_effect("seed")  # Without dropout, the seed is unused.
    if not training or ratio == 0:
        every = g.equal(x, x) if x.dtype.is_integer or x.dtype == bool_ else g.logical_or(g.equal(x, x), g.is_nan(x))
        return [g.identity(x), node.cast(every, mask_dtype)]
    drawn = _drawn(node, x, x.dtype, distribution="uniform")
    kept = g.greater_than_or_equal_to(drawn, float(ratio))
    return [g.select(kept, g.division(x, 1.0 - ratio), 0.0), node.cast(kept, mask_dtype)]
