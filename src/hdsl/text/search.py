"""Search among documents: by the learned similarity and the plain cosine, with reasons."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..class_scores.scores import with_words
from ..explain.parts import MEANING
from ..explain.tables import CLASS, as_names, shown, signed
from ..printable import frame_of, html_table, text_table
from ..rows import Rows, is_empty, sparse_block
from ..similarity.cosine import COSINE, PlainCosine, ranked_by
from ..similarity.query_memory import QueryMemory
from .documents import Documents

if TYPE_CHECKING:
    from ..explain import Explanation

#: Characters of a document's text, and of its id and its label.
TEXT_WIDTH = 60
NAME_WIDTH = 24

#: Reasons that are shown for each document.
N_REASONS = 3


class ScoredSimilarity:
    """A learned similarity over rows, with class scores beside them or without.

    ``rewrite`` and ``index_rows`` take rows without scores, so a model with scores is
    compared with the cosine of the rows as they are.

    Parameters
    ----------
    similarity : Similarity
    scores : object, default=None
        With ``transform``, ``classes_`` and ``n_features_in_``.
    ranking : {"cosine", "product"}, default="cosine"
        How rows are ranked: by the learned cosine, or by S as it is.
    """

    def __init__(
        self, similarity: Any, scores: Any = None, ranking: str = COSINE
    ) -> None:
        self.similarity = similarity
        self.scores = scores
        self.ranking = ranking

    @property
    def n_scores(self) -> int:
        """The number of class scores beside a row."""
        if self.scores is None:
            return 0
        return len(self.scores.classes_)

    @property
    def n_features(self) -> int:
        """The number of columns of a row without scores, those of an embedding included."""
        return int(self.similarity.n_features) - self.n_scores

    @property
    def n_words(self) -> int:
        """The number of features of a row without scores and embedding."""
        return self.n_features - self.embedding_width

    @property
    def embedding_width(self) -> int:
        """The number of columns of the embedding, 0 without one."""
        return int(self.similarity.n_features - self.similarity.n_paired)

    def is_empty(self, row: Any) -> bool:
        """Return whether a row has no value that changes a score."""
        sees_embedding = self.similarity.embedding_weight > 0
        if self.similarity.has_directions:
            sees_embedding = True
        if self.scores is not None and self.scores.embedding_width_ > 0:
            sees_embedding = True
        return is_empty(row if sees_embedding else sparse_block(row))

    def blended_rows(self, X: Any) -> Any:
        """Return rows as they are compared before learning, without scores.

        An embedding has the weight that was chosen. Without a weight it is left out, though
        class scores and learned directions may see it.
        """
        if not isinstance(X, Rows):
            return X
        weight = self.similarity.embedding_weight
        if not weight:
            return X.sparse
        return X.with_embedding_weight(weight)

    def rows(self, X: Any) -> Any:
        """Return rows as the model was learned on, with their class scores.

        Of rows with an embedding the scores stand before it.
        """
        if self.scores is None:
            return X
        scored = self.scores.transform(X)
        if isinstance(scored, Rows):
            return scored
        return sp.csr_array(scored)

    def names(self, names: np.ndarray | None) -> np.ndarray | None:
        """Return the names of the features, then ``class:LABEL`` for each score."""
        if self.scores is None:
            return names
        if names is None:
            feature_names = [f"x{k}" for k in range(self.n_words)]
        else:
            feature_names = names.tolist()
        class_names = [f"{CLASS}{label}" for label in self.scores.classes_]
        return np.array([*feature_names, *class_names], dtype=object)

    def rewrite(self, X: Any) -> Any:
        """Return the query side of the learned similarity."""
        return self.similarity.rewrite(self.rows(X))

    def index_rows(self, X: Any) -> Any:
        """Return the other side."""
        return self.similarity.index_rows(self.rows(X))


# --- search ---------------------------------------------------------------------------


class DocumentSearch:
    """Documents as a model ranks them and by the plain cosine, and the reasons for both.

    A search reads the columns of the query's features alone, and multiplies by all
    embeddings.

    Parameters
    ----------
    documents : Documents
    scored : ScoredSimilarity
    feature_names : ndarray or None
        Names of the features before class scores.
    """

    def __init__(
        self,
        documents: Documents,
        scored: ScoredSimilarity,
        feature_names: np.ndarray | None,
    ) -> None:
        self._documents = documents
        self._scored = scored
        self._learned = ranked_by(scored.ranking, scored.similarity)
        self._plain = PlainCosine(scored)
        self._names = scored.names(feature_names)

    @cached_property
    def _learned_columns(self) -> _Columns:
        """The documents as the model ranks them, laid out by the first search."""
        rows = self._scored.rows(self._documents.X)
        return _Columns(self._learned.index_rows(rows))

    @cached_property
    def _plain_columns(self) -> _Columns:
        """The documents as the plain cosine compares them."""
        return _Columns(self._plain.index_rows(self._documents.X))

    def compare(self, query: Any) -> Cosines:
        """Return the cosines of one row with all documents."""
        learned_query = self._learned.rewrite(self._scored.rows(query))
        return Cosines(
            learned=self._learned_columns.products(learned_query),
            plain=self._plain_columns.products(self._plain.rewrite(query)),
        )

    def remembered_scores(self, query: Any, memory: QueryMemory) -> np.ndarray:
        """Return what is remembered of each document for one row."""
        return memory.scores(self._scored.rows(query)).toarray()[0]

    def hits(
        self,
        query: Any,
        k: int,
        *,
        memory: QueryMemory | None,
        why: int,
        leave_out: int | None,
        first_by_cosine: bool,
        plain: bool,
    ) -> Hits:
        """Return the nearest documents of one row, as `Collection.search_rows` has them."""
        if self._scored.is_empty(query):
            return Hits()
        cosines = self.compare(query)
        if memory is not None:
            cosines.learned[:] += self.remembered_scores(query, memory)
        if leave_out is not None:
            cosines.leave_out(leave_out)
        rows = cosines.nearest_by_cosine(k) if plain else cosines.nearest(k)
        first = cosines.nearest_by_plain()
        if first_by_cosine and first is not None and first not in rows:
            rows.append(first)
        hits = []
        for row in rows:
            hit = self._described(row, cosines)
            if plain:
                hit |= self._plain_reasons(query, row, why)
            else:
                hit |= self._reasons(query, row, why, hit["similarity"], memory)
            hits.append(hit)
        return Hits(hits, is_plain=plain)

    def _described(self, row: int, cosines: Cosines) -> dict[str, Any]:
        """Return a document with what is known of it, its scores and its ranks."""
        rank, plain_rank = cosines.ranks(row)
        return {
            "row": row,
            **self._documents.described(row),
            "similarity": float(cosines.learned[row]),
            "cosine": float(cosines.plain[row]),
            "rank": rank,
            "rank by cosine": plain_rank,
        }

    def explain(
        self, rows: dict[str, Any], by: str = "pair", top: int | None = None
    ) -> Explanation:
        """Return the parts of the similarity of rows, classes with their words.

        Rows are without scores, by the names that ``hdsl.explain.explain`` has for
        them.
        """
        from .. import explain

        scored = self._scored
        scored_rows = {name: scored.rows(row) for name, row in rows.items()}
        explanation = explain.explain(
            scored.similarity, **scored_rows, by=by, feature_names=self._names, top=top
        )
        if scored.scores is None or self._names is None:
            return explanation
        return with_words(explanation, scored.scores, rows, self._names)

    def remembered(self, query: Any, row: int, memory: QueryMemory | None) -> list[Any]:
        """Return the known queries that a document was judged relevant for."""
        if memory is None:
            return []
        return memory.reasons(self._scored.rows(query), row)

    def _reasons(
        self,
        query: Any,
        row: int,
        why: int,
        similarity: float,
        memory: QueryMemory | None,
    ) -> dict[str, Any]:
        """Return what each feature and feature pair adds to the similarity of a hit.

        What is learned of it is in the value. The largest comes first.
        """
        remembered = [
            reason._asdict() for reason in self.remembered(query, row, memory)
        ]
        if not why:
            return _shown_reasons([], why, remembered)
        explanation = self.explain({"x": query, "y": self._documents.X[[row]]})
        cosine = similarity - sum(reason["value"] for reason in remembered)
        share = 0.0
        if explanation.total:
            share = cosine / explanation.total
        reasons = []
        for reason in explanation.reasons:
            described: dict[str, Any] = {
                "name": reason.name,
                "value": share * reason.value,
                "learned": share * reason.addends[0],
            }
            if reason.words:
                described["words"] = reason.words
            reasons.append(described)
        return _shown_reasons(reasons, why, remembered)

    def _plain_reasons(self, query: Any, row: int, why: int) -> dict[str, Any]:
        """Return what each feature adds to the plain cosine of a hit, the largest first."""
        if not why:
            return _shown_reasons([], why, [])
        x = self._plain.rewrite(query)
        y = self._plain.index_rows(self._documents.X[[row]])
        products = sp.coo_array(sparse_block(x).multiply(sparse_block(y)))
        similarity = self._scored.similarity
        names = as_names(self._names, similarity.n_features, similarity.n_paired)
        reasons: list[dict[str, Any]] = [
            {"name": str(names[feature]), "value": float(value), "learned": 0.0}
            for feature, value in zip(products.col, products.data, strict=True)
        ]
        if isinstance(x, Rows):
            value = float(x.dense[0] @ y.dense[0])
            reasons.append({"name": MEANING, "value": value, "learned": 0.0})
        reasons.sort(key=lambda reason: -abs(reason["value"]))
        return _shown_reasons(reasons, why, [])


def _shown_reasons(
    reasons: list[dict[str, Any]], why: int, remembered: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the largest reasons, the sum of the others, and what is remembered."""
    others = reasons[why:]
    return {
        "why": reasons[:why],
        "more": {
            "n": len(others),
            "value": sum(reason["value"] for reason in others),
        },
        "remembered": remembered,
    }


