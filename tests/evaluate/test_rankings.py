"""Reciprocal rank, precision and nDCG against plain sums."""

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from sklearn.metrics import ndcg_score

import reference
from hdsl.evaluate import ranking_quality

FOUND = st.permutations(range(8)).flatmap(
    lambda p: st.integers(0, 8).map(lambda n: p[:n])
)
GRADES = st.dictionaries(
    st.integers(0, 9), st.sampled_from([1.0, 2.0, 3.0]), min_size=1
)


@given(st.lists(st.tuples(FOUND, GRADES), min_size=1, max_size=4), st.integers(1, 9))
def test_measures_are_those_of_plain_sums(cases, k):
    quality = ranking_quality(
        [ids for ids, _ in cases], [grades for _, grades in cases], k
    )
    expected = np.array([reference.rank_measures(*case, k) for case in cases]).T
    found = quality.reciprocal_ranks, quality.precisions, quality.ndcgs
    assert_allclose(found, expected, rtol=1e-12)
    assert (quality.mrr, quality.precision, quality.ndcg) == pytest.approx(
        expected.mean(axis=1)
    )


def test_ndcg_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 4, size=(5, 20))
    scores = rng.random((5, 20))
    relevant = [{j: g for j, g in enumerate(row) if g} for row in grades.tolist()]
    quality = ranking_quality(np.argsort(-scores, axis=1), relevant, 10)
    assert quality.ndcg == pytest.approx(ndcg_score(grades, scores, k=10))


def test_intervals_and_gains():
    relevant = [{0}, {1}, {2}]
    before = ranking_quality([[1, 0], [1, 0], [0, 1]], relevant, 1)
    after = ranking_quality([[0, 1], [1, 0], [2, 1]], relevant, 1)
    assert str(before).startswith("MRR 0.500 (0.000 to 1.000), precision@1 0.333")
    assert after.gain(before, "mrr")[0] == pytest.approx(0.5)
    gain, low, high = after.gain(before, "ndcg")
    assert low < gain < high
    assert after.gain(after, "precision") == (0.0, 0.0, 0.0)
    assert ranking_quality([[0]], [{0}]).interval("mrr") == (0.0, 1.0)


@pytest.mark.parametrize(
    ("found", "relevant", "message"),
    [
        ([[1]], [set()], "Query 0 has no relevant document"),
        (
            [[1]],
            [{1: -1.0}],
            "Query 0 has no relevant document, or a grade that is negative",
        ),
        ([[1]], [{1}, {2}], "1 rankings and 2 judgements"),
        ([], [], "at least one query"),
        ([[7, 1, 7]], [{7}], "twice"),
    ],
)
def test_bad_judgements_are_refused(found, relevant, message):
    with pytest.raises(ValueError, match=message):
        ranking_quality(found, relevant)


def test_a_gain_needs_the_same_queries():
    one = ranking_quality([[1]], [{1}])
    two = ranking_quality([[1], [2]], [{1}, {2}])
    with pytest.raises(ValueError, match="2 and 1 queries at k = 10 and 10"):
        two.gain(one, "mrr")
    with pytest.raises(ValueError, match="'measure' parameter"):
        one.gain(one, "map")


def test_judgements_may_be_a_series_of_any_index():
    judged = pd.Series([{20}, {10}, {0}], index=[2, 1, 0])
    assert ranking_quality([[20, 1], [10, 1], [0, 1]], judged).mrr == 1.0


def test_grades_of_any_size_have_a_gain():
    small = ranking_quality([[1, 4, 2]], [{1: 1.0, 2: 3.0, 3: 2.0}])
    huge = ranking_quality([[1, 4, 2]], [{1: 5e307, 2: 1.5e308, 3: 1e308}])
    assert huge.ndcg == pytest.approx(small.ndcg)


@pytest.mark.parametrize("nothing", [-1, None])
def test_what_stands_for_nothing_is_not_relevant(nothing):
    with pytest.raises(ValueError, match="stand for nothing"):
        ranking_quality([[nothing, 2]], [{nothing, 2}])
