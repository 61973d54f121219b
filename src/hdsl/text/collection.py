"""Collection: documents with a model that takes texts, searches and says why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..class_scores.scores import Scores
from ..files.container import Arrays, get_value, nested, part_of
from ..input.parameters import check_number
from ..model_arrays import memory_from
from ..rows import Rows, unit_rows
from ..similarity.arrays import ranking_from, similarity_from_arrays
from ..similarity.cosine import COSINE
from ..similarity.query_memory import QueryMemory
from .counts import BM25
from .documents import Documents, Queries
from .encoders import TextEncoder
from .search import DocumentSearch, Hits, ScoredSimilarity
from .words import Words

if TYPE_CHECKING:
    from ..explain import Explanation

#: What stands before the id of a query if a document may have the same.
QUERY_PREFIX = "query:"

#: Options of other encoders that `Collection.encode` takes and needs not.
IGNORED_OPTIONS = frozenset(
    ["batch_size", "show_progress_bar", "convert_to_numpy", "device"]
)


class Collection:
    """Documents with a learned similarity: takes texts, searches, and says why.

    ``hdsl.load`` returns it for a file of ``hdsl fit``.

    Parameters
    ----------
    model : HDSL or Pipeline
        Fitted; a pipeline has `ClassScores` first.
    words : Words, default=None
        Turns texts into rows; None for rows of numbers.
    documents : Documents, default=None
    queries : Queries, default=None
        Queries that are not documents, if the model was fitted to such queries.
    encoder : TextEncoder, default=None
        Embeds the texts; None without one.

    Attributes
    ----------
    model : HDSL or Pipeline
    words : Words or None
    documents : Documents
    queries : Queries or None
    encoder : TextEncoder or None
    uses_memory : bool
        Whether searches add the memory of judged queries; initially True.
    """

    def __init__(
        self,
        model: Any,
        words: Words | None = None,
        documents: Documents | None = None,
        queries: Queries | None = None,
        encoder: TextEncoder | None = None,
    ) -> None:
        self._model = model
        self._saved: tuple[Arrays, dict[str, Any]] | None = None
        self.words = words
        self.documents = documents or Documents()
        self.queries = queries
        self.encoder = encoder
        self.uses_memory = True

    def __repr__(self) -> str:
        documents = self.documents
        content = "no documents"
        if documents.X is not None:
            content = f"{documents.n_rows:,} documents"
            if documents.texts is None:
                content = f"{documents.n_rows:,} rows"
        if self.queries is not None:
            content += f", {self.queries.n_queries:,} queries"
        return (
            f"<Collection: {content}, {self.scored.n_words:,} features; "
            "search, explain, model>"
        )

    @property
    def model(self) -> Any:
        """The fitted model, as scikit-learn has it."""
        if self._model is None:
            from .. import saving

            assert self._saved is not None
            self._model = saving.from_arrays(*self._saved)
        return self._model

    @property
    def learned(self) -> Any:
        """The fitted model without class scores before it."""
        if hasattr(self.model, "steps"):
            return self.model[-1]
        return self.model

    @property
    def scores(self) -> Any:
        """The fitted `ClassScores` before the model, None if there are none."""
        if hasattr(self.model, "steps"):
            return self.model[0]
        return None

    @cached_property
    def scored(self) -> ScoredSimilarity:
        """The learned similarity of rows."""
        scored = None
        if self._saved is not None:
            scored = _scored_from_arrays(*self._saved)
        if scored is None:
            learned = self.learned
            scored = ScoredSimilarity(
                learned.similarity_, self.scores, learned.ranking_
            )
        return scored

    @property
    def memory(self) -> QueryMemory | None:
        """What was judged relevant for known queries; None without, or where it is not used."""
        if not self.uses_memory:
            return None
        if self._model is not None:
            memory = getattr(self.learned, "memory_", None)
        else:
            memory = self._saved_memory
        if memory is None or memory.n_documents != self.documents.n_rows:
            return None
        return memory

    @cached_property
    def _saved_memory(self) -> QueryMemory | None:
        """The memory of a file, read without the model."""
        assert self._saved is not None
        return memory_from(*self._saved)

    @property
    def feature_names(self) -> np.ndarray | None:
        """The words, or the names of columns; None if features have no names."""
        if self.words is None:
            return self.documents.feature_names
        return self.words.names

    # --- use --------------------------------------------------------------------------

    def rows_of(self, texts: Iterable[str]) -> Any:
        """Return texts as rows; unknown words are ignored.

        With an encoder they have an embedding beside the words.
        """
        if self.words is None:
            raise ValueError(
                "The model was not learned from texts, so it has no words: give row "
                "numbers."
            )
        texts = [*texts]
        rows = self.words.transform(texts, are_queries=True)
        if self.encoder is None:
            return rows
        return Rows(rows, self.encoder.encode(texts))

    def unknown_words(self, text: str) -> list[str]:
        """Return the words of a text that the model does not know and ignores."""
        if self.words is None:
            return []
        return self.words.unknown(text)

    def known_share(self, text: str) -> float:
        """Return which share of the words of a text is known: what a score rests on."""
        if self.words is None:
            return 1.0
        n_words = len(set(self.words.split(text)))
        if n_words == 0:
            return 0.0
        return 1.0 - len(self.words.unknown(text)) / n_words

    def is_document(self, name: Any) -> bool:
        """Return whether this is the id or the number of a document."""
        return self.documents.find_row(name) is not None

    def row_number(self, name: Any) -> int:
        """Return the row of a document by its id, else by its number.

        If all ids are numbers, a number is an id and nothing else.
        """
        return self.documents.row_number(name)

    def is_query(self, name: Any) -> bool:
        """Return whether this is a query of the fit: ``query:`` and its id, or an id alone.

        An id alone that a document has too is the document.
        """
        return self._query_row(name) is not None

    def _query_row(self, name: Any) -> sp.csr_array | None:
        """Return a query of the fit as one row, None if it is not the name of one."""
        if self.queries is None:
            return None
        name = str(name)
        is_explicit = name.startswith(QUERY_PREFIX)
        if not is_explicit and (
            self.queries.rows.ids is None or self.is_document(name)
        ):
            return None
        number = self.queries.rows.find_row(name.removeprefix(QUERY_PREFIX))
        if number is None:
            return None
        return self.queries.rows.X[[number]]

    def row_of(self, name: Any) -> Any:
        """Return one row: of a document by its id, else by its number, else of a text.

        Digits that name no document are a text if the model knows them as a word. A
        query of the fit is named by its id, as ``query:7`` if a document has the same id.
        """
        query = self._query_row(name)
        if query is not None:
            return query
        is_text = isinstance(name, str) and not self.is_document(name)
        if is_text and self.words is not None:
            is_known = self.words.transform([name]).nnz > 0
            if is_known or not name.isdecimal():
                return self.row_of_text(name)
        return self.documents.X[[self.row_number(name)]]

    def row_of_text(self, text: str) -> Any:
        """Return a text as one row; raise ValueError if the model knows none of its words."""
        row = self.rows_of([text])
        if not self.scored.is_empty(row):
            return row
        scripts = self.words.unknown_scripts(text) if self.words else []
        if not scripts:
            raise ValueError(
                f"The model knows none of the words of {text[:60]!r}: try others."
            )
        raise ValueError(
            f"The model knows none of the words of {text[:60]!r}: none of its words has "
            f"{' or '.join(scripts)} letters. Search in a language of its texts, learn "
            "again with texts in this one, or with an encoder that knows both "
            "languages (--encoder)."
        )

    def forget(self, query: str, document: Any = None) -> None:
        """Forget that a document, or any, was judged relevant for a known query.

        Its effect on the model itself stays.

        Parameters
        ----------
        query : str
            The text or the id of the known query, as `search` names it.
        document : str or int, default=None
            Its id or number; None is all of the query.
        """
        number = None
        if document is not None:
            number = self.row_number(document)
        memory = getattr(self.learned, "memory_", None)
        if memory is None:
            raise ValueError("The model remembers no judged queries.")
        memory.forget(query, number)

    def without(self, pairs: Any) -> Collection:
        """Return the collection without the learned weights of some pairs of words.

        Parameters
        ----------
        pairs : sequence of pairs of str, or of str
            Such as ``"cat ~ dog"``, as reasons print them; see `HDSL.without`.

        Returns
        -------
        Collection
        """
        return self.with_learned(
            self.learned.without(pairs, feature_names=self._names_of_pairs)
        )

    def with_pairs(self, pairs: Any, weight: float | None = None) -> Collection:
        """Return the collection with pairs of words that always count.

        Parameters
        ----------
        pairs : sequence of pairs of str, or of str
        weight : float > 0, default=None
            See `HDSL.with_pairs`.

        Returns
        -------
        Collection
        """
        names = self._names_of_pairs
        return self.with_learned(
            self.learned.with_pairs(pairs, weight, feature_names=names)
        )

    @property
    def _names_of_pairs(self) -> np.ndarray | None:
        """The names of features and class scores."""
        return self.scored.names(self.feature_names)

    def with_learned(self, learned: Any) -> Collection:
        """Return the collection with another model of the same features."""
        model = learned
        if hasattr(self.model, "steps"):
            from sklearn.pipeline import Pipeline

            steps = self.model.steps
            model = Pipeline([*steps[:-1], (steps[-1][0], learned)])
        collection = Collection(
            model, self.words, self.documents, self.queries, self.encoder
        )
        collection.uses_memory = self.uses_memory
        return collection

    def search(
        self,
        query: Any,
        k: int = 5,
        *,
        why: int = 4,
        row: Any = None,
        plain: bool = False,
    ) -> Hits:
        """Return the documents that are most similar to a text, and why.

        All documents are compared. The first search builds an index, which later ones
        use.

        Parameters
        ----------
        query : str or None
        k : int, default=5
            Number of documents.
        why : int, default=4
            Number of reasons for each; 0 skips them.
        row : int or str, default=None
            The id or number of a document to search with, instead of a text; or the id
            of a query of the fit.
        plain : bool, default=False
            Whether to order by the plain cosine instead, which is better at finding one
            particular document. Reasons are then those of the plain cosine.

        Returns
        -------
        Hits
            A list of dict that prints as a table and has ``to_frame()``: ``row``,
            ``id``, ``label``, ``text``, ``similarity`` (the learned cosine, or S if
            the model ranks by it), ``cosine``, ``rank`` and ``rank by cosine``, ``why``
            (name and value of the largest reasons, and how much of it is learned),
            ``more`` (number and sum of the others) and, of a model that remembers
            judged queries, ``remembered``: the known queries that the document was
            judged relevant for, with similarity, grade and value. The similarity is the
            sum of all of it.
        """
        if row is None:
            if not isinstance(query, str):
                raise TypeError(
                    f"search takes one text, or row=. Got {type(query).__name__}. "
                    "search_rows(collection.rows_of(texts)) searches with many."
                )
            text_row = self.row_of_text(query)
            return self.search_rows(text_row, k, why=why, plain=plain)[0]
        query_row = self._query_row(row)
        if query_row is not None:
            return self.search_rows(query_row, k, why=why, plain=plain)[0]
        number = self.row_number(row)
        return self.search_rows(
            self.documents.X[[number]], k, why=why, leave_out=number, plain=plain
        )[0]

    def search_rows(
        self,
        queries: sp.csr_array,
        k: int = 5,
        *,
        why: int = 4,
        leave_out: int | None = None,
        first_by_cosine: bool = False,
        plain: bool = False,
    ) -> list[Hits]:
        """Return for each row what `search` returns; nothing for an empty row.

        With `first_by_cosine` the nearest document by cosine comes last, if it is not
        among them.
        """
        if self.documents.X is None:
            raise ValueError(
                "The model has no documents: fit it again without --no-documents."
            )
        check_number("search", "k", k, low=1, integer=True)
        check_number("search", "why", why, low=0, integer=True)
        return [
            self._search.hits(
                queries[[number]],
                k,
                memory=self.memory,
                why=why,
                leave_out=leave_out,
                first_by_cosine=first_by_cosine,
                plain=plain,
            )
            for number in range(queries.shape[0])
        ]

    def boosts(
        self, text: str, *, best_score: float | None = None, top: int | None = 100
    ) -> dict[int, float]:
        """Return the boosts of documents by the memory, for a text, by row, the largest first.

        Parameters
        ----------
        text : str
        best_score : float > 0, default=None
            The score of the first document in an engine: boosts are in its scale. None
            is the scale of the similarity.
        top : int or None, default=100
            Maximum number of documents, since engines limit the size of a query. None
            is all.

        Returns
        -------
        dict of int to float
            Empty without judged queries.
        """
        if self.memory is None or self.documents.X is None:
            return {}
        check_number("boosts", "top", top, low=1, integer=True, words=(None,))
        check_number(
            "boosts", "best_score", best_score, low=0, strict=True, words=(None,)
        )
        query = self.row_of_text(text)
        scores = self._search.remembered_scores(query, self.memory)
        if best_score is not None:
            best = float(self._search.compare(query).learned.max(initial=0.0))
            if best == 0.0:
                return {}
            scores *= best_score / best
        rows = np.flatnonzero(scores > 0.0)
        order = np.argsort(-scores[rows], kind="stable")
        return {int(row): float(scores[row]) for row in rows[order][:top]}

    @cached_property
    def _search(self) -> DocumentSearch:
        """The documents as they are searched and explained."""
        return DocumentSearch(self.documents, self.scored, self.feature_names)

    def explain(
        self,
        x: Any,
        y: Any,
        *,
        rather_than: Any = None,
        by: str = "pair",
        top: int | None = 10,
    ) -> Explanation:
        """Return the parts of the similarity of two documents or texts.

        Parameters
        ----------
        x, y, rather_than : str or int
            The id of a document, else its number, also in digits, else a text.
        by, top
            As in ``HDSL.explain``.

        Returns
        -------
        hdsl.explain.Explanation
        """
        rows = {"x": self.row_of(x), "y": self.row_of(y)}
        if rather_than is not None:
            rows["rather_than"] = self.row_of(rather_than)
        explanation = self._search.explain(rows, by, top)
        number = self.documents.find_row(y)
        if number is None:
            return explanation
        remembered = self._search.remembered(rows["x"], number, self.memory)
        return replace(explanation, remembered=tuple(remembered))

    def encode(
        self,
        sentences: str | Iterable[str],
        *,
        convert_to_tensor: bool = False,
        **options: Any,
    ) -> Any:
        """Return texts as vectors whose dot products are the similarity.

        So a collection takes the place of a `SentenceTransformer`, as in
        `sentence_transformers.util.semantic_search`. Vectors are at unit length if
        the model ranks by the learned cosine. If it ranks by S as it is, search by
        `dot_score`.

        Parameters
        ----------
        sentences : str or iterable of str
            One text gives one vector.
        convert_to_tensor : bool, default=False
            Return a sparse tensor of torch, which takes the least memory: there is a
            column per word, per feature pair and per column of the embedding.
        **options
            Technical options of `SentenceTransformer.encode`, such as `batch_size` and
            `show_progress_bar`: they are ignored.

        Returns
        -------
        ndarray of float32, or tensor, of shape (n_texts, n_columns) or (n_columns,)
        """
        _check_encode_options(options)
        is_one = isinstance(sentences, str)
        texts = [sentences] if isinstance(sentences, str) else sentences
        scored = self.scored
        vectors = scored.similarity.transform(scored.rows(self.rows_of(texts)))
        if scored.ranking == COSINE:
            vectors = unit_rows(vectors)
        if isinstance(vectors, Rows):
            vectors = vectors.to_sparse()
        vectors = sp.coo_array(vectors, dtype=np.float32)
        if not convert_to_tensor:
            dense = vectors.toarray()
            return dense[0] if is_one else dense
        import torch

        places = torch.from_numpy(np.stack(vectors.coords))
        values = torch.from_numpy(vectors.data)
        tensor = torch.sparse_coo_tensor(
            places, values, vectors.shape, check_invariants=True
        ).coalesce()
        return tensor[0] if is_one else tensor

    #: The names by which asymmetric models are asked; here both sides are alike.
    encode_query = encode
    encode_document = encode

    # --- the rival --------------------------------------------------------------------

    def bm25_scores(self, texts: Iterable[str]) -> sp.csr_array:
        """Return the BM25 scores of all documents for queries.

        The terms are the words of the model. So a search by BM25 stands beside that by
        the cosine and the learned one, for the same queries.

        Parameters
        ----------
        texts : iterable of str

        Returns
        -------
        csr_array of shape (n_texts, n_documents)
            Documents without a word of the query have 0.
        """
        if self.words is None or self.documents.texts is None:
            raise ValueError(
                "BM25 counts the words of texts, but the model has no texts of documents: "
                "fit it on texts, without --no-documents."
            )
        bm25, documents = self._bm25
        return sp.csr_array(bm25.rewrite(self.words.count(texts)) @ documents.T)

    @cached_property
    def _bm25(self) -> tuple[BM25, sp.csr_array]:
        """BM25 of the documents, and its side of them."""
        assert self.words is not None
        counts = self.words.count(self.documents.texts)
        bm25 = BM25.of(counts)
        return bm25, bm25.index_rows(counts)

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all of it as arrays, and what is no array."""
        from .. import saving

        if self._model is None:
            assert self._saved is not None
            model, model_header = self._saved
        else:
            model, model_header = saving.to_arrays(self._model)
        documents, facts = self.documents.to_arrays()
        words: Arrays = {}
        words_header = None
        if self.words is not None:
            words, words_header = self.words.to_arrays()
        queries: Arrays = {}
        if self.queries is not None:
            queries = self.queries.to_arrays()
        encoder: Arrays = {}
        header = {"model": model_header, "documents": facts, "words": words_header}
        if self.encoder is not None:
            encoder, header["encoder"] = self.encoder.to_arrays()
        arrays = nested(
            model=model,
            documents=documents,
            words=words,
            queries=queries,
            encoder=encoder,
        )
        return arrays, header

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> Collection:
        """Return the collection of `to_arrays`; ValueError if it is damaged."""
        collection = cls(None)
        model_header = get_value(header, "model", dict)
        if model_header.get("kind") == "Collection":
            raise ValueError("a collection holds a model")
        collection._saved = (part_of(arrays, "model"), model_header)
        words_header = header.get("words")
        if words_header is not None:
            words = Words.from_arrays(part_of(arrays, "words"), words_header)
            collection.words = words
        n_features = collection.scored.n_words
        if words_header is not None and len(words.names) != n_features:
            raise ValueError(
                f"there are {len(words.names)} words, for {n_features} features"
            )
        documents = part_of(arrays, "documents")
        facts = get_value(header, "documents", dict)
        width = collection.scored.embedding_width
        collection.documents = Documents.from_arrays(
            documents, facts, n_features, width
        )
        if header.get("encoder") is not None:
            collection.encoder = TextEncoder.from_arrays(
                part_of(arrays, "encoder"), get_value(header, "encoder", dict)
            )
            if collection.encoder.width != width:
                raise ValueError(
                    f"the encoder has {collection.encoder.width} columns, and the "
                    f"embedding {width}"
                )
        queries = part_of(arrays, "queries")
        if queries:
            n_documents = collection.documents.n_rows
            collection.queries = Queries.from_arrays(
                queries, n_documents, n_features, width
            )
        return collection


