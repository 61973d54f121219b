"""What the defaults give on every set: errors of nearest neighbours, known-item search, seconds.

Beyond the paper. Every method learns from the training rows alone with nothing chosen by hand, and
test rows are looked at once. Rows are at unit length over the columns that training has, except in
the sets of raw counts, which show what a method does with rows of unequal length.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from hdsl import datasets
from hdsl.class_scores import ClassScores
from hdsl.cv import HDSLCV
from hdsl.evaluate import known_item
from hdsl.hdsl import HDSL
from hdsl.neighbors import SimilarityKNeighborsClassifier
from hdsl.similarity import unit_rows
from hdsl.uncertainty import wilson_interval

from . import sets
from .results import Results, Table, by_set_and_method, set_names
from .runner import Cell, Line, Settings, finished

TITLE = "Defaults on every set: errors in %, known-item search, seconds"

#: Votes of the nearest neighbours.
NEIGHBORS = (3, 9)

#: Queries of the known-item search.
QUERIES = 500

#: Texts as counts of words, not weighted and not at unit length.
RAW = {"bbc_counts": "bbc_news", "reuters_counts": "reuters_r52"}

METHODS = {
    "cosine": "cosine",
    "dot": "dot product",
    "lsa": "LSA, 300 dimensions",
    "svc": "LinearSVC",
    "hdsl": "HDSL()",
    "quick": 'HDSL(step="corrective", max_iter=10)',
    "stopped": "HDSL(early_stopping=True)",
    "cv": "HDSLCV()",
    "scores": "ClassScores()",
    "both": "ClassScores(), HDSL()",
}


class Split(NamedTuple):
    """Rows to learn from and rows to report on."""

    X: sp.csr_array
    y: np.ndarray
    X_test: sp.csr_array
    y_test: np.ndarray


def cells(settings: Settings) -> list[Cell]:
    """Return every method on every set; the dot product where rows differ in length."""
    return [
        {"set": name, "method": method}
        for name in names_of_sets(settings)
        for method in METHODS
        if method != "dot" or name in RAW
    ]


def names_of_sets(settings: Settings) -> list[str]:
    """Return the sets whose files are present, the docstrings, and the sets of raw counts."""
    names = ["docstrings"]
    if settings.data is not None:
        names = [*sets.present(settings, sets.PAPER + sets.MORE), *names]
        names += [raw for raw, name in RAW.items() if name in names]
    return ["bace_ecfp6", "docstrings"] if settings.quick and len(names) > 1 else names


@lru_cache(maxsize=4)
def load(settings: Settings, name: str) -> Split:
    """Return a set at unit length, or a set of raw counts as it is."""
    if name == "docstrings":
        docs = datasets.load_docstrings(min_rows_per_label=80, summaries=True)
        parts = train_test_split(docs.X, docs.y, test_size=0.2, random_state=0, stratify=docs.y)
        X, X_test, y, y_test = parts
    elif name in RAW:
        parts = sets.load_counts(settings, RAW[name])
        X, y, X_test, y_test = parts.X, parts.y, parts.X_test, parts.y_test
    else:
        parts = sets.load(settings, name)
        X, y, X_test, y_test = parts.X, parts.y, parts.X_test, parts.y_test
        if not parts.has_test:
            X_test, y_test = parts.X_val, parts.y_val
    X, X_test = sp.csr_array(X), sp.csr_array(X_test)
    if name not in RAW:
        columns = np.unique(X.indices)
        X, X_test = unit_rows(X, columns), unit_rows(X_test, columns)
    if settings.quick:
        X, y, X_test, y_test = X[:300], y[:300], X_test[:100], y_test[:100]
    return Split(X, np.asarray(y), X_test, np.asarray(y_test))


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return errors, known-item search and seconds of one method on one set."""
    split, method = load(settings, cell["set"]), cell["method"]
    _compile()
    start = time.process_time()
    if method == "svc":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # raw counts do not converge
            wrong = LinearSVC(random_state=0).fit(split.X, split.y).predict(split.X_test)
        errors = {str(k): int(np.sum(wrong != split.y_test)) for k in NEIGHBORS}
        return {"n": len(split.y_test), "wrong": errors, "seconds": time.process_time() - start}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of a class, few rows held out
        rows, embed = _learn(method, split)
    seconds = time.process_time() - start
    found = known_item(embed, split.X_test, n_queries=QUERIES, random_state=0)
    queries = sp.csr_array(embed(split.X_test)) if embed is not None else split.X_test
    wrong = {}
    for k in NEIGHBORS:
        knn = SimilarityKNeighborsClassifier(k, cosine=method != "dot").fit(rows, split.y)
        wrong[str(k)] = int(np.sum(knn.predict(queries) != split.y_test))
    return {
        "n": len(split.y_test),
        "wrong": wrong,
        "mrr": found.mrr,
        "mrr_interval": list(found.interval),
        "seconds": seconds,
    }


