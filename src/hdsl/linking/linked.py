"""Records with all that is known of their pairs: what was learned, and answers."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..input.errors import WayOutError
from .candidates import SearchedRecords, unique_pairs
from .entities import (
    Entities,
    PairProbabilities,
    belonging,
    best_assignment,
    components,
    first_free,
    group_records,
    pairs_within,
)
from .known import Consequences, KnownPairs
from .learning import Learned
from .questions import (
    Audit,
    Worth,
    correction_by_audit,
    doubtful_pairs,
    have_groups,
    within_budget,
    worth_of_answers,
)

#: Pairs of records with a common link become candidates, so many rounds.
N_ROUNDS = 3

#: A record with more links than this brings none of its neighbors together.
MAX_LINKS = 100

#: Less probable pairs are no links of a budget.
LEAST_LINK = 1e-3

#: Where more than this share of the links is expected to be wrong, or as many matches to
#: be missing, answers are asked for, or other columns too.
WORTH_ASKING = 0.01
WORTH_COLUMNS = 0.1

#: Log odds of known matches, which no audit makes doubtful.
KNOWN_LOG_ODDS = 1000.0

#: Questions that are asked for.
N_QUESTIONS = 20


class LinkedRecords:
    """Searched records with the probabilities of their pairs.

    Parameters
    ----------
    searched : SearchedRecords
    learned : Learned
    known : KnownPairs
    candidates : PairProbabilities
        Each pair once.
    arrival : ndarray of shape (n_records,)
        The numbers of the records in the order in which they came.
    behind : ndarray of shape (n_pairs, 2), default=None
        Pairs of records that are not near, but were linked with a common one.
    """

    def __init__(
        self,
        searched: SearchedRecords,
        learned: Learned,
        known: KnownPairs,
        candidates: PairProbabilities,
        arrival: np.ndarray,
        behind: np.ndarray | None = None,
    ) -> None:
        self.searched = searched
        self.learned = learned
        self.known = known
        self.candidates = candidates
        self.arrival = arrival
        self.behind = np.zeros((0, 2), dtype=np.int64) if behind is None else behind

    @classmethod
    def of_known(
        cls,
        searched: SearchedRecords,
        learned: Learned,
        known: KnownPairs,
        n_jobs: int | None,
    ) -> LinkedRecords:
        """Return records with their nearest ones and known pairs as candidates.

        Two records that are linked with a third one are candidates too.
        """
        n_records = searched.tables.n_records
        no_candidates = PairProbabilities(known.matches[:0], np.zeros(0))
        linked = cls(searched, learned, known, no_candidates, np.arange(n_records))
        pairs = linked.candidate_pairs()
        probability = linked.probability(pairs, n_jobs)
        linked.candidates = PairProbabilities(pairs, probability)
        for _ in range(N_ROUNDS):
            others = linked._pairs_behind_links()
            if len(others) == 0:
                break
            linked.candidates = linked._with_pairs(others, n_jobs)
            linked.behind = np.concatenate([linked.behind, others])
        return linked

    def _pairs_behind_links(self) -> np.ndarray:
        """Return pairs of records that are linked with a common one, and no candidates."""
        tables = self.searched.tables
        links = self.links(0.5).pairs
        size = tables.n_records
        ends = (links.ravel(), links[:, ::-1].ravel())
        graph = sp.csr_array((np.ones(links.size), ends), shape=(size, size))
        is_crowded = graph.count_nonzero(axis=1) > MAX_LINKS
        graph = sp.diags_array(1.0 * ~is_crowded) @ graph
        first, second = (graph.T @ graph).nonzero()
        is_pair = first < second
        if not tables.is_single:
            is_pair &= (first < tables.n_left) & (second >= tables.n_left)
        pairs = np.column_stack([first, second])[is_pair].astype(np.int64)
        known = self.candidates.pairs @ (size, 1)
        return pairs[~np.isin(pairs @ (size, 1), known)]

    def candidate_pairs(self) -> np.ndarray:
        """Return the pairs of records that are near each other, and known pairs."""
        candidates = self.searched.by_learned.candidates()
        known = [self.known.matches, self.known.non_matches]
        return unique_pairs(np.concatenate([candidates, *known, self.behind]))

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

    def within_budget(self, max_false: float, *, one_to_one: bool) -> PairProbabilities:
        """Return as many links as may be with a share of wrong ones."""
        links = self.links(LEAST_LINK)
        if one_to_one:
            links = self.one_to_one(links)
            links = links.take(np.argsort(-links.probability, kind="stable"))
        n_links = within_budget(links.probability, max_false)
        return links.take(np.arange(n_links))

    def statement(self) -> str:
        """Return what tells matches, what is expected of the links, and what would help."""
        probability = self.candidates.probability
        is_link = probability >= 0.5
        n_links = int(is_link.sum())
        wrong = float((1.0 - probability[is_link]).sum())
        missing = float(probability[~is_link].sum())
        sentences = []
        telling = self.learned.telling
        if telling:
            *first, last = telling
            names = f"{', '.join(first)} and {last}" if first else last
            sentences.append(f"What tells most: {names}.")
        links = "1 link" if n_links == 1 else f"{n_links:,} links"
        verb = "is" if f"{wrong:.0f}" == "1" else "are"
        less = (
            "1 match is" if f"{missing:.0f}" == "1" else f"{missing:,.0f} matches are"
        )
        sentences.append(
            f"Of {links} from a probability of 0.5 on, about {wrong:,.0f} {verb} "
            f"wrong; about {less} less probable."
        )
        if self.learned.is_learned:
            share = 100 * self.learned.share
            sentences.append(f"What known pairs teach counts for {share:.0f} %.")
        if self.learned.held_out:
            sentences.append(self.learned.held_out)
        worst = max(wrong, missing) / max(n_links, 1)
        if worst > WORTH_ASKING:
            sentences.append(
                f"Answers would help: --label {N_QUESTIONS} asks, or "
                f"to_label({N_QUESTIONS})."
            )
        if worst > WORTH_COLUMNS:
            sentences.append(
                "So would another column that differs between records: a date of birth, "
                "an address, a number."
            )
        left, right = self.searched.tables.columns_of_one_table()
        if left and right and max(len(left), len(right)) > 1:
            sentences.append(
                f"Columns of the left table alone: {', '.join(left)}; of the right table "
                f"alone: {', '.join(right)}. Give those that mean the same the same name: "
                "they are compared only as parts of one text, and probabilities of short "
                "records are then far too sure."
            )
        return " ".join(sentences)

    # --- questions --------------------------------------------------------------------

    def questions(self, n: int) -> PairProbabilities:
        """Return the pairs most worth asking a person about."""
        is_unknown = np.isnan(self._consequences.answers(self.candidates.pairs))
        unknown = self.candidates.take(is_unknown)
        by_record = have_groups(*self.candidates)
        worth = self._worth_of_answers(is_unknown)
        return unknown.take(doubtful_pairs(*unknown, worth, n, by_record=by_record))

    def audit(self, links: PairProbabilities, n: int, seed: int) -> PairProbabilities:
        """Return a random sample of links, in an order that says nothing."""
        rng = np.random.default_rng(seed)
        size = min(n, len(links.pairs))
        return links.take(rng.choice(len(links.pairs), size, replace=False))

    def audited(
        self,
        links: PairProbabilities,
        matches: np.ndarray,
        non_matches: np.ndarray,
        n_jobs: int | None,
    ) -> tuple[LinkedRecords, Audit]:
        """Return the records with probabilities that an audit corrects, and the audit.

        Parameters
        ----------
        links : PairProbabilities
            Those that were drawn from.
        matches, non_matches : ndarray of shape (n, 2)
            Answers to those that were drawn.
        n_jobs : int or None
        """
        width = self.searched.tables.n_records
        matches = unique_pairs(matches)
        non_matches = unique_pairs(non_matches)
        answered = np.concatenate([matches, non_matches])
        n_both = len(answered) - len(unique_pairs(answered))
        if n_both:
            raise ValueError(
                f"audited expected one answer per link, but {n_both:,} of the links are "
                "in matches and in non_matches: leave them out of one."
            )
        is_link = np.isin(answered @ (width, 1), links.pairs @ (width, 1))
        if len(answered) == 0 or not is_link.all():
            raise WayOutError(
                f"An audit expects answers to links that were drawn, but "
                f"{(~is_link).sum():,} of {len(answered):,} pairs are no links now",
                "draw them anew with audit, and the threshold that the links have",
                "audit",
            )
        audit = Audit.of_answers(len(links.pairs), len(answered), len(non_matches))
        threshold = float(links.probability.min())
        # Of links that are all but certain, probabilities would be rounded to 1.
        log_odds = self.learned.log_odds(self.searched, links.pairs, n_jobs)
        log_odds[self._consequences.answers(links.pairs) == 1.0] = KNOWN_LOG_ODDS
        correction = correction_by_audit(log_odds, audit, threshold)
        grown = LinkedRecords(
            self.searched,
            self.learned.corrected(correction),
            self.known.with_more(matches, non_matches),
            self.candidates,
            self.arrival,
            self.behind,
        )
        pairs = unique_pairs(np.concatenate([self.candidates.pairs, answered]))
        probability = grown.probability(pairs, n_jobs)
        grown.candidates = PairProbabilities(pairs, probability)
        return grown, audit

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
