"""One choice: candidates are run on each part, scored, and the rule takes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..input.errors import warn
from ..similarity import Similarity
from ..similarity.cosine import COSINE
from ..solver.atoms import NOTHING
from ..supervision.compared_rows import ComparedRows
from ..supervision.gains import SearchJudge
from ..supervision.judges import Judge, Score
from ..supervision.supervision import Supervision
from .candidates import (
    FIRST_STEPS,
    FIXED_PRIOR,
    FIXED_STEPS,
    FROM_ANOTHER,
    LARGE_PRIORS,
    NEXT_STEPS,
    PRIORS,
    SAFE_PRIORS,
    STEPS,
    Candidate,
    Choice,
    table,
)
from .guard import SearchGuard
from .parts import MOST_TRAIN, make_parts
from .rule import is_as_good, is_worse, keeps_known_items, may_improve, simplest
from .searched import search_sentence

if TYPE_CHECKING:
    from ..progress import Progress
    from ..solver.loop import Callback, Result, State


#: Comparisons of which the plain cosine has at most this share right are chosen against
#: it, as clicked results with those above them are.
FEW_BY_COSINE = 0.05


class PartFitter(Protocol):
    """Fits to one part of the data, which share a layout.

    Attributes
    ----------
    unit : float
        The mean ‖x‖² of the anchors.
    n_threads : int
        Threads of the machine.
    """

    unit: float
    n_threads: int

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
    validation: Supervision | None,
    rng: np.random.Generator,
    start: Callable[[ComparedRows], PartFitter],
    progress: Progress,
) -> Choice:
    """Return the prior and the number of iterations that held-out data speak for.

    `start` returns the fits to a part of the data; others are as in ``fit.road.learn``.
    """
    progress.stage("choosing the prior: mining")
    parts = make_parts(model, data, validation, rng)
    is_free = model.prior == "auto"
    if not parts:
        return _without_data(model)
    runs = [
        PartRuns(start(part.train), part.judge, part.search, is_free) for part in parts
    ]
    guard = SearchGuard(runs if is_free else ())
    if is_free and guard.is_of_judgements and _are_against_the_cosine(runs):
        progress.say(
            "the plain cosine is wrong in nearly all comparisons, as if they were "
            "chosen against it, and any change seems a gain: only large priors are "
            "tried. Give the comparisons in which it is right, too"
        )
        trial = _try_priors(runs, (FIXED_PRIOR,), guard, progress)
    elif is_free:
        trial = _try_priors(runs, PRIORS, guard, progress)
        trial = _with_large_priors(trial, runs, data.n_units <= MOST_TRAIN, progress)
    else:
        trial = _try_priors(runs, (float(model.prior),), guard, progress)
    trial, kept = _until_search_is_kept(trial, runs, guard, progress)
    if kept is None and guard.is_of_judgements:
        return _nothing_learned(trial, guard)
    cosine = trial[0]
    priors = trial[1:]
    chosen = kept or max(priors, key=lambda candidate: guard.mean(candidate.prior))
    n_iter = model.max_iter
    steps: list[Candidate] = []
    marked = chosen
    if n_iter == "auto":
        steps = _try_steps(runs, chosen.prior, progress)
        _, first_step = simplest([step.score for step in steps], cosine.score)
        marked = steps[first_step]
        n_iter = marked.n_iter
    setting = f"prior {chosen.prior:g} and {n_iter} iterations"
    candidates = [*trial, *steps]
    tried = table(candidates, marked, guard.columns(candidates))
    reason = _reason(setting, trial, chosen)
    line = next(k for k, candidate in enumerate(candidates) if candidate is chosen)
    searched = search_sentence(tried, line)
    if searched:
        reason = f"{reason}. {searched}"
    return Choice(
        prior=chosen.prior,
        n_iter=n_iter,
        reason=reason,
        table=tried,
        ranking=guard.ranking(chosen.prior),
    )


def _nothing_learned(trial: Sequence[Candidate], guard: SearchGuard) -> Choice:
    """Return the choice where every prior harms the search: the plain cosine stays."""
    cosine = trial[0]
    tried = table(trial, cosine, guard.columns(trial))
    reason = (
        "nothing is learned: by every prior that was tried, held-out anchors may find "
        "less among all rows than by the cosine. More judged anchors may change that"
    )
    if tried["by_clicks"].any():
        reason = (
            "nothing is learned: by no prior that was tried do the clicks of held-out "
            "anchors say for certain that more is found. More clicks may change that"
        )
    warn(f"{reason[0].upper()}{reason[1:]}.")
    return Choice(FIXED_PRIOR, 0, reason, tried)


def _without_data(model: Any) -> Choice:
    """Return the choice where too little can be held out."""
    prior = FIXED_PRIOR if model.prior == "auto" else float(model.prior)
    n_iter = FIXED_STEPS if model.max_iter == "auto" else model.max_iter
    reason = (
        "too few rows or comparisons to hold some out: "
        f"prior {prior:g} and {n_iter} iterations are taken"
    )
    return Choice(prior, n_iter, reason)


def _are_against_the_cosine(runs: Sequence[PartRuns]) -> bool:
    """Return whether nearly all comparisons of rows contradict the plain cosine."""
    shares = [run.judge(run.models[np.inf]).units for run in runs]
    return float(np.concatenate(shares).mean()) <= FEW_BY_COSINE


def _try_priors(
    runs: Sequence[PartRuns],
    priors: Sequence[float],
    guard: SearchGuard,
    progress: Progress,
) -> list[Candidate]:
    """Return the cosine and models of ever smaller priors, until these may not improve."""
    nothing_learned = Score.joined([run.score_of(np.inf) for run in runs])
    trial = [Candidate(np.inf, FROM_ANOTHER, nothing_learned)]
    is_free = len(priors) > 1
    progress.stage("choosing the prior", (len(priors) + is_free) * len(runs))
    for prior in priors:
        trial.append(_next_candidate(runs, prior, progress))
        scores = [candidate.score for candidate in trial]
        if not may_improve(scores):
            break
        is_first = prior == priors[0]
        if is_first and guard.sees_harm(trial[-1]):
            break
    return trial


def _with_large_priors(
    trial: list[Candidate],
    runs: Sequence[PartRuns],
    learns_from_all: bool,
    progress: Progress,
) -> list[Candidate]:
    """Return the candidates with larger priors before them, where the first is no gain."""
    cosine, first, *smaller = trial
    if first.mean > cosine.mean and keeps_known_items(first.score, cosine.score):
        return trial
    larger: list[Candidate] = []
    for prior in LARGE_PRIORS if learns_from_all else LARGE_PRIORS[:1]:
        candidate = _next_candidate(runs, prior, progress)
        larger.insert(0, candidate)
        if candidate.mean > cosine.mean:
            break
    return [cosine, *larger, first, *smaller]


def _until_search_is_kept(
    trial: list[Candidate],
    runs: Sequence[PartRuns],
    guard: SearchGuard,
    progress: Progress,
) -> tuple[list[Candidate], Candidate | None]:
    """Return what was tried, and the simplest good candidate that keeps the search.

    Where one loses too much, the larger priors are looked at, and larger ones are tried.
    It is None where all lose too much.
    """
    cosine, *priors = trial
    largest = priors[0].prior
    while priors:
        _, first = simplest([candidate.score for candidate in priors], cosine.score)
        if guard.keeps_search(priors[first]):
            return trial, priors[first]
        priors = priors[:first]
    for run in runs:
        run.start_anew()
    for prior in SAFE_PRIORS:
        if prior <= largest:
            continue
        candidate = _next_candidate(runs, prior, progress)
        trial = [cosine, candidate, *trial[1:]]
        if guard.keeps_search(candidate):
            return trial, candidate
    return trial, None


def _next_candidate(
    runs: Sequence[PartRuns], prior: float, progress: Progress
) -> Candidate:
    """Return the model of a prior that starts from the one before."""
    scores = [run.next(prior) for run in progress.each(runs)]
    return Candidate(prior, FROM_ANOTHER, Score.joined(scores))


def _try_steps(
    runs: Sequence[PartRuns], prior: float, progress: Progress
) -> list[Candidate]:
    """Return the models of one prior after each number of iterations."""
    progress.stage("choosing the number of iterations", len(runs))
    paths = [run.path(prior) for run in progress.each(runs)]
    return [
        Candidate(prior, n_iter, Score.joined(scores))
        for n_iter, scores in zip(STEPS, zip(*paths, strict=True), strict=True)
    ]


class PartRuns:
    """The runs on one part: each starts where the one of the next larger prior ended."""

    def __init__(
        self,
        fits: PartFitter,
        judge: Judge,
        search: SearchJudge | None,
        is_relative: bool,
    ) -> None:
        self.fits = fits
        self.judge = judge
        self.search = search
        self.last: Result | None = None
        self.unit = fits.unit if is_relative else 1.0
        self.models = {np.inf: self.similarity(*NOTHING, 1.0)}
        self.searched: dict[float, dict[str, np.ndarray]] = {}

    def similarity(
        self, atoms: np.ndarray, weights: np.ndarray, prior: float
    ) -> Similarity:
        """Return the model of a run."""
        return self.fits.similarity(atoms, weights, prior / self.unit)

    def score(self, atoms: np.ndarray, weights: np.ndarray, prior: float) -> Score:
        """Score the model of a run."""
        model = self.similarity(atoms, weights, prior)
        if self.search is None or not self.search.decides:
            return self.judge(model)
        gains = self.search.gains(model, (COSINE,), self.fits.n_threads)
        return Score(gains[COSINE], np.empty(0))

    def score_of(self, prior: float) -> Score:
        """Score the model of a prior; inf is what is there before anything is learned."""
        if self.search is None or not self.search.decides:
            return self.judge(self.models[prior])
        return Score(self.gains(prior)[COSINE], np.empty(0))

    def gains(self, prior: float) -> dict[str, np.ndarray]:
        """Return what queries gain by the model of a prior, for each way to rank rows.

        What has learned nothing ranks by cosine. Each model searches once.
        """
        assert self.search is not None
        if prior not in self.searched:
            rankings = self.search.rankings
            if prior == np.inf:
                rankings = (COSINE,)
            self.searched[prior] = self.search.gains(
                self.models[prior], rankings, self.fits.n_threads
            )
        return self.searched[prior]

    def start_anew(self) -> None:
        """Let the next run start from nothing: a model of a small prior has many atoms."""
        self.last = None

    def next(self, prior: float) -> Score:
        """Score the model of the next smaller prior."""
        n_iter = FIRST_STEPS if self.last is None else self.last.n_iter + NEXT_STEPS
        self.last = self.fits.solve(prior / self.unit, n_iter, self.last, None)
        atoms = self.last.atoms
        self.models[prior] = self.similarity(atoms, self.last.weights, prior)
        self.searched.pop(prior, None)
        return self.score_of(prior)

    def path(self, prior: float) -> list[Score]:
        """Score the models of one path after each number of `STEPS`."""
        models: dict[int, tuple[np.ndarray, np.ndarray]] = {}

        def remember(state: State) -> None:
            models[state.n_iter] = state.atoms, state.weights

        self.fits.solve(prior / self.unit, STEPS[-1], None, remember)
        last = max(models)  # the path may have ended before
        reached = [min(n_iter, last) for n_iter in STEPS]
        scores = {n_iter: self.score(*models[n_iter], prior) for n_iter in set(reached)}
        return [scores[n_iter] for n_iter in reached]


def _reason(setting: str, trial: Sequence[Candidate], chosen: Candidate) -> str:
    """Return in one sentence why a candidate was chosen."""
    cosine, *priors = trial
    scores = [candidate.score for candidate in priors]
    best = priors[simplest(scores, cosine.score)[0]]
    score = f"{chosen.mean:.3f} on held-out data, cosine {cosine.mean:.3f}"
    if not keeps_known_items(chosen.score, cosine.score):
        return (
            f"no prior keeps the search for a row: {setting} keep most of it ({score})"
        )
    if is_as_good(cosine.score.units, best.score.units):
        is_better = is_worse(best.score.units, cosine.score.units)
        how = "better" if is_better else "as good"
        return (
            f"nothing to learn here: the cosine is {how}, so {setting} are taken "
            f"({score})"
        )
    if chosen is best:
        return f"{setting} are the best ({score})"
    return f"{setting} are the simplest within one standard error of the best ({score})"
