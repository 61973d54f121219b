"""Later records among earlier ones: their lists are those of a search of all records.

Earlier records keep their rows, and their lists change only where a later record comes
in. So records that come one by one, at once or before a file was saved make the same
lists, and all that follows from them. Pairs in the rows of a frame are compared as if
they were alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..hdsl import HDSL
from ..input.errors import first_few
from ..search.products import Columns
from .candidates import (
    DEPTH,
    NO_ENTRIES,
    Blocks,
    Entries,
    NearestRecords,
    SearchedRecords,
    learned_rows,
)
from .entities import PairProbabilities
from .features import RecordFeatures
from .known import KnownPairs
from .linked import LinkedRecords
from .tables import Table, Tables, columns_of, make_table, texts_of

#: How a column of a side may be called: those of pandas, of SQL, and of Splink.
PATTERNS = {
    "left": ("{}_left", "left_{}", "{}_l"),
    "right": ("{}_right", "right_{}", "{}_r"),
}


def read_pairs(frame: Any, tables: Tables) -> Tables:
    """Return the left and the right record of each row, with the columns of tables.

    Parameters
    ----------
    frame : DataFrame, batch of Arrow or mapping of columns
        Columns as ``name_left`` and ``name_right``, ``left_name`` and ``right_name``, or
        ``name_l`` and ``name_r``. One that is not there is empty.
    tables : Tables
    """
    if hasattr(frame, "to_pydict"):  # a table or a batch of Arrow
        frame = frame.to_pydict()
    values = columns_of(frame)
    n_rows = max(map(len, values.values()), default=0)
    return Tables(
        _side(values, tables.left, "left", n_rows),
        _side(values, tables.right, "right", n_rows),
    )


def _side(values: dict[str, list[Any]], table: Table, side: str, n_rows: int) -> Table:
    """Return the records of one side."""
    source_of = {}
    for name in table.columns:
        names = [pattern.format(name) for pattern in PATTERNS[side]]
        source_of[name] = next((each for each in names if each in values), None)
    if not any(source_of.values()):
        name = next(iter(table.columns))
        raise ValueError(
            f"score_pairs expected columns of the {side} record, such as "
            f"{PATTERNS[side][0].format(name)!r}, and the frame has "
            f"{first_few(values)}: rename them."
        )
    empty = [""] * n_rows
    columns = {
        name: texts_of(values[source], name) if source else empty
        for name, source in source_of.items()
    }
    return make_table(columns, [*range(n_rows)])


def alone(pairs: Tables, searched: SearchedRecords, model: Any) -> SearchedRecords:
    """Return records of pairs as if there were no others: none has a nearer one.

    Parameters
    ----------
    pairs : Tables
    searched : SearchedRecords
        The records whose vocabulary and columns count.
    model : HDSL or None
    """
    vocabulary = searched.records.vocabulary.with_texts(pairs.texts())
    kinds = searched.records.strings.column_kinds
    records = RecordFeatures.of_tables(pairs, vocabulary, kinds)
    rows = [records.unit_rows]
    if model is not None:
        rows.append(learned_rows(model, records))
    nobody = NearestRecords.empty(pairs.n_records, DEPTH)
    return SearchedRecords(
        pairs,
        records,
        rules=(),
        blocks=Blocks.of_tables(pairs, ()),
        rows=rows,
        near=[nobody] * len(rows),
        spelling=nobody,
    )


def pairs_of_rows(tables: Tables) -> np.ndarray:
    """Return the numbers of the left and the right record of each row."""
    rows = np.arange(tables.n_left)
    return np.column_stack([rows, rows + tables.n_left])


class Comers(NamedTuple):
    """What comes into lists by one similarity: those of later records, and of earlier ones."""

    of_later: Entries
    of_earlier: Entries


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
        self._n_records = self.n_earlier + len(table.ids)
        tables = earlier.tables.emptied(table, side)
        vocabulary = earlier.records.vocabulary.with_texts(tables.texts())
        kinds = earlier.records.strings.column_kinds
        self._records = RecordFeatures.of_tables(tables, vocabulary, kinds)
        self._blocks = Blocks.of_tables(tables, earlier.rules)
        self._rows = [self._records.unit_rows]
        if model is not None:
            self._rows.append(learned_rows(model, self._records))
        #: By each similarity.
        self._comers = [self._search(number) for number in range(len(self._rows))]

    def _search(self, number: int) -> Comers:
        """Return what comes into lists by a similarity."""
        earlier = self._earlier
        depth = earlier.near[number].neighbors.shape[1]
        first = earlier.searched_range(self._side).start
        # What is to be exceeded: earlier records come first of equal ones.
        worst = np.maximum(earlier.near[number].scores[:, -1], 0.0)
        X = self._rows[number].matrix(self._rows[number].width)
        of_later = [NO_ENTRIES]
        of_earlier = [NO_ENTRIES]
        for start, products in earlier.columns(self._side, number).products(X):
            hits = self._allowed(start, products, earlier.blocks, first)
            enters = hits.where(hits.scores > worst[hits.records])
            of_later.append(_largest(hits, depth))
            of_earlier.append(
                Entries(enters.records, enters.rows + self.n_earlier, enters.scores)
            )
        if earlier.tables.is_single:
            for start, products in Columns(X).products(X):
                hits = self._allowed(start, products, self._blocks, 0)
                hits = _largest(hits.where(hits.rows != hits.records), depth)
                of_later.append(hits._replace(records=hits.records + self.n_earlier))
        every = Entries.joined(*of_later)
        every = every._replace(rows=every.rows + self.n_earlier)
        return Comers(every, Entries.joined(*of_earlier))

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
        is_allowed = products.data > 0.0
        if blocks.has_rules:
            is_allowed &= self._blocks.agree(rows, blocks, records)
        return Entries(rows, records, products.data).where(is_allowed)

    def changed(self) -> np.ndarray:
        """Return the records whose lists are new: later ones, and some earlier ones."""
        is_changed = np.ones(self._n_records, dtype=bool)
        is_changed[: self.n_earlier] = False
        for comers in self._comers:
            is_changed[comers.of_earlier.rows] = True
        return np.flatnonzero(is_changed)

    def meeting(self) -> np.ndarray:
        """Return the earlier records that tell how probable links of later ones are.

        They are those that may be linked with a later one, and all that are near these.
        """
        of_later, of_earlier = self._comers[-1]
        partners = np.concatenate([of_later.records, of_earlier.rows])
        partners = np.unique(partners[partners < self.n_earlier])
        every = [partners, *(comers.of_later.records for comers in self._comers)]
        every += [near.neighbors[partners].ravel() for near in self._earlier.near]
        records = np.unique(np.concatenate(every))
        return records[(records >= 0) & (records < self.n_earlier)]

    def joined(self, kept: np.ndarray, *, for_links: bool) -> Joined:
        """Return some earlier records, in order, together with the later ones.

        The lists of a kept record are whole: their scores too of records that are not
        kept, which have no number. If `for_links`, lists are those that tell how
        probable the links of later records are.
        """
        earlier = self._earlier
        later = np.arange(self.n_earlier, self._n_records)
        order = np.concatenate([kept, later])
        if self._side == "left" and not earlier.tables.is_single:
            is_right = (order >= earlier.tables.n_left) & (order < self.n_earlier)
            order = order[np.argsort(is_right, kind="stable")]
        row_of = np.full(self._n_records + 1, -1)
        row_of[order] = np.arange(len(order))
        searched = SearchedRecords(
            tables=earlier.tables.only(kept).with_later(self._table, self._side),
            records=earlier.records.joined(self._records, order),
            rules=earlier.rules,
            blocks=earlier.blocks.joined(self._blocks, order),
            rows=[],
            near=[
                self._near(number, kept, row_of, len(order))
                for number in range(len(self._rows))
            ],
            spelling=_renumbered(earlier.spelling, kept, row_of, len(order)),
        )
        searched.rows.append(searched.records.unit_rows)
        for rows, rows_of_later in zip(earlier.rows[1:], self._rows[1:], strict=True):
            searched.rows.append(rows.joined(rows_of_later, order))
        changed = row_of[self.changed()]
        changed = np.sort(changed[changed >= 0])
        pairs = searched.by_learned.candidates()
        respelled = changed
        if for_links:
            is_later = np.zeros(len(order), dtype=bool)
            is_later[row_of[later]] = True
            pairs = pairs[is_later[pairs].any(axis=1)]
            respelled = np.intersect1d(changed, pairs)
        searched.compare_spelling(respelled, self._n_jobs)
        return Joined(searched, row_of[:-1], changed, pairs)

    def _near(
        self, number: int, kept: np.ndarray, row_of: np.ndarray, n_rows: int
    ) -> NearestRecords:
        """Return the nearest records by a similarity, of the kept and the later ones."""
        near = self._earlier.near[number]
        lists = _renumbered(near, kept, row_of, n_rows)
        of_later, of_earlier = self._comers[number]
        opened = np.unique(of_earlier.rows)
        before = Entries.of_lists(near.take(opened))
        before = before._replace(rows=opened[before.rows])
        entries = Entries.joined(before, of_earlier, of_later)
        entries = Entries(row_of[entries.rows], row_of[entries.records], entries.scores)
        entries = entries.where((entries.rows >= 0) & (entries.records >= 0))
        rows = np.unique(entries.rows)
        local = entries._replace(rows=np.searchsorted(rows, entries.rows))
        renewed = local.lists(len(rows), near.neighbors.shape[1])
        lists.neighbors[rows] = renewed.neighbors
        lists.scores[rows] = renewed.scores
        return lists


class Joined(NamedTuple):
    """Earlier and later records together.

    Attributes
    ----------
    searched : SearchedRecords
    row_of : ndarray of shape (n_earlier + n_later,)
        The number that each record has in `searched`, -1 where it is not there.
    changed : ndarray
        Records of `searched` whose lists are new.
    pairs : ndarray of shape (n_pairs, 2)
        Candidates; for links, those with a later record.
    """

    searched: SearchedRecords
    row_of: np.ndarray
    changed: np.ndarray
    pairs: np.ndarray


def _largest(hits: Entries, depth: int) -> Entries:
    """Return the entries of each row that may be among its first ones.

    The entries of a row are together.
    """
    bounds = np.flatnonzero(np.diff(hits.rows, prepend=-1, append=-1))
    is_large = np.ones(len(hits.rows), dtype=bool)
    for start, stop in pairwise(bounds.tolist()):
        if stop - start > depth:
            scores = hits.scores[start:stop]
            least = np.partition(scores, -depth)[-depth]
            is_large[start:stop] = scores >= least
    return hits.where(is_large)


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
    searched, _, _, pairs = later.joined(later.meeting(), for_links=True)
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
    searched, row_of, changed, _ = later.joined(np.arange(n_earlier), for_links=False)
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
    own_codes = pairs @ (width, 1)
    position = np.searchsorted(codes[order], own_codes)
    position = order[np.minimum(position, len(order) - 1)] if len(order) else position
    is_changed = np.zeros(width, dtype=bool)
    is_changed[changed] = True
    is_known = ~is_changed[pairs].any(axis=1)
    probability = np.empty(len(pairs))
    probability[is_known] = before.probability[position[is_known]]
    probability[~is_known] = grown.probability(pairs[~is_known], n_jobs)
    grown.candidates = PairProbabilities(pairs, probability)
    return grown
