"""Several labels per row: from comparisons to votes, scores and errors."""

import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import hdsl
from hdsl import (
    HDSL,
    ClassScores,
    SimilarityKNeighborsClassifier,
    Solver,
    evaluate,
    triplets,
)
from hdsl.labels import aligned, label_sets, overlap, split_labels

#: As in a table: some rows have one label, some several, some none.
SETS = st.lists(st.sets(st.sampled_from("abc")), min_size=4, max_size=8)


def make_rows(n=240, seed=0):
    """Rows whose features come from their labels: each of four has six words of its own."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, 4)) < 0.4).astype(int)
    Y[np.arange(n), rng.integers(4, size=n)] = 1
    words = rng.random((n, 24)) < np.repeat(0.05 + 0.35 * Y, 6, axis=1)
    noise = rng.random((n, 60)) < 0.1
    return sp.csr_array(np.hstack([words, noise]).astype(float)), Y


@given(SETS, SETS)
def test_overlap_is_the_f1_score_of_two_sets(a, b):
    n = min(len(a), len(b))
    first, second = aligned(
        *(label_sets([sorted(s) for s in sets[:n]]) for sets in (a, b))
    )
    pairs = zip(a[:n], b[:n], strict=True)
    expected = [2 * len(x & y) / (len(x) + len(y)) if x | y else 1.0 for x, y in pairs]
    assert overlap(first.indicator, second.indicator).tolist() == pytest.approx(
        expected
    )


@given(SETS, st.integers(0, 100))
def test_comparisons_are_of_rows_that_share_more_and_weigh_the_difference(sets, seed):
    X = np.random.default_rng(seed).integers(0, 3, size=(len(sets), 5)).astype(float)
    y = label_sets([sorted(s) for s in sets])
    try:
        judgements = triplets.shared_label_triplets(X, y, 2, 2)
    except ValueError:
        return
    for (a, p, q), weight in zip(
        judgements.triplets.tolist(), judgements.weights, strict=True
    ):
        assert len({a, p, q}) == 3
        assert sets[a]
        shares = [
            2 * len(sets[a] & sets[b]) / (len(sets[a]) + len(sets[b])) for b in (p, q)
        ]
        assert weight == pytest.approx(shares[0] - shares[1])
        assert weight > 0
    assert len(np.unique(judgements.triplets, axis=0)) == len(judgements.triplets)


def test_one_label_each_makes_the_triplets_of_one_label_per_row():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(40, 12)).astype(float)
    y = rng.integers(3, size=40)
    judgements = triplets.shared_label_triplets(
        X, [[label] for label in y.tolist()], 3, 4
    )
    expected = triplets.neighbor_triplets(X, y, 3, 4)
    assert sorted(judgements.triplets.tolist()) == sorted(expected.tolist())
    assert (judgements.weights == 1).all()


@pytest.mark.parametrize("mining", ["neighbors", "random"])
def test_learning_from_several_labels_lowers_the_error(mining):
    X, Y = make_rows()
    model = HDSL(random_state=0, mining=mining, solver=Solver(max_iter=5)).fit(
        X[:160], Y[:160]
    )
    errors = evaluate.compare_errors(model, X[:160], Y[:160], X[160:], Y[160:])
    assert errors.after.share < errors.before.share
    assert model.choice_ is not None
    assert model.choice_["score"].max() <= 1


def test_indicators_and_lists_are_one_and_come_back_as_given():
    X, Y = make_rows(120)
    names = np.array(list("abcd"))
    lists = [names[row > 0].tolist() for row in Y]
    forms = {"dense": Y, "sparse": sp.csr_matrix(Y), "rows": Y.tolist(), "lists": lists}
    models = {
        name: HDSL(prior=1.0, solver=Solver(max_iter=3), random_state=0).fit(X, y)
        for name, y in forms.items()
    }
    assert len({model.objective_ for model in models.values()}) == 1
    knn = {
        name: SimilarityKNeighborsClassifier(5).fit(X, y) for name, y in forms.items()
    }
    predicted = knn["dense"].predict(X)
    assert predicted.shape == Y.shape
    assert set(np.unique(predicted)) <= {0, 1}
    assert np.array_equal(knn["sparse"].predict(X).toarray(), predicted)
    assert knn["lists"].predict(X) == [
        tuple(names[row > 0].tolist()) for row in predicted
    ]
    assert knn["lists"].classes_.tolist() == names.tolist()
    share = np.mean((predicted == Y).all(axis=1))
    assert all(each.score(X, forms[name]) == share for name, each in knn.items())
    votes = knn["dense"].predict_proba(X)
    assert np.array_equal(votes > 0.5, predicted == 1)
    assert votes.max() <= 1


def test_an_error_is_one_minus_the_f1_score_and_unknown_labels_count():
    X = np.eye(2)
    error = partial(evaluate.knn_error, None, X, [["a"], ["b", "c"]], X, n_neighbors=1)
    assert error([["a"], ["b", "c"]]) == 0
    assert error([["new"], ["b"]]) == pytest.approx((1 + 1 / 3) / 2)
    with pytest.raises(ValueError, match="several"):
        error(["a", "b"])


def test_scores_of_several_labels_are_saved_and_explained(tmp_path):
    X, Y = make_rows()
    Y[:, 3] = 0  # a label that no row has
    scores = ClassScores(random_state=0)
    rows = scores.fit_transform(X, Y)
    assert rows.shape == (240, X.shape[1] + 4)
    assert not rows[:, [-1]].toarray().any()
    model = make_pipeline(scores, HDSL(prior=1.0, solver=Solver(max_iter=3))).fit(X, Y)
    hdsl.save(model, tmp_path / "m.hdsl")
    again = hdsl.load(tmp_path / "m.hdsl")
    assert np.array_equal(again.transform(X).toarray(), model.transform(X).toarray())
    assert set(scores.words(X[[0]])[0]) <= {0, 1, 2, 3}
    with pytest.raises(ValueError, match="linear"):
        ClassScores(RandomForestClassifier(2)).fit(X, Y)
    assert ClassScores(LogisticRegression(), cv=2).fit(
        X, Y[:, :2]
    ).classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "tells"),
    [
        ([["a"], ["b"], ["c"], ["d"]], "share"),
        ([["a"], ["a"], ["a"], ["a"]], "not all the same"),
        (np.array([[0, 2], [1, 0], [1, 1], [0, 1]]), "indicator"),
        ([["a", "a"], ["b"], ["b"], ["a"]], "twice"),
        ([["a", None], ["a"], ["b"], []], "empty list"),
        ([["a", pd.NA], ["a"], ["b"], []], "empty list"),
        ([None, ["a"], ["b"], []], "3 rows"),
        ([["a", 1], ["a"], ["b"], []], "not both"),
        ([["a"], ["a"], ["b"]], "4 rows"),
    ],
)
def test_labels_that_cannot_be_used_are_told(y, tells):
    with pytest.raises(ValueError, match=tells):
        HDSL().fit(np.eye(4), y)
    with pytest.raises(ValueError, match="separator"):
        split_labels(["a;b"], "")
    with pytest.raises(MemoryError, match="columns"):
        label_sets(sp.csr_array(([1.0], ([0], [2**45])), shape=(4, 2**46)))


def test_a_frame_of_numbers_and_truth_values_is_an_indicator():
    frame = pd.DataFrame({"cat": [1, 0, 1], "dog": [True, False, False]})
    assert label_sets(frame).indicator.toarray().tolist() == [[1, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize("k", [16, 18, 22, 36])
def test_half_of_the_votes_are_not_most(k):
    labels = [["a"] if row % 2 else ["b"] for row in range(k)]
    model = SimilarityKNeighborsClassifier(k).fit(np.ones((k, 1)), labels)
    assert model.predict([[1.0]]) == [()]
    fewer = SimilarityKNeighborsClassifier(2).fit(np.ones((k, 1)), labels)
    assert fewer.score(None, labels) == fewer.score(np.ones((k, 1)), labels) == 0.0


def test_labels_that_no_row_has_take_no_votes():
    """A million of them, where a dense matrix of the votes would take half a GiB."""
    X, Y = make_rows(60)
    columns = Y.nonzero()
    wide = sp.csr_array(
        (np.ones(Y.sum()), (columns[0], columns[1] * 250_000)), (60, 10**6)
    )
    model = SimilarityKNeighborsClassifier()
    tracemalloc.start()
    predicted = model.fit(X, wide).predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e8
    assert np.array_equal(predicted[:, ::250_000].toarray(), model.fit(X, Y).predict(X))
