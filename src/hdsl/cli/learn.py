"""The job of `fit` and `demo`: split, vectorise, learn, measure on rows held out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from .. import text
from ..evaluate.measured import MAX_SCORES
from ..evaluate.searches import search_quality
from ..labels import LabelSets
from ..rows import Rows, stack_rows
from ..similarity.unlearned import unlearned
from ..text import TEST, Collection, Documents, Queries, Words
from ..text.counts import BM25, are_counts, inverse_frequencies, weigh_counts
from ..text.learning import beside_scores, fit_collection
from ..triplets import relevance_triplets
from . import measure
from .data import Data
from .held_out import split_judgements, split_rows
from .messages import announce, is_watched, say
from .outcome import Outcome
from .query_rows import query_rows
from .wording import counted

#: Arguments of a fit that a second one takes too, which chooses nothing.
TO_LEARN_AGAIN = ("X", "y", "memory_limit")


def check_labels(data: Data) -> None:
    """Raise ValueError unless there are labels or judgements to learn from."""
    if data.has_judgements:
        return
    if data.labels is None:
        raise ValueError(
            f"{data.path} has no labels to learn from: name their column with --label, "
            "their file with --labels, or a file of judgements with --triplets, "
            "--clicks, --links, --grades or --judgements."
        )
    y = data.y
    if isinstance(y, LabelSets):
        y.check_differ()
        return
    _, sizes = np.unique(data.labels, return_counts=True)
    if len(sizes) < 2 or sizes.max() < 2:
        rows = counted(len(data.labels), "row")
        fault = f"All {rows} have different labels"
        if len(sizes) == 1:
            fault = f"All {rows} have the same label"
        raise ValueError(
            f"{fault}. At least 2 labels are needed, one of them on two or more rows."
        )


def learn(
    data: Data,
    model: Any,
    *,
    words: Words | None = None,
    weights: str = "tfidf",
    tfidf: bool | None = None,
    class_scores: bool = True,
    encoder: Any = None,
    test: float = 0.2,
    seed: int = 0,
    quiet: bool = False,
    checkpoint: Path | None = None,
    memory_limit: float | str | None = "auto",
    forbid: Sequence[str] = (),
    force: Sequence[str] = (),
) -> Outcome:
    """Learn a similarity from a data file.

    A share of the rows only measures the model: it does not even add words to the
    vocabulary. Where queries are no rows, a share of the queries does.

    Parameters
    ----------
    data : Data
    model : HDSL
        With the parameters to learn with; it is fitted.
    words : Words
        For texts; it is fitted.
    weights : {"auto", "tfidf", "bm25"}, default="tfidf"
        "auto" lets the words take BM25 where judged queries find more by it.
    tfidf : bool
        For rows: whether to weigh them as counts. None does so if they are whole
        numbers, and not only 0 and 1.
    class_scores : bool
        Whether to learn from labels with class scores beside the rows. Judgements have
        none.
    encoder : object, str or None
        For texts: what makes an embedding of them, or its name or folder.
    test : float
        Share of the rows to measure on; 0 measures nothing.
    seed : int
        Seed of the split.
    quiet : bool
        Whether to show no progress.
    checkpoint : Path
        File for checkpoints.
    memory_limit : float, "auto" or None
        As in ``HDSL.fit``.
    forbid, force : sequence of str
        Pairs of features that never count, or always, such as "cat ~ dog".

    Returns
    -------
    Outcome
    """
    start = time.perf_counter()
    labels = None if data.has_judgements else data.labels
    share = 0.0 if data.queries is not None else test
    parts = split_rows(labels, data.n_rows, share, seed, data.groups)
    text_encoder = _load_encoder(encoder, data)
    documents = _vectorize(data, parts, words, tfidf, quiet=quiet)
    if text_encoder is not None:
        documents = _with_embedding(documents, text_encoder, quiet=quiet)
    queries = None
    fitted = model
    if data.queries is not None:
        queries = _vectorize_queries(data, documents, words, test=test, seed=seed)
        if weights == "auto" and _finds_more_by_bm25(data, documents, queries, words):
            assert words is not None
            words.weights, words.norm = "bm25", None
            model.set_params(norm=None)
            documents = _vectorize(data, parts, words, tfidf, quiet=quiet)
            queries = _vectorize_queries(data, documents, words, test=test, seed=seed)
        if text_encoder is not None:
            rows = _with_embedding(queries.rows, text_encoder, quiet=quiet)
            queries = replace(queries, rows=rows)
        training = _training_of_queries(data, documents, queries, seed)
    elif data.has_judgements:
        training, documents = _split_judgements(data, documents)
    else:
        training = _training_of_labels(data, documents, parts)
        if class_scores and _is_scored(documents.X, data.y):
            fitted = beside_scores(model, len(training["y"]), random_state=seed)
    if checkpoint is not None and checkpoint.exists():
        say(f"continues from {checkpoint}")
    announce("learning (the first time, code is compiled)", quiet=quiet)
    training |= {"checkpoint": checkpoint, "memory_limit": memory_limit}
    model.set_params(verbose=int(is_watched(quiet)))
    try:
        collection = fit_collection(
            fitted,
            training,
            documents,
            words=words,
            encoder=text_encoder,
            queries=queries,
        )
    finally:
        model.set_params(verbose=0)
    seconds = time.perf_counter() - start
    changes = None
    if forbid or force:
        announce("learning again with what is forbidden and forced", quiet=quiet)
        edited = _edited(collection, training, forbid, force)
        changes = measure.changes_of(collection, edited)
        collection = edited
    announce("measuring on the rows held out", quiet=quiet)
    measured = measure.held_out(collection, n_jobs=model.n_jobs)
    if measured is not None:
        documents.facts["verdict"] = measured.verdict
        if measured.classifier is not None:  # a report takes it from the file
            documents.facts["classifier"] = measured.classifier.to_dict()
    supervision = "judgements" if data.has_judgements else "labels"
    return Outcome(collection, supervision, measured, seconds, data.n_skipped, changes)


def _edited(
    collection: Collection,
    training: dict[str, Any],
    forbid: Sequence[str],
    force: Sequence[str],
) -> Collection:
    """Return the collection without forbidden pairs, learned again, and with forced ones."""
    if forbid:
        before = collection.learned
        collection = collection.without(forbid)
        known = {name: training[name] for name in training if name in TO_LEARN_AGAIN}
        if collection.scores is not None:  # of rows that the classifier has not seen
            scores = clone(collection.scores)
            known["X"] = scores.fit_transform(known["X"], known["y"])
        model = collection.learned
        model.partial_fit(**known)
        # What was chosen, and what is remembered, is of the first fit.
        for name in ("choice_", "memory_", "ranking_"):
            setattr(model, name, getattr(before, name))
        collection = collection.with_learned(model)
    if force:
        collection = collection.with_pairs(force)
    return collection


# --- rows -----------------------------------------------------------------------------


def _training_of_labels(
    data: Data, documents: Documents, parts: np.ndarray
) -> dict[str, Any]:
    """Return the arguments of a fit to the labels of the rows that are not held out."""
    is_kept = parts != TEST
    training = {"X": documents.X[is_kept], "y": data.y[is_kept]}
    if data.groups is not None:
        training["groups"] = data.groups[is_kept]
    return training


def _vectorize(
    data: Data,
    parts: np.ndarray,
    words: Words | None,
    tfidf: bool | None,
    *,
    quiet: bool,
) -> Documents:
    """Return texts or rows as weighted vectors, with what is known of them."""
    idf = None
    if words is not None:
        announce("counting words", quiet=quiet)
        X = _count_words(words, data, parts)
    else:
        announce("weighing values", quiet=quiet)
        X = data.X
        if _are_counts(data, tfidf):
            idf = inverse_frequencies(X[parts != TEST])
            X = weigh_counts(X, idf)
    facts: dict[str, Any] = {"data": data.path.stem, "columns": data.columns}
    if data.queries is not None:
        facts["query_columns"] = data.queries.columns
    if data.label_sep:
        facts["label_sep"] = data.label_sep
    return Documents(
        X,
        labels=_plain(data.labels),
        texts=data.texts,
        ids=_plain(data.ids),
        part=parts,
        idf=idf,
        feature_names=data.feature_names,
        facts=facts,
    )


def _finds_more_by_bm25(
    data: Data, documents: Documents, queries: Queries, words: Words | None
) -> bool:
    """Return whether the judged queries to learn from find more by BM25 than by the cosine.

    More is more than chance. Clicks are no such judgements: an engine chose what was
    shown.
    """
    if words is None or data.judgements is not None or isinstance(documents.X, Rows):
        return False
    relevant = queries.relevance.of_queries(~queries.rows.is_new).by_query()
    if not relevant:
        return False
    numbers = [*relevant]
    grades = [*relevant.values()]
    D = documents.X
    plain = search_quality(unlearned(D), queries.rows.X[numbers], D, grades)
    counts = words.count(documents.texts)
    typed = words.count(queries.rows.texts[numbers])
    bm25 = search_quality(BM25.of(counts), typed, counts, grades)
    gain, low, high = bm25.gain(plain, "ndcg")
    if low <= 0.0:
        return False
    say(
        f"words are weighed as in BM25: {counted(len(numbers), 'query', 'queries')} to "
        f"learn from find more by it, nDCG@{bm25.k} {gain:+.3f} ({low:+.3f} to "
        f"{high:+.3f}). --weights tfidf leaves it out."
    )
    return True


def _load_encoder(encoder: Any, data: Data) -> text.TextEncoder | None:
    """Return the encoder of texts, or None where none is asked for."""
    if encoder is None:
        return None
    if data.texts is None:
        raise ValueError(
            f"--encoder makes an embedding of texts, but {data.path} has rows of "
            "numbers: name a column of texts with --text."
        )
    return text.TextEncoder.of(encoder)


def _with_embedding(
    documents: Documents, encoder: text.TextEncoder, *, quiet: bool
) -> Documents:
    """Return documents with an embedding of their texts beside the words."""
    texts = documents.texts
    announce(f"encoding {counted(len(texts), 'text')}", quiet=quiet)
    embedding = encoder.encode(texts.tolist(), verbose=int(is_watched(quiet)))
    return replace(documents, X=Rows(documents.X, embedding))


def _count_words(words: Words, data: Data, parts: np.ndarray) -> sp.csr_array:
    """Return the texts as rows; the words are those of the texts to learn from."""
    assert data.texts is not None
    try:
        words.fit(data.texts[parts != TEST])
    except ValueError as error:
        raise ValueError(
            f"No word is left to learn from ({error}): lower --min-df, raise --max-df, "
            "or try --stop-words none or --tokens characters."
        ) from None
    return words.transform(data.texts)


def _are_counts(data: Data, tfidf: bool | None) -> bool:
    """Return whether to weigh rows by TF-IDF; say so where nobody asked for it."""
    if tfidf is not None:
        return tfidf
    if not are_counts(data.X):
        return False
    say(
        f"the values of {data.path} are whole numbers: they are taken as counts "
        "and weighted by TF-IDF. --no-tfidf leaves them as they are."
    )
    return True


def _plain(values: np.ndarray | None) -> np.ndarray | None:
    """Return labels or ids as numbers, or as strings."""
    if values is None or values.dtype.kind in "biuf":
        return values
    return np.array([str(value) for value in values.tolist()], dtype=object)


# --- what is learned from -------------------------------------------------------------


def _split_judgements(
    data: Data, documents: Documents
) -> tuple[dict[str, Any], Documents]:
    """Return the arguments of a fit, and the documents with the judgements held out."""
    judgements = data.judgements
    assert judgements is not None
    comparisons = judgements.triplets
    split = split_judgements(comparisons, documents.is_new, judgements.groups)
    training = {"X": judgements.take(split.learned).with_rows(documents.X)}
    if not split.measured.any():
        return training, documents
    measured = judgements.take(split.measured)
    return training, replace(
        documents,
        judgements=measured.triplets,
        judgement_weights=measured.weights,
    )


def _vectorize_queries(
    data: Data, documents: Documents, words: Words | None, *, test: float, seed: int
) -> Queries:
    """Return the queries as rows with the words of the documents; a share is held out."""
    assert data.queries is not None
    assert data.relevance is not None
    queries = data.queries
    parts = split_rows(None, queries.n_rows, test, seed)
    rows = Documents(
        query_rows(queries, documents, words),
        texts=queries.texts,
        ids=_plain(queries.ids),
        part=parts,
    )
    clicks = None
    if data.judgements is not None and rows.is_new.any():
        is_new = np.concatenate([np.zeros(data.n_rows, dtype=bool), rows.is_new])
        shown = data.judgements.shown
        assert shown is not None
        clicks = shown.take(is_new[shown.queries])
    return Queries(rows, data.relevance, clicks)


def _training_of_queries(
    data: Data, documents: Documents, queries: Queries, seed: int
) -> dict[str, Any]:
    """Return the arguments of a fit to the judgements of the queries that are not held out."""
    is_known = ~queries.rows.is_new
    Q = queries.rows.X[is_known]
    if data.judgements is None:
        known = queries.relevance.of_queries(is_known)
        number = np.cumsum(is_known) - 1
        table = known._replace(queries=number[known.queries])
        judged = relevance_triplets(
            Q,
            documents.X,
            table._asdict(),
            query="queries",
            document="documents",
            grade="grades",
            random_state=seed,
        )
        return {"X": replace(judged, query_names=_names_of(queries, is_known))}
    is_row = np.concatenate([np.ones(documents.n_rows, dtype=bool), is_known])
    learned = data.judgements.of_rows(is_row)
    if not len(learned.triplets):
        raise ValueError(
            "No click is left to learn from, as each query is learned from or held "
            "out: change --test, or set it to 0."
        )
    named = replace(learned, query_names=_names_of(queries, is_known))
    return {"X": named.with_rows(stack_rows(documents.X, Q))}


def _names_of(queries: Queries, is_known: np.ndarray) -> np.ndarray:
    """Return what known queries are called: their texts, or their ids or numbers without."""
    names = queries.rows.texts
    if names is None:
        names = queries.rows.ids
    if names is None:
        names = np.arange(queries.n_queries)
    return np.array([str(name) for name in names[is_known].tolist()], dtype=object)


def _is_scored(X: sp.csr_array, y: Any) -> bool:
    """Return whether class scores are small enough; say so if not."""
    n_labels = measure.n_different(y)
    if (X.shape[0] + X.shape[1]) * n_labels <= MAX_SCORES:
        return True
    say(
        f"class scores are left out: {n_labels:,} labels with {X.shape[1]:,} "
        f"features and {X.shape[0]:,} rows need too much memory."
    )
    return False
