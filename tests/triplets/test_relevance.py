"""Triplets from relevance judgements: which others are drawn, and what they weigh."""

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import normalize

from hdsl.triplets import Judgements, choice_triplets, relevance_triplets

N_QUERIES = 4
N_DOCUMENTS = 12


@st.composite
def qrels(draw):
    """Judgements {(query, document): grade}, one of them above 0."""
    pair = st.tuples(st.integers(0, N_QUERIES - 1), st.integers(0, N_DOCUMENTS - 1))
    grades = draw(
        st.dictionaries(pair, st.sampled_from([-1.0, 0.0, 1.0, 3.0]), max_size=15)
    )
    return grades | {draw(pair): 2.0}


def as_table(grades):
    return {
        "query": [query for query, _ in grades],
        "document": [document for _, document in grades],
        "grade": list(grades.values()),
    }


def rows(n_rows, seed=0):
    """Return random rows of four features."""
    rng = np.random.default_rng(seed)
    return rng.random((n_rows, 4)) * (rng.random((n_rows, 4)) < 0.6)


QUERIES = rows(N_QUERIES, seed=1)
DOCUMENTS = rows(N_DOCUMENTS)


@given(qrels(), st.integers(1, 8), st.sampled_from([0.0, 0.4, 1.0]), st.integers(0, 9))
def test_a_relevant_document_is_compared_with_less_relevant_ones(
    grades, n_others, hard_share, seed
):
    judged = relevance_triplets(
        QUERIES,
        DOCUMENTS,
        as_table(grades),
        n_others=n_others,
        hard_share=hard_share,
        random_state=seed,
    )
    assert isinstance(judged, Judgements)
    np.testing.assert_array_equal(judged.X.toarray()[:N_DOCUMENTS], DOCUMENTS)
    np.testing.assert_array_equal(judged.X.toarray()[N_DOCUMENTS:], QUERIES)
    differences = []
    for anchor, relevant, other in judged.triplets.tolist():
        query = anchor - N_DOCUMENTS
        lower = max(grades.get((query, other), 0.0), 0.0)
        differences.append(grades[query, relevant] - lower)
    assert min(differences) > 0.0
    assert len({*map(tuple, judged.triplets.tolist())}) == len(judged.triplets)
    n_compared = Counter(map(tuple, judged.triplets[:, :2].tolist()))
    assert max(n_compared.values()) <= n_others
    for query in np.unique(judged.triplets[:, 0]):
        of_query = judged.triplets[:, 0] == query
        share = np.array(differences)[of_query]
        weights = judged.weights[of_query]
        np.testing.assert_allclose(weights / weights.sum(), share / share.sum())
    totals = np.bincount(judged.triplets[:, 0], judged.weights)
    np.testing.assert_allclose(totals[totals > 0], totals.max())
    np.testing.assert_allclose(judged.weights.mean(), 1.0)


@given(qrels())
def test_every_other_document_is_drawn_where_as_many_are_wanted(grades):
    table = as_table(grades)
    judged = relevance_triplets(
        QUERIES, DOCUMENTS, table, n_others=50, hard_share=1.0, random_state=0
    )
    expected = {
        (N_DOCUMENTS + query, relevant, other)
        for (query, relevant), grade in grades.items()
        for other in range(N_DOCUMENTS)
        if grade > max(grades.get((query, other), 0.0), 0.0)
    }
    assert {*map(tuple, judged.triplets.tolist())} == expected


def test_hard_documents_are_judged_lower_or_near():
    documents = rows(300, seed=2)
    cosines = normalize(QUERIES[:1]) @ normalize(documents).T
    nearest = np.argsort(-cosines[0])[:63].tolist()
    table = {"query": [0, 0, 0], "document": nearest[:3], "grade": [2, 1, 0]}
    judged = relevance_triplets(
        QUERIES, documents, table, n_others=10, hard_share=0.5, random_state=0
    )
    of_best = judged.triplets[judged.triplets[:, 1] == nearest[0], 2].tolist()
    assert len(of_best) == 10
    assert {nearest[1], nearest[2]} <= {*of_best}
    assert len({*of_best} & {*nearest}) >= 5
    far = relevance_triplets(
        QUERIES, documents, table, n_others=100, hard_share=0.0, random_state=0
    )
    assert len({*far.triplets[:, 2].tolist()} - {*nearest}) > 50


