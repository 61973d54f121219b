"""Embeddings that nothing can be learned with are refused by name."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from hdsl import HDSL, Solver
from hdsl.evaluate import compare_errors, knn_error
from hdsl.search import above, top_k

RNG = np.random.default_rng(0)
Y = np.arange(30) % 2
X = sp.csr_array(np.eye(6)[2 + RNG.integers(4, size=30)] + np.eye(6)[Y])
Z = RNG.normal(size=(30, 3)) + Y[:, None]


@pytest.fixture(scope="module")
def model():
    return HDSL(solver=Solver(max_iter=2), random_state=0).fit((X, Z), Y)


def changed(value):
    huge = Z.copy()
    huge[4, 1] = value
    return huge


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((X, changed(1e308)), r"embedding is 1e\+308"),
        ((X, changed(-1e200)), r"embedding is 1e\+200"),
        ((X, Z[:, 0]), r"X is a pair .* must have shape"),
        ((X, Z[:, :, None]), r"X is a pair .* must have shape"),
        ([X, Z], "tuple of two"),
        ((X, Z, Z), "tuple of two"),
    ],
)
def test_what_no_embedding_is_is_named(rows, message):
    with pytest.raises(ValueError, match=message):
        HDSL(solver=Solver(max_iter=2)).fit(rows, Y)


def test_columns_of_X_are_no_larger_as_an_embedding():
    rows = np.hstack([X.toarray(), changed(1e308)])
    with pytest.raises(ValueError, match=r"embedding is 1e\+308"):
        HDSL(solver=Solver(max_iter=2), embedding=3).fit(rows, Y)


def test_a_weight_leaves_the_embedding_finite():
    with pytest.raises(ValueError, match="embedding_weight"):
        HDSL(solver=Solver(max_iter=2), embedding_weight=1e300).fit((X, Z), Y)


def test_an_embedding_may_be_a_list(model):
    listed = HDSL(solver=Solver(max_iter=2), random_state=0).fit((X, Z.tolist()), Y)
    assert_allclose(listed.similarity((X, Z)), model.similarity((X, Z)))


def test_all_above_a_threshold_with_an_embedding(model):
    rows = model.transform((X, Z), cosine=True)
    products = (rows.sparse @ rows.sparse.T).toarray() + rows.dense @ rows.dense.T
    answer = above(rows, rows, 0.5).toarray()
    assert_allclose(answer, np.where(products >= 0.5, products, 0.0), atol=1e-12)


def test_errors_need_a_test_row(model):
    for rows in ((X[:0], Z[:0]),):
        with pytest.raises(ValueError, match="no rows"):
            knn_error(model, (X, Z), Y, rows, Y[:0])
        with pytest.raises(ValueError, match="no rows"):
            compare_errors(model, (X, Z), Y, rows, Y[:0])


def test_importance_needs_a_row(model):
    with pytest.raises(ValueError, match="no rows"):
        model.importance((X[:0], Z[:0]))


def test_sums_of_an_embedding_do_not_overflow():
    rows = X, changed(1e30).astype(np.float32)
    with pytest.raises(ValueError, match="overflow"):
        top_k(rows, rows, 2)
    scores = top_k((X, changed(1e30)), (X, changed(1e30)), 1).scores
    assert scores.max() == pytest.approx(1e60)
