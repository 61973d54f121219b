"""Records grouped into entities: the things that they stand for."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import (
    connected_components,
    min_weight_full_bipartite_matching,
)

from ..input.errors import short
from ..printable import frame_of
from .results import html_of_columns, text_of_columns

#: Records that hang together by links: up to so many, all their pairs are looked at.
#: Beyond, pairs that are no candidates count as different.
MAX_COMPARED = 30

#: A value in the matching must not be 0.
TINY = 1e-9


class Entities(NamedTuple):
    """The entity of each record.

    Attributes
    ----------
    table : ndarray of str of shape (n_records,)
        "left" or "right"; "left" if there is one table.
    record : ndarray of shape (n_records,)
        Its id, or row number.
    entity : ndarray of int of shape (n_records,)
        The number of the entity, that of its oldest record.
    probability : ndarray of shape (n_records,)
        Mean probability of the record's pairs with the other records of its entity; 1
        for a single record.
    """

    table: np.ndarray
    record: np.ndarray
    entity: np.ndarray
    probability: np.ndarray

    def to_frame(self) -> Any:
        """Return the records as a pandas DataFrame."""
        return frame_of(self._asdict())

    def __repr__(self) -> str:
        return text_of_columns(self._asdict(), len(self.record))

    def _repr_html_(self) -> str:
        return html_of_columns(self._asdict(), len(self.record))


class Changes(NamedTuple):
    """Merged and split entities.

    Attributes
    ----------
    merged : dict of int to list of int
        Entities, each with the earlier ones that it was made of.
    split : dict of int to list of int
        Earlier entities, each with the ones that it became.
    """

    merged: dict[int, list[int]]
    split: dict[int, list[int]]


def entity_changes(earlier: Any, later: Any) -> Changes:
    """Return which entities were merged or split from one grouping to a later one.

    Records in only one grouping do not count.

    Parameters
    ----------
    earlier, later : Entities, DataFrame or mapping of columns
        As `Linker.entities` returns them.

    Returns
    -------
    Changes

    Examples
    --------
    >>> earlier = {"table": ["left"] * 3, "record": ["a", "b", "c"], "entity": [0, 1, 2]}
    >>> entity_changes(earlier, earlier | {"entity": [0, 0, 2]}).merged
    {0: [0, 1]}
    """
    entity_before = _entity_of_record(earlier)
    merged = defaultdict(set)
    split = defaultdict(set)
    for record, entity in _entity_of_record(later).items():
        if record in entity_before:
            merged[entity].add(entity_before[record])
            split[entity_before[record]].add(entity)
    return Changes(merged=_several(merged), split=_several(split))


def _entity_of_record(entities: Any) -> dict[tuple[str, str], int]:
    columns = entities
    if isinstance(entities, Entities):
        columns = entities._asdict()
    elif not hasattr(entities, "keys") and not hasattr(entities, "columns"):
        raise TypeError(
            "entity_changes takes what Linker.entities returns, or columns table, "
            f"record and entity. Got {short(entities)}."
        )
    records = zip(map(str, columns["table"]), map(str, columns["record"]), strict=True)
    numbers = [_entity_number(value) for value in columns["entity"]]
    return dict(zip(records, numbers, strict=True))


def _entity_number(value: Any) -> int:
    """Return the number of an entity; raise ValueError where it is none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"An entity must be a whole number, as Linker.entities numbers them. Got "
            f"{short(value)}."
        ) from None


def _several(groups: dict[int, set[int]]) -> dict[int, list[int]]:
    return {
        entity: sorted(others)
        for entity, others in sorted(groups.items())
        if len(others) > 1
    }


class PairProbabilities(NamedTuple):
    """Probabilities of pairs of records; of other pairs they are 0."""

    pairs: np.ndarray
    probability: np.ndarray

    def take(self, numbers: np.ndarray) -> PairProbabilities:
        """Return some of the pairs, by numbers or by a mask."""
        return PairProbabilities(self.pairs[numbers], self.probability[numbers])


def components(pairs: np.ndarray, n_records: int) -> np.ndarray:
    """Return the number of the group of each record that pairs hold together.

    Examples
    --------
    >>> components(np.array([[0, 1], [1, 3]]), n_records=4).tolist()
    [0, 0, 1, 0]
    """
    ends = (pairs[:, 0], pairs[:, 1])
    graph = sp.coo_array((np.ones(len(pairs)), ends), shape=(n_records, n_records))
    _, groups = connected_components(graph, directed=False)
    return groups


def pairs_within(groups: np.ndarray, is_left: np.ndarray) -> np.ndarray:
    """Return the comparable pairs within each group that is not large.

    Parameters
    ----------
    groups : ndarray of shape (n_records,)
    is_left : ndarray of bool of shape (n_records,)
        Records of the left table, which are not compared with each other; all are left
        if there is one table.
    """
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    members = np.split(order, np.cumsum(sizes)[:-1])
    every = [np.zeros((0, 2), dtype=np.int64)]
    for number in np.flatnonzero((sizes > 2) & (sizes <= MAX_COMPARED)).tolist():
        first, second = np.triu_indices(sizes[number], k=1)
        records = np.sort(members[number])
        every.append(np.column_stack([records[first], records[second]]))
    pairs = np.concatenate(every)
    if is_left.all():
        return pairs
    return pairs[is_left[pairs[:, 0]] != is_left[pairs[:, 1]]]


