"""The prior, and how long to learn, chosen on rows or anchors that are held out.

A candidate is scored by what users want of a model. With labels: whether the nearest
training rows of a held-out row, by learned cosine, have its label; and whether a row is
still found by half of its features. With comparisons: the share of those of a held-out
anchor that hold. Of candidates that one standard error of the paired difference cannot
tell from the best, the simplest is taken: the largest prior, then the fewest
iterations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from . import search, supervision
from .evaluate.rankings import half_rows, middle_ranks
from .input.errors import NoTripletError
from .labels import LabelSets, aligned, overlap
from .similarity import Similarity
from .similarity.cosine import LearnedCosine
from .similarity.judge import comparison_points
from .similarity.products import check_result
from .similarity.rewriter import Rewriter
from .solver.atoms import NOTHING
from .supervision import Mining, Supervision

if TYPE_CHECKING:
    from .progress import Progress
    from .solver.loop import Callback, Result, State

#: Candidates for the prior, over the mean ‖x‖² of the anchors. Where the first is no
#: gain, larger ones are tried, which are nearer the cosine, until one is better than
#: it. Where the candidates learn from a sample, all data may still teach what that does
#: not: the first is enough.
PRIORS = (16.0, 8.0, 4.0, 2.0, 1.0)
LARGE_PRIORS = (32.0, 128.0, 512.0)

#: The prior where too little can be held out to choose one: with 15 to 45 rows a
#: smaller one is worse than the cosine on most sets.
FIXED_PRIOR = 64.0

#: Iterations for the first candidate, and for each that starts from the model of the
#: one before. With fewer a small prior still loses known items that it finds at the end
#: of a run.
FIRST_STEPS = 12
NEXT_STEPS = 3

#: Most neighbours of one kind per row to learn from: they tell priors apart at half the
#: time.
MOST_MINED = 5

#: Candidates for the number of iterations, and their number where nothing is chosen.
STEPS = (5, 10, 15, 20, 30)
FIXED_STEPS = 15

#: Most rows (or anchors) to learn from and to choose by: a part is enough to tell
#: priors apart.
MOST_TRAIN = 3000
MOST_HELD = 1500

#: Comparisons for each of them, in the mean, that are enough.
MOST_EACH = 100

#: A choice by fewer held-out rows, anchors or comparisons is not made.
FEW_ROWS = 50
FEW_ANCHORS = 20
FEW_COMPARISONS = 200

#: Nearest rows whose labels are looked at.
N_NEIGHBORS = 10

#: A candidate must have this share of the cosine's mean reciprocal rank, up to a
#: standard error.
LEAST_MRR = 0.98


class Score(NamedTuple):
    """How good a similarity is on held-out data: larger is better, one number per unit."""

    units: np.ndarray  # rows or anchors, from 0 to 1
    reciprocal_ranks: np.ndarray  # of known items; empty with comparisons

    @classmethod
    def joined(cls, parts: Sequence[Score]) -> Score:
        """Return the scores of several parts of the data as one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


Judge = Callable[[Similarity], Score]

#: From the nearest training rows of each held-out row, shape (n_held, k), to a number
#: from 0 to 1.
Points = Callable[[np.ndarray], np.ndarray]


class Fits(Protocol):
    """Fits to one part of the data, which share a layout.

    Attributes
    ----------
    unit : float
        The mean ‖x‖² of the anchors.
    """

    unit: float

    def solve(
        self,
        prior: float,
        max_iter: int,
        earlier: Result | None,
        callback: Callback | None,
    ) -> Result:
        """Return the path of a prior, perhaps from the model of another one."""

    def similarity(
        self, atoms: np.ndarray, weights: np.ndarray, prior: float
    ) -> Similarity:
        """Return what a run of this prior has learned."""


@dataclass(frozen=True)
class Part:
    """A part of the data to learn from, with comparisons, and what judges what is learned."""

    train: Supervision
    judge: Judge


