"""Later records linked with earlier ones, without learning or searching these again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrivals import Arrivals
from .entities import PairProbabilities
from .known import KnownPairs
from .linked import LinkedRecords


def link_later(
    linked: LinkedRecords, arrivals: Arrivals, n_jobs: int | None
) -> LinkedRecords:
    """Return later records together with those earlier ones that are candidates.

    Parameters
    ----------
    linked : LinkedRecords
        The earlier records.
    arrivals : Arrivals
        The later ones, searched for among the earlier ones.
    n_jobs : int or None
    """
    pairs = arrivals.candidates()
    earlier = np.unique(pairs[pairs < arrivals.n_earlier])
    meeting = arrivals.meet(earlier)
    no_pairs = KnownPairs(meeting.searched.tables, (), ())
    together = LinkedRecords(
        searched=meeting.searched,
        learned=linked.learned,
        known=no_pairs,
        candidates=_unknown(meeting.renumbered(pairs)),
        arrival=np.arange(meeting.searched.tables.n_records),
    )
    return _with_probabilities(together, n_jobs)


class Grown(NamedTuple):
    """Earlier and later records, and how still later ones search them."""

    linked: LinkedRecords
    lone_features: dict[str, int]


def add_later(linked: LinkedRecords, arrivals: Arrivals, n_jobs: int | None) -> Grown:
    """Return the earlier records and the later ones, with all candidates of both.

    The parameters are those of `link_later`.
    """
    n_earlier = arrivals.n_earlier
    meeting = arrivals.meet(np.arange(n_earlier))
    numbers = meeting.numbers
    arrival = np.empty(len(numbers), dtype=np.int64)
    arrival[numbers[:n_earlier]] = linked.arrival
    arrival[numbers[n_earlier:]] = np.arange(n_earlier, len(numbers))
    earlier = linked.candidates
    later = _unknown(arrivals.candidates())
    # No earlier pair has a later record, and numbers keep the order of earlier ones.
    pairs = meeting.renumbered(earlier.pairs)
    pairs_of_later = meeting.renumbered(later.pairs)
    pairs_of_later = pairs_of_later[np.lexsort(pairs_of_later.T[::-1])]
    width = len(numbers)
    positions = np.searchsorted(pairs @ (width, 1), pairs_of_later @ (width, 1))
    pairs = np.insert(pairs, positions, pairs_of_later, axis=0)
    probability = np.insert(earlier.probability, positions, later.probability)
    # Pairs of records that have a later one among their nearest stand elsewhere now.
    has_changed = np.zeros(len(numbers), dtype=bool)
    has_changed[numbers[arrivals.met()]] = True
    has_changed[numbers[arrivals.changed]] = True
    probability[has_changed[pairs].any(axis=1)] = np.nan
    grown = LinkedRecords(
        searched=meeting.searched,
        learned=linked.learned.renumbered(numbers),
        known=linked.known.renumbered(numbers),
        candidates=PairProbabilities(pairs, probability),
        arrival=arrival,
    )
    return Grown(
        linked=_with_probabilities(grown, n_jobs),
        lone_features=arrivals.lone_features(numbers),
    )


def _unknown(pairs: np.ndarray) -> PairProbabilities:
    """Return pairs whose probabilities are not known yet: NaN."""
    return PairProbabilities(pairs, np.full(len(pairs), np.nan))


def _with_probabilities(linked: LinkedRecords, n_jobs: int | None) -> LinkedRecords:
    """Fill in the probabilities of candidates that have none."""
    pairs, probability = linked.candidates
    is_missing = np.isnan(probability)
    probability[is_missing] = linked.probability(pairs[is_missing], n_jobs)
    return linked
