"""Linking records by the number of known matches: where learning starts to pay.

Beyond the paper. A Linker learns from a few matches of ``train.csv`` alone, drawn at
random several times; beside it the same classifiers without a learned similarity, and the
cosine of words and n-grams. The threshold of the largest F1 on ``valid.csv`` is that of
F1 on ``test.csv``, for all three.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import stats

from hdsl.linking import Linker

from .linking import Benchmark, best_threshold, f1, folder_of, load
from .results import Results, Table
from .settings import Cell, Line, Settings

TITLE = "Linking records by the number of known matches"

TABLES = ("abt_buy", "amazon_google")
SIZES = (5, 10, 25, 50, 100, 200)

#: Draws of the matches.
N_DRAWS = 5

METHODS = {
    "learned": "Linker",
    "cosine": "Linker, similarity='cosine'",
    "nothing": "cosine divided by ranks, nothing learned",
}


def cells(settings: Settings) -> list[Cell]:
    """Return every method for every number of matches and draw."""
    tables = settings.by_size(full=TABLES, quick=TABLES[:1])
    folder_of(settings, tables)
    sizes = settings.by_size(full=SIZES, quick=(5, 25))
    n_draws = settings.by_size(full=N_DRAWS, quick=1)
    unlearned = [
        {"tables": name, "method": "nothing", "size": 0, "draw": 0} for name in tables
    ]
    return unlearned + [
        {"tables": name, "method": method, "size": size, "draw": draw}
        for draw in range(n_draws)
        for name in tables
        for size in sizes
        for method in ("learned", "cosine")
    ]


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return the F1 of one method on one draw of the matches."""
    data = load(folder_of(settings, TABLES[:1]) / cell["tables"])
    matches = data.train.matches
    rng = np.random.default_rng(cell["draw"])
    drawn = matches[rng.permutation(len(matches))[: cell["size"]]]
    similarity = "cosine"
    if cell["method"] == "learned":
        similarity = "learned"
    linker = Linker(similarity=similarity, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few matches, or none
        linker.fit(data.left, data.right, drawn)
    return {
        "f1": _f1_of_new_pairs(linker, data),
        "statement": linker.statement_,
        "is_learned": linker.is_learned_,
    }


def _f1_of_new_pairs(linker: Linker, data: Benchmark) -> float:
    """Return the F1 on test at the threshold that is best on valid."""
    valid = linker.predict_proba(data.valid.pairs)
    threshold = best_threshold(data.valid.labels, valid)
    scores = linker.predict_proba(data.test.pairs)
    return f1(data.test.labels, scores >= threshold)


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the mean F1 of the draws, and from which number of matches on it pays."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for line in lines:
        cell = line["cell"]
        key = (cell["tables"], cell["method"], cell["size"])
        groups.setdefault(key, []).append(100 * line["f1"])
    names = list(dict.fromkeys(line["cell"]["tables"] for line in lines))
    sizes = sorted({line["cell"]["size"] for line in lines} - {0})
    rows = [
        [
            name,
            METHODS[method],
            *(_spread(groups[name, method, size]) for size in sizes),
        ]
        for name in names
        for method in ("learned", "cosine")
    ]
    for name in names:
        unlearned = _spread(groups[name, "nothing", 0])
        rows.append([name, METHODS["nothing"], *[unlearned] * len(sizes)])
    note = (
        "F1 on test at the threshold that is best on valid, by the number of known "
        "matches. Of several draws of them the mean, with its 95 % interval."
    )
    pays_note = (
        "The least number of matches from which on the interval of F1 is above that of "
        "nothing learned."
    )
    pays_rows = [
        [name, METHODS[method], _pays_from(groups, name, method, sizes)]
        for name in names
        for method in ("learned", "cosine")
    ]
    head = ["tables", "method", *map(str, sizes)]
    return Results(
        [
            Table("sizes", head, sorted(rows), [note]),
            Table("pays", ["tables", "method", "pays from"], pays_rows, [pays_note]),
        ]
    )


def _pays_from(
    groups: dict[tuple[Any, ...], list[float]],
    tables: str,
    method: str,
    sizes: list[int],
) -> str:
    """Return the least number of matches from which on F1 is above nothing learned."""
    unlearned = float(np.mean(groups[tables, "nothing", 0]))
    pays_from = "–"
    for size in reversed(sizes):
        low, _ = _interval(groups[tables, method, size])
        if low <= unlearned:
            break
        pays_from = str(size)
    return pays_from


def _interval(values: list[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of draws, by Student's t."""
    mean = float(np.mean(values))
    if len(values) == 1:
        return mean, mean
    error = float(stats.sem(values))
    width = error * float(stats.t.ppf(0.975, len(values) - 1))
    return mean - width, mean + width


def _spread(values: list[float]) -> str:
    """Return the mean of values, with its interval if there are several."""
    mean = f"{np.mean(values):.1f}"
    if len(values) == 1:
        return mean
    low, high = _interval(values)
    return f"{mean} ({low:.1f} to {high:.1f})"
