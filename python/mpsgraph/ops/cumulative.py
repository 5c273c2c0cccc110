"""Cumulative sums, products, minima, and maxima along an axis.

With `exclusive`, the element itself is left out, so the first result is the neutral value (0, 1, or the largest or
lowest value of the dtype). With `reverse`, accumulation starts at the last element.
"""

from __future__ import annotations

from ._family import Family, Tensor


class Cumulative(Family):
    """Graph methods for cumulative sums, products, minima, and maxima."""

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
        """Compute the cumulative sum along an axis.

        result_i = x_0 + ... + x_i; with `exclusive`, x_0 + ... + x_(i-1), starting with 0.

        Args:
            x: Tensor, floating-point or integer.
            axis: Axis to accumulate along: an int, where negative values count from the end, or an integer tensor of
                one element.
            exclusive: Whether to exclude the element itself from its result. Defaults to False.
            reverse: Whether to accumulate from the last element to the first. Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is not floating-point or integer, or an axis tensor is not integer.

        Gradient: the cumulative sum of the incoming gradient in the opposite direction.

        Source: MPSGraph cumulativeSumWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without flags.

        Example:
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
        """Compute the cumulative product along an axis.

        result_i = x_0 * ... * x_i; with `exclusive`, x_0 * ... * x_(i-1), starting with 1.

        Args:
            x: Tensor, floating-point or integer.
            axis: Axis to accumulate along: an int, where negative values count from the end, or an integer tensor of
                one element.
            exclusive: Whether to exclude the element itself from its result. Defaults to False.
            reverse: Whether to accumulate from the last element to the first. Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is not floating-point or integer, or an axis tensor is not integer.

        Gradient: computed without division, so that it is correct where elements are zero, for derivatives of every
        order.

        Source: MPSGraph cumulativeProductWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without
        flags.

        Example:
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
        """Compute the cumulative minimum along an axis; from the first NaN on, results are NaN.

        result_i = min(x_0, ..., x_i); with `exclusive`, min(x_0, ..., x_(i-1)), starting with infinity or the largest
        integer of the dtype.

        Args:
            x: Tensor, floating-point or integer.
            axis: Axis to accumulate along: an int, where negative values count from the end, or an integer tensor of
                one element.
            exclusive: Whether to exclude the element itself from its result. Defaults to False.
            reverse: Whether to accumulate from the last element to the first. Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is not floating-point or integer, or an axis tensor is not integer.

        Gradient: the incoming gradient to the element that is the minimum, or to the last of several equal elements.

        Source: MPSGraph cumulativeMinimumWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without
        flags.

        Example:
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
        """Compute the cumulative maximum along an axis; from the first NaN on, results are NaN.

        result_i = max(x_0, ..., x_i); with `exclusive`, max(x_0, ..., x_(i-1)), starting with -infinity or the lowest
        integer of the dtype.

        Args:
            x: Tensor, floating-point or integer.
            axis: Axis to accumulate along: an int, where negative values count from the end, or an integer tensor of
                one element.
            exclusive: Whether to exclude the element itself from its result. Defaults to False.
            reverse: Whether to accumulate from the last element to the first. Defaults to False.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If axis is out of range.
            DTypeError: If x is not floating-point or integer, or an axis tensor is not integer.

        Gradient: the incoming gradient to the element that is the maximum, or to the last of several equal elements.

        Source: MPSGraph cumulativeMaximumWithTensor:axis:exclusive:reverse:name:, …axisTensor:…, and both without
        flags.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.cumulative_maximum(g.constant([2.0, 3.0, 1.0]), 0)).tolist()
            [2.0, 3.0, 3.0]
        """
        return self._cumulative("cumulative_maximum", x, axis, exclusive, reverse, name)
