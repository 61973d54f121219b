"""A model file with its documents: measure on rows, search, explain, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import report, search
from ..classification import SimilarityClassifier
from ..hdsl import HDSL
from ..local import LocalHDSL
from ..saving import load
from ..similarity import unit_rows
from ..text import TEST, Collection, load_collection, weigh_counts
from . import inputs
from .measure import Measured, measure_judgements, measure_labels
from .scored import ScoredModel
from .shell import counted, one_line, say


class Evaluation(NamedTuple):
    """What was measured, on which rows, and whether the model has not seen these rows.

    `held_out` is None if that is not known, as the model file has no documents.
    """

    measured: Measured
    rows: str
    held_out: bool | None


def load_all(path: Path) -> tuple[ScoredModel, Collection]:
    """Return the model in a file, and its documents."""
    inputs.check_input(path)
    saved = load(path)
    if isinstance(saved, SimilarityClassifier):
        raise ValueError(
            f"{path} holds a SimilarityClassifier and no documents: this command needs a model of "
            "`hdsl fit`. hdsl.load(path).predict(X) classifies rows in Python."
        )
    return ScoredModel.from_saved(saved), load_collection(path)


def measure_held_out(
    path: Path, model: ScoredModel, documents: Collection, n_neighbors: int
) -> Evaluation:
    """Return the errors on the rows that `hdsl fit` held out."""
    X, y, part, judged = documents.X, documents.labels, documents.part, documents.judgements
    if X is None:
        raise ValueError(
            f"{path} has no documents, so no rows held out to measure on: name a file of rows that "
            "the model was not learned from."
        )
    if part is not None and judged is not None:
        rows = np.flatnonzero(part == TEST)
        found = measure_judgements(model, X, judged, documents.judgement_weights, rows)
        return Evaluation(found, f", {counted(found.n, 'judgement')} held out", True)
    if y is None or part is None or not (part == TEST).any():
        raise ValueError(f"{path} has no rows or judgements that were held out: name a data file.")
    new = part == TEST
    found = measure_labels(model, X[~new], y[~new], X[new], y[new], n_neighbors=n_neighbors)
    among = counted(found.n, documents.row_name)
    return Evaluation(found, f" among the documents in the model, {among} held out", True)


def measure_new(
    data: inputs.Data, model: ScoredModel, documents: Collection, n_neighbors: int
) -> Evaluation:
    """Return the errors on new labelled rows, or on judgements of new rows."""
    X = _rows(data, model, documents)
    if data.comparisons is None and data.labels is None:
        raise ValueError(
            f"{data.path} has no labels to compare with: name them with --label or --labels, or "
            "judgements with --triplets or --quadruplets."
        )
    held_out = _is_held_out(data, X, documents)
    of = {True: "", False: ", not all held out", None: ", not known to be held out"}[held_out]
    if data.comparisons is not None:
        found = measure_judgements(model, X, data.comparisons, data.weights)
        return Evaluation(found, f", {counted(found.n, 'judgement')}{of}", held_out)
    y: Any = data.labels
    if documents.X is None or documents.labels is None:
        found = measure_labels(model, X, y, n_neighbors=n_neighbors)
        return Evaluation(found, f" among the other rows, {counted(found.n, 'row')}{of}", held_out)
    known = documents.labels
    if known.dtype.kind != np.asarray(y).dtype.kind:
        known, y = (np.array([str(v) for v in labels], dtype=object) for labels in (known, y))
    found = measure_labels(model, documents.X, known, X, y, n_neighbors=n_neighbors)
    rows = counted(found.n, "row")
    return Evaluation(found, f" among the documents in the model, {rows}{of}", held_out)


def _is_held_out(data: inputs.Data, X: sp.csr_array, documents: Collection) -> bool | None:
    """Return whether the model has seen none of the rows, None if not known; warn otherwise."""
    if documents.X is None:
        say(
            "warning: the model file has no documents, so it is not known whether these rows were "
            "learned from. If they were, the errors are too low: name other rows."
        )
        return None
    known, what = documents.X, "are in the model already and find themselves"
    if data.comparisons is not None:
        known = known if documents.part is None else known[documents.part != TEST]
        what = "were learned from"
    n_seen = _n_seen(known, X)
    if n_seen:
        say(
            f"warning: {n_seen:,} of {counted(X.shape[0], 'row')} {what}, so the errors are too "
            "low. `hdsl evaluate MODEL` alone measures on rows held out."
        )
    return n_seen == 0


def _n_seen(known: sp.csr_array, new: sp.csr_array) -> int:
    """Return how many new rows equal a known one."""

    def keys(X: sp.csr_array) -> list[bytes]:
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        columns, values = X.indices.astype(np.int64), X.data.round(9)
        return [columns[a:b].tobytes() + values[a:b].tobytes() for a, b in ends if a < b]

    seen = set(keys(known))
    return sum(key in seen for key in keys(new))


def _rows(data: inputs.Data, model: ScoredModel, documents: Collection) -> sp.csr_array:
    """Return new data as rows with the features of the model, without class scores."""
    if data.texts is not None:
        return documents.rows_of(data.texts)
    X, d = data.X, model.n_features
    if documents.vectorizer is not None:
        raise ValueError(
            f"{data.path} has rows of {X.shape[1]} features, but the model was learned on texts: "
            "give a table of texts."
        )
    if X.shape[1] > d:
        raise ValueError(
            f"{data.path} has rows of {X.shape[1]} features, but the model was learned on {d}."
        )
    X.resize(X.shape[0], d)  # the last features may not occur in an svmlight file
    return X if documents.idf is None else weigh_counts(X, documents.idf)


def find(
    model: ScoredModel,
    documents: Collection,
    queries: sp.csr_array,
    n: int,
    n_reasons: int,
    *,
    leave_out: int | None = None,
) -> list[list[dict[str, Any]]]:
    """Return, for each query, the documents of largest learned cosine.

    Each has its rank by plain cosine, the largest parts of the learned cosine, and how many other
    parts there are with their sum. A query without a known word finds nothing.
    """
    X = rows_of_all(documents)
    if n < 1 or n_reasons < 0:
        raise ValueError(f"-k must be 1 or more and --why 0 or more. Got {n} and {n_reasons}.")
    learned, rows, scored = model.model, model.rows(X), model.rows(queries)
    names = model.feature_names(documents.feature_names)
    index = learned.index_rows(rows, cosine=True)
    found = search.top_k(learned.rewrite(scored, cosine=True), index, n + (leave_out is not None))
    plain, plain_queries = unit_rows(X), unit_rows(queries)
    answers = []
    for k in range(queries.shape[0]):
        hits: list[dict[str, Any]] = []
        cosines = (plain @ plain_queries[[k]].T).toarray().ravel()
        cosines[[] if leave_out is None else [leave_out]] = -np.inf
        for row, score in zip(found.rows[k].tolist(), found.scores[k].tolist(), strict=True):
            if row < 0 or row == leave_out or len(hits) == n or not queries[[k]].nnz:
                continue
            reasons = _reasons(learned, scored[[k]], rows[[row]], names, score)
            others = reasons[n_reasons:]
            values = {"id": documents.ids, "label": documents.labels, "text": documents.texts}
            hits.append(
                {"row": row}
                | {name: None if given is None else given[row] for name, given in values.items()}
                | {
                    "similarity": score,
                    "cosine": float(cosines[row]),
                    "rank by cosine": int((cosines > cosines[row]).sum()) + 1,
                    "why": reasons[:n_reasons],
                    "more": {"n": len(others), "value": sum(part["value"] for part in others)},
                }
            )
        answers.append(hits)
    return answers


def _reasons(
    model: HDSL | LocalHDSL, x: Any, y: Any, names: np.ndarray | None, cosine: float
) -> list[dict[str, Any]]:
    """Return what each feature and feature pair adds to the cosine, learned part and prior."""
    explanation = model.explain(x, y, feature_names=names)
    share = cosine / explanation.total if explanation.total else 0.0
    values: dict[str, float] = {}
    for part in explanation.parts:
        values[part["name"]] = values.get(part["name"], 0.0) + share * float(part["value"])
    ordered = sorted(values.items(), key=lambda item: -abs(item[1]))
    return [{"name": name, "value": value} for name, value in ordered]


def rows_of_all(documents: Collection) -> sp.csr_array:
    """Return all documents, as rows."""
    if documents.X is None:
        raise ValueError("The model has no documents: fit it again without --no-documents.")
    return documents.X


def document(documents: Collection, number: int) -> sp.csr_array:
    """Return a document by its row number."""
    if documents.X is None:
        raise ValueError("The model has no documents: give texts instead of row numbers.")
    if not 0 <= number < documents.n_rows:
        raise ValueError(
            f"There is no row {number}: the model has {counted(documents.n_rows, 'document')}, "
            "numbered from 0."
        )
    return documents.X[[number]]


def row_of(documents: Collection, given: str, what: str) -> sp.csr_array:
    """Return a text as one row."""
    row = documents.rows_of([given])
    if not row.nnz:
        raise ValueError(
            f"The model knows none of the words of {what}, {one_line(given, 60)!r}: try others."
        )
    return row


def write_report(model: ScoredModel, documents: Collection, path: Path, title: str | None) -> None:
    """Write the page of a model, with its documents where it has them."""
    X, y, texts = documents.X, documents.labels, documents.texts
    learned, names = model.model, model.feature_names(documents.feature_names)
    if X is None:
        learned.report(path, feature_names=names, title=title)
        return
    new = np.zeros(X.shape[0], dtype=bool) if documents.part is None else documents.part == TEST
    errors = None
    if documents.judgements is not None:
        rows, weights = np.flatnonzero(new), documents.judgement_weights
        found = measure_judgements(model, X, documents.judgements, weights, rows).errors
        errors = {"n_neighbors": 0, "n_rows": int((~new).sum()), "n_test": found.before.n}
        errors |= found.to_dict()
    elif new.any() and y is not None:
        errors = report.measure_errors(model, X[~new], y[~new], X[new], y[new], learned.n_jobs)
    page = report.page(
        learned, model.rows(X[~new]), None if y is None else y[~new],
        texts=None if texts is None else texts[~new],
        feature_names=names, title=title, errors=errors,
        more=report.More(np.flatnonzero(~new), model.n_scores, documents.idf_of_features,
                         documents.choice),
    )  # fmt: skip
    report.write(path, page)
