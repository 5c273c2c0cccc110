"""Arithmetic on two and three operands: sums to powers, comparisons, logic, bits, select and clamp.

All are element-wise with numpy broadcasting; all operands have one dtype, or a DTypeError names the missing cast.
A Python number stands for a constant of the other operand's dtype. The one-operand half of the family is in
arithmetic.py.
"""

from __future__ import annotations

from ._family import Family, Tensor, TensorLike


class BinaryArithmetic(Family):
    """Element-wise operations on two or three tensors."""

    def addition(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Sum.

        result = primary + secondary.
        Args: primary, secondary, shapes that broadcast, one float, integer or complex dtype; name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming to both (summed over axes that were broadcast).
        Source: MPSGraph additionWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.addition(g.constant([1.0, 2.0]), 10)).tolist()
        [11.0, 12.0]
        """
        return self._tensor("addition", [primary, secondary], name)

    def subtraction(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Difference.

        result = primary - secondary.
        Args: primary, secondary, shapes that broadcast, one float, integer or complex dtype; name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming to primary, -incoming to secondary (summed over axes that were broadcast).
        Source: MPSGraph subtractionWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.subtraction(g.constant([5.0, 2.0]), 2)).tolist()
        [3.0, 0.0]
        """
        return self._tensor("subtraction", [primary, secondary], name)

    def multiplication(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Product.

        result = primary * secondary.
        Args: primary, secondary, shapes that broadcast, one float, integer or complex dtype; name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming * secondary to primary, incoming * primary to secondary (summed over axes that were
        broadcast).
        Source: MPSGraph multiplicationWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.multiplication(g.constant([1.0, 2.0]), 3)).tolist()
        [3.0, 6.0]
        """
        return self._tensor("multiplication", [primary, secondary], name)

    def division(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Quotient; integers are divided toward zero.

        result = primary / secondary.
        Args: primary, secondary, shapes that broadcast, one float, integer or complex dtype; name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming / secondary to primary, -incoming * primary / secondary^2 to secondary (summed over
        axes that were broadcast).
        Source: MPSGraph divisionWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.division(g.constant([1.0, 3.0]), 2)).tolist()
        [0.5, 1.5]
        """
        return self._tensor("division", [primary, secondary], name)

    def modulo(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Remainder with the sign of the dividend, as C's fmod.

        result = primary - secondary * truncate(primary / secondary).
        Args: primary, secondary, shapes that broadcast, one float or integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming to primary, -incoming * truncate(primary / secondary) to secondary (summed over
        axes that were broadcast).
        Source: MPSGraph moduloWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.modulo(g.constant([5.0, -5.0]), 3)).tolist()
        [2.0, -2.0]
        """
        return self._tensor("modulo", [primary, secondary], name)

    def floor_modulo(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Remainder with the sign of the divisor, as Python's %.

        result = primary - secondary * floor(primary / secondary).
        Args: primary, secondary, shapes that broadcast, one float or integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming to primary, -incoming * floor(primary / secondary) to secondary (summed over axes
        that were broadcast).
        Source: MPSGraph floorModuloWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.floor_modulo(g.constant([5.0, -5.0]), 3)).tolist()
        [2.0, 1.0]
        """
        return self._tensor("floor_modulo", [primary, secondary], name)

    def division_no_nan(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Quotient that is 0 where the divisor is 0.

        result = secondary == 0 ? 0 : primary / secondary.
        Args: primary, secondary, shapes that broadcast, one floating-point dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: as of division where secondary is not 0, else zero (summed over axes that were broadcast).
        Source: MPSGraph divisionNoNaNWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.division_no_nan(g.constant([1.0, 1.0]), g.constant([2.0, 0.0]))).tolist()
        [0.5, 0.0]
        """
        return self._tensor("division_no_nan", [primary, secondary], name)

    def power(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Power.

        result = primary^secondary.
        Args: primary, secondary, shapes that broadcast, one float, integer or complex dtype; name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming * secondary * primary^(secondary - 1) to primary, incoming * result * ln(primary)
        to secondary (summed over axes that were broadcast).
        Source: MPSGraph powerWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.power(g.constant([2.0, 3.0]), 2)).tolist()
        [4.0, 9.0]
        """
        return self._tensor("power", [primary, secondary], name)

    def minimum(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Smaller operand; where one is NaN, the other.

        result = min(primary, secondary).
        Args: primary, secondary, shapes that broadcast, one float or integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming to the operand that was taken, half each where equal; 0 to a NaN that was passed over, NaN to
        both operands where the result is NaN
        (summed over axes that were broadcast).
        Source: MPSGraph minimumWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.minimum(g.constant([1.0, 5.0]), 3)).tolist()
        [1.0, 3.0]
        """
        return self._tensor("minimum", [primary, secondary], name)

    def maximum(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Larger operand; where one is NaN, the other.

        result = max(primary, secondary).
        Args: primary, secondary, shapes that broadcast, one float or integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming to the operand that was taken, half each where equal; 0 to a NaN that was passed over, NaN to
        both operands where the result is NaN
        (summed over axes that were broadcast).
        Source: MPSGraph maximumWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.maximum(g.constant([1.0, 5.0]), 3)).tolist()
        [3.0, 5.0]
        """
        return self._tensor("maximum", [primary, secondary], name)

    def minimum_with_nan_propagation(
        self, primary: TensorLike, secondary: TensorLike, name: str | None = None
    ) -> Tensor:
        """Smaller operand; NaN where either is NaN.

        result = min(primary, secondary).
        Args: primary, secondary, shapes that broadcast, one float or integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming to the operand that was taken, half each where equal; NaN to both operands where the
        result is NaN
        (summed over axes that were broadcast).
        Source: MPSGraph minimumWithNaNPropagationWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.minimum_with_nan_propagation(g.constant([1.0, 5.0]), 3)).tolist()
        [1.0, 3.0]
        """
        return self._tensor("minimum_with_nan_propagation", [primary, secondary], name)

    def maximum_with_nan_propagation(
        self, primary: TensorLike, secondary: TensorLike, name: str | None = None
    ) -> Tensor:
        """Larger operand; NaN where either is NaN.

        result = max(primary, secondary).
        Args: primary, secondary, shapes that broadcast, one float or integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming to the operand that was taken, half each where equal; NaN to both operands where the
        result is NaN
        (summed over axes that were broadcast).
        Source: MPSGraph maximumWithNaNPropagationWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.maximum_with_nan_propagation(g.constant([1.0, 5.0]), 3)).tolist()
        [3.0, 5.0]
        """
        return self._tensor("maximum_with_nan_propagation", [primary, secondary], name)

    def atan2(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Angle in radians of the point (secondary, primary), in [-pi, pi].

        result = atan2(primary, secondary).
        Args: primary, secondary, shapes that broadcast, one floating-point dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming * secondary / (primary^2 + secondary^2) to primary, -incoming * primary /
        (primary^2 + secondary^2) to secondary (summed over axes that were broadcast).
        Source: MPSGraph atan2WithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.atan2(g.constant([0.0]), 1)).tolist()
        [0.0]
        """
        return self._tensor("atan2", [primary, secondary], name)

    def equal(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Are the operands equal?

        result = primary == secondary, as bool.
        Args: primary, secondary, shapes that broadcast, one dtype; name, the operation's name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph equalWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.equal(g.constant([1, 2]), 2)).tolist()
        [False, True]
        """
        return self._tensor("equal", [primary, secondary], name)

    def not_equal(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Do the operands differ?

        result = primary != secondary, as bool.
        Args: primary, secondary, shapes that broadcast, one dtype; name, the operation's name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph notEqualWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.not_equal(g.constant([1, 2]), 2)).tolist()
        [True, False]
        """
        return self._tensor("not_equal", [primary, secondary], name)

    def less_than(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Is primary less than secondary?

        result = primary < secondary, as bool.
        Args: primary, secondary, shapes that broadcast, one dtype that is not complex; name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph lessThanWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.less_than(g.constant([1, 2]), 2)).tolist()
        [True, False]
        """
        return self._tensor("less_than", [primary, secondary], name)

    def less_than_or_equal_to(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Is primary at most secondary?

        result = primary <= secondary, as bool.
        Args: primary, secondary, shapes that broadcast, one dtype that is not complex; name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph lessThanOrEqualToWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.less_than_or_equal_to(g.constant([2, 3]), 2)).tolist()
        [True, False]
        """
        return self._tensor("less_than_or_equal_to", [primary, secondary], name)

    def greater_than(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Is primary greater than secondary?

        result = primary > secondary, as bool.
        Args: primary, secondary, shapes that broadcast, one dtype that is not complex; name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph greaterThanWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.greater_than(g.constant([2, 3]), 2)).tolist()
        [False, True]
        """
        return self._tensor("greater_than", [primary, secondary], name)

    def greater_than_or_equal_to(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Is primary at least secondary?

        result = primary >= secondary, as bool.
        Args: primary, secondary, shapes that broadcast, one dtype that is not complex; name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph greaterThanOrEqualToWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.greater_than_or_equal_to(g.constant([1, 2]), 2)).tolist()
        [False, True]
        """
        return self._tensor("greater_than_or_equal_to", [primary, secondary], name)

    def logical_and(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Are both true?

        result = primary and secondary.
        Args: primary, secondary, shapes that broadcast, both bool; name, the operation's name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph logicalANDWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.logical_and(g.constant([True, False]), True)).tolist()
        [True, False]
        """
        return self._tensor("logical_and", [primary, secondary], name)

    def logical_or(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Is at least one true?

        result = primary or secondary.
        Args: primary, secondary, shapes that broadcast, both bool; name, the operation's name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph logicalORWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.logical_or(g.constant([True, False]), False)).tolist()
        [True, False]
        """
        return self._tensor("logical_or", [primary, secondary], name)

    def logical_nand(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Is at least one false?

        result = not (primary and secondary).
        Args: primary, secondary, shapes that broadcast, both bool; name, the operation's name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph logicalNANDWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.logical_nand(g.constant([True, False]), True)).tolist()
        [False, True]
        """
        return self._tensor("logical_nand", [primary, secondary], name)

    def logical_nor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Are both false?

        result = not (primary or secondary).
        Args: primary, secondary, shapes that broadcast, both bool; name, the operation's name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph logicalNORWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.logical_nor(g.constant([True, False]), False)).tolist()
        [False, True]
        """
        return self._tensor("logical_nor", [primary, secondary], name)

    def logical_xor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Is exactly one true?

        result = primary != secondary.
        Args: primary, secondary, shapes that broadcast, both bool; name, the operation's name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph logicalXORWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.logical_xor(g.constant([True, False]), True)).tolist()
        [False, True]
        """
        return self._tensor("logical_xor", [primary, secondary], name)

    def logical_xnor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Are both true or both false?

        result = primary == secondary.
        Args: primary, secondary, shapes that broadcast, both bool; name, the operation's name.
        Result: bool, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, the result is bool.
        Source: MPSGraph logicalXNORWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.logical_xnor(g.constant([True, False]), True)).tolist()
        [True, False]
        """
        return self._tensor("logical_xnor", [primary, secondary], name)

    def bitwise_and(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Bits that are set in both.

        result = primary & secondary.
        Args: primary, secondary, shapes that broadcast, one integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, integers have no gradient.
        Source: MPSGraph bitwiseANDWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.bitwise_and(g.constant([6, 5]), 3)).tolist()
        [2, 1]
        """
        return self._tensor("bitwise_and", [primary, secondary], name)

    def bitwise_or(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Bits that are set in at least one.

        result = primary | secondary.
        Args: primary, secondary, shapes that broadcast, one integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, integers have no gradient.
        Source: MPSGraph bitwiseORWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.bitwise_or(g.constant([6, 5]), 3)).tolist()
        [7, 7]
        """
        return self._tensor("bitwise_or", [primary, secondary], name)

    def bitwise_xor(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Bits that are set in exactly one.

        result = primary ^ secondary.
        Args: primary, secondary, shapes that broadcast, one integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, integers have no gradient.
        Source: MPSGraph bitwiseXORWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.bitwise_xor(g.constant([6, 5]), 3)).tolist()
        [5, 6]
        """
        return self._tensor("bitwise_xor", [primary, secondary], name)

    def bitwise_left_shift(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Bits moved toward the high end.

        result = primary << secondary.
        Args: primary, secondary, shapes that broadcast, one integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, integers have no gradient.
        Source: MPSGraph bitwiseLeftShiftWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.bitwise_left_shift(g.constant([1, 3]), 2)).tolist()
        [4, 12]
        """
        return self._tensor("bitwise_left_shift", [primary, secondary], name)

    def bitwise_right_shift(self, primary: TensorLike, secondary: TensorLike, name: str | None = None) -> Tensor:
        """Bits moved toward the low end; signed numbers keep their sign.

        result = primary >> secondary.
        Args: primary, secondary, shapes that broadcast, one integer dtype; name, the operation's name.
        Result: their dtype, the broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: none, integers have no gradient.
        Source: MPSGraph bitwiseRightShiftWithPrimaryTensor:secondaryTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.bitwise_right_shift(g.constant([8, -8]), 2)).tolist()
        [2, -2]
        """
        return self._tensor("bitwise_right_shift", [primary, secondary], name)

    def select(
        self, predicate: Tensor, when_true: TensorLike, when_false: TensorLike, name: str | None = None
    ) -> Tensor:
        """Element-wise choice between two tensors.

        result = predicate ? when_true : when_false. Both sides are computed; a NaN on the side that is not taken
        does not reach the result.

        Args: predicate, bool; when_true, when_false, one dtype; the three shapes broadcast. Result: their dtype, the
        broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming where predicate to when_true, elsewhere to when_false.
        Source: MPSGraph selectWithPredicateTensor:truePredicateTensor:falsePredicateTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.select(g.constant([True, False]), 1.0, 2.0)).tolist()
        [1.0, 2.0]
        """
        return self._tensor("select", [predicate, *self._operands("select", [when_true, when_false])], name)

    def clamp(self, x: TensorLike, minimum: TensorLike, maximum: TensorLike, name: str | None = None) -> Tensor:
        """x, held between two bounds.

        result = min(max(x, minimum), maximum). x that is NaN stays NaN; a bound that is NaN does not bound.

        Args: x, minimum, maximum, shapes that broadcast, one float or integer dtype. Result: their dtype, the
        broadcast shape. Errors: ShapeError, DTypeError.
        Gradient: incoming to x where minimum <= x <= maximum, else to the bound that was taken.
        Source: MPSGraph clampWithTensor:minValueTensor:maxValueTensor:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.clamp(g.constant([-1.0, 0.5, 7.0]), 0, 1)).tolist()
        [0.0, 0.5, 1.0]
        """
        return self._tensor("clamp", [x, minimum, maximum], name)