@lru_cache
def _compile() -> None:
    """Compile what the methods use, so that no seconds have it."""
    X, y = sp.csr_array(np.eye(12)), np.arange(12) % 2
    for step in ("away", "corrective"):
        HDSL(step=step, n_targets=1, n_impostors=1, max_iter=2, tol=0.0).fit(X, y)


def _learn(method: str, split: Split) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return the training rows as a method compares them by cosine, and how it makes other rows."""
    if method in ("cosine", "dot"):
        return split.X, None
    if method == "lsa":
        svd = TruncatedSVD(min(300, min(split.X.shape) - 1), random_state=0).fit(split.X)
        return svd.transform(split.X), svd.transform
    if method in ("scores", "both"):
        scores = ClassScores(random_state=0)
        rows = scores.fit_transform(split.X, split.y)
        if method == "scores":
            return rows, scores.transform
        model = finished(HDSL(random_state=0).fit(rows, split.y))
        pipeline: Pipeline = make_pipeline(scores, model)
        return model.transform(rows), pipeline.transform
    model = {
        "hdsl": HDSL(random_state=0),
        "quick": HDSL(step="corrective", max_iter=10, random_state=0),
        "stopped": HDSL(early_stopping=True, random_state=0),
        "cv": HDSLCV(estimator=HDSL(random_state=0)),
    }[method]
    finished(model.fit(split.X, split.y))
    return model.transform(split.X), model.transform


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return one table per measure: a row per method, a column per set."""
    by, names = by_set_and_method(lines), set_names(lines)

    def table(name: str, show: Callable[[Line], str], note: str) -> Table:
        rows = [
            [label, *(show(by[of, method][0]) if by[of, method] else "" for of in names)]
            for method, label in METHODS.items()
        ]
        return Table(name, ["method", *names], rows, [note])

    tables = [
        table(
            f"error-{k}nn",
            lambda line, k=k: _error(line, str(k)),  # type: ignore[misc]
            f"{k} nearest neighbours by cosine, with 95 % intervals (Wilson). LinearSVC predicts "
            "by itself.",
        )
        for k in NEIGHBORS
    ]
    found = "Mean reciprocal rank of a test row searched by half of its features; 95 % intervals."
    tables.append(table("known-item", _mrr, found))
    seconds = "CPU seconds of learning."
    tables.append(table("seconds", lambda line: f"{line['seconds']:.1f}", seconds))
    return Results(tables)


def _error(line: Line, k: str) -> str:
    wrong, n = line["wrong"][k], line["n"]
    low, high = wilson_interval(wrong, n)
    return f"{100 * wrong / n:.1f} ({100 * low:.1f}-{100 * high:.1f})"


def _mrr(line: Line) -> str:
    if "mrr" not in line:
        return ""
    low, high = line["mrr_interval"]
    return f"{line['mrr']:.3f} ({low:.3f}-{high:.3f})"
