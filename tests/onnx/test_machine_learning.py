"""Test the ai.onnx.ml operators: scalers, linear models, trees, encoders, and string labels.

Tree ensembles are compared with a traversal in Python, and all other operators with formulas in numpy. Scores for two
classes, which the standard does not define, are hard-coded results of ONNX Runtime 1.32.
"""

from __future__ import annotations

import mpsgraph as mg
import numpy as np
import onnx
import pytest
from harness.onnx_model import FLOAT, INT64, value
from onnx import TensorProto, helper, numpy_helper

ML = "ai.onnx.ml"
NAN = float("nan")


def model(nodes, inputs, outputs, version: int = 3) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, version)])


def load(op: str, outputs: int = 1, version: int = 3, dtype: int = FLOAT, shape=("n", None), inputs=1, **attributes):
    """Load a model of one node with operands x0, x1, ... and results y0, y1, ..."""
    names, results = [f"x{i}" for i in range(inputs)], [f"y{i}" for i in range(outputs)]
    made = helper.make_node(op, names, results, domain=ML, name="the_node", **attributes)
    return mg.onnx.load(model([made], [value(n, dtype, shape) for n in names], [value(y) for y in results], version))


# --- features -------------------------------------------------------------------------------------------------------
def test_scaler_subtracts_offset_and_multiplies_scale():
    x = np.float32([[1, 2], [3, 5]])
    np.testing.assert_allclose(load("Scaler", offset=[1.0, 0.5], scale=[2.0, 3.0])(x), (x - [1, 0.5]) * [2, 3])
    np.testing.assert_allclose(load("Scaler", dtype=INT64, offset=[1.0], scale=[0.5])(np.int64([[1, 4]])), [[0, 1.5]])


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        # MAX divides by the largest value, not by the largest magnitude.
        ("MAX", [[0, 0, 0], [1, 2, 3], [1, -4 / 3, 0]]),
        ("L1", [[0, 0, 0], [-1 / 6, -2 / 6, -3 / 6], [3 / 7, -4 / 7, 0]]),
        ("L2", [[0, 0, 0], np.float64([-1, -2, -3]) / 14**0.5, [0.6, -0.8, 0]]),
    ],
)
def test_normalizer_divides_rows_by_their_norm(norm, expected):
    rows = np.float32([[0, 0, 0], [-1, -2, -3], [3, -4, 0]])
    np.testing.assert_allclose(load("Normalizer", norm=norm)(rows), expected, rtol=1e-6)
    if norm == "L2":
        np.testing.assert_allclose(load("Normalizer", norm=norm)(rows * np.float32(1e30)), expected, rtol=1e-6)


def test_onnx_feature_preprocessing_operators_give_expected_values():
    assert load("Binarizer", threshold=1.0)(np.float32([[1, 2, -0.5]])).tolist() == [[0, 1, 0]]
    picked = mg.onnx.load(
        model([helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain=ML)],
              [value("x", FLOAT, ("n", 3)), value("i", INT64, ("k",))], [value("y")])
    )  # fmt: skip
    assert picked(np.float32([[1, 2, 3], [4, 5, 6]]), np.int64([2, 0])).tolist() == [[3, 1], [6, 4]]
    joined = load("FeatureVectorizer", inputs=2, shape=("n", 2), inputdimensions=[2, 1])
    assert joined(np.float32([[1, 2]]), np.float32([[3, 4]])).tolist() == [[1, 2, 3]]
    filled = load("Imputer", shape=("n", 2), imputed_value_floats=[7.0, 8.0], replaced_value_float=NAN)
    assert filled(np.float32([[1, NAN], [NAN, 4]])).tolist() == [[1, 8], [7, 4]]
    filled = load("Imputer", dtype=INT64, imputed_value_int64s=[9], replaced_value_int64=2)
    assert filled(np.int64([[1, 2], [2, 4]])).tolist() == [[1, 9], [9, 4]]
    hot = load("OneHotEncoder", dtype=INT64, shape=("n",), cats_int64s=[4, 2])
    assert hot(np.int64([2, 4, 9])).tolist() == [[0, 1], [1, 0], [0, 0]]


