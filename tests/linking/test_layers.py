"""Several similarities in one search: the same records as one by one, on dense rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.linking import both_sides, last_layer, layered_index, sides
from hdsl.linking.layered_index import LayeredIndex
from hdsl.linking.layers import Layer, LayeredRows
from hdsl.linking.records import RecordFeatures
from hdsl.linking.rows import Rows
from hdsl.linking.tables import read_tables
from hdsl.search import top_k
from hdsl.similarity.rows import unit_rows
from products import make_tables
from strategies import INTEGERS, matrices

WIDTHS = (2, 3, 1)


def layered(X):
    """Rows of whole numbers as layers of some widths, with scales and factors."""
    ends = np.cumsum(WIDTHS)
    parts = np.split(X[:, : ends[-1]], ends[:-1], axis=1)
    factors = abs(X[:, ends[-1] :].T)
    scales = factors[::-1] + 1.0
    rows = [Rows.of_matrix(sp.csr_array(part)) for part in parts]
    layers = map(Layer, rows, scales, factors)
    plain = [
        (part * scale[:, None], factor)
        for part, scale, factor in zip(parts, scales, factors, strict=True)
    ]
    return LayeredRows(tuple(layers)), plain


@st.composite
def cases(draw):
    n_columns = sum(WIDTHS) + len(WIDTHS)
    X = draw(matrices(INTEGERS, n_columns, n_columns))
    n_queries = draw(st.integers(1, len(X) - 1))
    return X[:n_queries], X[n_queries:], draw(st.integers(1, 6))


@given(cases(), st.sampled_from([1, 2]))
def test_layers_have_the_rows_of_the_slow_twin(case, n_jobs):
    X, Y, k = case
    queries, plain_queries = layered(X)
    rows, plain_rows = layered(Y)
    records, scores = LayeredIndex(rows).top(queries, k, n_jobs)
    expected = reference.top_by_layers(plain_queries, plain_rows, k)
    n_rows = min(k, len(Y))
    for layer, (expected_rows, expected_scores) in enumerate(expected):
        assert_array_equal(records[layer, :, :n_rows], expected_rows)
        assert_allclose(scores[layer, :, :n_rows], expected_scores)
    assert (records[:, :, n_rows:] == -1).all()


def record_features(n=70):
    left, right, _ = make_tables(n)
    tables = read_tables(left, right, None, "sku")
    return RecordFeatures.of_tables(tables), n


def learned_rows(records, n_pairs=5):
    """Records with a layer of made-up pairs above their cosine, and the same as a matrix."""
    X = records.matrix()
    rng = np.random.default_rng(0)
    pairs = sp.random_array(
        (X.shape[0], n_pairs), density=0.5, rng=rng, data_sampler=rng.standard_normal
    )
    learned = unit_rows(sp.csr_array(sp.hstack([pairs, 4.0 * X])))
    factors = np.sqrt(learned[:, n_pairs:].power(2).sum(axis=1))
    layer = Layer.of_rows(Rows.of_matrix(learned[:, :n_pairs]))
    layered = LayeredRows.of_records(records)
    return layered.with_layer(layer._replace(factors=factors)), learned


def test_layers_of_records_are_spelling_and_cosine_and_what_was_learned():
    records, n = record_features()
    rows, learned = learned_rows(records)
    index = LayeredIndex(rows, range(n, 2 * n))
    neighbors, scores = index.top(rows.take(np.arange(n)), 9, n_jobs=1)
    grams = records.grams.rows.times(records.grams.inverse_lengths)
    n_grams = len(records.vocabulary.gram_columns)
    for layer, X in enumerate([grams.matrix(n_grams), records.matrix(), learned]):
        expected = top_k(X[:n], X[n:], 9)
        assert_allclose(scores[layer], expected.scores, rtol=0, atol=1e-12)
        assert (neighbors[layer] == expected.rows).mean() > 0.99  # but for ties
    pairs = np.column_stack([np.repeat(np.arange(n), 9), n + neighbors[2].ravel()])
    similarities = rows.similarities(pairs, n_jobs=2)
    assert_array_equal(similarities[2], scores[2].ravel())


@pytest.mark.parametrize("n_shortlist", [12, 80])
def test_records_near_by_cosine_lead_to_those_near_as_learned(monkeypatch, n_shortlist):
    monkeypatch.setattr(last_layer, "BLOCK_SIZE", 32)
    monkeypatch.setattr(both_sides, "GROUP_SIZE", 3)
    monkeypatch.setattr(sides, "N_SHORTLIST", n_shortlist)
    monkeypatch.setattr(sides, "DEPTH", 9)
    records, n = record_features()
    rows, _ = learned_rows(records)
    by_words = sides.Sides(LayeredRows(rows.layers[:2]), n)
    _, shortlist = by_words.search(n_jobs=1)
    nearest = sides.Sides(rows, n).search_last(shortlist, n_jobs=2)
    every = LayeredIndex(rows, range(n, 2 * n)).top(rows.take(np.arange(n)), 9, 1)
    assert_array_equal(nearest.neighbors[:n], every[0][2] + n)
    assert_array_equal(nearest.scores[:n], every[1][2])


@pytest.mark.parametrize("group_size", [3, 2**13])
@pytest.mark.parametrize("n_left", [1, 70, 137])
def test_both_sides_find_what_one_finds_in_the_other(monkeypatch, group_size, n_left):
    monkeypatch.setattr(both_sides, "GROUP_SIZE", group_size)
    monkeypatch.setattr(sides, "DEPTH", 9)
    records, n = record_features()
    rows = LayeredRows.of_records(records)
    every, shortlist = sides.Sides(rows, n_left).search(n_jobs=2)
    left = range(n_left)
    right = range(n_left, 2 * n)
    for searched, queries in ((right, left), (left, right)):
        index = LayeredIndex(rows, searched)
        neighbors, scores = index.top(rows.take(np.array(queries)), 9, 1)
        for layer, nearest in enumerate(every):
            assert_array_equal(nearest.scores[queries], scores[layer])
        assert_array_equal(shortlist.records[queries][:, :9], neighbors[-1])


@pytest.mark.parametrize("group_size", [3, 2**13])
def test_one_table_is_both_sides(monkeypatch, group_size):
    monkeypatch.setattr(both_sides, "GROUP_SIZE", group_size)
    monkeypatch.setattr(sides, "DEPTH", 9)
    records, n = record_features()
    rows = LayeredRows.of_records(records)
    every, _ = sides.Sides(rows, 2 * n).search(n_jobs=2)
    neighbors, scores = LayeredIndex(rows).top(rows, 10, 1)
    for layer, nearest in enumerate(every):
        is_itself = neighbors[layer] == np.arange(2 * n)[:, None]
        expected = np.where(is_itself, -np.inf, scores[layer])
        assert_array_equal(nearest.scores, expected)


def test_blocks_change_nothing(monkeypatch):
    records, n = record_features()
    rows = LayeredRows.of_records(records)
    queries = rows.take(np.arange(n))
    whole = LayeredIndex(rows).top(queries, 7, n_jobs=1)
    monkeypatch.setattr(layered_index, "BLOCK_SIZE", 16)
    in_blocks = LayeredIndex(rows).top(queries, 7, n_jobs=1)
    assert_array_equal(whole[0], in_blocks[0])
    assert_array_equal(whole[1], in_blocks[1])


@pytest.mark.parametrize("n_queries", [0, 1])
def test_no_query_and_one(n_queries):
    records, _ = record_features()
    rows = LayeredRows.of_records(records)
    queries = rows.take(np.arange(n_queries))
    neighbors, scores = LayeredIndex(rows).top(queries, 3, None)
    assert neighbors.shape == scores.shape == (2, n_queries, 3)
