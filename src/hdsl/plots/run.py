"""Displays of a run: objective, gap and scores, and the size of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .display import ABOVE, COLORS, Display, fitted_run, legend


@dataclass
class TraceDisplay(Display):
    """Objective, gap and validation score along a run.

    Parameters
    ----------
    trace : structured ndarray
        ``model.trace_``: objective, gap and validation_score by iteration.
    n_iter : int, default=None
        Iteration to mark: that of the fitted model.
    """

    trace: np.ndarray
    n_iter: int | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> TraceDisplay:
        """Draw the run of a fitted HDSL or HDSLCV."""
        run = fitted_run(estimator)
        return cls(run.trace_, run.n_iter_).plot(ax)

    def plot(self, ax: Any = None) -> TraceDisplay:
        """Draw objective and gap on a logarithmic axis, and scores, if any, on a right one."""
        ax = self.start(ax)
        iterations = np.arange(len(self.trace))
        handles, labels = [], []
        for name, color in (("objective", COLORS[0]), ("gap", COLORS[1])):
            values = self.trace[name]
            known = values > 0  # a lazy step has no gap, and zero has no logarithm
            handles += ax.plot(iterations[known], values[known], color=color, lw=1.2)
            labels.append(name)
        ax.set(xlabel="iteration", ylabel="objective and gap", yscale="log")
        scores = self.trace["validation_score"]
        known = ~np.isnan(scores)
        if known.any():
            right = ax.twinx()
            right.set_ylabel("validation score")
            handles += right.plot(
                iterations[known], scores[known], color=COLORS[2], marker=".", lw=1.2
            )
            labels.append("validation score (right)")
        if self.n_iter is not None and self.n_iter != len(self.trace) - 1:
            handles.append(ax.axvline(self.n_iter, color="0.5", ls=":", lw=1.2))
            labels.append(f"the fitted model, {self.n_iter} iterations")
        legend(ax, handles, labels, ncols=2, **ABOVE)
        return self


@dataclass
class PathDisplay(Display):
    """Numbers of atoms and of their features along a run.

    Parameters
    ----------
    n_atoms, n_features : ndarray of shape (n_iterations,)
    """

    n_atoms: np.ndarray
    n_features: np.ndarray

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> PathDisplay:
        """Draw the path of a fitted HDSL or HDSLCV."""
        trace = fitted_run(estimator).trace_
        return cls(trace["n_atoms"], trace["n_features"]).plot(ax)

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw both counts by iteration."""
        ax = self.start(ax)
        handles = ax.plot(self.n_features, color=COLORS[0], lw=1.5)
        handles += ax.plot(self.n_atoms, color=COLORS[1], lw=1.5, ls="--")
        ax.set(xlabel="iteration", ylabel="number in the model")
        ax.set_ylim(bottom=0)
        legend(ax, handles, ["features", "atoms"])
        return self
