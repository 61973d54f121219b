"""The scores of a grid of runs by prior, scale, iteration and fold, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .monitor import Estimate

if TYPE_CHECKING:
    from .hdsl import HDSL


class Unfinished(RuntimeError):  # noqa: N818 - it is a RuntimeError by its base
    """A grid that was interrupted before any fold was finished.

    Parameters
    ----------
    n_finished, n_runs : int
    surface : Surface
        The scores of the finished runs.
    """

    def __init__(self, n_finished: int, n_runs: int, surface: Surface) -> None:
        super().__init__(n_finished, n_runs, surface)  # for pickle
        self.n_finished, self.n_runs, self.surface = n_finished, n_runs, surface

    def __str__(self) -> str:
        return (
            f"HDSLCV was interrupted after {self.n_finished} of {self.n_runs} runs, before any "
            "fold was finished: there is nothing to compare, and no model yet. The `surface` of "
            "this error has the scores of the finished runs."
        )


def describe(error: Exception) -> str:
    """Return the message of an error as a sentence, with its kind where the message is short."""
    text = str(error).strip()
    text = f"{type(error).__name__}: {text}" if text else f"{type(error).__name__}."
    return text if text.endswith((".", "!", "?")) else f"{text}."


class Cell(NamedTuple):
    """One run: which, the fitted model, the scores along its path, and its seconds."""

    fold: int
    prior: int
    scale: int
    model: HDSL
    scores: dict[int, Estimate]
    seconds: float


class Point(NamedTuple):
    """Positions of a prior, a scale and an iteration."""

    prior: int
    scale: int
    iteration: int


@dataclass
class Surface:
    """Scores of runs.

    Parameters
    ----------
    iterations : ndarray of shape (n_iterations,)
    scores, errors : ndarray of shape (n_priors, n_scales, n_iterations, n_folds)
        Scores and their standard errors. A run that ended before an iteration counts with its last
        score; NaN before the first score of a run, and where there is no run.
    seconds : ndarray of shape (n_priors, n_scales, n_folds)
        NaN where there is no run.
    """

    iterations: np.ndarray
    scores: np.ndarray
    errors: np.ndarray
    seconds: np.ndarray

    @classmethod
    def of(cls, cells: Sequence[Cell], n_priors: int, n_scales: int, n_folds: int) -> Surface:
        """Return the scores of finished runs."""
        iterations = np.array(sorted({k for cell in cells for k in cell.scores}), dtype=np.int64)
        scores = np.full((n_priors, n_scales, len(iterations), n_folds), np.nan)
        errors = scores.copy()
        seconds = np.full((n_priors, n_scales, n_folds), np.nan)
        for cell in cells:
            known = np.array(list(cell.scores), dtype=np.int64)
            at = np.searchsorted(known, iterations, side="right") - 1  # -1: before its first score
            along = np.array([*cell.scores.values(), Estimate(np.nan, np.nan)])[at]
            scores[cell.prior, cell.scale, :, cell.fold] = along[:, 0]
            errors[cell.prior, cell.scale, :, cell.fold] = along[:, 1]
            seconds[cell.prior, cell.scale, cell.fold] = cell.seconds
        return cls(iterations, scores, errors, seconds)

    @cached_property
    def folds(self) -> np.ndarray:
        """The folds in which every run is finished; only these are compared."""
        return np.flatnonzero(~np.isnan(self.seconds).any(axis=(0, 1)))

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean over the finished folds; -inf where a fold has no score yet."""
        mean = self.scores[..., self.folds].mean(axis=-1)
        return np.where(np.isnan(mean), -np.inf, mean)

    def error(self, point: Point) -> float:
        """Return the standard error of a mean: over folds, or of their rows where that is larger.

        The scores of a few folds may agree by chance.
        """
        n = len(self.folds)
        of_rows = np.sqrt(np.square(self.errors[point][self.folds]).sum()) / n
        if n == 1:
            return float(of_rows)
        over_folds = self.scores[point][self.folds].std(ddof=1) / np.sqrt(n)
        return float(max(of_rows, over_folds))

    def choose(self, preference: np.ndarray) -> Point:
        """Return the point to use, among those within one standard error of the best mean.

        Priors and scales of the highest preference go first, then those of the best mean. Of their
        iterations the last is chosen.

        Parameters
        ----------
        preference : ndarray of int of shape (n_priors, n_scales)
        """
        if not np.isfinite(self.mean).any():
            raise ValueError("No model of the grid has a score that is a number: check scoring.")
        best = Point(*(int(at) for at in np.unravel_index(self.mean.argmax(), self.mean.shape)))
        is_close = self.mean >= self.mean[best] - self.error(best)
        highest = self.mean.max(axis=-1)
        prior, scale = max(
            zip(*np.nonzero(is_close.any(axis=-1)), strict=True),
            key=lambda cell: (preference[cell], highest[cell]),  # the first of equals
        )
        return Point(int(prior), int(scale), int(np.flatnonzero(is_close[prior, scale])[-1]))

    def table(self, priors: np.ndarray, scales: np.ndarray) -> dict[str, np.ndarray]:
        """Return one line per prior and scale at its best iteration, as in scikit-learn."""
        prior, scale = (at.ravel() for at in np.indices(self.mean.shape[:2]))
        best = self.mean[prior, scale].argmax(axis=1)
        at_best = self.scores[prior, scale, best]
        values = self.mean[prior, scale, best]
        table = {
            "param_prior": priors[prior],
            "param_scale": scales[scale],
            "n_iter": self.iterations[best],
            "mean_test_score": values,
            "std_test_score": at_best[:, self.folds].std(axis=1),
            "rank_test_score": 1 + (values[None, :] > values[:, None]).sum(axis=1),
            "mean_fit_time": self.seconds[prior, scale][:, self.folds].mean(axis=1),
        }
        for fold in range(at_best.shape[1]):
            table[f"split{fold}_test_score"] = at_best[:, fold]
        return table
