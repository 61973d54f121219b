"""Ranks among all rows, and what queries gain by them, against slow versions."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

import reference
from hdsl.cpu.kernels.ranks import FEW, Counts, Thresholds, count_ranks
from hdsl.similarity import FixedPart, Similarity
from hdsl.similarity.cosine import COSINE, PRODUCT
from hdsl.supervision import ranked_search
from hdsl.supervision.compared_rows import ComparedRows
from hdsl.supervision.gains import discounted_gains
from hdsl.supervision.labeled_rows import LabeledRows
from hdsl.supervision.ranked_search import RankedSearch
from hdsl.triplets.graded_rows import count_wins, graded_rows


def similarity(n_features):
    """Return a similarity with two feature pairs over a dot product."""
    atoms = np.array([[0, 1, 1], [1, 2, -1]])
    weights = np.array([0.5, 0.25])
    return Similarity(atoms, weights, 3.0, (FixedPart("prior", 0.5),), n_features)


def rows(n, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 3, size=(n, 5)).astype(float)  # small numbers make ties
    return sp.csr_array(values)


def searched(seed=0, n_rows=40):
    """Return a search of six queries, of which two are rows themselves."""
    return RankedSearch(
        queries=rows(6, seed),
        rows=rows(n_rows, seed + 1),
        hidden_rows=np.array([-1, 3, -1, n_rows - 1, -1, -1]),
        judged_queries=np.array([0, 0, 1, 2, 2, 2, 4, 5]),
        judged_rows=np.array([1, 7, 2, 0, 5, 9, 4, 4]),
    )


@pytest.mark.parametrize("ranking", [COSINE, PRODUCT])
@pytest.mark.parametrize("at_a_time", [1, 50, 10**6])
def test_ranks_are_those_of_all_scores(monkeypatch, ranking, at_a_time):
    monkeypatch.setattr(ranked_search, "SCORES_AT_A_TIME", at_a_time)
    for seed in range(5):
        search = searched(seed)
        model = similarity(5)
        ranks = search.ranks(model, (ranking,))[ranking]
        assert_array_equal(ranks, reference.judged_ranks(search, model, ranking))


def test_both_ways_to_rank_are_counted_in_one_search():
    search = searched()
    model = similarity(5)
    ranks = search.ranks(model, (COSINE, PRODUCT))
    for ranking in (COSINE, PRODUCT):
        alone = search.ranks(model, (ranking,))[ranking]
        assert_array_equal(ranks[ranking], alone)
    assert (ranks[COSINE] != ranks[PRODUCT]).any()


@given(st.data())
def test_scores_are_counted_above_every_threshold(data):
    products = data.draw(arrays(float, (2, 12), elements=st.integers(-4, 4)))
    products[0, 3] = -np.inf  # a row that is never shown
    lengths = data.draw(arrays(float, 12, elements=st.sampled_from([0.5, 1.0, 2.0])))
    sizes = data.draw(st.lists(st.integers(0, 2 * FEW), min_size=2, max_size=2))
    scores = [
        np.sort(data.draw(arrays(float, size, elements=st.integers(-5, 5))))
        for size in sizes
    ]
    ties = np.concatenate(scores)
    thresholds = Thresholds(
        np.concatenate([[0], np.cumsum(sizes)]), ties + 0.25, ties - 0.25
    )
    n = sum(sizes)
    counts = Counts(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64))
    count_ranks(products, lengths, thresholds, counts)
    expected = reference.count_ranks(products, lengths, *thresholds)
    assert_array_equal(counts.n_above, expected[0])
    assert_array_equal(counts.n_from, expected[1])


@given(st.data())
def test_gains_are_shares_of_the_largest_possible(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    queries = np.repeat(np.arange(len(sizes)), sizes)
    grades = data.draw(
        st.lists(st.floats(0.1, 1.0), min_size=len(queries), max_size=len(queries))
    )
    ranks = np.concatenate([data.draw(st.permutations(range(1, 9)))[:n] for n in sizes])
    gains = discounted_gains(ranks.astype(float), np.array(grades), queries)
    assert_allclose(gains, reference.discounted_gains(ranks, grades, queries))
    assert ((gains > 0) & (gains <= 1 + 1e-12)).all()


@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=20), st.data()
)
def test_a_grade_is_the_share_of_comparisons_that_a_row_wins(triplets, data):
    weights = data.draw(
        st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=len(triplets))
    )[: len(triplets)]
    judged = graded_rows(count_wins(np.array(triplets), np.array(weights)))
    grades = {
        (anchor, row): grade
        for anchor, row, grade in zip(
            judged.anchors.tolist(),
            judged.rows.tolist(),
            judged.grades.tolist(),
            strict=True,
        )
    }
    expected = reference.grades_of_triplets(triplets, weights)
    assert grades.keys() == expected.keys()
    for pair, grade in expected.items():
        assert grades[pair] == pytest.approx(grade)


# --- what is searched -----------------------------------------------------------------


def test_rows_that_are_only_anchors_are_never_shown():
    X = rows(30, 0)
    triplets = np.array([[28, 0, 1], [29, 2, 3], [4, 5, 6]])
    data = ComparedRows(X, triplets)
    search = data.search(data, np.random.default_rng(0)).searched
    assert search.rows.shape[0] == 27  # 28, 29 and 4 are queries only
    data = ComparedRows(X, np.array([[28, 0, 1], [29, 28, 3]]))
    search = data.search(data, np.random.default_rng(0)).searched
    assert search.rows.shape[0] == 29
    hidden = search.hidden_rows[0]
    assert (search.rows[[hidden]] != X[[28]]).nnz == 0  # a row is not its own answer


def test_comparisons_without_queries_or_of_most_rows_are_not_searched():
    rng = np.random.default_rng(0)
    quadruplets = ComparedRows(rows(30, 0), np.array([[0, 1, 2, 3]]))
    assert quadruplets.search(quadruplets, rng) is None
    all_pairs = np.array([[0, k, k + 1] for k in range(1, 29)])
    everything = ComparedRows(rows(30, 0), all_pairs)
    assert everything.search(everything, rng) is None


def test_labeled_rows_are_searched_among_all_where_these_are_many():
    rng = np.random.default_rng(0)
    data = LabeledRows(rows(60, 0), np.arange(60) % 2)
    assert data.take(np.arange(20)).search(data, rng) is None
    search = data.take(np.arange(10)).search(data, rng).searched
    assert search.rows.shape[0] == 60
    assert set(search.judged_rows.tolist()) <= set(range(10))
