"""The models that are tried on held-out data, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..similarity.cosine import COSINE
from ..supervision.judges import Score
from .rule import standard_error

#: Candidates for the prior, over the mean ‖x‖² of the anchors. Where the first is no
#: gain, larger ones are tried, which are nearer the cosine, until one is better than
#: it. Where the candidates learn from a sample, all data may still teach what that does
#: not: the first is enough.
PRIORS = (16.0, 8.0, 4.0, 2.0, 1.0)

LARGE_PRIORS = (32.0, 128.0, 512.0)

#: Larger ones that are tried where all lose too much of a search among all rows.
SAFE_PRIORS = (32.0, 64.0, 128.0)

#: The prior where too little can be held out to choose one: with 15 to 45 rows a
#: smaller one is worse than the cosine on most sets.
FIXED_PRIOR = 64.0

#: Iterations for the first candidate, and for each that starts from the model of the
#: one before. With fewer a small prior still loses known items that it finds at the end
#: of a run.
FIRST_STEPS = 12

NEXT_STEPS = 3

#: Candidates for the number of iterations, and their number where nothing is chosen.
STEPS = (5, 10, 15, 20, 30)

FIXED_STEPS = 15

#: The number of iterations of a candidate that starts from the model of another.
FROM_ANOTHER = 0


@dataclass(frozen=True)
class Candidate:
    """A model that was tried, and its score on held-out data.

    Parameters
    ----------
    prior : float
        Over the mean ‖x‖² of the anchors; inf is the plain cosine.
    n_iter : int
        `FROM_ANOTHER` where it starts from the model of the next larger prior.
    score : Score
    """

    prior: float
    n_iter: int
    score: Score

    @property
    def mean(self) -> float:
        """The mean score."""
        return float(self.score.units.mean())


@dataclass(frozen=True)
class Choice:
    """What was tried and what was chosen.

    Parameters
    ----------
    prior : float
        Over the mean ‖x‖² of the anchors.
    n_iter : int
    reason : str
        Why, in one sentence.
    table : dict of str to ndarray or None
        One line per candidate: prior (as used; inf is the plain cosine), n_iter, score
        with its standard error, mrr (NaN with comparisons), what held-out queries gain
        from a search among all rows (see `searched`), chosen. None where nothing was
        tried.
    ranking : {"cosine", "product"}
        How rows are ranked best.
    """

    prior: float
    n_iter: int
    reason: str
    table: dict[str, np.ndarray] | None = None
    ranking: str = COSINE


def table(
    candidates: Sequence[Candidate], chosen: Candidate, search: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the columns of what was tried; a chosen prior and number of steps are one line."""
    scores = [candidate.score for candidate in candidates]
    return {
        "prior": np.array([candidate.prior for candidate in candidates]),
        "n_iter": np.array([candidate.n_iter for candidate in candidates]),
        **score_columns(scores),
        **search,
        "chosen": np.array([candidate is chosen for candidate in candidates]),
    }


def score_columns(scores: Sequence[Score]) -> dict[str, np.ndarray]:
    """Return the columns of a table that say how good the candidates are."""
    return {
        "score": np.array([score.units.mean() for score in scores]),
        "error": np.array([standard_error(score.units) for score in scores]),
        "mrr": np.array([score.mean_reciprocal_rank for score in scores]),
    }
