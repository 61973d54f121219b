"""Rows for engines, queries within their limits, and an exact top k from engines of any kind."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from hdsl import HDSL, Solver
from hdsl.search import top_k
from hdsl.serving import (
    certified_top_k,
    limit_weights,
    recall_at,
    sparse_rows,
    to_sparsevec,
)
from small_fits import X as ROWS
from small_fits import Y as LABELS

INTEGERS = st.integers(0, 4).map(float)
WEIGHTS = st.integers(-3, 3).map(float)


class Engine:
    """An honest engine: positive weights only, float32, and only documents that match."""

    def __init__(self, documents, *, dtype=np.float32, all_documents=False, ids=None):
        self.documents = np.asarray(documents).astype(dtype)
        self.all_documents = all_documents
        self.ids = ids
        self.asked = []

    def score(self, indices, values):
        assert all(value > 0 for value in values)
        return self.documents[:, indices] @ np.array(values, dtype=self.documents.dtype)

    def __call__(self, indices, values, m):
        self.asked.append(m)
        scores = self.score(indices, values)
        best = np.argsort(-scores, kind="stable")[:m]
        best = best if self.all_documents else best[scores[best] > 0]
        return best if self.ids is None else [self.ids[b] for b in best], scores[best]


@st.composite
def cases(draw, values=INTEGERS, weights=WEIGHTS):
    n = draw(st.integers(0, 12))
    d = draw(st.integers(1, 5))
    m = draw(st.integers(1, 3))
    return draw(arrays(float, (n, d), elements=values)), draw(
        arrays(float, (m, d), elements=weights)
    )


# --- rows -----------------------------------------------------------------------------


@given(cases(values=WEIGHTS))
def test_sparse_rows_hold_the_rows(case):
    X, _ = case
    d = X.shape[1]
    for rows in (sparse_rows(X), sparse_rows(sp.coo_array(X))):
        for x, (indices, values) in zip(X, rows, strict=True):
            dense = np.zeros(d)
            dense[indices] = values
            assert_array_equal(dense, x)
            assert indices == sorted(indices)
            assert 0.0 not in values
    names = [f"w{j}" for j in range(d)]
    assert sparse_rows(X, names) == [
        {names[j]: value for j, value in enumerate(x) if value} for x in X.tolist()
    ]


def test_names_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="2 names, but X has 1 columns"):
        sparse_rows([[1.0]], ["a", "b"])
    with pytest.raises(ValueError, match="named 'a'"):
        sparse_rows([[1.0, 2.0]], ["a", "a"])
    with pytest.raises(ValueError, match="reshape a single row"):
        sparse_rows([1.0, 2.0])


def parse_sparsevec(text):
    inside, _, d = text[1:].partition("}/")
    row = np.zeros(int(d), dtype=np.float32)
    for entry in filter(None, inside.split(",")):
        index, value = entry.split(":")
        row[int(index) - 1] = np.float32(value)
    return row


@given(arrays(np.float64, (3, 4), elements=st.floats(-1e30, 1e30) | st.just(0.0)))
def test_sparsevec_keeps_every_bit_of_float32(X):
    for x, text in zip(X.astype(np.float32), to_sparsevec(X), strict=True):
        assert_array_equal(parse_sparsevec(text), x)
        assert ":0.0," not in text.replace("}", ",")


def test_sparsevec_has_the_limits_of_pgvector():
    with pytest.raises(ValueError, match="16,001 non-zeros"):
        to_sparsevec(np.ones((1, 16_001)))
    with pytest.warns(
        UserWarning, match="than 1,000 non-zeros.* 1 of 1, with up to 1,001"
    ):
        to_sparsevec(np.ones((1, 1_001)))
    with pytest.raises(ValueError, match=r"X\[0, 1\] is too large for float32"):
        to_sparsevec([[1.0, 1e39]])
    assert to_sparsevec([[1e-60, 0.0]]) == ["{}/2"]  # 0 in float32


# --- limits ---------------------------------------------------------------------------


@given(
    cases(values=WEIGHTS),
    st.booleans(),
    st.none() | st.integers(1, 4),
    st.none() | st.just(2),
)
def test_limits_of_weights(case, nonnegative, max_terms, max_weight):
    Z, _ = case
    limits = {
        "nonnegative": nonnegative,
        "max_terms": max_terms,
        "max_weight": max_weight,
    }
    limited = limit_weights(Z, **limits)
    assert limit_weights(np.array([[2, -4, 1]]), max_weight=2).tolist() == [
        [1.0, -2.0, 0.5]
    ]
    assert_array_equal(limit_weights(sp.csr_array(Z), **limits).toarray(), limited)
    for z, found in zip(Z, limited, strict=True):
        z = np.maximum(z, 0) if nonnegative else z
        if max_terms is not None:
            z = np.where(
                np.isin(
                    np.arange(len(z)), np.argsort(-abs(z), kind="stable")[:max_terms]
                ),
                z,
                0,
            )
        if max_weight is not None and abs(z).max() > max_weight:
            z = z * (max_weight / abs(z).max())
        assert_allclose(found, z, atol=1e-15)
        assert max_weight is None or abs(found).max() <= max_weight


@pytest.fixture(scope="module")
def model():
    return HDSL(prior=2.0, solver=Solver(max_iter=20), random_state=0).fit(ROWS, LABELS)


def test_rewritten_queries_within_limits(model):
    plain = np.asarray(model.rewrite(ROWS))
    assert (plain < 0).any()
    assert_array_equal(model.rewrite(ROWS, nonnegative=True), np.maximum(plain, 0))
    assert (np.count_nonzero(model.rewrite(ROWS, max_terms=3), axis=1) <= 3).all()
    scaled = model.rewrite(ROWS, max_weight=0.1)
    index = model.index_rows(ROWS)
    assert_array_equal(top_k(scaled, index, 5).rows, top_k(plain, index, 5).rows)
    with pytest.raises(ValueError, match="'max_terms' parameter of rewrite"):
        model.rewrite(ROWS, max_terms=0)
    with pytest.raises(ValueError, match="'max_weight' parameter of rewrite"):
        model.rewrite(ROWS, max_weight=-1.0)


def test_limits_are_those_of_features_and_an_embedding_is_kept():
    Z = np.random.default_rng(0).normal(size=(len(LABELS), 3)).astype(np.float32)
    model = HDSL(
        prior=1.0, solver=Solver(max_iter=10), random_state=0, embedding_weight=2.0
    )
    model.fit((ROWS, Z), LABELS)
    queries = model.rewrite((ROWS, Z))
    for limits in ({"max_terms": 2}, {"nonnegative": True}):
        limited = model.rewrite((ROWS, Z), **limits)
        expected = limit_weights(queries.sparse, **limits)
        assert_array_equal(limited.sparse.toarray(), expected.toarray())
        assert_array_equal(limited.dense, queries.dense)
    with pytest.raises(ValueError, match="'max_terms' parameter of rewrite"):
        model.rewrite((ROWS, Z), max_terms=0)


@pytest.mark.parametrize("form", ["pair", "one matrix"])
def test_features_and_embedding_are_scaled_by_the_same_number(form):
    Z = np.random.default_rng(0).normal(size=(len(LABELS), 3)).astype(np.float32)
    rows = (ROWS, Z)
    if form == "one matrix":
        rows = np.hstack([ROWS, Z])
    model = HDSL(
        prior=1.0, solver=Solver(max_iter=10), random_state=0, embedding_weight=2.0
    )
    model.set_params(embedding=3).fit(rows, LABELS)
    index = model.index_rows(rows)
    scaled = model.rewrite(rows, max_weight=0.5)
    words = scaled.sparse.toarray() if form == "pair" else scaled[:, :-3]
    assert np.abs(words).max() == pytest.approx(0.5)
    ranked = top_k(model.rewrite(rows), index, 5)
    assert_array_equal(top_k(scaled, index, 5).rows, ranked.rows)


# --- certified ------------------------------------------------------------------------


def check_exact(found, queries, X, lengths=1.0):
    """The answers are the best by every score that there is, in order."""
    scores = queries @ X.T / lengths
    for q, all_scores in enumerate(scores):
        best = np.sort(all_scores)[::-1][: found.scores.shape[1]]
        size = found.size[q]
        assert size == len(best)
        assert_allclose(found.scores[q, :size], best, rtol=1e-12, atol=1e-12)
        assert_allclose(
            all_scores[found.indices[q, :size].astype(int)],
            best,
            rtol=1e-12,
            atol=1e-12,
        )
        assert len(set(found.indices[q, :size].tolist())) == size
        assert (found.scores[q, size:] == -np.inf).all()


@given(cases(), st.integers(1, 5), st.booleans(), st.sampled_from([None, 5]))
def test_the_top_k_is_exact(case, k, all_documents, max_candidates):
    X, queries = case
    engine = Engine(X, all_documents=all_documents)
    found = certified_top_k(engine, queries, X, k, max_candidates=max_candidates)
    check_exact(found, queries, X)
    assert max(engine.asked, default=0) <= (max_candidates or len(X))


@given(cases(), st.integers(1, 4), st.data())
def test_the_learned_cosine_needs_one_number_per_document(case, k, data):
    X, queries = case
    lengths = data.draw(
        arrays(float, len(X), elements=st.sampled_from([0.5, 1.0, 2.0]))
    )
    found = certified_top_k(Engine(X), queries, X, k, lengths=lengths)
    check_exact(found, queries, X, lengths)


@given(cases(), st.integers(1, 4), st.booleans())
def test_rows_can_be_fetched_by_ids_of_any_type(case, k, with_lengths):
    X, queries = case
    ids = [("document", row) for row in range(len(X))]
    lengths = np.linspace(0.5, 2, len(X)) if with_lengths else np.ones(len(X))
    known = dict(zip(ids, X, strict=True))
    given_lengths = (
        dict(zip(ids, lengths.tolist(), strict=True)) if with_lengths else None
    )

    def fetch(wanted):
        return np.array([known[one] for one in wanted]).reshape(-1, X.shape[1])

    engine = Engine(X, ids=ids)
    found = certified_top_k(engine, queries, fetch, k, lengths=given_lengths)
    scores = queries @ X.T / lengths
    for q, all_scores in enumerate(scores):
        # Only documents that no other can beat are returned: all others score at most
        # 0.
        size = found.size[q]
        best = np.sort(all_scores)[::-1]
        assert_allclose(found.scores[q, :size].astype(float), best[:size], atol=1e-12)
        assert size == k or (best[size:] <= 0).all()
        assert [all_scores[row] for _, row in found.indices[q, :size]] == pytest.approx(
            best[:size]
        )
        assert found.indices[q, size:].tolist() == [None] * (k - size)


def test_max_candidates_limits_what_is_proved():
    X = np.column_stack([np.linspace(1, 0.9, 100), np.linspace(1, 0, 100)])
    queries = np.array([[1.0, -1.0]])  # the best by the positive part are the worst
    found = certified_top_k(
        Engine(X), queries, lambda ids: X[ids], 3, max_candidates=50
    )
    assert found.size.tolist() == [0]
    assert found.n_candidates.tolist() == [50]
    found = certified_top_k(Engine(X), queries, lambda ids: X[ids], 3)
    assert found.indices.tolist() == [[99, 98, 97]]
    assert found.n_candidates.tolist() == [100]


def test_few_candidates_are_enough_where_little_is_negative():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((2000, 300)) < 0.05, rng.random((2000, 300)), 0.0)
    queries = np.where(rng.random((20, 300)) < 0.05, rng.normal(1, 0.5, (20, 300)), 0)
    engine = Engine(X)
    found = certified_top_k(engine, queries, X, 10)
    check_exact(found, queries, X)
    assert np.median(found.n_candidates) <= 20
    assert len(engine.asked) <= 30


# --- engines that do not keep their promises ------------------------------------------

X = np.random.default_rng(1).random((50, 8))
QUERIES = np.random.default_rng(2).normal(size=(4, 8))


def ask(search, rows=X, k=3, **options):
    return certified_top_k(search, QUERIES, rows, k, **options)


def changed(change):
    """Return an engine whose answers are changed."""
    honest = Engine(X, dtype=float)
    return lambda indices, values, m: change(*honest(indices, values, m))


BROKEN = {
    "unsorted": (lambda ids, s: (ids[::-1], s[::-1]), "not sorted, best first"),
    "an id twice": (lambda ids, s: ([ids[0], *ids[:-1]], s), "the id .* twice"),
    "an unknown id": (
        lambda ids, s: ([*ids[:-1], 50], s),
        "returned the id 50, but rows has",
    ),
    "an id of another type": (
        lambda ids, s: ([*ids[:-1], "a"], s),
        "returned the id 'a'",
    ),
    "ids that are lists": (lambda ids, s: ([[one] for one in ids], s), "hashable"),
    "fewer scores": (lambda ids, s: (ids, s[1:]), "per id"),
    "no scores": (lambda ids, s: ids, "two sequences"),
    "NaN": (lambda ids, s: (ids, [*s[:-1], np.nan]), "finite"),
    "inflated scores": (lambda ids, s: (ids, s + 0.01), "the score"),
    "other documents": (
        lambda ids, s: ((ids + 1) % 50, s),
        "other rows or another vocabulary",
    ),
    "the best left out": (lambda ids, s: (ids[1:], s[1:]), "left out row"),
    "none found": (lambda ids, s: ([], []), "left out row"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_engine_that_lies_is_found_out(name):
    change, message = BROKEN[name]
    with pytest.raises(ValueError, match=message):
        ask(changed(change))


def test_a_wrong_score_of_a_document_that_is_known_is_found_out():
    """A low last score would be taken for the bound of all documents that are not returned."""
    honest = Engine(X, dtype=float)
    n_calls = []

    def search(indices, values, m):
        n_calls.append(m)
        ids, scores = honest(indices, values, m)
        if len(n_calls) == 1:
            return ids, scores
        return [*ids[1:], ids[0]], [*scores[1:], 0.0]

    with pytest.raises(ValueError, match="search gives document"):
        certified_top_k(search, QUERIES[[0]], lambda ids: X[ids], 3)
    assert len(n_calls) == 2


def test_negative_documents_are_refused():
    signed = X.copy()
    signed[7, 3] = -0.5
    with pytest.raises(ValueError, match=r"rows\[7, 3\] is -0.5"):
        ask(Engine(X), signed)
    with pytest.raises(ValueError, match=r"rows\(ids\)\[0, 0\] is -1"):
        ask(Engine(X), lambda ids: np.full((len(ids), 8), -1.0))


def test_a_rounding_engine_needs_its_slack():
    step = 1 / 64
    rounded = Engine(np.round(X / step) * step, dtype=float)
    with pytest.raises(ValueError, match="if it rounds, state how much: slack="):
        ask(rounded)
    slack = float(np.abs(QUERIES).sum(axis=1).max() * step / 2)
    found = ask(rounded, slack=slack)
    check_exact(found, QUERIES, X)


@given(cases(values=st.floats(0, 1), weights=st.floats(-1, 1)), st.integers(1, 3))
def test_a_stated_slack_is_enough(case, k):
    X, queries = case
    coarse = Engine(np.round(X * 8) / 8, dtype=float)
    slack = float(np.maximum(queries, 0).sum(axis=1).max(initial=0.0) / 16) + 1e-9
    check_exact(certified_top_k(coarse, queries, X, k, slack=slack), queries, X)


def test_rows_that_do_not_fit_the_ids():
    known = {row: X[row] for row in range(10)}
    with pytest.raises(ValueError, match=r"an id that rows\(ids\) does not know"):
        ask(Engine(X), lambda ids: np.array([known[one] for one in ids]))
    with pytest.raises(ValueError, match=r"returned 1 rows for 6 ids"):
        ask(Engine(X), lambda ids: X[:1])


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (np.zeros(50), "positive finite"),
        (np.ones(49), "49"),
        ({0: 1.0}, "no number for a document"),
        (np.full(50, np.nan), "positive finite"),
    ],
)
def test_lengths_are_checked(lengths, message):
    rows = (lambda ids: X[ids]) if isinstance(lengths, dict) else X
    with pytest.raises(ValueError, match=message):
        ask(Engine(X), rows, lengths=lengths)


def test_an_embedding_is_refused():
    Z = np.ones((len(LABELS), 3))
    model = HDSL(prior=1.0, solver=Solver(max_iter=2), random_state=0).fit(
        (ROWS, Z), LABELS
    )
    queries = model.rewrite((ROWS, Z))
    index = model.index_rows((ROWS, Z))
    for pair in ((queries, index), (queries[0], index), (queries, index[0])):
        with pytest.raises(ValueError, match="does not take an embedding"):
            certified_top_k(Engine(X), *pair, k=1)


# --- recall ---------------------------------------------------------------------------


def test_recall_counts_ties_as_equal():
    index = np.array([[2.0], [1.0], [1.0], [0.5]])
    exact = top_k(np.ones((1, 1)), index, 2)
    assert recall_at([[0, 2]], exact) == 0.5
    assert recall_at([[0, 2]], exact, [[2.0, 1.0]]) == 1.0
    assert recall_at([[0, 3]], exact, [[2.0, 0.5]]) == 0.5
    assert recall_at([[None, -1]], exact, [[-np.inf, -np.inf]]) == 0.0
    assert recall_at([[]], exact) == 0.0
    assert recall_at([[0, 0]], exact) == 0.5  # found once
    with pytest.raises(ValueError, match="2 answers, but 1 exact"):
        recall_at([[0], [1]], exact)
    with pytest.raises(ValueError, match="top_k"):
        recall_at([[0]], exact.rows)
