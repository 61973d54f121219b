"""One choice: candidates are run on each part, scored, and the rule takes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..similarity import Similarity
from ..solver.atoms import NOTHING
from ..supervision.supervision import Supervision
from .candidates import (
    FIRST_STEPS,
    FIXED_PRIOR,
    FIXED_STEPS,
    LARGE_PRIORS,
    NEXT_STEPS,
    PRIORS,
    STEPS,
    Choice,
    table,
)
from .judges import Judge, Score
from .rule import is_as_good, is_worse, keeps_known_items, may_improve, simplest
from .splits import MOST_TRAIN, make_parts

if TYPE_CHECKING:
    from ..progress import Progress
    from ..solver.loop import Callback, Result, State


class PartFitter(Protocol):
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


def choose(
    model: Any,
    data: Supervision,
    held: Supervision | None,
    rng: np.random.Generator,
    start: Callable[[Supervision], PartFitter],
    progress: Progress,
) -> Choice:
    """Return the prior and the number of iterations that held-out data speak for.

    `start` returns the fits to a part of the data; others are as in ``fit.road.learn``.
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
        if not may_improve([score for *_, score in tried]):
            break
    is_gain = tried[1][2].units.mean() > cosine.units.mean()
    if is_free and not (is_gain and keeps_known_items(tried[1][2], cosine)):
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


class _Runs:
    """The runs on one part: each starts where the one of the next larger prior ended."""

    def __init__(self, fits: PartFitter, judge: Judge, is_relative: bool) -> None:
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


def _reason(said: str, cosine: Score, best: Score, taken: Score) -> str:
    score = (
        f"{taken.units.mean():.3f} on held-out data, cosine {cosine.units.mean():.3f}"
    )
    if not keeps_known_items(taken, cosine):
        return f"no prior keeps the search for a row: {said} keep most of it ({score})"
    if is_as_good(cosine.units, best.units):
        how = "better" if is_worse(best.units, cosine.units) else "as good"
        return (
            f"nothing to learn here: the cosine is {how}, so {said} are taken ({score})"
        )
    if taken is best:
        return f"{said} are the best ({score})"
    return f"{said} are the simplest within one standard error of the best ({score})"
