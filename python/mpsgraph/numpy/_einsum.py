"""Einstein summation for `mpsgraph.numpy` and the ONNX importer, as batched matmuls of pairs of operands.

Terms are lists of letters, in which the axes of "..." are numbers that count from the end of the ellipsis.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._core import Tensor, int32
from ..errors import GraphError, ShapeError
from ._sizes import Sizes


def contracted(sizes: Sizes, equation: str, tensors: Sequence[Tensor]) -> Tensor:
    """Contract operands pairwise, and sum over the subscripts that the result lacks.

    Args:
        sizes: Shape queries, and the graph.
        equation: Subscripts, such as "bij,bjk->bik". Letters, commas, "..." and an optional "->".
        tensors: An operand for each term of the equation.

    Returns:
        The result, whose axes have the order of the equation.

    Raises:
        GraphError: If the equation is not valid, or has another number of terms than operands.
        ShapeError: If a term does not match the rank of its operand, or the sizes of a letter differ.
    """
    terms, output = _terms(sizes, equation.replace(" ", ""), tensors)
    _check_sizes(sizes, equation, tensors, terms)
    g = sizes.g
    x, letters = _with_unique_letters(sizes, tensors[0], terms[0])
    for i, (tensor, term) in enumerate(zip(tensors[1:], terms[1:], strict=True), 2):
        y, others = _with_unique_letters(sizes, tensor, term)
        x, letters = _product(sizes, x, letters, y, others, set(output).union(*terms[i:]))
    x, letters = _summed(sizes, x, letters, set(output))
    return g.transpose(x, [letters.index(letter) for letter in output]) if letters != output else x


def _terms(sizes: Sizes, equation: str, tensors: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    wrong = set(equation.replace("->", "", 1).replace("...", "").replace(",", ""))
    if not all(letter.isascii() and letter.isalpha() for letter in wrong) or "," in right:
        raise GraphError(f"an equation consists of letters, commas, '...' and one '->', got {equation!r}")
    if len(texts) != len(tensors):
        raise GraphError(f"equation {equation!r} needs {len(texts)} operands, one per term, got {len(tensors)}")
    dots, terms = 0, []
    for text, tensor in zip(texts, tensors, strict=True):
        before, ellipsis, behind = text.partition("...")
        count = sizes.rank(tensor) - len(before) - len(behind)
        if count < 0 or (count > 0 and not ellipsis) or "..." in behind:
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


def _check_sizes(sizes: Sizes, equation: str, tensors: Sequence[Tensor], terms: list[list[str]]) -> None:
    """Raise ShapeError if a letter stands for different sizes, other than 1 and unknown ones."""
    known: dict[str, int] = {}
    for tensor, term in zip(tensors, terms, strict=True):
        for letter, size in zip(term, sizes.dims(tensor), strict=True):
            if size not in (-1, 1) and known.setdefault(letter, size) != size:
                axis = "an axis of '...'" if letter.isdigit() else f"axis {letter!r}"
                raise ShapeError(
                    f"{axis} of equation {equation!r} must have one size, got {known[letter]} and {size} in operands "
                    f"of shapes {[t.shape for t in tensors]}"
                )


def _with_unique_letters(sizes: Sizes, x: Tensor, term: list[str]) -> tuple[Tensor, list[str]]:
    """Take the diagonal of x along axes with the same letter, and return it with its term."""
    g = sizes.g
    letters = list(term)
    for letter in dict.fromkeys(term):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            numbers = g.constant(list(range(sizes.size(x, first))), dtype=int32)
            row, column = (
                g.reshape(numbers, [-1 if i == axis else 1 for i in range(len(letters))]) for axis in (first, second)
            )
            on_diagonal = g.select(g.equal(row, column), x, g.constant(0, dtype=x.dtype))
            x = g.squeeze(g.reduction_sum(on_diagonal, second), [second])
            del letters[second]
    return x, letters


def _product(
    sizes: Sizes, a: Tensor, left: list[str], b: Tensor, right: list[str], needed: set[str]
) -> tuple[Tensor, list[str]]:
    """Contract two operands over the letters that are not in `needed`, and return the product and its letters."""
    g = sizes.g
    a, left = _summed(sizes, a, left, needed | set(right))
    b, right = _summed(sizes, b, right, needed | set(left))
    common = [v for v in left if v in right]
    inner = [v for v in common if v not in needed]
    batch = [v for v in common if v in needed]
    rows, columns = [v for v in left if v not in common], [v for v in right if v not in common]
    if not inner or any(sizes.dims(a)[left.index(v)] != sizes.dims(b)[right.index(v)] for v in common):
        return _multiplied(sizes, a, left, b, right, inner)
    dims = {v: sizes.dim(a, left.index(v)) for v in left} | {v: sizes.dim(b, right.index(v)) for v in right}

    def matrices(x: Tensor, letters: list[str], *parts: list[str]) -> Tensor:
        x = g.transpose(x, [letters.index(v) for v in (*batch, *parts[0], *parts[1])])
        flat = [sizes.product(dims[v] for v in part) for part in parts]
        return sizes.reshape(x, [*(dims[v] for v in batch), *flat])

    product = g.matrix_multiplication(matrices(a, left, rows, inner), matrices(b, right, inner, columns))
    letters = [*batch, *rows, *columns]
    return sizes.reshape(product, (dims[v] for v in letters)), letters


def _summed(sizes: Sizes, x: Tensor, letters: list[str], needed: set[str]) -> tuple[Tensor, list[str]]:
    gone = [i for i, v in enumerate(letters) if v not in needed]
    if not gone:
        return x, letters
    return sizes.g.squeeze(sizes.g.reduction_sum(x, gone), gone), [v for v in letters if v in needed]


def _multiplied(
    sizes: Sizes, a: Tensor, left: list[str], b: Tensor, right: list[str], inner: list[str]
) -> tuple[Tensor, list[str]]:
    """Contract two operands by broadcasting, multiplying, and summing.

    Unlike a matmul, this supports letters for which one operand has size 1 and the other a larger size.
    """
    g = sizes.g
    letters = [*left, *(v for v in right if v not in left)]
    a = g.expand_dims(a, list(range(len(left), len(letters)))) if len(left) < len(letters) else a
    order = [right.index(v) for v in letters if v in right]
    b = g.transpose(b, order) if order else b
    absent = [i for i, v in enumerate(letters) if v not in right]
    b = g.expand_dims(b, absent) if absent else b
    return _summed(sizes, g.multiplication(a, b), letters, set(letters) - set(inner))
