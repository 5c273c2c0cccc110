"""Translations of ai.onnx.ml's tree ensembles, evaluated for all trees and rows at once.

One table stores all nodes. Leaves point to themselves. Each row starts at every root and takes as many steps as the
deepest tree has levels. A step gathers the feature that a node tests, compares it with the node's threshold, and
gathers the next node. Finally, the weights of the leaves are gathered and summed over the trees. If all nodes compare
with <=, or all with <, a single graph operation is used, tree_ensemble, which the CPU evaluates without branches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core import Tensor, float32, float64, int64
from ...errors import GraphError, ShapeError, UnsupportedError
from ..building.node import Node, Results, operator
from ._scores import ML, labelled, labels_of, rows_of, transform_of, transformed, with_other_class

MOST_WEIGHTS = 2**28  # Maximum number of nodes times the number of targets.
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
LEAF = -1  # The mode of a leaf in Forest.modes. Other modes are indices into _MODES.
# Comparisons that the graph operation tree_ensemble has for the first two modes.
_COMPARISONS = ("less_than_or_equal_to", "less_than")


@dataclass
class Forest:
    """The nodes of all trees, stored as arrays indexed by node."""

    features: np.ndarray
    splits: np.ndarray
    modes: np.ndarray  # LEAF or an index into _MODES.
    yes: np.ndarray  # The next node if the comparison is true.
    no: np.ndarray
    missing: np.ndarray  # Whether a NaN feature takes the true branch.
    roots: np.ndarray
    weights: np.ndarray  # Shape (nodes, targets), with NaN where a leaf does not contribute to a target.
    members: dict[int, np.ndarray]  # Maps BRANCH_MEMBER nodes to the values that they compare with.

    @property
    def used_modes(self) -> list[int]:
        return [mode for mode in range(len(_MODES)) if (self.modes == mode).any()] or [0]

    @property
    def depth(self) -> int:
        """The number of steps from a root to the farthest leaf. Raises GraphError if nodes form a cycle."""
        depth, inner = 0, self.modes != LEAF

        def once(nodes: np.ndarray) -> np.ndarray:
            reached = np.zeros(len(inner), bool)
            reached[nodes] = True
            found: np.ndarray = np.flatnonzero(reached & inner)
            return found

        level = once(self.roots)
        while level.size:
            depth += 1
            if depth > len(inner):
                raise GraphError("the nodes of a tree form a cycle")
            level = once(np.concatenate([self.yes[level], self.no[level]]))
        return depth


def _require_same_length(*named: tuple[str, Sequence[Any] | np.ndarray]) -> None:
    if len({len(values) for _, values in named}) > 1:
        raise ShapeError(
            "attributes must have the same length, got " + ", ".join(f"{name} {len(values)}" for name, values in named)
        )


def _floats(node: Node, name: str) -> np.ndarray | None:
    """Return an attribute as an array, or None if it is missing.

    The variant of the attribute that stores a double-precision tensor takes precedence.
    """
    tensor = node.attribute(f"{name}_as_tensor", None)
    if tensor is not None:
        array: np.ndarray = tensor.elements[0].reshape(-1)
        return array
    values = node.attribute(name, None)
    return None if values is None else np.array(values, np.float32)


def _forest(node: Node, what: str, targets: int) -> Forest:
    """Return the trees of TreeEnsembleClassifier or TreeEnsembleRegressor.

    `what` is the prefix of the attributes that hold leaf weights, such as "class" or "target".
    """
    trees, numbers = node.attribute("nodes_treeids"), node.attribute("nodes_nodeids")
    modes, splits = node.attribute("nodes_modes"), _floats(node, "nodes_values")
    yes, no = node.attribute("nodes_truenodeids"), node.attribute("nodes_falsenodeids")
    features = node.attribute("nodes_featureids")
    # These attributes are training statistics without effect on inference.
    for name in ("nodes_hitrates", "nodes_hitrates_as_tensor"):
        node.attribute(name, None)
    splits = np.zeros(len(trees), np.float32) if splits is None else splits
    _require_same_length(
        ("nodes_treeids", trees), ("nodes_nodeids", numbers), ("nodes_modes", modes), ("nodes_values", splits),
        ("nodes_truenodeids", yes), ("nodes_falsenodeids", no), ("nodes_featureids", features),
    )  # fmt: skip
    kinds = {"LEAF": LEAF} | {name: i for i, name in enumerate(_MODES)}
    unknown = set(modes) - set(kinds)
    if unknown:
        raise GraphError(f"nodes_modes must be LEAF or one of {', '.join(_MODES)}, got {sorted(unknown)[0]!r}")
    place = {key: i for i, key in enumerate(zip(trees, numbers, strict=True))}
    if len(place) < len(trees):
        raise GraphError("node ids must be unique within a tree")

    def followed(next_nodes: Sequence[int]) -> np.ndarray:
        try:
            ways = (i if modes[i] == "LEAF" else place[trees[i], n] for i, n in enumerate(next_nodes))
            return np.fromiter(ways, np.int32, len(next_nodes))
        except KeyError as error:
            raise GraphError(
                f"a node of tree {error.args[0][0]} refers to node {error.args[0][1]}, which does not exist"
            ) from None

    of_tree, of_node, ids = (node.attribute(f"{what}_{name}") for name in ("treeids", "nodeids", "ids"))
    given = _floats(node, f"{what}_weights")
    given = np.zeros(0, np.float32) if given is None else given
    _require_same_length((f"{what}_ids", ids), (f"{what}_treeids", of_tree), (f"{what}_weights", given))
    weights = _no_weights(len(trees), targets, given.dtype)
    for tree, number, target, weight in zip(of_tree, of_node, ids, given, strict=True):
        if (tree, number) not in place or not 0 <= target < targets:
            raise GraphError(
                f"a weight refers to target {target} at node {number} of tree {tree}, but this node does not exist or "
                f"the target is not between 0 and {targets - 1}"
            )
        at = place[tree, number], target
        weights[at] = weight if np.isnan(weights[at]) else weights[at] + weight
    roots = [i for i, tree in enumerate(trees) if i == 0 or tree not in trees[max(0, i - 1) : i]]
    roots = list({trees[i]: i for i in reversed(roots)}.values())[::-1]  # The first node of each tree.
    missing = node.attribute("nodes_missing_value_tracks_true", None)
    tracks = np.array(missing if missing else [0] * len(trees), bool)
    return Forest(
        np.array(features, np.int32),
        splits,
        np.array([kinds[mode] for mode in modes], np.int8),
        followed(yes),
        followed(no),
        tracks,
        np.array(sorted(roots), np.int32),
        weights,
        {},
    )


def _no_weights(nodes: int, targets: int, dtype: np.dtype[Any]) -> np.ndarray:
    if targets < 1 or nodes * targets > MOST_WEIGHTS:
        raise UnsupportedError(
            f"a tree ensemble must have between 1 and {MOST_WEIGHTS} weights, got {nodes} nodes times {targets} targets"
        )
    return np.full((nodes, targets), np.nan, dtype)


# --- evaluation -----------------------------------------------------------------------------------------------------
def _leaves(node: Node, x: Tensor, forest: Forest) -> Tensor:
    """Return the leaf that each row reaches in each tree, with shape (n, trees)."""
    g = node.g
    _require_features(x, forest)
    features, yes, no = (g.constant(a) for a in (forest.features, forest.yes, forest.no))
    splits = g.constant(forest.splits.astype(x.dtype.numpy))
    missing = g.constant(forest.missing) if forest.missing.any() else None
    modes = forest.used_modes
    kinds = g.constant(forest.modes.astype(np.int32)) if modes[1:] else None
    roots = g.constant(forest.roots[None])
    rows = node.joined([node.dim(x, 0), len(forest.roots)])
    at = g.broadcast_to(roots, rows)
    for _ in range(forest.depth):
        value = g.gather_along_axis(1, x, g.gather(features, at, 0))
        split = g.gather(splits, at, 0)
        taken = _compared(node, modes[0], value, split, at, forest)
        for mode in modes[1:]:
            this = g.equal(g.gather(kinds, at, 0), mode) if kinds is not None else g.constant(False)
            taken = g.select(this, _compared(node, mode, value, split, at, forest), taken)
        if missing is not None:
            taken = g.logical_or(taken, g.logical_and(g.is_nan(value), g.gather(missing, at, 0)))
        at = g.select(taken, g.gather(yes, at, 0), g.gather(no, at, 0))
    return at


def _compared(node: Node, mode: int, value: Tensor, split: Tensor, at: Tensor, forest: Forest) -> Tensor:
    g = node.g
    if _MODES[mode] == "BRANCH_MEMBER":
        longest = max(len(members) for members in forest.members.values())
        # Pad the sets with NaN, which compares unequal to everything.
        table = np.full((len(forest.modes), longest), np.nan, value.dtype.numpy)
        for i, members in forest.members.items():
            table[i, : len(members)] = members
        same = g.equal(g.expand_dims(value, 2), g.gather(g.constant(table), at, 0))
        return g.squeeze(g.reduction_or(same, 2), [2])
    methods = {
        "BRANCH_LEQ": g.less_than_or_equal_to,
        "BRANCH_LT": g.less_than,
        "BRANCH_GTE": g.greater_than_or_equal_to,
        "BRANCH_GT": g.greater_than,
        "BRANCH_EQ": g.equal,
        "BRANCH_NEQ": g.not_equal,
    }
    return methods[_MODES[mode]](value, split)


def _aggregated(node: Node, x: Tensor, forest: Forest, function: str) -> Tensor:
    """Return the combined result of all trees, with shape (n, targets)."""
    g = node.g
    reductions = {"SUM": "sum", "AVERAGE": "sum", "MIN": "minimum", "MAX": "maximum"}
    if function not in reductions:
        raise GraphError(f"aggregate_function must be one of {', '.join(reductions)}, got {function!r}")
    nothing = {"MIN": math.inf, "MAX": -math.inf}.get(function, 0.0)
    weights = np.where(np.isnan(forest.weights), np.array(nothing, forest.weights.dtype), forest.weights)
    result = _reduced(node, x, forest, weights, reductions[function])
    if function == "AVERAGE":
        return g.division(result, float(len(forest.roots)))
    if function != "SUM":  # Targets that no leaf contributed to are infinite and become 0.
        return g.select(g.is_infinite(result), 0.0, result)
    return result


def _reduced(node: Node, x: Tensor, forest: Forest, weights: np.ndarray, reduction: str) -> Tensor:
    """Combine the weights of the leaves that each row reaches, over all trees.

    One graph operation is used if all nodes compare with <=, or all with <.
    """
    g = node.g
    modes = forest.used_modes
    whole = x.dtype in (float32, float64) and weights.dtype in (np.float32, np.float64)
    if whole and len(modes) == 1 and modes[0] < len(_COMPARISONS):
        _require_features(x, forest)
        tables = (forest.features, forest.yes, forest.no, forest.splits.astype(x.dtype.numpy), forest.missing,
                  forest.roots, weights)  # fmt: skip
        how = {"depth": forest.depth, "comparison": _COMPARISONS[modes[0]], "reduction": reduction}
        return g.create("tree_ensemble", [x, *(g.constant(table) for table in tables)], how).outputs[0]
    given = g.gather(g.constant(weights), _leaves(node, x, forest), 0)
    methods = {"sum": g.reduction_sum, "minimum": g.reduction_minimum, "maximum": g.reduction_maximum}
    return g.squeeze(methods[reduction](given, 1), [1])


def _require_features(x: Tensor, forest: Forest) -> None:
    if len(forest.features) and x.shape is not None and 0 <= x.shape[1] <= forest.features.max(initial=0):
        raise ShapeError(
            f"rows must have at least {forest.features.max() + 1} features, because a tree uses feature "
            f"{forest.features.max()}, got shape {x.shape}"
        )


@operator("TreeEnsembleRegressor", upto=5, domain=ML)
def tree_ensemble_regressor(node: Node) -> Results:
    x, g = rows_of(node), node.g
    forest = _forest(node, "target", node.attribute("n_targets"))
    y = _aggregated(node, x, forest, node.attribute("aggregate_function", "SUM"))
    base = _floats(node, "base_values")
    if base is not None and base.size:
        y = g.addition(y, g.constant(base.astype(y.dtype.numpy)))
    return node.cast(transformed(node, y, transform_of(node)), float32)


@operator("TreeEnsembleClassifier", upto=5, domain=ML)
def tree_ensemble_classifier(node: Node) -> Results:
    g, x, transform = node.g, rows_of(node), transform_of(node)
    numbers, names = labels_of(node, "classlabels_int64s")
    classes = len(names or numbers or ())
    if not classes:
        raise GraphError("TreeEnsembleClassifier needs classlabels_int64s or classlabels_strings")
    forest = _forest(node, "class", classes)
    y = _aggregated(node, x, forest, "SUM")
    base = _floats(node, "base_values")
    base = np.zeros(0, np.float32) if base is None else base
    if classes == 2:
        place, y = _of_two(node, y, forest, base, transform)
    else:
        y = g.addition(y, g.constant(base.astype(y.dtype.numpy))) if base.size else y
        place = g.squeeze(g.reduction_arg_maximum(y, 1), [1])
        y = transformed(node, y, transform)
    return [labelled(node, place, numbers, names), node.cast(y, float32)]


def _of_two(node: Node, y: Tensor, forest: Forest, base: np.ndarray, transform: str) -> tuple[Tensor, Tensor]:
    """Return the class index and the scores for two classes, as in ONNX Runtime.

    If leaves contribute to one class only, their sum is the score of the second class. The second class is chosen if
    this score is above 0.5 (if no weight is negative) or above 0 (otherwise). If leaves contribute to both classes, the
    second class is chosen if its score is above 0.
    """
    g = node.g
    first, second = (bool((~np.isnan(forest.weights[:, i])).any()) for i in (0, 1))
    scores = [g.slice_axis(y, 1, i, 1) for i in (0, 1)]
    positive = not (forest.weights < 0).any()
    if len(base) == 2 and second:
        scores[1] = g.addition(scores[0], float(base[1]))
        scores[0] = g.negative(scores[1]) if first else scores[0]
    elif len(base) and first:
        scores[0] = g.addition(scores[0], float(base[0]))
    limit = 0.5 if positive and first != second else 0.0
    place = g.squeeze(g.cast(g.greater_than(scores[1 if second else 0], limit), int64), [1])
    if second or len(base) == 2:
        return place, transformed(node, g.concat(scores, 1), transform)
    return place, with_other_class(node, scores[0], transform, positive)


# --- version 5, with separate leaves --------------------------------------------------------------------------------
@operator("TreeEnsemble", upto=5, domain=ML)
def tree_ensemble(node: Node) -> Results:
    x, targets = rows_of(node), node.attribute("n_targets", 0)
    node.attribute("nodes_hitrates", None)  # nodes_hitrates holds training statistics without effect on inference.
    forest = _forest_with_leaves(node, targets)
    number = node.attribute("aggregate_function", 1)
    functions = ("AVERAGE", "SUM", "MIN", "MAX")
    if not 0 <= number < len(functions):
        raise GraphError(f"aggregate_function must be between 0 and 3, got {number}")
    y = _aggregated(node, x, forest, functions[number])
    return transformed(node, y, transform_of(node))


def _forest_with_leaves(node: Node, targets: int) -> Forest:
    """Return the trees of TreeEnsemble, appending the leaves to the table of nodes."""
    splits = node.attribute("nodes_splits").elements[0]
    modes = node.attribute("nodes_modes").elements[0].reshape(-1).astype(np.int8)
    features = node.attribute("nodes_featureids")
    ways = [node.attribute(name) for name in ("nodes_truenodeids", "nodes_falsenodeids")]
    to_leaf = [node.attribute(name) for name in ("nodes_trueleafs", "nodes_falseleafs")]
    ids, given = node.attribute("leaf_targetids"), node.attribute("leaf_weights").elements[0].reshape(-1)
    _require_same_length(("nodes_splits", splits), ("nodes_modes", modes), ("nodes_featureids", features), *(
        (name, values) for name, values in zip(("nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs",
                                                "nodes_falseleafs"), (*ways, *to_leaf), strict=True)
    ))  # fmt: skip
    _require_same_length(("leaf_targetids", ids), ("leaf_weights", given))
    count, leaves = len(modes), len(ids)
    if ((modes < 0) | (modes >= len(_MODES))).any():
        raise GraphError(f"nodes_modes must be between 0 and {len(_MODES) - 1}, got {modes.tolist()}")
    own = np.arange(count + leaves, dtype=np.int32)
    yes, no = (
        np.concatenate([np.array(way, np.int32) + count * np.array(leaf, bool).astype(np.int32), own[count:]])
        for way, leaf in zip(ways, to_leaf, strict=True)
    )
    roots = np.array(node.attribute("tree_roots"), np.int32)
    both = np.concatenate([yes, no, roots])
    if ((both < 0) | (both >= count + leaves)).any():
        raise GraphError(
            f"a node refers to a node or leaf that does not exist; there are {count} nodes and {leaves} leaves"
        )
    weights = _no_weights(count + leaves, targets, given.dtype)
    of_leaf = np.array(ids, np.int64)
    outside = of_leaf[(of_leaf < 0) | (of_leaf >= targets)]
    if outside.size:
        raise GraphError(f"leaf_targetids must be between 0 and {targets - 1}, got {outside[0]}")
    weights[count + np.arange(leaves), of_leaf] = given
    missing = node.attribute("nodes_missing_value_tracks_true", None)
    tracks = np.zeros(count + leaves, bool)
    tracks[:count] = np.array(missing, bool) if missing else False
    return Forest(
        np.concatenate([np.array(features, np.int32), np.zeros(leaves, np.int32)]),
        np.concatenate([splits.reshape(-1), np.zeros(leaves, splits.dtype)]),
        np.concatenate([modes, np.full(leaves, LEAF, np.int8)]),
        yes, no, tracks, roots, weights, _members(node, modes),
    )  # fmt: skip


def _members(node: Node, modes: np.ndarray) -> dict[int, np.ndarray]:
    """Return the set of values that each BRANCH_MEMBER node tests for, keyed by the index of the node.

    The attribute lists the values of all sets, and NaN ends each set.
    """
    wanted = [i for i, m in enumerate(modes) if _MODES[m] == "BRANCH_MEMBER"]
    tensor = node.attribute("membership_values", None)
    values = np.zeros(0, np.float32) if tensor is None else tensor.elements[0].reshape(-1)
    ends = np.flatnonzero(np.isnan(values))
    sets = [part[~np.isnan(part)] for part in np.split(values, ends + 1)]
    if len(ends) < len(wanted):
        raise GraphError(f"membership_values must have {len(wanted)} sets, one per BRANCH_MEMBER node, got {len(ends)}")
    return dict(zip(wanted, sets, strict=False))
