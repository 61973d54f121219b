"""A loss that the user brings: an object with value, derivative and curvature."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import hdsl
from hdsl import HDSL
from hdsl.solver.losses import LOSSES
from small_fits import ORACLES, STEPS, T, X, Y, assert_same_model, small


class Copied:
    """A loss of the user's that computes what a built-in one does."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, Copied) and self.name == other.name

    __hash__ = None

    def value(self, margin):
        return LOSSES[self.name]().value(margin)

    def derivative(self, margin):
        return LOSSES[self.name]().derivative(margin)

    def curvature(self, margin):
        return LOSSES[self.name]().curvature(margin)


class Quadratic:
    """(1 - m)², which punishes margins that are too large too."""

    def value(self, margin):
        return (1.0 - margin) ** 2

    def derivative(self, margin):
        return 2.0 * (margin - 1.0)

    def curvature(self, margin):
        return np.full_like(margin, 2.0)


def assert_nearly_same_model(one, other):
    assert_array_equal(one.atoms_, other.atoms_)
    assert_allclose(one.weights_, other.weights_, rtol=1e-9, atol=1e-9)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("smoothed_hinge", {"step": STEPS[0], "oracle": ORACLES[2]}),
        ("squared_hinge", {"step": STEPS[1], "oracle": ORACLES[0], "prior": 0.1}),
        ("logistic", {"step": STEPS[2], "oracle": ORACLES[1], "batch_size": 30}),
        ("exponential", {"step": STEPS[3], "oracle": ORACLES[2]}),
        ("logistic", {"step": "forward", "n_jobs": 2}),
    ],
)
def test_a_copy_of_a_built_in_loss_learns_the_same(name, parameters):
    weights = np.random.default_rng(0).random(len(X))
    built_in, own = (
        small(loss=loss, **parameters).fit(X, Y, sample_weight=weights)
        for loss in (name, Copied(name))
    )
    assert_nearly_same_model(own, built_in)


def test_a_new_loss_is_minimised():
    model = small(loss=Quadratic(), oracle="exact", max_iter=2000, tol=1e-3).fit(
        X, triplets=T
    )
    assert (model.status_, model.gap_is_exact_) == ("optimal", True)
    assert (np.diff(model.trace_["objective"]) <= 1e-13).all()
    S = model.similarity(X)
    a, p, q = T.T
    assert model.objective_ == pytest.approx(
        np.mean((1 - S[a, p] + S[a, q]) ** 2), rel=1e-10
    )


def changed(**methods):
    """Return a loss whose methods of these names are others; None takes one away."""
    loss = Copied("logistic")
    for name, method in methods.items():
        setattr(loss, name, method)
    return loss


OBJECT = r"The 'loss' parameter of HDSL must be .* or an object with value\(\), derivative\(\)"
FLOATS = r"{}\(\) of the loss must return one finite float per margin. Got "


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (None, OBJECT),
        (object(), OBJECT),
        (changed(curvature=None), OBJECT),
        (LOSSES["logistic"], OBJECT),
        (changed(value=lambda margin: 0.5), FLOATS.format("value")),
        (
            changed(value=lambda margin: np.sign(margin).astype(int)),
            FLOATS.format("value"),
        ),
        (changed(derivative=lambda margin: margin[:1]), FLOATS.format("derivative")),
        (changed(curvature=lambda margin: margin * np.nan), FLOATS.format("curvature")),
        (changed(value=lambda margin: np.multiply(margin, 2, out=margin)), "read-only"),
        (changed(derivative=lambda margin: 1 / (1 + np.exp(-margin))), "falls"),
        (changed(derivative=lambda margin: margin - 9.0), "not that of value"),
        (changed(curvature=lambda margin: -np.ones(len(margin))), "negative"),
    ],
)
def test_objects_that_are_not_losses_are_refused(loss, message):
    model = small().fit(X, Y)
    before = model.weights_.copy()
    with pytest.raises(ValueError, match=message):
        model.set_params(loss=loss).fit(X, Y)
    assert_array_equal(model.weights_, before)


@pytest.mark.parametrize("method", ["value", "derivative", "curvature"])
def test_wrong_answers_during_a_run_are_refused(method):
    right = getattr(Copied("logistic"), method)
    for wrong in (
        lambda margin: right(margin[:2]),
        lambda margin: right(margin) / (margin < 0.6),
    ):
        model = small(loss=changed(**{method: wrong}))
        with (
            np.errstate(divide="ignore"),
            pytest.raises(ValueError, match=FLOATS.format(method)),
        ):
            model.fit(X, Y)
        assert not hasattr(model, "atoms_")


def test_clone_and_pickle_take_the_loss_along():
    model = small(loss=Copied("logistic")).fit(X, Y)
    assert clone(model).loss == model.loss
    assert_same_model(clone(model).fit(X, Y), model)
    stored = pickle.loads(pickle.dumps(model))
    assert stored.loss == model.loss
    assert_same_model(stored.partial_fit(X, Y), model.partial_fit(X, Y))


def test_files_leave_the_loss_out_and_it_takes_its_default(tmp_path):
    model = small(loss=Copied("logistic")).fit(X, Y)
    model.save(tmp_path / "model.hdsl")
    stored = hdsl.load(tmp_path / "model.hdsl")
    assert_same_model(stored, model)
    assert_array_equal(stored.transform(X), model.transform(X))
    assert repr(stored) == repr(clone(model).set_params(loss=HDSL().loss))
    with pytest.raises(ValueError, match="loss"):
        stored.partial_fit(X, Y)
    assert_same_model(
        stored.set_params(loss=model.loss).partial_fit(X, Y), model.partial_fit(X, Y)
    )
