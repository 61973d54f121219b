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

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..input.parameters import check_number
from .rows import as_sparse, sparse_rows

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
    above, since documents are nowhere negative. What it returns is scored again with
    the whole query, and the engine is asked for more until no other document can be
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
        learned cosine, where the engine holds ``model.index_rows(Y)`` and queries are
        ``model.rewrite(X, cosine=True)``.
    max_candidates : int, default=None
        Most documents that the engine returns at once. None is no limit.
    verify : bool, default=True
        Where `rows` is a matrix, check each answer of `search` against all of it, and
        raise ValueError if a document is missing that must be there. Where `rows` is a
        callable, an engine that leaves documents out cannot be detected.

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
        If a document has a negative value, an id is unknown or returned twice, scores
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
    queries = as_sparse(queries, "queries").astype(np.float64, copy=False)
    documents = _Documents(rows, lengths, queries.shape[1])
    n = queries.shape[0]
    k = int(k)
    indices = np.full((n, k), -1) if documents.X is not None else np.full((n, k), None)
    found = CertifiedTopK(
        indices, np.full((n, k), -np.inf), *np.zeros((2, n), dtype=np.int64)
    )
    for q, (features, weights) in enumerate(sparse_rows(queries)):
        run = _Run(
            search,
            documents,
            np.array(features, dtype=np.int64),
            np.array(weights),
            slack,
        )
        best = run.best(k, max_candidates, verify)
        found.size[q] = len(best)
        found.n_candidates[q] = run.n_candidates
        for place, (one, score) in enumerate(best):
            found.indices[q, place] = one
            found.scores[q, place] = score
    return found


class _Documents:
    """The documents, by id, and their lengths."""

    def __init__(self, rows: Any, lengths: Any, n_features: int) -> None:
        self.n_features = n_features
        self._fetch = rows
        self.X = None if callable(rows) else self._check(rows, "rows")
        self.lengths = lengths
        self.shortest = 1.0
        if lengths is not None:
            is_mapping = isinstance(lengths, Mapping)
            values = np.asarray(
                list(lengths.values()) if is_mapping else lengths, dtype=np.float64
            )
            shape = values.shape[:1] if self.X is None else self.X.shape[:1]
            if values.shape != shape or not (np.isfinite(values) & (values > 0)).all():
                raise ValueError(
                    "lengths must be positive finite numbers, one per document, as "
                    f"model.lengths(Y) returns them. Got shape {values.shape}, and "
                    f"{shape} is expected."
                )
            self.lengths = lengths if is_mapping else values
            self.shortest = float(values.min(initial=np.inf))
        #: How many there are; None if not known.
        self.n: int | None = None
        if self.X is not None or self.lengths is not None:
            self.n = len(self.lengths) if self.X is None else self.X.shape[0]

    def _check(self, rows: Any, name: str) -> sp.csr_array:
        X = as_sparse(rows, name).astype(np.float64, copy=False)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"queries has {self.n_features} features and {name} has {X.shape[1]}: "
                "they must be the same features, in the same order."
            )
        if X.nnz and X.data.min() < 0:
            at = int(X.data.argmin())
            row = int(np.searchsorted(X.indptr, at, side="right")) - 1
            raise ValueError(
                f"{name}[{row}, {X.indices[at]}] is {X.data[at]:.3g}: documents must "
                "be nowhere negative, or the positive part of a query is no upper "
                "bound. Use an engine that takes negative weights."
            )
        return X

    def rows_of(self, ids: list[Any]) -> sp.csr_array:
        """Return the rows of some ids."""
        if not ids:
            return sp.csr_array((0, self.n_features))
        if self.X is not None:
            n = self.X.shape[0]
            for one in ids:
                is_number = isinstance(one, int | np.integer) and not isinstance(
                    one, bool
                )
                if not is_number or not 0 <= one < n:
                    raise ValueError(
                        f"search returned the id {one!r}, but rows has the rows 0 to "
                        f"{n - 1}: return row numbers, or pass a function rows(ids)."
                    )
            return self.X[np.array(ids, dtype=np.int64)]
        try:
            rows = self._fetch(ids)
        except LookupError as error:
            raise ValueError(
                f"search returned an id that rows(ids) does not know ({error!r}): the "
                "engine holds other documents."
            ) from error
        X = self._check(rows, "rows(ids)")
        if X.shape[0] != len(ids):
            raise ValueError(
                f"rows(ids) returned {X.shape[0]} rows for {len(ids)} ids: one row per "
                "id, in their order, is expected."
            )
        return X

    def lengths_of(self, ids: list[Any]) -> Any:
        """Return the lengths of some ids; 1 without lengths."""
        if self.lengths is None:
            return 1.0
        try:
            return np.array([self.lengths[one] for one in ids], dtype=np.float64)
        except LookupError as error:
            raise ValueError(
                "lengths has no number for a document that search returned "
                f"({error!r})."
            ) from error