def test_label_encoders_map_keys_to_values():
    encoded = load("LabelEncoder", dtype=INT64, keys_int64s=[1, 5], values_floats=[1.5, 2.5], default_float=9.0)
    assert encoded(np.int64([[1, 5], [5, 7]])).tolist() == [[1.5, 2.5], [2.5, 9]]
    large = 2**53 + 1  # This integer is not representable in float64.
    encoded = load("LabelEncoder", dtype=INT64, keys_int64s=[large - 1, large], values_int64s=[large + 2, 3])
    assert encoded(np.int64([[large - 1, large, 0]])).tolist() == [[large + 2, 3, -1]]
    tensors = {"keys_tensor": np.float32([2, NAN]), "values_tensor": np.int64([5, 6]), "default_tensor": np.int64([8])}
    encoded = load("LabelEncoder", version=4, **{k: numpy_helper.from_array(a) for k, a in tensors.items()})
    assert encoded(np.float32([[2, NAN, 3]])).tolist() == [[5, 6, 8]]


# --- linear models --------------------------------------------------------------------------------------------------
def test_linear_models_match_numpy():
    x, weights, bias = (
        np.float32([[-2, 1], [0.5, 3]]),
        np.float32([[0.2, 0.1], [0.3, -0.4], [-0.5, 0.2]]),
        [0.1, 0.2, 0.3],
    )
    scores = x @ weights.T + np.float32(bias)
    given = {"coefficients": weights.ravel().tolist(), "intercepts": bias}
    np.testing.assert_allclose(load("LinearRegressor", version=1, targets=3, **given)(x), scores, rtol=1e-5)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    transforms = {
        "NONE": scores,
        "LOGISTIC": 1 / (1 + np.exp(-scores)),
        "SOFTMAX": powers / powers.sum(1, keepdims=True),
    }
    for transform, expected in transforms.items():
        loaded = load("LinearClassifier", 2, 1, classlabels_ints=[7, 8, 9], post_transform=transform, **given)
        labels, result = loaded(x)
        assert labels.tolist() == (scores.argmax(1) + 7).tolist()
        np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("NONE", [[1.25, -0.25], [0.87, 0.13], [0.55, 0.45]]),
        ("LOGISTIC", [[0.5622, 0.4378], [0.4675, 0.5325], [0.3894, 0.6106]]),
    ],
)
def test_linear_classifier_expands_one_score_to_two_classes(transform, expected):
    given = {"coefficients": [0.2, 0.1], "intercepts": [0.05], "classlabels_ints": [3, 5]}
    loaded = load("LinearClassifier", 2, 1, post_transform=transform, **given)
    labels, scores = loaded(np.float32([[-2, 1], [0.3, 0.2], [1, 2]]))
    assert labels.tolist() == [3, 5, 5]
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_softmax_zero_transform_keeps_zero_scores():
    loaded = load("LinearRegressor", version=1, coefficients=np.eye(3).ravel().tolist(), targets=3,
                  post_transform="SOFTMAX_ZERO")  # fmt: skip
    powers = np.exp([0.3, 0.5])
    expected = [powers[0] / powers.sum(), 0, powers[1] / powers.sum()]
    np.testing.assert_allclose(loaded(np.float32([[0.3, 0, 0.5]])).numpy()[0], expected, rtol=1e-6)


# --- trees ----------------------------------------------------------------------------------------------------------
COMPARE = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


