"""The transform of a given rank."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

import reference
from hdsl import SimilarityKNeighborsClassifier
from pairwise import pairwise
from small_fits import FORMS, X_VAL, D, N, T, X, Y, any_length, frame, small

pytestmark = any_length


def best_of_rank(M, r):
    """Return the best approximation of M of rank r."""
    values, vectors = np.linalg.eigh(M)
    values[: max(len(M) - r, 0)] = 0.0
    return vectors * values @ vectors.T


@pytest.mark.parametrize(("form", "prior"), pairwise(list(FORMS), [0.0, 0.3]))
def test_transform_is_the_best_approximation_of_its_rank(form, prior):
    form = FORMS[form]
    model = small(prior=prior).fit(X, triplets=T)
    exact, M = model.similarity(X), model.matrix().toarray()
    rank = np.linalg.matrix_rank(M)
    close = {"rtol": 1e-4, "atol": 1e-4} if form(X).dtype == np.float32 else {"atol": 1e-10}
    for r in range(1, D + 3):
        Z = model.set_params(n_components=r).transform(form(X))
        assert Z.dtype == form(X).dtype
        names = model.get_feature_names_out().tolist()
        learned = [name for name in names if name.startswith("hdsl")]
        assert learned == [f"hdsl{k}" for k in range(len(learned))]
        assert min(r, rank) <= len(learned) <= r
        assert names[len(learned) :] == ([f"x{i}" for i in range(D)] if prior else [])
        assert Z.shape == (N, len(names))
        Z = Z.toarray() if sp.issparse(Z) else Z
        expected = X @ (best_of_rank(M, r) + prior * np.eye(D)) @ X.T
        assert_allclose(Z @ Z.T, expected, **close)
        assert_array_equal(model.similarity(X), exact)  # rank is of the transform alone
    assert_allclose(expected, exact, atol=1e-10)  # all ranks


def test_leading_directions_come_first_with_a_fixed_sign():
    model = small(n_components=D).fit(X, triplets=T)
    features, directions = model.similarity_.directions(4)
    lengths = (directions**2).sum(axis=0)
    assert_allclose(lengths, np.linalg.eigvalsh(model.matrix().toarray())[::-1][:4], atol=1e-10)
    assert (directions[np.abs(directions).argmax(axis=0), np.arange(4)] > 0).all()
    assert_array_equal(features, np.unique(model.atoms_[:, :2]))
    fewer = model.similarity_.directions(2)[1]
    assert_allclose(fewer, directions[:, :2], atol=1e-10)


@pytest.mark.parametrize(
    ("form", "prior", "r"), [(np.asarray, 0.3, 1), (sp.csr_array, 0.0, 3), (sp.csr_array, 0.3, D)]
)
def test_rank_in_a_pipeline(form, prior, r):
    model = small(prior=prior, n_components=r)
    pipeline = make_pipeline(model, SimilarityKNeighborsClassifier(3)).fit(form(X), Y)
    S = best_of_rank(pipeline[0].matrix().toarray(), r) + prior * np.eye(D)
    _, rows = reference.top_k(X_VAL @ S, X, 3)
    votes = [reference.vote(Y[own].tolist(), [1.0] * 3)[1] for own in rows]
    assert pipeline.predict(form(X_VAL)).tolist() == votes


def test_rank_with_named_columns():
    model = small(n_components=2, prior=0.1).set_output(transform="pandas").fit(frame(X), Y)
    columns = model.transform(frame(X)).columns.tolist()
    assert columns == ["hdsl0", "hdsl1", *(f"word{i}" for i in range(D))]
