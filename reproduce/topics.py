"""Several labels per row: the 90 topics of Reuters-21578, ModApte split.

Beyond the paper. Texts with a topic, TF-IDF of words, everything at its defaults.
Nearest neighbours vote for each topic; beside them stands a linear support vector
machine per topic.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.multiclass import OneVsRestClassifier
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


class Texts(NamedTuple):
    """Rows and topics of the training texts, then of the test texts."""

    X: Any
    Y: np.ndarray
    X_test: Any
    Y_test: np.ndarray


def cells(settings: Settings) -> list[Cell]:
    """Return every method."""
    if settings.data is None or not (settings.data / "reuters21578_modapte").is_dir():
        raise MissingDataError(
            f"it needs reuters21578_modapte ({', '.join(FILES)}, .npz) in the folder "
            "of --data."
        )
    return [{"method": name} for name in METHODS]


def _load(settings: Settings) -> Texts:
    """Return the texts that have a topic."""
    assert settings.data is not None  # checked by `cells`
    folder = settings.data / "reuters21578_modapte"
    X = _stored(folder, "X_train")
    Y = _stored(folder, "Y_train_topics")
    X_test = _stored(folder, "X_test")
    Y_test = _stored(folder, "Y_test_topics")
    train = np.flatnonzero(np.diff(Y.indptr))
    test = np.flatnonzero(np.diff(Y_test.indptr))
    if settings.quick:
        train = train[:600]
        test = test[:200]
    weights = TfidfTransformer(sublinear_tf=True).fit(X[train])
    return Texts(
        X=weights.transform(X[train]),
        Y=Y[train].toarray().astype(int),
        X_test=weights.transform(X_test[test]),
        Y_test=Y_test[test].toarray().astype(int),
    )


def _stored(folder: Path, name: str) -> sp.csr_matrix:
    """Return a stored matrix."""
    return sp.csr_matrix(sp.load_npz(folder / f"{name}.npz"), dtype=np.float64)


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the scores of one method, with intervals, and CPU seconds."""
    texts = _load(settings)
    start = process_time()
    if cell["method"] == "svc":
        classifier = OneVsRestClassifier(LinearSVC(random_state=0))
        predicted = classifier.fit(texts.X, texts.Y).predict(texts.X_test)
        seconds = process_time() - start
        return {"cpu": seconds, **_scores({0: predicted}, texts.Y_test)}
    X = texts.X
    X_test = texts.X_test
    model = None
    if cell["method"] == "hdsl":
        model = HDSL(random_state=0, n_jobs=1).fit(X, texts.Y)
    elif cell["method"] == "both":
        added = ClassScores(random_state=0)
        rows = added.fit_transform(X, texts.Y)
        model = HDSL(random_state=0, n_jobs=1).fit(rows, texts.Y)
        X = added.transform(X)
        X_test = added.transform(X_test)
    seconds = process_time() - start
    by_neighbors = {}
    for k in N_NEIGHBORS:
        knn = SimilarityKNeighborsClassifier(k, similarity=model, cosine=True)
        by_neighbors[k] = knn.fit(X, texts.Y).predict(X_test)
    return {"cpu": seconds, **_scores(by_neighbors, texts.Y_test)}


def _scores(predicted: dict[int, np.ndarray], truth: np.ndarray) -> dict[str, Any]:
    """Return the F1 score of each kind and its interval, by the number of neighbours."""
    rng = np.random.default_rng(0)
    draws = rng.integers(len(truth), size=(N_RESAMPLES, len(truth)))
    scores = {}
    for k, labels in predicted.items():
        for kind in ("micro", "macro"):
            resampled = [f1(truth[rows], labels[rows], kind) for rows in draws]
            low, high = np.quantile(resampled, [0.025, 0.975]).tolist()
            scores[f"{kind}{k}"] = [f1(truth, labels, kind), low, high]
    return scores


def f1(truth: np.ndarray, labels: np.ndarray, kind: str) -> float:
    """Return the F1 score over all topics together, or its mean over topics.

    It is 0 where a topic has no hit.
    """
    hit = (truth & labels).sum(axis=0)
    total = truth.sum(axis=0) + labels.sum(axis=0)
    if kind == "micro":
        return float(2 * hit.sum() / max(total.sum(), 1))
    return float(np.mean(2 * hit / np.maximum(total, 1)))


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return micro and macro F1 of all methods, with intervals."""
    columns = [(kind, k) for k in N_NEIGHBORS for kind in ("micro", "macro")]
    rows = []
    for line in lines:
        scores = [_score_text(line, kind, k) for kind, k in columns]
        rows.append([METHODS[line["cell"]["method"]], *scores, f"{line['cpu']:.1f}"])
    heads = [f"{kind} F1, {k} neighbours" for kind, k in columns]
    note = (
        "F1 in %, of texts with a topic, 95 % intervals by resampling the test texts. "
        "A topic is predicted if more than half of the neighbours have it. Seconds "
        "are CPU time of learning."
    )
    return Results([Table("f1", ["", *heads, "seconds"], rows, [note])])


def _score_text(line: Line, kind: str, k: int) -> str:
    """Return an F1 score with its interval; a method without neighbours has one."""
    scores = line.get(f"{kind}{k}", line.get(f"{kind}0"))
    if scores is None:
        return ""
    score, low, high = scores
    return f"{100 * score:.1f} ({100 * low:.1f} to {100 * high:.1f})"
