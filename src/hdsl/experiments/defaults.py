"""Candidates for the defaults of HDSL, compared on folds of the training rows of every set.

Beyond the paper. No test row is read. Each candidate differs from ``HDSL()`` in one or two
parameters. What counts is the error of 3 nearest neighbours and, for texts, how well a row is found
again by half of its features, both as ratios to the plain cosine.
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import StratifiedKFold

from ..estimators import HDSL, ClassScores
from ..evaluate import known_item
from ..neighbors import SimilarityKNeighborsClassifier
from ..similarity import unit_rows
from . import quality
from .results import Results, Table, set_names
from .runner import Cell, Line, Settings, finished

TITLE = "Candidates for the defaults, on folds of the training rows: ratios to the cosine"

N_FOLDS = 3

#: At most this many rows are learned from, and held out, per fold.
N_TRAIN, N_HELD = 3000, 1500

#: Queries of the known-item search per fold.
QUERIES = 300

#: Not texts: no known-item search.
NOT_TEXTS = ("dorothea", "bace_ecfp6")


class Candidate(NamedTuple):
    """Parameters that differ from the defaults; scale and prior as multiples of the automatic."""

    params: dict[str, Any]
    scale: float = 1.0
    prior: float = 1.0
    has_scores: bool = False
    iterations: tuple[int, ...] = (300,)


def _neighbors(n_targets: int, n_impostors: int) -> dict[str, Any]:
    return {"n_targets": n_targets, "n_impostors": n_impostors}


CANDIDATES = {
    "HDSL()": Candidate({"max_iter": 1000}, iterations=(100, 300, 1000)),
    "3 x 5 neighbours": Candidate(_neighbors(3, 5)),
    "5 x 10 neighbours": Candidate(_neighbors(5, 10)),
    "15 x 15 neighbours": Candidate(_neighbors(15, 15)),
    "scale x 0.3": Candidate({}, scale=0.3),
    "scale x 0.5": Candidate({}, scale=0.5),
    "scale x 0.7": Candidate({}, scale=0.7),
    "scale x 3": Candidate({}, scale=3.0),
    "prior x 1.5": Candidate({}, prior=1.5),
    "prior x 2": Candidate({}, prior=2.0),
    "prior x 1.5, scale x 3": Candidate({}, prior=1.5, scale=3.0),
    "class centres": Candidate({"class_centers": True}),
    "3 x 5 neighbours, class centres": Candidate({**_neighbors(3, 5), "class_centers": True}),
    "class scores": Candidate({}, has_scores=True),
    "class scores, prior x 1.5": Candidate({}, prior=1.5, has_scores=True),
    "class scores, prior x 2": Candidate({}, prior=2.0, has_scores=True),
}

COSINE = "cosine"


def cells(settings: Settings) -> list[Cell]:
    """Return every candidate on every fold of every set."""
    return [
        {"set": name, "fold": fold, "candidate": candidate}
        for fold in range(1 if settings.quick else N_FOLDS)
        for candidate in (COSINE, *CANDIDATES)
        for name in quality.names_of_sets(settings)
    ]


@lru_cache(maxsize=2)
def _fold(settings: Settings, name: str, fold: int) -> quality.Split:
    """Return the rows to learn from and the rows held out, both of the training rows."""
    X, y, _, _ = quality.load(settings, name)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of a class
        train, held = list(folds.split(X, y))[fold]
    rng = np.random.default_rng(fold)
    train, held = rng.permutation(train)[:N_TRAIN], rng.permutation(held)[:N_HELD]
    rows, others = sp.csr_array(X[np.sort(train)]), sp.csr_array(X[np.sort(held)])
    if name not in quality.RAW:
        columns = np.unique(rows.indices)
        rows, others = unit_rows(rows, columns), unit_rows(others, columns)
    return quality.Split(rows, y[np.sort(train)], others, y[np.sort(held)])


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return, by iterations, which held-out rows are wrong and the ranks of known items."""
    name = cell["set"]
    split = _fold(settings, name, cell["fold"])
    if cell["candidate"] == COSINE:
        return {"n": len(split.y_test), "at": {"0": _measured(name, split, None)}}
    candidate = CANDIDATES[cell["candidate"]]
    scores, rows = None, split.X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of a class
        if candidate.has_scores:
            scores = ClassScores(random_state=0)
            rows = scores.fit_transform(split.X, split.y)
        model = HDSL(**candidate.params, random_state=0)
        if (candidate.scale, candidate.prior) != (1.0, 1.0):
            start = HDSL(**{**candidate.params, "max_iter": 1}, random_state=0).fit(rows, split.y)
            model.set_params(
                scale=candidate.scale * start.scale_, prior=candidate.prior * start.prior_
            )
        finished(model.fit(rows, split.y))
    at = {}
    for n_iter in candidate.iterations:
        then = model.at(min(n_iter, model.n_iter_))
        at[str(n_iter)] = _measured(name, split, (then, scores, rows))
    return {"n": len(split.y_test), "at": at, "n_iter": model.n_iter_}


def _measured(name: str, split: quality.Split, learned: Any) -> dict[str, Any]:
    """Return the rows that 3 neighbours get wrong, and the ranks of known items."""

    def embed(X: Any) -> Any:
        model, scores, _ = learned
        return model.transform(X if scores is None else scores.transform(X))

    rows, queries = split.X, split.X_test
    if learned is not None:
        model, _, rows = learned
        rows, queries = model.transform(rows), sp.csr_array(embed(queries))
    knn = SimilarityKNeighborsClassifier(3, cosine=True).fit(rows, split.y)
    answer = {"wrong": np.flatnonzero(knn.predict(queries) != split.y_test).tolist()}
    if name not in NOT_TEXTS:
        searched = None if learned is None else embed
        found = known_item(searched, split.X_test, n_queries=QUERIES, random_state=0)
        answer["ranks"] = found.ranks.tolist()
    return answer


