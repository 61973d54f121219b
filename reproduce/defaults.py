"""Candidates for the defaults of HDSL, compared on folds of the training rows of every set.

Beyond the paper. No test row is read. What counts is the error of 3 nearest neighbours and, for
texts, how well a row is found again by half of its features, both as ratios to the plain cosine.
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

from hdsl import automatic
from hdsl.class_scores import ClassScores
from hdsl.evaluate import known_item
from hdsl.hdsl import HDSL
from hdsl.neighbors import SimilarityKNeighborsClassifier
from hdsl.similarity import unit_rows

from . import quality, sets
from .results import Results, Table, set_names
from .runner import Cell, Line, Settings, finished

TITLE = "Candidates for the defaults, on folds of the training rows: ratios to the cosine"

N_FOLDS = 3

#: At most this many rows are held out per fold; all others are learned from.
N_HELD = 3000

#: Queries of the known-item search per fold.
QUERIES = 300

#: Not texts: no known-item search.
NOT_TEXTS = ("dorothea", "bace_ecfp6")


class Candidate(NamedTuple):
    """What HDSL learns with.

    The scale is scale_margin √n max(1, s/80) / m and the prior max(prior_margin / m, least_prior),
    for n anchors of s values and the typical margin m of the cosine.
    """

    n_targets: int = 10
    n_impostors: int = 10
    scale_margin: float = 3.0
    prior_margin: float = 1.0
    least_prior: float = 0.0
    class_centers: str | None = None
    has_scores: bool = False
    step: str = "away"
    init: str = "zero"
    iterations: tuple[int, ...] = (300,)

    def __str__(self) -> str:
        parts = [f"{self.n_targets} x {self.n_impostors}", f"scale {self.scale_margin:g}"]
        prior = f"prior {self.prior_margin:g}"
        parts.append(prior + (f" (>= {self.least_prior:g})" if self.least_prior else ""))
        if self.class_centers is not None:
            parts.append(f"centres by {self.class_centers}")
        parts += ["class scores"] * self.has_scores
        parts += ["corrective"] * (self.step == "corrective")
        return ", ".join([*parts, "without 0"] if self.init != "zero" else parts)

    def fit(self, X: Any, y: np.ndarray) -> HDSL:
        """Return the model of some rows at unit length."""
        model = HDSL(
            n_targets=self.n_targets, n_impostors=self.n_impostors,
            class_centers=self.class_centers, step=self.step, init=self.init,
            max_iter=max(self.iterations), random_state=0, n_jobs=1,
        )  # fmt: skip
        of = sets.statistics(model, X, y)
        model.set_params(
            scale=self.scale_margin / automatic.SCALE_MARGIN * automatic.automatic_scale(of),
            prior=max(self.prior_margin / of.typical_margin, self.least_prior),
        )
        return finished(model.fit(X, y))


#: What ``HDSL()`` is.
DEFAULT = Candidate(scale_margin=9.0, least_prior=15.0)

#: What tables compare with: the scale and prior that suit the error alone at 10 x 10 neighbours.
REFERENCE = Candidate()

#: What seconds are compared with: the defaults of the first version, apart from the row lengths.
FIRST = Candidate(3, 5, init="oracle", iterations=(1000,))


def _candidates() -> list[Candidate]:
    old = Candidate(iterations=(100, 300, 1000))
    corrective: dict[str, Any] = {"step": "corrective", "iterations": (5, 10, 20, 30)}
    priors = [(1.0, 15.0), (2.0, 20.0)]  # of the margin, and the least one
    tried = [
        Candidate(scale_margin=scale, prior_margin=margin, least_prior=least)
        for scale in (3.0, 9.0, 30.0)
        for margin, least in priors
    ]
    plain = [
        FIRST,
        old,
        *(Candidate(n_targets=t, n_impostors=i) for t, i in ((3, 5), (15, 15))),
        *(Candidate(scale_margin=margin) for margin in (0.9, 9.0, 30.0)),
        Candidate(prior_margin=2.0),
        *(c._replace(iterations=(30, 100, 300, 1000)) if c == DEFAULT else c for c in tried),
        *(c._replace(**corrective) for c in tried),
        *(Candidate(class_centers=centers) for centers in ("rows", "classes")),
    ]  # fmt: skip
    scored = [
        Candidate(),
        *tried,
        *(c._replace(**corrective) for c in tried if c.scale_margin != 3.0),
    ]
    return [*plain, *(candidate._replace(has_scores=True) for candidate in scored)]


CANDIDATES = {str(candidate): candidate for candidate in _candidates()}

COSINE = "cosine"


def cells(settings: Settings) -> list[Cell]:
    """Return every candidate on every fold of every set; a few on one fold if it must be quick."""
    names = list(CANDIDATES)
    if settings.quick:
        names = list(dict.fromkeys([str(REFERENCE), str(DEFAULT), str(FIRST), *names[::8]]))
    return [
        {"set": name, "fold": fold, "candidate": candidate}
        for fold in range(1 if settings.quick else N_FOLDS)
        for candidate in (COSINE, *names)
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
    held = np.sort(np.random.default_rng(fold).permutation(held)[:N_HELD])
    rows, others = sp.csr_array(X[train]), sp.csr_array(X[held])
    if name not in quality.RAW:
        columns = np.unique(rows.indices)
        rows, others = unit_rows(rows, columns), unit_rows(others, columns)
    return quality.Split(rows, y[train], others, y[held])


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return, by iterations, which rows are wrong, the ranks of known items and CPU seconds."""
    name = cell["set"]
    split = _fold(settings, name, cell["fold"])
    if cell["candidate"] == COSINE:
        return {"n": len(split.y_test), "at": {"0": _measured(name, split, None)}}
    candidate = CANDIDATES[cell["candidate"]]
    scores, rows = None, split.X
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of a class
        if candidate.has_scores:
            scores = ClassScores(random_state=0)
            rows = scores.fit_transform(split.X, split.y)
        model = candidate.fit(rows, split.y)
    seconds, at = time.process_time() - start, {}
    along = model.trace_["seconds"]
    for n_iter in candidate.iterations:
        last = min(n_iter, model.n_iter_)
        measured = _measured(name, split, (model.at(last), scores, rows))
        at[str(n_iter)] = {**measured, "seconds": seconds - (along[-1] - along[last])}
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
        self.seconds: dict[tuple[str, str], list[float]] = {}
        for line in lines:
            cell = line["cell"]
            for n_iter, at in line["at"].items():
                key = cell["set"], label(cell["candidate"], n_iter)
                wrong = np.zeros(line["n"])
                wrong[at["wrong"]] = 1.0
                self.wrong.setdefault(key, []).append(wrong)
                if "seconds" in at:
                    self.seconds.setdefault(key, []).append(at["seconds"])
                if "ranks" in at:
                    self.found.setdefault(key, []).append(1.0 / np.array(at["ranks"]))

    @property
    def labels(self) -> list[str]:
        """Candidates with their lengths, in the order of `CANDIDATES`."""
        found = {row for _, row in self.wrong}
        every = [
            label(candidate, str(n_iter))
            for candidate, how in CANDIDATES.items()
            for n_iter in how.iterations
        ]
        return [row for row in every if row in found]

    def error_ratio(self, name: str, candidate: str, other: str) -> Ratio:
        """Return the error of a candidate in relation to that of another."""
        return self._ratio(self.wrong, name, candidate, other)

    def found_ratio(self, name: str, candidate: str, other: str) -> Ratio:
        """Return the mean reciprocal rank in relation to that of another."""
        return self._ratio(self.found, name, candidate, other)

    def seconds_ratio(self, names: list[str], candidate: str) -> float:
        """Return the CPU seconds in relation to those of `FIRST`, a geometric mean over sets."""
        first = label(str(FIRST), str(FIRST.iterations[-1]))
        if (names[0], first) not in self.seconds:
            return math.nan
        ratios = [sum(self.seconds[name, candidate]) / sum(self.seconds[name, first])
                  for name in names]  # fmt: skip
        return math.exp(float(np.mean(np.log(ratios))))

    def _ratio(self, of: dict[Any, list[np.ndarray]], name: str, one: str, other: str) -> Ratio:
        if (name, one) not in of:
            return Ratio(math.nan, math.nan)
        return ratio_of_means(np.concatenate(of[name, one]), np.concatenate(of[name, other]))


