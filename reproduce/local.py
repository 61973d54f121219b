"""One similarity for all rows against one more per region, on every set.

Beyond the paper: its section 6 leaves local metrics open. Every model learns from the training rows
alone. The number of regions is chosen by folds of the training rows, and test rows are looked at
once.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split

from hdsl import datasets
from hdsl.local import LocalHDSL
from hdsl.local_cv import LocalHDSLCV
from hdsl.neighbors import SimilarityKNeighborsClassifier
from hdsl.similarity import unit_rows
from hdsl.uncertainty import wilson_interval

from . import sets
from .results import Results, Table, by_set_and_method, set_names
from .runner import Cell, Line, Settings, finished

TITLE = "Local metrics: one similarity for all rows, or one more per region"

#: Regions that contradict each other: `datasets.make_regions`.
MADE = "contradiction"

#: Numbers of regions to fit and to choose from.
REGIONS, QUICK_REGIONS = (0, 2, 4), (0, 2)

N_FOLDS, N_NEIGHBORS, MAX_ITER = 2, 3, 150
MINING: dict[str, Any] = {"n_targets": 3, "n_impostors": 5}

#: Most rows to learn from and to report on, drawn once: a choice by folds fits seven models.
MOST_TRAINING, MOST_TEST = 600, 1000

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
    names = [MADE, *(name for name in names if name == "bace_ecfp6")] if settings.quick else names
    methods = [*map(str, QUICK_REGIONS if settings.quick else REGIONS), "chosen"]
    return [{"set": name, "method": method} for method in methods for name in names]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the errors on test rows, and what was learned."""
    task, method = _task(settings, cell["set"]), cell["method"]
    max_iter = 100 if settings.quick else MAX_ITER
    model: Any = LocalHDSL(max_iter=max_iter, random_state=0, n_jobs=1, **MINING)
    if method == "chosen":
        choices = QUICK_REGIONS if settings.quick else REGIONS
        model = LocalHDSLCV(choices, estimator=model, cv=N_FOLDS)
    else:
        model.set_params(n_regions=int(method))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of a class
        model.fit(**task.learn)
    learned = finished(model.best_estimator_ if method == "chosen" else model)
    knn = SimilarityKNeighborsClassifier(N_NEIGHBORS, similarity=learned, cosine=True)
    predicted = knn.fit(task.X, task.y).predict(task.X_test)
    answer = {
        "n": len(task.y_test),
        "wrong": int(np.sum(predicted != task.y_test)),
        "n_regions": learned.n_regions_,
        "n_atoms": len(learned.weights_),
        "n_local": sum(map(len, learned.local_weights_)),
        "objective": learned.objective_,
    }
    if method == "chosen":
        for name in ("mean_test_score", "error_test_score"):
            answer[name] = model.cv_results_[name].tolist()
    return answer


def _task(settings: Settings, name: str) -> Task:
    if name == MADE:
        return contradiction(400 if settings.quick else 1200)
    return real_task(settings, name, MOST_TRAINING, MOST_TEST)


def real_task(settings: Settings, name: str, most_training: int, most_test: int) -> Task:
    """Return a real set at unit length; rows beyond the most are left out, by a draw."""
    if name == "docstrings":
        docs = _docstrings()
        parts = train_test_split(docs.X, docs.y, test_size=0.2, random_state=0, stratify=docs.y)
        X, X_test, y, y_test = parts
    else:
        found = sets.load(settings, name)
        X, y, X_test, y_test = found.X, found.y, found.X_test, found.y_test
        if not found.has_test:
            X_test, y_test = found.X_val, found.y_val
    (X, y), (X_test, y_test) = _drawn(X, y, most_training), _drawn(X_test, y_test, most_test)
    columns = np.unique(X.indices)
    X, X_test = unit_rows(X, columns), unit_rows(X_test, columns)
    return Task({"X": X, "y": y}, X, y, X_test, y_test)


