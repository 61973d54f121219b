"""Candidates for the defaults of HDSL, compared on folds of the training rows of every set.

Beyond the paper. No test row is read. What counts is the error of 3 nearest neighbours
and, for texts, how well a row is found again by half of its features, both as ratios to
the plain cosine; and whether the prior that a fit chooses is as good as the best fixed
one.
"""

from __future__ import annotations

import math
import time
import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import StratifiedKFold

from hdsl import HDSL, ClassScores, SimilarityKNeighborsClassifier
from hdsl.evaluate import known_item

from . import comparison, sets
from .results import Results, Table, set_names
from .runner import finished
from .sets import Split
from .settings import Cell, Line, Settings

TITLE = (
    "Candidates for the defaults, on folds of the training rows: ratios to the cosine"
)

N_FOLDS = 3

#: At most this many rows are held out per fold; all others are learned from.
N_HELD = 3000

#: Queries of the known-item search per fold.
QUERIES = 300

#: Fixed priors, and numbers of corrective steps.
PRIORS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
ITERATIONS = (10, 15, 20, 30)

#: A prior must leave this share of the cosine's mean reciprocal rank.
LEAST_MRR = 0.98


class Candidate(NamedTuple):
    """What HDSL learns with, the iterations to look at, and whether rows have class scores."""

    parameters: dict[str, Any]
    iterations: tuple[int, ...] = ()
    has_scores: bool = False


COSINE = "cosine"
CHOSEN = "HDSL()"
AWAY = "300 away steps, prior 15"


def _candidates() -> dict[str, Candidate]:
    found = {CHOSEN: Candidate({})}
    for prior in PRIORS:
        found[f"prior {prior:g}"] = Candidate({"prior": prior}, ITERATIONS)
    found[AWAY] = Candidate(
        {"prior": 15.0, "step": "away", "max_iter": 300}, (100, 300)
    )
    for name in (CHOSEN, "prior 2", "prior 8", "prior 16"):
        found[f"class scores, {name}"] = found[name]._replace(has_scores=True)
    return found


CANDIDATES = _candidates()


def cells(settings: Settings) -> list[Cell]:
    """Return every candidate on every fold of every set; a few on one fold if it must be quick."""
    names = [CHOSEN, "prior 8", AWAY] if settings.quick else list(CANDIDATES)
    return [
        {"set": name, "fold": fold, "candidate": candidate}
        for fold in range(1 if settings.quick else N_FOLDS)
        for candidate in (COSINE, *names)
        for name in sets.names_of_splits(settings)
    ]


