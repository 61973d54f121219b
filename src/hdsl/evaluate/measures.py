"""One measure per goal: how good a similarity is on data that are held out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .. import search
from ..labels import LabelSets, aligned, overlap
from ..rows import sparse_block
from ..similarity import Similarity
from ..similarity.cosine import COSINE, LearnedCosine, Rewriter
from ..similarity.products import check_result
from ..triplets.grades import count_wins, graded_rows, rows_to_show
from .comparisons import ClickedPairs, ComparedPairs
from .known_items import half_rows, middle_ranks

#: What a model is for.
NEIGHBORS = "neighbors"

COMPARISONS = "comparisons"

SEARCH = "search"

#: Nearest rows that vote, and documents of a search that count, as users are shown.
N_NEIGHBORS = 3

N_DOCUMENTS = 10

#: Most queries that search for known or for judged rows: means of a thousand queries
#: are known to a hundredth.
MOST_QUERIES = 1000

#: Most scores of queries and rows of a search, which takes seconds, or of one that is
#: held in memory, 128 MB; and the fewest queries, whatever that takes.
MOST_SCORES = 2**27

MOST_DENSE_SCORES = 2**24

FEWEST_QUERIES = 50


class Units(NamedTuple):
    """What is measured, one line per held-out row, comparison, query or click.

    Parameters
    ----------
    numbers : ndarray of int of shape (n_lines,)
        The unit of each line: lines of one unit may go wrong together.
    weights : ndarray of shape (n_lines,)
    """

    numbers: np.ndarray
    weights: np.ndarray


class Measure(ABC):
    """How good a similarity is on held-out data: larger is better, from 0 to 1.

    Attributes
    ----------
    name : str
        Its column in ``choice_``.
    title : str
        What it is, for a sentence.
    units : Units
    """

    name: str
    title: str
    units: Units

    @abstractmethod
    def scores(
        self, similarity: Rewriter, rankings: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Return a score per line, by each way to rank rows."""


