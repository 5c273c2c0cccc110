"""Element-wise operations on two and three operands: arithmetic, comparisons, logic, bit operations, select, and clamp.

Operands broadcast as in numpy and must share one dtype; otherwise a DTypeError names the missing cast. A Python number
becomes a constant with the dtype of the tensor operand. Operations on one operand are in arithmetic.py.
"""

from __future__ import annotations

from ._family import Family, Tensor, TensorLike


class BinaryArithmetic(Family):
    """Graph methods for element-wise operations on two or three operands."""

    def addition(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Add two operands element-wise.

        result = primary + secondary.

        Args:
            primary: First operand, a tensor or number: floating-point, integer, or complex.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point, integer, or complex.

        Gradient: the incoming gradient to both operands, summed over broadcast axes.

        Source: MPSGraph additionWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.addition(g.constant([1.0, 2.0]), 10)).tolist()
            [11.0, 12.0]
        """
        return self._tensor("addition", [primary, secondary], name)

    def subtraction(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Subtract secondary from primary element-wise.

        result = primary - secondary.

        Args:
            primary: First operand, a tensor or number: floating-point, integer, or complex.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point, integer, or complex.

        Gradient: the incoming gradient to primary and its negative to secondary, summed over broadcast axes.

        Source: MPSGraph subtractionWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.subtraction(g.constant([5.0, 2.0]), 2)).tolist()
            [3.0, 0.0]
        """
        return self._tensor("subtraction", [primary, secondary], name)

    def multiplication(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Multiply two operands element-wise.

        result = primary * secondary.

        Args:
            primary: First operand, a tensor or number: floating-point, integer, or complex.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point, integer, or complex.

        Gradient: incoming gradient * secondary to primary and incoming gradient * primary to secondary, summed over
        broadcast axes.

        Source: MPSGraph multiplicationWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.multiplication(g.constant([1.0, 2.0]), 3)).tolist()
            [3.0, 6.0]
        """
        return self._tensor("multiplication", [primary, secondary], name)

    def division(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Divide primary by secondary element-wise; integer quotients are rounded toward zero.

        result = primary / secondary.

        Args:
            primary: First operand, a tensor or number: floating-point, integer, or complex.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point, integer, or complex.

        Gradient: incoming gradient / secondary to primary and -incoming gradient * primary / secondary^2 to secondary,
        summed over broadcast axes.

        Source: MPSGraph divisionWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.division(g.constant([1.0, 3.0]), 2)).tolist()
            [0.5, 1.5]
        """
        return self._tensor("division", [primary, secondary], name)

    def modulo(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the remainder with the sign of the dividend element-wise, as C's fmod does.

        result = primary - secondary * truncate(primary / secondary).

        Args:
            primary: First operand, a tensor or number: floating-point or integer.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point or integer.

        Gradient: the incoming gradient to primary and -incoming gradient * truncate(primary / secondary) to secondary,
        summed over broadcast axes.

        Source: MPSGraph moduloWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.modulo(g.constant([5.0, -5.0]), 3)).tolist()
            [2.0, -2.0]
        """
        return self._tensor("modulo", [primary, secondary], name)

    def floor_modulo(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the remainder with the sign of the divisor element-wise, as Python's % does.

        result = primary - secondary * floor(primary / secondary).

        Args:
            primary: First operand, a tensor or number: floating-point or integer.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point or integer.

        Gradient: the incoming gradient to primary and -incoming gradient * floor(primary / secondary) to secondary,
        summed over broadcast axes.

        Source: MPSGraph floorModuloWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.floor_modulo(g.constant([5.0, -5.0]), 3)).tolist()
            [2.0, 1.0]
        """
        return self._tensor("floor_modulo", [primary, secondary], name)

    def division_no_nan(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Divide primary by secondary element-wise, returning 0 where the divisor is 0.

        result = secondary == 0 ? 0 : primary / secondary.

        Args:
            primary: First operand, a tensor or number: floating-point.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: the gradient of division where secondary is nonzero, and zero elsewhere, summed over broadcast axes.

        Source: MPSGraph divisionNoNaNWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.division_no_nan(g.constant([1.0, 1.0]), g.constant([2.0, 0.0]))).tolist()
            [0.5, 0.0]
        """
        return self._tensor("division_no_nan", [primary, secondary], name)

    def power(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Raise primary to the power secondary element-wise.

        result = primary^secondary.

        Args:
            primary: First operand, a tensor or number: floating-point, integer, or complex.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point, integer, or complex.

        Gradient: incoming gradient * secondary * primary^(secondary - 1) to primary and incoming gradient * result *
        ln(primary) to secondary, summed over broadcast axes.

        Source: MPSGraph powerWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.power(g.constant([2.0, 3.0]), 2)).tolist()
            [4.0, 9.0]
        """
        return self._tensor("power", [primary, secondary], name)

    def minimum(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return the smaller of two operands element-wise; if one is NaN, return the other.

        result = min(primary, secondary).

        Args:
            primary: First operand, a tensor or number: floating-point or integer.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point or integer.

        Gradient: the incoming gradient to the selected operand, split equally between operands that are equal. An
        operand that is NaN gets zero if the other was selected; both operands get NaN where the result is NaN.
        Gradients are summed over broadcast axes.

        Source: MPSGraph minimumWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.minimum(g.constant([1.0, 5.0]), 3)).tolist()
            [1.0, 3.0]
        """
        return self._tensor("minimum", [primary, secondary], name)

    def maximum(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return the larger of two operands element-wise; if one is NaN, return the other.

        result = max(primary, secondary).

        Args:
            primary: First operand, a tensor or number: floating-point or integer.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point or integer.

        Gradient: the incoming gradient to the selected operand, split equally between operands that are equal. An
        operand that is NaN gets zero if the other was selected; both operands get NaN where the result is NaN.
        Gradients are summed over broadcast axes.

        Source: MPSGraph maximumWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.maximum(g.constant([1.0, 5.0]), 3)).tolist()
            [3.0, 5.0]
        """
        return self._tensor("maximum", [primary, secondary], name)

    def minimum_with_nan_propagation(
        self, primary: TensorLike, secondary: TensorLike, name: str | None = None
    ) -> Tensor:
        """Return the smaller of two operands element-wise, or NaN if either is NaN.

        result = min(primary, secondary).

        Args:
            primary: First operand, a tensor or number: floating-point or integer.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point or integer.

        Gradient: the incoming gradient to the selected operand, split equally between operands that are equal; NaN to
        both operands where the result is NaN. Gradients are summed over broadcast axes.

        Source: MPSGraph minimumWithNaNPropagationWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.minimum_with_nan_propagation(g.constant([1.0, 5.0]), 3)).tolist()
            [1.0, 3.0]
        """
        return self._tensor("minimum_with_nan_propagation", [primary, secondary], name)

    def maximum_with_nan_propagation(
        self, primary: TensorLike, secondary: TensorLike, name: str | None = None
    ) -> Tensor:
        """Return the larger of two operands element-wise, or NaN if either is NaN.

        result = max(primary, secondary).

        Args:
            primary: First operand, a tensor or number: floating-point or integer.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point or integer.

        Gradient: the incoming gradient to the selected operand, split equally between operands that are equal; NaN to
        both operands where the result is NaN. Gradients are summed over broadcast axes.

        Source: MPSGraph maximumWithNaNPropagationWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.maximum_with_nan_propagation(g.constant([1.0, 5.0]), 3)).tolist()
            [3.0, 5.0]
        """
        return self._tensor("maximum_with_nan_propagation", [primary, secondary], name)

    def atan2(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the angle of the point (secondary, primary) element-wise, in radians in [-pi, pi].

        result = atan2(primary, secondary).

        Args:
            primary: First operand, a tensor or number: floating-point.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point.

        Gradient: incoming gradient * secondary / (primary^2 + secondary^2) to primary and -incoming gradient * primary
        / (primary^2 + secondary^2) to secondary, summed over broadcast axes.

        Source: MPSGraph atan2WithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.atan2(g.constant([0.0]), 1)).tolist()
            [0.0]
        """
        return self._tensor("atan2", [primary, secondary], name)

    def equal(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether the operands are equal, element-wise.

        result = primary == secondary, as bool.

        Args:
            primary: First operand, a tensor or number of any dtype.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ.

        Gradient: none, because the result is bool.

        Source: MPSGraph equalWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.equal(g.constant([1, 2]), 2)).tolist()
            [False, True]
        """
        return self._tensor("equal", [primary, secondary], name)

    def not_equal(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether the operands differ, element-wise.

        result = primary != secondary, as bool.

        Args:
            primary: First operand, a tensor or number of any dtype.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ.

        Gradient: none, because the result is bool.

        Source: MPSGraph notEqualWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.not_equal(g.constant([1, 2]), 2)).tolist()
            [True, False]
        """
        return self._tensor("not_equal", [primary, secondary], name)

    def less_than(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether primary is less than secondary, element-wise.

        result = primary < secondary, as bool.

        Args:
            primary: First operand, a tensor or number, not complex.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are complex.

        Gradient: none, because the result is bool.

        Source: MPSGraph lessThanWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.less_than(g.constant([1, 2]), 2)).tolist()
            [True, False]
        """
        return self._tensor("less_than", [primary, secondary], name)

    def less_than_or_equal_to(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether primary is less than or equal to secondary, element-wise.

        result = primary <= secondary, as bool.

        Args:
            primary: First operand, a tensor or number, not complex.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are complex.

        Gradient: none, because the result is bool.

        Source: MPSGraph lessThanOrEqualToWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.less_than_or_equal_to(g.constant([2, 3]), 2)).tolist()
            [True, False]
        """
        return self._tensor("less_than_or_equal_to", [primary, secondary], name)

    def greater_than(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether primary is greater than secondary, element-wise.

        result = primary > secondary, as bool.

        Args:
            primary: First operand, a tensor or number, not complex.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are complex.

        Gradient: none, because the result is bool.

        Source: MPSGraph greaterThanWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.greater_than(g.constant([2, 3]), 2)).tolist()
            [False, True]
        """
        return self._tensor("greater_than", [primary, secondary], name)

    def greater_than_or_equal_to(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Return whether primary is greater than or equal to secondary, element-wise.

        result = primary >= secondary, as bool.

        Args:
            primary: First operand, a tensor or number, not complex.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are complex.

        Gradient: none, because the result is bool.

        Source: MPSGraph greaterThanOrEqualToWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.greater_than_or_equal_to(g.constant([1, 2]), 2)).tolist()
            [False, True]
        """
        return self._tensor("greater_than_or_equal_to", [primary, secondary], name)

    def logical_and(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical AND element-wise: True where both operands are true.

        result = primary and secondary.

        Args:
            primary: First operand, a bool tensor or a bool.
            secondary: Second operand, bool, with a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If an operand is not bool.

        Gradient: none, because the result is bool.

        Source: MPSGraph logicalANDWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.logical_and(g.constant([True, False]), True)).tolist()
            [True, False]
        """
        return self._tensor("logical_and", [primary, secondary], name)

    def logical_or(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical OR element-wise: True where at least one operand is true.

        result = primary or secondary.

        Args:
            primary: First operand, a bool tensor or a bool.
            secondary: Second operand, bool, with a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If an operand is not bool.

        Gradient: none, because the result is bool.

        Source: MPSGraph logicalORWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.logical_or(g.constant([True, False]), False)).tolist()
            [True, False]
        """
        return self._tensor("logical_or", [primary, secondary], name)

    def logical_nand(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical NAND element-wise: True where at least one operand is false.

        result = not (primary and secondary).

        Args:
            primary: First operand, a bool tensor or a bool.
            secondary: Second operand, bool, with a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If an operand is not bool.

        Gradient: none, because the result is bool.

        Source: MPSGraph logicalNANDWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.logical_nand(g.constant([True, False]), True)).tolist()
            [False, True]
        """
        return self._tensor("logical_nand", [primary, secondary], name)

    def logical_nor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical NOR element-wise: True where both operands are false.

        result = not (primary or secondary).

        Args:
            primary: First operand, a bool tensor or a bool.
            secondary: Second operand, bool, with a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If an operand is not bool.

        Gradient: none, because the result is bool.

        Source: MPSGraph logicalNORWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.logical_nor(g.constant([True, False]), False)).tolist()
            [False, True]
        """
        return self._tensor("logical_nor", [primary, secondary], name)

    def logical_xor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical XOR element-wise: True where exactly one operand is true.

        result = primary != secondary.

        Args:
            primary: First operand, a bool tensor or a bool.
            secondary: Second operand, bool, with a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If an operand is not bool.

        Gradient: none, because the result is bool.

        Source: MPSGraph logicalXORWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.logical_xor(g.constant([True, False]), True)).tolist()
            [False, True]
        """
        return self._tensor("logical_xor", [primary, secondary], name)

    def logical_xnor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the logical XNOR element-wise: True where the operands are equal.

        result = primary == secondary.

        Args:
            primary: First operand, a bool tensor or a bool.
            secondary: Second operand, bool, with a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A bool tensor of the broadcast shape.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If an operand is not bool.

        Gradient: none, because the result is bool.

        Source: MPSGraph logicalXNORWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.logical_xnor(g.constant([True, False]), True)).tolist()
            [True, False]
        """
        return self._tensor("logical_xnor", [primary, secondary], name)

    def bitwise_and(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the bitwise AND element-wise.

        result = primary & secondary.

        Args:
            primary: First operand, an integer tensor or an int.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not integer.

        Gradient: none, because integers are not differentiable.

        Source: MPSGraph bitwiseANDWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.bitwise_and(g.constant([6, 5]), 3)).tolist()
            [2, 1]
        """
        return self._tensor("bitwise_and", [primary, secondary], name)

    def bitwise_or(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the bitwise OR element-wise.

        result = primary | secondary.

        Args:
            primary: First operand, an integer tensor or an int.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not integer.

        Gradient: none, because integers are not differentiable.

        Source: MPSGraph bitwiseORWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.bitwise_or(g.constant([6, 5]), 3)).tolist()
            [7, 7]
        """
        return self._tensor("bitwise_or", [primary, secondary], name)

    def bitwise_xor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Compute the bitwise XOR element-wise.

        result = primary ^ secondary.

        Args:
            primary: First operand, an integer tensor or an int.
            secondary: Second operand, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not integer.

        Gradient: none, because integers are not differentiable.

        Source: MPSGraph bitwiseXORWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.bitwise_xor(g.constant([6, 5]), 3)).tolist()
            [5, 6]
        """
        return self._tensor("bitwise_xor", [primary, secondary], name)

    def bitwise_left_shift(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Shift bits to the left element-wise.

        result = primary << secondary.

        Args:
            primary: First operand, an integer tensor or an int.
            secondary: Number of bits to shift by, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not integer.

        Gradient: none, because integers are not differentiable.

        Source: MPSGraph bitwiseLeftShiftWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.bitwise_left_shift(g.constant([1, 3]), 2)).tolist()
            [4, 12]
        """
        return self._tensor("bitwise_left_shift", [primary, secondary], name)

    def bitwise_right_shift(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Shift bits to the right element-wise; signed integers keep their sign.

        result = primary >> secondary.

        Args:
            primary: First operand, an integer tensor or an int.
            secondary: Number of bits to shift by, with the same dtype and a shape that broadcasts with primary's.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape, with the dtype of the operands.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not integer.

        Gradient: none, because integers are not differentiable.

        Source: MPSGraph bitwiseRightShiftWithPrimaryTensor:secondaryTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.bitwise_right_shift(g.constant([8, -8]), 2)).tolist()
            [2, -2]
        """
        return self._tensor("bitwise_right_shift", [primary, secondary], name)

    def select(
        self, predicate: Tensor, when_true: TensorLike, when_false: TensorLike, name: str | None = None
    ) -> Tensor:
        """Choose between two tensors element-wise.

        result = predicate ? when_true : when_false. Both operands are computed, but a NaN in the operand that is not
        chosen does not reach the result.

        Args:
            predicate: Bool tensor that selects when_true where it is True.
            when_true: Tensor or number of any dtype.
            when_false: Tensor or number with the dtype of when_true.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape of all three operands, with the dtype of when_true.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If predicate is not bool, or the dtypes of when_true and when_false differ.

        Gradient: the incoming gradient to when_true where predicate is True, and to when_false elsewhere.

        Source: MPSGraph selectWithPredicateTensor:truePredicateTensor:falsePredicateTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.select(g.constant([True, False]), 1.0, 2.0)).tolist()
            [1.0, 2.0]
        """
        return self._tensor("select", [predicate, *self._operands("select", [when_true, when_false])], name)

    def clamp(self, x: TensorLike, minimum: TensorLike, maximum: TensorLike, name: str | None = None) -> Tensor:
        """Limit x to the range from minimum to maximum element-wise.

        result = min(max(x, minimum), maximum). NaN in x stays NaN; a NaN bound does not limit x.

        Args:
            x: Tensor or number, floating-point or integer.
            minimum: Lower bound, with the dtype of x and a shape that broadcasts with it.
            maximum: Upper bound, with the dtype of x and a shape that broadcasts with it.
            name: Name of the operation.

        Returns:
            A tensor of the broadcast shape of all three operands, with their dtype.

        Raises:
            ShapeError: If the shapes do not broadcast.
            DTypeError: If the dtypes differ or are not floating-point or integer.

        Gradient: the incoming gradient to x where minimum <= x <= maximum, and elsewhere to the bound that was
        selected.

        Source: MPSGraph clampWithTensor:minValueTensor:maxValueTensor:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.clamp(g.constant([-1.0, 0.5, 7.0]), 0, 1)).tolist()
            [0.0, 0.5, 1.0]
        """
        return self._tensor("clamp", [x, minimum, maximum], name)
