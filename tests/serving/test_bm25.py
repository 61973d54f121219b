"""BM25 weights are those of full-text engines."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

import reference
from benchmarks.engines import Tantivy
from hdsl import HDSL, Solver
from hdsl.serving import BM25Transformer, certified_top_k, sparse_rows
from sklearn_checks import every_check


@every_check(BM25Transformer())
def test_scikit_learn_checks(estimator, check):
    check(estimator)


COUNTS = arrays(
    np.int64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.sampled_from([0, 0, 1, 2, 30, 1000]),
)


@given(
    COUNTS,
    st.sampled_from([0.0, 1.2, 2.0]),
    st.sampled_from([0.0, 0.75, 1.0]),
    st.sampled_from(["exact", "lucene"]),
    st.booleans(),
)
def test_weights_are_those_of_the_formula(counts, k1, b, lengths, new):
    fitted = counts[: max(1, len(counts) // 2)] if new else counts
    transformer = BM25Transformer(k1, b, lengths).fit(fitted)
    expected = reference.bm25(counts, fitted, k1, b, lengths)
    assert_allclose(transformer.transform(counts), expected, rtol=1e-12)
    found = transformer.transform(sp.csr_matrix(counts))
    assert sp.issparse(found)
    assert_allclose(found.toarray(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"k1": -1.0}, "k1"), ({"b": 1.5}, "1.5"), ({"lengths": "byte"}, "lengths")],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        BM25Transformer(**parameters).fit([[1, 2]])


# --- an engine ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts():
    """Documents of 5 to 200 words, of two classes that share some."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    frequency = rng.pareto(1.0, (2, 60)) + 0.05
    frequency[:, :30] = frequency[0, :30]
    frequency /= frequency.sum(axis=1, keepdims=True)
    X = [rng.multinomial(rng.integers(5, 200), frequency[label]) for label in y]
    return sp.csr_array(np.array(X, dtype=float)), y


def test_scores_are_those_of_an_engine(counts):
    if Tantivy.missing() is not None:
        pytest.skip("tantivy is not installed: see requirements/engines.txt")
    X, y = counts
    transformer = BM25Transformer(lengths="lucene").fit(X)
    weights = sp.csr_array(transformer.transform(X))
    model = HDSL(norm=None, solver=Solver(max_iter=30), random_state=0, scale=10.0)
    with pytest.warns(UserWarning, match="length"):
        model.fit(weights, y)
    queries = sp.csr_array(model.rewrite(weights[:20]))
    assert (queries.data < 0).any()
    with Tantivy(X.shape[1]) as engine:
        engine.put(range(200), X)
        engine.finish()
        ids, scores = engine.search([3, 5], [1.0, 2.5], 200)
        boosts = np.zeros(60)
        boosts[[3, 5]] = 1.0, 2.5
        assert_allclose(scores, (weights @ boosts)[ids], rtol=1e-5)
        assert np.count_nonzero(weights @ boosts) == len(ids)
        # Boosts are float32, and so is each part of the formula.
        slack = 1e-5 * float(np.abs(queries @ weights.T).max())
        found = certified_top_k(engine.search, queries, weights, 10, slack=slack)
    best = -np.sort(-(queries @ weights.T).toarray(), axis=1)[:, :10]
    assert_allclose(found.scores, best, rtol=1e-12)
    assert [len(row) for row, _ in sparse_rows(queries)] == np.diff(
        queries.indptr
    ).tolist()
