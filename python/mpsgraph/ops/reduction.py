"""Reductions along axes: sums, products, minima, maxima, logic, and indices of minima and maxima.

As in MPSGraph, reduced axes stay, with size 1; `squeeze` removes them. `axes` is an int, a sequence of ints, or None
for all; negative axes count from the end. An empty sequence raises a ShapeError, because it could mean either no axes
or all axes.
"""

from __future__ import annotations

from ._family import Axes, Family, Tensor, axes_attribute


class Reduction(Family):
    """Graph methods for reductions along axes."""

    def _reduction(self, kind: str, x: Tensor, axes: Axes, name: str | None) -> Tensor:
        return self._tensor(kind, [x], name, axes=axes_attribute(axes, kind))

    def reduction_sum(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Sum elements along axes.

        result = sum of x over `axes`. The reduced axes stay, with size 1.

        Args:
            x: Tensor, floating-point, integer, or complex.
            axes: Axes to reduce: an int, a sequence of ints, or None (the default) for all; negative values count from
                the end.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x, in which the reduced axes have size 1.

        Raises:
            ShapeError: If an axis is out of range or repeated, or axes is empty.
            DTypeError: If x is not floating-point, integer, or complex.

        Gradient: the incoming gradient, broadcast to the shape of x.

        Source: MPSGraph reductionSumWithTensor:axes:name: (or axis:).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_sum(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
            [[3.0], [7.0]]
        """
        return self._reduction("reduction_sum", x, axes, name)

    def reduction_maximum(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return the largest element along axes, ignoring NaN.

        result = maximum of x over `axes`. The reduced axes stay, with size 1.

        Args:
            x: Tensor, floating-point or integer.
            axes: Axes to reduce: an int, a sequence of ints, or None (the default) for all; negative values count from
                the end.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x, in which the reduced axes have size 1.

        Raises:
            ShapeError: If an axis is out of range or repeated, or axes is empty.
            DTypeError: If x is not floating-point or integer.

        Gradient: the incoming gradient to the maximum, split equally between ties. A NaN that was ignored gets zero;
        where all elements are NaN, the gradient is NaN.

        Source: MPSGraph reductionMaximumWithTensor:axes:name: (or axis:).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_maximum(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
            [[2.0], [4.0]]
        """
        return self._reduction("reduction_maximum", x, axes, name)

    def reduction_minimum(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return the smallest element along axes, ignoring NaN.

        result = minimum of x over `axes`. The reduced axes stay, with size 1.

        Args:
            x: Tensor, floating-point or integer.
            axes: Axes to reduce: an int, a sequence of ints, or None (the default) for all; negative values count from
                the end.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x, in which the reduced axes have size 1.

        Raises:
            ShapeError: If an axis is out of range or repeated, or axes is empty.
            DTypeError: If x is not floating-point or integer.

        Gradient: the incoming gradient to the minimum, split equally between ties. A NaN that was ignored gets zero;
        where all elements are NaN, the gradient is NaN.

        Source: MPSGraph reductionMinimumWithTensor:axes:name: (or axis:).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_minimum(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
            [[1.0], [3.0]]
        """
        return self._reduction("reduction_minimum", x, axes, name)

    def reduction_maximum_propagate_nan(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return the largest element along axes, or NaN if any element is NaN.

        result = maximum of x over `axes`. The reduced axes stay, with size 1.

        Args:
            x: Tensor, floating-point or integer.
            axes: Axes to reduce: an int, a sequence of ints, or None (the default) for all; negative values count from
                the end.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x, in which the reduced axes have size 1.

        Raises:
            ShapeError: If an axis is out of range or repeated, or axes is empty.
            DTypeError: If x is not floating-point or integer.

        Gradient: the incoming gradient to the maximum, split equally between ties; NaN for all elements where the
        result is NaN.

        Source: MPSGraph reductionMaximumPropagateNaNWithTensor:axes:name: (or axis:).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_maximum_propagate_nan(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
            [[2.0], [4.0]]
        """
        return self._reduction("reduction_maximum_propagate_nan", x, axes, name)

    def reduction_minimum_propagate_nan(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return the smallest element along axes, or NaN if any element is NaN.

        result = minimum of x over `axes`. The reduced axes stay, with size 1.

        Args:
            x: Tensor, floating-point or integer.
            axes: Axes to reduce: an int, a sequence of ints, or None (the default) for all; negative values count from
                the end.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x, in which the reduced axes have size 1.

        Raises:
            ShapeError: If an axis is out of range or repeated, or axes is empty.
            DTypeError: If x is not floating-point or integer.

        Gradient: the incoming gradient to the minimum, split equally between ties; NaN for all elements where the
        result is NaN.

        Source: MPSGraph reductionMinimumPropagateNaNWithTensor:axes:name: (or axis:).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_minimum_propagate_nan(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
            [[1.0], [3.0]]
        """
        return self._reduction("reduction_minimum_propagate_nan", x, axes, name)

    def reduction_product(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Multiply elements along axes.

        result = product of x over `axes`. The reduced axes stay, with size 1.

        Args:
            x: Tensor, floating-point, integer, or complex.
            axes: Axes to reduce: an int, a sequence of ints, or None (the default) for all; negative values count from
                the end.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of x, in which the reduced axes have size 1.

        Raises:
            ShapeError: If an axis is out of range or repeated, or axes is empty.
            DTypeError: If x is not floating-point, integer, or complex.

        Gradient: incoming gradient * the product of the other elements, which is also correct where elements are 0.

        Source: MPSGraph reductionProductWithTensor:axes:name: (or axis:).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_product(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
            [[2.0], [12.0]]
        """
        return self._reduction("reduction_product", x, axes, name)

    def reduction_and(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return whether all elements along axes are true.

        result = the logical AND of x over `axes`. The reduced axes stay, with size 1.

        Args:
            x: Bool tensor.
            axes: Axes to reduce: an int, a sequence of ints, or None (the default) for all; negative values count from
                the end.
            name: Name of the operation.

        Returns:
            A bool tensor, in which the reduced axes have size 1.

        Raises:
            ShapeError: If an axis is out of range or repeated, or axes is empty.
            DTypeError: If x is not bool.

        Gradient: none, because the result is bool.

        Source: MPSGraph reductionAndWithTensor:axes:name: (or axis:).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_and(g.constant([[True, False], [True, True]]), axes=1)).tolist()
            [[False], [True]]
        """
        return self._reduction("reduction_and", x, axes, name)

    def reduction_or(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Return whether any element along axes is true.

        result = the logical OR of x over `axes`. The reduced axes stay, with size 1.

        Args:
            x: Bool tensor.
            axes: Axes to reduce: an int, a sequence of ints, or None (the default) for all; negative values count from
                the end.
            name: Name of the operation.

        Returns:
            A bool tensor, in which the reduced axes have size 1.

        Raises:
            ShapeError: If an axis is out of range or repeated, or axes is empty.
            DTypeError: If x is not bool.

        Gradient: none, because the result is bool.

        Source: MPSGraph reductionOrWithTensor:axes:name: (or axis:).

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_or(g.constant([[True, False], [False, False]]), axes=1)).tolist()
            [[True], [False]]
        """
        return self._reduction("reduction_or", x, axes, name)

    def reduction_arg_maximum(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Return the index of the largest element along an axis, or of the first of several equal elements.

        result = the index of the maximum along `axis`; the axis stays, with size 1.

        Args:
            x: Floating-point or integer tensor of rank 1 or higher.
            axis: Axis to search; negative values count from the end. Defaults to the last axis.
            name: Name of the operation.

        Returns:
            An int32 tensor with the shape of x, except for size 1 along `axis`.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is not floating-point or integer.

        Gradient: none, because the result is an integer.

        Source: MPSGraph reductionArgMaximumWithTensor:axis:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_arg_maximum(g.constant([[1.0, 5.0], [4.0, 3.0]]), axis=1)).tolist()
            [[1], [0]]
        """
        return self._tensor("reduction_arg_maximum", [x], name, axis=axis)

    def reduction_arg_minimum(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Return the index of the smallest element along an axis, or of the first of several equal elements.

        result = the index of the minimum along `axis`; the axis stays, with size 1.

        Args:
            x: Floating-point or integer tensor of rank 1 or higher.
            axis: Axis to search; negative values count from the end. Defaults to the last axis.
            name: Name of the operation.

        Returns:
            An int32 tensor with the shape of x, except for size 1 along `axis`.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is not floating-point or integer.

        Gradient: none, because the result is an integer.

        Source: MPSGraph reductionArgMinimumWithTensor:axis:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.reduction_arg_minimum(g.constant([[1.0, 5.0], [4.0, 3.0]]), axis=1)).tolist()
            [[0], [1]]
        """
        return self._tensor("reduction_arg_minimum", [x], name, axis=axis)
