"""Scores along a path against slow ones, when they are taken, and which model is chosen."""

from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_array_equal

import reference
import strategies
from hdsl.monitor import (
    Estimate,
    Monitor,
    label_score,
    mean_estimate,
    next_mark,
    triplet_accuracy,
    triplet_score,
)
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


def run(scores, *, errors=None, patience=None, first=0, last=10_000):
    """Call a monitor with the states of a run that has these scores; return it and its end."""
    errors = [0.0] * len(scores) if errors is None else errors
    wanted = map(Estimate, scores, errors)
    monitor = Monitor(lambda similarity: next(wanted), 1.0, 0.0, 2, patience)
    for k in range(first, last + 1):
        try:
            if monitor(SimpleNamespace(n_iter=k, atoms=ATOMS, weights=WEIGHTS)):
                return monitor, k
        except StopIteration:
            return monitor, None
    return monitor, None


def test_models_are_scored_at_the_marks_and_the_longest_of_equals_is_chosen():
    monitor, end = run([0.1, 0.5, 0.3, 0.5, 0.4])
    assert {k: score.value for k, score in monitor.scores.items()} == {
        0: 0.1, 10: 0.5, 20: 0.3, 30: 0.5, 40: 0.4
    }  # fmt: skip
    assert (monitor.best_n_iter, monitor.chosen_n_iter) == (10, 30)
    assert (end, monitor.gave_up) == (None, False)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=12),
    st.floats(0.1, 10.0),
)
def test_the_longest_within_one_standard_error_of_the_best_is_chosen(scored, unit):
    values, errors = (np.array(column) * unit for column in zip(*scored, strict=True))
    monitor, _ = run(values, errors=errors)
    first = int(values.argmax())
    assert monitor.best_n_iter == 10 * first
    close = np.flatnonzero(values >= values[first] - errors[first])
    assert monitor.chosen_n_iter == list(monitor.scores)[close[-1]]


def test_the_score_gets_the_model_as_it_is():
    seen = []
    monitor = Monitor(lambda similarity: seen.append(similarity) or Estimate(0.0), 3.0, 0.5, 7)
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
    monitor.score = lambda similarity: Estimate(0.9)
    monitor.add(20, ATOMS, WEIGHTS)
    assert (monitor.scores[20].value, monitor.best_n_iter) == (0.3, 10)
    monitor.add(23, ATOMS, WEIGHTS)
    assert (monitor.scores[23].value, monitor.best_n_iter, monitor.last_score) == (0.9, 23, 0.9)


def test_a_restored_monitor_continues_as_the_first_one():
    monitor, _ = run([0.1, 0.5, 0.3], errors=[0.0, 0.25, 0.1])
    other = Monitor(lambda similarity: Estimate(0.2), 1.0, 0.0, 2)
    other.restore(monitor.snapshot())
    assert (other.scores, other.best_n_iter, other.last_score) == (monitor.scores, 10, 0.3)
    assert other.chosen_n_iter == 20
    for k in range(21, 31):
        other(SimpleNamespace(n_iter=k, atoms=ATOMS, weights=WEIGHTS))
    assert list(other.scores) == [0, 10, 20, 30]
    empty = Monitor(lambda similarity: Estimate(0.2), 1.0, 0.0, 2)
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
        {"error": np.array([0.1, -0.5, 0.3])},
        {"error": np.array([0.1])},
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
    assert [score.value for score in monitor.scores.values()] == [0.1, 0.5, 0.3]


@pytest.mark.parametrize(
    ("scores", "best"),
    [([np.nan, -0.5, -0.6], 10), ([np.nan, np.nan, 0.1], 20), ([0.1, np.nan, 0.0], 0)],
)
def test_any_number_is_better_than_nan(scores, best):
    monitor, _ = run(scores)
    assert monitor.best_n_iter == monitor.chosen_n_iter == best


# --- scores --------------------------------------------------------------------------------------


@st.composite
def exact_similarities(draw, d):
    """A similarity whose scores of whole numbers are free of rounding, so that equals tie."""
    atoms, _ = draw(strategies.models(d))
    k, prior = len(atoms), draw(st.sampled_from([0.0, 0.5, 2.0]))
    S = reference.model_matrix(atoms, np.full(k, 1 / k), d, float(k)) + prior * np.eye(d)
    return Similarity(atoms, np.full(k, 1 / k), float(k), prior, d), S


@given(values=st.lists(st.integers(0, 10), min_size=1, max_size=12), data=st.data())
def test_the_standard_error_is_that_of_repeated_and_clustered_values(values, data):
    values = np.array(values) / 10
    n = len(values)
    plain = mean_estimate(values)
    assert plain.value == pytest.approx(values.mean(), abs=1e-12)
    assert plain.error == pytest.approx(
        values.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0, abs=1e-12
    )
    # Each value several times says no more than once, and weights 0 are absence.
    copies = np.array(data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)))
    clusters = np.repeat(np.arange(n), copies)
    assert mean_estimate(values[clusters], 1 / copies[clusters], clusters) == pytest.approx(plain)
    longer = np.append(values, [0.3, 0.7])
    assert mean_estimate(longer, np.append(np.full(n, 5.0), [0, 0])) == pytest.approx(plain)


@st.composite
def label_cases(draw):
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


@given(label_cases(), st.integers(1, 4))
def test_label_score_is_the_slow_one(case, k):
    X, y, X_val, y_val, weights, similarity, S = case
    shares = []
    for x, truth in zip(X_val, y_val, strict=True):
        lengths = [np.sqrt(row @ S @ row) if row @ S @ row > 0 else 1.0 for row in X]
        cosines = (X @ S @ x) / lengths
        near = np.argsort(-cosines.round(9), kind="stable")[:k]
        last = cosines[near[-1]]
        if (np.abs(cosines - last) < 1e-9).sum() > (np.abs(cosines[near] - last) < 1e-9).sum():
            return  # rounding decides which of equals is near
        shares.append(np.mean(y[near] == truth))
    score = label_score(sp.csr_array(X), y, sp.csr_array(X_val), y_val, weights, n_neighbors=k)
    assert score(similarity) == pytest.approx(mean_estimate(np.array(shares), weights), abs=1e-12)


def test_ten_rows_are_looked_at_by_default():
    X = sp.csr_array(np.vstack([np.tile([1.0, 0.1], (9, 1)), np.tile([0.1, 1.0], (9, 1))]))
    y, plain = np.repeat([0, 1], 9), Similarity(ATOMS, WEIGHTS, 1e-9, 1.0, 2)
    assert label_score(X, y, X, y)(plain) == pytest.approx(Estimate(0.9, 0.0))


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
    with_error = triplet_score(sp.csr_array(X), np.array(listed), weights)(similarity)
    anchors = np.array(listed)[:, 0]
    assert with_error == pytest.approx(mean_estimate(np.array(right), weights, anchors), abs=1e-12)
