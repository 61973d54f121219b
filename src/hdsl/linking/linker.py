"""The estimator: tables in, matches learned, links out."""

from __future__ import annotations

import json
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_random_state
from threadpoolctl import threadpool_limits

from .. import saving
from ..explain import Explanation, explain
from ..files.container import Arrays, dumps
from ..files.tables import get_array, nested, part_of
from ..hdsl import HDSL
from ..input.errors import warn
from ..input.estimators import LinkedToPages
from ..input.parameters import check_number, check_word
from ..progress import Progress
from ..similarity import FixedPart, Similarity
from ..solver.atoms import NOTHING
from .arrivals import Arrivals
from .assignment import best_assignment, first_free
from .blocks import row_blocks
from .classifiers import CrossFittedClassifier
from .consequences import Consequences
from .contributions import Contributions, contributions, groups_of
from .entities import (
    Entities,
    PairProbabilities,
    belonging,
    components,
    group_records,
    pairs_within,
)
from .known import MIN_MATCHES, N_FOLDS, KnownPairs, TrainingPairs, training_pairs
from .layers import LayeredIndex
from .measures import (
    held_out_sentence,
    orders_as_well,
    recall_sentence,
    recall_table,
    reliability_table,
)
from .mixture import LEARNED_SHARES, MAX_PAIRS, Mixture, fit_mixture, pooled
from .nearest import NearestRecords, Standing
from .pair_features import PairFeatures
from .questions import doubtful_pairs, have_groups, spread_pairs
from .records import MAX_COLUMNS, RecordFeatures
from .results import Links, Measures, as_links, in_form_of, library_of
from .searched import Rewrite, SearchedRecords, check_numbers
from .similarity import learn_similarity, rewrite, widened
from .sure_pairs import SurePairs, draw_sure_pairs
from .tables import Field, Table, Tables, make_table, read_later, read_tables, text_of
from .word_model import WordModel

#: What is learned is not used where it leaves less of the cosine's mean reciprocal
#: rank.
MIN_SHARE_OF_MRR = 0.95

#: What is said where labels are not needed.
MIXTURE_STATEMENT = (
    "Probabilities are those of a mixture of matches and other pairs, fitted without "
    "labels to how alike the columns are."
)

#: By what records are compared.
SIMILARITIES = ("learned", "cosine")

#: Attributes that a file holds as they are.
SAVED = ("columns", "id_column", "statement_", "recall_", "_seed", "_learned_share")


