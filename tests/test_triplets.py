"""Triplet makers against slow dense twins."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

import strategies
from hdsl.triplets import distinct_rows, neighbor_triplets, random_triplets, restrict

small_classes_are_fine = pytest.mark.filterwarnings("ignore:Too few rows:UserWarning")


@st.composite
def labelled(draw, elements=strategies.INTEGERS):
    """Rows, and labels of two classes at least, one of them with two rows."""
    X = draw(strategies.matrices(elements=elements))
    if len(X) < 3:
        X = np.vstack([X, X[:1]])
    rest = draw(arrays(np.int64, len(X) - 3, elements=st.integers(0, 3)))
    return X, draw(st.permutations([0, 0, 1, *rest.tolist()]))


def nearest(similarity, candidates, n):
    """Return the n most similar candidates, the smaller row number of equals."""
    return sorted(candidates, key=lambda row: (-similarity[row], row))[:n]


def slow_neighbor_triplets(X, y, n_targets, n_impostors):
    similarity, rows = X @ X.T, range(len(X))
    return [
        [a, p, q]
        for a in rows
        for p in nearest(similarity[a], [r for r in rows if y[r] == y[a] and r != a], n_targets)
        for q in nearest(similarity[a], [r for r in rows if y[r] != y[a]], n_impostors)
    ]


# --- neighbours ----------------------------------------------------------------------------------


@small_classes_are_fine
@given(labelled(), st.integers(1, 4), st.integers(1, 4), st.sampled_from([None, 2]))
def test_neighbor_triplets_are_those_of_the_slow_twin(data, n_targets, n_impostors, n_jobs):
    X, y = data
    made = neighbor_triplets(X, y, n_targets, n_impostors, n_jobs=n_jobs)
    assert made.dtype == np.int64
    assert made.tolist() == slow_neighbor_triplets(X, y, n_targets, n_impostors)


@small_classes_are_fine
@given(labelled(elements=strategies.FLOATS), st.integers(1, 4), st.integers(1, 4))
def test_neighbors_of_real_numbers_are_the_nearest(data, n_targets, n_impostors):
    X, y = data
    similarity = X @ X.T
    made = neighbor_triplets(X, y, n_targets, n_impostors)
    slow = np.array(slow_neighbor_triplets(X, y, n_targets, n_impostors))
    # The last bits of inner products may decide between equals, so similarities are compared.
    assert_array_equal(made[:, 0], slow[:, 0])
    for column in (1, 2):
        assert_allclose(
            similarity[made[:, 0], made[:, column]],
            similarity[slow[:, 0], slow[:, column]],
            rtol=1e-12,
            atol=1e-12,
        )


def test_ties_go_to_the_smaller_row_number():
    X = np.ones((7, 2))
    made = neighbor_triplets(X, [0, 1, 0, 1, 0, 1, 0], n_targets=2, n_impostors=1)
    assert made[made[:, 0] == 4].tolist() == [[4, 0, 1], [4, 2, 1]]


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, sp.coo_array, np.asarray, list])
def test_neighbor_triplets_take_any_matrix(form):
    X = np.random.default_rng(0).integers(0, 4, size=(12, 5)).astype(float)
    y = np.arange(12) % 3
    assert_array_equal(neighbor_triplets(form(X), y, 2, 2), neighbor_triplets(X, y, 2, 2))


def test_a_class_of_one_row_is_no_anchor_but_an_impostor():
    X = np.random.default_rng(0).random((6, 3))
    with pytest.warns(UserWarning, match=r"Too few rows for 1 target .*'lone'.*\(1 rows\)"):
        made = neighbor_triplets(X, ["a"] * 3 + ["b"] * 2 + ["lone"], 1, 3)
    assert 5 not in made[:, :2]
    assert 5 in made[:, 2]


def test_too_few_impostors_are_a_warning_that_says_how_many_there_are():
    X = np.random.default_rng(0).random((6, 3))
    with pytest.warns(UserWarning, match=r"Too few rows outside class .*4 impostors.*get 2"):
        made = neighbor_triplets(X, [0, 0, 0, 0, 1, 1], 1, 4)
    assert_array_equal(np.bincount(made[:, 0]), [2, 2, 2, 2, 4, 4])


@small_classes_are_fine
@pytest.mark.parametrize("make", [lambda y: neighbor_triplets(np.eye(4), y), random_triplets])
def test_classes_of_one_row_each_make_no_triplet(make):
    with pytest.raises(ValueError, match=r"No triplet can be built.*one row.*triplets="):
        make([0, 1, 2, 3])


def test_nan_is_refused_with_its_place():
    X = np.ones((4, 3))
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[2, 1\] is NaN"):
        neighbor_triplets(X, [0, 0, 1, 1], 1, 1)


# --- random --------------------------------------------------------------------------------------


@small_classes_are_fine
@given(labelled(), st.integers(1, 5), st.integers(0, 2**31 - 1))
def test_random_triplets_follow_the_labels(data, n_per_row, seed):
    y = np.array(data[1])
    made = random_triplets(y, n_per_row, random_state=seed)
    anchor, positive, negative = made.T
    assert (y[anchor] == y[positive]).all()
    assert (y[anchor] != y[negative]).all()
    assert (anchor != positive).all()
    not_alone = np.bincount(y)[y] > 1
    assert_array_equal(np.bincount(anchor, minlength=len(y)), n_per_row * not_alone)


@small_classes_are_fine
def test_random_triplets_reach_every_legal_row():
    y = np.array([0, 1, 0, 2, 1, 0])
    made = random_triplets(y, 200, random_state=0)
    for a in np.flatnonzero(y != 2):
        of_a = made[made[:, 0] == a]
        assert set(of_a[:, 1]) == set(np.flatnonzero(y == y[a])) - {a}
        assert set(of_a[:, 2]) == set(np.flatnonzero(y != y[a]))


def test_random_triplets_follow_the_seed():
    y = np.arange(40) % 4
    assert_array_equal(random_triplets(y, random_state=3), random_triplets(y, random_state=3))
    assert (random_triplets(y, random_state=3) != random_triplets(y, random_state=4)).any()


# --- restrict ------------------------------------------------------------------------------------


@given(st.data())
def test_restrict_keeps_and_renumbers_what_lives_inside(data):
    n = data.draw(st.integers(2, 10))
    triplets = data.draw(strategies.triplets(n))
    rows = data.draw(st.permutations(range(n)))[: data.draw(st.integers(0, n))]
    slow = [[rows.index(r) for r in t] for t in triplets.tolist() if set(t) <= set(rows)]
    kept = restrict(triplets, np.array(rows, dtype=np.int64), n)
    assert kept.shape == (len(slow), 3)
    assert kept.tolist() == slow


def test_restrict_to_all_rows_changes_nothing():
    triplets = np.array([[0, 1, 2], [2, 2, 0], [0, 1, 2]])
    assert_array_equal(restrict(triplets, np.arange(3), 3), triplets)


# --- distinct rows -------------------------------------------------------------------------------


@given(st.data())
def test_distinct_rows_are_the_first_of_equals_with_their_number(data):
    X = data.draw(strategies.matrices(elements=strategies.INTEGERS, max_features=3))
    labels = data.draw(arrays(np.int64, len(X), elements=st.integers(0, 1)))
    weights = data.draw(
        st.none() | arrays(np.float64, len(X), elements=st.sampled_from([0.0, 1.0, 2.5]))
    )
    if weights is not None:
        weights[0] = 1.0  # validation refuses weights that are all zero
    slow: dict = {}
    for row, (x, label) in enumerate(zip(X, labels, strict=True)):
        weight = 1.0 if weights is None else weights[row]
        if weight > 0:
            first = slow.setdefault((*x, label), [row, 0.0])
            first[1] += weight
    kept, total = distinct_rows(sp.csr_array(X), labels, weights)
    assert [[row, weight] for row, weight in zip(kept, total, strict=True)] == list(slow.values())
