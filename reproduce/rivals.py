"""Other ways to learn a similarity, on the rows of the experiment `quality`.

Beyond the paper. One weight per feature on sparse rows; NCA and OASIS on rows of 100 dimensions,
which they need. The penalty of the weights and the step of OASIS have no good default: folds of the
training rows choose them. As in `quality`, every method learns from the training rows alone, and
test rows are looked at once.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.model_selection import KFold
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize

from hdsl.baselines import OASIS, DiagonalSimilarity
from hdsl.evaluate import knn_error
from hdsl.uncertainty import wilson_interval

from . import quality
from .quality import Split
from .results import Results, Table, by_set_and_method, set_names
from .runner import Cell, Line, Settings

TITLE = "Other ways to learn a similarity: errors of 3 nearest neighbours in %, seconds"

#: Dimensions of the methods that need few.
DIMENSIONS = 100

#: Values that folds of at most `CHOOSING_ROWS` training rows choose from.
ALPHAS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
STEPS = (1e-3, 1e-2, 1e-1)
FOLDS, CHOOSING_ROWS = 3, 2000

#: Training rows of the largest set: NCA takes all pairs of rows.
MOST_ROWS = {"nca": 5000}

METHODS = {
    "svd": "SVD, 100 dimensions",
    "nca": "NCA after SVD",
    "oasis": "OASIS after SVD",
    "diagonal": "one weight per feature",
}


def cells(settings: Settings) -> list[Cell]:
    """Return every method on every set that is small enough for it.

    The docstrings are for lack of other sets: they differ between builds of Python, and figures of
    two machines with them.
    """
    names = [name for name in quality.names_of_sets(settings) if name not in quality.RAW]
    return [
        {"set": name, "method": method}
        for name in names
        if name != "docstrings" or len(names) == 1
        for method in METHODS
        if len(quality.load(settings, name).y) <= MOST_ROWS.get(method, np.inf)
    ]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the error and the seconds of one method on one set."""
    split = quality.load(settings, cell["set"])
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows of a class, iterations that end at their limit
        similarity, rows = _learn(cell["method"], split)
    seconds = time.process_time() - start
    error = knn_error(similarity, rows.X, rows.y, rows.X_test, rows.y_test)
    return {"n": len(rows.y_test), "wrong": round(error * len(rows.y_test)), "learning": seconds}


def _learn(method: str, split: Split) -> tuple[Any, Split]:
    """Return a similarity, None for the dot product, and the rows that it compares."""
    if method == "diagonal":
        weights = [DiagonalSimilarity(alpha=alpha, random_state=0) for alpha in ALPHAS]
        return _by_folds(weights, split).fit(split.X, split.y), split
    svd = TruncatedSVD(min(DIMENSIONS, min(split.X.shape) - 1), random_state=0).fit(split.X)
    rows = _mapped(split, svd.transform)
    if method == "oasis":
        learners = [OASIS(C, random_state=0) for C in STEPS]
        return _by_folds(learners, rows).fit(rows.X, rows.y), rows
    if method == "svd":
        return None, rows
    # NCA learns distances. On rows at unit length the nearest by distance are those by cosine.
    nca = NeighborhoodComponentsAnalysis(random_state=0).fit(rows.X, rows.y)
    return None, _mapped(rows, nca.transform)


def _by_folds(candidates: list[Any], split: Split) -> Any:
    """Return the candidate with the lowest mean error over folds of the training rows."""
    few = np.random.default_rng(0).permutation(len(split.y))[:CHOOSING_ROWS]
    X, y = split.X[few], split.y[few]
    folds = list(KFold(FOLDS).split(few))

    def error(candidate: Any) -> float:
        errors = [
            knn_error(
                clone(candidate).fit(X[train], y[train]), X[train], y[train], X[held], y[held]
            )
            for train, held in folds
        ]
        return float(np.mean(errors))

    return min(candidates, key=error)


def _mapped(split: Split, change: Any) -> Split:
    """Return dense rows at unit length."""
    return split._replace(X=normalize(change(split.X)), X_test=normalize(change(split.X_test)))


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the errors and the seconds: a row per method, a column per set."""
    by, names = by_set_and_method(lines), set_names(lines)

    def rows(show: Any) -> list[list[str]]:
        return [
            [label, *(show(by[of, method][0]) if by[of, method] else "" for of in names)]
            for method, label in METHODS.items()
        ]

    note = (
        f"Nearest by cosine, in {DIMENSIONS} dimensions where it says SVD; OASIS and the weights "
        "by their own similarity, with the step or the penalty that folds of the training rows "
        "choose. 95 % intervals (Wilson). NCA is scikit-learn's, left out above "
        f"{MOST_ROWS['nca']:,} training rows."
    )
    return Results(
        [
            Table("error-3nn", ["method", *names], rows(_error), [note]),
            Table(
                "seconds",
                ["method", *names],
                rows(lambda line: f"{line['learning']:.1f}"),
                ["CPU seconds of learning, the SVD and the choice included."],
            ),
        ]
    )


def _error(line: Line) -> str:
    wrong, n = line["wrong"], line["n"]
    low, high = wilson_interval(wrong, n)
    return f"{100 * wrong / n:.1f} ({100 * low:.1f}-{100 * high:.1f})"
