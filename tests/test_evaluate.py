"""Error of k-NN, accuracy of triplets and recovery AUC against slow versions on dense arrays."""

from collections import Counter
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

import strategies
from hdsl import HDSL, HDSLCV
from hdsl.evaluate import knn_error, recovery_auc, triplet_accuracy
from hdsl.similarity import Similarity

# --- against labels and comparisons ---------------------------------------------------------------


@st.composite
def similarities(draw, d):
    """None, or similarities without rounding on integers, so that equal scores are ties."""
    if draw(st.booleans()):
        return None
    atoms, _ = draw(strategies.models(d))
    weights = 4.0 ** -np.arange(1, len(atoms) + 1)  # the roots are exact
    prior = draw(st.sampled_from([0.0, 1.0, 2.5]))
    return Similarity(atoms, weights, scale=16.0, prior=prior, n_features=d)


def slow_scores(similarity, X, Y):
    if similarity is None:
        return X @ Y.T
    return similarity.prior * X @ Y.T + X @ similarity.matrix().toarray() @ Y.T


def slow_vote(scores, labels, k):
    """The label of most of the k nearest; of equals, that of the nearest."""
    near = [labels[i] for i in sorted(range(len(labels)), key=lambda i: (-scores[i], i))[:k]]
    count = Counter(near)
    return max(near, key=lambda label: (count[label], -near.index(label)))


@given(strategies.matrices(elements=strategies.INTEGERS), st.data())
def test_knn_error_counts_wrong_votes(X, data):
    similarity = data.draw(similarities(X.shape[1]))
    split = data.draw(st.integers(1, len(X) - 1))
    labels = np.array(data.draw(st.lists(st.sampled_from("abc"), min_size=len(X), max_size=len(X))))
    k = data.draw(st.integers(1, split))
    scores = slow_scores(similarity, X[split:], X[:split])
    wrong = [
        slow_vote(row, labels[:split], k) != truth
        for row, truth in zip(scores, labels[split:], strict=True)
    ]
    as_given = data.draw(st.sampled_from([np.asarray, sp.csr_array, sp.csc_matrix]))
    error = knn_error(
        similarity, as_given(X[:split]), labels[:split], as_given(X[split:]), labels[split:],
        n_neighbors=k,
    )  # fmt: skip
    assert error == pytest.approx(np.mean(wrong), abs=1e-12)


@st.composite
def quadruplets(draw, n):
    """Quadruplets of n rows whose two pairs differ."""
    row = st.integers(0, n - 1)
    quadruplet = st.tuples(row, row, row, row).filter(lambda q: {*q[:2]} != {*q[2:]})
    return np.array(draw(st.lists(quadruplet, min_size=1, max_size=20)))


@pytest.mark.parametrize("kind", [strategies.triplets, quadruplets])
@given(X=strategies.matrices(elements=strategies.INTEGERS), data=st.data())
def test_triplet_accuracy_counts_ties_by_half(kind, X, data):
    similarity = data.draw(similarities(X.shape[1]))
    triplets = data.draw(kind(len(X)))
    weights = data.draw(strategies.triplet_weights(len(triplets)))
    scores = slow_scores(similarity, X, X)
    pairs = triplets if triplets.shape[1] == 4 else triplets[:, [0, 1, 0, 2]]
    points = [0.5 * (1 + np.sign(scores[a, b] - scores[c, d])) for a, b, c, d in pairs]
    as_given = data.draw(st.sampled_from([np.asarray, sp.csr_array, sp.csc_matrix]))
    found = triplet_accuracy(similarity, as_given(X), triplets, sample_weight=weights)
    assert found == pytest.approx(np.average(points, weights=weights), abs=1e-12)


X, TRIPLETS = strategies.random_arrays(0, n=24, d=10, T=60)
Y = np.arange(24) % 3


@pytest.fixture(scope="module")
def model():
    return HDSL(scale=5.0, prior=0.5, max_iter=20, random_state=0).fit(X, triplets=TRIPLETS)


def test_a_model_scores_as_its_similarity(model):
    search = HDSLCV([5.0], priors=[0.5], cv=2, estimator=HDSL(max_iter=10)).fit(
        X, triplets=TRIPLETS
    )
    for fitted in (model, search):
        plain = fitted.similarity_
        assert triplet_accuracy(fitted, X, TRIPLETS) == triplet_accuracy(plain, X, TRIPLETS)
        rows = X[:16], Y[:16], X[16:], Y[16:]
        assert knn_error(fitted, *rows) == knn_error(plain, *rows)


def test_learning_improves_the_accuracy_of_its_triplets(model):
    assert triplet_accuracy(model, X, TRIPLETS) > triplet_accuracy(None, X, TRIPLETS) + 0.1


def test_any_object_with_rewrite_is_a_model():
    opposite = SimpleNamespace(rewrite=lambda X: -X)
    right = triplet_accuracy(None, X, TRIPLETS)
    assert triplet_accuracy(opposite, X, TRIPLETS) == pytest.approx(1 - right, abs=1e-12)
    assert knn_error(opposite, X, Y, X, Y, n_neighbors=1) > 0
    assert knn_error(None, X, Y, X, Y, n_neighbors=1) == 0


def test_column_names_are_checked():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=list("abcdefghij"))
    model = HDSL(scale=5.0, max_iter=5).fit(table, triplets=TRIPLETS)
    assert triplet_accuracy(model, table, TRIPLETS) > 0.5
    assert 0 <= knn_error(model, table, Y, table, Y) <= 1
    with pytest.raises(ValueError, match="feature names"):
        triplet_accuracy(model, table[list("jihgfedcba")], TRIPLETS)


