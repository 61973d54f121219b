"""Fits as tasks of scikit-learn's callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method as it is."""
        return method


if TYPE_CHECKING:
    from .hdsl import HDSL
    from .solver.loop import State
    from .supervision import Supervision


def task_data(supervision: Supervision) -> dict[str, Any]:
    """Return the data of a task, as callbacks take them."""
    weights = supervision.weights
    return {
        "X": supervision.X,
        "y": supervision.y,
        "metadata": {} if weights is None else {"sample_weight": weights},
    }


class Tasks:
    """A fit and its iterations as tasks; does nothing where the model has no callbacks.

    Parameters
    ----------
    model : HDSL
    """

    def __init__(self, model: HDSL) -> None:
        self._model, self._n_left = model, 0
        self._root: Any = None
        self._task: Any = None

    def __enter__(self) -> Tasks:
        return self

    def __exit__(self, *_: Any) -> None:
        _tear_down(self._model)

    def begin(self, supervision: Supervision, n_iter: int) -> None:
        """Begin a fit of at most `n_iter` iterations."""
        self._n_left = n_iter
        if not hasattr(self._model, "_skl_callbacks"):
            return
        self._data = {"estimator": self._model, **task_data(supervision)}
        self._root = self._model._init_callback_context(max_subtasks=self._n_left)
        self._root.call_on_fit_task_begin(**self._data)

    def follow(self, scale: float, prior: float) -> Callable[[State], bool] | None:
        """Return a callback for the solver; None where the model has no callbacks."""
        if self._root is None:
            return None
        self._numbers = {
            "scale_": scale,
            "prior_": prior,
            "norm_": self._model.norm,
            "columns_": None,  # training rows have no others
            "n_features_in_": self._data["X"].shape[1],
            "feature_names_in_": None,  # these rows have no names, even if an earlier fit had
        }
        if self._task is None:
            self._begin_iteration()
        return self._end_iteration

    def _begin_iteration(self) -> None:
        self._task = None
        if self._n_left:
            self._n_left -= 1
            self._task = self._root.subcontext(task_name="iteration")
            self._task.call_on_fit_task_begin(**self._data)

    def _end_iteration(self, state: State) -> bool:
        """End the iteration that led to this state and begin the next; True stops the run."""
        if state.n_iter == 0:
            return False
        stop = self._task.call_on_fit_task_end(
            **self._data,
            reconstruction_attributes=lambda: {
                "atoms_": state.atoms,
                "weights_": state.weights,
                "n_iter_": state.n_iter,
                **self._numbers,
            },
        )
        self._begin_iteration()
        return stop

    def end(self) -> None:
        """End the fit; the model holds what was learned."""
        if self._root is None:
            return
        if self._task is not None:  # it has begun, and the run needs it no more
            self._task.call_on_fit_task_end(estimator=self._model)
        self._root.call_on_fit_task_end(**self._data, reconstruction_attributes=self._numbers)


@with_callbacks
def _tear_down(model: Any) -> None:
    """Do nothing: `with_callbacks` tears down the callbacks after the call."""
