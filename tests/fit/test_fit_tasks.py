"""Callbacks of scikit-learn hear of a fit and its iterations, where it has them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from hdsl import HDSL, Solver
from hdsl.fit import callbacks as fit_tasks
from hdsl.model import SimilarityModel
from hdsl.settings import nested_parameters
from small_fits import labelled_counts

pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks")

X, Y = labelled_counts()


class Listener:
    """A callback that writes down what it hears, and ends the fit after some iterations."""

    def __init__(self, last=None):
        self.last = last
        self.heard = []
        self.n_ended = 0
        self.models = []

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, metadata=None):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(
        self, estimator, context, *, metadata=None, fitted_estimator=None
    ):
        self.heard.append(f"end {context.task_name}")
        self.models.append(fitted_estimator)
        if context.task_name == "fit":
            return False
        self.n_ended += 1
        return self.last is not None and self.n_ended >= self.last


def fit(listener, **parameters):
    """Return a model that is fitted with a callback."""
    model = HDSL(
        **nested_parameters(
            prior=4.0, max_iter=4, tol=0.0, random_state=0, **parameters
        )
    )
    return model.set_callbacks(listener).fit(X, Y)


def test_every_task_that_begins_ends():
    listener = Listener()
    model = fit(listener)
    assert listener.heard[:2] == ["setup", "begin fit"]
    assert listener.heard[-2:] == ["end fit", "teardown"]
    tasks = listener.heard[2:-2]
    assert tasks[::2] == ["begin iteration"] * (len(tasks) // 2)
    assert tasks[1::2] == ["end iteration"] * (len(tasks) // 2)
    assert model.n_iter_ <= listener.n_ended <= model.n_iter_ + 1


def test_a_callback_changes_nothing_and_may_end_the_fit():
    plain = HDSL(prior=4.0, solver=Solver(max_iter=4, tol=0.0), random_state=0).fit(
        X, Y
    )
    assert_array_equal(fit(Listener()).atoms_, plain.atoms_)
    ended = fit(Listener(last=2))
    assert ended.status_ == "callback"
    assert ended.n_iter_ == 2
    assert_array_equal(ended.weights_, plain.at(2).weights_)


def test_a_callback_gets_a_model_that_is_ready_to_use():
    listener = Listener()
    model = fit(listener)
    first = listener.models[0]
    assert_array_equal(first.atoms_, model.at(1).atoms_)
    assert first.similarity(X[:3]).shape == (3, 3)
    assert_array_equal(listener.models[-1].atoms_, model.atoms_)


def test_a_fit_that_fails_tears_its_callbacks_down():
    listener = Listener()
    model = HDSL(solver=Solver(max_iter=-1)).set_callbacks(listener)
    with pytest.raises(ValueError, match="max_iter"):
        model.fit(X, Y)
    assert listener.heard[-1] == "teardown"
    assert not [name for name in vars(model) if "callback_fit" in name]


def test_older_versions_of_scikit_learn_have_none(monkeypatch):
    class Older(fit_tasks.NoCallbacks, SimilarityModel):
        """As HDSL is built before scikit-learn 1.9."""

    assert not hasattr(Older, "set_callbacks")
    monkeypatch.setattr(fit_tasks, "sklearn_callback", None)
    assert fit_tasks.with_callbacks(HDSL.transform) is HDSL.transform


def test_copies_and_grids_take_callbacks():
    listener = Listener()
    model = HDSL(prior=4.0, solver=Solver(max_iter=2), random_state=0).set_callbacks(
        listener
    )
    assert_array_equal(clone(model).fit(X, Y).atoms_, model.fit(X, Y).atoms_)
    grid = GridSearchCV(
        HDSL(solver=Solver(max_iter=2), random_state=0),
        {"prior": [1.0, 4.0]},
        scoring=lambda estimator, rows, labels: float(np.size(estimator.weights_)),
        cv=2,
    )
    assert grid.set_callbacks(Listener()).fit(X, Y).best_estimator_.n_iter_ == 2