def test_float32_rows_are_compared_in_float64():
    # 1 + 2**-30 is 1 in float32: the two products differ in float64 only.
    rows = np.array([[1.0, 2.0**-30], [1, 1], [1, 0]], dtype=np.float32)
    assert triplet_accuracy(None, rows, [[0, 1, 2]]) == 1.0


def test_a_label_that_no_row_has_is_wrong():
    assert knn_error(None, X, Y, X, np.full(24, 7), n_neighbors=1) == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_test": Y[:5]}, "y_test has 5 labels, but X_test has 24 rows"),
        ({"n_neighbors": 25}, "at most 24 can be found"),
        ({"n_neighbors": 0}, "must be an int >= 1"),
        ({"model": "cosine"}, r"another object with rewrite\(X\), or None .* Got 'cosine'"),
        ({"X_test": X[:, 1:]}, "X has 9 features"),
    ],
)
def test_knn_error_says_what_is_wrong(change, message):
    given = {"model": None, "X": X, "y": Y, "X_test": X, "y_test": Y, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        knn_error(**given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"triplets": [[0, 1, 24]]}, r"triplets\[0\] names row 24, but X has 24 rows"),
        ({"triplets": [[0, 1, 2], [3, 4]]}, r"must have shape \(n_triplets, 3\)"),
        ({"triplets": np.empty((0, 4), int)}, "at least one quadruplet is needed"),
        ({"triplets": [[0, 1, 2, 3.5]]}, "must hold integers.* Got dtype float64"),
        ({"triplets": [[0, 1, 2, 3], [0, 1, 2, -1]]}, r"triplets\[1\] names row -1, but X has 24"),
        ({"triplets": [[0, 1, 1, 0]]}, r"triplets\[0\] compares a pair of rows with itself"),
        ({"sample_weight": [1.0]}, r"sample_weight must have shape \(60,\)"),
        ({"model": "cosine"}, "another object with rewrite.* Got 'cosine'"),
        ({"X": X[:, 1:]}, "X has 9 features"),
        ({"X": np.vstack([X[:-1], np.full(10, np.nan)])}, r"X\[23, 0\] is NaN"),
    ],
)
def test_triplet_accuracy_says_what_is_wrong(model, change, message):
    for one in (model, model.similarity_):
        given = {"model": one, "X": X, "triplets": TRIPLETS, **change}
        with pytest.raises(ValueError, match=message):
            triplet_accuracy(**given)


def test_a_model_must_be_fitted(model):
    with pytest.raises(NotFittedError):
        triplet_accuracy(clone(model), X, TRIPLETS)
    with pytest.raises(NotFittedError):
        knn_error(clone(model), X, Y, X, Y)


# --- against the truth ---------------------------------------------------------------------------


@st.composite
def symmetric(draw, d):
    """Symmetric matrices, mostly zeros, with ties and signs."""
    half = draw(
        arrays(np.float64, (d, d), elements=st.sampled_from([0, 0.5, -0.5, 1, -2]), fill=st.just(0))
    )
    return np.triu(half) + np.triu(half, 1).T


@st.composite
def pairs_of_matrices(draw):
    d = draw(st.integers(3, 9))
    return draw(symmetric(d)), draw(symmetric(d))


def slow_auc(learned, truth):
    upper = np.triu_indices(len(truth), 1)
    return (
        roc_auc_score(truth.any(axis=1), np.abs(learned).sum(axis=1)),
        roc_auc_score(truth[upper] != 0, np.abs(learned)[upper]),
    )


@given(pairs_of_matrices())
def test_recovery_auc_is_that_of_scikit_learn(matrices):
    learned, truth = matrices
    upper = np.triu_indices(len(truth), 1)
    active, entries = truth.any(axis=1), truth[upper] != 0
    assume(len(set(active)) == 2)
    assume(len(set(entries)) == 2)
    found = recovery_auc(sp.csr_array(learned), sp.csr_array(truth))
    np.testing.assert_allclose(found, slow_auc(learned, truth), rtol=1e-12)


@given(pairs_of_matrices())
def test_stored_zeros_are_zeros(matrices):
    learned, truth = matrices

    def with_zeros(M):
        d = len(M)
        indptr = np.arange(0, d * d + 1, d)
        return sp.csr_array((M.ravel(), np.tile(np.arange(d), d), indptr), shape=(d, d))

    plain = recovery_auc(sp.csr_array(learned), sp.csr_array(truth))
    np.testing.assert_equal(recovery_auc(with_zeros(learned), with_zeros(truth)), plain)


def test_right_wrong_unknown_and_missing_answers():
    truth, wrong, nothing = (np.zeros((4, 4)) for _ in range(3))
    truth[:2, :2] = wrong[2:, 2:] = 1
    truth, wrong, nothing = map(sp.csr_array, (truth, wrong, nothing))
    assert recovery_auc(truth, truth) == (1.0, 1.0)
    assert recovery_auc(wrong, truth).features == 0.0
    assert recovery_auc(nothing, truth) == (0.5, 0.5)
    assert np.isnan(recovery_auc(nothing, nothing)).all()


def test_pair_numbers_past_int32():
    # Row 49,999 times d = 50,000 leaves int32; keys that wrapped round would meet by chance.
    d, rows = 50_000, np.array([0, 49_998, 42_949, 20_000])
    columns = np.array([1, 49_999, 49_000, 30_000])

    def of(n):
        i, j = rows[:n], columns[:n]
        ij = np.concatenate([i, j]), np.concatenate([j, i])
        return sp.csr_array((np.ones(2 * n), ij), shape=(d, d))

    n_pairs = d * (d - 1) // 2
    # Four pairs are ranked first, all equal, and two of them are true.
    expected = 1 - 0.5 * 2 / (n_pairs - 2)
    assert recovery_auc(of(4), of(2)).entries == expected