@dataclass
class Choice:
    """What was tried and what was chosen.

    Parameters
    ----------
    prior : float
        Over the mean ‖x‖² of the anchors.
    n_iter : int
    reason : str
        Why, in one sentence.
    table : dict of str to ndarray or None
        One line per candidate: prior (as used; inf is the plain cosine), n_iter, score
        with its standard error, mrr (NaN with comparisons), chosen. None where nothing
        was tried.
    """

    prior: float
    n_iter: int
    reason: str
    table: dict[str, np.ndarray] | None = None


# --- parts ----------------------------------------------------------------------------


def make_parts(
    model: Any, data: Supervision, held: Supervision | None, rng: np.random.Generator
) -> list[Part]:
    """Return parts to learn from and to choose by; none where the data are too few.

    They are folds where rows are few, else one split. Given validation data replace the
    split.
    """
    if held is not None:
        return [_part(model, data, held, rng)]
    n_folds = max(2, round(1.0 / model.validation_fraction))
    if data.is_judged or callable(model.mining):
        data = supervision.compare(Mining.of(model), data, rng)
        data = _at_most(
            replace(data, y=None, weights=None), MOST_TRAIN + MOST_HELD, rng
        )
        n_units = len(data.anchors)
        if n_units < FEW_ANCHORS or len(data.compared) < FEW_COMPARISONS:
            return []
        splits = supervision.split_anchors(data, n_folds, rng)
    else:
        splits = supervision.split_rows(data, n_folds, rng)
        n_units = supervision.count_splittable(data)
        if n_units < FEW_ROWS:
            return []
    usable = (
        (train, out)
        for train, out in splits
        if train.counts()
        and out.counts()
        and (train.is_judged or train.codes.max() > 0)
    )
    parts = []
    for train, out in islice(usable, 1 if n_units > MOST_HELD else None):
        # What is said of a part is not of all rows. No rows of it may be left to
        # compare.
        with suppress(NoTripletError), warnings.catch_warnings(action="ignore"):
            parts.append(_part(model, train, out, rng))
    return parts


def _at_most(data: Supervision, n: int, rng: np.random.Generator) -> Supervision:
    """Return at most so many rows, of each class its share, or comparisons of so many anchors."""
    if not data.is_judged:
        rows = supervision.sample_rows(Mining(max_anchors=n), data, rng)
        return data if rows is None else data.take(rows)
    anchors = data.anchors
    weights = data.compared_weights
    used = np.arange(len(data.compared)) if weights is None else np.flatnonzero(weights)
    if len(used) > MOST_EACH * n:
        data = data.with_compared(
            np.sort(rng.choice(used, MOST_EACH * n, replace=False))
        )
    if len(anchors) <= n:
        return data
    is_chosen = np.zeros(data.X.shape[0], dtype=bool)
    is_chosen[rng.choice(anchors, n, replace=False)] = True
    data = data.with_compared(is_chosen[data.compared[:, 0]])
    return data.take(np.unique(data.compared))


def _part(
    model: Any, train: Supervision, held: Supervision, rng: np.random.Generator
) -> Part:
    train = _at_most(train, MOST_TRAIN, rng)
    held = _at_most(held, MOST_HELD, rng)
    judge = (
        judge_comparisons(held) if held.is_judged else judge_labels(train, held, rng)
    )
    mining = Mining.of(model)
    few = {
        name: min(getattr(mining, name), MOST_MINED)
        for name in ("n_targets", "n_impostors")
    }
    return Part(supervision.compare(mining._replace(**few), train, rng), judge)


