"""Displays of runs: objective and gap, the size of the model, what was chosen, and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .display import ABOVE, COLORS, MARKERS, Display, fitted_run, legend


@dataclass
class TraceDisplay(Display):
    """Objective and gap along a run.

    Parameters
    ----------
    trace : structured ndarray
        ``model.trace_``: objective and gap by iteration.
    """

    trace: np.ndarray

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> TraceDisplay:
        """Draw the run of a fitted model."""
        return cls(fitted_run(estimator).trace_).plot(ax)

    def plot(self, ax: Any = None) -> TraceDisplay:
        """Draw objective and gap on a logarithmic axis."""
        ax = self.start(ax)
        iterations, handles = np.arange(len(self.trace)), []
        for name, color in (("objective", COLORS[0]), ("gap", COLORS[1])):
            values = self.trace[name]
            known = values > 0  # a lazy step has no gap, and zero has no logarithm
            handles += ax.plot(iterations[known], values[known], color=color, lw=1.2)
        ax.set(xlabel="iteration", ylabel="objective and gap", yscale="log")
        legend(ax, handles, ["objective", "gap"], ncols=2, **ABOVE)
        return self


@dataclass
class ChoiceDisplay(Display):
    """Scores on held-out data by prior.

    Parameters
    ----------
    choice : dict of str to ndarray
        ``model.choice_``: prior, score and its standard error, and which was chosen.
    """

    choice: dict[str, np.ndarray]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> ChoiceDisplay:
        """Draw what a fitted model was chosen from."""
        choice = fitted_run(estimator).choice_
        if choice is None:
            raise ValueError("Nothing was chosen in this fit: use prior='auto' and enough rows.")
        return cls(choice).plot(ax)

    def plot(self, ax: Any = None) -> ChoiceDisplay:
        """Draw a point with its standard error per prior, and the cosine as a line."""
        ax = self.start(ax)
        prior, n_iter, score, error, _, chosen = self.choice.values()
        tried = np.isfinite(prior) & (n_iter == 0)
        handles = [
            ax.errorbar(prior[tried], score[tried], error[tried], color=COLORS[0], marker="o"),
            ax.axhline(score[0], color="0.5", ls="--", lw=1.2),
            ax.axvline(prior[chosen][0], color=COLORS[1], ls=":", lw=1.2),
        ]
        ax.set(xlabel="prior", ylabel="score on held-out data", xscale="log")
        legend(ax, handles, ["learned", "cosine", "chosen"], ncols=3, **ABOVE)
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
        """Draw the path of a fitted model."""
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


@dataclass
class ErrorDisplay(Display):
    """Error of methods against the number of dimensions they use.

    Parameters
    ----------
    curves : dict of str to tuple
        By name of the method: dimensions, errors, and optionally the spread of the errors, each an
        array-like of shape (n_points,).
    """

    curves: Mapping[str, Sequence[Any]]

    @classmethod
    def from_curves(cls, curves: Mapping[str, Sequence[Any]], *, ax: Any = None) -> ErrorDisplay:
        """Draw curves that were measured."""
        return cls(curves).plot(ax)

    def plot(self, ax: Any = None) -> ErrorDisplay:
        """Draw one line per method; a band is the spread."""
        ax = self.start(ax)
        handles = []
        for k, (dimensions, errors, *spread) in enumerate(self.curves.values()):
            color = COLORS[k % len(COLORS)]
            handles += ax.plot(
                dimensions, errors, color=color, marker=MARKERS[k % len(MARKERS)], ms=4, lw=1.5
            )
            if spread:
                low, high = np.subtract(errors, spread[0]), np.add(errors, spread[0])
                ax.fill_between(dimensions, low, high, color=color, alpha=0.2, lw=0)
        ax.set(xscale="log", xlabel="number of dimensions", ylabel="error")
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        legend(ax, handles, list(self.curves))
        return self
