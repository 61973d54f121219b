"""Measure a model file: on the rows that `hdsl fit` held out, or on new ones."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..labels import LabelSets, split_labels
from ..report import Measured, measure_judgements, measure_labels
from ..text import Collection, Documents, weigh_counts
from ..triplets.equal_rows import row_keys
from .inputs import Data
from .shell import counted, say


class Evaluation(NamedTuple):
    """What was measured, on which rows, and whether the model has not seen these rows.

    `held_out` is None if that is not known, as the model file has no documents.
    """

    measured: Measured
    rows: str
    held_out: bool | None


def facts_of(measured: Measured) -> dict[str, Any]:
    """Return errors and ranks as values for JSON."""
    known = {name: found.to_dict() for name, found in measured.known_items.items()}
    return {
        "error": {name: rate.share for name, rate in measured.rates.items()},
        "comparison": measured.errors.to_dict(),
        "known item": known | ({"sentence": measured.ranks_sentence} if known else {}),
    }


def labels_of(documents: Documents) -> Any:
    """Return the labels of documents, split where a document has several."""
    return split_labels(documents.labels, documents.facts.get("label_sep"))


def held_out(found: Collection, **options: Any) -> Measured | None:
    """Return what the rows that `hdsl fit` held out show, None where there are none."""
    documents = found.documents
    scored = found.scored
    X = documents.X
    y = labels_of(documents)
    new = documents.is_new
    if X is None or not new.any():
        return None
    if documents.judgements is not None:
        weights = documents.judgement_weights
        rows = np.flatnonzero(new)
        return measure_judgements(scored, X, documents.judgements, weights, rows)
    if y is None:
        return None
    return measure_labels(scored, X[~new], y[~new], X[new], y[new], **options)


def measure_held_out(found: Collection, n_neighbors: int) -> Evaluation:
    """Return the errors on the rows that `hdsl fit` held out."""
    measured = held_out(found, n_neighbors=n_neighbors)
    if measured is None:
        raise ValueError(
            "The model has no rows or judgements that were held out: name a file of "
            "rows that it was not learned from."
        )
    held = f"{counted(measured.n, 'row' if measured.n_neighbors else 'judgement')} held out"
    among = " among the documents in the model" if measured.n_neighbors else ""
    return Evaluation(measured, f"{among}, {held}", True)


def measure_new(data: Data, found: Collection, n_neighbors: int) -> Evaluation:
    """Return the errors on new labelled rows, or on judgements of new rows."""
    documents = found.documents
    scored = found.scored
    X = _rows(data, found)
    y = split_labels(data.labels, documents.facts.get("label_sep"))
    if data.comparisons is None and data.labels is None:
        raise ValueError(
            f"{data.path} has no labels to compare with: name them with --label or "
            "--labels, or judgements with --triplets and the like."
        )
    is_new = _is_held_out(data, X, found)
    seen = {True: "", False: ", not all held out", None: ", not known to be held out"}[
        is_new
    ]
    if data.comparisons is not None:
        measured = measure_judgements(scored, X, data.comparisons, data.weights)
        return Evaluation(
            measured, f", {counted(measured.n, 'judgement')}{seen}", is_new
        )
    if documents.X is None or documents.labels is None:
        measured = measure_labels(scored, X, y, n_neighbors=n_neighbors)
        among = "among the other rows"
    else:
        known = labels_of(documents)
        if not isinstance(y, LabelSets) and known.dtype.kind != y.dtype.kind:
            known, y = (
                np.array(list(map(str, labels)), object) for labels in (known, y)
            )
        measured = measure_labels(
            scored, documents.X, known, X, y, n_neighbors=n_neighbors
        )
        among = "among the documents in the model"
    return Evaluation(measured, f" {among}, {counted(measured.n, 'row')}{seen}", is_new)


def _is_held_out(data: Data, X: sp.csr_array, found: Collection) -> bool | None:
    """Return whether the model has seen none of the rows, None if not known; warn otherwise."""
    known = found.documents.X
    what = "are in the model already and find themselves"
    if known is None:
        say(
            "warning: the model file has no documents, so it is not known whether "
            "these rows were learned from. If they were, the errors are too low: name "
            "other rows."
        )
        return None
    if data.comparisons is not None:
        known = known[~found.documents.is_new]
        what = "were learned from"
    n_seen = int(are_among(X, known).sum())
    if n_seen:
        say(
            f"warning: {n_seen:,} of {counted(X.shape[0], 'row')} {what}, so the "
            "errors are too low. `hdsl evaluate MODEL` alone measures on rows held "
            "out."
        )
    return n_seen == 0


def are_among(X: sp.csr_array, known: sp.csr_array) -> np.ndarray:
    """Return which rows of X are rows of another matrix too; empty ones are not.

    Rows of one text may differ in the last bits of a value, so values are compared as
    float32.
    """
    with np.errstate(over="ignore"):  # too large for float32 are large all the same
        keys = row_keys(X.astype(np.float32))
        known_keys = row_keys(known.astype(np.float32))
    known_set = {key.tobytes() for key in known_keys}
    is_known = np.array([key.tobytes() in known_set for key in keys], dtype=bool)
    return is_known & (np.diff(X.indptr) > 0)


def _rows(data: Data, found: Collection) -> sp.csr_array:
    """Return new data as rows with the features of the model, without class scores."""
    if data.texts is not None:
        return found.rows_of(data.texts)
    X = data.X
    d = found.scored.n_features
    if found.words is not None or X.shape[1] > d:
        learned = (
            "texts: give a table of texts"
            if found.words is not None
            else f"{d} features"
        )
        raise ValueError(
            f"{data.path} has rows of {X.shape[1]} features, the model was learned on "
            f"{learned}."
        )
    X.resize(X.shape[0], d)  # the last features may not occur in an svmlight file
    return X if found.documents.idf is None else weigh_counts(X, found.documents.idf)
