"""Methods by sets: what each learns from the training rows and gets wrong on test rows.

`quality`, `rivals` and `published` are lists of methods and sets, and tables of what is
measured here. A method is a function of a `Split` that returns a `Learned`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from hdsl import HDSL, Mining, SimilarityKNeighborsClassifier, Solver
from hdsl.evaluate import known_item

from . import sets
from .results import Table, by_set_and_method, set_names, share
from .sets import Split
from .settings import Cell, Line, Settings

#: Votes of the nearest neighbours.
NEIGHBORS = (3, 9)

#: Queries of the known-item search.
QUERIES = 500


class Learned(NamedTuple):
    """What a method has learned.

    `vote` returns, of rows and a number of neighbours, labels and scores of the last
    class. `embed` makes rows that are compared by cosine, for the known-item search;
    None leaves them as they are.
    """

    vote: Callable[[Any, int], tuple[np.ndarray, np.ndarray]]
    embed: Callable[[Any], Any] | None = None
    has_search: bool = True


Method = tuple[str, Callable[[Split], Learned]]


def neighbors(
    rows: Any,
    y: np.ndarray,
    embed: Callable[[Any], Any] | None = None,
    *,
    cosine: bool = True,
    similarity: Any = None,
) -> Learned:
    """Return the vote of nearest neighbours, by cosine or by a similarity of its own."""

    def vote(X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        queries = X
        if embed is not None:
            queries = embed(X)
        knn = SimilarityKNeighborsClassifier(k, cosine=cosine, similarity=similarity)
        knn.fit(rows, y)
        return knn.predict(queries), knn.predict_proba(queries)[:, -1]

    return Learned(vote, embed, has_search=similarity is None)


def classifier(model: Any) -> Learned:
    """Return the predictions of a fitted scikit-learn classifier."""

    def vote(X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        if hasattr(model, "predict_proba"):
            return model.predict(X), model.predict_proba(X)[:, -1]
        scores = model.decision_function(X)
        if scores.ndim == 2:
            scores = scores[:, -1]
        return model.predict(X), scores

    return Learned(vote, has_search=False)


def by_matrix(y: np.ndarray, similarities: Callable[[Any], np.ndarray]) -> Learned:
    """Return the vote of nearest neighbours by a function of all similarities."""
    classes = np.unique(y)

    def vote(X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        nearest = y[np.argsort(-similarities(X), axis=1, kind="stable")[:, :k]]
        counts = (nearest[:, :, None] == classes).sum(axis=1)
        # Of classes with equal votes, that of the nearest row.
        counts = counts + 0.5 * (nearest[:, :1] == classes)
        return classes[counts.argmax(axis=1)], counts[:, -1] / k

    return Learned(vote, has_search=False)


def measure(
    settings: Settings, cell: Cell, methods: Mapping[str, Method]
) -> dict[str, Any]:
    """Return what a method gets wrong on a set, known-item search, and CPU seconds."""
    split = sets.split(settings, cell["set"])
    compile_all()
    start = time.process_time()
    with warnings.catch_warnings():
        # Few rows of a class, runs that end at their limit.
        warnings.simplefilter("ignore")
        learned = methods[cell["method"]][1](split)
        seconds = time.process_time() - start
        answer: dict[str, Any] = {
            "n": len(split.y_test),
            "learning": seconds,
            "wrong": {},
        }
        for k in NEIGHBORS:
            labels, scores = learned.vote(split.X_test, k)
            answer["wrong"][str(k)] = int(np.sum(labels != split.y_test))
            balanced = 1.0 - balanced_accuracy_score(split.y_test, labels)
            answer.setdefault("balanced", {})[str(k)] = float(balanced)
            if len(np.unique(split.y_test)) == 2:
                auc = roc_auc_score(split.y_test, scores)
                answer.setdefault("auc", {})[str(k)] = float(auc)
    if learned.has_search and cell["set"] not in sets.NOT_TEXTS:
        quality = known_item(
            learned.embed, split.X_test, n_queries=QUERIES, random_state=0
        )
        answer |= {"mrr": quality.mrr, "mrr_interval": list(quality.interval)}
    return answer


@lru_cache
def compile_all() -> None:
    """Compile what a fit uses, so that no seconds have it."""
    X = sp.csr_array(np.eye(40))
    y = np.arange(40) % 2
    for step in ("away", "corrective"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = HDSL(
                solver=Solver(step=step, max_iter=2, tol=0.0),
                prior=1.0,
                mining=Mining(n_targets=1, n_impostors=1),
            )
            model.fit(X, y)


# --- tables ---------------------------------------------------------------------------


def table(
    name: str,
    lines: Iterable[Line],
    labels: Mapping[str, str],
    show: Callable[[Line], str],
    *notes: str,
) -> Table:
    """Return a table with a row per method and a column per set."""
    lines = list(lines)
    by = by_set_and_method(lines)
    names = set_names(lines)

    def text(name: str, method: str) -> str:
        measured = by[name, method]
        return show(measured[0]) if measured else ""

    rows = [
        [label, *(text(name, method) for name in names)]
        for method, label in labels.items()
    ]
    return Table(name, ["method", *names], rows, notes)


def labels_of(methods: Mapping[str, Method]) -> dict[str, str]:
    """Return the names of methods in tables."""
    return {method: label for method, (label, _) in methods.items()}


def error(k: int) -> Callable[[Line], str]:
    """Return what shows the error of k neighbours with its interval."""
    return lambda line: share(line["wrong"][str(k)], line["n"])


def accuracy(k: int) -> Callable[[Line], str]:
    """Return what shows the accuracy of k neighbours with its interval."""
    return lambda line: share(line["n"] - line["wrong"][str(k)], line["n"])


def in_percent(what: str, k: int) -> Callable[[Line], str]:
    """Return what shows another measure of k neighbours, in percent."""

    def show(line: Line) -> str:
        if what not in line:
            return ""
        return f"{100 * line[what][str(k)]:.1f}"

    return show


def mrr(line: Line) -> str:
    """Return the mean reciprocal rank with its interval."""
    if "mrr" not in line:
        return ""
    low, high = line["mrr_interval"]
    return f"{line['mrr']:.3f} ({low:.3f}-{high:.3f})"


def seconds(line: Line) -> str:
    """Return the CPU seconds of learning."""
    return f"{line['learning']:.1f}"
