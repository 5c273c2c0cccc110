"""Compare decision tree ensembles with a traversal of the same trees in Python.

The kernels traverse several trees at a time.
"""

import os

import mpsgraph as mg
import numpy as np
import pytest

pytestmark = pytest.mark.both_devices

ON_METAL = os.environ.get("MPSGRAPH_TEST_DEVICE") == "metal"
HOW = {"comparison": "less_than_or_equal_to", "reduction": "sum"}


class Forest:
    """Random trees in one table. Parents precede their children, and leaves point to themselves."""

    def __init__(self, trees, depth, features, targets, dtype="float32", one_target=False, seed=0):
        self.rng, self.features = np.random.default_rng([seed, trees, depth]), features
        self.nodes, self.depth = [], depth
        self.roots = np.array([self.grow(depth) for _ in range(trees)], np.int32)
        weights = self.rng.normal(size=(len(self.nodes), targets))
        if one_target:
            weights *= np.eye(targets)[self.rng.integers(targets, size=len(self.nodes))]
        self.weights = weights.astype(dtype)

    def grow(self, depth):
        at = len(self.nodes)
        self.nodes.append([0, 0.0, at, at, False])
        if depth and self.rng.random() > 0.1:
            split = float(np.round(self.rng.normal(), 1))
            feature, missing = int(self.rng.integers(self.features)), bool(self.rng.integers(2))
            self.nodes[at] = [feature, split, self.grow(depth - 1), self.grow(depth - 1), missing]
        return at

    def tables(self, dtype):
        feature, split, yes, no, missing = (np.array(column) for column in zip(*self.nodes, strict=True))
        whole = [column.astype(np.int32) for column in (feature, yes, no)]
        return [*whole, split.astype(dtype), missing, self.roots, self.weights]

    def walked(self, x, comparison="less_than_or_equal_to", reduction="sum"):
        reduce = {"sum": np.sum, "minimum": np.min, "maximum": np.max}[reduction]
        compare = np.less if comparison == "less_than" else np.less_equal
        rows = []
        for row in x:
            leaves = []
            for at in self.roots:
                while self.nodes[at][2] != at:
                    feature, split, yes, no, missing = self.nodes[at]
                    value = row[feature]
                    at = yes if compare(value, x.dtype.type(split)) or (np.isnan(value) and missing) else no
                leaves.append(at)
            rows.append(reduce(self.weights[leaves].astype(np.float64), axis=0))
        return np.array(rows).reshape(len(x), self.weights.shape[1])


