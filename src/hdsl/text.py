"""Texts as TF-IDF rows, and documents with a model that takes texts.

A search in a loaded file needs no scikit-learn, whose import takes longer.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .arrays import similarity_from_arrays
from .explain.parts import with_words
from .files import tables
from .files.container import Arrays
from .files.tables import get_array, get_value, nested, part_of
from .input.comparisons import check_comparisons, check_weights
from .input.errors import short
from .input.matrices import INDEX_LIMIT, canonical
from .input.parameters import check_number, check_word
from .scores import Scores
from .similarity.cosine import LearnedCosine
from .similarity.rows import unit_rows

TOKENS = ("words", "identifiers")
STOP_WORDS = ("english", "none")

#: The part of a row: learned from, or held out to measure by.
TRAIN = 0
TEST = 1

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")


# --- texts to rows --------------------------------------------------------------------


class Words:
    """TF-IDF rows of texts: logarithmic counts times weights of words, rows of length 1.

    Parameters
    ----------
    tokens : {"words", "identifiers"}, default="words"
        A word has two or more letters or digits. With "identifiers", for texts about
        programs, it has only letters, and ``camelCase`` and ``snake_case`` are two
        words each.
    ngrams : int, default=1
        Longest sequence of consecutive words that is a feature.
    stop_words : {"english", "none"} or list of str, default="english"
        Words to leave out before n-grams are made.
    min_df, max_df : int or float
        Fewest and most documents that contain a word, as a number or as a share.

    Attributes
    ----------
    names : ndarray of shape (n_features,)
        The words, sorted.
    idf : ndarray of shape (n_features,)
        1 + ln((1 + n) / (1 + n_w)) for a word in n_w of n documents.

    Examples
    --------
    >>> Words("identifiers", ngrams=2).fit(["call readLine or read_all"]).names.tolist()
    ['line', 'line read', 'read', 'read line']
    """

    def __init__(
        self,
        tokens: str = "words",
        *,
        ngrams: int = 1,
        stop_words: str | Sequence[str] = "english",
        min_df: int | float = 1,
        max_df: int | float = 1.0,
    ) -> None:
        check_word("Words", "tokens", tokens, TOKENS)
        check_number("Words", "ngrams", ngrams, low=1, integer=True)
        if isinstance(stop_words, str):
            check_word("Words", "stop_words", stop_words, STOP_WORDS)
        self.tokens = tokens
        self.ngrams = int(ngrams)
        self.stop_words = stop_words
        self.min_df = min_df
        self.max_df = max_df
        self.names = np.empty(0, dtype=object)
        self.idf = np.empty(0)
        self._index: dict[str, int] = {}
        pattern = r"[^\W\d_]{2,}" if tokens == "identifiers" else r"\b\w\w+\b"
        self._find = re.compile(pattern).findall

    def split(self, text: str) -> list[str]:
        """Return the words of a text, without those that are left out."""
        text = _WORD_BREAK.sub(" ", text) if self.tokens == "identifiers" else text
        return [word for word in self._find(text.lower()) if word not in self._left_out]

    @cached_property
    def _left_out(self) -> frozenset[str]:
        if self.stop_words == "none":
            return frozenset()
        if self.stop_words != "english":
            return frozenset(word.lower() for word in self.stop_words)
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return ENGLISH_STOP_WORDS

    def _terms(self, words: list[str]) -> Iterable[str]:
        """Yield words and sequences of words."""
        yield from words
        for n in range(2, self.ngrams + 1):
            for k in range(len(words) - n + 1):
                yield " ".join(words[k : k + n])

    def unknown(self, text: str) -> list[str]:
        """Return the words of a text that no row has a column for, each once."""
        return [
            word for word in dict.fromkeys(self.split(text)) if word not in self._index
        ]

    def fit(self, texts: Iterable[str]) -> Words:
        """Learn the words and their weights; raise ValueError where none is left."""
        index: dict[str, int] = {}
        counts = self._count(texts, index, grow=True)
        n = counts.shape[0]
        n_with = np.bincount(counts.indices, minlength=len(index))
        low, high = (
            share if isinstance(share, int | np.integer) else share * n
            for share in (self.min_df, self.max_df)
        )
        names = np.sort(
            np.array(list(index), dtype=object)[(n_with >= low) & (n_with <= high)]
        )
        if not len(names):
            raise ValueError(f"no word is in {low:g} to {high:g} of the {n} texts")
        self._set(names, inverse_frequencies(counts)[[index[name] for name in names]])
        return self

    def transform(self, texts: Iterable[str]) -> sp.csr_array:
        """Return texts as rows; words that are not known are ignored."""
        if not self._index:
            raise ValueError("Words.transform: fit comes first.")
        return unit_rows(
            weigh_counts(self._count(texts, self._index, grow=False), self.idf)
        )

    def _set(self, names: np.ndarray, idf: np.ndarray) -> None:
        self.names = names
        self.idf = idf
        self._index = {name: k for k, name in enumerate(names.tolist())}

    def _count(
        self, texts: Iterable[str], index: dict[str, int], *, grow: bool
    ) -> sp.csr_array:
        """Return how often each text has each term."""
        indices = array("q")
        ends = array("q", [0])
        for text in [None] if isinstance(texts, str) else texts:
            if not isinstance(text, str):
                raise ValueError(f"Words takes a list of texts. Got {short(texts)}.")
            for term in self._terms(self.split(text)):
                place = (
                    index.setdefault(term, len(index)) if grow else index.get(term, -1)
                )
                if place >= 0:
                    indices.append(place)
            ends.append(len(indices))
        shape = len(ends) - 1, max(len(index), 1)
        kind = np.int32 if max(*shape, len(indices)) <= INDEX_LIMIT else np.int64
        at = np.array(indices, dtype=kind)
        indptr = np.array(ends, dtype=kind)
        return canonical(sp.csr_array((np.ones(len(at)), at, indptr), shape=shape))

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all but `min_df` and `max_df`, as `from_arrays` takes them."""
        arrays = tables.pack_strings("names", self.names.tolist()) | {"idf": self.idf}
        header = {"tokens": self.tokens, "ngrams": self.ngrams}
        return arrays, {**header, "stop_words": sorted(self._left_out)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> Words:
        """Return the words that `to_arrays` was called on; raise ValueError if damaged."""
        stop_words = get_value(header, "stop_words", list)
        if not all(isinstance(word, str) for word in stop_words):
            raise ValueError("stop words are not words")
        tokens = get_value(header, "tokens", str)
        ngrams = get_value(header, "ngrams", int)
        words = cls(tokens, ngrams=min(ngrams, 100), stop_words=stop_words)
        names = tables.get_strings(arrays, "names")
        words._set(names, get_array(arrays, "idf", "f", (len(names),)))
        if len(words._index) < len(names):
            raise ValueError("a word is in the vocabulary twice")
        return words


# --- counts to rows -------------------------------------------------------------------


def are_counts(X: sp.csr_array) -> bool:
    """Return whether all values are whole numbers from 0, and not all of them 0 and 1.

    Examples
    --------
    >>> are_counts(sp.csr_array([[2.0, 0, 1]])), are_counts(sp.csr_array([[0.5, 0, 1]]))
    (True, False)
    """
    values = X.data
    return bool(
        len(values)
        and (values >= 0).all()
        and (values == values.round()).all()
        and values.max() > 1
    )


def inverse_frequencies(X: sp.csr_array) -> np.ndarray:
    """Return the weight of each feature, 1 + ln((1 + n) / (1 + n_f)), for n_f of n rows with it."""
    n_rows_with = np.bincount(X.indices[X.data != 0], minlength=X.shape[1])
    return np.asarray(1 + np.log((1 + X.shape[0]) / (1 + n_rows_with)))


def weigh_counts(X: sp.csr_array, idf: np.ndarray) -> sp.csr_array:
    """Return counts c as TF-IDF: (1 + ln c) times the weight of the feature.

    Examples
    --------
    >>> weigh_counts(sp.csr_array([[1.0, 0, 1]]), np.array([1.0, 1.5, 2.0])).toarray().tolist()
    [[1.0, 0.0, 2.0]]
    """
    X = canonical(X).astype(np.float64)
    if not ((X.data > 0) & (X.data == X.data.round())).all():
        raise ValueError(
            "TF-IDF needs counts, whole numbers from 0, but there are other values."
        )
    X.data = (1 + np.log(X.data)) * idf[X.indices]
    return X


# --- documents ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Documents:
    """Rows and what is known of them; each part may be missing.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
        Without class scores.
    labels, texts, ids : ndarray of shape (n_rows,)
    part : ndarray of shape (n_rows,)
        TRAIN or TEST.
    idf : ndarray of shape (n_features,)
        For rows that were counts: `weigh_counts` made X with it.
    judgements : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets that were held out.
    judgement_weights : ndarray of shape (n,)
    facts : dict
        What was measured, and the names of the columns of a table.
    """

    X: Any = None
    labels: Any = None
    texts: Any = None
    ids: Any = None
    part: Any = None
    idf: Any = None
    judgements: Any = None
    judgement_weights: Any = None
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("labels", "texts", "ids"):
            if isinstance(given := getattr(self, name), list | tuple):
                kind = (
                    object if all(isinstance(value, str) for value in given) else None
                )
                object.__setattr__(self, name, np.array(given, dtype=kind))
        if self.X is None:
            return
        object.__setattr__(self, "X", sp.csr_array(self.X))
        for name in ("labels", "texts", "ids", "part"):
            if (given := getattr(self, name)) is not None and len(given) != self.n_rows:
                raise ValueError(
                    f"There are {len(given)} {name}, but X has {self.n_rows} rows."
                )

    @property
    def n_rows(self) -> int:
        """The number of documents."""
        return 0 if self.X is None else self.X.shape[0]

    @property
    def is_new(self) -> np.ndarray:
        """Which rows were held out."""
        return (
            np.zeros(self.n_rows, dtype=bool)
            if self.part is None
            else self.part == TEST
        )

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all of it as arrays, and what is no array."""
        arrays = {} if self.X is None else tables.csr_to_arrays(self.X, "X")
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and value.ndim == 1:
                arrays |= tables.pack_values(name, value)
            elif isinstance(value, np.ndarray):
                arrays[name] = value
        return arrays, self.facts

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, facts: dict[str, Any], n_features: int
    ) -> Documents:
        """Return what `to_arrays` was called on; raise ValueError if it is damaged."""
        there = {name.partition(".")[0] for name in arrays}
        found: dict[str, Any] = {"facts": facts}
        if "idf" in there:
            found["idf"] = get_array(arrays, "idf", "f", (n_features,))
        if "X" not in there:
            return cls(**found)
        found["X"] = canonical(tables.csr_from_arrays(arrays, "X", n_features))
        n_rows = found["X"].shape[0]
        for name in there & {"labels", "texts", "ids", "part"}:
            found[name] = tables.unpack_values(arrays, name, n_rows)
        if "texts" in there and found["texts"].dtype.kind != "O":
            raise ValueError("texts must be strings")
        if "judgements" in there:
            judged = get_array(arrays, "judgements", "i")
            found["judgements"] = check_comparisons(judged, n_rows)
            weights = arrays.get("judgement_weights")
            found["judgement_weights"] = check_weights(
                weights, len(judged), "judgement"
            )
        return cls(**found)


class Scored:
    """A learned similarity over rows, with class scores beside them or without.

    ``rewrite`` and ``index_rows`` take rows without scores, so a model with scores is
    compared with the cosine of the rows as they are.

    Parameters
    ----------
    similarity : Similarity or LocalSimilarity
    scores : object with ``transform``, ``classes_`` and ``n_features_in_``, default=None
    """

    def __init__(self, similarity: Any, scores: Any = None) -> None:
        self.similarity = similarity
        self.scores = scores

    @property
    def n_scores(self) -> int:
        """The number of class scores beside a row."""
        return 0 if self.scores is None else len(self.scores.classes_)

    @property
    def n_features(self) -> int:
        """The number of features of a row without scores."""
        return int(self.similarity.n_features) - self.n_scores

    def rows(self, X: Any) -> sp.csr_array:
        """Return rows as the model was learned on, with their class scores."""
        return X if self.scores is None else sp.csr_array(self.scores.transform(X))

    def names(self, names: np.ndarray | None) -> np.ndarray | None:
        """Return the names of the features, then ``class:LABEL`` for each score."""
        if self.scores is None:
            return names
        known = (
            [f"x{k}" for k in range(self.n_features)]
            if names is None
            else names.tolist()
        )
        return np.array(
            [*known, *(f"class:{label}" for label in self.scores.classes_)], object
        )

    def rewrite(self, X: Any) -> Any:
        """Return the query side of the learned similarity."""
        return self.similarity.rewrite(self.rows(X))

    def index_rows(self, X: Any) -> Any:
        """Return the other side."""
        return self.similarity.index_rows(self.rows(X))


class Collection:
    """Documents with a learned similarity: takes texts, searches, and says why.

    ``hdsl.load`` returns it for a file of ``hdsl fit``.

    Parameters
    ----------
    model : HDSL, LocalHDSL or Pipeline
        Fitted; a pipeline has `ClassScores` first.
    words : Words, default=None
        What made rows of texts; None for rows of numbers.
    documents : Documents, default=None

    Attributes
    ----------
    model : HDSL, LocalHDSL or Pipeline
    words : Words or None
    documents : Documents
    """

    def __init__(
        self, model: Any, words: Words | None = None, documents: Documents | None = None
    ) -> None:
        self._model = model
        self._saved: tuple[Arrays, dict[str, Any]] | None = None
        self.words = words
        self.documents = documents or Documents()

    def __repr__(self) -> str:
        documents = self.documents
        what = "rows" if documents.texts is None else "documents"
        n = "no documents" if documents.X is None else f"{documents.n_rows:,} {what}"
        return f"<Collection: {n}, {self.scored.n_features:,} features; search, explain, model>"

    @property
    def model(self) -> Any:
        """The fitted model, as scikit-learn has it."""
        if self._model is None:
            from . import saving

            assert self._saved is not None
            self._model = saving.from_arrays(*self._saved)
        return self._model

    @property
    def learned(self) -> Any:
        """The fitted model without class scores before it."""
        return self.model[-1] if hasattr(self.model, "steps") else self.model

    @property
    def scores(self) -> Any:
        """The fitted `ClassScores` before the model, None where there are none."""
        return self.model[0] if hasattr(self.model, "steps") else None

    @cached_property
    def scored(self) -> Scored:
        """The learned similarity of rows."""
        return self._plain() or Scored(self.learned.similarity_, self.scores)

    def _plain(self) -> Scored | None:
        """Return the similarity of a file without loading scikit-learn, None for other kinds."""
        arrays, header = self._saved or ({}, {})
        if header.get("kind") == "HDSL":
            return Scored(similarity_from_arrays(arrays, header))
        steps = header.get("steps") if header.get("kind") == "Pipeline" else None
        kinds = (
            [step[1].get("kind") for step in steps] if isinstance(steps, list) else []
        )
        if kinds != ["ClassScores", "HDSL"]:
            return None
        scores = Scores().restore(part_of(arrays, "0"), steps[0][1])  # type: ignore[index]
        found = Scored(
            similarity_from_arrays(part_of(arrays, "1"), steps[1][1]), scores
        )  # type: ignore[index]
        if found.n_features != scores.n_features_in_:
            raise ValueError("the class scores and the model have other features")
        return found

    @property
    def feature_names(self) -> np.ndarray | None:
        """The words, one per feature of a row; None where they have no names."""
        return None if self.words is None else self.words.names

    # --- use --------------------------------------------------------------------------

    def rows_of(self, texts: Iterable[str]) -> sp.csr_array:
        """Return texts as rows; words that are not known are ignored (see `unknown_words`)."""
        if self.words is None:
            raise ValueError(
                "The model was not learned from texts, so it has no words: give row "
                "numbers."
            )
        return self.words.transform(texts)

    def unknown_words(self, text: str) -> list[str]:
        """Return the words of a text that the model does not know, and so does not search for."""
        return [] if self.words is None else self.words.unknown(text)

    def known_share(self, text: str) -> float:
        """Return which share of the words of a text is known: what a score rests on."""
        if self.words is None:
            return 1.0
        n_words = len(set(self.words.split(text)))
        return 1.0 - len(self.words.unknown(text)) / n_words if n_words else 0.0

    def is_document(self, name: Any) -> bool:
        """Return whether this is the id or the number of a document."""
        try:
            return self.row_number(name) >= 0
        except ValueError:
            return False

    def row_number(self, name: Any) -> int:
        """Return the row of a document by its id, or by its number where ids are no numbers."""
        documents = self.documents
        name = str(name)
        if documents.X is None:
            raise ValueError("The model has no documents: give texts instead of rows.")
        ids = (
            []
            if documents.ids is None
            else [str(value) for value in documents.ids.tolist()]
        )
        if name in ids:
            return ids.index(name)
        are_numbers = bool(ids) and all(map(str.isdecimal, ids))
        is_number = name.isdecimal() and len(name) < 19 and int(name) < documents.n_rows
        if are_numbers or not is_number:
            ways = ["named by their ids"] if ids else []
            ways += [] if are_numbers else ["numbered from 0"]
            raise ValueError(
                f"There is no document {name[:60]!r}: the model has "
                f"{documents.n_rows:,}, {' or '.join(ways)}."
            )
        return int(name)

    def row_of(self, given: Any) -> sp.csr_array:
        """Return one row: of a document by id or number, else of a text."""
        is_text = (
            self.words is not None and isinstance(given, str) and not given.isdecimal()
        )
        if is_text and not self.is_document(given):
            return self.row_of_text(given)
        return self.documents.X[[self.row_number(given)]]

    def row_of_text(self, text: str) -> sp.csr_array:
        """Return a text as one row; raise ValueError where no word of it is known."""
        row = self.rows_of([text])
        if not row.nnz:
            raise ValueError(
                f"The model knows none of the words of {text[:60]!r}: try others."
            )
        return row

    def search(
        self, query: Any, k: int = 5, *, why: int = 4, row: Any = None
    ) -> list[dict[str, Any]]:
        """Return the documents of largest learned cosine with a text, and why.

        Parameters
        ----------
        query : str or None
        k : int, default=5
            Number of documents.
        why : int, default=4
            Number of reasons for each.
        row : int or str, default=None
            The id or number of a document to search with, instead of a text.

        Returns
        -------
        list of dict
            ``row``, ``id``, ``label``, ``text``, ``similarity`` (the learned cosine),
            ``cosine``, ``rank`` and ``rank by cosine``, ``why`` (name and value of the
            largest parts) and ``more`` (number and sum of the others).
        """
        if row is None:
            if not isinstance(query, str):
                raise TypeError(
                    f"search takes one text, or row=. Got {type(query).__name__}."
                )
            return self.search_rows(self.row_of_text(query), k, why=why)[0]
        number = self.row_number(row)
        return self.search_rows(
            self.documents.X[[number]], k, why=why, leave_out=number
        )[0]

    def search_rows(
        self,
        queries: sp.csr_array,
        k: int = 5,
        *,
        why: int = 4,
        leave_out: int | None = None,
        first_by_cosine: bool = False,
    ) -> list[list[dict[str, Any]]]:
        """Return for each row what `search` returns; nothing for an empty row.

        With `first_by_cosine` the nearest document by cosine comes last, if it is not
        among them.
        """
        X = self.documents.X
        scored = self.scored
        if X is None:
            raise ValueError(
                "The model has no documents: fit it again without --no-documents."
            )
        if k < 1 or why < 0:
            raise ValueError(
                f"k must be 1 or more and why 0 or more. Got {k} and {why}."
            )
        learned = LearnedCosine(scored.similarity)
        index = learned.index_rows(scored.rows(X))
        plain = unit_rows(X)
        left_out = [] if leave_out is None else [leave_out]
        answers: list[list[dict[str, Any]]] = []
        for query in (queries[[q]] for q in range(queries.shape[0])):
            answers.append([])
            if not query.nnz:
                continue
            sides = (
                (index, learned.rewrite(scored.rows(query))),
                (plain, unit_rows(query)),
            )
            scores, cosines = (
                np.asarray((rows @ x.T).todense()).ravel() for rows, x in sides
            )
            scores[left_out] = cosines[left_out] = -np.inf
            nearest = np.argsort(-scores, kind="stable")[
                : min(k, len(scores) - len(left_out))
            ]
            rows = nearest.tolist()
            first = int(np.argmax(cosines))
            if first_by_cosine and first not in rows and cosines[first] > 0.0:
                rows.append(first)
            answers[-1] += [self._hit(row, query, scores, cosines, why) for row in rows]
        return answers

    def _hit(
        self, row: int, query: Any, scores: np.ndarray, cosines: np.ndarray, why: int
    ) -> dict[str, Any]:
        """Return a document that was found, with what is known of it and the reasons."""
        documents = self.documents
        score = float(scores[row])
        reasons = self._reasons(query, documents.X[[row]], score)
        known = {
            name: getattr(documents, f"{name}s") for name in ("id", "label", "text")
        }
        return {
            "row": row,
            **{
                name: None if values is None else values[row]
                for name, values in known.items()
            },
            "similarity": score,
            "cosine": float(cosines[row]),
            "rank": int((scores > scores[row]).sum()) + 1,
            "rank by cosine": int((cosines > cosines[row]).sum()) + 1,
            "why": reasons[:why],
            "more": {
                "n": len(reasons[why:]),
                "value": sum(p["value"] for p in reasons[why:]),
            },
        }

    def _explained(
        self, rows: dict[str, Any], by: str = "pair", top: int | None = None
    ) -> Any:
        """Return the parts of the similarity of rows without scores, classes with their words."""
        from . import explain

        scored = self.scored
        names = self.scored.names(self.feature_names)
        given = {name: scored.rows(row) for name, row in rows.items()}
        found = explain.explain(
            scored.similarity, **given, by=by, feature_names=names, top=top
        )
        if scored.scores is None or names is None:
            return found
        return with_words(found, scored.scores, rows, names)

    def _reasons(self, x: Any, y: Any, cosine: float) -> list[dict[str, Any]]:
        """Return what each feature and feature pair adds to the cosine, learned part and prior."""
        found = self._explained({"x": x, "y": y})
        share = cosine / found.total if found.total else 0.0
        reasons: dict[str, dict[str, Any]] = {}
        for part in found.parts:
            reason = reasons.setdefault(
                str(part["name"]), {"name": str(part["name"]), "value": 0}
            )
            reason["value"] += share * float(part["value"])
            if words := found.words_of(part):
                reason["words"] = words
        return sorted(reasons.values(), key=lambda reason: -abs(reason["value"]))

    def explain(
        self,
        x: Any,
        y: Any,
        *,
        rather_than: Any = None,
        by: str = "pair",
        top: int | None = 10,
    ) -> Any:
        """Return the parts of the similarity of two documents or texts.

        Parameters
        ----------
        x, y, rather_than : str or int
            The id or number of a document, else a text.
        by, top
            As in ``HDSL.explain``.

        Returns
        -------
        hdsl.explain.Explanation
        """
        given = {"x": x, "y": y, "rather_than": rather_than}
        rows = {name: self.row_of(z) for name, z in given.items() if z is not None}
        return self._explained(rows, by, top)

    # --- files ------------------------------------------------------------------------

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return all of it as arrays, and what is no array."""
        from . import saving

        model, saved = self._saved or saving.to_arrays(self.model)
        documents, facts = self.documents.to_arrays()
        words, layout = ({}, None) if self.words is None else self.words.to_arrays()
        arrays = nested(model=model, documents=documents, words=words)
        return arrays, {"model": saved, "documents": facts, "words": layout}

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> Collection:
        """Return what `to_arrays` was called on; raise ValueError if it is damaged."""
        found = cls(None)
        layout = header.get("words")
        found._saved = part_of(arrays, "model"), get_value(header, "model", dict)
        if found._saved[1].get("kind") == "Collection":
            raise ValueError("a collection holds a model")
        if layout is not None:
            found.words = Words.from_arrays(part_of(arrays, "words"), layout)
        n_features = found.scored.n_features
        if found.words is not None and len(found.words.names) != n_features:
            raise ValueError(
                f"there are {len(found.words.names)} words, for {n_features} features"
            )
        documents = part_of(arrays, "documents")
        facts = get_value(header, "documents", dict)
        found.documents = Documents.from_arrays(documents, facts, n_features)
        return found
