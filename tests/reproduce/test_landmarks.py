"""SimilarityClassifier: landmarks with weights, comparisons with class means, files."""

import pickle

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

import reference
from hdsl import HDSL, Solver
from reproduce.landmarks import (
    N_CLASSES,
    N_GROUPS,
    SimilarityClassifier,
    landmark_triplets,
)


def counts(seed=0, n=60, d=12):
    """Return counts of three classes, each with four features of its own under noise; labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    A = rng.integers(0, 4, size=(n, d)) * (rng.random((n, d)) < 0.3)
    A[np.arange(n), 4 * y + rng.integers(4, size=n)] += 3
    return A.astype(float), np.array(["a", "b", "c"])[y]


X, Y = counts()


@pytest.fixture(scope="module")
def model():
    return HDSL(scale=5.0, prior=0.3, solver=Solver(max_iter=10), random_state=0).fit(
        X, Y
    )


@pytest.mark.filterwarnings("ignore:There is one row only")
@pytest.mark.parametrize(
    "estimator",
    [
        SimilarityClassifier(C=1.0, random_state=0),
        SimilarityClassifier(
            HDSL(prior=1.0, solver=Solver(max_iter=2), random_state=0),
            loss="log_loss",
            landmarks=10,
            C=1.0,
        ),
    ],
    ids=["plain", "learned"],
)
def test_scikit_learn_checks(estimator):
    # They compare the last digits, as of LinearSVC itself, and need a cv of splits.
    expected = dict.fromkeys(
        [
            f"check_sample_weight_equivalence_on_{kind}_data"
            for kind in ("dense", "sparse")
        ],
        "the solver stops early",
    )
    results = check_estimator(estimator, on_skip=None, expected_failed_checks=expected)
    assert {result["status"] for result in results} <= {"passed", "skipped", "xfail"}


@pytest.mark.parametrize(
    ("loss", "cosine", "y"),
    [
        ("squared_hinge", True, Y),
        ("log_loss", False, Y),
        ("log_loss", True, Y != "a"),
        ("squared_hinge", False, Y != "a"),
    ],
)
def test_scores_are_weighted_similarities_to_landmarks(model, loss, cosine, y):
    found = SimilarityClassifier(
        model, loss=loss, cosine=cosine, landmarks=30, C=5.0, random_state=0
    ).fit(X, y)
    S = model.similarity(X, X[found.landmarks_], cosine=cosine)
    scores = S @ found.coef_.T + found.intercept_
    decision = found.decision_function(X)
    n_classes = len(np.unique(y))
    if n_classes == 2:
        scores = scores[:, 0]
        predicted = found.classes_[(scores > 0).astype(int)]
    else:
        predicted = found.classes_[scores.argmax(axis=1)]
    assert_allclose(decision, scores, atol=1e-9)
    assert_array_equal(found.predict(X), predicted)
    assert 0 < len(found.landmarks_) < 30
    assert found.coef_.any(axis=0).all()
    assert found.score(X, y) > 0.8
    if loss == "log_loss":
        shares = found.predict_proba(X)
        assert_allclose(shares.sum(axis=1), 1.0)
        assert_array_equal(found.classes_[shares.argmax(axis=1)], predicted)
    else:
        with pytest.raises(AttributeError, match="predict_proba"):
            found.predict_proba(X)


def test_probabilities_are_calibrated():
    # The label is a coin whose bias the first feature says.
    rng = np.random.default_rng(0)
    rows = rng.random((3000, 2))
    y = rng.random(3000) < rows[:, 0] ** 2 / (rows**2).sum(axis=1)
    found = SimilarityClassifier(loss="log_loss", landmarks=50, random_state=0)
    found.fit(rows[:1500], y[:1500])
    shares = found.predict_proba(rows[1500:])[:, 1]
    for low in (0.0, 0.25, 0.5, 0.75):
        there = (shares >= low) & (shares < low + 0.25)
        error = 3.0 * np.sqrt(0.25 / there.sum())  # three standard deviations
        assert abs(shares[there].mean() - y[1500:][there].mean()) < error + 0.02


# --- learning for landmarks -----------------------------------------------------------


@given(n=st.integers(6, 40), n_classes=st.integers(2, 4), seed=st.integers(0, 500))
def test_no_row_is_in_the_mean_of_its_own_class(n, n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = np.concatenate(
        [np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)]
    )
    weights = rng.integers(1, 4, size=n) * 1.0
    # The columns of a mean are the rows that it is made of.
    rows, triplets, found = landmark_triplets(np.eye(n), codes, weights)
    dense = rows.toarray()
    for anchor, own, other in triplets:
        same = np.setdiff1d(np.flatnonzero(codes == codes[anchor]), [anchor])
        used = np.flatnonzero(dense[own])
        assert set(used) <= set(same)
        if len(same) < N_GROUPS:
            assert_array_equal(used, same)
        assert_allclose(dense[own, used], weights[used] / weights[used].sum())
        assert len(set(codes[np.flatnonzero(dense[other])])) == 1
        assert codes[np.flatnonzero(dense[other])[0]] != codes[anchor]
    total = np.bincount(triplets[:, 0], found, minlength=n)
    assert_allclose(total[total > 0], weights[total > 0])


@pytest.mark.filterwarnings("ignore:Rows differ in length")
@pytest.mark.parametrize("norm", ["l2", None])
def test_the_similarity_is_learned_from_mean_similarities(norm):
    y = np.arange(60) % 8  # each landmark is left out alone
    shared = HDSL(2.0, prior=1.0, norm=norm, solver=Solver(max_iter=5), random_state=0)
    learned = SimilarityClassifier(shared, C=1.0, random_state=0).fit(X, y).similarity_
    rows = learned.index_rows(X)
    spelled, triplets, weights = reference.landmark_comparisons(
        rows, y, np.ones(60, dtype=bool), N_CLASSES
    )
    twin = HDSL(2.0, prior=1.0, norm=None, solver=Solver(max_iter=5), random_state=0)
    twin.fit(spelled, triplets=triplets, sample_weight=weights)
    assert_allclose(learned.pairwise(X), twin.similarity(rows), rtol=1e-6)


def test_equal_rows_of_a_class_are_left_out_together():
    rows, triplets, _ = landmark_triplets(
        np.repeat(np.eye(4), 2, axis=0), [0, 0, 0, 0, 1, 1, 1, 1]
    )
    dense = rows.toarray()
    assert not (dense[triplets[:, 0]] * dense[triplets[:, 1]]).any()


def test_an_unfitted_model_learns_and_a_fitted_one_is_used(model):
    assert SimilarityClassifier(model, C=1.0).fit(X, Y).similarity_ == model.similarity_
    fresh = HDSL(prior=1.0, solver=Solver(max_iter=5), random_state=0)
    rows = SimilarityClassifier(fresh, comparisons="rows", C=1.0).fit(X, Y).similarity_
    assert_array_equal(rows.weights, clone(fresh).fit(X, Y).weights_)
    assert not hasattr(fresh, "atoms_")


def test_a_grid_search_over_sparse_rows(model):
    search = GridSearchCV(
        SimilarityClassifier(model.similarity_, random_state=0), {"C": [1, 10]}
    )
    assert search.fit(sp.csr_array(X), Y).score(X, Y) > 0.8
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert_array_equal(again.predict(X), search.predict(X))


def test_a_row_of_weight_0_is_absent(model):
    weights = np.where(np.arange(60) % 5 == 0, 0.0, 1.0)
    kept = weights > 0
    options = {"landmarks": "all", "C": 5.0, "random_state": 0}
    one = SimilarityClassifier(model, **options).fit(X, Y, sample_weight=weights)
    two = SimilarityClassifier(model, **options).fit(X[kept], Y[kept])
    assert_array_equal(one.landmarks_, np.flatnonzero(kept)[two.landmarks_])
    assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"C": -1.0}, "C"),
        ({"landmarks": 0}, "landmarks"),
        ({"landmarks": [99]}, "landmarks"),
        ({"loss": "hinge"}, "loss"),
        ({"comparisons": "pairs"}, "comparisons"),
        ({"similarity": 3}, "similarity"),
    ],
)
def test_what_cannot_be_used_is_said(parameters, word):
    with pytest.raises(ValueError, match=word):
        SimilarityClassifier(**parameters).fit(X, Y)


def test_two_classes_are_needed():
    with pytest.raises(ValueError, match="class"):
        SimilarityClassifier().fit(X, np.zeros(60))
    with pytest.raises(ValueError, match="n_classes"):
        landmark_triplets(np.eye(3), [0, 1, 2])
