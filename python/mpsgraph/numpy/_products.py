"""Products of vectors, matrices, and tensors, and what all functions of linear algebra share."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core import NDArray, Tensor, bool_
from .._display import shown
from ..errors import DTypeError, GraphError, ShapeError
from ._einsum import contracted
from ._manipulation import axes_of, axis_of
from ._operation import cast_to, graph_of, operation, shape_of
from ._promotion import floating
from ._sizes import Sizes
from ._statistics import reduced

Array = NDArray | Tensor


def _text(summary: str, arguments: str, result: str, example: str, raises: str = "") -> str:
    """Return a docstring. `example` is "code -> output"."""
    code, _, output = example.partition(" -> ")
    listed = "\n".join(f"    {a}" for a in arguments.split("; "))
    raises = raises or "ShapeError: If the shape of an argument is not supported."
    return (
        f"{summary}\n\nArgs:\n{listed}\n\nReturns:\n    {result}\n\nRaises:\n    {raises}\n\nExample:\n"
        f"    >>> import mpsgraph.numpy as mnp\n    >>> {code}\n    {output}\n"
    )


def documented(*text: str) -> Callable[[Any], Any]:
    def enter(function: Any) -> Any:
        function.__doc__ = _text(*text)
        return function

    return enter


def matrix(x: Tensor, what: str, square: bool = False) -> tuple[Tensor, tuple[int, ...]]:
    """Return x in a floating-point dtype with its shape. Raise ShapeError if it is no stack of (square) matrices."""
    shape = shape_of(x, what)
    if len(shape) < 2 or -1 in shape:
        raise ShapeError(f"{what} requires an array of rank 2 or higher and known sizes, got shape {shape}")
    if square and shape[-1] != shape[-2]:
        raise ShapeError(f"{what} requires square matrices, got shape {shape}")
    return cast_to(x, floating(x.dtype)), shape


def constant_like(x: Tensor, shape: Sequence[int], dtype: Any = None, value: Any = 0) -> Tensor:
    dtype = dtype or x.dtype
    return graph_of(x).constant(builtins.bool(value) if dtype == bool_ else value, list(shape), dtype)


# --- products -------------------------------------------------------------------------------------------------------
@operation("x1", "x2", promote=(0, 1))
@documented(
    "Multiply matrices, or stacks of matrices; vectors are rows on the left and columns on the right.",
    "x1: Array or tensor of shape (n,) or (..., m, n).; x2: Array or tensor of shape (n,) or (..., n, k).",
    "An array of shape (..., m, k), without the axis of a vector.",
    "mnp.matmul(mnp.asarray([[1.0, 2.0]]), mnp.asarray([3.0, 4.0])).tolist() -> [11.0]",
)
def matmul(x1: Array, x2: Array, /) -> Any:
    assert isinstance(x1, Tensor) and isinstance(x2, Tensor)
    return product(x1, x2)


def product(x1: Tensor, x2: Tensor) -> Tensor:
    """Multiply matrices or vectors of one graph."""
    g, one, two = graph_of(x1), shape_of(x1, "matmul"), shape_of(x2, "matmul")
    if not one or not two:
        raise ShapeError("matmul requires arrays of rank 1 or higher: use multiply for numbers")
    left = g.expand_dims(x1, [0]) if len(one) == 1 else x1
    right = g.expand_dims(x2, [1]) if len(two) == 1 else x2
    inner = (one[-1], two[0] if len(two) == 1 else two[-2])
    if inner[0] != inner[1] and -1 not in inner:
        raise ShapeError(f"matmul: the inner sizes must be equal, got {inner[0]} and {inner[1]} in {one} and {two}")
    found = g.matrix_multiplication(left, right)
    rank = len(shape_of(found, "matmul"))
    gone = [rank - 2] * (len(one) == 1) + [rank - 1] * (len(two) == 1)
    return g.squeeze(found, gone) if gone else found


@operation("x1", "x2", promote=(0, 1))
@documented(
    "Compute the dot product of vectors along an axis; the first is conjugated.",
    "x1: Array or tensor.; x2: Array or tensor, broadcast with x1.; axis: The axis, negative. Defaults to -1.",
    "An array of the broadcast shape without the axis.",
    "mnp.linalg.vecdot(mnp.asarray([1.0, 2.0]), mnp.asarray([3.0, 4.0])).item() -> 11.0",
)
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Any:
    assert isinstance(x1, Tensor) and isinstance(x2, Tensor)
    g = graph_of(x1)
    for x in (x1, x2):
        axis_of(axis, len(shape_of(x, "vecdot")), "vecdot")
    sizes = shape_of(x1, "vecdot")[axis], shape_of(x2, "vecdot")[axis]
    if sizes[0] != sizes[1]:
        raise ShapeError(f"vecdot: the sizes along the axis must be equal, got {sizes[0]} and {sizes[1]}")
    product = g.multiplication(g.conjugate(x1) if x1.dtype.is_complex else x1, x2)
    return reduced(product, "reduction_sum", [axis % len(shape_of(product, "vecdot"))], False)


@operation("x1", "x2", promote=(0, 1))
@documented(
    "Sum products of elements over pairs of axes.",
    "x1: Array or tensor.; x2: Array or tensor.; axes: Number of last axes of x1 and first axes of x2, or two "
    "sequences of axes. Defaults to 2.",
    "An array with the remaining axes of x1 followed by those of x2.",
    "mnp.tensordot(mnp.ones((2, 3)), mnp.ones((3, 4)), axes=1).shape -> (2, 4)",
)
def tensordot(x1: Array, x2: Array, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Any:
    assert isinstance(x1, Tensor) and isinstance(x2, Tensor)
    g, one, two = graph_of(x1), shape_of(x1, "tensordot"), shape_of(x2, "tensordot")
    if isinstance(axes, (int, np.integer)):
        if axes < 0 or axes > builtins.min(len(one), len(two)):
            raise ShapeError(f"tensordot: axes must be from 0 to {builtins.min(len(one), len(two))}, got {axes}")
        left, right = list(range(len(one) - axes, len(one))), list(range(axes))
    else:
        left, right = (axes_of(tuple(a), len(s), "tensordot") for a, s in zip(axes, (one, two), strict=True))
    if [one[a] for a in left] != [two[b] for b in right]:
        raise ShapeError(f"tensordot: the sizes of the axes must be equal, got {one} and {two} with axes {shown(axes)}")
    rows = [a for a in range(len(one)) if a not in left]
    columns = [b for b in range(len(two)) if b not in right]
    inner = math.prod(one[a] for a in left)
    x1, x2 = _permuted(x1, [*rows, *left]), _permuted(x2, [*right, *columns])
    m, n = math.prod(one[a] for a in rows), math.prod(two[b] for b in columns)
    shape = [*(one[a] for a in rows), *(two[b] for b in columns)]
    if 0 in (inner, m, n):
        return constant_like(x1, shape)
    return g.reshape(g.matrix_multiplication(g.reshape(x1, [m, inner]), g.reshape(x2, [inner, n])), shape)


@operation(promote=range(64))
def _einsum(*operands: Tensor, equation: str) -> Tensor:
    if operands[0].dtype == bool_:
        raise DTypeError("einsum requires numeric arrays, got bool: convert them with astype")
    sizes = Sizes()
    sizes.g = graph_of(operands[0])
    return contracted(sizes, equation, operands)


@documented(
    "Sum products of elements over the letters of an equation, in Einstein's notation.",
    'subscripts: Letters for the axes of each operand, separated by commas, such as "bij,bjk->bik". "..." stands for '
    'any number of axes. Without "->", the result has the letters that appear once, in alphabetical order.; '
    "*operands: Arrays or tensors, one for each term.",
    "An array with the axes that the equation lists for the result.",
    'mnp.einsum("ij,j->i", mnp.asarray([[1, 2], [3, 4]]), mnp.asarray([1, 1])).tolist() -> [3, 7]',
    "ShapeError: If a term does not match the shape of its operand.\n    GraphError: If the equation is not valid.",
)
def einsum(subscripts: str, /, *operands: Array) -> Any:
    if not isinstance(subscripts, str):
        raise DTypeError(f"einsum: subscripts must be a string such as 'ij,jk->ik', got {shown(subscripts)}")
    if not operands:
        raise GraphError(f"einsum: equation {subscripts!r} needs an array for each term, got none")
    return _einsum(*operands, equation=subscripts)


def _permuted(x: Tensor, order: list[int]) -> Tensor:
    return x if order == list(range(len(order))) else graph_of(x).transpose(x, order)


@operation("x1", "x2", promote=(0, 1))
@documented(
    "Multiply all pairs of elements of two vectors.",
    "x1: Array or tensor of shape (m,).; x2: Array or tensor of shape (n,).",
    "An array of shape (m, n).",
    "mnp.linalg.outer(mnp.asarray([1, 2]), mnp.asarray([3, 4])).tolist() -> [[3, 4], [6, 8]]",
)
def outer(x1: Array, x2: Array, /) -> Any:
    assert isinstance(x1, Tensor) and isinstance(x2, Tensor)
    if len(shape_of(x1, "outer")) != 1 or len(shape_of(x2, "outer")) != 1:
        raise ShapeError("outer requires arrays of rank 1")
    return graph_of(x1).multiplication(graph_of(x1).expand_dims(x1, [1]), x2)


@operation("x1", "x2", promote=(0, 1))
@documented(
    "Compute the cross product of vectors of three elements along an axis.",
    "x1: Array or tensor.; x2: Array or tensor, broadcast with x1.; axis: The axis. Defaults to the last.",
    "An array of the broadcast shape.",
    "mnp.linalg.cross(mnp.asarray([1, 0, 0]), mnp.asarray([0, 1, 0])).tolist() -> [0, 0, 1]",
)
def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Any:
    assert isinstance(x1, Tensor) and isinstance(x2, Tensor)
    g = graph_of(x1)
    places = [axis_of(axis, len(shape_of(x, "cross")), "cross") for x in (x1, x2)]
    if any(shape_of(x, "cross")[at] != 3 for x, at in zip((x1, x2), places, strict=True)):
        raise ShapeError(f"cross requires 3 elements along the axis, got {x1.shape} and {x2.shape}")
    a, b = ([g.slice_axis(x, at, i, 1) for i in range(3)] for x, at in zip((x1, x2), places, strict=True))
    rank = builtins.max(len(shape_of(x, "cross")) for x in (x1, x2))
    parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return g.concat(parts, axis % rank)
