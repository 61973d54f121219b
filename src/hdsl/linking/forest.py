"""Decision trees whose sums take microseconds per pair, and which a file can hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from ..cpu.kernels.forest import Nodes, forest_sums
from ..cpu.workers import Workers
from ..files.container import Arrays
from ..files.tables import get_array

#: Multiplications that a comparison takes, about, and comparisons of a row in a tree.
COMPARISON_COST = 4
DEPTH = 8

#: Rows that say whether boosted trees were understood.
N_CHECKED = 50


class _Tree(NamedTuple):
    """The nodes of a tree in any order, the root first; children of leaves are -1."""

    feature: np.ndarray
    threshold: np.ndarray
    misses_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray


class Trees:
    """Decision trees, each of which adds a number to a row."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    @classmethod
    def of_randomized(cls, classifier: ExtraTreesClassifier) -> Trees:
        """Return trees that add the probability of the class 1 in their leaves."""
        every = [estimator.tree_ for estimator in classifier.estimators_]
        return cls._of_trees(
            [
                _Tree(
                    feature=tree.feature,
                    threshold=tree.threshold,
                    misses_left=np.zeros(tree.node_count, dtype=bool),
                    left=tree.children_left,
                    right=tree.children_right,
                    value=_shares(tree.value),
                )
                for tree in every
            ]
        )

    @classmethod
    def of_tables(cls, tables: Sequence[np.ndarray]) -> Trees:
        """Return trees from the tables of nodes that scikit-learn's boosted trees have."""
        return cls._of_trees([_boosted_tree(nodes) for nodes in tables])

    @classmethod
    def _of_trees(cls, trees: Sequence[_Tree]) -> Trees:
        sizes = np.array([len(tree.feature) for tree in trees], dtype=np.int64)
        firsts = np.cumsum(sizes) - sizes
        joined = _Tree(*map(np.concatenate, zip(*trees, strict=True)))
        tree_of_node = np.repeat(np.arange(len(trees)), sizes)
        first_of_node = firsts[tree_of_node]
        is_leaf = joined.left < 0
        left = np.where(is_leaf, -1, joined.left + first_of_node)
        right = np.where(is_leaf, -1, joined.right + first_of_node)
        order = _level_by_level(firsts, left, right)
        order = order[np.argsort(tree_of_node[order], kind="stable")]
        numbers = np.empty(len(order), dtype=np.int64)
        numbers[order] = np.arange(len(order))
        is_leaf = is_leaf[order]
        child = np.where(is_leaf, -is_leaf.cumsum(), numbers[left[order]])
        return cls(
            Nodes(
                roots=firsts,
                feature=np.where(is_leaf, 0, joined.feature[order]).astype(np.int32),
                threshold=np.where(is_leaf, 0.0, joined.threshold[order]),
                misses_left=joined.misses_left[order],
                child=child.astype(np.int32),
                value=joined.value[order][is_leaf],
            )
        )

    @property
    def n_trees(self) -> int:
        """How many trees there are."""
        return len(self._nodes.roots)

    def add(self, X: np.ndarray, sums: np.ndarray, n_jobs: int | None) -> None:
        """Add what all trees say of rows of X to their sums."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        cost = self.n_trees * DEPTH * COMPARISON_COST
        with Workers(n_jobs) as workers:
            workers.run_pieces(forest_sums, len(X), cost, X, self._nodes, sums)

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the nodes."""
        return self._nodes._asdict()

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_features: int) -> Trees:
        """Return what `to_arrays` was called on; raise ValueError if it is none."""
        child = get_array(arrays, "child", "i", (None,)).astype(np.int32)
        value = get_array(arrays, "value", "f", (None,)).astype(np.float64)
        shape = (len(child),)
        nodes = Nodes(
            roots=get_array(arrays, "roots", "i", (None,)).astype(np.int64),
            feature=get_array(arrays, "feature", "i", shape).astype(np.int32),
            threshold=get_array(arrays, "threshold", "f", shape).astype(np.float64),
            misses_left=get_array(arrays, "misses_left", "b", shape),
            child=child,
            value=value,
        )
        _check_nodes(nodes, n_features)
        return cls(nodes)


