"""Reductions, running sums, and differences."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._core import NDArray, Tensor
from .._dtypes import DTypeLike, as_dtype
from ..errors import DTypeError, ShapeError
from ._manipulation import axes_of, axis_of, concat
from ._operation import cast_to, graph_of, like, operation, shape_of
from ._promotion import INDEX, Scalar, accumulated, floating, real_of

Array = NDArray | Tensor
Axis = int | Sequence[int] | None

_ARGUMENTS = """    Args:
        x: Array or tensor{kinds}.
        axis: The axis or axes to reduce. None, the default, means all.{dtype}
        keepdims: Whether the reduced axes stay, with size 1. Defaults to False."""
_DTYPE = """
        dtype: dtype of the result. None, the default, means the dtype of x, and at least 32 bits for integers."""


def _document(function: Any, summary: str, kinds: str, result: str, example: str, dtype: str = "") -> None:
    name = function.__name__
    arguments, _, value = example.partition(" -> ")
    function.__doc__ = f"""{summary}

{_ARGUMENTS.format(kinds=kinds, dtype=dtype)}

    Returns:
        {result}

    Raises:
        ShapeError: If an axis is out of range.
        DTypeError: If the dtype is not supported.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.{name}({arguments}).tolist()
        {value}
    """


def reduced(x: Tensor, method: str, axes: list[int], keepdims: builtins.bool) -> Tensor:
    """Reduce a tensor with a method of the graph, which keeps the reduced axes, and remove them unless requested."""
    g = graph_of(x)
    if not axes:
        return g.identity(x)
    found = getattr(g, method)(x, axes)
    return found if keepdims else g.squeeze(found, axes)


def _accumulation(name: str, method: str, summary: str, example: str) -> Callable[..., Any]:
    def build(
        x: Array, /, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: builtins.bool = False
    ) -> Any:
        assert isinstance(x, Tensor)
        wanted = accumulated(x.dtype) if dtype is None else as_dtype(dtype)
        if x.dtype.is_complex and not wanted.is_complex:
            raise DTypeError(f"{name} cannot convert {x.dtype} to {wanted}: use real or abs first")
        axes = axes_of(axis, len(shape_of(x, name)), name)
        return reduced(cast_to(x, wanted), method, axes, keepdims)

    build.__name__ = build.__qualname__ = name
    _document(build, summary, ", floating-point, integer, or complex", "An array without the reduced axes.", example,
              _DTYPE)  # fmt: skip
    return operation("x")(build)


sum = _accumulation("sum", "reduction_sum", "Compute the sum of elements.", "[[1, 2], [3, 4]], axis=0 -> [4, 6]")
prod = _accumulation(
    "prod", "reduction_product", "Compute the product of elements.", "[[1, 2], [3, 4]], axis=1 -> [2, 12]"
)


def _extreme(name: str, word: str, example: str) -> Callable[..., Any]:
    def build(x: Array, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Any:
        assert isinstance(x, Tensor)
        shape = shape_of(x, name)
        axes = axes_of(axis, len(shape), name)
        if builtins.any(shape[a] == 0 for a in axes):
            raise ShapeError(f"{name} of no elements is not defined: axes {axes} of shape {shape} have size 0")
        return reduced(x, f"reduction_{word}imum_propagate_nan", axes, keepdims)

    build.__name__ = build.__qualname__ = name
    _document(build, f"Return the {word}imum of elements; NaN propagates.", ", floating-point or integer",
              "An array without the reduced axes.", example)  # fmt: skip
    return operation("x")(build)


max = _extreme("max", "max", "[[1, 2], [3, 4]], axis=0 -> [3, 4]")
min = _extreme("min", "min", "[[1, 2], [3, 4]], axis=0 -> [1, 2]")


def _truth(name: str, word: str, example: str) -> Callable[..., Any]:
    def build(x: Array, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Any:
        assert isinstance(x, Tensor)
        axes = axes_of(axis, len(shape_of(x, name)), name)
        return reduced(truth(x), f"reduction_{'and' if name == 'all' else 'or'}", axes, keepdims)

    build.__name__ = build.__qualname__ = name
    _document(build, f"Test whether {word} is true, that is, not zero.", " of any dtype", "A bool array.", example)
    return operation("x")(build)


def truth(x: Tensor) -> Tensor:
    """Return which elements are not zero."""
    return x if x.dtype == _core.bool_ else graph_of(x).not_equal(x, like(x, 0))


all = _truth("all", "every element", "[True, False] -> False")
any = _truth("any", "an element", "[True, False] -> True")


def _counted(shape: tuple[int, ...], axes: list[int], x: Tensor) -> Tensor | None:
    """Return the number of reduced elements as a tensor if a size is unknown, and otherwise None."""
    if builtins.all(shape[a] >= 0 for a in axes):
        return None
    g = graph_of(x)
    return reduced(g.cast(g.equal(x, x), real_of(x.dtype)), "reduction_sum", axes, True)


@operation("x")
def mean(x: Array, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Any:
    assert isinstance(x, Tensor)
    x = cast_to(x, floating(x.dtype))
    shape = shape_of(x, "mean")
    axes = axes_of(axis, len(shape), "mean")
    if not axes:
        return graph_of(x).identity(x)
    if not x.dtype.is_complex and 0 not in shape:
        return reduced(x, "mean", axes, keepdims)
    return reduced(x, "reduction_sum", axes, keepdims) / like(x, builtins.max(math.prod(shape[a] for a in axes), 0))


_document(mean, "Compute the arithmetic mean of elements.", ", floating-point or complex; integers become float32",
          "An array without the reduced axes.", "[[1.0, 2.0], [3.0, 4.0]], axis=0 -> [2.0, 3.0]")  # fmt: skip


def _deviations(x: Any, axis: Axis, correction: float, keepdims: builtins.bool, what: str) -> Tensor:
    g = graph_of(x)
    x = cast_to(x, floating(x.dtype))
    shape = shape_of(x, what)
    axes = axes_of(axis, len(shape), what)
    apart = x - g.mean(x, axes) if axes and 0 not in shape else x - x
    total = reduced(
        g.absolute_square(apart) if x.dtype.is_complex else g.square(apart), "reduction_sum", axes, keepdims
    )
    known = _counted(shape, axes, x)
    if known is not None:
        numbers = g.maximum(known - float(correction), 0.0)
        return total / (numbers if keepdims else g.squeeze(numbers, axes))
    count = math.prod(shape[a] for a in axes) - correction
    return total / like(total, builtins.max(count, 0.0))


_CORRECTION = """    Args:
        x: Array or tensor, floating-point; integers become float32.
        axis: The axis or axes to reduce. None, the default, means all.
        correction: Number that is subtracted from the number of elements: 0 (the default) divides by n, 1 by n - 1.
        keepdims: Whether the reduced axes stay, with size 1. Defaults to False.

    Returns:
        An array without the reduced axes.

    Raises:
        ShapeError: If an axis is out of range.
        DTypeError: If the dtype is not supported.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.{name}([1.0, 3.0], correction=1).tolist()
        {value}
    """


@operation("x")
def var(x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Any:
    return _deviations(x, axis, correction, keepdims, "var")


@operation("x")
def std(x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: builtins.bool = False) -> Any:
    variance = _deviations(x, axis, correction, keepdims, "std")
    return graph_of(variance).square_root(variance)


var.__doc__ = "Compute the variance of elements.\n\n" + _CORRECTION.format(name="var", value="2.0")
std.__doc__ = "Compute the standard deviation of elements.\n\n" + _CORRECTION.format(
    name="std", value="1.4142135381698608"
)


@operation("x")
def count_nonzero(x: Array, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Any:
    assert isinstance(x, Tensor)
    axes = axes_of(axis, len(shape_of(x, "count_nonzero")), "count_nonzero")
    return reduced(graph_of(x).cast(truth(x), INDEX), "reduction_sum", axes, keepdims)


_document(count_nonzero, "Count the elements that are not zero.", " of any dtype", "An int32 array.",
          "[0, 3, 4] -> 2")  # fmt: skip


# --- running sums and products ----------------------------------------------------------------------------------------
def _scan(x: Tensor, axis: int, combine: Callable[[Tensor, Tensor], Tensor], start: Scalar) -> Tensor:
    """Combine each element with all earlier ones, by doubling the number of combined elements in each round."""
    g, count, reach = graph_of(x), shape_of(x, "scan")[axis], 1
    while reach < count:
        sizes = list(shape_of(x, "scan"))
        sizes[axis] = reach
        first = g.broadcast_to(like(x, start), sizes)
        x = combine(x, g.concat([first, g.slice_axis(x, axis, 0, count - reach)], axis))
        reach *= 2
    return x


def _cumulative(name: str, method: str, start: int, summary: str, result: str) -> Callable[..., Any]:
    def build(
        x: Array,
        /,
        *,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        include_initial: builtins.bool = False,
    ) -> Any:
        assert isinstance(x, Tensor)
        g, shape = graph_of(x), shape_of(x, name)
        if axis is None and len(shape) > 1:
            raise ShapeError(f"{name}: axis is required for an array of rank {len(shape)}")
        x = cast_to(x, accumulated(x.dtype) if dtype is None else as_dtype(dtype))
        if not shape:
            x, shape = g.reshape(x, [1]), (1,)
        at = axis_of(axis or 0, len(shape), name)
        if 0 in shape:
            found = x
        elif x.dtype.is_complex:
            found = _scan(x, at, g.addition if start == 0 else g.multiplication, start)
        else:
            found = getattr(g, method)(x, at)
        if include_initial:
            sizes = list(shape)
            sizes[at] = 1
            first = g.broadcast_to(like(x, start), sizes)
            found = g.concat([first, found], at) if shape[at] else first
        return g.identity(found)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""{summary}

    Args:
        x: Array or tensor, floating-point, integer, or complex.
        axis: The axis. None, the default, is allowed for rank 0 and 1.
        dtype: dtype of the result. None, the default, means the dtype of x, and at least 32 bits for integers.
        include_initial: Whether the result starts with {start}, and has one more element. Defaults to False.

    Returns:
        An array.

    Raises:
        ShapeError: If the axis is missing or out of range.
        DTypeError: If the dtype is not supported.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.{name}([1, 2, 3]).tolist()
        {result}
    """
    return operation("x")(build)