def test_the_same_seed_draws_the_same_others():
    table = {"query": [0, 2], "document": [3, 4]}
    drawn = [
        relevance_triplets(
            QUERIES, DOCUMENTS, table, grade=None, n_others=3, random_state=seed
        ).triplets.tolist()
        for seed in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_highest_of_two_grades_counts():
    table = {"query": [0, 0], "document": [5, 5], "grade": [0, 1]}
    judged = relevance_triplets(QUERIES, DOCUMENTS, table, random_state=0)
    assert {*judged.triplets[:, 1].tolist()} == {5}


def test_documents_that_are_gone_are_left_out_and_counted(tmp_path):
    path = tmp_path / "qrels.tsv"
    lines = [f"q{k % 4}\td{k % 12}\t1" for k in range(30)]
    path.write_text("\n".join(["query\tdocument\tgrade", "q1\told\t1", *lines]) + "\n")
    ids = {
        "query_ids": [f"q{k}" for k in range(N_QUERIES)],
        "document_ids": [f"d{k}" for k in range(N_DOCUMENTS)],
    }
    with pytest.warns(UserWarning, match=r"'old'.*1 of 31 lines are left out"):
        judged = relevance_triplets(QUERIES, DOCUMENTS, path, **ids, random_state=0)
    assert len(judged.triplets) > 30
    with pytest.raises(ValueError, match=r"'old'.*1 of 31 lines.*raise max_unknown"):
        relevance_triplets(QUERIES, DOCUMENTS, path, **ids, max_unknown=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": rows(4)[:, :3]}, r"3 features, but documents have 4"),
        ({"query_ids": ["a"]}, r"query_ids must have one id per row, 4 in all. Got 1"),
        ({"n_others": 0}, r"'n_others' parameter"),
        ({"hard_share": 1.5}, r"'hard_share' parameter"),
        ({"judgements": {"query": [0], "document": [1], "grade": [0]}}, "No triplet"),
        ({"judgements": {"query": [0], "document": [99], "grade": [1]}}, "no row: 99"),
        ({"judgements": {"query": [0], "document": [1]}}, r"no column 'grade'"),
    ],
)
def test_bad_judgements_are_refused(change, message):
    arguments = {
        "queries": QUERIES,
        "documents": DOCUMENTS,
        "judgements": {"query": [0], "document": [1], "grade": [1]},
    }
    with pytest.raises(ValueError, match=message):
        relevance_triplets(**(arguments | change))


# --- clicks ---------------------------------------------------------------------------


def test_anchors_of_clicks_may_be_texts_that_were_typed():
    log = [("red shoe", ["a", "b"], "b"), ("a", ["b", "c"], "c")]
    triplets = choice_triplets(
        log, ids=["a", "b", "c"], queries=["a", "red shoe"]
    ).triplets
    assert triplets.tolist() == [[4, 1, 0], [3, 2, 1]]
    with pytest.raises(ValueError, match="pass ids"):
        choice_triplets(log, queries=["a", "red shoe"])


def test_clicks_on_rows_that_are_gone_are_left_out_and_counted():
    log = [("q", ["a", "b"], "a")] * 20 + [("q", ["a", "gone"], "gone")]
    with pytest.warns(UserWarning, match=r"'gone'.*1 of 42 lines are left out"):
        triplets = choice_triplets(log, ids=["a", "b"], queries=["q"]).triplets
    assert triplets.tolist() == [[2, 0, 1]] * 20
    with pytest.raises(ValueError, match=r"'gone'.*1 of 42 lines.*max_unknown"):
        choice_triplets(log, ids=["a", "b"], queries=["q"], max_unknown=0.02)
    with pytest.raises(ValueError, match=r"'q'"):  # all anchors are unknown
        choice_triplets(log, ids=["a", "b", "gone"])


def test_a_click_weighs_as_much_as_its_rank():
    log = [(0, [1, 2, 3], [2, 3]), (4, [3, 1], 3)]
    triplets, weights = choice_triplets(log, position="rank")
    assert triplets.tolist() == [[0, 2, 1], [0, 3, 1], [4, 3, 1]]
    assert weights.tolist() == [2.0, 3.0, 1.0]
    table = {"event": [0, 0], "query": [0, 0], "document": [1, 2], "clicked": [1, 0]}
    with pytest.raises(ValueError, match="ranks are numbered from 1"):
        choice_triplets(table | {"rank": [0, 1]}, position="rank")


def test_grades_of_any_size_have_a_weight():
    grades = [2, 1, 0, 1]
    tables = [
        {
            "query": [0, 0, 0, 1],
            "document": [0, 1, 2, 3],
            "grade": factor * np.array(grades),
        }
        for factor in (1.0, 8e307)
    ]
    rows = np.eye(6)
    small, huge = (
        relevance_triplets(rows[:2], rows, table, random_state=0) for table in tables
    )
    assert_array_equal(huge.triplets, small.triplets)
    assert_allclose(huge.weights, small.weights)


def test_a_query_of_no_rows_is_said():
    table = {"query": [0], "document": [0], "grade": [1]}
    with pytest.raises(ValueError, match="There are no rows"):
        relevance_triplets(np.empty((0, 3)), np.eye(3), table)
