"""Quantization: floats to small integers and back, by scale and zero point or by tables of values.

Scale and zero point are one number for the whole tensor, rank-1 tensors with an element for each index of `axis`, or,
without an axis, tensors of the same rank whose axes divide the tensor's: each element counts for a block of it. There
is no element type of four bits: numbers of four bits stand in int8 or uint8, one a byte.
"""

from __future__ import annotations

from .._core import DType
from ._family import DTypeLike, Family, GraphError, Tensor, TensorLike, as_dtype


class Quantization(Family):
    """quantize, dequantize, dequantize_lookup_table, straight_through, fake_quantize."""

    def quantize(
        self,
        x: Tensor,
        scale: TensorLike,
        zero_point: Tensor | int = 0,
        *,
        dtype: DTypeLike = "int8",
        axis: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Integers that stand for numbers: steps of a scale, counted from a zero point.

        result = saturate(round(x / scale) + zero_point), halves to even; NaN gives 0.

        Args:
            x: a floating-point tensor. float16 and bfloat16 are computed in float32.
            scale: a number or a tensor of x's dtype; zero_point: an int or a tensor of the result's dtype.
            dtype: of the result, an integer one; what lies outside its range becomes its nearest end.
            axis: of which scale and zero_point have an element for each index; None: see above.
        Result: x's shape, dtype. Errors: DTypeError, ShapeError.
        Gradient: none, the result is an integer; fake_quantize passes one straight through.
        Source: MPSGraph quantizeTensor:scale:zeroPoint:dataType:name:,
        quantizeTensor:scaleTensor:zeroPointTensor:dataType:axis:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.quantize(g.constant([-1.0, 0.26, 100.0]), 0.1, 3)).tolist()
        [-7, 6, 127]
        """
        wanted = as_dtype(dtype)
        operands, attributes = self._parameters("quantize", x, scale, zero_point, x.dtype, wanted, axis)
        return self._tensor("quantize", [x, *operands], name, dtype=wanted, **attributes)

    def dequantize(
        self,
        x: Tensor,
        scale: TensorLike,
        zero_point: Tensor | int = 0,
        *,
        dtype: DTypeLike | None = None,
        axis: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Numbers that integers stand for.

        result = (x - zero_point) * scale.

        Args:
            x: an integer tensor.
            scale: a number or a tensor of the result's dtype; zero_point: an int or a tensor of x's dtype.
            dtype: of the result, a floating-point one; default: the scale's, or float32.
            axis: as in quantize.
        Result: x's shape, dtype. Errors: DTypeError, ShapeError.
        Gradient: incoming * (x - zero_point), summed over what an element of scale counts for, to scale.
        Source: MPSGraph dequantizeTensor:scale:zeroPoint:dataType:name:,
        dequantizeTensor:scaleTensor:zeroPointTensor:dataType:axis:name:,
        dequantizeTensor:scaleTensor:zeroPointTensor:dataType:name:, dequantizeTensor:scaleTensor:dataType:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.dequantize(g.constant(np.array([-7, 6], np.int8)), 0.5, 3)).tolist()
        [-5.0, 1.5]
        """
        wanted = as_dtype(dtype) if dtype is not None else scale.dtype if isinstance(scale, Tensor) else None
        wanted = as_dtype("float32") if wanted is None else wanted
        operands, attributes = self._parameters("dequantize", x, scale, zero_point, wanted, x.dtype, axis)
        return self._tensor("dequantize", [x, *operands], name, dtype=wanted, **attributes)

    def dequantize_lookup_table(
        self, x: Tensor, table: Tensor, axis: int | None = None, name: str | None = None
    ) -> Tensor:
        """Numbers, or vectors of numbers, that indices into a table stand for.

        result[i...] = table[group of i..., x[i...]]; with an axis, along which each index becomes v numbers,
        result[..., v j + k, ...] = table[group..., x[..., j, ...], k], k < v.
        Args: x, an integer tensor, in MPSGraph uint8; table, (entries) for all of x, or (groups of each axis of x,
        entries), each count of groups dividing the axis; with an axis (..., entries, v); axis, where vectors go, or
        None. An index without an entry gives 0.
        Result: x's shape, the axis v times as long; table's dtype. Errors: ShapeError, DTypeError.
        Gradient: incoming, added up where the same entry was looked up, to table.
        Source: MPSGraph dequantizeTensor:LUTTensor:name:, dequantizeTensor:LUTTensor:axis:name:.

        >>> g = mg.Graph()
        >>> x = g.constant(np.array([0, 1, 1], np.uint8))
        >>> g.run({}, g.dequantize_lookup_table(x, g.constant([0.5, -2.0]))).tolist()
        [0.5, -2.0, -2.0]
        >>> g.run({}, g.dequantize_lookup_table(x, g.constant([[0.5, 1.0], [2.0, 3.0]]), axis=0)).tolist()
        [0.5, 1.0, 2.0, 3.0, 2.0, 3.0]
        """
        attributes = {} if axis is None else {"vectors": True, "axis": axis}
        return self._tensor("dequantize_lookup_table", [x, table], name, **attributes)

    def straight_through(self, value: Tensor, source: Tensor, name: str | None = None) -> Tensor:
        """A value whose gradient goes to another tensor, as if it had been that.

        result = value.
        Args: value, source, one shape and floating-point or complex dtype. Result: their shape and dtype.
        Errors: ShapeError, DTypeError.
        Gradient: incoming to source, none to value.
        Source: what rounding needs to be trained through; Bengio et al., arXiv:1308.3432.

        >>> g = mg.Graph()
        >>> x = g.constant([0.4, 1.7])
        >>> y = g.straight_through(g.rint(x), x) * 3
        >>> [g.run({}, t).tolist() for t in (y, g.gradients(y, [x])[x])]
        [[0.0, 6.0], [3.0, 3.0]]
        """
        return self._tensor("straight_through", [value, source], name)

    def fake_quantize(
        self,
        x: Tensor,
        scale: TensorLike,
        zero_point: TensorLike = 0,
        *,
        dtype: DTypeLike = "int8",
        axis: int | None = None,
        name: str | None = None,
    ) -> Tensor:
        """What dequantizing the quantized tensor gives, with a gradient that passes straight through the rounding.

        result = (clamp(round(x / scale) + zero_point) - zero_point) * scale, clamped to the range of dtype.
        Args: x, floating-point; scale, zero_point (whole), numbers, or tensors of x's dtype, of rank 0 or an element
        for each index of axis; dtype, the integer type whose range counts; axis.
        Result: x's shape and dtype. Errors: ShapeError, DTypeError, GraphError.
        Gradient: incoming to x where it was not clamped; to scale and zero_point as the formula says with the rounding
        left out, so that both can be learned (for scale: the rounding error and the clamped end).
        Source: a composition; Esser et al., arXiv:1902.08153.

        >>> g = mg.Graph()
        >>> x = g.constant([0.26, 100.0])
        >>> y = g.fake_quantize(x, 0.5)
        >>> [g.run({}, t).tolist() for t in (y, g.gradients(y, [x])[x])]
        [[0.5, 63.5], [1.0, 0.0]]
        """
        integer = as_dtype(dtype)
        if not integer.is_integer:
            raise GraphError(f"[fake_quantize] dtype says the range of integers, got {integer}")
        count = 2 ** (8 * integer.itemsize)
        lowest = -(count // 2) if integer.is_signed else 0
        step, zero = (self._along("fake_quantize", p, x, axis) for p in (scale, zero_point))
        exact = self._tensor("division", [x, step])
        rounded = self._tensor("addition", [self.straight_through(self._tensor("rint", [exact]), exact), zero])
        ends = [self._number("fake_quantize", float(end), x.dtype) for end in (lowest, lowest + count - 1)]
        clamped = self._tensor("clamp", [rounded, *ends])
        return self._tensor("multiplication", [self._tensor("subtraction", [clamped, zero]), step], name)

    def _along(self, kind: str, parameter: TensorLike, x: Tensor, axis: int | None) -> Tensor:
        """A parameter that broadcasts against x: of rank 0, or along an axis."""
        if not isinstance(parameter, Tensor):
            return self._number(kind, parameter, x.dtype)
        if axis is None:
            return parameter
        if x.shape is None:
            raise GraphError(f"[{kind}] the rank of '{x.name}' must be known to place a parameter along axis {axis}")
        shape = [-1 if a == axis % len(x.shape) else 1 for a in range(len(x.shape))]
        return self._tensor("reshape", [parameter, self._shape_operand(shape, kind)])

    def _parameters(
        self, kind: str, x: Tensor, scale: TensorLike, zero_point: Tensor | int, real: DType, whole: DType,
        axis: int | None,
    ) -> tuple[list[Tensor], dict[str, object]]:  # fmt: skip
        """Scale and zero point as operands, and how they lie."""
        operands = [scale if isinstance(scale, Tensor) else self._number(kind, scale, real)]
        if isinstance(zero_point, Tensor):
            operands.append(zero_point)
        elif zero_point != 0:
            operands.append(self._number(kind, zero_point, whole))
        grouped = axis is None and any(p.shape is None or len(p.shape) > 0 for p in operands)
        return operands, {"grouped": grouped} if axis is None else {"axis": axis}
