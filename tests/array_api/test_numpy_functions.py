"""Test that numpy's own functions take arrays and return numpy's results."""

import mpsgraph.numpy as mnp
import numpy as np
import pytest

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("name", ["any", "all", "sum", "prod", "max", "min", "mean", "std", "var", "argmax", "sort"])
def test_numpy_functions_that_call_methods_of_their_argument_take_arrays(name):
    found = getattr(np, name)(mnp.asarray(X))
    assert not isinstance(found, type(mnp.asarray(X)))
    np.testing.assert_array_equal(found, getattr(np, name)(X))


def test_numpy_functions_take_lists_of_arrays():
    x = mnp.asarray(X)
    np.testing.assert_array_equal(np.concatenate([x, x]), np.concatenate([X, X]))
    np.testing.assert_array_equal(np.stack((x, X), axis=1), np.stack((X, X), axis=1))
