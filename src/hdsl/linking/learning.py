"""What is learned from known pairs: a similarity, and classifiers of pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..hdsl import HDSL
from ..progress import Progress
from .candidates import SearchedRecords
from .consequences import Consequences
from .features import MAX_COLUMNS
from .known import (
    MIN_MATCHES,
    N_FOLDS,
    KnownPairs,
    TrainingPairs,
    training_pairs,
    unanswered_pairs,
)
from .learned import Learned, PairClassifier, TrainingRows, pair_features, word_models
from .measures import (
    held_out_sentence,
    orders_as_well,
    recall_sentence,
    recall_table,
    reliability_table,
)
from .mixture import LEARNED_SHARES, MAX_PAIRS, Mixture, fit_mixture, pooled
from .nearest import NearestRecords, Standing
from .rank_odds import PAYS_FROM, RankOdds, learned_share
from .results import Measures
from .similarity import learn_similarity, learned_rows
from .sure_pairs import SurePairs, draw_sure_pairs

#: What is learned is not used where it leaves less of the cosine's mean reciprocal
#: rank.
MIN_SHARE_OF_MRR = 0.95

#: What was learned is not used where fewer matches are ahead of pairs that nobody
#: answered, by the cosine or as learned. By the cosine it is at least 0.6 on three
#: benchmarks with one match of most records, and at most 0.4 on one whose records have
#: unlisted matches.
MIN_SHARE_FIRST = 0.5

#: What is said where labels are not needed.
MIXTURE_STATEMENT = (
    "Probabilities are those of a mixture of matches and other pairs, fitted without "
    "labels to how alike the columns are."
)


#: What is said where probabilities are none.
ONLY_ORDER = (
    "Probabilities are cosines divided by ranks, and only their order means something."
)


class Settings(NamedTuple):
    """How it is learned: `similarity` is "learned" or "cosine"."""

    similarity: str
    seed: int
    n_jobs: int | None


def compare_columns(
    searched: SearchedRecords, seed: int, n_jobs: int | None
) -> Mixture | None:
    """Return a mixture of matches and other pairs, where the columns allow it."""
    candidates = searched.by_cosine.candidates()
    if len(candidates) > MAX_PAIRS:
        rng = np.random.default_rng(seed)
        sample = rng.choice(len(candidates), MAX_PAIRS, replace=False)
        candidates = candidates[np.sort(sample)]
    n_columns = min(len(searched.tables.shared_columns()), MAX_COLUMNS)
    _, similarity = searched.similarities(candidates, n_jobs)
    cosine = np.clip(similarity, 0.01, 0.99)
    cosines = searched.records.cosines(candidates, n_jobs)
    return fit_mixture(cosines, n_columns, first_guess=cosine**2)


def learn(
    searched: SearchedRecords,
    known: KnownPairs,
    mixture: Mixture | None,
    settings: Settings,
    progress: Progress,
) -> Learned:
    """Return what known pairs teach.

    Parameters
    ----------
    searched : SearchedRecords
        By cosine, not yet as learned.
    known : KnownPairs
    mixture : Mixture or None
    settings : Settings
    progress : Progress
    """
    learning = _Learning(searched, known, mixture, settings, progress)
    learning.learn()
    return learning.learned


class _Learning:
    """A similarity and classifiers, each learned from what the other folds know."""

    def __init__(
        self,
        searched: SearchedRecords,
        known: KnownPairs,
        mixture: Mixture | None,
        settings: Settings,
        progress: Progress,
    ) -> None:
        self._searched = searched
        self._known = known
        self._consequences = Consequences(
            known.matches, known.non_matches, searched.tables.n_records
        )
        self._n_things = len(np.unique(self._consequences.thing[known.matches]))
        self._mixture = mixture
        self._settings = settings
        self._progress = progress
        statement = MIXTURE_STATEMENT
        if mixture is None:
            statement = (
                f"Nothing was learned from {len(known.matches)} matches ({MIN_MATCHES} "
                f"of different records are needed). {ONLY_ORDER}"
            )
        self.learned = Learned(settings.seed, statement, mixture)

    def learn(self) -> None:
        """Learn a similarity, then classifiers, and keep what held-out pairs speak for."""
        known = self._training_pairs()
        if known is None:
            return
        training = known.for_classifier(
            self._settings.seed, draws=self._mixture is None
        )
        if self._mixture is None:
            training, standing = self._choose_similarity(known, training)
            standings = self._standings(training.pairs)
            if self._are_others_nearer(training, (standings[1], standing)):
                return
            standings.append(standing)
        else:
            standings = self._standings(training.pairs)
        self._progress.stage("learning classifiers")
        classifier = self._learn_classifier(training, standings)
        probability = classifier.held_out(self._settings.n_jobs)
        self.learned.classifier = classifier
        self.learned.reliability = Measures(
            reliability_table(training.labels, probability)
        )
        if self._mixture is not None:
            self._choose_share(training, self._mixture, probability)
        else:
            self._join_cosine(training, probability, standings[1])

    def _standings(self, pairs: np.ndarray) -> list[Standing]:
        """Return where pairs stand by spelling and by the cosine."""
        return self._searched.standings(pairs, self._settings.n_jobs)

    def _cosines(self, pairs: np.ndarray) -> np.ndarray:
        """Return how alike pairs are, by block of features."""
        return self._searched.records.cosines(pairs, self._settings.n_jobs)

    def _are_others_nearer(
        self, training: TrainingPairs, standings: tuple[Standing, ...]
    ) -> bool:
        """Return, and say, whether most matches are behind pairs that nobody answered.

        They are so by all of some similarities. These pairs may be matches as well, and
        would be learned as non-matches.
        """
        shares = [training.share_first(standing.score) for standing in standings]
        if max(shares) >= MIN_SHARE_FIRST:
            return False
        self.learned.forget()
        self._add_sentence(
            "Most have nearer records, of which nobody said whether they match, so "
            "nothing that was learned is used: label non-matches too, or name all "
            f"matches of each record. {ONLY_ORDER}"
        )
        return True

    def _training_pairs(self) -> TrainingPairs | None:
        """Return the pairs to learn from; None where matches are too few."""
        candidates = self._searched.by_cosine.candidates()
        return training_pairs(
            self._known,
            self._consequences,
            candidates,
            self._sure_pairs(candidates),
            self._settings.seed,
        )

    def _sure_pairs(self, candidates: np.ndarray) -> SurePairs | None:
        """Return candidates without an answer that the mixture is sure of."""
        if self._mixture is None or self._known.is_complete:
            return None
        is_unknown = np.isnan(self._consequences.answers(candidates))
        candidates = candidates[is_unknown]
        probability = self._mixture.probability(self._cosines(candidates))
        answered = np.concatenate([self._known.matches, self._known.non_matches])
        return draw_sure_pairs(candidates, probability, answered, self._settings.seed)

    # --- the similarity ---------------------------------------------------------------

    def _choose_similarity(
        self, known: TrainingPairs, training: TrainingPairs
    ) -> tuple[TrainingPairs, Standing]:
        """Learn a similarity, unless the cosine finds held-out matches better.

        Returns
        -------
        TrainingPairs
            With what is near by the similarity that is used.
        Standing
            Where they stand by it.
        """
        X = self._searched.records.matrix()
        _, cosine = self._standings(training.pairs)
        is_known_match = training.is_match & training.is_known
        cosine_rank = cosine.rank_left[is_known_match]
        learned_rank = cosine_rank
        if self._settings.similarity == "learned":
            near_pairs, standing = self._held_out_standing(X, known, training)
            learned_rank = standing.rank_left[near_pairs.is_match & near_pairs.is_known]
        recall = recall_table(cosine=cosine_rank, learned=learned_rank)
        self.learned.recall = Measures(recall)
        self.learned.statement = recall_sentence(recall, len(learned_rank))
        mrr = (1 / learned_rank).mean()
        if self._settings.similarity == "cosine":
            self._add_sentence("Records are compared by cosine, as it was asked for.")
            return training, cosine
        if mrr >= MIN_SHARE_OF_MRR * (1 / cosine_rank).mean():
            self._progress.stage("learning, all matches")
            self.learned.model = self._learn_similarity(X, known)
            return near_pairs, standing
        self._add_sentence(
            "So the cosine is used, and only what makes a match is learned."
        )
        return training, cosine

    def _held_out_standing(
        self, X: sp.csr_array, known: TrainingPairs, training: TrainingPairs
    ) -> tuple[TrainingPairs, Standing]:
        """Return where pairs stand by similarities learned without their fold.

        What is near a match by them joins the training pairs, as candidates will be near
        by what is learned.
        """
        n_jobs = self._settings.n_jobs
        standings = [Standing.empty(len(training.pairs))]
        joined = training
        for fold in range(N_FOLDS):
            self._progress.stage(f"learning, fold {fold + 1} of {N_FOLDS}")
            model = self._learn_similarity(X, known.take(known.fold != fold))
            rows = training.fold == fold
            pairs = training.pairs[rows]
            learned = learned_rows(model, self._searched.records)
            nearest, standing = self._searched.standing_as_learned(
                learned, pairs, n_jobs
            )
            standings[0].fill(rows, standing)
            others = self._near_pairs(known, nearest, fold)
            _, standing = self._searched.standing_as_learned(learned, others, n_jobs)
            standings.append(standing)
            joined = joined.with_others(others, fold, self._known.is_complete)
        return joined, Standing.concatenate(standings)

    def _near_pairs(
        self, known: TrainingPairs, nearest: NearestRecords, fold: int
    ) -> np.ndarray:
        """Return new pairs near the matches of a fold that count as non-matches."""
        share = known.near_share
        if self._known.is_complete:
            share = 1.0
        is_match = known.is_match & known.is_known & (known.fold == fold)
        near_pairs = unanswered_pairs(
            nearest.candidates(), known.pairs[is_match], self._consequences
        )
        n_records = self._searched.tables.n_records
        codes = near_pairs @ (n_records, 1)
        near_pairs = near_pairs[~np.isin(codes, known.pairs @ (n_records, 1))]
        rng = np.random.default_rng(self._settings.seed + fold)
        return near_pairs[rng.random(len(near_pairs)) < share]

    def _learn_similarity(self, X: sp.csr_array, pairs: TrainingPairs) -> HDSL:
        return learn_similarity(
            X,
            pairs,
            self._searched.by_cosine,
            seed=self._settings.seed,
            n_jobs=self._settings.n_jobs,
        )

    # --- the classifiers --------------------------------------------------------------

    def _learn_classifier(
        self, training: TrainingPairs, standings: list[Standing]
    ) -> PairClassifier:
        """Return classifiers of the training pairs, by their held-out numbers."""
        words = word_models(
            self._searched.records, training.pairs, training.labels, training.fold
        )
        features = pair_features(
            self._searched,
            training.pairs,
            standings=standings,
            words=words.held_out,
            n_jobs=self._settings.n_jobs,
        )
        rows = TrainingRows(
            pairs=training.pairs,
            X=features.matrix(),
            labels=training.labels,
            fold=training.fold,
        )
        return PairClassifier.of_rows(words.model, rows, self._settings.seed)

    def _join_cosine(
        self, training: TrainingPairs, learned: np.ndarray, cosine: Standing
    ) -> None:
        """Let the cosine count too where matches are few, or alone where it is better."""
        by_cosine = cosine.score_by_rank()
        rank_odds = RankOdds.of_pairs(by_cosine, training.labels)
        share = learned_share(self._n_things)
        probability = pooled(learned, rank_odds.log_odds(by_cosine), share)
        if not orders_as_well(training.labels, probability, by_cosine):
            self.learned.forget()
            self._add_sentence(
                "Held-out pairs are ranked worse than by cosine, so nothing that was "
                f"learned is used: label more. {ONLY_ORDER}"
            )
            return
        if share < 1.0:
            self.learned.share = share
            self.learned.rank_odds = rank_odds
            reliability = reliability_table(training.labels, probability)
            self.learned.reliability = Measures(reliability)
            self._add_sentence(
                f"{self._n_things} matches are few: what is learned counts for "
                f"{100 * share:.0f} %, and the cosine for the rest."
            )
            if self._n_things < PAYS_FROM:
                self._add_sentence(
                    f"Fewer than {PAYS_FROM} rarely teach more than the cosine knows: "
                    "label more."
                )
        if len(self._known.non_matches) == 0 and not self._known.is_complete:
            self._add_sentence(
                "Learned from matches alone, probabilities are too high."
            )

    def _choose_share(
        self, training: TrainingPairs, mixture: Mixture, learned: np.ndarray
    ) -> None:
        """Choose how much counts what was learned, and how much the mixture.

        It is what has the least squared error on held-out pairs. Sure pairs stand for
        all that they were drawn from.
        """
        is_judged = ~np.isnan(learned)
        judged = training.take(is_judged)
        learned = learned[is_judged]
        unlearned = mixture.log_odds(self._cosines(judged.pairs))
        errors = {}
        for share in LEARNED_SHARES:
            squares = (judged.labels - pooled(learned, unlearned, share)) ** 2
            errors[share] = np.average(squares, weights=judged.stands_for)
        share = min(errors, key=errors.__getitem__)
        self.learned.share = share
        if share == 0.0:
            self.learned.forget()
            self._add_sentence(
                f"What is learned from {len(self._known.matches)} matches is not "
                "used, as it tells held-out pairs no better."
            )
        probability = pooled(learned, unlearned, share)[judged.is_known]
        labels = judged.labels[judged.is_known]
        self.learned.reliability = Measures(reliability_table(labels, probability))
        self.learned.statement += held_out_sentence(labels, probability)

    def _add_sentence(self, sentence: str) -> None:
        self.learned.statement += f" {sentence}"
