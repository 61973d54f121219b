"""The guard of the choice: what a candidate does to a search among all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..similarity.cosine import COSINE, PRODUCT
from .candidates import Candidate
from .rule import is_better, keeps_search

if TYPE_CHECKING:
    from .choice import PartRuns

#: The gains of a part, by the way to rank rows.
Gains = dict[str, np.ndarray]


class SearchOutcome(NamedTuple):
    """What the held-out queries gain by one candidate, ranked as it is best.

    Parameters
    ----------
    ranking : {"cosine", "product"}
    gains : ndarray of shape (n_queries,)
    is_kept : bool
        Whether the search is about as good as by the plain cosine, or better.
    """

    ranking: str
    gains: np.ndarray
    is_kept: bool


class SearchGuard:
    """Searches for held-out data among all rows, by candidates and by the plain cosine.

    Parameters
    ----------
    runs : sequence of PartRuns
    """

    def __init__(self, runs: Sequence[PartRuns]) -> None:
        self.searches = [
            (run.search, run.models) for run in runs if run.search is not None
        ]
        self.outcomes: dict[float, SearchOutcome] = {}
        if self.searches:
            plain_gains = self._gains(np.inf)[COSINE]
            self.outcomes[np.inf] = SearchOutcome(COSINE, plain_gains, is_kept=True)

    @property
    def is_of_judgements(self) -> bool:
        """Whether queries search for rows that were judged, not for themselves."""
        return any(search.grades is not None for search, _ in self.searches)

    def keeps_search(self, candidate: Candidate) -> bool:
        """Return whether a search by the candidate is kept; True where nothing is searched."""
        outcome = self.outcome(candidate.prior)
        return outcome is None or outcome.is_kept

    def sees_harm(self, candidate: Candidate) -> bool:
        """Return whether judged queries lose by a candidate: smaller priors are not tried.

        Rows that are looked for by half of their features are many, and their judge has
        looked already: they are searched for by what is chosen alone.
        """
        if not self.is_of_judgements or self.keeps_search(candidate):
            return False
        return self.mean(candidate.prior) < self.mean(np.inf)

    def ranking(self, prior: float) -> str:
        """Return how rows are ranked by the candidate of a prior."""
        outcome = self.outcome(prior)
        if outcome is None:
            return COSINE
        return outcome.ranking

    def mean(self, prior: float) -> float:
        """Return the mean gain of a candidate that was looked at, else NaN."""
        if prior not in self.outcomes:
            return np.nan
        return float(self.outcomes[prior].gains.mean())

    def outcome(self, prior: float) -> SearchOutcome | None:
        """Return what the held-out queries gain by a candidate, None where none is searched."""
        if not self.searches:
            return None
        if prior not in self.outcomes:
            self.outcomes[prior] = self._judged(self._gains(prior))
        return self.outcomes[prior]

    def _gains(self, prior: float) -> Gains:
        """Return the gains of all parts by the models of a prior; inf has learned nothing."""
        parts = [search(models[prior]) for search, models in self.searches]
        return {
            ranking: np.concatenate([part[ranking] for part in parts])
            for ranking in parts[0]
        }

    def _judged(self, gains: Gains) -> SearchOutcome:
        """Return the way to rank rows that keeps the search, the better one of two."""
        plain = self.outcomes[np.inf].gains
        max_harm = self.searches[0][0].max_harm
        kept = [
            ranking
            for ranking, values in gains.items()
            if keeps_search(values, plain, max_harm)
        ]
        ranking = COSINE
        if PRODUCT in kept and (
            COSINE not in kept or is_better(gains[PRODUCT], gains[COSINE])
        ):
            ranking = PRODUCT
        return SearchOutcome(ranking, gains[ranking], ranking in kept)

    def sentence(self, chosen: Candidate) -> str:
        """Return what a candidate does to the search, after a semicolon."""
        outcome = self.outcome(chosen.prior)
        if outcome is None:
            return ""
        means = f"{outcome.gains.mean():.3f}, cosine {self.mean(np.inf):.3f}"
        if outcome.is_kept:
            return f"; a search among all rows gains {means}"
        return f"; a search among all rows loses, and least by this prior: {means}"
