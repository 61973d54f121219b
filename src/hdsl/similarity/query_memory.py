"""Memory of judged queries: what was judged relevant for known queries like a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..files import container
from ..files.container import Arrays, get_array, get_value
from ..input.errors import first_few, short
from ..neighbor_lists import Neighbors
from ..printable import Columns
from ..relevance import Relevance
from ..rows import Rows, is_pair, sparse_block, stack_rows, unit_rows
from ..search import top_k
from .products import products, row_products

#: Scores that are computed at a time, 32 MB.
SCORES_AT_A_TIME = 2**22

#: Rows in float32 are at unit length up to this.
LENGTH_TOLERANCE = 1e-3

#: Larger powers of a cosine are 0 for all but equal queries.
MOST_POWER = 64.0

#: Queries of a larger cosine are the same query.
SAME_QUERY = 1.0 - 1e-6

#: Columns of what was tried, as `hdsl.evaluate.remember` has them.
CHOICE = (
    "share",
    "power",
    "weight",
    "ndcg",
    "gain",
    "gain_low",
    "gain_high",
    "chosen",
)


class Remembered(NamedTuple):
    """A known query for which a document was judged relevant.

    Parameters
    ----------
    query : str
        The name of the known query.
    similarity : float
        Its cosine with the query that searches.
    grade : float
    value : float
        Its contribution to S of the query and the document.
    """

    query: str
    similarity: float
    grade: float
    value: float

    def __str__(self) -> str:
        return f'judged relevant for "{self.query}", a query like this ({self.similarity:.2f})'


class QueryMemory:
    """Documents judged relevant for known queries, which rank higher for similar queries.

    It adds m(q, d) = weight · √(s / (s + density)) · Σ_k w_k r(k, d) / s to S(q, d),
    with w_k = max(⟨q, k⟩, 0)^power for the cosine of a query q and a known query k, s =
    Σ_k w_k, and r(k, ·) the grades of k at unit length: a mean over the known queries
    near q, which counts less if fewer than usual are near. Documents that were never
    judged relevant get nothing.

    Parameters
    ----------
    queries : csr_array, ndarray or Rows of shape (n_queries, n_features)
        The known queries; they are kept at unit length.
    relevance : Relevance
        Grades of documents for them, by row numbers; only those above 0 are kept.
    n_documents : int
    weight : float >= 0
        0 adds nothing.
    power : float >= 1
    density : float >= 0, default=0.0
        Mean s between known queries. With 0 the mean always counts in full.
    names : sequence of str, default=None
        Texts or ids of the queries, all different; None is their numbers.
    choice : Columns, default=None
        The candidates for weight and power.

    Attributes
    ----------
    weight, power, density, n_documents, choice
        As passed.
    queries : csr_array, ndarray or Rows of shape (n_queries, n_features)
        Known queries with a judgement.
    names : ndarray of str of shape (n_queries,)
    relevance : Relevance

    Examples
    --------
    >>> relevance = Relevance(np.array([0, 1]), np.array([2, 0]), np.ones(2))
    >>> memory = QueryMemory(np.eye(2), relevance, 3, weight=0.5, power=2.0)
    >>> memory.scores(np.array([[1.0, 0.0]])).toarray().tolist()
    [[0.0, 0.0, 0.5]]
    >>> memory.reasons(np.array([[3.0, 4.0]]), 0)[0].similarity
    0.8
    """

    def __init__(
        self,
        queries: Any,
        relevance: Relevance,
        n_documents: int,
        *,
        weight: float,
        power: float,
        density: float = 0.0,
        names: Sequence[str] | None = None,
        choice: Columns | None = None,
    ) -> None:
        self.queries = unit_rows(_as_rows(queries))
        self.names = _names(names, self.queries.shape[0])
        self.n_documents = int(n_documents)
        self.weight = float(weight)
        self.power = float(power)
        self.density = float(density)
        self.choice = choice
        _check_numbers(relevance, self.queries.shape[0], self.n_documents)
        self._keep(relevance)

    def __repr__(self) -> str:
        n_judgements = len(self.relevance.queries)
        return (
            f"<QueryMemory: {n_judgements:,} judgements of {self.n_queries:,} queries, "
            f"weight {self.weight:.3g}, power {self.power:g}>"
        )

    @property
    def sentence(self) -> str:
        """What is remembered, and what the choice measured, in words."""
        n_judgements = len(self.relevance.queries)
        sentence = f"{n_judgements:,} judgements of {self.n_queries:,} known queries"
        if self.choice is None:
            return f"Remembers {sentence}."
        chosen = int(np.argmax(self.choice["chosen"]))
        before = float(self.choice["ndcg"][0])
        measured = "with each known query in turn as a new one"
        if chosen == 0:
            best = float(self.choice["ndcg"].max())
            return (
                f"{sentence} are not used, since no gain is shown: {measured}, nDCG@10 "
                f"is {before:.3f} without them and {best:.3f} at best with them."
            )
        gain, low, high = (
            float(self.choice[name][chosen])
            for name in ("gain", "gain_low", "gain_high")
        )
        return (
            f"Remembers {sentence}: {measured}, nDCG@10 is {before:.3f} by the cosine "
            f"alone, {gain:+.3f} ({low:+.3f} to {high:+.3f}) with them."
        )

    @property
    def n_queries(self) -> int:
        """The number of known queries that have a judgement."""
        return int(self.queries.shape[0])

    @cached_property
    def documents(self) -> np.ndarray:
        """The documents that were judged relevant for a known query, sorted."""
        return np.unique(self.relevance.documents)

    @cached_property
    def unit_grades(self) -> np.ndarray:
        """The grade of each judgement, where those of a query are at unit length."""
        relevance = self.relevance
        largest = np.zeros(self.n_queries)
        np.maximum.at(largest, relevance.queries, relevance.grades)
        relative = relevance.grades / largest[relevance.queries]
        squares = np.bincount(relevance.queries, relative**2, minlength=self.n_queries)
        return np.asarray(relative / np.sqrt(squares[relevance.queries]))

    @cached_property
    def _shares(self) -> sp.csr_array:
        """The grades of each known query at unit length, a column per judged document."""
        columns = np.searchsorted(self.documents, self.relevance.documents)
        shape = (self.n_queries, len(self.documents))
        entries = (self.unit_grades, (self.relevance.queries, columns))
        return sp.csr_array(entries, shape=shape)

    # --- use --------------------------------------------------------------------------

    def similarities(self, queries: Any) -> np.ndarray:
        """Return the cosine of queries with the known ones, shape (n_rows, n_queries)."""
        rows = _like(unit_rows(_as_rows(queries)), self.queries)
        return np.asarray(products(rows, self.queries), dtype=np.float64)

    def _weights(self, similarities: np.ndarray) -> np.ndarray:
        """Return how much each known query counts for queries."""
        weights = closeness(similarities, self.power)
        return smoothed(weights, weights.sum(axis=1), self.density)

    def scores_of_judged(self, queries: Any) -> np.ndarray:
        """Return what is added to S for each of `documents`, shape (n_rows, n_judged)."""
        weights = self._weights(self.similarities(queries))
        return self.weight * np.asarray(weights @ self._shares)

    def scores(self, queries: Any) -> sp.csr_array:
        """Return what is added to S, shape (n_rows, n_documents).

        Parameters
        ----------
        queries : csr_array, ndarray or Rows of shape (n_rows, n_features)
            With an embedding, it is multiplied by the root of its weight.
        """
        queries = _as_rows(queries)
        blocks = [sp.csr_array((0, self.n_documents))]
        for rows in self._blocks(queries.shape[0]):
            scores = sp.coo_array(self.scores_of_judged(queries[rows]))
            columns = self.documents[scores.col]
            shape = (scores.shape[0], self.n_documents)
            entries = (scores.data, (scores.row, columns))
            blocks.append(sp.csr_array(entries, shape=shape))
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def top_k(
        self,
        rewritten: Any,
        index: Any,
        queries: Any,
        k: int,
        *,
        n_jobs: int | None = None,
    ) -> Neighbors:
        """Find for each query the k documents with the largest S plus memory.

        Parameters
        ----------
        rewritten : csr_array, ndarray or Rows of shape (n_rows, n_features)
            The queries as ``rewrite`` returns them.
        index : csr_array, ndarray or Rows of shape (n_documents, n_features)
            The documents as ``index_rows`` returns them.
        queries : csr_array, ndarray or Rows of shape (n_rows, n_features)
            The queries themselves.
        k : int
        n_jobs : int, default=None

        Returns
        -------
        Neighbors
            As of `hdsl.search.top_k`. Of equal scores the smaller row comes first.
        """
        if index.shape[0] != self.n_documents:
            raise ValueError(
                f"The memory is of {self.n_documents} documents, but the index has "
                f"{index.shape[0]} rows: search the documents of the fit."
            )
        neighbors = top_k(rewritten, index, k, n_jobs=n_jobs)
        if self.weight == 0.0 or not self.n_queries:
            return neighbors
        judged = _as_rows(index)[self.documents]
        is_judged = np.isin(neighbors.rows, self.documents)
        neighbors.scores[is_judged] = -np.inf
        for rows in self._blocks(queries.shape[0]):
            added = products(_as_rows(rewritten)[rows], judged)
            added = added + self.scores_of_judged(queries[rows])
            numbers = np.broadcast_to(self.documents, added.shape)
            candidates = np.hstack([neighbors.rows[rows], numbers])
            scores = np.hstack([neighbors.scores[rows], added])
            order = np.lexsort((candidates, -scores))[:, : neighbors.rows.shape[1]]
            neighbors.rows[rows] = np.take_along_axis(candidates, order, axis=1)
            neighbors.scores[rows] = np.take_along_axis(scores, order, axis=1)
        return neighbors

    def _blocks(self, n_rows: int) -> Iterator[slice]:
        """Yield a few queries at a time."""
        width = max(1, len(self.documents), self.n_queries)
        step = max(1, SCORES_AT_A_TIME // width)
        for start in range(0, n_rows, step):
            yield slice(start, min(start + step, n_rows))

    def reasons(self, query: Any, document: int) -> list[Remembered]:
        """Return the known queries that a document was judged relevant for.

        Parameters
        ----------
        query : csr_array, ndarray or Rows of shape (1, n_features)
        document : int
            Its row.

        Returns
        -------
        list of Remembered
            Those that add to S, the largest value first; the values sum to what is
            added.
        """
        similarities = self.similarities(query)[0]
        weights = self._weights(similarities[None, :])[0]
        reasons = []
        for position in np.flatnonzero(self.relevance.documents == document).tolist():
            number = int(self.relevance.queries[position])
            reason = Remembered(
                query=str(self.names[number]),
                similarity=float(similarities[number]),
                grade=float(self.relevance.grades[position]),
                value=float(self.weight * weights[number] * self.unit_grades[position]),
            )
            if reason.value > 0.0:
                reasons.append(reason)
        return sorted(reasons, key=lambda reason: -reason.value)

    # --- change -----------------------------------------------------------------------

    def add(
        self,
        queries: Any,
        relevance: Relevance,
        names: Sequence[str] | None = None,
        *,
        n_documents: int | None = None,
    ) -> QueryMemory:
        """Add judgements, with the same weight and power; return the memory.

        Parameters
        ----------
        queries : csr_array, ndarray or Rows of shape (n_new, n_features)
        relevance : Relevance
            Grades for them, numbered from 0. For a query with a known name the new
            grade of a document replaces the old one, and grade 0 deletes it.
        names : sequence of str of length n_new, default=None
            With None, equal rows are known queries, and others get the next numbers.
        n_documents : int, default=None
            Number of documents now, if new ones follow the known ones.
        """
        rows = _like(unit_rows(_as_rows(queries)), self.queries)
        if names is None:
            names = self._names_of_rows(rows)
        new_names = _names(names, rows.shape[0])
        if n_documents is None:
            n_documents = self.n_documents
        if n_documents < self.n_documents:
            raise ValueError(
                f"The memory is of {self.n_documents} documents, and not of "
                f"{n_documents}: new documents follow the known ones."
            )
        _check_numbers(relevance, rows.shape[0], n_documents)
        self.n_documents = int(n_documents)
        number_of = {name: k for k, name in enumerate(self.names.tolist())}
        is_new = np.array([name not in number_of for name in new_names], dtype=bool)
        for name in new_names[is_new].tolist():
            number_of[name] = len(number_of)
        numbers_of_rows = np.array([number_of[name] for name in new_names], dtype=int)
        self.queries = _stacked(self.queries, rows[is_new])
        self.names = np.concatenate([self.names, new_names[is_new]])
        known = self.relevance
        grades = dict(zip(_pairs(known), known.grades.tolist(), strict=True))
        added = relevance._replace(queries=numbers_of_rows[relevance.queries])
        grades |= zip(_pairs(added), added.grades.tolist(), strict=True)
        pairs = np.array(list(grades), dtype=np.int64).reshape(-1, 2)
        values = np.array(list(grades.values()), dtype=np.float64)
        self._keep(Relevance(pairs[:, 0], pairs[:, 1], values))
        return self

    def _names_of_rows(self, rows: Any) -> list[str]:
        """Return the names of known queries that are equal to rows, and new ones of others."""
        names = self.names.tolist()
        taken = set(names)
        number = len(names)
        of_rows: list[str] = []
        for similarities in self.similarities(rows):
            nearest = int(np.argmax(similarities)) if len(names) else 0
            is_known = len(names) > 0 and similarities[nearest] >= SAME_QUERY
            if is_known and names[nearest] not in of_rows:
                of_rows.append(names[nearest])
                continue
            while str(number) in taken:
                number += 1
            taken.add(str(number))
            of_rows.append(str(number))
        return of_rows

    def forget(self, query: str, document: int | None = None) -> QueryMemory:
        """Forget one judgement, or all of a known query; return the memory.

        Its effect on the model itself stays.

        Parameters
        ----------
        query : str
            The name of the known query.
        document : int, default=None
            The row of a document; None is all.
        """
        names = self.names[self.relevance.queries]
        is_gone = names == str(query)
        if not is_gone.any():
            known = first_few(dict.fromkeys(names.tolist()))
            raise ValueError(
                f"Nothing is remembered of a query {short(str(query))}, so nothing was "
                f"forgotten. Known queries are {known or 'none'}."
            )
        if document is not None:
            is_gone &= self.relevance.documents == document
        if not is_gone.any():
            raise ValueError(
                f"Document {short(document)} is not remembered for the query "
                f"{short(str(query))}: nothing was forgotten."
            )
        self._keep(Relevance(*(column[~is_gone] for column in self.relevance)))
        return self

    def _keep(self, relevance: Relevance) -> None:
        """Keep the judgements above grade 0, and the queries that have any."""
        is_relevant = relevance.grades > 0
        queries, documents, grades = (column[is_relevant] for column in relevance)
        order = np.lexsort((documents, queries))
        judged, numbers = np.unique(queries[order], return_inverse=True)
        self.queries = self.queries[judged]
        self.names = self.names[judged]
        self.relevance = Relevance(
            numbers.astype(np.int64),
            documents[order].astype(np.int64),
            grades[order].astype(np.float64),
        )
        for name in ("documents", "unit_grades", "_shares"):
            vars(self).pop(name, None)

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all of it as arrays, and what is no array."""
        arrays = container.pack_strings("names", self.names.tolist())
        features = sparse_block(self.queries)
        if sp.issparse(features):
            arrays |= container.csr_to_arrays(features, "queries")
        else:
            arrays["vectors"] = features
        if isinstance(self.queries, Rows):
            arrays["vectors"] = self.queries.dense
        arrays |= container.nested(relevance=dict(self.relevance._asdict()))
        arrays |= container.nested(choice=self.choice or {})
        header = {
            "weight": self.weight,
            "power": self.power,
            "density": self.density,
            "n_documents": self.n_documents,
        }
        return arrays, header

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, header: dict[str, Any], n_features: int
    ) -> QueryMemory:
        """Return the memory of `to_arrays`; raise ValueError where it is damaged."""
        weight = get_value(header, "weight", float)
        power = get_value(header, "power", float)
        density = get_value(header, "density", float)
        n_documents = get_value(header, "n_documents", int)
        if not 0.0 <= weight < np.inf:
            raise ValueError(f"weight of the memory is {weight}, expected >= 0")
        if not 1.0 <= power <= MOST_POWER:
            raise ValueError(f"power of the memory is {power}, expected >= 1")
        if not 0.0 <= density < np.inf:
            raise ValueError(f"density of the memory is {density}, expected >= 0")
        if not 1 <= n_documents < 2**63:
            raise ValueError(f"a memory of {short(n_documents)} documents")
        queries = _rows_from_arrays(arrays, n_features)
        names = container.get_strings(arrays, "names")
        judged = container.part_of(arrays, "relevance")
        numbers = get_array(judged, "queries", "i", (None,)).astype(np.int64)
        documents = get_array(judged, "documents", "i", numbers.shape).astype(np.int64)
        grades = get_array(judged, "grades", "f", numbers.shape).astype(np.float64)
        relevance = Relevance(numbers, documents, grades)
        _check_numbers(relevance, queries.shape[0], n_documents)
        if not (grades > 0).all() or len(set(_pairs(relevance))) < len(grades):
            raise ValueError("a judgement of the memory is listed twice or not above 0")
        if len(np.unique(numbers)) < queries.shape[0]:
            raise ValueError("a known query of the memory has no judgement")
        choice = _choice_from(container.part_of(arrays, "choice"))
        memory = cls(
            queries,
            relevance,
            n_documents,
            weight=weight,
            power=power,
            density=density,
            names=names.tolist(),
            choice=choice,
        )
        if not np.allclose(
            _lengths(queries), _lengths(memory.queries), atol=LENGTH_TOLERANCE
        ):
            raise ValueError("a known query of the memory is not at unit length")
        memory.queries = queries  # to the last bit
        return memory


