"""Reductions: sums, extremes, products, logic and positions of extremes along axes.

As in MPSGraph the reduced axes stay, with size 1; `squeeze` takes them away. `axes` is an int, a sequence of ints or
None for all; negative axes count from the end. An empty sequence is a ShapeError, because it could mean either.
"""

from __future__ import annotations

from ._family import Axes, Family, Tensor, axes_attribute


class Reduction(Family):
    """reduction_sum to reduction_arg_minimum."""

    def _reduction(self, kind: str, x: Tensor, axes: Axes, name: str | None) -> Tensor:
        return self._tensor(kind, [x], name, axes=axes_attribute(axes, kind))

    def reduction_sum(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Sum along axes.

        result = the sum of x over `axes`, which stay with size 1.
        Args: x, a float, integer or complex dtype; axes, an int, ints or None for all. Result: x's dtype.
        Errors: ShapeError for axes outside or an empty sequence, DTypeError.
        Gradient: incoming, broadcast to x's shape.
        Source: MPSGraph reductionSumWithTensor:axes:name: (or axis:).

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_sum(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
        [[3.0], [7.0]]
        """
        return self._reduction("reduction_sum", x, axes, name)

    def reduction_maximum(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Largest element along axes; NaN elements are passed over.

        result = the maximum of x over `axes`, which stay with size 1.
        Args: x, a float or integer dtype; axes, an int, ints or None for all. Result: x's dtype.
        Errors: ShapeError for axes outside or an empty sequence, DTypeError.
        Gradient: incoming to the maximum, shared equally between ties; a NaN that was passed over gets 0, and where all
        are NaN the gradient is NaN.
        Source: MPSGraph reductionMaximumWithTensor:axes:name: (or axis:).

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_maximum(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
        [[2.0], [4.0]]
        """
        return self._reduction("reduction_maximum", x, axes, name)

    def reduction_minimum(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Smallest element along axes; NaN elements are passed over.

        result = the minimum of x over `axes`, which stay with size 1.
        Args: x, a float or integer dtype; axes, an int, ints or None for all. Result: x's dtype.
        Errors: ShapeError for axes outside or an empty sequence, DTypeError.
        Gradient: incoming to the minimum, shared equally between ties; a NaN that was passed over gets 0, and where all
        are NaN the gradient is NaN.
        Source: MPSGraph reductionMinimumWithTensor:axes:name: (or axis:).

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_minimum(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
        [[1.0], [3.0]]
        """
        return self._reduction("reduction_minimum", x, axes, name)

    def reduction_maximum_propagate_nan(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Largest element along axes; NaN when any element is.

        result = the maximum of x over `axes`, which stay with size 1.
        Args: x, a float or integer dtype; axes, an int, ints or None for all. Result: x's dtype.
        Errors: ShapeError for axes outside or an empty sequence, DTypeError.
        Gradient: incoming to the maximum, shared equally between ties; NaN for all elements where the result is NaN.
        Source: MPSGraph reductionMaximumPropagateNaNWithTensor:axes:name: (or axis:).

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_maximum_propagate_nan(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
        [[2.0], [4.0]]
        """
        return self._reduction("reduction_maximum_propagate_nan", x, axes, name)

    def reduction_minimum_propagate_nan(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Smallest element along axes; NaN when any element is.

        result = the minimum of x over `axes`, which stay with size 1.
        Args: x, a float or integer dtype; axes, an int, ints or None for all. Result: x's dtype.
        Errors: ShapeError for axes outside or an empty sequence, DTypeError.
        Gradient: incoming to the minimum, shared equally between ties; NaN for all elements where the result is NaN.
        Source: MPSGraph reductionMinimumPropagateNaNWithTensor:axes:name: (or axis:).

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_minimum_propagate_nan(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
        [[1.0], [3.0]]
        """
        return self._reduction("reduction_minimum_propagate_nan", x, axes, name)

    def reduction_product(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Product along axes.

        result = the product of x over `axes`, which stay with size 1.
        Args: x, a float, integer or complex dtype; axes, an int, ints or None for all. Result: x's dtype.
        Errors: ShapeError for axes outside or an empty sequence, DTypeError.
        Gradient: incoming * the product of the other elements, correct also where elements are 0.
        Source: MPSGraph reductionProductWithTensor:axes:name: (or axis:).

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_product(g.constant([[1.0, 2.0], [3.0, 4.0]]), axes=1)).tolist()
        [[2.0], [12.0]]
        """
        return self._reduction("reduction_product", x, axes, name)

    def reduction_and(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Are all elements true?

        result = the logical and of x over `axes`, which stay with size 1.
        Args: x, bool; axes, an int, ints or None for all. Result: x's dtype.
        Errors: ShapeError for axes outside or an empty sequence, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph reductionAndWithTensor:axes:name: (or axis:).

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_and(g.constant([[True, False], [True, True]]), axes=1)).tolist()
        [[False], [True]]
        """
        return self._reduction("reduction_and", x, axes, name)

    def reduction_or(self, x: Tensor, axes: Axes = None, name: str | None = None) -> Tensor:
        """Is any element true?

        result = the logical or of x over `axes`, which stay with size 1.
        Args: x, bool; axes, an int, ints or None for all. Result: x's dtype.
        Errors: ShapeError for axes outside or an empty sequence, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph reductionOrWithTensor:axes:name: (or axis:).

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_or(g.constant([[True, False], [False, False]]), axes=1)).tolist()
        [[True], [False]]
        """
        return self._reduction("reduction_or", x, axes, name)

    def reduction_arg_maximum(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Position of the largest element along an axis; of equals, the first.

        result = the index along `axis` of the maximum, as int32; the axis stays with size 1.
        Args: x, rank 1 or more, a float or integer dtype; axis, negative counts from the end. Errors: ShapeError,
        DTypeError. Gradient: none, the result is an integer.
        Source: MPSGraph reductionArgMaximumWithTensor:axis:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_arg_maximum(g.constant([[1.0, 5.0], [4.0, 3.0]]), axis=1)).tolist()
        [[1], [0]]
        """
        return self._tensor("reduction_arg_maximum", [x], name, axis=axis)

    def reduction_arg_minimum(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        """Position of the smallest element along an axis; of equals, the first.

        result = the index along `axis` of the minimum, as int32; the axis stays with size 1.
        Args: x, rank 1 or more, a float or integer dtype; axis, negative counts from the end. Errors: ShapeError,
        DTypeError. Gradient: none, the result is an integer.
        Source: MPSGraph reductionArgMinimumWithTensor:axis:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.reduction_arg_minimum(g.constant([[1.0, 5.0], [4.0, 3.0]]), axis=1)).tolist()
        [[0], [1]]
        """
        return self._tensor("reduction_arg_minimum", [x], name, axis=axis)
