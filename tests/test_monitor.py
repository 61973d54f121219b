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
def test_marks_are_about_24_per_decade(k):
    decade = len(marks_up_to(10 * k)) - len(marks_up_to(k))
    assert 23 <= decade <= 26


# --- the monitor ---------------------------------------------------------------------------------

ATOMS, WEIGHTS = np.array([[0, 1, 1]]), np.ones(1)


def run(scores, *, patience=None, first=0, last=10_000):
    """Call a monitor with the states of a run that has these scores; return it and its end."""
    wanted = iter(scores)
    monitor = Monitor(lambda similarity: next(wanted), 1.0, 0.0, 2, patience)
    for k in range(first, last + 1):
        try:
            if monitor(SimpleNamespace(n_iter=k, atoms=ATOMS, weights=WEIGHTS)):
                return monitor, k
        except StopIteration:
            return monitor, None
    return monitor, None


def test_models_are_scored_at_the_marks_and_the_first_best_one_wins():
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


@pytest.mark.parametrize(("patience", "end"), [(1, 20), (10, 20), (11, 30), (25, 40)])
def test_patience_counts_iterations_since_the_best(patience, end):
    monitor, came = run([0.1, 0.5] + [0.5] * 50, patience=patience)
    assert (came, monitor.gave_up) == (end, True)
    assert monitor.best_n_iter == 10


def test_patience_starts_anew_with_each_better_score():
    monitor, end = run([0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.3, 0.3], patience=30)
    assert (monitor.best_n_iter, end) == (40, 70)


def test_the_first_model_is_the_best_of_falling_scores():
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


def test_a_restored_monitor_continues_as_the_first_one():
    monitor, _ = run([0.1, 0.5, 0.3])
    other = Monitor(lambda similarity: 0.2, 1.0, 0.0, 2)
    other.restore(monitor.snapshot())
    assert (other.scores, other.best_n_iter, other.last_score) == (monitor.scores, 10, 0.3)
    for k in range(21, 31):
        other(SimpleNamespace(n_iter=k, atoms=ATOMS, weights=WEIGHTS))
    assert list(other.scores) == [0, 10, 20, 30]
    empty = Monitor(lambda similarity: 0.2, 1.0, 0.0, 2)
    empty.restore(empty.snapshot())
    assert empty.scores == {}
    assert np.isnan(empty.last_score)


@pytest.mark.parametrize(
    "change",
    [
        {"n_iter": np.array([0, 10, 10])},
        {"n_iter": np.array([0, 10])},
        {"n_iter": np.array([0.0, 10.0, 20.0])},
        {"score": np.array([[0.1, 0.5, 0.3]])},
        {"best": np.array(7)},
        {"best": np.array([10])},
    ],
)
def test_restore_rejects_what_is_no_snapshot(change):
    monitor, _ = run([0.1, 0.5, 0.3])
    with pytest.raises(ValueError, match="the scores are not those of a path"):
        monitor.restore(monitor.snapshot() | change)
    with pytest.raises(ValueError, match="has no array 'best'"):
        monitor.restore({k: v for k, v in monitor.snapshot().items() if k != "best"})
    assert monitor.scores == {0: 0.1, 10: 0.5, 20: 0.3}


@pytest.mark.parametrize(
    ("scores", "best"),
    [([np.nan, -0.5, -0.6], 10), ([np.nan, np.nan, 0.1], 20), ([0.1, np.nan, 0.0], 0)],
)
def test_any_number_is_better_than_nan(scores, best):
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


def test_a_label_that_no_row_has_is_wrong_and_three_rows_vote_by_default():
    X, y = sp.csr_array(np.diag([3.0, 2.0, 1.0, 0.5])), np.array([1, 3, 3, 1])
    for unknown in (-1, 2, 9):
        assert knn_accuracy(X, y, X, np.array([1, unknown, 3, 1]), n_neighbors=1)(PLAIN) == 0.75
    one = sp.csr_array(np.ones((1, 4)))
    assert knn_accuracy(X, y, one, np.array([3]))(PLAIN) == 1.0
    assert knn_accuracy(X, y, one, np.array([3]), n_neighbors=1)(PLAIN) == 0.0


@pytest.mark.parametrize("width", [3, 4])
@given(X=strategies.matrices(elements=strategies.INTEGERS), data=st.data())
def test_triplet_accuracy_is_the_slow_one(width, X, data):
    row = st.integers(0, len(X) - 1)
    listed = data.draw(st.lists(st.tuples(*[row] * width), min_size=1, max_size=20))
    weights = data.draw(strategies.triplet_weights(len(listed)))
    similarity, S = data.draw(exact_similarities(X.shape[1]))
    right = []
    for rows in listed:
        a, b, c, d = rows if width == 4 else (*rows[:2], rows[0], rows[2])
        margin = X[a] @ S @ X[b] - X[c] @ S @ X[d]
        right.append(1.0 if margin > 0 else 0.5 if margin == 0 else 0.0)
    score = triplet_accuracy(sp.csr_array(X), np.array(listed), weights)
    assert score(similarity) == pytest.approx(np.average(right, weights=weights), abs=1e-12)
