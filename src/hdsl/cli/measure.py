"""Measure a model against the cosine: errors on labels or judgements, and known-item search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..evaluate import (
    ErrorComparison,
    KnownItem,
    compare_errors,
    compare_triplets,
    known_item,
    mcnemar,
)
from ..similarity import unit_rows
from ..text import Collection, Scored, weigh_counts
from .inputs import Data
from .options import N_NEIGHBORS
from .shell import counted, say

#: Most queries of a known-item search.
N_QUERIES = 500

#: Most weights of a linear classifier and scores of rows, 0.8 GB: it is left out beyond.
MAX_SCORES = 10**8


@dataclass(frozen=True)
class Measured:
    """Errors before and after learning, and ranks in known-item search.

    Parameters
    ----------
    errors : ErrorComparison
    known_items : dict of str to KnownItem
        By "cosine" and "learned"; empty if no row has two features.
    n_neighbors : int
        Neighbours that vote; 0 for judgements.
    classifier : float or None
        The error of ``LinearSVC`` on the same rows.
    """

    errors: ErrorComparison
    known_items: dict[str, KnownItem]
    n_neighbors: int = 0
    classifier: float | None = None

    @property
    def n(self) -> int:
        """The number of rows or judgements that were measured on."""
        return self.errors.before.n

    @property
    def measure(self) -> str:
        """What the errors are."""
        if self.n_neighbors:
            return f"error of {self.n_neighbors} nearest neighbours"
        return "share of judgements that are wrong"

    @property
    def ranks_sentence(self) -> str:
        """What the ranks of known items show: of each query, by cosine and as learned."""
        ranks = (self.known_items[name].ranks for name in ("cosine", "learned"))
        test = mcnemar(*ranks)
        if test.only_a == test.only_b == 0:
            return "The learned similarity ranks these rows as the cosine does."
        said = (
            f"The learned similarity ranks the row higher for {test.only_a} queries and lower for "
            f"{test.only_b}: {test.chance}."
        )
        is_worse = test.is_more_than_chance and test.only_b > test.only_a
        return said + (" To find one particular row, use the cosine." if is_worse else "")

    def facts(self) -> dict[str, Any]:
        """Return the errors and ranks as values for JSON."""
        known = {name: found.to_dict() for name, found in self.known_items.items()}
        errors = {"cosine": self.errors.before.share, "learned": self.errors.after.share}
        return {
            "error": errors | ({} if self.classifier is None else {"LinearSVC": self.classifier}),
            "comparison": self.errors.to_dict(),
            "known item": known | ({"sentence": self.ranks_sentence} if known else {}),
        }


def measure_labels(
    scored: Scored,
    X: sp.csr_array,
    y: np.ndarray,
    X_test: sp.csr_array | None = None,
    y_test: np.ndarray | None = None,
    *,
    n_neighbors: int = N_NEIGHBORS,
    n_jobs: int | None = None,
) -> Measured:
    """Return the errors of test rows by their neighbours in X, or of rows of X by the others.

    Test rows are also classified by ``LinearSVC``, and searched by half of their features, among
    themselves and the rows of X.
    """
    k = min(n_neighbors, X.shape[0] - (X_test is None))
    errors = compare_errors(scored, X, y, X_test, y_test, n_neighbors=k, cosine=True, n_jobs=n_jobs)
    rows = np.arange(errors.before.n)
    ranked = X if X_test is None else sp.csr_array(sp.vstack([X_test, X]))
    linear = None if X_test is None else classifier_error(X, y, X_test, y_test)
    return Measured(errors, _known_items(scored, ranked, rows), k, linear)


def classifier_error(X: Any, y: Any, X_test: Any, y_test: Any) -> float | None:
    """Return the error of a linear support vector machine, None where it needs too much memory."""
    from sklearn.svm import LinearSVC

    n_classes = len(np.unique(y))
    if n_classes < 2 or (X.shape[0] + X.shape[1]) * n_classes > MAX_SCORES:
        return None
    classifier = LinearSVC(random_state=0, tol=1e-3).fit(sp.csr_matrix(unit_rows(X)), y)
    return float(np.mean(classifier.predict(sp.csr_matrix(unit_rows(X_test))) != y_test))


def measure_judgements(
    scored: Scored,
    X: sp.csr_array,
    comparisons: np.ndarray,
    weights: np.ndarray | None,
    rows: np.ndarray | None = None,
) -> Measured:
    """Return the shares of judgements that are wrong; search for some rows of X, or for all."""
    errors = compare_triplets(scored, X, comparisons, sample_weight=weights)
    rows = np.arange(X.shape[0]) if rows is None else rows
    return Measured(errors, _known_items(scored, X, rows))


def _known_items(scored: Scored, X: sp.csr_array, rows: np.ndarray) -> dict[str, KnownItem]:
    """Return the ranks of rows of X for half of their features, by cosine and as learned."""
    if not (np.diff(X.indptr)[rows] >= 2).any():
        return {}
    return {
        name: known_item(similarity, X, rows=rows, n_queries=N_QUERIES, random_state=0)
        for name, similarity in (("cosine", None), ("learned", scored))
    }


# --- of a model file -----------------------------------------------------------------------------


class Evaluation(NamedTuple):
    """What was measured, on which rows, and whether the model has not seen these rows.

    `held_out` is None if that is not known, as the model file has no documents.
    """

    measured: Measured
    rows: str
    held_out: bool | None


def measure_held_out(found: Collection, n_neighbors: int) -> Evaluation:
    """Return the errors on the rows that `hdsl fit` held out."""
    documents, scored = found.documents, found.scored
    X, y, new = documents.X, documents.labels, documents.is_new
    if X is None or not new.any() or (y is None and documents.judgements is None):
        raise ValueError(
            "The model has no rows or judgements that were held out: name a file of rows that it "
            "was not learned from."
        )
    if documents.judgements is not None:
        rows, weights = np.flatnonzero(new), documents.judgement_weights
        measured = measure_judgements(scored, X, documents.judgements, weights, rows)
        return Evaluation(measured, f", {counted(measured.n, 'judgement')} held out", True)
    measured = measure_labels(scored, X[~new], y[~new], X[new], y[new], n_neighbors=n_neighbors)
    among = counted(measured.n, "row")
    return Evaluation(measured, f" among the documents in the model, {among} held out", True)


def measure_new(data: Data, found: Collection, n_neighbors: int) -> Evaluation:
    """Return the errors on new labelled rows, or on judgements of new rows."""
    documents, scored = found.documents, found.scored
    X = _rows(data, found)
    if data.comparisons is None and data.labels is None:
        raise ValueError(
            f"{data.path} has no labels to compare with: name them with --label or --labels, or "
            "judgements with --triplets and the like."
        )
    held_out = _is_held_out(data, X, found)
    of = {True: "", False: ", not all held out", None: ", not known to be held out"}[held_out]
    if data.comparisons is not None:
        measured = measure_judgements(scored, X, data.comparisons, data.weights)
        return Evaluation(measured, f", {counted(measured.n, 'judgement')}{of}", held_out)
    y: Any = data.labels
    if documents.X is None or documents.labels is None:
        measured = measure_labels(scored, X, y, n_neighbors=n_neighbors)
        rows = f" among the other rows, {counted(measured.n, 'row')}"
        return Evaluation(measured, rows + of, held_out)
    known = documents.labels
    if known.dtype.kind != np.asarray(y).dtype.kind:
        known, y = (np.array([str(v) for v in labels], dtype=object) for labels in (known, y))
    measured = measure_labels(scored, documents.X, known, X, y, n_neighbors=n_neighbors)
    rows = f" among the documents in the model, {counted(measured.n, 'row')}"
    return Evaluation(measured, rows + of, held_out)


def _is_held_out(data: Data, X: sp.csr_array, found: Collection) -> bool | None:
    """Return whether the model has seen none of the rows, None if not known; warn otherwise."""
    known, what = found.documents.X, "are in the model already and find themselves"
    if known is None:
        say(
            "warning: the model file has no documents, so it is not known whether these rows were "
            "learned from. If they were, the errors are too low: name other rows."
        )
        return None
    if data.comparisons is not None:
        known, what = known[~found.documents.is_new], "were learned from"
    seen = set(_keys(known))
    n_seen = sum(key in seen for key in _keys(X))
    if n_seen:
        say(
            f"warning: {n_seen:,} of {counted(X.shape[0], 'row')} {what}, so the errors are too "
            "low. `hdsl evaluate MODEL` alone measures on rows held out."
        )
    return n_seen == 0


def _keys(X: sp.csr_array) -> list[bytes]:
    """Return the content of each row that is not empty."""
    ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    columns, values = X.indices.astype(np.int64), X.data.round(9)
    return [columns[a:b].tobytes() + values[a:b].tobytes() for a, b in ends if a < b]


def _rows(data: Data, found: Collection) -> sp.csr_array:
    """Return new data as rows with the features of the model, without class scores."""
    if data.texts is not None:
        return found.rows_of(data.texts)
    X, d = data.X, found.scored.n_features
    if found.words is not None or X.shape[1] > d:
        learned = "texts: give a table of texts" if found.words is not None else f"{d} features"
        raise ValueError(
            f"{data.path} has rows of {X.shape[1]} features, the model was learned on {learned}."
        )
    X.resize(X.shape[0], d)  # the last features may not occur in an svmlight file
    return X if found.documents.idf is None else weigh_counts(X, found.documents.idf)