class _Run:
    """One query: asks the engine, scores what it returns, and decides whether that is enough."""

    def __init__(
        self,
        search: Search,
        documents: _Documents,
        features: np.ndarray,
        weights: np.ndarray,
        slack: float,
    ) -> None:
        self._search = search
        self._documents = documents
        self._query = features, weights
        positive = weights > 0
        self._features = features[positive].tolist()
        self._values = weights[positive].tolist()
        self._slack = slack + UNDERFLOW * len(self._values)
        terms = (len(self._values) + 2) * UNIT_ROUNDOFF
        self._rounding = 2.0 * terms / (1.0 - terms)
        self._scores: dict[
            Any, float
        ] = {}  # of every candidate, in the order of arrival
        self._bounds: dict[Any, float] = {}  # their scores by the positive part
        #: No document outside the candidates scores more.
        self._bound = np.inf

    @property
    def n_candidates(self) -> int:
        return len(self._scores)

    def best(
        self, k: int, max_candidates: int | None, verify: bool
    ) -> list[tuple[Any, float]]:
        """Return ids and scores of the documents that are proved to be the best, at most k."""
        most = min(
            n for n in (np.inf, max_candidates, self._documents.n) if n is not None
        )
        m = int(min(FIRST * k, most))
        while True:
            is_last = self._ask(m) or m >= most
            ranked = self._ranked()
            if is_last or (len(ranked) >= k and ranked[k - 1][1] >= self._bound):
                break
            m = int(min(2 * m, most))
        if self._documents.X is not None:
            self._complete(k, verify)
            ranked = self._ranked()
        return [(one, score) for one, score in ranked[:k] if score >= self._bound]

    def _ranked(self) -> list[tuple[Any, float]]:
        """Return the candidates, best first; of equals the smaller row, or the first to arrive."""
        items = self._scores.items()
        by_id = items if self._documents.X is None else sorted(items)
        return sorted(by_id, key=lambda item: -item[1])

    def _ask(self, m: int) -> bool:
        """Ask for m documents and score the new ones; return whether there are no others."""
        if not self._values or m == 0:
            self._bound = 0.0 if m else -np.inf
            return True
        ids, scores = self._read(
            self._search(list(self._features), list(self._values), m)
        )
        new = [one for one in ids if one not in self._scores]
        bounds, found = self._products(self._documents.rows_of(new))
        self._bounds.update(zip(new, bounds.tolist(), strict=True))
        self._check_scores(ids, scores, np.array([self._bounds[one] for one in ids]))
        found = found / self._documents.lengths_of(new)
        self._scores.update(zip(new, found.tolist(), strict=True))
        if self._documents.n is not None and len(self._scores) == self._documents.n:
            self._bound = -np.inf
            return True
        # The most that ⟨q⁺, y⟩ can be where the engine has a lower score than the last.
        last = max(float(scores[-1]), 0.0) if len(ids) >= m else 0.0
        limit = last * (1.0 + self._rounding) + 2.0 * self._slack
        self._bound = limit / self._documents.shortest
        return len(ids) < m

    def _products(self, X: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
        """Return the dot products of rows with the positive part and with the whole query."""
        features, weights = self._query
        n = X.shape[0]
        if not len(features) or not X.nnz:
            return np.zeros(n), np.zeros(n)
        place = np.minimum(np.searchsorted(features, X.indices), len(features) - 1)
        products = np.where(features[place] == X.indices, X.data * weights[place], 0.0)
        row = np.repeat(np.arange(n), np.diff(X.indptr))
        return np.bincount(row, np.maximum(products, 0.0), n), np.bincount(
            row, products, n
        )

    def _read(self, answer: Any) -> tuple[list[Any], np.ndarray]:
        try:
            ids, scores = answer
            ids = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
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
            at = int(rises[0])
            raise ValueError(
                "search returned scores that are not sorted, best first: "
                f"{scores[at]:.6g}, then {scores[at + 1]:.6g}. Some engines return "
                "distances or negative products: change their sign and sort."
            )
        if n_different < len(ids):
            twice, _ = Counter(ids).most_common(1)[0]
            raise ValueError(f"search returned the id {twice!r} twice.")
        return ids, scores

    def _check_scores(
        self, ids: list[Any], scores: np.ndarray, bounds: np.ndarray
    ) -> None:
        """Raise ValueError unless the scores are those of the documents."""
        off = np.abs(scores - bounds) - self._rounding * np.maximum(scores, bounds)
        worst = int(off.argmax()) if len(off) else 0
        if len(off) and off[worst] > self._slack:
            raise ValueError(
                f"search gives document {ids[worst]!r} the score {scores[worst]:.9g}, "
                f"but its row gives {bounds[worst]:.9g}. The engine may hold other "
                "rows or another vocabulary; if it rounds, state how much: "
                f"slack={off[worst]:.2g} or more."
            )

    def _complete(self, k: int, verify: bool) -> None:
        """Add rows that the engine did not return and that the best k need; check it."""
        X = self._documents.X
        assert X is not None
        is_short = sum(score >= self._bound for score in self._scores.values()) < k
        if not (verify or is_short) or self._bound == -np.inf:
            return
        bounds, scores = self._products(X)
        bounds[list(self._scores)] = -np.inf
        limit = self._bound * self._documents.shortest
        missing = int(bounds.argmax()) if len(bounds) else 0
        if len(bounds) and bounds[missing] > limit:
            raise ValueError(
                f"search left out row {missing}: the positive part of the query gives "
                f"it {bounds[missing]:.6g}, and what is left out can have at most "
                f"{limit:.6g}. An exact answer needs an engine that returns all of the "
                "best."
            )
        if is_short:
            # The engine has no others, or no more can be asked for: these are scored
            # here.
            others = np.flatnonzero(bounds > -np.inf)
            scores = scores[others] / self._documents.lengths_of(others.tolist())
            best = np.lexsort((others, -scores))[:k]
            self._scores.update(
                zip(others[best].tolist(), scores[best].tolist(), strict=True)
            )
            self._bound = -np.inf


def recall_at(found: Any, exact: Any, scores: Any = None) -> float:
    """Return the share of the exact best k that was found; ties count as equal.

    Parameters
    ----------
    found : sequence of n_queries sequences of ids
        At most k ids per query; further ones, None and -1 do not count.
    exact : Neighbors or CertifiedTopK
        The exact answers: ``rows`` or ``indices`` of shape (n_queries, k), and
        ``scores``.
    scores : array-like of shape (n_queries, n_found), default=None
        The exact scores of what was found. A document that is not in `exact` and scores
        as much as the last of it counts as found. Without them only ids count.

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
    wanted = exact.indices if hasattr(exact, "indices") else exact.rows
    if len(found) != len(wanted):
        raise ValueError(
            f"There are {len(found)} answers, but {len(wanted)} exact ones."
        )
    n_right = n_wanted = 0
    for q, (ids, right) in enumerate(zip(found, wanted.tolist(), strict=True)):
        size = int(exact.size[q])
        if size == 0:
            continue
        right = set(right[:size])
        last = float(exact.scores[q][size - 1])
        first: dict[Any, int] = {}  # one that comes twice is found once
        for place, one in enumerate(list(ids)[:size]):
            first.setdefault(one, place)
        close = last - 1e-9 * max(
            abs(last), float(np.abs(exact.scores[q][:size]).max())
        )
        n_right += sum(
            one in right
            or (scores is not None and one != -1 and scores[q][place] >= close)
            for one, place in first.items()
            if one is not None
        )
        n_wanted += size
    return n_right / n_wanted if n_wanted else 1.0