def _lengths(rows: Any) -> np.ndarray:
    """Return the length of each row."""
    return np.sqrt(row_products(rows, rows))


def closeness(similarities: np.ndarray, power: float) -> np.ndarray:
    """Return how close queries are to known ones: max(similarity, 0)^power.

    Examples
    --------
    >>> closeness(np.array([[0.5, -0.5, 1.0]]), 2.0).tolist()
    [[0.25, 0.0, 1.0]]
    """
    return np.asarray(np.maximum(similarities, 0.0) ** power)


def smoothed(weights: np.ndarray, sums: np.ndarray, density: float) -> np.ndarray:
    """Return weights over √(sum · (sum + density)) of their row, 0 for a sum of 0.

    Examples
    --------
    >>> smoothed(np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([4.0, 0.0]), 0.0).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    divisors = np.sqrt(sums) * np.sqrt(sums + density)
    divisors[divisors == 0.0] = 1.0
    return np.asarray(weights / divisors[:, None])


def _as_rows(X: Any) -> Any:
    """Return rows as blocks that can be indexed; a pair is mixed."""
    if is_pair(X):
        return Rows(sp.csr_array(X[0]), np.asarray(X[1]))
    if sp.issparse(X):
        return sp.csr_array(X)
    if isinstance(X, Rows):
        return X
    return np.asarray(X)


def _like(rows: Any, known: Any) -> Any:
    """Return rows in the blocks of the known ones: an embedding without weight is left out."""
    if isinstance(rows, Rows) and not isinstance(known, Rows):
        rows = rows.sparse
    if sp.issparse(known) and not sp.issparse(rows):
        rows = sp.csr_array(rows)
    if rows.shape[1] != known.shape[1]:
        raise ValueError(
            f"The queries have {rows.shape[1]} features, but the known ones have "
            f"{known.shape[1]}: make rows of both in the same way."
        )
    return rows


def _stacked(known: Any, rows: Any) -> Any:
    """Return known rows and new ones after them, in blocks of the same kind."""
    if isinstance(known, np.ndarray):
        return np.vstack([known, rows])
    return stack_rows(known, rows)


def _names(names: Sequence[str] | None, n_queries: int) -> np.ndarray:
    """Return a name per query; raise ValueError unless all differ."""
    if names is None:
        names = [str(number) for number in range(n_queries)]
    array = np.array([str(name) for name in names], dtype=object)
    if len(array) != n_queries or len(set(array.tolist())) < n_queries:
        raise ValueError(
            f"Known queries have one name each, {n_queries} different ones. Got "
            f"{len(array)} names, {len(set(array.tolist()))} different."
        )
    return array


def _check_numbers(relevance: Relevance, n_queries: int, n_documents: int) -> None:
    """Raise ValueError unless judgements number queries and documents that there are."""
    limits = {
        "query": (relevance.queries, n_queries),
        "document": (relevance.documents, n_documents),
    }
    for noun, (numbers, n) in limits.items():
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < n):
            raise ValueError(f"judgements name a {noun} beyond the {n} that there are")
    if not np.isfinite(relevance.grades).all():
        raise ValueError("grades of judgements must be finite")


def _pairs(relevance: Relevance) -> Iterator[tuple[int, int]]:
    """Yield the number of the query and of the document of each judgement."""
    return zip(relevance.queries.tolist(), relevance.documents.tolist(), strict=True)


def _rows_from_arrays(arrays: Arrays, n_features: int) -> Any:
    """Return the known queries of a file; raise ValueError where they are damaged."""
    rows: Any
    if "queries" not in arrays:
        rows = get_array(arrays, "vectors", "f", (None, n_features))
    elif "vectors" not in arrays:
        rows = container.csr_from_arrays(arrays, "queries", n_features)
    else:
        vectors = get_array(arrays, "vectors", "f", (None, None))
        n_sparse = n_features - vectors.shape[1]
        if n_sparse < 1:
            raise ValueError("the known queries of the memory have other features")
        features = container.csr_from_arrays(arrays, "queries", n_sparse)
        if features.shape[0] != len(vectors):
            raise ValueError("the known queries of the memory have two numbers of rows")
        rows = Rows(features, vectors)
    if not np.isfinite(sparse_block(rows).sum()):
        raise ValueError("the known queries of the memory have values that overflow")
    return rows


def _choice_from(choice: Arrays) -> Columns | None:
    """Return what was tried; ValueError where the columns are damaged."""
    if not choice:
        return None
    n_tried = len(get_array(choice, "share", "f", (None,)))
    kinds = {"chosen": "b"}
    columns = {
        name: get_array(choice, name, kinds.get(name, "f"), (n_tried,))
        for name in CHOICE
    }
    return Columns(columns)
