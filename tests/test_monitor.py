"""Scores along a path against slow ones, when they are taken, and which model is the best."""

from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_array_equal

import reference
import strategies
from hdsl.estimators.monitor import Monitor, knn_accuracy, next_mark, triplet_accuracy
from hdsl.similarity import Similarity

# --- marks ---------------------------------------------------------------------------------------


def marks_up_to(last):
    marks = [0]
    while marks[-1] < last:
        marks.append(next_mark(marks[-1]))
    return np.array(marks)


def test_marks_are_ten_apart_up_to_100_then_a_tenth():
    marks = marks_up_to(10_000)
    assert marks[:11].tolist() == list(range(0, 101, 10))
    steps, before = np.diff(marks), marks[:-1]
    assert (steps[before >= 100] == before[before >= 100] // 10).all()


@pytest.mark.parametrize("k", [10**3, 10**4, 10**6])
def test_marks_are_some_24_a_decade(k):
    decade = len(marks_up_to(10 * k)) - len(marks_up_to(k))
    assert 23 <= decade <= 26


# --- the monitor ---------------------------------------------------------------------------------

ATOMS, WEIGHTS = np.array([[0, 1, 1]]), np.ones(1)


def run(scores, *, patience=None, first=0, last=10_000):
    """Show a monitor the states of a run that scores so at its marks; return where it ended."""
    wanted = iter(scores)
    monitor = Monitor(lambda similarity: next(wanted), 1.0, 0.0, 2, patience)
    for k in range(first, last + 1):
        try:
            if monitor(SimpleNamespace(n_iter=k, atoms=ATOMS, weights=WEIGHTS)):
                return monitor, k
        except StopIteration:
            return monitor, None
    return monitor, None


def test_scores_are_taken_at_the_marks_and_the_first_of_the_best_is_kept():
    monitor, end = run([0.1, 0.5, 0.3, 0.5, 0.5])
    assert monitor.scores == {0: 0.1, 10: 0.5, 20: 0.3, 30: 0.5, 40: 0.5}
    assert monitor.best_n_iter == 10
    assert (end, monitor.gave_up) == (None, False)


def test_the_score_gets_the_model_as_it_is():
    seen = []
    monitor = Monitor(lambda similarity: seen.append(similarity) or 0.0, 3.0, 0.5, 7)
    monitor(SimpleNamespace(n_iter=0, atoms=ATOMS, weights=WEIGHTS))
    (similarity,) = seen
    assert (similarity.scale, similarity.prior, similarity.n_features) == (3.0, 0.5, 7)
    assert_array_equal(similarity.atoms, ATOMS)
    assert_array_equal(similarity.weights, WEIGHTS)


@pytest.mark.parametrize(
    ("patience", "end"), [(1, 20), (10, 20), (11, 30), (20, 30), (25, 40), (60, 70)]
)
def test_patience_counts_iterations_since_the_best(patience, end):
    monitor, came = run([0.1, 0.5] + [0.5] * 50, patience=patience)
    assert (came, monitor.gave_up) == (end, True)
    assert monitor.best_n_iter == 10


def test_patience_starts_anew_with_each_better_score():
    monitor, end = run([0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.3, 0.3], patience=30)
    assert (monitor.best_n_iter, end) == (40, 70)


def test_falling_scores_keep_the_first_model():
    assert run([-1.0, -2.0, -3.0], patience=20)[0].best_n_iter == 0


def test_a_run_that_starts_later_has_the_same_marks():
    monitor, end = run([0.5, 0.4, 0.3, 0.2, 0.1], patience=30, first=47)
    assert list(monitor.scores) == [47, 50, 60, 70, 80]
    assert (monitor.best_n_iter, end) == (47, 80)
    assert list(run([0.0] * 4, first=135)[0].scores) == [135, 146, 160, 176]


def test_add_scores_a_model_once():
    monitor, _ = run([0.1, 0.5, 0.3])
    monitor.score = lambda similarity: 0.9
    monitor.add(20, ATOMS, WEIGHTS)
    assert (monitor.scores[20], monitor.best_n_iter) == (0.3, 10)
    monitor.add(23, ATOMS, WEIGHTS)
    assert (monitor.scores[23], monitor.best_n_iter, monitor.last_score) == (0.9, 23, 0.9)


def test_last_score():
    assert np.isnan(Monitor(lambda similarity: 0.0, 1.0, 0.0, 2).last_score)
    assert run([0.1, 0.5, 0.3])[0].last_score == 0.3


@pytest.mark.parametrize(
    ("scores", "best"),
    [([np.nan, -0.5, -0.6], 10), ([np.nan, np.nan, 0.1], 20), ([0.1, np.nan, 0.0], 0)],
)
def test_any_number_beats_nan(scores, best):
    assert run(scores)[0].best_n_iter == best


# --- scores --------------------------------------------------------------------------------------


@st.composite
def exact_similarities(draw, d):
    """A similarity whose scores of whole numbers are free of rounding, so that equals tie."""
    atoms, _ = draw(strategies.models(d))
    k, prior = len(atoms), draw(st.sampled_from([0.0, 0.5, 2.0]))
    S = reference.model_matrix(atoms, np.full(k, 1 / k), d, float(k)) + prior * np.eye(d)
    return Similarity(atoms, np.full(k, 1 / k), float(k), prior, d), S


@st.composite
def knn_cases(draw):
    """Rows and weighted validation rows with labels, some of no row, and a similarity."""
    both = draw(strategies.matrices(elements=strategies.INTEGERS))
    n = draw(st.integers(1, len(both) - 1))
    names = draw(st.sampled_from([[3, 7, 9, 5], ["b", "d", "e", "a"]]))
    known = st.sampled_from(names[:3])
    y = draw(st.lists(known, min_size=n, max_size=n))
    m = len(both) - n
    y_val = draw(st.lists(known | st.just(names[3]), min_size=m, max_size=m))
    return (
        both[:n],
        np.array(y),
        both[n:],
        np.array(y_val),
        draw(strategies.triplet_weights(m)),
        *draw(exact_similarities(both.shape[1])),
    )


@given(knn_cases(), st.integers(1, 4))
def test_knn_accuracy_is_the_slow_one(case, k):
    X, y, X_val, y_val, weights, similarity, S = case
    _, rows = reference.top_k(X_val @ S, X, k)
    votes = [reference.vote([y[r] for r in own], [1.0] * len(own))[1] for own in rows]
    right = [vote == truth for vote, truth in zip(votes, y_val, strict=True)]
    each = np.ones(len(right)) if weights is None else np.array(weights)
    expected = each @ right / each.sum()
    score = knn_accuracy(sp.csr_array(X), y, sp.csr_array(X_val), y_val, weights, n_neighbors=k)
    assert score(similarity) == pytest.approx(expected, abs=1e-12)


PLAIN = Similarity(ATOMS, WEIGHTS, 1e-9, 1.0, 4)


@pytest.mark.parametrize("unknown", [-1, 2, 9])
def test_a_label_that_no_row_has_is_wrong(unknown):
    X, y = sp.csr_array(np.eye(4)), np.array([1, 1, 3, 3])
    assert knn_accuracy(X, y, X, np.array([1, unknown, 3, 3]), n_neighbors=1)(PLAIN) == 0.75
    assert knn_accuracy(X, y, X, np.full(4, unknown))(PLAIN) == 0.0


def test_validation_rows_count_by_their_weight():
    X, y = sp.csr_array(np.eye(4)), np.array([1, 1, 3, 3])
    weights = np.array([5.0, 1, 0, 2])
    assert knn_accuracy(X, y, X, np.array([1, 3, 1, 3]), weights, n_neighbors=1)(PLAIN) == 0.875


def test_knn_accuracy_votes_by_three():
    X, y = sp.csr_array(np.diag([3.0, 2.0, 1.0, 0.5])), np.array([0, 1, 1, 0])
    one = sp.csr_array(np.ones((1, 4)))
    assert knn_accuracy(X, y, one, np.array([1]))(PLAIN) == 1.0
    assert knn_accuracy(X, y, one, np.array([1]), n_neighbors=1)(PLAIN) == 0.0


@st.composite
def triplet_cases(draw):
    X = draw(strategies.matrices(elements=strategies.INTEGERS))
    triplets = draw(strategies.triplets(len(X)))
    weights = draw(strategies.triplet_weights(len(triplets)))
    weights = None if weights is None else np.array(weights)
    return X, triplets, weights, *draw(exact_similarities(X.shape[1]))


@given(triplet_cases())
def test_triplet_accuracy_is_the_slow_one(case):
    X, triplets, weights, similarity, S = case
    total = right = 0.0
    for t, (a, p, q) in enumerate(triplets):
        weight = 1.0 if weights is None else weights[t]
        margin = X[a] @ S @ X[p] - X[a] @ S @ X[q]
        right += weight * (1.0 if margin > 0 else 0.5 if margin == 0 else 0.0)
        total += weight
    score = triplet_accuracy(sp.csr_array(X), triplets, weights)
    assert score(similarity) == pytest.approx(right / total, abs=1e-12)


def test_draws_count_a_half_and_weights_count():
    X = sp.csr_array(np.array([[1.0, 0], [2, 0], [1, 0], [1, 0]]))
    similarity = Similarity(ATOMS, WEIGHTS, 1.0, 0.0, 2)
    right, wrong, draw = [0, 1, 2], [0, 2, 1], [0, 2, 3]
    judged = np.array([right, wrong, draw])
    assert triplet_accuracy(X, judged)(similarity) == 0.5
    assert triplet_accuracy(X, judged[[0, 0, 1, 2]])(similarity) == 0.625
    assert triplet_accuracy(X, judged, np.array([6.0, 1, 1]))(similarity) == 0.8125
    assert triplet_accuracy(X, judged, np.array([0.0, 0, 1]))(similarity) == 0.5
