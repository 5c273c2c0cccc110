"""Test matrix inverses at sizes around the number of columns eliminated together and the tile sizes of the matmuls."""

import mpsgraph as mg
import numpy as np
import pytest

SIZES = [1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 80, 97, 130]


def inverse(x):
    g = mg.Graph()
    feed = g.placeholder(x.shape, x.dtype)
    return g.run({feed: x}, g.matrix_inverse(feed))


def drawn(*shape, dtype):
    """Return matrices whose elimination needs row exchanges in every step, with condition numbers of a few hundred."""
    rng = np.random.default_rng(sum(shape))
    rows = rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape[:-1]), axis=-1)
    return (rng.normal(size=shape) / np.sqrt(shape[-1]) + 3 * np.eye(shape[-1])[rows]).astype(dtype)


@pytest.mark.parametrize("batch", [(), (1,), (2,), (5,)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_matrix_inverse_matches_numpy(n, dtype, batch):
    x = drawn(*batch, n, n, dtype=dtype)
    expected = np.linalg.inv(x.astype(np.float64))
    np.testing.assert_allclose(inverse(x), expected, atol=(2e-5 if dtype == "float32" else 1e-13))


@pytest.mark.parametrize("n", [24, 70])
def test_nan_affects_only_the_inverse_of_its_matrix(n):
    x = drawn(3, n, n, dtype="float32")
    x[1, n // 2, n - 3] = np.nan
    result = inverse(x)
    assert np.isnan(result[1]).any()
    np.testing.assert_allclose(result[::2], np.linalg.inv(x[::2].astype(np.float64)), atol=2e-5)


@pytest.mark.parametrize("n", [20, 64])
def test_inverse_of_scaled_permutation_matrix_is_exact(n):
    x = np.eye(n, dtype=np.float32)[np.random.default_rng(n).permutation(n)] * np.float32(0.25)
    np.testing.assert_array_equal(inverse(x), x.T * 16)
