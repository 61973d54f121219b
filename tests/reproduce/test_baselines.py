"""The methods that the paper compares with, each against a slow, obvious version of itself."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from hdsl import SimilarityKNeighborsClassifier
from hdsl.evaluate import knn_error, triplet_accuracy
from hdsl.solver import losses
from hdsl.triplets import neighbor_triplets
from reproduce.baselines import (
    COMET,
    OASIS,
    BilinearSimilarity,
    DiagonalSimilarity,
    pca_oasis,
    rp_oasis,
)
from reproduce.baselines.dense import passive_aggressive
from reproduce.machines import linear_svm, n_active_features, poly_svm
from sklearn_checks import every_check
from small_fits import dense
from strategies import LOSSES, matrices, random_arrays

# scikit-learn's checks have small classes.
pytestmark = pytest.mark.filterwarnings("ignore:There is one row only:UserWarning")

FORMS = [np.asarray, sp.csr_array, sp.csr_matrix]


def rows_and_labels(seed=0, n=60, d=12):
    """Two classes that differ in three features, under noise in the others; column 3 is empty."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    X[:, :3] += (
        1.5
        * rng.random((n, 1))
        * np.where(y[:, None] == 1, [1.0, -1.0, 0.0], [0, 1, 1])
    )
    X[:, 3] = 0.0
    return X, y


def margins(X, T, W):
    """S(x, y) - S(x, z) of each triplet, one at a time."""
    return np.array([X[a] @ W @ (X[p] - X[q]) for a, p, q in T])


# --- scikit-learn's own checks --------------------------------------------------------


@every_check(
    DiagonalSimilarity("l1", alpha=0.01),
    OASIS(n_steps=300),
    COMET(max_iter=100, tol=0.01),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "model",
    [DiagonalSimilarity(), OASIS(n_steps=10), COMET(max_iter=100, tol=0.1)],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_that_fails_leaves_the_model_as_it_was(model):
    X, y = rows_and_labels()
    model.fit(X, y)
    before = model.similarity_.pairwise(X)
    with pytest.raises(ValueError, match="rows"):
        model.fit(X[:, :5], y[:-1])
    assert model.n_features_in_ == X.shape[1]
    assert_array_equal(model.similarity_.pairwise(X), before)


# --- what was learned -----------------------------------------------------------------


@given(matrices(), st.data())
def test_bilinear_similarity_is_a_matrix(X, data):
    d = X.shape[1]
    features = np.array(
        sorted(data.draw(st.sets(st.integers(0, d - 1)))), dtype=np.int64
    )
    rest = data.draw(st.sampled_from([0.0, 2.0]))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    block = rng.normal(size=(len(features),) * 2)
    if data.draw(st.booleans()):
        block = np.diag(np.diag(block))
    W = rest * np.eye(d)
    W[np.ix_(features, features)] = block
    held = data.draw(st.sampled_from([np.asarray, sp.csr_array]))(block)
    similarity = BilinearSimilarity(held, features, rest, d)
    for form in FORMS:
        rewritten = similarity.rewrite(form(X))
        assert sp.issparse(rewritten) == (form is not np.asarray)
        assert_allclose(dense(rewritten), X @ W, atol=1e-12)
        assert_allclose(similarity.pairwise(form(X)), X @ W @ X.T, atol=1e-12)
        assert_allclose(
            similarity.pairwise(form(X), form(X[:1])), X @ W @ X[:1].T, atol=1e-12
        )
        scores = similarity.pair_score(form(X), form(X[::-1]))
        assert_allclose(scores, np.diag(X @ W @ X[::-1].T), atol=1e-12)


@pytest.mark.parametrize(
    "model", [DiagonalSimilarity(), OASIS(n_steps=2000), COMET(tol=0.1)]
)
def test_learned_similarities_beat_the_dot_product(model):
    X, y = rows_and_labels(n=80)
    X_test, y_test = rows_and_labels(seed=1, n=200)
    T = neighbor_triplets(X, y)
    model.set_params(random_state=0)
    for form in (np.asarray, sp.csr_array):
        similarity = model.fit(form(X), y).similarity_
        S = X_test @ dense(similarity.rewrite(form(np.eye(12)))) @ X.T
        votes = y[np.argsort(-S, axis=1, kind="stable")[:, :3]].sum(axis=1) > 1
        expected = np.mean(votes != y_test)
        assert knn_error(model, form(X), y, form(X_test), y_test) == pytest.approx(
            expected
        )
        knn = SimilarityKNeighborsClassifier(similarity=similarity).fit(form(X), y)
        assert 1.0 - knn.score(form(X_test), y_test) == pytest.approx(expected)
        assert triplet_accuracy(model, form(X), T) > triplet_accuracy(None, X, T)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.similarity_.pairwise(X), model.similarity_.pairwise(X))


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (DiagonalSimilarity("l3"), "'penalty'"),
        (DiagonalSimilarity(loss="hinge"), "'loss'"),
        (DiagonalSimilarity(mining="all"), "'mining'"),
        (DiagonalSimilarity(max_iter=0), "'max_iter'"),
        (OASIS(0), "'C'"),
        (OASIS(n_steps=1.5), "'n_steps'"),
        (OASIS(memory_limit="all"), "'memory_limit'"),
        (COMET(ridge=-1), "'ridge'"),
    ],
)
def test_wrong_parameters_raise(model, word):
    with pytest.raises(ValueError, match=word):
        model.fit(*rows_and_labels())


