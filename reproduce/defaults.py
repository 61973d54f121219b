"""Candidates for the defaults of HDSL, on folds of the training rows of every set.

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

from hdsl import HDSL, ClassScores, SimilarityKNeighborsClassifier, Solver
from hdsl.evaluate import known_item
from hdsl.settings import nested_parameters

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
N_HELD_OUT = 3000

#: Queries of the known-item search per fold.
QUERIES = 300

#: Fixed priors, and numbers of corrective steps.
PRIORS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
ITERATIONS = (10, 15, 20, 30)

#: A prior must leave this share of the cosine's mean reciprocal rank.
LEAST_MRR = 0.98


class Candidate(NamedTuple):
    """What HDSL learns with, and the iterations to look at; none are those at its end."""

    parameters: dict[str, Any]
    iterations: tuple[int, ...] = ()
    has_scores: bool = False


COSINE = "cosine"
CHOSEN = "HDSL()"
AWAY = "300 away steps, prior 15"


def _candidates() -> dict[str, Candidate]:
    candidates = {CHOSEN: Candidate({})}
    for prior in PRIORS:
        candidates[f"prior {prior:g}"] = Candidate(
            {"prior": prior, "max_iter": max(ITERATIONS)}, ITERATIONS
        )
    candidates[AWAY] = Candidate(
        {"prior": 15.0, "step": "away", "max_iter": 300}, (100, 300)
    )
    for name in (CHOSEN, "prior 2", "prior 8", "prior 16"):
        with_scores = candidates[name]._replace(has_scores=True)
        candidates[f"class scores, {name}"] = with_scores
    return candidates


CANDIDATES = _candidates()


def cells(settings: Settings) -> list[Cell]:
    """Return every candidate on every fold of every set; a few on one fold if quick."""
    names = settings.by_size(full=list(CANDIDATES), quick=[CHOSEN, "prior 8", AWAY])
    n_folds = settings.by_size(full=N_FOLDS, quick=1)
    return [
        {"set": name, "fold": fold, "candidate": candidate}
        for fold in range(n_folds)
        for candidate in (COSINE, *names)
        for name in sets.names_of_splits(settings)
    ]


@lru_cache(maxsize=2)
def _fold(settings: Settings, name: str, fold: int) -> Split:
    """Return the rows to learn from and the rows held out, both of the training rows."""
    whole = sets.split(settings, name)
    X = whole.X
    y = whole.y
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows of a class
        train, all_held_out = list(folds.split(X, y))[fold]
    order = np.random.default_rng(fold).permutation(all_held_out)
    held_out = np.sort(order[:N_HELD_OUT])
    rows = sp.csr_array(X[train])
    others = sp.csr_array(X[held_out])
    if name not in sets.RAW:
        columns = np.unique(rows.indices)
        rows = sets.unit_rows(rows, columns)
        others = sets.unit_rows(others, columns)
    return Split(rows, y[train], others, y[held_out])


class Learned(NamedTuple):
    """What was learned: a model, and the class scores that are added to rows before.

    `rows` are the training rows as the model takes them.
    """

    model: HDSL
    scores: ClassScores | None
    rows: Any

    def embed(self, X: Any) -> Any:
        """Return rows whose dot products are the similarity."""
        if self.scores is not None:
            X = self.scores.transform(X)
        return self.model.transform(X)

    def at(self, n_iter: int) -> Learned:
        """Return what was learned after so many iterations."""
        return self._replace(model=self.model.at(n_iter))


def compute(settings: Settings, cell: Cell) -> dict[str, Any]:
    """Return, by iterations, wrong rows, ranks of known items and CPU seconds."""
    name = cell["set"]
    split = _fold(settings, name, cell["fold"])
    if cell["candidate"] == COSINE:
        return {"n": len(split.y_test), "at": {"": _measured(name, split, None)}}
    comparison.compile_all()
    candidate = CANDIDATES[cell["candidate"]]
    times: list[float] = []  # CPU seconds at each iteration

    def note_time(state: Any) -> None:
        times.append(time.process_time())

    start = time.process_time()
    learned = _learn(candidate, split, note_time)
    seconds = time.process_time() - start
    by_length = {}
    if not candidate.iterations:
        by_length[""] = {**_measured(name, split, learned), "seconds": seconds}
    for n_iter in candidate.iterations:
        last = min(n_iter, learned.model.n_iter_)
        measured = _measured(name, split, learned.at(last))
        seconds_after = times[-1] - times[last]
        by_length[str(n_iter)] = {**measured, "seconds": seconds - seconds_after}
    return {
        "n": len(split.y_test),
        "at": by_length,
        "n_iter": int(learned.model.n_iter_),
        "prior": float(learned.model.prior_),
    }


def _learn(candidate: Candidate, split: Split, callback: Any) -> Learned:
    """Return what a candidate learns from the training rows."""
    scores = None
    rows = split.X
    with warnings.catch_warnings():
        # Few rows of a class, runs that end at their limit.
        warnings.simplefilter("ignore")
        if candidate.has_scores:
            scores = ClassScores(random_state=0)
            rows = scores.fit_transform(split.X, split.y)
        model = HDSL(
            **nested_parameters(random_state=0, n_jobs=1, **candidate.parameters)
        )
        return Learned(
            finished(model.fit(rows, split.y, callback=callback)), scores, rows
        )


def _measured(name: str, split: Split, learned: Learned | None) -> dict[str, Any]:
    """Return the rows that 3 neighbours get wrong, and the ranks of known items.

    Without anything learned it is by cosine.
    """
    rows = split.X
    queries = split.X_test
    embed = None
    if learned is not None:
        rows = learned.model.transform(learned.rows)
        queries = sp.csr_array(learned.embed(split.X_test))
        embed = learned.embed
    knn = SimilarityKNeighborsClassifier(3, cosine=True).fit(rows, split.y)
    answer = {"wrong": np.flatnonzero(knn.predict(queries) != split.y_test).tolist()}
    if name not in sets.NOT_TEXTS:
        quality = known_item(embed, split.X_test, n_queries=QUERIES, random_state=0)
        answer["ranks"] = np.asarray(quality.ranks).tolist()
    return answer


# --- results --------------------------------------------------------------------------


class Ratio(NamedTuple):
    """A ratio of two means and the standard error of its logarithm."""

    value: float
    error: float

    def __str__(self) -> str:
        low = self.value * math.exp(-1.96 * self.error)
        high = self.value * math.exp(1.96 * self.error)
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
    """Return the geometric mean of independent ratios, of those that are numbers."""
    known = [ratio for ratio in ratios if not math.isnan(ratio.value)]
    if not known:
        return Ratio(math.nan, math.nan)
    n = len(known)
    value = math.exp(sum(math.log(ratio.value) for ratio in known) / n)
    return Ratio(value, math.sqrt(sum(ratio.error**2 for ratio in known)) / n)


class FoldResult(NamedTuple):
    """What one fold measured: 1 for each wrong row, and reciprocal ranks."""

    wrong: np.ndarray
    reciprocal_ranks: np.ndarray


class Candidates:
    """What was measured of each candidate on one set.

    Candidates are named with their lengths, as `label` says.
    """

    def __init__(self, name: str, lines: list[Line]) -> None:
        self.name = name
        self._seconds: dict[str, float] = {}
        self._priors: dict[str, list[float]] = {}
        self._folds: dict[str, dict[int, FoldResult]] = {}
        for line in lines:
            cell = line["cell"]
            for n_iter, measured in line["at"].items():
                row = label(cell["candidate"], n_iter)
                wrong = np.zeros(line["n"])
                wrong[measured["wrong"]] = 1.0
                result = FoldResult(wrong, 1.0 / np.array(measured.get("ranks", [])))
                self._folds.setdefault(row, {})[cell["fold"]] = result
                seconds = measured.get("seconds", 0.0)
                self._seconds[row] = self._seconds.get(row, 0.0) + seconds
                prior = line.get("prior", math.inf)
                self._priors.setdefault(row, []).append(prior)

    @property
    def labels(self) -> list[str]:
        """Candidates with their lengths."""
        return list(self._folds)

    @property
    def folds(self) -> list[int]:
        """The folds that were measured."""
        return sorted({fold for folds in self._folds.values() for fold in folds})

    def wrong(self, row: str) -> np.ndarray:
        """Return 1 for each wrong row, over all folds."""
        return np.concatenate([fold.wrong for fold in self._folds[row].values()])

    def reciprocal_ranks(self, row: str) -> np.ndarray:
        """Return the reciprocal ranks of known items, over all folds; none if no text."""
        folds = self._folds[row].values()
        return np.concatenate([fold.reciprocal_ranks for fold in folds])

    def priors(self, row: str) -> list[float]:
        """Return the priors that the folds used."""
        return self._priors[row]

    def error_to_cosine(self, row: str) -> Ratio:
        """Return the error in relation to the cosine's; NaN where not measured."""
        if row not in self._folds:
            return Ratio(math.nan, math.nan)
        return ratio_of_means(self.wrong(row), self.wrong(COSINE))

    def known_item_to_cosine(self, row: str) -> Ratio:
        """Return the mean reciprocal rank in relation to the cosine's, or NaN."""
        if row not in self._folds or not len(self.reciprocal_ranks(row)):
            return Ratio(math.nan, math.nan)
        return ratio_of_means(self.reciprocal_ranks(row), self.reciprocal_ranks(COSINE))

    def best_prior(self, rows: list[str], folds: list[int]) -> str:
        """Return the fixed prior of fewest errors on some folds.

        It is one of those that keep the search, the last one where none does.
        """

        def mean_error(row: str) -> float:
            errors = [self._folds[row][fold].wrong for fold in folds]
            return float(np.concatenate(errors).mean())

        def mean_rank(row: str) -> float:
            ranks = [self._folds[row][fold].reciprocal_ranks for fold in folds]
            return float(np.concatenate(ranks).mean())

        if len(self.reciprocal_ranks(COSINE)):
            least = LEAST_MRR * mean_rank(COSINE)
            rows = [row for row in rows if mean_rank(row) >= least] or rows[-1:]
        return min(rows, key=mean_error)

    def by_other_folds(self, rows: list[str]) -> np.ndarray:
        """Return the rows that are wrong by the prior that is best on the other folds."""
        wrong = []
        for fold in self.folds:
            others = [other for other in self.folds if other != fold]
            best = self.best_prior(rows, others)
            wrong.append(self._folds[best][fold].wrong)
        return np.concatenate(wrong)

    def seconds_to_away(self, row: str) -> float:
        """Return the CPU seconds in relation to 300 away steps."""
        return self._seconds[row] / self._seconds[label(AWAY, "300")]


