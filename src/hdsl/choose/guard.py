"""The guard of the choice: what a candidate does to a search among all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..search_gain import SearchGain
from ..similarity.cosine import COSINE, PRODUCT
from .candidates import FROM_ANOTHER, Candidate
from .rule import bounds, is_better, keeps_search
from .searched import UNKNOWN, search_columns

if TYPE_CHECKING:
    from .choice import PartRuns


class Gains(NamedTuple):
    """What the held-out queries gain by one candidate.

    Parameters
    ----------
    values : ndarray of shape (n_queries,)
    are_kept : bool
        Whether they are about as large as by the plain cosine, or larger.
    """

    values: np.ndarray
    are_kept: bool


class SearchGuard:
    """Searches for held-out data among all rows, by candidates and by the plain cosine.

    Parameters
    ----------
    runs : sequence of PartRuns
    """

    def __init__(self, runs: Sequence[PartRuns]) -> None:
        self.searches = [run.search for run in runs if run.search is not None]
        self.runs = [run for run in runs if run.search is not None]
        self.gains: dict[tuple[float, str], Gains] = {}

    @property
    def is_of_judgements(self) -> bool:
        """Whether queries search for rows that were judged, not for themselves."""
        return any(search.is_of_judgements for search in self.searches)

    def keeps_search(self, candidate: Candidate) -> bool:
        """Return whether a search by the candidate is kept; True where nothing is searched."""
        return not self.searches or any(
            self._gains(candidate.prior, ranking).are_kept for ranking in self.rankings
        )

    def sees_harm(self, candidate: Candidate) -> bool:
        """Return whether judged queries lose by a candidate: smaller priors are not tried.

        Rows that are looked for by half of their features are many, and their judge has
        looked already: they are searched for by what is chosen alone.
        """
        if not self.is_of_judgements or self.keeps_search(candidate):
            return False
        return self.mean(candidate.prior) < self.mean(np.inf)

    def ranking(self, prior: float) -> str:
        """Return how rows are ranked best by the candidate of a prior."""
        if PRODUCT not in self.rankings:
            return COSINE
        product = self._gains(prior, PRODUCT)
        cosine = self._gains(prior, COSINE)
        is_best = not cosine.are_kept or is_better(product.values, cosine.values)
        return PRODUCT if product.are_kept and is_best else COSINE

    def mean(self, prior: float, ranking: str = COSINE) -> float:
        """Return the mean gain of a candidate that was looked at, else NaN."""
        if (prior, ranking) not in self.gains:
            return np.nan
        return float(self.gains[prior, ranking].values.mean())

    @property
    def rankings(self) -> tuple[str, ...]:
        """The ways to rank rows that are looked at."""
        if not self.searches:
            return ()
        return self.searches[0].rankings

    def _gains(self, prior: float, ranking: str) -> Gains:
        """Return the gains of all parts by the models of a prior; inf has learned nothing."""
        if (prior, ranking) not in self.gains:
            values = np.concatenate([run.gains(prior)[ranking] for run in self.runs])
            are_kept = True
            if prior < np.inf:
                plain = self._gains(np.inf, COSINE).values
                are_kept = keeps_search(values, plain, self.searches[0].max_harm)
            self.gains[prior, ranking] = Gains(values, are_kept)
        return self.gains[prior, ranking]

    def columns(self, candidates: Sequence[Candidate]) -> dict[str, np.ndarray]:
        """Return what candidates gain, each as it ranks best; unknown where none looked.

        The steps of a prior do not search.
        """
        priors = [
            candidate.prior if candidate.n_iter == FROM_ANOTHER else np.nan
            for candidate in candidates
        ]
        rankings = [self._best_known_ranking(prior) for prior in priors]
        by_clicks = any(search.decides for search in self.searches)
        ways = [*zip(priors, rankings, strict=True)]
        return search_columns(
            [self.mean(prior, ranking) for prior, ranking in ways],
            [self._gain(prior, ranking) for prior, ranking in ways],
            by_clicks=by_clicks,
        )

    def _best_known_ranking(self, prior: float) -> str:
        """Return how a candidate ranks best, as far as it was looked at."""
        if prior < np.inf and (prior, COSINE) in self.gains:
            return self.ranking(prior)
        return COSINE

    def _gain(self, prior: float, ranking: str) -> SearchGain:
        """Return what queries gain over the plain cosine; unknown where none looked."""
        if (prior, ranking) not in self.gains or prior == np.inf:
            return UNKNOWN
        plain = self.gains[np.inf, COSINE].values
        return SearchGain.of(plain, self.gains[prior, ranking].values, bounds)
