"""What was learned of records, and how probable it makes pairs."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np

from ..files.container import Arrays
from ..files.tables import nested, part_of
from ..hdsl import HDSL
from .blocks import row_blocks
from .candidates import SearchedRecords
from .classifiers import CrossFittedClassifier
from .features import RecordFeatures
from .mixture import Mixture, pooled
from .nearest import Standing
from .pair_features import PairFeatures
from .rank_odds import RankOdds
from .results import Measures
from .word_model import CrossFittedWords, WordModel


class TrainingRows(NamedTuple):
    """Pairs that classifiers learn from: their numbers X, labels and folds."""

    pairs: np.ndarray
    X: np.ndarray
    labels: np.ndarray
    fold: np.ndarray


class PairClassifier:
    """The classifiers of pairs, and the model of words that is one of their numbers.

    Parameters
    ----------
    words : WordModel
        Fitted to the pairs of `training`.
    training : TrainingRows
    classifier : CrossFittedClassifier
        Learned from these.
    """

    def __init__(
        self,
        words: WordModel,
        training: TrainingRows,
        classifier: CrossFittedClassifier,
    ) -> None:
        self.words = words
        self.training = training
        self._classifier = classifier

    @classmethod
    def of_rows(
        cls, words: WordModel, training: TrainingRows, seed: int
    ) -> PairClassifier:
        """Return what training rows teach."""
        classifier = CrossFittedClassifier.of_pairs(
            training.X, training.labels, training.fold, seed
        )
        return cls(words, training, classifier)

    @classmethod
    def of_training(
        cls, records: RecordFeatures, training: TrainingRows, seed: int
    ) -> PairClassifier:
        """Return what training rows alone teach, all over again."""
        words = word_models(records, training.pairs, training.labels, training.fold)
        return cls.of_rows(words.model, training, seed)

    def renumbered(self, numbers: np.ndarray) -> PairClassifier:
        """Return the same after records have got new numbers."""
        classifier = copy(self)
        pairs = np.sort(numbers[self.training.pairs], axis=1)
        classifier.training = self.training._replace(pairs=pairs)
        return classifier

    def held_out(self, n_jobs: int | None) -> np.ndarray:
        """Return the probabilities of the training pairs, each without its fold."""
        return self._classifier.held_out(self.training.X, self.training.fold, n_jobs)

    def probability(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the probability of pairs by their numbers."""
        return self._classifier.probability(X, n_jobs)

    def features(
        self, searched: SearchedRecords, pairs: np.ndarray, n_jobs: int | None
    ) -> PairFeatures:
        """Return the numbers of pairs of records that were searched."""
        return pair_features(
            searched,
            pairs,
            standings=searched.standings(pairs, n_jobs),
            words=self.words.log_odds(searched.records.first_words, pairs, n_jobs),
            n_jobs=n_jobs,
        )

    def to_arrays(self) -> Arrays:
        """Return what a file holds but for the training rows; nothing: it learns anew."""
        trees = self._classifier.to_arrays()
        if trees is None:
            return {}
        return nested(words=self.words.to_arrays(), trees=trees)

    @classmethod
    def from_arrays(cls, arrays: Arrays, training: TrainingRows) -> PairClassifier:
        """Return what `to_arrays` was called on; raise ValueError if it is none."""
        n_features = training.X.shape[1]
        return cls(
            WordModel.from_arrays(part_of(arrays, "words")),
            training,
            CrossFittedClassifier.from_arrays(part_of(arrays, "trees"), n_features),
        )


class Learned:
    """What was learned, which says how probable pairs are.

    Probabilities are those of classifiers, of a mixture, or between both; where there
    are few matches and no mixture, between those of classifiers and of the cosine. If
    there are none of these, they are scores divided by ranks, and only their order means
    something.

    Parameters
    ----------
    seed : int
        Of all that is random.
    statement : str
        What was learned, in a sentence.
    mixture : Mixture or None

    Attributes
    ----------
    model : HDSL or None
        The similarity that was learned; None if it is the cosine.
    classifier : PairClassifier or None
    share : float
        How much the classifiers count; the mixture or the cosine has the rest.
    rank_odds : RankOdds or None
        Log odds by the cosine, where they count.
    recall, reliability : Measures
        Of held-out pairs.
    """

    def __init__(self, seed: int, statement: str, mixture: Mixture | None) -> None:
        self.seed = seed
        self.statement = statement
        self.mixture = mixture
        self.model: HDSL | None = None
        self.classifier: PairClassifier | None = None
        self.share = 1.0
        self.rank_odds: RankOdds | None = None
        self.recall = Measures()
        self.reliability = Measures()

    @property
    def is_learned(self) -> bool:
        """Whether something that was learned from matches is used."""
        return self.classifier is not None

    @property
    def has_probabilities(self) -> bool:
        """Whether probabilities mean more than an order."""
        return self.classifier is not None or self.mixture is not None

    def renumbered(self, numbers: np.ndarray) -> Learned:
        """Return the same after records have got new numbers."""
        learned = copy(self)
        if self.classifier is not None:
            learned.classifier = self.classifier.renumbered(numbers)
        return learned

    def forget(self) -> None:
        """Use what there is without labels."""
        self.model = None
        self.classifier = None
        self.rank_odds = None
        self.reliability = Measures()

    def probability(
        self, searched: SearchedRecords, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the probability of pairs, shape (n_pairs,), as if none was known."""
        probability = np.empty(len(pairs))
        for rows in row_blocks(len(pairs)):
            probability[rows] = self._probability(searched, pairs[rows], n_jobs)
        return probability

    def _probability(
        self, searched: SearchedRecords, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        if self.classifier is not None:
            rows = self.rows(searched, pairs, n_jobs)
            return self.probability_of_rows(rows, n_jobs)
        if self.mixture is not None:
            return self.mixture.probability(searched.records.cosines(pairs, n_jobs))
        return searched.standings(pairs, n_jobs)[-1].score_by_rank()

    def rows(
        self, searched: SearchedRecords, pairs: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return what probabilities depend on: the numbers of pairs, then their log odds.

        The log odds are those without labels, 0 where they do not count.
        """
        assert self.classifier is not None
        features = self.classifier.features(searched, pairs, n_jobs)
        log_odds = self.unlearned_log_odds(
            searched.records, pairs, features.cosine, n_jobs
        )
        return np.column_stack([features.matrix(), log_odds])

    def probability_of_rows(self, rows: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the probability of pairs by what `rows` returns."""
        assert self.classifier is not None
        learned = self.classifier.probability(rows[:, :-1], n_jobs)
        if self.mixture is None and self.rank_odds is None:
            return learned
        return pooled(learned, rows[:, -1], self.share)

    def unlearned_log_odds(
        self,
        records: RecordFeatures,
        pairs: np.ndarray,
        cosine: Standing,
        n_jobs: int | None,
    ) -> np.ndarray:
        """Return the log odds of pairs by the mixture or the cosine, 0 without both.

        `cosine` is where the pairs stand by it.
        """
        if self.mixture is not None:
            return self.mixture.log_odds(records.cosines(pairs, n_jobs))
        if self.rank_odds is not None:
            return self.rank_odds.log_odds(cosine.score_by_rank())
        return np.zeros(len(pairs))


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


def word_models(
    records: RecordFeatures, pairs: np.ndarray, labels: np.ndarray, fold: np.ndarray
) -> CrossFittedWords:
    """Return models of the words of pairs."""
    return CrossFittedWords.of_pairs(records.first_words, pairs, labels, fold)
