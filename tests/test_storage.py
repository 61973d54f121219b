"""``storage="float32"``: what rounding can change, and what happens to models on the way."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import reference
from hdsl import HDSL, load
from reproduce import theory
from small_fits import T, X, Y, assert_same_model, interrupt_at, small, without_interrupt
from strategies import LOSSES, PRIORS, comparisons, matrices, models, triplet_weights

rng = np.random.default_rng(0)

#: Rows that float32 has to round.
ODD = X * rng.uniform(0.9, 1.1, X.shape)
ROUNDED = ODD.astype(np.float32).astype(np.float64)


# --- the bound -----------------------------------------------------------------------------------


@given(data=st.data())
def test_rounding_stays_within_the_bound(data):
    """Margins, objective, every entry of the gradient, the gap, and the distance to the minimum."""
    rows = data.draw(matrices(elements=st.floats(0.01, 3.0) | st.floats(-3.0, -0.01)))
    compared = data.draw(comparisons(len(rows)))
    weights = data.draw(triplet_weights(len(compared)))
    weights = None if weights is None else np.array(weights)
    model = HDSL(norm=None, loss=data.draw(st.sampled_from(LOSSES)))
    model.atoms_, model.weights_ = data.draw(models(rows.shape[1]))
    model.scale_, model.prior_ = data.draw(st.floats(0.1, 10.0)), data.draw(PRIORS)
    model.norm_, model.columns_, model.n_features_in_ = None, None, rows.shape[1]
    bound = theory.storage_bound(model, rows, compared, sample_weight=weights)
    exact, near = (
        reference.Problem(A, compared, model.loss, model.scale_, model.prior_, weights)
        for A in (rows, rows.astype(np.float32).astype(np.float64))
    )
    own, moved = (of.margins(model.atoms_, model.weights_) for of in (exact, near))
    assert (np.abs(own - moved) <= bound.margins).all()
    assert abs(exact.value(own) - near.value(moved)) <= bound.objective
    assert np.abs(exact.gradient(own) - near.gradient(moved)).max() <= bound.gradient
    gaps = [
        of.best_atom(margins)[0] + np.sum(of.gradient(margins) * M)
        for of, margins in ((exact, own), (near, moved))
        for M in [reference.model_matrix(model.atoms_, model.weights_, of.d, of.scale)]
    ]
    assert abs(gaps[0] - gaps[1]) <= bound.gap


def test_the_bound_is_small_and_not_empty():
    """About 2⁻²³ of the margins, and more than what happens, by less than a thousand times."""
    model = HDSL(max_iter=50).fit(ODD, Y)
    bound = theory.storage_bound(model, ODD, T)
    unit = ODD / np.linalg.norm(ODD, axis=1, keepdims=True)
    unit = sp.csr_array(unit)
    own, moved = (
        reference.Problem(A, T, model.loss, model.scale_, model.prior_).margins(
            model.atoms_, model.weights_
        )
        for A in (unit.toarray(), unit.toarray().astype(np.float32).astype(np.float64))
    )
    change = np.abs(own - moved)
    assert 0 < change.max() <= bound.margins.max() < 1000 * change.max()
    assert bound.objective < 1e-5


def test_the_bound_is_nearly_reached_where_margins_cancel():
    """Two values are rounded apart, so the slope of the loss changes, and the gradient with it."""
    rows = np.array([[1.0, 0.0], [1.0 + 2.0**-24, 0.0], [0.0, 1.0 + 2.0**-24 + 2.0**-30]])
    model = HDSL(norm=None, loss="squared_hinge")
    model.atoms_, model.weights_ = np.array([[0, 1, 1]]), np.ones(1)
    model.scale_, model.prior_ = 1000.0, 0.0
    model.norm_, model.columns_, model.n_features_in_ = None, None, 2
    bound = theory.storage_bound(model, rows, [[0, 1, 2]])
    problems = [
        reference.Problem(A, np.array([[0, 1, 2]]), model.loss, model.scale_)
        for A in (rows, rows.astype(np.float32).astype(np.float64))
    ]
    (m, value, gradient), (near_m, near_value, near_gradient) = (
        (m, of.value(m), of.gradient(m))
        for of in problems
        for m in [of.margins(model.atoms_, model.weights_)]
    )
    parts = (
        (bound.margins[0], m - near_m),
        (bound.objective, value - near_value),
        (bound.gradient, gradient - near_gradient),
    )
    for most, change in parts:
        assert np.abs(change).max() <= most <= 5 * np.abs(change).max()


# --- the fit -------------------------------------------------------------------------------------


def test_float32_learns_from_rounded_rows():
    """Neighbours are mined in float64, so the triplets are those of X."""
    fits = [
        small(storage=storage).fit(A, triplets=T)
        for storage, A in (("float32", ODD), ("float64", ROUNDED), ("float64", ODD))
    ]
    assert_same_model(*fits[:2])
    bound = theory.storage_bound(fits[0], ODD, T)
    of_given = reference.Problem(ODD, T, "smoothed_hinge", 0.3)
    value = of_given.value(of_given.margins(fits[0].atoms_, fits[0].weights_))
    assert 0 < abs(value - fits[0].objective_) <= bound.objective
    assert fits[2].objective_ != fits[0].objective_


def test_values_that_float32_holds_give_the_same_bits():
    for parameters in ({}, {"batch_size": 30}, {"step": "corrective"}):
        one, other = (small(storage=s, **parameters).fit(X, Y) for s in ("float32", "float64"))
        assert_same_model(one, other)
        assert one.objective_ == other.objective_


@pytest.mark.parametrize("size", [1e-39, 1e39])
def test_values_beyond_float32_are_refused(size):
    wide = X.copy()
    wide[0, 0] = size
    with pytest.raises(ValueError, match=r"storage='float32' holds sizes .* storage='float64'"):
        small(storage="float32", scale=1e-90).fit(wide, triplets=T)


def test_other_types_are_refused():
    for storage in ("float16", np.float32, None):
        with pytest.raises(ValueError, match="'storage' parameter of HDSL"):
            HDSL(storage=storage).fit(X, Y)


@pytest.mark.usefixtures("write_each_iteration")
def test_the_storage_is_a_parameter_of_the_model(tmp_path):
    """It is saved; a checkpoint of another storage is refused; a warm start may change it."""
    model = small(storage="float32", max_iter=5).fit(ODD, Y)
    model.save(tmp_path / "model.hdsl")
    assert load(tmp_path / "model.hdsl").storage == "float32"

    path = tmp_path / "run.ckpt"
    begun = small(storage="float32", max_iter=6, checkpoint=path, callback=interrupt_at(3))
    without_interrupt(begun.fit, ODD, Y)
    with pytest.raises(ValueError, match="storage"):
        small(max_iter=6, checkpoint=path).fit(ODD, Y)
    resumed = small(storage="float32", max_iter=6, checkpoint=path).fit(ODD, Y)
    assert_same_model(resumed, small(storage="float32", max_iter=6).fit(ODD, Y))

    model.set_params(storage="float64", warm_start=True).fit(ODD, Y)
    assert model.n_iter_ == 10
    dense = reference.Problem(ODD, T, "smoothed_hinge", 0.3)
    again = small(storage="float64", warm_start=True, max_iter=3).fit(ODD, triplets=T)
    again.set_params(storage="float32").fit(ODD, triplets=T)
    value = dense.value(dense.margins(again.atoms_, again.weights_))
    assert again.objective_ == pytest.approx(value, rel=1e-6)
    assert_array_equal(again.trace_["objective"][:4] >= again.objective_, True)
