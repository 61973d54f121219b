"""The learned similarity against dense algebra."""

import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

import reference
import strategies
from hdsl.evaluate.measures import products_between
from hdsl.rows import Rows, unit_rows
from hdsl.similarity import FixedPart, Similarity

FORMS = {"dense": np.asarray, "sparse": sp.csr_array}
HALF = (FixedPart("prior", 0.5),)
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


@st.composite
def cases(draw):
    """A similarity, its dense matrix, and two sets of rows."""
    X = draw(strategies.matrices())
    d = X.shape[1]
    fixed = draw(strategies.fixed_parts(d))
    atoms, weights = draw(strategies.models_beside(fixed, d))
    directions = draw(strategies.directions_beside(fixed, d))
    similarity = Similarity(
        atoms, weights, draw(strategies.SCALES), fixed, d, directions
    )
    Y = X[draw(st.permutations(range(len(X))))][: draw(st.integers(1, len(X)))]
    return similarity, reference.similarity_matrix(similarity), X, Y


def dense(Z):
    if isinstance(Z, Rows):
        Z = Z.to_sparse()
    return Z.toarray() if sp.issparse(Z) else Z


def sparse_parts(fixed):
    """Return whether atoms may name all columns."""
    return fixed[-1].by_feature


def tolerance(S, X, rtol=1e-12):
    """Rounding is relative to the sizes of what is added up."""
    return rtol * np.abs(S).sum() * max(1.0, np.abs(X).max()) ** 2


@given(cases())
def test_matrix_is_the_combination_of_its_atoms(case):
    similarity, S, X, _ = case
    M = S - reference.fixed_matrix(similarity.fixed, len(S))
    M -= reference.embedding_part(similarity)
    tol = tolerance(S, X)
    assert_allclose(similarity.matrix().toarray(), M, atol=tol)
    L = similarity.components
    assert L.shape == (len(similarity.weights), len(S))
    assert_allclose((L.T @ L).toarray(), M, atol=tol)


@forms
@given(case=cases())
def test_every_way_to_score_is_the_same_bilinear_form(form, case):
    similarity, S, X, Y = case
    expected = X @ S @ Y.T
    tol = tolerance(S, X)
    Z = similarity.transform(form(X))
    W = similarity.transform(form(Y))
    assert_allclose(dense(Z) @ dense(W).T, expected, atol=tol)
    assert_allclose(dense(similarity.rewrite(form(X))) @ Y.T, expected, atol=tol)
    assert_allclose(similarity.pairwise(form(X), form(Y)), expected, atol=tol)
    assert_allclose(similarity.pairwise(form(X)), X @ S @ X.T, atol=tol)
    few = X[: len(Y)]
    assert_allclose(
        similarity.pair_score(form(few), form(Y)), np.diag(few @ S @ Y.T), atol=tol
    )


@given(cases(), st.data())
def test_plain_products_serve_several_similarities(case, data):
    similarity, S, X, Y = case
    products = products_between(sp.csr_array(X), sp.csr_array(Y))
    fixed = similarity.fixed
    if fixed[-1].by_feature:
        fixed = data.draw(strategies.fixed_parts(len(S)).filter(sparse_parts))
    for own in (similarity, dataclasses.replace(similarity, fixed=fixed)):
        own_S = reference.similarity_matrix(own)
        assert_allclose(
            products(own),
            X @ own_S @ Y.T,
            rtol=1e-6,
            atol=tolerance(own_S, X, 1e-6),
        )


@given(cases())
def test_one_side_may_be_sparse_and_the_other_dense(case):
    similarity, S, X, Y = case
    for one, other in ((sp.csr_array, np.asarray), (np.asarray, sp.csr_array)):
        score = similarity.pairwise(one(X), other(Y))
        assert isinstance(score, np.ndarray)
        assert_allclose(score, X @ S @ Y.T, atol=tolerance(S, X))
        pairs = similarity.pair_score(one(X), other(X))
        assert_allclose(pairs, np.diag(X @ S @ X.T), atol=tolerance(S, X))


@given(cases())
def test_sparse_and_dense_rows_transform_alike(case):
    similarity, S, X, _ = case
    for method in (similarity.transform, similarity.rewrite):
        assert_allclose(
            dense(method(sp.csr_array(X))), dense(method(X)), atol=tolerance(S, X)
        )


@forms
@given(case=cases())
def test_float32_stays_float32(form, case):
    similarity, S, X, _ = case
    X32 = X.astype(np.float32)
    for method in (similarity.transform, similarity.rewrite, similarity.pairwise):
        answer = method(form(X32))
        assert answer.dtype == np.float32
        tol = tolerance(S, X, rtol=1e-5)
        assert_allclose(dense(answer), dense(method(form(X))), rtol=1e-5, atol=tol)


@given(cases())
def test_transform_puts_components_before_the_fixed_parts(case):
    similarity, S, X, _ = case
    Z = dense(similarity.transform(X))
    k = len(similarity.weights)
    assert_allclose(
        Z[:, :k], X @ similarity.components.toarray().T, atol=tolerance(S, X)
    )
    blocks = [
        np.sqrt(part.weight) * X[:, part.start : part.stop]
        for part in similarity.fixed
        if part.weight > 0
    ]
    if similarity.directions is not None:
        blocks.append(X[:, similarity.n_paired :] @ similarity.directions.T)
    expected = np.hstack([X[:, :0], *blocks])
    assert_allclose(Z[:, k:], expected, rtol=1e-15, atol=tolerance(S, X))


