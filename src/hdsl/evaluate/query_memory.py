"""The memory of judged queries is chosen here: each known query in turn is a new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..printable import Columns
from ..relevance import Relevance
from ..rows import unit_rows
from ..search import top_k
from ..similarity.cosine import PlainCosine, as_rewriter, ranked_by, ranking_of
from ..similarity.products import products
from ..similarity.query_memory import (
    CHOICE,
    SAME_QUERY,
    SCORES_AT_A_TIME,
    QueryMemory,
    closeness,
    smoothed,
)
from ..triplets.rows import ShownRows
from .comparisons import DEEPEST, checked_rows, position_power
from .gains import Gains, best_of_walks, honest_gain, inflation_of_turns, interval_of

#: The weight of the memory is such a share of S: what it adds to its best document, as
#: a share of the S of the best document, in the mean over the known queries.
SHARES = (0.125, 0.25, 0.5, 1.0, 2.0)

#: The larger the power, the fewer known queries count.
POWERS = (1.0, 2.0, 4.0, 8.0, 16.0)

#: Documents that count, as in nDCG@10.
N_COUNTED = 10

#: Most known queries that are searched with in turn: the standard error of their nDCG
#: is then below 0.02.
MOST_MEASURED = 500


def remember(
    queries: Any,
    documents: Any,
    relevant: Sequence[Any],
    *,
    model: Any = None,
    names: Sequence[str] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> QueryMemory:
    """Return the memory of judged queries, with the best weight and power.

    Each known query searches as if it were new: without its own judgements and those of
    equal queries. The weight and power with the largest expected gain of nDCG@10 are
    taken, as for a model (docs/choosing.md); the weight is 0 if all are expected to
    lose. The interval of the gain is of queries that were left out of the choice.

    Parameters
    ----------
    queries : array-like or sparse matrix of shape (n_queries, n_features)
    documents : array-like or sparse matrix of shape (n_documents, n_features)
    relevant : sequence of n_queries collections of ints, or mappings of ints to grades
        Numbers of the relevant documents, as for `compare_searches`.
    model : HDSL, Similarity, default=None
        Ranks the documents; None is the cosine. Weight and power are chosen beside the
        plain cosine, since the model may have learned from the same judgements; the
        scale is that of the model.
    names : sequence of str of length n_queries, default=None
        Texts or ids of the queries, all different.
    random_state : int, default=0
        Draws the queries to measure if there are more than 500.
    n_jobs : int, default=None

    Returns
    -------
    QueryMemory
        Its ``choice`` has all candidates.

    Examples
    --------
    >>> queries = [[1.0, 0.1, 0], [1.0, 0, 0.1], [0.1, 1.0, 0], [0, 1.0, 0.1]]
    >>> documents = np.eye(3)[[2, 1, 0]]
    >>> memory = remember(queries, documents, [{0}, {0}, {0}, {0}])
    >>> memory.choice["chosen"].sum().item()
    1
    """
    Q = checked_rows(model, queries)
    D = checked_rows(model, documents)
    relevance = as_relevance(relevant)
    known = PlainCosine(model).rewrite(Q)
    memory = QueryMemory(
        known, relevance, D.shape[0], weight=0.0, power=1.0, names=names
    )
    searched = None
    if model is not None:
        rewriter = as_rewriter(model, D.shape[1], "model")
        ranked = ranked_by(ranking_of(model), rewriter)
        judged = np.unique(relevance.queries[relevance.grades > 0])
        searched = (ranked.rewrite(Q[judged]), ranked.index_rows(D))
    return choose_memory(
        memory,
        PlainCosine(model).index_rows(D),
        searched=searched,
        random_state=random_state,
        n_jobs=n_jobs,
    )


def as_relevance(relevant: Sequence[Any]) -> Relevance:
    """Return collections of documents, or mappings to grades, one per query, as columns.

    Examples
    --------
    >>> as_relevance([{4: 2.0}, [1]]).documents.tolist()
    [4, 1]
    """
    lines = []
    for query, documents in enumerate(relevant):
        grades = documents
        if not hasattr(documents, "items"):
            grades = dict.fromkeys(documents, 1.0)
        lines += [(query, document, grade) for document, grade in grades.items()]
    columns = np.array(lines, dtype=np.float64).reshape(-1, 3).T
    return Relevance(columns[0].astype(int), columns[1].astype(int), columns[2])


def choose_memory(
    memory: QueryMemory,
    documents: Any,
    *,
    searched: tuple[Any, Any] | None = None,
    own_rows: np.ndarray | None = None,
    shown: tuple[np.ndarray, np.ndarray] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> QueryMemory:
    """Return a memory with the weight and power that find most for its queries in turn.

    Parameters
    ----------
    memory : QueryMemory
        Its weight and power do not count.
    documents : csr_array, ndarray or Rows of shape (n_documents, n_features)
        At unit length.
    searched : tuple, default=None
        The queries of the memory and the documents as a model ranks them, whose dot
        products are S; the weight is in its scale. None is the plain cosine.
    own_rows : ndarray of shape (n_queries,), default=None
        The document that a known query is itself, and never finds; -1 is none.
    shown : tuple, default=None
        Of clicks: known queries and the documents that were shown for them, two arrays.
        Only these are ranked, since nothing is known of others. None ranks all.
    random_state : int, default=0
    n_jobs : int, default=None
    """
    searches = _SearchesInTurn.of(
        memory, documents, own_rows, shown, random_state, n_jobs
    )
    without = searches.ndcgs(None, 0.0)
    before = float(without.mean())
    lines = [(0.0, 1.0, 0.0, before, 0.0, 0.0, 0.0)]
    walks: list[Gains] = []
    for power in POWERS:
        best = searches.best_remembered(power)
        if best == 0.0:
            continue
        unit = searches.best_similarity / best
        of_queries = (searches.ndcgs(power, unit) - without).T
        walks.append(searches.gains(of_queries))
        for share, gain_of_queries in zip(SHARES, of_queries.T, strict=True):
            gain = interval_of(searches.gains(gain_of_queries[:, None]))
            weight = share * unit
            lines.append((share, power, weight, before + gain.mean, *gain))
    table = np.array(lines)
    best_row = 0
    if walks:
        walk, number = best_of_walks(walks)
        if number >= 0:
            best_row = 1 + walk * len(SHARES) + number
            table[best_row, 4:] = honest_gain(walks)
    scale = 1.0
    if searched is not None and best_row > 0:
        scale = searches.best_score(*searched, n_jobs)
        scale /= searches.best_similarity
    table[:, 2] *= scale
    share, power, weight, *_ = table[best_row]
    chosen = np.arange(len(table)) == best_row
    columns = dict(zip(CHOICE, table.T.copy(), strict=False))
    chosen_memory = copy(memory)
    chosen_memory.weight = float(weight)
    chosen_memory.power = float(power)
    chosen_memory.density = searches.density(float(power))
    chosen_memory.choice = Columns({**columns, "chosen": chosen})
    return chosen_memory


def clicked_relevance(shown: ShownRows) -> Relevance:
    """Return clicks over looks as grades of rows for queries, at most 1.

    A position is looked at with the chance that `position_power` estimates. One look
    without a click is added, so that few looks say little.

    Examples
    --------
    >>> lines = np.zeros(2, dtype=int), np.zeros(2, dtype=int), np.array([5, 7])
    >>> shown = ShownRows(*lines, np.array([1.0, 2.0]), np.array([False, True]))
    >>> relevance = clicked_relevance(shown)
    >>> relevance.documents.tolist(), relevance.grades.round(2).tolist()
    ([7], [0.67])
    """
    pairs = np.column_stack([shown.queries, shown.rows])
    unique_pairs, number = np.unique(pairs, axis=0, return_inverse=True)
    number = number.ravel()
    clicks = np.bincount(number, shown.are_clicked)
    chances = np.minimum(shown.positions, DEEPEST) ** -position_power(shown)
    looks = np.bincount(number, chances)
    grades = np.minimum(clicks / (looks + 1.0), 1.0)
    is_clicked = grades > 0
    return Relevance(
        unique_pairs[is_clicked, 0], unique_pairs[is_clicked, 1], grades[is_clicked]
    )


class _SearchesInTurn(NamedTuple):
    """Known queries that search as if they were new.

    Parameters
    ----------
    measured : ndarray of shape (n_measured,)
        Their numbers.
    similarities : ndarray of shape (n_measured, n_queries)
        With the known queries, 0 with themselves.
    shares : csr_array of shape (n_queries, n_judged)
        What is remembered, of documents that were judged or shown.
    grades : csr_array of shape (n_measured, n_judged)
    of_judged : ndarray of shape (n_measured, n_judged)
        The cosines with these documents.
    of_others : ndarray of shape (n_measured, 10)
        The largest cosines with other documents; minus infinity is none.
    best : ndarray of shape (n_measured,)
        The largest possible discounted gain.
    own_rows : ndarray of shape (n_measured,)
        The document that the query is; -1 is none.
    """

    measured: np.ndarray
    similarities: np.ndarray
    shares: sp.csr_array
    grades: sp.csr_array
    of_judged: np.ndarray
    of_others: np.ndarray
    best: np.ndarray
    own_rows: np.ndarray

    @classmethod
    def of(
        cls,
        memory: QueryMemory,
        documents: Any,
        own_rows: np.ndarray | None,
        shown: tuple[np.ndarray, np.ndarray] | None,
        random_state: int,
        n_jobs: int | None,
    ) -> _SearchesInTurn:
        """Return the searches of a memory's queries among documents."""
        measured = np.arange(memory.n_queries)
        if len(measured) > MOST_MEASURED:
            rng = np.random.default_rng(random_state)
            measured = np.sort(rng.choice(measured, MOST_MEASURED, replace=False))
        own_row_of_query = np.full(memory.n_queries, -1)
        if own_rows is not None:
            own_row_of_query = own_rows
        queries = memory.queries[measured]
        similarities = memory.similarities(queries)
        similarities[similarities >= SAME_QUERY] = 0.0
        similarities[np.arange(len(measured)), measured] = 0.0
        numbers = memory.documents
        if shown is not None:
            numbers = np.union1d(numbers, shown[1])
        columns = np.searchsorted(numbers, memory.relevance.documents)
        grades = sp.csr_array(
            (memory.relevance.grades, (memory.relevance.queries, columns)),
            shape=(memory.n_queries, len(numbers)),
        )
        own_measured = own_row_of_query[measured]
        of_judged = np.array(products(queries, documents[numbers]), dtype=np.float64)
        of_judged[numbers[None, :] == own_measured[:, None]] = -np.inf
        others = np.full((len(measured), N_COUNTED), -np.inf)
        if shown is None:
            others = _nearest_others(queries, documents, numbers, own_measured, n_jobs)
        else:
            is_shown = np.zeros((memory.n_queries, len(numbers)), dtype=bool)
            is_shown[shown[0], np.searchsorted(numbers, shown[1])] = True
            of_judged[~is_shown[measured]] = -np.inf
        return cls(
            measured=measured,
            similarities=similarities,
            shares=unit_rows(grades),
            grades=grades[measured],
            of_judged=of_judged,
            of_others=others,
            best=_best_gains(grades[measured]),
            own_rows=own_measured,
        )

    def gains(self, of_queries: np.ndarray) -> Gains:
        """Return gains by query, each of which searched by the memory of all others.

        Nothing is learned by steps here: the first is as likely to lose as to gain.
        """
        n = len(of_queries)
        inflation = inflation_of_turns(n, 1.0 / max(2, n))
        return Gains(of_queries, np.ones(n), inflation, first_step=0.0)

    @property
    def best_similarity(self) -> float:
        """The mean cosine of the best document of a query."""
        judged = self.of_judged.max(axis=1, initial=-np.inf)
        best = np.maximum(judged, self.of_others[:, 0])
        return float(best[np.isfinite(best)].mean())

    def remembered(self, power: float) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield what is remembered for a few queries at a time, in units of the weight."""
        density = self.density(power)
        step = max(1, SCORES_AT_A_TIME // max(1, self.of_judged.shape[1]))
        for start in range(0, len(self.measured), step):
            rows = slice(start, start + step)
            weights = closeness(self.similarities[rows], power)
            weights = smoothed(weights, weights.sum(axis=1), density)
            yield rows, np.asarray(weights @ self.shares)

    def density(self, power: float) -> float:
        """Return the sum of the weights of known queries, in the mean over the others."""
        return float(closeness(self.similarities, power).sum(axis=1).mean())

    def best_remembered(self, power: float) -> float:
        """Return the mean of what is remembered for the best document of a query."""
        largest = [
            remembered.max(axis=1, initial=0.0)
            for _, remembered in self.remembered(power)
        ]
        return float(np.concatenate(largest).mean())

    def ndcgs(self, power: float | None, unit: float) -> Any:
        """Return the nDCG@10 of each query for each share; without a power, of S alone."""
        if power is None:
            return self._ndcg(slice(None), self.of_judged)
        ndcgs = np.empty((len(SHARES), len(self.measured)))
        for rows, remembered in self.remembered(power):
            for number, share in enumerate(SHARES):
                scores = self.of_judged[rows] + share * unit * remembered
                ndcgs[number, rows] = self._ndcg(rows, scores)
        return ndcgs

    def _ndcg(self, rows: slice, of_judged: np.ndarray) -> np.ndarray:
        """Return the nDCG@10 of some queries by their scores of judged documents."""
        scores = np.hstack([of_judged, self.of_others[rows]])
        grades = np.zeros_like(scores)
        grades[:, : of_judged.shape[1]] = self.grades[rows].toarray()
        k = min(N_COUNTED, scores.shape[1])
        first = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        first_scores = np.take_along_axis(scores, first, axis=1)
        order = np.lexsort((first, -first_scores))
        first = np.take_along_axis(first, order, axis=1)
        gains = np.take_along_axis(grades, first, axis=1) @ _discounts(k)
        return np.asarray(gains / self.best[rows])

    def best_score(self, queries: Any, documents: Any, n_jobs: int | None) -> float:
        """Return the mean S of the best document of a query, as a model ranks."""
        neighbors = top_k(queries[self.measured], documents, 2, n_jobs=n_jobs)
        is_own = neighbors.rows[:, 0] == self.own_rows
        best = np.where(is_own, neighbors.scores[:, -1], neighbors.scores[:, 0])
        return float(best[np.isfinite(best)].mean())


def _nearest_others(
    queries: Any,
    documents: Any,
    judged: np.ndarray,
    own_rows: np.ndarray,
    n_jobs: int | None,
) -> np.ndarray:
    """Return the ten largest cosines of each query with documents that were not judged."""
    nearest = np.full((len(own_rows), N_COUNTED), -np.inf)
    is_other = np.ones(documents.shape[0], dtype=bool)
    is_other[judged] = False
    numbers = np.flatnonzero(is_other)
    if not len(numbers):
        return nearest
    neighbors = top_k(queries, documents[numbers], N_COUNTED + 1, n_jobs=n_jobs)
    is_own = numbers[neighbors.rows] == own_rows[:, None]
    scores = np.where(is_own, -np.inf, neighbors.scores)
    ordered = -np.sort(-scores, axis=1)[:, :N_COUNTED]
    nearest[:, : ordered.shape[1]] = ordered
    return nearest


def _discounts(k: int) -> np.ndarray:
    """Return 1 / log2(1 + rank) of the first k ranks."""
    return np.asarray(1.0 / np.log2(np.arange(2, k + 2)))


def _best_gains(grades: sp.csr_array) -> np.ndarray:
    """Return the largest possible discounted gain of each query."""
    best = np.empty(grades.shape[0])
    for row in range(grades.shape[0]):
        values = grades.data[grades.indptr[row] : grades.indptr[row + 1]]
        largest = np.sort(values)[::-1][:N_COUNTED]
        best[row] = largest @ _discounts(len(largest))
    return best
