"""Triplets from relevance judgements of queries: the other documents are drawn."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import search
from ..input.errors import NoTripletError
from ..input.matrices import as_rows
from ..input.parameters import check_number, check_share, generator
from ..relevance import Relevance, read_relevance
from ..rows import Rows, features_as_float64, stack_rows, unit_rows
from .rows import JUDGED, Judgements

#: Nearest documents that hard ones are drawn from, beside those that were judged.
N_NEAREST = 60

#: Grades above are divided by the largest: sums of them would overflow.
LARGEST_GRADE = 1e100

#: Most judged documents of a query that are passed over in search of the nearest.
MOST_PASSED_OVER = 1000


def relevance_triplets(
    queries: Any,
    documents: Any,
    judgements: Any,
    *,
    query: str = "query",
    document: str = "document",
    grade: str | None = "grade",
    query_ids: Any = None,
    document_ids: Any = None,
    n_others: int = 20,
    hard_share: float = 0.4,
    max_unknown: float = 0.1,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Judgements:
    """Return triplets from a table (query, document, grade), such as the qrels of TREC.

    Such a table lists relevant documents and few others, so the negatives of a query
    are drawn: some of them hard, the rest at random.

    Parameters
    ----------
    queries : array-like or sparse matrix of shape (n_queries, n_features)
    documents : array-like or sparse matrix of shape (n_documents, n_features)
    judgements : DataFrame, mapping of columns, or path
        One row per query and document. See `judgement_triplets`.
    query, document : str
        Names of the columns.
    grade : str or None, default="grade"
        Name of the column of grades: larger is more relevant, and 0 or less is not
        relevant. None if all documents of the table are relevant.
    query_ids, document_ids : array-like, default=None
        The id of each query and of each document. None if the table holds row numbers,
        from 0 each.
    n_others : int, default=20
        Number of negatives per relevant document.
    hard_share : float, default=0.4
        Share of hard negatives: documents of a lower grade, then documents without a
        grade among the 60 nearest by cosine. The rest are drawn from all documents
        without a grade.
    max_unknown : float, default=0.1
        Maximum share of lines whose document has no id: they are left out with a
        warning.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Number of threads of the search for the nearest documents.

    Returns
    -------
    Judgements
        Pass it to ``HDSL().fit(judgements)``: its `X` has the documents, then the
        queries. The weight of a triplet follows the difference of grades, and all
        queries have the same weight.

    Examples
    --------
    >>> documents = [[1.0, 0], [0, 1], [1, 1]]
    >>> judgements = {"query": [0], "document": [2], "grade": [1]}
    >>> judged = relevance_triplets([[1.0, 0]], documents, judgements, random_state=0)
    >>> judged.X.shape, sorted(judged.triplets.tolist())
    ((4, 2), [[3, 2, 0], [3, 2, 1]])
    """
    owner = "relevance_triplets"
    check_number(owner, "n_others", n_others, low=1, integer=True)
    check_share(owner, "hard_share", hard_share)
    check_number(owner, "max_unknown", max_unknown, low=0.0, high=1.0)
    rng = generator(random_state)
    Q = _checked(queries, "queries")
    D = _checked(documents, "documents")
    if Q.shape[1] != D.shape[1]:
        raise ValueError(
            f"queries have {Q.shape[1]} features, but documents have {D.shape[1]}: "
            "make rows of both in the same way."
        )
    relevance = read_relevance(
        judgements,
        query=query,
        document=document,
        grade=grade,
        query_ids=_ids_or_numbers(query_ids, Q.shape[0], "query_ids"),
        document_ids=_ids_or_numbers(document_ids, D.shape[0], "document_ids"),
        max_unknown=0.0 if document_ids is None else max_unknown,
    )
    draw = _OtherDocuments(
        n_documents=D.shape[0],
        n_others=int(n_others),
        n_hard=round(hard_share * n_others),
        nearest=_nearest(Q, D, relevance, n_jobs),
        rng=rng,
    )
    triplets, weights = _triplets(relevance, draw)
    triplets[:, 0] += D.shape[0]
    return Judgements(
        triplets,
        weights,
        X=stack_rows(D, Q),
        kind=JUDGED,
        n_documents=D.shape[0],
        grades=relevance._replace(queries=relevance.queries + D.shape[0]),
        query_names=query_ids,
    )


def _ids_or_numbers(ids: Any, n_rows: int, name: str) -> Any:
    """Return the ids of rows, or their numbers without ids."""
    if ids is None:
        return np.arange(n_rows)
    if len(ids) != n_rows:
        raise ValueError(
            f"{name} must have one id per row, {n_rows} in all. Got {len(ids)}."
        )
    return ids


def _checked(X: Any, name: str) -> Any:
    """Return rows in float64; an embedding beside them keeps its dtype."""
    X = as_rows(X, name)
    if isinstance(X, Rows):
        return features_as_float64(X)
    return sp.csr_array(X, dtype=np.float64)


def _unit_blocks(X: Any) -> Any:
    """Return rows at unit length, the embedding as well."""
    if isinstance(X, Rows):
        return X.map(unit_rows)
    return unit_rows(X)


def _nearest(
    Q: Any, D: Any, relevance: Relevance, n_jobs: int | None
) -> dict[int, np.ndarray]:
    """Return the nearest documents by cosine of each query that was judged."""
    numbers, n_judged = np.unique(relevance.queries, return_counts=True)
    k = N_NEAREST + min(int(n_judged.max()), MOST_PASSED_OVER)
    neighbors = search.top_k(
        _unit_blocks(Q[numbers]), _unit_blocks(D), min(k, D.shape[0]), n_jobs=n_jobs
    )
    return {
        number: rows[scores > 0.0]
        for number, rows, scores in zip(
            numbers.tolist(), neighbors.rows, neighbors.scores, strict=True
        )
    }


def _triplets(relevance: Relevance, draw: "_OtherDocuments") -> "_WeightedTriplets":
    """Return triplets of the numbers of queries and documents; all queries weigh the same."""
    triplets = []
    weights = []
    starts = np.flatnonzero(np.diff(relevance.queries, prepend=-1))
    columns = (relevance.queries, relevance.documents, relevance.grades)
    for queries, documents, grades in zip(
        *(np.split(column, starts[1:]) for column in columns), strict=True
    ):
        of_query = _triplets_of_query(int(queries[0]), documents, grades, draw)
        if len(of_query.triplets):
            triplets.append(of_query.triplets)
            weights.append(of_query.weights / of_query.weights.sum())
    if not triplets:
        raise NoTripletError(
            "No triplet can be built: no query has a document above grade 0 and "
            "another document."
        )
    joined = np.concatenate(weights)
    return _WeightedTriplets(
        np.concatenate(triplets), joined * (len(joined) / joined.sum())
    )


def _triplets_of_query(
    query: int, documents: np.ndarray, grades: np.ndarray, draw: "_OtherDocuments"
) -> "_WeightedTriplets":
    """Return the triplets of one query, with the differences of grades as weights."""
    triplets = [np.empty((0, 3), dtype=np.int64)]
    weights = [np.empty(0)]
    largest = grades.max()
    if largest > LARGEST_GRADE:
        grades = grades / largest  # so that sums of differences are finite
    grade_of = dict(zip(documents.tolist(), grades.tolist(), strict=True))
    for relevant, grade in grade_of.items():
        if grade <= 0.0:
            continue
        others = draw.others(query, documents, documents[grades < grade])
        other_grades = [grade_of.get(other, 0.0) for other in others.tolist()]
        query_column = np.full(len(others), query)
        relevant_column = np.full(len(others), relevant)
        triplets.append(np.column_stack([query_column, relevant_column, others]))
        weights.append(grade - np.array(other_grades, dtype=np.float64))
    return _WeightedTriplets(np.concatenate(triplets), np.concatenate(weights))


class _WeightedTriplets(NamedTuple):
    """Triplets of the numbers of queries and documents, and the weight of each."""

    triplets: np.ndarray
    weights: np.ndarray


class _OtherDocuments(NamedTuple):
    """Draws the documents that a relevant one is compared with.

    Parameters
    ----------
    n_documents : int
    n_others, n_hard : int
        Per relevant document: in all, and hard ones among these.
    nearest : dict of int to ndarray
        The nearest documents of each query, the judged ones among them.
    rng : Generator
    """

    n_documents: int
    n_others: int
    n_hard: int
    nearest: dict[int, np.ndarray]
    rng: np.random.Generator

    def others(self, query: int, judged: np.ndarray, lower: np.ndarray) -> np.ndarray:
        """Return documents of lower grade or of none; `judged` and `lower` are sorted."""
        hard = self._draw(lower, self.n_hard)
        nearest = self.nearest[query]
        unjudged = nearest[~np.isin(nearest, judged)][:N_NEAREST]
        similar = self._draw(unjudged, self.n_hard - len(hard))
        n_rest = self.n_others - len(hard) - len(similar)
        passed_over = np.union1d(judged, similar)
        return np.concatenate([hard, similar, self._draw_outside(passed_over, n_rest)])

    def _draw(self, documents: np.ndarray, n: int) -> np.ndarray:
        """Return at most n of some documents."""
        n_drawn = min(n, len(documents))
        return self.rng.choice(documents, n_drawn, replace=False, shuffle=False)

    def _draw_outside(self, documents: np.ndarray, n: int) -> np.ndarray:
        """Return at most n of the documents that are not among these, which are sorted."""
        n_outside = self.n_documents - len(documents)
        ranks = self.rng.choice(
            n_outside, min(n, n_outside), replace=False, shuffle=False
        )
        n_outside_before = documents - np.arange(len(documents))
        return ranks + np.searchsorted(n_outside_before, ranks, side="right")
