"""Matrix products of floating-point numbers and integers, attention, and distances between rows of bits.

Batch axes broadcast as in numpy. Operands are never transposed implicitly and vectors are not treated as matrices:
reshape or transpose them first.
"""

from __future__ import annotations

from .._core import int32
from ._family import DTypeLike, ShapeError, Tensor, as_dtype, constant_data
from .random import Random


class Matrix(Random):
    """Graph methods for matrix products, attention, and Hamming distances."""

    def integer_matrix_multiplication(
        self,
        primary: Tensor,
        secondary: Tensor,
        primary_zero_point: Tensor | int = 0,
        secondary_zero_point: Tensor | int = 0,
        name: str | None = None,
    ) -> Tensor:
        """Multiply matrices of 8-bit integers after subtracting their zero points, exactly, in int32.

        result[..., i, j] = sum over k of (primary[..., i, k] - primary_zero_point) * (secondary[..., k, j] -
        secondary_zero_point).

        Args:
            primary: Tensor of shape (..., m, k), int8 or uint8.
            secondary: Tensor of shape (..., k, n), int8 or uint8.
            primary_zero_point: An int or a tensor with the dtype of primary, of a shape that broadcasts to it and has
                size 1 along k: () for one zero point, (m, 1) for one per row. Defaults to 0.
            secondary_zero_point: An int or a tensor with the dtype of secondary, of a shape that broadcasts to it and
                has size 1 along k: () for one zero point, (n,) for one per column. Defaults to 0.
            name: Name of the operation.

        Returns:
            An int32 tensor of shape (..., m, n), which wraps around in two's complement.

        Raises:
            ShapeError: If the shapes of the matrices or of a zero point do not match.
            DTypeError: If an operand is not int8 or uint8, or a zero point does not have the dtype of its operand.

        Gradient: none, because integers are not differentiable.

        Source: this package, for ONNX's MatMulInteger and QLinearMatMul; MPSGraph has no integer matrix product.

        Example:
            >>> g = mg.Graph()
            >>> a, b = g.constant([[130, 126]], dtype="uint8"), g.constant([[100], [-50]], dtype="int8")
            >>> g.run({}, g.integer_matrix_multiplication(a, b, primary_zero_point=128)).tolist()
            [[300]]
        """
        kind = "integer_matrix_multiplication"
        zeros = [
            zero if isinstance(zero, Tensor) else self._number(kind, zero, operand.dtype)
            for operand, zero in ((primary, primary_zero_point), (secondary, secondary_zero_point))
        ]
        return self._tensor(kind, [primary, secondary, *zeros], name)

    def scaled_dot_product_attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        scale: float | None = None,
        name: str | None = None,
        *,
        causal: bool = False,
        dropout: float = 0.0,
        state: Tensor | None = None,
    ) -> Tensor:
        """Compute attention: for each query, the mean of the values, weighted by how well their keys match the query.

        result = softmax(scale * query @ key^T + mask) @ value, with the softmax along the keys. On the CPU, only tiles
        of the scores are held in memory, in the gradient as well. The complete scores are stored if the operands are
        float64 or small, or if the gradient of the mask is requested.

        Args:
            query: Floating-point tensor of shape (..., n, e); the leading axes, for example batch and heads, broadcast.
            key: Tensor of shape (..., m, e), with the dtype of query.
            value: Tensor of shape (..., m, f), with the dtype of query.
            mask: Tensor added to the (..., n, m) scores, with a shape that broadcasts to the shape of the scores and
                the dtype of query: 0 includes a key, -infinity excludes it. None, the default, includes all.
            scale: Factor for the scores. None, the default, means 1 / sqrt(e).
            name: Name of the operation.
            causal: Whether each query excludes the keys after its own position. Defaults to False.
            dropout: Fraction of the weights to drop, as the operation dropout does. Defaults to 0.
            state: State of random(), int32[7], that selects the dropped weights. None, the default, draws a new key for
                each run.

        Returns:
            A tensor of shape (..., n, f). A query for which all keys are excluded gets zeros, which have no gradient.
            NaN in a key or value that only `causal` excludes may or may not reach the result.

        Raises:
            ShapeError: If the shapes do not match, or scale is None and the last axis of query is dynamic.
            DTypeError: If the dtypes differ or are not floating-point.
            GraphError: If dropout is not in [0, 1), or state is not int32[7].

        Gradient: to all floating-point operands, as for the composition of softmax and matrix products.

        Source: MPSGraph scaledDotProductAttentionWithQueryTensor:keyTensor:valueTensor:maskTensor:scale:name:. The
        arguments causal and dropout are additions of this package that avoid holding the mask and the weights in
        memory.

        Example:
            >>> g = mg.Graph()
            >>> query, key = g.constant([[100.0, 0.0]]), g.constant([[1.0, 0.0], [0.0, 1.0]])
            >>> g.run({}, g.scaled_dot_product_attention(query, key, g.constant([[5.0], [7.0]]))).tolist()
            [[5.0]]
        """
        if scale is None:
            size = query.shape[-1] if query.shape else -1
            if size < 0:
                raise ShapeError(
                    f"[scaled_dot_product_attention] the default scale needs a static last axis of query, got shape "
                    f"{query.shape}: pass scale"
                )
            scale = 1.0 / max(size, 1) ** 0.5
        operands = [query, key, value, *([] if mask is None else [mask])]
        if dropout:
            operands.append(self._drawn_state() if state is None else state)
        return self._tensor(
            "scaled_dot_product_attention",
            operands,
            name,
            scale=float(scale),
            causal=causal,
            dropout=float(dropout),
        )

    def _drawn_state(self) -> Tensor:
        """Return a random state whose key is new in each run.

        Later keys do not depend on how many numbers are drawn from this state.
        """
        key = self.random((2,), dtype=int32, min_integer=-(2**31), max_integer=2**31)
        counter = self._tensor("constant", [], value=constant_data([1, 0, 0, 0, 0], None, int32))
        return self._tensor("concat", [counter, key], axis=0)

    def hamming_distance(
        self, primary: Tensor, secondary: Tensor, result_dtype: DTypeLike = "uint32", name: str | None = None
    ) -> Tensor:
        """Count the bits that differ between each row of one matrix and each row of another.

        result[..., i, j] = sum over k of the number of bits set in primary[..., i, k] xor secondary[..., j, k]. Leading
        axes are batch axes.

        Args:
            primary: Integer tensor of shape (..., m, k) and rank 2 or higher.
            secondary: Integer tensor of shape (..., n, k) and rank 2 or higher, with the dtype of primary and leading
                axes that broadcast with it.
            result_dtype: dtype of the result, uint32 (the default) or uint16.
            name: Name of the operation.

        Returns:
            A tensor of shape (..., m, n) with dtype result_dtype.

        Raises:
            ShapeError: If an operand has a rank below 2, the last axes differ, or the leading axes do not broadcast.
            DTypeError: If the operands are not integers of one dtype, or result_dtype is not uint32 or uint16.

        Gradient: none, because integers are not differentiable.

        Source: MPSGraph HammingDistanceWithPrimaryTensor:secondaryTensor:resultDataType:name:.

        Example:
            >>> g = mg.Graph()
            >>> g.run({}, g.hamming_distance(g.constant([[0b101, 0]]), g.constant([[0b100, 0b11], [0, 0]]))).tolist()
            [[3, 2]]
        """
        return self._tensor("hamming_distance", [primary, secondary], name, dtype=as_dtype(result_dtype))
