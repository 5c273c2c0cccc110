"""Test matmuls with sparse tensors: results and gradients must equal those of dense matmuls.

Real-valued sparse matrices must not be expanded to dense ones. Gradients of transposed and of complex matmuls are
correct but use a dense intermediate.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import pytest
from harness.derivatives import by_differences

RNG = np.random.default_rng(3)
SHAPE, COUNT = (5, 7), 11
PLACES = RNG.choice(SHAPE[0] * SHAPE[1], COUNT, replace=False)
ROWS, COLUMNS = np.sort(PLACES) // SHAPE[1], np.sort(PLACES) % SHAPE[1]  # sorted by rows
STARTS = np.searchsorted(ROWS, np.arange(SHAPE[0] + 1))


def indices(storage: str) -> tuple[np.ndarray, np.ndarray]:
    if storage == "CSR":
        return COLUMNS.astype(np.int32), STARTS.astype(np.int32)
    if storage == "COO":
        return COLUMNS.astype(np.int64), ROWS.astype(np.int64)
    order = np.lexsort((ROWS, COLUMNS))
    return ROWS[order].astype(np.int32), np.searchsorted(COLUMNS[order], np.arange(SHAPE[1] + 1)).astype(np.int32)


def places(storage: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the row and column of each value."""
    order = np.lexsort((ROWS, COLUMNS)) if storage == "CSC" else np.arange(COUNT)
    return ROWS[order], COLUMNS[order]


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if dtype.startswith("complex") else x).astype(dtype)


PRODUCTS = {
    "left": ((7, 3), lambda g, s, d: s @ d),
    "right": ((4, 5), lambda g, s, d: d @ s),
    "transposed_left": ((5, 3), lambda g, s, d: g.transpose(s, [1, 0]) @ d),
    "transposed_right": ((4, 7), lambda g, s, d: d @ g.transpose(s, [1, 0])),
    "vector": ((7, 1), lambda g, s, d: s @ d),
    "batched_right": ((2, 3, 5), lambda g, s, d: d @ s),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16"])
@pytest.mark.parametrize("storage", ["COO", "CSC", "CSR"])
@pytest.mark.parametrize("product", PRODUCTS)
def test_sparse_matmuls_and_gradients_match_dense_matmuls(product: str, storage: str, dtype: str):
    shape, multiply = PRODUCTS[product]
    values, dense = numbers((COUNT,), dtype), numbers(shape, dtype)
    g = mg.Graph()
    v, d = g.placeholder(values.shape, dtype), g.placeholder(dense.shape, dtype)
    rows, columns = places(storage)
    sparse = g.sparse_tensor(v, *(g.constant(i) for i in indices(storage)), SHAPE, storage=storage)
    one_hot = np.zeros((*SHAPE, COUNT), dtype)
    one_hot[rows, columns, np.arange(COUNT)] = 1
    plain = g.reshape(g.constant(one_hot.reshape(-1, COUNT)) @ g.reshape(v, (COUNT, 1)), SHAPE)
    found = []
    for matrix in (sparse, plain):
        y = multiply(g, matrix, d)
        loss = g.reduction_sum(g.absolute_square(y))
        gradients = g.gradients(loss, [v, d])
        texts: list[str] = []
        options = mg.CompilationDescriptor(observe=lambda _, text, texts=texts: texts.append(text))
        executable = g.compile({v: values.shape, d: dense.shape}, [y, gradients[v], gradients[d]], options=options)
        if matrix is sparse and dtype in ("float32", "float64") and not product.startswith("transposed"):
            made = [line.split("(")[0].split(" = ")[1] for line in texts[-1].splitlines() if " = " in line]
            assert not {"sparse_tensor", "sparse_tensor_gradient", "matrix_multiplication"} & set(made), texts[-1]
            assert made.count("sparse_matrix_multiplication") == 2 and "sampled_matrix_multiplication" in made
        found.append([r.numpy() for r in executable.run([{v: values, d: dense}[f] for f in executable.feeds])])
    tolerance = {"float16": 2e-2, "float64": 1e-12}.get(dtype, 1e-5)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * 4)


