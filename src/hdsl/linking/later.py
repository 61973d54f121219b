"""Later records among earlier ones: their lists are those of a search of all records.

Earlier records keep their rows, and their lists change only where a later record comes
in. So records that come one by one, at once or before a file was saved make the same
lists, and all that follows from them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..hdsl import HDSL
from ..search.products import Columns
from .blocking import Blocks
from .candidates import NEAREST, Entries, SearchedRecords, searched_range
from .entities import PairProbabilities
from .features import RecordFeatures
from .known import KnownPairs
from .linked import LinkedRecords
from .nearest import NearestRecords
from .similarity import learned_rows
from .tables import Table


class LaterRecords:
    """Later records of one side, searched for among the earlier ones.

    Records have a number: that of an earlier record stays, and later ones follow.

    Parameters
    ----------
    earlier : SearchedRecords
    model : HDSL or None
        The learned similarity; None: it is the cosine.
    table : Table
    side : {"left", "right"}
    n_jobs : int or None

    Attributes
    ----------
    entered : Entries
        Earlier records, and the later ones that come into their lists.
    entries : Entries
        Later records, and those that come into their lists.
    """

    def __init__(
        self,
        earlier: SearchedRecords,
        model: HDSL | None,
        table: Table,
        side: str,
        n_jobs: int | None,
    ) -> None:
        self._earlier = earlier
        self._table = table
        self._side = side
        self._n_jobs = n_jobs
        self.n_earlier = earlier.n_records
        self.n_later = len(table.ids)
        tables = earlier.tables.emptied(table, side)
        vocabulary = earlier.records.vocabulary.with_texts(tables.texts())
        kinds = earlier.records.strings.column_kinds
        self._records = RecordFeatures.of_tables(tables, vocabulary, kinds)
        self._blocks = Blocks.of_tables(tables, earlier.rules)
        self._learned = None
        if model is not None:
            self._learned = learned_rows(model, self._records)
        self.entries, self.entered = self._search()

    def _search(self) -> tuple[Entries, Entries]:
        """Return what comes into the lists of later records, and of earlier ones."""
        earlier = self._earlier
        n_left = earlier.tables.n_left
        first = searched_range(self._side, n_left, self.n_earlier).start
        # The cosine that is to be exceeded: earlier records come first of equal ones.
        worst = np.maximum(earlier.near.scores[:, -1], 0.0)
        X = self._records.matrix()
        of_later: list[Entries] = []
        of_earlier: list[Entries] = []
        for start, products in earlier.columns(self._side).products(X):
            found = self._allowed(start, products, earlier.blocks, first)
            enters = found.scores > worst[found.records]
            of_later.append(_largest(found))
            of_earlier.append(
                Entries(
                    found.records[enters],
                    found.rows[enters] + self.n_earlier,
                    found.scores[enters],
                )
            )
        if earlier.tables.is_single:
            for start, products in Columns(X).products(X):
                found = self._allowed(start, products, self._blocks, 0)
                found = found.where(found.rows != found.records)
                found = _largest(found)
                of_later.append(found._replace(records=found.records + self.n_earlier))
        return Entries.joined(*of_later), Entries.joined(*of_earlier)

    def _allowed(
        self, start: int, products: sp.csr_array, blocks: Blocks, first: int
    ) -> Entries:
        """Return products of later records with others that may be their candidates.

        The rows of `products` count from later record `start` on, its columns from
        record `first` of `blocks` on.
        """
        n_products = np.diff(products.indptr)
        rows = start + np.repeat(np.arange(len(n_products)), n_products)
        records = first + products.indices.astype(np.int64)
        found = Entries(rows, records, products.data)
        if not blocks.has_rules:
            return found
        return found.where(self._blocks.agree(rows, blocks, records))

    @property
    def is_affected(self) -> np.ndarray:
        """Which earlier records have a later one among their nearest."""
        is_affected = np.zeros(self.n_earlier, dtype=bool)
        is_affected[self.entered.rows] = True
        return is_affected

    def joined(self, kept: np.ndarray) -> Joined:
        """Return some earlier records, in order, together with the later ones.

        The lists of a kept record are whole: their scores too of records that are not
        kept, which have no number.
        """
        earlier = self._earlier
        n_records = self.n_earlier + self.n_later
        later = np.arange(self.n_earlier, n_records)
        order = np.concatenate([kept, later])
        if self._side == "left" and not earlier.tables.is_single:
            is_right = (order >= earlier.tables.n_left) & (order < self.n_earlier)
            order = order[np.argsort(is_right, kind="stable")]
        row_of = np.full(n_records + 1, -1)
        row_of[order] = np.arange(len(order))
        learned = None
        if earlier.learned is not None and self._learned is not None:
            learned = earlier.learned.joined(self._learned, order)
        searched = SearchedRecords(
            tables=earlier.tables.only(kept).with_later(self._table, self._side),
            records=earlier.records.joined(self._records, order),
            rules=earlier.rules,
            blocks=earlier.blocks.joined(self._blocks, order),
            near=self._near(kept, row_of),
            learned=learned,
            nearest=[],
        )
        is_new = np.ones(n_records, dtype=bool)
        is_new[: self.n_earlier] = self.is_affected
        changed = np.flatnonzero(is_new[order])
        again = searched.nearest_of(changed, self._n_jobs)
        for nearest, renewed in zip(earlier.nearest, again, strict=True):
            lists = _renumbered(nearest, kept, row_of, len(order))
            lists.neighbors[changed] = renewed.neighbors
            lists.scores[changed] = renewed.scores
            searched.nearest.append(lists)
        return Joined(searched, row_of[:-1], changed)

    def _near(self, kept: np.ndarray, row_of: np.ndarray) -> NearestRecords:
        """Return the records near the kept ones and the later ones, by their rows."""
        near = self._earlier.near
        lists = _renumbered(near, kept, row_of, int(row_of.max()) + 1)
        affected = np.unique(self.entered.rows)
        affected = affected[row_of[affected] >= 0]
        before = NearestRecords(near.neighbors[affected], near.scores[affected])
        of_affected = Entries.of_lists(before)
        entries = Entries.joined(
            of_affected._replace(rows=affected[of_affected.rows]),
            self.entered,
            self.entries._replace(rows=self.entries.rows + self.n_earlier),
        )
        entries = Entries(row_of[entries.rows], row_of[entries.records], entries.scores)
        entries = entries.where((entries.rows >= 0) & (entries.records >= 0))
        changed = np.concatenate([affected, np.arange(self.n_earlier, len(row_of) - 1)])
        rows = row_of[changed]
        renewed = entries.lists(len(lists.neighbors), NEAREST)
        lists.neighbors[rows] = renewed.neighbors[rows]
        lists.scores[rows] = renewed.scores[rows]
        return lists

    def meeting(self) -> np.ndarray:
        """Return the earlier records that tell how probable links of later ones are.

        They are those near later ones, and those near an earlier record that has a
        later one among its nearest.
        """
        near = self._earlier.near.neighbors[self.is_affected]
        records = self.entries.records[self.entries.records < self.n_earlier]
        return np.unique(np.concatenate([near[near >= 0], records, self.entered.rows]))


class Joined(NamedTuple):
    """Earlier and later records together.

    Attributes
    ----------
    searched : SearchedRecords
    row_of : ndarray of shape (n_earlier + n_later,)
        The number that each record has in `searched`, -1 where it is not there.
    changed : ndarray
        Records of `searched` whose lists are new.
    """

    searched: SearchedRecords
    row_of: np.ndarray
    changed: np.ndarray


def _largest(found: Entries) -> Entries:
    """Return the entries of each row that may be among its first `NEAREST`.

    The entries of a row are together.
    """
    bounds = np.flatnonzero(np.diff(found.rows, prepend=-1, append=-1))
    is_large = np.ones(len(found.rows), dtype=bool)
    for start, stop in pairwise(bounds.tolist()):
        if stop - start > NEAREST:
            scores = found.scores[start:stop]
            least = np.partition(scores, -NEAREST)[-NEAREST]
            is_large[start:stop] = scores >= least
    return found.where(is_large)


def _renumbered(
    nearest: NearestRecords, kept: np.ndarray, row_of: np.ndarray, n_records: int
) -> NearestRecords:
    """Return the lists of kept records by their rows; other rows are empty."""
    lists = NearestRecords.empty(n_records, nearest.neighbors.shape[1])
    lists.neighbors[row_of[kept]] = row_of[nearest.neighbors[kept]]
    lists.scores[row_of[kept]] = nearest.scores[kept]
    return lists


def link_later(
    linked: LinkedRecords, later: LaterRecords, n_jobs: int | None
) -> LinkedRecords:
    """Return later records together with those earlier ones that are candidates.

    Parameters
    ----------
    linked : LinkedRecords
        The earlier records.
    later : LaterRecords
    n_jobs : int or None
    """
    searched, row_of, _ = later.joined(later.meeting())
    pairs = searched.by_learned.candidates()
    is_later = np.zeros(searched.n_records, dtype=bool)
    is_later[row_of[later.n_earlier :]] = True
    pairs = pairs[is_later[pairs].any(axis=1)]
    together = LinkedRecords(
        searched=searched,
        learned=linked.learned,
        known=KnownPairs(searched.tables, (), ()),
        candidates=PairProbabilities(pairs, np.zeros(len(pairs))),
        arrival=np.arange(searched.n_records),
    )
    together.candidates.probability[:] = together.probability(pairs, n_jobs)
    return together


def add_later(
    linked: LinkedRecords, later: LaterRecords, n_jobs: int | None
) -> LinkedRecords:
    """Return the earlier records and the later ones, with all candidates of both.

    The parameters are those of `link_later`.
    """
    n_earlier = later.n_earlier
    searched, row_of, changed = later.joined(np.arange(n_earlier))
    arrival = np.empty(len(row_of), dtype=np.int64)
    arrival[row_of[:n_earlier]] = linked.arrival
    arrival[row_of[n_earlier:]] = np.arange(n_earlier, len(row_of))
    grown = LinkedRecords(
        searched=searched,
        learned=linked.learned.renumbered(row_of),
        known=linked.known.renumbered(row_of),
        candidates=PairProbabilities(np.zeros((0, 2), dtype=np.int64), np.zeros(0)),
        arrival=arrival,
        behind=np.sort(row_of[linked.behind], axis=1),
    )
    pairs = grown.candidate_pairs()
    # Pairs of records whose lists are the same have the same probability.
    before = linked.candidates
    width = len(row_of)
    codes = np.sort(row_of[before.pairs], axis=1) @ (width, 1)
    order = np.argsort(codes)
    own = pairs @ (width, 1)
    position = np.searchsorted(codes[order], own)
    position = order[np.minimum(position, len(order) - 1)] if len(order) else position
    is_changed = np.zeros(width, dtype=bool)
    is_changed[changed] = True
    is_known = ~is_changed[pairs].any(axis=1)
    probability = np.empty(len(pairs))
    probability[is_known] = before.probability[position[is_known]]
    probability[~is_known] = grown.probability(pairs[~is_known], n_jobs)
    grown.candidates = PairProbabilities(pairs, probability)
    return grown