class Forest:
    """Random trees, as node attributes and for traversal in Python."""

    def __init__(self, seed: int, trees: int, depth: int, targets: int, modes: list[str]) -> None:
        self.rng, self.modes, self.targets = np.random.default_rng(seed), modes, targets
        self.nodes: list[dict] = []
        self.weights: list[tuple[int, int, int, float]] = []
        self.roots = [self.grow(tree, depth, [0]) for tree in range(trees)]

    def grow(self, tree: int, depth: int, count: list[int]) -> dict:
        number, rng = count[0], self.rng
        count[0] += 1
        entry = {"tree": tree, "number": number, "feature": 0, "split": 0.0, "mode": "LEAF", "missing": 0}
        self.nodes.append(entry)
        if depth == 0 or rng.random() < 0.15:
            entry["gives"] = [float(np.float32(w)) for w in rng.normal(size=self.targets)]
            self.weights += [(tree, number, t, w) for t, w in enumerate(entry["gives"])]
        else:
            entry |= {"feature": int(rng.integers(4)), "split": float(np.round(rng.normal(), 1))}
            entry |= {"mode": str(rng.choice(self.modes)), "missing": int(rng.integers(2))}
            entry["yes"], entry["no"] = self.grow(tree, depth - 1, count), self.grow(tree, depth - 1, count)
        return entry

    def attributes(self, what: str) -> dict:
        names = {"treeids": "tree", "nodeids": "number", "featureids": "feature", "values": "split", "modes": "mode"}
        result = {f"nodes_{name}": [n[key] for n in self.nodes] for name, key in names.items()}
        result["nodes_missing_value_tracks_true"] = [n["missing"] for n in self.nodes]
        for name, key in (("nodes_truenodeids", "yes"), ("nodes_falsenodeids", "no")):
            result[name] = [n[key]["number"] if key in n else 0 for n in self.nodes]
        columns = zip(*self.weights, strict=True)
        return result | {
            f"{what}_{n}": list(c) for n, c in zip(("treeids", "nodeids", "ids", "weights"), columns, strict=True)
        }

    def leaves(self, row: np.ndarray) -> np.ndarray:
        """Return the leaf values that each tree assigns to a row, as (trees, targets)."""
        result = []
        for entry in self.roots:
            while "gives" not in entry:
                x = row[entry["feature"]]
                taken = COMPARE[entry["mode"]](x, np.float32(entry["split"])) or (np.isnan(x) and entry["missing"])
                entry = entry["yes"] if taken else entry["no"]
            result.append(entry["gives"])
        return np.float64(result)


def rows(seed: int) -> np.ndarray:
    # Inputs are rounded so that some values equal a split.
    x = np.float32(np.round(np.random.default_rng(seed).normal(size=(30, 4)), 1))
    x[3, 2], x[5] = np.nan, np.nan
    return x


@pytest.mark.parametrize("modes", [["BRANCH_LEQ"], ["BRANCH_LT"], sorted(COMPARE)], ids=["leq", "lt", "all"])
@pytest.mark.parametrize(("trees", "depth", "targets"), [(1, 1, 1), (3, 4, 2), (8, 6, 3)])
def test_tree_ensembles_match_traversal(trees, depth, targets, modes):
    forest, x = Forest(trees, trees, depth, targets, modes), rows(1)
    given = np.stack([forest.leaves(row) for row in x])
    reductions = {"SUM": np.sum, "AVERAGE": np.mean, "MIN": np.min, "MAX": np.max}
    for function, reduction in reductions.items():
        loaded = load("TreeEnsembleRegressor", shape=("n", 4), n_targets=targets, aggregate_function=function,
                      base_values=[0.5] * targets, **forest.attributes("target"))  # fmt: skip
        np.testing.assert_allclose(loaded(x), reduction(given, 1) + 0.5, rtol=1e-4, atol=1e-5)
    if targets > 2:
        loaded = load(
            "TreeEnsembleClassifier", 2, shape=("n", 4), classlabels_int64s=[4, 3, 7], **forest.attributes("class")
        )
        labels, scores = loaded(x)
        np.testing.assert_allclose(scores, given.sum(1), rtol=1e-4, atol=1e-5)
        assert labels.tolist() == np.array([4, 3, 7])[given.sum(1).argmax(1)].tolist()


