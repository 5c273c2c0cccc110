"""Translations of matmul, Gemm, einsum, and determinants."""

from __future__ import annotations

from collections.abc import Callable

from ..._core import Tensor, int32
from ...errors import GraphError, ShapeError, UnsupportedError
from .._registry import Node, Results, operator

MOST_ROWS = 1024  # Maximum number of rows of a matrix whose determinant is computed.


def matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Multiply a and b like numpy.matmul: a vector a is treated as a row, and a vector b as a column."""
    return _as_matrices(node, a, b, node.g.matrix_multiplication)


def matmul_of_bytes(node: Node, a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None) -> Tensor:
    """Multiply 8-bit integers minus their zero points, with exact int32 results.

    A zero point is a scalar, or has one element per row of a or per column of b.
    """
    g = node.g

    def zero_point(zero: Tensor | None, of_rows: bool) -> Tensor | int:
        if zero is None:
            return 0
        if zero.shape == (1,):
            return g.reshape(zero, ())
        return g.expand_dims(zero, 1) if of_rows and node.rank(zero) == 1 else zero

    zeros = zero_point(a_zero, True), zero_point(b_zero, False)
    return _as_matrices(node, a, b, lambda x, y: g.integer_matrix_multiplication(x, y, *zeros))


def _as_matrices(node: Node, a: Tensor, b: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    g = node.g
    rows, columns = node.rank(a) == 1, node.rank(b) == 1
    product = multiply(g.expand_dims(a, 0) if rows else a, g.expand_dims(b, 1) if columns else b)
    rank = node.rank(product)
    drop = ([rank - 2] if rows else []) + ([rank - 1] if columns else [])
    return g.squeeze(product, drop) if drop else product


@operator("MatMul", upto=13)
def matrix_multiplication(node: Node) -> Results:
    return matmul(node, node.tensor(0), node.tensor(1))


def matrices(node: Node) -> tuple[Tensor, Tensor]:
    """Return operands 0 and 1.

    Raises ShapeError if one of them is not a matrix, because Gemm does not support batches.
    """
    a, b = node.tensor(0), node.tensor(1)
    for x in (a, b):
        if x.shape is not None and len(x.shape) != 2:
            raise ShapeError(f"operands of {node.op} must have rank 2, got '{x.name}' of shape {x.shape}")
    return a, b


@operator("Gemm", upto=13)
def general_product(node: Node) -> Results:
    g, (a, b) = node.g, matrices(node)
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    node.without_effect("broadcast")  # Before version 7, Gemm has this attribute, but mpsgraph always broadcasts C.
    if node.attribute("transA", 0):
        a = g.swap_axes(a, 0, 1)
    if node.attribute("transB", 0):
        b = g.swap_axes(b, 0, 1)
    result = matmul(node, a, b)
    result = _scaled(node, result, alpha)
    return g.addition(result, _scaled(node, node.tensor(2), beta)) if node.has(2) else result


def _scaled(node: Node, x: Tensor, factor: float) -> Tensor:
    if factor == 1:
        return x
    if not x.dtype.is_float and factor != int(factor):
        raise UnsupportedError(f"alpha and beta must be integers for operands of type {x.dtype}, got {factor}")
    return node.g.multiplication(x, factor if x.dtype.is_float else int(factor))


@operator("Einsum", upto=28)
def einsum(node: Node) -> Results:
    """Translate Einsum by contracting operands pairwise and summing over the subscripts that the result lacks."""
    tensors = node.tensors()
    terms, output = _einsum_terms(node, tensors)
    g = node.g
    x, letters = _with_unique_letters(node, tensors[0], terms[0])
    for i, (tensor, term) in enumerate(zip(tensors[1:], terms[1:], strict=True), 2):
        y, others = _with_unique_letters(node, tensor, term)
        needed = set(output).union(*terms[i:])
        x, letters = _contracted(node, x, letters, y, others, needed)
    gone = [i for i, letter in enumerate(letters) if letter not in output]
    if gone:
        x = g.squeeze(g.reduction_sum(x, gone), gone)
        letters = [letter for letter in letters if letter in output]
    return g.transpose(x, [letters.index(letter) for letter in output]) if letters != output else x


def _einsum_terms(node: Node, tensors: list[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Return the equation's terms as lists of letters.

    The axes of "..." are represented by numbers, counted from the end of the ellipsis.
    """
    equation = node.attribute("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(tensors):
        raise GraphError(f"equation {equation!r} needs {len(texts)} operands, one per term, got {len(tensors)}")
    dots, terms = 0, []
    for text, tensor in zip(texts, tensors, strict=True):
        before, ellipsis, behind = text.partition("...")
        count = node.rank(tensor) - len(before) - len(behind)
        if count < 0 or (count > 0 and not ellipsis):
            raise ShapeError(
                f"term {text!r} of equation {equation!r} does not match an operand of shape {tensor.shape}"
            )
        dots = max(dots, count)
        terms.append([*before, *(str(i) for i in range(count - 1, -1, -1)), *behind])
    spelled = [str(i) for i in range(dots - 1, -1, -1)]
    if not arrow:
        every = [letter for term in terms for letter in term]
        return terms, spelled + sorted({v for v in every if every.count(v) == 1 and not v.isdigit()})
    before, ellipsis, behind = right.partition("...")
    output = [*before, *(spelled if ellipsis else []), *behind]
    if len(set(output)) < len(output) or not set(output) <= {letter for term in terms for letter in term}:
        raise GraphError(f"the result of equation {equation!r} must list each axis once, and only axes of operands")
    return terms, output


def _with_unique_letters(node: Node, x: Tensor, term: list[str]) -> tuple[Tensor, list[str]]:
    """Take the diagonal of x along axes with the same letter.

    Returns the tensor and its term with unique letters.
    """
    g = node.g
    letters = list(term)
    for letter in dict.fromkeys(term):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            numbers = g.constant(list(range(node.size(x, first))), dtype=int32)
            row, column = (
                g.reshape(numbers, [-1 if i == axis else 1 for i in range(len(letters))]) for axis in (first, second)
            )
            on_diagonal = g.select(g.equal(row, column), x, g.constant(0, dtype=x.dtype))
            x = g.squeeze(g.reduction_sum(on_diagonal, second), [second])
            del letters[second]
    return x, letters


def _contracted(
    node: Node, a: Tensor, left: list[str], b: Tensor, right: list[str], needed: set[str]
) -> tuple[Tensor, list[str]]:
    """Contract two operands over the letters that are not in `needed`, with one batched matmul.

    Returns the product and its letters.
    """
    g = node.g
    a, left = _summed(node, a, left, needed | set(right))
    b, right = _summed(node, b, right, needed | set(left))
    common = [v for v in left if v in right]
    inner = [v for v in common if v not in needed]
    batch = [v for v in common if v in needed]
    rows, columns = [v for v in left if v not in common], [v for v in right if v not in common]
    if any(node.dims(a)[left.index(v)] != node.dims(b)[right.index(v)] for v in common):
        return _multiplied(node, a, left, b, right, inner)
    sizes = {v: node.dim(a, left.index(v)) for v in left} | {v: node.dim(b, right.index(v)) for v in right}

    def matrices(x: Tensor, letters: list[str], *parts: list[str]) -> Tensor:
        x = g.transpose(x, [letters.index(v) for v in (*batch, *parts[0], *parts[1])]) if letters else x
        flat = [node.product(sizes[v] for v in part) for part in parts]
        return node.reshape(x, [*(sizes[v] for v in batch), *flat])

    product = matmul(node, matrices(a, left, rows, inner), matrices(b, right, inner, columns))
    letters = [*batch, *rows, *columns]
    return node.reshape(product, (sizes[v] for v in letters)), letters


def _summed(node: Node, x: Tensor, letters: list[str], needed: set[str]) -> tuple[Tensor, list[str]]:
    gone = [i for i, v in enumerate(letters) if v not in needed]
    if not gone:
        return x, letters
    return node.g.squeeze(node.g.reduction_sum(x, gone), gone), [v for v in letters if v in needed]


def _multiplied(
    node: Node, a: Tensor, left: list[str], b: Tensor, right: list[str], inner: list[str]
) -> tuple[Tensor, list[str]]:
    """Contract two operands by broadcasting, multiplying, and summing.

    Unlike a matmul, this supports letters for which one operand has size 1 and the other a larger size.
    """
    g = node.g
    letters = [*left, *(v for v in right if v not in left)]
    a = g.expand_dims(a, list(range(len(left), len(letters)))) if len(left) < len(letters) else a
    order = [right.index(v) for v in letters if v in right]
    b = g.transpose(b, order) if order else b
    absent = [i for i, v in enumerate(letters) if v not in right]
    b = g.expand_dims(b, absent) if absent else b
    return _summed(node, g.multiplication(a, b), letters, set(letters) - set(inner))


@operator("MatMulInteger", upto=10)
def matmul_integer(node: Node) -> Results:
    return matmul_of_bytes(node, node.tensor(0), node.optional(2), node.tensor(1), node.optional(3))


@operator("Det", upto=22)
def determinant(node: Node) -> Results:
    """Translate Det: apply Gaussian elimination with partial pivoting, and multiply the pivots."""
    g, x = node.g, node.tensor(0)
    n = node.size(x, -1)
    if node.size(x, -2) != n:
        raise ShapeError(f"the last two axes must form square matrices, got shape {x.shape}")
    if n > MOST_ROWS:
        raise UnsupportedError(f"determinants are supported for matrices of at most {MOST_ROWS} rows, got {n}")
    result: Tensor | None = None
    for left in range(n, 0, -1):
        column = g.slice_axis(x, -1, 0, 1)
        chosen = g.one_hot(g.squeeze(g.reduction_arg_maximum(g.absolute(column), -2), [-2, -1]), left, -1, x.dtype)
        chosen = g.expand_dims(chosen, node.rank(chosen))
        pivot_row = g.reduction_sum(g.multiplication(chosen, x), -2)
        pivot = g.slice_axis(pivot_row, -1, 0, 1)
        signed = g.multiplication(pivot, g.subtraction(g.multiplication(g.slice_axis(chosen, -2, 0, 1), 2.0), 1.0))
        result = signed if result is None else g.multiplication(result, signed)
        if left > 1:  # Overwrite the pivot row with the first row, and drop the first row.
            first = g.slice_axis(x, -2, 0, 1)
            x = g.addition(x, g.multiplication(chosen, g.subtraction(first, pivot_row)))
            rest = g.slice_axis(x, -2, 1, left - 1)
            factors = g.division_no_nan(g.slice_axis(rest, -1, 0, 1), pivot)
            x = g.slice_axis(g.subtraction(rest, g.multiplication(factors, pivot_row)), -1, 1, left - 1)
    return g.constant(1, shape=node.shape(x)[:-2], dtype=x.dtype) if result is None else g.squeeze(result, [-2, -1])
