"""Records with all that is known of their pairs: what was learned, and answers."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .assignment import best_assignment, first_free
from .candidates import SearchedRecords
from .consequences import Consequences
from .entities import (
    Entities,
    PairProbabilities,
    belonging,
    components,
    group_records,
    pairs_within,
)
from .known import KnownPairs
from .learned import Learned
from .nearest import unique_pairs
from .questions import (
    Worth,
    doubtful_pairs,
    have_groups,
    spread_pairs,
    worth_of_answers,
)


class LinkedRecords:
    """Records that were searched, and how probable their pairs are.

    Parameters
    ----------
    searched : SearchedRecords
    learned : Learned
    known : KnownPairs
    candidates : PairProbabilities
        Each pair once.
    arrival : ndarray of shape (n_records,)
        The numbers of the records in the order in which they came.
    """

    def __init__(
        self,
        searched: SearchedRecords,
        learned: Learned,
        known: KnownPairs,
        candidates: PairProbabilities,
        arrival: np.ndarray,
    ) -> None:
        self.searched = searched
        self.learned = learned
        self.known = known
        self.candidates = candidates
        self.arrival = arrival

    @classmethod
    def of_known(
        cls,
        searched: SearchedRecords,
        learned: Learned,
        known: KnownPairs,
        n_jobs: int | None,
    ) -> LinkedRecords:
        """Return records with their nearest ones and known pairs as candidates."""
        n_records = searched.tables.n_records
        no_candidates = PairProbabilities(known.matches[:0], np.zeros(0))
        linked = cls(searched, learned, known, no_candidates, np.arange(n_records))
        pairs = linked.candidate_pairs()
        probability = linked.probability(pairs, n_jobs)
        linked.candidates = PairProbabilities(pairs, probability)
        return linked

    def candidate_pairs(self) -> np.ndarray:
        """Return the pairs of records that are near each other, and known pairs."""
        candidates = self.searched.by_learned.candidates()
        known = [self.known.matches, self.known.non_matches]
        return unique_pairs(np.concatenate([candidates, *known]))

    @cached_property
    def _consequences(self) -> Consequences:
        """What follows from known pairs."""
        return Consequences(
            self.known.matches,
            self.known.non_matches,
            self.searched.tables.n_records,
        )

    def probability(self, pairs: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the probability of pairs; known pairs have what is known."""
        probability = self.learned.probability(self.searched, pairs, n_jobs)
        if not self.known.has_answers:
            return probability
        answers = self._consequences.answers(pairs)
        return np.where(np.isnan(answers), probability, answers)

    def links(self, threshold: float) -> PairProbabilities:
        """Return the candidates from a probability on, the most likely first."""
        probability = self.candidates.probability
        order = np.argsort(-probability, kind="stable")
        return self.candidates.take(order[probability[order] >= threshold])

    def one_to_one(self, links: PairProbabilities) -> PairProbabilities:
        """Return links in their order, each record in one of them at most.

        They are those with the largest sum of probabilities. In one table, the first
        link comes first, then the next one that is free.
        """
        if len(links.pairs) == 0:
            return links
        if self.searched.tables.is_single:
            return links.take(first_free(links.pairs))
        # A known match counts more than all others together.
        is_match = self.known.answers(links.pairs) == 1.0
        n_left = len(np.unique(links.pairs[:, 0]))
        worth = links.probability + n_left * is_match
        return links.take(best_assignment(links.pairs, worth))

    def most_likely(self, k: int) -> PairProbabilities:
        """Return the k most likely pairs of each left record, best first.

        Of one table, each record has its most likely duplicates.
        """
        pairs, probability = self.candidates
        if self.searched.tables.is_single:
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
            probability = np.tile(probability, 2)
        order = np.lexsort((-probability, pairs[:, 0]))
        left = pairs[order, 0]
        rank = np.arange(len(left)) - np.searchsorted(left, left)
        return PairProbabilities(pairs, probability).take(order[rank < k])

    def questions(self, n: int) -> PairProbabilities:
        """Return the pairs most worth asking a person about."""
        is_unknown = np.isnan(self._consequences.answers(self.candidates.pairs))
        unknown = self.candidates.take(is_unknown)
        if self.learned.has_probabilities:
            by_record = have_groups(*self.candidates)
            worth = self._worth_of_answers(is_unknown)
            chosen = doubtful_pairs(*unknown, worth, n, by_record=by_record)
        else:
            chosen = spread_pairs(*unknown, n)
        return unknown.take(chosen)

    def _worth_of_answers(self, is_unknown: np.ndarray) -> Worth:
        """Return how much is learned by the answers to candidates without one."""
        worth = worth_of_answers(
            *self.candidates,
            self.searched.tables.n_records,
            is_first_round=not self.known.has_answers,
        )
        return Worth(worth.hangs[is_unknown], worth.change[is_unknown])

    def entities(
        self, threshold: float, *, one_to_one: bool, n_jobs: int | None
    ) -> Entities:
        """Return which records are one thing, numbered by their oldest record."""
        tables = self.searched.tables
        is_left = np.arange(tables.n_records) < tables.n_left
        links = self.links(threshold)
        if one_to_one:
            known = self.one_to_one(links)
        else:
            linked = components(links.pairs, tables.n_records)
            known = self._with_pairs(pairs_within(linked, is_left), n_jobs)
        groups = group_records(known, is_left, threshold)
        oldest = np.full(tables.n_records, np.iinfo(np.int64).max)
        np.minimum.at(oldest, groups, self.arrival)
        return Entities(
            table=np.where(is_left, "left", "right"),
            record=tables.record_ids(),
            entity=oldest[groups],
            probability=belonging(known, groups, is_left),
        )

    def _with_pairs(self, pairs: np.ndarray, n_jobs: int | None) -> PairProbabilities:
        """Return the probabilities of the candidates and of more pairs, each once."""
        candidates = self.candidates
        every, first = np.unique(
            np.concatenate([candidates.pairs, pairs]), axis=0, return_index=True
        )
        probability = np.empty(len(every))
        is_known = first < len(candidates.pairs)
        probability[is_known] = candidates.probability[first[is_known]]
        probability[~is_known] = self.probability(every[~is_known], n_jobs)
        return PairProbabilities(every, probability)