@pytest.mark.parametrize(
    ("given", "weights", "base", "transform", "labels", "scores"),
    [
        ([0], [-0.7, 0.2, 0.9], [], "NONE", [0, 1, 1], [[0.7, -0.7], [-0.2, 0.2], [-0.9, 0.9]]),
        ([0], [-0.7, 0.2, 0.9], [0.25], "LOGISTIC", [0, 1, 1], [[0.6106, 0.3894], [0.3894, 0.6106], [0.2405, 0.7595]]),
        ([0], [-0.7, 0.2, 0.9], [0.1, 0.4], "SOFTMAX", [0, 1, 1],
         [[0.3543, 0.6457], [0.5744, 0.4256], [0.7311, 0.2689]]),
        ([0], [0.1, 0.2, 0.9], [], "NONE", [0, 0, 1], [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]]),
        ([0], [0.1, 0.2, 0.9], [0.25], "LOGISTIC", [0, 0, 1], [[0.4134, 0.5866], [0.3894, 0.6106], [0.2405, 0.7595]]),
        ([0, 1], [-0.7, 0.2, 0.9], [], "NONE", [1, 1, 1], [[-0.7, 0.3], [0.2, 0.3], [0.9, 0.3]]),
        ([0, 1], [-0.7, 0.2, 0.9], [0.1, 0.4], "SOFTMAX", [0, 1, 1],
         [[0.6457, 0.3543], [0.2315, 0.7685], [0.0691, 0.9309]]),
        ([1], [0.1, 0.2, 0.9], [0.25], "LOGISTIC", [0, 0, 1], [[0.5, 0.525], [0.5, 0.5498], [0.5, 0.7109]]),
        ([1], [0.1, 0.2, 0.9], [0.1, 0.4], "SOFTMAX", [0, 0, 0], [[0.4013, 0.5987]] * 3),
    ],
)  # fmt: skip
def test_tree_classifier_with_two_classes_gives_expected_scores(given, weights, base, transform, labels, scores):
    """One tree with leaves 1, 3, and 4, whose weights go to either class, or to both (0.3 to the second)."""
    entries = [
        (leaf, c, w if c == given[0] else 0.3) for leaf, w in zip((1, 3, 4), weights, strict=True) for c in given
    ]
    attributes = {
        "nodes_treeids": [0] * 5,
        "nodes_nodeids": [0, 1, 2, 3, 4],
        "nodes_featureids": [0] * 5,
        "nodes_values": [0.5, 0.0, 1.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 3, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0],
        "class_treeids": [0] * len(entries),
        "class_nodeids": [e[0] for e in entries],
        "class_ids": [e[1] for e in entries],
        "class_weights": [e[2] for e in entries],
        "classlabels_int64s": [0, 1],
        "post_transform": transform,
    } | ({"base_values": base} if base else {})
    got_labels, got = load("TreeEnsembleClassifier", 2, shape=("n", 1), **attributes)(np.float32([[0], [1], [2]]))
    assert got_labels.tolist() == labels
    np.testing.assert_allclose(got, scores, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tree_ensemble_with_separate_leaves_matches_traversal(dtype):
    """Version 5 with two trees; the root of the second one tests set membership."""

    def tensor(values, kind: str = dtype):
        return numpy_helper.from_array(np.array(values, kind))

    made = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain=ML, n_targets=2, tree_roots=[0, 2], nodes_featureids=[0, 1, 0],
        nodes_modes=tensor([0, 1, 6], "uint8"), nodes_splits=tensor([0.2, 0.5, 0]), nodes_truenodeids=[1, 0, 3],
        nodes_trueleafs=[0, 1, 1], nodes_falsenodeids=[2, 1, 4], nodes_falseleafs=[1, 1, 1],
        leaf_targetids=[0, 1, 0, 0, 1], leaf_weights=tensor([5, 12, -12, 7, 0.5]),
        membership_values=tensor([1.25, 4, NAN]),
    )  # fmt: skip
    kind = FLOAT if dtype == "float32" else TensorProto.DOUBLE
    loaded = mg.onnx.load(model([made], [value("x", kind, ("n", 2))], [value("y", kind)], 5))
    result = loaded(np.array([[0.1, 0.4], [0.1, 0.5], [4, 0], [1.25, 0], [3, 0]], dtype))
    assert str(result.dtype) == dtype
    assert result.tolist() == [[5, 0.5], [0, 12.5], [-5, 0], [-5, 0], [-12, 0.5]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes_truenodeids": [9, 0, 0]}, "tree 0 refers to node 9"),
        ({"nodes_truenodeids": [0, 0, 0]}, "form a cycle"),
        ({"nodes_values": [0.5]}, "must have the same length"),
        ({"nodes_modes": ["BRANCH_SOMETIMES", "LEAF", "LEAF"]}, "'BRANCH_SOMETIMES'"),
        ({"target_ids": [0, 3]}, "refers to target 3"),
        ({"nodes_featureids": [5, 0, 0]}, "at least 6 features, because a tree uses feature 5"),
        ({"post_transform": "CUBE"}, "must be one of .*'CUBE'"),
        ({"aggregate_function": "MODE"}, "must be one of .*'MODE'"),
    ],
)
def test_invalid_trees_raise(change, message):
    attributes = {
        "nodes_treeids": [0] * 3,
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0] * 3,
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    with pytest.raises(mg.Error, match=f"TreeEnsembleRegressor 'the_node'.*{message}"):
        load("TreeEnsembleRegressor", shape=("n", 2), **{**attributes, **change})