def drawn(rows, features, dtype="float32", seed=1):
    """Return random rows, in which some values equal a split and some are NaN or infinite."""
    x = np.round(np.random.default_rng([seed, rows]).normal(size=(rows, features)), 1).astype(dtype)
    x[rows // 2 :: 3, 0], x[rows // 3 :: 4, features - 1] = np.nan, np.inf
    x[rows // 3 :: 5, features // 2] = -np.inf
    return x


def run(x, tables, depth, constant=True, **how):
    g = mg.Graph()
    fed = g.placeholder(x.shape, x.dtype.name)
    feeds = {fed: x}
    if constant:
        operands = [g.constant(table) for table in tables]
    else:
        operands = [g.placeholder(table.shape, table.dtype.name) for table in tables]
        feeds |= dict(zip(operands, tables, strict=True))
    [y] = g.create("tree_ensemble", [fed, *operands], {"depth": depth, **HOW, **how}).outputs
    return g.run(feeds, y).numpy(), g.compile({t: t.shape for t in feeds}, [y])


@pytest.mark.parametrize("rows", [1, 3, 4, 7, 8, 9, 70])
@pytest.mark.parametrize("trees, depth, targets", [(1, 0, 1), (1, 3, 2), (9, 6, 1), (40, 4, 3)])
def test_tree_ensembles_of_various_sizes_match_traversal(trees, depth, targets, rows):
    forest, x = Forest(trees, depth, 5, targets), drawn(rows, 5)
    got, compiled = run(x, forest.tables("float32"), depth)
    np.testing.assert_allclose(got, forest.walked(x), rtol=2e-5, atol=2e-5)
    assert ON_METAL or "8 concurrent walks" in compiled.plan()


@pytest.mark.parametrize("comparison", ["less_than_or_equal_to", "less_than"])
@pytest.mark.parametrize("reduction", ["sum", "minimum", "maximum"])
@pytest.mark.parametrize("one_target", [True, False])
def test_tree_comparisons_and_reductions_match_traversal(comparison, reduction, one_target):
    forest, x = Forest(12, 7, 6, 4, one_target=one_target), drawn(30, 6)
    how = {"comparison": comparison, "reduction": reduction}
    for constant in (True, False):
        got, _ = run(x, forest.tables("float32"), 7, constant, **how)
        np.testing.assert_allclose(got, forest.walked(x, **how), rtol=2e-5, atol=2e-5)


@pytest.mark.skipif(ON_METAL, reason="device metal has no float64")
@pytest.mark.parametrize("of_rows", ["float64", "float32"])
@pytest.mark.parametrize("of_weights", ["float64", "float32"])
def test_tree_ensembles_in_float64_match_traversal(of_rows, of_weights):
    forest, x = Forest(20, 5, 4, 2, of_weights), drawn(11, 4, of_rows)
    got, _ = run(x, forest.tables(of_rows), 5)
    assert got.dtype == of_weights
    tolerance = 1e-13 if of_weights == "float64" else 2e-5
    np.testing.assert_allclose(got, forest.walked(x), rtol=tolerance, atol=tolerance)


def test_many_trees_with_few_rows_match_traversal():
    """Threads evaluate parts of the trees, whose results are then combined."""
    for reduction in ("sum", "minimum"):
        forest, x = Forest(3000, 3, 4, 2), drawn(2, 4)
        got, _ = run(x, forest.tables("float32"), 3, reduction=reduction)
        np.testing.assert_allclose(got, forest.walked(x, reduction=reduction), rtol=1e-4, atol=1e-4)


def test_degenerate_tree_as_deep_as_its_node_count_matches_traversal():
    """A chain of 300 nodes, next to a tree with a single leaf."""
    depth = 300
    forest = Forest(1, 0, 2, 1)
    forest.nodes = [[1, float(i), 2 * depth, i + 1, False] for i in range(depth)]
    forest.nodes += [[0, 0.0, i, i, False] for i in range(depth, 2 * depth + 1)]
    forest.roots = np.array([0, 2 * depth - 1], np.int32)
    forest.weights = np.arange(2 * depth + 1, dtype=np.float32)[:, None]
    x = np.float32([[0, value] for value in (-1, 0, 150, 299, 300, 1e9, np.nan)])
    got, _ = run(x, forest.tables("float32"), depth)
    np.testing.assert_array_equal(got, forest.walked(x))


def test_trees_with_shared_nodes_are_not_expanded():
    """Both nodes of each level point to both nodes of the next level, so an expanded copy would have 2^40 nodes."""
    depth, forest = 40, Forest(1, 0, 3, 1)
    forest.nodes = []
    for level in range(depth):
        first = 2 * level + 2
        forest.nodes += [[level % 3, 0.0, first, first + 1, False], [(level + 1) % 3, 0.5, first + 1, first, False]]
    forest.nodes += [[0, 0.0, i, i, False] for i in (2 * depth, 2 * depth + 1)]
    forest.roots = np.array([0], np.int32)
    forest.weights = np.arange(len(forest.nodes), dtype=np.float32)[:, None]
    x = drawn(12, 3)
    got, compiled = run(x, forest.tables("float32"), depth)
    np.testing.assert_array_equal(got, forest.walked(x))
    assert ON_METAL or "unsorted trees" in compiled.plan()


def test_tree_traversal_stops_at_depth_limit():
    """A walk that has not reached a leaf uses the weights of its current node, so cycles terminate."""
    forest, x = Forest(5, 4, 3, 1), drawn(9, 3)
    tables = forest.tables("float32")
    whole, _ = run(x, tables, 4)
    for depth in (4, 9):
        np.testing.assert_array_equal(run(x, tables, depth)[0], whole)
    weights = np.float32([[1], [2]])
    circle = [np.int32([0, 0]), np.int32([1, 0]), np.int32([1, 0]), np.float32([0, 0]), np.array([False, False])]
    for depth, expected in ((0, 1), (1, 2), (6, 1)):
        got, _ = run(np.float32([[3]]), [*circle, np.int32([0]), weights], depth)
        assert got.tolist() == [[expected]]


@pytest.mark.skipif(ON_METAL, reason="device metal does not check for out-of-range nodes")
def test_out_of_range_tree_nodes_and_features_read_zeros():
    """As with gather, out-of-range indices give zeros, and no memory outside the tables is read."""
    tables = [np.int32([7, 0]), np.int32([1, 1]), np.int32([99, 1]), np.float32([-1, 0]), np.array([False, False]),
              np.int32([0, -5]), np.float32([[1], [2]])]  # fmt: skip
    for constant in (True, False):
        got, _ = run(np.float32([[3], [4]]), tables, 1, constant)
        # 0 <= -1 is false, so the index is out of range and reads zero, which is node 0
        assert got.tolist() == [[1], [1]]
    got, _ = run(np.float32([[3]]), tables, 1, reduction="minimum")
    assert got.tolist() == [[0]]


@pytest.mark.skipif(ON_METAL, reason="empty tensors do not reach the device")
def test_tree_ensembles_accept_zero_rows_and_zero_features():
    leaves = Forest(3, 0, 1, 2)
    got, _ = run(np.zeros((2, 0), np.float32), leaves.tables("float32"), 0)
    np.testing.assert_allclose(got, [leaves.weights.sum(0)] * 2, rtol=1e-6)
    assert run(np.zeros((0, 5), np.float32), Forest(3, 3, 5, 2).tables("float32"), 3)[0].shape == (0, 2)


def test_non_finite_tree_weights_propagate():
    """NaN wins every reduction, and infinities add up."""
    forest, x = Forest(6, 3, 3, 2), np.ones((3, 3), np.float32)
    for value in (np.nan, np.inf):
        forest.weights[:] = value
        for reduction in ("sum", "minimum", "maximum"):
            got, _ = run(x, forest.tables("float32"), 3, reduction=reduction)
            np.testing.assert_array_equal(got, np.full((3, 2), value))


@pytest.mark.skipif(ON_METAL, reason="tests CPU kernels")
def test_batch_sizes_share_one_compiled_tree_ensemble():
    g = mg.Graph()
    x = g.placeholder((-1, 4))
    forest = Forest(4, 4, 4, 1)
    operands = [x, *(g.constant(table) for table in forest.tables("float32"))]
    [y] = g.create("tree_ensemble", operands, {"depth": 4}).outputs
    for rows in (1, 5, 20):
        fed = drawn(rows, 4)
        np.testing.assert_allclose(g.run({x: fed}, y).numpy(), forest.walked(fed), rtol=1e-5, atol=1e-5)


def test_invalid_tree_ensemble_operands_raise():
    tables = Forest(2, 2, 3, 1).tables("float32")
    x = drawn(2, 3)
    with pytest.raises(mg.DTypeError, match="splits must have the dtype float32 of x"):
        run(x, [*tables[:3], tables[3].astype(np.int32), *tables[4:]], 2)
    with pytest.raises(mg.DTypeError, match="yes must be int32"):
        run(x, [tables[0], tables[1].astype(np.int64), *tables[2:]], 2)
    with pytest.raises(mg.ShapeError, match="missing must have the shape .* of features"):
        run(x, [*tables[:4], tables[4][:-1], *tables[5:]], 2)
    with pytest.raises(mg.GraphError, match="reduction must be sum, minimum or maximum, got 'median'"):
        run(x, tables, 2, reduction="median")