def test_wrong_data_raise():
    X, y = rows_and_labels()
    with pytest.raises(ValueError, match="requires y"):
        OASIS().fit(X)
    with pytest.raises(ValueError, match="row 60"):
        COMET().fit(X, triplets=[[0, 1, 60]])
    with pytest.raises(ValueError, match="one class"):
        DiagonalSimilarity().fit(X, np.zeros(len(y)))


# --- one weight per feature -----------------------------------------------------------


def diagonal_objective(X, T, loss="smoothed_hinge", penalty="l1", alpha=1.0):
    """Mean loss plus penalty as a function of w, and the gradient of the mean loss."""
    Z = np.array([X[a] * (X[p] - X[q]) for a, p, q in T])
    ell = losses.get(loss)

    def value(w):
        size = np.abs(w).sum() if penalty == "l1" else w @ w
        return ell.value(Z @ w).mean() + alpha * size

    def gradient(w):
        return Z.T @ ell.derivative(Z @ w) / len(T)

    return value, gradient


def check_optimal(model, X, T, tol):
    """Check the objective, and that 0 is in its subdifferential, which proves the minimum."""
    w = model.weights_
    alpha = model.alpha
    value, gradient = diagonal_objective(X, T, model.loss, model.penalty, alpha)
    assert model.objective_ == pytest.approx(value(w), rel=1e-12)
    assert model.n_active_features_ == np.count_nonzero(w)
    g = gradient(w)
    unit = np.abs(gradient(np.zeros_like(w))).max()
    violation = np.abs(g + 2 * alpha * w)
    if model.penalty == "l1":
        at_zero = np.maximum(np.abs(g) - alpha, 0)
        violation = np.where(w == 0, at_zero, np.abs(g + alpha * np.sign(w)))
    assert violation.max() <= tol * unit + 1e-12