@lru_cache(maxsize=1)  # the cells of a process share it
def _docstrings() -> Any:
    return datasets.load_docstrings(min_rows_per_label=80, summaries=True)


def _drawn(X: Any, y: Any, most: int) -> tuple[sp.csr_array, np.ndarray]:
    """Return rows and labels, at most so many, drawn without replacement."""
    X, y = sp.csr_array(X), np.asarray(y)
    if len(y) > most:
        rows = np.sort(np.random.default_rng(0).choice(len(y), size=most, replace=False))
        X, y = X[rows], y[rows]
    return X, y


def contradiction(n_rows: int, seed: int = 0) -> Task:
    """Return judgements of queries and documents, and queries to find documents for.

    Half of the rows are for training. Each query there is compared with documents of its region,
    one of its class and one of another.
    """
    X, y, regions, is_query = datasets.make_regions(n_rows, random_state=seed)
    rng = np.random.default_rng(seed)
    is_training = np.arange(n_rows) < n_rows // 2
    triplets = []
    for query in np.flatnonzero(is_training & is_query):
        there = is_training & ~is_query & (regions == regions[query])
        same = np.flatnonzero(there & (y == y[query]))
        other = np.flatnonzero(there & (y != y[query]))
        if len(same) and len(other):
            pairs = rng.choice(same, size=PER_QUERY), rng.choice(other, size=PER_QUERY)
            triplets.append(np.column_stack([np.full(PER_QUERY, query), *pairs]))
    learn = {"X": X[is_training], "triplets": np.concatenate(triplets)}
    documents, queries = is_training & ~is_query, ~is_training & is_query
    return Task(learn, X[documents], y[documents], X[queries], y[queries])


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the errors of every number of regions and of the choice."""
    by, counts = by_set_and_method(lines), QUICK_REGIONS if settings.quick else REGIONS
    rows, chosen_rows = [], []
    for name in set_names(lines):
        found = [by[name, str(count)][0] for count in counts]
        chosen = by[name, "chosen"][0]
        low, high = wilson_interval(found[0]["wrong"], found[0]["n"])
        rows.append(
            [
                name, f"{found[0]['n']:,}", *(_error(line) for line in found),
                f"{100 * low:.1f} to {100 * high:.1f}", str(chosen["n_regions"]), _error(chosen),
            ]
        )  # fmt: skip
        means, errors = chosen["mean_test_score"], chosen["error_test_score"]
        chosen_rows.append(
            [
                name, *(f"{100 * mean:.1f}" for mean in means),
                f"{100 * errors[int(np.argmax(means))]:.1f}", str(chosen["n_regions"]),
                f"{found[-1]['n_atoms']} + {found[-1]['n_local']}",
            ]
        )  # fmt: skip
    heads = ["no regions" if count == 0 else f"{count} regions" for count in counts]
    return Results(
        [
            Table(
                "errors",
                ["set", "test rows", *heads, "95 % of no regions", "chosen by folds", "error"],
                rows,
                [
                    f"Errors of {N_NEIGHBORS} nearest neighbours by learned cosine, in %, of "
                    f"models of at most {MOST_TRAINING} training rows. Regions by k-means; "
                    f"{MAX_ITER} steps in all blocks together; {MINING['n_targets']} × "
                    f"{MINING['n_impostors']} neighbours; scales and prior automatic. {N_FOLDS} "
                    "folds of the training rows choose the number of regions by the "
                    "one-standard-error rule, fewer regions first. Test rows are looked at "
                    "once.",
                ],
            ),
            Table(
                "folds",
                ["set", *heads, "standard error of the best", "chosen",
                 f"pairs of {counts[-1]} regions: shared + local"],
                chosen_rows,
                [
                    "Mean score of the folds in %: the share of the 10 nearest rows that have the "
                    "label; for the synthetic set the share of triplets that hold.",
                ],
            ),
        ]
    )  # fmt: skip


def _error(line: Line) -> str:
    return f"{100 * line['wrong'] / line['n']:.1f}"