def label(candidate: str, n_iter: str) -> str:
    """Return how tables name a candidate of some length."""
    return candidate if n_iter in ("0", "300") else f"{candidate}, {n_iter} iterations"


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return the ratios of errors and of mean reciprocal ranks, per set and in the mean."""
    measured, names = Measured(lines), set_names(lines)
    rows = measured.labels
    error = [[measured.error_ratio(name, row, COSINE) for name in names] for row in rows]
    found = [[measured.found_ratio(name, row, COSINE) for name in names] for row in rows]
    against = [
        [
            geometric_mean([ratio(name, row, str(REFERENCE)) for name in names])
            for ratio in (measured.error_ratio, measured.found_ratio)
        ]
        for row in rows
    ]
    lowest = [min((r.value for r in line if not math.isnan(r.value)), default=math.nan)
              for line in found]  # fmt: skip
    texts = [name for name in names if name not in NOT_TEXTS]
    first = "to scale 3, prior 1"
    return Results([
        Table(
            "means",
            ["candidate", "error", first, "known item", first, "lowest", "seconds"],
            [
                [row, str(geometric_mean(e)), str(a[0]), str(geometric_mean(f)), str(a[1]),
                 f"{low:.3f}", f"{measured.seconds_ratio(names, row):.2f}"]
                for row, e, f, a, low in zip(rows, error, found, against, lowest, strict=True)
            ],
            [
                "Geometric means over the sets with 95 % intervals: the error of 3 nearest "
                "neighbours and the mean reciprocal rank of a held-out row searched by half of its "
                "features, both divided by the cosine's, and by those of 10 x 10, scale 3, prior "
                "1. The column 'lowest' has the lowest of the second over the sets, the last one "
                "the CPU seconds of learning divided by those of the first row."
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