class Linker(LinkedToPages, BaseEstimator):
    """Link the records of two tables, or duplicates in one, by a learned similarity.

    Parameters
    ----------
    columns : list of str, default=None
        Columns to compare. Tables whose columns have different names: name those of
        both. None is all, without `id_column` and columns that only number the rows.
    id_column : str or (str, str), default=None
        Column with a different value per record, or one of each table. Matches name
        records by it, and so do answers.
    similarity : {"learned", "cosine"}, default="learned"
        "cosine" learns only what makes a match, not which words count: it takes less
        time, and mostly finds less.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Threads.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    model_ : HDSL or None
        None if the cosine is used: there were too few matches, it finds held-out
        matches better, or columns tell matches without labels.
    is_learned_ : bool
        Whether something that was learned from matches is used. It is not where there
        were too few of them, or where it is worse on held-out pairs.
    statement_ : str
        What was learned, in a sentence.
    label_report_ : LabelReport
        Known pairs that are listed more than once, that are both match and non-match,
        or that name a record that no table has. The last two are left out.
    recall_ : list of dict
        Of the matches, each held out, the share whose right record is among the first k
        of the left one, by cosine and as learned: k, and (share, low, high) with a 95 %
        interval.
    reliability_ : list of dict
        Held-out pairs by probability: from, to, n, the mean probability, and the share
        that match with its interval.

    Examples
    --------
    >>> left = ["apple iphone 4 black", "canon powershot a590", "sony bravia 40 inch"]
    >>> right = ["Sony 40in Bravia tv", "iPhone 4 (black) by Apple", "Canon A590 camera"]
    >>> links = Linker().fit(left, right).candidates(k=1)
    >>> links.left.tolist(), links.right.tolist()
    ([0, 1, 2], [1, 2, 0])
    """

    def __init__(
        self,
        columns: list[str] | None = None,
        *,
        id_column: Any = None,
        similarity: str = "learned",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.columns = columns
        self.id_column = id_column
        self.similarity = similarity
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        left: Any,
        right: Any = None,
        matches: Any = (),
        non_matches: Any = (),
        *,
        complete: bool = False,
    ) -> Linker:
        """Learn from known matches.

        Parameters
        ----------
        left, right : DataFrame, list of str or of dicts, or mapping of columns
            None as `right` looks for duplicates in `left`.
        matches : array-like of shape (n_matches, 2), default=()
            Pairs that are one thing: left and right row numbers, or ids with
            `id_column`. A pair may be listed twice; one of a record that no table has is
            left out, and so is one that is a non-match, too. A match of a match is a
            match.
        non_matches : array-like of shape (n, 2), default=()
            Pairs known to be different. Without any, or with few, the most similar
            other records of a match count as non-matches.
        complete : bool, default=False
            Whether `matches` has all matches of each record that it names. Then the
            most similar other records are known to be different.

        Returns
        -------
        Linker
        """
        check_word("Linker", "similarity", self.similarity, SIMILARITIES)
        learned = copy(self)  # an error or an interrupt leaves this one as it was
        # Threads of OpenMP that wait for one another take longer.
        with Progress(self.verbose) as progress, threadpool_limits(1, "openmp"):
            progress.stage("reading the tables, searching by cosine")
            tables = read_tables(left, right, self.columns, self.id_column)
            known = KnownPairs(tables, matches, non_matches, is_complete=complete)
            learned._set_data(tables, known, library_of(left))
            learned._search_by_cosine()
            progress.stage("comparing columns")
            learned._compare()
            learned._learn(progress)
            progress.stage("searching as learned")
            learned._search()
        self.__dict__ = learned.__dict__
        for sentence in self.label_report_.sentences():
            warn(sentence)
        return self

    def _set_data(self, tables: Tables, known: KnownPairs, library: str | None) -> None:
        """Take tables and known pairs. Nothing is searched or learned yet.

        `library` is that of the DataFrames of results, None for plain arrays.
        """
        self._tables = tables
        self._library = library
        self._set_known(known)
        self.label_report_ = known.report
        self._texts = tables.texts()
        self._arrival = np.arange(tables.n_records)
        self._indexes: dict[str, LayeredIndex] = {}
        self._lone_features: dict[str, int] | None = None
        self.is_learned_ = False
        self.model_: HDSL | None = None
        self._mixture: Mixture | None = None
        self._classifier: CrossFittedClassifier | None = None
        self._learned_share = 1.0
        self._training: Arrays = {}
        self.recall_ = Measures()
        self.reliability_ = Measures()
        self.statement_ = (
            f"Nothing was learned from {len(known.matches)} matches ({MIN_MATCHES} of "
            "different records are needed): probabilities are cosines divided by "
            "ranks, and only their order means something."
        )

    def _set_known(self, known: KnownPairs) -> None:
        """Take known pairs of the tables, with what follows from them."""
        self._known = known
        self._consequences = Consequences(
            known.matches, known.non_matches, self._tables.n_records
        )

    def _search_by_cosine(self) -> None:
        """Read the records as rows of features, and find the nearest ones of each."""
        self._records = RecordFeatures.of_tables(self._tables)
        self._by_spelling, self._by_cosine = NearestRecords.search_layers(
            self._records, self._tables.n_left, self.n_jobs
        )

    def _compare(self) -> None:
        """Fit a mixture of matches and other pairs to the columns, where they allow it."""
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        candidates = self._by_cosine.candidates()
        if len(candidates) > MAX_PAIRS:
            rng = np.random.default_rng(self._seed)
            sample = rng.choice(len(candidates), MAX_PAIRS, replace=False)
            candidates = candidates[np.sort(sample)]
        n_columns = min(len(self._tables.shared_columns()), MAX_COLUMNS)
        cosine = np.clip(self._by_cosine.standing(candidates).score, 0.01, 0.99)
        cosines = self._records.cosines(candidates)
        self._mixture = fit_mixture(cosines, n_columns, first_guess=cosine**2)
        if self._mixture is not None:
            self.statement_ = MIXTURE_STATEMENT

    def _nearest(self, X: Any, records: Any = None) -> NearestRecords:
        """Return the nearest records of each, or of some, by the rows of X."""
        return NearestRecords.search(X, self._tables.n_left, self.n_jobs, records)

    def _learn(self, progress: Progress) -> None:
        """Learn a similarity and a classifier, each from what the other folds know."""
        candidates = self._by_cosine.candidates()
        known = training_pairs(
            self._known,
            self._consequences,
            candidates,
            self._sure_pairs(candidates),
            self._seed,
        )
        if known is None:
            return
        training = known.for_classifier(self._seed, draws=self._mixture is None)
        self._word_model = WordModel(
            self._records.first_words, training.pairs, training.labels, training.fold
        )
        learned = self._by_cosine.standing(training.pairs)
        if self._mixture is None:
            learned = self._choose_similarity(known, training, progress)
        features = self._pair_features(training.pairs, learned)
        features = features._replace(words=self._word_model.held_out)
        self._training = {
            "pairs": training.pairs,
            "X": features.matrix(),
            "labels": training.labels,
            "fold": training.fold,
        }
        probability = self._fit_classifier()
        if self._mixture is not None:
            self._judge(training, self._mixture, probability)
            return
        by_cosine = features.cosine.score_by_rank()
        if not orders_as_well(training.labels, probability, by_cosine):
            self._drop_learned()
            self.statement_ += (
                " Held-out pairs are ranked worse than by cosine, so nothing that was "
                "learned is used: label more. Probabilities are cosines divided by "
                "ranks, and only their order means something."
            )
        elif len(self._known.non_matches) == 0 and not self._known.is_complete:
            self.statement_ += (
                " Learned from matches alone, probabilities are too high."
            )

    def _choose_similarity(
        self, known: TrainingPairs, training: TrainingPairs, progress: Progress
    ) -> Standing:
        """Learn a similarity, unless the cosine finds held-out matches better.

        Returns
        -------
        Standing
            Where the training pairs stand by what is used.
        """
        learned = self._held_out_standing(known, training, progress)
        cosine = self._by_cosine.standing(training.pairs)
        is_known_match = training.is_match & training.is_known
        learned_rank = learned.rank_left[is_known_match]
        cosine_rank = cosine.rank_left[is_known_match]
        self.recall_ = Measures(recall_table(cosine=cosine_rank, learned=learned_rank))
        self.statement_ = recall_sentence(self.recall_, len(learned_rank))
        mrr = (1 / learned_rank).mean()
        if self.similarity == "cosine":
            self.statement_ += " Records are compared by cosine, as it was asked for."
            return cosine
        if mrr >= MIN_SHARE_OF_MRR * (1 / cosine_rank).mean():
            progress.stage("learning, all matches")
            self.model_ = self._learn_similarity(known)
            return learned
        self.statement_ += (
            " So the cosine is used, and only what makes a match is learned."
        )
        return cosine

    def _sure_pairs(self, candidates: np.ndarray) -> SurePairs | None:
        """Return candidates without an answer that the mixture is sure of."""
        if self._mixture is None or self._known.is_complete:
            return None
        is_unknown = np.isnan(self._consequences.answers(candidates))
        candidates = candidates[is_unknown]
        probability = self._mixture.probability(self._records.cosines(candidates))
        answered = np.concatenate([self._known.matches, self._known.non_matches])
        return draw_sure_pairs(candidates, probability, answered, self._seed)

    def _judge(
        self, training: TrainingPairs, mixture: Mixture, learned: np.ndarray
    ) -> None:
        """Choose how much counts what was learned, and how much the mixture.

        It is what has the least squared error on held-out pairs. Sure pairs stand for
        all that they were drawn from.
        """
        is_judged = ~np.isnan(learned)
        judged = training.take(is_judged)
        learned = learned[is_judged]
        unlearned = mixture.log_odds(self._records.cosines(judged.pairs))
        errors = {}
        for share in LEARNED_SHARES:
            squares = (judged.labels - pooled(learned, unlearned, share)) ** 2
            errors[share] = np.average(squares, weights=judged.stands_for)
        self._learned_share = min(errors, key=errors.__getitem__)
        if self._learned_share == 0.0:
            self._drop_learned()
            self.statement_ += (
                f" What is learned from {len(self._known.matches)} matches is not "
                "used, as it tells held-out pairs no better."
            )
        probability = pooled(learned, unlearned, self._learned_share)
        probability = probability[judged.is_known]
        labels = judged.labels[judged.is_known]
        self.reliability_ = Measures(reliability_table(labels, probability))
        self.statement_ += held_out_sentence(labels, probability)

    def _drop_learned(self) -> None:
        """Use what there is without labels."""
        self.model_ = None
        self._classifier = None
        self._training = {}
        self.is_learned_ = False
        self.reliability_ = Measures()

    def _learn_similarity(self, pairs: TrainingPairs) -> HDSL:
        return learn_similarity(
            self._records.X,
            pairs,
            self._by_cosine,
            seed=self._seed,
            n_jobs=self.n_jobs,
        )

    def _held_out_standing(
        self, known: TrainingPairs, training: TrainingPairs, progress: Progress
    ) -> Standing:
        """Return where pairs stand by similarities learned without their fold."""
        if self.similarity == "cosine":
            return self._by_cosine.standing(training.pairs)
        standing = Standing.empty(len(training.pairs))
        for fold in range(N_FOLDS):
            progress.stage(f"learning, fold {fold + 1} of {N_FOLDS}")
            model = self._learn_similarity(known.take(known.fold != fold))
            rows = training.fold == fold
            pairs = training.pairs[rows]
            nearest = self._nearest(rewrite(model, self._records.X), records=pairs)
            standing.fill(rows, nearest.standing(pairs))
        return standing

    def _pair_features(self, pairs: np.ndarray, learned: Standing) -> PairFeatures:
        return PairFeatures(
            learned=learned,
            cosine=self._by_cosine.standing(pairs),
            spelling=self._by_spelling.standing(pairs),
            overlap=self._records.overlap(pairs),
            strings=self._records.strings.compare(pairs, self.n_jobs),
            words=self._word_model.log_odds(self._records.first_words, pairs),
        )

    def _fit_classifier(self) -> np.ndarray:
        """Learn from the training pairs; return their held-out probabilities."""
        X = self._training["X"]
        labels = self._training["labels"]
        fold = self._training["fold"]
        self._classifier = CrossFittedClassifier(
            X,
            labels,
            fold,
            self._seed,
            n_jobs=self.n_jobs,
        )
        self.is_learned_ = True
        probability = self._classifier.held_out(X, fold)
        self.reliability_ = Measures(reliability_table(labels, probability))
        return probability

    def _search(self) -> None:
        """Find the candidates and their probabilities."""
        self._by_learned = self._by_cosine
        if self.model_ is not None:
            self._by_learned = self._nearest(rewrite(self.model_, self._records.X))
        known = [self._known.matches, self._known.non_matches]
        pairs = np.concatenate([self._by_learned.candidates(), *known])
        self._candidates = np.unique(pairs, axis=0)
        self._probability = self._probability_of(self._candidates)

    def _probability_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the probability of pairs; known pairs have what is known."""
        probability = np.empty(len(pairs))
        for rows in row_blocks(len(pairs)):
            probability[rows] = self._new_probability(pairs[rows])
        answers = self._consequences.answers(pairs)
        return np.where(np.isnan(answers), probability, answers)

    def _new_probability(self, pairs: np.ndarray) -> np.ndarray:
        """Return the probability of pairs as if none of them was known."""
        if self._classifier is not None:
            standing = self._by_learned.standing(pairs)
            features = self._pair_features(pairs, learned=standing)
            rows = [features.matrix(), self._unlearned_log_odds(pairs)]
            return self._probability_of_rows(np.column_stack(rows))
        if self._mixture is not None:
            return self._mixture.probability(self._records.cosines(pairs))
        return self._by_learned.standing(pairs).score_by_rank()

    def predict(self, threshold: float = 0.5, *, one_to_one: bool = False) -> Any:
        """Return all candidates from a probability on, the most likely first.

        Each record has its ten nearest of the other table as candidates, the first of
        equals, and known pairs. Known matches have the probability 1, and known
        non-matches 0.

        Parameters
        ----------
        threshold : float, default=0.5
        one_to_one : bool, default=False
            Each record is in at most one pair: the pairs with the largest sum of
            probabilities. In one table, the most likely pair first, then the next that
            is free.

        Returns
        -------
        Links or DataFrame
        """
        check_is_fitted(self, "statement_")
        check_number("predict", "threshold", threshold, low=0)
        if not self._has_probabilities:
            warn(self.statement_)
        order = np.argsort(-self._probability, kind="stable")
        order = order[self._probability[order] >= threshold]
        if one_to_one and len(order):
            order = self._one_to_one(order)
        return self._links(self._candidates[order], self._probability[order])

    def link(self, new: Any, threshold: float = 0.5, *, side: str = "right") -> Any:
        """Return the links of new records with those that were fitted.

        Nothing is learned, no earlier record is searched for again, and the new ones do
        not stay. Probabilities are those after `add`, by what was learned and by the
        words that the fitted tables have. The first call prepares the search.

        Parameters
        ----------
        new : DataFrame, list of str or of dicts, or mapping of columns
            Records with the columns of the table whose side they are on. Without a
            column of ids they are numbered after those of the table.
        threshold : float, default=0.5
            Least probability of a link.
        side : {"right", "left"}, default="right"
            The table that the new records belong to. Of one table, new records are
            linked with one another too.

        Returns
        -------
        Links or DataFrame
            The most likely first.

        Examples
        --------
        >>> left = ["apple iphone 4 black", "canon powershot a590", "sony bravia tv"]
        >>> right = ["Sony 40in Bravia", "iPhone 4 (black) by Apple", "Canon A590"]
        >>> links = Linker().fit(left, right).link(["sony bravia television"], 0.0)
        >>> int(links.left[0]), int(links.right[0])
        (2, 3)
        """
        check_is_fitted(self, "statement_")
        check_number("link", "threshold", threshold, low=0)
        arrivals = self._arrivals(new, side)
        candidates = arrivals.candidates()
        earlier = np.unique(candidates[candidates < self._tables.n_records])
        meeting = arrivals.meet(earlier)
        together = self._together(meeting.searched)
        pairs = meeting.renumbered(candidates)
        probability = together._probability_of(pairs)
        order = np.argsort(-probability, kind="stable")
        order = order[probability[order] >= threshold]
        return together._links(pairs[order], probability[order])

    def add(self, new: Any, *, side: str = "right") -> Linker:
        """Keep new records: from now on they are linked like those that were fitted.

        Nothing is learned, and no earlier record is searched for again. Records without
        an id are numbered after those of their table.

        Parameters
        ----------
        new : DataFrame, list of str or of dicts, or mapping of columns
            As in `link`.
        side : {"right", "left"}, default="right"

        Returns
        -------
        Linker
        """
        check_is_fitted(self, "statement_")
        arrivals = self._arrivals(new, side)
        n_earlier = self._tables.n_records
        meeting = arrivals.meet(np.arange(n_earlier))
        grown = self._together(meeting.searched)
        grown._texts = grown._tables.texts()
        grown._set_known(self._known.renumbered(meeting.numbers))
        grown._arrival = np.empty(len(meeting.numbers), dtype=np.int64)
        grown._arrival[meeting.numbers[:n_earlier]] = self._arrival
        later = np.arange(n_earlier, len(meeting.numbers))
        grown._arrival[meeting.numbers[n_earlier:]] = later
        if self._training:
            training_pairs = meeting.renumbered(self._training["pairs"])
            grown._training = self._training | {"pairs": training_pairs}
        new_pairs = arrivals.candidates()
        pairs = meeting.renumbered(np.concatenate([self._candidates, new_pairs]))
        earlier = self._probability
        probability = np.concatenate([earlier, np.full(len(new_pairs), np.nan)])
        grown._candidates, first = np.unique(pairs, axis=0, return_index=True)
        grown._probability = probability[first]
        # Pairs of records that have a new one among their nearest stand elsewhere now.
        changed = np.concatenate([arrivals.met(), arrivals.changed])
        is_changed = np.isin(grown._candidates, meeting.numbers[changed])
        rows = is_changed.any(axis=1) | np.isnan(grown._probability)
        grown._probability[rows] = grown._probability_of(grown._candidates[rows])
        self.__dict__ = grown.__dict__
        return self

    def _arrivals(self, new: Any, side: str) -> Arrivals:
        """Return new records, searched for among those that were fitted."""
        table = read_later(new, self._tables, self.id_column, side)
        searched = self._searched()
        if side not in self._indexes:
            self._indexes[side] = searched.side_index(side)
        if self._lone_features is None:
            self._lone_features = searched.lone_features()
        return Arrivals(
            searched,
            self._indexes[side],
            self._lone_features,
            table,
            side,
            rewrite=self._rewrite(),
            n_jobs=self.n_jobs,
        )

    def _rewrite(self) -> Rewrite | None:
        """Return what makes rows of the learned similarity; None if it is the cosine."""
        if self.model_ is None:
            return None
        return partial(rewrite, self.model_)

    def _searched(self) -> SearchedRecords:
        return SearchedRecords(
            tables=self._tables,
            records=self._records,
            by_spelling=self._by_spelling,
            by_cosine=self._by_cosine,
            by_learned=self._by_learned,
        )

    def _together(self, searched: SearchedRecords) -> Linker:
        """Return what was learned, for other records of which no pair is known."""
        linker = copy(self)
        linker._tables = searched.tables
        linker._records = searched.records
        linker._by_spelling = searched.by_spelling
        linker._by_cosine = searched.by_cosine
        linker._by_learned = searched.by_learned
        linker._set_known(KnownPairs(searched.tables, (), ()))
        linker._indexes = {}
        linker._lone_features = None
        return linker

    def _one_to_one(self, order: np.ndarray) -> np.ndarray:
        """Return candidates in their order, each record at most once."""
        pairs = self._candidates[order]
        if self._tables.is_single:
            return order[first_free(pairs)]
        # A known match counts more than all others together.
        is_match = self._known.answers(pairs) == 1.0
        n_left = len(np.unique(pairs[:, 0]))
        worth = self._probability[order] + n_left * is_match
        return order[best_assignment(pairs, worth)]

    def _links(self, pairs: np.ndarray, probability: np.ndarray) -> Any:
        """Return links in the form of the left table: a DataFrame, or `Links`."""
        left, right = self._tables.ids(pairs)
        return in_form_of(Links(left, right, probability), self._library)

    def entities(self, threshold: float = 0.5, *, one_to_one: bool = False) -> Any:
        """Return which records are one thing, by groups with numbers that stay.

        Groups are merged while the mean probability of the pairs between them reaches
        the threshold, so that one wrong link does not chain two entities together. An
        entity has the number of its oldest record: those of the left table, then those
        of the right one, then those that were added. So added records rename no entity;
        `entity_changes` says which were merged or split.

        Parameters
        ----------
        threshold : float, default=0.5
        one_to_one : bool, default=False
            Each entity has at most one record of either table, as in `predict`.

        Returns
        -------
        Entities or DataFrame

        Examples
        --------
        >>> linker = Linker().fit(["red apple pie", "blue berry jam", "red apple pie"])
        >>> linker.entities().entity.tolist()
        [0, 1, 0]
        """
        check_is_fitted(self, "statement_")
        check_number("entities", "threshold", threshold, low=0)
        n_records = self._tables.n_records
        is_left = np.arange(n_records) < self._tables.n_left
        is_linked = self._probability >= threshold
        known = PairProbabilities(self._candidates, self._probability)
        if one_to_one:
            order = self._one_to_one(np.flatnonzero(is_linked))
            known = PairProbabilities(self._candidates[order], self._probability[order])
        else:
            linked = components(self._candidates[is_linked], n_records)
            known = self._with_pairs(known, pairs_within(linked, is_left))
        groups = group_records(known, is_left, threshold)
        oldest = np.full(n_records, np.iinfo(np.int64).max)
        np.minimum.at(oldest, groups, self._arrival)
        sides = np.where(is_left, "left", "right")
        entities = Entities(
            table=sides,
            record=self._tables.record_ids(),
            entity=oldest[groups],
            probability=belonging(known, groups, is_left),
        )
        return in_form_of(entities, self._library)

    def _with_pairs(
        self, known: PairProbabilities, pairs: np.ndarray
    ) -> PairProbabilities:
        """Return the probabilities of the candidates and of more pairs, each once."""
        every, first = np.unique(
            np.concatenate([known.pairs, pairs]), axis=0, return_index=True
        )
        probability = np.empty(len(every))
        is_known = first < len(known.pairs)
        probability[is_known] = known.probability[first[is_known]]
        probability[~is_known] = self._probability_of(every[~is_known])
        return PairProbabilities(every, probability)

    def predict_proba(self, pairs: Any) -> np.ndarray:
        """Return the probability that pairs of ids are one thing, shape (n_pairs,)."""
        check_is_fitted(self, "statement_")
        return self._probability_of(self._tables.pairs(pairs, "pairs"))

    def candidates(self, k: int = 10) -> Any:
        """Return the k most likely right records of each left one, best first.

        Of one table, each record has its most likely duplicates, so that a pair may
        come twice.
        """
        check_is_fitted(self, "statement_")
        check_number("candidates", "k", k, low=1, integer=True)
        pairs = self._candidates
        probability = self._probability
        if self._tables.is_single:
            pairs = np.concatenate([pairs, pairs[:, ::-1]])
            probability = np.tile(probability, 2)
        order = np.lexsort((-probability, pairs[:, 0]))
        left = pairs[order, 0]
        rank = np.arange(len(left)) - np.searchsorted(left, left)
        best = order[rank < k]
        return self._links(pairs[best], probability[best])

    def to_label(self, n: int = 20) -> Any:
        """Return the pairs most worth asking a person about.

        They are the least certain ones, each record at most once. Where things have
        several records, they are all likely pairs of a record, so that the answers tell
        its whole group. Where no probability is known yet, they are pairs that are best
        for both records, from the most to the least alike.
        """
        check_is_fitted(self, "statement_")
        check_number("to_label", "n", n, low=1, integer=True)
        is_unknown = np.isnan(self._consequences.answers(self._candidates))
        pairs = self._candidates[is_unknown]
        probability = self._probability[is_unknown]
        if self._has_probabilities:
            by_record = have_groups(self._candidates, self._probability)
            chosen = doubtful_pairs(pairs, probability, n, by_record=by_record)
        else:
            chosen = spread_pairs(pairs, probability, n)
        return self._links(pairs[chosen], probability[chosen])

    @property
    def _has_probabilities(self) -> bool:
        """Whether probabilities mean more than an order."""
        return self._classifier is not None or self._mixture is not None

    def explain(self, left: Any, right: Any, *, top: int | None = 10) -> Explanation:
        """Return the words, n-grams and pairs of them that make two records alike.

        They add up to the similarity that was learned, or to the cosine.
        """
        check_is_fitted(self, "statement_")
        X = self._records.X
        first, second = self._tables.pairs([(left, right)], "explain")[0]
        if self.model_ is None:
            cosine = FixedPart("prior", 1.0, norm="l2")
            similarity = Similarity(*NOTHING, 1.0, (cosine,), X.shape[1])
        else:
            similarity = widened(self.model_, X.shape[1])
        names = self._records.vocabulary.names
        return explain(
            similarity, X[[first]], X[[second]], feature_names=names, top=top
        )

    def explain_probability(self, left: Any, right: Any) -> Contributions:
        """Return what pushed the probability of a pair up or down, in log odds.

        Each group of numbers, by which the classifiers compare two records, has how
        much it adds to the log odds of known pairs. Of a known pair it is the
        probability that it would have otherwise.

        Raises
        ------
        ValueError
            If the probability is not that of classifiers: nothing was learned.
        """
        check_is_fitted(self, "statement_")
        if self._classifier is None:
            raise ValueError(
                "No probability was learned that could be explained: `explain` has the "
                "parts of the cosine."
            )
        pairs = self._tables.pairs([(left, right)], "explain_probability")
        standing = self._by_learned.standing(pairs)
        features = self._pair_features(pairs, learned=standing)
        row = np.append(features.matrix()[0], self._unlearned_log_odds(pairs))
        known = self._training["pairs"]
        background = np.column_stack(
            [self._training["X"], self._unlearned_log_odds(known)]
        )
        strings = self._records.strings.comparisons
        groups = groups_of(
            [
                *features.standing_names(),
                *self._records.overlap_names(),
                *((each.subject, each.names) for each in strings),
                ("single words", ["log odds"]),
                ("mixture of columns", ["log odds"]),
            ]
        )
        return contributions(
            self._probability_of_rows, row, background, groups, self._seed
        )

    def _unlearned_log_odds(self, pairs: np.ndarray) -> np.ndarray:
        """Return the log odds of pairs by the mixture, 0 where there is none."""
        if self._mixture is None:
            return np.zeros(len(pairs))
        return self._mixture.log_odds(self._records.cosines(pairs))

    def _probability_of_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the probability of pairs by their features and then their log odds."""
        assert self._classifier is not None
        learned = self._classifier.probability(rows[:, :-1])
        if self._mixture is None:
            return learned
        return pooled(learned, rows[:, -1], self._learned_share)

    def reasons(self, left: Any, right: Any, n: int = 6) -> list[tuple[str, float]]:
        """Return the words and pairs of words that make two records most alike.

        Each has how much it adds. What character n-grams add is one number, called
        "spelling".
        """
        values = {"spelling": 0.0}
        # A word may be learned, and in the cosine too.
        for part in self.explain(left, right).parts:
            name = "spelling"
            if self._records.vocabulary.are_words([part["i"], part["j"]]):
                name = str(part["name"])
            values[name] = values.get(name, 0.0) + float(part["value"])
        return sorted(values.items(), key=lambda item: -abs(item[1]))[:n]

    def fields(self, left: Any, right: Any) -> list[Field]:
        """Return the columns of two records, side by side, those of both tables first."""
        check_is_fitted(self, "statement_")
        first, second = self._tables.records([(left, right)], "fields")[0].tolist()
        return self._tables.fields(first, second)

    def records(self, links: Any) -> list[dict[str, Any]]:
        """Return links to read, or to write as a table: with texts, and what is known.

        Each has the keys left, right, probability, left_text, right_text and known,
        "yes" or "".
        """
        links = as_links(links)
        ends = self._tables.records(links, "links")
        is_match = self._known.answers(np.sort(ends, axis=1)) == 1.0
        probability = links.probability.round(4)
        return [
            {
                "left": links.left[k],
                "right": links.right[k],
                "probability": probability[k],
                "left_text": self._texts[left],
                "right_text": self._texts[right],
                "known": "yes" if is_match[k] else "",
            }
            for k, (left, right) in enumerate(ends.tolist())
        ]

    # --- files ------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the tables and what was learned to one file; ``hdsl.load`` reads it."""
        saving.save(self, path)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the tables, the known pairs, the model, and the training pairs."""
        check_is_fitted(self, "statement_")
        model_arrays: Arrays = {}
        model_header = None
        if self.model_ is not None:
            model_arrays, model_header = self.model_.to_arrays()
        state = {name: getattr(self, name) for name in SAVED}
        state["tables"] = [
            [[*table.columns.items()], _plain_ids(table.ids)]
            for table in self._tables.each
        ]
        state["known"] = [
            self._plain_pairs(self._known.matches),
            self._plain_pairs(self._known.non_matches),
        ]
        state["model"] = model_header
        state["library"] = self._library
        state["vocabulary"] = self._records.vocabulary.names
        state["column_kinds"] = self._records.strings.column_kinds
        mixture_arrays: Arrays = {}
        if self._mixture is not None:
            mixture_arrays = self._mixture.to_arrays()
        text = dumps(state).encode("utf-8", "surrogatepass")
        arrays: Arrays = {"state": np.frombuffer(text, dtype=np.uint8)}
        arrays["arrival"] = self._arrival
        arrays |= nested(
            training=self._training,
            model=model_arrays,
            mixture=mixture_arrays,
            searched=self._searched().to_arrays(),
            candidates={"pairs": self._candidates, "probability": self._probability},
        )
        return arrays, {}

    def _plain_pairs(self, pairs: np.ndarray) -> list[tuple[Any, Any]]:
        """Return the ids of pairs as a file holds them."""
        left, right = self._tables.ids(pairs)
        return [*zip(_plain_ids(left), _plain_ids(right), strict=True)]

    @classmethod
    def from_arrays(cls, arrays: Arrays, header: dict[str, Any]) -> Linker:
        """Return what `to_arrays` was called on; the classifiers learn anew."""
        state = json.loads(arrays["state"].tobytes().decode("utf-8", "surrogatepass"))
        linker = cls()
        tables = Tables(*(_table_of_file(*table) for table in state["tables"][:2]))
        matches, non_matches = state["known"]
        known = KnownPairs(tables, matches, non_matches)
        linker._set_data(tables, known, state["library"])
        for name in SAVED:
            setattr(linker, name, state[name])
        linker.recall_ = Measures(linker.recall_)
        linker._training = part_of(arrays, "training")
        mixture_arrays = part_of(arrays, "mixture")
        if mixture_arrays:
            linker._mixture = Mixture.from_arrays(mixture_arrays)
        if state["model"] is not None:
            linker.model_ = HDSL.from_arrays(part_of(arrays, "model"), state["model"])
        searched = SearchedRecords.from_arrays(
            part_of(arrays, "searched"),
            tables,
            state["vocabulary"],
            state["column_kinds"],
            linker._rewrite(),
        )
        arrival = get_array(arrays, "arrival", "iu", (tables.n_records,))
        linker._arrival = check_numbers(arrival, tables.n_records, "arrival")
        candidates = part_of(arrays, "candidates")
        pairs = get_array(candidates, "pairs", "iu", (None, 2))
        linker._candidates = check_numbers(pairs, tables.n_records, "candidates")
        linker._probability = get_array(candidates, "probability", "f", (len(pairs),))
        linker._records = searched.records
        linker._by_spelling = searched.by_spelling
        linker._by_cosine = searched.by_cosine
        linker._by_learned = searched.by_learned
        with threadpool_limits(1, "openmp"):  # as in `fit`: by threads sums differ
            if linker._training:
                linker._word_model = WordModel(
                    linker._records.first_words,
                    linker._training["pairs"],
                    linker._training["labels"],
                    linker._training["fold"],
                )
                linker._fit_classifier()
        return linker


def _plain_ids(ids: np.ndarray) -> list[Any]:
    """Return ids as a file holds them: dates and the like as text."""
    return [
        value if isinstance(value, str | int | float) else text_of(value)
        for value in ids.tolist()
    ]


def _table_of_file(columns: list[tuple[str, list[str]]], ids: list[Any]) -> Table:
    """Return a table as `Linker.to_arrays` stores it."""
    return make_table(dict(columns), ids)