def group_records(
    known: PairProbabilities, is_left: np.ndarray, threshold: float
) -> np.ndarray:
    """Return the number of the group of each record.

    Pairs merge groups, the most probable pair first. A single record joins a group by
    one pair. Two groups of several records are merged only if the mean probability of
    all pairs between them reaches the threshold, so that one wrong link does not chain
    them together.

    Parameters
    ----------
    known : PairProbabilities
        Each pair once.
    is_left : ndarray of bool of shape (n_records,)
        As in `pairs_within`.
    threshold : float

    Examples
    --------
    >>> pairs = np.array([[0, 1], [1, 2], [2, 3]])
    >>> known = PairProbabilities(pairs, np.array([0.9, 0.6, 0.9]))
    >>> group_records(known, np.ones(4, dtype=bool), 0.5).tolist()
    [0, 0, 2, 2]
    """
    return _Grouping(known, is_left).merged(threshold)


class _Grouping:
    """Groups of records that are merged, numbered by one of their records."""

    def __init__(self, known: PairProbabilities, is_left: np.ndarray) -> None:
        n_records = len(is_left)
        self._known = known
        self._is_single = bool(is_left.all())
        self._group = list(range(n_records))
        self._members = [[record] for record in range(n_records)]
        self._n_left = is_left.astype(int).tolist()
        self._sums: list[dict[int, float]] = [{} for _ in range(n_records)]
        for (first, second), probability in zip(
            known.pairs.tolist(), known.probability.tolist(), strict=True
        ):
            self._sums[first][second] = probability
            self._sums[second][first] = probability

    def merged(self, threshold: float) -> np.ndarray:
        """Merge the groups of pairs that reach the threshold, and return all groups."""
        order = np.argsort(-self._known.probability, kind="stable")
        is_link = self._known.probability[order] >= threshold
        for first, second in self._known.pairs[order[is_link]].tolist():
            group = self._group[first]
            other = self._group[second]
            if group != other and self._belong_together(group, other, threshold):
                self._merge(group, other)
        return np.array(self._group)

    def _belong_together(self, first: int, second: int, threshold: float) -> bool:
        """Return whether a link between two groups is enough to merge them."""
        if len(self._members[first]) == 1 or len(self._members[second]) == 1:
            return True
        mean = self._sums[first][second] / self._n_compared(first, second)
        return mean >= threshold

    def _n_compared(self, first: int, second: int) -> int:
        """Return how many pairs between two groups can be compared."""
        n_first = len(self._members[first])
        n_second = len(self._members[second])
        if self._is_single:
            return n_first * n_second
        left_first = self._n_left[first]
        left_second = self._n_left[second]
        by_first = left_first * (n_second - left_second)
        by_second = left_second * (n_first - left_first)
        return by_first + by_second

    def _merge(self, first: int, second: int) -> None:
        """Move the records of the smaller group to the larger one."""
        if len(self._members[first]) < len(self._members[second]):
            first, second = second, first
        for record in self._members[second]:
            self._group[record] = first
        self._members[first] += self._members[second]
        self._n_left[first] += self._n_left[second]
        self._members[second] = []
        sums = self._sums[first]
        for other, value in self._sums[second].items():
            del self._sums[other][second]
            if other != first:
                sums[other] = sums.get(other, 0.0) + value
                self._sums[other][first] = sums[other]
        self._sums[second] = {}


def belonging(
    known: PairProbabilities, groups: np.ndarray, is_left: np.ndarray
) -> np.ndarray:
    """Return the mean probability of each record's pairs with the others of its group.

    Records without such a pair have 1.
    """
    n_records = len(groups)
    is_inside = groups[known.pairs[:, 0]] == groups[known.pairs[:, 1]]
    pairs = known.pairs[is_inside]
    weights = np.repeat(known.probability[is_inside], 2)
    sums = np.bincount(pairs.ravel(), weights, n_records)
    sizes = np.bincount(groups, minlength=n_records)[groups]
    n_left = np.bincount(groups[is_left], minlength=n_records)[groups]
    n_others = np.where(is_left, sizes - n_left, n_left)
    if is_left.all():
        n_others = sizes - 1
    return np.where(n_others > 0, sums / np.maximum(n_others, 1), 1.0)


def first_free(pairs: np.ndarray) -> np.ndarray:
    """Return the numbers of the pairs whose records are in no pair chosen before.

    Examples
    --------
    >>> first_free(np.array([[0, 1], [1, 2], [2, 3]])).tolist()
    [0, 2]
    """
    taken: set[int] = set()
    chosen = []
    for number, pair in enumerate(pairs.tolist()):
        if taken.isdisjoint(pair):
            taken.update(pair)
            chosen.append(number)
    return np.array(chosen, dtype=np.int64)


def best_assignment(pairs: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Return which pairs of left and right records have the largest sum of worth.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        At least one.
    worth : ndarray of shape (n_pairs,)
        0 or more.

    Returns
    -------
    ndarray of bool of shape (n_pairs,)

    Examples
    --------
    >>> pairs = np.array([[0, 5], [0, 6], [1, 5]])
    >>> best_assignment(pairs, np.array([0.9, 0.8, 0.7])).tolist()
    [False, True, True]
    """
    _, left = np.unique(pairs[:, 0], return_inverse=True)
    _, right = np.unique(pairs[:, 1], return_inverse=True)
    # Each left record has a column of its own, which stands for no match.
    unmatched = np.arange(left.max() + 1)
    rows = np.concatenate([left, unmatched])
    columns = np.concatenate([right, right.max() + 1 + unmatched])
    values = np.concatenate([worth + TINY, np.full(len(unmatched), TINY)])
    # SciPy takes indices of 32 bits only.
    ends = (rows.astype(np.int32), columns.astype(np.int32))
    table = sp.csr_array((values, ends))
    _, column_of_row = min_weight_full_bipartite_matching(table, maximize=True)
    return column_of_row[left] == right