def label(candidate: str, n_iter: str) -> str:
    """Return how tables name a candidate of some length."""
    if not n_iter:
        return candidate
    return f"{candidate}, {n_iter} iterations"


def publish(settings: Settings, lines: list[Line]) -> Results:
    """Return ratios to the cosine, in the mean and per set, and the choice per set."""
    by_set = [
        Candidates(name, [line for line in lines if line["cell"]["set"] == name])
        for name in set_names(lines)
    ]
    labels = dict.fromkeys(row for measured in by_set for row in measured.labels)
    rows = [row for row in labels if row != COSINE]
    return Results(
        [
            _choice_table(by_set),
            _means_table(by_set, rows),
            _error_table(by_set, rows),
            _known_item_table(by_set, rows),
        ]
    )


def _choice_table(by_set: list[Candidates]) -> Table:
    """Return the prior that HDSL() chooses beside the best fixed one, per set."""
    head = [
        "set",
        "prior chosen",
        "error",
        "best fixed",
        "error",
        "difference",
        "within one standard error",
        "seconds",
        "by the other folds",
    ]
    note = (
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
    )
    return Table("choice", head, [_choice_row(measured) for measured in by_set], [note])


def _choice_row(measured: Candidates) -> list[str]:
    """Return the chosen prior of a set beside the best fixed one that keeps the search."""
    # The length of HDSL(): others have other lengths, not other priors.
    length = str(Solver().max_iter)
    fixed = [label(f"prior {prior:g}", length) for prior in PRIORS]
    fixed = [row for row in fixed if row in measured.labels]
    best = measured.best_prior(fixed, measured.folds)
    ours = measured.wrong(CHOSEN)
    theirs = measured.wrong(best)
    difference = Difference.between(ours, theirs)
    by_other_folds = "–"
    if len(measured.folds) > 1:
        other = Difference.between(measured.by_other_folds(fixed), theirs)
        by_other_folds = str(other)
        if not other.is_within_error:
            by_other_folds += ", no"
    return [
        measured.name,
        ", ".join(f"{prior:g}" for prior in measured.priors(CHOSEN)),
        f"{100 * ours.mean():.1f}",
        best,
        f"{100 * theirs.mean():.1f}",
        str(difference),
        "yes" if difference.is_within_error else "no",
        f"{measured.seconds_to_away(CHOSEN):.2f}",
        by_other_folds,
    ]


