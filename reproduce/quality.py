"""What the defaults give on every set: errors, known-item search, seconds.

Beyond the paper. Every method learns from the training rows alone with nothing chosen
by hand, and test rows are looked at once. Rows are at unit length over the columns that
training has, except in the sets of raw counts, which show what a method does with rows
of unequal length.
"""

from __future__ import annotations

from typing import Any

from sklearn.decomposition import TruncatedSVD
from sklearn.svm import LinearSVC

from hdsl import HDSL, ClassScores
from hdsl.settings import nested_parameters

from . import comparison, sets
from .comparison import Learned, Method, classifier, neighbors
from .results import Results
from .runner import finished
from .sets import Split
from .settings import Cell, Line, Settings

TITLE = "Defaults on every set: errors in %, known-item search, seconds"


def cosine(split: Split) -> Learned:
    """Return rows as they are, by cosine."""
    return neighbors(split.X, split.y)


def lsa(split: Split) -> Learned:
    """Return rows in 300 dimensions."""
    svd = TruncatedSVD(min(300, min(split.X.shape) - 1), random_state=0).fit(split.X)
    return neighbors(svd.transform(split.X), split.y, svd.transform)


def linear(split: Split) -> Learned:
    """Return scikit-learn's linear classifier."""
    return classifier(LinearSVC(random_state=0).fit(split.X, split.y))


def hdsl(split: Split, **parameters: Any) -> Learned:
    """Return the learned similarity, all at its defaults unless given."""
    model = finished(
        HDSL(**nested_parameters(random_state=0, **parameters)).fit(split.X, split.y)
    )
    return neighbors(model.transform(split.X), split.y, model.transform)


def scores(split: Split) -> Learned:
    """Return rows with the scores of a linear classifier."""
    added = ClassScores(random_state=0)
    return neighbors(added.fit_transform(split.X, split.y), split.y, added.transform)


def both(split: Split) -> Learned:
    """Return the similarity learned on rows with class scores."""
    added = ClassScores(random_state=0)
    rows = added.fit_transform(split.X, split.y)
    model = finished(HDSL(random_state=0).fit(rows, split.y))
    return neighbors(
        model.transform(rows), split.y, lambda X: model.transform(added.transform(X))
    )


METHODS: dict[str, Method] = {
    "cosine": ("cosine", cosine),
    "dot": ("dot product", lambda split: neighbors(split.X, split.y, cosine=False)),
    "lsa": ("LSA, 300 dimensions", lsa),
    "svc": ("LinearSVC", linear),
    "hdsl": ("HDSL()", hdsl),
    "away": (
        'HDSL(prior=15, solver=Solver("away", max_iter=300))',
        lambda split: hdsl(split, step="away", max_iter=300, prior=15.0),
    ),
    "scores": ("ClassScores()", scores),
    "both": ("ClassScores(), HDSL()", both),
}


def cells(settings: Settings) -> list[Cell]:
    """Return every method on every set; the dot product where rows differ in length."""
    return [
        {"set": name, "method": method}
        for name in sets.names_of_splits(settings)
        for method in METHODS
        if method != "dot" or name in sets.RAW
    ]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return errors, known-item search and seconds of one method on one set."""
    return comparison.measure(settings, cell, METHODS)


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return one table per measure: a row per method, a column per set."""
    labels = comparison.labels_of(METHODS)
    tables = [
        comparison.table(
            f"error-{k}nn",
            lines,
            labels,
            comparison.error(k),
            f"{k} nearest neighbours by cosine, with 95 % intervals (Wilson). "
            "LinearSVC predicts by itself.",
        )
        for k in comparison.NEIGHBORS
    ]
    note = (
        "Mean reciprocal rank of a test row searched by half of its features; 95 % "
        "intervals."
    )
    tables.append(comparison.table("known-item", lines, labels, comparison.mrr, note))
    note = "CPU seconds of learning, the choice of the prior included."
    tables.append(comparison.table("seconds", lines, labels, comparison.seconds, note))
    return Results(tables)