def test_sparse_matmul_second_derivatives_match_finite_differences():
    g = mg.Graph()
    v, d = g.placeholder((COUNT,), mg.float64), g.placeholder((7, 2), mg.float64)
    sparse = g.sparse_tensor(v, *(g.constant(i) for i in indices("CSR")), SHAPE, storage="CSR")
    y = g.reduction_sum(g.tanh(sparse @ d))
    first = g.reduction_sum(g.square(g.gradients(y, [v])[v]))
    second = g.gradients(first, [v, d])
    arrays = [numbers((COUNT,), "float64"), numbers((7, 2), "float64")]
    found = g.run(dict(zip([v, d], arrays, strict=True)), list(second.values()))

    def value(moved: list[np.ndarray]) -> float:
        return g.run(dict(zip([v, d], moved, strict=True)), first).item()

    for i, tensor in enumerate([v, d]):
        differences = by_differences(value, arrays, i)
        np.testing.assert_allclose(found[second[tensor]].numpy(), differences, rtol=1e-5, atol=1e-6)


def test_large_sparse_matrix_is_never_densified():
    """A dense matrix of 10^10 elements would not fit into memory."""
    n, count = 100_000, 1000
    g = mg.Graph()
    rows, columns = (RNG.integers(0, n, count).astype(np.int32) for _ in range(2))
    v, d = g.placeholder((count,)), g.placeholder((n, 2))
    y = g.sparse_tensor(v, g.constant(columns), g.constant(rows), (n, n)) @ d
    gradient = g.gradients(g.reduction_sum(g.square(y)), [v])[v]
    values, dense = numbers((count,), "float32"), numbers((n, 2), "float32")
    found = g.run({v: values, d: dense}, [y, gradient])
    wanted = np.zeros((n, 2), np.float32)
    np.add.at(wanted, rows, values[:, None] * dense[columns])
    np.testing.assert_allclose(found[y].numpy(), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        found[gradient].numpy(), (2 * wanted[rows] * dense[columns]).sum(1), rtol=1e-4, atol=1e-4
    )


def test_malicious_sparse_indices_are_not_accessed_out_of_bounds():
    """With decreasing or excessive row starts and invalid rows and columns, nothing may be accessed out of bounds."""
    g = mg.Graph()
    v, i, starts = g.placeholder((4,)), g.placeholder((4,), mg.int64), g.placeholder((4,), mg.int64)
    s = g.sparse_tensor(v, i, starts, (3, 3), storage="CSR")
    d = g.placeholder((3, 40))
    feeds = {v: np.ones(4, np.float32), i: np.array([-1, 3, 2**40, 1]), d: np.ones((3, 40), np.float32)}
    for hostile in ([0, 100, -5, 2**62], [-(2**62), 2**62, 0, 4], [4, 0, 4, 0]):
        found = g.run({**feeds, starts: np.array(hostile)}, [s, s @ d])
        assert np.isfinite(found[s].numpy()).all() and found[s].numpy()[:, [0, 2]].max() == 0


def test_invalid_sparse_arguments_raise():
    g = mg.Graph()
    v, i = g.placeholder((4,)), g.placeholder((4,), mg.int32)
    with pytest.raises(mg.GraphError, match="'COO' or 'CSC' or 'CSR'"):
        g.sparse_tensor(v, i, i, (3, 3), storage="ELL")
    with pytest.raises(mg.ShapeError, match="one more row start than rows"):
        g.sparse_tensor(v, i, i, (4, 3), storage="CSR")
    with pytest.raises(mg.ShapeError, match="4"):
        g.sparse_tensor(v, g.placeholder((5,), mg.int32), i, (3, 3))
    with pytest.raises(mg.ShapeError, match="two static dimensions"):
        g.sparse_tensor(v, i, i, (3, -1))
    with pytest.raises(mg.ShapeError, match="rank 1"):
        g.sparse_tensor(g.placeholder((4, 1)), i, i, (3, 3))
    with pytest.raises(mg.DTypeError, match="cast them to int32"):
        g.sparse_tensor(v, v, i, (3, 3))
    with pytest.raises(mg.DTypeError, match="bool"):
        g.sparse_tensor(g.placeholder((4,), mg.bool_), i, i, (3, 3))
