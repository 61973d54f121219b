"""What is left open is chosen on held-out data, by the measure that the user is shown.

Candidates come from the simplest to the most complex: nothing learned, then smaller and
smaller priors, each from the model of the one before. All are judged by one measure, that
of the goal, on the same held-out units. What is known of the differences to the start is
joined along the path (`expected_gains`), and the candidate of the largest expected gain is
taken: with few units the expectation stays near that of the simpler neighbour, and with
none it is 0. The interval of the gain is made of units that had no say (`honest_gain`).

A further setting is a field of `Candidate` whose default is "not there", a walk that varies
it (a list of candidates, simplest first, from the best so far), and whatever makes the model
of a candidate from the one before (`PartFitter.solve`). Rule, measures, table and intervals
do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ..input.errors import warn
from ..rows import Rows
from ..similarity.cosine import COSINE, PRODUCT, RANKINGS
from ..similarity.similarity import unlearned
from ..solver.atoms import NOTHING, are_directions
from ..supervision.compared_rows import ComparedRows, Supervision
from .gains import (
    QUANTILE,
    Gains,
    Interval,
    best_of,
    best_of_walks,
    honest_gain,
    inflation_of_turns,
    interval_of,
)
from .measures import COMPARISONS, NEIGHBORS, SEARCH
from .parts import Part, goal_of, make_parts

if TYPE_CHECKING:
    from ..fit.layouts import PartFitter
    from ..progress import Progress
    from ..solver.loop import Result, State

#: Candidates for the prior, over the mean ‖x‖² of the anchors, from the simplest: a larger
#: one is the start up to rounding, and a smaller one was never the best.
PRIORS = (64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0)

#: The prior where too little can be held out to choose one: with 15 to 45 rows a
#: smaller one is worse than the cosine on most sets.
FIXED_PRIOR = 64.0

#: Candidates for the weight of an embedding, from the features alone to the embedding
#: alone but for ties, and the weight where too little can be held out.
WEIGHTS = (0.0, 0.25, 1.0, 4.0, 16.0, 64.0)

FIXED_WEIGHT = 1.0

#: Candidates for the bound of what is learned inside an embedding, in relation to the
#: weight of the frozen embedding, from the smallest, and the prior they are tried with:
#: from 8 to 128 an error hardly depends on the prior. The smallest is next to the frozen
#: embedding, so that the walk to the others has no large first step.
INSIDE = (2.0, 8.0, 32.0, 128.0)

PRIOR_INSIDE = 4.0

#: Iterations for each candidate that starts from the model of the one before. With fewer a
#: small prior still loses what it finds at the end of a run.
NEXT_STEPS = 3

#: Candidates for the number of iterations, and their number where nothing is chosen.
STEPS = (5, 10, 15, 20, 30)

FIXED_STEPS = 15

#: The number of iterations of a candidate that starts from the model of another.
FROM_ANOTHER = 0


@dataclass(frozen=True)
class Candidate:
    """The settings of a model that is tried.

    Parameters
    ----------
    prior : float
        Over the mean ‖x‖² of the anchors; inf: nothing is learned.
    embedding_weight : float or None
        None without an embedding.
    n_iter : int
        `FROM_ANOTHER` where it starts from the model of the candidate before.
    embedding_scale : float
        The bound of what is learned inside an embedding, over prior·w; 0 learns nothing
        there.
    """

    prior: float = np.inf
    embedding_weight: float | None = None
    n_iter: int = FROM_ANOTHER
    embedding_scale: float = 0.0


@dataclass(frozen=True)
class Choice:
    """What was tried and what was chosen.

    Parameters
    ----------
    prior : float
        Over the mean ‖x‖² of the anchors.
    n_iter : int
    reason : str
        Why, in one or two sentences.
    table : dict of str to ndarray or None
        One line per candidate (`choice_table`); None where nothing was tried.
    ranking : {"cosine", "product"}
        How rows are ranked best.
    embedding_scale : float
        As in `Candidate`.
    """

    prior: float
    n_iter: int
    reason: str
    table: dict[str, np.ndarray] | None = None
    ranking: str = COSINE
    embedding_scale: float = 0.0


# --- scores ---------------------------------------------------------------------------


#: What tells candidates apart.
Name = TypeVar("Name", bound=Hashable)


@dataclass
class PartModels(Generic[Name]):
    """A part of the data, and the models of candidates on it."""

    part: Part
    models: dict[Name, Any]


@dataclass
class Scores(Generic[Name]):
    """Scores of candidates by unit, summed over the parts.

    Parameters
    ----------
    n_units : int
    inflation : float
        As in `Gains`.
    """

    n_units: int
    inflation: float = 1.0
    sums: dict[tuple[Name, str], np.ndarray] = field(default_factory=dict)
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, runs: Sequence[PartModels[Name]]) -> Scores[Name]:
        """Return scores for the units of some parts."""
        numbers = [run.part.measure.units.numbers for run in runs]
        inflation = inflation_of_turns(len(runs), runs[0].part.share)
        n_units = 1 + max(int(of_part.max(initial=0)) for of_part in numbers)
        return cls(n_units, inflation)

    def add(
        self,
        candidate: Name,
        runs: Sequence[PartModels[Name]],
        rankings: Sequence[str],
    ) -> None:
        """Measure the models of a candidate on all parts."""
        totals = {ranking: np.zeros(self.n_units) for ranking in rankings}
        weights = np.zeros(self.n_units)
        for run in runs:
            measure = run.part.measure
            values = measure.scores(run.models[candidate], rankings)
            numbers = measure.units.numbers
            weights += np.bincount(numbers, measure.units.weights, self.n_units)
            for ranking in rankings:
                weighted = measure.units.weights * values[ranking]
                totals[ranking] += np.bincount(numbers, weighted, self.n_units)
        self.weights = weights
        self.sums |= {(candidate, ranking): totals[ranking] for ranking in rankings}

    def mean(self, candidate: Name, ranking: str) -> float:
        """Return the mean score."""
        return float(self.sums[candidate, ranking].sum() / self.weights.sum())

    def error(self, candidate: Name, ranking: str) -> float:
        """Return the standard error of the mean score."""
        is_measured = self.weights > 0
        sums = self.sums[candidate, ranking][is_measured, None]
        return float(Gains(sums, self.weights[is_measured]).errors[0])

    def gains(self, keys: Sequence[tuple[Name, str]], start: tuple[Name, str]) -> Gains:
        """Return what candidates gain over another one, unit by unit."""
        is_measured = self.weights > 0
        columns = [self.sums[key] - self.sums[start] for key in keys]
        return Gains(
            np.column_stack(columns)[is_measured],
            self.weights[is_measured],
            self.inflation,
        )


# --- runs -----------------------------------------------------------------------------


class PartRun(PartModels[Candidate]):
    """The models of all candidates on one part, each learned from the one before."""

    def __init__(self, part: Part, fits: PartFitter, unit: float) -> None:
        super().__init__(part, {})
        self._fits = fits
        self._unit = unit
        self._last: Result | None = None
        self._last_candidate: Candidate | None = None

    @property
    def learns(self) -> bool:
        """Whether a prior learns anything."""
        return self._fits.learns

    @property
    def can_learn_inside(self) -> bool:
        """Whether there is an embedding whose bound is open."""
        return self._fits.can_learn_inside

    def start(self, candidate: Candidate) -> None:
        """Add the model that has learned nothing."""
        self.models[candidate] = self._fits.similarity(*NOTHING, 1.0)

    def next(self, candidate: Candidate) -> None:
        """Learn a candidate from the model of the one before."""
        n_iter = FIXED_STEPS  # as the model that is learned in the end
        if self._last is not None:
            n_iter = self._last.n_iter + NEXT_STEPS
        prior = candidate.prior / self._unit
        inside = candidate.embedding_scale
        earlier = self._last
        if earlier is not None and self._last_candidate is not None and inside:
            earlier = with_directions_times(
                earlier, self._last_candidate.embedding_scale / inside
            )
        result = self._fits.solve(prior, n_iter, earlier, None, inside)
        self._last = result
        self._last_candidate = candidate
        self.models[candidate] = self._fits.similarity(
            result.atoms, result.weights, prior, result.directions, inside
        )

    def begin_anew(self) -> None:
        """Learn the next candidate from nothing."""
        self._last = None

    def path(self, candidates: Sequence[Candidate]) -> None:
        """Learn candidates that differ in the number of iterations, as one path."""
        prior = candidates[0].prior / self._unit
        inside = candidates[0].embedding_scale
        by_steps = {candidate.n_iter: candidate for candidate in candidates}

        def keep(state: State) -> None:
            candidate = by_steps.get(state.n_iter)
            if candidate is not None:
                self.models[candidate] = self._fits.similarity(
                    state.atoms, state.weights, prior, state.directions, inside
                )

        n_most = max(by_steps)
        last = self._fits.solve(prior, n_most, None, keep, inside)
        model = self._fits.similarity(
            last.atoms, last.weights, prior, last.directions, inside
        )
        for candidate in candidates:  # the path may have ended before
            self.models.setdefault(candidate, model)


def with_directions_times(earlier: Result, factor: float) -> Result:
    """Return a result whose directions have weights times a factor, for another bound."""
    is_direction = are_directions(earlier.atoms)
    weights = np.where(is_direction, factor * earlier.weights, earlier.weights)
    return replace(earlier, weights=weights)


# --- the choice -----------------------------------------------------------------------


def choose(
    model: Any,
    data: Supervision,
    validation: Supervision | None,
    rng: np.random.Generator,
    start: Callable[[ComparedRows], PartFitter],
    progress: Progress,
) -> Choice:
    """Return the prior and the number of iterations that held-out data speak for.

    `start` returns the fits to a part of the data; others are as in ``fit.road.Fit``.
    """
    progress.stage("choosing the prior: mining")
    parts = make_parts(model, data, validation, rng)
    if not parts:
        return _without_data(model, data)
    is_free = model.prior == "auto"
    runs = []
    for part in parts:
        fits = start(part.train)
        runs.append(PartRun(part, fits, fits.unit if is_free else 1.0))
    scores = Scores.of(runs)
    walker = _Walker(runs, scores, progress)
    walker.try_all(None if is_free else float(model.prior))
    paths = walker.paths
    if not paths:
        return _without_data(model, data)
    walks = [walker.gains(path, ranking) for path, ranking in paths]
    walk, best = _best(walks, runs[0], is_free)
    path, ranking = paths[walk]
    chosen = walker.tried[0] if best < 0 else path[best]
    n_iter = FIXED_STEPS if model.max_iter == "auto" else int(model.max_iter)
    if best < 0:
        n_iter = 0
    elif model.max_iter == "auto":
        chosen = walker.try_steps(chosen, ranking)
        n_iter = chosen.n_iter
    gain = Interval(0.0, 0.0, 0.0)
    if best >= 0 and (is_free or chosen.embedding_scale):
        gain = honest_gain(walks)
    effects = _side_effects(runs, walker.tried[0], chosen, ranking)
    table = walker.table(chosen, ranking, gain, effects)
    reason = walker.reason(chosen, n_iter, gain, effects)
    if best < 0:
        return _nothing_learned(model, data, reason, table)
    return Choice(chosen.prior, n_iter, reason, table, ranking, chosen.embedding_scale)


def _best(walks: Sequence[Gains], run: PartRun, is_free: bool) -> tuple[int, int]:
    """Return the best walk and its best candidate; a given prior is the least that is taken."""
    if not is_free and not run.can_learn_inside:
        return 0, 0
    walk, best = best_of_walks(walks)
    if best < 0 and not is_free and run.learns:
        return 0, 0
    return walk, best


def _nothing_learned(
    model: Any, data: Supervision, reason: str, table: dict[str, np.ndarray]
) -> Choice:
    """Return the choice of the start; a warning says so where comparisons were given."""
    reason = f"nothing is learned: {reason}"
    if goal_of(model.goal, data) != NEIGHBORS:
        warn(f"{reason[0].upper()}{reason[1:]}.")
    prior = FIXED_PRIOR if model.prior == "auto" else float(model.prior)
    return Choice(prior, 0, reason, table)


def _without_data(model: Any, data: Supervision) -> Choice:
    """Return the choice where too little can be held out: that which learns least."""
    prior = FIXED_PRIOR if model.prior == "auto" else float(model.prior)
    n_iter = FIXED_STEPS if model.max_iter == "auto" else model.max_iter
    reason = (
        "too few rows or comparisons to choose by: "
        f"prior {prior:g} and {n_iter} iterations are taken"
    )
    inside = 0.0
    if isinstance(data.X, Rows) and model.embedding_scale == "auto":
        inside = INSIDE[0]
        reason += f", inside the embedding up to {inside:g} times its weight"
    return Choice(prior, n_iter, reason, embedding_scale=inside)


class _Walker:
    """Goes from the simplest candidate to more complex ones on all parts."""

    def __init__(
        self, runs: Sequence[PartRun], scores: Scores[Candidate], progress: Progress
    ) -> None:
        self.runs = runs
        self.scores = scores
        self.progress = progress
        self.tried = [Candidate()]
        for run in runs:
            run.start(self.tried[0])
        scores.add(self.tried[0], runs, (COSINE,))
        scores.sums[self.tried[0], PRODUCT] = scores.sums[self.tried[0], COSINE]
        self.priors: list[Candidate] = []
        self.inside: list[Candidate] = []

    @property
    def start(self) -> tuple[Candidate, str]:
        """What is there before anything is learned."""
        return self.tried[0], COSINE

    def try_all(self, prior: float | None) -> None:
        """Try what can be learned, with a given prior or with several."""
        first = self.runs[0]
        if first.learns:
            priors = PRIORS if prior is None else (prior,)
            self.try_priors([Candidate(prior) for prior in priors])
        if first.can_learn_inside:
            inside = PRIOR_INSIDE if prior is None else prior
            self.try_inside(
                [Candidate(inside, embedding_scale=size) for size in INSIDE]
            )

    def try_priors(self, candidates: Sequence[Candidate]) -> None:
        """Try ever smaller priors, until they have become worse."""
        self.progress.stage("choosing the prior", len(candidates) * len(self.runs))
        for candidate in candidates:
            for run in self.progress.each(self.runs):
                run.next(candidate)
            self.scores.add(candidate, self.runs, RANKINGS)
            self.tried.append(candidate)
            self.priors.append(candidate)
            if all(self._is_past(ranking) for ranking in RANKINGS):
                break

    def try_inside(self, candidates: Sequence[Candidate]) -> None:
        """Try to learn inside the embedding too, from a small bound to larger ones."""
        n_fits = len(candidates) * len(self.runs)
        self.progress.stage("choosing what is learned inside the embedding", n_fits)
        for run in self.runs:
            run.begin_anew()
        for candidate in candidates:
            for run in self.progress.each(self.runs):
                run.next(candidate)
            self.scores.add(candidate, self.runs, RANKINGS)
            self.tried.append(candidate)
            self.inside.append(candidate)

    @property
    def paths(self) -> list[tuple[list[Candidate], str]]:
        """The candidates of each walk from the start, and how rows are ranked by them."""
        return [
            (path, ranking)
            for path in (self.priors, self.inside)
            for ranking in RANKINGS
            if path
        ]

    def _is_past(self, ranking: str) -> bool:
        """Return whether the last two candidates are below one before, the last for certain."""
        means = self.gains(self.priors, ranking).means
        best = int(np.argmax(means))
        if best >= len(means) - 2:
            return False
        keys = [(candidate, ranking) for candidate in self.priors]
        lost = self.scores.gains([keys[-1]], keys[best])
        return bool(lost.means[0] < -QUANTILE * lost.errors[0])

    def try_steps(self, best: Candidate, ranking: str) -> Candidate:
        """Try numbers of iterations for a candidate; return the best."""
        self.progress.stage("choosing the number of iterations", len(self.runs))
        candidates = [replace(best, n_iter=n_iter) for n_iter in STEPS]
        for run in self.progress.each(self.runs):
            run.path(candidates)
        for candidate in candidates:
            self.scores.add(candidate, self.runs, (ranking,))
        self.tried += candidates
        return candidates[max(0, best_of(self.gains(candidates, ranking)))]

    def gains(self, path: Sequence[Candidate], ranking: str) -> Gains:
        """Return what the candidates of a walk gain over the start, ranked in one way."""
        keys = [(candidate, ranking) for candidate in path]
        return self.scores.gains(keys, self.start)

    # --- what is told -----------------------------------------------------------------

    def table(
        self, chosen: Candidate, ranking: str, gain: Interval, effects: SideEffects
    ) -> dict[str, np.ndarray]:
        """Return the columns of ``choice_``, one line per candidate.

        prior (as used; inf is the start), n_iter, score with its standard error, the gain
        over the start with its interval (of what is chosen that on units that had no say),
        and for the start and the chosen one each side effect, with the interval of its
        gain.
        """
        lines = []
        for candidate in self.tried:
            best = ranking
            if (candidate, best) not in self.scores.sums:
                best = COSINE
            lines.append(self._line(candidate, best))
            if candidate == chosen and np.isfinite(chosen.prior) and gain.high:
                lines[-1] |= {
                    "gain": gain.mean,
                    "gain_low": gain.low,
                    "gain_high": gain.high,
                }
            lines[-1]["chosen"] = candidate == chosen
        columns = {name: np.array([line[name] for line in lines]) for name in lines[0]}
        if not self.inside:
            columns.pop("embedding_scale")
        for name, values in effects.items():
            columns[name] = np.full(len(lines), np.nan)
            columns[f"{name}_low"] = np.full(len(lines), np.nan)
            columns[f"{name}_high"] = np.full(len(lines), np.nan)
            before, effect = values
            columns[name][0] = before
            is_chosen = columns["chosen"]
            columns[name][is_chosen] = before + effect.mean
            columns[f"{name}_low"][is_chosen] = effect.low
            columns[f"{name}_high"][is_chosen] = effect.high
        return columns | {"chosen": columns.pop("chosen")}

    def _line(self, candidate: Candidate, ranking: str) -> dict[str, Any]:
        """Return the line of a candidate."""
        effect = Interval(0.0, 0.0, 0.0)
        if candidate != self.tried[0]:
            gains = self.scores.gains([(candidate, ranking)], self.start)
            effect = interval_of(gains)
        return {
            "prior": candidate.prior,
            "embedding_scale": candidate.embedding_scale,
            "n_iter": candidate.n_iter,
            "score": self.scores.mean(candidate, ranking),
            "error": self.scores.error(candidate, ranking),
            "gain": effect.mean,
            "gain_low": effect.low,
            "gain_high": effect.high,
            "n_units": int((self.scores.weights > 0).sum()),
        }

    def reason(
        self, chosen: Candidate, n_iter: int, gain: Interval, effects: SideEffects
    ) -> str:
        """Return what was chosen and why, and what is lost for certain."""
        title = self.runs[0].part.measure.title
        before = self.scores.mean(*self.start)
        if not np.isfinite(chosen.prior):
            return (
                f"of {len(self.tried) - 1} settings none is expected to gain; {title}: "
                f"{before:.3f} before learning"
            )
        setting = f"prior {chosen.prior:g}, {n_iter} iterations"
        if chosen.embedding_scale:
            setting += f", inside the embedding up to {chosen.embedding_scale:g} times"
            setting += " its weight"
        sentences = [f"{setting}; {title}: {before:.3f} before learning"]
        if gain.high:
            sentences[0] += (
                f", {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}) learned"
            )
        if gain.mean < 0.0 <= gain.high:
            sentences.append(WITHIN_CHANCE)
        return ". ".join(sentences + losses(effects))


#: Why a candidate is taken although its gain is printed as a loss.
WITHIN_CHANCE = "the loss is within chance, and learning usually gains"


#: What learning does to the other measures: each before learning, and the gain.
SideEffects = dict[str, tuple[float, Interval]]

#: Side effects in words, and the option that avoids their loss.
EFFECTS = {
    NEIGHBORS: ("neighbours of one label", None),
    COMPARISONS: ("comparisons that hold", "comparisons"),
    SEARCH: ("a search for judged rows", "search"),
    "known_rows": ("a search for known rows", "search"),
}


def losses(effects: SideEffects) -> list[str]:
    """Return a sentence for each side effect that is a loss for certain.

    Examples
    --------
    >>> losses({"known_rows": (0.63, Interval(-0.12, -0.14, -0.10))})
    ['a search for known rows falls from 0.630 to 0.510: goal="search" keeps it']
    """
    sentences = []
    for name, (before, effect) in effects.items():
        if effect.high < 0.0:
            words, goal = EFFECTS[name]
            sentence = f"{words} falls from {before:.3f} to {before + effect.mean:.3f}"
            if goal is not None:
                sentence += f': goal="{goal}" keeps it'
            sentences.append(sentence)
    return sentences


def effects_in(table: dict[str, np.ndarray], start: int, chosen: int) -> SideEffects:
    """Return the side effects that a table has: before learning, and the gain."""
    effects = {}
    for name in EFFECTS:
        if f"{name}_low" in table:
            before = float(table[name][start])
            mean = float(table[name][chosen]) - before
            low = float(table[f"{name}_low"][chosen])
            effects[name] = (
                before,
                Interval(mean, low, float(table[f"{name}_high"][chosen])),
            )
    return effects


def _side_effects(
    runs: Sequence[PartRun], start: Candidate, chosen: Candidate, ranking: str
) -> SideEffects:
    """Return the other measures before learning, and what the chosen model gains by them.

    They are looked at on the first part, and decide nothing.
    """
    effects: SideEffects = {}
    run = runs[0]
    for make in run.part.others:
        measure = make()
        if measure is None or not len(measure.units.weights):
            continue
        before = measure.scores(run.models[start], (COSINE,))[COSINE]
        after = measure.scores(run.models[chosen], (ranking,))[ranking]
        weights = measure.units.weights
        if not weights.any():
            continue
        _, number = np.unique(measure.units.numbers, return_inverse=True)
        gains = Gains(
            np.bincount(number, weights * (after - before))[:, None],
            np.bincount(number, weights),
        )
        mean = float(np.average(before, weights=weights))
        effects[measure.name] = (mean, interval_of(gains))
    return effects


# --- the weight of an embedding -------------------------------------------------------


@dataclass(frozen=True)
class EmbeddingChoice:
    """The weight of an embedding, and what was tried.

    Parameters
    ----------
    weight : float
    reason : str
        Why, in one sentence.
    table : dict of str to ndarray or None
        One line per weight: the models have no pairs. None where nothing was tried.
    """

    weight: float
    reason: str
    table: dict[str, np.ndarray] | None = None


def choose_embedding_weight(
    model: Any,
    data: Supervision,
    validation: Supervision | None,
    rng: np.random.Generator,
    progress: Progress,
) -> EmbeddingChoice:
    """Return the weight whose unlearned similarity is the best on held-out data.

    Rows are mixed, both blocks at unit length. It is the first walk: weights before
    priors.
    """
    parts = make_parts(model, data, validation, rng)
    if not parts:
        reason = (
            "too few rows or comparisons to choose by: the embedding has the "
            f"weight {FIXED_WEIGHT:g}"
        )
        return EmbeddingChoice(FIXED_WEIGHT, reason)
    progress.stage("choosing the weight of the embedding", len(WEIGHTS))
    runs: list[PartModels[Candidate]] = [PartModels(part, {}) for part in parts]
    scores = Scores.of(runs)
    candidates = [Candidate(embedding_weight=weight) for weight in WEIGHTS]
    for candidate, weight in progress.each([*zip(candidates, WEIGHTS, strict=True)]):
        for run in runs:
            run.models[candidate] = unlearned(run.part.train.X, weight)
        scores.add(candidate, runs, (COSINE,))
    keys = [(candidate, COSINE) for candidate in candidates]
    means = [scores.mean(*key) for key in keys]
    best = int(np.argmax(means))
    weight = WEIGHTS[best]
    reason = (
        f"the embedding has the weight {weight:g}: {means[best]:.3f} on held-out data "
        f"before learning, features alone {means[0]:.3f}"
    )
    gains = [scores.gains([key], keys[0]) for key in keys]
    effects = [interval_of(gain) for gain in gains]
    table = {
        "prior": np.full(len(keys), np.inf),
        "n_iter": np.full(len(keys), FROM_ANOTHER),
        "score": np.array(means),
        "error": np.array([scores.error(*key) for key in keys]),
        "gain": np.array([effect.mean for effect in effects]),
        "gain_low": np.array([effect.low for effect in effects]),
        "gain_high": np.array([effect.high for effect in effects]),
        "n_units": np.full(len(keys), len(gains[0].weights)),
        "chosen": np.arange(len(keys)) == best,
        "embedding_weight": np.array(WEIGHTS),
    }
    return EmbeddingChoice(weight, reason, table)


def joined_table(
    embedding: EmbeddingChoice | None, table: dict[str, np.ndarray] | None
) -> dict[str, np.ndarray] | None:
    """Return what was tried for the weight of an embedding, and then for the prior.

    Of the weights the chosen one comes with the priors, which were tried with it.
    """
    if embedding is None:
        return table
    if table is None:
        return embedding.table
    n = len(table["prior"])
    weighed = {**table, "embedding_weight": np.full(n, embedding.weight)}
    weighed["chosen"] = weighed.pop("chosen")
    if embedding.table is None:
        return weighed
    is_other = ~embedding.table["chosen"]
    n_other = int(is_other.sum())
    joined: dict[str, np.ndarray] = {}
    for name, column in weighed.items():
        earlier = np.full(n_other, np.nan)
        if name in embedding.table:
            earlier = embedding.table[name][is_other]
        joined[name] = np.concatenate([earlier, column])
    return joined
