"""Pairs of sparse rows: the same numbers as on dense rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.linking.rows import Rows
from strategies import INTEGERS, matrices


@st.composite
def cases(draw):
    X = draw(matrices(INTEGERS, 1, 7))
    n_pairs = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    return X, rng.integers(len(X), size=(n_pairs, 2))


@pytest.mark.parametrize("n_jobs", [1, 2])
@given(cases())
def test_pairs_have_the_numbers_of_the_slow_twins(n_jobs, case):
    X, pairs = case
    rows = Rows.of_matrix(sp.csr_array(X))
    assert_allclose(rows.products(pairs, n_jobs), reference.pair_products(X, pairs))
    assert_allclose(rows.overlaps(pairs, n_jobs), reference.pair_overlaps(X, pairs))
    weights = np.arange(2.0 * max(X.shape[1] - 1, 0)).reshape(-1, 2)
    positive = Rows.of_matrix(sp.csr_array(abs(X)))
    sums = positive.weighted_sums(pairs, weights, n_jobs)
    assert_allclose(sums, reference.pair_sums(abs(X), pairs, weights))


@given(cases())
def test_rows_that_are_taken_stacked_and_cut_are_those_of_a_matrix(case):
    X, pairs = case
    rows = Rows.of_matrix(sp.csr_array(X))
    n_columns = X.shape[1]
    numbers = pairs.ravel()
    taken = rows.take(numbers)
    assert_array_equal(taken.matrix(n_columns).toarray(), X[numbers])
    both = Rows.stacked([rows, taken]).matrix(n_columns).toarray()
    assert_array_equal(both, np.concatenate([X, X[numbers]]))
    every = np.random.default_rng(0).permutation(len(both))
    joined = rows.joined(taken, every).matrix(n_columns).toarray()
    assert_array_equal(joined, both[every])
    even = rows.with_features(rows.arrays.indices % 2 == 0).matrix(n_columns)
    assert_array_equal(even.toarray(), X * (np.arange(n_columns) % 2 == 0))
    assert_allclose(rows.squares(), np.square(X).sum(axis=1))
    factors = np.arange(len(X))
    assert_array_equal(
        rows.times(factors).matrix(n_columns).toarray(), X * factors[:, None]
    )