class Cosines(NamedTuple):
    """How similar one query is to all documents, shape (n_documents,) each.

    `learned` is the learned cosine, or S if the model ranks by it.
    """

    learned: np.ndarray
    plain: np.ndarray

    def leave_out(self, row: int) -> None:
        """Put a document behind all others."""
        self.learned[row] = -np.inf
        self.plain[row] = -np.inf

    def nearest(self, k: int) -> list[int]:
        """Return the k rows that are most similar as learned; of equals the first."""
        return _largest(self.learned, k)

    def nearest_by_cosine(self, k: int) -> list[int]:
        """Return the k rows of largest plain cosine; of equals the first."""
        return _largest(self.plain, k)

    def nearest_by_plain(self) -> int | None:
        """Return the row of largest plain cosine, None if no cosine is positive."""
        row = int(np.argmax(self.plain))
        if self.plain[row] > 0.0:
            return row
        return None

    def ranks(self, row: int) -> tuple[int, int]:
        """Return the rank of a row as learned and by the plain cosine, from 1."""
        n_before = int((self.learned > self.learned[row]).sum())
        n_before_by_plain = int((self.plain > self.plain[row]).sum())
        return n_before + 1, n_before_by_plain + 1


def _largest(values: np.ndarray, k: int) -> list[int]:
    """Return the places of the k largest values, without those of minus infinity."""
    n_candidates = int(np.count_nonzero(values > -np.inf))
    k = min(k, n_candidates)
    if k == 0:
        return []
    least = np.partition(values, len(values) - k)[len(values) - k]
    candidates = np.flatnonzero(values >= least)
    order = np.argsort(-values[candidates], kind="stable")
    return candidates[order[:k]].tolist()