@lru_cache(maxsize=2)
def _fold(settings: Settings, name: str, fold: int) -> Split:
    """Return the rows to learn from and the rows held out, both of the training rows."""
    X, y, _, _ = sets.split(settings, name)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of a class
        train, held = list(folds.split(X, y))[fold]
    held = np.sort(np.random.default_rng(fold).permutation(held)[:N_HELD])
    rows = sp.csr_array(X[train])
    others = sp.csr_array(X[held])
    if name not in sets.RAW:
        columns = np.unique(rows.indices)
        rows = sets.unit_rows(rows, columns)
        others = sets.unit_rows(others, columns)
    return Split(rows, y[train], others, y[held])


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return, by iterations, which rows are wrong, the ranks of known items and CPU seconds."""
    name = cell["set"]
    split = _fold(settings, name, cell["fold"])
    if cell["candidate"] == COSINE:
        return {"n": len(split.y_test), "at": {"": _measured(name, split, None)}}
    comparison.compile_all()
    candidate = CANDIDATES[cell["candidate"]]
    scores = None
    rows = split.X
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # few rows of a class, runs that end at their limit
        if candidate.has_scores:
            scores = ClassScores(random_state=0)
            rows = scores.fit_transform(split.X, split.y)
        more = {"max_iter": max(candidate.iterations)} if candidate.iterations else {}
        spent: list[float] = []  # CPU seconds at each iteration
        count = lambda state: spent.append(time.process_time())  # noqa: E731
        model = HDSL(
            random_state=0, n_jobs=1, callback=count, **{**more, **candidate.parameters}
        )
        finished(model.fit(rows, split.y))
    seconds = time.process_time() - start
    at = {}
    if not candidate.iterations:
        at[""] = {**_measured(name, split, (model, scores, rows)), "seconds": seconds}
    for n_iter in candidate.iterations:
        last = min(n_iter, model.n_iter_)
        measured = _measured(name, split, (model.at(last), scores, rows))
        at[str(n_iter)] = {**measured, "seconds": seconds - (spent[-1] - spent[last])}
    sizes = {"n_iter": int(model.n_iter_), "prior": float(model.prior_)}
    return {"n": len(split.y_test), "at": at, **sizes}


def _measured(name: str, split: Split, learned: Any) -> dict[str, Any]:
    """Return the rows that 3 neighbours get wrong, and the ranks of known items."""

    def embed(X: Any) -> Any:
        model, scores, _ = learned
        return model.transform(X if scores is None else scores.transform(X))

    rows = split.X
    queries = split.X_test
    if learned is not None:
        model, _, rows = learned
        rows = model.transform(rows)
        queries = sp.csr_array(embed(queries))
    knn = SimilarityKNeighborsClassifier(3, cosine=True).fit(rows, split.y)
    answer = {"wrong": np.flatnonzero(knn.predict(queries) != split.y_test).tolist()}
    if name not in sets.NOT_TEXTS:
        searched = None if learned is None else embed
        found = known_item(searched, split.X_test, n_queries=QUERIES, random_state=0)
        answer["ranks"] = np.asarray(found.ranks).tolist()
    return answer


# --- results --------------------------------------------------------------------------


class Ratio(NamedTuple):
    """A ratio of two means and the standard error of its logarithm."""

    value: float
    error: float

    def __str__(self) -> str:
        low, high = (
            self.value * math.exp(sign * 1.96 * self.error) for sign in (-1.0, 1.0)
        )
        return f"{self.value:.2f} ({low:.2f}-{high:.2f})"


def ratio_of_means(values: np.ndarray, others: np.ndarray) -> Ratio:
    """Return the ratio of the means of two paired samples.

    Examples
    --------
    >>> ratio_of_means(np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 0, 0])).value
    0.5
    """
    mean = float(np.mean(values))
    other = float(np.mean(others))
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
        self.wrong: dict[tuple[str, str], np.ndarray] = {}
        self.found: dict[tuple[str, str], np.ndarray] = {}
        self.seconds: dict[tuple[str, str], float] = {}
        self.priors: dict[tuple[str, str], list[float]] = {}
        self.folds: dict[tuple[str, str, int], tuple[np.ndarray, np.ndarray]] = {}
        for line in lines:
            cell = line["cell"]
            for n_iter, at in line["at"].items():
                key = cell["set"], label(cell["candidate"], n_iter)
                wrong = np.zeros(line["n"])
                wrong[at["wrong"]] = 1.0
                self._add(self.wrong, key, wrong)
                self.seconds[key] = self.seconds.get(key, 0.0) + at.get("seconds", 0.0)
                self.priors.setdefault(key, []).append(line.get("prior", math.inf))
                found = 1.0 / np.array(at.get("ranks", []))
                if len(found):
                    self._add(self.found, key, found)
                self.folds[*key, cell["fold"]] = wrong, found

    @staticmethod
    def _add(
        to: dict[tuple[str, str], np.ndarray], key: tuple[str, str], more: np.ndarray
    ) -> None:
        to[key] = np.append(to.get(key, np.empty(0)), more)

    @property
    def labels(self) -> list[str]:
        """Candidates with their lengths."""
        return [
            name
            for name in dict.fromkeys(row for _, row in self.wrong)
            if name != COSINE
        ]

    def to_cosine(
        self, values: dict[tuple[str, str], np.ndarray], name: str, row: str
    ) -> Ratio:
        """Return a mean in relation to the cosine's; not a number where it was not measured."""
        if (name, row) not in values:
            return Ratio(math.nan, math.nan)
        return ratio_of_means(values[name, row], values[name, COSINE])

    def best_prior(self, name: str, rows: list[str], folds: list[int]) -> str:
        """Return the fixed prior of fewest errors on some folds, of those that keep the search."""

        def mean(row: str, kind: int) -> float:
            return float(
                np.concatenate(
                    [self.folds[name, row, fold][kind] for fold in folds]
                ).mean()
            )

        is_text = (name, COSINE) in self.found
        kept = [
            row
            for row in rows
            if not is_text or mean(row, 1) >= LEAST_MRR * mean(COSINE, 1)
        ]
        return min(kept or rows[-1:], key=lambda row: mean(row, 0))

    def by_other_folds(
        self, name: str, rows: list[str], folds: list[int]
    ) -> np.ndarray:
        """Return the rows that are wrong by the fixed prior that is best on the other folds."""
        wrong = [
            self.folds[
                name, self.best_prior(name, rows, [f for f in folds if f != fold]), fold
            ][0]
            for fold in folds
        ]
        return np.concatenate(wrong)

    def seconds_to_away(self, names: list[str], row: str) -> float:
        """Return the CPU seconds in relation to 300 away steps, a geometric mean over sets."""
        other = label(AWAY, "300")
        ratios = [self.seconds[name, row] / self.seconds[name, other] for name in names]
        return math.exp(float(np.mean(np.log(ratios))))


