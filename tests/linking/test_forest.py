"""Trees by a compiled loop say what scikit-learn's say, from a file too."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from hdsl.linking.forest import BoostedTrees, Trees


@pytest.fixture(scope="module")
def rows():
    """Rows of six features, some of them missing, and what the first two say."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 6)).astype(np.float32).astype(np.float64)
    labels = (X[:, 0] * X[:, 1] > 0.2).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, labels


def randomized(rows, n_trees=7):
    X, labels = rows
    X = np.nan_to_num(X, nan=-1e6)
    weight = np.random.default_rng(1).uniform(0.1, 1.0, size=200)
    return ExtraTreesClassifier(n_trees, random_state=0).fit(
        X[:200], labels[:200], sample_weight=weight
    )


def boosted(rows):
    X, labels = rows
    classifier = HistGradientBoostingClassifier(
        max_iter=30, max_leaf_nodes=8, min_samples_leaf=3, random_state=0
    )
    return classifier.fit(X[:400], labels[:400])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_randomized_trees_are_those_of_scikit_learn(rows, n_jobs):
    classifier = randomized(rows)
    trees = Trees.of_randomized(classifier)
    new = np.tile(np.nan_to_num(rows[0], nan=-1e6), (20, 1))
    sums = np.zeros(len(new))
    trees.add(new, sums, n_jobs)
    expected = classifier.predict_proba(new)[:, 1]
    np.testing.assert_allclose(sums / trees.n_trees, expected, atol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_boosted_trees_are_those_of_scikit_learn_to_the_last_bit(rows, n_jobs):
    X, _ = rows
    classifier = boosted(rows)
    trees, baseline = BoostedTrees.of_classifier(classifier, X)
    new = np.tile(X, (20, 1))
    sums = np.full(len(new), baseline)
    trees.add(new, sums, n_jobs)
    np.testing.assert_array_equal(sums, classifier.decision_function(new))


def test_a_missing_number_goes_to_its_side():
    """A split that tells missing numbers from all others has no finite threshold."""
    X = np.array([[1.0], [2.0], [np.nan], [np.nan]] * 20)
    labels = np.isnan(X[:, 0]).astype(float)
    classifier = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2)
    trees, baseline = BoostedTrees.of_classifier(classifier.fit(X, labels), X)
    new = np.array([[-1e300], [1e300], [np.nan]])
    sums = np.full(3, baseline)
    trees.add(new, sums, n_jobs=1)
    np.testing.assert_array_equal(sums, classifier.decision_function(new))
    assert sums[2] > 0.0 > sums[1]


def test_trees_of_another_form_are_refused(rows, monkeypatch):
    classifier = boosted(rows)
    state = classifier.__getstate__()
    state["_baseline_prediction"] = state["_baseline_prediction"] + 1.0
    monkeypatch.setattr(type(classifier), "__getstate__", lambda self: state)
    with pytest.raises(RuntimeError, match="scikit-learn"):
        BoostedTrees.of_classifier(classifier, rows[0])


def test_no_row_has_no_sum(rows):
    X, _ = rows
    sums = np.zeros(0)
    Trees.of_randomized(randomized(rows)).add(X[:0], sums, None)
    assert sums.shape == (0,)


def test_a_file_has_the_same_trees(rows):
    X, _ = rows
    trees, _ = BoostedTrees.of_classifier(boosted(rows), X)
    again = Trees.from_arrays(trees.to_arrays(), n_features=6)
    sums = np.zeros((2, len(X)))
    trees.add(X, sums[0], n_jobs=1)
    again.add(X, sums[1], n_jobs=1)
    np.testing.assert_array_equal(sums[0], sums[1])


@pytest.mark.parametrize(
    ("name", "position", "value", "message"),
    [
        ("roots", 0, 10**6, "roots"),
        ("roots", 0, -1, "roots"),
        ("feature", 0, 6, "feature"),
        ("feature", 0, -1, "feature"),
        ("child", 0, 0, "later nodes"),  # a row would never come to a leaf
        ("child", 0, 10**6, "later nodes"),
        ("child", -1, -(10**6), "leaves"),
        ("threshold", 0, np.nan, "finite"),
        ("value", 0, np.inf, "finite"),
    ],
)
def test_damaged_trees_are_refused(rows, name, position, value, message):
    arrays = Trees.of_randomized(randomized(rows, n_trees=2)).to_arrays()
    arrays[name] = arrays[name].copy()
    arrays[name][position] = value
    with pytest.raises(ValueError, match=message):
        Trees.from_arrays(arrays, n_features=6)


@pytest.mark.parametrize("name", ["roots", "feature", "child", "value", "misses_left"])
def test_trees_without_some_of_their_nodes_are_refused(rows, name):
    arrays = Trees.of_randomized(randomized(rows, n_trees=2)).to_arrays()
    del arrays[name]
    with pytest.raises(ValueError, match=name):
        Trees.from_arrays(arrays, n_features=6)
