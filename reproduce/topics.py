"""Several labels per row: the 90 topics of Reuters-21578, ModApte split.

Beyond the paper. Texts with a topic, TF-IDF of words, everything at its defaults.
Nearest neighbours vote for each topic; beside them stands a linear support vector
machine per topic.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from hdsl import HDSL, ClassScores, SimilarityKNeighborsClassifier

from .results import Results, Table
from .sets import MissingDataError
from .settings import Cell, Line, Settings

TITLE = "Several labels per row: F1 scores of the topics of Reuters-21578"

METHODS = {
    "cosine": "cosine",
    "hdsl": "HDSL()",
    "both": "ClassScores(), HDSL()",
    "svc": "LinearSVC, one-vs-rest, no neighbours",
}

#: Neighbours that vote, and resamples of the test texts for the intervals.
N_NEIGHBORS = (3, 10)
N_RESAMPLES = 1000

FILES = ("X_train", "Y_train_topics", "X_test", "Y_test_topics")


def cells(settings: Settings) -> list[Cell]:
    """Return every method."""
    if settings.data is None or not (settings.data / "reuters21578_modapte").is_dir():
        raise MissingDataError(
            f"it needs reuters21578_modapte ({', '.join(FILES)}, .npz) in the folder "
            "of --data."
        )
    return [{"method": name} for name in METHODS]


def _load(home: Path, quick: bool) -> tuple[Any, ...]:
    """Return rows and topics of the training texts, then of the test texts."""
    folder = home / "reuters21578_modapte"
    X, Y, X_test, Y_test = (
        sp.csr_matrix(sp.load_npz(folder / f"{name}.npz"), dtype=np.float64)
        for name in FILES
    )
    has, has_test = (np.flatnonzero(np.diff(part.indptr)) for part in (Y, Y_test))
    if quick:
        has = has[:600]
        has_test = has_test[:200]
    weights = TfidfTransformer(sublinear_tf=True).fit(X[has])
    parts = (
        weights.transform(X[has]),
        Y[has],
        weights.transform(X_test[has_test]),
        Y_test[has_test],
    )
    return tuple(
        part.toarray().astype(int) if k % 2 else part for k, part in enumerate(parts)
    )


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the scores of one method, with intervals, and CPU seconds."""
    assert settings.data is not None  # checked by `cells`
    X, Y, X_test, Y_test = _load(settings.data, settings.quick)
    method = cell["method"]
    start = process_time()
    if method == "svc":
        predicted = {
            0: OneVsRestClassifier(LinearSVC(random_state=0)).fit(X, Y).predict(X_test)
        }
        return {"cpu": process_time() - start, **_scores(predicted, Y_test)}
    model = None if method == "cosine" else HDSL(random_state=0, n_jobs=1)
    if model is not None:
        steps = [ClassScores(random_state=0)] if method == "both" else []
        fitted = make_pipeline(*steps, model).fit(X, Y)
        X, X_test = (
            fitted[:-1].transform(part) if steps else part for part in (X, X_test)
        )
    seconds = process_time() - start
    predicted = {
        k: SimilarityKNeighborsClassifier(k, similarity=model, cosine=True)
        .fit(X, Y)
        .predict(X_test)
        for k in N_NEIGHBORS
    }
    return {"cpu": seconds, **_scores(predicted, Y_test)}


def _scores(predicted: dict[int, np.ndarray], truth: np.ndarray) -> dict[str, Any]:
    """Return the F1 score of each kind and its interval, by the number of neighbours."""
    rng = np.random.default_rng(0)
    draws = rng.integers(len(truth), size=(N_RESAMPLES, len(truth)))
    found = {}
    for k, labels in predicted.items():
        for kind in ("micro", "macro"):
            parts = [f1(truth[rows], labels[rows], kind) for rows in draws]
            ends = np.quantile(parts, [0.025, 0.975]).tolist()
            found[f"{kind}{k}"] = [f1(truth, labels, kind), *ends]
    return found


def f1(truth: np.ndarray, labels: np.ndarray, kind: str) -> float:
    """Return the F1 score over all topics together, or its mean; 0 where a topic has no hit."""
    hit = (truth & labels).sum(axis=0)
    total = truth.sum(axis=0) + labels.sum(axis=0)
    if kind == "micro":
        return float(2 * hit.sum() / max(total.sum(), 1))
    return float(np.mean(2 * hit / np.maximum(total, 1)))


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return micro and macro F1 of all methods, with intervals."""
    rows = []
    for line in lines:
        shown = [
            "{:.1f} ({:.1f} to {:.1f})".format(*(100 * value for value in line[name]))
            if (name := f"{kind}{k}" if f"{kind}{k}" in line else f"{kind}0") in line
            else ""
            for k in N_NEIGHBORS
            for kind in ("micro", "macro")
        ]
        rows.append([METHODS[line["cell"]["method"]], *shown, f"{line['cpu']:.1f}"])
    kinds = [
        f"{kind} F1, {k} neighbours" for k in N_NEIGHBORS for kind in ("micro", "macro")
    ]
    note = (
        "F1 in %, of texts with a topic, 95 % intervals by resampling the test texts. "
        "A topic is predicted if more than half of the neighbours have it. Seconds "
        "are CPU time of learning."
    )
    return Results([Table("f1", ["", *kinds, "seconds"], rows, [note])])