def label(candidate: str, n_iter: str) -> str:
    """Return how tables name a candidate of some length."""
    return f"{candidate}, {n_iter} iterations" if n_iter else candidate


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return ratios to the cosine, in the mean and per set, and the choice per set."""
    measured = Measured(lines)
    names = set_names(lines)
    rows = measured.labels
    error = [
        [measured.to_cosine(measured.wrong, name, row) for name in names]
        for row in rows
    ]
    found = [
        [measured.to_cosine(measured.found, name, row) for name in names]
        for row in rows
    ]
    texts = [name for name in names if name not in sets.NOT_TEXTS]
    means = [
        [
            row,
            str(geometric_mean(e)),
            str(geometric_mean(f)),
            f"{min((r.value for r in f if not math.isnan(r.value)), default=math.nan):.3f}",
            f"{measured.seconds_to_away(names, row):.2f}",
        ]
        for row, e, f in zip(rows, error, found, strict=True)
    ]
    return Results(
        [
            Table(
                "choice",
                [
                    "set",
                    "prior chosen",
                    "error",
                    "best fixed",
                    "error",
                    "difference",
                    "within one standard error",
                    "seconds",
                    "by the other folds",
                ],
                [_choice(measured, name) for name in names],
                [
                    "Per set, over all folds: errors of 3 nearest neighbours in %, of "
                    "the prior that HDSL() chooses on rows it holds out, and of the "
                    "best fixed prior at as many steps, of those that leave "
                    f"{LEAST_MRR:.0%} of the cosine's mean reciprocal rank (the "
                    "largest where none does); their difference ± its standard error, "
                    "of the same rows. Seconds: CPU seconds of HDSL() divided by "
                    "those of 300 away steps. By the other folds: the same difference "
                    "for the fixed prior that is best on the other two folds, as they "
                    "are measured here: what a choice could do that knew the errors "
                    "on two thirds of these rows."
                ],
            ),
            Table(
                "means",
                ["candidate", "error", "known item", "lowest", "seconds"],
                means,
                [
                    "Geometric means over the sets with 95 % intervals: the error of "
                    "3 nearest neighbours and the mean reciprocal rank of a held-out "
                    "row searched by half of its features, both divided by the "
                    "cosine's; the lowest of the second over the sets; CPU seconds "
                    "divided by those of 300 away steps."
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
                    [
                        row,
                        *(
                            f"{r.value:.3f}"
                            for r, name in zip(line, names, strict=True)
                            if name in texts
                        ),
                    ]
                    for row, line in zip(rows, found, strict=True)
                ],
                ["Mean reciprocal rank divided by the cosine's."],
            ),
        ]
    )


def _choice(measured: Measured, name: str) -> list[str]:
    """Return the chosen prior of a set beside the best fixed one that keeps the search."""
    length = str(
        HDSL().max_iter
    )  # that of HDSL(): others have other lengths, not other priors
    fixed = [label(f"prior {prior:g}", length) for prior in PRIORS]
    fixed = [row for row in fixed if (name, row) in measured.wrong]
    folds = sorted({fold for other, _, fold in measured.folds if other == name})
    best = measured.best_prior(name, fixed, folds)
    ours = measured.wrong[name, CHOSEN]
    theirs = measured.wrong[name, best]
    shown, is_within = _difference(ours - theirs)
    other, is_other_within = (
        ("–", True)
        if len(folds) < 2
        else _difference(measured.by_other_folds(name, fixed, folds) - theirs)
    )
    away = measured.seconds[name, label(AWAY, "300")]
    return [
        name,
        ", ".join(f"{prior:g}" for prior in measured.priors[name, CHOSEN]),
        f"{100 * ours.mean():.1f}",
        best,
        f"{100 * theirs.mean():.1f}",
        shown,
        "yes" if is_within else "no",
        f"{measured.seconds[name, CHOSEN] / away:.2f}",
        f"{other}{'' if is_other_within else ', no'}",
    ]


def _difference(values: np.ndarray) -> tuple[str, bool]:
    """Return a mean with its standard error, in %, and whether it is at most that."""
    mean = float(values.mean())
    error = float(values.std() / math.sqrt(len(values)))
    return f"{100 * mean:+.1f} ± {100 * error:.1f}", mean <= error