def _check_encode_options(options: dict[str, Any]) -> None:
    """Raise TypeError for options of `encode` that would change its vectors."""
    unknown = set(options) - IGNORED_OPTIONS
    if unknown:
        raise TypeError(
            f"encode of a Collection has no option {sorted(unknown)[0]!r}: its "
            "vectors are those that the model ranks by."
        )


def _scored_from_arrays(
    arrays: Arrays, header: dict[str, Any]
) -> ScoredSimilarity | None:
    """Return the similarity of a file without loading scikit-learn.

    None if it is of another kind than HDSL, with `ClassScores` before it or without.
    """
    if header.get("kind") == "HDSL":
        similarity = similarity_from_arrays(arrays, header)
        return ScoredSimilarity(similarity, ranking=ranking_from(header))
    if header.get("kind") != "Pipeline":
        return None
    steps = header.get("steps")
    if not isinstance(steps, list):
        return None
    step_headers = [step[1] for step in steps]
    if [step.get("kind") for step in step_headers] != ["ClassScores", "HDSL"]:
        return None
    scores_header, model_header = step_headers
    scores = Scores().restore(part_of(arrays, "0"), scores_header)
    similarity = similarity_from_arrays(part_of(arrays, "1"), model_header)
    scored = ScoredSimilarity(similarity, scores, ranking_from(model_header))
    if scored.n_words != scores.n_features_in_:
        raise ValueError("the class scores and the model have other features")
    return scored