# --- support vectors --------------------------------------------------------------------------------------------------
VECTORS = [[0, 0], [1, 0], [0, 1], [1, 1], [2, 1], [1, 2]]
PLACES = np.float32([[0.2, 0.1], [1.5, 1.5], [0.9, 0.2], [0, 2]])


def kernel(kind: str, x: np.ndarray) -> np.ndarray:
    """Return the kernel values of rows with the support vectors, for gamma 0.5, constant 0.1, and degree 2."""
    product = x.astype(np.float64) @ np.transpose(VECTORS)
    distances = ((x.astype(np.float64)[:, None] - VECTORS) ** 2).sum(2)
    affine = product / 2 + 0.1
    return {"LINEAR": product, "RBF": np.exp(-distances / 2), "POLY": affine**2, "SIGMOID": np.tanh(affine)}[kind]


def support(**more) -> dict:
    return {"support_vectors": [float(v) for row in VECTORS for v in row], "kernel_params": [0.5, 0.1, 2.0], **more}


@pytest.mark.parametrize("kind", ["LINEAR", "RBF", "POLY", "SIGMOID"])
def test_svm_regressor_matches_numpy(kind):
    weights = [0.5, -0.7, 0.3, 0.2, -0.4, 0.1]
    given = support(n_supports=6, coefficients=weights, rho=[0.25], kernel_type=kind)
    for shift in (0, 1000) if kind == "RBF" else (0,):  # Distances must stay accurate far away from the origin.
        given["support_vectors"] = [float(v + shift) for row in VECTORS for v in row]
        result = load("SVMRegressor", version=1, shape=("n", 2), **given)(PLACES + np.float32(shift))
        np.testing.assert_allclose(
            result.numpy()[:, 0], kernel(kind, PLACES) @ weights + 0.25, atol=1e-3 if shift else 1e-5
        )
    chosen = load("SVMRegressor", version=1, shape=("n", 2), one_class=1, **given | support(kernel_type="LINEAR"))
    assert chosen(PLACES).tolist() == [[1], [-1], [-1], [1]]


