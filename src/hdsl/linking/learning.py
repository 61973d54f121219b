"""A mixture of all pairs, and classifiers if there are enough known pairs."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, logit

from ..hdsl import HDSL
from ..progress import Progress
from ..settings import Solver
from ..triplets import link_triplets
from .candidates import (
    DEPTH,
    N_CANDIDATES,
    NearestRecords,
    SearchedRecords,
    Standing,
    is_candidate,
    learned_rows,
    unique_pairs,
)
from .classifiers import (
    N_FOLDS,
    CrossFittedWords,
    PairClassifier,
    PairFeatures,
    Targets,
    TrainingRows,
)
from .known import Consequences, KnownPairs
from .probability import (
    Agreement,
    Mixture,
    as_probability,
    doubt_of_tail,
    draw_pairs,
    fit_mixture,
)
from .rows import row_blocks

#: Fewer groups of matches teach classifiers nothing.
MIN_MATCHES = 5

#: Pairs without an answer that classifiers learn from as the mixture thinks of them, and
#: what they weigh together with known pairs that differ: they stand in for these, and
#: weigh nothing where so many are known.
N_UNKNOWN = 2000
WEIGHT_OF_UNKNOWN = 200.0

#: The odds of the mixture are wrong by such a factor, before any pair is known.
USUAL_ODDS = 3.0

#: A candidate that is less probable stands for a pair that differs.
UNLIKELY = 0.1

#: What is learned is not used where it leaves less of the cosine's mean reciprocal
#: rank.
MIN_SHARE_OF_MRR = 0.95

#: Shares of the classifiers, of which one is chosen by held-out pairs: none first.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)

#: Standard errors that the gain of a share must exceed.
MIN_ERRORS = 2.0

#: Log loss of held-out pairs by the mixture below which classifiers have nothing to gain.
NOTHING_TO_GAIN = 0.01

#: Classifiers are no more certain than by these log odds.
MAX_LOG_ODDS = 7.0

#: An audit stretches log odds by no more.
MAX_STRETCH = 100.0

#: Columns that a statement names.
N_NAMED = 3

#: Weight of the cosine under what is learned. Of 2, 4 and 8 it was the best on
#: validation pairs of the benchmarks; a choice in each fit takes a third of the time
#: and had no better links there.
PRIOR = 4.0


class Settings(NamedTuple):
    """Parameters of learning: `similarity` is "learned" or "cosine"."""

    similarity: str
    seed: int
    n_jobs: int | None


class Correction(NamedTuple):
    """Correction of the log odds of pairs by an audit of links.

    If more links are wrong than expected, all pairs become less probable, by `shift`,
    at most 0. If fewer are, log odds beyond `pivot`, where links begin, grow by
    `stretch`, at least 1: an audit of links says nothing about other pairs.
    """

    shift: float = 0.0
    stretch: float = 1.0
    pivot: float = 0.0

    def __call__(self, log_odds: np.ndarray) -> np.ndarray:
        """Return the corrected log odds."""
        shifted = log_odds + self.shift
        beyond = np.maximum(shifted - self.pivot, 0.0)
        return shifted + (self.stretch - 1.0) * beyond


class Learned:
    """The learned model: it gives the probability of pairs.

    Parameters
    ----------
    seed : int
        Of all that is random.
    agreement : Agreement
        How columns are compared.
    mixture : Mixture

    Attributes
    ----------
    model : HDSL or None
        The learned similarity; None if it is the cosine.
    classifier : PairClassifier or None
    share : float
        How much the classifiers count; the mixture has the rest.
    corrections : tuple of Correction
        One by each audit, in their order.
    telling : list of str
        The columns that separate matches from other pairs best.
    held_out : str
        The result on held-out answers, as a sentence; empty without any.
    """

    def __init__(self, seed: int, agreement: Agreement, mixture: Mixture) -> None:
        self.seed = seed
        self.agreement = agreement
        self.mixture = mixture
        self.model: HDSL | None = None
        self.classifier: PairClassifier | None = None
        self.share = 0.0
        self.corrections: tuple[Correction, ...] = ()
        self.telling: list[str] = []
        self.held_out = ""

    @property
    def is_learned(self) -> bool:
        """Whether classifiers that learned from known pairs are used."""
        return self.classifier is not None

    def renumbered(self, numbers: np.ndarray) -> Learned:
        """Return the same after records have got new numbers."""
        learned = copy(self)
        if self.classifier is not None:
            learned.classifier = self.classifier.renumbered(numbers)
        return learned

    def corrected(self, correction: Correction) -> Learned:
        """Return the same with log odds that one more audit has corrected."""
        learned = copy(self)
        learned.corrections = (*self.corrections, correction)
        return learned

    def probability(
        self, searched: SearchedRecords, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the probability of pairs, shape (n_pairs,), as if none was known."""
        return as_probability(self.log_odds(searched, pairs, n_jobs))

    def log_odds(
        self, searched: SearchedRecords, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the log odds of pairs, shape (n_pairs,), as if none was known."""
        log_odds = np.empty(len(pairs))
        for rows in row_blocks(len(pairs)):
            compared = self.agreement.compare(searched, pairs[rows], n_jobs)
            log_odds[rows] = self.mixture.log_odds(compared)
            if self.classifier is not None:
                X = self.rows(searched, pairs[rows], log_odds[rows], n_jobs)
                log_odds[rows] = self.log_odds_of_rows(X)
        return self.correct(log_odds)

    def correct(self, log_odds: np.ndarray) -> np.ndarray:
        """Return log odds as audits correct them."""
        for correction in self.corrections:
            log_odds = correction(log_odds)
        return log_odds

    def rows(
        self,
        searched: SearchedRecords,
        pairs: np.ndarray,
        log_odds: np.ndarray,
        n_jobs: int | None,
    ) -> np.ndarray:
        """Return what classifiers see of pairs: their numbers, then their log odds.

        `log_odds` are those by the mixture.
        """
        assert self.classifier is not None
        words = self.classifier.words
        features = pair_features(
            searched,
            pairs,
            standings=searched.standings(pairs, n_jobs),
            words=words.log_odds(searched.records.first_words, pairs, n_jobs),
            n_jobs=n_jobs,
        )
        return np.column_stack([features.matrix(), log_odds])

    def log_odds_of_rows(self, X: np.ndarray) -> np.ndarray:
        """Return the log odds of pairs by what `rows` returns."""
        assert self.classifier is not None
        of_classifiers = self.classifier.probability(X)
        return pooled_log_odds(of_classifiers, X[:, -1], self.share)


def pooled_log_odds(
    of_classifiers: np.ndarray, of_mixture: np.ndarray, share: float
) -> np.ndarray:
    """Return log odds between those of classifiers and of the mixture.

    Parameters
    ----------
    of_classifiers : ndarray of shape (n_pairs,)
        Probabilities.
    of_mixture : ndarray of shape (n_pairs,)
        Log odds.
    share : float
        Share of the classifiers.
    """
    least = expit(-MAX_LOG_ODDS)
    log_odds = logit(np.clip(of_classifiers, least, 1.0 - least))
    return share * log_odds + (1.0 - share) * of_mixture


def pair_features(
    searched: SearchedRecords,
    pairs: np.ndarray,
    *,
    standings: list[Standing],
    words: np.ndarray,
    n_jobs: int | None,
) -> PairFeatures:
    """Return the numbers of pairs.

    Parameters
    ----------
    searched : SearchedRecords
    pairs : ndarray of shape (n_pairs, 2)
    standings : list of Standing
        Where the pairs stand by spelling, by the cosine and perhaps as learned.
    words : ndarray of shape (n_pairs,)
        Log odds by a model of words.
    n_jobs : int or None
    """
    return PairFeatures(
        learned=standings[-1],
        cosine=standings[1],
        spelling=standings[0],
        overlap=searched.records.overlap(pairs, n_jobs),
        strings=searched.records.strings.compare(pairs, n_jobs),
        words=words,
    )


def learn(
    searched: SearchedRecords,
    known: KnownPairs,
    settings: Settings,
    progress: Progress,
) -> Learned:
    """Return the model learned from all pairs, some of them known.

    Parameters
    ----------
    searched : SearchedRecords
        By cosine, not yet as learned.
    known : KnownPairs
    settings : Settings
    progress : Progress
    """
    progress.stage("comparing columns")
    mixing = _Mixing(searched, known, settings)
    log_odds = mixing.held_out
    if mixing.n_things >= MIN_MATCHES and mixing.loss >= NOTHING_TO_GAIN:
        log_odds = _Classifying(searched, mixing, settings, progress).learn()
    mixing.learned.held_out = held_out_sentence(mixing.labels, log_odds)
    return mixing.learned


class _Mixing:
    """The mixture of all pairs, and its log odds of held-out known pairs."""

    def __init__(
        self, searched: SearchedRecords, known: KnownPairs, settings: Settings
    ) -> None:
        tables = searched.tables
        n_records = tables.n_records
        self._n_records = n_records
        self._known = known
        self.consequences = known.following(n_records)
        self.n_things = len(np.unique(self.consequences.thing[known.matches]))
        self.known_pairs = np.concatenate([known.matches, known.non_matches])
        self.fold = folds(self.known_pairs, self.consequences, settings.seed)
        codes = self.known_pairs @ (n_records, 1)
        candidates = searched.by_cosine.candidates()
        #: Candidates that are not known pairs.
        self.candidates = candidates[~np.isin(candidates @ (n_records, 1), codes)]
        n_right = None if tables.is_single else n_records - tables.n_left
        sample = draw_pairs(self.candidates, tables.n_left, n_right, settings.seed)
        is_new = ~np.isin(sample.pairs @ (n_records, 1), codes)
        ones = np.ones(len(codes))
        self._pairs = np.concatenate([self.known_pairs, sample.pairs[is_new]])
        self._weights = np.concatenate([ones, sample.weights[is_new]])
        width = (n_records, 1)
        #: Pairs that are candidates or known, among all.
        self._is_near = np.isin(
            self._pairs @ width, np.concatenate([self.candidates @ width, codes])
        )
        self._agreement = agreement = Agreement.of_records(searched.records)
        self._compared = agreement.compare(searched, self._pairs, settings.n_jobs)
        mixture = self._fit(self.consequences)
        self.learned = Learned(settings.seed, agreement, mixture)
        self.learned.telling = self._telling(mixture)
        #: The log odds of known pairs, by mixtures that do not know their fold.
        self.held_out = self._held_out()

    @property
    def labels(self) -> np.ndarray:
        """1 for known matches, and 0 for other known pairs."""
        sizes = [len(self._known.matches), len(self._known.non_matches)]
        return np.repeat([1.0, 0.0], sizes)

    @property
    def loss(self) -> float:
        """The mean log loss of known pairs, held out."""
        return float(log_loss(self.labels, self.held_out).mean())

    def _fit(self, consequences: Consequences) -> Mixture:
        answers = consequences.answers(self._pairs)
        mixture = fit_mixture(self._compared, self._weights, answers, self._n_records)
        if not self._agreement.is_wide:
            return mixture
        rows = self._is_near
        log_odds = mixture.log_odds(self._compared.take(rows))
        doubt = doubt_of_tail(log_odds, self._weights[rows], answers[rows])
        return mixture._replace(doubt=doubt)

    def _held_out(self) -> np.ndarray:
        is_match = self.labels == 1.0
        log_odds = np.empty(len(is_match))
        for fold in np.unique(self.fold).tolist():
            is_other = self.fold != fold
            mixture = self._fit(
                Consequences(
                    self.known_pairs[is_other & is_match],
                    self.known_pairs[is_other & ~is_match],
                    self._n_records,
                )
            )
            rows = np.flatnonzero(~is_other)
            log_odds[rows] = mixture.log_odds(self._compared.take(rows))
        return log_odds

    def _telling(self, mixture: Mixture) -> list[str]:
        """Return the columns that add most to the log odds of matches."""
        weights = self._weights * mixture.probability(self._compared)
        added = weights @ mixture.evidence(self._compared)
        names = self.learned.agreement.names
        best = np.argsort(-added, kind="stable")[:N_NAMED]
        return [names[column] for column in best.tolist() if added[column] > 0.0]


class _Classifying:
    """Classifiers that learn from known pairs, and from others as the mixture sees them."""

    def __init__(
        self,
        searched: SearchedRecords,
        mixing: _Mixing,
        settings: Settings,
        progress: Progress,
    ) -> None:
        self._searched = searched
        self._mixing = mixing
        self._settings = settings
        self._progress = progress
        self._rng = np.random.default_rng(settings.seed)
        self._X = searched.records.matrix()
        self.learned = mixing.learned

    def learn(self) -> np.ndarray:
        """Learn classifiers, with the weight that is best on held-out pairs.

        Returns
        -------
        ndarray of shape (n_known,)
            The log odds of known pairs, held out.
        """
        mixing = self._mixing
        unknown = self._unknown()
        models: list[HDSL] = []
        if self._settings.similarity == "learned" and self.learned.agreement.is_wide:
            models = self._similarities()
            near_pairs = [self._near(model, fold) for fold, model in enumerate(models)]
            unknown = unique_pairs(np.concatenate([unknown, *near_pairs]))
        n_jobs = self._settings.n_jobs
        log_odds = self.learned.log_odds(self._searched, unknown, n_jobs)
        pairs = np.concatenate([mixing.known_pairs, unknown])
        log_odds = np.concatenate([mixing.held_out, log_odds])
        targets = self._targets(unknown, log_odds)
        standings = self._searched.standings(pairs, n_jobs)
        if models:
            standings.append(self._standing_as_learned(models, pairs, targets.fold))
        self._progress.stage("learning classifiers")
        words = CrossFittedWords.of_pairs(
            self._searched.records.first_words, pairs, targets
        )
        features = pair_features(
            self._searched,
            pairs,
            standings=standings,
            words=words.held_out,
            n_jobs=n_jobs,
        )
        X = np.column_stack([features.matrix(), log_odds])
        rows = TrainingRows(pairs, X, *targets)
        classifier = PairClassifier(words.model, rows, self._settings.seed)
        of_classifiers = classifier.held_out()
        share = chosen_share(targets, of_classifiers, log_odds)
        if share == 0.0:
            self.learned.model = None
            return mixing.held_out
        self.learned.share = share
        self.learned.classifier = classifier
        known = slice(len(mixing.known_pairs))
        pooled = pooled_log_odds(of_classifiers[known], log_odds[known], share)
        return np.where(np.isnan(pooled), mixing.held_out, pooled)

    def _unknown(self) -> np.ndarray:
        """Return candidates without an answer, a random part of them."""
        candidates = self._mixing.candidates
        n_drawn = min(N_UNKNOWN, len(candidates))
        drawn = self._rng.choice(len(candidates), n_drawn, replace=False)
        return candidates[np.sort(drawn)]

    def _targets(self, unknown: np.ndarray, log_odds: np.ndarray) -> Targets:
        """Return what known pairs are, and what others are by the mixture."""
        mixing = self._mixing
        n_known = len(mixing.known_pairs)
        as_known = calibration(mixing.labels, mixing.held_out)
        labels = np.append(mixing.labels, expit(as_known(log_odds[n_known:])))
        answers = mixing.consequences.answers(unknown)
        is_answered = np.append(np.ones(n_known, dtype=bool), ~np.isnan(answers))
        labels[n_known:] = np.where(np.isnan(answers), labels[n_known:], answers)
        n_others = float((labels[is_answered] == 0.0).sum())
        total = max(WEIGHT_OF_UNKNOWN - n_others, 0.0)
        weight = np.where(is_answered, 1.0, total / max(len(unknown), 1))
        unit = total / max(len(mixing.candidates), total, 1.0)
        labels, weight = with_rate_of_candidates(labels, weight, is_answered, unit)
        fold = folds(
            np.concatenate([mixing.known_pairs, unknown]),
            mixing.consequences,
            self._settings.seed,
        )
        return Targets(labels, fold, weight)

    # --- the similarity ---------------------------------------------------------------

    def _similarities(self) -> list[HDSL]:
        """Return a similarity per fold, learned from the pairs of other folds."""
        lessons, is_match = self._lessons
        fold_of_lesson = folds(lessons, self._mixing.consequences, self._settings.seed)
        models = []
        for fold in range(N_FOLDS):
            self._progress.stage(f"learning, fold {fold + 1} of {N_FOLDS}")
            is_other = fold_of_lesson != fold
            models.append(self._learn_similarity(lessons[is_other], is_match[is_other]))
        return models

    def _near(self, model: HDSL, fold: int) -> np.ndarray:
        """Return pairs of records with a known match of a fold that are near as learned.

        They are what candidates will be.
        """
        mixing = self._mixing
        is_match = (mixing.labels == 1.0) & (mixing.fold == fold)
        records = np.unique(mixing.known_pairs[is_match])
        learned = learned_rows(model, self._searched.records)
        nearest = self._searched.search(learned, records, DEPTH, self._settings.n_jobs)
        rows, ranks = np.nonzero(is_candidate(nearest.neighbors))
        pairs = np.column_stack([rows, nearest.neighbors[rows, ranks]])
        pairs = np.sort(pairs.astype(np.int64), axis=1)
        width = (self._searched.n_records, 1)
        return pairs[~np.isin(pairs @ width, mixing.known_pairs @ width)]

    def _standing_as_learned(
        self, models: list[HDSL], pairs: np.ndarray, fold_of_pair: np.ndarray
    ) -> Standing:
        """Return where pairs stand as learned, each held out, and learn from all pairs.

        Where the cosine finds held-out matches better, it is by the cosine.
        """
        n_jobs = self._settings.n_jobs
        standing = Standing.empty(len(pairs))
        for fold, model in enumerate(models):
            rows = fold_of_pair == fold
            learned = learned_rows(model, self._searched.records)
            _, of_fold = self._searched.standing_as_learned(
                learned, pairs[rows], n_jobs
            )
            standing.fill(rows, of_fold)
        _, cosine = self._searched.standings(pairs, n_jobs)[:2]
        matches = np.flatnonzero(self._mixing.labels == 1.0)
        mrr = (1.0 / standing.rank_left[matches]).mean()
        if mrr < MIN_SHARE_OF_MRR * (1.0 / cosine.rank_left[matches]).mean():
            return cosine
        self._progress.stage("learning, all matches")
        self.learned.model = self._learn_similarity(*self._lessons)
        return standing

    @cached_property
    def _lessons(self) -> tuple[np.ndarray, np.ndarray]:
        """Return known pairs and unlikely ones of the same records, and which match."""
        mixing = self._mixing
        matches = mixing.known_pairs[mixing.labels == 1.0]
        is_near = np.isin(mixing.candidates, matches).any(axis=1)
        near_pairs = mixing.candidates[is_near]
        log_odds = self.learned.log_odds(
            self._searched, near_pairs, self._settings.n_jobs
        )
        answers = mixing.consequences.answers(near_pairs)
        labels = np.where(np.isnan(answers), expit(log_odds), answers)
        is_sure = (labels == 1.0) & ~np.isnan(answers) | (labels <= UNLIKELY)
        pairs = np.concatenate([mixing.known_pairs, near_pairs[is_sure]])
        is_match = np.concatenate([mixing.labels, labels[is_sure]]) > 0.5
        return pairs, is_match

    def _learn_similarity(self, pairs: np.ndarray, is_match: np.ndarray) -> HDSL:
        return learn_similarity(
            self._X,
            pairs,
            is_match,
            self._searched.by_cosine,
            seed=self._settings.seed,
            n_jobs=self._settings.n_jobs,
        )


def learn_similarity(
    X: sp.csr_array,
    pairs: np.ndarray,
    is_match: np.ndarray,
    nearest: NearestRecords,
    *,
    seed: int,
    n_jobs: int | None,
) -> HDSL:
    """Return a similarity learned from a record, its match and one of its nearest others.

    Parameters
    ----------
    X : csr_array of shape (n_records, n_features)
    pairs : ndarray of shape (n_pairs, 2)
    is_match : ndarray of bool of shape (n_pairs,)
    nearest : NearestRecords
        By cosine: only the candidates of a record are learned from.
    seed : int
    n_jobs : int or None
    """
    triplets = link_triplets(pairs, is_match, n_per_link=None)
    anchors = triplets[:, 0]
    negatives = triplets[:, 2:]
    candidates = nearest.neighbors[anchors, :N_CANDIDATES]
    triplets = triplets[(candidates == negatives).any(axis=1)]
    # With a tol of 0 no gap is certified: that takes a third of the time with long
    # texts.
    model = HDSL(prior=PRIOR, solver=Solver(tol=0.0), random_state=seed, n_jobs=n_jobs)
    model.fit(X, triplets=triplets)
    if model.status_ == "interrupted":  # it would be one of several models
        raise KeyboardInterrupt
    return model


def with_rate_of_candidates(
    labels: np.ndarray, weight: np.ndarray, is_answered: np.ndarray, unit: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and weights of pairs, of which matches are not too many.

    Known matches show what matches look like. How many there are, they say as far as
    other pairs are known too; else each counts as one candidate among all.

    Parameters
    ----------
    labels, weight : ndarray of shape (n_pairs,)
        The share of a match in each pair, and its weight.
    is_answered : ndarray of shape (n_pairs,)
        Whether the answer is known.
    unit : float
        What one candidate without an answer weighs.

    Examples
    --------
    >>> labels = np.array([1.0, 1.0, 1.0, 0.5, 0.5])
    >>> weight = np.array([1.0, 1.0, 1.0, 0.1, 0.1])
    >>> labels, weight = with_rate_of_candidates(labels, weight, labels == 1.0, 0.1)
    >>> round(float(weight @ labels), 9), round(float(weight @ (1.0 - labels)), 9)
    (0.4, 0.1)
    """
    of_matches = weight * labels
    of_others = weight - of_matches
    known_share = of_others[is_answered].sum() / max(of_others.sum(), 1e-12)
    counts_as = known_share + (1.0 - known_share) * unit
    wanted = of_matches @ np.where(is_answered, counts_as, 1.0)
    of_matches = of_matches * wanted / max(of_matches.sum(), 1e-12)
    weight = of_matches + of_others
    return of_matches / np.maximum(weight, 1e-12), weight


def calibration(
    labels: np.ndarray, log_odds: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Return log odds as known pairs correct them: by a slope and an intercept.

    Beforehand they are right, up to about a factor of `USUAL_ODDS`. They stay as they are
    where all known pairs match, or none.

    Parameters
    ----------
    labels : ndarray of shape (n_known,)
        1 for a match, else 0.
    log_odds : ndarray of shape (n_known,)
        By what has not seen them.
    """
    if len(np.unique(labels)) < 2:
        return lambda values: values

    def loss(line: np.ndarray) -> float:
        slope, intercept = line
        doubt = (slope - 1.0) ** 2 + (intercept / np.log(USUAL_ODDS)) ** 2
        of_pairs = log_loss(labels, slope * log_odds + intercept)
        return float(of_pairs.sum() + 0.5 * doubt)

    bounds = [(0.0, None), (None, None)]
    slope, intercept = minimize(loss, (1.0, 0.0), bounds=bounds).x
    return lambda values: slope * values + intercept


def chosen_share(
    targets: Targets, of_classifiers: np.ndarray, of_mixture: np.ndarray
) -> float:
    """Return how much classifiers count: by as much as they are surely better.

    The gain is in log loss over the mixture, less two standard errors.

    Parameters
    ----------
    targets : Targets
    of_classifiers : ndarray of shape (n_pairs,)
        Probabilities, held out; NaN where there is none.
    of_mixture : ndarray of shape (n_pairs,)
        Log odds, held out.
    """
    judged = ~np.isnan(of_classifiers)
    labels, _, weight = (column[judged] for column in targets)
    bounds = {}
    losses = {}
    for share in SHARES:
        log_odds = pooled_log_odds(of_classifiers[judged], of_mixture[judged], share)
        losses[share] = log_loss(labels, log_odds)
        gain = weight * (losses[0.0] - losses[share])
        bounds[share] = gain.sum() - MIN_ERRORS * np.sqrt((gain**2).sum())
    return max(bounds, key=bounds.__getitem__)


def log_loss(labels: np.ndarray, log_odds: np.ndarray) -> np.ndarray:
    """Return the log loss of each pair, whose log odds are capped."""
    log_odds = np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    return np.logaddexp(0.0, log_odds) - labels * log_odds


def folds(pairs: np.ndarray, consequences: Consequences, seed: int) -> np.ndarray:
    """Return the fold of each pair, that of its group of matches if it touches one.

    All matches that hang together by records are in one fold, with the other pairs of
    these records.
    """
    rng = np.random.default_rng(seed)
    groups = consequences.thing
    sizes = np.bincount(groups)
    matched = np.flatnonzero(sizes > 1)
    fold_of_group = rng.integers(N_FOLDS, size=len(sizes))
    fold_of_group[matched] = rng.permutation(len(matched)) % N_FOLDS
    left = groups[pairs[:, 0]]
    right = groups[pairs[:, 1]]
    return np.where(sizes[left] > 1, fold_of_group[left], fold_of_group[right])


def held_out_sentence(labels: np.ndarray, log_odds: np.ndarray) -> str:
    """Return how many known pairs are told right by what has not seen them.

    Examples
    --------
    >>> held_out_sentence(np.array([1.0, 1.0, 0.0]), np.array([2.0, -1.0, -3.0]))
    'Held out, 1 of 2 known matches are links, and 0 of 1 known other pairs.'
    """
    is_match = labels == 1.0
    is_link = log_odds >= 0.0
    parts = []
    if is_match.any():
        hits = (is_link & is_match).sum()
        parts.append(f"{hits} of {is_match.sum()} known matches are links")
    if not is_match.all():
        wrong = (is_link & ~is_match).sum()
        parts.append(f"{wrong} of {(~is_match).sum()} known other pairs")
    if len(parts) == 1 and not is_match.any():
        parts[0] += " are links"
    if not parts:
        return ""
    return f"Held out, {', and '.join(parts)}."
