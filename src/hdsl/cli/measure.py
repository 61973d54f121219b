"""Measure a model file: on the rows that `hdsl fit` held out, or on new ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..evaluate import known_item
from ..evaluate.measured import (
    N_QUERIES,
    Measured,
    measure_judgements,
    measure_labels,
    measure_searches,
)
from ..evaluate.searches import changed_searches, search_quality
from ..labels import LabelSets, split_labels
from ..relevance import Relevance
from ..rows import Rows, sparse_block
from ..text import BM25, Collection, Documents, Queries
from ..text.counts import weigh_counts
from ..triplets import ShownRows
from ..triplets.mining import row_keys
from .inputs import Data, query_rows
from .output import counted, one_line, percent, say, share_of, show, show_table

if TYPE_CHECKING:
    from ..evaluate import ErrorRate, KnownItem, RankingQuality, SearchComparison
    from ..evaluate.measured import Measured

#: Most rows held out that a model with labels is measured on.
MOST_MEASURED = 20_000

#: Most rows or queries that are searched by before and after an edit, and most that are
#: named.
MOST_CHANGED = 1000
N_CHANGED = 10

#: What rows are called, one and several.
KINDS = {"document": "documents", "query": "queries"}

AMONG_DOCUMENTS = "among the documents in the model"


class Evaluation(NamedTuple):
    """What was measured, on which rows, and whether the model has not seen these rows.

    `held_out` is None if that is not known, as the model file has no documents.
    """

    measured: Measured
    rows: str
    held_out: bool | None


def facts_of(measured: Measured) -> dict[str, Any]:
    """Return errors and ranks as values for JSON."""
    known_items: dict[str, Any] = {
        name: item.to_dict() for name, item in measured.known_items.items()
    }
    if known_items:
        known_items["sentence"] = measured.ranks_sentence
    facts = {
        "error": {name: rate.share for name, rate in measured.rates.items()},
        "comparison": measured.errors.to_dict(),
        "known item": known_items,
    }
    if measured.searches is not None:
        facts["search"] = measured.searches.to_dict()
    elif measured.row_searches is not None:
        facts["search"] = measured.row_searches.to_dict()
    return facts


def labels_of(documents: Documents) -> Any:
    """Return the labels of documents, split where a document has several."""
    return split_labels(documents.labels, documents.facts.get("label_sep"))


def n_different(y: Any) -> int:
    """Return the number of different labels."""
    if isinstance(y, LabelSets):
        return len(y.classes)
    return len(np.unique(y))


# --- rows held out --------------------------------------------------------------------


def held_out(collection: Collection, **options: Any) -> Measured | None:
    """Return what the rows that `hdsl fit` held out show, None where there are none."""
    documents = collection.documents
    scored = collection.scored
    X = documents.X
    y = labels_of(documents)
    new = documents.is_new
    if X is not None and collection.queries is not None:
        return _held_out_searches(collection, collection.queries, X)
    if X is None or not new.any():
        return None
    if documents.judgements is not None:
        weights = documents.judgement_weights
        rows = np.flatnonzero(new)
        measured = measure_judgements(scored, X, documents.judgements, weights, rows)
        return _beside_bm25(measured, collection, documents.texts, rows)
    if y is None:
        return None
    test_rows = rows_to_measure(new)
    measured = measure_labels(
        scored,
        X[~new],
        y[~new],
        X[test_rows],
        y[test_rows],
        classifier_facts=documents.facts.get("classifier"),
        **options,
    )
    searched = np.concatenate([test_rows, np.flatnonzero(~new)])
    texts = None if documents.texts is None else documents.texts[searched]
    return _beside_bm25(measured, collection, texts, np.arange(len(test_rows)))


def rows_to_measure(is_new: np.ndarray) -> np.ndarray:
    """Return the rows held out, or a sample of them where they are many.

    The search of their neighbours among all others would take longer than a fit, and an
    error of a sample is known to half a percent.
    """
    rows = np.flatnonzero(is_new)
    if len(rows) <= MOST_MEASURED:
        return rows
    sample = np.random.default_rng(0).choice(len(rows), MOST_MEASURED, replace=False)
    return rows[np.sort(sample)]


def _held_out_searches(
    collection: Collection, queries: Queries, documents: sp.csr_array
) -> Measured | None:
    """Return how well queries that were held out find what is relevant; None without any."""
    relevance = queries.held_out
    if not relevance.by_query():
        return None
    measured = _searches(
        collection, queries.rows.X, documents, relevance, queries.clicks
    )
    texts = collection.documents.texts
    return _searches_beside_bm25(
        measured, collection, queries.rows.texts, texts, relevance
    )


def _searches(
    collection: Collection,
    queries: sp.csr_array,
    documents: sp.csr_array,
    relevance: Relevance,
    clicks: ShownRows | None,
) -> Measured:
    """Return how well queries find what is relevant; of clicks what is shown above them."""
    memory = None
    if documents is collection.documents.X:
        memory = collection.memory
    return measure_searches(
        collection.scored, queries, documents, relevance, clicks, memory
    )


def _searches_beside_bm25(
    measured: Measured,
    collection: Collection,
    queries: Any,
    documents: Any,
    relevance: Relevance,
) -> Measured:
    """Return what was measured with BM25 of the same texts of queries and documents."""
    words = collection.words
    if words is None or queries is None or documents is None:
        return measured
    relevant = relevance.by_query()
    counts = words.count(documents)
    quality = search_quality(
        BM25.of(counts),
        words.count(queries[list(relevant)]),
        counts,
        list(relevant.values()),
    )
    assert measured.searches is not None
    measured = replace(measured, searches=replace(measured.searches, bm25=quality))
    return _beside_bm25(measured, collection, documents, np.arange(len(documents)))


def _beside_bm25(
    measured: Measured, collection: Collection, texts: Any, rows: np.ndarray
) -> Measured:
    """Return ranks in known-item search with those of BM25, for the same halves of texts."""
    if texts is None or collection.words is None or not measured.known_items:
        return measured
    counts = collection.words.count(texts)
    item = known_item(
        BM25.of(counts), counts, rows=rows, n_queries=N_QUERIES, random_state=0
    )
    return replace(measured, known_items={"BM25": item} | measured.known_items)


def measure_held_out(collection: Collection, n_neighbors: int) -> Evaluation:
    """Return the errors on the rows that `hdsl fit` held out."""
    measured = held_out(collection, n_neighbors=n_neighbors)
    if measured is None:
        raise ValueError(
            "The model has no rows or judgements held out: name a file with rows "
            "that it has not seen."
        )
    if measured.searches is not None:
        n_queries = measured.searches.n_queries
        rows = f" {AMONG_DOCUMENTS}, {_queries(n_queries)} held out"
    elif measured.n_neighbors == 0:
        rows = f", {counted(measured.n, 'judgement')} held out"
    else:
        n_new = int(collection.documents.is_new.sum())
        rows = f" {AMONG_DOCUMENTS}, {share_of(measured.n, n_new, 'row')} held out"
    return Evaluation(measured, rows, held_out=True)


def _queries(n: int) -> str:
    return counted(n, "query", "queries")


# --- edits ----------------------------------------------------------------------------


class Changes(NamedTuple):
    """Rows or queries whose nearest documents are others after an edit.

    `names` are their ids, or numbers; `n` rows or queries were looked at.
    """

    names: list[str]
    n: int
    kind: str

    @property
    def sentence(self) -> str:
        """What changed, in words."""
        if not self.names:
            return f"No {self.kind} of {self.n:,} has other nearest documents."
        named = ", ".join(one_line(name, 40) for name in self.names[:N_CHANGED])
        if len(self.names) > N_CHANGED:
            named += ", …"
        return (
            f"{len(self.names):,} of {counted(self.n, self.kind, KINDS[self.kind])} "
            f"have other nearest documents: {named}"
        )


def changes_of(before: Collection, after: Collection) -> Changes | None:
    """Return whose nearest documents are others: held-out queries or rows, or all rows.

    None where there are no documents.
    """
    documents = before.documents
    if documents.X is None:
        return None
    rows = documents
    kind = "document"
    if before.queries is not None:
        rows = before.queries.rows
        kind = "query"
    numbers = np.arange(rows.n_rows)
    if rows.is_new.any():
        numbers = np.flatnonzero(rows.is_new)
    spread = np.linspace(0, len(numbers) - 1, min(len(numbers), MOST_CHANGED))
    numbers = numbers[np.unique(spread.round().astype(np.int64))]
    changed = numbers[
        changed_searches(before.scored, after.scored, rows.X[numbers], documents.X)
    ]
    names = changed if rows.ids is None else rows.ids[changed]
    return Changes([str(name) for name in names.tolist()], len(numbers), kind)


# --- new rows -------------------------------------------------------------------------


def measure_new(data: Data, collection: Collection, n_neighbors: int) -> Evaluation:
    """Return the errors on new labelled rows, or on judgements of new rows."""
    if data.queries is not None:
        return _measure_queries(data, collection)
    X = _rows(data, collection)
    if data.judgements is None and data.labels is None:
        raise ValueError(
            f"{data.path} has no labels to compare with: name them with --label or "
            "--labels, or judgements with --triplets and the like."
        )
    is_new = _is_held_out(data, X, collection)
    if data.judgements is not None:
        measured = measure_judgements(
            collection.scored, X, data.judgements.triplets, data.judgements.weights
        )
        rows = f", {counted(measured.n, 'judgement')}{_doubt(is_new)}"
        return Evaluation(measured, rows, is_new)
    measured, neighbors = _measure_labels(data, X, collection, n_neighbors)
    rows = f" {neighbors}, {counted(measured.n, 'row')}{_doubt(is_new)}"
    return Evaluation(measured, rows, is_new)


def documents_as_data(path: Path, collection: Collection) -> Data:
    """Return the documents of a model as data that new queries are about."""
    documents = collection.documents
    if documents.X is None:
        raise ValueError(
            "The model has no documents: give their file as DATA, or fit again without "
            "--no-documents."
        )
    return Data(path, X=documents.X, texts=documents.texts, ids=documents.ids)


def _measure_queries(data: Data, collection: Collection) -> Evaluation:
    """Return how well new queries find the documents that are relevant."""
    assert data.queries is not None
    assert data.relevance is not None
    among = f"among {counted(data.n_rows, 'document')}"
    D = collection.documents.X
    if data.X is not D:
        D = _rows(data, collection)
    documents = replace(collection.documents, X=D)
    Q: Any = query_rows(data.queries, documents, collection.words)
    if isinstance(D, Rows):
        assert data.queries.texts is not None  # words make no rows of numbers
        Q = collection.rows_of(data.queries.texts)
    clicks = None
    if data.judgements is not None:
        clicks = data.judgements.shown
    measured = _searches(collection, Q, D, data.relevance, clicks)
    measured = _searches_beside_bm25(
        measured, collection, data.queries.texts, data.texts, data.relevance
    )
    is_new = _are_new_queries(Q, collection)
    n_queries = measured.searches.n_queries  # type: ignore[union-attr]
    rows = f" {among}, {_queries(n_queries)}{_doubt(is_new)}"
    return Evaluation(measured, rows, is_new)


def _are_new_queries(Q: sp.csr_array, collection: Collection) -> bool | None:
    """Return whether the model was not learned from any of these queries; warn otherwise."""
    if collection.queries is None:
        return None
    known = collection.queries.rows
    n_seen = int(are_among(Q, known.X[~known.is_new]).sum())
    if n_seen:
        say(
            f"warning: {n_seen:,} of {_queries(Q.shape[0])} were learned from, so the "
            "figures are too good. `hdsl evaluate MODEL` alone measures on queries "
            "held out."
        )
    return n_seen == 0


def _measure_labels(
    data: Data, X: sp.csr_array, collection: Collection, n_neighbors: int
) -> tuple[Measured, str]:
    """Return the errors on new labelled rows, and what their neighbours are."""
    documents = collection.documents
    scored = collection.scored
    y = split_labels(data.labels, documents.facts.get("label_sep"))
    if documents.X is None or documents.labels is None:
        measured = measure_labels(scored, X, y, n_neighbors=n_neighbors)
        return measured, "among the other rows"
    known = labels_of(documents)
    if not isinstance(y, LabelSets) and known.dtype.kind != y.dtype.kind:
        known = _as_words(known)
        y = _as_words(y)
    measured = measure_labels(scored, documents.X, known, X, y, n_neighbors=n_neighbors)
    return measured, AMONG_DOCUMENTS


def _as_words(labels: np.ndarray) -> np.ndarray:
    """Return labels as strings: numbers and words are compared as they are written."""
    return np.array([str(label) for label in labels], dtype=object)


def _doubt(is_new: bool | None) -> str:
    """Return what a title says of rows that the model may have seen."""
    if is_new is None:
        return ", not known to be held out"
    if not is_new:
        return ", not all held out"
    return ""


def _is_held_out(data: Data, X: sp.csr_array, collection: Collection) -> bool | None:
    """Return whether the model has seen none of the rows, None if not known; warn otherwise."""
    known = collection.documents.X
    if known is None:
        say(
            "warning: the model file has no documents, so these rows may be training "
            "rows. If they are, the errors are too low: name other rows."
        )
        return None
    fault = "are in the model already and find themselves"
    if data.judgements is not None:
        known = known[~collection.documents.is_new]
        fault = "were learned from"
    n_seen = int(are_among(X, known).sum())
    if n_seen:
        say(
            f"warning: {n_seen:,} of {counted(X.shape[0], 'row')} {fault}, so the "
            "errors are too low. `hdsl evaluate MODEL` alone measures on rows held "
            "out."
        )
    return n_seen == 0


def are_among(X: sp.csr_array, known: sp.csr_array) -> np.ndarray:
    """Return which rows of X are rows of another matrix too; empty ones are not.

    Rows of one text may differ in the last bits of a value, so values are compared by
    their first 24 bits, as a float32 has them, in the whole range of floats.
    """
    # An embedding is that of the same text.
    X = sparse_block(X)
    keys = row_keys(_rounded(X))
    known_keys = row_keys(_rounded(sparse_block(known)))
    known_set = {key.tobytes() for key in known_keys}
    is_known = np.array([key.tobytes() in known_set for key in keys], dtype=bool)
    return is_known & (np.diff(X.indptr) > 0)


def _rounded(X: sp.csr_array) -> sp.csr_array:
    """Return X with values of 24 significant bits; none becomes 0 or infinite."""
    mantissas, exponents = np.frexp(X.data.astype(np.float64))
    shortened = mantissas.astype(np.float32).astype(np.float64)
    with np.errstate(over="ignore"):  # the largest floats may round to infinity
        values = np.ldexp(shortened, exponents)
    return sp.csr_array((values, X.indices, X.indptr), shape=X.shape)


def _rows(data: Data, collection: Collection) -> sp.csr_array:
    """Return new data as rows with the features of the model, without class scores."""
    if data.texts is not None:
        return collection.rows_of(data.texts)
    X = data.X
    n_features = collection.scored.n_words
    learned_on = None
    if collection.words is not None:
        learned_on = "texts: give a table of texts"
    elif X.shape[1] > n_features:
        learned_on = f"{n_features} features"
    if learned_on is not None:
        raise ValueError(
            f"{data.path} has rows of {X.shape[1]} features, the model was learned on "
            f"{learned_on}."
        )
    X.resize(X.shape[0], n_features)  # an svmlight file may lack the last features
    if collection.documents.idf is None:
        return X
    return weigh_counts(X, collection.documents.idf)


# --- as text --------------------------------------------------------------------------


def show_measured(title: str, measured: Measured) -> None:
    """Print errors and ranks by cosine and as learned, and below all one verdict."""
    errors = measured.errors
    show(f"{title[0].upper()}{title[1:]}, with {100 * errors.confidence:g} % intervals")
    if measured.searches is not None:
        _show_searches(measured.searches)
    if measured.is_of_clicks:
        show(
            "Users click only what an engine shows, which favours its order. So "
            "clicked rows are compared with the other rows shown, and each click is "
            "weighted by how likely its position is seen: "
            f"{counted(measured.n, 'click')} held out. Errors are rows above a "
            "clicked one:"
        )
    if measured.searches is None or measured.is_of_clicks:
        rows = [
            (*_error_cells(name, rate), _note(name, measured))
            for name, rate in measured.rates.items()
        ]
        show_table(rows, right=(1,))
    if measured.row_searches is not None:
        _show_row_searches(measured.row_searches)
    if measured.known_items:
        _show_ranks(measured)
    show("", f"Verdict: {_verdict(measured)}")


def _verdict(measured: Measured) -> str:
    """Return what the tables say together."""
    searches = measured.searches
    sentences = [measured.errors.sentence]
    if searches is not None and not measured.is_of_clicks:
        sentences = [searches.sentence]
    if searches is not None:
        sentences += [searches.bm25_sentence, searches.memory_sentence]
    if measured.row_searches is not None:
        sentences.append(f"Among all rows: {measured.row_searches.sentence}")
    if measured.known_items:
        sentences.append(measured.ranks_sentence)
    return " ".join(filter(None, sentences))


def _show_searches(searches: SearchComparison) -> None:
    """Print how well queries find what is relevant, by cosine and as learned."""
    names = searches.names()
    rows = [("", *names.values())]
    rankings = {"cosine": searches.before, "learned": searches.after}
    if searches.bm25 is not None:
        rankings = {"BM25": searches.bm25} | rankings
    for name, quality in rankings.items():
        cells = [_mean(quality, measure) for measure in names]
        rows.append((f"  {name}", *cells))
    gains = [_gain(searches, measure) for measure in names]
    rows.append(("  learned - cosine", *gains))
    show_table(rows)


def _show_row_searches(searches: SearchComparison) -> None:
    """Print in one line how well anchors find what they prefer among all rows."""
    show(
        f"Searched among all {searches.n_documents:,} rows, nDCG@{searches.before.k} "
        f"{searches.after.ndcg:.3f}, by cosine {searches.before.ndcg:.3f} "
        f"({searches.n_queries:,} anchors)."
    )


def _mean(quality: RankingQuality, measure: str) -> str:
    """Return the mean of a measure over queries, with its interval."""
    low, high = quality.interval(measure)
    return f"{quality.values(measure).mean():.3f} ({low:.3f} to {high:.3f})"


def _gain(searches: SearchComparison, measure: str) -> str:
    """Return the mean difference per query, with its interval."""
    gain, low, high = searches.after.gain(searches.before, measure)
    return f"{gain:+.3f} ({low:+.3f} to {high:+.3f})"


def _error_cells(name: str, rate: ErrorRate) -> tuple[str, ...]:
    """Return the cells of an error: share, interval, counts."""
    low, high = rate.interval
    n_wrong = f"{rate.n_wrong:,.1f}".removesuffix(".0")
    return (
        f"  {name}",
        percent(rate.share),
        f"{100 * low:.1f} to {percent(high)}",
        f"{n_wrong} of {rate.n:,}",
    )


def _note(name: str, measured: Measured) -> str:
    """Return what a classifier lacks, and what it learned from."""
    if name != "LinearSVC" or measured.classifier is None:
        return ""
    notes = filter(None, ["classifier only", measured.classifier.sample_note])
    return f"({', '.join(notes)})"


def _show_ranks(measured: Measured) -> None:
    """Print how well rows are found by half of their features."""
    learned = measured.known_items["learned"]
    show(
        "",
        "Known-item search: mean reciprocal rank of a row among "
        f"{learned.n_rows:,}, by half of its features, {len(learned.ranks):,} queries",
    )
    rows = [_rank_row(name, item) for name, item in measured.known_items.items()]
    show_table(rows, right=(1,))


def _rank_row(name: str, item: KnownItem) -> tuple[str, ...]:
    """Return the cells of a known-item search: mean reciprocal rank, interval, recalls."""
    low, high = item.interval
    return (
        f"  {name}",
        f"{item.mrr:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"found first {percent(item.recall(1))}, in the first ten "
        f"{percent(item.recall(10))}",
    )
