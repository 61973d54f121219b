"""Rows of sparse features and a dense embedding, and the search among them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import strategies
from hdsl.mixed_rows import MixedRows, is_pair, split_columns
from hdsl.search import Index, neighbors_by_label, top_k
from hdsl.triplets.equal_rows import row_keys


@st.composite
def mixed_rows(draw, elements=None):
    """Rows of which some columns are dense, and the same rows as one array."""
    X = draw(strategies.matrices(elements=elements or strategies.INTEGERS))
    cut = draw(st.integers(1, X.shape[1] - 1))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return MixedRows(sp.csr_array(X[:, :cut]), X[:, cut:].astype(dtype)), X


@given(mixed_rows(), st.integers(1, 4), st.booleans())
def test_neighbors_are_those_of_all_products(case, k, exclude_self):
    rows, X = case
    products = X @ X.T
    if exclude_self:
        np.fill_diagonal(products, -np.inf)
    neighbors = top_k(rows, rows, k, exclude_self=exclude_self)
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    for row in range(len(X)):
        size = neighbors.size[row]
        assert_array_equal(neighbors.rows[row, :size], order[row, :size])
        assert_array_equal(
            neighbors.scores[row, :size], products[row, order[row, :size]]
        )


@given(mixed_rows(), st.data())
def test_neighbors_by_label_are_those_of_one_matrix(case, data):
    rows, X = case
    labels = np.array(
        data.draw(st.lists(st.integers(0, 2), min_size=len(X), max_size=len(X)))
    )
    ours = neighbors_by_label(rows, labels, 2, 2)
    expected = neighbors_by_label(sp.csr_array(X), labels, 2, 2)
    for neighbors, other in zip(ours, expected, strict=True):
        assert_array_equal(neighbors.rows, other.rows)
        assert_array_equal(neighbors.scores, other.scores)


def test_equal_rows_come_by_number_in_any_block_and_on_any_number_of_threads(
    monkeypatch,
):
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(5, 33)).astype(np.float32)
    dense = kinds[rng.integers(0, 5, 300)]
    rows = MixedRows(sp.csr_array((300, 4)), dense)
    whole = top_k(rows, rows, 20, n_jobs=1)
    monkeypatch.setattr("hdsl.search.mixed.BLOCK_ROWS", 64)
    monkeypatch.setattr("hdsl.search.mixed.BLOCK_PRODUCTS", 640)
    parts = top_k(rows, rows, 20, n_jobs=3)
    assert_array_equal(parts.rows, whole.rows)
    assert_array_equal(parts.scores, whole.scores)
    for scores, numbers in zip(whole.scores, whole.rows, strict=True):
        for score in np.unique(scores):
            assert (np.diff(numbers[scores == score]) > 0).all()


@given(mixed_rows())
def test_equal_rows_have_equal_keys(case):
    rows, X = case
    keys = row_keys(rows)
    is_equal = (keys[:, None] == keys[None]).all(axis=2)
    assert_array_equal(is_equal, (X[:, None] == X[None]).all(axis=2))


@given(mixed_rows(), st.data())
def test_rows_columns_and_blocks_are_those_of_one_matrix(case, data):
    rows, X = case
    chosen = data.draw(st.lists(st.integers(0, len(X) - 1), max_size=5))
    assert rows.shape == X.shape
    assert_allclose(rows[chosen].to_sparse().toarray(), X[chosen], rtol=1e-6)
    again = split_columns(sp.csr_array(X), rows.sparse.shape[1])
    assert_allclose(again.dense, rows.dense)
    assert is_pair(tuple(rows))


def test_queries_and_rows_must_both_be_pairs():
    rows = MixedRows(sp.csr_array((2, 3)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="pairs"):
        Index(rows).top_k(np.ones((1, 5)), 1)