class Difference(NamedTuple):
    """The mean difference of two shares of the same rows, and its standard error."""

    mean: float
    error: float

    @classmethod
    def between(cls, values: np.ndarray, others: np.ndarray) -> Difference:
        """Return the difference of two paired samples."""
        differences = values - others
        error = float(differences.std() / math.sqrt(len(differences)))
        return cls(float(differences.mean()), error)

    @property
    def is_within_error(self) -> bool:
        """Whether it is at most one standard error."""
        return self.mean <= self.error

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} ± {100 * self.error:.1f}"


def _means_table(by_set: list[Candidates], rows: list[str]) -> Table:
    """Return each candidate in the mean over the sets."""
    note = (
        "Geometric means over the sets with 95 % intervals: the error of "
        "3 nearest neighbours and the mean reciprocal rank of a held-out "
        "row searched by half of its features, both divided by the "
        "cosine's; the lowest of the second over the sets; CPU seconds "
        "divided by those of 300 away steps."
    )
    head = ["candidate", "error", "known item", "lowest", "seconds"]
    return Table("means", head, [_means_row(by_set, row) for row in rows], [note])


def _means_row(by_set: list[Candidates], row: str) -> list[str]:
    """Return a candidate in the mean over the sets."""
    errors = [measured.error_to_cosine(row) for measured in by_set]
    known_item = [measured.known_item_to_cosine(row) for measured in by_set]
    values = [ratio.value for ratio in known_item if not math.isnan(ratio.value)]
    seconds = [measured.seconds_to_away(row) for measured in by_set]
    return [
        row,
        str(geometric_mean(errors)),
        str(geometric_mean(known_item)),
        f"{min(values, default=math.nan):.3f}",
        f"{math.exp(float(np.mean(np.log(seconds)))):.2f}",
    ]


def _error_table(by_set: list[Candidates], rows: list[str]) -> Table:
    """Return the error of each candidate on each set, in relation to the cosine's."""
    texts = [
        [row, *(str(measured.error_to_cosine(row)) for measured in by_set)]
        for row in rows
    ]
    note = "Error of 3 nearest neighbours divided by the cosine's."
    head = ["candidate", *(measured.name for measured in by_set)]
    return Table("error", head, texts, [note])


def _known_item_table(by_set: list[Candidates], rows: list[str]) -> Table:
    """Return the search of each candidate on each set of texts, to the cosine's."""
    texts = [measured for measured in by_set if measured.name not in sets.NOT_TEXTS]
    cells = [
        [row, *(f"{text.known_item_to_cosine(row).value:.3f}" for text in texts)]
        for row in rows
    ]
    note = "Mean reciprocal rank divided by the cosine's."
    head = ["candidate", *(text.name for text in texts)]
    return Table("known-item", head, cells, [note])
