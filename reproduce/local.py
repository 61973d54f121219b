"""One similarity for all rows against one more per region, on every set.

Beyond the paper: its section 6 leaves local metrics open. Every model learns from the
training rows alone. "auto" chooses the number of regions on training rows that it holds
out, and test rows are looked at once.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hdsl import HDSL, SimilarityKNeighborsClassifier
from hdsl.input.parameters import generator
from hdsl.settings import nested_parameters

from . import sets
from .local_hdsl import LocalHDSL
from .results import Results, Table, by_set_and_method, set_names, share
from .runner import finished
from .settings import Cell, Line, Settings

TITLE = "Local metrics: one similarity for all rows, or one more per region"

#: Regions that contradict each other: `made_rows`.
MADE = "contradiction"

#: Numbers of regions to fit and to choose from.
REGIONS = (0, 2, 4)
QUICK_REGIONS = (0, 2)

#: The number that a fit chooses by itself.
AUTO = "auto"

N_NEIGHBORS = 3
MINING: dict[str, Any] = {"n_targets": 3, "n_impostors": 5}

#: Most rows to learn from and to report on, drawn once.
MOST_TRAINING = 600
MOST_TEST = 1000

#: Documents that each query of the synthetic set is compared with.
PER_QUERY = 20


class Task(NamedTuple):
    """What to learn from, rows to find, and rows to report on."""

    learn: dict[str, Any]
    X: sp.csr_array
    y: np.ndarray
    X_test: sp.csr_array
    y_test: np.ndarray


def cells(settings: Settings) -> list[Cell]:
    """Return every number of regions, and the choice among them, on every set."""
    names = [MADE, "docstrings"]
    if settings.data is not None:
        names += sets.present(settings, sets.PAPER + sets.MORE)
    if settings.quick:
        names = [name for name in names if name in (MADE, "bace_ecfp6")]
    counts = settings.by_size(full=REGIONS, quick=QUICK_REGIONS)
    methods = [*map(str, counts), AUTO]
    return [{"set": name, "method": method} for method in methods for name in names]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the errors on test rows, and what was learned."""
    task = _task(settings, cell["set"])
    method = cell["method"]
    n_regions: int | str = AUTO
    if method != AUTO:
        n_regions = int(method)
    shared = HDSL(**nested_parameters(random_state=0, n_jobs=1, **MINING))
    model = LocalHDSL(shared, n_regions=n_regions)
    with warnings.catch_warnings():
        # Few rows of a class, runs that end at their limit.
        warnings.simplefilter("ignore")
        finished(model.fit(**task.learn).shared_)
    knn = SimilarityKNeighborsClassifier(N_NEIGHBORS, similarity=model, cosine=True)
    predicted = knn.fit(task.X, task.y).predict(task.X_test)
    return {
        "n": len(task.y_test),
        "wrong": int(np.sum(predicted != task.y_test)),
        "n_regions": int(model.n_regions_),
        "n_atoms": len(model.shared_.weights_),
        "n_local": sum(len(correction.weights) for correction in model.local_),
    }


def _task(settings: Settings, name: str) -> Task:
    """Return the task of a set."""
    if name == MADE:
        return contradiction(settings.by_size(full=1200, quick=400))
    return real_task(settings, name, MOST_TRAINING, MOST_TEST)


def real_task(
    settings: Settings, name: str, most_training: int, most_test: int
) -> Task:
    """Return a real set at unit length; rows beyond the most are left out, by a draw."""
    split = sets.split(settings, name)
    X, y = _drawn(split.X, split.y, most_training)
    X_test, y_test = _drawn(split.X_test, split.y_test, most_test)
    columns = np.unique(X.indices)
    X = sets.unit_rows(X, columns)
    X_test = sets.unit_rows(X_test, columns)
    return Task({"X": X, "y": y}, X, y, X_test, y_test)


def _drawn(X: Any, y: Any, limit: int) -> tuple[sp.csr_array, np.ndarray]:
    """Return rows and labels, at most so many, drawn without replacement."""
    X = sp.csr_array(X)
    y = np.asarray(y)
    if len(y) <= limit:
        return X, y
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(len(y), size=limit, replace=False))
    return X[rows], y[rows]