@pytest.mark.parametrize(
    ("of_pairs", "expected"),
    [
        ({}, [[0.5074, 0.1426, 0.438], [-0.1302, -0.921, -0.479], [0.53, -0.0554, 0.2212], [-0.2859, -0.3877, 0.0587]]),
        (
            {"prob_a": [-1.5, -2.0, -1.0], "prob_b": [0.1, -0.1, 0.2]},
            [[0.4576, 0.273, 0.2694], [0.1374, 0.27, 0.5926], [0.4018, 0.26, 0.3382], [0.2147, 0.3646, 0.4206]],
        ),
    ],
    ids=["scores", "probabilities"],
)
def test_svm_classifier_matches_onnx_runtime(of_pairs, expected):
    """Classes are chosen by votes, not by probability; the two differ in the last row."""
    weights = [0.5, 0.7, -0.6, -0.4, -0.8, -0.3, 0.2, 0.4, 0.6, 0.3, -0.5, -0.7]
    given = support(vectors_per_class=[2, 2, 2], coefficients=weights, rho=[0.1, -0.2, 0.05], kernel_type="RBF")
    given |= {"kernel_params": [0.5, 0.0, 3.0], "classlabels_ints": [4, 5, 6]}
    labels, scores = load("SVMClassifier", 2, 1, shape=("n", 2), **given, **of_pairs)(PLACES)
    assert labels.tolist() == [4, 6, 4, 5]
    np.testing.assert_allclose(scores, expected, atol=1e-4)


# --- string labels and dictionaries of scores -----------------------------------------------------------------------
def classifier() -> onnx.ModelProto:
    """Return a classifier as converters write it: labels, and a ZipMap from label to probability."""
    given = {
        "coefficients": [1.0, 0.0, 0.0, 1.0, -1.0, -1.0],
        "intercepts": [0.0, 0.0, 0.5],
        "post_transform": "SOFTMAX",
    }
    names = ["cat", "dog", "eel"]
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain=ML, classlabels_strings=names, **given),
        helper.make_node("Identity", ["label"], ["output_label"]),
        helper.make_node("Normalizer", ["scores"], ["probabilities"], domain=ML, norm="L1"),
        helper.make_node("ZipMap", ["probabilities"], ["output_probability"], domain=ML, classlabels_strings=names),
    ]
    table = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(FLOAT, []))
    tables = helper.make_value_info("output_probability", helper.make_sequence_type_proto(table))
    return model(nodes, [value("x", FLOAT, ("n", 2))], [value("output_label", TensorProto.STRING, ("n",)), tables], 1)


def test_string_labels_are_returned_as_class_indices():
    loaded = mg.onnx.load(classifier())
    x = np.float32([[2, 0], [0, 2], [-1, -1]])
    label, probabilities = loaded(x)
    names = ["cat", "dog", "eel"]
    assert loaded.classes == {"output_label": names, "output_probability": names}
    assert [names[i] for i in label.tolist()] == names
    scores = np.exp(np.c_[x, 0.5 - x.sum(1)])
    np.testing.assert_allclose(probabilities, scores / scores.sum(1, keepdims=True), rtol=1e-5)


def test_unsupported_strings_raise_with_advice():
    strings = {"keys_strings": ["a"], "values_int64s": [1]}
    with pytest.raises(mg.UnsupportedError, match="keys_strings is not supported: encode labels as integers"):
        load("LabelEncoder", dtype=INT64, **strings)
    with pytest.raises(mg.UnsupportedError, match="cats_strings is not supported"):
        load("OneHotEncoder", dtype=INT64, cats_strings=["a"])
    graph = helper.make_graph([], "g", [value("x", TensorProto.STRING, (1,))], [])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(mg.UnsupportedError, match=r"tensors of string \('x'\); encode strings as integers"):
        mg.onnx.load(made)