@forms
@given(strategies.matrices(), st.data())
def test_each_fixed_part_compares_its_own_columns_at_unit_length(form, X, data):
    d = X.shape[1]
    parts = data.draw(strategies.fixed_parts(d))
    atoms, weights = data.draw(strategies.models_beside(parts, d))
    fixed = tuple(dataclasses.replace(part, norm="l2") for part in parts)
    similarity = Similarity(atoms, weights, 4.0, fixed, d)
    blocks = [X[:, part.start : part.stop] for part in fixed]
    lengths = [np.linalg.norm(block, axis=1, keepdims=True) for block in blocks]
    unit = np.hstack(
        [
            block / np.where(length > 0, length, 1.0)
            for block, length in zip(blocks, lengths, strict=True)
        ]
    )
    S = reference.similarity_matrix(similarity)
    expected = unit @ S @ unit.T
    tol = tolerance(S, unit)
    rewritten = dense(similarity.rewrite(form(X)))
    assert_allclose(dense(similarity.index_rows(form(X))), unit, atol=1e-15)
    assert_allclose(rewritten @ unit.T, expected, atol=tol)
    assert_allclose(similarity.pairwise(form(X)), expected, atol=tol)
    assert_allclose(
        similarity.pair_score(form(X), form(X)), np.diag(expected), atol=tol
    )


@pytest.mark.parametrize(
    "fixed",
    [
        (),
        (FixedPart("prior", 1.0, stop=2),),
        (FixedPart("prior", 1.0, start=1),),
        (FixedPart("prior", 1.0, stop=2), FixedPart("meaning", 1.0, start=1)),
    ],
)
def test_fixed_parts_that_leave_columns_or_share_some_are_refused(fixed):
    with pytest.raises(ValueError, match="cover 3 columns"):
        Similarity(np.array([[0, 1, 1]]), np.ones(1), 1.0, fixed, 3)


@forms
def test_a_row_without_a_value_that_counts_stays_as_it_is(form):
    X = form(np.array([[0.0, 3.0, 4.0], [2.0, 0.0, 0.0]]))
    for columns in (np.array([0]), np.array([], dtype=np.int64)):
        assert_array_equal(dense(unit_rows(X, columns))[0], [0, 3, 4])


def test_rows_are_left_as_they_were():
    X = np.array([[1.0, 0, 2], [0, 3, 0]])
    similarity = Similarity(np.array([[0, 2, -1]]), np.ones(1), 2.0, HALF, 3)
    for form in FORMS.values():
        given_rows = form(X.copy())
        similarity.transform(given_rows)
        similarity.rewrite(given_rows)
        similarity.pairwise(given_rows)
        assert_array_equal(dense(given_rows), X)


def test_a_similarity_is_a_value():
    similarity = Similarity(np.array([[0, 1, 1]]), np.ones(1), 1.0, HALF, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        similarity.scale = 2.0


@pytest.mark.parametrize("norm", ["l2", None])
def test_rows_of_any_kind_are_the_same_numbers(norm):
    """Integers, bits, other formats, and two entries in one place."""
    X = np.array([[2.0, 0, 1], [0, 3, 1], [1, 1, 0]])
    fixed = (FixedPart("prior", 0.5, norm),)
    similarity = Similarity(np.array([[0, 2, -1]]), np.array([0.3]), 2.0, fixed, 3)
    twice = sp.csr_array((np.full(6, 0.5), [0, 0, 2, 2, 1, 1], [0, 4, 6]), shape=(2, 3))
    for rows, other in [
        (X, X.astype(int)),
        (X, sp.csc_array(X.astype(np.int64))),
        (X, X.tolist()),
        (X > 1, sp.csr_array(X > 1)),
        (twice.toarray(), twice),
    ]:
        rows = np.asarray(rows, dtype=float)
        assert_allclose(
            similarity.pairwise(other), similarity.pairwise(rows), rtol=1e-14
        )
        ours = similarity.rewrite(other), similarity.index_rows(other)
        ours = [part.toarray() if sp.issparse(part) else part for part in ours]
        assert_allclose(ours[0] @ ours[1].T, similarity.pairwise(rows), rtol=1e-14)


def test_what_compiled_code_could_not_bear_is_refused():
    with pytest.raises(ValueError, match="atom"):
        Similarity(np.array([[5, 2, 1]]), np.array([1.0]), 1.0, HALF, 3)
    similarity = Similarity(np.array([[0, 2, 1]]), np.array([1.0]), 1.0, HALF, 3)
    with pytest.raises(ValueError, match="4 columns"):
        similarity.rewrite(np.ones((2, 4)))
    with pytest.raises(ValueError, match="NaN"):
        similarity.transform([[np.nan, 1.0, 2.0]])


def test_it_prints_without_its_arrays():
    similarity = Similarity(np.array([[0, 2, 1]]), np.array([1.0]), 8.0, HALF, 3)
    assert repr(similarity) == "<Similarity: 1 atoms of 3 features, scale 8, prior 0.5>"
