"""Running sums, products and extrema along an axis.

`exclusive` leaves the element itself out, so that the first one is neutral (0, 1, the largest or the lowest value);
`reverse` runs from the other end.
"""

from __future__ import annotations

from ._family import Family, Tensor


class Cumulative(Family):
    """cumulative_sum to cumulative_maximum."""

    def _cumulative(
        self, kind: str, x: Tensor, axis: int | Tensor, exclusive: bool, reverse: bool, name: str | None
    ) -> Tensor:
        operands, attributes = self._tensor_attributes(kind, axis=axis)
        return self._tensor(kind, [x, *operands], name, exclusive=exclusive, reverse=reverse, **attributes)

    def cumulative_sum(
        self,
        x: Tensor,
        axis: int | Tensor,
        exclusive: bool = False,
        reverse: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Running sum along an axis.

        result_i = x_0 + ... + x_i; exclusive: up to x_(i-1), beginning with 0.
        Args: x, a float or integer dtype; axis, an int, negative counts from the end, or one in an int tensor; reverse,
        from the last element on. Result: x's type. Errors: ShapeError, DTypeError.
        Gradient: the cumulative_sum of incoming in the other direction.
        Source: MPSGraph cumulativeSumWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without flags.

        >>> g = mg.Graph()
        >>> g.run({}, g.cumulative_sum(g.constant([1.0, 2.0, 3.0]), 0)).tolist()
        [1.0, 3.0, 6.0]
        >>> g.run({}, g.cumulative_sum(g.constant([1.0, 2.0, 3.0]), 0, exclusive=True, reverse=True)).tolist()
        [5.0, 3.0, 0.0]
        """
        return self._cumulative("cumulative_sum", x, axis, exclusive, reverse, name)

    def cumulative_product(
        self,
        x: Tensor,
        axis: int | Tensor,
        exclusive: bool = False,
        reverse: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Running product along an axis.

        result_i = x_0 · ... · x_i; exclusive: up to x_(i-1), beginning with 1.
        Args: x, a float or integer dtype; axis, an int, negative counts from the end, or one in an int tensor; reverse,
        from the last element on. Result: x's type. Errors: ShapeError, DTypeError.
        Gradient: computed without division, so it is right where elements are zero, in every order.
        Source: MPSGraph cumulativeProductWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without
        flags.

        >>> g = mg.Graph()
        >>> g.run({}, g.cumulative_product(g.constant([2.0, 3.0, 4.0]), 0)).tolist()
        [2.0, 6.0, 24.0]
        """
        return self._cumulative("cumulative_product", x, axis, exclusive, reverse, name)

    def cumulative_minimum(
        self,
        x: Tensor,
        axis: int | Tensor,
        exclusive: bool = False,
        reverse: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Running minimum along an axis; NaN once it has come.

        result_i = min(x_0, ..., x_i); exclusive: up to x_(i-1), beginning with infinity or the dtype's largest integer.
        Args: x, a float or integer dtype; axis, an int, negative counts from the end, or one in an int tensor; reverse,
        from the last element on. Result: x's type. Errors: ShapeError, DTypeError.
        Gradient: incoming to the element that is the minimum, the last of several.
        Source: MPSGraph cumulativeMinimumWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without
        flags.

        >>> g = mg.Graph()
        >>> g.run({}, g.cumulative_minimum(g.constant([2.0, 3.0, 1.0]), 0)).tolist()
        [2.0, 2.0, 1.0]
        """
        return self._cumulative("cumulative_minimum", x, axis, exclusive, reverse, name)

    def cumulative_maximum(
        self,
        x: Tensor,
        axis: int | Tensor,
        exclusive: bool = False,
        reverse: bool = False,
        name: str | None = None,
    ) -> Tensor:
        """Running maximum along an axis; NaN once it has come.

        result_i = max(x_0, ..., x_i); exclusive: up to x_(i-1), beginning with -infinity or the dtype's lowest integer.
        Args: x, a float or integer dtype; axis, an int, negative counts from the end, or one in an int tensor; reverse,
        from the last element on. Result: x's type. Errors: ShapeError, DTypeError.
        Gradient: incoming to the element that is the maximum, the last of several.
        Source: MPSGraph cumulativeMaximumWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without
        flags.

        >>> g = mg.Graph()
        >>> g.run({}, g.cumulative_maximum(g.constant([2.0, 3.0, 1.0]), 0)).tolist()
        [2.0, 3.0, 3.0]
        """
        return self._cumulative("cumulative_maximum", x, axis, exclusive, reverse, name)
