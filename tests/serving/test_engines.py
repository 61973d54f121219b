"""Real engines, started here, give the exact answers of the learned similarity."""

import logging
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.preprocessing import normalize

from benchmarks.engines import ENGINES
from hdsl import HDSL, Solver
from hdsl.search import top_k
from hdsl.serving import certified_top_k, recall_at, sparse_rows

N = 300
K = 10
EXACT = [name for name in ENGINES if name != "postgresql-hnsw"]


@cache
def documents():
    """Rows as of texts, with labels; the first N are indexed, the next ones are queries."""
    rng = np.random.default_rng(0)
    labels = rng.integers(6, size=N + 120)
    share = np.minimum(0.5, 8.0 / (np.arange(800) + 10.0))
    words = rng.random((N + 120, 800)) < share
    own = 100 + 8 * labels[:, None] + rng.integers(8, size=(N + 120, 4))
    words[np.arange(N + 120)[:, None], own] = True
    return sp.csr_array(normalize(words * -np.log(share))), labels


@cache
def model():
    X, y = documents()
    return HDSL(prior=4.0, solver=Solver(max_iter=5), random_state=0).fit(X, y)


@cache
def queries(cosine=False):
    """Rewritten queries, and the same with some signs changed: many negative weights."""
    X, _ = documents()
    learned = sp.csr_array(model().rewrite(X[N : N + 15], cosine=cosine))
    signed = learned.copy()
    signed.data[np.random.default_rng(1).random(signed.nnz) < 0.2] *= -1
    return sp.csr_array(sp.vstack([learned, signed]))


@cache
def index(cosine=False):
    X, _ = documents()
    return sp.csr_array(model().index_rows(X[:N], cosine=cosine))


@pytest.fixture(scope="module", params=EXACT)
def engine(request):
    kind = ENGINES[request.param]
    if kind.missing() is not None:
        pytest.skip(f"{kind.missing()} is not installed: see requirements/engines.txt")
    X, _ = documents()
    with kind(X.shape[1]) as started:
        started.put(range(N), index(), model().lengths(X[:N]))
        started.finish()
        yield started


def all_of(ask, rewritten):
    """Ask for the best of each query: ids, and scores."""
    found = [ask(*query, K) for query in sparse_rows(rewritten)]
    return [ids for ids, _ in found], [scores for _, scores in found]


def test_signed_queries_are_answered_or_refused(engine, caplog):
    assert (queries().data < 0).mean() > 0.05
    if not engine.takes_negatives:
        caplog.set_level(logging.CRITICAL)
        with pytest.raises(Exception, match="non-negative"):
            all_of(engine.search, queries())
        return
    exact = top_k(queries(), index(), K)
    ids, scores = all_of(engine.search, queries())
    assert [len(one) for one in ids] == [K] * len(ids)
    true = [
        (index()[found] @ queries()[[q]].T).toarray().ravel()
        for q, found in enumerate(ids)
    ]
    # Engines compute in float32: documents that differ by less can change places.
    assert_allclose(true, exact.scores, atol=1e-5)
    assert_allclose(scores, exact.scores, atol=1e-5)


def test_the_certified_top_k_is_exact(engine):
    found = certified_top_k(engine.search, queries(), index(), K)
    exact = top_k(queries(), index(), K)
    size = found.size[:, None] > np.arange(K)
    assert (found.size == K).mean() > 0.9
    assert_allclose(found.scores[size], exact.scores[size], atol=1e-12)
    assert (exact.scores[~size] <= 1e-12).all()
    assert recall_at(found.indices, exact, found.scores) == 1.0
    assert np.median(found.n_candidates) <= 4 * K


def test_the_learned_cosine_with_one_number_per_document(engine):
    X, _ = documents()
    exact = top_k(queries(cosine=True), index(cosine=True), K)
    found = certified_top_k(
        engine.search, queries(cosine=True), index(), K, lengths=model().lengths(X[:N])
    )
    assert_allclose(found.scores, exact.scores, atol=1e-12)
    if engine.divides:
        _, scores = all_of(engine.cosine, queries(cosine=True))
        assert_allclose(scores, exact.scores, atol=1e-5)


def test_documents_change_without_a_new_fit(engine):
    X, _ = documents()
    changed = sp.csr_array(model().index_rows(X[: N + 100]))
    # Replaced, added.
    changed = sp.csr_array(sp.vstack([changed[N : N + 10], changed[10 : N + 50]]))
    engine.put(
        [*range(10), *range(N, N + 50)], changed[[*range(10), *range(N, N + 50)]]
    )
    gone = list(range(100, 120))
    engine.remove(gone)
    engine.finish()
    try:
        there = np.setdiff1d(np.arange(N + 50), gone)
        exact = top_k(queries(), changed[there], K)
        found = certified_top_k(engine.search, queries(), lambda ids: changed[ids], K)
        size = found.size[:, None] > np.arange(K)
        assert_allclose(found.scores[size], exact.scores[size], atol=1e-12)
        assert not np.isin(found.indices[size].astype(int), gone).any()
    finally:  # as before
        engine.remove(list(range(N, N + 50)))
        again = [*range(10), *gone]
        engine.put(again, index()[again], model().lengths(X[again]))
        engine.finish()


def test_an_approximate_index_is_measured():
    kind = ENGINES["postgresql-hnsw"]
    if kind.missing() is not None:
        pytest.skip(f"{kind.missing()} is not installed: see requirements/engines.txt")
    with kind(index().shape[1]) as started:
        started.put(range(N), index())
        started.finish()
        exact = top_k(queries(), index(), K)
        ids, scores = all_of(started.search, queries())
        assert 0.8 <= recall_at(ids, exact, np.array(scores) + 1e-5) <= 1.0
