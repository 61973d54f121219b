"""The candidates for the prior and the number of iterations, and the table of what was tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .judges import Score
from .rule import standard_error

#: Candidates for the prior, over the mean ‖x‖² of the anchors. Where the first is no
#: gain, larger ones are tried, which are nearer the cosine, until one is better than
#: it. Where the candidates learn from a sample, all data may still teach what that does
#: not: the first is enough.
PRIORS = (16.0, 8.0, 4.0, 2.0, 1.0)

LARGE_PRIORS = (32.0, 128.0, 512.0)

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


@dataclass
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
        with its standard error, mrr (NaN with comparisons), chosen. None where nothing
        was tried.
    """

    prior: float
    n_iter: int
    reason: str
    table: dict[str, np.ndarray] | None = None


def table(
    candidates: Mapping[str, Sequence[Any]],
    scores: Sequence[Score],
    chosen: tuple[Any, ...],
) -> dict[str, np.ndarray]:
    """Return candidates with their scores; `candidates` has a column for each item of `chosen`."""
    mrr = [
        s.reciprocal_ranks.mean() if len(s.reciprocal_ranks) else np.nan for s in scores
    ]
    return {name: np.array(column) for name, column in candidates.items()} | {
        "score": np.array([s.units.mean() for s in scores]),
        "error": np.array([standard_error(s.units) for s in scores]),
        "mrr": np.array(mrr),
        "chosen": np.array(
            [name == chosen for name in zip(*candidates.values(), strict=True)]
        ),
    }
