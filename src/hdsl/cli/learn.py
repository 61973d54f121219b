"""The job of `fit` and `demo`: split, vectorise, learn, measure on rows held out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from .. import text
from ..evaluate.choose import WITHIN_CHANCE, effects_in, losses
from ..evaluate.measured import MAX_SCORES, Measured
from ..evaluate.searches import search_quality
from ..explain.tables import has_class
from ..labels import LabelSets, ranks
from ..rows import Rows, count_features, stack_rows
from ..similarity.cosine import COSINE
from ..similarity.similarity import unlearned
from ..text import TEST, TRAIN, Collection, Documents, Queries, Words
from ..text.counts import BM25, are_counts, inverse_frequencies, weigh_counts
from ..text.learning import beside_scores, fit_collection
from ..triplets import relevance_triplets
from . import measure
from .inputs import Data, query_rows
from .measure import show_measured
from .output import (
    announce,
    counted,
    is_watched,
    one_line,
    say,
    share_of,
    show,
    show_table,
)

if TYPE_CHECKING:
    from ..explain import Importance

#: Fields of a feature pair that are facts.
PAIR_FIELDS = ["name", "weight", "effect", "n_rows", "n_rows_i", "n_rows_j"]

#: Arguments of a fit that a second one takes too, which chooses nothing.
TO_LEARN_AGAIN = ("X", "y", "memory_limit")


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
        announce("learning again with forbidden and forced pairs", quiet=quiet)
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


# --- what is learned from -------------------------------------------------------------


def _training_of_labels(
    data: Data, documents: Documents, parts: np.ndarray
) -> dict[str, Any]:
    """Return the arguments of a fit to the labels of the rows that are not held out."""
    is_kept = parts != TEST
    training = {"X": documents.X[is_kept], "y": data.y[is_kept]}
    if data.groups is not None:
        training["groups"] = data.groups[is_kept]
    return training


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


# --- what is held out -----------------------------------------------------------------


def split_rows(
    labels: np.ndarray | None,
    n_rows: int,
    share: float,
    seed: int,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """Return for each row TRAIN or TEST: a random share of each label, or of the groups.

    Examples
    --------
    >>> parts = split_rows(np.array(list("aaaaabbbbb")), 10, share=0.2, seed=0)
    >>> np.bincount(parts[:5]).tolist(), np.bincount(parts[5:]).tolist()
    ([4, 1], [4, 1])
    """
    if not 0 <= share < 1:
        raise ValueError(
            f"--test must be a share of the rows, from 0 to below 1. Got {share:g}."
        )
    codes = np.zeros(n_rows, dtype=np.int64)
    if groups is not None:
        _, numbers = np.unique(groups.astype(str), return_inverse=True)
        n_groups = int(numbers.max()) + 1
        return split_rows(None, n_groups, share, seed)[numbers]
    if labels is not None:
        _, codes = np.unique(labels, return_inverse=True)
    rank = ranks(codes, np.random.default_rng(seed).permutation(n_rows))
    quantile = (rank + 0.5) / np.bincount(codes)[codes]
    if n_rows and quantile.max() < share:
        raise ValueError(
            f"--test {share:g} holds out all {n_rows} rows: none is left to learn from."
        )
    return np.where(quantile < share, TEST, TRAIN).astype(np.int8)


class JudgementSplit(NamedTuple):
    """The judgements to learn from and those to measure by, as masks; others are neither."""

    learned: np.ndarray
    measured: np.ndarray


def split_judgements(
    comparisons: np.ndarray, is_new: np.ndarray, groups: np.ndarray | None = None
) -> JudgementSplit:
    """Return which judgements are learned from and which measure, by the new rows they name.

    Those to learn from name no new row. A triplet measures by a new anchor, a quadruplet
    by a new row in each of its pairs. Those of a group go the way of its first anchor.
    """
    if groups is not None:
        _, first, number = np.unique(groups, return_index=True, return_inverse=True)
        measured = is_new[comparisons[first, 0]][number]
        if not (~measured).any():
            raise _none_left(len(comparisons), "learn from")
        return JudgementSplit(~measured, measured)
    names_new = is_new[comparisons]
    learned = ~names_new.any(axis=1)
    if comparisons.shape[1] == 3:
        measured = names_new[:, 0]
    else:
        measured = names_new.reshape(-1, 2, 2).any(axis=2).all(axis=1)
    if not learned.any():
        raise _none_left(len(comparisons), "learn from")
    if is_new.any() and not measured.any():
        raise _none_left(len(comparisons), "measure by")
    n_unused = int((~learned & ~measured).sum())
    if n_unused:
        say(
            f"{learned.sum():,} judgements are learned from and {measured.sum():,} "
            f"measure; {n_unused:,} name rows of both and are left out: --test 0 "
            "learns from all."
        )
    return JudgementSplit(learned, measured)


def _none_left(n_judgements: int, purpose: str) -> ValueError:
    return ValueError(
        f"Of {n_judgements} judgements none is left to {purpose}, as each row is "
        "either in training or held out: change --test, or set it to 0."
    )


# --- what it came to ------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A model with its documents, and its errors on rows held out.

    `supervision` is "labels" or "judgements". `changes` are those of forbidden and forced
    pairs of features.
    """

    collection: Collection
    supervision: str
    measured: Measured | None
    seconds: float
    n_skipped: int = 0
    changes: measure.Changes | None = None

    @property
    def model(self) -> Any:
        """The model without its class scores."""
        return self.collection.learned

    @property
    def is_interrupted(self) -> bool:
        """Whether the user ended the fit."""
        return self.model.status_ == "interrupted"

    @property
    def kind(self) -> str:
        """What a row is to a reader."""
        if self.collection.documents.texts is None:
            return "row"
        return "document"

    def facts(self) -> dict[str, Any]:
        """Return the outcome as values for JSON."""
        model = self.model
        documents = self.collection.documents
        labels = measure.labels_of(documents)
        n_labels = None
        if labels is not None:
            n_labels = measure.n_different(labels)
        n_queries = 0
        n_new_queries = 0
        if self.collection.queries is not None:
            n_queries = self.collection.queries.n_queries
            n_new_queries = int(self.collection.queries.rows.is_new.sum())
        facts = {
            "rows": documents.n_rows,
            "rows held out": int(documents.is_new.sum()),
            "queries": n_queries,
            "queries held out": n_new_queries,
            "rows skipped": self.n_skipped,
            "empty rows": int((count_features(documents.X) == 0).sum()),
            "tf-idf": self.collection.words is not None or documents.idf is not None,
            "labels": n_labels,
            "features": self.collection.scored.n_words,
            "class scores": self.collection.scored.n_scores,
            "embedding": self.collection.scored.embedding_width,
            "embedding weight": getattr(model, "embedding_weight_", None),
            "embedding directions": _n_directions(model),
            "triplets": model.n_triplets_,
            "iterations": model.n_iter_,
            "status": model.status_,
            "pairs": len(model.weights_),
            "scale": model.scale_,
            "prior": model.prior_,
            "ranking": model.ranking_,
            "choice": choice_of(model),
            "memory": _memory_of(model),
            "objective": model.objective_,
        }
        if self.changes is not None:
            facts["changed"] = self.changes.names
        return facts | self._error_facts() | {"seconds": round(self.seconds, 2)}

    def _error_facts(self) -> dict[str, Any]:
        """Return the errors and ranks, and on what they were measured."""
        if self.measured is None:
            return {"measure": None, "measured on": 0, "error": {}}
        facts = {"measure": self.measured.measure, "measured on": self.measured.n}
        return facts | measure.facts_of(self.measured)

    @cached_property
    def importance(self) -> Importance:
        """The features and the feature pairs by their effect on the rows learned from."""
        documents = self.collection.documents
        scored = self.collection.scored
        X = scored.rows(documents.X[~documents.is_new])
        names = scored.names(self.collection.feature_names)
        importance: Importance = self.model.importance(X, feature_names=names)
        return importance

    def strongest_pairs(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the feature pairs with the largest effect on the rows that were learned from.

        Pairs with a class come last.
        """
        pairs = self.importance.pairs
        if self.collection.scored.n_scores:
            pairs = pairs[np.argsort(has_class(pairs["name"]), kind="stable")]
        return [
            dict(zip(PAIR_FIELDS, pair, strict=True))
            for pair in pairs[PAIR_FIELDS][:n].tolist()
        ]


def _n_directions(model: Any) -> int:
    """Return how many directions of the embedding are learned."""
    if model.directions_ is None:
        return 0
    return len(model.directions_)


def _memory_of(model: Any) -> str | None:
    """Return what is remembered of judged queries; None where nothing was judged."""
    memory = getattr(model, "memory_", None)
    if memory is None:
        return None
    return str(memory.sentence)


def choice_of(model: Any, *, with_effects: bool = True) -> str | None:
    """Return what was chosen and what it gains; None where nothing was chosen.

    `with_effects` says what else it changes.
    """
    table = getattr(model, "choice_", None)
    if not table or not np.any(table.get("chosen", False)):
        return None
    is_learned = np.isfinite(table["prior"])
    chosen = int(np.flatnonzero(table["chosen"])[-1])
    prior = table["prior"][chosen]
    n_priors = len(np.unique(table["prior"][is_learned]))
    if not np.isfinite(prior):
        return (
            "Nothing was learned, and the order of the cosine is left alone: none of "
            f"{n_priors} priors is expected to gain on held-out data."
        )
    if "gain" not in table:
        return f"Of {n_priors} priors tried on held-out data, {prior:.4g} is taken."
    sentences = [
        f"Of {n_priors} priors tried on held-out data, {prior:.4g} is taken: score "
        f"{table['score'][chosen]:.3f}, {table['score'][~is_learned][-1]:.3f} before "
        f"learning; gain {_interval(table, 'gain', chosen)}."
    ]
    if table["gain"][chosen] < 0.0 <= table["gain_high"][chosen]:
        sentences.append(f"{WITHIN_CHANCE[0].upper()}{WITHIN_CHANCE[1:]}.")
    start = int(np.flatnonzero(~is_learned)[-1])
    if with_effects:
        sentences += [
            f"{loss.replace('goal=', '--goal ').replace(chr(34), '')}."
            for loss in losses(effects_in(table, start, chosen))
        ]
    if model.ranking_ != COSINE:
        sentences.append("Rows are ranked by S, not divided by their learned length.")
    return " ".join(f"{text[0].upper()}{text[1:]}" for text in sentences)


def _interval(table: dict[str, np.ndarray], name: str, line: int) -> str:
    """Return a value with its interval."""
    low = table[f"{name}_low"][line]
    high = table[f"{name}_high"][line]
    return f"{table[name][line]:+.3f} ({low:+.3f} to {high:+.3f})"


# --- as text --------------------------------------------------------------------------


def show_outcome(outcome: Outcome, *, n_pairs: int = 10) -> None:
    """Print the data, the model, its errors, and its strongest pairs."""
    facts = outcome.facts()
    show(
        _data_line(outcome, facts),
        *_left_out(facts, outcome.kind),
        _model_line(outcome, facts),
    )
    # The tables below show what else changes, on rows that had no say.
    choice = choice_of(outcome.model, with_effects=outcome.measured is None)
    if choice:
        show(choice)
    if facts["memory"]:
        show(facts["memory"])
    if outcome.changes is not None:
        show(outcome.changes.sentence)
    show("")
    _show_errors(outcome)
    _show_pairs(outcome, n_pairs)


def _data_line(outcome: Outcome, facts: dict[str, Any]) -> str:
    """Return how many rows, labels and features there are."""
    supervision = "judgements"
    if outcome.supervision == "labels":
        supervision = counted(facts["labels"], "label")
    if facts["queries"]:
        supervision += f" of {counted(facts['queries'], 'query', 'queries')}"
    features = counted(facts["features"], "feature")
    if facts["class scores"]:
        features += f" and {facts['class scores']} class scores"
    held_out = f"{facts['rows held out']:,}"
    if facts["queries"]:
        n_queries = facts["queries held out"]
        held_out = counted(n_queries, "query", "queries")
    return (
        f"{counted(facts['rows'], outcome.kind)} with {supervision}, {features}; "
        f"{held_out} held out."
    )


def _left_out(facts: dict[str, Any], kind: str) -> list[str]:
    """Return what was skipped, and the documents that nothing is known of."""
    lines = []
    if facts["rows skipped"]:
        rows = counted(facts["rows skipped"], "row")
        lines.append(f"{rows} without a value skipped.")
    n_empty = facts["empty rows"]
    feature = "known word" if kind == "document" else "value"
    if n_empty == 1:
        lines.append(f"1 {kind} has no {feature}: it matches nothing.")
    elif n_empty > 1:
        lines.append(f"{n_empty:,} {kind}s have no {feature}: they match nothing.")
    return lines


def _model_line(outcome: Outcome, facts: dict[str, Any]) -> str:
    """Return the size of the model, and of the work that it took."""
    pairs = "No pairs" if not facts["pairs"] else counted(facts["pairs"], "pair")
    return (
        f"{pairs} from "
        f"{counted(facts['triplets'], 'triplet')} in "
        f"{counted(facts['iterations'], 'iteration')}, {outcome.seconds:.1f} s; scale "
        f"{outcome.model.scale_:.4g}, prior {outcome.model.prior_:.4g}"
        f"{_embedding(facts)}."
    )


def _embedding(facts: dict[str, Any]) -> str:
    """Return the weight of the embedding, after a comma; nothing without one."""
    if not facts["embedding"]:
        return ""
    weight = facts["embedding weight"]
    text = f", embedding of {facts['embedding']} columns with weight {weight:g}"
    if facts["embedding directions"]:
        n_directions = counted(facts["embedding directions"], "direction")
        text += f", {n_directions} learned in it"
    return text


def _show_errors(outcome: Outcome) -> None:
    """Print the errors on rows held out, or that there are none."""
    measured = outcome.measured
    if measured is None:
        show(
            "No rows are held out, so it is not known whether this model is better "
            "than the cosine."
        )
        return
    trials = counted(measured.n, "judgement")
    if outcome.supervision == "labels":
        n_new = int(outcome.collection.documents.is_new.sum())
        trials = share_of(measured.n, n_new, outcome.kind)
    if measured.searches is not None:
        trials = counted(measured.searches.n_queries, "query", "queries")
    title = f"{measured.title}, {trials} held out"
    show_measured(title, measured)


def _show_pairs(outcome: Outcome, n_pairs: int) -> None:
    """Print the strongest pairs, with their effect, weight and numbers of rows."""
    kind = outcome.kind
    if not len(outcome.model.weights_):
        return
    show("")
    min_rows = outcome.model.min_rows
    title = "Strongest pairs"
    if min_rows != "auto":
        title += f" of features in {min_rows} {kind}s or more"
    show(f"{title}: + raises, - lowers the similarity of two {kind}s")
    rows = [("  pair", "effect", "weight", f"{kind}s with each")]
    for pair in outcome.strongest_pairs(n_pairs):
        name = f"  {one_line(pair['name'], 60)}"
        counts = f"{pair['n_rows_i']:,}, {pair['n_rows_j']:,}"
        rows.append((name, f"{pair['effect']:+.2g}", f"{pair['weight']:+.3g}", counts))
    show_table(rows, right=(1, 2, 3))
    if outcome.importance.note:
        show(outcome.importance.note)
