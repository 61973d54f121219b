"""Other ways to compare rows and to learn a similarity, on the rows of `quality`.

Beyond the paper. One weight per feature on sparse rows; NCA and OASIS on rows of 100
dimensions, which they need. The penalty of the weights and the step of OASIS have no
good default: folds of the training rows choose them. As in `quality`, every method
learns from the training rows alone, and test rows are looked at once. NCA of
scikit-learn takes no sparse rows, and thousands of features make its matrix too large:
hence the SVD before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.model_selection import KFold
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize

from hdsl.evaluate import knn_error

from . import comparison, sets
from .baselines import OASIS, DiagonalSimilarity
from .comparison import Learned, Method, by_matrix, classifier, neighbors
from .results import Results
from .sets import Split
from .settings import Cell, Line, Settings

TITLE = "Other ways to compare rows: errors of 3 nearest neighbours in %, seconds"

#: Dimensions of the methods that need few.
DIMENSIONS = 100

#: Values that folds of at most `CHOOSING_ROWS` training rows choose from.
ALPHAS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
STEPS = (1e-3, 1e-2, 1e-1)
FOLDS = 3
CHOOSING_ROWS = 2000

#: Training rows of the largest set: NCA takes all pairs of rows.
MOST_ROWS = {"nca": 5000}


def manhattan(split: Split) -> Learned:
    """Return rows of sum 1, by the sum of absolute differences."""
    rows = normalize(split.X, norm="l1")
    return by_matrix(
        split.y, lambda X: -manhattan_distances(normalize(X, norm="l1"), rows)
    )


def tanimoto(split: Split) -> Learned:
    """Return the share of bits in common of fingerprints."""
    rows = split.X != 0
    sizes = rows.sum(axis=1)

    def similarities(X: Any) -> np.ndarray:
        bits = X != 0
        both = (bits.astype(float) @ rows.T.astype(float)).toarray()
        return both / np.maximum(bits.sum(axis=1)[:, None] + sizes - both, 1.0)

    return by_matrix(split.y, similarities)


def forest(split: Split) -> Learned:
    """Return a random forest of 500 trees."""
    model = RandomForestClassifier(500, random_state=0)
    return classifier(model.fit(split.X, split.y))


def diagonal(split: Split) -> Learned:
    """Return one weight per feature."""
    weights = [DiagonalSimilarity(alpha=alpha, random_state=0) for alpha in ALPHAS]
    model = _by_folds(weights, split.X, split.y).fit(split.X, split.y)
    return neighbors(split.X, split.y, cosine=False, similarity=model.similarity_)


def _after_svd(split: Split, learn: Any) -> Learned:
    """Return what is learned on rows of unit length in few dimensions."""
    n = min(DIMENSIONS, min(split.X.shape) - 1)
    svd = TruncatedSVD(n, random_state=0).fit(split.X)

    def embed(X: Any) -> np.ndarray:
        return normalize(svd.transform(X))

    return learn(embed(split.X), split.y, embed)


def _nca(rows: np.ndarray, y: np.ndarray, embed: Any) -> Learned:
    # NCA learns distances. On rows at unit length the nearest by distance are those by
    # cosine.
    nca = NeighborhoodComponentsAnalysis(random_state=0).fit(rows, y)
    return neighbors(nca.transform(rows), y, lambda X: nca.transform(embed(X)))


def _oasis(rows: np.ndarray, y: np.ndarray, embed: Any) -> Learned:
    model = _by_folds([OASIS(C, random_state=0) for C in STEPS], rows, y).fit(rows, y)
    return neighbors(rows, y, embed, cosine=False, similarity=model.similarity_)


def _by_folds(candidates: list[Any], X: Any, y: np.ndarray) -> Any:
    """Return the candidate with the lowest mean error over folds of the training rows."""
    few = np.random.default_rng(0).permutation(len(y))[:CHOOSING_ROWS]
    X = X[few]
    y = y[few]
    folds = list(KFold(FOLDS).split(few))

    def error(candidate: Any) -> float:
        errors = []
        for train, held_out in folds:
            model = clone(candidate).fit(X[train], y[train])
            errors.append(
                knn_error(model, X[train], y[train], X[held_out], y[held_out])
            )
        return float(np.mean(errors))

    return min(candidates, key=error)


METHODS: dict[str, Method] = {
    "manhattan": ("rows of sum 1, L1 distance", manhattan),
    "tanimoto": ("Tanimoto", tanimoto),
    "forest": ("random forest", forest),
    "svd": ("SVD, 100 dimensions", lambda split: _after_svd(split, neighbors)),
    "nca": ("NCA after SVD", lambda split: _after_svd(split, _nca)),
    "oasis": ("OASIS after SVD", lambda split: _after_svd(split, _oasis)),
    "diagonal": ("one weight per feature", diagonal),
}

#: Methods for fingerprints alone.
FINGERPRINTS = ("tanimoto", "forest")


def cells(settings: Settings) -> list[Cell]:
    """Return every method on every set that it suits and that is small enough for it.

    The docstrings are for lack of other sets: they differ between builds of Python, and
    figures of two machines with them.
    """
    names = [name for name in sets.names_of_splits(settings) if name not in sets.RAW]
    return [
        {"set": name, "method": method}
        for name in names
        if name != "docstrings" or len(names) == 1
        for method in METHODS
        if method not in FINGERPRINTS or name in sets.NOT_TEXTS
        if len(sets.split(settings, name).y) <= MOST_ROWS.get(method, np.inf)
    ]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the error and the seconds of one method on one set."""
    return comparison.measure(settings, cell, METHODS)


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the errors and the seconds: a row per method, a column per set."""
    labels = comparison.labels_of(METHODS)
    note = (
        f"Nearest by cosine, in {DIMENSIONS} dimensions where it says SVD; OASIS and "
        "the weights by their own similarity, with the step or the penalty that folds "
        "of the training rows choose. 95 % intervals (Wilson). NCA is scikit-learn's, "
        f"which takes no sparse rows, left out above {MOST_ROWS['nca']:,} training "
        "rows. Tanimoto is of bits set in both."
    )
    errors = comparison.table("error-3nn", lines, labels, comparison.error(3), note)
    note = "CPU seconds of learning, the SVD and the choice included."
    seconds = comparison.table("seconds", lines, labels, comparison.seconds, note)
    return Results([errors, seconds])
