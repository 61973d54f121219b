"""Judged queries before and after learning: figures, verdicts and sentences."""

import json

import numpy as np
import pytest

from hdsl.evaluate import (
    RankingQuality,
    SearchComparison,
    compare_errors,
    compare_searches,
    known_item,
    ranking_quality,
)
from hdsl.relevance import read_relevance
from hdsl.similarity import FixedPart, Similarity
from hdsl.text.search import ScoredSimilarity
from hdsl.triplets import graded_triplets, relevance_triplets

DOCUMENTS = np.eye(4)[[0, 0, 1, 1, 2, 2, 3, 3]] + 0.01 * np.arange(8)[:, None]
QUERIES = np.eye(4)


def quality(ndcgs):
    values = np.array(ndcgs)
    return RankingQuality(values, values, values, k=10, recalls=values)


def swapped(i, j):
    """Return the similarity xᵀMy of features i and j, which stand for each other."""
    atoms = np.array([[i, j, 1], [i, j, -1]])
    weights = np.array([1.0, 0.0])
    fixed = (FixedPart("prior", 0.1),)
    return Similarity(atoms[:1], weights[:1], 1.0, fixed, n_features=4)


def test_figures_are_those_of_the_rankings():
    relevant = [{2, 3}, {0}, {7: 2.0}]
    queries = QUERIES[[0, 1, 3]]
    searches = compare_searches(swapped(0, 1), queries, DOCUMENTS, relevant, k=4)
    assert (searches.n_queries, searches.n_documents) == (3, 8)
    cosine = DOCUMENTS / np.linalg.norm(DOCUMENTS, axis=1, keepdims=True)
    order = np.argsort(-(queries @ cosine.T), axis=1, kind="stable")
    expected = ranking_quality(order, relevant, 4)
    np.testing.assert_allclose(searches.before.ndcgs, expected.ndcgs)
    assert searches.after.ndcg > searches.before.ndcg
    assert searches.after.recall > searches.before.recall


def test_one_query_shows_nothing():
    searches = compare_searches(swapped(0, 1), QUERIES[:1], DOCUMENTS, [{2}])
    assert searches.n_queries == 1
    assert searches.verdict == "no difference"
    assert json.loads(json.dumps(searches.to_dict(), allow_nan=False))


@pytest.mark.parametrize(
    ("gains", "verdict", "words"),
    [
        ([0.1, 0.2, 0.3, 0.2], "better", "4 of 4 queries better, 0 worse"),
        ([-0.1, -0.2, -0.3, -0.2], "worse", "Use the cosine"),
        ([0.1, -0.1, 0.0, 0.0], "no difference", "1 of 4 queries better, 1 worse"),
    ],
)
def test_the_verdict_is_the_interval_of_the_gain(gains, verdict, words):
    before = np.full(4, 0.5)
    searches = SearchComparison(quality(before), quality(before + gains), 100)
    assert searches.verdict == verdict
    assert words in searches.sentence
    assert searches.to_dict()["verdict"] == verdict


def test_recall_is_the_share_of_what_is_relevant():
    found = ranking_quality([[1, 2, 3], [4, 5, 6]], [{1, 9}, {5, 6, 7, 8}], k=2)
    np.testing.assert_allclose(found.recalls, [0.5, 0.25])
    assert found.recall == pytest.approx(0.375)
    unmeasured = RankingQuality(found.ndcgs, found.ndcgs, found.ndcgs, k=2)
    with pytest.raises(ValueError, match="recall"):
        unmeasured.values("recall")


def test_relevance_is_read_in_the_order_of_queries():
    table = {"query": ["b", "a", "b"], "document": ["x", "y", "x"], "grade": [1, -3, 2]}
    names = {"query_ids": ["a", "b"], "document_ids": ["x", "y"]}
    judged = read_relevance(table, **names)
    assert judged.queries.tolist() == [0, 1]
    assert judged.documents.tolist() == [1, 0]
    assert judged.grades.tolist() == [0.0, 2.0]
    assert judged.by_query() == {1: {0: 2.0}}
    assert judged.of_queries(np.array([True, False])).documents.tolist() == [1]


def test_a_query_that_is_a_document_is_not_its_own_result():
    nothing = Similarity(
        np.empty((0, 3), int), np.empty(0), 1.0, (FixedPart("prior", 1.0),), 4
    )
    relevant = [{1}, {3}]
    found_first = compare_searches(nothing, DOCUMENTS[[0, 2]], DOCUMENTS, relevant)
    assert found_first.before.mrr == pytest.approx(0.5)
    others = compare_searches(
        nothing, DOCUMENTS[[0, 2]], DOCUMENTS, relevant, leave_out=[0, 2]
    )
    assert others.before.mrr == pytest.approx(1.0)


def test_rows_are_ranked_as_the_model_says():
    # A long row is first by the product, a row like the query by the cosine.
    documents = np.array([[1.0, 0, 0, 0], [3, 3, 0, 0]])
    model = ScoredSimilarity(
        Similarity(
            np.empty((0, 3), int), np.empty(0), 1.0, (FixedPart("prior", 1.0),), 4
        ),
        ranking="product",
    )
    searches = compare_searches(model, documents[:1], documents, [{1}])
    assert (searches.before.mrr, searches.after.mrr) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("relevant", "message"),
    [
        ([{8}], r"relevant\[0\] has 8, but .* 0 to 7"),
        ([{-2}], "numbered from 0 to 7"),
        (["12"], "numbered from 0 to 7"),
        ([[1.0]], "numbered from 0 to 7"),
    ],
)
def test_relevant_documents_are_numbered(relevant, message):
    with pytest.raises(ValueError, match=message):
        compare_searches(swapped(0, 1), QUERIES[:1], DOCUMENTS, relevant)


@pytest.mark.parametrize("leave_out", [3, [0], [0.5, 1.0], [[0], [1]], ["a", "b"]])
def test_one_document_per_query_is_left_out(leave_out):
    with pytest.raises(ValueError, match="one number of a document per query"):
        compare_searches(
            swapped(0, 1), QUERIES[:2], DOCUMENTS, [{2}, {3}], leave_out=leave_out
        )


def test_results_print_as_sentences_and_not_as_arrays():
    model = swapped(0, 1)
    labels = np.arange(8) // 2
    results = [
        compare_searches(model, QUERIES, DOCUMENTS, [{2}, {0}, {4}, {6}]),
        ranking_quality([[1, 2]], [{1}]),
        known_item(model, DOCUMENTS),
        compare_errors(model, DOCUMENTS, labels, n_neighbors=1),
        relevance_triplets(
            QUERIES, DOCUMENTS, {"query": [0], "document": [2], "grade": [1]}
        ),
        graded_triplets({"query": [0, 0], "document": [1, 2], "grade": [1, 2]}),
    ]
    for result in results:
        assert repr(result).startswith(f"<{type(result).__name__}: ")
        assert "array" not in repr(result)
        assert "\n" not in repr(result)
