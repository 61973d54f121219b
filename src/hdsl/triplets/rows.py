"""Comparisons, triplets or quadruplets: those of some rows, and each of them once."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..input.labels import check_comparisons, check_weights
from ..input.matrices import INDEX_LIMIT
from ..relevance import Relevance

#: What people said: comparisons of rows, grades of documents, or clicks on what was shown.
COMPARISONS = "comparisons"

JUDGED = "judged"

CLICKS = "clicks"


class ShownRows(NamedTuple):
    """Documents shown for queries: one line per row of an event, in the order shown.

    Parameters
    ----------
    events : ndarray of shape (n_lines,)
        Numbers of events, from 0; lines of an event are consecutive.
    queries, rows : ndarray of shape (n_lines,)
        Rows of X.
    positions : ndarray of shape (n_lines,)
        Ranks from 1, as in the log, or the order of the lines.
    are_clicked : ndarray of bool of shape (n_lines,)
    """

    events: np.ndarray
    queries: np.ndarray
    rows: np.ndarray
    positions: np.ndarray
    are_clicked: np.ndarray

    def take(self, chosen: np.ndarray) -> "ShownRows":
        """Return some of the lines, chosen by a mask or by numbers."""
        return ShownRows(*(column[chosen] for column in self))


@dataclass(frozen=True, eq=False, repr=False)
class Judgements:
    """Judgements of people, as comparisons and in their own form, for ``fit``.

    Pass them to ``HDSL().fit(judgements)`` if they have rows, else to ``HDSL().fit(X,
    triplets=judgements)``. They unpack into ``triplets, weights``.

    Parameters
    ----------
    triplets : ndarray of shape (n_triplets, 3) or (n_quadruplets, 4)
    weights : ndarray of shape (n_triplets,), or None if all weigh the same
    X : csr_array or Rows of shape (n_rows, n_features), default=None
        Documents, then queries that are not documents.
    kind : {"comparisons", "judged", "clicks"}
        What ``goal="auto"`` follows: comparisons that should hold, or a search by
        judged or by clicked queries.
    groups : ndarray of shape (n_triplets,), default=None
        Comparisons of one group are held out together. None groups them by anchor.
    n_documents : int, default=None
        Number of rows, the first ones, that a search may return. None is all.
    grades : Relevance, default=None
        Query row, document row and grade of each judgement, as row numbers of X.
    shown : ShownRows, default=None
        Documents shown and clicked, as row numbers of X.
    query_names : sequence of str, default=None
        Texts or ids of the rows of X after the documents.
    """

    triplets: np.ndarray
    weights: np.ndarray | None = None
    X: Any = None
    kind: str = COMPARISONS
    groups: np.ndarray | None = None
    n_documents: int | None = None
    grades: Relevance | None = None
    shown: ShownRows | None = None
    query_names: Any = None

    def __iter__(self) -> Iterator[Any]:
        yield self.triplets
        yield self.weights

    def __len__(self) -> int:
        return len(self.triplets)

    def __repr__(self) -> str:
        n_judgements, width = self.triplets.shape
        weights = "weighted"
        if self.weights is None:
            weights = "all of one weight"
        rows = ""
        if self.X is not None:
            n_rows, n_features = self.X.shape
            rows = f" of {n_rows:,} rows with {n_features:,} features"
        kind = "" if self.kind == COMPARISONS else f"{self.kind}, "
        return f"<Judgements: {kind}{n_judgements:,} of {width} rows each, {weights}{rows}>"

    def renumbered(self, position: np.ndarray) -> "Judgements":
        """Return the judgements with new row numbers, without rows and documents."""
        grades = self.grades
        if grades is not None:
            grades = grades._replace(
                queries=position[grades.queries], documents=position[grades.documents]
            )
        shown = self.shown
        if shown is not None:
            shown = shown._replace(
                queries=position[shown.queries], rows=position[shown.rows]
            )
        return replace(
            self,
            triplets=position[self.triplets],
            X=None,
            n_documents=None,
            grades=grades,
            shown=shown,
            query_names=None,
        )

    def of_rows(self, is_kept: np.ndarray) -> "Judgements":
        """Return the judgements of some rows, chosen by a mask and renumbered."""
        is_inside = is_kept[self.triplets].all(axis=1)
        grades = self.grades
        if grades is not None:
            judged = is_kept[grades.queries] & is_kept[grades.documents]
            grades = type(grades)(*(column[judged] for column in grades))
        shown = self.shown
        if shown is not None:
            shown = shown.take(is_kept[shown.queries] & is_kept[shown.rows])
        inside = replace(
            self,
            triplets=self.triplets[is_inside],
            weights=None if self.weights is None else self.weights[is_inside],
            groups=None if self.groups is None else self.groups[is_inside],
            grades=grades,
            shown=shown,
        )
        kept = inside.renumbered(np.cumsum(is_kept) - 1)
        if self.X is not None:
            kept = kept.with_rows(self.X[is_kept])
        if self.n_documents is None:
            return kept
        names = self.query_names
        if names is not None:
            names = np.asarray(names)[is_kept[self.n_documents :]]
        n_documents = int(is_kept[: self.n_documents].sum())
        return replace(kept, n_documents=n_documents, query_names=names)

    def take(self, chosen: np.ndarray) -> "Judgements":
        """Return the comparisons of a mask, and the rows shown for their anchors."""
        triplets = self.triplets[chosen]
        shown = self.shown
        if shown is not None:
            shown = shown.take(np.isin(shown.queries, triplets[:, 0]))
        return replace(
            self,
            triplets=triplets,
            weights=None if self.weights is None else self.weights[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            shown=shown,
        )

    def with_rows(self, X: Any) -> "Judgements":
        """Return the same judgements with the rows that they number."""
        return replace(self, X=X)


def restrict(
    triplets: np.ndarray, rows: np.ndarray, n_rows: int, weights: Any = None
) -> Any:
    """Return the triplets or quadruplets whose rows are all in `rows`, renumbered to it.

    Parameters
    ----------
    triplets : ndarray of shape (n_triplets, 3) or (n_quadruplets, 4)
        Row numbers.
    rows : ndarray of shape (n_kept,)
        Rows to keep, in their new order; or a mask of shape (n_rows,).
    n_rows : int
        Number of rows `triplets` refers to.
    weights : ndarray of shape (n_triplets,), default=None

    Returns
    -------
    ndarray of shape (n_inside, 3) or (n_inside, 4), or Judgements
        With weights, both the triplets and their weights.

    Examples
    --------
    >>> restrict(np.array([[0, 1, 2], [3, 1, 2]]), np.array([2, 1, 0]), n_rows=4).tolist()
    [[2, 1, 0]]
    >>> restrict(np.array([[0, 1, 2, 1], [0, 1, 2, 3]]), np.array([2, 1, 0]), n_rows=4).tolist()
    [[2, 1, 0, 1]]
    """
    rows = np.asarray(rows)
    triplets = np.asarray(triplets)
    if rows.dtype == bool and len(rows) == n_rows:
        rows = np.flatnonzero(rows)
    for name, numbers in (("rows", rows), ("triplets", triplets)):
        if numbers.size and not _are_row_numbers(numbers, n_rows):
            raise ValueError(
                f"{name} must number rows from 0 to {n_rows - 1}. Got {numbers}."
            )
    rows = rows.astype(np.int64)  # no rows are floats
    if triplets.ndim != 2:
        triplets = triplets.reshape(-1, 3)
    triplets = triplets.astype(np.int64)
    position = np.full(n_rows, -1)
    position[rows] = np.arange(len(rows))
    renumbered = position[triplets]
    inside = (renumbered >= 0).all(axis=1)
    if weights is None:
        return renumbered[inside]
    return Judgements(renumbered[inside], np.asarray(weights)[inside])


def _are_row_numbers(numbers: np.ndarray, n_rows: int) -> bool:
    """Return whether an array holds numbers of rows."""
    if numbers.dtype.kind not in "iu":
        return False
    return bool(((numbers >= 0) & (numbers < n_rows)).all())


def deduplicate(triplets: Any, weights: Any = None, *, net: bool = False) -> Judgements:
    """Return each triplet or quadruplet once with the sum of its weights, by first appearance.

    Parameters
    ----------
    triplets : array-like of int of shape (n_triplets, 3) or (n_quadruplets, 4)
        A similarity is symmetric, so (a, b, c, d), (b, a, c, d) and (a, b, d, c) are
        the same quadruplet. It is returned with a <= b and c <= d.
    weights : array-like of shape (n_triplets,), default=None
        None means 1 each: the sum is a count.
    net : bool, default=False
        Whether opposites, (a, b, c) and (a, c, b) or (a, b, c, d) and (c, d, a, b),
        cancel each other: the heavier one is kept with the difference of the weights,
        and neither if the weights are equal.

    Returns
    -------
    Judgements

    Examples
    --------
    >>> T, weights = deduplicate([[0, 1, 2], [0, 2, 1], [0, 1, 2]])
    >>> T.tolist(), weights.tolist()
    ([[0, 1, 2], [0, 2, 1]], [2.0, 1.0])
    >>> deduplicate([[0, 1, 2], [0, 2, 1], [0, 1, 2]], net=True).triplets.tolist()
    [[0, 1, 2]]
    >>> deduplicate([[0, 1, 2, 3], [1, 0, 3, 2]]).triplets.tolist()
    [[0, 1, 2, 3]]
    """
    array = check_comparisons(triplets, INDEX_LIMIT)
    kind = "triplet"
    opposite = [0, 2, 1]
    if array.shape[1] == 4:
        kind = "quadruplet"
        opposite = [2, 3, 0, 1]
        array = np.sort(array.reshape(-1, 2, 2), axis=2).reshape(-1, 4)
    weights = check_weights(weights, len(array), kind)
    if weights is None:
        weights = np.ones(len(array))
    if net:
        # Of two opposites, both are counted as the one that sorts first.
        turned = array[:, opposite]
        column = (array != turned).argmax(axis=1)[:, None]
        flip = (np.take_along_axis(array - turned, column, axis=1) > 0)[:, 0]
        array = np.where(flip[:, None], turned, array)
        weights = np.where(flip, -weights, weights)
    order, first = group_equal_rows(array)
    total = np.add.reduceat(weights[order], first)
    by_appearance = np.argsort(order[first])
    unique = array[order[first[by_appearance]]]
    total = total[by_appearance]
    if net:
        unique = np.where((total < 0)[:, None], unique[:, opposite], unique)
        unique = unique[total != 0]
        total = np.abs(total[total != 0])
    return Judgements(unique, total)


def group_equal_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an order that sorts rows, and where each group of equal rows starts in it.

    The order is stable. Rows hold non-negative integers.
    """
    width = [int(w) for w in rows.max(axis=0, initial=0) + 1]
    if math.prod(width) < 2**63:  # sorting one number per row is three times as fast
        key = np.ravel_multi_index(tuple(rows.T), width)
        order = np.argsort(key, kind="stable")
        differs = np.diff(key[order]) != 0
    else:
        order = np.lexsort(rows.T[::-1])
        differs = (np.diff(rows[order], axis=0) != 0).any(axis=1)
    return order, np.flatnonzero(np.concatenate([[len(rows) > 0], differs]))
