"""Triplets from labels, of neighbours and at random, against a slow twin."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

import strategies
from hdsl import HDSL, Mining, Solver
from hdsl.triplets import (
    neighbor_triplets,
    random_triplets,
    shared_label_triplets,
)

ignore_small_classes = pytest.mark.filterwarnings(
    "ignore:There is one row only:UserWarning"
)


@st.composite
def labelled(draw, elements=strategies.INTEGERS):
    """Rows, and labels of at least two classes, one of them with two rows."""
    X = draw(strategies.matrices(elements=elements))
    if len(X) < 3:
        X = np.vstack([X, X[:1]])
    rest = draw(arrays(np.int64, len(X) - 3, elements=st.integers(0, 3)))
    return X, draw(st.permutations([0, 0, 1, *rest.tolist()]))


def nearest(similarity, candidates, n):
    """Return the n most similar candidates; ties go to the smaller row number."""
    return sorted(candidates, key=lambda row: (-similarity[row], row))[:n]


def slow_neighbor_triplets(X, y, n_targets, n_impostors):
    similarity = X @ X.T
    rows = range(len(X))
    return [
        [a, p, q]
        for a in rows
        for p in nearest(
            similarity[a], [r for r in rows if y[r] == y[a] and r != a], n_targets
        )
        for q in nearest(similarity[a], [r for r in rows if y[r] != y[a]], n_impostors)
    ]


@ignore_small_classes
@given(labelled(), st.integers(1, 4), st.integers(1, 4), st.sampled_from([None, 2]))
def test_neighbor_triplets_are_those_of_the_slow_twin(
    data, n_targets, n_impostors, n_jobs
):
    X, y = data
    made = neighbor_triplets(X, y, n_targets, n_impostors, n_jobs=n_jobs)
    assert made.dtype == np.int64
    assert made.tolist() == slow_neighbor_triplets(X, y, n_targets, n_impostors)


@pytest.mark.parametrize("form", [sp.csc_matrix, sp.coo_array, list])
def test_neighbor_triplets_take_any_matrix(form):
    X = np.random.default_rng(0).integers(0, 4, size=(12, 5)).astype(float)
    y = np.arange(12) % 3
    assert_array_equal(
        neighbor_triplets(form(X), y, 2, 2), neighbor_triplets(X, y, 2, 2)
    )


def test_a_class_of_one_row_has_no_anchor_but_an_impostor():
    X = np.random.default_rng(0).random((6, 3))
    with pytest.warns(UserWarning, match=r"one row only.* of class 'lone'"):
        made = neighbor_triplets(X, ["a"] * 3 + ["b"] * 2 + ["lone"], 1, 3)
    assert 5 not in made[:, :2]
    assert 5 in made[:, 2]


@ignore_small_classes
@pytest.mark.parametrize(
    "make", [lambda y: neighbor_triplets(np.eye(4), y), random_triplets]
)
def test_classes_of_one_row_each_make_no_triplet(make):
    with pytest.raises(
        ValueError, match=r"No triplet can be built.*one row.*triplets="
    ):
        make([0, 1, 2, 3])


@ignore_small_classes
@given(labelled(), st.data())
def test_neighbors_under_a_similarity_are_those_of_the_transformed_rows(data, more):
    X, y = data
    columns = more.draw(
        arrays(np.float64, (X.shape[1], 3), elements=strategies.INTEGERS)
    )

    class Linear:
        def transform(self, X):
            return X @ columns

    made = neighbor_triplets(X, y, 2, 2, similarity=Linear())
    assert made.tolist() == slow_neighbor_triplets(X @ columns, y, 2, 2)


def fitted(X, y):
    return HDSL(
        scale=1.0,
        prior=0.5,
        mining=Mining(n_targets=2, n_impostors=2),
        solver=Solver(max_iter=5),
    ).fit(X, y)


@pytest.mark.parametrize("form", [sp.csr_array, lambda X: X.astype(int)])
def test_neighbors_under_a_fitted_model_are_the_most_similar(form):
    X = np.random.default_rng(0).integers(0, 4, size=(30, 6)).astype(float)
    y = np.arange(30) % 3
    model = fitted(X, y)
    S = model.similarity(X)
    for similarity in (model, model.similarity_):
        made = neighbor_triplets(form(X), y, 1, 1, similarity=similarity)
        best = [S[a][(y == y[a]) & (np.arange(30) != a)].max() for a in range(30)]
        assert_allclose(S[made[:, 0], made[:, 1]], best)
        assert_allclose(
            S[made[:, 0], made[:, 2]], [S[a][y != y[a]].max() for a in range(30)]
        )


def test_a_model_fitted_on_named_columns_gets_them():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).integers(0, 4, size=(30, 6)).astype(float)
    y = np.arange(30) % 3
    frame = pandas.DataFrame(X).add_prefix("f")
    made = neighbor_triplets(frame, y, similarity=fitted(frame, y))
    assert_array_equal(made, neighbor_triplets(X, y, similarity=fitted(X, y)))


@ignore_small_classes
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


@ignore_small_classes
def test_random_triplets_reach_every_legal_row():
    y = np.array([0, 1, 0, 2, 1, 0])
    made = random_triplets(y, 200, random_state=0)
    for a in np.flatnonzero(y != 2):
        of_a = made[made[:, 0] == a]
        assert set(of_a[:, 1]) == set(np.flatnonzero(y == y[a])) - {a}
        assert set(of_a[:, 2]) == set(np.flatnonzero(y != y[a]))


@pytest.mark.parametrize("name", ["n_targets", "n_impostors"])
def test_a_number_of_rows_that_share_labels_is_named(name):
    with pytest.raises(
        ValueError, match=f"'{name}' parameter of shared_label_triplets"
    ):
        shared_label_triplets(np.eye(3), [["a", "b"], ["a"], ["c"]], **{name: 0})
