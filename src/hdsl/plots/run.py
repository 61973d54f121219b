"""Displays of runs: objective and gap, the size of the model, and what was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .display import ABOVE, COLORS, Display, fitted_run, legend


@dataclass(repr=False)
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
        iterations = np.arange(len(self.trace))
        handles = []
        for name, color in (("objective", COLORS[0]), ("gap", COLORS[1])):
            values = self.trace[name]
            known = values > 0  # a lazy step has no gap, and zero has no logarithm
            marker = None
            if known.sum() == 1:
                marker = "o"
            handles += ax.plot(
                iterations[known], values[known], color=color, lw=1.2, marker=marker
            )
        ax.set(xlabel="iteration", ylabel="objective and gap", yscale="log")
        legend(ax, handles, ["objective", "gap"], ncols=2, **ABOVE)
        return self


@dataclass(repr=False)
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
        if choice is None or "prior" not in choice:
            raise ValueError(
                "No prior was chosen in this fit: use prior='auto' and enough rows."
            )
        return cls(choice).plot(ax)

    def plot(self, ax: Any = None) -> ChoiceDisplay:
        """Draw a point with its standard error per prior, and the cosine as a line."""
        ax = self.start(ax)
        prior = self.choice["prior"]
        score = self.choice["score"]
        is_candidate = np.isfinite(prior) & (self.choice["n_iter"] == 0)
        priors = prior[is_candidate]
        chosen_prior = prior[self.choice["chosen"]][0]
        handles = [
            ax.errorbar(
                priors,
                score[is_candidate],
                self.choice["error"][is_candidate],
                color=COLORS[0],
                marker="o",
            ),
            ax.axhline(score[0], color="0.5", ls="--", lw=1.2),
        ]
        names = ["learned", "cosine"]
        if np.isfinite(chosen_prior):  # else nothing was learned
            handles.append(ax.axvline(chosen_prior, color=COLORS[1], ls=":", lw=1.2))
            names.append("chosen")
        ax.set(xlabel="prior", ylabel="score on held-out data", xscale="log")
        ax.set_xticks(priors, [f"{value:g}" for value in priors])
        ax.set_xticks([], minor=True)
        legend(ax, handles, names, ncols=3, **ABOVE)
        return self


@dataclass(repr=False)
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
