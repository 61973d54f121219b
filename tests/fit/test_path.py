"""A path that goes on, by a warm start or by partial_fit."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hdsl import HDSL
from pairwise import pairwise
from small_fits import (
    FORMS,
    LEARN,
    STEPS,
    T_VAL,
    X_VAL,
    T,
    X,
    Y,
    any_length,
    assert_same_model,
    assert_whole,
    both_kinds,
    frame,
    interrupt_at,
    small,
    without_interrupt,
)

pytestmark = any_length


@pytest.mark.parametrize(
    ("step", "prior"), [*((step, 0.0) for step in STEPS[:3]), ("blended", 0.1)]
)
def test_a_warm_start_goes_on_where_the_path_ended(step, prior):
    model = small(step=step, prior=prior, max_iter=10, warm_start=True).fit(
        X, triplets=T
    )
    assert_same_model(
        model, small(step=step, prior=prior, max_iter=10).fit(X, triplets=T)
    )
    for k in (2, 3):
        model.fit(X, triplets=T)
        assert model.n_iter_ == len(model.trace_) - 1 == 10 * k
        assert_whole(model)
    assert (np.diff(model.trace_["objective"]) <= 1e-13).all()
    assert (np.diff(model.trace_["seconds"]) >= 0).all()
    once = small(step=step, prior=prior, max_iter=30).fit(X, triplets=T)
    assert model.objective_ == pytest.approx(once.objective_, rel=0.05)
    fresh = model.set_params(warm_start=False, solver__max_iter=30).fit(X, triplets=T)
    assert_same_model(fresh, once)


def test_a_warm_start_with_the_exact_oracle_is_the_same_path():
    model = small(oracle="exact", max_iter=10, warm_start=True)
    model.fit(X, triplets=T).fit(X, triplets=T)
    once = small(oracle="exact", max_iter=20).fit(X, triplets=T)
    assert_array_equal(model.atoms_, once.atoms_)
    assert_allclose(model.weights_, once.weights_, rtol=1e-9)
    for name in (
        "kind",
        "i",
        "j",
        "sign",
        "away_i",
        "away_j",
        "away_sign",
        "drop",
        "n_atoms",
    ):
        assert_array_equal(model.trace_[name], once.trace_[name])


def again(model, how, *args, **kwargs):
    """Continue the path, by a warm start or by partial_fit."""
    if how == "fit":
        return model.set_params(warm_start=True).fit(*args, **kwargs)
    return model.partial_fit(*args, **kwargs)


both_ways = pytest.mark.parametrize("how", ["fit", "partial_fit"])


@both_ways
def test_a_path_has_one_scale_and_one_prior(how):
    model = small(scale="auto", prior="auto", max_iter=10).fit(X, Y)
    used = {"scale": model.scale_, "prior": model.prior_}
    # "auto" would choose others for these rows.
    again(model, how, 4 * X_VAL, triplets=T_VAL)
    assert {"scale": model.scale_, "prior": model.prior_} == used
    assert_whole(model, 4 * X_VAL, T_VAL)
    again(model.set_params(**used), how, X, triplets=T)
    assert model.n_iter_ == 30
    before = pickle.dumps(model)
    for name, value in used.items():
        model.set_params(**{name: 2 * value})
        with pytest.raises(
            ValueError, match=f"The path so far has {name} .* Set {name}={value!r}"
        ):
            again(model, how, X, Y)
        model.set_params(**used)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("how", "oracle", "form"),
    pairwise(["fit", "partial_fit"], ["ascent", "exact", "heuristic"], list(FORMS)),
)
def test_a_path_goes_on_with_new_rows_that_may_lack_features_of_the_atoms(
    how, oracle, form
):
    form = FORMS[form]
    model = small(max_iter=10, oracle=oracle).fit(form(X), triplets=T)
    again(model, how, form(X_VAL), triplets=T_VAL)
    assert (model.n_iter_, model.n_triplets_) == (20, len(T_VAL))
    assert_whole(model, X_VAL, T_VAL)
    assert (np.diff(model.trace_["objective"][10:]) <= 1e-13).all()
    bare = X_VAL.copy()
    bare[:, np.unique(model.atoms_[:, :2])[::2]] = 0.0
    again(model, how, form(bare), triplets=T_VAL)
    assert model.n_iter_ == 30
    assert_whole(model, bare, T_VAL)


@both_ways
def test_a_path_goes_on_with_weights_and_labels(how):
    weights = np.random.default_rng(0).random(len(T))
    model = small(max_iter=10).fit(X, Y)
    again(model, how, X, triplets=T, sample_weight=weights)
    assert_whole(model, weights=weights)
    again(model, how, X, Y)
    assert model.n_iter_ == 30
    assert model.n_triplets_ == small().fit(X, Y).n_triplets_


@both_ways
def test_other_columns_are_refused_and_change_nothing(how):
    model = small(warm_start=True).fit(frame(X), Y)
    before = pickle.dumps(model)
    for rows in (X[:, :5], np.hstack([X, X])):
        with pytest.raises(
            ValueError, match=r"feature names|HDSL is expecting 12 features"
        ):
            again(model, how, frame(rows), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        again(model, how, frame(X).add_suffix("s"), Y)
    assert pickle.dumps(model) == before


@both_ways
def test_interrupt_when_a_path_goes_on_keeps_the_model_so_far(how):
    model = small(max_iter=10).fit(X, triplets=T)
    callback = interrupt_at(14)
    without_interrupt(again, model, how, X, triplets=T, callback=callback)
    assert (model.status_, model.n_iter_) == ("interrupted", 14)
    assert_whole(model)


@both_kinds
def test_partial_fit_starts_with_a_fit_and_then_chooses_nothing(kind):
    model = HDSL(random_state=0)
    expected = HDSL(random_state=0).fit(X, **LEARN[kind])
    assert_same_model(model.partial_fit(X, **LEARN[kind]), expected)
    model.partial_fit(X, **LEARN[kind])
    assert model.n_triplets_ == expected.n_triplets_
    assert (model.scale_, model.prior_) == (expected.scale_, expected.prior_)
