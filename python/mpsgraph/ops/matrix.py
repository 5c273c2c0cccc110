"""Matrix products, also of integers, attention, and distances between rows of bits.

Batches broadcast as in numpy; there is no implicit transposition or vector case: reshape says what is meant.
"""

from __future__ import annotations

from .._core import int32
from ._family import DTypeLike, ShapeError, Tensor, as_dtype, constant_data
from .random import Random


class Matrix(Random):
    """matrix_multiplication, integer_matrix_multiplication, scaled_dot_product_attention and hamming_distance."""

    def matrix_multiplication(self, primary: Tensor, secondary: Tensor, name: str | None = None) -> Tensor:
        """Matrix product of the last two axes, batched over the others.

        result[..., i, j] = sum over k of primary[..., i, k] * secondary[..., k, j], exact for integers, which wrap as
        two's complement; of bools, whether any k has both. Args: primary (..., m, k), secondary (..., k, n), rank 2 or
        more, leading axes that broadcast, one dtype. Result: (..., m, n) of that dtype. Errors: ShapeError when k
        differs or the rank is below 2, DTypeError.
        Gradient: incoming @ secondary^T to primary, primary^T @ incoming to secondary, complex operands conjugated,
        summed over broadcast axes.
        Source: MPSGraph matrixMultiplicationWithPrimaryTensor:secondaryTensor:name:, which multiplies real numbers;
        there integers are composed of products of bytes.

        >>> g = mg.Graph()
        >>> g.run({}, g.matrix_multiplication(g.constant([[1.0, 2.0]]), g.constant([[3.0], [4.0]]))).tolist()
        [[11.0]]
        """
        return self._tensor("matrix_multiplication", [primary, secondary], name)

    def integer_matrix_multiplication(
        self,
        primary: Tensor,
        secondary: Tensor,
        primary_zero_point: Tensor | int = 0,
        secondary_zero_point: Tensor | int = 0,
        name: str | None = None,
    ) -> Tensor:
        """Matrix product of 8-bit integers less their zero points, exact, in int32.

        result[..., i, j] = sum over k of (primary[..., i, k] - primary_zero_point) * (secondary[..., k, j] -
        secondary_zero_point). Args: primary (..., m, k), secondary (..., k, n), each int8 or uint8; zero points, a
        number, or a tensor of its operand's dtype, of a shape that broadcasts to it and has 1 where it has k: () for
        all, (m, 1) for each row of primary, (n,) for each column of secondary. Result: (..., m, n), int32, which wraps
        as two's complement. Errors: ShapeError, DTypeError. Gradient: none, integers have none.
        Source: ours, for ONNX's MatMulInteger and QLinearMatMul; MPSGraph has no product of integers.

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
        """What each query finds: the mean of the values, weighed by how well their keys fit it.

        result = softmax(scale * query @ key^T + mask) @ value, the soft-max along the keys. Args: query (..., n, e),
        key (..., m, e), value (..., m, f), leading axes (batch, heads) that broadcast; mask, None or what is added to
        the (..., n, m) scores, of a shape that broadcasts to theirs: 0 lets a key take part, -infinity keeps it out;
        all of one floating-point dtype; scale, None for 1 / sqrt(e); causal, whether keys behind the query's own place
        are kept out; dropout, the share of the weights that is dropped, as `dropout` does, by the numbers that random()
        draws from state, int32[7], or from a key that the graph draws for each run. Result: (..., n, f); zeros,
        through which nothing has a gradient, for a query from which all keys are kept out. NaN in a key or value that
        only their order keeps out may reach a result, or not. Errors: ShapeError, DTypeError, GraphError. Gradient: to
        all operands, that of the composition. On the CPU scores are in memory in tiles alone, also for the gradient,
        unless operands are float64, few or the gradient of the mask is asked for. Source: MPSGraph
        scaledDotProductAttentionWithQueryTensor:keyTensor:valueTensor:maskTensor:scale:name:; causal and dropout are
        ours, so that no mask and no weights need be in memory.

        >>> g = mg.Graph()
        >>> query, key = g.constant([[100.0, 0.0]]), g.constant([[1.0, 0.0], [0.0, 1.0]])
        >>> g.run({}, g.scaled_dot_product_attention(query, key, g.constant([[5.0], [7.0]]))).tolist()
        [[5.0]]
        """
        if scale is None:
            size = query.shape[-1] if query.shape else -1
            if size < 0:
                raise ShapeError(
                    f"[scaled_dot_product_attention] the last axis of query {query.shape} is not known: give scale"
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
        """A state of random() that begins at a key of its own in each run, whatever is drawn from it."""
        key = self.random((2,), dtype=int32, min_integer=-(2**31), max_integer=2**31)
        counter = self._tensor("constant", [], value=constant_data([1, 0, 0, 0, 0], None, int32))
        return self._tensor("concat", [counter, key], axis=0)

    def hamming_distance(
        self, primary: Tensor, secondary: Tensor, result_dtype: DTypeLike = "uint32", name: str | None = None
    ) -> Tensor:
        """In how many bits each row of one matrix differs from each row of another, batched over the leading axes.

        result[..., i, j] = sum over k of the bits set in primary[..., i, k] xor secondary[..., j, k].
        Args: primary (..., m, k), secondary (..., n, k), rank 2 or more, leading axes that broadcast, one integer
        dtype; result_dtype, uint32 or uint16. Result: (..., m, n). Errors: ShapeError, DTypeError. Gradient: none, bits
        have none. Source: MPSGraph HammingDistanceWithPrimaryTensor:secondaryTensor:resultDataType:name:.

        >>> g = mg.Graph()
        >>> g.run({}, g.hamming_distance(g.constant([[0b101, 0]]), g.constant([[0b100, 0b11], [0, 0]]))).tolist()
        [[3, 2]]
        """
        return self._tensor("hamming_distance", [primary, secondary], name, dtype=as_dtype(result_dtype))
