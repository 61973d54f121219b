"""An exact top k from an engine that takes no negative weight, with a proof per query.

Let q be a query, q⁺ its positive part, and y a document that is nowhere negative. Then

    ⟨q, y⟩ ≤ ⟨q⁺, y⟩,

so the engine's score of q⁺ is an upper bound of the score of q. The engine returns the
m documents of largest ⟨q⁺, y⟩, with scores s_1 ≥ … ≥ s_m. They are scored again with
the whole q. A document that was not returned scores at most s_m. As soon as the k-th
best of the new scores is no lower than s_m, no other document can be among the best k,
and they are exact. Otherwise m is doubled.

Engines compute in float32. All n terms of t = ⟨q⁺, y⟩ are positive, so the computed
score s obeys
|s - t| ≤ γt with γ = (n + 2)u / (1 - (n + 2)u) and u = 2⁻²⁴: rounding of q and y, the product, and
n - 1 sums, in any order. Hence t ≤ s / (1 - γ), which is below s(1 + 2γ). An engine
that rounds more, as one with 8-bit values does, has |s - t| ≤ γt + slack with a slack
that the user states, and t ≤ s(1 + 2γ) + 2·slack. For the learned cosine each score is
divided by the length ℓ(y) > 0 of its document, and what was not returned scores at most
(s_m(1 + 2γ) + 2·slack) / min ℓ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.parameters import check_number
from ..rows import has_embedding
from .vector_engines import as_sparse, sparse_rows

#: Scores that differ by less, as a share of the largest, are equal.
TIE = 1e-9

#: Rounding to nearest in float32.
UNIT_ROUNDOFF = 2.0**-24

#: What a term can lose where float32 underflows, for values up to 1e7: 2⁻¹²⁶(1 + 2e7).
UNDERFLOW = 1e-30

#: Documents to ask for at first, per document wanted; the number doubles until it is
#: enough.
FIRST = 2

Search = Callable[
    [list[int], list[float], int], tuple[Sequence[Hashable], Sequence[float]]
]


class CertifiedTopK(NamedTuple):
    """Documents with the largest scores, best first; `size` of them are proved per query.

    Parameters
    ----------
    indices : ndarray of shape (n_queries, k)
        Row numbers, or ids as objects. -1 or None past `size`.
    scores : ndarray of shape (n_queries, k)
        -inf past `size`.
    size : ndarray of shape (n_queries,)
    n_candidates : ndarray of shape (n_queries,)
        Documents that were fetched and scored.
    """

    indices: np.ndarray
    scores: np.ndarray
    size: np.ndarray
    n_candidates: np.ndarray


def certified_top_k(
    search: Search,
    queries: Any,
    rows: Any,
    k: int,
    slack: float = 0.0,
    *,
    lengths: Any = None,
    max_candidates: int | None = None,
    verify: bool = True,
) -> CertifiedTopK:
    """Return the exact k best documents from an engine that may refuse negative weights.

    The engine ranks by the positive part of a query, which bounds every score from
    above, since documents have no negative values. Its results are scored again with
    the full query, and the engine is asked for more until no other document can be
    among the best k.

    Parameters
    ----------
    search : callable
        ``search(indices, values, m)`` returns the ids and the scores of the m documents
        with the largest dot products with a query of positive weights, best first;
        fewer only if all others share no feature with it. Scores may have the rounding
        of float32. An approximate index gives no exact answer.
    queries : array-like or sparse matrix of shape (n_queries, n_features)
        Such as ``model.rewrite(X)``.
    rows : array-like or sparse matrix of shape (n_documents, n_features), or callable
        The documents, without negative values; ids are then row numbers. Or
        ``rows(ids)``, which returns the rows of a list of ids; ids are then of any
        hashable type.
    k : int
    slack : float, default=0.0
        How far a score of the engine may be from the dot product beyond the rounding of
        float32. An engine that stores rounded values needs it.
    lengths : array-like of shape (n_documents,) or mapping of ids, default=None
        Divide each score by the number of its document: ``model.lengths(Y)`` for the
        learned cosine, if the engine holds ``model.index_rows(Y)`` and queries are
        ``model.rewrite(X, cosine=True)``.
    max_candidates : int, default=None
        Maximum number of documents that the engine returns at once. None is no limit.
    verify : bool, default=True
        If `rows` is a matrix, check each answer of `search` against all of it, and
        raise ValueError if a document is missing. If `rows` is a callable, missing
        documents cannot be detected.

    Returns
    -------
    CertifiedTopK
        ``indices``, ``scores``, ``size``, ``n_candidates``. `size` is below k if there
        are fewer documents, or if fewer are proved where `rows` is a callable:
        `max_candidates` was too small, or all others share no feature with the positive
        part of the query, so that their scores are at most 0. Of equal scores any
        document may be the one that is left out.

    Raises
    ------
    ValueError
        If queries or rows have an embedding beside their features, a document has a
        negative value, an id is unknown or returned twice, scores
        are not sorted, a score is not that of the document (another vocabulary, other
        rows, a rounding above `slack`), or with `verify` if a document is missing.

    Examples
    --------
    >>> documents = np.array([[1.0, 1.0], [0.9, 0.0], [0.0, 1.0]])
    >>> def search(indices, values, m):                 # an engine
    ...     scores = documents[:, indices] @ values
    ...     best = np.argsort(-scores, kind="stable")[:m]
    ...     return best, scores[best]
    >>> best = certified_top_k(search, [[1.0, -0.5]], documents, k=1)
    >>> best.indices.tolist(), best.scores.tolist(), best.n_candidates.tolist()
    ([[1]], [[0.9]], [3])
    """
    owner = "certified_top_k"
    check_number(owner, "k", k, low=1, integer=True)
    check_number(owner, "slack", slack, low=0)
    check_number(
        owner, "max_candidates", max_candidates, low=k, integer=True, words=(None,)
    )
    for X in (queries, rows):
        _check_no_embedding(X)
    queries = as_sparse(queries, "queries").astype(np.float64, copy=False)
    documents = HeldDocuments(rows, lengths, queries.shape[1])
    answer = _empty_answer(queries.shape[0], int(k), documents.are_numbered)
    for number, (features, weights) in enumerate(sparse_rows(queries)):
        query = _Query(np.array(features, dtype=np.int64), np.array(weights))
        run = _Run(search, documents, query, slack)
        best = run.best(int(k), max_candidates, verify)
        answer.size[number] = len(best)
        answer.n_candidates[number] = run.n_candidates
        for rank, (document, score) in enumerate(best):
            answer.indices[number, rank] = document
            answer.scores[number, rank] = score
    return answer


def _check_no_embedding(X: Any) -> None:
    """Raise ValueError where rows have an embedding."""
    if has_embedding(X):
        raise ValueError(
            "certified_top_k does not take an embedding: its values may be negative, "
            "so the positive part of a query is not a bound of the score. Search "
            "with hdsl.search.top_k, which takes hdsl.Rows and is exact."
        )


def _empty_answer(n_queries: int, k: int, are_numbered: bool) -> CertifiedTopK:
    """Return an answer without a document."""
    nothing = None
    if are_numbered:
        nothing = -1
    return CertifiedTopK(
        indices=np.full((n_queries, k), nothing),
        scores=np.full((n_queries, k), -np.inf),
        size=np.zeros(n_queries, dtype=np.int64),
        n_candidates=np.zeros(n_queries, dtype=np.int64),
    )


class _Products(NamedTuple):
    """The dot products of rows with the positive part of a query, and with the whole."""

    bounds: np.ndarray
    scores: np.ndarray


class _Query(NamedTuple):
    """The features of a query, in rising order, and their weights."""

    features: np.ndarray
    weights: np.ndarray

    def positive_part(self) -> tuple[list[int], list[float]]:
        """Return the features with a positive weight, and their weights."""
        positive = self.weights > 0
        return self.features[positive].tolist(), self.weights[positive].tolist()

    def products(self, X: sp.csr_array) -> _Products:
        """Return the dot products of rows with the query."""
        n = X.shape[0]
        if not len(self.features) or not X.nnz:
            return _Products(np.zeros(n), np.zeros(n))
        last = len(self.features) - 1
        position = np.minimum(np.searchsorted(self.features, X.indices), last)
        is_queried = self.features[position] == X.indices
        terms = np.where(is_queried, X.data * self.weights[position], 0.0)
        row = np.repeat(np.arange(n), np.diff(X.indptr))
        return _Products(
            bounds=np.bincount(row, np.maximum(terms, 0.0), n),
            scores=np.bincount(row, terms, n),
        )


class _Precision(NamedTuple):
    """How far a score s of an engine may be from the dot product t.

    |s - t| is at most relative · max(s, t) + slack.
    """

    relative: float
    slack: float

    @classmethod
    def of_terms(cls, n_terms: int, slack: float) -> _Precision:
        """Return the precision of a sum in float32, and of what else the engine rounds."""
        rounding = (n_terms + 2) * UNIT_ROUNDOFF
        return cls(
            relative=2.0 * rounding / (1.0 - rounding),
            slack=slack + UNDERFLOW * n_terms,
        )

    def largest_product(self, score: float) -> float:
        """Return the most that a dot product can be whose score is at most this."""
        return score * (1.0 + self.relative) + 2.0 * self.slack

    def check(self, ids: list[Any], scores: np.ndarray, products: np.ndarray) -> None:
        """Raise ValueError unless the scores are those of the documents."""
        if not len(ids):
            return
        errors = np.abs(scores - products)
        excess = errors - self.relative * np.maximum(scores, products)
        worst = int(excess.argmax())
        if excess[worst] > self.slack:
            raise ValueError(
                f"search gives document {ids[worst]!r} the score {scores[worst]:.9g}, "
                f"but its row gives {products[worst]:.9g}. The engine may hold other "
                "rows or another vocabulary; if it rounds, state how much: "
                f"slack={excess[worst]:.2g} or more."
            )


class _Run:
    """One query: asks the engine, scores what it returns, and decides whether that is enough."""

    def __init__(
        self, search: Search, documents: HeldDocuments, query: _Query, slack: float
    ) -> None:
        self._search = search
        self._documents = documents
        self._query = query
        self._features, self._values = query.positive_part()
        self._precision = _Precision.of_terms(len(self._values), slack)
        #: Scores of all candidates, by id, in the order of arrival.
        self._scores: dict[Any, float] = {}
        #: Their scores by the positive part.
        self._bounds: dict[Any, float] = {}
        #: No document outside the candidates scores more.
        self._bound = np.inf

    @property
    def n_candidates(self) -> int:
        """The number of documents that were fetched and scored."""
        return len(self._scores)

    def best(
        self, k: int, max_candidates: int | None, verify: bool
    ) -> list[tuple[Any, float]]:
        """Return ids and scores of the documents that are proved to be the best, at most k."""
        limits = [n for n in (max_candidates, self._documents.n) if n is not None]
        limit = min([*limits, np.inf])
        n_wanted = int(min(FIRST * k, limit))
        while True:
            is_last = self._ask(n_wanted) or n_wanted >= limit
            if is_last or self._n_proved() >= k:
                break
            n_wanted = int(min(2 * n_wanted, limit))
        if self._documents.X is not None:
            self._complete(self._documents.X, k, verify)
        candidates = self._ranked()[:k]
        return [(item, score) for item, score in candidates if score >= self._bound]

    def _n_proved(self) -> int:
        """Return how many candidates score as much as any other document can."""
        return sum(score >= self._bound for score in self._scores.values())

    def _ranked(self) -> list[tuple[Any, float]]:
        """Return the candidates, best first; of equals the smaller row, or the first to arrive."""
        candidates = list(self._scores.items())
        if self._documents.are_numbered:
            candidates.sort()
        return sorted(candidates, key=lambda candidate: -candidate[1])

    def _ask(self, n_wanted: int) -> bool:
        """Ask for the best documents and score the new ones; return whether there are no others."""
        if n_wanted == 0:
            self._bound = -np.inf
            return True
        if not self._values:
            self._bound = 0.0
            return True
        answer = _checked_answer(
            self._search(list(self._features), list(self._values), n_wanted)
        )
        self._score([item for item in answer.ids if item not in self._scores])
        bounds = np.array([self._bounds[item] for item in answer.ids])
        self._precision.check(answer.ids, answer.scores, bounds)
        if len(self._scores) == self._documents.n:
            self._bound = -np.inf
            return True
        # The engine gives what it did not return no higher score than the last.
        is_full = len(answer.ids) >= n_wanted
        last_score = 0.0
        if is_full:
            last_score = max(float(answer.scores[-1]), 0.0)
        self._bound = (
            self._precision.largest_product(last_score) / self._documents.shortest
        )
        return not is_full

    def _score(self, ids: list[Any]) -> None:
        """Fetch documents and make them candidates."""
        products = self._query.products(self._documents.rows_of(ids))
        scores = products.scores / self._documents.lengths_of(ids)
        self._bounds.update(zip(ids, products.bounds.tolist(), strict=True))
        self._scores.update(zip(ids, scores.tolist(), strict=True))

    def _complete(self, X: sp.csr_array, k: int, verify: bool) -> None:
        """Add rows that the engine did not return and that the best k need; check it."""
        is_short = self._n_proved() < k
        if not (verify or is_short) or self._bound == -np.inf:
            return
        products = self._query.products(X)
        is_other = np.ones(X.shape[0], dtype=bool)
        is_other[list(self._scores)] = False
        others = np.flatnonzero(is_other)
        if len(others):
            self._check_left_out(others, products.bounds[others])
        if is_short:
            # The engine has no others, or no more can be asked for: these are scored
            # without it.
            scores = products.scores[others] / self._documents.lengths_of(
                others.tolist()
            )
            best = np.lexsort((others, -scores))[:k]
            self._scores.update(
                zip(others[best].tolist(), scores[best].tolist(), strict=True)
            )
            self._bound = -np.inf

    def _check_left_out(self, rows: np.ndarray, bounds: np.ndarray) -> None:
        """Raise ValueError if the engine left out a row that must be among the first."""
        limit = self._bound * self._documents.shortest
        largest = int(bounds.argmax())
        if bounds[largest] > limit:
            raise ValueError(
                f"search left out row {rows[largest]}: the positive part of the query "
                f"gives it {bounds[largest]:.6g}, and missing rows can have at most "
                f"{limit:.6g}. An exact answer needs an engine that returns all of "
                "the best."
            )


class _Answer(NamedTuple):
    """Ids and scores of documents, best first."""

    ids: list[Any]
    scores: np.ndarray


def _checked_answer(answer: Any) -> _Answer:
    """Return what a search returned; raise ValueError if it is no ranking."""
    try:
        ids, scores = answer
        ids = _as_list(ids)
        scores = np.asarray(scores, dtype=np.float64)
        n_different = len(set(ids))
    except (TypeError, ValueError):
        raise ValueError(
            "search(indices, values, m) must return two sequences, hashable ids "
            f"and scores. Got {answer!r:.200} instead."
        ) from None
    if scores.shape != (len(ids),) or not np.isfinite(scores).all():
        raise ValueError(
            f"search returned {len(ids)} ids and scores of shape {scores.shape}: "
            "one finite score per id is expected."
        )
    rises = np.flatnonzero(scores[1:] > scores[:-1])
    if len(rises):
        before_rise = scores[rises[0]]
        after_rise = scores[rises[0] + 1]
        raise ValueError(
            "search returned scores that are not sorted, best first: "
            f"{before_rise:.6g}, then {after_rise:.6g}. Some engines return "
            "distances or negative products: change their sign and sort."
        )
    if n_different < len(ids):
        twice, _ = Counter(ids).most_common(1)[0]
        raise ValueError(f"search returned the id {twice!r} twice.")
    return _Answer(ids, scores)


def _as_list(ids: Any) -> list[Any]:
    """Return ids as a list, those of an array as plain numbers."""
    if isinstance(ids, np.ndarray):
        return ids.tolist()
    return list(ids)


# --- the documents of an engine -------------------------------------------------------


class HeldDocuments:
    """Rows that are nowhere negative, by id, and their lengths.

    Parameters
    ----------
    rows : array-like or sparse matrix of shape (n_documents, n_features), or callable
        As `certified_top_k` takes them.
    lengths : array-like of shape (n_documents,), mapping of ids, or None
    n_features : int
        Of the queries.

    Attributes
    ----------
    X : csr_array of shape (n_documents, n_features) or None
        All rows; None where they are fetched.
    shortest : float
        The least length, 1 without lengths.
    """

    def __init__(self, rows: Any, lengths: Any, n_features: int) -> None:
        self.n_features = n_features
        self.X: sp.csr_array | None = None
        self._fetch = None
        if callable(rows):
            self._fetch = rows
        else:
            self.X = self._checked(rows, "rows")
        self._lengths = lengths
        self.shortest = 1.0
        if lengths is not None:
            values = self._checked_lengths(lengths)
            self.shortest = float(values.min(initial=np.inf))
            if not isinstance(lengths, Mapping):
                self._lengths = values

    @property
    def are_numbered(self) -> bool:
        """Whether ids are row numbers."""
        return self.X is not None

    @property
    def n(self) -> int | None:
        """The number of documents, None where it is not known."""
        if self.X is not None:
            return self.X.shape[0]
        if self._lengths is not None:
            return len(self._lengths)
        return None

    def _checked(self, rows: Any, name: str) -> sp.csr_array:
        """Return rows in float64; raise ValueError if a value is negative."""
        X = as_sparse(rows, name).astype(np.float64, copy=False)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"queries has {self.n_features} features and {name} has {X.shape[1]}: "
                "they must be the same features, in the same order."
            )
        if X.nnz and X.data.min() < 0:
            entry = int(X.data.argmin())
            row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
            raise ValueError(
                f"{name}[{row}, {X.indices[entry]}] is {X.data[entry]:.3g}: documents "
                "must not have negative values, or the positive part of a query is "
                "not an upper bound. Use an engine that takes negative weights."
            )
        return X

    def _checked_lengths(self, lengths: Any) -> np.ndarray:
        """Return the lengths as a vector; raise ValueError unless all are positive."""
        if isinstance(lengths, Mapping):
            lengths = list(lengths.values())
        values = np.asarray(lengths, dtype=np.float64)
        expected = values.shape[:1]
        if self.X is not None:
            expected = self.X.shape[:1]
        are_positive = np.isfinite(values) & (values > 0)
        if values.shape != expected or not are_positive.all():
            raise ValueError(
                "lengths must be positive finite numbers, one per document, as "
                f"model.lengths(Y) returns them. Got shape {values.shape}, and "
                f"{expected} is expected."
            )
        return values

    def rows_of(self, ids: list[Any]) -> sp.csr_array:
        """Return the rows of some ids."""
        if not ids:
            return sp.csr_array((0, self.n_features))
        if self.X is not None:
            _check_row_numbers(ids, self.X.shape[0])
            return self.X[np.array(ids, dtype=np.int64)]
        assert self._fetch is not None
        try:
            rows = self._fetch(ids)
        except LookupError as error:
            raise ValueError(
                f"search returned an id that rows(ids) does not know ({error!r}): the "
                "engine holds other documents."
            ) from error
        X = self._checked(rows, "rows(ids)")
        if X.shape[0] != len(ids):
            raise ValueError(
                f"rows(ids) returned {X.shape[0]} rows for {len(ids)} ids: one row per "
                "id, in their order, is expected."
            )
        return X

    def lengths_of(self, ids: list[Any]) -> np.ndarray:
        """Return the lengths of some ids; 1 without lengths."""
        if self._lengths is None:
            return np.ones(len(ids))
        try:
            return np.array([self._lengths[item] for item in ids], dtype=np.float64)
        except LookupError as error:
            raise ValueError(
                "lengths has no number for a document that search returned "
                f"({error!r})."
            ) from error


def _check_row_numbers(ids: list[Any], n_rows: int) -> None:
    """Raise ValueError unless all ids are row numbers."""
    for item in ids:
        is_number = isinstance(item, int | np.integer) and not isinstance(item, bool)
        if not is_number or not 0 <= item < n_rows:
            raise ValueError(
                f"search returned the id {item!r}, but rows has the rows 0 to "
                f"{n_rows - 1}: return row numbers, or pass a function rows(ids)."
            )


# --- the share of an exact answer -----------------------------------------------------


def recall_at(found: Any, exact: Any, scores: Any = None) -> float:
    """Return the recall of the exact best k; ties count as equal.

    Parameters
    ----------
    found : sequence of n_queries sequences of ids
        At most k ids per query; further ones, None and -1 do not count.
    exact : Neighbors or CertifiedTopK
        The exact answers: ``rows`` or ``indices`` of shape (n_queries, k), and
        ``scores``.
    scores : array-like of shape (n_queries, n_found), default=None
        The exact scores of the documents found. A document outside `exact` with the
        same score as its last one counts as found. Without scores only ids count.

    Returns
    -------
    float
        Over all queries. 1.0 if there is nothing to find.

    Examples
    --------
    >>> from hdsl.search import top_k
    >>> X = np.array([[1.0], [2.0], [1.0]])
    >>> exact = top_k(np.array([[1.0]]), X, k=2)
    >>> recall_at([[1, 2]], exact), recall_at([[1, 2]], exact, [[2.0, 1.0]])
    (0.5, 1.0)
    """
    if not hasattr(exact, "scores"):
        raise ValueError(
            f"exact must be an answer of top_k or certified_top_k. Got {exact!r:.80}."
        )
    if hasattr(exact, "indices"):
        exact_ids = exact.indices
    else:
        exact_ids = exact.rows
    if len(found) != len(exact_ids):
        raise ValueError(
            f"There are {len(found)} answers, but {len(exact_ids)} exact ones."
        )
    n_found = 0
    n_exact = 0
    for query, ids in enumerate(found):
        size = int(exact.size[query])
        if size == 0:
            continue
        n_exact += size
        best = set(exact_ids[query][:size].tolist())
        positions = _first_positions(list(ids)[:size])
        if scores is not None:
            least = _least_equal_score(exact.scores[query][:size])
            best |= {
                item
                for item, position in positions.items()
                if scores[query][position] >= least
            }
        n_found += len(positions.keys() & best)
    if n_exact == 0:
        return 1.0
    return n_found / n_exact


def _first_positions(ids: list[Any]) -> dict[Any, int]:
    """Return where each id stands first; None and -1 are no ids."""
    positions: dict[Any, int] = {}
    for position, item in enumerate(ids):
        if item is not None and item != -1:
            positions.setdefault(item, position)
    return positions


def _least_equal_score(scores: np.ndarray) -> float:
    """Return the least score that equals the last one, up to rounding."""
    largest = float(np.abs(scores).max())
    return float(scores[-1]) - TIE * largest
