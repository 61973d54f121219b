"""What a fit remembers of judged queries and of clicks."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evaluate.query_memory import choose_memory, clicked_relevance
from ..progress import Progress
from ..relevance import Relevance
from ..rows import unit_rows
from ..similarity import Similarity
from ..similarity.cosine import ranked_by
from ..similarity.fixed import parts_of_rows
from ..similarity.query_memory import QueryMemory
from ..triplets import Judgements
from .path import LearnedParts

if TYPE_CHECKING:
    from .road import Fit


@dataclass(frozen=True)
class JudgedQueries:
    """Judged queries among the rows of a fit, and what an earlier fit remembers.

    Parameters
    ----------
    X : csr_array or Rows of shape (n_rows, n_features)
        As the fit compares them.
    queries : ndarray of shape (n_queries,)
        The rows of queries with a relevant document.
    relevance : Relevance
        Grades by places in `queries`.
    n_documents : int
        The first rows, which a search may show.
    names : list of str or None
    shown : tuple or None
        Of clicks: places in `queries`, and the documents that were shown.
    earlier : QueryMemory or None
    n_jobs : int or None
    """

    X: Any
    queries: np.ndarray
    relevance: Relevance
    n_documents: int
    names: list[str] | None
    shown: tuple[np.ndarray, np.ndarray] | None
    earlier: QueryMemory | None
    n_jobs: int | None

    @classmethod
    def of(cls, fit: Fit) -> JudgedQueries:
        """Return the judged queries of a fit; ValueError if documents are missing."""
        judgements = getattr(fit.data, "judgements", None)
        earlier = None
        if fit.earlier is not None:
            earlier = getattr(fit.model, "memory_", None)
        X = fit.data.X
        relevance = _relevance_of(fit.parameters, judgements)
        n_documents = X.shape[0]
        if judgements is not None and judgements.n_documents is not None:
            n_documents = judgements.n_documents
        is_relevant = relevance.grades > 0
        queries, places = np.unique(relevance.queries[is_relevant], return_inverse=True)
        judged = cls(
            X=X,
            queries=queries,
            relevance=Relevance(
                places,
                relevance.documents[is_relevant],
                relevance.grades[is_relevant],
            ),
            n_documents=n_documents,
            names=_names_of(judgements, queries, n_documents),
            shown=_shown_of(judgements, queries),
            earlier=earlier,
            n_jobs=fit.parameters.n_jobs,
        )
        if earlier is not None and len(queries) and n_documents < earlier.n_documents:
            raise ValueError(
                f"The model remembers judgements of {earlier.n_documents} documents, "
                f"but these are of {n_documents}: pass all documents in their order, "
                "new ones after them."
            )
        return judged

    def remember(self, fit: Fit, progress: Progress) -> QueryMemory | None:
        """Return the memory of a fit that is solved, None if nothing is judged."""
        if not len(self.queries):
            return self.earlier
        rows = self.X[self.queries]
        if self.earlier is not None:
            memory = copy(self.earlier)
            return memory.add(
                rows, self.relevance, self.names, n_documents=self.n_documents
            )
        progress.stage("remembering judged queries")
        is_document = self.queries < self.n_documents
        memory = choose_memory(
            QueryMemory(
                rows,
                self.relevance,
                self.n_documents,
                weight=0.0,
                power=1.0,
                names=self.names,
            ),
            unit_rows(self.X[: self.n_documents]),
            searched=self._searched(fit),
            own_rows=np.where(is_document, self.queries, -1),
            shown=self.shown,
            n_jobs=self.n_jobs,
        )
        progress.say(memory.sentence)
        return memory

    def _searched(self, fit: Fit) -> tuple[Any, Any]:
        """Return the queries and the documents as the model of a fit ranks them."""
        result = fit.result
        settings = fit.settings
        scale = None
        # Rows have the embedding times its root.
        if fit.embedding_weight:
            scale = settings.embedding_scale / fit.embedding_weight
        learned = LearnedParts.of(
            result.atoms, result.weights, result.directions, scale
        )
        similarity = Similarity(
            learned.atoms,
            learned.weights,
            settings.scale,
            parts_of_rows(self.X, settings.prior),
            self.X.shape[1],
            learned.directions,
        )
        ranked = ranked_by(settings.ranking, similarity)
        queries = ranked.rewrite(self.X[self.queries])
        return queries, ranked.index_rows(self.X[: self.n_documents])


def _relevance_of(model: Any, judgements: Judgements | None) -> Relevance:
    """Return the grades that people gave, or their clicks are worth; none for other goals."""
    if judgements is None or model.goal not in ("auto", "search"):
        return Relevance(*np.zeros((3, 0), dtype=np.int64))
    if judgements.grades is not None:
        return judgements.grades
    if judgements.shown is not None:
        return clicked_relevance(judgements.shown)
    return Relevance(*np.zeros((3, 0), dtype=np.int64))


def _names_of(
    judgements: Judgements | None, queries: np.ndarray, n_documents: int
) -> list[str] | None:
    """Return a name per query, None where they have none; of equal names the later is numbered."""
    if (
        judgements is None
        or judgements.query_names is None
        or (queries < n_documents).any()
    ):
        return None
    names: dict[str, None] = {}
    for row in queries.tolist():
        name = str(judgements.query_names[row - n_documents])
        n_before = 1
        unique_name = name
        while unique_name in names:
            n_before += 1
            unique_name = f"{name} ({n_before})"
        names[unique_name] = None
    return list(names)


def _shown_of(
    judgements: Judgements | None, queries: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the places of queries and the rows that were shown for them."""
    if judgements is None or judgements.shown is None or judgements.grades is not None:
        return None
    is_known = np.isin(judgements.shown.queries, queries)
    places = np.searchsorted(queries, judgements.shown.queries[is_known])
    return places, judgements.shown.rows[is_known]