def judge_labels(
    train: Supervision, held: Supervision, rng: np.random.Generator
) -> Judge:
    """Return a judge by the labels of the nearest training rows, and by known items.

    The units are held-out rows: half the share of the 10 nearest rows that have the
    label of the row, half whether most of the 3 nearest have it. Of several labels the
    F1 scores count.
    """
    points = (_set_points if isinstance(train.y, LabelSets) else _points)(
        train.y, held.y
    )
    searched = np.flatnonzero(np.diff(held.X.indptr) >= 2)
    halves = half_rows(held.X[searched], 0.5, rng)
    to_train = cosines_between(held.X, train.X)
    to_held = cosines_between(halves, held.X)

    def judge(similarity: Similarity) -> Score:
        near = nearest(to_train(similarity), N_NEIGHBORS)
        return Score(points(near), 1.0 / middle_ranks(to_held(similarity), searched))

    return judge


def cosines_between(
    X: sp.csr_array, Y: sp.csr_array
) -> Callable[[Rewriter], np.ndarray]:
    """Return a function from a similarity to S(x, y) / sqrt(S(y, y)) of all rows, dense.

    Plain products are computed once for all similarities. The length of x, on which no
    ranking of the rows of Y depends, is left out.
    """
    plain = search.add_products(X, Y, np.zeros((X.shape[0], Y.shape[0])))

    def cosines(similarity: Rewriter) -> np.ndarray:
        if isinstance(similarity, Similarity) and similarity.norm is None:
            prior = similarity.prior
            sides = (similarity.learned(X), similarity.learned(Y))
        else:
            prior = 0.0
            sides = (similarity.rewrite(X), similarity.index_rows(Y))
        scores = search.add_products(*sides, prior * plain)
        scores /= LearnedCosine(similarity).lengths(Y)
        return check_result(scores, "The similarity")

    return cosines