class LibraryTrees:
    """Boosted trees as scikit-learn runs them: slower, and no file holds them."""

    def __init__(self, classifier: HistGradientBoostingClassifier) -> None:
        self._classifier = classifier

    def add(self, X: np.ndarray, sums: np.ndarray, n_jobs: int | None) -> None:
        """Add the log odds of rows of X to their sums."""
        if len(X):
            sums += self._classifier.decision_function(X)


class BoostedTrees(NamedTuple):
    """Trees that add log odds, and the log odds to which they add."""

    trees: Trees | LibraryTrees
    baseline: float

    @classmethod
    def of_classifier(
        cls, classifier: HistGradientBoostingClassifier, X: np.ndarray
    ) -> BoostedTrees:
        """Return the trees of a classifier, checked on some rows of X.

        They are what a pickle has: that is where other programs that run such trees
        take them from. A version of scikit-learn that keeps them in another form runs
        them itself.
        """
        rows = X[:N_CHECKED]
        # What reading another form may raise.
        with suppress(AttributeError, IndexError, KeyError, TypeError, ValueError):
            boosted = cls._of_state(classifier.__getstate__())
            sums = np.full(len(rows), boosted.baseline)
            boosted.trees.add(rows, sums, n_jobs=1)
            if np.allclose(sums, classifier.decision_function(rows), atol=1e-8):
                return boosted
        return cls(LibraryTrees(classifier), baseline=0.0)

    @classmethod
    def _of_state(cls, state: dict[str, Any]) -> BoostedTrees:
        """Return the trees of what a pickle has."""
        tables = [
            predictor.nodes
            for predictors in state["_predictors"]
            for predictor in predictors
        ]
        baseline = float(state["_baseline_prediction"][0, 0])
        return cls(Trees.of_tables(tables), baseline)


def _boosted_tree(nodes: np.ndarray) -> _Tree:
    """Return a tree from the table of nodes that scikit-learn has."""
    is_leaf = nodes["is_leaf"].astype(bool)
    # All numbers but NaN are at most this; a file has finite numbers.
    largest = np.finfo(np.float64).max
    return _Tree(
        feature=nodes["feature_idx"],
        threshold=np.minimum(nodes["num_threshold"], largest),
        misses_left=nodes["missing_go_to_left"].astype(bool),
        left=np.where(is_leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(is_leaf, -1, nodes["right"].astype(np.int64)),
        value=nodes["value"],
    )


def _level_by_level(
    roots: np.ndarray, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Return the nodes of trees, both children of a node next to each other."""
    levels = [roots]
    while len(levels[-1]):
        inner = levels[-1][left[levels[-1]] >= 0]
        levels.append(np.column_stack([left[inner], right[inner]]).ravel())
    return np.concatenate(levels)


def _check_nodes(nodes: Nodes, n_features: int) -> None:
    """Raise ValueError unless each row comes to a leaf, by the features that there are."""
    n_nodes = len(nodes.child)
    numbers = np.arange(n_nodes)
    is_leaf = nodes.child < 0
    leaf_numbers = -1 - nodes.child[is_leaf].astype(np.int64)
    children = nodes.child[~is_leaf].astype(np.int64)
    if len(nodes.roots) == 0:
        raise ValueError("roots must number a tree")
    if not ((nodes.roots >= 0) & (nodes.roots < n_nodes)).all():
        raise ValueError("roots number nodes that are not there")
    if not ((nodes.feature >= 0) & (nodes.feature < n_features)).all():
        raise ValueError(f"feature must be from 0 to {n_features - 1}")
    if not (leaf_numbers < len(nodes.value)).all():
        raise ValueError("child numbers leaves that are not there")
    if not ((children > numbers[~is_leaf]) & (children + 1 < n_nodes)).all():
        raise ValueError("child must number later nodes")


def _shares(value: np.ndarray) -> np.ndarray:
    """Return the share of the class 1 in each node."""
    counts = value[:, 0, :]
    return np.ascontiguousarray(counts[:, 1] / counts.sum(axis=1))
