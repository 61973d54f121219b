"""Texts as TF-IDF rows, and the documents that a model file holds beside the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from . import checks
from .files.model import CLASS_SCORES, read_model
from .solver.snapshot import part_of

TOKENS = ("words", "identifiers")
STOP_WORDS = ("english", "none")

#: The part of a row: training, choice of the model on the path, or test.
TRAIN, VALIDATION, TEST = 0, 1, 2

#: What there is one of per row, and keys of a model file that are not the name here.
_PER_ROW = ("labels", "texts", "ids", "part")
_KEYS = {"idf": "count_idf"}

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")


# --- texts to rows -------------------------------------------------------------------------------


def make_vectorizer(
    tokens: str = "words",
    *,
    ngrams: int = 1,
    stop_words: str = "english",
    min_df: int | float = 1,
    max_df: int | float = 1.0,
) -> TfidfVectorizer:
    """Return a TF-IDF vectorizer of texts: logarithmic counts, rows of length 1.

    Parameters
    ----------
    tokens : {"words", "identifiers"}, default="words"
        A word has two or more letters or digits. With "identifiers", for texts about programs, it
        has only letters, and ``camelCase`` and ``snake_case`` are two words each.
    ngrams : int, default=1
        Longest sequence of consecutive words that is a feature.
    stop_words : {"english", "none"}, default="english"
        Words to leave out before n-grams are made.
    min_df, max_df : int or float
        Fewest and most documents that contain a word, as a number or as a share.

    Returns
    -------
    TfidfVectorizer

    Examples
    --------
    >>> vectorizer = make_vectorizer("identifiers", ngrams=2)
    >>> vectorizer.fit(["call readLine or read_all"]).get_feature_names_out().tolist()
    ['line', 'line read', 'read', 'read line']
    """
    checks.check_word("make_vectorizer", "tokens", tokens, TOKENS)
    checks.check_word("make_vectorizer", "stop_words", stop_words, STOP_WORDS)
    checks.check_number("make_vectorizer", "ngrams", ngrams, low=1, integer=True)
    split = tokens == "identifiers"
    return TfidfVectorizer(
        preprocessor=split_identifiers if split else None,
        token_pattern=r"(?u)[^\W\d_]{2,}" if split else r"(?u)\b\w\w+\b",
        ngram_range=(1, int(ngrams)),
        stop_words=None if stop_words == "none" else stop_words,
        min_df=min_df,
        max_df=max_df,
        sublinear_tf=True,
    )


def split_identifiers(text: str) -> str:
    """Return a text in lower case with identifiers split into words.

    Examples
    --------
    >>> split_identifiers("HTTPServer.handle_request")
    'http server.handle request'
    """
    return _WORD_BREAK.sub(" ", text).lower()


# --- counts to rows ------------------------------------------------------------------------------


def are_counts(X: sp.csr_array) -> bool:
    """Return whether all values are whole numbers from 0, and not all of them 0 and 1.

    Examples
    --------
    >>> are_counts(sp.csr_array([[2.0, 0, 1]])), are_counts(sp.csr_array([[0.5, 0, 1]]))
    (True, False)
    """
    values = X.data
    return bool(len(values) and (values >= 0).all() and (values == values.round()).all()
                and values.max() > 1)  # fmt: skip


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
    X = checks.canonical(X).astype(np.float64)
    X.data = (1 + np.log(X.data)) * idf[X.indices]
    return X


# --- documents -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Collection:
    """Documents as rows, and the vectorizer that made them; each part may be missing.

    Parameters
    ----------
    X : csr_array of shape (n_rows, n_features)
    labels : ndarray of shape (n_rows,)
        Numbers or strings.
    texts : ndarray of shape (n_rows,)
    part : ndarray of shape (n_rows,)
        TRAIN, VALIDATION or TEST.
    vectorizer : TfidfVectorizer
        From `make_vectorizer`, fitted.
    columns : dict of str to str
        Names of the columns "text" and "label" in the table of the documents.
    ids : ndarray of shape (n_rows,)
        The user's name of each document.
    idf : ndarray of shape (n_features,)
        For rows that were counts: `weigh_counts` made X with it.
    judgements : ndarray of shape (n, 3) or (n, 4)
        Triplets or quadruplets that were held out.
    judgement_weights : ndarray of shape (n,)
    choice : ndarray of shape (n, 2)
        Iterations and validation scores of the run that chose the number of iterations.
    verdict : str
        Of the comparison with the cosine on rows held out, as in `ErrorComparison`.
    """

    X: Any = None
    labels: Any = None
    texts: Any = None
    part: Any = None
    vectorizer: Any = None
    columns: Mapping[str, str] | None = None
    ids: Any = None
    idf: Any = None
    judgements: Any = None
    judgement_weights: Any = None
    verdict: str | None = None
    choice: Any = None

    @property
    def idf_of_features(self) -> np.ndarray | None:
        """The TF-IDF weights of words or of counts, if there are any."""
        return self.idf if self.vectorizer is None else self.vectorizer.idf_

    @property
    def n_rows(self) -> int:
        """The number of documents."""
        return 0 if self.X is None else self.X.shape[0]

    @property
    def row_name(self) -> str:
        """What a row is called: a document if it is a text."""
        return "row" if self.texts is None else "document"

    @property
    def feature_names(self) -> np.ndarray | None:
        """The words, one per feature."""
        return None if self.vectorizer is None else self.vectorizer.get_feature_names_out()

    def rows_of(self, texts: Sequence[str] | np.ndarray) -> sp.csr_array:
        """Return texts as rows; words outside the vocabulary are ignored."""
        if self.vectorizer is None:
            raise ValueError(
                "The model was not learned from texts, so it has no words: give row numbers."
            )
        return checks.canonical(self.vectorizer.transform(texts))

    def to_extra(self) -> dict[str, Any]:
        """Return what `write_model` takes as "extra"."""
        extra: dict[str, Any] = {"columns": dict(self.columns or {})}
        if self.vectorizer is not None:
            split = self.vectorizer.preprocessor is not None
            extra["vectorizer"] = {
                "tokens": "identifiers" if split else "words",
                "ngrams": self.vectorizer.ngram_range[1],
                "stop_words": self.vectorizer.stop_words or "none",
            }
            extra["vocabulary"] = self.vectorizer.get_feature_names_out()
            extra["idf"] = self.vectorizer.idf_
        if self.X is not None:
            for name in ("indptr", "indices", "data"):
                extra[f"rows_{name}"] = getattr(self.X, name)
        for name in ("idf", "judgements", "judgement_weights", "verdict", "choice"):
            if getattr(self, name) is not None:
                extra[_KEYS.get(name, name)] = getattr(self, name)
        for name in _PER_ROW:
            value = getattr(self, name)
            if value is not None:
                strings = value.dtype.kind in "OUS"
                extra[name] = np.array([str(v) for v in value], dtype=object) if strings else value
        return extra

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any], n_features: int) -> Collection:
        """Return the documents in a model file; raise ValueError if they are damaged."""
        columns = extra.get("columns", {})
        if not isinstance(columns, dict) or not all(isinstance(c, str) for c in columns.values()):
            raise ValueError("columns are not names")
        vectorizer = _vectorizer(extra, n_features) if "vectorizer" in extra else None
        found = {name: extra.get(name) for name in _PER_ROW}
        more: dict[str, Any] = {"vectorizer": vectorizer, "columns": columns}
        more |= {"idf": _idf(extra, n_features), "verdict": _verdict(extra)}
        more["choice"] = _choice(extra)
        if "rows_data" not in extra:
            return cls(**more)
        X = _rows(extra, n_features)
        more |= _judgements(extra, X.shape[0])
        for name, value in found.items():
            if value is None:
                continue
            good = isinstance(value, np.ndarray) and value.shape == (X.shape[0],)
            kinds = {"labels": "biufO", "texts": "O", "ids": "biufO", "part": "i"}[name]
            if not good or value.dtype.kind not in kinds:
                raise ValueError(f"{name} must be a vector with one entry per row")
        return cls(X, **found, **more)


def load_collection(path: Any) -> Collection:
    """Return the documents in a model file; nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Collection
        Empty if the file has no documents. The rows are without class scores.
    """
    state = read_model(path)
    extra = state["extra"]
    n_scores = np.size(part_of(extra, CLASS_SCORES).get("classes", ()))
    try:
        return Collection.from_extra(extra, state["n_features_in"] - n_scores)
    except ValueError as error:
        raise ValueError(
            f"Cannot load the documents of {str(path)!r}: {error}. The file is damaged: copy it "
            "again, or save the model anew."
        ) from None


def _rows(extra: Mapping[str, Any], n_features: int) -> sp.csr_array:
    parts: list[Any] = [extra.get(f"rows_{name}") for name in ("data", "indices", "indptr")]
    for array, kind in zip(parts, "fii", strict=True):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != kind:
            raise ValueError("the rows are not vectors of values and indices")
    if not len(parts[2]):
        raise ValueError("the row pointers are missing")
    X = sp.csr_array(tuple(parts), shape=(len(parts[2]) - 1, n_features), dtype=np.float64)
    checks.check_structure(X)
    checks.check_finite(X, "the rows")
    return checks.canonical(X)


def _idf(extra: Mapping[str, Any], n_features: int) -> np.ndarray | None:
    idf: Any = extra.get(_KEYS["idf"])
    if idf is None:
        return None
    if not isinstance(idf, np.ndarray) or idf.shape != (n_features,) or idf.dtype.kind != "f":
        raise ValueError("the weights of counts must be a vector with one entry per feature")
    if not np.isfinite(idf).all():
        raise ValueError("the weights of counts must be finite")
    return idf


def _choice(extra: Mapping[str, Any]) -> np.ndarray | None:
    choice: Any = extra.get("choice")
    if choice is None:
        return None
    is_table = isinstance(choice, np.ndarray) and choice.ndim == 2 and choice.shape[1] == 2
    if not is_table or choice.dtype.kind != "f" or not np.isfinite(choice).all():
        raise ValueError("the validation scores must be finite, in two columns")
    return choice


def _verdict(extra: Mapping[str, Any]) -> str | None:
    verdict = extra.get("verdict")
    if verdict not in (None, "better", "worse", "no difference"):
        raise ValueError("the verdict is unknown")
    return verdict


def _judgements(extra: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return the judgements held out and their weights, if there are any."""
    if extra.get("judgements") is None:
        return {}
    given = [extra["judgements"], extra.get("judgement_weights")]
    for array, kind in zip(given, "if", strict=True):
        if array is not None and not (isinstance(array, np.ndarray) and array.dtype.kind == kind):
            raise ValueError("the judgements held out are not row numbers with weights")
    found = checks.check_comparisons(given[0], n_rows)
    weights = checks.check_weights(given[1], len(found), "judgement")
    return {"judgements": found, "judgement_weights": weights}


def _vectorizer(extra: Mapping[str, Any], n_features: int) -> TfidfVectorizer:
    options: Any = extra.get("vectorizer")
    words: Any = extra.get("vocabulary")
    idf: Any = extra.get("idf")
    if not isinstance(options, dict) or options.keys() != {"tokens", "ngrams", "stop_words"}:
        raise ValueError("the options of the vectorizer are missing")
    for name, value in (("vocabulary", words), ("idf", idf)):
        if not isinstance(value, np.ndarray) or value.shape != (n_features,):
            raise ValueError(f"{name} must be a vector with one entry per feature")
    if words.dtype.kind != "O" or idf.dtype.kind != "f" or not np.isfinite(idf).all():
        raise ValueError("vocabulary must hold words, and idf finite numbers")
    if len(set(words.tolist())) < n_features:
        raise ValueError("a word is in the vocabulary twice")
    vectorizer = make_vectorizer(**options)
    vectorizer.vocabulary = dict(zip(words.tolist(), range(n_features), strict=True))
    vectorizer.idf_ = idf
    return vectorizer
