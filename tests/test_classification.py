"""SimilarityClassifier: landmarks with weights, the scikit-learn contract."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

from hdsl import HDSL, LocalHDSL, SimilarityClassifier
from reproduce import reproduce, runner
from reproduce.local import Task
from test_neighbors import X, Y

LOSSES = ("squared_hinge", "log_loss")


@pytest.fixture(scope="module")
def model():
    return HDSL(scale=5.0, prior=0.3, max_iter=40, random_state=0).fit(X, Y)


@pytest.mark.filterwarnings("ignore:There is one row only")
@pytest.mark.parametrize(
    "estimator",
    [
        SimilarityClassifier(C=1.0, random_state=0),
        SimilarityClassifier(
            HDSL(objective="classification", max_iter=2, random_state=0),
            loss="log_loss", landmarks=10, C=1.0,
        ),
    ],
    ids=["plain", "learned"],
)  # fmt: skip
def test_scikit_learn_checks(estimator):
    # They compare the last digits, as of LinearSVC itself, and need a cv of splits.
    expected = dict.fromkeys(
        [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
        "the solver stops early",
    )
    results = check_estimator(estimator, on_skip=None, expected_failed_checks=expected)
    assert {result["status"] for result in results} <= {"passed", "skipped", "xfail"}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("y", [Y, np.where(Y == "a", "a", "b")], ids=["three", "two"])
def test_scores_are_weighted_similarities_to_landmarks(model, loss, cosine, y):
    found = SimilarityClassifier(model, loss=loss, cosine=cosine, landmarks=30, C=5.0,
                                 random_state=0).fit(X, y)  # fmt: skip
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


def test_weights_are_those_of_logistic_regression(model):
    y = (Y == "a").astype(int)
    found = SimilarityClassifier(model, loss="log_loss", landmarks="all", C=2.0, random_state=0)
    found.fit(X, y)
    S = model.similarity(X)
    S -= S.mean(axis=0)
    S /= np.sqrt(np.mean(S**2))
    is_new = LogisticRegression().penalty == "deprecated"
    penalty = {"l1_ratio": 1.0} if is_new else {"penalty": "l1"}
    twin = LogisticRegression(C=2.0, solver="liblinear", tol=1e-8, **penalty).fit(S, y)
    # The classifier stops at a tolerance of 1e-3.
    assert_allclose(found.predict_proba(X), twin.predict_proba(S), atol=2e-2)


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


def test_landmarks_of_held_out_rows_are_left_out_where_folds_choose(monkeypatch):
    seen = []
    weights = SimilarityClassifier._weights

    def watched(self, features, *args):
        seen.append(features.shape)
        return weights(self, features, *args)

    monkeypatch.setattr(SimilarityClassifier, "_weights", watched)
    found = SimilarityClassifier(landmarks="all", cv=3, random_state=0).fit(X, Y)
    assert {shape for shape in seen if shape[0] < len(X)} == {(40, 40)}
    assert seen[-1] == (60, 60)
    assert found.C_ > 0


def test_an_unfitted_model_learns_and_a_fitted_one_is_used(model):
    unfitted = HDSL(objective="classification", max_iter=10, random_state=0)
    found = SimilarityClassifier(unfitted, C=5.0, random_state=0).fit(X, Y)
    assert not hasattr(unfitted, "atoms_")
    learned = clone(unfitted).fit(X, Y)
    assert_array_equal(found.similarity_.weights, learned.weights_)
    given = SimilarityClassifier(learned, C=5.0, random_state=0).fit(X, Y)
    assert_array_equal(given.coef_, found.coef_)
    assert_array_equal(clone(given).fit(X, Y).coef_, found.coef_)
    again = pickle.loads(pickle.dumps(found))
    assert_array_equal(again.decision_function(X), found.decision_function(X))


def test_sparse_rows_and_regions_and_grid_search(model):
    dense = SimilarityClassifier(model, C=5.0, random_state=0).fit(X, Y)
    sparse = SimilarityClassifier(model, C=5.0, random_state=0).fit(sp.csr_array(X), Y)
    assert_allclose(dense.decision_function(X), sparse.decision_function(sp.csr_array(X)))
    local = SimilarityClassifier(LocalHDSL(2, max_iter=10, random_state=0), C=5.0).fit(X, Y)
    assert local.score(X, Y) > 0.8
    unfitted = HDSL(objective="classification", max_iter=5, random_state=0)
    search = GridSearchCV(
        SimilarityClassifier(unfitted, random_state=0),
        {"C": [1.0, 10.0], "similarity__scale": [1.0, 100.0]},
        cv=2,
    ).fit(X, Y)
    assert search.best_score_ > 0.6


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("similarity", [None, "model", "unfitted"])
def test_a_row_of_weight_0_is_absent_and_one_of_weight_2_is_two(model, similarity, loss):
    unfitted = HDSL(objective="classification", max_iter=5, random_state=0)
    similarity = {"model": model, "unfitted": unfitted}.get(similarity)
    classifier = SimilarityClassifier(
        similarity, loss=loss, landmarks=[3, 4, 5, 6, 7, 8, 20, 30], C=20.0, random_state=0,
        max_iter=100_000,
    )  # fmt: skip
    count = np.random.default_rng(0).integers(3, size=len(X))
    count[[3, 4, 20, 30]], count[7] = 1, 0
    weighted = clone(classifier).fit(X, Y, sample_weight=count)
    assert set(weighted.landmarks_) <= {3, 4, 5, 6, 8, 20, 30} - set(np.flatnonzero(count == 0))
    rows = np.repeat(np.arange(len(X)), count)
    first = np.searchsorted(rows, [row for row in classifier.landmarks if count[row]])
    repeated = clone(classifier).set_params(landmarks=first).fit(X[rows], Y[rows])
    # The solver stops at a tolerance of 1e-3, and the mean of a landmark's column is of other rows.
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=0.05)
    plain = clone(classifier).fit(X, Y)
    assert abs(plain.decision_function(X) - weighted.decision_function(X)).max() > 0.1
    ones = clone(classifier).fit(X, Y, sample_weight=np.ones(len(X)))
    assert_allclose(ones.decision_function(X), plain.decision_function(X), atol=1e-3)


def test_weights_count_where_folds_choose_the_penalty():
    wrong = Y.copy()
    wrong[::4] = np.roll(Y, 7)[::4]  # labels of no use, with hardly any weight
    weights = np.where(np.arange(len(X)) % 4, 1.0, 1e-6)
    found = SimilarityClassifier(random_state=0).fit(X, wrong, sample_weight=weights)
    clean = weights == 1.0
    assert found.score(X[clean], Y[clean]) > 0.9
    twice = SimilarityClassifier(random_state=0).fit(X, wrong, sample_weight=2 * weights)
    assert pytest.approx(found.C_ / 2) == twice.C_
    assert_allclose(twice.decision_function(X), found.decision_function(X), atol=0.05)
    with pytest.raises(ValueError, match="rows that landmarks names have weight 0"):
        SimilarityClassifier(landmarks=[0, 1]).fit(X, Y, sample_weight=np.arange(60) // 2)
    with pytest.raises(ValueError, match="needs at least 2 classes"):
        SimilarityClassifier().fit(X, Y, sample_weight=Y == "a")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"landmarks": 0}, "'landmarks' parameter of SimilarityClassifier must be 'all', an int"),
        ({"landmarks": [0, 99]}, "landmarks names row 99, but X has 60 rows"),
        ({"loss": "hinge"}, "'loss' parameter of SimilarityClassifier must be one of"),
        ({"C": 0}, "'C' parameter of SimilarityClassifier must be"),
        ({"C": "auto"}, "'C' parameter of SimilarityClassifier must be"),
        ({"cv": 1}, "'cv' parameter of SimilarityClassifier must be"),
        ({"similarity": 3}, "'similarity' parameter of SimilarityClassifier must be a fitted HDSL"),
    ],
)
def test_what_cannot_be_used_is_said(parameters, message):
    with pytest.raises(ValueError, match=message):
        SimilarityClassifier(**parameters).fit(X, Y)


def test_one_class_is_not_enough():
    with pytest.raises(ValueError, match="needs at least 2 classes"):
        SimilarityClassifier().fit(X, np.zeros(len(X)))


def test_columns_that_no_training_row_has_do_not_count():
    wider = np.hstack([X, np.zeros((len(X), 1))])
    found = SimilarityClassifier(C=1.0, random_state=0).fit(wider, Y)
    before = found.decision_function(wider)
    wider[:, -1] = 100.0
    assert_allclose(found.decision_function(wider), before)


def test_the_experiment_compares_with_linear_classifiers(tmp_path, capsys, monkeypatch):
    rows = sp.csr_array(X)
    task = Task({}, rows[:40], Y[:40], rows[40:], Y[40:])
    monkeypatch.setattr("reproduce.local.real_task", lambda *_: task)
    command = ["classification", "--quick", "--jobs", "1", "--out", str(tmp_path)]
    assert reproduce.main(command) == 0
    page = capsys.readouterr().out
    assert "SimilarityClassifier is no worse than LinearSVC on" in page
    lines = runner.read(runner.Settings(tmp_path, quick=True), "classification").values()
    for line in lines:
        assert line["n"] == 20
        for found in line["rules"].values():
            assert 0 <= found["wrong"] <= 20
            assert 0 <= found["folds"] <= 1
    (error,) = (tmp_path / "classification-errors.csv").read_text().splitlines()[1:]
    assert error.startswith("docstrings,40,20,")