class Ratio(NamedTuple):
    """A ratio of two means and the standard error of its logarithm."""

    value: float
    error: float

    def __str__(self) -> str:
        low, high = (self.value * math.exp(sign * 1.96 * self.error) for sign in (-1.0, 1.0))
        return f"{self.value:.2f} ({low:.2f}-{high:.2f})"


def ratio_of_means(values: np.ndarray, others: np.ndarray) -> Ratio:
    """Return the ratio of the means of two paired samples.

    Examples
    --------
    >>> ratio_of_means(np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 0, 0])).value
    0.5
    """
    mean, other = float(np.mean(values)), float(np.mean(others))
    if mean == 0.0 or other == 0.0:
        return Ratio(math.nan, math.nan)
    rest = values / mean - others / other
    return Ratio(mean / other, float(np.sqrt(np.mean(rest**2) / len(rest))))


def geometric_mean(ratios: list[Ratio]) -> Ratio:
    """Return the geometric mean of independent ratios, without those that are not numbers."""
    known = [ratio for ratio in ratios if not math.isnan(ratio.value)]
    if not known:
        return Ratio(math.nan, math.nan)
    n = len(known)
    value = math.exp(sum(math.log(ratio.value) for ratio in known) / n)
    return Ratio(value, math.sqrt(sum(ratio.error**2 for ratio in known)) / n)


class Measured:
    """What was measured of each candidate at each length, over all folds of a set."""

    def __init__(self, lines: list[Line]) -> None:
        self.wrong: dict[tuple[str, str], list[np.ndarray]] = {}
        self.found: dict[tuple[str, str], list[np.ndarray]] = {}
        for line in lines:
            cell = line["cell"]
            for n_iter, at in line["at"].items():
                key = cell["set"], label(cell["candidate"], n_iter)
                wrong = np.zeros(line["n"])
                wrong[at["wrong"]] = 1.0
                self.wrong.setdefault(key, []).append(wrong)
                if "ranks" in at:
                    self.found.setdefault(key, []).append(1.0 / np.array(at["ranks"]))

    def error_ratio(self, name: str, candidate: str, other: str) -> Ratio:
        """Return the error of a candidate in relation to that of another."""
        return self._ratio(self.wrong, name, candidate, other)

    def found_ratio(self, name: str, candidate: str, other: str) -> Ratio:
        """Return the mean reciprocal rank in relation to that of another."""
        return self._ratio(self.found, name, candidate, other)

    def _ratio(self, of: dict[Any, list[np.ndarray]], name: str, one: str, other: str) -> Ratio:
        if (name, one) not in of:
            return Ratio(math.nan, math.nan)
        return ratio_of_means(np.concatenate(of[name, one]), np.concatenate(of[name, other]))


def label(candidate: str, n_iter: str) -> str:
    """Return how tables name a candidate; `DEFAULT` has the length of the defaults."""
    return candidate if n_iter in ("0", "300") else f"{candidate}, {n_iter} iterations"


DEFAULT = "HDSL()"


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the ratios of errors and of mean reciprocal ranks, per set and in the mean."""
    measured, names = Measured(lines), set_names(lines)
    rows = [
        label(candidate, str(n_iter))
        for candidate, how in CANDIDATES.items()
        for n_iter in how.iterations
    ]
    error = [[measured.error_ratio(name, row, COSINE) for name in names] for row in rows]
    found = [[measured.found_ratio(name, row, COSINE) for name in names] for row in rows]
    against = [
        [
            geometric_mean([ratio(name, row, DEFAULT) for name in names])
            for ratio in (measured.error_ratio, measured.found_ratio)
        ]
        for row in rows
    ]
    lowest = [min((r.value for r in line if not math.isnan(r.value)), default=math.nan)
              for line in found]  # fmt: skip
    texts = [name for name in names if name not in NOT_TEXTS]
    return Results([
        Table(
            "means",
            ["candidate", "error", "against HDSL()", "known item", "against HDSL()", "lowest"],
            [
                [row, str(geometric_mean(e)), str(a[0]), str(geometric_mean(f)), str(a[1]),
                 f"{low:.3f}"]
                for row, e, f, a, low in zip(rows, error, found, against, lowest, strict=True)
            ],
            [
                "Geometric means over the sets with 95 % intervals: the error of 3 nearest "
                "neighbours and the mean reciprocal rank of a held-out row searched by half of its "
                "features, both divided by the cosine's. The lowest of the second over the sets is "
                "the last column."
            ],
        ),
        Table(
            "error",
            ["candidate", *names],
            [[row, *map(str, line)] for row, line in zip(rows, error, strict=True)],
            ["Error of 3 nearest neighbours divided by the cosine's."],
        ),
        Table(
            "known-item",
            ["candidate", *texts],
            [
                [row, *(f"{r.value:.3f}" for r, name in zip(line, names, strict=True)
                        if name in texts)]
                for row, line in zip(rows, found, strict=True)
            ],
            ["Mean reciprocal rank divided by the cosine's."],
        ),
    ])  # fmt: skip