class _Columns:
    """Rows by the columns of their features, and an embedding beside them as it is."""

    def __init__(self, rows: Any) -> None:
        self.features = sp.csc_array(sparse_block(rows))
        self.embedding = rows.dense if isinstance(rows, Rows) else None

    def products(self, query: Any) -> np.ndarray:
        """Return the dot product of each row with one query, column by column."""
        products = np.zeros(self.features.shape[0])
        features = sp.csr_array(sparse_block(query))
        features.sort_indices()
        indptr = self.features.indptr
        for feature, weight in zip(features.indices, features.data, strict=True):
            entries = slice(indptr[feature], indptr[feature + 1])
            rows = self.features.indices[entries]
            products[rows] += weight * self.features.data[entries]
        if self.embedding is not None:
            products += (self.embedding @ query.dense[0]).astype(np.float64)
        return products


# --- results --------------------------------------------------------------------------


class Hits(list[dict[str, Any]]):
    """Documents as `Collection.search` returns them, best first: a list that prints as a table.

    Parameters
    ----------
    hits : iterable of dict, default=()
    is_plain : bool, default=False
        Whether they are ordered by the plain cosine, which the table then shows.
    """

    def __init__(
        self, hits: Iterable[dict[str, Any]] = (), *, is_plain: bool = False
    ) -> None:
        super().__init__(hits)
        self.is_plain = is_plain

    def __repr__(self) -> str:
        if not self:
            return "nothing found"
        header = self._header()
        return text_table(header, self._cells(), left=range(2, len(header)))

    def _repr_html_(self) -> str:
        if not self:
            return "<p>nothing found</p>"
        header = self._header()
        return html_table(header, self._cells(), left=range(2, len(header)))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one line per document; reasons are text."""
        records = [
            {name: value for name, value in hit.items() if name != "more"}
            | {"why": _reasons(hit, len(hit["why"]))}
            for hit in self
        ]
        return frame_of(records)

    def _header(self) -> list[str]:
        """Return the names of the columns that the documents have."""
        names = [
            name
            for name in ("id", "label", "text")
            if any(hit[name] is not None for hit in self)
        ]
        if "text" not in names and "id" not in names:
            names.append("row")
        scores = ["similarity", "rank by cosine"]
        if self.is_plain:
            scores = ["cosine", "rank as learned"]
        return [*scores, *names, "why"]

    def _cells(self) -> list[list[str]]:
        """Return the documents as rows of text."""
        names = self._header()[2:-1]
        score = "similarity"
        other_rank = "rank by cosine"
        if self.is_plain:
            score = "cosine"
            other_rank = "rank"
        return [
            [
                f"{hit[score]:.3f}",
                str(hit[other_rank]),
                *(_shown_value(hit, name) for name in names),
                _reasons(hit, N_REASONS) + _remembered(hit),
            ]
            for hit in self
        ]


def _shown_value(hit: dict[str, Any], name: str) -> str:
    """Return what is known of a document as one short line."""
    value = hit[name]
    if value is None:
        return ""
    if name == "text":
        return shown(" ".join(str(value).split()), TEXT_WIDTH)
    return shown(value, NAME_WIDTH)


def _remembered(hit: dict[str, Any]) -> str:
    """Return the known query that adds most, after a comma; nothing without one."""
    if not hit["remembered"]:
        return ""
    reason = hit["remembered"][0]
    total = sum(known["value"] for known in hit["remembered"])
    query = shown(reason["query"], NAME_WIDTH)
    return f', judged relevant for "{query}" {signed(total, total)}'


def _reasons(hit: dict[str, Any], n_reasons: int) -> str:
    """Return the largest reasons with what they add."""
    reasons = hit["why"][:n_reasons]
    largest = max((abs(reason["value"]) for reason in reasons), default=0.0)
    return ", ".join(
        f"{shown(reason['name'])} {signed(reason['value'], largest)}"
        for reason in reasons
    )