@pytest.mark.parametrize(
    ("penalty", "loss", "alpha"),
    [
        (("l1", "l2")[k % 2], loss, (1e-3, 1e-2)[k // 2])
        for k, loss in enumerate(LOSSES)
    ],
)
def test_weights_are_optimal(penalty, loss, alpha):
    X, T = random_arrays(3, n=12, d=9, T=80)
    X[:, 4] = 0.0
    model = DiagonalSimilarity(
        penalty, alpha=alpha, loss=loss, tol=1e-7, max_iter=20_000
    )
    check_optimal(model.fit(X, triplets=T), X, T, 2e-7)
    assert model.weights_[4] == 0.0
    assert model.n_active_features_ > 0


@given(matrices(), st.data())
def test_weights_are_optimal_on_any_rows(X, data):
    """Negative values, equal rows and rows without a common feature included."""
    triplet = st.tuples(*[st.integers(0, len(X) - 1)] * 3).filter(
        lambda t: t[1] != t[2]
    )
    T = np.array(data.draw(st.lists(triplet, min_size=1, max_size=12)))
    penalty = data.draw(st.sampled_from(["l1", "l2"]))
    model = DiagonalSimilarity(penalty, alpha=0.05, tol=1e-6, max_iter=50_000)
    check_optimal(model.fit(X, triplets=T), X, T, 1.01e-6)


def test_max_iter_warns_and_threads_change_nothing():
    X, y = rows_and_labels()
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        short = DiagonalSimilarity(max_iter=3, tol=0.0).fit(X, y)
    assert short.n_iter_ == 3
    one, two = (
        DiagonalSimilarity(n_jobs=n_jobs).fit(X, y).weights_ for n_jobs in (1, 2)
    )
    assert_array_equal(one, two)


# --- OASIS ----------------------------------------------------------------------------


def oasis(X, T, C):
    """Return W by one step at a time, as in the paper of OASIS."""
    W = np.eye(X.shape[1])
    updates = 0
    for a, p, q in T:
        V = np.outer(X[a], X[p] - X[q])
        hinge = max(0.0, 1.0 - X[a] @ W @ X[p] + X[a] @ W @ X[q])
        if hinge > 0 and V.any():
            W = W + min(C, hinge / np.sum(V**2)) * V
            updates += 1
    return W, updates


@pytest.mark.parametrize(("C", "block"), [(1e-3, 7), (0.1, 1), (0.1, 64), (100.0, 7)])
def test_steps_in_blocks_equal_single_steps(C, block):
    X, T = random_arrays(2, n=20, d=6, T=150)
    W, updates = passive_aggressive(sp.csr_array(X), T, C, block)
    expected, n_updates = oasis(X, T, C)
    assert_allclose(W, expected, atol=1e-10)
    assert updates == n_updates
    assert 0 < updates <= len(T)


def test_oasis_draws_triplets_by_weight():
    X, T = random_arrays(2, n=20, d=6, T=1)
    model = OASIS(0.05, n_steps=40, random_state=0).fit(X, triplets=T)
    assert_allclose(
        model.similarity_.matrix, oasis(X, np.repeat(T, 40, axis=0), 0.05)[0]
    )
    X, y = rows_and_labels(n=20)
    X *= 0.1  # every step has a loss
    heavy = np.concatenate([X, np.repeat(X[:1], 2000, axis=0)])
    model = OASIS(1e-6, n_steps=500, n_targets=1, n_impostors=1, random_state=0)
    W = model.fit(heavy, np.concatenate([y, np.repeat(y[:1], 2000)])).similarity_.matrix
    change = W - np.eye(len(W))  # 99 % of the steps have row 0 as anchor: x_0 (y - z)ᵀ
    left = np.linalg.svd(change)[0][:, 0]
    x = X[0, model.similarity_.features]
    assert abs(left @ x) / np.linalg.norm(x) > 0.99


@pytest.mark.parametrize("model", [OASIS(memory_limit=1.0), COMET(memory_limit=1.0)])
def test_too_many_features_raise_before_mining(model):
    def never(*_):
        raise AssertionError("mined before the check of memory")

    X = sp.eye_array(10, 20_000, format="csr") + sp.csr_array(
        (np.ones(20_000), (np.arange(20_000) % 10, np.arange(20_000))),
        shape=(10, 20_000),
    )
    model.set_params(mining=never)
    with pytest.raises(MemoryError, match="20000 x 20000"):
        model.fit(X, np.arange(10) % 2)


# --- COMET ----------------------------------------------------------------------------


def comet_objective(X, T, loss, barrier, ridge, W):
    """Value, and gradient with respect to each entry of the symmetric W."""
    ell = losses.get(loss)
    sign, log_det = np.linalg.slogdet(W)
    if sign <= 0 or np.linalg.eigvalsh(W)[0] <= 0:
        return np.inf, np.zeros_like(W)
    m = margins(X, T, W)
    value = ell.value(m).mean() - barrier * log_det + ridge / 2 * np.sum(W**2)
    slopes = ell.derivative(m) / len(T)
    G = sum(
        s * np.outer(X[a], X[p] - X[q]) for s, (a, p, q) in zip(slopes, T, strict=True)
    )
    return value, (G + G.T) / 2 - barrier * np.linalg.inv(W) + ridge * W


@pytest.mark.parametrize(
    ("loss", "weights"),
    list(
        zip(LOSSES, [(0.01, 0.01), (1e-3, 0.1), (0.1, 1e-3), (0.01, 0.01)], strict=True)
    ),
)
def test_comet_reaches_the_optimum(loss, weights):
    barrier, ridge = weights
    X, T = random_arrays(4, n=12, d=6, T=60)
    model = COMET(barrier, ridge, loss=loss, max_iter=1000, tol=1e-10, random_state=0)
    W = model.fit(X, triplets=T).similarity_.matrix
    value, gradient = comet_objective(X, T, loss, barrier, ridge, W)
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    assert_allclose(W, W.T, atol=1e-12)
    _, at_start = comet_objective(
        X, T, loss, barrier, ridge, np.sqrt(barrier / ridge) * np.eye(6)
    )
    # Convex: a proof of the minimum.
    assert np.abs(gradient).max() < 1e-4 * np.abs(at_start).max()


def test_objective_of_comet_falls_and_w_stays_positive_definite():
    X, y = rows_and_labels()
    model = COMET(1e-4, 1e-3, tol=0.0, random_state=0)
    objective = []
    for passes in range(1, 6):
        with pytest.warns(ConvergenceWarning, match=f"max_iter={passes}"):
            model.set_params(max_iter=passes).fit(X, y)
        assert model.n_iter_ == passes
        objective.append(model.objective_)
        W = model.similarity_.matrix
        assert np.abs(W - W.T).max() < 1e-12 * np.abs(W).max()
        assert np.linalg.eigvalsh(W)[0] > 0
    assert (np.diff(objective) < 0).all()
    assert model.similarity_.features.tolist() == [0, 1, 2, *range(4, 12)]
    assert model.similarity_.rest == pytest.approx(np.sqrt(0.1))


# --- projections ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "form"), [(rp_oasis, sp.csr_matrix), (pca_oasis, np.asarray)]
)
def test_pipelines_are_a_projection_and_oasis(make, form):
    X, y = rows_and_labels(n=80)
    T = neighbor_triplets(X, y)
    pipeline = make(5, 0.01, n_steps=500, random_state=0).fit(
        form(X), oasis__triplets=T
    )
    Z = pipeline[:-1].transform(form(X))
    expected = OASIS(0.01, n_steps=500, random_state=0).fit(Z, triplets=T)
    assert_allclose(pipeline[-1].similarity_.matrix, expected.similarity_.matrix)
    assert 0.0 <= knn_error(pipeline[-1], Z, y, Z, y) < 0.5
    pipeline = make(5, n_steps=10, random_state=0).fit(form(X), y)
    assert pipeline[-1].similarity_.n_features == 5


# --- support vector machines ----------------------------------------------------------


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_linear_svm_is_that_of_scikit_learn(penalty):
    X, y = rows_and_labels(n=100, d=30)
    model = linear_svm(penalty, 0.1, random_state=0).fit(sp.csr_matrix(X), y)
    plain = LinearSVC(penalty=penalty, C=0.1, dual=False, random_state=0).fit(X, y)
    assert_array_equal(model.predict(sp.csr_matrix(X)), plain.predict(X))
    expected = np.count_nonzero(plain.coef_)
    assert n_active_features(model) == expected
    assert expected < 29 if penalty == "l1" else expected == 29


def test_svms_are_one_against_one():
    X, _ = rows_and_labels(n=80)
    y = np.arange(80) % 4
    linear = linear_svm("l1", 0.05, random_state=0).fit(X, y)
    assert len(linear.estimators_) == 6
    used = {j for part in linear.estimators_ for j in np.flatnonzero(part.coef_)}
    assert n_active_features(linear) == len(used)
    assert poly_svm(3).fit(X, y).n_support_.shape == (4,)
    search = GridSearchCV(linear_svm(), {"estimator__C": [0.01, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_["estimator__C"] in (0.01, 1.0)