class ContradictingRows(NamedTuple):
    """Rows of two regions, their classes and regions, and which of them are queries."""

    X: sp.csr_array
    y: np.ndarray
    regions: np.ndarray
    is_query: np.ndarray


def made_rows(n_rows: int, rng: np.random.Generator) -> ContradictingRows:
    """Return rows of two regions that contradict each other.

    Queries and documents use different words. In the first region the words of query
    class c go with those of document class c; in the second they go with those of class
    c + 1. So a word pair pulls together in one region and apart in the other, and no
    single matrix is right in both. Each row has two of the three words of its class,
    and half of the eight marks of its region, words that tell nothing but the region.
    """
    regions, is_query = rng.integers(2, size=(2, n_rows))
    classes = rng.integers(6, size=n_rows)
    blocks = np.where(is_query, classes, 6 + (classes + regions) % 6)
    words = 3 * blocks[:, None] + _choices(2, 3, n_rows, rng)
    marks = 8 * regions[:, None] + _choices(4, 8, n_rows, rng)
    indices = np.sort(np.column_stack([words, 36 + marks]), axis=1).ravel()
    values = np.ones(len(indices))
    ptr = 6 * np.arange(n_rows + 1)
    X = sp.csr_array((values, indices, ptr), shape=(n_rows, 52))
    return ContradictingRows(X, 6 * regions + classes, regions, is_query == 1)


def _choices(k: int, n: int, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return k of the numbers below n for each row, without replacement."""
    numbers = np.tile(np.arange(n), (n_rows, 1))
    return rng.permuted(numbers, axis=1)[:, :k]


def contradiction(n_rows: int, seed: int = 0) -> Task:
    """Return judgements of queries and documents, and queries to find documents for.

    Half of the rows are for training. Each query there is compared with documents of
    its region, one of its class and one of another.
    """
    X, y, regions, is_query = made_rows(n_rows, generator(seed))
    rng = np.random.default_rng(seed)
    is_training = np.arange(n_rows) < n_rows // 2
    is_document = is_training & ~is_query
    triplets = []
    for query in np.flatnonzero(is_training & is_query):
        is_near = is_document & (regions == regions[query])
        same = np.flatnonzero(is_near & (y == y[query]))
        other = np.flatnonzero(is_near & (y != y[query]))
        if len(same) and len(other):
            positives = rng.choice(same, size=PER_QUERY)
            negatives = rng.choice(other, size=PER_QUERY)
            anchors = np.full(PER_QUERY, query)
            triplets.append(np.column_stack([anchors, positives, negatives]))
    learn = {"X": X[is_training], "triplets": np.concatenate(triplets)}
    is_test = ~is_training & is_query
    return Task(learn, X[is_document], y[is_document], X[is_test], y[is_test])


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the errors of every number of regions and of the choice."""
    by = by_set_and_method(lines)
    counts = settings.by_size(full=REGIONS, quick=QUICK_REGIONS)
    rows = []
    for name in set_names(lines):
        line_of = {count: by[name, str(count)][0] for count in counts}
        without_regions = line_of[0]
        largest = line_of[counts[-1]]
        chosen = by[name, AUTO][0]
        rows.append(
            [
                name,
                f"{chosen['n']:,}",
                share(without_regions["wrong"], without_regions["n"]),
                *(_error(line_of[count]) for count in counts[1:]),
                str(chosen["n_regions"]),
                _error(chosen),
                f"{largest['n_atoms']} + {largest['n_local']}",
            ]
        )
    heads = ["no regions", *(f"{count} regions" for count in counts[1:])]
    notes = [
        f"Errors of {N_NEIGHBORS} nearest neighbours by learned cosine, in %, of "
        f"models of at most {MOST_TRAINING} training rows; without regions with the 95 "
        f"% interval (Wilson). Regions by k-means; {MINING['n_targets']} × "
        f"{MINING['n_impostors']} neighbours; all else at its defaults. Training rows "
        "held out choose the number of regions, fewer first. Test rows are looked at "
        "once."
    ]
    head = [
        "set",
        "test rows",
        *heads,
        "regions chosen",
        "error",
        f"pairs of {counts[-1]} regions: shared + local",
    ]
    return Results([Table("errors", head, rows, notes)])


def _error(line: Line) -> str:
    return f"{100 * line['wrong'] / line['n']:.1f}"
