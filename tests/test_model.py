"""What a fit learned: scores that agree, the trace, and every model on the way."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import reference
from pairwise import pairwise
from small_fits import STEPS, D, N, T, X, assert_same_model, assert_whole, dense, small

# --- what was learned -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "dtype", "prior"),
    pairwise(
        [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array],
        [np.float64, np.float32],
        [0.0, 0.3],
    ),
)
def test_all_ways_to_score_agree_and_have_the_kind_of_the_input(form, dtype, prior):
    model = small(prior=prior).fit(form(X.astype(dtype)), triplets=T)
    A = X[:9]
    B = X[9:18]
    expected = prior * A @ B.T + A @ model.matrix().toarray() @ B.T
    A = form(A.astype(dtype))
    B = form(B.astype(dtype))
    for method in (model.transform, model.rewrite):
        answer = method(A)
        assert sp.issparse(answer) == sp.issparse(A)
        assert not sp.issparse(answer) or answer.format == "csr"
        assert answer.dtype == dtype
    assert model.similarity(A).dtype == model.pair_score(A, B).dtype == dtype
    assert isinstance(model.similarity(A), np.ndarray)
    near = (
        {"rtol": 1e-12, "atol": 1e-12}
        if dtype == np.float64
        else {"rtol": 1e-5, "atol": 1e-4}
    )
    assert_allclose(
        dense(model.transform(A)) @ dense(model.transform(B)).T, expected, **near
    )
    assert_allclose(dense(model.rewrite(A) @ B.T), expected, **near)
    assert_allclose(model.similarity(A, B), expected, **near)
    assert_allclose(model.similarity(A), model.similarity(A, A), **near)
    assert_allclose(model.pair_score(A, B), np.diag(expected), **near)


@pytest.mark.parametrize("step", STEPS)
def test_what_a_fit_promises(step):
    model = small(step=step, scale=7.0).fit(X, triplets=T)
    assert_whole(model)
    i, j, sign = model.atoms_.T
    assert model.atoms_.dtype == np.int64
    assert (i < j).all()
    assert set(sign) <= {-1, 1}
    assert 3 not in model.atoms_[:, :2]  # the empty column
    assert len(np.unique(model.atoms_, axis=0)) == len(model.atoms_)
    assert (model.scale_, model.prior_) == (7.0, 0.0)
    assert (model.n_features_in_, model.n_triplets_) == (D, len(T))
    M = model.matrix()
    L = model.components_
    assert sp.issparse(M)
    assert_allclose(M.trace(), 2 * 7.0, rtol=1e-12)
    M = M.toarray()
    assert_allclose(M, reference.model_matrix(model.atoms_, model.weights_, D, 7.0))
    assert reference.is_psd(M)
    assert L.shape == (len(model.weights_), D)
    assert_allclose((L.T @ L).toarray(), M, rtol=1e-12, atol=1e-12)
    assert_allclose(model.transform(X), X @ L.toarray().T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("step", STEPS)
def test_the_trace_is_the_path(step):
    pandas = pytest.importorskip("pandas")
    model = small(step=step).fit(X, triplets=T)
    trace = pandas.DataFrame(model.trace_)
    assert len(trace) == model.n_iter_ + 1
    assert {"gap", "kind", "step_size", "i", "j", "sign"} <= set(trace.columns)
    assert trace["objective"].iloc[-1] == pytest.approx(model.objective_, abs=1e-12)
    assert (trace["objective"].diff().dropna() <= 1e-15).all()
    assert (trace["seconds"].diff().dropna() >= 0).all()
    for k in range(model.n_iter_ + 1):
        early = model.at(k)
        assert trace["n_atoms"][k] == len(early.weights_)
        assert trace["n_features"][k] == len(np.unique(early.atoms_[:, :2]))


# --- every model on the way -----------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "oracle"),
    [
        ("forward", "exact"),
        ("away", "ascent"),
        ("pairwise", "heuristic"),
        ("blended", "exact"),
    ],
)
def test_at_is_the_run_that_stopped_there(step, oracle):
    whole = small(step=step, oracle=oracle).fit(X, triplets=T)
    assert whole.n_iter_ == 25
    for k in (1, 2, 3, 7, 12, 24, 25):
        early = whole.at(k)
        replayed = small(step=step, oracle=oracle, max_iter=k)
        replayed.fit(X, triplets=T)
        assert_array_equal(early.atoms_, replayed.atoms_)
        assert_allclose(early.weights_, replayed.weights_, rtol=0, atol=1e-12)
        assert early.objective_ == pytest.approx(replayed.objective_, abs=1e-12)
        assert early.n_iter_ == replayed.n_iter_ == k
        assert len(early.trace_) == k + 1


def test_at_is_a_separate_model():
    model = small(prior=0.2).fit(X, triplets=T)
    before = model.weights_.copy()
    assert model.at(0).weights_.tolist() == [1.0]
    assert_allclose(model.at(25).transform(X), model.transform(X), atol=1e-10)
    early = model.at(np.int64(6))
    assert early.transform(X).shape == (N, len(early.weights_) + D)
    assert len(early.get_feature_names_out()) == len(early.weights_) + D
    assert_same_model(early.at(3), model.at(3))
    early.weights_[:] = 0
    assert_array_equal(model.weights_, before)
    assert (model.n_iter_, model.status_, early.status_) == (25, "max_iter", "at")


def test_at_refuses_an_iteration_that_is_not_on_the_path():
    model = small().fit(X, triplets=T)
    for k in (-1, 26, 1.0, 1.5, "3", None, True, np.nan):
        with pytest.raises(ValueError, match=r"n_iter.*< 26.*[Gg]ot"):
            model.at(k)
