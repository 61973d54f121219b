"""Callbacks: several as one, and those of scikit-learn (SLEP023, from version 1.9 on)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..solver.loop import Callback, State


def all_of(*listeners: Callable[[State], bool | None] | None) -> Callback | None:
    """Return one callback for several; all are called, also when one ends the run."""
    callbacks = [listener for listener in listeners if listener is not None]
    if not callbacks:
        return None

    def call(state: State) -> bool:
        ends = [callback(state) for callback in callbacks]
        return any(ends)

    return call


try:
    from sklearn import callback as sklearn_callback
except ImportError:  # before scikit-learn 1.9
    sklearn_callback = None

Method = TypeVar("Method", bound=Callable[..., Any])

#: What a task is called.
ITERATION = "iteration"


class NoCallbacks:
    """Nothing: scikit-learn has no callbacks before version 1.9."""


TakesCallbacks: Any = NoCallbacks
if sklearn_callback is not None:
    #: ``set_callbacks``, where scikit-learn has it.
    TakesCallbacks = sklearn_callback.CallbackSupportMixin


def with_callbacks(method: Method) -> Method:
    """Return a method after which the callbacks of its estimator are torn down."""
    if sklearn_callback is None:
        return method
    wrapped: Method = sklearn_callback.with_callbacks(method)
    return wrapped


class FitTasks:
    """A fit as a task of scikit-learn's callbacks, and its iterations as tasks below it.

    Parameters
    ----------
    estimator : HDSL
    context : sklearn.callback.CallbackContext
    X, y : object
        As the fit got them.
    """

    def __init__(self, estimator: Any, context: Any, X: Any, y: Any) -> None:
        self._estimator = estimator
        self._context = context
        self._data = {"X": X, "y": y}
        self._iteration: Any = None
        self._attributes_at: Callable[[State], dict[str, Any]] = _nothing
        context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def follow(
        self, attributes_at: Callable[[State], dict[str, Any]]
    ) -> Callable[[State], bool]:
        """Return the callback of a run, of which the fitted attributes at a state are known."""
        self._attributes_at = attributes_at
        return self._begin_iteration

    def _begin_iteration(self, state: State) -> bool:
        """End the iteration before, and begin the next unless a callback stops the run."""
        if self._iteration is not None:
            stops = self._iteration.call_on_fit_task_end(**self._facts(state))
            self._iteration = None
            if stops:
                return True
        self._iteration = self._context.subcontext(task_name=ITERATION)
        self._iteration.call_on_fit_task_begin(**self._facts(state))
        return False

    def _facts(self, state: State) -> dict[str, Any]:
        """Return what callbacks are told of a state; attributes are made where one asks."""
        return {
            "estimator": self._estimator,
            **self._data,
            "metadata": {"n_iter": state.n_iter, "objective": state.objective},
            "reconstruction_attributes": lambda: self._attributes_at(state),
        }

    def end(self) -> None:
        """End the last iteration and the fit, whose estimator is fitted."""
        if self._iteration is not None:
            self._iteration.call_on_fit_task_end(
                estimator=self._estimator, **self._data, reconstruction_attributes={}
            )
        self._context.call_on_fit_task_end(
            estimator=self._estimator, **self._data, reconstruction_attributes={}
        )


def _nothing(state: State) -> dict[str, Any]:
    """Return no attributes: the run has not begun."""
    return {}