cumulative_sum = _cumulative("cumulative_sum", "cumulative_sum", 0, "Compute running sums along an axis.", "[1, 3, 6]")
cumulative_prod = _cumulative(
    "cumulative_prod", "cumulative_product", 1, "Compute running products along an axis.", "[1, 2, 6]"
)


def diff(x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None) -> Any:
    """Compute differences of consecutive elements along an axis.

    Args:
        x: Array or tensor of rank 1 or higher.
        axis: The axis. Defaults to the last.
        n: Number of times that differences are computed. Defaults to 1.
        prepend: Array to insert before x, or None (the default).
        append: Array to add after x, or None (the default).

    Returns:
        An array with n fewer elements along the axis.

    Raises:
        ShapeError: If the axis is out of range, or n is negative.

    Example:
        >>> import mpsgraph.numpy as mnp
        >>> mnp.diff(mnp.asarray([1, 4, 9])).tolist()
        [3, 5]
    """
    if n < 0:
        raise ShapeError(f"diff: n must not be negative, got {n}")
    parts = [part for part in (prepend, x, append) if part is not None]
    return _diff(concat(parts, axis=axis) if len(parts) > 1 else x, axis, n)


@operation("x")
def _diff(x: Any, axis: int, n: int) -> Any:
    g = graph_of(x)
    at = axis_of(axis, len(shape_of(x, "diff")), "diff")
    for _ in range(n):
        count = shape_of(x, "diff")[at]
        if count == 0:
            break
        one, two = g.slice_axis(x, at, 1, count - 1), g.slice_axis(x, at, 0, count - 1)
        x = g.logical_xor(one, two) if x.dtype == _core.bool_ else one - two
    return g.identity(x)


__all__ = [
    "all",
    "any",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]
