"""The memory of judged queries is chosen by queries that search as if they were new."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from hdsl.evaluate import ranking_quality, remember
from hdsl.evaluate.query_memory import POWERS, SHARES

N_TOPICS = 6


def topics(n_queries=40, n_documents=120, seed=0):
    """Return queries and documents that share words with their topic, and what is relevant.

    Documents share few words with queries, so that known queries of a topic help.
    """
    rng = np.random.default_rng(seed)
    of_queries = rng.integers(N_TOPICS, size=n_queries)
    of_documents = rng.integers(N_TOPICS, size=n_documents)
    Q = 0.3 * rng.random((n_queries, 12)) + np.eye(12)[of_queries]
    D = rng.random((n_documents, 12)) + 0.2 * np.eye(12)[of_documents]
    relevant = [
        set(np.flatnonzero(of_documents == topic).tolist()) for topic in of_queries
    ]
    return Q, D, relevant


def grades_of(relevant, n_documents):
    """Return collections of documents as a matrix of grades."""
    grades = np.zeros((len(relevant), n_documents))
    for query, documents in enumerate(relevant):
        grades[query, list(documents)] = 1.0
    return grades


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@given(st.integers(0, 2**16))
def test_what_was_tried_is_what_all_documents_sorted_say(seed):
    rng = np.random.default_rng(seed)
    Q = rng.normal(size=(9, 5))
    D = rng.normal(size=(25, 5))
    relevant = [set(rng.choice(25, rng.integers(1, 5)).tolist()) for _ in range(9)]
    memory = remember(Q, D, relevant)
    expected = reference.tried_memories(
        unit(Q) @ unit(D).T,
        unit(Q) @ unit(Q).T,
        grades_of(relevant, 25),
        SHARES,
        POWERS,
    )
    columns = [memory.choice[name] for name in ("share", "power", "weight", "ndcg")]
    assert_allclose(np.column_stack(columns), expected, atol=1e-9)


def test_known_queries_help_new_ones():
    Q, D, relevant = topics()
    known = np.arange(40) < 30
    memory = remember(Q[known], D, [relevant[k] for k in np.flatnonzero(known)])
    assert memory.weight > 0.0
    found = memory.top_k(unit(Q[~known]), unit(D), Q[~known], 10).rows
    plain = np.argsort(-(unit(Q[~known]) @ unit(D).T), axis=1)[:, :10]
    hits = [
        sum(row in relevant[query] for row in rows.tolist())
        for query, rows in zip(np.flatnonzero(~known), found, strict=True)
    ]
    plain_hits = [
        sum(row in relevant[query] for row in rows.tolist())
        for query, rows in zip(np.flatnonzero(~known), plain, strict=True)
    ]
    assert sum(hits) > 1.5 * sum(plain_hits)


def test_no_gain_is_claimed_where_there_is_no_pattern():
    n_claimed = 0
    changes = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Q = unit(rng.normal(size=(90, 20)))
        D = unit(rng.normal(size=(400, 20)))
        relevant = [set(rng.choice(400, 4).tolist()) for _ in range(90)]
        memory = remember(Q[:60], D, relevant[:60])
        chosen = int(np.argmax(memory.choice["chosen"]))
        n_claimed += memory.choice["gain_low"][chosen] > 0.0
        found = memory.top_k(Q[60:], D, Q[60:], 10).rows
        plain = np.argsort(-(Q[60:] @ D.T), axis=1)[:, :10]
        changes.append(
            ranking_quality(found, relevant[60:]).ndcg
            - ranking_quality(plain, relevant[60:]).ndcg
        )
    assert n_claimed <= 1
    assert abs(np.mean(changes)) < 0.01


def test_one_known_query_shows_nothing():
    memory = remember(np.eye(3)[:1], np.eye(3), [{1}])
    assert memory.weight == 0.0
    assert not memory.scores(np.eye(3)).nnz


def test_equal_queries_do_not_help_each_other():
    Q = np.repeat(np.eye(5), 2, axis=0)
    memory = remember(Q, np.ones((8, 5)), [{k // 2} for k in range(10)])
    assert memory.weight == 0.0


def test_the_order_of_documents_and_columns_changes_nothing():
    Q, D, relevant = topics(seed=3)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(D))
    columns = rng.permutation(Q.shape[1])
    new_number = np.argsort(rows)
    moved = [{int(new_number[d]) for d in documents} for documents in relevant]
    memory = remember(Q, D, relevant)
    other = remember(sp.csr_array(Q[:, columns]), D[rows][:, columns], moved)
    assert other.power == memory.power
    assert other.weight == pytest.approx(memory.weight)