class NeighborVotes(Measure):
    """Whether the nearest rows of a held-out one vote for its label.

    Parameters
    ----------
    X : csr_array or Rows
        Rows that vote, which models have learned from.
    y : ndarray or LabelSets
    X_held_out, y_held_out
        Rows that no part of a model has seen.
    units : Units
        One line per held-out row.
    """

    name = NEIGHBORS
    title = f"held-out rows whose {N_NEIGHBORS} nearest vote for their label"

    def __init__(
        self, X: Any, y: Any, X_held_out: Any, y_held_out: Any, units: Units
    ) -> None:
        self.units = units
        self._X = X
        self._products = products_between(X_held_out, X)
        if isinstance(y, LabelSets):
            known: Any
            truth: Any
            known, truth = aligned(y, y_held_out)
        else:
            classes, known = np.unique(y, return_inverse=True)
            position = np.searchsorted(classes, y_held_out).clip(max=len(classes) - 1)
            truth = np.where(classes[position] == y_held_out, position, -1)
        self._y: Any = known
        self._truth: Any = truth

    def scores(
        self, similarity: Rewriter, rankings: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Return 1 per row that is right, for several labels the F1 of those voted for."""
        products = self._products(similarity)
        return {
            ranking: self._right(
                nearest(
                    products / lengths_of(similarity, self._X, ranking), N_NEIGHBORS
                )
            )
            for ranking in rankings
        }

    def _right(self, neighbors: np.ndarray) -> np.ndarray:
        """Return how right the vote of the nearest rows is."""
        if isinstance(self._y, LabelSets):
            votes = self._y.votes(neighbors, np.ones(neighbors.shape))
            voted = self._y.voted(votes)
            return np.asarray(overlap(self._truth.indicator, voted.indicator))
        labels = self._y[neighbors]
        counts = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
        # Of classes with equal votes that of the nearest row wins.
        winners = labels[np.arange(len(labels)), counts.argmax(axis=1)]
        return (winners == self._truth).astype(np.float64)


class HeldOutComparisons(Measure):
    """Whether held-out comparisons hold; a tie counts one half.

    Parameters
    ----------
    X : csr_array or Rows
    compared : ndarray of shape (n, 3) or (n, 4)
    units : Units
        One line per comparison.
    """

    name = COMPARISONS
    title = "held-out comparisons that hold"

    def __init__(self, X: Any, compared: np.ndarray, units: Units) -> None:
        self.units = units
        self._pairs = ComparedPairs(X, compared)

    def scores(
        self, similarity: Rewriter, rankings: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Return 1 per comparison that holds, 0.5 per tie, else 0."""
        return self._pairs.points(similarity, rankings)


class HeldOutClicks(Measure):
    """Whether clicked rows are above those shown beside them that were not clicked.

    Parameters
    ----------
    X : csr_array or Rows
    shown : ShownRows
        Held-out events.
    power : float
        Of `position_power`: position r is looked at with a chance of r to minus this.
    unit_of_row : ndarray of int of shape (n_rows,)
        The unit of each query row.
    """

    name = SEARCH
    title = "clicked rows above those shown beside them and not clicked"

    def __init__(
        self, X: Any, shown: Any, power: float, unit_of_row: np.ndarray
    ) -> None:
        self._pairs = ClickedPairs(X, shown, power)
        self.units = Units(unit_of_row[self._pairs.queries], self._pairs.weights)

    def scores(
        self, similarity: Rewriter, rankings: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Return the share of the rows beside each clicked one that are below it."""
        return self._pairs.shares(similarity, rankings)


class JudgedSearch(Measure):
    """nDCG@10 of held-out queries over all documents; what was not judged is not relevant.

    Parameters
    ----------
    X : csr_array or Rows
    documents : ndarray of int
        Rows that a search may show, sorted.
    queries, rows, grades : ndarray of shape (n_judged,)
        Rows of X that search, rows that were judged, and their grades.
    unit_of_row : ndarray of int of shape (n_rows,)
    n_jobs : int or None
    device : str
    """

    name = SEARCH
    title = f"nDCG@{N_DOCUMENTS} of held-out queries over all documents"

    def __init__(
        self,
        X: Any,
        documents: np.ndarray,
        queries: np.ndarray,
        rows: np.ndarray,
        grades: np.ndarray,
        *,
        unit_of_row: np.ndarray,
        n_jobs: int | None = None,
        device: str = "cpu",
    ) -> None:
        is_counted = (grades > 0) & (queries != rows)
        searched, number = np.unique(queries[is_counted], return_inverse=True)
        position = np.searchsorted(documents, rows[is_counted])
        self.units = Units(unit_of_row[searched], np.ones(len(searched)))
        self._X = X
        self._searched = searched
        self._documents = documents
        self._codes = number * np.int64(len(documents)) + position
        order = np.argsort(self._codes)
        self._codes = self._codes[order]
        self._grades = grades[is_counted][order] / grades.max(initial=1e-300)
        self._n_jobs = n_jobs
        self._device = device
        discounts = 1.0 / np.log2(np.arange(2, N_DOCUMENTS + 2))
        by_grade = np.lexsort((-self._grades, number[order]))
        starts = np.searchsorted(number[order], np.arange(len(searched)))
        rank = np.arange(len(by_grade)) - starts[number[order]]
        is_first = rank < N_DOCUMENTS
        gains = self._grades[by_grade] * discounts[rank.clip(max=N_DOCUMENTS - 1)]
        self._best = np.bincount(
            number[order][is_first], gains[is_first], minlength=len(searched)
        )
        self._discounts = discounts

    def scores(
        self, similarity: Rewriter, rankings: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Return the nDCG@10 of each query."""
        queries = similarity.rewrite(self._X[self._searched])
        D = self._X
        if len(self._documents) < D.shape[0]:
            D = D[self._documents]
        scores = {}
        for ranking in rankings:
            rows = similarity
            if ranking == COSINE:
                rows = LearnedCosine(similarity)
            neighbors = search.top_k(
                queries,
                rows.index_rows(D),
                N_DOCUMENTS + 1,
                n_jobs=self._n_jobs,
                device=self._device,
            ).rows
            scores[ranking] = self._quality(neighbors)
        return scores

    def _quality(self, rows: np.ndarray) -> np.ndarray:
        """Return the nDCG of rankings; a query does not find itself."""
        own_positions = np.searchsorted(self._documents, self._searched)
        own_positions = own_positions.clip(max=len(self._documents) - 1)
        is_own = (self._documents[own_positions] == self._searched)[:, None] & (
            rows == own_positions[:, None]
        )
        order = np.argsort(is_own, axis=1, kind="stable")[:, :N_DOCUMENTS]
        rows = np.take_along_axis(rows, order, axis=1)
        is_own = np.take_along_axis(is_own, order, axis=1)
        codes = np.arange(len(rows))[:, None] * np.int64(len(self._documents)) + rows
        position = np.searchsorted(self._codes, codes).clip(max=len(self._codes) - 1)
        is_judged = (self._codes[position] == codes) & (rows >= 0) & ~is_own
        gains = np.where(is_judged, self._grades[position], 0.0)
        return gains @ self._discounts[: rows.shape[1]] / self._best


class KnownRows(Measure):
    """Reciprocal ranks of held-out rows that are searched by half of their features.

    Parameters
    ----------
    X : csr_array or Rows
        All that a search may show.
    rows : ndarray of int
        Rows of X that are searched for.
    units : ndarray of int
        One per such row.
    rng : numpy.random.Generator
        Draws the halves.
    """

    name = "known_rows"
    title = "search for known rows by half of their features (reciprocal rank)"

    def __init__(
        self, X: Any, rows: np.ndarray, units: np.ndarray, rng: np.random.Generator
    ) -> None:
        has_half = np.diff(sparse_block(X).indptr)[rows] >= 2
        rows = rows[has_half]
        units = units[has_half]
        n_most = min(MOST_QUERIES, max(1, MOST_DENSE_SCORES // X.shape[0]))
        if len(rows) > n_most:
            chosen = np.sort(rng.choice(len(rows), n_most, replace=False))
            rows = rows[chosen]
            units = units[chosen]
        self.units = Units(units, np.ones(len(rows)))
        self._X = X
        self._rows = rows
        self._products = products_between(half_rows(X[rows], 0.5, rng), X)

    def scores(
        self, similarity: Rewriter, rankings: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Return 1 / rank of each row, the middle one among ties."""
        products = self._products(similarity)
        return {
            ranking: 1.0
            / middle_ranks(
                products / lengths_of(similarity, self._X, ranking), self._rows
            )
            for ranking in rankings
        }


def search_by_comparisons(
    X: Any,
    compared: np.ndarray,
    weights: np.ndarray | None,
    documents: np.ndarray | None,
    **options: Any,
) -> JudgedSearch | None:
    """Return a search by anchors for the rows that win comparisons; None without such rows.

    The grade of a row is the share of its comparisons with an anchor that it wins. Rows
    that are anchors alone are queries, which no search shows.
    """
    judged = graded_rows(count_wins(compared, weights))
    if not len(judged.rows):
        return None
    if documents is None:
        documents = rows_to_show(compared, X.shape[0])
    return JudgedSearch(
        X, documents, judged.anchors, judged.rows, judged.grades, **options
    )


# --- products of all rows with all rows -----------------------------------------------


def products_between(X: Any, Y: Any) -> Callable[[Rewriter], np.ndarray]:
    """Return a function from a similarity to S(x, y) of all rows, dense.

    Plain products are computed once for all similarities.
    """
    shape = (X.shape[0], Y.shape[0])
    blocks: dict[tuple[int, int | None], tuple[Any, Any]] = {}

    @cache
    def plain_products(columns: tuple[int, int | None]) -> np.ndarray:
        left, right = blocks[columns]
        return search.add_products(left, right, np.zeros(shape))

    def products(similarity: Rewriter) -> np.ndarray:
        scores = np.zeros(shape)
        if isinstance(similarity, Similarity) and similarity.takes_rows_as_they_are:
            for fixed_part in similarity.fixed:
                columns = (fixed_part.start, fixed_part.stop)
                blocks[columns] = (fixed_part.block(X), fixed_part.block(Y))
                if fixed_part.weight:
                    scores += fixed_part.weight * plain_products(columns)
            if similarity.has_directions:
                along = similarity.along_directions(X)
                scores += along @ similarity.along_directions(Y).T
            left = similarity.learned(X)
            right = similarity.learned(Y)
        else:
            left = similarity.rewrite(X)
            right = similarity.index_rows(Y)
        return check_result(search.add_products(left, right, scores), "The similarity")

    return products


def lengths_of(similarity: Rewriter, rows: Any, ranking: str) -> np.ndarray:
    """Return what products with rows are divided by, in one way to rank them."""
    if ranking == COSINE:
        return LearnedCosine(similarity).lengths(rows)
    return np.ones(rows.shape[0])


def nearest(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the columns of the k largest scores of each row, the first of equals first.

    Examples
    --------
    >>> nearest(np.array([[1.0, 3.0, 2.0, 3.0]]), 3).tolist()
    [[1, 3, 2]]
    """
    n = scores.shape[1]
    k = min(k, scores.shape[1])
    n_parts = min(n, 8 * k)
    # k parts have a score from this on, and few other scores are above it.
    largest = np.maximum.reduceat(scores, n * np.arange(n_parts) // n_parts, axis=1)
    least = np.partition(largest, n_parts - k, axis=1)[:, [n_parts - k]]
    row, column = np.nonzero(scores >= least)
    order = np.lexsort((-scores[row, column], row))
    row = row[order]
    column = column[order]
    return column[np.searchsorted(row, np.arange(len(scores)))[:, None] + np.arange(k)]
