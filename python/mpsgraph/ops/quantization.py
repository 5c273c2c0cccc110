"""Quantization: converting floats to small integers and back, by scale and zero point or by lookup tables.

`dequantize_packed` is for weights that are packed at 2 to 8 bits per element, with a scale and a bias per group.

Scale and zero point take one of three forms: one number for the whole operand; a rank-1 tensor with one element for
each index of `axis`; or, without an axis, a tensor of the operand's rank, each element of which applies to one block of
the operand. In the third form, each size must divide the corresponding size of the operand. There is no 4-bit dtype:
4-bit values are stored in int8 or uint8, one per byte.
"""

from __future__ import annotations

from .._core import DType
from ._family import DTypeLike, GraphError, Tensor, TensorLike, as_dtype
from .derived import Derived


class Quantization(Derived):
    """Graph methods for quantization, dequantization, and quantization-aware training."""

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
        """Quantize floating-point numbers to integers by a scale and a zero point.

        result = saturate(round(x / scale) + zero_point), with ties rounded to even. NaN becomes 0.

        Args:
            x: Floating-point tensor. float16 and bfloat16 are computed in float32.
            scale: A number or a tensor with the dtype of x: of rank 0, with one element for each index of axis, or with
                one element for each block of x.
            zero_point: An int or a tensor with the dtype of the result, shaped like scale. Defaults to 0.
            dtype: Integer dtype of the result; values outside its range are saturated. Defaults to int8.
            axis: Axis that scale and zero_point apply to. Defaults to None.
            name: Name of the operation.

        Returns:
            A tensor with the shape of x and the given dtype.

        Raises:
            ShapeError: If scale or zero_point does not match x, or axis is out of range.
            DTypeError: If x is not floating-point, dtype is not integer, or scale or zero_point has the wrong dtype.

        Gradient: none, because the result is an integer; fake_quantize passes a gradient straight through.

        Source: MPSGraph quantizeTensor:scale:zeroPoint:dataType:name:,
        quantizeTensor:scaleTensor:zeroPointTensor:dataType:axis:name:.

        Example:
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
        """Convert quantized integers back to floating-point numbers.

        result = (x - zero_point) * scale.

        Args:
            x: Integer tensor.
            scale: A number or a tensor with the dtype of the result: of rank 0, with one element for each index of
                axis, or with one element for each block of x.
            zero_point: An int or a tensor with the dtype of x, shaped like scale. Defaults to 0.
            dtype: Floating-point dtype of the result. None, the default, means the dtype of scale, or float32 if scale
                is a number.
            axis: Axis that scale and zero_point apply to. Defaults to None.
            name: Name of the operation.

        Returns:
            A tensor with the shape of x and the given dtype.

        Raises:
            ShapeError: If scale or zero_point does not match x, or axis is out of range.
            DTypeError: If x is not integer, dtype is not floating-point, or scale or zero_point has the wrong dtype.

        Gradient: to scale, incoming gradient * (x - zero_point), summed over the elements that each scale applies to.

        Source: MPSGraph dequantizeTensor:scale:zeroPoint:dataType:name:,
        dequantizeTensor:scaleTensor:zeroPointTensor:dataType:axis:name:,
        dequantizeTensor:scaleTensor:zeroPointTensor:dataType:name:, dequantizeTensor:scaleTensor:dataType:name:.

        Example:
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
        """Replace indices with the numbers, or vectors of numbers, that they select from a table.

        result[i...] = table[group of i..., x[i...]]. With an axis, each index is replaced with v numbers along that
        axis: result[..., v j + k, ...] = table[group..., x[..., j, ...], k] for k < v.

        Args:
            x: Integer tensor of indices; MPSGraph requires uint8. An index without an entry gives 0.
            table: Tensor of shape (entries) for all of x, or (groups..., entries), with a number of groups for each
                axis of x that divides the size of that axis. With an axis, the shape is (..., entries, v).
            axis: Axis along which vectors are placed. None, the default, for a table of numbers.
            name: Name of the operation.

        Returns:
            A tensor with the dtype of table and the shape of x, except that `axis`, if given, is v times as long.

        Raises:
            ShapeError: If the shape of table does not match x, or axis is out of range.
            DTypeError: If x is not integer.

        Gradient: to table, the sum of the incoming gradients of all elements that selected the same entry.

        Source: MPSGraph dequantizeTensor:LUTTensor:name:, dequantizeTensor:LUTTensor:axis:name:.

        Example:
            >>> g = mg.Graph()
            >>> x = g.constant(np.array([0, 1, 1], np.uint8))
            >>> g.run({}, g.dequantize_lookup_table(x, g.constant([0.5, -2.0]))).tolist()
            [0.5, -2.0, -2.0]
            >>> g.run({}, g.dequantize_lookup_table(x, g.constant([[0.5, 1.0], [2.0, 3.0]]), axis=0)).tolist()
            [0.5, 1.0, 2.0, 3.0, 2.0, 3.0]
        """
        attributes = {} if axis is None else {"vectors": True, "axis": axis}
        return self._tensor("dequantize_lookup_table", [x, table], name, **attributes)

    def dequantize_packed(
        self,
        words: Tensor,
        scale: Tensor,
        bias: Tensor,
        *,
        bits: int = 4,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> Tensor:
        """Convert weights that are packed at a few bits per element to floating-point numbers.

        result[..., i] = scale[..., i // group] * q[..., i] + bias[..., i // group], where q[..., i] are the bits
        [i * bits, (i + 1) * bits) of a row of words, counted from the lowest bit of the first word. On device cpu, a
        matrix product whose right operand is the result, or its transpose, unpacks the words in registers or in blocks
        that stay in cache, so the dense matrix is never written to memory. To read only some rows, gather them from
        words, scale, and bias first.

        Args:
            words: uint32 tensor (..., columns * bits / 32).
            scale: Tensor (..., groups) of float32, float16, or bfloat16. The group size, columns / groups, must be a
                multiple of 32.
            bias: Tensor with the shape and dtype of scale.
            bits: Number of bits of an element: 2, 3, 4, 5, 6, or 8. Defaults to 4.
            dtype: Floating-point dtype of the result. None, the default, means the dtype of scale.
            name: Name of the operation.

        Returns:
            A tensor (..., columns) of the given dtype. The formula is computed in float32.

        Raises:
            ShapeError: If scale and bias do not match words, or the group size is not a multiple of 32.
            DTypeError: If words is not uint32, or scale, bias, or dtype is not a floating-point dtype of at most 32
                bits.
            GraphError: If bits has another value.

        Gradient: to scale and bias; none to words.

        Source: this package; the affine form of MLX's mx.quantize and of GPTQ. MPSGraph dequantizes integers of whole
        bytes.

        Example:
            >>> g = mg.Graph()
            >>> words = g.constant(np.array([[0x76543210] * 4], np.uint32))
            >>> scale, bias = g.constant([[0.5]]), g.constant([[-1.0]])
            >>> g.run({}, g.dequantize_packed(words, scale, bias)).tolist()[0][:8]
            [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
        """
        wanted = scale.dtype if dtype is None else as_dtype(dtype)
        return self._tensor("dequantize_packed", [words, scale, bias], name, bits=bits, dtype=wanted)

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
        """Quantize and dequantize x, with a gradient that passes straight through the rounding.

        result = (clamp(round(x / scale) + zero_point) - zero_point) * scale, clamped to the range of dtype.

        Args:
            x: Floating-point tensor.
            scale: A number or a tensor with the dtype of x, of rank 0 or with one element for each index of axis.
            zero_point: A whole number, or a tensor of whole numbers with the dtype of x, shaped like scale. Defaults to
                0.
            dtype: Integer dtype that defines the range. Defaults to int8.
            axis: Axis that scale and zero_point apply to. Defaults to None.
            name: Name of the operation.

        Returns:
            A tensor with the shape and dtype of x.

        Raises:
            ShapeError: If scale or zero_point does not match x, or axis is out of range.
            DTypeError: If x is not floating-point, or scale or zero_point has a different dtype.
            GraphError: If dtype is not an integer dtype, or axis is given and the rank of x is unknown.

        Gradient: the incoming gradient to x where it was not clamped. Gradients to scale and zero_point treat the
        rounding as the identity, so that both can be learned. The derivative with respect to scale is round(x / scale)
        - x / scale where x was not clamped, and the clamped bound minus zero_point elsewhere.

        Source: this package, as a composition; Esser et al., arXiv:1902.08153.

        Example:
            >>> g = mg.Graph()
            >>> x = g.constant([0.26, 100.0])
            >>> y = g.fake_quantize(x, 0.5)
            >>> [g.run({}, t).tolist() for t in (y, g.gradients(y, [x])[x])]
            [[0.5, 63.5], [1.0, 0.0]]
        """
        integer = as_dtype(dtype)
        if not integer.is_integer:
            raise GraphError(f"[fake_quantize] dtype must be an integer dtype, which defines the range, got {integer}")
        count = 2 ** (8 * integer.itemsize)
        lowest = -(count // 2) if integer.is_signed else 0
        step, zero = (self._along("fake_quantize", p, x, axis) for p in (scale, zero_point))
        exact = self._tensor("division", [x, step])
        rounded = self._tensor("addition", [self.straight_through(self._tensor("rint", [exact]), exact), zero])
        ends = [self._number("fake_quantize", float(end), x.dtype) for end in (lowest, lowest + count - 1)]
        clamped = self._tensor("clamp", [rounded, *ends])
        return self._tensor("multiplication", [self._tensor("subtraction", [clamped, zero]), step], name)

    def _along(self, kind: str, parameter: TensorLike, x: Tensor, axis: int | None) -> Tensor:
        """Return a parameter as a tensor that broadcasts with x.

        The parameter has rank 0, or one element for each index of `axis`.
        """
        if not isinstance(parameter, Tensor):
            return self._number(kind, parameter, x.dtype)
        if axis is None:
            return parameter
        if x.shape is None:
            raise GraphError(
                f"[{kind}] axis={axis} requires a tensor of known rank, but the rank of '{x.name}' is unknown"
            )
        shape = [-1 if a == axis % len(x.shape) else 1 for a in range(len(x.shape))]
        return self._tensor("reshape", [parameter, self._shape_operand(shape, kind)])

    def _parameters(
        self, kind: str, x: Tensor, scale: TensorLike, zero_point: Tensor | int, real: DType, whole: DType,
        axis: int | None,
    ) -> tuple[list[Tensor], dict[str, object]]:  # fmt: skip
        """Return scale and zero point as operands, and the attributes that describe how they apply to x."""
        operands = [scale if isinstance(scale, Tensor) else self._number(kind, scale, real)]
        if isinstance(zero_point, Tensor):
            operands.append(zero_point)
        elif zero_point != 0:
            operands.append(self._number(kind, zero_point, whole))
        grouped = axis is None and any(p.shape is None or len(p.shape) > 0 for p in operands)
        return operands, {"grouped": grouped} if axis is None else {"axis": axis}