def nearest(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the columns of the k largest scores of each row, the first of equals first.

    Examples
    --------
    >>> nearest(np.array([[1.0, 3.0, 2.0, 3.0]]), 3).tolist()
    [[1, 3, 2]]
    """
    n = scores.shape[1]
    k = min(k, scores.shape[1])
    n_parts = min(n, 8 * k)
    # k parts have a score from this on, and few other scores are above it.
    largest = np.maximum.reduceat(scores, n * np.arange(n_parts) // n_parts, axis=1)
    least = np.partition(largest, n_parts - k, axis=1)[:, [n_parts - k]]
    row, column = np.nonzero(scores >= least)
    order = np.lexsort((-scores[row, column], row))
    row = row[order]
    column = column[order]
    return column[np.searchsorted(row, np.arange(len(scores)))[:, None] + np.arange(k)]


def _points(y: np.ndarray, truth: np.ndarray) -> Points:
    classes, codes = np.unique(y, return_inverse=True)
    wanted = np.searchsorted(classes, truth).clip(max=len(classes) - 1)
    wanted[classes[wanted] != truth] = -1  # no training row has this label

    def points(near: np.ndarray) -> np.ndarray:
        right = codes[near] == wanted[:, None]
        return 0.5 * right.mean(axis=1) + 0.5 * (right[:, :3].mean(axis=1) > 0.5)

    return points


def _set_points(y: LabelSets, truth: LabelSets) -> Points:
    """Return the same for several labels: how much is shared, and how much of it is voted for."""
    y, truth = aligned(y, truth)

    def points(near: np.ndarray) -> np.ndarray:
        share = truth.shared_with(y, near)
        first = near[:, :3]
        voted = y.voted(y.votes(first, np.ones(first.shape)))
        return 0.5 * share.mean(axis=1) + 0.5 * overlap(
            truth.indicator, voted.indicator
        )

    return points


def judge_comparisons(held: Supervision) -> Judge:
    """Return a judge by the share of comparisons that hold by learned cosine, per anchor."""
    points = comparison_points(held.X, held.compared)
    anchors = np.unique(held.compared[:, 0], return_inverse=True)[1]
    weights = held.compared_weights
    weights = np.ones(len(anchors)) if weights is None else weights
    total = np.bincount(anchors, weights)

    def judge(similarity: Similarity) -> Score:
        right = np.bincount(anchors, weights * points(LearnedCosine(similarity)))
        return Score((right / np.where(total > 0, total, 1.0))[total > 0], np.empty(0))

    return judge


# --- the choice -----------------------------------------------------------------------


def choose(
    model: Any,
    data: Supervision,
    held: Supervision | None,
    rng: np.random.Generator,
    start: Callable[[Supervision], Fits],
    progress: Progress,
) -> Choice:
    """Return the prior and the number of iterations that held-out data speak for.

    `start` returns the fits to a part of the data; others are as in ``fitting.learn``.
    """
    progress.stage("choosing the prior: mining")
    parts = make_parts(model, data, held, rng)
    is_free = model.prior == "auto"
    if not parts:
        prior = FIXED_PRIOR if is_free else float(model.prior)
        n_iter = FIXED_STEPS if model.max_iter == "auto" else model.max_iter
        why = "too few rows or comparisons to hold some out"
        return Choice(
            prior, n_iter, f"{why}: prior {prior:g} and {n_iter} iterations are taken"
        )
    runs = [_Runs(start(part.train), part.judge, is_free) for part in parts]
    candidates = PRIORS if is_free else (float(model.prior),)
    cosine = Score.joined([run.score(*NOTHING, 1.0) for run in runs])
    # in the order of their simplicity
    tried = [(np.inf, 0, cosine)]
    steps = []
    progress.stage("choosing the prior", (len(candidates) + is_free) * len(runs))
    for prior in candidates:
        tried.append(
            (prior, 0, Score.joined([run.next(prior) for run in progress.each(runs)]))
        )
        if not _is_promising([score for *_, score in tried]):
            break
    is_gain = tried[1][2].units.mean() > cosine.units.mean()
    if is_free and not (is_gain and _finds(tried[1][2], cosine)):
        n_units = len(data.anchors) if data.is_judged else data.X.shape[0]
        for prior in LARGE_PRIORS[: None if n_units <= MOST_TRAIN else 1]:
            large = Score.joined([run.next(prior) for run in progress.each(runs)])
            tried.insert(1, (prior, 0, large))
            if large.units.mean() > cosine.units.mean():
                break
    best, chosen = simplest([score for *_, score in tried[1:]], cosine)
    (prior, _, taken) = tried[chosen + 1]
    n_iter = model.max_iter
    if n_iter == "auto":
        progress.stage("choosing the number of iterations", len(runs))
        along = zip(*(run.path(prior) for run in progress.each(runs)), strict=True)
        steps = [
            (prior, n, Score.joined(parts))
            for n, parts in zip(STEPS, along, strict=True)
        ]
        n_iter = STEPS[simplest([score for *_, score in steps], cosine)[1]]
    priors, counts, scores = zip(*tried, *steps, strict=True)
    said = f"prior {prior:g} and {n_iter} iterations"
    reason = _reason(said, cosine, tried[best + 1][2], taken)
    names = {"prior": priors, "n_iter": counts}
    return Choice(
        prior, n_iter, reason, table(names, scores, (prior, n_iter if steps else 0))
    )


def _is_promising(scores: Sequence[Score]) -> bool:
    """Whether a smaller prior may be better.

    Not where the last one finds too little, is clearly worse than the best before it,
    or, from the second prior on, is no better.
    """
    *before, last = scores
    best = max((score.units for score in before), key=np.mean)
    is_past = len(before) > 1 and last.units.mean() <= best.mean()
    return _finds(last, before[0]) and not is_worse(last.units, best) and not is_past


class _Runs:
    """The runs on one part: each starts where the one of the next larger prior ended."""

    def __init__(self, fits: Fits, judge: Judge, is_relative: bool) -> None:
        self.fits = fits
        self.judge = judge
        self.last: Result | None = None
        self.unit = fits.unit if is_relative else 1.0

    def score(self, atoms: np.ndarray, weights: np.ndarray, prior: float) -> Score:
        """Score the model of a run."""
        return self.judge(self.fits.similarity(atoms, weights, prior / self.unit))

    def next(self, prior: float) -> Score:
        """Score the model of the next smaller prior."""
        n = FIRST_STEPS if self.last is None else self.last.n_iter + NEXT_STEPS
        self.last = self.fits.solve(prior / self.unit, n, self.last, None)
        return self.score(self.last.atoms, self.last.weights, prior)

    def path(self, prior: float) -> list[Score]:
        """Score the models of one path after each number of `STEPS`."""
        models: dict[int, tuple[np.ndarray, np.ndarray]] = {}

        def remember(state: State) -> None:
            models[state.n_iter] = state.atoms, state.weights

        self.fits.solve(prior / self.unit, STEPS[-1], None, remember)
        ends = [min(n, max(models)) for n in STEPS]  # the path may have ended before
        scores = {n: self.score(*models[n], prior) for n in set(ends)}
        return [scores[n] for n in ends]


def simplest(scores: Sequence[Score], cosine: Score) -> tuple[int, int]:
    """Return the best candidate, and the first that is as good within one standard error.

    Candidates come in the order of their simplicity. One that loses too much of the
    cosine's mean reciprocal rank is out, unless all do: then the one that keeps most of
    it is taken.
    """
    allowed = [k for k, score in enumerate(scores) if _finds(score, cosine)]
    allowed = allowed or [
        int(np.argmax([score.reciprocal_ranks.mean() for score in scores]))
    ]
    best = max(allowed, key=lambda k: (scores[k].units.mean(), -k))
    first = (k for k in allowed if is_as_good(scores[k].units, scores[best].units))
    return best, next(first, best)


def _finds(score: Score, cosine: Score) -> bool:
    ranks = score.reciprocal_ranks
    return not len(ranks) or is_as_good(ranks, LEAST_MRR * cosine.reciprocal_ranks)


def is_as_good(units: np.ndarray, others: np.ndarray) -> bool:
    """Whether the mean is at most one standard error of the paired difference below the other's."""
    lost = others - units
    return bool(lost.mean() <= standard_error(lost))


def is_worse(units: np.ndarray, others: np.ndarray) -> bool:
    """Whether the mean is more than two standard errors of the difference below the other's."""
    lost = others - units
    return bool(lost.mean() > 2.0 * standard_error(lost))


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean of independent values; 0 for fewer than two."""
    n = len(values)
    return float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0


def _reason(said: str, cosine: Score, best: Score, taken: Score) -> str:
    score = (
        f"{taken.units.mean():.3f} on held-out data, cosine {cosine.units.mean():.3f}"
    )
    if not _finds(taken, cosine):
        return f"no prior keeps the search for a row: {said} keep most of it ({score})"
    if is_as_good(cosine.units, best.units):
        how = "better" if is_worse(best.units, cosine.units) else "as good"
        return (
            f"nothing to learn here: the cosine is {how}, so {said} are taken ({score})"
        )
    if taken is best:
        return f"{said} are the best ({score})"
    return f"{said} are the simplest within one standard error of the best ({score})"


def table(
    candidates: Mapping[str, Sequence[Any]],
    scores: Sequence[Score],
    chosen: tuple[Any, ...],
) -> dict[str, np.ndarray]:
    """Return candidates with their scores; `candidates` has a column for each item of `chosen`."""
    mrr = [
        s.reciprocal_ranks.mean() if len(s.reciprocal_ranks) else np.nan for s in scores
    ]
    return {name: np.array(column) for name, column in candidates.items()} | {
        "score": np.array([s.units.mean() for s in scores]),
        "error": np.array([standard_error(s.units) for s in scores]),
        "mrr": np.array(mrr),
        "chosen": np.array(
            [name == chosen for name in zip(*candidates.values(), strict=True)]
        ),
    }
